"""drom-net predict: rows of all sites at once, in any encoding that `run` reads, labelled in the file's own words."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import drom_net
from drom_net.cli import main

HEADER = "Café,x,outcome"
ROWS = [(("Nord", "Süd")[n % 2], f"{n % 7 - 3}.5", ("gut, sehr", "schlecht")[n % 7 < 3]) for n in range(80)]


def as_csv(rows: list[tuple[str, ...]], header: str = HEADER) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([header.split(","), *rows])
    return file.getvalue()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(as_csv(ROWS))
    data = "files: t.csv, task_column: Café, label: outcome, positive: 'gut, sehr', negative: schlecht"
    Path("t.yaml").write_text(f"data: {{{data}}}\n")
    assert main(["run", "t.yaml", "--driver", "reference", "--out", "run", "-q"]) == 0
    capsys.readouterr()
    return "run"


def predict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: bytes, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows)))
    code = main(["predict", *arguments])
    return code, *capsys.readouterr()


def test_rows_of_a_file(run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = as_csv([("Nord", "2.5"), ("Süd", "-2.5")], "Café,x")
    Path("new.csv").write_text(text, encoding="utf-8")
    of_file = predict(monkeypatch, capsys, b"", run, "new.csv")
    assert of_file[0] == 0 and of_file[1].count("\n") == 3
    for dash in ((), ("-",)):
        assert of_file == predict(monkeypatch, capsys, text.encode(), run, *dash)
    Path("wrong.csv").write_text("Café,x\nNord,off\n", encoding="utf-8")
    code, _, err = predict(monkeypatch, capsys, b"", run, "wrong.csv")
    assert (code, err) == (2, 'error: wrong.csv:2, column "x": expected a number, got "off"\n')
    code, _, err = predict(monkeypatch, capsys, b"", run, "absent.csv")
    assert code == 2 and "'absent.csv' does not exist" in err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_all_sites_at_once_in_any_encoding(
    encoding: str, run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = as_csv([("Nord", "2.5"), ("Süd", "-2.5"), ("Nord", "-2.5")], "Café,x")
    code, out, err = predict(monkeypatch, capsys, text.encode(encoding), run)
    assert (code, err) == (0, "")
    header, *rows = csv.reader(io.StringIO(out))
    assert header == ["site", "label", "p", "score"]
    assert [(site, label) for site, label, _, _ in rows] == [
        ("Nord", "gut, sehr"),
        ("Süd", "schlecht"),
        ("Nord", "schlecht"),
    ]
    for name, lines in (("Nord", (0, 2)), ("Süd", (1,))):  # each as by its own task's model
        only = as_csv([("2.5",), ("-2.5",), ("-2.5",)], "x").encode(encoding)
        _, out, _ = predict(monkeypatch, capsys, only, run, "--task", name)
        _, *own = csv.reader(io.StringIO(out))
        assert [own[line] for line in lines] == [rows[line][1:] for line in lines]


def test_json_has_the_word_and_the_sign(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = '{"Café": "Süd", "x": 2.5}\n\n{"Café": "Nord", "x": -2.5}\n'
    _, out, _ = predict(monkeypatch, capsys, lines.encode(), run, "--format", "jsonl", "--json")
    told = json.loads(out)
    assert [(one["site"], one["label"], one["sign"]) for one in told] == [
        ("Süd", "gut, sehr", 1),
        ("Nord", "schlecht", -1),
    ]
    assert all((one["score"] >= 0) == (one["p"] >= 0.5) == (one["sign"] > 0) for one in told)


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (b"x\n1\n", (), 'standard input:1: expected one column "Caf'),
        ("Café,x\n1,1\n".encode(), (), 'column "Caf\u00e9": expected one of "Nord", "S\u00fcd"; got "1"'),
        ("Café,x\n,1\n".encode(), (), 'standard input, row 1: expected a site in "Caf'),
        (b"", (), "standard input:1: expected column names, got nothing"),
        (b"x\n1\n", ("--task", "Ost"), 'got "Ost"'),
        (b"x\n1\n", ("--task", "Nord", "--site", "x"), "give one of them"),
        (b"x\n1\n", ("--format", "xml"), '--format: expected one of jsonl, csv, svmlight, got "xml"'),
        ("Café,x\nSüd,1\n".encode() + b"N\xfcrd,1\n", (), "standard input:3: expected UTF-8 text, got byte 0xfc"),
    ],
)
def test_what_is_wrong_is_one_error(
    rows: bytes,
    arguments: tuple[str, ...],
    message: str,
    run: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = predict(monkeypatch, capsys, rows, run, *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_rest_is_not_the_positive_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("good", "bad", "unclear")
    rows = [(f"{n % 7 - 3}.5", words[0 if n % 7 > 3 else 1 + n % 2]) for n in range(80)]
    Path("t.csv").write_text(as_csv(rows, "x,outcome"))
    Path("t.yaml").write_text("data: {files: t.csv, label: outcome, positive: good, rest: negative}\n")
    main(["run", "t.yaml", "--driver", "reference", "--out", "run", "-q"])
    capsys.readouterr()
    _, out, _ = predict(monkeypatch, capsys, b"x\n3.5\n-3.5\n", "run")  # its one task needs no name
    assert [line.split(",")[0] for line in out.splitlines()] == ["label", "good", "not good"]


@pytest.mark.parametrize("rows", [b"", b"\n \n"])
def test_no_rows_of_several_sites_are_one_error(
    rows: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a model of numbers without names, which needs no column names without --site."""
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text("data: {dataset: synthetic, tasks: 2, examples: 20, dim: 3}\n")
    assert main(["run", "t.yaml", "--driver", "reference", "--out", "run", "-q"]) == 0
    capsys.readouterr()
    code, out, err = predict(monkeypatch, capsys, rows, "run", "--site", "S")
    assert (code, out) == (2, "")
    assert 'standard input:1: expected column names, with "S", got nothing' in err


def test_rows_of_other_sites_are_told(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = as_csv([("Nord", "2.5"), ("Süd", "-2.5")], "Café,x").encode()
    code, out, err = predict(monkeypatch, capsys, text, run, "--task", "Nord")
    assert code == 0 and len(out.splitlines()) == 3
    assert 'warning: column "Café" says that 1 of 2 rows are of another site' in err
    assert predict(monkeypatch, capsys, text.replace("Süd".encode(), b"Nord"), run, "--task", "Nord")[2] == ""


def test_all_wrong_cells_are_counted_and_the_first_of_each_column_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(str(n % 7), f"{n % 5}.5", "no" if n % 7 < 3 else "yes") for n in range(40)]
    Path("t.csv").write_text(as_csv(rows, "x,z,ill"))
    Path("t.yaml").write_text("data: {files: t.csv, label: ill}\n")
    assert main(["run", "t.yaml", "--driver", "reference", "--out", "run", "-q"]) == 0
    capsys.readouterr()
    wrong = as_csv([("bad", "worse"), ("1", "2"), ("3", "off"), ("bad", "1"), ("a", "b"), ("1", "o")], "x,z")
    code, out, err = predict(monkeypatch, capsys, wrong.encode(), "run")
    told = [
        "standard input: expected rows that can be used, got 7 faults in 5 of 6 rows",
        'standard input:2, column "x": expected a number, got "bad"',
        'standard input:2, column "z": expected a number, got "worse"',
        'standard input:4, column "z": expected a number, got "off"',
        'standard input:5, column "x": expected a number, got "bad"',
        'standard input:6, column "x": expected a number, got "a"',
        'standard input:6, column "z": expected a number, got "b"',
        "and 1 more",
    ]
    assert (code, out, err) == (2, "", "".join(f"error: {line}\n" for line in told))
    one = predict(monkeypatch, capsys, b"x,z\n1,bad\n2,3\n", "run")[2]
    assert one == 'error: standard input:2, column "z": expected a number, got "bad"\n'
    lines = '{"x": "bad", "z": "bad"}\n' * 9 + '{"x": 1, "z": 2}\n{"x": 1}\n'
    code, out, err = predict(monkeypatch, capsys, lines.encode(), "run", "--format", "jsonl")
    assert (code, out) == (2, "") and "got 19 faults in 10 of 11 rows\n" in err


@pytest.mark.parametrize(("arguments", "told"), [((), "label,p,score\n"), (("--json",), "[]\n")])
def test_a_header_alone_gives_nothing_and_no_error(
    arguments: tuple[str, ...], told: str, run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `Run.predict` of an empty frame: tests/api/test_fit.py."""
    assert predict(monkeypatch, capsys, b"x\n", run, "--task", "Nord", *arguments) == (0, told, "")


def test_both_name_a_label_by_one_rule(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def words(run: str, arguments: tuple[str, ...]) -> list[str]:
        _, out, _ = predict(monkeypatch, capsys, b"x\n-2.5\n2.5\n", run, *arguments)
        found: list[str] = drom_net.load(run).site(0).predict([{"x": -2.5}, {"x": 2.5}]).tolist()
        assert [label for label, *_ in csv.reader(io.StringIO(out))][1:] == found
        return found

    assert words(run, ("--task", "Nord")) == ["schlecht", "gut, sehr"]
    Path("rest.yaml").write_text(
        "data: {files: t.csv, task_column: Café, label: outcome, positive: 'gut, sehr', rest: negative}\n"
    )
    assert main(["run", "rest.yaml", "--driver", "reference", "--out", "rest", "-q"]) == 0
    capsys.readouterr()
    assert words("rest", ("--task", "Nord")) == ["not gut, sehr", "gut, sehr"]
