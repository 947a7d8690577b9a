"""Arguments and options in messages: how they are written, and errors that end in the function that was called."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from klazy.base.checks import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
_as_flags: ContextVar[bool] = ContextVar("as_flags", default=False)


@contextmanager
def write_as_flags() -> Iterator[None]:
    """Write options as flags until the block ends, for a command."""
    token = _as_flags.set(True)
    try:
        yield
    finally:
        _as_flags.reset(token)


def writes_flags() -> bool:
    """Return True in a command, whose user writes flags and no Python."""
    return _as_flags.get()


def write_option(name: str, *values: Any) -> str:
    """Write an option, with a value or several to choose from, as its user types it.

    >>> write_option("upper"), write_option("upper", 60.0), write_option("fill", "forward", "zero", "drop")
    ('upper', 'upper=60', "fill='forward', 'zero' or 'drop'")
    >>> with write_as_flags():
    ...     write_option("move_cost"), write_option("upper", 60.0), write_option("fill", "forward", "zero", "drop")
    ('--move-cost', '--upper 60', '--fill forward, zero or drop')
    """
    is_flag = _as_flags.get()
    shown = f"--{name.replace('_', '-')}" if is_flag else name
    if not values:
        return shown
    texts = [_write(value, is_flag) for value in values]
    choices = " or ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
    return f"{shown} {choices}" if is_flag else f"{shown}={choices}"


def _write(value: Any, is_flag: bool) -> str:
    if isinstance(value, str):
        return value if is_flag else repr(value)
    return f"{value:g}"


def explain_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Make errors about arguments short: a decorator for functions that users call.

    A rejected argument ends its traceback here, without the frames that found it. An unknown keyword names the one that is
    probably meant.
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except InvalidInput as rejected:
            raise rejected.with_traceback(None) from rejected.__cause__
        except TypeError as failed:
            problem = _find_unknown(function, args, options)
            if problem is None:
                raise
            raise TypeError(problem).with_traceback(None) from failed.__cause__

    return call


def _find_unknown(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> str | None:
    """Return a message about the first keyword that a function does not have, or None."""
    parameters = signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    known = [parameter.name for parameter in parameters if parameter.name != "self"]
    unknown = next((name for name in options if name not in known), None)
    if unknown is None:
        return None
    owner = function.__qualname__
    if function.__name__ == "__init__":
        # A class may inherit its constructor: the object has the class that was called.
        owner = type(args[0]).__name__
    message = f"{owner}() got an unexpected keyword argument {unknown!r}."
    meant = get_close_matches(unknown, known, n=1)
    return f"{message} Did you mean {meant[0]!r}?" if meant else message
