"""The API reference: a page for each part of the library, made from its public names, and a warning for any that is missing."""

import inspect
from collections.abc import Container
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from numpydoc.xref import DEFAULT_LINKS
from sphinx.util import logging

import klazy

PARTS = {  # a page each: its title, and the module whose names it has
    "game": ("Playing and regret", "game"),
    "learners": ("Learners", "learners"),
    "memories": ("Memories of MemoryGD", "memories"),
    "sets": ("Sets", "sets"),
    "costs": ("Costs", "costs"),
    "families": ("Cost families", "families"),
    "movement": ("What moving costs", "movement"),
    "schedules": ("Schedules of sigma", "schedules"),
    "live": ("Live agents", "live"),
    "serve": ("Talking to a service", "serve"),
    "sources": ("Sources of rows", "sources"),
    "sinks": ("Sinks of decisions", "sinks"),
    "hindsight": ("Hindsight", "hindsight"),
    "theory": ("Theory", "theory"),
    "contrib": ("Research learners and baselines", "contrib"),
    "types": ("Base classes and types", "types"),
    "sequences": ("Sequences", "sequences"),
    "sweep": ("Sweeps", "studies.sweep"),
    "replay": ("Replay", "studies.replay"),
    "arena": ("Arena", "studies.arena"),
    "portfolio": ("Back-tests of portfolios", "studies.portfolio"),
    "skfolio": ("Optimizers for skfolio", "adapters.skfolio"),
    "tuning": ("Tuning", "studies.tuning"),
    "datasets": ("Data", "datasets"),
    "paper": ("The paper's experiments", "studies.paper"),
    "show": ("Figures", "show"),
}
# What numpydoc must not find: an object without words (GL08), a parameter that is not documented (PR01) or is not there (PR02),
# no Returns (RT01), a summary without a full stop (SS03).
CHECKS = {"GL08", "PR01", "PR02", "RT01", "SS03"}
EXEMPT = (
    "klazy.types.State",
    "klazy.studies.tuning.Player",
    "klazy.sources.RowSource",
    "klazy.sinks.Sink",
)  # protocols, which nobody makes: they have no parameters
log = logging.getLogger(__name__)


def public() -> dict[str, Any]:
    """Every public object by its full name: those of klazy itself, then those that only a part of it exports."""
    named = {
        f"klazy.{name}": getattr(klazy, name) for name in dir(klazy) if not name.startswith("_")
    }
    found = {name: value for name, value in named.items() if not isinstance(value, ModuleType)}
    for module in (import_module(f"klazy.{name}") for _, name in PARTS.values()):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if getattr(klazy, name, None) is not value:
                found[f"{module.__name__}.{name}"] = value
    return found


def list_types() -> dict[str, str]:
    """The full name of each public class, by the name that stands in docstrings; Python's own types are left as they are."""
    named: dict[str, set[str]] = {}
    for name, value in public().items():
        if inspect.isclass(value):
            named.setdefault(value.__name__, set()).add(name)
    types = {name: name for name in DEFAULT_LINKS}
    return types | {short: full.pop() for short, full in named.items() if len(full) == 1}


def home(name: str, value: Any) -> str:
    """The part of klazy that has an object on its page: the public module in its name, or where it comes from."""
    module = f"{name.rpartition('.')[0]}."
    if module == "klazy.":
        module = f"{value.__module__}."
    parts = [part for _, part in PARTS.values() if module.startswith(f"klazy.{part}.")]
    return max(parts, key=len, default="")


def directive(name: str, value: Any) -> str:
    """What documents one object."""
    if not inspect.isclass(value):
        return (
            f".. autofunction:: {name}\n"
            if callable(value)
            else f".. autodata:: {name}\n   :no-value:\n"
        )
    hidden: list[str] = [
        *getattr(value, "_fields", ())
    ]  # of a named tuple, whose own words for them are empty
    for key, member in vars(value).items():
        if inspect.isfunction(member) and member.__qualname__ != f"{value.__qualname__}.{key}":
            hidden.append(key)  # the default of a base class, which has it on its own page
    excluded = f"   :exclude-members: {', '.join(hidden)}\n" if hidden else ""
    bases = value.__mro__[1:-1]
    # What a base class without a page has is shown with the class itself.
    has_own = bool(bases) and all(base.__module__.startswith("klazy.") for base in bases)
    inherited = (
        "   :inherited-members:\n" if has_own and not set(bases) & set(_list_classes()) else ""
    )
    return f".. autoclass:: {name}\n   :members:\n{inherited}{excluded}"


def _list_classes() -> list[type]:
    """All public classes."""
    return [value for value in public().values() if inspect.isclass(value)]


def page(title: str, part: str) -> str:
    """One part: what it is, its names in a table, and each in full."""
    words = inspect.getdoc(import_module(f"klazy.{part}")) or ""
    objects = {name: value for name, value in public().items() if home(name, value) == part}
    scope = min((name.rpartition(".")[0] for name in objects), key=len)
    table = "".join(f"   ~{name.removeprefix(f'{scope}.')}\n" for name in objects)
    body = "\n".join(directive(name, value) for name, value in objects.items())
    head = f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: {scope}\n\n{words}"
    return f"{head}\n\n.. autosummary::\n   :nosignatures:\n\n{table}\n{body}"


def write_pages(app: Any) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for name, part in PARTS.items():
        file = folder / f"{name}.rst"
        text = page(*part)
        changed = not file.exists() or file.read_text(encoding="utf-8") != text
        if changed:  # a page that has not changed is not read again
            file.write_text(text, encoding="utf-8")


def missing(known: Container[str]) -> list[str]:
    """The public names that are not among those documented."""
    return [name for name in public() if name not in known]


def find_place(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """Lead a name without its module to the one public place that has it."""
    if node.get("refdomain") != "py":
        return None
    short, _, member = node["reftarget"].partition(".")
    places = [name for name in public() if name.rpartition(".")[2] == short]
    if len(places) != 1:
        return None
    target = f"{places[0]}.{member}".rstrip(".")
    domain = env.get_domain("py")
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], target, node, shown
    )


def check_names(app: Any, env: Any) -> None:
    for name in missing(env.get_domain("py").objects):
        log.warning(
            "%s is public and in no page of the reference; give its module a page in docs/reference.py",
            name,
        )


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("env-check-consistency", check_names)
    app.connect("missing-reference", find_place)
    return {"parallel_read_safe": True}
