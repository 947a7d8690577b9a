"""Runs as rows of a polars frame, with the same columns for every study, and their means by cell."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import klazy
from klazy.base.checks import InvalidInput, one_of
from klazy.base.options import write_option
from klazy.studies.results import StoredRows, write_keys
from klazy.studies.sweep.catalogue import RECIPES, Point
from klazy.studies.sweep.player import RUN_SUMS, TaskResult
from klazy.studies.sweep.tasks import Task, Team

if TYPE_CHECKING:
    from polars import DataFrame

Row = dict[str, Any]
# Columns and their types. Keys of recipes and rules without a column are text in the last column of their table, the options.
SCENARIO_COLUMNS: dict[str, type] = {
    "scenario": str, "T": int, "dim": int, "phases": int, "length": int, "random_phases": bool,
    "settled": int, "period": int, "scenario_options": str,
}  # fmt: skip
LEARNER_COLUMNS: dict[str, type] = {
    "learner": str, "sigma": float, "c": float, "k": int, "m": float, "kappa": float, "learner_options": str,
}  # fmt: skip
PRICE_COLUMNS = {"movement": str, "move_cost": float}
SEED_COLUMNS = {"root": int, "seed": int}
METRICS = (*RUN_SUMS[:2], "cost", *RUN_SUMS[2:])
CURVES = ("hitting_curve", "switching_curve")
CURVE_COLUMNS = {"rounds": list[int], **dict.fromkeys(CURVES, list[float])}
RUN_COLUMNS: dict[str, Any] = (
    {"key": str, "version": str} | SCENARIO_COLUMNS | LEARNER_COLUMNS | PRICE_COLUMNS
)
RUN_COLUMNS |= SEED_COLUMNS | dict.fromkeys(METRICS, float) | CURVE_COLUMNS | {"error": str}
# Columns that the runs of a task have in common.
TASK_COLUMNS = {"version": str, **SCENARIO_COLUMNS, "movement": str, **SEED_COLUMNS}
SETTING = (*SCENARIO_COLUMNS, *PRICE_COLUMNS)  # what a learner cannot choose
CELL = (*SCENARIO_COLUMNS, *LEARNER_COLUMNS, *PRICE_COLUMNS)


def make_run_frame(played: Sequence[tuple[Task, TaskResult]], keys: np.ndarray) -> "DataFrame":
    """Return one row per run: its key, learner and sequence, its costs and regrets, its curve and its error if there is one.

    ``keys`` are the words of the keys of all runs. Sequences and learners are described once each, and repeated by number: a
    million runs have few of them.
    """
    import polars as pl

    empty = pl.DataFrame(schema=RUN_COLUMNS)
    if not played:
        return empty
    which = np.repeat(np.arange(len(played)), [len(task.team) for task, _ in played])
    sequences = pl.DataFrame([_describe_sequence(*pair) for pair in played], schema=TASK_COLUMNS)
    parts = [
        write_keys(
            np.concatenate([keys[task.first : task.first + len(task.team)] for task, _ in played])
        ).to_frame(),
        sequences[which],
        pl.concat([_describe_team(task.team) for task, _ in played]),
        pl.DataFrame(
            np.concatenate([result.sums for _, result in played]), schema=list(RUN_SUMS)
        ),
    ]
    if any(result.errors for _, result in played):
        errors = [result.errors.get(i) for task, result in played for i in range(len(task.team))]
        parts.append(pl.DataFrame({"error": errors}, schema={"error": str}))
    if any(len(result.rounds) for _, result in played):
        parts.append(pl.concat([_list_curves(*pair) for pair in played]))
    frame = pl.concat(parts, how="horizontal").with_columns(
        cost=pl.col("hitting") + pl.col("switching")
    )
    return pl.concat([empty, frame], how="diagonal").with_columns(pl.col(METRICS).fill_nan(None))


@lru_cache(maxsize=8)
def _describe_team(team: Team) -> "DataFrame":
    """Return the learner and the price of every run of a team; tasks mostly share one."""
    import polars as pl

    rows = [
        _split_options(point, LEARNER_COLUMNS) | {"learner": rule} for rule, point in team.cells
    ]
    return pl.DataFrame(rows, schema=LEARNER_COLUMNS)[team.cell].with_columns(
        move_cost=team.weights
    )


def _list_curves(task: Task, result: TaskResult) -> "DataFrame":
    """Return the curves of the runs of a task, null where there are none."""
    import polars as pl

    count = len(task.team)
    if not len(result.rounds):
        return pl.DataFrame(schema=CURVE_COLUMNS).clear(count)
    values = [np.tile(result.rounds, (count, 1)), *np.moveaxis(result.curves, -1, 0)]
    columns = []
    for name, each in zip(CURVE_COLUMNS, values, strict=True):
        columns.append(pl.Series(name, np.ascontiguousarray(each)).arr.to_list())
    known = pl.lit(pl.Series("known", ~np.isnan(result.curves[:, -1, 0])))
    return pl.DataFrame(columns).select(pl.when(known).then(pl.all()))


def _describe_sequence(task: Task, result: TaskResult) -> Row:
    """Return what the runs of a task have in common."""
    recipe, point, seed = task.sequence
    row = _split_options(point, SCENARIO_COLUMNS)
    # Another recipe may draw them, and they would split its cells.
    if result.T and recipe in RECIPES:
        row = {"T": result.T, "dim": result.dim} | row
    row |= {"scenario": recipe, "movement": task.team.movement, "version": klazy.__version__}
    if seed is not None:
        row |= zip(SEED_COLUMNS, seed, strict=True)
    return row


def _split_options(point: Point, columns: dict[str, type]) -> Row:
    """Return the values that have a column, and the others as text in the last column, the options."""
    own = {key: value for key, value in point.items() if _fits(value, columns.get(key, str))}
    options = {key: value for key, value in point.items() if key not in own}
    if options:
        *_, last = columns
        own[last] = json.dumps(options, sort_keys=True)
    return own


def _fits(value: Any, kind: type) -> bool:
    """Return True if a column of this type holds the value; columns of text hold none."""
    return (
        kind is not str
        and isinstance(value, bool) == (kind is bool)
        and isinstance(value, kind | int)
    )


def average_cells(
    rows: "DataFrame | StoredRows",
    metric: str,
    relative_to: str | None = None,
    held_out: bool = False,
) -> "DataFrame":
    """Return the ``mean`` of a metric over the ``runs`` of every cell, one per seed, and ``half`` the width of its interval.

    The interval contains the true mean with a confidence of 95 % (Student's t); for a single run it is null.

    ``relative_to`` names a learner: then the metric is how much more a run has than this learner on the same sequence, at its
    best for the setting, in per cent of that learner's average. The best cells have the least ``choice``: the mean, or with
    ``held_out`` the mean over the even seeds, while ``mean`` and ``half`` come from the odd ones.
    """
    one_of(metric, "metric", METRICS)
    source = rows if isinstance(rows, StoredRows) else StoredRows(rows)
    table, known = _number_cells(source, metric)
    if not len(known):
        errors = source.read(["error"])["error"]
        if len(errors) and not errors.null_count():
            raise InvalidInput(f"All {len(errors)} runs failed, the first with {errors[0]}")
        raise InvalidInput(
            f"No run has {metric}. Add it to the metrics of the study and play it again."
        )
    if held_out and (known["seed"].null_count() or known["seed"].max() == 0):
        option = write_option("held_out")
        raise InvalidInput(f"{option} needs random scenarios with several seeds. Leave it out.")
    if relative_to is not None:
        known = _relate(table, known, metric, relative_to, held_out)
    return _average(table, known, held_out).drop("cell")


def _number_cells(source: StoredRows, metric: str) -> "tuple[DataFrame, DataFrame]":
    """Return the cells, and of each run that has the metric its cell, seed and ``value``: millions of runs have few cells."""
    import polars as pl

    table = pl.DataFrame(schema={name: RUN_COLUMNS[name] for name in CELL})

    def number(rows: "DataFrame") -> "DataFrame":
        nonlocal table
        rows = rows.filter(pl.col(metric).is_not_null())
        table = pl.concat([table, rows.select(CELL)]).unique(maintain_order=True)
        cells = table.with_row_index("cell")
        numbered = rows.join(cells, on=CELL, nulls_equal=True, maintain_order="left")
        # Ten million runs take 200 MB.
        return numbered.select("number", "cell", pl.col("seed").cast(pl.Int32), value=metric)

    known = source.read([*CELL, "seed", metric], number)
    return table.with_row_index("cell"), known


def _average(table: "DataFrame", known: "DataFrame", held_out: bool) -> "DataFrame":
    """Return the cells with their averages, as in :func:`average_cells`."""
    import polars as pl
    from scipy.special import stdtrit

    is_shown = pl.col("seed") % 2 == 1 if held_out else pl.lit(True)
    value = pl.col("value")
    grouped = known.filter(is_shown).group_by("cell", maintain_order=True)
    cells = grouped.agg(mean=value.mean(), half=value.std(), runs=pl.len())
    n = cells["runs"].to_numpy().clip(2)
    cells = cells.with_columns(
        half=cells["half"] * (stdtrit(n - 1, 0.975) / np.sqrt(n)), choice="mean"
    )
    if held_out:
        choice = known.filter(~is_shown).group_by("cell").agg(choice=value.mean())
        cells = cells.drop("choice").join(choice, on="cell", how="left", maintain_order="left")
    return table.select("cell", *CELL)[cells["cell"]].with_columns(cells.drop("cell"))


def _relate(
    table: "DataFrame", known: "DataFrame", metric: str, learner: str, held_out: bool
) -> "DataFrame":
    """Return the runs with their values relative to a learner's, in per cent."""
    import polars as pl

    option = write_option("relative_to")
    theirs = known.filter(pl.col("cell").is_in(table.filter(learner=learner)["cell"].implode()))
    if not len(theirs):
        learners = ", ".join(table["learner"].unique(maintain_order=True))
        raise InvalidInput(
            f"{option} must be a learner of the study ({learners}), got {learner!r}."
        )
    best = choose_best(_average(table, theirs, held_out), SETTING)
    if (best["mean"] == 0.0).any():
        message = (
            f"{option} must be a learner whose {metric} is not 0, got {learner}. Choose another."
        )
        raise InvalidInput(message)
    settings = table.select(SETTING).unique(maintain_order=True).with_row_index("setting")
    of_cell = table.join(settings, on=SETTING, nulls_equal=True).select("cell", "setting")
    theirs = theirs.join(best.select("cell", "mean"), on="cell").join(of_cell, on="cell")
    base = theirs.select("setting", "seed", "mean", base="value")
    joined = known.join(of_cell, on="cell", maintain_order="left")
    joined = joined.join(base, on=("setting", "seed"), nulls_equal=True, maintain_order="left")
    more = 100.0 * (pl.col("value") - pl.col("base")) / pl.col("mean").abs()
    return joined.select("cell", "seed", value=more)


def choose_best(cells: "DataFrame", by: Sequence[str]) -> "DataFrame":
    """Return the best of the cells that agree in these columns; one with fewer runs than others, as after failures, is not."""
    import polars as pl

    most = pl.col("runs").max()
    if not by:
        return cells.sort(pl.col("runs") < most, "choice").head(1)
    ordered = cells.sort(pl.col("runs") < most.over(by), "choice")
    return ordered.group_by(by, maintain_order=True).first()


def find_varying(cells: "DataFrame", among: Sequence[str] = CELL) -> list[str]:
    """Return the columns that have more than one value, without T where it follows from phases."""
    found = [name for name in among if cells[name].drop_nulls().n_unique() > 1]
    follows = "T" in found and cells["T"].is_in(cells["length"] * cells["phases"]).all()
    return [name for name in found if name != "T" or not follows]


def summarize_cells(cells: "DataFrame", most: int) -> list[dict[str, Any]]:
    """Return the cells; if there are more than ``most``, only the best one of each learner in each setting.

    "at grid limit" names the parameters of a best cell that are the first or the last of their grid: others may be better.
    """
    free = find_varying(cells)
    own = [name for name in free if name in LEARNER_COLUMNS]
    given = [name for name in free if name in SETTING]
    best = choose_best(cells, (*given, "learner"))
    shown = cells if len(cells) <= most else best.sort((*given, "mean"), nulls_last=True)
    ends = _find_ends(cells, own)
    least = set(best.select(CELL).iter_rows())
    columns = dict.fromkeys((*given, "learner", *own))
    rows = []
    for row in shown.to_dicts():
        edges = []
        if tuple(row[name] for name in CELL) in least:
            edges = [name for name in own if row[name] in ends.get((row["learner"], name), ())]
        about = {name: row[name] for name in columns}
        found = {"mean": row["mean"], "+-": row["half"], "runs": row["runs"]}
        rows.append(about | found | {"at grid limit": ", ".join(edges)})
    return rows


def _find_ends(cells: "DataFrame", parameters: Sequence[str]) -> dict[tuple[Any, str], Any]:
    """Return the least and the largest value of every learner's parameters that have more than two."""
    ends = {}
    for (learner, *_), group in cells.group_by("learner"):
        for name in parameters:
            if LEARNER_COLUMNS[name] is not str and group[name].n_unique() > 2:
                ends[learner, name] = (group[name].min(), group[name].max())
    return ends
