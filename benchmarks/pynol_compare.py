"""The same learners in PyNOL and in klazy, on the same costs: how far their points and costs are apart.

PyNOL (github.com/li-lf/PyNOL, MIT licence) is not on PyPI. Have a checkout of it, and autograd, on PYTHONPATH, and run

    python benchmarks/pynol_compare.py

Ensembles have the same experts, rates and starts in both. What each package chooses by itself differs: PyNOL's Ader and Scream
have rates that fall with the rounds, as its Sword and Sword++ may, and its grids of steps are its own. PyNOL's SwordVariation
guesses before its experts have moved, so its guess is the last round's losses. Its documentation has the last gradient at the
new points, as the paper and klazy do; "mended" makes that guess once the experts have moved.
"""

import math
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import klazy as kl
from klazy.base.checks import Array
from klazy.contrib import OptimisticGD, OptimisticHedge, SquaredMovement, StronglyAdaptive
from klazy.families import Linear, Quadratic

T = 500
RADIUS = 1.5
BALL = kl.L2Ball(3, RADIUS)
START = np.array([0.3, -0.2, 0.1])
G = 3.5
L = 1.0
RATE = 1.0 / (8.0 * BALL.diameter**2 * L)  # of both Swords, as long as gradients change little
SLOW = 0.05
LEVELS = math.ceil(math.log2(T))


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
    """Return a class of PyNOL, on the same set and with the same start."""
    ball = import_module("pynol.environment.domain").Ball(BALL.dim, RADIUS)
    return partial(getattr(import_module(f"pynol.learner.{path}"), name), ball, prior=START)


def play(model: Any, costs: kl.costs.FamilyCosts) -> Array:
    """Return the points of a model of PyNOL."""
    environment = import_module("pynol.environment.environment").Environment
    x = np.empty((costs.T, costs.dim))
    for t in range(1, costs.T + 1):
        told = {"func": partial(costs.value, t), "grad_func": partial(costs.subgradient, t)}
        x[t - 1], _, _ = model.opt(environment(**told))
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

    def mix(model: Any, price: float) -> kl.SAder:
        model.meta.lr = SLOW
        steps = [base.step_size for base in model.schedule.bases]
        experts = [kl.GD(BALL, learning_rate=float(step), start=START) for step in steps]
        return kl.SAder(experts, SLOW, movement=kl.L2Movement(price))

    ader = find("models.dynamic.ader", "Ader")(T=T, G=G)
    scream = find("models.dynamic.scream", "Scream")(T=T, G=G, penalty=1.0)
    plus = find("models.dynamic.swordpp", "SwordPP")(T=T, G=G, L_smooth=L)
    make_sword = find("models.dynamic.sword", "SwordVariation")
    sword = make_sword(T=T, G=G, L_smooth=L)
    step = {"step_size": 0.25}
    own = {"family": family}
    return {
        "OGD, GD": (find("base", "OGD")(**step), kl.GD(BALL, 4.0, start=START)),
        "SOGD, GD": (find("base", "SOGD")(), kl.GD(BALL, Kept(), start=START)),
        "OptimisticOGD, OptimisticGD": (
            find("base", "OptimisticOGD")(**step, optimism_type="last_grad"),
            OptimisticGD(BALL, 4.0, start=START),
        ),
        "OEGD, OptimisticGD": (
            find("base", "OEGD")(**step),
            OptimisticGD(BALL, 4.0, start=START, **own),
        ),
        "Ader, SAder": (ader, mix(ader, 0.0)),
        "Scream, SAder": (scream, mix(scream, 1.0)),
        "SwordPP, OptimisticHedge": (
            plus,
            OptimisticHedge(descend(plus), RATE, toll=SquaredMovement(4.0 * L)),
        ),
        "SwordVariation, OptimisticHedge": (
            sword,
            OptimisticHedge(descend(sword, **own), RATE, **own),
        ),
        "the same, mended": (
            mend(make_sword(T=T, G=G, L_smooth=L)),
            OptimisticHedge(descend(sword, **own), RATE, **own),
        ),
    }


def main() -> None:
    """Print the largest differences."""
    rng = np.random.default_rng(0)
    targets = np.cumsum(0.1 * rng.normal(size=(T, 3)), axis=0)
    targets /= np.maximum(1.0, np.linalg.norm(targets, axis=1, keepdims=True) / 2.0)
    games = {
        "quadratic": (Quadratic(), targets),
        "linear": (Linear(), rng.normal(size=(T, 3)) / 10.0),
    }
    print(f"{'costs':10} {'PyNOL, klazy':32} {'points':>8} {'costs':>8} {'PyNOL paid':>12}")
    for name, (family, rows) in games.items():
        costs = family.costs(rows)
        pairs = list_pairs(family)
        if name == "linear":
            # PyNOL's gains are not linearised, so they are klazy's on linear costs alone.
            pairs["SAOL, StronglyAdaptive"] = (
                find("models.adaptive.saol", "SAOL")(T=T),
                FixedCover(),
            )
        for label, (model, learner) in pairs.items():
            theirs = play(model, costs)
            ours = kl.run(learner, costs, engine="step").x
            paid = costs.values(theirs)
            apart = np.abs(costs.values(ours) - paid).max()
            print(
                f"{name:10} {label:32} {np.abs(ours - theirs).max():8.0e} {apart:8.0e} {paid.sum():12.4f}"
            )


if __name__ == "__main__":
    main()
