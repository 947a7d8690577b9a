"""Comparators: what the best player in hindsight would have paid, with certificates."""

from klazy.hindsight.frontier import Frontier, best_with_path_length, frontier
from klazy.hindsight.offline import offline_optimum
from klazy.hindsight.optimum import GapNotReached, Optimum
from klazy.hindsight.static import BestFixed, best_fixed

__all__ = [
    "BestFixed",
    "Frontier",
    "GapNotReached",
    "Optimum",
    "best_fixed",
    "best_with_path_length",
    "frontier",
    "offline_optimum",
]
