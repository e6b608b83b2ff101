"""Rows, chains and the digest: what changes it and what does not."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_streams

from drom_net.algorithms.drom import DromParameters, drom
from drom_net.records import (
    CHAIN_START,
    TASK_DTYPE,
    central_chain_of,
    central_dtype,
    central_row,
    extend_central_chain,
    extend_task_chain,
    run_digest,
    task_chain_of,
    task_row,
)
from drom_net.reference import ReferenceResult, run_reference


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


@pytest.mark.parametrize("field", ["residual", "pushed", "skipped", "idle", "corrected"])
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
    row = np.frombuffer(task_row(3, True, -0.25, -1.0, 0.9, 3, 1.0, 0.7, 1), dtype=TASK_DTYPE)[0]
    assert tuple(row) == (3, 1, -0.25, -1.0, 0.9, 3, 1.0, 0.7, 1)
    v = np.array([0.6, 0.8, 0.0])
    row = np.frombuffer(central_row(7, 1.5, 1e-3, 2, 1, 0, 2, v), dtype=central_dtype(3))[0]
    assert tuple(row)[:-1] == (7, 1.5, 1e-3, 2, 1, 0, 2)
    assert row["v"].tobytes() == v.tobytes()


def test_a_chain_starts_from_zeros_and_depends_on_all_before() -> None:
    assert bytes(32) == CHAIN_START
    one, two = (task_row(t, True, 0.5, 1.0, 1.0, 2, 1.0, 0.5, 1) for t in (1, 2))
    forward = extend_task_chain(extend_task_chain(CHAIN_START, one), two)
    backward = extend_task_chain(extend_task_chain(CHAIN_START, two), one)
    assert len(forward) == 32
    assert forward != backward
    v = np.array([1.0])
    assert extend_central_chain(CHAIN_START, 1, 2.0, v) != extend_central_chain(CHAIN_START, 1, -2.0, v)
