"""Runs on a GPU, piece by piece: while it plays one, the next is copied.

A piece is bounded by :data:`PIECE_BYTES` and :data:`PIECE_ROUNDS`, and two are on the GPU at a time. So memory is bounded
however many runs there are, and Ctrl-C takes effect between two pieces.
"""

import os
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.base.install import advise_install
from klazy.base.parallel import map_threads
from klazy.game.plan import group_runs, number_equal, write_program
from klazy.kernels import codes
from klazy.kernels.layout import (
    LEADER,
    MANY,
    EnsembleLayout,
    LeaderLayout,
    find_missing_part,
    rule_of,
)
from klazy.kernels.rules import RULES
from klazy.movement import Movement

DEVICES = re.compile(r"cpu|auto|cuda(:\d+(,\d+)*)?")
KNOWN_DEVICES = "'cpu', 'cuda', 'auto' or GPUs by number such as 'cuda:0,1'"
LARGEST_DIM = 64  # the largest dimension with GPU kernels
MOST_EXPERTS = 512  # most experts of an ensemble, each of which has a thread
# Bytes of the sequences and sums of one piece on the GPU; there are two pieces.
PIECE_BYTES = 1 << 29
PIECE_ROUNDS = 4e10  # learner-rounds of a piece: a fraction of a second
LEAST_PLACES = 1 << 17  # runs that fill a GPU
# Numba's simulator plays one kernel at a time. A GPU does not hold the lock: it plays after the call.
_LAUNCHING = Lock()


class DeviceFailed(InvalidInput):
    """The GPU could not finish: out of memory, lost, or a kernel that was ended."""


def choose_device(device: str) -> str:
    """Return ``"cpu"``, ``"cuda"`` or GPUs by number; reject a GPU if it or something that it needs is missing.

    Numba's simulator replaces GPUs, but not for ``"auto"``.
    """
    if not isinstance(device, str) or not DEVICES.fullmatch(device):
        raise InvalidInput(f"device must be {KNOWN_DEVICES}, got {device!r}.")
    if device == "cpu":
        return "cpu"
    is_simulated = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1"
    if is_simulated:
        return "cpu" if device == "auto" else device
    problem = _find_missing_requirement(list_gpus(device))
    if problem is None:
        return "cuda" if device == "auto" else device
    if device == "auto":
        return "cpu"
    raise InvalidInput(f"device={device!r} {problem}, or use device='cpu'.")


def list_gpus(device: str) -> list[int]:
    """Return the numbers of the GPUs that a device names, each once; none for ``"cuda"``, which is the current one."""
    return sorted({int(number) for number in re.findall(r"\d+", device)})


def _find_missing_requirement(gpus: list[int]) -> str | None:
    """Return what a GPU needs and is missing, and how to get it."""
    if find_spec("numba_cuda") is None:
        return f"needs numba-cuda, which is not installed. Run `{advise_install('gpu')}`"
    from klazy.kernels.cuda import count_gpus

    count = count_gpus()
    if not count:
        return "needs an NVIDIA GPU with its driver. Run it where `nvidia-smi` shows one"
    if max(gpus, default=0) >= count:
        return f"needs GPU {max(gpus)}, but the last one here is {count - 1}. Name those that `nvidia-smi` shows"
    return None


def name_device(device: str) -> str:
    """Return the name of a device, in words."""
    if device == "cpu":
        return f"CPU, {os.cpu_count()} cores"
    from klazy.kernels.cuda import name_gpu, use_gpu

    names = []
    for number in list_gpus(device) or [None]:
        with use_gpu(number):
            names.append(name_gpu())
    return ", ".join(names)


def find_gpu_obstacle(learner: Any, costs: Any, movement: Movement) -> str | None:
    """Return why a GPU does not play this learner, or None."""
    if codes.code_of(costs) != codes.LINEAR:
        return f"{type(costs).__name__}, which are not linear"
    if learner.domain.dim > LARGEST_DIM:
        return f"dimension {learner.domain.dim}, which is above {LARGEST_DIM}"
    missing = find_missing_part(learner, movement)
    if missing is not None:
        return f"{missing}, which has no kernel"
    players = learner.experts if rule_of(learner) in MANY else (learner,)
    if len(players) > MOST_EXPERTS:
        return f"{len(players)} experts, which are more than {MOST_EXPERTS}"
    if getattr(learner, "rows", (codes.LINEAR,))[0] != codes.LINEAR:
        return f"the family {type(learner.family).__name__}"
    for player in players:
        # A thread of a GPU has no room for a ring of rows.
        if RULES[player.rule].ring:
            return f"{type(player).__name__}, which keeps a window of rounds"
    return None


class Grid(NamedTuple):
    """Learners on one set, and sequences of one length: sequence ``s`` is played by the learners ``who[s]``."""

    learners: Sequence[Any]
    sequences: Sequence[Array]
    who: Sequence[np.ndarray]
    movement: Movement
    marks: np.ndarray


def play_learners(
    learners: Sequence[Any],
    movements: Sequence[Movement],
    sequences: Sequence[Array],
    who: Sequence[np.ndarray],
    marks: np.ndarray,
    gpus: Sequence[int] = (),
) -> list[Array]:
    """Return the costs of the learners ``who[s]`` on each sequence at each mark, of shape (runs, marks, 2).

    Learners on equal sets with equal movement costs are played as one grid, on the current GPU or on those numbered.
    """
    sums = [np.empty((len(members), len(marks), 2)) for members in who]
    used = np.unique(np.concatenate(who)).tolist()
    sets = number_equal([learners[i].domain for i in used])
    kind = np.full(len(learners), -1)
    kind[used] = sets * len(used) + number_equal([movements[i] for i in used])
    for each in np.unique(kind[used]):
        chosen = np.flatnonzero(kind == each).tolist()
        rank = np.searchsorted(chosen, np.arange(len(learners)))
        mine = [kind[members] == each for members in who]
        players = [rank[members[some]] for members, some in zip(who, mine, strict=True)]
        grid = Grid(
            [learners[i] for i in chosen], sequences, players, movements[chosen[0]], marks
        )
        for found, some, paid in zip(sums, mine, play_grid(grid, gpus), strict=True):
            found[some] = paid
    return sums


def play_grid(grid: Grid, gpus: Sequence[int] = ()) -> list[Array]:
    """Return the costs of the runs on every sequence at each mark, each of shape (runs, marks, 2).

    Several GPUs have a thread each, which takes the next piece when it is ready to copy one.
    """
    from klazy.kernels.cuda import use_gpu

    found = [np.empty((len(members), len(grid.marks), 2)) for members in grid.who]
    # A list's iterator gives each piece to one thread.
    pieces = iter(list(cut_grid(grid, len(gpus))))

    def play(gpu: int | None) -> None:
        with use_gpu(gpu):
            for piece in play_pieces(pieces):
                for s, members, sums in piece:
                    found[s][members] = sums

    if len(gpus) > 1:
        map_threads(play, gpus, len(gpus))
    else:
        play(gpus[0] if gpus else None)
    return found


class _Launch(NamedTuple):
    """A kernel with the arrays that all its pieces share, and plain numbers.

    A block of ``threads`` plays one sequence. It has places for ``per_block`` runs, which share ``box`` bytes, and ``own``
    numbers in the GPU's memory if its kernel needs any.
    """

    kernel: Any
    numbers: dict[str, Any]
    shared: dict[str, Array]
    threads: int
    per_block: int
    box: int = 0
    own: int | None = None


class _Piece(NamedTuple):
    """A part of a launch: for each of some sequences its number, its data, runs, and the learners that play them."""

    launch: _Launch
    spans: list[tuple[int, Array, np.ndarray, np.ndarray]]


def cut_grid(grid: Grid, gpus: int = 1) -> Iterator[_Piece]:
    """Yield the pieces of a grid, two or more for each of several GPUs."""
    many = np.array([rule_of(learner) in MANY for learner in grid.learners])
    yield from _cut_launches(grid, _list_runs(grid, np.flatnonzero(~many)), gpus)
    yield from _cut_launches(grid, _list_ensembles(grid, np.flatnonzero(many)), gpus)


def _list_runs(grid: Grid, some: np.ndarray) -> Iterator[tuple[_Launch, np.ndarray]]:
    """Yield the launches of these learners, which play alone, and the learners of each in their order."""
    from klazy.kernels.cuda_batch import BLOCK_THREADS, runs_kernel

    if not some.size:
        return
    learners = [grid.learners[i] for i in some]
    domain = learners[0].domain
    d = domain.dim
    weights = grid.movement.weights(int(grid.marks[-1]))
    rows, program = write_program(learners, grid.movement)
    for kind, order in group_runs(rows, np.inf).items():
        width = list(RULES.values())[kind.rule].width
        kernel = runs_kernel(
            domain.code, kind.rule, kind.schedule, kind.memory, grid.movement.code, d, kind.is_shared, weights.size > 1
        )  # fmt: skip
        size = codes.FIELDS + (1 + width) * d
        shared = {
            "weights": weights,
            "program": program,
            "rows": rows[order, :size],
            "marks": grid.marks,
        }
        yield (
            _Launch(
                kernel, {"d": d, "offset": kind.offset}, shared, BLOCK_THREADS, BLOCK_THREADS
            ),
            some[order],
        )


def _list_ensembles(grid: Grid, some: np.ndarray) -> Iterator[tuple[_Launch, np.ndarray]]:
    """Yield the launches of learners that are made of others, and the learners of each."""
    from klazy.kernels.cuda_ensemble import (
        count_box_bytes,
        count_shared_room,
        count_threads,
        ensemble_kernel,
    )

    alike: dict[Any, list[tuple[int, Array]]] = {}
    weights = grid.movement.weights(int(grid.marks[-1]))
    for i in some:
        learner = grid.learners[i]
        leads = rule_of(learner) == LEADER
        threads = count_threads(len(learner.experts))
        state = learner.init()
        layout = EnsembleLayout(learner, threads)
        known = regression = 0
        if leads:
            layout = LeaderLayout(learner, threads)
            known = layout.share(state).size
            regression = state.regression.size
        image = layout.pack(state)
        sizes = (image.size, known, regression, layout.is_long)
        kind = (learner.domain.code, layout.rules, learner.domain.dim, threads, leads, *sizes)
        alike.setdefault(kind, []).append((int(i), image))
    for kind, members in alike.items():
        code, rules, d, threads, leads, size, known, regression, is_long = kind
        box, is_near = count_box_bytes(d, threads, regression)
        form = (leads, weights.size > 1, is_long, is_near)
        kernel = ensemble_kernel(code, rules, d, threads, *form)
        numbers = {"d": d, "move": grid.movement.code, "size": size, "known": known}
        shared = {
            "weights": weights,
            "prices": np.resize(grid.movement.prices(d), 2 * d),
            "memory": np.stack([image for _, image in members]),
            "marks": grid.marks,
        }
        launch = _Launch(kernel, numbers, shared, threads, 1, box, count_shared_room(known))
        yield launch, np.array([i for i, _ in members])


def _cut_launches(
    grid: Grid, launches: Iterator[tuple[_Launch, np.ndarray]], gpus: int
) -> Iterator[_Piece]:
    """Yield the pieces of launches, each of which plays these learners."""
    T = int(grid.marks[-1])
    for launch, members in launches:
        per_block = launch.per_block
        # An ensemble occupies a whole block of threads.
        most = _count_places(T * launch.threads // per_block, len(grid.marks), launch.own or 0)
        room = PIECE_BYTES // (2 * T * launch.numbers["d"] * 8) + 1  # sequences
        if gpus > 1:
            most = min(most, max(per_block, sum(map(len, grid.who)) // (2 * gpus)))
        rank = np.full(len(grid.learners), -1)
        rank[members] = np.arange(len(members))
        spans: list[Any] = []
        places = 0
        for s, learners in enumerate(grid.who):
            ranks = rank[learners]
            runs = np.flatnonzero(ranks >= 0)
            runs = runs[np.argsort(ranks[runs], kind="stable")]
            for first in range(0, len(runs), most):
                some = runs[first : first + most]
                if spans and (places + len(some) > most or len(spans) >= room):
                    yield _Piece(launch, spans)
                    spans = []
                    places = 0
                spans.append((s, grid.sequences[s], some, ranks[some]))
                places += -(-len(some) // per_block) * per_block
        if spans:
            yield _Piece(launch, spans)


def _count_places(T: int, marks: int, own: int = 0) -> int:
    """Return how many runs of T rounds a piece may have, each with ``own`` numbers in the GPU's memory."""
    by_work = max(LEAST_PLACES, int(PIECE_ROUNDS / T))
    by_memory = PIECE_BYTES // (2 * 16 * marks + 8 * own)
    return max(1024, min(by_work, by_memory))


# For each sequence some runs and their sums.
PieceSums = list[tuple[int, np.ndarray, Array]]


def play_pieces(pieces: Iterator[_Piece]) -> Iterator[PieceSums]:
    """Play each piece in turn; while one is played, the next is made and copied."""
    from klazy.kernels.cuda import DeviceMemory, name_failures

    try:
        memory = DeviceMemory()
        begun = (
            _Playing(piece, memory, memory.stream(number)) for number, piece in enumerate(pieces)
        )
        for playing, _next in pairwise(chain(begun, (None,))):
            assert playing is not None  # Only the last piece has no next one.
            yield playing.collect()
    except name_failures() as failed:
        lines = str(failed).strip().splitlines() or [type(failed).__name__]
        remedy = "Play fewer runs at a time, or use the CPU."
        said = f"The GPU did not finish its work: {lines[0]}. {remedy}"
        raise DeviceFailed(said) from failed


def _join(sequences: Sequence[Array]) -> Array:
    """Join sequences of one shape, without a copy if they are neighbours in memory: copying takes longer than playing them."""
    base = sequences[0].base
    if (
        isinstance(base, np.ndarray)
        and base.flags.c_contiguous
        and base.dtype == sequences[0].dtype
    ):
        size = sequences[0].nbytes
        start = _find_address(sequences[0])
        follow = all(
            each.base is base
            and each.flags.c_contiguous
            and _find_address(each) == start + i * size
            for i, each in enumerate(sequences)
        )
        if follow:
            first = (start - _find_address(base)) // base.itemsize
            return base.reshape(-1)[first : first + sum(each.size for each in sequences)]
    return np.concatenate(sequences)


def _find_address(array: Array) -> int:
    return array.__array_interface__["data"][0]


class _Playing:
    """A piece that the GPU plays: a sequence in blocks of its own, whose empty places repeat the last run."""

    def __init__(self, piece: _Piece, memory: Any, stream: Any) -> None:
        launch = piece.launch
        marks = len(launch.shared["marks"])
        sequences = [data for _, data, _, _ in piece.spans]
        counts = np.array([len(runs) for _, _, runs, _ in piece.spans])
        blocks = -(-counts // launch.per_block)
        places = blocks * launch.per_block
        self.firsts = np.cumsum(places) - places
        within = np.arange(places.sum()) - np.repeat(self.firsts, places)
        ranks = np.concatenate([ranks for *_, ranks in piece.spans])
        last = np.cumsum(counts)
        who = ranks[
            np.minimum(np.repeat(last - counts, places) + within, np.repeat(last - 1, places))
        ]
        which = np.repeat(np.arange(len(counts)), blocks)
        self.piece = piece
        self.stream = stream
        self.shape = (marks, 2, len(who))
        is_alone = len(sequences) == 1
        data = (
            memory.keep("data", sequences[0])
            if is_alone
            else memory.send(_join(sequences), stream)
        )
        arrays = {name: memory.keep(name, array) for name, array in launch.shared.items()}
        arrays["who"] = memory.send(who, stream)
        arrays["which"] = memory.send(which, stream)
        if launch.own is not None:
            arrays["own"] = memory.allocate(max(1, launch.own * len(which)), stream)
        self.curves = memory.allocate(2 * marks * len(who), stream)
        with _LAUNCHING:
            launch.kernel[len(which), launch.threads, stream, launch.box](
                data, *launch.numbers.values(), *arrays.values(), self.curves
            )

    def collect(self) -> PieceSums:
        """Return its runs with their sums, once it has been played."""
        curves = self.curves.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        sums = curves.reshape(self.shape).transpose(2, 0, 1)
        found = zip(self.piece.spans, self.firsts, strict=True)
        return [(s, runs, sums[first : first + len(runs)]) for (s, _, runs, _), first in found]
