"""Finished runs survive whatever ends the command that made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from drom_net.comparison.store import Store
from drom_net.core.errors import UsageError


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.jsonl"
    with Store(path) as store:
        store.add({"key": "a", "value": 1.25})
        assert store.get("b") is None
    with Store(path) as store:
        assert store.get("a") == {"key": "a", "value": 1.25}


def test_a_cut_off_last_line_is_dropped_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"key": "a"}\n{"key": "b", "val')
    with Store(path) as store:
        assert len(store) == 1
        store.add({"key": "c"})
    assert path.read_text() == '{"key": "a"}\n{"key": "c"}\n'


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(UsageError, match=r"runs\.jsonl:2: expected a run as JSON"):
        Store(path)


def test_two_commands_do_not_write_into_one_file(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.jsonl"), pytest.raises(UsageError, match="in use by another command"):
        Store(tmp_path / "runs.jsonl")
