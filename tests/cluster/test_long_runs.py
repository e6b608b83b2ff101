"""A run outlasts the bounds of its waits, as long as nobody is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from by_hand import free_endpoint
from processes import family

pytestmark = pytest.mark.process


def run(folder: Path, algorithm: str, examples: int, where: str) -> float:
    """Run it, and see that nothing was lost; how many seconds it took."""
    folder.mkdir()
    config = folder / "long.yaml"
    meet = f"ipc://{folder}/meet" if where == "ipc" else free_endpoint()
    config.write_text(
        f"algorithm: {{name: {algorithm}}}\n"
        f"data: {{dataset: synthetic, tasks: 3, examples: {examples}, dim: 5}}\n"
        f"reducer: {{endpoint: '{meet}'}}\n"
        "timeouts: {lost_s: 3, heartbeat_s: 1}\n"
    )
    with family(folder) as processes:
        code, out, err = processes.run("run", str(config), "--out", "run", "--json")
        assert code == 0, err
        summary = json.loads(out)
        assert (summary["status"], summary["examples"]) == ("finished", 3 * examples)
        logs = [path.read_text() for path in (folder / "run" / "logs").iterdir()]
        assert logs
        for said in (err, *logs):
            assert "lost" not in said
            assert "connect" not in said
        assert not processes.alive()
    return float(summary["seconds"])


@pytest.mark.slow
@pytest.mark.parametrize("where", ["tcp", "ipc"])
@pytest.mark.parametrize(("algorithm", "examples"), [("drom", 6_000), ("local", 120_000)])
def test_a_run_longer_than_lost_s_finishes_and_tells_of_no_lost_connection(
    where: str, algorithm: str, examples: int, tmp_path: Path
) -> None:
    """A connection that is up was once taken for lost, and a run for failed as soon as lost_s had passed."""
    for attempt in range(4):  # a fast machine needs more to do
        if run(tmp_path / str(attempt), algorithm, examples << attempt, where) > 4.0:
            return
    pytest.fail("no run was long enough to show anything")
