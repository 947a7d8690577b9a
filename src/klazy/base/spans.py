"""Lengths of time and dates, as people write them."""

import re
from datetime import UTC, datetime

from klazy.base.checks import InvalidInput

UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def parse_span(text: str, name: str = "span") -> float:
    """Read a length of time, such as ``"90s"``, ``"1h30m"``, ``"14d"`` or ``"60"``, in seconds.

    Parameters
    ----------
    text : str
        The text.
    name : str, optional
        What an error calls it.

    Returns
    -------
    float
        The seconds.

    Examples
    --------
    >>> parse_span("1h30m"), parse_span("250ms"), parse_span("60")
    (5400.0, 0.25, 60.0)
    """
    parts = _PART.findall(text)
    seconds = sum(float(count) * UNIT_SECONDS[unit] for count, unit in parts)
    if "".join(count + unit for count, unit in parts) != text:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise InvalidInput(
            f"{name} must be a length of time above zero, got {text}. Write 60s, 5m or 14d."
        )
    return seconds


def parse_date(text: str) -> float:
    """Read an ISO date, in UTC if it has no zone, as seconds since 1970; raise ValueError if it is none.

    >>> parse_date("2026-03-01 00:01")
    1772323260.0
    """
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
