"""The stochastic experiments over many independent seeds, with 95 % intervals."""

import numpy as np
from scipy.special import stdtrit

from klazy import show
from klazy.base.checks import Array
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.experiments import keep_near
from klazy.studies.paper.measure import play_experiment
from klazy.studies.paper.section import Row, Section

POINTS = 200  # of a curve


def report_seeds(settings: Settings) -> Section:
    """The stochastic experiments over independent draws, with 95 % intervals of the mean."""
    number = settings.seeds
    said = f"{number} sequences from independent seeds, spawned from {settings.seed}; intervals of the mean, Student's, 95 %."
    rows = []
    figures = {}
    text = [said]
    for name in ("stochastic", "ensemble-stochastic"):
        at, curves, totals = _play_seeds(name, settings, number)
        lines = keep_near({label: curve.mean(axis=0) for label, curve in curves.items()})
        bands = {label: _find_interval(curves[label]) for label in lines}
        figure = show.draw_lines(at, lines, "round", "total regret", bands=bands)
        away = [label for label in curves if label not in lines]
        hidden = f" Not shown, for they would press the others flat: {', '.join(away)}." if away else ""
        figures[name] = (figure, f"Mean total regret so far over {number} draws, with 95 % bands.{hidden}")
        first = next(iter(totals))
        found = _tabulate(totals)
        rows += [{"experiment": name, "seeds": number, **row} for row in found]
        gains = [
            f"{row['learner']} {row['gain']:.1f} % ({row['gain_low']:.1f} to {row['gain_high']:.1f})"
            for row in found[1:]
        ]
        text.append(
            f"In {name}, total regret saved against {first}, mean and interval of the paired gains: {', '.join(gains)}."
        )
    return Section("Many seeds", text, {"seeds": rows}, figures)


def _play_seeds(
    name: str, settings: Settings, number: int
) -> tuple[Array, dict[str, Array], dict[str, Array]]:
    """Checkpoints, and for each learner its curves of shape (seeds, POINTS) and its total regrets of shape (seeds,)."""
    curves: dict[str, list[Array]] = {}
    at = np.empty(0)
    for seed in np.random.SeedSequence(settings.seed).spawn(number):
        outcome = play_experiment(make_experiment(name, seed=seed, shorter=settings.shorter))
        theirs = np.cumsum(sum(outcome.comparator))
        at = np.unique(np.linspace(1, len(theirs), POINTS).astype(int))
        for label, paid in outcome.learners.items():
            curves.setdefault(label, []).append((np.cumsum(sum(paid)) - theirs)[at - 1])
    stacked = {label: np.array(found) for label, found in curves.items()}
    return at, stacked, {label: found[:, -1] for label, found in stacked.items()}


def _tabulate(totals: dict[str, Array]) -> list[Row]:
    """Mean and interval of the total regret and of the gain against the first learner, in per cent, seed by seed."""
    first = next(iter(totals.values()))
    rows = []
    for label, total in totals.items():
        gain = 100.0 * (1.0 - total / first)
        low, high = _find_interval(total)
        gain_low, gain_high = _find_interval(gain)
        found = {
            "total_regret": total.mean(),
            "low": low,
            "high": high,
            "gain": gain.mean(),
            "gain_low": gain_low,
            "gain_high": gain_high,
        }
        rows.append({"learner": label} | {key: float(value) for key, value in found.items()})
    return rows


def _find_interval(samples: Array) -> tuple[Array, Array]:
    """The 95 % interval of the mean over the first axis."""
    mean = samples.mean(axis=0)
    n = len(samples)
    half = stdtrit(n - 1, 0.975) * samples.std(axis=0, ddof=1) / np.sqrt(n)
    return mean - half, mean + half
