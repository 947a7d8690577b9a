"""The most that wealth can grow in hindsight, when a trade costs a share of what it trades: a programme over dollars.

In dollars the problem is linear, and nothing ties one dollar to another. So the value of a dollar in each asset, worked out
from the last round to the first, is at once what the best sequence reaches and what no sequence can exceed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array


class Dollars(NamedTuple):
    """What a dollar can become, in logarithms: ``worth[t, i]`` if it is in asset i before the trades of round t + 1.

    ``target[t]`` is the asset that dollars move to in that round, those whose ``moves[t, i]`` is True.
    """

    worth: Array
    target: NDArray[np.intp]
    moves: NDArray[np.bool_]

    def follow(self, shares: Array, growth: Array, leave: Array, enter: Array) -> Array:
        """Play the best sequence from these shares before the first trade: the shares after each round's trades."""
        logs = np.log(shares, where=shares > 0.0, out=np.full_like(shares, -np.inf))
        played = np.empty_like(growth)
        for t, (target, moves) in enumerate(zip(self.target, self.moves, strict=True)):
            if moves.any():
                moved = np.logaddexp.reduce((logs + leave[t])[moves]) + enter[t, target]
                logs = np.where(moves, -np.inf, logs)
                logs[target] = np.logaddexp(logs[target], moved)
            logs = logs - logs.max()
            played[t] = np.exp(logs)
            logs = logs + growth[t]
        return played / played.sum(axis=1, keepdims=True)


def plan_dollars(growth: Array, leave: Array, enter: Array) -> Dollars:
    """Find the best way of every dollar, from the last round to the first.

    Parameters
    ----------
    growth : array
        The logarithm of what a dollar in each asset is multiplied by, of shape (T, d).
    leave, enter : array
        The logarithms of what a sale and a purchase leave of a dollar, of the same shape; -inf where there is no trade.

    Returns
    -------
    Dollars
        The best way from each asset, with its value.
    """
    T, d = growth.shape
    worth = np.zeros((T + 1, d))
    target = np.zeros(T, dtype=np.intp)
    moves = np.zeros((T, d), dtype=bool)
    for t in range(T - 1, -1, -1):
        stay = growth[t] + worth[t + 1]
        offers = enter[t] + stay
        target[t] = offers.argmax()
        move = leave[t] + offers[target[t]]
        moves[t] = move > stay
        worth[t] = np.maximum(stay, move)
    return Dollars(worth, target, moves)
