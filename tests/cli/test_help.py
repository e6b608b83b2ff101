"""Help and version: quick, because next to nothing is imported; and made for a terminal of 80 columns."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from drom_net.cli import group, main
from drom_net.comparison.outside import PACKAGES

HEAVY = {"numpy", "zmq", "yaml", "rich", "msgpack", "scipy", "sklearn", "matplotlib", "pyarrow", "networkx"}


def commands(member: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command, groups and the whole line among them."""
    inner = member.commands if isinstance(member, click.Group) else {}
    return [path, *(found for name, child in inner.items() for found in commands(child, (*path, name)))]


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


@pytest.mark.parametrize("path", [(), ("keys",), ("data",)])
def test_lists_of_commands_are_whole_at_80_columns(
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
