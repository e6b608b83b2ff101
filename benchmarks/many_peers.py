"""Thousands of simulated peers on one core: seconds and memory of `drom-net simulate`, and its events.

A random regular graph of degree 4, d = 64, 50 rounds, invariants checked on every thousandth event.

    python benchmarks/many_peers.py                   10,000 peers, tau = 5 and tau = 1
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drom_net.core.blas import ONE_THREAD

CONFIG = """\
algorithm: {{name: drom-d, tau: {tau}}}
topology: {{graph: regular, degree: 4}}
data: {{dataset: synthetic, tasks: {peers}, examples: 50, dim: 64}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=10_000)
    parser.add_argument("--taus", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    print(f"{'peers':>6} {'tau':>4} {'seconds':>8} {'GB':>6} {'events':>9} {'messages':>9} {'simulated s':>12}")
    for tau in options.taus:
        row = measure(options.peers, tau)
        results.append(row)
        print(
            f"{row['peers']:>6} {tau:>4} {row['seconds']:>8.1f} {row['peak_bytes'] / 1e9:>6.2f} "
            f"{row['events']:>9} {row['messages']:>9} {row['simulated_s']:>12.3f}",
            flush=True,
        )
    if options.json:
        print(json.dumps(results, indent=2))


def measure(peers: int, tau: int) -> dict[str, float]:
    """One run in a process of its own: wall seconds with its start, and the most memory that it held."""
    with tempfile.TemporaryDirectory(prefix="drom-peers-") as folder:
        config = Path(folder) / "peers.yaml"
        config.write_text(CONFIG.format(tau=tau, peers=peers))
        command = [
            sys.executable,
            "-P",
            "-m",
            "drom_net",
            "simulate",
            str(config),
            "--latency",
            "20ms",
            "--round",
            "5ms",
        ]
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, "--no-compare", "--quiet", "--json"],
            stdout=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
        )
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
    if status != 0:
        raise SystemExit(f"the simulation ended with status {status}")
    summary = json.loads(printed)
    return {
        "peers": peers,
        "tau": tau,
        "seconds": seconds,
        "peak_bytes": 1024 * usage.ru_maxrss,
        "events": summary["events"],
        "messages": summary["messages"],
        "simulated_s": summary["seconds"],
    }


if __name__ == "__main__":
    main()
