"""What looking at tables says of sites and dates that somebody should put right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drom_net.cli import main
from drom_net.data.kinds import Part, find_schema
from drom_net.data.tables import Texts


def write_sites(*names: str) -> None:
    rows = [f'"{name}",{n % 7}.5,{n % 2}' for n in range(20) for name in names]
    Path("t.csv").write_text("\n".join(["site,x,y", *rows]) + "\n")


@pytest.mark.parametrize("command", [("init", "t.csv", "--site", "site", "--label", "y"), ("check", "c.yaml")])
@pytest.mark.parametrize(
    ("names", "note"),
    [
        (("Nord", "nord"), 'sites "Nord" (20 rows) and "nord" (20 rows) are called nearly alike'),
        (("site 1", "Site-1"), '"site 1" (20 rows)'),
        (("Nord ", "Nord", "Ost"), 'site "Nord" is written "Nord " and "Nord": taken for one'),
        (("Nord", "Ost"), ""),
    ],
)
def test_sites_that_may_be_one_are_named(
    names: tuple[str, ...],
    note: str,
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_sites(*names)
    Path("c.yaml").write_text("data: {files: t.csv, task_column: site, label: y}\n")
    assert main(command) == 0
    out = capsys.readouterr().out
    assert note in out
    assert ("nearly alike" in out or "taken for one" in out) == bool(note)


@pytest.mark.parametrize(
    ("cells", "kind", "told"),
    [
        (["2024-01-31", "31.01.2024"], "category", True),
        ([f"2024-01-{n + 1:02d}" for n in range(28)] + [f"{n + 1:02d}.02.2024" for n in range(28)], "identifier", True),
        (["2024-01-31", "31.01.2024", "soon"], "category", False),
        (["2024-01-31", "2024-02-01"], "date", False),
    ],
)
def test_a_column_of_dates_in_two_forms_is_named(cells: list[str], kind: str, told: bool) -> None:
    given = cells if len(cells) > 20 else cells * 20
    part = Part(Texts(np.array([cells.index(cell) for cell in given]), cells), None)
    found = find_schema(["day"], {"day": [part]}, given={})
    assert found.schema.columns[0].kind == kind
    notes = [note for note in found.notes if note.startswith('"day" has dates in several forms ("2024-01-')]
    assert len(notes) == told
    assert not any(note.endswith("; ") for note in found.notes)
