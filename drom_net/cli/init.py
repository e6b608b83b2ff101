"""drom-net init: from tables to a cluster's file, or a whole example to begin with."""

from __future__ import annotations

import dataclasses
import importlib.resources
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from drom_net.cli.output import print_table
from drom_net.cli.telling import print_json, tell
from drom_net.cluster.candidates import called_so, label_candidates, label_spellings, site_candidates
from drom_net.cluster.drafting import ONE_SITE, Draft, Meant, Tables, draft, merge_drafts, read_tables
from drom_net.config.load import load_config
from drom_net.core.errors import UsageError, did_you_mean, naming
from drom_net.data.cells import YES
from drom_net.data.faults import quoted
from drom_net.data.labels import NEGATIVE
from drom_net.results.summary import write_text

_COLUMNS = ("column", "kind", "missing", "different", "least", "mean", "deviation", "most", "examples")
_MOST_ASKED = 8
"""With more kinds of labels nobody is asked what each means."""
_NEITHER = "-"


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
    two, three = label_candidates(found, unlabelled)
    called = called_so(two or three, site=False)
    label = _column("--label", "the label", label, two | three, found.names, called)
    meant = _labels(found, label, meant)
    site = _site(found, site, label)
    if label == site:
        raise UsageError(f"--site and --label: expected two columns, got {label} for both")
    made = draft(found, target, site=site, label=label, meant=meant, missing=missing)
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


def _site(found: Tables, given: str | None, label: str) -> str:
    """The column of the sites: `ONE_SITE` where there is none, "" for a file a site.

    Raises:
        UsageError: Nobody says it, or there is no such column.
    """
    if given is None and len(found.paths) > 1:
        return ""
    if given == ONE_SITE:
        return ONE_SITE
    candidates = site_candidates(found, label)
    if not candidates and given is None:
        raise UsageError(f"--site: no column could be the site of each row; --site {ONE_SITE} says that all are of one")
    called = called_so(candidates, site=True)
    offered = candidates | {ONE_SITE: "all rows are of one site"}
    return _column("--site", "the site of each row", given, offered, found.names, called)


def _column(
    option: str,
    what: str,
    given: str | None,
    candidates: Mapping[str, str],
    names: tuple[str, ...],
    called: str,
) -> str:
    """The column that is meant: as given, as it is called, or as somebody at the terminal says.

    Args:
        called: The candidate whose name says that it is the one; empty for none.

    Raises:
        UsageError: Nobody says it, or there is no such column.
    """
    if given is not None:
        if given not in names:
            hint = did_you_mean(given, names)
            raise UsageError(f'{option}: expected a column, got "{given}"' + (f"; {hint}" if hint else ""))
        return given
    if called:
        tell(f"{option} {called}: {candidates[called]}")
        return called
    listed = "\n".join(f"  {name}: {told}" for name, told in candidates.items())
    if candidates and _asks():
        tell(f"{what} may be\n{listed}")
        return _choose(what, list(candidates))
    listed = listed or "  none has two or three kinds of cells"
    raise UsageError(f"{option} COLUMN says which column is {what}; it could be\n{listed}")


def _labels(found: Tables, label: str, meant: Meant) -> Meant:
    """What is said of the labels; where there are more than two, somebody at the terminal adds what is missing."""
    spellings = {its[0]: its for its in label_spellings(found, label, meant.unlabelled or ())}
    if not 2 < len(spellings) <= _MOST_ASKED or meant.negative or meant.rest or not _asks():
        return meant
    tell(f"{label} has {len(spellings)} kinds of cells: {', '.join(map(quoted, spellings))}")
    if meant.positive is None:
        yes = next((text for text in spellings if text.lower() in YES), None)
        meant = dataclasses.replace(meant, positive=spellings[_choose("which is +1", list(spellings), yes)])
    others = {text: its for text, its in spellings.items() if not {*its} & {*(meant.positive or ())}}
    if len(others) < 2:
        return meant
    none = _choose(f"which is no label ({_NEITHER}: all of them are -1)", [*others, _NEITHER])
    if none != _NEITHER:
        meant = dataclasses.replace(meant, unlabelled=(*(meant.unlabelled or ()), *others.pop(none)))
    if len(others) > 1:
        meant = dataclasses.replace(meant, rest=NEGATIVE)
    return meant


def _asks() -> bool:
    """Whether there is somebody at a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _choose(what: str, of: list[str], default: str | None = None) -> str:
    answer: str = click.prompt(what, type=click.Choice(of), default=default, err=True)
    return answer


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
