"""The sections of the paper's experiments: the three figures of each, its table, and what it comes to in words."""

from typing import Any

import numpy as np

from klazy import plots
from klazy.environments import Scenario, alternating, rotating
from klazy.experiments.definitions import Settings, experiment
from klazy.experiments.measure import Outcome, certified, play
from klazy.experiments.section import Row, Section
from klazy.learners import GD, LazyGD
from klazy.play import run
from klazy.theory.geometry import outline

RESULTS = "results"  # the table of every experiment


def paper_section(name: str, settings: Settings) -> Section:
    """One of the paper's experiments, in the preset of the settings."""
    outcome = play(experiment(name, settings.preset, seed=settings.seed, shorter=settings.shorter))
    bounds = certified(outcome)
    rows = [{"preset": settings.preset, **row, "certified_bound": bounds[row["learner"]]} for row in outcome.rows()]
    figures = _running(outcome) | (SNAPSHOTS[name]() if name in SNAPSHOTS else {})
    text = [outcome.experiment.about, _in_words(rows), _settings_in_words(outcome)]
    return Section(outcome.experiment.title, text, {RESULTS: rows}, figures)


def _running(outcome: Outcome) -> dict[str, Any]:
    hit, moved = (np.cumsum(paid) for paid in outcome.comparator)
    switching = {label: np.cumsum(paid.switching) for label, paid in outcome.learners.items()}
    dynamic = {label: np.cumsum(paid.hitting) - hit for label, paid in outcome.learners.items()}
    total = {label: dynamic[label] + switching[label] - moved for label in dynamic}
    return {
        "switching": (plots.curves(switching, "switching cost", moved), "Switching cost so far."),
        "dynamic-regret": (plots.curves(dynamic, "dynamic regret"), "Dynamic regret so far."),
        "total-regret": (plots.curves(total, "total regret"), "Total regret so far: dynamic regret and net movement."),
    }


def _in_words(rows: list[Row]) -> str:
    """The winner, and how far it is from greedy."""
    total = {row["learner"]: row["total_regret"] for row in rows}
    best, first = min(total, key=total.__getitem__), next(iter(total))
    said = f"Least total regret: {best} with {total[best]:.6g}"
    if best != first:
        said += f", {100.0 * (1.0 - total[best] / total[first]):.1f} % less than {first}'s {total[first]:.6g}"
    worse = [f"{label} ({total[label]:.6g})" for label in total if total[label] > total[first]]
    said += f". Worse than {first}: {', '.join(worse)}." if worse else f". None is worse than {first}."
    least, moved = min(rows, key=lambda row: row["switching"]), rows[0]["comparator_switching"]
    return f"{said} {least['learner']} moves least, {least['switching']:.6g}; the comparator moves {moved:.6g}."


def _settings_in_words(outcome: Outcome) -> str:
    """The learners as they can be written again."""
    scenario = outcome.experiment.scenario
    learners = "; ".join(f"{label}: {learner!r}" for label, learner in outcome.experiment.learners.items())
    measured = "on points rounded to five decimals, from the origin" if outcome.experiment.rounded else "exactly"
    return f"{scenario!r}, movement weight 1, measured {measured}. {learners}."


def _example_i() -> dict[str, Any]:
    """The last four rounds: the costs rotate, and greedy descent with them."""
    scenario = rotating()
    return _actions(scenario, 10.0, slice(97, 101))


def _example_ii() -> dict[str, Any]:
    """Two rounds: the costs alternate."""
    scenario = alternating()
    return _actions(scenario, float(np.sqrt(scenario.costs.T)), slice(88, 90))


def _actions(scenario: Scenario, sigma: float, rounds: slice) -> dict[str, Any]:
    learners = {"GD": GD(scenario.domain, sigma), "LazyGD": LazyGD(scenario.domain, sigma)}
    points = {label: run(learner, scenario.costs).x[rounds] for label, learner in learners.items()}
    caption = f"Actions in rounds {rounds.start + 1} to {rounds.stop}, constant sigma = {sigma:.4g}."
    return {"actions": (plots.snapshots(outline(scenario.domain), points), caption)}


SNAPSHOTS = {"example-i": _example_i, "example-ii": _example_ii}
