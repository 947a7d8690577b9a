"""Numbers as people read them: a few digits, and millions as ``M``."""

from collections.abc import Sequence

import numpy as np

UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
PLACES = 4  # digits that are shown of a usual number of a column
MOST = 6  # digits, where fewer would show two different numbers alike


def tell_number(value: float, digits: int = 4) -> str:
    """A number with so many digits.

    >>> tell_number(1306930.0), tell_number(663.648), tell_number(0.00039), tell_number(-12.0)
    ('1.307 M', '663.6', '0.00039', '-12')
    """
    factor, letter = _choose_unit(abs(value))
    scaled = value / factor
    places = max(0, digits - 1 - _count_tens(scaled))
    if abs(scaled) < 1e-4 and scaled != 0.0:
        return f"{scaled:.{digits - 1}g}"
    text = f"{scaled:.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if text == "-0":
        text = "0"
    return f"{text} {letter}".strip()


def tell_column(values: Sequence[float | None]) -> list[str]:
    """Numbers in one unit with as many decimals each; None is left empty."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return ["" for _ in values]
    sizes = np.abs(known[known != 0.0])
    usual = float(np.median(sizes)) if len(sizes) else 1.0
    factor, letter = _choose_unit(usual)
    tens = _count_tens(usual / factor)
    scaled = known / factor
    places = max(0, PLACES - 1 - tens)
    distinct = len(np.unique(np.round(scaled, 12)))
    while tens + 1 + places < MOST and len(np.unique(np.round(scaled, places))) < distinct:
        places += 1
    texts = []
    for value in values:
        text = ""
        if value is not None:
            text = f"{value / factor:.{places}f} {letter}".strip()
        texts.append(text)
    return texts


def _choose_unit(size: float) -> tuple[float, str]:
    for factor, letter in UNITS:
        if size >= factor:
            return factor, letter
    return 1.0, ""


def _count_tens(value: float) -> int:
    return int(np.floor(np.log10(abs(value)))) if value != 0.0 else 0
