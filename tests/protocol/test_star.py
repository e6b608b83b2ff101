"""Worker and reducer together, in memory: the bits of the reference, whatever the network does to the messages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from helpers import random_streams, sparse_stream, spread
from star_harness import Network, Star, faulty, perfect

from drom_net.algorithms import BUILTIN, Algorithm
from drom_net.algorithms.base import ContributionKind, ReplyKind
from drom_net.algorithms.drom import PAPER, DromParameters, drom
from drom_net.algorithms.local import local
from drom_net.data.stream import TaskStream
from drom_net.learning.reference import run_reference
from drom_net.protocol.messages import Goodbye, GoodbyeAck, Hello, Message, Pull, Push, Resend, Welcome
from drom_net.protocol.node import REDUCER, Joined, Warned
from drom_net.protocol.settings import Timeouts

COUPLED = drom(DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, p=0.9))
"""With outliers, with rounds below and above sigma_1 = 1."""
LENGTHS = [9, 4, 12, 1]


def assert_same_bits(star: Star, algorithm: Algorithm, streams: list[TaskStream], **options: int) -> None:
    """Digest, records, models and counts of the star are those of the plain loop."""
    expected = run_reference(algorithm, streams, seed=0, **options)
    assert star.digest == expected.digest
    for task, (worker, alone) in enumerate(zip(star.workers, expected.tasks, strict=True)):
        assert worker.result is not None
        assert worker.result.chain == alone.chain
        assert worker.result.totals == alone.totals
        assert [vector.tobytes() for vector in worker.result.model.values()] == [
            vector.tobytes() for vector in alone.model.values()
        ]
        assert star.records[f"w{task}"] == expected.task_records[task]
        ended = star.reducer.ended[task]
        assert ended is not None
        assert (ended.rounds, ended.totals) == (worker.round, alone.totals)
    assert star.records[REDUCER] == expected.central_records


def said(star: Star, kind: type) -> list[Message]:
    return [message for _, _, message, _ in star.said if isinstance(message, kind)]


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("alignment", [list, spread])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_star_gives_the_bits_of_the_plain_loop(name: str, alignment: Callable, kind: str) -> None:
    """Section 8: "loop = simulated network = processes: bits"."""
    streams = alignment(random_streams(LENGTHS, flip=0.2, density=0.6))
    if kind == "sparse":
        streams = [sparse_stream(stream) for stream in streams]
    algorithm = COUPLED if name == "drom" else BUILTIN[name].make()
    star = Star(algorithm, streams)
    star.run()
    assert_same_bits(star, algorithm, streams)
    assert star.now < 1.0  # nothing was waited for


@pytest.mark.parametrize("rounds", [1, 3, 10, 99])
def test_a_run_that_is_cut_gives_the_bits_of_the_plain_loop(rounds: int) -> None:
    streams = random_streams(LENGTHS)
    star = Star(COUPLED, streams, rounds=rounds)
    star.run()
    assert_same_bits(star, COUPLED, streams, rounds=rounds)


def test_a_task_without_examples_joins_and_leaves() -> None:
    streams = random_streams([3, 0, 2])
    star = Star(COUPLED, streams)
    star.run()
    assert_same_bits(star, COUPLED, streams)


def test_on_a_good_network_every_message_is_said_once() -> None:
    """One push and one pull a task and round; nobody asks for what is on its way."""
    streams = random_streams([6, 4, 6], flip=0.3)
    star = Star(COUPLED, streams)
    star.run()
    counts = {
        kind.__name__: len(said(star, kind)) for kind in (Hello, Welcome, Push, Pull, Resend, Goodbye, GoodbyeAck)
    }
    assert counts == {"Hello": 3, "Welcome": 3, "Push": 16, "Pull": 16, "Resend": 0, "Goodbye": 3, "GoodbyeAck": 3}
    assert [event.task for event in star.events[REDUCER] if isinstance(event, Joined)] == [0, 1, 2]


def test_local_sends_nothing_between_hello_and_goodbye() -> None:
    """Section 4: Local sends 0 d-vectors."""
    streams = random_streams([6, 4, 6])
    star = Star(local(), streams)
    star.run()
    assert {type(message) for _, _, message, _ in star.said} == {Hello, Welcome, Goodbye, GoodbyeAck}
    assert len(star.said) == 12


def test_outliers_and_empty_answers_travel_as_a_header_without_a_vector() -> None:
    """Algorithm 1: an outlier is not synchronized, and {u, v} goes back only when sigma_1 > 1."""
    algorithm = drom(DromParameters(**{**PAPER, "eta0": 1.4}))  # type: ignore[arg-type]
    streams = random_streams([30] * 3, flip=0.3)
    star = Star(algorithm, streams)
    star.run()
    assert_same_bits(star, algorithm, streams)
    pushed, pulled = set(), set()
    for _, _, message, frames in star.said:
        if isinstance(message, Push):
            pushed.add(message.contribution.kind)
            assert len(frames) == (2 if message.contribution.kind is ContributionKind.VECTORS else 1)
        elif isinstance(message, Pull):
            pulled.add(message.reply.kind)
            assert len(frames) == (2 if message.reply.kind is ReplyKind.VECTORS else 1)
    assert pushed == {ContributionKind.VECTORS, ContributionKind.SKIP}
    assert pulled == {ReplyKind.VECTORS, ReplyKind.ZERO, ReplyKind.KEEP}


@pytest.mark.parametrize("seed", range(40))
def test_lost_doubled_and_overtaken_messages_change_no_bit(seed: int) -> None:
    """architecture.md, "When something is missing": "whoever is waiting asks again"; repeats are harmless."""
    alignment = spread if seed % 4 == 3 else list
    streams = alignment(random_streams([LENGTHS[(seed + i) % 4] for i in range(3)], seed=seed, flip=0.2))
    star = Star(COUPLED, streams, network=faulty(seed))
    star.run()
    assert_same_bits(star, COUPLED, streams)
    assert len(said(star, Resend)) > 0


@pytest.mark.parametrize("seed", range(30))
def test_lost_doubled_and_overtaken_messages_change_no_bit_of_local(seed: int) -> None:
    streams = random_streams(LENGTHS, seed=seed)
    star = Star(local(), streams, network=faulty(seed, lost=0.3))
    star.run()
    assert_same_bits(star, local(), streams)


@pytest.mark.parametrize("seed", range(5))
def test_a_network_that_loses_half_of_all_only_costs_time(seed: int) -> None:
    streams = random_streams([6, 2, 4], seed=seed)
    timeouts = Timeouts(join_s=1e3, linger_s=1e3, resend_cap_s=1.0)
    star = Star(COUPLED, streams, network=faulty(seed, lost=0.5), timeouts=timeouts)
    star.run()
    assert_same_bits(star, COUPLED, streams)


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
@pytest.mark.parametrize("kind", [Hello, Welcome, Push, Pull, Resend, Goodbye])
def test_whatever_is_lost_is_said_again(kind: type, times: int) -> None:
    streams = random_streams([3, 2])
    star = Star(COUPLED, streams, network=losing(lambda message: isinstance(message, kind), times))
    star.run()
    assert_same_bits(star, COUPLED, streams)


def test_the_last_pull_of_a_short_stream_may_be_lost_while_the_others_go_on() -> None:
    """The round is long over when the worker asks again; its answer must still be known, or it waits for ever."""

    def last_of_the_short_one(message: Message) -> bool:
        return isinstance(message, Pull) and message.round == 2

    streams = random_streams([2, 40])
    star = Star(COUPLED, streams, network=losing(last_of_the_short_one, times=2))
    star.run()
    assert_same_bits(star, COUPLED, streams)
    assert star.reducer.closed_rounds == 40


def test_a_lost_farewell_is_asked_for_and_without_it_the_worker_ends_at_last() -> None:
    """decisions.md, Finishing: "until [..] or `linger_s` has passed (then exit 0, noted)"."""
    streams = random_streams([2, 40])
    star = Star(COUPLED, streams, network=losing(lambda message: isinstance(message, GoodbyeAck)))
    star.run()
    assert_same_bits(star, COUPLED, streams)
    gone = Star(COUPLED, streams, network=losing(lambda message: isinstance(message, GoodbyeAck), times=99))
    gone.run()
    assert_same_bits(gone, COUPLED, streams)
    for task in range(2):
        assert [type(event) for event in gone.events[f"w{task}"] if isinstance(event, Warned)] == [Warned]


def test_a_star_may_start_in_any_order() -> None:
    """failures.md, 18: "order of start does not matter"; here a worker is late, and one Hello finds nobody."""
    streams = random_streams([3, 3])
    star = Star(COUPLED, streams, network=losing(lambda message: isinstance(message, Hello), times=4))
    star.run()
    assert_same_bits(star, COUPLED, streams)
    assert star.now > 0.5


def test_vectors_that_are_on_their_way_are_not_shared() -> None:
    streams = random_streams([5, 5])
    star = Star(COUPLED, streams)
    star.run()
    for _, _, message, frames in star.said:
        if isinstance(message, Push):
            for vector, frame in zip(message.contribution.vectors, frames[1:], strict=True):
                np.testing.assert_array_equal(vector, np.frombuffer(frame))
