"""The sections of the paper's experiments: the three figures of each, its table, and what it comes to in words."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.learners import GD, LazyGD
from klazy.sequences import Scenario, alternating, rotating
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.measure import (
    Hindsight,
    Outcome,
    certify_outcome,
    find_hindsight,
    play_experiment,
    run_experiment,
)
from klazy.studies.paper.section import Row, Section, describe_gap
from klazy.theory.geometry import outline

RESULTS = "results"  # the table of every experiment
FAR = 3.0  # times the first learner's regret, above which a curve is left out of the near view
# the rounds whose actions the paper shows
ROTATION = slice(97, 101)
ALTERNATION = slice(88, 90)


def report_experiment(name: str, settings: Settings) -> Section:
    """One of the paper's experiments, in the preset of the settings."""
    made = make_experiment(name, settings.preset, seed=settings.seed, shorter=settings.shorter)
    outcome = play_experiment(made)
    best = find_hindsight(outcome.experiment)
    rows = [{"preset": settings.preset, **row} for row in _add_hindsight(outcome, best)]
    figures = _draw_running(outcome)
    if name in SNAPSHOTS:
        figures = _draw_hitting(outcome) | figures | SNAPSHOTS[name]()
    text = [outcome.experiment.about, _describe_results(rows), _describe_hindsight(rows)]
    return Section(outcome.experiment.title, text, {RESULTS: rows}, figures, _describe_settings(outcome))


def _add_hindsight(outcome: Outcome, best: Hindsight) -> list[Row]:
    """The rows with each learner's certified bound, and how much of the way from the first learner to the optimum it goes."""
    bounds = certify_outcome(outcome)
    rows = outcome.tabulate()
    optimum = best.optimum
    first = rows[0]["hitting"] + rows[0]["switching"]
    fixed, moved = _charge_fixed(best, outcome.experiment.rounded)
    shared = {
        "optimum": optimum.cost, "optimum_hitting": optimum.hitting, "optimum_lower_bound": optimum.lower_bound,
        "optimum_gap": optimum.gap, "best_fixed": fixed, "best_fixed_switching": moved,
    }  # fmt: skip
    for row in rows:
        row["certified_bound"] = bounds[row["learner"]]
        row["distance_closed"] = (first - (row["hitting"] + row["switching"])) / (first - optimum.cost)
    return [row | shared for row in rows]


def _charge_fixed(best: Hindsight, from_origin: bool) -> tuple[float, float]:
    """What the best fixed point pays for hitting, and for getting there if all start at the origin, where costs are zero."""
    moved = float(np.linalg.norm(best.fixed.x)) if from_origin else 0.0
    if best.fixed.cost + moved >= 0.0:
        return 0.0, 0.0
    return best.fixed.cost, moved


def _describe_hindsight(rows: list[Row]) -> str:
    row = rows[0]
    first = rows[0]["learner"]
    paid = row["hitting"] + row["switching"]
    theirs = row["comparator_hitting"] + row["comparator_switching"]
    fixed = row["best_fixed"] + row["best_fixed_switching"]
    closed = ", ".join(f"{row['learner']} {100.0 * row['distance_closed']:.1f} %" for row in rows[1:])
    return (
        f"In hindsight the optimum with movement pays {row['optimum']:.6g} (none pays less than "
        f"{row['optimum_lower_bound']:.6g}), the comparator {theirs:.6g}, the best fixed point {fixed:.6g}, "
        f"{first} {paid:.6g}. Of the way from {first} to the optimum go: {closed}."
    )


def _draw_running(outcome: Outcome) -> dict[str, Any]:
    hit = np.cumsum(outcome.comparator.hitting)
    moved = np.cumsum(outcome.comparator.switching)
    switching = {}
    dynamic = {}
    total = {}
    for label, paid in outcome.learners.items():
        switching[label] = np.cumsum(paid.switching)
        dynamic[label] = np.cumsum(paid.hitting) - hit
        total[label] = dynamic[label] + switching[label] - moved
    figures = {
        "switching": (
            show.draw_curves(switching, "switching cost", moved),
            "Switching cost so far: what moving charged.",
        ),
        "dynamic-regret": (
            show.draw_curves(dynamic, "dynamic regret"),
            "Dynamic regret so far: hitting above the comparator's.",
        ),
        "total-regret": (
            show.draw_curves(total, "total regret"),
            "Total regret so far: dynamic regret, plus movement above the comparator's.",
        ),
    }
    for name, running in {"dynamic-regret": dynamic, "total-regret": total}.items():
        near = keep_near(running)
        if len(near) < len(running):
            figure = show.draw_curves(near, name.replace("-", " "))
            caption = figures[name][1].removesuffix(".")
            figures[f"{name}-near"] = (
                figure,
                f"{caption}. Without learners far above the others.",
            )
    return figures


def _draw_hitting(outcome: Outcome) -> dict[str, Any]:
    hitting = {label: np.cumsum(paid.hitting) for label, paid in outcome.learners.items()}
    theirs = np.cumsum(outcome.comparator.hitting)
    return {
        "hitting": (
            show.draw_curves(hitting, "hitting cost", theirs),
            "Hitting cost so far: what the rounds charged.",
        )
    }


def keep_near(running: Mapping[str, Array]) -> dict[str, Array]:
    """The curves that do not end far above the first."""
    end = float(next(iter(running.values()))[-1])
    far = FAR * max(end, 0.0)
    return {label: curve for label, curve in running.items() if curve[-1] <= far or label in ("GD", "SAder")}


def _describe_results(rows: list[Row]) -> str:
    """The winner, and how far it is from greedy."""
    total = {row["learner"]: row["total_regret"] for row in rows}
    best = min(total, key=total.__getitem__)
    first = next(iter(total))
    said = f"Least total regret: {best} with {total[best]:.6g}"
    if best != first:
        said += f", {describe_gap(total[best], total[first])} than {first}'s {total[first]:.6g}"
    worse = [f"{label} ({total[label]:.6g})" for label in total if total[label] > total[first]]
    if worse:
        said += f". Worse than {first}: {', '.join(worse)}."
    else:
        said += f". None is worse than {first}."
    least = min(rows, key=lambda row: row["switching"])
    moved = rows[0]["comparator_switching"]
    return (
        f"{said} {least['learner']} moves least, {least['switching']:.6g}; the comparator moves {moved:.6g}."
    )


def _describe_settings(outcome: Outcome) -> str:
    """The learners as they can be written again."""
    scenario = outcome.experiment.scenario
    learners = "; ".join(f"{label}: {learner!r}" for label, learner in outcome.experiment.learners.items())
    measured = "exactly"
    if outcome.experiment.rounded:
        measured = "on points rounded to five decimals, from the origin"
    return f"{scenario!r}, movement weight 1, measured {measured}. {learners}."


def _draw_example_i() -> dict[str, Any]:
    """The last four rounds: the costs rotate, and greedy descent with them."""
    scenario = rotating()
    return _draw_actions(scenario, 10.0, ROTATION)


def _draw_example_ii() -> dict[str, Any]:
    """Two rounds: the costs alternate."""
    scenario = alternating()
    return _draw_actions(scenario, float(np.sqrt(scenario.costs.T)), ALTERNATION)


def _draw_actions(scenario: Scenario, sigma: float, rounds: slice) -> dict[str, Any]:
    learners = {"GD": GD(scenario.domain, sigma), "LazyGD": LazyGD(scenario.domain, sigma)}
    points = {label: run_experiment(learner, scenario.costs).x[rounds] for label, learner in learners.items()}
    caption = (
        f"Where both stand in rounds {rounds.start + 1} to {rounds.stop}, at a constant sigma of {sigma:.4g}."
    )
    return {"actions": (show.draw_snapshots(outline(scenario.domain), points), caption)}


SNAPSHOTS = {"example-i": _draw_example_i, "example-ii": _draw_example_ii}
