"""What watching costs a run: rounds per second with and without `drom-net watch --web` and a page that is open.

`drom-net run` starts the processes of a cluster that goes on for ever. Meanwhile passes are interleaved over the
contestants, each for a few seconds:

* bare       nobody watches
* watched    `drom-net watch RUN_DIR --web`, and a client that reads what the page would read
* browser    the same with the page open in headless Chromium, where selenium and chromium are there

Rounds per second are those that the cluster itself counts, read from its state.json at both ends of a pass. CPU is the
time of the processor that went to the nodes in a pass, for each of their rounds: other programs on the machine take
rounds per second from all contestants, but hardly change that. `watch` also tells what it takes itself. A browser on
the same machine is another program: its time is told, and is not the cluster's.

    python benchmarks/watching.py                  12 sites
    python benchmarks/watching.py --tasks 12 100
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from side_by_side import BARE, ENVIRONMENT, in_turn, spread

_TICKS = os.sysconf("SC_CLK_TCK")
_SETTLE_S = 3.5
"""Before a pass is measured: what watches has started, or gone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[12])
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8.0, help="about how long a pass takes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these contestants beside bare")
    parser.add_argument("--at-most", type=float, metavar="RATIO", help="fail where the CPU for a round is more")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the cluster ends too
    rows = [row for num_tasks in options.tasks for row in measure(num_tasks, options)]
    if options.json:
        print(json.dumps(rows, indent=2))
    for row in rows:
        if options.at_most is not None and row["cpu_over_bare"] > options.at_most:
            raise SystemExit(
                f"error: {row['contestant']} with m = {row['m']}: expected at most {options.at_most:g} times the CPU "
                f"in the median of {row['passes']} passes, got {row['cpu_over_bare']:.3f}"
            )


def measure(num_tasks: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    contestants: dict[str, Callable[[Path], contextlib.AbstractContextManager[list[int]]]] = {
        BARE: _nobody,
        "watched": _client,
        "browser": _browser,
    }
    wanted = {BARE, *(options.only or contestants)}
    if not _has_browser():
        wanted -= {"browser"}
    passes: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contestants if name in wanted}
    with _cluster(num_tasks) as out:
        for number in range(options.passes):
            for name in in_turn(passes, number):
                with contestants[name](out) as watching:
                    passes[name].append(_one_pass(out, watching, options.seconds))
            speeds = {name: round(its[-1][0], 1) for name, its in passes.items()}
            print(f"pass {number + 1}: rounds per second {speeds}", file=sys.stderr, flush=True)
    head = f"{'m':>4}  {'contestant':<10} {'rounds/s':>9} {'rounds/s / bare':>24} {'CPU / bare':>24}"
    print(f"{head} {'watch, % of a core':>20}")
    rows = []
    for name, found in passes.items():
        speeds = [speed / bare for (speed, _, _), (bare, _, _) in zip(found, passes[BARE], strict=True)]
        cpus = [cpu / bare for (_, cpu, _), (_, bare, _) in zip(found, passes[BARE], strict=True)]
        row = {
            "m": num_tasks,
            "contestant": name,
            "rounds_per_s": statistics.median(speed for speed, _, _ in found),
            "rounds_per_s_over_bare": statistics.median(speeds),
            "rounds_per_s_over_bare_range": [min(speeds), max(speeds)],
            "cpu_over_bare": statistics.median(cpus),
            "cpu_over_bare_range": [min(cpus), max(cpus)],
            "watch_share_of_a_core": statistics.median(share for _, _, share in found),
            "passes": options.passes,
        }
        rows.append(row)
        print(
            f"{num_tasks:>4}  {name:<10} {row['rounds_per_s']:>9.1f} {spread(speeds, 3):>24} {spread(cpus, 3):>24} "
            f"{100 * row['watch_share_of_a_core']:>20.2f}",
            flush=True,
        )
    return rows


def _one_pass(out: Path, watching: list[int], seconds: float) -> tuple[float, float, float]:
    """(rounds per second, processor seconds of the cluster for a round, what watching took of a core)."""
    time.sleep(_SETTLE_S)
    nodes = _nodes(out)
    before = _rounds(out), _cpu_s(nodes), _cpu_of_threads_s(watching), time.perf_counter()
    time.sleep(seconds)
    after = _rounds(out), _cpu_s(nodes), _cpu_of_threads_s(watching), time.perf_counter()
    rounds, cpu, watch, wall = (late - early for early, late in zip(before, after, strict=True))
    return rounds / wall, cpu / rounds, watch / wall


def _rounds(out: Path) -> int:
    """By the next state that is written, so that passes differ by whole states."""
    path = out / "state.json"
    old = path.stat().st_mtime_ns
    while path.stat().st_mtime_ns == old:
        time.sleep(0.005)
    return int(json.loads(path.read_text())["rounds"])


def _nodes(out: Path) -> list[int]:
    """The launcher and all nodes."""
    launcher = int(json.loads((out / "state.json").read_text())["pid"])
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [launcher, *map(int, children)]


def _cpu_s(processes: list[int]) -> float:
    ticks = 0
    for number in processes:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _cpu_of_threads_s(processes: list[int]) -> float:
    """The same to the nanosecond, of threads that stay: what watches takes less than a tick in a pass."""
    files = [path for number in processes for path in Path(f"/proc/{number}/task").glob("*/schedstat")]
    return sum(int(path.read_text().split()[0]) for path in files) / 1e9


@contextlib.contextmanager
def _cluster(num_tasks: int) -> Iterator[Path]:
    """A run that does not end, of sites that are as fast as they can."""
    with tempfile.TemporaryDirectory(prefix="drom-watching-") as name:
        folder = Path(name)
        data = f"{{dataset: synthetic, tasks: {num_tasks}, examples: 400, dim: 100, passes: 1000000}}"
        (folder / "c.yaml").write_text(f"keep_records: false\ndata: {data}\n")
        command = [sys.executable, "-m", "drom_net", "run", "c.yaml", "--out", "out", "--quiet"]
        launcher = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT)
        try:
            state = folder / "out" / "state.json"
            while not (state.exists() and state.read_text().count('"learning"') > num_tasks):
                if launcher.poll() is not None:
                    raise SystemExit("the cluster has ended")
                time.sleep(0.1)
            yield folder / "out"
        finally:
            launcher.send_signal(signal.SIGINT)
            launcher.wait()


@contextlib.contextmanager
def _nobody(out: Path) -> Iterator[list[int]]:
    yield []


@contextlib.contextmanager
def _watch(out: Path) -> Iterator[tuple[int, str]]:
    """(process, address) of `watch --web`."""
    command = [sys.executable, "-m", "drom_net", "watch", str(out), "--web"]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = process.stderr.readline().strip()
        if not told.startswith("http"):
            raise SystemExit(f"no page: {told}{process.stderr.read()}")
        yield process.pid, told
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


@contextlib.contextmanager
def _client(out: Path) -> Iterator[list[int]]:
    with _watch(out) as (number, address):
        url = urlsplit(address)
        connection = http.client.HTTPConnection(str(url.hostname), url.port)
        connection.request("GET", f"/events?{url.query}")
        answer = connection.getresponse()
        threading.Thread(target=_read, args=(answer,), daemon=True).start()
        yield [number]
        connection.close()


def _read(answer: http.client.HTTPResponse) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        while answer.readline():
            pass


def _has_browser() -> bool:
    with contextlib.suppress(ImportError):
        import selenium  # noqa: F401

        return bool(shutil.which("chromium") and shutil.which("chromedriver"))
    return False


@contextlib.contextmanager
def _browser(out: Path) -> Iterator[list[int]]:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = str(shutil.which("chromium"))
    with _watch(out) as (number, address):
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            browser.get(address)
            yield [number]
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
