"""drom-net data: what there is to learn from, and how to get it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from drom_net.cli.init import print_columns
from drom_net.cli.output import console, print_table
from drom_net.cli.telling import print_json, tell
from drom_net.cluster.drafting import describe_file, table_format
from drom_net.config.load import load_config
from drom_net.core.errors import UsageError, did_you_mean
from drom_net.data.dataset import Dataset
from drom_net.data.dataset import describe as describe_dataset
from drom_net.data.datasets import load_dataset, task_names
from drom_net.data.faults import Faults
from drom_net.data.public.catalog import PUBLIC_SETS, PaperRow, PublicSet
from drom_net.data.public.download import copy_set, fetch_set
from drom_net.data.public.places import cache_folder, check_file, find
from drom_net.data.settings import DATA_SECTIONS, RowSettings
from drom_net.data.stats import prepared_dataset
from drom_net.data.stats import stats as stats_of

_LICENCES = {"files": "your own", "live": "your own", "digits-sites": "CC BY 4.0"}
"""Of what is no public data set."""


def list_datasets(home: Path | None, as_json: bool) -> None:
    """`drom-net data list`."""
    entries = []
    for name, section in DATA_SECTIONS.items():
        entry = PUBLIC_SETS.get(name)
        entries.append(
            {
                "dataset": name,
                "description": " ".join((section.__doc__ or "").split()),
                "tasks": None if issubclass(section, RowSettings) else len(task_names(section(), Path())),
                "measure": entry.measure if entry else "error",
                "licence": entry.terms if entry else _LICENCES.get(name, "-"),
                "here": find(entry, home) is not None if entry else None,
            }
        )
    if as_json:
        print_json(entries)
        return
    rows = []
    for facts in entries:
        entry = PUBLIC_SETS.get(str(facts["dataset"]))
        title = entry.title if entry else str(facts["description"]).partition(":")[0].partition(",")[0].rstrip(".")
        here = {None: "-", True: "yes", False: "no"}[facts["here"]]  # type: ignore[index]
        rows.append([facts["dataset"], str(facts["tasks"] or "-"), facts["measure"], here, title, facts["licence"]])
    print_table(["dataset", "tasks", "measure", "here", "what it is", "licence"], rows, left=6)  # type: ignore[arg-type]


def get(names: tuple[str, ...], home: Path | None, accept_licence: bool, as_json: bool) -> None:
    """`drom-net data get`."""
    entries = [_public_set(name) for name in names]
    rows = []
    for entry in entries:
        tell(f"{entry.name}: {entry.source}\n  licence: {entry.licence}")
        present = find(entry)
        if home is not None:
            copy_set(entry, home, cache_folder())
        elif present is None:
            if entry.restricts and any(file.url for file in entry.files):
                _agree(entry, accept_licence)
            with _Bars() as bars:
                fetch_set(entry, cache_folder(), bars.report)
        else:
            for file in entry.files:
                check_file(present[file.names[0]], file)
        found = find(entry)
        assert found is not None
        rows.append({"dataset": entry.name, "files": [str(path) for path in found.values()]})
    if as_json:
        print_json(rows)
        return
    for one in rows:
        click.echo(f"{one['dataset']}: here and checked: {', '.join(one['files'])}")


def _agree(entry: PublicSet, accepted: bool) -> None:
    """Ask for the licence at a terminal. Raises UsageError where nobody agrees."""
    if accepted:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{entry.name}: its terms restrict what may be done with it; --accept-licence agrees to them")
    if not click.confirm("Do you agree to these terms?", err=True):
        raise UsageError(f"{entry.name}: not downloaded, since its terms were not agreed to")


class _Bars:
    """A bar for each file at a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        screen = console(err=True)
        self._progress = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._known: dict[str, Any] = {}

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, name: str, here: int, size: int | None) -> None:
        if name not in self._known:
            self._known[name] = self._progress.add_task(name, total=size)
        self._progress.update(self._known[name], completed=here, total=size)


def describe(what: str, home: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """`drom-net data _agree`."""
    if _is_table(what):
        columns = describe_file(Path(what))
        if as_json:
            print_json({"file": what, "columns": columns})
        else:
            print_columns(columns)
        return
    absent = PUBLIC_SETS.get(what)
    if absent is not None and not overrides and find(absent, home) is None:
        _describe_absent(absent, as_json)
        return
    dataset = _load(what, home, overrides)
    facts: dict[str, Any] = describe_dataset(prepared_dataset(dataset))
    entry = PUBLIC_SETS.get(dataset.name)
    if entry is not None:
        facts["notes"] = list(entry.notes)
        facts["table_2"] = None if entry.paper is None else table_2(entry.paper, dataset)
    if as_json:
        print_json(facts)
        return
    tasks, notes, table = facts.pop("tasks"), facts.pop("notes", []), facts.pop("table_2", None)
    _print_facts(facts)
    for note in notes:
        click.echo(f"note: {note}")
    click.echo()
    _print_tasks(tasks)
    if table is not None and entry is not None and entry.paper is not None:
        click.echo()
        rows = [[row["number"], f"{row['paper']:,}", f"{row['here']:,}", row["verdict"]] for row in table]
        print_table(["Table 2", entry.paper.name, "here", ""], rows)


def _is_table(what: str) -> bool:
    """Whether this is called like a table."""
    return bool(table_format(Path(what), Faults()))


def _describe_absent(entry: PublicSet, as_json: bool) -> None:
    """What can be said of a public data set without its files."""
    facts: dict[str, Any] = {
        "name": entry.name,
        "description": entry.description,
        "source": entry.source,
        "licence": entry.licence,
        "positive": entry.positive,
        "measure": entry.measure,
        "here": False,
        "notes": list(entry.notes),
    }
    if as_json:
        print_json(facts)
        return
    notes = facts.pop("notes")
    facts["here"] = f"no; drom-net data get {entry.name}"
    if not any(file.url for file in entry.files):
        facts["here"] = "no; it cannot be downloaded"
    _print_facts(facts)
    for note in notes:
        click.echo(f"note: {note}")


def table_2(paper: PaperRow, dataset: Dataset) -> list[dict[str, Any]]:
    """Each number of the paper's row, what it is here, and whether it is met."""
    sizes = [len(task.labels) for task in dataset.tasks]
    here = {
        "tasks": len(sizes),
        "samples": sum(sizes),
        "dims": dataset.dim,
        "largest": max(sizes),
        "smallest": min(sizes),
    }
    rows = []
    for number, value in here.items():
        wanted = getattr(paper, number)
        verdict = "met" if value == wanted else f"missed by {value - wanted:+,}"
        rows.append({"number": number, "paper": wanted, "here": value, "met": value == wanted, "verdict": verdict})
    return rows


def stats(what: str, home: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """`drom-net data _is_table`."""
    facts: dict[str, Any] = stats_of(_load(what, home, overrides))
    if as_json:
        print_json(facts)
        return
    tasks, columns = facts.pop("tasks"), facts.pop("columns")
    _print_facts({key: f"{value:.3f}" if isinstance(value, float) else value for key, value in facts.items()})
    click.echo()
    if columns:
        _print_tasks(columns)
        click.echo()
    _print_tasks(tasks)


def _load(what: str, home: Path | None, overrides: tuple[str, ...]) -> Dataset:
    """The data set that is called `what`, or that of a YAML file."""
    if what in DATA_SECTIONS and not issubclass(DATA_SECTIONS[what], RowSettings) and not overrides:
        return load_dataset(DATA_SECTIONS[what](), base=home or Path())
    if not Path(what).exists():
        named = [name for name, section in DATA_SECTIONS.items() if not issubclass(section, RowSettings)]
        raise _unknown(what, named, " or a YAML file")
    config = load_config(Path(what), overrides)
    return load_dataset(config.data, base=home or config.base)


def _public_set(name: str) -> PublicSet:
    if name not in PUBLIC_SETS:
        raise _unknown(name, list(PUBLIC_SETS))
    return PUBLIC_SETS[name]


def _unknown(what: str, known: list[str], more: str = "") -> UsageError:
    hint = did_you_mean(what, known)
    return UsageError(f'expected one of {", ".join(known)}{more}, got "{what}"' + (f"; {hint}" if hint else ""))


def _print_facts(facts: dict[str, Any]) -> None:
    width = max(map(len, facts))
    for key, value in facts.items():
        click.echo(f"{key.replace('_', ' '):<{width}}  {'-' if value is None else value}")


def _print_tasks(tasks: list[dict[str, Any]]) -> None:
    columns = list(tasks[0])
    shown = [
        [
            "-" if task[key] is None else f"{task[key]:.4g}" if isinstance(task[key], float) else str(task[key])
            for key in columns
        ]
        for task in tasks
    ]
    print_table([column.replace("_", " ") for column in columns], shown)
