"""A whole cluster's configuration as values, written out, and its digest."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from drom_net.algorithms import BUILTIN, Learner, learner_named
from drom_net.config.yamlfile import write_yaml
from drom_net.core.errors import ConfigError, Problem
from drom_net.core.fields import (
    REQUIRED,
    Choice,
    Endpoint,
    Endpoints,
    Flag,
    Integer,
    PluginName,
    Setting,
    Text,
    option,
    settings_of,
)
from drom_net.data.settings import (
    DATA_SECTIONS,
    NAME,
    FileData,
    RowSettings,
    SourceSettings,
    StreamSettings,
)
from drom_net.graph.families import make_schedule
from drom_net.graph.graph import GraphSchedule
from drom_net.graph.settings import TopologySettings
from drom_net.protocol.settings import DEFAULT_CHECKPOINTS, WAIT, Checkpoints, Policy, Timeouts


@dataclass(frozen=True, slots=True)
class AlgorithmChoice:
    """Which learner, with an instance of its parameters."""

    name: str
    parameters: Any

    @property
    def learner(self) -> Learner:
        return learner_named(self.name)


@dataclass(frozen=True, slots=True)
class ReducerSettings:
    """Where the reducer and the workers meet."""

    endpoint: str | None = option(
        Endpoint(),
        None,
        doc="Where workers connect. By default a private socket of `run`; nodes started by hand need it.",
    )
    bind: str | None = option(
        Endpoint(listens=True),
        None,
        doc="Where the reducer listens, if not there: tcp://0.0.0.0:5571.",
    )

    @property
    def listens_at(self) -> str | None:
        """The address to bind."""
        return self.bind or self.endpoint


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Where peers meet."""

    endpoints: tuple[str, ...] | None = option(
        Endpoints(Endpoint(where_to_listen="where peers listen is peers.bind")),
        None,
        doc="Where peers are reached, in task order. By default private sockets of `run`; peers started by hand "
        "need them.",
    )
    bind: tuple[str, ...] | None = option(
        Endpoints(Endpoint(listens=True)),
        None,
        doc="Where peers listen, in task order, if not there.",
    )

    @property
    def listens_at(self) -> tuple[str, ...] | None:
        """The addresses to bind."""
        return self.bind or self.endpoints


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Encryption, and who may join."""

    keys: str | None = option(
        Text("the name of a folder"),
        None,
        doc="The folder of key files, relative to this file (`drom-net keys create`). All connections are "
        "encrypted, and only nodes with a listed key get in.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """A checked configuration."""

    name: str = option(NAME, None, doc="The name of the cluster and its runs. By default the file name.")
    algorithm: AlgorithmChoice
    topology: TopologySettings | None = None
    """The graph of peers, for a learner that runs on one; None for others."""
    data: StreamSettings
    """An instance of one of `DATA_SECTIONS`."""
    source: SourceSettings | None = None
    """Of live data; None for all other."""
    rounds: int | None = option(Integer(1), None, doc="The most rounds. By default until the longest stream ends.")
    seed: int = option(Integer(0), 0, doc="The seed of the run's random draws.")
    allow_sharing_examples: bool = option(
        Flag(),
        False,
        doc="Allow learners that send the examples themselves to other sites (osmtl, pooled).",
    )
    reducer: ReducerSettings
    """Without effect where there are peers."""
    peers: PeerSettings = PeerSettings()
    """Without effect where there is a reducer."""
    keep_records: bool = option(
        Flag(),
        True,
        doc="Keep a row for each round, as `verify`, `replay` and the timeline need. Rows of long runs fill the disk.",
    )
    restart: int = option(
        Integer(0),
        0,
        doc="How often `run` restarts a killed process, from its last snapshot.",
    )
    policy: Policy = WAIT
    checkpoint: Checkpoints = DEFAULT_CHECKPOINTS
    timeouts: Timeouts
    security: SecuritySettings = SecuritySettings()
    path: Path = field(compare=False)
    """The file it came from."""
    base: Path = field(compare=False)
    """The folder where relative names of data files start."""


def is_loopback(endpoint: str) -> bool:
    """Whether only processes of this machine can reach an endpoint. Names but localhost are not looked up."""
    if endpoint.startswith("ipc://"):
        return True
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


DEFAULT_ALGORITHM = "adadrom"
"""The learner of a file that names none."""
SECTIONS = (
    *("algorithm", "topology", "data", "source", "reducer", "peers"),
    *("policy", "checkpoint", "timeouts", "security"),
)
TOP_LEVEL = (
    *("name", "algorithm", "topology", "data", "source", "rounds", "seed", "allow_sharing_examples"),
    *("keep_records", "restart", "reducer", "peers", "policy", "checkpoint", "timeouts", "security"),
)
"""All keys at the top, in the order in which they are written."""
_OF_PEERS, _OF_STAR = ("topology", "peers"), ("reducer",)


def foreign_sections(algorithm: str, *, topology: bool) -> tuple[str, ...]:
    """The sections that a learner must not have, in a file with or without a section topology."""
    return _OF_STAR if learner_named(algorithm).has_peers(topology=topology) else _OF_PEERS


def to_mapping(config: ClusterConfig) -> dict[str, Any]:
    """The configuration with every value written out, as JSON knows them (infinity is ".inf"); loads again."""
    mapping: dict[str, Any] = _finite(_explicit(config))
    return mapping


AS_RUN = "The configuration as it was run, with every default written out. It can be run again."


def to_yaml(config: ClusterConfig, *, head: str = AS_RUN, without: Collection[str] = ()) -> str:
    """The configuration with every value written out, as YAML that loads again to an equal one.

    Args:
        head: A comment for its first line.
        without: Sections to leave out, for somebody who adds them later.
    """
    written = {key: value for key, value in _explicit(config).items() if key not in without}
    return f"# {head}\n{write_yaml(written)}"


def what_leaves(config: ClusterConfig) -> str:
    """What the reducer, a neighbor and another site can compute with this learner and these parameters."""
    learner, parameters = config.algorithm.learner, config.algorithm.parameters
    keys = " Keys encrypt the path, and hide nothing from members." if config.security.keys is not None else ""
    return learner.what_leaves(parameters, on_graph=config.topology is not None) + keys


def graph_schedule(config: ClusterConfig, tasks: Sequence[str]) -> GraphSchedule | None:
    """The graph of each sync round; None where there is a reducer.

    Args:
        tasks: The names of all tasks, in order.

    Raises:
        ConfigError: There is no such graph over so many tasks.
        DataError: The matrix file is wrong.
        UsageError: networkx is missing.
    """
    if config.topology is None:
        return None
    return make_schedule(config.topology, len(tasks), tasks, base=config.path.absolute().parent)


def peer_endpoints(config: ClusterConfig, names: Sequence[str]) -> tuple[str, ...] | None:
    """Where each task's peer is reached, in task order; None where the configuration leaves that to `run`.

    Where they listen is then ``config.peers.listens_at``, of the same length.

    Raises:
        ConfigError: There are not as many as tasks.
    """
    endpoints = config.peers.endpoints
    if endpoints is not None and len(endpoints) != len(names):
        expected = f"{len(names)} endpoints, one for each task"
        raise ConfigError([Problem(f"{config.path}: peers.endpoints", expected, str(len(endpoints)))])
    return endpoints


def config_digest(config: ClusterConfig, tasks: Sequence[str]) -> str:
    """SHA-256 of what defines the result, in hexadecimal: nodes of one cluster must agree on it.

    Of the topology it covers the graphs that come out of it, so that a graph may be drawn here and listed there.

    Args:
        config: The configuration. Its name, endpoints, folders, pace, measure and timeouts may differ by host.
        tasks: The names of all tasks, in order, also where the configuration leaves them to be found.

    Raises:
        InputError, UsageError: There is no such graph; see `graph_schedule`.
    """
    written = to_mapping(config)
    data = {key: value for key, value in written["data"].items() if key not in ("directory", "pace_s", "measure")}
    if isinstance(config.data, FileData):
        data["files"] = PurePath(config.data.files).name
    if isinstance(config.data, RowSettings):
        del data["tasks"]
        if not data["unlabelled"]:  # as it was before there was such a key
            del data["unlabelled"]
        if isinstance(config.data.features, str):
            data["features"] = PurePath(config.data.features).name
    content = {"algorithm": written["algorithm"], "data": data, "tasks": list(tasks)}
    content |= {"rounds": config.rounds, "seed": config.seed, "policy": written["policy"]}
    if constants := config.algorithm.learner.constants:
        content["constants"] = list(constants)
    if schedule := graph_schedule(config, tasks):
        content["topology"] = schedule.digest
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _explicit(config: ClusterConfig) -> dict[str, object]:
    head = {"name": config.algorithm.name}
    kind = {"dataset": config.data.dataset}
    written = {
        "name": config.name,
        "algorithm": head | _values(config.algorithm.parameters),
        # Keys without a value are not for this graph.
        "topology": {key: value for key, value in _values(config.topology).items() if value is not None},
        "data": kind | _values(config.data),
        "source": _values(config.source),
        "rounds": config.rounds,
        "seed": config.seed,
        "allow_sharing_examples": config.allow_sharing_examples,
        "keep_records": config.keep_records,
        "restart": config.restart,
        "reducer": _values(config.reducer),
        "peers": _values(config.peers),
        "policy": {key: value for key, value in _values(config.policy).items() if key != "name" or value is not None},
        "checkpoint": _values(config.checkpoint),
        "timeouts": _values(config.timeouts),
        "security": _values(config.security),
    }
    foreign = [*foreign_sections(config.algorithm.name, topology=config.topology is not None)]
    foreign += ["source"] if config.source is None else []
    return {key: value for key, value in written.items() if key not in foreign}


def _values(section: Any) -> dict[str, Any]:
    """The settings of a section by their keys; of None there are none."""
    if section is None:
        return {}
    values = {key: (setting, getattr(section, setting.field)) for key, setting in settings_of(type(section)).items()}
    return {key: None if value is None else setting.spec.plain(value) for key, (setting, value) in values.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return ".inf" if value == math.inf else value


ALGORITHM_NAME = Setting(
    "name",
    "name",
    PluginName(tuple(BUILTIN)),
    DEFAULT_ALGORITHM,
    "The learner, of this package or another; its keys are its own.",
)
DATASET = Setting(
    "dataset",
    "dataset",
    Choice(tuple(DATA_SECTIONS)),
    REQUIRED,
    "The kind of data; not needed beside `files`.",
)


def algorithm_settings(name: str) -> dict[str, Setting]:
    """The keys of the `algorithm` section for one learner; `preset` replaces the defaults of the others."""
    learner = learner_named(name)
    doc = "A named set of parameters that replaces the defaults."
    preset = Setting("preset", "preset", Choice(learner.preset_names), "default", doc)
    return {"name": ALGORITHM_NAME, "preset": preset} | settings_of(learner.parameters)


def data_settings(dataset: str) -> dict[str, Setting]:
    """The keys of the `data` section for one kind of data."""
    return {"dataset": DATASET} | settings_of(DATA_SECTIONS[dataset])
