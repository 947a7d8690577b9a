"""Who plays: learners and rules with parameters, tuned on the first half of a game, and learners that tune themselves.

One table, :data:`CONTENDERS`. An entry whose class klazy does not have is left out.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from klazy import learners
from klazy.base.checks import Array, Refused, refusal
from klazy.learners import Decay, Learner, MemoryGD
from klazy.learners.presets import ensemble_auto
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.arena.suite import Game
from klazy.studies.installed import list_installed, load_installed
from klazy.studies.tuning import choose_lags, choose_sigmas

TUNED = "tuned"  # told the set and the price, parameters chosen on the first half
SELF_TUNED = "self-tuned"  # told the set and the price alone
INFORMED = "told T and G"  # told also the number of rounds and the largest gradient of the first half
OWN = "yours"
OUTSIDE = "other packages"
FIXED = "fixed"  # the point that is best for the first half; it is found, not played
# Values of a single parameter, of the first of two, and of the second: as in a replay.
MANY = 60
SOME = 12
FEW = 5
SAMPLE = 2000  # rounds from which the size of gradients is found

Make = Callable[..., Any]
Axes = dict[str, list[float]]


@dataclass(frozen=True)
class Contender:
    """A name, what it is told, how it is made, and which grid each of its parameters has: sigmas or lags, many or few."""

    name: str
    kind: str
    make: Make
    grids: dict[str, tuple[str, int]] = field(default_factory=dict)

    def make_learner(self, game: Game, facts: "Facts", **parameters: float) -> Learner[Any]:
        """The learner for this game, told what its signature names."""
        known = {
            "domain": game.domain,
            "movement": game.movement,
            "family": game.costs.family,
            "costs": game.costs.family,
            "movement_weight": float(np.max(game.movement.weight)),
        }
        if self.kind == INFORMED:
            known |= {"T": game.costs.T, "G": facts.largest}
        made = call_with(self.make, known, parameters)
        if not isinstance(made, Learner):
            remedy = "return a klazy.types.Learner"
            raise refusal("arena", f"a learner from {self.name}", "it", type(made).__name__, remedy)
        return made

    def list_axes(self, facts: "Facts") -> Axes:
        """The values of every parameter to try first."""
        choose = {"sigma": facts.choose_sigmas, "lag": facts.choose_lags}
        return {name: choose[kind](count) for name, (kind, count) in self.grids.items()}


def call_with(make: Make, known: dict[str, Any], parameters: dict[str, Any]) -> Any:
    """Call a function with its parameters and with what is known, as far as its signature names it."""
    named = inspect.signature(make).parameters
    told = {name: value for name, value in known.items() if name in named}
    return make(**told, **parameters)


class Facts:
    """What contenders may know of the first half of a game: its length, and the sizes of gradients at the start."""

    def __init__(self, game: Game) -> None:
        self.rounds = game.half
        self.domain = game.domain
        g = _take_gradients(game)
        if isinstance(game.domain, Simplex | CappedSimplex):
            g = g - g.mean(axis=1, keepdims=True)  # what all coordinates have in common decides nothing there
        sizes = np.linalg.norm(g, axis=1)
        self.size = float(np.sqrt((sizes**2).mean())) or 1.0
        self.largest = float(sizes.max()) or 1.0

    def choose_sigmas(self, count: int) -> list[float]:
        return choose_sigmas(self.size, self.rounds, self.domain, count)

    def choose_lags(self, count: int) -> list[float]:
        return choose_lags(self.rounds, count)


def _take_gradients(game: Game) -> Array:
    first = game.first
    x = game.domain.start
    rounds = np.unique(np.linspace(1, first.T, min(first.T, SAMPLE)).astype(int)).tolist()
    return np.array([first.subgradient(t, x) for t in rounds])


def make_decay(domain: Any, sigma: float, m: float) -> Learner[Any]:
    """Descent that forgets over about m rounds."""
    return MemoryGD(domain, sigma, Decay(m))


def _never_make() -> Any:
    raise TypeError("the fixed point is found, not played.")


MANY_SIGMAS = ("sigma", MANY)
SOME_SIGMAS = ("sigma", SOME)
MANY_LAGS = ("lag", MANY)
SOME_LAGS = ("lag", SOME)
FEW_LAGS = ("lag", FEW)

# Name, kind, what makes it (one's own function, or the name of what klazy.learners has), and its grids.
_TABLE: tuple[tuple[str, str, Make | str, dict[str, tuple[str, int]]], ...] = (
    (FIXED, TUNED, _never_make, {}),
    ("follow the leader", TUNED, "FollowTheLeader", {}),
    ("last value", TUNED, "LastValue", {}),
    ("moving average", TUNED, "MovingAverage", {"window": MANY_LAGS}),
    ("dead band", TUNED, "DeadBand", {"window": SOME_LAGS, "horizon": FEW_LAGS}),
    ("minimum hold", TUNED, "MinimumHold", {"window": SOME_LAGS, "hold": FEW_LAGS}),
    ("periodic", TUNED, "Periodic", {"window": SOME_LAGS, "every": FEW_LAGS}),
    ("GD", TUNED, "GD", {"sigma": MANY_SIGMAS}),
    ("LazyGD", TUNED, "LazyGD", {"sigma": MANY_SIGMAS}),
    ("k-lazyGD", TUNED, "KLazyGD", {"sigma": SOME_SIGMAS, "k": FEW_LAGS}),
    ("Decay", TUNED, make_decay, {"sigma": SOME_SIGMAS, "m": FEW_LAGS}),
    ("SAder", INFORMED, "sader", {}),
    ("SAder-k", INFORMED, "sader_k", {}),
    ("ensemble_auto", SELF_TUNED, ensemble_auto, {}),
    ("auto", SELF_TUNED, "auto", {}),
)


def list_contenders() -> list[Contender]:
    """All that klazy has."""
    found = []
    for name, kind, make, grids in _TABLE:
        if isinstance(make, str):
            make = getattr(learners, make, None)
        if make is not None:
            found.append(Contender(name, kind, make, grids))
    return found


def find_missing() -> list[str]:
    """The names of those that klazy does not have yet."""
    present = [contender.name for contender in list_contenders()]
    return [name for name, *_ in _TABLE if name not in present]


def make_own(made: Any, name: str | None = None) -> Contender:
    """Somebody's own learner as a contender: a function of domain, movement and family, or those of them that it names."""
    if not callable(made):
        raise refusal("arena", "a function that makes a learner", "learner", repr(made), "see docs/arena.md")
    label = name or getattr(made, "__name__", type(made).__name__)
    try:
        arguments = inspect.signature(made).parameters.values()
    except (TypeError, ValueError) as failed:
        raise refusal("arena", "a function with a signature", "learner", label, str(failed)) from failed
    told = ("domain", "movement", "family", "costs", "movement_weight")
    for argument in arguments:
        optional = argument.default is not argument.empty
        if not optional and argument.name not in told and argument.kind not in (2, 4):
            remedy = f"let its arguments be among {', '.join(told)}, or have defaults"
            raise refusal(
                "arena", "a learner that nobody has to tune", f"{label}'s argument", argument.name, remedy
            )
    if label in [name for name, *_ in _TABLE]:
        label = f"{label} (yours)"
    return Contender(label, OWN, made)


def import_own(names: Sequence[str], trust: bool) -> list[Contender]:
    """Import learners that are named as ``module:Class`` or ``module:function``, or that an installed package offers."""
    found = []
    installed = list_installed()
    for name in names:
        module, colon, attribute = name.partition(":")
        if not colon and name not in installed:
            remedy = "`klazy list` names those installed, or write mine:Mine"
            raise refusal("arena", "an installed learner, or module:function", "learner", name, remedy)
        if colon and not trust:
            remedy = "look at it, then say --trust"
            raise refusal("arena", "--trust to import and call code of your own", "learner", name, remedy)
        try:
            made = getattr(import_module(module), attribute) if colon else load_installed(name)
        except Refused:
            raise
        except Exception as failed:  # whatever a module of somebody else's does when it is imported
            remedy = f"{type(failed).__name__}: {failed}"
            raise refusal("arena", "a learner that can be imported", "learner", name, remedy) from failed
        found.append(make_own(made, attribute or name))
    return found
