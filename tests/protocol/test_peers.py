"""Peers together, in memory: the bits of the reference, whatever the network does to the messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from helpers import random_streams, sparse_stream, spread
from peers_harness import Peers, graph_of
from star_harness import Network, faulty, perfect

from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.data.stream import TaskStream
from drom_net.protocol.messages import Farewell, Goodbye, Hello, Message, Push, Resend, Welcome
from drom_net.protocol.node import Joined, Refused, Stalled, Warned
from drom_net.protocol.settings import Timeouts
from drom_net.reference import run_reference_peers
from drom_net.topology import Graph

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
    graph: Graph,
    *,
    tau: int,
    exchange: str,
    rounds: int | None = None,
    network: Network = perfect,
    timeouts: Timeouts | None = None,
    **parameters: object,
) -> Peers:
    """Run them to the end, compare all that they leave with the reference, and return them."""
    wanted: dict[str, object] = {"eta0": 3.0, "lam": 0.2, "rho": 0.3, "xi": 1.0, **parameters}
    algorithm = drom_d(DromDParameters(tau=tau, exchange=exchange, **wanted))  # type: ignore[arg-type]
    options = {} if timeouts is None else {"timeouts": timeouts}
    peers = Peers(algorithm, streams, graph, exchange=exchange, rounds=rounds, network=network, **options)
    peers.run()
    expected = run_reference_peers(algorithm, streams, graph, seed=0, delayed=exchange == "delayed", rounds=rounds)
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
    kinds = (Hello, Welcome, Push, Resend, Goodbye, Farewell)
    counts = {kind.__name__: len(said(peers, kind)) for kind in kinds}
    goodbyes = counts.pop("Goodbye")
    assert 6 <= goodbyes == counts.pop("Farewell") <= 12
    assert counts == {"Hello": 6, "Welcome": 6, "Push": 2 * 6 * 3, "Resend": 0}
    assert [len(events) for events in peers.events] == [2] * 6


# With faults


def pairwise(*choices: Sequence) -> list[tuple]:
    """Few combinations, in which any two values of different choices meet (greedy)."""

    def pairs_of(combination: tuple[int, ...]) -> set:
        return set(itertools.combinations(enumerate(combination), 2))

    every = list(itertools.product(*(range(len(values)) for values in choices)))
    left = set().union(*map(pairs_of, every))
    chosen = []
    while left:
        best = max(every, key=lambda combination: len(left & pairs_of(combination)))
        left -= pairs_of(best)
        chosen.append(tuple(values[index] for values, index in zip(choices, best, strict=True)))
    return chosen


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
@pytest.mark.parametrize("kind", [Hello, Welcome, Push, Resend, Goodbye, Farewell])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_whatever_is_lost_is_said_again(kind: type, times: int, exchange: str) -> None:
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
