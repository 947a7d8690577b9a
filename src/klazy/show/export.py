"""Figures as files."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")  # else each file would lay it out again
    dpi = figure.dpi
    # Not by savefig, which draws once more, in vain, before it does.
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):
        FigureCanvasSVG(figure).print_svg(stem.with_name(f"{stem.name}.svg"), metadata={"Date": None})
    figure.dpi = dpi  # print_svg has its own
    if not png:
        return
    FigureCanvasAgg(figure).print_png(stem.with_name(f"{stem.name}.png"))
