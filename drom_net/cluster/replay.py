"""Make a run again from its data and its journal, whatever happened to it, and compare every bit.

The journal is in the records: who was awaited in which central step and did not come (column `absent` of rounds), and
how many rounds each task has recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drom_net.algorithms.base import ReplyKind
from drom_net.cluster.plan import algorithm_of
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.progress import Progress
from drom_net.cluster.run import run_loop
from drom_net.core.errors import UsageError
from drom_net.data.live import LiveStream
from drom_net.learning.records import TASK_DTYPE, absences_of, central_dtype
from drom_net.learning.reference import Journal, ReferenceResult
from drom_net.learning.task import TaskLearner
from drom_net.results.model_file import load_model
from drom_net.results.outcomes import Rows
from drom_net.results.run_directory import node_folder
from drom_net.results.tables import read_records
from drom_net.storage.journal import FOLDER as JOURNAL
from drom_net.storage.journal import ExampleJournal


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a run that was made again compares."""

    rounds: int
    absences: int
    """In how many central steps, of all centres, somebody was missing."""
    difference: str
    """The first one, in words; empty where there is none."""


def replay(prepared: Prepared, run_dir: Path, progress: Progress) -> Replayed:
    """Compute all of a run again, and find the first difference to what it has recorded.

    Args:
        prepared: The run's own configuration with its data.
        run_dir: With records, rounds and model.

    Raises:
        UsageError: A file is missing or damaged.
    """
    names = prepared.roster.tasks
    task_rows, central_rows, _ = read_records(run_dir, names)
    members = [tuple(range(len(names)))]
    if prepared.graph is not None:
        members = [hood.closed_neighborhood for hood in prepared.graph.neighborhoods]
    journal = _journal(prepared, task_rows, central_rows, members)

    last = max(journal.rounds)

    def after_round(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
        progress.update(t, lambda: [learner.totals for learner in learners], sigma)
        return t < last

    live = (
        None
        if prepared.config.source is None
        else [_live_stream(prepared, run_dir, task) for task in range(len(names))]
    )
    result = run_loop(prepared, after_round, journal, live)
    centrals = [result.central_records] if isinstance(result, ReferenceResult) else result.central_records
    difference = _first_difference(
        [
            (f"task {name}", rows, np.frombuffer(again, TASK_DTYPE))
            for name, rows, again in zip(names, task_rows, result.task_records, strict=True)
        ]
        + [
            (
                "the reducer" if prepared.graph is None else f"the centre of {names[index]}",
                rows,
                np.frombuffer(again, central_dtype(len(its_members))),
            )
            for index, (rows, again, its_members) in enumerate(zip(central_rows, centrals, members, strict=True))
        ]
    )
    if not difference:
        model = load_model(run_dir)
        for task, name in enumerate(names):
            for key, vector in result.tasks[task].model.items():
                if model[key.upper()][task].tobytes() != vector.tobytes() and not difference:
                    difference = f"round {journal.rounds[task]}, task {name}: the model's {key.upper()} is another one"
    absences = sum(len(absent) > 0 for centre in journal.absent for absent in centre.values())
    return Replayed(max(journal.rounds), absences, difference)


def _live_stream(prepared: Prepared, run_dir: Path, task: int) -> LiveStream:
    """What a task has accepted in a live run, with the rounds in which it had no example.

    Raises:
        UsageError: It was not kept.
        CheckpointError: It is damaged.
    """
    assert prepared.config.source is not None
    if prepared.config.source.keep != "all":
        raise UsageError(f"{run_dir} is of a live run that did not keep its examples (source.keep: all)")
    folder = node_folder(run_dir, prepared.roster.nodes[task]) / JOURNAL
    if not folder.is_dir():
        raise UsageError(f"{folder} is missing: it has the examples that {prepared.roster.tasks[task]} has accepted")
    loaded = ExampleJournal(folder).load()
    preprocessing = prepared.dataset.preprocessing
    stream = LiveStream(
        prepared.roster.dim, loaded.decided, preprocessing=preprocessing, task=prepared.roster.tasks[task]
    )
    for features, label in loaded.examples:
        stream.add(features, label)
    return stream


def _journal(
    prepared: Prepared, task_rows: Sequence[Rows], central_rows: Sequence[Rows], members: Sequence[Sequence[int]]
) -> Journal:
    stopped = set()
    for task, rows in enumerate(task_rows):
        sync = algorithm_of(prepared.config, task).sync
        unanswered = rows["round"][rows["reply"] == ReplyKind.NONE].tolist()
        stopped |= {(task, t) for t in unanswered if sync.at(t)}
    absent = [absences_of(rows, its_members) for rows, its_members in zip(central_rows, members, strict=True)]
    return Journal(absent, [len(rows) for rows in task_rows], stopped)


def _first_difference(tables: Sequence[tuple[str, Rows, Rows]]) -> str:
    """The earliest round in which what was recorded is not what came out now, over (whose, recorded, now)."""
    found: list[tuple[int, str]] = []
    for whose, recorded, again in tables:
        shared = min(len(recorded), len(again))
        for name in recorded.dtype.names or ():
            one = np.ascontiguousarray(recorded[name][:shared])
            other = np.ascontiguousarray(again[name][:shared])
            wide = one.view(np.uint8).reshape(shared, -1) != other.view(np.uint8).reshape(shared, -1) if shared else one
            if not wide.any():
                continue
            row = int(np.flatnonzero(wide.any(axis=1))[0])
            t = int(recorded["round"][row])
            found.append(
                (t, f"round {t}, {whose}: {name} {_shown(one[row])} was recorded, now it is {_shown(other[row])}")
            )
        if len(recorded) > shared:
            t = int(recorded["round"][shared])
            found.append((t, f"round {t}, {whose}: recorded, but there is no such round now"))
    return min(found)[1] if found else ""


def _shown(value: np.generic | np.ndarray) -> str:
    return str(value.tolist())[:80]
