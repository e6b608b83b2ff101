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


def output_of(script: str, arguments: list[str], folder: Path) -> str:
    """What a script of this checkout prints, which ends with 0."""
    command = [sys.executable, str(Path(__file__).parents[1] / script), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=2 * DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", ["star", *(pytest.param(name, marks=pytest.mark.large) for name in ("ring", "learners"))]
)
def test_a_cluster_is_measured_beside_bare_ones(name: str, tmp_path: Path) -> None:
    arguments = ["--tasks", "3", "--dims", "200", "--passes", "1", "--seconds", "0.001", "--json"]
    out = output_of(f"benchmarks/{name}.py", arguments, tmp_path)
    rows = json.loads(out[out.index("\n[") :])
    found = [row["contestant"] for row in rows]
    assert found[: len(CONTESTANTS[name])] == CONTESTANTS[name]
    assert all(row["rounds"] == 100 for row in rows)


def test_a_cluster_is_measured_with_and_without_somebody_who_watches(tmp_path: Path) -> None:
    arguments = ["--tasks", "2", "--passes", "1", "--seconds", "0.1", "--only", "watched", "--json"]
    out = output_of("benchmarks/watching.py", arguments, tmp_path)
    bare, watched = json.loads(out[out.index("\n[") :])
    assert (bare["contestant"], watched["contestant"]) == ("bare", "watched")
    assert bare["rounds_per_s"] > 0 and watched["watch_share_of_a_core"] > 0 == bare["watch_share_of_a_core"]


def test_live_sources_are_put_under_load_and_what_was_accepted_is_checked(tmp_path: Path) -> None:
    arguments = ["--tasks", "2", "--rate", "100", "--seconds", "2", "--layout", "star", "--kill"]
    out = output_of("scripts/live.py", arguments, tmp_path)
    assert "no accepted example was lost or doubled" in out
    assert "latency of a prediction: median" in out
