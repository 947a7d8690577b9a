"""New agents from JSON: klazy's own classes only, and none that would take all memory."""

import json
from collections.abc import Iterator
from typing import Any

from klazy.base.checks import Refused, refusal
from klazy.families import Family
from klazy.learners import Learner
from klazy.live.agent import seal, unseal
from klazy.live.guards import Guards
from klazy.live.opening import check_name
from klazy.live.rows import Terms
from klazy.live.state import Live
from klazy.movement import Movement

OWNER = "The service"
MOST_PARTS = 2000  # of a learner: sets, schedules, experts
MOST_NUMBERS = 10_000_000  # of a learner's state
_PARTS: dict[str, Any] = {"costs": Family, "movement": Movement, "guards": Guards}
_SIZES = ("dim", "window", "levels")  # arguments of which memory depends


def check_path_name(name: str) -> str:
    """The name of an agent that can be a part of a path."""
    check_name(name)
    if "/" in name or name in (".", ".."):
        raise refusal(OWNER, "a name that can be a part of a path", "name", repr(name), "use - in its place")
    return name


def build_live(about: dict[str, Any], most_dim: int) -> Live:
    """The agent that a request describes: by its learner, or as ``Agent.save`` wrote it."""
    if about.get("agent") is not None:
        return _rebuild_saved(about, most_dim)
    if about.get("learner") is None:
        remedy = "send {'learner': learner.to_dict()}, or the file that Agent.save wrote"
        raise refusal(OWNER, "a learner or a saved agent", "learner", None, remedy)
    for name in ("learner", *_PARTS):
        _check_parts(about.get(name), most_dim)
    learner = _build(Learner, about["learner"])
    _check_dim(learner, most_dim)
    parts = {name: _build_if_given(kind, about.get(name)) for name, kind in _PARTS.items()}
    terms = Terms.check(
        learner, parts["costs"], about.get("columns"), parts["movement"], about.get("origin"), OWNER
    )
    return Live(learner, about["engine"], None, parts["guards"], terms)


def _build_if_given(kind: Any, about: Any) -> Any:
    """A part of an agent; a movement may be given by its short name."""
    return _build(kind, about) if isinstance(about, dict) else about


def _rebuild_saved(about: dict[str, Any], most_dim: int) -> Live:
    saved = about["agent"]
    for name in ("learner", *_PARTS):
        _check_parts(saved.get(name), most_dim)
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
    _check_dim(live.learner, most_dim)
    return live


def _build(kind: Any, about: Any) -> Any:
    """What ``to_dict`` described; an argument that is missing or unknown is a refusal, too."""
    try:
        return kind.from_dict(about)
    except TypeError as failed:
        remedy = "send what to_dict gives"
        raise refusal(
            OWNER,
            f"a {kind.__name__.lower()} it can build",
            "class",
            f"{about.get('class')!r} ({failed})",
            remedy,
        ) from None
    except ValueError as failed:
        raise Refused(*failed.args) from None


def _check_dim(learner: Learner[Any], most: int) -> None:
    if learner.domain.dim > most:
        raise refusal(
            OWNER, f"a dimension of at most {most}", "dim", learner.domain.dim, "start it with --dim"
        )


def _check_parts(about: Any, most_dim: int) -> None:
    """Refuse classes that are not klazy's, and sizes for which there should be no array, before anything is built."""
    count = 0
    numbers = 1
    for part in _walk(about):
        count += 1
        name = part.get("class")
        if not isinstance(name, str) or not _is_own(name):
            remedy = "use a class of klazy, as to_dict names it"
            raise refusal(OWNER, "classes of klazy only", "class", repr(name), remedy)
        for size in _SIZES:
            value = part.get(size)
            if isinstance(value, int | float) and value > 1:
                numbers = max(numbers, value) if size == "dim" else numbers * value
            if size == "dim" and isinstance(value, int | float) and value > most_dim:
                raise refusal(
                    OWNER, f"a dimension of at most {most_dim}", "dim", value, "start it with --dim"
                )
    if count > MOST_PARTS or numbers > MOST_NUMBERS:
        raise refusal(OWNER, "a learner of a reasonable size", "parts", count, "make it smaller")


def _is_own(name: str) -> bool:
    """Whether files call a class of klazy so, with or without the package."""
    first, _, rest = name.rpartition(".")
    return first in ("", "klazy") and rest.isidentifier()


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
