"""Environments: recipes for a set, a sequence of costs and the comparator to measure against."""

from klazy.environments.phases import Scenario, corrupted, stochastic

__all__ = ["Scenario", "corrupted", "stochastic"]
