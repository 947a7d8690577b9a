"""What every configuration object shares: a ``repr`` that evaluates to it, equality, and a form that JSON holds.

A configuration (a set, a schedule, a learner, ...) is immutable, and its constructor's arguments are its attributes.
Nothing else identifies it, so text, equality and files all come from the constructor's signature.
"""

import sys
from collections.abc import Callable, Collection
from functools import cache
from inspect import signature
from itertools import chain
from textwrap import shorten
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from klazy.base.checks import InvalidInput, check_depth, freeze
from klazy.base.html import load_macros, show_card
from klazy.base.options import explain_arguments, writes_flags

# A repr writes arrays up to this length; longer ones are abbreviated and cannot be evaluated.
_SHOWN = 64
# A longer tuple, such as one of experts, is abbreviated.
_SHOWN_EACH = 12
# Notebooks fold a part whose text is longer.
_CARD_WIDTH = 80
# All classes of configurations, by their names in files.
_CLASSES: dict[str, list[type]] = {}


class Config:
    """An immutable object that keeps each argument of ``__init__``, once checked, under the argument's name.

    ``explain_arguments`` wraps the ``__init__`` of every subclass, so that errors about its arguments are short.

    ``_rests_on`` names what a class says about a method of its own, and that method. A subclass that overrides the method may
    compute something else, so it does not inherit these attributes: it sets them again, or has the defaults of the base class.
    """

    _rests_on: ClassVar[dict[str, str]] = {}
    # Arguments that are another way to write one of the others, which alone is stored.
    _alternatives: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _CLASSES.setdefault(_file_name(cls), []).append(cls)
        if "__init__" in vars(cls):
            cls.__init__ = explain_arguments(cls.__init__)
        for name, method in cls._rests_on.items():
            said = [place for place, kind in enumerate(cls.__mro__) if name in vars(kind)]
            written = [place for place, kind in enumerate(cls.__mro__) if method in vars(kind)]
            if written[0] < said[0]:
                setattr(cls, name, vars(cls.__mro__[said[-1]])[name])

    def _keep(self, **values: Any) -> None:
        """Store checked values in ``__init__``; arrays become read-only copies."""
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value = freeze(value)
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{name} cannot be changed. Make a new object with replace({name}={value!r})."
        )

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _defaults(type(self))}

    def replace(self, **changes: Any) -> Self:
        """Make the same configuration with other values for some arguments.

        Parameters
        ----------
        **changes
            The arguments to change, by name.

        Returns
        -------
        Config
            A new object of the same class.

        Raises
        ------
        TypeError
            If the class has no such argument.

        Examples
        --------
        >>> GD(Simplex(3), 2.0).replace(sigma=5.0)
        GD(domain=Simplex(dim=3), sigma=Constant(s=5.0))
        """
        arguments = self._arguments() | changes
        for name in changes.keys() & self._alternatives.keys():
            del arguments[self._alternatives[name]]
        return type(self)(**arguments)

    def __repr__(self) -> str:
        return self._write(_text)

    def to_text(self) -> str:
        """Write the object as Python does, with every member: ``repr`` only counts the experts of a large ensemble.

        Returns
        -------
        str
            The text, which may be long.

        Examples
        --------
        >>> learner = auto(Simplex(3), TVMovement(1.0))
        >>> len(repr(learner)) < 160, len(learner.to_text()) > 10_000
        (True, True)
        """
        return self._write(_full_text)

    def _write(self, write: Callable[[Any], str], without: Collection[str] = ()) -> str:
        """Write the class and the arguments that are not at their default."""
        default = _defaults(type(self))
        shown = []
        for name, value in self._arguments().items():
            if name not in without and not _same(value, default[name]):
                shown.append(f"{name}={write(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @show_card
    def _repr_html_(self) -> str:
        """Return a card for notebooks: every argument, those at their default fainter."""
        parts = load_macros()
        return parts.card(
            type(self).__name__, parts.faint(_summary(type(self))), self._shown(_table(self))
        )

    def _shown(self, arguments: str) -> str:
        """Return the card's content, given the table of the arguments."""
        return arguments

    def __eq__(self, other: Any) -> bool:
        if other is self:
            return True
        if type(other) is not type(self):
            return NotImplemented
        theirs = other._arguments()
        return all(_same(value, theirs[name]) for name, value in self._arguments().items())

    def __hash__(self) -> int:
        return hash(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Describe the object by plain JSON values: the name of its class, and its arguments.

        A class of klazy is named without its module, ``klazy.GD``; another one with it, ``mymodule.Patient``.

        Returns
        -------
        dict
            What :meth:`from_dict` rebuilds it from.

        Examples
        --------
        >>> Simplex(3).to_dict()
        {'class': 'klazy.Simplex', 'dim': 3, 'total': 1.0}
        """
        arguments = {name: _plain(value) for name, value in self._arguments().items()}
        return {"class": _file_name(type(self)), **arguments}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild what :meth:`to_dict` described.

        Nothing is imported: the module that defines the class must have been imported already. A bare name, as older files have
        it, is that of a class of klazy.

        Parameters
        ----------
        data : dict
            What :meth:`to_dict` gave.

        Returns
        -------
        Config
            An equal object, of a class derived from the one you call this on.

        Raises
        ------
        ValueError
            If the class is not known, its arguments are invalid, or it is nested too deep.

        Examples
        --------
        >>> Learner.from_dict(GD(Simplex(3), 2.0).to_dict())
        GD(domain=Simplex(dim=3), sigma=Constant(s=2.0))
        """
        if not isinstance(data, dict):
            raise TypeError(
                f"data must be a dict, as to_dict returns it, got {type(data).__name__}."
            )
        check_depth(data)
        return _build(cls, data)


@cache
def _defaults(cls: type[Config]) -> dict[str, Any]:
    """Return the arguments of the constructor that are stored, with their defaults."""
    arguments = signature(cls).parameters.values()
    return {each.name: each.default for each in arguments if each.name not in cls._alternatives}


def _file_name(cls: type) -> str:
    """Return the name of a class in files; klazy's own modules may move, so they are left out."""
    if cls.__module__.startswith("klazy."):
        return f"klazy.{cls.__name__}"
    return f"{cls.__module__}.{cls.__qualname__}"


def _find(cls: type, name: str) -> Any:
    """Return the subclass of ``cls`` with this name in files, None if there is none.

    A class that was defined twice, in a notebook, is the one that its module has now.
    """
    if "." not in name:
        name = f"klazy.{name}"
    found = None
    for kind in _CLASSES.get(name, ()):
        if issubclass(kind, cls):
            found = kind
            if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
                return kind
    return found


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= _SHOWN else f"<array of shape {value.shape}>"
    if isinstance(value, tuple) and len(value) > _SHOWN_EACH:
        kinds = dict.fromkeys(type(each).__name__ for each in value)
        return f"<{len(value)}: {', '.join(kinds)}>"
    return repr(value)


def _full_text(value: Any) -> str:
    """Write a value with all that it holds."""
    if isinstance(value, Config):
        return value.to_text()
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, tuple):
        return f"({', '.join(map(_full_text, value))})"
    return repr(value)


def _summary(cls: type) -> str:
    """Return the first sentence of a class's docstring, unless it is a formula."""
    said = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
    return "" if "`" in said else said


def _table(config: Config) -> str:
    default = _defaults(type(config))
    parts = load_macros()
    shown = {}
    for name, value in config._arguments().items():
        is_default = _same(value, default[name])
        shown[name] = parts.faint(parts.code(_text(value))) if is_default else _cell(name, value)
    return parts.values(shown)


def _cell(name: str, value: Any) -> str:
    """Write a value in HTML: long ones are folded, a list of configurations becomes a table."""
    text = _text(value)
    parts = load_macros()
    if isinstance(value, tuple) and value and all(isinstance(member, Config) for member in value):
        return parts.fold(f"{len(value)} {name}", _members(value), len(value))
    if isinstance(value, Config) and len(text) > _CARD_WIDTH:
        return parts.fold(type(value).__name__, _table(value))
    return parts.code(text)


def _members(configs: tuple[Config, ...]) -> str:
    """Write the arguments that configurations share, and a row for each with the others."""
    given = [
        {name: _text(value) for name, value in config._arguments().items()} for config in configs
    ]
    names = list(dict.fromkeys(chain.from_iterable(given)))
    common = []
    if len(given) > 1:
        common = [
            name for name in names if len({arguments.get(name) for arguments in given}) == 1
        ]
    rows = []
    for i, (config, arguments) in enumerate(zip(configs, given, strict=True)):
        texts = {name: arguments.get(name, "") for name in names if name not in common}
        short = {
            name: shorten(text, _CARD_WIDTH, placeholder=" ...") for name, text in texts.items()
        }
        rows.append({"": i, "class": type(config).__name__} | short)
    parts = load_macros()
    table = parts.table(rows)
    if not common:
        return table
    shared = ", ".join(f"{name}={given[0][name]}" for name in common)
    return table + parts.paragraphs([f"Each has {shared}."], "faint")


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"A configuration can be saved only if its values are plain, got {value!r}.")


def _build(cls: type, data: dict[str, Any]) -> Any:
    """Build an object of a class below ``cls`` from its description."""
    name = data.get("class")
    kind = _find(cls, str(name))
    if kind is None:
        what = "class" if cls is Config else f"{cls.__name__} of class"
        remedy = "Import the module that defines it"
        if writes_flags():
            remedy += ": klazy --import MODULE COMMAND"
        raise InvalidInput(f"No {what} {name!r} is known. {remedy}.")
    return kind(**{key: _rebuild(value) for key, value in data.items() if key != "class"})


def _rebuild(value: Any) -> Any:
    """Build the configurations in a value of JSON."""
    if isinstance(value, dict):
        return _build(Config, value)
    if isinstance(value, list):
        return [_rebuild(item) for item in value]
    return value
