"""The command line as a person or a script meets it."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from processes import CONFIGS
from rich.console import Console

from drom_net.algorithms import BUILTIN
from drom_net.cli import group, main, output
from drom_net.core.errors import UsageError
from drom_net.data.scaling import RunningScaling
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE
from drom_net.protocol.node import TIMES_DTYPE
from drom_net.results import tables
from drom_net.results.outcomes import TaskOutcome, read_task_outcome
from drom_net.results.tables import write_timeline

QUICK = str(CONFIGS / "quickstart.yaml")
LEARNERS = ", ".join(BUILTIN)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DROM_NET_DATA", raising=False)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of one command line."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def make_sites(folder: Path) -> Path:
    """Three sites' CSV files and a configuration of them."""
    rng = np.random.default_rng(0)
    for site in ("a", "b", "c"):
        rows = rng.standard_normal((30, 2))
        lines = [f"{age!r},{pressure!r},{int(age + pressure > 0)}" for age, pressure in rows.tolist()]
        (folder / f"site-{site}.csv").write_text("age,pressure,ill\n" + "\n".join(lines) + "\n")
    config = folder / "sites.yaml"
    config.write_text("algorithm: {name: drom}\ndata: {files: 'site-{task}.csv', label: ill, bias: 0.3}\n")
    return config


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["frobnicate"], "no such command 'frobnicate'; `drom-net --help` tells more"),
        (["run", "--frob"], "no such option '--frob'; `drom-net run --help` tells more"),
        (["data", "get"], "missing argument 'NAME...'; `drom-net data get --help` tells more"),
        (["run"], "missing argument FILE (or --resume RUN_DIR)"),
        (["show", "nowhere"], "nowhere/summary.json is missing: nowhere is not the directory of a finished run"),
    ],
)
def test_all_errors_have_one_form_and_are_json_where_that_is_asked_for(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, *arguments) == (2, "", f"error: {told}\n")
    code, out, err = call(capsys, *arguments, "--json")
    assert (code, json.loads(out), err) == (2, {"error": told, "exit_code": 2}, f"error: {told}\n")


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    def commands(parent: click.Group, path: list[str]) -> list[list[str]]:
        found = []
        for name, command in parent.commands.items():
            found += commands(command, [*path, name]) if isinstance(command, click.Group) else [[*path, name]]
        return found

    paths = commands(group, [])
    assert ["run"] in paths and ["data", "describe"] in paths
    for path in paths:
        code, out, _ = call(capsys, *path, "--help")
        assert code == 0
        assert "Example" in out, path
        assert "drom-net " + " ".join(path) in out, path


def test_exit_codes_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "--help")
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "130", "143"):
        assert f"\n    {code}" in out


def test_a_run_leaves_files_that_other_tools_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    assert (code, out) == (0, "")
    run = tmp_path / "run"
    summary = json.loads((run / "summary.json").read_text())
    for key in ("algorithm", "dataset", "driver", "rounds", "seconds", "error_rate", "f1", "digest"):
        assert summary[key] is not None, key
    assert {"bytes_sent", "bytes_received", "tasks"} <= set(summary)
    with (run / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 90 == summary["examples"]
    errors = sum((float(row["score"]) >= 0) != (float(row["clean_label"]) > 0) for row in rows)
    assert errors == summary["errors"]
    with np.load(run / "model.npz", allow_pickle=False) as model:
        assert model["W"].shape == model["A"].shape == (3, 4)
        assert model["SCALING"].shape == (3, 13), "of two columns of numbers"
        assert list(model["tasks"]) == ["a", "b", "c"]
        assert list(model["features"]) == ["age", "pressure", "hashed 0", "bias"]
    environment = json.loads((run / "environment.json").read_text())
    assert environment["numpy"] == np.__version__
    code, _, err = call(capsys, "check", "run/config.yaml")
    assert (code, err) == (0, "")  # the configuration as run is one that runs


def test_without_out_a_run_takes_the_next_free_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(make_sites(tmp_path))
    for name in ("sites", "sites-2", "sites-3"):
        code, out, _ = call(capsys, "run", config, "--driver", "reference")
        assert code == 0
        assert out.rstrip().endswith(f"run directory runs/{name}")


def test_an_existing_run_directory_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("mine")
    code, _, err = call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run")
    assert code == 2
    assert err == "error: run exists already and is not overwritten; choose another folder, or remove it\n"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


def test_json_is_one_document_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(make_sites(tmp_path))
    code, out, _ = call(capsys, "run", config, "--driver", "reference", "--out", "run", "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["run_directory"] == "run"
    _, out, _ = call(capsys, "show", "run", "--json")
    assert json.loads(out)["digest"] == summary["digest"]
    _, out, _ = call(capsys, "verify", "run", "--json")
    assert json.loads(out)["verified"] is True
    _, out, _ = call(capsys, "check", config, "--json")
    plan = json.loads(out)
    assert [task["examples"] for task in plan["tasks"]] == [30, 30, 30]
    assert plan["bytes_per_sync_round"] == 3 * (plan["push_bytes"] + plan["pull_bytes"])
    assert plan["push_bytes"] - 8 * plan["dim"] < 20  # a vector and a small header
    _, out, _ = call(capsys, "data", "describe", config, "--json")
    assert json.loads(out)["dim"] == 4
    _, out, _ = call(capsys, "data", "list", "--json")
    assert "digits-sites" in [entry["dataset"] for entry in json.loads(out)]


def test_check_starts_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = make_sites(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, out, _ = call(capsys, "check", str(config))
    assert code == 0
    assert "nothing was started" in out
    assert "3 tasks, d = 4, 30 rounds, 30 of them sync rounds" in out
    assert "\ncolumns: number: age, pressure\n" in out
    assert '\nlabels: +1 is "1" (44 rows; it means yes), -1 "0" (46 rows)\n' in out
    assert sorted(tmp_path.iterdir()) == before


def test_check_says_how_often_the_examples_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "check", str(make_sites(tmp_path)), "--set", "data.passes=4")
    assert out.count("  30 x 4\n") == 3
    assert "3 tasks, d = 4, 120 rounds, 120 of them sync rounds" in out
    _, out, _ = call(capsys, "check", str(tmp_path / "sites.yaml"), "--set", "data.passes=4", "--json")
    plan = json.loads(out)
    assert (plan["rounds"], plan["passes"], [task["examples"] for task in plan["tasks"]]) == (120, 4, [120] * 3)


def test_records_are_written_and_verified_piece_by_piece(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = str(make_sites(tmp_path))
    call(capsys, "run", config, "--driver", "simulation", "--out", "whole", "-q")
    monkeypatch.setattr(tables, "_AT_ONCE", 7)
    call(capsys, "run", config, "--driver", "simulation", "--out", "pieces", "-q")
    for name in ("records.csv", "rounds.csv", "timeline.csv"):
        assert Path("whole", name).read_text() == Path("pieces", name).read_text()
    assert call(capsys, "verify", "pieces")[0] == 0


def test_show_sets_runs_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(make_sites(tmp_path))
    call(capsys, "run", config, "--driver", "reference", "--out", "one", "-q")
    call(capsys, "run", config, "--driver", "reference", "--set", "algorithm.name=local", "--out", "two", "-q")
    code, out, _ = call(capsys, "show", "one", "two")
    assert code == 0
    assert "drom error" in out and "local error" in out
    assert "tasks together" in out and "nothing shared" in out
    assert "alone" not in out  # that is a column of one run: what its own experts would have made
    assert "\x1b" not in out  # no colour in a pipe
    call(capsys, "run", config, "--driver", "reference", "--set", "algorithm.name=adadrom", "--out", "three", "-q")
    _, out, _ = call(capsys, "show", "three", "two")
    *_, last = out.splitlines()
    assert " alone" in out and last.startswith("alone: by those experts of adadrom") and "local is another" in last


@pytest.mark.parametrize("what", ["score", "label", "sigma", "W"])
def test_verify_finds_what_was_changed(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    assert call(capsys, "verify", "run")[0] == 0
    run = tmp_path / "run"
    if what == "W":
        with np.load(run / "model.npz") as file:
            arrays = dict(file)
        arrays["W"][1, 1] = np.nextafter(arrays["W"][1, 1], 1.0)
        np.savez(run / "model.npz", **arrays)
    else:
        path = run / ("rounds.csv" if what == "sigma" else "records.csv")
        lines = path.read_text().splitlines()
        fields = lines[20].split(",")
        column = {"score": 4, "label": 5, "sigma": 1}[what]
        fields[column] = repr(np.nextafter(float(fields[column]), 9.0).item())
        path.write_text("\n".join([*lines[:20], ",".join(fields), *lines[21:]]) + "\n")
    code, _, err = call(capsys, "verify", "run")
    assert code == 1
    assert err.startswith("error: run is not as it was written: its summary says digest ")


@pytest.mark.parametrize("name", ["summary.json", "model.npz", "records.csv"])
def test_a_damaged_run_directory_is_told(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes()[:100])
    code, _, err = call(capsys, "verify", "run")
    assert code == 2
    assert "damaged" in err
    path.unlink()
    code, _, err = call(capsys, "verify", "run")
    assert code == 2
    assert name in err


def test_parquet_records_verify_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    arguments = ["run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q"]
    assert call(capsys, *arguments, "--records", "parquet")[0] == 0
    assert (tmp_path / "run" / "records.parquet").exists()
    assert call(capsys, "verify", "run")[0] == 0


def write_times(run: Path, *, file_format: str = "csv") -> None:
    """The timeline of a run of three tasks, by the clock of processes; the loop itself reads none."""
    outcomes = []
    for task, name in enumerate("abc"):
        said, closed = 1.7e9 + 1.25 + task, 1.7e9 + 4.5
        rows = [(0, 1.7e9, 1.7e9, 1.7e9), (1, said, said, closed), (30, closed + 1.0, closed + 1.0, closed + 1.0)]
        no_rows = np.zeros(0, dtype=TASK_DTYPE)
        times = np.array(rows, dtype=TIMES_DTYPE)
        outcomes.append(TaskOutcome(name, True, 30, b"", Totals(), {}, no_rows, times=times))
    write_timeline(run, outcomes, file_format=file_format)


def test_the_loop_has_no_timeline_and_show_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    assert not (tmp_path / "run" / "timeline.csv").exists()
    _, out, _ = call(capsys, "show", "run", "--json")
    summary = json.loads(out)
    assert summary["waiting_share"] is None
    assert [(task["waiting_s"], task["learning_s"]) for task in summary["tasks"]] == [(None, None)] * 3
    code, out, err = call(capsys, "show", "run", "--timeline", "a.png")
    assert (code, out) == (2, "")
    assert err == "error: run has no timeline: the plain loop (--driver reference) has no clock\n"
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_show_draws_the_timeline(file_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    if file_format == "parquet":
        pytest.importorskip("pyarrow")
    config = str(make_sites(tmp_path))
    ring = ("--set", "algorithm.name=drom-d", "--set", "algorithm.exchange=delayed", "--set", "topology.graph=ring")
    for out, more in (("star", ()), ("ring", ring)):
        assert call(capsys, "run", config, "--driver", "reference", "--out", out, "-q", *more)[0] == 0
        write_times(tmp_path / out, file_format=file_format)
    code, out, err = call(capsys, "show", "star", "--timeline", "a.svg")
    assert (code, err) == (0, "")
    assert out.rstrip().endswith("picture a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "sites: drom" in text
    # All begin at 0 and say their words at 1.25, 2.25 and 3.25; the reducer answers at 4.5, and they end at 5.5.
    assert "local 59 %, communication 23 %, idle 18 %" in text
    code, out, err = call(capsys, "show", "star", "ring", "--timeline", "b.svg", "--to", "0.5", "--json")
    assert (code, err) == (0, "")
    assert [summary["algorithm"] for summary in json.loads(out)] == ["drom", "drom-d"]
    text = (tmp_path / "b.svg").read_text()
    assert "<!-- star -->" in text
    assert "<!-- ring -->" in text
    assert "local 59 %, communication 41 %, idle 0 %" in text  # delayed: the first sync round waits for no word
    code, _, err = call(capsys, "show", "star", "--timeline", "c.png", "--from", "9")
    assert code == 2
    assert err == "error: cannot draw from 9 s to 5.5 s: the run goes from 0 s to 5.5 s\n"


def test_a_damaged_timeline_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    write_times(tmp_path / "run")
    path = tmp_path / "run" / "timeline.csv"
    whole = path.read_bytes()
    head, *rows = whole.splitlines(keepends=True)
    path.write_bytes(whole.replace(b",sent_s,", b",said_s,"))  # as earlier versions wrote it
    assert call(capsys, "show", "run", "--timeline", "t.png")[0] == 0
    for content, reason in (
        (b"", "expected the columns task, name, round, sent_s, idle_s, closed_s, got ''"),
        (b"task,name\n", "expected the columns task, name, round, sent_s, idle_s, closed_s, got 'task, name'"),
        (head, "expected rows of a up to round 30, got up to round 0"),
        (head + b"".join(rows[:4]), "expected rows of b up to round 30, got up to round 0"),
        (whole[:-2], "row 10: expected times that go on from round 1 at 4.5 s"),
        (whole[:-9], "row 10: expected 6 values, got 4"),
        (head + b"0,a,x,0,0,0\n", "row 2: expected numbers, got 0, x, 0, 0, 0"),
        (
            head + b"0,a,0,nan,0,0\n",
            "row 2: expected times that go on from round 0 at 0 s, got round 0 at nan, 0 and 0 s",
        ),
        (head + b"0,a,0,-1,0,0\n", "row 2: expected times that go on from round 0 at 0 s"),
        (head + b"0,a,0,0,0,inf\n", "row 2: expected times that go on from round 0 at 0 s"),
        (head + b"-1,c,0,0,0,0\n", "row 2: expected a task of the run with its name, got -1, c"),
        (head + b"0,b,0,0,0,0\n", "row 2: expected a task of the run with its name, got 0, b"),
        (b"\x00\x01\xff" * 40, ""),
    ):
        path.write_bytes(content)
        code, _, err = call(capsys, "show", "run", "--timeline", "a.png")
        assert code == 2
        assert err.startswith(f"error: the timeline in run is damaged: {reason}"), err
    path.unlink()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary | {"driver": "processes"}))
    code, _, err = call(capsys, "show", "run", "--timeline", "a.png")
    assert (code, err) == (
        2,
        "error: run has no timeline: timeline.csv is missing, which a run by driver processes writes\n",
    )
    assert not (tmp_path / "a.png").exists()


def test_runs_of_different_tasks_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, tasks in (("two", "2"), ("three", "3")):
        (tmp_path / "some.yaml").write_text(
            f"algorithm: {{name: local}}\ndata: {{dataset: synthetic, tasks: {tasks}, examples: 9}}\n"
        )
        assert call(capsys, "run", "some.yaml", "--driver", "reference", "--out", name, "-q")[0] == 0
    assert call(capsys, "show", "two", "three")[2] == "warning: three has other tasks than two\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["run", "--records", "parquet"], "Parquet needs pyarrow"),
        (["simulate", "--out", "taken"], "taken exists already and is not overwritten"),
        (["simulate", "--draw", "no/a.png"], "no/a.png: there is no folder no"),
        (["simulate", "--draw", "taken/folder.png"], "taken/folder.png cannot be written"),
        (["simulate", "--from", "1"], "--from and --to choose what --draw draws"),
        (["check", "--round", "5ms"], "--round tells with --latency"),
        (["simulate", "--partition", "a|a,b@1s..2s"], "--partition: expected each node in one group, got a twice"),
        (["simulate", "--partition", "a,b,c,reducer@1s..2s"], "--partition: expected nodes that are apart"),
        (["simulate", "--stragglers", "10%:0x"], "expected a share and a factor above 0"),
        (["simulate", "--stragglers", "0%:5x"], "expected a share and a factor above 0"),
        (["simulate", "--pause", "a@1s+0s"], "--pause: expected a time above 0"),
        (
            ["simulate", "--crash", "a@1s+2s", "--crash", "0@2s+9s"],
            "--crash: expected a time at which a is there, got 2 s: it is down from 1 s to 3 s",
        ),
        (["simulate", "--crash", "a@1s+2s", "--pause", "0@2s+9s"], "--pause: expected a time at which a is there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_told_before_any_work(
    command: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = str(make_sites(tmp_path))
    (tmp_path / "taken" / "folder.png").mkdir(parents=True)

    def no_work(*arguments: object, **options: object) -> None:
        raise AssertionError("it has begun to work")

    for module, name in (("simulate", "forecast"), ("run", "run_prepared")):
        monkeypatch.setattr(f"drom_net.cli.{module}.{name}", no_work)
    if "parquet" in command:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = call(capsys, command[0], config, *command[1:])
    assert (code, out) == (2, "")
    assert message in err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_simulation_ran_on_is_kept_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    config = str(make_sites(tmp_path))
    faults = ("--crash", "b@0.2s+0.1s", "--pause", "reducer@0.4s+0.1s", "--partition", "a|c@0.6s..0.7s")
    drawn = ("--draw", "a.svg", "--round", "5ms", "--latency", "lognormal(20ms,0.5)", "--stragglers", "34%:2x")
    code, _, err = call(capsys, "simulate", config, "--out", "run", "--sim-seed", "3", *faults, *drawn)
    assert (code, err) == (0, "")
    kept = json.loads((tmp_path / "run" / "simulation.json").read_text())
    assert (kept["sim_seed"], kept["latency"], kept["round"], kept["loss"]) == (
        3,
        "lognormal(0.02s,0.5)",
        "0.005s",
        0.0,
    )
    assert kept["stragglers"] == [{"share": 0.34, "factor": 2.0}]
    assert list(kept["slow_tasks"].values()) == [2.0]
    assert kept["faults"] == [
        {"what": "crash", "where": "b", "from_s": 0.2, "to_s": pytest.approx(0.3)},
        {"what": "pause", "where": "reducer", "from_s": 0.4, "to_s": 0.5},
    ]
    assert kept["partitions"] == [{"groups": [["a"], ["c"]], "from_s": 0.6, "to_s": 0.7}]
    assert call(capsys, "show", "run", "--timeline", "b.svg")[0] == 0
    text = (tmp_path / "b.svg").read_text()
    for word in ("sites: drom (simulated)", "of the virtual clock", "crash, partition, pause"):
        assert f"<!-- {word}" in text or word in text, word
    for lane in ("a", "b", "c", "reducer", "network"):
        assert f"<!-- {lane} -->" in text
    # The legend's, and as many lanes, are hatched in both pictures.
    assert (tmp_path / "a.svg").read_text().count("url(#h") == text.count("url(#h") >= 4


def test_simulate_tells_what_of_its_faults_did_not_happen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = ("--crash", "b@1min+1s", "--pause", "reducer@2min+1s", "--partition", "a|c@3min..4min")
    code, _, err = call(capsys, "simulate", str(make_sites(tmp_path)), *faults, "--stragglers", "1%:5x", "-q")
    assert code == 0
    lines = err.splitlines()
    assert lines[0] == "warning: --stragglers: 1 % of 3 tasks is none"
    for line, what in zip(lines[1:], ("crash of b at 60", "pause of reducer at 120", "partition at 180"), strict=True):
        assert line.startswith("warning: the run was over after ")
        assert line.endswith(f"s: the {what} s did not happen")


def test_simulate_without_times_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "simulate", str(make_sites(tmp_path)), "--latency", "0")
    assert code == 0
    assert "nothing took any time, so nobody waited" in out
    assert "--round tells how long one takes" in err


def test_simulate_warns_of_a_tau_that_is_longer_than_a_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = ("--set", "algorithm.name=drom-d", "--set", "topology.graph=ring", "--set", "algorithm.tau=99")
    code, _, err = call(capsys, "simulate", str(make_sites(tmp_path)), *ring, "--no-compare", "-q")
    assert code == 0
    assert err.startswith("warning: tau = 99 is longer than the stream of a (30), b (30), c (30): such a task ends")


def test_the_summary_of_an_earlier_version_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    path = tmp_path / "run" / "summary.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps(summary | {"waiting_share": 0.12345}))
    assert "waited for others 12.3 % of the time\nwhat leaves: " in call(capsys, "show", "run")[1]
    del summary["waiting_share"]
    path.write_text(json.dumps(summary))
    code, out, _ = call(capsys, "show", "run")
    assert code == 0
    assert "waited" not in out


def test_predict_labels_rows_from_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    text = "pressure,name,age\n3,x,2\n-1,y,-5\n"  # another order, and a column that is no feature
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = call(capsys, "predict", "run", "--task", "b")
    assert code == 0
    header, *lines = out.splitlines()
    assert header == "label,p,score"
    with np.load(tmp_path / "run" / "model.npz") as model:
        w, scaling = model["W"][1], RunningScaling(2, model["SCALING"][1])
    trained = np.loadtxt(tmp_path / "site-b.csv", delimiter=",", skiprows=1)[:, :2]
    for line, numbers in zip(lines, ([2.0, 3.0], [-5.0, -1.0]), strict=True):
        label, p, score = line.split(",")
        assert float(p) == pytest.approx(1.0 / (1.0 + math.exp(-float(score))), rel=1e-5)
        scaled = (np.array(numbers) - trained.mean(axis=0)) / trained.std(axis=0)
        np.testing.assert_allclose(scaling.look(np.array(numbers)), np.clip(scaled, -5.0, 5.0), rtol=1e-12)
        row = np.array([*np.clip(scaled, -5.0, 5.0), 0.0, 0.3])
        expected = float(row / np.linalg.norm(row) @ w)
        assert float(score) == pytest.approx(expected, rel=1e-10)
        assert label == ("1" if expected >= 0 else "0")  # as its files have it


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age\n1\n", "pressure"),
        ("age,pressure\n1,x\n", 'standard input:2, column "pressure": expected a number, got "x"'),
        ("age,pressure\n1\n", "standard input:2"),
        ("", "standard input"),
    ],
)
def test_predict_tells_what_is_wrong_with_the_rows(
    text: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, err = call(capsys, "predict", "run", "--task", "b")
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "algorithm: {name: drum}",
            f'algorithm.name: expected one of {LEARNERS}, got "drum"; did you mean "drom"?',
        ),
        ("algorithm: {name: drom, eta: 3}", "algorithm.eta: expected"),
        ("algorithm: {name: drom, eta0: fast}", 'algorithm.eta0: expected a number above 0, got "fast"'),
        ("algorithm: {name: drom, eta0: 1000}", "expected eta0 * lambda of at most 2, got 1000 * 0.003 = 3"),
        ("rounds: 0", "rounds: expected a whole number of at least 1, got 0"),
        ("sed: 1", 'got "sed"; did you mean "seed"?'),
        ("reducer: {endpoint: localhost}", 'reducer.endpoint: expected tcp://host:port or ipc://path, got "localhost"'),
        ("timeouts: {join_s: -1}", "timeouts.join_s: expected a number"),
        ("data: [1, 2]", "data: expected"),
        ("data: {files: nowhere.csv}", "nowhere.csv"),
        ("seed: {", "sites.yaml:"),
    ],
)
def test_a_bad_configuration_is_one_clear_error_and_starts_nothing(
    change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue, "must show" 4."""
    config = make_sites(tmp_path)
    key = change.partition(":")[0]
    kept = [line for line in config.read_text().splitlines() if not line.startswith(f"{key}:")]
    config.write_text("\n".join([*kept, change]) + "\n")
    before = sorted(tmp_path.iterdir())
    code, out, err = call(capsys, "run", str(config))
    assert (code, out) == (2, "")
    assert message in err
    assert all(line.startswith("error: ") for line in err.splitlines())
    assert sorted(tmp_path.iterdir()) == before


GOOD = "age,pressure,ill\n1,2,0\n3,4,1\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD.replace("ill", "sick"), 'site-b.csv:1: expected a label column "ill"'),
        (GOOD.replace("3,4", "3,x"), 'site-b.csv:3, column "pressure": expected a number, got "x"'),
        (
            GOOD.replace("4,1", "4,3"),
            'site-{task}.csv, column "ill", "3" in site-b.csv: expected two labels, got 3: "0" 33, "1" 28, "3" 1;',
        ),
        (GOOD.replace("3,4", "3,inf"), 'site-b.csv:3, column "pressure": expected a finite number, got inf'),
        (GOOD.replace("3,4,1", "3,4"), "site-b.csv:3: expected 3 fields, as in the header, got 2"),
        ("", "site-b.csv"),
        (GOOD.replace("age,", "age,weight,").replace("1,2", "1,9,2").replace("3,4", "3,9,4"), "site-b.csv"),
        (None, "site-b.csv"),
    ],
)
def test_a_bad_data_file_is_one_clear_error_and_starts_nothing(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong column, text in a number, a third label, an infinite number, ragged, empty, two dims, missing task."""
    config = make_sites(tmp_path)
    more = "label: ill, tasks: [a, b, c], columns: {age: number, pressure: number}"
    config.write_text(config.read_text().replace("label: ill", more))
    bad = tmp_path / "site-b.csv"
    bad.unlink()
    if content is not None:
        bad.write_text(content)
    before = sorted(tmp_path.iterdir())
    code, out, err = call(capsys, "run", str(config))
    assert (code, out) == (2, "")
    assert message in err
    assert all(line.startswith("error: ") for line in err.splitlines())
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv.gz", b"age,ill\n1,0\n", "rows.csv.gz"),
        ("rows.svm", b"1 1:2 3:1\n-1 0:3 2:1\n", "rows.svm:2"),
    ],
)
def test_a_gz_that_is_none_and_a_wrong_index_are_told(
    name: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue, "must show" 4: gz that is not, svmlight index 0 in a one-based file."""
    (tmp_path / name).write_bytes(content)
    config = tmp_path / "bad.yaml"
    more = ", format: svmlight, dim: 3" if name.endswith("svm") else ", label: ill"
    config.write_text(f"algorithm: {{name: drom}}\ndata: {{files: {name}{more}}}\n")
    code, out, err = call(capsys, "run", str(config))
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "."], "summary.json is missing: . is not the directory of a finished run"),
        (["verify", "nowhere"], "nowhere/summary.json is missing"),
        (["run", "nowhere.yaml"], "nowhere.yaml: expected a YAML file, got no such file"),
        (["run", QUICK, "--set", "rounds"], "--set: expected key=value"),
        (["data", "describe", "digit-sites"], 'got "digit-sites"; did you mean "digits-sites"?'),
        (["merge", "."], "has no folder nodes/"),
        (["run", QUICK, "--set", "reducer.endpoint=tcp://a:1", "--set", "reducer.bind=tcp://0.0.0.0:1"], "--insecure"),
        (["check", QUICK, "--set", "timeouts.resend_cap_s=0.1"], "resend_cap_s of at least resend_after_s"),
        (["predict", ".", "--task", "0"], "model.npz is missing"),
        (["show", "a", "--to", "3"], "--from and --to choose what --timeline draws"),
        (["show", "a", "--timeline", "b.jpg"], "b.jpg: expected a name that ends in .png or .svg"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_node_that_has_not_ended_is_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_task_outcome(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'result.json'} is missing: that node has not ended in order; "
        "start it again with the same command, and merge when it has ended"
    )


def test_the_literal_parameters_of_the_paper_warn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", QUICK, "--driver", "reference", "--set", "rounds=3", "-q"]
    _, _, err = call(capsys, *arguments, "--out", "literal", "--set", "algorithm.preset=paper")
    assert "with them DROM predicts at chance" in err
    _, _, err = call(capsys, *arguments, "--out", "usual")
    assert err == ""


def test_too_many_tasks_for_this_process_are_refused_before_the_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    code, _, err = call(capsys, "run", QUICK, "--out", "run")
    assert code == 2
    assert "12 tasks need about" in err and "ulimit -n" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["osmtl", "pooled"])
@pytest.mark.parametrize("command", ["run", "check", "reducer", "worker"])
def test_a_learner_that_sends_examples_needs_a_permission(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, command: str
) -> None:
    """decisions.md: "`run --driver processes` refuses them unless the file says `allow_sharing_examples: true`"."""
    config = make_sites(tmp_path)
    config.write_text(config.read_text().replace("drom", name))
    before = sorted(tmp_path.iterdir())
    code, out, err = call(capsys, command, str(config), *(["--task", "a"] if command == "worker" else []))
    assert (code, out) == (2, "")
    expected = f"expected true, for {name} sends every example to other sites, got false; the plain loop"
    assert err.startswith(f"error: {config}: allow_sharing_examples: {expected}")
    assert sorted(tmp_path.iterdir()) == before
    assert call(capsys, "run", str(config), "--driver", "reference", "--quiet")[0] == 0


@pytest.mark.process
def test_a_learner_that_may_send_examples_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = make_sites(tmp_path)
    config.write_text(config.read_text().replace("drom", "pooled") + "allow_sharing_examples: true\n")
    for arguments in (["check", str(config)], ["run", str(config), "--out", "run"]):
        code, _, err = call(capsys, *arguments)
        assert code == 0
        assert "warning: pooled sends every example to other sites (allow_sharing_examples: true)\n" in err
    assert main(["verify", "run"]) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("error_rate", 0.0001), ("errors", 1), ("f1", 1.0)),
        *(("majority_error_rate", 0.9), ("majority_errors", 1), ("auc", 1.0), ("log_loss", 0.1)),
    ],
)
def test_verify_checks_the_figures_that_people_read(
    key: str, value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q")
    path = tmp_path / "run" / "summary.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps(summary | {key: value}))
    code, _, err = call(capsys, "verify", "run")
    assert code == 1
    assert f"all: {key} {value}, records say {summary[key]}" in err


def run_adadrom(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What `run` prints of three sites that are learned by AdaDROM."""
    config = str(make_sites(tmp_path))
    code, out, _ = call(
        capsys, "run", config, "--driver", "simulation", "--out", "run", "--set", "algorithm.name=adadrom", *more
    )
    assert code == 0
    return out


def test_a_run_says_what_sharing_gained_each_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run_adadrom(tmp_path, capsys)
    lines = out.splitlines()
    columns = "task  examples  error rate  majority  AUC  log loss  alone  gain  sharing  F1  shared  noise"
    assert lines[0].split() == columns.split()
    assert max(map(len, lines[:5])) <= 100
    _, shown, _ = call(capsys, "show", "run")
    assert shown + "run directory run\n" == out
    _, text, _ = call(capsys, "show", "run", "--json")
    summary = json.loads(text)
    assert [line for line in lines if line in summary["verdict"]] == summary["verdict"] != []
    for line, task in zip(lines[1:], [*summary["tasks"], summary | {"name": "all"}], strict=False):
        its = task["sharing"]
        assert its["gain_points"] == pytest.approx(100 * (its["error_rate_alone"] - its["error_rate"]))
        cells = [task["name"], f"{100 * its['error_rate_alone']:.2f} %", f"{its['gain_points']:+.2f}"]
        cells += [f"{100 * its['weight']:.1f} %", f"{100 * its['noise']:.1f} %"]
        shown = {"helps": "helps", "hurts": "hurts", "cannot tell yet": "?"}[its["effect"]]
        cells.append(shown + " (log loss)" * (its["effect_by"] == "log loss"))
        assert its["gain_nats_interval"][0] <= its["gain_nats"] <= its["gain_nats_interval"][1]
        assert all(cell in line for cell in cells)


def test_flipped_labels_have_a_column_and_the_verdict_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run_adadrom(tmp_path, capsys, "--set", "data.flip=0.2")
    assert out.splitlines()[0].split()[4:8] == ["majority", "on", "seen", "labels"]
    assert " alone, by the labels seen, " in out


def test_a_run_of_an_earlier_version_is_shown_and_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_adadrom(tmp_path, capsys)
    path = tmp_path / "run" / "summary.json"
    summary = json.loads(path.read_text())
    later = ("majority_errors", "majority_error_rate", "seen_positives", "auc", "auc_macro", "auc_macro_tasks")
    for said in (summary, *summary["tasks"]):
        for key in (*later, "log_loss", "log_loss_sum", "verdict"):
            said.pop(key, None)
    summary["sharing"]["verdict"] = "sharing helped, it said"
    path.write_text(json.dumps(summary))
    code, out, _ = call(capsys, "show", "run")
    assert code == 0
    assert out.splitlines()[1].split()[4:7] == ["-", "-", "-"]
    assert "\nsharing helped, it said\n" in out
    assert call(capsys, "show", "run", "run")[0] == 0
    assert call(capsys, "verify", "run")[0] == 0
    for key in ("effect", "gain_points_interval", "gain_nats_interval", "examples_missing"):
        del summary["sharing"][key]
    path.write_text(json.dumps(summary))
    *_, overall = (line for line in call(capsys, "show", "run")[1].splitlines() if line.startswith("all "))
    assert overall.split()[-6] == "-"


def test_a_run_says_first_that_it_is_no_better_than_the_commoner_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, rng = make_sites(tmp_path), np.random.default_rng(1)
    for site in "abc":
        rows = [f"{x!r},{y!r},{int(rng.random() < 0.3)}" for x, y in rng.standard_normal((200, 2)).tolist()]
        (tmp_path / f"site-{site}.csv").write_text("age,pressure,ill\n" + "\n".join(rows) + "\n")
    common = (str(config), "--driver", "reference", "--set", "algorithm.name=adadrom")
    _, out, _ = call(capsys, "run", *common, "--out", "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["error_rate"] >= summary["majority_error_rate"] > 0.2
    first = out.splitlines()[8]
    assert first == summary["verdict"][0]
    assert first.startswith("no better than always giving each site's commoner label: ")
    assert "helps" not in out
    _, both, _ = call(capsys, "show", "run", "run")
    assert both.count(first) == 2
    out_of_compare = call(
        capsys,
        "compare",
        str(config),
        "--algorithms",
        "adadrom,local",
        "--settings",
        "1",
        "--orders",
        "2",
        "--out",
        "cmp",
    )[1]
    assert "\nno learner is better than always giving each site's commoner label: at least " in out_of_compare
    assert "lowest" not in out_of_compare


@pytest.mark.parametrize("width", [50, 60, 80])
def test_columns_are_left_out_where_the_terminal_is_narrow(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "console", lambda: Console(width=width, no_color=True))
    columns = ["task", "error", "AUC", "sent", "received"]
    output.print_table(columns, [["x" * 30, "1", "2", "3 " * 5, "4 " * 5]], spare=("received", "sent", "no such"))
    shown = capsys.readouterr().out.splitlines()[0].split()
    assert shown == {50: columns[:3], 60: columns[:4], 80: columns}[width]


def test_verify_compares_sharing_with_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_adadrom(tmp_path, capsys)
    assert call(capsys, "verify", "run")[0] == 0
    path = tmp_path / "run" / "summary.json"
    summary = json.loads(path.read_text())
    summary["tasks"][1]["sharing"]["gain_points"] += 1.0
    summary["sharing"]["effect"] = "hurts"
    path.write_text(json.dumps(summary))
    code, _, err = call(capsys, "verify", "run")
    assert code == 1
    assert "b: sharing is not what the models say, all: sharing is not what the models say\n" in err


def test_show_draws_sharing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    run_adadrom(tmp_path, capsys)
    code, out, _ = call(capsys, "show", "run", "--sharing", "gains.svg", "--timeline", "waits.svg")
    assert (code, out.splitlines()[-2:]) == (0, ["picture waits.svg", "picture gains.svg"])
    assert "<!-- sites: adadrom -->" in (tmp_path / "gains.svg").read_text()
    call(capsys, "run", str(tmp_path / "sites.yaml"), "--driver", "reference", "--out", "drom", "-q")
    for arguments, message in [
        (["drom"], "error: drom says nothing of sharing: expected a run of a learner that mixes experts"),
        (["run", "drom"], "error: --sharing draws one run, got 2\n"),
    ]:
        code, out, err = call(capsys, "show", *arguments, "--sharing", "no.png")
        assert (code, out) == (2, "")
        assert err.startswith(message)
        assert not (tmp_path / "no.png").exists()


def test_a_pipe_is_no_data_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = make_sites(tmp_path)
    (tmp_path / "site-b.csv").unlink()
    os.mkfifo(tmp_path / "site-b.csv")
    code, _, err = call(capsys, "check", str(config))
    assert code == 2
    assert "site-b.csv: expected a file that can be read, got not a regular file" in err


def test_data_beyond_all_memory_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "big.yaml").write_text(
        "algorithm: {name: local}\ndata: {dataset: synthetic, tasks: 2, examples: 10000000, dim: 10000000}\n"
    )
    code, _, err = call(capsys, "check", "big.yaml")
    assert code == 1
    assert err.startswith("error: not enough memory")
    assert len(err.splitlines()) == 1


def test_a_closed_standard_output_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q"]) == 0


def test_local_sends_nothing_and_its_records_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", str(make_sites(tmp_path)), "--driver", "reference", "--out", "run", "-q"]
    assert call(capsys, *arguments, "--set", "algorithm.name=local")[0] == 0
    with (tmp_path / "run" / "records.csv").open(newline="") as file:
        assert {row["contribution"] for row in csv.DictReader(file)} == {"none"}


def test_hinge_with_a_cap_of_one_warns_whoever_chose_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--set", "algorithm.loss=hinge", "--set", "algorithm.xi=1"]
    _, _, err = call(capsys, "check", str(make_sites(tmp_path)), *changes)
    assert "takes every mistake for an outlier" in err


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("tau", [2, 50])
def test_runs_without_a_centre_verify_with_one_task_and_without_a_sync_round_too(
    tasks: int, tau: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "peers.yaml").write_text(
        f"algorithm: {{name: drom-d, tau: {tau}}}\ntopology: {{graph: full}}\n"
        f"data: {{dataset: synthetic, tasks: {tasks}, examples: 20}}\n"
    )
    assert call(capsys, "run", "peers.yaml", "--driver", "reference", "--out", "run", "-q")[0] == 0
    code, _, err = call(capsys, "verify", "run")
    assert (code, err) == (0, "")


PAIRS = (
    "algorithm: {name: drom-d, tau: 2}\ntopology: {graph: one-peer-exponential}\n"
    "data: {dataset: synthetic, tasks: 8, examples: 20, dim: 6}\n"
)


def test_a_graph_that_changes_by_sync_round_is_described_costed_run_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "peers.yaml").write_text(PAIRS)
    assert "a cycle of 3 sync rounds" in call(capsys, "topology", "peers.yaml")[1]
    plan = json.loads(call(capsys, "check", "peers.yaml", "--json")[1])
    assert plan["bytes_per_sync_round"] == 8 * plan["push_bytes"]  # one partner each
    words = 8 * 9 + 8 * 3  # nine sync rounds, and the last word, which is for all three
    assert plan["bytes_in_all"] == words * plan["push_bytes"]
    assert call(capsys, "run", "peers.yaml", "--out", "run", "--driver", "reference", "-q")[0] == 0
    assert call(capsys, "verify", "run")[0] == 0


@pytest.mark.parametrize(
    ("tau", "graph", "said"),
    [
        ("[1, 2]", "ring", "expected 8 numbers, one for each task, got 2 numbers"),
        ("[1, 2, 1, 1, 1, 1, 1, 1]", "one-peer-exponential", "expected one number for all tasks, as the graph changes"),
        ("[1, 0]", "ring", "algorithm.tau[1]: expected a whole number of at least 1, got 0"),
        (
            "[]",
            "ring",
            "expected a whole number of at least 1, or a list of such, one for each task, got an empty list",
        ),
        ("2.5", "ring", "expected a whole number of at least 1, or a list of such, one for each task, got 2.5"),
    ],
)
def test_a_tau_for_each_task_must_fit(
    tau: str, graph: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "peers.yaml").write_text(PAIRS.replace("tau: 2", f"tau: {tau}").replace("one-peer-exponential", graph))
    for command in (["run", "--out", "run"], ["check"], ["simulate"], ["topology"]):
        code, _, err = call(capsys, command[0], "peers.yaml", *command[1:])
        assert code == 2
        assert said in err
    assert not (tmp_path / "run").exists()


def test_a_worker_of_a_file_of_peers_is_told_what_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "worker", str(CONFIGS / "ring-12.yaml"), "--task", "0")
    assert code == 2
    assert "describes peers without a reducer; start each with `drom-net peer`" in err


@pytest.mark.parametrize(
    ("arguments", "variable", "expected"),
    [
        (("a.yaml",), "", "a.yaml: expected a YAML file"),
        (("--config", "b.yaml"), "", "b.yaml: expected a YAML file"),
        ((), "c.yaml", "c.yaml: expected a YAML file"),
        (("--config", "b.yaml"), "c.yaml", "b.yaml: expected a YAML file"),
        (("a.yaml",), "c.yaml", "a.yaml: expected a YAML file"),
        (("a.yaml", "--config", "b.yaml"), "", "expected FILE once, got a.yaml and --config b.yaml"),
        ((), "", "missing argument 'FILE'"),
    ],
)
def test_a_node_takes_its_file_as_an_argument_an_option_or_a_variable(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    variable: str,
    expected: str,
) -> None:
    if variable:
        monkeypatch.setenv("DROM_NET_CONFIG", variable)
    for node in (("reducer",), ("worker", "--task", "0"), ("peer", "--task", "0")):
        code, out, err = call(capsys, *node, *arguments)
        assert (code, out) == (2, "")
        assert expected in err


def test_what_differs_per_place_may_come_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "star.yaml"
    file.write_text(
        "algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 2, examples: 5}\n"
        "reducer: {endpoint: 'tcp://127.0.0.1:5571'}\n"
    )
    monkeypatch.setenv("DROM_NET_CONFIG", str(file))
    monkeypatch.setenv("DROM_NET_TASK", "seven")
    assert 'expected a number from 0 to 1 or one of task-01, task-02; got "seven"' in call(capsys, "worker")[2]
    monkeypatch.setenv("DROM_NET_TASK", "1")
    monkeypatch.setenv("DROM_NET_ENDPOINT", "nowhere")
    assert 'expected tcp://host:port or ipc://path, got "nowhere"' in call(capsys, "worker")[2]
    monkeypatch.setenv("DROM_NET_ENDPOINT", "tcp://127.0.0.1:5571")
    monkeypatch.setenv("DROM_NET_KEYS", "no-keys")
    assert f"{tmp_path / 'no-keys' / 'public.keys'}: expected" in call(capsys, "worker")[2]
    monkeypatch.delenv("DROM_NET_KEYS")
    monkeypatch.setenv("DROM_NET_BIND", "tcp://0.0.0.0:5571")
    assert "can be reached from other machines" in call(capsys, "reducer")[2]
    monkeypatch.setenv("DROM_NET_BIND", "tcp://127.0.0.1:5571")
    monkeypatch.setenv("DROM_NET_OUT", str(file / "below-a-file"))
    assert "cannot make the folder" in call(capsys, "reducer")[2]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()  # who has not become a node can be ended
