"""What an agent's numbers were computed by. Elsewhere they may come out differently in their last bits."""

import sys
import warnings
from functools import cache
from typing import Any

import numpy as np


class OtherMachine(UserWarning):
    """An agent goes on under another version, or on another kind of CPU, than the one it was written by.

    From here on its points may differ in their last bits from those that it would have played there.
    """


@cache
def describe_machine(engine: str) -> dict[str, str]:
    """Versions and CPU features that the numbers of an agent with this engine may depend on."""
    about = {"klazy": sys.modules["klazy"].__version__, "numpy": np.__version__}
    if engine == "step":
        found: Any = np.show_config(mode="dicts")
        extensions = found["SIMD Extensions"]
        return about | {"cpu": " ".join(extensions["baseline"] + extensions.get("found", []))}
    from klazy.kernels.binding import describe_target

    return about | describe_target()


def warn_of_another_machine(about: dict[str, Any], where: object, stacklevel: int) -> None:
    """Say so if the agent that ``about`` describes was written elsewhere."""
    there = about.get("machine", {})
    here = describe_machine(about["engine"])
    changed = []
    for name in sorted(here.keys() - {"cpu"}):
        if there.get(name) != here[name]:
            changed.append(f"{name} {there.get(name, 'unknown')} (here: {here[name]})")
    if there.get("cpu") != here["cpu"]:
        changed.append("another kind of CPU")
    if changed:
        words = f"{where}: this agent was written by {', '.join(changed)}"
        remedy = (
            "it goes on, but its points may differ in their last bits from those it would have played there"
        )
        warnings.warn(f"{words}; {remedy}.", OtherMachine, stacklevel=stacklevel + 1)
