"""Look for bytes that the codec or a node cannot bear, guided by what they reach in drom_net/protocol.

    scripts/fuzz --seconds 600
    scripts/fuzz --again FILE     one input of an earlier search

An input is a list of choices: which small run is attacked, and what is said to whom when (scripts/siege.py). A search
needs atheris, which is no dependency of drom-net: `python -m pip install atheris`. Inputs that reach something new are
kept in `.fuzz/inputs`, and the next search begins with them; those that fail are kept beside them.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from random import Random
from types import ModuleType

import click

_MOST_BYTES = 4096
_SEEDS = 64
_MOST_SECONDS = 60  # for one input: far more than any takes


def one_input(siege: ModuleType, data: bytes) -> None:
    """The first byte says what the others are for: the codec alone, or a run."""
    if data[:1] < b"\x08":
        siege.decode_anything(data[1:])
    else:
        siege.besiege(data[1:])


@click.command()
@click.option("--seconds", type=click.IntRange(1), default=60, show_default=True, help="How long to search.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=".fuzz", show_default=True, help="Its folder."
)
@click.option("--again", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Only this input.")
def main(seconds: int, out: Path, again: Path | None) -> None:
    """Attack small clusters with bytes that a coverage-guided search makes up."""
    if again is not None:
        one_input(importlib.import_module("siege"), again.read_bytes())
        click.echo(f"{again}: nothing is wrong with it")
        return
    try:
        import atheris
    except ImportError:
        click.echo("error: scripts/fuzz needs atheris: python -m pip install atheris", err=True)
        raise SystemExit(2) from None
    with atheris.instrument_imports(include=["drom_net.protocol"]):
        siege = importlib.import_module("siege")
    inputs = out / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    for seed in range(_SEEDS):
        (inputs / f"seed-{seed}").write_bytes(bytes([seed]) + Random(seed).randbytes(20 * seed))
    lengths = [f"-max_len={_MOST_BYTES}", "-len_control=0"]  # long ones from the beginning: short ones attack little
    arguments = [sys.argv[0], f"-max_total_time={seconds}", f"-timeout={_MOST_SECONDS}", *lengths]
    arguments += [f"-artifact_prefix={out}/", str(inputs)]
    atheris.Setup(arguments, lambda data: one_input(siege, data))
    atheris.Fuzz()  # ends the process


if __name__ == "__main__":
    main()
