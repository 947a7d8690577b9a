"""What an honest report also shows: the paper's statements in their own form, and other slacks, sigmas, rates and seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from klazy import show
from klazy.base.checks import Array
from klazy.contrib import (
    OBD,
    ROBD,
    AveragingHorizon,
    LookAhead,
    LookAheadSAder,
    RecedingHorizon,
    run_ahead,
)
from klazy.costs import Costs, QuadraticCosts
from klazy.game.batch import run_batch
from klazy.game.regret import competitive_ratio, regret
from klazy.game.run import run
from klazy.game.trace import Trace
from klazy.hindsight import frontier, offline_optimum
from klazy.learners import GD, Decay, KLazyGD, Learner, MemoryGD, sader, sader_k
from klazy.learners.presets import ensemble_auto, meta_rate
from klazy.movement import L2Movement
from klazy.schedules import Sqrt
from klazy.sequences import Scenario, corrupted, stochastic
from klazy.sets import Box, ConvexSet, L1Ball
from klazy.studies.paper.claims import CLAIMS
from klazy.studies.paper.definitions import (
    PRINTED_SLACKS,
    PaperSettings,
    make_experiment,
    play_experiment,
)
from klazy.studies.paper.experiments import keep_near
from klazy.studies.paper.section import Row, Section
from klazy.theory import k_star, sigma_star, theorem_5, theorem_8
from klazy.theory.diagnosis import phases_of

# The two long sequences, with the length of a phase and the sigma as printed.
SEQUENCES = {
    "stochastic": (stochastic, 4000, Sqrt(60.0)),
    "corrupted": (corrupted, 2000, Sqrt(16.0)),
}
# Six gradients on the l1 ball of the plane: k = 2 moves more than k = 1.
MORE_MOVES = np.array(
    [[1.0, -1.0], [0.0, 1.0], [-2.0, 2.0], [1.0, -2.0], [0.0, -1.0], [-2.0, 1.0]]
)
# The random runs of the remark on movement: rounds, and slacks from greedy to fully lazy.
RANDOM_ROUNDS = 60
RANDOM_SLACKS = (1, 2, 8, RANDOM_ROUNDS)
# Bounds may be exceeded by rounding alone.
SLIGHTLY = 1e-9


def _repeat(name: str, settings: PaperSettings, **preset: str) -> Any:
    """Make one of the paper's experiments with the seed and the length of the settings."""
    return make_experiment(name, seed=settings.seed, shorter=settings.shorter, **preset)


def _draw_scenarios(name: str, settings: PaperSettings) -> list[Scenario]:
    """Make a sequence with equal phases, and draw some with random ones."""
    make, longest, _ = SEQUENCES[name]
    length = longest // settings.shorter
    seeds = np.random.SeedSequence(settings.seed).spawn(2 if settings.quick else 8)
    drawn = [make(seed, length=length, random_phases=True) for seed in seeds]
    return [make(settings.seed, length=length), *drawn]


def _measure_regrets(
    learners: Sequence[Learner[Any]], scenario: Scenario, weight: float = 1.0
) -> Array:
    """Return dynamic regret and movement beyond the comparator's of each learner, of shape (n, 2)."""
    movement = L2Movement(weight)
    u = np.asarray(scenario.comparator)
    theirs = [scenario.costs.values(u).sum(), movement.paid(u).sum()]
    batch = run_batch(learners, scenario.costs, movement=movement)
    return np.column_stack((batch.hitting, batch.switching)) - theirs


def _measure_totals(learners: Mapping[Any, Learner[Any]], scenario: Scenario) -> dict[Any, float]:
    """Return the total regret of each learner, by label."""
    totals = _measure_regrets(list(learners.values()), scenario).sum(axis=1)
    return dict(zip(learners, totals.tolist(), strict=True))


def _sum_regret(
    learner: Learner[Any], scenario: Scenario, record: str = "costs"
) -> tuple[Any, Array]:
    """Return a run, and its total regret so far in every round."""
    trace = run(learner, scenario.costs, record=record)
    curves = regret(trace, scenario.comparator).curves
    assert curves is not None
    return trace, curves.total


def report_fallback(section: Section, settings: PaperSettings) -> None:
    """Compare lazy and greedy experts together with greedy ones alone, by beta, on the paper's worst case."""
    scenario = _repeat("worst-case", settings).scenario
    T = scenario.costs.T
    lemma = meta_rate("lemma", T, 1.0, scenario.domain.reach())
    rates = {"the lemma's": lemma, "10 times": 10.0 * lemma, "100 times": 100.0 * lemma}
    curves = {}
    for label, beta in (rates | {"self-tuned": "self-tuned"}).items():
        mixed = sader_k(scenario.domain, T, 1.0, beta=beta, greedy=True)
        trace, together = _sum_regret(mixed, scenario, "experts")
        _, alone = _sum_regret(sader(scenario.domain, T, 1.0, beta=beta), scenario)
        greedy = [expert.phase_length == 1 for expert in mixed.experts]
        weights = trace.weights[:, greedy].sum(axis=1)
        if label in ("the lemma's", "100 times"):
            curves |= {f"{label}, together": together, f"{label}, greedy": alone}
        section.tabulate(
            "fallback", beta=label, together=together[-1], greedy_alone=alone[-1],
            greedy_weight_at_first=weights[0], greedy_weight_at_last=weights[-1],
        )  # fmt: skip
    section.write("found", rows=section.tables["fallback"])
    section.draw("fallback", show.draw_curves(curves, "total regret"))


def report_resonance(section: Section, settings: PaperSettings) -> None:
    """Measure Decay, and k-lazyGD with every slack, at the printed sigma: a clock may fall into step with the costs."""
    slacks: np.ndarray = np.arange(1, 2001, 40 if settings.quick else 1)
    memories = np.unique(np.geomspace(1, 2000, 20 if settings.quick else 80).astype(int))
    for name, (_, _, sigma) in SEQUENCES.items():
        by_slack = []
        by_memory = []
        for scenario in _draw_scenarios(name, settings):
            lazy = [KLazyGD(scenario.domain, sigma, k=k) for k in slacks.tolist()]
            forgetful = [
                MemoryGD(scenario.domain, sigma, memory=Decay(m)) for m in memories.tolist()
            ]
            by_slack.append(_measure_regrets(lazy, scenario).sum(axis=1))
            by_memory.append(_measure_regrets(forgetful, scenario).sum(axis=1))
        equal, *drawn = by_slack
        random = np.mean(drawn, axis=0)
        low, high = np.min(drawn, axis=0), np.max(drawn, axis=0)
        decay = np.mean(by_memory[1:], axis=0)
        # The line is straight from one memory that was played to the next.
        forgotten = np.interp(slacks, memories, decay)
        lines = {"equal phases": equal, "random phases": random, "Decay, random": forgotten}
        about = {
            "bands": {"random phases": (low, high)},
            "levels": {"GD, equal": float(equal[0])},
        }
        figure = show.draw_lines(
            slacks, lines, "slack k, or memory m", "total regret", log="xy", **about
        )
        section.draw(name, figure, name=name)
        rows = section.tabulate(
            "slacks", sequence=name, k=slacks, equal_phases=equal, random_phases=random,
            random_least=low, random_most=high,
        )  # fmt: skip
        m = int(decay.argmin())
        printed = [row for row in rows if row["k"] in PRINTED_SLACKS[name]]
        about = {"m": memories[m], "decay": by_memory[0][m], "decay_random": decay[m]}
        section.write("slacks", name=name, draws=len(drawn), rows=rows, printed=printed, **about)


def report_memories(section: Section, settings: PaperSettings) -> None:
    """Compare learners without a clock with k-lazyGD: total regret on equal phases, and its mean on random ones."""
    # As printed: near k*, and the best.
    slacks = {"stochastic": (65, 300), "corrupted": (50, 500)}

    def make_rivals(name: str, scenario: Scenario) -> dict[str, Learner[Any]]:
        domain = scenario.domain
        sigma = SEQUENCES[name][2]
        return {
            "GD": GD(domain, sigma),
            **{f"k={k}": KLazyGD(domain, sigma, k=k) for k in slacks[name]},
            **{f"Decay({m})": MemoryGD(domain, sigma, memory=Decay(m)) for m in slacks[name]},
            "SAder-k, self-tuned": sader_k(domain, scenario.costs.T, 1.0, beta="self-tuned"),
            "ensemble_auto": ensemble_auto(domain),
        }

    section.write("tuned")
    for name in SEQUENCES:
        equal, *drawn = _draw_scenarios(name, settings)
        rivals = make_rivals(name, equal)
        totals = [_measure_totals(make_rivals(name, each), each) for each in drawn]
        means = {label: float(np.mean([total[label] for total in totals])) for label in rivals}
        bars = {"equal phases": _measure_totals(rivals, equal), "random phases": means}
        running = {label: _sum_regret(learner, equal)[1] for label, learner in rivals.items()}
        section.draw(name, show.draw_bars(bars, "total regret"), name=name, draws=len(drawn))
        section.draw(
            f"{name}-equal", show.draw_curves(running, "total regret"), "running", name=name
        )
        for kind, found in bars.items():
            section.tabulate(
                "memories",
                sequence=name,
                phases=kind,
                learner=list(found),
                total_regret=list(found.values()),
            )
        section.write("ranks", name=name, bars=bars)


def report_beta_rules(section: Section, settings: PaperSettings) -> None:
    """Measure both ensembles for each rule for beta, with theory's grid of experts and with the paper's five."""
    rules = ("lemma", "tight", "authors", "self-tuned")
    for name in SEQUENCES:
        made = _repeat(f"ensemble-{name}", settings)
        domain = made.scenario.domain
        T = made.scenario.costs.T
        theory: dict[tuple[str, str], Learner[Any]] = {}
        five: dict[tuple[str, str], Learner[Any]] = {}
        for rule in rules:
            beta = rule if rule == "self-tuned" else meta_rate(rule, T, 1.0, 1.0)
            theory[rule, "SAder"] = sader(domain, T, 1.0, beta=rule)
            theory[rule, "SAder-k"] = sader_k(domain, T, 1.0, beta=rule)
            five |= {
                (rule, label): learner.replace(beta=beta)
                for label, learner in made.learners.items()
            }
        for short, grid, learners in (
            ("theory", "theory's grid of experts", theory),
            ("five", "the paper's five experts", five),
        ):
            found = _measure_totals(learners, made.scenario)
            bars = {
                rule: {label: found[rule, label] for label in made.learners} for rule in rules
            }
            by, labels = zip(*found, strict=True)
            rows = section.tabulate(
                "rates",
                sequence=name,
                grid=grid,
                rule=by,
                learner=labels,
                total_regret=list(found.values()),
            )
            section.draw(
                f"{name}-{short}", show.draw_bars(bars, "total regret"), name=name, grid=grid
            )
            section.write("saved", name=name, grid=grid, bars=bars, rows=rows)


def _play_sigmas(
    name: str, settings: PaperSettings
) -> tuple[Scenario, Array, dict[str, Array], dict[str, Array]]:
    """Return each learner's regrets: at the printed schedule, of shape (2,), and by constant sigma, of shape (n, 2)."""
    made = _repeat(name, settings)
    sigmas = np.geomspace(0.01, 1000.0, 101)[:: 5 if settings.quick else 1]
    learners: dict[str, Any] = dict(made.learners)
    found = _measure_regrets(list(learners.values()), made.scenario)
    constant = {}
    for label, learner in learners.items():
        candidates = [learner.replace(sigma=sigma) for sigma in sigmas.tolist()]
        constant[label] = _measure_regrets(candidates, made.scenario)
    return made.scenario, sigmas, dict(zip(learners, found, strict=True)), constant


def report_best_sigma(section: Section, settings: PaperSettings) -> None:
    """Compare learners at the printed schedule and each at its own best constant sigma."""
    for name in ("stochastic", "corrupted", "worst-case"):
        _, sigmas, printed, constant = _play_sigmas(name, settings)
        lines = {label: found.sum(axis=1) for label, found in constant.items()}
        best = {label: _find_best(sigmas, line) for label, line in lines.items()}
        figure = show.draw_lines(
            sigmas, lines, "constant sigma", "total regret", marked=best, log="xy"
        )
        section.draw(name, figure, name=name)
        best_sigma, at_best = zip(*best.values(), strict=True)
        rows = section.tabulate(
            "best-sigma", experiment=name, learner=list(best),
            printed_schedule=[printed[label].sum() for label in best],
            best_sigma=best_sigma, at_best_sigma=at_best,
        )  # fmt: skip
        section.write("best", name=name, rows=rows)


def _find_best(sigmas: Array, line: Array) -> tuple[float, float]:
    """Return the best sigma, the largest of those that differ by rounding alone, and the regret there."""
    least = float(line.min())
    tied = line <= least + 1e-9 * max(1.0, abs(least))
    return float(sigmas[tied].max()), least


def report_move_costs(section: Section, settings: PaperSettings) -> None:
    """Measure total regret by move cost lambda: sigma as printed, sigma at its best, and ensemble_auto, given lambda."""
    weights = np.geomspace(0.1, 30.0, 26)
    one = int(np.abs(weights - 1.0).argmin())
    # Dynamic regret counts once, movement lambda times.
    weigh = np.stack((np.ones_like(weights), weights))

    def list_winners(lines: dict[str, Array]) -> str:
        best = [min(lines, key=lambda label: float(lines[label][i])) for i in range(len(weights))]
        changes = [i for i in range(len(best)) if i == 0 or best[i] != best[i - 1]]
        return ", ".join(f"{best[i]} from {weights[i]:.2g}" for i in changes)

    for name in SEQUENCES:
        scenario, _, at_printed, constant = _play_sigmas(name, settings)
        auto = []
        for weight in weights.tolist():
            learner = ensemble_auto(scenario.domain, L2Movement(weight))
            auto.append(_measure_regrets([learner], scenario, weight).sum())
        printed = {label: found @ weigh for label, found in at_printed.items()}
        tuned = {label: (found @ weigh).min(axis=0) for label, found in constant.items()}
        least = np.min(list(tuned.values()), axis=0)
        for kind, lines in (
            ("printed", printed),
            ("tuned", tuned | {"ensemble_auto": np.array(auto)}),
        ):
            figure = show.draw_lines(weights, lines, "move cost lambda", "total regret", log="xy")
            section.draw(f"{name}-{kind}", figure, kind, name=name)
            for label, line in lines.items():
                about = {"sequence": name, "sigma": kind, "lambda": weights, "learner": label}
                section.tabulate("weights", **about, total_regret=line)
        winners = {"printed": list_winners(printed), "tuned": list_winners(tuned)}
        section.write(
            "winners", name=name, weights=weights, one=one, least=least, auto=auto, **winners
        )


def report_budgets(section: Section, settings: PaperSettings) -> None:
    """Draw the best hitting cost by path length, with comparator and learners at the printed sigma."""
    for name in ("stochastic", "corrupted", "worst-case"):
        made = _repeat(name, settings)
        costs = made.scenario.costs
        u = np.asarray(made.scenario.comparator)
        curve = frontier(costs, made.scenario.domain)
        places = {"comparator": (float(L2Movement().paid(u).sum()), float(costs.values(u).sum()))}
        for label, learner in made.learners.items():
            totals = run(learner, costs, record="totals").totals
            places[label] = (totals.switching, totals.hitting)
        section.draw(name, curve.plot(places), name=name)
        lengths, hitting = np.transpose(list(places.values()))
        lower, upper = curve.best(lengths)
        rows = section.tabulate(
            "budgets", experiment=name, player=list(places), path_length=lengths, hitting=hitting,
            best_hitting_at_least=lower, best_hitting_at_most=upper,
        )  # fmt: skip
        section.write("frontier", name=name, rows=rows, gap=curve.gap)


def report_look_ahead(section: Section, settings: PaperSettings) -> None:
    """Compare learners with baselines that look ahead: on the worst case, and tracking a walk, whose costs are positive."""
    # Planning takes milliseconds a round.
    made = make_experiment("worst-case", shorter=30 if settings.quick else 5)
    rounds = 50 if settings.quick else 200
    walk = np.cumsum(
        np.random.default_rng(settings.seed).normal(scale=0.3, size=(rounds, 2)), axis=0
    )
    games: dict[str, tuple[ConvexSet, Costs]] = {
        f"worst case, phases of {made.scenario.costs.T // 5}": (
            made.scenario.domain,
            made.scenario.costs,
        ),
        "tracking": (Box(walk.min(axis=0), walk.max(axis=0)), QuadraticCosts(walk)),
    }
    # At 1 the greedy baseline would be indifferent to gradients of norm 1, and its number chance.
    movement = L2Movement(0.5)
    sigma = 2.0
    section.write("games", weight=movement.weight, sigma=sigma)
    for name, (domain, costs) in games.items():
        players = {
            "GD": GD(domain, sigma),
            "k=10": KLazyGD(domain, sigma, k=10),
            "ensemble_auto": ensemble_auto(domain, movement),
            "+ greedy": RecedingHorizon(domain),
            "+ receding 5": RecedingHorizon(domain, 5),
            "+ averaging 5": AveragingHorizon(domain, 5),
            "+ OBD": OBD(domain),
            "+ R-OBD": ROBD(domain),
            "+ SAder": LookAheadSAder(domain),
        }
        about = {"movement": movement, "x0": domain.start}
        optimum = offline_optimum(costs, domain, **about)
        rows: list[Row] = []
        for label, player in players.items():
            if isinstance(player, LookAhead):
                trace = run_ahead(player, costs, **about)
                sees = f"f_{{t+{player.window}}}" if player.window else "f_{t}"
            else:
                trace = run(player, costs, engine="step", **about)
                sees = "f_{t-1}"
            paid = trace.totals
            # A ratio needs costs that are positive.
            ratio = competitive_ratio(trace, optimum) if trace.hitting.min() >= 0.0 else None
            rows += section.tabulate(
                "foresight", game=name, player=label, sees=f"f_1, ..., {sees}", switching=paid.switching,
                cost=paid.cost, above_optimum=paid.cost - optimum.cost, competitive_ratio_at_most=ratio,
            )  # fmt: skip
        bars = {row["player"]: row["above_optimum"] for row in rows}
        file = name.split(",")[0].replace(" ", "-")
        section.draw(file, show.draw_bars({name: bars}, "cost above the optimum"), name=name)
        section.write("order", name=name, rows=rows)


def report_presets(section: Section, settings: PaperSettings) -> None:
    """Compute every printed gain in both presets, and in the paper's with one difference of the authors' at a time."""
    variants: dict[str, dict[str, str]] = {
        "paper": {},
        "authors' sequence": {"sequence": "authors"},
        "authors' parameters": {"parameters": "authors"},
        "authors' measurement": {"measurement": "authors"},
        "authors": {"preset": "authors"},
    }
    for difference in ("sequence", "parameters", "measurement"):
        section.write(difference)
    played: dict[tuple[str, str], list[Row]] = {}
    for name in dict.fromkeys(claim.experiment for claim in CLAIMS):
        for variant, change in variants.items():
            played[name, variant] = play_experiment(_repeat(name, settings, **change)).tabulate()
    section.tables["presets"] = []
    for claim in CLAIMS:
        row: Row = {
            "experiment": claim.experiment,
            "less": claim.quantity,
            "printed": float(claim.printed),
        }
        row |= {variant: claim.measure(played[claim.experiment, variant]) for variant in variants}
        section.tables["presets"].append(row)
        if None not in row.values():
            moved = {
                variant: abs(row[variant] - row["paper"]) for variant in list(variants)[1:-1]
            }
            most = max(moved, key=moved.__getitem__)
            section.write("gain", row=row, most=most)


def report_seeds(section: Section, settings: PaperSettings) -> None:
    """Play the stochastic experiments over independent draws, with 95% intervals of the mean."""
    number = settings.seeds
    section.write("draws", number=number, seed=settings.seed)
    for name in ("stochastic", "ensemble-stochastic"):
        curves: dict[str, list[Array]] = {}
        at = np.empty(0, dtype=int)
        for seed in np.random.SeedSequence(settings.seed).spawn(number):
            outcome = play_experiment(make_experiment(name, seed=seed, shorter=settings.shorter))
            theirs = np.cumsum(sum(outcome.comparator))
            at = np.unique(np.linspace(1, len(theirs), 200).astype(int))
            for label, paid in outcome.learners.items():
                curves.setdefault(label, []).append((np.cumsum(sum(paid)) - theirs)[at - 1])
        lines = keep_near({label: np.mean(found, axis=0) for label, found in curves.items()})
        bands = {label: _find_interval(curves[label]) for label in lines}
        away = [label for label in curves if label not in lines]
        figure = show.draw_lines(at, lines, "round", "total regret", bands=bands)
        section.draw(name, figure, number=number, away=away)
        totals = np.array([[curve[-1] for curve in found] for found in curves.values()]).T
        gains = 100.0 * (1.0 - totals / totals[:, :1])
        low, high = _find_interval(totals)
        gain_low, gain_high = _find_interval(gains)
        rows = section.tabulate(
            "seeds", experiment=name, seeds=number, learner=list(curves),
            total_regret=totals.mean(axis=0), low=low, high=high,
            gain=gains.mean(axis=0), gain_low=gain_low, gain_high=gain_high,
        )  # fmt: skip
        section.write("gains", name=name, rows=rows)


def _find_interval(samples: Any) -> tuple[Array, Array]:
    """Return the 95% interval of the mean over the first axis."""
    mean = np.mean(samples, axis=0)
    n = len(samples)
    half = stdtrit(n - 1, 0.975) * np.std(samples, axis=0, ddof=1) / np.sqrt(n)
    return mean - half, mean + half


class TheoremGame(NamedTuple):
    """One of the two sequences, and the sigma of Theorem 5 for its comparator."""

    scenario: Scenario
    R: float
    P: float
    sigma: float

    def play(self, k: int) -> tuple[KLazyGD, Trace, Array]:
        """Return a learner, its run, and its points with the one after the last round."""
        learner = KLazyGD(self.scenario.domain, self.sigma, k=k)
        trace = run(learner, self.scenario.costs)
        return learner, trace, np.vstack((trace.x, trace.state.x))


def report_statements(section: Section, settings: PaperSettings) -> None:
    """Check Theorems 1, 5 and 8 and Proposition 11 in their own form, and the remark that movement decreases in k."""
    for name in PRINTED_SLACKS:
        scenario = _repeat(name, settings).scenario
        P = float(L2Movement().paid(np.asarray(scenario.comparator)).sum())
        R = scenario.domain.reach()
        game = TheoremGame(scenario, R, P, sigma_star(scenario.costs.T, 1.0, R, P))
        _compare_forms(section, name, game)
        _check_theorem_5(section, name, game)
        _check_theorem_8(section, name, game)
        _check_variance(section, name, game)
    _find_movement(section, settings)
    for table, rows in section.tables.items():
        section.write(table, rows=rows)


def _compare_forms(section: Section, name: str, game: TheoremGame) -> None:
    """Measure how far Algorithm 2 plays from k-lazyGD, from the origin as in Theorem 1 and from another start."""
    domain = game.scenario.domain
    k = PRINTED_SLACKS[name][0]
    costs = game.scenario.costs.window(1, min(2000, game.scenario.costs.T))
    g = costs.arrays()[0]
    found = {}
    for label, start in (
        ("origin", np.zeros(domain.dim)),
        ("elsewhere", 0.5 * np.eye(domain.dim)[0]),
    ):
        x = run(KLazyGD(domain, game.sigma, k=k, start=start), costs, engine="step").x
        z, found[f"pruned_from_{label}"] = play_algorithm_2(domain, game.sigma, k, g, start)
        found[f"difference_from_{label}"] = float(np.abs(x - z).max())
    section.tabulate("theorem-1", sequence=name, k=k, sigma=game.sigma, rounds=len(g), **found)


def play_algorithm_2(
    domain: ConvexSet, sigma: float, k: int, g: Array, start: Array
) -> tuple[Array, int]:
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


def _check_theorem_5(section: Section, name: str, game: TheoremGame) -> None:
    """Measure the regret at the theorem's sigma, and its bound with the steps of the run and with the largest possible."""
    T = game.scenario.costs.T
    for k in sorted({1, k_star(T, game.R, game.P), *PRINTED_SLACKS[name]}):
        _, trace, x = game.play(k)
        moves = np.linalg.norm(np.diff(x, axis=0), axis=1)
        section.tabulate(
            "theorem-5", sequence=name, k=k, sigma=game.sigma,
            regret=regret(trace, game.scenario.comparator).smoothed,
            realised_bound=theorem_5(T, 1.0, game.R, game.P, game.sigma, k, moves=moves),
            worst_case_bound=theorem_5(T, 1.0, game.R, game.P, game.sigma, k),
        )  # fmt: skip


def _check_theorem_8(section: Section, name: str, game: TheoremGame) -> None:
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
    r"""Return the two terms that the proof of Theorem 8 ends with, as printed, for a move cost of 1.

    The expert's term lacks a factor :math:`\sqrt 2` in its second part, and its :math:`\ln(1/w)` is bounded by
    :math:`2 \ln \log_2(\sqrt{1 + 6P/R} + 1)`, which is less than the :math:`2 \ln(s + 1)` that comes before it.
    """
    root = math.sqrt((G * G / 2.0 + G) * T)
    second = (5.0 * R * P + R * R / 2.0) / math.sqrt(R * P + R * R / 4.0)
    expert = root * (math.sqrt(2.0 * R * P + R * R / 2.0) + second)
    log_prior = 2.0 * math.log(math.log2(math.sqrt(1.0 + 6.0 * P / R) + 1.0))
    return expert + (2.0 * G + 1.0) * 2.0 * R * (log_prior + 1.0) * math.sqrt(5.0 * T / 8.0)


def _check_variance(section: Section, name: str, game: TheoremGame) -> None:
    r"""Compare steps with Proposition 11's bound :math:`\frac{5}{4\sigma}\|g_t - \mu_t\| + \frac{4R}{n_t}` and with klazy's."""
    k = k_star(game.scenario.costs.T, game.R, game.P)
    learner, trace, x = game.play(k)
    found = trace.diagnose()
    g = game.scenario.costs.arrays()[0]
    start, _, held = phases_of(learner, x, g)
    n = np.arange(len(g)) - start
    known = (n >= 1) & np.isfinite(found.variance_bound)
    g, n, held, moved, corrected = (
        each[known] for each in (g, n, held, found.moved, found.variance_bound)
    )
    deviation = np.linalg.norm(g - (held - g) / n[:, None], axis=1)
    printed = 1.25 * deviation / game.sigma + 4.0 * game.R / n
    section.tabulate(
        "variance", sequence=name, rounds=len(n),
        moved=moved.sum(), printed=printed.sum(), corrected=corrected.sum(),
        above_printed=(moved > printed + SLIGHTLY).sum(),
        above_corrected=(moved > corrected + SLIGHTLY).sum(),
    )  # fmt: skip


def _find_movement(section: Section, settings: PaperSettings) -> None:
    """Measure switching by slack: in the counterexample, and on normal gradients, its mean and the runs where it rises."""
    for k in (1, 2):
        trace = run(KLazyGD(L1Ball(2), 0.5, k=k), MORE_MOVES, engine="step")
        section.tabulate("counterexample", k=k, switching=trace.totals.switching)
    count = 100 if settings.quick else 400
    g = np.random.default_rng(settings.seed).normal(size=(count, RANDOM_ROUNDS, 2))
    learners = [KLazyGD(L1Ball(2), 1.0, k=k) for k in RANDOM_SLACKS]
    traces = [
        [run(each, rows, engine="step", record="totals") for each in learners] for rows in g
    ]
    moved = np.array([[trace.totals.switching for trace in row] for row in traces])
    rising = int((np.diff(moved, axis=1) > SLIGHTLY).any(axis=1).sum())
    means = moved.mean(axis=0)
    section.tabulate(
        "random-moves",
        k=RANDOM_SLACKS,
        mean_switching=means,
        runs=count,
        runs_not_decreasing=rising,
    )
