"""Several prices of moving: who wins at which, and what it pays."""

from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import refusal
from klazy.studies.replay.numbers import tell_number

if TYPE_CHECKING:
    from klazy.studies.replay.report import Report

STEPS = 7  # of a range without a number of them


def read_prices(text: str) -> list[float]:
    """Prices from words: ``5``, ``0.1,1,5``, or a range ``0.1:10`` of seven, ``0.1:10:4`` of four, in equal ratios.

    >>> read_prices("0.1:10:3")
    [0.1, 1.0, 10.0]
    """
    try:
        if ":" not in text:
            return [float(each) for each in text.split(",")]
        low, high, *count = text.split(":")
        steps = int(count[0]) if count else STEPS
        return [float(f"{each:.6g}") for each in np.geomspace(float(low), float(high), steps)]
    except (ValueError, IndexError):
        wanted = "a number, a list or a range of prices"
        raise refusal("replay", wanted, "move_cost", text, "write 5, or 0.1,1,5, or 0.1:10:7") from None


def tabulate_prices(reports: "list[Report]") -> list[dict[str, Any]]:
    """A row per price: who paid least, what that was, and how far it moved."""
    rows = []
    for found in reports:
        price = float(np.max(found.setup.movement.weight))
        best = found.best
        bound = None if found.optimum is None else found.optimum.lower_bound
        rows.append(
            {
                "move_cost": price,
                "best": best.name,
                "parameters": best.parameters,
                "cost": best.cost,
                "above_the_optimum": None if bound is None else max(best.cost - bound, 0.0),
                "movement": best.switching / price if price > 0.0 else None,
                "saved": found.savings["fixed"].cost,
                "half": found.savings["fixed"].half,
            }
        )
    return rows


def tell_prices(reports: "list[Report]") -> str:
    """Who wins where, in a sentence."""
    rows = sorted(tabulate_prices(reports), key=lambda row: row["move_cost"])
    parts = []
    start = rows[0]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        if following is not None and following["best"] == start["best"]:
            continue
        low = tell_number(start["move_cost"])
        high = tell_number(row["move_cost"])
        where = f"at {low}" if low == high else f"from {low} to {high}"
        parts.append(f"{start['best']} {where}")
        if following is not None:
            start = following
    if len(parts) == 1:
        return f"The same paid least at every move cost: {parts[0]}."
    return f"Who paid least depends on the move cost: {', '.join(parts)}."
