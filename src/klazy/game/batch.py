"""Many runs at once, of which only two sums are recorded, or their curves.

Runs on one sequence are checked together, then played on a GPU, as lanes of vector registers, by rows, or one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, filled_list
from klazy.base.html import load_macros, show_card
from klazy.base.parallel import map_threads
from klazy.costs import Costs, as_costs
from klazy.game.device import choose_device, find_gpu_obstacle, list_gpus, play_learners
from klazy.game.game import Game, check_family, check_player, count_workers
from klazy.game.plan import (
    find_distinct,
    group_runs,
    list_sequences,
    make_marks,
    number_equal,
    write_program,
)
from klazy.game.run import follow_rows, is_short, knows_rows, run_many
from klazy.kernels.codes import LANES, LINEAR, UNROLLED_DIM, code_of
from klazy.kernels.layout import MANY, fill_lanes, find_missing_part, lay_blocks, rule_of
from klazy.learners import Learner
from klazy.movement import Movement

# What a card shows of the runs.
SUMMARIES = {"least": np.min, "median": np.median, "mean": np.mean, "most": np.max}
# Pieces of work per thread: a thread that is done takes the next piece.
_PIECES = 4


@dataclass(frozen=True, eq=False)
class Batch:
    """The costs of n runs, in the order of their learners. :func:`run_batch` makes it.

    Parameters
    ----------
    hitting : array
        The operating cost of each run, of shape (n,).
    switching : array
        The switching cost of each run, of shape (n,).
    rounds : array of int
        The rounds after which ``curves`` was recorded, of shape (c,).
    curves : array
        Running sums of both, of shape (n, c, 2); empty unless you asked for checkpoints.
    engine : str
        ``"lanes"`` if all runs were played side by side, ``"runs"`` if each was played by :func:`~klazy.run`, ``"mixed"`` if
        only some were.
    device : str
        The device: ``"cpu"``, ``"cuda"`` or ``"mixed"``.

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
        """The total cost of each run, of shape (n,)."""
        return self.hitting + self.switching

    def __repr__(self) -> str:
        best = int(self.cost.argmin())
        return f"Batch({len(self.cost)} runs, least cost {self.cost[best]:.6g} in run {best}, engine={self.engine!r})"

    @show_card
    def _repr_html_(self) -> str:
        """Show in a notebook what the runs paid, from the least to the most."""
        cost = self.cost
        rows = [
            {"": name, **{word: float(of(paid)) for word, of in SUMMARIES.items()}}
            for name, paid in (
                ("hitting", self.hitting),
                ("switching", self.switching),
                ("cost", cost),
            )
        ]
        words = (
            f"{len(cost)} runs, the least cost in run {int(cost.argmin())}, engine: {self.engine}"
        )
        parts = load_macros()
        return parts.card("Batch", "", parts.paragraphs([words]), parts.table(rows, 6))


def run_batch(
    learners: Sequence[Learner[Any]],
    costs: Costs | ArrayLike | Sequence[Costs | ArrayLike],
    *,
    movement: Movement | str | None = None,
    checkpoints: int = 0,
    jobs: int | None = None,
    device: str = "cpu",
) -> Batch:
    """Play many learners and record only sums: the quickest way to compare many settings or seeds.

    The sums are those of :func:`~klazy.run` with ``record="totals"``, to 1e-12. Linear costs in up to 8 dimensions are played
    many runs at once, as lanes of vector registers, on every set with a kernel, by every learner with a rule and for every
    movement cost. Runs whose schedules differ only in scale are fastest. Everything else is played by :func:`~klazy.run_many`;
    rules of thumb without a kernel that average the same rounds share that work. On a GPU every run has its own thread, in
    up to 64 dimensions.

    Parameters
    ----------
    learners : list of Learner
        The learners, one per run.
    costs : Costs or array_like or list of these
        One sequence for all learners; or one for each, as a list or as an array of shape (n, T, d), all of one length.
    movement : Movement or str, optional
        The movement cost, as in :func:`~klazy.run`.
    checkpoints : int, optional
        How many points of each run's curve to record, evenly spaced, the last after round T; T at most. Default: none.
    jobs : int, optional
        How many threads to use. Default: as many as there are cores.
    device : str, optional
        ``"cpu"``, the default; ``"cuda"`` for a GPU, ``"cuda:0,1"`` for several; ``"auto"`` for a GPU if there is one and it
        can play the runs.

    Returns
    -------
    Batch
        The costs of each run.

    Raises
    ------
    ValueError
        If sequences differ in length, or a GPU is asked for that cannot play the runs.

    Examples
    --------
    >>> batch = run_batch([KLazyGD(L2Ball(3), 2.0, k=k) for k in (1, 5, 25)], np.ones((100, 3)), checkpoints=4)
    >>> batch.hitting.round(3).tolist(), batch.rounds.tolist(), batch.engine
    ([-171.241, -171.241, -171.241], [25, 50, 75, 100], 'lanes')

    A sequence for each run:

    >>> seeds = np.random.default_rng(0).normal(size=(3, 100, 3))
    >>> run_batch([KLazyGD(L2Ball(3), 2.0, k=5) for _ in seeds], seeds).cost.round(3).tolist()
    [44.623, 64.083, 42.643]
    """
    chosen = choose_device(device)
    filled_list(learners, "learners", "such as [GD(L2Ball(5), 1.0)]")
    sequences = list_sequences(learners, costs)
    workers = count_workers(jobs)
    # One sequence to a thread, if there are several.
    share = 1 if len(sequences) > 1 else workers
    groups = []
    for sequence, members in sequences:
        groups.append(_Runs(members, learners, sequence, movement, checkpoints, share))
    _check_lengths(groups)
    on_gpu = np.zeros(len(learners), dtype=bool)
    if chosen != "cpu":
        on_gpu = _play_on_gpu(learners, groups, chosen, is_strict=device != "auto")
    marks = groups[0].marks
    sums = np.empty((len(learners), len(marks), 2))
    beside = on_gpu.copy()

    def play_rest(runs: _Runs) -> None:
        beside[runs.members] |= runs.play(on_gpu[runs.members])
        sums[runs.members] = runs.sums

    map_threads(play_rest, groups, workers)
    recorded = slice(None) if checkpoints else slice(0)
    hitting, switching = sums[:, -1].T.copy()
    engine = _name_share(beside, "lanes", "runs")
    place = _name_share(on_gpu, "cuda", "cpu")
    return Batch(hitting, switching, marks[recorded], sums[:, recorded], engine, place)


def _name_share(chosen: np.ndarray, of_all: str, of_none: str) -> str:
    """Return the word for runs of which some were chosen."""
    if chosen.all():
        return of_all
    return "mixed" if chosen.any() else of_none


def _check_lengths(groups: list[_Runs]) -> None:
    lengths = {runs.costs.T for runs in groups}
    if len(lengths) > 1:
        raise InvalidInput(
            f"All sequences of costs must have one length, got {min(lengths)} to {max(lengths)} rounds. "
            "Call run_batch once for each length."
        )


def _play_on_gpu(
    learners: Sequence[Any], groups: list[_Runs], device: str, *, is_strict: bool
) -> np.ndarray:
    """Play the runs that a GPU can play, and return which these are; ``is_strict`` rejects others."""
    players, numbers = find_distinct(learners)
    able = np.zeros(len(learners), dtype=bool)
    obstacles: dict[tuple[int, int | None], str | None] = {}
    for runs in groups:
        code = code_of(runs.costs)
        for i, player in zip(runs.members.tolist(), numbers[runs.members].tolist(), strict=True):
            if (player, code) not in obstacles:
                movement = runs.movement_of(players[player])
                obstacles[player, code] = find_gpu_obstacle(players[player], runs.costs, movement)
            obstacle = obstacles[player, code]
            able[i] = obstacle is None
            if is_strict and obstacle is not None:
                raise InvalidInput(
                    f"A GPU cannot play learners[{i}]: {obstacle}. Use device='auto' or 'cpu'."
                )
    movements = [groups[0].movement_of(player) for player in players]
    sequences = [runs.costs.arrays()[0] for runs in groups]
    who = [numbers[runs.members[able[runs.members]]] for runs in groups]
    found = play_learners(players, movements, sequences, who, groups[0].marks, list_gpus(device))
    for runs, sums in zip(groups, found, strict=True):
        runs.sums[able[runs.members]] = sums
    return able


class _Runs:
    """The runs on one sequence, checked, and their sums at each mark, of shape (n, marks, 2).

    ``members`` says which of all runs they are.
    """

    def __init__(
        self,
        members: np.ndarray,
        learners: Any,
        costs: Any,
        movement: Any,
        checkpoints: Any,
        workers: int,
    ) -> None:
        known = as_costs(costs)
        self.members = members
        self.learners = [learners[i] for i in members.tolist()]
        _check_learners(self.learners, known)
        game = Game.check(self.learners[0].domain, known, movement)
        self.costs = game.costs
        self.given = movement
        self.movement = game.movement
        self.weights = game.weights
        self.workers = workers
        self.marks = make_marks(checkpoints, known.T)
        self.sums = np.empty((len(members), len(self.marks), 2))
        self._lanes: dict[tuple[Any, ...], bool] = {}

    def movement_of(self, learner: Any) -> Movement:
        """Return the movement cost of this learner."""
        return learner.own_movement if self.given is None else self.movement

    def play(self, done: np.ndarray) -> np.ndarray:
        """Play all runs but those that are ``done``; return which were played as lanes."""
        if done.all() and np.isfinite(self.sums).all():
            return ~done
        ways = np.array([self._choose_way(learner) for learner in self.learners])
        lanes = (ways == "lanes") & ~done
        self._play_lanes(np.flatnonzero(lanes))
        self._play_rows(np.flatnonzero((ways == "rows") & ~done))
        beside = np.flatnonzero(lanes | done)
        lost = beside[~np.isfinite(self.sums[beside]).all(axis=(1, 2))]
        if lost.size:
            # Search the costs first. The runs are then played again one by one, so that run reports what it finds.
            self.costs.check_finite()
        others = np.flatnonzero((ways == "runs") & ~done)
        self._play_runs(np.concatenate((others, lost)))
        return lanes

    def _choose_way(self, learner: Any) -> str:
        """Return how a learner is played on the CPU: as one of several lanes, by rows, or alone."""
        if is_short(learner, self.costs, len(self.learners)):
            return "rows"
        # Without a movement of the batch, each learner pays for its own.
        if (self.given is not None or learner.own_movement == self.movement) and self._has_lanes(
            learner
        ):
            return "lanes"
        if not knows_rows(learner, self.costs):
            return "runs"
        missing = find_missing_part(learner, self.costs, self.movement_of(learner))
        return "runs" if missing is None else "rows"

    def _has_lanes(self, learner: Any) -> bool:
        """Return True if lanes know this learner, its set, costs and movement; thousands of runs are of few kinds."""
        if rule_of(learner) in MANY:
            return False
        parts = (type(getattr(learner, name, None)) for name in ("sigma", "memory"))
        kind = (type(learner), rule_of(learner), id(learner.domain), *parts)
        if kind not in self._lanes:
            is_small = code_of(self.costs) == LINEAR and learner.domain.dim <= UNROLLED_DIM
            self._lanes[kind] = is_small and find_missing_part(learner, self.movement) is None
        return self._lanes[kind]

    def _play_runs(self, runs: np.ndarray) -> None:
        """Play these runs one by one, and few at a time if the costs of all rounds must be in memory."""
        is_curve = len(self.marks) > 1
        record: Any = "costs" if is_curve else "totals"
        few = _PIECES * self.workers if is_curve else len(self.learners)
        starts = np.concatenate(([0], self.marks[:-1]))
        for first in range(0, len(runs), few):
            members = runs[first : first + few]
            some = [self.learners[i] for i in members]
            traces = run_many(
                some, self.costs, movement=self.given, jobs=self.workers, record=record
            )
            for i, trace in zip(members, traces, strict=True):
                if is_curve:
                    parts = np.add.reduceat((trace.hitting, trace.switching), starts, axis=1)
                    self.sums[i] = parts.cumsum(axis=1).T
                else:
                    self.sums[i] = trace.totals

    def _play_rows(self, runs: np.ndarray) -> None:
        """Play these runs, whose learners follow rows; those with one view share what they compute."""
        alike: dict[Any, list[int]] = {}
        for i in runs:
            learner = self.learners[i]
            view = type(learner) if learner.look is None else learner.view
            alike.setdefault((learner.domain, view, self.movement_of(learner)), []).append(int(i))
        map_threads(self._follow, alike.values(), self.workers)

    def _follow(self, members: list[int]) -> None:
        """Play runs that share a view and a movement."""
        learners = [self.learners[i] for i in members]
        movement = self.movement_of(learners[0])
        game = Game(self.costs, movement, movement.weights(self.costs.T), None)
        rounds = np.zeros(len(members), dtype=int)
        sums = np.zeros((len(members), 2))
        for who, _, values, paid in follow_rows(
            learners, game, [learner.init() for learner in learners]
        ):
            stops = self.marks - rounds[who]
            here = np.flatnonzero((stops > 0) & (stops <= len(values)))
            *parts, rest = np.split(np.stack((values, paid)), stops[here], axis=1)
            for m, part in zip(here, parts, strict=True):
                sums[who] += part.sum(axis=1)
                self.sums[members[who], m] = sums[who]
            sums[who] += rest.sum(axis=1)
            rounds[who] += len(values)

    def _play_lanes(self, runs: np.ndarray) -> None:
        """Play these runs, many at a time."""
        sets = number_equal([self.learners[i].domain for i in runs])
        pieces = [
            piece
            for number in np.unique(sets)
            for piece in self._cut_pieces(runs[sets == number])
        ]
        map_threads(lambda piece: self._play_piece(*piece), pieces, self.workers)

    def _cut_pieces(
        self, members: np.ndarray
    ) -> Iterator[tuple[Any, tuple[Any, ...], np.ndarray]]:
        """Yield the work of these runs on one set in pieces: a kernel, what it is given, and its runs."""
        from klazy.kernels.batch import GROUP, batch_kernel

        learners = [self.learners[i] for i in members]
        domain = learners[0].domain
        rows, program = write_program(learners, self.movement)
        data = self.costs.arrays()[0]
        size = -(-len(members) // (LANES * GROUP * _PIECES * self.workers)) * GROUP
        for kind, order in group_runs(rows, LANES).items():
            blocks = lay_blocks(rows, fill_lanes(order, LANES))
            kernel = batch_kernel(
                domain.code, kind.rule, self.movement.code, domain.dim, kind.is_shared
            )
            for first in range(0, len(blocks), size):
                some = blocks[first : first + size]
                given = (
                    data,
                    self.weights,
                    kind.schedule,
                    kind.offset,
                    program,
                    some,
                    self.marks,
                )
                yield kernel, given, members[order[first * LANES : (first + size) * LANES]]

    def _play_piece(self, kernel: Any, given: tuple[Any, ...], members: np.ndarray) -> None:
        """Call a kernel, and store the sums of its runs."""
        *_, blocks, marks = given
        curves = np.empty((len(blocks), len(marks), 2, LANES))
        # Sums that are not finite are found by the caller.
        with np.errstate(all="ignore"):
            kernel(*given, curves)
        sums = curves.transpose(0, 3, 1, 2).reshape(-1, len(marks), 2)
        self.sums[members] = sums[: len(members)]


def _check_learners(learners: Sequence[Any], costs: Costs) -> None:
    """Reject a learner that cannot play these costs."""
    for i, learner in enumerate(learners):
        check_player(learner, f"learners[{i}]")
        check_family(learner, costs)
        if learner.domain.dim != costs.dim:
            raise InvalidInput(
                f"learners[{i}].domain must have dimension {costs.dim}, as costs do, got {learner.domain!r}."
            )
