"""What every configuration object shares: a ``repr`` that evaluates to it, equality, and a form that JSON holds.

A configuration (a set, a schedule, a learner, ...) is immutable, and its constructor's arguments are its attributes.
Nothing else identifies it, so text, equality and files all come from the constructor's signature.
"""

from functools import cache
from html import escape
from inspect import signature
from textwrap import shorten
from typing import Any, NoReturn, Self

import numpy as np

from klazy.base.checks import frozen
from klazy.base.html import fade, fold, list_values, make_card, make_paragraph, make_table, mark_code

_SHOWN = 64  # a repr spells out arrays up to this length; longer ones are abbreviated and cannot be evaluated
_LINE = 80  # letters that notebooks show of a part before they fold it


class Config:
    """An immutable object that keeps each argument of ``__init__``, once checked, under the argument's name.

    An underscore at the end keeps an attribute apart from a method of that name.
    """

    def _keep(self, **values: Any) -> None:
        """Store checked values in ``__init__``; arrays are kept as read-only copies."""
        for name, value in values.items():
            object.__setattr__(self, name, frozen(value) if isinstance(value, np.ndarray) else value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__} cannot be changed, got {name}={value!r}; build a new one."
        )

    def _arguments(self) -> dict[str, Any]:
        names = _defaults(type(self))
        return {name: getattr(self, f"{name}_" if hasattr(self, f"{name}_") else name) for name in names}

    def replace(self, **changes: Any) -> Self:
        """The same configuration with other values for some arguments."""
        return type(self)(**self._arguments() | changes)

    def __repr__(self) -> str:
        default = _defaults(type(self))
        shown = [
            f"{name}={_text(value)}"
            for name, value in self._arguments().items()
            if not _same(value, default[name])
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """For notebooks: every argument, those at their default fainter."""
        return make_card(type(self).__name__, fade(escape(_summary(type(self)))), self._shown(_table(self)))

    def _shown(self, arguments: str) -> str:
        """The table of the arguments with what else there is to say."""
        return arguments

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, Config):
            return NotImplemented
        theirs = other._arguments()
        return all(_same(value, theirs[name]) for name, value in self._arguments().items())

    def __hash__(self) -> int:
        return hash(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """The class name and the fields as plain JSON values."""
        return {
            "class": type(self).__name__,
            **{name: _plain(value) for name, value in self._arguments().items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild what :meth:`to_dict` described; the class must be a (perhaps indirect) subclass of ``cls``."""
        known = {kind.__name__: kind for kind in _family(cls)}
        name = data.get("class")
        if name not in known:
            raise ValueError(
                f"{cls.__name__} needs a known class, got class={name!r}; import the module that defines it."
            )
        return known[name](**{key: _rebuilt(value) for key, value in data.items() if key != "class"})


@cache
def _defaults(cls: type) -> dict[str, Any]:
    """The arguments of the constructor with their defaults."""
    return {parameter.name: parameter.default for parameter in signature(cls).parameters.values()}


def _family(cls: type) -> list[type]:
    return [cls, *(kind for sub in cls.__subclasses__() for kind in _family(sub))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= _SHOWN else f"<array of shape {value.shape}>"
    return repr(value)


def _summary(cls: type) -> str:
    """What a class says of itself first, unless that is a formula."""
    said = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
    return "" if "`" in said else said


def _table(config: Config) -> str:
    default = _defaults(type(config))
    shown = {}
    for name, value in config._arguments().items():
        shown[name] = fade(mark_code(_text(value))) if _same(value, default[name]) else _cell(name, value)
    return list_values(shown)


def _cell(name: str, value: Any) -> str:
    """A value in HTML: what is long is folded, a list of configurations a table of its own."""
    text = _text(value)
    if isinstance(value, tuple) and value and all(isinstance(member, Config) for member in value):
        return fold(f"{len(value)} {name}", _members(value), len(value))
    if isinstance(value, Config) and len(text) > _LINE:
        return fold(type(value).__name__, _table(value))
    return mark_code(text)


def _members(configs: tuple[Config, ...]) -> str:
    """What they have in common, and a row for each with the rest."""
    given = [{name: _text(value) for name, value in config._arguments().items()} for config in configs]
    names = list(dict.fromkeys(name for arguments in given for name in arguments))
    common = (
        [name for name in names if len({arguments.get(name) for arguments in given}) == 1]
        if len(given) > 1
        else []
    )
    rows = [
        {"": i, "class": type(config).__name__}
        | {
            name: shorten(arguments.get(name, ""), _LINE, placeholder=" ...")
            for name in names
            if name not in common
        }
        for i, (config, arguments) in enumerate(zip(configs, given, strict=True))
    ]
    shared = ", ".join(f"{name}={given[0][name]}" for name in common)
    return make_table(rows) + (make_paragraph(f"Each has {shared}.", "faint") if shared else "")


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a configuration file needs plain values, got {value!r}; functions cannot be saved.")


def _rebuilt(value: Any) -> Any:
    if isinstance(value, dict):
        return Config.from_dict(value)
    return [_rebuilt(item) for item in value] if isinstance(value, list) else value
