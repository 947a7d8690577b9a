"""The paper's experiments: each as data, played and measured in two presets."""

from klazy.experiments.definitions import EXPERIMENTS, PRESETS, Experiment, experiment
from klazy.experiments.measure import Outcome, Paid, play

__all__ = ["EXPERIMENTS", "PRESETS", "Experiment", "Outcome", "Paid", "experiment", "play"]
