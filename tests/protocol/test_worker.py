"""The worker alone: each state, each message in it, each time that runs out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import frozen, random_streams
from star_harness import DIM, ENDPOINT, hello, make_worker, sent

from drom_net.algorithms.base import KEEP, ZERO, Exchange, Reply, ReplyKind, SyncRounds
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.local import local
from drom_net.core.errors import ClusterError, DivergedError, RejectedError
from drom_net.learning.records import TASK_DTYPE
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Message,
    Pull,
    Push,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import REDUCER, CaughtUp, ConnectionChanged, Envelope, Joined, Refused, Stalled, Warned
from drom_net.protocol.settings import Timeouts
from drom_net.protocol.states import WorkerState
from drom_net.protocol.worker import Worker

TIMES = Timeouts(
    join_s=20.0, resend_after_s=0.5, resend_cap_s=2.0, lost_s=30.0, stall_s=10.0, linger_s=5.0, heartbeat_s=2.0
)


def new(examples: int = 2) -> Worker:
    return make_worker(drom(), random_streams([examples])[0], timeouts=TIMES)


def started(examples: int = 2) -> Worker:
    worker = new(examples)
    worker.start(0.0)
    sent(worker)
    return worker


def joined(examples: int = 2) -> Worker:
    """Let in at 1.0, before its first round."""
    worker = started(examples)
    worker.receive(REDUCER, Welcome("run-9"), 1.0)
    worker.take_events()
    return worker


def waiting(examples: int = 2) -> Worker:
    """Its first push was said at 1.0."""
    worker = joined(examples)
    worker.on_timer(1.0)
    sent(worker)
    worker.take_events()
    return worker


def finishing() -> Worker:
    """Its goodbye was said at 2.0."""
    worker = waiting(1)
    worker.receive(REDUCER, Pull(1, ZERO), 1.5)
    worker.on_timer(2.0)
    sent(worker)
    worker.take_events()
    return worker


def rows(worker: Worker) -> np.ndarray:
    """The rows of the rounds that it has closed since the last look."""
    return np.frombuffer(worker.take_records(), dtype=TASK_DTYPE)


STATES = {
    WorkerState.JOINING: started,
    WorkerState.STEPPING: joined,
    WorkerState.WAITING: waiting,
    WorkerState.FINISHING: finishing,
}


@pytest.mark.parametrize("state", STATES)
def test_the_states_are_reached(state: WorkerState) -> None:
    worker = STATES[state]()
    assert worker.state is state
    assert not worker.finished


# Joining


def test_it_starts_with_hello() -> None:
    worker = new()
    worker.start(0.0)
    assert worker.take_outbox() == [Envelope(REDUCER, hello(0))]
    assert worker.take_outbox() == []


def test_accident_18_it_says_hello_again_at_growing_distances_until_it_is_answered() -> None:
    worker = started()
    times = []
    while (now := worker.next_timer()) < 9.0:
        worker.on_timer(now)
        if sent(worker) == [hello(0)]:
            times.append(now)
    assert times == [0.5, 1.5, 3.5, 5.5, 7.5]  # doubled up to resend_cap_s
    worker.receive(REDUCER, Welcome("run-9"), 9.0)
    assert worker.state is WorkerState.STEPPING
    assert worker.take_events() == [Joined(0)]
    assert worker.run_id == "run-9"
    assert sent(worker) == []


def test_accident_17_without_an_answer_it_gives_up_and_names_the_endpoint_and_the_seconds() -> None:
    """failures.md, 17: "joining has a deadline; the error names the endpoint"."""
    worker = started()
    worker.on_timer(19.9)
    with pytest.raises(ClusterError, match=rf"no reducer answered at {ENDPOINT} within 20 s \(timeouts.join_s\)"):
        worker.on_timer(20.0)
    assert ClusterError.exit_code == 4


def test_once_it_has_joined_the_deadline_is_gone() -> None:
    worker = waiting()
    worker.on_timer(1000.0)
    assert worker.state is WorkerState.WAITING


def test_a_reject_while_joining_is_not_to_be_let_in() -> None:
    with pytest.raises(RejectedError, match=rf"the reducer at {ENDPOINT} does not let this worker in: it is full"):
        started().receive(REDUCER, Reject("it is full"), 1.0)
    assert RejectedError.exit_code == 3


@pytest.mark.parametrize("state", [WorkerState.STEPPING, WorkerState.WAITING])
def test_a_reject_later_ends_the_run_with_its_reason(state: WorkerState) -> None:
    with pytest.raises(ClusterError, match=rf"the reducer at {ENDPOINT} ended the run in round \d: lost site-3"):
        STATES[state]().receive(REDUCER, Reject("lost site-3"), 2.0)


def test_a_reject_after_its_goodbye_is_a_farewell() -> None:
    worker = finishing()
    worker.receive(REDUCER, Reject("it was stopped"), 2.5)
    assert worker.finished


# Rounds


def test_it_pushes_and_closes_the_round_with_the_pull() -> None:
    worker = joined()
    assert worker.next_timer() == 1.0  # at once
    worker.on_timer(1.0)
    (push,) = sent(worker)
    assert isinstance(push, Push)
    assert (push.round, push.contribution.last) == (1, False)
    worker.receive(REDUCER, Pull(1, ZERO), 1.2)
    assert worker.state is WorkerState.STEPPING
    assert worker.take_events() == []
    (row,) = rows(worker)
    assert (row["round"], row["reply"]) == (1, ReplyKind.ZERO)
    worker.on_timer(1.2)
    (push,) = sent(worker)
    assert isinstance(push, Push)
    assert (push.round, push.contribution.last) == (2, True)


def test_the_reply_is_used_in_the_next_round() -> None:
    plain, corrected = waiting(), waiting()
    plain.receive(REDUCER, Pull(1, ZERO), 1.2)
    corrected.receive(REDUCER, Pull(1, Reply(ReplyKind.VECTORS, (frozen(np.ones(DIM)),))), 1.2)
    pushes = []
    for worker in (plain, corrected):
        worker.on_timer(1.2)
        (push,) = sent(worker)
        assert isinstance(push, Push)
        pushes.append(push.contribution.vectors[0])
    q = DromParameters()
    np.testing.assert_allclose(pushes[0] - pushes[1], q.eta0 / np.sqrt(2.0) * q.rho * np.ones(DIM), rtol=1e-12)


@pytest.mark.parametrize("t", [0, 2, 7])
def test_a_pull_for_another_round_is_ignored(t: int) -> None:
    worker = waiting()
    worker.receive(REDUCER, Pull(t, KEEP), 1.2)
    assert worker.state is WorkerState.WAITING
    assert (sent(worker), worker.take_events(), worker.take_records()) == ([], [], b"")


def test_what_a_step_takes_to_compute_is_no_wait() -> None:
    worker = waiting()
    worker.busy_until(3.0)
    worker.receive(REDUCER, Pull(1, ZERO), 4.0)
    assert worker.waited_s == 1.0


def test_a_pull_that_comes_twice_is_used_once() -> None:
    worker = waiting()
    worker.receive(REDUCER, Pull(1, ZERO), 1.2)
    worker.receive(REDUCER, Pull(1, ZERO), 1.2)
    assert worker.take_events() == []
    assert len(rows(worker)) == 1
    worker.on_timer(1.3)
    worker.receive(REDUCER, Pull(1, ZERO), 1.4)
    assert len(rows(worker)) == 0
    assert (worker.state, worker.round) == (WorkerState.WAITING, 2)


def test_it_asks_for_the_pull_with_a_header_and_not_with_the_vector() -> None:
    worker = waiting()
    times = []
    while (now := worker.next_timer()) < 9.0:
        worker.on_timer(now)
        said = sent(worker)
        assert said == [Resend(1)]
        times.append(now)
    assert times == [1.5, 2.5, 4.5, 6.5, 8.5]


def test_the_next_wait_starts_with_short_distances_again() -> None:
    worker = waiting()
    worker.on_timer(1.5)
    worker.on_timer(2.5)
    worker.receive(REDUCER, Pull(1, ZERO), 3.0)
    worker.on_timer(3.0)
    assert worker.next_timer() == 3.5


def test_asked_for_its_push_it_says_the_same_again() -> None:
    worker = joined()
    worker.on_timer(1.0)
    (first,) = sent(worker)
    worker.receive(REDUCER, Resend(1), 1.3)
    (second,) = sent(worker)
    assert isinstance(first, Push)
    assert isinstance(second, Push)
    assert second.round == 1
    assert second.contribution.vectors[0].tobytes() == first.contribution.vectors[0].tobytes()
    worker.receive(REDUCER, Resend(2), 1.3)  # of a round that it has not begun
    assert sent(worker) == []


def test_without_sync_rounds_it_steps_to_the_end_alone() -> None:
    worker = make_worker(local(), random_streams([3])[0], timeouts=TIMES)
    worker.start(0.0)
    worker.receive(REDUCER, Welcome("r"), 0.0)
    for _ in range(3):
        worker.on_timer(0.0)
        assert worker.state is WorkerState.STEPPING
    worker.on_timer(0.0)
    assert worker.state is WorkerState.FINISHING
    assert list(rows(worker)["round"]) == [1, 2, 3]


def test_a_learner_that_diverges_is_not_hidden() -> None:
    algorithm = drom(DromParameters(loss="squared_hinge", eta0=1e200, lam=0.0))
    worker = make_worker(algorithm, random_streams([30], flip=0.5)[0], timeouts=TIMES)
    worker.start(0.0)
    worker.receive(REDUCER, Welcome("r"), 0.0)
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(DivergedError):
        for t in range(1, 31):
            worker.on_timer(0.0)
            worker.receive(REDUCER, Pull(t, ZERO), 0.0)


# Waiting for long


def test_accident_10_a_long_wait_is_reported_with_whom_it_is_for() -> None:
    """failures.md, 10: "every wait has a named bound, and says whom it waits for"."""
    worker = waiting()
    stalled = []
    while (now := worker.next_timer()) < 40.0:
        worker.on_timer(now)
        stalled += [event for event in worker.take_events() if isinstance(event, Stalled)]
    assert stalled == [
        Stalled(1, f"the reducer at {ENDPOINT}", 10.0),
        Stalled(1, f"the reducer at {ENDPOINT}", 30.0),
    ]
    assert (worker.num_overdue, worker.num_connected) == (1, 1)
    assert worker.resends > 10
    worker.on_connection(REDUCER, False, 40.0)
    worker.receive(REDUCER, Pull(1, ZERO), 41.0)
    assert (worker.num_overdue, worker.num_connected, worker.waited_s) == (0, 0, 40.0)


def test_a_wait_to_join_is_reported_too() -> None:
    worker = started()
    worker.on_timer(10.0)
    assert worker.take_events() == [Stalled(0, f"the reducer at {ENDPOINT}", 10.0)]


def test_a_connection_that_comes_back_in_time_is_only_told() -> None:
    worker = waiting()
    worker.on_connection(REDUCER, False, 5.0)
    worker.on_connection(REDUCER, False, 6.0)  # told twice: the first counts
    worker.on_timer(34.9)
    worker.on_connection(REDUCER, True, 34.9)
    worker.on_timer(100.0)
    changes = [event for event in worker.take_events() if isinstance(event, ConnectionChanged)]
    name = f"the reducer at {ENDPOINT}"
    assert changes == [ConnectionChanged(name, False), ConnectionChanged(name, True)]


def on_its_way(round_: int) -> Worker:
    """Local, before its round `round_` + 1: it has nothing to say until its goodbye."""
    worker = make_worker(local(), random_streams([9])[0], timeouts=TIMES)
    worker.start(0.0)
    worker.receive(REDUCER, Welcome("r"), 0.0)
    for _ in range(round_):
        worker.on_timer(0.0)
    sent(worker)
    return worker


@pytest.mark.parametrize(
    ("worker", "question"),
    [(on_its_way(0), Resend(1)), (on_its_way(4), Resend(4)), (waiting(), Resend(1))],
    ids=["before its first round", "never pushing", "waiting"],
)
def test_on_a_connection_that_has_come_back_it_says_something_at_once(worker: Worker, question: Message) -> None:
    """By that the reducer learns who is connected again; else it would give up a task that has nothing to push."""
    worker.on_connection(REDUCER, False, 5.0)
    assert sent(worker) == []
    worker.on_connection(REDUCER, True, 6.0)
    assert sent(worker) == [question]
    worker.on_connection(REDUCER, True, 7.0)
    assert sent(worker) == []


def test_accident_02_a_connection_that_is_lost_for_good_ends_the_run_naming_the_reducer_and_the_round() -> None:
    worker = waiting()
    worker.on_connection(REDUCER, False, 5.0)
    worker.on_timer(34.9)
    with pytest.raises(ClusterError, match=rf"lost the reducer at {ENDPOINT} in round 1: disconnected for 30 s"):
        worker.on_timer(35.0)


@pytest.mark.parametrize("state", [WorkerState.JOINING, WorkerState.FINISHING])
def test_where_a_wait_has_a_bound_of_its_own_a_lost_connection_changes_nothing(state: WorkerState) -> None:
    worker = STATES[state]()
    bound = worker.next_timer()
    worker.on_connection(REDUCER, False, 2.0)
    assert (worker.next_timer(), worker.take_events()) == (bound, [])


# Finishing


def test_after_its_last_round_it_says_goodbye_with_its_chain_and_counts() -> None:
    worker = waiting(1)
    worker.receive(REDUCER, Pull(1, ZERO), 1.5)
    worker.on_timer(2.0)
    assert worker.result is not None
    assert sent(worker) == [Goodbye(1, worker.result.chain, worker.result.totals)]
    worker.receive(REDUCER, GoodbyeAck(), 2.1)
    assert worker.finished
    assert worker.next_timer() == math.inf
    assert worker.take_events() == []
    assert list(rows(worker)["round"]) == [1]


def test_it_says_goodbye_again_until_it_is_noted() -> None:
    worker = finishing()
    worker.on_timer(2.5)
    (again,) = sent(worker)
    assert isinstance(again, Goodbye)
    worker.receive(REDUCER, GoodbyeAck(), 2.6)
    worker.receive(REDUCER, GoodbyeAck(), 2.7)
    assert worker.finished


def test_a_goodbye_that_is_never_noted_ends_with_a_warning() -> None:
    """decisions.md, Finishing: "or `linger_s` has passed (then exit 0, noted)"."""
    worker = finishing()
    worker.on_timer(6.9)
    assert not worker.finished
    worker.take_events()
    worker.on_timer(7.0)
    assert worker.finished
    (event,) = worker.take_events()
    assert isinstance(event, Warned)
    assert event.text == f"the reducer at {ENDPOINT} did not confirm the goodbye within 5 s"


# Stopping


def test_stopped_while_it_waits_it_closes_the_round_without_a_reply() -> None:
    worker = waiting()
    worker.stop()
    assert worker.finished
    assert worker.take_events() == []
    (row,) = rows(worker)
    assert (row["round"], row["reply"]) == (1, ReplyKind.NONE)
    assert worker.result is not None
    assert worker.result.totals.examples == 1
    assert worker.result.model["w"].any()


@pytest.mark.parametrize("state", [WorkerState.JOINING, WorkerState.STEPPING, WorkerState.FINISHING])
def test_stopped_between_rounds_it_has_a_result_and_no_further_row(state: WorkerState) -> None:
    worker = STATES[state]()
    before = worker.result
    worker.take_records()
    worker.stop()
    assert worker.finished
    assert (worker.take_events(), worker.take_records()) == ([], b"")
    assert worker.result is not None
    assert before is None or worker.result is before


# What does not belong


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "message", [hello(0), Goodbye(1, bytes(32), None), Push(1, None)], ids=lambda m: type(m).__name__
)  # type: ignore[arg-type]
def test_what_a_reducer_never_says_is_refused(state: WorkerState, message: Message) -> None:
    worker = STATES[state]()
    worker.take_records()
    worker.receive(REDUCER, message, 2.0)
    assert worker.take_events() == [Refused(REDUCER, f"a {type(message).__name__} is nothing a reducer says")]
    assert worker.state is state
    assert (sent(worker), worker.take_records()) == ([], b"")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (WorkerState.JOINING, Pull(1, ZERO)),
        (WorkerState.JOINING, Resend(1)),
        (WorkerState.JOINING, GoodbyeAck()),
        (WorkerState.STEPPING, Welcome("other")),
        (WorkerState.STEPPING, Pull(1, ZERO)),
        (WorkerState.STEPPING, Resend(1)),
        (WorkerState.STEPPING, GoodbyeAck()),
        (WorkerState.WAITING, Welcome("other")),
        (WorkerState.WAITING, GoodbyeAck()),
        (WorkerState.FINISHING, Welcome("other")),
        (WorkerState.FINISHING, Pull(1, ZERO)),
        (WorkerState.FINISHING, Resend(2)),
    ],
)
def test_an_answer_to_a_question_that_was_asked_twice_is_ignored(state: WorkerState, message: Message) -> None:
    worker = STATES[state]()
    run_id = worker.run_id
    worker.take_records()
    worker.receive(REDUCER, message, 2.0)
    assert worker.state is state
    assert (worker.take_events(), sent(worker), worker.take_records(), worker.run_id) == ([], [], b"", run_id)


def test_a_connection_that_was_down_before_the_welcome_was_read_still_has_its_bound() -> None:
    """Else nothing would end the wait: a retry that never succeeds reports no further disconnect."""
    worker = started()
    worker.on_connection(REDUCER, connected=False, now=0.5)
    worker.receive(REDUCER, Welcome("run-9"), 1.0)
    worker.on_timer(1.0)
    sent(worker)
    with pytest.raises(ClusterError, match="lost the reducer"):
        worker.on_timer(0.5 + TIMES.lost_s)


def test_a_connection_that_was_down_and_up_again_before_the_welcome_has_none() -> None:
    worker = started()
    worker.on_connection(REDUCER, connected=False, now=0.5)
    worker.on_connection(REDUCER, connected=True, now=0.7)
    worker.receive(REDUCER, Welcome("run-9"), 1.0)
    worker.on_timer(1.0)
    worker.on_timer(1.0 + 10 * TIMES.lost_s)
    assert not worker.finished


@pytest.mark.parametrize(("first", "caught_up"), [(4, []), (8, [CaughtUp(8, 8)])])
def test_a_periodic_worker_is_behind_only_past_its_first_sync_round(first: int, caught_up: list[CaughtUp]) -> None:
    """The reducer begins with round tau; whoever is welcomed to it has missed nothing."""
    algorithm = drom()._replace(exchange=Exchange(SyncRounds(4), (1,), (1,)))
    worker = make_worker(algorithm, random_streams([9])[0], timeouts=TIMES)
    worker.start(0.0)
    worker.receive(REDUCER, Welcome("run-9", first), 1.0)
    while worker.round < 8 or worker.state is WorkerState.WAITING:
        worker.on_timer(1.0)
        if worker.state is WorkerState.WAITING:
            worker.receive(REDUCER, Pull(worker.round, KEEP), 1.0)
    assert [event for event in worker.take_events() if isinstance(event, CaughtUp)] == caught_up
