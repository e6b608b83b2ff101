"""Any text is the name of a site: the same bits by all drivers, safe forms in files, and the name itself for people."""

from __future__ import annotations

import csv
import io
import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from by_hand import free_endpoint, free_endpoints
from processes import DEADLINE_S, family

from drom_net.cli import main
from drom_net.client import Site
from drom_net.cluster.prepare import prepare
from drom_net.config.load import load_config
from drom_net.core.names import safe_names
from drom_net.data.datasets import load_dataset, task_names
from drom_net.results.model_file import load_model
from drom_net.results.run_directory import load_summary
from drom_net.results.tables import read_records

NAMES = ["Leeds General", "York/St Mary", "Hull", "reducer", "São Paulo", "a", "A"]
FORMS = list(safe_names(NAMES))
WILD = [
    *('x, "quoted"\' [red]bold[/red]', "{b} {task} $HOME %s =1 `c`", "\u202egnirts\u200f", "👩‍🌾 東京", "שלום"),
    *("..", ".", "con", "3", "007", "-k", "~", "null", "y" * 200, "#x", "a;b|c@d", "\\", "REDUCER", "Reducer", "v_a"),
]
LAYOUTS = {"star": "algorithm: {name: drom}\n", "ring": "algorithm: {name: drom-d, tau: 3}\ntopology: {graph: ring}\n"}
BOTH = pytest.mark.parametrize("layout", LAYOUTS)


def write_table(folder: Path, names: list[str], rows: int = 20) -> None:
    """One CSV of all sites, their names with blanks and line breaks as people's tables have them."""
    rng = np.random.default_rng(3)
    with (folder / "all.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["site", "p", "q", "label"])
        for row in range(rows):
            for name in names:
                p, q = rng.standard_normal(2).tolist()
                writer.writerow([[name, f"  {name} ", name.replace(" ", " \n ")][row % 3], p, q, int(p > q)])


def write_config(folder: Path, layout: str, names: list[str], more: str = "") -> str:
    data = {"files": "all.csv", "task_column": "site", "tasks": names, "columns": {"p": "number", "q": "number"}}
    text = f"{LAYOUTS[layout]}data: {json.dumps(data)}\n{more}"
    (folder / "c.yaml").write_text(text, encoding="utf-8")
    write_table(folder, names)
    return str(folder / "c.yaml")


@pytest.mark.process
@BOTH
def test_one_digest_by_all_drivers(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, layout, NAMES, "security: {keys: keys}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "create", config]) == 0
    out, _ = capsys.readouterr()
    assert '"York/St Mary"' in out and "York-St-Mary-74bd54d0.secret" in out
    nodes = sorted([*(["reducer"] if layout == "star" else []), *FORMS])
    assert sorted(path.stem for path in Path("keys").glob("*.secret")) == nodes
    with family(tmp_path) as processes:
        code, _, err = processes.run("run", config, "--out", "processes", "-q")
        assert code == 0, err
        assert not processes.alive()
    for driver in ("reference", "simulation"):
        assert main(["run", config, "--driver", driver, "--out", driver, "-q"]) == 0
    digests = set()
    for driver in ("reference", "processes", "simulation"):
        summary = load_summary(Path(driver))
        assert [task["name"] for task in summary["tasks"]] == NAMES
        digests.add(summary["digest"])
        assert main(["verify", driver]) == main(["replay", driver]) == main(["show", driver]) == 0
    assert len(digests) == 1
    assert sorted(path.stem for path in Path("processes/logs").iterdir()) == nodes
    assert load_config(Path("processes/config.yaml")).data.tasks == tuple(NAMES)  # type: ignore[attr-defined]
    assert main(["show", "processes", "simulation", "--timeline", "waits.png"]) == 0


@pytest.mark.process
@BOTH
def test_nodes_by_hand_find_each_other(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each knows the roster, and so comes to the same folders and keys: by its name, its safe form or its number."""
    meet = f"reducer: {{endpoint: '{free_endpoint()}'}}\n"
    if layout == "ring":
        meet = f"peers: {{endpoints: {json.dumps(free_endpoints(len(NAMES)))}}}\n"
    config = write_config(tmp_path, layout, NAMES, f"security: {{keys: keys}}\n{meet}")
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "create", config, "--task", "São Paulo", "--task", FORMS[3]]) == 0
    assert sorted(path.stem for path in Path("keys").glob("*.secret")) == ["Sao-Paulo-f00fd81d", FORMS[3]]
    assert main(["keys", "create", config]) == 0
    with family(tmp_path) as processes:
        role = "worker" if layout == "star" else "peer"
        known = ["Leeds General", FORMS[1], "2", "reducer", "4", "a", FORMS[6]]
        nodes = [processes.start(role, config, "--task", one, "--out", "hand") for one in known]
        if layout == "star":
            nodes.append(processes.start("reducer", config, "--out", "hand"))
        told = [node.communicate(timeout=DEADLINE_S)[1] for node in nodes]
        assert [node.returncode for node in nodes] == [0] * len(nodes), told
        assert all(f"{name}: " in text for name, text in zip(NAMES, told, strict=False)), "people see the name"
    assert main(["merge", "hand", "--out", "merged"]) == main(["verify", "merged"]) == 0
    assert main(["run", config, "--driver", "reference", "--out", "loop", "-q"]) == 0
    folders = {path.name for path in (tmp_path / "hand" / "nodes").iterdir()}
    assert folders == {*FORMS, *(["reducer"] if layout == "star" else [])}
    assert load_summary(tmp_path / "merged")["digest"] == load_summary(tmp_path / "loop")["digest"]
    for name in ("records.csv", "rounds.csv"):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "loop" / name).read_bytes()


@pytest.mark.process
def test_live_sites_are_found_by_the_safe_forms_of_their_names(tmp_path: Path) -> None:
    names = ["Leeds General", "York/St Mary", "reducer"]
    (tmp_path / "c.yaml").write_text(
        f"algorithm: {{name: drom}}\ndata: {{dataset: live, tasks: {json.dumps(names)}, dim: 2}}\n"
        f"source: {{bind: 'ipc://{tmp_path}/{{task}}', keep: all}}\n"
    )
    with family(tmp_path) as processes:
        launcher = processes.start("run", "c.yaml", "--out", "run", "-q")
        with ExitStack() as stack:
            forms = safe_names(names)
            sites = [stack.enter_context(Site(f"ipc://{tmp_path}/{form}", timeout_s=DEADLINE_S)) for form in forms]
            for site in sites:
                site.learn([[1.0, 2.0], [2.0, 1.0]] * 3, [1, -1] * 3)
            for site in sites:  # not before: rounds begin at the first example, and the last finish ends the run
                site.finish()
        _, err = launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 0, err
        assert {path.name for path in (tmp_path / "run" / "nodes").glob("*-*")} == set(safe_names(names))
    assert main(["replay", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("records", ["csv", "parquet"])
@BOTH
def test_the_wildest_names_come_back_from_files_as_they_were(
    layout: str, records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, layout, WILD)
    monkeypatch.chdir(tmp_path)
    for driver in ("reference", "simulation"):
        assert main(["run", config, "--driver", driver, "--out", driver, "-q", "--records", records]) == 0
        assert [task["name"] for task in load_summary(Path(driver))["tasks"]] == WILD
        assert load_model(Path(driver))["tasks"].tolist() == WILD
        assert [len(rows) for rows in read_records(Path(driver), WILD)[0]] == [20] * len(WILD)
        assert main(["verify", driver]) == main(["replay", driver]) == 0
    assert load_summary(Path("simulation"))["digest"] == load_summary(Path("reference"))["digest"]
    assert main(["show", "simulation", "--timeline", "waits.svg"]) == 0
    if layout == "ring":
        assert main(["topology", config, "--draw", "ring.png"]) == 0
    capsys.readouterr()


def test_tasks_are_found_in_the_column_whatever_white_space_is_in_their_names(tmp_path: Path) -> None:
    config = load_config(Path(write_config(tmp_path, "star", [*NAMES, *WILD])), ["data.tasks=null"])
    found = task_names(config.data, tmp_path)
    assert set(found) == {*NAMES, *WILD}
    roster = prepare(config, load_dataset(config.data, base=config.base)).roster
    assert roster.tasks == found
    for name in ("York/St Mary", "reducer", "y" * 200):
        alone = load_dataset(load_config(tmp_path / "c.yaml").data, base=tmp_path, only=[*NAMES, *WILD].index(name))
        assert [(task.name, len(task.labels)) for task in alone.tasks] == [(name, 20)]


def test_files_may_be_called_by_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("Leeds General", "São Paulo", "reducer", "a", "A"):
        (tmp_path / f"site {name}.csv").write_text("x,label\n1.0,1\n-1.0,0\n")
    (tmp_path / "c.yaml").write_text("algorithm: {name: drom}\ndata: {files: 'site {task}.csv'}\n")
    assert main(["run", str(tmp_path / "c.yaml"), "--driver", "reference", "--out", str(tmp_path / "run"), "-q"]) == 0
    names = [task["name"] for task in load_summary(tmp_path / "run")["tasks"]]
    assert names == ["A", "Leeds General", "São Paulo", "a", "reducer"]


def test_who_was_absent_is_kept_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Column `absent` of rounds has several names with blanks between, and a name may have blanks itself."""
    config = write_config(tmp_path, "star", NAMES, "policy: {absent: proceed}\ntimeouts: {lost_s: 1}\n")
    monkeypatch.chdir(tmp_path)
    crashes = [word for name in ("Leeds General", "a", "3") for word in ("--crash", f"{name}@1s+8s")]
    assert main(["simulate", config, "--round", "100ms", *crashes, "--out", "run", "--draw", "run.png"]) == 0
    with Path("run/rounds.csv").open(newline="", encoding="utf-8") as file:
        absent = {row["absent"] for row in csv.DictReader(file)}
    assert f"{FORMS[0]} {FORMS[3]} {FORMS[5]}" in absent
    capsys.readouterr()
    assert main(["replay", "run"]) == 0
    assert "somebody was missing" in capsys.readouterr().out


def test_reducer_is_the_reducer_of_a_simulation_also_beside_a_task_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, "star", NAMES)
    monkeypatch.chdir(tmp_path)
    faults = ["--pause", "reducer@0.1s+1s", "--pause", f"{FORMS[3]}@2s+1s", "--pause", "York/St Mary@3s+1s"]
    assert main(["simulate", config, "--round", "200ms", *faults, "--out", "run", "-q"]) == 0
    told = json.loads(Path("run/simulation.json").read_text())["faults"]
    assert [fault["where"] for fault in told] == ["the reducer", "reducer", "York/St Mary"]


def test_a_model_is_asked_by_name_by_safe_form_or_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, "star", NAMES)
    monkeypatch.chdir(tmp_path)
    assert main(["run", config, "--driver", "reference", "--out", "run", "-q"]) == 0
    capsys.readouterr()

    def predict(task: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"p,q\n1,2\n-3,0.5\n")))
        code = main(["predict", "run", "--task", task])
        return code, *capsys.readouterr()

    answers = [{predict(task) for task in (name, f" {name} ", form, str(number))}
               for number, (name, form) in enumerate(zip(NAMES, FORMS, strict=True))]  # fmt: skip
    assert [len(same) for same in answers] == [1] * len(NAMES)
    assert len(set.union(*answers)) == len(NAMES), "and each answers by its own model"
    code, _, err = predict("Leeds \u202eGeneral\x1b[31m")
    assert code == 2 and r'got "Leeds \u202eGeneral\u001b[31m"' in err


def test_a_terminal_shows_names_and_does_not_obey_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither markup nor marks of direction, and a long name does not push the figures out of the table."""
    names = ["x [red]bold[/red]", ":smile: [b", "\u202egnirts", "y" * 200]
    config = write_config(tmp_path, "star", names)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["run", config, "--driver", "reference", "--out", "run"]) == 0
    assert main(["show", "run", "run"]) == main(["check", config]) == main(["data", "describe", config]) == 0
    assert main(["show", "\u202eno \x1b[31mrun"]) == 2
    out, err = capsys.readouterr()
    for shown in ("x [red]bold[/red]", ":smile: [b", r"\u202egnirts", "yyy…"):
        assert out.count(shown) >= 4
    assert out.count("error rate") >= 2 and "…%" not in out and "e…" not in out
    assert r"\u202eno \x1b[31mrun" in err
    assert not {"\u202e", "\u200f"} & {*out, *err}
    assert "\x1b[31m" not in out + err


@pytest.mark.process
def test_a_system_without_such_letters_runs_and_shows_them_as_escapes(tmp_path: Path) -> None:
    config = write_config(tmp_path, "star", ["São Paulo", "東京"])
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}
    with family(tmp_path) as processes:
        started = processes.start("run", config, "--driver", "reference", "--out", "run", environment=plain)
        out, err = started.communicate(timeout=DEADLINE_S)
        assert started.returncode == 0, err
        assert r"S\xe3o Paulo" in out and r"\u6771\u4eac" in out
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert load_config(tmp_path / "run" / "config.yaml").data.tasks == ("São Paulo", "東京")  # type: ignore[attr-defined]
