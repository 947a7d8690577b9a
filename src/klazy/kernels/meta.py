"""How an ensemble weighs its experts, over a lane: losses, the rate, the next weights, and the record of a round."""

import math

import numpy as np

from klazy.kernels.binding import local, pointer
from klazy.kernels.codes import (
    BUDGET,
    FIELDS,
    GIVEN_RATE,
    KEEP,
    LOG_W,
    LOSS,
    LOSSES,
    MOVE,
    MOVE_WEIGHT,
    MOVED,
    NOISE_A,
    NOISE_B,
    PRICES,
    PRIOR,
    RATE,
    RATE_RULE,
    RESTART,
    SELF_TUNED,
    SHRUNK,
    SMALLEST_VARIATION,
    UNKNOWN,
    V,
    W,
)
from klazy.kernels.lane import (
    called,
    exp,
    larger,
    largest,
    load,
    skip,
    smaller,
    smallest,
    spread,
    store,
    total,
)

# What a kernel chooses.
D = 0  # the dimension where it is a constant of the kernel, else 0
ROOM = 0  # what a vector of every lane then takes
WIDTH = 1  # numbers in a lane


def clear(sums, d):
    """Zeros, to which points are added."""
    for i in range(d):
        store(sums, i, spread(0.0))


def mix(q, field, sums, d):
    """Add the block's points, weighted by one of its fields, to ``sums``, run by run."""
    w = load(q, field)
    x = skip(q, FIELDS)
    for i in range(d):
        store(sums, i, load(sums, i) + w * load(x, i))


def gather(sums, X, d):
    """The sums over the runs into ``X``."""
    for i in range(d):
        X[i] = total(load(sums, i))


def gather_with(weights, sums, X, d):
    """The same, and the sum of a lane."""
    Z = total(weights)
    gather(sums, X, d)
    return Z


def survey(least, low, high, means):
    """The smallest numbers of two lanes, the largest of a third and the sum of a fourth.

    They are found together, for threads of a GPU wait for each other whenever they fold a lane.
    """
    return smallest(least), smallest(low), largest(high), total(means)


def apart(x, at, g, i, d):
    """What coordinate ``i`` costs more at ``x`` than at ``at``; a leader of curved costs puts its own here."""
    return (x - at) * g[i]


def conclude(hits, at, g, d):
    """What the coordinates' costs sum to; a leader of costs that are no sum puts its own here."""
    return hits


def hit(q, g, X, d):
    """What every expert costs more than X: <g, x - X>."""
    x = skip(q, FIELDS)
    hits = spread(0.0)
    for i in range(d):
        hits = hits + apart(load(x, i), spread(X[i]), g, i, d)
    return conclude(hits, X, g, d)


def noise_of(program, square):
    """How large rounding errors of losses are where the gradient has this squared norm."""
    return program[NOISE_A] * math.sqrt(square) + program[NOISE_B]


def distance(delta, d, move, prices):
    """The price of a step of plain numbers, before its weight: ``price_of`` over one float64, which a kernel puts here."""
    raise NotImplementedError


@called
def diameter(blocks, count, length, d, move, prices, delta):
    """How far apart two experts' points are."""
    widest = 0.0
    for first in range(count * WIDTH):
        q = pointer(blocks, first // WIDTH * length + FIELDS * WIDTH + first % WIDTH)
        for second in range(count * WIDTH):
            r = pointer(blocks, second // WIDTH * length + FIELDS * WIDTH + second % WIDTH)
            for i in range(d):
                delta[i] = q[i * WIDTH] - r[i * WIDTH]
            widest = max(widest, distance(delta, d, move, prices))
    return widest


def lose(blocks, count, length, X, mean, d, beta, move, weight, prices, work):
    """The mixability gap of this round and the price of its reweighting, both at the rate in force."""
    most = spread(-np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        a = load(q, LOG_W) - (load(q, LOSS) - mean) * beta
        store(q, SHRUNK, a)
        most = larger(most, a)
    top = largest(most)
    sums = spread(0.0)
    points = pointer(work, d)
    if D > 0:
        points = local(ROOM)
    clear(points, d)
    for block in range(count):
        q = pointer(blocks, block * length)
        w = exp(load(q, SHRUNK) - top)
        store(q, SHRUNK, w)
        sums = sums + w
        mix(q, SHRUNK, points, d)
    jump = work
    Z = gather_with(sums, points, jump, d)
    for i in range(d):
        jump[i] = jump[i] / Z - X[i]
    return max(0.0, (top + math.log(Z)) / beta) + weight * distance(jump, d, move, prices)


def rate_of(rule, number, variation, budget):
    """beta; ``number`` is the rate itself, or what its rule divides."""
    if rule == GIVEN_RATE:
        return number
    scale = budget if rule == RESTART else variation
    if scale < SMALLEST_VARIATION:
        return 0.0
    rate = UNKNOWN
    if rule == SELF_TUNED:
        rate = number / scale
    elif rule == KEEP or rule == RESTART:
        rate = math.sqrt(number / scale)
    return rate


def learn(blocks, count, length, X, g, d, head, program, work, noise, noted):
    """What the round teaches: the experts' losses, V and the budget, the next weights. Returns the spread of the losses and
    what the weights are still to be multiplied by. Their logarithms are set only where they are to be ``noted``. A spread up to
    ``noise`` teaches no rate.
    """
    rule = int(program[RATE_RULE])
    number = program[RATE]
    move = int(program[MOVE])
    weight = program[MOVE_WEIGHT]
    prices = pointer(program, PRICES)
    variation = head[V]
    budget = head[BUDGET]
    beta = rate_of(rule, number, variation, budget)
    noted = noted or rule != GIVEN_RATE
    means = spread(0.0)
    low = spread(np.inf)
    high = spread(-np.inf)
    least = spread(np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        loss = hit(q, g, X, d) + load(q, MOVED)
        losses = load(q, LOSSES) + loss
        store(q, LOSS, loss)
        store(q, LOSSES, losses)
        low = smaller(low, loss)
        high = larger(high, loss)
        least = smaller(least, losses)
        if rule == SELF_TUNED:  # by the logarithms, which are what a saved state holds
            means = means + exp(load(q, LOG_W)) * loss
    lowest, lowest_loss, highest_loss, mean = survey(least, low, high, means)
    r = 0.0
    if noted:
        r = highest_loss - lowest_loss
    if rule != GIVEN_RATE and r > noise:
        if rule != SELF_TUNED:
            variation += (
                r * r / 8.0 + weight * diameter(blocks, count, length, d, move, prices, work) * r / 4.0
            )
        elif beta == 0.0:
            variation += mean - lowest_loss
        else:
            variation += lose(blocks, count, length, X, mean, d, beta, move, weight, prices, work)
    if rule == RESTART and budget < variation:
        for block in range(count):
            store(pointer(blocks, block * length), LOSSES, spread(0.0))
        budget = 4.0 * variation
        variation = 0.0
        lowest = 0.0
    head[V] = variation
    head[BUDGET] = budget

    beta = rate_of(rule, number, variation, budget)
    sums = spread(0.0)
    for block in range(count):
        q = pointer(blocks, block * length)
        a = load(q, PRIOR) - (load(q, LOSSES) - lowest) * beta
        w = exp(a)
        store(q, LOG_W, a)
        store(q, W, w)
        sums = sums + w
    Z = total(sums)
    if noted:
        log_Z = math.log(Z)
        for block in range(count):
            q = pointer(blocks, block * length)
            store(q, LOG_W, load(q, LOG_W) - log_Z)
    return r, 1.0 / Z


def account(blocks, count, length, lead, factor, X, g, d, row, head, program, work):
    """One row of the ensemble's record: weights, hits and movements in the order of the lanes, then r (later), d and beta."""
    for block in range(count):
        q = pointer(blocks, block * length)
        store(row, block, load(q, W) * factor)
        store(row, count + block, hit(q, g, X, d))
        store(row, 2 * count + block, load(q, MOVED))
    N = count * WIDTH
    prices = pointer(program, PRICES)
    row[3 * N + 1] = diameter(blocks, count, length, d, int(program[MOVE]), prices, work)
    row[3 * N + 2] = rate_of(int(program[RATE_RULE]), program[RATE], head[V], head[BUDGET])
