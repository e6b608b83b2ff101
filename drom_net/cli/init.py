"""drom-net init: from tables to a cluster's file, or a whole example to begin with."""

from __future__ import annotations

import importlib.resources
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from drom_net.cli.output import print_table
from drom_net.cli.telling import print_json, tell
from drom_net.cluster.drafting import (
    ONE_SITE,
    Draft,
    Meant,
    called_so,
    draft,
    label_candidates,
    merge_drafts,
    read_tables,
    site_candidates,
)
from drom_net.config.load import load_config
from drom_net.core.errors import UsageError, did_you_mean, naming
from drom_net.results.summary import write_text

_COLUMNS = ("column", "kind", "missing", "different", "least", "mean", "deviation", "most", "examples")


def init(
    files: tuple[Path, ...],
    site: str | None,
    label: str | None,
    positive: tuple[str, ...],
    negative: tuple[str, ...],
    rest: str | None,
    unlabelled: tuple[str, ...],
    missing: tuple[str, ...],
    merge: bool,
    example: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """`drom-net init`."""
    if example is not None:
        if files or merge:
            raise UsageError("--example brings its own files")
        return _example(example, out or Path(example), force=force, as_json=as_json)
    if not files:
        raise UsageError("missing argument FILE: the table, or tables, to learn from (or --example NAME)")
    meant = Meant(positive or None, negative or None, rest, unlabelled or None)
    if merge:
        return _merge(files, out or Path("cluster.yaml"), meant, force=force, as_json=as_json)
    target = out or Path(f"{files[0].name.partition('.')[0] if len(files) == 1 else 'cluster'}.yaml")
    _require_new(target, force=force)
    if any(target.exists() and file.exists() and target.samefile(file) for file in files):
        raise UsageError(f"-o {target}: expected another file than the tables, got one of them")
    found = read_tables(files, missing=missing)
    label = _column("--label", "the label", label, label_candidates(found, unlabelled), found.names, called_so)
    if site is None and len(files) > 1:
        site = ""
    elif site != ONE_SITE:
        candidates = site_candidates(found, label)
        if candidates or site is not None:
            site = _column("--site", "the site of each row", site, candidates, found.names, called_so)
        else:
            raise UsageError(
                f"--site: no column could be the site of each row; --site {ONE_SITE} says that all are of one"
            )
    if label == site:
        raise UsageError(f"--site and --label: expected two columns, got {label} for both")
    made = draft(found, target, site=site or "", label=label, meant=meant, missing=missing)
    write_text(target, made.text)
    if as_json:
        print_json(_told(target, made))
    else:
        _print(target, made)
    return None


def _told(target: Path, made: Draft) -> dict[str, Any]:
    settings = made.settings
    return {
        "file": str(target),
        "files": settings.files,
        "task_column": settings.task_column,
        "label": settings.label,
        "positive": settings.positive,
        "negative": settings.negative,
        "rest": settings.rest,
        "unlabelled": settings.unlabelled,
        "columns": made.columns,
        "notes": list(made.notes),
    }


def _print(target: Path, made: Draft) -> None:
    print_columns(made.columns)
    click.echo()
    for note in made.notes:
        click.echo(note)
    click.echo(f"wrote {target}\n\nnext:\n  drom-net check {target}\n  drom-net run {target}")


def print_columns(columns: list[dict[str, Any]]) -> None:
    """What `describe_columns` tells, as a table."""

    def cell(value: object) -> str:
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return "-" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)

    rows = [[cell(told[key]) for key in _COLUMNS] for told in columns]
    print_table(_COLUMNS, rows, left=2)


def _column(
    option: str,
    what: str,
    given: str | None,
    candidates: Mapping[str, str],
    names: tuple[str, ...],
    called: Any,
) -> str:
    """The column that is meant: as given, as it is called, or as somebody at the terminal says.

    Raises:
        UsageError: Nobody says it, or there is no such column.
    """
    if given is not None:
        if given not in names:
            hint = did_you_mean(given, names)
            raise UsageError(f'{option}: expected a column, got "{given}"' + (f"; {hint}" if hint else ""))
        return given
    chosen: str = called(candidates, site=option == "--site")
    if chosen:
        tell(f"{option} {chosen}: {candidates[chosen]}")
        return chosen
    listed = "\n".join(f"  {name}: {told}" for name, told in candidates.items()) or "  none has two kinds of cells"
    if candidates and sys.stdin.isatty() and sys.stdout.isatty():
        tell(f"{what} may be\n{listed}")
        answer: str = click.prompt(what, type=click.Choice(list(candidates)), err=True)
        return answer
    raise UsageError(f"{option} COLUMN says which column is {what}; it could be\n{listed}")


def _merge(files: tuple[Path, ...], target: Path, meant: Meant, *, force: bool, as_json: bool) -> None:
    _require_new(target, force=force)
    text = merge_drafts([load_config(file) for file in files], target, meant)
    write_text(target, text)
    if as_json:
        print_json({"file": str(target), "merged": [str(file) for file in files]})
    else:
        click.echo(f"wrote {target}: give it to every site; its next lines are in it")


def _example(example: str, target: Path, *, force: bool, as_json: bool) -> None:
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not force)):
        raise UsageError(f"{target} exists already; -o names another folder, --force overwrites its files")
    source = importlib.resources.files("drom_net") / "examples" / example
    written = []
    for item in sorted(source.iterdir(), key=lambda item: item.name):
        path = target / item.name
        with naming(path):
            target.mkdir(parents=True, exist_ok=True)
            path.write_bytes(item.read_bytes())
        written.append(str(path))
    config = next(path for path in written if path.endswith(".yaml"))
    if as_json:
        print_json({"folder": str(target), "files": written})
        return
    for name in written:
        click.echo(name)
    click.echo(f"\nnext:\n  drom-net check {config}\n  drom-net run {config}")


def _require_new(target: Path, *, force: bool) -> None:
    if target.is_dir() or (target.exists() and not force):
        raise UsageError(f"{target} exists already; -o names another file, --force overwrites it")
