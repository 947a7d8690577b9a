"""The paper remarks that its ensemble falls back to greedy descent in the worst case: does it?"""

from typing import Any

import numpy as np

from klazy import show
from klazy.game.run import run
from klazy.learners import Learner, sader_k
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.section import Section

RULES = ("lemma", "tight", "authors", "self-tuned")


def report_fallback(settings: Settings) -> Section:
    """GD beside an ensemble that has greedy experts too, by rule for beta, on the paper's worst case."""
    made = make_experiment("worst-case", shorter=settings.shorter)
    scenario = made.scenario
    T = scenario.costs.T
    learners: dict[str, Learner[Any]] = {"GD": made.learners["GD"]}
    for rule in RULES:
        learners[rule] = sader_k(scenario.domain, T, 1.0, beta=rule, greedy=True)
    u = np.asarray(scenario.comparator)
    theirs = scenario.costs.values(u) + np.linalg.norm(np.diff(u, axis=0, prepend=u[:1]), axis=1)
    curves = {}
    rows = []
    for label, learner in learners.items():
        trace = run(learner, scenario.costs)
        curves[label] = np.cumsum(trace.hitting + trace.switching - theirs)
        beta = None if label == "GD" else label
        rows.append(
            {
                "learner": "GD" if beta is None else "SAder-k with greedy experts",
                "rule for beta": beta or "",
                "switching": trace.totals.switching,
                "total_regret": float(curves[label][-1]),
            }
        )
    regret = {label: float(curve[-1]) for label, curve in curves.items()}
    figure = show.draw_curves(curves, "total regret")
    caption = "Total regret so far in the worst case: GD, and the ensemble with each rule for its rate beta."
    return Section(
        "Does the ensemble fall back to greedy in the worst case?",
        [_describe(regret)],
        {"fallback": rows},
        {"fallback": (figure, caption)},
    )


def _describe(regret: dict[str, float]) -> str:
    greedy = regret["GD"]
    parts = []
    for rule in RULES:
        verdict = "falls back" if regret[rule] <= greedy else "does not fall back"
        parts.append(f"{rule} {regret[rule]:.4g} ({verdict})")
    return (
        "The paper remarks that an ensemble with greedy experts falls back to them where every change matters. "
        f"On its worst case GD has a total regret of {greedy:.4g}. The ensemble, with a greedy expert for each sigma, has by "
        f"rule for its rate beta: {', '.join(parts)}. The lemma's rate is proved for any costs, and too small to find the best "
        "expert in time."
    )
