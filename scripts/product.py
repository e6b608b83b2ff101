"""Every learner, graph, tau and exchange through every driver: the same bits from each.

    scripts/product
    scripts/product --no-processes

The drivers are the plain loop, the simulation on a network that loses, doubles and reorders messages, and real
processes. The sites are small, and their streams end one after the other.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.drom_d import EXCHANGES
from drom_net.cluster.prepare import prepare
from drom_net.cluster.progress import Silent
from drom_net.cluster.run import run
from drom_net.cluster.simulate import Conditions
from drom_net.config.load import load_config
from drom_net.core.errors import DromNetError, StoppedError
from drom_net.data.datasets import load_dataset
from drom_net.data.public.places import DATA_FOLDER_VARIABLE
from drom_net.data.settings import Synthetic
from drom_net.simulation.network import Distribution, NetworkSettings

GRAPHS = ("full", "ring", "grid")
TAUS = (1, 2, 20)
DRIVERS = ("reference", "simulation", "processes")
LENGTHS = (45, 13, 31, 45, 7, 39)
"""Of the sites' streams: not multiples of any tau, and most end before the last."""

_STAR = """\
algorithm: {name: drom, eta0: 3.0, lambda: 0.2, rho: 0.3}
data: {files: "site-{task}.csv", label: label, flip: 0.1}
timeouts: {join_s: 600, linger_s: 60}
allow_sharing_examples: true
"""
_PEERS = _STAR.replace("name: drom,", "name: drom-d,") + "topology: {graph: ring}\n"
_BAD = NetworkSettings(Distribution("uniform", 0.0, 0.1), loss=0.2, duplicate=0.2, reorder=0.2)


@dataclasses.dataclass(frozen=True, slots=True)
class Combination:
    """Peers on a graph, of which DROM-D alone has an exchange to choose; or a learner with a reducer (graph "star")."""

    graph: str
    tau: int = 1
    exchange: str = "none"
    learner: str = "drom-d"

    def __str__(self) -> str:
        if self.graph == "star":
            return f"star {self.learner}"
        return f"{self.graph} tau={self.tau} {self.exchange if self.learner == 'drom-d' else self.learner}"

    @property
    def overrides(self) -> tuple[str, ...]:
        if self.graph == "star":
            return (f"algorithm.name={self.learner}",)
        peers = (f"algorithm.name={self.learner}", f"topology.graph={self.graph}", f"algorithm.tau={self.tau}")
        return (*peers, f"algorithm.exchange={self.exchange}") if self.learner == "drom-d" else peers


def combinations() -> list[Combination]:
    """All of them."""
    stars = [Combination("star", learner=name) for name, learner in BUILTIN.items() if "star" in learner.on]
    drom_d = itertools.starmap(Combination, itertools.product(GRAPHS, TAUS, EXCHANGES))
    others = [name for name, learner in BUILTIN.items() if "graph" in learner.on and name != "drom-d"]
    blocking = [Combination(graph, tau, learner=name) for name in others for graph in GRAPHS for tau in TAUS]
    return [*stars, *drom_d, *blocking]


def write_sites(folder: Path) -> None:
    """The sites' files, and a YAML file of them for a star and one for peers."""
    data = load_dataset(Synthetic(tasks=len(LENGTHS), examples=max(LENGTHS), dim=6), base=folder)
    for task, length in zip(data.tasks, LENGTHS, strict=True):
        assert isinstance(task.rows, np.ndarray)
        examples = zip(task.rows[:length].tolist(), task.labels[:length].tolist(), strict=True)
        lines = [",".join(map(repr, [*row, int(label > 0)])) for row, label in examples]
        header = ",".join([*(f"x{number}" for number in range(data.dim)), "label"])
        (folder / f"site-{task.name}.csv").write_text("\n".join([header, *lines]) + "\n")
    (folder / "star.yaml").write_text(_STAR)
    (folder / "peers.yaml").write_text(_PEERS)


def digests(combination: Combination, folder: Path, drivers: Sequence[str], *, seed: int = 0) -> dict[str, str]:
    """The digest of each driver; where one failed, why.

    Args:
        folder: With what `write_sites` has written.
        seed: Of the simulated network.
    """
    file = folder / ("star.yaml" if combination.graph == "star" else "peers.yaml")
    config = load_config(file, combination.overrides)
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    found = {}
    for driver in drivers:
        with tempfile.TemporaryDirectory(prefix="drom-net-") as out:
            try:
                summary, code = run(
                    prepared,
                    driver=driver,
                    out=Path(out) / "run",
                    progress=Silent(),
                    conditions=Conditions(_BAD, seed=seed),
                )
            except StoppedError:
                raise
            except (DromNetError, AssertionError) as error:
                found[driver] = f"failed: {error}"
                continue
        if code:
            raise StoppedError("interrupted", code)
        found[driver] = str(summary["digest"])
    return found


@click.command()
@click.option("--no-processes", is_flag=True, help="Without real processes: a few seconds.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the simulated network.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of lines.")
def main(no_processes: bool, seed: int, as_json: bool) -> None:
    """Run every learner, graph, tau and exchange by every driver, and compare the digests.

    \b
    Example:
      scripts/product --no-processes
    """
    os.environ.pop(DATA_FOLDER_VARIABLE, None)  # it would replace the folder of the sites' files
    drivers = DRIVERS[: 2 if no_processes else 3]
    began, rows = time.monotonic(), []
    every = combinations()
    with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
        write_sites(Path(folder))
        for number, combination in enumerate(every, start=1):
            click.echo(f"{number}/{len(every)} {combination}, {time.monotonic() - began:.0f} s", err=True)
            try:
                found = digests(combination, Path(folder), drivers, seed=seed)
            except StoppedError as error:
                raise SystemExit(error.exit_code) from error
            equal = len(set(found.values())) == 1 and not found["reference"].startswith("failed")
            rows.append({**dataclasses.asdict(combination), "equal": equal, "digests": found})
            if not as_json:
                told = "equal" if equal else f"NOT EQUAL: {found}"
                click.echo(f"{combination!s:<24} {found['reference'][:12]} {told}")
    unequal = sum(not row["equal"] for row in rows)
    if as_json:
        click.echo(json.dumps({"drivers": drivers, "unequal": unequal, "combinations": rows}, indent=2))
    else:
        took_s = time.monotonic() - began
        click.echo(f"{len(rows)} combinations by {', '.join(drivers)}: {unequal} not equal, {took_s:.0f} s")
    if unequal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
