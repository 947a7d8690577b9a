"""A figure that notebooks show, though it was made without pyplot."""

import io
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure as PlainFigure

# Pixels of a browser per inch: letters of 8 points are then as large as the text around them.
BROWSER_DPI = 120


class Figure(PlainFigure):
    """A matplotlib figure with a picture for notebooks; where pyplot shows figures in its own way, that one is used."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure as matplotlib does, but the letters of a PDF as TrueType: many journals refuse others."""
        with rc_context({"pdf.fonttype": 42}):
            super().savefig(fname, **options)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file = io.BytesIO()
        self.savefig(file, format="png")
        width, height = self.get_size_inches()
        return file.getvalue(), {
            "width": round(BROWSER_DPI * width),
            "height": round(BROWSER_DPI * height),
        }
