"""What learners around another learner share."""

from typing import Any

from klazy.base.checks import InvalidInput, instance
from klazy.learners.base import Learner, S
from klazy.movement import Movement
from klazy.sets import ConvexSet


class Wrapper(Learner[S]):
    """Base class of learners around another one, ``learner``, on its set and with its movement."""

    learner: Learner[Any]

    def _wrap(self, learner: Any, *, by_gradients: bool = False) -> None:
        """Check and store the learner inside; with ``by_gradients`` it must take gradients."""
        instance(learner, "learner", Learner, "a Learner such as GD(L2Ball(5), 1.0)")
        if by_gradients and not learner.takes_gradients:
            raise InvalidInput(
                f"learner must take gradients, got {learner!r}. Leave out its family."
            )
        self._keep(
            learner=learner,
            domain=learner.domain,
            family=None if by_gradients else learner.family,
        )

    @property
    def own_movement(self) -> Movement:
        return self.learner.own_movement


def move_learner(learner: Learner[Any], domain: ConvexSet) -> Learner[Any]:
    """Move a learner, and the learners within it, to another set; a start outside moves to the nearest point.

    >>> move_learner(GD(Box(0, 1), 2.0, start=[1.0]), Box(0.1, 0.9))
    GD(domain=Box(lower=[0.1], upper=[0.9]), sigma=Constant(s=2.0), start=[0.9])
    """
    changes: dict[str, Any] = {}
    arguments: dict[str, Any] = learner._arguments()
    for name, value in arguments.items():
        if name == "domain":
            changes[name] = domain
        elif isinstance(value, Learner):
            changes[name] = move_learner(value, domain)
        elif name == "start" and value is not None:
            changes[name] = domain.nearest(value)
        elif name == "experts" and value is not None:
            changes[name] = tuple(move_learner(expert, domain) for expert in value)
    return learner.replace(**changes)
