"""Replay: what learners and rules of thumb would have paid on a trace, each tuned on its first part."""

from klazy.studies.replay.report import Report, Saving, replay
from klazy.studies.replay.score import Best
from klazy.studies.replay.setup import Setup, make_setup
from klazy.studies.replay.source import Source
from klazy.studies.replay.walk import Fold
from klazy.studies.tuning import Score

__all__ = ["Best", "Fold", "Report", "Saving", "Score", "Setup", "Source", "make_setup", "replay"]
