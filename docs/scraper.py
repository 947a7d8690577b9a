"""Figures of the gallery's scripts, for sphinx-gallery: its own scraper asks pyplot, and klazy draws without."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any
from weakref import WeakSet

from matplotlib.figure import Figure

WIDE = 5.0  # inches: panels side by side, which a phone must scroll rather than shrink (site.css)
_drawn: WeakSet[Figure] = WeakSet()  # not the scraper's own, which Sphinx pickles and compares


@dataclass(frozen=True)
class FigureScraper:
    """Writes each figure that a script keeps under a name once, after the block that made it, one below the other.

    ``dpi`` is how many pixels of a page an inch takes; a second file has ``sharp`` times as many dots, for screens that do.
    """

    dpi: int = 120
    sharp: int = 2

    def __call__(self, block: Any, block_vars: Mapping[str, Any], gallery_conf: Mapping[str, Any]) -> str:
        from sphinx_gallery.scrapers import figure_rst

        directives = []
        for name, figure in fresh(block_vars["example_globals"]):
            path = Path(next(block_vars["image_path_iterator"]))
            sharp = path.with_stem(f"{path.stem}_{self.sharp}_00x")
            figure.savefig(path, dpi=self.dpi)
            figure.savefig(sharp, dpi=self.sharp * self.dpi)
            sources: Any = [{0: path, float(self.sharp): sharp}]
            rst = figure_rst([path], gallery_conf["src_dir"], said(name, figure), sources)
            directives.append(
                f".. container:: wide\n\n{indent(rst.strip(), '   ')}\n\n"
                if figure.get_size_inches()[0] > WIDE
                else rst
            )
        return "".join(directives)


def fresh(names: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """The figures among these values that were not seen before, by name.

    Those of pyplot are closed, so that no other scraper writes them again; one that is closed already was written by another.
    """
    for name, figure in list(names.items()):
        if not isinstance(figure, Figure) or figure in _drawn:
            continue
        _drawn.add(figure)
        number = getattr(figure, "number", None)  # which pyplot gives
        if number is None:
            yield name, figure
            continue
        from matplotlib import pyplot

        if pyplot.fignum_exists(number):
            yield name, figure
            pyplot.close(figure)


def said(name: str, figure: Figure) -> str:
    """A figure in words, for those who do not see it: its name, and what its axes show.

    >>> figure = Figure()
    >>> _ = figure.subplots().set(xlabel=r"$\\sigma$", ylabel="total regret")
    >>> said("by_sigma", figure)
    'by sigma: total regret over sigma'
    """
    shown = [
        f"{ax.get_ylabel()} over {ax.get_xlabel()}"
        for ax in figure.axes
        if ax.get_ylabel() and ax.get_xlabel()
    ]
    words = ": ".join(
        [name.strip("_").replace("_", " ") or "figure", *(["; ".join(dict.fromkeys(shown))] if shown else [])]
    )
    return re.sub(r"[$\\{}]", "", words)
