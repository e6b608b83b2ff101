"""Help and version: quick, because next to nothing is imported; and made for a terminal of 80 columns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from drom_net.cli import group, main
from drom_net.comparison.outside import PACKAGES

HEAVY = {"numpy", "zmq", "yaml", "rich", "msgpack", "scipy", "sklearn", "matplotlib", "pyarrow", "networkx"}


def commands(member: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command, groups and the whole line among them."""
    inner = member.commands if isinstance(member, click.Group) else {}
    return [path, *(found for name, child in inner.items() for found in commands(child, (*path, name)))]


COMMANDS = [pytest.param(path, id=" ".join(path) or "drom-net") for path in commands(group)]


def command_of(path: tuple[str, ...]) -> click.Command:
    found: click.Command = group
    for name in path:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return found


def takes(path: tuple[str, ...], option: str) -> bool:
    return any(option in param.opts for param in command_of(path).params)


def test_help_and_version_import_next_to_nothing() -> None:
    """Of the line itself, and of each command."""
    lines = [["--version"], *([*path, "--help"] for path in commands(group))]
    code = (
        "import contextlib, io, json, sys\nfrom drom_net.cli import main\n"
        f"for line in json.loads({json.dumps(json.dumps(lines))}):\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as told:\n        main(line)\n"
        "    assert told.getvalue()\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_the_package_itself_imports_nothing() -> None:
    code = "import sys\nbefore = set(sys.modules)\nimport drom_net\nprint(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in run.stdout.split() if name.partition(".")[0] in HEAVY} == set()


@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_whole_at_80_columns(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*path, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.rstrip().endswith("...") and "Usage" not in line] == []
    assert max(map(len, lines)) <= 80


def test_every_command_is_under_one_heading_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["--help"])
    sections = capsys.readouterr().out.partition("\nLearn:\n")[2].partition("\n  Exit codes:")[0]
    listed = [line.split()[0] for line in sections.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(group.commands)


def test_compare_names_the_packages_that_it_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    """They stand in its help as text, so that help imports none of them."""
    main(["compare", "--help"])
    assert f"of {', '.join(PACKAGES)}" in " ".join(capsys.readouterr().out.split())


def test_help_of_every_command_goes_into_a_pipe() -> None:
    """Without colors, and with the same words whatever the terminal was."""
    lines = [[*path, "--help"] for path in commands(group)]
    code = (
        "import json, sys\nfrom drom_net.cli import main\n"
        f"for line in json.loads({json.dumps(json.dumps(lines))}):\n    assert main(line) == 0\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == "" and "\x1b" not in run.stdout
    for path in commands(group):
        assert f"Usage: {' '.join(('drom-net', *path))} " in run.stdout
    code = "import sys\nfrom drom_net.cli import main\nsys.exit(main(['run', '--help']))"
    nobody = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" | true', sys.executable, code], capture_output=True, text=True, check=True
    )
    assert nobody.stderr == ""


@pytest.mark.parametrize("path", COMMANDS)
def test_a_wrong_option_is_one_clear_error(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    line = " ".join(("drom-net", *path))
    told = f"no such option '--zzz'; `{line} --help` tells more"
    assert main([*path, "--zzz"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"error: {told}\n")
    if takes(path, "--json"):
        assert main([*path, "--json", "--zzz"]) == 2
        out, err = capsys.readouterr()
        assert (json.loads(out), err) == ({"error": told, "exit_code": 2}, f"error: {told}\n")


@pytest.mark.parametrize("path", COMMANDS)
def test_a_wrong_argument_is_one_clear_error(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One too many, or an unknown command; or, of a command that takes any number, one that is not there."""
    monkeypatch.chdir(tmp_path)
    command = command_of(path)
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    several = any(param.nargs < 0 for param in arguments)
    given = [param for param in command.params if (param.required or param in arguments) and param.nargs > 0]
    code = main([*path, *(word for param in given for word in _given(param)), "nowhere"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and len(err.splitlines()) == 1
    if isinstance(command, click.Group):
        assert "no such command 'nowhere'" in err
    elif not several:
        assert "nowhere" in err
    assert list(tmp_path.iterdir()) == []


def _given(param: click.Parameter) -> list[str]:
    """Something that it takes."""
    value = param.type.choices[0] if isinstance(param.type, click.Choice) else "nowhere"
    return [value] if isinstance(param, click.Argument) else [param.opts[0], "some"]


@pytest.mark.parametrize(
    "path", [path for path in COMMANDS if takes(path.values[0], "--json") and path.id not in ("data list", "doctor")]
)
def test_an_error_is_json_where_that_is_asked_for(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file or run that is not there."""
    monkeypatch.chdir(tmp_path)
    needed = [word for param in command_of(path).params if param.required for word in _given(param)]
    code = main([*path, *(needed or ["nowhere"]), "--json"])
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert code == told["exit_code"] == 2
    assert err == "".join(f"error: {line}\n" for line in told["error"].splitlines())
    assert "nowhere" in told["error"] or "missing option" in told["error"]
