"""Going on without who is lost or late: who is waited for, what is recorded, and how one comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import frozen, graph_of, hoods_of, random_streams
from peers_harness import incoming, make_peer
from star_harness import DIM, EVERY_ROUND, hello, keep_all, make_reducer, make_worker, sent
from test_snapshots import after

from drom_net.algorithms.base import (
    KEEP,
    NO_LONGER_KEPT,
    ZERO,
    Contribution,
    ContributionKind,
    Exchange,
    ReplyKind,
    SyncRounds,
)
from drom_net.algorithms.drom import drom
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.core.errors import ClusterError
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE, absences_of, central_dtype
from drom_net.protocol.messages import Goodbye, GoodbyeAck, Pull, Push, Reject, Resend, Welcome
from drom_net.protocol.node import REDUCER, Absent, CaughtUp, Envelope, Late, Returned
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.session import address_of
from drom_net.protocol.settings import Policy, Timeouts
from drom_net.protocol.states import PeerState, WorkerState
from drom_net.protocol.worker import Worker

TIMES = Timeouts(join_s=20.0, lost_s=30.0, stall_s=1e6, linger_s=5.0)
PROCEED = Policy(absent="proceed")
HURRY = Policy(deadline_s=2.0)


def vector(*numbers: float, last: bool = False) -> Contribution:
    row = np.zeros(DIM)
    row[: len(numbers)] = numbers
    return Contribution(ContributionKind.VECTORS, (frozen(row),), last)


def news(node: Reducer | Peer, *kinds: type) -> list[object]:
    return [event for event in node.take_events() if isinstance(event, kinds)]


def timer(node: Reducer | Peer | Worker, now: float) -> None:
    """What follows from a round that was closed without somebody is said when that is kept."""
    node.on_timer(now)
    keep_all(node, now)


# The reducer


def reducer(policy: Policy, joined: int = 3, *, tau: int = 1, **more: Any) -> Reducer:
    algorithm = drom()._replace(exchange=Exchange(SyncRounds(tau), (1,), (1,)))
    node = make_reducer(algorithm, 3, timeouts=TIMES, policy=policy, checkpoints=EVERY_ROUND, **more)
    node.start(0.0)
    for task in range(joined):
        node.receive(f"w{task}", hello(task), 1.0)
    node.take_outbox()
    node.take_events()
    return node


def push(node: Reducer, task: int, t: int, now: float, *, durable: int = 0, address: str = "") -> list[Envelope]:
    node.receive(address or f"w{task}", Push(t, vector(float(2 + task)), durable), now)
    keep_all(node, now)
    return node.take_outbox()


def pulls(envelopes: list[Envelope]) -> list[tuple[str, int, ReplyKind, int]]:
    """(to, round, kind, the next round)"""
    return [(to, pull.round, pull.reply.kind, pull.next) for to, pull in envelopes if isinstance(pull, Pull)]


def absences(node: Reducer) -> dict[int, list[int]]:
    return absences_of(np.frombuffer(node.take_records(), dtype=central_dtype(3)), range(3))


def without_task_2(policy: Policy = PROCEED, *, tau: int = 1) -> Reducer:
    """Task 2 took part in sync round 1; 2 to 9 were closed without it, and now its connection is down."""
    node = reducer(policy, tau=tau)
    for task in range(3):
        push(node, task, tau, 2.0)
    if policy.proceeds:
        node.on_connection("w2", False, 3.0)
        timer(node, 33.0)
    for t in range(2, 10):
        for task in range(2):
            push(node, task, tau * t, 34.0)
        timer(node, 38.0)
    node.on_connection("w2", False, 39.0)
    node.take_outbox()
    node.take_events()
    return node


def test_accident_01_a_task_that_is_lost_is_gone_on_without_where_the_policy_says_so() -> None:
    """failures.md, 1: "policy applies (wait for its return, or proceed)"."""
    for policy in (PROCEED, Policy()):
        node = reducer(policy)
        push(node, 0, 1, 2.0)
        push(node, 1, 1, 2.0)
        node.on_connection("w2", False, 3.0)
        timer(node, 32.9)
        assert node.closed_rounds == 0
        if policy is PROCEED:
            timer(node, 33.0)
            assert [pull[:2] for pull in pulls(node.take_outbox())] == [("w0", 1), ("w1", 1)]
            assert news(node, Absent) == [Absent(2, "site-2", 1)]
            assert absences(node) == {1: [2]}
        else:
            with pytest.raises(ClusterError, match="lost site-2"):
                timer(node, 33.0)


def test_a_hello_that_was_said_twice_before_its_connection_was_lost_does_not_bring_it_back() -> None:
    node = reducer(PROCEED)
    node.on_connection("w2", False, 3.0)
    node.receive("w2", hello(2), 3.1)
    assert node.num_connected == 2
    timer(node, 33.0)
    assert news(node, Absent) == [Absent(2, "site-2", 1)]
    node.on_connection("w0", False, 34.0)
    node.on_connection("w1", False, 34.0)
    with pytest.raises(ClusterError, match="no task is left"):
        timer(node, 64.0)


def test_a_task_that_is_not_there_at_the_start_is_gone_on_without() -> None:
    """decisions.md: "a task of it may be absent at first, join late, leave"; it is a zero row."""
    node = reducer(PROCEED, joined=2)
    push(node, 0, 1, 2.0)
    push(node, 1, 1, 2.0)
    assert node.closed_rounds == 0
    timer(node, 20.0)
    assert node.closed_rounds == 1
    assert news(node, Absent) == [Absent(2, "site-2", 1)]
    (row,) = np.frombuffer(node.take_records(), dtype=central_dtype(3))
    assert row["absent"].tolist() == [0, 0, 1]
    assert row["v"][2] == 0.0


def test_accident_11_one_that_is_lost_does_not_stop_the_others_and_no_task_left_is_an_error() -> None:
    """failures.md, 11: policy tested in both directions."""
    node = reducer(PROCEED)
    node.on_connection("w2", False, 2.0)
    timer(node, 32.0)
    for t in range(1, 5):
        push(node, 0, t, 33.0)
        assert len(pulls(push(node, 1, t, 33.0))) == 2
    node.on_connection("w0", False, 40.0)
    node.on_connection("w1", False, 41.0)
    timer(node, 70.0)
    assert not node.finished
    with pytest.raises(ClusterError, match="no task is left"):
        timer(node, 71.0)


def test_where_nobody_joins_it_does_not_go_on() -> None:
    node = reducer(PROCEED, joined=0)
    with pytest.raises(ClusterError, match="site-0, site-1, site-2 did not join within 20 s"):
        timer(node, 20.0)


def test_it_has_finished_when_only_those_are_left_that_are_gone() -> None:
    node = without_task_2()
    for task in range(2):
        node.receive(f"w{task}", Goodbye(9, bytes(32), Totals()), 40.0)
    assert not node.finished  # goodbyes are kept first
    keep_all(node, 41.0)
    assert node.finished
    other = reducer(PROCEED)
    for task in range(2):
        other.receive(f"w{task}", Goodbye(0, bytes(32), Totals()), 2.0)
    keep_all(other, 2.0)
    other.on_connection("w2", False, 3.0)
    assert not other.finished
    timer(other, 33.0)
    assert other.finished


@pytest.mark.parametrize("policy", [PROCEED, HURRY], ids=["lost", "late"])
def test_who_comes_back_gets_the_replies_of_its_rounds_and_goes_through_the_others_alone(policy: Policy) -> None:
    """decisions.md: "its late push gets KEEP and the current round; it learns its missed examples with R unchanged,
    without waiting, until it has caught up"."""
    node = without_task_2(policy)
    node.receive("again", hello(2, incarnation=2), 40.0)
    assert node.take_outbox()[0] == Envelope("again", Welcome("run-1", 10))
    (first,) = pulls(push(node, 2, 1, 40.0, address="again"))
    assert first[:2] == ("again", 1)
    assert first[2] is not ReplyKind.KEEP  # it took part in that one
    assert first[3] == 10  # the next that has something for it
    assert pulls(push(node, 2, 2, 40.0, address="again")) == [("again", 2, ReplyKind.KEEP, 10)]
    assert pulls(push(node, 2, 9, 40.0, address="again")) == [("again", 9, ReplyKind.KEEP, 10)]
    for task in range(2):
        assert pulls(push(node, task, 10, 41.0)) == []
    taken = pulls(push(node, 2, 10, 41.0, address="again"))
    assert [pull[:2] for pull in taken] == [("w0", 10), ("w1", 10), ("again", 10)]
    assert news(node, Returned) == ([Returned(2, "site-2", 10)] if policy is PROCEED else [])
    assert absences(node) == {t: [2] for t in range(2, 10)}


@pytest.mark.parametrize("tau", [1, 20])
def test_one_that_comes_back_is_waited_for_when_it_is_near(tau: int) -> None:
    """Before that the others would stand still until it has caught up."""
    node = without_task_2(tau=tau)
    node.receive("again", hello(2, incarnation=2), 40.0)
    push(node, 2, tau, 40.0, address="again")
    for task in range(2):
        push(node, task, tau * 10, 40.0)
    assert node.closed_rounds == tau * 10
    push(node, 2, tau * 7, 40.0, address="again")
    assert news(node, Returned) == []
    push(node, 2, tau * 8, 40.0, address="again")  # its answer says: the next is sync round 11
    assert news(node, Returned) == [Returned(2, "site-2", tau * 11)]
    for task in range(2):
        push(node, task, tau * 11, 40.0)
    assert node.closed_rounds == tau * 10
    push(node, 2, tau * 11, 40.0, address="again")
    assert node.closed_rounds == tau * 11


def test_one_that_goes_after_its_push_and_is_back_in_the_same_round_is_not_waited_for_again() -> None:
    node = reducer(PROCEED)
    push(node, 2, 1, 2.0)
    node.on_connection("w2", False, 3.0)
    timer(node, 33.0)
    node.receive("again", hello(2, incarnation=2), 34.0)
    node.receive("again", Resend(1), 34.0)
    push(node, 0, 1, 35.0)
    assert [pull[:2] for pull in pulls(push(node, 1, 1, 35.0))] == [("w0", 1), ("w1", 1), ("again", 1)]
    assert absences(node) == {}


@pytest.mark.parametrize("policy", [PROCEED, HURRY])
def test_from_nothing_nobody_comes_back(policy: Policy) -> None:
    """operations.md, 28. It may say a later start than the one that was here; what others keep for it is less."""
    node = reducer(policy)
    for t in range(1, 6):
        for task in range(3):
            push(node, task, t, 2.0, durable=t - 1)
    node.on_connection("w2", False, 3.0)
    if policy.proceeds:
        node.receive("again", hello(2, incarnation=2), 4.0)
        (answer,) = sent(node)
        assert isinstance(answer, Reject)
        assert "site-2 was started anew, and what it had is lost" in answer.reason
        node.receive("right", hello(2, incarnation=2, round=3), 5.0)  # of its two snapshots the older
        assert Welcome("run-1", 6) in sent(node)
        timer(node, 6.0)
    else:
        with pytest.raises(ClusterError, match="site-2 was started anew, and what it had is lost"):
            node.receive("again", hello(2, incarnation=2), 4.0)


# Stragglers


def test_accident_12_a_round_is_closed_at_its_deadline_without_the_straggler() -> None:
    """failures.md, 12: "the straggler cutoff is configured but not honoured"."""
    node = reducer(HURRY)
    assert node.next_timer() > 1e5  # nobody has pushed: there is no straggler
    push(node, 0, 1, 10.0)
    push(node, 2, 1, 11.0)
    assert node.next_timer() == 12.0
    timer(node, 11.9)
    assert node.closed_rounds == 0
    timer(node, 12.0)
    assert [pull[:2] for pull in pulls(node.take_outbox())] == [("w0", 1), ("w2", 1)]
    assert news(node, Late) == [Late(1, "site-1")]
    assert absences(node) == {1: [1]}
    assert pulls(push(node, 1, 1, 12.1)) == [("w1", 1, ReplyKind.KEEP, 2)]
    for task in (0, 2):
        push(node, task, 2, 12.2)
    assert node.closed_rounds == 1  # it is waited for in the next one as before
    push(node, 1, 2, 12.3)
    assert node.closed_rounds == 2
    assert absences(node) == {}


def test_one_that_is_always_late_is_told_where_to_go_on_and_never_in_the_way() -> None:
    node = reducer(HURRY)
    for t in range(1, 8):
        for task in (0, 2):
            push(node, task, t, 10.0 * t)
        timer(node, 10.0 * t + 2.0)
        assert node.closed_rounds == t
        node.take_outbox()
        if t % 3 == 0:
            assert pulls(push(node, 1, t - 2, 10.0 * t + 3.0)) == [("w1", t - 2, ReplyKind.KEEP, t + 1)]
    assert len(news(node, Late)) == 7


def test_the_deadline_of_those_who_came_early_begins_when_all_have_joined() -> None:
    node = reducer(HURRY, joined=2)
    push(node, 0, 1, 2.0)
    timer(node, 10.0)
    assert node.closed_rounds == 0
    node.receive("w2", hello(2), 11.0)
    timer(node, 12.9)
    assert node.closed_rounds == 0
    timer(node, 13.0)
    assert node.closed_rounds == 1


def test_what_a_late_task_took_part_in_is_kept_for_it_however_long_it_is_away() -> None:
    node = without_task_2()
    for t in range(10, 60):
        for task in range(2):
            push(node, task, t, 50.0, durable=t - 1)
    assert 1 in node.history.replies
    assert len(node.history.replies) < 20  # of the others' rounds only what they may need
    node.receive("again", hello(2, incarnation=2), 60.0)
    node.take_outbox()
    (answer,) = pulls(push(node, 2, 1, 60.0, address="again"))
    assert answer[2] is not ReplyKind.KEEP
    assert answer[3] == 60


# A reducer that comes back, and does again what it has done without some


def test_a_push_that_was_never_said_is_gone_on_without_again() -> None:
    node = reducer(HURRY)
    push(node, 0, 1, 2.0)
    push(node, 1, 1, 2.0)
    assert node.closed_rounds == 0
    node.receive("w2", Push(1, NO_LONGER_KEPT), 2.5)
    assert node.closed_rounds == 1
    assert absences(node) == {1: [2]}
    for task in range(3):
        node.receive(f"w{task}", Push(2, NO_LONGER_KEPT), 3.0)
    assert node.closed_rounds == 2  # whoever had a part in it does not come back
    assert absences(node) == {2: [0, 1, 2]}
    push(node, 0, 3, 4.0)
    node.receive("w0", Push(3, NO_LONGER_KEPT), 4.0)  # too late
    node.receive("w1", Push(9, NO_LONGER_KEPT), 4.0)  # of another round
    push(node, 1, 3, 4.0)
    assert node.closed_rounds == 2


def test_the_deadline_counts_from_the_first_that_says_it_went_alone() -> None:
    node = reducer(HURRY)
    node.receive("w2", Push(1, NO_LONGER_KEPT), 2.0)
    push(node, 0, 1, 3.0)
    timer(node, 3.9)
    assert node.closed_rounds == 0
    timer(node, 4.0)
    assert absences(node) == {1: [1, 2]}


def test_where_nobody_is_gone_on_without_gone_closes_no_round() -> None:
    node = reducer(Policy())
    for task in range(3):
        node.receive(f"w{task}", Push(1, NO_LONGER_KEPT), 2.0)
    assert node.closed_rounds == 0


def test_one_that_was_absent_and_is_ahead_of_a_reducer_that_came_back_is_waited_for() -> None:
    node = without_task_2()
    node.durability.due = True
    snapshot = node.take_snapshot()
    again = reducer(PROCEED, joined=0, snapshot=snapshot)
    again.receive("w2", hello(2, incarnation=3, round=12, kept_from=2), 2.0)
    assert news(again, Returned) == [Returned(2, "site-2", 10)]
    assert Resend(10) in sent(again)


# A worker


def worker(**more: Any) -> Worker:
    node = make_worker(drom(), random_streams([9])[0], timeouts=TIMES, num_tasks=3, pace=lambda t: 1.0, **more)
    node.start(0.0)
    node.receive(REDUCER, Welcome("run-1", 1), 0.0)
    timer(node, 1.0)
    sent(node)
    return node


def test_a_worker_goes_alone_through_the_rounds_that_were_closed_without_it() -> None:
    """At once, whatever its pace: its examples are there already."""
    node = worker()
    node.receive(REDUCER, Pull(1, KEEP, 0, 5), 7.0)
    for t in (2, 3, 4):
        assert node.next_timer() == 7.0
        timer(node, 7.0)
        assert (node.state, node.round, sent(node)) == (WorkerState.STEPPING, t, [])
    assert node.next_timer() == 8.0  # the example of 5 takes its time
    timer(node, 8.0)
    assert [message.round for message in sent(node) if isinstance(message, Push)] == [5]
    rows = np.frombuffer(node.take_records(), dtype=TASK_DTYPE)
    assert rows["round"].tolist() == [1, 2, 3, 4]
    assert rows["reply"].tolist() == [ReplyKind.KEEP] * 4
    assert rows["active"].tolist() == [1] * 4


def test_a_worker_whose_stream_ends_while_it_is_alone_says_goodbye() -> None:
    node = worker()
    node.receive(REDUCER, Pull(1, KEEP, 0, 40), 7.0)
    while node.state is WorkerState.STEPPING:
        timer(node, 7.0)
    assert [type(message) for message in sent(node)] == [Goodbye]
    assert node.round == 9


def test_a_worker_says_so_where_it_has_no_push_because_it_went_alone() -> None:
    node = worker()
    node.receive(REDUCER, Pull(1, KEEP, 0, 4), 7.0)
    for _ in range(3):
        timer(node, node.next_timer())
    sent(node)
    for t in (1, 2, 3, 4, 5):
        node.receive(REDUCER, Resend(t), 8.0)
    kinds = [(message.round, message.contribution.kind.name) for message in sent(node) if isinstance(message, Push)]
    assert [(t, kind == "NO_LONGER_KEPT") for t, kind in kinds] == [(1, False), (2, True), (3, True), (4, False)]
    assert node._introduction == hello(0, round=4, kept_from=1)


def test_a_worker_tells_when_it_has_caught_up() -> None:
    node = make_worker(drom(), random_streams([9])[0], timeouts=TIMES, num_tasks=3)
    node.start(0.0)
    node.receive(REDUCER, Welcome("run-1", 4), 0.0)
    for t in range(1, 5):
        timer(node, 0.0)
        node.receive(REDUCER, Pull(t, ZERO, 0, t + 1), 0.0)
    assert [event for event in node.take_events() if isinstance(event, CaughtUp)] == [CaughtUp(4, 4)]


# A peer

BEFORE, BEHIND = address_of(0), incoming(2)


def peer(policy: Policy, *, joined: bool = True, history_rounds: int = 2000, **more: Any) -> Peer:
    """Task 1 of a path, with both neighbors at 1.0."""
    algorithm = drom_d(DromDParameters(eta0=3.0, lam=0.2, rho=0.3))
    hood = hoods_of(graph_of("path", 3), [algorithm] * 3)[1]
    life = {"policy": policy, "checkpoints": after(1, history_rounds=history_rounds), "timeouts": TIMES, **more}
    node = make_peer(algorithm, random_streams([60])[0], hood, num_tasks=3, **life)
    node.start(0.0)
    if joined:
        node.receive(BEHIND, hello(2), 1.0)
    node.receive(BEFORE, Welcome("run-1"), 1.0)
    sent(node)
    node.take_events()
    return node


def say(node: Peer, sender: str, t: int, now: float, **more: Any) -> None:
    node.receive(sender, Push(t, vector(0.5), **more), now)
    keep_all(node, now)


def goes_on(node: Peer, now: float) -> None:
    """Its next round."""
    assert node.state is PeerState.STEPPING
    timer(node, now)
    keep_all(node, now)


def rounds_without(node: Peer) -> dict[int, list[int]]:
    return absences_of(np.frombuffer(node.take_central_records(), dtype=central_dtype(3)), range(3))


def test_of_a_neighbor_that_has_come_back_with_less_no_more_is_taken_for_kept() -> None:
    node = peer(PROCEED)
    for t in range(1, 6):
        goes_on(node, 1.0)
        for sender in (BEFORE, BEHIND):
            say(node, sender, t, 1.0, durable=t - 1)
    durable = node.session.members[2].durable
    assert (durable.latest, durable.before) == (4, 3)
    node.on_connection(BEHIND, False, 2.0)
    node.receive("again", hello(2, incarnation=2, round=3), 2.0)
    assert (durable.latest, durable.before) == (3, 3)


def test_a_peer_goes_on_without_a_neighbor_that_is_not_there_at_the_start() -> None:
    node = peer(PROCEED, joined=False)
    timer(node, 20.0)
    assert node.state is PeerState.STEPPING
    assert news(node, Absent) == [Absent(2, "site-2", 0)]
    goes_on(node, 20.0)
    say(node, BEFORE, 1, 21.0)
    assert node.state is PeerState.STEPPING
    assert rounds_without(node) == {1: [2]}


def test_a_peer_is_not_told_by_a_hello_that_was_said_twice_that_a_connection_is_there_again() -> None:
    node = peer(PROCEED)
    goes_on(node, 1.0)
    node.on_connection(BEHIND, False, 3.0)
    node.receive(BEHIND, hello(2), 3.1)
    assert node.num_connected == 1
    node.on_connection(BEHIND, True, 3.2)
    assert node.num_connected == 2


def test_a_peer_goes_on_without_a_neighbor_that_is_lost_and_with_it_when_it_is_back() -> None:
    node = peer(PROCEED)
    goes_on(node, 1.0)
    say(node, BEFORE, 1, 2.0)
    node.on_connection(BEHIND, False, 3.0)
    timer(node, 32.9)
    assert node.state is PeerState.WAITING
    timer(node, 33.0)
    assert news(node, Absent) == [Absent(2, "site-2", 1)]
    for t in range(2, 12):
        goes_on(node, 34.0)
        say(node, BEFORE, t, 34.0)
    assert rounds_without(node) == {t: [2] for t in range(1, 12)}
    node.receive("again", hello(2, incarnation=2), 40.0)
    for t in range(1, 12):
        say(node, "again", t, 40.0)  # too late to be used
    assert news(node, Returned) == [Returned(2, "site-2", 11)]
    goes_on(node, 41.0)
    say(node, BEFORE, 12, 41.0)
    assert node.state is PeerState.WAITING
    say(node, "again", 12, 41.0)
    assert node.state is PeerState.STEPPING
    assert rounds_without(node) == {}


def test_a_peer_that_comes_back_hears_all_that_was_said_while_it_was_away() -> None:
    node = peer(PROCEED)
    node.on_connection(BEHIND, False, 1.5)
    for t in range(1, 12):
        goes_on(node, 31.5)
        say(node, BEFORE, t, 31.5, durable=t - 1)
        if node.state is PeerState.WAITING:
            timer(node, 31.5)
    node.receive("again", hello(2, incarnation=2), 40.0)
    sent(node)
    for t in range(1, 12):
        node.receive("again", Resend(t), 40.0)
    said = [message for message in sent(node) if isinstance(message, Push)]
    assert [message.round for message in said] == list(range(1, 12))
    assert not [message for message in said if message.contribution.kind is ContributionKind.NO_LONGER_KEPT]


def test_of_one_that_is_away_for_long_the_oldest_words_are_gone_and_it_is_told() -> None:
    """Else what is kept for it would grow for ever."""
    node = peer(PROCEED, history_rounds=8)
    node.on_connection(BEHIND, False, 1.5)
    for t in range(1, 41):
        goes_on(node, 31.5)
        say(node, BEFORE, t, 31.5, durable=t - 1)
        if node.state is PeerState.WAITING:
            timer(node, 31.5)
    assert len(node.history.contributions) <= 2 * 8
    node.receive("again", hello(2, incarnation=2), 40.0)
    sent(node)
    for t in range(1, 41):
        node.receive("again", Resend(t), 40.0)
    kinds = [
        message.contribution.kind is ContributionKind.NO_LONGER_KEPT
        for message in sent(node)
        if isinstance(message, Push)
    ]
    assert kinds == [True] * (40 - len(node.history.contributions)) + [False] * len(node.history.contributions)


def test_a_peer_goes_on_without_a_word_that_is_gone() -> None:
    for policy, goes in ((PROCEED, True), (HURRY, True), (Policy(), False)):
        node = peer(policy)
        goes_on(node, 1.0)
        say(node, BEFORE, 1, 1.0)
        node.receive(BEHIND, Push(2, NO_LONGER_KEPT), 1.1)  # of another round
        assert node.state is PeerState.WAITING
        node.receive(BEHIND, Push(1, NO_LONGER_KEPT), 1.2)
        assert (node.state is PeerState.STEPPING) == goes
        assert rounds_without(node) == ({1: [2]} if goes else {})


@pytest.mark.parametrize("exchange", ["blocking", "overlap", "delayed"])
def test_a_peer_closes_a_sync_round_at_its_deadline(exchange: str) -> None:
    node = peer(HURRY, exchange=exchange)
    goes_on(node, 1.0)
    if exchange == "delayed":
        goes_on(node, 1.0)  # in the first one nobody's word counts
    say(node, BEFORE, 1, 2.0)
    waits = node.round
    while node.next_timer() < 3.0:
        timer(node, node.next_timer())
    assert (node.state, node.round) == (PeerState.WAITING, waits)
    assert node.next_timer() == 3.0
    timer(node, 3.0)
    assert node.state is PeerState.STEPPING
    assert news(node, Late) == [Late(waits, "site-2")]
    assert rounds_without(node) == {1: [2]}
    say(node, BEHIND, 1, 3.1)  # late: not used, nor does it disturb
    goes_on(node, 4.0)
    assert node.state is PeerState.WAITING
    for t in range(2, node.round + 1):
        say(node, BEFORE, t, 4.1)
        say(node, BEHIND, t, 4.1)
    assert rounds_without(node) == {}
    assert node.state is PeerState.STEPPING


@pytest.mark.parametrize("joined", [True, False])
def test_a_peer_has_finished_when_only_those_are_left_that_are_gone(joined: bool) -> None:
    node = peer(PROCEED, joined=joined, rounds=1)
    if joined:
        node.on_connection(BEHIND, False, 1.5)
    else:
        timer(node, 20.0)
    goes_on(node, 20.0)
    say(node, BEFORE, 1, 20.0)
    if joined:
        timer(node, 31.5)
    goes_on(node, 32.0)
    assert node.state is PeerState.FINISHING
    node.receive(BEFORE, GoodbyeAck(), 33.0)
    assert node.finished


def test_no_deadline_is_no_timer() -> None:
    node = reducer(Policy())
    push(node, 0, 1, 2.0)
    assert node.next_timer() == 1.0 + TIMES.stall_s
    waiting = peer(Policy())
    goes_on(waiting, 1.0)
    assert waiting.next_timer() == 1.0 + TIMES.resend_after_s
