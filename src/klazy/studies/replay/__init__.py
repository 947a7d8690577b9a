"""Replay: what learners and rules of thumb would have paid on a trace, each tuned on its first part."""

from klazy.studies.replay.game import Game, game
from klazy.studies.replay.score import Replay, Score, replay
from klazy.studies.replay.source import Source

__all__ = ["Game", "Replay", "Score", "Source", "game", "replay"]
