"""What a node keeps for the time after a crash, and how the one that takes its place is received."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams, run_loop
from peers_harness import PATIENT, Peers, incoming, make_peer
from star_harness import DIM, hello, make_reducer, make_worker, sent

from drom_net.algorithms.base import IDLE
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.algorithms.local import local
from drom_net.errors import ClusterError, RejectedError
from drom_net.metrics import Totals
from drom_net.protocol.messages import (
    Farewell,
    Goodbye,
    Hello,
    Introduce,
    Message,
    Pull,
    Push,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import REDUCER, Envelope, Joined, Node, Refused, Snapshot
from drom_net.protocol.peer import Peer, PeerState, address_of
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker, WorkerState
from drom_net.records import peers_chain, run_digest
from drom_net.reference import run_reference

EXCHANGES = ("blocking", "overlap", "delayed")
LENGTHS = (7, 3, 6)
STREAMS = random_streams(LENGTHS, flip=0.2)
CENTRAL = drom(DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0))
COUPLED = drom_d(DromDParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, tau=2))
PATH = graph_of("path", 3)
HOODS = hoods_of(PATH, [COUPLED] * 3)


def worker(task: int, snapshot: Snapshot | None = None, **more: Any) -> Worker:
    options = {"keeps_snapshots": True, "snapshot": snapshot, "timeouts": PATIENT, **more}
    return make_worker(CENTRAL, STREAMS[task], task=task, **options)


def reducer(snapshot: Snapshot | None = None) -> Reducer:
    return make_reducer(CENTRAL, len(STREAMS), keeps_snapshots=True, snapshot=snapshot, timeouts=PATIENT)


def peer(task: int, snapshot: Snapshot | None = None, *, exchange: str = "blocking", **more: Any) -> Peer:
    options = {"exchange": exchange, "keeps_snapshots": True, "snapshot": snapshot, "timeouts": PATIENT, **more}
    return make_peer(COUPLED, STREAMS[task], HOODS[task], num_tasks=3, **options)


class Party:
    """Nodes of a star (the last is the reducer) or of a path; messages arrive in order, at once.

    Before each message any node may be replaced by one that goes on from its last snapshot, as after a crash.
    """

    def __init__(self, exchange: str | None) -> None:
        self.exchange = exchange
        count = 4 if exchange is None else 3
        self.incarnations = [1] * count
        self.snapshots: list[Snapshot | None] = [None] * count
        self.kept: list[tuple[int, Snapshot, Snapshot]] = []
        """(node, snapshot, what was in it when it was taken) of all."""
        self.records, self.central_records = [b""] * count, [b""] * count
        self.refused: list[tuple[int, Refused]] = []
        self.queue: list[tuple[int, int, str, int, Message]] = []
        """(receiver, its incarnation, the address it knows the sender by, the sender's, message)"""
        self.now = 0.0
        self.nodes: list[Any] = [self.make(index) for index in range(count)]
        for index in range(count):
            self.nodes[index].start(self.now)
            self.collect(index)

    def make(self, index: int) -> Any:
        snapshot, incarnation = self.snapshots[index], self.incarnations[index]
        if self.exchange is not None:
            return peer(index, snapshot, exchange=self.exchange, incarnation=incarnation)
        return reducer(snapshot) if index == 3 else worker(index, snapshot, incarnation=incarnation)

    def replace(self, index: int) -> None:
        """What was said to it and by it, and is on its way, is lost with its connections."""
        self.incarnations[index] += 1
        self.queue = [entry for entry in self.queue if entry[0] != index]
        self.nodes[index] = self.make(index)
        self.nodes[index].start(self.now)
        self.collect(index)

    def step(self) -> None:
        """The next message, or, where there is none, the next timers."""
        if self.queue:
            receiver, incarnation, address, _, message = self.queue.pop(0)
            if incarnation == self.incarnations[receiver] and not self.nodes[receiver].finished:
                self.nodes[receiver].receive(address, message, self.now)
                self.collect(receiver)
        else:
            self.now = max(self.now, min(node.next_timer() for node in self.nodes if not node.finished))
        for index, node in enumerate(self.nodes):
            while not node.finished and node.next_timer() <= self.now:
                node.on_timer(self.now)
                self.collect(index)

    def collect(self, index: int) -> None:
        node = self.nodes[index]
        if (snapshot := node.take_snapshot()) is not None:
            self.snapshots[index] = snapshot
            self.kept.append((index, snapshot, copy.deepcopy(snapshot)))
            self.take_records(index)
        if node.finished:
            self.take_records(index)
        self.refused += [(index, event) for event in node.take_events() if isinstance(event, Refused)]
        for envelope in node.take_outbox():
            receiver, address = self.route(index, envelope.to)
            if receiver is not None:
                entry = (receiver, self.incarnations[receiver], address, index, envelope.message)
                self.queue.append(entry)

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

    def run(self, replaced: int | None = None, at: Sequence[int] = ()) -> int:
        """To the end of all; how many steps it took. That node is replaced before these steps."""
        for count in range(10_000):
            if all(node.finished for node in self.nodes):
                return count
            if replaced is not None and count in at and not self.nodes[replaced].finished:
                self.replace(replaced)
            self.step()
        raise AssertionError([(node.state, getattr(node, "round", None)) for node in self.nodes])

    @property
    def digest(self) -> str:
        chains = [node.result.chain for node in self.nodes[:3]]
        central = [node.central_chain for node in self.nodes[-1:]]
        if self.exchange is not None:
            central = [peers_chain([node.central_chain for node in self.nodes])]
        return run_digest(chains, central[0])


def expected(exchange: str | None) -> tuple[str, list[bytes]]:
    """(digest, records of all nodes) of the plain loop."""
    if exchange is None:
        star = run_reference(CENTRAL, STREAMS, seed=0)
        return star.digest, [*star.task_records, star.central_records]
    peers = run_loop(COUPLED, STREAMS, PATH, seed=0, delayed=exchange == "delayed")
    return peers.digest, [*peers.task_records, *peers.central_records]


CASES = [(None, node) for node in range(4)] + [(exchange, node) for exchange in EXCHANGES for node in range(3)]


@pytest.mark.parametrize(("exchange", "node"), CASES)
def test_a_node_restored_between_any_two_messages_goes_on_with_the_same_bits(exchange: str | None, node: int) -> None:
    """Snapshot: "What a node goes on from after a crash"."""
    digest, records = expected(exchange)
    calm = Party(exchange)
    steps = calm.run()
    assert calm.digest == digest
    for at in range(steps):
        party = Party(exchange)
        party.run(node, [at])
        assert party.digest == digest, at
        left = party.records if exchange is None else party.records + party.central_records
        assert left == records, at
        told = [event for _, event in party.refused if not event.reason.endswith("before a Hello")]
        assert not told, at


@pytest.mark.parametrize(("exchange", "node"), CASES)
def test_a_node_may_be_restored_again_and_again(exchange: str | None, node: int) -> None:
    digest, records = expected(exchange)
    party = Party(exchange)
    party.run(node, range(0, 400, 7))
    assert party.incarnations[node] > 3
    assert party.digest == digest
    assert (party.records if exchange is None else party.records + party.central_records) == records


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
    assert len(party.kept) > 10
    assert all(same(snapshot, copied) for _, snapshot, copied in party.kept)
    mine = [snapshot for node, snapshot, _ in party.kept if node == 0]
    assert not same(mine[0], mine[-1])


@pytest.mark.parametrize("exchange", [None, *EXCHANGES])
def test_a_restored_node_has_all_that_its_snapshot_holds(exchange: str | None) -> None:
    """Its own first snapshot is the one that it was made from."""
    party = Party(exchange)
    party.run()
    for index, snapshot, _ in party.kept:
        party.snapshots[index] = snapshot
        assert same(party.make(index).take_snapshot(), snapshot)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_two_that_are_restored_from_one_snapshot_say_the_same(exchange: str) -> None:
    party = Party(exchange)
    party.run()
    snapshot = next(kept for node, kept, _ in party.kept if node == 1 and kept["round"] == 2)
    untouched = copy.deepcopy(snapshot)
    said = []
    for _ in range(2):
        again = peer(1, snapshot, exchange=exchange, incarnation=2)
        again.start(party.now)
        again.receive(incoming(2), hello(2), party.now)
        again.receive(address_of(0), Welcome("run-1"), party.now)
        while again.next_timer() <= party.now:
            again.on_timer(party.now)
        again.receive(address_of(0), Push(4, IDLE), party.now)
        again.receive(incoming(2), Push(4, IDLE), party.now)
        said.append((again.round, again.state, sent(again), again.totals, again.central_chain))
    assert any(isinstance(message, Push) for message in said[0][2])
    assert same(said[0], said[1])
    assert same(snapshot, untouched)


def test_a_snapshot_is_given_once_and_only_to_who_keeps_them() -> None:
    first = worker(0)
    assert first.take_snapshot() is not None
    assert first.take_snapshot() is None
    first.start(0.0)
    first.receive(REDUCER, Welcome("run-1"), 0.0)
    first.on_timer(0.0)
    assert first.take_snapshot() is None  # the round is open
    plain: list[Node] = [
        make_worker(CENTRAL, STREAMS[0]),
        make_reducer(CENTRAL, 3),
        make_peer(COUPLED, STREAMS[0], HOODS[0], num_tasks=3),
    ]
    for node in plain:
        node.start(0.0)
        assert node.take_snapshot() is None


def test_a_peer_gives_the_records_that_its_snapshot_holds() -> None:
    """Those of rounds behind its last sync round are made again after a crash."""
    node = peer(1, exchange="overlap")
    node.start(0.0)
    node.receive(incoming(2), hello(2), 0.0)
    node.receive(address_of(0), Welcome("run-1"), 0.0)
    node.on_timer(0.0)
    assert (node.round, node.totals.examples) == (1, 1)
    node.receive(incoming(2), Goodbye(2, bytes(32), node.totals), 0.0)  # there is something new to keep
    snapshot = node.take_snapshot()
    assert snapshot is None or snapshot["round"] == 0
    assert node.take_records() == b""


# Who takes whose place


def joined_reducer() -> Reducer:
    node = reducer()
    node.start(0.0)
    for task in range(3):
        node.receive(f"w{task}", hello(task), 1.0)
    node.take_outbox()
    node.take_events()
    return node


def test_a_higher_incarnation_takes_the_place_at_the_reducer() -> None:
    """Its old connection is nobody's any more; what comes from there is a stranger's."""
    node = joined_reducer()
    node.on_connection("w1", False, 2.0)
    node.take_events()
    node.receive("new", hello(1, incarnation=2), 3.0)
    assert node.take_outbox() == [Envelope("new", Welcome("run-1"))]
    assert node.take_events() == [Joined(1)]
    assert (node.task_at("new"), node.task_at("w1")) == (1, None)
    assert node.next_timer() == node._stall.due  # no longer the lost connection's
    node.receive("w1", Resend(1), 4.0)
    assert sent(node) == [Introduce()]


@pytest.mark.parametrize("incarnation", [1, 2])
def test_an_equal_or_lower_incarnation_is_already_here(incarnation: int) -> None:
    node = joined_reducer()
    node.receive("w1", hello(1, incarnation=2), 2.0)
    node.take_outbox()
    node.receive("new", hello(1, incarnation=incarnation), 3.0)
    assert node.take_outbox() == [Envelope("new", Reject("site-1 is already here"))]
    assert (node.task_at("new"), node.task_at("w1")) == (None, 1)


def joined_peer(**more: Any) -> Peer:
    node = peer(1, **more)
    node.start(0.0)
    node.receive(incoming(2), hello(2), 1.0)
    node.receive(address_of(0), Welcome("run-1"), 1.0)
    node.take_outbox()
    node.take_events()
    return node


def test_a_higher_incarnation_takes_the_place_at_a_peer() -> None:
    node = joined_peer()
    node.on_connection(incoming(2), False, 2.0)
    assert node._neighbors[2].give_up_at < float("inf")
    node.take_events()
    node.receive("new", hello(2, incarnation=2), 3.0)
    assert node.take_outbox() == [Envelope("new", Welcome("run-1"))]
    assert node.take_events() == []  # it has joined before
    assert (node.task_at("new"), node.task_at(incoming(2))) == (2, None)
    assert node._neighbors[2].give_up_at == float("inf")
    node.receive(incoming(2), Resend(2), 4.0)
    assert node.take_outbox() == [Envelope(incoming(2), Introduce())]


@pytest.mark.parametrize("incarnation", [1, 2])
def test_at_a_peer_too_an_equal_or_lower_one_is_already_here(incarnation: int) -> None:
    node = joined_peer()
    node.receive("second", hello(2, incarnation=2), 2.0)
    node.take_outbox()
    node.receive("new", hello(2, incarnation=incarnation), 3.0)
    assert node.take_outbox() == [Envelope("new", Reject("site-2 is already here"))]
    assert (node.task_at("new"), node.task_at("second")) == (None, 2)


def test_a_hello_that_was_said_twice_is_no_other_node() -> None:
    node, centre = joined_peer(), joined_reducer()
    node.receive(incoming(2), hello(2), 2.0)
    assert sent(node) == [Welcome("run-1")]
    centre.receive("w2", hello(2), 2.0)
    assert sent(centre) == [Welcome("run-1")]
    assert node.take_events() == centre.take_events() == []


def test_a_place_may_be_taken_again_and_again() -> None:
    node, centre = joined_peer(), joined_reducer()
    for incarnation in range(2, 6):
        node.receive(f"new-{incarnation}", hello(2, incarnation=incarnation), 2.0)
        centre.receive(f"new-{incarnation}", hello(2, incarnation=incarnation), 2.0)
        assert sent(node) == sent(centre) == [Welcome("run-1")]
    assert (node.task_at("new-5"), centre.task_at("new-5")) == (2, 2)
    assert len(node._task_at) == 2
    assert len(centre._task_at) == 3


# Introduce


def test_introduce_is_answered_by_a_hello_whatever_is_waited_for() -> None:
    """Said by who was started anew and does not know this address."""
    node = worker(0, incarnation=3)
    node.start(0.0)
    sent(node)
    node.receive(REDUCER, Introduce(), 0.5)
    assert sent(node) == [hello(0, incarnation=3)]  # joining
    node.receive(REDUCER, Welcome("run-1"), 1.0)
    node.receive(REDUCER, Introduce(), 1.0)
    assert sent(node) == [hello(0, incarnation=3)]  # stepping
    node.on_timer(1.0)
    sent(node)
    node.receive(REDUCER, Introduce(), 2.0)
    assert node.state is WorkerState.WAITING
    assert sent(node) == [hello(0, incarnation=3, round=1)]
    node.stop()
    node.receive(REDUCER, Introduce(), 3.0)
    assert sent(node) == []  # finished


def test_a_peer_answers_introduce_to_those_that_it_connects_to() -> None:
    node = joined_peer()
    node.receive(address_of(0), Introduce(), 2.0)
    assert node.take_outbox() == [Envelope(address_of(0), hello(1))]


def test_a_restored_peer_says_nothing_to_an_address_that_it_does_not_know_yet() -> None:
    """Who connects to it is silent until it has done so again; then it hears what it asks for."""
    party = Party("blocking")
    while party.nodes[1].round < 2 or party.nodes[1].state is not PeerState.WAITING:
        party.step()
    snapshot = party.snapshots[1]
    again = peer(1, snapshot, incarnation=2)
    again.start(5.0)
    assert again.take_outbox() == [Envelope(address_of(0), hello(1, incarnation=2))]
    for now in (6.0, 8.0, 12.0):
        again.on_timer(now)
        assert {envelope.to for envelope in again.take_outbox()} <= {address_of(0)}
    assert again.state is PeerState.JOINING
    again.receive("in-2/1", Resend(2), 13.0)
    assert again.take_outbox() == [Envelope("in-2/1", Introduce())]
    again.receive("in-2/1", hello(2), 13.0)
    assert again.take_outbox() == [Envelope("in-2/1", Welcome("run-1"))]


def test_a_restored_reducer_asks_who_speaks_and_goes_on_where_it_was() -> None:
    """It knows no address; from a Hello on it answers, also with a pull of before."""
    party = Party(None)
    while party.nodes[3].closed_rounds < 2:
        party.step()
    again = reducer(party.snapshots[3])
    again.start(5.0)
    assert again.closed_rounds == 2
    assert again.take_outbox() == []
    again.receive("in-0/1", Resend(2), 5.0)
    assert again.take_outbox() == [Envelope("in-0/1", Introduce())]
    again.receive("in-0/1", hello(0, round=2), 5.0)
    assert again.take_outbox() == [Envelope("in-0/1", Welcome("run-1"))]
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
    again = worker(1, party.snapshots[1], incarnation=2)
    again.start(5.0)
    assert again.state is WorkerState.FINISHING
    goodbye = Goodbye(3, before.result.chain, before.result.totals)
    assert sent(again) == [hello(1, incarnation=2, round=3), goodbye]
    assert again.take_records() == b""
    again.receive(REDUCER, Introduce(), 5.5)
    assert sent(again) == [hello(1, incarnation=2, round=3)]
    again.on_timer(5.5)
    assert sent(again) == [goodbye]
    again.receive(REDUCER, Farewell(), 6.0)
    assert again.finished
    assert same(again.result, before.result)


def test_a_restored_peer_that_has_said_goodbye_does_not_wait_for_neighbors_to_join() -> None:
    """They may be gone. It takes a farewell, a goodbye or, after linger_s, silence for an answer."""
    party = Party("blocking")
    while party.nodes[1].state is not PeerState.FINISHING:
        party.step()
    before, snapshot = party.nodes[1], party.snapshots[1]
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


def test_a_restored_peer_knows_whose_goodbye_has_come() -> None:
    """Once it is gone it cannot be asked again: that is kept before the farewell is said."""
    node = peer(0)
    node.start(0.0)
    for message in (hello(1), Push(2, IDLE._replace(last=True)), Goodbye(2, bytes(32), Totals())):
        node.receive(incoming(1), message, 0.0)
    assert isinstance(sent(node)[-1], Farewell)
    snapshot = node.take_snapshot()
    again = peer(0, snapshot, incarnation=2)
    again.start(5.0)
    assert again.state is PeerState.STEPPING  # its only neighbor is gone: there is nobody to wait for
    for one in (node, again):
        while not one.finished:
            one.on_timer(5.0)
    assert sent(again) == []
    assert same(again.result, node.result)
    assert again.central_chain == node.central_chain


def test_a_reducer_keeps_goodbyes() -> None:
    """A worker that has got its farewell is gone, and says it to nobody else."""
    party = Party(None)
    while party.nodes[3].ended[1] is None:
        party.step()
    again = reducer(party.snapshots[3])
    again.start(5.0)
    ended = again.ended[1]
    assert ended == party.nodes[3].ended[1]
    assert again._not_joined() == [0, 2]


def test_a_task_that_learns_alone_is_kept_from_its_goodbye_on() -> None:
    """It says nothing before: a crash begins it anew."""
    algorithm = local()
    node = make_worker(algorithm, STREAMS[0], keeps_snapshots=True)
    node.start(0.0)
    node.receive(REDUCER, Welcome("run-1"), 0.0)
    first = node.take_snapshot()
    assert first is not None and first["round"] == 0
    while node.state is WorkerState.STEPPING:
        assert node.take_snapshot() is None
        node.on_timer(0.0)
    last = node.take_snapshot()
    assert last is not None and last["round"] == LENGTHS[0]
    again = make_worker(algorithm, STREAMS[0], snapshot=last, incarnation=2)
    again.start(0.0)
    assert again.state is WorkerState.FINISHING
    assert node.result is not None and again.result is not None
    assert again.result.chain == node.result.chain
    assert again.result.totals == node.result.totals
    assert len(next(iter(again.result.model.values()))) == DIM


# Started anew without a snapshot: what is lost is noticed, and nobody waits for ever


@pytest.mark.parametrize(("round", "lost"), [(0, False), (1, False), (2, True), (364, True)])
def test_a_reducer_that_has_lost_what_it_had_lets_nobody_in_who_is_further(round: int, lost: bool) -> None:
    """A worker may have begun the round that a new reducer opens; in a later one it waits for what nobody has."""
    node = reducer()
    node.start(0.0)
    node.receive("w0", hello(0, round=round), 1.0)
    (answer,) = sent(node)
    if lost:
        reason = (
            f"site-0 is in round {round}, the reducer in round 1: the reducer was started anew, and what it had is lost"
        )
        assert answer == Reject(reason)
    else:
        assert answer == Welcome("run-1")


@pytest.mark.parametrize("round", [0, 1, 2])
def test_a_worker_that_is_behind_what_can_be_made_up_for_is_not_let_in(round: int) -> None:
    """The reducer keeps the last pull only, so it can help who lacks one round, as after a crash with a snapshot."""
    party = Party(None)
    while party.nodes[3].closed_rounds < 2:
        party.step()
    again = reducer(party.snapshots[3])
    again.start(5.0)
    ends = pytest.raises(ClusterError, match="site-1 was started anew") if round == 0 else nullcontext()
    with ends:
        again.receive("new", hello(1, round=round), 5.0)
    (answer,) = sent(again)
    assert isinstance(answer, Reject if round == 0 else Welcome)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_peers_notice_who_has_lost_what_it_had(exchange: str) -> None:
    """Two peers run on; then either comes back at its first round."""
    streams, graph = random_streams([40, 40]), graph_of("full", 2)
    pair = Peers([COUPLED] * 2, streams, graph, exchange=exchange, keeps_snapshots=True)
    for node in pair.peers:
        node.start(pair.now)
    for task in range(2):
        pair._collect(task)
    while min(node.round for node in pair.peers) < 20:
        pair.step()
    old = pair.peers[0]
    with pytest.raises(ClusterError, match="site-1 was started anew, and what it had is lost"):
        old.receive("new", hello(1, incarnation=9), pair.now)
    answer = next(message for message in sent(old) if isinstance(message, Reject | Welcome))
    assert isinstance(answer, Reject)
    assert "site-1 was started anew, and what it had is lost" in answer.reason
    fresh = make_peer(COUPLED, streams[0], hoods_of(graph, [COUPLED] * 2)[0], num_tasks=2, exchange=exchange)
    fresh.start(pair.now)
    with pytest.raises(ClusterError, match="site-0 was started anew, and what it had is lost"):
        fresh.receive(incoming(1), hello(1, round=pair.peers[1].round), pair.now)
    (answer,) = sent(fresh)
    assert isinstance(answer, Reject)
    assert "site-0 was started anew, and what it had is lost" in answer.reason


def test_a_later_incarnation_takes_no_place_where_nodes_do_not_come_back() -> None:
    """Without snapshots nobody is started anew: a stranger that says so would throw out who is there."""
    centre = make_reducer(CENTRAL, 3)
    centre.start(0.0)
    centre.receive("w1", hello(1), 1.0)
    sent(centre)
    centre.receive("new", hello(1, incarnation=10**12), 2.0)
    assert sent(centre) == [Reject("site-1 is already here")]
    node = make_peer(COUPLED, STREAMS[1], HOODS[1], num_tasks=3)
    node.start(0.0)
    node.receive(incoming(2), hello(2), 1.0)
    sent(node)
    node.receive("new", hello(2, incarnation=10**12), 2.0)
    assert sent(node) == [Reject("site-2 is already here")]


@pytest.mark.parametrize("index", range(3))
def test_a_worker_without_its_snapshot_is_refused_or_makes_it_up_at_every_step(index: int) -> None:
    """Before each step of a star once: nobody waits for ever."""
    for when in range(60):
        party = Party(None)
        for step in range(400):
            if all(node.finished for node in party.nodes):
                break
            if step == when and not party.nodes[index].finished:
                party.snapshots[index] = None
                party.records[index] = b""
                party.replace(index)
            try:
                party.step()
            except (RejectedError, ClusterError) as error:
                assert "was started anew, and what it had is lost" in str(error) or "no reducer answered" in str(error)
                break
        else:
            pytest.fail(f"no end after it was replaced before step {when}")
