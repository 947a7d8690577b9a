"""The paper's experiments as data, in two presets: ``paper``, as printed, and ``authors``, as the published curves were made.

``authors`` differs in what it measures and in settings: sigma_{t+1} in place of sigma_t, points rounded to five decimals before
they are measured, everyone starting at the origin, and the particulars beside each experiment below.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from klazy.arrays import one_of
from klazy.costs import LinearCosts
from klazy.environments import Scenario, alternating, corrupted, rotating, stochastic
from klazy.learners import GD, KLazyGD, LazyGD, Learner, SAder, meta_rate
from klazy.schedules import Schedule, Sqrt
from klazy.sets import ConvexSet, L1Ball

PRESETS = ("paper", "authors")
STEPS = (1.0, 2.0, 4.0, 8.0, 16.0)  # of the ensembles' experts, over sqrt(T)
AUTHORS_SLACKS = (500, 250, 125, 60, 30)  # theirs, on both sequences


@dataclass(frozen=True, eq=False)
class Experiment:
    """A scenario and the learners that play it, by label; ``rounded`` measures rounded points that come from the origin."""

    name: str
    title: str
    scenario: Scenario
    learners: Mapping[str, Learner[Any]]
    rounded: bool = False


def experiment(name: str, preset: str = "paper", *, seed: Any = 42, shorter: int = 1) -> Experiment:
    """One of :data:`EXPERIMENTS`; phases are ``shorter`` times shorter, for a quick look."""
    one_of(preset, "preset", "experiment", PRESETS)
    return EXPERIMENTS[one_of(name, "name", "experiment", tuple(EXPERIMENTS))](preset == "authors", seed, shorter)


def _descents(domain: ConvexSet, sigma: Schedule, slacks: tuple[int, ...], lazy: bool = True) -> dict[str, Learner[Any]]:
    learners: dict[str, Learner[Any]] = {"GD": GD(domain, sigma)}
    if lazy:
        learners["LazyGD"] = LazyGD(domain, sigma)
    return learners | {f"k={k}": KLazyGD(domain, sigma, k) for k in slacks}


def _example_i(authors: bool, seed: Any, shorter: int) -> Experiment:
    scenario = rotating()
    learners = _descents(scenario.domain, Sqrt(1.0, int(authors)), (5,))
    return Experiment("example-i", "Example (i): staleness on the l1 ball", scenario, learners, authors)


def _example_ii(authors: bool, seed: Any, shorter: int) -> Experiment:
    scenario = alternating()
    learners = _descents(scenario.domain, Sqrt(1.0, int(authors)), ())
    return Experiment("example-ii", "Example (ii): stability on the l2 ball", scenario, learners, authors)


def _stochastic_costs(authors: bool, seed: Any, shorter: int) -> Scenario:
    """``authors``: one legacy generator, seeded once, phase after phase."""
    scenario = stochastic(seed, length=4000 // shorter)
    if not authors:
        return scenario
    rng, sign = np.random.RandomState(42 if seed is None else seed), -np.sqrt(5.0) * scenario.comparator
    phases = [rng.normal(1.0 if i % 2 == 0 else -1.0, np.sqrt(10.0), (4000 // shorter, 5)) for i in range(15)]
    g = np.concatenate(phases)
    return Scenario("stochastic", scenario.domain, LinearCosts(g / np.linalg.norm(g, axis=1, keepdims=True)), -sign / 5**0.5)


def _stochastic(authors: bool, seed: Any, shorter: int) -> Experiment:
    scenario = _stochastic_costs(authors, seed, shorter)
    learners = _descents(scenario.domain, Sqrt(60.0, int(authors)), (65, 150, 300, 1500))
    return Experiment("stochastic", "Shifting stochastic costs on the l2 ball", scenario, learners, authors)


def _corrupted_costs(authors: bool, length: int) -> Scenario:
    """``authors``: the comparator is minus the majority sign of the 21 rounds around, ties positive."""
    scenario = corrupted(length=length)
    if not authors:
        return scenario
    signs = np.sign(scenario.costs.arrays()[0][:, 0])
    majority = np.where(np.convolve(signs, np.ones(21), mode="same") >= 0.0, 1.0, -1.0)
    return Scenario("corrupted", scenario.domain, scenario.costs, np.repeat(-majority[:, None] / 5.0, 5, axis=1))


def _corrupted(authors: bool, seed: Any, shorter: int) -> Experiment:
    scenario = _corrupted_costs(authors, 2000 // shorter)
    learners = _descents(scenario.domain, Sqrt(16.0, int(authors)), (50, 150, 500, 1500))
    return Experiment("corrupted", "Corrupted costs on the l1 ball", scenario, learners, authors)


def _worst_case(authors: bool, seed: Any, shorter: int) -> Experiment:
    """``authors``: phases of 600 and sqrt(t / 10)."""
    sign = np.repeat([1.0, -1.0, 1.0, -1.0, 1.0], (600 if authors else 300) // shorter)[:, None] * np.ones(5)
    scenario = Scenario("worst case", L1Ball(5), LinearCosts(sign / np.sqrt(5.0)), -sign / 5.0)
    learners = _descents(scenario.domain, Sqrt(10.0, 1) if authors else Sqrt(8.0), (19,))
    return Experiment("worst-case", "Pure phases on the l1 ball, where laziness loses", scenario, learners, authors)


def _ensembles(scenario: Scenario, authors: bool) -> dict[str, Learner[Any]]:
    """Five constant steps, k = floor(5 sigma / 2) or the authors' own, uniform priors, the rate of the published figures."""
    domain, T = scenario.domain, scenario.costs.T
    sigmas = [float(np.sqrt(T)) / step for step in STEPS]
    slacks = AUTHORS_SLACKS if authors else [max(1, int(5.0 * sigma / 2.0)) for sigma in sigmas]
    beta = meta_rate("authors", T, 1.0, 1.0)
    lazy = [KLazyGD(domain, sigma, k) for sigma, k in zip(sigmas, slacks, strict=True)]
    return {
        "SAder": SAder([GD(domain, sigma) for sigma in sigmas], beta, "uniform"),
        "SAder-k": SAder(lazy, beta, "uniform"),
    }


def _ensemble_stochastic(authors: bool, seed: Any, shorter: int) -> Experiment:
    scenario = _stochastic_costs(authors, seed, shorter)
    title = "Ensembles on shifting stochastic costs"
    return Experiment("ensemble-stochastic", title, scenario, _ensembles(scenario, authors), authors)


def _ensemble_corrupted(authors: bool, seed: Any, shorter: int) -> Experiment:
    """``authors``: phases of 4000."""
    scenario = _corrupted_costs(authors, (4000 if authors else 2000) // shorter)
    title = "Ensembles on corrupted costs"
    return Experiment("ensemble-corrupted", title, scenario, _ensembles(scenario, authors), authors)


EXPERIMENTS: dict[str, Callable[[bool, Any, int], Experiment]] = {
    "example-i": _example_i,
    "example-ii": _example_ii,
    "stochastic": _stochastic,
    "corrupted": _corrupted,
    "worst-case": _worst_case,
    "ensemble-stochastic": _ensemble_stochastic,
    "ensemble-corrupted": _ensemble_corrupted,
}
