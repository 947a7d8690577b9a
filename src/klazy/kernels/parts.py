"""The parts of one round: what the cost reveals, sigma, the rule's unconstrained point, the move, the memory.

``x, a, b`` are the vectors of the state (see :mod:`klazy.kernels.codes`), ``y`` is the unconstrained point,
``h`` the hint for the next round.
"""

import math

import numpy as np

from klazy.kernels import codes
from klazy.kernels.binding import exact, fused


@fused
def quadratic(row, extra, p, x, g, d):
    value = 0.0
    for i in range(d):
        gap = x[i] - row[i]
        value += gap * gap
        g[i] = extra * gap
    return 0.5 * extra * value


@fused
def pinball(row, extra, p, x, g, d):
    value = 0.0
    for i in range(d):
        gap = x[i] - row[i]
        g[i] = p[d + i] if gap > 0.0 else (-p[i] if gap < 0.0 else 0.0)
        value += g[i] * gap
    return value


@fused
def log_wealth(row, extra, p, x, g, d):
    wealth = 0.0
    for i in range(d):
        wealth += row[i] * x[i]
    for i in range(d):
        g[i] = -row[i] / wealth
    return -np.log(wealth)


@fused
def hinge(row, extra, p, x, g, d):
    margin = 0.0
    for i in range(d):
        margin += extra * row[i] * x[i]
    slope = -extra if margin < 1.0 else 0.0
    for i in range(d):
        g[i] = slope * row[i]
    return max(0.0, 1.0 - margin)


@fused
def logistic(row, extra, p, x, g, d):
    margin = 0.0
    for i in range(d):
        margin += extra * row[i] * x[i]
    tail = math.exp(-abs(margin))
    slope = -extra * (tail if margin >= 0.0 else 1.0) / (1.0 + tail)
    for i in range(d):
        g[i] = slope * row[i]
    return math.log1p(tail) + max(-margin, 0.0)


@exact
def power_below(t):
    """The largest power of two up to ``t``: spread the top bit downwards, then keep it alone."""
    n = int(t)
    n |= n >> 1
    n |= n >> 2
    n |= n >> 4
    n |= n >> 8
    n |= n >> 16
    n |= n >> 32
    return float(n - (n >> 1))


@exact
def sigma_at(schedule, c, offset, t, energy):
    """sigma_t of the schedule; inf (stay put) while a scale-free schedule has seen nothing."""
    if schedule == codes.CONSTANT:
        return c
    if schedule == codes.SQRT:
        return math.sqrt((t + offset) / c)
    if schedule == codes.DOUBLING:
        return math.sqrt(power_below(t) / c)
    return np.inf if energy == 0.0 else math.sqrt(energy / offset)


@exact
def fill_sigmas(schedule, c, offset, t, n, sigmas, steps):
    """sigma and 1 / sigma of the ``n`` rounds from ``t`` on, unless they depend on the gradients."""
    if schedule == codes.SQRT:
        for j in range(n):
            sigmas[j] = math.sqrt(((t + j) + offset) / c)
    else:
        for j in range(n):
            sigmas[j] = math.sqrt(power_below(t + j) / c) if schedule == codes.DOUBLING else c
    for j in range(n):
        steps[j] = 1.0 / sigmas[j]


@exact
def take_roots(moves, n):
    """The roots of ``moves[1]`` to ``moves[n]``; ``moves[0]`` is a distance already."""
    for j in range(n):
        moves[j + 1] = math.sqrt(moves[j + 1])


@fused
def total(values, n):
    added = 0.0
    for j in range(n):
        added += values[j]
    return added


@exact
def scale(square, weight):
    """What one gradient of squared norm ``square`` adds to a scale-free schedule's energy."""
    return square + 2.0 * weight * math.sqrt(square)


@fused
def norm2(g, d):
    square = 0.0
    for i in range(d):
        square += g[i] * g[i]
    return square


@fused
def distance2(g, h, d):
    square = 0.0
    for i in range(d):
        square += (g[i] - h[i]) ** 2
    return square


@fused
def gd(x, a, b, g, h, y, d, sigma, step, old_sigma, starts):
    dot = 0.0
    for i in range(d):
        dot += g[i] * x[i]
        y[i] = x[i] - g[i] * step
    return dot


@fused
def k_lazy(x, a, b, g, h, y, d, sigma, step, old_sigma, starts):
    dot = 0.0
    if starts:
        for i in range(d):
            dot += g[i] * x[i]
            a[i] = x[i]
            b[i] = g[i]
            y[i] = x[i] - g[i] * step
    else:
        for i in range(d):
            dot += g[i] * x[i]
            b[i] += g[i]
            y[i] = a[i] - b[i] * step
    return dot


@fused
def ftrl(x, a, b, g, h, y, d, sigma, step, old_sigma, starts):
    dot = 0.0
    if starts:
        for i in range(d):
            a[i] = x[i]
            b[i] = -old_sigma * x[i]
    for i in range(d):
        dot += g[i] * x[i]
        b[i] += g[i] - (sigma - old_sigma) * a[i]
        y[i] = -b[i] * step
    return dot


@fused
def memory(x, a, b, g, h, y, d, sigma, step, old_sigma, starts):
    dot = 0.0
    for i in range(d):
        dot += g[i] * x[i]
        y[i] = x[i] + (a[i] - g[i] + b[i] - h[i]) * step
        b[i] = h[i]
    return dot


@fused
def centred(x, a, b, g, h, y, d, sigma, step, old_sigma, starts):
    dot = 0.0
    for i in range(d):
        dot += g[i] * x[i]
        y[i] = x[i] + ((sigma - old_sigma) * (a[i] - x[i]) - g[i]) * step
    return dot


@fused
def remember(rule, kappa, x, y, n, d, sigma, ends):
    """What a memory rule keeps of the normal sigma (y - x): ``n`` becomes theta times it."""
    square = 0.0
    for i in range(d):
        n[i] = sigma * (y[i] - x[i])
        square += n[i] * n[i]
    theta = 1.0
    if rule == codes.FORGET or (rule == codes.CLOCK and ends):
        theta = 0.0
    elif rule == codes.DECAY:
        theta = 1.0 - 1.0 / kappa
    elif rule == codes.CLIP and square > kappa * kappa:
        theta = kappa / math.sqrt(square)
    elif rule == codes.EVENT and math.sqrt(square) > kappa:
        theta = 0.0
    for i in range(d):
        n[i] *= theta


REVEALS = {
    codes.QUADRATIC: quadratic,
    codes.PINBALL: pinball,
    codes.LOG_WEALTH: log_wealth,
    codes.HINGE: hinge,
    codes.LOGISTIC: logistic,
}
RULES = {codes.GD: gd, codes.K_LAZY: k_lazy, codes.FTRL: ftrl, codes.MEMORY: memory, codes.CENTRED: centred}
