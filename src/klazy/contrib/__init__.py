"""Learners, costs and movements that few problems need, baselines that look ahead, and their bounds.

They are tested, and saved agents find them. But the bar is lower here than for the rest of klazy: most of the learners, except
for the parts of :func:`~klazy.auto`, have no compiled version, so a round takes longer, and names or arguments may change
between releases. Start with :func:`~klazy.auto`.
"""

from klazy.contrib.advised import AdaptiveSwitching, LookAheadInterpolation
from klazy.contrib.deadlines import (
    CLIP,
    RORO,
    Conversion,
    ConversionRule,
    FollowPlan,
    Job,
    PauseResume,
    Run,
    RunAtOnce,
    SpreadEvenly,
    Threshold,
    best_conversion,
    clip_threshold,
    convert,
    pause_thresholds,
    ramp_threshold,
)
from klazy.contrib.forecaster import Forecaster, Refit
from klazy.contrib.guarantees import (
    LongTermBound,
    LongTermCertificate,
    MirrorCertificate,
    budget_lower_bound,
    budget_sigma,
    budgeted_bound,
    certify_long_term,
    certify_mirror,
    long_term_bound,
    long_term_sigma,
    maler_bound,
    newton_bound,
    newton_gamma,
    strongly_convex_bound,
    switch_bound,
    switch_lower_bound,
    switch_sigma,
    sword_bound,
)
from klazy.contrib.learners.adaptive import SteadyAdaptive, StronglyAdaptive
from klazy.contrib.learners.clusters import TreeDescent
from klazy.contrib.learners.coin import CoinBetting
from klazy.contrib.learners.mirror import Entropy, Geometry, MirrorMemory
from klazy.contrib.learners.newton import Maler, OnlineNewton
from klazy.contrib.learners.optimistic import (
    OptimisticGD,
    OptimisticHedge,
    sword,
    sword_plus_plus,
)
from klazy.contrib.learners.states import BlockedArms, OneState, Stay, WorkFunction
from klazy.contrib.learners.wealth import (
    OLMAR,
    PAMR,
    BuyAndHold,
    SoftBayes,
    UniformRebalanced,
    exponentiated_gradient,
    newton_shares,
)
from klazy.contrib.learners.wrappers import Advice, Blocks, Budgeted, LongTerm
from klazy.contrib.lookahead import (
    GOBD,
    OBD,
    RHAG,
    RHGD,
    ROBD,
    AveragingHorizon,
    LazyBudgeting,
    LazyCapacity,
    LookAhead,
    LookAheadSAder,
    PlayNext,
    RandomizedCapacity,
    RecedingHorizon,
    run_ahead,
)
from klazy.contrib.ratios import budgeting_ratio, greedy_ratio, robd_pulls, robd_ratio
from klazy.costs import FilteredCosts, HingeCosts, LinearCosts, LogisticCosts
from klazy.families import Hinge, Logistic, WeightedQuadratic
from klazy.game.discrete import sample_actions, sample_whole
from klazy.game.game import Game
from klazy.hindsight.frontier import best_with_path_length
from klazy.learners.autoregressive import Autoregressive
from klazy.learners.bandit import Bandit
from klazy.learners.better import BetterOfTwo
from klazy.learners.delayed import Delayed
from klazy.learners.following import FollowForecast
from klazy.learners.interpolation import Interpolation
from klazy.learners.leader import Leader
from klazy.learners.patient import Patient
from klazy.learners.planning import Planning
from klazy.learners.presets import ader, ensemble_auto, scream
from klazy.learners.reluctant import Reluctant
from klazy.learners.rolling import PodAutoscaler
from klazy.learners.seasonal import Seasonal
from klazy.learners.thumb import FollowTheLeader, Periodic
from klazy.movement import (
    AsymmetricMovement,
    DriftedMovement,
    FiniteMetric,
    ImpactMovement,
    MahalanobisMovement,
    SquaredMovement,
    SwitchFee,
    WeightedL2Movement,
)
from klazy.schedules import Proportional
from klazy.sets.balls import Space
from klazy.theory.bounds import coin_betting_bound

# Learners.
__all__ = ["Bandit", "CoinBetting", "Delayed", "MirrorMemory", "Patient", "PodAutoscaler"]
# What auto is made of: experts that forecast, and the learner that follows one of them.
__all__ += ["Autoregressive", "Leader", "Planning", "Reluctant", "Seasonal"]
# Rules of thumb that are rarely the best.
__all__ += ["FollowTheLeader", "Periodic"]
# It follows forecasts that it is given.
__all__ += ["FollowForecast"]
# Forecasts by models of other packages.
__all__ += ["Forecaster", "Refit"]
# Rules for shares of wealth.
__all__ += ["OLMAR", "PAMR", "BuyAndHold", "SoftBayes", "UniformRebalanced"]
__all__ += ["exponentiated_gradient", "newton_shares"]
# Learners for costs that curve, and a schedule.
__all__ += ["Maler", "OnlineNewton", "Proportional"]
# Learners for smooth costs that change slowly.
__all__ += ["OptimisticGD", "OptimisticHedge", "sword", "sword_plus_plus"]
# Rules for a few states without order.
__all__ += ["BlockedArms", "OneState", "Stay", "TreeDescent", "WorkFunction"]
# Geometries of MirrorMemory.
__all__ += ["Entropy", "Geometry"]
# Learners around learners.
__all__ += ["Advice", "BetterOfTwo", "Blocks", "Budgeted", "Interpolation", "LongTerm"]
__all__ += ["SteadyAdaptive", "StronglyAdaptive"]
# Ensembles to compare with.
__all__ += ["ader", "ensemble_auto", "scream"]
# A set.
__all__ += ["Space"]
# Costs.
__all__ += [
    "FilteredCosts",
    "Hinge",
    "HingeCosts",
    "LinearCosts",
    "Logistic",
    "LogisticCosts",
    "WeightedQuadratic",
]
# Movements.
__all__ += ["AsymmetricMovement", "SquaredMovement", "SwitchFee"]
__all__ += [
    "DriftedMovement",
    "FiniteMetric",
    "ImpactMovement",
    "MahalanobisMovement",
    "WeightedL2Movement",
]
# Baselines that look ahead.
__all__ += ["GOBD", "OBD", "RHAG", "RHGD", "ROBD"]
__all__ += ["AdaptiveSwitching", "LookAheadInterpolation"]
__all__ += [
    "AveragingHorizon",
    "LazyBudgeting",
    "LazyCapacity",
    "LookAhead",
    "LookAheadSAder",
    "PlayNext",
]
__all__ += ["RandomizedCapacity", "RecedingHorizon", "run_ahead"]
# Jobs with a deadline, which see each price before they decide.
__all__ += [
    "CLIP",
    "RORO",
    "Conversion",
    "ConversionRule",
    "FollowPlan",
    "Job",
    "PauseResume",
    "Run",
]
__all__ += ["RunAtOnce", "SpreadEvenly", "Threshold", "best_conversion", "clip_threshold"]
__all__ += ["convert", "pause_thresholds", "ramp_threshold"]
# Games, the best sequence of a given length, and actions drawn from a run.
__all__ += ["Game", "best_with_path_length", "sample_actions", "sample_whole"]
# Bounds.
__all__ += ["budget_lower_bound", "budget_sigma", "budgeted_bound", "coin_betting_bound"]
__all__ += ["switch_bound", "switch_lower_bound", "switch_sigma", "sword_bound"]
__all__ += ["LongTermBound", "long_term_bound", "long_term_sigma"]
__all__ += ["maler_bound", "newton_bound", "newton_gamma", "strongly_convex_bound"]
__all__ += ["budgeting_ratio", "greedy_ratio", "robd_pulls", "robd_ratio"]
# Certificates.
__all__ += ["LongTermCertificate", "MirrorCertificate", "certify_long_term", "certify_mirror"]
