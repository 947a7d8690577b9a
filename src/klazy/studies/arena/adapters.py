"""Learners of other packages, where these are installed: they play the same rounds, on the same sets.

PyNOL (Li, Zhao, Xie, Zhang and Zhou, MIT licence) has ensembles for dynamic regret. Its models change as they play, so they
are not learners of klazy; what they play is charged as everybody's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.studies.arena.contenders import OUTSIDE, Contender
from klazy.studies.arena.suite import Game


def list_outside() -> list[Contender]:
    """Those of PyNOL, if it is installed."""
    try:
        import pynol.environment.environment  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return []
    return [
        Contender("Ader (PyNOL)", OUTSIDE, make_ader),
        Contender("Scream (PyNOL)", OUTSIDE, make_scream),
    ]


def make_ader(domain: Any, T: int, G: float, price: float, start: Array) -> Any:
    """PyNOL's Ader, which knows of no movement cost."""
    from pynol.learner.models.dynamic.ader import Ader  # pyright: ignore[reportMissingImports]

    return Ader(domain, T, G, prior=start)


def make_scream(domain: Any, T: int, G: float, price: float, start: Array) -> Any:
    """PyNOL's Scream, made for movement costs."""
    from pynol.learner.models.dynamic.scream import Scream  # pyright: ignore[reportMissingImports]

    return Scream(domain, T, G, price, prior=start)


def play_outside(make: Callable[..., Any], game: Game, largest: float) -> Array:
    """The points that a model of PyNOL plays, told the horizon and the largest gradient of the first half."""
    from pynol.environment.environment import Environment  # pyright: ignore[reportMissingImports]

    costs = game.costs
    price = float(np.max(game.movement.weight)) * game.movement.lipschitz(game.domain.dim)
    model = make(_Domain(game), costs.T, largest, price, np.array(game.domain.start))
    points = np.empty((costs.T, costs.dim))
    for t in range(1, costs.T + 1):
        value = _fix_round(costs.value, t)
        gradient = _fix_round(costs.subgradient, t)
        points[t - 1], _, _ = model.opt(Environment(func=value, grad_func=gradient))
    return points


def _fix_round(function: Callable[[int, Array], Any], t: int) -> Callable[[Array], Any]:
    """The function of x alone, in this round."""
    return lambda x: function(t, x)


class _Domain:
    """A set of klazy as PyNOL's models ask for it."""

    def __init__(self, game: Game) -> None:
        self.set = game.domain
        self.dimension = game.domain.dim
        self.R = game.domain.diameter / 2.0

    def init_x(self, prior: Any = None, seed: Any = None) -> Array:
        return np.array(self.set.start if prior is None else prior)

    def project(self, x: Array) -> Array:
        return self.set.nearest(x)
