"""Rules of thumb that an engineer would try first: each says, for a piece of the trace, what it would have played.

They are as causal as learners: the point of round t is made from rows before t. What they follow is the leader, the point that
would have been best for the average of some past rows.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.costs import QuadraticCosts
from klazy.studies.replay.setup import Setup

ROUNDING = 1e-10  # of a mean square, below which a variance is nothing but the rounding of sums
KEPT = 4  # windows whose averages are kept for the next candidate
ROOT_2_PI = float(np.sqrt(2.0 * np.pi))
CHUNK = 512  # rounds in which a dead band is looked through at a time


class Leader:
    """What is best for an average of rows, and how good another point is for it.

    For pinball costs the average has the rows' squares too, and stands for a normal demand with these moments. ``shared`` are
    rows that many rules play: what is best for their averages is found once.
    """

    def __init__(self, setup: Setup, shared: Array | None = None) -> None:
        self.setup = setup
        self.shared = shared
        self._linear = setup.family in ("linear", "log-wealth")
        self._pinball = setup.family == "pinball"
        # Of rounds in which the best point is enough.
        self._share = setup.short / (setup.short + setup.excess)
        self.average_shared = lru_cache(maxsize=KEPT)(self._average_shared)

    def take_moments(self, rows: Array) -> Array:
        """What is averaged: the row, its logarithm for wealth, and for pinball costs its square too."""
        if self._pinball:
            return np.hstack((rows, rows**2))
        return -np.log(rows) if self.setup.family == "log-wealth" else rows

    def _fit_normal(self, means: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of a demand."""
        mean, square = np.split(means, 2, axis=-1)
        variance = square - mean**2
        return mean, np.sqrt(np.where(variance > ROUNDING * square, variance, 0.0))

    def find_best(self, means: Array) -> Array:
        """The points that are best for these averages."""
        from scipy.special import ndtri

        if self._linear:
            return self.setup.domain.argmin_linear(means)
        if not self._pinball:
            return self.setup.domain.project(means)
        mean, spread = self._fit_normal(means)
        return self.setup.domain.project(mean + ndtri(self._share) * spread)

    def cost(self, means: Array, x: Array) -> Array:
        """What x costs a round, if the rounds are as on average."""
        if self._linear:
            return np.vecdot(means, x)
        if not self._pinball:
            targets = np.atleast_2d(means)
            return QuadraticCosts(targets).values(np.broadcast_to(x, targets.shape))
        from scipy.special import ndtr

        mean, spread = self._fit_normal(means)
        short = self.setup.short
        excess = self.setup.excess
        z = (x - mean) / np.where(spread > 0.0, spread, 1.0)
        density = np.exp(-0.5 * z**2) / ROOT_2_PI
        certain = np.maximum(mean - x, 0.0)
        missed = np.where(spread > 0.0, spread * (density - z * ndtr(-z)), certain)
        return (excess * (x - mean) + (short + excess) * missed).sum(axis=-1)

    def average(self, before: Any, t: int, moments: Array, window: int | None) -> tuple[Array, Any]:
        """For each round the average of what came before it, ``before`` that of the last call; what to hand in next."""
        n, width = moments.shape
        if window is None:
            sums = np.vstack((np.zeros(width), np.cumsum(moments, axis=0)))
            if before is not None:
                sums = before + sums
            counts = np.maximum(t + np.arange(n), 1)
            return sums[:-1] / counts[:, None], sums[-1].copy()
        tail = moments[:0] if before is None else before
        both = np.vstack((tail, moments))
        later = both[-window:].copy()  # not a view, which would keep all rows
        if window == 1:
            latest = both[:-1]
            if len(tail) == 0:
                latest = np.vstack((np.zeros((1, width)), latest))
            return latest, later
        sums = np.vstack((np.zeros(width), np.cumsum(both, axis=0)))
        ends = len(tail) + np.arange(n)
        starts = np.maximum(ends - window, 0)
        counts = np.maximum(ends - starts, 1)
        return (sums[ends] - sums[starts]) / counts[:, None], later

    def _average_shared(self, window: int | None) -> tuple[Array, Array, Any]:
        """The averages of the shared rows, the points that are best for them, and what to go on from."""
        assert self.shared is not None
        means, later = self.average(None, 0, self.take_moments(self.shared), window)
        return means, self.find_best(means), later


class Rule:
    """A rule at work: ``play`` gives the points of the next rounds. ``window`` is how many rows it averages; None means all.

    ``every`` lets it move only each so many rounds, ``hold`` only so many rounds after its last move, and ``horizon`` only if
    what it saves on average in so many rounds pays for the move.
    """

    def __init__(
        self,
        leader: Leader,
        *,
        window: int | None = None,
        every: int = 1,
        hold: int = 1,
        horizon: float | None = None,
    ) -> None:
        self.leader = leader
        self.movement = leader.setup.movement
        self.window = window
        self.every = every
        self.hold = hold
        self.horizon = horizon
        self.x = leader.setup.domain.start
        # rounds so far, and the one it moved in
        self.t = 0
        self.moved = 0
        self.seen: Any = None  # the sum of all moments, or the latest of them

    def play(self, rows: Array) -> Array:
        """What it plays while these rows come, of shape (n, d)."""
        if rows is self.leader.shared and self.t == 0:
            means, aims, self.seen = self.leader.average_shared(self.window)
        else:
            means, self.seen = self.leader.average(
                self.seen, self.t, self.leader.take_moments(rows), self.window
            )
            aims = self.leader.find_best(means)
        if self.t == 0:
            aims = np.vstack((self.x, aims[1:]))  # before the first row there is nothing to follow
        points = (
            self._follow_if_it_pays(aims, means) if self.horizon is not None else self._follow_in_time(aims)
        )
        self.t += len(rows)
        self.x = points[-1].copy()
        return points

    def _follow_in_time(self, aims: Array) -> Array:
        """Follow the aims in the rounds in which it may move."""
        n = len(aims)
        rounds = self.t + np.arange(len(aims))
        if self.hold == 1:
            moves = rounds % self.every == 0
            latest = np.maximum.accumulate(np.where(moves, np.arange(n), -1))
            return np.where((latest >= 0)[:, None], aims[latest], self.x)
        points = np.empty_like(aims)
        x = self.x
        at = 0
        # The only rounds in which a stale aim gets new.
        changes = np.flatnonzero((aims[1:] != aims[:-1]).any(axis=1)) + 1
        while at < n:
            ready = max(at, self.moved + self.hold - self.t)
            if ready < n and (aims[ready] == x).all():
                later = changes[np.searchsorted(changes, ready, side="right") :]
                ready = int(later[0]) if len(later) else n
            points[at : min(ready, n)] = x
            at = ready
            if at < n:
                x = aims[at]
                self.moved = self.t + at
                points[at] = x
                at += 1
        return points

    def _follow_if_it_pays(self, aims: Array, means: Array) -> Array:
        """Follow an aim only if it pays."""
        points = np.empty_like(aims)
        x = self.x
        at = 0
        weight = float(np.max(self.movement.weight))
        horizon = self.horizon or 0.0
        while at < len(aims):
            chunk = slice(at, min(at + CHUNK, len(aims)))
            saved = self.leader.cost(means[chunk], x) - self.leader.cost(means[chunk], aims[chunk])
            pays = horizon * saved > weight * self.movement.distance(aims[chunk] - x)
            first = int(pays.argmax()) if pays.any() else chunk.stop - at
            points[at : at + first] = x
            at += first
            if at < chunk.stop:
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
