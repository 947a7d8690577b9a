"""Rows of data: what their columns are called, what a row costs, and what happens to missing cells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.cells import is_missing
from klazy.base.checks import (
    Array,
    InvalidInput,
    coordinates,
    integer,
    number,
    one_of,
    positive,
    vector,
)
from klazy.families import Family
from klazy.learners import Delayed, Learner
from klazy.movement import Movement, as_movement

FILLS = ("forward", "zero", "drop")
# The row that forecasts or limits in a row are for: its own, or the one that the decision after it meets.
THIS_ROW = "this"
NEXT_ROW = "next"
# What :meth:`RowSpec.build` takes.
GIVEN = ("costs", "columns", "movement", "origin", "fill", "per", "lead", "delay", "forecast")
# What an agent that is opened again must have in common with its arguments; an origin is only a note.
COMPARED = tuple(name for name in GIVEN if name != "origin")
_NAMES_SHOWN = 5
# The ends of the names of columns with limits, and what stands for no limit.
LIMIT_SIDES = {"lower": -np.inf, "upper": np.inf}
# One side of the limits of a decision, and both: lower, upper.
LimitSide = ArrayLike | Sequence[float | None] | Mapping[str, float | None] | None
NextLimits = tuple[LimitSide, LimitSide]


class Dropped(InvalidInput):
    """A row was left out because a cell is missing; the round continues."""


@dataclass(frozen=True, eq=False)
class RowSpec:
    """What an agent's rounds cost and how their rows and decisions are named; None means not given.

    ``columns`` names the entries of a row, ``names`` those of a decision; mostly they are the same. ``origin`` says where the
    agent was tuned, as plain values. ``fill`` says what happens to a missing cell: it repeats the last row, counts as zero, or
    drops the row. ``per`` says how many units of a row are one of a decision. A
    decision acts ``lead`` rounds late, and a row comes ``delay`` rounds late. ``forecast`` names the entries of a row that
    forecast the row which the decision after it meets; for a learner that takes advice, those that advise that decision.
    """

    costs: Family | None = None
    columns: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    movement: Movement | None = None
    origin: dict[str, Any] | None = None
    fill: str | None = None
    per: tuple[float, ...] | None = None
    lead: int = 0
    delay: int = 0
    forecast: tuple[str, ...] | None = None

    @classmethod
    def build(
        cls,
        learner: Any,
        *,
        costs: Any = None,
        columns: Any = None,
        movement: Any = None,
        origin: Any = None,
        fill: Any = None,
        per: Any = None,
        lead: Any = None,
        delay: Any = None,
        forecast: Any = None,
    ) -> Self:
        """Check the arguments of an agent with this learner."""
        check_learner(learner)
        dim = learner.domain.dim
        family = _check_costs(learner, costs)
        rows = decisions = price = charged = None
        if columns is not None:
            rows, decisions = _check_columns(columns, dim, 0 if family is None else family.extras)
        if movement is not None:
            price = charged = as_movement(movement)
            price.check(dim)
        elif family is not None:
            charged = learner.own_movement
        if charged is not None and not isinstance(charged.weight, float):
            raise InvalidInput(
                f"movement must have a single weight, got {charged!r}. Use movement=L2Movement(1.0)."
            )
        if fill is not None:
            one_of(fill, "fill", FILLS)
            check_zeros(fill, _require_costs(family, "fill"))
        if origin is not None:
            origin = _check_origin(origin)
        units = None if per is None else tuple(check_per(per, family, dim).tolist())
        if lead is not None:
            lead = _check_lag(lead, "lead", learner, family)
        if delay is not None:
            delay = _check_lag(delay, "delay", learner, family)
        if forecast is not None:
            beside = decisions if learner.takes_advice else rows
            forecast = _check_forecast(forecast, learner, rows, beside)
        return cls(
            family, rows, decisions, price, origin, fill, units, lead or 0, delay or 0, forecast
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the specification by plain JSON values, without None."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        for name in ("costs", "movement"):
            if name in found:
                found[name] = found[name].to_dict()
        for name in ("columns", "names", "per", "forecast"):
            if name in found:
                found[name] = list(found[name])
        for name in ("lead", "delay"):
            if found[name] == 0:
                found.pop(name)
        if self.names == self.columns:
            found.pop("names", None)
        return found

    @classmethod
    def from_dict(cls, learner: Learner[Any], data: dict[str, Any]) -> Self:
        """Rebuild what :meth:`to_dict` described."""
        given: dict[str, Any] = {name: data.get(name) for name in GIVEN}
        for name, kind in (("costs", Family), ("movement", Movement)):
            if given[name] is not None:
                given[name] = kind.from_dict(given[name])
        if given["columns"] is not None and "names" in data:
            given["columns"] = dict(zip_longest(given["columns"], data["names"]))
        return cls.build(learner, **given)

    def find_difference(
        self, other: "RowSpec", given: Mapping[str, Any]
    ) -> tuple[str, Any, Any] | None:
        """Return the first argument in ``given`` that differs in ``other``, with its value here and the given one."""
        for name in COMPARED:
            here = getattr(self, name)
            is_same = here == getattr(other, name)
            if name == "columns":
                is_same = is_same and self.names == other.names
            if given[name] is not None and not is_same:
                return name, here, given[name]
        return None

    def read(self, row: Any, dim: int) -> Array:
        """Return the numbers of a row in the order of the coordinates; an error names the column that is wrong."""
        named = _read_names(row)
        length = dim if self.costs is None else dim + self.costs.extras
        if named is None:
            values = vector(row, "row", length).copy()
        elif self.columns is None:
            if isinstance(row, Mapping):
                raise InvalidInput(
                    "A row by name needs an agent with column names. "
                    "Build the agent with columns=[...], or give an array."
                )
            values = vector(list(named.values()), "row", length)
        else:
            values = self._order(named, self.columns)
        if self.costs is not None and self.costs.positive and not (values > 0.0).all():
            i = int((values <= 0.0).argmax())
            raise InvalidInput(
                f"{self._name_entry(i)} must be above zero for {self.costs}, got {values[i]}. "
                "Give prices divided by the last ones."
            )
        if self.costs is not None:
            self.costs.check_rows(values, "row")
        return values

    def split(self, row: Any) -> tuple[Any, list[float] | None]:
        """Split a row into itself and the forecast in it; None where that is missing, in part or as a whole."""
        named = None if self.forecast is None else _read_names(row)
        if named is None or self.forecast is None:
            return row, None
        told = {name: named.pop(name, None) for name in self.forecast}
        if any(is_missing(value) for value in told.values()):
            return named, None
        return named, [number(value, name) for name, value in told.items()]

    def fill_cells(self, row: Any, dim: int, last: Array | None) -> Any:
        """Fill the missing cells of a row, forward from the row ``last``; raise Dropped if it is left out.

        :meth:`read` finds what else is wrong with it.
        """
        named = _read_names(row)
        cells: dict[Any, Any]
        if named is not None and self.columns is not None:
            names: Sequence[Any] = self.columns
            cells = dict.fromkeys(names) | named
        else:
            entries = row if named is None else list(named.values())
            if isinstance(row, Mapping) or not hasattr(entries, "__len__") or len(entries) != dim:
                return row
            names = range(dim)
            cells = dict(enumerate(entries))
        missing = [i for i, name in enumerate(names) if is_missing(cells[name])]
        if not missing:
            return row
        first = self._name_entry(missing[0])
        if self.fill == "drop":
            raise Dropped(f"The row was dropped because {first} is missing.")
        if self.fill == "forward" and last is None:
            raise InvalidInput(
                f"{first} is missing, and there is no earlier row to fill it from. "
                "Give the first row a number in every column."
            )
        values = last if self.fill == "forward" and last is not None else np.zeros(dim)
        for i in missing:
            cells[names[i]] = float(values[i])
        return cells if names is self.columns else list(cells.values())

    def _name_entry(self, i: int) -> str:
        return f"row[{i}]" if self.columns is None else self.columns[i]

    def read_limits(self, limits: Any, name: str) -> Any:
        """Return limits of a decision, ``(lower, upper)``, in the order of the coordinates where they were given by name."""
        if not isinstance(limits, tuple | list) or len(limits) != 2:
            raise InvalidInput(
                f"{name} must be (lower, upper), got {limits!r}. Use None for a side without limits."
            )
        lower, upper = limits
        return self._read_side(lower, -np.inf), self._read_side(upper, np.inf)

    def _read_side(self, side: Any, none: float) -> Any:
        if isinstance(side, Mapping):
            if self.names is None:
                raise InvalidInput(
                    "Limits by name need an agent with column names. "
                    "Build the agent with columns=[...], or give an array."
                )
            unknown = [name for name in side if name not in self.names]
            if unknown:
                raise InvalidInput(
                    f"The limits have an unknown name {_list(unknown)}; a decision has {_list(self.names)}. "
                    "Leave it out, or correct it."
                )
            side = [side.get(name) for name in self.names]
        if isinstance(side, list | tuple):
            return [none if value is None else value for value in side]
        return side

    def read_advice(self, advice: Any, dim: int) -> Array:
        """Return a decision that somebody advises, in the order of the coordinates where it was given by name."""
        named = _read_names(advice)
        if named is not None and self.names is not None:
            return self._order(named, self.names)
        return vector(advice, "next_forecast", dim)

    def scale(self, row: Array) -> Array:
        """Return a row in the units of a decision."""
        return row if self.per is None else row / np.array(self.per)

    def _order(self, named: Mapping[str, Any], columns: tuple[str, ...]) -> Array:
        if named.keys() != set(columns):
            missing = [name for name in columns if name not in named]
            unknown = [name for name in named if name not in columns]
            if missing:
                raise InvalidInput(
                    f"The row has no {_list(missing)}; it must have the columns {_list(columns)}. "
                    "Give every column a number."
                )
            raise InvalidInput(
                f"The row has an unknown column {_list(unknown)}; its columns are {_list(columns)}. "
                "Leave it out, or correct its name."
            )
        return np.array([number(named[name], name) for name in columns])

    def write(self, row: Array) -> str:
        """Write a row as JSON, which restores every float64: an object by column name where there are names, else a list."""
        values = row.tolist()
        if self.columns is None or self.costs is None:
            return json.dumps(values)
        return json.dumps(dict(zip(self.columns, values, strict=True)))

    def name(self, x: Array) -> Any:
        """Return a decision by name where there are names, else as it is."""
        if self.names is None:
            return x
        return dict(zip(self.names, x.tolist(), strict=True))


def name_limits(columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the side and the column of each name that a column of limits may have.

    >>> name_limits(["eu"])
    {'eu_lower': ('lower', 'eu'), 'eu_upper': ('upper', 'eu')}
    """
    return {f"{column}_{side}": (side, column) for side in LIMIT_SIDES for column in columns}


def check_learner(learner: Any) -> None:
    """Check that an agent was given a learner."""
    if not isinstance(learner, Learner):
        raise InvalidInput(
            f"learner must be a Learner, got {learner!r}. Use Agent(GD(L2Ball(5), 1.0))."
        )


def _check_costs(learner: Learner[Any], costs: Any) -> Family | None:
    """Return the family, by default that of a learner which sees its rows."""
    if costs is None:
        return None if learner.takes_gradients else learner.family
    if not isinstance(costs, Family):
        remedy = "Use costs=Pinball(short=4.0)."
        if isinstance(getattr(costs, "family", None), Family):
            remedy = f"Use costs={costs.family!r}, the costs without their data."
        raise InvalidInput(f"costs must be a cost family, got {costs!r}. {remedy}")
    if not learner.understands(costs):
        raise InvalidInput(
            f"costs must be of the learner's family, {learner.family!r}, got {costs!r}. "
            "Give both the same one."
        )
    costs.check(learner.domain.dim)
    return costs


def _check_columns(
    columns: Any, dim: int, extras: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a row's entries and of a decision's; a row may have more."""
    wanted = f"{dim} distinct column names, one per coordinate"
    if extras:
        wanted += f", and {extras} for the rest of a row"
    remedy = "Use columns=['eu', 'us', ...], or {'demand': 'capacity'} where a decision has names of its own."
    if isinstance(columns, str) or not isinstance(columns, Sequence | Mapping):
        if not hasattr(columns, "tolist"):
            raise InvalidInput(f"columns must be {wanted}, got {columns!r}. {remedy}")
        # An array, or the columns of a data frame.
        columns = list(columns)
    rows = tuple(map(str, columns))
    decisions = rows[:dim]
    if isinstance(columns, Mapping):
        decisions = tuple(map(str, columns.values()))[:dim]
    for names, length in ((rows, dim + extras), (decisions, dim)):
        if len(names) != length or len(set(names)) != length or "" in names:
            raise InvalidInput(f"columns must be {wanted}, got {list(names)}. {remedy}")
    return rows, decisions


def _check_forecast(
    forecast: Any,
    learner: Learner[Any],
    columns: tuple[str, ...] | None,
    told: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """Check the names of the columns with forecasts, or with decisions, of which there is one for each name in ``told``."""
    if columns is None or told is None:
        raise InvalidInput(
            "forecast needs an agent with column names. Build the agent with columns=[...]."
        )
    if not learner.accepts_hints:
        raise InvalidInput(
            f"forecast needs a learner that takes hints, got {learner!r}. Leave forecast out."
        )
    names = [forecast] if isinstance(forecast, str) else [str(name) for name in forecast]
    if len(names) != len(told) or len({*names, *columns}) != len(told) + len(columns):
        wanted = f"forecast must name one more column for each of {list(told)}"
        raise InvalidInput(f"{wanted}, got {names}. Use forecast=['demand_forecast'].")
    return tuple(names)


def _check_origin(origin: Any) -> dict[str, Any]:
    if not isinstance(origin, dict):
        raise InvalidInput(f"origin must be a dict of plain values, got {origin!r}.")
    try:
        return json.loads(json.dumps(origin, allow_nan=False))
    except (TypeError, ValueError) as failed:
        raise InvalidInput(
            f"origin must be a dict of values that JSON can represent: {failed}."
        ) from None


def _require_costs(costs: Family | None, name: str) -> Family:
    """Return the costs, which an argument of this name needs."""
    if costs is None:
        raise InvalidInput(
            f"{name} needs costs that say what a row costs. Give costs, or leave {name} out."
        )
    return costs


def check_per(per: Any, costs: Family | None, dim: int) -> Array:
    """Return how many units of a row are one unit of a decision, by column."""
    if costs is None or not costs.near_rows:
        raise InvalidInput(
            f"per needs costs of demands or targets, pinball or quadratic, got {costs}."
        )
    units = coordinates(per, "per", dim)
    for each in units:
        positive(each, "per")
    return units


def _check_lag(lag: Any, name: str, learner: Learner[Any], costs: Family | None) -> int:
    """Check a number of rounds by which something is late."""
    if lag == 0:
        return 0
    _require_costs(costs, name)
    if isinstance(learner, Delayed):
        raise InvalidInput(
            f"{name} and Delayed do not go together. Give the learner without Delayed."
        )
    return integer(lag, name, "Leave it out for none.", least=0)


def check_zeros(fill: str | None, costs: Family) -> None:
    """Reject zeros for missing cells where a row must be above zero."""
    if fill == "zero" and costs.positive:
        raise InvalidInput(
            f"fill='zero' does not suit {costs}, whose rows must be above zero. "
            "Use fill='forward' or fill='drop'."
        )


def _read_names(row: Any) -> dict[str, Any] | None:
    """Return the entries by name of a dict, named tuple, pandas Series or frame of one row; None for others."""
    if isinstance(row, Mapping):
        entries = row.items()
    elif hasattr(row, "_asdict"):
        entries = row._asdict().items()
    elif hasattr(row, "columns") and hasattr(row, "shape"):
        if row.shape[0] != 1:
            raise InvalidInput(
                f"row must be a single row, got {row.shape[0]}. Give rounds one by one, in their order."
            )
        values = row.row(0) if hasattr(row, "row") else row.iloc[0].tolist()
        entries = zip(row.columns, values, strict=True)
    elif hasattr(row, "index") and hasattr(row, "items"):
        entries = row.items()
    else:
        return None
    named = [(str(name), value) for name, value in entries]
    found = dict(named)
    if len(found) != len(named):
        raise InvalidInput(f"Column names must differ, got {[name for name, _ in named]}.")
    return found


def _list(names: Sequence[str]) -> str:
    """List a few names, and how many more there are."""
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    rest = len(names) - _NAMES_SHOWN
    return shown if rest <= 0 else f"{shown} and {rest} more"
