"""Runs whose processes keep no rows, as for weeks: the same result, and less to look at."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from by_hand import digest_of_loop, start_star
from processes import DEADLINE_S, family, wait_until

pytestmark = pytest.mark.process

DATA = "data: {dataset: synthetic, tasks: 3, examples: 120, dim: 5, pace_s: 0.05}\ncheckpoint: {every_rounds: 5}\n"
STAR = f"algorithm: {{name: drom}}\nkeep_records: false\n{DATA}"
RING = f"algorithm: {{name: drom-d, tau: 2}}\ntopology: {{graph: ring}}\nkeep_records: false\n{DATA}"


def test_records_that_were_lost_are_not_taken_for_none_that_were_kept(tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        config = tmp_path / "star.yaml"
        config.write_text(
            STAR.replace("keep_records: false\n", "") + f"reducer: {{endpoint: 'ipc://{tmp_path}/meet'}}\n"
        )
        started = start_star(processes, config, range(3), out="run")
        assert [process.wait(DEADLINE_S) for process in started] == [0] * 4
        (tmp_path / "run" / "nodes" / "task-01" / "records.bin").write_bytes(b"")
        assert processes.run("merge", "run")[0] == 0
        code, _, err = processes.run("verify", "run")
        assert code == 1 and "is not as it was written" in err


@pytest.mark.parametrize("text", [STAR, RING], ids=["star", "ring"])
def test_a_run_without_records_goes_on_after_its_end_and_gives_the_same(text: str, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(text)
    nodes = tmp_path / "run" / "nodes"
    with family(tmp_path) as processes:
        launcher = processes.start("run", str(config), "--out", "run", "--json")
        wait_until(lambda: len(list(nodes.glob("*/snapshot-*"))) >= 3, "snapshots")
        assert not list(nodes.glob("*/*.bin"))
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate()
        code, out, err = processes.run("run", "--resume", "run", "--json")
        assert code == 0, err
        summary = json.loads(out)
        assert summary["digest"] == digest_of_loop(config)
        assert (summary["status"], summary["examples"], summary["keep_records"]) == ("finished", 360, False)
        assert summary["auc"] is None and summary["tasks"][0]["auc"] is None
        assert summary["log_loss"] > 0.0 < summary["majority_errors"]
        for command in ("verify", "replay"):
            code, _, err = processes.run(command, "run")
            assert (code, err) == (2, "error: run has no records to compare with: its file says keep_records: false\n")
        assert processes.run("show", "run")[0] == 0
