"""The promise of equal bits: the plain loop and real processes give one digest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import CONFIGS, DEADLINE_S, family

pytestmark = pytest.mark.process

CASES = {
    "digits-sites": ("quickstart.yaml", ["--set", "rounds=25"]),
    "synthetic": ("synthetic-12.yaml", ["--set", "rounds=25"]),
    "synthetic, alone": ("synthetic-12.yaml", ["--set", "rounds=25", "--set", "algorithm.name=local"]),
    "sums of integers": ("quickstart.yaml", ["--set", "algorithm.name=adadrom", "--set", "rounds=50"]),
    "sums of integers along a tree": ("ring-12.yaml", ["--set", "algorithm.name=adadrom", "--set", "rounds=42"]),
    "a power iteration by sums": ("quickstart.yaml", ["--set", "algorithm.solver=sums", "--set", "rounds=25"]),
    "models averaged now and then": ("quickstart.yaml", ["--set", "algorithm.name=fed-avg", "--set", "rounds=50"]),
    "models averaged on a ring": ("ring-12.yaml", ["--set", "algorithm.name=fed-avg-d", "--set", "rounds=42"]),
    "shared mirror descent": ("quickstart.yaml", ["--set", "algorithm.name=mt-omd", "--set", "rounds=40"]),
    "alike neighbors": ("quickstart.yaml", ["--set", "algorithm.name=mt-co2ol", "--set", "rounds=40"]),
    "alike neighbors on a ring": ("ring-12.yaml", ["--set", "algorithm.name=mt-co2ol-d", "--set", "rounds=42"]),
    "a ring without a centre": ("ring-12.yaml", ["--set", "rounds=40"]),
    "a full graph, every round": ("full-4.yaml", ["--set", "rounds=25", "--set", "algorithm.tau=1"]),
    "a grid, delayed": ("grid-12.yaml", ["--set", "rounds=42", "--set", "algorithm.exchange=delayed"]),
    "a random graph, blocking, unequal": (
        "zeta50-30.yaml",
        ["--set", "data.alignment=spread", "--set", "algorithm.exchange=blocking", "--set", "rounds=40"],
    ),
    "outliers and unequal streams": (
        "quickstart.yaml",
        ["--set", "algorithm.xi=0.8", "--set", "data.alignment=spread", "--set", "data.flip=0.1"],
    ),
}


TWICE = ("digits-sites", "a ring without a centre")
"""The others are run once."""


@pytest.mark.parametrize("case", CASES)
def test_loop_and_processes_give_one_digest(case: str, tmp_path: Path) -> None:
    """Issue, "must show" 2: twice in a row."""
    config, changes = CASES[case]
    drivers = ["reference", "processes", *["processes"] * (case in TWICE)]
    digests = [run(tmp_path, name, config, changes) for name in drivers]
    assert len(set(digests)) == 1


@pytest.mark.parametrize(
    ("config", "changes", "rounds", "examples"),
    [
        ("quickstart.yaml", ["data.passes=2", "data.flip=0.2"], 300, 2 * 1797),  # nine sites have one example more
        ("star-4.yaml", ["data.passes=1000000", "rounds=250"], 250, 4 * 250),
        ("ring-12.yaml", ["data.passes=2", "data.alignment=spread", "rounds=310"], 310, 2 * 1797),
    ],
)
def test_passes_give_one_digest_by_all_drivers(
    config: str, changes: list[str], rounds: int, examples: int, tmp_path: Path
) -> None:
    settings = [word for change in changes for word in ("--set", change)]
    digests = [run(tmp_path, driver, config, settings) for driver in ("reference", "processes", "simulation")]
    assert len(set(digests)) == 1
    summary = json.loads((tmp_path / "run-1" / "summary.json").read_text())
    assert (summary["rounds"], summary["examples"]) == (rounds, examples)


def test_the_amazon_reviews_give_one_digest(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue, "must show" 2: sparse rows of a real data set."""
    monkeypatch.setenv("DROM_NET_DATA", str(shared_data))
    changes = ["--set", "rounds=40", "--set", "algorithm.name=drom"]
    digests = [run(tmp_path, name, "amazon.yaml", changes) for name in ("reference", "processes")]
    assert len(set(digests)) == 1


def test_another_seed_gives_another_digest(tmp_path: Path) -> None:
    changes = ["--set", "rounds=5"]
    first = run(tmp_path, "reference", "synthetic-12.yaml", changes)
    assert first != run(tmp_path, "reference", "synthetic-12.yaml", [*changes, "--set", "seed=1"])


def run(folder: Path, driver: str, config: str, changes: list[str]) -> str:
    """The digest of one run, checked by `drom-net verify` as well."""
    number = len(list(folder.iterdir()))
    out = f"run-{number}"
    with family(folder) as processes:
        code, stdout, stderr = processes.run(
            "run",
            str(CONFIGS / config),
            "--driver",
            driver,
            "--out",
            out,
            "--json",
            *changes,
            deadline_s=4 * DEADLINE_S,
        )  # one case has 30 peers
        assert code == 0, stderr
        assert processes.run("verify", out)[0] == 0
        assert not processes.alive()
    summary = json.loads(stdout)
    assert summary["digest"] == json.loads((folder / out / "summary.json").read_text())["digest"]
    assert (summary["driver"], summary["status"]) == (driver, "finished")
    return str(summary["digest"])
