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
from drom_net.config.load import load_config
from drom_net.core.errors import ConfigError, DataError
from drom_net.data import formats
from drom_net.data.columns import Column, Schema
from drom_net.data.faults import Faults
from drom_net.data.formats import FORMATS, file_formats, format_of, line_format_of, line_formats
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.row_lines import LineParser, read_rows
from drom_net.data.tables import Source, Wanted

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


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """What an installed package leaves that has the format, where Python looks for packages."""
    about = tmp_path / "site" / "ltsv-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ltsv\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[drom_net.formats]\nltsv = ltsv:Ltsv\n")
    return tmp_path / "site"


def call(folder: Path, *arguments: str, text: str = "", site: Path | None = None) -> str:
    """Standard output of a command where the module of the format is on PYTHONPATH, or its package is installed."""
    places = [Path(ltsv.__file__).parent, Path(drom_net.__file__).parent.parent]
    path = os.pathsep.join(map(str, [site, *places] if site else places))
    done = subprocess.run(
        [sys.executable, "-m", "drom_net", *arguments],
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_class_is_a_format_in_every_command(
    tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue: "A new file format is one class at one seam: shown in a test"; by its name, or as MODULE:ATTRIBUTE."""
    for name in ("ltsv", "csv"):
        (tmp_path / name).mkdir()
    (tmp_path / "csv" / "t.csv").write_text(as_csv(*rows()))
    (tmp_path / "ltsv" / "t.log").write_text(as_ltsv(*rows()))
    (tmp_path / "ltsv" / "t.ltsv").write_text(as_ltsv(*rows()))
    write_config(tmp_path / "csv", "files: t.csv")
    write_config(tmp_path / "ltsv", "files: t.log, format: 'ltsv:Ltsv'")
    run = ("run", "cluster.yaml", "--driver", "reference", "--out", "run", "-q")
    call(tmp_path / "ltsv", "check", "cluster.yaml")
    call(tmp_path / "ltsv", *run)
    described = call(tmp_path / "ltsv", "data", "describe", "t.ltsv", "--json", site=site)
    new = [("north", "0.5", "-2.25", "B", "?"), ("north", "-1", "", "C", "?")]
    predict = ("predict", "run", "--task", "s9", "--format")
    predicted = call(tmp_path / "ltsv", *predict, "ltsv", text=as_ltsv(*new), site=site)
    assert predicted == call(tmp_path / "ltsv", *predict, "ltsv:Ltsv", text=as_ltsv(*new))
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
    at_sites = [("s9", *new[0][1:]), *new[1:]]
    predict = ("predict", "run", "--site", "site")
    predicted = call(tmp_path / "ltsv", *predict, "--format", "ltsv:Ltsv", text=as_ltsv(*at_sites))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(as_csv(*at_sites).encode())))
    assert main(predict) == 0
    assert predicted == capsys.readouterr().out
    assert [line.split(",")[0] for line in predicted.splitlines()] == ["site", "s9", "north"]


def test_one_class_is_a_format_of_live_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMATS", [*FORMATS, ltsv.Ltsv()])
    schema = Schema((Column("age", "number"), Column("dose", "number")), 0)
    reader = RowReader(Preprocessing(schema.width, numbers=2, schema=schema), "ill")
    example = LineParser("ltsv", reader).read(b"dose:2.5\till:1\tage:4\n")
    assert example is not None
    assert example[1] == 1.0
    np.testing.assert_array_equal(example[0], [4.0, 2.5])
    assert line_format_of("events.ltsv") == "ltsv"


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("xslx", 'data.format: expected one of csv, svmlight, npz, parquet, got "xslx"'),
        ("'no_such:X'", "data.format: expected a format of files, as MODULE:ATTRIBUTE, got .*No module named"),
        ("'ltsv:quoted'", 'data.format: .*got "ltsv:quoted", a function; a class that is derived from'),
        ("5", "data.format: expected one of csv, svmlight, npz, parquet or MODULE:ATTRIBUTE, got 5"),
    ],
)
def test_what_is_no_format_is_one_clear_error(format: str, expected: str, tmp_path: Path) -> None:
    write_config(tmp_path, f"files: t.log, format: {format}")
    with pytest.raises(ConfigError, match=expected) as caught:
        load_config(tmp_path / "cluster.yaml")
    assert len(caught.value.problems) == 1


def test_formats_that_can_name_a_site_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RowReader(Preprocessing(2))
    for more, named in ((), "csv, jsonl"), ((ltsv.Ltsv(),), "csv, jsonl, ltsv"):
        monkeypatch.setattr(formats, "FORMATS", [*FORMATS, *more])
        expected = rf"in a format whose columns have names \({named}\), got the format svmlight"
        with pytest.raises(DataError, match=expected):
            read_rows(["1:2 2:3"], format="svmlight", rows=reader, site="site", needs_site=True)


def test_a_format_of_files_alone_reads_no_lines(tmp_path: Path) -> None:
    source = "source: {stdin: true, format: 'drom_net.data.formats.npz:Npz'}\n"
    (tmp_path / "cluster.yaml").write_text(
        f"data: {{dataset: live, tasks: [a], dim: 3, positive: 1, rest: negative}}\n{source}"
    )
    with pytest.raises(ConfigError, match=r"source\.format: expected a format of lines, as MODULE:ATTRIBUTE, got"):
        load_config(tmp_path / "cluster.yaml")


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
