"""The result of a run as one JSON document: figures over all tasks and for each, and the digest."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.algorithms.features import Vector
from drom_net.core.errors import naming
from drom_net.learning.metrics import Totals, macro, total
from drom_net.results.sharing import sharing_sections
from drom_net.results.verdict import verdict


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What a summary says of one task."""

    name: str
    rounds: int
    totals: Totals
    lost: bool = False
    """Its node was killed and did not come back: the figures are those of its last snapshot."""
    bytes_sent: int = 0
    """By the task's worker: headers and vectors, before the transport's own framing."""
    bytes_received: int = 0
    waiting_s: float | None = None
    """How long there was nothing to do but to wait for others; None where no clock was read."""
    learning_s: float | None = None
    """From the beginning of learning to its end, without the time that its node was down."""
    mixture: Vector | None = None
    """With `evidence` of a model that mixes experts, as `Algorithm.model` has it."""
    evidence: Vector | None = None
    auc: float | None = None
    """None where there are no records, or labels of one class only."""
    dim: int | None = None
    """How many features its model has; None where that is not known."""


def summarize(
    tasks: Sequence[TaskFigures],
    *,
    about: dict[str, Any],
    driver: str,
    rounds: int,
    seconds: float,
    digest: str,
    status: str = "finished",
    auc: float | None = None,
) -> dict[str, Any]:
    """The summary as plain JSON types.

    Args:
        about: Name of the run, algorithm, data set, meaning of +1.
        rounds: How many rounds the longest task went through.
        seconds: Wall time of the learning: of processes from the first that joined to the last goodbye.
        status: "finished", or "interrupted" where the figures are those of the rounds so far.
        auc: Over the predictions of all tasks together.
    """
    sums = total(task.totals for task in tasks)
    overall, of_tasks = _sharing(tasks)
    counts = [task.totals for task in tasks]
    sentences = verdict(
        [task.name for task in tasks],
        counts,
        overall.get("sharing"),
        [figures["sharing"] for figures in of_tasks if figures],
        dim=tasks[0].dim,
        auc=auc,
    )
    return {
        **about,
        "driver": driver,
        "status": status,
        "rounds": rounds,
        "seconds": round(seconds, 6),
        "verdict": sentences,
        **sums.rates(),
        "auc": auc,
        **_macro_rates(tasks),
        **asdict(sums),
        "bytes_sent": sum(task.bytes_sent for task in tasks),
        "bytes_received": sum(task.bytes_received for task in tasks),
        "waiting_share": _waiting_share(tasks),
        **overall,
        "digest": digest,
        "tasks": [
            {"task": index} | _task_section(task) | of_task
            for index, (task, of_task) in enumerate(zip(tasks, of_tasks, strict=True))
        ],
    }


def _task_section(task: TaskFigures) -> dict[str, Any]:
    return {
        "name": task.name,
        "rounds": task.rounds,
        "lost": task.lost,
        **task.totals.rates(),
        "auc": task.auc,
        **asdict(task.totals),
        "bytes_sent": task.bytes_sent,
        "bytes_received": task.bytes_received,
        "waiting_s": task.waiting_s,
        "learning_s": task.learning_s,
    }


def _macro_rates(tasks: Sequence[TaskFigures]) -> dict[str, float | int | None]:
    """Means over the tasks that have such a figure, and how many have where it is not all."""
    error_rate, _ = macro(task.totals.error_rate for task in tasks)
    f1, num_f1 = macro(task.totals.f1 for task in tasks)
    auc, num_auc = macro(task.auc for task in tasks)
    return {
        "error_rate_macro": error_rate,
        "f1_macro": f1,
        "f1_macro_tasks": num_f1,
        "auc_macro": auc,
        "auc_macro_tasks": num_auc,
    }


def _sharing(tasks: Sequence[TaskFigures]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The section `sharing` of all tasks and of each; nothing where that is not known of all."""
    mixtures = [task.mixture for task in tasks if task.mixture is not None]
    evidence = [task.evidence for task in tasks if task.evidence is not None]
    if len(mixtures) < len(tasks) or len(evidence) < len(tasks):
        return {}, [{} for _ in tasks]
    overall, of_tasks = sharing_sections(np.stack(mixtures), np.stack(evidence))
    return {"sharing": overall}, [{"sharing": figures} for figures in of_tasks]


def _waiting_share(tasks: Sequence[TaskFigures]) -> float | None:
    """Which part of all tasks' time they waited; None where that is not known of all."""
    waited = [task.waiting_s for task in tasks if task.waiting_s is not None]
    learned = [task.learning_s for task in tasks if task.learning_s is not None]
    if len(waited) < len(tasks) or len(learned) < len(tasks) or sum(learned) <= 0.0:
        return None
    return round(sum(waited) / sum(learned), 6)


def write_json(path: Path, document: object) -> None:
    """Write a JSON file as a whole or not at all."""
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole or not at all; it is on the disk then."""
    temporary = path.with_name(path.name + ".part")
    with naming(path), temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def remove_folder(path: Path) -> None:
    """Remove a folder, if it is there, at once: whoever is killed meanwhile leaves it whole, or nothing of its name."""
    gone = path.with_name(f".{path.name}.part")
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):  # a mount point cannot be renamed
        path.rename(gone)
    for left in (gone, path):
        shutil.rmtree(left, ignore_errors=True)
