"""The arena: every learner and rule, and yours, over one fixed suite of games with certified optima.

Learners go into :func:`compare`, and an :class:`Arena` with the costs of everyone comes out. suite.py has the games,
contenders.py the contenders, play.py plays and stores, table.py ranks, page.py writes the page. Open play.py first.
"""

from klazy.studies.arena.play import compare, play_suite
from klazy.studies.arena.suite import SUITE_VERSION as SUITE_VERSION
from klazy.studies.arena.suite import Entry, Game, list_games
from klazy.studies.arena.table import Arena

__all__ = ["Arena", "Entry", "Game", "compare", "list_games", "play_suite"]
