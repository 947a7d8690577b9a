"""Build new agents from JSON: of classes that klazy has or imports for the operator, and within the limits of memory."""

import json
from collections.abc import Iterator
from typing import Any

from klazy.base.checks import InvalidInput, check_depth
from klazy.base.own import list_own_modules
from klazy.families import Family
from klazy.kernels.layout import find_missing_part, layout_of
from klazy.learners import Learner
from klazy.learners.base import count_numbers
from klazy.live.agent import add_checksum, verify_checksum
from klazy.live.guards import Guards
from klazy.live.rows import GIVEN, RowSpec
from klazy.live.state import AgentState
from klazy.live.stored import check_name
from klazy.movement import Movement
from klazy.serve.settings import Settings

# Sets, schedules and experts of a learner.
MAX_PARTS = 2000
_CONFIGS: dict[str, Any] = {"costs": Family, "movement": Movement, "guards": Guards}


def check_path_name(name: str) -> str:
    """Return the name of an agent if it can be a part of a path."""
    check_name(name)
    if "/" in name or name in (".", ".."):
        raise InvalidInput(
            f"The name of an agent must fit into a path, got {name!r}. Use - in place of /."
        )
    return name


def build_state(about: dict[str, Any], limits: Settings) -> AgentState:
    """Build the agent that a request describes: by its learner, or as ``Agent.save`` wrote it."""
    check_depth(about)
    if about.get("agent") is not None:
        return _rebuild_saved(about, limits)
    if about.get("learner") is None:
        raise InvalidInput(
            "learner or agent is required: learner.to_dict(), or the file that Agent.save wrote."
        )
    learner = _build_learner(about, limits)
    given = {name: about.get(name) for name in (*GIVEN, "guards")}
    for name, kind in _CONFIGS.items():
        # A movement may also be given by its short name.
        if isinstance(given[name], dict):
            given[name] = _build(kind, given[name])
    guards = given.pop("guards")
    return AgentState(learner, about["engine"], None, guards, RowSpec.build(learner, **given))


def _rebuild_saved(about: dict[str, Any], limits: Settings) -> AgentState:
    saved = about["agent"]
    _build_learner(saved, limits)
    data = add_checksum(saved)
    found = json.loads(data)
    changed = InvalidInput(
        "The body must be a file exactly as Agent.save wrote it. Send it unchanged."
    )
    if about.get("checksum") != found["checksum"] or about.get("format") != found["format"]:
        raise changed
    verify_checksum(data, "the body")
    try:
        state = AgentState.from_dict(saved)
    except (KeyError, TypeError):
        raise changed from None
    except ValueError as failed:
        raise InvalidInput(*failed.args) from None
    # The rounds that wait for feedback count, too.
    _check_numbers(count_numbers(state.state), limits)
    return state


def _build(kind: Any, about: Any) -> Any:
    """Build what ``to_dict`` described; reject missing and unknown arguments, too."""
    try:
        return kind.from_dict(about)
    except TypeError as failed:
        name = about.get("class") if isinstance(about, dict) else None
        word = kind.__name__.lower()
        raise InvalidInput(
            f"The {word} {name} cannot be built: {failed}. Send what to_dict returns."
        ) from None
    except ValueError as failed:
        raise InvalidInput(*failed.args) from None


def _build_learner(about: dict[str, Any], limits: Settings) -> Learner[Any]:
    """Build the learner of an agent if this, its state and the state's form for a kernel are not too large."""
    for name in ("learner", *_CONFIGS):
        _check_parts(about.get(name), limits)
    learner = _build(Learner, about.get("learner"))
    _check_dim(learner.domain.dim, limits)
    _check_numbers(count_numbers(learner.init()), limits)
    if about.get("engine") != "step" and find_missing_part(learner) is None:
        _check_numbers(layout_of(learner).size, limits)
    return learner


def _check_dim(dim: float, limits: Settings) -> None:
    if dim > limits.dim:
        raise InvalidInput(
            f"The dimension must be at most {limits.dim}, got {dim}. See klazy serve --dim."
        )


def _check_numbers(numbers: float, limits: Settings) -> None:
    if numbers > limits.numbers:
        limit = f"The state must have at most {limits.numbers} numbers, got {numbers}."
        raise InvalidInput(
            f"{limit} Shorten windows, use fewer experts, or see klazy serve --numbers."
        )


def _check_parts(about: Any, limits: Settings) -> None:
    """Reject classes that are not klazy's, and descriptions that are too large, before anything is built."""
    parts = 0
    # A lower bound: each learner has a set of its own, and its state a point there.
    numbers = 0
    for part in _walk(about):
        parts += 1
        name = part.get("class")
        if not isinstance(name, str) or not _is_allowed(name):
            raise InvalidInput(
                f"class must be a class of klazy, as to_dict names it, got {name!r}."
            )
        dim = part.get("dim")
        if isinstance(dim, int | float):
            _check_dim(dim, limits)
            numbers += max(dim, 0)
    if parts > MAX_PARTS:
        raise InvalidInput(
            f"A learner must have at most {MAX_PARTS} parts, got {parts}. Use fewer experts."
        )
    _check_numbers(numbers, limits)


def _is_allowed(name: str) -> bool:
    """Return True if this is how files name a public class of klazy, or of a module that ``klazy --import`` named."""
    first, _, rest = name.rpartition(".")
    return (
        first in ("", "klazy", *list_own_modules())
        and rest.isidentifier()
        and not rest.startswith("_")
    )


def _walk(about: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects within, at any depth."""
    left = [about]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
