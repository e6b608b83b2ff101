"""The benchmarks still run, on clusters too small to say anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import DEADLINE_S

pytestmark = [pytest.mark.process, pytest.mark.slow]

CONTESTANTS = {
    "star": ["drom_net", "curve", "bare", "one frame", "idle"],
    "ring": ["blocking", "overlap", "curve", "bare", "learner", "idle"],
    "learners": ["drom", "adadrom tau 1", "adadrom", "adadrom tau 0", "local"],
}


@pytest.mark.parametrize(
    "name", ["star", *(pytest.param(name, marks=pytest.mark.large) for name in ("ring", "learners"))]
)
def test_a_cluster_is_measured_beside_bare_ones(name: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    arguments = ["--tasks", "3", "--dims", "200", "--passes", "1", "--seconds", "0.001", "--json"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=2 * DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout[done.stdout.index("\n[") :])
    found = [row["contestant"] for row in rows]
    assert found[: len(CONTESTANTS[name])] == CONTESTANTS[name]
    assert all(row["rounds"] == 100 for row in rows)


def test_a_cluster_is_measured_with_and_without_somebody_who_watches(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "watching.py"
    arguments = ["--tasks", "2", "--passes", "1", "--seconds", "0.1", "--only", "watched", "--json"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=2 * DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    bare, watched = json.loads(done.stdout[done.stdout.index("\n[") :])
    assert (bare["contestant"], watched["contestant"]) == ("bare", "watched")
    assert bare["rounds_per_s"] > 0 and watched["watch_share_of_a_core"] > 0 == bare["watch_share_of_a_core"]


def test_live_sources_are_put_under_load_and_what_was_accepted_is_checked(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "scripts" / "live.py"
    arguments = ["--tasks", "2", "--rate", "100", "--seconds", "2", "--layout", "star", "--kill"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=2 * DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    assert "no accepted example was lost or doubled" in done.stdout
    assert "latency of a prediction: median" in done.stdout
