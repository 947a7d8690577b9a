"""The loop that joins a learner to costs: run, and many runs at once; batch.py plays many by one kernel, for their sums."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, one_of, refusal, rows
from klazy.costs import Costs, as_costs, rounds_of
from klazy.game.game import Game, check_delays, check_family, check_learners, count_workers, find_rows
from klazy.game.trace import Totals, Trace
from klazy.kernels.codes import code_of
from klazy.kernels.layout import find_missing_part, layout_of
from klazy.learners import Bandit, Delayed, Leader, Learner, SAder
from klazy.learners.base import S, is_finite
from klazy.live.guards import Guards
from klazy.movement import Movement

SLOW = 1.0  # seconds: a run without a kernel that takes longer says why
TRIAL = 0.1  # seconds, after which that is known
COMPILED = (
    "balls, boxes, simplices and products of these; l2, l1, total variation, squared and fee movements with one price for all "
    "coordinates; learners without hints"
)
WORTH_A_KERNEL = 500_000  # rounds: to follow their rows takes as long as to compile a kernel, some seconds
RECORDS = ("experts", "actions", "costs", "totals")
ENGINES = ("auto", "compiled", "step")
FEEDBACK = ("gradient", "value")
BLOCK = 4096  # rounds whose points are looked at together
PIECE = 65536  # rounds that a learner follows at once


# The second form is for a variable that holds learners of several kinds: they have no state in common.
@overload
def run(
    learner: Learner[S],
    costs: Costs | ArrayLike,
    *,
    movement: Movement | str | None = None,
    engine: str = "auto",
    record: str = "actions",
    hints: ArrayLike | None = None,
    delays: ArrayLike | None = None,
    feedback: str | None = None,
    x0: ArrayLike | None = None,
    state: S | None = None,
    guards: Guards | None = None,
) -> Trace[S]: ...
@overload
def run(
    learner: Learner[Any],
    costs: Costs | ArrayLike,
    *,
    movement: Movement | str | None = None,
    engine: str = "auto",
    record: str = "actions",
    hints: ArrayLike | None = None,
    delays: ArrayLike | None = None,
    feedback: str | None = None,
    x0: ArrayLike | None = None,
    state: Any = None,
    guards: Guards | None = None,
) -> Trace[Any]: ...
def run(
    learner: Learner[Any],
    costs: Costs | ArrayLike,
    *,
    movement: Movement | str | None = None,
    engine: str = "auto",
    record: str = "actions",
    hints: ArrayLike | None = None,
    delays: ArrayLike | None = None,
    feedback: str | None = None,
    x0: ArrayLike | None = None,
    state: Any = None,
    guards: Guards | None = None,
) -> Trace[Any]:
    """Play a learner against costs, and keep what it did and paid.

    In each round t the learner plays x_t, pays :math:`f_t(x_t)` and what moving from x_{t-1} costs, and then sees the gradient.

    Parameters
    ----------
    learner : Learner
        Who plays.
    costs : Costs or array_like
        What rounds cost: a class such as :class:`~klazy.QuadraticCosts`, or bare gradients of shape (T, d), which are not
        copied; a frame's columns name the coordinates.
    movement : Movement or str, optional
        What moving costs, or its short name: ``"l2"``, ``"l1"``, ``"tv"``, ``"fee"``. Default: the learner's own, such as what
        a :class:`SAder` charges its experts; else what suits the set, at a price of 1: total variation on simplices, the sum of
        changes on boxes, Euclidean distance elsewhere. ``trace.movement`` says which.
    engine : str, optional
        ``"compiled"`` runs everything in one kernel, and refuses if a part has none; ``"step"`` runs the NumPy specification.
        ``"auto"``, the default, takes the kernel where there is one; else ``"rows"``, many rounds at once, if the learner's
        points depend on the rows alone; else ``"step"``. Short runs of such a learner go by ``"rows"`` even if it has a kernel,
        which would take longer to compile. ``trace.engine`` says which.
    record : str, optional
        ``"actions"``, the default, keeps x and the costs of every round; ``"costs"`` only the costs; ``"totals"`` only the
        sums, in memory that does not grow with T; ``"experts"`` adds to the actions what an ensemble knows of its experts.
    hints : array_like, optional
        Guesses of shape (T, d), for learners that accept them: row t, made after round t, guesses the gradient of round t + 1,
        or its row for a learner that is told rows.
    delays : array_like, optional
        How many rounds later than its own the feedback of each round comes, of shape (T,) or one number for all, for a
        :class:`Delayed`: 0 at the end of its own round, ``inf`` never, and the round is given up. What would come after the
        last round does not come; those rounds are left waiting in ``trace.state``. Default: no delays.
    feedback : str, optional
        ``"gradient"``, or ``"value"``: the learner, a :class:`Bandit`, is told only what its points cost. Default: what the
        learner is made for.
    x0 : array_like, optional
        The position before the first round. Default: none, so that the first round moves for free.
    state : optional
        Where to continue from: a ``trace.state``. Default: the learner's own start.
    guards : Guards, optional
        Limits on what is played, as an :class:`~klazy.Agent` has them: rounding, holds, budgets. The learner goes on from its
        own point, ``trace.wanted``; costs and gradients are those at the point played, ``trace.x``. Such a run goes through
        ``step``, begins with budgets that nothing was taken from, and no certificate covers it. Default: none.

    Returns
    -------
    Trace
        Decisions, costs and totals.

    Raises
    ------
    ValueError
        If parts do not fit together, a cost is not finite, or ``engine="compiled"`` lacks a kernel.

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
    if not isinstance(learner, Learner):
        raise refusal("run", "a learner", "learner", repr(learner), "write run(GD(L2Ball(5), 1.0), costs)")
    game = Game.check("run", learner.domain, costs, movement, x0, learner)
    check_family("run", learner, game.costs)
    one_of(engine, "engine", "run", ENGINES)
    one_of(record, "record", "run", RECORDS)
    if record == "experts" and not isinstance(learner, SAder | Leader):
        condition = "a SAder or Leader for record='experts'"
        raise refusal("run", condition, "learner", repr(learner), "use record='actions'")
    guesses = _check_hints(learner, game, hints)
    arrivals = _check_delays(learner, game, delays)
    tells_values = _check_feedback(learner, feedback)
    first = learner.init() if state is None else learner.check_state(state, "run")
    if guards is not None:
        if arrivals is not None or tells_values:
            condition = "rows or gradients at the end of each round for guards"
            raise refusal("run", condition, "guards", repr(guards), "try them with an Agent")
        limits = _check_guards(learner, game, guards, engine, record)
        return play_by_step(learner, game, first, record, guesses, guards=limits)
    missing = find_missing_part(learner, game.costs, game.movement)
    if engine == "compiled" and missing is not None:
        raise refusal(
            "run", "a kernel for every part", "engine", f"'compiled' with {missing}", "use engine='auto'"
        )
    if engine == "auto" and is_short(learner, game.costs):
        return play_by_rows(learner, game, first, record)
    if engine != "step" and missing is None:
        return play_compiled(learner, game, first, record, guesses)
    if engine != "step" and knows_rows(learner, game.costs):
        return play_by_rows(learner, game, first, record)
    could_compile = engine == "auto" and "rule" in vars(type(learner))
    return play_by_step(
        learner,
        game,
        first,
        record,
        guesses,
        arrivals,
        tells_values,
        missing=missing if could_compile else None,
    )


def is_short(learner: Learner[Any], costs: Costs, runs: int = 1) -> bool:
    """Whether to follow rows takes less time than to compile a kernel would."""
    return knows_rows(learner, costs) and costs.T * runs < WORTH_A_KERNEL


def knows_rows(learner: Learner[Any], costs: Costs) -> bool:
    """Whether the rows of these costs are all that this learner's points depend on."""
    return learner.follow is not None and costs.family is not None


def _check_guards(learner: Learner[Any], game: Game, guards: Any, engine: str, record: str) -> Guards:
    """The guards for this run, charged as it is, or a refusal."""
    if not isinstance(guards, Guards):
        raise refusal("run", "guards", "guards", repr(guards), "write Guards(per_round=0.1)")
    if engine == "compiled":
        raise refusal(
            "run", "a kernel for every part", "engine", "'compiled' with guards", "use engine='auto'"
        )
    if record == "experts":
        raise refusal(
            "run", "a run without guards for record='experts'", "guards", repr(guards), "use 'actions'"
        )
    if guards.movement not in (None, game.movement):
        wanted = f"guards with its own movement, {game.movement!r}"
        raise refusal("run", wanted, "guards", repr(guards), "leave out the movement of the guards")
    if guards.G is not None and guards.above == "clip" and not learner.takes_gradients:
        wanted = "a learner that is told gradients to clip them"
        raise refusal("run", wanted, "guards", repr(guards), "use above='refuse'")
    return guards.replace(movement=game.movement).fit(learner)


def _check_hints(learner: Learner[Any], game: Game, hints: Any) -> Array | None:
    if hints is None:
        return None
    if not learner.accepts_hints:
        raise refusal(
            "run", "a learner that accepts hints", "learner", repr(learner), "use MemoryGD, or no hints"
        )
    return rows(hints, "hints", "run", game.costs.dim, game.costs.T)


def _check_feedback(learner: Learner[Any], feedback: Any) -> bool:
    """Whether the learner is told values and no gradients."""
    if feedback is None:
        return isinstance(learner, Bandit)
    one_of(feedback, "feedback", "run", FEEDBACK)
    if feedback == "value" and not isinstance(learner, Bandit):
        remedy = "write run(Bandit(learner, points=2, delta=0.01), ...)"
        raise refusal("run", "a Bandit for feedback='value'", "learner", repr(learner), remedy)
    return feedback == "value"


def _check_delays(learner: Learner[Any], game: Game, delays: Any) -> Array | None:
    """Each round's delay, one of shape (T,)."""
    if delays is None:
        return None
    if not isinstance(learner, Delayed):
        remedy = "write run(Delayed(learner), ...)"
        raise refusal("run", "a Delayed learner for delays", "learner", repr(learner), remedy)
    return check_delays("run", delays, game.costs.T)


@overload
def run_many(
    learners: Learner[S] | Sequence[Learner[S]],
    costs: Costs | ArrayLike | Sequence[Costs] | Sequence[ArrayLike],
    *,
    jobs: int | None = None,
    **options: Any,
) -> list[Trace[S]]: ...
@overload
def run_many(
    learners: Learner[Any] | Sequence[Learner[Any]],
    costs: Costs | ArrayLike | Sequence[Costs] | Sequence[ArrayLike],
    *,
    jobs: int | None = None,
    **options: Any,
) -> list[Trace[Any]]: ...
def run_many(
    learners: Learner[Any] | Sequence[Learner[Any]],
    costs: Costs | ArrayLike | Sequence[Costs] | Sequence[ArrayLike],
    *,
    jobs: int | None = None,
    **options: Any,
) -> list[Trace[Any]]:
    """Play many learners on one sequence, or one learner on many sequences, on all cores.

    Runs that are compiled or played by rows are threads of this process; runs that go through ``step`` are processes, where
    joblib is installed (``klazy[cli]``).

    Parameters
    ----------
    learners : Learner or list of Learner
        Who plays.
    costs : Costs or array_like or list of these
        One sequence; or several, as a list of costs, a list of (T, d) arrays, or one array of shape (n, T, d).
    jobs : int, optional
        How many runs to play at once. Default: as many as there are cores.
    **options
        All other arguments of :func:`run`.

    Returns
    -------
    list of Trace
        One trace per run, in the order given.

    Raises
    ------
    ValueError
        If both are lists, or neither is.

    Examples
    --------
    >>> g = np.ones((100, 3))
    >>> [round(t.totals.cost, 3) for t in run_many([GD(Simplex(3), 1.0), LazyGD(Simplex(3), 1.0)], g)]
    [100.0, 100.0]
    """
    workers = count_workers("run_many", jobs)
    many = isinstance(learners, Sequence)
    sequences = _split_sequences(costs)
    if many and sequences is not None:
        raise refusal("run_many", "many learners or many sequences", "both", "lists", "loop over one of them")
    if not many and sequences is None:
        raise refusal("run_many", "a list of learners or of sequences", "both", "single", "use run")
    if many:
        check_learners("run_many", learners)
        shared = as_costs(costs)  # pyright: ignore[reportArgumentType]
        pairs = [(learner, shared) for learner in learners]
    else:
        check_learners("run_many", [learners])
        pairs = [(learners, sequence) for sequence in sequences or []]
    engine = one_of(options.get("engine", "auto"), "engine", "run_many", ENGINES)
    are_quick = all(find_missing_part(*pair) is None or knows_rows(*pair) for pair in pairs)
    if are_quick and engine != "step":
        return _run_in_threads(pairs, options, workers)
    return _run_in_processes(pairs, options, workers)


def _run_in_threads(pairs: list[Any], options: dict[str, Any], workers: int) -> list[Trace[Any]]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda pair: run(*pair, **options), pairs))


def _run_in_processes(pairs: list[Any], options: dict[str, Any], workers: int) -> list[Trace[Any]]:
    try:
        from joblib import Parallel, delayed
    except ImportError:
        return _run_in_threads(pairs, options, workers)
    processes = max(1, min(workers, len(pairs)))
    calls = [delayed(_run_without_costs)(*pair, options) for pair in pairs]
    traces: Any = Parallel(n_jobs=processes)(calls)
    both = zip(traces, pairs, strict=True)
    return [replace(trace, costs=costs, source=learner) for trace, (learner, costs) in both]


def _run_without_costs(learner: Learner[Any], costs: Costs, options: dict[str, Any]) -> Trace[Any]:
    """A run whose trace does not send learner and costs back to the process that they came from."""
    return replace(run(learner, costs, **options), costs=None, source=None)


def _split_sequences(costs: Any) -> list[Costs] | None:
    """The several sequences in ``costs``, or None if it is one."""
    if isinstance(costs, Costs):
        return None
    several = False
    if isinstance(costs, Sequence) and costs:
        several = all(isinstance(one, Costs) or _count_axes(one) == 2 for one in costs)
    if several or _count_axes(costs) == 3:
        return [as_costs(one) for one in costs]
    return None


def _count_axes(values: Any) -> int | None:
    """The axes of an array or of nested lists; None where rows differ in length."""
    try:
        return np.ndim(values)
    except ValueError:
        return None


def play_compiled(learner: Any, game: Game, state: Any, record: str, hints: Array | None) -> Trace[Any]:
    """The whole game in one call of a kernel; every part has one."""
    costs = game.costs
    T = costs.T
    d = costs.dim
    kept_points = T if record in ("experts", "actions") else 0
    kept_costs = 0 if record == "totals" else T
    x = np.empty((kept_points, d))
    hitting = np.empty(kept_costs)
    switching = np.empty(kept_costs)
    totals = np.zeros(2)
    hints_given: list[Array] = []
    log: list[Array] = []
    layout = layout_of(learner)
    if isinstance(learner, SAder | Leader):
        kept_accounts = T if record == "experts" else 0
        log.append(np.empty((kept_accounts, layout.record_width)))
    else:
        hints_given.append(np.zeros((1, d)) if hints is None else hints)
    memory = layout.pack(state)
    kernel = layout.sequence_kernel(code_of(costs))
    with np.errstate(all="ignore"):  # what is not finite is found by the kernel and refused below
        bad = kernel(
            *costs.arrays(), *hints_given, game.movement.code, game.weights, game.movement.prices(d),
            _measure_first_move(game, state.x), memory, x, hitting, switching, totals, *log,
        )  # fmt: skip
    if bad:
        costs.check_finite()
        raise _refuse_value(costs, bad)
    kept = {"x": x, "hitting": hitting, "switching": switching}
    if record == "experts":
        kept |= learner.name_accounts(layout.order_record(log[0]), hitting)
    return _make_trace(
        learner, game, "compiled", record, Totals(*totals.tolist()), layout.unpack(memory), kept, hints
    )


def play_by_step(
    learner: Any,
    game: Game,
    state: Any,
    record: str,
    hints: Array | None,
    delays: Array | None = None,
    tells_values: bool = False,
    guards: Guards | None = None,
    missing: str | None = None,
) -> Trace[Any]:
    """The game round by round, as the learner's ``step`` specifies it, perhaps within guards.

    If that takes long, a warning names the part that is ``missing`` a kernel.
    """
    costs = game.costs
    costs.check_finite()
    weights = np.broadcast_to(game.weights, costs.T)
    value_of, subgradient_of = rounds_of(costs)
    before = state.t - 1  # rounds that were played before this run
    unknown = (
        find_missing_part(learner) is not None
    )  # whether a class of one's own may have a part in its points
    played = [state.x]
    guarded = None if guards is None else guards.init(learner.domain, state.x, state.t)
    x = state.x if guarded is None else guarded.x
    pending = _measure_first_move(game, x)
    points = []
    wanted = []
    hitting = []
    switching = []
    log = []
    hit = 0.0
    moved = 0.0

    rows = None if learner.family is None else find_rows(learner, costs)

    def tell(t: int, x: Array) -> Array:
        """What the learner is told of round t, in which x was played."""
        return subgradient_of(t, x) if rows is None else rows[t - 1]

    due: dict[int, list[int]] = {}  # the rounds of which feedback comes at the end of each round
    began = time.process_time()
    for t in range(1, costs.T + 1):
        spent = time.process_time() - began
        if missing is not None and t > 1 and spent > TRIAL:
            _warn_of_time(missing, spent / (t - 1) * costs.T)
            missing = None
        value = value_of(t, x)
        paid = float(weights[t - 1] * pending)
        if not np.isfinite(value):
            raise _refuse_value(costs, before + t)
        hit = hit + value
        moved = moved + paid
        if record != "totals":
            hitting.append(value)
            switching.append(paid)
        if record in ("experts", "actions"):
            points.append(x)
            wanted.append(state.x)
        clipped = False
        if tells_values:
            others = [value_of(t, probe) for probe in learner.probes(state)[1:]]
            if not np.isfinite(others).all():
                raise _refuse_value(costs, before + t)
            state = learner.learn(state, np.array([value, *others]))
        elif delays is None:
            g = tell(t, x)
            if record == "experts":
                log.append(learner.account(state, g))
            hint = None if hints is None else hints[t - 1]
            if guards is not None:
                guards.admit(g, hint, f"run in round {before + t}")
                g, hint, clipped = guards.clip(g, hint)
            state = learner.step(state, g) if hint is None else learner.step(state, g, hint)
        else:
            due.setdefault(t + delays[t - 1], []).append(t)
            state = _end_late_round(learner, state, tell, t, due.pop(t, []), before)
            if delays[t - 1] == math.inf:
                state = learner.give_up(state, before + t)
        previous = x
        x = state.x
        if guards is not None and guarded is not None:
            guarded = guards.step(guarded, learner.domain, state.x, state.t, clipped)
            x = guarded.x
        step = game.movement.steps(x[None], previous, t + 1)[0]
        pending = float(game.movement.distance(step))
        if unknown:
            played.append(state.x)
            if len(played) == BLOCK or t == costs.T:
                _check_played(learner, played, before + t + 1)
                played.clear()
    kept = {"x": np.array(points), "hitting": np.array(hitting), "switching": np.array(switching)}
    if record == "experts":
        kept |= learner.name_accounts(np.array(log), kept["hitting"])
    if delays is not None:
        kept["delays"] = delays
    if guards is not None:
        kept["wanted"] = np.array(wanted)
    return _make_trace(learner, game, "step", record, Totals(hit, moved), state, kept, hints, guards)


def _warn_of_time(missing: str, seconds: float) -> None:
    """Say why a run takes long, and what does not."""
    if seconds > SLOW:
        warnings.warn(
            f"This run takes about {seconds:.0f} s: it goes through NumPy, because {missing} has no compiled kernel. Compiled "
            f"are {COMPILED}. Write engine='step' if you mean it.",
            UserWarning,
            stacklevel=4,
        )


def _end_late_round(
    learner: Delayed, state: Any, tell: Callable[[int, Array], Array], t: int, arrived: list[int], before: int
) -> Any:
    """The state after round t, at whose end the feedback of the rounds ``arrived`` comes, the oldest first."""
    for s in arrived:
        if s < t:
            point = learner.find_point(state, before + s, "run")
            state = learner.learn(state, before + s, tell(s, point))
    if t in arrived:
        return learner.step(state, tell(t, state.x))
    return learner.advance(state)


def play_by_rows(learner: Any, game: Game, state: Any, record: str) -> Trace[Any]:
    """The game many rounds at once, for a learner that follows rows."""
    states = [state]
    x: list[Array] = []
    hitting: list[Array] = []
    switching: list[Array] = []
    hit = 0.0
    moved = 0.0
    for _, points, values, paid in follow_rows([learner], game, states):
        hit += float(values.sum())
        moved += float(paid.sum())
        if record != "totals":
            hitting.append(values)
            switching.append(paid)
        if record == "actions":
            x.append(points)
    kept = {"x": x, "hitting": hitting, "switching": switching}
    joined = {name: np.concatenate(parts) for name, parts in kept.items() if parts}
    return _make_trace(learner, game, "rows", record, Totals(hit, moved), states[0], joined)


def follow_rows(
    learners: Sequence[Any], game: Game, states: list[Any]
) -> Iterator[tuple[int, Array, Array, Array]]:
    """The game of learners with one view, piece by piece: who it is of them, its points, and what each hits and switches.

    ``states`` are kept up to date.
    """
    costs = game.costs
    costs.check_finite()
    weights = np.broadcast_to(game.weights, costs.T)
    unknown = code_of(learners[0].domain) is None
    previous = [state.x if game.x0 is None else game.x0 for state in states]
    for first in range(0, costs.T, PIECE):
        part = costs.window(first + 1, min(first + PIECE, costs.T))
        rows = find_rows(learners[0], part)
        outlook = None
        if learners[0].look is not None:
            outlook = learners[0].look(states[0], rows)
        for i, learner in enumerate(learners):
            before = states[i].t
            points, states[i] = learner.follow(states[i], rows, outlook)
            if unknown:
                _check_played(learner, list(points), before + part.T - 1)
            values = part.values(points)
            if not np.isfinite(values).all():
                raise _refuse_value(costs, before + int(np.isfinite(values).argmin()))
            steps = game.movement.steps(points, previous[i], first + 1)
            paid = weights[first : first + part.T] * game.movement.distance(steps)
            previous[i] = points[-1].copy()
            yield i, points, values, paid


def _check_played(learner: Learner[Any], played: list[Array], last: int) -> None:
    """Refuse points outside the set, of which the last is that of round ``last``."""
    domain = learner.domain
    if all(np.shape(x) == (domain.dim,) for x in played) and domain.contains(np.array(played)):
        return
    for t, x in enumerate(played, start=last - len(played) + 1):
        if np.shape(x) != (domain.dim,) or not domain.contains(x):
            remedy = f"let {type(learner).__name__}.step project what it returns"
            raise refusal("run", f"points in {domain!r}", f"x_{t}", np.asarray(x).tolist(), remedy)


def _measure_first_move(game: Game, x: Array) -> float:
    """How far the first point is from x0, before the weight; nothing without x0."""
    if game.x0 is None:
        return 0.0
    return float(game.movement.distance(x - game.x0))


def _make_trace(
    learner: Any,
    game: Game,
    engine: str,
    record: str,
    totals: Totals,
    state: Any,
    kept: dict[str, Array],
    hints: Array | None = None,
    guards: Guards | None = None,
) -> Trace[Any]:
    if not np.isfinite(totals).all() or not is_finite(state):
        condition = "costs small enough for their sums and the learner's state to stay finite"
        raise refusal("run", condition, "costs", game.costs, "use larger units")
    return Trace[Any](
        engine=engine,
        record=record,
        T=game.costs.T,
        dim=game.costs.dim,
        totals=totals,
        movement=game.movement,
        kept={name: array for name, array in kept.items() if array.size},
        state=state,
        x0=game.x0,
        costs=game.costs,
        hints=hints,
        source=learner,
        columns=game.costs.columns,
        guards=guards,
    )


def _refuse_value(costs: Costs, t: int) -> ValueError:
    return refusal(
        "run",
        "finite costs on the set",
        f"f_{t}(x_{t})",
        "a value that is not finite",
        f"check {costs!r} there",
    )
