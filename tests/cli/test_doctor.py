"""drom-net doctor: each thing that can be wrong is found, and comes with what to do."""

from __future__ import annotations

import importlib.util
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from drom_net.cli import doctor, main
from drom_net.results.run_directory import write_environment


@pytest.fixture(autouse=True)
def _on_a_well_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_star(port: int = 0, more: str = "") -> Path:
    file = Path("star.yaml")
    endpoint = f"tcp://127.0.0.1:{port}" if port else "ipc://meet.sock"
    file.write_text(f"data: {{dataset: synthetic, tasks: 2}}\nrounds: 5\nreducer: {{endpoint: '{endpoint}'}}\n{more}")
    return file


def examine(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """(exit code, what is wrong by check)"""
    code = main(["doctor", *arguments, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (code == 0) is all(finding["ok"] for finding in told["findings"])
    wrong: dict[str, list[dict[str, Any]]] = {}
    for finding in told["findings"]:
        if not finding["ok"]:
            assert finding["do"]
            wrong.setdefault(finding["check"], []).append(finding)
    return code, wrong


def test_a_machine_that_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(capsys) == (0, {})
    assert examine(capsys, str(write_star())) == (0, {})
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "nothing is wrong" in out and "libzmq" in out and "WRONG" not in out


def test_a_port_that_is_taken_and_one_of_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, wrong = examine(capsys, str(write_star(port)))
    assert code == 2 and [*wrong] == ["port"]
    assert f":{port} is taken" in wrong["port"][0]["found"]
    file = write_star()
    file.write_text(file.read_text().replace("ipc://meet.sock", "tcp://192.0.2.1:5571"))
    main(["doctor", str(file)])
    assert "tcp://192.0.2.1:5571 is not of this machine" in capsys.readouterr().out


def test_a_file_in_the_way_of_a_socket(capsys: pytest.CaptureFixture[str]) -> None:
    Path("meet.sock").write_text("a file")
    code, wrong = examine(capsys, str(write_star()))
    assert code == 2 and [*wrong] == ["port"]


def test_keys_that_others_can_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write_star(more="security: {keys: keys}\n"))
    code, wrong = examine(capsys, file)
    assert code == 2 and "keys create" in wrong["keys"][0]["do"]
    assert main(["keys", "create", file]) == 0
    capsys.readouterr()
    assert examine(capsys, file) == (0, {})
    secret = tmp_path / "keys" / "reducer.secret"
    secret.chmod(0o644)
    (tmp_path / "keys").chmod(0o777)
    code, wrong = examine(capsys, file)
    assert code == 2
    assert {finding["do"] for finding in wrong["keys"]} == {f"chmod 600 {secret}", f"chmod go-w {tmp_path / 'keys'}"}


def test_versions_of_another_host(capsys: pytest.CaptureFixture[str]) -> None:
    run = Path("runs/star")
    (run / "nodes" / "a").mkdir(parents=True)
    (run / "config.yaml").write_text(write_star().read_text())
    write_environment(run / "nodes" / "a" / "environment.json", blas=doctor.blas_kernel())
    assert examine(capsys, str(run)) == (0, {})
    path = run / "nodes" / "a" / "environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"numpy": "1.0"}))
    code, wrong = examine(capsys, "runs/star")
    assert (code, [*wrong]) == (2, ["runs/star/nodes/a"])
    assert main(["doctor", "runs/star"]) == 2
    assert "numpy 1.0 there" in capsys.readouterr().out
    (Path("runs/star/nodes/b")).mkdir()
    Path("runs/star/nodes/b/environment.json").write_text("{")
    code, wrong = examine(capsys, "runs/star")
    assert (code, [*wrong]) == (2, ["runs/star/nodes/a", "runs/star/nodes/b"])


def test_what_else_may_be_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, wrong = examine(capsys, "no.yaml")
    assert code == 2 and [*wrong] == ["no.yaml"]
    monkeypatch.setattr(doctor, "has_curve", lambda: False)
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: (20, 20))
    monkeypatch.setattr(doctor, "_LEAST_SPACE", 2**80)
    readings = iter(range(10**6, 0, -1))
    monkeypatch.setattr(doctor.time, "monotonic", lambda: float(next(readings)))
    code, wrong = examine(capsys)
    assert code == 2
    assert {*wrong} == {"libzmq", "file descriptors", "space", "steady clock"}


def test_an_extra_that_the_file_needs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else find(name))
    assert examine(capsys) == (0, {})
    Path("digits.yaml").write_text("data: {dataset: digits-sites}\n")
    code, wrong = examine(capsys, "digits.yaml")
    assert code == 2 and wrong["extras"][0]["do"] == "pip install 'drom-net[data]'"
