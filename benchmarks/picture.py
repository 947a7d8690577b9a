"""The picture of the README and the landing page, with its numbers: python benchmarks/picture.py.

The replay of docs/replay.md: `auto` beside gradient descent that was tuned on the first half of an hour, on the second half.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import klazy as kl
from klazy.datasets import llm_requests
from klazy.show.style import BLUE, GREY, OTHERS, RED, make_sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from klazy.show import Figure
    from klazy.studies.replay.report import Report

FILE = Path(__file__).parents[1] / "docs" / "figures" / "load.png"
SHOWN = {"GD": ("moves every round", RED), "auto": ("klazy's auto", BLUE)}
PLACES = {"GD": 3500.0, "auto": 900.0}  # where their labels stand
# A telephone shows these inches as some 350 dots, in which ten points can still be read.
WIDTH = 4.6
HEIGHT = 4.4
# The page of a desk has the panels side by side, in these inches.
WIDE = (9.2, 3.2)
POINTS = 10


def replay_load() -> "Report":
    """The replay of the hour: 4 for a request too few, 1 for one too many, 3 for each by which the number changes."""
    load = llm_requests(seconds=10).select("time", "requests")
    return kl.replay(load, domain="box", upper=100, costs="pinball", short=4, move_cost=3)


def tell(report: "Report") -> str:
    """What both paid, in one line."""
    parts = []
    for name in SHOWN:
        score = report.score(name)
        moved = f"{score.switching:.0f} of it for moving in {score.moves} of {len(score.curve)} rounds"
        parts.append(f"{name} paid {score.cost:.0f}, {moved}")
    greedy = report.score("GD")
    calm = report.score("auto")
    less = f"{1.0 - calm.cost / greedy.cost:.1%} less, and {1.0 - calm.switching / greedy.switching:.1%} less for moving"
    assert report.optimum is not None
    return f"{'; '.join(parts)}: {less}; the best possible was {report.optimum.cost:.0f}"


def draw(report: "Report", *, is_wide: bool = False) -> "Figure":
    """What both decided above, or on the left, and what both had paid so far below, or on the right."""
    if is_wide:
        figure = make_sheet(WIDE[1], WIDE[0])
        above, below = figure.subplots(1, 2, sharex=True, width_ratios=(1.4, 1.0))
    else:
        figure = make_sheet(HEIGHT, WIDTH)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.25, 1.0))
    minutes = (report.recorded_rows + 0.5) / 6.0
    load = llm_requests(seconds=10)["requests"].to_numpy()[report.recorded_rows]
    above.plot(minutes, load, color=OTHERS, linewidth=1.0)
    above.text(34.2, 36.0, "requests that came", color=GREY, fontsize=POINTS - 1, ha="center")
    for name, (label, colour) in SHOWN.items():
        score = report.score(name)
        above.plot(
            minutes, score.points[:, 0], color=colour, linewidth=1.6, drawstyle="steps-post"
        )
        below.plot(minutes, score.curve, color=colour, linewidth=1.8)
        below.text(58.0, PLACES[name], f"{label}: paid {score.cost:.0f}", ha="right", color=colour,
                   fontsize=POINTS, weight="bold")  # fmt: skip
    _finish(above, "ready for (requests)")
    _finish(below, "paid so far")
    above.set_ylim(0.0, 100.0)
    below.set_ylim(0.0, 4000.0)
    for ax in (above, below) if is_wide else (below,):
        ax.set_xlabel("minute of the hour", fontsize=POINTS)
    return figure


def _finish(ax: "Axes", ylabel: str) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=POINTS - 1)
    ax.set_ylabel(ylabel, fontsize=POINTS)
    ax.margins(x=0.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", type=Path, metavar="PNG", help=f"also draw it here, such as {FILE.name}"
    )
    asked = parser.parse_args()
    found = replay_load()
    told = tell(found)
    print(told)
    if asked.write:
        draw(found).savefig(asked.write, metadata={"Description": told})
        wide = asked.write.with_stem(f"{asked.write.stem}-wide")
        draw(found, is_wide=True).savefig(wide, metadata={"Description": told})
