"""Commands that study a cluster or a run: declared here, carried out in the modules that they import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drom_net.cli import options
from drom_net.cli.commands import durations


@click.command()
@options.config_file
@durations.conditions
@click.option(
    "--compare/--no-compare",
    default=True,
    help="Peers: whether to run each exchange beside it, with tau = 1 and with FILE's.",
)
@click.option("--draw", type=click.Path(path_type=Path), help="Draw who did what when to this file, .png or .svg.")
@click.option("--from", "from_s", type=float, metavar="S", help="Draw from there on, in seconds of the virtual clock.")
@click.option(
    "--to", "to_s", type=float, metavar="S", help="To there; by default the first sync rounds, and all faults."
)
@click.option("--out", type=click.Path(path_type=Path), help="Also write a run directory.")
@options.report
@options.overrides
@options.as_json
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def simulate(**given: Any) -> Any:
    """Tell how long FILE's cluster takes on a network that you choose.

    It runs on a virtual clock. The nodes are those of the real processes, and so are the results. Everything is drawn
    from --sim-seed.

    \b
    Example:
      drom-net simulate pumps/pumps.yaml --latency 50ms --stragglers 10%:5x
    """
    from drom_net.cli.durations import gathered
    from drom_net.cli.simulate import simulate

    return simulate(**gathered(given))


@click.command()
@options.config_file
@click.option("--draw", type=click.Path(path_type=Path), help="Draw the graph to this file, .png or .svg.")
@options.overrides
@options.as_json
def topology(**given: Any) -> Any:
    """Print FILE's graph of peers: degrees, zeta, bytes, warnings.

    \b
    Example:
      drom-net topology ring.yaml --draw ring.png
    """
    from drom_net.cli.topology import topology

    return topology(**given)


@click.command("audit")
@options.config_file
@options.overrides
@options.as_json
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def audit_command(**given: Any) -> Any:
    """Attack a run of FILE: which share of rows can others compute?

    The run is in this process. A row counts as read where the cosine between it and what an onlooker computes from
    what it is told is above 0.99. It is the least: a better attack may read more. The rows of all sites have to be on
    this machine: take made-up ones, or ones that all sites have agreed to show.

    \b
    Examples:
      drom-net audit pumps/pumps.yaml
      drom-net audit pumps/pumps.yaml --set algorithm.tau=1 --set rounds=100
    """
    from drom_net.cli.audit import audit_command

    return audit_command(**given)


@click.command()
@options.run_dir
@options.as_json
def replay(**given: Any) -> Any:
    """Compute a whole run again from its data, and compare every bit.

    Who was there when is taken from the run's records. Whatever happened to the run, the same model comes out, bit
    for bit; else the first round and task that differ are named, with exit code 1. All tasks' data must be at hand
    here.

    \b
    Example:
      drom-net replay runs/pumps
    """
    from drom_net.cli.results import replay

    return replay(**given)


@click.command()
@options.run_dir
@options.as_json
def verify(**given: Any) -> Any:
    """Compare a run's digest and figures with its records and model.

    \b
    Example:
      drom-net verify runs/pumps
    """
    from drom_net.cli.results import verify

    return verify(**given)
