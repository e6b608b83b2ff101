"""The client of a live source: a call returns when it is done, whatever happens to the node meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq
from live_site import FixedModel, learned, live_input_of, node_spec, served
from zmq.utils.monitor import recv_monitor_message

from drom_net import client as module
from drom_net.algorithms.features import SparseVector
from drom_net.client import NoAnswerError, RefusedError, Site
from drom_net.data.columns import Column, Schema
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.node.spec import NodeSpec

ROWS = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]])


class Clock:
    """The client's time: it stands still but where the client sleeps, so that no machine is too slow."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def spec(tmp_path: Path) -> NodeSpec:
    return node_spec(tmp_path / "node", bind=f"ipc://{tmp_path}/live.sock", unlabelled=3, backlog=5)


def accepted(spec: NodeSpec) -> list[tuple[list[float], float]]:
    """What the node has on disk."""
    live_input = live_input_of(spec)
    try:
        return learned(live_input)
    finally:
        live_input.close()


def test_predict_then_label(spec: NodeSpec) -> None:
    with served(spec), Site(spec.stream.source["bind"]) as site:
        predictions = site.predict(ROWS)
        assert [(prediction.score, prediction.label) for prediction in predictions] == [(1, 1), (-10, -1), (100, 1)]
        site.label(predictions[1:], [np.int64(1), "-1"])
        site.learn([[7, 8, 9]], [True])
        status = site.status()
        assert (status["accepted"], status["backlog"], status["predicted"], status["unlabelled"]) == (3, 3, 3, 1)
        site.finish()
        assert site.status()["ended"]
    assert accepted(spec) == [([0.0, -1.0, 0.0], 1.0), ([0.0, 0.0, 1.0], -1.0), ([7.0, 8.0, 9.0], 1.0)]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        ROWS.tolist(),
        list(ROWS),
        [{"c": 0, "a": 1, "b": 0}, {"a": 0, "b": np.float64(-1), "c": 0.0}, {"a": 0, "b": 0, "c": 1}],
        [SparseVector(np.array([column], dtype=np.int32), ROWS[column, [column]]) for column in range(3)],
        [ROWS[0], [0, -1, 0], {"a": 0, "b": 0, "c": 1}],
    ],
)
def test_rows_may_be_given_in_any_way(tmp_path: Path, rows: list[object]) -> None:
    schema = Schema(tuple(Column(name, "number") for name in "abc"), places=1)
    named = RowReader(Preprocessing(raw_dim=schema.width, numbers=3, schema=schema))
    spec = node_spec(tmp_path / "node", named, bind=f"ipc://{tmp_path}/live.sock")
    model = FixedModel(w=np.array([1.0, 10.0, 100.0, 0.0]))
    with served(spec, model), Site(spec.stream.source["bind"]) as site:
        assert [prediction.score for prediction in site.predict(rows)] == [1.0, -10.0, 100.0]  # type: ignore[arg-type]


def test_a_row_that_the_node_has_forgotten_is_sent_again(spec: NodeSpec) -> None:
    with Site(spec.stream.source["bind"]) as site:
        with served(spec):
            first = site.predict(ROWS[:1])
            site.predict(ROWS)
            site.label(first, [-1])
            second = site.predict(ROWS[1:2])
        with served(spec, incarnation=2):  # it was killed, and all that it was to remember with it
            site.label(second, [-1])
    assert accepted(spec) == [([1.0, 0.0, 0.0], -1.0), ([0.0, -1.0, 0.0], -1.0)]


def test_a_call_outlasts_a_node_that_is_away(spec: NodeSpec) -> None:
    found: list[float] = []
    with Site(spec.stream.source["bind"]) as site:
        asking = threading.Thread(target=lambda: found.append(site.predict(ROWS)[0].score))
        asking.start()
        with served(spec):
            asking.join()
    assert found == [1.0]


def test_an_answer_that_was_lost_is_asked_for_again_and_nothing_is_learned_twice(
    spec: NodeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RESEND_S", 0.01)
    lost: list[object] = []
    receive = Site._receive

    def lose(self: Site, until: float) -> dict[str, object] | None:
        answer = receive(self, until)
        if answer is not None and answer["is"] == "ok" and len(lost) < 3:
            lost.append(answer)
            return None
        return answer

    with served(spec), Site(spec.stream.source["bind"]) as site:
        predictions = site.predict(ROWS)
        monkeypatch.setattr(Site, "_receive", lose)
        site.label(predictions, [1, 1, 1])
        assert len(lost) == 3
        assert site.status()["accepted"] == 3


def test_where_nobody_answers_the_call_may_be_made_again(
    spec: NodeSpec, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    receive = Site._receive

    def too_late(self: Site, until: float) -> None:
        if receive(self, until) is not None:
            clock.now += self.timeout_s

    with served(spec), Site(spec.stream.source["bind"]) as site:
        with monkeypatch.context() as deaf:
            deaf.setattr(Site, "_receive", too_late)
            with pytest.raises(NoAnswerError, match=r"live\.sock: nobody answers, for 30 s"):
                site.learn(ROWS, [1, 1, 1])
        site.predict(ROWS)
        with pytest.raises(RefusedError):
            site.predict([[1]])
        site.learn(ROWS, [1, 1, 1])
        assert site.status()["accepted"] == 3, "the first call was accepted, and its answer did not come"
        site.learn(ROWS[:1], [1])
        assert site.status()["accepted"] == 4, "this one is another"


def test_the_last_answer_of_a_node_that_ends_is_not_lost(
    spec: NodeSpec, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Nobody would ever give it again."""

    def answer_and_end() -> None:
        with zmq.Context() as context, context.socket(zmq.ROUTER) as node:
            node.bind(spec.stream.source["bind"])
            sender, request = node.recv_multipart()
            answer = {"id": msgpack.unpackb(request)["id"], "is": "ok"}
            node.setsockopt(zmq.LINGER, -1)
            node.send_multipart([sender, msgpack.packb(answer)])

    node = threading.Thread(target=answer_and_end)
    receive = Site._receive

    def after_its_end(self: Site, until: float) -> dict[str, object]:
        node.join()
        recv_monitor_message(gone)
        answer = receive(self, until)
        assert answer is not None
        return answer

    monkeypatch.setattr(Site, "_receive", after_its_end)
    with Site(spec.stream.source["bind"]) as site:
        gone = site._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        gone.setsockopt(zmq.RCVTIMEO, 60_000)
        try:
            node.start()
            site.finish()
        finally:
            site._socket.disable_monitor()
            gone.close()


def test_what_is_asked_while_nobody_is_there_does_not_pile_up(
    spec: NodeSpec, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    send, sent = Site._send, []

    def impatient(self: Site, data: bytes, until: float) -> bool:
        clock.now = until
        sent.append(send(self, data, until))
        return sent[-1]

    with Site(spec.stream.source["bind"]) as site:
        with monkeypatch.context() as alone:
            alone.setattr(Site, "_send", impatient)
            for _ in range(5):
                with pytest.raises(NoAnswerError):
                    site.predict(ROWS)
        assert len(sent) > 100 and sum(sent) <= 2
        with served(spec):
            assert site.status()["predicted"] <= 2 * len(ROWS)


def test_a_full_backlog_is_waited_out(spec: NodeSpec, clock: Clock) -> None:
    with served(spec), Site(spec.stream.source["bind"]) as site:
        site.learn(ROWS, [1, 1, 1])
        site.timeout_s = 0.2
        with pytest.raises(NoAnswerError, match=r"its backlog is full, for 0\.2 s"):
            site.learn(ROWS, [1, 1, 1])
        assert clock.now == pytest.approx(0.2), "it has asked again as often as it was told to"
        assert site.status()["accepted"] == 3


def test_what_is_wrong_is_refused_at_once_and_the_next_call_is_a_new_one(spec: NodeSpec) -> None:
    with served(spec), Site(spec.stream.source["bind"]) as site:
        with pytest.raises(RefusedError, match=r"refused: label: expected -1 or \+1"):
            site.learn(ROWS, [1, 2, 3])
        with pytest.raises(RefusedError, match="n x 3 float64"):
            site.predict(np.ones((1, 2)))
        with pytest.raises(RefusedError, match="at most 5 at a time"):
            site.learn(np.ones((6, 3)), [1] * 6)
        site.learn(ROWS, [1, 1, 1])
        site.learn([], [])
        site.label([], [])
    assert len(accepted(spec)) == 3


def test_the_model_is_asked_as_it_is_now(spec: NodeSpec) -> None:
    model = FixedModel()
    with served(spec, model), Site(spec.stream.source["bind"]) as site:
        before = site.predict(ROWS[:1])[0].score
        model.w = np.array([-2.0, 0.0, 0.0])
        assert (before, site.predict(ROWS[:1])[0].score) == (1.0, -2.0)


def test_the_client_is_light() -> None:
    code = "import drom_net.client, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {
        "yaml",
        "click",
        "rich",
        "scipy",
        "sklearn",
        "drom_net.protocol",
        "drom_net.node",
        "asyncio",
    }


def test_what_no_node_would_read_is_refused_at_once(spec: NodeSpec) -> None:
    """It was once sent, and asked again until the time was over."""
    refused = pytest.raises(RefusedError, match="at most 16,777,216: give it fewer rows")
    with Site(spec.stream.source["bind"]) as site, refused:
        site.predict(np.ones((800_000, 3)))
