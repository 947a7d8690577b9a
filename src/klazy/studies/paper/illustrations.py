"""The paper's drawings, computed: which gradients an update adds up, one step on two sets, example costs, the lower bound."""

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.game.regret import regret
from klazy.game.run import run
from klazy.learners import GD, KLazyGD, LazyGD, sader_k
from klazy.sequences import rotating, square_wave, square_wave_regret, stochastic
from klazy.sets import ConvexSet, L1Ball, L2Ball
from klazy.studies.paper.definitions import PaperSettings
from klazy.studies.paper.section import Section
from klazy.theory import expert_grid
from klazy.theory.geometry import normal_cone, outline, step_picture


def report_geometry(section: Section, settings: PaperSettings) -> None:
    """Draw two gradients in a row, greedy and lazy, on a set with a vertex and on a round one."""
    sets: dict[str, ConvexSet] = {
        "l1 ball: lazy stays": L1Ball(2),
        "l2 ball: lazy moves less": L2Ball(2),
    }
    greedy = {name: _take_two_steps(domain, lazy=False) for name, domain in sets.items()}
    lazy = {name: _take_two_steps(domain, lazy=True) for name, domain in sets.items()}
    cones = {}
    moved = []
    for name, domain in sets.items():
        _, y, following, *_ = greedy[name]
        cones[name] = normal_cone(domain, following, y - following)
        second = [np.linalg.norm(path[4] - path[2]) for path in (greedy[name], lazy[name])]
        moved.append((name.partition(":")[0], *second))
    section.write("moved", moved=moved)
    outlines = {name: outline(domain) for name, domain in sets.items()}
    section.draw("geometry", show.draw_greedy_and_lazy(outlines, greedy, lazy, cones))


def _take_two_steps(domain: ConvexSet, lazy: bool) -> Array:
    """Return x_1, y_2, x_2, y_3, x_3 with sigma = 1."""
    x = domain.project(np.array([0.8, -0.2]))
    y = x - np.array([-1.0, 0.0])
    following = domain.project(y)
    last = (y if lazy else following) - np.array([0.1, 0.4])
    return np.array([x, y, following, last, domain.project(last)])


def report_staleness(section: Section, settings: PaperSettings) -> None:
    """Draw one round of Example (i), in which the lazy point stays and the greedy one moves."""
    # The first gradient that points back.
    t = 13
    sigma = 10.0
    costs = rotating().costs
    g = costs.arrays()[0]
    still = {}
    for label, learner in (("LazyGD", LazyGD(L1Ball(2), sigma)), ("GD", GD(L1Ball(2), sigma))):
        stale = run(learner, costs, engine="step").diagnose().stale.astype(bool)
        section.draw(label, step_picture(learner, g, t), t=t, label=label, stays=stale[t - 1])
        still[label] = stale.sum()
    section.write("proposition")
    section.write("still", sigma=sigma, still=still, rounds=len(g))


def report_ensemble(section: Section, settings: PaperSettings) -> None:
    """Draw the experts of a small ensemble in one round: which gradients each adds up, and its weight."""
    T = 100
    t = 64
    scenario = stochastic(0, phases=2, length=T // 2)
    grid = expert_grid(T, 1.0, scenario.domain.reach())
    # The lazy expert has the largest sigma.
    sigmas, slacks = zip(*grid, (grid[0][0], T), strict=True)
    ensemble = sader_k(scenario.domain, T, 1.0, beta="self-tuned", lazy=True)
    weights = run(ensemble, scenario.costs, record="experts", engine="step").weights[t - 1]
    heaviest = int(np.argmax(weights))
    section.write("grid")
    section.write("heaviest", T=T, t=t, k=slacks[heaviest], weight=weights[heaviest])
    section.draw("ensemble", show.draw_experts(sigmas, slacks, weights, t))


def report_phases(section: Section, settings: PaperSettings) -> None:
    """Draw which gradients each update adds up, and both sequences in one coordinate."""
    sign = np.repeat([1.0, -1.0], 20)
    noisy = sign + np.random.default_rng(settings.seed).normal(scale=np.sqrt(10.0), size=40)
    bursts = sign * np.tile(np.where(np.arange(10) < 8, 1.0, -1.0), 4)
    section.draw("phases", show.draw_phases(8, 24), "phases")
    section.draw("stochastic", show.draw_sequence(noisy, sign), "stochastic")
    section.draw("corrupted", show.draw_sequence(bursts, sign), "corrupted")
    section.write("sums")
    section.write("wrong", noisy=(noisy * sign < 0.0).sum(), bursts=(bursts * sign < 0.0).sum())


def report_lower_bound(section: Section, settings: PaperSettings) -> None:
    """Draw the wave that costs k-lazyGD a regret linear in k, and compare its exact regret with the measured one."""
    k = 4
    T = 16
    sigma = 1.5
    scenario = square_wave(k, T)
    g = scenario.costs.arrays()[0][:, 0]
    x = run(KLazyGD(scenario.domain, sigma, k=k), scenario.costs, engine="step").x[:, 0]
    start = np.arange(T) - np.arange(T) % k
    before = np.cumsum(g) - g
    y = x[start] - (before - before[start]) / sigma
    section.draw(
        "wave",
        show.draw_wave(g, y, x, np.asarray(scenario.comparator)[:, 0], k),
        k=k,
        sigma=sigma,
    )
    most = 0.0
    for slack in (2, 4, 7, 16, 50, 100):
        wave = square_wave(slack, 1000)
        trace = run(KLazyGD(wave.domain, 5.0, k=slack), wave.costs, engine="step")
        measured = regret(trace, wave.comparator).dynamic
        exact = square_wave_regret(slack, 1000, 5.0)
        flips = 2 * (1000 // slack) - 1
        # The proof's last line; its path counts a flip as 1.
        printed = (slack - slack % 2) * flips / 4.0
        about = {"k": slack, "T": 1000, "sigma": 5.0, "measured": measured, "exact": exact}
        section.tabulate("lower-bound", **about, flips=flips, printed=printed, P_T=2 * flips)
        most = max(most, abs(measured - exact))
    section.write("exact", most=most)
