"""An agent: it holds a learner's state, takes the row or the gradient of a round, and gives the next decision."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, check_depth, file_path, vector
from klazy.families import Family
from klazy.learners import Learner
from klazy.live.guards import Guards, split_guards
from klazy.live.records import CHANGE_NAMES, DELETE, FREEZE, RESTORE, RESUME, Record, check_id
from klazy.live.rows import COMPARED, Dropped, NextLimits, RowSpec, check_learner
from klazy.live.state import (
    IDS_REMEMBERED,
    AgentState,
    copy_at_once,
    warn_of_another_machine,
)
from klazy.movement import Movement

if TYPE_CHECKING:
    # Stores, frames and explanations are imported when they are needed.
    from datetime import timedelta

    import polars

    from klazy.live.explain import Explanation
    from klazy.live.stored import MakeRecord, StoredAgent

# The format of the file that Agent.save writes, and its members.
FORMAT = 2
_NEEDED = {"engine", "machine", "learner", "state"}
_OPTIONAL = {
    "guards",
    "guarded",
    "ids",
    "costs",
    "columns",
    "names",
    "movement",
    "origin",
    "account",
}
_OPTIONAL |= {"fill", "last_row", "per", "lead", "delay", "queue", "forecast"}
_FLOAT64 = np.dtype(np.float64)


class InStore:
    """What agents and fleets have in common: a store, if they were opened, and a lock for the threads that share them."""

    # What an error calls it, and how it is opened.
    _noun: ClassVar[str]
    _opening: ClassVar[str]
    _stored: Any
    _lock: RLock
    x: Any

    def _require_store(self, name: str) -> Any:
        if self._stored is None:
            raise InvalidInput(
                f"{name} needs {self._noun} with a store. Open it with {self._opening}."
            )
        return self._stored

    def _require_memory(self, remedy: str) -> None:
        """Raise an error if there is a store: its connection cannot be copied."""
        if self._stored is not None:
            noun = self._noun.capitalize()
            raise InvalidInput(
                f"{noun} with a store, {self._stored.store.path}, cannot be copied or pickled. {remedy}"
            )

    def refresh(self) -> Array:
        """Read the rounds that other processes have ended.

        Returns
        -------
        ndarray
            What to play now: the point of an agent, or those of a fleet.
        """
        with self._lock:
            self._require_store("refresh").reload()
            return self.x

    def close(self) -> None:
        """Close the store, with a snapshot of the present state; no more rounds can be played."""
        with self._lock:
            if self._stored is not None:
                self._stored.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Controls(ABC):
    """What operators do to an agent, be it here or in a service."""

    @abstractmethod
    def _change(self, kind: int, reason: str) -> None:
        """Make a change of this kind of record."""

    def freeze(self, reason: str = "") -> None:
        """Play the present point until :meth:`resume`, while the learner goes on learning; the agent must have guards.

        Parameters
        ----------
        reason : str, optional
            The reason, for the history.
        """
        self._change(FREEZE, reason)

    def resume(self, reason: str = "") -> None:
        """Let the point follow the learner again from the next round on, as far as the guards allow.

        Parameters
        ----------
        reason : str, optional
            The reason, for the history.
        """
        self._change(RESUME, reason)

    def delete(self, reason: str = "") -> None:
        """Take no more rounds until :meth:`restore`; the history and the name stay.

        Parameters
        ----------
        reason : str, optional
            The reason, for the history.
        """
        self._change(DELETE, reason)

    def restore(self, reason: str = "") -> None:
        """Take rounds again after :meth:`delete`; the agent continues where it was.

        Parameters
        ----------
        reason : str, optional
            The reason, for the history.
        """
        self._change(RESTORE, reason)


class Agent(InStore, Controls):
    """A learner in service: play its decision, then give it feedback.

    Give it the row of data of the round with :meth:`~klazy.Agent.observe`, if it knows what a row costs, or a gradient of the
    round's cost with :meth:`~klazy.Agent.update`. A saved agent, once loaded, goes on bit for bit as if it had never stopped;
    one made by :meth:`open` keeps itself on disk. Threads may share an agent: they take turns.

    Parameters
    ----------
    learner : Learner
        Who decides.
    costs : Family, optional
        What a row of data costs, such as ``Pinball(short=4.0)``; the agent then takes rows. Default: the family of a learner
        that sees rows, else none: the agent takes gradients.
    columns : sequence of str or dict, optional
        The names of a row's entries, in the order of the coordinates; decisions have the same names. Where they differ, a dict
        from the names of a row to those of a decision: ``{"demand": "capacity"}``.
    movement : Movement or str, optional
        What moving costs, or its short name: ``"l2"``, ``"l1"``, ``"tv"``, ``"fee"``. Default: what :func:`~klazy.run` would
        charge the learner.
    engine : str, optional
        As in :func:`~klazy.run`.
    state : optional
        Where it begins: the state of a trace or of another agent with this learner.
    guards : Guards, optional
        Limits on what it plays. Without them it plays the learner's points.
    origin : dict, optional
        Where it was tuned, as plain values. It is stored with the agent and changes nothing.
    fill : str, optional
        What to do with a missing cell of a row (None, NaN, or no entry at all): ``"forward"`` repeats the number of the row
        before, ``"zero"`` takes 0, ``"drop"`` leaves out the row. Default: reject the row.
    last_row : array_like, optional
        With ``fill="forward"``, the row before the first one. Default: none, so that the first row must be complete.
    history : frame or sequence of rows, optional
        Rows of rounds that are over, or gradients for an agent that takes these. The learner plays them first, so that it
        begins with all that they teach: the expert that it follows, forecasts and seasons. They cost nothing, but rounds are
        counted on, and the first decision is the one after them. Default: none.
    per : float or sequence of float, optional
        How many units of a row are one unit of a decision, in all columns or in each: with ``per=60``, a server meets a demand
        of 60. Rows are divided by it before they are charged; costs, limits and prices are of units of decisions. It needs
        pinball or quadratic costs. Default: 1.
    lead : int, optional
        How many rounds later a decision acts, a boot time, say. A row is charged at the decision that acts in its round, and a
        move when it acts; until the first decision acts, the first point does. The learner sees the row, or its gradient at the
        decision it made last. Default: 0.
    delay : int, optional
        How many rounds late every row comes. A row is charged at the decision that acted in its own round, so that the account
        is as late as the rows. Default: 0. For rows that come in any order, use :class:`~klazy.contrib.Delayed`.
    forecast : str or sequence of str, optional
        Further entries of a row, one per column: a forecast of the row that the decision after it meets, which is the next
        one (with ``lead`` and ``delay``, as many rounds later). They are the learner's hints; a row without them is decided
        without. For an :class:`~klazy.contrib.Advice` without a policy, they are that decision itself. Default: rows have none.
    limits : tuple, optional
        What the first decision must be between, as ``next_limits`` of :meth:`~klazy.Agent.observe`. Default: no limits.

    Examples
    --------
    >>> agent = Agent(GD(Box(0, 100), sigma=0.1), costs=Pinball(short=4.0), columns=["servers"], movement="l1")
    >>> agent.observe({"servers": 57.0})
    {'servers': 40.0}
    >>> agent.hitting, agent.switching
    (228.0, 40.0)

    >>> agent = Agent(KLazyGD(Simplex(3), sigma=2.0, k=8))
    >>> agent.update([1.0, 0.0, 0.0])
    array([0. , 0.5, 0.5])
    >>> agent
    Agent(KLazyGD(domain=Simplex(dim=3), sigma=Constant(s=2.0), k=8), t=2)

    >>> past = [[57.0], [61.0], [55.0], [58.0]]
    >>> agent = Agent(auto(Box(0, 100), "l1", Pinball(4.0)), columns=["servers"], history=past)
    >>> agent.t, agent.decision["servers"] > 50.0, agent.hitting
    (5, True, 0.0)
    """

    _noun = "an agent"
    _opening = 'Agent.open("decisions.db", learner)'
    _stored: StoredAgent | None

    def __init__(
        self,
        learner: Learner[Any],
        *,
        costs: Family | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        movement: Movement | str | None = None,
        engine: str = "auto",
        state: Any = None,
        guards: Guards | None = None,
        origin: dict[str, Any] | None = None,
        fill: str | None = None,
        last_row: Any = None,
        history: Any = None,
        per: ArrayLike | None = None,
        lead: int | None = None,
        delay: int | None = None,
        forecast: str | Sequence[str] | None = None,
        limits: NextLimits | None = None,
    ) -> None:
        given = {
            "costs": costs,
            "columns": columns,
            "movement": movement,
            "origin": origin,
            "fill": fill,
        }
        given |= {"per": per, "lead": lead, "delay": delay, "forecast": forecast}
        is_first = history is None
        now = _start(
            learner,
            engine,
            state,
            guards if is_first else None,
            given,
            limits if is_first else None,
        )
        if last_row is not None and fill != "forward":
            raise InvalidInput(
                f"last_row is used by fill='forward' only, got fill={fill!r}. Leave last_row out."
            )
        if last_row is not None:
            now.fill_from(now.spec.read(last_row, learner.domain.dim))
        self._serve(now, None)
        if history is not None:
            self._learn(history)
            learned = _start(learner, engine, now.state, guards, given, limits)
            learned.last_row = now.last_row
            self._serve(learned, None)

    def _learn(self, history: Any) -> None:
        """Learn from past rounds by playing them."""
        if hasattr(history, "iter_rows"):
            history = history.iter_rows(named=True)
        elif hasattr(history, "iterrows"):
            history = (row for _, row in history.iterrows())
        play = self.update if self.costs is None else self.observe
        for row in history:
            play(row)

    def _serve(self, state: AgentState, stored: StoredAgent | None) -> Self:
        self._memory = state
        self._stored = stored
        self.learner = state.learner
        self.engine = state.engine
        self._spec = state.spec
        # A signal handler may take the lock again in the middle of a round.
        self._lock = RLock()
        self._is_bare = stored is None and state.is_plain
        if self._is_bare:
            self._kernel = state.kernel
            self._form = state.form
            self._x = state.own
        return self

    @property
    def _now(self) -> AgentState:
        """The present state; a store may replace it after rounds of other processes."""
        return self._memory if self._stored is None else self._stored.state

    @property
    def guards(self) -> Guards | None:
        """The limits on what it plays, if there are any."""
        return self._now.guards

    @property
    def state(self) -> Any:
        """The learner's state, which ``learner.step`` would take; its point is the learner's own, before any guards."""
        with self._lock:
            return self._now.state

    @property
    def t(self) -> int:
        """The round about to be played; 1 at the start."""
        return self._now.t

    @property
    def x(self) -> Array:
        """The point to play now, a copy."""
        with self._lock:
            return self._now.x

    @property
    def decision(self) -> Any:
        """The decision to play now: a dict by column name where names are known, else the point :attr:`x`."""
        with self._lock:
            return self._now.decision

    @property
    def costs(self) -> Family | None:
        """What a row costs, if the agent takes rows."""
        return self._spec.costs

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of a row's entries, if they are known."""
        return self._spec.columns

    @property
    def movement(self) -> Movement:
        """What its moves are charged by."""
        return self._now.movement

    @property
    def origin(self) -> dict[str, Any] | None:
        """Where it was tuned, if that is known."""
        return self._spec.origin

    @property
    def fill(self) -> str | None:
        """What happens to a missing cell of a row: ``"forward"``, ``"zero"`` or ``"drop"``; None if the row is rejected."""
        return self._spec.fill

    @property
    def per(self) -> tuple[float, ...] | None:
        """How many units of a row are one unit of a decision, by column; None if rows and decisions have the same units."""
        return self._spec.per

    @property
    def lead(self) -> int:
        """How many rounds later a decision acts."""
        return self._spec.lead

    @property
    def delay(self) -> int:
        """How many rounds late a row comes."""
        return self._spec.delay

    @property
    def forecast(self) -> tuple[str, ...] | None:
        """The names of a row's entries that forecast the row which the decision after it meets; None if there are none."""
        return self._spec.forecast

    @property
    def in_force(self) -> Any:
        """The decision that the next row is charged at: without lead and delay, the present one."""
        with self._lock:
            return self._spec.name(copy_at_once(self._now.in_force))

    @property
    def acted(self) -> tuple[str, ...]:
        """The guards that acted on the last move, and ``"frozen"`` while it is."""
        guarded = self._now.guarded
        return () if guarded is None else split_guards(guarded.acted, guarded.frozen)

    @property
    def last_id(self) -> str | None:
        """The id of the latest round that had one; None if none had."""
        with self._lock:
            ids = list(self._now.ids)
            if self._stored is not None:
                ids = self._stored.store.read_ids(self._stored.agent.id, 1)
        return ids[-1] if ids else None

    @property
    def hitting(self) -> float:
        """What all rounds so far have cost at the points played, of an agent that takes rows."""
        if not self._now.knows_costs:
            raise InvalidInput(
                "hitting needs costs. Build the agent with costs=Linear(), for example."
            )
        return self._now.hitting

    @property
    def switching(self) -> float:
        """What all moves to the present point have cost, price included; the agent must take rows or have guards."""
        now = self._now
        return now.switching if now.knows_costs else now.require_guards("switching").paid

    def update(
        self,
        g: ArrayLike,
        *,
        id: str | int | None = None,
        retry: bool = False,
        gradient: bool = False,
        round: int | None = None,
        next_hint: ArrayLike | None = None,
        next_limits: NextLimits | None = None,
        next_move_cost: float | None = None,
    ) -> Array:
        """End the round with a gradient of its cost. InvalidInput input changes nothing.

        Parameters
        ----------
        g : array_like
            A gradient of the round's cost at ``x``.
        id : str or int, optional
            If a round of this id is known, nothing changes: a store answers with the decision made then, however
            long ago; in memory the latest 4096 ids are known, and the answer is the present point.
        retry : bool, optional
            If another process has ended the round, apply ``g`` to the current one.
        gradient : bool, optional
            Say that ``g`` is a gradient indeed: an agent that takes rows rejects it otherwise.
        round : int, optional
            The round that the gradient is of. Default: the current one. An earlier one must wait for its feedback
            (:meth:`advance`); then the current round and its point stay.
        next_hint : array_like, optional
            A guess of the gradient of the next round, not of the round that ends, for learners that accept hints.
        next_limits : tuple, optional
            What the next decision must be between, as in :meth:`observe`.
        next_move_cost : float, optional
            What a unit of movement costs in the move to the next decision, as in :meth:`observe`.

        Returns
        -------
        ndarray
            The next point. Where threads share the agent, it may be that of a later round, which another one has ended.

        Raises
        ------
        ValueError
            If ``g``, ``next_hint`` or ``id`` do not fit, or the store cannot take the round.
        Overtaken
            If another process has ended the round, without ``retry``. The agent has read what happened.
        """
        is_array = type(g) is np.ndarray and g.dtype is _FLOAT64
        is_bare = next_hint is None and id is None and round is None
        is_usual = next_limits is None and next_move_cost is None
        if self._is_bare and is_array and is_bare and is_usual:
            try:
                # The call is one step for other threads, and so is the copy: neither needs the lock.
                if self._kernel(self._form, g) == 0:
                    return copy_at_once(self._x)
            except TypeError:
                # An array that is not contiguous, or read-only, is copied below.
                pass
        following = (next_hint, next_limits, next_move_cost)
        return self._end_with_gradient(g, id, retry, round, gradient, following)

    def _end_with_gradient(
        self, g: Any, id: Any, retry: bool, round: Any, gradient: Any, following: Any
    ) -> Array:
        """End a round in a store, or one with a hint or an id.

        This is apart from :meth:`update`, because variables of an inner function are slower there, too.
        """

        def make(now: AgentState, id: str) -> Record:
            # This is quicker than a partial function, and a round in a store is short.
            return now.record_gradient(g, id, round, gradient, *following)

        return self._end(make, id, retry or round is not None)

    def _end(self, make: MakeRecord, id: Any = None, retry: bool = True) -> Array:
        """End a round, or change the agent, by the record that ``make`` makes of its state."""
        text = "" if id is None else check_id(id)
        with self._lock:
            if self._stored is not None:
                return self._stored.end(make, text, retry)
            now = self._memory
            record = None
            if not text or text not in now.ids:
                record = make(now, id=text)
            if record is None:
                return now.x
            if self._is_bare:
                # Other threads may play rounds meanwhile, so this one must be a single step, too.
                if self._kernel(self._form, record.numbers) != 0:
                    vector(record.numbers, "g")
            else:
                now.apply(now.compute(record))
            now.remember(record.id)
            return now.x

    def observe(
        self,
        row: Any,
        *,
        id: str | int | None = None,
        retry: bool = False,
        round: int | None = None,
        next_forecast: Any = None,
        next_limits: NextLimits | None = None,
        next_move_cost: float | None = None,
    ) -> Any:
        """End the round with its row of data: demands or prices, say. A rejected row changes nothing.

        Cost and gradient are worked out at the decision that was played; what the round and the move after it cost is added to
        :attr:`hitting` and :attr:`switching`.

        Parameters
        ----------
        row : dict, pandas.Series, one-row frame or array_like
            The numbers of the round by column name, or in the order of the columns. Missing cells are filled if the agent has a
            :attr:`fill`; a row that it drops changes nothing, and the round and its decision stay.
        id : str or int, optional
            As in :meth:`update`: a round with a known id changes nothing.
        retry : bool, optional
            As in :meth:`update`: if another process has ended the round, use the row for the current one.
        round : int, optional
            As in :meth:`update`: the round that the row is of, if it is not the current one.
        next_forecast : dict, pandas.Series, one-row frame or array_like, optional
            A forecast of the row that the returned decision meets: of the next round's, with ``lead`` or ``delay`` of a later
            one's. The learner must accept hints. A forecast in the row itself (:attr:`forecast`) is not used then. A learner
            that sees gradients gets the gradient of the forecast at the decision that was played. For an
            :class:`~klazy.contrib.Advice` without a policy it is the decision advised for that round, by name or in order.
        next_limits : tuple, optional
            What the decision that this call returns must be between, ``(lower, upper)``: caps, quotas, an outage. Each is a
            dict by name, whose missing names have no limit, or a number, one per coordinate, or None. They hold for this one
            decision, before all guards and also while it is frozen, and the move that they demand is charged. The agent must
            have guards, such as ``Guards()``. Default: no limits.
        next_move_cost : float, optional
            What a unit of movement costs in the move that this call decides on, for this one move. It is charged, and told to
            learners that weigh it, such as :func:`~klazy.auto`. Default: the usual price, that of the movement.

        Returns
        -------
        dict or ndarray
            The next decision, by column name where names are known.

        Raises
        ------
        ValueError
            If the agent has no costs; if a column is missing, unknown, or holds no finite number.
        Overtaken
            If another process has ended the round, without ``retry``.

        Examples
        --------
        >>> agent = Agent(MovingAverage(Box([0, 0], [9, 9]), 3), costs=Linear(), columns=["eu", "us"])
        >>> agent.observe({"us": -1.0, "eu": 0.5})
        {'eu': 0.0, 'us': 9.0}
        >>> agent.observe({"us": -1.0})
        Traceback (most recent call last):
        klazy.base.checks.InvalidInput: The row has no 'eu'; it must have the columns 'eu', 'us'. Give every column a number.

        The next round is an outage of eu, so all load goes to us:

        >>> agent = Agent(GD(Simplex(2), 9.0), costs=Linear(), columns=["eu", "us"], guards=Guards())
        >>> agent.observe({"eu": 1.0, "us": 2.0}, next_limits=(None, {"eu": 0.0})), agent.switching
        ({'eu': 0.0, 'us': 1.0}, 0.5)
        """
        following = {"forecast": next_forecast, "limits": next_limits, "price": next_move_cost}
        make = partial(AgentState.record_row, row=row, round=round, **following)
        try:
            x = self._end(make, id, retry or round is not None)
        except Dropped:
            x = self.x
        return self._spec.name(x)

    @property
    def probes(self) -> tuple[Any, ...]:
        """The decisions whose costs :meth:`observe_cost` takes: the one to play, and perhaps one to try next to it."""
        with self._lock:
            return tuple(self._spec.name(x) for x in self._now.probes)

    def observe_cost(
        self, value: ArrayLike, *, id: str | int | None = None, retry: bool = False
    ) -> Any:
        """End the round with what its decision cost; the learner must be a :class:`~klazy.contrib.Bandit`.

        A round in which guards held the decision back teaches it nothing: the cost is not that of the point that it chose.

        Parameters
        ----------
        value : float or array_like
            The cost of the decision; with two points, that of each of :attr:`probes`.
        id : str or int, optional
            As in :meth:`update`: a round with a known id changes nothing.
        retry : bool, optional
            Whether the cost may count for another round, if another process has ended this one. Its decision was another one,
            so this is hardly ever right.

        Returns
        -------
        dict or ndarray
            The next decision, by column name where names are known.

        Raises
        ------
        ValueError
            If the learner is not a bandit, or the value is not as many finite numbers as there are points.
        Overtaken
            If another process has ended the round, without ``retry``.

        Examples
        --------
        >>> agent = Agent(Bandit(GD(Box(0, 9), sigma=4.0), points=2, delta=0.1))
        >>> for _ in range(60):
        ...     x = agent.observe_cost([(p.item() - 6.0) ** 2 for p in agent.probes])
        >>> round(x.item(), 1)
        6.0
        """
        x = self._end(partial(AgentState.record_cost, value=value), id, retry)
        return self._spec.name(x)

    @property
    def pending(self) -> dict[int, Any]:
        """The rounds that wait for their feedback, each with the decision played in it, the oldest first."""
        with self._lock:
            now = self._now
            return {round: now.spec.name(x) for round, x in now.pending.items()}

    def advance(self, *, id: str | int | None = None, retry: bool = False) -> Any:
        """End the round before its feedback is known; the learner must be a :class:`~klazy.contrib.Delayed`.

        The round and its point wait, in the store too, until :meth:`update` or :meth:`observe` gives its feedback with
        ``round=``, or :meth:`give_up` gives it up.

        Parameters
        ----------
        id : str or int, optional
            As in :meth:`update`: a round with a known id changes nothing.
        retry : bool, optional
            As in :meth:`update`: if another process has ended the round, end the current one.

        Returns
        -------
        dict or ndarray
            The next decision, by column name where names are known.

        Raises
        ------
        ValueError
            If the learner cannot wait.
        Overtaken
            If another process has ended the round, without ``retry``.

        Examples
        --------
        >>> agent = Agent(Delayed(GD(Box(-1, 1), sigma=2.0)))
        >>> x = agent.advance()
        >>> x = agent.update([0.5], round=1)  # it comes in round 2, whose point stays
        >>> x, agent.advance(), agent.pending
        (array([0.]), array([-0.25]), {2: array([0.])})
        """
        x = self._end(AgentState.record_wait, id, retry)
        return self._spec.name(x)

    def give_up(self, round: int, *, id: str | int | None = None) -> None:
        """Wait no more for the feedback of a round; it is not learned from.

        Parameters
        ----------
        round : int
            One of :attr:`pending`.
        id : str or int, optional
            As in :meth:`update`.

        Raises
        ------
        ValueError
            If the round does not wait for feedback.
        """
        self._end(partial(AgentState.record_given_up, round=round), id)

    def check_row(
        self, row: Any, *, id: str | int | None = None, next_limits: NextLimits | None = None
    ) -> bool:
        """Check a row as :meth:`observe` would; nothing changes.

        Parameters
        ----------
        row : dict, pandas.Series, one-row frame or array_like
            As in :meth:`observe`.
        id : str or int, optional
            As in :meth:`observe`.
        next_limits : tuple, optional
            As in :meth:`observe`.

        Returns
        -------
        bool
            True if the row would end the round, False if ``fill="drop"`` would leave it out.

        Raises
        ------
        ValueError
            If the agent has no costs; if a column is missing, unknown, or holds no finite number; if the id is none.
        """
        text = "" if id is None else check_id(id)
        with self._lock:
            try:
                self._now.record_row(row, id=text, limits=next_limits)
            except Dropped:
                return False
            return True

    def _change(self, kind: int, reason: str) -> None:
        if kind in (DELETE, RESTORE):
            self._require_store(CHANGE_NAMES[kind])
        self._end(lambda now, id: now.record_change(kind, reason))

    def explain(self) -> Explanation:
        """Explain why it plays ``x``: from which gradients, how far from moving, held back by which guards.

        Returns
        -------
        Explanation
            It prints itself, and notebooks show it as a card.

        Examples
        --------
        >>> agent = Agent(KLazyGD(Box(0, 1), sigma=1.0, k=8))
        >>> for g in (-1.0, -2.0, 0.5):
        ...     x = agent.update([g])
        >>> agent.explain()
        Round 4 plays [1.].
        It was made from the point of round 1 and the gradients of rounds 1 to 3.
        It remembers a push of norm 1.5 against the set: [1.5].
        No gradient of norm below 1.5 moves it.
        """
        with self._lock:
            return self._now.explain()

    def save(self, path: str | Path) -> None:
        """Write learner and state to a JSON file, in one step: a crash leaves the old file or the new one.

        Parameters
        ----------
        path : str or Path
            Where to write; a file that is there is replaced.
        """
        from klazy.base.files import write_durably

        with self._lock:
            data = self._now.to_dict()
            if self._stored is not None:
                data["ids"] = self._stored.store.read_ids(self._stored.agent.id, IDS_REMEMBERED)
            write_durably(file_path(path, "path"), add_checksum(data))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an agent that :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Agent
            It continues bit for bit.

        Raises
        ------
        ValueError
            If the file is damaged, or of another format.

        Warns
        -----
        OtherMachine
            If it was written by another version, or on another kind of CPU.
        """
        data = verify_checksum(file_path(path, "path").read_bytes(), path)
        warn_of_another_machine(data["machine"], data["engine"], path, stacklevel=2)
        return cls.__new__(cls)._serve(AgentState.from_dict(data), None)

    @classmethod
    def open(
        cls,
        path: str | Path,
        learner: Learner[Any] | Agent | None = None,
        *,
        name: str = "agent",
        costs: Family | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        movement: Movement | str | None = None,
        origin: dict[str, Any] | None = None,
        fill: str | None = None,
        per: ArrayLike | None = None,
        lead: int | None = None,
        delay: int | None = None,
        forecast: str | Sequence[str] | None = None,
        engine: str = "auto",
        state: Any = None,
        guards: Guards | None = None,
        sync: str = "always",
        keep: int | timedelta | None = None,
        read_only: bool = False,
        shared: bool = True,
    ) -> Self:
        """Open the agent ``name`` of a store, which goes on bit for bit; or make it, and the store.

        When :meth:`update` returns, the round is committed, and survives SIGKILL; with ``sync="always"`` also a loss of
        power. A store holds many agents, and several processes may use one agent at a time.

        Parameters
        ----------
        path : str or Path
            An SQLite file on a disk of this machine, by custom ``decisions.db``; or the URL of a PostgreSQL database,
            ``"postgresql://user@host:5432/database"``, with the password in it or in the variable ``PGPASSWORD``.
        learner : Learner or Agent, optional
            For a new agent; of an agent, from :meth:`load`, say, all that it is now goes on. Where there is one of this name,
            it may be left out, and must not differ.
        name : str, optional
            Which agent of the file. Default: ``"agent"``.
        costs, columns, movement, origin, fill, per, lead, delay, forecast : optional
            As in :class:`Agent`, for a new agent. Where there is one, they may be left out, and must not differ; its origin
            stays.
        engine : str, optional
            As in :func:`~klazy.run`.
        state : optional
            Where a new agent begins: the state of one in memory, say.
        guards : Guards, optional
            They hold from now on. Default: those that it has.
        sync : str, optional
            ``"always"``, or the faster ``"batch"``: then a loss of power takes the latest rounds, since the database last
            forced its log to disk.
        keep : int or datetime.timedelta, optional
            How much history stays: a number of rounds or a time span, and up to a thousand rounds more. Default: all. The
            ids of removed rounds are forgotten. A span is counted along the times of rounds, and not from the clock's
            present reading: a pause counts for a quarter of it at most, and so does a clock that leaps ahead.
        read_only : bool, optional
            Open it to look at it only.
        shared : bool, optional
            Whether other processes may use the file, too. For one alone, rounds are a quarter faster. In PostgreSQL
            they always may.

        Returns
        -------
        Agent
            Close it, or use it in a ``with`` block.

        Raises
        ------
        ValueError
            If the store is damaged or does not answer, or its agent has another learner.

        Warns
        -----
        OtherMachine
            If the agent was written by another version or on another kind of CPU.

        Examples
        --------
        >>> import os, tempfile
        >>> file = os.path.join(tempfile.mkdtemp(), "decisions.db")
        >>> with Agent.open(file, KLazyGD(Simplex(3), sigma=2.0, k=8), name="eu-west") as agent:
        ...     x = agent.update([1.0, 0.0, 0.0], id="monday")
        >>> with Agent.open(file, name="eu-west") as agent:
        ...     agent.t, agent.update([1.0, 0.0, 0.0], id="monday")  # delivered again, counted once
        (2, array([0. , 0.5, 0.5]))
        """
        from klazy.live import stored
        from klazy.live.store import open_store

        stored.check_name(name)
        if keep is not None:
            stored.check_keep(keep)
        given = {
            "costs": costs,
            "columns": columns,
            "movement": movement,
            "origin": origin,
            "fill": fill,
        }
        given |= {"per": per, "lead": lead, "delay": delay, "forecast": forecast}
        start: Callable[[], AgentState] | None = None
        spec = None
        if isinstance(learner, Agent):
            given_too = [
                name for name, value in (given | {"state": state}).items() if value is not None
            ]
            if given_too:
                raise InvalidInput(
                    f"Leave {', '.join(given_too)} out: the agent {learner!r} has its own."
                )
            with learner._lock:
                start = partial(AgentState.from_dict, learner._now.to_dict())
            spec = learner._spec
            given = vars(spec)
            own: Learner[Any] = learner.learner
            learner = own
        elif learner is not None:
            check_learner(learner)
            start = partial(_start, learner, engine, state, guards, given)
        store = open_store(path, sync, read_only=read_only, shared=shared, new=start is not None)
        try:
            if state is not None and store.find_agent(name) is not None:
                raise InvalidInput(
                    f"state is for a new agent, and {name!r} exists already. Leave the state out."
                )
            (row,) = stored.find_or_create(store, [name], start)
            agent = stored.StoredAgent(store, row, keep, learner).revive()
            stored.require_same(agent, learner, spec, given, engine)
            if guards is not None and not read_only:
                agent.end(lambda now, id: now.record_guards(guards))
        except BaseException:
            store.close()
            raise
        return cls.__new__(cls)._serve(agent.state, agent)

    def history(self, last: int | None = None) -> polars.DataFrame:
        """Return the agent's rounds in the store as a frame. Each row is a call of :meth:`observe` or :meth:`update`.

        Parameters
        ----------
        last : int, optional
            Only this many rounds, the latest. Default: all in the store.

        Returns
        -------
        polars.DataFrame
            Round ``t``, its ``time`` and ``id``; its feedback (``gradient``, ``next_hint``, or a ``row`` as JSON) and what that
            cost at the point played (``hitting``); the ``decision`` that followed, what moving there cost (``switching``), and
            the ``guards`` that held it back. ``round`` is the round that the feedback is of: ``t``, an earlier one, or none.

        Examples
        --------
        >>> import os, tempfile
        >>> file = os.path.join(tempfile.mkdtemp(), "decisions.db")
        >>> with Agent.open(file, GD(Box(0, 10), sigma=1.0), guards=Guards(per_round=2.0)) as agent:
        ...     x = agent.update([-3.0])
        ...     agent.history().select("t", "hitting", "decision", "switching", "guards").row(0)
        (1, 0.0, [2.0], 2.0, 'per_round')
        """
        from klazy.live.inspection import read_history

        with self._lock:
            stored = self._require_store("history")
            return read_history(stored.store, stored.agent, last)

    def backup(self, path: str | Path) -> None:
        """Copy the whole store, with all its agents, as it is at one moment; they may go on meanwhile.

        Parameters
        ----------
        path : str or Path
            Where to; nothing may be there yet.
        """
        with self._lock:
            self._require_store("backup").store.back_up(path)

    def __getstate__(self) -> tuple[Any, ...]:
        self._require_memory("Open it where it is needed, or save it and load the file.")
        with self._lock:
            now = self._memory
            about = (now.learner, now.engine, now.state, now.guards, now.spec)
            names = ("guarded", "hitting", "switching", "ids", "last_row", "queue")
            return about, {name: getattr(now, name) for name in names}

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        about, more = saved
        now = AgentState(*about)
        vars(now).update(more)
        now.ids = dict(now.ids)
        self._serve(now, None)

    def __repr__(self) -> str:
        now = self._now
        shown = {name: getattr(now.spec, name) or None for name in COMPARED}
        if now.spec.columns is not None:
            shown["columns"] = list(now.spec.columns)
        shown["guards"] = now.guards
        given = "".join(
            f", {name}={value!r}" for name, value in shown.items() if value is not None
        )
        return f"Agent({self.learner!r}, t={self.t}{given})"


def _start(
    learner: Any,
    engine: str,
    state: Any,
    guards: Guards | None,
    given: dict[str, Any],
    limits: NextLimits | None = None,
) -> AgentState:
    """Check the arguments of a new agent, and return its state."""
    spec = RowSpec.build(learner, **given)
    if state is not None:
        learner.check_state(state)
    return AgentState(learner, engine, state, guards, spec, limits)


def add_checksum(data: dict[str, Any]) -> bytes:
    """Write the file of an agent, with a checksum of its content."""
    text = json.dumps(data)
    checksum = f"{crc32(text.encode()):08x}"
    return f'{{"format": {FORMAT}, "checksum": "{checksum}", "agent": {text}}}'.encode()


def verify_checksum(data: bytes, path: object) -> dict[str, Any]:
    """Read what :func:`add_checksum` wrote; a file that differs from it in a single byte is rejected."""
    try:
        file = json.loads(data)
    except (ValueError, RecursionError):
        file = None
    if (
        not isinstance(file, dict)
        or "format" not in file
        or not isinstance(file.get("agent", {}), dict)
    ):
        raise InvalidInput(f"{path} is not a file that Agent.save wrote. Check the path.")
    check_depth(file)
    if file["format"] != FORMAT:
        raise InvalidInput(
            f"{path} has format {file['format']!r}; this klazy reads format {FORMAT}. "
            "Load it with the klazy that wrote it."
        )
    content = file.get("agent", {})
    if data != add_checksum(content) or content.keys() - _OPTIONAL != _NEEDED:
        raise InvalidInput(f"{path} is damaged. Restore it from a backup.")
    return content
