"""Results as one JSON file, which anybody can hand in: what learners pay above the optimum in the games of a suite.

:func:`make_submission` makes one of a played arena, :func:`read_submission` reads and checks one, and :func:`replay_sample`
plays some of its games again. benchmarks/leaderboard.py makes a page of those that were handed in.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

import klazy
from klazy.base.checks import Array, InvalidInput
from klazy.base.parallel import map_unordered
from klazy.studies.arena.play import GameTask, Progress, find_cache, list_outside, play_game
from klazy.studies.arena.suite import SUITES, Entry, list_games
from klazy.studies.arena.table import CLEARLY, FLOOR, Arena, Row, average_ratios
from klazy.studies.contenders import (
    ARENA,
    OTHER_PACKAGES,
    YOURS,
    Contender,
    import_own,
    list_contenders,
)

# Shares of the spread that differ by less are the same: optima are known to about as much.
TOLERANCE = 0.1 * FLOOR
DIGITS = 6
Share = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class Entrant(BaseModel, frozen=True, extra="forbid"):
    """Who played: ``learner`` is its name in klazy, or module:function; ``by`` and ``url`` say whose it is."""

    name: str
    told: str
    learner: str
    by: str = ""
    url: str = ""


class SubmittedGame(BaseModel, frozen=True, extra="forbid"):
    """A game, and what everyone pays above its optimum, as shares of the spread of all costs that are scored.

    ``costs`` has a number for each entrant, in their order.
    """

    family: str
    place: str
    price: float
    seed: int | None
    rounds: int
    spread: float
    optimum: float
    best_tuned: Share
    picked: Share
    costs: list[Share]

    @property
    def entry(self) -> Entry:
        """Its name in the suite."""
        return Entry(self.family, self.place, self.price, self.seed, self.rounds)

    def list_figures(self, names: Sequence[str]) -> dict[str, float]:
        """Return what can be compared: all shares, and the optimum as a share."""
        figures = {"the optimum": self.optimum / self.spread}
        figures |= {
            "the best tuned contender": self.best_tuned,
            "the picked contender": self.picked,
        }
        return figures | dict(zip(names, self.costs, strict=True))


class Submission(BaseModel, frozen=True, extra="forbid"):
    """Results of some learners in the games of a suite, or in a part of them."""

    format: Literal["klazy arena 1"] = "klazy arena 1"
    klazy: str
    suite: Annotated[str, Field(pattern=f"^({'|'.join(SUITES)})$")]
    seed: Annotated[int, Field(ge=0)]
    quick: bool = False
    entrants: Annotated[list[Entrant], Field(min_length=1)]
    games: Annotated[list[SubmittedGame], Field(min_length=1)]

    @property
    def names(self) -> list[str]:
        """The entrants, in the order of each game's costs."""
        return [entrant.name for entrant in self.entrants]

    def list_suite(self) -> list[Entry]:
        """List all games of its suite, of which it may have a part."""
        return list_games(self.seed, quick=self.quick, suite=self.suite)

    def write(self) -> str:
        """Write it as JSON, with a line for each game."""
        about = self.model_dump_json(exclude={"games"}, indent=1)
        games = ",\n  ".join(game.model_dump_json() for game in self.games)
        return f'{about[:-2]},\n "games": [\n  {games}\n ]\n}}\n'

    def find_ratios(self) -> Array:
        """Divide what entrants pay above the optimum, with the floor, by what the best tuned contender pays.

        Returns
        -------
        array
            The ratios, of shape (games, entrants).
        """
        shares = np.array([game.costs for game in self.games]) + FLOOR
        return shares / np.array([[game.best_tuned + FLOOR] for game in self.games])

    def summarize(self) -> list[Row]:
        """Rate each entrant as the arena does.

        Returns
        -------
        list of dict
            A row for each entrant, in their order.
        """
        ratios = self.find_ratios()
        beaten = np.array(
            [(game.best_tuned + FLOOR) / (game.picked + FLOOR) for game in self.games]
        )
        rows = []
        for at, entrant in enumerate(self.entrants):
            worst = int(ratios[:, at].argmax())
            rows.append(
                {
                    "entrant": entrant,
                    "games": len(self.games),
                    "best_tuned": average_ratios(ratios[:, at]),
                    "picked": average_ratios(ratios[:, at] * beaten),
                    "worse_by_2_%": float((ratios[:, at] > CLEARLY).mean()),
                    "worst_ratio": float(ratios[worst, at]),
                    "worst_game": self.games[worst].entry.name,
                }
            )
        return rows


def make_submission(found: Arena, learners: Sequence[str] = ()) -> Submission:
    """Make a results file of an arena.

    Parameters
    ----------
    found : Arena
        The played games.
    learners : sequence of str, optional
        How one's own learners are found, in their order. Default: by their names.

    Returns
    -------
    Submission
        One's own learners and those of other packages; all contenders where there are none.
    """
    own = [each for each in found.contenders if each.kind in (YOURS, OTHER_PACKAGES)]
    chosen = own or found.contenders
    mine = [each.name for each in chosen if each.kind == YOURS]
    places = dict(zip(mine, learners, strict=bool(learners)))
    entrants = []
    for each in chosen:
        learner = places.get(each.name, each.name)
        entrants.append(Entrant(name=each.name, told=each.kind, learner=learner))
    return Submission(
        klazy=klazy.__version__,
        suite=found.suite,
        seed=found.seed,
        quick=found.quick,
        entrants=entrants,
        games=_measure_games(found, [each.name for each in chosen]),
    )


def _measure_games(found: Arena, names: Sequence[str]) -> list[SubmittedGame]:
    """Return what these contenders pay in every game."""
    columns = [found.names.index(name) for name in names]
    games = []
    for i, game in enumerate(found.games):
        above = np.array([*found.above[i, columns], found.best_tuned[i], found.picked[i]])
        shares = (above / game.scale - FLOOR).round(DIGITS).clip(0.0)
        *costs, best_tuned, picked = shares.tolist()
        figures = {"best_tuned": best_tuned, "picked": picked, "costs": costs}
        figures |= {"spread": float(game.scale), "optimum": float(game.best.cost)}
        games.append(SubmittedGame.model_validate(game.entry._asdict() | figures))
    return games


def read_submission(file: Path) -> Submission:
    """Read a results file.

    Parameters
    ----------
    file : Path
        The file.

    Returns
    -------
    Submission
        What it says, all of whose games are of its suite.

    Raises
    ------
    ValueError
        If it is no results file, or names games that its suite does not have.
    """
    try:
        found = Submission.model_validate_json(file.read_bytes())
    except OSError as failed:
        raise InvalidInput(f"Cannot read {file}: {failed.strerror}.") from failed
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        remedy = "`klazy arena --submit FILE` writes such files."
        raise InvalidInput(
            f"{file} holds no results: {place}: {first['msg']}. {remedy}"
        ) from None
    if len(set(found.names)) < len(found.names):
        raise InvalidInput(f"{file} has two entrants of one name.")
    known = set(found.list_suite())
    seen: set[Entry] = set()
    for game in found.games:
        if game.entry not in known:
            raise InvalidInput(
                f"{file} has the game '{game.entry.name}' of {game.rounds} rounds, which suite {found.suite} does not have."
            )
        if game.entry in seen:
            raise InvalidInput(f"{file} has the game '{game.entry.name}' twice.")
        if len(game.costs) != len(found.entrants):
            raise InvalidInput(
                f"{file} must have {len(found.entrants)} costs for the game '{game.entry.name}', got {len(game.costs)}."
            )
        seen.add(game.entry)
    return found


def replay_sample(
    claimed: Submission,
    sample: int,
    draw: int,
    *,
    trust: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[Entry], list[Row]]:
    """Play some games of a results file again, with all that the arena does: tuning, scoring, and the optimum.

    Parameters
    ----------
    claimed : Submission
        The results.
    sample : int
        How many games.
    draw : int
        The seed that they are drawn with.
    trust : bool, optional
        Whether code named as module:function may be run. Default: False.
    jobs : int, optional
        How many processes play. Default: as many as there are cores.
    progress : callable, optional
        Called with the number of games done and of all games.

    Returns
    -------
    entries : list of Entry
        The games that were played.
    differences : list of dict
        A row for each figure that is not as claimed.
    """
    count = min(sample, len(claimed.games))
    drawn = np.random.default_rng(draw).choice(len(claimed.games), count, replace=False)
    games = [claimed.games[at] for at in sorted(drawn.tolist())]
    contenders = _find_contenders(claimed, trust)
    tasks = [GameTask(game.entry, contenders, find_cache()) for game in games]
    played = {}
    for done, game in enumerate(map_unordered(play_game, tasks, jobs), start=1):
        played[game.entry] = game
        if progress is not None:
            progress(done, count)
    entries = [game.entry for game in games]
    arena = Arena(
        [played[entry] for entry in entries], contenders, claimed.seed, suite=claimed.suite
    )
    differences = []
    for game, again in zip(games, _measure_games(arena, claimed.names), strict=True):
        figures = again.list_figures(claimed.names)
        for name, share in game.list_figures(claimed.names).items():
            if abs(share - figures[name]) > TOLERANCE:
                row = {
                    "game": game.entry.name,
                    "figure": name,
                    "claimed": share,
                    "replayed": figures[name],
                }
                differences.append(row)
    return entries, differences


def _find_contenders(claimed: Submission, trust: bool) -> list[Contender]:
    """Return klazy's contenders of the suite, and after them the entrants that are not among them."""
    found = [each for each in list_contenders(ARENA) if int(each.since) <= int(claimed.suite)]
    known = {each.name: each for each in found}
    outside = {each.name: each for each in list_outside()}
    for entrant in claimed.entrants:
        if entrant.name in known:
            if entrant.learner != entrant.name:
                raise InvalidInput(
                    f"{entrant.name} is a contender of klazy. Give {entrant.learner} another name."
                )
        elif entrant.learner in outside:
            found.append(outside[entrant.learner])
        else:
            found += [
                replace(each, name=entrant.name) for each in import_own([entrant.learner], trust)
            ]
    return found
