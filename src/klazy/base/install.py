"""Commands that install missing packages, which depend on where this klazy came from."""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import Distribution

# The advice if compiled kernels cannot be stored.
CACHE_REMEDY = "set KLAZY_CACHE_DIR to a folder that only you can write to and that has room"


def advise_install(extra: str) -> str:
    """Return the command that adds an extra to this klazy.

    A klazy from an index is asked for by name. One from a checkout, a wheel or a repository is asked for from there, since an
    index may have another version, or none.

    Parameters
    ----------
    extra : str
        A name among the optional dependencies of pyproject.toml.

    Returns
    -------
    str
        A line for a shell.
    """
    place, is_editable = find_origin()
    wanted = f"{place or 'klazy'}[{extra}]"
    if place is not None and "://" in place:
        wanted = f"klazy[{extra}] @ {place}"
    option = "--editable " if is_editable else ""
    return f"pip install {option}{shlex.quote(wanted)}"


class MissingPackage(ImportError):
    """Raised when a package of an extra is not installed; the message says how to install it."""


def make_missing(
    owner: str, package: str | None, extra: str, *, verb: str = "needs"
) -> MissingPackage:
    """Make the error for a missing package, with the command that installs it."""
    return MissingPackage(
        f"{owner} {verb} {package}, which is not installed. Run: {advise_install(extra)}"
    )


@contextmanager
def explain_missing(owner: str, package: str, extra: str) -> Iterator[None]:
    """Say which extra has the package, if an import in this block fails."""
    try:
        yield
    except ImportError as missing:
        raise make_missing(owner, package, extra) from missing


def import_later(module: str, name: str, later: Mapping[str, tuple[str, str]]) -> Any:
    """Import a name of a module on first use, because it is large or needs more packages.

    Parameters
    ----------
    module : str
        The module that should have the name.
    name : str
        The name.
    later : mapping
        Where each such name is, as ``pkgutil.resolve_name`` takes it, and the extra that it needs.

    Returns
    -------
    object
        The object of this name.

    Raises
    ------
    AttributeError
        If there is no such name.
    MissingPackage
        If the extra is not installed.
    """
    if name not in later:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    from pkgutil import resolve_name

    place, extra = later[name]
    try:
        return resolve_name(place)
    except ModuleNotFoundError as missing:
        raise make_missing(name, missing.name, extra) from missing


@cache
def find_origin() -> tuple[str | None, bool]:
    """Return where klazy was installed from, None for an index; and True if it runs from the files there.

    A folder is a path, everything else a URL.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return read_origin(distribution("klazy"))
    except PackageNotFoundError:
        checkout = Path(__file__).parents[3]
        if (checkout / "pyproject.toml").is_file():
            return str(checkout), True
        return None, False


def read_origin(installed: "Distribution") -> tuple[str | None, bool]:
    """Read the origin of an installed distribution from direct_url.json (PEP 610)."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    text = installed.read_text("direct_url.json")
    if text is None:
        return None, False
    origin = json.loads(text)
    address = origin["url"]
    if "dir_info" in origin:
        return url2pathname(urlsplit(address).path), origin["dir_info"].get("editable", False)
    if "vcs_info" in origin:
        source = origin["vcs_info"]
        return f"{source['vcs']}+{address}@{source['commit_id']}", False
    return address, False
