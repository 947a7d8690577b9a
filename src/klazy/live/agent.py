"""The live object: it holds the state, takes the row or the gradient of a round, and gives the next decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, check_depth, file_path, refusal
from klazy.families import Family
from klazy.learners import Learner
from klazy.live.guards import Guards
from klazy.live.machine import warn_of_another_machine
from klazy.live.records import Record, check_id
from klazy.live.rows import OBSERVE, Dropped, make_terms
from klazy.live.state import COST, REMEMBERED, Live
from klazy.movement import Movement

if TYPE_CHECKING:  # stores, frames and explanations are imported when they are asked for
    from datetime import timedelta

    import polars

    from klazy.live.explain import Explanation
    from klazy.live.kept import Kept

FORMAT = 2  # of the file that Agent.save writes
_NEEDED = {"engine", "machine", "learner", "state"}  # in that file
_OPTIONAL = {"guards", "guarded", "ids", "costs", "columns", "names", "movement", "origin", "account"}
_OPTIONAL |= {"fill", "last_row"}
_FLOAT64 = np.dtype(np.float64)


class Agent:
    """A learner in service: play its decision, then tell it what happened.

    Tell it the row of data of the round with :meth:`~klazy.Agent.observe`, if it knows what a row costs, or a gradient of the
    round's cost with :meth:`~klazy.Agent.update`. A saved agent, once loaded, goes on bit for bit as if it had never stopped;
    one made by :meth:`open` keeps itself on disk. Threads may share an agent: they take turns.

    Parameters
    ----------
    learner : Learner
        Who decides.
    costs : Family, optional
        What a row of data costs, such as ``Pinball(short=4.0)``; the agent then takes rows. Default: the family of a learner
        that is told rows, else none: the agent takes gradients.
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
        Where it was tuned, as plain values. It is kept with the agent and changes nothing.
    fill : str, optional
        What to do with a missing cell of a row (None, NaN, or no entry at all): ``"forward"`` repeats the number of the row
        before, ``"zero"`` takes 0, ``"drop"`` leaves out the row. Default: refuse the row.
    last_row : array_like, optional
        With ``fill="forward"``, the row before the first one. Default: none, so that the first row must be complete.

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
    """

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
    ) -> None:
        terms = make_terms(learner, costs, columns, movement, origin, "Agent", fill)
        live = Live(learner, engine, state, guards, terms)
        if last_row is not None and fill != "forward":
            remedy = "leave last_row out"
            raise refusal("Agent", "fill='forward' for last_row", "fill", repr(fill), remedy)
        if last_row is not None:
            live.fill_from(live.terms.read(last_row, live.learner.domain.dim))
        self._serve(live, None)

    def _serve(self, live: Live, kept: Kept | None) -> Self:
        self._memory = live
        self._kept = kept
        self.learner = live.learner
        self.engine = live.engine
        self._lock = RLock()  # may be taken again by a signal handler, amid a round
        plain = kept is None and live.guards is None and not live.terms.takes_rows
        self._bare = plain and live.plays_in_one_step
        if self._bare:
            self._kernel = live.kernel
            self._flat = live.flat
            self._x = live.own
        return self

    @property
    def _live(self) -> Live:
        """What it is now; a store may have another one, after rounds of other processes."""
        return self._memory if self._kept is None else self._kept.live

    @property
    def guards(self) -> Guards | None:
        """The limits on what it plays, if there are any."""
        return self._live.guards

    @property
    def state(self) -> Any:
        """The learner's state, which ``learner.step`` would take; its point is the learner's own, before any guards."""
        with self._lock:
            return self._live.state

    @property
    def t(self) -> int:
        """The round about to be played; 1 at the start."""
        return self._live.t

    @property
    def x(self) -> Array:
        """The point to play now, a copy."""
        with self._lock:
            return self._live.x

    @property
    def decision(self) -> Any:
        """The decision to play now: a dict by column name where names are known, else the point :attr:`x`."""
        with self._lock:
            return self._live.terms.name(self._live.x)

    @property
    def costs(self) -> Family | None:
        """What a row costs, if the agent takes rows."""
        return self._live.terms.costs

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of a row's entries, if they are known."""
        return self._live.terms.columns

    @property
    def movement(self) -> Movement:
        """What its moves are charged by."""
        return self._live.movement

    @property
    def origin(self) -> dict[str, Any] | None:
        """Where it was tuned, if that was said."""
        return self._live.terms.origin

    @property
    def fill(self) -> str | None:
        """What happens to a missing cell of a row: ``"forward"``, ``"zero"`` or ``"drop"``; None if the row is refused."""
        return self._live.terms.fill

    @property
    def hitting(self) -> float:
        """What all rounds so far have cost at the points played, of an agent that takes rows."""
        account = self._live.account
        if account is None:
            raise refusal("Agent", "costs for hitting", "costs", None, "build it with costs=Linear(), say")
        return account.hitting

    @property
    def switching(self) -> float:
        """What all moves to the present point have cost, price included; the agent must take rows or have guards."""
        account = self._live.account
        return self._live.require_guards("switching").paid if account is None else account.switching

    def update(
        self,
        g: ArrayLike,
        hint: ArrayLike | None = None,
        *,
        id: str | int | None = None,
        retry: bool = False,
        gradient: bool = False,
        round: int | None = None,
    ) -> Array:
        """End the round with a gradient of its cost. Refused input changes nothing.

        Parameters
        ----------
        g : array_like
            A gradient of the round's cost at ``x``.
        hint : array_like, optional
            A guess of the next gradient, for learners that accept hints.
        id : str or int, optional
            If a round of this id was taken before, nothing changes: a store answers with the decision made then, however
            long ago; in memory the latest 4096 ids are known, and the answer is the present point.
        retry : bool, optional
            If another process has ended the round, apply ``g`` to the one that is under way now.
        gradient : bool, optional
            Say that ``g`` is a gradient indeed: an agent that takes rows refuses it otherwise.
        round : int, optional
            The round that the gradient is of. Default: the one under way. An earlier one must wait for its feedback
            (:meth:`advance`); then the round under way goes on, and so does its point.

        Returns
        -------
        ndarray
            The next point. Where threads share the agent, it may be that of a later round, which another one has ended.

        Raises
        ------
        ValueError
            If ``g``, ``hint`` or ``id`` do not fit, or the store cannot take the round.
        Overtaken
            If another process has ended the round, without ``retry``. The agent has taken over what happened.
        """
        plain = (
            hint is None and id is None and round is None and type(g) is np.ndarray and g.dtype is _FLOAT64
        )
        if plain and self._bare:
            try:
                if (
                    self._kernel(self._flat, g) == 0
                ):  # one step for other threads, and so is the copy: no lock
                    return self._x.copy()
            except TypeError:
                pass  # not contiguous, or read-only: copied below
        text = "" if id is None else check_id(id)
        with self._lock:
            self._live.check_gradient(gradient)
            if self._kept is not None:
                return self._kept.play(g, hint, text, retry, round)
            if text not in self._memory.ids:
                self._take(self._memory.check_round(g, hint, text, round))
            return self._memory.x

    def observe(
        self,
        row: Any,
        hint: Any = None,
        *,
        id: str | int | None = None,
        retry: bool = False,
        round: int | None = None,
    ) -> Any:
        """End the round with its row of data: demands or prices, say. A refused row changes nothing.

        Cost and gradient are worked out at the decision that was played; what the round and the move after it cost is added to
        :attr:`hitting` and :attr:`switching`.

        Parameters
        ----------
        row : dict, pandas.Series, one-row frame or array_like
            The numbers of the round by column name, or in the order of the columns. Missing cells are filled if the agent has a
            :attr:`fill`; a row that it drops changes nothing, and the round and its decision stay.
        hint : dict, pandas.Series, one-row frame or array_like, optional
            A forecast of the next round's row, for a learner that accepts hints. A learner that is told gradients gets the
            gradient of the forecast at the decision that was played.
        id : str or int, optional
            As in :meth:`update`: a round of an id that was taken before changes nothing.
        retry : bool, optional
            As in :meth:`update`: if another process has ended the round, take the row for the one that is under way now.
        round : int, optional
            As in :meth:`update`: the round that the row is of, if it is not the one under way.

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
        klazy.base.checks.Refused: Agent.observe needs all columns 'eu', 'us', got missing='eu'; give every column a number.
        """
        text = "" if id is None else check_id(id, OBSERVE)
        with self._lock:
            terms = self._live.terms
            try:
                if self._kept is not None:
                    return terms.name(self._kept.observe(row, text, retry, round, hint))
                if text == "" or text not in self._memory.ids:
                    self._take(self._memory.check_row(row, text, round, hint))
            except Dropped:
                pass
            return terms.name(self._live.x)

    @property
    def probes(self) -> tuple[Any, ...]:
        """The decisions whose costs :meth:`observe_cost` takes: the one to play, and perhaps one to try beside it."""
        with self._lock:
            return tuple(self._live.terms.name(x) for x in self._live.probes)

    def observe_cost(self, value: ArrayLike, *, id: str | int | None = None, retry: bool = False) -> Any:
        """End the round with what its decision cost; the learner must be a :class:`~klazy.contrib.Bandit`.

        A round in which guards held the decision back teaches it nothing: the cost is not that of the point that it chose.

        Parameters
        ----------
        value : float or array_like
            The cost of the decision; with two points, that of each of :attr:`probes`.
        id : str or int, optional
            As in :meth:`update`: a round of an id that was taken before changes nothing.
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
            If the learner is told something else, or the value is not as many finite numbers as there are points.
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
        text = "" if id is None else check_id(id, COST)
        with self._lock:
            terms = self._live.terms
            if self._kept is not None:
                return terms.name(self._kept.observe_cost(value, text, retry))
            if text == "" or text not in self._memory.ids:
                self._take(self._memory.check_cost(value, text))
            return terms.name(self._memory.x)

    @property
    def pending(self) -> dict[int, Any]:
        """The rounds that wait for their feedback, each with the decision played in it, the oldest first."""
        with self._lock:
            live = self._live
            return {round: live.terms.name(x) for round, x in live.pending.items()}

    def advance(self, *, id: str | int | None = None, retry: bool = False) -> Any:
        """End the round before its feedback is known; the learner must be a :class:`~klazy.contrib.Delayed`.

        The round and its point are kept, in the store too, until :meth:`update` or :meth:`observe` tells its feedback with
        ``round=``, or :meth:`give_up` gives it up.

        Parameters
        ----------
        id : str or int, optional
            As in :meth:`update`: a round of an id that was taken before changes nothing.
        retry : bool, optional
            As in :meth:`update`: if another process has ended the round, end the one that is under way now.

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
        text = "" if id is None else check_id(id, "Agent.advance")
        with self._lock:
            terms = self._live.terms
            if self._kept is not None:
                return terms.name(self._kept.advance(text, retry))
            if text == "" or text not in self._memory.ids:
                self._take(self._memory.check_wait(text))
            return terms.name(self._memory.x)

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
        text = "" if id is None else check_id(id, "Agent.give_up")
        with self._lock:
            if self._kept is not None:
                self._kept.give_up(round, text)
            elif text == "" or text not in self._memory.ids:
                self._take(self._memory.check_given_up(round, text))

    def check_row(self, row: Any, *, id: str | int | None = None) -> bool:
        """Refuse a row that :meth:`observe` would refuse now; nothing changes.

        Parameters
        ----------
        row : dict, pandas.Series, one-row frame or array_like
            As in :meth:`observe`.
        id : str or int, optional
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
        text = "" if id is None else check_id(id, OBSERVE)
        with self._lock:
            try:
                self._live.check_row(row, text)
            except Dropped:
                return False
            return True

    def _take(self, record: Record) -> None:
        """Work the round out beside the present state, then show it."""
        if self._bare:  # other threads may play rounds meanwhile, so this one must be a single step, too
            self._kernel(self._flat, record.numbers)
        else:
            self._memory.show(self._memory.after(record))
        self._memory.remember(record.id)

    def freeze(self, reason: str = "") -> None:
        """Play the present point until :meth:`resume`, while the learner goes on learning; the agent must have guards.

        Parameters
        ----------
        reason : str, optional
            What a store keeps as the reason.
        """
        from klazy.live.kept import freeze

        self._change(lambda live: freeze(live, reason))

    def resume(self, reason: str = "") -> None:
        """Let the point follow the learner again from the next round on, as far as the guards allow.

        Parameters
        ----------
        reason : str, optional
            What a store keeps as the reason.
        """
        from klazy.live.kept import resume

        self._change(lambda live: resume(live, reason))

    def delete(self, reason: str = "") -> None:
        """Take no more rounds until :meth:`restore`; the store keeps the history and the name.

        Parameters
        ----------
        reason : str, optional
            What the store keeps as the reason.
        """
        from klazy.live.kept import delete

        with self._lock:
            kept = self._require_store("delete")
            kept.change(lambda live: None if kept.deleted else delete(reason))

    def restore(self, reason: str = "") -> None:
        """Take rounds again, after :meth:`delete`, from where the agent was.

        Parameters
        ----------
        reason : str, optional
            What the store keeps as the reason.
        """
        from klazy.live.kept import restore

        with self._lock:
            kept = self._require_store("restore")
            kept.change(lambda live: restore(reason) if kept.deleted else None)

    def _change(self, make: Callable[[Live], Record | None]) -> None:
        with self._lock:
            if self._kept is not None:
                self._kept.change(make)
                return
            record = make(self._memory)
            if record is not None:
                self._memory.guards, self._memory.guarded = self._memory.guards_after(record)

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
        from klazy.live.explain import explain

        with self._lock:
            state = self._live.state
            guarded = self._live.guarded
            terms = self._live.terms
        return explain(self.learner, state, self.guards, guarded, terms.names, terms.fill)

    def save(self, path: str | Path) -> None:
        """Write learner and state to a JSON file, in one step: a crash leaves the old file or the new one.

        Parameters
        ----------
        path : str or Path
            Where to write; a file that is there is replaced.
        """
        from klazy.base.files import write_durably

        with self._lock:
            about = self._live.about()
            if self._kept is not None:
                about |= {"ids": self._kept.store.read_ids(self._kept.agent.id, REMEMBERED)}
            write_durably(file_path(path, "path", "Agent.save"), seal(about))

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
        about = unseal(file_path(path, "path", "Agent.load").read_bytes(), "Agent.load", path)
        warn_of_another_machine(about, path, stacklevel=2)
        return cls.__new__(cls)._serve(Live.rebuild(about), None)

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
        costs, columns, movement, origin, fill : optional
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
            How much history stays: so many rounds, or those of so long, and up to a thousand more. Default: all. The ids of
            rounds that are not kept are forgotten. A span is counted along the times of rounds, and not from the clock's
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
        ...     agent.t, agent.update([1.0, 0.0, 0.0], id="monday")  # delivered again, taken once
        (2, array([0. , 0.5, 0.5]))
        """
        from klazy.live.opening import open_agent

        given = {"costs": costs, "columns": columns, "movement": movement, "origin": origin, "fill": fill}
        start: Any = learner
        if isinstance(learner, Agent):
            given_too = [term for term, value in (given | {"state": state}).items() if value is not None]
            if given_too:
                remedy = f"leave {', '.join(given_too)} out: the agent has its own"
                raise refusal("Agent.open", "a learner for these", "learner", repr(learner), remedy)
            with learner._lock:
                start = Live.rebuild(learner._live.about())
        kept = open_agent(path, start, name, given, engine, state, guards, sync, keep, read_only, shared)
        return cls.__new__(cls)._serve(kept.live, kept)

    def refresh(self) -> Array:
        """Take over the rounds that other processes have ended.

        Returns
        -------
        ndarray
            The point to play now.
        """
        with self._lock:
            self._require_store("refresh").reload()
            return self._live.x

    def history(self, last: int | None = None) -> polars.DataFrame:
        """What the store keeps of the agent's rounds, as a frame. Each row is a call of :meth:`observe` or :meth:`update`.

        Parameters
        ----------
        last : int, optional
            Only so many rounds. Default: all that are kept.

        Returns
        -------
        polars.DataFrame
            Round ``t``, its ``time`` and ``id``; what it was told (``gradient``, ``hint``, or a ``row`` as JSON) and what that
            cost at the point played (``hitting``); the ``decision`` that followed, what moving there cost (``switching``), and
            the ``guards`` that held it back. ``round`` is the round that it was told of: ``t``, an earlier one, or none.

        Examples
        --------
        >>> import os, tempfile
        >>> file = os.path.join(tempfile.mkdtemp(), "decisions.db")
        >>> with Agent.open(file, GD(Box(0, 10), sigma=1.0), guards=Guards(per_round=2.0)) as agent:
        ...     x = agent.update([-3.0])
        ...     agent.history().select("t", "hitting", "decision", "switching", "guards").row(0)
        (1, 0.0, [2.0], 2.0, 'per_round')
        """
        from klazy.live.history import read_history

        with self._lock:
            kept = self._require_store("history")
            return read_history(kept.store, kept.agent, last)

    def backup(self, path: str | Path) -> None:
        """Copy the whole store, with all its agents, as it is at one moment; they may go on meanwhile.

        Parameters
        ----------
        path : str or Path
            Where to; nothing may be there yet.
        """
        with self._lock:
            self._require_store("backup").store.back_up(path)

    def _require_store(self, name: str) -> Kept:
        if self._kept is None:
            remedy = 'open it with Agent.open("decisions.db", learner)'
            raise refusal("Agent", f"a store for {name}", "path", None, remedy)
        return self._kept

    def close(self) -> None:
        """Let go of the store, with a snapshot of the present state; it takes no more rounds."""
        with self._lock:
            if self._kept is not None:
                self._kept.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> tuple[Any, ...]:
        if self._kept is not None:
            remedy = "open it where it is needed, or save it, and load the file"
            raise refusal("Agent", "to live in memory to be copied", "path", self._kept.store.path, remedy)
        with self._lock:
            live = self._memory
            about = live.learner, live.engine, live.state, live.guards, live.terms
            return *about, live.guarded, live.account, tuple(live.ids), live.last_row

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        *about, guarded, account, ids, last_row = saved
        live = Live(*about)
        live.guarded = guarded
        live.account = account
        live.ids = dict.fromkeys(ids)
        live.last_row = last_row
        self._serve(live, None)

    def __repr__(self) -> str:
        terms = self._live.terms
        told = ""
        if terms.costs is not None:
            told = f", costs={terms.costs!r}"
        if terms.columns is not None:
            told += f", columns={list(terms.columns)}"
        if terms.movement is not None:
            told += f", movement={terms.movement!r}"
        if terms.fill is not None:
            told += f", fill={terms.fill!r}"
        guards = "" if self.guards is None else f", guards={self.guards!r}"
        return f"Agent({self.learner!r}, t={self.t}{told}{guards})"


def seal(about: dict[str, Any]) -> bytes:
    """The file of an agent, with a checksum of all that is said of it."""
    text = json.dumps(about)
    checksum = f"{crc32(text.encode()):08x}"
    return f'{{"format": {FORMAT}, "checksum": "{checksum}", "agent": {text}}}'.encode()


def unseal(data: bytes, owner: str, path: object) -> dict[str, Any]:
    """What :func:`seal` has sealed; a file that differs from it in a single byte is refused."""
    try:
        file = json.loads(data)
    except (ValueError, RecursionError):
        file = None
    if not isinstance(file, dict) or "format" not in file or not isinstance(file.get("agent", {}), dict):
        raise refusal(owner, "a file that Agent.save wrote", "path", path, "check the path")
    check_depth(file, owner)
    if file["format"] != FORMAT:
        remedy = "load it with the klazy that wrote it"
        raise refusal(owner, f"a file of format {FORMAT}", "format", repr(file["format"]), remedy)
    about = file.get("agent", {})
    if data != seal(about) or about.keys() - _OPTIONAL != _NEEDED:
        remedy = "it is damaged; restore it from a backup"
        raise refusal(owner, "a file as Agent.save wrote it", "path", path, remedy)
    return about
