"""sigma_t by the code of its schedule."""

import math

import numpy as np

from klazy.base.checks import SMALLEST
from klazy.kernels.codes import (
    CONSTANT,
    DOUBLING,
    ENERGY,
    OLD_SIGMA,
    SCALE_FREE,
    SCHEDULE,
    SIGMA,
    SQRT,
    STEP,
    UNKNOWN,
    A,
    B,
    T,
)
from klazy.kernels.lane import exact, load, peek, root, spread, store, where


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
def sigma_at(schedule, a, b, t):
    """sigma of round ``t``, where it does not depend on the gradients."""
    sigma = spread(UNKNOWN)
    if schedule == CONSTANT:
        sigma = a
    elif schedule == SQRT:
        sigma = root((t + b) / a)
    elif schedule == DOUBLING:
        sigma = root(power_below(t) / a)
    return sigma


@exact
def energy_of(square, norm, weight):
    """What one gradient of this norm adds to the energy of a scale-free schedule."""
    return weight * (2.0 * norm) + square


@exact
def next_sigma(q, square, norm):
    """sigma and 1 / sigma of the round of a block; without a scale the old sigma, and a step of zero."""
    schedule = int(peek(q, SCHEDULE))
    sigma = load(q, SIGMA)
    step = load(q, STEP)
    if schedule == SCALE_FREE:
        energy = load(q, ENERGY) + energy_of(square, norm, load(q, A))
        store(q, ENERGY, energy)
        sigma = root(energy / load(q, B))
        known = sigma >= SMALLEST
        step = 1.0 / where(known, sigma, spread(np.inf))
        sigma = where(known, sigma, load(q, OLD_SIGMA))
    elif schedule != CONSTANT:
        sigma = sigma_at(schedule, load(q, A), load(q, B), peek(q, T))
        step = 1.0 / sigma
    return sigma, step


@exact
def fill_sigmas(schedule, a, b, t, n, sigmas, steps):
    """sigma and 1 / sigma of the ``n`` rounds from ``t`` on, of one run."""
    if schedule == SQRT:
        for j in range(n):
            sigmas[j] = math.sqrt(((t + j) + b) / a)
    elif schedule == DOUBLING:
        for j in range(n):
            sigmas[j] = math.sqrt(power_below(t + j) / a)
    elif schedule == CONSTANT:
        for j in range(n):
            sigmas[j] = a
    for j in range(n):
        steps[j] = 1.0 / sigmas[j]
