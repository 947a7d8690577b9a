"""The tables of docs/ensembles.md: regret of the ensembles beside learners tuned in hindsight: python benchmarks/ensembles.py.

Total regret against the scenario's comparator (dynamic regret and movement, less what the comparator pays for moving).
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import klazy as kl
from klazy.sequences import Scenario, corrupted, stochastic

WEIGHTS = (1.0, 10.0)
RATES = ("lemma", "tight", "authors", "self-tuned")
SIGMAS = np.geomspace(0.01, 3000.0, 60)
SLACKS = (2, 8, 30, 65, 150, 300, 500, 1000, 2000)
SEED = 2026
HEADING = "## The tables"


def cases() -> dict[str, Scenario]:
    recipes = {"stochastic": stochastic, "corrupted": corrupted}
    return {
        f"{name}, {'random' if random else 'equal'} phases": make(SEED, random_phases=random)
        for name, make in recipes.items()
        for random in (False, True)
    }


def regrets(
    learners: Sequence[kl.types.Learner], scenario: Scenario, weight: float
) -> list[float]:
    traces = kl.run_many(
        learners, scenario.costs, movement=kl.L2Movement(weight), record="totals"
    )
    return [kl.regret(trace, scenario.comparator).total for trace in traces]


def in_hindsight(scenario: Scenario, weight: float) -> dict[str, tuple[float, str]]:
    """The best constant sigma, and for k-lazyGD and Decay the best k or m too."""
    domain = scenario.domain
    kinds = {
        "GD": {"": partial(kl.GD, domain)},
        "k-lazyGD": {
            f"k={k}, ": partial(lambda s, k: kl.KLazyGD(domain, s, k=k), k=k) for k in SLACKS
        },
        "Decay": {
            f"m={k}, ": partial(
                lambda s, k: kl.MemoryGD(domain, s, memory=kl.memories.Decay(k)), k=k
            )
            for k in SLACKS
        },
    }
    found = {}
    for kind, makers in kinds.items():
        names = [f"{name}sigma={sigma:.2g}" for name in makers for sigma in SIGMAS]
        values = regrets(
            [make(float(sigma)) for make in makers.values() for sigma in SIGMAS], scenario, weight
        )
        found[kind] = min(zip(values, names, strict=True))
    return found


def ensembles(scenario: Scenario, weight: float) -> dict[str, dict[str, float]]:
    domain, T, G = (
        scenario.domain,
        scenario.costs.T,
        float(np.linalg.norm(scenario.costs.arrays()[0], axis=1).max()),
    )
    experts = kl.contrib.ensemble_auto(domain, kl.L2Movement(weight)).experts
    rates = {
        rule: kl.theory.meta_rate(rule, T, G, domain.reach(), weight) for rule in RATES[:-1]
    } | {"self-tuned": "self-tuned"}
    made = {
        "SAder": [kl.sader(domain, T, G, weight, beta=rule) for rule in rates],
        "SAder-k": [kl.sader_k(domain, T, G, weight, beta=rule) for rule in rates],
        "ensemble_auto": [
            kl.SAder(experts, beta, "uniform", movement=kl.L2Movement(weight))
            for beta in rates.values()
        ],
    }
    return {
        name: dict(zip(rates, regrets(learners, scenario, weight), strict=True))
        for name, learners in made.items()
    }


def tables() -> str:
    lines = []
    verdicts, gaps = [], []
    for name, scenario in cases().items():
        for weight in WEIGHTS:
            tuned, found = in_hindsight(scenario, weight), ensembles(scenario, weight)
            lines += [f"### {name}, lambda = {weight:g}", ""]
            lines += ["| | " + " | ".join(RATES) + " |", "|---|" + "--:|" * len(RATES)]
            lines += [
                f"| {kind} | " + " | ".join(f"{row[rule]:.1f}" for rule in RATES) + " |"
                for kind, row in found.items()
            ]
            best = "; ".join(
                f"{kind} {value:.1f} ({which})" for kind, (value, which) in tuned.items()
            )
            lines += ["", f"Tuned in hindsight: {best}.", ""]
            rival = min(min(found["SAder"].values()), min(found["SAder-k"].values()))
            ours, hindsight = (
                found["ensemble_auto"]["self-tuned"],
                min(value for value, _ in tuned.values()),
            )
            cells = (
                name,
                f"{weight:g}",
                ours,
                rival,
                (ours - rival) / abs(rival),
                hindsight,
                (ours - hindsight) / abs(hindsight),
            )
            gaps.append((ours - rival) / abs(rival))
            verdicts.append(
                "| {} | {} | {:.1f} | {:.1f} | {:+.1%} | {:.1f} | {:+.1%} |".format(*cells)
            )
    head = "| case | lambda | ensemble_auto | best of SAder(-k), any rule | ensemble_auto against it | best tuned in hindsight "
    head += "| ensemble_auto against it |"
    ahead = sum(gap <= 0 for gap in gaps)
    verdict = (
        "`ensemble_auto` is ahead of the better of SAder and SAder-k, each at its best rule, "
    )
    verdict += f"on {ahead} of {len(gaps)} cases, "
    verdict += f"and at worst {max(gaps):.1%} behind."
    return "\n".join([verdict, "", head, "|---|--:|--:|--:|--:|--:|--:|", *verdicts, "", *lines])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--write", type=Path, help=f"put the tables into this file, after its heading {HEADING!r}"
    )
    options = arguments.parse_args()
    before, heading, _ = (
        options.write.read_text().partition(HEADING) if options.write else ("", HEADING, "")
    )
    if not heading:
        raise SystemExit(f"{options.write} has no heading {HEADING!r}.")
    text = tables()
    print(text)
    if options.write:
        options.write.write_text(f"{before}{HEADING}\n\n{text}\n")
