"""Many runs over one sequence at once: what a sweep needs of each is two sums, or their curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, number, refusal, whole
from klazy.costs import Costs, as_costs
from klazy.game.device import Grid, choose_device, find_obstacle, play_grid
from klazy.game.game import Game, check_family, check_learners, count_workers
from klazy.game.run import follow_rows, is_short, knows_rows, run_many
from klazy.kernels import codes
from klazy.kernels.codes import LANES, UNROLLED_DIM
from klazy.kernels.layout import (
    MANY,
    RULE_CODES,
    fill_lanes,
    find_missing_part,
    lay_blocks,
    rule_of,
    write_rows,
)
from klazy.kernels.rules import RULES
from klazy.learners import Learner
from klazy.movement import Movement
from klazy.sets import ConvexSet

_PIECES = 4  # of the work, per thread: a thread that is done takes the next


@dataclass(frozen=True, eq=False)
class Batch:
    """What n runs paid, in the order of their learners. :func:`run_batch` makes it.

    Parameters
    ----------
    hitting : array
        What the rounds charged each run, of shape (n,).
    switching : array
        What moving charged each run, of shape (n,).
    rounds : array of int
        The rounds after which ``curves`` was taken, of shape (c,).
    curves : array
        Running sums of both, of shape (n, c, 2); empty unless you asked for checkpoints.
    engine : str
        ``"lanes"`` if all runs were played side by side, ``"runs"`` if each was played by :func:`~klazy.run`, ``"mixed"`` if
        only some were.
    device : str
        What they were played on.

    Examples
    --------
    >>> Batch(np.array([3.0]), np.array([1.0]), np.array([]), np.zeros((1, 0, 2)), "runs").cost.tolist()
    [4.0]
    """

    hitting: Array
    switching: Array
    rounds: np.ndarray
    curves: Array
    engine: str
    device: str = "cpu"

    @property
    def cost(self) -> Array:
        """What was paid altogether, of shape (n,)."""
        return self.hitting + self.switching


def run_batch(
    learners: Sequence[Learner[Any]],
    costs: Costs | ArrayLike | Sequence[Costs | ArrayLike],
    *,
    movement: Movement | str | None = None,
    checkpoints: int = 0,
    jobs: int | None = None,
    device: str = "cpu",
) -> Batch:
    """Play many learners and keep only sums: the quickest way to compare many settings or seeds.

    The sums are those of :func:`~klazy.run` with ``record="totals"``, to 1e-12. Linear costs in up to 8 dimensions are played
    many runs at once, as lanes of vector registers, on every set with a kernel, by every learner with a rule and for every
    movement cost. Runs whose schedules differ only in scale are fastest. Everything else is played by :func:`~klazy.run_many`;
    rules of thumb without a kernel that average the same rounds share that work. On a GPU every run has its own thread, in
    up to 64 dimensions.

    Parameters
    ----------
    learners : list of Learner
        Who plays.
    costs : Costs or array_like or list of these
        One sequence for all learners; or one for each, as a list or as an array of shape (n, T, d), all of one length.
    movement : Movement or str, optional
        What moving costs, as in :func:`~klazy.run`.
    checkpoints : int, optional
        How many points of each run's curve to keep, evenly spaced, the last after round T; T at most. Default: none.
    jobs : int, optional
        How many threads to use. Default: as many as there are cores.
    device : str, optional
        ``"cpu"``, the default; ``"cuda"`` for a GPU; ``"auto"`` for a GPU if there is one and it can play the runs.

    Returns
    -------
    Batch
        What each run paid.

    Raises
    ------
    ValueError
        If sequences differ in length, or a GPU is asked for that cannot play the runs.

    Examples
    --------
    >>> batch = run_batch([KLazyGD(L2Ball(3), 2.0, k) for k in (1, 5, 25)], np.ones((100, 3)), checkpoints=4)
    >>> batch.hitting.round(3).tolist(), batch.rounds.tolist(), batch.engine
    ([-171.241, -171.241, -171.241], [25, 50, 75, 100], 'lanes')

    A sequence for each run:

    >>> seeds = np.random.default_rng(0).normal(size=(3, 100, 3))
    >>> run_batch([KLazyGD(L2Ball(3), 2.0, 5) for _ in seeds], seeds).cost.round(3).tolist()
    [44.623, 64.083, 42.643]
    """
    chosen = choose_device("run_batch", device)
    sequences, which = _list_sequences(learners, costs)
    groups = _group_by_sequence(learners, sequences, which, movement, checkpoints, jobs)
    on_gpu = np.zeros(len(learners), dtype=bool)
    if chosen == "cuda":
        obstacles: dict[Any, str | None] = {}
        for members, runs in groups:
            on_gpu[members] = runs.find_gpu_runs(obstacles, refuse=device == "cuda")
        _play_on_gpu([(runs, np.flatnonzero(on_gpu[members])) for members, runs in groups])
    first = groups[0][1]
    sums = np.empty((len(learners), len(first.marks), 2))
    fits = np.zeros(len(learners), dtype=bool)

    def play_rest(group: tuple[np.ndarray, _Runs]) -> None:
        members, runs = group
        fits[members] = runs.play(on_gpu[members])
        sums[members] = runs.sums

    rest = []
    for members, runs in groups:
        if on_gpu[members].all() and np.isfinite(runs.sums).all():
            sums[members] = runs.sums
        else:
            rest.append((members, runs))
    with ThreadPoolExecutor(
        count_workers("run_batch", jobs)
    ) as pool:  # one sequence to a thread, if there are several
        list(pool.map(play_rest, rest))
    kept = slice(None) if checkpoints else slice(0)
    hitting, switching = sums[:, -1].T.copy()
    beside = fits | on_gpu
    engine = "lanes" if beside.all() else "mixed" if beside.any() else "runs"
    place = "cuda" if on_gpu.all() else "mixed" if on_gpu.any() else "cpu"
    return Batch(hitting, switching, first.marks[kept], sums[:, kept], engine, place)


def _group_by_sequence(
    learners: Any, sequences: list[Any], which: np.ndarray, movement: Any, checkpoints: Any, jobs: Any
) -> list[tuple[np.ndarray, _Runs]]:
    """The learners of each sequence, by number, and their runs; where there are several sequences, a thread plays each."""
    if len(sequences) == 1:
        return [(np.arange(len(which)), _Runs(learners, sequences[0], movement, checkpoints, jobs))]
    count_workers("run_batch", jobs)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which))
    groups = []
    for members, sequence in zip(np.split(order, ends[:-1]), sequences, strict=True):
        played = [learners[int(i)] for i in members]
        groups.append((members, _Runs(played, sequence, movement, checkpoints, 1)))
    _check_lengths(groups)
    return groups


def _list_sequences(learners: Any, costs: Any) -> tuple[list[Any], np.ndarray]:
    """The distinct sequences, and which of them each learner plays."""
    count = len(learners) if isinstance(learners, Sequence) else 0
    if not _is_many(costs):
        return [costs], np.zeros(count, dtype=int)
    if len(costs) != count:
        remedy = "give one sequence for all, or one for each"
        raise refusal(
            "run_batch",
            f"a sequence for each of {count} learners",
            "costs",
            f"{len(costs)} sequences",
            remedy,
        )
    if isinstance(costs, np.ndarray):
        return list(costs), np.arange(count)
    distinct: dict[int, int] = {}
    which = [distinct.setdefault(id(sequence), len(distinct)) for sequence in costs]
    sequences: list[Any] = [None for _ in distinct]
    for sequence, s in zip(costs, which, strict=True):
        sequences[s] = sequence
    return sequences, np.array(which)


def _is_many(costs: Any) -> bool:
    """Whether these are several sequences."""
    if isinstance(costs, np.ndarray):
        return costs.ndim == 3
    if not isinstance(costs, list | tuple) or not costs:
        return False
    if isinstance(costs[0], Costs):
        return True
    try:
        return np.ndim(costs[0]) == 2
    except ValueError:
        return False  # no array: it is refused as a sequence


def _check_lengths(groups: list[tuple[np.ndarray, _Runs]]) -> None:
    lengths = {runs.costs.T for _, runs in groups}
    if len(lengths) > 1:
        found = f"lengths from {min(lengths)} to {max(lengths)}"
        raise refusal("run_batch", "sequences of one length", "costs", found, "call it once for each length")


def _play_on_gpu(groups: list[tuple[_Runs, np.ndarray]]) -> None:
    """These runs of each sequence; those on equal sets under equal movement costs are played together."""
    alike: dict[Any, list[tuple[_Runs, np.ndarray]]] = {}
    first: dict[Any, Any] = {}  # of equal pairs
    known: dict[
        Any, Any
    ] = {}  # the same by identity: runs share sets and movements, and to compare them takes time
    for runs, places in groups:
        equal: dict[Any, list[int]] = {}
        for i in places:
            pair = (runs.learners[i].domain, runs.movement_of(runs.learners[i]))
            kind = (id(pair[0]), id(pair[1]))
            if kind not in known:
                known[kind] = pair, first.setdefault(pair, pair)
            equal.setdefault(id(known[kind][1]), []).append(i)
        for kind, members in equal.items():
            alike.setdefault(kind, []).append((runs, np.array(members)))
    movements = {id(pair): pair[1] for pair in first}
    for kind, parts in alike.items():
        learners: list[Any] = []
        numbers: dict[int, int] = {}  # of learners, each of which is described once
        who = []
        for runs, members in parts:
            mine = [runs.learners[i] for i in members]
            for learner in mine:
                if id(learner) not in numbers:
                    numbers[id(learner)] = len(learners)
                    learners.append(learner)
            who.append(np.array([numbers[id(learner)] for learner in mine]))
        sequences = [runs.costs.arrays()[0] for runs, _ in parts]
        found = play_grid(Grid(learners, sequences, who, movements[kind], parts[0][0].marks))
        for (runs, members), sums in zip(parts, found, strict=True):
            runs.sums[members] = sums


class _Runs:
    """Learners, their game and options, checked, and the sums of the runs that were played: of shape (n, marks, 2)."""

    def __init__(self, learners: Any, costs: Any, movement: Any, checkpoints: Any, jobs: Any) -> None:
        known = as_costs(costs)
        _check_list(learners, known)
        game = Game.check("run_batch", learners[0].domain, known, movement, None)
        self.learners: Sequence[Any] = learners
        self.costs = game.costs
        self.given = movement
        self.movement = game.movement
        self.weights = game.weights
        self.workers = count_workers("run_batch", jobs)
        self.marks = make_marks(checkpoints, known.T)
        self.sums = np.empty((len(learners), len(self.marks), 2))
        self._lanes: dict[tuple[Any, ...], bool] = {}

    def play(self, done: np.ndarray) -> np.ndarray:
        """All runs but those that are ``done``; says which of them were played side by side."""
        fits = np.array([self.has_lanes(learner) for learner in self.learners]) & ~done
        follows = np.array([self.has_rows_only(learner) for learner in self.learners]) & ~fits & ~done
        self.play_lanes(np.flatnonzero(fits))
        self.play_rows(np.flatnonzero(follows))
        beside = np.flatnonzero(fits | done)
        lost = beside[~np.isfinite(self.sums[beside]).all(axis=(1, 2))]
        if lost.size:
            self.costs.check_finite()  # before each of them is played once more
        others = np.flatnonzero(~fits & ~follows & ~done)
        self.play_runs(np.concatenate((others, lost)))  # which knows what to say of costs that are not finite
        return fits

    def find_gpu_runs(self, obstacles: dict[Any, str | None], *, refuse: bool) -> np.ndarray:
        """Which runs a GPU plays; ``refuse`` if it is not all of them. ``obstacles`` are those that are known by kind."""
        able = np.empty(len(self.learners), dtype=bool)
        for i, learner in enumerate(self.learners):
            kind = (type(self.costs), *self._kind_of(learner))
            if kind not in obstacles:
                obstacles[kind] = find_obstacle(learner, self.costs, self.movement_of(learner))
            obstacle = obstacles[kind]
            able[i] = obstacle is None
            if refuse and obstacle is not None:
                condition = "runs that a GPU plays"
                raise refusal(
                    "run_batch", condition, f"learners[{i}]", obstacle, "take device='auto' or 'cpu'"
                )
        return able

    @staticmethod
    def _kind_of(learner: Any) -> tuple[Any, ...]:
        """What decides whether a learner can be played beside others: thousands of runs are of few kinds."""
        parts = (getattr(learner, name, None) for name in ("sigma", "memory"))
        alone = id(learner) if learner.experts else 0
        return (type(learner), rule_of(learner), id(learner.domain), alone, *(type(part) for part in parts))

    def has_lanes(self, learner: Any) -> bool:
        """Whether the batch kernels know this learner and its set, these costs and this movement."""
        if self.given is None and learner.own_movement != self.movement:
            return False  # by default it pays for moving what no other may pay
        kind = self._kind_of(learner)
        if kind not in self._lanes:
            self._lanes[kind] = self._find_lanes(learner)
        return self._lanes[kind]

    def has_rows_only(self, learner: Any) -> bool:
        """Whether this learner follows rows, and no kernel is quicker."""
        if not knows_rows(learner, self.costs):
            return False
        if is_short(learner, self.costs, len(self.learners)):
            return True
        return find_missing_part(learner, self.costs, self.movement_of(learner)) is not None

    def _find_lanes(self, learner: Any) -> bool:
        if codes.code_of(self.costs) != codes.LINEAR or learner.domain.dim > UNROLLED_DIM:
            return False
        if is_short(learner, self.costs, len(self.learners)):
            return False
        return rule_of(learner) not in MANY and find_missing_part(learner, self.movement) is None

    def play_runs(self, runs: np.ndarray) -> None:
        """The sums of these runs, one by one, and few at a time if what each round cost must be kept."""
        options: Any = {"movement": self.given, "jobs": self.workers}
        options["record"] = "costs" if len(self.marks) > 1 else "totals"
        few = _PIECES * self.workers if len(self.marks) > 1 else len(self.learners)
        starts = np.concatenate(([0], self.marks[:-1]))
        for first in range(0, len(runs), few):
            members = runs[first : first + few]
            for i, trace in zip(
                members, run_many([self.learners[i] for i in members], self.costs, **options), strict=True
            ):
                if len(self.marks) == 1:
                    self.sums[i] = trace.totals
                else:
                    self.sums[i] = (
                        np.add.reduceat((trace.hitting, trace.switching), starts, axis=1).cumsum(axis=1).T
                    )

    def play_rows(self, runs: np.ndarray) -> None:
        """The sums of these runs, whose learners follow rows; those with one view share what they see."""
        alike: dict[Any, list[int]] = {}
        for i in runs:
            learner = self.learners[i]
            view = type(learner) if learner.look is None else learner.view
            alike.setdefault((learner.domain, view, self.movement_of(learner)), []).append(int(i))
        with ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(self._follow, alike.values()))

    def movement_of(self, learner: Any) -> Movement:
        """What moving costs this learner."""
        return learner.own_movement if self.given is None else self.movement

    def _follow(self, members: list[int]) -> None:
        """The sums of these runs, which share a view and a movement."""
        learners = [self.learners[i] for i in members]
        movement = self.movement_of(learners[0])
        game = Game(self.costs, movement, movement.weights(self.costs.T), None)
        rounds = np.zeros(len(members), dtype=int)
        sums = np.zeros((len(members), 2))
        for who, _, values, paid in follow_rows(learners, game, [learner.init() for learner in learners]):
            first = rounds[who]
            rounds[who] += len(values)
            start = 0
            for m in np.flatnonzero((self.marks > first) & (self.marks <= rounds[who])):
                stop = self.marks[m] - first
                sums[who] += values[start:stop].sum(), paid[start:stop].sum()
                self.sums[members[who], m] = sums[who]
                start = stop
            sums[who] += values[start:].sum(), paid[start:].sum()

    def play_lanes(self, runs: np.ndarray) -> None:
        """The sums of these runs, many at a time."""
        equal: dict[ConvexSet, list[int]] = {}
        known: dict[int, list[int]] = {}  # the runs of a sweep share a set, and to compare sets takes time
        for i in runs:
            domain = self.learners[i].domain
            if id(domain) not in known:
                known[id(domain)] = equal.setdefault(domain, [])
            known[id(domain)].append(i)
        calls = [call for domain, members in equal.items() for call in self._calls(domain, np.array(members))]
        with ThreadPoolExecutor(self.workers) as pool:
            for members, sums in pool.map(lambda call: call(), calls):
                self.sums[members] = sums

    def _calls(
        self, domain: ConvexSet, members: np.ndarray
    ) -> Iterator[Callable[[], tuple[np.ndarray, Array]]]:
        """The work of these runs on one set, in pieces; each gives its runs and their sums."""
        from klazy.kernels.batch import GROUP, batch_kernel

        d = domain.dim
        learners = [self.learners[i] for i in members]
        rows = write_rows(learners, [learner.init() for learner in learners])
        prices = np.resize(self.movement.prices(d), 2 * d)
        program = np.concatenate((prices, domain.parameters(), np.zeros(d)))
        size = -(-len(members) // (LANES * GROUP * _PIECES * self.workers)) * GROUP
        for kind, places in _group_runs(rows).items():
            order = places[np.argsort(rows[places, codes.SLACK], kind="stable")]
            lanes = fill_lanes(order, LANES)
            blocks = lay_blocks(rows, lanes)
            kernel = batch_kernel(domain.code, kind.rule, self.movement.code, d, kind.shared)
            for first in range(0, len(blocks), size):
                piece = blocks[first : first + size]
                about = (
                    self.costs.arrays()[0], self.weights, kind.schedule, kind.offset, program, piece, self.marks
                )  # fmt: skip
                yield partial(_play, kernel, about, members[order[first * LANES : (first + size) * LANES]])


class _Kind(NamedTuple):
    """What the runs of a block share; with a ``shared`` offset also their sigmas, but for a factor."""

    shared: bool
    rule: int
    schedule: int
    memory: int
    ring: int
    offset: float = 0.0


def _check_list(learners: Any, costs: Costs) -> None:
    """Refuse what is no list of learners for these costs."""
    if not isinstance(learners, Sequence) or not learners:
        remedy = "write run_batch([GD(L2Ball(5), 1.0)], costs)"
        raise refusal("run_batch", "a list of learners", "learners", repr(learners), remedy)
    check_learners("run_batch", learners)
    for i, learner in enumerate(learners):
        check_family("run_batch", learner, costs)
        if learner.domain.dim != costs.dim:
            condition = f"learners on R^{costs.dim}, the costs' space"
            raise refusal(
                "run_batch", condition, f"learners[{i}].domain", learner.domain, "match the dimensions"
            )


def make_marks(checkpoints: Any, T: int) -> np.ndarray:
    """The rounds after which sums are kept."""
    if number(checkpoints, "checkpoints", "run_batch") == 0:
        return np.array([T])
    points = whole(
        checkpoints, "checkpoints", "run_batch", "checkpoints >= 0", "use 200 for a curve, 0 for totals"
    )
    points = min(points, T)
    return np.arange(1, points + 1) * T // points


def _group_runs(rows: Array) -> dict[_Kind, np.ndarray]:
    """The runs that may share a block.

    The offsets that few runs have are not worth blocks of their own: these runs find sigma lane by lane.
    """
    with_ring = [code for name, code in RULE_CODES.items() if RULES[name].ring]
    rings = np.where(np.isin(rows[:, codes.RULE], with_ring), rows[:, codes.OWN], 0.0)
    about = np.column_stack((rows[:, [codes.RULE, codes.SCHEDULE, codes.MEMORY]], rings, rows[:, codes.B]))
    distinct, place = np.unique(about, axis=0, return_inverse=True)
    ends = np.cumsum(np.bincount(place.ravel()))
    groups = np.split(np.argsort(place.ravel(), kind="stable"), ends[:-1])
    kinds: dict[_Kind, np.ndarray] = {}
    rare: dict[_Kind, list[_Kind]] = {}
    for (rule, schedule, memory, ring, offset), runs in zip(distinct.tolist(), groups, strict=True):
        kind = _Kind(True, int(rule), int(schedule), int(memory), int(ring), offset)
        alone = kind._replace(shared=False, offset=0.0)
        kinds[kind] = runs
        if schedule == codes.SCALE_FREE or (schedule == codes.SQRT and len(runs) < LANES):
            rare.setdefault(alone, []).append(kind)
    for alone, few in rare.items():
        if len(few) > 1 or alone.schedule == codes.SCALE_FREE:
            kinds[alone] = np.concatenate([kinds.pop(kind) for kind in few])
    return kinds


def _play(kernel: Any, about: tuple[Any, ...], members: np.ndarray) -> tuple[np.ndarray, Array]:
    """One call of a kernel; these runs with their sums, of shape (runs, marks, 2)."""
    *_, blocks, marks = about
    curves = np.empty((len(blocks), len(marks), 2, LANES))
    with np.errstate(all="ignore"):  # what is not finite is found later
        kernel(*about, curves)
    return members, curves.transpose(0, 3, 1, 2).reshape(-1, len(marks), 2)[: len(members)]
