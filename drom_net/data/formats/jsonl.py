"""JSON lines: an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from drom_net.algorithms.features import Features
from drom_net.core.errors import did_you_mean
from drom_net.data.cells import shown
from drom_net.data.faults import quoted
from drom_net.data.formats.base import Example, RowALine
from drom_net.data.incoming import SPARSE, RowError, RowReader


class JsonLines(RowALine):
    name = "jsonl"
    line_suffixes = (".jsonl", ".ndjson")
    has_columns = True

    def row(self, text: str, rows: RowReader, *, labelled: bool) -> Example:
        found = parse_json(text)
        if labelled and rows.label not in found:
            hint = did_you_mean(rows.label, found)
            raise RowError("label", f"a key {quoted(rows.label)}", "none", hint)
        return json_row(rows, found), rows.sign(found[rows.label]) if labelled else 0.0

    def unlabelled_row(self, text: str, rows: RowReader, site: str) -> tuple[Features, object]:
        found = parse_json(text)
        return json_row(rows, found), found.get(site) if site else None


def parse_json(text: str) -> dict[str, Any]:
    """A JSON object. Raises RowError for anything else."""
    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise RowError("line", "a JSON object", f"{quoted(text.strip())} ({why})") from None
    if not isinstance(found, dict):
        raise RowError("line", "a JSON object", shown(found))
    return found


def once(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A map of these. Raises RowError where a key is there twice."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RowError(f"key {quoted(str(key))}", "it once", "twice")
        found[key] = value
    return found


def json_row(rows: RowReader, found: Mapping[str, Any]) -> Features:
    """The row in a JSON object: its cells by name, all numbers as "x", or "indices" and "values".

    Raises:
        RowError: It has none, or one that cannot be used.
    """
    schema = rows.preprocessing.schema
    names = set() if schema is None else {column.name for column in schema.columns}
    if "x" in found and "x" not in names:
        return rows.row(found["x"])
    if found.keys() >= SPARSE and SPARSE.isdisjoint(names):
        return rows.row({key: found[key] for key in SPARSE})
    if schema is None:
        raise RowError("line", 'a key "x" with all numbers, or "indices" and "values"', "neither")
    return rows.row(found)
