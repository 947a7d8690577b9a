"""The paper's experiments: each as data, played and measured in two presets, and the reproduction that they are part of."""

from klazy.studies.paper.definitions import (
    EXPERIMENTS,
    PRESETS,
    Experiment,
    Outcome,
    Paid,
    PaperSettings,
    certify_outcome,
    make_experiment,
    play_experiment,
)

__all__ = [
    "EXPERIMENTS",
    "PRESETS",
    "Experiment",
    "Outcome",
    "Paid",
    "PaperSettings",
    "certify_outcome",
    "make_experiment",
    "play_experiment",
]
