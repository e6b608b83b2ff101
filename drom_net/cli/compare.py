"""drom-net compare: experiments of many runs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from drom_net.cli.output import choose_runs_progress, print_table
from drom_net.cli.telling import print_json
from drom_net.cluster.prepare import require_stored
from drom_net.comparison.compare import Comparison, compare
from drom_net.comparison.comparison_data import ComparisonData, comparison_data, named_config
from drom_net.comparison.findings import conclusion, headline, reading, results_on, title_of
from drom_net.comparison.pages import write_report
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import outside_lines, searched_keys
from drom_net.comparison.store import Store
from drom_net.comparison.tuning import Effort, check_learners
from drom_net.config.load import load_config
from drom_net.core.errors import StoppedError, UsageError
from drom_net.plots.base import require_matplotlib
from drom_net.results.report import Report

STORE = "runs.jsonl"


@contextlib.contextmanager
def open_runner(out: Path, *, jobs: int | None, as_json: bool) -> Iterator[Runner]:
    """Runs in processes, `jobs` at a time, kept in a folder as they finish; with progress on the terminal."""
    signal.signal(signal.SIGTERM, _terminated)
    require_matplotlib()  # before hours of runs, not after them
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out: expected a folder, {out} is a file")
    with (
        Store(out / STORE) as store,
        choose_runs_progress(as_json=as_json) as progress,
        Runner(store, num_processes=jobs or _num_cores(), progress=progress) as runner,
    ):
        yield runner


def _terminated(number: int, _: object) -> None:
    raise StoppedError("terminated; what had finished is kept", 128 + number)


def _num_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compare_command(
    what: tuple[str, ...],
    names: str,
    tools: str,
    settings: int,
    tuning_orders: int,
    orders: int,
    jobs: int | None,
    seed: int,
    num_processes: int,
    out: Path,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """`drom-net _terminated`."""
    effort = Effort(settings, tuning_orders, orders, seed)
    if num_processes > orders:
        raise UsageError(f"--processes: expected at most as many as --orders, {orders}; got {num_processes}")
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key.startswith("algorithm.") and key.removeprefix("algorithm.") in searched_keys():
            raise UsageError(f"--set {key}: the comparison searches it for every learner itself")
    datasets = [_dataset(word, overrides) for word in what]
    others = outside_lines(_words(tools))
    chosen = check_learners(_words(names), datasets)
    chosen += tuple(name for name in others if name not in chosen)
    with open_runner(out, jobs=jobs, as_json=as_json) as runner:
        comparison = compare(datasets, chosen, effort, runner, num_processes=num_processes)
    write_report(comparison.report, out, page="report.md")
    for run in comparison.unequal:
        click.echo(f"error: {run}: the processes did not give the digest of the loop", err=True)
    exit_code = 1 if comparison.unequal else 0
    if as_json:
        print_json(report_as_json(comparison.report) | {"out": str(out)})
        return exit_code
    _print(comparison, datasets)
    click.echo(f"report {out / 'report.md'}")
    return exit_code


def _print(comparison: Comparison, datasets: Sequence[ComparisonData]) -> None:
    for dataset in datasets:
        results = results_on(comparison.results, dataset)
        columns, rows = headline(results)
        print_table(columns, rows, title=title_of(results), spare=("F1", "remarks"))
        if how := reading(results):
            click.echo(how)
        click.echo(f"\n{conclusion(results)}\n")
    for line in comparison.closing:
        click.echo(line)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _dataset(word: str, overrides: tuple[str, ...]) -> ComparisonData:
    path = Path(word)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        config = load_config(path, overrides)
        require_stored(config, "a comparison")
        return comparison_data(config)
    if overrides:
        raise UsageError(f"--set replaces values of a YAML file, and {word} is a data set")
    return comparison_data(named_config(word))


def report_as_json(report: Report) -> dict[str, Any]:
    """Its title, text, and tables with a mapping for each row."""
    tables = {
        name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        for name, table in report.tables.items()
    }
    return {"name": report.name, "title": report.title, "text": report.text, "tables": tables}
