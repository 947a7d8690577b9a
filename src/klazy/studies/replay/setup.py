"""What is replayed: the set, what a row of the trace costs, and what moving costs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from klazy.base.checks import Array, one_of, positive, refusal
from klazy.costs import Costs, LinearCosts, LogWealthCosts, PinballCosts, QuadraticCosts
from klazy.families import Family, Linear, LogWealth, Pinball, Quadratic
from klazy.movement import L1Movement, L2Movement, Movement, TVMovement
from klazy.sets import Box, CappedSimplex, ConvexSet, L2Ball, Polytope, Simplex

COSTS = ("linear", "quadratic", "pinball", "log-wealth")
DOMAINS = ("simplex", "capped-simplex", "box", "ball", "polytope")
MOVEMENTS: dict[str, type[Movement]] = {"tv": TVMovement, "l1": L1Movement, "l2": L2Movement}
# The movement that suits a set.
USUAL = {"simplex": "tv", "capped-simplex": "tv", "box": "l1", "ball": "l2", "polytope": "l2"}


@dataclass(frozen=True)
class Setup:
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
        if self.family == "log-wealth":
            return LogWealthCosts(rows)
        return PinballCosts(rows, self.short, self.excess)

    def make_family(self) -> Family:
        """What a row costs, once it is known."""
        if self.family == "linear":
            return Linear()
        if self.family == "quadratic":
            return Quadratic()
        if self.family == "log-wealth":
            return LogWealth()
        return Pinball(self.short, self.excess)

    def gradients(self, rows: Array, x: Array) -> Array:
        """Gradients of these rows' costs, all at x."""
        if self.family == "linear":
            return rows
        costs = self.costs(rows)
        return np.array([costs.subgradient(t, x) for t in range(1, costs.T + 1)])

    def charge(self, rows: Array, points: Array, before: Array | None) -> tuple[float, float]:
        """Hitting and switching of points played while these rows come, from the one before; the first of all is free."""
        hitting = self.costs(rows).values(points).sum()
        switching = self.movement.paid(points, before).sum()
        return float(hitting), float(switching)


# Between these, products with the largest rows of a trace and their squares are finite numbers.
SMALLEST = 1e-15
LARGEST = 1e15
# What each set takes, and what it is by default.
SHAPES: dict[str, dict[str, float | None]] = {
    "simplex": {"total": 1.0},
    "capped-simplex": {"total": 1.0, "cap": 1.0},
    "box": {"lower": 0.0, "upper": 1.0},
    "ball": {"radius": 1.0},
    "polytope": {"polytope": None},
}


def make_setup(
    dim: int, domain: str = "simplex", costs: str = "linear", movement: str | None = None, move_cost: float = 1.0, *,
    short: float | None = None, excess: float | None = None, **shape: Any,
) -> Setup:  # fmt: skip
    """The setup that the command's words describe, for a trace with ``dim`` columns; ``shape`` is what the set takes."""
    one_of(costs, "costs", "replay", COSTS)
    takes = SHAPES[one_of(domain, "domain", "replay", DOMAINS)]
    for name, value in shape.items():
        if value is not None and name not in takes:
            owners = [owner for owner, names in SHAPES.items() if name in names]
            raise refusal(
                "replay",
                f"--domain {' or '.join(owners)} for --{name}",
                "domain",
                domain,
                "leave one of them out",
            )
    given = {name: value for name, value in shape.items() if value is not None}
    for name, value in {"move_cost": move_cost, "short": short, "excess": excess, **given}.items():
        if isinstance(value, float) and value != 0.0 and not SMALLEST <= abs(value) <= LARGEST:
            condition = f"sizes and prices within {SMALLEST:g} and {LARGEST:g}"
            raise refusal("replay", condition, name, value, "measure in other units")
    place = _make_domain(domain, dim, takes | given)
    kind = one_of(movement or USUAL[domain], "movement", "replay", tuple(MOVEMENTS))
    if costs == "log-wealth" and domain not in ("simplex", "capped-simplex"):
        raise refusal("replay", "a simplex for log-wealth", "domain", domain, "leave it out")
    if costs != "pinball" and (short is not None or excess is not None):
        raise refusal(
            "replay", "--costs pinball for --short and --excess", "costs", costs, "leave one of them out"
        )
    short = 1.0 if short is None else positive(short, "short", "replay")
    excess = 1.0 if excess is None else positive(excess, "excess", "replay")
    if not SMALLEST <= short / excess <= LARGEST:
        condition = f"--short and --excess within a factor of {LARGEST:g}"
        raise refusal("replay", condition, "short", short, "bring them nearer to each other")
    return Setup(place, costs, MOVEMENTS[kind](move_cost), short, excess)


def _make_domain(kind: str, dim: int, shape: dict[str, Any]) -> ConvexSet:
    if kind == "simplex":
        return Simplex(dim, shape["total"])
    if kind == "capped-simplex":
        return CappedSimplex(dim, shape["total"], shape["cap"])
    if kind == "box":
        return Box(np.full(dim, shape["lower"]), np.full(dim, shape["upper"]))
    if kind == "ball":
        return L2Ball(dim, shape["radius"])
    return _read_polytope(shape["polytope"], dim)


def _read_polytope(file: Path | None, dim: int) -> Polytope:
    """{x : A x <= b} from a JSON file with A and b."""
    if file is None:
        raise refusal("replay", "a file with A and b", "polytope", None, "write --polytope set.json")
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        A = about["A"]
        b = about["b"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as failed:
        raise refusal(
            "replay", "a JSON file with A and b", "polytope", file, f"{type(failed).__name__}: {failed}"
        ) from failed
    found = Polytope(A, b)
    if found.dim != dim:
        raise refusal(
            "replay",
            f"a polytope in R^{dim}, one coordinate per column",
            "polytope",
            found,
            "match the dimensions",
        )
    return found
