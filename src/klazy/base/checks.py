"""The array type, the convention for rounds, and every check of input.

Rounds are ``t = 1, ..., T``; row ``i`` of an array of shape ``(T, d)`` belongs to round ``t = i + 1``.
In round ``t`` the learner plays ``x[t]`` and only then learns ``g[t]``.

Input is checked once, where it enters, and rejected with one sentence of the form
``<owner> needs <condition>, got <name>=<value>; <remedy>.`` Code behind these checks trusts its arrays.
"""

import math
import numbers
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
LARGEST_SIZE = (
    2**53
)  # of an array: more than any memory holds, and a number that NumPy still takes for a size

# Numbers of this size keep every step, square and sum of squares of 2^53 rounds far from overflow and underflow.
LARGEST = 1e60
SMALLEST = 1e-60
FINITE = sys.float_info.max
DEEPEST = (
    100  # levels of what files and requests describe: functions that call themselves must come to an end
)


class InvalidInput(ValueError):
    """An error in the input, found where it entered; its message says all that a user needs."""


def invalid(owner: str, condition: str, name: str, value: object, remedy: str) -> InvalidInput:
    """Make the error for a value, in the one form that all of them have."""
    return InvalidInput(f"{owner} needs {condition}, got {name}={value}; {remedy}.")


def check_depth(value: dict[str, Any], owner: str) -> None:
    """Reject an object of JSON that is nested too deep."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for outer in level:
            members = outer.values() if isinstance(outer, dict) else outer
            for member in members:
                if isinstance(member, dict | list):
                    inner.append(member)
        if not inner:
            return
        level = inner
    condition = f"at most {DEEPEST} levels of lists and objects"
    raise invalid(owner, condition, "depth", f"more than {DEEPEST}", "describe it with fewer")


def real_array(values: ArrayLike, name: str, owner: str, *, limit: float = LARGEST) -> Array:
    """Return ``values`` as C-contiguous float64, copied only if necessary; reject complex, text and ragged input.

    Masked entries and numbers farther from zero than ``limit`` are rejected, too. Without a limit, ``math.inf``, nothing looks
    for NaN and inf.
    """
    if type(values) is not np.ndarray and hides_entries(values):
        raise invalid(
            owner, "numbers that are all there", name, "a masked array", "fill or remove what is masked"
        )
    try:
        array = np.asarray(values)
    except ValueError:
        raise invalid(
            owner, "rows of equal length", name, "a ragged list", "give every row the same length"
        ) from None
    if array.dtype.kind not in "fiu":
        raise invalid(
            owner, "real numbers", name, f"an array of dtype {array.dtype}", "convert it to float64"
        )
    if array.dtype != np.float64 or not array.flags.c_contiguous:
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf, which is found below
            array = np.array(array, dtype=np.float64, order="C")
    if limit < math.inf and not is_within(array, limit):
        raise _refuse_entry(array, name, owner, limit)
    return array


def _refuse_entry(array: Array, name: str, owner: str, limit: float) -> InvalidInput:
    """Make the error for the first number that is NaN, infinite or too large."""
    fits = np.abs(array) <= limit
    where = tuple(int(i) for i in np.argwhere(~fits)[0])
    entry = f"{name}{list(where)}" if where else name
    value = array[where]
    if np.isfinite(value):
        return invalid(owner, f"numbers within +-{limit:g}", entry, value, "use larger units")
    return invalid(owner, "finite numbers", entry, value, "remove or fill NaN and inf")


def hides_entries(values: Any) -> bool:
    """Return True for a masked array, or a list of some, with masked entries: NumPy would use the hidden numbers."""
    masked_arrays = sys.modules.get("numpy.ma")  # without it there are none, and to import it takes time
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
    values: ArrayLike, name: str, owner: str, dim: int | None = None, *, limit: float = LARGEST
) -> Array:
    """Return an array of shape ``(dim,)``; of any positive length if ``dim`` is None."""
    array = real_array(values, name, owner, limit=limit)
    if array.ndim != 1 or array.size == 0 or (dim is not None and array.size != dim):
        wanted = f"({dim},)" if dim is not None else "(d,)"
        raise invalid(
            owner, f"shape {wanted}", f"{name} of shape", array.shape, "give one number per coordinate"
        )
    return array


def rows(
    values: ArrayLike,
    name: str,
    owner: str,
    dim: int | None = None,
    T: int | None = None,
    *,
    limit: float = LARGEST,
) -> Array:
    """Return an array of shape ``(T, dim)``, one row per round."""
    array = real_array(values, name, owner, limit=limit)
    fits = (
        array.ndim == 2 and array.size > 0 and dim in (None, array.shape[-1]) and T in (None, array.shape[0])
    )
    if not fits:
        wanted = f"({T or 'T'}, {dim or 'd'})"
        raise invalid(owner, f"shape {wanted}", f"{name} of shape", array.shape, "give one row per round")
    return array


def coordinates(value: ArrayLike, name: str, owner: str, dim: int) -> Array:
    """Return a vector of length ``dim``; repeat a scalar."""
    array = real_array(value, name, owner)
    return np.full(dim, float(array)) if array.ndim == 0 else vector(array, name, owner, dim)


def number(value: Any, name: str, owner: str, *, limit: float = LARGEST) -> float:
    """Return a real number (NumPy scalars included, booleans and text not)."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and not hides_entries(value):
        value = value.item()
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    finite: Any = FINITE
    if not real or not -finite <= value <= finite:
        raise invalid(owner, f"a finite number {name}", name, _spell(value), "give a float")
    result = float(value)
    if not -limit <= result <= limit:
        raise invalid(owner, f"{name} within +-{limit:g}", name, _spell(value), "use larger units")
    return result


def _spell(value: object) -> str:
    """Format a value, also an integer that Python finds too long to print."""
    try:
        return repr(value)
    except ValueError:
        return f"an integer of {int(value).bit_length()} bits"  # pyright: ignore[reportArgumentType]


def positive(
    value: Any,
    name: str,
    owner: str,
    remedy: str = "give a number above zero",
    *,
    limit: float = LARGEST,
) -> float:
    """Return a number above zero, not so small that squares vanish."""
    result = number(value, name, owner, limit=limit)
    if result <= 0:
        raise invalid(owner, f"{name} > 0", name, value, remedy)
    if result < SMALLEST:
        raise invalid(owner, f"{name} >= {SMALLEST:g}", name, value, "use smaller units")
    return result


def non_negative(value: Any, name: str, owner: str, *, limit: float = LARGEST) -> float:
    """Return a number at or above zero."""
    result = number(value, name, owner, limit=limit)
    if result < 0:
        raise invalid(owner, f"{name} >= 0", name, value, "give zero or a positive number")
    return result


def whole(value: Any, name: str, owner: str, condition: str, remedy: str) -> int:
    """Return an integer of at least one; 3.0 counts as 3, 2.5 is rejected."""
    result = number(value, name, owner)
    if result < 1 or result != int(result):
        raise invalid(owner, condition, name, value, remedy)
    return int(result)


def size(value: Any, name: str, owner: str, condition: str, remedy: str) -> int:
    """Return a number of rounds or coordinates, for which there will be an array."""
    result = whole(value, name, owner, condition, remedy)
    if result > LARGEST_SIZE:
        raise invalid(owner, f"{name} <= {LARGEST_SIZE}", name, value, "no memory holds more")
    return result


def check_flag(value: Any, name: str, owner: str) -> bool:
    """Return True or False; reject what merely counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise invalid(
            owner, f"{name} to be True or False", name, repr(value), f"write {name}=True or {name}=False"
        )
    return bool(value)


def file_path(value: Any, name: str, owner: str) -> Path:
    """Return the path of a file, given as text or a path; a number would mean an open file."""
    if isinstance(value, str | os.PathLike):
        try:
            path = Path(value)
            if b"\0" not in os.fsencode(path):
                return path
        except (TypeError, ValueError):  # bytes, or letters that no file name can have
            pass
    raise invalid(owner, "the path of a file", name, repr(value), "give a str or a Path")


def seeded(seed: Any, owner: str) -> "np.random.Generator":  # quoted: numpy.random loads slowly
    """Make a random generator from a seed, as ``numpy.random.default_rng`` does."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise invalid(
            owner, "a seed that numpy.random.default_rng takes", "seed", repr(seed), "give a whole number"
        ) from None


def one_of(value: str, name: str, owner: str, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise invalid(owner, f"{name} to be one of {words}", name, repr(value), "choose one of these")
    return value


def freeze(array: Array) -> Array:
    """Return a read-only copy, for arrays that belong to a configuration."""
    copy = array + 0.0  # which also turns -0.0 into 0.0, so that equal configurations read the same
    copy.setflags(write=False)
    return copy
