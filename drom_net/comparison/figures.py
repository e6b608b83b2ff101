"""From a run's records to its figures and curves."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drom_net.cluster.plan import algorithm_of
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.run import run_loop
from drom_net.core.errors import DivergedError, StoppedError
from drom_net.learning.calibration import probabilities_of
from drom_net.learning.metrics import LEAST_PROBABILITY, auc, macro, majority_wrong
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import AfterRound, PeersResult, ReferenceResult

OUTCOMES = "2"
"""What is kept of a run: a later number where an `Outcome` says more."""
NUM_BLOCKS = 10
"""The others come in so many blocks, one behind the other."""

CURVE_POINTS = 60


FIGURE_OF = {"error": "error_rate", "auc": "auc_macro", "log_loss": "log_loss"}


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
    judged = judge(rows, algorithm_of(prepared.config, 0).log_odds)
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


def judge(
    rows: Sequence[npt.NDArray[np.void]], log_odds: Callable[[float], float] | None
) -> list[npt.NDArray[np.void]]:
    """What figures are made of, each task's predictions in order, as `_JUDGED`.

    Args:
        rows: Each task's records of its active rounds.
        log_odds: As `Algorithm.log_odds`.
    """
    result = []
    for task in rows:
        judged = np.zeros(len(task), _JUDGED)
        judged["score"] = task["score"]
        for of, name in (("clean", "clean_label"), ("seen", "label")):
            labels = task[name]
            truth, scores, seen = (column.tolist() for column in (labels, task["score"], task["label"]))
            given = np.array(probabilities_of(truth, scores, seen, log_odds))
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
    found, true = scores >= 0.0, labels > 0.0
    columns = [np.ones(len(found), dtype=bool), found & true, found & ~true, ~found & true]
    return np.stack(columns, axis=1).astype(np.int64)


def _error_rate(counts: npt.NDArray[np.int64]) -> float | None:
    examples, _, false_positives, false_negatives = counts.tolist()
    return (false_positives + false_negatives) / examples if examples else None


def _f1(counts: npt.NDArray[np.int64]) -> float | None:
    _, true_positives, false_positives, false_negatives = counts.tolist()
    relevant = 2 * true_positives + false_positives + false_negatives
    return 2 * true_positives / relevant if relevant else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
