"""Discrete decisions from a run on a simplex, switched no oftener than its points move."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array, refusal, seeded
from klazy.game.trace import Trace, check_trace
from klazy.sets import Simplex
from klazy.sets.base import TOLERANCE


def sample_actions(trace: Trace[Any], seed: Any) -> NDArray[np.int64]:
    r"""Draw one discrete action per round, switching as rarely as possible.

    Action i has probability x_{t,i} in round t, the points being scaled to sum 1.

    .. math:: P(a_{t+1} = a_t) = \min(1, x_{t+1,a_t} / x_{t,a_t}), \qquad
              \text{else}\quad a_{t+1} \sim (x_{t+1} - x_t)^+ / \|(x_{t+1} - x_t)^+\|_1

    This is the maximal coupling of neighbouring rounds: the expected number of switches is the sum of the total variations,
    which is what :class:`TVMovement` charges on ``Simplex(d)``. No other way to draw the actions has fewer.

    Parameters
    ----------
    trace : Trace
        A run on a simplex, with its points.
    seed : int or Generator
        Whatever ``numpy.random.default_rng`` takes.

    Returns
    -------
    array of int
        The actions, counted from 0, of shape (T,).

    Raises
    ------
    ValueError
        If the points cannot be read as probabilities.

    Examples
    --------
    >>> g = np.random.default_rng(0).uniform(size=(200, 3))
    >>> trace = run(KLazyGD(Simplex(3), sigma=4.0, k=20), g, movement=TVMovement())
    >>> switches = [np.count_nonzero(np.diff(sample_actions(trace, seed))) for seed in range(500)]
    >>> print(f"{np.mean(switches):.1f} switches, {trace.totals.switching:.1f} expected")
    11.6 switches, 11.5 expected
    """
    check_trace(trace, "sample_actions")
    rng = seeded(seed, "sample_actions")
    x = _check_shares(trace.x)
    gain = np.maximum(np.diff(x, axis=0, prepend=0.0), 0.0)
    # Where nothing gained, whatever an action lost is rounding: then it draws from the whole of x.
    gained = gain.any(axis=1, keepdims=True)
    heap = np.where(gained, gain, x).cumsum(axis=1)
    hold = np.zeros_like(x)
    # An action of probability 0 is never played, so what stands there is never read.
    with np.errstate(all="ignore"):
        hold[1:] = x[1:] / x[:-1]
    to_hold, to_draw = rng.random((2, len(x)))
    to_draw *= heap[:, -1]
    actions = np.empty(len(x), np.int64)
    a = 0
    for t, (held, drawn) in enumerate(zip(to_hold.tolist(), to_draw.tolist(), strict=True)):
        if held >= hold[t, a]:
            # The first above ``drawn``: never an action that gained nothing.
            a = heap[t].searchsorted(drawn, side="right")
        actions[t] = a
    return actions


def _check_shares(x: Array) -> Array:
    """``x``, without negative rounding errors; refused unless all rows lie on one simplex."""
    owner = "sample_actions"
    remedy = "run a learner on a Simplex"
    total = float(x[0].sum())
    if not total > 0.0:
        raise refusal(owner, "points with a sum above zero", "x[0]", x[0].tolist(), remedy)
    on = Simplex(x.shape[1], total).violation(x) <= TOLERANCE
    if not on.all():
        row = int(on.argmin())
        raise refusal(
            owner, f"points >= 0 with one sum, {total:.6g} here", f"x[{row}]", x[row].tolist(), remedy
        )
    return np.maximum(x, 0.0)
