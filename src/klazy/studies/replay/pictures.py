"""A replay as figures; a contender has the same colour in all of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array, refusal
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.replay import words
from klazy.studies.replay.contenders import NAMES
from klazy.studies.replay.score import BASELINE, SHOWN
from klazy.studies.replay.source import DAY, to_datetime

if TYPE_CHECKING:
    from klazy.show import Figure
    from klazy.studies.replay.report import Report

# A colour for each contender and for the baseline: lazy ones blue to purple, simple ones warm or green, GD red.
COLOURS = (
    "#000000", "#9C755F", "#B6992D", "#E69F00", "#D55E00", "#59A14F", "#009E73",
    "#8CBF26", "#C1272D", "#56B4E9", "#0072B2", "#2A9DAF", "#CC79A7", "#6A3D9A", "#7F7F7F",
)  # fmt: skip
MARKERS = ("o", "P", "X", "s", "D", "v", "^", "H", "p", "<", ">", "h", "*", "d", "8")
LOOKS: dict[str, dict[str, Any]] = {
    name: {"color": colour, "marker": marker}
    for name, colour, marker in zip((*NAMES, BASELINE), COLOURS, MARKERS, strict=True)
}
# Periods into which costs are cut: what it is called, how it is written, and how many days make it worth while.
PERIODS = (("month", "%Y-%m", 90.0), ("day", "%Y-%m-%d", 3.0), ("hour", "%m-%d %Hh", 0.0))


def draw_all(found: "Report") -> "Iterator[tuple[str, Figure, str]]":
    """Each figure that this replay has, with its name and a caption."""
    yield (
        "cumulative",
        draw_cumulative(found),
        f"How much more than {_name_reference(found)} each has paid so far. Lower is better.",
    )
    if found.source.has_dates:
        yield "periods", draw_periods(found), "What each paid in each period."
    yield "decisions", draw_decisions(found), _caption_decisions(found)
    caption = "What each paid on the scored rows: hitting cost upwards, switching cost to the right. Lower left is better."
    yield "pareto", draw_pareto(found), caption
    if found.prices:
        caption = "Cost above the certified optimum, and movement, at each move cost. Stripes have the winner's colour."
        yield "prices", draw_prices(found), caption


def list_shown(found: "Report") -> list[str]:
    """Who is in every picture: the best of all and of each kind, holding still, and the baseline."""
    names = [
        found.best.name,
        found.best_of("lazy").name,
        found.best_of("greedy").name,
        found.best_of("simple").name,
        "fixed",
    ]
    if found.reference.name == BASELINE:
        names.append(BASELINE)
    return list(dict.fromkeys(names))


def _name_reference(found: "Report") -> str:
    return "what you did" if found.reference.name == BASELINE else words.name_fixed(found)


def _caption_decisions(found: "Report") -> str:
    behind = ""
    if _draws_demand(found):
        behind = " The paler lines are the demand."
    return f"What each decided on the scored rows.{behind}"


def _draws_demand(found: "Report") -> bool:
    return found.setup.family.near_rows and not _are_shares(found)


def _are_shares(found: "Report") -> bool:
    return isinstance(found.setup.domain, Simplex | CappedSimplex)


def _list_places(found: "Report") -> tuple[Any, str]:
    """Where rounds stand on the axis, and what it is called."""
    times = found.list_times()
    if times is None:
        return found.kept_rows + 1, "row of the trace"
    return np.array(times), found.source.time or "time"


def draw_cumulative(found: "Report") -> "Figure":
    places, xlabel = _list_places(found)
    reference = found.reference.curve
    curves = {name: found.score(name).curve - reference for name in list_shown(found)}
    unit = f" ({found.unit})" if found.unit else ""
    return show.draw_cumulative(
        places, curves, LOOKS, xlabel, f"paid more than {_name_reference(found)}{unit}"
    )


def draw_decisions(found: "Report") -> "Figure":
    names = [name for name in list_shown(found) if name != "fixed"][:3]
    if found.reference.name == BASELINE and BASELINE not in names:
        names[-1] = BASELINE
    places, xlabel = _list_places(found)
    at = np.unique(np.linspace(0, len(places) - 1, SHOWN).astype(int))
    points = {name: found.score(name).points[at] for name in names}
    demand = None
    if _draws_demand(found):
        demand = _read_rows(found, found.kept_rows[at])
    return show.draw_decisions(places[at], points, found.source.columns, _are_shares(found), demand, xlabel)


def _read_rows(found: "Report", rows: np.ndarray) -> Array:
    return np.vstack([found.source.read(int(at), int(at) + 1) for at in rows])


def draw_pareto(found: "Report") -> "Figure":
    switching = {score.name: score.switching for score in found.scores}
    hitting = {score.name: score.hitting for score in found.scores}
    best = found.optimum
    optimum = None if best is None else (best.switching, best.hitting)
    return show.draw_pareto(switching, hitting, optimum, LOOKS, ("fixed", BASELINE))


def cut_periods(found: "Report") -> tuple[str, list[str], np.ndarray]:
    """What the periods are, their names, and for each kept row the number of its period."""
    if not found.source.has_dates:
        raise refusal("Report.plot", "dates for periods", "time", found.source.time, "name a column of dates")
    assert found.source.times is not None
    kept = found.source.times[found.kept_rows]
    days = (kept[-1] - kept[0]) / DAY
    name, form = next((name, form) for name, form, least in PERIODS if days >= least)
    labels = [to_datetime(each).strftime(form) for each in kept]
    periods = list(dict.fromkeys(labels))
    numbers = {label: at for at, label in enumerate(periods)}
    return name, periods, np.array([numbers[label] for label in labels])


def draw_periods(found: "Report") -> "Figure":
    name, periods, numbers = cut_periods(found)
    costs = {}
    for shown in list_shown(found):
        paid = np.diff(found.score(shown).curve, prepend=0.0)
        costs[shown] = np.bincount(numbers, paid, minlength=len(periods))
    unit = f" ({found.unit})" if found.unit else ""
    return show.draw_periods(periods, costs, LOOKS, name, f"cost{unit}")


def draw_prices(found: "Report") -> "Figure":
    """Of everyone who wins at some price, of holding still and of the baseline."""
    if not found.prices:
        wanted = "several prices of moving"
        raise refusal(
            "Report.plot", wanted, "move_cost", found.setup.movement.weight, "write move_cost=[0.1, 1, 5]"
        )
    reports = sorted(found.prices, key=lambda each: float(np.max(each.setup.movement.weight)))
    prices = np.array([float(np.max(each.setup.movement.weight)) for each in reports])
    winners = [each.best.name for each in reports]
    names = list(
        dict.fromkeys([*winners, "fixed", *(each.name for each in found.scores if each.kind == BASELINE)])
    )
    bounds = [0.0 if each.optimum is None else each.optimum.lower_bound for each in reports]
    known = all(each.optimum is not None for each in reports)
    above: dict[str, Array] = {}
    moved: dict[str, Array] = {}
    for name in names:
        scores = [each.score(name) for each in reports]
        above[name] = np.array([score.cost - bound for score, bound in zip(scores, bounds, strict=True)])
        moved[name] = np.array([score.switching for score in scores]) / np.where(prices > 0.0, prices, np.nan)
    title = "cost above the optimum" if known else "cost"
    return show.draw_prices(prices, {title: above, "movement": moved}, winners, LOOKS)


MAKERS = {
    "cumulative": draw_cumulative,
    "decisions": draw_decisions,
    "pareto": draw_pareto,
    "periods": draw_periods,
    "prices": draw_prices,
}
