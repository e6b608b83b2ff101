"""The reducer alone: who is let in, what is counted, who is told what when somebody is lost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import frozen
from star_harness import CONFIG, DIM, RUN_ID, hello, make_reducer, sent

from drom_net.algorithms.base import IDLE, KEEP, SKIP, ZERO, Contribution, ContributionKind, ReplyKind
from drom_net.algorithms.drom import drom
from drom_net.algorithms.local import local
from drom_net.core.errors import ClusterError
from drom_net.learning.metrics import Totals
from drom_net.learning.records import central_dtype
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Message,
    Pull,
    Push,
    Reject,
    RequestHello,
    Resend,
    Welcome,
)
from drom_net.protocol.node import ConnectionChanged, Envelope, Joined, Refused, Stalled, Warned
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.settings import Timeouts

TIMES = Timeouts(
    join_s=20.0, resend_after_s=0.5, resend_cap_s=2.0, lost_s=30.0, stall_s=10.0, linger_s=5.0, heartbeat_s=2.0
)
BYE = Goodbye(0, bytes(range(32)), Totals(examples=1))


def new(tasks: int = 2, **options: object) -> Reducer:
    reducer = make_reducer(drom(), tasks, timeouts=TIMES, **options)  # type: ignore[arg-type]
    reducer.start(0.0)
    return reducer


def joined(tasks: int = 2, **options: object) -> Reducer:
    """All are in at 1.0; task k speaks from wk."""
    reducer = new(tasks, **options)
    for task in range(tasks):
        reducer.receive(f"w{task}", hello(task), 1.0)
    reducer.take_outbox()
    reducer.take_events()
    return reducer


def vector(*numbers: float, last: bool = False) -> Contribution:
    row = np.zeros(DIM)
    row[: len(numbers)] = numbers
    return Contribution(ContributionKind.VECTORS, (frozen(row),), last)


def push(
    reducer: Reducer, task: int, t: int, contribution: Contribution, now: float = 2.0, durable: int = 0
) -> list[Envelope]:
    reducer.receive(f"w{task}", Push(t, contribution, durable), now)
    return reducer.take_outbox()


def plain(envelopes: list[Envelope]) -> list[tuple[object, ...]]:
    """Pulls without arrays, so that they can be compared."""
    return [
        (to, pull.round, pull.reply.kind, [vector.tobytes() for vector in pull.reply.vectors], pull.durable, pull.next)
        for to, pull in envelopes
        if isinstance(pull, Pull)
    ]


def rows(reducer: Reducer) -> np.ndarray:
    """The rows of the rounds that it has closed since the last look."""
    return np.frombuffer(reducer.take_records(), dtype=central_dtype(len(reducer.names)))


def refusals(reducer: Reducer) -> list[Refused]:
    return [event for event in reducer.take_events() if isinstance(event, Refused)]


# Joining


def test_a_worker_is_welcomed_with_the_run_id() -> None:
    reducer = new()
    reducer.receive("w1", hello(1, run_id=""), 1.0)
    assert reducer.take_outbox() == [Envelope("w1", Welcome(RUN_ID, 1))]
    assert reducer.take_events() == [Joined(1)]
    assert (reducer.task_at("w1"), reducer.task_at("w0")) == (1, None)


def test_a_hello_that_is_said_twice_is_answered_twice_and_counts_once() -> None:
    reducer = new()
    for _ in range(2):
        reducer.receive("w1", hello(1), 1.0)
    assert reducer.take_outbox() == [Envelope("w1", Welcome(RUN_ID, 1))] * 2
    assert reducer.take_events() == [Joined(1)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 9}, "it speaks version 9 of the protocol, the reducer version 8"),
        ({"run_id": "run-2"}, "it belongs to run run-2, this is run run-1"),
        ({"task": 2}, r"it wants to be task 2 of 2 \(counted from 0\)"),
        ({"task": 2**53}, r"it wants to be task 9007199254740992 of 2"),
        ({"config_digest": "d" * 64}, f"digest dddddddddddd, here {CONFIG[:12]}.: site-1 and the reducer"),
        ({"config_digest": ""}, "its configuration is another one"),
        ({"dim": 9}, "the data of site-1 has 9 features, this run has 7"),
        ({"feature_digest": "e" * 64}, "the features of site-1 have other names, or another order, than those of the"),
    ],
)
def test_accidents_06_15_16_a_hello_that_does_not_agree_is_rejected_naming_both_sides(
    changes: dict[str, object], reason: str
) -> None:
    """failures.md, 6, 15, 16: refused at joining; the message says what differs."""
    reducer = new()
    reducer.receive("w1", hello(**{"task": 1, **changes}), 1.0)  # type: ignore[arg-type]
    ((to, message),) = reducer.take_outbox()
    assert to == "w1"
    assert isinstance(message, Reject)
    assert reducer.take_events() == [Refused("w1", message.reason)]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(message.reason)
    assert reducer.task_at("w1") is None
    reducer.receive("w1", hello(1), 2.0)  # the right one may still join
    assert reducer.take_events() == [Joined(1)]


def test_the_version_is_named_before_anything_else() -> None:
    reducer = new()
    reducer.receive("w1", hello(99, version=2, run_id="x", config_digest="", dim=0), 1.0)
    (message,) = sent(reducer)
    assert isinstance(message, Reject)
    assert "version 2" in message.reason


def test_where_the_reducer_does_not_know_the_features_the_first_worker_does() -> None:
    reducer = new(3, feature_digest="")
    reducer.receive("w0", hello(0, feature_digest="a" * 64), 1.0)
    reducer.receive("w1", hello(1, feature_digest="b" * 64), 1.0)
    reducer.receive("w2", hello(2, feature_digest="a" * 64), 1.0)
    assert [type(message) for message in sent(reducer)] == [Welcome, Reject, Welcome]


def test_accident_13_a_second_worker_for_a_task_is_rejected_by_name_and_the_first_goes_on() -> None:
    """failures.md, 13: "the second is rejected by name, non-zero exit; the first goes on"."""
    reducer = joined()
    reducer.receive("intruder", hello(0), 2.0)
    assert reducer.take_outbox() == [Envelope("intruder", Reject("site-0 is already here"))]
    assert reducer.take_events() == [Refused("intruder", "site-0 is already here")]
    push(reducer, 0, 1, vector(2.0))
    assert [envelope.to for envelope in push(reducer, 1, 1, vector(0.0, 1.0))] == ["w0", "w1"]


def test_a_lost_worker_that_was_started_anew_ends_the_run_at_once_and_all_are_told() -> None:
    reducer = joined()
    for t in (1, 2, 3):
        for task in (0, 1):
            push(reducer, task, t, vector(1.0), durable=t - 1)
    reducer.on_connection("w0", False, 3.0)
    why = "site-0 is in round 0, the reducer in round 4: site-0 was started anew, and what it had is lost"
    with pytest.raises(ClusterError, match=f"the run is given up: {why}"):
        reducer.receive("anew", hello(0), 4.0)
    outbox = reducer.take_outbox()
    assert Envelope("anew", Reject(why)) in outbox
    assert Envelope("w1", Reject(why)) in outbox


def test_a_lost_worker_that_was_started_anew_before_anything_is_lost_goes_on() -> None:
    reducer = joined()
    reducer.on_connection("w0", False, 3.0)
    reducer.receive("anew", hello(0), 4.0)
    assert reducer.take_outbox() == [Envelope("anew", Welcome(RUN_ID, 1))]
    assert (reducer.task_at("anew"), reducer.task_at("w0")) == (0, None)
    assert reducer.next_timer() == 1.0 + TIMES.stall_s  # it is given up no more
    push(reducer, 1, 1, vector(1.0), now=5.0)
    reducer.receive("anew", Push(1, vector(1.0)), 5.0)
    assert reducer.closed_rounds == 1


def test_a_reducer_that_was_started_anew_ends_when_all_have_been_told_so() -> None:
    reducer = new()
    why = "site-{} is in round 5, the reducer in round 1: the reducer was started anew, and what it had is lost"
    reducer.receive("w0", hello(0, round=5), 1.0)
    assert sent(reducer) == [Reject(why.format(0))]
    assert reducer.next_timer() == 1.0 + TIMES.linger_s  # not join_s
    with pytest.raises(ClusterError, match=why.format(1)):
        reducer.receive("w1", hello(1, round=5), 1.5)
    assert sent(reducer) == [Reject(why.format(1))]


def test_one_worker_cannot_be_two_tasks() -> None:
    reducer = new()
    reducer.receive("w0", hello(0), 1.0)
    reducer.receive("w0", hello(1), 1.0)
    assert [type(message) for message in sent(reducer)] == [Welcome, Reject]
    assert reducer.task_at("w0") == 0
    assert refusals(reducer) == [Refused("w0", "it has joined as site-0 and cannot be site-1 too")]


@pytest.mark.parametrize("changes", [{"numpy": "1.26"}, {"blas": "Zen"}])
def test_another_numpy_or_kernel_only_warns(changes: dict[str, object]) -> None:
    """decisions.md: "Hello also carries NumPy version and BLAS kernel: a difference warns"."""
    reducer = new()
    reducer.receive("w1", hello(1, **changes), 1.0)
    assert sent(reducer) == [Welcome(RUN_ID, 1)]
    joined_event, warned = reducer.take_events()
    assert joined_event == Joined(1)
    assert isinstance(warned, Warned)
    for word in ("site-1", "2.0", "K", *map(str, changes.values())):
        assert word in warned.text


@pytest.mark.parametrize(
    "message", [Push(1, SKIP), Resend(1), BYE, GoodbyeAck(), Welcome("x")], ids=lambda m: type(m).__name__
)
def test_who_has_not_said_hello_is_asked_for_one(message: Message) -> None:
    reducer = joined()
    reducer.receive("stranger", message, 2.0)
    ((to, answer),) = reducer.take_outbox()
    assert to == "stranger"
    assert answer == RequestHello()
    assert refusals(reducer) == [Refused("stranger", f"a {type(message).__name__} before a Hello")]
    push(reducer, 0, 1, vector(2.0))
    assert len(push(reducer, 1, 1, vector(2.0))) == 2  # the round was not touched


def test_the_join_deadline_names_who_is_missing_and_tells_who_is_there() -> None:
    reducer = new(4)
    reducer.receive("w2", hello(2), 1.0)
    reducer.take_outbox()
    reducer.on_timer(19.9)
    assert reducer.next_timer() == 20.0
    with pytest.raises(ClusterError, match=r"site-0, site-1, site-3 did not join within 20 s \(timeouts.join_s\)"):
        reducer.on_timer(20.0)
    ((to, message),) = reducer.take_outbox()
    assert to == "w2"
    assert isinstance(message, Reject)
    assert "site-0, site-1, site-3" in message.reason


def test_a_long_list_of_the_missing_is_cut() -> None:
    reducer = new(30)
    with pytest.raises(ClusterError, match="site-0, site-1, site-2, site-3, site-4 and 25 more did not join"):
        reducer.on_timer(20.0)


def test_once_all_are_there_the_deadline_is_gone() -> None:
    reducer = joined()
    reducer.on_timer(1000.0)
    assert not reducer.finished


# Rounds


def test_a_round_closes_with_the_last_push_and_answers_in_task_order() -> None:
    reducer = joined(3)
    assert push(reducer, 2, 1, vector(0.0, 1.0)) == []
    assert push(reducer, 0, 1, vector(2.0)) == []
    assert (reducer.closed_rounds, reducer.take_records()) == (0, b"")
    pulls = push(reducer, 1, 1, SKIP)
    assert [pull.to for pull in pulls] == ["w0", "w1", "w2"]
    messages = [pull.message for pull in pulls]
    assert [message.round for message in messages if isinstance(message, Pull)] == [1, 1, 1]
    kinds = [message.reply.kind for message in messages if isinstance(message, Pull)]
    assert kinds == [ReplyKind.VECTORS, ReplyKind.KEEP, ReplyKind.VECTORS]
    assert reducer.take_events() == []
    (row,) = rows(reducer)
    assert (row["round"], row["pushed"], row["skipped"]) == (1, 2, 1)
    assert row["sigma_1"] == pytest.approx(2.0)
    assert reducer.closed_rounds == 1


def test_pushes_wait_until_all_have_joined() -> None:
    reducer = new()
    reducer.receive("w0", hello(0), 1.0)
    reducer.take_outbox()
    assert push(reducer, 0, 1, vector(2.0)) == []
    reducer.receive("w1", hello(1), 5.0)
    reducer.take_outbox()
    assert len(push(reducer, 1, 1, vector(2.0), now=6.0)) == 2


def test_a_push_that_comes_twice_is_counted_once_and_the_first_counts() -> None:
    """style.md, 24: "Its second push must not be counted twice"."""
    reducer = joined()
    assert push(reducer, 0, 1, vector(2.0)) == []
    assert push(reducer, 0, 1, vector(99.0)) == []
    pulls = push(reducer, 1, 1, vector(0.0))
    assert len(pulls) == 2
    assert reducer.take_events() == []
    (row,) = rows(reducer)
    assert row["sigma_1"] == 2.0
    again = push(reducer, 0, 1, vector(99.0))  # of a round that is over: its sender may have lost the answer
    assert plain(again) == plain(pulls[:1]) != []
    assert refusals(reducer) == []
    assert reducer.take_records() == b""


def test_a_push_for_a_future_round_is_not_counted_and_the_one_of_this_round_is_asked_for() -> None:
    """Its sender has the answer of this round, from an earlier life of the reducer."""
    reducer = joined()
    assert push(reducer, 0, 2, vector(9.0)) == [Envelope("w0", Resend(1))]
    assert refusals(reducer) == []
    assert push(reducer, 0, 1, vector(2.0)) == []
    assert [pull.to for pull in push(reducer, 1, 1, SKIP)] == ["w1", "w0"]  # the other one is in round 2 already
    (row,) = rows(reducer)
    assert row["sigma_1"] == 2.0


@pytest.mark.parametrize("count", [1, 3])
def test_a_push_of_another_number_of_vectors_is_refused(count: int) -> None:
    reducer = joined(push_layout=(1, 1))
    wrong = Contribution(ContributionKind.VECTORS, vector(1.0).vectors * count)
    assert push(reducer, 0, 1, wrong) == []
    assert refusals(reducer) == [Refused("site-0", f"a push of {count} vectors; expected 2")]


@pytest.mark.parametrize(
    "message", [Welcome("x"), Pull(1, KEEP), GoodbyeAck(), Reject("no")], ids=lambda m: type(m).__name__
)
def test_what_a_worker_never_says_is_refused(message: Message) -> None:
    reducer = joined()
    reducer.receive("w0", message, 2.0)
    assert refusals(reducer) == [Refused("site-0", f"a {type(message).__name__} is nothing a worker says")]
    assert reducer.take_outbox() == []


def test_accident_03_outliers_and_idle_tasks_alone_close_a_round() -> None:
    """failures.md, 3: "an outlier round sends nothing: a reducer that counts m vectors waits for ever"."""
    reducer = joined()
    push(reducer, 0, 1, SKIP)
    assert [pull.message for pull in push(reducer, 1, 1, IDLE)] == [Pull(1, KEEP, 1, 2), Pull(1, KEEP, 1, 2)]


def test_accident_04_below_sigma_1_of_one_the_answer_is_an_explicit_zero() -> None:
    """failures.md, 4: "sigma_1 <= 1 and the server answers nothing: the worker waits for ever"."""
    reducer = joined()
    push(reducer, 0, 1, vector(0.5))
    assert [pull.message for pull in push(reducer, 1, 1, vector(0.0, 0.5))] == [
        Pull(1, ZERO, 1, 2),
        Pull(1, ZERO, 1, 2),
    ]


def test_asked_for_a_closed_round_it_answers_again_and_only_who_asked() -> None:
    reducer = joined()
    push(reducer, 0, 1, vector(2.0))
    first = push(reducer, 1, 1, vector(0.0, 1.0))
    reducer.receive("w1", Resend(1), 3.0)
    assert plain(reducer.take_outbox()) == plain(first[1:]) != []


def test_asked_for_a_round_whose_push_was_lost_it_asks_back() -> None:
    reducer = joined()
    reducer.receive("w1", Resend(1), 3.0)
    assert reducer.take_outbox() == [Envelope("w1", Resend(1))]
    push(reducer, 1, 1, vector(1.0))
    reducer.receive("w1", Resend(1), 3.5)
    assert reducer.take_outbox() == []  # it waits for the other one


@pytest.mark.parametrize("t", [2, 3, 99])
def test_asked_for_a_round_to_come_it_asks_back_for_the_push_of_its_own(t: int) -> None:
    """Whoever asks was there with an earlier life of the reducer."""
    reducer = joined()
    reducer.receive("w1", Resend(t), 3.0)
    assert reducer.take_outbox() == [Envelope("w1", Resend(1))]
    assert (reducer.take_events(), reducer.take_records(), reducer.closed_rounds) == ([], b"", 0)


def test_who_has_asked_for_a_later_round_is_not_told_again_what_it_has_and_is_asked_on() -> None:
    reducer = joined()
    reducer.receive("w0", Resend(2), 1.0)
    assert sent(reducer) == [Resend(1)]
    push(reducer, 0, 1, vector(1.0))
    told = push(reducer, 1, 1, vector(2.0))
    assert [to for to, *_ in plain(told)] == ["w1"]
    assert Envelope("w0", Resend(2)) in told


def test_accident_05_a_task_that_has_ended_is_no_longer_waited_for() -> None:
    """failures.md, 5: "an explicit end of stream; its last column stays"."""
    reducer = joined()
    push(reducer, 0, 1, vector(3.0, last=True))
    assert len(push(reducer, 1, 1, vector(0.0, 1.0))) == 2
    assert list(rows(reducer)["round"]) == [1]
    pulls = push(reducer, 1, 2, vector(0.0, 2.0))
    assert [pull.to for pull in pulls] == ["w1"]
    assert reducer.take_events() == []
    (row,) = rows(reducer)
    assert row["round"] == 2
    assert row["sigma_1"] == pytest.approx(3.0)


def test_a_task_that_has_ended_may_still_ask_for_its_last_pull() -> None:
    reducer = joined()
    push(reducer, 0, 1, vector(3.0, last=True))
    last = push(reducer, 1, 1, vector(0.0, 1.0))[0]
    for t in (2, 3, 4):
        push(reducer, 1, t, vector(0.0, 1.0))
    reducer.receive("w0", Resend(1), 9.0)
    assert plain(reducer.take_outbox()) == [(*plain([last])[0][:4], 4, 2)]  # what is durable has gone on


def test_a_push_after_the_last_one_is_refused() -> None:
    reducer = joined()
    push(reducer, 0, 1, vector(3.0, last=True))
    push(reducer, 1, 1, vector(0.0, 1.0))
    reducer.take_events()
    assert push(reducer, 0, 2, vector(9.0)) == []
    assert refusals(reducer) == [Refused("site-0", "a push for round 2 after its last one")]


# The end


def test_it_has_finished_when_every_goodbye_is_noted() -> None:
    reducer = joined()
    reducer.receive("w0", BYE, 5.0)
    assert reducer.take_outbox() == [Envelope("w0", GoodbyeAck())]
    assert (reducer.finished, [ended is None for ended in reducer.ended]) == (False, [False, True])
    reducer.receive("w1", BYE, 6.0)
    assert reducer.finished
    ended = reducer.ended[0]
    assert ended is not None
    assert (ended.rounds, ended.chain, ended.totals) == (BYE.rounds, BYE.chain, BYE.totals)


def test_a_goodbye_that_comes_twice_is_answered_twice_and_the_first_counts() -> None:
    reducer = joined()
    reducer.receive("w0", BYE, 5.0)
    reducer.receive("w0", Goodbye(9, bytes(32), Totals()), 5.5)
    assert sent(reducer) == [GoodbyeAck(), GoodbyeAck()]
    ended = reducer.ended[0]
    assert ended is not None
    assert ended.chain == BYE.chain


def test_the_goodbye_of_a_task_without_examples_lets_the_round_close() -> None:
    reducer = joined()
    assert push(reducer, 0, 1, vector(2.0)) == []
    reducer.receive("w1", Goodbye(0, bytes(32), Totals()), 3.0)
    assert [type(message) for message in sent(reducer)] == [GoodbyeAck, Pull]


def test_a_goodbye_in_mid_round_does_not_stand_for_the_push_of_another() -> None:
    """Two answers are there and two tasks are left, but they are not the same two."""
    reducer = joined(3)
    push(reducer, 0, 1, vector(2.0))
    push(reducer, 1, 1, vector(2.0))
    reducer.receive("w0", BYE, 3.0)
    assert sent(reducer) == [GoodbyeAck()]
    assert reducer.closed_rounds == 0
    assert [pull.to for pull in push(reducer, 2, 1, vector(1.0))] == ["w0", "w1", "w2"]


# Trouble


def test_accident_10_a_wait_for_some_is_reported_with_their_names() -> None:
    reducer = joined(3)
    push(reducer, 1, 1, vector(1.0), now=2.0)
    reducer.on_timer(10.9)
    assert reducer.take_events() == []
    assert reducer.num_overdue == 0
    reducer.on_timer(11.0)
    assert reducer.take_events() == [Stalled(1, "site-0, site-2", 10.0)]
    assert reducer.next_timer() == 31.0
    assert (reducer.num_overdue, reducer.num_connected) == (2, 3)
    reducer.on_connection("w1", False, 12.0)
    push(reducer, 0, 1, vector(1.0), now=12.0)
    assert (reducer.num_overdue, reducer.num_connected) == (1, 2)
    push(reducer, 2, 1, vector(1.0), now=12.0)
    assert reducer.num_overdue == 0


def test_accident_07_one_that_computes_for_long_is_reported_and_not_lost() -> None:
    """failures.md, 7: "liveness judged by the transport's heartbeats, which go on while Python computes"."""
    reducer = joined()
    push(reducer, 0, 1, vector(1.0), now=2.0)
    while (now := reducer.next_timer()) < 10_000.0:
        reducer.on_timer(now)
    assert {type(event) for event in reducer.take_events()} == {Stalled}
    assert len(push(reducer, 1, 1, vector(1.0), now=10_000.0)) == 2


def test_a_wait_in_which_nobody_has_pushed_is_reported_too() -> None:
    """All workers hang: nobody's push is there that could tell of the others'."""
    reducer = joined(3)
    reducer.on_timer(10.9)
    assert reducer.take_events() == []
    reducer.on_timer(11.0)
    assert reducer.take_events() == [Stalled(1, "site-0, site-1, site-2", 10.0)]
    for task in range(3):
        push(reducer, task, 1, vector(2.0), now=12.0)
    assert reducer.next_timer() == 22.0  # the wait of a new round begins
    reducer.on_timer(22.0)
    reducer.on_timer(41.9)
    reducer.on_timer(42.0)
    reducer.on_timer(82.0)
    assert reducer.take_events() == [Stalled(2, "site-0, site-1, site-2", since) for since in (10.0, 30.0, 70.0)]


def test_a_wait_for_goodbyes_alone_is_reported_as_such() -> None:
    reducer = joined(3)
    for task in range(3):
        push(reducer, task, 1, vector(2.0, last=True), now=2.0)
    reducer.receive("w1", BYE, 3.0)
    reducer.on_timer(11.9)
    assert reducer.take_events() == []
    reducer.on_timer(12.0)
    assert reducer.take_events() == [Stalled(2, "site-0, site-2 to finish", 10.0)]
    reducer.receive("w0", BYE, 13.0)
    reducer.receive("w2", BYE, 13.0)
    assert reducer.finished
    assert reducer.next_timer() == math.inf


def test_tasks_that_never_push_are_waited_for_in_silence_once_they_have_joined() -> None:
    """Local: between Welcome and Goodbye there is nothing to hear, however long a task learns."""
    reducer = make_reducer(local(), 2, timeouts=TIMES)
    reducer.start(0.0)
    reducer.receive("w0", hello(0), 1.0)
    reducer.take_events()
    reducer.on_timer(10.0)
    assert reducer.take_events() == [Stalled(1, "site-1 to join", 10.0)]
    reducer.receive("w1", hello(1), 12.0)
    assert reducer.take_events() == [Joined(1)]
    now = reducer.next_timer()
    while now < 1000.0:
        reducer.on_timer(now)
        now = reducer.next_timer()
    reducer.receive("w1", BYE, now)
    reducer.on_timer(2000.0)
    assert reducer.take_events() == []
    assert reducer.num_overdue == 0
    reducer.receive("w0", BYE, 2001.0)
    assert reducer.finished


def test_a_wait_to_join_is_reported_with_their_names() -> None:
    reducer = new(3)
    reducer.receive("w0", hello(0), 1.0)
    reducer.take_events()
    reducer.on_timer(10.0)
    assert reducer.take_events() == [Stalled(1, "site-1, site-2 to join", 10.0)]


def test_a_connection_that_comes_back_in_time_is_only_told() -> None:
    reducer = joined()
    reducer.on_connection("w1", False, 5.0)
    reducer.on_connection("w1", False, 6.0)
    reducer.on_timer(34.9)
    reducer.on_connection("w1", True, 34.9)
    reducer.on_connection("w1", True, 34.9)
    reducer.on_timer(500.0)
    assert reducer.take_events() == [
        ConnectionChanged("site-1", False),
        Stalled(1, "site-0, site-1", 33.9),
        ConnectionChanged("site-1", True),
        Stalled(1, "site-0, site-1", 499.0),
    ]


@pytest.mark.parametrize("t", [1, 4])
def test_what_a_task_that_never_pushes_says_when_it_is_back_does_no_harm(t: int) -> None:
    reducer = make_reducer(local(), 2, timeouts=TIMES)
    reducer.start(0.0)
    for task in range(2):
        reducer.receive(f"w{task}", hello(task), 1.0)
    reducer.take_outbox()
    reducer.receive("w1", Resend(t), 3.0)
    assert sent(reducer) == ([Resend(1)] if t == 1 else [])  # which a worker that does not wait ignores
    for task in range(2):
        reducer.receive(f"w{task}", BYE, 4.0)
    assert sent(reducer) == [GoodbyeAck(), GoodbyeAck()]
    assert reducer.finished


def test_accident_01_a_task_that_is_lost_for_good_ends_the_run_by_name_and_the_others_are_told() -> None:
    """failures.md, 1: noticed "within a stated bound", and the error says who."""
    reducer = joined(3)
    reducer.receive("w2", BYE, 2.0)
    reducer.take_outbox()
    reducer.on_connection("w1", False, 5.0)
    assert reducer.next_timer() == 11.0  # the report of a long wait comes first
    reducer.on_timer(34.9)
    with pytest.raises(ClusterError, match=r"lost site-1 in round 1: disconnected for 30 s \(timeouts.lost_s\)"):
        reducer.on_timer(35.0)
    told = reducer.take_outbox()
    assert [envelope.to for envelope in told] == ["w0", "w1"]  # the one that has ended needs no more
    assert all(isinstance(envelope.message, Reject) and "site-1" in envelope.message.reason for envelope in told)


def test_a_stranger_or_an_ended_task_may_go() -> None:
    reducer = joined()
    reducer.receive("w1", BYE, 2.0)
    reducer.take_outbox()
    reducer.on_connection("stranger", False, 3.0)
    reducer.on_connection("w1", False, 3.0)
    reducer.on_timer(1000.0)
    assert reducer.take_events() == [Stalled(1, "site-0", 999.0)]


def test_a_goodbye_is_enough_of_a_task_whose_connection_is_down() -> None:
    reducer = joined()
    reducer.on_connection("w1", False, 3.0)
    reducer.receive("w1", BYE, 4.0)
    reducer.on_timer(1000.0)
    reducer.receive("w0", BYE, 1001.0)
    assert reducer.finished


def test_stopped_it_tells_nobody_for_it_may_come_back() -> None:
    reducer = joined(3)
    reducer.receive("w1", BYE, 2.0)
    reducer.take_outbox()
    reducer.stop()
    assert reducer.finished
    assert reducer.take_outbox() == []
