"""The driver of a run within limits by round, for costs whose gradient depends on the point played.

Played and charged is the point of the round's set that is nearest to the learner's. A round ends by the same part that ends
one of a live agent, so that every learner with a kernel has this one, too.
"""

import math
from typing import Any

import numpy as np
from numba import int64

from klazy.kernels.binding import FLOAT, compile_kernel, hold, link, once, pointer
from klazy.kernels.coded import add_price, take_price
from klazy.kernels.costs import COSTS
from klazy.kernels.domains import project_into
from klazy.kernels.ensemble import ALONE, choose_parts, describe_ensemble, update_ensemble
from klazy.kernels.round import link_projection
from klazy.kernels.rules import describe_kernel
from klazy.kernels.sequence import choose_update, input1, input2, output1, output2, update_run
from klazy.kernels.slots import *

LIMITED_SIGNATURE = int64(
    input2, input1, input1, int64, input1, input1, input1, input2, input2, input1, int64, output1,
    output2, output2, output1, output1,
)  # fmt: skip


def play_limited(
    data,
    extra,
    cost_p,
    move,
    weights,
    prices,
    x0,
    lower,
    upper,
    cuts,
    at,
    memory,
    xs,
    wanted,
    hitting,
    switching,
):
    """Play T rounds of the learner in ``memory``, whose point begins ``at`` a place there.

    ``cuts`` has the parameters of the set of each round, one after the other; ``x0`` is empty if the first move is free. The
    result is 0, or the first round whose cost is not finite.
    """
    rounds = xs.shape[0]
    d = D if D > 0 else xs.shape[1]
    stride = cuts.size // rounds
    costs = pointer(cost_p, 0)
    price_p = pointer(prices, 0)
    given = np.empty(d)
    gradient = pointer(given, 0)
    before = pointer(x0, 0)
    for t in range(rounds):
        x = pointer(memory, at)
        own = pointer(wanted, t * d)
        z = pointer(xs, t * d)
        fits = True
        for i in range(d):
            own[i] = x[i]
            z[i] = x[i]
            fits = fits and lower[t, i] <= x[i] and x[i] <= upper[t, i]
        if not fits:
            cut_into(own, z, d, pointer(cuts, t * stride))
        paid = 0.0
        if t > 0 or x0.size > 0:
            for i in range(d):
                paid = add_price(move, paid, z[i] - before[i], i, d, price_p)
            paid = take_price(move, paid)
        before = z
        value = reveal(
            pointer(data, t * d), extra[t if extra.size > 1 else 0], costs, z, gradient, d
        )
        hitting[t] = value
        switching[t] = weights[t if weights.size > 1 else 0] * paid
        if not math.isfinite(value) or end_round(memory, given) != 0:
            return t + 1
    hold(given)
    return 0


@once
def limited_run_kernel(set_code: int, cost: int, rule: int, d: int, cut_code: int) -> Any:
    """Make the kernel that plays a learner within limits by round."""
    end_round = link(update_run, FLOAT, **choose_update(set_code, rule, d))
    return _make(end_round, (set_code, cost, rule, d, cut_code), describe_kernel(rule, set_code))


@once
def limited_ensemble_kernel(
    set_code: int,
    cost: int,
    rules: tuple[int, ...],
    d: int,
    row_family: int | None,
    is_long: bool,
    cut_code: int,
) -> Any:
    """Make the kernel that plays an ensemble or a leader within limits by round."""
    lane, chosen = choose_parts(set_code, rules, d, row_family, is_long)
    family = ALONE if row_family is None else row_family
    key = (set_code, cost, family, d, cut_code, int(is_long), *rules)
    return _make(
        link(update_ensemble, lane, **chosen), key, describe_ensemble(set_code, row_family)
    )


def _make(end_round: Any, key: tuple[int, ...], about: str) -> Any:
    _, cost, _, d, cut_code, *_ = key
    chosen = {
        "D": d,
        "end_round": end_round,
        "reveal": link(COSTS[cost].reveal, FLOAT),
        "cut_into": link(project_into, FLOAT, **link_projection(FLOAT, cut_code, d)),
    }
    return compile_kernel(play_limited, FLOAT, LIMITED_SIGNATURE, key, about=about, **chosen)
