"""The sections of the paper's experiments: the figures of each, its table, and its findings in words."""

from collections.abc import Mapping

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.hindsight import best_fixed, offline_optimum
from klazy.learners import GD, LazyGD
from klazy.sequences import Scenario
from klazy.studies.paper import definitions
from klazy.studies.paper.definitions import Outcome, PaperSettings
from klazy.studies.paper.section import Row, Section, fill
from klazy.theory.geometry import outline

# The table of every experiment.
RESULTS = "results"
# A curve that ends above this many times the first learner's regret is left out of the near view.
FAR_ABOVE = 3.0
# The rounds whose actions the paper shows, and the constant sigma of these figures.
ACTIONS = {"example-i": (slice(97, 101), 10.0), "example-ii": (slice(88, 90), 101.0**0.5)}


def report_experiment(name: str, section: Section, settings: PaperSettings) -> None:
    """Report one of the paper's experiments, in the preset of the settings."""
    made = definitions.make_experiment(
        name, settings.preset, seed=settings.seed, shorter=settings.shorter
    )
    outcome = definitions.play_experiment(made)
    rows = [{"preset": settings.preset, **row} for row in _add_hindsight(outcome)]
    section.tables[RESULTS] = rows
    section.text.append(made.about)
    section.write("results", rows=rows)
    section.write("hindsight", rows=rows)
    _draw_running(section, outcome, with_hitting=name in ACTIONS)
    if name in ACTIONS:
        _draw_actions(section, made.scenario, *ACTIONS[name])
    learners = {label: repr(learner) for label, learner in made.learners.items()}
    about = {"scenario": repr(made.scenario), "rounded": made.rounded, "learners": learners}
    section.note = fill(section.words["note"], **about)


def _add_hindsight(outcome: Outcome) -> list[Row]:
    """Add each learner's certified bound, the costs of the best players, and the share of the way to the optimum."""
    scenario = outcome.experiment.scenario
    rounded = outcome.experiment.rounded
    bounds = definitions.certify_outcome(outcome)
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
    far = FAR_ABOVE * max(end, 0.0)
    return {
        label: curve
        for label, curve in running.items()
        if curve[-1] <= far or label in ("GD", "SAder")
    }


def _draw_actions(section: Section, scenario: Scenario, rounds: slice, sigma: float) -> None:
    """Draw where greedy and lazy descent are while the costs turn."""
    learners = {"GD": GD(scenario.domain, sigma), "LazyGD": LazyGD(scenario.domain, sigma)}
    points = {
        label: definitions.run_experiment(learner, scenario.costs).x[rounds]
        for label, learner in learners.items()
    }
    figure = show.draw_snapshots(outline(scenario.domain), points)
    section.draw("actions", figure, "actions", rounds=rounds, sigma=sigma)
