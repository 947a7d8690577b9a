"""Environments: recipes for a set, a sequence of costs and the comparator to measure against."""

from klazy.sequences.adversary import alternating, phases_of_length, rotating, square_wave, square_wave_regret
from klazy.sequences.curved import (
    DelayCosts,
    RegressionCosts,
    data_centre,
    drifting_regression,
    sea,
    tracking,
)
from klazy.sequences.phases import Scenario, corrupted, stochastic

__all__ = [
    "DelayCosts",
    "RegressionCosts",
    "Scenario",
    "alternating",
    "corrupted",
    "data_centre",
    "drifting_regression",
    "phases_of_length",
    "rotating",
    "sea",
    "square_wave",
    "square_wave_regret",
    "stochastic",
    "tracking",
]
