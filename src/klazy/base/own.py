"""Modules of the user that a command imports, so that files, stores and requests may name their classes."""

import os
import sys
from importlib import import_module
from typing import Any

from klazy.base.checks import InvalidInput

# The environment variable with their names, separated by commas. The workers of a service read it, too.
OWN_MODULES = "KLAZY_IMPORT"


def list_own_modules() -> list[str]:
    """List the modules that --import or the environment names."""
    names = os.environ.get(OWN_MODULES, "").split(",")
    return [name.strip() for name in names if name.strip()]


def import_own_modules() -> None:
    """Import these modules. The current folder is searched last, so that no module there hides an installed one."""
    names = list_own_modules()
    if names and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in names:
        try:
            import_module(name)
        # A module of the user may raise anything when it is imported.
        except Exception as failed:
            raise InvalidInput(
                f"--import cannot import {name}: {type(failed).__name__}: {failed}."
            ) from failed


def find_own(name: str) -> Any:
    """Return the object that ``module:name`` names in one of these modules; a class or a function is called to make it."""
    module, _, attribute = name.partition(":")
    if module not in list_own_modules():
        raise InvalidInput(
            f"{name} would be imported and run. If you know its code, begin with klazy --import {module}."
        )
    try:
        found = getattr(sys.modules[module], attribute)
        return found() if callable(found) else found
    except Exception as failed:
        raise InvalidInput(
            f"{name} cannot be made: {type(failed).__name__}: {failed}."
        ) from failed
