"""drom-net compare: experiments of many runs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from drom_net.cli import options
from drom_net.cli.output import choose_runs_progress, print_json, print_table
from drom_net.cluster.prepare import require_stored
from drom_net.comparison.compare import Comparison, compare
from drom_net.comparison.findings import conclusion, headline, results_on, title_of
from drom_net.comparison.outside import PACKAGES
from drom_net.comparison.pages import write_report
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import line_names, outside_lines, searched_keys
from drom_net.comparison.store import Store
from drom_net.comparison.subjects import Subject, make_subject, named_config
from drom_net.comparison.tuning import Effort, check_learners
from drom_net.config.load import load_config
from drom_net.core.errors import StoppedError, UsageError
from drom_net.plots.base import require_matplotlib
from drom_net.results.report import Report

STORE = "runs.jsonl"

jobs_option = click.option(
    "--jobs", type=click.IntRange(1), help="How many runs at a time, a process each; by default one for each core."
)


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


@click.command("compare")
@click.argument("what", nargs=-1, required=True)
@click.option(
    "--algorithms",
    "names",
    metavar="NAME,NAME,..",
    default="",
    help=f"The learners, of {', '.join(line_names())}, or of another package as a file names them. By default all and "
    "that of WHAT, but those of peers only beside a file whose learner is one of them.",
)
@click.option(
    "--with",
    "tools",
    metavar="TOOL,TOOL,..",
    default="",
    help=f"Learners of other packages as well, of {', '.join(PACKAGES)}, where these are installed "
    f"({', '.join(PACKAGES.values())}).",
)
@click.option(
    "--settings", type=click.IntRange(1), default=24, show_default=True, help="How many are tried of each learner."
)
@click.option(
    "--tuning-orders", type=click.IntRange(1), default=2, show_default=True, help="Orders on which settings are chosen."
)
@click.option(
    "--orders", type=click.IntRange(1), default=10, show_default=True, help="Other orders, on which they are evaluated."
)
@jobs_option
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="What settings and orders are drawn from."
)
@click.option(
    "--processes",
    "num_processes",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Run so many of the evaluation orders again as real processes, and compare the digests.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder for results and finished runs.")
@options.overrides
@options.as_json
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
    """Compare learners on WHAT, the names of data sets or topology files, with the same tuning for each.

    As many settings are drawn for every learner and chosen on some orders of the examples; the best one is then run on
    other orders. Where rows keep their order (data.shuffle: false) it may be time: settings are then chosen on the
    first 30 % of each site's rows, and evaluated on the others in ten blocks, one behind the other. data.measure says
    by what. Of a topology file data, rounds and graph are used; the parameters that are searched begin at the learner's
    defaults, not at the file's. Every run is the plain loop in one process, so that learners which move raw examples
    can be compared as well; they are marked.

    What is finished stays in OUT/runs.jsonl: after Ctrl-C, or with other options, the same command does only the rest.
    (It does not know when you change the program: then choose another OUT.)

    \b
    Examples:
      drom-net compare digits-sites --out runs/compare
      drom-net compare digits-sites --with river,vw --out runs/compare
      drom-net compare pumps/pumps.yaml --algorithms adadrom,drom,local --settings 40 --out runs/compared
    """
    effort = Effort(settings, tuning_orders, orders, seed)
    if num_processes > orders:
        raise UsageError(f"--processes: expected at most as many as --orders, {orders}; got {num_processes}")
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key.startswith("algorithm.") and key.removeprefix("algorithm.") in searched_keys():
            raise UsageError(f"--set {key}: the comparison searches it for every learner itself")
    subjects = [_subject(word, overrides) for word in what]
    others = outside_lines(_words(tools))
    chosen = check_learners(_words(names), subjects)
    chosen += tuple(name for name in others if name not in chosen)
    with open_runner(out, jobs=jobs, as_json=as_json) as runner:
        comparison = compare(subjects, chosen, effort, runner, num_processes=num_processes)
    write_report(comparison.report, out, page="report.md")
    for run in comparison.unequal:
        click.echo(f"error: {run}: the processes did not give the digest of the loop", err=True)
    exit_code = 1 if comparison.unequal else 0
    if as_json:
        print_json(report_as_json(comparison.report) | {"out": str(out)})
        return exit_code
    _print(comparison, subjects)
    click.echo(f"report {out / 'report.md'}")
    return exit_code


def _print(comparison: Comparison, subjects: Sequence[Subject]) -> None:
    for subject in subjects:
        results = results_on(comparison.results, subject)
        columns, rows = headline(results)
        print_table(columns, rows, title=title_of(results), spare=("F1", "remarks"))
        click.echo(f"\n{conclusion(results)}\n")
    for line in comparison.closing:
        click.echo(line)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _subject(word: str, overrides: tuple[str, ...]) -> Subject:
    path = Path(word)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        config = load_config(path, overrides)
        require_stored(config, "a comparison")
        return make_subject(config)
    if overrides:
        raise UsageError(f"--set replaces values of a topology file, and {word} is a data set")
    return make_subject(named_config(word))


def report_as_json(report: Report) -> dict[str, Any]:
    """Its title, text, and tables with a mapping for each row."""
    tables = {
        name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        for name, table in report.tables.items()
    }
    return {"name": report.name, "title": report.title, "text": report.text, "tables": tables}
