"""What an honest report also shows: other slacks, sigmas, rates, memories, seeds, prices, comparators, and looking ahead."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from klazy import show
from klazy.base.checks import Array
from klazy.contrib import OBD, ROBD, AveragingHorizon, LookAheadSAder, RecedingHorizon, run_ahead
from klazy.costs import Costs, QuadraticCosts
from klazy.game.batch import run_batch
from klazy.game.regret import competitive_ratio, regret
from klazy.game.run import run
from klazy.hindsight import frontier, offline_optimum
from klazy.learners import GD, Decay, KLazyGD, Learner, MemoryGD, sader, sader_k
from klazy.learners.presets import ensemble_auto, meta_rate
from klazy.movement import L2Movement
from klazy.schedules import Sqrt
from klazy.sequences import Scenario, corrupted, stochastic
from klazy.sets import Box, ConvexSet
from klazy.studies.paper.claims import CLAIMS
from klazy.studies.paper.definitions import PRINTED_SLACKS, Experiment, Settings, make_experiment
from klazy.studies.paper.experiments import keep_near
from klazy.studies.paper.measure import play_experiment
from klazy.studies.paper.section import Row, Section

# The two long sequences, with the length of a phase and the sigma as printed.
SEQUENCES = {
    "stochastic": (stochastic, 4000, Sqrt(60.0)),
    "corrupted": (corrupted, 2000, Sqrt(16.0)),
}
LEMMA = "the lemma's"


def _repeat(name: str, settings: Settings, **preset: str) -> Experiment:
    """Make one of the paper's experiments with the seed and the length of the settings."""
    return make_experiment(name, seed=settings.seed, shorter=settings.shorter, **preset)


def _draw_scenarios(name: str, settings: Settings) -> list[Scenario]:
    """Make a sequence with equal phases, and draw some with random ones."""
    make, longest, _ = SEQUENCES[name]
    length = longest // settings.shorter
    seeds = np.random.SeedSequence(settings.seed).spawn(2 if settings.quick else 8)
    drawn = [make(seed, length=length, random_phases=True) for seed in seeds]
    return [make(settings.seed, length=length), *drawn]


def _measure_regrets(learners: Sequence[Learner[Any]], scenario: Scenario, weight: float = 1.0) -> Array:
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


def _sum_regret(learner: Learner[Any], scenario: Scenario, record: str = "costs") -> tuple[Any, Array]:
    """Return a run, and its total regret so far in every round."""
    trace = run(learner, scenario.costs, record=record)
    curves = regret(trace, scenario.comparator).curves
    assert curves is not None
    return trace, curves.total


def report_fallback(section: Section, settings: Settings) -> None:
    """Compare lazy and greedy experts together with greedy ones alone, by beta, on the paper's worst case."""
    scenario = _repeat("worst-case", settings).scenario
    T = scenario.costs.T
    lemma = meta_rate("lemma", T, 1.0, scenario.domain.reach())
    rates = {LEMMA: lemma, "10 times": 10.0 * lemma, "100 times": 100.0 * lemma, "self-tuned": "self-tuned"}
    curves = {}
    for label, beta in rates.items():
        mixed = sader_k(scenario.domain, T, 1.0, beta=beta, greedy=True)
        trace, together = _sum_regret(mixed, scenario, "experts")
        _, alone = _sum_regret(sader(scenario.domain, T, 1.0, beta=beta), scenario)
        weights = trace.weights[:, [expert.phase_length == 1 for expert in mixed.experts]].sum(axis=1)
        if label in (LEMMA, "100 times"):
            curves |= {f"{label}, together": together, f"{label}, greedy": alone}
        section.tabulate(
            "fallback", beta=label, together=together[-1], greedy_alone=alone[-1],
            greedy_weight_at_first=weights[0], greedy_weight_at_last=weights[-1],
        )  # fmt: skip
    section.write("found", rows=section.tables["fallback"])
    section.draw("fallback", show.draw_curves(curves, "total regret"))


def report_resonance(section: Section, settings: Settings) -> None:
    """Measure k-lazyGD with every slack at the printed sigma, where a clock may fall into step with the costs, and Decay."""
    slacks: np.ndarray = np.arange(1, 2001, 40 if settings.quick else 1)
    memories = np.unique(np.geomspace(1, 2000, 20 if settings.quick else 80).astype(int))
    for name, (_, _, sigma) in SEQUENCES.items():
        by_slack = []
        by_memory = []
        for scenario in _draw_scenarios(name, settings):
            lazy = [KLazyGD(scenario.domain, sigma, k) for k in slacks.tolist()]
            forgetful = [MemoryGD(scenario.domain, sigma, Decay(m)) for m in memories.tolist()]
            by_slack.append(_measure_regrets(lazy, scenario).sum(axis=1))
            by_memory.append(_measure_regrets(forgetful, scenario).sum(axis=1))
        equal, *drawn = by_slack
        random = np.mean(drawn, axis=0)
        low, high = np.min(drawn, axis=0), np.max(drawn, axis=0)
        decay = np.mean(by_memory[1:], axis=0)
        # The line is straight from one memory that was played to the next.
        lines = {
            "equal phases": equal,
            "random phases": random,
            "Decay, random": np.interp(slacks, memories, decay),
        }
        about = {"bands": {"random phases": (low, high)}, "levels": {"GD, equal": float(equal[0])}}
        figure = show.draw_lines(slacks, lines, "slack k, or memory m", "total regret", log="xy", **about)
        section.draw(name, figure, name=name)
        rows = section.tabulate(
            "slacks", sequence=name, k=slacks, equal_phases=equal, random_phases=random,
            random_least=low, random_most=high,
        )  # fmt: skip
        m = int(decay.argmin())
        printed = [row for row in rows if row["k"] in PRINTED_SLACKS[name]]
        about = {"m": memories[m], "decay": by_memory[0][m], "decay_random": decay[m]}
        section.write("slacks", name=name, draws=len(drawn), rows=rows, printed=printed, **about)


def report_memories(section: Section, settings: Settings) -> None:
    """Compare learners without a clock with k-lazyGD: total regret on equal phases, and its mean on random ones."""
    # As printed: near k*, and the best.
    slacks = {"stochastic": (65, 300), "corrupted": (50, 500)}

    def make_rivals(name: str, scenario: Scenario) -> dict[str, Learner[Any]]:
        domain = scenario.domain
        sigma = SEQUENCES[name][2]
        return {
            "GD": GD(domain, sigma),
            **{f"k={k}": KLazyGD(domain, sigma, k) for k in slacks[name]},
            **{f"Decay({m})": MemoryGD(domain, sigma, Decay(m)) for m in slacks[name]},
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
        section.draw(f"{name}-equal", show.draw_curves(running, "total regret"), "running", name=name)
        for kind, found in bars.items():
            section.tabulate(
                "memories", sequence=name, phases=kind, learner=list(found), total_regret=list(found.values())
            )
        section.write("ranks", name=name, bars=bars)


def report_beta_rules(section: Section, settings: Settings) -> None:
    """Measure both ensembles by rule for beta, with theory's grid of experts and with the paper's five."""
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
            five |= {(rule, label): learner.replace(beta=beta) for label, learner in made.learners.items()}
        for short, grid, learners in (
            ("theory", "theory's grid of experts", theory),
            ("five", "the paper's five experts", five),
        ):
            found = _measure_totals(learners, made.scenario)
            bars = {rule: {label: found[rule, label] for label in made.learners} for rule in rules}
            by, labels = zip(*found, strict=True)
            rows = section.tabulate(
                "rates", sequence=name, grid=grid, rule=by, learner=labels, total_regret=list(found.values())
            )
            section.draw(f"{name}-{short}", show.draw_bars(bars, "total regret"), name=name, grid=grid)
            section.write("saved", name=name, grid=grid, bars=bars, rows=rows)


def _play_sigmas(name: str, settings: Settings) -> tuple[Scenario, Array, dict[str, Array], dict[str, Array]]:
    """Return by learner: the regrets of shape (2,) at the printed schedule, and those of shape (n, 2) by constant sigma."""
    made = _repeat(name, settings)
    sigmas = np.geomspace(0.01, 1000.0, 101)[:: 5 if settings.quick else 1]
    learners: dict[str, Any] = dict(made.learners)
    found = _measure_regrets(list(learners.values()), made.scenario)
    constant = {}
    for label, learner in learners.items():
        candidates = [learner.replace(sigma=sigma) for sigma in sigmas.tolist()]
        constant[label] = _measure_regrets(candidates, made.scenario)
    return made.scenario, sigmas, dict(zip(learners, found, strict=True)), constant


def report_best_sigma(section: Section, settings: Settings) -> None:
    """Compare learners at the printed schedule and each at its own best constant sigma."""
    for name in ("stochastic", "corrupted", "worst-case"):
        _, sigmas, printed, constant = _play_sigmas(name, settings)
        lines = {label: found.sum(axis=1) for label, found in constant.items()}
        best = {label: _find_best(sigmas, line) for label, line in lines.items()}
        figure = show.draw_lines(sigmas, lines, "constant sigma", "total regret", marked=best, log="xy")
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


def report_movement_weights(section: Section, settings: Settings) -> None:
    """Measure total regret by movement weight lambda: sigma as printed, sigma at its best, and ensemble_auto, given lambda."""
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
        for kind, lines in (("printed", printed), ("tuned", tuned | {"ensemble_auto": np.array(auto)})):
            figure = show.draw_lines(weights, lines, "movement weight lambda", "total regret", log="xy")
            section.draw(f"{name}-{kind}", figure, kind, name=name)
            for label, line in lines.items():
                about = {"sequence": name, "sigma": kind, "lambda": weights, "learner": label}
                section.tabulate("weights", **about, total_regret=line)
        winners = {"printed": list_winners(printed), "tuned": list_winners(tuned)}
        section.write("winners", name=name, weights=weights, one=one, least=least, auto=auto, **winners)


def report_budgets(section: Section, settings: Settings) -> None:
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


def report_look_ahead(section: Section, settings: Settings) -> None:
    """Compare learners with baselines that look ahead: on the worst case, and tracking a walk, whose costs are positive."""
    # Planning takes milliseconds a round.
    made = make_experiment("worst-case", shorter=30 if settings.quick else 5)
    rounds = 50 if settings.quick else 200
    walk = np.cumsum(np.random.default_rng(settings.seed).normal(scale=0.3, size=(rounds, 2)), axis=0)
    games: dict[str, tuple[ConvexSet, Costs]] = {
        f"worst case, phases of {made.scenario.costs.T // 5}": (made.scenario.domain, made.scenario.costs),
        "tracking": (Box(walk.min(axis=0), walk.max(axis=0)), QuadraticCosts(walk)),
    }
    # At 1 the greedy baseline would be indifferent to gradients of norm 1, and its number chance.
    movement = L2Movement(0.5)
    sigma = 2.0
    section.write("games", weight=movement.weight, sigma=sigma)
    for name, (domain, costs) in games.items():
        learners = {
            "GD": GD(domain, sigma),
            "k=10": KLazyGD(domain, sigma, 10),
            "ensemble_auto": ensemble_auto(domain, movement),
        }
        ahead = {
            "+ greedy": RecedingHorizon(domain),
            "+ receding 5": RecedingHorizon(domain, 5),
            "+ averaging 5": AveragingHorizon(domain, 5),
            "+ OBD": OBD(domain),
            "+ R-OBD": ROBD(domain),
            "+ SAder": LookAheadSAder(domain),
        }
        start = domain.start
        optimum = offline_optimum(costs, domain, movement, x0=start)
        sees = dict.fromkeys(learners, "f_1, ..., f_{t-1}")
        traces = {
            label: run(learner, costs, movement=movement, x0=start, engine="step")
            for label, learner in learners.items()
        }
        for label, player in ahead.items():
            traces[label] = run_ahead(player, costs, movement=movement, x0=start)
            sees[label] = f"f_1, ..., f_{{t+{player.window}}}" if player.window else "f_1, ..., f_{t}"
        rows: list[Row] = []
        for label, trace in traces.items():
            paid = trace.totals
            # A ratio needs costs that are positive.
            ratio = competitive_ratio(trace, optimum) if trace.hitting.min() >= 0.0 else None
            rows += section.tabulate(
                "foresight", game=name, player=label, sees=sees[label], switching=paid.switching,
                cost=paid.cost, above_optimum=paid.cost - optimum.cost, competitive_ratio_at_most=ratio,
            )  # fmt: skip
        bars = {row["player"]: row["above_optimum"] for row in rows}
        file = name.split(",")[0].replace(" ", "-")
        section.draw(file, show.draw_bars({name: bars}, "cost above the optimum"), name=name)
        section.write("order", name=name, rows=rows)


def report_presets(section: Section, settings: Settings) -> None:
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
        row: Row = {"experiment": claim.experiment, "less": claim.quantity, "printed": float(claim.printed)}
        row |= {variant: claim.measure(played[claim.experiment, variant]) for variant in variants}
        section.tables["presets"].append(row)
        if None not in row.values():
            moved = {variant: abs(row[variant] - row["paper"]) for variant in list(variants)[1:-1]}
            most = max(moved, key=moved.__getitem__)
            section.write("gain", row=row, most=most)


def report_seeds(section: Section, settings: Settings) -> None:
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
        totals = {label: np.array(found)[:, -1] for label, found in curves.items()}
        first = next(iter(totals))
        rows: list[Row] = []
        for label, total in totals.items():
            gain = 100.0 * (1.0 - total / totals[first])
            low, high = _find_interval(total)
            gain_low, gain_high = _find_interval(gain)
            rows += section.tabulate(
                "seeds", experiment=name, seeds=number, learner=label,
                total_regret=total.mean(), low=low, high=high,
                gain=gain.mean(), gain_low=gain_low, gain_high=gain_high,
            )  # fmt: skip
        section.write("gains", name=name, rows=rows)


def _find_interval(samples: Any) -> tuple[Array, Array]:
    """Return the 95% interval of the mean over the first axis."""
    mean = np.mean(samples, axis=0)
    n = len(samples)
    half = stdtrit(n - 1, 0.975) * np.std(samples, axis=0, ddof=1) / np.sqrt(n)
    return mean - half, mean + half
