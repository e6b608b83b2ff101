"""How a run goes, read from its run directory: while its processes run, and when it has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drom_net.cluster.launcher import is_launcher, is_there
from drom_net.cluster.looking import has_nodes_by_hand, note_by_hand, state_by_hand
from drom_net.config.load import load_config
from drom_net.core.errors import UsageError
from drom_net.results.outcomes import read_json
from drom_net.results.run_directory import NODES, STATE, load_summary

EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 4, "gone": 4}
"""What `drom-net watch` ends with, by the status of a run that has ended."""
_SILENT_S = 300.0
"""A launcher on another host counts as gone when it has not written its state for so long."""
WORTH = {"gone": 0, "waits": 1, "starting": 2}
"""By kind of a node, what comes first where there is no room for all."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a run."""

    status: str
    """running, waiting (its directory is there, and nothing else yet), finished, interrupted, failed, or gone: its
    launcher is no more, and has left no result."""
    state: Mapping[str, Any]
    """As state.json has it; of a run that has ended its summary. Empty while waiting."""
    note: str = ""
    """What speaks against being sure of it."""
    events_known: bool = True
    """Whether what happened to nodes is written down: else it is in their own logs alone."""

    @property
    def is_over(self) -> bool:
        return self.status in EXIT_CODES

    @property
    def is_final(self) -> bool:
        """Whether its summary says that it has finished. Any other that is over may be resumed."""
        return self.status == "finished" and "digest" in self.state


def find_run(path: Path) -> Path:
    """The run directory that is meant: itself, or the latest in runs/ of a configuration.

    Raises:
        UsageError: There is none.
        ConfigError: It is no configuration.
    """
    if path.is_dir():
        if _begun(path) is None:
            raise UsageError(f"{path} is not the directory of a run: expected a config.yaml in it, or nodes/")
        return path
    if not path.exists():
        raise UsageError(f"{path} is neither a configuration nor the directory of a run: there is no such file")
    name = load_config(path).name
    of_name = [run for run in Path("runs").glob("*") if _is_of(run.name, name)]
    found = {run: begun for run in of_name if (begun := _begun(run)) is not None}
    if not found:
        raise UsageError(
            f"there is no run of {path} in runs/: start one by `drom-net run {path}`, or name its RUN_DIR (of nodes "
            "that were started by hand their --out)"
        )
    return max(found, key=found.__getitem__)


def _begun(run_dir: Path) -> float | None:
    """When the run in a folder began, or the first of its nodes that were started by hand; None where there is none."""
    files = [run_dir / "config.yaml", *run_dir.glob(f"{NODES}/*/spec.json")]
    return min((path.stat().st_mtime for path in files if path.exists()), default=None)


def _is_of(folder: str, name: str) -> bool:
    """Whether `free_run_directory` may have called it so."""
    rest = folder.removeprefix(name)
    return folder.startswith(name) and (not rest or (rest[0] == "-" and rest[1:].isdigit()))


def look(run_dir: Path) -> Seen:
    """How the run goes now.

    Raises:
        UsageError: A file is damaged.
    """
    state = read_state(run_dir)
    if state is None:
        if (run_dir / "summary.json").exists():
            summary = load_summary(run_dir)
            return Seen(summary["status"], summary)
        if has_nodes_by_hand(run_dir):
            state = state_by_hand(run_dir)
            return Seen(state["status"], state, note_by_hand(state), events_known=False)
        return Seen("waiting", {})
    # A state that is there is newer than a summary: that is of the interruption before the run was resumed.
    if has_ended_badly(state):
        return Seen(state["status"], state)
    there, note = is_there(state), ""
    if there is None:
        try:
            age_s = max(0.0, time.time() - (run_dir / STATE).stat().st_mtime)
        except FileNotFoundError:
            return look(run_dir)
        there = age_s < _SILENT_S
        note = f"its launcher is on {state['host']} and cannot be seen from here; its state is {age_s:.0f} s old"
    if there:
        return Seen("running", state, note)  # also while it writes what came out
    if not (run_dir / STATE).exists():
        return look(run_dir)  # it has just ended
    if (run_dir / "summary.json").exists():
        summary = load_summary(run_dir)
        if summary["status"] == "finished":  # its launcher went before it took the state away
            return Seen("finished", summary)
    return Seen("interrupted" if state["status"] == "interrupted" else "gone", state, note)


def has_ended_badly(state: Mapping[str, Any]) -> bool:
    """Whether it is the last that there is of its run: no summary follows."""
    return state["status"] == "failed" or bool(state["status"] == "interrupted" and state.get("error"))


def read_state(run_dir: Path) -> Mapping[str, Any] | None:
    """state.json; None where there is none.

    Raises:
        UsageError: It is damaged.
    """
    path = run_dir / STATE
    try:
        state = read_json(path, "status", "pid", "tasks")
    except UsageError:
        if path.exists():
            raise
        return None  # also where its run has just finished
    error, tasks = state.get("error", ""), state["tasks"]
    if state["status"] not in ("running", *EXIT_CODES) or not isinstance(error, str):
        raise UsageError(f"{path} is damaged: expected how a run goes, got status {state['status']!r}, error {error!r}")
    if not is_launcher(state):
        raise UsageError(f"{path} is damaged: expected the number of a process, got pid {state['pid']!r}")
    nodes = [*tasks, state.get("reducer") or {"name": ""}] if isinstance(tasks, list) else [None]
    if not all(map(_is_task, nodes)):
        raise UsageError(f"{path} is damaged: expected tasks with name, state and round")
    return state


def _is_task(task: object) -> bool:
    return (
        isinstance(task, dict)
        and isinstance(task.get("name"), str)
        and isinstance(task.get("state", ""), str)
        and isinstance(task.get("round", 0), int)
    )


def state_in_words(task: Mapping[str, Any]) -> str:
    """What a node does, in words."""
    if task.get("lost"):
        return "lost: it did not come back"
    state = task.get("state", "ended")
    again = f", start {task['restarts'] + 1}" if task.get("restarts") else ""
    if state == "gone":
        return f"gone: its process has ended{again}"
    if state == "elsewhere":
        return "on another host"
    if task.get("silent_s"):
        return f"no life for {task['silent_s']:.0f} s{again}"
    if task.get("waits_for") and state == "learning":
        return f"waits for {task['waits_for']}{again}"
    return str(state) + again


def kind_of(task: Mapping[str, Any]) -> str:
    """gone, waits or starting, which are worth a look; else learning, ended or elsewhere."""
    state = "lost" if task.get("lost") else str(task.get("state", "ended"))
    if state in ("gone", "lost"):
        return "gone"
    return "waits" if task.get("silent_s") or (task.get("waits_for") and state == "learning") else state


def is_in_trouble(task: Mapping[str, Any]) -> bool:
    """Whether its process has ended or shows no life, or it waits for another."""
    return kind_of(task) in ("gone", "waits")


def first_shown(tasks: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """So many of the tasks, in their order: those in trouble, then those that start, or are furthest behind."""
    if len(tasks) <= limit:
        return list(tasks)

    def rank(place: int) -> tuple[int, int]:
        return WORTH.get(kind_of(tasks[place]), len(WORTH)), round_of(tasks[place])

    return [tasks[place] for place in sorted(sorted(range(len(tasks)), key=rank)[:limit])]


def round_of(task: Mapping[str, Any]) -> int:
    return int(task.get("round", task.get("rounds", 0)))
