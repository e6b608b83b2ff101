"""What the benchmarks share: contestants interleaved in one run, ratios to the bare one, data, node processes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.core.blas import ONE_THREAD

ENVIRONMENT = os.environ | ONE_THREAD
SEED = 0
HEADER = bytes(8)
"""As long as a header of drom_net in the hundreds of rounds."""
BARE = "bare"
"""The contestant that the others are compared with."""
FEW = 20
"""The rounds of a short run."""


def arguments(description: str | None, *, tasks: list[int], dims: list[int], passes: int) -> argparse.ArgumentParser:
    """The options of every benchmark; `--role` makes the process one of a contestant's."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--tasks", type=int, nargs="+", default=tasks)
    parser.add_argument("--dims", type=int, nargs="+", default=dims)
    parser.add_argument("--passes", type=int, default=passes)
    parser.add_argument("--seconds", type=float, default=4.0, help="about how long one long run takes")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="these contestants, and the one that all are compared with"
    )
    parser.add_argument("--at-most", type=float, metavar="RATIO", help="fail where one takes more CPU, in the median")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    return parser


def show(results: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the rows as JSON where that is asked for.

    Raises:
        SystemExit: The median ratio of one is above --at-most.
    """
    if options.json:
        print(json.dumps(results, indent=2))
    for row in results:
        ratio = row.get("cpu_over_bare", 0.0)
        if options.at_most is not None and ratio > options.at_most:
            raise SystemExit(
                f"error: {row['contestant']} with m = {row['m']}, d = {row['d']}: expected at most {options.at_most:g} "
                f"times the CPU in the median of {row['passes']} passes, got {ratio:.2f}"
            )


def print_head(compared_with: str = BARE) -> None:
    print(
        f"{'d':>7} {'m':>3}  {'contestant':<10} {'rounds/s':>9} {f'rounds/s / {compared_with}':>22} "
        f"{'CPU ms/round':>13} {f'CPU / {compared_with}':>22}"
    )


def many_rounds(num_tasks: int, dim: int, seconds: float) -> int:
    """The rounds of a long run that is to take about so long."""
    return FEW + max(100, round(seconds * 2e7 / (num_tasks * (dim + 1500))))


def contest(
    contestants: dict[str, Callable[[int], float]],
    options: argparse.Namespace,
    *,
    num_tasks: int,
    dim: int,
    many: int,
    compared_with: str = BARE,
) -> list[dict[str, Any]]:
    """Run the contestants that the options name in turn, print a row for each and return the rows.

    A contestant runs so many rounds as it is given and returns the wall seconds they took. It runs twice in a
    pass, for few and for many rounds; the difference of the two is free of start and end. CPU is that of the
    whole process tree. Ratios, named `.._over_bare`, are to the one that all are compared with.
    """
    names, passes = options.only or list(contestants), options.passes
    if unknown := set(names) - set(contestants):
        raise SystemExit(f"error: --only: expected some of {', '.join(contestants)}, got {', '.join(sorted(unknown))}")
    contestants = {name: run for name, run in contestants.items() if name == compared_with or name in names}
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for number in range(passes):
        for name in in_turn(contestants, number):
            short = _timed(contestants[name], FEW)
            long = _timed(contestants[name], many)
            wall, cpu = (b - a for a, b in zip(short, long, strict=True))
            measured[name].append((wall / (many - FEW), cpu / (many - FEW)))
    rows = []
    for name, pairs in measured.items():
        speeds = [bare / wall for (wall, _), (bare, _) in zip(pairs, measured[compared_with], strict=True)]
        cpus = [cpu / bare for (_, cpu), (_, bare) in zip(pairs, measured[compared_with], strict=True)]
        row = {
            "d": dim,
            "m": num_tasks,
            "contestant": name,
            "rounds_per_s": 1 / statistics.median(wall for wall, _ in pairs),
            "rounds_per_s_range": [1 / max(wall for wall, _ in pairs), 1 / min(wall for wall, _ in pairs)],
            "rounds_per_s_over_bare": statistics.median(speeds),
            "rounds_per_s_over_bare_range": [min(speeds), max(speeds)],
            "cpu_ms_per_round": 1000 * statistics.median(cpu for _, cpu in pairs),
            "cpu_over_bare": statistics.median(cpus),
            "cpu_over_bare_range": [min(cpus), max(cpus)],
            "rounds": many - FEW,
            "passes": passes,
        }
        rows.append(row)
        print(
            f"{dim:>7} {num_tasks:>3}  {name:<10} {row['rounds_per_s']:>9.1f} {spread(speeds):>22} "
            f"{row['cpu_ms_per_round']:>13.3f} {spread(cpus):>22}",
            flush=True,
        )
    return rows


def in_turn(names: Iterable[str], number: int) -> list[str]:
    """The contestants in the order of a pass: each time another one begins."""
    order = list(names)
    return order[number % len(order) :] + order[: number % len(order)]


def spread(ratios: list[float], digits: int = 2) -> str:
    """Their median and range."""
    return f"{statistics.median(ratios):.{digits}f} ({min(ratios):.{digits}f} .. {max(ratios):.{digits}f})"


def _timed(run: Callable[[int], float], count: int) -> tuple[float, float]:
    """(wall seconds, CPU seconds of the children) of one run of `count` rounds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = run(count)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_examples(folder: Path, num_tasks: int, dim: int, count: int) -> Path:
    """Streams of `count` unit rows with 100 entries that are not zero, as in text: examples/0, examples/1, .."""
    from drom_net.data.stream import SparseRows, TaskStream

    rng = np.random.default_rng(SEED)
    for task in range(num_tasks):
        labels = np.where(rng.random(count) < 0.5, -1.0, 1.0)
        nonzeros = 100
        indices = np.sort(rng.integers(0, dim // nonzeros, (count, nonzeros)) + np.arange(nonzeros) * (dim // nonzeros))
        values = rng.standard_normal((count, nonzeros))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        indptr = np.arange(count + 1, dtype=np.int64) * nonzeros
        rows = SparseRows(indptr, indices.astype(np.int32).ravel(), values.ravel(), dim)
        TaskStream(rows, labels, labels).save(folder / "examples" / str(task))
    return folder


def common_fields(
    names: tuple[str, ...], algorithm: str, parameters: dict[str, object], *, rounds: int | None, dim: int
) -> dict[str, Any]:
    """What the specs of all nodes of a run say."""
    from drom_net.node.spec import LaunchSpec

    return {
        "tasks": names, "algorithm": algorithm, "parameters": parameters, "seed": SEED, "rounds": rounds, "dim": dim,
        "run_id": "benchmark", "config_digest": "", "feature_digest": "", "timeouts": {},
        "launch": LaunchSpec(parent=os.getpid()),
    }  # fmt: skip


def start_nodes(
    specs: Sequence[Any],
    *,
    connects_to: Callable[[Any], Sequence[str]] = lambda spec: (),
    stdout: int = subprocess.DEVNULL,
) -> list[subprocess.Popen[bytes]]:
    """drom_net's node processes, as the launcher starts them.

    Args:
        connects_to: Endpoints that must listen before a node is started. Else it would try again in its own time, by up
            to a second later: more noise than a short run takes.
    """
    processes = []
    for spec in specs:
        for endpoint in connects_to(spec):
            _wait_for_listener(int(endpoint.rpartition(":")[2]))
        Path(spec.out).mkdir()
        spec.write(Path(spec.out) / "spec.json")
        command = [sys.executable, "-P", "-m", "drom_net.node", f"{spec.out}/spec.json"]
        processes.append(subprocess.Popen(command, stdout=stdout, env=ENVIRONMENT))
    return processes


def _wait_for_listener(port: int) -> None:
    """Wait until some process listens on this port of TCP, without connecting to it."""
    deadline = time.monotonic() + 60.0
    while not any(
        line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"  # LISTEN
        for line in Path("/proc/net/tcp").read_text().splitlines()
    ):
        if time.monotonic() > deadline:
            raise SystemExit(f"nobody listens on port {port}")
        time.sleep(0.005)


def result_seconds(spec: Any) -> float:
    """The wall seconds of a node that has ended, by its own clock."""
    return float(json.loads((Path(spec.out) / "result.json").read_text())["seconds"])


def wait(processes: list[subprocess.Popen[bytes]]) -> None:
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"a process failed: exit codes {codes}")


def free_ports(count: int) -> list[int]:
    """Ports of TCP on loopback that are free, below those that the system gives to outgoing connections."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = list(range(1024, first))
    random.shuffle(candidates)
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as libzmq does
            probe.bind(("127.0.0.1", candidates.pop()))
            found.append(int(probe.getsockname()[1]))
    return found
