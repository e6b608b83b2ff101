"""Runs of the plain loop by the hundred: what is learned, what came out, in parallel, and never twice."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.synchronize import Event
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from drom_net import __version__
from drom_net.algorithms import PARAMETERS
from drom_net.algorithms.drom import DromParameters
from drom_net.cluster.local import Interruption
from drom_net.cluster.plan import algorithm_of
from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.comparison.spaces import learner_of
from drom_net.comparison.store import Store
from drom_net.config.model import (
    PEERS,
    AlgorithmChoice,
    ClusterConfig,
    PeerSettings,
    ReducerSettings,
    config_digest,
    to_mapping,
)
from drom_net.core.blas import ONE_THREAD, blas_kernel
from drom_net.core.errors import DivergedError, DromNetError, NodeFailedError, StoppedError, UsageError, did_you_mean
from drom_net.core.fields import settings_of
from drom_net.data.dataset import Dataset
from drom_net.data.datasets import load_dataset
from drom_net.data.public import check_public
from drom_net.data.public.places import DATA_FOLDER_VARIABLE, cache_folder
from drom_net.data.settings import DATA_SECTIONS, RowSettings, StreamSettings
from drom_net.data.stream import SparseRows, TaskStream, take
from drom_net.graph.settings import TopologySettings
from drom_net.learning.metrics import LEAST_PROBABILITY, auc, macro, majority_wrong
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import AfterRound, PeersResult, ReferenceResult
from drom_net.protocol.settings import Timeouts

CURVE_POINTS = 60
HEAD = 0.3
"""Of rows whose order is kept: the first part of each site's, on which settings are chosen."""
NUM_BLOCKS = 10
"""The others come in so many blocks, one behind the other."""
_OUTCOMES = "2"
"""What is kept of a run: a later number where an `Outcome` says more."""
_LOOK_EVERY_S = 0.2
PAPER_TAU = 20
"""Of DROM-D in the paper's experiments, on a full graph."""


FIGURE_OF = {"error": "error_rate", "auc": "auc_macro", "log_loss": "log_loss"}

# What is learned ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """Data that learners are compared on."""

    name: str
    config: ClusterConfig
    """Its data, rounds and graph count; its learner's parameters only where no search replaces them."""
    tasks: tuple[str, ...]
    num_examples: int
    dim: int
    positives: int
    """So many of the examples are +1."""
    measure: str
    """"error", "auc" or "log_loss"."""
    content: str
    """SHA-256 over all rows and labels."""

    @property
    def figure(self) -> str:
        """The name of the measure among an outcome's figures."""
        return FIGURE_OF[self.measure]

    @property
    def keeps_order(self) -> bool:
        """Whether rows are learned in the order of the data, which may be time, and in no other."""
        return not self.config.data.shuffle

    def with_flip(self, flip: float) -> Subject:
        """The same under another share of flipped labels."""
        config = dataclasses.replace(self.config, data=dataclasses.replace(self.config.data, flip=flip))
        return dataclasses.replace(self, config=config)

    def with_rounds(self, rounds: int | None) -> Subject:
        """The same for at most so many rounds; None leaves them as they are."""
        if rounds is None:
            return self
        limit = min(rounds, self.config.rounds or rounds)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, rounds=limit))


def named_data() -> tuple[str, ...]:
    """The data sets that need no topology file."""
    return tuple(name for name, section in DATA_SECTIONS.items() if not issubclass(section, RowSettings))


def named_config(name: str) -> ClusterConfig:
    """A configuration of a data set by its name.

    Raises:
        UsageError: There is none.
    """
    if name not in named_data():
        hint = did_you_mean(name, named_data())
        raise UsageError(
            f'expected one of {", ".join(named_data())} or a topology file, got "{name}"'
            + (f"; {hint}" if hint else "")
        )
    return ClusterConfig(
        name=name,
        algorithm=AlgorithmChoice("drom", DromParameters()),
        data=DATA_SECTIONS[name](),
        reducer=ReducerSettings(),
        timeouts=Timeouts(),
        path=Path(name),
        base=Path(os.environ.get(DATA_FOLDER_VARIABLE) or cache_folder()),
    )


def make_subject(config: ClusterConfig) -> Subject:
    """Read the data of a configuration.

    Raises:
        InputError, UsageError: It is wrong, or not there.
    """
    check_public(config.data, config.base)
    dataset = load_data(config)
    return Subject(
        name=config.name,
        config=config,
        tasks=tuple(task.name for task in dataset.tasks),
        num_examples=config.data.passes * sum(len(task.labels) for task in dataset.tasks),
        dim=dataset.dim,
        positives=config.data.passes * sum(int(np.count_nonzero(task.labels > 0.0)) for task in dataset.tasks),
        measure=dataset.measure,
        content=_content_digest(dataset),
    )


def configure(subject: Subject, name: str, drawn: Mapping[str, object], *, seed: int) -> ClusterConfig:
    """The configuration of one run.

    Args:
        name: Of the learner. Peers whose graph and tau the subject does not give are the paper's: full, tau 20.
        drawn: The searched parameters by field name, as `spaces.draw` gives them.
    """
    learner = learner_of(name)
    given = subject.config.algorithm
    changes = dict(learner.fixed) | dict(drawn)
    topology = None
    parameters = given.parameters if given.name == learner.algorithm else PARAMETERS[learner.algorithm]()
    if learner.algorithm in PEERS:
        topology = subject.config.topology
        if given.name not in PEERS:
            topology = TopologySettings(graph="full")
            changes["tau"] = PAPER_TAU
    return dataclasses.replace(
        subject.config,
        algorithm=AlgorithmChoice(learner.algorithm, dataclasses.replace(parameters, **changes)),
        topology=topology,
        data=dataclasses.replace(subject.config.data, pace_s=0.0),
        seed=seed,
        reducer=ReducerSettings(),  # on private sockets, where it is run as processes
        peers=PeerSettings(),
    )


def written_parameters(config: ClusterConfig, fields: Sequence[str]) -> dict[str, Any]:
    """Some parameters by the keys of a topology file, as JSON knows them."""
    written = to_mapping(config)["algorithm"]
    settings = settings_of(PARAMETERS[config.algorithm.name])
    return {key: written[key] for key, setting in settings.items() if setting.field in fields}


def _only_data(settings: StreamSettings) -> StreamSettings:
    """The settings without what changes no row: equal for all runs of one data set."""
    return dataclasses.replace(settings, shuffle=True, flip=0.0, alignment="lockstep", passes=1, pace_s=0.0)


def load_data(config: ClusterConfig) -> Dataset:
    """The data of a configuration, which is kept in memory for the next one."""
    return _load(_only_data(config.data), config.base)


@lru_cache(maxsize=2)  # rows that are asked something else half-way are two data sets
def _load(settings: StreamSettings, base: Path) -> Dataset:
    return load_dataset(settings, base=base)


def _content_digest(dataset: Dataset) -> str:
    digest = hashlib.sha256(dataset.feature_digest.encode())
    for task in dataset.tasks:
        rows = task.rows
        arrays = (rows.indptr, rows.indices, rows.values) if isinstance(rows, SparseRows) else (rows,)
        digest.update(repr((task.name, [array.shape for array in arrays])).encode())
        for array in (*arrays, task.labels):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# What came out ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave."""

    status: str
    """"finished", or "diverged": then there is no figure."""
    figures: dict[str, float | None]
    """error_rate, f1, auc (over all predictions), their _macro means over tasks, log_loss (nats a prediction), and
    majority, the errors of always giving each task's commoner label so far; each on the clean labels, and as ..._seen
    on those that the learner saw. All but the log loss are fractions in [0, 1]."""
    tasks: dict[str, list[float | None]]
    """error_rate, f1 and auc of each task, on clean labels."""
    seconds: float
    """Of a processor, so that it does not matter what else runs."""
    digest: str
    nuclear_norm: float | None = None
    """Of W at the end."""
    effective_rank: float | None = None
    """|W|_*^2 / |W|_F^2 at the end."""
    curve: dict[str, list[float | None]] = dataclasses.field(default_factory=dict)
    """round, and error_rate and f1 over all examples up to it (micro, clean labels), at about `CURVE_POINTS` rounds."""
    blocks: list[dict[str, float | None]] = dataclasses.field(default_factory=list)
    """The figures of each of the blocks behind the head, where those were asked for; else nothing."""


Loop = Callable[[Prepared, AfterRound], ReferenceResult | PeersResult]
"""As `cluster.run.run_loop`."""
_DIVERGED = Outcome("diverged", {}, {}, 0.0, "")


def run_one(
    prepared: Prepared,
    stopped: Callable[[], bool] = lambda: False,
    *,
    loop: Loop = run_loop,
    heads: Sequence[int] | None = None,
) -> Outcome:
    """Run the plain loop. Where `stopped` says so in a round, the run ends with StoppedError.

    Args:
        heads: So many examples of each task are learned, but not counted in any figure; those behind them are counted
            in `NUM_BLOCKS` blocks as well, one behind the other. None counts all, without blocks.
    """

    def after_round(*_: object) -> bool:
        if stopped():
            raise StoppedError("interrupted", 130)
        return True

    started = time.process_time()
    try:
        result = loop(prepared, after_round)
    except DivergedError:
        return _DIVERGED
    seconds = time.process_time() - started
    rows = [np.frombuffer(records, dtype=TASK_DTYPE) for records in result.task_records]
    rows = [task[task["active"] == 1] for task in rows]
    judged = judge(rows, algorithm_of(prepared.config, 0).probability)
    blocks = []
    if heads is not None:
        judged = [task[head:] for task, head in zip(judged, heads, strict=True)]
        parts = [np.array_split(task, NUM_BLOCKS) for task in judged]
        blocks = [_all_figures(block) for block in zip(*parts, strict=True)]
    singular = np.linalg.svd(np.stack([task.model["w"] for task in result.tasks]), compute_uv=False)
    nuclear, square = float(singular.sum()), float(np.dot(singular, singular))
    return Outcome(
        status="finished",
        figures=_all_figures(judged),
        tasks=figures_of(judged, "clean")[1],
        seconds=round(seconds, 4),
        digest=result.digest,
        nuclear_norm=nuclear,
        effective_rank=nuclear * nuclear / square if square else None,
        curve=curve_of(rows),
        blocks=blocks,
    )


_JUDGED = np.dtype(
    [("score", "f8"), *((f"{what}_{of}", "f8") for of in ("clean", "seen") for what in ("label", "majority", "loss"))]
)
"""A prediction: its score, and by each kind of label whether the commoner label would have been wrong, and -ln p."""


def judge(rows: Sequence[npt.NDArray[np.void]], probability: Callable[[float], float]) -> list[npt.NDArray[np.void]]:
    """What figures are made of, each task's predictions in order, as `_JUDGED`.

    Args:
        rows: Each task's records of its active rounds.
        probability: As `Algorithm.probability`.
    """
    result = []
    for task in rows:
        judged = np.zeros(len(task), _JUDGED)
        judged["score"] = task["score"]
        for of, name in (("clean", "clean_label"), ("seen", "label")):
            labels = task[name]
            given = np.array([probability(z) for z in (labels * task["score"]).tolist()])
            judged[f"label_{of}"] = labels
            judged[f"majority_{of}"] = majority_wrong(task["label"], labels)
            judged[f"loss_{of}"] = -np.log(np.maximum(given, LEAST_PROBABILITY))
        result.append(judged)
    return result


def _all_figures(judged: Sequence[npt.NDArray[np.void]]) -> dict[str, float | None]:
    """On clean labels, and as ..._seen on those seen."""
    clean, seen = (figures_of(judged, of)[0] for of in ("clean", "seen"))
    return clean | {f"{name}_seen": value for name, value in seen.items()}


def figures_of(
    judged: Sequence[npt.NDArray[np.void]], of: str
) -> tuple[dict[str, float | None], dict[str, list[float | None]]]:
    """The figures over all tasks, and those of each.

    Args:
        judged: Each task's predictions, as `judge` gives them, or some of them.
        of: By which labels: "clean" or "seen".
    """
    label = f"label_{of}"
    counts = np.array([_counts(task["score"], task[label]).sum(axis=0) for task in judged])
    tasks = {
        "error_rate": [_error_rate(task) for task in counts],
        "f1": [_f1(task) for task in counts],
        "auc": [auc(task["score"], task[label]) for task in judged],
    }
    total = counts.sum(axis=0)
    together = np.concatenate(judged)
    figures = {
        "error_rate": _error_rate(total),
        "majority": _mean(together[f"majority_{of}"]),
        "error_rate_macro": macro(tasks["error_rate"])[0],
        "f1": _f1(total),
        "f1_macro": macro(tasks["f1"])[0],
        "auc": auc(together["score"], together[label]),
        "auc_macro": macro(tasks["auc"])[0],
        "log_loss": _mean(together[f"loss_{of}"]),
    }
    return figures, tasks


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None


def curve_of(rows: Sequence[npt.NDArray[np.void]]) -> dict[str, list[float | None]]:
    """Error rate and F1 up to each of some rounds; arguments as for `judge`."""
    last = max((int(task["round"][-1]) for task in rows if len(task)), default=0)
    counted = np.zeros((last + 1, 4), dtype=np.int64)
    for task in rows:
        counted[task["round"]] += _counts(task["score"], task["clean_label"])
    sums = counted.cumsum(axis=0)
    rounds = np.unique(np.linspace(1, last, min(last, CURVE_POINTS)).round().astype(int))
    return {
        "round": rounds.tolist(),
        "error_rate": [_rounded(_error_rate(sums[t])) for t in rounds],
        "f1": [_rounded(_f1(sums[t])) for t in rounds],
    }


def _counts(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """(examples, true positives, false positives, false negatives) of each prediction; sign(0) is +1."""
    said, true = scores >= 0.0, labels > 0.0
    return np.stack([np.ones(len(said), dtype=bool), said & true, said & ~true, ~said & true], axis=1).astype(np.int64)


def _error_rate(counts: npt.NDArray[np.int64]) -> float | None:
    examples, _, false_positives, false_negatives = counts.tolist()
    return (false_positives + false_negatives) / examples if examples else None


def _f1(counts: npt.NDArray[np.int64]) -> float | None:
    _, true_positives, false_positives, false_negatives = counts.tolist()
    relevant = 2 * true_positives + false_positives + false_negatives
    return 2 * true_positives / relevant if relevant else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


# Many of them -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """One run that is wanted."""

    subject: Subject
    config: ClusterConfig
    label: str
    """For people: which learner on which data."""
    part: str = dataclasses.field(default="", kw_only=True)
    """What counts of rows whose order is kept: "head", and no others are learned; "rest", after the head was learned;
    or all."""

    @property
    def key(self) -> str:
        """SHA-256 over all that determines the outcome."""
        parts = (__version__, _OUTCOMES, config_digest(self.config, self.subject.tasks), self.subject.content)
        return hashlib.sha256("\n".join((*parts, self.part)).encode()).hexdigest()

    def prepare(self) -> Prepared:
        """With its data, which is kept in memory for the next one."""
        prepared = prepare(self.config, load_data(self.config))
        if self.part == "head":
            streams = tuple(head_of(stream, self.config.rounds) for stream in prepared.streams)
            prepared = dataclasses.replace(prepared, streams=streams)
        return prepared

    def run(self, stopped: Callable[[], bool]) -> Outcome:
        """Run it; as `run_one`."""
        prepared = self.prepare()
        heads = None
        if self.part == "rest":
            heads = [head_of(stream, self.config.rounds).num_examples for stream in prepared.streams]
        return run_one(prepared, stopped, heads=heads)


def head_of(stream: TaskStream, rounds: int | None) -> TaskStream:
    """The first examples of a stream, a share of `HEAD`, and of several passes whole ones where it is more than one.

    Args:
        rounds: The run has at most so many.
    """
    last = stream.last_round() if rounds is None else min(rounds, stream.last_round())
    spread_over = stream.spread_over
    num_examples = last if spread_over is None else last * stream.num_examples // spread_over
    head = math.floor(HEAD * num_examples)
    passes = max(1, head // max(1, len(stream.labels)))
    kept = np.arange(min(head, len(stream.labels)))
    rows = take(stream.rows, kept)
    over = None if spread_over is None else math.ceil(HEAD * last)
    return TaskStream(rows, stream.labels[kept], stream.clean[kept], over, passes)


class RunsProgress(Protocol):
    """Where many runs show how they go."""

    def start(self, total: int, reused: int) -> None:
        """So many runs are wanted; so many of them were finished before."""

    def update(self, finished: int, label: str) -> None:
        """So many are finished now, the reused among them; the last of them was this one."""

    def say(self, text: str) -> None:
        """Something that a person should know."""


class Runner:
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

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


_stop_here: Event | None = None
"""In a process that runs experiments: set when all shall end."""


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
