"""Learners that other installed packages offer by name, as entry points of the group ``klazy.learners``."""

from importlib.metadata import entry_points
from typing import Any

ENTRY_POINT_GROUP = "klazy.learners"


def list_installed() -> dict[str, str]:
    """List the learners of other packages, by name, each as ``module:function``; nothing is imported."""
    return dict(sorted((point.name, point.value) for point in entry_points(group=ENTRY_POINT_GROUP)))


def load_installed(name: str) -> Any:
    """Import the function that makes the learner of this name; installing its package was trust enough, without ``--trust``."""
    points = {point.value: point for point in entry_points(group=ENTRY_POINT_GROUP, name=name)}
    if len(points) > 1:
        raise ImportError(f"two packages offer it: {' and '.join(sorted(points))}")
    (point,) = points.values()
    return point.load()
