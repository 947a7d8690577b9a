"""The kernels: a whole sequence in one call, and one update of a live agent.

A kernel is specialised on the kind of set, the cost family, the update rule and a small dimension; everything else
(schedule, memory rule, movement cost, what to record) is data. Each has one signature and is cached on disk, so it is
compiled once per machine.
"""

import math
from functools import cache

import numpy as np
from numba import float64, int64, types

from klazy.kernels import codes
from klazy.kernels.binding import bind, compiled, fused, pointer
from klazy.kernels.parts import REVEALS, RULES, remember, scale, sigma_at
from klazy.kernels.project import COORDINATES, SMALL_THRESHOLDS, THRESHOLDS

SMALL = 8  # up to this dimension loops are unrolled and l1 thresholds come from a sorting network

_input1 = types.Array(float64, 1, "C", readonly=True)
_input2 = types.Array(float64, 2, "C", readonly=True)
_PLAY = int64(
    _input2, _input1, _input1, _input2, _input1, int64, _input1, _input1,
    float64, float64[::1], float64[:, ::1], float64[::1], float64[::1], float64[::1],
)  # fmt: skip
_UPDATE = int64(float64[::1], float64[::1])

# The parts of the templates below; bind() puts the chosen ones here, one set per kernel.
D = 0  # the dimension where it is a constant of the kernel, else 0
IS_LINEAR = HAS_MEMORY = False
threshold = coordinate = unconstrained = reveal = settle = advance = lambda *parts: parts


def _settle(x, y, u, d, p, shift, theta, move, prices):
    """Second stage of the projection into ``x``; returns how far that moved, before the movement weight."""
    paid = 0.0
    if move == codes.MOVE_L2:
        for i in range(d):
            z = coordinate(y[i], u[i], i, d, p, shift, theta)
            paid += (z - x[i]) ** 2
            x[i] = z
        paid = math.sqrt(paid)
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
        paid = math.sqrt(paid) if move == codes.MOVE_WEIGHTED else paid
    return paid


def _advance(
    x, a, b, y, u, p, g, h, d, t, phase, k, schedule, c, offset, rule, kappa, energy, old_sigma, guess, move, prices
):
    """One round of the learner: <g, x>, the movement to the next point, and energy, sigma and threshold to carry on."""
    if schedule == codes.SCALE_FREE:
        square = 0.0
        for i in range(d):
            square += (g[i] - b[i]) ** 2 if HAS_MEMORY else g[i] ** 2
        energy += scale(square, c)
    sigma = sigma_at(schedule, c, offset, t, energy)
    dot = moved = 0.0
    if sigma < np.inf:
        dot = unconstrained(x, a, b, g, h, y, d, sigma, old_sigma, phase == 0)
        shift, theta = threshold(y, u, d, p, guess)
        moved = settle(x, y, u, d, p, shift, theta, move, prices)
        if HAS_MEMORY:
            remember(rule, kappa, x, y, a, d, sigma, phase == k - 1)
        guess = shift + theta
        old_sigma = sigma
    return dot, moved, energy, old_sigma, guess


def _play(data, extra, cost_p, hints, program, move, weights, prices, pending, s, xs, hitting, switching, totals):
    d = D if D > 0 else data.shape[1]
    at = codes.HEAD
    x, a, b, y, u = (
        pointer(s, at),
        pointer(s, at + d),
        pointer(s, at + 2 * d),
        pointer(s, at + 4 * d),
        pointer(s, at + 5 * d),
    )
    p, q, costs = pointer(program, codes.SET), pointer(prices, 0), pointer(cost_p, 0)
    schedule, c, offset = int(program[codes.SCHEDULE]), program[codes.SCHEDULE_A], program[codes.SCHEDULE_B]
    rule, kappa, k = int(program[codes.MEMORY_RULE]), program[codes.MEMORY_A], int(program[codes.SLACK])
    t, energy, sigma, guess = s[codes.T_SLOT], s[codes.ENERGY_SLOT], s[codes.SIGMA_SLOT], -np.inf
    phase = (int(t) - 1) % k
    hit = moved = 0.0
    buffer = np.empty(d)
    gradient = pointer(buffer, 0)
    for row in range(data.shape[0]):
        if xs.shape[0] > 0:
            for i in range(d):
                xs[row, i] = x[i]
        paid = weights[row if weights.size > 1 else 0] * pending
        h = pointer(hints, row * d if hints.shape[0] > 1 else 0)
        g = pointer(data, row * d)
        if IS_LINEAR:
            value, pending, energy, sigma, guess = advance(
                x, a, b, y, u, p, g, h, d, t, phase, k, schedule, c, offset, rule, kappa, energy, sigma, guess, move, q
            )
        else:
            value = reveal(g, extra[row if extra.size > 1 else 0], costs, x, gradient, d)
            _, pending, energy, sigma, guess = advance(
                x,
                a,
                b,
                y,
                u,
                p,
                gradient,
                h,
                d,
                t,
                phase,
                k,
                schedule,
                c,
                offset,
                rule,
                kappa,
                energy,
                sigma,
                guess,
                move,
                q,
            )
        if not math.isfinite(value):
            return int(t)
        if hitting.size > 0:
            hitting[row] = value
            switching[row] = paid
        hit += value
        moved += paid
        phase = phase + 1 if phase < k - 1 else 0
        t += 1.0
    s[codes.T_SLOT], s[codes.ENERGY_SLOT], s[codes.SIGMA_SLOT] = t, energy, sigma
    totals[0], totals[1] = hit, moved
    return 0


def _update(memory, g):
    d = D if D > 0 else int(memory[codes.DIM_SLOT])
    if g.size != d:
        return 1
    for i in range(d):
        if not math.isfinite(g[i]):
            return 1
    at = codes.HEAD
    x, a, b, h = pointer(memory, at), pointer(memory, at + d), pointer(memory, at + 2 * d), pointer(memory, at + 3 * d)
    y, u = pointer(memory, at + 4 * d), pointer(memory, at + 5 * d)
    program = pointer(memory, at + codes.VECTORS * d)
    p = pointer(program, codes.SET)
    schedule, c, offset = int(program[codes.SCHEDULE]), program[codes.SCHEDULE_A], program[codes.SCHEDULE_B]
    rule, kappa, k = int(program[codes.MEMORY_RULE]), program[codes.MEMORY_A], int(program[codes.SLACK])
    t, energy, sigma = memory[codes.T_SLOT], memory[codes.ENERGY_SLOT], memory[codes.SIGMA_SLOT]
    phase = (int(t) - 1) % k
    _, _, energy, sigma, _ = advance(
        x, a, b, y, u, p, pointer(g, 0), h, d, t, phase, k, schedule, c, offset, rule, kappa, energy, sigma, -np.inf,
        codes.MOVE_L2, p,
    )  # fmt: skip
    memory[codes.T_SLOT], memory[codes.ENERGY_SLOT], memory[codes.SIGMA_SLOT] = t + 1.0, energy, sigma
    return 0


def _constant_dim(set_code: int, d: int) -> int:
    """The dimension a kernel is specialised on, or 0 for one that takes any."""
    return d if d <= SMALL and set_code in SMALL_THRESHOLDS else 0


def _bound_advance(set_code: int, rule: int, constant_d: int):
    parts = {
        "HAS_MEMORY": rule == codes.MEMORY,
        "unconstrained": RULES[rule],
        "threshold": (SMALL_THRESHOLDS if constant_d else THRESHOLDS)[set_code],
        "settle": fused(bind(_settle, coordinate=COORDINATES[set_code])),
    }
    return fused(bind(_advance, **parts))


def play_kernel(set_code: int, cost: int, rule: int, d: int):
    """The whole-sequence kernel; it returns 0, or the first round whose cost is not finite."""
    return _play_kernel(set_code, cost, rule, _constant_dim(set_code, d))


@cache
def _play_kernel(set_code: int, cost: int, rule: int, constant_d: int):
    parts = {"D": constant_d, "IS_LINEAR": cost == codes.LINEAR, "advance": _bound_advance(set_code, rule, constant_d)}
    return compiled(bind(_play, reveal=REVEALS.get(cost), **parts), _PLAY, set_code, cost, rule, constant_d)


def update_kernel(set_code: int, rule: int, d: int):
    """One update of a live state; it returns 1 and changes nothing if the gradient has a wrong length or is not finite."""
    return _update_kernel(set_code, rule, _constant_dim(set_code, d))


@cache
def _update_kernel(set_code: int, rule: int, constant_d: int):
    parts = {"D": constant_d, "advance": _bound_advance(set_code, rule, constant_d)}
    return compiled(bind(_update, **parts), _UPDATE, set_code, rule, constant_d)
