"""Many agents with one learner, played side by side in one compiled call."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, real_array
from klazy.kernels import codes
from klazy.kernels.layout import find_missing_part, layout_of
from klazy.learners import Learner
from klazy.live.agent import InStore
from klazy.live.records import check_id
from klazy.live.state import AgentState

if TYPE_CHECKING:
    # Stores and explanations are imported when they are needed.
    from klazy.live.explain import Explanation
    from klazy.live.stored import StoredFleet

LARGEST_FLEET = 10_000_000
_MEMBERS_SHOWN = 3


class Fleet(InStore):
    """Many agents with one learner: each has a name and a state of its own, and all play in one compiled call.

    Every agent comes out, to the last bit, as an :class:`~klazy.Agent` with the same gradients would. Threads may share
    a fleet: they take turns.

    Parameters
    ----------
    learner : Learner
        What all of them do; every part of it needs a kernel.
    names : int or sequence of str
        The agents' names, or how many there are: then they are called ``"0"``, ``"1"`` and so on.

    Raises
    ------
    ValueError
        If the learner has no kernel, or a name is missing or there twice.

    Examples
    --------
    >>> fleet = Fleet(GD(L2Ball(5, radius=9), sigma=1.0), ["eu-west", "us-east"])
    >>> fleet.update([[-1, 0, 0, 0, 0], [-3, 0.5, 0, 0, 0]])
    array([[ 1. ,  0. ,  0. ,  0. ,  0. ],
           [ 3. , -0.5,  0. ,  0. ,  0. ]])
    >>> fleet.update({"us-east": [1, 0, 0, 0, 0]})
    {'us-east': array([ 2. , -0.5,  0. ,  0. ,  0. ])}
    >>> fleet["us-east"].t, fleet["eu-west"].t
    (3, 2)
    """

    _noun = "a fleet"
    _opening = 'Fleet.open("decisions.db", learner, names)'
    _stored: "StoredFleet | None"

    def __init__(self, learner: Learner[Any], names: int | Sequence[str]) -> None:
        self._serve(check_learner(learner), check_names(names), None)

    def _serve(
        self, learner: Learner[Any], names: tuple[str, ...], stored: "StoredFleet | None"
    ) -> Self:
        self.learner = learner
        self.names = names
        self._stored = stored
        self._lock = RLock()
        self._layout = layout_of(learner)
        self._kernel = self._layout.update_kernel()
        self._places = {name: i for i, name in enumerate(names)}
        self._all = np.arange(len(names))
        if stored is None:
            self._memory = np.tile(self._layout.pack(learner.init()), (len(names), 1))
        return self

    @property
    def _rows(self) -> Array:
        """The agents' numbers, a row each."""
        return self._memory if self._stored is None else self._stored.gather()

    def _find_row(self, place: int) -> Array:
        """Return the numbers of one agent."""
        return (
            self._memory[place]
            if self._stored is None
            else self._stored.members[place].state.form
        )

    @property
    def x(self) -> Array:
        """The points to play now, a row for each agent, a copy."""
        with self._lock:
            return self._rows[:, self._layout.x].copy()

    @property
    def t(self) -> np.ndarray:
        """The round that each agent is about to play; 1 at the start."""
        with self._lock:
            return self._rows[:, codes.T].astype(np.int64)

    @overload
    def update(
        self, g: Mapping[str, ArrayLike], *, id: str | int | None = None, retry: bool = False
    ) -> dict[str, Array]: ...

    @overload
    def update(
        self, g: ArrayLike, *, id: str | int | None = None, retry: bool = False
    ) -> Array: ...

    def update(self, g: Any, *, id: str | int | None = None, retry: bool = False) -> Any:
        """End a round of all agents, or of some. InvalidInput input changes nothing, of no agent.

        Parameters
        ----------
        g : array_like or mapping
            A gradient for each agent, of shape (n, d), in the order of ``names``; or those of some agents by name.
        id : str or int, optional
            For a fleet in a store: if a call of this id is known, nothing changes, and it is answered by the decisions
            made then.
        retry : bool, optional
            If another process has ended a round of one of them, apply ``g`` to the current rounds.

        Returns
        -------
        ndarray or dict
            The next points: of all agents, or of those that were named.

        Raises
        ------
        ValueError
            If a gradient does not fit, a name is not there, or the store cannot take the rounds.
        Overtaken
            If another process has ended a round of one of them, without ``retry``. The fleet has read what happened.
        """
        if isinstance(g, Mapping):
            which = np.array([self._find(name) for name in g], dtype=np.int64)
            if len(which) == 0:
                return {}
            given = self._check(list(g.values()), len(g))
            return dict(zip(g, self._play(given, which, id, retry), strict=True))
        return self._play(self._check(g, len(self.names)), self._all, id, retry)

    def _check(self, g: Any, count: int) -> Array:
        # The kernel searches for numbers that do not fit.
        given = real_array(g, "g", limit=math.inf)
        shape = (count, self.learner.domain.dim)
        if given.shape != shape:
            raise InvalidInput(
                f"g must have shape {shape}, one row for each agent, or be a dict by name, got {given.shape}."
            )
        return given

    def _find(self, name: Any) -> int:
        place = self._places.get(name)
        if place is None:
            raise InvalidInput(f"No agent named {name!r} in the fleet. fleet.names lists them.")
        return place

    def _play(self, g: Array, which: np.ndarray, id: str | int | None, retry: bool) -> Array:
        from klazy.kernels.fleet import play_fleet

        with self._lock:
            if self._stored is not None:
                text = "" if id is None else check_id(id)
                return self._stored.end((g, which.tolist()), text, retry)
            if id is not None:
                self._require_store("id")
            x = play_fleet(self._kernel, self._memory, g, which, self._layout.x)
        # This array check says what does not fit.
        return real_array(g, "g") if x is None else x

    @classmethod
    def open(
        cls,
        path: str | Path,
        learner: Learner[Any] | None = None,
        names: int | Sequence[str] | None = None,
        *,
        sync: str = "always",
        shared: bool = True,
    ) -> Self:
        """Open agents of a store as a fleet, and make those that are not there. A call of :meth:`update` is one transaction.

        Each of them is an agent of the store like any other: :meth:`Agent.open` opens it by its name, and ``klazy history``
        shows its rounds. A fleet removes no history; :meth:`Agent.open` with ``keep`` removes that of one agent.

        Parameters
        ----------
        path : str or Path
            An SQLite file, or the URL of a PostgreSQL database.
        learner : Learner, optional
            For new agents. Where there are some, it may be left out, and must not differ.
        names : int or sequence of str, optional
            Which agents. Default: all of the store that have this learner, and neither guards, costs nor the engine
            ``"step"``.
        sync : str, optional
            As for :meth:`Agent.open`.
        shared : bool, optional
            As for :meth:`Agent.open`.

        Returns
        -------
        Fleet
            Close it, or use it in a ``with`` block.

        Raises
        ------
        ValueError
            If an agent has guards, costs, another learner, or the engine ``"step"``.

        Examples
        --------
        >>> import os, tempfile
        >>> file = os.path.join(tempfile.mkdtemp(), "decisions.db")
        >>> with Fleet.open(file, GD(L2Ball(5), sigma=2.0), ["eu-west", "us-east"]) as fleet:
        ...     x = fleet.update(np.ones((2, 5)), id="monday")
        >>> with Agent.open(file, name="us-east") as agent:
        ...     agent.t, bool((agent.x == x[1]).all())
        (2, True)
        """
        from klazy.live import stored
        from klazy.live.store import open_store

        wanted = None if names is None else check_names(names)
        if learner is not None and not check_learner(learner).takes_gradients:
            raise InvalidInput(
                f"A fleet needs a learner that takes gradients, got {learner!r}. Use Agent.open, and give it rows."
            )
        store = open_store(path, sync, shared=shared, new=learner is not None)
        try:
            if wanted is None:
                found = stored.find_alike(store, learner)
            else:
                start = None if learner is None else partial(AgentState, learner, "compiled")
                found = stored.find_or_create(store, wanted, start)
            fleet = stored.StoredFleet(store, found, learner).revive()
        except BaseException:
            store.close()
            raise
        return cls.__new__(cls)._serve(fleet.members[0].state.learner, fleet.names, fleet)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> "Member":
        """Return one of its agents, with ``x``, ``t``, ``state``, ``explain()`` and ``update(g)``."""
        return Member(self, name, self._find(name))

    def __getstate__(self) -> tuple[Any, ...]:
        self._require_memory("Open it where it is needed.")
        with self._lock:
            return self.learner, self.names, self._memory.copy()

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        learner, names, memory = saved
        self._serve(learner, names, None)
        self._memory = memory

    def __repr__(self) -> str:
        named = ", ".join(repr(name) for name in self.names[:_MEMBERS_SHOWN])
        more = ", ..." if len(self.names) > _MEMBERS_SHOWN else ""
        return f"Fleet({self.learner!r}, {len(self.names)} agents: {named}{more})"


class Member:
    """One agent of a fleet; its attributes are always current."""

    def __init__(self, fleet: Fleet, name: str, place: int) -> None:
        self._fleet = fleet
        self._place = place
        self.name = name

    @property
    def x(self) -> Array:
        """The point to play now, a copy."""
        with self._fleet._lock:
            return self._fleet._find_row(self._place)[self._fleet._layout.x].copy()

    @property
    def t(self) -> int:
        """The round about to be played."""
        with self._fleet._lock:
            return int(self._fleet._find_row(self._place)[codes.T])

    @property
    def state(self) -> Any:
        """The learner's state, which ``learner.step`` would take."""
        with self._fleet._lock:
            return self._fleet._layout.unpack(self._fleet._find_row(self._place).copy())

    def update(self, g: ArrayLike, *, id: str | int | None = None, retry: bool = False) -> Array:
        """End its round, as :meth:`Fleet.update` does."""
        return self._fleet.update({self.name: g}, id=id, retry=retry)[self.name]

    def explain(self) -> "Explanation":
        """Explain why it plays ``x``, as :meth:`Agent.explain` does."""
        from klazy.live.explain import explain

        return explain(self._fleet.learner, self.state, None, None)

    def __repr__(self) -> str:
        return f"Member({self.name!r}, t={self.t})"


def check_learner(learner: Any) -> Learner[Any]:
    """Check that a learner has a kernel."""
    if not isinstance(learner, Learner):
        raise InvalidInput(
            f"learner must be a Learner, got {learner!r}. Use Fleet(GD(L2Ball(5), 1.0), 1000)."
        )
    missing = find_missing_part(learner)
    if missing is not None:
        raise InvalidInput(
            f"A fleet needs a kernel for {missing}, and there is none. Use an Agent for each."
        )
    return learner


def check_names(names: Any) -> tuple[str, ...]:
    """Check the names of a fleet's agents, all different."""
    from klazy.live.stored import check_name

    if (
        isinstance(names, int | np.integer)
        and not isinstance(names, bool)
        and 1 <= names <= LARGEST_FLEET
    ):
        return tuple(str(i) for i in range(names))
    if not isinstance(names, list | tuple) or len(names) == 0:
        raise InvalidInput(
            f"names must be a list of names, or a number of agents up to {LARGEST_FLEET:,}, "
            f"got {type(names).__name__}."
        )
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        ((twice, _),) = Counter(names).most_common(1)
        raise InvalidInput(f"names must differ, got {twice!r} twice.")
    return tuple(names)
