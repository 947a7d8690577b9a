"""Certificates: bounds on the cost of a run, computed from the run itself.

Every bound here holds for every prefix of the run, for any comparator in the set, for sigmas that never decrease, and for
costs that are convex: they enter through their gradients at the points played. A violated certificate is an error of klazy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy import show
from klazy.base.checks import Array, InvalidInput
from klazy.base.options import explain_arguments
from klazy.game.game import find_factors
from klazy.game.regret import check_comparator, regret
from klazy.game.trace import Trace, check_from_start
from klazy.learners import Leader, Learner, Reluctant, SAder
from klazy.learners.better import Pair
from klazy.theory.bounds import order_feedback
from klazy.theory.diagnosis import (
    compare_with_hints,
    find_rising_sigmas,
    list_states,
    normals_of,
    phases_of,
)

if TYPE_CHECKING:
    from klazy.show import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """A run's regret and its bounds, as running sums over the rounds. :func:`~klazy.theory.certify` makes it.

    Parameters
    ----------
    regret : array
        Dynamic regret plus the movement paid, of shape (T,).
    realised : array
        The bound that uses the gradients, sigmas and points of the run, of shape (T,).
    worst_case : array
        Theorem 5 with the run's own G, R and movements, and its extension to schedules, of shape (T,).
    terms : dict of str to array
        The three parts of Lemma 7 that ``realised`` adds up, by name, and two more where feedback came late.

    Examples
    --------
    >>> trace = run(KLazyGD(L2Ball(2), 5.0, k=4), np.tile([1.0, 0.5], (40, 1)), engine="step")
    >>> known = certify(trace, [-1.0, 0.0])
    >>> round(known.slack, 2), round(known.worst_case_slack, 2)
    (1.03, 4.75)
    """

    regret: Array
    realised: Array
    worst_case: Array
    terms: dict[str, Array]

    @property
    def slack(self) -> float:
        """How far the realised certificate is above the regret at the end; >= 0, but for rounding."""
        return float(self.realised[-1] - self.regret[-1])

    @property
    def worst_case_slack(self) -> float:
        """How far Theorem 5's bound is above the regret at the end."""
        return float(self.worst_case[-1] - self.regret[-1])

    def __str__(self) -> str:
        named = {"regret": self.regret} | self.terms
        named |= {"realised certificate": self.realised, "Theorem 5": self.worst_case}
        return "\n".join(f"{name:32}{curve[-1]:14.6g}" for name, curve in named.items())

    __repr__ = __str__

    def plot(self) -> Figure:
        """Draw regret, certificate and bound over the rounds, and below them the three terms.

        Returns
        -------
        Figure
            A matplotlib figure.

        Examples
        --------
        >>> trace = run(KLazyGD(L2Ball(2), 5.0, k=4), np.tile([1.0, 0.5], (40, 1)), engine="step")
        >>> [ax.get_ylabel() for ax in certify(trace, [-1.0, 0.0]).plot().axes]
        ['regret so far', "the certificate's terms"]
        """
        return show.draw_certificate(self.regret, self.realised, self.worst_case, self.terms)


@explain_arguments
def certify(trace: Trace, u: ArrayLike) -> Certificate:
    r"""Bound the regret of one learner's run from the run itself.

    .. math:: R_T \le \underbrace{\sum_t \min\bigl(\|g_t\| \delta_t, \tfrac{\|g_t\|^2}{2 \sigma_{t-1}}\bigr)}_{\text{I}}
              + \underbrace{\text{movement paid}}_{\text{II}}
              + \underbrace{\tfrac{\sigma_1}{2} \|u_1 - x_1\|^2 + \sum_{t<T} \langle s_t, u_{t+1} - u_t \rangle
              + \sum_t \tfrac{\sigma_t - \sigma_{t-1}}{2} \|u_t - c_t\|^2}_{\text{III}}, \qquad \sigma_0 = \sigma_1

    with :math:`\delta_t = \|x_{t+1} - x_t\|`, and for k-lazyGD in both forms (so for GD and LazyGD) the state
    :math:`s_t = g_{\tau:t} + \sigma_t (\tfrac{u_{t+1} + u_t}{2} - x_\tau)` and the centre :math:`c_t = x_\tau`, the phase's
    anchor; where a phase ends, less is charged, because its objective is at its minimum there. For :class:`MemoryGD`
    :math:`s_t = \sigma_t (\tfrac{u_{t+1} + u_t}{2} - x_{t+1}) - n_{t+1}` and :math:`c_t = x_t`, with
    :math:`\sigma_t` in I; for :class:`CentredOMD` the same without n and with :math:`c_t = x_1`.

    With hints :math:`h_t` of the gradients, I has :math:`g_t - h_t` in place of :math:`g_t`: right hints cost nothing there.
    III then has :math:`s_t - h_{t+1}`, and at its end :math:`\langle h_{T+1}, u_T - x_{T+1} \rangle` of the
    hint that is not answered yet.

    For a :class:`Delayed` of one of these, I and III are those of its learner in the order in which feedback came, and two
    terms are added: :math:`\sum \|g_s\| \|x_s - z_s\|` over the rounds whose feedback has come, where :math:`z_s` is the
    learner's point just before it, and :math:`\sum \|g_s\| \|x_s - u_s\|` over the others.

    It covers every movement, a fee and a square included: II is what the run paid for moving, and the comparator's moves are
    not priced. The closed forms in ``klazy.theory`` bound II as well, by steps of at most G / sigma; they are for Euclidean
    movement, and for another norm m with its weight times :meth:`Movement.lipschitz`. They cover norms only.

    Parameters
    ----------
    trace : Trace
        A run from its start, with its points.
    u : array_like
        The comparator: one point of the set, of shape (d,), or one per round, of shape (T, d).

    Returns
    -------
    Certificate
        The regret and its bounds, after every round.

    Raises
    ------
    ValueError
        If the learner has no certificate, the run did not begin at its start, or u leaves the set.

    Examples
    --------
    >>> trace = run(KLazyGD(L2Ball(2), 5.0, k=4), np.tile([1.0, 0.5], (40, 1)))
    >>> print(certify(trace, [-1.0, 0.0]))
    regret                               ...
    """
    check_from_start(trace)
    learner = _check_certified(trace)
    x = np.vstack((trace.x, trace.state.x))
    g = trace.gradients()
    u = check_comparator(u, trace, learner.domain)
    smoothed = find_smoothed(trace, u)
    if learner.takes_delays:
        return _bound_delayed(learner, trace, x[:-1], g, u, smoothed)
    return bound_run(learner, trace.switching, x, g, u, smoothed, trace.next_hints)


def find_smoothed(trace: Trace, u: Array) -> Array:
    """Return the dynamic regret plus the movement paid, after every round."""
    curves = regret(trace, u).curves
    assert curves is not None  # only a run without points has none
    return curves.dynamic + curves.switching


def _bound_delayed(
    learner: Any, trace: Trace, x: Array, g: Array, u: Array, smoothed: Array
) -> Certificate:
    """Bound a delayed run by the bounds of the learner inside, in the order of arrival, and the cost of lateness."""
    order = order_feedback(trace.kept.get("delays", np.zeros(len(g))))
    s = order.rounds
    z = np.array([state.x for state in list_states(learner.learner, g[s])])
    size = np.linalg.norm(g, axis=1)
    come = np.searchsorted(
        order.ends, np.arange(len(g)), side="right"
    )  # how much feedback has come by the end of each round
    inner = None
    if len(s):
        nothing = np.zeros(len(s))
        inner = bound_run(learner.learner, nothing, z, g[s], u[s], nothing)
    lag = size[s] * np.linalg.norm(x[s] - z[:-1], axis=1)
    lost = size * np.linalg.norm(x - u, axis=1)
    path = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(z, axis=0), axis=1))))
    G = float(size.max())
    still = np.arange(1, len(g) + 1) - come
    switching = np.cumsum(trace.switching)
    terms = {"II, moving": switching}
    worst = switching + _sum_up(G * (path[:-1] - path[order.started]), come)
    worst = worst + 2.0 * learner.domain.reach(x[0]) * G * still
    if inner is not None:
        worst = worst + _at(inner.worst_case, come)
        terms = {name: _at(term, come) for name, term in inner.terms.items()} | terms
    terms["IV, learning out of turn"] = _sum_up(lag, come)
    terms["V, feedback not there"] = np.cumsum(lost) - _sum_up(lost[s], come)
    return Certificate(smoothed, sum(terms.values(), np.zeros(len(g))), worst, terms)


def _at(curve: Array, come: np.ndarray) -> Array:
    """Return the value of a running sum over feedback at the end of every round."""
    return np.concatenate(([0.0], curve))[come]


def _sum_up(each: Array, come: np.ndarray) -> Array:
    """Sum what each feedback adds up to the end of every round."""
    return _at(np.cumsum(each), come)


def bound_run(
    learner: Any,
    two: Array,
    x: Array,
    g: Array,
    u: Array,
    smoothed: Array,
    next_hints: Array | None = None,
) -> Certificate:
    """Bound the regret of a learner that played x (T + 1 points), saw the gradients g, and paid ``two`` for moving."""
    surprise, h = compare_with_hints(x, g, next_hints)
    received = surprise + h[1:]  # what the learner saw
    sigma = find_rising_sigmas(learner, surprise)
    before = _shift_back(sigma)
    form = CERTIFIED_FORMS[learner.form](learner, x, received, sigma)
    used = form.used
    size = np.linalg.norm(surprise, axis=1)
    delta = np.linalg.norm(np.diff(x, axis=0), axis=1)
    jump = np.diff(u, axis=0)
    distance = np.sum((u - form.center) ** 2, axis=1)
    one = np.minimum(size * delta, size**2 / (2.0 * used))
    three = (sigma - before) / 2.0 * distance
    three[0] += sigma[0] / 2.0 * float(np.sum((u[0] - x[0]) ** 2))
    three[1:] += _price_jumps(form, x, u, sigma) - np.vecdot(h[1:-1], jump)
    in_force = np.vecdot(h[1:], u - x[1:])  # the part of the hint whose gradient has not come yet
    named = {
        "I, not knowing the cost": one,
        "II, moving": two,
        "III, the comparator moving": three,
    }
    terms = {name: np.cumsum(term) for name, term in named.items()}
    terms["III, the comparator moving"] += in_force
    realised = sum(terms.values(), np.zeros(len(g)))
    G = float(size.max())
    R = learner.domain.reach(x[0])
    if not np.isfinite(R):
        return Certificate(smoothed, realised, np.full(len(g), np.inf), terms)
    worst = (
        np.minimum(G * delta, G * G / (2.0 * used))
        + (sigma - before) / 2.0 * (2.0 * R) ** 2
        + two
    )
    worst[0] += sigma[0] * R * R / 2.0
    hinted = np.linalg.norm(h[1:], axis=1)
    worst[1:] += (2.0 * R * sigma[:-1] + form.limit + hinted[:-1]) * np.linalg.norm(jump, axis=1)
    return Certificate(smoothed, realised, np.cumsum(worst) + 2.0 * R * hinted, terms)


class _Form(NamedTuple):
    """What a learner's form puts into Lemma 7, with s_t = held_t + sigma_t ((u_{t+1} + u_t) / 2 - pulled_t)."""

    held: Array  # for t < T
    pulled: Array  # for t < T
    center: Array  # c_t
    used: Array  # sigma in I
    limit: Array | float  # a bound on the gradients or normals in s_t
    ends: np.ndarray | None = None  # whether a phase ends with round t < T


def _shift_back(sigma: Array) -> Array:
    """Return sigma_{t-1}, with sigma_0 = sigma_1."""
    return np.concatenate((sigma[:1], sigma[:-1]))


def _centred_form(learner: Any, x: Array, g: Array, sigma: Array) -> _Form:
    center = np.broadcast_to(x[0], g.shape)
    return _Form(np.zeros_like(g[1:]), x[1:-1], center, _shift_back(sigma), 0.0)


def _memory_form(learner: Any, x: Array, g: Array, sigma: Array) -> _Form:
    n = normals_of(learner, x, g, sigma)[1:]
    return _Form(-n, x[1:-1], x[:-1], sigma, np.linalg.norm(n, axis=1))


def _anchored_form(learner: Any, x: Array, g: Array, sigma: Array) -> _Form:
    start, anchor, held = phases_of(learner, x, g)
    t = np.arange(len(g))
    longest = int((t - start).max()) + 1
    limit = longest * float(np.linalg.norm(g, axis=1).max())
    ends = start[1:] == t[1:]
    return _Form(held[:-1], anchor[:-1], anchor, _shift_back(sigma), limit, ends)


CERTIFIED_FORMS = {"anchored": _anchored_form, "centred": _centred_form, "memory": _memory_form}


def _price_jumps(form: _Form, x: Array, u: Array, sigma: Array) -> Array:
    """Compute <s_t, u_{t+1} - u_t> for t < T, or less where a phase ends."""
    middle = (u[1:] + u[:-1]) / 2.0
    price = np.vecdot(form.held + sigma[:-1, None] * (middle - form.pulled), np.diff(u, axis=0))
    if form.ends is None:
        return price
    # Where a phase ends, the old objective is at its minimum, and a new one around that point replaces it.
    ends = form.ends
    after = x[1:-1][ends]
    last = form.pulled[ends]
    u_last = u[:-1][ends]
    price[ends] = np.vecdot(form.held[ends], after - u_last) + sigma[:-1][ends] / 2.0 * (
        np.sum((after - last) ** 2, axis=1)
        - np.sum((u_last - last) ** 2, axis=1)
        + np.sum((u[1:][ends] - after) ** 2, axis=1)
    )
    return price


def _check_certified(trace: Trace) -> Learner[Any]:
    """Return the learner of a run, or reject one without a certificate."""
    learner: Any = trace.source
    inner = learner.learner if learner.takes_delays else learner
    if inner.form not in CERTIFIED_FORMS:
        message = f"{type(learner).__name__} has no certificate."
        if hasattr(learner, "name_accounts"):
            message += " Use certify_experts."
        raise InvalidInput(message)
    if trace.next_hints is None and np.any(getattr(trace.state, "hint", 0.0)):
        raise InvalidInput(
            "The trace does not have its hints. Run it again with hints= or next_hints=."
        )
    return learner


class ExpertCurves(NamedTuple):
    """An ensemble's cost and that of each of its N experts, after every round.

    Parameters
    ----------
    cost : array
        What the ensemble cost, of shape (T,).
    experts : array
        What each expert cost, of shape (T, N).
    bound : array
        The most that the ensemble can have cost more, of shape (T, N).
    """

    cost: Array
    experts: Array
    bound: Array

    @property
    def slack(self) -> Array:
        """How much more the ensemble might have cost by then."""
        return self.experts + self.bound - self.cost[:, None]


@dataclass(frozen=True, eq=False)
class ExpertCertificate:
    """An ensemble's cost and that of each of its N experts. :func:`~klazy.theory.certify_experts` makes it.

    Parameters
    ----------
    cost : float
        What the ensemble cost.
    experts : array
        What each expert cost, of shape (N,).
    bound : array
        The most that the ensemble can have cost more, of shape (N,): Theorem 8's live form with the run's own losses (see the
        page Ensembles).
    curves : ExpertCurves or None
        The same after every round; None for a :class:`~klazy.contrib.BetterOfTwo` or an :class:`~klazy.contrib.Interpolation`.
    """

    cost: float
    experts: Array
    bound: Array
    curves: ExpertCurves | None = None

    @property
    def slack(self) -> Array:
        """How much more the ensemble might have cost, of shape (N,); >= 0, but for rounding."""
        return self.experts + self.bound - self.cost


@explain_arguments
def certify_experts(trace: Trace) -> ExpertCertificate:
    r"""Bound what an ensemble cost more than each of its experts (Theorem 8, live).

    For a fixed rate the bound is :math:`\ln(1/\pi_i)/\beta + \beta \sum_t v_t`; the page Ensembles has it for the self-tuned
    rates, and for a :class:`~klazy.contrib.Leader` with its guard. Only norms with one weight are covered, for others have
    neither. For a :class:`~klazy.contrib.BetterOfTwo` or an :class:`~klazy.contrib.Interpolation` it is the bound stated there.

    Parameters
    ----------
    trace : Trace
        A run of a SAder, a Leader with its guard, a BetterOfTwo or an Interpolation, from its start, with ``record="experts"``.

    Returns
    -------
    ExpertCertificate
        Costs and bounds, one per expert.

    Raises
    ------
    ValueError
        If the run is none of these, or was charged another movement than the ensemble's own.

    Examples
    --------
    >>> pair = SAder([GD(Simplex(3), 1.0), GD(Simplex(3), 4.0)], movement="tv")
    >>> trace = run(pair, np.tile([0.0, 1.0, 2.0], (10, 1)), record="experts", engine="step")
    >>> certify_experts(trace).slack.round(3).tolist()
    [0.614, 1.543]
    """
    check_from_start(trace)
    learner: Any = trace.source
    if not isinstance(learner, SAder | Leader | Pair):
        raise InvalidInput(
            f"trace must be of a SAder, Leader, BetterOfTwo or Interpolation, got {trace.learner}. Use certify for one learner."
        )
    if not getattr(learner, "guard", True):
        raise InvalidInput(
            "A Leader with guard=False has no certificate. Build it with guard=True."
        )
    _check_charged(learner, trace)
    cost = trace.totals.cost - _entry(learner, trace)
    if isinstance(learner, Pair):
        base = trace.totals.hitting - trace.state.lost
        experts = base + trace.state.paid
        return ExpertCertificate(cost, experts, base + learner.bound(trace.state) - experts)
    experts = np.cumsum(trace.expert_hitting + trace.expert_switching, axis=0)
    if isinstance(learner, SAder):
        bound = _excess(learner, trace, _read_lost(learner, trace, trace.state.V))
    else:
        lost = _read_lost(learner.ensemble, trace, trace.state.Delta)
        reach = learner.reach * _read_factors(learner, trace).max()
        allowed = 2.0 * lost + 4.0 * reach + np.maximum.accumulate(trace.kept["worst"])
        bound = allowed[:, None] + _excess(learner.ensemble, trace, lost)
    paid = np.cumsum(trace.hitting + trace.switching) - _entry(learner, trace)
    return ExpertCertificate(cost, experts[-1], bound[-1], ExpertCurves(paid, experts, bound))


def _check_charged(learner: Any, trace: Trace) -> None:
    """Reject a run that was charged another movement than the ensemble's own, at prices that may change by round."""
    own = learner.movement
    charged = trace.movement
    if charged != own and learner.takes_prices and not charged.is_steady:
        charged = charged.replace(weight=own.weight)
    if charged != own:
        raise InvalidInput(
            f"The run's movement must be that of the ensemble, {own!r}, got {trace.movement!r}. "
            "Leave it out of run."
        )


def _read_factors(learner: Any, trace: Trace) -> Array:
    """Return what the move after each round cost, as a multiple of the ensemble's own price."""
    factors = find_factors(learner, trace.movement, trace.T)
    return np.ones(trace.T) if factors is None else factors


def _read_lost(learner: SAder, trace: Trace, last: float) -> Array:
    """Return what the weights of a self-tuned ensemble had lost after every round; the next rate tells."""
    rates = trace.beta[1:]
    earlier = np.divide(
        math.log(len(learner.experts)), rates, out=np.zeros(len(rates)), where=rates > 0.0
    )
    return np.append(earlier, last)


def _entry(learner: Any, trace: Trace) -> float:
    """Return the cost of the move from x0 to the first point, which no expert pays."""
    if trace.x0 is None:
        return 0.0
    movement = trace.movement
    return movement.weight_at(1) * float(movement.distance(learner.init().x - trace.x0))


def _excess(learner: SAder, trace: Trace, lost: Array) -> Array:
    """Bound how much more than each expert an ensemble has paid after every round, given the losses of its weights."""
    weight = float(learner.movement.weight) * _read_factors(learner, trace)
    doubt = -np.asarray(learner.log_prior)
    r = trace.spread
    d = trace.diameter
    beta = trace.beta
    if not learner.is_self_tuned:
        v = r**2 / 8.0 + weight * d * r / 4.0
        rate = float(learner.beta)
        return doubt / rate + rate * np.cumsum(v)[:, None]
    live = beta > 0.0
    # The bound while all experts have lost the same.
    bound = np.repeat(np.cumsum(r + weight * d)[:, None], len(doubt), axis=1)
    if not live.any():
        return bound
    first = int(np.argmax(live)) - 1
    rate = beta[first + 1 :]
    widest = (np.maximum.accumulate(weight) * np.maximum.accumulate(d))[first + 1 :]
    common = (widest * doubt.max() * np.log(rate[0] / rate))[:, None] + doubt / rate[:, None]
    bound[first + 1 :] = common + weight[first] * d[first] + lost[first + 1 :, None]
    return bound


class Reluctance(NamedTuple):
    """A run of :class:`~klazy.contrib.Reluctant` and its bounds. :func:`~klazy.theory.certify_reluctance` makes it.

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


@explain_arguments
def certify_reluctance(trace: Trace, u: ArrayLike) -> Reluctance:
    r"""Bound what a run of :class:`~klazy.contrib.Reluctant` paid for moving, and its regret.

    With the forecast :math:`\hat g_t` after round t, :math:`p_t` the price of a unit of movement
    (:math:`\lambda / H`, or :math:`\lambda / (H t)` without a window) and D the diameter of the set,

    .. math:: \lambda \sum_{t<T} m(x_{t+1} - x_t) \;\le\; \sum_{t<T} \tfrac{\lambda}{p_t}
              \langle \hat g_t, x_t - x_{t+1} \rangle \;\le\; D \Bigl( \bigl\| \tfrac{\lambda}{p_1} \hat g_1 \bigr\|
              + \sum_{1<t<T} \bigl\| \tfrac{\lambda}{p_t} \hat g_t - \tfrac{\lambda}{p_{t-1}} \hat g_{t-1} \bigr\| \Bigr),

    .. math:: \sum_t \langle g_t, x_t - u_t \rangle \;\le\; \langle g_1, x_1 - u_1 \rangle
              + \sum_{t>1} \Bigl( p_{t-1}\, m(u_t - x_t) + \langle g_t - \hat g_{t-1}, x_t - u_t \rangle \Bigr)

    for every sequence u of points of the set, however much it moves, and for any forecasts, those of hints included. The
    proof is on the page Theory. It needs a movement that obeys the triangle inequality, so no
    :class:`~klazy.contrib.SwitchFee`, :class:`~klazy.contrib.SquaredMovement` or
    :class:`~klazy.contrib.ImpactMovement`, and a price above zero.

    Parameters
    ----------
    trace : Trace
        A run of a Reluctant that takes gradients, from its start, with its points.
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
    check_from_start(trace)
    learner = _check_reluctant(trace)
    g = trace.gradients()
    points = check_comparator(u, trace, learner.domain)
    x = trace.x
    forecasts, prices = _recall(learner, g, trace.next_hints)
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


def _check_reluctant(trace: Trace) -> Reluctant:
    learner: Any = trace.source
    if type(learner) is not Reluctant or not learner.takes_gradients:
        raise InvalidInput(
            f"trace must be of a Reluctant without a family, got {learner!r}. Use certify."
        )
    if learner.movement.degree != 1.0 or learner.price == 0.0:
        raise InvalidInput(
            "The learner's movement must obey the triangle inequality and have a price above 0, got "
            f"{learner.movement!r}. Use L1Movement(1.0)."
        )
    return learner


def _recall(learner: Reluctant, g: Array, next_hints: Array | None) -> tuple[Array, Array]:
    """Compute the forecasts after the rounds 1, ..., T - 1, and their prices."""
    state = learner.init()
    forecasts = np.empty((len(g) - 1, g.shape[1]))
    prices = np.empty(len(g) - 1)
    for t, row in enumerate(g[:-1]):
        state = learner.observe(state, row)
        hint = None if next_hints is None else next_hints[t]
        forecasts[t], prices[t] = learner.forecast(state, hint)
    return forecasts, prices
