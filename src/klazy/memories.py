"""The memories of :class:`~klazy.MemoryGD`: how much of the past its next decision still counts."""

from klazy.learners.memory import Clip, Clock, Decay, Event, Forget, Full

__all__ = [
    "Clip",
    "Clock",
    "Decay",
    "Event",
    "Forget",
    "Full",
]
