"""Baselines that see f_t, and play between advice and a rule that one trusts."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, positive, rows
from klazy.contrib.lookahead import LookAhead, PlayNext
from klazy.game.game import Game
from klazy.learners.base import Learner
from klazy.learners.better import check_symmetric
from klazy.learners.sader import check_norm
from klazy.sets import ConvexSet

Player = LookAhead | Learner[Any] | ArrayLike


class _Advised(LookAhead):
    """Base class of baselines between two players: it knows their points, and what each pays."""

    advice: Any
    robust: Any
    delta: float

    def __init__(
        self, domain: ConvexSet, advice: Player, robust: Player, delta: float = 0.1
    ) -> None:
        super().__init__(domain)
        kept = {"advice": advice, "robust": robust}
        self._keep(**{name: self._check(player, name) for name, player in kept.items()})
        self._keep(delta=positive(delta, "delta"))

    def _check(self, player: Any, name: str) -> Any:
        """Return a player of this set, or decisions moved into it."""
        if not isinstance(player, LookAhead | Learner):
            return self.domain.nearest(rows(player, name, self.domain.dim))
        if player.domain != self.domain:
            raise InvalidInput(
                f"{name} must be on the set {self.domain!r}, but is on {player.domain!r}."
            )
        return player

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
        played = [self._play(player, name, game) for name, player in self._players()]
        paid = [game.costs.values(x) + game.movement.paid(x, game.x0) for x in played]
        shares = self.choose(game, np.array(paid))[:, None]
        return (1.0 - shares) * played[0] + shares * played[1]

    @abstractmethod
    def choose(self, game: Game, paid: Array) -> Array:
        """Choose the share of the robust player in every round.

        Parameters
        ----------
        game : Game
            The game.
        paid : array
            What advice and robust player pay in every round, of shape (2, T); that of round t counts from round t on.

        Returns
        -------
        array
            The shares, of shape (T,).
        """

    def _players(self) -> list[tuple[str, Any]]:
        return [("advice", self.advice), ("robust", self.robust)]

    def _play(self, player: Any, name: str, game: Game) -> Array:
        """Return what a player plays; decisions must be as many as there are rounds."""
        if isinstance(player, Learner):
            player = PlayNext(player)
        if isinstance(player, LookAhead):
            return player.points(game)
        return rows(player, name, game.costs.dim, game.costs.T)


class LookAheadInterpolation(_Advised):
    r"""Play between advice and a robust player, on a bounded set: bounded interpolation (BdInterp).

    With :math:`c^a_t` and :math:`c^r_t` what the two pay in round t, movement included, D the diameter of the set, and
    :math:`w_0 = 0`,

    .. math:: x_t = (1 - w_t)\, a_t + w_t\, r_t, \qquad
              w_t = \min\Bigl(1, \max\Bigl(0,\; w_{t-1} + \frac{\delta}{2 \lambda D} (c^a_t - c^r_t)\Bigr)\Bigr).

    For convex costs that are never negative it pays at most :math:`(1 + \delta)\, C_a`, and at most
    :math:`(1 + \delta)\, C_r + (1 + 1/\delta) \lambda D`, whatever the advice is; with costs below zero both hold for what the
    two pay beyond :math:`\sum_t \min(c^a_t, c^r_t)`. The proof is on the page Ensembles. The setting, the name and the orders
    :math:`1 + \delta` and :math:`O(C_r + D/\delta)` are those of Christianson, Handina and Wierman, *Chasing Convex Bodies and
    Functions with Black-Box Advice* (2022); this rule of the weights, after Blum and Burch (2000), and its constants are
    klazy's own.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    advice : LookAhead, Learner or array_like
        Who advises: decisions of shape (T, d), or a player. A learner sees f_t, too, as in :class:`PlayNext`.
    robust : LookAhead, Learner or array_like
        Whom to trust, such as a baseline with a competitive ratio.
    delta : float, optional
        How much more than the advice it may pay, as a share, > 0. Default: 0.1.

    Examples
    --------
    >>> costs = QuadraticCosts([[1.0]] * 40)
    >>> box = Box(-1, 1)
    >>> for advice in (np.ones((40, 1)), -np.ones((40, 1))):
    ...     player = LookAheadInterpolation(box, advice, OBD(box), delta=0.5)
    ...     print(round(run_ahead(player, costs, x0=[1.0]).totals.cost, 2))
    0.0
    2.62
    """

    def choose(self, game: Game, paid: Array) -> Array:
        """Choose the share of the robust player in every round.

        Parameters
        ----------
        game : Game
            The game.
        paid : array
            What the two pay in every round, of shape (2, T).

        Returns
        -------
        array
            The shares, of shape (T,).
        """
        check_norm(game.movement.replace(weight=1.0), game.costs.dim)
        slope = game.movement.lipschitz(game.costs.dim)
        crossing = float(game.weights.max()) * slope * self.domain.scale
        if crossing == 0.0:
            return (paid[0] > paid[1]).astype(float)
        shares = np.empty(paid.shape[1])
        w = 0.0
        for t, difference in enumerate((paid[0] - paid[1]).tolist()):
            w = min(1.0, max(0.0, w + self.delta / (2.0 * crossing) * difference))
            shares[t] = w
        return shares


class AdaptiveSwitching(_Advised):
    r"""Switch between advice and a robust player, for costs that need not be convex: adaptive online switching (AOS).

    It plays the advice at first. With :math:`C_a` and :math:`C_r` what the two have paid up to round t, round t included, it
    leaves the advice if :math:`C_a > p\, C_r`, and goes back to it if :math:`C_r > q\, C_a`. A point of one player is always
    played as it is, so that costs may be any that are never negative, and decisions may be whole.

    With :math:`\kappa = \min(1, \lambda / \alpha)`, where costs grow by at least :math:`\alpha\, m(x - v_t)` around their
    minimiser (they are :math:`\alpha`-polyhedral; :math:`\kappa = 1` for all others), and a norm that costs the same in both
    directions, it pays at most

    .. math:: (1 + 2\kappa + \delta)\, C_a \qquad\text{and}\qquad
              \Bigl(1 + p + \kappa \frac{(2 + p + 1/q)\, pq}{pq - 1}\Bigr) C_r = O(1/\delta^2)\; C_r,

    whatever the advice is; :attr:`ratios` has the numbers. If :math:`\alpha > \lambda` and the advice is optimal, it never
    leaves it, and pays what it pays. The proofs are on the page Ensembles. No rule that only switches pays less than 3 times
    what any advice pays and stays robust (Christianson, Handina and Wierman, 2022): use :class:`LookAheadInterpolation` where
    costs are convex. The setting is that of Rutten, Christianson, Mukherjee and Wierman, *Smoothed Online
    Optimization with Unreliable Predictions* (2023), whose AOS has other thresholds and pays at most :math:`1 + \delta` times
    the optimum if the advice is perfect.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    advice : LookAhead, Learner or array_like
        Who advises: decisions of shape (T, d), or a player. A learner sees f_t, too, as in :class:`PlayNext`.
    robust : LookAhead, Learner or array_like
        Whom to trust, such as a baseline with a competitive ratio.
    delta : float, optional
        How much more than :math:`1 + 2\kappa` times the advice it may pay, between 0 and 1. Default: 0.1.
    growth : float, optional
        :math:`\alpha / \lambda`: what a unit of distance from the minimiser costs at least, in multiples of what it costs to
        move that far. Default: not known.

    Examples
    --------
    >>> costs = PinballCosts([[20.0], [60.0]] * 20, short=3.0, excess=3.0)
    >>> box = Box(0, 90)
    >>> for advice in (np.tile([[20.0], [60.0]], (20, 1)), np.zeros((40, 1))):
    ...     player = AdaptiveSwitching(box, advice, RecedingHorizon(box), delta=0.5, growth=3.0)
    ...     print(round(run_ahead(player, costs, movement="l1", x0=[20.0]).totals.cost))
    1560
    4660
    >>> [round(ratio, 2) for ratio in player.ratios]
    [2.17, 35.51]
    """

    growth: float | None

    def __init__(
        self,
        domain: ConvexSet,
        advice: Player,
        robust: Player,
        delta: float = 0.1,
        *,
        growth: float | None = None,
    ) -> None:
        super().__init__(domain, advice, robust, delta)
        if self.delta >= 1.0:
            raise InvalidInput(f"delta must be below 1, got {delta}. Use delta=0.5.")
        self._keep(growth=None if growth is None else positive(growth, "growth"))

    @property
    def kappa(self) -> float:
        r"""The most that crossing over costs, in multiples of what the two have paid, :math:`\kappa`."""
        return 1.0 if self.growth is None else min(1.0, 1.0 / self.growth)

    @property
    def thresholds(self) -> tuple[float, float]:
        """p and q: how many times as much as the other advice and robust player may have paid."""
        k = self.kappa
        linear = 1.0 + 3.0 * k + self.delta
        q = 2.0 * self.delta / (linear + math.sqrt(linear**2 - 4.0 * self.delta * (1.0 - k)))
        p = q**-2
        return (p if k == 1.0 else max(p, (1.0 + k) / (1.0 - k))), q

    @property
    def ratios(self) -> tuple[float, float]:
        """How many times as much as advice and robust player it pays at most."""
        p, q = self.thresholds
        k = self.kappa * p * q / (p * q - 1.0)
        return 1.0 + q + k * (2.0 + q + 1.0 / p), 1.0 + p + k * (2.0 + p + 1.0 / q)

    def choose(self, game: Game, paid: Array) -> Array:
        """Choose whether to play the robust player, in every round.

        Parameters
        ----------
        game : Game
            The game.
        paid : array
            What the two pay in every round, of shape (2, T).

        Returns
        -------
        array
            0 for the advice and 1 for the robust player, of shape (T,).
        """
        check_symmetric(game.movement, game.costs.dim)
        p, q = self.thresholds
        shares = np.empty(paid.shape[1])
        has_left = 0.0
        for t, (advice, robust) in enumerate(np.cumsum(paid, axis=1).T.tolist()):
            leads = robust <= q * advice if has_left else advice > p * robust
            has_left = float(leads)
            shares[t] = has_left
        return shares
