"""Replay: what learners and rules of thumb would have paid on a trace, each tuned on its first part."""

from klazy.studies.replay.report import Saving
from klazy.studies.replay.score import Best
from klazy.studies.replay.setup import Setup, make_setup
from klazy.studies.replay.source import Source
from klazy.studies.replay.walk import Fold

__all__ = ["Best", "Fold", "Saving", "Setup", "Source", "make_setup"]
