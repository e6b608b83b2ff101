"""The export for Slurm, and its script in a real Slurm of three machines (marker slurm; scripts/campaign --ci)."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from by_hand import digest_of_loop
from network.test_deploy_page import blocks
from processes import DEADLINE_S, wait_until

from drom_net.config.load import load_config
from drom_net.config.model import config_digest
from drom_net.core.names import safe_names
from drom_net.results.run_directory import load_summary

DATA = "data: {dataset: synthetic, tasks: %d, examples: %d, dim: 8}\ncheckpoint: {every_s: 0.2}\n"
STAR = "algorithm: {name: drom}\n" + DATA
RING = "algorithm: {name: drom-d, tau: 2}\ntopology: {graph: ring}\n" + DATA
RANDOM = "algorithm: {name: drom-d}\ntopology: {graph: erdos-renyi, probability: 0.5, graph_seed: 3}\n" + DATA
FILES = (
    "data: {files: '{task}.csv', tasks: [short, a, b, c], columns: {x: number, y: number}, pace_s: 0.1}\n"
    "checkpoint: {every_s: 0.2}\n"
)
LAYOUTS = {"star": STAR, "ring": RING, "random": RANDOM}
Export = Callable[..., Path]


def test_a_rank_starts_the_node_of_its_line_whatever_the_site_is_called(export: Export, tmp_path: Path) -> None:
    names = ["Leeds General", "York/St Mary", "reducer", "a", "A", "$(x) ` \"'"]
    folder = export(
        "slurm",
        f"algorithm: {{name: drom}}\ndata: {{files: all.csv, task_column: site, "
        f"tasks: {json.dumps(names)}, columns: {{x: number}}}}\n",
    )
    nodes = ["reducer", *safe_names(names)]
    assert (folder / "nodes.txt").read_text().splitlines() == nodes
    (tmp_path / "logs").mkdir()
    program = tmp_path / "drom-net"
    program.write_text('#!/bin/sh\necho "$1 $DROM_NET_TASK"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {"PATH": path, "DROM_NET_OUT": str(tmp_path), "DROM_NET_FIRST_PORT": "5000"}
    for rank, node in enumerate(nodes):
        subprocess.run(["./node.sh"], cwd=folder, env=environment | {"SLURM_PROCID": str(rank)}, check=True)
        said = (tmp_path / "logs" / f"{node}.log").read_text().split()
        assert said == (["worker", node] if rank else ["reducer"])


@pytest.mark.parametrize(("layout", "tasks"), [("star", 1), ("star", 1000), ("ring", 4), ("ring", 1000), ("random", 4)])
def test_what_is_written(layout: str, tasks: int, export: Export, tmp_path: Path) -> None:
    folder = export("slurm", LAYOUTS[layout] % (tasks, 50))
    assert {path.name for path in folder.iterdir()} == {"cluster.yaml", "nodes.txt", "job.sh", "node.sh"}
    config, original = load_config(folder / "cluster.yaml"), load_config(tmp_path / "deploy.yaml")
    names = [f"task-{task:0{max(2, len(str(tasks)))}}" for task in range(1, tasks + 1)]
    nodes = (folder / "nodes.txt").read_text().split()
    assert nodes == (["reducer", *names] if layout == "star" else names)
    assert config_digest(config, names) == config_digest(original, names)
    assert config.name == "deploy"  # and not what the script calls its copy
    assert config.security.keys == str(folder / "keys")
    assert (config.reducer.endpoint, config.peers.endpoints) == (None, None)
    assert config.topology is None or config.topology.graph in ("ring", "edges")
    job = (folder / "job.sh").read_text()
    assert f"--ntasks={len(nodes)} " in job
    assert "@" not in job.replace("TERM@60", "").replace("[@]", "")
    for script in ("job.sh", "node.sh"):
        subprocess.run(["bash", "-n", folder / script], check=True)
        assert stat.S_IMODE((folder / script).stat().st_mode) & 0o111


class Slurm:
    """Three machines, and a drom-net on the path of their jobs."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        done = subprocess.run(
            command, cwd=cwd, env=self.environment, timeout=4 * DEADLINE_S, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, folder: Path, *options: str) -> str:
        """The number of a job on all machines."""
        return self.run("sbatch", "--parsable", "--nodes=3", *options, "job.sh", cwd=folder)

    def told(self, job: str) -> dict[str, str]:
        said = self.run("scontrol", "-o", "show", "job", job)
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def minutes_of(self, job: str) -> int:
        """For so many whole minutes it has run."""
        hours, minutes, _ = self.told(job)["RunTime"].split(":")
        return 60 * int(hours) + int(minutes)

    def end_of(self, job: str) -> tuple[str, str]:
        """(how it has ended, its exit code)"""
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        wait_until(lambda: self.told(job)["JobState"] in ends, f"the end of job {job}", deadline_s=4 * DEADLINE_S)
        told = self.told(job)
        return told["JobState"], told["ExitCode"].partition(":")[0]


@pytest.fixture(scope="module")
def slurm(shared_labs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    tools = ("slurmctld", "slurmd", "sbatch", "munged")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        reason = f"a Slurm of one's own needs root and the packages slurmctld, slurmd, slurm-client, munge: {missing}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("slurm")
    command = home / "bin" / "drom-net"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m drom_net "$@"\n')
    command.chmod(0o755)
    lab = ["bash", str(shared_labs / "slurmlab.sh")]
    environment = os.environ | {
        "SLURM_LAB": str(home / "lab"),
        "SLURM_CONF": str(home / "lab" / "slurm.conf"),
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    try:
        with (home / "start.txt").open("w") as said:
            subprocess.run([*lab, "start", "3"], env=environment, stdout=said, stderr=said, check=True)
        yield Slurm(environment)
    finally:
        subprocess.run([*lab, "stop"], env=environment, check=True)


def prepared(slurm: Slurm, export: Export, text: str) -> Path:
    folder = export("slurm", text)
    slurm.run("drom-net", "keys", "create", "cluster.yaml", cwd=folder)
    return folder


def said_in(folder: Path) -> str:
    """By the jobs, and by their nodes."""
    return "".join(path.read_text() for path in [*folder.glob("slurm-*.txt"), *folder.glob("run/logs/*.log")])


def result_of(folder: Path) -> dict[str, Any]:
    return load_summary(folder / "run")


@pytest.mark.slurm
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("layout", ["star", "ring"])
def test_a_job_on_three_machines(layout: str, slurm: Slurm, export: Export) -> None:
    folder = prepared(slurm, export, LAYOUTS[layout] % (7, 200))
    ended = slurm.end_of(slurm.submit(folder))
    assert ended == ("COMPLETED", "0"), said_in(folder)
    assert result_of(folder)["digest"] == digest_of_loop(folder / "cluster.yaml")
    assert slurm.end_of(slurm.submit(folder)) == ("COMPLETED", "0")  # there is nothing left to do, and it says so
    assert "has finished before" in said_in(folder)
    (folder / "cluster.yaml").write_text((folder / "cluster.yaml").read_text().replace("\nseed: 0\n", "\nseed: 1\n"))
    assert slurm.end_of(slurm.submit(folder))[1] == "2", "another configuration is another run: not the old result"
    assert "has the result of a run, which is not overwritten" in said_in(folder)
    assert not list(folder.glob(".*.yaml"))


@pytest.mark.slurm
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("layout", ["star", "ring"])
@pytest.mark.parametrize("how", ["cancelled", "at its time limit"])
def test_a_job_that_is_ended_in_the_middle_goes_on_when_it_is_submitted_again(
    how: str, layout: str, slurm: Slurm, export: Export, tmp_path: Path
) -> None:
    """One of its tasks is shorter, and has finished by then."""
    drawn = random.Random(5)
    for name, rows in {"short": 5, "a": 3000, "b": 3000, "c": 2000}.items():
        lines = [f"{drawn.gauss(0, 1):.3f},{drawn.gauss(0, 1):.3f},{drawn.randint(0, 1)}\n" for _ in range(rows)]
        (tmp_path / f"{name}.csv").write_text("x,y,label\n" + "".join(lines))
    folder = prepared(slurm, export, LAYOUTS[layout].replace(DATA, FILES))
    nodes = (folder / "nodes.txt").read_text().split()
    job = slurm.submit(folder, "--time=10", "--signal=TERM@40")
    result = folder / "run" / "nodes" / "short" / "result.json"
    wait_until(
        lambda: result.exists() and '"finished": true' in result.read_text(),
        "the end of the short task",
        deadline_s=4 * DEADLINE_S,
    )
    for name in nodes:
        kept = (folder / "run" / "nodes" / name).glob
        wait_until(
            lambda kept=kept: list(kept("snapshot-*.drom")),
            f"a snapshot of {name}: {said_in(folder)}",
            deadline_s=4 * DEADLINE_S,
        )
    if how == "cancelled":
        slurm.run("scancel", job)
        assert slurm.end_of(job)[0] == "CANCELLED"
    else:
        slurm.run("scontrol", "update", f"JobId={job}", f"TimeLimit={slurm.minutes_of(job) + 2}")
        assert slurm.end_of(job) == ("FAILED", "143"), said_in(folder)
        assert "goes on from the last snapshots" in said_in(folder)
    assert not (folder / "run" / "model.npz").exists()
    file = folder / "cluster.yaml"
    file.write_text(file.read_text().replace("pace_s: 0.1", "pace_s: 0.0"))
    job = slurm.submit(folder)
    assert slurm.end_of(job) == ("COMPLETED", "0"), said_in(folder)
    assert said_in(folder).count("going on from the snapshot") == len(nodes) - 1
    assert result_of(folder)["digest"] == digest_of_loop(file)


@pytest.mark.slurm
@pytest.mark.process
@pytest.mark.slow
def test_a_mistake_is_the_jobs_exit_code(slurm: Slurm, export: Export) -> None:
    folder = export("slurm", "timeouts: {join_s: 1}\n" + STAR % (2, 50))
    assert slurm.end_of(slurm.submit(folder)) == ("FAILED", "2")
    assert "expected the list of public keys" in said_in(folder)


@pytest.mark.slurm
@pytest.mark.process
@pytest.mark.slow
def test_what_the_page_says(slurm: Slurm, tmp_path: Path) -> None:
    """docs/deploy.md, word by word."""
    (file,) = [text for language, text in blocks("What every way needs") if language == "yaml"]
    (tmp_path / "cluster.yaml").write_text(file)
    (keys,) = [text for _, text in blocks("What every way needs") if text.startswith("drom-net")]
    first, again = (text for _, text in blocks("Slurm"))
    said = slurm.run("bash", "-euc", keys + first, cwd=tmp_path)
    assert slurm.end_of(said.split()[-1]) == ("COMPLETED", "0"), said_in(tmp_path / "deploy")
    assert result_of(tmp_path / "deploy")["digest"] == digest_of_loop(tmp_path / "cluster.yaml")
    assert first.endswith(again)
