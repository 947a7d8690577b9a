"""A study: which learners on which sequences, at which values, how often. Everything that it may contain is checked here.

A table of a study names a recipe or a rule and has a grid for each of its keys, which its signature names. A grid is a value,
a list, or a space such as ``{ logspace = [0.1, 100, 16] }``.
"""

import difflib
import itertools
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from klazy.base.checks import InvalidInput
from klazy.base.options import write_option
from klazy.game.device import DEVICES, KNOWN_DEVICES
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import CatalogueEntry, Cell

CURVE_POINTS = 200  # in one curve
MOST_VALUES = 100_000  # in one grid
LARGEST_INTEGER = 2**63 - 1  # integer that a column holds
SHOWN_LETTERS = 200  # letters of a value in a message
REMEDY = "`klazy sweep --init` shows a study with every key."
Metric = Literal[
    "cost",
    "hitting",
    "switching",
    "dynamic_regret",
    "total_regret",
    "static_regret",
    "optimum_regret",
]
LABORIOUS = ("static_regret", "optimum_regret")  # computed only if the study names them
GRID_FORMS = (
    "a value, a list of values, { linspace = [first, last, count] }, { logspace = [first, last, count] } "
    "or { powers = [base, first exponent, last exponent] }"
)


def _check_integer(value: Any, least: int, most: int) -> int:
    if not least <= value <= most or value != int(value):
        raise ValueError
    return int(value)


def _list_powers(base: Any, first: Any, last: Any) -> list[Any]:
    # A number of thousands of digits to the thousandth takes hours.
    if not abs(base) <= LARGEST_INTEGER:
        raise ValueError
    exponents = range(_check_integer(first, -1000, 1000), _check_integer(last, -1000, 1000) + 1)
    return [base**exponent for exponent in exponents]


SPACES: dict[str, Callable[..., Any]] = {
    "linspace": lambda first, last, count: np.linspace(
        first, last, _check_integer(count, 1, MOST_VALUES)
    ),
    "logspace": lambda first, last, count: np.geomspace(
        first, last, _check_integer(count, 1, MOST_VALUES)
    ),
    "powers": _list_powers,
}


def expand(value: Any) -> list[Any]:
    """Return the values of a grid in their order, each once.

    >>> expand(3), expand([1, 2, 2]), expand({"powers": [2, 0, 4]}), expand({"linspace": [0, 1, 3]})
    ([3], [1, 2], [1, 2, 4, 8, 16], [0.0, 0.5, 1.0])
    """
    try:
        if isinstance(value, dict):
            ((name, arguments),) = value.items()
            with np.errstate(all="raise"):
                value = np.asarray(SPACES[name](*arguments))
        values = value.tolist() if hasattr(value, "tolist") else value
        values = list(values) if isinstance(values, list | tuple | range) else [values]
        if not values or any(isinstance(each, dict | list | tuple) for each in values):
            raise ValueError
    except (TypeError, ValueError, ArithmeticError, KeyError):
        raise PydanticCustomError(
            "grid", "Input should be a grid: {forms}", {"forms": GRID_FORMS}
        ) from None
    return list({(type(each), each): each for each in values}.values())


def _expand_integers(value: Any) -> list[Any]:
    """Return the values of a grid of integers: those of a space are rounded."""
    values = expand(value)
    return list(dict.fromkeys(map(round, values))) if isinstance(value, dict) else values


Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Integer = Annotated[int, Field(strict=True)]
Weights = Annotated[tuple[Annotated[Number, Field(ge=0)], ...], BeforeValidator(expand)]


def _adapt(kind: Any, read: Callable[[Any], list[Any]] = expand) -> TypeAdapter[Any]:
    """Return what checks a grid whose values are of a kind."""
    grid: Any = Annotated[tuple[kind, ...], BeforeValidator(read)]
    return TypeAdapter(grid)


# Grids by the type of an argument; an argument of another type takes any values.
AXES: dict[Any, TypeAdapter[Any]] = {
    int: _adapt(Annotated[Integer, Field(ge=1, le=LARGEST_INTEGER)], _expand_integers),
    float: _adapt(Number),
    bool: _adapt(Annotated[bool, Field(strict=True)]),
    float | str: _adapt(Number | Annotated[str, Field(strict=True)]),
}
ANY_AXIS = _adapt(
    bool | Annotated[Integer, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)] | Number | str
)


@dataclass(frozen=True)
class Spec:
    """A recipe or a rule, by name, and the values of each of its parameters; iterate over their combinations."""

    kind: str
    name: str
    axes: dict[str, tuple[Any, ...]]

    @property
    def count(self) -> int:
        """The number of combinations."""
        return math.prod(map(len, self.axes.values()))

    def __iter__(self) -> Iterator[Cell]:
        for values in itertools.product(*self.axes.values()):
            yield self.name, dict(zip(self.axes, values, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the table of the study."""
        return {self.kind: self.name, **self.axes}


def _read_spec(kind: str, table: Any) -> Spec:
    """Check a table of a study, and return what it names; an error begins where the name of the table ends."""
    if isinstance(table, Spec):
        return table
    name: Any = table.get(kind) if isinstance(table, dict) else None
    if not isinstance(name, str):
        raise InvalidInput(f": {kind} must be a name, got {show(name)}.")
    try:
        entry = catalogue.find_entry(name, kind)
    except InvalidInput as unknown:
        raise InvalidInput(f": {unknown}") from None
    try:
        axes = _read_axes(kind, entry, table)
        if kind == "rule" and name in catalogue.LEARNER_RULES:
            _try_values(name, axes)
    except InvalidInput as wrong:
        raise InvalidInput(
            "\n".join(f" ({name}): {line}" for line in str(wrong).splitlines())
        ) from None
    return Spec(kind, name, axes)


def _read_axes(
    kind: str, entry: CatalogueEntry, table: dict[str, Any]
) -> dict[str, tuple[Any, ...]]:
    """Return the values of every key, from the table or by default."""
    required = [key for key, value in entry.parameters.items() if value.default is value.empty]
    _check_keys(table, [kind, *entry.parameters], required)
    axes: dict[str, tuple[Any, ...]] = {}
    wrong = []
    for key, parameter in entry.parameters.items():
        if key in table:
            try:
                axes[key] = AXES.get(parameter.annotation, ANY_AXIS).validate_python(table[key])
            except ValidationError as found:
                wrong.append(_describe_error(key, found.errors()[0]))
        elif isinstance(parameter.default, bool | int | float | str):
            axes[key] = (parameter.default,)
    if wrong:
        raise InvalidInput("\n".join(wrong))
    if "sigma" in entry.parameters and sum(key in axes for key in catalogue.STEP_SIZES) != 1:
        raise InvalidInput(
            "give one of sigma, for a constant one, learning_rate, which is 1 / sigma, or c, "
            "for sigma_t = sqrt(t / c)."
        )
    rates = axes.pop("learning_rate", ())
    if not rates:
        return axes
    if min(rates) <= 0.0:
        raise InvalidInput(f"learning_rate must be above 0, got {min(rates)}.")
    return {"sigma": tuple(1.0 / rate for rate in rates)} | axes


def _check_keys(data: dict[str, Any], known: list[str], required: Sequence[str]) -> None:
    """Reject a key that is not known, and the lack of a required one."""
    keys = ", ".join(known)
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise InvalidInput(f"there is no key {key}. {hint}Its keys are {keys}.")
    for key in required:
        if key not in data:
            raise InvalidInput(f"the key {key} is missing. Its keys are {keys}.")


def _try_values(rule: str, axes: dict[str, tuple[Any, ...]]) -> None:
    """Build a learner with every value of every key once."""
    first = {key: values[0] for key, values in axes.items()}
    catalogue.check_point(rule, first)
    for key, values in axes.items():
        for value in values[1:]:
            catalogue.check_point(rule, first | {key: value})


def _describe_error(key: str, error: Any) -> str:
    """Return what a key must be and what it is, from an error of pydantic."""
    condition = (
        error["msg"].replace("Input should be", f"{key} must be").replace("valid tuple", "list")
    )
    return f"{condition}, got {show(error['input'])}."


def show(value: Any) -> str:
    """Return a value for a message, cut if it is long; some are too deep or have too many digits to be written."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a large {type(value).__name__}"
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."


def _check_filled(data: Any) -> Any:
    """Reject an empty list."""
    if isinstance(data, list | tuple) and not data:
        raise PydanticCustomError("empty", "Input should be a list with something in it")
    return data


def _check_device(device: Any) -> Any:
    """Reject what is no device."""
    if not isinstance(device, str) or not DEVICES.fullmatch(device):
        raise PydanticCustomError("device", "Input should be {known}", {"known": KNOWN_DEVICES})
    return device


if TYPE_CHECKING:
    Recipe = Rule = Spec
else:
    _WRITE = PlainSerializer(Spec.to_dict)
    Recipe = Annotated[Any, BeforeValidator(partial(_read_spec, "recipe")), _WRITE]
    Rule = Annotated[Any, BeforeValidator(partial(_read_spec, "rule")), _WRITE]


class Study(BaseModel, frozen=True):
    """Describe a study: every learner at every value of its grid, on every sequence, at every price of movement, one run each.

    Parameters
    ----------
    name : str, optional
        Its title. Default: ``"a study"``.
    scenarios : list of dict
        The sequences: recipes by name (``recipe = "phases_of_length"``), with grids for their keys.
    learners : list of dict
        The learners: rules by name (``rule = "KLazyGD"``), with grids for their keys.
    movement : str, optional
        The movement cost: ``"l2"``, the default, ``"l1"`` or ``"tv"``.
    move_cost : float or list of float, optional
        The prices of a unit of movement to try. Default: 1.
    seeds : int, optional
        How many sequences to draw of each scenario that is random. Default: 1.
    seed : int, optional
        The seed of all sequences. Default: 0.
    metrics : list of str, optional
        Metrics; tables and figures show the first: ``"cost"``, ``"hitting"``, ``"switching"``, ``"dynamic_regret"``,
        ``"total_regret"``, ``"static_regret"``, ``"optimum_regret"``; the last two are computed only if you name them.
        Default: ``"total_regret"``.
    record : str, optional
        ``"totals"``, the default, or ``"curves"``, which stores 200 points of each run's running sums.
    device : str, optional
        The device: ``"cpu"``, the default; ``"cuda"`` for a GPU, ``"cuda:0,1"`` for several; ``"auto"`` for a GPU where there
        is one. The rows and their keys are the same.

    Raises
    ------
    ValueError
        If a key is unknown, or a value is rejected; the message names each.

    Examples
    --------
    >>> study = Study(scenarios=[{"recipe": "phases_of_length", "length": [5, 10], "T": 100}],
    ...               learners=[{"rule": "KLazyGD", "sigma": 2.0, "k": {"powers": [2, 0, 3]}}])
    >>> study.learners[0].axes["k"]
    (1, 2, 4, 8)
    """

    name: str = "a study"
    scenarios: Annotated[tuple[Recipe, ...], BeforeValidator(_check_filled)]
    learners: Annotated[tuple[Rule, ...], BeforeValidator(_check_filled)]
    movement: Literal["l2", "l1", "tv"] = "l2"
    move_cost: Weights = (1.0,)
    seeds: Annotated[Integer, Field(ge=1)] = 1
    seed: Annotated[Integer, Field(ge=0, le=LARGEST_INTEGER)] = 0
    metrics: Annotated[tuple[Metric, ...], BeforeValidator(_check_filled)] = ("total_regret",)
    record: Literal["totals", "curves"] = "totals"
    device: Annotated[str, BeforeValidator(_check_device)] = "cpu"

    def __init__(self, **data: Any) -> None:
        try:
            _check_keys(data, list(type(self).model_fields), ["scenarios", "learners"])
            super().__init__(**data)
        except ValidationError as found:
            raise _explain(found) from None
        except InvalidInput as wrong:
            raise InvalidInput(f"study: {wrong}\n{REMEDY}") from None

    def to_dict(self) -> dict[str, Any]:
        """Describe the study by plain values, from which the same study can be built.

        Returns
        -------
        dict
            Its keys and values.
        """
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def read(cls, path: Path | str, *, trust: bool = False) -> Self:
        """Read a study from a TOML file.

        Parameters
        ----------
        path : str or Path
            The file.
        trust : bool, optional
            Allow recipes and rules that are not klazy's own: they are code, and reading them runs it. Default: False.

        Returns
        -------
        Study
            The study.

        Raises
        ------
        ValueError
            If the file cannot be read, is not TOML, or holds no valid study.
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as failed:
            raise InvalidInput(f"{path} cannot be read: {failed.strerror or failed}.") from failed
        except (ValueError, RecursionError) as failed:
            raise InvalidInput(f"{path} is not valid TOML: {failed}. {REMEDY}") from failed
        return cls.from_file(data, path, trust=trust)

    @classmethod
    def from_file(cls, data: Any, path: Path, *, trust: bool) -> Self:
        """Build the study that a file holds.

        Parameters
        ----------
        data : dict
            What the file holds.
        path : Path
            The file, for messages.
        trust : bool
            Whether code that is not klazy's own may be run.

        Returns
        -------
        Study
            The study.

        Raises
        ------
        ValueError
            If it is no valid study, or names code without ``trust``.
        """
        if not isinstance(data, dict):
            raise InvalidInput(
                f"{path} must have the keys of a study, got {type(data).__name__}. {REMEDY}"
            )
        if not trust:
            _check_trust(data, path)
        try:
            return cls(**data)
        except InvalidInput as wrong:
            raise InvalidInput(f"{path}: {wrong}") from None


def _check_trust(data: dict[str, Any], path: Path) -> None:
    """Reject a study that names code, as ``module:function``: to import it is to run it."""
    for key, kind in (("scenarios", "recipe"), ("learners", "rule")):
        tables = data.get(key)
        for table in tables if isinstance(tables, list) else ():
            name = table.get(kind) if isinstance(table, dict) else None
            if isinstance(name, str) and ":" in name:
                raise InvalidInput(
                    f"{path} would run code that is not klazy's: {kind} = {show(name)}. "
                    f"If you know it, allow it with {write_option('trust')}."
                )


def read_example() -> str:
    """Return a study with every key and what it means, which runs as it is."""
    return files("klazy.studies.sweep").joinpath("example.toml").read_text(encoding="utf-8")


def _explain(found: ValidationError) -> InvalidInput:
    """Return the errors of a study, a line each: the key, what it must be, and its value."""
    lines = []
    errors: list[Any] = found.errors()
    for error in errors:
        # A table has its key and its place in the list.
        key, *place = error["loc"]
        if error["type"] == "value_error":
            lines += [f"{key}{place}{line}" for line in str(error["ctx"]["error"]).splitlines()]
        else:
            lines.append(_describe_error(str(key), error))
    return InvalidInput("\n".join([*dict.fromkeys(lines), REMEDY]))
