"""What is left of a set in each round by limits that change: caps, outages, quotas."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np

from klazy.base.checks import Array, InvalidInput, real_array
from klazy.kernels import codes
from klazy.sets.base import ConvexSet
from klazy.sets.totals import capped_part, fill_cheapest

# Caps may share a total evenly; their sum may then miss it by this share.
ROUNDING = 1e-12
# Rounds from which a kernel projects, as compiling one takes longer than fewer rounds take without it.
MANY_ROUNDS = 200
LIMITED = "a Box, Simplex, CappedSimplex, or a Product of these"


class LimitedSet:
    """The part of a set that limits leave, round by round: the points of round t are between ``lower[t]`` and ``upper[t]``.

    Methods act on one point per round, of shape (T, dim). :meth:`check` makes it from what a user gives.

    Parameters
    ----------
    domain : ConvexSet
        The set without limits.
    lower, upper : array
        The limits, of shape (T, dim); -inf and inf for none.
    first : int, optional
        The number of the first round, for error messages. Default: 1.

    Raises
    ------
    ValueError
        If a round has no point, or limits are not known for this kind of set.

    Examples
    --------
    >>> caps = LimitedSet(Simplex(3), np.zeros((2, 3)), np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    >>> caps.keep(np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]))
    array([[0.5 , 0.3 , 0.2 ],
           [0.  , 0.55, 0.45]])
    """

    # As of a ConvexSet: `lowest` is exact and quick.
    cheap_lowest = True

    def __init__(self, domain: ConvexSet, lower: Array, upper: Array, first: int = 1) -> None:
        self.domain = domain
        self.lower = lower
        self.upper = upper
        self.rounds = np.arange(first, first + len(lower))
        # Each part of the set: its kind, its coordinates, their own limits, and their total.
        self._parts: list[tuple[int, slice, Any, Any, float]] = []
        end = 0
        for leaf in domain.simplest.leaves:
            part = slice(end, end + leaf.dim)
            end += leaf.dim
            self._parts.append(_read_leaf(leaf, part))

    @classmethod
    def check(
        cls, limits: Any, domain: ConvexSet, T: int, first: int = 1, name: str = "limits"
    ) -> Self:
        """Check limits ``(lower, upper)``, each a number, one per coordinate, one row per round, or None for no limit.

        Whether each round has a point is found out when its set is first needed, or by :meth:`check_rounds`.
        """
        if isinstance(limits, cls):
            return limits
        if not isinstance(limits, tuple | list) or len(limits) != 2:
            raise InvalidInput(
                f"{name} must be (lower, upper), got {limits!r}. Use None for a side without limits."
            )
        lower = _spread(limits[0], f"{name}[0]", T, domain.dim, -np.inf)
        upper = _spread(limits[1], f"{name}[1]", T, domain.dim, np.inf)
        return cls(domain, lower, upper, first)

    @cached_property
    def _cut(self) -> tuple[Array, Array, list[Array]]:
        """The limits where they cut the set, so that its own are among them, and the total of each part in each round."""
        low = np.empty(self.lower.shape)
        high = np.empty(self.upper.shape)
        totals = []
        for code, part, floor, cap, total in self._parts:
            np.maximum(self.lower[:, part], floor, out=low[:, part])
            np.minimum(self.upper[:, part], cap, out=high[:, part])
            self._reject_empty(low[:, part], high[:, part], part.start)
            sums = np.full(len(self), total)
            if code != codes.BOX:
                least = low[:, part].sum(axis=1)
                most = high[:, part].sum(axis=1)
                size = np.maximum(
                    np.abs(low[:, part]).sum(axis=1), np.abs(high[:, part]).sum(axis=1)
                )
                self._reject_total(
                    least - ROUNDING * size > total, "lower", least, "above", total
                )
                self._reject_total(most + ROUNDING * size < total, "upper", most, "below", total)
                sums = np.clip(total, least, most)
            totals.append(sums)
        return low, high, totals

    def check_rounds(self) -> Self:
        """Reject limits that leave a round without a point."""
        _ = self._cut
        return self

    @property
    def low(self) -> Array:
        """The lower limits, not below those of the set."""
        return self._cut[0]

    @property
    def high(self) -> Array:
        """The upper limits, not above those of the set."""
        return self._cut[1]

    def _reject_empty(self, low: Array, high: Array, start: int) -> None:
        is_empty = low > high
        if is_empty.any():
            t, i = (int(at) for at in np.argwhere(is_empty)[0])
            raise InvalidInput(
                f"No point is within the limits of round {self.rounds[t]}: coordinate {start + i} must be at least "
                f"{low[t, i]:g} and at most {high[t, i]:g}."
            )

    def _reject_total(
        self, is_empty: Any, side: str, sums: Array, than: str, total: float
    ) -> None:
        if is_empty.any():
            t = int(is_empty.argmax())
            raise InvalidInput(
                f"No point is within the limits of round {self.rounds[t]}: the {side} limits add up to {sums[t]:g}, "
                f"{than} the total of {total:g}."
            )

    @property
    def diameter(self) -> float:
        """The diameter of the set without limits."""
        return self.domain.diameter

    def __len__(self) -> int:
        return len(self.lower)

    def select(self, rounds: slice | np.ndarray) -> LimitedSet:
        """Return the limits of the rounds with these indices only."""
        chosen = copy(self)
        for name in ("lower", "upper", "rounds"):
            setattr(chosen, name, getattr(self, name)[rounds])
        if "_cut" in vars(self):
            low, high, totals = self._cut
            chosen._cut = low[rounds], high[rounds], [total[rounds] for total in totals]
        return chosen

    def at(self, t: int) -> LimitedSet:
        """Return the limits of the round with index t."""
        return self.select(slice(t, t + 1))

    def to_integers(self) -> LimitedSet:
        """Round the limits so that those that are left have integers at both ends."""
        low = np.ceil(self.lower)
        return LimitedSet(
            self.domain, low, np.floor(self.upper), int(self.rounds[0])
        ).check_rounds()

    def find_outside(self, points: Array) -> np.ndarray:
        """Return the indices of the rounds whose points are outside the limits."""
        entries = np.flatnonzero((points < self.lower) | (points > self.upper)) // points.shape[1]
        return entries[np.diff(entries, prepend=-1) > 0]

    def keep(self, points: Array, outside: np.ndarray | None = None) -> Array:
        """Replace the points that are outside the limits of their round by the nearest ones inside; others stay as they are.

        Which ones are ``outside`` need not be found again if it is known.
        """
        if outside is None:
            outside = self.find_outside(points)
        if not outside.size:
            return points
        kept = np.array(points)
        kept[outside] = self.select(outside).nearest(points[outside])
        return kept

    def nearest(self, points: Array) -> Array:
        """Project the point of each round onto what is left of the set in it."""
        out = np.empty_like(points)
        if len(points) >= MANY_ROUNDS and self.code != codes.BOX:
            from klazy.kernels.offline import projecting_kernel

            project = projecting_kernel(self.code, self.domain.dim)
            table = self.parameters()
            project(points, table, len(table) // len(points), out)
            return out
        for low, high, (code, part, *_), total in self._list_parts():
            if code == codes.BOX:
                out[:, part] = np.clip(points[:, part], low, high)
            else:
                out[:, part] = capped_part(points[:, part], total[:, None], low, high)
        return out

    def lowest(self, g: Array) -> Array:
        """Find where a linear function of each round is least on what is left of the set in it."""
        out = np.empty_like(g)
        for low, high, (code, part, *_), total in self._list_parts():
            if code == codes.BOX:
                out[:, part] = np.where(g[:, part] > 0, low, high)
            else:
                out[:, part] = fill_cheapest(g[:, part], total[:, None], low, high)
        return out

    def _list_parts(self) -> Iterator[tuple[Array, Array, Any, Array]]:
        """Yield the limits of each part of the set, the part, and its total in each round."""
        low, high, totals = self._cut
        for part, total in zip(self._parts, totals, strict=True):
            yield low[:, part[1]], high[:, part[1]], part, total

    @property
    def code(self) -> int:
        """The code of the set that is left, for kernels."""
        return codes.PRODUCT if len(self._parts) > 1 else self._parts[0][0]

    def parameters(self) -> Array:
        """Return the parameters of the sets of all rounds, one after the other, in the layout of the code."""
        found = []
        for low, high, (code, _, *_), total in self._list_parts():
            bounds = np.hstack((low, high))
            found.append(bounds if code == codes.BOX else np.column_stack((total, bounds)))
        if len(self._parts) > 1:
            places = 1 + 4 * len(found) + np.cumsum([0, *(each.shape[1] for each in found[:-1])])
            entries = zip(self._parts, places.tolist(), strict=True)
            table = [[code, part.start, part.stop, place] for (code, part, *_), place in entries]
            head = np.concatenate(([len(found)], np.ravel(table)))
            found.insert(0, np.tile(head, (len(self), 1)))
        return np.hstack(found).ravel()


def _read_leaf(leaf: ConvexSet, part: slice) -> tuple[int, slice, Any, Any, float]:
    """Return the kind of a set, as its limits by round make it, its coordinates, their own limits, and their total."""
    code = codes.code_of(leaf)
    own = leaf.parameters() if code is not None else np.empty(0)
    if code == codes.BOX:
        floor, cap = np.split(own, 2)
        return codes.BOX, part, floor, cap, 0.0
    if code == codes.SIMPLEX:
        return codes.CAPPED_SIMPLEX, part, 0.0, own[0], float(own[0])
    if code == codes.CAPPED_SIMPLEX:
        floor, cap = np.split(own[1:], 2)
        return codes.CAPPED_SIMPLEX, part, floor, cap, float(own[0])
    raise InvalidInput(f"Limits by round are for {LIMITED}, got {leaf!r}.")


def _spread(side: Any, name: str, T: int, dim: int, none: float) -> Array:
    """Return one side of limits as an array of shape (T, dim)."""
    if side is None:
        return np.broadcast_to(none, (T, dim))
    found = real_array(side, name, limit=np.inf)
    if np.isnan(found).any():
        raise InvalidInput(f"{name} must not contain NaN. Use {none} where there is no limit.")
    if found.shape not in ((), (dim,), (T, dim)):
        wanted = f"a number, one per coordinate ({dim},), or one row per round ({T}, {dim})"
        raise InvalidInput(f"{name} must be {wanted}, got shape {found.shape}.")
    return np.broadcast_to(found, (T, dim))
