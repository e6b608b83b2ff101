"""All that a run directory says, for its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.algorithms import learner_named
from drom_net.algorithms.features import Matrix
from drom_net.cluster.plan import PeerGraph, lanes, peer_graph
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig, config_digest
from drom_net.core.errors import DromNetError, UsageError
from drom_net.learning.calibration import probabilities_of
from drom_net.learning.records import LEARNED
from drom_net.reporting.watching import has_ended_badly, read_state
from drom_net.results.model_file import load_model
from drom_net.results.outcomes import Rows, read_json
from drom_net.results.run_directory import EVENTS, SIMULATION, load_disturbances, load_summary
from drom_net.results.tables import read_records, read_timeline
from drom_net.results.timeline import Disturbance, Lane, begun_anew


@dataclass(frozen=True, slots=True)
class Task:
    """The rows of one task that count: those with a label, in order."""

    rounds: Sequence[int]
    wrong: Sequence[bool]
    """Whether each prediction was."""
    seen: Sequence[float]
    """Labels as the learner saw them, -1.0 or +1.0."""
    clean: Sequence[float]
    p: Sequence[float]
    """The probability of +1 that was given to each."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What there is to tell of one run; what is missing is empty, and `missing` says why."""

    run_dir: Path
    summary: Mapping[str, Any]
    """As summary.json has it; of a run without one the last state of its nodes, in the same form."""
    error: str = ""
    """Why there is no summary."""
    config: ClusterConfig | None = None
    digest: str = ""
    """Of the configuration."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] = field(default_factory=dict)
    tasks: Sequence[Task] = ()
    models: Matrix | None = None
    """Each task's own linear model, a row each."""
    lanes: Sequence[Lane] = ()
    returns: Sequence[int] = ()
    """How often each task went on after a crash."""
    absences: Mapping[str, int] = field(default_factory=dict)
    """By task, how many central steps were made without its contribution."""
    faults: Sequence[Disturbance] = ()
    """Of a simulation."""
    events: Sequence[Mapping[str, Any]] = ()
    """What happened to the processes of a run, in order."""
    edges: Sequence[tuple[str, str]] | None = None
    """Who talks to whom, by name; None for a star."""
    missing: Mapping[str, str] = field(default_factory=dict)
    repeat: str = ""
    """Said in place of the commands that repeat it."""

    @property
    def names(self) -> list[str]:
        return [task["name"] for task in self.summary["tasks"]]


def read_facts(run_dir: Path, *, error: str = "") -> RunFacts:
    """Read a run directory; what it lacks, or has damaged, is said and left out.

    Args:
        error: Why the run failed; there may be no summary then.

    Raises:
        UsageError: It is not the directory of a run that has ended.
    """
    state = _failed_state(run_dir)
    error = error or state.get("error", "")
    # What a run that was resumed has failed with is newer than the summary of its earlier interruption.
    failed = bool(state) or bool(error and not (run_dir / "summary.json").exists())
    summary = _as_summary(run_dir, state) if failed else load_summary(run_dir)
    names = [task["name"] for task in summary["tasks"]]
    missing: dict[str, str] = {}
    found: dict[str, Any] = {}

    def read(what: str, how: Any) -> Any:
        try:
            return how()
        except (DromNetError, OSError, KeyError, TypeError, ValueError) as problem:
            missing[what] = str(problem).replace(f"{run_dir}/", "").replace(str(run_dir), "this run")
            return None

    config = read("config", lambda: load_config(run_dir / "config.yaml"))
    graph = read("graph", lambda: peer_graph(config, names)) if config is not None else None
    if config is not None:
        found["digest"] = read("digest", lambda: config_digest(config, tuple(names))) or ""
    if graph is not None:
        neighbors = graph.union.neighbors
        found["edges"] = [
            (names[one], names[other]) for one, own in enumerate(neighbors) for other in own if one < other
        ]
    found["environment"] = read("environment", lambda: read_json(run_dir / "environment.json")) or {}
    if (run_dir / SIMULATION).exists():
        found["simulation"] = read("simulation", lambda: read_json(run_dir / SIMULATION)) or {}
        found["faults"] = read("faults", lambda: load_disturbances(run_dir)) or ()
    found["events"] = read("events", lambda: read_events(run_dir)) or ()
    if summary.get("keep_records") is False:
        missing["records"] = "the run kept no records (keep_records: false)"
    elif not failed:
        log_odds = read("learner", lambda: learner_named(summary["algorithm"], "algorithm").make().log_odds)
        rows = read("records", lambda: read_records(run_dir, names))
        if rows is not None:
            found["tasks"] = [_task(own, log_odds) for own in rows[0]]
            found["absences"] = _absences(names, rows[1], graph)
    if not failed:
        found["models"] = read("models", lambda: _models(run_dir))
        times = read("timeline", lambda: read_timeline(run_dir, dict(summary)))
        if times is not None:
            found["returns"] = [int(begun_anew(own).sum()) for own in times]
            if config is not None:
                found["lanes"] = read("timeline", lambda: lanes(config, graph, names, times)) or ()
    return RunFacts(run_dir, summary, error, config, missing=missing, **found)


def read_events(run_dir: Path, *, limit: int | None = None) -> list[dict[str, Any]]:
    """The lines of events.jsonl, or the last of them; none where there is no file. One that is cut off is left out."""
    try:
        lines = (run_dir / EVENTS).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines if limit is None else lines[-limit:]:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("text"), str):
            found.append(event)
    return found


def _failed_state(run_dir: Path) -> Mapping[str, Any]:
    """What the nodes had told of a run that has failed; empty of another."""
    try:
        state = read_state(run_dir) or {}
    except UsageError:
        return {}
    return state if state and has_ended_badly(state) else {}


def _as_summary(run_dir: Path, state: Mapping[str, Any]) -> dict[str, Any]:
    found = {"status": "failed", "verdict": [], "name": run_dir.name, "algorithm": "-", "driver": "processes"}
    return found | {"tasks": []} | dict(state)


def _task(rows: Rows, log_odds: Any) -> Task:
    learned = rows[rows["active"] == LEARNED]
    clean, score, seen = (learned[name] for name in ("clean_label", "score", "label"))
    given = np.array(probabilities_of(clean.tolist(), score.tolist(), seen.tolist(), log_odds))
    return Task(
        learned["round"].tolist(),
        ((score >= 0.0) != (clean > 0.0)).tolist(),
        seen.tolist(),
        clean.tolist(),
        np.where(clean > 0.0, given, 1.0 - given).tolist(),
    )


def _models(run_dir: Path) -> Matrix:
    models = np.asarray(load_model(run_dir)["W"], dtype=np.float64)
    if not np.isfinite(models).all():
        raise ValueError("a model has numbers that are not finite")
    return models


def _absences(names: Sequence[str], centrals: Sequence[Rows], graph: PeerGraph | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for index, rows in enumerate(centrals):
        members = range(len(names)) if graph is None else graph.neighborhoods[index].closed_neighborhood
        sums = rows["absent"].sum(axis=0, dtype=np.int64).tolist() if len(rows) else []
        for task, missing in zip(members, sums, strict=False):
            if missing:
                counts[names[task]] = counts.get(names[task], 0) + missing
    return counts
