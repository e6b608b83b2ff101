"""A page as one picture: words, and pictures below each other."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drom_net.core.errors import UsageError
from drom_net.plots.base import TEXT, check_plot_file, save

if TYPE_CHECKING:
    from PIL.Image import Image

_DPI, _INCHES, _MARGIN = 150, 7.4, 24
_LETTERS, _LINE_POINTS = 96, 13.5
"""Of words: a line has so many letters, and is so high."""
Words = tuple[str, float, str]
"""A text, its size in points, its weight."""


def draw_sheet(head: Sequence[Words], pictures: Sequence[tuple[str, Callable[[Path], None]]], path: Path) -> None:
    """Draw words, then pictures with their captions below them.

    Args:
        pictures: (caption, what draws it into a file); one that has nothing to draw is left out.
        path: A PNG.

    Raises:
        UsageError: matplotlib is missing, or nothing can be written there.
    """
    check_plot_file(path)
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        parts = [_words(head, Path(folder) / "head.png")]
        for number, (caption, draw) in enumerate(pictures):
            file = Path(folder) / f"{number}.png"
            with contextlib.suppress(UsageError):
                draw(file)
                parts += [_picture(file), _words([(caption, 8.5, "normal")], Path(folder) / f"{number}-caption.png")]
        width = max(part.width for part in parts) + 2 * _MARGIN
        sheet = Image.new("RGB", (width, sum(part.height for part in parts) + 2 * _MARGIN), "white")
        top = _MARGIN
        for part in parts:
            sheet.paste(part, (_MARGIN, top))
            top += part.height
        sheet.save(path, dpi=(_DPI, _DPI), optimize=True)


def _picture(file: Path) -> Image:
    """As it is at the resolution of the sheet."""
    from PIL import Image

    with Image.open(file) as found:
        scale = _DPI / found.info["dpi"][0]
        size = max(1, round(found.width * scale)), max(1, round(found.height * scale))
        return found.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def _words(words: Sequence[Words], file: Path) -> Image:
    from matplotlib.figure import Figure

    lines = [
        (line, size, weight)
        for text, size, weight in words
        for line in textwrap.wrap(text, int(_LETTERS * 9.0 / size)) or [""]
    ]
    height = sum(_LINE_POINTS * size / 9.0 for _, size, _ in lines) + 8.0
    figure = Figure(figsize=(_INCHES, height / 72.0), facecolor="white")
    top = height - 4.0
    for line, size, weight in lines:
        figure.text(
            *(0.0, top / height), line, fontsize=size, weight=weight, color=TEXT, va="top", ha="left", parse_math=False
        )
        top -= _LINE_POINTS * size / 9.0
    save(figure, file, dpi=_DPI)
    return _picture(file)
