"""Runs on a GPU: what it plays, piece by piece, while the next piece is on its way.

A piece is bounded by :data:`PIECE_BYTES` and :data:`PIECE_ROUNDS`, and two are on the GPU at a time, so that its memory is
bounded whatever is asked for, and Ctrl-C is heard between two pieces.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, Refused, one_of, refusal
from klazy.base.install import advise_install
from klazy.kernels import codes
from klazy.kernels.layout import (
    LEADER,
    MANY,
    EnsembleLayout,
    LeaderLayout,
    find_missing_part,
    rule_of,
    write_rows,
)
from klazy.kernels.rules import RULES
from klazy.movement import Movement

DEVICES = ("cpu", "cuda", "auto")
LARGEST_DIM = 64  # that GPU kernels are laid out for
MOST_EXPERTS = 512  # of an ensemble: a thread each
PIECE_BYTES = 1 << 29  # of sequences and sums on the GPU for one piece, of which there are two
PIECE_ROUNDS = 4e10  # learner-rounds of a piece: a fraction of a second
LEAST_PLACES = 1 << 17  # runs that fill a GPU
Progress = Callable[[int], object]  # told how many runs have been played since it was called last


class DeviceFailed(Refused):
    """The GPU could not finish: out of memory, lost, or a kernel that was ended."""


def choose_device(owner: str, device: str) -> str:
    """``"cpu"`` or ``"cuda"``; refused if a GPU is asked for and something for it is missing.

    Numba's simulator stands in for a GPU if one is asked for, and not for ``"auto"``.
    """
    one_of(device, "device", owner, DEVICES)
    if device == "cpu":
        return "cpu"
    is_simulated = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1"
    if is_simulated:
        return "cuda" if device == "cuda" else "cpu"
    condition, remedy = _find_what_lacks()
    if condition is None:
        return "cuda"
    if device == "auto":
        return "cpu"
    raise refusal(owner, condition, "device", device, f"{remedy}, or take device='cpu'")


def _find_what_lacks() -> tuple[str | None, str]:
    """What a GPU needs and is not there, and how to get it."""
    if find_spec("numba_cuda") is None:
        return "the package numba-cuda", f"`{advise_install('gpu')}`"
    from klazy.kernels.cuda import find_gpu

    if not find_gpu():
        return "an NVIDIA GPU with its driver", "run it where `nvidia-smi` shows one"
    return None, ""


def name_device(device: str) -> str:
    """What runs are played on, in words."""
    if device == "cpu":
        return f"CPU, {os.cpu_count()} cores"
    from klazy.kernels.cuda import name_gpu

    return name_gpu()


def find_obstacle(learner: Any, costs: Any, movement: Movement) -> str | None:
    """Why a GPU does not play this learner, or None."""
    if codes.code_of(costs) != codes.LINEAR:
        return f"{type(costs).__name__}, which are not linear"
    if learner.domain.dim > LARGEST_DIM:
        return f"dimension {learner.domain.dim}, which is above {LARGEST_DIM}"
    missing = find_missing_part(learner, movement)
    if missing is not None:
        return f"{missing}, which has no kernel"
    if rule_of(learner) in MANY:
        return _find_obstacle_of_many(learner)
    return _find_ring(learner)


def _find_ring(learner: Any) -> str | None:
    """A learner whose rule keeps a ring of rows, for which a thread of a GPU has no room; None for others."""
    return f"{type(learner).__name__}, which keeps a window of rounds" if RULES[learner.rule].ring else None


def _find_obstacle_of_many(learner: Any) -> str | None:
    """Why a GPU does not play this learner that is made of others, or None."""
    if len(learner.experts) > MOST_EXPERTS:
        return f"{len(learner.experts)} experts, which are more than {MOST_EXPERTS}"
    rows = getattr(learner, "rows", (codes.LINEAR,))
    if rows[0] != codes.LINEAR:
        return f"the family {type(learner.family).__name__}"
    return next(filter(None, map(_find_ring, learner.experts)), None)


class Grid(NamedTuple):
    """Learners on one set, and sequences of one length: sequence ``s`` is played by the learners ``who[s]``."""

    learners: Sequence[Any]
    sequences: Sequence[Array]
    who: Sequence[np.ndarray]
    movement: Movement
    marks: np.ndarray


def play_grid(grid: Grid, progress: Progress | None = None) -> list[Array]:
    """What the runs of every sequence paid, each of shape (runs, marks, 2)."""
    found = [np.empty((len(members), len(grid.marks), 2)) for members in grid.who]
    for piece in play_pieces(cut_grid(grid)):
        for s, members, sums in piece:
            found[s][members] = sums
            if progress is not None:
                progress(len(members))
    return found


class _Kind(NamedTuple):
    """What the runs of a launch share."""

    rule: int
    schedule: int
    memory: int
    shared: bool
    offset: float


def _group_learners(rows: Array) -> dict[_Kind, np.ndarray]:
    """The learners of each kind; where all offsets of a schedule are equal, the runs share their sigmas."""
    about = rows[:, [codes.RULE, codes.SCHEDULE, codes.MEMORY]].astype(int)
    distinct, place = np.unique(about, axis=0, return_inverse=True)
    kinds = {}
    for number, (rule, schedule, memory) in enumerate(distinct.tolist()):
        members = np.flatnonzero(place.ravel() == number)
        offsets = rows[members, codes.B]
        shared = schedule != codes.SCALE_FREE and bool((offsets == offsets[0]).all())
        kinds[_Kind(rule, schedule, memory, shared, float(offsets[0]))] = members
    return kinds


class _Launch(NamedTuple):
    """What one kernel plays: ``shared`` are the arrays of all its pieces, ``numbers`` the plain ones.

    A block of ``threads`` plays one sequence. ``per_block`` of its places are runs, and ``box`` bytes are what they share.
    ``own`` numbers more lie in the GPU's memory for every block, if its kernel asks for any.
    """

    kernel: Any
    numbers: dict[str, Any]
    shared: dict[str, Array]
    threads: int
    per_block: int
    box: int = 0
    own: int | None = None


class _Piece(NamedTuple):
    """A part of the work of a launch: which learner plays in which place, and which sequence each block plays.

    ``spans`` says for each sequence of the piece which of its runs lie in which places.
    """

    launch: _Launch
    sequences: list[Array]
    who: np.ndarray
    which: np.ndarray
    spans: list[tuple[int, np.ndarray, slice]]


def cut_grid(grid: Grid) -> Iterator[_Piece]:
    """The pieces of a grid."""
    many = np.array([rule_of(learner) in MANY for learner in grid.learners])
    for launch, members in (
        *_list_runs(grid, np.flatnonzero(~many)),
        *_list_ensembles(grid, np.flatnonzero(many)),
    ):
        yield from _cut_launch(grid, launch, members)


def _list_runs(grid: Grid, some: np.ndarray) -> Iterator[tuple[_Launch, np.ndarray]]:
    """The launches of these learners, which play alone, and the learners of each in their order."""
    from klazy.kernels.cuda_batch import THREADS, batch_kernel

    if not some.size:
        return
    learners = [grid.learners[i] for i in some]
    domain = learners[0].domain
    d = domain.dim
    weights = grid.movement.weights(int(grid.marks[-1]))
    rows = write_rows(learners, [learner.init() for learner in learners])
    prices = np.resize(grid.movement.prices(d), 2 * d)
    program = np.concatenate((prices, domain.parameters(), np.zeros(d)))
    for kind, members in _group_learners(rows).items():
        width = list(RULES.values())[kind.rule].width
        order = members[
            np.argsort(rows[members, codes.SLACK], kind="stable")
        ]  # phases of a warp end together
        kernel = batch_kernel(
            domain.code, kind.rule, kind.schedule, kind.memory, grid.movement.code, d, kind.shared, weights.size > 1
        )  # fmt: skip
        shared = {
            "weights": weights,
            "program": program,
            "rows": rows[order, : codes.FIELDS + (1 + width) * d],
            "marks": grid.marks,
        }
        yield _Launch(kernel, {"d": d, "offset": kind.offset}, shared, THREADS, THREADS), some[order]


def _list_ensembles(grid: Grid, some: np.ndarray) -> Iterator[tuple[_Launch, np.ndarray]]:
    """The same of learners that are made of others."""
    from klazy.kernels.cuda import count_box_bytes
    from klazy.kernels.cuda_ensemble import count_threads, ensemble_kernel
    from klazy.kernels.cuda_season import count_season_room

    alike: dict[Any, list[tuple[int, Array]]] = {}
    weights = grid.movement.weights(int(grid.marks[-1]))
    for i in some:
        learner = grid.learners[i]
        leads = rule_of(learner) == LEADER
        threads = count_threads(len(learner.experts))
        layout = LeaderLayout(learner, threads) if leads else EnsembleLayout(learner, threads)
        state = learner.init()
        image = layout.pack(state)
        season = state.season.size if leads else 0
        sizes = (image.size, season, layout.is_long)
        kind = (learner.domain.code, layout.rules, learner.domain.dim, threads, leads, *sizes)
        alike.setdefault(kind, []).append((int(i), image))
    for (code, rules, d, threads, leads, size, season, is_long), members in alike.items():
        kernel = ensemble_kernel(code, rules, d, threads, leads, weights.size > 1, is_long)
        numbers = {"d": d, "move": grid.movement.code, "size": size, "season": season}
        shared = {
            "weights": weights,
            "prices": np.resize(grid.movement.prices(d), 2 * d),
            "memory": np.stack([image for _, image in members]),
            "marks": grid.marks,
        }
        box = count_box_bytes(d, threads)
        launch = _Launch(kernel, numbers, shared, threads, 1, box, count_season_room(season))
        yield launch, np.array([i for i, _ in members])


def _cut_launch(grid: Grid, launch: _Launch, members: np.ndarray) -> Iterator[_Piece]:
    """The pieces of a launch, whose learners are these."""
    T = int(grid.marks[-1])
    d = launch.numbers["d"]
    work = launch.threads // launch.per_block  # threads of a run
    most = _count_places(T * work, len(grid.marks), launch.own or 0)
    room = PIECE_BYTES // (2 * T * d * 8) + 1  # sequences
    rank = np.full(len(grid.learners), -1)
    rank[members] = np.arange(len(members))
    cutter = _Cutter(launch)
    for s, learners in enumerate(grid.who):
        ranks = rank[learners]
        runs = np.flatnonzero(ranks >= 0)
        runs = runs[np.argsort(ranks[runs], kind="stable")]
        for first in range(0, len(runs), most):
            some = runs[first : first + most]
            if cutter.places and (cutter.places + len(some) > most or len(cutter.sequences) >= room):
                yield cutter.finish()
            cutter.add(s, grid.sequences[s], some, ranks[some])
    if cutter.places:
        yield cutter.finish()


def _count_places(T: int, marks: int, own: int = 0) -> int:
    """How many runs of T rounds a piece has at most, each with so many numbers of its own."""
    by_work = max(LEAST_PLACES, int(PIECE_ROUNDS / T))
    by_memory = PIECE_BYTES // (2 * 16 * marks + 8 * own)
    return max(1024, min(by_work, by_memory))


class _Cutter:
    """A piece in the making."""

    def __init__(self, launch: _Launch) -> None:
        self.launch = launch
        self._clear()

    def _clear(self) -> None:
        self.places = 0
        self.sequences: list[Array] = []
        self.who: list[np.ndarray] = []
        self.which: list[np.ndarray] = []
        self.spans: list[tuple[int, np.ndarray, slice]] = []

    def add(self, s: int, sequence: Array, runs: np.ndarray, ranks: np.ndarray) -> None:
        """Some runs on sequence ``s``, in blocks of their own; places left over repeat the last run."""
        blocks = -(-len(runs) // self.launch.per_block)
        padded = np.full(blocks * self.launch.per_block, ranks[-1])
        padded[: len(ranks)] = ranks
        self.spans.append((s, runs, slice(self.places, self.places + len(runs))))
        self.which.append(np.full(blocks, len(self.sequences)))
        self.who.append(padded)
        self.sequences.append(sequence)
        self.places += len(padded)

    def finish(self) -> _Piece:
        """The piece, after which another may begin."""
        who = np.concatenate(self.who)
        which = np.concatenate(self.which)
        made = _Piece(self.launch, self.sequences, who, which, self.spans)
        self._clear()
        return made


Played = list[tuple[int, np.ndarray, Array]]  # for each sequence some runs and their sums


def play_pieces(pieces: Iterator[_Piece]) -> Iterator[Played]:
    """Each piece in turn; while one is played, the next is made and copied."""
    from klazy.kernels.cuda import Memory, name_failures

    try:
        waiting: _Playing | None = None
        memory = Memory()
        for number, piece in enumerate(pieces):
            begun = _Playing(piece, memory, memory.stream(number))
            if waiting is not None:
                yield waiting.collect()
            waiting = begun
        if waiting is not None:
            yield waiting.collect()
    except name_failures() as failed:
        lines = str(failed).strip().splitlines() or [type(failed).__name__]
        raise DeviceFailed(
            f"klazy needs a GPU that finishes its work, got error={lines[0]}; play fewer runs at a time, or take the CPU."
        ) from failed


def _join(sequences: Sequence[Array]) -> Array:
    """Sequences of one shape one after the other, without a copy where they lie so: a copy takes longer than their rounds."""
    base = sequences[0].base
    if isinstance(base, np.ndarray) and base.flags.c_contiguous and base.dtype == sequences[0].dtype:
        size = sequences[0].nbytes
        start = _find_address(sequences[0])
        follow = all(
            each.base is base and each.flags.c_contiguous and _find_address(each) == start + i * size
            for i, each in enumerate(sequences)
        )
        if follow:
            first = (start - _find_address(base)) // base.itemsize
            return base.reshape(-1)[first : first + sum(each.size for each in sequences)]
    return np.concatenate(sequences)


def _find_address(array: Array) -> int:
    return array.__array_interface__["data"][0]


class _Playing:
    """A piece that the GPU is at."""

    def __init__(self, piece: _Piece, memory: Any, stream: Any) -> None:
        launch = piece.launch
        marks = len(launch.shared["marks"])
        self.piece = piece
        self.stream = stream
        self.shape = (marks, 2, len(piece.who))
        if len(piece.sequences) == 1:
            data = memory.keep("data", piece.sequences[0])
        else:
            data = memory.send(_join(piece.sequences), stream)
        arrays = {name: memory.keep(name, array) for name, array in launch.shared.items()}
        arrays["who"] = memory.send(piece.who, stream)
        arrays["which"] = memory.send(piece.which, stream)
        if launch.own is not None:
            arrays["own"] = memory.allocate(max(1, launch.own * len(piece.which)), stream)
        self.curves = memory.allocate(2 * marks * len(piece.who), stream)
        launch.kernel[len(piece.which), launch.threads, stream, launch.box](
            data, *launch.numbers.values(), *arrays.values(), self.curves
        )

    def collect(self) -> Played:
        """Its runs with their sums, once it has been played."""
        curves = self.curves.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        sums = curves.reshape(self.shape).transpose(2, 0, 1)
        return [(s, runs, sums[places]) for s, runs, places in self.piece.spans]
