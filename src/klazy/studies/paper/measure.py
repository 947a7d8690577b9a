"""Play experiments and measure what their learners paid, as the preset says."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.costs import Costs
from klazy.game.run import run
from klazy.game.trace import Trace
from klazy.learners import Learner, SAder
from klazy.studies.paper.definitions import Experiment
from klazy.theory import certify, certify_experts

# Decimals of the points that ``rounded`` experiments measure.
DECIMALS = 5
# Rounds times experts up to which compiling a kernel takes longer than playing by steps.
SHORT = 3000


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
        theirs = {
            "comparator_switching": float(self.comparator.switching.sum()),
            "comparator_hitting": float(self.comparator.hitting.sum()),
        }
        return [{**about, "learner": label, **row, **theirs} for label, row in self.sum_up().items()]

    def sum_up(self) -> dict[str, dict[str, float]]:
        """Add up what each learner paid.

        Returns
        -------
        dict of str to dict
            By label: switching, hitting, dynamic regret, total regret.
        """
        u = float(self.comparator.hitting.sum())
        moved = float(self.comparator.switching.sum())
        rows = {}
        for label, paid in self.learners.items():
            hitting = float(paid.hitting.sum())
            switching = float(paid.switching.sum())
            regret = {"dynamic_regret": hitting - u, "total_regret": hitting - u + switching - moved}
            rows[label] = {"switching": switching, "hitting": hitting, **regret}
        return rows


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
    points = {label: _play_learner(learner, experiment) for label, learner in experiment.learners.items()}
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
    engine = "step" if costs.T * players <= SHORT else "auto"
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
    points = np.stack([np.round(run_experiment(expert, costs).x, DECIMALS) for expert in learner.experts])
    moved = np.linalg.norm(np.diff(points, axis=1, prepend=0.0), axis=2)
    losses = np.cumsum(np.vecdot(points, costs.arrays()[0]) + moved, axis=1)
    before = np.concatenate((np.zeros((len(points), 1)), losses[:, :-1]), axis=1)
    scores = np.asarray(learner.log_prior)[:, None] - float(learner.beta) * before
    w = np.exp(scores - scores.max(axis=0))
    return np.einsum("it,itd->td", w / w.sum(axis=0), points)
