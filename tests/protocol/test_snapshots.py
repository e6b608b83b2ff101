"""What a node keeps for the time after a crash, and how the one that takes its place is received."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams, run_loop
from peers_harness import PATIENT, Peers, incoming, make_peer
from star_harness import DIM, EVERY_ROUND, hello, keep_all, make_reducer, make_worker, sent

from drom_net.algorithms.base import IDLE
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.algorithms.local import local
from drom_net.core.errors import ClusterError, RejectedError
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE, peers_chain, run_digest
from drom_net.learning.reference import run_reference
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Hello,
    Message,
    Pull,
    Push,
    Reject,
    RequestHello,
    Resend,
    Welcome,
)
from drom_net.protocol.node import REDUCER, Envelope, Refused, Snapshot
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.session import address_of
from drom_net.protocol.settings import Checkpoints
from drom_net.protocol.states import PeerState, WorkerState
from drom_net.protocol.worker import Worker
from drom_net.simulation.slot import size_until

EXCHANGES = ("blocking", "overlap", "delayed")
NOBODY: Mapping[int, Sequence[int]] = {}
LENGTHS = (7, 3, 6)
STREAMS = random_streams(LENGTHS, flip=0.2)
CENTRAL = drom(DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0))
COUPLED = drom_d(DromDParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, tau=2))
PATH = graph_of("path", 3)
HOODS = hoods_of(PATH, [COUPLED] * 3)


def worker(task: int, snapshot: Snapshot | None = None, **more: Any) -> Worker:
    options = {"checkpoints": EVERY_ROUND, "snapshot": snapshot, "timeouts": PATIENT, **more}
    return make_worker(CENTRAL, STREAMS[task], task=task, **options)


def reducer(snapshot: Snapshot | None = None, **more: Any) -> Reducer:
    options = {"checkpoints": EVERY_ROUND, "snapshot": snapshot, "timeouts": PATIENT, **more}
    return make_reducer(CENTRAL, len(STREAMS), **options)


def peer(task: int, snapshot: Snapshot | None = None, *, exchange: str = "blocking", **more: Any) -> Peer:
    options = {"checkpoints": EVERY_ROUND, "snapshot": snapshot, "timeouts": PATIENT, **more}
    return make_peer(COUPLED, STREAMS[task], HOODS[task], num_tasks=3, exchange=exchange, **options)


def after(rounds: int, *, history_rounds: int = 2000) -> Checkpoints:
    """A snapshot after so many rounds."""
    return Checkpoints(every_rounds=rounds, every_s=1e9, history_rounds=history_rounds)


class Party:
    """Nodes of a star (the last is the reducer) or of a path; messages arrive in order, at once.

    Before each message any node may be replaced by one that goes on from its last snapshot, as after a crash.
    """

    def __init__(
        self,
        exchange: str | None,
        checkpoints: Checkpoints = EVERY_ROUND,
        *,
        disk_steps: int = 0,
        noticed: bool = False,
    ) -> None:
        """
        Args:
            disk_steps: For how many steps a snapshot is on its way to the disk.
            noticed: Connections that are lost and made again are told of, after the last message of them.
        """
        self.exchange, self.checkpoints, self.disk_steps, self.noticed = exchange, checkpoints, disk_steps, noticed
        count = 4 if exchange is None else 3
        self.incarnations = [1] * count
        self.on_disk: list[list[Snapshot]] = [[] for _ in range(count)]
        self.keeping: list[tuple[int, Snapshot] | None] = [None] * count
        """For each node the step at which its snapshot will be kept."""
        self.taken: list[tuple[int, Snapshot, Snapshot]] = []
        """(node, snapshot, what was in it when it was taken) of all."""
        self.records, self.central_records = [b""] * count, [b""] * count
        self.refused: list[tuple[int, Refused]] = []
        self.queue: list[tuple[int, int, str, int, Message]] = []
        """(receiver, its incarnation, the address it knows the sender by, the sender's, message)"""
        self.now, self.steps = 0.0, 0
        self.learned_at = 0.0
        """When the last task had ended its last round."""
        self.nodes: list[Any] = [self.make(index) for index in range(count)]
        for index in range(count):
            self.nodes[index].start(self.now)
            self.collect(index)

    def make(self, index: int) -> Any:
        snapshot = self.on_disk[index][-1] if self.on_disk[index] else None
        life = {"checkpoints": self.checkpoints}
        if self.exchange is None and index == 3:
            return reducer(snapshot, **life)
        life["incarnation"] = self.incarnations[index]
        if self.exchange is None:
            return worker(index, snapshot, **life)
        return peer(index, snapshot, exchange=self.exchange, **life)

    def replace(self, index: int, damaged: int = 0) -> None:
        """What was said to it, and is on its way, is lost with its connections.

        Args:
            damaged: So many of its last snapshots cannot be read.
        """
        if self.noticed:
            self.tell_dialed(index, False)
            self.tell_listeners(index)
        self.incarnations[index] += 1
        self.keeping[index] = None
        self.queue = [entry for entry in self.queue if entry[0] != index and (entry[3] != index or not self.noticed)]
        del self.on_disk[index][len(self.on_disk[index]) - damaged :]
        node = self.nodes[index] = self.make(index)
        kept = {"records": self.records, "central": self.central_records}
        for name in kept.keys() & node.row_types.keys():  # what was recorded since is recorded again
            rows = bytearray(kept[name][index])
            kept[name][index] = bytes(rows[: size_until(rows, node.row_types[name], node.recorded[name])])
        node.start(self.now)
        self.collect(index)
        if self.noticed:
            self.tell_dialed(index, True)

    def tell_dialed(self, index: int, connected: bool) -> None:
        """Those that connect to a node learn that it is gone, or back."""
        star = [0, 1, 2] if index == 3 else []
        path = [index + 1] if index < 2 else []
        for other in star if self.exchange is None else path:
            self.tell(other, REDUCER if self.exchange is None else address_of(index), connected)

    def tell_listeners(self, index: int) -> None:
        """Those that it connects to learn that it is gone."""
        star = [3] if index < 3 else []
        path = [index - 1] if index > 0 else []
        for other in star if self.exchange is None else path:
            self.tell(other, f"in-{index}/{self.incarnations[index]}", False)

    def tell(self, index: int, address: str, connected: bool) -> None:
        if not self.nodes[index].finished:
            self.nodes[index].on_connection(address, connected, self.now)
            self.collect(index)

    def step(self) -> None:
        """The next message, or, where there is none, the next timers."""
        self.steps += 1
        for index, kept in enumerate(self.keeping):
            if kept is not None and kept[0] <= self.steps:
                self.keeping[index] = None
                self.keep(index, kept[1])
                self.collect(index)
        if self.queue:
            receiver, incarnation, address, _, message = self.queue.pop(0)
            if incarnation == self.incarnations[receiver] and not self.nodes[receiver].finished:
                self.nodes[receiver].receive(address, message, self.now)
                self.collect(receiver)
        elif not any(self.keeping):
            self.now = max(self.now, min(node.next_timer() for node in self.nodes if not node.finished))
        for index, node in enumerate(self.nodes):
            while not node.finished and node.next_timer() <= self.now:
                node.on_timer(self.now)
                self.collect(index)

    def collect(self, index: int) -> None:
        node = self.nodes[index]
        while (snapshot := node.take_snapshot()) is not None:
            assert self.keeping[index] is None  # one at a time
            self.taken.append((index, snapshot, copy.deepcopy(snapshot)))
            self.take_records(index)
            if self.disk_steps:
                self.keeping[index] = (self.steps + self.disk_steps, snapshot)
            else:
                self.keep(index, snapshot)
        if node.finished:
            self.take_records(index)
        self.refused += [(index, event) for event in node.take_events() if isinstance(event, Refused)]
        for envelope in node.take_outbox():
            receiver, address = self.route(index, envelope.to)
            if receiver is not None:
                entry = (receiver, self.incarnations[receiver], address, index, envelope.message)
                self.queue.append(entry)

    def keep(self, index: int, snapshot: Snapshot) -> None:
        self.on_disk[index].append(snapshot)
        self.nodes[index].snapshot_persisted(self.now)

    def take_records(self, index: int) -> None:
        self.records[index] += self.nodes[index].take_records()
        if self.exchange is not None:
            self.central_records[index] += self.nodes[index].take_central_records()

    def route(self, index: int, to: str) -> tuple[int | None, str]:
        """Whom an address means, and as who the sender is known there; nobody behind an old connection."""
        mine = f"in-{index}/{self.incarnations[index]}"
        if to == REDUCER:
            return 3, mine
        if to.startswith("peer-"):
            return int(to[5:]), mine
        other, incarnation = map(int, to[3:].split("/"))
        if incarnation != self.incarnations[other]:
            return None, ""
        return other, REDUCER if self.exchange is None else address_of(index)

    def run(self, replaced: Mapping[int, Sequence[int]] = NOBODY, *, damaged: int = 0) -> int:
        """To the end of all; how many steps it took.

        Args:
            replaced: Before which steps which nodes are replaced.
        """
        for count in range(20_000):
            if all(node.finished for node in self.nodes):
                return count
            if any(node.result is None for node in self.nodes[:3]):
                self.learned_at = self.now
            nodes = [index for index in replaced.get(count, ()) if not self.nodes[index].finished]
            if damaged and any(map(self.has_to_do_with_a_goodbye, nodes)):
                nodes = []
            for index in nodes:
                self.replace(index, damaged)
            self.step()
        raise AssertionError([(node.state, getattr(node, "round", None)) for node in self.nodes])

    def has_to_do_with_a_goodbye(self, index: int) -> bool:
        """It has said one, or has one: from then on the other side may be gone, and only its last snapshot will do."""
        node = self.nodes[index]
        if isinstance(node, Reducer):
            return any(node.ended)
        goodbyes = [entry.done for entry in node.session.members.values()] if isinstance(node, Peer) else []
        return node.result is not None or any(goodbyes)

    def check(self) -> None:
        """All that is left is that of the plain loop, and nobody was refused but who was asked for a Hello."""
        digest, records = expected(self.exchange)
        chains = [node.result.chain for node in self.nodes[:3]]
        central = [node.central_chain for node in self.nodes[-1:]]
        if self.exchange is not None:
            central = [peers_chain([node.central_chain for node in self.nodes])]
        assert run_digest(chains, central[0]) == digest
        assert (self.records if self.exchange is None else self.records + self.central_records) == records
        assert not [event for _, event in self.refused if not event.reason.endswith("before a Hello")]


@cache
def expected(exchange: str | None) -> tuple[str, list[bytes]]:
    """(digest, records of all nodes) of the plain loop."""
    if exchange is None:
        star = run_reference(CENTRAL, STREAMS, seed=0)
        return star.digest, [*star.task_records, star.central_records]
    peers = run_loop(COUPLED, STREAMS, PATH, seed=0, delayed=exchange == "delayed")
    return peers.digest, [*peers.task_records, *peers.central_records]


CASES = [(None, node) for node in range(4)] + [(exchange, node) for exchange in EXCHANGES for node in range(3)]
GROUPS: dict[str | None, list[tuple[int, ...]]] = {None: [(0, 3), (0, 1), (1, 3), (0, 1, 2, 3)]}
GROUPS |= {exchange: [(0, 1), (1, 2), (0, 2), (0, 1, 2)] for exchange in EXCHANGES}
TOGETHER = [(exchange, nodes) for exchange, groups in GROUPS.items() for nodes in groups]


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 99])
@pytest.mark.parametrize(("exchange", "node"), CASES)
def test_a_node_restored_between_any_two_messages_catches_up_with_the_same_bits(
    exchange: str | None, node: int, rounds: int
) -> None:
    """decisions.md: "Same bits", whatever the age of the snapshot: here up to all rounds there are."""
    calm = Party(exchange, after(rounds))
    steps = calm.run()
    calm.check()
    for at in range(steps):
        party = Party(exchange, after(rounds))
        party.run({at: [node]})
        party.check()


@pytest.mark.parametrize("rounds", [1, 3, 99])
@pytest.mark.parametrize(("exchange", "nodes"), TOGETHER)
def test_several_may_be_restored_at_once(exchange: str | None, nodes: tuple[int, ...], rounds: int) -> None:
    """A worker and its reducer, two neighbors, all: as when the power fails."""
    for at in range(Party(exchange, after(rounds)).run()):
        party = Party(exchange, after(rounds))
        party.run({at: nodes})
        party.check()


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize(("exchange", "nodes"), [*[(e, (n,)) for e, n in CASES], *TOGETHER])
def test_the_older_of_two_snapshots_is_enough(exchange: str | None, nodes: tuple[int, ...], rounds: int) -> None:
    """decisions.md: "kept to the last two, torn ones detected": so the others keep enough for the one before."""
    for at in range(Party(exchange, after(rounds)).run()):
        party = Party(exchange, after(rounds))
        party.run({at: nodes}, damaged=1)
        party.check()


@pytest.mark.parametrize("disk_steps", [1, 3, 8, 30])
@pytest.mark.parametrize(("exchange", "node"), CASES)
def test_a_crash_while_a_snapshot_is_on_its_way_to_the_disk(exchange: str | None, node: int, disk_steps: int) -> None:
    """What is not kept yet is as if it had not been taken."""
    for at in range(0, Party(exchange, disk_steps=disk_steps).run(), 2):
        party = Party(exchange, disk_steps=disk_steps)
        party.run({at: [node]})
        party.check()


@pytest.mark.parametrize("rounds", [1, 3, 99])
@pytest.mark.parametrize(("exchange", "nodes"), [*[(e, (n,)) for e, n in CASES], *TOGETHER])
def test_where_it_is_noticed_all_is_caught_up_with_at_once(
    exchange: str | None, nodes: tuple[int, ...], rounds: int
) -> None:
    """Nobody waits until resend_after_s: who joins says in which round it is, and is asked for what is missing."""
    for at in range(Party(exchange, after(rounds)).run()):
        party = Party(exchange, after(rounds), noticed=True)
        party.run({at: nodes})
        party.check()
        assert party.learned_at == 0.0


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize(("exchange", "node"), CASES)
def test_a_node_may_be_restored_again_and_again(exchange: str | None, node: int, rounds: int) -> None:
    party = Party(exchange, after(rounds))
    party.run({at: [node] for at in range(0, 400, 7)})
    assert party.incarnations[node] > 3
    party.check()


def test_a_worker_and_its_reducer_may_be_restored_in_turns() -> None:
    """Each goes back behind the other, and has what the other needs."""
    for first, second in itertools.product(range(5, 60, 6), range(1, 20, 3)):
        party = Party(None, after(3))
        party.run({first: [0], first + second: [3], first + 2 * second: [0, 3]})
        party.check()


def same(one: Any, other: Any) -> bool:
    """Equal to the last bit, also in what arrays hold."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__
        )
    return bool(one == other)


@pytest.mark.parametrize("exchange", [None, *EXCHANGES])
def test_what_a_snapshot_holds_is_never_touched_again(exchange: str | None) -> None:
    """Snapshot: "plain values and arrays that it never touches again"."""
    party = Party(exchange)
    party.run()
    assert len(party.taken) > 10
    assert all(same(snapshot, copied) for _, snapshot, copied in party.taken)
    mine = [snapshot for node, snapshot, _ in party.taken if node == 0]
    assert not same(mine[0], mine[-1])


@pytest.mark.parametrize("exchange", [None, *EXCHANGES])
def test_a_restored_node_has_all_that_its_snapshot_holds(exchange: str | None) -> None:
    """A snapshot that it took at once would be the one that it was made from."""
    party = Party(exchange)
    party.run()
    for index, snapshot, _ in party.taken:
        party.on_disk[index] = [snapshot]
        node = party.make(index)
        if isinstance(node, Worker):
            node._keep_round_end(0.0)
            node._ended = True  # else it waits until its reducer has kept as much
        else:
            node.durability.due = True
        again = node.take_snapshot()
        assert again is not None
        again.pop("ended", None)  # it says goodbye again when it is started
        assert same(again, {key: value for key, value in snapshot.items() if key != "ended"})


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_two_that_are_restored_from_one_snapshot_say_the_same(exchange: str) -> None:
    party = Party(exchange)
    party.run()
    snapshot = next(kept for node, kept, _ in party.taken if node == 1 and kept["round"] == 2)
    untouched = copy.deepcopy(snapshot)
    said = []
    for _ in range(2):
        again = peer(1, snapshot, exchange=exchange, incarnation=2)
        again.start(party.now)
        again.receive(incoming(2), hello(2), party.now)
        again.receive(address_of(0), Welcome("run-1"), party.now)
        sent(again)
        while again.next_timer() <= party.now:
            again.on_timer(party.now)
        keep_all(again, party.now)
        again.receive(address_of(0), Push(4, IDLE), party.now)
        again.receive(incoming(2), Push(4, IDLE), party.now)
        said.append((again.round, again.state, sent(again), again.totals, again.central_chain))
    assert any(isinstance(message, Push) for message in said[0][2])
    assert same(said[0], said[1])
    assert same(snapshot, untouched)


def test_a_snapshot_is_given_once_and_only_to_who_keeps_them() -> None:
    first = reducer()
    first.start(0.0)
    for task in range(3):
        first.receive(f"w{task}", hello(task), 1.0)
    assert first.take_snapshot() is None  # there is nothing to keep yet
    for task in range(3):
        first.receive(f"w{task}", Push(1, IDLE), 1.0)
    snapshot = first.take_snapshot()
    assert snapshot is not None
    assert snapshot["round"] == 1
    for task in range(3):
        first.receive(f"w{task}", Push(2, IDLE), 1.0)
    assert first.take_snapshot() is None  # the last one is not kept yet
    first.snapshot_persisted(2.0)
    assert first.durable_round == 1
    second = first.take_snapshot()
    assert second is not None
    assert second["round"] == 2
    assert first.take_snapshot() is None
    for exchange in (None, *EXCHANGES):
        party = Party(exchange)
        party.checkpoints = None  # type: ignore[assignment]
        for index in range(len(party.nodes)):
            party.nodes[index] = party.make(index)
            party.nodes[index].start(0.0)
        party.queue.clear()
        party.taken.clear()
        party.run()
        assert party.taken == []


def test_a_snapshot_is_taken_between_two_rounds_only_and_records_go_as_far() -> None:
    node = peer(1, exchange="overlap")
    node.start(0.0)
    node.receive(incoming(2), hello(2), 0.0)
    node.receive(address_of(0), Welcome("run-1"), 0.0)
    node.on_timer(0.0)
    snapshot = node.take_snapshot()
    assert snapshot is not None
    assert snapshot["round"] == 1
    assert np.frombuffer(node.take_records(), TASK_DTYPE)["round"].tolist() == [1]
    node.snapshot_persisted(0.0)
    node.on_timer(0.0)
    assert (node.round, node.state) == (2, PeerState.WAITING)
    assert node.take_snapshot() is None
    assert node.take_records() == b""
    for sender in (incoming(2), address_of(0)):
        assert node.take_snapshot() is None
        node.receive(sender, Push(2, IDLE), 0.0)
    snapshot = node.take_snapshot()
    assert snapshot is not None
    assert snapshot["round"] == 2
    assert np.frombuffer(node.take_records(), TASK_DTYPE)["round"].tolist() == [2]


def joined_peer(**more: Any) -> Peer:
    node = peer(1, **more)
    node.start(0.0)
    node.receive(incoming(2), hello(2), 1.0)
    node.receive(address_of(0), Welcome("run-1"), 1.0)
    node.take_outbox()
    node.take_events()
    return node


# RequestHello


def test_introduce_is_answered_by_a_hello_whatever_is_waited_for() -> None:
    """Said by who was started anew and does not know this address."""
    node = worker(0, incarnation=3)
    node.start(0.0)
    sent(node)
    node.receive(REDUCER, RequestHello(), 0.5)
    assert sent(node) == [hello(0, incarnation=3)]  # joining
    node.receive(REDUCER, Welcome("run-1"), 1.0)
    node.receive(REDUCER, RequestHello(), 1.0)
    assert sent(node) == [hello(0, incarnation=3)]  # stepping
    node.on_timer(1.0)
    sent(node)
    node.receive(REDUCER, RequestHello(), 2.0)
    assert node.state is WorkerState.WAITING
    assert sent(node) == [hello(0, incarnation=3, round=1, kept_from=1)]
    node.stop()
    node.receive(REDUCER, RequestHello(), 3.0)
    assert sent(node) == []  # finished


def test_a_peer_answers_introduce_to_those_that_it_connects_to() -> None:
    node = joined_peer()
    node.receive(address_of(0), RequestHello(), 2.0)
    assert node.take_outbox() == [Envelope(address_of(0), hello(1))]


def test_a_restored_peer_says_nothing_to_an_address_that_it_does_not_know_yet() -> None:
    """Who connects to it is silent until it has done so again; then it hears what it asks for."""
    party = Party("blocking")
    while party.nodes[1].round < 2 or party.nodes[1].state is not PeerState.WAITING:
        party.step()
    snapshot = party.on_disk[1][-1]
    assert snapshot["round"] == 1
    again = peer(1, snapshot, incarnation=2)
    again.start(5.0)
    assert again.take_outbox() == [Envelope(address_of(0), hello(1, incarnation=2, round=1))]
    for now in (6.0, 8.0, 12.0):
        again.on_timer(now)
        assert {envelope.to for envelope in again.take_outbox()} <= {address_of(0)}
    assert again.state is PeerState.JOINING
    again.receive("in-2/1", Resend(2), 13.0)
    assert again.take_outbox() == [Envelope("in-2/1", RequestHello())]
    again.receive("in-2/1", hello(2), 13.0)
    assert again.take_outbox() == [Envelope("in-2/1", Welcome("run-1", 1))]


def test_a_restored_reducer_asks_who_speaks_and_goes_on_where_it_was() -> None:
    """It knows no address; from a Hello on it answers, also with a pull of before."""
    party = Party(None)
    while party.nodes[3].closed_rounds < 2:
        party.step()
    again = reducer(party.on_disk[3][-1])
    again.start(5.0)
    assert again.closed_rounds == 2
    assert again.take_outbox() == []
    again.receive("in-0/1", Resend(2), 5.0)
    assert again.take_outbox() == [Envelope("in-0/1", RequestHello())]
    again.receive("in-0/1", hello(0, round=2, kept_from=1), 5.0)
    assert again.take_outbox() == [Envelope("in-0/1", Welcome("run-1", 3))]
    again.receive("in-0/1", Resend(2), 5.0)
    (pull,) = sent(again)
    assert isinstance(pull, Pull)
    assert pull.round == 2
    again.receive("in-0/1", Resend(3), 5.0)
    assert sent(again) == [Resend(3)]  # what it had of round 3 is lost with it


# After the goodbye


def test_a_restored_worker_that_has_said_goodbye_says_it_again() -> None:
    party = Party(None)
    while party.nodes[1].state is not WorkerState.FINISHING:
        party.step()
    before = party.nodes[1]
    kept_from = min(party.on_disk[1][-1]["history"])
    again = worker(1, party.on_disk[1][-1], incarnation=2)
    again.start(5.0)
    assert again.state is WorkerState.FINISHING
    goodbye = Goodbye(3, before.result.chain, before.result.totals)
    assert sent(again) == [hello(1, incarnation=2, round=3, kept_from=kept_from), goodbye]
    assert again.take_records() == b""
    again.receive(REDUCER, RequestHello(), 5.5)
    assert sent(again) == [hello(1, incarnation=2, round=3, kept_from=kept_from)]
    again.on_timer(5.5)
    assert sent(again) == [goodbye]
    again.receive(REDUCER, GoodbyeAck(), 6.0)
    assert again.finished
    assert same(again.result, before.result)


def test_a_restored_peer_that_has_said_goodbye_does_not_wait_for_neighbors_to_join() -> None:
    """They may be gone. It takes a farewell, a goodbye or, after linger_s, silence for an answer."""
    party = Party("blocking")
    while party.nodes[1].state is not PeerState.FINISHING:
        party.step()
    before, snapshot = party.nodes[1], party.on_disk[1][-1]
    again = peer(1, snapshot, incarnation=2)
    again.start(5.0)
    assert again.state is PeerState.FINISHING
    assert again.result is not None
    assert again.result.chain == before.result.chain
    assert again.take_records() == again.take_central_records() == b""
    said = again.take_outbox()
    assert {envelope.to for envelope in said} == {address_of(0)}
    assert [type(envelope.message) for envelope in said][-1] is Goodbye
    assert Hello in [type(envelope.message) for envelope in said]
    again.on_timer(5.0 + PATIENT.linger_s)
    assert again.finished


@pytest.mark.parametrize("role", ["worker", "peer"])
def test_a_task_without_examples_that_is_restored_after_its_end_waits_for_nobody_to_join(role: str) -> None:
    """It keeps a snapshot of round 0 before it says goodbye: others may be gone once they have that."""
    nothing = random_streams([0])[0]

    def node(**more: Any) -> Any:
        options = {"checkpoints": EVERY_ROUND, "timeouts": PATIENT, **more}
        if role == "worker":
            return make_worker(CENTRAL, nothing, task=1, **options)
        return make_peer(COUPLED, nothing, HOODS[1], num_tasks=3, **options)

    before = node()
    before.start(0.0)
    if role == "worker":
        before.receive(REDUCER, Welcome("run-1"), 1.0)
    else:
        before.receive(incoming(2), hello(2), 1.0)
        before.receive(address_of(0), Welcome("run-1"), 1.0)
    before.take_outbox()
    while before.next_timer() <= 1.0:
        before.on_timer(1.0)
    assert before.holding and before.take_outbox() == []
    snapshot = before.take_snapshot()
    assert snapshot["round"] == 0
    before.snapshot_persisted(1.0)
    assert not before.holding and Goodbye in [type(envelope.message) for envelope in before.take_outbox()]
    again = node(snapshot=snapshot, incarnation=2)
    again.start(5.0)
    assert again.state.name == "FINISHING"
    assert again.result.chain == before.result.chain
    again.take_outbox()
    again.on_timer(5.0 + PATIENT.linger_s)
    assert again.finished


def test_a_peer_without_examples_that_was_not_at_its_end_waits_for_all_to_join() -> None:
    """It has kept a goodbye before the last neighbor was there: a snapshot of round 0, but none of the end."""
    nothing = random_streams([0])[0]

    def node(**more: Any) -> Peer:
        return make_peer(COUPLED, nothing, HOODS[1], num_tasks=3, checkpoints=EVERY_ROUND, timeouts=PATIENT, **more)

    before = node()
    before.start(0.0)
    before.receive(address_of(0), Welcome("run-1"), 1.0)
    before.receive(address_of(0), Goodbye(0, bytes(32), Totals()), 1.0)
    snapshot = before.take_snapshot()
    assert snapshot is not None and (snapshot["round"], snapshot["ended"]) == (0, False)
    before.snapshot_persisted(1.0)
    again = node(snapshot=snapshot, incarnation=2)
    again.start(2.0)
    assert again.state is PeerState.JOINING
    again.receive(incoming(2), hello(2), 3.0)
    again.receive(address_of(0), Welcome("run-1"), 3.0)
    while again.next_timer() <= 3.0:
        again.on_timer(3.0)
    assert again.state is PeerState.FINISHING and again.holding
    kept = again.take_snapshot()
    assert kept is not None and kept["ended"]


def test_a_restored_peer_knows_whose_goodbye_has_come() -> None:
    """Once it is gone it cannot be asked again: that is kept before the farewell is said."""
    node = peer(0)
    node.start(0.0)
    for message in (hello(1), Push(2, IDLE._replace(last=True)), Goodbye(2, bytes(32), Totals())):
        node.receive(incoming(1), message, 0.0)
    assert GoodbyeAck() not in sent(node)
    snapshot = node.take_snapshot()
    assert GoodbyeAck() not in sent(node)
    node.snapshot_persisted(0.5)
    assert sent(node) == [GoodbyeAck()]
    node.receive(incoming(1), Goodbye(2, bytes(32), Totals()), 0.6)
    assert sent(node) == [GoodbyeAck()]  # now it is answered at once
    again = peer(0, snapshot, incarnation=2)
    again.start(5.0)
    assert again.state is PeerState.STEPPING  # its only neighbor is gone: there is nobody to wait for
    for one in (node, again):
        while not one.finished:
            if one.next_timer() < math.inf:
                one.on_timer(5.0)
            keep_all(one, 5.0)
    assert sent(again) == []
    assert same(again.result, node.result)
    assert again.central_chain == node.central_chain


def test_restored_at_the_end_of_all_a_peer_tells_its_neighbors_once_more() -> None:
    """They may be restored, too, from a snapshot without its goodbye: else they would wait for it until lost_s."""
    party = Party("blocking")
    party.run()
    snapshot = party.on_disk[1][-1]
    assert all(done for *_, done, _ in snapshot["neighbors"].values())
    heard, alone = (peer(1, snapshot, incarnation=2) for _ in range(2))
    for again in (heard, alone):
        again.start(5.0)
        assert again.state is PeerState.FINISHING
        assert any(isinstance(said, Goodbye) for said in sent(again))
    heard.receive(address_of(0), GoodbyeAck(), 5.1)
    heard.receive(incoming(2), hello(2, incarnation=2), 5.1)
    heard.receive(incoming(2), GoodbyeAck(), 5.1)
    assert heard.finished
    alone.on_timer(5.0 + PATIENT.linger_s)
    assert alone.finished


def test_restored_at_the_end_of_all_a_reducer_answers_goodbyes_once_more() -> None:
    """Those that have had their farewell are gone: for them it waits for linger_s."""
    party = Party(None)
    party.run()
    heard, alone = (reducer(party.on_disk[3][-1]) for _ in range(2))
    for again in (heard, alone):
        again.start(5.0)
        assert not again.finished
    for task in range(3):
        heard.receive(f"w{task}", hello(task, incarnation=2, round=3), 5.1)
        heard.receive(f"w{task}", Goodbye(3, bytes(32), Totals()), 5.1)
    assert sent(heard).count(GoodbyeAck()) == 3
    assert heard.finished
    alone.on_timer(5.0 + PATIENT.linger_s)
    assert alone.finished


def test_a_goodbye_that_comes_while_a_snapshot_is_on_its_way_waits_for_the_next() -> None:
    """The one on its way does not know of it."""
    node = peer(0)
    node.start(0.0)
    node.receive(incoming(1), hello(1), 0.0)
    node.on_timer(0.0)
    assert node.take_snapshot() is not None
    node.receive(incoming(1), Push(2, IDLE._replace(last=True)), 0.0)
    node.receive(incoming(1), Goodbye(2, bytes(32), Totals()), 0.0)
    sent(node)
    node.snapshot_persisted(0.5)
    assert sent(node) == []
    second = node.take_snapshot()
    assert second is not None
    node.snapshot_persisted(0.6)
    assert sent(node) == [GoodbyeAck()]
    assert second["neighbors"][1][4]


def test_accident_28_a_reducer_answers_a_goodbye_when_it_is_kept() -> None:
    """failures.md, 28: "checkpoint, resume, same bits": a worker that has its farewell is gone."""
    node = reducer()
    node.start(0.0)
    for task in range(3):
        node.receive(f"w{task}", hello(task), 0.0)
    for task in range(3):
        node.receive(f"w{task}", Push(1, IDLE._replace(last=True)), 0.0)
    first = node.take_snapshot()
    assert first is not None
    sent(node)
    node.receive("w1", Goodbye(1, bytes(32), Totals()), 1.0)
    node.snapshot_persisted(1.5)  # the one before it
    assert sent(node) == []
    second = node.take_snapshot()
    assert second is not None
    node.receive("w1", Goodbye(1, bytes(32), Totals()), 2.0)  # said again meanwhile
    assert sent(node) == []
    node.snapshot_persisted(2.5)
    assert sent(node) == [GoodbyeAck()]
    assert [one is not None for *_, one in first["members"]] == [False, False, False]
    assert [one is not None for *_, one in second["members"]] == [False, True, False]
    for task in (0, 2):
        node.receive(f"w{task}", Goodbye(1, bytes(32), Totals()), 3.0)
    assert not node.finished
    keep_all(node, 3.5)
    assert node.finished


def test_a_reducer_keeps_goodbyes() -> None:
    """A worker that has got its farewell is gone, and says it to nobody else."""
    party = Party(None)
    while party.nodes[3].ended[1] is None:
        party.step()
    again = reducer(party.on_disk[3][-1])
    again.start(5.0)
    ended = again.ended[1]
    assert ended == party.nodes[3].ended[1]
    assert again._not_joined() == [0, 2]


def test_a_task_that_learns_alone_goes_on_from_its_snapshot_and_says_goodbye_when_its_last_one_is_kept() -> None:
    algorithm = local()
    node = make_worker(algorithm, STREAMS[0], checkpoints=after(3))
    node.start(0.0)
    node.receive(REDUCER, Welcome("run-1"), 0.0)
    taken = []
    while node.state is WorkerState.STEPPING:
        taken += [(snapshot["round"], snapshot) for snapshot in keep_all(node, 0.0)]
        node.on_timer(0.0)
    assert [t for t, _ in taken] == [3, 6]
    last = node.take_snapshot()
    assert last is not None
    assert last["round"] == LENGTHS[0]
    assert node.holding
    assert not any(isinstance(message, Goodbye) for message in sent(node))
    node.snapshot_persisted(1.0)
    assert [type(message) for message in sent(node)] == [Hello, Goodbye]
    for snapshot in (*dict(taken).values(), last):
        again = make_worker(algorithm, STREAMS[0], snapshot=snapshot, incarnation=2)
        again.start(0.0)
        again.receive(REDUCER, Welcome("run-1"), 0.0)
        while again.state is WorkerState.STEPPING:
            again.on_timer(0.0)
        assert again.state is WorkerState.FINISHING
        assert node.result is not None and again.result is not None
        assert again.result.chain == node.result.chain
        assert again.result.totals == node.result.totals
    assert len(next(iter(node.result.model.values()))) == DIM


# Started anew without a snapshot: what is lost is noticed, and nobody waits for ever


@pytest.mark.parametrize(
    ("round", "kept_from", "lost"),
    [(0, 0, False), (1, 1, False), (2, 1, False), (364, 1, False), (2, 2, True), (364, 300, True)],
)
def test_a_reducer_that_has_lost_what_it_had_lets_nobody_in_whose_pushes_are_gone(
    round: int, kept_from: int, lost: bool
) -> None:
    """It can go through the rounds again as long as all pushes are kept."""
    node = reducer()
    node.start(0.0)
    node.receive("w0", hello(0, round=round, kept_from=kept_from), 1.0)
    answer, *questions = sent(node)
    if lost:
        reason = (
            f"site-0 is in round {round}, the reducer in round 1: the reducer was started anew, and what it had is lost"
        )
        assert answer == Reject(reason)
        assert questions == []
    else:
        assert answer == Welcome("run-1", 1)
        assert questions == ([Resend(1)] if round else [])


@pytest.mark.parametrize("round", [0, 1, 2, 3])
def test_a_worker_that_is_behind_what_can_be_made_up_for_is_not_let_in(round: int) -> None:
    """The reducer keeps what those may need again who have said that they would be in round 2 after a crash."""
    node = reducer()
    node.start(0.0)
    for task in range(3):
        node.receive(f"w{task}", hello(task), 0.0)
    for t, durable in ((1, 0), (2, 0), (3, 2), (4, 3), (5, 4)):
        for task in range(3):
            node.receive(f"w{task}", Push(t, IDLE, durable), 0.0)
    sent(node)
    node.on_connection("w1", False, 1.0)
    ends = pytest.raises(ClusterError, match="site-1 was started anew") if round < 3 else nullcontext()
    with ends:
        node.receive("new", hello(1, round=round, incarnation=2), 5.0)
    assert isinstance(sent(node)[0], Reject if round < 3 else Welcome)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_peers_notice_who_has_lost_what_it_had(exchange: str) -> None:
    """Two peers run on; then either comes back at its first round."""
    streams, graph = random_streams([40, 40]), graph_of("full", 2)
    pair = Peers([COUPLED] * 2, streams, graph, exchange=exchange, checkpoints=EVERY_ROUND)
    for node in pair.peers:
        node.start(pair.now)
    for task in range(2):
        pair._collect(task)
    while min(node.round for node in pair.peers) < 20:
        pair.step()
    old = pair.peers[0]
    old.on_connection(incoming(1), False, pair.now)  # else it would be asked first
    sent(old)
    with pytest.raises(ClusterError, match="site-1 was started anew, and what it had is lost"):
        old.receive("new", hello(1, incarnation=9), pair.now)
    answer = next(message for message in sent(old) if isinstance(message, Reject | Welcome))
    assert isinstance(answer, Reject)
    assert "site-1 was started anew, and what it had is lost" in answer.reason
    fresh = make_peer(COUPLED, streams[0], hoods_of(graph, [COUPLED] * 2)[0], num_tasks=2, exchange=exchange)
    fresh.start(pair.now)
    with pytest.raises(ClusterError, match="site-0 was started anew, and what it had is lost"):
        fresh.receive(incoming(1), pair.peers[1]._introduction(0), pair.now)
    (answer,) = sent(fresh)
    assert isinstance(answer, Reject)
    assert "site-0 was started anew, and what it had is lost" in answer.reason


@pytest.mark.parametrize("index", range(3))
def test_a_worker_without_its_snapshot_is_refused_or_makes_it_up_at_every_step(index: int) -> None:
    """Before each step of a star once: nobody waits for ever."""
    for when in range(60):
        party = Party(None)
        for step in range(400):
            if all(node.finished for node in party.nodes):
                break
            if step == when and not party.nodes[index].finished:
                party.on_disk[index] = []
                party.replace(index)
            try:
                party.step()
            except (RejectedError, ClusterError) as error:
                assert "was started anew, and what it had is lost" in str(error) or "no reducer answered" in str(error)
                break
        else:
            pytest.fail(f"no end after it was replaced before step {when}")
