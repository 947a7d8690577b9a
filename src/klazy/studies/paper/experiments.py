"""The sections of the paper's experiments: the figures of each, its table, and its findings in words."""

from collections.abc import Mapping

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.hindsight import best_fixed, offline_optimum
from klazy.learners import GD, LazyGD
from klazy.sequences import Scenario
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.measure import Outcome, certify_outcome, play_experiment, run_experiment
from klazy.studies.paper.section import Row, Section, describe_gap
from klazy.theory.geometry import outline

# The table of every experiment.
RESULTS = "results"
# A curve that ends above this many times the first learner's regret is left out of the near view.
FAR = 3.0
# The rounds whose actions the paper shows, and the constant sigma of these figures.
ACTIONS = {"example-i": (slice(97, 101), 10.0), "example-ii": (slice(88, 90), 101.0**0.5)}


def report_experiment(name: str, section: Section, settings: Settings) -> None:
    """Report one of the paper's experiments, in the preset of the settings."""
    made = make_experiment(name, settings.preset, seed=settings.seed, shorter=settings.shorter)
    outcome = play_experiment(made)
    rows = [{"preset": settings.preset, **row} for row in _add_hindsight(outcome)]
    section.tables[RESULTS] = rows
    section.text.append(made.about)
    _describe_results(section, rows)
    _describe_hindsight(section, rows)
    _draw_running(section, outcome, with_hitting=name in ACTIONS)
    if name in ACTIONS:
        _draw_actions(section, made.scenario, *ACTIONS[name])
    learners = "; ".join(f"{label}: {learner!r}" for label, learner in made.learners.items())
    measured = "on points rounded to five decimals, from the origin" if made.rounded else "exactly"
    section.note = section.words["note"].format(scenario=made.scenario, measured=measured, learners=learners)


def _add_hindsight(outcome: Outcome) -> list[Row]:
    """Add each learner's certified bound, the costs of the best players, and the share of the way to the optimum."""
    scenario = outcome.experiment.scenario
    rounded = outcome.experiment.rounded
    bounds = certify_outcome(outcome)
    rows = outcome.tabulate()
    origin = np.zeros(scenario.domain.dim) if rounded else None
    optimum = offline_optimum(scenario.costs, scenario.domain, x0=origin)
    fixed = best_fixed(scenario.costs, scenario.domain)
    moved = float(np.linalg.norm(fixed.x)) if rounded else 0.0
    # From the origin, staying there is free.
    stays = fixed.cost + moved >= 0.0
    shared = {
        "optimum": optimum.cost,
        "optimum_hitting": optimum.hitting,
        "optimum_lower_bound": optimum.lower_bound,
        "optimum_gap": optimum.gap,
        "best_fixed": 0.0 if stays else fixed.cost,
        "best_fixed_switching": 0.0 if stays else moved,
    }
    first = rows[0]["hitting"] + rows[0]["switching"]
    for row in rows:
        closed = first - (row["hitting"] + row["switching"])
        row["certified_bound"] = bounds[row["learner"]]
        row["distance_closed"] = closed / (first - optimum.cost)
        row |= shared
    return rows


def _describe_hindsight(section: Section, rows: list[Row]) -> None:
    row = rows[0]
    section.write(
        "hindsight",
        **row,
        first=row["learner"],
        paid=row["hitting"] + row["switching"],
        theirs=row["comparator_hitting"] + row["comparator_switching"],
        fixed=row["best_fixed"] + row["best_fixed_switching"],
        closed=section.join("closed", rows[1:]),
    )


def _draw_running(section: Section, outcome: Outcome, with_hitting: bool) -> None:
    """Draw running sums of what the learners paid, and of their regret; those of regret also without the worst learners."""
    hit = np.cumsum(outcome.comparator.hitting)
    moved = np.cumsum(outcome.comparator.switching)
    hitting = {label: np.cumsum(paid.hitting) for label, paid in outcome.learners.items()}
    switching = {label: np.cumsum(paid.switching) for label, paid in outcome.learners.items()}
    dynamic = {label: hitting[label] - hit for label in hitting}
    total = {label: dynamic[label] + switching[label] - moved for label in hitting}
    if with_hitting:
        section.draw("hitting", show.draw_curves(hitting, "hitting cost", hit), "hitting")
    section.draw("switching", show.draw_curves(switching, "switching cost", moved), "switching")
    regrets = {"dynamic-regret": dynamic, "total-regret": total}
    near = {f"{name}-near": keep_near(running) for name, running in regrets.items()}
    for name, running in (regrets | near).items():
        if name in regrets or len(running) < len(hitting):
            label = name.removesuffix("-near").replace("-", " ")
            section.draw(name, show.draw_curves(running, label), name)


def keep_near(running: Mapping[str, Array]) -> dict[str, Array]:
    """Return the curves that do not end far above the first."""
    end = float(next(iter(running.values()))[-1])
    far = FAR * max(end, 0.0)
    return {label: curve for label, curve in running.items() if curve[-1] <= far or label in ("GD", "SAder")}


def _describe_results(section: Section, rows: list[Row]) -> None:
    """Name the winner, and how far it is from greedy."""
    total = {row["learner"]: row["total_regret"] for row in rows}
    best = min(total, key=total.__getitem__)
    first = next(iter(total))
    gap = f" with {total[best]:.6g}"
    if best != first:
        gap += f", {describe_gap(total[best], total[first])} than {first}'s {total[first]:.6g}"
    labels = ", ".join(f"{label} ({total[label]:.6g})" for label in total if total[label] > total[first])
    worse = section.words["worse" if labels else "none-worse"].format(first=first, labels=labels)
    least = min(rows, key=lambda row: row["switching"])
    moved = rows[0]["comparator_switching"]
    section.write(
        "results",
        best=best,
        gap=gap,
        worse=worse,
        least=least["learner"],
        switching=least["switching"],
        moved=moved,
    )


def _draw_actions(section: Section, scenario: Scenario, rounds: slice, sigma: float) -> None:
    """Draw where greedy and lazy descent are while the costs turn."""
    learners = {"GD": GD(scenario.domain, sigma), "LazyGD": LazyGD(scenario.domain, sigma)}
    points = {label: run_experiment(learner, scenario.costs).x[rounds] for label, learner in learners.items()}
    figure = show.draw_snapshots(outline(scenario.domain), points)
    section.draw("actions", figure, "actions", first=rounds.start + 1, last=rounds.stop, sigma=sigma)
