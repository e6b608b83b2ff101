"""The panels of a report: curves, points and guides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drom_net.plots.base import EDGE, PRINT_DPI, TEXT, as_plain_text, check_plot_file, save
from drom_net.results.report import Panel, Picture, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_COLUMN_INCHES, PAGE_INCHES, _PANEL_INCHES = 3.4, 7.0, 2.15  # of a two-column page; a panel's height
_SERIES_STYLES: tuple[tuple[str, str | tuple[float, tuple[float, ...]], str], ...] = (
    # Colour, dashes, marker; colours differ in lightness too, so that the first few are told apart in grey.
    ("#000000", "solid", "o"),
    ("#d55e00", (0.0, (5.0, 1.5)), "s"),
    ("#0072b2", (0.0, (1.2, 1.2)), "^"),
    ("#009e73", (0.0, (5.0, 1.5, 1.2, 1.5)), "D"),
    ("#cc79a7", (0.0, (8.0, 2.0)), "v"),
    ("#8a6d00", (0.0, (3.0, 1.2, 1.0, 1.2, 1.0, 1.2)), "P"),
    ("#56b4e9", (0.0, (2.5, 1.0)), "X"),
    ("#7f7f7f", "solid", "<"),
    ("#e69f00", (0.0, (1.0, 2.2)), ">"),
    ("#5b2a86", (0.0, (7.0, 1.5, 2.5, 1.5)), "*"),
    ("#004d40", (0.0, (2.0, 3.0)), "p"),
    ("#a05000", "solid", "h"),
    ("#c00000", (0.0, (9.0, 1.5, 1.0, 1.5)), "d"),
)
_REFERENCE_STYLES = ((0.0, (6.0, 3.0)), (0.0, (1.0, 2.0)))
_GUIDE_STYLES: tuple[tuple[float, tuple[float, ...]], ...] = (
    (0.0, (6.0, 2.0)),
    (0.0, (3.0, 2.0)),
    (0.0, (1.0, 1.5)),
)
_MARKERS_A_LINE = 6
_LEGEND_COLUMNS = 6
_LEGEND_HANDLE_INCHES, _LETTER_INCHES = 0.68, 0.064  # of the legend: a handle with its gaps, a letter
_FEW_TICKS, _FEW_DECADES, _FEW_DECADES_ACROSS = 6, 300.0, 60.0


def draw_picture(picture: Picture, path: Path) -> None:
    """Draw panels row by row with one legend, as wide as a column of a two-column page, or as the page.

    The same label has one style in all panels.

    Args:
        path: PNG or SVG by its suffix.

    Raises:
        UsageError: matplotlib is missing, or the suffix is another.
    """
    check_plot_file(path)
    from matplotlib.figure import Figure

    rows = -(-len(picture.panels) // picture.columns)
    width = _COLUMN_INCHES if picture.columns == 1 else PAGE_INCHES
    labels = list(dict.fromkeys(series.label for panel in picture.panels for series in panel.series))
    references = dict.fromkeys(reference.label for panel in picture.panels for reference in panel.references)
    legend_columns = _columns_that_fit([*labels, *references], width)
    # Long names under the points take room of their own.
    names = max((len(name) for panel in picture.panels for name in panel.ticks), default=0)
    legend_rows = -(-(len(labels) + len(references)) // legend_columns)
    height = rows * (_PANEL_INCHES + 0.045 * names) + 0.16 * legend_rows + 0.1
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    grid = figure.subplots(rows, picture.columns, squeeze=False).ravel()
    handles: dict[str, object] = {}
    reference_handles: dict[str, object] = {}
    for axes, panel in zip(grid, picture.panels, strict=False):
        _draw_panel(axes, panel, labels, handles, reference_handles)
    handles |= reference_handles
    for axes in grid[len(picture.panels) :]:
        axes.set_axis_off()
    legend = figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside upper center",
        ncols=legend_columns,
        fontsize=7,
        frameon=False,
        handlelength=3.6,
        columnspacing=1.4,
    )
    as_plain_text(legend)
    save(figure, path, dpi=PRINT_DPI)


def _draw_panel(
    axes: Axes,
    panel: Panel,
    labels: Sequence[str],
    handles: dict[str, object],
    reference_handles: dict[str, object],
) -> None:
    """One pair of axes; what a legend needs goes into the two last, by label."""
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for reference, dashes in zip(panel.references, _REFERENCE_STYLES * len(panel.references), strict=False):
        line = axes.axhline(reference.y, color="0.45", linewidth=0.9, linestyle=dashes, zorder=1)
        reference_handles.setdefault(reference.label, line)
    guides = 0
    for series in panel.series:
        place = labels.index(series.label)
        if series.guide:
            (line,) = axes.plot(series.x, series.y, color="0.55", linewidth=0.8, linestyle=_GUIDE_STYLES[guides % 3])
            guides += 1
            reference_handles.setdefault(series.label, line)
            continue
        drawn = _draw_points(axes, series, place) if panel.points else _draw_line(axes, series, place, len(labels))
        handles.setdefault(series.label, drawn)
    if panel.points:
        last = len(panel.ticks)
        axes.set_xlim(-0.6, last - 0.4)
        turned = max(map(len, panel.ticks), default=0) * last > 40
        axes.set_xticks(range(last), panel.ticks, parse_math=False)
        if turned:
            for label in axes.get_xticklabels():
                label.set(rotation=45.0, horizontalalignment="right", rotation_mode="anchor")
    if panel.log_x:
        _label_logarithmic(axes.xaxis, _FEW_DECADES_ACROSS, sorted({x for series in panel.series for x in series.x}))
    if panel.log_y:
        _label_logarithmic(axes.yaxis, _FEW_DECADES, sorted({y for series in panel.series for y in series.y}))
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    axes.set_title(panel.title, fontsize=8, color=TEXT, parse_math=False)
    axes.set_xlabel(panel.x_label, fontsize=7.5, color=TEXT, parse_math=False)
    axes.set_ylabel(panel.y_label, fontsize=7.5, color=TEXT, parse_math=False)
    axes.tick_params(labelsize=7, color=EDGE, labelcolor=TEXT, length=2.5)
    axes.grid(color="0.9", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(EDGE)


def _columns_that_fit(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend, filled one after the other, are at most so many inches wide."""
    for columns in range(min(_LEGEND_COLUMNS, len(labels)), 1, -1):
        rows = -(-len(labels) // columns)
        longest = [max(map(len, labels[first : first + rows])) for first in range(0, len(labels), rows)]
        if sum(_LEGEND_HANDLE_INCHES + _LETTER_INCHES * letters for letters in longest) <= width:
            return columns
    return 1


def _label_logarithmic(axis: Axis, few_decades: float, values: Sequence[float]) -> None:
    """Name the values themselves where they are few, else powers of ten, or within few decades their parts."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    if len(values) <= _FEW_TICKS:
        axis.set_major_locator(FixedLocator(list(values)))
    elif values[-1] < few_decades * values[0]:
        axis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0)))
    else:
        axis.set_major_locator(LogLocator(base=10.0))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short_number(value)))


def _short_number(value: float) -> str:
    """1024 as 1024, 16384 as 16k, 0.001 as 0.001."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:.3g}k" if value >= 1e4 else f"{value:g}"


def _draw_line(axes: Axes, series: Series, place: int, num_series: int) -> object:
    color, dashes, marker = _SERIES_STYLES[place % len(_SERIES_STYLES)]
    # Few markers, and those of different lines beside each other.
    every = max(1, len(series.x) // _MARKERS_A_LINE)
    first = (place * every // max(1, num_series)) if every > 1 else 0
    if series.low is not None and series.high is not None:
        axes.fill_between(series.x, series.low, series.high, color=color, alpha=0.13, linewidth=0.0, zorder=2)
    (line,) = axes.plot(
        series.x,
        series.y,
        color=color,
        linestyle=dashes,
        linewidth=1.1,
        marker=marker,
        markersize=3.2,
        markerfacecolor="white" if place % 2 else color,
        markeredgewidth=0.7,
        markevery=(first, every),
        zorder=3.0 - 0.01 * place,  # the first on top
    )
    return line


def _draw_points(axes: Axes, series: Series, place: int) -> object:
    color, _, marker = _SERIES_STYLES[place % len(_SERIES_STYLES)]
    errors = None
    if series.low is not None and series.high is not None:
        below = [y - low for y, low in zip(series.y, series.low, strict=True)]
        errors = [below, [high - y for y, high in zip(series.y, series.high, strict=True)]]
    return axes.errorbar(
        series.x, series.y, yerr=errors, color=color, fmt=marker, markersize=4, capsize=3, elinewidth=1.0, zorder=3
    )
