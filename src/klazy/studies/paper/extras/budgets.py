"""Regret against every comparator at once: the best hitting cost by path length, and where comparator and learners lie."""

import numpy as np

from klazy.game.run import run
from klazy.hindsight import frontier
from klazy.movement import L2Movement
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.section import Row, Section

PLAYED = ("stochastic", "corrupted", "worst-case")


def report_budgets(settings: Settings) -> Section:
    """The frontier of each sequence, with the learners at the printed sigma."""
    rows = []
    text = []
    figures = {}
    for name in PLAYED:
        made = make_experiment(name, seed=settings.seed, shorter=settings.shorter)
        costs = made.scenario.costs
        u = np.asarray(made.scenario.comparator)
        curve = frontier(costs, made.scenario.domain)
        places = {"comparator": (float(L2Movement().paid(u).sum()), float(costs.values(u).sum()))}
        for label, learner in made.learners.items():
            totals = run(learner, costs, record="totals").totals
            places[label] = (totals.switching, totals.hitting)
        figures[name] = (
            curve.plot(places),
            f"Best hitting cost by path length on the {name} sequence; the shaded part is not certain.",
        )
        for label, (length, hitting) in places.items():
            lower, upper = curve.best(length)
            rows.append(
                {"experiment": name, "player": label, "path_length": length, "hitting": hitting,
                 "best_hitting_at_least": float(lower), "best_hitting_at_most": float(upper)}
            )  # fmt: skip
        text.append(_describe(name, rows[-len(places) :], curve.gap))
    return Section("Every comparator at once: the frontier of path lengths", text, {"budgets": rows}, figures)


def _describe(name: str, rows: list[Row], gap: float) -> str:
    u, *learners = rows
    nearest = min(learners, key=lambda row: row["hitting"] - row["best_hitting_at_most"])
    return (
        f"On the {name} sequence the comparator moves {u['path_length']:.4g} and pays {u['hitting']:.6g} for hitting; none "
        f"that moves no further pays less than {u['best_hitting_at_least']:.6g}. Nearest to the best that moves as far as it "
        f"does is {nearest['player']}: {nearest['hitting']:.6g} to {nearest['best_hitting_at_most']:.6g} at "
        f"{nearest['path_length']:.4g}. The curve is certain to {100.0 * gap:.2g} % of its drop."
    )
