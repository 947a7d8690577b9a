"""Rules of thumb that an engineer would try first: each says, for a piece of the trace, what it would have played.

They are as causal as learners: the point of round t is made from rows before t. What they follow is the leader, the point that
would have been best for the average of some past rows.
"""

from typing import Any

import numpy as np

from klazy.arrays import Array
from klazy.replay.game import Game

ROUNDING = 1e-10  # of a mean square, below which a variance is nothing but the rounding of sums
BLOCK = 512  # rounds in which a dead band is looked through at a time


class Leader:
    """What is best for an average of rows, and how good another point is for it."""

    def __init__(self, game: Game) -> None:
        from scipy.special import ndtri

        self.game = game
        self.quantile = float(ndtri(game.short / (game.short + game.excess))) if game.family == "pinball" else 0.0

    def moments(self, rows: Array) -> Array:
        """What is averaged: the row (its logarithm for wealth), and for pinball costs its square too."""
        first = -np.log(rows) if self.game.family == "log-wealth" else rows
        return np.hstack((first, rows**2)) if self.quantile else first

    def aim(self, means: Array) -> Array:
        """The row that the average stands for: itself, or the demand that is met often enough if it is normal."""
        if not self.quantile:
            return means
        mean, square = np.split(means, 2, axis=-1)
        variance = square - mean**2
        return mean + self.quantile * np.sqrt(np.where(variance > ROUNDING * square, variance, 0.0))

    def best(self, means: Array) -> Array:
        """The points that are best for these averages."""
        aims, domain = self.aim(means), self.game.domain
        return domain.argmin_linear(aims) if self._linear else domain.project(aims)

    def cost(self, means: Array, x: Array) -> Array:
        """What x costs a round, if the rounds are as on average."""
        aims = self.aim(means)
        return (
            np.vecdot(aims, x) if self._linear else self.game.costs(np.atleast_2d(aims)).values(np.broadcast_to(x, aims.shape))
        )

    @property
    def _linear(self) -> bool:
        return self.game.family in ("linear", "log-wealth")


class Rule:
    """A rule at work: ``play`` gives the points of the next rounds. ``window`` is how many rows it averages; None means all.

    ``every`` lets it move only each so many rounds, ``hold`` only so many rounds after its last move, and ``horizon`` only if
    what it saves on average in so many rounds pays for the move.
    """

    def __init__(
        self, game: Game, *, window: int | None = None, every: int = 1, hold: int = 1, horizon: float | None = None
    ) -> None:
        self.leader, self.movement, self.domain = Leader(game), game.movement, game.domain
        self.window, self.every, self.hold, self.horizon = window, every, hold, horizon
        self.x = game.domain.start
        self.t, self.moved = 0, 0  # rounds so far, and the one it moved in
        self.seen: Any = None  # the sum of all moments, or the latest of them

    def play(self, rows: Array) -> Array:
        """What it plays while these rows come, of shape (n, d)."""
        means = self._means(self.leader.moments(rows))
        known = np.arange(len(rows)) + self.t > 0  # before the first row there is nothing to follow
        aims = np.where(known[:, None], self.leader.best(means), self.x)
        points = self._banded(aims, means) if self.horizon is not None else self._held(aims)
        self.t += len(rows)
        self.x = points[-1].copy()
        return points

    def _means(self, moments: Array) -> Array:
        """For each round the average of what came before it."""
        n, width = moments.shape
        if self.window is None:
            before = np.zeros(width) if self.seen is None else self.seen
            sums = before + np.vstack((np.zeros(width), np.cumsum(moments, axis=0)))
            self.seen = sums[-1].copy()
            return sums[:-1] / np.maximum(self.t + np.arange(n), 1)[:, None]
        tail = np.empty((0, width)) if self.seen is None else self.seen
        both = np.vstack((tail, moments))
        self.seen = both[-self.window :].copy()  # not a view, which would keep all rows
        sums = np.vstack((np.zeros(width), np.cumsum(both, axis=0)))
        ends = len(tail) + np.arange(n)
        starts = np.maximum(ends - self.window, 0)
        return (sums[ends] - sums[starts]) / np.maximum(ends - starts, 1)[:, None]

    def _held(self, aims: Array) -> Array:
        """Follow the aims in the rounds in which it may move."""
        n, rounds = len(aims), self.t + np.arange(len(aims))
        if self.hold == 1:
            moves = rounds % self.every == 0
            latest = np.maximum.accumulate(np.where(moves, np.arange(n), -1))
            return np.where((latest >= 0)[:, None], aims[latest], self.x)
        points, x, at = np.empty_like(aims), self.x, 0
        changes = np.flatnonzero((aims[1:] != aims[:-1]).any(axis=1)) + 1  # the only rounds in which a stale aim gets new
        while at < n:
            ready = max(at, self.moved + self.hold - self.t)
            if ready < n and (aims[ready] == x).all():
                later = changes[np.searchsorted(changes, ready, side="right") :]
                ready = int(later[0]) if len(later) else n
            points[at : min(ready, n)] = x
            at = ready
            if at < n:
                x, self.moved = aims[at], self.t + at
                points[at] = x
                at += 1
        return points

    def _banded(self, aims: Array, means: Array) -> Array:
        """Follow an aim only if it pays."""
        points, x, at = np.empty_like(aims), self.x, 0
        weight, horizon = float(np.max(self.movement.weight)), self.horizon or 0.0
        while at < len(aims):
            block = slice(at, min(at + BLOCK, len(aims)))
            saved = self.leader.cost(means[block], x) - self.leader.cost(means[block], aims[block])
            pays = horizon * saved > weight * self.movement.distance(aims[block] - x)
            first = int(pays.argmax()) if pays.any() else block.stop - at
            points[at : at + first] = x
            at += first
            if at < block.stop:
                x = aims[at]
                points[at] = x
                at += 1
        return points


class Still:
    """One point for all rounds."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def play(self, rows: Array) -> Array:
        return np.broadcast_to(self.x, rows.shape)
