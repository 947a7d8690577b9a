"""The live object: it holds the state, takes a gradient, and gives the next point."""

import json
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, file_path, refusal
from klazy.learners import Learner
from klazy.live.guards import Guards
from klazy.live.machine import warn_of_another_machine
from klazy.live.records import FREEZE, RESUME, Record, check_id
from klazy.live.state import Live

if TYPE_CHECKING:  # files and explanations are imported when they are asked for
    from klazy.live.explain import Explanation
    from klazy.live.journal import Journal

FORMAT = 2  # of the file that Agent.save writes
_NEEDED = {"engine", "machine", "learner", "state"}  # in that file
_OPTIONAL = {"guards", "guarded", "ids"}
COPIED_AT_ONCE = 500  # numbers; while NumPy copies more, other threads run
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

    def _serve(self, live: Live, journal: "Journal | None") -> Self:
        self._live = live
        self._journal = journal
        self._n = 0 if journal is None else journal.n
        self.learner = live.learner
        self.engine = live.engine
        self._lock = RLock()  # may be taken again by a signal handler, amid a round
        self._bare = journal is None and live.guards is None and _plays_in_one_step(live)
        if self._bare:
            self._kernel = live.kernel
            self._flat = live.flat
            self._x = live.own
        return self

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

    def update(self, g: ArrayLike, hint: ArrayLike | None = None, *, id: str | int | None = None) -> Array:
        """End the round: ``g`` is a gradient at ``x``. Returns the next point; refused input changes nothing.

        A round may carry an ``id``: if it is one of the latest 4096, the round was taken before, and nothing changes. Where
        threads share the agent, the point may be that of a later round, which another one has ended meanwhile.
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
            if text not in self._live.ids:
                self._take(self._live.check_round(g, hint, text))
            return self._live.x

    def _take(self, record: Record) -> None:
        """Work the record out beside the present state, write it down, and only then show it."""
        if self._bare:  # other threads may play rounds meanwhile, so this one must be a single step, too
            self._kernel(self._flat, record.numbers)
            self._live.remember(record.id)
            return
        n = self._n
        after = self._live.after(record)
        if self._journal is not None:
            if self._journal.due:
                self._journal.compact(n, self._live.about())
            self._journal.append(n, record)
        self._live.show(record, *after)
        self._n = n + 1  # a round interrupted before this leaves the journal ahead, which then takes no more

    def freeze(self) -> None:
        """Play the present point until :meth:`resume`, while the learner goes on learning; the agent must have guards."""
        with self._lock:
            if not self._live.require_guards("freeze").frozen:
                self._take(Record(FREEZE, np.empty(0)))

    def resume(self) -> None:
        """Let the point follow the learner again from the next round on, as far as the guards allow."""
        with self._lock:
            if self._live.require_guards("resume").frozen:
                self._take(Record(RESUME, np.empty(0)))

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
            write_durably(file_path(path, "path", "Agent.save"), seal(self._live.about()))

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
        engine: str = "auto",
        state: Any = None,
        guards: Guards | None = None,
        sync: str = "always",
    ) -> Self:
        """An agent that lives in the folder ``path``: a new one, or the one that is there, which goes on bit for bit.

        When :meth:`update` returns, the round is in the journal, and survives SIGKILL; with ``sync="always"`` also a loss of
        power, which with the faster ``"batch"`` takes the rounds since the last fsync. One comes with the first round after
        each second. A new agent may begin with a ``state``, that of one in memory, say. Where there is an agent, ``learner``
        may be left out, and must not differ; ``guards`` hold from now on; None keeps those it has. One process at a time can
        have it open. A torn last record is set aside, and reported by a :class:`~klazy.TornJournal` warning; damage elsewhere
        is refused with its place. An :class:`~klazy.OtherMachine` warning says that the agent was written by another version
        or on another kind of CPU.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with Agent.open(folder, KLazyGD(Simplex(3), sigma=2.0, k=8)) as agent:
        ...     x = agent.update([1.0, 0.0, 0.0], id="monday")
        >>> with Agent.open(folder) as agent:
        ...     agent.t, agent.update([1.0, 0.0, 0.0], id="monday")  # delivered again, taken once
        (2, array([0. , 0.5, 0.5]))
        """
        from klazy.live.opening import open_agent

        live, journal = open_agent(path, learner, engine, state, guards, sync)
        return cls.__new__(cls)._serve(live, journal)

    def close(self) -> None:
        """Force what an opened agent wrote to disk, and let others open it; it takes no more rounds."""
        with self._lock:
            if self._journal is not None:
                self._journal.close(self._n, self._live.about)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> tuple[Any, ...]:
        if self._journal is not None:
            remedy = "its rounds would reach no disk; save it, and load the file"
            raise refusal("Agent", "to live in memory to be copied", "path", self._journal.folder, remedy)
        with self._lock:
            live = self._live
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


def _plays_in_one_step(live: Live) -> bool:
    """Whether a call of the kernel is all of a round, and no other thread can see it, or a copy of the point, half done."""
    if live.engine != "compiled" or live.learner.accepts_hints:
        return False
    is_compiled = not isinstance(live.kernel, FunctionType)
    return is_compiled and live.learner.domain.dim <= COPIED_AT_ONCE


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
