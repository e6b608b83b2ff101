"""A run directory from its beginning to its end; whether a run can be resumed."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drom_net.cluster.leaving import about_prepared
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.simulate import Conditions
from drom_net.config.model import AS_RUN, to_yaml
from drom_net.core.blas import blas_kernel
from drom_net.core.errors import UsageError
from drom_net.graph.families import resolve
from drom_net.node.spec import NodeSpec
from drom_net.results.outcomes import (
    CentralOutcome,
    TaskOutcome,
    data_facts,
)
from drom_net.results.run_directory import (
    LOGS,
    NODES,
    SIMULATION,
    create_run_directory,
    load_summary,
    write_environment,
    write_results,
)
from drom_net.results.summary import remove_folder, write_json, write_text
from drom_net.storage.journal import FOLDER as JOURNAL
from drom_net.storage.node_folder import CheckpointFolder


def remove_nodes(prepared: Prepared, out: Path) -> None:
    """The nodes' own folders, but for the examples of a live run that are to be kept."""
    source = prepared.config.source
    if source is None or source.keep != "all":
        remove_folder(out / NODES)
        return
    for path in out.glob(f"{NODES}/*/*"):
        if path.name != JOURNAL:
            remove_folder(path) if path.is_dir() else path.unlink()


def begin_run_directory(
    prepared: Prepared, out: Path, conditions: Conditions | None = None, *, head: str = AS_RUN
) -> None:
    """Make the run directory, with what is known before the run.

    Args:
        conditions: What a simulation runs on; None for the other drivers.
        head: What config.yaml says of itself.

    Raises:
        UsageError: There is something already.
    """
    create_run_directory(out)
    config = prepared.config
    if config.topology is not None and prepared.graph is not None:  # a random graph is written out as it was drawn
        config = dataclasses.replace(config, topology=resolve(config.topology, prepared.graph.union))
    write_text(out / "config.yaml", to_yaml(config, head=head))
    write_environment(out / "environment.json", blas=blas_kernel())
    if conditions is not None:
        write_json(out / SIMULATION, conditions.to_json(prepared))


def end_run_directory(
    prepared: Prepared,
    out: Path,
    tasks: Sequence[TaskOutcome],
    centrals: Sequence[CentralOutcome],
    *,
    driver: str,
    file_format: str = "csv",
    also: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write what came out of the run, and return the summary.

    Args:
        also: What the summary says besides.
    """
    return write_results(
        out,
        tasks,
        centrals,
        data_facts=data_facts(prepared.dataset),
        about=about_prepared(prepared) | (also or {}),
        driver=driver,
        file_format=file_format,
    )


@contextlib.contextmanager
def usage(also: dict[str, Any], out: Path) -> Iterator[None]:
    """Note what the nodes that ended meanwhile have used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    results = [json.loads(path.read_text()) for path in (out / NODES).glob("*/result.json")]
    peaks = [result["peak_bytes"] for result in results if result.get("peak_bytes") is not None]
    also["processes"] = {"processor_s": round(seconds, 3), "largest_bytes": max(peaks, default=None)}


def require_resumable(out: Path) -> str:
    """The id of a run of processes that did not come to its end; empty where it ended before it had any.

    Raises:
        UsageError: There is none in this directory, or some of its processes still run.
    """
    paths = sorted((out / NODES).glob("*/spec.json"))
    begun = (out / "config.yaml").exists()
    done = (out / "summary.json").exists()
    if done and load_summary(out).get("status") == "finished":  # some of nodes/ is there if its launcher died just then
        raise UsageError(f"{out} is the directory of a run that has finished")
    if begun and not paths and not done and (out / LOGS).exists():  # other drivers have none
        return ""
    if not begun or not paths:
        raise UsageError(
            f"{out} is not the directory of a run of processes that was interrupted: no {NODES}/NAME/spec.json"
        )
    run_ids = set()
    for path in paths:
        spec = NodeSpec.read(path)
        run_ids.add(spec.run_id)
        CheckpointFolder(path.parent, node=spec.node, config_digest=spec.config_digest).close()  # nobody is in it
    if len(run_ids) != 1 or "" in run_ids:
        raise UsageError(f"{out} has nodes that were started by hand: start each of them again by its own command")
    return str(run_ids.pop())


@contextlib.contextmanager
def the_only_launcher(out: Path) -> Iterator[None]:
    """Keep others from running the same run directory.

    Raises:
        UsageError: Somebody does.
    """
    (out / NODES).mkdir(exist_ok=True)
    with (out / NODES / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{out} is in use: another `drom-net run` has its nodes") from None
        yield
