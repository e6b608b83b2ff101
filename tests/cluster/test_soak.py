"""scripts/soak in small: it sees every process, and tells flat from growing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soak

MB = 1_000_000


def samples(uss: list[float], descriptors: list[int]) -> list[soak.Sample]:
    return [
        soak.Sample(float(second), 2 * MB, round(one), MB, fds, 0.5 * second)
        for second, (one, fds) in enumerate(zip(uss, descriptors, strict=True))
    ]


def test_a_process_that_grows_or_opens_files_is_not_flat() -> None:
    flat = [10 * MB * min(1.0, second / 10) for second in range(101)]  # it grows in the first tenth
    fds = [3, *[17] * 99, 3]
    assert soak.verdict_of(samples(flat, fds), MB)["flat"]
    leak = [one + 20_000 * second for second, one in enumerate(flat)]
    grown = soak.verdict_of(samples(leak, fds), MB)
    assert not grown["flat"]
    assert grown["growth_bytes"] == pytest.approx(80 * 20_000)
    open_files = soak.verdict_of(samples(flat, [17 + second // 60 for second in range(101)]), MB)
    assert (open_files["flat"], open_files["more_descriptors"]) == (False, 1)
    snapshots = [17 + (second in (93, 96)) for second in range(101)]  # two were looked at while they were written
    assert soak.verdict_of(samples(flat, snapshots), MB)["flat"]


def test_a_process_is_shown_at_four_times() -> None:
    at = soak.verdict_of(samples(list(range(101)), [17] * 101), MB)["at"]
    assert [at[part]["uss"] for part in ("start", "10 %", "50 %", "end")] == [1, 10, 50, 99]


def test_paces_are_those_of_each_tenth(tmp_path: Path) -> None:
    lines = [f"{task},x,{t},0,0,{t if t <= 90 else 90 + 2 * (t - 90)}" for task in (0, 1) for t in range(101)]
    (tmp_path / "timeline.csv").write_text("\n".join(["task,name,round,sent_s,idle_s,closed_s", *lines]) + "\n")
    closed = soak.closing_times(tmp_path)
    assert soak.paces(closed) == [1.0] * 9 + [0.5]
    # 110 s of rounds, of which the nodes were seen for the last 100 s: half a second of CPU each in a second.
    seen = {name: samples([MB] * 101, [17] * 101) for name in ("launcher", "reducer", "task-01")}
    assert soak.cpu_per_round(seen, closed, 0.1, 0.2) == pytest.approx(2 * 0.5)
    assert soak.cpu_per_round(seen, closed, 0.9, 1.0) == pytest.approx(2 * 0.5 * 2)


@pytest.mark.process
def test_a_short_soak_sees_every_process_and_the_digest_of_the_loop(tmp_path: Path) -> None:
    report = soak.soak(tmp_path, rounds=3000, tasks=2, every_s=0.1, growth_bytes=MB, more=["--quiet"])
    assert report["rounds"] == 3000
    assert report["digest"] == report["digest_of_the_plain_loop"]
    assert report["nodes"].keys() == {"launcher", "reducer", "task-01", "task-02"}
    for node in report["nodes"].values():
        assert all(0 < one["uss"] <= one["rss"] and one["descriptors"] >= 3 for one in node["at"].values())
    assert len(report["rounds_per_s"]) == 10 and min(report["rounds_per_s"]) > 0
    assert min(report["cpu_s_per_round"]) >= 0
    assert report["tables"]["files"].keys() == {"records.csv", "rounds.csv", "timeline.csv"}
    json.dumps(report)
