"""Which figures show a sweep: heat maps over two parameters, lines with bands over one; a panel for each setting."""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array, refusal
from klazy.studies.sweep.table import LEARNER, SETTING, choose_best, find_varying

if TYPE_CHECKING:
    import polars

NUMBERS = (
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
    "movement_weight",
)
PANELS = 12  # of a figure
WIDE = 8.0  # the ratio of the largest to the least value from which on an axis is logarithmic
Figures = Iterator[tuple[str, "show.Figure"]]


def draw_cells(cells: "polars.DataFrame", label: str, x: str | None = None, y: str | None = None) -> Figures:
    """The figures of a sweep's cells, each with a name: of lines over ``x`` or of heat maps over ``x`` and ``y``, if given.

    Else heat maps over two parameters of a learner, or one of a learner and one of the setting, and lines over the setting's
    parameters, or the learners'. What a figure does not show of a learner is at its best for it.
    """
    free = [name for name in NUMBERS if name in find_varying(cells)]
    for name in (x, y):
        if name is not None and name not in free:
            remedy = f"choose among {', '.join(free)}" if free else "there is nothing to draw"
            raise refusal("sweep plot", "a parameter with several values", "axis", name, remedy)
    if y is not None and x is None:
        raise refusal("sweep plot", "x beside y", "y", y, "name both for a heat map, x alone for lines")
    own, given = ([name for name in free if name in group] for group in (LEARNER, SETTING))
    pairs = [*itertools.combinations(own, 2)] or [*itertools.product(given, own)]
    over = given or own
    if x is not None:
        pairs, over = ([], [x]) if y is None else ([(x, y)], [])
    for across, up in pairs:
        for learner, group in cells.drop_nulls((across, up)).group_by("learner", maintain_order=True):
            shown = label
            ratio = bool((group["mean"] > 0.0).all())
            if across in SETTING and up in LEARNER:
                shown = f"{label} {'/' if ratio else '-'} the best of its column"
            parts = {
                said: _make_heat(some, across, up, ratio)
                for said, some in _split_settings(group, (across, up))
            }
            parts = {said: part for said, part in parts.items() if min(part.values.shape) > 1}
            for name, some in _split_sheets(parts, f"{learner[0]}-{across}-{up}".replace(":", "-")):
                yield (
                    name,
                    show.draw_heat(some, _format_name(across), f"{_format_name(up)} of {learner[0]}", shown),
                )
    for name in over:
        parts = {said: _make_lines(some, name) for said, some in _split_settings(cells, (name,))}
        parts = {said: part for said, part in parts.items() if len(part.x) > 1}
        log = "x" * all(_is_wide(part.x) for part in parts.values()) + "y" * all(
            _is_wide(*part.lines.values()) for part in parts.values()
        )
        for file, some in _split_sheets(parts, name):
            yield file, show.draw_panels(some, _format_name(name), label, log)


def _make_heat(cells: "polars.DataFrame", x: str, y: str, ratio: bool) -> show.Heat:
    """The best cell is marked; where the setting goes across, each column is compared with its best, which is marked."""
    xs = cells[x].unique().sort().to_list()
    ys = cells[y].unique().sort().to_list()
    values = np.full((len(ys), len(xs)), np.nan)
    for across, up, mean in choose_best(cells, (x, y)).select(x, y, "mean").iter_rows():
        values[ys.index(up), xs.index(across)] = mean
    compared = x in SETTING and y in LEARNER
    best = choose_best(cells, (x,) if compared else ()).select(x, y, "mean").rows()
    marked = [(ys.index(up), xs.index(across)) for across, up, _ in best]
    if compared:
        least = np.array([{across: mean for across, _, mean in best}[across] for across in xs])
        values = values / least if ratio else values - least
    return show.Heat(xs, ys, values, marked)


def _make_lines(cells: "polars.DataFrame", x: str) -> show.Lines:
    """A line for each learner that has this parameter, its best point marked, and a level for each that has not."""
    xs = cells[x].drop_nulls().unique().sort().to_list()
    part = show.Lines(np.array(xs), {}, {}, {}, {})
    for (name, *_), group in cells.group_by("learner", maintain_order=True):
        learner = str(name)
        without = group.filter(group[x].is_null())
        best = choose_best(group.drop_nulls(x), (x,)).sort(x)
        if len(without):
            part.levels[f"{learner}, no {x}" if len(best) else learner] = choose_best(without, ())["mean"][0]
        if not len(best):
            continue
        mean, half = (np.full(len(xs), np.nan) for _ in range(2))
        at = [xs.index(value) for value in best[x]]
        mean[at] = best["mean"].to_numpy()
        half[at] = best["half"].fill_null(0.0).to_numpy()
        part.lines[learner] = mean
        part.bands[learner] = (mean - half, mean + half)
        if x in LEARNER:
            part.marked[learner] = choose_best(best, ()).select(x, "mean").row(0)
    return part


def _split_settings(
    cells: "polars.DataFrame", shown: Sequence[str]
) -> Iterator[tuple[str, "polars.DataFrame"]]:
    """The cells of each setting that a figure does not show, with words for it."""
    hidden = [name for name in find_varying(cells, SETTING) if name not in shown]
    if not hidden:
        yield "", cells
        return
    for values, group in cells.group_by(hidden, maintain_order=True):
        pairs = [(name, value) for name, value in zip(hidden, values, strict=True) if value is not None]
        yield ", ".join(_describe(name, value) for name, value in pairs), group


def _describe(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return (
        f"{_format_name(name)} {value:.6g}" if isinstance(value, float) else f"{_format_name(name)} {value}"
    )


def _split_sheets(parts: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """As many panels as a figure has room for, with the figure's name."""
    for first in range(0, len(parts), PANELS):
        number = f"-{first // PANELS + 1}" if len(parts) > PANELS else ""
        yield f"{name}{number}", dict(list(parts.items())[first : first + PANELS])


def _is_wide(*values: Array) -> bool:
    known = np.concatenate(values)[np.isfinite(np.concatenate(values))] if values else np.empty(0)
    return bool(len(known) and known.min() > 0.0 and known.max() > WIDE * known.min())


def _format_name(name: str) -> str:
    return name.replace("_", " ")
