"""The panels of a report: curves, points and guides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from drom_net.plots.base import EDGE, PRINT_DPI, TEXT, as_plain_text, check_plot_file, save
from drom_net.results.report import Panel, Picture, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

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
_GUIDE_STYLES: tuple[tuple[str, str | tuple[float, tuple[float, ...]], str], ...] = (
    # Of what lines are compared with: greys, each with dashes and a marker of its own.
    ("0.45", (0.0, (6.0, 3.0)), ""),
    ("0.3", (0.0, (1.0, 2.0)), "x"),
    ("0.45", (0.0, (6.0, 2.0, 1.0, 2.0)), "+"),
    ("0.55", "solid", "|"),
    ("0.3", (0.0, (2.5, 1.5)), "1"),
)
_MARKERS_A_LINE = 6
_LEGEND_COLUMNS = 6
_LEGEND_INCHES, _LEGEND_ROW_INCHES = 4.2, 0.16  # of a legend of its own
_LEGEND_HANDLE_INCHES, _LETTER_INCHES = 0.68, 0.064  # of the legend: a handle with its gaps, a letter
_FEW_TICKS, _FEW_DECADES, _FEW_DECADES_ACROSS = 6, 300.0, 60.0


class _Labels(NamedTuple):
    """The labels of a picture; the place of one says how it looks, in all panels."""

    series: Sequence[str]
    guides: Sequence[str]


def draw_picture(picture: Picture, path: Path) -> None:
    """Draw panels row by row with one legend, as wide as a column of a two-column page, or as the page.

    The same label has one style in all panels, and no other label has it.

    Args:
        path: PNG or SVG by its suffix.

    Raises:
        UsageError: matplotlib is missing, or the suffix is another.
    """
    check_plot_file(path)
    from matplotlib.figure import Figure

    rows = -(-len(picture.panels) // picture.columns)
    width = _COLUMN_INCHES if picture.columns == 1 else PAGE_INCHES
    labels = _labels(picture)
    legend_columns, legend_rows = _shape_of_legend(labels, width)
    height = rows * _panel_inches(picture) + _LEGEND_ROW_INCHES * legend_rows + 0.1
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    grid = figure.subplots(rows, picture.columns, squeeze=False).ravel()
    handles = [_draw_panel(axes, panel, labels) for axes, panel in zip(grid, picture.panels, strict=False)]
    for axes in grid[len(picture.panels) :]:
        axes.set_axis_off()
    _draw_legend(figure, handles, labels, legend_columns, "outside upper center")
    save(figure, path, dpi=PRINT_DPI)


def parts_of(picture: Picture) -> list[Callable[[Path], None]]:
    """The same in parts, for a page that puts as many beside each other as fit: the legend, and each panel."""
    return [partial(_draw_legend_alone, picture), *(partial(_draw_alone, picture, panel) for panel in picture.panels)]


def _draw_legend_alone(picture: Picture, path: Path) -> None:
    from matplotlib.figure import Figure

    labels = _labels(picture)
    handles = [_draw_panel(Figure().subplots(), panel, labels) for panel in picture.panels]
    columns, rows = _shape_of_legend(labels, _LEGEND_INCHES)
    figure = Figure(figsize=(_LEGEND_INCHES, _LEGEND_ROW_INCHES * rows + 0.06), facecolor="white")
    _draw_legend(figure, handles, labels, columns, "center left")
    save(figure, path, dpi=PRINT_DPI)


def _draw_alone(picture: Picture, panel: Panel, path: Path) -> None:
    from matplotlib.figure import Figure

    width = min(_COLUMN_INCHES, PAGE_INCHES / picture.columns)
    figure = Figure(figsize=(width, _panel_inches(picture)), facecolor="white", layout="constrained")
    _draw_panel(figure.subplots(), panel, _labels(picture))
    save(figure, path, dpi=PRINT_DPI)


def _labels(picture: Picture) -> _Labels:
    series = [series for panel in picture.panels for series in panel.series]
    references = [reference.label for panel in picture.panels for reference in panel.references]
    return _Labels(
        list(dict.fromkeys(its.label for its in series if not its.guide)),
        list(dict.fromkeys([*references, *(its.label for its in series if its.guide)])),
    )


def _panel_inches(picture: Picture) -> float:
    """How high each panel is: long names under the points take room of their own."""
    return _PANEL_INCHES + 0.045 * max((len(name) for panel in picture.panels for name in panel.ticks), default=0)


def _draw_legend(figure: Figure, handles: Sequence[dict[str, Any]], labels: _Labels, columns: int, place: Any) -> None:
    """What each label looks like; the handles are those of the panels, by label."""
    known = {label: handle for of_panel in reversed(handles) for label, handle in of_panel.items()}
    shown = [label for label in [*labels.series, *labels.guides] if label in known]
    legend = figure.legend(
        handles=[known[label] for label in shown],
        labels=shown,
        loc=place,
        ncols=columns,
        fontsize=7,
        frameon=False,
        handlelength=3.6,
        columnspacing=1.4,
    )
    as_plain_text(legend)


def _draw_panel(axes: Axes, panel: Panel, labels: _Labels) -> dict[str, Any]:
    """One pair of axes; what a legend needs, by label."""
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    handles: dict[str, Any] = {}
    for reference in panel.references:
        style = _guide_style(labels.guides.index(reference.label))
        line = axes.axhline(reference.y, 0.015, 0.985, linewidth=0.9, zorder=1, **style)
        handles.setdefault(reference.label, line)
    for series in panel.series:
        if series.guide:
            style = _guide_style(labels.guides.index(series.label), len(series.x))
            handles[series.label] = axes.plot(series.x, series.y, linewidth=0.8, **style)[0]
            continue
        place = labels.series.index(series.label)
        draw = _draw_points if panel.points else partial(_draw_line, num_series=len(labels.series))
        handles[series.label] = draw(axes, series, place)
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
    _name_axes(axes, panel)
    return handles


def _guide_style(place: int, points: int = 2) -> dict[str, Any]:
    """As arguments of a line; its marker stands at both ends of its so many points."""
    color, dashes, marker = _GUIDE_STYLES[place % len(_GUIDE_STYLES)]
    return {
        "color": color,
        "linestyle": dashes,
        "marker": marker,
        "markersize": 4.0,
        "markevery": max(1, points - 1),
    }


def _name_axes(axes: Axes, panel: Panel) -> None:
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


def _shape_of_legend(labels: _Labels, width: float) -> tuple[int, int]:
    """(columns, rows) of a legend that is at most so many inches wide."""
    names = [*labels.series, *labels.guides]
    columns = _columns_that_fit(names, width)
    return columns, -(-len(names) // columns)


def _columns_that_fit(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend are at most so many inches wide; the first ones have one label more than others."""
    for columns in range(min(_LEGEND_COLUMNS, len(labels)), 1, -1):
        rows, more = divmod(len(labels), columns)
        ends = [rows * (column + 1) + min(column + 1, more) for column in range(columns)]
        longest = [max(map(len, labels[begin:end])) for begin, end in zip([0, *ends], ends, strict=False)]
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


def _draw_line(axes: Axes, series: Series, place: int, *, num_series: int) -> object:
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
