"""What an agent is told by name: the columns of a row, what a row costs, what moving costs, and where that was tuned."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np

from klazy.base.cells import is_missing
from klazy.base.checks import Array, Refused, number, one_of, refusal, vector
from klazy.families import Family
from klazy.learners import Learner
from klazy.movement import Movement, as_movement

OBSERVE = "Agent.observe"
FILLS = ("forward", "zero", "drop")
COMPARED = ("costs", "columns", "movement", "fill")  # an origin is but a note
SHOWN = 5  # names in a message


class Dropped(Refused):
    """A row that is left out because a cell is missing; the round goes on."""


class Account(NamedTuple):
    """What an agent's rounds have cost so far, and what its moves have, price included."""

    hitting: float = 0.0
    switching: float = 0.0


@dataclass(frozen=True, eq=False)
class Terms:
    """What an agent's rounds cost and how they are named; what is None was left open.

    ``columns`` names the entries of a row, ``names`` those of a decision; mostly they are the same. ``origin`` is where the
    agent was tuned, as plain values. ``fill`` says what happens to a missing cell: it repeats the last row, counts as zero, or
    drops the row.
    """

    costs: Family | None = None
    columns: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    movement: Movement | None = None
    origin: dict[str, Any] | None = None
    fill: str | None = None

    @classmethod
    def check(
        cls,
        learner: Learner[Any],
        costs: Any,
        columns: Any,
        movement: Any,
        origin: Any,
        owner: str = "Agent",
        *,
        fill: Any = None,
    ) -> Self:
        """The terms for this learner, or a refusal."""
        dim = learner.domain.dim
        found = _check_costs(learner, costs, owner)
        extras = 0 if found is None else found.extras
        rows, decisions = _check_columns(columns, dim, extras, owner)
        price = None
        if movement is not None:
            price = as_movement(movement, owner)
            price.check(dim)
            if not isinstance(price.weight, float):
                remedy = "write L2Movement(1.0)"
                raise refusal(owner, "a movement cost with one weight", "movement", repr(movement), remedy)
        elif found is not None and not isinstance(learner.own_movement.weight, float):
            remedy = "give movement=L2Movement(1.0), say"
            own = repr(learner.own_movement)
            raise refusal(owner, "a movement cost with one weight", "movement", own, remedy)
        _check_fill(fill, found, owner)
        return cls(found, rows, decisions, price, _check_origin(origin, owner), fill)

    @property
    def takes_rows(self) -> bool:
        """Whether rounds are told by their rows."""
        return self.costs is not None

    def about(self) -> dict[str, Any]:
        """These as plain JSON values, without what was left open."""
        about: dict[str, Any] = {}
        if self.costs is not None:
            about["costs"] = self.costs.to_dict()
        if self.columns is not None and self.names is not None:
            about["columns"] = list(self.columns)
            if self.names != self.columns:
                about["names"] = list(self.names)
        if self.movement is not None:
            about["movement"] = self.movement.to_dict()
        if self.origin is not None:
            about["origin"] = self.origin
        if self.fill is not None:
            about["fill"] = self.fill
        return about

    def repeat(self) -> dict[str, Any]:
        """These as the arguments that :meth:`check` takes."""
        columns: Any = self.columns
        if self.columns is not None and self.names != self.columns:
            columns = dict(zip_longest(self.columns, self.names or ()))
        return {
            "costs": self.costs,
            "columns": columns,
            "movement": self.movement,
            "origin": self.origin,
            "fill": self.fill,
        }

    @classmethod
    def rebuild(cls, learner: Learner[Any], about: dict[str, Any]) -> Self:
        """What :meth:`about` described."""
        costs = about.get("costs")
        movement = about.get("movement")
        columns = about.get("columns")
        if columns is not None and "names" in about:
            columns = dict(zip_longest(columns, about["names"]))
        return cls.check(
            learner,
            None if costs is None else Family.from_dict(costs),
            columns,
            None if movement is None else Movement.from_dict(movement),
            about.get("origin"),
            fill=about.get("fill"),
        )

    def find_difference(self, given: Mapping[str, Any], learner: Learner[Any]) -> tuple[str, Any] | None:
        """The first of the terms given that differs from these, with what it is here; what is None was left out."""
        others = type(self).check(learner, owner="Agent.open", **given)
        named = (self.columns, self.names)
        for name in COMPARED:
            here = getattr(self, name)
            same = (
                named == (others.columns, others.names)
                if name == "columns"
                else here == getattr(others, name)
            )
            if given[name] is not None and not same:
                return name, here
        return None

    def read(self, row: Any, dim: int) -> Array:
        """The numbers of a row in the order of the coordinates; a refusal names the column that is wrong."""
        named = _read_names(row)
        length = dim if self.costs is None else dim + self.costs.extras
        if named is None:
            values = vector(row, "row", OBSERVE, length).copy()
        elif self.columns is None:
            if isinstance(row, Mapping):
                remedy = "build the agent with columns=[...], or give an array"
                raise refusal(OBSERVE, "columns for a row by name", "columns", None, remedy)
            values = vector(list(named.values()), "row", OBSERVE, length)
        else:
            values = self._order(named, self.columns)
        if self.costs is not None and self.costs.positive and not (values > 0.0).all():
            i = int((values <= 0.0).argmax())
            name = f"row[{i}]" if self.columns is None else self.columns[i]
            remedy = "give prices divided by the last ones"
            raise refusal(OBSERVE, f"numbers above zero for {self.costs}", name, values[i], remedy)
        if self.costs is not None:
            self.costs.check_rows(values, "row", OBSERVE)
        return values

    def read_filled(self, row: Any, dim: int, last: Array | None) -> Array:
        """Read a row whose missing cells are filled, forward from the row ``last``; raise Dropped if it is left out."""
        return self.read(row if self.fill is None else self._fill(row, dim, last), dim)

    def _fill(self, row: Any, dim: int, last: Array | None) -> Any:
        """Replace the missing cells of a row. What else is wrong with it, :meth:`read` says."""
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
        first = f"row[{missing[0]}]" if self.columns is None else self.columns[missing[0]]
        if self.fill == "drop":
            raise Dropped(f"{OBSERVE} dropped the row: {first} is missing.")
        if self.fill == "forward" and last is None:
            remedy = "give the first row a number in every column"
            raise refusal(OBSERVE, "a row before it to fill forward from", first, "missing", remedy)
        values = last if self.fill == "forward" and last is not None else np.zeros(dim)
        for i in missing:
            cells[names[i]] = float(values[i])
        return cells if names is self.columns else list(cells.values())

    def _order(self, named: Mapping[str, Any], columns: tuple[str, ...]) -> Array:
        missing = [name for name in columns if name not in named]
        if missing:
            remedy = "give every column a number"
            raise refusal(OBSERVE, f"all columns {_list(columns)}", "missing", _list(missing), remedy)
        unknown = [name for name in named if name not in columns]
        if unknown:
            remedy = "leave it out, or correct its name"
            raise refusal(OBSERVE, f"columns {_list(columns)} only", "unknown", _list(unknown), remedy)
        return np.array([number(named[name], name, OBSERVE) for name in columns])

    def write(self, row: Array) -> str:
        """A row as JSON, which gives every float64 back: an object by column name where there are names, else a list."""
        values = row.tolist()
        if self.columns is None:
            return json.dumps(values)
        return json.dumps(dict(zip(self.columns, values, strict=True)))

    def parse(self, text: str) -> Array:
        """What :meth:`write` wrote."""
        values = json.loads(text)
        if isinstance(values, dict):
            values = list(values.values())
        return np.array(values, dtype=np.float64)

    def name(self, x: Array) -> Any:
        """A decision by name where there are names, else as it is."""
        if self.names is None:
            return x
        return dict(zip(self.names, x.tolist(), strict=True))


def make_terms(
    learner: Any, costs: Any, columns: Any, movement: Any, origin: Any, owner: str, fill: Any = None
) -> Terms | None:
    """The terms of an agent; None where there is no learner to check them by, which is refused elsewhere."""
    if not isinstance(learner, Learner):
        return None
    return Terms.check(learner, costs, columns, movement, origin, owner, fill=fill)


def _check_costs(learner: Learner[Any], costs: Any, owner: str) -> Family | None:
    """The family, by default that of a learner which is told its rows."""
    if costs is None:
        return None if learner.takes_gradients else learner.family
    if not isinstance(costs, Family):
        remedy = "write costs=Pinball(short=4.0)"
        if isinstance(getattr(costs, "family", None), Family):
            remedy = f"write costs={costs.family!r}, the costs without their data"
        raise refusal(owner, "a cost family", "costs", repr(costs), remedy)
    if not learner.understands(costs):
        remedy = "give both the same one"
        raise refusal(
            owner, f"costs of the learner's family, {learner.family!r}", "costs", repr(costs), remedy
        )
    costs.check(learner.domain.dim)
    return costs


def _check_columns(
    columns: Any, dim: int, extras: int, owner: str
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The names of a row's entries and of a decision's; a row may have more."""
    if columns is None:
        return None, None
    wanted = f"{dim} distinct column names, one per coordinate"
    if extras:
        wanted += f", and {extras} for the rest of a row"
    remedy = (
        "write columns=['eu', 'us', ...], or {'demand': 'capacity'} where a decision has names of its own"
    )
    if isinstance(columns, str) or not isinstance(columns, Sequence | Mapping):
        if not hasattr(columns, "tolist"):
            raise refusal(owner, wanted, "columns", repr(columns), remedy)
        columns = list(columns)  # an array, or the columns of a data frame
    rows = tuple(map(str, columns))
    decisions = rows[:dim]
    if isinstance(columns, Mapping):
        decisions = tuple(map(str, columns.values()))[:dim]
    for names, length in ((rows, dim + extras), (decisions, dim)):
        if len(names) != length or len(set(names)) != length or "" in names:
            raise refusal(owner, wanted, "columns", list(names), remedy)
    return rows, decisions


def _check_origin(origin: Any, owner: str) -> dict[str, Any] | None:
    if origin is None:
        return None
    remedy = "give a dict of plain values"
    if not isinstance(origin, dict):
        raise refusal(owner, "an origin that JSON can hold", "origin", repr(origin), remedy)
    try:
        return json.loads(json.dumps(origin, allow_nan=False))
    except (TypeError, ValueError) as failed:
        raise refusal(owner, "an origin that JSON can hold", "origin", failed, remedy) from None


def _check_fill(fill: Any, costs: Family | None, owner: str) -> None:
    """Refuse a way to fill missing cells that is unknown, or that the costs cannot take."""
    if fill is None:
        return
    one_of(fill, "fill", owner, FILLS)
    if costs is None:
        remedy = "give costs, or leave fill out"
        raise refusal(owner, "costs that say what a row costs, to fill rows", "costs", None, remedy)
    refuse_zeros(fill, costs, owner)


def refuse_zeros(fill: str | None, costs: Family, owner: str) -> None:
    """Refuse zeros for missing cells where a row must be above zero."""
    if fill == "zero" and costs.positive:
        remedy = "choose 'forward' or 'drop'"
        raise refusal(owner, f"numbers above zero for {costs}", "fill", repr(fill), remedy)


def _read_names(row: Any) -> dict[str, Any] | None:
    """The entries of a row by name: of a dict, a named tuple, a pandas Series, a frame of one row; None if it has no names."""
    if isinstance(row, Mapping):
        entries = list(row.items())
    elif hasattr(row, "_asdict"):
        entries = list(row._asdict().items())
    elif hasattr(row, "columns") and hasattr(row, "shape"):
        if row.shape[0] != 1:
            remedy = "tell rounds one by one, in their order"
            raise refusal(OBSERVE, "one row", "rows", row.shape[0], remedy)
        first = row.row(0) if hasattr(row, "row") else row.iloc[0].tolist()
        entries = list(zip(row.columns, first, strict=True))
    elif hasattr(row, "index") and hasattr(row, "items"):
        entries = list(row.items())
    else:
        return None
    named = {str(name): value for name, value in entries}
    if len(named) != len(entries):
        remedy = "rename one of them"
        raise refusal(
            OBSERVE, "column names that differ", "columns", [str(name) for name, _ in entries], remedy
        )
    return named


def _list(names: Sequence[str]) -> str:
    """A few names, and how many there are beside them."""
    shown = ", ".join(map(repr, names[:SHOWN]))
    rest = len(names) - SHOWN
    return shown if rest <= 0 else f"{shown} and {rest} more"
