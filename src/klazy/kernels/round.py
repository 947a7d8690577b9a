"""One round of a learner over a lane: propose, project, accept, remember. Every driver plays these rounds."""

from typing import Any

import numpy as np

from klazy.kernels import codes
from klazy.kernels.binding import Lane, link
from klazy.kernels.coded import add_price, next_sigma, take_price
from klazy.kernels.domains import (
    DOMAINS,
    done_coordinate,
    keep_moves,
    newton_threshold,
    project_into,
    sorted_threshold,
)
from klazy.kernels.lane import anywhere, load, peek, skip, spread, store, where
from klazy.kernels.rules import FIRST_PLACED, RULES
from klazy.kernels.slots import *


def settle(x, y, u, d, p, shift, theta, move, prices):
    """Write the second stage of the projection into ``x``, and return the price of the move before root and weight."""
    paid = spread(0.0)
    if move == codes.MOVE_L2:  # Its own loop, which has no branch.
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
    rule,
    x,
    own,
    s,
    y,
    u,
    p,
    g,
    h,
    d,
    sigma,
    step,
    old,
    starts,
    ends,
    memory,
    kappa,
    guess,
    move,
    prices,
):
    """Play a round; return <g, x>, the price of the move before root and weight, and the threshold to start from next."""
    dot = propose(rule, x, own, s, g, h, y, d, sigma, step, old, starts)
    if MAY_PLACE and (MUST_PLACE or rule >= FIRST_PLACED):
        paid = spread(0.0)
        if anywhere(place(rule, x, s, y, u, d, p)):
            paid = settle_done(x, y, u, d, p, guess, guess, move, prices)
        remember(rule, x, own, s, y, d, p, sigma, ends, memory, kappa)
        return dot, paid, guess
    shift, theta = threshold(y, u, d, p, guess)
    if MAY_STAY:
        for i in range(d):
            store(u, i, coordinate(load(y, i), load(u, i), i, d, p, shift, theta))
        keep_moves(x, u, d, accept(rule, x, own, s, u, d))
        paid = settle_done(x, y, u, d, p, shift, theta, move, prices)
    else:
        paid = settle(x, y, u, d, p, shift, theta, move, prices)
    remember(rule, x, own, s, y, d, p, sigma, ends, memory, kappa)
    return dot, paid, shift + theta


def count_phases(q, t):
    """Return for which runs round ``t`` is the first of a phase, and for which it is the last."""
    start = load(q, codes.START)
    starts = start == t
    if anywhere(starts):
        start = where(starts, start + load(q, codes.SLACK), start)
        store(q, codes.START, start)
    return starts, start == t + 1.0


def play_block(q, g, h, y, u, p, d, sigma, step, starts, ends, move, prices):
    """Play one round of a block whose sigma is known; returns <g, x>, and the price of the move before its weight."""
    x = skip(q, codes.FIELDS)
    old = spread(0.0)
    if KEEPS_SIGMA:
        old = load(q, codes.OLD_SIGMA)
        store(q, codes.OLD_SIGMA, sigma)
    guess = spread(-np.inf)
    if D == 0:  # In small dimensions thresholds need no guess.
        guess = load(q, codes.GUESS)
    dot, paid, guess = play_round(
        int(peek(q, codes.RULE)), x, skip(x, d), skip(q, codes.OWN), y, u, p, g, h, d, sigma, step, old, starts, ends,
        int(peek(q, codes.MEMORY)), load(q, codes.KAPPA), guess, move, prices,
    )  # fmt: skip
    if D == 0:
        store(q, codes.GUESS, guess)
    return dot, take_price(move, paid)


def advance(q, g, h, y, u, p, d, square, norm, move, weight, prices):
    """Play one round of a block, and write what its move costs into MOVED."""
    t = peek(q, codes.T)
    paid = spread(0.0)
    if NEEDS_SIGMA:
        starts, ends = count_phases(q, t)
        sigma, step = next_sigma(q, square, norm)
        if anywhere(step > 0.0):  # Without a scale it stays.
            _, paid = play_block(q, g, h, y, u, p, d, sigma, step, starts, ends, move, prices)
    else:
        one = spread(1.0)
        never = one == 0.0
        _, paid = play_block(q, g, h, y, u, p, d, one, one, never, never, move, prices)
    store(q, codes.MOVED, paid * weight)
    store(q, codes.T, spread(t + 1.0))


# ---- how a kernel is put together from these


def always_accept(rule, x, own, s, z, d):
    return spread(0.0) == 0.0


def remember_nothing(rule, x, own, s, y, d, p, sigma, ends, memory, kappa):
    return


def pick(code, *given):
    """Call the part with this code: ``this`` if it is CODE, else one of the others."""
    if code == CODE:
        answer = this(*given)
    else:
        answer = others(code, *given)
    return answer


def pick_last(code, *given):
    """Call the only part that is left."""
    return this(*given)


def link_picker(lane: Lane, parts: dict[int, Any], rest: Any = None, **choices: Any) -> Any:
    """Link a chain of pickers, one for each part, which takes a code and then what the parts take.

    All other codes get ``rest``; by default that is the last part, since a kernel is made for just these codes.
    """
    if rest is None:
        _, part = parts.popitem()
        rest = link(pick_last, lane, **choices, this=part)
    for code, part in reversed(parts.items()):
        rest = link(pick, lane, **choices, CODE=code, this=part, others=rest)
    return rest


def link_projection(lane: Lane, set_code: int, d: int) -> dict[str, Any]:
    """Link what a set knows: its projection, its lowest point and its moves, for templates that name them."""
    known = DOMAINS[set_code]._asdict()
    stages: dict[str, Any] = {name: part for name, part in known.items() if part is not None}
    stages |= {"IS_BOX": set_code == codes.BOX, "D": d}
    stages["positive_threshold"] = newton_threshold
    if (
        d > 0 and set_code != codes.PRODUCT
    ):  # The parts of a product have dimensions of their own.
        stages["positive_threshold"] = sorted_threshold
    if set_code == codes.PRODUCT:
        leaves = {
            code: link_projection(lane, code, 0) for code in DOMAINS if code != codes.PRODUCT
        }
        projected = {code: link(project_into, lane, **own) for code, own in leaves.items()}
        stages["project_leaf"] = link_picker(lane, projected)
        for name, slot in LEAVES.items():
            parts = {code: link(own[name], lane, **own) for code, own in leaves.items()}
            picked = {slot: link_picker(lane, parts)}
            stages[name] = link(stages[name], lane, **picked)
    return stages


# Parts of a product, with the slots through which they reach the same parts of its sets.
LEAVES = {
    "lowest": "lowest_leaf",
    "tangent": "tangent_leaf",
    "trade": "move_leaf",
    "balance": "move_leaf",
}


def link_rules(lane: Lane, rules: tuple[int, ...], stages: dict[str, Any]) -> dict[str, Any]:
    """Link the parts of these rules on a set with these stages, for :func:`play_round`; several are picked by their code."""
    known = dict(enumerate(RULES.values()))
    chosen = {code: known[code] for code in rules}
    proposes = {code: rule.propose for code, rule in chosen.items()}
    accepts = {code: rule.accept for code, rule in chosen.items() if rule.accept is not None}
    placers = {code: rule.place for code, rule in chosen.items() if rule.place is not None}
    remembers = {
        code: rule.remember for code, rule in chosen.items() if rule.remember is not None
    }
    depth = max(rule.depth for rule in chosen.values())
    stages = stages | {"DEPTH": depth}
    linked: dict[str, Any] = {
        "propose": link_picker(lane, proposes, **stages),
        "accept": link_picker(lane, accepts, link(always_accept, lane)),
        "remember": link_picker(lane, remembers, link(remember_nothing, lane), **stages),
        "DEPTH": depth,
        "MAY_PLACE": bool(placers),
        "MUST_PLACE": len(placers) == len(chosen),
        "MAY_STAY": bool(accepts),
        "KEEPS_SIGMA": any(rule.keeps_sigma for rule in chosen.values()),
        "NEEDS_SIGMA": any(rule.needs_sigma for rule in chosen.values()),
    }
    if len(set(placers.values())) == 1:
        placers = dict(
            [placers.popitem()]
        )  # All rules share the part, so that the kernel needs it once.
    if placers:
        linked["place"] = link_picker(lane, placers, **stages)
    return linked


def link_round(lane: Lane, set_code: int, rules: tuple[int, ...], d: int) -> dict[str, Any]:
    """Link all that a driver needs so that its rounds are those of a set and of rules."""
    stages = link_projection(lane, set_code, d)
    settled = link(settle, lane, coordinate=done_coordinate)
    chosen = {**stages, "settle_done": settled, **link_rules(lane, rules, stages)}
    return chosen | choose_scratch(d * lane.width)


def choose_scratch(room: int) -> dict[str, int]:
    """Return the sizes of a round's scratch, where a vector takes ``room`` numbers."""
    moments = codes.MOMENTS * room
    return {"Y_ROOM": moments, "U_ROOM": codes.MOVE_ROOM * room, "SEEN_ROOM": moments}
