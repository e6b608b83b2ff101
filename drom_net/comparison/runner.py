"""Runs in processes of their own, kept as they finish, and not made twice."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from typing import Any, Protocol

import numpy as np

from drom_net.cluster.local import Interruption
from drom_net.comparison.figures import Outcome
from drom_net.comparison.jobs import Job
from drom_net.comparison.store import Store
from drom_net.config.model import (
    to_mapping,
)
from drom_net.core.blas import ONE_THREAD, blas_kernel
from drom_net.core.closing import Closing
from drom_net.core.errors import DromNetError, NodeFailedError, StoppedError, UsageError

_stop_here: Event | None = None
"""In a process that runs experiments: set when all shall end."""

_LOOK_EVERY_S = 0.2


class RunsProgress(Protocol):
    """Where many runs show how they go."""

    def start(self, total: int, reused: int) -> None:
        """So many runs are wanted; so many of them were finished before."""

    def update(self, finished: int, label: str) -> None:
        """So many are finished now, the reused among them; the last of them was this one."""

    def say(self, text: str) -> None:
        """Something that a person should know."""


class Runner(Closing):
    """Runs jobs on some cores and keeps their outcomes; enter it, so that its processes end."""

    def __init__(self, store: Store, *, num_processes: int, progress: RunsProgress) -> None:
        self.store = store
        self.num_processes = num_processes
        self.progress = progress
        self.num_reused = 0
        self.num_run = 0
        self._pool: ProcessPoolExecutor | None = None
        self._context = multiprocessing.get_context("spawn")
        self._stop = self._context.Event()

    def close(self) -> None:
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """The outcome of each job, in their order; what the store has is not run again.

        Raises:
            StoppedError: Interrupted; what was finished is in the store.
            NodeFailedError: A process was killed, or could not read the data.
        """
        keys = [job.key for job in jobs]
        open_jobs = {key: job for key, job in zip(keys, jobs, strict=True) if self.store.get(key) is None}
        total = len(set(keys))
        finished = total - len(open_jobs)
        self.num_reused += finished
        self.progress.start(total, finished)
        if open_jobs:
            with Interruption() as interruption:
                outcomes = self._here if self.num_processes == 1 else self._in_processes
                for key, outcome in outcomes(open_jobs, interruption):
                    finished += 1
                    self.num_run += 1
                    self.store.add(_record(key, open_jobs[key], outcome))
                    self.progress.update(finished, open_jobs[key].label)
                if interruption.exit_code:
                    kept = (
                        f"in {self.store.path}; the same command goes on from there" if self.store.path else "nowhere"
                    )
                    raise StoppedError(
                        f"interrupted: {finished} of {total} runs are finished and kept {kept}", interruption.exit_code
                    )
        return [_outcome(self.store, key) for key in keys]

    def _here(self, jobs: Mapping[str, Job], interruption: Interruption) -> Iterator[tuple[str, Outcome]]:
        with contextlib.suppress(StoppedError):
            for key, job in jobs.items():
                yield key, job.run(lambda: interruption.exit_code != 0)

    def _in_processes(self, jobs: Mapping[str, Job], interruption: Interruption) -> Iterator[tuple[str, Outcome]]:
        pool = self._pool = self._pool or ProcessPoolExecutor(
            self.num_processes, mp_context=self._context, initializer=_begin_process, initargs=(self._stop,)
        )
        with _for_children():
            key_of: dict[Future[Outcome | None], str] = {
                pool.submit(_run_in_process, job): key for key, job in jobs.items()
            }
        waiting = set(key_of)
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                if interruption.exit_code:
                    self._stop.set()
                    pool.shutdown(cancel_futures=True)
                    self._pool = None
                    done, waiting = {future for future in key_of if future in done | waiting and future.done()}, set()
                for future in done:
                    outcome = None if future.cancelled() else future.result()
                    if outcome is not None:
                        yield key_of[future], outcome
        except BrokenProcessPool:
            if not interruption.exit_code:
                raise NodeFailedError(
                    "a process that was running experiments ended suddenly (was there enough memory?); "
                    "what was finished is kept, and fewer --jobs need less"
                ) from None


def _record(key: str, job: Job, outcome: Outcome) -> dict[str, Any]:
    config = job.config
    return {
        "key": key,
        "label": job.label,
        "algorithm": to_mapping(config)["algorithm"],
        "flip": config.data.flip,
        "rounds": config.rounds,
        "seed": config.seed,
        "numpy": np.__version__,
        "blas": blas_kernel(),
        "outcome": dataclasses.asdict(outcome),
    }


def _outcome(store: Store, key: str) -> Outcome:
    record = store.get(key)
    assert record is not None
    here = {"numpy": np.__version__, "blas": blas_kernel()}
    for name, version in here.items():
        if record.get(name) != version:
            raise UsageError(
                f"{store.path} has runs made with {name} {record.get(name)}, and this is {version}: low bits may "
                "differ; choose another --out"
            )
    try:
        outcome = Outcome(**record["outcome"])
        _check_types(outcome)
    except (AttributeError, KeyError, TypeError):
        raise UsageError(
            f"{store.path} is damaged, or was written by another version; remove it, or choose another --out"
        ) from None
    return outcome


def _check_types(outcome: Outcome) -> None:
    """Raises TypeError or AttributeError where a value is none of its kind."""
    numbers = [*outcome.figures.values(), *(value for line in outcome.curve.values() for value in line)]
    numbers += [value for block in outcome.blocks for value in block.values()]
    numbers += [value for line in outcome.tasks.values() for value in line]
    numbers += [outcome.seconds, outcome.nuclear_norm, outcome.effective_rank]
    if not all(value is None or type(value) in (int, float) for value in numbers):
        raise TypeError("a figure that is not a number")
    if type(outcome.digest) is not str or outcome.status not in ("finished", "diverged"):
        raise TypeError("a digest or status that is none")


@contextlib.contextmanager
def _for_children() -> Iterator[None]:
    """What processes that start meanwhile inherit: one BLAS thread each, and Ctrl-C left to their parent."""
    former = {name: os.environ.get(name) for name in ONE_THREAD}
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin_process(stop: Event) -> None:
    global _stop_here
    _stop_here = stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_in_process(job: Job) -> Outcome | None:
    """None where it was stopped. Exceptions with other arguments than a text do not survive the way to the parent."""
    assert _stop_here is not None
    try:
        return job.run(_stop_here.is_set)
    except StoppedError:
        return None
    except DromNetError as error:
        raise NodeFailedError(f"{job.label}: {error}") from None
