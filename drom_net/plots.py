"""Pictures: the one module that imports matplotlib, and only when it draws."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.algorithms.ldr import ALONE, EXPERTS
from drom_net.core.errors import UsageError
from drom_net.graph.graph import Graph
from drom_net.results.report import Panel, Picture, Series
from drom_net.results.timeline import KINDS, Disturbance, Lane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
LABELS_LIMIT = 60
"""Tasks above which nodes carry neither number nor name."""
_EDGE, _FILL, _RIM, _TEXT = "0.35", "0.93", "0.15", "0.1"  # grey, as a printer sees it
_CIRCLE_POINTS = 165.0  # the radius of the circle on paper; 72 points are an inch
_GRID_POINTS = 62.0  # between two nodes of a grid, at least
_NAME_LIMIT = 16

LANES_LIMIT = 30
"""Tasks above which a timeline shows only some of them."""
_LANES_SHOWN = 12
_STRETCHES_SHOWN = 14.0  # sync rounds of a task side by side: each is wide enough to be seen
_TIME_COLORS = {"local": "#66b56b", "communication": "#a3162e", "idle": "#e3e3e3"}  # three greys on a grey printer
_TIME_NAMES = {
    "local": "local: own examples",
    "communication": "communication: word under way",
    "idle": "idle: word not said yet",
}
_LANE_POINTS, _BAR_POINTS, _TICK_POINTS = 15.0, 9.0, 13.0

SHARING_LIMIT = 60
"""Tasks above which the picture of sharing shows only some of them."""
_SHARING_SHOWN = 40
_GAINED, _LOST = "#0072b2", "#d55e00"
_ROW_POINTS = 13.0
_WEIGHT_COLORS = ("#e3e3e3", "#0072b2", "#8cc6ec", "#a85100", "#f0b060", "#c6c6c6", "#009e73")
"""Of a mixture's experts, in their order; grey are those that learn alone."""

_COLUMN_INCHES, _PAGE_INCHES, _PANEL_INCHES = 3.4, 7.0, 2.15  # of a two-column page; a panel's height
_PRINT_DPI = 300
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
_FAULT_HATCH = "/////"

Window = tuple[float | None, float | None]


class Timeline(NamedTuple):
    """One run of a picture."""

    title: str
    lanes: Sequence[Lane]
    faults: Sequence[Disturbance] = ()
    """By the lanes' clock. Those of other nodes than tasks, and of the network, get lanes of their own."""
    lost: Sequence[Lane] = ()
    """What tasks did before a crash, and did again after it: in their lanes, too."""


def draw_graph(graph: Graph, names: Sequence[str], path: Path, title: str) -> None:
    """Draw a graph to a file: a grid or torus in its rows, a hub around its middle, others in a circle.

    The circle begins at the top and goes clockwise. Edges of weighted graphs are the wider the more they weigh.

    Args:
        names: The tasks' names; where they are not the numbers that the nodes carry, they stand beside them.
        path: PNG or SVG by its suffix.

    Raises:
        UsageError: matplotlib is missing, or the suffix is another.
    """
    check_plot_file(path)
    labelled = graph.num_tasks <= LABELS_LIMIT
    shown = [name if len(name) <= _NAME_LIMIT else f"{name[: _NAME_LIMIT - 1]}…" for name in names]
    named = labelled and any(name != str(task) for task, name in enumerate(names))
    on_grid = _on_grid(graph)
    longest = max(map(len, shown)) if named else 0
    places = _places(graph, longest)
    radius = _node_radius(places)
    # Room beside the outermost nodes: for their names, and for a torus's ways around.
    beside = max(26.0, 2.3 * longest) if on_grid else radius + 10.0 + 5.2 * longest
    figure, axes = _canvas(places, (beside, 34.0 if on_grid else radius + (18.0 if named else 6.0)), title)
    _draw_edges(axes, graph, places)
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=(2.0 * radius) ** 2,
        color=_FILL,
        edgecolors=_RIM,
        linewidths=1.0 if labelled else 0.4,
        zorder=3,
    )
    for task in range(graph.num_tasks if labelled else 0):
        x, y = places[task].tolist()
        axes.text(x, y, str(task), ha="center", va="center_baseline", fontsize=0.95 * radius, color=_TEXT, zorder=4)
        if named:
            _draw_name(axes, shown[task], x, y, radius, below=on_grid)
    _save(figure, path)


def draw_timeline(
    lanes: Sequence[Lane],
    path: Path,
    title: str,
    *,
    window: Window = (None, None),
    shown: int = _LANES_SHOWN,
    faults: Sequence[Disturbance] = (),
    lost: Sequence[Lane] = (),
    virtual: bool = False,
) -> None:
    """Draw what each task did when, as Figure 2 of the paper: local work green, communication red, idle time grey.

    Args:
        path: PNG or SVG by its suffix.
        window: (from_s, to_s), in seconds since all tasks had begun. By default from there on for so many sync
            rounds as can be seen side by side, and to the end of the last fault.
        shown: Of more than `LANES_LIMIT` tasks so many, from the slowest to the fastest, and those with faults.
        faults, lost: As in `Timeline`.
        virtual: The lanes' clock is a simulation's: window and axis are in its seconds.

    Raises:
        UsageError: matplotlib is missing, the suffix is another, or there is nothing in the window.
    """
    draw_timelines([Timeline("", lanes, faults, lost)], path, title, window=window, shown=shown, virtual=virtual)


def draw_timelines(
    panels: Sequence[Timeline],
    path: Path,
    title: str,
    *,
    window: Window = (None, None),
    shown: int = _LANES_SHOWN,
    virtual: bool = False,
) -> None:
    """Draw several runs above each other over one time axis; arguments as for `draw_timeline`.

    Args:
        panels: Of the same many tasks the same ones are shown: those chosen in the first.
    """
    check_plot_file(path)
    begun = [0.0 if virtual else _all_begun(panel.lanes) for panel in panels]
    from_s, to_s = _window(panels, begun, window)
    unit, scale = ("seconds", 1.0) if to_s - from_s >= 1.0 else ("milliseconds", 1000.0)
    chosen: dict[tuple[str, ...], list[int]] = {}
    struck = {fault.where for panel in panels for fault in panel.faults}
    for panel in panels:
        chosen.setdefault(tuple(lane.name for lane in panel.lanes), _choose_lanes(panel.lanes, shown, struck))
    picked = [[lanes[task] for task in chosen[tuple(lane.name for lane in lanes)]] for _, lanes, *_ in panels]
    others = [
        list(dict.fromkeys(fault.where for fault in faults if fault.where not in {lane.name for lane in lanes}))
        for _, lanes, faults, _ in panels
    ]
    names = [[lane.name for lane in lanes] + more for lanes, more in zip(picked, others, strict=True)]
    figure, all_axes = _stacked(
        [len(some) for some in names],
        left=14.0 + 4.6 * max(min(len(name), _NAME_LIMIT) for some in names for name in some),
        title=title,
        faults=sorted({fault.what for panel in panels for fault in panel.faults}),
    )
    for axes, (head, lanes, faults, lost), some, rows, zero in zip(all_axes, panels, picked, names, begun, strict=True):
        axes.set_xlim(scale * from_s, scale * to_s)
        for place, lane in [*enumerate(some), *((rows.index(own.name), own) for own in lost if own.name in rows)]:
            _draw_lane(axes, place, lane, zero, from_s, to_s, scale)
        _draw_faults(axes, faults, rows, (zero, from_s, to_s, scale))
        _name_lanes(axes, rows)
        if len(some) < len(lanes):
            head += f"{': ' if head else ''}{len(some)} of {len(lanes)} tasks, the slowest first"
        axes.set_title(head, loc="left", fontsize=9, color=_TEXT, pad=4.0, parse_math=False)
        axes.set_title(_spent_in_words(lanes), loc="right", fontsize=7.5, color=_EDGE, pad=4.0)
    since = "of the virtual clock" if virtual else "since all tasks had begun"
    all_axes[-1].set_xlabel(f"{unit} {since}", fontsize=8, color=_TEXT)
    for axes in all_axes[:-1]:
        axes.tick_params(labelbottom=False)
    _save(figure, path)


def draw_sharing(names: Sequence[str], figures: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw what sharing did to each task: its errors alone and with sharing, its experts' weights, and its noise.

    The tasks stand in order of what they gained, the best on top; of more than `SHARING_LIMIT` those that gained and
    lost most.

    Args:
        figures: Of each task, as `sharing.sharing_figures` gives them. Tasks without examples are left out.
        path: PNG or SVG by its suffix.

    Raises:
        UsageError: matplotlib is missing, the suffix is another, or no task has any examples.
    """
    check_plot_file(path)
    from matplotlib.figure import Figure

    tasks = [pair for pair in zip(names, figures, strict=True) if pair[1]["gain_points"] is not None]
    if not tasks:
        raise UsageError("there is nothing to draw: no task has any examples")
    tasks.sort(key=lambda pair: -pair[1]["gain_points"])
    if len(tasks) > SHARING_LIMIT:
        title += f": {_SHARING_SHOWN} of {len(tasks)} tasks, those that gained or lost most"
        tasks = tasks[: _SHARING_SHOWN // 2] + tasks[-_SHARING_SHOWN // 2 :]
    width, head, foot = 72.0 * _PAGE_INCHES, 56.0, 34.0
    height = head + _ROW_POINTS * (len(tasks) + 1) + foot
    figure = Figure(figsize=(width / 72.0, height / 72.0), facecolor="white")
    left = 14.0 + 4.6 * min(max(len(name) for name, _ in tasks), _NAME_LIMIT)
    room, gap = width - left - 14.0, 14.0
    grid = figure.subplots(
        *(1, 3),
        gridspec_kw={
            "width_ratios": (4, 4, 1.6),
            "left": left / width,
            "right": 1.0 - 14.0 / width,
            "bottom": foot / height,
            "top": 1.0 - head / height,
            "wspace": gap / ((room - 2.0 * gap) / 3.0),
        },
    )
    for axes in grid:
        axes.set_ylim(len(tasks) - 0.4, -0.6)
        axes.grid(axis="x", color="0.9", linewidth=0.5)
        axes.set_axisbelow(True)
        _name_lanes(axes, [name for name, _ in tasks] if axes is grid[0] else [""] * len(tasks))
    _draw_gains(grid[0], [of for _, of in tasks])
    _draw_weights(grid[1], [of for _, of in tasks])
    noise = [math.nan if of["noise"] is None else 100.0 * of["noise"] for _, of in tasks]
    most = max((value for value in noise if value > 0.0), default=1.0)
    grid[2].plot(noise, range(len(tasks)), color=_TEXT, marker="D", markersize=3.2, linestyle="none", clip_on=False)
    grid[2].set_xlim(0.0, 1.06 * most)
    grid[2].set_xlabel("noise (%)", fontsize=8, color=_TEXT)
    if title:
        figure.text(
            *(0.5, 1.0 - 12.0 / height), title, ha="center", va="center", fontsize=11, color=_TEXT, parse_math=False
        )
    _save(figure, path)


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
    width = _COLUMN_INCHES if picture.columns == 1 else _PAGE_INCHES
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
    figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside upper center",
        ncols=legend_columns,
        fontsize=7,
        frameon=False,
        handlelength=3.6,
        columnspacing=1.4,
    )
    _save(figure, path, dpi=_PRINT_DPI)


def check_plot_file(path: Path) -> None:
    """Refuse what could not be written, before anything is computed for it.

    Raises:
        UsageError: matplotlib is missing, the suffix is none of `FORMATS`, or nothing can be written there.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: expected a name that ends in {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written")
    require_matplotlib()


def require_matplotlib() -> None:
    """
    Raises:
        UsageError: It is missing.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("pictures need matplotlib: pip install 'drom-net[plots]'") from None


def _on_grid(graph: Graph) -> bool:
    return graph.shape is not None and min(graph.shape) > 1


def _places(graph: Graph, longest: int) -> Matrix:
    """Where each node stands, in points, shape (m, 2); `longest` is the length of the longest name."""
    num_tasks = graph.num_tasks
    tasks = np.arange(num_tasks)
    if _on_grid(graph):
        assert graph.shape is not None
        rows, columns = np.divmod(tasks, graph.shape[1])
        spacing = np.array([max(_GRID_POINTS, 4.6 * longest + 10.0), _GRID_POINTS])
        return np.asarray(spacing * np.stack([columns, -rows], axis=1))
    around = _hub(graph)
    ring = tasks[tasks != around]
    angles = np.pi / 2.0 - 2.0 * np.pi * np.arange(len(ring)) / max(1, len(ring))
    places = np.zeros((num_tasks, 2))
    places[ring] = _CIRCLE_POINTS * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return places


def _hub(graph: Graph) -> int | None:
    """The one node that all edges meet; None for other graphs."""
    if graph.num_tasks < 4 or sorted(graph.degrees) != [1] * (graph.num_tasks - 1) + [graph.num_tasks - 1]:
        return None
    return graph.degrees.index(graph.num_tasks - 1)


def _node_radius(places: Matrix) -> float:
    """In points: as large as reads well, and never so large that neighbors on the circle touch."""
    if len(places) < 2:
        return 11.0
    gap = float(np.hypot(*(places[1:] - places[:-1]).T).min())
    return min(11.0, 0.36 * gap)


def _canvas(places: Matrix, margin: tuple[float, float], title: str) -> tuple[Figure, Axes]:
    """A figure whose data coordinates are points on paper."""
    from matplotlib.figure import Figure

    low, high = places.min(axis=0) - margin, places.max(axis=0) + margin
    # Wide enough for the title, with the graph in the middle.
    missing = max(0.0, 6.5 * len(title) - float(high[0] - low[0]))
    low[0] -= missing / 2.0
    high[0] += missing / 2.0
    width, height = (high - low).tolist()
    head = 30.0 if title else 0.0
    figure = Figure(figsize=(width / 72.0, (height + head) / 72.0), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, height / (height + head)))
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_axis_off()
    if title:
        center = 1.0 - 0.5 * head / (height + head)
        figure.text(0.5, center, title, ha="center", va="center", fontsize=11, color=_TEXT, parse_math=False)
    return figure, axes


def _draw_edges(axes: Axes, graph: Graph, places: Matrix) -> None:
    from matplotlib.collections import LineCollection

    edges = graph.edges
    if not edges:
        return
    # Many edges are drawn fine, or they would be one black disk.
    base = min(1.4, max(0.25, 9.0 / math.sqrt(len(edges))))
    widths = [base] * len(edges)
    if graph.weights is not None:
        largest = max(graph.weights[a, b] for a, b in edges)
        widths = [base * (0.4 + 1.2 * float(graph.weights[a, b] / largest)) for a, b in edges]
    around = [_goes_around(graph, a, b) for a, b in edges]
    lines = [_line(graph, places, a, b, around=far) for (a, b), far in zip(edges, around, strict=True)]
    dashes = [(0.0, (4.0, 2.0)) if far else "solid" for far in around]
    axes.add_collection(LineCollection(lines, linewidths=widths, colors=_EDGE, linestyles=dashes, zorder=2))


def _goes_around(graph: Graph, a: int, b: int) -> bool:
    """Whether an edge joins opposite sides of a torus."""
    if graph.shape is None or not _on_grid(graph):
        return False
    columns = graph.shape[1]
    return abs(a // columns - b // columns) > 1 or abs(a % columns - b % columns) > 1


def _line(graph: Graph, places: Matrix, a: int, b: int, *, around: bool) -> Matrix:
    """The points of an edge, shape (n, 2): straight, or bent so that it passes beside the nodes between."""
    start, end = places[a], places[b]
    middle = (start + end) / 2.0
    if around:
        # Above the row, or left of the column, at 15 points from the first node it passes.
        assert graph.shape is not None
        along_row = abs(start[1] - end[1]) < 1.0
        first = 1.0 / (graph.shape[1 if along_row else 0] - 1)
        control = middle + min(80.0, 7.5 / (first * (1.0 - first))) * np.array([0.0, 1.0] if along_row else [-1.0, 0.0])
    elif _on_grid(graph) or _hub(graph) is not None or min(b - a, graph.num_tasks - b + a) == 1:
        return np.stack([start, end])
    else:
        # Towards the middle of the circle, or it would be hidden behind the nodes that it spans.
        control = 0.55 * middle
    t = np.linspace(0.0, 1.0, 25)[:, None]
    return np.asarray((1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end)


def _draw_name(axes: Axes, name: str, x: float, y: float, radius: float, *, below: bool) -> None:
    distance = math.hypot(x, y)
    size = max(6.0, min(9.0, 0.95 * radius))
    if below or distance < 1.0:
        axes.text(
            *(x, y - radius - 2.0),
            name,
            ha="center",
            va="top",
            fontsize=0.8 * size if below else size,
            color=_TEXT,
            zorder=5,
            parse_math=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
        return
    scale = (distance + radius + 5.0) / distance
    side = x / distance
    ha = "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
    va = "center_baseline" if abs(side) >= 0.6 else "bottom" if y > 0 else "top"
    axes.text(x * scale, y * scale, name, ha=ha, va=va, fontsize=size, color=_TEXT, zorder=5, parse_math=False)


def _all_begun(lanes: Sequence[Lane]) -> float:
    """When the last task has begun."""
    return max((float(lane.stretches["begun_s"][0]) for lane in lanes if len(lane.stretches)), default=0.0)


def _window(panels: Sequence[Timeline], begun: Sequence[float], window: Window) -> tuple[float, float]:
    """What is shown, in seconds since all tasks of a panel had begun."""
    starts, ends, lasting, over = [], [], [], [0.0]
    for (_, lanes, faults, _), zero in zip(panels, begun, strict=True):
        learned = [lane.stretches for lane in lanes if len(lane.stretches)]
        starts.append(min((float(rows["begun_s"][0]) - zero for rows in learned), default=0.0))
        ends.append(max((float(rows["closed_s"][-1]) - zero for rows in learned), default=0.0))
        lasting.append(
            np.median([(rows["closed_s"][-1] - rows["begun_s"][0]) / len(rows) for rows in learned] or [0.0])
        )
        over += [fault.to_s - zero for fault in faults if fault.from_s - zero < ends[-1]]
    from_s = 0.0 if window[0] is None else window[0]
    to_s = window[1]
    if to_s is None:
        # The geometric mean: between what suits the run of the shortest and that of the longest stretches.
        to_s = from_s + _STRETCHES_SHOWN * math.sqrt(float(min(lasting) * max(lasting)))
        # All faults are shown, and what comes of them.
        to_s = min(max(ends), max(to_s, 1.15 * max(over)))
    if not (math.isfinite(from_s) and math.isfinite(to_s) and max(from_s, min(starts)) < min(to_s, max(ends))):
        raise UsageError(
            f"cannot draw from {from_s:g} s to {to_s:g} s: the run goes from {min(starts):g} s to {max(ends):g} s"
        )
    return from_s, to_s


def _choose_lanes(lanes: Sequence[Lane], shown: int, struck: Collection[str]) -> list[int]:
    """All, in task order; or of many the slowest, the fastest, and evenly between, and those that are `struck`."""
    if len(lanes) <= LANES_LIMIT:
        return list(range(len(lanes)))

    def slowness(task: int) -> float:
        rows = lanes[task].stretches
        return -lanes[task].spent.local_s / max(1, int(rows["round"][-1])) if len(rows) else 0.0

    ranking = sorted(range(len(lanes)), key=slowness)
    places = set(np.linspace(0, len(lanes) - 1, max(2, shown)).round().astype(int).tolist())
    return [task for place, task in enumerate(ranking) if place in places or lanes[task].name in struck]


def _stacked(
    counts: Sequence[int], *, left: float, title: str, faults: Sequence[str] = ()
) -> tuple[Figure, list[Axes]]:
    """A figure of a page's width with axes above each other, one for each number of lanes; a legend on top.

    Args:
        faults: The kinds that the legend names.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    width, head, gap, foot = 520.0, 44.0 if title else 20.0, 24.0, 34.0
    legend_rows = 2 if faults else 1
    head += 12.0 * (legend_rows - 1)
    heights = [_LANE_POINTS * count + 4.0 for count in counts]
    height = head + sum(heights) + gap * len(counts) + foot
    figure = Figure(figsize=(width / 72.0, height / 72.0), facecolor="white")
    top, all_axes = height - head, []
    for count, own in zip(counts, heights, strict=True):
        top -= gap + own
        axes = figure.add_axes((left / width, top / height, (width - left - 12.0) / width, own / height))
        top_lane = 0.5 + 2.0 / _LANE_POINTS
        axes.set_ylim(count - 1.0 + top_lane, -top_lane)
        all_axes.append(axes)
    if title:
        figure.text(
            *(0.5, 1.0 - 13.0 / height), title, ha="center", va="center", fontsize=11, color=_TEXT, parse_math=False
        )
    handles: list[Patch | Line2D] = [
        Patch(facecolor=_TIME_COLORS[kind], edgecolor=_RIM, linewidth=0.3, label=_TIME_NAMES[kind]) for kind in KINDS
    ]
    tick = Line2D([], [], color=_TEXT, linewidth=0.7, marker="|", markersize=8, linestyle="none", label="word said")
    if faults:
        handles.append(
            Patch(facecolor="white", edgecolor=_TEXT, hatch=_FAULT_HATCH, linewidth=0.3, label=", ".join(faults))
        )
    figure.legend(
        handles=[*handles, tick],
        loc="center",
        bbox_to_anchor=(0.5, 1.0 - (head - 8.0 - 6.0 * (legend_rows - 1)) / height),
        ncols=3 if faults else 4,
        fontsize=7.5,
        frameon=False,
        handlelength=1.4,
        columnspacing=1.4,
        handletextpad=0.5,
    )
    return figure, all_axes


def _draw_lane(axes: Axes, place: int, lane: Lane, zero: float, from_s: float, to_s: float, scale: float) -> None:
    """Bars of a lane within the window; `zero` is the time of the lane's clock at which the axis begins."""
    bar, tick = _BAR_POINTS / _LANE_POINTS, _TICK_POINTS / _LANE_POINTS
    for kind in KINDS:
        pairs = scale * np.clip(lane.segments(kind) - zero, from_s, to_s)
        spans = [(begin, end - begin) for begin, end in pairs.tolist() if end > begin]
        axes.broken_barh(spans, (place - bar / 2.0, bar), facecolors=_TIME_COLORS[kind], linewidth=0.0)
    said = lane.stretches["said_s"][:-1] - zero  # the last stretch ends with the run, not with a word
    said = scale * said[(from_s <= said) & (said <= to_s)]
    axes.vlines(said, place - tick / 2.0, place + tick / 2.0, colors=_TEXT, linewidths=0.6)


def _draw_faults(
    axes: Axes,
    faults: Sequence[Disturbance],
    rows: Sequence[str],
    shown: tuple[float, float, float, float],
) -> None:
    """Hatched, also over what a task did: a pause interrupts it.

    Args:
        rows: What the axes' rows are called.
        shown: zero, from_s, to_s and scale, as for `_draw_lane`.
    """
    bar = _BAR_POINTS / _LANE_POINTS
    zero, low, high, scale = shown
    for fault in faults:
        begin, end = (min(max(time - zero, low), high) for time in (fault.from_s, fault.to_s))
        if end > begin and fault.where in rows:
            axes.broken_barh(
                [(scale * begin, scale * (end - begin))],
                (rows.index(fault.where) - bar / 2.0, bar),
                facecolors="none",
                edgecolors=_TEXT,
                hatch=_FAULT_HATCH,
                linewidth=0.3,
            )


def _name_lanes(axes: Axes, names: Sequence[str]) -> None:
    shown = [name if len(name) <= _NAME_LIMIT else f"{name[: _NAME_LIMIT - 1]}…" for name in names]
    axes.set_yticks(range(len(names)), shown, fontsize=7.5, color=_TEXT, parse_math=False)
    axes.tick_params(axis="y", length=0.0)
    axes.tick_params(axis="x", labelsize=7.5, color=_EDGE, labelcolor=_TEXT, length=3.0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_EDGE)


def _draw_gains(axes: Axes, figures: Sequence[Mapping[str, Any]]) -> None:
    """A row for each task: from its errors alone to those with sharing."""
    from matplotlib.lines import Line2D

    alone = [100.0 * of["error_rate_alone"] for of in figures]
    shared = [100.0 * of["error_rate"] for of in figures]
    rows = range(len(figures))
    colors = [_LOST if of["gain_points"] < 0.0 else _GAINED for of in figures]
    axes.hlines(rows, alone, shared, colors=colors, linewidths=1.4, zorder=2)
    axes.scatter(alone, rows, s=16.0, facecolors="white", edgecolors=_EDGE, linewidths=1.0, zorder=3)
    axes.scatter(shared, rows, s=18.0, c=colors, zorder=4)
    axes.set_xlim(0.0, 1.06 * (max(alone + shared) or 1.0))
    axes.set_xlabel("errors (%)", fontsize=8, color=_TEXT)
    dot: dict[str, Any] = {"marker": "o", "markersize": 4.2, "linestyle": "-", "linewidth": 1.4}
    handles = [
        Line2D([], [], **dot | {"linestyle": "none"}, markerfacecolor="white", markeredgecolor=_EDGE, label="alone"),
        Line2D([], [], **dot, color=_GAINED, label="with sharing"),
        Line2D([], [], **dot, color=_LOST, label="which lost"),
    ]
    _legend_above(axes, handles[: 3 if _LOST in colors else 2], columns=3)


def _draw_weights(axes: Axes, figures: Sequence[Mapping[str, Any]]) -> None:
    """A bar for each task: the weights at the end, those that share from the left; a tick at the mean of the run."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    there = list(figures[0]["weights_at_end"])
    color_of = dict(zip(there, _WEIGHT_COLORS, strict=False))
    alone = [EXPERTS[expert] for expert in ALONE if EXPERTS[expert] in there]
    there = [expert for expert in there if expert not in alone] + alone
    rows, bar = range(len(figures)), _BAR_POINTS / _ROW_POINTS
    left = np.zeros(len(figures))
    for expert in there:
        weights = np.array([100.0 * of["weights_at_end"][expert] for of in figures])
        axes.barh(rows, weights, bar, left=left, color=color_of[expert], linewidth=0.0)
        left += weights
    means = [100.0 * of["weight"] for of in figures]
    low, high = np.arange(len(figures)) - 0.5 * bar, np.arange(len(figures)) + 0.5 * bar
    axes.vlines(means, low, high, colors=_TEXT, linewidths=1.2)
    axes.set_xlim(0.0, 100.0)
    axes.set_xlabel("weight at the end (%)", fontsize=8, color=_TEXT)
    handles: list[Patch | Line2D] = [Patch(facecolor=color_of[expert], label=expert) for expert in there]
    tick: dict[str, Any] = {"marker": "|", "markersize": 7, "markeredgewidth": 1.2, "linestyle": "none"}
    handles.append(Line2D([], [], color=_TEXT, label="sharing, mean of the run", **tick))
    _legend_above(axes, handles, columns=2)


def _legend_above(axes: Axes, handles: Sequence[Any], *, columns: int) -> None:
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        fontsize=7,
        frameon=False,
        borderpad=0.0,
        borderaxespad=0.3,
        labelspacing=0.25,
        handlelength=1.3,
        handletextpad=0.5,
        columnspacing=1.2,
    )


def _spent_in_words(lanes: Sequence[Lane]) -> str:
    """``whole run: local 71 %, communication 9 %, idle 20 %``"""
    sums = np.sum([lane.spent for lane in lanes], axis=0)
    shares = 100.0 * sums / (sums.sum() or 1.0)
    return "whole run: " + ", ".join(f"{kind} {share:.0f} %" for kind, share in zip(KINDS, shares, strict=True))


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
    axes.set_title(panel.title, fontsize=8, color=_TEXT, parse_math=False)
    axes.set_xlabel(panel.x_label, fontsize=7.5, color=_TEXT, parse_math=False)
    axes.set_ylabel(panel.y_label, fontsize=7.5, color=_TEXT, parse_math=False)
    axes.tick_params(labelsize=7, color=_EDGE, labelcolor=_TEXT, length=2.5)
    axes.grid(color="0.9", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_EDGE)


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


def _save(figure: Figure, path: Path, *, dpi: int = 150) -> None:
    """Write a figure, the same bytes for the same picture."""
    from matplotlib import rc_context

    svg = path.suffix.lower() == ".svg"
    with rc_context({"svg.hashsalt": "drom-net"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names may have letters that no font has
        figure.savefig(path, dpi=dpi, metadata={"Date": None} if svg else {"Software": None})
