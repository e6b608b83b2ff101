"""A picture of a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.graph.graph import Graph
from drom_net.plots.base import EDGE, FILL, NAME_LIMIT, RIM, TEXT, check_plot_file, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS_LIMIT = 60
"""Tasks above which nodes carry neither number nor name."""
_CIRCLE_POINTS = 165.0  # the radius of the circle on paper; 72 points are an inch
_GRID_POINTS = 62.0  # between two nodes of a grid, at least


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
    shown = [name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 1]}…" for name in names]
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
        color=FILL,
        edgecolors=RIM,
        linewidths=1.0 if labelled else 0.4,
        zorder=3,
    )
    for task in range(graph.num_tasks if labelled else 0):
        x, y = places[task].tolist()
        axes.text(x, y, str(task), ha="center", va="center_baseline", fontsize=0.95 * radius, color=TEXT, zorder=4)
        if named:
            _draw_name(axes, shown[task], x, y, radius, below=on_grid)
    save(figure, path)


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
        figure.text(0.5, center, title, ha="center", va="center", fontsize=11, color=TEXT, parse_math=False)
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
    axes.add_collection(LineCollection(lines, linewidths=widths, colors=EDGE, linestyles=dashes, zorder=2))


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
            color=TEXT,
            zorder=5,
            parse_math=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
        return
    scale = (distance + radius + 5.0) / distance
    side = x / distance
    ha = "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
    va = "center_baseline" if abs(side) >= 0.6 else "bottom" if y > 0 else "top"
    axes.text(x * scale, y * scale, name, ha=ha, va=va, fontsize=size, color=TEXT, zorder=5, parse_math=False)
