"""The live object: it holds the state, takes a gradient, and gives the next point."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array
from klazy.learners import Learner
from klazy.live.guards import Guards
from klazy.live.records import FREEZE, RESUME, Record, check_id
from klazy.live.state import Live

if TYPE_CHECKING:  # files and explanations are imported when they are asked for
    from klazy.live.explain import Explanation
    from klazy.live.journal import Journal

FORMAT = 1  # of the file that Agent.save writes
_FLOAT64 = np.dtype(np.float64)


class Agent:
    """A learner in service: play ``agent.x``, then tell it the gradient there with :meth:`~klazy.Agent.update`.

    ``agent.t`` is the round about to be played. ``engine`` is as in :func:`~klazy.run`. ``guards`` are limits on what it plays;
    without them it plays the learner's points. A saved agent, once loaded, goes on bit for bit as if it had never stopped;
    one made by :meth:`open` keeps itself on disk.

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
        self._bare = journal is None and live.guards is None and live.engine == "compiled"
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
        return self._live.state

    @property
    def t(self) -> int:
        """The round about to be played; 1 at the start."""
        return self._live.t

    @property
    def x(self) -> Array:
        """The point to play now, a copy."""
        return self._live.x

    @property
    def switching(self) -> float:
        """What all moves to the present point cost, weight included, by the movement of the guards."""
        return self._live.require_guards("switching").paid

    def update(self, g: ArrayLike, hint: ArrayLike | None = None, *, id: str | int | None = None) -> Array:
        """End the round: ``g`` is a gradient at ``x``. Returns the next point; refused input changes nothing.

        A round may carry an ``id``: if it is one of the latest 4096, the round was taken before, and nothing changes.
        """
        plain = hint is None and id is None and type(g) is np.ndarray and g.dtype is _FLOAT64
        if plain and self._bare:
            try:
                if self._kernel(self._flat, g) == 0:
                    return self._x.copy()
            except TypeError:
                pass  # not contiguous, or read-only: copied below
        text = "" if id is None else check_id(id)
        if text not in self._live.ids:
            self._take(self._live.check_round(g, hint, text))
        return self.x

    def _take(self, record: Record) -> None:
        """Work the record out beside the present state, write it down, and only then show it."""
        after = self._live.after(record)
        if self._journal is not None:
            if self._journal.due:
                self._journal.compact(self._n, self._live.about())
            self._journal.append(self._n, record)
        self._live.show(record, *after)
        self._n += 1  # a round interrupted before this leaves the journal ahead, which then takes no more

    def freeze(self) -> None:
        """Play the present point until :meth:`resume`, while the learner goes on learning; the agent must have guards."""
        if not self._live.require_guards("freeze").frozen:
            self._take(Record(FREEZE, np.empty(0)))

    def resume(self) -> None:
        """Let the point follow the learner again from the next round on, as far as the guards allow."""
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

        return explain(self.learner, self.state, self.guards, self._live.guarded)

    def save(self, path: str | Path) -> None:
        """Write learner and state to a JSON file, in one step: a crash leaves the old file or the new one."""
        from klazy.base.files import write_durably

        write_durably(Path(path), json.dumps({"format": FORMAT, **self._live.about()}).encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote; a file of a newer format is refused."""
        about = json.loads(Path(path).read_text(encoding="utf-8"))
        needed = {"format", "engine", "learner", "state"}
        optional = {"guards", "guarded", "ids"}
        if not isinstance(about, dict) or about.keys() - optional != needed:
            raise ValueError(f"Agent needs a file that Agent.save wrote, got {path}; check the path.")
        if about["format"] != FORMAT:
            raise ValueError(
                f"Agent needs a file of format {FORMAT}, got format={about['format']}; install a newer klazy."
            )
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
        have it open. A torn last record is dropped, and reported by a :class:`~klazy.TornJournal` warning; damage elsewhere
        is refused with its place.

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
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> tuple[Any, ...]:
        live = self._live
        return live.learner, live.engine, live.state, live.guards, live.guarded, tuple(live.ids)

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        """A copy is an agent in memory, whatever it was copied from."""
        learner, engine, state, guards, guarded, ids = saved
        live = Live(learner, engine, state, guards)
        live.guarded = guarded
        live.ids = dict.fromkeys(ids)
        self._serve(live, None)

    def __repr__(self) -> str:
        guards = "" if self.guards is None else f", guards={self.guards!r}"
        return f"Agent({self.learner!r}, t={self.t}{guards})"
