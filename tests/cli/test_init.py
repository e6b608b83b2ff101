"""drom-net init: a file, or one error that says what to add; and other commands point to it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from drom_net.cli import main
from drom_net.config.load import load_config
from drom_net.data.settings import FileData


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    return code, *capsys.readouterr()


def write_table(name: str, columns: str, rows: list[tuple[str, ...]]) -> str:
    Path(name).write_text("\n".join([columns, *map(",".join, rows)]) + "\n")
    return name


def three_labels() -> str:
    words = ("good", "bad", "unclear")
    rows = [(("north", "south")[n % 2], f"{n % 7}.5", words[n % 3]) for n in range(60)]
    return write_table("visits.csv", "site,x,outcome", rows)


LABEL = ("--site", "site", "--label", "outcome")


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_what_fails_leaves_nothing_behind(as_json: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "init", three_labels(), *LABEL, *as_json)
    assert code == 2
    assert 'expected two labels, got 3: "bad" 20, "good" 20, "unclear" 20; ' in err
    assert 'add --positive "bad" --rest negative' in err
    assert not Path("visits.yaml").exists()
    if as_json:
        told = json.loads(out)
        assert [*told] == ["error", "exit_code"] and told["error"] in err.replace("error: ", "")


def test_three_labels_by_options(capsys: pytest.CaptureFixture[str]) -> None:
    said = ("init", three_labels(), *LABEL, "--positive", "good")
    code, out, _ = call(capsys, *said, "--rest", "negative", "--json")
    assert (code, json.loads(out)["rest"]) == (0, "negative")
    data = load_config(Path("visits.yaml")).data
    assert (data.positive, data.negative, data.rest) == (("good",), None, "negative")  # type: ignore[attr-defined]
    code, _, err = call(capsys, *said, "--negative", "bad", "--negative", "unclear")
    assert code == 2 and "visits.yaml exists already" in err and "--force" in err
    table = str(said[1])
    before = Path(table).read_bytes()
    code, _, err = call(capsys, *said, "-o", table, "--negative", "bad", "--negative", "unclear", "--force")
    assert code == 2 and "expected another file than the tables" in err and Path(table).read_bytes() == before
    code, _, _ = call(capsys, *said, "--negative", "bad", "--negative", "unclear", "--force")
    assert code == 0
    data = load_config(Path("visits.yaml")).data
    assert (data.negative, data.rest) == (("bad", "unclear"), None)  # type: ignore[attr-defined]
    assert call(capsys, "check", "visits.yaml")[0] == 0


def test_a_third_label_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    table = three_labels()
    code, _, err = call(capsys, "init", table, *LABEL)
    assert code == 2 and 'if "good" is no label, add --unlabelled "good"' in err
    said = ("init", table, "--site", "site", "--label", "outcome")
    code, out, _ = call(capsys, *said, "--unlabelled", "unclear", "--positive", "good", "--json")
    assert (code, json.loads(out)["unlabelled"]) == (0, ["unclear"])
    data = load_config(Path("visits.yaml")).data
    assert (data.positive, data.negative) == (("good",), ("bad",))  # type: ignore[attr-defined]
    assert data.unlabelled == ("unclear",)  # type: ignore[attr-defined]
    assert call(capsys, "run", "visits.yaml", "--driver", "reference", "--out", "run", "-q")[0] == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert (summary["examples"], summary["unlabelled"]) == (40, 20)
    assert call(capsys, "verify", "run")[0] == 0
    odd = ("--positive", "good", "--negative", "none")
    code, _, err = call(capsys, *said, *odd, "--force")
    assert code == 2 and 'if "bad" and "unclear" are no labels, add --unlabelled "bad" --unlabelled "unclear"' in err


def test_a_site_that_has_one_of_two_labels_yet(capsys: pytest.CaptureFixture[str]) -> None:
    """Its draft is joined with those of other sites."""
    said = ("--site", "-", "--label", "outcome", "--positive", "good", "--negative", "bad")
    for site, word in (("north", "bad"), ("south", "good")):
        table = write_table(f"{site}.csv", "x,outcome", [(f"{n % 7}.5", word) for n in range(20)])
        assert call(capsys, "init", table, *said)[0] == 0
    assert call(capsys, "init", "--merge", "north.yaml", "south.yaml", "-o", "both.yaml")[0] == 0
    data = load_config(Path("both.yaml")).data
    assert (data.positive, data.negative) == (("good",), ("bad",))  # type: ignore[attr-defined]


def test_what_one_site_calls_no_label_and_another_negative(capsys: pytest.CaptureFixture[str]) -> None:
    said = ("--site", "-", "--label", "outcome", "--positive", "yes", "--negative", "no")
    for site, more in (("north", ("--unlabelled", "refused")), ("south", ("--negative", "refused"))):
        rows = [(f"{n % 7}.5", ("yes", "no", "refused")[n % 3]) for n in range(30)]
        assert call(capsys, "init", write_table(f"{site}.csv", "x,outcome", rows), *said, *more)[0] == 0
    merge = ("init", "--merge", "north.yaml", "south.yaml", "-o", "both.yaml", "--force")
    code, _, err = call(capsys, *merge)
    assert code == 2 and not Path("both.yaml").exists()
    assert 'south.yaml: data.negative: expected "no", as in north.yaml, got "no", "refused"' in err
    assert "--negative says which label is -1" in err
    both = ("--negative", "no", "--negative", "refused")
    for options, negative, unlabelled in (
        (both, ("no", "refused"), None),
        (("--positive", "yes", *both), ("no", "refused"), None),
        (("--unlabelled", "refused"), ("no",), ("refused",)),
        (("--negative", "no", "--unlabelled", "refused"), ("no",), ("refused",)),
    ):
        assert call(capsys, *merge, *options)[0] == 0
        data = load_config(Path("both.yaml")).data
        assert (data.positive, data.negative) == (("yes",), negative)  # type: ignore[attr-defined]
        assert data.unlabelled == unlabelled  # type: ignore[attr-defined]
    north = Path("north.yaml")
    north.write_text("".join(line for line in north.read_text().splitlines(True) if "  negative:" not in line))
    code, _, err = call(capsys, *merge)
    assert code == 2
    assert err.splitlines()[0].endswith(
        'north.yaml: data.unlabelled: expected no label of data.negative, as in south.yaml, got "refused"; '
        "--positive, --negative and --unlabelled say what a label is"
    )


def test_a_label_that_is_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    table = write_table("t.csv", "x,outcome", [(f"{n % 7}.5", ("yes", "no")[n % 2]) for n in range(20)])
    said = ("init", table, "--site", "-", "--label", "outcome")
    yes = ("--positive", "yes", "--unlabelled", "yes")
    for options, message in (
        (yes, 'data.unlabelled: expected no label of data.positive, got "yes"'),
        (("--negative", "yes"), "data.positive: expected the label that is +1, beside data.negative, got none"),
    ):
        code, _, err = call(capsys, *said, *options)
        assert (code, err) == (2, f"error: {message}\n")


def test_numbers_that_are_no_label_in_any_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"{n % 7}.5", ("1.0", "0.0", "9.0")[n % 3]) for n in range(30)]
    table = write_table("t.csv", "x,outcome", rows)
    code, _, err = call(capsys, "init", table, "--site", "-", "--label", "outcome")
    assert code == 2 and 'if "9" is no label, add --unlabelled "9"' in err
    for text in ("9", "9.0", " 9.00"):
        code, out, err = call(capsys, "init", table, "--site", "-", "--unlabelled", text, "--force", "--json")
        assert code == 0 and 'outcome: "0" 10 and "1" 10' in err
        assert "10 without a label (predicted, not learned)" in json.loads(out)["notes"][-1]


@pytest.mark.parametrize("command", [("check",), ("run",), ("simulate",), ("compare", "--out", "c")])
def test_a_table_instead_of_a_file_is_pointed_to_init(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, command[0], three_labels(), *command[1:])
    assert code == 2
    assert "visits.csv: expected a cluster's YAML file, got a table; `drom-net init visits.csv`" in err


def readmissions() -> str:
    """The table of the outsider: 207 nein, 133 ja, 16 unbekannt."""
    words = ["nein"] * 207 + ["ja"] * 133 + ["unbekannt"] * 16
    rows = [(("Nord", "Süd")[n % 2], f"{n * 37 % 89}.5", word) for n, word in enumerate(words)]
    return write_table("patienten.csv", "Klinik,Alter,Wiederaufnahme", rows)


def test_a_column_with_three_labels_may_be_the_label(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "init", readmissions(), "--site", "Klinik")
    assert code == 2
    assert '\nerror:   Wiederaufnahme: "nein" 207, "ja" 133 and "unbekannt" 16\n' in err
    # Of those with two labels as well, one is only taken by its name.
    table = write_table("titanic.csv", "class,survived", [("123"[n % 3], "01"[n % 2]) for n in range(60)])
    code, _, err = call(capsys, "init", table, "--site", "-")
    assert code == 2 and 'survived: "0" 30 and "1" 30\n' in err and 'class: "1" 20, "2" 20 and "3" 20\n' in err


def answering(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Somebody at a terminal."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
    monkeypatch.setattr("drom_net.cli.init._asks", lambda: True)


@pytest.mark.parametrize("said", [(), ("--label", "Wiederaufnahme")])
@pytest.mark.parametrize(
    ("none", "meant"),
    [("unbekannt", (("ja",), ("nein",), None, ("unbekannt",))), ("-", (("ja",), None, "negative", None))],
)
def test_a_terminal_is_asked_what_three_labels_mean(
    said: tuple[str, ...], none: str, meant: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, *([] if said else ["Wiederaufnahme"]), "", none, "Klinik")  # "": yes is +1 as offered
    code, _, err = call(capsys, "init", readmissions(), *said)
    assert code == 0, err
    assert 'Wiederaufnahme has 3 kinds of cells: "nein", "ja", "unbekannt"\n' in err
    data = load_config(Path("patienten.yaml")).data
    assert isinstance(data, FileData)
    assert (data.positive, data.negative, data.rest, data.unlabelled) == meant


def test_a_terminal_is_offered_one_site(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "-")
    code, _, err = call(capsys, "init", readmissions(), "--label", "Wiederaufnahme", "--unlabelled", "unbekannt")
    assert code == 0 and "\n  -: all rows are of one site\n" in err
    data = load_config(Path("patienten.yaml")).data
    assert isinstance(data, FileData) and (data.task_column, data.tasks) == (None, ("patienten",))
