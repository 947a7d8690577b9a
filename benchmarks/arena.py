"""What auto reaches in the arena, on seeds that nothing was designed on, for docs/arena.md: python benchmarks/arena.py."""

from functools import cache
from pathlib import Path

import numpy as np

import klazy as kl
from klazy.studies.arena import Entry, play_suite
from klazy.studies.arena.suite import find_missing_data, list_games
from klazy.studies.arena.table import CONTENT, Arena
from klazy.studies.contenders import FIXED
from pages import markdown, run

HEADING = "## What auto reaches"
SEED = 5000
# Rounds after a start from nothing, and by which share of their spread auto may pay more there than never moving.
START = 200
START_MORE = 0.05
NAME = "auto"
SHOWN_DEMAND = ("auto", "rolling quantile", "rolling maximum", "dead band", "Decay")
SHOWN = ("auto", "ensemble_auto", "dead band", "Decay", "GD")  # of the tables by family and price
# The version of the suite that the aims are for, but for the last one.
AIMED = "1"
# Families in which nobody can be far below the best tuned contender: nothing lasts, or what lasts is small.
HARD = ("wealth", "phases", "i.i.d.")
DEAREST = "30"
# A figure of auto, and the most that it should be.
AIMS = {
    "against the best contender tuned on the first half": 0.87,
    "against the one that you would have picked on the first half": 0.81,
    "share of games more than 2 % above the best tuned one": 0.18,
    f"worst family but {', '.join(HARD)}": 1.03,
    "worst of these three": 1.10,
    f"at a price of {DEAREST}": 1.10,
    "games of demand": 1.00,
}
# Nothing should cost more than this many times what the best tuned contender pays.
FAR = 3.0

EXPLAINED = """\
Why it loses there: `auto` has seen the same first half, and goes on to move in the second, on evidence that does not
last. At high prices a move costs as much as dozens of rounds can differ, and the change it was made for has often ended
before the move has paid for itself. In *i.i.d.* games nothing lasting ever changes. Where the last column is negative,
`auto` stood at a point that had only seemed better. If you know that your costs have one best point for good, or that one
move costs more than a phase can earn, hold the best point of your past costs (`Fixed`)."""

FAR_EXPLAINED = """\
At such prices one move costs about as much as there is to be gained in all scored rounds. So whoever moves once too often,
or stands at another point when the second half begins, pays several times the least. In most of these games never moving
is nearly the best, and `auto` stays near the optimum, too, as shares of the spread show."""


def judge(found: Arena) -> list[str]:
    """Each aim next to what was reached, by the contenders of the first version of the suite and of this one."""
    first = measure(found.restrict(suite=AIMED))
    newest = measure(found)
    rows = []
    for name, most in AIMS.items():
        # The rolling rules, which are best for demand, came later.
        value, _ = (newest if name == "games of demand" else first)[name]
        verdict = "reached" if value <= most else f"missed by {value - most:.3f}"
        rows.append(
            {
                "figure": name,
                f"suite {AIMED}": write_value(first[name]),
                f"suite {found.suite}": write_value(newest[name]),
                "aim at most": f"{most:.2f}",
                "": verdict,
            }
        )
    return markdown(rows)


def measure(found: Arena) -> dict[str, tuple[float, str]]:
    """The figures that have aims, each with the group of games in which it was found."""
    row = next(row for row in found.rank() if row["contender"] == NAME)
    families = {group["family"]: group[NAME] for group in found.group("family")}
    hard = [name for name in HARD if name in families]
    hardest = max(hard, key=lambda name: families[name])
    worst = max(set(families) - set(hard), key=lambda name: families[name])
    dearest = next(group[NAME] for group in found.group("price") if group["price"] == DEAREST)
    demands = choose_demands(found)
    values = (
        (row["best_tuned"], ""),
        (row["picked"], ""),
        (row["worse_by_2_%"], ""),
        (families[worst], worst),
        (families[hardest], hardest),
        (dearest, ""),
        (next(each["best_tuned"] for each in demands.rank() if each["contender"] == NAME), ""),
    )
    return dict(zip(AIMS, values, strict=True))


def write_value(value: tuple[float, str]) -> str:
    """A figure as text, with its group if it has one."""
    figure, where = value
    return f"{figure:.3f} ({where})" if where else f"{figure:.3f}"


@cache
def has_demands(family: str, place: str) -> bool:
    """Whether the rows of these games are demands."""
    return isinstance(Entry(family, place, 1.0, 0, 100).make().costs, kl.PinballCosts)


def choose_demands(found: Arena) -> Arena:
    """The games whose rows are demands."""
    entries = [game.entry for game in found.games]
    return found.restrict([entry for entry in entries if has_demands(entry.family, entry.place)])


def list_far(found: Arena) -> list[str]:
    """The games in which auto pays many times what the best tuned contender pays."""
    auto = found.names.index(NAME)
    fixed = found.names.index(FIXED)
    rows = []
    for game, above, ratios in zip(found.games, found.above, found.ratios, strict=True):
        ratio = ratios[auto]
        if ratio > FAR:
            share = 100.0 * above[auto] / game.scale
            still = 100.0 * above[fixed] / game.scale
            rows.append(
                {
                    "game": game.entry.name,
                    "times": f"{ratio:.3g}",
                    "auto above the optimum": f"{share:.2f} %",
                    "best tuned": f"{share / ratio:.2f} %",
                    "never moving": f"{still:.2f} %",
                }
            )
    if not rows:
        return [
            f"In no game does `auto` pay over {FAR:g} times what the best tuned contender pays.",
            "",
        ]
    return [
        f"Games in which `auto` pays over {FAR:g} times what the best tuned contender pays. Shares are of the spread:",
        "",
        *markdown(rows),
        FAR_EXPLAINED,
        "",
    ]


def rank_demands(found: Arena) -> list[str]:
    """The contenders that anybody would use for demand, by sequence."""
    demands = choose_demands(found)
    rows = []
    for place in dict.fromkeys((game.entry.family, game.entry.place) for game in demands.games):
        own = demands.restrict([game.entry for game in demands.games if game.entry[:2] == place])
        ratios = {row["contender"]: row for row in own.rank()}
        shown = {"demand": ", ".join(place), "games": str(len(own.games))}
        shown |= {
            name: f"{ratios[name]['best_tuned']:.2f}" for name in SHOWN_DEMAND if name in ratios
        }
        rows.append(shown | {"auto lost by 2 %": f"{ratios[NAME]['worse_by_2_%']:.0%}"})
    return markdown(rows)


def rank(found: Arena) -> list[str]:
    rows = []
    for row in found.rank():
        micros = row["us_per_round"]
        rows.append(
            {
                "contender": row["contender"],
                "told": row["told"],
                "best tuned = 1": f"{row['best_tuned']:.3f}",
                "95 % interval": f"{row['low']:.2f} to {row['high']:.2f}",
                "picked = 1": f"{row['picked']:.3f}",
                "hindsight = 1": f"{row['hindsight']:.3f}",
                "lost by 2 %": f"{row['worse_by_2_%']:.0%}",
                "rank": f"{row['rank']:.2f}",
                "worst game": f"{row['worst_ratio']:.3g}, {row['worst_game']}",
                "us a round": None if micros is None else f"{micros:.2f}",
            }
        )
    return markdown(rows)


def group(found: Arena, key: str) -> list[str]:
    rows = []
    for row in found.group(key):
        shown = {key: row[key], "games": str(row["games"])}
        rows.append(shown | {name: f"{row[name]:.2f}" for name in SHOWN if name in row})
    return markdown(rows)


def list_worse(found: Arena) -> list[str]:
    """The games with content in which auto pays over 5 % more above the optimum than never moving."""
    rows = []
    for row in found.list_worse_than_fixed():
        if row["contender"] == NAME and row["to_be_gained_%"] > CONTENT:
            times = f"{row['against_never_moving']:.2f}"
            rows.append(
                {
                    "game": row["game"],
                    "times": times,
                    "to be gained": f"{row['to_be_gained_%']:.1f} %",
                    "paid for moving": f"{row['paid_for_moving_%']:.1f} %",
                    "gained by moving": f"{row['gained_by_moving_%']:.1f} %",
                }
            )
    if not rows:
        return [
            "There is no game with content in which `auto` pays over 5 % more above the optimum than never moving.",
            "",
        ]
    words = (
        "Games in which `auto` pays over 5 % more above the optimum than the point that was best for the first half, held for "
        f"good, and in which that point leaves over {CONTENT:g} % of the spread to be gained. Shares are of the spread:"
    )
    return [words, "", *markdown(rows), EXPLAINED, ""]


def measure_start(seed: int) -> list[str]:
    """What auto pays in the first rounds of every game more than never moving from its start, as a share of their spread."""
    rows: dict[float, list[float]] = {}
    entries = list_games(seed)
    missing = find_missing_data(entries)
    for entry in entries:
        if entry.family in missing:
            continue
        game = entry.make()
        costs = game.costs.window(1, START)
        learner = kl.auto(game.domain, game.movement, game.costs)
        moving = kl.run(learner, costs, movement=game.movement, record="totals").totals.cost
        staying = float(costs.values(np.tile(learner.init().x, (START, 1))).sum())
        rows.setdefault(entry.price, []).append((moving - staying) / (START * game.spread))
    shown = []
    for price, more in [*rows.items(), ("all", [one for each in rows.values() for one in each])]:
        shares = np.array(more)
        shown.append(
            {
                "price": f"{price}",
                "games": str(len(shares)),
                "auto pays more than never moving, mean": f"{100.0 * shares.mean():.1f} %",
                "games in which it pays over 5 % more": f"{100.0 * (shares > START_MORE).mean():.1f} %",
                "worst": f"{100.0 * shares.max():.1f} %",
            }
        )
    words = (
        f"The first {START} rounds after a start from nothing, next to never moving from the set's start. Shares are of the "
        "spread; below zero `auto` pays less:"
    )
    return [words, "", *markdown(shown)]


def make(out: Path, page: Path) -> str:
    found = play_suite(seed=SEED, out=out)
    return "\n".join([*describe(found), *measure_start(SEED)])


def describe(found: Arena) -> list[str]:
    seeds = f"seeds {found.seed} and {found.seed + 1}"
    first = f"`make arena-page` plays `klazy arena --fresh {SEED}` and writes this: {len(found.games)} games, {seeds}."
    if found.missing:
        first += f" Not played: {', '.join(found.missing)}."
    return [
        first,
        "",
        *judge(found),
        *list_far(found),
        *rank(found),
        "By family, times the best tuned contender:",
        "",
        *group(found, "family"),
        "By price:",
        "",
        *group(found, "price"),
        "Games of demand, times the best tuned contender:",
        "",
        *rank_demands(found),
        *list_worse(found),
    ]


if __name__ == "__main__":
    run(__doc__, HEADING, "arena", make)
