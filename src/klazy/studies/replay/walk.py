"""Walk-forward folds: the second part in pieces, each scored by contenders tuned on all that came before it."""

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import refusal
from klazy.studies.replay.score import BASELINE, STRETCHES, Progress, Read, score_split
from klazy.studies.replay.setup import Setup
from klazy.studies.replay.source import Source
from klazy.studies.tuning import Score


class Fold(NamedTuple):
    """One fold of a replay: its rows, and what each contender paid there.

    Parameters
    ----------
    first : int
        The first row, counted from 0.
    last : int
        The one after the last.
    scores : list of Score
        What each contender paid, the best first.
    """

    first: int
    last: int
    scores: list[Score]

    @property
    def best(self) -> Score:
        """Who paid least; the baseline does not count."""
        return next(score for score in self.scores if score.kind != BASELINE)

    def find(self, name: str) -> Score:
        """Find the score of one contender.

        Parameters
        ----------
        name : str
            Its name, as in the table.

        Returns
        -------
        Score
            What it paid.
        """
        return next(score for score in self.scores if score.name == name)


def walk_forward(
    source: Source, setup: Setup, first: int, count: int, baseline: Read | None, tell: Progress
) -> list[Fold]:
    """Score ``count`` parts of the rows from ``first`` on."""
    edges = np.linspace(first, source.T, count + 1).astype(int).tolist()
    if count < 2 or min(np.diff(edges)) < STRETCHES:
        wanted = f"2 folds or more of {STRETCHES} rows each"
        raise refusal("replay", wanted, "folds", count, f"there are {source.T - first} rows to cut")
    folds = []
    for at, (start, stop) in enumerate(pairwise(edges)):

        def tell_more(share: float, at: int = at) -> object:
            return tell((at + share) / count)

        folds.append(Fold(start, stop, score_split(source, setup, start, stop, baseline, tell_more)))
    return folds


def tell_folds(folds: list[Fold], winner: str, fixed: str) -> str:
    """Say whether the winner of the single split wins in every fold; ``fixed`` is what to call playing one decision."""
    wins = Counter(fold.best.name for fold in folds)
    if list(wins) == [winner]:
        return f"{winner} also wins all {len(folds)} folds, each tuned on the rows before it."
    beaten = sum(fold.find(winner).cost < fold.find("fixed").cost for fold in folds)
    names = ", ".join(f"{name} in {count}" for name, count in wins.most_common())
    said = f"The winner differs between folds: {names} of {len(folds)}."
    if winner == "fixed":
        return said
    return f"{said} {winner}, the winner of the single split, paid less than {fixed} in {beaten} of {len(folds)}."


def tabulate_folds(folds: list[Fold]) -> list[dict[str, Any]]:
    """A row per fold and contender."""
    rows = []
    for at, fold in enumerate(folds, 1):
        for score in fold.scores:
            about = {"fold": at, "first_row": fold.first + 1, "last_row": fold.last}
            paid = {"contender": score.name, "cost": score.cost, "parameters": score.parameters}
            rows.append(about | paid)
    return rows
