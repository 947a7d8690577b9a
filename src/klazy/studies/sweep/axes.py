"""Grids as a study writes them: a value, a list, or a space such as ``{ logspace = [0.1, 100, 16] }``."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, FiniteFloat, Strict
from pydantic_core import PydanticCustomError

MOST = 100_000  # values
LARGEST = 2**63 - 1  # whole number that a column holds
SPACES: dict[str, Callable[..., Any]] = {
    "linspace": lambda first, last, count: np.linspace(first, last, _check_whole(count, 1, MOST)),
    "logspace": lambda first, last, count: np.geomspace(first, last, _check_whole(count, 1, MOST)),
    "powers": lambda base, first, last: _raise(
        base, range(_check_whole(first, -1000, 1000), _check_whole(last, -1000, 1000) + 1)
    ),
}
FORMS = (
    "a value, a list of values, { linspace = [first, last, count] }, { logspace = [first, last, count] } "
    "or { powers = [base, first exponent, last exponent] }"
)


def _raise(base: Any, exponents: range) -> list[Any]:
    if not abs(base) <= LARGEST:  # thousands of digits to the thousandth take hours
        raise ValueError
    return [base**exponent for exponent in exponents]


def _check_whole(value: Any, least: int, most: int) -> int:
    if not least <= value <= most or value != int(value):
        raise ValueError
    return int(value)


def expand(value: Any) -> list[Any]:
    """The values of a grid in their order, each once.

    >>> expand(3), expand([1, 2, 2]), expand({"powers": [2, 0, 4]}), expand({"linspace": [0, 1, 3]})
    ([3], [1, 2], [1, 2, 4, 8, 16], [0.0, 0.5, 1.0])
    """
    if isinstance(value, dict):
        values = _expand_space(value)
    else:
        values = value.tolist() if hasattr(value, "tolist") else value
        values = list(values) if isinstance(values, list | tuple | range) else [values]
    if not values or any(isinstance(each, dict | list | tuple) for each in values):
        raise _make_complaint()
    return list({(type(each), each): each for each in values}.values())


def _expand_space(value: dict[str, Any]) -> list[Any]:
    if len(value) != 1 or next(iter(value)) not in SPACES:
        raise _make_complaint()
    ((name, arguments),) = value.items()
    try:
        with np.errstate(all="raise"):
            values = np.asarray(SPACES[name](*arguments)).tolist()
    except (TypeError, ValueError, ArithmeticError):
        raise _make_complaint() from None
    return values


def _make_complaint() -> PydanticCustomError:
    return PydanticCustomError("grid", "Input should be a grid: {forms}", {"forms": FORMS})


def _expand_whole(value: Any) -> list[Any]:
    """The same for whole numbers: what a space has between them is rounded."""
    values = expand(value)
    return list(dict.fromkeys(map(round, values))) if isinstance(value, dict) else values


Numbers = Annotated[tuple[Annotated[FiniteFloat, Strict()], ...], BeforeValidator(expand)]
Weights = Annotated[tuple[Annotated[FiniteFloat, Strict(), Field(ge=0)], ...], BeforeValidator(expand)]
Wholes = Annotated[
    tuple[Annotated[int, Strict(), Field(ge=1, le=LARGEST)], ...], BeforeValidator(_expand_whole)
]
Flags = Annotated[tuple[Annotated[bool, Strict()], ...], BeforeValidator(expand)]
Words = Annotated[
    tuple[Annotated[FiniteFloat, Strict()] | Annotated[str, Strict()], ...], BeforeValidator(expand)
]
Scalar = (
    bool | Annotated[int, Strict(), Field(ge=-LARGEST, le=LARGEST)] | Annotated[FiniteFloat, Strict()] | str
)
Scalars = Annotated[tuple[Scalar, ...], BeforeValidator(expand)]
# By the type of an argument.
AXES: dict[Any, Any] = {int: Wholes, float: Numbers, bool: Flags, float | str: Words}
