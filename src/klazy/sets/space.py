"""The whole space, as a set."""

import math

import numpy as np

from klazy.base.checks import Array, refusal, size
from klazy.sets.base import ConvexSet


class Space(ConvexSet):
    r"""All of :math:`R^d`, for decisions without bounds.

    Projections change nothing, the diameter is infinite. Whatever is tuned to the size of a set, or goes to its cheapest point,
    refuses it: ``argmin_linear``, ensembles and ``auto``, :class:`~klazy.Reluctant`, rules of thumb, optima and baselines that
    look ahead. :class:`~klazy.contrib.CoinBetting` is made for it; descents with a sigma of your own play on it, too.

    Parameters
    ----------
    dim : int
        The number of coordinates.

    Examples
    --------
    >>> Space(2).project([3.0, -4e9]).tolist(), Space(2).diameter
    ([3.0, -4000000000.0], inf)
    """

    bounded: bool = False
    separable: bool = True

    def __init__(self, dim: int) -> None:
        self._keep(dim=size(dim, "dim", "Space", "a dimension dim >= 1", "give the number of coordinates"))

    @property
    def diameter(self) -> float:
        return math.inf

    def nearest(self, y: Array) -> Array:
        return y + 0.0

    def lowest(self, g: Array) -> Array:
        raise refusal(
            "argmin_linear", "a bounded set", "domain", self, "a linear cost has no least value here"
        )

    def violation(self, x: Array) -> Array:
        return np.full(x.shape[:-1], -1.0)

    def farthest(self, center: Array) -> float:
        return math.inf

    def margin(self, y: Array) -> Array:
        return np.zeros(y.shape[:-1])

    def _picture(self) -> str:
        return ""
