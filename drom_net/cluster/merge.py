"""Put together what nodes that were started by hand have each written on their own."""

from __future__ import annotations

import dataclasses
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drom_net.core.errors import UsageError
from drom_net.core.names import is_name
from drom_net.node.results import write_result_of_lost
from drom_net.node.spec import NodeSpec
from drom_net.protocol.node import REDUCER
from drom_net.results.outcomes import (
    CentralOutcome,
    TaskOutcome,
    read_central_outcome,
    read_data_facts,
    read_peer_central_outcome,
    read_task_outcome,
)
from drom_net.results.run_directory import NODES, create_run_directory, node_folder, write_results
from drom_net.results.tables import require_format
from drom_net.storage.journal import FOLDER as JOURNAL


def merge_nodes(folders: Sequence[Path], out: Path, *, file_format: str) -> dict[str, Any]:
    """Collect the nodes' folders from all of `folders` and write a whole run directory.

    Args:
        folders: Run directories of nodes started by hand, each with some of the nodes.
        out: Where to write; may be the first of `folders`.

    Raises:
        UsageError: A node is missing, is there twice, has not ended, or belongs to another run.
    """
    require_format(file_format)
    found = _find_nodes(folders)
    first = found.get(REDUCER) or next(iter(found.values()))
    spec = _read_spec(first)
    _require_one_cluster(found, spec, first, folders)
    if spec.build_policy().proceeds:
        for node in set(spec.nodes) & found.keys():
            _end_if_lost(found[node])
    tasks, centrals = _outcomes(found, spec, first, folders)
    if out not in folders:
        create_run_directory(out)
    elif (out / "model.npz").exists():
        raise UsageError(f"{out} has a model already, which is not overwritten; choose another --out, or remove it")
    data_facts = _merged_facts([found[node] for node in spec.nodes])
    for name in ("config.yaml", "environment.json"):
        for folder in (first, first.parent.parent):  # of a node by hand, of a launched one
            if (folder / name).is_file() and not (folder / name).is_symlink() and not (out / name).exists():
                shutil.copyfile(folder / name, out / name)
    for node in spec.nodes:  # the examples of a live run that are to be kept
        journal, kept = found[node] / JOURNAL, node_folder(out, node) / JOURNAL
        keeps_all = NodeSpec.read(found[node] / "spec.json").stream.source.get("keep") == "all"
        if keeps_all and journal.is_dir() and journal != kept:
            shutil.copytree(journal, kept)
    return write_results(
        out, tasks, centrals, data_facts=data_facts, about=spec.about, driver="processes", file_format=file_format
    )


def _require_one_cluster(found: dict[str, Path], spec: NodeSpec, first: Path, folders: Sequence[Path]) -> None:
    """Raises UsageError where a node is missing, or is of another cluster than the first."""
    for node, folder in found.items():
        its = _read_spec(folder)
        # The learner as well: of another package it is imported, and no other site says which.
        of_one = (its.tasks, its.config_digest, its.algorithm) == (spec.tasks, spec.config_digest, spec.algorithm)
        if not of_one or its.node != node:
            raise UsageError(
                f"{folder} is not of the same cluster as {first}: its spec.json has other tasks or is another"
            )
    missing = [name for name, node in zip(spec.tasks, spec.nodes, strict=True) if node not in found]
    if missing or (spec.role == "worker" and REDUCER not in found):
        raise UsageError(f"no folder of {', '.join(missing or ['the reducer'])} in {', '.join(map(str, folders))}")


def _outcomes(
    found: dict[str, Path], spec: NodeSpec, first: Path, folders: Sequence[Path]
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
    """What all nodes have left.

    Raises:
        UsageError: A folder is damaged, or of another run.
    """
    try:
        tasks = [read_task_outcome(found[node]) for node in spec.nodes]
        if spec.role == "peer":
            centrals = [read_peer_central_outcome(found[node]) for node in spec.nodes]
        else:
            centrals = [read_central_outcome(found[REDUCER], len(spec.nodes))]
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError) as error:
        raise UsageError(f"a node's folder in {', '.join(map(str, folders))} is damaged: {error}") from None
    for task, name, node in zip(tasks, spec.tasks, spec.nodes, strict=True):
        if task.name != name:
            raise UsageError(f"{found[node] / 'result.json'}: expected the result of {name}, got that of {task.name}")
        if task.run_id != centrals[0].run_id:
            raise UsageError(f"{found[node]} belongs to run {task.run_id}, {first} to run {centrals[0].run_id}")
    return tasks, centrals


def _end_if_lost(folder: Path) -> None:
    """Write the result of a node that was killed and did not come back, which the others went on without."""
    if (folder / "life.json").exists() and not (folder / "result.json").exists():
        spec = NodeSpec.read(folder / "spec.json")
        stream = dataclasses.replace(spec.stream, examples=str(folder / "examples"))
        write_result_of_lost(dataclasses.replace(spec, out=str(folder), stream=stream))


def _merged_facts(folders: Sequence[Path]) -> dict[str, Any]:
    facts = [read_data_facts(folder) for folder in folders]
    merged = facts[0]
    if merged["preprocessing"]["sites"] is not None:  # each site knows its own scaling
        sites = {name: site for fact in facts for name, site in fact["preprocessing"]["sites"].items()}
        merged["preprocessing"]["sites"] = sites
    return merged


def _find_nodes(folders: Sequence[Path]) -> dict[str, Path]:
    """Each node's folder, by what it is called in files."""
    found: dict[str, Path] = {}
    for folder in folders:
        if not (folder / NODES).is_dir():
            raise UsageError(f"{folder} has no folder {NODES}/: no node that was started by hand has written there")
        for path in sorted((folder / NODES).iterdir()):
            if path.name in found:
                raise UsageError(f"{path.name} is there twice: {found[path.name]} and {path}")
            if path.is_dir() and not path.name.startswith("."):
                _require_own_files(path)
                found[path.name] = path
    if not found:
        raise UsageError(f"no folder of a node in {', '.join(map(str, folders))}")
    return found


def _require_own_files(folder: Path) -> None:
    """Others have made what is in a node's folder: nothing outside of it is read for them.

    Raises:
        UsageError: There is a link, or something else that is no file.
    """
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode)):
            what = "a link" if stat.S_ISLNK(mode) else "something else"
            raise UsageError(f"{path}: expected a file or folder of the node's own, got {what}; it is not followed")


def _read_spec(folder: Path) -> NodeSpec:
    """Raises UsageError where it is damaged, or its tasks have names that none can have."""
    path = folder / "spec.json"
    try:
        spec = NodeSpec.read(path)
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: {folder} is not the folder of a node") from None
    if not all(map(is_name, spec.tasks)):
        raise UsageError(f"{path} is damaged: no task can have such a name")
    return spec
