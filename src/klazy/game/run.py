"""The loop that joins a learner to costs: run, and many runs at once; batch.py plays many by one kernel, for their sums."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, one_of, refusal, rows, vector, whole
from klazy.costs import Costs, as_costs, rounds_of
from klazy.game.trace import Totals, Trace
from klazy.kernels.layout import find_missing_part, layout_of
from klazy.learners import Learner, SAder
from klazy.movement import L2Movement, Movement

RECORDS = ("experts", "actions", "costs", "totals")
ENGINES = ("auto", "compiled", "step")


def run(
    learner: Learner[Any],
    costs: Costs | ArrayLike,
    *,
    movement: Movement | None = None,
    engine: str = "auto",
    record: str = "actions",
    hints: ArrayLike | None = None,
    x0: ArrayLike | None = None,
    state: Any = None,
) -> Trace:
    """Play ``learner`` against ``costs``, a cost family or a bare array of gradients of shape (T, d), which is not copied.

    Parameters
    ----------
    movement
        what moving costs; by default what a :class:`SAder` charges its experts, else :class:`~klazy.L2Movement` with
        weight 1.
    engine
        ``"compiled"`` runs the whole sequence in one kernel and raises, naming the part that has none;
        ``"step"`` runs the NumPy specification; ``"auto"`` takes the kernel where there is one. ``trace.engine`` says which.
    record
        ``"actions"`` keeps x and the costs of every round, ``"costs"`` only the costs, ``"totals"`` only the sums,
        in memory that does not grow with T; ``"experts"`` adds to the actions what an ensemble knows of its experts.
    hints
        guesses of shape (T, d) for learners that accept them; row t, made after round t, guesses the gradient of t + 1.
    x0
        the position before the first round; without it the first round's movement is free.
    state
        where to go on from, a ``trace.state``; the learner's own start by default.

    Examples
    --------
    >>> print(run(KLazyGD(L2Ball(2), sigma=1.0, k=2), [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], engine="step"))
    KLazyGD(domain=L2Ball(dim=2), sigma=Constant(s=1.0), k=2)
    3 rounds in R^2, L2Movement(), engine: step
    <BLANKLINE>
                       total     per round
    hitting               -1     -0.333333
    switching              1      0.333333
    cost                   0             0
    moved in 1 of 2 rounds
    """
    game = _Game(learner, costs, movement, record, hints, x0, state)
    if one_of(engine, "engine", "run", ENGINES) == "step":
        return game.by_step()
    missing = find_missing_part(learner, game.costs, game.movement)
    if missing is None:
        return game.compiled()
    if engine == "compiled":
        raise refusal(
            "run", "a kernel for every part", "engine", f"'compiled' with {missing}", "use engine='auto'"
        )
    return game.by_step()


def run_many(
    learners: Learner[Any] | Sequence[Learner[Any]],
    costs: Costs | ArrayLike | Sequence[Costs] | Sequence[ArrayLike],
    *,
    jobs: int | None = None,
    **options: Any,
) -> list[Trace]:
    """Many learners on one sequence, or one learner on many sequences, on all cores; ``options`` are those of :func:`run`.

    Several sequences are a list of costs, a list of (T, d) arrays, or one array of shape (n, T, d). Compiled runs are
    threads of this process; runs that go through ``step`` are processes, where joblib is installed (``klazy[cli]``).

    >>> g = np.ones((100, 3))
    >>> [round(t.totals.cost, 3) for t in run_many([GD(Simplex(3), 1.0), LazyGD(Simplex(3), 1.0)], g)]
    [100.0, 100.0]
    """
    cores = os.cpu_count() or 1
    workers = (
        cores if jobs is None else whole(jobs, "jobs", "run_many", "jobs >= 1", "leave it out for all cores")
    )
    many = isinstance(learners, Sequence)
    sequences = _sequences(costs)
    if many and sequences is not None:
        raise refusal("run_many", "many learners or many sequences", "both", "lists", "loop over one of them")
    if not many and sequences is None:
        raise refusal("run_many", "a list of learners or of sequences", "both", "single", "use run")
    pairs: list[Any] = [(learners, c) for c in sequences or []]
    if many:
        shared = as_costs(costs)  # pyright: ignore[reportArgumentType]
        pairs = [(learner, shared) for learner in learners]
    for learner, _ in pairs:
        if not isinstance(learner, Learner):
            raise refusal(
                "run_many",
                "learners",
                "learner",
                repr(learner),
                "write run_many([GD(L2Ball(5), 1.0)], costs)",
            )
    compiled = options.get("engine") != "step" and all(find_missing_part(*pair) is None for pair in pairs)
    return _threads(pairs, options, workers) if compiled else _processes(pairs, options, workers)


def _threads(pairs: list[Any], options: dict[str, Any], workers: int) -> list[Trace]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda pair: run(*pair, **options), pairs))


def _processes(pairs: list[Any], options: dict[str, Any], workers: int) -> list[Trace]:
    try:
        from joblib import Parallel, delayed
    except ImportError:
        return _threads(pairs, options, workers)
    traces: Any = Parallel(n_jobs=max(1, min(workers, len(pairs))))(
        delayed(_without_costs)(*pair, options) for pair in pairs
    )
    both = zip(traces, pairs, strict=True)
    return [replace(trace, costs=costs, source=learner) for trace, (learner, costs) in both]


def _without_costs(learner: Learner[Any], costs: Costs, options: dict[str, Any]) -> Trace:
    """A run whose trace does not send learner and costs back to the process that they came from."""
    return replace(run(learner, costs, **options), costs=None, source=None)


def _sequences(costs: Any) -> list[Costs] | None:
    """The several sequences in ``costs``, or None if it is one."""
    if isinstance(costs, Costs):
        return None
    if isinstance(costs, Sequence) and costs and all(isinstance(c, Costs) or np.ndim(c) == 2 for c in costs):
        return [as_costs(c) for c in costs]
    return [as_costs(c) for c in costs] if np.ndim(costs) == 3 else None


class _Game:
    """One run, its input checked: before this object exists nothing has been played."""

    def __init__(
        self, learner: Any, costs: Any, movement: Any, record: str, hints: Any, x0: Any, state: Any
    ) -> None:
        if not isinstance(learner, Learner):
            raise refusal(
                "run", "a learner", "learner", repr(learner), "write run(GD(L2Ball(5), 1.0), costs)"
            )
        self.learner: Any = learner
        self.costs = as_costs(costs)
        d = learner.domain.dim
        if self.costs.dim != d:
            raise refusal(
                "run", f"costs on R^{d}, the set's space", "costs.dim", self.costs.dim, "match the dimensions"
            )
        own = learner.movement if isinstance(learner, SAder) else L2Movement()
        self.movement = own if movement is None else movement
        if not isinstance(self.movement, Movement):
            raise refusal(
                "run", "a movement cost", "movement", repr(movement), f"write L2Movement({movement!r})"
            )
        self.movement.check(d)
        self.weights = self.movement.weights(self.costs.T)
        self.record = one_of(record, "record", "run", RECORDS)
        if record == "experts" and not isinstance(learner, SAder):
            raise refusal(
                "run", "a SAder for record='experts'", "learner", repr(learner), "use record='actions'"
            )
        if hints is not None and not learner.accepts_hints:
            raise refusal(
                "run", "a learner that accepts hints", "learner", repr(learner), "use MemoryGD, or no hints"
            )
        self.hints = None if hints is None else rows(hints, "hints", "run", d, self.costs.T)
        self.x0 = None if x0 is None else vector(x0, "x0", "run", d)
        self.state = learner.init() if state is None else learner.checked_state(state, "run")

    def _moved_at_first(self) -> float:
        return 0.0 if self.x0 is None else float(self.movement.distance(self.state.x - self.x0))

    def _trace(self, engine: str, totals: Totals, state: Any, kept: dict[str, Array]) -> Trace:
        about = (repr(self.learner), engine, self.record, self.costs.T, self.costs.dim)
        return Trace(*about, totals, self.movement, kept, self.x0, self.costs, state, self.learner)

    def compiled(self) -> Trace:
        learner = self.learner
        costs = self.costs
        layout = layout_of(learner)
        kernel = layout.sequence_kernel(costs.code)
        T = costs.T
        d = costs.dim
        data, extra, parameters = costs.arrays()
        hints = []
        log = []
        if isinstance(learner, SAder):
            log.append(np.empty((T if self.record == "experts" else 0, layout.record_width)))
        else:
            hints.append(np.zeros((1, d)) if self.hints is None else self.hints)
        x = np.empty((T if self.record in ("experts", "actions") else 0, d))
        hitting, switching = np.empty((2, 0 if self.record == "totals" else T))
        memory = layout.pack(self.state)
        totals = np.zeros(2)
        with np.errstate(all="ignore"):  # what is not finite is found by the kernel and refused below
            bad = kernel(
                data, extra, parameters, *hints, self.movement.code, self.weights, self.movement.prices(d),
                self._moved_at_first(), memory, x, hitting, switching, totals, *log,
            )  # fmt: skip
        if bad:
            costs.check_finite()
            raise _not_finite(costs, bad)
        recorded = {"x": x, "hitting": hitting, "switching": switching}
        if self.record == "experts":
            recorded |= learner.named_accounts(layout.order_record(log[0]), hitting)
        return self._trace("compiled", Totals(*totals.tolist()), layout.unpack(memory), _nonempty(recorded))

    def by_step(self) -> Trace:
        self.costs.check_finite()
        learner = self.learner
        costs = self.costs
        state = self.state
        pending = self._moved_at_first()
        weights = np.broadcast_to(self.weights, costs.T)
        step: Any = learner.step
        value_of, subgradient_of = rounds_of(costs)
        points = []
        hitting = []
        switching = []
        log = []
        hit = moved = 0.0
        for t in range(1, costs.T + 1):
            value = value_of(t, state.x)
            paid = float(weights[t - 1] * pending)
            if not np.isfinite(value):
                raise _not_finite(costs, self.state.t + t - 1)
            hit = hit + value
            moved = moved + paid
            if self.record != "totals":
                hitting.append(value)
                switching.append(paid)
            if self.record in ("experts", "actions"):
                points.append(state.x)
            g = subgradient_of(t, state.x)
            previous = state.x
            if self.record == "experts":
                log.append(learner.account(state, g))
            state = step(state, g) if self.hints is None else step(state, g, self.hints[t - 1])
            pending = float(self.movement.distance(state.x - previous))
        recorded = {"x": np.array(points), "hitting": np.array(hitting), "switching": np.array(switching)}
        if self.record == "experts":
            recorded |= learner.named_accounts(np.array(log), recorded["hitting"])
        return self._trace("step", Totals(hit, moved), state, _nonempty(recorded))


def _nonempty(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: array for name, array in arrays.items() if array.size}


def _not_finite(costs: Costs, t: int) -> ValueError:
    return refusal(
        "run",
        "finite costs on the set",
        f"f_{t}(x_{t})",
        "a value that is not finite",
        f"check {costs!r} there",
    )
