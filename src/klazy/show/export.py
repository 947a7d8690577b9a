"""Figures as files."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def make_svg(figure: "Figure", name: str) -> bytes:
    """Return a figure as SVG; the same figure and name give the same bytes on any day."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")  # else each file would lay it out again
    dpi = figure.dpi
    file = BytesIO()
    # Not by savefig, which draws once more, in vain, before it does.
    with matplotlib.rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
    figure.dpi = dpi  # print_svg has its own
    return file.getvalue()


def write_figure(figure: "Figure", stem: Path, *, png: bool = True) -> None:
    """Write a figure to files; the same figure gives the same bytes on any day.

    Parameters
    ----------
    figure : Figure
        A matplotlib figure.
    stem : Path
        The files, without their endings.
    png : bool, optional
        Write ``stem.png`` beside ``stem.svg``. Default: True.
    """
    stem.with_name(f"{stem.name}.svg").write_bytes(make_svg(figure, stem.name))
    if not png:
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).print_png(stem.with_name(f"{stem.name}.png"))
