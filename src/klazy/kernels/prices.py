"""What moving costs, by the code of its movement."""

from klazy.kernels.codes import (
    MOVE_ABSOLUTE,
    MOVE_FEE,
    MOVE_IMPACT,
    MOVE_L2,
    MOVE_SQUARED,
    MOVE_WEIGHTED,
    UNKNOWN,
)
from klazy.kernels.lane import larger, load, root, size, spread, where


def add_price(move, paid, delta, i, d, prices):
    """``paid`` and the price of a step ``delta`` of coordinate ``i``, before :func:`take_price`."""
    if move == MOVE_WEIGHTED:
        paid = paid + delta * delta * prices[i]
    elif move == MOVE_ABSOLUTE:
        paid = paid + where(delta > 0.0, delta * prices[i], delta * -prices[d + i])
    elif move == MOVE_FEE:
        paid = larger(paid, where(size(delta) > prices[0], spread(1.0), spread(0.0)))
    elif move == MOVE_L2:
        paid = paid + delta * delta
    elif move == MOVE_SQUARED:
        paid = paid + delta * delta * 0.5
    elif move == MOVE_IMPACT:
        paid = paid + size(delta) * root(size(delta)) * prices[i]
    else:
        paid = spread(UNKNOWN)
    return paid


def is_rooted(move):
    """Whether the price is the root of a sum of squares."""
    return move == MOVE_L2 or move == MOVE_WEIGHTED


def take_price(move, paid):
    """The price of a step, before its weight, from the sum over its coordinates."""
    if is_rooted(move):
        paid = root(paid)
    return paid


def price_of(delta, d, move, prices):
    """The price of a step, before its weight."""
    paid = spread(0.0)
    for i in range(d):
        paid = add_price(move, paid, load(delta, i), i, d, prices)
    return take_price(move, paid)
