"""The command line in odd surroundings: files in the way, closed streams, names that no terminal shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from drom_net.cli import main

DATA = "data: {dataset: synthetic, tasks: 2, examples: 10, dim: 3}\n"
STAR = f"algorithm: {{name: drom}}\n{DATA}reducer: {{endpoint: 'ipc://mine.csv'}}\n"
RING = f"algorithm: {{name: drom-d}}\ntopology: {{graph: ring}}\n{DATA}peers: {{endpoints: ['ipc://mine.csv', 'ipc://b']}}\n"
LIVE = """
algorithm: {name: drom}
data: {dataset: live, tasks: [north], features: [x]}
source: {bind: 'ipc://mine.csv'}
reducer: {endpoint: 'ipc://meet'}
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", [STAR, RING, LIVE])
@pytest.mark.parametrize("by_hand", [[], ["--out", "o"], ["--out", "o", "--task", "0"]])
def test_a_socket_replaces_no_file(text: str, by_hand: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`check` tells; `run` and the node that would listen there refuse."""
    Path("mine.csv").write_text("a year of measurements")
    Path("c.yaml").write_text(text)
    role = "peer" if "ring" in text else "worker"
    commands = {0: ["check", "c.yaml"], 2: ["run", "c.yaml", *by_hand], 4: [role, "c.yaml", *by_hand]}
    if text == STAR and len(by_hand) == 4:
        commands[4] = ["reducer", "c.yaml", "--out", "o"]
    assert main(commands[len(by_hand)]) == 2
    assert capsys.readouterr().err == (
        "error: ipc://mine.csv: expected a free name for a socket, got mine.csv, which is a file and stays\n"
    )
    assert Path("mine.csv").read_text() == "a year of measurements"
    assert not Path("o").exists()
