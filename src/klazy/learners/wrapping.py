"""Helpers of learners that wrap other learners."""

from typing import Any

from klazy.base.checks import invalid
from klazy.learners.base import Learner
from klazy.sets import ConvexSet


def check_inner(learner: Any, owner: str) -> None:
    """Check that this is a learner to wrap."""
    if not isinstance(learner, Learner):
        remedy = f"write {owner}(GD(L2Ball(5), 1.0), ...)"
        raise invalid(owner, "a learner", "learner", repr(learner), remedy)


def move_learner(learner: Learner[Any], domain: ConvexSet) -> Learner[Any]:
    """Move a learner, and the learners within it, to another set; a start outside moves to the nearest point.

    >>> move_learner(GD(Box(0, 1), 2.0, start=[1.0]), Box(0.1, 0.9))
    GD(domain=Box(lower=[0.1], upper=[0.9]), sigma=Constant(s=2.0), start=[0.9])
    """
    changes: dict[str, Any] = {}
    arguments: dict[str, Any] = learner._arguments()
    for name, value in arguments.items():
        if isinstance(value, ConvexSet):
            changes[name] = domain
        elif isinstance(value, Learner):
            changes[name] = move_learner(value, domain)
        elif name == "start" and value is not None:
            changes[name] = domain.nearest(value)
        elif isinstance(value, tuple) and value and all(isinstance(member, Learner) for member in value):
            changes[name] = tuple(move_learner(member, domain) for member in value)
    return learner.replace(**changes)
