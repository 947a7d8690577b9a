"""The drivers of one run: a whole sequence in one call, and one round of a live agent.

A kernel is specialised on the kind of set, the cost family, the update rule and a small dimension; everything else
(schedule, memory, movement cost, what to record) is data. Each has one signature, so it is compiled once per machine.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64, types

from klazy.base.checks import LARGEST, SMALLEST
from klazy.kernels import codes
from klazy.kernels.binding import FLOAT, compile_kernel, hold, local, once, pointer
from klazy.kernels.coded import energy_of, fill_sigmas, is_rooted
from klazy.kernels.costs import COSTS, reward_moments
from klazy.kernels.lane import exact
from klazy.kernels.round import advance, link_round, play_round
from klazy.kernels.rules import RULES, describe_kernel
from klazy.kernels.slots import *

STRETCH = 64  # rounds whose sigmas are made before they are played, and whose roots and sums follow after
STRETCHES = 4 * STRETCH + 1  # numbers: sigmas, steps, values, and one move more

input1 = types.Array(float64, 1, "C", readonly=True)
input2 = types.Array(float64, 2, "C", readonly=True)
output1 = float64[::1]
output2 = float64[:, ::1]
RUN_SIGNATURE = int64(
    input2, input1, input1, input2, int64, input1, input1, float64, output1, output2, output1, output1, output1
)  # fmt: skip
# An ensemble has no hints, but a record.
ENSEMBLE_SIGNATURE = int64(
    input2, input1, input1, int64, input1, input1, float64, output1, output2, output1, output1, output1, output2
)  # fmt: skip
UPDATE_SIGNATURE = int64(output1, output1)


def count_own_vectors(q):
    """Return how many vectors the rule of a row keeps."""
    count = VECTORS
    if KEEPS_RING:
        count += DEPTH * int(q[codes.OWN])
    return count


@exact
def take_roots(moves, n):
    """Take the roots of ``moves[1]`` to ``moves[n]``; ``moves[0]`` is a distance already."""
    for j in range(n):
        moves[j + 1] = math.sqrt(moves[j + 1])


def sum_first(values, n):
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


def play_sequence(
    data,
    extra,
    cost_p,
    hints,
    move,
    weights,
    prices,
    pending,
    memory,
    xs,
    hitting,
    switching,
    totals,
):
    """Play T rounds of the learner in ``memory`` (:mod:`klazy.kernels.layout`).

    ``pending`` is what the move to the first point costs before its weight. Returns 0, or the first round whose cost is not
    finite.
    """
    rounds = data.shape[0]
    d = D if D > 0 else data.shape[1]
    q = pointer(memory, 0)
    behind = codes.FIELDS + (1 + count_own_vectors(q)) * d
    y = pointer(memory, behind + d)
    u = pointer(y, codes.MOMENTS * d)
    p = pointer(memory, behind + codes.SCRATCH * d)
    if D > 0:
        q = local(ROW_ROOM)
        y = local(Y_ROOM)
        u = local(U_ROOM)
        for i in range(ROW_ROOM):
            q[i] = memory[i]
    x = pointer(q, codes.FIELDS)
    s = pointer(q, codes.OWN)
    own = pointer(x, d)
    if KEEPS_RING:
        own = pointer(memory, codes.FIELDS + d)
    price_p = pointer(prices, 0)
    costs = pointer(cost_p, 0)
    points = pointer(xs, 0)
    schedule = int(q[codes.SCHEDULE])
    a = q[codes.A]
    b = q[codes.B]
    kept = int(q[codes.MEMORY])
    kappa = q[codes.KAPPA]
    k = int(q[codes.SLACK])
    t = q[codes.T]
    energy = q[codes.ENERGY]
    old_sigma = q[codes.OLD_SIGMA]
    start = int(q[codes.START])
    guess = -np.inf
    recording = xs.shape[0] > 0
    keeping = hitting.size > 0
    hinted = hints.shape[0] > 1
    # Numba allocates an array by functions that take longer to compile than this one.
    if D > 0:
        gradient = local(WORK_ROOM)
    else:
        scratch = np.empty(codes.MOMENTS * d + STRETCHES)
        gradient = pointer(scratch, 0)
    sigmas = pointer(gradient, codes.MOMENTS * d)
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
            if schedule == codes.SCALE_FREE:
                square = squared_norm(g, d)
                if HINT >= 0:
                    square = squared_distance(g, pointer(own, HINT * d), d)
                energy += energy_of(square, math.sqrt(square), a)
                sigma = math.sqrt(energy / b)
                has_scale = not sigma < SMALLEST  # NaN and inf are passed on and found later.
                if has_scale:
                    step = 1.0 / sigma
            now = int(t) + j
            starts = start == now
            if starts:
                start = now + k
            dot = 0.0
            paid = 0.0
            if has_scale:  # Without a scale it stays.
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
        added = sum_first(values, n)
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
    q[codes.T] = t
    q[codes.ENERGY] = energy
    q[codes.OLD_SIGMA] = old_sigma
    q[codes.START] = start
    for i in range(ROW_ROOM):
        memory[i] = q[i]
    totals[0] = hit
    totals[1] = moved
    if D == 0:
        hold(scratch)
    return 0


def gradient_fits(g, d):
    """Return True if a live agent can use this gradient: d numbers, none NaN, none so large that a square might overflow."""
    if g.ndim != 1 or g.size != d:
        return False
    fits = True
    for i in range(d):
        fits = fits and abs(g[i]) <= LARGEST
    return fits


def update_run(memory, g):
    """Play one round of the learner in ``memory``; returns 1 and changes nothing if the gradient does not fit."""
    d = D if D > 0 else int(memory[codes.DIM])
    if not gradient_fits(g, d):
        return 1
    q = pointer(memory, 0)
    own = pointer(memory, codes.FIELDS + d)
    h = pointer(own, count_own_vectors(q) * d)
    y = pointer(h, d)
    u = pointer(y, codes.MOMENTS * d)
    p = pointer(h, codes.SCRATCH * d)
    gradient = pointer(g, 0)
    if TELLS_ROWS:
        gradient = pointer(u, codes.MOVE_ROOM * d)
        take_moments(pointer(g, 0), gradient, d)
    square = squared_norm(gradient, d)
    if HINT >= 0:
        square = squared_distance(gradient, pointer(own, HINT * d), d)
    q[codes.GUESS] = -np.inf  # so that a saved agent goes on bit for bit
    advance(q, gradient, h, y, u, p, d, square, math.sqrt(square), codes.MOVE_L2, 1.0, p)
    return 0


@once
def sequence_kernel(set_code: int, cost: int, rule: int, d: int) -> Any:
    """Make the kernel that plays a whole sequence."""
    chosen = choose_rule(rule, d) | link_round(FLOAT, set_code, (rule,), d)
    chosen |= {"IS_LINEAR": cost == codes.LINEAR, "reveal": COSTS[cost].reveal}
    about = describe_kernel(rule, set_code)
    return compile_kernel(
        play_sequence, FLOAT, RUN_SIGNATURE, (set_code, cost, rule, d), about=about, **chosen
    )


@once
def update_kernel(set_code: int, rule: int, d: int, earns: bool) -> Any:
    """Make the kernel of one round, which no other thread sees half done; it gets rewards, not gradients, if it ``earns``."""
    chosen = choose_update(set_code, rule, d)
    if earns:
        chosen |= {"TELLS_ROWS": True, "take_moments": reward_moments}
    key = (set_code, rule, d, int(earns))
    about = describe_kernel(rule, set_code)
    return compile_kernel(
        update_run, FLOAT, UPDATE_SIGNATURE, key, about=about, nogil=False, **chosen
    )


def choose_update(set_code: int, rule: int, d: int) -> dict[str, Any]:
    """Choose the parts of one round of a learner that gets gradients."""
    return choose_rule(rule, d) | link_round(FLOAT, set_code, (rule,), d)


def choose_rule(rule: int, d: int) -> dict[str, Any]:
    """Choose the compile-time parameters of one run that follow from its rule."""
    chosen = list(RULES.values())[rule]
    hint = chosen.vectors.index("hint") if "hint" in chosen.vectors else -1
    about: dict[str, Any] = {
        "THE_RULE": rule,
        "VECTORS": chosen.width,
        "HINT": hint,
        "KEEPS_RING": chosen.ring,
    }
    if d > 0:
        # The places of a ring are computed while it plays, so the vectors next to it cannot be in registers.
        vectors = 0 if chosen.ring else chosen.width
        about["ROW_ROOM"] = codes.FIELDS + (1 + vectors) * d
        about["WORK_ROOM"] = codes.MOMENTS * d + STRETCHES
    if chosen.row_family is not None:
        about |= {"TELLS_ROWS": True, "take_moments": COSTS[chosen.row_family].moments}
    return about
