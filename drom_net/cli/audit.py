"""drom-net audit: what the reducer, a neighbor and another site can compute of the rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from drom_net.cli.output import count_of, print_table, showing_progress
from drom_net.cli.run import load_and_prepare
from drom_net.cli.telling import print_json, shown
from drom_net.cluster.audit import READ, audit
from drom_net.cluster.prepare import require_stored
from drom_net.config.model import what_leaves
from drom_net.results.wording import percent


def audit_command(file: Path, overrides: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """`drom-net audit`."""
    prepared = load_and_prepare(file, overrides)
    require_stored(prepared.config, "an audit")
    with showing_progress(as_json=as_json, quiet=quiet) as progress:
        found = audit(prepared, progress)
    leaves = what_leaves(prepared.config)
    if as_json:
        onlookers = [
            {"who": onlooker.who, "read": onlooker.read}
            | {"share": None if onlooker.read is None or not found.rows else onlooker.read / found.rows}
            | {"lowest_cosine_to_model": onlooker.model, "note": onlooker.note}
            for onlooker in found.onlookers
        ]
        print_json(
            {"learner": prepared.config.algorithm.name, "what_leaves": leaves, "cosine_above": READ}
            | dataclasses.asdict(found)
            | {"onlookers": onlookers}
        )
        return
    rows = []
    for onlooker in found.onlookers:
        read = onlooker.note or "-"
        if onlooker.read is not None and found.rows:
            read = f"{onlooker.read} of {found.rows} ({percent(onlooker.read / found.rows, 1)})"
        model = "-" if onlooker.model is None else f"{onlooker.model:.3f}"
        rows.append([onlooker.who, read, model])
    print_table(["onlooker", "rows read", "model (lowest cosine)"], rows)
    click.echo(
        shown(
            f"\n{prepared.config.algorithm.name}, {count_of(len(prepared.roster.tasks), 'task')}, "
            f"{count_of(found.rows, 'row')}; what leaves: {leaves}\n"
            f"read: a cosine above {READ} to what was computed, at the least; who takes a site's row for its next one "
            f"has {percent(found.alike / found.rows if found.rows else None, 1)}"
        )
    )
