"""Shell completion: printed, installed, and used as a shell uses it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drom_net.cli import main
from drom_net.cli.completion import place_of

PLACES = {
    "bash": ".local/share/bash-completion/completions/drom-net",
    "zsh": ".zfunc/_drom-net",
    "fish": ".config/fish/completions/drom-net.fish",
}


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("shell", PLACES)
def test_it_is_installed_once_and_says_where(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_DROM_NET_COMPLETE" in script
    path = tmp_path / PLACES[shell]
    for told in (f"wrote {path}", f"{path} is there already"):
        assert main(["completion", shell, "--install"]) == 0
        assert told in capsys.readouterr().out
        assert path.read_text() == script
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == [path]


def test_a_place_that_cannot_be_written_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".zfunc").write_text("a file")
    assert main(["completion", "zsh", "--install"]) == 1
    assert str(tmp_path / ".zfunc") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "offered"), [("drom-net ver", ["verify"]), ("drom-net keys ", ["create", "show"])], ids=str
)
@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_bash_completes(words: str, offered: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "drom-net").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m drom_net "$@"\n')
    (tmp_path / "drom-net").chmod(0o755)
    parts = words.split(" ")
    code = (
        f"source script; COMP_WORDS=({' '.join(parts[:-1])} '{parts[-1]}'); COMP_CWORD={len(parts) - 1}; "
        '_drom_net_completion drom-net; echo "${COMPREPLY[@]}"'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run(["bash", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (run.stdout.split(), run.stderr) == (offered, "")


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = place_of("fish")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine \xff")
    assert main(["completion", "fish", "--install"]) == 2
    assert "was not written by this command" in capsys.readouterr().err
    assert path.read_bytes() == b"mine \xff"
