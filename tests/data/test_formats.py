"""A file format is one class: the package's own, and one that only this test knows."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import ltsv
import numpy as np
import pytest

import drom_net
from drom_net.cli import main
from drom_net.data import formats
from drom_net.data.columns import Column, Schema
from drom_net.data.faults import Faults
from drom_net.data.formats import FORMATS, file_formats, format_of, line_format_of, line_formats
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.row_lines import LineParser
from drom_net.data.tables import Source, Wanted

WITH_LTSV = """
import sys
from drom_net.data.formats import FORMATS
from ltsv import Ltsv
FORMATS.append(Ltsv())
from drom_net.cli import main
sys.exit(main())
"""
"""The command line, as it is with one more class among the formats."""
NAMES = ("site", "age", "dose", "ward", "ill")


def rows() -> list[tuple[str, ...]]:
    rng = np.random.default_rng(0)
    drawn = [(rng.choice(["north", "s9"]), *rng.standard_normal(2).tolist(), rng.choice(["A", "B"])) for _ in range(80)]
    return [(str(site), repr(age), repr(dose), str(ward), str(int(age > dose))) for site, age, dose, ward in drawn]


def as_ltsv(*cells: tuple[str, ...]) -> str:
    return "".join("\t".join(f"{name}:{cell}" for name, cell in zip(NAMES, row, strict=True)) + "\n" for row in cells)


def as_csv(*cells: tuple[str, ...]) -> str:
    return "".join(",".join(row) + "\n" for row in (NAMES, *cells))


def write_config(folder: Path, data: str) -> None:
    text = f"data: {{{data}, task_column: site, label: ill}}\nalgorithm: {{name: drom}}\n"
    (folder / "cluster.yaml").write_text(text)


def call(folder: Path, *arguments: str, text: str = "") -> str:
    """Standard output of a command that knows the format."""
    path = os.pathsep.join([str(Path(ltsv.__file__).parent), str(Path(drom_net.__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", WITH_LTSV, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_class_is_a_format_in_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue: "A new file format is one class at one seam: shown in a test"."""
    for name in ("ltsv", "csv"):
        (tmp_path / name).mkdir()
    (tmp_path / "csv" / "t.csv").write_text(as_csv(*rows()))
    (tmp_path / "ltsv" / "t.log").write_text(as_ltsv(*rows()))
    (tmp_path / "ltsv" / "t.ltsv").write_text(as_ltsv(*rows()))
    write_config(tmp_path / "csv", "files: t.csv")
    write_config(tmp_path / "ltsv", "files: t.log, format: ltsv")
    run = ("run", "cluster.yaml", "--driver", "reference", "--out", "run", "-q")
    call(tmp_path / "ltsv", "check", "cluster.yaml")
    call(tmp_path / "ltsv", *run)
    described = call(tmp_path / "ltsv", "data", "describe", "t.ltsv", "--json")
    new = [("north", "0.5", "-2.25", "B", "?"), ("north", "-1", "", "C", "?")]
    predicted = call(tmp_path / "ltsv", "predict", "run", "--task", "s9", "--format", "ltsv", text=as_ltsv(*new))
    monkeypatch.chdir(tmp_path / "csv")
    assert main(run) == 0
    digests = [json.loads((tmp_path / name / "run" / "summary.json").read_text())["digest"] for name in ("ltsv", "csv")]
    assert digests[0] == digests[1]
    capsys.readouterr()
    assert main(("data", "describe", "t.csv", "--json")) == 0
    kinds = [
        [(column["column"], column["kind"]) for column in json.loads(told)["columns"]]
        for told in (described, capsys.readouterr().out)
    ]
    assert kinds[0] == kinds[1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(as_csv(*new).encode())))
    assert main(("predict", "run", "--task", "s9")) == 0
    assert predicted == capsys.readouterr().out
    assert len(predicted.splitlines()) == 3


def test_one_class_is_a_format_of_live_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMATS", [*FORMATS, ltsv.Ltsv()])
    schema = Schema((Column("age", "number"), Column("dose", "number")), 0)
    reader = RowReader(Preprocessing(schema.width, numbers=2, schema=schema), "ill")
    example = LineParser("ltsv", reader).read(b"dose:2.5\till:1\tage:4\n")
    assert example is not None
    assert example[1] == 1.0
    np.testing.assert_array_equal(example[0], [4.0, 2.5])
    found = line_format_of("events.ltsv")
    assert found is not None and found.name == "ltsv"


def test_names_and_suffixes_are_of_one_format() -> None:
    assert len({format.name for format in FORMATS}) == len(FORMATS)
    for of_names in (
        [suffix for format in file_formats().values() for suffix in format.suffixes],
        [suffix for format in line_formats().values() for suffix in format.line_suffixes],
    ):
        assert len(set(of_names)) == len(of_names)
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in of_names)
    for format in file_formats().values():
        assert all(format_of(f"folder.gz/a{suffix.upper()}") is format for suffix in format.suffixes)
        assert all(format_of(f"a{suffix}.zst") is format for suffix in format.suffixes)
    assert format_of("a.unknown") is None
    assert line_format_of("a.parquet") is None


@pytest.mark.parametrize("name", list(file_formats()))
def test_a_format_tells_of_a_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    format, faults = file_formats()[name], Faults()
    path = tmp_path / f"none{format.suffixes[0]}"
    if isinstance(format, formats.TableFormat):
        assert format.header(path, path.name, Wanted(), faults) is None
        assert format.table(path, path.name, Wanted(), faults) is None
    else:
        assert isinstance(format, formats.NumberFormat)
        assert format.table(Source(path, path.name), faults) is None
    assert faults.count > 0
