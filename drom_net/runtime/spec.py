"""All that one node process needs to know, as plain values in one JSON file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drom_net.algorithms import ALGORITHMS, PARAMETERS, Algorithm
from drom_net.protocol.settings import Timeouts


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
    examples: str = ""
    """A worker's prepared examples (TaskStream.save)."""
    remove: tuple[str, ...] = ()
    """Folders that the node removes when it ends: its prepared data."""
    remove_if_orphaned: tuple[str, ...] = ()
    """And these if it ends because its launcher is gone: the others' prepared data, the sockets' folder."""
    spread_over: int | None = None
    parent: int = 0
    """The launcher's process id: the node ends when it is gone. 0 for a node on its own."""
    neighbors: tuple[int, ...] = ()
    """A peer's, ascending."""
    neighbor_endpoints: tuple[str, ...] = ()
    """Where they are reached, in the same order."""
    scales: tuple[float, ...] | None = None
    """What a peer multiplies the vectors of its neighborhood (itself included) by, in task order; None is 1."""
    summary: str = ""
    """A reducer on its own writes its summary here."""
    about: dict[str, str] = dataclasses.field(default_factory=dict)
    """What the summary says of the run beside its figures: name, dataset, positive class."""

    def build_algorithm(self) -> Algorithm:
        return ALGORITHMS[self.algorithm](PARAMETERS[self.algorithm](**self.parameters))

    def build_timeouts(self) -> Timeouts:
        return Timeouts(**self.timeouts)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> NodeSpec:
        fields = json.loads(path.read_text())
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return cls(**(fields | lists))
