"""Cells of tables: what separates them in text, which of them are missing, and columns that have no name."""

from collections.abc import Sequence
from typing import Any

SEPARATORS = (",", ";", "\t", "|")
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")
TIMES = ("time", "date", "datetime", "timestamp")  # names of columns that hold time stamps
INDEX = (
    "index"  # the name given to a first column without one, which is how pandas writes its index
)
_NAMELESS = ("", "Unnamed: 0")


def is_missing(cell: Any) -> bool:
    """Return True for None, NaN, ``pandas.NA``, and text that means a missing number."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell.strip() in MISSING
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor different
        return type(cell).__name__ == "NAType"


def name_index(names: Sequence[str]) -> list[str]:
    """Name a first column ``"index"`` if it has no name."""
    found = list(names)
    if len(found) > 1 and found[0] in _NAMELESS:
        found[0] = INDEX
    return found
