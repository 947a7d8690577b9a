"""The figures of a sweep: heat maps over two parameters, lines with bands over one; a panel for each setting."""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array, InvalidInput
from klazy.base.options import write_option
from klazy.studies.sweep.frame import LEARNER_COLUMNS, SETTING, choose_best, find_varying

if TYPE_CHECKING:
    from polars import DataFrame

AXIS_COLUMNS = (
    "k",
    "m",
    "kappa",
    "sigma",
    "c",
    "length",
    "phases",
    "period",
    "settled",
    "T",
    "dim",
)
AXIS_COLUMNS += ("move_cost",)
PANELS = 12  # in one figure, at most
LOG_RATIO = (
    8.0  # the ratio of the largest to the least value from which on an axis is logarithmic
)
Figures = Iterator[tuple[str, "show.Figure"]]


def draw_cells(
    cells: "DataFrame", label: str, x: str | None = None, y: str | None = None
) -> Figures:
    """Yield figures of a sweep's cells, each with a name: lines over ``x``, or heat maps over ``x`` and ``y``, if given.

    Else heat maps over two parameters of a learner, or one of a learner and one of the setting, and lines over the setting's
    parameters, or the learners'. Parameters that a figure does not show have their best values.
    """
    free = [name for name in AXIS_COLUMNS if name in find_varying(cells)]
    for name in (x, y):
        if name is not None and name not in free:
            others = ", ".join(free) or "none"
            raise InvalidInput(
                f"An axis must have several values, got {name}. Those that do: {others}."
            )
    if y is not None and x is None:
        raise InvalidInput(
            f"{write_option('y')} needs {write_option('x')}, too, got {y} only. Name x alone for lines."
        )
    own = [name for name in free if name in LEARNER_COLUMNS]
    given = [name for name in free if name in SETTING]
    pairs = list(itertools.combinations(own, 2)) or list(itertools.product(given, own))
    names = given or own
    if x is not None:
        pairs = [] if y is None else [(x, y)]
        names = [x] if y is None else []
    for across, up in pairs:
        yield from _draw_heats(cells, label, across, up)
    for name in names:
        yield from _draw_lines(cells, label, name)


def _draw_heats(cells: "DataFrame", label: str, across: str, up: str) -> Figures:
    """Yield heat maps over two parameters, for every learner that has them."""
    for (learner, *_), group in cells.drop_nulls((across, up)).group_by(
        "learner", maintain_order=True
    ):
        ratio = bool((group["mean"] > 0.0).all())
        shown = label
        if across in SETTING and up in LEARNER_COLUMNS:
            sign = "/" if ratio else "-"
            shown = f"{label} {sign} the best of its column"
        settings = _split_settings(group, (across, up))
        parts = {title: _make_heat(some, across, up, ratio) for title, some in settings}
        parts = {title: part for title, part in parts.items() if min(part.values.shape) > 1}
        file = f"{learner}-{across}-{up}".replace(":", "-")
        for name, some in _split_sheets(parts, file):
            ylabel = f"{_format_name(up)} of {learner}"
            yield name, show.draw_heat(some, _format_name(across), ylabel, shown)


def _draw_lines(cells: "DataFrame", label: str, x: str) -> Figures:
    """Yield lines over one parameter."""
    parts = {title: _make_lines(some, x) for title, some in _split_settings(cells, (x,))}
    parts = {title: part for title, part in parts.items() if len(part.x) > 1}
    log = ""
    if all(_is_wide(part.x) for part in parts.values()):
        log += "x"
    if all(_is_wide(*part.lines.values()) for part in parts.values()):
        log += "y"
    for file, some in _split_sheets(parts, x):
        yield file, show.draw_panels(some, _format_name(x), label, log)


def _make_heat(cells: "DataFrame", x: str, y: str, ratio: bool) -> show.Heat:
    """Make a heat map whose best cell is marked; over a setting, each column is compared with its best, which is marked."""
    xs = cells[x].unique().sort().to_list()
    ys = cells[y].unique().sort().to_list()
    values = np.full((len(ys), len(xs)), np.nan)
    for across, up, mean in choose_best(cells, (x, y)).select(x, y, "mean").iter_rows():
        values[ys.index(up), xs.index(across)] = mean
    by_column = x in SETTING and y in LEARNER_COLUMNS
    by = (x,) if by_column else ()
    best = choose_best(cells, by).sort(x)
    marked = [(ys.index(up), xs.index(across)) for across, up in best.select(x, y).iter_rows()]
    if by_column:
        least = best["mean"].to_numpy()
        values = values / least if ratio else values - least
    return show.Heat(xs, ys, values, marked)


def _make_lines(cells: "DataFrame", x: str) -> show.Lines:
    """Make a line for each learner that has this parameter, its best point marked, and a level for each that does not."""
    xs = cells[x].drop_nulls().unique().sort().to_list()
    part = show.Lines(np.array(xs), {}, {}, {}, {})
    for (name, *_), group in cells.group_by("learner", maintain_order=True):
        learner = str(name)
        without = group.filter(group[x].is_null())
        best = choose_best(group.drop_nulls(x), (x,)).sort(x)
        if len(without):
            level = f"{learner}, no {x}" if len(best) else learner
            part.levels[level] = choose_best(without, ())["mean"][0]
        if not len(best):
            continue
        mean, half = np.full((2, len(xs)), np.nan)
        at = np.searchsorted(xs, best[x])
        mean[at] = best["mean"]
        half[at] = best["half"].fill_null(0.0)
        part.lines[learner] = mean
        part.bands[learner] = (mean - half, mean + half)
        if x in LEARNER_COLUMNS:
            part.marked[learner] = choose_best(best, ()).select(x, "mean").row(0)
    return part


def _split_settings(
    cells: "DataFrame", shown: Sequence[str]
) -> Iterator[tuple[str, "DataFrame"]]:
    """Yield the cells of each setting that a figure does not show, with its description."""
    hidden = [name for name in find_varying(cells, SETTING) if name not in shown]
    if not hidden:
        yield "", cells
        return
    for values, group in cells.group_by(hidden, maintain_order=True):
        setting = dict(zip(hidden, values, strict=True))
        said = [_describe(name, value) for name, value in setting.items() if value is not None]
        yield ", ".join(said), group


def _describe(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        value = f"{value:.6g}"
    return f"{_format_name(name)} {value}"


def _split_sheets(parts: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Split panels into figures that have room for them, each with a name."""
    for first in range(0, len(parts), PANELS):
        number = f"-{first // PANELS + 1}" if len(parts) > PANELS else ""
        yield f"{name}{number}", dict(list(parts.items())[first : first + PANELS])


def _is_wide(*values: Array) -> bool:
    if not values:
        return False
    known = np.concatenate(values)
    known = known[np.isfinite(known)]
    return bool(len(known) and known.min() > 0.0 and known.max() > LOG_RATIO * known.min())


def _format_name(name: str) -> str:
    return name.replace("_", " ")
