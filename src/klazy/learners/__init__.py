"""Learners: frozen configurations with a pure ``step`` that reads like the algorithm box."""

from klazy.learners.bandit import Bandit
from klazy.learners.base import Descent, Learner
from klazy.learners.centred import CentredOMD
from klazy.learners.delayed import Delayed
from klazy.learners.ftrl import KLazyFTRL
from klazy.learners.gd import GD, LazyGD
from klazy.learners.klazy import KLazyGD
from klazy.learners.leader import Leader
from klazy.learners.memory import Clip, Clock, Decay, Event, Forget, Full, Memory, MemoryGD
from klazy.learners.patient import Patient
from klazy.learners.presets import auto, sader, sader_k
from klazy.learners.reluctant import Reluctant
from klazy.learners.sader import SAder
from klazy.learners.seasonal import Seasonal
from klazy.learners.thumb import (
    DeadBand,
    Fixed,
    FollowTheLeader,
    LastValue,
    MinimumHold,
    MovingAverage,
    Periodic,
)

__all__ = [
    "GD",
    "Bandit",
    "CentredOMD",
    "Clip",
    "Clock",
    "DeadBand",
    "Decay",
    "Delayed",
    "Descent",
    "Event",
    "Fixed",
    "FollowTheLeader",
    "Forget",
    "Full",
    "KLazyFTRL",
    "KLazyGD",
    "LastValue",
    "LazyGD",
    "Leader",
    "Learner",
    "Memory",
    "MemoryGD",
    "MinimumHold",
    "MovingAverage",
    "Patient",
    "Periodic",
    "Reluctant",
    "SAder",
    "Seasonal",
    "auto",
    "sader",
    "sader_k",
]
