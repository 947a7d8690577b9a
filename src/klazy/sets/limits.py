"""What is left of a set in each round by limits that change: caps, outages, quotas."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np

from klazy.base.checks import Array, InvalidInput, real_array
from klazy.kernels import codes
from klazy.sets.base import ConvexSet
from klazy.sets.totals import capped_part, fill_cheapest

# Caps may share a total evenly; their sum may then miss it by this share.
ROUNDING = 1e-12
# Rounds from which a kernel projects, as compiling one takes longer than fewer rounds take without it.
MANY_ROUNDS = 10_000
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
        self.first = first
        # The same limits where they cut the set: its own bounds are among them.
        self.low = np.empty_like(lower)
        self.high = np.empty_like(upper)
        # The kind and the coordinates of each part of the set, and its total in each round.
        self._parts: list[tuple[int, slice, Array]] = []
        end = 0
        for leaf in domain.simplest.leaves:
            part = slice(end, end + leaf.dim)
            end += leaf.dim
            self._cut(leaf, part)

    @classmethod
    def check(cls, limits: Any, domain: ConvexSet, T: int, first: int = 1, name: str = "limits") -> Self:
        """Check limits ``(lower, upper)``, each a number, one per coordinate, one row per round, or None for no limit."""
        if isinstance(limits, cls):
            return limits
        if not isinstance(limits, tuple | list) or len(limits) != 2:
            raise InvalidInput(
                f"{name} must be (lower, upper), got {limits!r}. Use None for a side without limits."
            )
        lower = _spread(limits[0], f"{name}[0]", T, domain.dim, -np.inf)
        upper = _spread(limits[1], f"{name}[1]", T, domain.dim, np.inf)
        return cls(domain, lower, upper, first)

    def _cut(self, leaf: ConvexSet, part: slice) -> None:
        """Cut one part of the set, which none of the others restricts."""
        code = codes.code_of(leaf)
        own = leaf.parameters() if code is not None else np.empty(0)
        total = np.zeros(len(self.lower))
        if code == codes.BOX:
            floor, cap = np.split(own, 2)
        elif code == codes.SIMPLEX:
            floor, cap = 0.0, own[0]
            total += own[0]
        elif code == codes.CAPPED_SIMPLEX:
            floor, cap = np.split(own[1:], 2)
            total += own[0]
        else:
            raise InvalidInput(f"Limits by round are for {LIMITED}, got {leaf!r}.")
        low = np.maximum(self.lower[:, part], floor)
        high = np.minimum(self.upper[:, part], cap)
        self.low[:, part] = low
        self.high[:, part] = high
        self._reject_empty(low > high, part.start)
        if code != codes.BOX:
            least = low.sum(axis=1)
            most = high.sum(axis=1)
            rounding = ROUNDING * np.maximum(np.abs(low).sum(axis=1), np.abs(high).sum(axis=1))
            self._reject_total(least - rounding > total, "lower", least, "above", total)
            self._reject_total(most + rounding < total, "upper", most, "below", total)
            total = np.clip(total, least, most)
            code = codes.CAPPED_SIMPLEX
        self._parts.append((code, part, total))

    def _reject_empty(self, is_empty: np.ndarray, start: int) -> None:
        if is_empty.any():
            t, i = (int(at) for at in np.argwhere(is_empty)[0])
            i += start
            raise InvalidInput(
                f"No point is within the limits of round {self.first + t}: coordinate {i} must be at least "
                f"{self.low[t, i]:g} and at most {self.high[t, i]:g}."
            )

    def _reject_total(self, is_empty: Any, side: str, sums: Array, than: str, total: Array) -> None:
        if is_empty.any():
            t = int(is_empty.argmax())
            raise InvalidInput(
                f"No point is within the limits of round {self.first + t}: the {side} limits add up to {sums[t]:g}, "
                f"{than} the total of {total[t]:g}."
            )

    @property
    def diameter(self) -> float:
        """The diameter of the set without limits."""
        return self.domain.diameter

    def __len__(self) -> int:
        return len(self.lower)

    def select(self, rounds: slice | np.ndarray) -> LimitedSet:
        """Return the limits of some rounds only."""
        chosen = copy(self)
        for name in ("lower", "upper", "low", "high"):
            setattr(chosen, name, getattr(self, name)[rounds])
        chosen._parts = [(code, part, total[rounds]) for code, part, total in self._parts]
        return chosen

    def at(self, t: int) -> LimitedSet:
        """Return the limits of the round with index t."""
        chosen = self.select(slice(t, t + 1))
        chosen.first += t
        return chosen

    def to_integers(self) -> LimitedSet:
        """Round the limits so that those that are left have integers at both ends."""
        return LimitedSet(self.domain, np.ceil(self.lower), np.floor(self.upper), self.first)

    def keep(self, points: Array) -> Array:
        """Replace the points that are outside the limits of their round by the nearest ones inside; others stay as they are."""
        is_outside = ~self.allows(points)
        if not is_outside.any():
            return points
        kept = np.array(points)
        kept[is_outside] = self.select(is_outside).nearest(kept[is_outside])
        return kept

    def allows(self, points: Array) -> np.ndarray:
        """Return for each point whether it is within the limits of its round, which may be on their edge."""
        fits: Any = (points >= self.lower) & (points <= self.upper)
        return fits.all(axis=1)

    def nearest(self, points: Array) -> Array:
        """Project the point of each round onto what is left of the set in it."""
        out = np.empty_like(points)
        if len(points) >= MANY_ROUNDS:
            from klazy.kernels.offline import projecting_kernel

            project = projecting_kernel(self.code, self.domain.dim)
            table = self.parameters()
            project(points, table, len(table) // len(points), out)
            return out
        for code, part, total in self._parts:
            low = self.low[:, part]
            high = self.high[:, part]
            if code == codes.BOX:
                out[:, part] = np.clip(points[:, part], low, high)
            else:
                out[:, part] = capped_part(points[:, part], total[:, None], low, high)
        return out

    def lowest(self, g: Array) -> Array:
        """Find where a linear function of each round is least on what is left of the set in it."""
        out = np.empty_like(g)
        for code, part, total in self._parts:
            low = self.low[:, part]
            high = self.high[:, part]
            if code == codes.BOX:
                out[:, part] = np.where(g[:, part] > 0, low, high)
            else:
                out[:, part] = fill_cheapest(g[:, part], total[:, None], low, high)
        return out

    @property
    def code(self) -> int:
        """The code of the set that is left, for kernels."""
        return codes.PRODUCT if len(self._parts) > 1 else self._parts[0][0]

    def parameters(self) -> Array:
        """Return the parameters of the sets of all rounds, one after the other, in the layout of the code."""
        T = len(self)
        found = []
        for code, part, total in self._parts:
            bounds = np.hstack((self.low[:, part], self.high[:, part]))
            found.append(bounds if code == codes.BOX else np.column_stack((total, bounds)))
        if len(self._parts) > 1:
            places = 1 + 4 * len(found) + np.cumsum([0, *(each.shape[1] for each in found[:-1])])
            entries = zip(self._parts, places.tolist(), strict=True)
            table = [[code, part.start, part.stop, place] for (code, part, _), place in entries]
            head = np.concatenate(([len(found)], np.ravel(table)))
            found.insert(0, np.tile(head, (T, 1)))
        return np.hstack(found).ravel()


def _spread(side: Any, name: str, T: int, dim: int, none: float) -> Array:
    """Return one side of limits as an array of shape (T, dim)."""
    if side is None:
        return np.full((T, dim), none)
    found = real_array(side, name, limit=np.inf)
    if np.isnan(found).any():
        raise InvalidInput(f"{name} must not contain NaN. Use {none} where there is no limit.")
    if found.shape not in ((), (dim,), (T, dim)):
        wanted = f"a number, one per coordinate ({dim},), or one row per round ({T}, {dim})"
        raise InvalidInput(f"{name} must be {wanted}, got shape {found.shape}.")
    return np.array(np.broadcast_to(found, (T, dim)))
