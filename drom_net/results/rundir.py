"""A run directory: what a run leaves behind, in formats that other tools read.

::

    config.yaml        the configuration as run, every value given
    environment.json   versions, BLAS kernel, machine
    simulation.json    what a simulation ran on: latency, loss, faults, the seed of what was drawn
    summary.json       the figures and the digest
    model.npz          W (a row a task), A where the algorithm has one, tasks, features, preprocessing
    records.csv        one row per task and round (or records.parquet)
    rounds.csv         one row per central step (or rounds.parquet)
    timeline.csv       one row per task and sync round: when its word was said and until when it waited, in seconds
                       since the first task began, of a simulation by its clock; one more where a node went on after
                       a crash (or timeline.parquet); the plain loop has no clock and writes none
    logs/              what the processes said
    nodes/             while it runs, and for nodes started by hand: each node's own folder, called by the safe form of
                       its task's name (drom_net.core.names)
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
import platform
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net import __version__
from drom_net.algorithms import ALGORITHMS
from drom_net.algorithms.base import ContributionKind, ReplyKind, sigmoid
from drom_net.algorithms.features import Vector
from drom_net.core.errors import UsageError, naming
from drom_net.core.names import safe_names
from drom_net.data.columns import NUMBER, Column, Schema
from drom_net.data.dataset import Dataset
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.learning.metrics import Totals, auc, total
from drom_net.learning.records import (
    TASK_DTYPE,
    central_chain_of,
    central_dtype,
    peers_chain,
    run_digest,
    task_chain_of,
)
from drom_net.protocol.node import TIMES_DTYPE
from drom_net.results.sharing import sharing_sections
from drom_net.results.summary import TaskFigures, summarize, write_json
from drom_net.results.timeline import Disturbance, begun_anew

NODES, LOGS, SIMULATION = "nodes", "logs", "simulation.json"
Rows = npt.NDArray[np.void]
_TIMELINE = TIMES_DTYPE.names or ()
_AT_ONCE = 10_000
"""Rows that are tuples at a time."""

_VECTOR = re.compile("[a-z][a-z0-9_]{0,31}")
_CHECKED = ("examples", "errors", "seen_errors", "outliers", "error_rate", "f1")
_CHECKED_LATER = ("majority_errors", "majority_error_rate", "log_loss", "auc")
"""Figures of a summary that `verify` makes again from the records; the latter are not in those of earlier versions."""
_ABOUT_MODEL = ("algorithm", "tasks", "features", "preprocessing", "positive")
"""What is in model.npz beside the vectors."""


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


def create_run_directory(path: Path) -> None:
    """Make a new, empty run directory.

    Raises:
        UsageError: There is something already, or it cannot be made.
    """
    try:
        if path.is_dir() and not any(path.iterdir()):
            return
        path.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"{path} exists already and is not overwritten; choose another --out, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot make the run directory {path}: {error.strerror}") from None


def require_format(file_format: str) -> None:
    """Refuse a format of tables that cannot be written, before anything is computed for it.

    Raises:
        UsageError: A package is missing.
    """
    if file_format == "parquet":
        _pyarrow()


def free_run_directory(name: str) -> Path:
    """runs/NAME, or runs/NAME-2, -3, .. : the first that does not exist."""
    path = Path("runs") / name
    number = 2
    while path.exists():
        path = Path("runs") / f"{name}-{number}"
        number += 1
    return path


def node_folder(run_dir: Path, node: str) -> Path:
    """The folder of the reducer, or of a task by the safe form of its name."""
    return run_dir / NODES / node


def read_task_outcome(folder: Path) -> TaskOutcome:
    """What a worker's process has left in its folder.

    Raises:
        UsageError: The folder does not hold a worker's result.
    """
    result = _read_json(
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
    if not all(_VECTOR.fullmatch(name) for name in names):  # they become names of files
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
    result = _read_json(folder / "result.json", "finished", "chain", "seconds", "run_id")
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
    result = _read_json(folder / "result.json", "finished", "central_chain", "members", "seconds", "run_id")
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
    return _read_json(folder / "data.json", "features", "preprocessing", "positive")


def write_model(
    path: Path,
    tasks: Sequence[TaskOutcome],
    *,
    algorithm: str,
    features: Sequence[str] | None,
    preprocessing: dict[str, Any],
    positive: str,
) -> None:
    """Write model.npz: the vectors of the model, one a row of a task, W of shape (m, d) first; the names of tasks and
    features (empty where unknown); the preprocessing as JSON."""
    arrays: dict[str, npt.NDArray[Any]] = {
        name.upper(): np.stack([task.model[name] for task in tasks]) for name in tasks[0].model
    }
    arrays["algorithm"] = np.array(algorithm)
    arrays["tasks"] = np.array([task.name for task in tasks], dtype=str)
    arrays["features"] = np.array(list(features or ()), dtype=str)
    arrays["preprocessing"] = np.array(json.dumps(preprocessing))
    arrays["positive"] = np.array(positive)
    temporary = path.with_name(path.name + ".part")
    with naming(path), temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes them for allow_pickle
    temporary.replace(path)


def write_results(
    run_dir: Path,
    tasks: Sequence[TaskOutcome],
    centrals: Sequence[CentralOutcome],
    *,
    data_facts: dict[str, Any],
    about: dict[str, Any],
    driver: str,
    file_format: str,
) -> dict[str, Any]:
    """Write model, records, timeline and summary of a run that has ended, in order or by an interruption.

    Args:
        centrals: The reducer's, or each peer's in task order.
        data_facts: As `data_facts` gives them.
        about: What the summary says of the run beside its figures.
        file_format: "csv" or "parquet".

    Returns:
        The summary.
    """
    for name in ("records", "rounds", "timeline"):  # of a run that is resumed
        for other in {"csv", "parquet"} - {file_format}:
            (run_dir / f"{name}.{other}").unlink(missing_ok=True)
    write_model(run_dir / "model.npz", tasks, algorithm=about["algorithm"], **data_facts)
    write_records(run_dir, tasks, centrals, file_format=file_format)
    write_timeline(run_dir, tasks, file_format=file_format, start_s=0.0 if driver == "simulation" else None)
    summary = summary_of(tasks, centrals, about=about | {"positive": data_facts["positive"]}, driver=driver)
    write_json(run_dir / "summary.json", summary)
    return summary


def summary_of(
    tasks: Sequence[TaskOutcome], centrals: Sequence[CentralOutcome], *, about: dict[str, Any], driver: str
) -> dict[str, Any]:
    """The summary of a run that has ended; arguments as for `write_results`."""
    central_chain = _central_chain([central.chain for central in centrals], peers=centrals[0].members is not None)
    finished = all(task.finished or task.lost for task in tasks) and all(central.finished for central in centrals)
    if not all(task.keeps_records for task in tasks):
        about = about | {"keep_records": False}
    auc_overall, auc_of_tasks = _aucs([task.rows for task in tasks], [task.totals.examples for task in tasks])
    return summarize(
        [_figures(task, its_auc) for task, its_auc in zip(tasks, auc_of_tasks, strict=True)],
        about=about,
        driver=driver,
        rounds=max(task.rounds for task in tasks),
        seconds=max(central.seconds for central in centrals),
        digest=run_digest([task.chain for task in tasks], central_chain),
        status="finished" if finished else "interrupted",
        auc=auc_overall,
    )


def _aucs(rows: Sequence[Rows], examples: Sequence[int]) -> tuple[float | None, list[float | None]]:
    """The AUC over all predictions, and that of each task; None where some of them have no row.

    Args:
        examples: How many each task has predicted.
    """
    scored = [
        (its["score"][active], its["clean_label"][active]) for its in rows for active in [np.flatnonzero(its["active"])]
    ]
    whole = [len(scores) == count for (scores, _), count in zip(scored, examples, strict=True)]
    of_tasks = [auc(*its) if is_whole else None for its, is_whole in zip(scored, whole, strict=True)]
    if not all(whole):
        return None, of_tasks
    scores, labels = (np.concatenate(parts) for parts in zip(*scored, strict=True))
    return auc(scores, labels), of_tasks


def write_records(
    run_dir: Path, tasks: Sequence[TaskOutcome], centrals: Sequence[CentralOutcome], *, file_format: str = "csv"
) -> None:
    """Write records.* and rounds.* as CSV or Parquet. Floats are written so that they are read back bit for bit."""
    names = [task.name for task in tasks]
    per_task = _Table(  # rows are made as they are written: of a long run they would not fit into memory at once
        ["task", "name", "round", "active", "score", "label", "gamma", "reply", "clean_label", "loss", "contribution"],
        ([index, task.name, *_in_words(row)] for index, task in enumerate(tasks) for row in _tuples(task.rows)),
    )
    columns = [
        "round",
        "sigma_1",
        "residual",
        "pushed",
        "skipped",
        "idle",
        "postponed",
        "corrected",
        "absent",
        *(f"v_{name}" for name in names),
    ]
    if centrals[0].members is None:
        everybody = range(len(names))
        per_round = _Table(
            columns,
            ([*row.item()[:-2], _absent(names, everybody, row), *row["v"].tolist()] for row in centrals[0].rows),
        )
    else:
        per_round = _Table(["task", "name", *columns], _peers_rounds(names, centrals))
    per_task.write(run_dir / f"records.{file_format}")
    per_round.write(run_dir / f"rounds.{file_format}")


def write_timeline(
    run_dir: Path, tasks: Sequence[TaskOutcome], *, file_format: str = "csv", start_s: float | None = None
) -> None:
    """Write timeline.* as CSV or Parquet; nothing where a task has no times.

    Args:
        start_s: The time from which seconds are counted; None for that of the earliest row.
    """
    times = [task.times for task in tasks if task.times is not None]
    if len(times) < len(tasks):
        return
    if start_s is None:
        start_s = min((float(rows["said_s"].min()) for rows in times if len(rows)), default=0.0)
    table = _Table(
        ["task", "name", *_TIMELINE],
        (
            [index, task.name, t, *(round(second - start_s, 6) for second in seconds)]
            for index, (task, rows) in enumerate(zip(tasks, times, strict=True))
            for t, *seconds in _tuples(rows)
        ),
    )
    table.write(run_dir / f"timeline.{file_format}")


def read_timeline(run_dir: Path, summary: dict[str, Any]) -> list[Rows]:
    """Each task's rows as protocol.node.TIMES_DTYPE, in seconds by the clock of `write_timeline`.

    Args:
        summary: That of the run.

    Raises:
        UsageError: There is no timeline, or it is damaged.
    """
    if not any((run_dir / f"timeline.{suffix}").exists() for suffix in ("csv", "parquet")):
        if summary.get("driver") == "reference":
            raise UsageError(f"{run_dir} has no timeline: the plain loop (--driver reference) has no clock")
        raise UsageError(
            f"{run_dir} has no timeline: timeline.csv is missing, which a run by driver {summary.get('driver')} writes"
        )
    tasks = summary["tasks"]
    per_task: list[list[tuple[int, float, float, float]]] = [[] for _ in tasks]
    try:
        columns, table = _read_table(run_dir, "timeline")
        if columns != ["task", "name", *_TIMELINE]:
            raise ValueError(
                f"expected the columns task, name, {', '.join(_TIMELINE)}, got {', '.join(columns)[:80]!r}"
            )
        for number, (task, name, *times) in enumerate(table, start=2):
            _add_times(per_task, [task["name"] for task in tasks], number, task, name, times)
        for task, rows in zip(tasks, per_task, strict=True):
            last = rows[-1][0] if rows else 0
            if summary["status"] == "finished" and (not rows or last != task["rounds"]):
                raise ValueError(
                    f"expected rows of {task['name']} up to round {task['rounds']}, got up to round {last}"
                )
        return [np.array(rows, dtype=TIMES_DTYPE) for rows in per_task]
    except (ValueError, TypeError, csv.Error) as error:
        raise UsageError(f"the timeline in {run_dir} is damaged: {error}") from None


def _add_times(
    per_task: list[list[tuple[int, float, float, float]]],
    names: Sequence[str],
    number: int,
    task: Any,
    name: Any,
    times: Sequence[Any],
) -> None:
    """A row of a timeline to those of its task.

    Raises:
        ValueError: It cannot be one.
    """
    try:
        index, t, (said_s, idle_s, closed_s) = int(task), int(times[0]), map(float, times[1:])
    except (ValueError, TypeError):
        raise ValueError(f"row {number}: expected numbers, got {task}, {', '.join(map(str, times))}") from None
    if not (0 <= index < len(names) and names[index] == name):
        raise ValueError(f"row {number}: expected a task of the run with its name, got {task}, {name}")
    rows = per_task[index]
    before_t, before_s = (rows[-1][0], rows[-1][-1]) if rows else (0, 0.0)
    if not (t >= before_t and before_s <= said_s <= idle_s <= closed_s < math.inf):
        raise ValueError(
            f"row {number}: expected times that go on from round {before_t} at {before_s:g} s, got round {t} at "
            f"{said_s:g}, {idle_s:g} and {closed_s:g} s"
        )
    rows.append((t, said_s, idle_s, closed_s))


def read_records(run_dir: Path, names: Sequence[str]) -> tuple[list[Rows], list[Rows], bool]:
    """(each task's rows, each centre's rows, whether each task has a centre of its own), as they were written.

    Raises:
        UsageError: A file is missing or damaged.
    """
    per_task = [_Packed(TASK_DTYPE) for _ in names]
    index_of = {name: index for index, name in enumerate(names)}
    try:
        for row in _read_table(run_dir, "records")[1]:
            _, name, t, active, score, label, gamma, reply, clean, loss, contribution = row
            fields = (
                int(t),
                int(active),
                float(score),
                float(label),
                float(gamma),
                ReplyKind[reply.upper()],
                float(clean),
                float(loss),
                ContributionKind[contribution.upper()],
            )
            per_task[index_of[name]].add(fields)
        return [packed.rows() for packed in per_task], *_read_rounds(run_dir, names)
    except (ValueError, TypeError, KeyError, IndexError, csv.Error) as error:
        raise UsageError(f"the records in {run_dir} are damaged: {error}") from None


def recompute_digest(run_dir: Path, names: Sequence[str]) -> str:
    """The digest of a run, from its records and its model alone.

    Raises:
        UsageError: A file is missing or damaged.
    """
    rows, centrals, peers = read_records(run_dir, names)
    model = load_model(run_dir)
    chains = []
    for index, task_rows in enumerate(rows):
        vectors = list(vectors_of(model, index).values())
        chains.append(task_chain_of(task_rows, vectors))
    return run_digest(chains, _central_chain([central_chain_of(central) for central in centrals], peers=peers))


def wrong_figures(run_dir: Path, summary: dict[str, Any]) -> list[str]:
    """Which figures of a summary are not those of the records, as ``site-03: errors 9, records say 10``.

    Raises:
        UsageError: A file is missing or damaged.
    """
    names = [task["name"] for task in summary["tasks"]]
    rows, _, _ = read_records(run_dir, names)
    learner = ALGORITHMS.get(summary.get("algorithm", ""))
    probability = learner(None).probability if learner else sigmoid
    counts = []
    for task_rows in rows:
        totals = Totals()
        for row in _tuples(task_rows[task_rows["active"] == 1]):
            _, _, score, label, gamma, _, clean, _, _ = row
            totals.count(score, clean, label, gamma, probability(clean * score))
        counts.append(totals)
    wrong = []
    model = load_model(run_dir)
    if "sharing" in summary and {"MIXTURE", "EVIDENCE"} <= model.keys():  # else the digest is another one, too
        overall, of_tasks = sharing_sections(model["MIXTURE"], model["EVIDENCE"])
        for said, figures in [*zip(summary["tasks"], of_tasks, strict=True), (summary | {"name": "all"}, overall)]:
            its = said.get("sharing", {})
            if any(its.get(key) != value for key, value in figures.items()):
                wrong.append(f"{said['name']}: sharing is not what the models say")
    auc_overall, auc_of_tasks = _aucs(rows, [totals.examples for totals in counts])
    for name, said, totals, its_auc in [
        *zip(names, summary["tasks"], counts, auc_of_tasks, strict=True),
        ("all", summary, total(counts), auc_overall),
    ]:
        for key in _CHECKED + tuple(key for key in _CHECKED_LATER if key in said):
            found = its_auc if key == "auc" else getattr(totals, key)
            if not _is_same(said.get(key), found):
                wrong.append(f"{name}: {key} {said.get(key)}, records say {found}")
    return wrong[:10]


def _is_same(said: Any, found: float | None) -> bool:
    """Bit for bit, but for logarithms of another machine and sums of them."""
    if isinstance(said, float) and isinstance(found, float):
        return math.isclose(said, found, rel_tol=1e-9)
    return bool(said == found)


def vectors_of(model: dict[str, npt.NDArray[Any]], index: int) -> dict[str, Vector]:
    """One task's part of a model, by the names and in the order of its algorithm."""
    return {key.lower(): np.ascontiguousarray(model[key][index]) for key in model if key not in _ABOUT_MODEL}


def load_model(run_dir: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of model.npz.

    Raises:
        UsageError: It is missing or damaged.
    """
    path = run_dir / "model.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            model = {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: {run_dir} is not the directory of a finished run") from None
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    missing = {"W", "tasks", "features", "preprocessing"} - model.keys()
    if missing:
        raise UsageError(f"{path} is no model of drom-net: it has no {', '.join(sorted(missing))}")
    return model


def row_reader_of(model: dict[str, npt.NDArray[Any]]) -> RowReader:
    """What reads rows for a model, also one of an earlier version: columns with names and no kinds are numbers."""
    made = Preprocessing.from_json(json.loads(str(model["preprocessing"])))
    features = tuple(str(name) for name in model["features"])
    if made.bias and features:
        features = features[:-1]
    if made.schema is None and features and made.hash is None:
        schema = Schema(tuple(Column(name, NUMBER) for name in features), places=0)
        made = dataclasses.replace(made, schema=schema, numbers=len(features))
    return RowReader(made)


def require_records(run_dir: Path, summary: dict[str, Any]) -> None:
    """Refuse to compare a run that was to keep no rows.

    Raises:
        UsageError: It has none.
    """
    if summary.get("keep_records") is False:
        raise UsageError(f"{run_dir} has no records to compare with: its file says keep_records: false")


def load_summary(run_dir: Path) -> dict[str, Any]:
    """summary.json.

    Raises:
        UsageError: It is missing or damaged.
    """
    missing = f"{run_dir} is not the directory of a finished run"
    return _read_json(run_dir / "summary.json", "tasks", "digest", missing=missing)


def load_disturbances(run_dir: Path) -> list[Disturbance]:
    """The faults of a simulated run, by its clock; none of another run.

    Raises:
        UsageError: simulation.json is damaged.
    """
    path = run_dir / SIMULATION
    if not path.exists():
        return []
    found = _read_json(path, "partitions", "faults")
    cuts = [{"what": "partition", "where": "network"} | cut for cut in found["partitions"]]
    try:
        return [
            Disturbance(
                one["what"], one["where"], float(one["from_s"]), float(math.inf if one["to_s"] is None else one["to_s"])
            )
            for one in [*cuts, *found["faults"]]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {error}") from None


def write_environment(path: Path, *, blas: str) -> None:
    """Versions, machine and BLAS kernel: what the bits of a run may depend on."""
    import msgpack
    import zmq

    write_json(
        path,
        {
            "drom_net": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "blas_kernel": blas,
            "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", ""),
            "pyzmq": zmq.pyzmq_version(),
            "libzmq": zmq.zmq_version(),
            "msgpack": ".".join(map(str, msgpack.version)),
            "platform": platform.platform(),
            "machine": platform.machine(),
            "byte_order": sys.byteorder,
        },
    )


def _figures(task: TaskOutcome, its_auc: float | None) -> TaskFigures:
    waiting_s = learning_s = None
    if task.times is not None:
        idle, closed = task.times["idle_s"], task.times["closed_s"]
        waiting_s = round(float((closed - idle).sum()), 6)
        away_s = np.diff(closed)[begun_anew(task.times)[1:]].sum()
        learning_s = round(float(closed[-1] - closed[0] - away_s), 6) if len(closed) else 0.0
    counts = (task.rounds, task.totals, task.lost, task.bytes_sent, task.bytes_received)
    mixing = task.model.get("mixture"), task.model.get("evidence")
    return TaskFigures(task.name, *counts, waiting_s, learning_s, *mixing, its_auc, len(task.model["w"]))


def _central_chain(chains: Sequence[bytes], *, peers: bool) -> bytes:
    """The reducer's, or what stands for it where each task has a centre of its own."""
    return peers_chain(chains) if peers else chains[0]


def _peers_rounds(names: Sequence[str], centrals: Sequence[CentralOutcome]) -> Iterable[list[object]]:
    """A row for each peer's central step; v of tasks outside its neighborhood is empty."""
    for index, central in enumerate(centrals):
        for row in central.rows:
            v = dict(zip(central.members or (), row["v"].tolist(), strict=True))
            absent = _absent(names, central.members or (), row)
            yield [index, names[index], *row.item()[:-2], absent, *(v.get(task) for task in range(len(names)))]


def _absent(names: Sequence[str], members: Sequence[int], row: np.void) -> str:
    """Who was awaited in a central step and did not come, by the safe forms of their names with spaces between."""
    missing = [task for task, missing in zip(members, row["absent"].tolist(), strict=True) if missing]
    nodes = safe_names(names) if missing else ()
    return " ".join(nodes[task] for task in missing)


def _read_rounds(run_dir: Path, names: Sequence[str]) -> tuple[list[Rows], bool]:
    """Each centre's rows, and whether the centres are peers' own."""
    columns, rows = _read_table(run_dir, "rounds")
    peers = columns[:1] == ["task"]  # each peer's own central steps, in task order
    by_centre: list[_Packed | None] = [None] * (len(names) if peers else 1)
    nodes = safe_names(names)
    for row in rows:
        index = int(row[0]) if peers else 0
        head = row[2:] if peers else row
        v = [None if value in ("", None) else float(value) for value in head[9:]]
        gone = set(str(head[8] or "").split())
        absent = tuple(node in gone for node, value in zip(nodes, v, strict=True) if value is not None)
        known = tuple(value for value in v if value is not None)
        packed = by_centre[index] or _Packed(central_dtype(len(known)))
        packed.add((int(head[0]), float(head[1]), float(head[2]), *map(int, head[3:8]), known, absent))
        by_centre[index] = packed
    return [(packed or _Packed(central_dtype(len(names)))).rows() for packed in by_centre], peers


class _Packed:
    """Rows that are packed as they come: as tuples those of a long run would not fit into memory."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = dtype
        self._open: list[tuple[object, ...]] = []
        self._parts: list[Rows] = []

    def add(self, row: tuple[object, ...]) -> None:
        self._open.append(row)
        if len(self._open) >= _AT_ONCE:
            self._pack()

    def rows(self) -> Rows:
        self._pack()
        return np.concatenate(self._parts)

    def _pack(self) -> None:
        self._parts.append(np.array(self._open, dtype=self._dtype))
        self._open.clear()


def _tuples(rows: Rows) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples, made as they are used."""
    for start in range(0, len(rows), _AT_ONCE):
        yield from rows[start : start + _AT_ONCE].tolist()


def _in_words(row: tuple[Any, ...]) -> Iterable[object]:
    t, active, score, label, gamma, reply, clean, loss, contribution = row
    words = ReplyKind(reply).name.lower(), ContributionKind(contribution).name.lower()
    return t, active, score, label, gamma, words[0], clean, loss, words[1]


def _read_json(path: Path, *keys: str, missing: str = "that node has not ended in order") -> dict[str, Any]:
    """A JSON object that has these keys; `missing` says what it means that the file is not there."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: {missing}") from None
    except (OSError, ValueError) as error:
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


@dataclass(frozen=True, slots=True)
class _Table:
    columns: list[str]
    rows: Iterable[list[Any]]

    def write(self, path: Path) -> None:
        if path.suffix == ".parquet":
            self._write_parquet(path)
            return
        with naming(path), path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows)

    def _write_parquet(self, path: Path) -> None:
        pa, pq = _pyarrow()
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        pq.write_table(pa.table({name: list(column) for name, column in zip(self.columns, columns, strict=True)}), path)


def _read_table(run_dir: Path, stem: str) -> tuple[list[str], Iterable[list[Any]]]:
    """(names of the columns, rows) of STEM.csv or STEM.parquet."""
    path = run_dir / f"{stem}.csv"
    if path.exists():
        rows = _csv_rows(path)
        columns = next(rows, [])
        return columns, _whole(rows, len(columns))
    path = run_dir / f"{stem}.parquet"
    if not path.exists():
        raise UsageError(f"{run_dir} has neither {stem}.csv nor {stem}.parquet")
    _, pq = _pyarrow()
    table = pq.read_table(path).to_pydict()
    return list(table), map(list, zip(*table.values(), strict=True))


def _whole(rows: Iterable[list[str]], num_columns: int) -> Iterator[list[str]]:
    """Raises ValueError where a row has another number of values than there are columns."""
    for number, row in enumerate(rows, start=2):
        if len(row) != num_columns:
            raise ValueError(f"row {number}: expected {num_columns} values, got {len(row)}")
        yield row


def _csv_rows(path: Path) -> Iterator[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.reader(file)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'drom-net[tables]'") from None
    return pyarrow, pyarrow.parquet
