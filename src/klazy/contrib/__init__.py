"""Research learners, baselines that look ahead, and their bounds. The bar is lower here than for the rest of klazy.

They are tested, and saved agents find them. But most have no compiled version, so a round takes longer; some suit few problems;
and what they are called, or how they are built, may change between releases. Start with :func:`~klazy.auto`.
"""

from klazy.contrib.bounds.budgets import (
    budget_lower_bound,
    budget_sigma,
    budgeted_bound,
    switch_bound,
    switch_lower_bound,
    switch_sigma,
)
from klazy.contrib.bounds.longterm import LongTermCertificate, certify_long_term
from klazy.contrib.bounds.mirror import MirrorCertificate, certify_mirror
from klazy.contrib.learners.advice import Advice
from klazy.contrib.learners.blocks import Blocks
from klazy.contrib.learners.budgeted import Budgeted
from klazy.contrib.learners.coin import CoinBetting
from klazy.contrib.learners.cover import StronglyAdaptive
from klazy.contrib.learners.longterm import LongTerm
from klazy.contrib.learners.mirror import Entropy, Geometry, MirrorMemory
from klazy.contrib.learners.steady import SteadyAdaptive
from klazy.contrib.lookahead.balanced import GOBD, OBD, ROBD
from klazy.contrib.lookahead.base import LookAhead, run_ahead
from klazy.contrib.lookahead.capacity import LazyCapacity
from klazy.contrib.lookahead.ensemble import LookAheadSAder
from klazy.contrib.lookahead.gradients import RHGD
from klazy.contrib.lookahead.horizons import AveragingHorizon, RecedingHorizon
from klazy.game.game import Game
from klazy.learners.better import BetterOfTwo
from klazy.learners.presets import ader, ensemble_auto, scream
from klazy.sets.space import Space
from klazy.theory.bounds import coin_betting_bound

__all__ = [
    "GOBD",
    "OBD",
    "RHGD",
    "ROBD",
    "Advice",
    "AveragingHorizon",
    "BetterOfTwo",
    "Blocks",
    "Budgeted",
    "CoinBetting",
    "Entropy",
    "Game",
    "Geometry",
    "LazyCapacity",
    "LongTerm",
    "LongTermCertificate",
    "LookAhead",
    "LookAheadSAder",
    "MirrorCertificate",
    "MirrorMemory",
    "RecedingHorizon",
    "Space",
    "SteadyAdaptive",
    "StronglyAdaptive",
    "ader",
    "budget_lower_bound",
    "budget_sigma",
    "budgeted_bound",
    "certify_long_term",
    "certify_mirror",
    "coin_betting_bound",
    "ensemble_auto",
    "run_ahead",
    "scream",
    "switch_bound",
    "switch_lower_bound",
    "switch_sigma",
]
