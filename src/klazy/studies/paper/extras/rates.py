"""Both ensembles by rule for beta: with theory's grid of experts, and with the paper's five; the prior is the stated one."""

from collections.abc import Mapping
from typing import Any

from klazy import show
from klazy.learners import Learner, sader, sader_k
from klazy.learners.presets import meta_rate
from klazy.studies.paper.definitions import Experiment, Settings, make_experiment
from klazy.studies.paper.extras.common import SEQUENCES, measure_regrets
from klazy.studies.paper.section import Section, describe_gap

RULES = ("lemma", "tight", "authors", "self-tuned")
GRIDS = {"theory": "theory's grid of experts", "five": "the paper's five experts"}


def report_rates(settings: Settings) -> Section:
    """Total regret by rule, and what lazy experts save under each."""
    rows = []
    text = []
    figures = {}
    for name in SEQUENCES:
        printed = make_experiment(f"ensemble-{name}", seed=settings.seed, shorter=settings.shorter)
        for grid, said in GRIDS.items():
            made = _make_ensembles(grid, printed)
            totals = measure_regrets(list(made.values()), printed.scenario).sum(axis=1)
            found = dict(zip(made, totals.tolist(), strict=True))
            rows += [
                {"sequence": name, "grid": said, "rule": rule, "learner": label, "total_regret": total}
                for (rule, label), total in found.items()
            ]
            bars = {rule: {label: found[rule, label] for label in printed.learners} for rule in RULES}
            caption = f"Total regret by rule for beta on the {name} sequence, with {said}."
            figures[f"{name}-{grid}"] = (show.draw_bars(bars, "total regret"), caption)
            text.append(_describe(name, said, bars))
    return Section("Which rule for beta", text, {"rates": rows}, figures)


def _make_ensembles(grid: str, printed: Experiment) -> Mapping[tuple[str, str], Learner[Any]]:
    domain = printed.scenario.domain
    T = printed.scenario.costs.T
    ensembles: dict[tuple[str, str], Learner[Any]] = {}
    for rule in RULES:
        if grid == "theory":
            ensembles[rule, "SAder"] = sader(domain, T, 1.0, beta=rule)
            ensembles[rule, "SAder-k"] = sader_k(domain, T, 1.0, beta=rule)
            continue
        beta = rule if rule == "self-tuned" else meta_rate(rule, T, 1.0, 1.0)
        for label, learner in printed.learners.items():
            ensembles[rule, label] = learner.replace(beta=beta)
    return ensembles


def _describe(name: str, grid: str, bars: dict[str, dict[str, float]]) -> str:
    saved = ", ".join(f"{rule} {describe_gap(both['SAder-k'], both['SAder'])}" for rule, both in bars.items())
    least = {label: min(bars, key=lambda rule: bars[rule][label]) for label in ("SAder", "SAder-k")}
    best = ", ".join(f"{label} with {rule} ({bars[rule][label]:.5g})" for label, rule in least.items())
    return (
        f"On the {name} sequence, with {grid}, lazy experts have, by rule, this much total regret less or more than greedy "
        f"ones: {saved}. The least of each: {best}."
    )
