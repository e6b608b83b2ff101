"""Rows, chains and the digest: what changes it and what does not."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import cast

import numpy as np
import pytest
from helpers import random_streams

from drom_net.algorithms.base import CentralInfo, ContributionKind, ReplyKind, sigmoid
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.learning.metrics import Totals
from drom_net.learning.records import (
    _BATCH,
    CHAIN_START,
    TASK_DTYPE,
    CentralLog,
    TaskLog,
    TaskRow,
    central_chain_of,
    central_dtype,
    close_task_chain,
    extend_central_chain,
    extend_task_chain,
    run_digest,
    task_chain_of,
)
from drom_net.learning.reference import ReferenceResult, run_reference
from drom_net.learning.task import Centre, TaskLearner


@pytest.fixture(scope="module")
def result() -> ReferenceResult:
    q = DromParameters(eta0=3.0, lam=0.2, rho=0.3)
    return run_reference(drom(q), random_streams([9, 6], flip=0.2), seed=1)


def parts(result: ReferenceResult) -> tuple[list[np.ndarray], list[dict[str, np.ndarray]], np.ndarray]:
    """Writable copies of the task rows, the models and the central rows."""
    rows = [np.frombuffer(records, dtype=TASK_DTYPE).copy() for records in result.task_records]
    models = [{name: vector.copy() for name, vector in task.model.items()} for task in result.tasks]
    central = np.frombuffer(result.central_records, dtype=central_dtype(len(rows))).copy()
    return rows, models, central


def digest(rows: list[np.ndarray], models: list[dict[str, np.ndarray]], central: np.ndarray) -> str:
    chains = [task_chain_of(one, model.values()) for one, model in zip(rows, models, strict=True)]
    return run_digest(chains, central_chain_of(central))


def task_row(*fields: float) -> bytes:
    """A task's row, by way of a log."""
    log = TaskLog()
    log.add(cast(TaskRow, fields))
    return log.take()


def flip_last_bit(array: np.ndarray, index: int) -> None:
    array.view(np.uint64)[index] ^= np.uint64(1)


def test_the_digest_is_recomputed_from_records_and_model(result: ReferenceResult) -> None:
    """decisions.md: "`drom-net verify RUN_DIR` recomputes the digest from records and model"."""
    assert digest(*parts(result)) == result.digest
    assert len(result.digest) == 64


@pytest.mark.parametrize("field", ["round", "active", "score", "label", "gamma", "reply"])
@pytest.mark.parametrize("row", [0, 3, -1])
def test_one_bit_of_a_chained_field_changes_the_digest(result: ReferenceResult, field: str, row: int) -> None:
    rows, models, central = parts(result)
    column = rows[1][field].copy()
    flip_last_bit(column, row)
    rows[1][field] = column
    assert digest(rows, models, central) != result.digest


@pytest.mark.parametrize("field", ["clean_label", "loss", "contribution"])
def test_what_is_for_people_leaves_the_digest(result: ReferenceResult, field: str) -> None:
    rows, models, central = parts(result)
    rows[0][field] = 7
    assert digest(rows, models, central) == result.digest


@pytest.mark.parametrize("name", ["w", "a"])
@pytest.mark.parametrize("index", [0, 6])
@pytest.mark.parametrize("task", [0, 1])
def test_one_bit_of_the_model_changes_the_digest(result: ReferenceResult, name: str, index: int, task: int) -> None:
    rows, models, central = parts(result)
    flip_last_bit(models[task][name], index)
    assert digest(rows, models, central) != result.digest


def test_a_negative_zero_is_another_bit(result: ReferenceResult) -> None:
    rows, models, central = parts(result)
    assert rows[0]["score"][0] == 0.0
    rows[0]["score"][0] = -0.0
    assert digest(rows, models, central) != result.digest


@pytest.mark.parametrize("field", ["round", "sigma_1", "v"])
def test_one_bit_of_the_centre_changes_the_digest(result: ReferenceResult, field: str) -> None:
    rows, models, central = parts(result)
    column = central[field].copy()
    flip_last_bit(column.reshape(-1), 4)
    central[field] = column
    assert digest(rows, models, central) != result.digest


@pytest.mark.parametrize("field", ["residual", "pushed", "skipped", "idle", "postponed", "corrected"])
def test_the_other_fields_of_the_centre_leave_the_digest(result: ReferenceResult, field: str) -> None:
    rows, models, central = parts(result)
    central[field] = 77
    assert digest(rows, models, central) == result.digest


def test_missing_doubled_and_swapped_rows_change_the_digest(result: ReferenceResult) -> None:
    rows, models, central = parts(result)
    for other in (rows[0][:-1], rows[0][[0, 0, *range(1, 9)]], rows[0][[1, 0, *range(2, 9)]]):
        assert digest([other, rows[1]], models, central) != result.digest
    assert digest(rows, models, central[:-1]) != result.digest
    assert digest(rows[::-1], models[::-1], central) != result.digest


def test_a_row_is_read_back_as_it_was_written() -> None:
    (row,) = np.frombuffer(task_row(3, True, -0.25, -1.0, 0.9, 3, 1.0, 0.7, 1), dtype=TASK_DTYPE)
    assert tuple(row) == (3, 1, -0.25, -1.0, 0.9, 3, 1.0, 0.7, 1)
    v = np.array([0.6, 0.8, 0.0])
    log = CentralLog()
    came = [ContributionKind.VECTORS, ContributionKind.SKIP, ContributionKind.VECTORS]
    log.add(7, CentralInfo(1.5, v, 1e-3), came, [ReplyKind.VECTORS, ReplyKind.KEEP, ReplyKind.VECTORS])
    came = [ContributionKind.IDLE, ContributionKind.POSTPONED, ContributionKind.SKIP]
    log.add(8, CentralInfo(0.5, v, 0.0), came, [ReplyKind.KEEP, ReplyKind.KEEP, ReplyKind.ZERO], absent=[2, 0])
    first, second = np.frombuffer(log.take(), dtype=central_dtype(3))
    assert tuple(first)[:-2] == (7, 1.5, 1e-3, 2, 1, 0, 0, 2)
    assert tuple(second)[:-2] == (8, 0.5, 0.0, 0, 1, 1, 1, 0)
    assert first["absent"].tolist() == [0, 0, 0]
    assert second["absent"].tolist() == [1, 0, 1]
    assert first["v"].tobytes() == second["v"].tobytes() == v.tobytes()


def test_a_chain_starts_from_zeros_and_depends_on_all_before() -> None:
    assert bytes(32) == CHAIN_START
    one, two = (task_row(t, True, 0.5, 1.0, 1.0, 2, 1.0, 0.5, 1) for t in (1, 2))
    forward = extend_task_chain(extend_task_chain(CHAIN_START, one), two)
    backward = extend_task_chain(extend_task_chain(CHAIN_START, two), one)
    assert len(forward) == 32
    assert forward != backward
    v = np.array([1.0])
    assert extend_central_chain(CHAIN_START, 1, 2.0, v) != extend_central_chain(CHAIN_START, 1, -2.0, v)


# Batches

ROUNDS = 700


def task_rows(seed: int) -> list[TaskRow]:
    """Rounds of all kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice([kind.value for kind in ContributionKind], ROUNDS).tolist()
    replies = rng.choice([kind.value for kind in ReplyKind], ROUNDS).tolist()
    numbers = rng.standard_normal((ROUNDS, 3)).tolist()
    labels = rng.choice([-1.0, 1.0], (ROUNDS, 2)).tolist()
    return [
        (t, kind != ContributionKind.IDLE, score, label, max(gamma, 0.0), reply, clean, loss, kind)
        for t, (kind, reply, (score, gamma, loss), (label, clean)) in enumerate(
            zip(kinds, replies, numbers, labels, strict=True), start=1
        )
    ]


def looks(name: str) -> list[bool]:
    """After which rounds somebody looks at a log."""
    rng = np.random.default_rng(5)
    every = {"always": 1.0, "often": 0.2, "seldom": 0.004, "at the end": 0.0}[name]
    return (rng.random(ROUNDS) < every).tolist()


LOOKS = pytest.mark.parametrize("name", ["always", "often", "seldom", "at the end"])


@LOOKS
def test_a_tasks_log_does_not_depend_on_when_it_is_looked_at(name: str) -> None:
    log, taken = TaskLog(), b""
    chain, plain, counts = CHAIN_START, b"", Totals()
    for row, look in zip(task_rows(1), looks(name), strict=True):
        log.add(row)
        # What it must be, from the definitions, a round at a time.
        packed = struct.pack("<qqdddqddq", *row)
        plain += packed
        chain = hashlib.sha256(chain + packed[:48]).digest()
        _, active, score, label, gamma, reply, clean, _, contribution = row
        if active:
            counts.count(score, clean, label, gamma, sigmoid(clean * score))
        counts.pushes += contribution == ContributionKind.VECTORS and reply != ReplyKind.NONE
        counts.corrections += reply == ReplyKind.VECTORS
        if look:
            assert (log.chain, log.totals) == (chain, counts)
            taken += log.take()
            assert taken == plain
            assert log.take() == b""
    assert taken + log.take() == plain
    assert (log.chain, log.totals) == (chain, counts)
    assert counts.pushes > 0 < counts.corrections


@LOOKS
def test_the_centres_log_does_not_depend_on_when_it_is_looked_at(name: str) -> None:
    rng = np.random.default_rng(2)
    log, taken = CentralLog(), b""
    chain, plain = CHAIN_START, b""
    for t, look in enumerate(looks(name), start=1):
        came = [ContributionKind(kind) for kind in rng.integers(1, 5, 5).tolist()]
        went = [ReplyKind(kind) for kind in rng.integers(1, 4, 5).tolist()]
        info = CentralInfo(sigma=rng.random(), v=rng.standard_normal(5), residual=rng.random())
        absent = np.flatnonzero(rng.random(5) < 0.3).tolist()
        log.add(t, info, came, went, absent)
        counts = [came.count(kind) for kind in (1, 2, 3, 4)]  # vectors, skip, idle, postponed
        plain += struct.pack("<qddqqqqq", t, info.sigma, info.residual, *counts, went.count(ReplyKind.VECTORS))
        plain += info.v.tobytes() + bytes(int(task in absent) for task in range(5))
        chain = hashlib.sha256(chain + struct.pack("<qd5d", t, info.sigma, *info.v)).digest()
        if look:
            assert log.chain == chain
            taken += log.take()
            assert taken == plain
            assert log.take() == b""
    assert taken + log.take() == plain
    assert log.chain == chain


def test_rounds_that_are_not_settled_are_few() -> None:
    """A run of any length keeps the rounds of one batch as objects, whether or not somebody looks."""
    tasks, centre = TaskLog(), CentralLog()
    most = 0
    for row in task_rows(3):
        tasks.add(row)
        centre.add(row[0], CentralInfo(1.0, np.zeros(2), 0.0), [ContributionKind.SKIP] * 2, [ReplyKind.KEEP] * 2)
        assert len(tasks._open) < _BATCH > len(centre._open)
        most = max(most, len(tasks._open), len(centre._open))
    assert most == _BATCH - 1 < ROUNDS / 2
    assert len(tasks.take()) == ROUNDS * TASK_DTYPE.itemsize


@pytest.mark.slow
@LOOKS
def test_a_run_does_not_depend_on_when_it_is_looked_at(name: str) -> None:
    """Also what an algorithm gives to the logs stays as it was until it is settled."""
    algorithm = drom(DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, p=0.9))
    streams = random_streams([ROUNDS, 650], flip=0.2)
    expected = run_reference(algorithm, streams, seed=1)  # nobody looks until it has ended
    learners = [TaskLearner(algorithm, stream) for stream in streams]
    centre = Centre(algorithm, tasks=range(2), dim=7, seed=1)
    rows, central = [b"", b""], b""
    for t, look in enumerate(looks(name), start=1):
        live = [learner for learner in learners if t <= learner.last_round]
        replies = centre.reduce(t, {task: learner.begin(t) for task, learner in enumerate(live)})
        for task, learner in enumerate(live):
            learner.end(t, replies[task])
        if look:
            rows = [before + learner.take_records() for before, learner in zip(rows, learners, strict=True)]
            central += centre.take_records()
            assert task_chain_of(np.frombuffer(rows[0], dtype=TASK_DTYPE), []) == close_task_chain(
                learners[0]._log.chain, []
            )
            assert centre.chain == central_chain_of(np.frombuffer(central, dtype=central_dtype(2)))
            assert learners[0].totals.examples == t
    rows = [before + learner.take_records() for before, learner in zip(rows, learners, strict=True)]
    assert tuple(rows) == expected.task_records
    assert central + centre.take_records() == expected.central_records
    assert centre.chain == expected.central_chain
    for learner, task in zip(learners, expected.tasks, strict=True):
        result = learner.result()
        assert (result.chain, result.totals) == (task.chain, task.totals)


def test_a_row_without_a_label_is_predicted_and_not_learned() -> None:
    """ "NA-like or empty: the row is predicted and not learned, and counted"."""
    [known] = random_streams([12])
    labels = known.labels.copy()
    labels[[0, 5, 11]] = 0.0
    stream = dataclasses.replace(known, labels=labels, clean=labels)
    learner, other = (TaskLearner(drom(DromParameters()), each) for each in (stream, known))
    for t in range(1, 13):
        if t in (1, 6, 12):
            assert learner.begin(t).kind is ContributionKind.IDLE
            learner.end(t)
            continue
        learner.begin(t)
        learner.end(t)
    totals = learner.totals
    assert (totals.examples, totals.unlabelled) == (9, 3)
    result = learner.result()
    rows = np.frombuffer(learner.take_records(), TASK_DTYPE)
    assert rows["active"].tolist() == [2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2]
    for name in ("label", "gamma", "clean_label", "loss"):
        assert rows[name][[0, 5, 11]].tolist() == [0.0] * 3
    assert rows["score"][5] != 0.0, "it was predicted"
    assert task_chain_of(rows, result.model.values()) == result.chain
    for t in range(1, 13):
        other.begin(t)
        other.end(t)
    assert other.result().chain != result.chain
