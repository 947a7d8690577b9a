"""The names in a study: recipes of sequences and rules of learners, from klazy or as ``module:function``.

A rule can also be the name of a learner that another installed package offers.

Signatures name the parameters; facts of the context (the seed, the set, the horizon) are none.
"""

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import Parameter
from typing import Any, NamedTuple, get_origin, get_type_hints

import numpy as np

from klazy import learners, sequences
from klazy.base.checks import InvalidInput
from klazy.costs import Costs, LinearCosts
from klazy.kernels.codes import LINEAR, code_of
from klazy.learners import Learner, MemoryGD, presets
from klazy.movement import L1Movement, L2Movement, Movement, TVMovement
from klazy.schedules import Sqrt
from klazy.sequences import Scenario
from klazy.sets import ConvexSet, L2Ball
from klazy.studies.installed import list_installed, load_installed

Point = dict[str, Any]  # the value of every key
Cell = tuple[str, Point]  # the name of a recipe or a rule, and the values of its parameters
CONTEXT = (
    "seed",
    "domain",
    "T",
    "G",
    "movement",
    "move_cost",
    "family",
    "start",
    "prior",
    "hints",
)
# A rule with a sigma takes one of these: sigma, 1 / sigma, or c for sigma_t = sqrt(t / c).
STEP_SIZES = ("sigma", "learning_rate", "c")
MOVEMENT_KINDS: dict[str, type[Movement]] = {"l2": L2Movement, "l1": L1Movement, "tv": TVMovement}


class CatalogueEntry(NamedTuple):
    """A function, the parameters that a study may give, and the facts of its context that it needs."""

    make: Callable[..., Any]
    parameters: dict[str, Parameter]
    context: tuple[str, ...]


def _make_entry(
    make: Callable[..., Any], *signatures: Callable[..., Any], context: tuple[str, ...] = CONTEXT
) -> CatalogueEntry:
    """Read the parameters off the ``signatures``, or that of ``make``; a rule that needs a sigma takes any of STEP_SIZES."""
    parameters: dict[str, Parameter] = {}
    asked: list[str] = []
    for function in signatures or (make,):
        hints = _read_hints(function)
        for name, argument in inspect.signature(function).parameters.items():
            if name in context:
                asked.append(name)
            elif argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                parameters[name] = argument.replace(annotation=hints.get(name, Any))
    if (
        context is CONTEXT
        and "sigma" in parameters
        and not isinstance(parameters["sigma"].default, float)
    ):
        others = {name: value for name, value in parameters.items() if name not in STEP_SIZES}
        one = parameters["sigma"].replace(annotation=float, default=None)
        parameters = {name: one.replace(name=name) for name in STEP_SIZES} | others
    return CatalogueEntry(make, parameters, tuple(dict.fromkeys(asked)))


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's arguments, as far as they are known."""
    if inspect.isclass(function):
        function = function.__init__
    try:
        return get_type_hints(function)
    except (NameError, TypeError):
        return {}


def _make_memory_entry(memory: type[learners.Memory]) -> CatalogueEntry:
    def make(domain: Any, sigma: Any, **parameters: Any) -> Learner[Any]:
        return MemoryGD(domain, sigma, memory=memory(**parameters))

    return _make_entry(make, learners.GD, memory)


def _make_wave(period: int, T: int) -> Scenario:
    return sequences.square_wave(period, T)


_RECIPES = "stochastic corrupted phases_of_length rotating alternating tracking drifting_regression data_centre sea"
_RULES = (
    "GD LazyGD KLazyGD KLazyFTRL CentredOMD ader sader sader_k scream auto ensemble_auto "
    "Fixed FollowTheLeader LastValue MovingAverage Periodic MinimumHold DeadBand"
)
_MEMORY_RULES = (learners.Decay, learners.Clip, learners.Event, learners.Clock)
_MAKERS = vars(presets) | vars(learners)
RECIPES = {
    name: _make_entry(getattr(sequences, name), context=("seed",)) for name in _RECIPES.split()
}
RECIPES["square_wave"] = _make_entry(_make_wave, context=("seed",))
LEARNER_RULES = {name: _make_entry(_MAKERS[name]) for name in _RULES.split()}
LEARNER_RULES |= {memory.__name__: _make_memory_entry(memory) for memory in _MEMORY_RULES}


@cache
def find_entry(name: str, kind: str) -> CatalogueEntry:
    """Return the recipe or rule of this name; code of others is imported, and must declare that it returns one."""
    known = RECIPES if kind == "recipe" else LEARNER_RULES
    if name in known:
        return known[name]
    module, colon, function = name.partition(":")
    if not colon and (kind == "recipe" or name not in list_installed()):
        names = ", ".join(known)
        raise InvalidInput(
            f"{kind} must be one of {names}, or a module:function of your own, got {name!r}."
        )
    try:
        found = getattr(import_module(module), function) if colon else load_installed(name)
    # The module of another author may raise anything when it is imported.
    except Exception as failed:
        raise InvalidInput(
            f"{name} cannot be imported: {type(failed).__name__}: {failed}."
        ) from failed
    wanted = Scenario if kind == "recipe" else Learner
    if not _returns(found, wanted):
        kind_name = wanted.__name__
        raise InvalidInput(
            f"{name} must be a function annotated with `-> {kind_name}`, or a {kind_name} class."
        )
    context = ("seed",) if kind == "recipe" else CONTEXT
    return _make_entry(found, context=context)


def _returns(found: Any, wanted: type) -> bool:
    """Return True for a class of the wanted kind, or a function with that return annotation: nothing else is called."""
    kind = found
    if inspect.isfunction(found):
        kind = _read_hints(found).get("return")
    kind = get_origin(kind) or kind
    return inspect.isclass(kind) and issubclass(kind, wanted)


def depends_on_seed(recipe: str, point: Point) -> bool:
    """Return True if the sequence depends on a seed."""
    if recipe == "corrupted":
        return point["random_phases"]
    return "seed" in find_entry(recipe, "recipe").context


def make_scenario(recipe: str, point: Point, seed: Any) -> Scenario:
    """Make the sequence of a recipe at one point of its grid."""
    found = find_entry(recipe, "recipe")
    if "seed" in found.context:
        point = {"seed": seed} | point
    made = found.make(**point)
    if not isinstance(made, Scenario) or not isinstance(made.costs, Costs):
        raise InvalidInput(
            f"{recipe} must return a Scenario with costs, got {type(made).__name__}."
        )
    if np.shape(made.comparator) != (made.costs.T, made.costs.dim):
        wanted = (made.costs.T, made.costs.dim)
        shape = np.shape(made.comparator)
        raise InvalidInput(f"The comparator of {recipe} must have shape {wanted}, got {shape}.")
    return made


def make_learner(
    rule: str, point: Point, domain: ConvexSet, movement: Movement, costs: Costs
) -> Learner[Any]:
    """Make the learner of a rule at one point of its grid, with the facts about the sequence that its signature names.

    T and G, the largest norm of a gradient, are those of the sequence: a generous hint, which ensembles of the theory need.
    """
    found = find_entry(rule, "rule")
    facts = {"domain": domain, "T": costs.T, "family": costs.family}
    facts |= {"movement": movement, "move_cost": movement.weight}
    if "G" in found.context:
        facts["G"] = _find_largest_gradient(rule, costs)
    given = {name: facts[name] for name in found.context if name in facts} | point
    if "c" in point and "sigma" in found.parameters:
        given["sigma"] = Sqrt(given.pop("c"))
    made = found.make(**given)
    if not isinstance(made, Learner):
        raise InvalidInput(
            f"{rule} must return a klazy.types.Learner, got {type(made).__name__}."
        )
    return made


def _find_largest_gradient(rule: str, costs: Costs) -> float:
    """Return the largest norm of a gradient; only linear costs have gradients that do not depend on the point."""
    if code_of(costs) != LINEAR:
        raise InvalidInput(f"{rule} needs linear costs, from which G is known, got {costs}.")
    return float(np.linalg.norm(costs.arrays()[0], axis=1).max())


def check_point(rule: str, point: Point) -> None:
    """Reject values that the learner rejects on any set."""
    make_learner(rule, point, L2Ball(1), L2Movement(), LinearCosts([[1.0]]))
