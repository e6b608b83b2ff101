"""Peers together, in memory: the bits of the reference, whatever the network does to the messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from helpers import graph_of, pairwise, random_streams, run_loop, sparse_stream, spread
from peers_harness import Peers
from star_harness import Network, faulty, perfect

from drom_net.algorithms.base import ContributionKind
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.algorithms.learner import of_task
from drom_net.data.stream import TaskStream
from drom_net.graph.families import one_peer_exponential
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.weights import mixing_weights
from drom_net.learning.records import central_dtype
from drom_net.protocol.messages import Goodbye, GoodbyeAck, Hello, Message, Push, Resend, Welcome
from drom_net.protocol.node import Joined, Refused, Stalled, Warned
from drom_net.protocol.settings import Timeouts

LENGTHS = [30, 9, 24, 30, 13, 41]
"""Of different length, and not a multiple of any tau."""
GRAPHS: dict[str, Graph] = {
    "full": graph_of("full", 6),
    "ring": graph_of("ring", 6),
    "grid": graph_of("grid", 6, rows=2, columns=3),
    "path": graph_of("path", 6),
    "hub": graph_of("hub", 6),
    "weighted": graph_of("ring", 6, weights="metropolis"),
    "parts": graph_of("edges", 6, edges=((0, 4), (4, 2), (1, 5))),
}
TAUS = (1, 5, 20)
EXCHANGES = ("blocking", "overlap", "delayed")
ROUNDS = (None, 23)
ALIGNMENTS: tuple[Callable, ...] = (list, spread)


def run(
    streams: Sequence[TaskStream],
    graph: Graph | GraphSchedule,
    *,
    tau: int | tuple[int, ...],
    exchange: str,
    rounds: int | None = None,
    network: Network = perfect,
    timeouts: Timeouts | None = None,
    **parameters: object,
) -> Peers:
    """Run them to the end, compare all that they leave with the reference, and return them."""
    wanted: dict[str, object] = {"eta0": 3.0, "lam": 0.2, "rho": 0.3, "xi": 1.0, **parameters}
    parameters_of = DromDParameters(tau=tau, exchange=exchange, **wanted)  # type: ignore[arg-type]
    algorithms = [drom_d(of_task(parameters_of, task)) for task in range(len(streams))]
    options = {} if timeouts is None else {"timeouts": timeouts}
    peers = Peers(algorithms, streams, graph, exchange=exchange, rounds=rounds, network=network, **options)
    peers.run()
    expected = run_loop(algorithms, streams, graph, seed=0, delayed=exchange == "delayed", rounds=rounds)
    for task, (peer, alone) in enumerate(zip(peers.peers, expected.tasks, strict=True)):
        assert peer.result is not None
        assert peer.result.totals == alone.totals, task
        assert peers.records[task] == expected.task_records[task], task
        assert peers.central_records[task] == expected.central_records[task], task
        assert [vector.tobytes() for vector in peer.result.model.values()] == [
            vector.tobytes() for vector in alone.model.values()
        ], task
    assert peers.digest == expected.digest
    return peers


def said(peers: Peers, kind: type) -> list[Message]:
    return [message for _, _, message in peers.said if isinstance(message, kind)]


# Without faults: the whole product


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_peers_give_the_bits_of_the_plain_loop(
    graph: str, tau: int, exchange: str, rounds: int | None, alignment: Callable
) -> None:
    """Section 8: "loop = simulated network = processes: bits"."""
    streams = alignment(random_streams(LENGTHS, flip=0.2, density=0.6))
    peers = run(streams, GRAPHS[graph], tau=tau, exchange=exchange, rounds=rounds)
    assert not said(peers, Resend)
    assert not [event for events in peers.events for event in events if not isinstance(event, Joined)]
    assert peers.now < 1.0  # nothing was waited for


UNEQUAL: tuple[tuple[int, ...], ...] = (
    (1, 2, 3, 4, 5, 6),
    (7, 3, 1, 10, 3, 2),
    (5, 5, 5, 20, 5, 5),
    (40, 1, 1, 1, 1, 1),
)


@pytest.mark.parametrize("network", ["good", "bad"])
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("taus", UNEQUAL, ids=str)
@pytest.mark.parametrize("graph", ["full", "ring", "weighted", "hub"])
def test_a_tau_for_each_task_gives_the_bits_of_the_plain_loop(
    graph: str, taus: tuple[int, ...], exchange: str, network: str
) -> None:
    """decisions.md: "`tau` may be set per task"."""
    streams = random_streams(LENGTHS, flip=0.2)
    for number, rounds in enumerate(ROUNDS):
        run(streams, GRAPHS[graph], tau=taus, exchange=exchange, rounds=rounds, network=a_network(network, number))


def a_network(name: str, seed: int) -> Network:
    return perfect if name == "good" else faulty(seed, lost=0.25, doubled=0.25, delay_s=0.5)


def test_a_task_of_longer_tau_says_less_and_hears_less() -> None:
    peers = run(random_streams([40] * 3), graph_of("full", 3), tau=(2, 2, 20), exchange="blocking")
    words = {
        (sender, receiver): [
            message.round
            for who, whom, message in peers.said
            if (who, whom) == (sender, receiver) and isinstance(message, Push)
        ]
        for sender, receiver in itertools.permutations(range(3), 2)
    }
    assert words[0, 1] == words[1, 0] == list(range(2, 41, 2))
    assert words[2, 0] == words[2, 1] == [20, 40]
    assert words[0, 2] == words[1, 2] == [20, 40]  # others' words in between it would not use


@pytest.mark.parametrize("network", ["good", "bad"])
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("tau", [2, (2, 3, 2, 3, 7, 1)], ids=str)
@pytest.mark.parametrize("postpone_below", [2, 4, 9])
def test_a_task_with_few_new_examples_postpones_and_the_bits_are_those_of_the_plain_loop(
    postpone_below: int, tau: int | tuple[int, ...], exchange: str, network: str
) -> None:
    """decisions.md: "a task may also answer a sync round with *postponed* (header only; its last column counts)"."""
    streams = spread(random_streams(LENGTHS, flip=0.2))
    options = {"tau": tau, "exchange": exchange, "network": a_network(network, postpone_below)}
    peers = run(streams, GRAPHS["grid"], postpone_below=postpone_below, **options)  # type: ignore[arg-type]
    kinds = [message.contribution.kind for message in said(peers, Push)]  # type: ignore[attr-defined]
    assert ContributionKind.POSTPONED in kinds
    assert ContributionKind.VECTORS in kinds
    assert peers.digest != run(streams, GRAPHS["grid"], **options).digest  # type: ignore[arg-type]


def test_a_postponed_word_is_a_header_and_its_vector_comes_with_the_next() -> None:
    streams = random_streams([12, 12])
    peers = run(streams, graph_of("full", 2), tau=2, exchange="blocking", postpone_below=4)
    (words,) = [
        [message for who, _, message in peers.said if who == task and isinstance(message, Push)] for task in (0,)
    ]
    kinds = [message.contribution.kind.name for message in words]
    assert kinds == ["POSTPONED", "VECTORS"] * 3
    rows = np.frombuffer(peers.central_records[0], dtype=central_dtype(2))
    assert rows["postponed"].tolist() == [2, 0] * 3
    assert rows["corrected"].tolist() == [0, rows["corrected"][1]] * 3  # who postpones keeps its correction


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("taus", [(4, 5), (5, 4), (7, 5), (6, 7), (8, 7), (2, 7), (1, 8)], ids=str)
def test_any_one_word_may_be_lost_whatever_the_taus(taus: tuple[int, int], exchange: str) -> None:
    """Also where the other side has said so much meanwhile that no more is kept of it: the one waited for is."""
    for which in range(20):
        count = itertools.count()

        def network(
            sender: str, receiver: str, message: Message, which: int = which, count: itertools.count = count
        ) -> list[float]:
            return [] if isinstance(message, Push) and next(count) == which else [0.001]

        run(random_streams([43, 29]), graph_of("path", 2), tau=taus, exchange=exchange, network=network)


CYCLES = {
    "one peer of 6": GraphSchedule(one_peer_exponential(6)),
    "one peer of 5": GraphSchedule(one_peer_exponential(5)),
    "ring, then hub, then nobody": GraphSchedule(
        (graph_of("ring", 6), graph_of("hub", 6), graph_of("edges", 6, edges=()))
    ),
    "lazy pairs": GraphSchedule(
        tuple(replace(graph, weights=mixing_weights(graph, "lazy")) for graph in one_peer_exponential(4))
    ),
}


@pytest.mark.parametrize("network", ["good", "bad"])
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("cycle", CYCLES)
def test_a_graph_that_changes_by_sync_round_gives_the_bits_of_the_plain_loop(
    cycle: str, tau: int, exchange: str, network: str
) -> None:
    """decisions.md: "Time-varying graphs: A^(i) holds this round's members only"."""
    schedule = CYCLES[cycle]
    streams = random_streams(LENGTHS[: schedule.union.num_tasks], flip=0.2)
    for number, rounds in enumerate(ROUNDS):
        peers = run(streams, schedule, tau=tau, exchange=exchange, rounds=rounds, network=a_network(network, number))
        for task, records in enumerate(peers.central_records):
            members_ever = peers.hoods[task].closed_neighborhood
            for row in np.frombuffer(records, dtype=central_dtype(len(members_ever))):
                members = schedule.at(int(row["round"]) // tau - 1).members(task)
                strangers = [k for k, member in enumerate(members_ever) if member not in members]
                assert not row["v"][strangers].any()


def test_in_a_cycle_one_speaks_to_this_rounds_partner_only() -> None:
    schedule = GraphSchedule(one_peer_exponential(4))
    peers = run(random_streams([8] * 4), schedule, tau=2, exchange="blocking")
    words = [(who, whom, message.round) for who, whom, message in peers.said if isinstance(message, Push)]
    last = 8
    for who, whom, t in words:
        assert t == last or whom in schedule.at(t // 2 - 1).members(who)
    assert sum(t < last for _, _, t in words) == 4 * 3


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("lengths", [[0, 6, 6], [6, 0, 3], [1, 12, 4], [0, 0, 0], [3, 3, 3]])
@pytest.mark.parametrize("tau", [1, 4, 50])
def test_empty_and_short_streams_end_by_themselves(exchange: str, lengths: list[int], tau: int) -> None:
    for graph in (graph_of("path", 3), graph_of("full", 3)):
        run(random_streams(lengths), graph, tau=tau, exchange=exchange)
        run(random_streams(lengths), graph, tau=tau, exchange=exchange, network=faulty(tau))


@pytest.mark.parametrize("ended", ["keep", "drop"])
@pytest.mark.parametrize("outlier", ["regularise", "skip"])
def test_the_switches_of_the_algorithm_change_the_bits_everywhere_alike(ended: str, outlier: str) -> None:
    streams = [sparse_stream(stream) for stream in random_streams(LENGTHS, flip=0.3, density=0.5)]
    for exchange in EXCHANGES:
        run(streams, GRAPHS["grid"], tau=3, exchange=exchange, ended=ended, outlier=outlier, solver="gram")


def test_blocking_and_overlap_are_one_sequence_and_delayed_is_another() -> None:
    streams = random_streams(LENGTHS, flip=0.2)
    digests = [run(streams, GRAPHS["ring"], tau=5, exchange=exchange).digest for exchange in EXCHANGES]
    assert digests[0] == digests[1] != digests[2]


def test_a_task_alone_needs_nobody() -> None:
    peers = run(random_streams([7]), graph_of("full", 1), tau=2, exchange="overlap")
    assert peers.said == []


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_on_a_good_network_every_message_is_said_once(exchange: str) -> None:
    """Per edge a Hello and a Welcome, a word each way in every sync round, and a goodbye that is confirmed or two."""
    peers = run(random_streams([12] * 6), GRAPHS["ring"], tau=4, exchange=exchange)
    kinds = (Hello, Welcome, Push, Resend, Goodbye, GoodbyeAck)
    counts = {kind.__name__: len(said(peers, kind)) for kind in kinds}
    goodbyes = counts.pop("Goodbye")
    assert 6 <= goodbyes == counts.pop("GoodbyeAck") <= 12
    assert counts == {"Hello": 6, "Welcome": 6, "Push": 2 * 6 * 3, "Resend": 0}
    assert [len(events) for events in peers.events] == [2] * 6


# With faults


SELECTION = pairwise(tuple(GRAPHS), TAUS, EXCHANGES, ROUNDS, ALIGNMENTS)


@pytest.mark.parametrize("seed", range(4 * len(SELECTION)))
def test_lost_doubled_and_overtaken_messages_change_no_bit(seed: int) -> None:
    """architecture.md, "When something is missing": "whoever is waiting asks again"; repeats are harmless."""
    graph, tau, exchange, rounds, alignment = SELECTION[seed % len(SELECTION)]
    lengths = [LENGTHS[(seed + task) % 6] for task in range(6)]
    streams = alignment(random_streams(lengths, seed=seed, flip=0.2))
    network = faulty(seed, lost=0.25)
    peers = run(streams, GRAPHS[graph], tau=tau, exchange=exchange, rounds=rounds, network=network)
    events = [event for events in peers.events for event in events]
    assert not [event for event in events if isinstance(event, Refused)]


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("seed", range(3))
def test_a_network_that_loses_half_of_all_only_costs_time(seed: int, exchange: str) -> None:
    timeouts = Timeouts(join_s=1e3, linger_s=1e3, resend_cap_s=1.0)
    streams = random_streams([9, 3, 7, 12, 1, 8], seed=seed)
    network = faulty(seed, lost=0.5)
    run(streams, GRAPHS["hub"], tau=2, exchange=exchange, network=network, timeouts=timeouts)


def losing(lost: Callable[[Message], bool], times: int = 1) -> Network:
    """A good network that loses the first `times` of such messages."""
    left = [times]

    def network(sender: str, receiver: str, message: Message) -> list[float]:
        if left[0] and lost(message):
            left[0] -= 1
            return []
        return perfect(sender, receiver, message)

    return network


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", [Hello, Welcome, Push, Resend, Goodbye, GoodbyeAck])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_accidents_24_25_26_whatever_is_lost_is_said_again(kind: type, times: int, exchange: str) -> None:
    """failures.md, 24 to 26: dropped at the high-water mark, discarded, lost with a connection or right after it."""
    network = losing(lambda message: isinstance(message, kind), times)
    run(random_streams([6, 3, 5]), graph_of("full", 3), tau=2, exchange=exchange, network=network)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("which", range(1, 7))
def test_any_last_words_may_be_lost_before_a_neighbor_is_gone(exchange: str, which: int) -> None:
    """A goodbye is confirmed when all words have come, not only the last one: nobody could be asked afterwards."""
    network = losing(lambda message: isinstance(message, Push) and message.round == which, times=2)
    for lengths in ([5, 7], [6, 9], [9, 5]):
        run(random_streams(lengths), graph_of("path", 2), tau=1, exchange=exchange, network=network)
        run(random_streams(lengths), graph_of("path", 2), tau=2, exchange=exchange, network=network)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_lost_welcome_is_not_missed_when_the_neighbor_is_through_already(exchange: str) -> None:
    """Task 0 has no examples: welcome, goodbye, gone. Task 1 knows from the goodbye that it was let in."""
    network = losing(lambda message: isinstance(message, Welcome))
    peers = run(random_streams([0, 5]), graph_of("path", 2), tau=2, exchange=exchange, network=network)
    assert not [event for events in peers.events for event in events if isinstance(event, Warned | Stalled)]
