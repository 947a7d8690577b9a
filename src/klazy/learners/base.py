"""The protocol of a learner: a frozen configuration, a small immutable state, and a pure ``step``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import FINITE, Array, InvalidInput, instance, integer, vector
from klazy.base.config import Config
from klazy.families import Family, Linear
from klazy.kernels import codes
from klazy.movement import Movement, suit_movement
from klazy.schedules import Schedule, make_schedule
from klazy.sets import ConvexSet

# A slack that no run reaches: the largest count that a float64 state can hold.
NEVER = 2**53


class State(Protocol):
    """What every state has: the round about to be played, and its point. States are named tuples."""

    @property
    def t(self) -> int:
        """The round about to be played, from 1."""
        ...

    @property
    def x(self) -> Array:
        """The point to play, of shape (d,)."""
        ...

    def _replace(self, **fields: Any) -> Self: ...

    def _asdict(self) -> dict[str, Any]: ...


class AnchoredState(NamedTuple):
    """The state of lazy learners: where the phase began and the gradients since then."""

    t: int
    x: Array
    anchor: Array
    g_sum: Array
    energy: float = 0.0


S = TypeVar("S", bound=State)


class Learner(Config, ABC, Generic[S]):
    """Base class of learners: it plays ``state.x``, gets a gradient there, and answers with the next state.

    A learner sees gradients only, so it cannot look ahead. Gradients are checked before they come here. A learner with a
    ``family`` sees the rows of such costs instead, for example demands. To make your own, define :meth:`init` and :meth:`step`.

    Examples
    --------
    >>> learner = GD(Box(0, 1), sigma=4.0)
    >>> state = learner.init()
    >>> state.t, state.x.item(), learner.step(state, np.array([-1.0])).x.item()
    (1, 0.0, 0.25)
    """

    domain: ConvexSet
    experts: tuple[Learner[Any], ...] = ()  # the learners inside, if any
    # The family of the costs whose rows it gets; None if it gets gradients.
    family: Family | None = None

    # Whether it looks back over a window only, or forecasts by regression: a leader waits for evidence before it follows it.
    forgets: bool = False
    # The round after which a leader counts it level with the one that it follows; 0 if it plays from the first.
    level_after: int = 0
    # Whether it learns from the costs of points that it tries, not from gradients.
    learns_from_values: ClassVar[bool] = False
    # Whether the feedback of a round may come later, in any order.
    takes_delays: ClassVar[bool] = False
    # Whether its `step` counts what its own `movement` costs, so that prices that change by round mean something to it.
    takes_prices: ClassVar[bool] = False
    # The field of its state that a leader can keep once for all its experts; empty if there is none.
    shared: ClassVar[str] = ""
    # Its name in klazy.kernels.rules, if it is compiled; not inherited.
    rule: ClassVar[str | None] = None
    # how `step` makes the next point, where explanations and certificates know it: the projection of
    # x_tau - g_{tau:t} / sigma_t ("anchored"), of x_t + (n_t - g_t) / sigma_t ("memory"), or CentredOMD's ("centred")
    form: ClassVar[str | None] = None

    # follow(state, rows, outlook=None): the points that `step` would play while these rows come, of shape (n, d), and the
    # state after them; for learners whose points depend on the rows alone. `outlook` is what `look(state, rows)` found,
    # perhaps for another learner with the same `view` that has seen the same rows
    follow: Callable[..., tuple[Array, Any]] | None = None
    look: Callable[..., Any] | None = None
    view: Hashable = None

    _rests_on: ClassVar[dict[str, str]] = {
        "form": "step", "phase_length": "step", "describe_memory": "step", "follow": "step"
    }  # fmt: skip

    @property
    def accepts_hints(self) -> bool:
        """Whether ``step`` takes a guess of what comes next, as its third argument."""
        return vars(self).get("hints", False)

    @property
    def takes_advice(self) -> bool:
        """Whether its hints are decisions for the next round, not forecasts of the next row."""
        return False

    @abstractmethod
    def init(self, x: Array | None = None) -> S:
        """Make the state before the first round.

        Parameters
        ----------
        x : array, optional
            A point of the set to begin at. Default: the learner's own start.

        Returns
        -------
        State
            Round 1 and its point.
        """

    @abstractmethod
    def step(self, state: S, g: Array) -> S:
        """Make the state after a round; ``state`` itself is not changed.

        Parameters
        ----------
        state : State
            The state of the round that was played.
        g : array
            The gradient at ``state.x``; for a learner with a family, the round's row.

        Returns
        -------
        State
            The next round and its point.
        """

    @property
    def usual_price(self) -> float | None:
        """The price of moving that it was made for; None if prices that change by round mean nothing to it."""
        price = vars(self)["movement"].weight if self.takes_prices else None
        return price if isinstance(price, float) else None

    def find_factor(self, price: float) -> float | None:
        """Return a price of moving as a multiple of the usual one.

        Parameters
        ----------
        price : float
            What a unit of movement costs.

        Returns
        -------
        float or None
            The multiple; None if prices mean nothing to it.

        Raises
        ------
        ValueError
            If its usual price is zero.
        """
        usual = self.usual_price
        if usual == 0.0:
            raise InvalidInput(
                f"{type(self).__name__} was made for moves that cost nothing, so it cannot weigh prices that change by round. "
                "Make it with a movement of their usual price."
            )
        return None if usual is None else price / usual

    def reprice(self, factor: float) -> Self:
        """Make the same learner, for whom moving costs a multiple of its usual price; the states of both are the same.

        Where prices change by round, runs and agents end each round with ``learner.reprice(factor).step(state, g)``, for the
        price of the move that this ``step`` makes.

        Parameters
        ----------
        factor : float
            The multiple, at least 0.

        Returns
        -------
        Learner
            The learner; itself, if prices mean nothing to it.

        Examples
        --------
        >>> SAder([GD(L2Ball(2), 1.0)], movement=L2Movement(2.0)).reprice(1.5).movement
        L2Movement(weight=3.0)
        """
        return self if factor == 1.0 else _reprice(self, factor, {})

    @property
    def takes_gradients(self) -> bool:
        """Whether it takes gradients: it has no family, or one whose rows are gradients."""
        return self.family in (None, Linear())

    def understands(self, family: Family | None) -> bool:
        """Say whether it can play costs of a family, given their rows or their gradients.

        Parameters
        ----------
        family : Family or None
            What rounds cost; None for costs without a family.

        Returns
        -------
        bool
            False for rows of another family than its own.

        Examples
        --------
        >>> LastValue(Box(0, 9), family=Pinball()).understands(Quadratic())
        False
        """
        if self.takes_gradients and codes.code_of(family) == codes.LINEAR:
            return True
        return self.family in (None, family)

    @property
    def phase_length(self) -> int | None:
        """The rounds of a phase, if a point comes from the phase's first point and the gradients since; else None."""
        return None

    def describe(self, state: S | None = None) -> str:
        """Describe it in a few words, for lists and logs.

        Parameters
        ----------
        state : State, optional
            Its present state; an ensemble then says whom it follows.

        Returns
        -------
        str
            The words, without the set and the movement.

        Examples
        --------
        >>> KLazyGD(Simplex(3), 2.0, k=5).describe()
        'KLazyGD(sigma=Constant(s=2.0), k=5)'
        >>> auto(Simplex(3), TVMovement(1.0)).describe()
        'auto: 155 experts'
        """
        return self._write(repr, without=("domain", "movement", "family", "start"))

    def describe_memory(self, state: S) -> str:
        """Say in a sentence what the present point was made from; used where there are no phases.

        Parameters
        ----------
        state : State
            The present state.

        Returns
        -------
        str
            The sentence.
        """
        last = state.t - 1
        return f"How much {type(self).__name__} remembers of the rounds up to {last} depends on their gradients."

    @property
    def own_movement(self) -> Movement:
        """What moving costs, unless a run or an agent has another movement: its own, if it has one, else what suits the set."""
        movement = vars(self).get("movement")
        return suit_movement(self.domain) if movement is None else movement

    def first_point(self, x: Array | None) -> Array:
        """Choose the first decision.

        Parameters
        ----------
        x : array or None
            A point that was asked for.

        Returns
        -------
        array
            That point, or x_1: the learner's start, by default that of its set.
        """
        start = vars(self).get("start")
        if x is not None:
            return x
        return self.domain.start if start is None else start

    def check_state(self, state: Any) -> S:
        """Check that this learner could have left a state.

        Parameters
        ----------
        state : State
            What was given.

        Returns
        -------
        State
            The same state.

        Raises
        ------
        ValueError
            If it is of another learner, or its point is outside the set.
        """
        model = self.init()
        self._check_kind(state, type(model))
        for name, value in model._asdict().items():
            given = getattr(state, name)
            if name == "experts":
                self._check_experts(given)
            elif np.size(value) > 0 or np.size(given) > 0:
                vector(np.ravel(given), f"state.{name}", np.size(value), limit=FINITE)
        self._check_inside(state.x)
        return state

    def _check_kind(self, state: Any, kind: type) -> int:
        """Check the type of a state, and return its round."""
        if type(state) is not kind:
            name = type(self).__name__
            raise InvalidInput(
                f"state must come from a trace or agent of this {name}, got {state!r}."
            )
        return integer(state.t, "state.t")

    def _check_inside(self, x: Array) -> None:
        """Check that the points of a state are in the set."""
        if not self.domain.contains(x):
            raise InvalidInput(
                f"state.x must be in {self.domain!r}, got {np.asarray(x).tolist()}."
            )

    def _check_experts(self, states: Any) -> None:
        N = len(self.experts)
        if not isinstance(states, tuple) or len(states) != N:
            raise InvalidInput(f"state.experts must be a tuple of {N} states, got {states!r}.")
        for expert, state in zip(self.experts, states, strict=True):
            expert.check_state(self._complete(expert, state))

    def _complete(self, expert: Learner[Any], state: Any) -> Any:
        """Return the state of an expert as the expert itself would have it."""
        return state


class Descent(Learner[S]):
    """Base class of learners that take one step per round from a point or an anchor, and project it onto the set.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigma : Schedule or float, optional
        Steps are divided by it: a number, or one that changes with the rounds. Larger is slower.
    learning_rate : float, optional
        Steps are multiplied by it: another way to write sigma = 1 / learning_rate. Give one of the two.
    start : array_like, optional
        First decision, x_1. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If not exactly one of sigma and learning_rate is given, it is not above zero, or the start is outside the set.

    Examples
    --------
    >>> GD(L2Ball(2), sigma=Sqrt(4), start=[0.0, 1.0]).init().x.tolist()
    [0.0, 1.0]
    >>> GD(L2Ball(2), learning_rate=0.5)
    GD(domain=L2Ball(dim=2), sigma=Constant(s=2.0))
    """

    sigma: Schedule
    start: Array | None
    _alternatives: ClassVar[dict[str, str]] = {"learning_rate": "sigma"}

    def __init__(
        self,
        domain: ConvexSet,
        sigma: Schedule | float | None = None,
        *,
        learning_rate: float | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        self._keep(domain=check_domain(domain), sigma=make_schedule(sigma, learning_rate))
        self._keep(start=check_start(domain, start))


def _reprice(value: Any, factor: float, done: dict[int, Any]) -> Any:
    """Return a learner or movement for which moves cost ``factor`` times as much, and anything else as it is.

    Parts that several learners share are still shared: ``done`` has those that are repriced, by their ids.
    """
    if isinstance(value, tuple):
        return tuple(_reprice(each, factor, done) for each in value)
    if isinstance(value, Learner):
        if not value.takes_prices:
            return value
    elif not isinstance(value, Movement):
        return value
    if id(value) not in done:
        if isinstance(value, Movement):
            done[id(value)] = value.reprice(factor)
        else:
            copied: Any = object.__new__(type(value))
            done[id(value)] = copied
            for name, part in vars(value).items():
                if not _depends_on_price(value, name, part):
                    copied.__dict__[name] = _reprice(part, factor, done)
    return done[id(value)]


def _depends_on_price(learner: Learner[Any], name: str, part: Any) -> bool:
    """Return True for what a learner has computed and must compute again once it is repriced."""
    if isinstance(part, Learner | Knowledge):
        return False
    return name.startswith("_") or isinstance(getattr(type(learner), name, None), cached_property)


class Knowledge:
    """Numbers and arrays in one vector, so that a leader and its kernel have them once for all experts.

    Parameters
    ----------
    head : int
        How many numbers come first.
    **shapes
        The shapes of the arrays that follow, by name.
    """

    def __init__(self, head: int, **shapes: tuple[int, ...]) -> None:
        self.places: dict[str, tuple[slice, tuple[int, ...]]] = {}
        self.size = head
        for name, shape in shapes.items():
            first = self.size
            self.size += math.prod(shape)
            self.places[name] = slice(first, self.size), shape

    def read(self, known: Array, name: str) -> Array:
        """Return one of the arrays in the vector, not a copy."""
        place, shape = self.places[name]
        return known[place].reshape(shape)


def check_domain(domain: Any) -> ConvexSet:
    """Check that this is a set to play on."""
    return instance(domain, "domain", ConvexSet, "a ConvexSet such as L2Ball(5)")


def check_start(domain: ConvexSet, start: ArrayLike | None) -> Array | None:
    """Check that ``start``, if given, is a point of the set."""
    return None if start is None else domain.start_at(start)


def check_slack(k: Any) -> int:
    """Check a laziness slack k >= 1."""
    return min(integer(k, "k", "Use k=1 for greedy GD."), NEVER)


def describe_state(state: Any) -> Any:
    """Turn a state, perhaps of states, into values that JSON holds."""
    if hasattr(state, "_asdict"):
        return {name: describe_state(value) for name, value in state._asdict().items()}
    return (
        [describe_state(value) for value in state]
        if isinstance(state, tuple)
        else np.asarray(state).tolist()
    )


def list_leaves(state: Any) -> list[Any]:
    """List the numbers and arrays of a state, perhaps of states."""
    if not isinstance(state, tuple):
        return [state]
    return [leaf for part in state for leaf in list_leaves(part)]


def count_numbers(state: Any) -> int:
    """Count the numbers of a state, perhaps of states.

    That of ``learner.init()`` costs next to no memory: its long arrays are zeros that nothing has been written to.
    """
    return sum(map(np.size, list_leaves(state)))


def is_finite(state: Any) -> bool:
    """Return True if a state, perhaps of states, holds finite numbers only."""
    return all(np.isfinite(leaf).all() for leaf in list_leaves(state))


def rebuild_state(model: Any, plain: Any) -> Any:
    """Rebuild what :func:`describe_state` described, in the form of ``model``; None where the two do not fit."""
    if hasattr(model, "_asdict"):
        if not isinstance(plain, dict) or plain.keys() != set(model._fields):
            return None
        return type(model)(
            **{name: rebuild_state(value, plain[name]) for name, value in model._asdict().items()}
        )
    if isinstance(model, tuple):
        if not isinstance(plain, list) or len(plain) != len(model):
            return None
        return tuple(rebuild_state(value, item) for value, item in zip(model, plain, strict=True))
    return np.array(plain) if isinstance(plain, list) else plain
