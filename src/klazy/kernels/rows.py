"""The experts one after the other, each with its own row of vectors: for long vectors, and for any set by its code."""

import math

import numpy as np

from klazy.kernels import codes
from klazy.kernels.binding import fused, pointer
from klazy.kernels.codes import (
    A_LANE,
    B_LANE,
    ENERGY_LANE,
    GUESS,
    KAPPA_LANE,
    LOSS,
    MEMORY_LANE,
    MOVED,
    OLD_SIGMA,
    PHASE,
    PRIOR,
    RULE,
    SCHEDULE_LANE,
    SLACK_LANE,
    T_LANE,
    W,
)  # fmt: skip
from klazy.kernels.codes import LANES as L
from klazy.kernels.lanes import AT
from klazy.kernels.parts import centred, ftrl, gd, k_lazy, memory, norm2, remember, scale, sigma_at
from klazy.kernels.play import settling
from klazy.kernels.project import product_threshold, project_any

ROW = codes.BLOCK_VECTORS
settle = settling(codes.PRODUCT)  # the projection is done before


@fused
def is_empty(q, lane):
    """An empty lane has no weight; it does no work and shows the block's first expert."""
    return q[PRIOR + lane] == -np.inf


@fused
def move_on(blocks, count, size, factor, X, g, d, program, work):
    """Every expert takes its step; ``X`` becomes the ensemble's next point, of weights that lack this ``factor``.

    Of the vectors in ``work`` the third is zero and the next two are free.
    """
    zero, y, u = pointer(work, 2 * d), pointer(work, 3 * d), pointer(work, 4 * d)
    move, weight, prices = (
        int(program[codes.MOVE]),
        program[codes.MOVE_WEIGHT],
        pointer(program, codes.PRICES),
    )
    p, square, domain = pointer(program, codes.PRICES + 2 * d), norm2(g, d), int(program[codes.SET_CODE])
    for block in range(count):
        q = pointer(blocks, block * size)
        rule, schedule = int(q[RULE]), int(q[SCHEDULE_LANE])
        for lane in range(L):
            if is_empty(q, lane):
                q[MOVED + lane] = q[MOVED]
                continue
            x = pointer(q, AT + lane * ROW * d)
            a, b = pointer(x, d), pointer(x, 2 * d)
            phase, old, paid = q[PHASE + lane], q[OLD_SIGMA + lane], 0.0
            if schedule == codes.SCALE_FREE:
                q[ENERGY_LANE + lane] += scale(square, q[A_LANE + lane])
            sigma = sigma_at(
                schedule, q[A_LANE + lane], q[B_LANE + lane], q[T_LANE + lane], q[ENERGY_LANE + lane]
            )
            step = 1.0 / sigma
            if sigma != np.inf:
                if rule == codes.GD:
                    gd(x, a, b, g, zero, y, d, sigma, step, old, phase == 0.0)
                elif rule == codes.K_LAZY:
                    k_lazy(x, a, b, g, zero, y, d, sigma, step, old, phase == 0.0)
                elif rule == codes.FTRL:
                    ftrl(x, a, b, g, zero, y, d, sigma, step, old, phase == 0.0)
                elif rule == codes.MEMORY:
                    memory(x, a, b, g, zero, y, d, sigma, step, old, phase == 0.0)
                else:
                    centred(x, a, b, g, zero, y, d, sigma, step, old, phase == 0.0)
                if domain == codes.PRODUCT:
                    product_threshold(y, u, d, p, -np.inf)
                else:
                    q[GUESS + lane] = project_any(domain, y, u, d, p, q[GUESS + lane])
                paid = settle(x, y, u, d, p, 0.0, 0.0, move, prices)
                if rule == codes.MEMORY:
                    remember(
                        int(q[MEMORY_LANE]),
                        q[KAPPA_LANE + lane],
                        x,
                        y,
                        a,
                        d,
                        sigma,
                        phase == q[SLACK_LANE + lane] - 1.0,
                    )
                q[OLD_SIGMA + lane] = sigma
            q[MOVED + lane] = weight * (paid if move == codes.MOVE_ABSOLUTE else math.sqrt(paid))
            q[T_LANE + lane] += 1.0
            q[PHASE + lane] = phase + 1.0 if phase < q[SLACK_LANE + lane] - 1.0 else 0.0
    clear(X, d)
    for block in range(count):
        mix(pointer(blocks, block * size), W, X, d)
    for i in range(d):
        X[i] *= factor


@fused
def clear(sums, d):
    """Zeros, to which points are added."""
    for i in range(d):
        sums[i] = 0.0


@fused
def mix(q, field, sums, d):
    """Adds the block's points, weighted by one of its fields, to ``sums``."""
    for lane in range(L):
        if not is_empty(q, lane):
            x, w = pointer(q, AT + lane * ROW * d), q[field + lane]
            for i in range(d):
                sums[i] += w * x[i]


@fused
def gather(sums, X, d):
    """The sums into ``X``."""
    for i in range(d):
        X[i] = sums[i]


@fused
def hit(q, g, X, d):
    """<g, x - X> of every expert into LOSS."""
    for lane in range(L):
        dot = q[LOSS]
        if not is_empty(q, lane):
            x, dot = pointer(q, AT + lane * ROW * d), 0.0
            for i in range(d):
                dot += g[i] * (x[i] - X[i])
        q[LOSS + lane] = dot


@fused
def place(q, lane, i, d):
    """Coordinate i of an expert's point."""
    return q[AT + (0 if is_empty(q, lane) else lane) * ROW * d + i]


block_parts = {"move_on": move_on, "clear": clear, "mix": mix, "gather": gather, "hit": hit, "place": place}
