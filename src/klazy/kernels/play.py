"""The kernels: a whole sequence in one call, and one update of a live agent.

A kernel is specialised on the kind of set, the cost family, the update rule and a small dimension; everything else
(schedule, memory rule, movement cost, what to record) is data. Each has one signature and is cached on disk, so it is
compiled once per machine.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64, types

from klazy.kernels import codes
from klazy.kernels.binding import bind, compiled, fused, hold, local, once, pointer
from klazy.kernels.parts import (
    REVEALS,
    RULES,
    distance2,
    fill_sigmas,
    norm2,
    remember,
    scale,
    sigma_at,
    take_roots,
    total,
)
from klazy.kernels.project import COORDINATES, SMALL_THRESHOLDS, THRESHOLDS

BLOCK = 64  # rounds

_input1 = types.Array(float64, 1, "C", readonly=True)
_input2 = types.Array(float64, 2, "C", readonly=True)
SEQUENCE = (  # the arguments of a whole-sequence kernel
    _input2, _input1, _input1, _input2, _input1, int64, _input1, _input1,
    float64, float64[::1], float64[:, ::1], float64[::1], float64[::1], float64[::1],
)  # fmt: skip
UPDATE = int64(float64[::1], float64[::1])

# The parts of the templates below; bind() puts the chosen ones here, one set per kernel.
D = 0  # the dimension where it is a constant of the kernel, else 0
IS_LINEAR = HAS_MEMORY = False
threshold = coordinate = unconstrained = reveal = settle = advance = lambda *parts: parts


def _settle(x, y, u, d, p, shift, theta, move, prices):
    """Second stage of the projection into ``x``; returns how far that moved, before root and weight."""
    paid = 0.0
    if move == codes.MOVE_L2:
        for i in range(d):
            z = coordinate(y[i], u[i], i, d, p, shift, theta)
            paid += (z - x[i]) ** 2
            x[i] = z
    else:
        for i in range(d):
            z = coordinate(y[i], u[i], i, d, p, shift, theta)
            delta = z - x[i]
            x[i] = z
            if move == codes.MOVE_WEIGHTED:
                paid += prices[i] * delta * delta
            elif move == codes.MOVE_ABSOLUTE:
                paid += prices[i] * delta if delta > 0.0 else -prices[d + i] * delta
            elif abs(delta) > prices[0]:
                paid = 1.0
    return paid


def _advance(x, a, b, y, u, p, g, h, d, phase, k, sigma, step, old_sigma, rule, kappa, guess, move, prices):
    """One round of the learner: <g, x>, the movement to the next point before its root, the threshold to start from next."""
    dot = unconstrained(x, a, b, g, h, y, d, sigma, step, old_sigma, phase == 0)
    shift, theta = threshold(y, u, d, p, guess)
    moved = settle(x, y, u, d, p, shift, theta, move, prices)
    if HAS_MEMORY:
        remember(rule, kappa, x, y, a, d, sigma, phase == k - 1)
    return dot, moved, shift + theta


def _play(
    data, extra, cost_p, hints, program, move, weights, prices, pending, s, xs, hitting, switching, totals
):
    """T rounds in blocks: the sigmas of a block before it is played, roots, weights and sums after it, where they vectorise."""
    T = data.shape[0]
    d = D if D > 0 else data.shape[1]
    at = codes.HEAD
    x, a, b, y, u = (
        pointer(s, at),
        pointer(s, at + d),
        pointer(s, at + 2 * d),
        pointer(s, at + 4 * d),
        pointer(s, at + 5 * d),
    )
    if D > 0:
        x, a, b, y, u = local(D), local(D), local(D), local(D), local(D)
        for i in range(d):
            x[i], a[i], b[i] = s[at + i], s[at + d + i], s[at + 2 * d + i]
    p, q, costs = pointer(program, codes.SET), pointer(prices, 0), pointer(cost_p, 0)
    schedule, c, offset = int(program[codes.SCHEDULE]), program[codes.SCHEDULE_A], program[codes.SCHEDULE_B]
    rule, kappa, k = int(program[codes.MEMORY_RULE]), program[codes.MEMORY_A], int(program[codes.SLACK])
    t, energy, old_sigma, guess = s[codes.T_SLOT], s[codes.ENERGY_SLOT], s[codes.SIGMA_SLOT], -np.inf
    phase = (int(t) - 1) % k
    rooted = move == codes.MOVE_L2 or move == codes.MOVE_WEIGHTED
    recording, keeping, hinted = xs.shape[0] > 0, hitting.size > 0, hints.shape[0] > 1
    memory = np.empty(d + 4 * BLOCK + 1)
    gradient, sigmas, steps = pointer(memory, 0), pointer(memory, d), pointer(memory, d + BLOCK)
    values, moves = (
        pointer(memory, d + 2 * BLOCK),
        pointer(memory, d + 3 * BLOCK),
    )  # moves[j] leads to the block's round j
    points = pointer(xs, 0)
    hit = moved = 0.0
    for first in range(0, T, BLOCK):
        n = min(BLOCK, T - first)
        fill_sigmas(schedule, c, offset, t, n, sigmas, steps)
        moves[0] = pending
        for j in range(n):
            row = first + j
            if recording:
                for i in range(d):
                    points[row * d + i] = x[i]
            g, h = pointer(data, row * d), pointer(hints, row * d if hinted else 0)
            value = 0.0
            if not IS_LINEAR:
                value = reveal(g, extra[row if extra.size > 1 else 0], costs, x, gradient, d)
                g = gradient
            sigma, step = sigmas[j], steps[j]
            if schedule == codes.SCALE_FREE:
                energy += scale(distance2(g, b, d) if HAS_MEMORY else norm2(g, d), c)
                sigma = np.inf if energy == 0.0 else math.sqrt(energy / offset)
                step = 1.0 / sigma
            dot, paid = 0.0, 0.0
            if (
                schedule != codes.SCALE_FREE or energy != 0.0
            ):  # without a scale it stays put; NaN and inf go on and show
                dot, paid, guess = advance(
                    x, a, b, y, u, p, g, h, d, phase, k, sigma, step, old_sigma, rule, kappa, guess, move, q
                )
                old_sigma = sigma
            values[j] = dot if IS_LINEAR else value
            moves[j + 1] = paid
            phase = phase + 1 if phase < k - 1 else 0
        if rooted:
            take_roots(moves, n)
        block = total(values, n)
        if not math.isfinite(block):
            for j in range(n):
                if not math.isfinite(values[j]):
                    return int(t) + j
        for j in range(n):
            paid = weights[first + j if weights.size > 1 else 0] * moves[j]
            moved += paid
            if keeping:
                hitting[first + j] = values[j]
                switching[first + j] = paid
        hit += block
        t += n
        pending = moves[n]
    for i in range(d):
        s[at + i], s[at + d + i], s[at + 2 * d + i] = x[i], a[i], b[i]
    s[codes.T_SLOT], s[codes.ENERGY_SLOT], s[codes.SIGMA_SLOT] = t, energy, old_sigma
    totals[0], totals[1] = hit, moved
    hold(memory)
    return 0


@fused
def gradient_fits(g, d):
    """Whether a live agent can take this gradient: d numbers, none NaN, none so large that a square might overflow."""
    if g.ndim != 1 or g.size != d:
        return False
    fits = True
    for i in range(d):
        fits = fits and abs(g[i]) <= codes.LARGEST_GRADIENT
    return fits


def _update(memory, g):
    d = D if D > 0 else int(memory[codes.DIM_SLOT])
    if not gradient_fits(g, d):
        return 1
    at = codes.HEAD
    x, a, b, h = (
        pointer(memory, at),
        pointer(memory, at + d),
        pointer(memory, at + 2 * d),
        pointer(memory, at + 3 * d),
    )
    y, u = pointer(memory, at + 4 * d), pointer(memory, at + 5 * d)
    program = pointer(memory, at + codes.VECTORS * d)
    p, gradient = pointer(program, codes.SET), pointer(g, 0)
    schedule, c, offset = int(program[codes.SCHEDULE]), program[codes.SCHEDULE_A], program[codes.SCHEDULE_B]
    rule, kappa, k = int(program[codes.MEMORY_RULE]), program[codes.MEMORY_A], int(program[codes.SLACK])
    t = memory[codes.T_SLOT]
    phase = (int(t) - 1) % k
    if schedule == codes.SCALE_FREE:
        memory[codes.ENERGY_SLOT] += scale(distance2(gradient, b, d) if HAS_MEMORY else norm2(gradient, d), c)
    sigma = sigma_at(schedule, c, offset, t, memory[codes.ENERGY_SLOT])
    if sigma != np.inf:
        advance(
            x, a, b, y, u, p, gradient, h, d, phase, k, sigma, 1.0 / sigma, memory[codes.SIGMA_SLOT], rule, kappa, -np.inf,
            codes.MOVE_L2, p,
        )  # fmt: skip
        memory[codes.SIGMA_SLOT] = sigma
    memory[codes.T_SLOT] = t + 1.0
    return 0


def _constant_dim(set_code: int, d: int) -> int:
    """The dimension a kernel is specialised on, or 0 for one that takes any."""
    return d if codes.unrolled(set_code, d) else 0


@once
def settling(set_code: int) -> Any:
    """The second stage of the projection onto a set."""
    return fused(bind(_settle, coordinate=COORDINATES[set_code]))


@once
def _parts(set_code: int, rule: int, constant_d: int) -> dict[str, Any]:
    """What a template needs to know of set, rule and dimension."""
    common = {"D": constant_d, "HAS_MEMORY": rule == codes.MEMORY}
    advance = bind(
        _advance,
        unconstrained=RULES[rule],
        threshold=(SMALL_THRESHOLDS if constant_d else THRESHOLDS)[set_code],
        settle=settling(set_code),
        **common,
    )
    return {"advance": fused(advance), **common}


def play_kernel(set_code: int, cost: int, rule: int, d: int):
    """The whole-sequence kernel; it returns 0, or the first round whose cost is not finite."""
    return _play_kernel(set_code, cost, rule, _constant_dim(set_code, d))


@once
def _play_kernel(set_code: int, cost: int, rule: int, constant_d: int):
    costs = {"IS_LINEAR": cost == codes.LINEAR, "reveal": REVEALS.get(cost)}
    play = bind(_play, **costs, **_parts(set_code, rule, constant_d))
    return compiled(play, int64(*SEQUENCE), set_code, cost, rule, constant_d)


def update_kernel(set_code: int, rule: int, d: int):
    """One update of a live state; it returns 1 and changes nothing if the gradient has a wrong length or size."""
    return _update_kernel(set_code, rule, _constant_dim(set_code, d))


@once
def _update_kernel(set_code: int, rule: int, constant_d: int):
    return compiled(bind(_update, **_parts(set_code, rule, constant_d)), UPDATE, set_code, rule, constant_d)
