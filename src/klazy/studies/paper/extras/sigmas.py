"""Each learner at its own best constant sigma, for the paper's movement weight and for weights from 0.1 to 30."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.learners.presets import ensemble_auto
from klazy.movement import L2Movement
from klazy.sequences import Scenario
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.extras.common import SEQUENCES, measure_regrets
from klazy.studies.paper.section import Row, Section, describe_gap

SIGMAS = np.geomspace(0.01, 1000.0, 101)
WEIGHTS = np.geomspace(0.1, 30.0, 26)
ONE = int(np.abs(WEIGHTS - 1.0).argmin())  # nearest to the paper's


@dataclass(frozen=True, eq=False)
class _BySigma:
    """By learner: dynamic regret and net movement at the printed schedule, of shape (2,), and by sigma, of shape (n, 2)."""

    scenario: Scenario
    sigmas: Array
    printed: dict[str, Array]
    constant: dict[str, Array]


def _play_sigmas(name: str, settings: Settings) -> _BySigma:
    made = make_experiment(name, seed=settings.seed, shorter=settings.shorter)
    sigmas = SIGMAS[::5] if settings.quick else SIGMAS
    learners: dict[str, Any] = dict(made.learners)
    found = measure_regrets(list(learners.values()), made.scenario)
    printed = dict(zip(learners, found, strict=True))
    constant = {}
    for label, learner in learners.items():
        candidates = [learner.replace(sigma=sigma) for sigma in sigmas.tolist()]
        constant[label] = measure_regrets(candidates, made.scenario)
    return _BySigma(made.scenario, sigmas, printed, constant)


def report_best_sigma(settings: Settings) -> Section:
    """Total regret by constant sigma, and the best in hindsight beside the printed schedule."""
    rows = []
    text = []
    figures = {}
    for name in ("stochastic", "corrupted", "worst-case"):
        grid = _play_sigmas(name, settings)
        total = {label: found.sum(axis=1) for label, found in grid.constant.items()}
        best = {label: _find_best(grid.sigmas, line) for label, line in total.items()}
        figure = show.draw_lines(grid.sigmas, total, "constant sigma", "total regret", marked=best, log="xy")
        figures[name] = (
            figure,
            f"Total regret by constant sigma on the {name} sequence, each learner's best marked.",
        )
        shared = {label: float(found.sum()) for label, found in grid.printed.items()}
        rows += [
            {
                "experiment": name,
                "learner": label,
                "printed_schedule": shared[label],
                "best_sigma": sigma,
                "at_best_sigma": least,
            }
            for label, (sigma, least) in best.items()
        ]
        text.append(_describe_tuned(name, shared, best))
    return Section("Each learner at its own best sigma", text, {"best-sigma": rows}, figures)


def _find_best(sigmas: Array, line: Array) -> tuple[float, float]:
    """The best sigma, and the regret there; the largest of those that differ by rounding alone."""
    least = float(line.min())
    tied = line <= least + 1e-9 * max(1.0, abs(least))
    return float(sigmas[tied].max()), least


def _describe_tuned(name: str, shared: dict[str, float], best: dict[str, tuple[float, float]]) -> str:
    first = min(shared, key=shared.__getitem__)
    tuned = min(best, key=lambda label: best[label][1])
    sigma, least = best[tuned]
    greedy_sigma, greedy = best["GD"]
    said = f"On the {name} sequence {first} is best at the printed schedule with {shared[first]:.5g}"
    if first != "GD":
        said += f", {describe_gap(shared[first], shared['GD'])} than GD's {shared['GD']:.5g}"
    said += f". With each learner at its own best constant sigma, in hindsight, the best is {tuned} with {least:.5g} at "
    said += f"sigma={sigma:.3g}"
    if tuned != "GD":
        said += f", {describe_gap(least, greedy)} than GD's {greedy:.5g} at {greedy_sigma:.3g}"
    if least < 0.0:
        said += ", less than the comparator pays, which is not the optimum"
    return f"{said}."


def report_movement_weights(settings: Settings) -> Section:
    """Total regret by movement weight lambda: sigma as printed, sigma at its best, and ensemble_auto, told lambda."""
    rows = []
    text = []
    figures = {}
    weigh = np.stack((np.ones_like(WEIGHTS), WEIGHTS))  # dynamic regret counts once, movement lambda times
    for name in SEQUENCES:
        grid = _play_sigmas(name, settings)
        printed = {label: found @ weigh for label, found in grid.printed.items()}
        tuned = {label: (found @ weigh).min(axis=0) for label, found in grid.constant.items()}
        told = {"ensemble_auto": np.array([_play_auto(grid.scenario, weight) for weight in WEIGHTS.tolist()])}
        for kind, lines, how in (
            ("printed", printed, "sigma as printed"),
            (
                "tuned",
                tuned | told,
                "each sigma at its best for each lambda, in hindsight; ensemble_auto is told lambda alone",
            ),
        ):
            figure = show.draw_lines(WEIGHTS, lines, "movement weight lambda", "total regret", log="xy")
            figures[f"{name}-{kind}"] = (
                figure,
                f"Total regret by movement weight on the {name} sequence, {how}.",
            )
            rows += _tabulate(name, kind, lines)
        text.append(_describe_weights(name, printed, tuned, told["ensemble_auto"]))
    return Section("Movement weights from 0.1 to 30", text, {"weights": rows}, figures)


def _play_auto(scenario: Scenario, weight: float) -> float:
    return float(
        measure_regrets([ensemble_auto(scenario.domain, L2Movement(weight))], scenario, weight).sum()
    )


def _tabulate(name: str, kind: str, lines: dict[str, Array]) -> list[Row]:
    rows = []
    for label, line in lines.items():
        for weight, total in zip(WEIGHTS.tolist(), line.tolist(), strict=True):
            rows.append(
                {"sequence": name, "sigma": kind, "lambda": weight, "learner": label, "total_regret": total}
            )
    return rows


def _describe_weights(name: str, printed: dict[str, Array], tuned: dict[str, Array], told: Array) -> str:
    least = np.min(list(tuned.values()), axis=0)
    behind = [describe_gap(float(b), float(a)) for a, b in zip(told, least, strict=True)]
    at_printed = _describe_winners(printed)
    at_best = _describe_winners(tuned)
    return (
        f"On the {name} sequence the least total regret, as lambda grows, is at the printed sigma that of {at_printed}; "
        f"with each sigma at its best that of {at_best}. The best of these, tuned in hindsight, has {behind[0]} than "
        f"ensemble_auto at lambda = {WEIGHTS[0]:.2g}, "
        f"{behind[ONE]} at {WEIGHTS[ONE]:.2g} and {behind[-1]} at {WEIGHTS[-1]:.2g}."
    )


def _describe_winners(lines: dict[str, Array]) -> str:
    best = [min(lines, key=lambda label: float(lines[label][i])) for i in range(len(WEIGHTS))]
    changes = [i for i in range(len(best)) if i == 0 or best[i] != best[i - 1]]
    return ", ".join(f"{best[i]} from {WEIGHTS[i]:.2g}" for i in changes)
