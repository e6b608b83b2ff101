"""All that one node process needs to know, as plain values in one JSON file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from drom_net.algorithms import Algorithm, Learner, learner_named
from drom_net.algorithms.base import SyncRounds
from drom_net.core.errors import DataError, Problem, UsageError
from drom_net.core.names import safe_names
from drom_net.graph.neighborhood import Neighborhood
from drom_net.protocol.node import REDUCER
from drom_net.protocol.settings import Checkpoints, Policy, Timeouts, policy_named
from drom_net.results.summary import write_text


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """Where a task's examples are, or come from, and in which rounds they are taken."""

    examples: str = ""
    """A worker's prepared examples (TaskStream.save)."""
    data_digest: str = ""
    """Of these (TaskStream.digest); empty for a reducer, and where they come while it runs."""
    spread_over: int | None = None
    live: bool = False
    """Whether examples come while it runs, and a round begins with the first task that has one."""
    source: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Where the examples of a live task come from: the settings of SourceSettings, its `bind` and `file` those of this
    task, and as `rows` what its rows are (data.incoming.RowReader). Empty for a reducer, and where the examples are
    prepared."""
    pace_s: float = 0.0
    """How long each example takes to come."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Who started the node, what it leaves to them, and what it removes when it ends."""

    parent: int = 0
    """The launcher's process id: the node ends when it is gone. 0 for a node on its own."""
    remove: tuple[str, ...] = ()
    """Folders that the node removes when it ends: its prepared data."""
    remove_if_orphaned: tuple[str, ...] = ()
    """And these if it ends because its launcher is gone: the others' prepared data, the sockets' folder."""
    log_format: str = "text"
    """text or json."""
    metrics: str = ""
    """host:port of a page of what it counts; one that has a launcher reports to that instead. Empty: no page."""


BY_HAND = LaunchSpec()


@dataclass(frozen=True, slots=True)
class NeighborsSpec:
    """A peer's place in the graph."""

    neighbor_endpoints: dict[str, str] = dataclasses.field(default_factory=dict)
    """Where its neighbors are reached, by task (JSON knows only texts as keys)."""
    taus: dict[str, int] = dataclasses.field(default_factory=dict)
    """The sync interval of each task in its closed neighborhood, by task."""
    cycle: tuple[tuple[int, ...], ...] = ()
    """As in Neighborhood."""
    scales: tuple[float, ...] | None = None
    """Likewise."""
    tree: tuple[int, ...] | None = None
    """Likewise."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node. Whoever writes it has checked everything in it."""

    role: str
    """"worker", "reducer" or "peer"."""
    name: str
    """The task's name, or "reducer"."""
    task: int
    """Which task a worker is, from 0; -1 for the reducer."""
    tasks: tuple[str, ...]
    """The roster: all tasks' names in order."""
    algorithm: str
    parameters: dict[str, Any]
    """By field name of the algorithm's parameters."""
    seed: int
    rounds: int | None
    dim: int
    run_id: str
    """Empty where nobody gave one: the reducer then draws one, and workers take what they are told."""
    config_digest: str
    feature_digest: str
    """Empty for a reducer that does not know the features."""
    endpoint: str
    """Where the reducer is reached; for the reducer itself, or a peer, where it listens."""
    timeouts: dict[str, float]
    out: str
    """The node's own folder: its records, model and result."""
    policy: dict[str, Any] = dataclasses.field(default_factory=dict)
    """As protocol.settings.Policy."""
    checkpoints: dict[str, Any] = dataclasses.field(default_factory=dict)
    """As protocol.settings.Checkpoints."""
    keep_records: bool = True
    """Whether it writes a row for each round."""
    keys: str = ""
    """The folder of key files, of which the node reads the list and its own secret key; empty for no keys."""
    summary: str = ""
    """A reducer on its own writes its summary here."""
    about: dict[str, str] = dataclasses.field(default_factory=dict)
    """What the summary says of the run beside its figures: name, dataset, positive class."""
    stream: StreamSpec = StreamSpec()
    launch: LaunchSpec = BY_HAND
    neighbors: NeighborsSpec = NeighborsSpec()
    """Of a peer."""

    @property
    def node(self) -> str:
        """What it is called in files, keys and metrics: `name` in its safe form."""
        return REDUCER if self.task < 0 else self.nodes[self.task]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The same of all tasks."""
        return safe_names(self.tasks)

    @property
    def learner(self) -> Learner:
        """Raises ConfigError: it is of another package, which is not installed here."""
        return learner_named(self.algorithm, f"the learner of {self.name}")

    def build_algorithm(self) -> Algorithm:
        return self.learner.make(**self.parameters)

    def build_neighborhood(self) -> Neighborhood:
        """Of a peer."""
        own = self.neighbors
        growing = self.build_algorithm().sync.growing
        syncs = {int(task): SyncRounds(tau, growing) for task, tau in own.taus.items()}
        may_miss = self.build_policy().may_miss
        return Neighborhood(self.task, syncs, tuple(map(tuple, own.cycle)), own.scales, own.tree, may_miss)

    def build_timeouts(self) -> Timeouts:
        return Timeouts(**self.timeouts)

    def build_policy(self) -> Policy:
        """Raises ConfigError: it is of another package, which is not installed here."""
        return policy_named(self.policy.get("name"), f"the policy of {self.name}")(**self.policy)

    def build_checkpoints(self) -> Checkpoints:
        return Checkpoints(**self.checkpoints)

    def require_same_data(self) -> None:
        """Refuse to go on in its folder with other examples than it began with.

        Raises:
            DataError: They are others.
        """
        folder = Path(self.out)
        try:
            former = json.loads((folder / "spec.json").read_text()).get("data_digest")
        except FileNotFoundError:
            return
        if (folder / "life.json").exists() and former and former != self.stream.data_digest:
            raise DataError(
                [
                    Problem(
                        f"the data of {self.name}",
                        f"the examples that the run began with (digest {former[:12]})",
                        f"others (digest {self.stream.data_digest[:12]}): they have changed since",
                        "bring the former back to go on, or start the run anew with another --out",
                    )
                ]
            )

    def write(self, path: Path) -> None:
        """As a whole or not at all: a node that is started again writes it anew."""
        document = dataclasses.asdict(self)
        for part in _PARTS:  # in the file all fields stand side by side
            document |= document.pop(part)
        write_text(path, json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> NodeSpec:
        """What `write` wrote.

        Raises:
            FileNotFoundError: It is not there.
            UsageError: It is damaged, or something else.
        """
        try:
            return _checked(cls._of(json.loads(path.read_text())))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"{path} is damaged: {error}") from None

    @classmethod
    def _of(cls, document: dict[str, Any]) -> NodeSpec:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        parts: dict[str, Any] = {
            part: kind(**{name: fields.pop(name) for name in kind.__slots__ if name in fields})
            for part, kind in _PARTS.items()
        }
        return cls(**fields, **parts)


_PARTS: dict[str, type[StreamSpec | LaunchSpec | NeighborsSpec]] = {
    "stream": StreamSpec,
    "launch": LaunchSpec,
    "neighbors": NeighborsSpec,
}
"""Fields of a NodeSpec that have fields of their own."""


def _checked(spec: NodeSpec) -> NodeSpec:
    """The same; what is within dicts is not looked at.

    Raises:
        ValueError: A field has another type than it says, or a place is none among the tasks.
    """
    for part in (spec, spec.stream, spec.launch, spec.neighbors):
        for name, hint in get_type_hints(type(part)).items():
            if not _fits(getattr(part, name), hint):
                raise ValueError(f"expected another {name} than {getattr(part, name)!r:.80}")
    count, others = len(spec.tasks), spec.neighbors.neighbor_endpoints
    if not all(isinstance(name, str) for name in spec.tasks):
        raise ValueError("expected the names of tasks")
    if not -1 <= spec.task < count or (spec.task < 0) != (spec.role == "reducer"):
        raise ValueError(f"expected the place of a {spec.role} among {count} tasks, got {spec.task}")
    if not all(other.isdecimal() and int(other) < count for other in others):
        raise ValueError(f"expected neighbors among {count} tasks, got {', '.join(others):.80}")
    return spec


def _fits(value: object, hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    kind = get_origin(hint) or hint
    return isinstance(value, (int, float) if kind is float else kind)
