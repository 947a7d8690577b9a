"""What the HPA's rule, a tuned rolling maximum and auto cost on three traces of demand, for docs/howto/kubernetes.md.

python benchmarks/autoscalers.py --write docs/howto/kubernetes.md
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import klazy as kl
import klazy.datasets as data
from klazy.studies.replay.wording import format_amount
from pages import markdown, run

HEADING = "## The HPA's rule beside the others"
# A unit too few costs 5 a round, one too many 1, and so does changing the number by one.
GAME = {
    "domain": "box",
    "costs": "pinball",
    "short": 5.0,
    "move_cost": 1.0,
    "upper": 60.0,
    "lower": 1.0,
}
BEFORE = [
    "What each rule pays on the second half of three traces, as a multiple of the certified optimum under the same limits. "
    "A unit too few costs 5 a round, one too many 1, and so does changing the number by one; decisions are whole numbers. "
    "The HPA aims at 80 % and waits five minutes before it goes down, `auto` has nothing to tune, and the others are tuned on "
    "the first half. `make connect` writes the table.",
    "",
]
AFTER = [
    "A *lead* is the number of rounds until a decision acts; *up* and *down* are how far it may move in one round. Rows are "
    "every 10 seconds, every hour and every minute, so on flights five minutes are less than a row, and the HPA does not "
    "wait there.",
    "",
    "**Where `auto` loses**: with a lead, on flights. It does not know the lead time: it plans for the next row, and its "
    "decision meets a later one, an hour after the peak that it was made for. The seasonal rule was tuned with the lead. Take "
    "the winner of your own replay, with your own lead.",
    "",
]
MINUTES_PER_DAY = 1440
DAYS = 14
SEED = 20


class Trace(NamedTuple):
    """A trace of demand, how much of it is one unit, limits on decisions, and the HPA's step where rows have no dates."""

    name: str
    frame: pl.DataFrame
    per: float
    lead: int
    up: float
    down: float
    step: str = ""


def make_shop(seed: int) -> pl.DataFrame:
    """Requests per minute to a shop over two weeks: days and weekends, noise, and crowds that come at once."""
    rng = np.random.default_rng(seed)
    minutes = np.arange(DAYS * MINUTES_PER_DAY)
    hour = minutes / 60.0 % 24.0
    day = (
        1.0
        + 0.8 * np.sin(2.0 * np.pi * (hour - 9.0) / 24.0)
        + 0.3 * np.sin(4.0 * np.pi * (hour - 7.0) / 24.0)
    )
    weekend = np.where(minutes // MINUTES_PER_DAY % 7 >= 5, 0.6, 1.0)
    load = 600.0 * np.maximum(day, 0.1) * weekend
    for start in rng.choice(len(minutes), 3 * DAYS, replace=False):
        length = int(rng.integers(8, 45))
        load[start : start + length] *= rng.uniform(1.3, 2.5)
    # The mean of a minute wanders, too.
    wander = np.exp(
        0.1 * np.convolve(rng.normal(size=len(minutes)), np.ones(30) / np.sqrt(30.0), "same")
    )
    times = [datetime(2024, 1, 1) + timedelta(minutes=int(minute)) for minute in minutes]
    return pl.DataFrame({"time": times, "requests": rng.poisson(load * wander).astype(float)})


def list_traces() -> Iterator[Trace]:
    """List the three traces."""
    load = data.llm_requests(seconds=10).select("time", "requests")
    yield Trace("`llm_requests`, 10 s", load, 5.0, lead=3, up=4.0, down=2.0, step=":step=10s")
    flights = data.flights("scheduled", carriers=data.CARRIERS)
    hours = flights.select(
        "time", requests=flights.drop("time").sum_horizontal().cast(pl.Float64)
    )
    yield Trace("`flights`, hours", hours, 3.0, lead=1, up=10.0, down=10.0)
    yield Trace("a shop, minutes", make_shop(SEED), 60.0, lead=3, up=4.0, down=2.0)


def play(trace: Trace, with_limits: bool) -> dict[str, Any]:
    """Replay a trace, and return its row of the table."""
    limits: dict[str, Any] = {}
    words = "none"
    if with_limits:
        limits = {"lead": trace.lead, "ramp_up": trace.up, "ramp_down": trace.down}
        words = f"lead {trace.lead}, up {trace.up:g}, down {trace.down:g}"
    found = kl.replay(trace.frame, baseline=f"hpa{trace.step}", per=trace.per, **GAME, **limits)
    best = next(score for score in found.scores if score.name != "baseline")
    assert found.optimum is not None
    bound = found.optimum.lower_bound
    cells: dict[str, Any] = {"trace": trace.name, "limits": words}
    for name, score in (
        ("never moving", found.score("fixed")),
        ("HPA's defaults", found.score("baseline")),
        ("rolling maximum, tuned", found.score("rolling maximum")),
        ("`auto`", found.score("auto")),
        ("the best of replay", best),
    ):
        cells[name] = f"{score.cost / bound:.2f}"
    cells["the best of replay"] += f": {best.name}"
    cells["optimum"] = format_amount(bound)
    return cells


def make(out: Path, folder: Path) -> str:
    """Return the text after the heading."""
    rows = [play(trace, with_limits) for trace in list_traces() for with_limits in (False, True)]
    return "\n".join([*BEFORE, *markdown(rows), *AFTER])


if __name__ == "__main__":
    run(__doc__, HEADING, "build/autoscalers", make)
