"""What a reproduction makes: numbers as tables, pictures as data, and a page. Pure values; others draw and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """One CSV file, and the same on the page."""

    columns: Sequence[str]
    """Units end a name: error_rate, seconds_per_round."""
    rows: Sequence[Sequence[Cell]]
    """None is an empty cell."""
    on_page: bool = True
    """Else the page only names the file: it is long, or the text has it in other words."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel, or one row of points."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """With `high` a band around the line, or an error bar around each point."""
    high: Sequence[float] | None = None
    guide: bool = False
    """A line to compare slopes with: thin, grey, without markers."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A value to compare with, such as the paper's: a horizontal line."""

    label: str
    y: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    """With the unit in parentheses, where there is one."""
    y_label: str
    series: Sequence[Series]
    references: Sequence[Reference] = ()
    log_x: bool = False
    log_y: bool = False
    points: bool = False
    """Points with error bars in place of lines; x counts categories, whose names `ticks` has."""
    ticks: Sequence[str] = ()
    y_limits: tuple[float, float] | None = None
    """What is shown of y; by default all."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure: its panels row by row, with one legend."""

    panels: Sequence[Panel]
    columns: int
    """How many panels stand side by side."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that one reproduction leaves."""

    name: str
    """As it is called: figure-3, table-1, regret."""
    title: str
    text: str
    """Markdown without its title: what was done, what came out, what the paper has; tables and pictures follow it."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """By file name without ending."""
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    """By file name without ending; each becomes a PNG and an SVG."""
