"""What one part of the report found: paragraphs, tables and figures, made plain values for :mod:`klazy.studies.results`."""

import shutil
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import InvalidInput
from klazy.base.html import load_environment
from klazy.show.style import make_pdf, make_png, make_svg
from klazy.studies.results import hash_code, make_key

if TYPE_CHECKING:
    from klazy.show import Figure

Row = dict[str, Any]
REPORT_TEXT = tomllib.loads(Path(__file__).with_name("text.toml").read_text(encoding="utf-8"))


@dataclass(eq=False)
class Section:
    """A title, paragraphs, tables of rows, figures with captions, and a note in small print. Figures are as in :class:`Stored`.

    ``words`` are the sentences and captions of its part in text.toml, by name.
    """

    title: str
    words: Mapping[str, str] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, str]] = field(default_factory=dict)
    note: str = ""

    def write(self, name: str, /, **values: Any) -> None:
        """Add a paragraph, with ``values`` filled in."""
        self.text.append(fill(self.words[name], **values))

    def draw(
        self, name: str, figure: "Figure", caption: str = "caption", /, **values: Any
    ) -> None:
        """Add a figure and its caption, with ``values`` filled in."""
        self.captions[name] = fill(self.words[caption], **values)
        forms = {"svg": make_svg(figure, name), "png": make_png(figure), "pdf": make_pdf(figure)}
        self.figures[name] = {form: b64encode(data).decode() for form, data in forms.items()}

    def tabulate(self, table: str, /, **columns: Any) -> list[Row]:
        """Add rows to a table, from columns and from values that all rows share; return the rows."""
        import polars

        rows = polars.DataFrame(columns).to_dicts()
        self.tables.setdefault(table, []).extend(rows)
        return rows

    def to_value(self) -> dict[str, Any]:
        """Return all of it as plain values, from which :class:`Stored` is made."""
        import polars

        tables = {name: polars.DataFrame(rows).to_dicts() for name, rows in self.tables.items()}
        return {name: value for name, value in vars(self).items() if name != "words"} | {
            "tables": tables
        }


@dataclass(frozen=True)
class Stored:
    """A section that was stored, and the folder for its files. Figures are SVG, PNG and PDF, each in base 64."""

    folder: Path
    title: str
    text: list[str]
    tables: dict[str, list[Row]]
    captions: dict[str, str]
    figures: dict[str, dict[str, str]]
    note: str

    def read_figure(self, name: str, form: str = "svg") -> bytes:
        """Return a figure as the bytes of a file."""
        return b64decode(self.figures[name][form])

    def write_files(self) -> None:
        """Write tables and figures as files, in place of all that the folder had before.

        No other process may write there at the same time: the command locks the folder of the reproduction.
        """
        import polars

        folder = self.folder.absolute()
        if folder.parent.is_symlink():
            raise InvalidInput(f"{self.folder.parent} must be a folder, got a link. Remove it.")
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, rows in self.tables.items():
            polars.DataFrame(rows).write_parquet(folder / f"{name}.parquet")
        for name in self.figures:
            for form in ("svg", "png"):
                (folder / f"{name}.{form}").write_bytes(self.read_figure(name, form))


def make_section_key(*inputs: object) -> str:
    """Return the key of a section made from these inputs, by this code and with these words."""
    return make_key(hash_code(), list_versions(), REPORT_TEXT, *inputs)


def list_versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on."""
    return {
        name: version(name)
        for name in ("klazy", "numpy", "scipy", "numba", "matplotlib", "polars")
    }


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
