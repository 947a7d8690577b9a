"""The two studies of examples/, their figures and what they say, for docs/sweeps.md: python benchmarks/studies.py."""

from pathlib import Path

import polars as pl

from klazy import show
from klazy.studies.sweep import Study, Sweep, sweep
from klazy.studies.sweep.drawing import draw_cells
from klazy.studies.sweep.table import choose_best, summarize
from pages import markdown, run

HEADING = "## Two studies"
MORE = "% more than GD's"


def percent(cell: dict) -> str:
    """Mean and interval, and less than nothing where it is."""
    return f"{abs(cell['mean']):.1f} % {'less' if cell['mean'] < 0.0 else 'more'} (+- {cell['half']:.1f})"


def resonance(found: Sweep) -> tuple[pl.DataFrame, str, str]:
    """The cells, what goes across the figure, and what they say."""
    cells = found.cells(relative_to="GD", held_out=True)
    rows = choose_best(cells, ("length", "random_phases", "learner")).to_dicts()
    best = {(row["length"], row["random_phases"], row["learner"]): row for row in rows}
    lengths = sorted({length for length, _, _ in best})
    if any(best[n, False, "KLazyGD"]["k"] != n for n in lengths):
        raise SystemExit("The best slack is no longer the length of the phases: the words below must change.")
    equal = [
        f"{best[n, False, 'KLazyGD']['k']} for phases of {n}, {percent(best[n, False, 'KLazyGD'])} than GD"
        for n in lengths
    ]
    random = [
        f"{best[n, True, 'KLazyGD']['k']} for {n}, {percent(best[n, True, 'KLazyGD'])}" for n in lengths
    ]
    decay = [f"{percent(best[n, True, 'Decay'])} for {n}" for n in lengths]
    moved = [as_long_as_phases(cells, n) for n in lengths]
    said = (
        f"Where phases are equally long, the best slack is {'; '.join(equal)}. It is the length of the phase itself: the clock "
        "forgets just when there is something new to learn; at half that length it does so every other time. Draw the lengths "
        f"at random, from half to one and a half times as long, and the best slack is {'; '.join(random)}; the slack that was "
        f"best before is then {'; '.join(moved)} than GD. Decay, which forgets without a clock, has on random phases "
        f"{'; '.join(decay)}. So most of what a slack wins on equal phases is resonance, on which nobody can count who does "
        "not know when costs change; a few per cent are laziness."
    )
    return cells, "k", said


def as_long_as_phases(cells: pl.DataFrame, length: int) -> str:
    """What the slack that is as long as the phases has on random phases, at the sigma that suits it there."""
    there = cells.filter(pl.col("length") == length, pl.col("random_phases"), pl.col("k") == length)
    best = choose_best(there, ()).row(0, named=True)
    still = best["sigma"] == cells["sigma"].max()
    return percent(best) + (" (standing nearly still, at the largest sigma)" if still else "")


def tuned(found: Sweep) -> tuple[pl.DataFrame, str, str]:
    cells = found.cells(relative_to="GD", held_out=True)
    best = choose_best(cells, ("scenario", "movement_weight", "learner"))
    said = []
    for (scenario,), group in best.group_by("scenario", maintain_order=True):
        parts = []
        for (learner,), line in group.sort("movement_weight").group_by("learner", maintain_order=True):
            if learner == "GD":
                continue
            clear = line.filter(pl.col("mean").abs() > pl.col("half"))
            wins, losses = clear.filter(pl.col("mean") < -0.05), clear.filter(pl.col("mean") > 0.05)
            parts.append(f"{learner} {span(wins, 'wins', len(line))}, {span(losses, 'loses', len(line))}")
        said.append(f"On the {scenario} sequence, against GD: " + "; ".join(parts) + ".")
    greedy = best.filter(pl.col("scenario") == "stochastic", pl.col("learner") == "GD")
    still = greedy.filter(pl.col("sigma") == found.rows["sigma"].max())["movement_weight"]
    costly = best.filter(
        pl.col("scenario") == "corrupted", pl.col("learner") == "Decay", pl.col("movement_weight") > 5.0
    )
    cheap = best.filter(
        pl.col("scenario") == "corrupted", pl.col("learner") != "GD", pl.col("movement_weight") < 5.0
    )
    if (costly["mean"] > 0.0).any() or (cheap["mean"] < 0.0).any():
        raise SystemExit("It is no longer lambda = 5 that parts the winners: the words below must change.")
    memory = ", ".join(f"{m:g}" for m in costly["m"].unique().sort())
    said.append(
        f"From lambda = {still.min():.3g} on the best sigma on the stochastic sequence is the largest there is: who is tuned "
        "does not move, and all pay the same but ensemble_auto, which has to find that "
        "out. On the corrupted sequence ten rounds on the "
        "wrong side cost 20 / sqrt(5), and to go over and come back lambda 4 / sqrt(5): below lambda = 5 every stretch is "
        "worth following, which greedy descent does best, and above it is worth sitting out, which Decay does with a "
        f"memory of {memory} rounds."
    )
    return cells, "movement_weight", " ".join(said)


def span(line: pl.DataFrame, verb: str, prices: int) -> str:
    """At which prices a learner wins or loses, and how much at most."""
    if not len(line):
        return f"{verb} nowhere"
    weights = line["movement_weight"]
    most = line.sort(pl.col("mean").abs())["mean"][-1]
    span = f"from {weights.min():.2g} to {weights.max():.2g}"
    return f"{verb} at {len(line)} of {prices} prices, {span}, by up to {abs(most):.1f} %"


STUDIES = {"resonance": resonance, "tuned": tuned}


def section(name: str, out: Path, figures: Path) -> list[str]:
    """A study played, drawn and read."""
    study = Study.read(Path("examples") / f"{name}.toml")
    found = sweep(study, out / name)
    cells, x, said = STUDIES[name](found)
    label = f"{study.metrics[0].replace('_', ' ')}, {MORE}"
    ((_, figure),) = draw_cells(cells, label, x)
    show.write_figure(figure, figures / name)
    (figures / f"{name}.svg").unlink()  # the page shows the other
    best = summarize(cells, 0)
    prices = sorted(set(cells["movement_weight"]))[::3]
    shown = [
        row for row in best if row["learner"] != "GD" and row.get("movement_weight", prices[0]) in prices
    ]
    return [
        f"### {study.name[0].upper()}{study.name[1:]}", "",
        f"`klazy sweep examples/{name}.toml --out {name} --relative-to GD --held-out`, "
        f"`klazy sweep plot {name} --x {x} --relative-to GD --held-out`: {found.runs} runs.", "",
        f"![{label}, over {x.replace('_', ' ')}](figures/{name}.png)", "",
        said, "",
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
