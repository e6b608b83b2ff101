"""Trouble on one machine that takes longer than the suite may, or needs root; named after the accidents."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from by_hand import ByHand, digest_of_loop, write_config
from processes import DEADLINE_S, family, wait_until

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

AS_SHIPPED = {"resend_after_s": 0.5, "resend_cap_s": 8.0, "heartbeat_s": 2.0, "duplicate_probe_s": 1.0, "stall_s": 10.0}
STOPPED_S = 30.0


def test_accident_12_a_worker_that_stands_still_for_30_s_under_each_policy(tmp_path: Path) -> None:
    """Issue, "must show" 6; all three clusters at the same time."""
    policies = {
        "wait": ("", 600, {"lost_s": 600.0}),
        "deadline": ("policy: {deadline_s: 0.5}\n", 600, {"lost_s": 600.0}),
        "proceed": ("policy: {absent: proceed}\n", 6000, {"lost_s": 5.0}),  # last: its others do not wait
    }
    with ExitStack() as stack:
        clusters, stopped_at = {}, {}
        for name, (policy, examples, waits) in policies.items():
            (tmp_path / name).mkdir()
            config = write_config(
                tmp_path / name, "star", examples=examples, timeouts=AS_SHIPPED | waits, more=policy + "rounds: 6000\n"
            )
            clusters[name] = ByHand(stack.enter_context(family(tmp_path / name)), config)
            clusters[name].start_to_the_middle()
            stopped_at[name] = clusters[name]["task-02"].signal(signal.SIGSTOP)
        began = time.monotonic()
        for name, cluster in clusters.items():
            noticed = cluster["reducer"].told.when("lost the connection to task-02") - stopped_at[name]
            print(f"{name}: noticed after {noticed:.1f} s, a heartbeat being 2 s")
            assert noticed <= 2 * 3 * 2.0
        went_on = {
            name: clusters[name]["reducer"].told.when(line) - stopped_at[name]
            for name, line in {"proceed": "going on without task-02", "deadline": "closed at the deadline"}.items()
        }
        print("; ".join(f"{name}: the others went on after {seconds:.1f} s" for name, seconds in went_on.items()))
        wait_until(lambda: time.monotonic() >= began + STOPPED_S, "its end")
        at = {name: cluster["task-02"].signal(signal.SIGCONT) for name, cluster in clusters.items()}
        clusters["wait"]["reducer"].told.when("task-02 is connected again", since=at["wait"])
        clusters["proceed"]["reducer"].told.when("task-02 takes part again", since=at["proceed"])
        clusters["wait"].finish()  # with the digest of the loop
        clusters["proceed"].replays()
        clusters["deadline"].replays()


@pytest.mark.usefixtures("may_make_networks")
@pytest.mark.parametrize("layout", ["star", "ring"])
@pytest.mark.parametrize("kilobytes", [16, 800, 1600])  # before its nodes start, in the middle, at the end
def test_accident_41_a_disk_that_fills_up_by_the_run_itself(kilobytes: int, layout: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, layout, examples=2000, pace_s=0.0002, endpoints=())
    with family(tmp_path) as processes, small_disk(tmp_path / "disk", kilobytes=kilobytes) as grow:
        launcher = processes.start("run", str(config), "--out", "disk/run")
        _, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 1, err
        assert re.search(r"(No space left on device|could be written \(.*\)): disk/run/", err), err
        assert "Traceback" not in err
        assert not processes.alive()
        grow(20_000)
        code, out, err = processes.run("run", "--resume", "disk/run", "--json")
        assert code == 0, err
        assert json.loads(out)["digest"] == digest_of_loop(config)


@contextmanager
def small_disk(folder: Path, *, kilobytes: int) -> Iterator:
    """A file system of this size; yields what makes it larger."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], check=True)
    try:
        yield lambda more: subprocess.run(["mount", "-o", f"remount,size={more}k", folder], check=True)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
