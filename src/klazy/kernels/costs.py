"""What a round reveals: the cost of the point played, returned, and a gradient there, written into ``g``.

``row`` and ``extra`` are the round's data, ``p`` the family's parameters (:mod:`klazy.kernels.codes`). These are parts of one
run only: runs side by side share their gradients, which are those of linear costs.
"""

import math

import numpy as np

from klazy.kernels.codes import HINGE, LINEAR, LOG_WEALTH, LOGISTIC, PINBALL, QUADRATIC


def linear(row, extra, p, x, g, d):
    value = 0.0
    for i in range(d):
        g[i] = row[i]
        value += row[i] * x[i]
    return value


def quadratic(row, extra, p, x, g, d):
    value = 0.0
    for i in range(d):
        gap = x[i] - row[i]
        value += gap * gap
        g[i] = extra * gap
    return 0.5 * extra * value


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


def log_wealth(row, extra, p, x, g, d):
    wealth = 0.0
    for i in range(d):
        wealth += row[i] * x[i]
    for i in range(d):
        g[i] = -row[i] / wealth
    return -np.log(wealth)


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


COSTS = {
    LINEAR: linear,
    QUADRATIC: quadratic,
    PINBALL: pinball,
    LOG_WEALTH: log_wealth,
    HINGE: hinge,
    LOGISTIC: logistic,
}


# ---- the moments of a row, for rules that are told rows: what they average over rounds


def same_moments(row, seen, d):
    for i in range(d):
        seen[i] = row[i]


def wealth_moments(row, seen, d):
    for i in range(d):
        seen[i] = 0.0 - np.log(row[i])


def demand_moments(row, seen, d):
    for i in range(d):
        seen[i] = row[i]
        seen[d + i] = row[i] * row[i]


MOMENTS_OF = {
    QUADRATIC: same_moments,
    LOG_WEALTH: wealth_moments,
    PINBALL: demand_moments,
}
