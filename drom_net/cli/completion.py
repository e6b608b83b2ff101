"""drom-net completion: what lets a shell complete commands, options and files."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from drom_net.core.errors import UsageError, naming

NAME, VARIABLE = "drom-net", "_DROM_NET_COMPLETE"


def completion(shell: str, install: bool) -> None:
    """`drom-net completion`."""
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, NAME, VARIABLE).source().strip() + "\n"
    if not install:
        click.echo(script, nl=False)
        return
    path, hint = place_of(shell)
    with naming(path):
        there = path.read_bytes() if path.exists() else b""
        if there and VARIABLE.encode() not in there:
            raise UsageError(f"{path} is there, and was not written by this command; move it away")
        if there == script.encode():
            click.echo(f"{path} is there already")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(script, encoding="utf-8")
            click.echo(f"wrote {path}")
    click.echo(hint)


def place_of(shell: str) -> tuple[Path, str]:
    """Where a shell looks for a user's completions, and what else it needs."""
    home = Path.home()
    if shell == "bash":
        data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
        hint = "bash reads it in a new shell, if the package bash-completion is installed"
        return data / "bash-completion" / "completions" / NAME, hint
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / f"{NAME}.fish", "fish reads it in a new shell"
    hint = "zsh reads it in a new shell, if ~/.zshrc has, before compinit:\n  fpath=(~/.zfunc $fpath)\n"
    return home / ".zfunc" / f"_{NAME}", hint + "  autoload -Uz compinit && compinit"
