"""A run directory: what a run leaves behind, in formats that other tools read.

::

    config.yaml        the configuration as run, every value given
    environment.json   versions, BLAS kernel, machine, when it began
    simulation.json    what a simulation ran on: latency, loss, faults, the seed of what was drawn
    summary.json       the figures and the digest
    model.npz          W (a row a task), A where the algorithm has one, tasks, features, preprocessing
    records.csv        one row per task and round (or records.parquet)
    rounds.csv         one row per central step (or rounds.parquet)
    timeline.csv       one row per task and sync round: when its contribution was sent and until when it waited, in
                       seconds since the first task began, of a simulation by its clock; one more where a node went on
                       after a crash (or timeline.parquet); the plain loop has no clock and writes none
    logs/              what the processes said
    state.json         how a run goes, about once a second while it lasts; and how it ended, where it failed
    events.jsonl       what happened to its processes, a line each: started, killed, back, waiting long, absent
    history.jsonl      how each site did at some moments of the run, a line each (drom_net.results.history)
    report.html        the run for people, where it was asked for, with report.png
    nodes/             while it runs, and for nodes started by hand: each node's own folder, called by the safe form of
                       its task's name (drom_net.core.names)
"""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from drom_net import __version__
from drom_net.core.errors import UsageError
from drom_net.learning.metrics import auc
from drom_net.learning.records import (
    LEARNED,
    peers_chain,
    run_digest,
)
from drom_net.results.evidence import CODES
from drom_net.results.model_file import model_arrays, write_model
from drom_net.results.outcomes import CentralOutcome, Rows, TaskOutcome, read_json
from drom_net.results.summary import TaskFigures, summarize, write_json
from drom_net.results.tables import write_records, write_timeline
from drom_net.results.timeline import Disturbance, begun_anew

_TEXTS = ("name", "algorithm", "driver", "status", "digest")
_NUMBERS = (
    *("rounds", "seconds", "examples", "errors", "majority_errors", "error_rate", "majority_error_rate", "auc", "f1"),
    *("log_loss", "bytes_sent", "bytes_received", "waiting_s", "learning_s", "waiting_share"),
    *("error_rate_alone", "gain_points", "gain_nats", "examples_missing", "weight", "noise"),
)
NODES, LOGS, SIMULATION = "nodes", "logs", "simulation.json"
STATE, EVENTS, HISTORY, REPORT = "state.json", "events.jsonl", "history.jsonl", "report.html"


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
        raise UsageError(f"{path} exists already and is not overwritten; choose another folder, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot make the run directory {path}: {error.strerror}") from None


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
    write_model(run_dir / "model.npz", model_arrays(tasks, algorithm=about["algorithm"], **data_facts))
    write_records(run_dir, tasks, centrals, file_format=file_format)
    write_timeline(run_dir, tasks, file_format=file_format, start_s=0.0 if driver == "simulation" else None)
    summary = summary_of(tasks, centrals, about=about | {"positive": data_facts["positive"]}, driver=driver)
    write_json(run_dir / "summary.json", summary)
    return summary


def summary_of(
    tasks: Sequence[TaskOutcome], centrals: Sequence[CentralOutcome], *, about: dict[str, Any], driver: str
) -> dict[str, Any]:
    """The summary of a run that has ended; arguments as for `write_results`."""
    central_chain = chain_of_rounds([central.chain for central in centrals], peers=centrals[0].members is not None)
    finished = all(task.finished or task.lost for task in tasks) and all(central.finished for central in centrals)
    if not all(task.keeps_records for task in tasks):
        about = about | {"keep_records": False}
    auc_overall, auc_of_tasks = aucs([task.rows for task in tasks], [task.totals.examples for task in tasks])
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


def aucs(rows: Sequence[Rows], examples: Sequence[int]) -> tuple[float | None, list[float | None]]:
    """The AUC over all predictions of labelled examples, and that of each task; None where some of them have no row.

    Args:
        examples: How many of them each task has made.
    """
    scored = [
        (its["score"][labelled], its["clean_label"][labelled])
        for its in rows
        for labelled in [np.flatnonzero(its["active"] == LEARNED)]
    ]
    whole = [len(scores) == count for (scores, _), count in zip(scored, examples, strict=True)]
    of_tasks = [auc(*its) if is_whole else None for its, is_whole in zip(scored, whole, strict=True)]
    if not all(whole):
        return None, of_tasks
    scores, labels = (np.concatenate(parts) for parts in zip(*scored, strict=True))
    return auc(scores, labels), of_tasks


def load_summary(run_dir: Path) -> dict[str, Any]:
    """summary.json.

    Raises:
        UsageError: It is missing or damaged.
    """
    path = run_dir / "summary.json"
    missing = f"{run_dir} is not the directory of a finished run"
    found = read_json(path, *_TEXTS, "rounds", "seconds", "tasks", missing=missing)
    tasks = found["tasks"]
    if not isinstance(tasks, list) or not tasks or not all(isinstance(its, dict) and "name" in its for its in tasks):
        raise UsageError(f"{path} is damaged: expected tasks, a list of objects with name, got {tasks!r:.80}")
    for where, its in [("", found), *((f"tasks[{place}].", its) for place, its in enumerate(tasks))]:
        if wrong := _wrong_figure(its, where):
            raise UsageError(f"{path} is damaged: {wrong}")
    return found


def _wrong_figure(its: dict[str, Any], where: str) -> str:
    """What is wrong with a summary, or the part of one task or of sharing; empty where nothing is."""
    for key, value in its.items():
        if key == "sharing" and isinstance(value, dict):
            if wrong := _wrong_figure(value, f"{where}{key}."):
                return wrong
            continue
        expected, fine = _EXPECTED.get(key, ("", lambda _: True))
        if not fine(value):
            return f"expected as {where}{key} {expected}, got {value!r:.80}"
    return ""


def _is_number(value: object) -> bool:
    return value is None or type(value) in (int, float)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and [type(one) in (int, float) for one in value] == [True, True]


_EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(_TEXTS, ("a text", lambda value: isinstance(value, str))),
    "status": ("finished or interrupted", lambda value: value in ("finished", "interrupted")),
    "verdict": ("texts", lambda value: isinstance(value, str | list) and all(isinstance(one, str) for one in value)),
    "sharing": ("an object", lambda value: value is None),
    "effect": (" or ".join(CODES), lambda value: value in (None, *CODES)),
    "effect_by": ("errors or log loss", lambda value: value in (None, "errors", "log loss")),
    **dict.fromkeys(
        ("gain_points_interval", "gain_nats_interval"),
        ("two numbers", lambda value: value is None or _is_pair(value)),
    ),
    **dict.fromkeys(_NUMBERS, ("a number", _is_number)),
}
"""By the name of a figure in a summary, what it can be; the verdict of an earlier version is one text of `sharing`."""


def load_disturbances(run_dir: Path) -> list[Disturbance]:
    """The faults of a simulated run, by its clock; none of another run.

    Raises:
        UsageError: simulation.json is damaged.
    """
    path = run_dir / SIMULATION
    if not path.exists():
        return []
    found = read_json(path, "partitions", "faults")
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
    """As `environment`, into a file, with the time: a run or a node begins."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(path, environment(blas) | {"began": began})


def environment(blas: str) -> dict[str, str]:
    """Versions, machine and BLAS kernel: what the bits of a run may depend on."""
    import msgpack
    import zmq

    return {
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
    }


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


def chain_of_rounds(chains: Sequence[bytes], *, peers: bool) -> bytes:
    """The reducer's, or what stands for it where each task has a centre of its own."""
    return peers_chain(chains) if peers else chains[0]
