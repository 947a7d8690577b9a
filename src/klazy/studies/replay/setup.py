"""The game of a replay: the set, what a row costs, what moving costs; and checks that it makes sense.

:func:`make_setup` reads options, :func:`check_plausible` rejects games without content.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from klazy.base.checks import Array, InvalidInput, coordinates, integer, one_of, positive
from klazy.base.options import write_option
from klazy.base.spans import parse_span
from klazy.contrib import PodAutoscaler
from klazy.families import Family, Linear, LogWealth, Pinball, Quadratic, Rewards, name_quotes
from klazy.kernels.codes import LINEAR, code_of
from klazy.live import Guards
from klazy.live.rows import check_per
from klazy.movement import AsymmetricMovement, FiniteMetric, Movement, as_movement, suit_movement
from klazy.sets import Box, CappedSimplex, ConvexSet, L2Ball, Polytope, Simplex
from klazy.sets.limits import LimitedSet
from klazy.studies.contenders import is_simplex
from klazy.studies.replay.source import Source

COSTS: dict[str, type[Family]] = {
    "linear": Linear, "rewards": Rewards, "quadratic": Quadratic, "pinball": Pinball, "log-wealth": LogWealth,
}  # fmt: skip
# Between these, products with the largest rows of a trace and their squares are finite numbers.
SMALLEST_OPTION = 1e-15
LARGEST_OPTION = 1e15
# Move costs of a range without a number of them.
RANGE_STEPS = 7
# Rows that are examined, evenly spaced.
EXAMINED_ROWS = 100_000
# A baseline of this name is the rule of the Horizontal Pod Autoscaler, which waits so many seconds before it goes down.
AUTOSCALER = "hpa"
HPA_WINDOW_SECONDS = 300.0
# If this share of the rows is beyond one side of the set, the set is wrong.
OUTSIDE_SHARE = 0.95


@dataclass(frozen=True, eq=False)
class Setup:
    """A game without its rows: a set, what a row costs, what moving costs, and the decision before the first round.

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
        They limit the decisions in the second part, as they would limit an agent; contenders are tuned without them.
    per : array, optional
        How many units of a row are one unit of a decision, by column. Default: one.
    lead, delay : int, optional
        How many rounds later a decision acts, and how many rounds late a row comes. Default: 0.
    rule : PodAutoscaler, optional
        The rule that decided until now, scored as the baseline.
    limits : LimitedSet, optional
        The limits of the decision in each row of the trace; like guards, they hold in the second part.

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
    per: Array | None = None
    lead: int = 0
    delay: int = 0
    rule: PodAutoscaler | None = None
    limits: LimitedSet | None = None

    @property
    def lag(self) -> int:
        """By how many rows a decision acts later than on the next one."""
        return self.lead + self.delay

    @property
    def integers(self) -> bool:
        """Whether only whole numbers are played."""
        return self.guards is not None and self.guards.integers

    @property
    def ramp(self) -> tuple[Any, Any] | None:
        """How far decisions may fall and rise in a round; None without limits."""
        if self.guards is None or (self.guards.down is None and self.guards.up is None):
            return None
        return self.guards.down, self.guards.up

    @property
    def move_cost(self) -> float:
        """What a unit of movement costs, the largest if coordinates differ."""
        return float(np.max(self.movement.weight))

    @property
    def rule_family(self) -> Family:
        """The family that rules of thumb know: that of the rows, or linear costs for gradients."""
        return Linear() if code_of(self.family) == LINEAR else self.family

    def charge(self, rows: Array, path: Array) -> tuple[Array, Array]:
        """Compute what a path costs: each round at its point, and the move to the next point.

        Shares of wealth are bought and sold from where their prices moved them.

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
    ramp_up: Any = None,
    ramp_down: Any = None,
    whole: bool | None = None,
    per: Any = None,
    lead: int = 0,
    delay: int = 0,
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
        What a unit of movement costs. Default: 1.
    short, excess : float or list of float, optional
        What one unit too few and one too many cost, with pinball costs.
    up, down : float or list of float, optional
        What raising and lowering cost, in multiples of the move cost.
    start : array_like, optional
        The decision before the first round.
    guards : Guards, optional
        Limits on the decisions in the second part.
    ramp_up, ramp_down : float or list of float, optional
        The most that a decision may rise and fall in one round, which joins the guards.
    whole : bool, optional
        Play integers only. Default: only if ``per`` is given.
    per : float or list of float, optional
        How many units of a row are one unit of a decision. Default: 1.
    lead, delay : int, optional
        How many rounds later a decision acts, and how many rounds late a row comes. Default: 0.
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
    sizes = {
        "move_cost": move_cost,
        "short": short,
        "excess": excess,
        "up": up,
        "down": down,
        "per": per,
    }
    sizes |= {"ramp_up": ramp_up, "ramp_down": ramp_down}
    for name, value in (sizes | given).items():
        _check_size(name, value)
    place = _choose_domain(domain, dim, given)
    if place.dim != dim:
        columns = f"The data have {dim} columns"
        raise InvalidInput(f"{columns}, but the domain has {place.dim} coordinates: {place}.")
    family = _choose_family(costs, short, excess)
    if isinstance(family, LogWealth) and not is_simplex(place):
        raise InvalidInput(
            f"domain must be a simplex for log-wealth, got {domain}. Leave it out."
        )
    moving = _choose_movement(movement, place, move_cost, up, down)
    moving.check(dim)
    first = None if start is None else place.start_at(coordinates(start, "start", dim))
    units = None if per is None else check_per(per, family, dim)
    for name, option, limit in (("up", "ramp_up", ramp_up), ("down", "ramp_down", ramp_down)):
        if limit is not None:
            limits = [
                positive(each, write_option(option)) for each in coordinates(limit, option, dim)
            ]
            guards = (guards or Guards()).replace(**{name: limits})
    if whole or (whole is None and per is not None):
        guards = (guards or Guards()).replace(integers=True)
    late = integer(lead, "lead", least=0)
    return Setup(
        place, family, moving, first, guards, units, late, integer(delay, "delay", least=0)
    )


def is_autoscaler(baseline: Any) -> bool:
    """Return True if a baseline is the rule of the autoscaler, and no decisions."""
    return isinstance(baseline, str) and baseline.partition(":")[0] == AUTOSCALER


def make_autoscaler(text: str, source: Source, setup: Setup) -> PodAutoscaler:
    """Make the rule of the autoscaler.

    The text is ``hpa``, or ``hpa:target=0.7,window=10m,tolerance=0.05``, with ``step=60s`` if rows have no dates.
    """
    flag = write_option("baseline", text)
    if not isinstance(setup.family, Pinball) or not isinstance(setup.domain, Box):
        game = f"{write_option('costs', 'pinball')} and {write_option('domain', 'box')}"
        raise _refuse(
            f"{flag} needs {game}", f"{setup.family} on {setup.domain}", "Leave the baseline out."
        )
    steps = source.find_steps() if source.has_dates else None
    given: dict[str, Any] = {}
    for part in filter(None, text.partition(":")[2].split(",")):
        name, _, value = part.partition("=")
        one_of(name, "An option of hpa", ("target", "window", "tolerance", "step"))
        if name in ("window", "step"):
            given[name] = parse_span(value, name)
        else:
            given[name] = _read_number(value, name)
    step = given.pop("step", None) or (None if steps is None else steps.usual)
    if step is None:
        remedy = f"Write {write_option('baseline', f'{AUTOSCALER}:step=60s')}"
        raise InvalidInput(
            f"{flag} needs the time between two rows, and the rows have no dates. {remedy}."
        )
    # A recommendation counts as long as it is younger than the window.
    seconds = given.pop("window", HPA_WINDOW_SECONDS)
    return PodAutoscaler(
        setup.domain, window=max(1, math.ceil(seconds / step)), family=setup.family, **given
    )


def _read_number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{name} of hpa must be a number, got {text!r}.") from None


def read_move_costs(text: str) -> list[float]:
    """Read move costs: ``5``, ``0.1,1,5``, or a range ``0.1:10`` of seven, ``0.1:10:4`` of four, in equal ratios.

    >>> read_move_costs("0.1:10:3")
    [0.1, 1.0, 10.0]
    """
    try:
        if ":" not in text:
            return [float(each) for each in text.split(",")]
        low, high, *count = text.split(":")
        steps = int(count[0]) if count else RANGE_STEPS
        return [float(f"{each:.6g}") for each in np.geomspace(float(low), float(high), steps)]
    except (ValueError, IndexError):
        wanted = "--move-cost must be a number, a list or a range"
        raise InvalidInput(f"{wanted}, got {text}. Write 5, 0.1,1,5 or 0.1:10:7.") from None


def _check_size(name: str, value: Any) -> None:
    if value is None or isinstance(value, str | Path):
        return
    option = write_option(name)
    try:
        sizes = np.abs(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{option} must be a number, or one per column, got {value!r}."
        ) from None
    if not ((sizes == 0.0) | ((sizes >= SMALLEST_OPTION) & (sizes <= LARGEST_OPTION))).all():
        limits = f"between {SMALLEST_OPTION:g} and {LARGEST_OPTION:g}"
        raise InvalidInput(f"{option} must be 0 or {limits}, got {value}. Use other units.")


def _refuse(needs: str, got: Any, remedy: str = "Leave one of them out.") -> InvalidInput:
    """Make the error for options that do not fit together."""
    return InvalidInput(f"{needs}, got {got}. {remedy}")


def _choose_domain(domain: str | ConvexSet, dim: int, given: dict[str, Any]) -> ConvexSet:
    if isinstance(domain, ConvexSet):
        for name in given:
            raise _refuse(
                f"{write_option(name)} needs a domain that is given by its name", domain
            )
        return domain
    one_of(domain, write_option("domain"), tuple(SHAPES))
    for name in given:
        if name not in SHAPES[domain]:
            shapes = [shape for shape, names in SHAPES.items() if name in names]
            raise _refuse(f"{write_option(name)} needs {write_option('domain', *shapes)}", domain)
    return SETS[domain](dim, **given)


def _make_simplex(dim: int, total: float = 1.0, floor: Any = None) -> ConvexSet:
    if floor is None:
        return Simplex(dim, total)
    return CappedSimplex(dim, total, total, floor)


def _make_box(dim: int, lower: Any = 0.0, upper: Any = 1.0) -> Box:
    return Box(coordinates(lower, "lower", dim), coordinates(upper, "upper", dim))


def _read_polytope(dim: int, polytope: Path | str | None = None) -> Polytope:
    """Read {x : A x <= b} from a JSON file with A and b."""
    if polytope is None:
        remedy = f"Write {write_option('polytope', 'set.json')}."
        raise InvalidInput(f"A polytope needs a JSON file with A and b. {remedy}")
    try:
        about = json.loads(Path(polytope).read_text(encoding="utf-8"))
        sides = about["A"], about["b"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as failed:
        reason = f"{type(failed).__name__}: {failed}"
        raise InvalidInput(
            f"polytope must be a JSON file with A and b, got {polytope} ({reason})."
        ) from failed
    domain = Polytope(*sides)
    if not domain.bounded:
        raise InvalidInput(
            f"polytope must have bounds in all directions, got {polytope}. Add sides."
        )
    return domain


SETS: dict[str, Callable[..., ConvexSet]] = {
    "simplex": _make_simplex,
    "capped-simplex": CappedSimplex,
    "box": _make_box,
    "ball": lambda dim, radius=1.0: L2Ball(dim, radius),
    "polytope": _read_polytope,
}
# The options of each set: the arguments of its function but for the dimension.
SHAPES = {name: list(signature(make).parameters)[1:] for name, make in SETS.items()}


def _choose_family(costs: str | Family, short: Any, excess: Any) -> Family:
    both = f"{write_option('short')} and {write_option('excess')}"
    if costs != "pinball" and (short is not None or excess is not None):
        raise _refuse(f"{both} need {write_option('costs', 'pinball')}", costs)
    if isinstance(costs, Family):
        if costs.extras:
            wanted = "costs must be a family whose rows have one number per coordinate"
            raise _refuse(wanted, costs, "Play it with run(learner, family.costs(rows)).")
        return costs
    one_of(costs, write_option("costs"), tuple(COSTS))
    if costs != "pinball":
        return COSTS[costs]()
    shortage = _check_unit_cost(short, "short")
    surplus = _check_unit_cost(excess, "excess")
    ratios = np.divide.outer(shortage, surplus)
    if not (ratios.min() >= SMALLEST_OPTION and ratios.max() <= LARGEST_OPTION):
        raise InvalidInput(
            f"{both} must be within a factor of {LARGEST_OPTION:g}, got {short} and {excess}."
        )
    return Pinball(shortage, surplus)


def _check_unit_cost(cost: Any, name: str) -> Any:
    if cost is None:
        return 1.0
    if isinstance(cost, Sequence):
        return [positive(each, name) for each in cost]
    return positive(cost, name)


def _choose_movement(
    movement: str | Movement | None, domain: ConvexSet, move_cost: float, up: Any, down: Any
) -> Movement:
    if isinstance(movement, Movement):
        return movement.replace(weight=move_cost * np.asarray(movement.weight))
    if up is not None or down is not None:
        if movement not in (None, "l1"):
            both = f"{write_option('up')} and {write_option('down')}"
            raise _refuse(
                f"{both} need {write_option('movement', 'l1')}", movement, "Leave it out."
            )
        return AsymmetricMovement(
            move_cost, up=1.0 if up is None else up, down=1.0 if down is None else down
        )
    if movement is None:
        return suit_movement(domain, move_cost)
    return as_movement(movement, move_cost)


def read_states(
    table: Any, source: Source, domain: Any, costs: Any, movement: Any
) -> FiniteMetric:
    """Read what switching between the columns of a trace costs, from a file, a frame or an array.

    Columns with names may come in any order, if rows come in the same one.
    """
    flag = write_option("states")
    if domain != "simplex" or costs not in ("linear", "rewards") or movement is not None:
        given = f"domain {domain}, costs {costs} and movement {movement}"
        raise _refuse(
            f"{flag} is for linear costs or rewards, on the simplex, without a movement",
            given,
            "Leave these out.",
        )
    read = Source(table)
    if source.dim != read.T or read.dim != source.dim:
        raise InvalidInput(
            f"{flag} must be a table of {source.dim} rows and columns, got {read.T} and {read.dim}."
        )
    order = list(range(source.dim))
    if set(read.columns) == set(source.columns):
        order = [read.columns.index(name) for name in source.columns]
    elif isinstance(table, str | Path):
        names = ", ".join(source.columns)
        raise InvalidInput(
            f"{flag} must have the columns {names}, got {', '.join(read.columns)}."
        )
    return FiniteMetric(D=read.read(0, read.T)[np.ix_(order, order)])


def check_plausible(source: Source, setup: Setup) -> None:
    """Reject a game in which all sensible players do the same all the time, with what was probably meant."""
    rows = _sample(source)
    if is_simplex(setup.domain) and source.dim == 1:
        remedy = f"Write {write_option('domain', 'box')} and {_write_limit('upper', rows.max())}."
        raise InvalidInput(f"A simplex shares a total among columns, got one column. {remedy}")
    if isinstance(setup.family, LogWealth) and (found := name_quotes(rows)) != "relatives":
        remedy = (
            "Divide each price by the one before it." if found == "prices" else "Add 1 to each."
        )
        raise InvalidInput(
            f"Log-wealth needs price relatives, around 1. These look like {found}. {remedy}"
        )
    if isinstance(setup.domain, Box) and code_of(setup.family) == LINEAR:
        _check_signs(rows)
    elif isinstance(setup.domain, Box) and setup.family.near_rows:
        _check_box(source, setup.domain, rows)
    elif isinstance(setup.domain, Simplex) and setup.family.near_rows:
        _check_total(setup.domain, rows)


def list_warnings(source: Source, setup: Setup) -> list[str]:
    """List reasons to doubt the game, a sentence each."""
    rows = _sample(source)
    found = []
    constant = np.array(source.columns)[(rows == rows[0]).all(axis=0)]
    if len(constant) == source.dim:
        found.append("All rows are the same: there is nothing to follow.")
    elif len(constant):
        what = "This column never changes" if len(constant) == 1 else "These columns never change"
        found.append(f"{what}: {', '.join(constant)}.")
    if setup.move_cost == 0.0:
        found.append("Moving costs nothing here, so laziness has nothing to save.")
    if isinstance(setup.domain, Box) and setup.family.near_rows:
        outside = np.maximum(*_measure_outside(setup.domain, rows)) >= OUTSIDE_SHARE
        if outside.any():
            names = ", ".join(np.array(source.columns)[outside])
            found.append(f"Nearly all rows lie outside the box in: {names}.")
    return found


def _sample(source: Source) -> Array:
    every = -(-source.T // EXAMINED_ROWS)
    return np.vstack([piece[::every] for piece in source.read_pieces(0, source.T)])


def _measure_outside(box: Box, rows: Array) -> tuple[Array, Array]:
    """Measure the share of rows above and below the box, by column."""
    return (rows > box.upper).mean(axis=0), (rows < box.lower).mean(axis=0)


def _check_signs(rows: Array) -> None:
    low = rows.min(axis=0)
    if ((low >= 0.0) | (rows.max(axis=0) <= 0.0)).all():
        sign = "positive" if (low >= 0.0).all() else "of one sign"
        demands = f"{write_option('costs', 'pinball')} if rows are demands to be met"
        shares = f"{write_option('domain', 'simplex')} if they are costs of shares"
        problem = f"Linear costs on a box must change sign, but all are {sign}"
        raise InvalidInput(
            f"{problem}: the same corner is always best. Write {demands}, {shares}."
        )


def _check_box(source: Source, box: Box, rows: Array) -> None:
    above, below = _measure_outside(box, rows)
    outside = np.maximum(above, below)
    if (outside < OUTSIDE_SHARE).any():
        return
    i = int(outside.argmax())
    side, option, limit, reach = "above", "upper", box.upper[i], rows[:, i].max()
    if above[i] < below[i]:
        side, option, limit, reach = "below", "lower", box.lower[i], rows[:, i].min()
    half = f"half of them beyond {np.median(rows[:, i]):.4g}"
    found = f"{outside[i]:.0%} of column {source.columns[i]} are {side} {write_option(option, limit)}, {half}"
    raise InvalidInput(
        f"Rows must be within the box, but {found}. Write {_write_limit(option, reach)}."
    )


def _check_total(domain: Simplex, rows: Array) -> None:
    sums = rows.sum(axis=1)
    if (sums > 2.0 * domain.total).mean() >= OUTSIDE_SHARE:
        found = f"Rows add up to {np.median(sums):.4g}, far from the total of {domain.total:g}"
        remedy = f"Write {_write_limit('total', sums.max())}, or {write_option('domain', 'box')}."
        raise InvalidInput(f"{found}. {remedy}")


def _write_limit(name: str, reach: float) -> str:
    """Write an option with a limit that includes this number, rounded away from zero."""
    limit = 1.0
    if reach != 0.0:
        scale = 10.0 ** np.floor(np.log10(abs(reach)))
        limit = float(np.copysign(np.ceil(abs(reach) / scale * 2.0) / 2.0 * scale, reach))
    return write_option(name, limit)
