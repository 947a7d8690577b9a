"""Sequences whose costs are not linear: tracking, regression, servers, and costs between chance and adversary."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    Array,
    InvalidInput,
    integer,
    non_negative,
    positive,
    rows,
    seeded,
    size,
    vector,
)
from klazy.costs import Costs, QuadraticCosts
from klazy.sequences.phases import Scenario, alternate
from klazy.sets import Box, ConvexSet, L2Ball

DAY = 24  # rounds
BUSIEST = 0.95  # Beyond this share of the servers' capacity delays grow linearly.


class RegressionCosts(Costs):
    r"""Least squares, :math:`f_t(x) = \tfrac12 (\langle a_t, x \rangle - y_t)^2` for features a and outcomes y.

    They have no kernel, and their optima are found by cutting planes.

    Parameters
    ----------
    features : array_like
        a, of shape (T, d).
    outcomes : array_like
        y, of shape (T,).

    Examples
    --------
    >>> from klazy.sequences import RegressionCosts
    >>> RegressionCosts([[1.0, 2.0]], [1.0]).value(1, np.ones(2))
    2.0
    """

    def __init__(self, features: ArrayLike, outcomes: ArrayLike) -> None:
        self.features = rows(features, "features")
        self.T, self.dim = self.features.shape
        self.outcomes = vector(outcomes, "outcomes", self.T)

    def value(self, t: int, x: Array) -> float:
        return 0.5 * float(self.features[t - 1] @ x - self.outcomes[t - 1]) ** 2

    def subgradient(self, t: int, x: Array) -> Array:
        a = self.features[t - 1]
        return (a @ x - self.outcomes[t - 1]) * a

    def values(self, x: Array) -> Array:
        return 0.5 * (np.vecdot(self.features, x) - self.outcomes) ** 2

    def window(self, first: int, last: int) -> Self:
        return type(self)(self.features[first - 1 : last], self.outcomes[first - 1 : last])


class DelayCosts(Costs):
    r"""Servers that cost energy and loads that wait, :math:`f_t(x) = \sum_i e\, x_i + w\, \lambda_i\, x_i / (x_i - \lambda_i)`.

    The load :math:`\lambda_{t,i}` is in servers' worth of work; each unit of it waits :math:`x / (x - \lambda)`, as in a
    queue that is shared by all jobs. Where servers would be busy for more than 95 % of the time the delay goes on along its
    tangent, so that costs are finite. They have no kernel, and their optima are found by cutting planes.

    Parameters
    ----------
    loads : array_like
        Of shape (T, d), above zero.
    energy : float
        e, what a server costs for a round.
    delay : float
        w, what it costs that a unit of load waits for a round.

    Examples
    --------
    >>> from klazy.sequences import DelayCosts
    >>> DelayCosts([[2.0]]).value(1, np.array([4.0]))
    8.0
    """

    def __init__(self, loads: ArrayLike, energy: float = 1.0, delay: float = 1.0) -> None:
        self.loads = rows(loads, "loads")
        self.T, self.dim = self.loads.shape
        if self.loads.min() <= 0.0:
            raise InvalidInput(
                f"loads must be above 0, got {self.loads.min()}. Leave out idle coordinates."
            )
        self.energy = positive(energy, "energy")
        self.delay = positive(delay, "delay")

    def _parts(self, load: Array, x: Array) -> tuple[Array, Array]:
        """Cost and slope of each coordinate."""
        knee = load / BUSIEST
        free = np.maximum(x, knee) - load
        slope = -self.delay * load**2 / free**2
        value = self.delay * load * (free + load) / free + slope * np.minimum(x - knee, 0.0)
        return self.energy * x + value, self.energy + slope

    def value(self, t: int, x: Array) -> float:
        return float(self._parts(self.loads[t - 1], x)[0].sum())

    def subgradient(self, t: int, x: Array) -> Array:
        return self._parts(self.loads[t - 1], x)[1]

    def values(self, x: Array) -> Array:
        return self._parts(self.loads, x)[0].sum(axis=-1)

    def best_servers(self) -> Array:
        r"""Find the number of servers that is best for each round alone.

        Returns
        -------
        array
            :math:`\lambda (1 + \sqrt{w / e})`, or :math:`\lambda / 0.95` if that is more, of shape (T, d).
        """
        return self.loads * np.maximum(1.0 + np.sqrt(self.delay / self.energy), 1.0 / BUSIEST)

    def window(self, first: int, last: int) -> Self:
        return type(self)(self.loads[first - 1 : last], self.energy, self.delay)


def tracking(
    seed: Any,
    *,
    T: int = 500,
    dim: int = 2,
    step: float = 0.1,
    noise: float = 0.3,
    weight: float = 1.0,
) -> Scenario[QuadraticCosts]:
    """Follow a target that walks at random within the unit ball and is seen under noise, at a quadratic cost.

    Parameters
    ----------
    seed
        The seed of the random numbers.
    T, dim : int, optional
        Rounds and coordinates.
    step : float, optional
        Deviation of a step of the walk in each coordinate; what would leave the ball is brought back.
    noise : float, optional
        Deviation of the observations from the walk, in each coordinate.
    weight : float, optional
        The weight of the costs, as in :class:`~klazy.QuadraticCosts`.

    Returns
    -------
    Scenario
        Its comparator is the walk itself, without the noise.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from klazy.sequences import tracking
    >>> scenario = tracking(0, T=50)
    >>> best = offline_optimum(scenario.costs, scenario.domain, L2Movement(1.0))
    >>> round(best.cost, 2), best.gap <= 1e-4
    (4.69, True)
    """
    rng = seeded(seed)
    T, dim = _check_size(T, dim)
    domain = L2Ball(dim)
    walk = _walk(rng, domain, T, non_negative(step, "step"))
    seen = walk + non_negative(noise, "noise") * rng.normal(size=walk.shape)
    return Scenario("tracking", domain, QuadraticCosts(seen, positive(weight, "weight")), walk)


def drifting_regression(
    seed: Any, *, T: int = 200, dim: int = 3, drift: float = 0.05, noise: float = 0.1
) -> Scenario[RegressionCosts]:
    """Least squares whose true coefficients walk at random within the unit ball; features have unit norm.

    Parameters
    ----------
    seed
        The seed of the random numbers.
    T, dim : int, optional
        Rounds and coefficients.
    drift : float, optional
        Deviation of a step of the coefficients, of each of them.
    noise : float, optional
        Deviation of the outcomes.

    Returns
    -------
    Scenario
        With :class:`RegressionCosts`; its comparator is the true coefficients.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from klazy.sequences import drifting_regression
    >>> scenario = drifting_regression(0, T=10)
    >>> best = offline_optimum(scenario.costs, scenario.domain, L2Movement(0.1), gap=1e-3)
    >>> best.method, best.gap <= 1e-3
    ('cutting planes', True)
    """
    rng = seeded(seed)
    T, dim = _check_size(T, dim)
    domain = L2Ball(dim)
    true = _walk(rng, domain, T, non_negative(drift, "drift"))
    features = rng.normal(size=true.shape)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    outcomes = np.vecdot(features, true) + non_negative(noise, "noise") * rng.normal(size=T)
    return Scenario("drifting regression", domain, RegressionCosts(features, outcomes), true)


def data_centre(
    seed: Any,
    *,
    T: int = 168,
    centres: int = 1,
    servers: float = 100.0,
    peak: float = 30.0,
    energy: float = 1.0,
    delay: float = 1.0,
) -> Scenario[DelayCosts]:
    """Decide how many servers run in one data centre or several, for loads that rise and fall by day (24 rounds).

    Parameters
    ----------
    seed
        The seed of the random numbers.
    T, centres : int, optional
        Rounds and data centres, each with its own time of day.
    servers : float, optional
        How many there are in each centre.
    peak : float, optional
        The load at noon, in servers' worth of work, with noise of a tenth; at night it is a fifth of that.
    energy, delay : float, optional
        What a server and the waiting of a unit of load cost, as for :class:`DelayCosts`.

    Returns
    -------
    Scenario
        Its comparator is what would be best for each round alone.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from klazy.sequences import data_centre
    >>> scenario = data_centre(0, T=24)
    >>> best = offline_optimum(scenario.costs, scenario.domain, L1Movement(2.0), gap=1e-3)
    >>> best.method, best.gap <= 1e-3
    ('cutting planes', True)
    """
    rng = seeded(seed)
    T, d = _check_size(T, centres, "centres")
    most = positive(servers, "servers")
    peak = positive(peak, "peak")
    hour = np.arange(T)[:, None] + DAY * np.arange(d) / d
    shape = 0.6 + 0.4 * np.sin(2.0 * np.pi * hour / DAY)
    loads = peak * shape * np.exp(0.1 * rng.normal(size=(T, d)))
    costs = DelayCosts(loads, energy, delay)
    domain = Box(np.zeros(d), np.full(d, most))
    return Scenario("data centre", domain, costs, domain.nearest(costs.best_servers()))


def sea(
    seed: Any,
    *,
    T: int = 500,
    dim: int = 2,
    sigma: float = 0.5,
    jump: float = 1.0,
    every: int = 50,
) -> Scenario[QuadraticCosts]:
    r"""Costs between chance and adversary (stochastically extended adversary, Sachs et al. 2022).

    The round's cost is :math:`\tfrac12 \|x - c_t\|^2`; an adversary chooses the mean of :math:`c_t`, chance the rest. With
    ``jump=0`` costs are independent draws; with ``sigma=0`` they are the adversary's alone.

    Parameters
    ----------
    seed
        The seed of the random numbers.
    T, dim : int, optional
        Rounds and coordinates.
    sigma : float, optional
        Deviation of :math:`c_t` from its mean, in each coordinate.
    jump : float, optional
        How far the mean moves, there and back along a random line through the unit ball's centre; at most 2.
    every : int, optional
        Rounds between two jumps.

    Returns
    -------
    Scenario
        Its comparator is the mean.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from klazy.sequences import sea
    >>> scenario = sea(0, T=100, sigma=0.0)
    >>> float(scenario.costs.values(scenario.comparator).sum())
    0.0
    """
    rng = seeded(seed)
    T, dim = _check_size(T, dim)
    far = non_negative(jump, "jump")
    if far > 2.0:
        raise InvalidInput(f"jump must be at most 2, the width of the ball, got {jump}.")
    every = min(T, integer(every, "every"))
    line = rng.normal(size=dim)
    line /= np.linalg.norm(line)
    mean = far * 0.5 * alternate(every, T) * line
    drawn = mean + non_negative(sigma, "sigma") * rng.normal(size=(T, dim))
    return Scenario("sea", L2Ball(dim), QuadraticCosts(drawn), mean)


def _check_size(T: Any, dim: Any, name: str = "dim") -> tuple[int, int]:
    rounds = size(T, "T")
    return rounds, size(dim, name)


def _walk(rng: np.random.Generator, domain: ConvexSet, T: int, step: float) -> Array:
    """Draw a random walk that is brought back into the set, from its start."""
    at = domain.start
    path = np.empty((T, domain.dim))
    for t, move in enumerate(step * rng.normal(size=(T, domain.dim))):
        at = domain.nearest(at + move)
        path[t] = at
    return path
