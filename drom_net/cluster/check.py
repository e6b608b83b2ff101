"""What a configuration and its data come to, before anything is started: `drom-net check` and `drom_net.check`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.cluster.cost import Cost, cost
from drom_net.cluster.leaving import exposed, readable, what_leaves_here
from drom_net.cluster.plan import algorithm_of, source_of
from drom_net.cluster.prepare import Prepared
from drom_net.config.model import ClusterConfig, config_digest, peer_endpoints
from drom_net.data.advice import advice
from drom_net.data.dataset import Dataset
from drom_net.data.stream import SparseRows
from drom_net.protocol.node import named

PRIVATE = "a private local socket"


class Process(NamedTuple):
    """A task's process, for `check`."""

    name: str
    node: str
    examples: int
    address: str
    source: str
    """Where its examples come from, in words; empty where they are files."""


def process_rows(prepared: Prepared) -> list[Process]:
    config, roster = prepared.config, prepared.roster
    counts = [stream.num_examples for stream in prepared.streams]
    sources = [source_of(config, roster.tasks, task) if config.source else "" for task in range(len(counts))]
    return list(map(Process, roster.tasks, roster.nodes, counts, _addresses(prepared), sources))


def plan_facts(prepared: Prepared) -> dict[str, Any]:
    """What `check` tells of the cluster as plain values, without what it costs."""
    config = prepared.config
    return {
        "name": config.name,
        "algorithm": config.algorithm.name,
        "dataset": type(config.data).dataset,
        "rounds": prepared.rounds,
        "passes": config.data.passes,
        "dim": prepared.roster.dim,
        "columns": columns_of(prepared.dataset),
        "notes": list(prepared.dataset.notes),
        "warnings": [*advice(prepared.dataset, prepared.streams), *exposed(prepared)],
        "config_digest": config_digest(config, prepared.roster.tasks),
        "what_leaves": what_leaves_here(prepared),
        "readable": [each._asdict() for each in readable(prepared)],
        "reducer": {"listens": config.reducer.listens_at, "endpoint": config.reducer.endpoint},
        "tasks": [
            {"task": task, "name": row.name, "node": row.node, "examples": row.examples, "address": row.address}
            | ({"source": row.source} if config.source else {})
            for task, row in enumerate(process_rows(prepared))
        ],
    }


def columns_of(dataset: Dataset) -> dict[str, object] | None:
    """The columns of a table with their kinds, as data.columns has them; None of other data."""
    schema = dataset.preprocessing.schema
    return None if schema is None else {column.name: column.to_plain() for column in schema.columns}


def _addresses(prepared: Prepared) -> list[str]:
    """Where each task's process listens or connects, in words."""
    config, graph, names = prepared.config, prepared.graph, prepared.roster.tasks
    if graph is None:
        return [f"connects to {config.reducer.endpoint or PRIVATE}"] * len(names)
    endpoints = peer_endpoints(config, names) or [PRIVATE] * len(names)
    return [
        f"listens at {endpoints[task]}; neighbors {named(names, neighbors) if neighbors else 'none'}"
        for task, neighbors in enumerate(graph.union.neighbors)
    ]


def listening(config: ClusterConfig) -> tuple[str | None, ...]:
    """Where the reducer or the peers listen; None is a private socket."""
    return (config.reducer.listens_at,) if config.topology is None else config.peers.listens_at or ()


def cost_of(prepared: Prepared) -> Cost:
    return cost(prepared.config, prepared.roster, prepared.graph, last_rounds=prepared.last_rounds)


def bytes_as_a_rule(prepared: Prepared, costs: Cost) -> int | None:
    """About how many bytes travel in all where that is far less than at the most (`Learner.as_a_rule`); None of other
    learners, and of runs without an end."""
    rule = prepared.config.algorithm.learner.as_a_rule
    if rule is None or not prepared.rounds or not costs.bytes_in_all:
        return None
    sync = algorithm_of(prepared.config, 0).sync
    in_full = rule.count_in_full(sync, prepared.rounds) / max(1, sync.count(prepared.rounds))
    push, pull = (part + in_full * (full - part) for part, full in zip(rule.part, rule.in_full, strict=True))
    both = costs.push_bytes + costs.pull_bytes
    ratio = (push * costs.push_bytes + pull * costs.pull_bytes) / both if both else 1.0
    filled = [_filled(stream.rows) for stream in prepared.streams]
    return round(costs.bytes_in_all * ratio * float(np.mean(filled)))


def _filled(rows: Matrix | SparseRows) -> float:
    """Of the columns of a site, the share of those that any row has."""
    return len(np.unique(rows.indices)) / rows.dim if isinstance(rows, SparseRows) else 1.0
