"""New agents from JSON: klazy's own classes only, and none that would take all memory."""

import json
from collections.abc import Iterator
from typing import Any

from klazy.base.checks import Refused, check_depth, refusal
from klazy.families import Family
from klazy.kernels.layout import find_missing_part, layout_of
from klazy.learners import Learner
from klazy.learners.base import count_numbers
from klazy.live.agent import seal, unseal
from klazy.live.guards import Guards
from klazy.live.opening import check_name
from klazy.live.rows import Terms
from klazy.live.state import Live
from klazy.movement import Movement
from klazy.serve.settings import Settings

OWNER = "The service"
MOST_PARTS = 2000  # of a learner: sets, schedules, experts
_PARTS: dict[str, Any] = {"costs": Family, "movement": Movement, "guards": Guards}


def check_path_name(name: str) -> str:
    """The name of an agent that can be a part of a path."""
    check_name(name)
    if "/" in name or name in (".", ".."):
        raise refusal(OWNER, "a name that can be a part of a path", "name", repr(name), "use - in its place")
    return name


def build_live(about: dict[str, Any], limits: Settings) -> Live:
    """The agent that a request describes: by its learner, or as ``Agent.save`` wrote it."""
    check_depth(about, OWNER)
    if about.get("agent") is not None:
        return _rebuild_saved(about, limits)
    if about.get("learner") is None:
        remedy = "send {'learner': learner.to_dict()}, or the file that Agent.save wrote"
        raise refusal(OWNER, "a learner or a saved agent", "learner", None, remedy)
    learner = _build_learner(about, limits)
    parts = {name: _build_if_given(kind, about.get(name)) for name, kind in _PARTS.items()}
    terms = Terms.check(
        learner,
        parts["costs"],
        about.get("columns"),
        parts["movement"],
        about.get("origin"),
        OWNER,
        fill=about.get("fill"),
    )
    return Live(learner, about["engine"], None, parts["guards"], terms)


def _build_if_given(kind: Any, about: Any) -> Any:
    """A part of an agent; a movement may be given by its short name."""
    return _build(kind, about) if isinstance(about, dict) else about


def _rebuild_saved(about: dict[str, Any], limits: Settings) -> Live:
    saved = about["agent"]
    _build_learner(saved, limits)
    data = seal(saved)
    found = json.loads(data)
    if about.get("checksum") != found["checksum"] or about.get("format") != found["format"]:
        remedy = "send it as it is"
        raise refusal(OWNER, "a file as Agent.save wrote it", "checksum", repr(about.get("checksum")), remedy)
    unseal(data, OWNER, "the body")
    try:
        live = Live.rebuild(saved)
    except (KeyError, TypeError) as failed:
        raise refusal(
            OWNER, "a file as Agent.save wrote it", "agent", repr(failed), "send it as it is"
        ) from None
    except ValueError as failed:
        raise Refused(*failed.args) from None
    _check_numbers(count_numbers(live.state), limits)  # rounds that wait for feedback are in it
    return live


def _build(kind: Any, about: Any) -> Any:
    """What ``to_dict`` described; an argument that is missing or unknown is a refusal, too."""
    try:
        return kind.from_dict(about)
    except TypeError as failed:
        condition = f"a {kind.__name__.lower()} it can build"
        name = about.get("class") if isinstance(about, dict) else None
        raise refusal(OWNER, condition, "class", f"{name!r} ({failed})", "send what to_dict gives") from None
    except ValueError as failed:
        raise Refused(*failed.args) from None


def _build_learner(about: dict[str, Any], limits: Settings) -> Learner[Any]:
    """Build the learner of an agent, unless this, its state or the state's form for a kernel would be too large."""
    for name in ("learner", *_PARTS):
        _check_parts(about.get(name), limits)
    learner = _build(Learner, about.get("learner"))
    _check_dim(learner.domain.dim, limits)
    _check_numbers(count_numbers(learner.init()), limits)
    if about.get("engine") != "step" and find_missing_part(learner) is None:
        _check_numbers(layout_of(learner).size, limits)
    return learner


def _check_dim(dim: float, limits: Settings) -> None:
    if dim > limits.dim:
        raise refusal(OWNER, f"a dimension of at most {limits.dim}", "dim", dim, "start it with --dim")


def _check_numbers(numbers: float, limits: Settings) -> None:
    if numbers > limits.numbers:
        remedy = "shorten windows, take fewer experts, or start it with --numbers"
        raise refusal(OWNER, f"a state of at most {limits.numbers} numbers", "numbers", numbers, remedy)


def _check_parts(about: Any, limits: Settings) -> None:
    """Refuse classes that are not klazy's, and descriptions that are too large, before anything is built."""
    parts = 0
    numbers = 0  # at the least: each learner has a set of its own, and its state a point there
    for part in _walk(about):
        parts += 1
        name = part.get("class")
        if not isinstance(name, str) or not _is_own(name):
            remedy = "use a class of klazy, as to_dict names it"
            raise refusal(OWNER, "classes of klazy only", "class", repr(name), remedy)
        dim = part.get("dim")
        if isinstance(dim, int | float):
            _check_dim(dim, limits)
            numbers += max(dim, 0)
    if parts > MOST_PARTS:
        remedy = "take fewer experts"
        raise refusal(OWNER, f"at most {MOST_PARTS} parts", "parts", parts, remedy)
    _check_numbers(numbers, limits)


def _is_own(name: str) -> bool:
    """Whether files call a public class of klazy so, with or without the package."""
    first, _, rest = name.rpartition(".")
    return first in ("", "klazy") and rest.isidentifier() and not rest.startswith("_")


def _walk(about: Any) -> Iterator[dict[str, Any]]:
    """The configurations within, at any depth."""
    left = [about]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
