"""The rounds of a stored agent as a frame."""

from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.install import make_missing
from klazy.live.records import HINTED, ROUND
from klazy.live.store import Listed, Store

if TYPE_CHECKING:
    import polars


def read_history(store: Store, agent: Listed, last: int | None = None) -> "polars.DataFrame":
    """One row per round that the store keeps, or the ``last`` rounds."""
    try:
        import polars as pl
    except ImportError as missing:
        raise make_missing("history", "polars", "cli") from missing
    numbers = pl.List(pl.Float64)
    schema: dict[str, Any] = {
        "t": pl.Int64,
        "time": pl.Datetime("us", "UTC"),
        "id": pl.String,
        "row": pl.String,
        "gradient": numbers,
        "hint": numbers,
        "hitting": pl.Float64,
        "decision": numbers,
        "switching": pl.Float64,
        "guards": pl.String,
    }
    columns: dict[str, list[Any]] = {name: [] for name in schema}
    for row in store.read_records(agent.id, store.find_first_record(agent.id) or 0):
        if row.kind not in (ROUND, HINTED):
            continue
        told = np.frombuffer(row.numbers, "<f8").tolist()
        made = np.frombuffer(row.decision, "<f8").tolist()
        d = len(made)
        entry = (
            row.t,
            None if row.at is None else round(row.at * 1e6),
            row.id,
            row.row,
            told[:d],
            told[d:] or None,
            row.hitting,
            made,
            row.switching,
            row.guards,
        )
        for column, value in zip(columns.values(), entry, strict=True):
            column.append(value)
    stamps = pl.Series("time", columns.pop("time"), pl.Int64).cast(schema["time"])
    del schema["time"]
    frame = pl.DataFrame(columns, schema=schema).insert_column(1, stamps)
    return frame if last is None else frame.tail(last)
