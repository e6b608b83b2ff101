"""Whatever ends a run, no process and no file descriptor stays behind, and what was learned is saved."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from by_hand import free_endpoint
from processes import CONFIGS, DEADLINE_S, Family, family, read_until

from drom_net.cli import main

pytestmark = [pytest.mark.process, pytest.mark.large]


def long_run(processes: Family, folder: Path, *more: str) -> tuple[str, list[str]]:
    config = folder / "long.yaml"
    config.write_text("algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 3, examples: 300000, dim: 5}\n")
    return str(config), ["run", str(config), "--out", "run", *more]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_saves_what_was_learned(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        _, arguments = long_run(processes, tmp_path)
        launcher = processes.start(*arguments)
        read_until(launcher, "sigma_1")
        assert len(processes.alive()) == 5
        launcher.send_signal(number)
        launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == code
        assert not processes.alive()
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert summary["status"] == "interrupted"
        assert 0 < summary["examples"] < 900_000
        assert processes.run("verify", "run")[0] == 0


def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    """A node that does not react holds up the end in order; the second Ctrl-C does not wait for it."""
    with family(tmp_path) as processes:
        _, arguments = long_run(processes, tmp_path)
        launcher = processes.start(*arguments)
        read_until(launcher, "sigma_1")
        victim = next(number for number, command in processes.alive().items() if "task-02/spec.json" in command)
        os.kill(victim, signal.SIGSTOP)
        launcher.send_signal(signal.SIGINT)
        read_until(launcher, "ending in order")
        for _ in range(round(DEADLINE_S)):  # within a second they are one wish
            launcher.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                launcher.wait(1.0)
                break
        _, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 130
        assert "ended at once by a second signal" in err
        assert not processes.alive()


def test_the_plain_loop_too_ends_in_order(tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        _, arguments = long_run(processes, tmp_path, "--driver", "reference")
        launcher = processes.start(*arguments)
        read_until(launcher, "sigma_1")
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 130
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "interrupted"


def test_a_killed_launcher_leaves_no_orphans(tmp_path: Path) -> None:
    """Accident 38."""
    with family(tmp_path) as processes:
        _, arguments = long_run(processes, tmp_path)
        launcher = processes.start(*arguments)
        read_until(launcher, "sigma_1")
        launcher.kill()
        launcher.wait(timeout=DEADLINE_S)
        processes.wait_for_all()
        assert not processes.alive()
        assert not list((tmp_path / "run").rglob("examples"))  # no copy of the data stays either


def test_accident_29_a_worker_that_fails_ends_the_run_and_is_named(tmp_path: Path) -> None:
    config = tmp_path / "diverges.yaml"
    config.write_text(
        "algorithm: {name: local, eta0: 1.0e+300, loss: squared_hinge}\n"
        "data: {dataset: synthetic, tasks: 3, examples: 100}\n"
    )
    with family(tmp_path) as processes:
        code, out, err = processes.run("run", str(config), "--out", "run")
        assert code == 1
        assert out == ""
        assert "failed with exit code 1: the learner diverged in round" in err
        assert "algorithm.eta0" in err
        assert "Traceback" not in err
        assert not processes.alive()


def test_a_killed_worker_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """Accidents 1 and 29."""
    with family(tmp_path) as processes:
        _, arguments = long_run(processes, tmp_path)
        launcher = processes.start(*arguments)
        read_until(launcher, "sigma_1")
        victim = next(number for number, command in processes.alive().items() if "task-02/spec.json" in command)
        os.kill(victim, signal.SIGKILL)
        _, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 1
        assert "task-02 was killed by SIGKILL" in err
        assert not processes.alive()


def test_no_file_descriptor_stays_open(tmp_path: Path) -> None:
    arguments = ["run", str(CONFIGS / "synthetic-12.yaml"), "--set", "rounds=3", "--quiet"]
    assert main([*arguments, "--out", str(tmp_path / "first")]) == 0  # whatever is opened once and kept
    before = os.listdir("/proc/self/fd")
    assert main([*arguments, "--out", str(tmp_path / "second")]) == 0
    assert main([*arguments, "--out", str(tmp_path / "second")]) == 2  # it exists: an error leaves nothing either
    assert os.listdir("/proc/self/fd") == before


def test_a_run_whose_progress_nobody_can_read_goes_on(tmp_path: Path) -> None:
    """drom-net run .. 2>/dev/full: a progress line is not worth a run."""
    _, arguments = long_run(Family(tmp_path), tmp_path)
    config = tmp_path / "long.yaml"
    config.write_text(config.read_text().replace("300000", "9000"))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "drom_net", *arguments], cwd=tmp_path, stderr=full, stdout=subprocess.DEVNULL
        )
    assert done.returncode == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("started", [1, 2, 3])
def test_a_launcher_killed_while_it_starts_its_nodes_leaves_no_data_behind(started: int, tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        _, arguments = long_run(processes, tmp_path)
        launcher = processes.start(*arguments)
        logs = tmp_path / "run" / "logs"
        give_up_at = time.monotonic() + DEADLINE_S
        while not logs.is_dir() or len(list(logs.iterdir())) < started:
            assert time.monotonic() < give_up_at
            os.sched_yield()
        launcher.kill()
        launcher.wait(timeout=DEADLINE_S)
        processes.wait_for_all()
        assert not list((tmp_path / "run").rglob("examples"))
        assert not list((tmp_path / "run").rglob(".sockets/*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_peers_too_are_ended_in_order(number: signal.Signals, tmp_path: Path) -> None:
    config = tmp_path / "ring.yaml"
    config.write_text(
        "algorithm: {name: drom-d, tau: 2}\ntopology: {graph: ring}\n"
        "data: {dataset: synthetic, tasks: 4, examples: 300000, dim: 5}\n"
    )
    with family(tmp_path) as processes:
        launcher = processes.start("run", str(config), "--out", "run")
        while not re.search(r"round [1-9]\d*/", read_until(launcher, "round ")):
            pass
        launcher.send_signal(number)
        launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 128 + number
        assert not processes.alive()
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "interrupted"
        assert processes.run("verify", "run")[0] == 0


@pytest.mark.parametrize("how", ["run", "by hand", "compare"])
def test_nobody_imports_what_lies_where_it_is_started(how: str, tmp_path: Path) -> None:
    """security.md: a file secrets.py beside the data is no module, whoever is started there."""
    for name in ("queue", "secrets", "numpy", "random", "drom_net"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write('{name} ')\n")
    endpoint = free_endpoint()
    config = tmp_path / "s.yaml"
    data = "data: {dataset: synthetic, tasks: 1, examples: 20, dim: 3}"
    config.write_text(f"algorithm: {{name: local}}\n{data}\nreducer: {{endpoint: '{endpoint}'}}\n")
    few = ["--orders", "2", "--tuning-orders", "1"]
    drom_net = [str(Path(sys.executable).with_name("drom-net"))]
    commands = {
        "run": [["run", "s.yaml", "--out", "o"]],
        "by hand": [["reducer", "s.yaml", "--out", "o"], ["worker", "s.yaml", "--task", "0", "--out", "o"]],
        "compare": [
            ["compare", "s.yaml", "--algorithms", "local", "--settings", "1", *few, "--jobs", "2", "--out", "o"]
        ],
    }[how]
    started = [
        subprocess.Popen(
            [*drom_net, *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command in commands
    ]
    for process in started:
        said, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, said
    assert not (tmp_path / "RAN").exists(), (tmp_path / "RAN").read_text()


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_streams_are_in_nobodys_way(closed: str, tmp_path: Path) -> None:
    """Nor does a file take their place."""
    (tmp_path / "q.yaml").write_text("data: {dataset: synthetic, tasks: 1, examples: 20, dim: 3}\n")
    drom_net = Path(sys.executable).with_name("drom-net")
    for command in ("run q.yaml --out o", "predict o --task 0"):
        shell = f"exec {drom_net} {command} {closed}"
        done = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, input="", timeout=DEADLINE_S)
        assert b"Traceback" not in done.stderr
        assert done.returncode == (0 if "run" in command else done.returncode), done.stderr
    assert json.loads((tmp_path / "o" / "summary.json").read_text())["status"] == "finished"


def test_a_path_need_not_be_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "q.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 20, dim: 3}\n")
    drom_net = str(Path(sys.executable).with_name("drom-net"))
    for command in (
        ["run", str(folder / "q.yaml"), "--out", str(folder / "o"), "--json"],
        ["verify", str(folder / "o")],
    ):
        done = subprocess.run([drom_net, *command], cwd=tmp_path, capture_output=True, timeout=DEADLINE_S)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
