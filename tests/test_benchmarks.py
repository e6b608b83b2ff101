"""The benchmarks still run, on a star too small to say anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

STAR = Path(__file__).parents[1] / "benchmarks" / "star.py"


def test_the_star_is_measured_beside_bare_ones(tmp_path: Path) -> None:
    arguments = ["--tasks", "2", "--dims", "200", "--passes", "1", "--seconds", "0.001", "--json"]
    done = subprocess.run(
        [sys.executable, str(STAR), *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout[done.stdout.index("\n[") :])
    assert [row["contestant"] for row in rows][:4] == ["drom_net", "bare", "one frame", "idle"]
    assert all(row["rounds"] == 100 for row in rows)
