"""Learners without a clock beside k-lazyGD: Decay, ensemble_auto, and SAder-k that tunes itself."""

from typing import Any

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.game.regret import regret
from klazy.game.run import run
from klazy.learners import GD, Decay, KLazyGD, Learner, MemoryGD, sader_k
from klazy.learners.presets import ensemble_auto
from klazy.sequences import Scenario
from klazy.studies.paper.definitions import Settings
from klazy.studies.paper.extras.common import SEQUENCES, SIGMA, count_draws, draw_scenario, measure_regrets
from klazy.studies.paper.section import Section

SLACKS = {"stochastic": (65, 300), "corrupted": (50, 500)}  # printed: near k*, and the best


def report_memories(settings: Settings) -> Section:
    """Total regret on equal phases, and its mean on random ones."""
    rows = []
    figures = {}
    text = [
        "GD, k-lazy and Decay run at the printed sigma; SAder-k, with theory's grid, and ensemble_auto find their own."
    ]
    for name in SEQUENCES:
        equal = draw_scenario(name, settings)
        rivals = _make_rivals(name, equal)
        on_equal = _measure_totals(name, equal)
        drawn = [draw_scenario(name, settings, index) for index in range(count_draws(settings))]
        on_random = np.mean([_measure_totals(name, scenario) for scenario in drawn], axis=0)
        bars = {
            "equal phases": dict(zip(rivals, on_equal.tolist(), strict=True)),
            "random phases": dict(zip(rivals, on_random.tolist(), strict=True)),
        }
        running = {label: _sum_regret(learner, equal) for label, learner in rivals.items()}
        caption = f"Total regret on the {name} sequence; on random phases the mean of {count_draws(settings)} draws."
        figures[name] = (show.draw_bars(bars, "total regret"), caption)
        figures[f"{name}-equal"] = (
            show.draw_curves(running, "total regret"),
            f"Total regret so far on the {name} sequence, equal phases.",
        )
        for kind, by_learner in bars.items():
            for label, total in by_learner.items():
                rows.append({"sequence": name, "phases": kind, "learner": label, "total_regret": total})
        text.append(_describe(name, bars))
    return Section(
        "Without a clock: Decay and ensemble_auto beside k-lazy", text, {"memories": rows}, figures
    )


def _make_rivals(name: str, scenario: Scenario) -> dict[str, Learner[Any]]:
    """At the printed sigma: greedy, two slacks and their decaying twins; and two ensembles that tune themselves."""
    domain = scenario.domain
    sigma = SIGMA[name]
    lazy = {f"k={k}": KLazyGD(domain, sigma, k) for k in SLACKS[name]}
    decay = {f"Decay({m})": MemoryGD(domain, sigma, Decay(m)) for m in SLACKS[name]}
    own = {
        "SAder-k, self-tuned": sader_k(domain, scenario.costs.T, 1.0, beta="self-tuned"),
        "ensemble_auto": ensemble_auto(domain),
    }
    return {"GD": GD(domain, sigma), **lazy, **decay, **own}


def _measure_totals(name: str, scenario: Scenario) -> Array:
    """The total regret of each rival."""
    rivals = _make_rivals(name, scenario)
    return measure_regrets(list(rivals.values()), scenario).sum(axis=1)


def _sum_regret(learner: Learner[Any], scenario: Scenario) -> Array:
    curves = regret(run(learner, scenario.costs, record="costs"), scenario.comparator).curves
    assert curves is not None
    return curves.total


def _describe(name: str, bars: dict[str, dict[str, float]]) -> str:
    ranks = []
    for kind, totals in bars.items():
        order = sorted(totals, key=totals.__getitem__)
        said = ", ".join(f"{label} {totals[label]:.5g}" for label in order)
        ranks.append(f"{kind}: {said}")
    return f"On the {name} sequence, from the least total regret up, {'; '.join(ranks)}."
