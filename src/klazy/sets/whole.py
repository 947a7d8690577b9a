"""Whole numbers: rounding that keeps a total, and units given out in proportion."""

import math

import numpy as np

from klazy.base.checks import Array


def round_to_total(x: Array, total: int) -> Array:
    """Round down, and give the units that the total then lacks to the largest remainders, of equals the first.

    >>> round_to_total(np.array([3.6, 3.7, 2.7]), 10)
    array([3., 4., 3.])
    """
    base = np.floor(x)
    lacking = max(0, total - math.floor(base.sum()))
    largest = np.argsort(base - x, kind="stable")[:lacking]
    base[largest] += 1.0
    return base + 0.0  # no negative zero


def share_units(units: Array, m: int) -> Array:
    """Give out ``m`` units in proportion to ``units``, to none more than it has."""
    share = m / max(float(units.sum()), 1.0)
    return round_to_total(np.minimum(units * share, units), m)
