"""Looking at a run: what its directory says while it runs, when it has ended, and when its launcher is gone."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from drom_net.cli import main
from drom_net.cluster import record as record_module
from drom_net.cluster.launcher import this_launcher
from drom_net.cluster.local import Interruption
from drom_net.cluster.prepare import prepare
from drom_net.cluster.record import Record
from drom_net.config.load import load_config
from drom_net.core.errors import NodeFailedError, UsageError
from drom_net.data.datasets import load_dataset
from drom_net.learning.metrics import Totals
from drom_net.reporting.watching import find_run, first_shown, is_in_trouble, kind_of, look, state_in_words
from drom_net.reporting.web import Feed, PageServer, put_curves

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
    feed = Feed()
    put_curves(feed, Path("out"))
    feed.put(look(Path("out")), [{"text": "<b>north</b> is back"}])
    server = PageServer(feed)
    try:
        query = f"?{urlsplit(server.url).query}"
        status, headers, page = get(server.url, f"/{query}")
        assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
        assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
        assert get(server.url, "/")[0] == get(server.url, "/?token=x")[0] == get(server.url, "/events")[0] == 403
        assert get(server.url, f"/{query}", Host="elsewhere.example:80")[0] == 403
        assert get(server.url, f"/{query}", Host="127.0.0.1")[0] == 200  # as browsers do of port 80
        assert get(server.url, "ftp://[")[0] == 400
        assert get(server.url, f"/other{query}")[0] == 404
        status, headers, line = get(server.url, f"/events{query}")
        assert (status, headers["Content-Type"]) == (200, "text/event-stream")
        news = json.loads(line.removeprefix("data: "))
        assert news["status"] == "finished" and news["events"] == ["<b>north</b> is back"]
        assert set(news["curves"]) == {"all", "majority", *(f"site task-0{number}" for number in (1, 2, 3))}
        assert news["curves"]["all"][-1] == [30, pytest.approx(100 * look(Path("out")).state["error_rate"], abs=1e-3)]
    finally:
        server.close()


def test_a_curve_stays_short() -> None:
    feed = Feed()
    for t in range(1, 3000):
        feed._add("all", t, 0.5)
        feed._add("all", t, 0.4)
    points = feed._history["all"]
    assert len(points) <= 400 and points[0] == [1, 50.0] and points[-1] == [2999, 50.0]
