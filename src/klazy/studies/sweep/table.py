"""Runs as rows of a polars frame, with the same columns whatever the study, and their means by cell."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import klazy
from klazy.base.checks import Array, one_of, refusal
from klazy.studies.sweep.catalogue import RECIPES, Point
from klazy.studies.sweep.runs import Task
from klazy.studies.sweep.worker import SUMS, TaskResult

if TYPE_CHECKING:
    import polars

Row = dict[str, Any]
KEYS: dict[str, type] = {  # of recipes and rules that have a column of their own; other keys are among the options
    "T": int, "dim": int, "phases": int, "length": int, "random_phases": bool, "settled": int, "period": int,
    "sigma": float, "c": float, "k": int, "m": float, "kappa": float,
}  # fmt: skip
SCENARIO = (
    "scenario",
    "T",
    "dim",
    "phases",
    "length",
    "random_phases",
    "settled",
    "period",
    "scenario_options",
)
LEARNER = ("learner", "sigma", "c", "k", "m", "kappa", "learner_options")
PRICE = ("movement", "movement_weight")
SHARED = ("version", *SCENARIO, "movement", "root", "seed")  # what the runs of a task have in common
SETTING = (*SCENARIO, *PRICE)  # what a learner cannot choose
CELL = (*SCENARIO, *LEARNER, *PRICE)
METRICS = (*SUMS[:2], "cost", *SUMS[2:])
NAME_IT = "name it among the study's metrics and play it"
CURVES = ("hitting_curve", "switching_curve")


def make_frame(played: Sequence[tuple[Task, TaskResult]], keys: "polars.Series") -> "polars.DataFrame":
    """One row per run: its key, what it is, what it paid, its regrets, its curve if there is one, its error if it failed.

    ``keys`` are those of all runs of the study. Sequences and learners are described once each, and repeated by number: a
    million runs are of few.
    """
    import polars as pl

    schema = make_schema()
    counts = [len(task.players) for task, _ in played]
    firsts = np.array([task.first for task, _ in played], dtype=int)
    starts = np.cumsum([0, *counts])  # of the runs of each task among the rows
    count = int(starts[-1])
    which = np.repeat(np.arange(len(played)), counts)
    within = np.arange(count) - starts[which]
    rows, whose, weights = _describe_players(played)
    sums = np.concatenate([np.empty((0, len(SUMS))), *(outcome.sums for _, outcome in played)])
    columns: dict[str, Any] = {"key": keys.gather(firsts[which] + within)}
    columns |= _spread([_describe_sequence(*pair) for pair in played], SHARED, which, schema)
    columns |= _spread(rows, LEARNER, whose, schema)
    columns["movement_weight"] = weights
    columns |= dict(zip(SUMS, np.ascontiguousarray(sums.T), strict=True))
    columns["cost"] = sums[:, 0] + sums[:, 1]
    if any(outcome.errors for _, outcome in played):
        columns["error"] = _list_errors(played, starts)
    if any(len(outcome.rounds) for _, outcome in played):
        columns |= _list_curves(played)
    ordered = []
    for name, kind in schema.items():
        if name in columns:
            ordered.append(pl.Series(name, columns[name], dtype=kind))
        else:
            ordered.append(pl.repeat(None, count, dtype=kind, eager=True).alias(name))
    return pl.DataFrame(ordered).with_columns(pl.col(METRICS).fill_nan(None))


def _describe_players(played: Sequence[tuple[Task, TaskResult]]) -> tuple[list[Row], np.ndarray, Array]:
    """The learners of these tasks, which of them each run has, and the prices; tasks mostly share one list of players."""
    described: dict[tuple[str, int], int] = {}  # rules with their points, which tasks share
    rows: list[Row] = []
    lists: dict[int, tuple[np.ndarray, Array]] = {}
    for task, _ in played:
        if id(task.players) in lists:
            continue
        numbers = np.empty(len(task.players), dtype=int)
        for i, (rule, point, _) in enumerate(task.players):
            numbers[i] = described.setdefault((rule, id(point)), len(rows))
            if numbers[i] == len(rows):
                rows.append(_split_options(point, LEARNER) | {"learner": rule})
        weights = np.array([player.weight for player in task.players])
        lists[id(task.players)] = numbers, weights
    whose = np.concatenate([np.empty(0, dtype=int), *(lists[id(task.players)][0] for task, _ in played)])
    weights = np.concatenate([np.empty(0), *(lists[id(task.players)][1] for task, _ in played)])
    return rows, whose, weights


def _spread(
    rows: list[Row], names: Sequence[str], place: np.ndarray, schema: dict[str, Any]
) -> dict[str, Any]:
    """The columns of rows that are repeated: run ``i`` has row ``place[i]``; a column that is null throughout is left out."""
    import polars as pl

    columns = {}
    for name in names:
        values = pl.Series(name, [row.get(name) for row in rows], dtype=schema[name])
        if values.null_count() < len(values):
            columns[name] = values.gather(place)
    return columns


def _list_errors(played: Sequence[tuple[Task, TaskResult]], starts: np.ndarray) -> list[str | None]:
    errors: list[str | None] = [None for _ in range(starts[-1])]
    for (_, outcome), start in zip(played, starts.tolist(), strict=False):
        for i, error in outcome.errors.items():
            errors[start + i] = error
    return errors


def _list_curves(played: Sequence[tuple[Task, TaskResult]]) -> dict[str, Any]:
    """The points of every run's running sums, null where there are none."""
    import polars as pl

    types = {name: make_schema()[name] for name in ("rounds", *CURVES)}
    parts = []
    for task, outcome in played:
        count = len(task.players)
        if not len(outcome.rounds):
            parts.append(pl.DataFrame({name: [None] * count for name in types}, schema=types))
            continue
        values = [np.tile(outcome.rounds, (count, 1)), outcome.curves[:, :, 0], outcome.curves[:, :, 1]]
        made = pl.DataFrame(
            [
                pl.Series(name, np.ascontiguousarray(each)).arr.to_list()
                for name, each in zip(types, values, strict=True)
            ]
        )
        known = pl.lit(pl.Series("known", ~np.isnan(outcome.curves[:, -1, 0])))
        parts.append(made.select(pl.when(known).then(pl.all())))
    return pl.concat(parts).to_dict()


def _describe_sequence(task: Task, outcome: TaskResult) -> Row:
    """What the runs of a task have in common."""
    recipe, point, seed = task.sequence
    row = _split_options(point, SCENARIO)
    if outcome.T and recipe in RECIPES:  # another recipe may draw them, and they would tell cells apart
        row = {"T": outcome.T, "dim": outcome.dim} | row
    row |= {"scenario": recipe, "movement": task.movement, "version": klazy.__version__}
    if seed is not None:
        row |= {"root": seed[0], "seed": seed[1]}
    return row


def make_schema() -> dict[str, Any]:
    """The columns and their types."""
    import polars as pl

    kinds: dict[type, Any] = {int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean()}
    types = {name: kinds[kind] for name, kind in KEYS.items()}
    types["movement_weight"] = pl.Float64()
    columns = {name: types.get(name, pl.String()) for name in ("key", "version", *CELL)}
    columns |= dict.fromkeys(("root", "seed"), pl.Int64())
    columns |= dict.fromkeys(METRICS, pl.Float64())
    columns["rounds"] = pl.List(pl.Int64())
    columns |= dict.fromkeys(CURVES, pl.List(pl.Float64()))
    columns["error"] = pl.String()
    return columns


def _split_options(point: Point, among: Sequence[str]) -> Row:
    """The values that have a column ``among`` these, and the others as text in the last of them, the options."""
    own = {}
    options = {}
    for key, value in point.items():
        if key in among and key in KEYS and _fits(value, KEYS[key]):
            own[key] = value
        else:
            options[key] = value
    if options:
        own[among[-1]] = json.dumps(options, sort_keys=True)
    return own


def _fits(value: Any, kind: type) -> bool:
    return isinstance(value, bool) == (kind is bool) and isinstance(value, kind | int)


def average_cells(
    rows: "polars.DataFrame", metric: str, relative_to: str | None = None, held_out: bool = False
) -> "polars.DataFrame":
    """The ``mean`` of a metric over the seeds of every cell, over so many ``runs``; ``half`` is half the width of the interval
    that holds the true mean with a confidence of 95 % (Student's t), null for a single run.

    ``relative_to`` names a learner: then the metric is how much more a run has than this learner on the same sequence, at its
    best for the setting, in per cent of what that learner has there on average. ``choice`` is what the best cells are chosen
    by: the mean, or if it is ``held_out``, the mean over the even seeds, while the others alone make ``mean`` and ``half``.
    """
    import polars as pl

    one_of(metric, "metric", "sweep", METRICS)
    known = rows.filter(pl.col(metric).is_not_null())
    if not len(known):
        failed = rows["error"].drop_nulls()
        remedy = NAME_IT
        if len(rows) and len(failed) == len(rows):
            remedy = f"all {len(rows)} runs failed, the first with {failed[0]}"
        raise refusal("sweep", f"runs with {metric}", "runs", 0, remedy)
    if held_out and (known["seed"].null_count() or known["seed"].max() == 0):
        raise refusal(
            "sweep", "scenarios that are drawn, with several seeds", "held_out", held_out, "leave it out"
        )
    if relative_to is not None:
        known = _relate(known, metric, relative_to, held_out)
    if not held_out:
        return _average(known, metric).with_columns(pl.col("mean").alias("choice"))
    odd = pl.col("seed") % 2 == 1
    chosen = _average(known.filter(~odd), metric)
    shown = _average(known.filter(odd), metric)
    choice = chosen.select(*CELL, pl.col("mean").alias("choice"))
    return shown.join(choice, on=CELL, nulls_equal=True, maintain_order="left")


def _average(rows: "polars.DataFrame", metric: str) -> "polars.DataFrame":
    """Mean, half the interval's width, and the number of runs, by cell."""
    import polars as pl
    from scipy.special import stdtrit

    found = rows.group_by(CELL, maintain_order=True)
    cells = found.agg(
        pl.col(metric).mean().alias("mean"), pl.col(metric).std().alias("half"), pl.len().alias("runs")
    )
    n = cells["runs"].to_numpy().clip(2)
    half = cells["half"] * (stdtrit(n - 1, 0.975) / np.sqrt(n))
    return cells.with_columns(half.alias("half"))


def _relate(rows: "polars.DataFrame", metric: str, learner: str, held_out: bool) -> "polars.DataFrame":
    """The rows with the metric relative to a learner's, in per cent."""
    import polars as pl

    theirs = rows.filter(pl.col("learner") == learner)
    if not len(theirs):
        known = ", ".join(rows["learner"].unique(maintain_order=True))
        raise refusal(
            "sweep", f"a learner of the study ({known})", "relative_to", learner, "choose one of these"
        )
    best = choose_best(average_cells(theirs, metric, held_out=held_out), SETTING).select(*CELL, "mean")
    base = theirs.join(best, on=CELL, nulls_equal=True).select(
        *SETTING, "seed", pl.col(metric).alias("base"), "mean"
    )
    if (best["mean"] == 0.0).any():
        raise refusal(
            "sweep",
            f"a learner whose {metric} is not zero",
            "relative_to",
            learner,
            "choose another, or leave it out",
        )
    joined = rows.join(base, on=(*SETTING, "seed"), nulls_equal=True, maintain_order="left")
    more = 100.0 * (pl.col(metric) - pl.col("base")) / pl.col("mean").abs()
    return joined.with_columns(more.alias(metric)).drop("base", "mean")


def choose_best(cells: "polars.DataFrame", by: Sequence[str]) -> "polars.DataFrame":
    """Of the cells that agree in these columns the best; one with fewer runs than others, as when some failed, is none."""
    import polars as pl

    most = pl.col("runs").max()
    if not by:
        return cells.sort(pl.col("runs") < most, "choice").head(1)
    ordered = cells.sort(pl.col("runs") < most.over(list(by)), "choice")
    return ordered.group_by(by, maintain_order=True).first()


def find_varying(cells: "polars.DataFrame", among: Sequence[str] = CELL) -> list[str]:
    """The columns that have more than one value; T is not counted where it follows from phases."""
    found = [name for name in among if cells[name].drop_nulls().n_unique() > 1]
    follows = "T" in found and cells["T"].is_in(cells["length"] * cells["phases"]).all()
    return [name for name in found if name != "T" or not follows]


def summarize(cells: "polars.DataFrame", most: int) -> list[dict[str, Any]]:
    """The cells, or if they are more than ``most``, the best of each learner in each setting; with what varies among them.

    ``edge`` names the parameters of a best cell that are the first or the last of their grid: there may be better ones beyond.
    """
    free = find_varying(cells)
    own = [name for name in free if name in LEARNER]
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
        found = {"mean": row["mean"], "+-": row["half"], "runs": row["runs"], "edge": ", ".join(edges)}
        rows.append(about | found)
    return rows


def _find_ends(cells: "polars.DataFrame", parameters: Sequence[str]) -> dict[tuple[Any, str], Any]:
    """The least and the largest value of every learner's parameters that have more than two."""
    ends = {}
    for (learner, *_), group in cells.group_by("learner"):
        for name in parameters:
            if name in KEYS and group[name].n_unique() > 2:
                ends[learner, name] = (group[name].min(), group[name].max())
    return ends
