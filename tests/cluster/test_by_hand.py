"""Single processes started by hand: in any order, on whatever host, refused by name where they do not belong."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path

import pytest
from by_hand import free_endpoint, free_endpoints
from processes import CONFIGS, DEADLINE_S, PATIENCE, Family, family, read_until, wait_until

pytestmark = pytest.mark.process

STAR = str(CONFIGS / "star-4.yaml")


def digest_of(processes: Family, *arguments: str) -> str:
    code, out, err = processes.run("run", *arguments, "--driver", "reference", "--json")
    assert code == 0, err
    return str(json.loads(out)["digest"])


@pytest.mark.parametrize("where", ["tcp", "ipc"])
def test_workers_first_then_the_reducer_give_the_digest_of_the_loop(where: str, tmp_path: Path) -> None:
    """Issue, "must show" 3."""
    meet = free_endpoint() if where == "tcp" else f"ipc://{tmp_path}/meet"
    with family(tmp_path) as processes:
        workers = [
            processes.start("worker", STAR, "--task", task, "--endpoint", meet, "--out", "hand")
            for task in ("2", "0", "task-04", "1")
        ]
        for worker in workers:
            read_until(worker, f"looking for the reducer at {meet}")
        code, _, err = processes.run("reducer", STAR, "--bind", meet, "--out", "hand")
        assert code == 0, err
        assert [worker.wait(timeout=DEADLINE_S) for worker in workers] == [0, 0, 0, 0]
        expected = digest_of(processes, STAR, "--out", "loop")
        assert json.loads((tmp_path / "hand" / "summary.json").read_text())["digest"] == expected
        assert expected in err  # the reducer tells it to whoever started it
        assert processes.run("merge", "hand", "--out", "merged")[0] == 0
        assert processes.run("verify", "merged")[0] == 0
        assert json.loads((tmp_path / "merged" / "summary.json").read_text())["digest"] == expected
        assert (tmp_path / "merged" / "records.csv").read_text() == (tmp_path / "loop" / "records.csv").read_text()
        assert len((tmp_path / "merged" / "timeline.csv").read_text().splitlines()) == 1 + 4 * (200 + 2)


def test_a_node_whose_output_nobody_reads_holds_up_nobody(tmp_path: Path) -> None:
    """A terminal behind Ctrl-S, a pager at rest: what it has to say comes later."""
    meet = f"ipc://{tmp_path}/meet"
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 8192)
    os.write(writes, b"\n" * 8192)
    with family(tmp_path) as processes, os.fdopen(reads) as pipe:
        silent = [processes.start("worker", STAR, "--task", "0", "--endpoint", meet, "--out", "hand", stderr=writes)]
        silent.append(processes.start("run", STAR, "--json", "--out", "run", stderr=writes))
        os.close(writes)
        others = [
            processes.start("worker", STAR, "--task", str(task), "--endpoint", meet, "--out", "hand")
            for task in (1, 2, 3)
        ]
        code, _, err = processes.run("reducer", STAR, "--bind", meet, "--out", "hand")
        assert code == 0, err
        assert [other.wait(timeout=DEADLINE_S) for other in others] == [0, 0, 0]
        assert json.loads(str(silent[1].stdout and silent[1].stdout.read()))["rounds"] == 200
        said = pipe.read()
        assert [process.wait(timeout=DEADLINE_S) for process in silent] == [0, 0]
        assert f"looking for the reducer at {meet}" in said


def test_merge_adds_what_sharing_gained_which_no_reducer_knows(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "algorithm: {name: adadrom}\ndata: {dataset: synthetic, tasks: 2, examples: 60}\n"
        f"reducer: {{endpoint: '{free_endpoint()}'}}\n"
    )
    with family(tmp_path) as processes:
        nodes = [processes.start("worker", "s.yaml", "--task", str(task), "--out", f"host-{task}") for task in (0, 1)]
        nodes.append(processes.start("reducer", "s.yaml", "--out", "hub"))
        assert [node.wait(timeout=DEADLINE_S) for node in nodes] == [0, 0, 0]
        assert "sharing" not in json.loads((tmp_path / "hub" / "summary.json").read_text())
        code, out, err = processes.run("merge", "hub", "host-0", "host-1", "--out", "all")
        assert code == 0, err
        assert "gain  sharing" in out
        assert processes.run("run", "s.yaml", "--driver", "reference", "--out", "loop", "-q")[0] == 0
    merged, loop = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("all", "loop"))
    assert merged["sharing"] == loop["sharing"]
    assert [task["sharing"] for task in merged["tasks"]] == [task["sharing"] for task in loop["tasks"]]


def test_a_second_worker_of_one_task_is_rejected_and_the_first_goes_on(tmp_path: Path) -> None:
    """Accident 13."""
    meet = free_endpoint()
    with family(tmp_path) as processes:
        reducer = processes.start("reducer", STAR, "--bind", meet, "--out", "hand")
        first = processes.start("worker", STAR, "-k", "0", "--endpoint", meet, "--out", "hand")
        read_until(first, "joined")
        code, _, err = processes.run("worker", STAR, "-k", "0", "--endpoint", meet, "--out", "elsewhere")
        assert code == 3
        assert "task-01 is already here" in err
        others = [processes.start("worker", STAR, "-k", k, "--endpoint", meet, "--out", "hand") for k in "123"]
        assert [process.wait(timeout=DEADLINE_S) for process in (reducer, first, *others)] == [0] * 5


def test_a_worker_with_another_configuration_is_rejected(tmp_path: Path) -> None:
    """Accident 6: two nodes read different files."""
    meet = free_endpoint()
    other = tmp_path / "other.yaml"
    other.write_text(Path(STAR).read_text().replace("examples: 200", "examples: 201"))
    with family(tmp_path) as processes:
        processes.start("reducer", STAR, "--bind", meet, "--out", "hand")
        code, _, err = processes.run("worker", str(other), "-k", "0", "--endpoint", meet, "--out", "hand2")
        assert code == 3
        assert "its configuration is another one" in err
        assert "Traceback" not in err


def test_without_a_reducer_a_worker_gives_up_and_names_the_endpoint(tmp_path: Path) -> None:
    """Accident 17: connecting succeeds although nobody is there."""
    meet = free_endpoint()
    config = short_join(tmp_path)
    with family(tmp_path) as processes:
        code, _, err = processes.run("worker", config, "-k", "0", "--endpoint", meet)
        assert code == 4
        assert f"no reducer answered at {meet} within 1 s (timeouts.join_s)" in err


def test_a_reducer_names_the_workers_that_did_not_come(tmp_path: Path) -> None:
    meet = free_endpoint()
    config = short_join(tmp_path)
    with family(tmp_path) as processes:
        code, _, err = processes.run("reducer", config, "--bind", meet)
        assert code == 4
        assert "task-01, task-02, task-03, task-04 did not join within 1 s (timeouts.join_s)" in err


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """Accident 22."""
    with socket.socket() as taken, family(tmp_path) as processes:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        meet = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = processes.run("reducer", STAR, "--bind", meet)
        assert code == 4
        assert f"cannot listen on {meet}: Address already in use" in err
        assert not processes.alive()


def test_a_worker_that_loses_its_reducer_keeps_what_it_learned(tmp_path: Path) -> None:
    """Accident 2: it ends with an error at its deadline, and its results are on disk."""
    config = tmp_path / "long.yaml"
    config.write_text(
        "algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 1, examples: 200000}\n"
        f"reducer: {{endpoint: '{free_endpoint()}'}}\ntimeouts: {{lost_s: 1}}\n"
    )
    with family(tmp_path) as processes:
        reducer = processes.start("reducer", str(config), "--out", "hand")
        worker = processes.start("worker", str(config), "-k", "0", "--out", "hand")
        read_until(worker, "error rate")
        reducer.kill()
        assert worker.wait(timeout=DEADLINE_S) == 4
        result = json.loads((tmp_path / "hand" / "nodes" / "task-01" / "result.json").read_text())
        assert not result["finished"]
        assert result["rounds"] > 0


def test_a_reducer_that_is_started_anew_in_another_folder_is_another_run(tmp_path: Path) -> None:
    """failures.md, 15. It has nothing of what it had: without a word on that, all would wait for ever."""
    meet = free_endpoint()
    config = tmp_path / "slow.yaml"
    config.write_text(
        "algorithm: {name: drom}\ntimeouts: {join_s: 600}\n"
        "data: {dataset: synthetic, tasks: 2, examples: 100000, dim: 5, pace_s: 0.001}\n"
    )
    with family(tmp_path) as processes:
        reducer = processes.start("reducer", "slow.yaml", "--bind", meet, "--out", "hand")
        workers = [processes.start("worker", "slow.yaml", "-k", k, "--endpoint", meet, "--out", "hand") for k in "01"]
        read_until(reducer, "sigma_1")  # all have joined
        reducer.kill()
        config.write_text(config.read_text().replace("join_s: 600", "join_s: 3"))
        code, _, err = processes.run("reducer", "slow.yaml", "--bind", meet, "--out", "again")
        assert code == 4, err
        assert "the run is given up: task-01, task-02 did not join within 3 s" in err.splitlines()[-1]
        assert not (tmp_path / "again").exists()
        ends = [worker.communicate(timeout=DEADLINE_S)[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [4, 4]
        assert all(re.search("it belongs to run [0-9a-f]+, this is run [0-9a-f]+", end) for end in ends), ends


def short_join(folder: Path) -> str:
    config = folder / "short.yaml"
    config.write_text(Path(STAR).read_text() + "\ntimeouts:\n  join_s: 1\n")
    return str(config)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["worker", STAR, "-k", "9"], "--task: expected a number from 0 to 3 or one of task-01, task-02"),
        (["reducer", STAR, "--bind", "tcp://0.0.0.0:5999"], "--insecure"),
        (["reducer", STAR, "--bind", "localhost"], "expected tcp://host:port or ipc://path"),
        (["reducer", str(CONFIGS / "quickstart.yaml")], "reducer.endpoint"),
    ],
)
def test_wrong_use_is_told_and_starts_nothing(arguments: list[str], message: str, tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        code, _, err = processes.run(*arguments)
        assert code == 2
        assert message in err
        assert "Traceback" not in err
        assert not list(tmp_path.iterdir())


def test_a_rejected_worker_leaves_no_folder_in_the_way(tmp_path: Path) -> None:
    meet = free_endpoint()
    config = short_join(tmp_path)
    with family(tmp_path) as processes:
        for _ in range(2):  # the second try is as good as the first
            code, _, err = processes.run("worker", config, "-k", "0", "--endpoint", meet, "--out", "hand")
            assert code == 4, err
            code, _, err = processes.run("reducer", config, "--bind", meet, "--out", "hand")
            assert code == 4, err


@pytest.mark.parametrize("layout", ["star", "ring"])
def test_a_start_that_was_given_up_is_repeated_with_the_same_commands(layout: str, tmp_path: Path) -> None:
    """First the node that others connect to is missing, then another one; at last all are there."""
    if layout == "star":
        config = short_join(tmp_path)
        meet = free_endpoint()
        names = ["task-01", "task-02", "task-03", "task-04"]
        nodes = [["reducer", config, "--bind", meet], *(["worker", config, "-k", k, "--endpoint", meet] for k in names)]
    else:
        config = ring(tmp_path, 3, more="timeouts:\n  join_s: 1\n")
        nodes = [["peer", config, "-k", str(k)] for k in range(3)]
    short, long = f"join_s: {2 * PATIENCE}", f"join_s: {DEADLINE_S}"
    Path(config).write_text(Path(config).read_text().replace("join_s: 1", short))
    with family(tmp_path) as processes:
        for missing in (0, len(nodes) - 1):
            present = [node for k, node in enumerate(nodes) if k != missing]
            started = [processes.start(*node, "--out", "hand") for node in present]
            ends = [node.communicate(timeout=DEADLINE_S)[1] for node in started]
            assert [node.returncode for node in started] == [4] * len(present), ends
        Path(config).write_text(Path(config).read_text().replace(short, long))
        started = [processes.start(*node, "--out", "hand") for node in nodes]
        ends = [node.communicate(timeout=DEADLINE_S)[1] for node in started]
        assert [node.returncode for node in started] == [0] * len(nodes), ends
        if layout == "ring":
            assert processes.run("merge", "hand")[0] == 0
        digest = json.loads((tmp_path / "hand" / "summary.json").read_text())["digest"]
        assert digest == digest_of(processes, config, "--out", "loop")


def test_the_result_of_a_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        assert processes.run("run", STAR, "--driver", "reference", "--out", "runs/star-4", "-q")[0] == 0
        before = (tmp_path / "runs" / "star-4" / "summary.json").read_bytes()
        for arguments in (["reducer", STAR, "--bind", free_endpoint()], ["worker", STAR, "-k", "0"]):
            code, _, err = processes.run(*arguments)
            assert code == 2
            assert "runs/star-4 has the result of a run, which is not overwritten" in err
        assert (tmp_path / "runs" / "star-4" / "summary.json").read_bytes() == before


def test_the_command_of_a_node_that_has_finished_ends_well_and_changes_nothing(tmp_path: Path) -> None:
    """So whoever starts commands again after an accident (compose, systemd) may start all of them."""
    config = tmp_path / "short.yaml"
    config.write_text("algorithm: {name: local}\ndata: {dataset: synthetic, tasks: 1, examples: 5}\n")
    meet = free_endpoint()
    commands = (["reducer", str(config), "--bind", meet], ["worker", str(config), "-k", "0", "--endpoint", meet])
    with family(tmp_path) as processes:
        started = [processes.start(*command, "--out", "hand") for command in commands]
        assert [process.wait(timeout=DEADLINE_S) for process in started] == [0, 0]
        before = {path: path.read_bytes() for path in (tmp_path / "hand").rglob("*") if path.is_file()}
        for name, command in zip(("reducer", "task-01"), commands, strict=True):
            code, _, err = processes.run(*command, "--out", "hand")
            assert code == 0
            assert f"{name} has finished before, with results in hand/nodes/{name}; another run needs" in err
        assert {path: path.read_bytes() for path in (tmp_path / "hand").rglob("*") if path.is_file()} == before
        config.write_text(config.read_text().replace("examples: 5", "examples: 6"))
        code, _, err = processes.run(*commands[1], "--out", "hand")
        assert code == 2, "of another configuration it is another run's folder"
        assert "is not overwritten" in err


def test_a_worker_whose_log_nobody_reads_goes_on(tmp_path: Path) -> None:
    """drom-net worker .. 2>&1 | head -1"""
    meet = free_endpoint()
    with family(tmp_path) as processes:
        reducer = processes.start("reducer", STAR, "--bind", meet, "--out", "hand")
        workers = [processes.start("worker", STAR, "-k", k, "--endpoint", meet, "--out", "hand") for k in "012"]
        deaf = processes.start("worker", STAR, "-k", "3", "--endpoint", meet, "--out", "hand")
        assert deaf.stderr is not None
        deaf.stderr.readline()
        deaf.stderr.close()
        assert [process.wait(timeout=DEADLINE_S) for process in (reducer, *workers, deaf)] == [0] * 5


def test_merge_wants_one_whole_run(tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        for out in ("one", "two"):
            meet = free_endpoint()
            nodes = [processes.start("reducer", STAR, "--bind", meet, "--out", out)]
            nodes += [processes.start("worker", STAR, "-k", k, "--endpoint", meet, "--out", out) for k in "0123"]
            assert [node.wait(timeout=DEADLINE_S) for node in nodes] == [0] * 5
        code, _, err = processes.run("merge", "one", "two", "--out", "both")
        assert code == 2
        assert "reducer is there twice: one/nodes/reducer and two/nodes/reducer" in err
        for name in ("task-03", "reducer"):
            (tmp_path / "two" / "nodes" / name).rename(tmp_path / "two" / name)
        (tmp_path / "one" / "nodes" / "task-03").rename(tmp_path / "one" / "task-03")
        code, _, err = processes.run("merge", "one", "--out", "both")
        assert code == 2
        assert "no folder of task-03 in one" in err
        (tmp_path / "two" / "task-03").rename(tmp_path / "one" / "nodes" / "task-03")
        code, _, err = processes.run("merge", "one", "--out", "both")
        assert code == 2
        assert "one/nodes/task-03 belongs to run" in err
        assert not (tmp_path / "both").exists()


def test_merge_completes_a_worker_that_was_killed_and_that_the_others_did_without(tmp_path: Path) -> None:
    config = tmp_path / "proceed.yaml"
    config.write_text(
        "algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 3, examples: 600, pace_s: 0.015}\n"
        f"reducer: {{endpoint: '{free_endpoint()}'}}\npolicy: {{absent: proceed}}\n"
        "checkpoint: {every_rounds: 5}\ntimeouts: {lost_s: 1}\n"
    )
    with family(tmp_path) as processes:
        reducer = processes.start("reducer", str(config), "--out", "hand")
        workers = [processes.start("worker", str(config), "-k", str(k), "--out", "hand") for k in range(3)]
        folder = tmp_path / "hand" / "nodes" / "task-03"
        wait_until(lambda: any(folder.glob("snapshot-*")), "a snapshot")
        workers[2].kill()
        assert [node.wait(timeout=DEADLINE_S) for node in (reducer, *workers[:2])] == [0, 0, 0]
        partly = tmp_path / "partly"
        shutil.copytree(tmp_path / "hand", partly)
        shutil.rmtree(partly / "nodes" / "task-02")
        assert processes.run("merge", "partly")[0] == 2
        assert not (partly / "nodes" / "task-03" / "result.json").exists(), "nothing is done for what cannot be merged"
        code, _, err = processes.run("merge", "hand", "--out", "merged")
        assert code == 0, err
        assert processes.run("verify", "merged")[0] == 0


def test_merge_believes_no_folder_of_another_site(tmp_path: Path) -> None:
    """security.md: "it follows no link in them, takes no name that is not in the roster"."""
    (tmp_path / "secret").write_text("TOPSECRET")
    with family(tmp_path) as processes:
        nodes = [processes.start("peer", ring(tmp_path, 3), "--task", k, "--out", "o") for k in "012"]
        assert [node.wait(timeout=DEADLINE_S) for node in nodes] == [0] * 3
    folder = tmp_path / "o" / "nodes" / "task-01"
    result, spec = (json.loads((folder / name).read_text()) for name in ("result.json", "spec.json"))
    wrong: dict[str, tuple[str, str | dict[str, object], str]] = {
        "link": ("config.yaml", "", "expected a file or folder of the node's own, got a link"),
        "name": (
            "result.json",
            result | {"name": '=cmd|"/C calc"!A0\x1b[2J'},
            "expected the result of task-01, got that of",
        ),
        "vector": ("result.json", result | {"vectors": ["w", "../../../secret"]}, "expected the names of vectors"),
        "roster": ("spec.json", spec | {"tasks": ["a\x1b[2J", "task-02", "task-03"]}, "spec.json is damaged"),
        "tasks": ("spec.json", spec | {"tasks": ["a", "task-02", "task-03"]}, "has other tasks or is another"),
        "nonsense": ("result.json", result | {"chain": 5}, "is damaged"),
    }
    for number, (name, content, why) in enumerate(wrong.values()):
        before = (folder / name).read_bytes()
        (folder / name).unlink()
        if isinstance(content, dict):
            (folder / name).write_text(json.dumps(content))
        else:
            (folder / name).symlink_to(tmp_path / "secret")
        with family(tmp_path) as processes:
            code, out, err = processes.run("merge", "o", "--out", f"m{number}")
        assert (code, out) == (2, ""), err
        assert why in err
        assert "Traceback" not in err
        assert "\x1b" not in err
        assert not (tmp_path / f"m{number}").exists()
        (folder / name).unlink()
        (folder / name).write_bytes(before)
    with family(tmp_path) as processes:
        assert processes.run("merge", "o", "--out", "m")[0] == 0


def ring(folder: Path, num_tasks: int, *, more: str = "") -> str:
    """A configuration of peers that are started by hand."""
    endpoints = ", ".join(free_endpoints(num_tasks))
    config = folder / "ring.yaml"
    config.write_text(
        "algorithm: {name: drom-d, tau: 3}\n"
        f"data: {{dataset: synthetic, tasks: {num_tasks}, examples: 50}}\n"
        f"topology: {{graph: ring}}\npeers: {{endpoints: [{endpoints}]}}\n{more}"
    )
    return str(config)


def test_peers_started_by_hand_give_the_digest_of_the_loop(tmp_path: Path) -> None:
    config = ring(tmp_path, 4)
    with family(tmp_path) as processes:
        peers = [
            processes.start("peer", config, "--task", task, "--out", "hand") for task in ("3", "0", "task-02", "2")
        ]
        assert [peer.wait(timeout=DEADLINE_S) for peer in peers] == [0] * 4
        expected = digest_of(processes, config, "--out", "loop")
        assert processes.run("merge", "hand", "--out", "merged")[0] == 0
        assert processes.run("verify", "merged")[0] == 0
        assert json.loads((tmp_path / "merged" / "summary.json").read_text())["digest"] == expected
        assert 0.0 < json.loads((tmp_path / "merged" / "summary.json").read_text())["waiting_share"] < 1.0
        assert len((tmp_path / "merged" / "timeline.csv").read_text().splitlines()) == 1 + 4 * (16 + 2)
        assert not (tmp_path / "loop" / "timeline.csv").exists()
        for name in ("records.csv", "rounds.csv"):
            assert (tmp_path / "merged" / name).read_text() == (tmp_path / "loop" / name).read_text()


def test_a_peer_names_the_neighbors_that_did_not_come(tmp_path: Path) -> None:
    config = ring(tmp_path, 5, more="timeouts: {join_s: 1}\n")
    with family(tmp_path) as processes:
        code, _, err = processes.run("peer", config, "--task", "2", "--out", "hand")
        assert code == 4
        assert "task-02, task-04 did not join within 1 s (timeouts.join_s)" in err


def test_a_peer_that_is_killed_ends_the_run_of_its_neighbors_who_keep_what_they_learned(tmp_path: Path) -> None:
    config = ring(tmp_path, 3, more="timeouts: {lost_s: 1}\n")
    Path(config).write_text(Path(config).read_text().replace("examples: 50", "examples: 300000"))
    with family(tmp_path) as processes:
        peers = [processes.start("peer", config, "--task", task, "--out", "hand") for task in "012"]
        for peer in peers[:2]:  # task 0 can be a round ahead of a neighbor that still waits for the third to join
            read_until(peer, "error rate")
        peers[2].kill()
        assert [peer.wait(timeout=DEADLINE_S) for peer in peers[:2]] == [4, 4]
        for name in ("task-01", "task-02"):
            result = json.loads((tmp_path / "hand" / "nodes" / name / "result.json").read_text())
            assert result["rounds"] > 0


@pytest.mark.parametrize("task", [1, 2])
def test_a_peer_that_comes_back_without_its_folder_is_refused_and_with_it_goes_on(task: int, tmp_path: Path) -> None:
    config = ring(tmp_path, 3, more="timeouts: {lost_s: 600}\n")
    Path(config).write_text(Path(config).read_text().replace("examples: 50", "examples: 4000, pace_s: 0.001"))
    with family(tmp_path) as processes:
        peers = [processes.start("peer", config, "--task", str(k), "--out", "hand") for k in range(3)]
        read_until(peers[task], "error rate")
        peers[task].kill()
        read_until(peers[task - 1], "lost the connection")
        for peer in peers[task + 1 :]:  # it would say first that what task had is lost
            peer.send_signal(signal.SIGSTOP)
        code, _, err = processes.run("peer", config, "--task", str(task), "--out", "again")
        for peer in peers[task + 1 :]:
            peer.send_signal(signal.SIGCONT)
        assert code == 3
        assert f"task-0{task + 1} was here in its start 1, and this is its start 1" in err.splitlines()[-1]
        assert not (tmp_path / "again").exists()
        peers[task] = processes.start("peer", config, "--task", str(task), "--out", "hand")
        assert [peer.wait(timeout=DEADLINE_S) for peer in peers] == [0, 0, 0]
        assert processes.run("merge", "hand", "--out", "merged")[0] == 0
        digest = json.loads((tmp_path / "merged" / "summary.json").read_text())["digest"]
        assert digest == digest_of(processes, config, "--out", "loop")


def test_a_peer_that_others_connect_to_and_that_has_lost_what_it_had_ends_the_run_by_name(tmp_path: Path) -> None:
    """Others connect to task 0 and know nothing of its starts: nobody waits for lost_s, nor blames another."""
    task = 0
    config = ring(tmp_path, 3, more="checkpoint: {every_rounds: 30}\n")
    Path(config).write_text(Path(config).read_text().replace("examples: 50", "examples: 100000, pace_s: 0.001"))
    snapshots = tmp_path / "hand" / "nodes" / "task-01"
    with family(tmp_path) as processes:
        peers = [processes.start("peer", config, "--task", str(k), "--out", "hand") for k in range(3)]
        read_until(peers[task], "error rate")
        # So far that what is gone cannot be made up for: the others keep what it needs from its last snapshot but one
        # on, and the name of a snapshot is its round.
        wait_until(lambda: any(int(path.stem[9:]) >= 150 for path in snapshots.glob("snapshot-*.drom")), "snapshots")
        peers[task].kill()
        read_until(peers[task - 1], "lost the connection")
        code, _, err = processes.run("peer", config, "--task", str(task), "--out", "again")
        why = "task-01 was started anew, and what it had is lost"
        assert code == 4  # it lets nobody in
        assert why in err.splitlines()[-1]
        assert not (tmp_path / "again").exists()
        others = [peer for peer in peers if peer is not peers[task]]
        ends = [peer.communicate(timeout=DEADLINE_S)[1] for peer in others]
        assert [peer.returncode for peer in others] == [4, 4]
        assert all(why in end for end in ends), ends
