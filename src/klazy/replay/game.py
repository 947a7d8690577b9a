"""What is replayed: the set, what a row of the trace costs, and what moving costs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from klazy.arrays import Array, one_of, refusal
from klazy.costs import Costs, LinearCosts, LogWealthCosts, PinballCosts, QuadraticCosts
from klazy.movement import L1Movement, L2Movement, Movement, TVMovement
from klazy.sets import Box, CappedSimplex, ConvexSet, L2Ball, Polytope, Simplex

COSTS = ("linear", "quadratic", "pinball", "log-wealth")
DOMAINS = ("simplex", "capped-simplex", "box", "ball", "polytope")
MOVEMENTS: dict[str, type[Movement]] = {"tv": TVMovement, "l1": L1Movement, "l2": L2Movement}
USUAL = {"simplex": "tv", "capped-simplex": "tv", "box": "l1", "ball": "l2", "polytope": "l2"}  # movement by set


@dataclass(frozen=True)
class Game:
    """A set, a cost family by name, a movement cost; ``short`` and ``excess`` are the prices of pinball costs."""

    domain: ConvexSet
    family: str
    movement: Movement
    short: float = 1.0
    excess: float = 1.0

    def costs(self, rows: Array) -> Costs:
        """What these rows cost."""
        if self.family == "linear":
            return LinearCosts(rows, check=False)
        if self.family == "quadratic":
            return QuadraticCosts(rows)
        return LogWealthCosts(rows) if self.family == "log-wealth" else PinballCosts(rows, self.short, self.excess)

    def gradients(self, rows: Array, x: Array) -> Array:
        """Gradients of these rows' costs, all at x."""
        costs = self.costs(rows)
        return rows if self.family == "linear" else np.array([costs.subgradient(t, x) for t in range(1, costs.T + 1)])


def game(
    dim: int, domain: str = "simplex", costs: str = "linear", movement: str | None = None, move_cost: float = 1.0, *,
    total: float = 1.0, cap: float = 1.0, lower: float = 0.0, upper: float = 1.0, radius: float = 1.0,
    polytope: Path | None = None, short: float = 1.0, excess: float = 1.0,
) -> Game:  # fmt: skip
    """The game that the command's words describe, for a trace with ``dim`` columns."""
    one_of(costs, "costs", "replay", COSTS)
    made: dict[str, Any] = {
        "simplex": lambda: Simplex(dim, total),
        "capped-simplex": lambda: CappedSimplex(dim, total, cap),
        "box": lambda: Box(np.full(dim, lower), np.full(dim, upper)),
        "ball": lambda: L2Ball(dim, radius),
        "polytope": lambda: _polytope(polytope, dim),
    }
    place = made[one_of(domain, "domain", "replay", DOMAINS)]()
    kind = one_of(movement or USUAL[domain], "movement", "replay", tuple(MOVEMENTS))
    if costs == "log-wealth" and domain not in ("simplex", "capped-simplex"):
        raise refusal("replay", "a simplex for log-wealth", "domain", domain, "leave it out")
    return Game(place, costs, MOVEMENTS[kind](move_cost), short, excess)


def _polytope(file: Path | None, dim: int) -> Polytope:
    """{x : A x <= b} from a JSON file with A and b."""
    if file is None:
        raise refusal("replay", "a file with A and b", "polytope", None, "write --polytope set.json")
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        A, b = about["A"], about["b"]
    except (OSError, ValueError, KeyError, TypeError) as failed:
        raise refusal("replay", "a JSON file with A and b", "polytope", file, f"{type(failed).__name__}: {failed}") from failed
    found = Polytope(A, b)
    if found.dim != dim:
        raise refusal("replay", f"a polytope in R^{dim}, one coordinate per column", "polytope", found, "match the dimensions")
    return found
