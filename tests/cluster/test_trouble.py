"""Real processes in trouble on one machine: killed, stopped, doubled, without a disk; named after the accidents.

docs/operations.md says under Troubleshooting what an operator sees of them.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from by_hand import ByHand, digest_of_loop, free_endpoint, write_config
from processes import DEADLINE_S, Family, family, kill, wait_until

pytestmark = [pytest.mark.process, pytest.mark.campaign]

BOTH = pytest.mark.parametrize("layout", ["star", "ring"])


def watchers(cluster: ByHand, name: str) -> list[str]:
    """Who notices when this node is gone."""
    others = [other for other in cluster.names if other != name]
    return ["reducer"] if cluster.has_reducer and name != "reducer" else others


@BOTH
def test_accident_01_a_killed_node_is_noticed_within_a_second_and_comes_back(layout: str, tmp_path: Path) -> None:
    """Issue, "must show" 3."""
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout))
        cluster.start_to_the_middle()
        victim = cluster["task-02"]
        at = victim.kill()
        for name in watchers(cluster, victim.name):
            noticed = cluster[name].told.when("lost the connection to task-02", since=at) - at
            print(f"{layout}: SIGKILL of task-02 noticed by {name} after {noticed:.2f} s")
            assert noticed <= 1.0
        cluster.start(victim.name)
        cluster.finish()


@BOTH
def test_accident_27_a_silent_node_is_noticed_within_three_heartbeats_and_goes_on(layout: str, tmp_path: Path) -> None:
    """Stopped, it keeps its connections and answers nothing, as behind a cut cable; policy `wait` waits for it."""
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout, timeouts={"heartbeat_s": 1.0}))
        cluster.start_to_the_middle()
        victim = cluster["task-02"]
        at = victim.signal(signal.SIGSTOP)
        for name in watchers(cluster, victim.name):
            noticed = cluster[name].told.when("lost the connection to task-02", since=at) - at
            print(f"{layout}: SIGSTOP of task-02 noticed by {name} after {noticed:.2f} s, a heartbeat being 1 s")
            assert noticed <= 3.0 + 0.5
            cluster[name].told.when("waiting for task-02", since=at)  # the stall is told by name
        victim.signal(signal.SIGCONT)
        cluster.finish()


@BOTH
def test_accident_10_a_wait_ends_at_its_bound_by_name_and_the_run_goes_on_later(layout: str, tmp_path: Path) -> None:
    """Policy `wait` waits for lost_s. What ended there goes on by the same commands."""
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout, timeouts={"lost_s": 1.0}))
        cluster.start_to_the_middle()
        victim = cluster["task-02"]
        victim.signal(signal.SIGSTOP)
        others = [cluster[name] for name in cluster.names if name != victim.name]
        ends = [node.ends(4) for node in others]
        assert any("lost task-02 in round" in end and "timeouts.lost_s" in end for end in ends)
        assert all("task-02" in end.splitlines()[-1] for end in ends)  # and whoever was told so says it, too
        victim.signal(signal.SIGCONT)
        victim.ends(4)
        cluster.start()
        cluster.finish()


@BOTH
def test_accident_11_others_go_on_without_a_stopped_task_which_may_come_back(layout: str, tmp_path: Path) -> None:
    """Policy `proceed`."""
    more = "policy: {absent: proceed}\n"
    config = write_config(tmp_path, layout, examples=800, timeouts={"lost_s": 1.0}, more=more)
    with family(tmp_path) as processes:
        cluster = ByHand(processes, config)
        cluster.start_to_the_middle()
        victim = cluster["task-02"]
        at = victim.signal(signal.SIGSTOP)
        for name in watchers(cluster, victim.name):
            cluster[name].told.when("going on without task-02", since=at)
        so_far = cluster["task-01"].kept
        cluster["task-01"].wait_for_snapshot(so_far + 10)
        victim.signal(signal.SIGCONT)
        for name in watchers(cluster, victim.name):
            cluster[name].told.when("task-02 takes part again", since=at)
        cluster.replays()


@BOTH
def test_accident_11_others_finish_without_a_stopped_task(layout: str, tmp_path: Path) -> None:
    """Policy `proceed`; the task ends by itself, too, once it is awake."""
    more = "policy: {absent: proceed}\n"
    config = write_config(tmp_path, layout, timeouts={"lost_s": 1.0, "linger_s": 2.0}, more=more)
    with family(tmp_path) as processes:
        cluster = ByHand(processes, config)
        cluster.start_to_the_middle()
        victim = cluster["task-02"]
        victim.signal(signal.SIGSTOP)
        others = [cluster[name] for name in cluster.names if name != victim.name]
        ends = [node.ends() for node in others]
        assert any("going on without task-02" in end for end in ends)
        victim.signal(signal.SIGCONT)
        victim.ends(4 if cluster.has_reducer else 0)


@BOTH
def test_accident_12_rounds_close_at_the_deadline_without_a_stopped_straggler(layout: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, layout, timeouts={"heartbeat_s": 30.0}, more="policy: {deadline_s: 0.2}\n")
    with family(tmp_path) as processes:
        cluster = ByHand(processes, config)
        cluster.start_to_the_middle()
        victim = cluster["task-02"]
        at = victim.signal(signal.SIGSTOP)
        for name in watchers(cluster, victim.name):
            first = cluster[name].told.when("closed at the deadline without task-02", since=at)
            cluster[name].told.when("closed at the deadline without task-02", since=first + 1e-9)
        so_far = cluster["task-01"].kept
        cluster["task-01"].wait_for_snapshot(so_far + 4)  # at one round each 0.2 s
        victim.signal(signal.SIGCONT)
        cluster.replays()


@BOTH
def test_accident_13_a_second_process_of_one_task_is_sent_away_and_the_first_goes_on(
    layout: str, tmp_path: Path
) -> None:
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout))
        cluster.start_to_the_middle()
        first, another = cluster["task-02"], cluster["task-03"]
        another.signal(signal.SIGSTOP)  # the run is not over before the test is
        before = {path.name: path.read_bytes() for path in first.folder.glob("*.json")}
        code, _, err = processes.run(*first.arguments, "--out", str(first.out))
        assert code == 2
        assert f"is in use by process {first.process.pid}: a node runs in it" in err
        assert {path.name: path.read_bytes() for path in first.folder.glob("*.json")} == before
        assert (first.folder / "examples").is_dir()
        # The second one of these looks like the next incarnation: the first is asked whether it is alive.
        shutil.copytree(first.out, tmp_path / "copied")
        elsewhere = [] if layout == "star" else ["--bind", free_endpoint()]
        for out in ("fresh", "copied"):
            code, _, err = processes.run(*first.arguments, *elsewhere, "--out", out)
            assert code == 3, err
            assert "task-02 is already here" in err
            assert "Traceback" not in err
        another.signal(signal.SIGCONT)
        cluster.finish()


@BOTH
def test_accident_14_a_node_that_is_killed_and_started_again_at_once_many_times(layout: str, tmp_path: Path) -> None:
    """Each incarnation takes the place of the one before, whatever is still under way to that one."""
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout, examples=2000))
        cluster.start_to_the_middle()
        victim = cluster["task-02"]
        for _ in range(4):
            victim.kill()
            cluster.start(victim.name)
            victim.wait_for_snapshot(victim.kept + 1)
        cluster.finish()
        assert json.loads((victim.folder / "life.json").read_text())["incarnation"] == 5


@BOTH
def test_accident_14_a_node_that_is_killed_while_it_starts_starts_by_the_same_command(
    layout: str, tmp_path: Path
) -> None:
    """Whatever of its folder is there by then."""
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout))
        victim = cluster["task-02"]
        cluster.start(*(name for name in cluster.names if name != victim.name))
        for there in ("", "examples", "spec.json", "life.json", "records.bin"):
            cluster.start(victim.name)
            wait_until((victim.folder / there).exists, f"no {there}")
            victim.kill()
        cluster.start(victim.name)
        cluster.finish()


@pytest.mark.parametrize(
    ("layout", "name", "why"),
    [
        ("star", "reducer", "task-01, task-02, task-03 did not join within 3 s"),  # they are of another run
        ("star", "task-02", "task-02 was here in its start 1, and this is its start 1: it can go on only"),
        ("ring", "task-01", "task-01 was started anew, and what it had is lost"),  # it lets nobody in
        ("ring", "task-03", "task-03 was here in its start 1, and this is its start 1: it can go on only"),
    ],
)
def test_accident_28_without_its_folder_a_node_is_refused_and_with_it_goes_on(
    layout: str, name: str, why: str, tmp_path: Path
) -> None:
    config = write_config(tmp_path, layout, examples=800, timeouts={"join_s": 600.0})
    patient = config.read_text()
    with family(tmp_path) as processes:
        cluster = ByHand(processes, config)
        cluster.start()
        for node in cluster.nodes.values():
            node.wait_for_snapshot(200)  # so far that what is gone cannot be made up for
        node = cluster[name]
        at = node.kill()
        for other in watchers(cluster, name):
            cluster[other].told.when("lost the connection to", since=at)
        config.write_text(patient.replace("join_s: 600.0", "join_s: 3.0"))
        code, _, err = processes.run(*node.arguments, "--out", "elsewhere")
        config.write_text(patient)
        assert code in (3, 4)  # it was not let in, or it let nobody in
        assert why in err.splitlines()[-1]
        assert not (tmp_path / "elsewhere").exists()
        again = [name]
        if name == cluster.names[0]:  # all others connect to it, and are told that the run is over
            ends = [cluster[other].ends(4) for other in cluster.names[1:]]
            # Accident 15: workers of one run at the reducer of another.
            assert layout == "ring" or all("it belongs to run" in end for end in ends)
            again = cluster.names
        cluster.start(*again)
        cluster.finish()


def test_accident_02_and_28_a_killed_reducer_comes_back_and_nothing_is_lost(tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, "star", examples=2000))
        cluster.start_to_the_middle()
        reducer = cluster["reducer"]
        for _ in range(3):
            at = reducer.kill()
            for name in cluster.names[1:]:
                noticed = cluster[name].told.when("lost the connection to the reducer", since=at) - at
                assert noticed <= 1.0
            cluster.start(reducer.name)
            reducer.wait_for_snapshot(reducer.kept + 1)
        cluster.finish()


@BOTH
def test_accident_28_all_are_killed_at_once_and_started_again(layout: str, tmp_path: Path) -> None:
    """As when the power fails everywhere; in another order than before."""
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout))
        cluster.start_to_the_middle()
        for node in cluster.nodes.values():
            node.signal(signal.SIGKILL)
        for node in cluster.nodes.values():
            node.ends(-signal.SIGKILL)
        cluster.start(*reversed(cluster.names))
        cluster.finish()


@BOTH
def test_accident_28_a_launched_run_goes_on_after_a_power_failure(layout: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, layout, endpoints=())
    with family(tmp_path) as processes:
        launcher = processes.start("run", str(config), "--out", "run")
        wait_until(lambda: has_snapshots(tmp_path / "run", layout), "no snapshots")
        launcher.kill()  # first: it must not see its nodes end
        for number in processes.alive():
            kill(number)
        processes.wait_for_all()
        assert digest_of_resumed(processes, "run") == digest_of_loop(config)


def has_snapshots(out: Path, layout: str, name: str = "snapshot-*", *, but: Collection[Path] = ()) -> bool:
    """Whether each node of a run of three tasks has one of this name, beside some that were there before."""
    found = set(out.glob(f"nodes/*/{name}")) - set(but)
    return len({path.parent for path in found}) == (4 if layout == "star" else 3)


def digest_of_resumed(processes: Family, out: str) -> str:
    code, text, err = processes.run("run", "--resume", out, "--json")
    assert code == 0, err
    assert not processes.alive()
    return str(json.loads(text)["digest"])


@pytest.mark.parametrize(
    ("layout", "name", "number"),
    [("star", "reducer", signal.SIGINT), ("star", "task-02", signal.SIGTERM), ("ring", "task-02", signal.SIGINT)],
)
def test_accident_38_a_node_that_is_ended_goes_on_by_the_same_command(
    layout: str, name: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Issue, "must show" 6: by SIGTERM and Ctrl-C, once and twice; at its start, in the middle and at its end."""
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout))
        node = cluster[name]
        cluster.start(*(other for other in cluster.names if other != name))
        moments = {
            # Before it handles signals the system or Python ends it; at its end it may have finished.
            (lambda: True): {1, -number, 128 + number},
            (node.folder / "life.json").exists: {128 + number},
            (lambda: node.kept > kept_before): {128 + number},  # this start goes on
            (lambda: node.kept == 300): {128 + number, 0},
        }
        for times, (condition, codes) in enumerate(moments.items()):
            kept_before = node.kept
            cluster.start(name)
            wait_until(condition, "it does not get so far")
            for _ in range(1 + times % 2):
                node.signal(number)
            node.process.wait(DEADLINE_S)
            assert node.process.returncode in codes, node.told.text
            assert times == 0 or "Traceback" not in node.told.all_of_it()
            assert node.process.pid not in processes.alive()
        if node.process.returncode:
            cluster.start(name)
        cluster.finish()


@pytest.mark.parametrize(("layout", "number"), [("star", signal.SIGINT), ("ring", signal.SIGTERM)])
def test_accident_38_a_launched_run_that_is_ended_goes_on_with_resume(
    layout: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The same for `drom-net run`."""
    config = write_config(tmp_path, layout, endpoints=())
    run = tmp_path / "run"
    moments = {
        (run / "config.yaml").exists: {-number, 128 + number},
        # There since the last time: it may still be Python's own start that is ended.
        (lambda: len(list(run.glob("logs/*"))) > 1): {1, -number, 128 + number},
        (lambda: has_snapshots(run, layout, but=before)): {128 + number},  # this start goes on
        (lambda: has_snapshots(run, layout, "snapshot-*300.drom") or not (run / "nodes").exists()): {128 + number, 0},
    }
    with family(tmp_path) as processes:
        command = ["run", str(config), "--out", "run", "--json"]
        for times, (condition, codes) in enumerate(moments.items()):
            before = set(run.glob("nodes/*/snapshot-*"))
            launcher = processes.start(*command)
            told = processes.watch(launcher)
            command = ["run", "--resume", "run", "--json"]
            wait_until(condition, "it does not get so far")
            for _ in range(1 + times % 2):
                launcher.send_signal(number)
            launcher.wait(DEADLINE_S)
            assert launcher.returncode in codes, told.text
            assert launcher.returncode == 1 or "Traceback" not in told.all_of_it()
            assert not processes.alive()
        if launcher.returncode:
            launcher = processes.start(*command)
            launcher.wait(DEADLINE_S)
        assert launcher.stdout is not None
        assert json.loads(launcher.stdout.read())["digest"] == digest_of_loop(config)
        assert not (run / "nodes").exists()


@BOTH
def test_accident_41_a_node_whose_disk_is_full_says_so_and_goes_on_once_there_is_room(
    layout: str, tmp_path: Path
) -> None:
    with family(tmp_path) as processes:
        cluster = ByHand(processes, write_config(tmp_path, layout))
        cluster.start_to_the_middle()
        for name in (cluster.names[0], "task-02"):
            node = cluster[name]
            why = no_room(node.process.pid)
            end = node.ends(1).splitlines()[-1]
            assert why in end
            assert str(node.folder) in end  # it names the file
            cluster.start(name)
        cluster.finish()


@BOTH
def test_accident_41_a_launched_run_whose_disk_is_full_says_so_and_goes_on_later(layout: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, layout, endpoints=())
    run = tmp_path / "run"
    with family(tmp_path) as processes:
        launcher = processes.start("run", str(config), "--out", "run")
        wait_until(lambda: has_snapshots(run, layout), "no snapshots")
        why = no_room(*processes.alive())
        _, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 1
        assert why in err, err
        assert "Traceback" not in err
        assert not processes.alive()
        assert digest_of_resumed(processes, "run") == digest_of_loop(config)


def no_room(*numbers: int) -> str:
    """From now on these processes can write to no file; the system's words for it."""
    for number in numbers:
        resource.prlimit(number, resource.RLIMIT_FSIZE, (0, 0))
    return os.strerror(errno.EFBIG)


@pytest.mark.parametrize("role", ["run", "reducer", "worker --task 0"])
def test_accident_41_a_folder_that_cannot_be_made_is_told_before_anything_starts(role: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, "star")
    with family(tmp_path) as processes, read_only(tmp_path / "disk"):
        words = role.split()
        code, out, err = processes.run(words[0], str(config), *words[1:], "--out", "disk/run")
        assert code == 2
        assert "cannot make the " in err
        assert "disk/run" in err
        assert "Traceback" not in err
        assert not out
        assert not processes.alive()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder where nothing can be made."""
    folder.mkdir()
    if os.geteuid():
        folder.chmod(0o500)
        yield
        return
    # Root may write whatever the mode says.
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"this root may not mount: {mounted.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_accident_41_a_run_directory_that_vanishes_ends_the_run_and_is_named(tmp_path: Path) -> None:
    config = write_config(tmp_path, "star", endpoints=(), examples=800)
    run = tmp_path / "run"
    with family(tmp_path) as processes:
        launcher = processes.start("run", str(config), "--out", "run")
        wait_until(lambda: has_snapshots(run, "star"), "no snapshots")
        run.rename(tmp_path / "elsewhere")
        _, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 1
        assert "No such file or directory: run/nodes/" in err, err
        assert "Traceback" not in err
        assert not processes.alive()
        (tmp_path / "elsewhere").rename(run)
        assert digest_of_resumed(processes, "run") == digest_of_loop(config)


@BOTH
def test_accident_42_a_machine_that_was_suspended_goes_on(layout: str, tmp_path: Path) -> None:
    """All of its processes stand still for longer than any of their waits may last."""
    config = write_config(tmp_path, layout, timeouts={"heartbeat_s": 0.3, "lost_s": 1.0})
    with family(tmp_path) as processes:
        cluster = ByHand(processes, config)
        cluster.start_to_the_middle()
        at = max(node.signal(signal.SIGSTOP) for node in cluster.nodes.values())
        wait_until(lambda: time.monotonic() >= at + 3.0, "the end of the pause")
        for node in cluster.nodes.values():
            node.signal(signal.SIGCONT)
        cluster.finish()


@pytest.mark.parametrize(
    ("endpoint", "bind"), [("tcp://localhost:{}", "tcp://127.0.0.1:{}"), ("tcp://[::1]:{}", "tcp://[::1]:{}")]
)
def test_accident_19_localhost_and_ipv6(endpoint: str, bind: str, tmp_path: Path) -> None:
    port = free_endpoint().rpartition(":")[2]
    config = write_config(tmp_path, "star", examples=20, endpoints=[endpoint.format(port)])
    config.write_text(config.read_text().replace("}\ndata:", f", bind: '{bind.format(port)}'}}\ndata:"))
    with family(tmp_path) as processes:
        code, out, err = processes.run("run", str(config), "--out", "run", "--json")
        assert code == 0, err
        assert json.loads(out)["digest"] == digest_of_loop(config)
