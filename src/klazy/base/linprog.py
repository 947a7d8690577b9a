"""Linear programmes, by HiGHS in SciPy."""

from importlib import import_module
from typing import Any

__all__ = ["solve_linear"]


def solve_linear(cost: Any, **constraints: Any) -> Any:
    """Solve a linear programme by :func:`scipy.optimize.linprog`, which is imported at the first call.

    The types are ``Any``: a type checker would follow SciPy's untyped sources for seconds.
    """
    optimize: Any = import_module("scipy.optimize")
    return optimize.linprog(cost, **constraints)
