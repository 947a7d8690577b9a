"""The rounds of a stored agent as a frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.install import make_missing
from klazy.live.records import HINTED, LATE, ROUND, Row, read_feedback
from klazy.live.store import Listed, Store

if TYPE_CHECKING:
    import polars


def read_history(store: Store, agent: Listed, last: int | None = None) -> "polars.DataFrame":
    """One row per round that the store keeps, or the ``last`` rounds."""
    rounds = []
    for row in store.read_records(agent.id, store.find_first_record(agent.id) or 0):
        if row.kind in (ROUND, HINTED):
            rounds.append(describe_round(row))
    frame = make_frame(rounds)
    return frame if last is None else frame.tail(last)


def describe_round(row: Row) -> dict[str, Any]:
    """A round as plain values; its time in microseconds since 1970."""
    told = np.frombuffer(row.numbers, "<f8").tolist()
    made = np.frombuffer(row.decision, "<f8").tolist()
    d = len(made)
    feedback = read_feedback(row)
    told_of: int | None = row.t
    if feedback is not None:
        told_of = feedback[1] if feedback[0] == LATE else None
    return {
        "t": row.t,
        "time": None if row.at is None else round(row.at * 1e6),
        "id": row.id,
        "row": row.row,
        "gradient": told[:d],
        "hint": told[d:] or None,
        "hitting": row.hitting,
        "decision": made,
        "switching": row.switching,
        "guards": row.guards,
        "round": told_of,
    }


def make_frame(rounds: Sequence[dict[str, Any]]) -> "polars.DataFrame":
    """Rounds as :func:`describe_round` gives them, a row each."""
    try:
        import polars as pl
    except ImportError as missing:
        raise make_missing("history", "polars", "cli") from missing
    numbers = pl.List(pl.Float64)
    schema: dict[str, Any] = {
        "t": pl.Int64,
        "time": pl.Int64,
        "id": pl.String,
        "row": pl.String,
        "gradient": numbers,
        "hint": numbers,
        "hitting": pl.Float64,
        "decision": numbers,
        "switching": pl.Float64,
        "guards": pl.String,
        "round": pl.Int64,
    }
    columns = {name: [one[name] for one in rounds] for name in schema}
    return pl.DataFrame(columns, schema=schema).with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))
