"""A figure that a notebook shows. It knows those of pyplot by itself, and ours are made without."""

import io

from matplotlib.figure import Figure as Plain

PIXELS = 120  # of a browser to the inch: letters of 8 points are then as large as the text around them


class Figure(Plain):
    """matplotlib's, with a picture for notebooks; where pyplot's own way to show figures is set up, that one is used."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file = io.BytesIO()
        self.savefig(file, format="png")
        width, height = self.get_size_inches()
        return file.getvalue(), {"width": round(PIXELS * width), "height": round(PIXELS * height)}
