"""Who worked and who waited when."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drom_net.core.errors import UsageError
from drom_net.plots.base import EDGE, NAME_LIMIT, RIM, TEXT, as_plain_text, check_plot_file, save
from drom_net.results.timeline import KINDS, Disturbance, Lane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LANES_LIMIT = 30
"""Tasks above which a timeline shows only some of them."""
_LANES_SHOWN = 12
_STRETCHES_SHOWN = 14.0  # sync rounds of a task side by side: each is wide enough to be seen
_TIME_COLORS = {"local": "#66b56b", "communication": "#a3162e", "idle": "#e3e3e3"}  # three greys on a grey printer
_TIME_NAMES = {
    "local": "local: own examples",
    "communication": "communication: contribution on its way",
    "idle": "idle: waiting for neighbors",
}
_LANE_POINTS, BAR_POINTS, _TICK_POINTS = 15.0, 9.0, 13.0
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
        left=14.0 + 4.6 * max(min(len(name), NAME_LIMIT) for some in names for name in some),
        title=title,
        faults=sorted({fault.what for panel in panels for fault in panel.faults}),
    )
    for axes, (head, lanes, faults, lost), some, rows, zero in zip(all_axes, panels, picked, names, begun, strict=True):
        axes.set_xlim(scale * from_s, scale * to_s)
        for place, lane in [*enumerate(some), *((rows.index(own.name), own) for own in lost if own.name in rows)]:
            _draw_lane(axes, place, lane, zero, from_s, to_s, scale)
        _draw_faults(axes, faults, rows, (zero, from_s, to_s, scale))
        name_lanes(axes, rows)
        if len(some) < len(lanes):
            head += f"{': ' if head else ''}{len(some)} of {len(lanes)} tasks, the slowest first"
        axes.set_title(head, loc="left", fontsize=9, color=TEXT, pad=4.0, parse_math=False)
        axes.set_title(_spent_in_words(lanes), loc="right", fontsize=7.5, color=EDGE, pad=4.0)
    since = "of the virtual clock" if virtual else "since all tasks had begun"
    all_axes[-1].set_xlabel(f"{unit} {since}", fontsize=8, color=TEXT)
    for axes in all_axes[:-1]:
        axes.tick_params(labelbottom=False)
    save(figure, path)


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
            *(0.5, 1.0 - 13.0 / height), title, ha="center", va="center", fontsize=11, color=TEXT, parse_math=False
        )
    handles: list[Patch | Line2D] = [
        Patch(facecolor=_TIME_COLORS[kind], edgecolor=RIM, linewidth=0.3, label=_TIME_NAMES[kind]) for kind in KINDS
    ]
    tick = Line2D(
        [], [], color=TEXT, linewidth=0.7, marker="|", markersize=8, linestyle="none", label="contribution sent"
    )
    if faults:
        handles.append(
            Patch(facecolor="white", edgecolor=TEXT, hatch=_FAULT_HATCH, linewidth=0.3, label=", ".join(faults))
        )
    legend = figure.legend(
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
    as_plain_text(legend)
    return figure, all_axes


def _draw_lane(axes: Axes, place: int, lane: Lane, zero: float, from_s: float, to_s: float, scale: float) -> None:
    """Bars of a lane within the window; `zero` is the time of the lane's clock at which the axis begins."""
    bar, tick = BAR_POINTS / _LANE_POINTS, _TICK_POINTS / _LANE_POINTS
    for kind in KINDS:
        pairs = scale * np.clip(lane.segments(kind) - zero, from_s, to_s)
        spans = [(begin, end - begin) for begin, end in pairs.tolist() if end > begin]
        axes.broken_barh(spans, (place - bar / 2.0, bar), facecolors=_TIME_COLORS[kind], linewidth=0.0)
    sent = lane.stretches["sent_s"][:-1] - zero  # the last stretch ends with the run, not with a contribution
    sent = scale * sent[(from_s <= sent) & (sent <= to_s)]
    axes.vlines(sent, place - tick / 2.0, place + tick / 2.0, colors=TEXT, linewidths=0.6)


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
    bar = BAR_POINTS / _LANE_POINTS
    zero, low, high, scale = shown
    for fault in faults:
        begin, end = (min(max(time - zero, low), high) for time in (fault.from_s, fault.to_s))
        if end > begin and fault.where in rows:
            axes.broken_barh(
                [(scale * begin, scale * (end - begin))],
                (rows.index(fault.where) - bar / 2.0, bar),
                facecolors="none",
                edgecolors=TEXT,
                hatch=_FAULT_HATCH,
                linewidth=0.3,
            )


def name_lanes(axes: Axes, names: Sequence[str]) -> None:
    shown = [name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 1]}…" for name in names]
    axes.set_yticks(range(len(names)), shown, fontsize=7.5, color=TEXT, parse_math=False)
    axes.tick_params(axis="y", length=0.0)
    axes.tick_params(axis="x", labelsize=7.5, color=EDGE, labelcolor=TEXT, length=3.0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(EDGE)


def _spent_in_words(lanes: Sequence[Lane]) -> str:
    """``whole run: local 71 %, communication 9 %, idle 20 %``"""
    sums = np.sum([lane.spent for lane in lanes], axis=0)
    shares = 100.0 * sums / (sums.sum() or 1.0)
    return "whole run: " + ", ".join(f"{kind} {share:.0f} %" for kind, share in zip(KINDS, shares, strict=True))
