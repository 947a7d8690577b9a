"""What is replayed: the set, what a row of the trace costs, and what moving costs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from klazy.base.checks import Array, coordinates, one_of, positive, refusal
from klazy.base.options import write_option
from klazy.costs import Costs
from klazy.families import Family, Linear, LogWealth, Pinball, Quadratic, Rewards
from klazy.kernels.codes import LINEAR, code_of
from klazy.live import Guards
from klazy.movement import AsymmetricMovement, Movement, as_movement, suit_movement
from klazy.sets import Box, CappedSimplex, ConvexSet, L2Ball, Polytope, Simplex

COSTS: dict[str, type[Family]] = {
    "linear": Linear, "rewards": Rewards, "quadratic": Quadratic, "pinball": Pinball, "log-wealth": LogWealth,
}  # fmt: skip
DOMAINS = ("simplex", "capped-simplex", "box", "ball", "polytope")
# Between these, products with the largest rows of a trace and their squares are finite numbers.
SMALLEST = 1e-15
LARGEST = 1e15
# What each set takes, and what it is by default.
SHAPES: dict[str, dict[str, Any]] = {
    "simplex": {"total": 1.0, "floor": None},
    "capped-simplex": {"total": 1.0, "cap": 1.0, "floor": 0.0},
    "box": {"lower": 0.0, "upper": 1.0},
    "ball": {"radius": 1.0},
    "polytope": {"polytope": None},
}


@dataclass(frozen=True, eq=False)
class Setup:
    """A game without its rows: a set, what a row costs, what moving costs, and where one stands before the first round.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    family : Family
        What a row costs.
    movement : Movement
        What moving costs.
    start : array, optional
        The decision before the first round. Default: everybody begins at the set's point nearest to the origin.
    guards : Guards, optional
        They limit what is played in the second part, as they would limit an agent; contenders are tuned without them.

    Examples
    --------
    >>> setup = Setup(Box(0, 100), Pinball(short=4.0), L1Movement(2.0))
    >>> setup.charge(np.array([[57.0]]), np.array([[50.0], [53.0]]))
    (array([28.]), array([6.]))
    """

    domain: ConvexSet
    family: Family
    movement: Movement
    start: Array | None = None
    guards: Guards | None = None

    def costs(self, rows: Array) -> Costs:
        """Make costs of rows.

        Parameters
        ----------
        rows : array
            The rows, of shape (T, d).

        Returns
        -------
        Costs
            What they cost.
        """
        return self.family.costs(rows)

    @property
    def told(self) -> Family:
        """What rules of thumb are told: rows, or the gradients of linear costs."""
        return Linear() if code_of(self.family) == LINEAR else self.family

    def gradients(self, rows: Array, x: Array) -> Array:
        """Compute gradients of rows' costs, all at one point.

        Parameters
        ----------
        rows : array
            The rows, of shape (T, d).
        x : array
            The point.

        Returns
        -------
        array
            The gradients, of shape (T, d).
        """
        return self.family.gradient(rows, np.broadcast_to(x, (len(rows), self.domain.dim)))

    def charge(self, rows: Array, path: Array) -> tuple[Array, Array]:
        """Charge a path: what each round costs at its point, and what the move to the next point costs.

        Shares of wealth are bought and sold from where prices have carried them.

        Parameters
        ----------
        rows : array
            The rows, of shape (T, d).
        path : array
            The points, one more than rows.

        Returns
        -------
        hitting : array
            What each round charges.
        switching : array
            What the move after each round charges.
        """
        hitting = self.family.value(rows, path[:-1])
        stand = self.family.drift(rows, path[:-1])
        switching = self.movement.weight * self.movement.distance(path[1:] - stand)
        return hitting, switching


def make_setup(
    dim: int,
    domain: str | ConvexSet = "simplex",
    costs: str | Family = "linear",
    movement: str | Movement | None = None,
    move_cost: float = 1.0,
    *,
    short: Any = None,
    excess: Any = None,
    up: Any = None,
    down: Any = None,
    start: Any = None,
    guards: Guards | None = None,
    whole: bool = False,
    **shape: Any,
) -> Setup:
    """Make the game for a trace with ``dim`` columns.

    Parameters
    ----------
    dim : int
        The number of columns.
    domain : str or ConvexSet, optional
        Where decisions live, as in :func:`~klazy.replay`. Default: ``"simplex"``.
    costs : str or Family, optional
        What a row means, as in :func:`~klazy.replay`. Default: ``"linear"``.
    movement : str or Movement, optional
        How moving is measured. Default: as suits the set.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.
    short, excess : float or list of float, optional
        The prices of pinball costs.
    up, down : float or list of float, optional
        The prices of raising and lowering.
    start : array_like, optional
        The decision before the first round.
    guards : Guards, optional
        Limits on what is played in the second part.
    whole : bool, optional
        Play whole numbers only. Default: False.
    **shape
        What the set takes, such as ``total`` or ``upper``.

    Returns
    -------
    Setup
        The game without its rows.

    Raises
    ------
    ValueError
        If options do not fit together.

    Examples
    --------
    >>> make_setup(3, "box", "pinball", short=4.0, upper=10.0).movement
    L1Movement()
    """
    given = {name: value for name, value in shape.items() if value is not None}
    prices = {"move_cost": move_cost, "short": short, "excess": excess, "up": up, "down": down}
    for name, value in (prices | given).items():
        _check_size(name, value)
    place = _choose_domain(domain, dim, given)
    family = _choose_family(costs, short, excess)
    if isinstance(family, LogWealth) and not isinstance(place, Simplex | CappedSimplex):
        raise refusal("replay", "a simplex for log-wealth", "domain", domain, "leave it out")
    moving = _choose_movement(movement, place, move_cost, up, down)
    moving.check(dim)
    first = None if start is None else _check_start(place, start)
    if whole:
        guards = (guards or Guards()).replace(integers=True)
    return Setup(place, family, moving, first, guards)


def _check_size(name: str, value: Any) -> None:
    if value is None or isinstance(value, str | Path):
        return
    try:
        sizes = np.abs(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise refusal("replay", "numbers", name, repr(value), "give a number, or one per column") from None
    wrong = (sizes != 0.0) & ~((sizes >= SMALLEST) & (sizes <= LARGEST))
    if wrong.any():
        condition = f"sizes and prices within {SMALLEST:g} and {LARGEST:g}"
        raise refusal("replay", condition, name, value, "measure in other units")


def _choose_domain(domain: str | ConvexSet, dim: int, given: dict[str, Any]) -> ConvexSet:
    if isinstance(domain, ConvexSet):
        if given:
            name = next(iter(given))
            raise refusal("replay", f"a domain by name for {name}", "domain", domain, "leave one of them out")
        return _check_dimension(domain, dim, "domain")
    takes = SHAPES[one_of(domain, "domain", "replay", DOMAINS)]
    for name in given:
        if name not in takes:
            owners = [owner for owner, names in SHAPES.items() if name in names]
            wanted = f"{write_option('domain', *owners)} for {write_option(name)}"
            raise refusal("replay", wanted, "domain", domain, "leave one of them out")
    return _make_domain(domain, dim, takes | given)


def _make_domain(kind: str, dim: int, shape: dict[str, Any]) -> ConvexSet:
    if kind == "simplex":
        total = shape["total"]
        floor = shape["floor"]
        return Simplex(dim, total) if floor is None else CappedSimplex(dim, total, total, floor)
    if kind == "capped-simplex":
        return CappedSimplex(dim, shape["total"], shape["cap"], shape["floor"])
    if kind == "box":
        lower = coordinates(shape["lower"], "lower", "replay", dim)
        upper = coordinates(shape["upper"], "upper", "replay", dim)
        return Box(lower, upper)
    if kind == "ball":
        return L2Ball(dim, shape["radius"])
    return _read_polytope(shape["polytope"], dim)


def _check_dimension(domain: ConvexSet, dim: int, name: str) -> Any:
    if domain.dim != dim:
        wanted = f"a set in R^{dim}, one coordinate per column"
        raise refusal("replay", wanted, name, domain, "match the dimensions")
    return domain


def _choose_family(costs: str | Family, short: Any, excess: Any) -> Family:
    if costs != "pinball" and (short is not None or excess is not None):
        wanted = (
            f"{write_option('costs', 'pinball')} for {write_option('short')} and {write_option('excess')}"
        )
        raise refusal("replay", wanted, "costs", costs, "leave one of them out")
    if isinstance(costs, Family):
        if costs.extras:
            wanted = "a family whose rows have one number per coordinate"
            raise refusal("replay", wanted, "costs", costs, "play it with run(learner, family.costs(rows))")
        return costs
    one_of(costs, "costs", "replay", tuple(COSTS))
    if costs != "pinball":
        return COSTS[costs]()
    shortage = _check_price(short, "short")
    surplus = _check_price(excess, "excess")
    if (
        not np.min(shortage) / np.max(surplus) >= SMALLEST
        or not np.max(shortage) / np.min(surplus) <= LARGEST
    ):
        condition = f"{write_option('short')} and {write_option('excess')} within a factor of {LARGEST:g}"
        raise refusal("replay", condition, "short", short, "bring them nearer to each other")
    return Pinball(shortage, surplus)


def _check_price(price: Any, name: str) -> Any:
    if price is None:
        return 1.0
    if isinstance(price, Sequence):
        return [positive(each, name, "replay") for each in price]
    return positive(price, name, "replay")


def _choose_movement(
    movement: str | Movement | None, domain: ConvexSet, move_cost: float, up: Any, down: Any
) -> Movement:
    if isinstance(movement, Movement):
        return movement.replace(weight=move_cost * np.asarray(movement.weight))
    if up is not None or down is not None:
        if movement not in (None, "l1"):
            wanted = f"{write_option('movement', 'l1')} for {write_option('up')} and {write_option('down')}"
            raise refusal("replay", wanted, "movement", movement, "leave it out")
        return AsymmetricMovement(move_cost, up=1.0 if up is None else up, down=1.0 if down is None else down)
    if movement is None:
        return suit_movement(domain, move_cost)
    return as_movement(movement, "replay", move_cost)


def _check_start(domain: ConvexSet, start: Any) -> Array:
    return domain.start_at(coordinates(start, "start", "replay", domain.dim), "replay")


def _read_polytope(file: Path | str | None, dim: int) -> Polytope:
    """{x : A x <= b} from a JSON file with A and b."""
    if file is None:
        remedy = f"write {write_option('polytope', 'set.json')}"
        raise refusal("replay", "a file with A and b", "polytope", None, remedy)
    try:
        about = json.loads(Path(file).read_text(encoding="utf-8"))
        A = about["A"]
        b = about["b"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as failed:
        raise refusal(
            "replay", "a JSON file with A and b", "polytope", file, f"{type(failed).__name__}: {failed}"
        ) from failed
    return _check_dimension(Polytope(A, b), dim, "polytope")
