"""Nodes in the middle of small runs that strangers and members attack, on a virtual clock (scripts/siege.py)."""

from __future__ import annotations

from random import Random

import pytest
from helpers import graph_of, hoods_of, random_streams
from peers_harness import make_peer
from siege import RUNS, Drawn, Siege, besiege
from star_harness import hello, make_reducer

from drom_net.algorithms.drom import drom
from drom_net.algorithms.drom_d import drom_d
from drom_net.protocol.messages import Message, Reject, RequestHello, Welcome
from drom_net.protocol.node import Node, Refused
from drom_net.protocol.settings import Checkpoints

ALL = pytest.mark.parametrize("name", RUNS)
SNAPSHOTS = pytest.mark.parametrize("snapshots", [False, True])


@ALL
@SNAPSHOTS
@pytest.mark.parametrize("seed", range(6))
def test_accident_31_strangers_and_replays_change_no_bit(name: str, snapshots: bool, seed: int) -> None:
    """Bad content from strangers who know all; and what members said, again, later and from elsewhere."""
    siege = Siege(name, Drawn(Random(seed)), insiders=False, snapshots=snapshots)
    assert siege.run() == siege.expected
    assert siege.strikes > 10


@ALL
@SNAPSHOTS
@pytest.mark.parametrize("seed", range(6))
def test_accident_32_whatever_a_member_says_no_node_dies_of_it(name: str, snapshots: bool, seed: int) -> None:
    """A member may spoil the result, or end the run: by an error that says so."""
    siege = Siege(name, Drawn(Random(seed)), insiders=True, snapshots=snapshots)
    siege.run()  # any other exception than a node's own fails here
    assert siege.strikes > 3


@pytest.mark.parametrize("how", range(4))
def test_an_attack_is_read_from_bytes(how: int) -> None:
    """As scripts/fuzz does."""
    for name in range(len(RUNS)):
        besiege(bytes([name, how]) + Random(how).randbytes(500))


# A Hello of a later life: only who is not here any more may be replaced

KEEPS = Checkpoints(every_rounds=1)


def others_are_here(kind: str) -> Node:
    """A reducer, or peer 1 of a ring, whose others have all joined from addresses of their own."""
    if kind == "reducer":
        node: Node = make_reducer(drom(), 3, checkpoints=KEEPS)
        joining = {"a": 0, "b": 1, "c": 2}
    else:
        streams = random_streams([4, 4, 4])
        hoods = hoods_of(graph_of("ring", 3), [drom_d()] * 3)
        node = make_peer(drom_d(), streams[1], hoods[1], num_tasks=3, checkpoints=KEEPS)
        joining = {"c": 2}
    node.start(0.0)
    for address, task in joining.items():
        node.receive(address, hello(task), 0.0)
    node.take_outbox()
    node.take_events()
    return node


def said_to(node: Node, address: str) -> list[Message]:
    return [message for to, message in node.take_outbox() if to == address]


KINDS = pytest.mark.parametrize("kind", ["reducer", "peer"])
LIES = pytest.mark.parametrize(
    "lie", [{}, {"round": 2**53}, {"round": 9, "kept_from": 8}, {"round": 0, "kept_from": 7}]
)


@KINDS
@LIES
def test_accident_13_who_is_here_is_asked_before_anything_is_believed_of_another(kind: str, lie: dict) -> None:
    """A stranger that says it is a node's next life, and that all is lost, must not end the run with one message."""
    node = others_are_here(kind)
    node.receive("stranger", hello(2, incarnation=2**53, **lie), 1.0)
    (question,) = said_to(node, "c")
    assert isinstance(question, RequestHello) and question.question > 0
    node.receive("c", hello(2, answers=question.question), 1.1)
    assert said_to(node, "stranger") == [Reject("site-2 is already here")]
    assert node.take_events() == [Refused("stranger", "site-2 is already here")]


@KINDS
def test_who_does_not_answer_is_replaced(kind: str) -> None:
    node = others_are_here(kind)
    node.receive("next life", hello(2, incarnation=2), 1.0)
    said: list[Message] = []
    while not said:
        assert node.next_timer() <= 2.0, "it may take a second"  # timeouts.duplicate_probe_s
        node.on_timer(node.next_timer())
        said = said_to(node, "next life")
    assert isinstance(said[0], Welcome)


@KINDS
def test_one_question_is_asked_however_many_want_the_place(kind: str) -> None:
    """Else any stranger could have as much said to a member as it says itself."""
    node = others_are_here(kind)
    for number in range(100):
        node.receive(f"stranger-{number}", hello(2, incarnation=2 + number), 1.0)
    questions = said_to(node, "c")
    assert questions == [RequestHello(1)]
    node.receive("c", hello(2, answers=1), 1.1)
    assert said_to(node, "stranger-99") == [Reject("site-2 is already here")]
    node.receive("stranger-0", hello(2, incarnation=2), 1.2)
    assert said_to(node, "c") == [RequestHello(2)]


def test_what_a_later_life_says_is_believed_once_the_other_is_known_to_be_gone() -> None:
    node = others_are_here("reducer")
    node.receive("next life", hello(2, incarnation=2, round=2**53), 1.0)
    node.receive("c", hello(2, answers=1), 1.1)  # it is there: the run goes on
    node.on_connection("c", False, 2.0)
    node.take_outbox()
    node.receive("next life", hello(2, incarnation=2, round=2**53), 3.0)
    (answer,) = said_to(node, "next life")
    assert isinstance(answer, Reject)
    assert "the reducer was started anew, and what it had is lost" in answer.reason


def test_a_siege_fails_where_strangers_are_let_in() -> None:
    """The test of the test: with members' addresses at hand the digest changes, or the run ends."""
    changed = 0
    for seed in range(20):
        siege = Siege("star", Drawn(Random(seed)), insiders=True, snapshots=True)
        changed += siege.run() != siege.expected
    assert changed > 5
