"""Play a learner against costs: one run, or many at once.

``run`` checks its arguments and chooses an engine: a compiled kernel, many rows at once, or ``step`` round by round.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, instance, one_of, rows
from klazy.base.options import explain_arguments
from klazy.base.parallel import map_threads, open_workers
from klazy.costs import Costs, as_costs, rounds_of
from klazy.game.game import (
    Game,
    check_delays,
    check_family,
    check_player,
    count_workers,
    find_factors,
    find_rows,
)
from klazy.game.plan import split_sequences
from klazy.game.trace import Totals, Trace
from klazy.kernels.codes import LINEAR, code_of
from klazy.kernels.layout import (
    PricedKernel,
    find_missing_part,
    find_priced_kernel,
    layout_of,
)
from klazy.learners import Learner
from klazy.learners.base import S, State, is_finite
from klazy.live.guards import Guards
from klazy.movement import Movement
from klazy.sets.limits import LimitedSet

# Seconds: a run without a kernel that takes longer gives a warning.
SLOW = 1.0
TRIAL = 0.1  # seconds after which the time of a run is estimated
COMPILED = (
    "balls, boxes, simplices and products of these; l2, l1, total variation, squared and fee movements with one price for all "
    "coordinates; learners without hints"
)
# Rounds whose rows take as long to follow as a kernel takes to compile, some seconds.
WORTH_A_KERNEL = 100_000
# What each value of `record` keeps.
KEPT_BY_RECORD = {
    "experts": ("hitting", "switching", "x", "account"),
    "actions": ("hitting", "switching", "x"),
    "costs": ("hitting", "switching"),
    "totals": (),
}
ENGINES = ("auto", "compiled", "step")
FEEDBACK = ("gradient", "value")
CHECKED_TOGETHER = 4096  # rounds whose points are checked together
FOLLOWED_TOGETHER = 65536  # rounds that a learner follows at once
# The guards of a run with limits only. What they count as paid does not matter: the run itself charges the moves.
NO_GUARDS = Guards(movement="l2")


StateOf = TypeVar("StateOf", bound=State, covariant=True)


class Stateful(Protocol[StateOf]):
    """A learner as type checkers see it. It is covariant, so that learners of several kinds have a common type of state."""

    def init(self, x: Array | None = None) -> StateOf: ...


@explain_arguments
def run(
    learner: Stateful[S],
    costs: Costs | ArrayLike,
    *,
    movement: Movement | str | None = None,
    engine: str = "auto",
    record: str = "actions",
    hints: ArrayLike | None = None,
    next_hints: ArrayLike | None = None,
    delays: ArrayLike | None = None,
    feedback: str | None = None,
    x0: ArrayLike | None = None,
    state: S | None = None,
    guards: Guards | None = None,
    limits: tuple[ArrayLike | None, ArrayLike | None] | None = None,
) -> Trace[S]:
    """Play a learner against costs, and record its decisions and costs.

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
        changes on boxes, Euclidean distance elsewhere. ``trace.movement`` says which. If it has a price per round, ensembles,
        :func:`auto` and other learners that weigh the price are told that of the move into round t + 1 at the end of
        round t, and no later one.
    engine : str, optional
        ``"compiled"`` runs everything in one kernel, and refuses if a part has none; ``"step"`` runs the NumPy specification.
        ``"auto"``, the default, takes the kernel where there is one; else ``"rows"``, many rounds at once, if the learner's
        points depend on the rows alone; else ``"step"``. Short runs of such a learner go by ``"rows"`` even if it has a kernel,
        which would take longer to compile. ``trace.engine`` says which.
    record : str, optional
        ``"actions"``, the default, keeps x and the costs of every round; ``"costs"`` only the costs; ``"totals"`` only the
        sums, in memory that does not grow with T; ``"experts"`` adds to the actions what an ensemble knows of its experts.
    hints : array_like, optional
        Guesses of shape (T, d), for learners that accept them: row t guesses the gradient of round t, as rows of ``costs``
        and ``limits`` are of their own round, or its row of data for a learner that takes rows. The learner is told row t + 1
        at the end of round t; so it is never told the first row, and nothing at the end of the last round.
    next_hints : array_like, optional
        The same guesses in the rows after which they are told: row t, told at the end of round t, guesses round t + 1, as
        those of a live agent do. Give these or ``hints``.
    delays : array_like, optional
        How many rounds later than its own the feedback of each round comes, of shape (T,) or one number for all, for a
        :class:`Delayed`: 0 at the end of its own round, ``inf`` never, and the round is given up. What would come after the
        last round does not come; those rounds are left waiting in ``trace.state``. Default: no delays.
    feedback : str, optional
        ``"gradient"``, or ``"value"``: the learner, a :class:`Bandit`, sees only the costs of its points. Default: the
        feedback that the learner is made for.
    x0 : array_like, optional
        The position before the first round. Default: none, so that the first round moves for free.
    state : optional
        Where to continue from: a ``trace.state``. Default: the learner's own start.
    guards : Guards, optional
        Limits on the points played, as an :class:`~klazy.Agent` has them: rounding, holds, budgets. The learner continues from
        its own point, ``trace.wanted``; costs and gradients are those at the point played, ``trace.x``. Such a run goes through
        ``step``, begins with full budgets, and no certificate covers it. Default: none.
    limits : tuple of array_like, optional
        What every coordinate must be between in each round, ``(lower, upper)``, for caps, quotas and outages (an upper limit
        of 0): each a number, one per coordinate, one row per round, or None for no limit; -inf and inf are none, too. Played
        is the point nearest to the learner's own within the limits, ``trace.x``. The learner continues from its own point,
        ``trace.wanted``, as with guards. For boxes, simplices, capped simplices and products of these. Default: none.

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

    The first coordinate fails in round 2:

    >>> outage = (None, [[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    >>> trace = run(Fixed(Simplex(2)), [[1.0, 2.0]] * 3, limits=outage)
    >>> trace.x.tolist(), trace.switching.tolist()
    ([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]], [0.0, 0.5, 0.5])
    """
    known: Any = check_player(learner, "learner")
    game = Game.check(known.domain, costs, movement, x0, known)
    check_family(known, game.costs)
    one_of(engine, "engine", ENGINES)
    one_of(record, "record", tuple(KEPT_BY_RECORD))
    if record == "experts" and not hasattr(known, "name_accounts"):
        message = (
            f"record='experts' is for SAder and Leader, got {learner!r}. Use record='actions'."
        )
        raise InvalidInput(message)
    player = _StepRun(known, game, record)
    player.next_hints = _check_hints(known, game, hints, next_hints)
    if delays is not None:
        player.delays = _check_delays(known, game, delays)
    player.by_value = _learns_from_values(known, feedback)
    first = known.init() if state is None else known.check_state(state)
    within = None if limits is None else LimitedSet.check(limits, known.domain, game.costs.T)
    if (
        within is not None
        and guards is None
        and engine != "step"
        and has_own_path(known, game.costs)
    ):
        _check_guards(player, NO_GUARDS, "limits")
        options: dict[str, Any] = {
            "movement": game.movement,
            "engine": engine,
            "hints": hints,
            "next_hints": next_hints,
            "x0": x0,
        }
        return limit_trace(run(learner, game.costs, state=state, **options), game, within, record)
    missing = find_missing_part(known, game.costs, game.movement)
    player.factors = find_factors(known, game.movement, game.costs.T)
    if within is not None:
        player.limits = within.check_rounds()
        player.guards = _check_guards(player, NO_GUARDS, "limits")
        if player.next_hints is not None:
            missing = "limits with hints and curved costs"
    if guards is not None:
        missing = "guards"
        player.guards = _check_guards(player, guards, "guards")
        if within is not None:
            player.limits = player.guards.suit_limits(within)
    if engine != "step" and player.find_kernel():
        return player.play(first)
    if engine == "compiled" and missing is not None:
        raise InvalidInput(f"engine='compiled' does not know {missing}. Use engine='auto'.")
    if engine == "auto" and player.guards is None:
        if knows_rows(known, game.costs) and (
            missing is not None or game.costs.T < WORTH_A_KERNEL
        ):
            return play_by_rows(known, game, first, record)
        # Research learners of klazy have no kernel; their docs say that their runs are slow.
        is_own = not type(known).__module__.startswith("klazy.")
        if is_own or "rule" in vars(type(known)):
            player.missing = missing
    if engine != "step" and missing is None and within is not None:
        return play_limited(known, game, first, record, within)
    if engine != "step" and missing is None:
        return play_compiled(known, game, first, record, player.next_hints)
    return player.play(first)


def is_short(learner: Learner[Any], costs: Costs, runs: int = 1) -> bool:
    """Return True if following rows takes less time than compiling a kernel."""
    return knows_rows(learner, costs) and costs.T * runs < WORTH_A_KERNEL


def knows_rows(learner: Learner[Any], costs: Costs) -> bool:
    """Return True if this learner's points depend on the rows of these costs alone."""
    return learner.follow is not None and costs.family is not None


def has_own_path(learner: Learner[Any], costs: Costs) -> bool:
    """Return True if this learner's points do not depend on the points that are played for it."""
    return learner.family is not None or code_of(costs) == LINEAR


def limit_trace(trace: Trace[Any], game: Game, within: LimitedSet, record: str) -> Trace[Any]:
    """Make the trace of a run within limits from that of the same run without them."""
    wanted = trace.x
    outside = within.find_outside(wanted)
    x = within.keep(wanted, outside)
    hitting = trace.hitting
    switching = trace.switching
    totals = trace.totals
    if outside.size:
        hitting = game.costs.values(x)
        if not np.isfinite(hitting).all():
            raise _reject_value(game.costs, int(np.isfinite(hitting).argmin()) + 1)
        switching = _charge_again(game, x, switching, outside)
        totals = Totals(float(hitting.sum()), float(switching.sum()))
    known = {"x": x, "hitting": hitting, "switching": switching}
    kept = {name: known[name] for name in KEPT_BY_RECORD[record]}
    if record == "actions":
        kept["wanted"] = wanted
    return replace(trace, record=record, kept=kept, totals=totals, limits=within)


def _charge_again(game: Game, x: Array, switching: Array, changed: np.ndarray) -> Array:
    """Return what moving costs along the points ``x``, where those of some rounds have changed."""
    movement = game.movement
    first = x[0] if game.x0 is None else game.x0
    if movement.is_drifting:
        return game.weights * movement.distance(movement.steps(x, first, 1))
    charged = np.array(switching)
    ends = np.union1d(changed, changed[changed < len(x) - 1] + 1)
    before = x[ends - 1]
    if ends[0] == 0:
        before[0] = first
    weights = np.broadcast_to(game.weights, len(x))[ends]
    charged[ends] = weights * movement.distance(x[ends] - before)
    return charged


def _check_guards(player: _StepRun, guards: Any, name: str) -> Guards:
    """Return the guards with the movement of this run, or reject them; ``name`` is what the caller gave."""
    learner = player.learner
    movement = player.game.movement
    instance(guards, "guards", Guards, "Guards such as Guards(per_round=0.1)")
    if player.delays is not None or player.by_value:
        raise InvalidInput(f"run has no {name} for delays or feedback='value'. Use an Agent.")
    if player.record == "experts":
        raise InvalidInput(f"record='experts' is for runs without {name}. Use record='actions'.")
    if guards is NO_GUARDS:
        return guards
    if guards.movement not in (None, movement):
        raise InvalidInput(
            f"guards.movement must be that of the run, {movement!r}, got {guards.movement!r}. Leave it out."
        )
    if guards.G is not None and guards.above == "clip" and not learner.takes_gradients:
        raise InvalidInput(
            f"above='clip' is for learners that take gradients, got {learner!r}. Use above='reject'."
        )
    return guards.replace(movement=movement).fit(learner)


def _check_hints(learner: Learner[Any], game: Game, hints: Any, next_hints: Any) -> Array | None:
    """Return what the learner is told at the end of each round, or reject it; a round without a row is told nothing."""
    given = hints if next_hints is None else next_hints
    if given is None:
        return None
    if hints is not None and next_hints is not None:
        raise InvalidInput(
            "Give hints or next_hints, not both: a row of hints guesses its own round, a row of next_hints the round after it."
        )
    if not learner.accepts_hints:
        raise InvalidInput(f"learner must accept hints, as MemoryGD does, got {learner!r}.")
    name = "hints" if next_hints is None else "next_hints"
    told = rows(given, name, game.costs.dim, game.costs.T)
    # Nothing is told before the first round.
    return told if hints is None else told[1:]


def _learns_from_values(learner: Learner[Any], feedback: Any) -> bool:
    """Return True if a run shows the costs of points only, or reject feedback that this learner cannot learn from."""
    is_bandit = learner.learns_from_values
    if feedback is None:
        return is_bandit
    one_of(feedback, "feedback", FEEDBACK)
    if feedback == "value" and not is_bandit:
        raise InvalidInput(
            f"feedback='value' is for a Bandit, got {learner!r}. Use Bandit(learner, points=2, delta=0.01)."
        )
    return feedback == "value"


def _check_delays(learner: Learner[Any], game: Game, delays: Any) -> Array:
    """Return the delay of each round, of shape (T,), or reject them."""
    if not learner.takes_delays:
        raise InvalidInput(
            f"delays are for a Delayed learner, got {learner!r}. Use Delayed(learner)."
        )
    return check_delays(delays, game.costs.T)


@explain_arguments
def run_many(
    learners: Stateful[S] | Sequence[Stateful[S]],
    costs: Costs | ArrayLike | Sequence[Costs] | Sequence[ArrayLike],
    *,
    jobs: int | None = None,
    **options: Any,
) -> list[Trace[S]]:
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
    workers = count_workers(jobs)
    many = isinstance(learners, Sequence)
    sequences = split_sequences(costs)
    if many and sequences is not None:
        raise InvalidInput(
            "learners and costs must not both be lists. Use run_batch, or loop over one of them."
        )
    if not many and sequences is None:
        raise InvalidInput(
            "learners or costs must be a list. Use run for one learner and one sequence."
        )
    players: list[Any] = list(learners) if many else [learners]
    for i, learner in enumerate(players):
        check_player(learner, f"learners[{i}]")
    known = [as_costs(sequence) for sequence in sequences or [costs]]
    pairs = [(learner, sequence) for learner in players for sequence in known]
    engine = one_of(options.get("engine", "auto"), "engine", ENGINES)
    are_quick = all(find_missing_part(*pair) is None or knows_rows(*pair) for pair in pairs)
    # Python runs one thread at a time, so runs through `step` need processes.
    if (engine == "step" or not are_quick) and find_spec("joblib") is not None:
        return _run_in_processes(pairs, options, workers)
    return map_threads(lambda pair: run(*pair, **options), pairs, workers)


def _run_in_processes(
    pairs: list[Any], options: dict[str, Any], workers: int
) -> list[Trace[Any]]:
    """Play runs in processes of joblib."""
    from joblib import Parallel, delayed

    processes = max(1, min(workers, len(pairs)))
    with open_workers(jobs=processes):
        traces: Any = Parallel()(delayed(run)(*pair, **options) for pair in pairs)
    # Traces share the learners and costs that were given, not the copies of the processes.
    both = zip(traces, pairs, strict=True)
    return [replace(trace, costs=costs, source=learner) for trace, (learner, costs) in both]


def play_compiled(
    learner: Any, game: Game, state: Any, record: str, next_hints: Array | None
) -> Trace[Any]:
    """Play the whole game in one call of a kernel."""
    costs = game.costs
    rounds = {
        name: costs.T if name in KEPT_BY_RECORD[record] else 0
        for name in KEPT_BY_RECORD["experts"]
    }
    x = np.empty((rounds["x"], costs.dim))
    hitting = np.empty(rounds["hitting"])
    switching = np.empty(rounds["switching"])
    totals = np.zeros(2)
    layout = layout_of(learner)
    told: list[Array] = []
    log: list[Array] = []
    if hasattr(learner, "name_accounts"):
        log.append(np.empty((rounds["account"], layout.record_width)))
    else:
        told.append(_complete_hints(next_hints, costs))
    memory = layout.pack(state)
    kernel = layout.sequence_kernel(code_of(costs))
    # The kernel reports costs that are not finite; they are rejected below.
    with np.errstate(all="ignore"):
        bad = kernel(
            *costs.arrays(), *told, game.movement.code, game.weights, game.movement.prices(costs.dim),
            game.measure_first_move(state.x), memory, x, hitting, switching, totals, *log,
        )  # fmt: skip
    if bad:
        costs.check_finite()
        raise _reject_value(costs, bad)
    kept = {"x": x, "hitting": hitting, "switching": switching}
    if record == "experts":
        kept["account"] = layout.order_record(log[0])
    paid = Totals(*totals.tolist())
    last = layout.unpack(memory)
    facts = {"engine": "compiled", "next_hints": next_hints}
    return _make_trace(learner, game, record, paid, last, kept, **facts)


def _complete_hints(next_hints: Array | None, costs: Costs) -> Array:
    """Return a hint for every round, or a single one for all. A hint of zero is none to learners with a kernel."""
    if next_hints is None:
        return np.zeros((1, costs.dim))
    missing = costs.T - len(next_hints)
    return np.pad(next_hints, ((0, missing), (0, 0))) if missing else next_hints


def play_limited(
    learner: Any, game: Game, state: Any, record: str, within: LimitedSet
) -> Trace[Any]:
    """Play the whole game within limits in one call of a kernel."""
    costs = game.costs
    x = np.empty((costs.T, costs.dim))
    wanted = np.empty((costs.T, costs.dim))
    hitting = np.empty(costs.T)
    switching = np.empty(costs.T)
    layout = layout_of(learner)
    memory = layout.pack(state)
    kernel = layout.limited_kernel(code_of(costs), within.code)
    start = np.empty(0) if game.x0 is None else game.x0
    with np.errstate(all="ignore"):
        bad = kernel(
            *costs.arrays(), game.movement.code, game.weights, game.movement.prices(costs.dim), start,
            np.ascontiguousarray(within.lower), np.ascontiguousarray(within.upper), within.parameters(), layout.x.start,
            memory, x, wanted, hitting, switching,
        )  # fmt: skip
    if bad:
        costs.check_finite()
        raise _reject_value(costs, bad)
    known = {"x": x, "hitting": hitting, "switching": switching}
    kept = {name: known[name] for name in KEPT_BY_RECORD[record]}
    if record == "actions":
        kept["wanted"] = wanted
    paid = Totals(float(hitting.sum()), float(switching.sum()))
    last = layout.unpack(memory)
    return _make_trace(learner, game, record, paid, last, kept, engine="compiled", limits=within)


class _Point(NamedTuple):
    """The point of a state that is in the memory of a kernel."""

    x: Array


@dataclass
class _StepRun:
    """A run round by round, as the learner's ``step`` specifies it.

    Every ``_end_`` method ends a round with one kind of feedback. It takes the round, the state, the point played and its cost,
    and returns the next state and point.
    """

    learner: Any
    game: Game
    record: str
    # What the learner is told at the end of each round, about the next one.
    next_hints: Array | None = None
    delays: Array | None = None
    by_value: bool = False
    # What the next move costs after each round, as a multiple of the learner's usual price.
    factors: Array | None = None
    guards: Guards | None = None
    limits: LimitedSet | None = None
    # The part without a kernel, which a warning names if the run takes long.
    missing: str | None = None

    # The kernel that plays each round at the price of its move, and the numbers that it works on.
    priced: PricedKernel | None = None

    def find_kernel(self) -> bool:
        """Return True if each round can be one call of a kernel, at the price of its move, and remember the kernel."""
        is_bare = self.guards is None and self.next_hints is None and self.record != "experts"
        # A price of zero has other rules.
        if self.factors is not None and is_bare and self.factors.all():
            self.priced = find_priced_kernel(self.learner)
        return self.priced is not None

    def play(self, state: Any) -> Trace[Any]:
        """Play all rounds from a state."""
        costs = self.game.costs
        costs.check_finite()
        self._value_of, self._subgradient_of = rounds_of(costs)
        self._rows = None if self.learner.family is None else find_rows(self.learner, costs)
        self._played_before = state.t - 1
        self._kept: dict[str, list[Any]] = {name: [] for name in KEPT_BY_RECORD[self.record]}
        # The rounds whose feedback comes at the end of each round.
        self._due: dict[float, list[int]] = {}
        x = state.x
        end_round = self._end_with_gradient
        if self.guards is not None:
            self._guarded = self.guards.init(
                self.learner.domain, state.x, state.t, self._limits_of(1)
            )
            x = self._guarded.x
            if self.record == "actions":
                self._kept["wanted"] = []
        elif self.by_value:
            end_round = self._end_with_values
        elif self.delays is not None:
            end_round = self._end_late
        elif self.priced is not None:
            self._memory = self.priced.layout.pack(state)
            end_round = self._end_in_kernel
        totals, state = self._loop(state, x, end_round)
        if self.priced is not None:
            state = self.priced.layout.unpack(self._memory)
        kept = {name: np.array(values) for name, values in self._kept.items()}
        if self.delays is not None:
            kept["delays"] = self.delays
        guards = None if self.guards is NO_GUARDS else self.guards
        engine = "step" if self.priced is None else "compiled"
        facts = {"engine": engine, "next_hints": self.next_hints}
        facts |= {"guards": guards, "limits": self.limits}
        return _make_trace(self.learner, self.game, self.record, totals, state, kept, **facts)

    def _loop(
        self, state: Any, x: Array, end_round: Callable[..., tuple[Any, Array]]
    ) -> tuple[Totals, Any]:
        T = self.game.costs.T
        movement = self.game.movement
        weights = np.broadcast_to(self.game.weights, T)
        pending = self.game.measure_first_move(x)
        # A learner or set of a user's own may return points outside the set.
        is_unknown = find_missing_part(self.learner) is not None
        unchecked = [state.x]
        totals = Totals(0.0, 0.0)
        began = time.process_time()
        for t in range(1, T + 1):
            if self.missing is not None and t > 1:
                spent = time.process_time() - began
                if spent > TRIAL:
                    _warn_of_time(self.missing, self.learner, spent / (t - 1) * T)
                    self.missing = None
            hit = self._measure(t, x)
            paid = float(weights[t - 1] * pending)
            totals = Totals(totals.hitting + hit, totals.switching + paid)
            now = {"x": x, "wanted": state.x, "hitting": hit, "switching": paid}
            for name, values in self._kept.items():
                if name in now:
                    values.append(now[name])
            previous = x
            state, x = end_round(t, state, x, hit)
            pending = float(movement.distance(movement.steps(x[None], previous, t + 1)[0]))
            if is_unknown:
                unchecked.append(state.x)
                if len(unchecked) == CHECKED_TOGETHER or t == T:
                    _check_played(self.learner, unchecked, self._played_before + t + 1)
                    unchecked.clear()
        return totals, state

    def _hint_after(self, t: int) -> Array | None:
        """Return what the learner is told at the end of round t; None for nothing."""
        if self.next_hints is None or t > len(self.next_hints):
            return None
        return self.next_hints[t - 1]

    def _limits_of(self, t: int) -> LimitedSet | None:
        """Return the limits of round t; None after the last one."""
        if self.limits is None or t > len(self.limits):
            return None
        return self.limits.at(t - 1)

    def _measure(self, t: int, x: Array) -> float:
        """Return the cost of x in round t, or reject one that is not finite."""
        value = self._value_of(t, x)
        if not np.isfinite(value):
            raise _reject_value(self.game.costs, self._played_before + t)
        return value

    def _observe(self, t: int, x: Array) -> Array:
        """Return the feedback of round t, in which x was played: the row or the gradient."""
        return self._subgradient_of(t, x) if self._rows is None else self._rows[t - 1]

    def _end_with_gradient(self, t: int, state: Any, x: Array, hit: float) -> tuple[Any, Array]:
        g = self._observe(t, x)
        hint = self._hint_after(t)
        clipped = False
        if "account" in self._kept:
            self._kept["account"].append(self.learner.account(state, g))
        if self.guards is not None:
            # A decision that somebody advises is no gradient, which guards would limit.
            forecast = None if self.learner.takes_advice else hint
            self.guards.admit(g, forecast)
            g, forecast, clipped = self.guards.clip(g, forecast)
            hint = hint if forecast is None else forecast
        learner = self.learner
        if self.factors is not None:
            learner = learner.reprice(float(self.factors[t - 1]))
        state = learner.step(state, g) if hint is None else learner.step(state, g, hint)
        if self.guards is None:
            return state, state.x
        within = self._limits_of(t + 1)
        self._guarded = self.guards.step(
            self._guarded, self.learner.domain, state.x, state.t, clipped, within
        )
        return state, self._guarded.x

    def _end_in_kernel(self, t: int, state: Any, x: Array, hit: float) -> tuple[Any, Array]:
        """Play a round in the memory of a kernel; what is returned of its state is the point alone."""
        priced: Any = self.priced
        factors: Any = self.factors
        g = np.array(self._observe(t, x), dtype=np.float64)
        if priced.play(self._memory, g, float(factors[t - 1])):
            raise _reject_value(self.game.costs, self._played_before + t)
        x = self._memory[priced.layout.x].copy()
        return _Point(x), x

    def _end_with_values(self, t: int, state: Any, x: Array, hit: float) -> tuple[Any, Array]:
        others = [self._measure(t, probe) for probe in self.learner.probes(state)[1:]]
        state = self.learner.learn(state, np.array([hit, *others]))
        return state, state.x

    def _end_late(self, t: int, state: Any, x: Array, hit: float) -> tuple[Any, Array]:
        """Learn from all feedback that arrives at the end of round t, the oldest first."""
        assert self.delays is not None
        delay = self.delays[t - 1]
        self._due.setdefault(t + delay, []).append(t)
        arrived = self._due.pop(t, [])
        for s in arrived:
            if s < t:
                point = self.learner.find_point(state, self._played_before + s)
                state = self.learner.learn(
                    state, self._played_before + s, self._observe(s, point)
                )
        if t in arrived:
            g = self._observe(t, state.x)
            state = self.learner.step(state, g)
        else:
            state = self.learner.advance(state)
        if delay == math.inf:
            state = self.learner.give_up(state, self._played_before + t)
        return state, state.x


def _warn_of_time(missing: str, learner: Learner[Any], seconds: float) -> None:
    """Warn that a run takes long, with the part that is the reason and its compiled alternatives."""
    if seconds <= SLOW:
        return
    remedy = f"Compiled are {COMPILED}."
    simplest = learner.domain.simplest
    if missing == type(learner.domain).__name__ and code_of(simplest) is not None:
        remedy = f"The same set is {simplest!r}, which has one."
    elif missing == type(learner).__name__:
        remedy = (
            "A learner compiles if its class names a `rule`: see the how-to on your own learner."
        )
    warnings.warn(
        f"This run takes about {seconds:.0f} s: it goes through NumPy, because {missing} has no compiled kernel. {remedy} "
        "Write engine='step' if you mean it.",
        UserWarning,
        stacklevel=6,
    )


def play_by_rows(learner: Any, game: Game, state: Any, record: str) -> Trace[Any]:
    """Play many rounds at once, for a learner that follows rows."""
    states = [state]
    kept: dict[str, list[Array]] = {name: [] for name in KEPT_BY_RECORD[record]}
    hit = 0.0
    moved = 0.0
    for _, points, values, paid in follow_rows([learner], game, states):
        hit += float(values.sum())
        moved += float(paid.sum())
        now = {"x": points, "hitting": values, "switching": paid}
        for name, parts in kept.items():
            parts.append(now[name])
    arrays = {name: np.concatenate(parts) for name, parts in kept.items()}
    return _make_trace(
        learner, game, record, Totals(hit, moved), states[0], arrays, engine="rows"
    )


def follow_rows(
    learners: Sequence[Any], game: Game, states: list[Any]
) -> Iterator[tuple[int, Array, Array, Array]]:
    """Play learners with one view, piece by piece; ``states`` are updated.

    Yields the index of a learner, its points, and its hitting and switching costs.
    """
    costs = game.costs
    costs.check_finite()
    weights = np.broadcast_to(game.weights, costs.T)
    is_unknown = code_of(learners[0].domain) is None
    previous = [state.x if game.x0 is None else game.x0 for state in states]
    for first in range(0, costs.T, FOLLOWED_TOGETHER):
        part = costs.window(first + 1, min(first + FOLLOWED_TOGETHER, costs.T))
        rows = find_rows(learners[0], part)
        outlook = None
        if learners[0].look is not None:
            outlook = learners[0].look(states[0], rows)
        for i, learner in enumerate(learners):
            before = states[i].t
            points, states[i] = learner.follow(states[i], rows, outlook)
            if is_unknown:
                _check_played(learner, list(points), before + part.T - 1)
            values = part.values(points)
            if not np.isfinite(values).all():
                raise _reject_value(costs, before + int(np.isfinite(values).argmin()))
            steps = game.movement.steps(points, previous[i], first + 1)
            paid = weights[first : first + part.T] * game.movement.distance(steps)
            previous[i] = points[-1].copy()
            yield i, points, values, paid


def _check_played(learner: Learner[Any], played: list[Array], last: int) -> None:
    """Reject points outside the set; the last of them is that of round ``last``."""
    domain = learner.domain
    if all(np.shape(x) == (domain.dim,) for x in played) and domain.contains(np.array(played)):
        return
    for t, x in enumerate(played, start=last - len(played) + 1):
        if np.shape(x) != (domain.dim,) or not domain.contains(x):
            point = np.asarray(x).tolist()
            step = f"{type(learner).__name__}.step"
            raise InvalidInput(
                f"x_{t} must be in {domain!r}, got {point}. Let {step} project what it returns."
            )


def _make_trace(
    learner: Any,
    game: Game,
    record: str,
    totals: Totals,
    state: Any,
    kept: dict[str, Array],
    **facts: Any,
) -> Trace[Any]:
    """Make the trace of a run, or reject sums that are not finite."""
    if not np.isfinite(totals).all() or not is_finite(state):
        raise InvalidInput(
            f"The sums of {game.costs} or the learner's state overflow. Use larger units."
        )
    if record == "experts":
        kept |= learner.name_accounts(kept.pop("account"), kept["hitting"])
    known = {name: array for name, array in kept.items() if array.size}
    return game.make_trace(
        source=learner, record=record, totals=totals, state=state, kept=known, **facts
    )


def _reject_value(costs: Costs, t: int) -> ValueError:
    return InvalidInput(
        f"Costs must be finite on the set, but {costs!r} are not at x_{t}, in round {t}."
    )
