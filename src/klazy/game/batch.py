"""Many runs over one sequence at once: what a sweep needs of each is two sums, or their curve."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, number, refusal, whole
from klazy.costs import Costs, as_costs
from klazy.game.game import Game, check_learners, count_workers
from klazy.game.run import run_many
from klazy.kernels import codes
from klazy.kernels.codes import LANES
from klazy.learners import Descent, Learner
from klazy.learners.blocks import aligned
from klazy.movement import Movement
from klazy.sets import ConvexSet

_FARTHEST = 1e150  # so that no square overflows
_PIECES = 4  # of the work, per thread: a thread that is done takes the next
_GIVEN = (codes.CONSTANT, codes.SQRT, codes.DOUBLING)  # schedules that do not depend on the gradients


@dataclass(frozen=True, eq=False)
class Batch:
    """What n runs paid, in the order of their learners.

    ``hitting`` and ``switching`` are the totals, of shape (n,). ``curves`` holds their running sums over the first
    ``rounds[j]`` rounds, of shape (n, c, 2); both are empty unless asked for. ``engine`` is ``"lanes"`` if all runs were played
    side by side, ``"runs"`` if each was played by :func:`~klazy.run`, ``"mixed"`` if some were.
    """

    hitting: Array
    switching: Array
    rounds: np.ndarray
    curves: Array
    engine: str

    @property
    def cost(self) -> Array:
        """What was paid altogether, of shape (n,)."""
        return self.hitting + self.switching


def run_batch(
    learners: Sequence[Learner[Any]],
    costs: Costs | ArrayLike,
    *,
    movement: Movement | None = None,
    checkpoints: int = 0,
    jobs: int | None = None,
) -> Batch:
    """Play every learner against ``costs`` and keep only sums: to 1e-12 those of :func:`~klazy.run` with ``record="totals"``.

    Linear costs on l2 and l1 balls, simplices and boxes of up to 8 dimensions are played many runs at once, as lanes of vector
    registers, by every learner that compiled ensembles take as an expert and for every movement cost but a fee. Fastest are
    :class:`GD`, :class:`LazyGD` and :class:`KLazyGD` whose schedules differ only in scale. Anything else is played by
    :func:`~klazy.run_many`.

    Parameters
    ----------
    movement
        what moving costs, as in :func:`~klazy.run`.
    checkpoints
        how many points of each run's curve to keep, evenly spaced, the last after round T; T if there are fewer.
    jobs
        threads; all cores by default.

    Examples
    --------
    >>> batch = run_batch([KLazyGD(L2Ball(3), 2.0, k) for k in (1, 5, 25)], np.ones((100, 3)), checkpoints=4)
    >>> batch.hitting.round(3).tolist(), batch.rounds.tolist(), batch.engine
    ([-171.241, -171.241, -171.241], [25, 50, 75, 100], 'lanes')
    """
    runs = _Runs(learners, costs, movement, checkpoints, jobs)
    fits = np.array([runs.has_lanes(learner) for learner in learners])
    beside = np.flatnonzero(fits)
    others = np.flatnonzero(~fits)
    runs.play_lanes(beside)
    lost = beside[~np.isfinite(runs.sums[beside]).all(axis=(1, 2))]
    if lost.size:
        runs.costs.check_finite()  # before each of them is played once more
    runs.play_runs(np.concatenate((others, lost)))  # which knows what to say of costs that are not finite
    kept = slice(None) if checkpoints else slice(0)
    hitting, switching = runs.sums[:, -1].T.copy()
    engine = "lanes" if fits.all() else "mixed" if fits.any() else "runs"
    return Batch(hitting, switching, runs.marks[kept], runs.sums[:, kept], engine)


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
        self.marks = _marks(checkpoints, known.T)
        movable = codes.code_of(self.movement) not in (None, codes.MOVE_FEE)
        self.costs_have_lanes = movable and codes.code_of(known) == codes.LINEAR
        self.sums = np.empty((len(learners), len(self.marks), 2))

    def has_lanes(self, learner: Any) -> bool:
        """Whether the batch kernels know this learner and its set, these costs and this movement."""
        known = isinstance(learner, Descent) and learner.part_without_kernel() is None
        if not self.costs_have_lanes or not known or learner.code not in codes.RULES_OF_EXPERTS:
            return False
        fits = max(learner.domain.diameter, *learner.rule_parameters()) < _FARTHEST  # lanes square these
        return fits and codes.unrolled(learner.domain.code, learner.domain.dim)

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

    def play_lanes(self, runs: np.ndarray) -> None:
        """The sums of these runs, many at a time."""
        from concurrent.futures import ThreadPoolExecutor

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
        move = self.movement.code
        fields, vectors = _packed([self.learners[i] for i in members])
        program = np.concatenate((np.resize(self.movement.prices(d), 2 * d), domain.parameters()))
        size = -(-len(members) // (LANES * GROUP * _PIECES * self.workers)) * GROUP
        for (lazy, schedule, offset, *_), kind in _kinds(
            fields, move == codes.MOVE_L2 and self._stays_near(fields)
        ).items():
            order = np.array(kind)[np.argsort(fields[kind, codes.SLACK_LANE // LANES], kind="stable")]
            blocks = _blocks(fields, vectors, order)
            kernel = batch_kernel(domain.code, d, lazy)
            for first in range(0, len(blocks), size):
                piece = blocks[first : first + size]
                about = (
                    self.costs.arrays()[0],
                    self.weights,
                    int(schedule),
                    offset,
                    move,
                    program,
                    0.0,
                    piece,
                    self.marks,
                )
                yield partial(_play, kernel, about, members[order[first * LANES : (first + size) * LANES]])

    def _stays_near(self, fields: Array) -> bool:
        """Whether no point of a lazy run, before its projection, can be so far away that its square overflows."""
        data = self.costs.arrays()[0]
        offset = float(fields[:, codes.B_LANE // LANES].min())
        G = float(max(data.max(), -data.min()))
        step = float(fields[:, codes.STEP // LANES].max())
        return G * self.costs.T * self.costs.dim * step / math.sqrt(1.0 + min(0.0, offset)) < _FARTHEST


def _check_list(learners: Any, costs: Costs) -> None:
    """Refuse what is no list of learners for these costs."""
    if not isinstance(learners, Sequence) or not learners:
        remedy = "write run_batch([GD(L2Ball(5), 1.0)], costs)"
        raise refusal("run_batch", "a list of learners", "learners", repr(learners), remedy)
    check_learners("run_batch", learners)
    for i, learner in enumerate(learners):
        if learner.domain.dim != costs.dim:
            condition = f"learners on R^{costs.dim}, the costs' space"
            raise refusal(
                "run_batch", condition, f"learners[{i}].domain", learner.domain, "match the dimensions"
            )


def _marks(checkpoints: Any, T: int) -> np.ndarray:
    """The rounds after which sums are kept."""
    if number(checkpoints, "checkpoints", "run_batch") == 0:
        return np.array([T])
    points = whole(
        checkpoints, "checkpoints", "run_batch", "checkpoints >= 0", "use 200 for a curve, 0 for totals"
    )
    points = min(points, T)
    return np.arange(1, points + 1) * T // points


def _packed(learners: Sequence[Any]) -> tuple[Array, Array]:
    """The fields of every run at its start, in the order of a block's, and the vectors x, a, b of its state."""
    d = learners[0].domain.dim
    program = np.array(
        [
            (learner.sigma.code, *learner.sigma.parameters(), *learner.rule_parameters())
            for learner in learners
        ]
    )
    fields = np.zeros((len(learners), codes.FIELDS))
    vectors = np.zeros((len(learners), codes.BLOCK_VECTORS, d))
    for row, learner in zip(vectors, learners, strict=True):
        state = learner.init()
        for i, name in enumerate(("x", *learner.vectors)):
            row[i] = getattr(state, name)
    constant = program[:, 0] == codes.CONSTANT
    scale = program[:, 1]
    fields[:, codes.T_LANE // LANES] = 1.0
    fields[:, codes.SIGMA // LANES] = np.where(constant, scale, 1.0)
    fields[:, codes.STEP // LANES] = np.where(constant, 1.0 / np.where(constant, scale, 1.0), np.sqrt(scale))
    fields[:, codes.RULE // LANES] = [learner.code for learner in learners]
    fields[:, codes.SCHEDULE_LANE // LANES :] = program
    return fields, vectors.reshape(len(learners), -1)


def _kinds(fields: Array, near: bool) -> dict[tuple[Any, ...], list[int]]:
    """The runs that may share a block, by (whether lazy, schedule, offset) and what else they must share.

    The offsets that few runs have are not worth blocks of their own: these runs find sigma lane by lane.
    """
    rule, schedule, offset, memory = (
        fields[:, field // LANES].tolist()
        for field in (codes.RULE, codes.SCHEDULE_LANE, codes.B_LANE, codes.MEMORY_LANE)
    )
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for i, now in enumerate(schedule):
        lazy = near and rule[i] in (codes.GD, codes.K_LAZY) and now in _GIVEN
        kinds.setdefault(
            (True, now, offset[i]) if lazy else (False, now, 0.0, rule[i], memory[i]), []
        ).append(i)
    rare = [kind for kind, runs in kinds.items() if kind[:2] == (True, codes.SQRT) and len(runs) < LANES]
    for kind in rare if len(rare) > 1 else []:
        for i in kinds.pop(kind):
            kinds.setdefault((False, codes.SQRT, 0.0, rule[i], memory[i]), []).append(i)
    return kinds


def _blocks(fields: Array, vectors: Array, order: np.ndarray) -> Array:
    """These runs as a kernel's blocks, of shape (blocks, numbers); lanes that are left over repeat the last run."""
    count = -(-len(order) // LANES)
    lanes = order[np.minimum(np.arange(count * LANES), len(order) - 1)]
    numbers = (
        np.concatenate((fields[lanes], vectors[lanes]), axis=1).reshape(count, LANES, -1).transpose(0, 2, 1)
    )
    blocks = aligned(numbers.size).reshape(count, -1)
    blocks[:] = numbers.reshape(count, -1)
    return blocks


def _play(kernel: Any, about: tuple[Any, ...], members: np.ndarray) -> tuple[np.ndarray, Array]:
    """One call of a kernel; these runs with their sums, of shape (runs, marks, 2)."""
    *_, blocks, marks = about
    curves = np.empty((len(blocks), len(marks), 2, LANES))
    with np.errstate(all="ignore"):  # what is not finite is found later
        kernel(*about, curves)
    return members, curves.transpose(0, 3, 1, 2).reshape(-1, len(marks), 2)[: len(members)]
