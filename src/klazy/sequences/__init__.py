"""Environments: recipes for a set, a sequence of costs and the comparator to measure against."""

from klazy.sequences.adversary import (
    alternating,
    phases_of_length,
    rotating,
    square_wave,
    square_wave_regret,
)
from klazy.sequences.curved import (
    DelayCosts,
    RegressionCosts,
    data_centre,
    drifting_regression,
    sea,
    tracking,
)
from klazy.sequences.phases import Scenario, corrupted, stochastic

__all__ = ["Scenario"]
# The paper's experiments and examples.
__all__ += ["alternating", "corrupted", "phases_of_length", "rotating", "stochastic"]
__all__ += ["square_wave", "square_wave_regret"]
# Costs that are not linear.
__all__ += [
    "DelayCosts",
    "RegressionCosts",
    "data_centre",
    "drifting_regression",
    "sea",
    "tracking",
]
