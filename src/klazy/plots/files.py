"""Figures as files."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(figure: "Figure", stem: Path) -> None:
    """The figure as ``stem.svg`` and ``stem.png``; the same figure gives the same bytes on any day."""
    import matplotlib

    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # else each file would lay it out again
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):
        figure.savefig(stem.with_name(f"{stem.name}.svg"), metadata={"Date": None})
    figure.savefig(stem.with_name(f"{stem.name}.png"))
