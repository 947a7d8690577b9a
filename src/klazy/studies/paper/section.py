"""What one part of the report found, and how it is stored: paragraphs, tables as Parquet, figures as SVG and PNG."""

import hashlib
import json
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import refusal
from klazy.base.files import hash_sources, write_durably
from klazy.base.html import load_environment

if TYPE_CHECKING:
    from klazy.show import Figure

Row = dict[str, Any]
# The code that makes the numbers, and the text around them.
KLAZY_FOLDER = Path(__file__).parents[2]
TEXT_FILE = Path(__file__).with_name("text.toml")
REPORT_TEXT = tomllib.loads(TEXT_FILE.read_text(encoding="utf-8"))
SECTION_FILE = "section.json"


@dataclass(eq=False)
class Section:
    """A title, paragraphs, tables of rows, figures with captions, and a note in small print.

    ``words`` are the sentences and captions of its part in text.toml, by name.
    """

    title: str
    words: Mapping[str, str] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    figures: "dict[str, tuple[Figure, str]]" = field(default_factory=dict)
    note: str = ""

    def write(self, name: str, /, **values: Any) -> None:
        """Add a paragraph, with ``values`` filled in."""
        self.text.append(fill(self.words[name], **values))

    def draw(self, name: str, figure: "Figure", caption: str = "caption", /, **values: Any) -> None:
        """Add a figure and its caption, with ``values`` filled in."""
        self.figures[name] = (figure, fill(self.words[caption], **values))

    def tabulate(self, table: str, /, **columns: Any) -> list[Row]:
        """Add rows to a table, from columns and from values that all rows share; return the rows."""
        import polars

        rows = polars.DataFrame(columns).to_dicts()
        self.tables.setdefault(table, []).extend(rows)
        return rows


@dataclass(frozen=True)
class Stored:
    """A section on disk; ``key`` identifies everything that it was made from."""

    folder: Path
    key: str
    title: str
    text: list[str]
    tables: dict[str, list[Row]]
    captions: dict[str, str]
    note: str

    def figure_path(self, name: str, form: str = "svg") -> Path:
        return self.folder / f"{name}.{form}"


def save_section(section: Section, folder: Path, key: str) -> None:
    """Write a section in place of what ``folder`` had before; it counts as missing until its last file, section.json, is there.

    No other process may write there at the same time: the command locks the folder of the reproduction.
    """
    import polars

    if folder.parent.is_symlink():
        raise refusal("reproduce", "folders of its own", "folder", folder.parent, "remove that link")
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, rows in section.tables.items():
        polars.DataFrame(rows).write_parquet(folder.absolute() / f"{name}.parquet")
    for name, (figure, _) in section.figures.items():
        show.write_figure(figure, folder / name)
    captions = {name: caption for name, (_, caption) in section.figures.items()}
    words = {"key": key, "title": section.title, "text": section.text, "note": section.note}
    about = words | {"tables": list(section.tables), "captions": captions}
    write_durably(folder / SECTION_FILE, json.dumps(about, indent=1).encode())


def load_section(folder: Path) -> Stored:
    """Read the section in a folder."""
    import polars

    about = json.loads((folder / SECTION_FILE).read_text(encoding="utf-8"))
    tables = {}
    for name in about.pop("tables"):
        file = folder / f"{name}.parquet"
        tables[name] = polars.read_parquet(file.read_bytes()).to_dicts()
    return Stored(folder, tables=tables, **about)


def is_fresh(folder: Path, key: str) -> bool:
    """Return True if ``folder`` has a section made from what ``key`` identifies."""
    from polars.exceptions import PolarsError

    unreadable = (OSError, ValueError, KeyError, TypeError, AttributeError, PolarsError)
    try:
        return load_section(folder).key == key
    except unreadable:
        return False


def make_section_key(*inputs: object) -> str:
    """Return a hash of the inputs and of all code that turns them into results."""
    return hashlib.sha256(json.dumps([inputs, list_versions(), _hash_sources()]).encode()).hexdigest()


def list_versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on."""
    return {name: version(name) for name in ("klazy", "numpy", "scipy", "numba", "matplotlib", "polars")}


@cache
def _hash_sources() -> str:
    """Return a hash of klazy's own files."""
    return hash_sources(KLAZY_FOLDER, TEXT_FILE)


def fill(template: str, **values: Any) -> str:
    """Fill in a template of text.toml, which may also use the columns of ``rows``, as ``c``."""
    if values.get("rows"):
        values["c"] = list_columns(values["rows"])
    words = " ".join(template.split())
    return _make_environment().from_string(words).render(values)


def list_columns(rows: list[Row]) -> dict[str, Any]:
    """Return the columns of a table, as arrays."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@cache
def _make_environment() -> Any:
    """Return klazy's environment with two more filters; pages escape the text when they show it."""
    environment = load_environment().overlay(autoescape=False)
    environment.filters = environment.filters | {"f": format, "gap": _describe_gap}
    return environment


def _describe_gap(value: float, than: float) -> str:
    """Say how much less or more: in per cent if both are positive, else as a number, for regret may be negative."""
    if min(value, than) > 0.0:
        gap = 100.0 * (1.0 - value / than)
        size = f"{abs(gap):.1f}%"
    else:
        gap = than - value
        size = f"{abs(gap):.4g}"
    word = "less" if gap >= 0.0 else "more"
    return f"{size} {word}"
