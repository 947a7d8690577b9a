"""The paper's experiments as data, how they are played, and how they are measured.

There are two presets: ``paper``, as printed, and ``authors``, as the published curves were made. ``authors`` differs in what it
measures and in settings: sigma_{t+1} in place of sigma_t, points rounded to five decimals before they are measured, learners
that start at the origin, and what the functions below say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, one_of
from klazy.costs import Costs, LinearCosts
from klazy.game.run import run
from klazy.game.trace import Trace
from klazy.learners import GD, KLazyGD, LazyGD, Learner, SAder
from klazy.learners.presets import meta_rate
from klazy.schedules import Sqrt
from klazy.sequences import Scenario, alternating, corrupted, rotating, stochastic
from klazy.sets import L1Ball
from klazy.studies.paper.section import REPORT_TEXT
from klazy.theory import certify, certify_experts

#: The settings as printed, and those with which the published curves were made.
PRESETS = ("paper", "authors")
# Learning rates of the ensembles' experts, times sqrt(T), and the slacks of the published code on both sequences.
EXPERT_STEPS = (1.0, 2.0, 4.0, 8.0, 16.0)
AUTHORS_SLACKS = [500, 250, 125, 60, 30]
PRINTED_SLACKS = {"stochastic": (65, 150, 300, 1500), "corrupted": (50, 150, 500, 1500)}
# Decimals of the points that ``rounded`` experiments measure.
DECIMALS = 5
# Rounds times experts up to which compiling a kernel takes longer than playing by steps.
FEW_ROUNDS = 3000
# How many times shorter the phases of a quick look are.
QUICKER = 10


class PaperSettings(NamedTuple):
    """The settings of a reproduction.

    Parameters
    ----------
    preset : str, optional
        ``"paper"``, the settings as printed, or ``"authors"``, those of the published curves. Default: ``"paper"``.
    seed : int, optional
        The seed of random sequences. Default: 42.
    seeds : int, optional
        How many sequences the seeds extra draws. Default: 20.
    quick : bool, optional
        Shorten phases, for a quick look. Default: False.

    Examples
    --------
    >>> PaperSettings(quick=True).shorter
    10
    """

    preset: str = "paper"
    seed: int = 42
    seeds: int = 20
    quick: bool = False

    @property
    def shorter(self) -> int:
        """The number that phases are divided by: 10 for a quick look, else 1."""
        return QUICKER if self.quick else 1


@dataclass(frozen=True, eq=False)
class Experiment:
    """An experiment of the paper: a scenario, and the learners that play it.

    Parameters
    ----------
    name : str
        Its short name, as in :data:`EXPERIMENTS`.
    title : str
        Its title.
    about : str
        What it shows.
    scenario : Scenario
        The set, the costs and the comparator.
    learners : dict of str to Learner
        The learners, by label.
    rounded : bool, optional
        Measure rounded points that come from the origin, as the published curves do. Default: False.

    Examples
    --------
    >>> make_experiment("example-ii").scenario
    Scenario('alternating', L2Ball(dim=2), T=101)
    """

    name: str
    title: str
    about: str
    scenario: Scenario
    learners: Mapping[str, Learner[Any]]
    rounded: bool = False


MakeLearners = Callable[[Scenario, bool], Mapping[str, Learner[Any]]]


class Definition(NamedTuple):
    """How to make an experiment: ``scenario(authors, seed, shorter)``, and its learners, ``learners(scenario, authors)``."""

    scenario: Callable[[bool, Any, int], Scenario]
    learners: MakeLearners


def make_experiment(
    name: str, preset: str = "paper", *, seed: Any = 42, shorter: int = 1,
    sequence: str | None = None, parameters: str | None = None, measurement: str | None = None,
) -> Experiment:  # fmt: skip
    """Make one of the paper's experiments.

    Its sequence (with the comparator), the learners' parameters or the way of measuring may be those of the other preset.

    Parameters
    ----------
    name : str
        Which of :data:`EXPERIMENTS`.
    preset : str, optional
        ``"paper"``, the settings as printed, or ``"authors"``, those of the published curves. Default: ``"paper"``.
    seed : int, optional
        The seed of a random sequence. Default: 42.
    shorter : int, optional
        Divide the length of phases by this, for a quick look. Default: 1.
    sequence : str, optional
        The preset of the sequence. Default: ``preset``.
    parameters : str, optional
        The preset of the learners' parameters. Default: ``preset``.
    measurement : str, optional
        The preset of the way of measuring. Default: ``preset``.

    Returns
    -------
    Experiment
        The experiment, ready for :func:`play_experiment`.

    Raises
    ------
    ValueError
        If the name or the preset is unknown.

    Examples
    --------
    >>> from klazy.studies.paper import make_experiment
    >>> list(make_experiment("example-i").learners)
    ['GD', 'LazyGD', 'k=5']
    """
    one_of(preset, "preset", PRESETS)
    recipe = EXPERIMENTS[one_of(name, "name", tuple(EXPERIMENTS))]
    scenario = recipe.scenario((sequence or preset) == "authors", seed, shorter)
    learners = recipe.learners(scenario, (parameters or preset) == "authors")
    rounded = (measurement or preset) == "authors"
    words = REPORT_TEXT["experiments"][name]
    return Experiment(name, words["title"], words["about"], scenario, learners, rounded)


def _make_stochastic(authors: bool, seed: Any, shorter: int) -> Scenario:
    """Draw the stochastic sequence; ``authors``: from one legacy generator, seeded once, phase after phase."""
    length = 4000 // shorter
    scenario = stochastic(seed, length=length)
    if not authors:
        return scenario
    rng = np.random.RandomState(seed)
    g = np.concatenate([rng.normal((-1.0) ** i, np.sqrt(10.0), (length, 5)) for i in range(15)])
    return replace(scenario, costs=LinearCosts(g / np.linalg.norm(g, axis=1, keepdims=True)))


def _make_corrupted(
    authors: bool, seed: Any, shorter: int, authors_length: int = 2000
) -> Scenario:
    """Make the corrupted sequence; ``authors``: against minus the majority sign of the 21 rounds around, ties positive."""
    length = authors_length if authors else 2000
    scenario = corrupted(length=length // shorter)
    if not authors:
        return scenario
    signs = np.sign(scenario.costs.arrays()[0][:, 0])
    majority = np.where(np.convolve(signs, np.ones(21), mode="same") >= 0.0, 1.0, -1.0)
    return replace(scenario, comparator=np.repeat(-majority[:, None] / 5.0, 5, axis=1))


def _make_worst_case(authors: bool, seed: Any, shorter: int) -> Scenario:
    """Make pure phases; ``authors``: of 600 rounds."""
    length = 600 if authors else 300
    sign = np.repeat([1.0, -1.0, 1.0, -1.0, 1.0], length // shorter)[:, None] * np.ones(5)
    return Scenario("worst case", L1Ball(5), LinearCosts(sign / np.sqrt(5.0)), -sign / 5.0)


def _plan_descents(
    c: float, slacks: Sequence[int] = (), authors_c: float | None = None
) -> MakeLearners:
    """Plan GD, LazyGD and k-lazyGD at sigma = sqrt(t / c); ``authors``: at sqrt((t + 1) / authors_c)."""

    def make(scenario: Scenario, authors: bool) -> dict[str, Learner[Any]]:
        domain = scenario.domain
        sigma = Sqrt(authors_c or c, 1) if authors else Sqrt(c)
        lazy = {f"k={k}": KLazyGD(domain, sigma, k=k) for k in slacks}
        return {"GD": GD(domain, sigma), "LazyGD": LazyGD(domain, sigma), **lazy}

    return make


def _make_ensembles(scenario: Scenario, authors: bool) -> dict[str, Learner[Any]]:
    """Make five constant steps, k = floor(5 sigma / 2), the stated prior and the lemma's rate.

    ``authors``: their own slacks, equal priors, and a rate ten times the lemma's.
    """
    domain = scenario.domain
    T = scenario.costs.T
    sigmas = [float(np.sqrt(T)) / step for step in EXPERT_STEPS]
    slacks = [max(1, int(5.0 * sigma / 2.0)) for sigma in sigmas]
    beta = meta_rate("lemma", T, 1.0, 1.0)
    prior = "harmonic"
    if authors:
        slacks = AUTHORS_SLACKS
        beta = meta_rate("authors", T, 1.0, 1.0)
        prior = "uniform"
    greedy = [GD(domain, sigma) for sigma in sigmas]
    lazy = [KLazyGD(domain, sigma, k=k) for sigma, k in zip(sigmas, slacks, strict=True)]
    return {"SAder": SAder(greedy, beta, prior), "SAder-k": SAder(lazy, beta, prior)}


#: The paper's experiments, by name.
EXPERIMENTS: dict[str, Definition] = {
    "example-i": Definition(lambda *_: rotating(), _plan_descents(1.0, [5])),
    "example-ii": Definition(lambda *_: alternating(), _plan_descents(1.0)),
    "stochastic": Definition(
        _make_stochastic, _plan_descents(60.0, PRINTED_SLACKS["stochastic"])
    ),
    "corrupted": Definition(_make_corrupted, _plan_descents(16.0, PRINTED_SLACKS["corrupted"])),
    "worst-case": Definition(_make_worst_case, _plan_descents(8.0, [19], authors_c=10.0)),
    "ensemble-stochastic": Definition(_make_stochastic, _make_ensembles),
    "ensemble-corrupted": Definition(
        partial(_make_corrupted, authors_length=4000), _make_ensembles
    ),
}


class Paid(NamedTuple):
    """The cost of each round, in its two parts.

    Parameters
    ----------
    hitting : array
        What the rounds charged, of shape (T,).
    switching : array
        What moving charged, of shape (T,).
    """

    hitting: Array
    switching: Array


@dataclass(frozen=True, eq=False)
class Outcome:
    """An experiment that was played, made by :func:`play_experiment`.

    Parameters
    ----------
    experiment : Experiment
        What was played.
    comparator : Paid
        What the comparator paid.
    learners : dict of str to Paid
        What each learner paid, by label.
    """

    experiment: Experiment
    comparator: Paid
    learners: dict[str, Paid]

    def tabulate(self) -> list[dict[str, Any]]:
        """Make one row per learner: its totals, and what it is measured against.

        Returns
        -------
        list of dict
            The rows.
        """
        about = {"experiment": self.experiment.name, "T": self.experiment.scenario.costs.T}
        theirs = {f"comparator_{name}": total for name, total in _sum_up(self.comparator).items()}
        return [
            {**about, "learner": label, **row, **theirs} for label, row in self.sum_up().items()
        ]

    def sum_up(self) -> dict[str, dict[str, float]]:
        """Add up what each learner paid.

        Returns
        -------
        dict of str to dict
            By label: switching, hitting, dynamic regret, total regret.
        """
        u = _sum_up(self.comparator)
        rows = {}
        for label, paid in self.learners.items():
            row = _sum_up(paid)
            dynamic = row["hitting"] - u["hitting"]
            total = dynamic + row["switching"] - u["switching"]
            rows[label] = row | {"dynamic_regret": dynamic, "total_regret": total}
        return rows


def _sum_up(paid: Paid) -> dict[str, float]:
    return {"switching": float(paid.switching.sum()), "hitting": float(paid.hitting.sum())}


def play_experiment(experiment: Experiment) -> Outcome:
    """Run every learner of an experiment.

    Parameters
    ----------
    experiment : Experiment
        What to play.

    Returns
    -------
    Outcome
        What everyone paid.
    """
    g = experiment.scenario.costs.arrays()[0]
    u = np.asarray(experiment.scenario.comparator)
    points = {
        label: _play_learner(learner, experiment)
        for label, learner in experiment.learners.items()
    }
    if not experiment.rounded:
        exact = {label: _charge(g, x, x[:1]) for label, x in points.items()}
        return Outcome(experiment, _charge(g, u, u[:1]), exact)
    rounded = np.round(u, DECIMALS)
    # The published code moves the comparator from the unrounded point before.
    moved = np.linalg.norm(rounded - np.vstack((np.zeros_like(u[:1]), u[:-1])), axis=1)
    paid = {label: _charge(g, x, 0.0) for label, x in points.items()}
    return Outcome(experiment, Paid(np.vecdot(g, rounded), moved), paid)


def run_experiment(learner: Learner[Any], costs: Costs, record: str = "actions") -> Trace:
    """Run a learner of an experiment, without a kernel where it plays few rounds."""
    players = len(learner.experts) if isinstance(learner, SAder) else 1
    engine = "step" if costs.T * players <= FEW_ROUNDS else "auto"
    return run(learner, costs, record=record, engine=engine)


def certify_outcome(outcome: Outcome) -> dict[str, float]:
    """Bound what each learner's total regret may be, from its exact run, before any rounding of a measurement.

    Parameters
    ----------
    outcome : Outcome
        An experiment that was played.

    Returns
    -------
    dict of str to float
        By label: for one learner the realised certificate, for an ensemble the least of what Theorem 8, live, allows beyond an
        expert.
    """
    scenario = outcome.experiment.scenario
    bounds = {}
    u = scenario.comparator
    moved = float(outcome.comparator.switching.sum())
    for label, learner in outcome.experiment.learners.items():
        if isinstance(learner, SAder):
            found = certify_experts(run_experiment(learner, scenario.costs, record="experts"))
            regret = float((found.experts + found.bound).min() - scenario.costs.values(u).sum())
        else:
            regret = float(certify(run_experiment(learner, scenario.costs), u).realised[-1])
        bounds[label] = regret - moved
    return bounds


def _charge(g: Array, x: Array, before: Array | float) -> Paid:
    """Return what x pays, coming from ``before``."""
    return Paid(np.vecdot(g, x), np.linalg.norm(np.diff(x, axis=0, prepend=before), axis=1))


def _play_learner(learner: Learner[Any], experiment: Experiment) -> Array:
    """Return a learner's points, as its preset measures them."""
    if experiment.rounded and isinstance(learner, SAder):
        return _average_rounded(learner, experiment)
    x = run_experiment(learner, experiment.scenario.costs).x
    return np.round(x, DECIMALS) if experiment.rounded else x


def _average_rounded(learner: SAder, experiment: Experiment) -> Array:
    """Play a published ensemble: experts' points are rounded before they are charged and averaged; the average is not.

    Linear costs have one gradient, so that the experts play as if they were alone, and <g, x_t> is the same for all.
    """
    costs = experiment.scenario.costs
    points = np.stack(
        [np.round(run_experiment(expert, costs).x, DECIMALS) for expert in learner.experts]
    )
    moved = np.linalg.norm(np.diff(points, axis=1, prepend=0.0), axis=2)
    losses = np.cumsum(np.vecdot(points, costs.arrays()[0]) + moved, axis=1)
    before = np.concatenate((np.zeros((len(points), 1)), losses[:, :-1]), axis=1)
    scores = np.asarray(learner.log_prior)[:, None] - float(learner.beta) * before
    w = np.exp(scores - scores.max(axis=0))
    return np.einsum("it,itd->td", w / w.sum(axis=0), points)
