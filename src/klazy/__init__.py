"""Smoothed online learning: decisions that should hold still, because changing one's mind costs something."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

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
from klazy.game.batch import Batch, run_batch
from klazy.game.discrete import sample_actions
from klazy.game.regret import Regret, competitive_ratio, regret
from klazy.game.run import run, run_many
from klazy.game.trace import Totals, Trace
from klazy.hindsight import (
    Fixed,
    Frontier,
    GapNotReached,
    Optimum,
    best_fixed,
    best_with_path_length,
    frontier,
    offline_optimum,
)
from klazy.hindsight.lookahead import (
    OBD,
    ROBD,
    AveragingHorizon,
    LookAhead,
    LookAheadSAder,
    RecedingHorizon,
    run_ahead,
)
from klazy.learners import (
    GD,
    CentredOMD,
    Clip,
    Clock,
    Decay,
    Descent,
    Event,
    Forget,
    Full,
    KLazyFTRL,
    KLazyGD,
    LazyGD,
    Learner,
    Memory,
    MemoryGD,
    SAder,
    StronglyAdaptive,
    ader,
    auto,
    meta_rate,
    product_grid,
    sader,
    sader_k,
    scream,
    sigma_grid,
)
from klazy.live import Guards, TornJournal
from klazy.live.agent import Agent
from klazy.movement import (
    AsymmetricMovement,
    L1Movement,
    L2Movement,
    Movement,
    SwitchFee,
    TVMovement,
    WeightedL2Movement,
)
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
from klazy.theory import certify, certify_experts

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from klazy.studies.sweep import Study, Sweep, load_sweep, sweep

_OF_SWEEPS = (
    "Study",
    "Sweep",
    "load_sweep",
    "sweep",
)  # which need pydantic: they are imported when they are asked for


def __getattr__(name: str) -> _Any:
    if name not in _OF_SWEEPS:
        raise AttributeError(f"module 'klazy' has no attribute {name!r}")
    try:
        from klazy.studies import sweep as sweeps
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"{name} needs {missing.name}, which is not installed; pip install 'klazy[cli]'."
        ) from missing
    return getattr(sweeps, name)


def __dir__() -> list[str]:
    return [*globals(), *_OF_SWEEPS]
