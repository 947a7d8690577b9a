"""Comparators: what the best player in hindsight would have paid, with certificates."""

from klazy.comparators.frontier import Frontier, best_with_path_length, frontier
from klazy.comparators.offline import offline_optimum
from klazy.comparators.optimum import GapNotReached, Optimum
from klazy.comparators.static import Fixed, best_fixed

__all__ = [
    "Fixed",
    "Frontier",
    "GapNotReached",
    "Optimum",
    "best_fixed",
    "best_with_path_length",
    "frontier",
    "offline_optimum",
]
