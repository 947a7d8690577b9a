"""The state of an agent between two rounds, and what a round does to it.

A round is ``compute``, then ``apply``: :meth:`AgentState.compute` says what a record leads to and changes nothing, and
:meth:`AgentState.apply` makes it the present. A store appends the record in between (stored.py).
"""

import json
import sys
import warnings
from collections.abc import Callable
from functools import cache
from operator import attrgetter, itemgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from klazy.base.checks import Array, InvalidInput, integer, non_negative, one_of, rows, vector
from klazy.kernels import codes
from klazy.kernels.layout import PricedKernel, find_missing_part, layout_of
from klazy.learners import Delayed, Learner
from klazy.learners.base import describe_state, rebuild_state
from klazy.live import records
from klazy.live.guards import Guards, GuardState
from klazy.live.records import (
    Record,
    note_feedback,
    note_next,
    read_feedback,
    read_limits,
    read_move_cost,
)
from klazy.live.rows import RowSpec
from klazy.movement import Movement
from klazy.sets.limits import LimitedSet

if TYPE_CHECKING:
    from klazy.live.explain import Explanation

# An agent in memory remembers the ids of this many latest rounds.
IDS_REMEMBERED = 4096
# While NumPy copies more numbers than this, other threads run.
NUMBERS_PER_COPY = 500
_FLOAT64 = np.dtype(np.float64)


class OtherMachine(UserWarning):
    """An agent continues under another version, or on another kind of CPU, than the one that wrote it.

    From here on its points may differ in their last bits from those that it would have played there.
    """


class Overtaken(RuntimeError):
    """Another process ended the round first: the agent has read what happened, and nothing of your round.

    ``agent.x`` is the point to play now. Give the gradient there; or let :meth:`~klazy.Agent.update` apply the one you have
    to the current round, with ``retry=True``.
    """


def copy_at_once(x: Array) -> Array:
    """Copy a point in one step for other threads, which may be playing rounds."""
    if x.size > NUMBERS_PER_COPY:
        return np.frombuffer(bytearray(x))
    return x.copy()


class RoundOutcome(NamedTuple):
    """What a record of round ``t`` leads to: the learner's state in its engine's form, the guards and theirs, the next point.

    ``acted`` names the guards that acted on the move, ``values`` is the row of the round. ``queue`` are the decisions that
    come into force next; None if nothing changes there.
    """

    t: int
    form: Any
    guards: Guards | None
    guarded: GuardState | None
    x: Array
    hitting: float = 0.0
    switching: float = 0.0
    acted: str = ""
    values: Array | None = None
    is_deleted: bool = False
    queue: tuple[Array, ...] | None = None


class AgentState:
    """A learner's state in the form of its engine, the point that guards let it play, and the ids of its latest rounds.

    ``spec`` says what a row costs and how it is named, ``hitting`` and ``switching`` what the agent has paid. One that fills
    missing cells forward remembers its ``last_row``. Where decisions act late, ``queue`` are those made before
    the present one that still act, the one in force first.
    """

    def __init__(
        self,
        learner: Learner[Any],
        engine: str,
        state: Any = None,
        guards: Guards | None = None,
        spec: RowSpec | None = None,
        limits: Any = None,
    ) -> None:
        one_of(engine, "engine", ("auto", "compiled", "step"))
        missing = find_missing_part(learner)
        if engine == "compiled" and missing:
            raise InvalidInput(
                f"engine='compiled' needs a kernel for {missing}, and there is none. Use engine='auto'."
            )
        self.learner: Any = learner
        self.engine = "step" if missing or engine == "step" else "compiled"
        self._priced: PricedKernel | None = None
        self.spec = spec or RowSpec()
        self.guards: Guards | None = None
        self.guarded: GuardState | None = None
        self.ids: dict[str, None] = {}
        # A deleted agent takes no rounds until it is restored.
        self.deleted = False
        self.last_row: Array | None = None
        # What describe_machine returned where its state was written.
        self.machine: dict[str, str] = {}
        self.hitting = 0.0
        self.switching = 0.0
        if state is None:
            state = learner.init()
        # The point within the state's form, not a copy.
        self._point: Callable[[Any], Array] = attrgetter("x")
        if self.engine == "step":
            self.form = state
        else:
            self.layout = layout_of(learner)
            self.kernel = self.layout.update_kernel()
            self.form = self.layout.pack(state)
            self._point = itemgetter(self.layout.x)
        if guards is not None:
            self.guards = self.fit_guards(guards)
            self.guarded = self.guards.init(learner.domain, self.own, self.t)
        if limits is not None:
            within = self._check_limits(limits, "limits", self.t)
            fitted: Any = self.guards
            self.guarded = fitted.init(learner.domain, self.own, self.t, within)
        self.queue: tuple[Array, ...] = ()
        late = self.spec.lead + self.spec.delay
        if late:
            self.queue = (self.x,) * late
        self._select_fast_path()

    def _select_fast_path(self) -> None:
        """Decide whether one call of the kernel plays a whole round, and choose how moves are charged."""
        guards = self.guards
        self.movement: Movement = self.spec.movement or self.learner.own_movement
        if guards is not None and guards.movement is not None:
            self.movement = guards.movement
        movement: Any = self.movement
        self._weight = movement.weight
        self._distance = movement.distance
        self._shape = (self.learner.domain.dim,)
        self._takes_gradients = self.learner.takes_gradients
        self.is_plain = False
        if self.engine == "compiled" and guards is None and self.spec.costs is None:
            # Other threads never see a compiled round half done.
            is_atomic = not isinstance(self.kernel, FunctionType)
            self.is_plain = is_atomic and not self.learner.accepts_hints

    def fit_guards(self, guards: Guards) -> Guards:
        """Check guards and fit them to the learner."""
        if not isinstance(guards, Guards):
            raise InvalidInput(
                f"guards must be Guards, got {guards!r}. Use Guards(per_round=0.1)."
            )
        movement = self.spec.movement
        if movement is not None and guards.movement not in (None, movement):
            raise InvalidInput(
                f"The agent's movement is {movement!r}, that of its guards {guards.movement!r}. "
                "Leave out the movement of the guards."
            )
        if guards.G is not None and guards.above == "clip" and not self.learner.takes_gradients:
            raise InvalidInput(
                f"above='clip' needs a learner that takes gradients, got {self.learner!r}. "
                "Use above='reject'."
            )
        return guards.replace(movement=guards.movement or movement).fit(self.learner)

    # The present

    @property
    def state(self) -> Any:
        """The learner's state, which ``learner.step`` would take."""
        if self.engine == "step":
            return self.form
        # The bytes are copied in one step: other threads may be playing rounds.
        return self.layout.unpack(np.frombuffer(self.form.tobytes()))

    @property
    def t(self) -> int:
        """The round about to be played."""
        return self.form.t if self.engine == "step" else int(self.form[codes.T])

    @property
    def own(self) -> Array:
        """The learner's own point, not a copy."""
        return self._point(self.form)

    @property
    def played(self) -> Array:
        """The point to play, not a copy."""
        return self._point(self.form) if self.guarded is None else self.guarded.x

    @property
    def x(self) -> Array:
        """The point to play, a copy."""
        return copy_at_once(self.played)

    @property
    def in_force(self) -> Array:
        """The point that the next row is charged at, not a copy."""
        return self.queue[0] if self.queue else self.played

    @property
    def decision(self) -> Any:
        """The point to play, by name where there are names."""
        return self.spec.name(self.x)

    @property
    def pending(self) -> dict[int, Array]:
        """The rounds that wait for feedback, with the points played in them."""
        if not self.can_wait:
            return {}
        return {int(s): x.copy() for s, x in zip(self.form.rounds, self.form.points, strict=True)}

    @property
    def probes(self) -> tuple[Array, ...]:
        """The points whose costs a bandit sees: the one to play, and those to try next to it."""
        tried = self.learner.probes(self.form)[1:] if self.learns_from_costs else ()
        return (self.x, *tried)

    @property
    def knows_costs(self) -> bool:
        """Whether rounds say what they cost."""
        return self.spec.costs is not None or self.learns_from_costs

    @property
    def can_wait(self) -> bool:
        """Whether the feedback of a round may come later."""
        return isinstance(self.learner, Delayed)

    @property
    def learns_from_costs(self) -> bool:
        """Whether the feedback of a round is what its decision cost."""
        return self.learner.learns_from_values

    def explain(self) -> "Explanation":
        """Explain why it plays this point."""
        from klazy.live.explain import explain

        spec = self.spec
        return explain(
            self.learner, self.state, self.guards, self.guarded, spec.names, spec.fill, spec.lead
        )

    # Feedback becomes a record

    def record_gradient(
        self,
        g: Any,
        id: str = "",
        round: Any = None,
        gradient: bool = True,
        hint: Any = None,
        limits: Any = None,
        price: Any = None,
    ) -> Record:
        """Make the record of a round with a gradient; raise an error if learner or guards cannot use it."""
        is_array = type(g) is np.ndarray and g.dtype is _FLOAT64
        is_bare = hint is None and round is None and limits is None and price is None
        if self.is_plain and is_array and is_bare and g.shape == self._shape:
            # The kernel itself finds numbers that do not fit.
            return Record(records.ROUND, g.copy(), id)
        if self.spec.costs is not None:
            self._require_gradients(gradient)
        d = self.learner.domain.dim
        _, note = self._find_played(round)
        g = vector(g, "g", d).copy()
        if hint is not None:
            hint = vector(hint, "next_hint", d)
            self._require_hints()
        return self._record(g, hint, id, self._note_next(limits, price, note))

    def record_row(
        self,
        row: Any,
        id: str = "",
        round: Any = None,
        forecast: Any = None,
        limits: Any = None,
        price: Any = None,
    ) -> Record:
        """Make the record of a round with its row; raise an error if spec, learner or guards cannot use it."""
        costs = self.spec.costs
        d = self.learner.domain.dim
        if costs is None:
            raise InvalidInput(
                "The agent has no costs, so a row means nothing to it. "
                "Build it with costs=Linear(), for example, or give it gradients with update(g)."
            )
        row, told = self.spec.split(row)
        forecast = told if forecast is None else forecast
        if self.spec.fill is not None:
            row = self.spec.fill_cells(row, d, self.last_row)
        values = self.spec.read(row, d)
        x, note = self._find_played(round)
        scaled = self.spec.scale(values)
        g = np.asarray(costs.gradient(scaled, x), dtype=np.float64)
        charged = x if note or not self.queue else self.queue[0]
        hitting = float(costs.value(scaled, charged))
        if not (np.isfinite(hitting) and np.isfinite(g).all()):
            raise InvalidInput(
                f"The cost of the row at {x.tolist()} must be finite, got {hitting}. Check the row."
            )
        hint = None if forecast is None else self._read_forecast(forecast, x)
        return self._record(g, hint, id, self._note_next(limits, price, note), values, hitting)

    def _read_forecast(self, forecast: Any, x: Array) -> Array:
        """Return what the learner is told beside a row: an advised decision, or a forecast as it takes feedback."""
        self._require_hints()
        d = len(x)
        if self.learner.takes_advice:
            return self.spec.read_advice(forecast, d)
        row = self.spec.scale(self.spec.read(forecast, d))
        if self.spec.costs is None or not self._takes_gradients:
            return row
        return np.asarray(self.spec.costs.gradient(row, x), dtype=np.float64)

    def _note_next(self, limits: Any, price: Any, note: str) -> str:
        """Return the note of a round with the limits of the next decision and the price of its move, or reject them."""
        if limits is None and price is None:
            return note
        if note:
            raise InvalidInput(
                "Late feedback leads to no decision that next_limits could limit. Leave them out."
                if price is None
                else "Late feedback leads to no move that next_move_cost could price. Leave it out."
            )
        sides = None
        if limits is not None:
            within = self._check_limits(limits, "next_limits", self.t + 1)
            sides = within.lower[0], within.upper[0]
        return note_next(sides, None if price is None else self._check_price(price))

    def _check_price(self, price: Any) -> float:
        """Return the price of the next move, or reject it."""
        if self.queue:
            raise InvalidInput(
                "next_move_cost is the price of the move that is made next. With lead or delay that is an earlier decision's. "
                "Leave it out."
            )
        price = non_negative(price, "next_move_cost")
        self.learner.find_factor(price)
        return price

    def _check_limits(self, limits: Any, name: str, t: int) -> LimitedSet:
        """Return what limits leave of the set in round t, or reject them."""
        self.require_guards(name)
        guards: Any = self.guards
        sides = self.spec.read_limits(limits, name)
        return guards.suit_limits(
            LimitedSet.check(sides, self.learner.domain, 1, t, name).check_rounds()
        )

    def _read_limits(self, record: Record) -> LimitedSet | None:
        """Return what is left of the set for the decision after a round; None where it has no limits."""
        found = read_limits(record)
        if found is None or self.guards is None:
            return None
        lower, upper = found
        within = LimitedSet(self.learner.domain, lower[None], upper[None], self.t + 1)
        return self.guards.suit_limits(within)

    def _record(self, g: Array, hint: Array | None, id: str, note: str, *row: Any) -> Record:
        if self.guards is not None:
            self.guards.admit(g, None if self.learner.takes_advice else hint)
        if hint is None:
            return Record(records.ROUND, g, id, note, *row)
        return Record(records.HINTED, np.concatenate((g, hint)), id, note, *row)

    def record_cost(self, value: Any, id: str = "") -> Record:
        """Make the record of a round that says what the decision cost; its gradient is the bandit's estimate."""
        learner = self.learner
        if not self.learns_from_costs:
            raise InvalidInput(
                f"observe_cost needs a learner that sees only costs, got {type(learner).__name__}. "
                "Use Bandit(learner, delta=0.1), or update(g)."
            )
        if self.spec.costs is not None:
            raise InvalidInput(
                f"The agent's costs are {self.spec.costs}, so it takes rows. Use observe(row)."
            )
        values = learner.check_values(value)
        return Record(records.ROUND, learner.estimate(self.form, values), id, values=values)

    def record_wait(self, id: str = "") -> Record:
        """Make the record of a round that ends without its feedback."""
        self._require_delayed()
        return Record(records.ROUND, id=id, note=note_feedback(records.WAITS, self.t))

    def record_given_up(self, round: Any, id: str = "") -> Record:
        """Make the record of a round whose feedback will never come."""
        self._require_delayed().find_point(self.form, round)
        return Record(records.ROUND, id=id, note=note_feedback(records.GIVEN_UP, int(round)))

    def record_change(self, kind: int, reason: str) -> Record | None:
        """Make the record of a freeze or a resume, a delete or a restore; None if nothing changes."""
        is_so = self.deleted
        if kind in (records.FREEZE, records.RESUME):
            is_so = self.require_guards("freeze" if kind == records.FREEZE else "resume").frozen
        return (
            None
            if is_so == (kind in (records.FREEZE, records.DELETE))
            else Record(kind, note=reason)
        )

    def record_guards(self, guards: Guards) -> Record | None:
        """Make the record of new guards; None if nothing changes."""
        fitted = self.fit_guards(guards)
        return (
            None
            if fitted == self.guards
            else Record(records.GUARDS, note=json.dumps(fitted.to_dict()))
        )

    def _find_played(self, round: Any) -> tuple[Array, str]:
        """Return the point that feedback is about, and the note of its record."""
        if round is None:
            return self.played, ""
        s = integer(round, "round")
        if s == self.t:
            return self.played, ""
        if not self.can_wait:
            raise InvalidInput(
                f"round must be the current one, {self.t}, got {round}. "
                "Leave it out, or use Delayed(learner) for feedback that comes late."
            )
        return self.learner.find_point(self.form, s), note_feedback(records.LATE, s)

    def _require_delayed(self) -> Delayed:
        if not self.can_wait:
            raise InvalidInput(
                f"{type(self.learner).__name__} cannot wait for feedback. Use Delayed(learner)."
            )
        return self.learner

    def _require_hints(self) -> None:
        if not self.learner.accepts_hints:
            raise InvalidInput(
                f"{self.learner!r} takes no hints. Use MemoryGD, or auto(..., hints=True)."
            )

    def _require_gradients(self, is_meant: bool) -> None:
        """Reject a gradient where rows are expected, unless it is meant and the learner can use it."""
        is_possible = self.learner.takes_gradients and not self.queue
        if is_meant and is_possible:
            return
        message = f"The agent's costs are {self.spec.costs}, so it takes rows. Use observe(row)"
        if is_possible:
            message += ", or update(g, gradient=True) if g is a gradient"
        raise InvalidInput(f"{message}.")

    def require_guards(self, name: str) -> GuardState:
        """Return the guards' state; raise an error that ``name`` needs guards."""
        if self.guarded is None:
            raise InvalidInput(
                f"{name} needs an agent with guards. Build it with guards=Guards()."
            )
        return self.guarded

    # A round

    def compute(self, record: Record) -> RoundOutcome:
        """Compute what a record leads to; nothing changes before :meth:`apply`."""
        if record.kind > records.HINTED:
            return self._compute_change(record)
        if record.note and read_feedback(record) is not None:
            return self._compute_delayed(record)
        price = read_move_cost(record)
        if self.is_plain and price is None:
            # The round is a single call of the kernel.
            now = self.form
            form = now.copy()
            g = record.numbers
            if self.kernel(form, g) != 0:
                vector(g, "g")
            place = self.layout.x
            x = form[place]
            played = now[place]
            switching = self._weight * float(self._distance(x - played))
            # SQLite has no -0.0.
            hitting = float(g.dot(played)) + 0.0
            return RoundOutcome(int(now[codes.T]), form, None, None, x, hitting, switching)
        charged = self.in_force
        stand = charged
        values = record.values
        row = None
        if values is not None:
            if self.spec.costs is None:
                return self._compute_cost(values)
            row = self.spec.scale(values)
            stand = self.spec.costs.drift(row, charged)
        g, hint, is_clipped, hitting = self._evaluate(record, charged, row)
        within = self._read_limits(record)
        form = self._step(g, hint) if price is None else self._step_at(price, g, hint)
        return self._move(form, stand, hitting, is_clipped, values, within, price)

    def _evaluate(
        self, record: Record, charged: Array, row: Array | None
    ) -> tuple[Array, Array | None, bool, float]:
        """Return what the learner gets and its hint, whether guards clipped them, and what the point ``charged`` cost.

        ``row`` is that of the record, in units of decisions.
        """
        d = len(charged)
        g = record.numbers[:d]
        hint = record.numbers[d:] if record.kind == records.HINTED else None
        costs = self.spec.costs
        hitting = record.hitting
        if row is None or costs is None:
            hitting = float(g.dot(charged))
        else:
            if hitting is None:
                hitting = float(costs.value(row, charged))
            if not self._takes_gradients:
                g = row
        is_clipped = False
        if self.guards is not None:
            # A decision that somebody advises is no gradient, which guards would limit.
            forecast = None if self.learner.takes_advice else hint
            g, forecast, is_clipped = self.guards.clip(g, forecast)
            hint = hint if forecast is None else forecast
        return g, hint, is_clipped, hitting

    def _step(self, g: Array, hint: Array | None) -> Any:
        """Return the learner's state after a round."""
        if self.engine == "step":
            hints = () if hint is None else (hint,)
            return self.learner.step(self.form, g, *hints)
        form = self.form.copy()
        if hint is not None:
            form[self.layout.hint] = hint
        self.kernel(form, g)
        if hint is not None:
            form[self.layout.hint] = 0.0
        return form

    def _step_at(self, price: float, g: Array, hint: Array | None) -> Any:
        """Return the learner's state after a round whose next move has a price of its own."""
        factor = self.learner.find_factor(price)
        if factor is None:
            return self._step(g, hint)
        if self.engine == "compiled" and factor > 0.0 and hint is None:
            if self._priced is None:
                self._priced = PricedKernel(self.learner)
            if self._priced.fits:
                form = self.form.copy()
                self._priced.play(form, g, factor)
                return form
        hints = () if hint is None else (hint,)
        state = self.learner.reprice(factor).step(self.state, g, *hints)
        return state if self.engine == "step" else self.layout.pack(state)

    def _move(
        self,
        form: Any,
        stand: Array,
        hitting: float,
        is_clipped: bool = False,
        values: Array | None = None,
        within: LimitedSet | None = None,
        price: float | None = None,
    ) -> RoundOutcome:
        """Return the outcome of a move to the point of a new state, as far as guards and limits allow.

        Charged is the move from ``stand`` to the point that is in force next.
        """
        x = self._point(form)
        guarded = None
        acted = ""
        if self.guards is not None and self.guarded is not None:
            guards = self.guards if price is None else self.guards.reprice(price)
            guarded = guards.step(
                self.guarded, self.learner.domain, x, self.t + 1, is_clipped, within
            )
            x = guarded.x
            acted = guarded.acted
        queue = self.queue
        following = x
        if queue:
            queue = (*queue[1:], self.x)
            following = queue[0]
        weight = self._weight if price is None else price
        switching = weight * float(self._distance(following - stand))
        paid = (hitting + 0.0, switching)
        return RoundOutcome(
            self.t, form, self.guards, guarded, x, *paid, acted, values, queue=queue
        )

    def _compute_cost(self, values: Array) -> RoundOutcome:
        """Compute a round of a bandit; the cost of a point that guards chose teaches it nothing."""
        is_own = np.array_equal(self.played, self.own)
        form = self.learner.learn(self.form, values) if is_own else self.learner.skip(self.form)
        return self._move(form, self.played, float(values[0]))

    def _compute_delayed(self, record: Record) -> RoundOutcome:
        """Compute a round whose feedback does not come with it, or late feedback, which moves nothing."""
        learner = self._require_delayed()
        what, round = read_feedback(record) or ("", 0)
        if what == records.WAITS:
            return self._move(learner.advance(self.form, self.played), self.played, 0.0)
        still = RoundOutcome(self.t, self.form, self.guards, self.guarded, self.played)
        if what == records.GIVEN_UP:
            return still._replace(form=learner.give_up(self.form, round))
        played = learner.find_point(self.form, round)
        row = None if record.values is None else self.spec.scale(record.values)
        g, _, is_clipped, hitting = self._evaluate(record, played, row)
        acted = "clip" if is_clipped else ""
        form = learner.learn(self.form, round, g)
        return still._replace(form=form, hitting=hitting + 0.0, acted=acted, values=record.values)

    def _compute_change(self, record: Record) -> RoundOutcome:
        """Compute a change that is not a round; the learner stays as it is."""
        guards = self.guards
        guarded = self.guarded
        if record.kind == records.GUARDS:
            guards = Guards.from_dict(json.loads(record.note))
            guarded = guarded or guards.init(self.learner.domain, self.own, self.t)
        elif record.kind in (records.FREEZE, records.RESUME):
            guarded = self.require_guards("freeze")._replace(frozen=record.kind == records.FREEZE)
        is_deleted = record.kind == records.DELETE
        return RoundOutcome(
            self.t, self.form, guards, guarded, self.played, is_deleted=is_deleted
        )

    def apply(self, outcome: RoundOutcome) -> None:
        """Make an outcome the present."""
        self.form = outcome.form
        self.guarded = outcome.guarded
        self.deleted = outcome.is_deleted
        self.hitting += outcome.hitting
        self.switching += outcome.switching
        if outcome.queue is not None:
            self.queue = outcome.queue
        if outcome.values is not None and self.spec.fill == "forward":
            self.last_row = outcome.values
        if outcome.guards is not self.guards:
            self.guards = outcome.guards
            self._select_fast_path()

    def fill_from(self, row: Array) -> None:
        """Remember a row for the missing cells of the next one, if the agent fills forward."""
        if self.spec.fill == "forward":
            self.last_row = row

    def remember(self, id: str) -> None:
        """Remember the id of a round, if it has one, and forget the oldest where there are too many."""
        if id:
            self.ids[id] = None
            if len(self.ids) > IDS_REMEMBERED:
                del self.ids[next(iter(self.ids))]

    def copy(self) -> Self:
        """Return a state that changes independently of this one."""
        # The module copy takes four times as long, and bulk requests copy thousands.
        copied = type(self).__new__(type(self))
        copied.__dict__ = self.__dict__.copy()
        return copied

    # Files

    def to_dict(self) -> dict[str, Any]:
        """Describe the agent by plain JSON values."""
        found = self.describe_configuration() | self.describe_state()
        if self.ids:
            found["ids"] = list(self.ids)
        return found

    def describe_configuration(self) -> dict[str, Any]:
        """Describe what never changes: engine, learner, and what rows cost."""
        return {"engine": self.engine, "learner": self.learner.to_dict(), **self.spec.to_dict()}

    def describe_state(self) -> dict[str, Any]:
        """Describe what changes: the machine, the state, the guards and theirs, the costs, the last row."""
        found: dict[str, Any] = {
            "machine": describe_machine(self.engine),
            "state": describe_state(self.state),
        }
        if self.guards is not None:
            found |= {"guards": self.guards.to_dict(), "guarded": describe_state(self.guarded)}
        if self.knows_costs:
            found["account"] = {"hitting": self.hitting, "switching": self.switching}
        if self.last_row is not None:
            found["last_row"] = self.last_row.tolist()
        if self.queue:
            found["queue"] = [x.tolist() for x in self.queue]
        return found

    @classmethod
    def from_dict(
        cls, data: dict[str, Any], is_trusted: bool = False, learner: Learner[Any] | None = None
    ) -> Self:
        """Rebuild what :meth:`to_dict` described, with ``learner`` if that was its; a state that is not trusted is checked."""
        if learner is None or learner.to_dict() != data["learner"]:
            learner = Learner.from_dict(data["learner"])
        state = rebuild_state(learner.init(), data["state"])
        if state is None:
            held = data["state"]
            if isinstance(held, dict):
                held = sorted(held)
            raise InvalidInput(f"The state of the {type(learner).__name__} is damaged: {held}.")
        if not is_trusted:
            learner.check_state(state)
        guards = Guards.from_dict(data["guards"]) if "guards" in data else None
        found = cls(learner, data["engine"], state, guards, RowSpec.from_dict(learner, data))
        if guards is not None:
            found.guarded = rebuild_state(found.guarded, data.get("guarded"))
            if found.guarded is None:
                raise InvalidInput("The file is damaged: it has guards without their state.")
        if "account" in data and found.knows_costs:
            try:
                found.hitting = data["account"]["hitting"]
                found.switching = data["account"]["switching"]
            except (KeyError, TypeError):
                raise ValueError("The state has no sums of costs. The file is damaged.") from None
        if "last_row" in data:
            found.fill_from(found.spec.read(data["last_row"], learner.domain.dim))
        if found.queue:
            dim = learner.domain.dim
            found.queue = tuple(rows(data.get("queue", ()), "queue", dim, len(found.queue)))
        found.ids = dict.fromkeys(data.get("ids", ()))
        found.machine = data.get("machine", {})
        return found


@cache
def describe_machine(engine: str) -> dict[str, str]:
    """Return the versions and CPU features that the numbers of an agent with this engine may depend on."""
    found = {"klazy": sys.modules["klazy"].__version__, "numpy": np.__version__}
    if engine == "step":
        numpy_build: Any = np.show_config(mode="dicts")
        extensions = numpy_build["SIMD Extensions"]
        return found | {"cpu": " ".join(extensions["baseline"] + extensions.get("found", []))}
    from klazy.kernels.binding import describe_target

    return found | describe_target()


def warn_of_another_machine(
    machine: dict[str, str], engine: str, where: object, stacklevel: int
) -> bool:
    """Warn if an agent was written on another kind of ``machine``; return True if it was not."""
    here = describe_machine(engine)
    if machine == here:
        return True
    names = [name for name in sorted(here) if name != "cpu" and machine.get(name) != here[name]]
    changed = [f"{name} {machine.get(name, 'unknown')} (here: {here[name]})" for name in names]
    if machine.get("cpu") != here["cpu"]:
        changed.append("another kind of CPU")
    if changed:
        words = f"{where}: this agent was written by {', '.join(changed)}"
        remedy = "it goes on, but its points may differ in their last bits from those it would have played there"
        warnings.warn(f"{words}; {remedy}.", OtherMachine, stacklevel=stacklevel + 1)
    return False
