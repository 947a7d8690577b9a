"""Whole numbers: the whole point of a set nearest to a point, and the way from one whole point to another in units."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.sets import Box, CappedSimplex, ConvexSet, Product, Simplex


def check_whole(domain: ConvexSet, owner: str) -> None:
    """Refuse a set on which :func:`nearest_whole` is not defined."""
    if isinstance(domain, Product):
        for part in domain.sets:
            check_whole(part, owner)
    elif isinstance(domain, Box):
        if not (np.ceil(domain.lower) <= np.floor(domain.upper)).all():
            raise refusal(
                owner,
                "a whole number between the bounds of every coordinate",
                "domain",
                domain,
                "widen the box",
            )
    elif isinstance(domain, Simplex | CappedSimplex):
        sizes = (
            (domain.total, 0.0)
            if isinstance(domain, Simplex)
            else (domain.total, *np.ravel(domain.cap), *np.ravel(domain.floor))
        )
        if any(size != int(size) for size in sizes):
            raise refusal(
                owner,
                "a whole total, whole caps and whole floors",
                "domain",
                domain,
                "count in smaller units",
            )
    else:
        raise refusal(
            owner,
            "a Box, Simplex, CappedSimplex or Product of these for integers",
            "domain",
            domain,
            "use one",
        )


def nearest_whole(domain: ConvexSet, x: Array) -> Array:
    """The nearest point of the set whose coordinates are whole: on simplices by largest remainders, which keep the total.

    >>> nearest_whole(Simplex(3, total=10), np.array([3.6, 3.7, 2.7]))
    array([3., 4., 3.])
    """
    if isinstance(domain, Product):
        return np.concatenate([nearest_whole(s, b) for s, b in domain._by_set(x)])
    if isinstance(domain, Box):
        return np.clip(np.rint(x), np.ceil(domain.lower), np.floor(domain.upper)) + 0.0
    return _rounded(x, round(domain.total))  # pyright: ignore[reportAttributeAccessIssue]


def towards(domain: ConvexSet, x: Array, goal: Array, fits: Callable[[Array], bool]) -> Array:
    """As many units as fit of the way from ``x`` to the whole point ``goal``, coordinates and sets taking their shares of them.

    >>> towards(Box([0, 0], [9, 9]), np.zeros(2), np.array([6.0, 3.0]), lambda x: x.sum() <= 4)
    array([3., 1.])
    """
    start = nearest_whole(domain, x)
    if not fits(start):
        return x
    few = 0
    many = _units(domain, goal - start)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if fits(start + _part(domain, goal - start, middle)) else (few, middle)
    return start + _part(domain, goal - start, few)


def _units(domain: ConvexSet, gap: Array) -> int:
    """How many units must change, or change place, for a whole ``gap``."""
    if isinstance(domain, Product):
        return sum(_units(s, b) for s, b in domain._by_set(gap))
    return round(float(np.abs(gap).sum())) // (1 if isinstance(domain, Box) else 2)


def _part(domain: ConvexSet, gap: Array, m: int) -> Array:
    """``m`` of the units of ``gap``."""
    if isinstance(domain, Product):
        blocks: list[Any] = domain._by_set(gap)
        shares = _shared(np.array([float(_units(s, b)) for s, b in blocks]), m)
        return np.concatenate([_part(s, b, round(n)) for (s, b), n in zip(blocks, shares, strict=True)])
    if isinstance(domain, Box):
        return np.sign(gap) * _shared(np.abs(gap), m)
    return _shared(np.maximum(gap, 0.0), m) - _shared(np.maximum(-gap, 0.0), m)


def _shared(units: Array, m: int) -> Array:
    """``m`` units given out in proportion to ``units``, to none more than it has."""
    return _rounded(np.minimum(units * (m / max(float(units.sum()), 1.0)), units), m)


def _rounded(x: Array, total: int) -> Array:
    """``x`` rounded down, and the units that the total then lacks given to the largest remainders, of equals the first."""
    base = np.floor(x)
    lacking = max(0, total - math.floor(base.sum()))
    base[np.argsort(base - x, kind="stable")[:lacking]] += 1.0
    return base + 0.0  # no negative zero
