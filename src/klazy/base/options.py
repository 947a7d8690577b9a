"""Write options in messages: as arguments in Python, as flags in a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_as_flags: ContextVar[bool] = ContextVar("as_flags", default=False)


@contextmanager
def write_as_flags() -> Iterator[None]:
    """Write options as flags until the block ends, for a command."""
    token = _as_flags.set(True)
    try:
        yield
    finally:
        _as_flags.reset(token)


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
