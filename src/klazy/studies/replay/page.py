"""A replay as one HTML page, and as the card that a notebook shows."""

import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from klazy import show
from klazy.base.html import embed_figure, make_card, make_page, make_paragraph, make_table
from klazy.studies.replay import words
from klazy.studies.replay.contenders import CANDIDATES
from klazy.studies.replay.pictures import draw_all

if TYPE_CHECKING:
    from klazy.studies.replay.report import Report

SHOWN = 120  # letters of a set's description
FEW = 5  # contenders on a card


def make_report(found: "Report", command: str) -> str:
    """The whole report."""
    parts = [f"<h1>What you would have saved on {escape(found.source.title)}</h1>"]
    said, *others = words.answer(found)
    parts += [make_paragraph(said, "answer"), *map(make_paragraph, others), "<h2>Contenders</h2>"]
    parts += [make_table(words.write_table(found)), make_paragraph(_tell_setting(found), "small")]
    if found.folds:
        parts += ["<h2>Folds</h2>", make_table(_tabulate_folds(found))]
    parts.append("<h2>Pictures</h2>")
    with tempfile.TemporaryDirectory() as folder:
        for name, figure, caption in draw_all(found):
            show.write_figure(figure, Path(folder) / name, png=False)
            parts.append(embed_figure(Path(folder) / f"{name}.svg", caption, broad=True))
    parts.append(make_paragraph(f"Made by {command}.", "small"))
    return make_page(f"klazy: {found.source.title}", "\n".join(parts))


def make_summary(found: "Report") -> str:
    """A card: the answer and a short table."""
    said = words.answer(found)
    table = make_table(words.write_table(found, FEW))
    return make_card("Report", escape(found.source.title), *map(make_paragraph, said), table)


def _tell_setting(found: "Report") -> str:
    first, second = found.rounds
    return (
        f"The last {second} of {first + second} rows are scored; everyone was tuned on the {found.tuned} rows before them. "
        f"Each contender with parameters chose among {CANDIDATES} candidates, or as many as differ. The column edge names "
        "parameters whose chosen value is the smallest or largest tried. SAder-k knows the number of rounds and the largest "
        f"gradient, auto the move cost. The set is {_shorten(found.setup.domain)}, a row costs "
        f"{_shorten(found.setup.family)}, moving costs {_shorten(found.setup.movement)}. A round pays for its decision and "
        "for the move after it. Intervals are 95 %, from twenty blocks of the scored rows."
    )


def _tabulate_folds(found: "Report") -> list[dict[str, object]]:
    """A row per fold: who won, and what it, the winner of the single split and never moving paid."""
    rows = []
    for at, fold in enumerate(found.folds, 1):
        rows.append(
            {
                "fold": str(at),
                "rows": f"{fold.first + 1} to {fold.last}",
                "best": fold.best.name,
                "its cost": fold.best.cost,
                found.best.name: fold.find(found.best.name).cost,
                words.name_fixed(found): fold.find("fixed").cost,
            }
        )
    return rows


def _shorten(thing: object) -> str:
    text = repr(thing)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
