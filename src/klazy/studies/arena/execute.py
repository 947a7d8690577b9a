"""The whole suite: games in parallel, kept as they finish, so that a run that was stopped goes on where it was."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from klazy.base import parallel
from klazy.base.checks import refusal, whole
from klazy.base.files import hash_sources, write_durably
from klazy.studies.arena.adapters import list_outside
from klazy.studies.arena.contenders import OWN, Contender, find_missing, list_contenders, make_own
from klazy.studies.arena.play import Best, Outcome, Played, Task, play_task, time_contender
from klazy.studies.arena.suite import VERSION, Entry, find_missing_data, list_games
from klazy.studies.arena.table import Arena

PACKAGE = Path(__file__).parents[2]
# Code that has no part in the numbers of a game; whatever else changes, games are played anew.
APART = ("cli", "live", "show", "theory", "studies/paper", "studies/replay", "studies/sweep")
APART += ("studies/arena/execute.py", "studies/arena/page.py", "studies/arena/table.py")
TIMED = 3  # games, of different places if there are any
Progress = Callable[[int, int], object]


def play_suite(
    own: Sequence[Contender] = (),
    *,
    seed: int = 0,
    quick: bool = False,
    only: Sequence[str] = (),
    out: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Arena:
    """Play all games, or those of some families, with everyone that klazy has and with somebody's ``own``.

    Parameters
    ----------
    own : sequence of Contender, optional
        Further contenders; :func:`compare` makes them from learners. They are played every time, for their code may have
        changed.
    seed, quick, only, jobs, progress
        As in :func:`compare`.
    out : Path, optional
        A folder for what was played: the same code does not play it again.

    Returns
    -------
    Arena
        What everyone paid.
    """
    entries = choose_games(list_games(seed, quick=quick), only)
    absent = find_missing_data(entries)
    entries = [entry for entry in entries if entry.family not in absent]
    contenders = [*list_contenders(), *list_outside(), *own]
    kept = {} if out is None else load_games(out, entries)
    tasks = []
    for entry in entries:
        known = kept[entry].outcomes if entry in kept else {}
        todo = [each for each in contenders if each.kind == OWN or each.name not in known]
        if todo:
            tasks.append(Task(entry, todo, find_cache()))
    for done, played in enumerate(_play_tasks(tasks, jobs), start=1):
        if played.entry in kept:
            played = played._replace(outcomes=kept[played.entry].outcomes | played.outcomes)
        kept[played.entry] = played
        if out is not None:
            save_game(out, played, own)
        if progress is not None:
            progress(done, len(tasks))
    games = [kept[entry] for entry in entries]
    missing = absent | dict.fromkeys(find_missing(), "klazy has no such learner yet")
    if not list_outside():
        missing["PyNOL"] = "it is not installed"
    micros = measure_times(games, contenders)
    return Arena(games, contenders, seed, quick, tuple(only), micros, missing)


def choose_games(entries: list[Entry], only: Sequence[str]) -> list[Entry]:
    """The games of these families, all of them if none is named."""
    known = list(dict.fromkeys(entry.family for entry in entries))
    for family in only:
        if family not in known:
            raise refusal(
                "arena", f"families among {', '.join(known)}", "only", family, "choose one of these"
            )
    return [entry for entry in entries if not only or entry.family in only]


def _play_tasks(tasks: list[Task], jobs: int | None) -> Iterator[Played]:
    if jobs is not None:
        jobs = whole(jobs, "jobs", "arena", "jobs >= 1", "leave it out for all cores")
    yield from parallel.map_unordered(play_task, tasks, jobs)


def measure_times(games: list[Played], contenders: Sequence[Contender]) -> dict[str, float]:
    """Microseconds of a round, the median over a game of each place, one run at a time."""
    chosen: dict[str, Played] = {}
    for game in games:
        chosen.setdefault(game.entry.place, game)
    timed = [(game.entry.make(), game) for game in list(chosen.values())[:TIMED]]
    found = {}
    for contender in contenders:
        taken = [
            time_contender(made, contender, game.outcomes[contender.name].parameters) for made, game in timed
        ]
        middle = float(np.median(taken))
        if not isnan(middle):
            found[contender.name] = middle
    return found


def compare(
    *learners: Any,
    quick: bool = True,
    seed: int = 0,
    only: Sequence[str] = (),
    out: Path | str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Arena:
    """Play your own learners against all of klazy's, over the arena's games.

    Parameters
    ----------
    *learners : callable
        Functions that make a learner from ``domain``, ``movement`` and ``family``, or from those of them that they name.
        Such a function is told nothing else: a learner with parameters must find them.
    quick : bool, optional
        A minute instead of half an hour: fewer games, and shorter ones. Default: True.
    seed : int, optional
        The first seed of the synthetic games. Choose your learner with seeds below 100, and report others. Default: 0.
    only : sequence of str, optional
        Families of games. Default: all.
    out : path, optional
        A folder that keeps what klazy's own contenders paid, so that the next call plays yours alone.
    jobs : int, optional
        How many processes play. Default: as many as there are cores.
    progress : callable, optional
        Called with the number of games done and of all games.

    Returns
    -------
    Arena
        Prints as a ranking; ``rank()``, ``group("family")``, ``list_worse_than_fixed()`` and ``to_dict()`` give rows.

    Examples
    --------
    >>> from klazy.studies import arena
    >>> found = arena.compare(lambda domain: GD(domain, 1.0), only=["bursts"], jobs=1)
    >>> found.names[-1], len(found.games)
    ('<lambda>', 3)
    """
    own = [make_own(learner) for learner in learners]
    folder = None if out is None else Path(out)
    return play_suite(own, seed=seed, quick=quick, only=only, out=folder, jobs=jobs, progress=progress)


def find_cache() -> Path | None:
    """Where optima are kept, beside compiled kernels."""
    from klazy.kernels.binding import cache_folder, make_cache_folder

    with suppress(OSError):  # optima are numbers, and no code: they may be in any folder
        make_cache_folder()
    return cache_folder() / "arena"


@cache
def make_key() -> str:
    """A hash of all code that makes the numbers of a game."""
    from importlib.metadata import version

    apart = [PACKAGE / place for place in APART]
    files = []
    for file in sorted(PACKAGE.rglob("*.py")):
        if file not in apart and not any(place in apart for place in file.parents):
            files.append(file)
    about = [VERSION, version("numpy"), version("numba"), version("scipy"), hash_sources(*files)]
    return sha256(json.dumps(about).encode()).hexdigest()


def _name_file(out: Path, entry: Entry) -> Path:
    digest = sha256(repr(entry).encode()).hexdigest()[:8]
    letters = [letter if letter.isalnum() else "-" for letter in entry.name]
    return out / "games" / f"{''.join(letters)}-{digest}.json"


def save_game(out: Path, played: Played, own: Sequence[Contender]) -> None:
    """Keep a game; what somebody's own learners paid is not kept."""
    names = [contender.name for contender in own]
    outcomes = {name: asdict(each) for name, each in played.outcomes.items() if name not in names}
    about = {"key": make_key(), "scale": played.scale, "best": asdict(played.best), "outcomes": outcomes}
    file = _name_file(out, played.entry)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, json.dumps(about).encode())
    except OSError as failed:
        raise refusal(
            "arena", "a folder to write to", "out", out, failed.strerror or "choose another"
        ) from failed


def load_games(out: Path, entries: Sequence[Entry]) -> dict[Entry, Played]:
    """The games in a folder that this very code has played."""
    found = {}
    for entry in entries:
        try:
            about = json.loads(_name_file(out, entry).read_text(encoding="utf-8"))
            if about["key"] == make_key():
                outcomes = {name: Outcome(**each) for name, each in about["outcomes"].items()}
                found[entry] = Played(entry, about["scale"], Best(**about["best"]), outcomes)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ):  # missing, or not what is written here: played anew
            continue
    return found
