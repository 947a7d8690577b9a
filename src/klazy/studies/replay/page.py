"""A replay as figures, as one HTML page, and as the card that a notebook shows.

A contender has the same colour in all figures.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array, InvalidInput
from klazy.base.html import load_macros, render
from klazy.show.style import make_svg
from klazy.studies.contenders import CONTENDERS, FIXED, REPLAY, is_simplex
from klazy.studies.replay.scoring import BASELINE, CANDIDATES, RECORDED_ROUNDS
from klazy.studies.replay.source import DAY_SECONDS, to_datetime
from klazy.studies.replay.wording import add_unit, answer, name_fixed, write_table

if TYPE_CHECKING:
    from klazy.show import Figure
    from klazy.studies.replay.report import Report

# A colour and a marker for each contender: simple ones warm or green, GD red, lazy ones blue to purple.
CONTENDER_COLOURS = (
    "#000000", "#9C755F", "#B6992D", "#E69F00", "#D55E00", "#59A14F", "#009E73",
    "#FF7F50", "#7B4B2A", "#8CBF26", "#C1272D", "#56B4E9", "#0072B2", "#2A9DAF", "#CC79A7", "#6A3D9A",
    "#E7298A", "#7A0177",
)  # fmt: skip
CONTENDER_MARKERS = "oPXsDv^12Hp<>h*d34"
LOOKS: dict[str, dict[str, Any]] = defaultdict(lambda: {"color": "#A0522D", "marker": "."})
_names = [contender.name for contender in CONTENDERS if contender.study in ("", REPLAY)]
for _name, _colour, _marker in zip(_names, CONTENDER_COLOURS, CONTENDER_MARKERS, strict=False):
    LOOKS[_name] = {"color": _colour, "marker": _marker}
LOOKS[BASELINE] = {"color": "#7F7F7F", "marker": "8"}
# Contenders in the table of the card.
CARD_ROWS = 5
# Periods into which costs are cut: the name, the format of its labels, and the days from which on it is used.
PERIOD_FORMATS = (("month", "%Y-%m", 90.0), ("day", "%Y-%m-%d", 3.0), ("hour", "%m-%d %Hh", 0.0))


def draw_all(found: "Report") -> "Iterator[tuple[str, Figure]]":
    """Draw each figure that this replay has, with its name."""
    for name, draw in FIGURES.items():
        if name == "periods" and not found.source.has_dates:
            continue
        if name == "move_costs" and not found.move_costs:
            continue
        yield name, draw(found)


def list_shown(found: "Report") -> list[str]:
    """List the contenders in every figure: the best of all and of each kind, never moving, and the baseline."""
    best = [found.best, *(found.best_of(style) for style in ("lazy", "greedy", "simple"))]
    return list(dict.fromkeys([*(score.name for score in best), FIXED, found.reference.name]))


def name_reference(found: "Report") -> str:
    """Name the decisions that others are compared with."""
    return "what you did" if found.reference.name == BASELINE else name_fixed(found)


def draws_demand(found: "Report") -> bool:
    """Return True if the figure of decisions also shows the rows, which are demands."""
    return found.setup.family.near_rows and not is_simplex(found.setup.domain)


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
    ylabel = add_unit(found, f"paid more than {name_reference(found)}")
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
    if draws_demand(found):
        rows = found.recorded_rows[at].tolist()
        demand = np.vstack([found.source.read(row, row + 1) for row in rows])
    shares = is_simplex(found.setup.domain)
    return show.draw_decisions(places[at], points, found.source.columns, shares, demand, xlabel)


def _draw_pareto(found: "Report") -> "Figure":
    """Draw operating cost over switching cost."""
    switching = {score.name: score.switching for score in found.scores}
    hitting = {score.name: score.hitting for score in found.scores}
    best = found.optimum
    optimum = None if best is None else (best.switching, best.hitting)
    return show.draw_pareto(switching, hitting, optimum, LOOKS, (FIXED, BASELINE))


def _draw_periods(found: "Report") -> "Figure":
    """Draw the costs by month, day or hour."""
    if not found.source.has_dates:
        raise InvalidInput(f"Periods need dates, got time={found.source.time!r}. Name a column of dates.")
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
    return show.draw_periods(periods, costs, LOOKS, name, add_unit(found, "total cost"))


def _draw_move_costs(found: "Report") -> "Figure":
    """Draw cost and movement over the move cost: of the winners, of never moving and of the baseline."""
    if not found.move_costs:
        weight = found.setup.movement.weight
        remedy = "Replay with move_cost=[0.1, 1, 5]."
        raise InvalidInput(f"This figure needs several move costs, got {weight}. {remedy}")
    reports = sorted(found.move_costs, key=lambda each: each.setup.move_cost)
    move_costs = np.array([each.setup.move_cost for each in reports])
    winners = [each.best.name for each in reports]
    bounds = np.array([0.0 if each.optimum is None else each.optimum.lower_bound for each in reports])
    above: dict[str, Array] = {}
    moved: dict[str, Array] = {}
    for name in dict.fromkeys([*winners, FIXED, found.reference.name]):
        scores = [each.score(name) for each in reports]
        above[name] = np.array([score.cost for score in scores]) - bounds
        paid = np.array([score.switching for score in scores])
        moved[name] = paid / np.where(move_costs > 0.0, move_costs, np.nan)
    title = "total cost" if found.optimum is None else "total cost above the optimum"
    return show.draw_prices(move_costs, {title: above, "movement": moved}, winners, LOOKS)


FIGURES = {
    "cumulative": _draw_cumulative,
    "periods": _draw_periods,
    "decisions": _draw_decisions,
    "pareto": _draw_pareto,
    "move_costs": _draw_move_costs,
}


def make_report(found: "Report", command: str) -> str:
    """Return the report as a page."""
    return render(
        "replay.html",
        found=found,
        answer=answer(found),
        table=write_table(found),
        candidates=CANDIDATES,
        folds=[_tabulate_fold(found, at) for at in range(len(found.folds))],
        figures={name: make_svg(figure, name) for name, figure in draw_all(found)},
        reference=name_reference(found),
        draws_demand=draws_demand(found),
        command=command,
    )


def make_summary(found: "Report") -> str:
    """Return a card with the answer and a short table."""
    parts = load_macros()
    table = parts.table(write_table(found, CARD_ROWS))
    return parts.card("Report", found.source.title, parts.paragraphs(answer(found)), table)


def _tabulate_fold(found: "Report", at: int) -> dict[str, object]:
    """Return who won a fold, and what it, the winner of the single split and never moving paid."""
    fold = found.folds[at]
    return {
        "fold": at + 1,
        "rows": f"{fold.first + 1} to {fold.last}",
        "best": fold.best.name,
        "its total cost": fold.best.cost,
        found.best.name: fold.find(found.best.name).cost,
        name_fixed(found): fold.find(FIXED).cost,
    }
