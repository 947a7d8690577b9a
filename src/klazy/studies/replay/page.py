"""A replay as figures and as one HTML page."""

import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from klazy import show
from klazy.base.html import embed_figure, make_page, make_paragraph, make_table
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.replay.contenders import CANDIDATES
from klazy.studies.replay.score import Replay
from klazy.studies.replay.words import answer, tabulate

SHOWN = 120  # letters of a set's description

if TYPE_CHECKING:
    from klazy.show import Figure


def draw_figures(found: Replay) -> "Iterator[tuple[str, Figure, str]]":
    """Each with a name and a caption."""
    switching = {score.name: score.switching for score in found.scores}
    hitting = {score.name: score.hitting for score in found.scores}
    caption = "What each contender paid on the second part, for its decisions and for moving. Left and below is better."
    best = found.optimum
    optimum = None if best is None else (best.cost - best.hitting, best.hitting)
    yield "pareto", show.draw_pareto(switching, hitting, optimum), caption
    first, second = found.rounds
    shown = (found.scores[0], found.best("lazy"), found.best("greedy"))
    points = {score.name: score.points for score in shown}
    count = len(found.scores[0].points)
    every = -(-second // count)
    rounds = first + 1 + np.arange(count) * every
    shares = isinstance(found.setup.domain, Simplex | CappedSimplex)
    figure = show.draw_decisions(rounds, points, found.source.columns, shares)
    yield "decisions", figure, "What was decided in the second part."


def make_report(found: Replay, command: str) -> str:
    """The whole report."""
    parts = [f"<h1>What laziness would have saved on {escape(found.source.path.name)}</h1>"]
    said, *others = answer(found)[1:]
    parts += [make_paragraph(said, "answer"), *map(make_paragraph, others), "<h2>Contenders</h2>"]
    about = (
        f"{answer(found)[0]} Each contender that has parameters chose among {CANDIDATES} candidates, or as many as differ; "
        "edge names those of its parameters that are the least or the largest tried. SAder-k is told the number of rounds and "
        f"the largest gradient, auto the price of moving. The set is {_shorten(found.setup.domain)}, a row costs "
        f"{found.setup.family}, moving {_shorten(found.setup.movement)}."
    )
    if found.source.filled:
        what = f"missing cells were filled ({found.source.fill})"
        if found.source.fill == "drop":
            what = "rows were dropped"
        about += f" {found.source.filled} {what}."
    parts += [make_table(tabulate(found)), make_paragraph(about, "small"), "<h2>Pictures</h2>"]
    with tempfile.TemporaryDirectory() as folder:
        for name, figure, caption in draw_figures(found):
            show.write_figure(figure, Path(folder) / name)
            parts.append(embed_figure(Path(folder) / f"{name}.svg", caption, broad=True))
    parts.append(make_paragraph(f"Made by {command}.", "small"))
    return make_page(f"klazy: {found.source.path.name}", "\n".join(parts))


def _shorten(thing: object) -> str:
    text = repr(thing)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
