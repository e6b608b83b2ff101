"""Reports on disk: pictures with something on them and the same bytes again, numbers that come back as they were."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from drom_net.comparison.pages import write_report
from drom_net.plots.report import draw_picture
from drom_net.results.report import Panel, Picture, Reference, Report, Series, Table

LINES = Panel(
    "a title with $ and _",
    "rounds",
    "error (%)",
    [
        Series(f"line {place}", [1.0, 2.0, 3.0], [3.0, 2.0 + place, 1.0], [2.5, 1.5, 0.5], [3.5, 4.5, 1.5])
        for place in range(12)
    ],
    references=[Reference("paper", 2.0)],
    y_limits=(0.0, 5.0),
)
POINTS = Panel("points", "learner", "points", [Series("difference", [0, 1], [1.0, -1.0], [0.5, -2.0], [1.5, 0.0])],
               points=True, ticks=["one", "two"])  # fmt: skip
PICTURE = Picture([LINES, POINTS, LINES], columns=2)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_are_made_and_have_the_same_bytes_again(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        draw_picture(PICTURE, tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_a_picture_is_wide_enough_for_print_and_not_empty(tmp_path: Path) -> None:
    from matplotlib.image import imread

    draw_picture(PICTURE, tmp_path / "picture.png")
    pixels = imread(tmp_path / "picture.png")
    assert pixels.shape[1] == 2100  # 7 inches of 300 dots
    dark = pixels[:, :, :3].mean(axis=2) < 0.5
    half = pixels.shape[1] // 2
    assert 0.005 < dark[:, :half].mean() < 0.5
    assert 0.001 < dark[:, half:].mean() < 0.5


def test_a_report_is_a_page_with_its_numbers(tmp_path: Path) -> None:
    rows = [["a", 0.1 + 0.2, None], ["b|c", 1e-17, 3]]
    tables = {"numbers": Table(["name", "value", "count"], rows), "long": Table(["x"], [[1.0]], on_page=False)}
    write_report(Report("test", "A title", "The text.", tables, {"shown": PICTURE}), tmp_path)
    with (tmp_path / "numbers.csv").open(newline="") as file:
        columns, *read = csv.reader(file)
    assert columns == ["name", "value", "count"]
    assert [[name, float(value), int(count) if count else None] for name, value, count in read] == rows
    page = (tmp_path / "README.md").read_text()
    assert page.startswith("# A title\n\nThe text.\n")
    assert "| a | 0.3 |  |" in page and "b\\|c" in page
    assert "(long.csv)" in page and "| x |" not in page
    for name in ("shown.png", "shown.svg"):
        assert name in page and (tmp_path / name).stat().st_size > 1000
