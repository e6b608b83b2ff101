"""The examples in docstrings and in docs/python.md run as they stand."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.parametrize("name", ["running", "results", "estimator", "river"])
def test_examples_in_docstrings_run(name: str) -> None:
    if name == "river":
        pytest.importorskip("river")
    module = import_module(f"drom_net.api.{name}")
    failed, tried = doctest.testmod(module)
    assert failed == 0
    assert tried > 0


def patients() -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    rows = 240
    age, ward = rng.integers(20, 90, rows), rng.choice(["A", "B"], rows)
    sick = age / 30.0 - 2.0 + (ward == "B") + 0.3 * rng.standard_normal(rows) > 0.0
    return pandas.DataFrame(
        {
            "hospital": rng.choice(["north", "south"], rows),
            "admitted": pandas.date_range("2026-01-01", periods=rows, freq="D").strftime("%Y-%m-%d"),
            "age": age,
            "ward": ward,
            "days": rng.normal(10.0, 3.0, rows).round(1),
            "readmitted": np.where(sick, "yes", "no"),
        }
    )


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("river")
    monkeypatch.chdir(tmp_path)
    patients().to_csv("patients.csv", index=False)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) > 9
    assert len(blocks[0].strip().splitlines()) <= 11  # ten lines, and one that is blank
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"python.md, block {number}", "exec"), names)
    told = capsys.readouterr().out
    assert 'expected a task column "hospitl"' in told
    assert '"hospital"?' in told
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"patients", "three"}


def test_the_page_names_everything() -> None:
    import drom_net

    text = PAGE.read_text(encoding="utf-8")
    for name in set(drom_net.__all__) - {"__version__"}:  # type: ignore[attr-defined]
        assert re.search(rf"\b{name}\b", text), name
    for kind in (drom_net.Run, drom_net.Site):
        for name in (name for name in vars(kind) if not name.startswith("_")):
            assert f"{name}" in text, name
