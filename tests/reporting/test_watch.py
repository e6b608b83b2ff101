"""Looking at a run: what its directory says while it runs, when it has ended, and when its launcher is gone."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from by_hand import start_star, write_config
from processes import DEADLINE_S, family
from rich.console import Console

from drom_net.algorithms import LEARNERS
from drom_net.cli import main
from drom_net.cli import watch as watch_command
from drom_net.cluster import record as record_module
from drom_net.cluster.launcher import this_launcher
from drom_net.cluster.local import Interruption
from drom_net.cluster.plan import peer_graph
from drom_net.cluster.prepare import prepare
from drom_net.cluster.record import Record, Recorded, edges_of, told_of
from drom_net.config.load import load_config
from drom_net.core.errors import NodeFailedError, UsageError
from drom_net.data.datasets import load_dataset
from drom_net.learning.metrics import Totals
from drom_net.reporting.feed import Feed
from drom_net.reporting.past import Alike, moments_of, with_graph
from drom_net.reporting.watching import (
    EXIT_CODES,
    Seen,
    find_run,
    first_shown,
    is_in_trouble,
    kind_of,
    look,
    state_in_words,
)
from drom_net.reporting.web import PageServer, serve
from drom_net.results import history as history_module
from drom_net.results.evidence import SO_FAR
from drom_net.results.history import History, most_moments, read_history, thinned
from drom_net.results.verdict import effect_in_words

CONFIG = "data: {dataset: synthetic, tasks: 3, examples: 30, dim: 5}\n"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Spec:
    """As much of a node's spec as a record asks for."""

    def __init__(self, name: str, task: int) -> None:
        self.name, self.task = name, task


NORTH: Any = Spec("task-01", 0)
REDUCER: Any = Spec("reducer", -1)


def record(config: str = CONFIG) -> Record:
    Path("out").mkdir(exist_ok=True)
    Path("c.yaml").write_text(config)
    Path("out/config.yaml").write_text(config)
    loaded = load_config(Path("c.yaml"))
    return Record(Path("out"), prepare(loaded, load_dataset(loaded.data, base=loaded.base)), Interruption())


def write_summary() -> None:
    summary = {"name": "c", "algorithm": "drom", "driver": "processes", "status": "finished", "digest": "x"}
    summary |= {"rounds": 3, "seconds": 1.0, "tasks": [{"name": "north", "examples": 3, "errors": 1}]}
    Path("out/summary.json").write_text(json.dumps(summary))


def finished() -> None:
    Path("c.yaml").write_text(CONFIG)
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "out", "-q"]) == 0


def of_nobody() -> bytes:
    """The number of a process that has ended."""
    return subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    ).stdout


def test_a_run_that_goes_on_tells_of_each_site() -> None:
    with record() as its:
        counts = {"drom_net_examples_total": 20, "drom_net_seen_errors_total": 4, "drom_net_alone_errors_total": 6}
        counts |= {"drom_net_sharing_effect": 1, "drom_net_sent_bytes_total": 700}
        counts |= {f"drom_net_sharing_gain_points_{side}": value for side, value in (("low", 1.0), ("high", 19.0))}
        its.on_line(NORTH, {"counts": counts})
        its.on_line(NORTH, {"round": 20, "totals": Totals(examples=20, errors=4, majority_errors=9).to_list()})
        its.on_change(REDUCER, "node_started", 1)
        its.look()
        seen = look(Path("out"))
        assert seen.status == "running" and not seen.is_over
        north = seen.state["tasks"][0]
        assert (north["state"], north["round"], north["error_rate"], north["majority_error_rate"]) == (
            *("learning", 20),
            *(0.2, 0.45),
        )
        assert north["sharing"]["gain_points"] == pytest.approx(10.0)
        assert (north["sharing"]["effect"], north["sharing"]["gain_points_interval"]) == ("helps", [1.0, 19.0])
        assert north["bytes_sent"] == 700 and seen.state["rounds"] == 20 and seen.state["edges"] is None


def test_who_waits_who_is_gone_and_who_is_back_is_told_in_words() -> None:
    with record() as its:
        its.on_line(NORTH, {"round": 3, "totals": Totals().to_list()})
        its.on_line(NORTH, {"say": "round 3: waiting for task-02", "event": "stalled", "waiting_for": "task-02"})
        its.on_change(NORTH, "node_ended", 0)
        its.on_change(NORTH, "node_started", 7)
        its.on_line(NORTH, {"round": 4, "totals": Totals().to_list()})
        its.on_line(NORTH, {"counts": {"drom_net_sent_bytes_total": 500}})
        its.on_change(NORTH, "node_ended", -9)
        its.look()
        north = look(Path("out")).state["tasks"][0]
        assert (state_in_words(north), north["waits_for"]) == ("gone: its process has ended", "")
        its.on_change(NORTH, "node_restarted", 8)
        its.on_line(NORTH, {"counts": {"drom_net_sent_bytes_total": 20}})
        its.look()
        north = look(Path("out")).state["tasks"][0]
        assert (state_in_words(north), north["bytes_sent"]) == ("starting, start 2", 520)
        structured = {"level": "info", "event": "caught_up", "text": "with the others again"}
        its.on_line(NORTH, {"log": structured})
        its.on_line(NORTH, {"log": structured | {"event": "checkpointed"}})
    events = [json.loads(line) for line in Path("out/events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["stalled", "restarted", "caught_up"]
    assert events[0]["text"] == "task-01: round 3: waiting for task-02"


def test_a_run_that_failed_says_why_and_a_launcher_that_is_gone_is_noticed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(NodeFailedError), record():
        raise NodeFailedError("task-01 was killed by SIGKILL")
    assert look(Path("out")).status == "failed"
    assert main(["watch", "out"]) == 1
    assert "task-01 was killed by SIGKILL" in capsys.readouterr().out
    state = json.loads(Path("out/state.json").read_text())
    Path("out/state.json").write_text(json.dumps(state | {"status": "running", "pid": int(of_nobody())}))
    assert look(Path("out")).status == "gone"
    assert main(["watch", "out"]) == 4


def resumed(**more: object) -> None:
    """A run that was interrupted, has a summary of that, and was resumed."""
    finished()
    summary = json.loads(Path("out/summary.json").read_text())
    Path("out/summary.json").write_text(json.dumps(summary | {"status": "interrupted"}))
    state = this_launcher() | {"status": "running", "tasks": [{"name": "north"}]}
    Path("out/state.json").write_text(json.dumps(state | more))


def test_a_resumed_run_is_not_shown_as_its_earlier_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    resumed(status="failed", error="north was killed by SIGKILL")
    assert main(["watch", "out"]) == 1
    assert "failed: round 0" in (told := capsys.readouterr().out) and "north was killed by SIGKILL" in told


@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_a_run_goes_on_until_its_own_summary_is_there(status: str) -> None:
    resumed(status=status)
    assert look(Path("out")).status == "running"
    Path("out/state.json").unlink()
    assert look(Path("out")).status == "interrupted"


def test_a_launcher_that_went_after_its_summary_has_finished() -> None:
    finished()
    state = {"status": "finished", "pid": int(of_nobody()), "tasks": []}
    Path("out/state.json").write_text(json.dumps(state))
    assert look(Path("out")).status == "finished"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell when a process began")
def test_another_process_with_the_number_of_the_launcher_is_not_it() -> None:
    resumed(started=1)
    assert look(Path("out")).status == "gone"


@pytest.mark.parametrize("key", ["host", "space"])
def test_a_launcher_elsewhere_is_known_by_the_age_of_its_state(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    resumed(pid=int(of_nobody()), **{"host": "elsewhere", key: "elsewhere"})
    assert look(Path("out")).status == "running"
    assert main(["watch", "out", "--once"]) == 0
    assert "its launcher is on elsewhere and cannot be seen from here" in capsys.readouterr().out
    os.utime("out/state.json", (1, 1))
    assert main(["watch", "out"]) == 4
    assert capsys.readouterr().out.startswith("gone: ")


@pytest.mark.parametrize(
    "damage",
    [
        *({"pid": pid} for pid in ("x", 0, 10**30)),
        *({key: value} for key, value in (("started", "x"), ("host", 3), ("status", 3), ("error", 3), ("reducer", 3))),
        *({"tasks": tasks} for tasks in (3, [3], [{}], [{"name": "x", "round": "x"}])),
    ],
)
def test_a_state_of_other_types_is_damaged(damage: dict[str, object]) -> None:
    resumed(**damage)
    with pytest.raises(UsageError, match="damaged"):
        look(Path("out"))


def test_the_events_of_a_run_that_is_resumed_are_counted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "_EVENTS_LIMIT", 3)
    for _ in range(2):
        with record() as its:
            its.say("one")
            its.say("two")
    with record() as its:
        its.say("never")
    assert look(Path("out")).state["events"] == 5
    events = [json.loads(line) for line in Path("out/events.jsonl").read_text().splitlines()]
    assert [event["text"] for event in events] == ["one", "two", "one", "more than 3 events: later ones are not kept"]


def test_a_run_that_has_finished_shows_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    finished()
    assert main(["watch", "out"]) == 0
    assert capsys.readouterr().out.startswith("finished: round 30  error rate ")
    assert main(["watch", "out", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["status"] == "finished" and len(json.loads(line)["tasks"]) == 3


def test_of_a_file_it_is_the_latest_run() -> None:
    finished()
    for number, name in enumerate(("c", "c-2", "c-d", "d")):
        folder = Path("runs") / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(CONFIG)
        os.utime(folder / "config.yaml", (number, number))
    assert find_run(Path("c.yaml")) == Path("runs/c-2")
    assert look(Path("runs/c-2")).status == "waiting"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing"], "neither a configuration nor the directory of a run"),
        (["."], "expected a config.yaml in it"),
        (["c.yaml"], "there is no run of c.yaml in runs/"),
        (["c.yaml", "--web", "--json"], "leaves no room for --json"),
        (["c.yaml", "--port", "80"], "--port is of the page of --web"),
    ],
)
def test_what_cannot_be_watched_is_said(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.yaml").write_text(CONFIG)
    assert main(["watch", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_damaged_state_is_called_damaged() -> None:
    Path("out").mkdir()
    Path("out/state.json").write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        look(Path("out"))


def test_of_many_sites_those_in_trouble_are_shown() -> None:
    tasks = [{"name": str(number), "round": 9, "state": "learning"} for number in range(50)]
    tasks[40] |= {"state": "gone"}
    tasks[30] |= {"waits_for": "40"}
    tasks[20] |= {"round": 3}
    assert [task["name"] for task in first_shown(tasks, 3)] == ["20", "30", "40"]
    assert [task["name"] for task in tasks if is_in_trouble(task)] == ["30", "40"]


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ({"state": "gone", "waits_for": "x"}, "gone"),
        ({"lost": True}, "gone"),
        ({"state": "learning", "waits_for": "x"}, "waits"),
        ({"state": "starting", "waits_for": "x"}, "starting"),
        ({"state": "ended", "waits_for": "x"}, "ended"),
        ({"state": "learning"}, "learning"),
        ({}, "ended"),
    ],
)
def test_trouble_is_the_same_everywhere(task: dict[str, Any], kind: str) -> None:
    assert kind_of(task) == kind and is_in_trouble(task) == (kind in ("gone", "waits"))


@pytest.mark.process
def test_nodes_by_hand_are_seen_from_their_own_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, "star", examples=20_000, pace_s=0.005)
    with family(tmp_path) as processes:
        nodes = start_star(processes, config, ["task-01", "task-02"], out="runs/cluster")
        out = tmp_path / "runs" / "cluster"
        elsewhere = processes.start("worker", str(config), "--task", "task-03", "--out", "other")
        while not out.exists() or any(
            not list(out.glob(f"nodes/{name}/snapshot-*.drom")) for name in ("task-01", "task-02")
        ):
            assert all(node.poll() is None for node in (*nodes, elsewhere)), nodes[0].communicate()
            os.sched_yield()
        assert find_run(config) == Path("runs/cluster")
        seen = look(out)
        assert seen.status == "running" and not seen.is_over
        assert [kind_of(task) for task in seen.state["tasks"]] == ["learning", "learning", "elsewhere"]
        assert seen.state["reducer"]["state"] == "learning"
        for task in seen.state["tasks"][:2]:
            assert task["round"] == task["examples"] > 0 and task["bytes_sent"] > 0
        assert "3 of 4 write here" in seen.note and "watch the others on their own hosts" in seen.note
        assert main(["watch", str(out), "--once"]) == 0
        assert "nodes started by hand" in capsys.readouterr().out
        alike = Alike(out).look(seen)
        assert alike is not None and (sorted(alike.names), alike.shown) == (["task-01", "task-02"], "2 of 3 sites")
        for node in (*nodes, elsewhere):
            node.send_signal(signal.SIGINT)
        for node in (*nodes, elsewhere):
            node.communicate(timeout=DEADLINE_S)
        ended = look(out)
        assert (ended.status, EXIT_CODES[ended.status]) == ("interrupted", 4)
        assert [state_in_words(task) for task in ended.state["tasks"]] == ["ended", "ended", "on another host"]


def node_by_hand(**more: Any) -> Path:
    """The folder of a node of two that was started by hand, with its spec."""
    spec = {"role": "worker", "name": "north", "task": 0, "tasks": ["north", "south"], "algorithm": "drom"}
    spec |= {"parameters": {}, "seed": 0, "rounds": None, "dim": 3, "run_id": "", "config_digest": "x"}
    spec |= {"feature_digest": "", "endpoint": "tcp://127.0.0.1:1", "timeouts": {}, "out": "x"} | more
    folder = Path("run/nodes") / str(spec["name"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder


def age(folder: Path, seconds: float = 1e6) -> None:
    """As if a node had been silent for so long."""
    for name in ("spec.json", "lock"):
        if (folder / name).exists():
            os.utime(folder / name, (time.time() - seconds, time.time() - seconds))


def test_a_node_by_hand_that_shows_no_life_is_gone() -> None:
    folder = node_by_hand()
    assert [task["state"] for task in look(Path("run")).state["tasks"]] == ["starting", "elsewhere"]
    (folder / "life.json").write_text('{"incarnation": 2, "run_id": "x"}')
    (folder / "lock").touch()
    assert state_in_words(look(Path("run")).state["tasks"][0]) == "learning, start 2"
    age(folder, 20.0)
    silent = look(Path("run"))
    assert re.fullmatch(r"no life for 2\d s, start 2", state_in_words(silent.state["tasks"][0]))
    assert (silent.status, silent.events_known, is_in_trouble(silent.state["tasks"][0])) == ("running", False, True)
    age(folder)
    assert state_in_words(look(Path("run")).state["tasks"][0]) == "gone: its process has ended, start 2"
    (folder / "spec.json").touch()
    assert look(Path("run")).status == "running"  # it is being started again
    (folder / "spec.json").write_text("{")
    with pytest.raises(UsageError, match=r"spec\.json is damaged"):
        look(Path("run"))


def test_nodes_by_hand_that_are_all_gone_end_the_watch(capsys: pytest.CaptureFixture[str]) -> None:
    north, south = node_by_hand(), node_by_hand(name="south", task=1)
    (north / "result.json").write_text('{"finished": true}')
    assert look(Path("run")).status == "running"
    age(south)  # it was killed before it had begun
    assert look(Path("run")).status == "gone"
    assert main(["watch", "run"]) == main(["watch", "run", "--once"]) == 4
    assert "each goes on by the command that began it" in capsys.readouterr().out
    (south / "result.json").write_text('{"finished": true}')
    assert main(["watch", "run"]) == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("life.json", '{"incarnation": null}'),
        ("life.json", "[]"),
        ("result.json", '{"finished": 1}'),
        ("result.json", "[" * 100_000),
    ],
)
def test_a_damaged_file_of_a_node_by_hand_is_named(name: str, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    (node_by_hand() / name).write_text(content)
    assert main(["watch", "run", "--once"]) == 2
    told = capsys.readouterr().err
    assert f"run/nodes/north/{name} is damaged: " in told and "Traceback" not in told


@pytest.mark.parametrize(
    "more",
    [
        *({"task": task} for task in ("x", 7, -1, None, [0])),
        *({"tasks": tasks} for tasks in ("x", [3, 4], [])),
        *({"neighbor_endpoints": others} for others in ([], {"x": "tcp://h:1"}, {"2": "tcp://h:1"})),
        *({"algorithm": 3}, {"rounds": "x"}, {"about": "x"}, {"parent": "x"}, {"nonsense": 3}),
    ],
)
def test_a_spec_of_other_types_is_damaged(more: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    node_by_hand(**more)
    assert main(["watch", "run", "--once"]) == 2
    told = capsys.readouterr().err
    assert "run/nodes/north/spec.json is damaged: " in told and "Traceback" not in told


@pytest.mark.parametrize(
    "damage",
    [
        *({"tasks": tasks} for tasks in (7, [], [3], [{"rounds": 3}], [{"name": 3}])),
        *({"status": None}, {"status": "gone"}, {"digest": 7}, {"error_rate": "x"}, {"examples": [3]}),
        *({"sharing": its} for its in (3, {"effect": "<b>"}, {"effect": []}, {"gain_points_interval": [1]})),
        *({"tasks": [{"name": "north", **its}]} for its in ({"examples": "<b>"}, {"sharing": {"noise": "x"}})),
    ],
)
def test_a_summary_of_other_types_is_damaged(damage: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    Path("out/config.yaml").write_text(CONFIG)
    write_summary()
    summary = json.loads(Path("out/summary.json").read_text())
    assert main(["watch", "out"]) == 0
    Path("out/summary.json").write_text(json.dumps({k: v for k, v in (summary | damage).items() if v is not None}))
    for command in ("watch", "show"):
        assert main([command, "out"]) == 2
        told = capsys.readouterr().err
        assert "out/summary.json is damaged: " in told and "Traceback" not in told


@pytest.mark.parametrize(("config", "imports"), [("", False), ("algorithm: {name: 'odd_learner:DROM'}\n", True)])
def test_a_module_that_only_a_nodes_folder_names_is_not_imported(
    config: str, imports: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """configuration.md: "`watch` imports no module that a node's folder names"."""
    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.setattr(LEARNERS, "_found", {})
    Path("odd_learner.py").write_text("from drom_net.algorithms.drom import DROM\n")
    folder = node_by_hand(algorithm="odd_learner:DROM")
    (folder / "config.yaml").write_text("algorithm: {name: 'odd_learner:DROM'}\n" + CONFIG)
    if config:
        Path("run/config.yaml").write_text(config + CONFIG)
    monkeypatch.delitem(sys.modules, "odd_learner", raising=False)
    seen = look(Path("run"))
    assert seen.state["tasks"][0]["name"] == "north" and Alike(Path("run")).look(seen) is None
    assert ("odd_learner" in sys.modules) == imports


def get(url: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.readline() if "events" in path and answer.status == 200 else answer.read()
    connection.close()
    return answer.status, dict(answer.headers), body.decode()


def test_the_page_is_for_who_has_its_token_on_this_machine() -> None:
    finished()
    feed, seen = Feed(), look(Path("out"))
    feed.begin(moments_of(Path("out"), seen), 3)
    feed.put(with_graph(Path("out"), seen), [{"text": "<b>north</b> is back"}])
    server = PageServer(feed)
    try:
        query = f"?{urlsplit(server.url).query}"
        status, headers, page = get(server.url, f"/{query}")
        assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
        assert SO_FAR in page
        assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
        assert get(server.url, "/")[0] == get(server.url, "/?token=x")[0] == get(server.url, "/events")[0] == 403
        assert get(server.url, f"/{query}", Host="elsewhere.example:80")[0] == 403
        assert get(server.url, f"/{query}", Host="127.0.0.1")[0] == 200  # as browsers do of port 80
        assert get(server.url, "ftp://[")[0] == 400
        assert get(server.url, f"/other{query}")[0] == 404
        status, headers, line = get(server.url, f"/events{query}")
        assert (status, headers["Content-Type"]) == (200, "text/event-stream")
        news = json.loads(line.removeprefix("data: "))
        assert news["head"]["status"] == "finished"
        assert news["events"] == [{"time": None, "text": "<b>north</b> is back"}]
        assert news["roster"]["names"] == ["task-01", "task-02", "task-03"] and news["reducer"][0] == "ended"
        assert [one["rounds"] for one in news["moments"]] == [*range(1, 31), 30]
        last, tasks = news["moments"][-2], seen.state["tasks"]
        for key in ("examples", "errors", "majority_errors"):
            assert last[key] == news["moment"][key] == [task[key] for task in tasks]
        assert news["moment"]["told"] == [effect_in_words(task["sharing"]) for task in tasks]
    finally:
        server.close()


def state_of(rounds: int, sites: int, **more: Any) -> Seen:
    counts = {"examples": rounds, "errors": rounds // 4, "majority_errors": rounds // 2, "bytes_sent": 10 * rounds}
    tasks = [{"name": f"site-{number:04}", "state": "learning", "round": rounds} | counts for number in range(sites)]
    tasks[0] |= more
    return Seen("running", {"name": "c", "rounds": rounds, "seconds": float(rounds), "tasks": tasks, "edges": None})


def test_a_page_gets_all_once_and_then_what_is_new() -> None:
    feed = Feed()
    feed.put(state_of(1, 3))
    version, whole = feed.wait(0)
    assert version == 1 and whole is not None
    assert json.loads(whole)["states"] == {} and "roster" in json.loads(whole)
    feed.put(state_of(2, 3, state="gone"), [{"text": "killed", "time": "2026-11-30T00:00:00.000Z"}])
    version, news = feed.wait(1)
    assert version == 2 and news is not None
    told = json.loads(news)
    assert "roster" not in told and "moments" not in told and told["kept"]
    assert told["states"] == {"0": ["gone", "gone: its process has ended"]} and told["events"][0]["text"] == "killed"
    feed.put(state_of(3, 3), [{"text": "killed", "time": "2026-11-30T00:00:00.000Z"}])
    assert "events" not in json.loads(feed.wait(2)[1] or "")
    assert "roster" in json.loads(feed.wait(1)[1] or "")  # it has missed one
    feed.put(state_of(4, 4))
    assert len(json.loads(feed.wait(3)[1] or "")["roster"]["names"]) == 4  # other sites


def test_a_page_says_what_log_loss_has_told_with_the_interval_that_told_it() -> None:
    """The intervals of points and nats are not the same: 0 is in one of them."""
    its = {"effect": "helps", "effect_by": "log loss", "gain_points": 0.2, "gain_nats": 0.02}
    its |= {"gain_points_interval": [-0.1, 0.5], "gain_nats_interval": [0.001, 0.039]}
    feed = Feed()
    feed.put(state_of(1, 2, sharing=its))
    told = json.loads(feed.wait(0)[1] or "")
    assert told["moment"]["told"] == ["helps (log loss) [0.001, 0.039] nats", ""]
    assert told["moment"]["effect"] == [1, None] and told["roster"]["effects"]["1"] == "helps"


def test_of_many_edges_a_page_gets_the_number() -> None:
    sites = [f"site-{number}" for number in range(1000)]
    graph = peer_graph(load_config(full()), sites)
    assert graph is not None and told_of(edges_of(graph)) == 499_500
    assert told_of([[0, 1]] * 3000) == [[0, 1]] * 3000
    for num_sites, edges in ((3000, None), (3001, 3001)):  # a star
        feed = Feed()
        feed.put(state_of(1, num_sites))
        assert json.loads(feed.wait(0)[1] or "")["roster"]["edges"] == edges


def full() -> Path:
    path = Path("full.yaml")
    path.write_text("algorithm: {name: drom-d, tau: 5}\ntopology: {graph: full}\n" + CONFIG)
    return path


class Over(BaseException):
    """The page is closed."""


def test_a_page_goes_on_when_its_run_does_until_it_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    resumed(status="failed", error="north was killed by SIGKILL")
    Path("out/summary.json").unlink()
    state = json.loads(Path("out/state.json").read_text())
    slept: list[float] = []
    told: list[str] = []
    put = Feed.put

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:  # it is resumed
            Path("out/state.json").write_text(json.dumps(state | {"status": "running", "error": ""}))
        elif len(slept) == 2:
            Path("out/state.json").unlink()
            write_summary()
        elif len(slept) == 4:
            raise Over

    def note(its: Feed, seen: Seen, *more: Any, **also: Any) -> None:
        told.append(seen.status)
        put(its, seen, *more, **also)

    monkeypatch.setattr("drom_net.reporting.web.time.sleep", sleep)
    monkeypatch.setattr(Feed, "put", note)
    with pytest.raises(Over):
        serve(Path("out"), 0, lambda url: None)
    assert told == ["failed", "running", "finished"] and slept[0] >= 10.0


def test_of_a_thousand_sites_a_look_is_not_much_to_send_and_the_past_stays_short() -> None:
    feed = Feed()
    for t in range(1, 1000):
        feed.put(state_of(t, 1000 if t > 900 else 1))
    assert len(feed.wait(998)[1] or "") < 50_000
    assert len(feed._moments) <= most_moments(1000) == 60
    feed = Feed()
    for t in range(1, 3000):
        feed.put(state_of(t, 2))
    rounds = [one["rounds"] for one in feed._moments]
    assert rounds[0] == 1 and rounds[-1] == 2999 and 100 < len(rounds) <= 240
    assert max(np.diff(rounds[:-1])) < 60  # evenly over all


def test_how_each_site_did_over_time_is_kept_and_read_again() -> None:
    path = Path("history.jsonl")
    for _ in range(2):  # as if resumed
        its = History(path, 2)
        for t in range(1, 2000):
            its.add(state_of(t, 2).state)
    its.add(state_of(2000, 2).state, at_end=True)
    found = read_history(path, 2)
    assert found[-1]["examples"] == [2000, 2000] and found[-1]["seconds"] > 3000
    assert 240 <= len(found) <= 480 and found[-2]["every"] == 16  # of 3999 looks
    assert max(np.diff([one["seconds"] for one in found])) <= 16
    assert len(thinned(found, 50)) <= 50 and thinned(found, 50)[-1] == found[-1]
    assert read_history(path, 3) == [] == read_history(Path("nowhere"), 2)
    path.write_text(path.read_text() + '{"seconds": NaN}\n{"rounds": 3}\n[]\nhalf a li')
    assert read_history(path, 2) == found


def test_the_history_of_many_sites_for_weeks_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 sites a line has 200 kB; here all is a hundredth."""
    monkeypatch.setattr(history_module, "_FULL_BYTES", 100_000)
    path, its = Path("history.jsonl"), History(Path("history.jsonl"), 100)
    for t in range(1, 3001):
        if not t % 1000:
            its = History(path, 100)  # as if resumed
        its.add(state_of(t, 100).state)
        assert path.stat().st_size <= 100_000
    found = read_history(path, 100)
    rounds = [one["rounds"] for one in found]
    assert len(found) > 20 and max(np.diff([0, *rounds, 3000])) <= 2 * found[-1]["every"] <= 256


def test_a_history_that_is_resumed_is_not_parsed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path("history.jsonl")
    its = History(path, 2)
    for t in range(1, 101):
        its.add(state_of(t, 2).state)
    path.write_text(path.read_text() + '{"seconds": 10')  # killed within a line
    parsed: list[str] = []
    read = history_module._read_line
    monkeypatch.setattr(history_module, "_read_line", lambda line, num: (parsed.append(line), read(line, num))[1])
    its = History(path, 2)
    assert len(parsed) == 2
    its.add(state_of(5, 2).state)
    assert [one["seconds"] for one in read_history(path, 2)[-2:]] == [100.0, 105.0]


@pytest.mark.parametrize("driver", ["reference", "simulation"])
def test_a_run_without_processes_can_be_watched_while_it_lasts(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("c.yaml").write_text(CONFIG.replace("30", "300"))
    seen: list[Seen] = []
    real = Recorded.update

    def update(its: Recorded, *round: Any) -> None:
        real(its, *round)
        seen.append(look(Path("out")))

    monkeypatch.setattr(Recorded, "update", update)
    monkeypatch.setattr(record_module, "_EVERY_S", 0.0)
    monkeypatch.setattr(record_module, "_SHARE", 1e9)
    assert main(["run", "c.yaml", "--driver", driver, "--out", "out", "-q"]) == 0
    middle = seen[-1]
    assert middle.status == "running" and middle.state["driver"] == driver
    assert middle.state["tasks"][0]["state"] == "learning" and 0 < middle.state["tasks"][0]["examples"] <= 300
    assert look(Path("out")).status == "finished" and not Path("out/state.json").exists()
    assert read_history(Path("out/history.jsonl"), 3)[-1]["examples"] == [300, 300, 300]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, "site round error sharing node"),
        (100, "site round error majority sharing sent node"),
        (130, "site round error majority sharing sent node"),
    ],
)
def test_the_table_fits_the_terminal_and_cuts_no_number(width: int, columns: str) -> None:
    its = {"effect": "helps", "effect_by": "log loss", "gain_points_interval": [-1.0, 3.0]}
    its |= {"gain_nats_interval": [0.011, 0.016]}
    node = {"state": "learning", "round": 123456789, "error_rate": 0.1333, "majority_error_rate": 0.5333}
    tasks = [node | {"name": name, "bytes_sent": 52_400, "sharing": its} for name in ("north", "x" * 60)]
    tasks[0] |= {"waits_for": "south", "restarts": 1}
    seen = Seen("running", {"rounds": 123456789, "error_rate": 0.1, "tasks": tasks})
    screen = Console(width=width, file=io.StringIO())
    screen.print(watch_command._table(Path("out"), seen, width, 20))
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    lines = text.splitlines()
    assert all(len(line) <= width for line in lines)
    assert next(line for line in lines if line.startswith("site")).split() == columns.split()
    assert text.count("…") == 1  # of the long name
    assert ("[0.011, 0.016] nats" in text) == (width == 130) and text.count("helps (log loss)") == 2
    assert "123456789" in text and "13.33 %" in text and "learning" in text
    assert "helps: 2" in text and "north waits for south, start 2" in text  # of the head, whose parts are kept together


def test_which_sites_are_alike_is_told_of_a_run_that_has_ended() -> None:
    finished()
    found = Alike(Path("out")).look(look(Path("out")))
    assert found is not None and sorted(found.names) == ["task-01", "task-02", "task-03"]
    assert found.shown == "all sites" and np.allclose(np.diag(found.similarity), 1.0)
    Path("out/model.npz").unlink()
    assert Alike(Path("out")).look(look(Path("out"))) is None
