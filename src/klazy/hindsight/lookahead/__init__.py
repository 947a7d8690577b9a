"""Baselines that see f_t, and perhaps more, before they play round t. No learner may, so they are types of their own.

They say how good a decision could be with that knowledge, and stand beside learners only where a table says so.
"""

from klazy.hindsight.lookahead.balanced import GOBD, OBD, ROBD
from klazy.hindsight.lookahead.base import LookAhead, run_ahead
from klazy.hindsight.lookahead.capacity import LazyCapacity
from klazy.hindsight.lookahead.ensemble import LookAheadSAder
from klazy.hindsight.lookahead.gradients import RHGD
from klazy.hindsight.lookahead.horizons import AveragingHorizon, RecedingHorizon

__all__ = [
    "GOBD",
    "OBD",
    "RHGD",
    "ROBD",
    "AveragingHorizon",
    "LazyCapacity",
    "LookAhead",
    "LookAheadSAder",
    "RecedingHorizon",
    "run_ahead",
]
