"""What sharing gained each task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drom_net.algorithms.adadrom.mixing import ALONE, EXPERTS
from drom_net.core.errors import UsageError
from drom_net.plots.base import EDGE, NAME_LIMIT, TEXT, as_plain_text, check_plot_file, save
from drom_net.plots.report import PAGE_INCHES
from drom_net.plots.timeline import BAR_POINTS, name_lanes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARING_LIMIT = 60
"""Tasks above which the picture of sharing shows only some of them."""
_SHARING_SHOWN = 40
_GAINED, _LOST = "#0072b2", "#d55e00"
_ROW_POINTS = 13.0
_WEIGHT_COLORS = (
    *("#e3e3e3", "#0072b2", "#8cc6ec", "#a85100", "#f0b060", "#f5e08a", "#cc79a7"),
    *("#c6c6c6", "#009e73"),
)
"""Of a mixture's experts, in their order; grey are those that learn alone."""


def draw_sharing(names: Sequence[str], figures: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw what sharing did to each task: its errors alone and with sharing, its experts' weights, and its noise.

    The tasks stand in the order given; of more than `SHARING_LIMIT` those that gained and lost most.

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
    if len(tasks) > SHARING_LIMIT:
        title += f": {_SHARING_SHOWN} of {len(tasks)} tasks, those that gained or lost most"
        ranking = sorted(range(len(tasks)), key=lambda task: -tasks[task][1]["gain_points"])
        tasks = [tasks[task] for task in sorted(ranking[: _SHARING_SHOWN // 2] + ranking[-_SHARING_SHOWN // 2 :])]
    width, head, foot = 72.0 * PAGE_INCHES, 74.0 if title else 60.0, 34.0
    height = head + _ROW_POINTS * (len(tasks) + 1) + foot
    figure = Figure(figsize=(width / 72.0, height / 72.0), facecolor="white")
    left = 14.0 + 4.6 * min(max(len(name) for name, _ in tasks), NAME_LIMIT)
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
        name_lanes(axes, [name for name, _ in tasks] if axes is grid[0] else [""] * len(tasks))
    _draw_gains(grid[0], [of for _, of in tasks])
    _draw_weights(grid[1], [of for _, of in tasks])
    noise = [math.nan if of["noise"] is None else 100.0 * of["noise"] for _, of in tasks]
    most = max((value for value in noise if value > 0.0), default=1.0)
    grid[2].plot(noise, range(len(tasks)), color=TEXT, marker="D", markersize=3.2, linestyle="none", clip_on=False)
    grid[2].set_xlim(0.0, 1.06 * most)
    grid[2].set_xlabel("noise (%)", fontsize=8, color=TEXT)
    if title:
        figure.text(
            *(0.5, 1.0 - 12.0 / height), title, ha="center", va="center", fontsize=11, color=TEXT, parse_math=False
        )
    save(figure, path)


def _draw_gains(axes: Axes, figures: Sequence[Mapping[str, Any]]) -> None:
    """A row for each task: from its errors alone to those with sharing."""
    from matplotlib.lines import Line2D

    alone = [100.0 * of["error_rate_alone"] for of in figures]
    shared = [100.0 * of["error_rate"] for of in figures]
    rows = range(len(figures))
    colors = [_LOST if of["gain_points"] < 0.0 else _GAINED for of in figures]
    axes.hlines(rows, alone, shared, colors=colors, linewidths=1.4, zorder=2)
    axes.scatter(alone, rows, s=16.0, facecolors="white", edgecolors=EDGE, linewidths=1.0, zorder=3)
    axes.scatter(shared, rows, s=18.0, c=colors, zorder=4)
    axes.set_xlim(0.0, 1.06 * (max(alone + shared) or 1.0))
    axes.set_xlabel("errors (%)", fontsize=8, color=TEXT)
    dot: dict[str, Any] = {"marker": "o", "markersize": 4.2, "linestyle": "-", "linewidth": 1.4}
    handles = [
        Line2D([], [], **dot | {"linestyle": "none"}, markerfacecolor="white", markeredgecolor=EDGE, label="alone"),
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
    rows, bar = range(len(figures)), BAR_POINTS / _ROW_POINTS
    left = np.zeros(len(figures))
    for expert in there:
        weights = np.array([100.0 * of["weights_at_end"][expert] for of in figures])
        axes.barh(rows, weights, bar, left=left, color=color_of[expert], linewidth=0.0)
        left += weights
    means = [100.0 * of["weight"] for of in figures]
    low, high = np.arange(len(figures)) - 0.5 * bar, np.arange(len(figures)) + 0.5 * bar
    axes.vlines(means, low, high, colors=TEXT, linewidths=1.2)
    axes.set_xlim(0.0, 100.0)
    axes.set_xlabel("weight at the end (%)", fontsize=8, color=TEXT)
    handles: list[Patch | Line2D] = [Patch(facecolor=color_of[expert], label=expert) for expert in there]
    tick: dict[str, Any] = {"marker": "|", "markersize": 7, "markeredgewidth": 1.2, "linestyle": "none"}
    handles.append(Line2D([], [], color=TEXT, label="sharing, mean of the run", **tick))
    _legend_above(axes, handles, columns=2)


def _legend_above(axes: Axes, handles: Sequence[Any], *, columns: int) -> None:
    legend = axes.legend(
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
    as_plain_text(legend)
