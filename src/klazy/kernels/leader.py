"""What a leader does in a round, which stands in the drivers of an ensemble for what an ensemble does.

The experts lie in blocks as an ensemble's do, and play the same rounds.
"""

import math
from typing import Any

import numpy as np

from klazy.kernels.binding import FLOAT, Lane, compile_kernel, link, local, once, pointer
from klazy.kernels.codes import (
    BEHIND,
    BOARDS,
    CAUTION,
    EXCESS,
    FIELDS,
    GUARDED,
    GUARDING,
    LINE,
    LINEAR,
    LOG_WEALTH,
    MARK,
    MIXED,
    MOMENTS,
    MOVE,
    MOVE_L2,
    MOVE_ROOM,
    MOVE_WEIGHT,
    MOVED,
    ORDER,
    OWN,
    PINBALL,
    PLACE,
    PRICES,
    QUADRATIC,
    RATE,
    RATE_RULE,
    REACH,
    RESOLUTION,
    RING,
    RULE,
    SCORE,
    SEASON,
    SEASON_ROWS,
    SEASON_SEEN,
    SINCE,
    SQUARES,
    T,
    V,
    W,
    first_board,
)
from klazy.kernels.costs import COSTS, MOMENTS_OF
from klazy.kernels.ensemble import SEQUENCE, choose_parts, play, update
from klazy.kernels.lane import (
    larger,
    largest,
    load,
    log,
    peek,
    root,
    size,
    skip,
    smaller,
    spread,
    store,
    where,
)
from klazy.kernels.layout import constant_dim
from klazy.kernels.meta import (
    apart,
    clear,
    conclude,
    diameter,
    distance,
    gather,
    hit,
    learn,
    mix,
    noise_of,
    rate_of,
    survey,
)
from klazy.kernels.prices import add_price, take_price
from klazy.kernels.round import advance
from klazy.kernels.rules import RULES, SEASONAL_GIVEN
from klazy.kernels.season import choose_limit, knows_period, look_ahead, observe_season
from klazy.kernels.sequence import squared_norm, take_moments
from klazy.kernels.update import SIGNATURE as UPDATE

# How costs told by their rows differ, coordinate by coordinate, and what their sum says. Behind a row g lie the 2 d parameters
# of its family.


def quadratic_apart(x, at, g, i, d):
    return (x - at) * (x + at - 2.0 * g[i]) * (0.5 * g[d])


def pinball_apart(x, at, g, i, d):
    over = x - g[i]
    at_over = at - g[i]
    cost = where(over > 0.0, over * g[2 * d + i], over * -g[d + i])
    return cost - where(at_over > 0.0, at_over * g[2 * d + i], at_over * -g[d + i])


def wealth_conclude(hits, at, g, d):
    """What growth is missed if the wealth of ``at`` changes by so much."""
    wealth = 0.0
    for i in range(d):
        wealth += g[i] * at[i]
    return 0.0 - log(1.0 + hits / wealth)


FAMILIES = {
    LINEAR: (apart, conclude),
    QUADRATIC: (quadratic_apart, conclude),
    PINBALL: (pinball_apart, conclude),
    LOG_WEALTH: (apart, wealth_conclude),
}

# What a kernel chooses.
TELLS_ROWS = False  # whether the experts are told rows, not gradients
apart_plain = apart  # of plain numbers
conclude_plain = conclude
D = 0  # the dimension where it is a constant of the kernel, else 0
ROOM = 0  # what a vector of every lane then takes
WIDTH = 1  # numbers in a lane
IS_LINEAR = False
SEASONAL = -1  # the rule of experts that are told what the season brings, if there are any
OUTLOOK = 0  # room for the moments that they are told, of every lane
Y_ROOM = 0  # what the scratches of a round take, and the moments of a row
U_ROOM = 0
SEEN_ROOM = 0


def tilt(row, extra, p, x, g, d):
    """The gradient of a row's cost at x, into ``g``; a kernel puts it here."""
    raise NotImplementedError


def board(lead, which, count, d):
    """One of the boards."""
    room = -(-(count * WIDTH) // LINE) * LINE
    return pointer(lead, first_board(d) + which * room)


def measure_lead(count, d):
    """How many numbers lie between the head and the blocks."""
    room = -(-(count * WIDTH) // LINE) * LINE
    return first_board(d) + BOARDS * room


def find_season(lead):
    """Where the season lies."""
    return pointer(lead, int(lead[SEASON]))


def read_place(blocks, length, place, field):
    """From a field or the vectors on, the numbers of the expert in this place; they lie WIDTH apart."""
    return pointer(blocks, place // WIDTH * length + field * WIDTH + place % WIDTH)


def read_expert(blocks, length, place, x, d):
    """The point of the expert in this place, into ``x``; returns what its last move cost."""
    point = read_place(blocks, length, place, FIELDS)
    for i in range(d):
        x[i] = point[i * WIDTH]
    return read_place(blocks, length, place, MOVED)[0]


def compare(q, g, at, d, move, weight, prices):
    """What every expert of a block costs more than the point ``at``, without its movement, and the price of going there."""
    x = skip(q, FIELDS)
    hits = spread(0.0)
    paid = spread(0.0)
    if move == MOVE_L2:  # apart, so that its loop has no branch
        for i in range(d):
            delta = load(x, i) - at[i]
            hits = hits + apart(load(x, i), spread(at[i]), g, i, d)
            paid = paid + delta * delta
    else:
        for i in range(d):
            delta = load(x, i) - at[i]
            hits = hits + apart(load(x, i), spread(at[i]), g, i, d)
            paid = add_price(move, paid, delta, i, d, prices)
    return conclude(hits, at, g, d), take_price(move, paid) * weight


def follow(blocks, count, length, lead, g, d, program, noise, at, moved, t):
    """What the round says of every expert beside the one that is followed, and the change-over, if there is one.

    That one is ``at`` this point, and has ``moved`` there at this price.
    """
    move = int(program[MOVE])
    weight = program[MOVE_WEIGHT]
    prices = pointer(program, PRICES)
    caution = lead[CAUTION]
    behind = board(lead, BEHIND, count, d)
    squares = board(lead, SQUARES, count, d)
    scores = board(lead, SCORE, count, d)
    low = spread(np.inf)
    high = spread(-np.inf)
    best = spread(np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        loss, price = compare(q, g, at, d, move, weight, prices)
        loss = loss + (load(q, MOVED) - moved)
        loss = where(size(loss) > noise, loss, spread(0.0))
        gap = load(behind, block) + loss
        square = load(squares, block) + loss * loss
        score = gap + price + root(square) * caution
        store(behind, block, gap)
        store(squares, block, square)
        store(scores, block, score)
        low = smaller(low, gap)
        high = larger(high, gap)
        best = smaller(best, score)
    least, lowest, highest, _ = survey(best, low, high, spread(0.0))
    equal = RESOLUTION * (highest - lowest)
    if least < -equal:
        change(lead, count, d, least + equal)
        lead[SINCE] = t + 1.0


def change(lead, count, d, most):
    """Follow the first expert in the list whose score is at most this."""
    behind = board(lead, BEHIND, count, d)
    order = board(lead, ORDER, count, d)
    scores = board(lead, SCORE, count, d)
    first = np.inf
    chosen = 0
    for place in range(count * WIDTH):
        if scores[place] <= most and order[place] < first:
            first = order[place]
            chosen = place
    base = behind[chosen]
    for place in range(count * WIDTH):
        behind[place] -= base
    lead[PLACE] = chosen


def watch(lead, X, g, d, delta, noise):
    """Whether the ensemble is to be played next, now that its weights have lost ``delta``."""
    mixed = pointer(lead, MIXED)
    lost = 0.0
    for i in range(d):
        lost += apart_plain(X[i], mixed[i], g, i, d)
    lost = conclude_plain(lost, mixed, g, d)
    if abs(lost) > noise:
        lead[EXCESS] += lost
    within = lead[EXCESS] <= 2.0 * delta + 2.0 * lead[REACH]
    if lead[GUARDING] == 0.0:
        if not within:
            lead[GUARDING] = 1.0
            lead[MARK] = delta
    elif within and delta >= 2.0 * lead[MARK]:
        lead[GUARDING] = 0.0


def stay(q):
    """A round of a block that stays where it is."""
    store(q, MOVED, spread(0.0))
    store(q, T, spread(peek(q, T) + 1.0))


def play_on(blocks, count, length, lead, season, X, g, d, head, program, work, noted):
    """All that follows from a round: who is followed, what the guard thinks, every expert's step, and the next point."""
    move = int(program[MOVE])
    weight = program[MOVE_WEIGHT]
    prices = pointer(program, PRICES)
    p = pointer(program, PRICES + 2 * d)
    square = squared_norm(g, d)
    norm = math.sqrt(square)
    mixed = pointer(lead, MIXED)
    guarded = lead[GUARDED] > 0.0
    step = work
    sums = pointer(work, d)
    zero = pointer(work, 2 * d)
    y = pointer(work, 3 * d)
    u = pointer(y, MOMENTS * d)
    seen = pointer(u, MOVE_ROOM * d)
    if D > 0:
        step = local(D)
        sums = local(ROOM)
        y = local(Y_ROOM)
        u = local(U_ROOM)
        seen = local(SEEN_ROOM)
    moved = read_expert(blocks, length, int(lead[PLACE]), step, d)
    noise = noise_of(program, square)
    if TELLS_ROWS:
        tilt(g, g[d], pointer(g, d), step, seen, d)
        noise = noise_of(program, squared_norm(seen, d))
    follow(blocks, count, length, lead, g, d, program, noise, step, moved, head[T])
    was_guarding = lead[GUARDING] > 0.0
    factor = 0.0
    r = 0.0
    if guarded:
        r, factor = learn(blocks, count, length, mixed, g, d, head, program, work, noise, noted)
        watch(lead, X, g, d, head[V], noise)
    told = g
    if TELLS_ROWS:
        told = seen
        take_moments(g, seen, d)
    outlook = pointer(work, (3 + MOMENTS + MOVE_ROOM + MOMENTS) * d)
    v = pointer(outlook, MOMENTS * d)
    rows = int(lead[RING])
    if SEASONAL >= 0:
        observe_season(season, rows, told, d)
        if D > 0:
            outlook = local(OUTLOOK)
            v = local(D)
    hint = zero
    if SEASONAL >= 0:
        hint = outlook
    clear(sums, d)
    for block in range(count):
        q = pointer(blocks, block * length)
        moves = True
        if SEASONAL >= 0:
            clear(outlook, d)
            if int(peek(q, RULE)) == SEASONAL:
                given = peek(q, OWN + SEASONAL_GIVEN)
                moves = knows_period(given, season)
                if given >= SEASON_ROWS and given == season[SEASON_SEEN]:
                    store(board(lead, BEHIND, count, d), block, spread(0.0))
                    store(board(lead, SQUARES, count, d), block, spread(0.0))
                if moves:
                    look_ahead(q, given, season, rows, outlook, v, d)
        if moves:
            advance(q, told, hint, y, u, p, d, square, norm, move, weight, prices)
        else:
            stay(q)
        if guarded:
            mix(q, W, sums, d)
    own = 0.0
    other = 0.0
    if guarded:
        for i in range(d):
            step[i] = mixed[i]
        gather(sums, mixed, d)
        for i in range(d):
            mixed[i] *= factor
            step[i] = mixed[i] - step[i]
        other = distance(step, d, move, prices)
    is_guarding = lead[GUARDING] > 0.0
    read_expert(blocks, length, int(lead[PLACE]), step, d)
    for i in range(d):
        following = step[i]
        if is_guarding:
            following = mixed[i]
        step[i] = following - X[i]
        X[i] = following
    if guarded and not (was_guarding and is_guarding):  # else both move alike
        own = distance(step, d, move, prices)
        lead[EXCESS] += weight * (own - other)
    return r, factor


def account(blocks, count, length, lead, factor, X, g, d, row, head, program, work):
    """One row of the record, in the order of the lanes; the spread of the losses comes later."""
    mixed = pointer(lead, MIXED)
    worst = spread(-np.inf)
    for block in range(count):
        q = pointer(blocks, block * length)
        weight = spread(0.0)
        if lead[GUARDING] > 0.0:
            weight = load(q, W) * factor
        store(row, block, weight)
        store(row, count + block, hit(q, g, X, d))
        store(row, 2 * count + block, load(q, MOVED))
        worst = larger(worst, hit(q, g, mixed, d))
    if lead[GUARDING] == 0.0:
        row[int(lead[PLACE])] = 1.0
    more = pointer(row, 3 * count * WIDTH)
    more[0] = lead[PLACE]
    if lead[GUARDED] > 0.0:
        prices = pointer(program, PRICES)
        more[2] = diameter(blocks, count, length, d, int(program[MOVE]), prices, work)
        more[3] = rate_of(int(program[RATE_RULE]), program[RATE], head[V], 0.0)
        more[4] = lead[EXCESS]
        more[5] = lead[GUARDING]
        more[6] = largest(worst)


# What stands in for the parts of an ensemble.
LEADING: dict[str, Any] = {
    "measure_lead": measure_lead,
    "find_season": find_season,
    "play_on": play_on,
    "account": account,
    "SPREAD": 1,
}


def sequence_kernel(
    set_code: int, cost: int, rules: tuple[int, ...], d: int, told: int, is_long: bool
) -> Any:
    """The kernel that plays a whole sequence; ``told`` is the family whose rows the experts are told.

    ``is_long`` says whether the ring of a season has another length than SEASON_ROWS.
    """
    return _sequence_kernel(set_code, cost, rules, constant_dim(d), told, is_long)


@once
def _sequence_kernel(
    set_code: int, cost: int, rules: tuple[int, ...], constant_d: int, told: int, is_long: bool
) -> Any:
    lane, chosen = _choose_family(set_code, rules, constant_d, told, is_long)
    chosen |= {"IS_LINEAR": cost == LINEAR, "reveal": link(COSTS[cost], FLOAT)}
    key = (set_code, cost, told, constant_d, int(is_long), *rules)
    return compile_kernel(play, lane, SEQUENCE, key, **chosen)


def update_kernel(set_code: int, rules: tuple[int, ...], d: int, told: int, is_long: bool) -> Any:
    """The kernel of one update, which no other thread sees half done."""
    return _update_kernel(set_code, rules, constant_dim(d), told, is_long)


@once
def _update_kernel(set_code: int, rules: tuple[int, ...], constant_d: int, told: int, is_long: bool) -> Any:
    lane, chosen = _choose_family(set_code, rules, constant_d, told, is_long)
    key = (set_code, told, constant_d, int(is_long), *rules)
    return compile_kernel(update, lane, UPDATE, key, nogil=False, **chosen)


def _choose_family(
    set_code: int, rules: tuple[int, ...], constant_d: int, told: int, is_long: bool
) -> tuple[Lane, dict[str, Any]]:
    """The lane of a leader's blocks, and what its kernels choose."""
    lane, chosen = choose_parts(set_code, rules, constant_d)
    chosen |= LEADING
    chosen |= choose_family(told, FLOAT)
    chosen |= choose_season(set_code, rules, chosen["ROOM"], told, is_long)
    return lane, chosen


def choose_family(told: int, plain: Lane) -> dict[str, Any]:
    """What a kernel chooses for experts that are told rows of a family; ``plain`` is the lane of plain numbers."""
    difference, conclusion = FAMILIES[told]
    chosen = {"TELLS_ROWS": told != LINEAR, "apart": difference, "conclude": conclusion}
    chosen |= {"apart_plain": link(difference, plain), "conclude_plain": link(conclusion, plain)}
    if told != LINEAR:
        chosen |= {"tilt": link(COSTS[told], plain), "take_moments": link(MOMENTS_OF[told], plain)}
    return chosen


def choose_season(
    set_code: int, rules: tuple[int, ...], room: int, told: int, is_long: bool
) -> dict[str, Any]:
    """What a kernel chooses for experts that are told what the season brings; ``room`` is that of a vector of every lane."""
    depth = 2 if told == PINBALL else 1
    chosen: dict[str, Any] = {"DEPTH": depth, "OUTLOOK": depth * room, "IS_LONG": is_long}
    names = list(RULES)
    for code in rules:
        if RULES[names[code]].seasonal:
            chosen["SEASONAL"] = code
            chosen["limit"] = choose_limit(set_code, names[code].endswith("straight"))
    return chosen
