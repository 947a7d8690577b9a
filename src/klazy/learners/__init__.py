"""Learners: frozen configurations with a pure ``step`` that reads like the algorithm box."""

from klazy.learners.advice import Advice
from klazy.learners.bandit import Bandit
from klazy.learners.base import Descent, Learner, State
from klazy.learners.better import BetterOfTwo
from klazy.learners.blocks import Blocks
from klazy.learners.budgeted import Budgeted
from klazy.learners.centred import CentredOMD
from klazy.learners.coin import CoinBetting
from klazy.learners.cover import StronglyAdaptive
from klazy.learners.delayed import Delayed
from klazy.learners.ftrl import KLazyFTRL
from klazy.learners.gd import GD, LazyGD
from klazy.learners.klazy import KLazyGD
from klazy.learners.leader import Leader
from klazy.learners.longterm import LongTerm
from klazy.learners.memory import Clip, Clock, Decay, Event, Forget, Full, Memory, MemoryGD
from klazy.learners.mirror import Entropy, Geometry, MirrorMemory
from klazy.learners.patient import Patient
from klazy.learners.presets import (
    ader,
    auto,
    ensemble_auto,
    meta_rate,
    product_grid,
    sader,
    sader_k,
    scream,
    sigma_grid,
)
from klazy.learners.reluctant import Reluctant
from klazy.learners.sader import SAder
from klazy.learners.seasonal import Seasonal
from klazy.learners.steady import SteadyAdaptive
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
    "Advice",
    "Bandit",
    "BetterOfTwo",
    "Blocks",
    "Budgeted",
    "CentredOMD",
    "Clip",
    "Clock",
    "CoinBetting",
    "DeadBand",
    "Decay",
    "Delayed",
    "Descent",
    "Entropy",
    "Event",
    "Fixed",
    "FollowTheLeader",
    "Forget",
    "Full",
    "Geometry",
    "KLazyFTRL",
    "KLazyGD",
    "LastValue",
    "LazyGD",
    "Leader",
    "Learner",
    "LongTerm",
    "Memory",
    "MemoryGD",
    "MinimumHold",
    "MirrorMemory",
    "MovingAverage",
    "Patient",
    "Periodic",
    "Reluctant",
    "SAder",
    "Seasonal",
    "State",
    "SteadyAdaptive",
    "StronglyAdaptive",
    "ader",
    "auto",
    "ensemble_auto",
    "meta_rate",
    "product_grid",
    "sader",
    "sader_k",
    "scream",
    "sigma_grid",
]
