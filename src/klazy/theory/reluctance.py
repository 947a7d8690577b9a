"""What can be said of a learner that moves only when its forecast says that it pays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, refusal
from klazy.game.trace import Trace, check_plain, check_trace
from klazy.learners import Reluctant
from klazy.theory.certificates import check_comparator


class Reluctance(NamedTuple):
    """A run of :class:`~klazy.Reluctant` beside its bounds. :func:`~klazy.theory.certify_reluctance` makes it.

    Parameters
    ----------
    switching : float
        What moving cost.
    promised : float
        What the forecasts promised for it: a bound on ``switching``.
    variation : float
        A bound on ``promised`` by the forecasts alone.
    regret : float
        The regret of the hitting costs.
    bound : float
        Its bound.
    mistake : float
        The part of the bound that wrong forecasts make.
    """

    switching: float
    promised: float
    variation: float
    regret: float
    bound: float
    mistake: float


def certify_reluctance(trace: Trace, u: ArrayLike) -> Reluctance:
    r"""Bound what a run of :class:`~klazy.Reluctant` paid for moving, and its regret.

    With the forecast :math:`\hat g_t` after round t, :math:`p_t` the price of a unit of movement beside it
    (:math:`\lambda / H`, or :math:`\lambda / (H t)` without a window) and D the diameter of the set,

    .. math:: \lambda \sum_{t<T} m(x_{t+1} - x_t) \;\le\; \sum_{t<T} \tfrac{\lambda}{p_t}
              \langle \hat g_t, x_t - x_{t+1} \rangle \;\le\; D \Bigl( \bigl\| \tfrac{\lambda}{p_1} \hat g_1 \bigr\|
              + \sum_{1<t<T} \bigl\| \tfrac{\lambda}{p_t} \hat g_t - \tfrac{\lambda}{p_{t-1}} \hat g_{t-1} \bigr\| \Bigr),

    .. math:: \sum_t \langle g_t, x_t - u_t \rangle \;\le\; \langle g_1, x_1 - u_1 \rangle
              + \sum_{t>1} \Bigl( p_{t-1}\, m(u_t - x_t) + \langle g_t - \hat g_{t-1}, x_t - u_t \rangle \Bigr)

    for every sequence u of points of the set, however much it moves, and whatever the forecasts are: those of hints, too. The
    proof is on the page Theory. It needs a movement that obeys the triangle inequality, so no :class:`~klazy.SwitchFee`,
    :class:`~klazy.SquaredMovement` or :class:`~klazy.contrib.ImpactMovement`, and a price above zero.

    Parameters
    ----------
    trace : Trace
        A run of a Reluctant that is told gradients, from its start, with its points.
    u : array_like
        The comparator: one point of the set, of shape (d,), or one per round, of shape (T, d).

    Returns
    -------
    Reluctance
        Costs and bounds, over the whole run.

    Raises
    ------
    ValueError
        If the run is none of these, or u has a point outside the set.

    Examples
    --------
    >>> g = np.repeat([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]], 20, axis=0)
    >>> trace = run(Reluctant(Simplex(3), TVMovement(2.0), window=4, horizon=8), g)
    >>> known = certify_reluctance(trace, [0.5, 0.0, 0.5])
    >>> round(known.switching, 3), round(known.promised, 3), round(known.regret, 3), round(known.bound, 3)
    (3.333, 7.493, -12.333, 8.388)
    """
    owner = "certify_reluctance"
    check_trace(trace, owner)
    check_plain(trace, owner)
    learner = _check_learner(trace, owner)
    g = trace.gradients()
    points = check_comparator(u, trace, learner.domain, owner)
    x = trace.x
    forecasts, prices = _recall(learner, g, trace.hints)
    weight = float(learner.movement.weight)
    moves = np.diff(x, axis=0)
    promises = (weight / prices)[:, None] * forecasts
    changes = np.linalg.norm(np.diff(promises, axis=0), axis=1).sum()
    first = np.linalg.norm(promises[:1], axis=1).sum()
    gaps = x - points
    mistake = float(np.vecdot(g[1:] - forecasts, gaps[1:]).sum())
    reluctance = float((prices * learner.movement.distance(-gaps[1:])).sum())
    return Reluctance(
        switching=weight * float(learner.movement.distance(moves).sum()),
        promised=-float(np.vecdot(promises, moves).sum()),
        variation=learner.domain.diameter * float(first + changes),
        regret=float(np.vecdot(g, gaps).sum()),
        bound=float(g[0] @ gaps[0]) + reluctance + mistake,
        mistake=mistake,
    )


def _check_learner(trace: Trace, owner: str) -> Reluctant:
    learner: Any = trace.source
    if type(learner) is not Reluctant or not learner.takes_gradients:
        raise refusal(
            owner, "a run of a Reluctant that is told gradients", "learner", repr(learner), "use certify"
        )
    if learner.movement.degree != 1.0 or learner.price == 0.0:
        wanted = "a movement that obeys the triangle inequality, at a price above zero"
        raise refusal(owner, wanted, "movement", repr(learner.movement), "use L1Movement(1.0)")
    if trace.state.t != trace.T + 1:
        raise refusal(owner, "a run from its start", "state.t", trace.state.t, "run the parts as one")
    return learner


def _recall(learner: Reluctant, g: Array, hints: Array | None) -> tuple[Array, Array]:
    """The forecasts after the rounds 1, ..., T - 1, and their prices."""
    state = learner.init()
    forecasts = np.empty((len(g) - 1, g.shape[1]))
    prices = np.empty(len(g) - 1)
    for t, row in enumerate(g[:-1]):
        state = learner.observe(state, row)
        hint = None if hints is None else hints[t]
        forecasts[t], prices[t] = learner.forecast(state, hint)
    return forecasts, prices
