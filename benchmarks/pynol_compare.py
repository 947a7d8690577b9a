"""The same learners in PyNOL and in klazy, on the same costs: how far their points are apart.

PyNOL (github.com/li-lf/PyNOL, MIT licence) is not on PyPI. Have a checkout of it, autograd and cvxpy, on PYTHONPATH, and run

    python benchmarks/pynol_compare.py

Ensembles have the same experts, rates and starts in both, and who learns from costs alone tries the same directions. What each
package chooses by itself differs: PyNOL's Ader, Scream and PBGD have rates that fall with the rounds, as its Sword and Sword++
may, and its grids of steps are its own. PyNOL's SwordVariation guesses before its experts have moved, so its guess is the last
round's losses. Its documentation has the last gradient at the new points, as the paper and klazy do; "mended" makes that guess
once the experts have moved.
"""

import math
from collections import defaultdict
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

import klazy as kl
from klazy.base.checks import Array
from klazy.contrib import (
    Bandit,
    OptimisticGD,
    OptimisticHedge,
    SquaredMovement,
    StronglyAdaptive,
)
from klazy.families import Linear, Quadratic
from klazy.learners.bandit import draw_direction

T = 500
RADIUS = 1.5
BALL = kl.L2Ball(3, RADIUS)
START = np.array([0.3, -0.2, 0.1])
G = 3.5
L = 1.0
RATE = 1.0 / (8.0 * BALL.diameter**2 * L)  # of both Swords, as long as gradients change little
SLOW = 0.05
LEVELS = math.ceil(math.log2(T))
AWAY = 0.3  # how far from its point a learner tries that sees costs alone


class Kept(kl.types.Schedule):
    """PyNOL's scale-free sigma, the root of 1 plus all squared gradients."""

    def __call__(self, t: int) -> float:
        raise TypeError("It depends on the gradients.")

    def observe(self, t: int, energy: float, g: Array) -> tuple[float, float]:
        energy = energy + float(g @ g)
        return math.sqrt(1.0 + energy), energy


class Afresh(kl.GD):
    """A descent that begins at its own start, as PyNOL's do, and not at the ensemble's point."""

    def init(self, x: Array | None = None) -> Any:
        return super().init(None)


class FixedCover(StronglyAdaptive):
    """klazy's adaptive learner with PyNOL's experts."""

    def __init__(self) -> None:
        super().__init__(BALL, 1.0 / BALL.diameter, 0.0, levels=LEVELS, start=START)
        self._keep(experts=tuple(Afresh(BALL, Kept(), start=START) for _ in range(LEVELS)))


def find(path: str, name: str) -> Any:
    """Return a class of PyNOL, on the same set, with the same start and the same directions to try."""
    ball = import_module("pynol.environment.domain").Ball(BALL.dim, RADIUS)
    directions = map(partial(draw_direction, BALL, 0), count(1))
    ball.unit_vec = lambda: next(directions)
    return partial(getattr(import_module(f"pynol.learner.{path}"), name), ball, prior=START)


def play(model: Any, costs: kl.types.Costs) -> Array:
    """Return the points of a model of PyNOL."""
    environment = import_module("pynol.environment.environment").Environment
    perturbation = getattr(model, "perturbation", None)
    x = np.empty((costs.T, costs.dim))
    for t in range(1, costs.T + 1):
        told = {"func": partial(costs.value, t), "grad_func": partial(costs.subgradient, t)}
        point, _, _ = model.opt(environment(**told, full_info=perturbation is None))
        # With one try a round, PBGD returns the point around which it tried, and not the one it played.
        x[t - 1] = getattr(perturbation, "x", point)
    return x


def mend(model: Any) -> Any:
    """Have PyNOL's Sword guess once its experts have moved."""
    guess = model.optimism_meta.compute_optimism_meta
    model.optimism_meta.is_external = True
    model.optimism_meta.compute_optimism_meta = lambda known: (
        guess(known) if "env" in known else None
    )
    return model


def list_pairs(family: Any) -> dict[str, tuple[Any, kl.types.Learner[Any]]]:
    """Pair the learners of both packages; the extra gradients of some need the family of the costs."""

    def descend(model: Any, **options: Any) -> list[OptimisticGD]:
        steps = [base.step_size for base in model.schedule.bases]
        return [OptimisticGD(BALL, learning_rate=float(s), start=START, **options) for s in steps]

    def mix(model: Any, price: float = 0.0) -> kl.SAder:
        model.meta.lr = SLOW
        steps = [base.step_size for base in model.schedule.bases]
        experts = [kl.GD(BALL, learning_rate=float(step), start=START) for step in steps]
        return kl.SAder(experts, SLOW, movement=kl.L2Movement(price))

    def guess(model: Any, points: int) -> Bandit:
        return Bandit(mix(model), points, delta=model.perturbation.scale_perturb)

    ader = find("models.dynamic.ader", "Ader")(T=T, G=G)
    scream = find("models.dynamic.scream", "Scream")(T=T, G=G, penalty=1.0)
    plus = find("models.dynamic.swordpp", "SwordPP")(T=T, G=G, L_smooth=L)
    make_sword = find("models.dynamic.sword", "SwordVariation")
    sword = make_sword(T=T, G=G, L_smooth=L)
    one = find("models.dynamic.pbgd", "PBGDOnePoint")(T=T, C=G)
    step = {"step_size": 0.25}
    own = {"family": family}
    greedy = kl.GD(BALL, 4.0, start=START)
    pairs = {
        "OGD | GD": (find("base", "OGD")(**step), greedy),
        "SOGD | GD": (find("base", "SOGD")(), kl.GD(BALL, Kept(), start=START)),
        "OptimisticOGD | OptimisticGD": (
            find("base", "OptimisticOGD")(**step, optimism_type="last_grad"),
            OptimisticGD(BALL, 4.0, start=START),
        ),
        "OEGD | OptimisticGD": (
            find("base", "OEGD")(**step),
            OptimisticGD(BALL, 4.0, start=START, **own),
        ),
        "BGDOnePoint | Bandit": (
            find("base", "BGDOnePoint")(**step, scale_perturb=AWAY),
            Bandit(greedy, 1, delta=AWAY),
        ),
        "Ader | SAder": (ader, mix(ader)),
        "Scream | SAder": (scream, mix(scream, 1.0)),
        "PBGDOnePoint | Bandit around SAder": (one, guess(one, 1)),
        "SwordPP | OptimisticHedge": (
            plus,
            OptimisticHedge(descend(plus), RATE, toll=SquaredMovement(4.0 * L)),
        ),
        "SwordVariation | OptimisticHedge": (
            sword,
            OptimisticHedge(descend(sword, **own), RATE, **own),
        ),
        "the same, mended | OptimisticHedge": (
            mend(make_sword(T=T, G=G, L_smooth=L)),
            OptimisticHedge(descend(sword, **own), RATE, **own),
        ),
    }
    if isinstance(family, Linear):
        # PyNOL's gains are not linearised, and of two points it tries none is its own: the same on linear costs alone.
        two = find("models.dynamic.pbgd", "PBGDTwoPoint")(T=T, L_lipschitz=G)
        pairs |= {
            "SAOL | StronglyAdaptive": (find("models.adaptive.saol", "SAOL")(T=T), FixedCover()),
            "BGDTwoPoint | Bandit": (
                find("base", "BGDTwoPoint")(**step, scale_perturb=AWAY),
                Bandit(greedy, 2, delta=AWAY),
            ),
            "PBGDTwoPoint | Bandit around SAder": (two, guess(two, 2)),
        }
    return pairs


def main() -> None:
    """Print the largest differences of a coordinate."""
    rng = np.random.default_rng(0)
    targets = np.cumsum(0.1 * rng.normal(size=(T, 3)), axis=0)
    targets /= np.maximum(1.0, np.linalg.norm(targets, axis=1, keepdims=True) / 2.0)
    apart: dict[str, list[str]] = defaultdict(list)
    for costs in (Linear().costs(rng.normal(size=(T, 3)) / 10.0), Quadratic().costs(targets)):
        for label, (model, learner) in list_pairs(costs.family).items():
            ours = kl.run(learner, costs, engine="step").x
            apart[label].append(f"{np.abs(ours - play(model, costs)).max():.0e}")
    print("| PyNOL | klazy | linear costs | quadratic costs |\n|---|---|--:|--:|")
    for label, found in apart.items():
        print(f"| {label} | {' | '.join([*found, ''][:2])} |")


if __name__ == "__main__":
    main()
