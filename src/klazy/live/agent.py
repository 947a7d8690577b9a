"""The live object: it holds the state, takes a gradient, and gives the next point."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, file_path, refusal
from klazy.learners import Learner
from klazy.live.guards import Guards
from klazy.live.machine import warn_of_another_machine
from klazy.live.records import Record, check_id
from klazy.live.state import REMEMBERED, Live

if TYPE_CHECKING:  # stores, frames and explanations are imported when they are asked for
    from datetime import timedelta

    import polars

    from klazy.live.explain import Explanation
    from klazy.live.kept import Kept

FORMAT = 2  # of the file that Agent.save writes
_NEEDED = {"engine", "machine", "learner", "state"}  # in that file
_OPTIONAL = {"guards", "guarded", "ids"}
_FLOAT64 = np.dtype(np.float64)


class Agent:
    """A learner in service: play ``agent.x``, then tell it the gradient there with :meth:`~klazy.Agent.update`.

    ``agent.t`` is the round about to be played. ``engine`` is as in :func:`~klazy.run`. ``guards`` are limits on what it plays;
    without them it plays the learner's points. A saved agent, once loaded, goes on bit for bit as if it had never stopped;
    one made by :meth:`open` keeps itself on disk. Threads may share an agent: they take turns.

    >>> agent = Agent(KLazyGD(Simplex(3), sigma=2.0, k=8))
    >>> agent.update([1.0, 0.0, 0.0])
    array([0. , 0.5, 0.5])
    >>> agent
    Agent(KLazyGD(domain=Simplex(dim=3), sigma=Constant(s=2.0), k=8), t=2)
    """

    def __init__(
        self, learner: Learner[Any], *, engine: str = "auto", state: Any = None, guards: Guards | None = None
    ) -> None:
        self._serve(Live(learner, engine, state, guards), None)

    def _serve(self, live: Live, kept: "Kept | None") -> Self:
        self._memory = live
        self._kept = kept
        self.learner = live.learner
        self.engine = live.engine
        self._lock = RLock()  # may be taken again by a signal handler, amid a round
        self._bare = kept is None and live.guards is None and live.plays_in_one_step
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
    def switching(self) -> float:
        """What all moves to the present point cost, weight included, by the movement of the guards."""
        return self._live.require_guards("switching").paid

    def update(
        self,
        g: ArrayLike,
        hint: ArrayLike | None = None,
        *,
        id: str | int | None = None,
        retry: bool = False,
    ) -> Array:
        """End the round. Refused input changes nothing.

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
        plain = hint is None and id is None and type(g) is np.ndarray and g.dtype is _FLOAT64
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
            if self._kept is not None:
                return self._kept.play(g, hint, text, retry)
            if text not in self._memory.ids:
                self._take(self._memory.check_round(g, hint, text))
            return self._memory.x

    def _take(self, record: Record) -> None:
        """Work the round out beside the present state, then show it."""
        if self._bare:  # other threads may play rounds meanwhile, so this one must be a single step, too
            self._kernel(self._flat, record.numbers)
        else:
            self._memory.show(*self._memory.after(record))
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

    def _change(self, make: Callable[[Live], Record | None]) -> None:
        with self._lock:
            if self._kept is not None:
                self._kept.change(make)
                return
            record = make(self._memory)
            if record is not None:
                self._memory.guards, self._memory.guarded = self._memory.guards_after(record)

    def explain(self) -> "Explanation":
        """Why it plays ``x``: from which gradients, how far from moving, held back by which guards.

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
        return explain(self.learner, state, self.guards, guarded)

    def save(self, path: str | Path) -> None:
        """Write learner and state to a JSON file, in one step: a crash leaves the old file or the new one."""
        from klazy.base.files import write_durably

        with self._lock:
            about = self._live.about()
            if self._kept is not None:
                about |= {"ids": self._kept.store.read_ids(self._kept.agent.id, REMEMBERED)}
            write_durably(file_path(path, "path", "Agent.save"), seal(about))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        A damaged file is refused, and so is one of another format. One that was written by another version, or on another kind
        of CPU, is read, with an :class:`~klazy.OtherMachine` warning.
        """
        about = _unseal(file_path(path, "path", "Agent.load"))
        warn_of_another_machine(about, path, stacklevel=2)
        return cls.__new__(cls)._serve(Live.rebuild(about), None)

    @classmethod
    def open(
        cls,
        path: str | Path,
        learner: Learner[Any] | None = None,
        *,
        name: str = "agent",
        engine: str = "auto",
        state: Any = None,
        guards: Guards | None = None,
        sync: str = "always",
        keep: "int | timedelta | None" = None,
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
        learner : Learner, optional
            For a new agent. Where there is one, it may be left out, and must not differ.
        name : str, optional
            Which agent of the file. Default: ``"agent"``.
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
            rounds that are not kept are forgotten.
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

        kept = open_agent(path, learner, name, engine, state, guards, sync, keep, read_only, shared)
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

    def history(self, last: int | None = None) -> "polars.DataFrame":
        """What the store keeps of the agent's rounds, as a frame. Each row is a call of :meth:`update`.

        Parameters
        ----------
        last : int, optional
            Only so many rounds. Default: all that are kept.

        Returns
        -------
        polars.DataFrame
            Round ``t``, its ``time`` and ``id``; what it was told (``gradient``, ``hint``, or a ``row`` as JSON) and what that
            cost at the point played (``hitting``); the ``decision`` that followed, what moving there cost (``switching``), and
            the ``guards`` that held it back.

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

    def _require_store(self, name: str) -> "Kept":
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
            return live.learner, live.engine, live.state, live.guards, live.guarded, tuple(live.ids)

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        learner, engine, state, guards, guarded, ids = saved
        live = Live(learner, engine, state, guards)
        live.guarded = guarded
        live.ids = dict.fromkeys(ids)
        self._serve(live, None)

    def __repr__(self) -> str:
        guards = "" if self.guards is None else f", guards={self.guards!r}"
        return f"Agent({self.learner!r}, t={self.t}{guards})"


def seal(about: dict[str, Any]) -> bytes:
    """The file of an agent, with a checksum of all that is said of it."""
    text = json.dumps(about)
    checksum = f"{crc32(text.encode()):08x}"
    return f'{{"format": {FORMAT}, "checksum": "{checksum}", "agent": {text}}}'.encode()


def _unseal(path: Path) -> dict[str, Any]:
    """What :func:`seal` has sealed; a file that differs from it in a single byte is refused."""
    data = path.read_bytes()
    try:
        file = json.loads(data)
    except (ValueError, RecursionError):
        file = None
    if not isinstance(file, dict) or "format" not in file or not isinstance(file.get("agent", {}), dict):
        raise refusal("Agent.load", "a file that Agent.save wrote", "path", path, "check the path")
    if file["format"] != FORMAT:
        remedy = "load it with the klazy that wrote it"
        raise refusal("Agent.load", f"a file of format {FORMAT}", "format", repr(file["format"]), remedy)
    about = file.get("agent", {})
    if data != seal(about) or about.keys() - _OPTIONAL != _NEEDED:
        remedy = "it is damaged; restore it from a backup"
        raise refusal("Agent.load", "a file as Agent.save wrote it", "path", path, remedy)
    return about
