"""The paper's drawings, computed: which gradients an update adds up, one step on two sets, example costs, the lower bound."""

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.game.regret import regret
from klazy.game.run import run
from klazy.learners import GD, KLazyGD, LazyGD, sader_k
from klazy.sequences import rotating, square_wave, square_wave_regret, stochastic
from klazy.sets import ConvexSet, L1Ball, L2Ball
from klazy.studies.paper.definitions import Settings
from klazy.studies.paper.section import Section
from klazy.theory import expert_grid
from klazy.theory.geometry import normal_cone, outline, step_picture


def report_geometry(settings: Settings) -> Section:
    """Two gradients in a row, greedy and lazy, on a set with a vertex and on a round one."""
    sets: dict[str, ConvexSet] = {"l1 ball: lazy stays": L1Ball(2), "l2 ball: lazy moves less": L2Ball(2)}
    outlines = {}
    greedy = {}
    lazy = {}
    cones = {}
    moved = []
    for name, domain in sets.items():
        x = domain.project(np.array([0.8, -0.2]))
        outlines[name] = outline(domain)
        greedy[name] = _take_two_steps(domain, x, lazy=False)
        lazy[name] = _take_two_steps(domain, x, lazy=True)
        _, y, following, *_ = greedy[name]
        cones[name] = normal_cone(domain, following, y - following)
        a = _measure_second_step(greedy[name])
        b = _measure_second_step(lazy[name])
        moved.append(f"{name.split(':')[0]}: greedy {a:.3g}, lazy {b:.3g}")
    figure = show.draw_greedy_and_lazy(outlines, greedy, lazy, cones)
    said = "; ".join(moved)
    text = [f"Greedy projects after each gradient, lazy only the sum. What the second step moves: {said}."]
    caption = (
        "Two gradients in a row, sigma = 1, k = 2. A vertex has a wide normal cone, in which laziness rests."
    )
    return Section("Geometry: why laziness moves less", text, figures={"geometry": (figure, caption)})


def _take_two_steps(domain: ConvexSet, x: Array, lazy: bool) -> Array:
    """x_1, y_2, x_2, y_3, x_3 with sigma = 1."""
    first = np.array([-1.0, 0.0])
    second = np.array([0.1, 0.4])
    y = x - first
    following = domain.project(y)
    before = y if lazy else following
    last = before - second
    return np.array([x, y, following, last, domain.project(last)])


def _measure_second_step(path: Array) -> float:
    return float(np.linalg.norm(path[4] - path[2]))


def report_staleness(settings: Settings) -> Section:
    """One round of Example (i), in which the lazy point stays and the greedy one moves."""
    t = 13  # the first gradient that points back
    sigma = 10.0
    scenario = rotating()
    g = scenario.costs.arrays()[0]
    figures = {}
    still = []
    for label, learner in (("LazyGD", LazyGD(L1Ball(2), sigma)), ("GD", GD(L1Ball(2), sigma))):
        stale = run(learner, scenario.costs, engine="step").diagnose().stale.astype(bool)
        what = "moves: y has left the normal cone at the vertex"
        if stale[t - 1]:
            what = "stays: y is still in the normal cone at the vertex"
        figures[label] = (step_picture(learner, g, t), f"Round {t} of Example (i). {label} {what}.")
        still.append(f"{label} in {int(stale.sum())}")
    text = [
        "Proposition 3: a point stays as long as the unconstrained point y lies in the normal cone of the set there. A lazy "
        "learner carries y on, deep in the cone. A greedy one starts from the boundary, so the next gradient leads out of it.",
        f"With sigma = {sigma:g} the point stays, though the gradient is not zero: {', '.join(still)} of {len(g)} rounds.",
    ]
    return Section("Staleness: why a lazy point stays", text, figures=figures)


def report_ensemble(settings: Settings) -> Section:
    """The experts of a small ensemble at one round: which gradients each adds up, and what it weighs."""
    T = 100
    t = 64
    scenario = stochastic(0, phases=2, length=T // 2)
    ensemble = sader_k(scenario.domain, T, 1.0, beta="self-tuned", lazy=True)
    grid = expert_grid(T, 1.0, scenario.domain.reach())
    grid.append((grid[0][0], T))  # the lazy one, at the largest sigma
    sigmas, slacks = zip(*grid, strict=True)
    weights = run(ensemble, scenario.costs, record="experts", engine="step").weights[t - 1]
    figure = show.draw_experts(sigmas, slacks, weights, t)
    heaviest = int(np.argmax(weights))
    text = [
        "Each expert has its own sigma and its own slack k. The ensemble plays the average of their points by weight.",
        f"Here T = {T}. In round {t} the heaviest expert has k = {slacks[heaviest]} and {weights[heaviest]:.0%} of the weight.",
    ]
    caption = "Which gradients each expert adds up, from its anchor (dot) on, and its weight. The last one is fully lazy."
    return Section("The ensemble, in one round", text, figures={"ensemble": (figure, caption)})


def report_phases(settings: Settings) -> Section:
    """Which gradients each update adds up, and what the two sequences look like in one coordinate."""
    sign = np.repeat([1.0, -1.0], 20)
    noisy = sign + np.random.default_rng(settings.seed).normal(scale=np.sqrt(10.0), size=40)
    bursts = sign * np.tile(np.where(np.arange(10) < 8, 1.0, -1.0), 4)
    figures = {
        "phases": (
            show.draw_phases(8, 24),
            "What the next point is built from: greedy, lazy, and k-lazy with phases of 8 rounds.",
        ),
        "stochastic": (
            show.draw_sequence(noisy, sign),
            "A small stochastic sequence: 2 phases of 20 rounds, before scaling.",
        ),
        "corrupted": (
            show.draw_sequence(bursts, sign),
            "A small corrupted sequence: 2 phases of 20 rounds with short bursts.",
        ),
    }
    wrong = int((noisy * sign < 0.0).sum())
    text = [
        "k-lazyGD starts a new sum every k rounds, from the point it has reached: greedy descent for k = 1, lazy for k >= T.",
        f"In the small stochastic sequence {wrong} of 40 costs have the sign of the other phase, in the corrupted one "
        f"{int((bursts * sign < 0.0).sum())}.",
    ]
    return Section("Phases, and the two kinds of costs", text, figures=figures)


def report_lower_bound(settings: Settings) -> Section:
    """The wave that costs k-lazyGD a regret linear in k, and its exact regret beside the measured one."""
    k = 4
    T = 16
    sigma = 1.5
    rows = []
    scenario = square_wave(k, T)
    learner = KLazyGD(square_wave(k, T).domain, sigma, k)
    g = scenario.costs.arrays()[0][:, 0]
    x = run(learner, scenario.costs, engine="step").x[:, 0]
    start = np.arange(T) - np.arange(T) % k
    held = np.concatenate(([0.0], np.cumsum(g)))[:T] - np.concatenate(([0.0], np.cumsum(g)))[start]
    figure = show.draw_wave(g, x[start] - held / sigma, x, np.asarray(scenario.comparator)[:, 0], k)
    for slack in (2, 4, 7, 16, 50, 100):
        wave = square_wave(slack, 1000)
        trace = run(KLazyGD(wave.domain, 5.0, slack), wave.costs, engine="step")
        measured = regret(trace, wave.comparator).dynamic
        exact = square_wave_regret(slack, 1000, 5.0)
        flips = 2 * (1000 // slack) - 1
        rows.append(
            {
                "k": slack,
                "T": 1000,
                "sigma": 5.0,
                "measured": measured,
                "exact": exact,
                "flips": flips,
                "printed": (slack - slack % 2)
                * flips
                / 4.0,  # the proof's last line; its path counts a flip as 1
                "P_T": 2 * flips,
            }
        )
    most = max(abs(row["measured"] - row["exact"]) for row in rows)
    text = [
        f"Dynamic regret on the wave, measured and by its exact formula: they differ by at most {most:.1g}."
    ]
    caption = (
        f"The wave for k = {k}, sigma = {sigma}: every block ends where it began, so that no pruning helps."
    )
    return Section("The lower bound's sequence", text, {"lower-bound": rows}, {"wave": (figure, caption)})
