"""Learners, costs and movements that few problems need, baselines that look ahead, and their bounds.

They are tested, and saved agents find them. But the bar is lower here than for the rest of klazy: most of the learners have no
compiled version, so a round takes longer, and names or arguments may change between releases. Start with :func:`~klazy.auto`.
"""

from klazy.contrib.guarantees import (
    LongTermCertificate,
    MirrorCertificate,
    budget_lower_bound,
    budget_sigma,
    budgeted_bound,
    certify_long_term,
    certify_mirror,
    switch_bound,
    switch_lower_bound,
    switch_sigma,
)
from klazy.contrib.learners.adaptive import SteadyAdaptive, StronglyAdaptive
from klazy.contrib.learners.coin import CoinBetting
from klazy.contrib.learners.mirror import Entropy, Geometry, MirrorMemory
from klazy.contrib.learners.wrappers import Advice, Blocks, Budgeted, LongTerm
from klazy.contrib.lookahead import (
    GOBD,
    OBD,
    RHGD,
    ROBD,
    AveragingHorizon,
    LazyCapacity,
    LookAhead,
    LookAheadSAder,
    RecedingHorizon,
    run_ahead,
)
from klazy.costs import FilteredCosts, HingeCosts, LogisticCosts
from klazy.families import Hinge, Logistic, WeightedQuadratic
from klazy.game.discrete import sample_actions, sample_whole
from klazy.game.game import Game
from klazy.hindsight.frontier import best_with_path_length
from klazy.learners.bandit import Bandit
from klazy.learners.better import BetterOfTwo
from klazy.learners.centred import CentredOMD
from klazy.learners.delayed import Delayed
from klazy.learners.patient import Patient
from klazy.learners.presets import ader, ensemble_auto, scream
from klazy.movement import DriftedMovement, ImpactMovement, MahalanobisMovement, WeightedL2Movement
from klazy.sets.balls import Space
from klazy.theory.bounds import coin_betting_bound

# Learners, and functions that make them.
__all__ = ["Advice", "Bandit", "BetterOfTwo", "Blocks", "Budgeted", "CentredOMD", "CoinBetting", "Delayed"]
__all__ += [
    "Entropy",
    "Geometry",
    "LongTerm",
    "MirrorMemory",
    "Patient",
    "SteadyAdaptive",
    "StronglyAdaptive",
]
__all__ += ["ader", "ensemble_auto", "scream"]
# Costs, movements and a set.
__all__ += ["FilteredCosts", "Hinge", "HingeCosts", "Logistic", "LogisticCosts", "Space", "WeightedQuadratic"]
__all__ += ["DriftedMovement", "ImpactMovement", "MahalanobisMovement", "WeightedL2Movement"]
# Baselines that look ahead, and other ways to play a game.
__all__ += ["GOBD", "OBD", "RHGD", "ROBD", "AveragingHorizon", "Game", "LazyCapacity", "LookAhead"]
__all__ += ["LookAheadSAder", "RecedingHorizon", "best_with_path_length", "run_ahead"]
__all__ += ["sample_actions", "sample_whole"]
# Bounds and certificates.
__all__ += ["LongTermCertificate", "MirrorCertificate", "certify_long_term", "certify_mirror"]
__all__ += ["budget_lower_bound", "budget_sigma", "budgeted_bound", "coin_betting_bound"]
__all__ += ["switch_bound", "switch_lower_bound", "switch_sigma"]
