"""Tables of results for papers and other programs: CSV, LaTeX and pandas, and figures as files."""

import csv
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klazy.base.files import write_durably

if TYPE_CHECKING:
    from pandas import DataFrame

# Numbers from here on are written with a power of ten.
MOST_PLAIN = 1e6
# The columns of words in tables that are written as text.
TEXT_COLUMNS = ("contender", "chosen", "at grid limit", "portfolio", "kind")
# What LaTeX reads as commands.
_ESCAPED = {letter: f"\\{letter}" for letter in "&%$#_{}"}
_ESCAPED |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX_ESCAPES = str.maketrans(_ESCAPED | {"<": r"\textless{}", ">": r"\textgreater{}"})


class Tabular(ABC):
    """Results with a table and a figure: what a paper or another program takes of them."""

    @abstractmethod
    def list_rows(self) -> list[dict[str, Any]]:
        """List the rows of the table.

        Returns
        -------
        list of dict
            The cells of each row by the names of the columns, numbers with all digits.
        """

    @abstractmethod
    def plot(self) -> Any:
        """Draw it."""

    def to_pandas(self) -> "DataFrame":
        """Convert the table to a pandas frame, where pandas is installed.

        Returns
        -------
        pandas.DataFrame
            The table.
        """
        from pandas import DataFrame

        return DataFrame(self.list_rows())

    def to_csv(self, path: str | Path | None = None) -> str:
        """Write the table as CSV, with all digits.

        Parameters
        ----------
        path : str or Path, optional
            The file to write. Default: none.

        Returns
        -------
        str
            The text.
        """
        return _write(write_csv(self.list_rows()), path)

    def to_latex(self, path: str | Path | None = None, *, digits: int = 4) -> str:
        """Write the table for LaTeX, which needs the package booktabs.

        Parameters
        ----------
        path : str or Path, optional
            The file to write. Default: none.
        digits : int, optional
            Significant digits of numbers. Default: 4.

        Returns
        -------
        str
            The text, a ``tabular``.
        """
        return _write(write_latex(self.list_rows(), digits), path)

    def savefig(self, path: str | Path, **options: Any) -> None:
        """Write the figure to a file.

        Parameters
        ----------
        path : str or Path
            The file; its ending says which kind: ``.pdf``, ``.svg``, ``.png``.
        **options
            What the method ``plot`` takes.
        """
        self.plot(**options).savefig(path)


def write_plainly(rows: Sequence[dict[str, Any]]) -> str:
    """Write a table as text: words to the left, numbers to the right."""
    columns = []
    for name in rows[0]:
        cells = [name, *("" if row[name] is None else str(row[name]) for row in rows)]
        width = max(map(len, cells))
        is_text = name in TEXT_COLUMNS
        columns.append([cell.ljust(width) if is_text else cell.rjust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def write_for_papers(
    out: Path, tables: Mapping[str, Sequence[dict[str, Any]]], figures: Mapping[str, bytes]
) -> None:
    """Write ``out/tables/*.tex`` and ``*.csv``, and figures, which are PDF already, as ``out/figures/*.pdf``."""
    files: dict[Path, bytes] = {}
    for name, rows in tables.items():
        files[out / "tables" / f"{name}.tex"] = write_latex(rows).encode()
        files[out / "tables" / f"{name}.csv"] = write_csv(rows).encode()
    for name, data in figures.items():
        files[out / "figures" / f"{name}.pdf"] = data
    for file, data in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        # A link is replaced, and its target stays as it is.
        file.unlink(missing_ok=True)
        file.write_bytes(data)


def write_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as CSV; None is an empty cell."""
    file = io.StringIO()
    if rows:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return file.getvalue()


def write_latex(rows: Sequence[dict[str, Any]], digits: int = 4) -> str:
    """Return rows as a ``tabular`` of the package booktabs; columns of numbers are aligned to the right."""
    if not rows:
        return ""
    names = list(rows[0])
    sides = ""
    for name in names:
        cells = [row[name] for row in rows if row[name] is not None]
        sides += "r" if all(isinstance(cell, int | float) for cell in cells) else "l"
    head = [_escape(name.replace("_", " ")) for name in names]
    body = [[_format_latex(row[name], digits) for name in names] for row in rows]
    lines = [" & ".join(cells) + r" \\" for cells in (head, *body)]
    opening = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", lines[0], r"\midrule"]
    return "\n".join([*opening, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def _format_latex(cell: Any, digits: int) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "--"
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return _escape(str(cell))
    if isinstance(cell, int):
        return f"${cell}$"
    if math.isinf(cell):
        return r"$\infty$" if cell > 0.0 else r"$-\infty$"
    text = f"{cell:.{digits}g}"
    if MOST_PLAIN > abs(cell) >= 1.0:
        text = f"{float(text):.{max(digits, 6)}g}"
    mantissa, _, power = text.partition("e")
    return rf"${mantissa} \cdot 10^{{{int(power)}}}$" if power else f"${mantissa}$"


def _escape(text: str) -> str:
    return " ".join(text.split()).translate(_LATEX_ESCAPES)


def _write(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_durably(Path(path), text.encode())
    return text
