"""What baselines that look ahead share: their type, how they are played, and the proximal step."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, refusal, vector
from klazy.base.config import Config
from klazy.costs import Costs, as_costs
from klazy.game.trace import Totals, Trace
from klazy.hindsight.families import Family, family_of
from klazy.movement import L2Movement, Movement
from klazy.sets import ConvexSet

SPLITS = 50_000  # alternations of a step and a projection at most
CLOSE = 1e-10  # relative to the set's size, how near the two must come


class Foreseen(NamedTuple):
    """A whole game as a baseline sees it; without ``x0`` the first round moves freely."""

    costs: Costs
    movement: Movement
    x0: Array | None


class LookAhead(Config, ABC):
    """A baseline that sees the costs of ``window`` + 1 rounds before it plays the first of them."""

    domain: ConvexSet
    window: int = 0

    def __init__(self, domain: ConvexSet) -> None:
        owner = type(self).__name__
        if not isinstance(domain, ConvexSet):
            raise refusal(owner, "a set to play on", "domain", repr(domain), f"write {owner}(L2Ball(5))")
        self._keep(domain=domain)

    @abstractmethod
    def points(self, game: Foreseen) -> Array:
        """What it plays, of shape (T, d); a checked game comes in."""

    def by_round(self, game: Foreseen, play: Callable[[Costs, Array], Array]) -> Array:
        """``play(f, before)`` round by round, f a single round; before the first it stands at x0 or at the set's start."""
        at = self.domain.start if game.x0 is None else game.x0
        played = []
        for t in range(1, game.costs.T + 1):
            at = play(game.costs.window(t, t), at)
            played.append(at)
        return np.array(played)

    def step(self, f: Costs, center: Array, r: float) -> Array:
        r"""The minimiser over the set of f(x) + r/2 \|x - center\|^2, for a single round f."""
        family = family_of(f, type(self).__name__)
        by_coordinate = family.separable and self.domain.separable  # each stops at its bound
        if family.merged or by_coordinate:
            return self.domain.project(family.prox(center[None], r)[0])
        return self._split(family, center, r)

    def _split(self, family: Family, center: Array, r: float) -> Array:
        """By splitting the set, with the attraction to the center, from the cost; rho is what holds the two together."""
        steep = float(np.linalg.norm(family.gradient(center))) / self.domain.scale
        rho = max(r, steep) if np.isfinite(steep) else r
        z = center
        near = CLOSE * self.domain.scale
        for _ in range(SPLITS):
            x = self.domain.project((r * center + rho * z) / (r + rho))
            v = family.prox((2.0 * x - z)[None], rho)[0]
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
    movement: Movement | None = None,
    x0: ArrayLike | None = None,
) -> Trace:
    """Let a baseline that looks ahead play. The trace is as :func:`~klazy.run`'s; its ``engine`` says ``look-ahead``.

    >>> trace = run_ahead(RecedingHorizon(Box(-1, 1), window=1), [[1.0], [-1.0], [-1.0], [1.0]], movement=L1Movement(0.8))
    >>> trace.engine, trace.x[:, 0].tolist()
    ('look-ahead', [-1.0, 1.0, 1.0, -1.0])
    """
    owner = "run_ahead"
    known = as_costs(costs)
    charged = L2Movement() if movement is None else movement
    if not isinstance(player, LookAhead):
        raise refusal(
            owner, "a baseline that looks ahead", "player", repr(player), "learners are played by run"
        )
    if known.dim != player.domain.dim:
        raise refusal(
            owner, f"costs on R^{player.domain.dim}", "costs.dim", known.dim, "match the dimensions"
        )
    if not isinstance(charged, Movement):
        raise refusal(owner, "a movement cost", "movement", repr(movement), f"write L2Movement({movement!r})")
    known.check_finite()
    charged.check(known.dim)
    start = None if x0 is None else vector(x0, "x0", owner, known.dim)
    x = player.points(Foreseen(known, charged, start))
    hitting = known.values(x)
    switching = charged.paid(x, start)
    totals = Totals(float(hitting.sum()), float(switching.sum()))
    kept = {"x": x, "hitting": hitting, "switching": switching}
    return Trace(
        repr(player), "look-ahead", "actions", known.T, known.dim, totals, charged, kept, start, known
    )
