"""Small pictures: PNG files with a palette of their own take a third of the bytes of full colour.

`python -m anytimebp_evaluation.pictures FILE...` rewrites pictures that others have made.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from anytimebp.formats.whole_file import whole_file

COLOURS = 128
FIGURE, SHADES = Image.Quantize.MAXCOVERAGE, Image.Quantize.MEDIANCUT  # many colours in thin areas; smooth shades


def save_figure(figure: Figure, path: Path, dpi: float) -> None:
    """Write a figure."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    _save(Image.open(drawn), path, FIGURE)


def _save(picture: Image.Image, path: Path, method: Image.Quantize) -> None:
    few = picture.convert("RGB").quantize(COLOURS, method=method, kmeans=1, dither=Image.Dither.NONE)
    with whole_file(path) as file:
        few.save(file, "PNG", optimize=True)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _save(Image.open(name), Path(name), SHADES)
