"""Smoothed online learning: decisions that should hold still, because changing one's mind costs something."""

from klazy.agent import Agent
from klazy.costs import (
    CallableCosts,
    Costs,
    HingeCosts,
    LinearCosts,
    LogisticCosts,
    LogWealthCosts,
    PinballCosts,
    QuadraticCosts,
)
from klazy.learners import (
    GD,
    Clip,
    Clock,
    Decay,
    Event,
    Forget,
    Full,
    KLazyFTRL,
    KLazyGD,
    LazyGD,
    Learner,
    Memory,
    MemoryGD,
)
from klazy.movement import (
    AsymmetricMovement,
    L1Movement,
    L2Movement,
    Movement,
    SwitchFee,
    TVMovement,
    WeightedL2Movement,
)
from klazy.play import run, run_many
from klazy.schedules import Constant, Doubling, ScaleFree, Schedule, Sqrt
from klazy.sets import (
    Box,
    CappedSimplex,
    ConvexSet,
    Intersection,
    L1Ball,
    L2Ball,
    NotConverged,
    Polytope,
    Product,
    Simplex,
)
from klazy.trace import Regret, Totals, Trace, regret

__version__ = "0.1.0"
