"""The picture of docs/howto/prometheus.md: python benchmarks/connect.py --write docs/figures/prometheus.png.

A real Prometheus gets two weeks of flights; klazy replays them, and plays the second week live from there.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import klazy.datasets as data
from klazy.show.style import BLUE, GREY, OTHERS, make_sheet
from klazy.sources import Prometheus, read_frame

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
from systems import PrometheusServer  # noqa: E402  # pyright: ignore[reportMissingImports]

if TYPE_CHECKING:
    from klazy.show import Figure

HOURS = 14 * 24
GAME = (
    "--domain",
    "box",
    "--upper",
    "100",
    "--costs",
    "pinball",
    "--short",
    "4",
    "--move-cost",
    "1",
    "--whole",
)
POINTS = 9


def count_flights() -> list[float]:
    """Flights in each hour of the first two weeks of December."""
    flights = data.flights("scheduled", carriers=data.CARRIERS)
    count = dict(zip(flights["time"], flights.drop("time").sum_horizontal(), strict=True))
    first = datetime(2013, 12, 1)
    return [float(count.get(first + timedelta(hours=hour), 0)) for hour in range(HOURS)]


def play(folder: Path) -> tuple[list[float], list[float]]:
    """Return the load of the second week, as Prometheus has it, and what klazy was ready for."""
    begin = int(time.time()) // 3600 * 3600 - (HOURS - 1) * 3600
    server = PrometheusServer(folder / "prometheus")
    server.backfill(
        {"flights": [(begin + 3600 * i, load) for i, load in enumerate(count_flights())]}
    )
    klazy = [sys.executable, "-m", "klazy"]
    with server:
        source = ["--prometheus", server.url, "--query", "flights", "--step", "1h"]
        make = [*klazy, "replay", *source, "--since", "15d", *GAME, "--emit", "agent.json"]
        print(
            subprocess.run(
                make, cwd=folder, check=True, capture_output=True, text=True
            ).stdout.splitlines()[0]
        )
        live = [*klazy, "live", "agent.json", *source, "--once", "--first"]
        played = subprocess.run(
            live, cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        decisions = [float(row["value"]) for row in csv.DictReader(played.splitlines())]
        frame = read_frame(Prometheus(server.url, ["flights"], 3600.0), begin - 1.0)
    # A decision is for the row after it, so that the last one waits for its row.
    ready = decisions[:-1]
    return frame["value"].to_list()[-len(ready) :], ready


def draw(load: list[float], ready: list[float]) -> "Figure":
    """The load, and what klazy was ready for, by day."""
    figure = make_sheet(2.6, 6.4)
    ax = figure.subplots()
    days = [hour / 24.0 for hour in range(len(load))]
    ax.fill_between(days, load, color=OTHERS, alpha=0.5, step="post", linewidth=0.0)
    ax.plot(days, ready, color=BLUE, linewidth=1.4, drawstyle="steps-post")
    ax.text(
        0.1, 96.0, "flights that left, from Prometheus", color=GREY, fontsize=POINTS, va="top"
    )
    ax.text(
        6.9,
        96.0,
        "crews that klazy had ready",
        color=BLUE,
        fontsize=POINTS,
        va="top",
        ha="right",
        weight="bold",
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=POINTS - 1)
    ax.set_ylim(0.0, 100.0)
    ax.set_xlabel("day of the second week", fontsize=POINTS)
    ax.set_ylabel("per hour", fontsize=POINTS)
    ax.margins(x=0.0)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PNG", help="draw it here")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        shown = draw(*play(Path(home)))
    if asked.write:
        shown.savefig(asked.write)
