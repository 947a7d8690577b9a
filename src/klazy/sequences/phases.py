"""Sequences in phases of alternating sign: the paper's stochastic and corrupted experiments, with aligned or random phases."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from klazy.base.checks import Array, InvalidInput, seeded, size
from klazy.costs import Costs, LinearCosts
from klazy.sets import ConvexSet, L1Ball, L2Ball

C = TypeVar("C", bound=Costs, covariant=True)


@dataclass(frozen=True, eq=False)
class Scenario(Generic[C]):
    """A set to play on, the costs, and the comparator to measure against.

    Parameters
    ----------
    name : str
        Its title.
    domain : ConvexSet
        Where decisions live.
    costs : Costs
        What rounds cost.
    comparator : array
        The comparator u of the paper, of shape (T, d).

    Examples
    --------
    >>> from klazy.sequences import phases_of_length
    >>> scenario = phases_of_length(5, T=20)
    >>> regret(run(GD(scenario.domain, 2.0), scenario.costs, engine="step"), scenario.comparator).dynamic
    16.5
    """

    name: str
    domain: ConvexSet
    costs: C
    comparator: Array

    def __repr__(self) -> str:
        return f"Scenario({self.name!r}, {self.domain!r}, T={self.costs.T})"


def stochastic(
    seed: Any, *, phases: int = 15, length: int = 4000, dim: int = 5, random_phases: bool = False
) -> Scenario[LinearCosts]:
    """Make the paper's stochastic experiment: noisy gradients whose mean changes sign by phase, on the l2 ball.

    Gradients have mean +1 or -1, normal noise of variance 10 per coordinate, and are scaled to unit norm.

    Parameters
    ----------
    seed : int or Generator
        A seed for ``numpy.random.default_rng``.
    phases : int, optional
        The number of phases. Default: 15.
    length : int, optional
        The rounds of a phase. Default: 4000.
    dim : int, optional
        The number of coordinates. Default: 5.
    random_phases : bool, optional
        Draw the phases' lengths, between half and one and a half times ``length``, for as many rounds. Default: False.

    Returns
    -------
    Scenario
        The set, the costs and the comparator.

    Examples
    --------
    >>> stochastic(0)
    Scenario('stochastic', L2Ball(dim=5), T=60000)
    """
    rng = seeded(seed)
    dim = size(dim, "dim")
    sign = np.concatenate(_make_signs(phases, length, rng if random_phases else None))[:, None]
    g = sign + rng.normal(scale=np.sqrt(10.0), size=(len(sign), dim))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    u = np.broadcast_to(-sign / np.sqrt(dim), g.shape)
    return Scenario("stochastic", L2Ball(dim), LinearCosts(g), u)


def corrupted(
    seed: Any = None,
    *,
    phases: int = 10,
    length: int = 2000,
    dim: int = 5,
    random_phases: bool = False,
) -> Scenario[LinearCosts]:
    """Make the paper's corrupted experiment: of every 110 rounds the last 10 have the sign of the other phase, on the l1 ball.

    Parameters
    ----------
    seed : int or Generator, optional
        A seed for ``numpy.random.default_rng``; only random phases need one.
    phases : int, optional
        The number of phases. Default: 10.
    length : int, optional
        The rounds of a phase. Default: 2000.
    dim : int, optional
        The number of coordinates. Default: 5.
    random_phases : bool, optional
        Draw the phases' lengths, between half and one and a half times ``length``, for as many rounds. Default: False.

    Returns
    -------
    Scenario
        The set, the costs and the comparator.

    Raises
    ------
    ValueError
        If random phases have no seed.

    Examples
    --------
    >>> corrupted().costs.value(101, np.ones(5)) < 0 < corrupted().costs.value(100, np.ones(5))
    True
    """
    if random_phases and seed is None:
        raise InvalidInput("random_phases=True needs a seed. Use seed=0.")
    dim = size(dim, "dim")
    majority = _make_signs(phases, length, seeded(seed) if random_phases else None)
    seen = []
    for sign in majority:
        burst = np.where(np.arange(110) < 100, sign[0], -sign[0])
        seen.append(np.resize(burst, len(sign)))
    g = np.repeat(np.concatenate(seen)[:, None] / np.sqrt(dim), dim, axis=1)
    u = np.broadcast_to(-np.concatenate(majority)[:, None] / dim, g.shape)
    return Scenario("corrupted", L1Ball(dim), LinearCosts(g), u)


def alternate(length: int, T: int) -> Array:
    """Return the signs of phases of this length, +1 and -1 by turns, of shape (T, 1)."""
    return np.where(np.arange(T) // length % 2 == 0, 1.0, -1.0)[:, None]


def _make_signs(phases: Any, length: Any, rng: Any) -> list[Array]:
    """Return the sign of every phase in each of its rounds, +1 and -1 by turns.

    With a generator phases have from half to one and a half times their length, and as many rounds together.
    """
    phases = size(phases, "phases")
    length = size(length, "length")
    left = size(phases * length, "phases * length")
    lengths = []
    while left > 0:
        drawn = length
        if rng is not None:
            drawn = int(rng.integers(-(-length // 2), length + length // 2 + 1))
        lengths.append(min(drawn, left))
        left -= lengths[-1]
    return [np.full(n, (-1.0) ** i) for i, n in enumerate(lengths)]
