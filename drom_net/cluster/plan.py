"""From a configuration and its data to the nodes that run it: who runs where, with what. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drom_net.algorithms import Algorithm
from drom_net.algorithms.learner import exchange_of, of_task
from drom_net.config.model import ClusterConfig, config_digest, graph_schedule, what_leaves
from drom_net.core.errors import ConfigError, Problem
from drom_net.core.names import safe_names
from drom_net.data.formats import line_format_of
from drom_net.data.live_rows import live_rows
from drom_net.data.settings import LiveData
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.neighborhood import Neighborhood, neighborhoods
from drom_net.node.spec import BY_HAND, LaunchSpec, NeighborsSpec, NodeSpec, StreamSpec
from drom_net.protocol.node import REDUCER
from drom_net.results.timeline import Lane, Rows, make_lanes, peer_words, star_words
from drom_net.transport.keys import client_of


@dataclass(frozen=True, slots=True)
class Roster:
    """What a plan needs to know of the data."""

    tasks: tuple[str, ...]
    dim: int
    feature_digest: str
    """Empty where it is not known."""
    longest: int | None = None
    """The number of examples of the longest stream, in all passes; None where it is not known."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """What the tasks are called in files."""
        return safe_names(self.tasks)

    def spread_over(self, config: ClusterConfig) -> int | None:
        """Over how many rounds streams are spread; None for lockstep."""
        if config.data.alignment != "spread":
            return None
        return config.rounds or self.longest


@dataclass(frozen=True, slots=True)
class PeerGraph:
    """Who talks to whom, and when."""

    schedule: GraphSchedule
    neighborhoods: list[Neighborhood]

    @property
    def union(self) -> Graph:
        """Whoever meets in some round."""
        return self.schedule.union


def peer_graph(config: ClusterConfig, names: Sequence[str]) -> PeerGraph | None:
    """Who talks to whom; None for a star.

    Raises:
        ConfigError: The graph cannot be made for these tasks, or tau does not fit them.
    """
    schedule = graph_schedule(config, names)
    if schedule is None:
        return None
    tau = config.algorithm.parameters.tau
    if config.algorithm.learner.along_tree:
        why = ""
        if len(schedule.graphs) > 1:
            why = "a graph that stays, as sums flow along a tree of it"
        elif schedule.graphs[0].weights is not None:
            why = "mask, as every sum counts once"
        if why:
            settings = config.topology
            assert settings is not None
            got = f'"{settings.graph}"' if len(schedule.graphs) > 1 else f'"{settings.rule}"'
            key = "topology.graph" if len(schedule.graphs) > 1 else "topology.weights"
            raise ConfigError([Problem(f"{config.path}: {key}", f"{why} ({config.algorithm.name})", got)])
    expected = ""
    if isinstance(tau, tuple) and len(tau) != len(names):
        expected = f"{len(names)} numbers, one for each task"
    elif isinstance(tau, tuple) and len(schedule.graphs) > 1 and len(set(tau)) > 1:
        expected = "one number for all tasks, as the graph changes by sync round"
    if expected:
        raise ConfigError([Problem(f"{config.path}: algorithm.tau", expected, f"{len(tau)} numbers")])
    syncs = [algorithm_of(config, task).sync for task in range(len(names))]
    return PeerGraph(schedule, neighborhoods(schedule, syncs, may_miss=config.policy.may_miss))


def node_names(config: ClusterConfig, names: Sequence[str]) -> tuple[str, ...]:
    """What all nodes are called in files: the reducer, where there is one, and the safe forms of the tasks' names."""
    nodes = safe_names(names)
    return nodes if config.topology is not None else (REDUCER, *nodes)


def client_names(config: ClusterConfig, names: Sequence[str]) -> tuple[str, ...]:
    """Of those tasks whose applications connect by TCP, what these are called in files."""
    endpoints = [source_endpoint(config, names, task) for task in range(len(names))]
    return tuple(
        client_of(node) for node, at in zip(safe_names(names), endpoints, strict=True) if at and "tcp" in at[:3]
    )


def parameters_of(config: ClusterConfig, task: int) -> Any:
    """The learner's parameters for one task: they may differ in tau."""
    return of_task(config.algorithm.parameters, task)


def is_delayed(config: ClusterConfig) -> bool:
    """Whether what peers send in a sync round takes effect at the next one."""
    return exchange_of(config.algorithm.parameters) == "delayed"


def algorithm_of(config: ClusterConfig, task: int) -> Algorithm:
    """The configured learner of one task."""
    return config.algorithm.learner.build(parameters_of(config, task))


def check_sharing(config: ClusterConfig) -> bool:
    """Whether the learner sends the examples themselves to other sites.

    Raises:
        ConfigError: It does, and the configuration does not allow it.
    """
    if not config.algorithm.learner.shares_examples:
        return False
    if not config.allow_sharing_examples:
        place = f"{config.path}: allow_sharing_examples"
        expected = f"true, for {config.algorithm.name} sends every example to other sites"
        raise ConfigError(
            [Problem(place, expected, "false", "the plain loop (--driver reference) needs no permission")]
        )
    return True


def node_specs(
    config: ClusterConfig,
    roster: Roster,
    *,
    endpoint: str,
    bind: str,
    run_id: str,
    folder_of: dict[str, str],
    summary: str = "",
    launch: LaunchSpec = BY_HAND,
) -> list[NodeSpec]:
    """The reducer's spec, then each worker's.

    Args:
        folder_of: Each node's own folder, by what it is called in files.
        summary: Where the reducer writes its summary; empty for nowhere.
        launch: Of all nodes; prepared examples are removed beside what it names.
    """
    common = _common(config, roster, run_id=run_id)
    reducer = NodeSpec(
        role="reducer",
        name=REDUCER,
        task=-1,
        endpoint=bind,
        out=folder_of[REDUCER],
        summary=summary,
        stream=_stream(config, roster),
        launch=launch,
        **common,
    )
    workers = [
        NodeSpec(
            role="worker",
            name=name,
            task=task,
            endpoint=endpoint,
            out=folder_of[node],
            **_of_task(config, roster, task, folder_of[node], launch),
            **common,
        )
        for task, (name, node) in enumerate(zip(roster.tasks, roster.nodes, strict=True))
    ]
    return [reducer, *workers]


def peer_specs(
    config: ClusterConfig,
    roster: Roster,
    graph: PeerGraph,
    *,
    endpoints: Sequence[str],
    binds: Sequence[str],
    run_id: str,
    folder_of: dict[str, str],
    launch: LaunchSpec = BY_HAND,
) -> list[NodeSpec]:
    """Each peer's spec; arguments as for `node_specs`, endpoints and binds in task order."""
    common = _common(config, roster, run_id=run_id)
    return [
        NodeSpec(
            role="peer",
            name=name,
            task=task,
            endpoint=binds[task],
            out=folder_of[node],
            **_of_task(config, roster, task, folder_of[node], launch),
            neighbors=NeighborsSpec(
                neighbor_endpoints={str(other): endpoints[other] for other in hood.neighbors},
                taus={str(other): sync.tau for other, sync in hood.syncs.items()},
                cycle=hood.cycle,
                scales=hood.scales,
                tree=hood.tree,
            ),
            **common | {"parameters": dataclasses.asdict(parameters_of(config, task))},
        )
        for task, (name, node, hood) in enumerate(zip(roster.tasks, roster.nodes, graph.neighborhoods, strict=True))
    ]


def _common(config: ClusterConfig, roster: Roster, *, run_id: str) -> dict[str, Any]:
    """What the specs of all nodes of a run say."""
    return {
        "tasks": roster.tasks,
        "algorithm": config.algorithm.name,
        "parameters": dataclasses.asdict(config.algorithm.parameters),
        "seed": config.seed,
        "rounds": config.rounds,
        "dim": roster.dim,
        "run_id": run_id,
        "config_digest": config_digest(config, roster.tasks),
        "feature_digest": roster.feature_digest,
        "timeouts": dataclasses.asdict(config.timeouts),
        "policy": dataclasses.asdict(config.policy),
        "checkpoints": dataclasses.asdict(config.checkpoint),
        "keys": config.security.keys or "",
        "keep_records": config.keep_records,
        "about": about_config(config),  # a node sees its own rows alone
    }


def _stream(config: ClusterConfig, roster: Roster) -> StreamSpec:
    """When examples come, at any node."""
    return StreamSpec(
        spread_over=roster.spread_over(config),
        live=config.source is not None,
        pace_s=config.data.pace_s if config.source is None else config.source.round_every_s,
    )


def _of_task(config: ClusterConfig, roster: Roster, task: int, folder: str, launch: LaunchSpec) -> dict[str, Any]:
    """Where a task's examples are, or come from; its node removes what was prepared."""
    stream = _stream(config, roster)
    if config.source is None:
        examples = f"{folder}/examples"
        launch = dataclasses.replace(launch, remove=(examples,))
        return {"stream": dataclasses.replace(stream, examples=examples), "launch": launch}
    return {"stream": dataclasses.replace(stream, source=_source(config, roster, task)), "launch": launch}


def _source(config: ClusterConfig, roster: Roster, task: int) -> dict[str, Any]:
    """The settings of a live task's source."""
    assert isinstance(config.data, LiveData)
    source = config.source
    assert source is not None
    file = source.file and source.file.replace("{task}", roster.nodes[task])
    format = source.format or line_format_of(file or "") or "jsonl"
    own = {"bind": source_endpoint(config, roster.tasks, task), "file": file, "format": format}
    return dataclasses.asdict(source) | own | {"rows": live_rows(config.data).to_json()}


def source_endpoint(config: ClusterConfig, names: Sequence[str], task: int) -> str | None:
    """Where applications find a task; None where its examples come otherwise."""
    bind = None if config.source is None else config.source.bind
    if isinstance(bind, tuple):
        return bind[task]
    return bind and bind.replace("{task}", safe_names(names)[task])


def source_of(config: ClusterConfig, names: Sequence[str], task: int) -> str:
    """The same for people: where a live task's examples come from."""
    assert config.source is not None
    if endpoint := source_endpoint(config, names, task):
        return endpoint
    return config.source.file.replace("{task}", safe_names(names)[task]) if config.source.file else "standard input"


def about_config(config: ClusterConfig) -> dict[str, str]:
    """What a summary says of a run beside its figures, as far as the configuration alone tells it."""
    about = {"name": config.name, "algorithm": config.algorithm.name, "dataset": type(config.data).dataset}
    return about | {"what_leaves": what_leaves(config)}


def lanes(
    config: ClusterConfig,
    graph: PeerGraph | None,
    names: Sequence[str],
    rows: Sequence[Rows],
    lost: Sequence[tuple[str, Rows]] = (),
) -> list[Lane]:
    """What each task of a run did when, for a picture.

    Args:
        graph: The configuration's, over these tasks.
        names: All tasks', in order.
        rows: Each task's, as protocol.node.TIMES_DTYPE, by one clock.
        lost: Of a simulation with crashes, as `timeline.make_lanes` takes it.
    """
    if graph is None:
        return make_lanes(names, rows, star_words(rows), lost)
    delayed = is_delayed(config)
    words = peer_words(graph.neighborhoods, rows, rounds=config.rounds, delayed=delayed)
    return make_lanes(names, rows, words, lost)
