"""The arena as words, figures and one HTML page."""

import platform
from collections.abc import Iterator
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
    texts.append(f"The best single tuned contender is {tuned['contender']}, at {tuned['best_tuned']:.2f}.")
    return texts


def warn(found: Arena) -> list[str]:
    """Return what a reader must know before believing a number."""
    texts = []
    if found.quick:
        texts.append("A quick look: few games, and short ones. Cite the whole suite only.")
    if found.only:
        texts.append(f"Only these families were played: {', '.join(found.only)}. This is not the suite.")
    if found.seed < DESIGNED and not found.quick:
        texts.append(
            f"Seeds below {DESIGNED} were used to design learners; --fresh 1000 draws games that nobody has seen."
        )
    return texts


def draw_figures(found: Arena) -> "Iterator[tuple[str, Figure, str]]":
    """Yield every figure with its name and its caption."""
    rows = found.rank()
    ratios = {row["contender"]: (row["best_tuned"], row["low"], row["high"]) for row in rows}
    marked = [row["contender"] for row in rows if row["told"] in SELF_TUNING]
    label = "cost above the optimum, best tuned contender = 1"
    caption = "Geometric means over all games with 95 % intervals. In red: contenders that know only the set and the move cost."
    yield "ratios", show.draw_ratios(ratios, label, marked), caption
    ranks = dict(zip(found.names, found.average_ranks.tolist(), strict=True))
    caption = (
        "Average ranks, 1 is best. A bar joins contenders whose ranks differ by less than Nemenyi's critical difference (5 %, "
        f"{int(found.sequences[-1]) + 1} sequences). Friedman's test: p = {found.test_ranks():.1g}."
    )
    yield "ranks", show.draw_ranks(ranks, found.find_critical_difference()), caption
    switching, hitting, optimum = found.average_payments()
    caption = "What each pays for moving, and for its decisions above the optimum's, in shares of the spread; averages."
    yield "pareto", show.draw_pareto(switching, hitting, optimum), caption
    order = sorted(range(len(found.games)), key=lambda at: _sort_key(found, at))
    columns = [row["contender"] for row in rows]
    values = found.ratios[order][:, [found.names.index(name) for name in columns]]
    families = [found.games[at].entry.family for at in order]
    caption = "Every game, by family, prices ascending within each: blue is better than the best tuned contender, red is worse."
    yield "games", show.draw_matrix(values, columns, families, label), caption


def _sort_key(found: Arena, at: int) -> tuple[int, float]:
    entry = found.games[at].entry
    families = list(dict.fromkeys(game.entry.family for game in found.games))
    return families.index(entry.family), entry.price


def make_arena_page(found: Arena, command: str) -> str:
    """Return the arena as a page."""
    worse = found.list_worse_than_fixed()
    return render(
        "arena.html",
        version=found.suite,
        warnings=warn(found),
        answer=describe_ranking(found),
        ranking=shorten_ranking(found.rank()),
        figures={name: (make_svg(figure, name), caption) for name, figure, caption in draw_figures(found)},
        by_family=found.group("family"),
        by_price=found.group("price"),
        worse=worse,
        worse_counts=list(_count_worse(found, worse)),
        content=CONTENT,
        floor=FLOOR,
        families=list(describe_families([game.entry for game in found.games])),
        gap=max(game.best.gap for game in found.games),
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
