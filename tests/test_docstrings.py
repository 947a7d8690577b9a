"""Docstrings: every public name and method has the sections that its signature calls for, as ``make docs`` demands it."""

import importlib
import inspect
import pydoc
from functools import cached_property
from pathlib import Path
from types import ModuleType

import pytest
from numpydoc.validate import validate

import klazy as kl

ROOT = Path(__file__).parents[1]


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("reference")


def find_function(member):
    """What a method or property of a class calls, if it is one."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return getattr(member, "__func__", member)


def list_methods(owner):
    """The methods and properties of a public class, by the names under which klazy defines them."""
    found = {}
    for name in dir(owner):
        function = find_function(inspect.getattr_static(owner, name))
        if not name.startswith("_") and inspect.isfunction(function):
            found[f"{function.__module__}.{function.__qualname__}"] = getattr(owner, name)
    return {name: value for name, value in found.items() if name.startswith("klazy.")}


def list_public(reference):
    """Every public name, and every method of a public class, with its object."""
    found = {}
    for name, value in reference.public().items():
        if inspect.isclass(value):
            found |= list_methods(value)
        if callable(value):
            found[name] = value
    return found


def find_faults(name, value, checks):
    """What numpydoc finds; a method without words of its own has those of the method that it overrides."""
    inherits = not inspect.isclass(value) and not value.__doc__ and inspect.getdoc(value)
    found = [] if inherits else validate(name)["errors"]
    return [f"{name}: {code} {text}" for code, text in found if code in checks]


def test_every_public_name_has_its_sections(reference):
    assert {"GL08", "PR01", "PR02", "RT01", "SS03"} <= reference.CHECKS
    public = list_public(reference)
    assert {
        "klazy.run",
        "klazy.live.agent.Agent.observe",
        "klazy.base.config.Config.replace",
    } <= set(public)
    faults = []
    for name, value in public.items():
        if name not in reference.EXEMPT:
            faults += find_faults(name, value, reference.CHECKS)
    assert faults == []


def test_only_protocols_are_exempt(reference):
    public = reference.public()
    assert all(public[name]._is_protocol for name in reference.EXEMPT)


def add(a, b):
    """Add two numbers"""
    return a + b


def test_missing_sections_are_found(reference):
    faults = find_faults(f"{__name__}.add", add, reference.CHECKS)
    assert {fault.split()[1] for fault in faults} == {"PR01", "RT01", "SS03"}


def test_dir_lists_what_users_need_and_nothing_else():
    names = dir(kl)
    assert {"KLazyGD", "auto", "replay", "sweep", "Client", "theory", "__version__"} <= set(names)
    assert not [name for name in names if name.startswith("_") and name != "__version__"]
    modules = [name for name in names if isinstance(getattr(kl, name), ModuleType)]
    assert modules == [
        "arena",
        "contrib",
        "memories",
        "portfolio",
        "sequences",
        "show",
        "theory",
        "types",
    ]


def test_star_imports_work(reference):
    for _, part in reference.PARTS.values():
        exec(f"from klazy.{part} import *", {})


def test_help_on_a_learner_is_about_its_algorithm():
    text = pydoc.plain(pydoc.render_doc(kl.KLazyGD))
    head = text[: text.index("Method resolution order")]
    for words in ("k-lazyGD", r"\bmod k", "Parameters", "The slack", "Examples"):
        assert words in head


def test_signatures_name_array_like_in_short(reference):
    """Written out, NumPy's ArrayLike is a union of seven types, in which the rest of a signature is lost."""
    texts = {}
    for name, value in list_public(reference).items():
        takes_anything = inspect.isclass(value) and issubclass(value, BaseException)
        if callable(value) and not takes_anything:
            texts[name] = str(inspect.signature(value))
    assert "start: 'ArrayLike | None'" in texts["klazy.KLazyGD"]
    assert [name for name, text in texts.items() if "_NestedSequence" in text] == []
