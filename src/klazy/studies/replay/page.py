"""A replay as one HTML page, and as the card that a notebook shows."""

from typing import TYPE_CHECKING

from klazy.base.html import load_macros, render
from klazy.show.style import make_svg
from klazy.studies.replay import wording
from klazy.studies.replay.pictures import draw_all, draws_demand, name_reference
from klazy.studies.replay.scoring import CANDIDATES

if TYPE_CHECKING:
    from klazy.studies.replay.report import Report

CARD_ROWS = 5


def make_report(found: "Report", command: str) -> str:
    """Return the report as a page."""
    return render(
        "replay.html",
        found=found,
        answer=wording.answer(found),
        table=wording.write_table(found),
        candidates=CANDIDATES,
        folds=[_tabulate_fold(found, at) for at in range(len(found.folds))],
        figures={name: make_svg(figure, name) for name, figure in draw_all(found)},
        reference=name_reference(found),
        draws_demand=draws_demand(found),
        command=command,
    )


def make_summary(found: "Report") -> str:
    """Return a card with the answer and a short table."""
    parts = load_macros()
    answer = parts.paragraphs(wording.answer(found))
    table = parts.table(wording.write_table(found, CARD_ROWS))
    return parts.card("Report", found.source.title, answer, table)


def _tabulate_fold(found: "Report", at: int) -> dict[str, object]:
    """Return who won a fold, and what it, the winner of the single split and never moving paid."""
    fold = found.folds[at]
    return {
        "fold": at + 1,
        "rows": f"{fold.first + 1} to {fold.last}",
        "best": fold.best.name,
        "its total cost": fold.best.cost,
        found.best.name: fold.find(found.best.name).cost,
        wording.name_fixed(found): fold.find("fixed").cost,
    }
