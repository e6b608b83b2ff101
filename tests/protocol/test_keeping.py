"""When a node keeps what, how far it may be ahead of its disk, and how much the others keep for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from helpers import graph_of, hoods_of, random_streams
from star_harness import hello, keep_all, make_reducer, make_worker, sent
from test_snapshots import CASES, EXCHANGES, Party, after

from drom_net.algorithms.base import IDLE, ZERO
from drom_net.algorithms.drom import drom
from drom_net.algorithms.drom_d import drom_d
from drom_net.protocol.durability import Durability
from drom_net.protocol.history import ContributionHistory, ReplyHistory
from drom_net.protocol.messages import Goodbye, Hello, Message, Pull, Push, Resend, Welcome
from drom_net.protocol.node import REDUCER
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.settings import Checkpoints
from drom_net.protocol.states import WorkerState
from drom_net.protocol.worker import Worker

# When one is due


def due(durability: Durability, at: float = 0.0, most: int = 60) -> list[int]:
    """Rounds, one a second from `at` on, after which one was due, each taken and kept at once."""
    durability.start(at)
    rounds = []
    for t in range(durability.durable + 1, durability.durable + most + 1):
        if durability.is_due(t, at + t):
            durability.note_due(t, at + t)
            durability.taken(t)
            durability.persisted()
            rounds.append(t)
    return rounds


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [
        (Checkpoints(every_rounds=20, every_s=1e9), [20, 40, 60]),
        (Checkpoints(every_s=25.0), [25, 50]),
        (Checkpoints(every_rounds=20, every_s=25.0), [20, 40, 60]),
        (Checkpoints(every_rounds=30, every_s=25.0), [25, 50]),
        (Checkpoints(every_s=1e9, history_rounds=80), [20, 40, 60]),
        (Checkpoints(every_rounds=50, every_s=1e9, history_rounds=80), [20, 40, 60]),
        (Checkpoints(every_s=1e9, history_rounds=4), list(range(1, 61))),
        (Checkpoints(every_s=1e9), []),
    ],
    ids=str,
)
def test_one_is_due_after_rounds_or_seconds_whichever_comes_first(settings: Checkpoints, rounds: list[int]) -> None:
    """decisions.md: "whichever comes first, never beyond `history_rounds`"."""
    assert due(Durability(settings)) == rounds
    assert due(Durability(settings), at=1000.0) == rounds


def test_after_a_restart_rounds_and_seconds_count_from_there() -> None:
    settings = Checkpoints(every_rounds=20, every_s=1e9)
    assert due(Durability(settings, durable=7)) == [27, 47, 67]


def test_what_is_taken_is_durable_only_when_it_is_on_disk() -> None:
    durability = Durability(Checkpoints(history_rounds=8))
    durability.taken(5)
    assert (durability.busy, durability.durable) == (True, 0)
    durability.persisted()
    assert (durability.busy, durability.durable) == (False, 5)


def test_how_far_it_may_be_ahead() -> None:
    durability = Durability(Checkpoints(history_rounds=8), durable=10)
    assert [t for t in range(30) if durability.is_too_far(t)] == list(range(19, 30))
    assert [t for t in range(30) if durability.is_far(t)] == list(range(14, 30))


def test_who_keeps_none_is_never_ahead_and_needs_nothing_again() -> None:
    durability = Durability(None)
    durability.start(0.0)
    assert not durability.is_due(5000, 1e9)
    assert durability.durable == 0  # to ask changes nothing
    durability.note_closed(5000)
    assert durability.durable == 5000
    assert not durability.is_too_far(10**9)


# A slow disk


def a_worker(**more: Any) -> Worker:
    worker = make_worker(drom(), random_streams([40])[0], num_tasks=1, checkpoints=after(1, history_rounds=4), **more)
    worker.start(0.0)
    worker.receive(REDUCER, Welcome("run-1", 1), 0.0)
    sent(worker)
    return worker


def step(worker: Worker, durable: int = 0) -> list[Message]:
    """Its next round, and the answer of a reducer that has kept so many."""
    worker.on_timer(1.0)
    said = sent(worker)
    if worker.state is WorkerState.WAITING:
        worker.receive(REDUCER, Pull(worker.round, ZERO, durable, worker.round + 1), 1.0)
    return said


def test_a_worker_whose_disk_is_slow_stops_at_history_rounds_and_goes_on_when_it_is_kept() -> None:
    worker = a_worker()
    assert [len(step(worker)) for _ in range(5)] == [1, 1, 1, 1, 0]
    assert (worker.round, worker.holding, worker.next_timer()) == (4, True, float("inf"))
    assert worker.take_snapshot() is not None
    assert worker.holding  # it is on its way
    worker.receive(REDUCER, Resend(3), 1.5)
    assert sent(worker) == []
    worker.snapshot_persisted(2.0)
    assert not worker.holding
    assert [message.round for message in sent(worker) if isinstance(message, Push)] == [3]  # what was asked meanwhile
    (push,) = step(worker)
    assert isinstance(push, Push)
    assert (push.round, push.durable) == (5, worker.durable_round)
    assert worker.durable_round > 0


def test_a_reducer_whose_disk_is_slow_answers_nobody_beyond_history_rounds() -> None:
    node = make_reducer(drom(), 1, checkpoints=after(1, history_rounds=4))
    node.start(0.0)
    node.receive("w0", hello(0), 0.0)
    answered = []
    for t in range(1, 6):
        node.receive("w0", Push(t, IDLE), 0.0)
        answered += [message.round for message in sent(node) if isinstance(message, Pull)]
    assert answered == [1, 2, 3, 4]
    assert node.holding
    assert node.take_snapshot() is not None
    assert sent(node) == []
    node.snapshot_persisted(1.0)
    assert [message.round for message in sent(node) if isinstance(message, Pull)] == [5]


def test_a_worker_waits_with_its_snapshot_for_the_reducer_so_that_few_pushes_need_be_in_it() -> None:
    """Those that the older of the reducer's two snapshots lacks."""
    worker = a_worker()
    step(worker)
    assert worker.take_snapshot() is None  # the reducer would not have round 1
    step(worker, durable=1)
    snapshot = worker.take_snapshot()
    assert snapshot is not None
    assert (snapshot["round"], list(snapshot["history"])) == (1, [1])


def test_but_not_for_long_and_then_its_pushes_are_in_it() -> None:
    worker = a_worker()
    for _ in range(2):
        assert worker.take_snapshot() is None
        step(worker)
    snapshot = worker.take_snapshot()
    assert snapshot is not None
    assert snapshot["round"] == 1
    assert [(t, push.round) for t, push in snapshot["history"].items()] == [(1, 1)]


@pytest.mark.parametrize("disk_steps", [1, 2, 5, 17, 60, 300])
@pytest.mark.parametrize("rounds", [1, 2, 99])
@pytest.mark.parametrize("exchange", [None, *EXCHANGES])
def test_slow_disks_cost_time_and_nothing_else(exchange: str | None, rounds: int, disk_steps: int) -> None:
    """Everybody's, and nobody waits for ever: a worker whose snapshot waits for its reducer's, a peer for a word."""
    party = Party(exchange, after(rounds, history_rounds=4), disk_steps=disk_steps)
    held = set()
    ahead = 0
    for _ in range(20_000):
        if all(node.finished for node in party.nodes):
            break
        party.step()
        held |= {index for index, node in enumerate(party.nodes) if node.holding}
        ahead = max(ahead, *(round_of(node) - node.durable_round for node in party.nodes))
    party.check()
    assert ahead <= 4 + 1
    assert held or disk_steps < 60


def round_of(node: Worker | Peer | Reducer) -> int:
    return node.closed_rounds if isinstance(node, Reducer) else node.round


# How much is kept for others


def _kept(node: Worker | Peer | Reducer) -> Mapping[int, object]:
    if isinstance(node, Worker):
        return node.history.pushes
    return node.history.contributions if isinstance(node, Peer) else node.history.replies


def kept_for_others(node: Worker | Peer | Reducer) -> int:
    return len(_kept(node))


@pytest.mark.slow
@pytest.mark.parametrize("node", range(4))
@pytest.mark.parametrize("exchange", [None, *EXCHANGES])
def test_what_is_kept_for_others_is_bounded_by_history_rounds(exchange: str | None, node: int) -> None:
    """Twice: as many as they may be ahead of their last snapshot, and that one of the one before it."""
    for disk_steps in (0, 5, 60):
        for at in range(0, 60, 7):
            party = Party(exchange, after(99, history_rounds=4), disk_steps=disk_steps)
            most = 0
            while not all(one.finished for one in party.nodes):
                if party.steps == at and node < len(party.nodes) and not party.nodes[node].finished:
                    party.replace(node)
                party.step()
                most = max(most, *map(kept_for_others, party.nodes))
            party.check()
            assert most <= 2 * (4 + 1) + 1


def test_a_snapshot_has_what_came_behind_it_and_knows_what_is_not_kept_any_more() -> None:
    replies = ReplyHistory()
    replies.replies = dict.fromkeys((3, 4, 7))
    assert list(replies.needed_after(4)) == [7]
    (hood, *_) = hoods_of(graph_of("full", 2), [drom_d()] * 2)
    said = ContributionHistory(hood, kept_for_each=4)
    said.restore({4: None, 6: None}, 7)
    assert said.latest_forgotten == 3
    said.restore({}, 7)
    assert said.latest_forgotten == 7


def test_a_worker_drops_pushes_when_the_reducer_has_kept_them_twice() -> None:
    worker = make_worker(drom(), random_streams([40])[0], num_tasks=1, checkpoints=after(1))
    worker.start(0.0)
    worker.receive(REDUCER, Welcome("run-1", 1), 0.0)
    kept = []
    for durable in (0, 0, 2, 2, 4, 4, 6, 6):
        step(worker, durable)
        kept.append(list(worker.history.pushes))
    assert kept[3] == [1, 2, 3, 4]  # 2 is the last one announced: the one before it was 0
    assert kept[4] == [3, 4, 5]
    assert kept[7] == [5, 6, 7, 8]


def test_a_reducer_drops_replies_when_all_have_kept_what_came_of_them_twice() -> None:
    node = make_reducer(drom(), 2, checkpoints=after(1))
    node.start(0.0)
    for task in range(2):
        node.receive(f"w{task}", hello(task), 0.0)
    kept = []
    for t, (first, second) in enumerate([(0, 0), (1, 0), (1, 1), (3, 1), (4, 3), (5, 3)], start=1):
        node.receive("w0", Push(t, IDLE, first), 0.0)
        node.receive("w1", Push(t, IDLE, second), 0.0)
        kept.append(list(node.history.replies))
    assert kept == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5, 6]]
    for task in range(2):
        node.receive(f"w{task}", Goodbye(6, bytes(32), a_worker().totals), 0.0)
    keep_all(node, 0.0)
    assert node.finished


@pytest.mark.parametrize(("exchange", "node"), CASES)
def test_who_has_nothing_left_is_told_from_where_on_the_other_can_say_it_again(exchange: str | None, node: int) -> None:
    """A Hello's `kept_from`, by which a restarted node knows whether it can go on."""
    party = Party(exchange, after(2))
    introductions: list[tuple[Any, Hello]] = []
    while not all(one.finished for one in party.nodes):
        party.step()
        one = party.nodes[node]
        if isinstance(one, Worker):
            introductions.append((min(one.history.pushes, default=0), one._introduction))
        elif isinstance(one, Peer):
            for task in one.session.members:
                told = [t for t in one.history.contributions if one.history.is_for(task, t)]
                introductions.append((min(told, default=0), one._introduction(task)))
    for first, introduction in introductions:
        assert introduction.kept_from == first
    assert introductions or exchange is None


# Who never says that it has kept anything


def test_a_reducer_keeps_no_more_than_twice_history_rounds_for_a_task_that_never_says_it_keeps_any() -> None:
    node = make_reducer(drom(), 2, checkpoints=after(1, history_rounds=4))
    node.start(0.0)
    for task in range(2):
        node.receive(f"w{task}", hello(task), 0.0)
    for t in range(1, 41):
        for task, durable in enumerate((t - 1, 0)):
            node.receive(f"w{task}", Push(t, IDLE, durable), 0.0)
        snapshots = keep_all(node, 0.0)
        assert len(node.history.replies) <= 9
        assert all(len(snapshot["history"]) <= 9 for snapshot in snapshots)
    assert node.closed_rounds == 40


def test_a_worker_keeps_no_more_for_a_reducer_that_never_says_it_keeps_any() -> None:
    worker = a_worker()
    for _ in range(40):
        step(worker)
        keep_all(worker, 1.0)
        assert len(worker.history.pushes) <= 9
    assert worker.round > 20
