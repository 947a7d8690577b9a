"""Environments: recipes for a set, a sequence of costs and the comparator to measure against."""

from klazy.sequences.adversary import alternating, phases_of_length, rotating, square_wave, square_wave_regret
from klazy.sequences.phases import Scenario, corrupted, stochastic

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
