"""The kernels of an ensemble: a whole sequence in one call, and one update of a live agent.

The experts lie in blocks (see :mod:`klazy.kernels.codes`), which :mod:`klazy.kernels.lanes` advances side by side
for small dimensions and :mod:`klazy.kernels.rows` one by one otherwise. What is here reads and sets their weights.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64

from klazy.kernels import codes, lanes, rows
from klazy.kernels.binding import bind, called, compiled, fused, hold, local, once, pointer
from klazy.kernels.codes import GUESS, LOG_W, LOSS, LOSSES, MOVED, PRIOR, SHRUNK, W
from klazy.kernels.codes import LANES as L
from klazy.kernels.parts import REVEALS, norm2
from klazy.kernels.play import SEQUENCE, UPDATE, gradient_fits
from klazy.kernels.simd import exp, larger, largest, load, smaller, smallest, spread, store, total

# The parts of the templates below; bind() puts the chosen ones here, one set per kernel.
D = 0  # the dimension where it is a constant of the kernel, else 0
ROOM = 0  # what a vector of every lane then takes
IS_LINEAR = False
clear = mix = gather = hit = place = reveal = diameter = lost = learn = move_on = note = lambda *parts: None


first_block = fused(codes.first_block)


@fused
def distance(delta, d, move, prices):
    """The price of a step, before its weight."""
    paid = 0.0
    for i in range(d):
        if move == codes.MOVE_L2:
            paid += delta[i] * delta[i]
        elif move == codes.MOVE_WEIGHTED:
            paid += prices[i] * delta[i] * delta[i]
        elif move == codes.MOVE_ABSOLUTE:
            paid += prices[i] * delta[i] if delta[i] > 0.0 else -prices[d + i] * delta[i]
        elif abs(delta[i]) > prices[0]:
            paid = 1.0
    return math.sqrt(paid) if move == codes.MOVE_L2 or move == codes.MOVE_WEIGHTED else paid


def _diameter(blocks, count, size, d, move, prices, delta):
    """How far apart two experts' points are."""
    widest = 0.0
    for first in range(count * L):
        q = pointer(blocks, first // L * size)
        for second in range(count * L):
            r = pointer(blocks, second // L * size)
            for i in range(d):
                delta[i] = place(q, first % L, i, d) - place(r, second % L, i, d)
            widest = max(widest, distance(delta, d, move, prices))
    return widest


def _lost(blocks, count, size, X, mean, d, beta, move, weight, prices, work):
    """The mixability gap of this round and the price of its reweighting, both at the rate in force."""
    most = spread(-np.inf)
    for block in range(count):
        q = pointer(blocks, block * size)
        a = load(q, LOG_W) - (load(q, LOSS) - mean) * beta
        store(q, SHRUNK, a)
        most = larger(most, a)
    top, sums, points = largest(most), spread(0.0), pointer(work, d)
    if D > 0:
        points = local(ROOM)
    clear(points, d)
    for block in range(count):
        q = pointer(blocks, block * size)
        w = exp(load(q, SHRUNK) - top)
        store(q, SHRUNK, w)
        sums = sums + w
        mix(q, SHRUNK, points, d)
    Z, jump = total(sums), work
    gather(points, jump, d)
    for i in range(d):
        jump[i] = jump[i] / Z - X[i]
    return max(0.0, (top + math.log(Z)) / beta) + weight * distance(jump, d, move, prices)


@fused
def rate_of(rule, number, V, budget):
    """beta; ``number`` is the rate itself, or what its rule divides."""
    if rule == codes.GIVEN_RATE:
        return number
    scale = budget if rule == codes.RESTART else V
    if scale < codes.SMALLEST_VARIATION:
        return 0.0
    return number / scale if rule == codes.SELF_TUNED else math.sqrt(number / scale)


def _learn(blocks, count, size, X, g, d, head, program, work, noted):
    """What the round teaches: the experts' losses, V and the budget, the next weights. Returns the spread of the losses and
    what the weights are still to be multiplied by. Their logarithms are set only where they are to be ``noted``.
    """
    rule, number, move = int(program[codes.RATE_RULE]), program[codes.RATE], int(program[codes.MOVE])
    weight, prices = program[codes.MOVE_WEIGHT], pointer(program, codes.PRICES)
    V, budget = head[codes.ENERGY_SLOT], head[codes.SIGMA_SLOT]
    beta, noted = rate_of(rule, number, V, budget), noted or rule != codes.GIVEN_RATE
    means, low, high, least = spread(0.0), spread(np.inf), spread(-np.inf), spread(np.inf)
    for block in range(count):
        q = pointer(blocks, block * size)
        hit(q, g, X, d)
        loss = load(q, LOSS) + load(q, MOVED)
        losses = load(q, LOSSES) + loss
        store(q, LOSS, loss)
        store(q, LOSSES, losses)
        low, high, least = smaller(low, loss), larger(high, loss), smaller(least, losses)
        if rule == codes.SELF_TUNED:  # by the logarithms, which are what a saved state holds
            means = means + exp(load(q, LOG_W)) * loss
    lowest, r = smallest(least), 0.0
    if noted:
        r = largest(high) - smallest(low)
    if (
        rule != codes.GIVEN_RATE
        and r > program[codes.NOISE_A] * math.sqrt(norm2(g, d)) + program[codes.NOISE_B]
    ):
        if rule != codes.SELF_TUNED:
            V += r * r / 8.0 + weight * diameter(blocks, count, size, d, move, prices, work) * r / 4.0
        elif beta == 0.0:
            V += total(means) - smallest(low)
        else:
            V += lost(blocks, count, size, X, total(means), d, beta, move, weight, prices, work)
    if rule == codes.RESTART and budget < V:
        for block in range(count):
            store(pointer(blocks, block * size), LOSSES, spread(0.0))
        budget, V, lowest = 4.0 * V, 0.0, 0.0
    head[codes.ENERGY_SLOT], head[codes.SIGMA_SLOT] = V, budget

    beta, sums = rate_of(rule, number, V, budget), spread(0.0)
    for block in range(count):
        q = pointer(blocks, block * size)
        a = load(q, PRIOR) - (load(q, LOSSES) - lowest) * beta
        w = exp(a)
        store(q, LOG_W, a)
        store(q, W, w)
        sums = sums + w
    Z = total(sums)
    if noted:
        log_Z = math.log(Z)
        for block in range(count):
            q = pointer(blocks, block * size)
            store(q, LOG_W, load(q, LOG_W) - log_Z)
    return r, 1.0 / Z


def _note(blocks, count, size, factor, X, g, d, row, head, program, work):
    """One row of the ensemble's record: weights, hits and movements in the order of the lanes, then r (later), d and beta."""
    N = count * L
    for block in range(count):
        q = pointer(blocks, block * size)
        hit(q, g, X, d)
        store(row, block * L, load(q, W) * factor)
        store(row, N + block * L, load(q, LOSS))
        store(row, 2 * N + block * L, load(q, MOVED))
    move, prices = int(program[codes.MOVE]), pointer(program, codes.PRICES)
    row[3 * N + 1] = diameter(blocks, count, size, d, move, prices, work)
    V, budget = head[codes.ENERGY_SLOT], head[codes.SIGMA_SLOT]
    row[3 * N + 2] = rate_of(int(program[codes.RATE_RULE]), program[codes.RATE], V, budget)


def _play(
    data,
    extra,
    cost_p,
    hints,
    program,
    move,
    weights,
    prices,
    pending,
    s,
    xs,
    hitting,
    switching,
    totals,
    log,
):
    """T rounds of an ensemble; it returns 0, or the first round whose cost is not finite."""
    T = data.shape[0]
    d = D if D > 0 else data.shape[1]
    count, size = int(s[codes.BLOCKS_SLOT]), L * (codes.FIELDS + codes.BLOCK_VECTORS * d)
    head, blocks, own = pointer(s, 0), pointer(s, first_block(d)), pointer(program, 0)
    q, costs = pointer(prices, 0), pointer(cost_p, 0)
    memory = np.zeros(8 * d)  # work, the last five: a difference, a sum of points, zeros, and two for move_on
    X, previous, gradient, work = (
        pointer(memory, 0),
        pointer(memory, d),
        pointer(memory, 2 * d),
        pointer(memory, 3 * d),
    )
    if D > 0:
        X, previous, gradient = local(D), local(D), local(D)
    recording, keeping, logging = xs.shape[0] > 0, hitting.size > 0, log.shape[0] > 0
    for i in range(d):
        X[i] = s[codes.HEAD + i]
    hitting_sum, switching_sum, factor = 0.0, 0.0, 1.0
    for row in range(T):
        g = pointer(data, row * d)
        value, h = 0.0, 0.0
        if IS_LINEAR:
            for i in range(d):
                gradient[i] = g[i]
        else:
            value = reveal(g, extra[row if extra.size > 1 else 0], costs, X, gradient, d)
        for i in range(d):
            h += gradient[i] * X[i]
            previous[i] = X[i]
            if recording:
                xs[row, i] = X[i]
        value = h if IS_LINEAR else value
        if not math.isfinite(value):
            return int(s[codes.T_SLOT])
        paid = weights[row if weights.size > 1 else 0] * pending
        hitting_sum += value
        switching_sum += paid
        if keeping:
            hitting[row], switching[row] = value, paid
        if logging:
            note(
                blocks, count, size, factor, X, gradient, d, pointer(log, row * log.shape[1]), head, own, work
            )
        r, factor = learn(blocks, count, size, X, gradient, d, head, own, work, logging or row == T - 1)
        if logging:
            log[row, 3 * count * L] = r
        move_on(blocks, count, size, factor, X, gradient, d, own, work)
        for i in range(d):
            previous[i] = X[i] - previous[i]
        pending = distance(previous, d, move, q)
        s[codes.T_SLOT] += 1.0
    for i in range(d):
        s[codes.HEAD + i] = X[i]
    totals[0], totals[1] = hitting_sum, switching_sum
    hold(memory)
    return 0


def _update(memory, g):
    """One round of a live ensemble; it returns 1 and changes nothing if the gradient has a wrong length or size."""
    d = D if D > 0 else int(memory[codes.DIM_SLOT])
    if not gradient_fits(g, d):
        return 1
    count, size = int(memory[codes.BLOCKS_SLOT]), L * (codes.FIELDS + codes.BLOCK_VECTORS * d)
    head, X, blocks = pointer(memory, 0), pointer(memory, codes.HEAD), pointer(memory, first_block(d))
    program, gradient, scratch = pointer(blocks, count * size), pointer(g, 0), np.zeros(5 * d)
    work = pointer(scratch, 0)
    for block in range(count):
        store(
            pointer(blocks, block * size), GUESS, spread(-np.inf)
        )  # so that a saved agent goes on bit for bit
    _, factor = learn(blocks, count, size, X, gradient, d, head, program, work, True)
    move_on(blocks, count, size, factor, X, gradient, d, program, work)
    memory[codes.T_SLOT] += 1.0
    hold(scratch)
    return 0


@once
def _parts(set_code: int, constant_d: int) -> dict[str, Any]:
    """What the templates need to know of set and dimension."""
    block = lanes.block_parts(set_code, constant_d) if constant_d else rows.block_parts

    def made(template, **parts):
        return fused(bind(template, D=constant_d, **block, **parts))

    diameter = called(bind(_diameter, **block))
    learn = made(_learn, lost=made(_lost), diameter=diameter)
    return {
        "learn": learn,
        "move_on": block["move_on"],
        "note": made(_note, diameter=diameter),
        "D": constant_d,
    }


def _key(set_code: int, d: int) -> tuple[int, int]:
    """What a kernel is specialised on: set and dimension where they are constants, else one kernel for all."""
    return (set_code, d) if codes.unrolled(set_code, d) else (0, 0)


def play_kernel(set_code: int, cost: int, d: int):
    """The whole-sequence kernel; it takes one argument more than a single learner's, the ensemble's record."""
    return _play_kernel(cost, *_key(set_code, d))


@once
def _play_kernel(cost: int, set_code: int, constant_d: int):
    costs = {"IS_LINEAR": cost == codes.LINEAR, "reveal": REVEALS.get(cost)}
    play = bind(_play, **costs, **_parts(set_code, constant_d))
    return compiled(play, int64(*SEQUENCE, float64[:, ::1]), codes.ENSEMBLE, cost, set_code, constant_d)


def update_kernel(set_code: int, d: int):
    """One update of a live ensemble."""
    return _update_kernel(*_key(set_code, d))


@once
def _update_kernel(set_code: int, constant_d: int):
    return compiled(
        bind(_update, **_parts(set_code, constant_d)), UPDATE, codes.ENSEMBLE, set_code, constant_d
    )
