"""Which sites' models look alike, as a map of cosines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drom_net.algorithms.features import Matrix
from drom_net.plots.base import EDGE, NAME_LIMIT, TEXT, check_plot_file, save

_CELL_POINTS, _NUMBERS_UP_TO = 26.0, 12


def draw_relatedness(names: Sequence[str], similarity: Matrix, path: Path) -> None:
    """Draw the cosines of sites' models, from -1 (orange) by 0 (white) to 1 (blue); with numbers where they are few.

    Args:
        names: In the order of the rows of `similarity`.
        path: PNG or SVG by its suffix.

    Raises:
        UsageError: matplotlib is missing, or the suffix is another.
    """
    check_plot_file(path)
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    count, few = len(names), len(names) <= _NUMBERS_UP_TO
    cell = _CELL_POINTS if few else max(9.0, 380.0 / count)
    shown = [name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 1]}…" for name in names]
    margin = 14.0 + 4.6 * max(map(len, shown))
    side = cell * count
    width, height = margin + side + 70.0, margin + side + 10.0
    figure = Figure(figsize=(width / 72.0, height / 72.0), facecolor="white")
    axes = figure.add_axes((margin / width, margin / height, side / width, side / height))
    colors = LinearSegmentedColormap.from_list("cosines", ["#b35806", "#f1a340", "#ffffff", "#67a9cf", "#0571b0"])
    image = axes.pcolormesh(similarity[::-1], cmap=colors, vmin=-1.0, vmax=1.0, edgecolors="0.9", linewidth=0.3)
    places = [place + 0.5 for place in range(count)]
    axes.set_xticks(places, shown, rotation=90, fontsize=7.5 if few else 6, color=TEXT, parse_math=False)
    axes.set_yticks(places, shown[::-1], fontsize=7.5 if few else 6, color=TEXT, parse_math=False)
    axes.tick_params(length=0.0)
    for spine in axes.spines.values():
        spine.set_color(EDGE)
    for row in range(count if few else 0):
        for column in range(count):
            value = float(similarity[row, column])
            ink = "white" if abs(value) > 0.75 else TEXT
            text = f"{value:.2f}"
            axes.text(column + 0.5, count - row - 0.5, text, ha="center", va="center", fontsize=6.5, color=ink)
    bar = figure.colorbar(
        image, cax=figure.add_axes(((margin + side + 14.0) / width, margin / height, 9.0 / width, side / height))
    )
    bar.ax.tick_params(labelsize=7, color=EDGE, labelcolor=TEXT)
    bar.set_label("cosine", fontsize=7.5, color=TEXT)
    save(figure, path)
