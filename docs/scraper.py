"""Figures of the gallery's scripts, for sphinx-gallery: its own scraper asks pyplot, and klazy draws without."""

import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any
from weakref import WeakSet

from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

CARD = (4.0, 2.8)  # inches of a card in the gallery, which is shown half as large as a figure
CARD_DPI = 100
CARD_POINTS = 14
WIDE = 5.0  # inches: panels side by side, which a phone must scroll rather than shrink (site.css)
_drawn: WeakSet[Figure] = WeakSet()  # not the scraper's own, which Sphinx pickles and compares


@dataclass(frozen=True)
class FigureScraper:
    """Writes each figure that a script keeps under a name once, after the block that made it, one below the other.

    ``dpi`` is how many pixels of a page an inch takes; a second file has ``sharp`` times as many dots, for screens that do.
    """

    dpi: int = 120
    sharp: int = 2

    def __call__(
        self, block: Any, block_vars: Mapping[str, Any], gallery_conf: Mapping[str, Any]
    ) -> str:
        from sphinx_gallery.scrapers import figure_rst

        directives = []
        for name, figure in fresh(block_vars["example_globals"]):
            # Before each figure comes its card, which the page does not show. The gallery takes the first picture of a
            # script, or the one whose number the script names.
            draw_card(figure).savefig(next(block_vars["image_path_iterator"]), dpi=CARD_DPI)
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


def draw_card(figure: Figure) -> Figure:
    """The first panel of a figure, with letters and lines that can be read at the size of a card.

    >>> figure = Figure(figsize=(7, 3))
    >>> above, below = figure.subplots(2)
    >>> card = draw_card(figure)
    >>> len(card.axes), len(figure.axes), float(card.get_figwidth())
    (1, 2, 4.0)
    """
    card = pickle.loads(pickle.dumps(figure))
    first, *others = card.axes
    for part in (*others, *card.legends, *card.texts):
        part.remove()
    card.set_size_inches(CARD)
    card.set_layout_engine("constrained")
    first.set_subplotspec(GridSpec(1, 1, figure=card)[0, 0])
    first.set_title("")
    first.tick_params(labelsize=CARD_POINTS - 3)
    first.tick_params(labelbottom=True, labelleft=True)
    for label in (first.xaxis.label, first.yaxis.label):
        label.set_fontsize(CARD_POINTS)
    for text in first.texts:
        text.set_fontsize(CARD_POINTS - 3)
    for line in first.lines:
        line.set_linewidth(max(line.get_linewidth(), 2.0))
    legend = first.get_legend()
    if legend is not None:
        for text in legend.get_texts():
            text.set_fontsize(CARD_POINTS - 3)
    return card


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
        [
            name.strip("_").replace("_", " ") or "figure",
            *(["; ".join(dict.fromkeys(shown))] if shown else []),
        ]
    )
    return re.sub(r"[$\\{}]", "", words)
