"""Linear programmes, by HiGHS in SciPy."""

from importlib import import_module
from typing import Any

__all__ = ["solve_linear"]


def solve_linear(cost: Any, **constraints: Any) -> Any:
    """What :func:`scipy.optimize.linprog` finds; loaded when it is first asked for.

    A type checker would follow SciPy's untyped sources to the result, which takes it seconds; so it is told nothing.
    """
    optimize: Any = import_module("scipy.optimize")
    return optimize.linprog(cost, **constraints)
