"""Two processes that say they are the same node: who of them is alive, and who is let in."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers import graph_of, hoods_of, random_streams
from peers_harness import incoming, make_peer
from star_harness import EVERY_ROUND, hello, make_reducer, make_worker, sent

from drom_net.algorithms.base import IDLE
from drom_net.algorithms.drom import drom
from drom_net.algorithms.drom_d import drom_d
from drom_net.core.errors import RejectedError
from drom_net.protocol.duplicates import DuplicateProbe
from drom_net.protocol.messages import Push, Reject, RequestHello, Resend, Welcome
from drom_net.protocol.node import REDUCER, Envelope, Refused, earlier_start
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.session import address_of
from drom_net.protocol.settings import Checkpoints, Policy, Timeouts

TIMES = Timeouts(join_s=20.0, lost_s=30.0, stall_s=100.0, duplicate_probe_s=1.5)
OLD = incoming(2)
"""Where task 2, of incarnation 2, speaks from."""
ALREADY_HERE = Reject("site-2 is already here")


def a_reducer(checkpoints: Checkpoints | None = EVERY_ROUND, **more: Any) -> Reducer:
    node = make_reducer(drom(), 3, timeouts=TIMES, checkpoints=checkpoints, **more)
    node.start(0.0)
    for task, address in enumerate(("in-0", "in-1", OLD)):
        node.receive(address, hello(task, incarnation=2), 1.0)
    return quiet(node)


def a_peer(checkpoints: Checkpoints | None = EVERY_ROUND, **more: Any) -> Peer:
    hood = hoods_of(graph_of("path", 3), [drom_d()] * 3)[1]
    life = {"checkpoints": checkpoints, "timeouts": TIMES, **more}
    node = make_peer(drom_d(), random_streams([9])[0], hood, num_tasks=3, **life)
    node.start(0.0)
    node.receive(OLD, hello(2, incarnation=2), 1.0)
    node.receive(address_of(0), Welcome("run-1"), 1.0)
    node.on_timer(1.0)  # it has said its first word, and waits
    return quiet(node)


def quiet(node: Any) -> Any:
    node.take_outbox()
    node.take_events()
    return node


def welcome(node: Reducer | Peer) -> Welcome:
    return Welcome("run-1", 1)  # both are in round 1


BOTH = pytest.mark.parametrize("make", [a_reducer, a_peer])


@BOTH
def test_accident_13_of_two_with_one_identity_the_second_is_rejected_by_name_and_the_first_goes_on(make: Any) -> None:
    """decisions.md: "an answer within `duplicate_probe_s` (1 s) means the newcomer is rejected"."""
    node = make()
    node.receive("new", hello(2, incarnation=3), 2.0)
    assert node.take_outbox() == [Envelope(OLD, RequestHello(1))]
    node.receive(OLD, hello(2, incarnation=2, answers=1), 3.4)
    assert Envelope("new", ALREADY_HERE) in node.take_outbox()
    assert node.take_events() == [Refused("new", ALREADY_HERE.reason)]
    assert (node.task_at(OLD), node.task_at("new")) == (2, None)
    node.on_timer(3.5)  # nobody is let in when the time has run out
    assert (node.task_at(OLD), node.task_at("new")) == (2, None)
    node.receive(OLD, Resend(2), 3.6)  # it is who it was
    assert node.take_events() == []


@BOTH
def test_accident_27_who_does_not_answer_is_replaced(make: Any) -> None:
    """failures.md, 27: "the dead socket holds the id": of a half-open connection nobody has told yet."""
    node = make()
    node.receive("new", hello(2, incarnation=3), 2.0)
    assert node.next_timer() <= 3.5
    node.on_timer(3.4)
    assert node.task_at("new") is None
    node.on_timer(3.5)
    assert Envelope("new", welcome(node)) in node.take_outbox()
    assert (node.task_at("new"), node.task_at(OLD)) == (2, None)
    quiet(node)
    node.receive(OLD, Resend(1), 4.0)  # a stranger's
    assert node.take_outbox() == [Envelope(OLD, RequestHello())]


def test_one_whose_rival_is_refused_in_the_end_is_still_connected() -> None:
    """The rival is of another run of it: it is in a round that nobody was in, and has nothing of what it had said."""
    node = a_reducer()
    node.receive("new", hello(2, incarnation=3, round=9), 2.0)
    node.on_timer(3.5)
    assert any(isinstance(message, Reject) for to, message in node.take_outbox() if to == "new")
    assert (node.task_at(OLD), node.num_connected) == (2, 3)


@BOTH
def test_what_was_on_its_way_before_is_no_sign_of_life(make: Any) -> None:
    """A killed process's last messages may be read after the Hello of the one that takes its place."""
    node = make()
    node.receive("new", hello(2, incarnation=3), 2.0)
    node.receive(OLD, Resend(1), 2.1)
    node.receive(OLD, Push(1, IDLE), 2.2)
    node.receive(OLD, hello(2, incarnation=2), 2.3)
    assert ALREADY_HERE not in sent(node)
    node.on_timer(3.5)
    assert node.task_at("new") == 2


@BOTH
def test_nor_is_an_answer_to_an_earlier_question(make: Any) -> None:
    node = make()
    node.receive("new", hello(2, incarnation=3), 2.0)
    node.receive(OLD, hello(2, incarnation=2, answers=1), 2.5)
    quiet(node)
    node.receive("newer", hello(2, incarnation=4), 3.0)
    assert node.take_outbox() == [Envelope(OLD, RequestHello(2))]
    node.receive(OLD, hello(2, incarnation=2, answers=1), 3.1)
    assert ALREADY_HERE not in sent(node)
    node.on_timer(4.5)
    assert node.task_at("newer") == 2


@BOTH
@pytest.mark.parametrize("incarnation", [1, 2])
def test_a_lower_or_equal_incarnation_is_rejected_at_once(make: Any, incarnation: int) -> None:
    node = make()
    node.receive("new", hello(2, incarnation=incarnation), 2.0)
    assert node.take_outbox() == [Envelope("new", ALREADY_HERE)]
    node.on_connection(OLD, False, 3.0)
    quiet(node)
    node.receive("new", hello(2, incarnation=incarnation), 4.0)  # nor does it come back to what a later one has done
    assert node.take_outbox() == [Envelope("new", Reject(earlier_start("site-2", 2, incarnation)))]


@BOTH
@pytest.mark.parametrize("lost_first", [True, False])
def test_where_the_old_connection_is_lost_the_new_one_is_let_in_at_once(make: Any, lost_first: bool) -> None:
    node = make()
    if lost_first:
        node.on_connection(OLD, False, 1.9)
    quiet(node)
    node.receive("new", hello(2, incarnation=3), 2.0)
    if not lost_first:
        quiet(node)
        node.on_connection(OLD, False, 2.1)
    assert Envelope("new", welcome(node)) in node.take_outbox()
    assert (node.task_at("new"), node.task_at(OLD)) == (2, None)
    assert not node.session.lost_until


@BOTH
def test_who_asks_again_while_the_other_is_asked_waits_no_longer(make: Any) -> None:
    node = make()
    for now in (2.0, 2.5, 3.4):
        node.receive("new", hello(2, incarnation=3), now)
    assert node.take_outbox() == [Envelope(OLD, RequestHello(1))]
    node.on_timer(3.5)
    assert node.task_at("new") == 2


@BOTH
def test_of_several_that_would_take_the_place_the_latest_counts(make: Any) -> None:
    """It was killed again, before it was let in."""
    node = make()
    node.receive("third", hello(2, incarnation=3), 2.0)
    node.receive("fourth", hello(2, incarnation=4), 2.1)
    node.receive("third", hello(2, incarnation=3), 2.2)  # it was on its way
    node.on_timer(3.6)
    assert (node.task_at("third"), node.task_at("fourth")) == (None, 2)


@BOTH
def test_accident_14_a_place_may_be_taken_again_and_again(make: Any) -> None:
    """failures.md, 14: "a new routing id per incarnation": nothing of an earlier one is left."""
    node, address = make(), OLD
    for incarnation in range(3, 9):
        node.on_connection(address, False, 2.0)
        address = f"new-{incarnation}"
        node.receive(address, hello(2, incarnation=incarnation), 2.0)
        assert welcome(node) in sent(node)
    assert node.task_at(address) == 2
    assert len(node.session.task_at) == (3 if isinstance(node, Reducer) else 2)


@BOTH
def test_a_hello_that_was_said_twice_is_no_other_node(make: Any) -> None:
    node = make()
    node.receive(OLD, hello(2, incarnation=2), 2.0)
    assert sent(node) == [welcome(node)]
    assert node.take_events() == []


def test_a_question_that_was_answered_is_waited_for_no_more() -> None:
    probe = DuplicateProbe(2.0)
    question = probe.add("new", hello(2, incarnation=2), 1.0)
    assert question is not None and probe.due == 3.0
    assert probe.answered(2, question) is not None
    assert probe.due == math.inf


@BOTH
def test_a_later_incarnation_takes_no_place_where_nodes_do_not_come_back(make: Any) -> None:
    """Without snapshots nobody is started anew: a stranger that says so would throw out who is there."""
    node = make(checkpoints=None)
    node.receive("new", hello(2, incarnation=10**12), 2.0)
    assert sent(node) == [ALREADY_HERE]


@BOTH
def test_also_where_the_run_goes_on_without_those_who_are_lost_none_comes_back_from_nothing(make: Any) -> None:
    """operations.md, 28: what it learns anew is not what was recorded, and could not be computed again."""
    node = make(policy=Policy(absent="proceed"))
    node.receive("new", hello(2, incarnation=1), 2.0)
    assert sent(node) == [ALREADY_HERE]
    node.on_connection(OLD, False, 3.0)
    quiet(node)
    node.receive("new", hello(2, incarnation=1), 4.0)
    assert sent(node) == [Reject(earlier_start("site-2", 2, 1))]
    node.receive("new", hello(2, incarnation=3), 5.0)
    assert welcome(node) in sent(node)
    assert node.task_at("new") == 2


def test_a_worker_answers_at_once_and_the_newcomer_ends_with_exit_code_3() -> None:
    node = a_reducer()
    old = make_worker(drom(), random_streams([9])[0], task=2, timeouts=TIMES, incarnation=2, num_tasks=3)
    new = make_worker(drom(), random_streams([9])[0], task=2, timeouts=TIMES, incarnation=3, num_tasks=3)
    old.start(0.0)
    old.receive(REDUCER, Welcome("run-1", 1), 1.0)
    old.on_timer(1.0)
    new.start(2.0)
    sent(old)
    node.receive("new", sent(new)[0], 2.0)
    ((_, introduce),) = node.take_outbox()
    old.receive(REDUCER, introduce, 2.1)
    (answer,) = sent(old)
    assert answer == hello(2, incarnation=2, round=1, kept_from=1, answers=1)
    node.receive(OLD, answer, 2.2)
    (reject,) = [message for to, message in node.take_outbox() if to == "new"]
    with pytest.raises(RejectedError, match="site-2 is already here"):
        new.receive(REDUCER, reject, 2.3)
    assert RejectedError.exit_code == 3


def test_a_peer_answers_at_once_too() -> None:
    node = a_peer()
    node.receive(address_of(0), RequestHello(7), 2.0)
    assert node.take_outbox() == [Envelope(address_of(0), hello(1, round=1, kept_from=1, answers=7))]
