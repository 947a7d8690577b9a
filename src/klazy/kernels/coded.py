"""The parts that a kernel chooses by a code at run time: sigma of a schedule, the share a memory keeps, the price of a move."""

import numpy as np

from klazy.base.checks import SMALLEST
from klazy.kernels import codes
from klazy.kernels.lane import exact, larger, load, peek, root, size, spread, store, where

# ---- schedules


@exact
def power_below(t):
    """Return the largest power of two up to ``t``: set all bits below the highest, then keep only that one."""
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
    """Return sigma of round ``t``, where it does not depend on the gradients."""
    sigma = spread(codes.UNKNOWN)
    if schedule == codes.CONSTANT:
        sigma = a
    elif schedule == codes.SQRT:
        sigma = root((t + b) / a)
    elif schedule == codes.DOUBLING:
        sigma = root(power_below(t) / a)
    elif schedule == codes.PROPORTIONAL:
        sigma = t * a
    return sigma


@exact
def energy_of(square, norm, weight):
    """Return what one gradient of this norm adds to the energy of a scale-free schedule."""
    return weight * (2.0 * norm) + square


@exact
def next_sigma(q, square, norm):
    """Return sigma and 1 / sigma of a block's round; without a scale the old sigma, and a step of zero."""
    schedule = int(peek(q, codes.SCHEDULE))
    sigma = load(q, codes.SIGMA)
    step = load(q, codes.STEP)
    if schedule == codes.SCALE_FREE:
        energy = load(q, codes.ENERGY) + energy_of(square, norm, load(q, codes.A))
        store(q, codes.ENERGY, energy)
        sigma = root(energy / load(q, codes.B))
        known = sigma >= SMALLEST
        step = 1.0 / where(known, sigma, spread(np.inf))
        sigma = where(known, sigma, load(q, codes.OLD_SIGMA))
    elif schedule != codes.CONSTANT:
        sigma = sigma_at(schedule, load(q, codes.A), load(q, codes.B), peek(q, codes.T))
        step = 1.0 / sigma
    return sigma, step


@exact
def fill_sigmas(schedule, a, b, t, n, sigmas, steps):
    """Write sigma and 1 / sigma of the ``n`` rounds from ``t`` on, of one run."""
    for j in range(n):
        sigmas[j] = sigma_at(schedule, a, b, t + j)
        steps[j] = 1.0 / sigmas[j]


# ---- memories


def share_kept(memory, kappa, square, ends):
    """Return theta for a normal of this squared size; ``ends`` says whether a phase ends."""
    theta = spread(codes.UNKNOWN)
    if memory == codes.FORGET:
        theta = spread(0.0)
    elif memory == codes.FULL:
        theta = spread(1.0)
    elif memory == codes.CLOCK:
        theta = where(ends, spread(0.0), spread(1.0))
    elif memory == codes.DECAY:
        theta = 1.0 - 1.0 / kappa
    elif memory == codes.CLIP:
        limit = kappa * kappa  # It may overflow, and then nothing is clipped.
        theta = where(square > limit, kappa / root(larger(square, limit)), spread(1.0))
    elif memory == codes.EVENT:
        theta = where(root(square) > kappa, spread(0.0), spread(1.0))
    return theta


# ---- movements


def add_price(move, paid, delta, i, d, prices):
    """Return ``paid`` plus the part of coordinate ``i`` in the price of a step, before :func:`take_price`."""
    if move == codes.MOVE_WEIGHTED:
        paid = paid + delta * delta * prices[i]
    elif move == codes.MOVE_ABSOLUTE:
        paid = paid + where(delta > 0.0, delta * prices[i], delta * -prices[d + i])
    elif move == codes.MOVE_FEE:
        paid = larger(paid, where(size(delta) > prices[0], spread(1.0), spread(0.0)))
    elif move == codes.MOVE_L2:
        paid = paid + delta * delta
    elif move == codes.MOVE_SQUARED:
        paid = paid + delta * delta * 0.5
    elif move == codes.MOVE_IMPACT:
        paid = paid + size(delta) * root(size(delta)) * prices[i]
    else:
        paid = spread(codes.UNKNOWN)
    return paid


def is_rooted(move):
    """Return True if the price is the root of a sum of squares."""
    return move == codes.MOVE_L2 or move == codes.MOVE_WEIGHTED


def take_price(move, paid):
    """Return the price of a step, before its weight, from the sum over its coordinates."""
    if is_rooted(move):
        paid = root(paid)
    return paid


def price_of(delta, d, move, prices):
    """Return the price of a step, before its weight."""
    paid = spread(0.0)
    for i in range(d):
        paid = add_price(move, paid, load(delta, i), i, d, prices)
    return take_price(move, paid)
