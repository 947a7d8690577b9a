"""What baselines that look ahead share: their type, how they are played, and the proximal step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, refusal
from klazy.base.config import Config
from klazy.costs import CallableCosts, Costs
from klazy.game.game import Game
from klazy.game.trace import Totals, Trace
from klazy.hindsight.cutting import has_steps
from klazy.hindsight.optimum import GapNotReached
from klazy.hindsight.static import best_fixed
from klazy.movement import Movement
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded

SPLITS = 50_000  # alternations of a step and a projection at most
CLOSE = 1e-10  # relative to the set's size, how near the two must come
CUT = 1e-6  # the gap of a step by cutting planes


class LookAhead(Config, ABC):
    """Base class of baselines that see the costs of ``window`` + 1 rounds before they play the first of them.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.

    Raises
    ------
    ValueError
        If it is no set.
    """

    domain: ConvexSet
    window: int = 0

    def __init__(self, domain: ConvexSet) -> None:
        owner = type(self).__name__
        if not isinstance(domain, ConvexSet):
            raise refusal(owner, "a set to play on", "domain", repr(domain), f"write {owner}(L2Ball(5))")
        check_bounded(domain, owner)
        self._keep(domain=domain)

    @abstractmethod
    def points(self, game: Game) -> Array:
        """Choose the decisions of a whole game.

        Parameters
        ----------
        game : Game
            A checked game.

        Returns
        -------
        array
            What it plays, of shape (T, d).
        """

    def by_round(self, game: Game, play: Callable[[Costs, Array], Array]) -> Array:
        """Choose decisions one by one; before the first it stands at x0, or at the set's start.

        Parameters
        ----------
        game : Game
            The game.
        play : callable
            ``play(f, before)``, the decision for a single round f, from where it stands.

        Returns
        -------
        array
            What it plays, of shape (T, d).
        """
        at = self.domain.start if game.x0 is None else game.x0
        played = []
        for t in range(1, game.costs.T + 1):
            at = play(game.costs.window(t, t), at)
            played.append(at)
        return np.array(played)

    def step(self, f: Costs, center: Array, r: float) -> Array:
        r"""Take a proximal step, :math:`\arg\min_{x \in X} f(x) + \tfrac{r}{2} \|x - \mathrm{center}\|^2`.

        Parameters
        ----------
        f : Costs
            A single round.
        center : array
            What pulls.
        r : float
            How strongly.

        Returns
        -------
        array
            The minimiser.

        Raises
        ------
        ArithmeticError
            If iterations do not find it.
        """
        if not has_steps(f):
            return self._cut(f, center, r)
        known: Any = f
        family = known.family
        row = known.data
        by_coordinate = family.coordinate(0) is not None and self.domain.separable  # each stops at its bound
        if family.has_affine or by_coordinate:
            return self.domain.project(family.prox(row, center[None], r)[0])
        return self._split(family, row, center, r)

    def _cut(self, f: Costs, center: Array, r: float) -> Array:
        """Take the step by cutting planes, where the cost is known by subgradients alone."""

        def value(t: int, x: Array) -> float:
            return f.value(1, x) + 0.5 * r * float((x - center) @ (x - center))

        def subgradient(t: int, x: Array) -> Array:
            return f.subgradient(1, x) + r * (x - center)

        try:
            return best_fixed(CallableCosts(1, f.dim, value, subgradient), self.domain, gap=CUT).x
        except GapNotReached as short:
            return short.best.x

    def _split(self, family: Any, row: Array, center: Array, r: float) -> Array:
        """By splitting the set, with the attraction to the center, from the cost; rho is what holds the two together."""
        steep = float(family.steepness(row, center)[0]) / self.domain.scale
        rho = max(r, steep) if np.isfinite(steep) else r
        z = center
        near = CLOSE * self.domain.scale
        for _ in range(SPLITS):
            x = self.domain.project((r * center + rho * z) / (r + rho))
            v = family.prox(row, (2.0 * x - z)[None], rho)[0]
            z = z + v - x
            if np.abs(v - x).max() <= near:
                return x
        raise ArithmeticError(
            f"{type(self).__name__} needs a proximal step, got none in {SPLITS} iterations; scale the costs."
        )


def run_ahead(
    player: LookAhead,
    costs: Costs | ArrayLike,
    *,
    movement: Movement | str | None = None,
    x0: ArrayLike | None = None,
) -> Trace[Any]:
    """Play a baseline that looks ahead.

    Parameters
    ----------
    player : LookAhead
        Who plays.
    costs : Costs or array_like
        What rounds cost, or gradients of shape (T, d).
    movement : Movement or str, optional
        What moving costs, or its short name. Default: what suits the set, at a price of 1.
    x0 : array_like, optional
        The position before the first round. Default: none, so that the first round moves for free.

    Returns
    -------
    Trace
        As :func:`~klazy.run`'s; its ``engine`` is ``"look-ahead"``.

    Raises
    ------
    ValueError
        If it is a learner, which :func:`~klazy.run` plays, or parts do not fit together.

    Examples
    --------
    >>> trace = run_ahead(RecedingHorizon(Box(-1, 1), window=1), [[1.0], [-1.0], [-1.0], [1.0]], movement=L1Movement(0.8))
    >>> trace.engine, trace.x[:, 0].tolist()
    ('look-ahead', [-1.0, 1.0, 1.0, -1.0])
    """
    owner = "run_ahead"
    if not isinstance(player, LookAhead):
        raise refusal(
            owner, "a baseline that looks ahead", "player", repr(player), "learners are played by run"
        )
    game = Game.check(owner, player.domain, costs, movement, x0)
    game.costs.check_finite()
    x = player.points(game)
    hitting = game.costs.values(x)
    switching = game.movement.paid(x, game.x0)
    totals = Totals(float(hitting.sum()), float(switching.sum()))
    return Trace[Any](
        engine="look-ahead",
        record="actions",
        T=game.costs.T,
        dim=game.costs.dim,
        totals=totals,
        movement=game.movement,
        kept={"x": x, "hitting": hitting, "switching": switching},
        state=None,
        x0=game.x0,
        costs=game.costs,
        columns=game.costs.columns,
        text=repr(player),
    )
