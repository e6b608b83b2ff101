"""Two hundred tasks as processes of one machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """
algorithm: {name: drom}
data: {dataset: synthetic, tasks: 200, examples: 40}
"""


@pytest.mark.large
def test_200_tasks_start_and_finish_with_the_bits_of_the_loop(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(CONFIG)
    digests = []
    for driver in ("processes", "reference"):
        out = tmp_path / driver
        command = [
            sys.executable,
            "-P",
            "-m",
            "drom_net",
            "run",
            str(file),
            "--driver",
            driver,
            "--out",
            str(out),
            "--json",
        ]
        summary = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        digests.append(summary["digest"])
        print(driver, summary["seconds"], summary.get("processes"))
    assert digests[0] == digests[1]
