"""A site's own application, as a client of the live source of its node (`source: {bind: ...}`).

::

    from drom_net.client import Site

    with Site("tcp://127.0.0.1:5601") as site:
        for row, find_out in work():
            [prediction] = site.predict([row])
            act_on(prediction.label)
            site.label([prediction], [find_out()])

A call returns when the node has done it, however often the node is started again meanwhile, or raises once it has taken
`timeout_s`. An example that was accepted is on the node's disk, and is learned once: also where an answer was lost and
the client has asked again. Imports NumPy, zmq and msgpack, nothing heavier.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt
import zmq

from drom_net.algorithms.features import SparseVector
from drom_net.core.closing import Closing
from drom_net.core.errors import ClusterError, DromNetError

WIRE_VERSION = 2
"""Of what is said between applications and nodes (docs/live.md)."""
REQUEST_BYTES = 16 << 20
"""The most that a request may have: a node does not read more."""
_RESEND_S, _RESEND_CAP_S = 0.1, 1.0
"""When the same is asked again: then, and after twice the time each, up to there."""

Row = Sequence[float] | npt.NDArray[np.floating] | Mapping[str, float] | SparseVector
"""All numbers of a row in order; its numbers by their names (`data.features`); or its non-zeros, counted from 0."""
Rows = Sequence[Row] | npt.NDArray[np.floating]
"""Some rows; an array of shape (n, d)."""


class RefusedError(DromNetError):
    """The node will not do this, however often it is asked: the message says why."""


class NoAnswerError(ClusterError):
    """The node did not answer in time, or has no room: what was to be learned may have been accepted or not. The same
    call once more, before any other `label` or `learn`, goes on from there."""


class Prediction(NamedTuple):
    """What the model says of one row."""

    score: float
    p: float
    """The probability of +1."""
    ticket: int
    """For the node to know the row again when its label comes."""
    row: Row

    @property
    def label(self) -> int:
        """-1 or +1."""
        return 1 if self.score >= 0.0 else -1


class Site(Closing):
    """A connection to one node. Not for several threads: each has its own."""

    def __init__(self, endpoint: str, *, timeout_s: float = 30.0, keys: str | Path | None = None) -> None:
        """
        Args:
            endpoint: The node's `source.bind`; it need not be there yet.
            timeout_s: How long a call may take, with all that is asked again.
            keys: The secret key of the site's applications, `NODE+client.secret`, with `public.keys` beside it
                (`drom-net keys create`). With it a tcp connection is encrypted, and no other node is spoken to.

        Raises:
            ConfigError: A file of keys is missing or wrong.
        """
        from drom_net.transport import curve  # not before there is a site: to import the client is light
        from drom_net.transport.keys import read_client_keyring

        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self._client = secrets.token_bytes(16)
        self._number = 0
        """Of the last sending of examples: a repeated one has the same, so it is not learned twice."""
        self._asked = 0
        self._unanswered: tuple[dict[str, Any], list[Any], list[Any]] | None = None
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        # What is said while nobody is there is said anew: no more than one is kept. IMMEDIATE would keep none, but with
        # it libzmq throws away an answer that is here and not read yet when the node ends: that to `finish` at last.
        self._socket.setsockopt(zmq.SNDHWM, 1)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 50)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        if not endpoint.startswith("ipc://"):  # of a process that has ended the system tells, and one may be busy
            self._socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        if "[" in endpoint:
            self._socket.setsockopt(zmq.IPV6, 1)
        self._refused = ""
        """Why nobody may answer, as the last handshake tells."""
        self._monitor: zmq.Socket[bytes] = self._context.socket(zmq.PAIR)
        try:
            if keys is not None and not endpoint.startswith("ipc://"):  # that is for one user, and has no keys
                keyring, node = read_client_keyring(Path(keys))
                curve.connect(self._socket, keyring, node)
            self._socket.monitor("inproc://monitor", sum(curve.FAILED_HANDSHAKES) | zmq.EVENT_HANDSHAKE_SUCCEEDED)
            self._monitor.connect("inproc://monitor")
            self._socket.connect(endpoint)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()
        self._context.term()

    def predict(self, rows: Rows) -> list[Prediction]:
        """What the model, as it is now, says of each row.

        Raises:
            RefusedError: The rows are not what the node's configuration says.
            NoAnswerError: Nobody has answered in time.
        """
        answer = self._ask({"do": "predict", "rows": _packed(rows)})
        return [
            Prediction(score, p, ticket, row)
            for score, p, ticket, row in zip(answer["scores"], answer["p"], answer["tickets"], rows, strict=True)
        ]

    def label(self, predictions: Iterable[Prediction], labels: Iterable[Any], *, relabel: bool = False) -> None:
        """Say what was true; the rows are learned with it. All of them are accepted, or none.

        A prediction has one label. A second one is refused, or with `relabel` learned as another example; a node that
        was started again since takes it for the first.

        A node that does not remember a row any more (it was started again, or has predicted many others since) gets it
        again.

        Raises:
            RefusedError: A label is none, or its prediction was labelled already.
            NoAnswerError: As above. Called again with the same, before any other `label` or `learn`, it goes on:
                nothing is learned twice. Later it would be another sending, and its rows might be learned twice.
        """
        predictions, labels = list(predictions), list(labels)
        if not predictions:
            return
        tickets = [prediction.ticket for prediction in predictions]
        sending = self._sending(tickets, labels)
        again = {"relabel": True} if relabel else {}
        answer = self._ask({"do": "label", "tickets": tickets, "labels": labels} | again | sending)
        if answer["is"] == "unknown":
            rows = _packed([prediction.row for prediction in predictions])
            self._ask({"do": "learn", "rows": rows, "labels": labels} | sending)
        self._unanswered = None

    def learn(self, rows: Rows, labels: Iterable[Any]) -> None:
        """Have rows learned whose labels are known. All of them are accepted, or none.

        Raises:
            RefusedError, NoAnswerError: As for `label`.
        """
        labels = list(labels)
        if not labels and not len(rows):
            return
        packed = _packed(rows)
        sending = self._sending(packed, labels)
        self._ask({"do": "learn", "rows": packed, "labels": labels} | sending)
        self._unanswered = None

    def status(self) -> dict[str, Any]:
        """The node's round, how many examples it has accepted and learned, its backlog, and what it has left out."""
        answer = self._ask({"do": "status"})
        return {key: value for key, value in answer.items() if key not in ("id", "is")}

    def finish(self) -> None:
        """Say that no more examples will come: the task learns what it has, and ends."""
        self._ask({"do": "finish"})

    def _sending(self, what: Any, labels: list[Any]) -> dict[str, Any]:
        """Who sends this and its how manieth sending it is: the same as before, if that had no answer."""
        if self._unanswered is None or self._unanswered[1:] != (what, labels):
            self._number += 1
        sending = {"client": self._client, "number": self._number}
        self._unanswered = sending, what, labels
        return sending

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer, which is "ok" or "unknown"."""
        self._asked += 1
        data = msgpack.packb(request | {"version": WIRE_VERSION, "id": self._asked}, default=_plain)
        if len(data) > REQUEST_BYTES:
            self._unanswered = None
            raise RefusedError(f"{len(data):,} bytes in one call; at most {REQUEST_BYTES:,}: give it fewer rows")
        give_up_at = time.monotonic() + self.timeout_s
        why = "nobody answers"
        patience = _RESEND_S
        while (now := time.monotonic()) < give_up_at:
            until = min(now + patience, give_up_at)
            answer = self._receive(until) if self._send(data, until) else None
            if answer is None:
                patience = min(2 * patience, _RESEND_CAP_S)
                self._look_at_handshakes()
                why = f"nobody answers{self._refused}"
                continue
            if answer["is"] == "refused":
                raise RefusedError(f"{self.endpoint} refused: {answer['why']}")
            if answer["is"] != "full":
                return answer
            why = "its backlog is full"
            time.sleep(max(0.0, min(float(answer["again_s"]), give_up_at - time.monotonic())))
        raise NoAnswerError(f"{self.endpoint}: {why}, for {self.timeout_s:g} s")

    def _look_at_handshakes(self) -> None:
        failed = False
        while self._monitor.poll(0):
            event = int.from_bytes(self._monitor.recv_multipart()[0][:2], sys.byteorder)
            failed = event != zmq.EVENT_HANDSHAKE_SUCCEEDED
            self._refused = " (the handshake fails: keys here and there differ)" if failed else ""
        if failed:  # libzmq gives up such a connection for ever; who is there may be another by now
            self._socket.disconnect(self.endpoint)
            self._socket.connect(self.endpoint)

    def _send(self, data: bytes, until: float) -> bool:
        if not self._socket.poll(max(1, round(1000 * (until - time.monotonic()))), zmq.POLLOUT):
            return False
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _receive(self, until: float) -> dict[str, Any] | None:
        """The answer to the last question; those to earlier ones, which were asked twice, are passed over."""
        while (left := until - time.monotonic()) > 0.0 and self._socket.poll(max(1, round(1000 * left))):
            answer = msgpack.unpackb(self._socket.recv())
            if answer.get("id") == self._asked:
                return dict(answer)
        return None


def _packed(rows: Rows) -> bytes | list[Any]:
    """As they are sent: dense ones of one length as the bytes of an array."""
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        return np.ascontiguousarray(rows, dtype="<f8").tobytes()
    if all(isinstance(row, np.ndarray) for row in rows) and len({len(row) for row in rows}) == 1:
        return np.ascontiguousarray(np.stack([np.asarray(row) for row in rows]), dtype="<f8").tobytes()
    return [_packed_row(row) for row in rows]


def _packed_row(row: Row) -> Any:
    if isinstance(row, SparseVector):
        indices, values = np.asarray(row.indices, dtype="<i4"), np.asarray(row.values, dtype="<f8")
        return {"indices": indices.tobytes(), "values": values.tobytes()}
    return dict(row) if isinstance(row, Mapping) else np.asarray(row, dtype=float).tolist()


def _plain(value: Any) -> Any:
    """NumPy's numbers among rows and labels."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is neither a number nor a text")
