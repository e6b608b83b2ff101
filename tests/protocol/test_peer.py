"""The peer alone: each state, each message in it, each time that runs out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from helpers import frozen, graph_of, hoods_of, random_streams
from peers_harness import incoming, make_peer
from star_harness import DIM, hello, sent

from drom_net.algorithms.base import IDLE, ZERO, Contribution, ContributionKind, ReplyKind
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.core.errors import ClusterError, RejectedError
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.protocol.messages import Goodbye, GoodbyeAck, Message, Pull, Push, Reject, RequestHello, Resend, Welcome
from drom_net.protocol.node import CaughtUp, ConnectionChanged, Envelope, Joined, Refused, Stalled, Warned
from drom_net.protocol.peer import Peer
from drom_net.protocol.session import address_of
from drom_net.protocol.settings import Timeouts
from drom_net.protocol.states import PeerState

TIMES = Timeouts(
    join_s=20.0, resend_after_s=0.5, resend_cap_s=2.0, lost_s=30.0, stall_s=10.0, linger_s=5.0, heartbeat_s=2.0
)
BEFORE, BEHIND = address_of(0), incoming(2)
"""The neighbors of task 1 on a path: the one that it connects to, and the one that connects to it."""


def new(
    examples: int = 3, *, tau: int = 1, exchange: str = "blocking", rounds: int | None = None, num_tasks: int = 3
) -> Peer:
    """Task 1 of a path."""
    algorithm = drom_d(DromDParameters(tau=tau, exchange=exchange, eta0=3.0, lam=0.2, rho=0.3))
    (stream,) = random_streams([examples])
    hood = hoods_of(graph_of("path", num_tasks), [algorithm] * num_tasks)[1]
    return make_peer(algorithm, stream, hood, num_tasks=num_tasks, exchange=exchange, rounds=rounds, timeouts=TIMES)


def started(**options: object) -> Peer:
    peer = new(**options)  # type: ignore[arg-type]
    peer.start(0.0)
    sent(peer)
    return peer


def joined(**options: object) -> Peer:
    """With both neighbors at 1.0, before its first round."""
    peer = started(**options)
    peer.receive(BEHIND, hello(2), 1.0)
    peer.receive(BEFORE, Welcome("run-9"), 1.0)
    sent(peer)
    peer.take_events()
    return peer


def waiting(**options: object) -> Peer:
    """Its first word was said at 1.0."""
    peer = joined(**options)
    while peer.state is PeerState.STEPPING:
        peer.on_timer(1.0)
    sent(peer)
    return peer


def finishing() -> Peer:
    """Its goodbyes were said at 2.0."""
    peer = waiting(examples=1)
    both(peer, 1, 1.5)
    peer.on_timer(2.0)
    sent(peer)
    peer.take_events()
    return peer


STATES = {
    PeerState.JOINING: started,
    PeerState.STEPPING: joined,
    PeerState.WAITING: waiting,
    PeerState.FINISHING: finishing,
}


def word(value: float = 0.5, *, last: bool = False) -> Contribution:
    return Contribution(ContributionKind.VECTORS, (frozen(np.full(DIM, value)),), last)


def both(peer: Peer, t: int, now: float, *, last: bool = False, durable: int = 0) -> None:
    """The words of both neighbors."""
    peer.receive(BEFORE, Push(t, word(0.5, last=last), durable), now)
    peer.receive(BEHIND, Push(t, word(-0.7, last=last), durable), now)


def goodbye(last: int) -> Goodbye:
    return Goodbye(last, bytes(32), Totals())


def rows(peer: Peer) -> np.ndarray:
    return np.frombuffer(peer.take_records(), dtype=TASK_DTYPE)


def central_rows(peer: Peer) -> np.ndarray:
    return np.frombuffer(peer.take_central_records(), dtype=central_dtype(3))


def until(peer: Peer, end: float) -> Iterator[tuple[float, list[Envelope]]]:
    """Its timers before `end`, and what it says at each."""
    for _ in itertools.count():
        if (now := peer.next_timer()) >= end:
            return
        peer.on_timer(now)
        yield now, peer.take_outbox()


@pytest.mark.parametrize("state", STATES)
def test_the_states_are_reached(state: PeerState) -> None:
    peer = STATES[state]()
    assert peer.state is state
    assert not peer.finished


# Joining


def test_it_says_hello_to_those_before_it_and_waits_for_those_behind() -> None:
    peer = new()
    peer.start(0.0)
    assert peer.take_outbox() == [Envelope(BEFORE, hello(1))]
    assert peer.state is PeerState.JOINING


@pytest.mark.parametrize("first", [BEFORE, BEHIND])
def test_it_begins_when_all_neighbors_are_there_in_either_order(first: str) -> None:
    peer = started()
    messages = {BEFORE: Welcome("run-9"), BEHIND: hello(2)}
    peer.receive(first, messages.pop(first), 1.0)
    assert peer.state is PeerState.JOINING
    for sender, message in messages.items():
        peer.receive(sender, message, 2.0)
    assert peer.state is PeerState.STEPPING
    assert peer.take_outbox() == [Envelope(BEHIND, Welcome("run-1"))]
    assert sorted(event.task for event in peer.take_events() if isinstance(event, Joined)) == [0, 2]
    assert peer.next_timer() == 2.0  # at once


def test_it_says_hello_again_at_growing_distances_until_it_is_answered() -> None:
    peer = started()
    times = [now for now, said in until(peer, 9.0) if said == [Envelope(BEFORE, hello(1))]]
    assert times == [0.5, 1.5, 3.5, 5.5, 7.5]
    peer.receive(BEFORE, Welcome("run-9"), 9.0)
    assert not [said for _, said in until(peer, 15.0) if said]  # it does not call whoever connects to it


def test_a_hello_that_is_said_twice_is_answered_twice_and_counts_once() -> None:
    peer = started()
    for _ in range(2):
        peer.receive(BEHIND, hello(2), 1.0)
    assert sent(peer) == [Welcome("run-1")] * 2
    assert peer.take_events() == [Joined(2)]


@pytest.mark.parametrize("message", [Push(1, word()), goodbye(0), Resend(1)], ids=lambda m: type(m).__name__)
def test_whoever_speaks_has_let_us_in(message: Message) -> None:
    """Its Welcome was lost, and it may be gone before it is asked again."""
    peer = started()
    peer.receive(BEFORE, message, 1.0)
    assert Joined(0) in peer.take_events()
    peer.receive(BEHIND, hello(2), 1.0)
    assert peer.state is PeerState.STEPPING


@pytest.mark.parametrize(
    ("here", "missing"), [((), "site-0, site-2"), ((BEFORE,), "site-2"), ((BEHIND,), "site-0")], ids=str
)
def test_whoever_does_not_come_is_named_with_the_seconds(here: tuple[str, ...], missing: str) -> None:
    peer = started()
    for sender in here:
        peer.receive(sender, Welcome("r") if sender == BEFORE else hello(2), 1.0)
    peer.on_timer(19.9)
    stalled = [event for event in peer.take_events() if isinstance(event, Stalled)]
    assert stalled == [Stalled(0, f"{missing} to join", 19.9)]
    with pytest.raises(ClusterError, match=rf"{missing} did not join within 20 s \(timeouts.join_s\)"):
        peer.on_timer(20.0)
    told = [envelope.to for envelope in peer.take_outbox() if isinstance(envelope.message, Reject)]
    assert told == list(here)


@pytest.mark.parametrize(
    ("sender", "message", "reason"),
    [
        (BEHIND, hello(2, version=9), "it speaks version 9 of the protocol, site-1 version 8"),
        (BEHIND, hello(2, run_id="run-2"), "it belongs to run run-2, this is run run-1"),
        (BEHIND, hello(3), "it wants to be task 3 of 3"),
        (BEHIND, hello(2, config_digest="d" * 64), "its configuration is another one"),
        (BEHIND, hello(2, dim=8), "the data of site-2 has 8 features, this run has 7"),
        (BEHIND, hello(2, feature_digest="e" * 64), "the features of site-2 have other names"),
        (BEHIND, hello(1), "site-1 is no neighbor that connects to site-1"),
        (BEHIND, hello(0), "site-0 is no neighbor that connects to site-1"),
    ],
    ids=lambda value: "" if not isinstance(value, str) else value[:20],
)
def test_who_does_not_belong_here_is_told_why(sender: str, message: Message, reason: str) -> None:
    peer = started()
    peer.receive(sender, message, 1.0)
    (reject,) = sent(peer)
    assert isinstance(reject, Reject)
    assert reject.reason.startswith(reason)
    assert peer.take_events() == [Refused(sender, reject.reason)]
    assert peer.state is PeerState.JOINING


def test_a_neighbor_is_there_once_and_a_connection_is_one_neighbor() -> None:
    peer = started(num_tasks=3)
    peer.receive(BEHIND, hello(2), 1.0)
    sent(peer)
    peer.receive("another", hello(2), 1.0)
    assert sent(peer) == [Reject("site-2 is already here")]
    hood = hoods_of(graph_of("full", 3), [drom_d()] * 3)[0]
    star = make_peer(drom_d(), random_streams([3])[0], hood, num_tasks=3, timeouts=TIMES)
    star.start(0.0)
    star.receive(BEHIND, hello(2), 1.0)
    sent(star)
    star.receive(BEHIND, hello(1), 1.0)
    assert sent(star) == [Reject("it has joined as site-2 and cannot be site-1 too")]


# One of two is killed and started anew; processes have no snapshots


@pytest.mark.parametrize("said", [False, True])
def test_who_takes_the_place_of_a_lost_neighbor_comes_anew_or_ends_the_run_at_once(said: bool) -> None:
    """Once words were said they are lost; before, nothing is."""
    peer = waiting() if said else started()
    peer.receive(BEHIND, hello(2), 1.0)
    sent(peer)
    peer.on_connection(BEHIND, False, 2.0)
    if not said:
        peer.receive("anew", hello(2), 3.0)
        assert sent(peer) == [Welcome("run-1")]
        assert peer.task_at("anew") == 2
        assert peer.task_at(BEHIND) is None
        peer.receive(BEFORE, Welcome("run-9"), 4.0)
        assert peer.state is PeerState.STEPPING
        return
    why = "site-2 is in round 0, site-1 in round 1: site-2 was started anew, and what it had is lost"
    with pytest.raises(ClusterError, match=f"the run is given up: {why}"):
        peer.receive("anew", hello(2), 3.0)
    outbox = peer.take_outbox()
    assert Envelope("anew", Reject(why)) in outbox
    assert Envelope(BEFORE, Reject(why)) in outbox


def test_who_was_started_anew_says_so_to_all_that_connect_and_ends_with_that() -> None:
    algorithm = drom_d(DromDParameters())
    hood = hoods_of(graph_of("full", 4), [algorithm] * 4)[1]
    (stream,) = random_streams([30])
    peer = make_peer(algorithm, stream, hood, num_tasks=4, timeouts=TIMES)
    peer.start(0.0)
    sent(peer)
    why = "site-{} is in round 9, site-1 in round 0: site-1 was started anew, and what it had is lost"
    peer.receive(incoming(2), hello(2, round=9, kept_from=5), 1.0)
    assert peer.take_outbox() == [Envelope(incoming(2), Reject(why.format(2)))]
    with pytest.raises(ClusterError, match=why.format(2)):
        peer.receive(incoming(3), hello(3, round=9, kept_from=5), 1.2)
    assert Envelope(incoming(3), Reject(why.format(3))) in peer.take_outbox()


def test_who_was_started_anew_does_not_wait_long_for_those_who_do_not_come() -> None:
    algorithm = drom_d(DromDParameters())
    hood = hoods_of(graph_of("full", 4), [algorithm] * 4)[1]
    (stream,) = random_streams([30])
    peer = make_peer(algorithm, stream, hood, num_tasks=4, timeouts=TIMES)
    peer.start(0.0)
    peer.receive(incoming(2), hello(2, round=9, kept_from=5), 1.0)
    list(until(peer, 6.0))
    with pytest.raises(ClusterError, match="site-1 was started anew, and what it had is lost"):
        peer.on_timer(6.0)


def test_after_its_goodbye_a_neighbor_that_was_started_anew_ends_no_run() -> None:
    peer = finishing()
    peer.receive(BEFORE, GoodbyeAck(), 2.1)
    peer.on_connection(BEHIND, False, 2.2)
    peer.receive("anew", hello(2), 3.0)
    assert isinstance(sent(peer)[-1], Reject)
    assert peer.finished


def test_other_numerics_warn_once() -> None:
    peer = started()
    for _ in range(2):
        peer.receive(BEHIND, hello(2, numpy="1.9"), 1.0)
    (warned,) = [event for event in peer.take_events() if isinstance(event, Warned)]
    assert warned.text.startswith("site-2 computes with NumPy 1.9 on BLAS kernel K, site-1 with 2.0 on K")


def test_a_stranger_who_does_not_say_hello_is_asked_for_one() -> None:
    peer = waiting()
    peer.receive("stranger", Push(1, word()), 2.0)
    (envelope,) = peer.take_outbox()
    assert envelope == Envelope("stranger", RequestHello())
    assert peer.take_events() == [Refused("stranger", "a Push before a Hello")]


def test_a_reject_while_joining_is_not_to_be_let_in() -> None:
    with pytest.raises(RejectedError, match="site-0 does not let this peer in: it is full"):
        started().receive(BEFORE, Reject("it is full"), 1.0)


def test_a_neighbor_that_let_it_in_and_gives_up_while_it_waits_for_others_ends_the_run() -> None:
    """It is let in once all are there: nothing is wrong with it, and the same command may be tried again."""
    peer = started()
    peer.receive(BEFORE, Welcome("run-1", 0), 1.0)
    with pytest.raises(ClusterError, match="site-0 ended the run: site-7 did not join"):
        peer.receive(BEFORE, Reject("site-7 did not join within 30 s (timeouts.join_s)"), 2.0)


@pytest.mark.parametrize("state", [PeerState.STEPPING, PeerState.WAITING])
def test_a_reject_later_ends_the_run_and_all_are_told(state: PeerState) -> None:
    peer = STATES[state]()
    with pytest.raises(ClusterError, match="the run is given up: site-2 ended the run: lost site-3"):
        peer.receive(BEHIND, Reject("lost site-3"), 2.0)
    assert Envelope(BEFORE, Reject("site-2 ended the run: lost site-3")) in peer.take_outbox()


# Rounds


def test_a_neighbor_that_is_in_a_round_already_is_asked_for_its_word_as_soon_as_it_is_needed() -> None:
    """It has said it, and not to us."""
    peer = started()
    peer.receive(BEHIND, hello(2), 1.0)
    peer.receive(BEFORE, Welcome("run-9", 1), 1.0)
    peer.on_timer(1.0)
    assert [to for to, message in peer.take_outbox() if message == Resend(1)] == [BEFORE]


def test_one_that_was_behind_tells_when_it_has_caught_up() -> None:
    peer = started(examples=9)
    peer.receive(BEHIND, hello(2, round=4), 1.0)
    peer.receive(BEFORE, Welcome("run-9", 4), 1.0)
    for t in range(1, 6):
        peer.on_timer(1.0)
        both(peer, t, 1.0)
    assert [event for event in peer.take_events() if isinstance(event, CaughtUp)] == [CaughtUp(4, 4)]


def test_it_says_its_word_to_all_neighbors_and_closes_the_round_with_theirs() -> None:
    peer = joined()
    peer.on_timer(1.0)
    first, second = peer.take_outbox()
    assert (first.to, second.to) == (BEFORE, BEHIND)
    assert first.message is second.message or first.message == second.message
    assert isinstance(first.message, Push)
    assert (first.message.round, first.message.contribution.last) == (1, False)
    peer.receive(BEHIND, Push(1, word(3.0)), 1.1)
    assert (peer.state, len(rows(peer))) == (PeerState.WAITING, 0)
    peer.receive(BEFORE, Push(1, word(2.0)), 1.2)
    assert peer.state is PeerState.STEPPING
    (row,) = rows(peer)
    assert (row["round"], row["reply"]) == (1, ReplyKind.VECTORS)
    (central,) = central_rows(peer)
    assert central["round"] == 1
    assert central["v"][2] > central["v"][0] > 0.5  # in task order
    assert peer.take_events() == []


def test_between_sync_rounds_it_steps_alone() -> None:
    peer = joined(examples=7, tau=3)
    for t in (1, 2):
        peer.on_timer(1.0)
        assert (peer.state, peer.round, sent(peer)) == (PeerState.STEPPING, t, [])
    peer.on_timer(1.0)
    assert (peer.state, peer.round) == (PeerState.WAITING, 3)
    assert [push.round for push in sent(peer) if isinstance(push, Push)] == [3, 3]
    assert list(rows(peer)["round"]) == [1, 2]


def test_words_that_come_before_it_gets_there_are_kept() -> None:
    peer = joined()
    both(peer, 1, 1.0)
    peer.on_timer(1.1)
    assert peer.state is PeerState.STEPPING
    assert len(rows(peer)) == 1


def test_accident_08_the_order_in_which_words_come_is_of_no_matter() -> None:
    chains = []
    for order in ((BEFORE, BEHIND), (BEHIND, BEFORE)):
        peer = waiting()
        for sender in order:
            peer.receive(sender, Push(1, word(2.0 if sender == BEFORE else -3.0)), 1.0)
        chains.append(peer.central_chain)
    assert chains[0] == chains[1]


def test_what_a_step_takes_to_compute_is_no_wait() -> None:
    """The driver tells it once the step is done, and what it has said is on its way."""
    peer = waiting()
    peer.busy_until(3.0)
    both(peer, 1, 4.0)
    assert peer.waited_s == 1.0


def test_a_word_that_comes_twice_or_late_is_used_once() -> None:
    peer = waiting()
    peer.receive(BEFORE, Push(1, word(0.5)), 1.1)
    peer.receive(BEFORE, Push(1, word(9.0)), 1.1)  # the first counts
    peer.receive(BEHIND, Push(1, word(-0.7)), 1.1)
    plain = waiting()
    both(plain, 1, 1.1)
    assert peer.central_chain == plain.central_chain
    both(peer, 1, 1.2)
    peer.on_timer(1.2)
    both(peer, 1, 1.3)
    assert (peer.state, peer.round) == (PeerState.WAITING, 2)
    assert not any(neighbor.contributions for neighbor in peer.session.members.values())
    assert peer.take_events() == []
    assert list(rows(peer)["round"]) == [1]


@pytest.mark.parametrize("t", [1, 4, 7])
def test_a_word_of_a_round_without_an_exchange_is_refused(t: int) -> None:
    peer = waiting(examples=9, tau=3)
    peer.receive(BEFORE, Push(t, word()), 1.1)
    assert peer.take_events() == [Refused("site-0", f"a push for round {t}, in which it has nothing to say")]


def test_a_word_after_the_last_one_is_refused() -> None:
    peer = waiting()
    peer.receive(BEFORE, Push(1, word(last=True)), 1.1)
    peer.receive(BEFORE, Push(2, word()), 1.1)
    assert peer.take_events() == [Refused("site-0", "a push for round 2, in which it has nothing to say")]


def test_what_is_too_far_ahead_is_refused_and_not_kept() -> None:
    peer = waiting(examples=20)
    for t in range(2, 9):
        peer.receive(BEFORE, Push(t, word()), 1.1)
    assert [event.reason for event in peer.take_events() if isinstance(event, Refused)] == [
        f"a push for round {t}; we are at round 1" for t in (6, 7, 8)
    ]


def test_a_word_of_another_size_is_refused() -> None:
    peer = waiting()
    peer.receive(BEFORE, Push(1, Contribution(ContributionKind.VECTORS, word().vectors * 2)), 1.1)
    assert peer.take_events() == [Refused("site-0", "a push of 2 vectors; expected 1")]
    peer.receive(BEFORE, Push(1, IDLE), 1.1)  # an idle round is a word, too
    peer.receive(BEHIND, Push(1, IDLE), 1.1)
    assert peer.state is PeerState.STEPPING


def test_it_asks_only_those_whose_word_is_missing_and_with_a_header() -> None:
    peer = waiting()
    peer.receive(BEFORE, Push(1, word()), 1.1)
    asked = list(until(peer, 9.0))
    assert [now for now, _ in asked] == [1.5, 2.5, 4.5, 6.5, 8.5]
    assert all(said == [Envelope(BEHIND, Resend(1))] for _, said in asked)


def test_asked_for_a_word_it_says_the_same_again_also_of_rounds_that_are_closed() -> None:
    peer = joined()
    peer.on_timer(1.0)
    first = sent(peer)[0]
    both(peer, 1, 1.1)
    peer.on_timer(1.2)
    sent(peer)
    peer.receive(BEHIND, Resend(1), 1.3)
    (again,) = peer.take_outbox()
    assert again.to == BEHIND
    assert isinstance(first, Push)
    assert isinstance(again.message, Push)
    assert again.message.round == 1
    assert again.message.contribution.vectors[0].tobytes() == first.contribution.vectors[0].tobytes()
    peer.receive(BEHIND, Resend(3), 1.3)  # of a round that it has not begun
    assert sent(peer) == [Resend(2)]  # whoever asks has said its word of 2


@pytest.mark.parametrize("durable", [0, 2, 4])
def test_it_keeps_the_words_that_a_neighbor_would_need_again_after_a_crash(durable: int) -> None:
    """It keeps two snapshots, and one may be damaged: so what counts is what it had said before of what it has kept."""
    peer = waiting(examples=9)
    for t in range(1, 8):
        both(peer, t, 1.0, durable=0 if t < 5 else durable if t < 7 else 6)
        peer.on_timer(1.0)
    sent(peer)
    for t in range(1, 9):
        peer.receive(BEFORE, Resend(t), 1.1)
    assert [push.round for push in sent(peer) if isinstance(push, Push)] == list(range(durable + 1, 9))


def test_of_neighbors_that_do_not_come_back_it_keeps_a_few_words_and_not_all() -> None:
    """What such a one has closed it needs no more: it says so with each word."""
    peer = waiting(examples=9)
    for t in range(1, 8):
        both(peer, t, 1.0, durable=t - 1)
        peer.on_timer(1.0)
    sent(peer)
    for t in range(1, 9):
        peer.receive(BEFORE, Resend(t), 1.1)
    assert [push.round for push in sent(peer) if isinstance(push, Push)] == [5, 6, 7, 8]


# Overlap and delay


def test_overlapping_it_predicts_while_it_waits_and_closes_nothing() -> None:
    peer = waiting(exchange="overlap")
    assert peer.next_timer() == 1.0  # at once
    peer.on_timer(1.0)
    assert (peer.state, peer.round) == (PeerState.WAITING, 1)
    assert (sent(peer), len(rows(peer))) == ([], 0)
    assert peer.next_timer() == 1.5  # once; now it waits
    both(peer, 1, 1.1)
    (row,) = rows(peer)
    assert row["round"] == 1


@pytest.mark.parametrize("early", [True, False])
def test_overlapping_gives_the_bits_of_blocking(early: bool) -> None:
    peers = [waiting(exchange=exchange, examples=4) for exchange in ("blocking", "overlap")]
    for peer in peers:
        for t in range(1, 5):
            if early and peer.next_timer() == 1.0:
                peer.on_timer(1.0)
            peer.receive(BEFORE, Push(t, word(2.0 * t)), 1.0)
            peer.receive(BEHIND, Push(t, word(-1.0 * t)), 1.0)
            peer.on_timer(1.0)
    blocking, overlap = peers
    assert blocking.result is not None
    assert overlap.result is not None
    assert blocking.result.chain == overlap.result.chain
    assert blocking.take_records() == overlap.take_records()
    assert blocking.central_chain == overlap.central_chain


def test_in_the_last_round_there_is_nothing_to_predict() -> None:
    assert waiting(exchange="overlap", examples=1).next_timer() == 1.5


def test_delayed_it_waits_for_the_words_of_the_sync_round_before() -> None:
    peer = joined(exchange="delayed", examples=9, tau=2)
    for _ in range(3):
        peer.on_timer(1.0)
    assert (peer.state, peer.round) == (PeerState.STEPPING, 3)  # round 2 was closed without anybody's word
    assert list(rows(peer)["reply"]) == [ReplyKind.NONE] * 3
    peer.on_timer(1.0)
    assert (peer.state, peer.round) == (PeerState.WAITING, 4)
    sent(peer)
    peer.on_timer(1.5)
    assert sent(peer) == [Resend(2)] * 2
    both(peer, 4, 1.6)
    assert peer.state is PeerState.WAITING
    both(peer, 2, 1.7)
    assert peer.state is PeerState.STEPPING
    (row,) = rows(peer)
    assert (row["round"], row["reply"]) == (4, ReplyKind.VECTORS)
    assert list(central_rows(peer)["round"]) == [2]
    for _ in range(2):  # the words of 4 are here already: nobody is waited for in 6
        peer.on_timer(1.8)
    assert (peer.state, peer.round) == (PeerState.STEPPING, 6)
    assert list(central_rows(peer)["round"]) == [4]


# Streams of different length


def test_after_the_last_word_of_a_neighbor_nobody_waits_for_it_or_tells_it() -> None:
    peer = waiting(examples=9)
    peer.receive(BEFORE, Push(1, word(last=True)), 1.1)
    peer.receive(BEHIND, Push(1, word()), 1.1)
    peer.on_timer(1.2)
    assert [envelope.to for envelope in peer.take_outbox()] == [BEHIND]
    peer.receive(BEHIND, Push(2, word()), 1.3)
    assert (peer.state, peer.round) == (PeerState.STEPPING, 2)


def test_what_a_neighbor_that_has_ended_may_still_ask_for_is_kept_until_its_goodbye() -> None:
    peer = waiting(examples=19)
    peer.receive(BEFORE, Push(1, word(last=True)), 1.0)
    for t in range(1, 8):
        peer.receive(BEHIND, Push(t, word(), t - 1), 1.0)
        peer.on_timer(1.0)
    sent(peer)
    peer.receive(BEFORE, Resend(1), 1.1)
    assert [push.round for push in sent(peer) if isinstance(push, Push)] == [1]
    peer.receive(BEFORE, goodbye(1), 1.2)
    peer.receive(BEHIND, Push(8, word(), 7), 1.2)
    peer.on_timer(1.2)
    sent(peer)
    peer.receive(BEFORE, Resend(1), 1.3)
    assert sent(peer) == []


def test_a_last_word_waits_for_the_next_sync_round_and_comes_with_the_goodbye() -> None:
    peer = joined(examples=4, tau=3)
    for _ in range(3):
        peer.on_timer(1.0)
    both(peer, 3, 1.1)
    peer.on_timer(1.2)
    sent(peer)
    peer.on_timer(1.3)
    messages = sent(peer)
    assert [type(message) for message in messages] == [Push, Push, Goodbye, Goodbye]
    push, bye = messages[1], messages[2]
    assert isinstance(push, Push)
    assert isinstance(bye, Goodbye)
    assert (push.round, push.contribution.last, push.contribution.kind) == (6, True, ContributionKind.VECTORS)
    assert bye.rounds == 6
    assert peer.result is not None
    assert push.contribution.vectors[0].tobytes() == peer.result.model["a"].tobytes()
    assert peer.state is PeerState.FINISHING


def test_where_the_run_ends_before_there_is_no_last_word() -> None:
    peer = joined(examples=9, tau=3, rounds=4)
    for _ in range(3):
        peer.on_timer(1.0)
    both(peer, 3, 1.1)
    for _ in range(2):
        peer.on_timer(1.2)
    assert [type(message) for message in sent(peer)[2:]] == [Goodbye, Goodbye]


# Finishing


def test_after_its_last_round_it_says_goodbye_and_is_gone_when_all_have_confirmed() -> None:
    peer = waiting(examples=1)
    both(peer, 1, 1.5)
    peer.on_timer(2.0)
    assert peer.result is not None
    bye = Goodbye(1, peer.result.chain, peer.result.totals)
    assert peer.take_outbox() == [Envelope(BEFORE, bye), Envelope(BEHIND, bye)]
    peer.receive(BEFORE, GoodbyeAck(), 2.1)
    assert not peer.finished
    peer.receive(BEFORE, GoodbyeAck(), 2.1)
    assert not peer.finished
    peer.receive(BEHIND, GoodbyeAck(), 2.2)
    assert peer.finished


def test_it_says_goodbye_again_to_those_who_have_not_confirmed() -> None:
    peer = finishing()
    peer.receive(BEHIND, GoodbyeAck(), 2.1)
    peer.on_timer(2.5)
    (envelope,) = peer.take_outbox()
    assert envelope.to == BEFORE
    assert isinstance(envelope.message, Goodbye)
    peer.receive(BEFORE, Resend(1), 2.6)  # it may still be asked for its words
    assert [type(message) for message in sent(peer)] == [Push]
    peer.on_timer(7.5)
    assert not peer.finished  # who asks is there: linger_s counts from then
    peer.on_timer(7.6)
    assert peer.finished


def test_a_goodbye_that_is_never_confirmed_ends_with_a_warning() -> None:
    """decisions.md, Finishing: "or `linger_s` has passed (then exit 0, noted)"."""
    peer = finishing()
    peer.receive(BEHIND, GoodbyeAck(), 2.1)
    peer.on_timer(6.9)
    assert not peer.finished
    peer.take_events()
    peer.on_timer(7.0)
    assert peer.finished
    assert peer.take_events() == [Warned("no confirmation of the goodbye within 5 s: site-0 to confirm")]


def test_a_goodbye_is_confirmed_when_the_last_word_is_here() -> None:
    peer = waiting()
    peer.receive(BEFORE, goodbye(1), 1.1)
    assert peer.take_outbox() == [Envelope(BEFORE, Resend(1))]
    peer.receive(BEFORE, Push(1, word(last=True)), 1.2)
    peer.receive(BEFORE, goodbye(1), 1.3)
    peer.receive(BEFORE, goodbye(1), 1.3)
    assert peer.take_outbox() == [Envelope(BEFORE, GoodbyeAck())] * 2


def test_a_goodbye_is_not_confirmed_while_an_earlier_word_is_missing() -> None:
    """The last word was faster than the one before it; once confirmed, the neighbor could not be asked."""
    peer = waiting()
    peer.receive(BEFORE, Push(2, word(last=True)), 1.1)
    assert peer.take_outbox() == [Envelope(BEFORE, Resend(1))]
    peer.receive(BEFORE, goodbye(2), 1.2)
    assert peer.take_outbox() == [Envelope(BEFORE, Resend(1))]
    peer.receive(BEFORE, Push(1, word()), 1.3)
    peer.receive(BEFORE, goodbye(2), 1.4)
    assert peer.take_outbox() == [Envelope(BEFORE, GoodbyeAck())]


def test_of_a_neighbor_that_went_on_alone_it_asks_only_what_it_needs() -> None:
    """A neighbor that has our last word says no more to us."""
    peer = waiting(examples=2)
    peer.receive(BEFORE, goodbye(900), 1.1)
    assert peer.take_outbox() == [Envelope(BEFORE, Resend(1)), Envelope(BEFORE, Resend(2))]
    for t in (1, 2):
        peer.receive(BEFORE, Push(t, word()), 1.2)
    peer.receive(BEFORE, goodbye(900), 1.3)
    assert peer.take_outbox() == [Envelope(BEFORE, GoodbyeAck())]


def test_a_senseless_goodbye_costs_a_few_questions_only() -> None:
    peer = waiting(examples=40)
    peer.receive(BEFORE, goodbye(2**53), 1.1)
    assert len(sent(peer)) <= 5


def test_a_goodbye_tells_that_no_word_will_come() -> None:
    """It ended before this sync round, in a run that was cut."""
    peer = waiting()
    peer.receive(BEHIND, Push(1, word()), 1.1)
    peer.receive(BEFORE, goodbye(0), 1.2)
    assert peer.state is PeerState.STEPPING
    assert len(rows(peer)) == 1


def test_whoever_was_done_before_need_not_confirm_for_it_is_gone() -> None:
    peer = waiting(examples=1)
    both(peer, 1, 1.1, last=True)
    peer.receive(BEFORE, goodbye(1), 1.2)
    sent(peer)
    peer.on_timer(2.0)
    assert [envelope.to for envelope in peer.take_outbox()] == [BEHIND]
    peer.receive(BEHIND, goodbye(1), 2.1)  # goodbyes that cross: it needs nothing more either
    assert sent(peer) == [GoodbyeAck()]
    assert peer.finished


def test_a_reject_after_its_goodbye_is_a_farewell() -> None:
    peer = finishing()
    peer.receive(BEFORE, Reject("it was stopped"), 2.5)
    peer.receive(BEHIND, Reject("it was stopped"), 2.5)
    assert peer.finished


# Waiting for long, and connections


def test_accident_10_a_long_wait_is_reported_with_whom_it_is_for() -> None:
    """failures.md, 10: "every wait has a named bound, and says whom it waits for"."""
    peer = waiting()
    peer.receive(BEHIND, Push(1, word()), 1.1)
    for _ in until(peer, 40.0):
        pass
    assert peer.take_events() == [Stalled(1, "site-0", 10.0), Stalled(1, "site-0", 30.0)]


def test_a_connection_that_comes_back_in_time_is_only_told() -> None:
    peer = waiting()
    peer.on_connection(BEHIND, False, 5.0)
    peer.on_connection(BEHIND, False, 6.0)  # told twice: the first counts
    peer.on_timer(34.9)
    peer.on_connection(BEHIND, True, 34.9)
    peer.on_timer(100.0)
    changes = [event for event in peer.take_events() if isinstance(event, ConnectionChanged)]
    assert changes == [ConnectionChanged("site-2", False), ConnectionChanged("site-2", True)]


def test_a_connection_that_is_lost_for_good_ends_the_run_naming_the_neighbor_and_all_are_told() -> None:
    peer = waiting()
    peer.on_connection(BEHIND, False, 5.0)
    peer.on_timer(34.9)
    sent(peer)
    with pytest.raises(ClusterError, match="lost site-2 in round 1: disconnected for 30 s"):
        peer.on_timer(35.0)
    assert BEFORE in {envelope.to for envelope in peer.take_outbox() if isinstance(envelope.message, Reject)}


def test_nobody_minds_that_a_neighbor_is_gone_whose_words_are_all_here() -> None:
    peer = waiting()
    peer.receive(BEFORE, Push(1, word(last=True)), 1.1)
    peer.on_connection(BEFORE, False, 2.0)
    assert peer.take_events() == []
    peer.on_timer(100.0)  # no end of the run
    peer.receive(BEHIND, Push(1, word()), 100.0)
    assert peer.state is PeerState.STEPPING
    # It was not done: should it come back, our words are there for it until the end.
    peer.receive(BEFORE, Resend(1), 101.0)
    assert Push in map(type, sent(peer))


def test_after_its_goodbye_a_lost_neighbor_ends_no_run() -> None:
    """The longer of linger_s and lost_s is the bound of this wait: who comes back will need our last words."""
    peer = waiting(examples=2)
    both(peer, 1, 1.1)
    peer.on_timer(1.1)
    peer.on_connection(BEHIND, False, 1.2)
    both(peer, 2, 31.0)
    peer.on_timer(31.0)
    assert peer.state is PeerState.FINISHING
    peer.on_connection(BEFORE, False, 31.1)
    for _ in until(peer, 31.1 + TIMES.lost_s):
        assert not peer.finished
    peer.on_timer(31.1 + TIMES.lost_s)
    assert peer.finished


def test_a_neighbor_that_is_gone_before_all_its_words_are_here_is_lost() -> None:
    peer = waiting()
    peer.receive(BEFORE, Push(2, word(last=True)), 1.1)
    peer.on_connection(BEFORE, False, 2.0)
    with pytest.raises(ClusterError, match="lost site-0"):
        peer.on_timer(32.0)


@pytest.mark.parametrize("address", ["stranger", BEFORE, BEHIND])
def test_who_has_not_joined_cannot_be_lost(address: str) -> None:
    peer = started()
    bound = peer.next_timer()
    peer.on_connection(address, False, 0.1)
    assert (peer.next_timer(), peer.take_events()) == (bound, [])


# Stopping


def test_stopped_while_it_waits_it_closes_the_round_without_a_reply_and_tells_nobody() -> None:
    """It may come back."""
    peer = waiting()
    peer.stop()
    assert peer.finished
    (row,) = rows(peer)
    assert (row["round"], row["reply"]) == (1, ReplyKind.NONE)
    assert peer.result is not None
    assert peer.result.totals.examples == 1
    assert peer.take_outbox() == []


def test_stopped_after_it_went_ahead_the_example_that_moved_w_counts() -> None:
    peer = waiting(exchange="overlap")
    peer.on_timer(1.0)
    peer.stop()
    assert list(rows(peer)["round"]) == [1, 2]
    assert peer.result is not None
    assert peer.result.totals.examples == 2


@pytest.mark.parametrize("state", [PeerState.JOINING, PeerState.STEPPING, PeerState.FINISHING])
def test_stopped_between_rounds_it_has_a_result_and_no_further_row(state: PeerState) -> None:
    peer = STATES[state]()
    before = peer.result
    peer.take_records()
    peer.stop()
    assert peer.finished
    assert (peer.take_events(), peer.take_records()) == ([], b"")
    assert peer.result is not None
    assert before is None or peer.result is before


# What does not belong


@pytest.mark.parametrize("state", [PeerState.STEPPING, PeerState.WAITING, PeerState.FINISHING])
def test_what_a_peer_never_says_is_refused(state: PeerState) -> None:
    peer = STATES[state]()
    peer.take_records()
    peer.receive(BEFORE, Pull(1, ZERO), 2.0)
    assert peer.take_events() == [Refused("site-0", "a Pull is nothing a peer says")]
    assert peer.state is state
    assert (sent(peer), peer.take_records()) == ([], b"")


@pytest.mark.parametrize("state", [PeerState.STEPPING, PeerState.WAITING])
@pytest.mark.parametrize("message", [Welcome("other"), Resend(0), Push(0, word())], ids=lambda m: type(m).__name__)
def test_what_comes_late_or_twice_is_ignored(state: PeerState, message: Message) -> None:
    peer = STATES[state]()
    peer.receive(BEFORE, message, 2.0)
    assert peer.state is state
    assert (sent(peer), peer.take_events(), peer.take_records()) == ([], [], b"")


def test_a_long_wait_is_reported_with_whom_it_is_for_and_counted() -> None:
    """failures.md, 10: "every wait has a named bound, and says whom it waits for"."""
    joining, peer = started(), waiting()
    for waits, first, whom in [(joining, 0.0, "site-0, site-2 to join"), (peer, 1.0, "site-0, site-2")]:
        waits.take_events()
        stalled = []
        for _ in until(waits, first + 10.5):
            stalled += [event for event in waits.take_events() if isinstance(event, Stalled)]
        assert stalled == [Stalled(waits.round, whom, 10.0)]
        assert waits.num_overdue == 2
        assert waits.resends == 6  # after 0.5 s, 1 s, and then every 2 s
    assert (joining.num_connected, peer.num_connected) == (0, 2)
    peer.receive(BEFORE, Push(1, word()), 12.0)
    assert peer.num_overdue == 1
    peer.receive(BEHIND, Push(1, word()), 13.0)
    assert (peer.num_overdue, peer.waited_s) == (0, 12.0)
