"""The two studies of examples/, their figures and what they say, for docs/sweeps.md: python benchmarks/studies.py."""

from pathlib import Path
from typing import NamedTuple

import polars as pl

from klazy import show
from klazy.studies.sweep import Study, sweep
from klazy.studies.sweep.drawing import draw_cells
from klazy.studies.sweep.execute import Sweep
from klazy.studies.sweep.frame import choose_best, summarize_cells
from pages import markdown, run

HEADING = "## Two studies"
MORE = "% more than GD's"


class Reading(NamedTuple):
    """A study's cells, the column that goes across the figure, and the lines that explain the cells."""

    cells: pl.DataFrame
    x: str
    lines: list[str]


def percent(cell: dict) -> str:
    """How much less or more than GD a cell has, with its interval."""
    return f"{abs(cell['mean']):.1f} % {'less' if cell['mean'] < 0.0 else 'more'} (+- {cell['half']:.1f})"


def resonance(found: Sweep) -> Reading:
    """Compare the best slacks on phases of equal and of random length."""
    cells = found.cells(relative_to="GD", held_out=True)
    rows = choose_best(cells, ("length", "random_phases", "learner")).to_dicts()
    best = {(row["length"], row["random_phases"], row["learner"]): row for row in rows}
    table = []
    for length in sorted({row["length"] for row in rows}):
        equal = best[length, False, "KLazyGD"]
        random = best[length, True, "KLazyGD"]
        same = best_with_slack(cells, length)
        if equal["k"] != length or same["mean"] < 0.0:
            raise SystemExit(
                "The best slack is not the length of the phases, or wins on random ones: change the words below."
            )
        still = same["sigma"] == cells["sigma"].max()
        table.append(
            {
                "phase length": length,
                "equal phases, best k": f"k = {equal['k']}: {percent(equal)}",
                "random phases, best k": f"k = {random['k']}: {percent(random)}",
                "random phases, k = length": percent(same) + (", hardly moving" if still else ""),
                "random phases, Decay": percent(best[length, True, "Decay"]),
            }
        )
    lines = [
        "`KLazyGD` forgets every k rounds; k is its slack. `Decay` forgets a little in every round, without a clock. The table "
        "shows how much less or more total regret they have than GD, with the 95 % interval. Random phases last half to one "
        "and a half times the phase length. *Hardly moving* means that the best sigma is the largest of the grid:",
        "",
        *markdown(table),
        "On equal phases the best k is the phase length: the learner forgets exactly when the costs change. With half that k, "
        "every second reset falls on a change. On random phases the same k does not beat GD. The best k there gains little, "
        "and so does `Decay`.",
        "",
        "So most of the gain on equal phases is resonance: the clock and the costs are in step. You can only count on it if "
        "you know when costs change. The few per cent that remain come from laziness.",
    ]
    return Reading(cells, "k", lines)


def best_with_slack(cells: pl.DataFrame, length: int) -> dict:
    """The best cell on random phases whose slack is the length of the phases, at the sigma that suits it there."""
    there = cells.filter(
        pl.col("length") == length, pl.col("random_phases"), pl.col("k") == length
    )
    return choose_best(there, ()).row(0, named=True)


def tuned(found: Sweep) -> Reading:
    """Find the prices of moving at which each learner is clearly better or worse than GD."""
    cells = found.cells(relative_to="GD", held_out=True)
    best = choose_best(cells, ("scenario", "move_cost", "learner"))
    corrupted = best.filter(pl.col("scenario") == "corrupted")
    costly = corrupted.filter(pl.col("learner") == "Decay", pl.col("move_cost") > 5.0)
    cheap = corrupted.filter(pl.col("learner") != "GD", pl.col("move_cost") < 5.0)
    if (costly["mean"] > 0.0).any() or (cheap["mean"] < 0.0).any():
        raise SystemExit(
            "It is no longer a price of 5 that parts the winners: the words below must change."
        )
    memory = ", ".join(f"{m:g}" for m in costly["m"].unique().sort())
    greedy = best.filter(pl.col("scenario") == "stochastic", pl.col("learner") == "GD")
    still = greedy.filter(pl.col("sigma") == found.rows["sigma"].max())["move_cost"]
    prices = best["move_cost"]
    lines = [
        f"The study has {prices.n_unique()} prices of moving, from {prices.min():.2g} to {prices.max():.2g}. The table shows "
        "where each learner clearly pays less or more above the optimum than GD, and by how much at most. Clearly means that "
        "the difference is larger than its 95 % interval and larger than 0.05 %:",
        "",
        *markdown(compare_by_price(best)),
        f"On the stochastic sequence, at prices of {still.min():.3g} and above, the best sigma is the largest of the grid. The "
        "tuned learners do not move there, and all pay the same. `ensemble_auto` pays more, because it has to find that out.",
        "",
        "On the corrupted sequence the costs turn to the other side for ten rounds at a time. Staying costs 20 / sqrt(5) in "
        "these rounds. Going over and coming back costs 4 / sqrt(5) times the price. Below a price of 5 every such burst is "
        "worth following, and GD follows best. Above 5 it is better to wait until the burst is over. `Decay` does that with a "
        f"memory of {memory} rounds.",
    ]
    return Reading(cells, "move_cost", lines)


def compare_by_price(best: pl.DataFrame) -> list[dict[str, str]]:
    """One row for each scenario and learner: where it is clearly below GD, and where above."""
    rows = []
    ordered = best.filter(pl.col("learner") != "GD").sort(
        "scenario", "move_cost", maintain_order=True
    )
    for (scenario, learner), line in ordered.group_by("scenario", "learner", maintain_order=True):
        clear = line.filter(pl.col("mean").abs() > pl.col("half"))
        wins = clear.filter(pl.col("mean") < -0.05)
        losses = clear.filter(pl.col("mean") > 0.05)
        rows.append(
            {
                "sequence": scenario,
                "learner": learner,
                "pays less than GD at": tell_prices(wins),
                "less by up to": tell_most(wins),
                "pays more than GD at": tell_prices(losses),
                "more by up to": tell_most(losses),
            }
        )
    return rows


def tell_prices(line: pl.DataFrame) -> str:
    """How many prices there are, and between which."""
    if not len(line):
        return "no price"
    weights = line["move_cost"]
    return f"{len(line)} prices, {weights.min():.2g} to {weights.max():.2g}"


def tell_most(line: pl.DataFrame) -> str | None:
    """The largest difference, nothing where there is none."""
    if not len(line):
        return None
    return f"{line['mean'].abs().max():.1f} %"


STUDIES = {"resonance": resonance, "tuned": tuned}


def section(name: str, out: Path, figures: Path) -> list[str]:
    """A study played, drawn and read."""
    study = Study.read(Path("examples") / f"{name}.toml")
    found = sweep(study, out / name)
    cells, x, lines = STUDIES[name](found)
    label = f"{study.metrics[0].replace('_', ' ')}, {MORE}"
    ((_, figure),) = draw_cells(cells, label, x)
    show.write_figure(figure, figures / name)
    (figures / f"{name}.svg").unlink()  # the page shows the other
    best = summarize_cells(cells, 0)
    prices = sorted(set(cells["move_cost"]))[::3]
    shown = [
        row
        for row in best
        if row["learner"] != "GD" and row.get("move_cost", prices[0]) in prices
    ]
    options = "--relative-to GD --held-out"
    return [
        f"### {study.name[0].upper()}{study.name[1:]}", "",
        f"`klazy sweep examples/{name}.toml --out {name} {options}` plays {found.runs} runs. "
        f"`klazy sweep plot {name} --x {x} {options}` draws the figure.", "",
        f"![{label}, over {x.replace('_', ' ')}](figures/{name}.png)", "",
        *lines, "",
        f"The best cell of each learner ({label}{', at some prices' if len(prices) > 1 else ''}):", "",
        *markdown(shown),
    ]  # fmt: skip


def studies(out: Path, page: Path) -> str:
    """All studies, their figures beside the page."""
    figures = page / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    return "\n".join(line for name in STUDIES for line in section(name, out, figures))


if __name__ == "__main__":
    run(__doc__, HEADING, "studies", studies)
