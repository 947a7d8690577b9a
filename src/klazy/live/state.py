"""What an agent is between two rounds: all that follows from the records it has taken, and that a store can rebuild."""

import json
from types import FunctionType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, one_of, refusal, vector, whole
from klazy.kernels import codes
from klazy.kernels.layout import find_missing_part, layout_of
from klazy.learners import Bandit, Delayed, Learner
from klazy.learners.base import describe_state, rebuild_state
from klazy.live.guards import Guards, GuardState
from klazy.live.machine import describe_machine
from klazy.live.records import (
    DELETE,
    FREEZE,
    GIVEN_UP,
    GUARDS,
    HINTED,
    LATE,
    RESTORE,
    ROUND,
    WAITS,
    Record,
    note_feedback,
    read_feedback,
)
from klazy.live.rows import OBSERVE, Account, Terms
from klazy.movement import Movement

REMEMBERED = 4096  # ids of rounds, the latest, of an agent in memory
COST = "Agent.observe_cost"
COPIED_AT_ONCE = 500  # numbers; while NumPy copies more, other threads run


class Outcome(NamedTuple):
    """What a round leads to: the learner's state, in its engine's form, and the guards'; what it cost, and moving after it.

    ``acted`` names the guards that acted, ``row`` is the row that the round was told.
    """

    form: Any
    guarded: GuardState | None
    hitting: float
    switching: float
    acted: str = ""
    row: Array | None = None


class Live:
    """A learner's state in the form of its engine, the point that guards let it play, and the ids of its latest rounds.

    ``terms`` says what a round costs and how it is named. An agent that takes rows also keeps an ``account`` of its costs, and
    one that fills missing cells forward the ``last_row`` that it was told.
    """

    def __init__(
        self,
        learner: Learner[Any] | None,
        engine: str,
        state: Any,
        guards: Guards | None,
        terms: Terms | None = None,
    ) -> None:
        if not isinstance(learner, Learner):
            raise refusal("Agent", "a learner", "learner", repr(learner), "write Agent(GD(L2Ball(5), 1.0))")
        missing = find_missing_part(learner)
        one_of(engine, "engine", "Agent", ("auto", "compiled", "step"))
        if engine == "compiled" and missing:
            raise refusal(
                "Agent",
                "a kernel for every part",
                "engine",
                f"'compiled' with {missing}",
                "use engine='auto'",
            )
        self.learner: Any = learner
        self.engine = "step" if missing or engine == "step" else "compiled"
        first = learner.init() if state is None else learner.check_state(state, "Agent")
        self._hold(first)
        self.terms = terms or Terms.check(learner, None, None, None, None)
        self._charged: Movement = self.terms.movement or learner.own_movement
        knows_costs = self.terms.takes_rows or isinstance(learner, Bandit)
        self.account = Account() if knows_costs else None
        self.guards: Guards | None = None
        self.guarded: GuardState | None = None
        self.ids: dict[str, None] = {}
        self.last_row: Array | None = None
        self.guard_by(guards)

    def _hold(self, state: Any) -> None:
        if self.engine == "step":
            self._state = state
            return
        self.layout = layout_of(self.learner)
        self.kernel = self.layout.update_kernel()
        self.flat = self.layout.pack(state)

    def guard_by(self, guards: Guards | None) -> None:
        """Play within these limits from now on; None leaves them as they are."""
        if guards is None:
            return
        self.guards = self.fit_guards(guards)
        self.guarded = self.guarded or self.guards.init(self.learner.domain, self.own, self.t)

    def fit_guards(self, guards: Guards) -> Guards:
        """These guards for this learner, or a refusal."""
        if not isinstance(guards, Guards):
            raise refusal("Agent", "guards", "guards", repr(guards), "write Guards(per_round=0.1)")
        movement = self.terms.movement
        if movement is not None and guards.movement not in (None, movement):
            remedy = "leave out the movement of the guards"
            raise refusal(
                "Agent", f"guards with its own movement, {movement!r}", "guards", repr(guards), remedy
            )
        if guards.G is not None and guards.above == "clip" and not self.learner.takes_gradients:
            remedy = "use above='refuse'"
            raise refusal(
                "Agent", "a learner that is told gradients to clip them", "guards", repr(guards), remedy
            )
        return guards.replace(movement=guards.movement or movement).fit(self.learner)

    @property
    def movement(self) -> Movement:
        """What its moves are charged by."""
        if self.guards is not None and self.guards.movement is not None:
            return self.guards.movement
        return self._charged

    @property
    def state(self) -> Any:
        """The learner's state, which ``learner.step`` would take."""
        if self.engine == "step":
            return self._state
        now = np.frombuffer(self.flat.tobytes())  # in one step: other threads may be playing rounds
        return self.layout.unpack(now)

    @property
    def t(self) -> int:
        """The round about to be played."""
        return self._state.t if self.engine == "step" else int(self.flat[codes.T])

    @property
    def own(self) -> Array:
        """The learner's own point, as it stands in the state."""
        form = self._state if self.engine == "step" else self.flat
        return self.point(form)

    @property
    def plays_in_one_step(self) -> bool:
        """Whether a call of the kernel is all of a round, and no other thread can see it, or a copy of the point, half done."""
        if self.engine != "compiled" or self.learner.accepts_hints:
            return False
        is_compiled = not isinstance(self.kernel, FunctionType)
        return is_compiled and self.learner.domain.dim <= COPIED_AT_ONCE

    @property
    def played(self) -> Array:
        """The point to play, as it stands in the state."""
        return self.own if self.guarded is None else self.guarded.x

    @property
    def x(self) -> Array:
        """The point to play, a copy."""
        return self.played.copy()

    def point(self, form: Any) -> Array:
        """The learner's own point in a state of its engine's form."""
        if self.engine == "step":
            return form.x
        return form[self.layout.x]

    @property
    def pending(self) -> dict[int, Array]:
        """The rounds that wait for feedback, with the points played in them."""
        if not isinstance(self.learner, Delayed):
            return {}
        state = self.state
        return {int(s): x.copy() for s, x in zip(state.rounds, state.points, strict=True)}

    @property
    def probes(self) -> tuple[Array, ...]:
        """The points whose costs a learner is told that sees nothing else: the one to play, and those to try beside it."""
        if not isinstance(self.learner, Bandit):
            return (self.x,)
        return (self.x, *self.learner.probes(self.state)[1:])

    def require_delayed(self, owner: str) -> Delayed:
        """The learner, if it takes feedback late."""
        if not isinstance(self.learner, Delayed):
            remedy = "build it with Delayed(learner)"
            raise refusal(owner, "a learner that can wait", "learner", type(self.learner).__name__, remedy)
        return self.learner

    def find_played(self, round: Any, owner: str) -> tuple[Array, str]:
        """The point that feedback is of, and the note of its record; None and t mean the round under way."""
        if round is None:
            return self.played, ""
        s = whole(round, "round", owner, "a round >= 1", "rounds are counted from one")
        if s == self.t:
            return self.played, ""
        if not isinstance(self.learner, Delayed):
            remedy = "leave it out, or build the agent with Delayed(learner) for feedback that comes late"
            raise refusal(owner, f"the round under way, {self.t}", "round", round, remedy)
        return self.learner.find_point(self.state, s, owner), note_feedback(LATE, s)

    def check_wait(self, id: str) -> Record:
        """The record of a round that ends without its feedback."""
        self.require_delayed("Agent.advance")
        return Record(ROUND, np.empty(0), id, note_feedback(WAITS, self.t))

    def check_given_up(self, round: Any, id: str) -> Record:
        """The record of a round whose feedback will never come."""
        owner = "Agent.give_up"
        self.require_delayed(owner).find_point(self.state, round, owner)
        return Record(ROUND, np.empty(0), id, note_feedback(GIVEN_UP, int(round)))

    def check_round(self, g: ArrayLike, hint: ArrayLike | None, id: str, round: Any = None) -> Record:
        """The record of a round, with numbers of its own; refused if the learner or the guards cannot take it."""
        d = self.learner.domain.dim
        _, note = self.find_played(round, "Agent.update")
        g = vector(g, "g", "Agent.update", d).copy()
        if hint is not None:
            hint = vector(hint, "hint", "Agent.update", d)
            self.require_hints("Agent.update")
        if self.guards is not None:
            self.guards.admit(g, hint)
        if hint is None:
            return Record(ROUND, g, id, note)
        return Record(HINTED, np.concatenate((g, hint)), id)

    def check_gradient(self, meant: bool) -> None:
        """Refuse a gradient where rows are wanted, unless a gradient is meant and the learner can take it."""
        if not self.terms.takes_rows:
            return
        if not self.learner.takes_gradients:
            remedy = "use observe(row)"
            raise refusal(
                "Agent.update", "a learner that is told gradients", "costs", self.terms.costs, remedy
            )
        if not meant:
            remedy = "use observe(row), or update(g, gradient=True) if g is a gradient"
            raise refusal("Agent.update", "an agent that takes gradients", "costs", self.terms.costs, remedy)

    def check_cost(self, value: Any, id: str) -> Record:
        """The record of a round of which only the cost is told; its gradient is the estimate."""
        learner = self.learner
        if not isinstance(learner, Bandit):
            remedy = "build it with Bandit(learner, delta=0.1), or use update(g)"
            raise refusal(COST, "a learner that is told costs", "learner", type(learner).__name__, remedy)
        if self.terms.takes_rows:
            raise refusal(COST, "an agent without costs", "costs", self.terms.costs, "use observe(row)")
        values = learner.check_values(value, COST)
        return Record(ROUND, learner.estimate(self._state, values), id, row=json.dumps(values.tolist()))

    def require_hints(self, owner: str) -> None:
        """Refuse a hint that the learner would not heed."""
        if not self.learner.accepts_hints:
            remedy = "use MemoryGD, or auto(..., hints=True)"
            raise refusal(owner, "a learner that accepts hints", "learner", repr(self.learner), remedy)

    def check_row(self, row: Any, id: str, round: Any = None, hint: Any = None) -> Record:
        """The record of a round of which the row is told; refused if the terms, the learner or the guards cannot take it."""
        costs = self.terms.costs
        if costs is None:
            remedy = "build it with costs=Linear(), say, or tell it gradients with update(g)"
            raise refusal(OBSERVE, "costs that say what a row costs", "costs", None, remedy)
        values = self.terms.read_filled(row, self.learner.domain.dim, self.last_row)
        x, note = self.find_played(round, OBSERVE)
        g = np.asarray(costs.gradient(values, x), dtype=np.float64)
        hitting = float(costs.value(values, x))
        if not (np.isfinite(hitting) and np.isfinite(g).all()):
            raise refusal(OBSERVE, f"a finite cost at {x.tolist()}", "cost", hitting, "check the row")
        guess = None
        if hint is not None:
            self.require_hints(OBSERVE)
            guess = self.terms.read(hint, self.learner.domain.dim)
            if self.learner.takes_gradients:  # it is told gradients, here and there
                guess = np.asarray(costs.gradient(guess, x), dtype=np.float64)
        if self.guards is not None:
            self.guards.admit(g, guess)
        if guess is None:
            return Record(ROUND, g.copy(), id, note, self.terms.write(values))
        return Record(HINTED, np.concatenate((g, guess)), id, "", self.terms.write(values))

    def after(self, record: Record) -> Outcome:
        """What :meth:`show` will show once a round is taken."""
        feedback = read_feedback(record)
        if feedback is not None:
            return self._after_other_feedback(record, *feedback)
        d = self.learner.domain.dim
        played = self.played
        g = record.numbers[:d]
        hint = record.numbers[d:] if record.kind == HINTED else None
        costs = self.terms.costs
        hitting = float(g.dot(played)) + 0.0  # SQLite has no -0.0
        stand = played
        row = None
        if record.row and costs is None:
            return self._after_cost(self.terms.parse(record.row))
        if record.row and costs is not None:
            row = self.terms.parse(record.row)
            stand = costs.drift(row, played)
            hitting = float(costs.value(row, played)) + 0.0
            if not self.learner.takes_gradients:
                g = row
        movement: Any = self.movement
        if self.guards is None or self.guarded is None:
            form = self._step(g, hint)
            switching = movement.weight * float(movement.distance(self.point(form) - stand))
            return Outcome(form, None, hitting, switching, row=row)
        g, hint, clip = self.guards.clip(g, hint)
        form = self._step(g, hint)
        guarded = self.guards.step(self.guarded, self.learner.domain, self.point(form), self.t + 1, clip)
        switching = guarded.price
        if stand is not played:
            switching = movement.weight * float(movement.distance(guarded.x - stand))
        return Outcome(form, guarded, hitting, switching, guarded.acted, row)

    def _after_other_feedback(self, record: Record, what: str, round: int) -> Outcome:
        """The same where the feedback does not come with its round."""
        learner = self.require_delayed("Agent")
        if what == GIVEN_UP:
            return Outcome(learner.give_up(self._state, round), self.guarded, 0.0, 0.0)
        if what == WAITS:
            return self._move(learner.advance(self._state, self.played), 0.0)
        played = learner.find_point(self._state, round, "Agent")
        g = record.numbers
        hitting = float(g.dot(played)) + 0.0
        costs = self.terms.costs
        row = None
        if record.row and costs is not None:
            row = self.terms.parse(record.row)
            hitting = float(costs.value(row, played)) + 0.0
            if not self.learner.takes_gradients:
                g = row
        acted = ""
        if self.guards is not None:
            g, _, is_clipped = self.guards.clip(g, None)
            acted = "clip" if is_clipped else ""
        return Outcome(learner.learn(self._state, round, g), self.guarded, hitting, 0.0, acted, row)

    def _after_cost(self, values: Array) -> Outcome:
        """The same where only costs are told; those of a point that guards chose teach nothing."""
        is_own = np.array_equal(self.played, self.own)
        form = self.learner.learn(self._state, values) if is_own else self.learner.skip(self._state)
        return self._move(form, float(values[0]) + 0.0)

    def _move(self, form: Any, hitting: float) -> Outcome:
        """The move to the point of a new state, as far as guards allow."""
        movement: Any = self.movement
        if self.guards is None or self.guarded is None:
            switching = movement.weight * float(movement.distance(self.point(form) - self.played))
            return Outcome(form, None, hitting, switching)
        guarded = self.guards.step(self.guarded, self.learner.domain, self.point(form), self.t + 1)
        return Outcome(form, guarded, hitting, guarded.price, guarded.acted)

    def _step(self, g: Array, hint: Array | None) -> Any:
        """The state after a round; the present one does not change."""
        if self.engine == "step":
            if hint is None:
                return self.learner.step(self._state, g)
            return self.learner.step(self._state, g, hint)
        flat = self.flat.copy()
        if hint is None:
            self.kernel(flat, g)
            return flat
        flat[self.layout.hint] = hint
        self.kernel(flat, g)
        flat[self.layout.hint] = 0.0
        return flat

    def show(self, outcome: Outcome) -> None:
        """Take the round of which :meth:`after` told what comes after it."""
        self.guarded = outcome.guarded
        if self.engine == "step":
            self._state = outcome.form
        else:
            self.flat = outcome.form
        if outcome.row is not None:
            self.fill_from(outcome.row)
        if self.account is not None:
            paid = self.account
            self.account = Account(paid.hitting + outcome.hitting, paid.switching + outcome.switching)

    def fill_from(self, row: Array) -> None:
        """Fill the missing cells of the next row from this one, if the agent fills forward."""
        if self.terms.fill == "forward":
            self.last_row = row

    def guards_after(self, record: Record) -> tuple[Guards | None, GuardState | None]:
        """The guards and their state after a change that is no round; the learner goes on as it is."""
        if record.kind == GUARDS:
            guards = Guards.from_dict(json.loads(record.note))
            return guards, self.guarded or guards.init(self.learner.domain, self.own, self.t)
        if record.kind in (DELETE, RESTORE):
            return self.guards, self.guarded
        return self.guards, self.require_guards("freeze")._replace(frozen=record.kind == FREEZE)

    def remember(self, id: str) -> None:
        """Keep the id of a round, if it has one, and forget the oldest where there are too many."""
        if id:
            self.ids[id] = None
            if len(self.ids) > REMEMBERED:
                del self.ids[next(iter(self.ids))]

    def require_guards(self, name: str) -> GuardState:
        """What the guards hold, or the refusal of something that needs them."""
        if self.guarded is None:
            raise refusal("Agent", f"guards for {name}", "guards", None, "build it with guards=Guards()")
        return self.guarded

    def about(self) -> dict[str, Any]:
        """All of this as plain JSON values."""
        about = self.about_configuration() | self.about_state()
        if self.ids:
            about |= {"ids": list(self.ids)}
        return about

    def about_configuration(self) -> dict[str, Any]:
        """What does not change in an agent's life."""
        return {"engine": self.engine, "learner": self.learner.to_dict(), **self.terms.about()}

    def about_state(self) -> dict[str, Any]:
        """What does: the machine, the state, the guards and theirs, the last row."""
        about: dict[str, Any] = {
            "machine": describe_machine(self.engine),
            "state": describe_state(self.state),
        }
        if self.guards is not None:
            about |= {"guards": self.guards.to_dict(), "guarded": describe_state(self.guarded)}
        if self.account is not None:
            about |= {"account": describe_state(self.account)}
        if self.last_row is not None:
            about |= {"last_row": self.last_row.tolist()}
        return about

    @classmethod
    def rebuild(cls, about: dict[str, Any]) -> Self:
        """What :meth:`about` described."""
        learner = Learner.from_dict(about["learner"])
        state = rebuild_state(learner.init(), about["state"])
        if state is None:
            held = about["state"]
            if isinstance(held, dict):
                held = sorted(held)
            raise ValueError(
                f"Agent needs the state of a {type(learner).__name__}, got {held}; the file is damaged."
            )
        guards = Guards.from_dict(about["guards"]) if "guards" in about else None
        live = cls(learner, about["engine"], state, guards, Terms.rebuild(learner, about))
        if guards is not None:
            live.guarded = rebuild_state(live.guarded, about.get("guarded"))
            if live.guarded is None:
                raise ValueError("Agent needs the state of its guards, got none; the file is damaged.")
        if live.account is not None and "account" in about:
            live.account = rebuild_state(live.account, about["account"])
            if live.account is None:
                raise ValueError("Agent needs the account of its costs, got none; the file is damaged.")
        if "last_row" in about:
            live.fill_from(live.terms.read(about["last_row"], learner.domain.dim))
        live.ids = dict.fromkeys(about.get("ids", ()))
        return live
