"""The paper's experiments: each as data, played and measured in two presets, and the reproduction that they are part of."""

from klazy.studies.paper.definitions import EXPERIMENTS, PRESETS, Experiment, Settings, experiment
from klazy.studies.paper.measure import Outcome, Paid, certified, play

__all__ = [
    "EXPERIMENTS",
    "PRESETS",
    "Experiment",
    "Outcome",
    "Paid",
    "Settings",
    "certified",
    "experiment",
    "play",
]
