"""``python -m reproduction``, which `scripts/reproduce` runs: figures and tables of the paper made again."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from drom_net.core.blas import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import click

from drom_net import cli
from drom_net.cli import options
from drom_net.cli.compare import open_runner, report_as_json
from drom_net.cli.telling import print_json
from reproduction.catalogue import REPRODUCTIONS, check_data, check_names, reproduce
from reproduction.figures import Options


@click.command(
    epilog="\b\nNames:\n" + "\n".join(f"  {k:<10} {v}" for k, (v, _) in REPRODUCTIONS.items()),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--quick", is_flag=True, help="Few settings, few orders, few rounds: to see that it works.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/reproduced"), show_default=True, help="The folder."
)
@options.jobs
@options.as_json
def command(names: tuple[str, ...], quick: bool, out: Path, jobs: int | None, as_json: bool) -> None:
    """Make figures and tables of the paper again; `all` makes all of them.

    Each gets a folder of OUT with its pictures (PNG and SVG), its numbers (CSV) and a page, README.md. Finished runs
    stay in OUT/runs.jsonl, and a second start does only the rest; table-1, table-4, regret and made-up measure this
    machine or keep no runs, and are made whole each time.

    \b
    Examples:
      scripts/reproduce figure-3 --out runs/reproduced
      scripts/reproduce all --quick
    """
    wanted = check_names(names)
    check_data(wanted)
    made = []
    with open_runner(out, jobs=jobs, as_json=as_json) as runner:
        for name in wanted:
            started = time.monotonic()
            report = reproduce(name, Options(runner, quick=quick), out)
            runner.progress.say(f"{name}: {time.monotonic() - started:.0f} s, {out / name / 'README.md'}")
            made.append(report)
    if as_json:
        print_json([report_as_json(report) | {"out": str(out / report.name)} for report in made])
    else:
        click.echo(f"index {out / 'README.md'}")


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    return cli.main(arguments, command=command, name="scripts/reproduce")


if __name__ == "__main__":
    sys.exit(main())
