"""How far the limit is, for docs/ensembles.md: python benchmarks/bayes.py."""

from pathlib import Path

import numpy as np

from klazy.studies.arena import Arena
from klazy.studies.bayes import measure_limit
from pages import markdown, run

HEADING = "## How far the limit is"
INTRODUCTION = """\
Nobody can be at the optimum, which knows all costs beforehand. How near can one come? In some games of
[the arena](arena.md) the answer is known. In the box games of i.i.d., random walk and AR(1) every coordinate is a normal
mean under normal noise, with an l1 price. For these, `klazy.studies.bayes` computes the best play of somebody who knows
how the games are drawn, though not what is drawn: a Kalman filter, and an exact dynamic program over its forecasts. No
learner pays less *on average* over such games."""
TABLES = """\
`make studies` plays {games} of them. The tables have costs above the optimum on the second half, times the best tuned
contender's. *Picked* is the contender that was best on the first half."""
CAVEAT = """\
The best tuned contender is the least of many on the very rounds that are scored. Where luck decides, as in i.i.d. games at
a high price, that is below what anybody can expect, and Bayes is above 1 too."""
SHOWN = ("Bayes", "auto", "ensemble_auto", "dead band", "Decay")


def average(ratios: np.ndarray) -> str:
    """The geometric mean."""
    return f"{np.exp(np.log(ratios).mean()):.2f}"


def compare(found: Arena, key: str) -> list[str]:
    """What contenders pay above the optimum, times the best tuned one, by groups of games and over all."""
    values = np.array([getattr(game.entry, key) for game in found.games])
    groups = {f"{value}": values == value for value in dict.fromkeys(values.tolist())}
    rows = []
    for name, chosen in [*groups.items(), ("all", values == values)]:
        row = {key: name, "games": str(chosen.sum())}
        row |= {each: average(found.ratios[chosen, found.names.index(each)]) for each in SHOWN}
        rows.append(row | {"picked": average((found.picked / found.best_tuned)[chosen])})
    return markdown(rows)


def measure_pairs(found: Arena) -> str:
    """A sentence on what auto pays more than Bayes, game by game."""
    bayes, auto = (found.ratios[:, found.names.index(name)] for name in ("Bayes", "auto"))
    logs = np.log(auto / bayes)
    low, high = found.bootstrap(logs)
    return (
        f"Game by game `auto` pays {np.exp(logs.mean()):.3f} times what Bayes pays above the optimum ({low:.2f} to "
        f"{high:.2f}), and in {(logs < 0.0).mean():.0%} of the games less than Bayes, by luck."
    )


def make(out: Path, page: Path) -> str:
    found = measure_limit()
    lines = [INTRODUCTION, "", TABLES.format(games=len(found.games)), ""]
    lines += [
        *compare(found, "price"),
        *compare(found, "family"),
        measure_pairs(found),
        "",
        CAVEAT,
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    run(__doc__, HEADING, "bayes", make)
