"""Discrete decisions from a run, drawn so that they switch no more often than its points move."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array, InvalidInput, seeded
from klazy.base.options import explain_arguments
from klazy.game.trace import Trace, check_trace
from klazy.movement import FiniteMetric
from klazy.sets import Box, Simplex
from klazy.sets.base import TOLERANCE


@explain_arguments
def sample_actions(trace: Trace[Any], seed: Any) -> NDArray[np.int64]:
    r"""Draw one discrete action per round, switching as rarely as possible.

    Action i has probability x_{t,i} in round t, the points being scaled to sum 1.

    .. math:: P(a_{t+1} = a_t) = \min(1, x_{t+1,a_t} / x_{t,a_t}), \qquad
              \text{else}\quad a_{t+1} \sim (x_{t+1} - x_t)^+ / \|(x_{t+1} - x_t)^+\|_1

    This is the maximal coupling of neighbouring rounds: the expected number of switches is the sum of the total variations,
    which is what :class:`TVMovement` charges on ``Simplex(d)``. No other way to draw the actions has fewer. If the run was
    charged by a :class:`~klazy.contrib.FiniteMetric`, an action that is left goes where the cheapest way to carry the
    probability takes it, and the expected cost of all switches is what the run paid for moving.

    Parameters
    ----------
    trace : Trace
        A run on a simplex, with its points.
    seed : int or Generator
        A seed for ``numpy.random.default_rng``. Not the seed that drew the costs: actions would depend on them.

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
    check_trace(trace)
    rng = seeded(seed)
    metric = trace.movement if isinstance(trace.movement, FiniteMetric) else None
    return _draw_actions(_check_shares(trace.x), rng, metric)


def _draw_actions(
    x: Array, rng: "np.random.Generator", metric: FiniteMetric | None = None
) -> NDArray[np.int64]:
    """Draw actions with these probabilities, scaled to sum 1, by the maximal coupling of neighbours; the cheapest one, if
    switches are charged by a metric."""
    gain = np.maximum(np.diff(x, axis=0, prepend=0.0), 0.0)
    # If no action gained, the drawn one lost only by rounding. Then draw from all of x.
    gained = gain.any(axis=1, keepdims=True)
    heap = np.where(gained, gain, x).cumsum(axis=1)
    hold = np.zeros_like(x)
    # An action of probability 0 is never played, so its entry is never read.
    with np.errstate(all="ignore"):
        hold[1:] = x[1:] / x[:-1]
    to_hold, to_draw = rng.random((2, len(x)))
    to_draw *= heap[:, -1]
    actions = np.empty(len(x), np.int64)
    a = 0
    for t, (held, drawn) in enumerate(zip(to_hold.tolist(), to_draw.tolist(), strict=True)):
        if held >= hold[t, a]:
            gains = heap[t]
            if metric is not None and t > 0 and gain[t].any():
                gains = gains[-1] * metric.send(x[t] - x[t - 1], a).cumsum()
                gains[-1] = heap[t, -1]
            # The first entry above ``drawn`` belongs to an action that gained probability.
            a = gains.searchsorted(drawn, side="right")
        actions[t] = a
    return actions


class WholePoints(NamedTuple):
    """A run in whole numbers. :func:`~klazy.contrib.sample_whole` makes it.

    Parameters
    ----------
    x : array
        Whole points, of shape (T, d).
    probability : array
        How likely each point differs from the one before, of shape (T,).
    """

    x: Array
    probability: Array


@explain_arguments
def sample_whole(trace: Trace[Any], seed: Any) -> WholePoints:
    r"""Round a run to whole numbers at random, such that it moves no more than it did.

    Every :math:`X_t` is whole, its mean is :math:`x_t`, and the expected change of each coordinate is what it was:
    :math:`E\,|X_{t,i} - X_{t-1,i}| = |x_{t,i} - x_{t-1,i}|` on a box. So linear costs, and movement by :class:`L1Movement`,
    :class:`TVMovement` or :class:`AsymmetricMovement`, are in expectation what the run paid; other convex costs are higher, for
    whole points are apart from their mean. To round to the nearest may move by a whole unit where a point moves by next to
    nothing, again and again.

    On a box with whole bounds :math:`X_{t,i} = \lfloor x_{t,i} + \theta_i \rfloor` with one :math:`\theta_i`, uniform on
    [0, 1), for all rounds. On a simplex of whole total n each of n units is drawn as by :func:`sample_actions`; there the
    expected total variation of the move is at most that of the run, and the same for one unit.

    Parameters
    ----------
    trace : Trace
        A run on a :class:`Box` or a :class:`Simplex`, with its points.
    seed : object
        A seed for ``numpy.random.default_rng``. Not the seed that drew the costs: points would depend on them.

    Returns
    -------
    WholePoints
        The points, and the probability that each differs from the one before.

    Raises
    ------
    ValueError
        If the set has other whole points, or none.

    Examples
    --------
    >>> trace = run(GD(Box(0, 9), 4.0), PinballCosts([[6.4]] * 8, short=3.0), engine="step")
    >>> drawn = sample_whole(trace, seed=1)
    >>> trace.x.ravel().tolist()
    [0.0, 0.75, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25]
    >>> drawn.x.ravel().tolist(), drawn.probability.tolist()
    ([0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0], [0.0, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75])
    """
    check_trace(trace)
    rng = seeded(seed)
    domain = getattr(trace.source, "domain", None)
    if type(domain) is Box:
        domain.check_whole()
        lower, upper = np.split(domain.parameters(), 2)
        if (domain.parameters() != np.rint(domain.parameters())).any():
            raise InvalidInput(f"The bounds of the Box must be integers, got {domain!r}.")
        drawn = np.clip(np.floor(trace.x + rng.random(trace.dim)), lower, upper)
        changes = np.minimum(np.abs(np.diff(trace.x, axis=0)), 1.0)
        stays = np.prod(1.0 - changes, axis=1)
    elif type(domain) is Simplex:
        domain.check_whole()
        x = _check_shares(trace.x)
        units = round(float(domain.parameters()[0]))
        drawn = np.zeros_like(x)
        for _ in range(units):
            drawn[np.arange(len(x)), _draw_actions(x, rng)] += 1.0
        shift = 0.5 * np.abs(np.diff(x / x.sum(axis=1, keepdims=True), axis=0)).sum(axis=1)
        stays = (1.0 - np.minimum(shift, 1.0)) ** units
    else:
        remedy = "Use Guards(integers=True) on others."
        raise InvalidInput(
            f"trace must be of a learner on a Box or a Simplex, got {domain!r}. {remedy}"
        )
    return WholePoints(drawn, np.concatenate(([0.0], 1.0 - stays)))


def _check_shares(x: Array) -> Array:
    """Return ``x`` without negative rounding errors, or reject rows that are not on one simplex."""
    total = float(x[0].sum())
    if not total > 0.0:
        raise InvalidInput(
            f"x[0] must have a sum above 0, got {x[0].tolist()}. Run a learner on a Simplex."
        )
    on = Simplex(x.shape[1], total).violation(x) <= TOLERANCE
    if not on.all():
        row = int(on.argmin())
        raise InvalidInput(
            f"x[{row}] must be without negative numbers and sum to {total:.6g}, as x[0] does, got {x[row].tolist()}. "
            "Run a learner on a Simplex."
        )
    return np.maximum(x, 0.0)
