"""What a study can name: recipes of sequences and rules of learners, by their names in klazy or as ``module:function``.

A rule can also be the name of a learner that another installed package offers.

Which parameters each takes is read off its signature; what its context tells it (the seed, the set, the horizon) is none.
"""

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, get_origin, get_type_hints

import numpy as np

from klazy import learners, sequences
from klazy.base.checks import Refused, refusal
from klazy.costs import Costs, LinearCosts
from klazy.kernels.codes import LINEAR, code_of
from klazy.learners import Learner, MemoryGD, presets
from klazy.movement import L1Movement, L2Movement, Movement, TVMovement
from klazy.schedules import Sqrt
from klazy.sequences import Scenario
from klazy.sets import ConvexSet, L2Ball
from klazy.studies.installed import list_installed, load_installed

Point = dict[str, Any]  # the value of every key
CONTEXT = ("seed", "domain", "T", "G", "movement", "movement_weight", "family", "start", "prior", "hints")
MOVEMENTS: dict[str, type[Movement]] = {"l2": L2Movement, "l1": L1Movement, "tv": TVMovement}


class Parameter(NamedTuple):
    """What a recipe or a rule takes: the type of its values, and the default."""

    type: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


class Entry(NamedTuple):
    """A function with the parameters that a study may give, and what it must be told of its context."""

    make: Callable[..., Any]
    parameters: dict[str, Parameter]
    context: tuple[str, ...]


def _make_entry(
    make: Callable[..., Any], *signatures: Callable[..., Any], context: tuple[str, ...] = CONTEXT
) -> Entry:
    """Read the parameters off the ``signatures``, or that of ``make``; a rule that needs a sigma may have ``c`` instead."""
    parameters: dict[str, Parameter] = {}
    asked: list[str] = []
    for function in signatures or (make,):
        hints = _read_hints(function)
        for name, argument in inspect.signature(function).parameters.items():
            if name in context:
                asked.append(name)
            elif argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                parameters[name] = Parameter(hints.get(name, Any), argument.default)
    if context is CONTEXT and "sigma" in parameters and parameters["sigma"].required:
        del parameters["sigma"]
        parameters = {"sigma": Parameter(float, None), "c": Parameter(float, None)} | parameters
    return Entry(make, parameters, tuple(dict.fromkeys(asked)))


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's arguments, where they can be found."""
    if inspect.isclass(function):
        function = function.__init__
    try:
        return get_type_hints(function)
    except (NameError, TypeError):
        return {}


def _make_memory_entry(memory: type[learners.Memory]) -> Entry:
    def make(domain: Any, sigma: Any, **parameters: Any) -> Learner[Any]:
        return MemoryGD(domain, sigma, memory(**parameters))

    return _make_entry(make, learners.GD, memory)


def _make_wave(period: int, T: int) -> Scenario:
    return sequences.square_wave(period, T)


_RECIPES = (
    "stochastic corrupted phases_of_length rotating alternating tracking drifting_regression data_centre sea"
)
_RULES = (
    "GD LazyGD KLazyGD KLazyFTRL CentredOMD ader sader sader_k scream auto ensemble_auto "
    "Fixed FollowTheLeader LastValue MovingAverage Periodic MinimumHold DeadBand"
)
_MEMORIES = (learners.Decay, learners.Clip, learners.Event, learners.Clock)
RECIPES: dict[str, Entry] = {}
for _name in _RECIPES.split():
    RECIPES[_name] = _make_entry(getattr(sequences, _name), context=("seed",))
RECIPES["square_wave"] = _make_entry(_make_wave, context=("seed",))
RULES: dict[str, Entry] = {}
for _name in _RULES.split():
    RULES[_name] = _make_entry(getattr(learners, _name, None) or getattr(presets, _name))
RULES |= {memory.__name__: _make_memory_entry(memory) for memory in _MEMORIES}


@cache
def find_entry(name: str, kind: str) -> Entry:
    """The recipe or rule of this name; code of others is imported, and must say that it returns one."""
    known = RECIPES if kind == "recipe" else RULES
    if name in known:
        return known[name]
    module, colon, function = name.partition(":")
    if not colon and not is_installed(name, kind):
        raise Refused(f"one of {', '.join(known)}, or module:function for one's own")
    try:
        found = getattr(import_module(module), function) if colon else load_installed(name)
    except Exception as failed:  # whatever a module of somebody else's does when it is imported
        raise Refused(f"a function that can be imported ({type(failed).__name__}: {failed})") from failed
    wanted = Scenario if kind == "recipe" else Learner
    if not _returns(found, wanted):
        raise Refused(f"a function that says what it returns, `-> {wanted.__name__}`, or such a class")
    if kind == "recipe":
        return _make_entry(found, context=("seed",))
    return _make_entry(found)


def is_installed(name: str, kind: str) -> bool:
    """Whether this is a rule that klazy does not have, and another installed package offers."""
    return kind == "rule" and name not in RULES and name in list_installed()


def _returns(found: Any, wanted: type) -> bool:
    """Whether this is a class of the wanted kind, or a function with that as its return annotation: nothing else is called."""
    said = found
    if inspect.isfunction(found):
        said = _read_hints(found).get("return")
    said = get_origin(said) or said
    return inspect.isclass(said) and issubclass(said, wanted)


def depends_on_seed(recipe: str, point: Point) -> bool:
    """Whether the sequence depends on a seed."""
    if recipe == "corrupted":
        return point["random_phases"]
    return "seed" in find_entry(recipe, "recipe").context


def make_scenario(recipe: str, point: Point, seed: Any) -> Scenario:
    """The sequence of a recipe at one point of its grid."""
    found = find_entry(recipe, "recipe")
    if "seed" in found.context:
        point = {"seed": seed} | point
    made = found.make(**point)
    if not isinstance(made, Scenario) or not isinstance(made.costs, Costs):
        raise refusal(
            recipe, "to return a Scenario with costs", "it", type(made).__name__, "see klazy.sequences"
        )
    if np.shape(made.comparator) != (made.costs.T, made.costs.dim):
        wanted = f"a comparator of shape {(made.costs.T, made.costs.dim)}"
        raise refusal(recipe, wanted, "its shape", np.shape(made.comparator), "give a point per round")
    return made


def depends_on_price(rule: str) -> bool:
    """Return True if a learner of this rule is given the move cost."""
    return not {"movement", "movement_weight"}.isdisjoint(find_entry(rule, "rule").context)


def needs_gradients(rule: str) -> bool:
    """Return True if a learner of this rule is given the largest gradient of its sequence."""
    return "G" in find_entry(rule, "rule").context


def make_learner(
    rule: str, point: Point, domain: ConvexSet, movement: Movement, costs: Costs
) -> Learner[Any]:
    """The learner of a rule at one point of its grid, told of its surroundings what its signature asks for.

    T and G, the largest norm of a gradient, are those of the sequence: a generous hint, which theory's ensembles are given.
    """
    found = find_entry(rule, "rule")
    facts: dict[str, Callable[[], Any]] = {
        "domain": lambda: domain,
        "T": lambda: costs.T,
        "G": lambda: _find_largest_gradient(rule, costs),
        "movement": lambda: movement,
        "movement_weight": lambda: movement.weight,
        "family": lambda: costs.family,
    }
    told = {name: facts[name]() for name in found.context if name in facts}
    point = dict(point)
    if "c" in found.parameters and "sigma" in found.parameters:
        c = point.pop("c", None)
        if c is not None:
            point["sigma"] = Sqrt(c)
    made = found.make(**told, **point)
    if not isinstance(made, Learner):
        raise refusal(
            rule, "to return a Learner", "it", type(made).__name__, "derive it from klazy.types.Learner"
        )
    return made


def _find_largest_gradient(rule: str, costs: Costs) -> float:
    """The largest norm of a gradient; gradients of other than linear costs depend on the point."""
    if code_of(costs) != LINEAR:
        raise refusal(rule, "linear costs, to be told G", "costs", costs, "give G as a key of your own rule")
    return float(np.linalg.norm(costs.arrays()[0], axis=1).max())


def check_point(rule: str, point: Point) -> None:
    """Refuse values that the learner would refuse on any set."""
    make_learner(rule, point, L2Ball(1), L2Movement(), LinearCosts([[1.0]]))
