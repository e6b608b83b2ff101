"""What nodes left in their folders: rows, counts, vectors, and what their data were."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Vector
from drom_net.core.errors import UsageError
from drom_net.data.dataset import Dataset
from drom_net.learning.metrics import Totals
from drom_net.learning.records import (
    TASK_DTYPE,
    central_dtype,
)
from drom_net.protocol.node import TIMES_DTYPE
from drom_net.results.summary import write_json

VECTOR = re.compile("[a-z][a-z0-9_]{0,31}")
Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """One task's part of a run, from whichever driver."""

    name: str
    finished: bool
    rounds: int
    chain: bytes
    totals: Totals
    model: dict[str, Vector]
    """w, and a where there is one."""
    rows: Rows
    bytes_sent: int = 0
    bytes_received: int = 0
    run_id: str = ""
    times: Rows | None = None
    """As protocol.node.TIMES_DTYPE, by one clock for all tasks; None where none was read."""
    lost: bool = False
    """Its node was killed and did not come back."""
    keeps_records: bool = True
    """Whether it was to have rows."""


@dataclass(frozen=True, slots=True)
class CentralOutcome:
    """A centre's part: the reducer's, or a peer's own."""

    finished: bool
    chain: bytes
    rows: Rows
    seconds: float
    run_id: str = ""
    members: tuple[int, ...] | None = None
    """A peer's neighborhood, itself included; None for the reducer."""


def read_task_outcome(folder: Path) -> TaskOutcome:
    """What a worker's process has left in its folder.

    Raises:
        UsageError: The folder does not hold a worker's result.
    """
    result = read_json(
        folder / "result.json",
        "name",
        "finished",
        "rounds",
        "chain",
        "totals",
        "vectors",
        "bytes_sent",
        "bytes_received",
        "run_id",
    )
    names = result["vectors"]
    if not all(VECTOR.fullmatch(name) for name in names):  # they become names of files
        raise UsageError(f"{folder / 'result.json'} is damaged: expected the names of vectors, got {names}")
    return TaskOutcome(
        result["name"],
        result["finished"],
        result["rounds"],
        bytes.fromhex(result["chain"]),
        _totals_of(result, folder),
        {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in names},
        _rows_of_node(folder, result, TASK_DTYPE),
        result["bytes_sent"],
        result["bytes_received"],
        result["run_id"],
        _read_rows(folder, TIMES_DTYPE, "times.bin") if (folder / "times.bin").exists() else None,
        result.get("lost", False),
        result.get("keep_records") is not False,
    )


def _totals_of(result: dict[str, Any], folder: Path) -> Totals:
    """The counts of a node.

    Raises:
        UsageError: An earlier version has written them, and not all of them.
    """
    numbers, expected = result["totals"], len(Totals().to_list())
    if len(numbers) != expected:
        raise UsageError(
            f"{folder / 'result.json'}: expected {expected} counts, got {len(numbers)}: another version of drom-net "
            "has written it; merge it with that one"
        )
    return Totals(*numbers)


def read_central_outcome(folder: Path, num_tasks: int) -> CentralOutcome:
    """What the reducer's process has left in its folder.

    Raises:
        UsageError: The folder does not hold a reducer's result.
    """
    result = read_json(folder / "result.json", "finished", "chain", "seconds", "run_id")
    rows = _rows_of_node(folder, result, central_dtype(num_tasks))
    return CentralOutcome(result["finished"], bytes.fromhex(result["chain"]), rows, result["seconds"], result["run_id"])


def data_facts(dataset: Dataset) -> dict[str, Any]:
    """What a model must know of the data it was made from, so that it can predict."""
    return {
        "features": dataset.features,
        "preprocessing": dataset.preprocessing.to_json(),
        "positive": dataset.positive,
    }


def read_peer_central_outcome(folder: Path) -> CentralOutcome:
    """What a peer's process has left of its own central steps.

    Raises:
        UsageError: The folder does not hold a peer's result.
    """
    result = read_json(folder / "result.json", "finished", "central_chain", "members", "seconds", "run_id")
    members = tuple(result["members"])
    rows = _rows_of_node(folder, result, central_dtype(len(members)), "central.bin")
    chain = bytes.fromhex(result["central_chain"])
    return CentralOutcome(
        result["finished"] or result.get("lost", False), chain, rows, result["seconds"], result["run_id"], members
    )


def write_data_facts(folder: Path, dataset: Dataset) -> None:
    """Leave them in a task's own folder, for `merge`."""
    write_json(folder / "data.json", data_facts(dataset))


def read_data_facts(folder: Path) -> dict[str, Any]:
    """What `write_data_facts` wrote.

    Raises:
        UsageError: It is missing or damaged.
    """
    return read_json(folder / "data.json", "features", "preprocessing", "positive")


_NOT_ENDED = "that node has not ended in order; start it again with the same command, and merge when it has ended"


def read_json(path: Path, *keys: str, missing: str = _NOT_ENDED) -> dict[str, Any]:
    """A JSON object that has these keys; `missing` says what it means that the file is not there."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: {missing}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict) or not set(keys) <= found.keys():
        raise UsageError(f"{path} is damaged: expected an object with {', '.join(keys)}")
    return found


def _rows_of_node(folder: Path, result: dict[str, Any], dtype: npt.DTypeLike, name: str = "records.bin") -> Rows:
    """The rows that a node has left; none where it was to keep none."""
    return np.zeros(0, dtype) if result.get("keep_records") is False else _read_rows(folder, dtype, name)


def _read_rows(folder: Path, dtype: npt.DTypeLike, name: str = "records.bin") -> Rows:
    """The whole rows of a file, mapped: those of a long run would not fit into memory.

    Raises:
        UsageError: It cannot be read.
    """
    path = folder / name
    try:
        whole = path.stat().st_size // np.dtype(dtype).itemsize
        mapped = np.memmap(path, dtype=dtype, mode="r", shape=(whole,)) if whole else np.zeros(0, dtype=dtype)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return np.asarray(mapped)
