"""The socket of a live source: applications of the site ask for predictions, and say what was true."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgpack
import zmq

from drom_net.algorithms.features import Features, Vector
from drom_net.client import REQUEST_BYTES, WIRE_VERSION
from drom_net.data.formats.jsonl import once
from drom_net.data.incoming import RowError, RowReader
from drom_net.node.live.application_port import ApplicationPort, listen_failed
from drom_net.node.live.live_input import LiveInput
from drom_net.protocol.settings import Timeouts
from drom_net.results.evidence import levels
from drom_net.results.sharing import sharing_figures
from drom_net.storage.journal import Sender
from drom_net.transport.keys import Keyring, client_of
from drom_net.transport.router import RouterTransport

ROWS_AT_ONCE = 10_000
"""The most rows in one."""
_AGAIN_S = 0.05
"""When who was told to wait may try again."""
_REQUESTS_AT_ONCE = 64
"""So many are answered before the node does something else; what they bring is brought to the disk together."""
_SERVE_S = 0.02
"""After so long the node does something else, too."""
_PARTS = 3 * ROWS_AT_ONCE + 64
"""The most lists and maps in a request: msgpack makes 64 bytes in memory of one that is empty."""
_LABELLED = 100_000
"""Of so many tickets, the last ones, it is known that they were labelled."""
_TICKETS = 40
"""Bits of a ticket that count; those above are the node's incarnation, so that no two lives use one twice."""
_OF_SHARING = (
    *("effect", "effect_by", "examples_missing"),
    *("gain_points", "gain_points_interval", "gain_nats", "gain_nats_interval"),
)
"""What the status has of `sharing.sharing_figures`."""


class Model(Protocol):
    """What a source needs of the node."""

    round: int

    @property
    def mixing(self) -> tuple[Vector, Vector] | None: ...
    def predict(self, x: Features) -> float: ...
    def probability(self, score: float) -> float: ...


class _KeyedPort(RouterTransport):
    """On tcp with keys, which libzmq knows: whoever has no key of an application does not get through the handshake."""

    def __init__(self, bind: str, keys: Keyring) -> None:
        super().__init__(
            bind,
            dim=REQUEST_BYTES // 8,
            max_vectors=1,
            timeouts=Timeouts(),
            name="site",
            members=[client_of(keys.name)],
            keys=keys,
            for_applications=True,
        )
        self.is_member = lambda _: False

    def receive(self, timeout_s: float = 0.0) -> tuple[str, list[bytes]] | None:
        self.connection_changes()
        return super().receive(timeout_s)


def _listen(bind: str, keys: Keyring | None) -> ApplicationPort | _KeyedPort:
    """Raises ClusterError."""
    if keys is not None and not bind.startswith("ipc://"):
        return _KeyedPort(bind, keys)
    try:
        return ApplicationPort(bind, message_bytes=REQUEST_BYTES)
    except (OSError, zmq.ZMQError) as error:
        raise listen_failed(bind, error) from None


class _Refusal(Exception):
    """A request that cannot be carried out: its text says why."""


class Service:
    """A socket for the applications of the site: rows in, predictions out, labels when they are known.

    Nothing that comes is trusted. docs/live.md has what is said.
    """

    def __init__(
        self,
        live_input: LiveInput,
        bind: str,
        rows: RowReader,
        model: Model,
        *,
        unlabelled: int,
        incarnation: int,
        num_tasks: int = 1,
        keys: Keyring | None = None,
    ) -> None:
        """
        Args:
            unlabelled: How many predicted rows are remembered.
            num_tasks: How many tasks there are in the run.
            keys: The node's: with them only its client's key is let in at a tcp endpoint, and all is encrypted.

        Raises:
            ClusterError: It cannot listen there.
        """
        self._live_input = live_input
        self._rows = rows
        self._model = model
        self._limit = unlabelled
        self._level, _ = levels(num_tasks)
        self._unlabelled: OrderedDict[int, Features] = OrderedDict()
        """By ticket, the oldest first."""
        self._labelled: OrderedDict[int, None] = OrderedDict()
        """Tickets whose label has come, the oldest first."""
        self._labelled_again = 0
        """How many labels came for these, and were not learned."""
        self._next_ticket = incarnation << _TICKETS
        self._predicted = self._forgotten = 0
        self._port = _listen(bind, keys)

    def close(self) -> None:
        self._port.close()

    @property
    def waits_for(self) -> zmq.Socket[bytes] | int:
        return self._port.waits_for

    def serve(self) -> bool:
        answers: list[tuple[str, dict[str, Any]]] = []
        until = time.monotonic() + _SERVE_S
        while len(answers) < _REQUESTS_AT_ONCE and (received := self._port.receive()) is not None:
            sender, frames = received
            answers.append((sender, self._answer(frames)))
            if time.monotonic() >= until:
                break
        for text in self._port.take_warnings():
            self._live_input.say(text)
        if not answers:
            return False
        self._live_input.commit()
        for sender, answer in answers:
            self._port.send(sender, [msgpack.packb(answer)])  # who has gone, or reads nothing, will ask again
        return True

    def _answer(self, frames: list[bytes]) -> dict[str, Any]:
        number: object = None
        try:
            request = _decode(frames)
            number = request.get("id")
            if type(number) is not int or not 0 <= number < 2**63:
                number = None
                raise _Refusal("id: expected a whole number")
            what = request.get("do")
            handle = _REQUESTS.get(what) if isinstance(what, str) else None
            if handle is None:
                raise _Refusal(f"do: expected one of {', '.join(_REQUESTS)}")
            if request.get("version") != WIRE_VERSION:
                raise _Refusal(f"version: expected {WIRE_VERSION}")
            return {"id": number} | handle(self, request)
        except _Refusal as refusal:
            why = str(refusal)
        except RowError as error:
            why = str(error)
        self._live_input.bad += 1
        return {"id": number, "is": "refused", "why": why}

    def _predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        rows = self._read_rows(request)
        scores = [self._model.predict(x) for x in rows]
        tickets = range(self._next_ticket, self._next_ticket + len(rows))
        self._next_ticket = tickets.stop
        self._predicted += len(rows)
        self._unlabelled.update(zip(tickets, rows, strict=True))
        while len(self._unlabelled) > self._limit:
            self._unlabelled.popitem(last=False)
            self._forgotten += 1
        given = [self._model.probability(score) for score in scores]
        return {"is": "ok", "scores": scores, "p": given, "tickets": list(tickets), "round": self._model.round}

    def _label(self, request: Mapping[str, Any]) -> dict[str, Any]:
        tickets = request.get("tickets")
        if not isinstance(tickets, list) or not all(type(ticket) is int for ticket in tickets):
            raise _Refusal("tickets: expected a list of whole numbers")
        sender = _sender(request)
        if self._live_input.has(sender):
            return _accepted(len(tickets))
        if len(set(tickets)) < len(tickets):
            raise _Refusal("tickets: expected different ones")
        again = [ticket for ticket in tickets if ticket in self._labelled]
        if again and request.get("relabel") is not True:
            self._labelled_again += len(again)
            shown = ", ".join(map(str, again[:3])) + (" .." if len(again) > 3 else "")
            raise _Refusal(f"tickets: labelled already: {shown}; relabel: true learns their rows once more")
        unknown = [ticket for ticket in tickets if ticket not in self._unlabelled]
        if unknown:
            why = "label for an example that is no longer remembered: send it with learn"
            return {"is": "unknown", "tickets": unknown, "why": why}
        answer = self._accept([self._unlabelled[ticket] for ticket in tickets], request, sender)
        if answer["is"] == "ok":
            for ticket in tickets:
                del self._unlabelled[ticket]
                self._labelled[ticket] = None
            while len(self._labelled) > _LABELLED:
                self._labelled.popitem(last=False)
        return answer

    def _learn(self, request: Mapping[str, Any]) -> dict[str, Any]:
        sender = _sender(request)
        rows = self._read_rows(request)
        return _accepted(len(rows)) if self._live_input.has(sender) else self._accept(rows, request, sender)

    def _accept(self, rows: list[Features], request: Mapping[str, Any], sender: Sender) -> dict[str, Any]:
        labels = request.get("labels")
        if not isinstance(labels, list) or len(labels) != len(rows):
            raise _Refusal(f"labels: expected {len(rows)}, one for each row")
        signs = [self._rows.sign(label) for label in labels]
        if self._live_input.stream.has_ended:
            raise _Refusal("the stream has ended (finish): no more is learned")
        if len(rows) > self._live_input.backlog_limit:
            raise _Refusal(f"rows: expected at most {self._live_input.backlog_limit} at a time (source.backlog)")
        if len(rows) > self._live_input.room:
            return {"is": "full", "again_s": _AGAIN_S}
        self._live_input.add(list(zip(rows, signs, strict=True)), sender=sender)
        return _accepted(len(rows))

    def _read_rows(self, request: Mapping[str, Any]) -> list[Features]:
        rows = request.get("rows")
        if isinstance(rows, bytes):
            found = self._rows.block(rows)
        elif isinstance(rows, list):
            found = [self._rows.row(row) for row in rows[: ROWS_AT_ONCE + 1]]
        else:
            raise _Refusal("rows: expected a list, or bytes of float64")
        if not 0 < len(found) <= ROWS_AT_ONCE:
            raise _Refusal(f"rows: expected 1 to {ROWS_AT_ONCE}")
        return found

    def _status(self, request: Mapping[str, Any]) -> dict[str, Any]:
        stream, mixing = self._live_input.stream, self._model.mixing
        figures = None if mixing is None else sharing_figures(*mixing, self._level)
        return {
            "is": "ok",
            "task": self._live_input.task,
            "round": self._model.round,
            "accepted": self._live_input.num_accepted,
            "learned": stream.next_index,
            "backlog": stream.backlog,
            "predicted": self._predicted,
            "unlabelled": len(self._unlabelled),
            "forgotten": self._forgotten,
            "labelled_again": self._labelled_again,
            "bad": self._live_input.bad,
            "ended": stream.has_ended,
            "sharing": figures and {key: figures[key] for key in _OF_SHARING},
        }

    def _finish(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._live_input.end()
        return {"is": "ok"}


_REQUESTS: dict[str, Callable[[Service, Mapping[str, Any]], dict[str, Any]]] = {
    "predict": Service._predict,
    "label": Service._label,
    "learn": Service._learn,
    "status": Service._status,
    "finish": Service._finish,
}


def _decode(frames: list[bytes]) -> dict[str, Any]:
    """A request.

    Raises:
        _Refusal: It is none.
    """
    if len(frames) != 1:
        raise _Refusal("expected one frame")
    left = _PARTS

    def count(part: list[Any]) -> list[Any]:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError
        return part

    def count_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        count([])
        return once(pairs)

    try:
        request = msgpack.unpackb(
            frames[0],
            list_hook=count,
            object_pairs_hook=count_map,
            max_ext_len=0,
            max_array_len=1 << 20,
            max_map_len=1 << 20,
        )
    except RowError:
        raise
    except Exception:  # msgpack documents no closed list of what it raises
        request = None
    if not isinstance(request, dict):
        raise _Refusal("expected a msgpack map")
    return request


def _sender(request: Mapping[str, Any]) -> Sender:
    client, number = request.get("client"), request.get("number")
    if not isinstance(client, bytes) or len(client) != 16:
        raise _Refusal("client: expected 16 bytes of its own")
    if type(number) is not int or not 0 < number < 2**63:
        raise _Refusal("number: expected a whole number from 1, ascending")
    return Sender(client, number)


def _accepted(count: int) -> dict[str, Any]:
    return {"is": "ok", "accepted": count}
