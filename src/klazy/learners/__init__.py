"""Learners: frozen configurations with a pure ``step`` that reads like the algorithm box."""

from klazy.learners.base import Learner, State
from klazy.learners.ftrl import KLazyFTRL
from klazy.learners.gd import GD, LazyGD
from klazy.learners.klazy import KLazyGD
from klazy.learners.memory import Clip, Clock, Decay, Event, Forget, Full, Memory, MemoryGD

__all__ = [
    "GD",
    "Clip",
    "Clock",
    "Decay",
    "Event",
    "Forget",
    "Full",
    "KLazyFTRL",
    "KLazyGD",
    "LazyGD",
    "Learner",
    "Memory",
    "MemoryGD",
    "State",
]
