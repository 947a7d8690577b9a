"""The paper's statements in their own form, next to measured runs; constants of proofs as printed and as corrected."""

import math
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.game.regret import regret
from klazy.game.run import run
from klazy.game.trace import Trace
from klazy.learners import KLazyGD, Learner, sader_k
from klazy.movement import L2Movement
from klazy.sequences import Scenario
from klazy.sets import ConvexSet, L1Ball
from klazy.studies.paper.definitions import PRINTED_SLACKS, Settings, make_experiment
from klazy.studies.paper.section import Section
from klazy.theory import k_star, sigma_star, theorem_5, theorem_8
from klazy.theory.diagnosis import phases_of

# Six gradients on the l1 ball of the plane: k = 2 moves more than k = 1.
MORE_MOVES = np.array([[1.0, -1.0], [0.0, 1.0], [-2.0, 2.0], [1.0, -2.0], [0.0, -1.0], [-2.0, 1.0]])
# The random runs of the remark on movement: rounds, and slacks from greedy to fully lazy.
RANDOM_ROUNDS = 60
RANDOM_SLACKS = (1, 2, 8, RANDOM_ROUNDS)
# Bounds may be exceeded by rounding alone.
SLIGHTLY = 1e-9


class Game(NamedTuple):
    """One of the two sequences, and the sigma of Theorem 5 for its comparator."""

    scenario: Scenario
    R: float
    P: float
    sigma: float

    def make_learner(self, k: int) -> KLazyGD:
        return KLazyGD(self.scenario.domain, self.sigma, k)

    def play(self, k: int) -> tuple[Trace, Array]:
        """Return a run, and its points with the one after the last round."""
        trace = run(self.make_learner(k), self.scenario.costs)
        return trace, np.vstack((trace.x, trace.state.x))


def report_statements(section: Section, settings: Settings) -> None:
    """Check Theorems 1, 5 and 8 and Proposition 11 in their own form, and the remark that movement decreases in k."""
    for name in PRINTED_SLACKS:
        scenario = make_experiment(name, seed=settings.seed, shorter=settings.shorter).scenario
        P = float(L2Movement().paid(np.asarray(scenario.comparator)).sum())
        R = scenario.domain.reach()
        game = Game(scenario, R, P, sigma_star(scenario.costs.T, 1.0, R, P))
        _compare_forms(section, name, game)
        _check_theorem_5(section, name, game)
        _check_theorem_8(section, name, game)
        _check_variance(section, name, game)
    _find_movement(section, settings)
    for table, rows in section.tables.items():
        section.write(table, rows=rows)


def _compare_forms(section: Section, name: str, game: Game) -> None:
    """Measure how far Algorithm 2 plays from k-lazyGD, from the origin as in Theorem 1 and from another start."""
    domain = game.scenario.domain
    k = PRINTED_SLACKS[name][0]
    costs = game.scenario.costs.window(1, min(2000, game.scenario.costs.T))
    g = costs.arrays()[0]
    found = {}
    for label, start in (("origin", np.zeros(domain.dim)), ("elsewhere", 0.5 * np.eye(domain.dim)[0])):
        x = run(KLazyGD(domain, game.sigma, k, start=start), costs, engine="step").x
        z, found[f"pruned_from_{label}"] = play_algorithm_2(domain, game.sigma, k, g, start)
        found[f"difference_from_{label}"] = float(np.abs(x - z).max())
    section.tabulate("theorem-1", sequence=name, k=k, sigma=game.sigma, rounds=len(g), **found)


def play_algorithm_2(domain: ConvexSet, sigma: float, k: int, g: Array, start: Array) -> tuple[Array, int]:
    """Play Algorithm 2 line by line, with p_{1:0} = 0 as printed; return its points, and how often it pruned."""
    x = start
    p = np.zeros(domain.dim)
    points = []
    pruned = 0
    for i, row in enumerate(g):
        points.append(x)
        if i > 0 and i % k == 0 and not domain.contains(-p / sigma):
            p = -sigma * x
            pruned += 1
        p = p + row
        x = domain.project(-p / sigma)
    return np.array(points), pruned


def _check_theorem_5(section: Section, name: str, game: Game) -> None:
    """Measure the regret at the theorem's sigma, and its bound with the steps of the run and with the largest possible."""
    T = game.scenario.costs.T
    for k in sorted({1, k_star(T, game.R, game.P), *PRINTED_SLACKS[name]}):
        trace, x = game.play(k)
        moves = np.linalg.norm(np.diff(x, axis=0), axis=1)
        section.tabulate(
            "theorem-5", sequence=name, k=k, sigma=game.sigma,
            regret=regret(trace, game.scenario.comparator).smoothed,
            realised_bound=theorem_5(T, 1.0, game.R, game.P, game.sigma, k, moves=moves),
            worst_case_bound=theorem_5(T, 1.0, game.R, game.P, game.sigma, k),
        )  # fmt: skip


def _check_theorem_8(section: Section, name: str, game: Game) -> None:
    """Measure the ensemble's regret, the bound as printed and as corrected, and what two steps of the proof need."""
    scenario, R, P, _ = game
    T = scenario.costs.T
    trace = run(sader_k(scenario.domain, T, 1.0), scenario.costs)
    section.tabulate(
        "theorem-8", sequence=name, regret=regret(trace, scenario.comparator).smoothed,
        order=math.sqrt((P + 1.0) * T),
        printed=compute_printed_theorem_8(T, 1.0, R, P),
        corrected=theorem_8(T, 1.0, R, P),
        expert_needs=math.sqrt(2.0) * (R / 2.0 + (2.0 + math.sqrt(8.0)) * P) / (R / 2.0 + 5.0 * P),
        log_needs=math.floor(math.log2(math.sqrt(1.0 + 4.0 * P / R))) + 2.0,
        log_printed=math.log2(math.sqrt(1.0 + 6.0 * P / R) + 1.0),
    )  # fmt: skip


def compute_printed_theorem_8(T: int, G: float, R: float, P: float) -> float:
    r"""Return the two terms that the proof of Theorem 8 ends with, as printed, for a movement weight of 1.

    The expert's term lacks a factor :math:`\sqrt 2` in its second part, and its :math:`\ln(1/w)` is bounded by
    :math:`2 \ln \log_2(\sqrt{1 + 6P/R} + 1)`, which is less than the :math:`2 \ln(s + 1)` that comes before it.
    """
    root = math.sqrt((G * G / 2.0 + G) * T)
    second = (5.0 * R * P + R * R / 2.0) / math.sqrt(R * P + R * R / 4.0)
    expert = root * (math.sqrt(2.0 * R * P + R * R / 2.0) + second)
    log_prior = 2.0 * math.log(math.log2(math.sqrt(1.0 + 6.0 * P / R) + 1.0))
    return expert + (2.0 * G + 1.0) * 2.0 * R * (log_prior + 1.0) * math.sqrt(5.0 * T / 8.0)


def _check_variance(section: Section, name: str, game: Game) -> None:
    """Compare steps with Proposition 11's bound on them, as printed and in klazy's form."""
    k = k_star(game.scenario.costs.T, game.R, game.P)
    trace, x = game.play(k)
    found = trace.diagnose()
    g = game.scenario.costs.arrays()[0]
    printed = compute_printed_variance(game.make_learner(k), x, g, game.sigma, game.R)
    known = np.isfinite(printed) & np.isfinite(found.variance_bound)
    moved, printed, corrected = (each[known] for each in (found.moved, printed, found.variance_bound))
    section.tabulate(
        "variance", sequence=name, rounds=int(known.sum()),
        moved=float(moved.sum()), printed=float(printed.sum()), corrected=float(corrected.sum()),
        above_printed=int((moved > printed + SLIGHTLY).sum()),
        above_corrected=int((moved > corrected + SLIGHTLY).sum()),
    )  # fmt: skip


def compute_printed_variance(learner: Learner[Any], x: Array, g: Array, sigma: float, R: float) -> Array:
    r"""Return Proposition 11's bound on steps, :math:`\frac{5}{4\sigma}\|g_t - \mu_t\| + \frac{4R}{n_t}`, NaN at n_t = 0."""
    start, _, held = phases_of(learner, x, g)
    n = np.arange(len(g)) - start
    within = n >= 1
    mean = (held[within] - g[within]) / n[within, None]
    bound = np.full(len(g), np.nan)
    deviation = np.linalg.norm(g[within] - mean, axis=1)
    bound[within] = 1.25 * deviation / sigma + 4.0 * R / n[within]
    return bound


def _find_movement(section: Section, settings: Settings) -> None:
    """Measure switching by slack: in the counterexample, and on normal gradients, its mean and the runs where it rises."""
    for k in (1, 2):
        trace = run(KLazyGD(L1Ball(2), 0.5, k), MORE_MOVES, engine="step")
        section.tabulate("counterexample", k=k, switching=trace.totals.switching)
    count = 100 if settings.quick else 400
    g = np.random.default_rng(settings.seed).normal(size=(count, RANDOM_ROUNDS, 2))
    learners = [KLazyGD(L1Ball(2), 1.0, k) for k in RANDOM_SLACKS]
    traces = [[run(each, rows, engine="step", record="totals") for each in learners] for rows in g]
    moved = np.array([[trace.totals.switching for trace in row] for row in traces])
    rising = int((np.diff(moved, axis=1) > SLIGHTLY).any(axis=1).sum())
    means = moved.mean(axis=0)
    section.tabulate(
        "random-moves", k=RANDOM_SLACKS, mean_switching=means, runs=count, runs_not_decreasing=rising
    )
