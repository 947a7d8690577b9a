"""The array type, the convention for rounds, and every check of input.

Rounds are ``t = 1, ..., T``; row ``i`` of an array of shape ``(T, d)`` belongs to round ``t = i + 1``.
In round ``t`` the learner plays ``x[t]`` and only then learns ``g[t]``.

Input is checked once, where it enters. An error says what was expected, what came, and what to do, in one or two
sentences: ``k must be at least 1, got 0. Use k=1 for greedy GD.`` Code behind these checks trusts its arrays.
"""

import math
import numbers
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Kind = TypeVar("Kind")
# An array of this size fits into no memory, and NumPy still accepts the number as a size.
LARGEST_SIZE = 2**53

# Numbers of this size keep every step, square and sum of squares of 2^53 rounds far from overflow and underflow.
LARGEST = 1e60
SMALLEST = 1e-60
FINITE = sys.float_info.max
# Files and requests may nest this deep, so that recursive functions end.
DEEPEST = 100


class InvalidInput(ValueError):
    """An error in the input, found where it entered; its message says all that a user needs."""


def check_depth(value: dict[str, Any]) -> None:
    """Reject an object of JSON that is nested too deep."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        members: list[Any] = []
        for each in level:
            members += each.values() if isinstance(each, dict) else each
        level = [member for member in members if isinstance(member, dict | list)]
        if not level:
            return
    raise InvalidInput(f"Lists and objects may be nested at most {DEEPEST} levels deep.")


def real_array(values: ArrayLike, name: str, *, limit: float = LARGEST) -> Array:
    """Return ``values`` as C-contiguous float64, copied only if necessary; reject complex, text and ragged input.

    Masked entries and numbers farther from zero than ``limit`` are rejected, too. Without a limit, ``math.inf``, nothing looks
    for NaN and inf.
    """
    if type(values) is not np.ndarray and hides_entries(values):
        raise InvalidInput(f"{name} has masked entries. Fill or remove them.")
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"The rows of {name} must have equal length.") from None
    if array.dtype.kind not in "fiu":
        raise InvalidInput(
            f"{name} must contain real numbers, got an array of dtype {array.dtype}."
        )
    if array.dtype != np.float64 or not array.flags.c_contiguous:
        with np.errstate(
            over="ignore"
        ):  # A long double beyond float64 becomes inf, which is found below.
            array = np.array(array, dtype=np.float64, order="C")
    if limit < math.inf and not is_within(array, limit):
        raise _reject_entry(array, name, limit)
    return array


def _reject_entry(array: Array, name: str, limit: float) -> InvalidInput:
    """Make the error for the first number that is NaN, infinite or too large."""
    fits = np.abs(array) <= limit
    where = tuple(int(i) for i in np.argwhere(~fits)[0])
    entry = f"{name}{list(where)}" if where else name
    value = array[where]
    if np.isfinite(value):
        return InvalidInput(f"{entry} must be within +-{limit:g}, got {value}. Use larger units.")
    return InvalidInput(
        f"{entry} must be a finite number, got {value}. Remove or fill NaN and inf."
    )


def hides_entries(values: Any) -> bool:
    """Return True for a masked array, or a list of some, with masked entries: NumPy would use the hidden numbers."""
    # If the module was never imported, there are no masked arrays; importing it takes time.
    masked_arrays = sys.modules.get("numpy.ma")
    if masked_arrays is None:
        return False
    kind = masked_arrays.MaskedArray
    found = values if isinstance(values, list | tuple) else [values]
    for array in found:  # noqa: SIM110  long lists are searched faster by a loop
        if isinstance(array, kind) and masked_arrays.is_masked(array):
            return True
    return False


def is_within(array: Array, limit: float) -> bool:
    """Return True if no entry is NaN or farther from zero than ``limit``, without a second array unless entries are large."""
    square = float(np.vdot(array, array))
    if square < FINITE and math.sqrt(square) <= limit:
        return True
    return bool((np.abs(array) <= limit).all())


def vector(
    values: ArrayLike, name: str, dim: int | None = None, *, limit: float = LARGEST
) -> Array:
    """Return an array of shape ``(dim,)``; of any positive length if ``dim`` is None."""
    array = real_array(values, name, limit=limit)
    if array.ndim != 1 or array.size == 0 or (dim is not None and array.size != dim):
        wanted = "d" if dim is None else dim
        raise InvalidInput(f"{name} must have shape ({wanted},), got {array.shape}.")
    return array


def rows(
    values: ArrayLike,
    name: str,
    dim: int | None = None,
    T: int | None = None,
    *,
    limit: float = LARGEST,
) -> Array:
    """Return an array of shape ``(T, dim)``, one row per round."""
    array = real_array(values, name, limit=limit)
    is_table = array.ndim == 2 and array.size > 0
    if not is_table or T not in (None, len(array)) or dim not in (None, array.shape[1]):
        wanted = f"({T or 'T'}, {dim or 'd'})"
        raise InvalidInput(
            f"{name} must have shape {wanted}, one row per round, got {array.shape}."
        )
    return array


def coordinates(value: ArrayLike, name: str, dim: int) -> Array:
    """Return a vector of length ``dim``; repeat a scalar."""
    array = real_array(value, name)
    return np.full(dim, float(array)) if array.ndim == 0 else vector(array, name, dim)


def number(value: Any, name: str, *, limit: float = LARGEST) -> float:
    """Return a real number (NumPy scalars included, booleans and text not)."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and not hides_entries(value):
        value = value.item()
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    finite: Any = FINITE
    if not real or not -finite <= value <= finite:
        raise InvalidInput(f"{name} must be a finite number, got {_format(value)}.")
    result = float(value)
    if not -limit <= result <= limit:
        raise InvalidInput(
            f"{name} must be within +-{limit:g}, got {_format(value)}. Use larger units."
        )
    return result


def _format(value: object) -> str:
    """Format a value, also an integer that Python finds too long to print."""
    try:
        return repr(value)
    except ValueError:
        return f"an integer of {int(value).bit_length()} bits"  # pyright: ignore[reportArgumentType]


def positive(value: Any, name: str, remedy: str = "", *, limit: float = LARGEST) -> float:
    """Return a number above zero, not so small that squares vanish."""
    result = number(value, name, limit=limit)
    if result <= 0:
        raise InvalidInput(f"{name} must be above 0, got {value}. {remedy}".rstrip())
    if result < SMALLEST:
        raise InvalidInput(
            f"{name} must be at least {SMALLEST:g}, got {value}. Use smaller units."
        )
    return result


def non_negative(value: Any, name: str, *, limit: float = LARGEST) -> float:
    """Return a number at or above zero."""
    result = number(value, name, limit=limit)
    if result < 0:
        raise InvalidInput(f"{name} must not be negative, got {value}.")
    return result


def integer(value: Any, name: str, remedy: str = "", *, least: int = 1) -> int:
    """Return an integer; 3.0 counts as 3, 2.5 is rejected."""
    result = number(value, name)
    if result < least or result != int(result):
        raise InvalidInput(
            f"{name} must be an integer of at least {least}, got {value}. {remedy}".rstrip()
        )
    return int(result)


def size(value: Any, name: str, remedy: str = "", *, least: int = 1) -> int:
    """Return a number of rounds or coordinates, for which there will be an array."""
    result = integer(value, name, remedy, least=least)
    if result > LARGEST_SIZE:
        raise InvalidInput(f"{name} must be at most {LARGEST_SIZE}, got {value}.")
    return result


def check_flag(value: Any, name: str) -> bool:
    """Return True or False; reject values such as 0 or "yes"."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def file_path(value: Any, name: str) -> Path:
    """Return the path of a file, given as text or a path; a number would mean an open file."""
    if isinstance(value, str | os.PathLike):
        try:
            path = Path(value)
            if b"\0" not in os.fsencode(path):
                return path
        except (TypeError, ValueError):  # bytes, or letters that no file name can have
            pass
    raise InvalidInput(f"{name} must be a path, as str or Path, got {value!r}.")


def seeded(seed: Any) -> "np.random.Generator":  # quoted: numpy.random loads slowly
    """Make a random generator from a seed, as ``numpy.random.default_rng`` does."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"seed must be what numpy.random.default_rng accepts, got {seed!r}."
        ) from None


def instance(value: Any, name: str, kind: type[Kind], wanted: str, remedy: str = "") -> Kind:
    """Return ``value`` if it is of this class; ``wanted`` says so in words: "a Learner such as GD(L2Ball(5), 1.0)"."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} must be {wanted}, got {value!r}. {remedy}".rstrip())
    return value


def filled_list(values: Any, name: str, wanted: str) -> tuple[Any, ...]:
    """Return the members of a list that is not empty; ``wanted`` says of what: "such as [Box(0, 1), Simplex(3)]"."""
    if not isinstance(values, Sequence) or not values:
        raise InvalidInput(f"{name} must be a list {wanted}, got {values!r}.")
    return tuple(values)


def one_of(value: str, name: str, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(map(repr, allowed))
        choice = f"one of {words}" if len(allowed) > 1 else words
        raise InvalidInput(f"{name} must be {choice}, got {value!r}.")
    return value


def freeze(array: Array) -> Array:
    """Return a read-only copy, for arrays that belong to a configuration."""
    copy = (
        array + 0.0
    )  # Adding zero turns -0.0 into 0.0, so that equal configurations read the same.
    copy.setflags(write=False)
    return copy
