"""How a run goes, read from its run directory: while its processes run, and when it has ended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drom_net.config.load import load_config
from drom_net.core.errors import DromNetError, UsageError
from drom_net.results.outcomes import read_json
from drom_net.results.run_directory import STATE, load_summary

EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 4, "gone": 4}
"""What `drom-net watch` ends with, by the status of a run that has ended."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a run."""

    status: str
    """running, waiting (its directory is there, and nothing else yet), finished, interrupted, failed, or gone: its
    launcher is no more, and has left no result."""
    state: Mapping[str, Any]
    """As state.json has it; of a run that has ended its summary. Empty while waiting."""

    @property
    def is_over(self) -> bool:
        return self.status in EXIT_CODES


def find_run(path: Path) -> Path:
    """The run directory that is meant: itself, or the latest in runs/ of a configuration.

    Raises:
        UsageError: There is none.
        ConfigError: It is no configuration.
    """
    if path.is_dir():
        if not (path / "config.yaml").exists():
            raise UsageError(f"{path} is not the directory of a run: expected a config.yaml in it")
        return path
    if not path.exists():
        raise UsageError(f"{path} is neither a configuration nor the directory of a run: there is no such file")
    name = load_config(path).name
    found = [run for run in Path("runs").glob("*") if _is_of(run.name, name) and (run / "config.yaml").exists()]
    if not found:
        raise UsageError(f"there is no run of {path} in runs/: start one by `drom-net run {path}`, or name its RUN_DIR")
    return max(found, key=lambda run: (run / "config.yaml").stat().st_mtime)


def _is_of(folder: str, name: str) -> bool:
    """Whether `free_run_directory` may have called it so."""
    rest = folder.removeprefix(name)
    return folder.startswith(name) and (not rest or (rest[0] == "-" and rest[1:].isdigit()))


def look(run_dir: Path) -> Seen:
    """How the run goes now.

    Raises:
        UsageError: A file is damaged.
    """
    state: Mapping[str, Any] | None = None
    if (run_dir / STATE).exists():
        try:
            state = read_json(run_dir / STATE, "status", "pid", "tasks")
        except DromNetError:
            if (run_dir / STATE).exists():  # else its run has just finished
                raise
    if state is not None and state["status"] == "running":
        if _is_alive(int(state["pid"])):
            return Seen("running", state)
        if (run_dir / STATE).exists():
            return Seen("gone", state)
        state = None
    if (run_dir / "summary.json").exists():
        summary = load_summary(run_dir)
        return Seen(summary["status"], summary)
    if state is None:
        return Seen("waiting", {})
    # Its nodes have ended, and the launcher writes what came out.
    writes = state["status"] != "failed" and _is_alive(int(state["pid"]))
    return Seen("running" if writes else "gone" if state["status"] == "finished" else state["status"], state)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # of another user
    return True


def state_in_words(task: Mapping[str, Any]) -> str:
    """What a node does, in words."""
    if task.get("lost"):
        return "lost: it did not come back"
    state = task.get("state", "ended")
    again = f", start {task['restarts'] + 1}" if task.get("restarts") else ""
    if state == "gone":
        return f"gone: its process has ended{again}"
    if task.get("waits_for") and state == "learning":
        return f"waits for {task['waits_for']}{again}"
    return str(state) + again


def effect_in_words(task: Mapping[str, Any]) -> str:
    """What the evidence says of a site: ``helps [0.80, 3.40]``; empty where there is none."""
    its = task.get("sharing") or {}
    if not its.get("effect"):
        return ""
    bounds = its.get("gain_points_interval")
    return str(its["effect"]) + (f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else "")


def first_shown(tasks: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """So many of the tasks, in their order: those in trouble, then those that are furthest behind."""
    if len(tasks) <= limit:
        return list(tasks)

    def rank(place: int) -> tuple[bool, bool, int]:
        task = tasks[place]
        return (
            not (task.get("state") in ("gone", "starting") or task.get("lost")),
            not task.get("waits_for"),
            round_of(task),
        )

    return [tasks[place] for place in sorted(sorted(range(len(tasks)), key=rank)[:limit])]


def round_of(task: Mapping[str, Any]) -> int:
    return int(task.get("round", task.get("rounds", 0)))
