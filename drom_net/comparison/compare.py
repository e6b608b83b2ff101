"""Learners compared on data sets: tuned with the same effort, then evaluated on other orders."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drom_net import __version__
from drom_net.cluster.progress import Silent
from drom_net.cluster.run import run as run_cluster
from drom_net.comparison.comparison_data import ComparisonData
from drom_net.comparison.findings import (
    about,
    differences_table,
    figures_table,
    find_differences,
    picture,
    results_on,
    search_table,
    seconds_table,
)
from drom_net.comparison.jobs import Job
from drom_net.comparison.outside import versions
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import is_outside, num_settings
from drom_net.comparison.tuning import (
    Chosen,
    Effort,
    Result,
    Values,
    controls,
    evaluation_runs,
    job_of,
    seeds_of,
    settings_of,
    take,
    tune,
)
from drom_net.core.blas import blas_kernel
from drom_net.core.errors import StoppedError
from drom_net.results.report import Report


def tune_and_evaluate(
    cells: Sequence[tuple[ComparisonData, str]],
    effort: Effort,
    runner: Runner,
    *,
    settings: Callable[[str, Effort], list[Values]] = settings_of,
    job: Callable[[ComparisonData, str, Values, int], Job] = job_of,
) -> list[Result]:
    """Tune each learner on each dataset, and run the best setting in the evaluation orders.

    Args:
        cells: (dataset, name of the learner) of each.
        settings: What is tried, by the learner's name.
        job: Makes the run of a dataset, learner, setting and order.
    """
    return evaluate(tune(cells, effort, runner, settings=settings, job=job), effort, runner, job=job)


def evaluate(
    cells: Sequence[Chosen],
    effort: Effort,
    runner: Runner,
    *,
    job: Callable[[ComparisonData, str, Values, int], Job] = job_of,
) -> list[Result]:
    """Run each learner with its setting in the evaluation orders."""
    seeds = [seeds_of(cell.dataset, effort, effort.evaluation_seeds) for cell in cells]
    jobs = [
        job(cell.dataset, cell.name, cell.chosen.drawn, seed)
        for cell, its_seeds in zip(cells, seeds, strict=True)
        for seed in its_seeds
    ]
    outcomes = evaluation_runs(jobs, runner)
    return [
        Result(cell.dataset, cell.name, cell.trials, cell.chosen, its_seeds, take(outcomes, cell.dataset, its_seeds))
        for cell, its_seeds in zip(cells, seeds, strict=True)
    ]


# The report ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a comparison gives."""

    results: tuple[Result, ...]
    report: Report
    closing: tuple[str, ...]
    """The last lines of the report: what processes gave, and how long it took."""
    unequal: tuple[str, ...]
    """The runs whose processes did not give the digest of the loop; there should be none."""


def compare(
    datasets: Sequence[ComparisonData], names: Sequence[str], effort: Effort, runner: Runner, *, num_processes: int = 0
) -> Comparison:
    """Compare learners on each dataset.

    Args:
        names: The learners.
        num_processes: So many of the evaluation orders are run again as real processes, of every learner that does
            not send examples to other sites, or may; the digest must be that of the loop.
    """
    started = time.monotonic()
    results = tune_and_evaluate([(dataset, name) for dataset in datasets for name in names], effort, runner)
    equal = {
        f"{result.name} on {result.dataset.name}, seed {result.seeds[place]}": _as_processes(result, place, runner)
        for result in results
        if (not result.shares_examples or result.dataset.config.allow_sharing_examples) and not is_outside(result.name)
        for place in range(min(num_processes, len(result.seeds)))
        if result.outcomes[place].status == "finished"
    }
    results += controls(results, runner)
    differences = [row for dataset in datasets for row in find_differences(results_on(results, dataset))]
    unequal = tuple(run for run, same in equal.items() if not same)
    closing = _closing(results, equal, runner, seconds=time.monotonic() - started)
    plain = [name for name in names if num_settings(name, effort.settings) < effort.settings]
    untuned = f" ({', '.join(plain)}: nothing to tune, so one setting.)" if plain else ""
    text = [
        f"Settings are chosen by the labels that a learner sees; all other figures count the clean labels.{untuned}",
        *(line for dataset in datasets for line in ["", *about(results_on(results, dataset), effort)]),
        "",
        "Intervals are of 95 % (Student's t over paired orders, or blocks). They tell of other orders of these "
        "examples, or of other stretches of these files, not of other data, and are not corrected for the number of "
        "comparisons.",
        "",
        *(f"- {line}" for line in closing),
        ", ".join(
            [
                f"- drom-net {__version__}",
                *(versions() if any(map(is_outside, names)) else []),
                f"NumPy {np.__version__}",
                f"BLAS kernel {blas_kernel()}",
            ]
        ),
    ]
    report = Report(
        name="compare",
        title="Learners compared",
        text="\n".join(text),
        tables={
            "compare": figures_table(results),
            "differences": differences_table(differences),
            "search": search_table(results),
            "seconds": seconds_table(results),
        },
        pictures={"differences": picture(datasets, differences)} if differences else {},
    )
    return Comparison(tuple(results), report, closing, unequal)


def _closing(
    results: Sequence[Result], equal: Mapping[str, bool], runner: Runner, *, seconds: float
) -> tuple[str, ...]:
    """What processes gave, and how long it all took."""
    lines = []
    if equal:
        lines.append(f"as real processes: {sum(equal.values())} of {len(equal)} runs gave the digest of the loop")
        left_out = dict.fromkeys(
            r.name for r in results if r.shares_examples and not r.dataset.config.allow_sharing_examples
        )
        if left_out:
            lines.append(f"without {', '.join(left_out)}, as allow_sharing_examples is false")
    lines.append(
        f"{runner.num_run} runs were made and {runner.num_reused} taken from earlier ones; it took "
        f"{seconds:.0f} s, {runner.num_processes} at a time"
    )
    return tuple(lines)


# The same as real processes -----------------------------------------------------------------------


def _as_processes(result: Result, place: int, runner: Runner) -> bool:
    """Whether real processes give the digest of the loop in the evaluation order of this place."""
    job = Job(
        result.dataset, result.config(result.seeds[place]), f"{result.name} on {result.dataset.name} as processes"
    )
    key = f"{job.key} processes"
    record = runner.store.get(key)
    if record is None:
        with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
            out = Path(folder) / "run"
            summary, exit_code = run_cluster(job.prepare(), driver="processes", out=out, progress=Silent())
        if exit_code:
            raise StoppedError("interrupted while runs were repeated as processes; the rest is kept", exit_code)
        record = {"key": key, "label": job.label, "digest": summary["digest"], "seconds": summary["seconds"]}
        runner.store.add(record)
        runner.progress.say(f"{job.label}: {summary['seconds']:.1f} s")
    return bool(record["digest"] == result.outcomes[place].digest)
