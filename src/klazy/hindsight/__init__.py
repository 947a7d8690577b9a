"""Comparators: what the best player in hindsight would have paid, with certificates."""

from klazy.hindsight.frontier import frontier
from klazy.hindsight.offline import offline_optimum
from klazy.hindsight.static import best_fixed

__all__ = [
    "best_fixed",
    "frontier",
    "offline_optimum",
]
