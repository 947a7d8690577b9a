"""Playing the suite: each game by everyone, in parallel, stored as it finishes, so that a stopped arena goes on.

Parameters are chosen on the first half of a game, and the costs of the second half are scored.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib import import_module
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, integer, one_of
from klazy.base.options import write_option
from klazy.base.parallel import map_unordered
from klazy.base.progress import show_progress
from klazy.game.batch import run_batch
from klazy.game.run import run
from klazy.hindsight import offline_optimum
from klazy.hindsight.optimum import GapNotReached
from klazy.studies.arena.suite import (
    SUITE_VERSION,
    SUITES,
    Entry,
    Game,
    find_missing_data,
    list_games,
)
from klazy.studies.arena.table import Arena, GameOptimum, GameScore, PlayedGame
from klazy.studies.contenders import (
    ARENA,
    FIXED,
    GRADIENT_SAMPLE,
    OTHER_PACKAGES,
    YOURS,
    Contender,
    Counts,
    Facts,
    find_fixed_point,
    list_contenders,
    make_own,
)
from klazy.studies.results import ResultStore, ResultWriter, hash_code, make_key, make_value_rows
from klazy.studies.tuning import Point, search

# Code that has no part in the numbers of a game. If anything else changes, games are played again.
APART = ("cli", "live", "show", "theory", "studies/paper", "studies/replay", "studies/sweep")
APART += ("studies/bayes.py", "studies/results.py")
APART += ("studies/arena/page.py", "studies/arena/submission.py", "studies/arena/table.py")
# Games in which rounds are timed, of different places if there are any, and runs of each of them.
TIMED = 3
TIMED_RUNS = 3
# The gap to reach, and the most iterations for it. The gap that was reached is stored with the optimum.
OPTIMUM_GAP = 1e-4
OPTIMUM_ITERATIONS = 60_000
ARENA_COUNTS = Counts(single=60, first=12, second=5)
Progress = Callable[[int, int], object]


class GameTask(NamedTuple):
    """A game, who is to play it, and the folder where optima are stored."""

    entry: Entry
    contenders: list[Contender]
    cache: Path | None


def play_suite(
    own: Sequence[Contender] = (),
    *,
    seed: int = 0,
    quick: bool = False,
    only: Sequence[str] = (),
    every: int = 1,
    out: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    suite: str = SUITE_VERSION,
) -> Arena:
    """Play all games, or those of some families, with all of klazy's contenders and your ``own``.

    Parameters
    ----------
    own : sequence of Contender, optional
        Further contenders; :func:`compare` makes them from learners. They are played every time, because their code may
        have changed.
    seed, quick, only, jobs, progress, suite
        As in :func:`compare`.
    every : int, optional
        Play each so many-th game alone. Default: all.
    out : Path, optional
        A folder for results: the same code does not play a game again.

    Returns
    -------
    Arena
        The costs of all contenders.
    """
    if jobs is not None:
        jobs = integer(jobs, "jobs", "Leave it out for all cores.")
    every = integer(every, "every", "Use every=1 for all games.")
    one_of(suite, "suite", SUITES)
    entries = _choose_games(list_games(seed, quick=quick, suite=suite), only)[::every]
    missing = find_missing_data(entries)
    entries = [entry for entry in entries if entry.family not in missing]
    outside = list_outside()
    if not outside:
        missing["PyNOL"] = "it is not installed"
    names = [contender.name for contender in own]
    known = [
        each
        for each in list_contenders(ARENA)
        if each.name not in names and int(each.since) <= int(suite)
    ]
    contenders = [*known, *outside, *own]
    store = None
    played: dict[Entry, PlayedGame] = {}
    if out is not None:
        store = ResultStore(out / "games")
        played = _load_games(store, entries, contenders)
    tasks = []
    for entry in entries:
        done = played[entry].outcomes if entry in played else {}
        todo = [each for each in contenders if each.name not in done]
        if todo:
            tasks.append(GameTask(entry, todo, find_cache()))
    with (
        ResultWriter(store, make_value_rows) as writer,
        show_progress("playing games") as report_progress,
    ):
        for count, game in enumerate(map_unordered(play_game, tasks, jobs), start=1):
            for result in _list_values(game, own):
                writer.add(result)
            played.setdefault(game.entry, game).outcomes.update(game.outcomes)
            report_progress(count / len(tasks), f"{count} of {len(tasks)}")
            if progress is not None:
                progress(count, len(tasks))
    games = [played[entry] for entry in entries]
    micros = _measure_times(games, contenders)
    return Arena(games, contenders, seed, quick, tuple(only), micros, missing, suite)


def _choose_games(entries: list[Entry], only: Sequence[str]) -> list[Entry]:
    """Return the games of these families, all of them if none is named."""
    known = list(dict.fromkeys(entry.family for entry in entries))
    for family in only:
        if family not in known:
            raise InvalidInput(
                f"{write_option('only')} must be one of {', '.join(known)}, got {family!r}."
            )
    return [entry for entry in entries if not only or entry.family in only]


def _measure_times(games: list[PlayedGame], contenders: Sequence[Contender]) -> dict[str, float]:
    """Return the microseconds of a round, the median over a game of each place, one run at a time."""
    chosen: dict[str, PlayedGame] = {}
    for game in games:
        chosen.setdefault(game.entry.place, game)
    timed = [(game.entry.make(), game) for game in list(chosen.values())[:TIMED]]
    found = {}
    for contender in contenders:
        taken = []
        for made, game in timed:
            facts = make_facts(made)
            # The others are no learners, or do not play this game.
            is_learner = contender.name != FIXED and contender.is_learner
            if is_learner and contender.axes(facts) is not None:
                taken.append(_time_contender(made, contender, game.outcomes[contender.name]))
        if taken:
            found[contender.name] = float(np.median(taken))
    return found


def compare(
    *learners: Any,
    quick: bool = True,
    seed: int = 0,
    only: Sequence[str] = (),
    out: Path | str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    suite: str = SUITE_VERSION,
) -> Arena:
    """Play your own learners against all of klazy's, over the arena's games.

    Parameters
    ----------
    *learners : callable
        Functions that make a learner from ``domain``, ``movement`` and ``family``, or from those of them that they name.
        Such a function gets nothing else: a learner with parameters must tune them itself.
    quick : bool, optional
        A minute instead of half an hour: fewer games, and shorter ones. Default: True.
    seed : int, optional
        The first seed of the synthetic games. Choose your learner with seeds below 100, and report others. Default: 0.
    only : sequence of str, optional
        Families of games. Default: all.
    out : path, optional
        A folder for the results of klazy's own contenders, so that the next call plays yours alone.
    jobs : int, optional
        How many processes play. Default: as many as there are cores.
    progress : callable, optional
        Called with the number of games done and of all games.
    suite : str, optional
        The version of the suite: ``"1"`` has fewer games and contenders. Default: the newest.

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
    return play_suite(
        own,
        seed=seed,
        quick=quick,
        only=only,
        out=folder,
        jobs=jobs,
        progress=progress,
        suite=suite,
    )


def find_cache() -> Path | None:
    """Return the folder where optima are stored, next to compiled kernels."""
    from klazy.kernels.binding import cache_folder, make_cache_folder

    # Optima are numbers, and no code: they may be in any folder.
    with suppress(OSError):
        make_cache_folder()
    return cache_folder() / "arena"


def _key_of(entry: Entry, contender: str) -> str:
    return make_key(SUITE_VERSION, hash_code(*APART), entry, contender)


def _list_values(game: PlayedGame, own: Sequence[Contender]) -> Iterator[tuple[str, Any]]:
    """Yield a key and a value for each contender of a game, except the user's own, whose code may change."""
    names = [contender.name for contender in own]
    for name, outcome in game.outcomes.items():
        if name not in names:
            value = {"scale": game.scale, "best": asdict(game.best), "outcome": asdict(outcome)}
            yield _key_of(game.entry, name), value


def _load_games(
    store: ResultStore, entries: Sequence[Entry], contenders: Sequence[Contender]
) -> dict[Entry, PlayedGame]:
    """Return the games in a store that this very code has played."""
    values = store.read_values()
    found: dict[Entry, PlayedGame] = {}
    for entry, contender in product(entries, contenders):
        value = values.get(_key_of(entry, contender.name))
        if value is not None and contender.kind != YOURS:
            empty = PlayedGame(entry, value["scale"], GameOptimum(**value["best"]), {})
            outcomes = found.setdefault(entry, empty).outcomes
            outcomes[contender.name] = GameScore(**value["outcome"])
    return found


def play_game(task: GameTask) -> PlayedGame:
    """Play a game; an error names the game and the contender."""
    game = task.entry.make()
    facts = make_facts(game)
    outcomes = {}
    for contender in task.contenders:
        try:
            outcomes[contender.name] = play_contender(game, facts, contender)
        except Exception as failed:
            why = (
                str(failed)
                if isinstance(failed, InvalidInput)
                else f"{type(failed).__name__}: {failed}"
            )
            raise InvalidInput(
                f"{contender.name} failed in the game {task.entry.name!r}: {why}"
            ) from failed
    return PlayedGame(task.entry, game.scale, find_game_optimum(game, task.cache), outcomes)


def make_facts(game: Game) -> Facts:
    """Return what contenders may know: the length of the first half, and gradients there at the start."""
    first = game.first
    rounds = np.unique(
        np.linspace(1, first.T, min(first.T, GRADIENT_SAMPLE)).astype(int)
    ).tolist()
    gradients = np.array([first.subgradient(t, game.domain.start) for t in rounds])
    family = game.costs.family
    return Facts(
        game.domain, game.movement, family, gradients, game.half, game.costs.T, ARENA_COUNTS
    )


def play_contender(game: Game, facts: Facts, contender: Contender) -> GameScore:
    """Play all candidates through the whole game, those around the best of the first half too."""
    axes = contender.axes(facts)
    if contender.name == FIXED or axes is None:
        return _hold_still(game)
    if not contender.is_learner:
        return _judge_points(game, contender.make(game, facts.largest))
    played: list[Array] = []

    def pay(points: list[Point]) -> Array:
        made = [contender.make_learner(facts, **point) for point in points]
        # Hitting and switching, after the first half and after all rounds.
        curves = run_batch(made, game.costs, movement=game.movement, checkpoints=2, jobs=1).curves
        played.extend(curves)
        return curves[:, 0].sum(axis=1)

    points, at = search(axes, pay)
    first, all_rounds = np.array(played).swapaxes(0, 1)
    second = all_rounds - first
    hitting, switching = second[at].tolist()
    return GameScore(
        first=float(first[at].sum()),
        hitting=hitting,
        switching=switching,
        hindsight=float(second.sum(axis=1).min()),
        candidates=len(points),
        parameters=points[at],
    )


# Who does not play a game holds still too.
@lru_cache(maxsize=1)
def _hold_still(game: Game) -> GameScore:
    """Play the point that is best for the first half in all rounds."""
    x = find_fixed_point(game.first, game.domain)
    return _judge_points(game, np.broadcast_to(x, (game.costs.T, len(x))))


def _judge_points(game: Game, x: Array) -> GameScore:
    """Return the costs of these points."""
    hitting = game.costs.values(x)
    switching = game.movement.paid(x)
    first = float((hitting + switching)[: game.half].sum())
    hit = float(hitting[game.half :].sum())
    moved = float(switching[game.half :].sum())
    return GameScore(first, hit, moved, hit + moved, 1, {})


def find_game_optimum(game: Game, folder: Path | None) -> GameOptimum:
    """Return the optimum of the second half, from the store if it is there: its key is all that it depends on."""
    if folder is None:
        return _compute_optimum(game)
    store, known = _open_optima(folder)
    second = game.second
    digest = sha256()
    for array in second.arrays():
        digest.update(np.ascontiguousarray(array).tobytes())
    about = (
        repr(game.domain),
        repr(game.movement),
        type(second).__name__,
        OPTIMUM_GAP,
        OPTIMUM_ITERATIONS,
    )
    key = make_key(*about, digest.hexdigest())
    if key not in known:
        known[key] = _compute_optimum(game)
        store.add(make_value_rows([(key, asdict(known[key]))]))
    return known[key]


@cache
def _open_optima(folder: Path) -> tuple[ResultStore, dict[str, GameOptimum]]:
    """Open the store of optima once in a process, and return it with the optima by key."""
    store = ResultStore(folder)
    return store, {key: GameOptimum(**value) for key, value in store.read_values().items()}


def _compute_optimum(game: Game) -> GameOptimum:
    try:
        effort = {"gap": OPTIMUM_GAP, "iterations": OPTIMUM_ITERATIONS}
        found = offline_optimum(game.second, game.domain, game.movement, **effort)
    except GapNotReached as short:
        found = short.best
    return GameOptimum(found.hitting, found.switching, found.lower_bound, found.gap)


def _time_contender(game: Game, contender: Contender, score: GameScore) -> float:
    """Return the microseconds of a round, the least of some runs."""
    learner = contender.make_learner(make_facts(game), **score.parameters)
    taken = []
    for _ in range(TIMED_RUNS):
        began = perf_counter()
        run(learner, game.costs, movement=game.movement, record="totals")
        taken.append(perf_counter() - began)
    return 1e6 * min(taken) / game.costs.T


# PyNOL (Li, Zhao, Xie, Zhang and Zhou, MIT licence) has ensembles for dynamic regret. Its models change as they play, so they
# are not learners of klazy. The points that they play are charged like everyone's.
PYNOL_MODELS = ("Ader", "Scream")


def list_outside() -> list[Contender]:
    """Return the contenders from PyNOL, if it is installed."""
    try:
        import_module("pynol.environment.environment")
    except ImportError:
        return []
    return [
        Contender(
            f"{name} (PyNOL)", OTHER_PACKAGES, partial(_play_outside, name), is_learner=False
        )
        for name in PYNOL_MODELS
    ]


def _play_outside(name: str, game: Game, largest: float) -> Array:
    """Return the points of a model of PyNOL, which is given the horizon and the largest gradient of the first half."""
    environment = import_module("pynol.environment.environment")
    model_class = getattr(import_module(f"pynol.learner.models.dynamic.{name.lower()}"), name)
    costs = game.costs
    sizes = [costs.T, largest]
    # Ader knows no movement cost.
    if name == "Scream":
        sizes.append(
            float(np.max(game.movement.weight)) * game.movement.lipschitz(game.domain.dim)
        )
    model = model_class(_Domain(game), *sizes, prior=np.array(game.domain.start))
    points = np.empty((costs.T, costs.dim))
    for t in range(1, costs.T + 1):
        round_costs = {
            "func": partial(costs.value, t),
            "grad_func": partial(costs.subgradient, t),
        }
        points[t - 1], _, _ = model.opt(environment.Environment(**round_costs))
    return points


class _Domain:
    """A set of klazy as PyNOL's models ask for it."""

    def __init__(self, game: Game) -> None:
        self.set = game.domain
        self.dimension = game.domain.dim
        self.R = game.domain.diameter / 2.0

    def init_x(self, prior: Any = None, seed: Any = None) -> Array:
        return np.array(self.set.start if prior is None else prior)

    def project(self, x: Array) -> Array:
        return self.set.nearest(x)
