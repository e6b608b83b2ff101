"""What a running cluster tells: structured logs, and metrics read from a page while it runs."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import DEADLINE_S, family, read_until

pytestmark = pytest.mark.process


def config(folder: Path, *, meet: str = "", more: str = "") -> str:
    path = folder / "long.yaml"
    path.write_text(
        "algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 3, examples: 200, dim: 5, passes: 100000}\n"
        f"{meet and f'reducer: {{endpoint: {meet!r}}}'}\n{more}\n"
    )
    return str(path)


def page_until(url: str, wanted: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """The samples of a page, by name and node, once they are as wanted."""
    give_up_at = time.monotonic() + DEADLINE_S
    while True:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as page:
            lines = page.read().decode().splitlines()
        matches = [re.fullmatch(r'drom_net_(\w+)\{node="([\w-]+)"\} (\S+)', line) for line in lines if line[0] != "#"]
        samples = {f"{match[1]} {match[2]}": float(match[3]) for match in matches if match}
        if wanted(samples):
            return samples
        assert time.monotonic() < give_up_at, samples
        os.sched_yield()


def url_in(line: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
    assert found is not None
    return found[0]


def events_in(text: str) -> list[dict[str, Any]]:
    """Every line is a JSON object that has what each must have."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert line.keys() >= {"time", "node", "incarnation", "level", "event", "text"}, line
    return lines


def test_a_run_serves_all_nodes_on_one_page_and_logs_json(tmp_path: Path) -> None:
    nodes = ("reducer", "task-01", "task-02", "task-03")
    with family(tmp_path) as processes:
        arguments = ("--out", "run", "--log-format", "json", "--metrics", "127.0.0.1:0", "--quiet")
        launcher = processes.start("run", config(tmp_path, more="timeouts: {stall_s: 0.2}"), *arguments)
        url = url_in(read_until(launcher, "/metrics"))

        def has_learned(page: dict[str, float], task: str) -> bool:
            examples = page.get(f"examples_total {task}", 0)
            begun = 0 < page.get(f"errors_total {task}", 0) < examples and page[f"waiting_seconds_total {task}"] > 0
            return begun or examples >= 50  # by then all of it must be so

        def all_have_learned(page: dict[str, float]) -> bool:
            has_rounds = all(page.get(f"rounds_total {node}", 0) > 0 for node in nodes)
            return has_rounds and all(has_learned(page, task) for task in nodes[1:])

        seen = page_until(url, all_have_learned)
        for task in nodes[1:]:
            begun = seen[f"rounds_total {task}"]  # the last of them may not be closed yet
            assert begun - 1 <= seen[f"examples_total {task}"] <= begun
            assert 0 < seen[f"errors_total {task}"] < seen[f"examples_total {task}"]
            assert seen[f"waiting_seconds_total {task}"] > 0
        for node in nodes:
            assert seen[f"node_up {node}"] == seen[f"incarnation {node}"] == 1
            assert seen[f"sent_bytes_total {node}"] > 0 and seen[f"received_bytes_total {node}"] > 0
            assert seen[f"connected_peers {node}"] == (3 if node == "reducer" else 1)
        assert seen["sigma_1 reducer"] > 0
        later = page_until(url, lambda page: page["rounds_total task-02"] > seen["rounds_total task-02"])
        assert later["sent_bytes_total task-02"] > seen["sent_bytes_total task-02"]

        victim = next(number for number, command in processes.alive().items() if "task-02/spec.json" in command)
        os.kill(victim, signal.SIGSTOP)
        stalled: dict[str, Any] = {}
        # On a slow machine it has waited for joins, and for others, as well.
        while stalled.get("waiting_for") != "task-02" or stalled["round"] < seen["rounds_total reducer"]:
            stalled = json.loads(read_until(launcher, '"node": "reducer", "incarnation": 1, "level": "warning"'))
        assert stalled["event"] == "stalled"
        assert stalled["since_s"] >= 0.2 and stalled["since"] < stalled["time"] and stalled["round"] > 0
        page_until(url, lambda page: page["overdue_peers reducer"] == page["overdue_peers task-01"] == 1)
        page_until(url, lambda page: page["resends_total task-01"] > 0)
        os.kill(victim, signal.SIGCONT)
        page_until(url, lambda page: page["overdue_peers reducer"] == page["overdue_peers task-01"] == 0)

        launcher.send_signal(signal.SIGINT)
        _, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 130
        ends = {line["name"]: line["exit_code"] for line in events_in(err) if line["event"] == "node_ended"}
        assert ends.keys() == set(nodes)
        assert set(ends.values()) <= {130, 143, 4}
        for node in nodes:
            logged = events_in((tmp_path / "run" / "logs" / f"{node}.log").read_text())
            assert {line["node"] for line in logged} == {node}
            assert "joined" in {line["event"] for line in logged}
            assert logged[-1]["event"] in ("stopped", "failed")


def test_a_worker_and_a_reducer_by_hand_have_a_page_each(tmp_path: Path) -> None:
    file = config(tmp_path, meet=f"ipc://{tmp_path}/meet")
    with family(tmp_path) as processes:
        watched = ("--out", "hand", "--log-format", "json", "--metrics", "127.0.0.1:0")
        reducer = processes.start("reducer", file, *watched)
        workers = [processes.start("worker", file, "-k", k, *watched) for k in "012"]
        served = [json.loads(read_until(node, "/metrics")) for node in (reducer, *workers)]
        assert [line["event"] for line in served] == ["metrics_served"] * 4
        assert [line["node"] for line in served] == ["reducer", "task-01", "task-02", "task-03"]
        urls = [line["url"] for line in served]
        assert len(set(urls)) == 4
        page_until(urls[0], lambda page: page.get("connected_peers reducer") == 3)
        seen = page_until(urls[2], lambda page: page.get("examples_total task-02", 0) > 0)
        assert {key.split()[1] for key in seen} == {"task-02"}
        workers[1].send_signal(signal.SIGTERM)
        _, err = workers[1].communicate(timeout=DEADLINE_S)
        assert [line["event"] for line in events_in(err)][-1] == "stopped"


def test_what_is_wrong_is_told_in_the_same_format(tmp_path: Path) -> None:
    with family(tmp_path) as processes:
        code, _, err = processes.run("worker", config(tmp_path), "-k", "0", "--log-format", "json")
        assert code == 2
        (line,) = events_in(err)
        assert (line["event"], line["level"], line["exit_code"]) == ("failed", "error", 2)
        assert "reducer.endpoint" in line["text"]
