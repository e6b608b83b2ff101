"""What is a worker's, a peer's or a reducer's own: how it is made and reached, and what it leaves."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from drom_net.core.errors import DromNetError
from drom_net.node.build import StartContext, build_peer, build_reducer, build_worker
from drom_net.node.reports import Reporter
from drom_net.node.results import peak_memory, summarize_star, write_task_result
from drom_net.node.spec import NodeSpec
from drom_net.node.start import stream_of
from drom_net.protocol.node import REDUCER, named
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.session import address_of
from drom_net.protocol.worker import Worker
from drom_net.results.summary import write_json
from drom_net.storage.node_folder import CheckpointFolder, Spent
from drom_net.transport.dealer import DealerTransport
from drom_net.transport.keys import PUBLIC_LIST, Keyring, read_keyring
from drom_net.transport.router import RouterTransport

if TYPE_CHECKING:
    from drom_net.node.live.live_input import LiveInput


class Ending(NamedTuple):
    """How a node has ended."""

    finished: bool
    """By itself."""
    error: DromNetError | OSError | None
    """What ended it."""
    spent: Spent
    """In all starts, until its goodbye was over: to close is no part of the run."""
    refused: int
    """Messages."""


class Role(ABC):
    """A node with its socket. Whoever makes one closes the socket."""

    node: Worker | Peer | Reducer
    transport: DealerTransport | RouterTransport
    live_input: LiveInput | None = None
    names: tuple[str, ...] = ()
    """All tasks' names, where it meets them."""
    expected = 0
    """How many are to join."""

    def __init__(self, spec: NodeSpec, folder: CheckpointFolder, reporter: Reporter, context: StartContext) -> None:
        self.spec, self.folder, self.reporter, self.context = spec, folder, reporter, context
        self.node = self.build()
        self.transport = self.open()

    @abstractmethod
    def build(self) -> Worker | Peer | Reducer: ...
    @abstractmethod
    def open(self) -> DealerTransport | RouterTransport: ...
    @property
    def run_id(self) -> str:
        """Empty where it is not known yet."""
        return self.folder.run_id

    @abstractmethod
    def connect(self) -> None:
        """Let the socket speak to those it is to speak to, and tell of it."""

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """The node's progress."""

    @abstractmethod
    def moved(self) -> Mapping[int, tuple[int, int]]:
        """By task, the bytes of messages sent and received."""

    @property
    @abstractmethod
    def has_learned(self) -> bool:
        """Whether there is something to be left though the node has ended with an error."""

    @abstractmethod
    def write_results(self, ended: Ending) -> None: ...
    @abstractmethod
    def tell_end(self, ended: Ending) -> None:
        """Tell that it has finished, or was stopped."""

    def _note_end(self, finished: bool, t: int, where: str) -> None:
        how = "finished" if finished else "stopped"
        where += "" if finished else "; the same command goes on"
        self.reporter.note(f"{how} after round {t}; {where}", how, round=t)

    def _read_keys(self, needed: Iterable[str]) -> Keyring | None:
        """The node's keys, where its cluster has any.

        Args:
            needed: Whom it connects to: without their public keys it cannot.

        Raises:
            ConfigError: A file is missing or wrong.
        """
        if not self.spec.keys:
            return None
        keys = read_keyring(Path(self.spec.keys), self.spec.node)
        keys.require(needed)
        return keys

    def _listen(self, keys: Keyring | None, joining: Sequence[int], name: str = REDUCER) -> RouterTransport:
        """The socket of one that others join."""
        spec, nodes = self.spec, self.spec.nodes
        missing = [task for task in joining if keys is not None and nodes[task] not in keys.public]
        if keys is not None and missing:
            who = named(spec.tasks, missing)
            text = f"warning: {who} cannot join: {keys.folder / PUBLIC_LIST} has no such public key"
            self.reporter.say(text, "key_missing", names=[spec.tasks[task] for task in missing])
        return RouterTransport(
            spec.endpoint,
            dim=spec.dim,
            max_vectors=self.node.max_vectors,
            timeouts=spec.build_timeouts(),
            name=name,
            members=nodes,
            keys=keys,
        )


class _TaskRole(Role):
    """One that learns a task."""

    node: Worker | Peer

    def figures(self) -> dict[str, Any]:
        return {"round": self.node.round, "totals": self.node.totals.to_list()}

    def moved(self) -> Mapping[int, tuple[int, int]]:
        return {self.spec.task: (self.transport.bytes_sent, self.transport.bytes_received)}

    @property
    def has_learned(self) -> bool:
        return self.node.round > 0 and self.node.result is not None

    def write_results(self, ended: Ending) -> None:
        node = self.node
        assert node.result is not None
        more = self._facts(ended)
        write_task_result(self.spec, node.result, ended.finished, node.round, ended.spent, run_id=self.run_id, **more)

    def _facts(self, ended: Ending) -> dict[str, object]:
        """What result.json has besides."""
        return {}

    def tell_end(self, ended: Ending) -> None:
        self.reporter.progress(**self.figures())
        self._note_end(ended.finished, self.node.round, f"results in {self.spec.out}")


class WorkerRole(_TaskRole):
    node: Worker
    transport: DealerTransport

    def build(self) -> Worker:
        stream, self.live_input = stream_of(self.spec, self.context, self.reporter)
        return build_worker(self.spec, stream, self.context)

    def open(self) -> DealerTransport:
        spec = self.spec
        return DealerTransport(
            spec.endpoint,
            spec.node,
            dim=spec.dim,
            max_vectors=self.node.max_vectors,
            timeouts=spec.build_timeouts(),
            keys=self._read_keys([REDUCER]),
        )

    @property
    def run_id(self) -> str:
        return self.node.run_id

    def connect(self) -> None:
        endpoint = self.spec.endpoint
        if not self.spec.launch.parent:
            self.reporter.note(f"looking for the reducer at {endpoint}", "looking", endpoint=endpoint)


class PeerRole(_TaskRole):
    node: Peer
    transport: RouterTransport

    def build(self) -> Peer:
        stream, self.live_input = stream_of(self.spec, self.context, self.reporter)
        peer = build_peer(self.spec, stream, self.context)
        self.folder.adopt(peer.run_id)
        self.names, self.expected = self.spec.tasks, len(peer.neighborhood.neighbors)
        return peer

    def open(self) -> RouterTransport:
        spec, neighbors = self.spec, self.node.neighborhood.neighbors
        keys = self._read_keys([spec.nodes[task] for task in neighbors if task < spec.task])
        return self._listen(keys, [task for task in neighbors if task > spec.task], spec.node)

    def connect(self) -> None:
        spec, peer, transport = self.spec, self.node, self.transport
        transport.is_member = peer.session.task_at.__contains__
        for task in peer.neighborhood.neighbors:
            if task < spec.task:
                transport.connect(address_of(task), spec.neighbors.neighbor_endpoints[str(task)], spec.nodes[task])
        if not spec.launch.parent:
            text = f"listening on {transport.endpoint}, for {self.expected} neighbors"
            self.reporter.note(text, "listening", endpoint=transport.endpoint)

    def _facts(self, ended: Ending) -> dict[str, object]:
        return {
            "refused": ended.refused,
            "central_chain": self.node.central_chain.hex(),
            "refused_handshakes": self.transport.refused_handshakes,
            "closed_strangers": self.transport.closed_strangers,
            "members": self.node.neighborhood.closed_neighborhood,
        }


class ReducerRole(Role):
    node: Reducer
    transport: RouterTransport

    _summary: dict[str, Any] | None = None

    def build(self) -> Reducer:
        self.folder.adopt(self.run_id or secrets.token_hex(8))
        self.names, self.expected = self.spec.tasks, len(self.spec.tasks)
        return build_reducer(self.spec, self.run_id, self.context)

    def open(self) -> RouterTransport:
        return self._listen(self._read_keys([]), range(self.expected))

    def connect(self) -> None:
        reducer, transport = self.node, self.transport
        transport.is_member = reducer.session.task_at.__contains__
        transport.was_member = lambda address: reducer.has_spoken_from(address) is not None
        text = f"listening on {transport.endpoint} for {self.expected} workers"
        self.reporter.note(text, "listening", endpoint=transport.endpoint)

    def figures(self) -> dict[str, Any]:
        sigma = self.node.last_sigma
        return {"round": self.node.closed_rounds} | ({"sigma_1": sigma} if sigma else {})

    def moved(self) -> Mapping[int, tuple[int, int]]:
        return self.transport.bytes_by_peer(self.node.has_spoken_from)

    @property
    def has_learned(self) -> bool:
        return self.node.closed_rounds > 0 or any(self.node.ended)

    def write_results(self, ended: Ending) -> None:
        spec, reducer = self.spec, self.node
        if ended.finished and ended.error is None and spec.summary and all(reducer.ended):
            tasks = [task for task in reducer.ended if task is not None]
            self._summary = summarize_star(spec.about, spec.tasks, tasks, reducer.central_chain, ended.spent)
            write_json(Path(spec.summary), self._summary)  # first: one whose result.json says finished has it
        write_json(
            Path(spec.out) / "result.json",
            {
                "finished": ended.finished,
                "rounds": reducer.closed_rounds,
                "chain": reducer.central_chain.hex(),
                "seconds": ended.spent.seconds,
                "refused": ended.refused,
                "refused_handshakes": self.transport.refused_handshakes,
                "closed_strangers": self.transport.closed_strangers,
                "peak_bytes": peak_memory(),
                "keep_records": spec.keep_records,
                "run_id": self.run_id,
            },
        )

    def tell_end(self, ended: Ending) -> None:
        spec, reducer, where = self.spec, self.node, f"results in {self.spec.out}"
        if self._summary is not None:
            self._note_summary(self._summary)
            return
        if not ended.finished:
            where += ", `drom-net merge` collects them"
        elif spec.summary:
            gone = ", ".join(name for name, end in zip(spec.tasks, reducer.ended, strict=True) if end is None)
            where += f", without {gone}: `drom-net merge` collects them"
        self._note_end(ended.finished, reducer.closed_rounds, where)

    def _note_summary(self, summary: dict[str, Any]) -> None:
        error, majority = summary["error_rate"], summary["majority_error_rate"]
        rate = "no examples"
        if error is not None and majority is not None:
            rate = f"error rate {100 * error:.2f} % (majority {100 * majority:.2f} %)"
        self.reporter.note(
            f"finished: {summary['rounds']} rounds, {rate}, digest {summary['digest']}; summary in {self.spec.summary}",
            "finished",
            round=summary["rounds"],
            error_rate=error,
            majority_error_rate=majority,
            digest=summary["digest"],
        )


ROLES: dict[str, type[WorkerRole | PeerRole | ReducerRole]] = {
    "worker": WorkerRole,
    "peer": PeerRole,
    "reducer": ReducerRole,
}
"""By `NodeSpec.role`."""
