"""The arena as words, figures and one HTML page."""

import platform
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from klazy import show
from klazy.base.html import render
from klazy.show.style import make_svg
from klazy.studies.arena.suite import describe_families
from klazy.studies.arena.table import CONTENT, FLOOR, Arena, Row, shorten_ranking
from klazy.studies.contenders import SELF_TUNING, TUNED

if TYPE_CHECKING:
    from klazy.show import Figure

# Seeds below this one were used to design learners.
DESIGNED = 100


def describe_ranking(found: Arena) -> list[str]:
    """Return what the arena shows, in sentences."""
    rows = found.rank()
    texts = [
        f"{len(found.games)} games, {len(found.contenders)} contenders. Cost above the optimum, geometric means; "
        "the best tuned contender of each game is 1."
    ]
    for row in rows:
        if row["told"] in SELF_TUNING:
            texts.append(
                f"{row['contender']}, which knows only the set and the move cost: {row['best_tuned']:.2f} against the best "
                f"tuned contender ({row['low']:.2f} to {row['high']:.2f}), {row['picked']:.2f} against the one picked on the "
                f"first half, {row['hindsight']:.2f} against the best in hindsight; worse than the best tuned one by more "
                f"than 2 % in {row['worse_by_2_%']:.0%} of the games."
            )
    tuned = next(row for row in rows if row["told"] == TUNED)
    texts.append(
        f"The best single tuned contender is {tuned['contender']}, at {tuned['best_tuned']:.2f}."
    )
    return texts


def warn(found: Arena) -> list[str]:
    """Return what a reader must know before believing a number."""
    texts = []
    if found.quick:
        texts.append("A quick look: few games, and short ones. Cite the whole suite only.")
    if found.only:
        texts.append(
            f"Only these families were played: {', '.join(found.only)}. This is not the suite."
        )
    if found.seed < DESIGNED and not found.quick:
        seeds = f"Seeds below {DESIGNED} were used to design learners"
        texts.append(f"{seeds}; --fresh 1000 draws games that nobody has seen.")
    return texts


LABEL = "cost above the optimum, best tuned contender = 1"


def _draw_ratios(found: Arena) -> "Figure":
    rows = found.rank()
    ratios = {row["contender"]: (row["best_tuned"], row["low"], row["high"]) for row in rows}
    marked = [row["contender"] for row in rows if row["told"] in SELF_TUNING]
    return show.draw_ratios(ratios, LABEL, marked)


def _draw_ranks(found: Arena) -> "Figure":
    return show.draw_ranks(found.by_name(found.average_ranks), found.find_critical_difference())


def _draw_pareto(found: Arena) -> "Figure":
    return show.draw_pareto(*found.average_payments())


def _draw_games(found: Arena) -> "Figure":
    """Draw every game: by family, prices ascending within each."""
    names = [row["contender"] for row in found.rank()]
    entries = [game.entry for game in found.games]
    families = list(dict.fromkeys(entry.family for entry in entries))
    order = sorted(
        range(len(entries)),
        key=lambda at: (families.index(entries[at].family), entries[at].price),
    )
    values = found.ratios[order][:, [found.names.index(name) for name in names]]
    return show.draw_matrix(values, names, [entries[at].family for at in order], LABEL)


# The figures of the page, by name.
ARENA_FIGURES: "dict[str, Callable[[Arena], Figure]]" = {
    "ratios": _draw_ratios,
    "ranks": _draw_ranks,
    "pareto": _draw_pareto,
    "games": _draw_games,
}


def list_tables(found: Arena) -> dict[str, list[Row]]:
    """Return the tables that papers need, by name."""
    return {
        "ranking": found.list_rows(),
        "families": found.group("family"),
        "worse-than-fixed": found.list_worse_than_fixed(),
    }


def make_arena_page(found: Arena, command: str) -> str:
    """Return the arena as a page."""
    worse = found.list_worse_than_fixed()
    return render(
        "arena.html",
        found=found,
        version=found.suite,
        warnings=warn(found),
        answer=describe_ranking(found),
        ranking=shorten_ranking(found.rank()),
        figures={name: make_svg(draw(found), name) for name, draw in ARENA_FIGURES.items()},
        worse=worse,
        worse_counts=list(_count_worse(found, worse)),
        content=CONTENT,
        floor=FLOOR,
        families=list(describe_families([game.entry for game in found.games])),
        missing=[{"not played": name, "why": why} for name, why in found.missing.items()],
        command=command,
        python=platform.python_version(),
    )


def _count_worse(found: Arena, worse: list[Row]) -> Iterator[tuple[str, int, int]]:
    """Yield in how many games a contender that tunes itself is worse than never moving, and where that matters."""
    for contender in found.contenders:
        if contender.kind in SELF_TUNING:
            own = [row for row in worse if row["contender"] == contender.name]
            yield contender.name, len(own), sum(row["to_be_gained_%"] >= CONTENT for row in own)
