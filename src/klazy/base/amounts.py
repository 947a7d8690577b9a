"""Numbers for people: a few digits, and millions as ``M``."""

from collections.abc import Sequence

import numpy as np

UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
# Digits of a usual number.
DIGITS = 4
# Digits of a number of a column where fewer would show two different numbers alike.
MOST_DIGITS = 6
# From here on a share is written as a multiple.
LARGE_SHARE = 5.0


def format_amount(value: float, digits: int = DIGITS) -> str:
    """Write a number with a few digits, and millions as ``M``.

    >>> format_amount(1306930.0), format_amount(663.648), format_amount(0.00039), format_amount(-12.0)
    ('1.307 M', '663.6', '0.00039', '-12')
    """
    factor, letter = choose_unit(abs(value))
    scaled = value / factor
    if 0.0 < abs(scaled) < 1e-4:
        return f"{scaled:.{digits - 1}g}"
    places = max(0, digits - 1 - count_tens(scaled))
    # Adding zero makes a zero positive.
    text = np.format_float_positional(round(scaled, places) + 0.0, trim="-")
    return f"{text} {letter}".strip()


def format_share(value: float, sign: str = "") -> str:
    """Write a share in per cent, a very large one as a multiple.

    >>> format_share(0.0213), format_share(0.0213, "+"), format_share(325.6)
    ('2.1%', '+2.1%', '326x')
    """
    return f"{value:{sign}.1%}" if abs(value) < LARGE_SHARE else f"{value:{sign}.3g}x"


def format_interval(value: float, half: float) -> str:
    """Write a number with half the width of its interval, both to the second digit of that.

    >>> format_interval(1742.3, 1089.0), format_interval(453.1, 36.62), format_interval(1306930.0, 4100.0)
    ('1700 +- 1100', '453 +- 37', '1.3069 +- 0.0041 M')
    """
    if half == 0.0:
        return f"{format_amount(value)} +- 0"
    factor, letter = choose_unit(max(abs(value), half))
    scaled = np.array([value, half]) / factor
    least = MOST_DIGITS - 1 - count_tens(float(np.abs(scaled).max()))
    places = min(1 - count_tens(float(scaled[1])), max(0, least))
    # Adding zero makes a zero positive.
    value, half = np.round(scaled, places) + 0.0
    return f"{value:.{max(0, places)}f} +- {half:.{max(0, places)}f} {letter}".strip()


def choose_unit(size: float) -> tuple[float, str]:
    """Return the unit in which a number of this size is written, and its letter."""
    return next((unit for unit in UNITS if size >= unit[0]), (1.0, ""))


def count_tens(value: float) -> int:
    """Return the exponent of the first digit of a number."""
    return int(np.floor(np.log10(abs(value)))) if value != 0.0 else 0


def format_column(values: Sequence[float | None]) -> list[str]:
    """Write numbers in one unit, all with as many decimals; None is left empty.

    >>> format_column([2484.951, 2484.9510001, 311.9, None])
    ['2485', '2485', '312', '']
    """
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    sizes = np.abs(known[known != 0.0])
    usual = float(np.median(sizes)) if len(sizes) else 1.0
    factor, letter = choose_unit(usual)
    tens = count_tens(usual / factor)
    scaled = known / factor
    most = max(0, MOST_DIGITS - 1 - tens)
    places = max(0, DIGITS - 1 - tens) if len(sizes) else 0
    while places < most and _count_distinct(scaled, places) < _count_distinct(scaled, most):
        places += 1
    return [
        "" if value is None else f"{value / factor:.{places}f} {letter}".strip()
        for value in values
    ]


def _count_distinct(values: np.ndarray, places: int) -> int:
    return len(np.unique(np.round(values, places)))
