"""Ensembles and leaders: how they weigh or follow their experts, and the drivers that play them.

Up to eight dimensions the experts of a block are lanes of a register; beyond, a block is one expert. The drivers are a whole
sequence in one call, and one update of a live agent. An ensemble averages its experts, a leader follows one of
them; both get numbers of the same layout (:mod:`klazy.kernels.layout`) and play the same rounds of experts.
"""

import math
from typing import Any

import numpy as np

from klazy.kernels import codes
from klazy.kernels.binding import FLOAT, Lane, compile_kernel, hold, link, local, once, pointer
from klazy.kernels.coded import add_price, price_of, take_price
from klazy.kernels.codes import first_block, first_board
from klazy.kernels.costs import COSTS
from klazy.kernels.lane import *
from klazy.kernels.plan import lend_levels, observe_plan
from klazy.kernels.register import REGISTER
from klazy.kernels.regression import has_evidence, lend_forecasts, observe_regression
from klazy.kernels.round import advance, link_round
from klazy.kernels.rules import RULES, SEASONAL_GIVEN
from klazy.kernels.season import choose_limit, knows_period, look_ahead, observe_season
from klazy.kernels.sequence import (
    ENSEMBLE_SIGNATURE,
    UPDATE_SIGNATURE,
    gradient_fits,
    squared_norm,
)
from klazy.kernels.slots import *

# Vectors of scratch: a difference, a sum of points, zeros, both scratches of a round; of a leader also the moments of a row,
# the forecasts of a season, and one more.
WORK = 3 + codes.MOMENTS + codes.MOVE_ROOM + codes.MOMENTS + codes.MOMENTS + 1
ALONE = (
    99  # In the name of an ensemble's kernel, where that of a leader has the family of its rows.
)


# ---- how an ensemble weighs its experts


def clear(sums, d):
    """Set sums of points to zero."""
    for i in range(d):
        store(sums, i, spread(0.0))


def mix(q, field, sums, d):
    """Add the block's points, weighted by one of its fields, to ``sums``, run by run."""
    w = load(q, field)
    x = skip(q, codes.FIELDS)
    for i in range(d):
        store(sums, i, load(sums, i) + w * load(x, i))


def gather(sums, X, d):
    """Write the sums over the runs into ``X``."""
    for i in range(d):
        X[i] = total(load(sums, i))


def gather_with(weights, sums, X, d):
    """Write the sums over the runs into ``X``, which has room for one more number, and return the sum of a lane."""
    Z = total(weights)
    gather(sums, X, d)
    return Z


def survey(least, low, high, means):
    """Return the smallest numbers of two lanes, the largest of a third and the sum of a fourth.

    They are found together, because the threads of a GPU wait for each other whenever they fold a lane.
    """
    return smallest(least), smallest(low), largest(high), total(means)


def hit(q, g, X, d):
    """Return what every expert costs more than X: <g, x - X>."""
    x = skip(q, codes.FIELDS)
    hits = spread(0.0)
    for i in range(d):
        hits = hits + apart(load(x, i), spread(X[i]), g, i, d)
    return conclude(hits, X, g, d)


def noise_of(program, square):
    """Return the size of rounding errors in losses, given the squared norm of the gradient."""
    return program[codes.NOISE_A] * math.sqrt(square) + program[codes.NOISE_B]


@called
def diameter(blocks, count, length, d, move, prices, delta):
    """Return the largest distance between two experts' points."""
    widest = 0.0
    for first in range(count * WIDTH):
        q = find_expert(blocks, length, first)
        for second in range(count * WIDTH):
            r = find_expert(blocks, length, second)
            for i in range(codes.FIELDS, codes.FIELDS + d):
                delta[i - codes.FIELDS] = q[i * WIDTH] - r[i * WIDTH]
            widest = max(widest, distance(delta, d, move, prices))
    return widest


def lose(blocks, count, length, X, mean, d, beta, move, weight, prices, work):
    """Return the mixability gap of this round and the price of its reweighting, both at the rate in force."""
    most = spread(-np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        a = load(q, codes.LOG_W) - (load(q, codes.LOSS) - mean) * beta
        store(q, codes.SHRUNK, a)
        most = larger(most, a)
    top = largest(most)
    sums = spread(0.0)
    points = pointer(work, d)
    if D > 0:
        points = local(ROOM)
    clear(points, d)
    for block in range(count):
        q = pointer(blocks, block * length)
        w = exp(load(q, codes.SHRUNK) - top)
        store(q, codes.SHRUNK, w)
        sums = sums + w
        mix(q, codes.SHRUNK, points, d)
    jump = work
    Z = gather_with(sums, points, jump, d)
    for i in range(d):
        jump[i] = jump[i] / Z - X[i]
    return max(0.0, (top + math.log(Z)) / beta) + weight * distance(jump, d, move, prices)


def rate_of(rule, number, variation):
    """Return beta; ``number`` is the rate itself, or what the self-tuned rate divides by the variation."""
    if rule == codes.GIVEN_RATE:
        return number
    if variation < codes.SMALLEST_VARIATION:
        return 0.0
    return number / variation


def learn(blocks, count, length, X, g, d, head, program, work, noise, noted):
    """Learn from a round: update the experts' losses, V and the weights.

    Returns the spread of the losses and the factor by which the weights are still to be multiplied. Their logarithms are set
    only where they are to be ``noted``. The rate learns nothing from a spread up to ``noise``.
    """
    rule = int(program[codes.RATE_RULE])
    number = program[codes.RATE]
    move = int(program[codes.MOVE])
    weight = program[codes.MOVE_WEIGHT]
    prices = pointer(program, codes.PRICES)
    variation = head[codes.V]
    beta = rate_of(rule, number, variation)
    noted = noted or rule != codes.GIVEN_RATE
    means = spread(0.0)
    low = spread(np.inf)
    high = spread(-np.inf)
    least = spread(np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        loss = hit(q, g, X, d) + load(q, codes.MOVED)
        losses = load(q, codes.LOSSES) + loss
        store(q, codes.LOSS, loss)
        store(q, codes.LOSSES, losses)
        low = smaller(low, loss)
        high = larger(high, loss)
        least = smaller(least, losses)
        if (
            rule == codes.SELF_TUNED_RATE
        ):  # Saved states hold the logarithms, so a resumed run gives the same bits.
            means = means + exp(load(q, codes.LOG_W)) * loss
    lowest, lowest_loss, highest_loss, mean = survey(least, low, high, means)
    r = 0.0
    if noted:
        r = highest_loss - lowest_loss
    if rule == codes.SELF_TUNED_RATE and r > noise:
        if beta == 0.0:
            variation += mean - lowest_loss
        else:
            variation += lose(blocks, count, length, X, mean, d, beta, move, weight, prices, work)
    head[codes.V] = variation

    beta = rate_of(rule, number, variation)
    sums = spread(0.0)
    for block in range(count):
        q = pointer(blocks, block * length)
        a = load(q, codes.PRIOR) - (load(q, codes.LOSSES) - lowest) * beta
        w = exp(a)
        store(q, codes.LOG_W, a)
        store(q, codes.W, w)
        sums = sums + w
    Z = total(sums)
    if noted:
        log_Z = math.log(Z)
        for block in range(count):
            q = pointer(blocks, block * length)
            store(q, codes.LOG_W, load(q, codes.LOG_W) - log_Z)
    return r, 1.0 / Z


# ---- how a leader follows one of its experts


def board(lead, which, count, d):
    """Return the board with this number."""
    room = -(-(count * WIDTH) // codes.LINE) * codes.LINE
    return pointer(lead, first_board(d) + which * room)


def find_expert(blocks, length, place):
    """Return the numbers of the expert in this place; they are WIDTH apart."""
    return pointer(blocks, place // WIDTH * length + place % WIDTH)


def read_expert(blocks, length, place, x, d):
    """Write the point of the expert in this place into ``x``, and return what its last move cost."""
    expert = find_expert(blocks, length, place)
    for i in range(d):
        x[i] = expert[(codes.FIELDS + i) * WIDTH]
    return expert[codes.MOVED * WIDTH]


def price_block(q, at, d, move, weight, prices):
    """Return the price to go from the point ``at`` to that of every expert of a block."""
    x = skip(q, codes.FIELDS)
    paid = spread(0.0)
    for i in range(d):
        paid = add_price(move, paid, load(x, i) - at[i], i, d, prices)
    return take_price(move, paid) * weight


def choose_leader(blocks, count, length, lead, known, g, d, program, noise, at, moved, t):
    """Compare every expert with the one that is followed, and change over if that pays.

    The expert that is followed is at the point ``at``, and its move there cost ``moved``.
    """
    move = int(program[codes.MOVE])
    weight = program[codes.MOVE_WEIGHT]
    prices = pointer(program, codes.PRICES)
    caution = lead[codes.CAUTION]
    behind = board(lead, codes.BEHIND, count, d)
    squares = board(lead, codes.SQUARES, count, d)
    scores = board(lead, codes.SCORE, count, d)
    forgets = board(lead, codes.FORGETS, count, d)
    is_open = True
    if AUTOREGRESSIVE >= 0 and lead[codes.PLANS] > 0.0:
        is_open = has_evidence(known, d)
    low = spread(np.inf)
    high = spread(-np.inf)
    best = spread(np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        loss = hit(q, g, at, d) + (load(q, codes.MOVED) - moved)
        loss = where(size(loss) > noise, loss, spread(0.0))
        gap = load(behind, block) + loss
        square = load(squares, block) + loss * loss
        score = gap + root(square) * caution
        if not is_open:
            score = where(load(forgets, block) > 0.0, spread(np.inf), score)
        if anywhere(score < 0.0):  # Else the price, which is not negative, does not matter.
            score = score + price_block(q, at, d, move, weight, prices)
        store(behind, block, gap)
        store(squares, block, square)
        store(scores, block, score)
        low = smaller(low, gap)
        high = larger(high, gap)
        best = smaller(best, score)
    least, lowest, highest, _ = survey(best, low, high, spread(0.0))
    equal = codes.RESOLUTION * (highest - lowest)
    if least < -equal:
        change(lead, count, d, least + equal)
        lead[codes.SINCE] = t + 1.0


def change(lead, count, d, most):
    """Follow the first expert in the list whose score is at most this."""
    behind = board(lead, codes.BEHIND, count, d)
    order = board(lead, codes.ORDER, count, d)
    scores = board(lead, codes.SCORE, count, d)
    first = np.inf
    chosen = 0
    for place in range(count * WIDTH):
        if scores[place] <= most and order[place] < first:
            first = order[place]
            chosen = place
    base = behind[chosen]
    for place in range(count * WIDTH):
        behind[place] -= base
    lead[codes.PLACE] = chosen


def watch(lead, X, g, d, delta, noise):
    """Decide whether the ensemble is played next, now that its weights have lost ``delta``."""
    mixed = pointer(lead, codes.MIXED)
    lost = 0.0
    for i in range(d):
        lost += apart_plain(X[i], mixed[i], g, i, d)
    lost = conclude_plain(lost, mixed, g, d)
    if abs(lost) > noise:
        lead[codes.EXCESS] += lost
    within = lead[codes.EXCESS] <= 2.0 * delta + 2.0 * lead[codes.REACH]
    if lead[codes.GUARDING] == 0.0:
        if not within:
            lead[codes.GUARDING] = 1.0
            lead[codes.MARK] = delta
    elif within and delta >= 2.0 * lead[codes.MARK]:
        lead[codes.GUARDING] = 0.0


def wait_out(q):
    """Play a round of a block that does not move."""
    store(q, codes.MOVED, spread(0.0))
    store(q, codes.T, spread(peek(q, codes.T) + 1.0))


def play_on(
    blocks, count, length, lead, known, plans, season, X, g, d, head, program, work, noted
):
    """Learn from a round, let every expert take its step, and find the next point ``X``.

    A leader's experts share a regression, ``known``, and their plans and their season.
    An ensemble plays the average of its experts. A leader follows one of them, unless its guard plays the average. Returns the
    spread of the losses, and the factor by which the weights are still to be multiplied.
    """
    move = int(program[codes.MOVE])
    weight = program[codes.MOVE_WEIGHT]
    prices = pointer(program, codes.PRICES)
    p = pointer(program, codes.PRICES + 2 * d)
    square = squared_norm(g, d)
    norm = math.sqrt(square)
    step = work
    sums = pointer(work, d)
    zero = pointer(work, 2 * d)
    y = pointer(work, 3 * d)
    u = pointer(y, codes.MOMENTS * d)
    seen = pointer(u, codes.MOVE_ROOM * d)
    if D > 0:
        step = local(D)
        sums = local(ROOM)
        y = local(Y_ROOM)
        u = local(U_ROOM)
        seen = local(SEEN_ROOM)
    mixed = X
    guarded = True
    was_guarding = True
    rows = 0
    noise = noise_of(program, square)
    if LEADS:
        mixed = pointer(lead, codes.MIXED)
        guarded = lead[codes.GUARDED] > 0.0
        moved = read_expert(blocks, length, int(lead[codes.PLACE]), step, d)
        if TELLS_ROWS:
            tilt(g, g[d], pointer(g, d), step, seen, d)
            noise = noise_of(program, squared_norm(seen, d))
        choose_leader(
            blocks, count, length, lead, known, g, d, program, noise, step, moved, head[codes.T]
        )
        was_guarding = lead[codes.GUARDING] > 0.0
        rows = int(lead[codes.RING])
    factor = 0.0
    r = 0.0
    if guarded:
        r, factor = learn(blocks, count, length, mixed, g, d, head, program, work, noise, noted)
        if LEADS:
            watch(lead, X, g, d, head[codes.V], noise)
    received = g
    if TELLS_ROWS:
        received = seen
        take_moments(g, seen, d)
    hint = zero
    outlook = pointer(work, (3 + codes.MOMENTS + codes.MOVE_ROOM + codes.MOMENTS) * d)
    v = pointer(outlook, codes.MOMENTS * d)
    if SEASONAL >= 0:
        observe_season(season, rows, received, v, d)
    if AUTOREGRESSIVE >= 0 and lead[codes.PLANS] > 0.0:  # It has a regression.
        observe_regression(known, received, d)
    if PLANNING >= 0:
        period = 0
        if SEASONAL >= 0:
            period = int(season[codes.SEASON_PERIOD])
        observe_plan(known, received, period, d)
    if FORECASTS:
        if D > 0:
            outlook = local(OUTLOOK)
            v = local(D)
        hint = outlook
    clear(sums, d)
    for block in range(count):
        q = pointer(blocks, block * length)
        moves = True
        if FORECASTS:
            clear(outlook, d)
        if AUTOREGRESSIVE >= 0 and int(peek(q, codes.RULE)) == AUTOREGRESSIVE:
            lend_forecasts(q, known, outlook, d)
        if PLANNING >= 0 and int(peek(q, codes.RULE)) == PLANNING:
            lend_levels(q, known, outlook, p, d)
        if SEASONAL >= 0 and int(peek(q, codes.RULE)) == SEASONAL:
            given = peek(q, codes.OWN + SEASONAL_GIVEN)
            moves = knows_period(given, season)
            if given >= codes.SEASON_ROWS and given == season[codes.SEASON_SEEN]:
                store(board(lead, codes.BEHIND, count, d), block, spread(0.0))
                store(board(lead, codes.SQUARES, count, d), block, spread(0.0))
            if moves:
                look_ahead(q, given, season, plans, rows, outlook, v, d)
        if moves:
            advance(q, received, hint, y, u, p, d, square, norm, move, weight, prices)
        else:
            wait_out(q)
        if guarded:
            mix(q, codes.W, sums, d)
    other = 0.0
    if guarded:
        for i in range(d):
            step[i] = mixed[i]
        gather(sums, mixed, d)
        for i in range(d):
            mixed[i] *= factor
            step[i] = mixed[i] - step[i]
        if LEADS:
            other = distance(step, d, move, prices)
    if LEADS:
        is_guarding = lead[codes.GUARDING] > 0.0
        read_expert(blocks, length, int(lead[codes.PLACE]), step, d)
        for i in range(d):
            following = step[i]
            if is_guarding:
                following = mixed[i]
            step[i] = following - X[i]
            X[i] = following
        # While the guard plays, both move alike.
        if guarded and not (was_guarding and is_guarding):
            own = distance(step, d, move, prices)
            lead[codes.EXCESS] += weight * (own - other)
    return r, factor


# ---- the drivers


def open_memory(memory, d):
    """Return how many blocks there are, how long each is, and where the other arguments of ``play_on`` begin.

    What a leader knows, its lead, is between the head and the blocks; what it shares with its experts is at the end. An
    ensemble has neither.
    """
    count = int(memory[codes.BLOCKS])
    length = int(memory[codes.BLOCK_SIZE])
    head = pointer(memory, 0)
    lead = pointer(memory, first_block(d))
    known = lead
    plans = lead
    season = lead
    blocks = lead
    if LEADS:
        known = pointer(lead, int(lead[codes.SHARED]))
        plans = pointer(known, int(lead[codes.PLANS]))
        season = pointer(known, int(lead[codes.SEASON]))
        blocks = board(lead, codes.BOARDS, count, d)
    program = pointer(blocks, count * length)
    return count, length, head, lead, known, plans, season, blocks, program


def find_spread(count):
    """Return the column of the record with the spread of the losses."""
    column = 3 * count * WIDTH
    if LEADS:
        column += 1
    return column


def account(blocks, count, length, lead, factor, X, g, d, row, head, program, work):
    """Write one row of the record: weights, hits and movements in the order of the lanes, then what the ensemble knows.

    Of an ensemble that is the spread of the losses, which comes later, the diameter and the rate. A leader writes its place
    before these and the state of its guard after them, if it has one.
    """
    is_mixed = True
    is_weighed = True
    if LEADS:
        is_mixed = lead[codes.GUARDING] > 0.0
        is_weighed = lead[codes.GUARDED] > 0.0
    worst = spread(-np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        weight = spread(0.0)
        if is_mixed:
            weight = load(q, codes.W) * factor
        store(row, block, weight)
        store(row, count + block, hit(q, g, X, d))
        store(row, 2 * count + block, load(q, codes.MOVED))
        if LEADS:
            worst = larger(worst, hit(q, g, pointer(lead, codes.MIXED), d))
    more = pointer(row, find_spread(count))
    if is_weighed:
        prices = pointer(program, codes.PRICES)
        more[1] = diameter(blocks, count, length, d, int(program[codes.MOVE]), prices, work)
        more[2] = rate_of(int(program[codes.RATE_RULE]), program[codes.RATE], head[codes.V])
    if LEADS:
        row[find_spread(count) - 1] = lead[codes.PLACE]
        if not is_mixed:
            row[int(lead[codes.PLACE])] = 1.0
        if is_weighed:
            more[3] = lead[codes.EXCESS]
            more[4] = lead[codes.GUARDING]
            more[5] = largest(worst)


def play_ensemble(
    data,
    extra,
    cost_p,
    move,
    weights,
    prices,
    pending,
    memory,
    xs,
    hitting,
    switching,
    totals,
    log,
):
    """Play T rounds of the ensemble or leader in ``memory``; returns 0, or the first round whose cost is not finite."""
    rounds = data.shape[0]
    d = D if D > 0 else data.shape[1]
    count, length, head, lead, known, plans, season, blocks, program = open_memory(memory, d)
    price_p = pointer(prices, 0)
    costs = pointer(cost_p, 0)
    if D > 0:
        X = local(D)
        previous = local(D)
        gradient = local(D)
        work = local(WORK_ROOM)
        for i in range(WORK_ROOM):
            work[i] = 0.0
    else:
        scratch = np.zeros((3 + WORK) * d)
        X = pointer(scratch, 0)
        previous = pointer(scratch, d)
        gradient = pointer(scratch, 2 * d)
        work = pointer(scratch, 3 * d)
    received = gradient
    if TELLS_ROWS:
        received = pointer(lead, codes.MIXED + d)
    recording = xs.shape[0] > 0
    keeping = hitting.size > 0
    logging = log.shape[0] > 0
    for i in range(d):
        X[i] = memory[codes.HEAD + i]
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
                received[i] = g[i]
            if recording:
                xs[row, i] = X[i]
        if IS_LINEAR:
            value = dot
        if not math.isfinite(value):
            return int(memory[codes.T])
        paid = weights[row if weights.size > 1 else 0] * pending
        hit += value
        moved += paid
        if keeping:
            hitting[row] = value
            switching[row] = paid
        line = pointer(log, row * log.shape[1])
        if logging:
            account(
                blocks, count, length, lead, factor, X, received, d, line, head, program, work
            )
        noted = logging or row == rounds - 1
        r, factor = play_on(
            blocks, count, length, lead, known, plans, season, X, received, d, head, program, work, noted
        )  # fmt: skip
        if logging and log.shape[1] > find_spread(count):
            line[find_spread(count)] = r
        for i in range(d):
            previous[i] = X[i] - previous[i]
        pending = distance(previous, d, move, price_p)
        memory[codes.T] += 1.0
    for i in range(d):
        memory[codes.HEAD + i] = X[i]
    totals[0] = hit
    totals[1] = moved
    if D == 0:
        hold(scratch)
    return 0


def update_ensemble(memory, g):
    """Play one round of the ensemble or leader in ``memory``; returns 1 and changes nothing if the gradient does not fit."""
    d = D if D > 0 else int(memory[codes.DIM])
    if not gradient_fits(g, d):
        return 1
    count, length, head, lead, known, plans, season, blocks, program = open_memory(memory, d)
    X = pointer(memory, codes.HEAD)
    received = pointer(g, 0)
    if TELLS_ROWS:
        received = pointer(lead, codes.MIXED + d)
        for i in range(d):
            received[i] = g[i]
    if D > 0:
        work = local(WORK_ROOM)
        for i in range(WORK_ROOM):
            work[i] = 0.0
    else:
        scratch = np.zeros(WORK * d)
        work = pointer(scratch, 0)
    for block in range(count):
        q = pointer(blocks, block * length)
        store(q, codes.GUESS, spread(-np.inf))  # so that a saved agent goes on bit for bit
    play_on(
        blocks,
        count,
        length,
        lead,
        known,
        plans,
        season,
        X,
        received,
        d,
        head,
        program,
        work,
        True,
    )
    memory[codes.T] += 1.0
    if D == 0:
        hold(scratch)
    return 0


@once
def ensemble_sequence_kernel(
    set_code: int,
    cost: int,
    rules: tuple[int, ...],
    d: int,
    row_family: int | None,
    is_long: bool,
) -> Any:
    """Make the kernel that plays a whole sequence; see :func:`choose_parts` for the last two arguments."""
    lane, chosen = choose_parts(set_code, rules, d, row_family, is_long)
    chosen |= {"IS_LINEAR": cost == codes.LINEAR, "reveal": link(COSTS[cost].reveal, FLOAT)}
    key = (set_code, cost, ALONE if row_family is None else row_family, d, int(is_long), *rules)
    about = describe_ensemble(set_code, row_family)
    return compile_kernel(play_ensemble, lane, ENSEMBLE_SIGNATURE, key, about=about, **chosen)


@once
def ensemble_update_kernel(
    set_code: int, rules: tuple[int, ...], d: int, row_family: int | None, is_long: bool
) -> Any:
    """Make the kernel of one update, which no other thread sees half done."""
    lane, chosen = choose_parts(set_code, rules, d, row_family, is_long)
    key = (set_code, ALONE if row_family is None else row_family, d, int(is_long), *rules)
    about = describe_ensemble(set_code, row_family)
    return compile_kernel(
        update_ensemble, lane, UPDATE_SIGNATURE, key, about=about, nogil=False, **chosen
    )


def describe_ensemble(set_code: int, row_family: int | None) -> str:
    """Describe the kernel of an ensemble, or of ``auto``, to people who wait for it."""
    name, seconds = ("an ensemble", 2) if row_family is None else ("auto", 5)
    return f"{name} for {codes.SET_NAMES[set_code]}, about {seconds} s, once"


def choose_parts(
    set_code: int, rules: tuple[int, ...], d: int, row_family: int | None, is_long: bool
) -> tuple[Lane, dict[str, Any]]:
    """Choose the lane of the experts' blocks and the parts of a kernel.

    ``row_family`` is the code of the family whose rows a leader gets, None for an ensemble. ``is_long`` says whether the ring
    of a season has another length than SEASON_ROWS.
    """
    lane = REGISTER if d else FLOAT
    chosen = link_round(lane, set_code, rules, d)
    chosen |= {"ROOM": d * lane.width, "WIDTH": lane.width, "WORK_ROOM": WORK * d}
    chosen |= choose_family(row_family, FLOAT)
    if row_family is not None:
        chosen |= choose_forecasts(set_code, rules, chosen["ROOM"], chosen["DEPTH"], is_long)
    return lane, chosen


def choose_family(row_family: int | None, plain: Lane) -> dict[str, Any]:
    """Choose the parts that depend on the rows that experts get; ``plain`` is the lane of plain numbers."""
    part = COSTS[row_family or codes.LINEAR]
    return {
        "LEADS": row_family is not None,
        "TELLS_ROWS": part is not COSTS[codes.LINEAR],
        "apart": part.apart,
        "conclude": part.conclude,
        "apart_plain": link(part.apart, plain),
        "conclude_plain": link(part.conclude, plain),
        "tilt": link(part.reveal, plain),
        "take_moments": link(part.moments, plain),
        "distance": link(price_of, plain),
    }


def choose_forecasts(
    set_code: int, rules: tuple[int, ...], room: int, depth: int, is_long: bool
) -> dict[str, Any]:
    """Choose the parts for experts whose leader forecasts for them; ``room`` is the size of a vector of every lane."""
    chosen: dict[str, Any] = {"OUTLOOK": depth * room, "IS_LONG": is_long}
    names = list(RULES)
    for code in rules:
        if RULES[names[code]].led == "season":
            chosen["SEASONAL"] = code
            chosen["limit"] = choose_limit(set_code, names[code].endswith("straight"))
        elif names[code] == "planning":
            chosen["PLANNING"] = code
        elif RULES[names[code]].led == "regression":
            chosen["AUTOREGRESSIVE"] = code
    chosen["FORECASTS"] = len(chosen) > 2
    return chosen
