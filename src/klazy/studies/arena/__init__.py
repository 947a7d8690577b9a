"""The arena: every learner and rule over one fixed suite of games, beside certified optima; and yours.

A package of functions, so that ``klazy.arena.compare(my_learner)`` reads as it is.
"""

from klazy.studies.arena.play import compare, play_suite
from klazy.studies.arena.suite import VERSION as VERSION
from klazy.studies.arena.suite import Entry, Game, list_games
from klazy.studies.arena.table import Arena

__all__ = ["Arena", "Entry", "Game", "compare", "list_games", "play_suite"]
