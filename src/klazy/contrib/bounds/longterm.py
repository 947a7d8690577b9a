"""What a constraint in the long run costs, and how far it is exceeded, computed from the run itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, refusal
from klazy.contrib.learners.longterm import LongTerm
from klazy.game.regret import regret
from klazy.game.trace import Trace, check_trace
from klazy.theory.certificates import FORMS, bound_run, check_comparator

_ROUNDING = 1e-9


class LongTermCertificate(NamedTuple):
    """Regret and use after every round. :func:`~klazy.contrib.certify_long_term` makes it.

    Parameters
    ----------
    regret : array
        Dynamic regret plus the movement paid, of shape (T,).
    regret_bound : array
        Its bound, of shape (T,).
    excess : array
        How much more was used than t B / T, of shape (T,).
    excess_bound : array
        Its bound, of shape (T,).
    """

    regret: Array
    regret_bound: Array
    excess: Array
    excess_bound: Array


def certify_long_term(trace: Trace, u: ArrayLike) -> LongTermCertificate:
    r"""The regret of a run of a :class:`~klazy.contrib.LongTerm` against u, and what it used, beside their bounds.

    .. math:: R_t \le \text{certificate of the learner on } h_1, \dots, h_t + \frac{\eta}{2} \sum_{s \le t} (c(x_s) - B/T)^2,
              \qquad \sum_{s \le t} (c(x_s) - B/T) \le p_{t+1} / \eta

    Parameters
    ----------
    trace : Trace
        A run from the start, with its points; the learner inside is one that :func:`~klazy.theory.certify` knows.
    u : array_like
        The comparator, of shape (d,) or (T, d); none of its points may use more than B / T.

    Returns
    -------
    LongTermCertificate
        Regret, excess and their bounds, after every round.

    Raises
    ------
    ValueError
        If the run or the comparator is not of this kind.

    Examples
    --------
    >>> learner = LongTerm(GD(Box(0, 1), sigma=20.0), [1.0], B=100.0, T=400)
    >>> found = certify_long_term(run(learner, -np.ones((400, 1))), [0.25])
    >>> [round(float(curve[-1])) for curve in found]
    [-13, -5, 17, 18]
    """
    check_trace(trace, "certify_long_term")
    owner = "certify_long_term"
    learner = trace.source
    if not isinstance(learner, LongTerm) or learner.learner.form not in FORMS:
        wanted = "a run of a LongTerm around GD or its kin"
        raise refusal(owner, wanted, "learner", trace.learner, "run one")
    if trace.state.t != trace.T + 1:
        raise refusal(owner, "a run from the start", "state.t", trace.state.t, "run it from the start")
    u = check_comparator(u, trace, learner.domain, owner)
    share = learner.B / learner.T
    used = learner.constraint.value(learner.row, u)
    if used.max() > share + _ROUNDING * max(1.0, abs(share)):
        wanted = f"a comparator that uses at most B/T={share:g} a round"
        raise refusal(owner, wanted, "c(u)", float(used.max()), "choose one inside")
    over = learner.constraint.value(learner.row, trace.x) - share
    prices = _follow_price(learner, over)
    h = trace.gradients() + prices[:-1, None] * learner.constraint.gradient(learner.row, trace.x)
    x = np.vstack((trace.x, trace.state.x))
    known = regret(trace, u)
    assert known.curves is not None
    own = bound_run(learner.learner, trace.switching, x, h, u, np.zeros(trace.T))
    return LongTermCertificate(
        known.curves.dynamic + known.curves.switching,
        own.realised + learner.eta / 2.0 * np.cumsum(over**2),
        np.cumsum(over),
        prices[1:] / learner.eta,
    )


def _follow_price(learner: LongTerm, over: Array) -> Array:
    """p_1, ..., p_{T+1}."""
    prices = [0.0]
    for use in over.tolist():
        prices.append(max(0.0, prices[-1] + learner.eta * use))
    return np.array(prices)
