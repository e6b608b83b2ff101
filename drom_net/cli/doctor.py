"""drom-net doctor: what of this machine, and of a cluster's file here, would go wrong, and what to do about it."""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from drom_net.cli.telling import print_json, shown
from drom_net.cluster.cost import cost
from drom_net.cluster.machine import lacks, this_machine
from drom_net.cluster.plan import Roster, node_names, peer_graph, source_endpoint
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig
from drom_net.core.blas import blas_kernel
from drom_net.core.errors import DromNetError
from drom_net.data.datasets import known_dim, task_names
from drom_net.deploy.deployment import Deployment
from drom_net.results.outcomes import read_json
from drom_net.results.run_directory import environment
from drom_net.transport.keys import has_curve, read_keyring, read_public_keys, secret_file
from drom_net.transport.local_sockets import try_to_listen

EXTRAS = {
    "data": ("scipy", "sklearn"),
    "tables": ("pyarrow",),
    "graphs": ("networkx",),
    "plots": ("matplotlib",),
    "metrics": ("prometheus_client",),
}
"""The modules of each extra of the package."""
_LEAST_SPACE, _LEAST_DESCRIPTORS = 200_000_000, 256
_SAME_BITS = ("drom_net", "numpy", "blas_kernel", "byte_order")
"""What must be the same on all hosts for the same bits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found.

    Attributes:
        do: What to do; empty where nothing is wrong.
    """

    check: str
    found: str
    do: str = ""


def doctor(file: Path | None, as_json: bool) -> int:
    """`drom-net doctor`."""
    findings = list(examine(file))
    wrong = sum(bool(finding.do) for finding in findings)
    if as_json:
        facts = [dataclasses.asdict(finding) | {"ok": not finding.do} for finding in findings]
        print_json({"ok": not wrong, "findings": facts})
        return 2 if wrong else 0
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        found = shown(finding.found).replace("\n", "\n" + " " * (width + 9))
        click.echo(f"{'WRONG' if finding.do else 'ok':<5}  {finding.check:<{width}}  {found}")
        if finding.do:
            click.echo(f"{'':<{width + 7}}  do: {finding.do}")
    click.echo(f"\n{'nothing is wrong' if not wrong else f'wrong: {wrong} of {len(findings)}'}")
    return 2 if wrong else 0


def examine(file: Path | None) -> Iterator[Finding]:
    """All findings: of the machine; with a file or run directory, of what it needs."""
    yield from _versions()
    yield from _clock()
    config, run_dir = None, None
    if file is not None:
        run_dir = file if file.is_dir() else None
        path = file / "config.yaml" if file.is_dir() else file
        try:
            config = load_config(path)
        except DromNetError as error:
            yield from _refused(str(path), error, "correct the file")
    yield from _space(run_dir or Path("runs") / (config.name if config else ""))
    if config is None:
        yield _descriptors()
        yield _extras(())
        return
    yield from _of_file(config)
    run_dir = run_dir or Path("runs") / config.name
    yield from _other_hosts(run_dir)


def _refused(check: str, error: DromNetError, otherwise: str) -> Iterator[Finding]:
    """A finding for each problem; what to do is its hint, where it has one."""
    for problem in getattr(error, "problems", ()):
        yield Finding(
            check, f"{problem.place}: expected {problem.expected}, got {problem.got}", problem.hint or otherwise
        )
    if not getattr(error, "problems", ()):
        yield Finding(check, str(error), otherwise)


def _versions() -> Iterator[Finding]:
    here = environment(blas_kernel())
    old = sys.version_info < (3, 11)
    yield Finding("drom-net", f"{here['drom_net']}, {here['platform']}")
    yield Finding("python", str(here["python"]), "install Python 3.11 or newer" if old else "")
    yield Finding("packages", f"numpy {here['numpy']}, msgpack {here['msgpack']}, pyzmq {here['pyzmq']}")
    curve = "with CURVE" if has_curve() else "without CURVE: no keys"
    yield Finding("libzmq", f"{here['libzmq']}, {curve}", "" if has_curve() else "install pyzmq from its wheel")
    yield Finding("BLAS", f"kernel {here['blas_kernel']}, one thread a process")


def _clock() -> Iterator[Finding]:
    readings = [time.monotonic() for _ in range(1000)]
    steady = readings == sorted(readings)
    resolution = time.get_clock_info("monotonic").resolution
    found = f"monotonic, in steps of {resolution:g} s" if steady else "goes back"
    yield Finding("steady clock", found, "" if steady else "repair the clock of this (virtual) machine")
    now = datetime.now(UTC)
    built = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    sane = built.year - 1 <= now.year < 2100
    yield Finding("date", f"{now:%Y-%m-%d %H:%M:%S} UTC", "" if sane else "set the date: logs and records name it")


def _space(out: Path) -> Iterator[Finding]:
    place = out.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    todo = ""
    if not place.is_dir():
        todo = "it is a file: choose another folder with --out"
    elif not os.access(place, os.W_OK):
        todo = "it cannot be written: choose another folder with --out"
    elif free < _LEAST_SPACE:
        todo = f"make room of at least {_LEAST_SPACE // 10**6} MB, or choose another folder with --out"
    yield Finding("space", f"{free / 1e9:.1f} GB free for {out}", todo)


def _descriptors() -> Finding:
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = most != resource.RLIM_INFINITY and most < _LEAST_DESCRIPTORS
    limit = "no limit" if most == resource.RLIM_INFINITY else f"up to {most}"
    return Finding("file descriptors", f"{soft}, {limit}", f"ulimit -Hn {_LEAST_DESCRIPTORS}, or more" if few else "")


def _extras(needed: tuple[str, ...]) -> Finding:
    absent = [name for name, modules in EXTRAS.items() if not all(map(importlib.util.find_spec, modules))]
    there = ", ".join(name for name in EXTRAS if name not in absent) or "none"
    lacking = [name for name in needed if name in absent]
    found = f"{there}; not there: {', '.join(absent)}" if absent else there
    return Finding("extras", found, f"pip install 'drom-net[{','.join(lacking)}]'" if lacking else "")


def _of_file(config: ClusterConfig) -> Iterator[Finding]:
    try:
        names = task_names(config.data, config.base)
        graph = peer_graph(config, names)
        yield Finding(str(config.path), f"{config.algorithm.name}, {len(names)} tasks")
        yield _extras(Deployment(config, names, graph).extras)
        roster = Roster(names, known_dim(config.data, config.base) or 1, "")
        found = lacks(cost(config, roster, graph, last_rounds=[1] * len(names)), this_machine())
    except DromNetError as error:
        yield from _refused(str(config.path), error, f"drom-net check {config.path} tells more")
        return
    descriptors = _descriptors()
    yield descriptors
    for lack in found:
        yield Finding("to run all here", f"needs {lack}", "as told there; or start the nodes on several hosts")
    yield from _keys(config, names)
    listens = [config.reducer.listens_at] if config.topology is None else [*(config.peers.listens_at or ())]
    if config.source is not None:
        listens += [source_endpoint(config, names, task) for task in range(len(names))]
    for endpoint in dict.fromkeys(filter(None, listens)):
        yield _port(endpoint)


def _keys(config: ClusterConfig, names: tuple[str, ...]) -> Iterator[Finding]:
    if config.security.keys is None:
        return
    folder = Path(config.security.keys)
    try:
        read_public_keys(folder)
    except DromNetError as error:
        yield from _refused(
            "keys", error, f"drom-net keys create {config.path}, or bring the cluster's public.keys here"
        )
        return
    if folder.stat().st_mode & 0o022:
        yield Finding("keys", f"others can write to {folder}", f"chmod go-w {folder}")
    here = [node for node in node_names(config, names) if secret_file(folder, node).exists()]
    for node in here:
        try:
            read_keyring(folder, node)
        except DromNetError as error:
            yield from _refused("keys", error, f"drom-net keys create {config.path}, for a new pair")
    yield Finding("keys", f"in {folder}: the secret keys of {', '.join(here[:8]) or 'no node'}")


def _port(endpoint: str) -> Finding:
    try:
        try_to_listen(endpoint)
    except DromNetError as error:
        return Finding("port", str(error), "remove the file, or choose another endpoint")
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return Finding("port", f"{endpoint} is not of this machine: not looked at")
        if error.errno == errno.EADDRINUSE:
            who = f"`ss -ltnp 'sport = :{endpoint.rpartition(':')[2]}'`" if endpoint.startswith("tcp") else "`ss -lxp`"
            do = f"stop the process that listens there ({who} names it), or choose another"
            return Finding("port", f"{endpoint} is taken", do)
        return Finding("port", f"{endpoint}: {error.strerror or error}", "correct the address, or choose another")
    return Finding("port", f"{endpoint} is free")


def _other_hosts(run_dir: Path) -> Iterator[Finding]:
    """Versions that a run has written down, of each node's own host, beside those here."""
    here = environment(blas_kernel())
    for path in sorted([*run_dir.glob("environment.json"), *run_dir.glob("nodes/*/environment.json")]):
        try:
            there = read_json(path)
        except DromNetError as error:
            yield Finding(str(path.parent), str(error), "bring the run directory again from where it was made")
            continue
        differ = [key for key in here if key != "platform" and there.get(key) != here[key]]
        differences = ", ".join(f"{key} {there.get(key)} there, {here[key]} here" for key in differ)
        do = "install the same on all hosts: else the last bits may differ" if {*differ} & {*_SAME_BITS} else ""
        yield Finding(str(path.parent), differences or "the versions here", do)
