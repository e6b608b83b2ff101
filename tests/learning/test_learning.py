"""A task and a centre as they go through the rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from helpers import frozen, random_streams, sparse_stream, spread

from drom_net.algorithms.base import (
    IDLE,
    KEEP,
    POSTPONED,
    SKIP,
    ZERO,
    Algorithm,
    CentralInfo,
    Contribution,
    ContributionKind,
    Example,
    Exchange,
    Prediction,
    Reply,
    ReplyKind,
    SyncRounds,
)
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.local import LocalParameters, local
from drom_net.core.errors import DivergedError, LearnerError
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.reference import run_reference
from drom_net.learning.task import Centre, TaskLearner


def correction(*numbers: float) -> Reply:
    return Reply(ReplyKind.VECTORS, (frozen(np.array(numbers)),))


def row_of(learner: TaskLearner) -> np.void:
    """The one row that was closed since the last look."""
    (row,) = np.frombuffer(learner.take_records(), dtype=TASK_DTYPE)
    return row


def recording(replies: list[Reply], algorithm: Algorithm | None = None) -> Algorithm:
    """DROM, which writes down what replies it is given."""
    inner = algorithm or drom()

    def receive(state: object, reply: Reply, t: int) -> object:
        replies.append(reply)
        return inner.receive(state, reply, t)

    return inner._replace(receive=receive)


@pytest.mark.parametrize(("n", "rounds"), [(1, 1), (1, 9), (2, 9), (5, 9), (8, 9), (9, 9), (7, 100), (99, 100)])
def test_spread_uses_each_example_once_in_order_and_ends_with_the_last_round(n: int, rounds: int) -> None:
    """Section 1: "task i is active when floor(t n_i / T) steps up, so all end together"."""
    stream = replace(random_streams([n])[0], spread_over=rounds)
    seen = [stream.index_at(t) for t in range(1, rounds + 1)]
    assert [index for index in seen if index is not None] == list(range(n))
    assert seen[-1] == n - 1
    assert stream.last_round() == rounds
    assert stream.index_at(rounds + 1) is None
    gaps = np.diff([t for t, index in enumerate(seen) if index is not None])
    assert len(gaps) == 0 or gaps.max() - gaps.min() <= 1


def test_lockstep_gives_round_t_the_example_t() -> None:
    """Section 1: "`lockstep` (default): round t carries sample t of each task that has one"."""
    stream = random_streams([4])[0]
    assert [stream.index_at(t) for t in range(1, 7)] == [0, 1, 2, 3, None, None]
    assert stream.last_round() == 4


def test_an_empty_stream_has_no_round() -> None:
    empty = random_streams([0])[0]
    assert (empty.last_round(), replace(empty, spread_over=5).last_round()) == (0, 0)
    result = TaskLearner(drom(), empty).result()
    assert (result.totals.examples, list(result.model["w"])) == (0, [0.0] * 7)


def test_an_idle_round_moves_nothing_and_counts_nothing() -> None:
    stream = replace(random_streams([1])[0], spread_over=2)
    learner = TaskLearner(drom(), stream)
    assert learner.begin(1) == IDLE
    learner.end(1, KEEP)
    row = row_of(learner)
    assert (row["active"], row["score"], row["label"], row["gamma"]) == (0, 0.0, 0.0, 0.0)
    assert (row["reply"], row["contribution"]) == (ReplyKind.KEEP, ContributionKind.IDLE)
    assert learner.totals.examples == 0
    contribution = learner.begin(2)
    assert (contribution.kind, contribution.last) == (ContributionKind.VECTORS, True)


def test_a_correction_that_came_before_an_idle_round_is_not_lost() -> None:
    """A reply is used in the task's next active round; the KEEP of an idle round in between says "nothing new"."""
    replies: list[Reply] = []
    stream = replace(random_streams([3])[0], spread_over=6)  # active in rounds 2, 4 and 6
    learner = TaskLearner(recording(replies), stream)
    given = correction(*[1.0] * 7)
    for t, reply in enumerate([KEEP, given, KEEP, ZERO, KEEP, KEEP], start=1):
        learner.begin(t)
        learner.end(t, reply)
    assert [reply.kind for reply in replies] == [ReplyKind.VECTORS, ReplyKind.ZERO]
    assert replies[0] is given


@pytest.mark.parametrize("rounds", [None, 3, 5, 9])
def test_only_the_last_contribution_says_so(rounds: int | None) -> None:
    learner = TaskLearner(drom(), random_streams([5])[0], rounds=rounds)
    expected = min(5, rounds or 5)
    marks = []
    for t in range(1, learner.last_round + 1):
        marks.append(learner.begin(t).last)
        learner.end(t, ZERO)
    assert marks == [False] * (expected - 1) + [True]


def test_counts_are_of_what_was_sent_and_what_came_back() -> None:
    algorithm = drom(DromParameters(loss="hinge", xi=1.0, p=0.5, eta0=1.0))
    rows = frozen(np.array([[1.0, 0.0]] * 4))
    labels = frozen(np.array([1.0, -1.0, 1.0, 1.0]))
    learner = TaskLearner(algorithm, TaskStream(rows, labels, labels))
    replies = [correction(0.0, 0.0), KEEP, ZERO, correction(0.0, 0.0)]
    for t, reply in enumerate(replies, start=1):
        learner.begin(t)
        learner.end(t, reply)
    totals = learner.totals
    assert (totals.examples, totals.errors, totals.outliers, totals.pushes, totals.corrections) == (4, 1, 1, 3, 2)


def test_a_round_that_was_stopped_has_no_reply_and_no_push() -> None:
    learner = TaskLearner(drom(), random_streams([5])[0])
    learner.begin(1)
    learner.end(1)
    assert row_of(learner)["reply"] == ReplyKind.NONE
    assert (learner.totals.examples, learner.totals.pushes) == (1, 0)


def test_the_record_is_of_the_prediction_and_the_label_that_was_seen() -> None:
    stream = TaskStream(np.array([[0.6, 0.8]]), np.array([-1.0]), np.array([1.0]))
    learner = TaskLearner(drom(), stream)
    learner.begin(1)
    learner.end(1, ZERO)
    row = row_of(learner)
    assert tuple(row) == (1, 1, 0.0, -1.0, row["gamma"], ReplyKind.ZERO, 1.0, math.log(2.0), ContributionKind.VECTORS)
    assert row["gamma"] == 0.9 * math.log(2.0) ** (0.9 - 1.0)


def test_predict_uses_the_model_as_it_is_now() -> None:
    stream = random_streams([3])[0]
    learner = TaskLearner(local(), stream)
    x = stream.features(0)
    assert learner.predict(x) == 0.0
    learner.begin(1)
    learner.end(1)
    assert learner.predict(x) == float(np.dot(learner.result().model["w"], x)) != 0.0


ABSURD = [
    drom(DromParameters(loss="squared_hinge", eta0=1e60, lam=0.0)),
    drom(DromParameters(loss="squared_hinge", eta0=1e200, lam=0.0, p=1.0, kappa=math.inf)),
    drom(DromParameters(loss="hinge", eta0=1e10, lam=1e10)),
    local(LocalParameters(loss="squared_hinge", eta0=1e30)),
    local(LocalParameters(loss="squared_hinge", eta0=1e200)),
    local(LocalParameters(loss="squared_hinge", eta0=1e308)),
]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("algorithm", ABSURD)
def test_an_absurd_step_is_told_and_nothing_else(algorithm: Algorithm, kind: str) -> None:
    """One error with its round and its remedy: no NaN in a record, no warning of NumPy's before it."""
    streams = random_streams([200, 200], flip=0.3)
    if kind == "sparse":
        streams = [sparse_stream(stream) for stream in streams]
    with pytest.raises(DivergedError, match=r"diverged in round \d+: .*algorithm.eta0.* unit-norm rows"):
        run_reference(algorithm, streams, seed=0)


def test_a_loss_out_of_the_finite_numbers_is_told_where_it_appears() -> None:
    """Its weight would be 0: every later example an outlier, and the end of the run the first to tell."""
    stream = TaskStream(np.array([[1.0]] * 9), np.array([1.0, -1.0] + [1.0] * 7), np.ones(9))
    learner = TaskLearner(drom(DromParameters(loss="squared_hinge", eta0=1e160, lam=0.0)), stream)
    learner.begin(1)
    learner.end(1, ZERO)
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(DivergedError, match="round 2"):
        learner.begin(2)


def test_a_last_step_out_of_the_finite_numbers_is_told_too() -> None:
    """No later round would find it, and the model would be written with infinities."""
    stream = TaskStream(np.array([[1.0]]), np.array([1.0]), np.array([1.0]))
    learner = TaskLearner(local(LocalParameters(loss="squared_hinge", eta0=1e308)), stream)
    with np.errstate(over="ignore"):
        learner.begin(1)
    learner.end(1)
    with pytest.raises(DivergedError, match="round 1"):
        learner.result()


def test_the_centre_counts_the_kinds_and_keeps_task_order() -> None:
    seen: list[list[int]] = []
    inner = drom()

    def central_step(state: object, contributions: Mapping[int, Contribution], members: object = None) -> object:
        seen.append(list(contributions))
        return inner.central_step(state, contributions)

    algorithm = inner._replace(central_step=central_step)  # type: ignore[arg-type]
    streams = spread(random_streams([6, 2, 4]))
    run_reference(algorithm, streams, seed=0)
    assert seen == [[0, 1, 2]] * 6


def test_the_first_v_is_of_the_seed_and_of_nothing_else() -> None:
    """decisions.md: "first start from the stream (seed, "power")"."""

    def v(seed: int) -> bytes:
        centre = Centre(drom(), tasks=range(3), dim=2, seed=seed)
        zeros = Contribution(ContributionKind.VECTORS, (np.zeros(2),))
        centre.reduce(1, dict.fromkeys(range(3), zeros))
        (row,) = np.frombuffer(centre.take_records(), dtype=central_dtype(3))
        return bytes(row["v"].tobytes())

    assert v(1) == v(1) != v(2)
    start = np.frombuffer(v(1))
    assert np.linalg.norm(start) == pytest.approx(1.0, abs=1e-15)


def test_a_learner_gives_the_algorithm_what_the_stream_has() -> None:
    given: list[Example] = []
    inner = local()

    def learn(state: object, example: Example, t: int) -> tuple[object, Prediction]:
        given.append(example)
        return inner.learn(state, example, t)

    stream = random_streams([3], flip=0.5)[0]
    run_reference(inner._replace(learn=learn), [stream], seed=0)
    for index, example in enumerate(given):
        np.testing.assert_array_equal(example.x, stream.features(index))
        assert example.y == stream.labels[index]


@pytest.mark.parametrize("v", [np.zeros(0), np.zeros(3, dtype=np.float32), np.zeros((3, 1))])
def test_a_centre_whose_v_is_not_one_number_for_each_task_is_one_clear_error(v: np.ndarray) -> None:
    """Its records could not be read again, and `verify` would refuse the run."""
    algorithm = local()._replace(central_step=lambda state, came, members=None: (state, {}, CentralInfo(0.0, v)))
    with pytest.raises(LearnerError, match=r"learner local, CentralInfo.v .* expected float64 of shape \(3,\)"):
        Centre(algorithm, tasks=range(3), dim=7, seed=0).reduce(1, {0: IDLE})


def test_a_centre_without_a_singular_pair_has_zeros_in_its_records() -> None:
    """The template is local.py: what it returns must also do for a learner that exchanges."""
    centre = Centre(local(), tasks=range(3), dim=7, seed=0)
    centre.reduce(1, {0: IDLE})
    (row,) = np.frombuffer(centre.take_records(), dtype=central_dtype(3))
    assert (row["round"], row["v"].tolist()) == (1, [0.0] * 3)


def test_vectors_are_news_to_who_has_not_heard_them_also_where_they_were_postponed() -> None:
    vectors = Contribution(ContributionKind.VECTORS, (frozen(np.ones(7)),))
    algorithm = drom()._replace(
        exchange=Exchange(SyncRounds(1), (1,), (1,), postpone_below=2),
        update=lambda state, t: (state, vectors if t == 1 else SKIP),  # the second example is an outlier
    )
    learner = TaskLearner(algorithm, random_streams([2])[0])
    said = []
    for t in (1, 2, 3):
        outgoing = learner.outgoing(learner.begin(t), t)
        said.append([outgoing.to(1, last_heard).kind for last_heard in range(t)])
        learner.end(t)
    assert said == [[POSTPONED.kind], [vectors.kind] * 2, [vectors.kind, vectors.kind, IDLE.kind]]
