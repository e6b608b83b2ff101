"""The plain loop, and the digest that all other drivers must give."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from helpers import random_streams, sparse_stream, spread

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.base import ReplyKind
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.local import local
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.reference import Journal, ReferenceResult, run_reference
from drom_net.learning.task import TaskLearner

COUPLED = DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.5)


def rows_of(result: ReferenceResult, task: int) -> np.ndarray:
    return np.frombuffer(result.task_records[task], dtype=TASK_DTYPE)


def digest_from_its_definition(result: ReferenceResult) -> str:
    """decisions.md, "Same bits: the digest", from the records and the model alone."""
    chains = []
    for task, one in enumerate(result.tasks):
        h = bytes(32)
        for row in rows_of(result, task):
            fields = [row[name].item() for name in ("round", "active", "score", "label", "gamma", "reply")]
            h = hashlib.sha256(h + struct.pack("<qqdddq", *fields)).digest()
        model = b"".join(struct.pack(f"<{len(vector)}d", *vector) for vector in one.model.values())
        chains.append(hashlib.sha256(h + model).digest())
    h = bytes(32)
    for row in np.frombuffer(result.central_records, dtype=central_dtype(len(result.tasks))):
        v = row["v"].tolist()
        h = hashlib.sha256(h + struct.pack(f"<qd{len(v)}d", row["round"].item(), row["sigma_1"].item(), *v)).digest()
    return hashlib.sha256(b"".join(chains) + h).hexdigest()


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("alignment", [list, spread])
def test_the_digest_is_that_of_its_definition(name: str, alignment: type) -> None:
    """decisions.md: "Each task keeps a chain h_t = SHA256(h_{t-1} | t, active, score, label, gamma, reply kind) .."."""
    algorithm = drom(COUPLED) if name == "drom" else BUILTIN[name].make()
    result = run_reference(algorithm, alignment(random_streams([12, 7, 12], flip=0.2)), seed=3)
    assert result.digest == digest_from_its_definition(result)


def test_the_digest_is_of_data_algorithm_and_seed() -> None:
    streams = random_streams([12] * 3)
    digests = [
        run_reference(drom(COUPLED), streams, seed=3).digest,
        run_reference(drom(COUPLED), streams, seed=4).digest,
        run_reference(drom(replace(COUPLED, rho=0.31)), streams, seed=3).digest,
        run_reference(drom(COUPLED), random_streams([12] * 3, seed=1), seed=3).digest,
        run_reference(drom(COUPLED), streams[::-1], seed=3).digest,
        run_reference(drom(COUPLED), streams, seed=3, rounds=11).digest,
    ]
    assert len(set(digests)) == len(digests)
    assert run_reference(drom(COUPLED), streams, seed=3).digest == digests[0]


def test_clean_labels_are_scored_and_leave_the_digest() -> None:
    streams = random_streams([30, 30], flip=0.3)
    blind = [replace(stream, clean=stream.labels) for stream in streams]
    one, other = (run_reference(drom(COUPLED), given, seed=0) for given in (streams, blind))
    assert one.digest == other.digest
    assert [task.totals.errors for task in one.tasks] != [task.totals.errors for task in other.tasks]


def test_sparse_streams_are_counted_as_dense_ones() -> None:
    streams = random_streams([20, 20], density=0.5)
    dense = run_reference(drom(COUPLED), streams, seed=0)
    sparse = run_reference(drom(COUPLED), [sparse_stream(stream) for stream in streams], seed=0)
    assert [task.totals for task in dense.tasks] == [task.totals for task in sparse.tasks]


@pytest.mark.parametrize("lengths", [[5, 3, 4], [1, 9, 1], [4, 0, 2], [0, 0, 3]])
def test_streams_of_unequal_length_end_by_themselves(lengths: list[int]) -> None:
    """Section 1: a finished worker does nothing; its last column stays in A."""
    result = run_reference(drom(COUPLED), random_streams(lengths), seed=0)
    assert result.rounds == max(lengths)
    assert [len(rows_of(result, task)) for task in range(3)] == lengths
    assert [task.totals.examples for task in result.tasks] == lengths
    assert all((rows_of(result, task)["reply"] != ReplyKind.NONE).all() for task in range(3))
    central = np.frombuffer(result.central_records, dtype=central_dtype(3))
    counted = central["pushed"] + central["skipped"] + central["idle"]
    assert list(counted) == [sum(length >= t for length in lengths) for t in range(1, max(lengths) + 1)]


@pytest.mark.parametrize("ended", ["keep", "drop"])
def test_the_row_of_an_ended_task_stays_or_goes(ended: str) -> None:
    q = replace(COUPLED, ended=ended, solver="gram", xi=float("inf"))
    result = run_reference(drom(q), random_streams([30, 20]), seed=0)
    central = np.frombuffer(result.central_records, dtype=central_dtype(2))
    after = np.abs(central["v"][20:, 1])
    assert (after > 0.0).all() if ended == "keep" else (after == 0.0).all()


def test_in_spread_all_tasks_end_together() -> None:
    result = run_reference(drom(COUPLED), spread(random_streams([10, 4, 7])), seed=0)
    assert [len(rows_of(result, task)) for task in range(3)] == [10, 10, 10]
    assert [int(rows_of(result, task)["active"].sum()) for task in range(3)] == [10, 4, 7]
    assert all(rows_of(result, task)["active"][-1] == 1 for task in range(3))
    assert [task.totals.examples for task in result.tasks] == [10, 4, 7]


@pytest.mark.parametrize(("rounds", "expected"), [(1, [1, 1]), (3, [3, 3]), (5, [5, 4]), (9, [8, 4])])
def test_rounds_cuts_the_run(rounds: int, expected: list[int]) -> None:
    streams = random_streams([8, 4])
    result = run_reference(drom(COUPLED), streams, seed=0, rounds=rounds)
    assert [task.totals.examples for task in result.tasks] == expected
    assert result.rounds == max(expected)
    full = run_reference(drom(COUPLED), streams, seed=0)
    for cut, whole in zip(result.task_records, full.task_records, strict=True):
        assert whole.startswith(cut)


def test_after_a_round_the_caller_sees_the_counts_and_may_stop() -> None:
    seen = []

    def after_round(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
        seen.append((t, sum(learner.totals.examples for learner in learners), sigma))
        return t < 3

    result = run_reference(drom(COUPLED), random_streams([8, 2]), seed=0, after_round=after_round)
    assert [(t, examples) for t, examples, _ in seen] == [(1, 2), (2, 4), (3, 5)]
    sigmas = np.frombuffer(result.central_records, dtype=central_dtype(2))["sigma_1"]
    assert [sigma for _, _, sigma in seen] == [sigma or None for sigma in sigmas]  # a zero matrix has no pair
    assert any(sigmas)
    assert result.rounds == 3
    assert result.digest == digest_from_its_definition(result)


def test_without_sync_rounds_there_is_no_sigma_and_no_central_record() -> None:
    seen: list[float | None] = []
    result = run_reference(
        local(), random_streams([3, 3]), seed=0, after_round=lambda t, learners, sigma: seen.append(sigma) or True
    )
    assert seen == [None] * 3
    assert (result.central_records, result.central_chain) == (b"", bytes(32))
    assert all((rows_of(result, task)["reply"] == ReplyKind.NONE).all() for task in range(2))


def test_label_noise_is_learned_and_both_countings_are_kept() -> None:
    """Section 7: "Learners see flipped labels. Scoring: clean and seen labels both"."""
    streams = random_streams([50, 50], flip=0.3)
    result = run_reference(local(), streams, seed=0)
    for task, stream in enumerate(streams):
        predicted = np.where(rows_of(result, task)["score"] >= 0.0, 1.0, -1.0)
        totals = result.tasks[task].totals
        assert totals.errors == np.sum(predicted != stream.clean)
        assert totals.seen_errors == np.sum(predicted != stream.labels)
        assert totals.true_positives == np.sum((predicted > 0.0) & (stream.clean > 0.0))
        assert totals.false_positives == np.sum((predicted > 0.0) & (stream.clean < 0.0))
        assert totals.false_negatives == np.sum((predicted < 0.0) & (stream.clean > 0.0))
        np.testing.assert_array_equal(rows_of(result, task)["label"], stream.labels)
        np.testing.assert_array_equal(rows_of(result, task)["clean_label"], stream.clean)


def test_a_task_that_has_recorded_nothing_ends_with_nothing() -> None:
    """By a journal, of a run that was stopped."""
    result = run_reference(local(), random_streams([4, 4]), seed=0, journal=Journal(rounds=(0, 3)))
    assert [task.totals.examples for task in result.tasks] == [0, 3]
    assert not result.tasks[0].model["w"].any()
