"""Learners: frozen configurations with a pure ``step`` that reads like the algorithm box.

A name imported ``as`` itself is for the rest of klazy; users find it in klazy.types, klazy.memories or klazy.contrib.
"""

from klazy.learners.autoregressive import Autoregressive as Autoregressive
from klazy.learners.bandit import Bandit as Bandit
from klazy.learners.base import Learner as Learner
from klazy.learners.centred import CentredOMD
from klazy.learners.delayed import Delayed as Delayed
from klazy.learners.following import FollowForecast as FollowForecast
from klazy.learners.ftrl import KLazyFTRL
from klazy.learners.gd import GD, LazyGD
from klazy.learners.klazy import KLazyGD
from klazy.learners.leader import Leader as Leader
from klazy.learners.memory import Clip as Clip
from klazy.learners.memory import Clock as Clock
from klazy.learners.memory import Decay as Decay
from klazy.learners.memory import Event as Event
from klazy.learners.memory import Memory as Memory
from klazy.learners.memory import MemoryGD
from klazy.learners.planning import Planning as Planning
from klazy.learners.presets import auto, sader, sader_k
from klazy.learners.reluctant import Reluctant as Reluctant
from klazy.learners.rolling import RollingMax, RollingQuantile
from klazy.learners.sader import SAder
from klazy.learners.seasonal import Seasonal as Seasonal
from klazy.learners.thumb import DeadBand, Fixed, LastValue, MinimumHold, MovingAverage
from klazy.learners.thumb import FollowTheLeader as FollowTheLeader
from klazy.learners.thumb import Periodic as Periodic

__all__ = [
    "GD",
    "CentredOMD",
    "DeadBand",
    "Fixed",
    "KLazyFTRL",
    "KLazyGD",
    "LastValue",
    "LazyGD",
    "MemoryGD",
    "MinimumHold",
    "MovingAverage",
    "RollingMax",
    "RollingQuantile",
    "SAder",
    "auto",
    "sader",
    "sader_k",
]
