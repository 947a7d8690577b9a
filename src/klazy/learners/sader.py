"""SAder: many learners, weighted by what they cost, movement included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    Array,
    InvalidInput,
    check_flag,
    filled_list,
    freeze,
    instance,
    one_of,
    positive,
    vector,
)
from klazy.kernels import codes
from klazy.learners.base import Learner
from klazy.movement import Movement, as_movement, suit_movement
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded

SELF_TUNED = "self-tuned"
PRIORS = ("harmonic", "uniform")
_SMALLEST_PRIOR = 1e-100  # so that a leader's weight does not underflow


class SAderState(NamedTuple):
    """The experts' states, their log weights, and what tunes the meta rate.

    ``moved`` is what each expert pays for its move to the present point, ``losses`` are summed over all rounds, and ``V`` is
    what the weights have lost by them.
    """

    t: int
    x: Array
    experts: tuple[Any, ...]
    log_w: Array
    moved: Array
    losses: Array
    V: float = 0.0


class SAder(Learner[SAderState]):
    r"""Mix many learners by weights that learn who is cheapest: SAder (the paper's Algorithm 3), over any learners on one set.

    .. math:: x_t = \sum_i w_{i,t}\, x^i_t, \qquad
              \ell_{i,t} = \langle g_t, x^i_t - x_t\rangle + \lambda\, m(x^i_t - x^i_{t-1}), \qquad
              w_{i,t+1} \propto \pi_i \exp\bigl(-\beta\, \ell_{i,1:t}\bigr)

    Every expert is fed the gradient at the *ensemble's* point. Its movement is a norm with one weight, the usual price; for a
    fee, or a price that is no norm, use :class:`Leader`, which follows one expert. Where prices change by round
    (``run(..., movement=L2Movement(prices))``), :math:`\lambda_t` takes the place of :math:`\lambda` in round t. With
    :math:`r_t` the spread of the losses, :math:`d_t` the diameter of the experts' points in the norm m and
    :math:`v_t = r_t^2/8 + \lambda_{t+1} d_t r_t/4`, the ensemble costs at most
    :math:`\ln(1/\pi_i)/\beta + \beta \sum v_t` more than expert i, for every i and any fixed ``beta``.

    With ``beta="self-tuned"`` the rate is found on the way, free of scale and horizon: :math:`\beta_t = \ln N / \Delta_{t-1}`,
    where :math:`\Delta` sums what the weights really lost: each round's mixability gap, and :math:`\lambda m` of what
    reweighting moved. This is AdaHedge (de Rooij, van Erven, Grünwald and Koolen, 2014) with movement; a bound is proved on the
    page Ensembles. Before the first round in which the experts differ there is no rate: the weights are the prior.

    With ``hints=True`` a guess of what comes next is passed on to every expert that accepts hints; the others get none.
    Add a twin without hints for each (``MemoryGD(..., hints=False)``): then wrong hints cost little more than no hints
    would, by the bound above. Such an ensemble has no kernel.

    The paper is Mhaisen and Iosifidis, *Partially Lazy Gradient Descent for Smoothed Online Learning* (2026); over greedy
    experts it is SAder of Zhang, Jiang, Lu and Yang, *Revisiting Smoothed Online Learning* (2021).

    Parameters
    ----------
    experts : list of Learner
        Learners on one set.
    beta : float or str, optional
        The rate, or ``"self-tuned"``, the default.
    prior : str or array_like, optional
        The weights at the start: ``"harmonic"``, the default (:math:`\pi_i \propto 1/(i(i+1))`), ``"uniform"``, or one number
        per expert.
    movement : Movement or str, optional
        What the experts are charged for moving, :math:`\lambda m`: a norm with one weight, or its short name. Default: what
        suits the set.
    hints : bool, optional
        Whether it passes hints on to its experts. Default: False.

    Raises
    ------
    ValueError
        If the experts are on different sets, the movement is no norm or has no usual price, or rate or prior are invalid.

    Examples
    --------
    >>> ball = L2Ball(2)
    >>> learner = SAder([GD(ball, 2.0), GD(ball, 8.0), LazyGD(ball, 4.0)], prior="uniform")
    >>> trace = run(learner, np.tile([1.0, 0.0], (50, 1)), engine="step")
    >>> learner.weights(trace.state).round(3).tolist()
    [0.913, 0.001, 0.086]
    """

    takes_prices: ClassVar[bool] = True

    beta: float | str
    prior: str | Array
    movement: Movement
    hints: bool

    def __init__(
        self,
        experts: Sequence[Learner[Any]],
        beta: float | str = SELF_TUNED,
        prior: str | ArrayLike = "harmonic",
        *,
        movement: Movement | str | None = None,
        hints: bool = False,
    ) -> None:
        experts = check_experts(experts)
        self._keep(hints=check_hints(hints, experts))
        if movement is None:
            movement = suit_movement(experts[0].domain)
        movement = as_movement(movement)
        check_norm(movement, experts[0].domain.dim)
        if isinstance(beta, str):
            one_of(beta, "beta", (SELF_TUNED,))
        else:
            beta = positive(beta, "beta")
        self._keep(
            experts=experts, beta=beta, prior=_check_prior(prior, len(experts)), movement=movement
        )
        self._keep(domain=experts[0].domain)

    @property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the compiled rule; None with hints, for which there is no kernel."""
        return None if self.hints else "ensemble"

    @property
    def is_self_tuned(self) -> bool:
        """Whether the rate is found on the way."""
        return self.beta == SELF_TUNED

    @cached_property
    def log_prior(self) -> Array:
        r"""The logarithms of the prior weights, :math:`\ln \pi`."""
        N = len(self.experts)
        named = {"harmonic": harmonic_prior(N), "uniform": np.full(N, 1.0 / N)}
        prior = (
            named[self.prior] if isinstance(self.prior, str) else self.prior / self.prior.sum()
        )
        return freeze(np.log(prior))

    def weights(self, state: SAderState) -> Array:
        """Give the experts' weights in the round about to be played, w_t.

        Parameters
        ----------
        state : SAderState
            The present state.

        Returns
        -------
        array
            One weight per expert; they sum to 1.
        """
        return np.exp(state.log_w)

    def rate(self, state: SAderState) -> float:
        """Give the rate beta_t that made the weights of the round about to be played.

        Parameters
        ----------
        state : SAderState
            The present state.

        Returns
        -------
        float
            The rate; 0 until the experts differ.
        """
        return self.find_rate(state.V)

    def init(self, x: Array | None = None) -> SAderState:
        for i, expert in enumerate(self.experts):
            if not expert.takes_gradients:
                raise InvalidInput(
                    f"The experts of SAder must take gradients, but experts[{i}].family is {expert.family}. Use contrib.Leader."
                )
        experts = tuple(expert.init(x) for expert in self.experts)
        nothing = np.zeros(len(self.experts))
        return SAderState(
            1,
            np.exp(self.log_prior) @ points_of(experts),
            experts,
            self.log_prior,
            nothing,
            nothing,
        )

    def step(self, state: SAderState, g: Array, next_hint: Array | None = None) -> SAderState:
        t, x, experts, log_w, moved, losses, V = state
        points = points_of(experts)
        loss = (points - x) @ g + moved
        log_w, losses, V = self.reweigh(log_w, losses, V, points, loss, g)
        experts = tuple(
            step_expert(expert, old, g, next_hint)
            for expert, old in zip(self.experts, experts, strict=True)
        )
        following = points_of(experts)
        moved = self.movement.weight * self.movement.distance(following - points)
        return SAderState(t + 1, np.exp(log_w) @ following, experts, log_w, moved, losses, V)

    def reweigh(
        self, log_w: Array, losses: Array, V: float, points: Array, loss: Array, g: Array
    ) -> tuple[Array, Array, float]:
        """Weigh the experts anew after a round.

        Parameters
        ----------
        log_w : array
            The log weights of the round.
        losses : array
            The losses before it, summed up.
        V : float
            What the weights have lost before it.
        points : array
            The experts' points, of shape (N, d).
        loss : array
            What each expert lost in the round.
        g : array
            The round's gradient.

        Returns
        -------
        log_w : array
            The next log weights.
        losses : array
            The losses, summed up.
        V : float
            What the weights have lost.
        """
        V = V + self._lose(points, log_w, loss, g, self.find_rate(V))
        losses = losses + loss
        log_w, _ = _normalise(self.log_prior - self.find_rate(V) * (losses - losses.min()))
        return log_w, losses, V

    def describe(self, state: SAderState | None = None) -> str:
        return f"SAder: {len(self.experts)} experts"

    def describe_memory(self, state: SAderState) -> str:
        w = self.weights(state)
        heaviest = (
            f"the heaviest, with weight {w.max():.3g}, is {self.experts[w.argmax()].describe()}"
        )
        return f"It is the mean of {len(w)} experts' points; {heaviest}."

    def find_rate(self, V: float) -> float:
        """Find the rate beta, given what the weights have lost.

        Parameters
        ----------
        V : float
            What they have lost so far.

        Returns
        -------
        float
            The rate; a self-tuned one is 0 while nothing was lost.
        """
        if not self.is_self_tuned:
            return float(self.beta)
        if V < codes.SMALLEST_VARIATION:
            return 0.0
        return math.log(len(self.experts)) / V

    def _lose(self, points: Array, log_w: Array, loss: Array, g: Array, beta: float) -> float:
        """Return what the weights lose in this round, where the rate is self-tuned."""
        r = float(loss.max() - loss.min())
        if (
            not self.is_self_tuned
            or r <= self.noise[0] * float(np.linalg.norm(g)) + self.noise[1]
        ):
            return 0.0
        w = np.exp(log_w)
        mean = float(w @ loss)
        if beta == 0.0:
            return mean - float(loss.min())
        log_after, log_Z = _normalise(log_w - beta * (loss - mean))
        jump = (np.exp(log_after) - w) @ points
        return max(0.0, log_Z / beta) + float(self.movement.weight * self.movement.distance(jump))

    @cached_property
    def noise(self) -> tuple[float, float]:
        """Spreads up to the first times the norm of g plus the second are rounding errors; no rate must be learnt from them."""
        return find_noise(self.domain, self.movement)

    def diameter(self, points: Array) -> float:
        """Measure how far apart the experts' points are, d_t, in the movement's norm, before its weight.

        Parameters
        ----------
        points : array
            The experts' points, of shape (N, d).

        Returns
        -------
        float
            The largest distance between two of them.
        """
        return float(self.movement.distance(points[:, None] - points).max())

    def account(self, state: SAderState, g: Array) -> Array:
        """Make one row of the record that ``record="experts"`` keeps.

        Parameters
        ----------
        state : SAderState
            The state of the round.
        g : array
            The round's gradient.

        Returns
        -------
        array
            Weights, the experts' losses apart from the ensemble's own cost, their movement, then r_t, d_t and beta_t.
        """
        points = points_of(state.experts)
        hit = (points - state.x) @ g
        loss = hit + state.moved
        summary = (loss.max() - loss.min(), self.diameter(points), self.rate(state))
        return np.concatenate((self.weights(state), hit, state.moved, summary))

    def name_accounts(self, log: Array, hitting: Array) -> dict[str, Array]:
        """Split the rows of :meth:`account` into named arrays; an expert's cost is the ensemble's plus its own difference.

        Parameters
        ----------
        log : array
            The rows, one per round.
        hitting : array
            What each round charged the ensemble.

        Returns
        -------
        dict of str to array
            The arrays that a trace keeps.
        """
        return name_columns(log, hitting, len(self.experts), ("spread", "diameter", "beta"))

    def check_state(self, state: Any) -> SAderState:
        super().check_state(state)
        check_expert_states(state, self.hints)
        return state

    @property
    def rate_rule(self) -> tuple[int, float]:
        """The code of the rate's rule, and its number: the rate itself, or ln N for a self-tuned one."""
        if not self.is_self_tuned:
            return codes.GIVEN_RATE, float(self.beta)
        return codes.SELF_TUNED_RATE, math.log(len(self.experts))


def harmonic_prior(N: int) -> Array:
    """Compute Algorithm 3's prior for N places, C / (i (i + 1)) with C = 1 + 1/N."""
    i = np.arange(1.0, N + 1.0)
    return (1.0 + 1.0 / N) / (i * (i + 1.0))


def check_experts(experts: Any, names: Sequence[str] | None = None) -> tuple[Learner[Any], ...]:
    """Check learners on one bounded set; ``names`` are those of the arguments that they came in."""
    learners = filled_list(
        experts, "experts", "of learners such as [GD(ball, 1.0), GD(ball, 2.0)]"
    )
    for i, expert in enumerate(learners):
        name = f"experts[{i}]" if names is None else names[i]
        instance(expert, name, Learner, "a Learner such as GD(ball, 1.0)")
        domain = learners[0].domain
        if expert.domain != domain:
            raise InvalidInput(
                f"All experts must be on the same set, here {domain!r}, but {name} is on {expert.domain!r}."
            )
    check_bounded(learners[0].domain)
    return learners


def check_norm(movement: Movement, dim: int) -> None:
    """Reject movements that are no norm, for which an average of experts has no bound: it moves whenever one of them does."""
    check_steady(movement)
    if movement.degree != 1.0:
        raise InvalidInput(
            f"movement must be a norm with one weight, such as L2Movement(1.0), got {movement!r}. Only "
            "contrib.Leader(experts, movement, guard=False) takes others."
        )
    movement.check(dim)


def check_steady(movement: Movement) -> None:
    """Reject a weight per round: a learner is made for a usual price, and told others when their rounds come."""
    if not movement.is_steady:
        raise InvalidInput(
            f"movement must have one weight, the usual price, got {movement!r}. "
            "Give prices that change by round to run(..., movement=...)."
        )


def check_hints(hints: Any, experts: tuple[Learner[Any], ...]) -> bool:
    """Check the argument ``hints``: to pass them on, at least one expert must accept them."""
    if not check_flag(hints, "hints"):
        return False
    if not any(expert.accepts_hints for expert in experts):
        kinds = sorted({type(expert).__name__ for expert in experts})
        raise InvalidInput(
            f"With hints=True an expert must accept hints, and {', '.join(kinds)} do not. Add MemoryGD(...) or "
            "contrib.Reluctant(..., hints=True)."
        )
    if any(expert.takes_advice for expert in experts):
        raise InvalidInput(
            "An ensemble's hints are forecasts, and Advice without a policy takes decisions. Put it into "
            "contrib.Interpolation or contrib.BetterOfTwo."
        )
    return True


def step_expert(expert: Learner[Any], state: Any, g: Array, next_hint: Array | None) -> Any:
    """Return the state of an expert after a round; one that accepts no hints gets none."""
    if next_hint is None or not expert.accepts_hints:
        return expert.step(state, g)
    step: Any = expert.step
    return step(state, g, next_hint)


def check_expert_states(state: Any, hints: bool) -> None:
    """Reject experts that are in another round, or that were given hints though the ensemble takes none."""
    for i, expert in enumerate(state.experts):
        if expert.t != state.t:
            raise InvalidInput(
                f"state.experts[{i}] must be in round {state.t}, got t={expert.t}."
            )
        if not hints and np.any(getattr(expert, "hint", 0.0)):
            raise InvalidInput(
                f"state.experts[{i}].hint must be zero without hints, got {expert.hint}."
            )


def find_noise(domain: ConvexSet, movement: Movement) -> tuple[float, float]:
    """Return the rounding errors of a loss: the first number times the norm of the gradient, plus the second."""
    reach = codes.RESOLUTION * (domain.scale + float(np.linalg.norm(domain.start)))
    degree = movement.degree
    slope = movement.lipschitz(domain.dim)
    if not np.isfinite(slope):
        slope = 0.0  # A fee is paid or not, without rounding.
    elif degree > 1.0:
        slope = degree * slope * domain.scale ** (degree - 1.0)
    return reach, reach * float(np.max(movement.weight)) * slope


def name_columns(log: Array, hitting: Array, N: int, more: tuple[str, ...]) -> dict[str, Array]:
    """Name the columns of a record of N experts: weights, hits and movements of each, then ``more``."""
    named = {"weights": log[:, :N], "expert_hitting": hitting[:, None] + log[:, N : 2 * N]}
    named |= {"expert_switching": log[:, 2 * N : 3 * N]}
    named |= dict(zip(more, log[:, 3 * N :].T, strict=True))
    return {name: np.ascontiguousarray(values) for name, values in named.items()}


def points_of(experts: tuple[Any, ...]) -> Array:
    """Return the experts' points, of shape (N, d)."""
    return np.array([state.x for state in experts])


def _normalise(a: Array) -> tuple[Array, float]:
    """Return ``a`` minus the logarithm of the sum of exp(a), and that logarithm."""
    top = a.max()
    log_Z = float(top + np.log(np.exp(a - top).sum()))
    return a - log_Z, log_Z


def _check_prior(prior: str | ArrayLike, N: int) -> str | Array:
    if isinstance(prior, str):
        return one_of(prior, "prior", PRIORS)
    weights = vector(prior, "prior", N)
    if (weights < _SMALLEST_PRIOR).any() or abs(weights.sum() - 1.0) > 1e-9:
        given = weights.tolist()
        raise InvalidInput(
            f"prior must sum to 1, with each at least {_SMALLEST_PRIOR:g}, got {given}."
        )
    # They are stored as given: dividing by their sum would change them again each time a file is read.
    return weights
