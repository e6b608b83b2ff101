"""What nodes' own folders say to somebody who only looks: of nodes that were started by hand, and of sites' models."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.algorithms import Learner
from drom_net.algorithms.features import Matrix, Vector
from drom_net.cluster.plan import peer_graph
from drom_net.cluster.record import edges_of, figures, told_of
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import DromNetError, UsageError
from drom_net.core.names import safe_names
from drom_net.learning.metrics import Totals, total
from drom_net.node.spec import NodeSpec
from drom_net.protocol.node import REDUCER
from drom_net.results.evidence import levels
from drom_net.results.run_directory import NODES, node_folder
from drom_net.results.sharing import sharing_figures
from drom_net.storage.node_folder import Kept, look_at_kept
from drom_net.storage.snapshot_codec import snapshot_classes

_ABOUT = ("name", "algorithm", "dataset", "what_leaves")
_GONE_S, _SILENT_S = 30.0, 12.0
"""A node shows life every five seconds; after so long without it counts as gone, and before that as silent."""


def has_nodes_by_hand(run_dir: Path) -> bool:
    """Whether nodes write there that no launcher has started.

    Raises:
        UsageError: A file is damaged.
    """
    return any(not spec.launch.parent for _, spec in _specs(run_dir))


def state_by_hand(run_dir: Path) -> dict[str, Any]:
    """How nodes do that were started by hand, in the form of state.json: those of this folder, as of their last
    snapshots. The other sites are `elsewhere`, for they write on their own hosts.

    Raises:
        UsageError: A file is damaged.
    """
    found = _specs(run_dir)
    first = found[0][1]
    nodes = {spec.task: _node(folder, spec) for folder, spec in found}
    tasks = [nodes.get(task, {"name": name, "state": "elsewhere"}) for task, name in enumerate(first.tasks)]
    known = [its.pop("totals") for its in nodes.values() if "totals" in its]
    spent = [its.pop("seconds") for its in nodes.values()]
    edges = {tuple(sorted((spec.task, int(other)))) for _, spec in found for other in spec.neighbors.neighbor_endpoints}
    state: dict[str, Any] = {"name": run_dir.name, "algorithm": first.algorithm, "driver": "processes"}
    state |= {key: first.about[key] for key in _ABOUT if key in first.about}
    state |= {"status": _status(list(nodes.values())), "error": "", "rounds_limit": first.rounds, "tasks": tasks}
    state |= {"rounds": max(its.get("round", 0) for its in nodes.values()), "seconds": max(spent)}
    state |= {"edges": told_of(sorted(edges)) if first.role == "peer" else None}
    state["reducer"] = None if first.role == "peer" else nodes.get(-1, {"name": REDUCER, "state": "elsewhere"})
    return state | (figures(total(known)) if known else {})


def note_by_hand(state: Mapping[str, Any]) -> str:
    """What is not in such a state, and where it is."""
    nodes = [*state["tasks"], *([state["reducer"]] if state["reducer"] else [])]
    here = sum(node["state"] != "elsewhere" for node in nodes)
    told = f"nodes started by hand: {here} of {len(nodes)} write here, shown as of their last snapshots"
    if here < len(nodes):
        told += "; watch the others on their own hosts, or all by --metrics"
    if state["status"] == "gone":
        told += "; each goes on by the command that began it"
    if state["status"] == "finished":
        told += "; `drom-net merge` puts the folders of all hosts together"
    return told


def who_talks(config: ClusterConfig, names: Sequence[str]) -> dict[str, Any]:
    """What state.json says of it, of a run that has ended.

    Raises:
        ConfigError: There is no such graph over so many tasks.
    """
    graph = peer_graph(config, names)
    if graph is None:
        return {"edges": None, "reducer": {"name": REDUCER, "state": "ended"}}
    return {"edges": told_of(edges_of(graph)), "reducer": None}


def models_kept(run_dir: Path, names: Sequence[str], places: Sequence[int]) -> Matrix | None:
    """The own linear models of some tasks, a row each, as of their nodes' last snapshots; zeros where there is none.

    None where no node has kept any.

    Raises:
        UsageError: A file is damaged.
    """
    nodes = safe_names(names)
    found: dict[int, Vector] = {}
    for row, place in enumerate(places):
        folder = node_folder(run_dir, nodes[place])
        spec = _spec_in(folder)
        kept = None if spec is None else _look(folder, spec)
        if spec is not None and kept is not None:
            model = spec.build_algorithm().model(kept.snapshot["learner"]["_state"])
            found[row] = np.asarray(model["w"], dtype=np.float64)
    if not found:
        return None
    models = np.zeros((len(places), len(next(iter(found.values())))))
    for row, w in found.items():
        models[row] = w if np.isfinite(w).all() else 0.0
    return models


def _specs(run_dir: Path) -> list[tuple[Path, NodeSpec]]:
    folders = sorted(path.parent for path in (run_dir / NODES).glob("*/spec.json"))
    return [(folder, spec) for folder in folders if (spec := _spec_in(folder)) is not None]


def _spec_in(folder: Path) -> NodeSpec | None:
    """None where there is none, or it has just gone.

    Raises:
        UsageError: It is damaged.
    """
    path = folder / "spec.json"
    try:
        return _read_spec(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=2048)
def _read_spec(path: Path, changed_ns: int) -> NodeSpec:
    return NodeSpec.read(path)


def _status(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Of a run as far as it is seen from here."""
    states = {node["state"] for node in nodes}
    if states <= {"ended"}:
        return "interrupted" if any(node["stopped"] for node in nodes) else "finished"
    return "gone" if states <= {"ended", "gone"} else "running"


def _node(folder: Path, spec: NodeSpec) -> dict[str, Any]:
    life, result = _read(folder / "life.json", "incarnation", int), _read(folder / "result.json", "finished", bool)
    found: dict[str, Any] = {"name": spec.name, "restarts": max(0, life.get("incarnation", 1) - 1), "round": 0}
    silent_s = _silence(folder)
    state = "ended" if result else "gone" if silent_s >= _GONE_S else "learning" if life else "starting"
    found |= {"state": state, "stopped": result.get("finished") is False, "seconds": 0.0}
    if state in ("learning", "starting") and silent_s >= _SILENT_S:
        found["silent_s"] = silent_s
    kept = _look(folder, spec)
    if kept is None:
        return found
    sent, received = (sum(sizes) for sizes in zip((0, 0), *kept.spent.moved.values(), strict=True))
    found |= {"round": kept.round, "seconds": kept.spent.seconds, "bytes_sent": sent, "bytes_received": received}
    if spec.task >= 0:
        found |= _figures(kept.snapshot["learner"], len(spec.tasks))
    return found


def _figures(learner: Mapping[str, Any], num_tasks: int) -> dict[str, Any]:
    totals: Totals = learner["totals"]
    found = {"totals": totals} | figures(totals)
    mixing = getattr(learner["_state"], "mixing", None)
    if mixing is None:
        return found
    mixture, evidence = mixing
    return found | {"sharing": sharing_figures(mixture, evidence, levels(num_tasks)[0])}


def _look(folder: Path, spec: NodeSpec) -> Kept | None:
    """None as well where its learner is not to be imported, or is not here."""
    if not _may_import(folder.parent.parent, spec.algorithm):
        return None
    try:
        return look_at_kept(folder, _classes(spec.learner))
    except DromNetError:
        return None


def _may_import(run_dir: Path, learner: str) -> bool:
    """A node's folder may be from another host: no module is imported that it alone names, as MODULE:ATTRIBUTE."""
    return ":" not in learner or learner == _learner_of(run_dir / "config.yaml")


def _learner_of(config: Path) -> str:
    """Empty where there is none."""
    try:
        return _read_learner(config, config.stat().st_mtime_ns)
    except (OSError, DromNetError):
        return ""


@lru_cache(maxsize=16)
def _read_learner(config: Path, changed_ns: int) -> str:
    return load_config(config).algorithm.name


def _classes(learner: Learner) -> list[type]:
    """What stands in nodes' snapshots; a class is known once its module is loaded."""
    import drom_net.node.build  # noqa: F401

    return snapshot_classes(learner)


def _silence(folder: Path) -> float:
    """For how long a node has shown no life."""
    files = (folder / "spec.json", folder / "lock")  # one is written at each start, the other touched from then on
    return time.time() - max((path.stat().st_mtime for path in files if path.exists()), default=0.0)


def _read(path: Path, key: str, kind: type) -> dict[str, Any]:
    """Empty where there is no file.

    Raises:
        UsageError: It is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict) or type(found.get(key)) is not kind:
        raise UsageError(f"{path} is damaged: expected an object with {key}, which is of type {kind.__name__}")
    return found
