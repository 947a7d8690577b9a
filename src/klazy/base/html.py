"""Pages and notebook cards, rendered from the Jinja2 templates in ``klazy/templates`` with one stylesheet.

``render`` fills in a page, ``load_macros`` gives the parts that cards are made of. The scripts of pages are in
``klazy/static``: a report has them inside, the service serves them. Cards run no script. A notebook that is not trusted drops
style and pictures of a card; the rest still reads well.
"""

import base64
import re
from collections.abc import Callable
from functools import cache, wraps
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from klazy.base.amounts import format_amount
from klazy.base.install import explain_missing

NUMERIC = re.compile(r"[-+]?[\d.,]+( ?[kMG%])?")


def render(template: str, **values: Any) -> str:
    """Return a template with these values filled in and escaped."""
    return load_environment().get_template(template).render(values)


def load_macros() -> Any:
    """Return the macros of ``macros.html`` as functions that return escaped HTML."""
    return load_environment().get_template("macros.html").module


def show_card(make: Callable[[Any], str]) -> Callable[[Any], str | None]:
    """Make a ``_repr_html_`` return None where Jinja2 is not installed, so that notebooks show the repr."""

    @wraps(make)
    def show(self: Any) -> str | None:
        if find_spec("jinja2") is None:
            return None
        return str(make(self))

    return show


@cache
def load_environment() -> Any:
    """Return the one environment of all templates."""
    with explain_missing("page", "jinja2", "cli"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    environment = Environment(
        loader=PackageLoader("klazy"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": format_number,
        "amount": format_amount,
        "cell": _format_cell,
        "base64": _encode,
    }
    environment.tests["word"] = _is_word
    environment.globals |= {"style": _make_style, "script": read_static}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


@cache
def read_static(name: str) -> str:
    """Return a file that pages use as it is."""
    return files("klazy").joinpath("static", name).read_text("utf-8")


def format_number(value: float, digits: int = 5) -> str:
    """Return a number with this many significant digits."""
    return f"{value:.{digits}g}"


def _format_cell(value: Any, digits: int, decimals: int | None) -> str:
    """Return the text of a table's cell."""
    if value is None:
        return ""
    if isinstance(value, float):
        return format_number(value, digits) if decimals is None else f"{value:.{decimals}f}"
    return str(value)


def _is_word(value: object) -> bool:
    """Return True if a column that begins with this value is aligned to the left."""
    return isinstance(value, str) and not NUMERIC.fullmatch(value)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@cache
def _make_style(scope: str) -> str:
    """Return the stylesheet of pages or, with a ``scope``, the rules of cards within elements that this selects."""
    return render("style.css", scope=scope)
