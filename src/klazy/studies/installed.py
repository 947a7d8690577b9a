"""What other installed packages offer by name, as entry points: learners in the group ``klazy.learners``, for example."""

from importlib.metadata import entry_points
from typing import Any

ENTRY_POINT_GROUP = "klazy.learners"


def list_installed(group: str = ENTRY_POINT_GROUP) -> dict[str, str]:
    """List what other packages offer in a group, by name, each as ``module:function``; nothing is imported."""
    return dict(sorted((point.name, point.value) for point in entry_points(group=group)))


def load_installed(name: str, group: str = ENTRY_POINT_GROUP) -> Any:
    """Import the function of this name, which makes a learner; installing its package was trust enough, without ``--trust``."""
    points = {point.value: point for point in entry_points(group=group, name=name)}
    if len(points) > 1:
        raise ImportError(f"two packages offer it: {' and '.join(sorted(points))}")
    (point,) = points.values()
    return point.load()
