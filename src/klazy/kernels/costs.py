"""What kernels know of each cost family.

``reveal`` returns the cost of the point played and writes a gradient there into ``g``. ``row`` and ``extra`` are the round's
data, ``p`` the family's parameters (:mod:`klazy.kernels.codes`). It is a part of one run only: runs side by side share their
gradients, which are those of linear costs.

The other parts serve learners that get rows of a family. ``moments`` writes what they average over rounds into ``seen``.
``apart`` returns what a coordinate costs more at one point than at another, and ``conclude`` the difference of the two costs
from the sum over the coordinates; behind a row ``g`` are the 2 d parameters of its family.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from klazy.kernels import codes
from klazy.kernels.lane import log, where


def linear(row, extra, p, x, g, d):
    value = 0.0
    for i in range(d):
        g[i] = row[i]
        value += row[i] * x[i]
    return value


def linear_moments(row, seen, d):
    for i in range(d):
        seen[i] = row[i]


def linear_apart(x, at, g, i, d):
    return (x - at) * g[i]


def sum_up(hits, at, g, d):
    return hits


def reward_moments(row, seen, d):
    for i in range(d):
        seen[i] = 0.0 - row[i]


def quadratic(row, extra, p, x, g, d):
    value = 0.0
    for i in range(d):
        gap = x[i] - row[i]
        value += gap * gap
        g[i] = extra * gap
    return 0.5 * extra * value


def quadratic_apart(x, at, g, i, d):
    return (x - at) * (x + at - 2.0 * g[i]) * (0.5 * g[d])


def pinball(row, extra, p, x, g, d):
    value = 0.0
    for i in range(d):
        gap = x[i] - row[i]
        slope = 0.0
        if gap > 0.0:
            slope = p[d + i]
        elif gap < 0.0:
            slope = -p[i]
        g[i] = slope
        value += slope * gap
    return value


def pinball_moments(row, seen, d):
    for i in range(d):
        seen[i] = row[i]
        seen[d + i] = row[i] * row[i]


def pinball_apart(x, at, g, i, d):
    over = x - g[i]
    at_over = at - g[i]
    cost = where(over > 0.0, over * g[2 * d + i], over * -g[d + i])
    return cost - where(at_over > 0.0, at_over * g[2 * d + i], at_over * -g[d + i])


def log_wealth(row, extra, p, x, g, d):
    wealth = 0.0
    for i in range(d):
        wealth += row[i] * x[i]
    for i in range(d):
        g[i] = -row[i] / wealth
    return -np.log(wealth)


def wealth_moments(row, seen, d):
    for i in range(d):
        seen[i] = 0.0 - np.log(row[i])


def wealth_conclude(hits, at, g, d):
    """Return how much less ``at`` grows if its wealth changes by ``hits``."""
    wealth = 0.0
    for i in range(d):
        wealth += g[i] * at[i]
    return 0.0 - log(1.0 + hits / wealth)


def hinge(row, extra, p, x, g, d):
    margin = 0.0
    for i in range(d):
        margin += row[i] * x[i]
    slope = 0.0
    if margin < 1.0:
        slope = -1.0
    for i in range(d):
        g[i] = slope * row[i]
    return max(0.0, 1.0 - margin)


def logistic(row, extra, p, x, g, d):
    margin = 0.0
    for i in range(d):
        margin += row[i] * x[i]
    tail = math.exp(-abs(margin))
    share = 1.0
    if margin >= 0.0:
        share = tail
    slope = -share / (1.0 + tail)
    for i in range(d):
        g[i] = slope * row[i]
    return math.log1p(tail) + max(-margin, 0.0)


class CostPart(NamedTuple):
    """The parts of one family; those after the first are for learners that get its rows."""

    reveal: Callable[..., Any]
    moments: Callable[..., Any] = linear_moments
    apart: Callable[..., Any] = linear_apart
    conclude: Callable[..., Any] = sum_up


COSTS = {
    codes.LINEAR: CostPart(linear),
    codes.QUADRATIC: CostPart(quadratic, apart=quadratic_apart),
    codes.PINBALL: CostPart(pinball, pinball_moments, pinball_apart),
    codes.LOG_WEALTH: CostPart(log_wealth, wealth_moments, conclude=wealth_conclude),
    codes.HINGE: CostPart(hinge),
    codes.LOGISTIC: CostPart(logistic),
}
