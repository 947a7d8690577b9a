"""One round of a learner over a lane: propose, project, accept, remember. Every driver plays these rounds."""

from collections.abc import Callable
from typing import Any

import numpy as np

from klazy.kernels.binding import Lane, link
from klazy.kernels.codes import (
    BOX,
    FIELDS,
    GUESS,
    KAPPA,
    MEMORY,
    MOMENTS,
    MOVE_L2,
    MOVE_ROOM,
    MOVED,
    OLD_SIGMA,
    OWN,
    PRODUCT,
    RULE,
    SLACK,
    START,
    T,
)
from klazy.kernels.lane import anywhere, load, peek, skip, spread, store, where
from klazy.kernels.moves import MOVES
from klazy.kernels.prices import add_price, take_price
from klazy.kernels.projections import (
    PROJECTIONS,
    coordinate,
    done_coordinate,
    newton_threshold,
    project_into,
    sorted_threshold,
    threshold,
)
from klazy.kernels.rules import RULES
from klazy.kernels.schedules import next_sigma

# What a kernel chooses.
D = 0  # the dimension where it is a constant of the kernel, else 0
MAY_STAY = False  # whether a rule of the kernel may keep the old point
MAY_PLACE = False  # whether one finds the next point itself
KEEPS_SIGMA = False  # whether one needs the last sigma


def propose(rule, x, own, s, g, h, y, d, sigma, step, old, starts):
    """The first part of the rule at hand; a kernel puts it here, as it does the next five."""
    raise NotImplementedError


def accept(rule, x, own, s, z, d):
    raise NotImplementedError


def places(rule):
    raise NotImplementedError


def place(rule, x, s, y, u, d, p):
    raise NotImplementedError


def remember(rule, x, own, s, y, d, p, sigma, ends, memory, kappa):
    raise NotImplementedError


def settle_done(x, y, u, d, p, shift, theta, move, prices):
    raise NotImplementedError


def settle(x, y, u, d, p, shift, theta, move, prices):
    """The second stage of the projection into ``x``; returns what that costs before root and weight."""
    paid = spread(0.0)
    if move == MOVE_L2:  # apart, so that its loop has no branch
        for i in range(d):
            z = coordinate(load(y, i), load(u, i), i, d, p, shift, theta)
            delta = z - load(x, i)
            store(x, i, z)
            paid = paid + delta * delta
    else:
        for i in range(d):
            z = coordinate(load(y, i), load(u, i), i, d, p, shift, theta)
            delta = z - load(x, i)
            store(x, i, z)
            paid = add_price(move, paid, delta, i, d, prices)
    return paid


def play_round(
    rule, x, own, s, y, u, p, g, h, d, sigma, step, old, starts, ends, memory, kappa, guess, move, prices
):
    """Returns <g, x>, the price of the move before root and weight, and the threshold to start from next."""
    dot = propose(rule, x, own, s, g, h, y, d, sigma, step, old, starts)
    if MAY_PLACE and places(rule):
        paid = spread(0.0)
        if anywhere(place(rule, x, s, y, u, d, p)):
            paid = settle_done(x, y, u, d, p, guess, guess, move, prices)
        remember(rule, x, own, s, y, d, p, sigma, ends, memory, kappa)
        return dot, paid, guess
    shift, theta = threshold(y, u, d, p, guess)
    if MAY_STAY:
        for i in range(d):
            store(u, i, coordinate(load(y, i), load(u, i), i, d, p, shift, theta))
        moves = accept(rule, x, own, s, u, d)
        for i in range(d):
            store(u, i, where(moves, load(u, i), load(x, i)))
        paid = settle_done(x, y, u, d, p, shift, theta, move, prices)
    else:
        paid = settle(x, y, u, d, p, shift, theta, move, prices)
    remember(rule, x, own, s, y, d, p, sigma, ends, memory, kappa)
    return dot, paid, shift + theta


def count_phases(q, t):
    """Whether round ``t`` is the first of a phase, and whether it is the last."""
    start = load(q, START)
    starts = start == t
    if anywhere(starts):
        start = where(starts, start + load(q, SLACK), start)
        store(q, START, start)
    return starts, start == t + 1.0


def play_block(q, g, h, y, u, p, d, sigma, step, starts, ends, move, prices):
    """One round of a block, whose sigma is known; returns <g, x>, and the price of the move before its weight."""
    x = skip(q, FIELDS)
    old = spread(0.0)
    if KEEPS_SIGMA:
        old = load(q, OLD_SIGMA)
        store(q, OLD_SIGMA, sigma)
    guess = spread(-np.inf)
    if D == 0:  # else thresholds are found without one
        guess = load(q, GUESS)
    dot, paid, guess = play_round(
        int(peek(q, RULE)), x, skip(x, d), skip(q, OWN), y, u, p, g, h, d, sigma, step, old, starts, ends,
        int(peek(q, MEMORY)), load(q, KAPPA), guess, move, prices,
    )  # fmt: skip
    if D == 0:
        store(q, GUESS, guess)
    return dot, take_price(move, paid)


def advance(q, g, h, y, u, p, d, square, norm, move, weight, prices):
    """One round of a block: what its move costs goes into MOVED."""
    t = peek(q, T)
    starts, ends = count_phases(q, t)
    sigma, step = next_sigma(q, square, norm)
    paid = spread(0.0)
    if anywhere(step > 0.0):  # without a scale it stays put
        _, paid = play_block(q, g, h, y, u, p, d, sigma, step, starts, ends, move, prices)
    store(q, MOVED, paid * weight)
    store(q, T, spread(t + 1.0))


# ---- how a kernel is put together from these


def pick_propose(rule, x, own, s, g, h, y, d, sigma, step, old, starts):
    if rule == CODE:
        dot = this(x, own, s, g, h, y, d, sigma, step, old, starts)
    else:
        dot = others(rule, x, own, s, g, h, y, d, sigma, step, old, starts)
    return dot


def only_propose(rule, x, own, s, g, h, y, d, sigma, step, old, starts):
    return this(x, own, s, g, h, y, d, sigma, step, old, starts)


def pick_accept(rule, x, own, s, z, d):
    if rule == CODE:
        moves = this(x, own, s, z, d)
    else:
        moves = others(rule, x, own, s, z, d)
    return moves


def always_accept(rule, x, own, s, z, d):
    return spread(0.0) == 0.0


def pick_places(rule):
    if rule == CODE:
        answer = True
    else:
        answer = others(rule)
    return answer


def never_places(rule):
    return False


def always_places(rule):
    return True


def pick_place(rule, x, s, y, u, d, p):
    if rule == CODE:
        moves = this(x, s, y, u, d, p)
    else:
        moves = others(rule, x, s, y, u, d, p)
    return moves


def only_place(rule, x, s, y, u, d, p):
    return this(x, s, y, u, d, p)


def place_nothing(rule, x, s, y, u, d, p):
    return spread(0.0) > 0.0


def pick_remember(rule, x, own, s, y, d, p, sigma, ends, memory, kappa):
    if rule == CODE:
        this(x, own, s, y, d, p, sigma, ends, memory, kappa)
    else:
        others(rule, x, own, s, y, d, p, sigma, ends, memory, kappa)


def remember_nothing(rule, x, own, s, y, d, p, sigma, ends, memory, kappa):
    return


def pick_leaf(code, y, u, d, p):
    if code == CODE:
        this(y, u, d, p)
    else:
        others(code, y, u, d, p)


def project_nothing(code, y, u, d, p):
    return


def pick_tangent(code, x, y, u, d, p):
    if code == CODE:
        square = this(x, y, u, d, p)
    else:
        square = others(code, x, y, u, d, p)
    return square


def extend_nowhere(code, x, y, u, d, p):
    return spread(0.0)


def pick_mover(code, x, y, u, d, p, rise, fall):
    if code == CODE:
        moves = this(x, y, u, d, p, rise, fall)
    else:
        moves = others(code, x, y, u, d, p, rise, fall)
    return moves


def move_nowhere(code, x, y, u, d, p, rise, fall):
    return spread(0.0) > 0.0


CODE = 0  # of the part that a picker picks
this = others = project_nothing  # the part, and the picker of the others


def link_projection(lane: Lane, set_code: int, constant_d: int) -> dict[str, Any]:
    """The stages of a set's projection, its lowest point and its moves, for templates that name them."""
    known = MOVES[set_code]._asdict()
    stages = PROJECTIONS[set_code]._asdict() | {
        name: part for name, part in known.items() if part is not None
    }
    stages |= {"IS_BOX": set_code == BOX, "D": constant_d}
    stages["positive_threshold"] = newton_threshold
    if constant_d > 0 and set_code != PRODUCT:  # whose parts have dimensions of their own
        stages["positive_threshold"] = sorted_threshold
    if set_code == PRODUCT:
        leaves = [code for code in PROJECTIONS if code != PRODUCT]
        parts = {code: link(project_into, lane, **link_projection(lane, code, 0)) for code in leaves}
        stages["project_leaf"] = _link_picker(lane, pick_leaf, parts, link(project_nothing, lane))
        lowest = {code: PROJECTIONS[code].lowest for code in leaves}
        stages["lowest_leaf"] = _link_picker(lane, pick_leaf, lowest, link(project_nothing, lane))
        known = {code: link_projection(lane, code, 0) for code in leaves}
        for name, picker, rest in (
            ("tangent", pick_tangent, extend_nowhere),
            ("trade", pick_mover, move_nowhere),
            ("balance", pick_mover, move_nowhere),
        ):
            parts = {code: link(own[name], lane, **own) for code, own in known.items()}
            picked = _link_picker(lane, picker, parts, link(rest, lane))
            leaf = {"tangent_leaf": picked} if name == "tangent" else {"move_leaf": picked}
            stages[name] = link(stages[name], lane, **leaf)
    return stages


def link_rules(lane: Lane, rules: tuple[int, ...], stages: dict[str, Any]) -> dict[str, Any]:
    """The parts of these rules on a set with these stages, for :func:`play_round`; among several they are picked by code."""
    known = dict(enumerate(RULES.values()))
    chosen = {code: known[code] for code in rules}
    proposes = {code: rule.propose for code, rule in chosen.items()}
    accepts = {code: rule.accept for code, rule in chosen.items() if rule.accept is not None}
    placers = {code: rule.place for code, rule in chosen.items() if rule.place is not None}
    remembers = {code: rule.remember for code, rule in chosen.items() if rule.remember is not None}
    _, last = proposes.popitem()  # what is none of the others is the last: a kernel is made for just these
    places = _link_picker(lane, pick_places, placers, link(never_places, lane))
    place = _link_picker(lane, pick_place, placers, link(place_nothing, lane), **stages)
    is_shared = len(placers) == len(chosen) and len(set(placers.values())) == 1
    if is_shared:  # one of all rules, so that it is there once
        places = link(always_places, lane)
        place = link(only_place, lane, **stages, this=next(iter(placers.values())))
    return {
        "propose": _link_picker(lane, pick_propose, proposes, link(only_propose, lane, this=last)),
        "accept": _link_picker(lane, pick_accept, accepts, link(always_accept, lane)),
        "remember": _link_picker(lane, pick_remember, remembers, link(remember_nothing, lane)),
        "places": places,
        "place": place,
        "MAY_PLACE": bool(placers),
        "MAY_STAY": bool(accepts),
        "KEEPS_SIGMA": any(rule.keeps_sigma for rule in chosen.values()),
    }


def link_round(lane: Lane, set_code: int, rules: tuple[int, ...], constant_d: int) -> dict[str, Any]:
    """What a driver must choose so that its rounds are those of a set and of rules."""
    stages = link_projection(lane, set_code, constant_d)
    settled = link(settle, lane, coordinate=done_coordinate)
    chosen = {**stages, "settle_done": settled, **link_rules(lane, rules, stages)}
    return chosen | choose_scratch(constant_d * lane.width)


def choose_scratch(room: int) -> dict[str, int]:
    """The room of a round's scratch, where a vector takes so much."""
    return {"Y_ROOM": MOMENTS * room, "U_ROOM": MOVE_ROOM * room, "SEEN_ROOM": MOMENTS * room}


def _link_picker(
    lane: Lane, picker: Callable[..., Any], parts: dict[int, Any], rest: Any, **choices: Any
) -> Any:
    """A chain of pickers, one for each part, that ends with ``rest``; all make these choices."""
    for code, part in reversed(parts.items()):
        rest = link(picker, lane, **choices, CODE=code, this=part, others=rest)
    return rest
