"""A replay as figures; a contender has the same colour in all of them."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array, invalid
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.contenders import CONTENDERS, FIXED, REPLAY
from klazy.studies.replay.scoring import BASELINE, RECORDED_ROUNDS
from klazy.studies.replay.source import DAY_SECONDS, to_datetime
from klazy.studies.replay.wording import name_fixed

if TYPE_CHECKING:
    from klazy.show import Figure
    from klazy.studies.replay.report import Report

# A colour and a marker for each contender: simple ones warm or green, GD red, lazy ones blue to purple.
CONTENDER_COLOURS = (
    "#000000", "#9C755F", "#B6992D", "#E69F00", "#D55E00", "#59A14F", "#009E73",
    "#8CBF26", "#C1272D", "#56B4E9", "#0072B2", "#2A9DAF", "#CC79A7", "#6A3D9A",
)  # fmt: skip
CONTENDER_MARKERS = "oPXsDv^Hp<>h*d"
LOOKS: dict[str, dict[str, Any]] = defaultdict(lambda: {"color": "#A0522D", "marker": "."})
_names = [contender.name for contender in CONTENDERS if contender.study in ("", REPLAY)]
for _name, _colour, _marker in zip(_names, CONTENDER_COLOURS, CONTENDER_MARKERS, strict=False):
    LOOKS[_name] = {"color": _colour, "marker": _marker}
LOOKS[BASELINE] = {"color": "#7F7F7F", "marker": "8"}
# Periods into which costs are cut: the name, the format of its labels, and the days from which on it is used.
PERIOD_FORMATS = (("month", "%Y-%m", 90.0), ("day", "%Y-%m-%d", 3.0), ("hour", "%m-%d %Hh", 0.0))


def draw_all(found: "Report") -> "Iterator[tuple[str, Figure, str]]":
    """Draw each figure that this replay has, with its name and a caption."""
    captions = {
        "cumulative": f"How much more than {_name_reference(found)} each has paid so far. Lower is better.",
        "periods": "What each paid in each period.",
        "decisions": "What each decided on the scored rows.",
        "pareto": "What each paid on the scored rows: operating cost upwards, switching cost to the right. "
        "Lower left is better.",
        "prices": "Cost above the certified optimum, and movement, at each move cost. "
        "Stripes have the winner's colour.",
    }
    if _draws_demand(found):
        captions["decisions"] += " The paler lines are the demand."
    if not found.source.has_dates:
        del captions["periods"]
    if not found.prices:
        del captions["prices"]
    for name, caption in captions.items():
        yield name, FIGURES[name](found), caption


def list_shown(found: "Report") -> list[str]:
    """List the contenders in every figure: the best of all and of each kind, never moving, and the baseline."""
    best = [found.best, *(found.best_of(style) for style in ("lazy", "greedy", "simple"))]
    return list(dict.fromkeys([*(score.name for score in best), FIXED, found.reference.name]))


def _name_reference(found: "Report") -> str:
    return "what you did" if found.reference.name == BASELINE else name_fixed(found)


def _draws_demand(found: "Report") -> bool:
    return found.setup.family.near_rows and not _are_shares(found)


def _are_shares(found: "Report") -> bool:
    return isinstance(found.setup.domain, Simplex | CappedSimplex)


def _list_places(found: "Report") -> tuple[Any, str]:
    """Return the places of rounds on the axis, and its label."""
    times = found.list_times()
    if times is None:
        return found.recorded_rows + 1, "row of the trace"
    return np.array(times), found.source.time or "time"


def _draw_cumulative(found: "Report") -> "Figure":
    """Draw how much more than the reference each has paid so far."""
    places, xlabel = _list_places(found)
    reference = found.reference.curve
    curves = {name: found.score(name).curve - reference for name in list_shown(found)}
    unit = f" ({found.unit})" if found.unit else ""
    ylabel = f"paid more than {_name_reference(found)}{unit}"
    return show.draw_cumulative(places, curves, LOOKS, xlabel, ylabel)


def _draw_decisions(found: "Report") -> "Figure":
    """Draw the decisions over time."""
    names = [name for name in list_shown(found) if name != FIXED][:3]
    if found.reference.name == BASELINE and BASELINE not in names:
        names[-1] = BASELINE
    places, xlabel = _list_places(found)
    at = np.unique(np.linspace(0, len(places) - 1, RECORDED_ROUNDS).astype(int))
    points = {name: found.score(name).points[at] for name in names}
    demand = None
    if _draws_demand(found):
        rows = found.recorded_rows[at].tolist()
        demand = np.vstack([found.source.read(row, row + 1) for row in rows])
    return show.draw_decisions(places[at], points, found.source.columns, _are_shares(found), demand, xlabel)


def _draw_pareto(found: "Report") -> "Figure":
    """Draw operating cost over switching cost."""
    switching = {score.name: score.switching for score in found.scores}
    hitting = {score.name: score.hitting for score in found.scores}
    best = found.optimum
    optimum = None if best is None else (best.switching, best.hitting)
    return show.draw_pareto(switching, hitting, optimum, LOOKS, (FIXED, BASELINE))


def _draw_periods(found: "Report") -> "Figure":
    """Draw the costs by month, day or hour."""
    if not found.source.has_dates or found.source.times is None:
        raise invalid("Report.plot", "dates for periods", "time", found.source.time, "name a column of dates")
    times = found.source.times[found.recorded_rows]
    days = (times[-1] - times[0]) / DAY_SECONDS
    name, form = next((name, form) for name, form, least in PERIOD_FORMATS if days >= least)
    labels = [to_datetime(each).strftime(form) for each in times]
    periods = list(dict.fromkeys(labels))
    numbers = [periods.index(label) for label in labels]
    costs = {}
    for shown in list_shown(found):
        paid = np.diff(found.score(shown).curve, prepend=0.0)
        costs[shown] = np.bincount(numbers, paid, minlength=len(periods))
    unit = f" ({found.unit})" if found.unit else ""
    return show.draw_periods(periods, costs, LOOKS, name, f"cost{unit}")


def _draw_prices(found: "Report") -> "Figure":
    """Draw cost and movement over the move cost: of the winners, of never moving and of the baseline."""
    if not found.prices:
        weight = found.setup.movement.weight
        remedy = "write move_cost=[0.1, 1, 5]"
        raise invalid("Report.plot", "several prices of moving", "move_cost", weight, remedy)
    reports = sorted(found.prices, key=lambda each: float(np.max(each.setup.movement.weight)))
    prices = np.array([float(np.max(each.setup.movement.weight)) for each in reports])
    winners = [each.best.name for each in reports]
    bounds = np.array([0.0 if each.optimum is None else each.optimum.lower_bound for each in reports])
    above: dict[str, Array] = {}
    moved: dict[str, Array] = {}
    for name in dict.fromkeys([*winners, FIXED, found.reference.name]):
        scores = [each.score(name) for each in reports]
        above[name] = np.array([score.cost for score in scores]) - bounds
        moved[name] = np.array([score.switching for score in scores]) / np.where(prices > 0.0, prices, np.nan)
    title = "cost" if found.optimum is None else "cost above the optimum"
    return show.draw_prices(prices, {title: above, "movement": moved}, winners, LOOKS)


FIGURES = {
    "cumulative": _draw_cumulative,
    "decisions": _draw_decisions,
    "pareto": _draw_pareto,
    "periods": _draw_periods,
    "prices": _draw_prices,
}
