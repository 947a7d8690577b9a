"""A replay as figures, as one HTML page with charts, and as the card that a notebook shows.

A contender has the same colour in all figures, and in all charts.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.amounts import format_amount
from klazy.base.checks import Array, InvalidInput
from klazy.base.html import load_macros, render
from klazy.base.uplot import MOST_CURVES, Curve, make_chart, make_curves, make_levels
from klazy.sets import Box
from klazy.show.style import make_svg
from klazy.studies.contenders import CONTENDERS, FIXED, GREEDY, LAZY, REPLAY, SIMPLE, is_simplex
from klazy.studies.replay.scoring import BASELINE, CANDIDATES, RECORDED_ROUNDS
from klazy.studies.replay.source import DAY_SECONDS, to_datetime
from klazy.studies.replay.wording import (
    add_unit,
    answer,
    format_parameters,
    judge,
    list_facts,
    name_fixed,
    name_now,
    write_table,
)

if TYPE_CHECKING:
    from klazy.show import Figure
    from klazy.studies.replay.report import Report

# A colour and a marker for each contender: simple ones warm or green, GD red, lazy ones blue to purple.
CONTENDER_COLOURS = (
    "#000000", "#9C755F", "#B6992D", "#E69F00", "#D55E00", "#59A14F", "#009E73",
    "#FF7F50", "#7B4B2A", "#B8860B", "#808000", "#3B7A57", "#4A5D23", "#8CBF26", "#C1272D",
    "#56B4E9", "#0072B2", "#2A9DAF", "#CC79A7", "#6A3D9A", "#E7298A", "#7A0177", "#F46D9B", "#49006A",
)  # fmt: skip
CONTENDER_MARKERS = "oPXsDv^12+x|_Hp<>h*d3434"
LOOKS: dict[str, dict[str, Any]] = defaultdict(lambda: {"color": "#A0522D", "marker": "."})
_names = [contender.name for contender in CONTENDERS if contender.study in ("", REPLAY)]
for _name, _colour, _marker in zip(_names, CONTENDER_COLOURS, CONTENDER_MARKERS, strict=True):
    LOOKS[_name] = {"color": _colour, "marker": _marker}
LOOKS[BASELINE] = {"color": "#7F7F7F", "marker": "8"}
# Contenders in the table of the card.
CARD_ROWS = 5
# Periods into which costs are cut: the name, the format of its labels, and the days from which on it is used.
PERIOD_FORMATS = (("month", "%Y-%m", 90.0), ("day", "%Y-%m-%d", 3.0), ("hour", "%m-%d %Hh", 0.0))
# Numbers of the decisions of all contenders in one chart.
CHART_NUMBERS = 60_000
# A contender is left out of the chart of costs if its distance to the best one is this many times the median distance.
OFF_CHART = 4.0
# The colour of each kind of contender in the chart of costs, and what it is called there.
KINDS = {
    SIMPLE: ("c1", "simple rule"),
    GREEDY: ("c3", "greedy"),
    LAZY: ("c0", "lazy"),
    BASELINE: ("c2", "until now"),
}
OTHERS = ("c4", "others")


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
    best = [found.best, *map(found.best_of, found.styles)]
    return list(dict.fromkeys([*(score.name for score in best), FIXED, found.reference.name]))


def draws_demand(found: "Report") -> bool:
    """Return True if the figure of decisions also shows the rows, which are demands."""
    return found.setup.family.near_rows and not is_simplex(found.setup.domain)


def _list_places(found: "Report") -> tuple[Any, str]:
    """Return the places of rounds on the axis, and its label."""
    times = found.list_times()
    if times is None:
        return found.recorded_rows + 1, "row of the trace"
    return np.array(times), found.source.time or "time"


def _list_saved(found: "Report") -> dict[str, Array]:
    """List what each has saved against the reference so far."""
    reference = found.reference.curve
    names = [name for name in list_shown(found) if name != found.reference.name]
    return {name: reference - found.score(name).curve for name in names}


def _draw_cumulative(found: "Report") -> "Figure":
    """Draw how much less than the reference each has paid so far."""
    places, xlabel = _list_places(found)
    ylabel = add_unit(found, f"saved against {name_now(found)}")
    return show.draw_cumulative(places, _list_saved(found), LOOKS, xlabel, ylabel)


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
    figure = show.draw_pareto(switching, hitting, optimum, LOOKS, (FIXED, BASELINE))
    figure.axes[0].set(
        xlabel=add_unit(found, "switching cost"), ylabel=add_unit(found, "operating cost")
    )
    return figure


def _cut_periods(found: "Report") -> tuple[str, list[str], list[int]]:
    """Cut the scored rows into months, days or hours: what they are called, their names, and where each begins."""
    if not found.source.has_dates:
        raise InvalidInput(
            f"Periods need dates, got time={found.source.time!r}. Name a column of dates."
        )
    times = found.source.times[found.recorded_rows]
    days = (times[-1] - times[0]) / DAY_SECONDS
    name, form = next((name, form) for name, form, least in PERIOD_FORMATS if days >= least)
    labels = [to_datetime(each).strftime(form) for each in times]
    periods = list(dict.fromkeys(labels))
    return name, periods, [labels.index(label) for label in periods]


def _sum_periods(curve: Array, firsts: list[int]) -> Array:
    """Return what a curve of running sums adds in each period."""
    return np.add.reduceat(np.diff(curve, prepend=0.0), firsts)


def _draw_periods(found: "Report") -> "Figure":
    """Draw the costs by month, day or hour."""
    name, periods, firsts = _cut_periods(found)
    costs = {shown: _sum_periods(found.score(shown).curve, firsts) for shown in list_shown(found)}
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
    bounds = np.array(
        [0.0 if each.optimum is None else each.optimum.lower_bound for each in reports]
    )
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


def _list_charts(found: "Report") -> "Iterator[tuple[str, dict[str, Any]]]":
    """Make each chart of the page, with its name."""
    times = found.list_times()
    x = found.recorded_rows + 1.0
    axis = {
        "xlabel": "row",
        "time": found.source.has_dates,
        "unit": found.unit,
        "ylabel": found.unit,
    }
    if times is not None:
        x = found.source.times[found.recorded_rows]
        axis["xlabel"] = found.source.time
    yield "cumulative", _chart_saved(found, x, axis)
    yield "decisions", _chart_decisions(found, x, axis)
    if found.source.has_dates:
        yield "periods", _chart_periods(found, x, axis)
    if found.move_costs:
        yield "move_costs", _chart_move_costs(found, axis)
    yield "pareto", _chart_pareto(found)


def _chart_saved(found: "Report", x: Array, axis: dict[str, Any]) -> dict[str, Any]:
    curves = [
        Curve(name, saved, f"c{i % 8}")
        for i, (name, saved) in enumerate(_list_saved(found).items())
    ]
    return make_chart(x, curves, f"Saved so far against {name_now(found)}", zero=True, **axis)


def _chart_decisions(found: "Report", x: Array, axis: dict[str, Any]) -> dict[str, Any]:
    """Chart the decisions of one contender at a time, with the demand."""
    stacked = is_simplex(found.setup.domain)
    columns = found.source.columns
    most = max(200, CHART_NUMBERS // (len(found.scores) * len(columns)))
    demand: list[Curve] = []
    if draws_demand(found) and len(columns) <= MOST_CURVES:
        rows = np.vstack(list(found.source.read_pieces(*found.span)))
        rows = rows[found.recorded_rows - found.span[0]]
        demand = make_curves(
            columns, rows, "pale", "demand" if len(columns) == 1 else "demand of {}"
        )
    choices = []
    for score in found.scores:
        label = score.name if len(columns) == 1 else "{}"
        curves = demand + make_curves(columns, score.points, "step", label)
        chart = make_chart(x, curves, f"Decisions of {score.name}", most)
        choices.append(
            {
                "name": score.name,
                "x": chart["x"],
                "series": chart["series"],
                "label": chart["label"],
            }
        )
    about = {key: choices[0][key] for key in ("label", "x", "series")}
    domain = found.setup.domain
    about |= {
        "title": "Decisions and the demand they met" if demand else "Decisions",
        "choices": choices,
        "choose": "of",
        "stacked": stacked,
        "levels": make_levels(domain.lower, domain.upper) if isinstance(domain, Box) else [],
        "ylabel": columns[0] if len(columns) == 1 else "",
    }
    return axis | about


def _chart_periods(found: "Report", x: Array, axis: dict[str, Any]) -> dict[str, Any]:
    name, periods, firsts = _cut_periods(found)
    best = found.best
    saved = _sum_periods(found.reference.curve - best.curve, firsts)
    title = f"Saved in each {name} by {best.name}"
    return make_chart(
        x[firsts], [Curve("saved", saved, "c0", "bar")], title, zero=True, names=periods, **axis
    )


def _chart_move_costs(found: "Report", axis: dict[str, Any]) -> dict[str, Any]:
    reports = sorted(found.move_costs, key=lambda each: each.setup.move_cost)
    prices = np.array([each.setup.move_cost for each in reports])
    names = dict.fromkeys([*(each.best.name for each in reports), found.reference.name])
    curves = [
        Curve(name, np.array([each.score(name).cost for each in reports]), f"c{i % 8}", "marked")
        for i, name in enumerate(names)
    ]
    bounds = np.array(
        [np.nan if each.optimum is None else each.optimum.lower_bound for each in reports]
    )
    if np.isfinite(bounds).all():
        curves.append(Curve("best possible", bounds, "ink", "dash"))
    about = axis | {"xlabel": "move cost", "time": False, "log": bool((prices > 0.0).all())}
    return make_chart(
        prices, curves, "Total cost at other prices of moving", ticks=prices.tolist(), **about
    )


def _chart_pareto(found: "Report") -> dict[str, Any]:
    """Chart operating over switching cost, a point for each contender."""
    above = [score.cost - found.best.cost for score in found.scores]
    far = OFF_CHART * float(np.median(above)) or np.inf
    points = []
    off = []
    for score, more in zip(found.scores, above, strict=True):
        if more > far and score.name not in (FIXED, BASELINE):
            off.append(score.name)
            continue
        points.append(
            _make_point(found, score, KINDS.get(score.kind, OTHERS)[0], score is found.best)
        )
    if found.optimum is not None:
        points.append(_make_point(found, found.optimum, "ink", True))
    hint = "Point at a contender." + (f" Off the chart: {', '.join(off)}." if off else "")
    described = ", ".join(f"{point['name']} {point['text']}" for point in points)
    shown = {point["color"] for point in points}
    keys = [
        {"name": name, "color": color}
        for color, name in (*KINDS.values(), OTHERS)
        if color in shown
    ]
    about = {"hint": hint, "label": f"Operating and switching cost: {described}", "keys": keys}
    about |= {
        "xlabel": add_unit(found, "switching cost"),
        "ylabel": add_unit(found, "operating cost"),
    }
    return {"title": "Deciding and moving", "points": points, **about}


def _make_point(found: "Report", score: Any, color: str, large: bool) -> dict[str, Any]:
    costs = (
        f"operating {format_amount(score.hitting)}, switching {format_amount(score.switching)}"
    )
    text = f"{costs}, total {format_amount(score.cost)} {found.unit}".strip()
    return {"name": score.name, "x": score.switching, "y": score.hitting} | {
        "color": color,
        "large": large,
        "text": text,
    }


def make_report(found: "Report", command: str) -> str:
    """Return the report as a page that needs no other file."""
    return render(
        "replay.html",
        found=found,
        answer=_write_answer(found),
        verdict=judge(found),
        facts={name: set_signs(value) for name, value in list_facts(found).items()},
        table=[_put_totals_first(row) for row in write_table(found)],
        candidates=CANDIDATES,
        folds=[_tabulate_fold(found, at) for at in range(len(found.folds))],
        pictures={name: make_svg(figure, name) for name, figure in draw_all(found)},
        charts=dict(_list_charts(found)),
        now=name_now(found),
        format_parameters=format_parameters,
        command=command,
        live=_list_commands(command),
    )


def _put_totals_first(row: dict[str, Any]) -> dict[str, Any]:
    """Put the columns first that a narrow window should show."""
    contender, chosen, operating, switching, total, above, *others, limit = row
    names = (contender, total, above, operating, switching, *others, chosen, limit)
    return {name: row[name] for name in names}


def _write_answer(found: "Report") -> list[str]:
    return [set_signs(words) for words in answer(found)]


def set_signs(words: str) -> str:
    """Write the sign before half an interval's width as pages can, and a terminal may not."""
    return words.replace("+-", "\N{PLUS-MINUS SIGN}")


def _list_commands(command: str) -> list[str]:
    """Return what makes the winner a live agent: write it, and run it."""
    file = "agent.json"
    write = f'report.agent(at="end").save("{file}")'
    words = shlex.split(command)
    if words[0] == "klazy":
        if "--html" in words:
            at = words.index("--html")
            del words[at : at + 2]
        if "--emit" in words:
            file = words[words.index("--emit") + 1]
        else:
            words += ["--emit", file, "--emit-at", "end"]
        write = shlex.join(words)
    return [write, f"klazy live {file} --state decisions.db < new_rows.csv"]


def make_summary(found: "Report") -> str:
    """Return a card with the answer and a short table."""
    parts = load_macros()
    table = parts.table([_put_totals_first(row) for row in write_table(found, CARD_ROWS)])
    return parts.card("Report", found.source.title, parts.paragraphs(_write_answer(found)), table)


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
