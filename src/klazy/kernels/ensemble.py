"""The drivers of an ensemble or a leader: a whole sequence in one call, and one update of a live agent.

Up to eight dimensions the experts of a block are lanes of a register; beyond, a block is one expert.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64

from klazy.kernels.binding import FLOAT, Lane, compile_kernel, hold, link, local, once, pointer
from klazy.kernels.codes import (
    BLOCK_SIZE,
    BLOCKS,
    DIM,
    GUESS,
    HEAD,
    LINEAR,
    MIXED,
    MOMENTS,
    MOVE,
    MOVE_ROOM,
    MOVE_WEIGHT,
    PRICES,
    T,
    W,
    first_block,
)
from klazy.kernels.costs import COSTS
from klazy.kernels.lane import spread, store
from klazy.kernels.layout import constant_dim
from klazy.kernels.meta import account, clear, distance, gather, learn, mix, noise_of
from klazy.kernels.prices import price_of
from klazy.kernels.register import REGISTER
from klazy.kernels.round import advance, link_round
from klazy.kernels.sequence import input1, input2, output1, output2, reveal, squared_norm
from klazy.kernels.update import SIGNATURE as UPDATE
from klazy.kernels.update import gradient_fits

SEQUENCE = int64(
    input2, input1, input1, int64, input1, input1, float64, output1, output2, output1, output1, output1, output2
)  # fmt: skip
# vectors of scratch: a difference, a sum of points, zeros, both scratches of a round; of a leader also the moments of a row,
# those that a season brings, and one more
WORK = 3 + MOMENTS + MOVE_ROOM + MOMENTS + MOMENTS + 1
ALONE = 99  # in the name of a kernel where that of a leader has the family of its rows

# What a kernel chooses.
D = 0  # the dimension where it is a constant of the kernel, else 0
ROOM = 0  # what a vector of every lane then takes
Y_ROOM = 0  # what the two scratches of a round take
U_ROOM = 0
WIDTH = 1  # numbers in a lane
IS_LINEAR = False
TELLS_ROWS = False  # whether the experts of a leader are told rows, not gradients
SPREAD = 0  # the column of the record, beside those of lanes, for the spread of losses


def move_on(blocks, count, length, factor, X, g, d, program, work):
    """Every expert takes its step; ``X`` becomes the ensemble's next point, of weights that lack this ``factor``."""
    move = int(program[MOVE])
    weight = program[MOVE_WEIGHT]
    prices = pointer(program, PRICES)
    p = pointer(program, PRICES + 2 * d)
    square = squared_norm(g, d)
    norm = math.sqrt(square)
    sums = pointer(work, d)
    zero = pointer(work, 2 * d)
    y = pointer(work, 3 * d)
    u = pointer(y, MOMENTS * d)
    if D > 0:
        sums = local(ROOM)
        y = local(Y_ROOM)
        u = local(U_ROOM)
    clear(sums, d)
    for block in range(count):
        q = pointer(blocks, block * length)
        advance(q, g, zero, y, u, p, d, square, norm, move, weight, prices)
        mix(q, W, sums, d)
    gather(sums, X, d)
    for i in range(d):
        X[i] *= factor


def play_on(blocks, count, length, lead, season, X, g, d, head, program, work, noted):
    """All that follows from a round: what it teaches, every expert's step, and the next point.

    Returns the spread of the losses, and what the weights are still to be multiplied by. A leader has its own.
    """
    noise = noise_of(program, squared_norm(g, d))
    r, factor = learn(blocks, count, length, X, g, d, head, program, work, noise, noted)
    move_on(blocks, count, length, factor, X, g, d, program, work)
    return r, factor


def measure_lead(count, d):
    """How many numbers lie between the head and the blocks: none, but for a leader."""
    return 0


def find_season(lead):
    """Where the season of a leader lies."""
    return lead


def play(data, extra, cost_p, move, weights, prices, pending, memory, xs, hitting, switching, totals, log):
    """T rounds of the ensemble or leader in ``memory``; returns 0, or the first round whose cost is not finite."""
    rounds = data.shape[0]
    d = D if D > 0 else data.shape[1]
    count = int(memory[BLOCKS])
    length = int(memory[BLOCK_SIZE])
    head = pointer(memory, 0)
    lead = pointer(memory, first_block(d))
    season = find_season(lead)
    blocks = pointer(lead, measure_lead(count, d))
    program = pointer(blocks, count * length)
    price_p = pointer(prices, 0)
    costs = pointer(cost_p, 0)
    scratch = np.zeros((3 + WORK) * d)
    X = pointer(scratch, 0)
    previous = pointer(scratch, d)
    gradient = pointer(scratch, 2 * d)
    work = pointer(scratch, 3 * d)
    if D > 0:
        X = local(D)
        previous = local(D)
        gradient = local(D)
    told = gradient
    if TELLS_ROWS:
        told = pointer(lead, MIXED + d)
    recording = xs.shape[0] > 0
    keeping = hitting.size > 0
    logging = log.shape[0] > 0
    for i in range(d):
        X[i] = memory[HEAD + i]
    hit = 0.0
    moved = 0.0
    factor = 1.0
    for row in range(rounds):
        g = pointer(data, row * d)
        value = 0.0
        dot = 0.0
        if IS_LINEAR:
            for i in range(d):
                gradient[i] = g[i]
        else:
            value = reveal(g, extra[row if extra.size > 1 else 0], costs, X, gradient, d)
        for i in range(d):
            dot += gradient[i] * X[i]
            previous[i] = X[i]
            if TELLS_ROWS:
                told[i] = g[i]
            if recording:
                xs[row, i] = X[i]
        if IS_LINEAR:
            value = dot
        if not math.isfinite(value):
            return int(memory[T])
        paid = weights[row if weights.size > 1 else 0] * pending
        hit += value
        moved += paid
        if keeping:
            hitting[row] = value
            switching[row] = paid
        line = pointer(log, row * log.shape[1])
        if logging:
            account(blocks, count, length, lead, factor, X, told, d, line, head, program, work)
        noted = logging or row == rounds - 1
        r, factor = play_on(blocks, count, length, lead, season, X, told, d, head, program, work, noted)
        if logging and log.shape[1] > 3 * count * WIDTH + SPREAD:
            line[3 * count * WIDTH + SPREAD] = r
        for i in range(d):
            previous[i] = X[i] - previous[i]
        pending = distance(previous, d, move, price_p)
        memory[T] += 1.0
    for i in range(d):
        memory[HEAD + i] = X[i]
    totals[0] = hit
    totals[1] = moved
    hold(scratch)
    return 0


def update(memory, g):
    """One round of the ensemble or leader in ``memory``; returns 1 and changes nothing if the gradient does not fit."""
    d = D if D > 0 else int(memory[DIM])
    if not gradient_fits(g, d):
        return 1
    count = int(memory[BLOCKS])
    length = int(memory[BLOCK_SIZE])
    head = pointer(memory, 0)
    X = pointer(memory, HEAD)
    lead = pointer(memory, first_block(d))
    season = find_season(lead)
    blocks = pointer(lead, measure_lead(count, d))
    program = pointer(blocks, count * length)
    told = pointer(g, 0)
    if TELLS_ROWS:
        told = pointer(lead, MIXED + d)
        for i in range(d):
            told[i] = g[i]
    scratch = np.zeros(WORK * d)
    work = pointer(scratch, 0)
    for block in range(count):
        q = pointer(blocks, block * length)
        store(q, GUESS, spread(-np.inf))  # so that a saved agent goes on bit for bit
    play_on(blocks, count, length, lead, season, X, told, d, head, program, work, True)
    memory[T] += 1.0
    hold(scratch)
    return 0


def choose_parts(set_code: int, rules: tuple[int, ...], constant_d: int) -> tuple[Lane, dict[str, Any]]:
    """The lane of an ensemble's blocks, and what its kernels choose."""
    lane = REGISTER if constant_d else FLOAT
    chosen = link_round(lane, set_code, rules, constant_d)
    chosen["ROOM"] = constant_d * lane.width
    chosen["WIDTH"] = lane.width
    chosen["distance"] = link(price_of, FLOAT)
    return lane, chosen


def sequence_kernel(set_code: int, cost: int, rules: tuple[int, ...], d: int) -> Any:
    """The kernel that plays a whole sequence."""
    return _sequence_kernel(set_code, cost, rules, constant_dim(d))


@once
def _sequence_kernel(set_code: int, cost: int, rules: tuple[int, ...], constant_d: int) -> Any:
    lane, chosen = choose_parts(set_code, rules, constant_d)
    chosen |= {"IS_LINEAR": cost == LINEAR, "reveal": link(COSTS[cost], FLOAT)}
    return compile_kernel(play, lane, SEQUENCE, (set_code, cost, ALONE, constant_d, *rules), **chosen)


def update_kernel(set_code: int, rules: tuple[int, ...], d: int) -> Any:
    """The kernel of one update, which no other thread sees half done."""
    return _update_kernel(set_code, rules, constant_dim(d))


@once
def _update_kernel(set_code: int, rules: tuple[int, ...], constant_d: int) -> Any:
    lane, chosen = choose_parts(set_code, rules, constant_d)
    return compile_kernel(update, lane, UPDATE, (set_code, ALONE, constant_d, *rules), nogil=False, **chosen)
