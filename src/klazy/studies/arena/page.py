"""The arena as words, figures and one HTML page."""

import platform
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from klazy import show
from klazy.base.html import embed_figure, make_page, make_paragraph, make_table
from klazy.studies.arena.contenders import OWN, SELF_TUNED, TUNED
from klazy.studies.arena.suite import VERSION, describe_families
from klazy.studies.arena.table import CONTENT, FLOOR, Arena, Row, shorten

if TYPE_CHECKING:
    from klazy.show import Figure

MOST = 60  # games that are named
DESIGNED = 100  # seeds below this one were used to design learners
LICENCE = (
    "The synthetic games and this page's protocol are part of klazy, under the MIT licence. The data keep their own licences, "
    "which klazy.datasets.SOURCES names: flights CC0, cache and prompts CC BY 4.0, stocks as skfolio gives them."
)
CITATION = (
    f"Cite klazy and the suite's version, as in: klazy arena, suite {VERSION}. CITATION.cff has the reference. "
    "Numbers of different versions of the suite are not comparable."
)
PROTOCOL = (
    "Everyone plays all rounds of a game online: a decision depends only on the rounds before it. The first half tunes "
    "parameters, each contender's from as many candidates as klazy replay gives it: a grid, then as many again around the "
    "best. Only the second half is scored, from where the first half ended.",
    "A score is the cost above the certified optimum of the second half, which may begin anywhere at no cost, so that nobody "
    f"can be below it. To every score {100 * FLOOR:g} % of the spread is added (the difference of a round's cost across "
    "the set, times the rounds): below that, ratios mean nothing.",
    "best tuned = 1: against the tuned contender that is best in that very game. picked = 1: against the tuned contender that "
    "was best on the first half, which a user would have picked. hindsight = 1: against the best candidate of all, chosen on "
    "the rounds that are scored; nobody could have known it. Ratios are averaged geometrically over games. Intervals are from "
    "a bootstrap that draws whole sequences, since games that differ in price alone are alike.",
    "A price of 1 means that to cross the whole set costs as much as a round's cost differs across it. No game is left out "
    "because of what it shows; what could not be played is named below. The seeds below 100 were used to design learners: only "
    "larger ones, as by --fresh 1000, say what to expect.",
)


def answer(found: Arena) -> list[str]:
    """What the arena says, in sentences."""
    rows = found.rank()
    said = [
        f"{len(found.games)} games, {len(found.contenders)} contenders. Cost above the optimum, geometric means; "
        "the best tuned contender of each game is 1."
    ]
    for row in rows:
        if row["told"] in (SELF_TUNED, OWN):
            said.append(
                f"{row['contender']}, which knows only the set and the move cost: {row['best_tuned']:.2f} against the best "
                f"tuned contender ({row['low']:.2f} to {row['high']:.2f}), {row['picked']:.2f} against the one picked on the "
                f"first half, {row['hindsight']:.2f} against the best in hindsight; worse than the best tuned one by more "
                f"than 2 % in {row['worse_by_2_%']:.0%} of the games."
            )
    tuned = next(row for row in rows if row["told"] == TUNED)
    said.append(f"The best single tuned contender is {tuned['contender']}, at {tuned['best_tuned']:.2f}.")
    return said


def warn(found: Arena) -> list[str]:
    """What a reader must know before believing a number."""
    said = []
    if found.quick:
        said.append("A quick look: few games, and short ones. Cite the whole suite only.")
    if found.only:
        said.append(f"Only these families were played: {', '.join(found.only)}. This is not the suite.")
    if found.seed < DESIGNED and not found.quick:
        said.append(
            f"Seeds below {DESIGNED} were used to design learners; --fresh 1000 draws games that nobody has seen."
        )
    return said


def draw_figures(found: Arena) -> "Iterator[tuple[str, Figure, str]]":
    """Each with a name and a caption."""
    rows = found.rank()
    ratios = {row["contender"]: (row["best_tuned"], row["low"], row["high"]) for row in rows}
    marked = [row["contender"] for row in rows if row["told"] in (SELF_TUNED, OWN)]
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


def make_report(found: Arena, command: str) -> str:
    """The whole page."""
    parts = [f"<h1>The arena, suite {escape(VERSION)}</h1>"]
    parts += [make_paragraph(said, "warn") for said in warn(found)]
    first, *others = answer(found)
    parts += [make_paragraph(first), *(make_paragraph(said, "answer") for said in others)]
    parts += ["<h2>Ranking</h2>", make_table(shorten(found.rank()))]
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, figure, caption in draw_figures(found):
            show.write_figure(figure, Path(folder) / name)
            figures[name] = embed_figure(Path(folder) / f"{name}.svg", caption, broad=True)
    parts += [figures["ratios"], figures["ranks"]]
    parts += ["<h2>By family</h2>", make_table(_round(found.group("family")))]
    parts += ["<h2>By price</h2>", make_table(_round(found.group("price")))]
    parts += ["<h2>Deciding and moving</h2>", figures["pareto"]]
    parts += ["<h2>Every game</h2>", figures["games"]]
    parts += ["<h2>Worse than never moving</h2>", *_write_worse(found)]
    parts += ["<h2>Protocol</h2>", *map(make_paragraph, PROTOCOL)]
    parts += ["<h2>Games</h2>", make_table(list(describe_families([game.entry for game in found.games])))]
    gap = max(game.best.gap for game in found.games)
    parts.append(
        make_paragraph(
            f"The largest certified gap of an optimum is {gap:.1g}, as klazy.types.Optimum defines it."
        )
    )
    if found.missing:
        rows = [{"not played": name, "why": why} for name, why in found.missing.items()]
        parts += ["<h2>Not played</h2>", make_table(rows)]
    parts += ["<h2>Licence and citation</h2>", make_paragraph(LICENCE), make_paragraph(CITATION)]
    parts.append(make_paragraph(f"Made by {command} with Python {platform.python_version()}.", "small"))
    return make_page(f"klazy arena, suite {VERSION}", "\n".join(parts))


def _round(rows: list[Row]) -> list[Row]:
    return [
        {key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]


def _write_worse(found: Arena) -> Iterator[str]:
    rows = found.list_worse_than_fixed()
    for contender in found.contenders:
        if contender.kind not in (SELF_TUNED, OWN):
            continue
        own = [row for row in rows if row["contender"] == contender.name]
        full = sum(row["to_be_gained_%"] >= CONTENT for row in own)
        yield make_paragraph(
            f"{contender.name} pays over 5 % more above the optimum than the point that was best on the first half in "
            f"{len(own)} games. In {full} of them there was something to be gained: at least {CONTENT:g} % of the spread."
        )
    if rows:
        yield make_table(_round(rows[:MOST]))
    if len(rows) > MOST:
        yield make_paragraph(f"The {MOST} worst of {len(rows)}; --json has all.", "small")
