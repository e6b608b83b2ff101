"""drom-net topology: the graph of peers, what it costs, and what will hurt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drom_net.cli.output import count_of
from drom_net.cli.telling import print_json, tell
from drom_net.cluster.plan import algorithm_of, peer_graph
from drom_net.config.load import load_config
from drom_net.core.errors import UsageError
from drom_net.data.datasets import load_dataset
from drom_net.data.live import FOREVER
from drom_net.graph.facts import topology_facts
from drom_net.plots.base import check_plot_file
from drom_net.plots.graph import draw_graph
from drom_net.results.wording import size


def topology(file: Path, draw: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """`drom-net topology`."""
    if draw is not None:
        check_plot_file(draw)
    config = load_config(file, overrides)
    if config.topology is None:
        raise UsageError(f"{file} has no topology section: its learner has a reducer, and no graph of peers")
    dataset = load_dataset(config.data, base=config.base)
    names = tuple(task.name for task in dataset.tasks)
    graph = peer_graph(config, names)
    assert graph is not None
    schedule = graph.schedule
    lengths = [FOREVER if config.source else config.data.passes * len(task.labels) for task in dataset.tasks]
    algorithm, last = algorithm_of(config, 0), max(lengths)
    facts = topology_facts(
        schedule,
        names=names,
        dim=dataset.dim,
        tau=getattr(config.algorithm.parameters, "tau", 1),
        stream_lengths=lengths,
        vectors=max(1, sum(algorithm.exchange.contribution)),
        growing=last / max(1, algorithm.sync.count(last)) if algorithm.sync.growing else None,
    )
    if draw is not None:
        draw_graph(schedule.union, names, draw, title=picture_title(config.name, facts))
    if as_json:
        print_json(facts | {"name": config.name, "picture": str(draw) if draw else None})
        return
    print_topology(facts)
    if draw is not None:
        click.echo(f"picture {draw}")


def picture_title(name: str, facts: dict[str, Any]) -> str:
    """``ring-12: ring, 12 tasks, zeta 0.911``; zeta of the weights in use, or else of Metropolis'."""
    zeta = facts["zeta_metropolis"] if facts["zeta_weights"] is None else facts["zeta_weights"]
    return f"{name}: {facts['graph']}, {count_of(facts['tasks'], 'task')}" + (
        "" if zeta is None else f", zeta {zeta:.3f}"
    )


def print_topology(facts: dict[str, Any]) -> None:
    """The facts of `topology_facts` for people, on standard output; warnings on standard error."""
    cycle = facts["graphs_in_cycle"]
    graph = facts["graph"] + (f", a cycle of {cycle} sync rounds; mean degrees" if cycle > 1 else "")
    lines = [
        ("graph", graph),
        ("scheme", facts["scheme"]),
        ("tasks", str(facts["tasks"])),
        ("edges", str(facts["edges"])),
    ]
    lines.append(("degrees", _spread(facts["degrees"], lambda degree: f"{degree:.3g}")))
    if not facts["exact"]:
        lines.append(("zeta, diameter", "not computed for so many tasks"))
    else:
        lines.append(("diameter", "none: disconnected" if facts["diameter"] is None else str(facts["diameter"])))
        lines.append(("zeta, adjacency", f"{facts['zeta_adjacency']:.3f} (0/1 with self-loops, normalised)"))
        lines.append(("zeta, Metropolis", f"{facts['zeta_metropolis']:.3f}"))
    if facts["zeta_weights"] is not None:
        lines.append(("zeta, in use", f"{facts['zeta_weights']:.3f}"))
    tau = facts["tau"]
    lines.append(("tau", str(tau) if isinstance(tau, int) else f"{min(tau)} to {max(tau)}, by task"))
    lines.append(("d", str(facts["dim"])))
    for key, title in (("bytes_per_sync_round", "a sync round"), ("bytes_per_round", "a round, averaged")):
        spread = facts[key]
        lines.append((f"sent {title}", f"{_spread(spread, size)} by a node; {size(spread['total'])} in all"))
    width = max(len(key) for key, _ in lines)
    for key, value in lines:
        click.echo(f"{key:<{width}}  {value}")
    for warning in facts["warnings"]:
        tell(f"warning: {warning}")


def _spread(values: dict[str, float], shown: Any) -> str:
    if values["min"] == values["max"]:
        return str(shown(values["min"]))
    return f"{shown(values['min'])} to {shown(values['max'])}, mean {shown(values['mean'])}"
