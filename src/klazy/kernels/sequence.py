"""The driver of one run: a whole sequence in one call.

A kernel is specialised on the kind of set, the cost family, the update rule and a small dimension; everything else
(schedule, memory, movement cost, what to record) is data. Each has one signature, so it is compiled once per machine.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64, types

from klazy.base.checks import SMALLEST
from klazy.kernels.binding import FLOAT, compile_kernel, hold, local, once, pointer
from klazy.kernels.codes import (
    ENERGY,
    FIELDS,
    KAPPA,
    LINEAR,
    MEMORY,
    MOMENTS,
    OLD_SIGMA,
    OWN,
    OWN_ROOM,
    SCALE_FREE,
    SCHEDULE,
    SCRATCH,
    SLACK,
    START,
    A,
    B,
    T,
)
from klazy.kernels.costs import COSTS, MOMENTS_OF
from klazy.kernels.lane import exact
from klazy.kernels.layout import constant_dim
from klazy.kernels.prices import is_rooted
from klazy.kernels.round import link_round, play_round
from klazy.kernels.rules import RULES
from klazy.kernels.schedules import energy_of, fill_sigmas

STRETCH = 64  # rounds whose sigmas are made before they are played, and whose roots and sums are taken after

input1 = types.Array(float64, 1, "C", readonly=True)
input2 = types.Array(float64, 2, "C", readonly=True)
output1 = float64[::1]
output2 = float64[:, ::1]
SIGNATURE = int64(
    input2, input1, input1, input2, int64, input1, input1, float64, output1, output2, output1, output1, output1
)  # fmt: skip

# What a kernel chooses.
D = 0  # the dimension where it is a constant of the kernel, else 0
THE_RULE = 0
VECTORS = 0  # of the rule's own
ROOM = 0  # numbers in these, where the dimension is a constant
Y_ROOM = 0  # numbers in the two scratches of a round
U_ROOM = 0
HINT = -1  # which of these is the hint in force, if there is one
KEEPS_RING = (
    False  # whether more of them follow, as many as its first parameter says, each DEPTH times as long
)
DEPTH = 1
IS_LINEAR = False
TELLS_ROWS = False  # whether the rule is told rows instead of gradients


def reveal(row, extra, p, x, g, d):
    """The cost family's part; a kernel puts it here."""
    raise NotImplementedError


def take_moments(row, seen, d):
    """The moments of a row of the family that the rule is told; a kernel puts them here."""
    raise NotImplementedError


def count_vectors(q):
    """How many vectors the rule of a row keeps."""
    count = VECTORS
    if KEEPS_RING:
        count += DEPTH * int(q[OWN])
    return count


@exact
def take_roots(moves, n):
    """The roots of ``moves[1]`` to ``moves[n]``; ``moves[0]`` is a distance already."""
    for j in range(n):
        moves[j + 1] = math.sqrt(moves[j + 1])


def add_up(values, n):
    added = 0.0
    for j in range(n):
        added += values[j]
    return added


def squared_norm(g, d):
    square = 0.0
    for i in range(d):
        square += g[i] * g[i]
    return square


def squared_distance(g, h, d):
    square = 0.0
    for i in range(d):
        square += (g[i] - h[i]) ** 2
    return square


def play(data, extra, cost_p, hints, move, weights, prices, pending, memory, xs, hitting, switching, totals):
    """T rounds of the learner in ``memory`` (:mod:`klazy.kernels.layout`).

    ``pending`` is what the move to the first point costs before its weight. Returns 0, or the first round whose cost is not
    finite.
    """
    rounds = data.shape[0]
    d = D if D > 0 else data.shape[1]
    q = pointer(memory, 0)
    x = pointer(memory, FIELDS)
    own = pointer(memory, FIELDS + d)
    s = pointer(memory, OWN)
    behind = FIELDS + (1 + count_vectors(q)) * d
    y = pointer(memory, behind + d)
    u = pointer(y, MOMENTS * d)
    p = pointer(memory, behind + SCRATCH * d)
    if D > 0:
        x = local(D)
        s = local(OWN_ROOM)
        y = local(Y_ROOM)
        u = local(U_ROOM)
        for i in range(D):
            x[i] = memory[FIELDS + i]
        for i in range(OWN_ROOM):
            s[i] = memory[OWN + i]
    if D > 0 and not KEEPS_RING:
        own = local(ROOM)
        for i in range(VECTORS * D):
            own[i] = memory[FIELDS + D + i]
    price_p = pointer(prices, 0)
    costs = pointer(cost_p, 0)
    points = pointer(xs, 0)
    schedule = int(q[SCHEDULE])
    a = q[A]
    b = q[B]
    kept = int(q[MEMORY])
    kappa = q[KAPPA]
    k = int(q[SLACK])
    t = q[T]
    energy = q[ENERGY]
    old_sigma = q[OLD_SIGMA]
    start = int(q[START])
    guess = -np.inf
    recording = xs.shape[0] > 0
    keeping = hitting.size > 0
    hinted = hints.shape[0] > 1
    scratch = np.empty(MOMENTS * d + 4 * STRETCH + 1)
    gradient = pointer(scratch, 0)
    sigmas = pointer(scratch, MOMENTS * d)
    steps = pointer(sigmas, STRETCH)
    values = pointer(sigmas, 2 * STRETCH)
    moves = pointer(sigmas, 3 * STRETCH)  # moves[j] leads to round j of the stretch
    hit = 0.0
    moved = 0.0
    for first in range(0, rounds, STRETCH):
        n = min(STRETCH, rounds - first)
        fill_sigmas(schedule, a, b, t, n, sigmas, steps)
        moves[0] = pending
        for j in range(n):
            row = first + j
            if recording:
                for i in range(d):
                    points[row * d + i] = x[i]
            g = pointer(data, row * d)
            h = pointer(hints, row * d if hinted else 0)
            value = 0.0
            if not IS_LINEAR:
                value = reveal(g, extra[row if extra.size > 1 else 0], costs, x, gradient, d)
                if TELLS_ROWS:
                    take_moments(g, gradient, d)
                g = gradient
            sigma = sigmas[j]
            step = steps[j]
            has_scale = True
            if schedule == SCALE_FREE:
                square = squared_norm(g, d)
                if HINT >= 0:
                    square = squared_distance(g, pointer(own, HINT * d), d)
                energy += energy_of(square, math.sqrt(square), a)
                sigma = math.sqrt(energy / b)
                has_scale = not sigma < SMALLEST  # NaN and inf go on and show
                if has_scale:
                    step = 1.0 / sigma
            now = int(t) + j
            starts = start == now
            if starts:
                start = now + k
            dot = 0.0
            paid = 0.0
            if has_scale:  # else it stays put
                dot, paid, guess = play_round(
                    THE_RULE, x, own, s, y, u, p, g, h, d, sigma, step, old_sigma, starts, start == now + 1,
                    kept, kappa, guess, move, price_p,
                )  # fmt: skip
                old_sigma = sigma
            else:
                for i in range(d):
                    dot += x[i] * g[i]
            values[j] = dot if IS_LINEAR else value
            moves[j + 1] = paid
        if is_rooted(move):
            take_roots(moves, n)
        added = add_up(values, n)
        if not math.isfinite(added):
            for j in range(n):
                if not math.isfinite(values[j]):
                    return int(t) + j
        for j in range(n):
            paid = weights[first + j if weights.size > 1 else 0] * moves[j]
            moved += paid
            if keeping:
                hitting[first + j] = values[j]
                switching[first + j] = paid
        hit += added
        t += n
        pending = moves[n]
    if D > 0:
        for i in range(D):
            memory[FIELDS + i] = x[i]
        for i in range(OWN_ROOM):
            memory[OWN + i] = s[i]
    if D > 0 and not KEEPS_RING:
        for i in range(VECTORS * D):
            memory[FIELDS + D + i] = own[i]
    memory[T] = t
    memory[ENERGY] = energy
    memory[OLD_SIGMA] = old_sigma
    memory[START] = start
    totals[0] = hit
    totals[1] = moved
    hold(scratch)
    return 0


def sequence_kernel(set_code: int, cost: int, rule: int, d: int) -> Any:
    """The kernel that plays a whole sequence."""
    return _sequence_kernel(set_code, cost, rule, constant_dim(d))


@once
def _sequence_kernel(set_code: int, cost: int, rule: int, constant_d: int) -> Any:
    return compile_kernel(
        play,
        FLOAT,
        SIGNATURE,
        (set_code, cost, rule, constant_d),
        IS_LINEAR=cost == LINEAR,
        reveal=COSTS[cost],
        **choose_rule(rule, constant_d),
        **link_round(FLOAT, set_code, (rule,), constant_d),
    )


def choose_rule(rule: int, constant_d: int) -> dict[str, Any]:
    """What a driver of one run must know of its rule and of its own vectors."""
    chosen = list(RULES.values())[rule]
    hint = chosen.vectors.index("hint") if "hint" in chosen.vectors else -1
    room = max(1, chosen.width * constant_d)
    about: dict[str, Any] = {"THE_RULE": rule, "VECTORS": chosen.width, "ROOM": room, "HINT": hint}
    if chosen.told is not None:
        about |= {"TELLS_ROWS": True, "take_moments": MOMENTS_OF[chosen.told]}
    return about | {"KEEPS_RING": chosen.ring, "DEPTH": chosen.depth}
