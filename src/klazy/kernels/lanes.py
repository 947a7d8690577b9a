"""One round of a block of experts side by side, for small dimensions.

A block's numbers lie field by field and coordinate by coordinate, the experts next to each other (see
:mod:`klazy.kernels.codes`), so that each line below works on all of them. They share rule, schedule and memory rule.
"""

import math
from typing import Any

import numpy as np

from klazy.kernels import codes
from klazy.kernels.binding import bind, fused, local, pointer
from klazy.kernels.codes import (
    A_LANE,
    B_LANE,
    ENERGY_LANE,
    KAPPA_LANE,
    LOSS,
    MEMORY_LANE,
    MOVED,
    OLD_SIGMA,
    PHASE,
    RULE,
    SCHEDULE_LANE,
    SIGMA,
    SLACK_LANE,
    STEP,
    T_LANE,
    W,
)  # fmt: skip
from klazy.kernels.codes import LANES as L
from klazy.kernels.parts import norm2, power_below
from klazy.kernels.project import far_l2_scale
from klazy.kernels.simd import larger, largest, load, root, signed, size, smaller, spread, store, total, where

AT = codes.FIELDS * L  # where a block's vectors begin

# The parts of the templates below; bind() puts the chosen ones here.
D = ROOM = 0  # the dimension; the room that a vector of every lane takes
points = project = threshold = advance = clear = mix = gather = lambda *parts: None


def _l2(y, z, p):
    """Projections of the points ``y`` into ``z``, lane by lane."""
    square = spread(0.0)
    for i in range(D):
        gap = load(y, i * L) - p[1 + i]
        square = square + gap * gap
    factor = p[0] / root(larger(square, spread(p[0] * p[0])))  # exactly 1 inside
    for i in range(D):
        store(z, i * L, (load(y, i * L) - p[1 + i]) * factor + p[1 + i])
    if largest(square) == np.inf:
        one, squares = local(D), local(L)
        store(squares, 0, square)
        for lane in range(L):
            if squares[lane] == np.inf:
                for i in range(D):
                    one[i] = y[i * L + lane]
                far = far_l2_scale(one, D, p)
                for i in range(D):
                    z[i * L + lane] = p[1 + i] + (one[i] - p[1 + i]) * far


def _positive_parts(y, z, total):
    """Thresholds of the positive parts of ``y`` that sum to ``total``, as (shift, theta), by a sorting network in ``z``."""
    for i in range(D):
        store(z, i * L, load(y, i * L))
    for layer in range(D):
        for i in range(layer % 2, D - 1, 2):
            first, second = load(z, i * L), load(z, (i + 1) * L)
            store(z, i * L, larger(first, second))
            store(z, (i + 1) * L, smaller(first, second))
    shift, theta, prefix = load(z, 0), spread(-total), spread(-total)
    for j in range(1, D):
        prefix = prefix + (load(z, j * L) - shift)
        theta = larger(theta, prefix * (1.0 / (j + 1)))
    return shift, theta


def _l1(y, z, p):
    u, norm = local(ROOM), spread(0.0)
    for i in range(D):
        gap = size(load(y, i * L) - p[1 + i])
        store(u, i * L, gap)
        norm = norm + gap
    shift, theta = threshold(u, z, p[0])
    outside = norm > p[0]
    shift, theta = where(outside, shift, spread(0.0)), where(outside, theta, spread(0.0))
    for i in range(D):
        kept = larger((load(u, i * L) - shift) - theta, spread(0.0))
        store(z, i * L, signed(kept, load(y, i * L) - p[1 + i]) + p[1 + i])


def _simplex(y, z, p):
    shift, theta = threshold(y, z, p[0])
    for i in range(D):
        store(z, i * L, larger((load(y, i * L) - shift) - theta, spread(0.0)))


def _box(y, z, p):
    for i in range(D):
        store(z, i * L, smaller(larger(load(y, i * L), spread(p[i])), spread(p[D + i])))


@fused
def next_sigma(q, square, norm):
    """sigma and 1 / sigma of this round; a lane without a scale keeps its sigma and takes a step of zero."""
    schedule, sigma, step = int(q[SCHEDULE_LANE]), load(q, SIGMA), load(q, STEP)
    if schedule == codes.SCALE_FREE:
        energy = load(q, ENERGY_LANE) + (load(q, A_LANE) * (2.0 * norm) + square)
        store(q, ENERGY_LANE, energy)
        sigma = root(energy / load(q, B_LANE))
        step = 1.0 / where(sigma > 0.0, sigma, spread(np.inf))
        sigma = where(sigma > 0.0, sigma, load(q, OLD_SIGMA))
    elif schedule == codes.SQRT:
        sigma = root((load(q, T_LANE) + load(q, B_LANE)) / load(q, A_LANE))
        step = 1.0 / sigma
    elif schedule == codes.DOUBLING:
        sigma = root(power_below(q[T_LANE]) / load(q, A_LANE))
        step = 1.0 / sigma
    return sigma, step


@fused
def share_kept(q, square, phase):
    """theta of the block's memory rule for normals of this squared size."""
    rule, kappa, kept = int(q[MEMORY_LANE]), load(q, KAPPA_LANE), spread(1.0)
    if rule == codes.FORGET:
        kept = spread(0.0)
    elif rule == codes.CLOCK:
        kept = where(phase == load(q, SLACK_LANE) - 1.0, spread(0.0), kept)
    elif rule == codes.DECAY:
        kept = 1.0 - 1.0 / kappa
    elif rule == codes.CLIP:
        kept = kappa / root(larger(square, kappa * kappa))
    elif rule == codes.EVENT:
        kept = where(root(square) > kappa, spread(0.0), kept)
    return kept


def _points(q, g, y, phase, sigma, step, nothing):
    """The unconstrained points of the block's rule into ``y``.

    ``nothing`` is a zero that the compiler does not know: it would make a masked store of a choice between new and old, which
    takes longer than all the rest.
    """
    rule, old, starts = int(q[RULE]), load(q, OLD_SIGMA), phase == 0.0
    if rule == codes.GD:
        for i in range(D):
            store(y, i * L, load(q, AT + i * L) - step * g[i])
    elif rule == codes.K_LAZY:
        for i in range(D):
            anchor = where(starts, load(q, AT + i * L), load(q, AT + (D + i) * L)) + nothing
            g_sum = where(starts, spread(0.0), load(q, AT + (2 * D + i) * L)) + g[i]
            store(q, AT + (D + i) * L, anchor)
            store(q, AT + (2 * D + i) * L, g_sum)
            store(y, i * L, anchor - g_sum * step)
    elif rule == codes.FTRL:
        for i in range(D):
            x = load(q, AT + i * L)
            anchor = where(starts, x, load(q, AT + (D + i) * L)) + nothing
            dual = where(starts, 0.0 - old * x, load(q, AT + (2 * D + i) * L)) + (
                g[i] - (sigma - old) * anchor
            )
            store(q, AT + (D + i) * L, anchor)
            store(q, AT + (2 * D + i) * L, dual)
            store(y, i * L, where(step > 0.0, 0.0 - dual * step, x))
    elif rule == codes.MEMORY:
        for i in range(D):
            pull = (load(q, AT + (D + i) * L) - g[i]) + load(q, AT + (2 * D + i) * L)
            store(q, AT + (2 * D + i) * L, spread(0.0))
            store(y, i * L, load(q, AT + i * L) + pull * step)
    else:
        for i in range(D):
            x = load(q, AT + i * L)
            pull = (sigma - old) * (load(q, AT + (D + i) * L) - x)
            store(y, i * L, x + (pull - g[i]) * step)


def _advance(q, g, p, square, norm, move, weight, prices, nothing):
    """One round of a block."""
    y, z = local(ROOM), local(ROOM)
    phase = load(q, PHASE)
    sigma, step = next_sigma(q, square, norm)
    points(q, g, y, phase, sigma, step, nothing)
    project(y, z, p)
    paid = spread(0.0)
    for i in range(D):
        new = load(z, i * L)
        delta = new - load(q, AT + i * L)
        store(q, AT + i * L, new)
        if move == codes.MOVE_ABSOLUTE:
            paid = paid + where(delta > 0.0, delta * prices[i], delta * -prices[D + i])
        elif move == codes.MOVE_WEIGHTED:
            paid = paid + delta * delta * prices[i]
        else:
            paid = paid + delta * delta
    store(q, MOVED, (paid if move == codes.MOVE_ABSOLUTE else root(paid)) * weight)
    if int(q[RULE]) == codes.MEMORY:
        normal = spread(0.0)
        for i in range(D):
            raw = sigma * (load(y, i * L) - load(z, i * L))
            normal = normal + raw * raw
        kept = share_kept(q, normal, phase) * sigma
        for i in range(D):
            store(q, AT + (D + i) * L, kept * (load(y, i * L) - load(z, i * L)))
    store(q, T_LANE, load(q, T_LANE) + 1.0)
    store(q, OLD_SIGMA, sigma)
    store(q, PHASE, where(load(q, SLACK_LANE) - 1.0 > phase, phase + 1.0, spread(0.0)))


def _clear(sums, d):
    """Zeros, to which points are added."""
    for i in range(D):
        store(sums, i * L, spread(0.0))


def _mix(q, field, sums, d):
    """Adds the block's points, weighted by one of its fields, to ``sums``, lane by lane."""
    w = load(q, field)
    for i in range(D):
        store(sums, i * L, load(sums, i * L) + w * load(q, AT + i * L))


def _gather(sums, X, d):
    """The sums over the lanes into ``X``."""
    for i in range(D):
        X[i] = total(load(sums, i * L))


def _move_on(blocks, count, size, factor, X, g, d, program, work):
    """Every expert takes its step; ``X`` becomes the ensemble's next point, of weights that lack this ``factor``."""
    move, weight, prices = (
        int(program[codes.MOVE]),
        program[codes.MOVE_WEIGHT],
        pointer(program, codes.PRICES),
    )
    p, square, sums = pointer(program, codes.PRICES + 2 * D), norm2(g, D), local(ROOM)
    norm = math.sqrt(square)
    clear(sums, D)
    for block in range(count):
        q = pointer(blocks, block * size)
        advance(q, g, p, square, norm, move, weight, prices, work[2 * D])
        mix(q, W, sums, D)
    gather(sums, X, D)
    for i in range(D):
        X[i] *= factor


def _hit(q, g, X, d):
    """<g, x - X> of every expert into LOSS."""
    hits = spread(0.0)
    for i in range(D):
        hits = hits + (load(q, AT + i * L) - X[i]) * g[i]
    store(q, LOSS, hits)


def _place(q, lane, i, d):
    """Coordinate i of an expert's point."""
    return q[AT + i * L + lane]


_PROJECTIONS = {codes.L2_BALL: _l2, codes.L1_BALL: _l1, codes.BOX: _box, codes.SIMPLEX: _simplex}


def block_parts(set_code: int, d: int) -> dict[str, Any]:
    """How an ensemble's kernel advances and reads a block on this set."""

    def made(template, **parts):
        return fused(bind(template, D=d, ROOM=d * L, **parts))

    projected = made(_PROJECTIONS[set_code], threshold=made(_positive_parts))
    advance = made(_advance, points=made(_points), project=projected)
    sums = {"clear": made(_clear), "mix": made(_mix), "gather": made(_gather)}
    move_on = made(_move_on, advance=advance, **sums)
    return {"move_on": move_on, "hit": made(_hit), "place": made(_place), "ROOM": d * L, **sums}
