"""drom-net reducer, worker, peer: one process of a cluster, started by hand on any host."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import click

from drom_net.cli.requirements import require_local_source, require_loopback, require_metrics, task_index
from drom_net.cli.run import warn_of_paper_parameters, warn_of_sharing
from drom_net.cli.telling import log_as, tell
from drom_net.cluster.local import node_command, node_environment
from drom_net.cluster.plan import Roster, node_specs, peer_graph, peer_specs
from drom_net.cluster.prepare import stream_of
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig, SecuritySettings, config_digest, peer_endpoints, to_yaml
from drom_net.core.blas import blas_kernel
from drom_net.core.errors import ConfigError, Problem, UsageError, naming
from drom_net.core.fields import Endpoint
from drom_net.core.names import safe_names
from drom_net.data.dataset import Dataset
from drom_net.data.datasets import known_dim, load_dataset
from drom_net.deploy.deployment import missing, no_dim, no_meeting_place, no_peers, roster_names
from drom_net.node.signals import SIGNALS
from drom_net.node.spec import NodeSpec
from drom_net.protocol.node import REDUCER
from drom_net.results.outcomes import write_data_facts
from drom_net.results.run_directory import node_folder, write_environment
from drom_net.results.summary import remove_folder
from drom_net.storage.node_folder import CheckpointFolder
from drom_net.transport.keys import read_keyring

_PREPARED = {"config.yaml", "data.json", "environment.json", "examples", "lock", "spec.json"}
"""What is in a node's folder before the node has begun."""


def reducer(
    file: Path,
    bind: str | None,
    keys: Path | None,
    insecure: bool,
    log_format: str,
    metrics: str,
    metrics_insecure: bool,
    out: Path | None,
) -> None:
    """`drom-net reducer`."""
    log_as(log_format, "reducer")
    require_metrics(metrics, insecure=metrics_insecure)
    config = _load_star(file, keys)
    warn_of_paper_parameters(config)
    listens = _endpoint("--bind", bind, listens=True) or config.reducer.listens_at
    if listens is None:
        raise no_meeting_place(config)
    require_loopback(listens, config, insecure=insecure)
    _require_own_key(config, REDUCER)
    names = roster_names(config)
    dim = known_dim(config.data, config.base)
    if dim is None:
        raise no_dim(config)
    out = out or Path("runs") / config.name
    spec, *_ = _specs(config, Roster(names, dim, ""), out, endpoint=listens)
    _become(spec, config, log_format=log_format, metrics=metrics)


def worker(
    file: Path,
    task: str,
    endpoint: str | None,
    keys: Path | None,
    insecure: bool,
    log_format: str,
    metrics: str,
    metrics_insecure: bool,
    out: Path | None,
) -> None:
    """`drom-net worker`."""
    log_as(log_format, task)
    require_metrics(metrics, insecure=metrics_insecure)
    config = _load_star(file, keys)
    endpoint = _endpoint("--endpoint", endpoint, listens=False) or config.reducer.endpoint
    if endpoint is None:
        raise no_meeting_place(config)
    names = roster_names(config)
    index = task_index(names, task)
    _require_own_key(config, safe_names(names)[index])
    dataset = load_dataset(config.data, base=config.base, only=index)
    roster = Roster(names, dataset.dim, dataset.feature_digest)
    out = out or Path("runs") / config.name
    spec = _specs(config, roster, out, endpoint=endpoint)[1 + index]
    spec = _prepare_examples(spec, config, dataset, roster, insecure=insecure)
    _become(spec, config, log_format=log_format, metrics=metrics)


def peer(
    file: Path,
    task: str,
    bind: str | None,
    keys: Path | None,
    insecure: bool,
    log_format: str,
    metrics: str,
    metrics_insecure: bool,
    out: Path | None,
) -> None:
    """`drom-net peer`."""
    log_as(log_format, task)
    require_metrics(metrics, insecure=metrics_insecure)
    config = _load(file, keys)
    warn_of_paper_parameters(config)
    names = roster_names(config)
    graph = peer_graph(config, names)
    endpoints = peer_endpoints(config, names)
    if graph is None:
        raise missing(config, "topology", "who talks to whom")
    if endpoints is None:
        raise no_peers(config)
    index = task_index(names, task)
    listens = _endpoint("--bind", bind, listens=True) or (config.peers.listens_at or endpoints)[index]
    require_loopback(listens, config, insecure=insecure)
    _require_own_key(config, safe_names(names)[index])
    dataset = load_dataset(config.data, base=config.base, only=index)
    roster = Roster(names, dataset.dim, dataset.feature_digest)
    out = out or Path("runs") / config.name
    spec = peer_specs(
        config,
        roster,
        graph,
        endpoints=endpoints,
        binds=[listens] * len(names),
        run_id=config_digest(config, names)[:16],  # without a launcher and a centre, the configuration is the run
        folder_of={node: str(node_folder(out, node)) for node in roster.nodes},
    )[index]
    spec = _prepare_examples(spec, config, dataset, roster, insecure=insecure)
    _become(spec, config, log_format=log_format, metrics=metrics)


@contextlib.contextmanager
def _holding_signals_back() -> Iterator[None]:
    """From here on the node itself cleans up; where it does not come to that, signals are let through again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


def _prepare_examples(
    spec: NodeSpec, config: ClusterConfig, dataset: Dataset, roster: Roster, *, insecure: bool
) -> NodeSpec:
    require_local_source(spec.stream.source.get("bind"), config, spec.node, insecure=insecure)
    stream = None
    if not spec.stream.source:
        stream = stream_of(spec.task, config, dataset, roster)
        spec = dataclasses.replace(spec, stream=dataclasses.replace(spec.stream, data_digest=stream.digest()))
    with _holding_signals_back():
        _claim(spec)
        if stream is not None:
            remove_folder(Path(spec.stream.examples))  # of an earlier start
            stream.save(Path(spec.stream.examples))
        write_data_facts(Path(spec.out), dataset)
    return spec


def _load(file: Path, keys: Path | None) -> ClusterConfig:
    config = load_config(file)
    return config if keys is None else dataclasses.replace(config, security=SecuritySettings(keys=str(keys.absolute())))


def _load_star(file: Path, keys: Path | None) -> ClusterConfig:
    config = _load(file, keys)
    if config.topology is not None:
        raise UsageError(f"{file} describes peers without a reducer; start each with `drom-net peer`")
    warn_of_sharing(config)
    return config


def _require_own_key(config: ClusterConfig, name: str) -> None:
    """Before any data is read.

    Raises:
        ConfigError: A key file is missing or wrong.
    """
    if config.security.keys is not None:
        read_keyring(Path(config.security.keys), name)


def _endpoint(option: str, text: str | None, *, listens: bool) -> str | None:
    """The endpoint that an option gives, checked as one in FILE would be."""
    if text is None:
        return None
    spec = Endpoint(listens=listens)
    try:
        return spec.parse(text)
    except ValueError as error:
        raise ConfigError([Problem(option, spec.expected(), f'"{text}"', str(error))]) from None


def _specs(config: ClusterConfig, roster: Roster, out: Path, *, endpoint: str) -> list[NodeSpec]:
    return node_specs(
        config,
        roster,
        endpoint=endpoint,
        bind=endpoint,
        run_id="",
        folder_of={node: str(node_folder(out, node)) for node in (REDUCER, *roster.nodes)},
        summary=str(out / "summary.json"),
    )


def _claim(spec: NodeSpec) -> None:
    """Make the node's own folder, or go on in one whose node has not come to its end; what another run has left there,
    or a node that runs there, is never touched. Where the node itself has come to its end the command ends with 0:
    whatever starts commands again may start all of them."""
    folder = Path(spec.out)
    out = folder.parent.parent
    if _has_ended_before(spec):
        text = f"{spec.name} has finished before, with results in {folder}; another run needs another --out"
        tell(text, "finished_before", level="info")
        raise click.exceptions.Exit(0)
    if _has_finished(out):
        raise UsageError(f"{out} has the result of a run, which is not overwritten; choose another --out, or remove it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if _is_unfinished(folder):
            CheckpointFolder(folder, node=spec.node, config_digest=spec.config_digest).close()  # nobody is in it
            spec.require_same_data()
            for stale in ("model.npz", "summary.json"):  # what `merge` made of it when it was stopped
                (out / stale).unlink(missing_ok=True)
            return
        raise UsageError(
            f"{folder} exists already and is not overwritten; choose another --out, or remove it"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from None


def _has_ended_before(spec: NodeSpec) -> bool:
    """Whether this node of this very configuration has come to its end in its folder."""
    folder = Path(spec.out)
    try:
        former = json.loads((folder / "spec.json").read_text())
        result = json.loads((folder / "result.json").read_text())
        return bool(former["config_digest"] == spec.config_digest and result["finished"] is True)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _has_finished(out: Path) -> bool:
    """Whether there is the result of a run that came to its end; what `merge` made of one that was stopped is none."""
    try:
        return bool(json.loads((out / "summary.json").read_text())["status"] == "finished")
    except (FileNotFoundError, NotADirectoryError):
        return (out / "model.npz").exists()
    except (OSError, ValueError, TypeError, KeyError):
        return True


def _is_unfinished(folder: Path) -> bool:
    """Whether a node has begun there, or was just about to, and has not come to its end."""
    there = {entry.name.removeprefix(".").removesuffix(".part") for entry in folder.iterdir()}
    if not ("life.json" in there or there <= _PREPARED):
        return False
    try:
        return json.loads((folder / "result.json").read_text())["finished"] is not True
    except FileNotFoundError:
        return True
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _become(spec: NodeSpec, config: ClusterConfig, *, log_format: str, metrics: str) -> None:
    """Turn this process into the node: all that was needed to read FILE and data is let go of."""
    folder = Path(spec.out)
    with _holding_signals_back():
        if spec.role == "reducer":
            _claim(spec)
        with naming(folder / "config.yaml"):
            (folder / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
        write_environment(folder / "environment.json", blas=blas_kernel())
        path = folder / "spec.json"
        launch = dataclasses.replace(spec.launch, log_format=log_format, metrics=metrics)
        dataclasses.replace(spec, launch=launch).write(path)
        command = node_command(path)
        os.execve(command[0], command, node_environment())
