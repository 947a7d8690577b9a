"""Environments: recipes for a set, a sequence of costs and the comparator to measure against."""

from klazy.environments.adversary import alternating, phases_of_length, rotating, square_wave, square_wave_regret
from klazy.environments.phases import Scenario, corrupted, stochastic

__all__ = [
    "Scenario",
    "alternating",
    "corrupted",
    "phases_of_length",
    "rotating",
    "square_wave",
    "square_wave_regret",
    "stochastic",
]
