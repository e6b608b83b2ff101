"""Figures 3 and 4 made again in small, and what the command refuses."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from drom_net.comparison import figures as run_figures
from reproduction import figures
from reproduction.__main__ import main
from reproduction.figures import PaperData


def rows_of(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_name_that_is_none_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure-9", "--out", str(tmp_path / "out")]) == 2
    assert 'got "figure-9"' in capsys.readouterr().err


def test_the_figures_are_made_again_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "DATA", (PaperData("synthetic", "A title", 5.31, 95.63),))
    monkeypatch.setattr(figures, "QUICK_ROUNDS", 12)
    monkeypatch.setattr(figures, "line_names", lambda: ("drom", "local", "pooled"))
    monkeypatch.setattr(run_figures, "CURVE_POINTS", 6)
    arguments = ["figure-3", "figure-4", "--quick", "--jobs", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    err = capsys.readouterr().err
    # The level without noise is what Figure 3 has run already.
    assert "9 of 27 runs are there already" in err
    assert (tmp_path / "README.md").read_text().count("README.md)") == 2
    for name in ("figure-3", "figure-4"):
        assert (tmp_path / name / f"{name}.png").stat().st_size > 10_000
        page = (tmp_path / name / "README.md").read_text()
        assert "Made with --quick" in page and "| pooled |" in page
    curves = rows_of(tmp_path / "figure-3" / "curves.csv")
    assert {row["learner"] for row in curves} == {"drom", "local", "pooled"}
    assert {row["round"] for row in curves if row["figure"] == "error_rate"} == {"1", "3", "5", "8", "10", "12"}
    noise = rows_of(tmp_path / "figure-4" / "noise.csv")
    assert [row["flip"] for row in noise if row["learner"] == "local"] == ["0.0", "0.1", "0.25"]
    clean = next(row for row in noise if row["flip"] == "0.0")
    assert clean["accuracy_clean_mean"] == clean["accuracy_seen_mean"]
