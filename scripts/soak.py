"""A long run of a small star as real processes: its memory, its file descriptors, its pace, and its digest.

    scripts/soak                          a million rounds of 3 tasks
    scripts/soak --rounds 20000 -- --metrics 127.0.0.1:9100        what follows -- goes to `drom-net run`

Each process is looked at in /proc: RSS, the memory that it has in use; USS, what of that no other process shares; and
how many file descriptors it has. While rounds are learned a node is

- flat in memory, if its USS (the median over the last tenth of the time) is at most --growth-mb above that of the
  second tenth (in the first one it still grows: allocators, batches that fill up);
- flat in file descriptors, if it has no more of them (the median) in the last tenth than in the second.

The run is steady, if a round of the last tenth of the time took at most 25 % more CPU, of all nodes together, than one
of the second; with --any-pace it need not be, as where others share the machine, and is told all the same. (How many
rounds a second there were is told too; that depends on what else the machine does.)
"""

from __future__ import annotations

import bisect
import csv
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from drom_net.cli.output import print_table
from drom_net.cluster.prepare import prepare
from drom_net.cluster.run import run_loop
from drom_net.config.load import load_config
from drom_net.data.datasets import load_dataset

EXAMPLES = 200
LAUNCHER = "launcher"
PARTS, SHARES = ("start", "10 %", "50 %", "end"), (0.01, 0.1, 0.5, 0.99)
"""When a process is shown: not while it starts, nor while it ends."""
EARLY, LATE = (0.1, 0.2), (0.9, 1.0)
"""The parts of the time that are compared."""
_STEADY = 1.25
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """One process at one time."""

    seconds: float
    rss: int
    uss: int
    """Bytes, as the RSS."""
    anonymous: int
    """The part of the RSS that is of no file: the records that the launcher maps can be let go of at any time."""
    descriptors: int
    cpu_s: float
    """Since it was started."""


Samples = dict[str, list[Sample]]
"""By name of the node."""


def config_text(rounds: int, tasks: int) -> str:
    """A star whose streams come often enough."""
    passes = -(-rounds // EXAMPLES)
    return (
        f"name: soak\nalgorithm: {{name: drom}}\nrounds: {rounds}\n"
        f"data: {{dataset: synthetic, tasks: {tasks}, examples: {EXAMPLES}, dim: 10, passes: {passes}}}\n"
    )


def look_at(process: int, seconds: float) -> Sample | None:
    """None where it has ended, or is just about to be another program."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
        kilobytes = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
        descriptors = len(os.listdir(f"/proc/{process}/fd"))
        ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except (OSError, IndexError):
        return None
    uss = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    rss, anonymous = 1024 * kilobytes["Rss"], 1024 * kilobytes["Anonymous"]
    return Sample(seconds, rss, 1024 * uss, anonymous, descriptors, sum(map(int, ticks)) / _TICKS)


def nodes_of(launcher: int) -> dict[str, int]:
    """The process of each node that the launcher has started: the name is that of the folder with its spec."""
    found = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        try:
            arguments = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        specs = [Path(argument.decode()) for argument in arguments if argument.endswith(b"spec.json")]
        found |= {spec.parent.name: int(child) for spec in specs}
    return found


def watch(launcher: subprocess.Popen[str], every_s: float) -> tuple[Samples, list[Sample]]:
    """Samples until the launcher ends: while there are nodes of all, and of the launcher after the last has gone."""
    samples: Samples = {}
    after: list[Sample] = []
    while launcher.returncode is None:
        try:
            launcher.wait(timeout=every_s)
        except subprocess.TimeoutExpired:
            seconds = time.monotonic()
            nodes = nodes_of(launcher.pid)
            for name, process in [*nodes.items(), (LAUNCHER, launcher.pid)]:
                sample = look_at(process, seconds)
                if sample is not None and (nodes or not samples):
                    samples.setdefault(name, []).append(sample)
                elif sample is not None:
                    after.append(sample)
    return samples, after


def closing_times(run_dir: Path) -> list[float]:
    """When the first task began, and when it had closed each of its rounds, in seconds."""
    with (run_dir / "timeline.csv").open(newline="") as file:
        rows = itertools.takewhile(lambda row: row["task"] == "0", csv.DictReader(file))
        closed = {int(row["round"]): float(row["closed_s"]) for row in rows}
    return [closed[t] for t in sorted(closed)]


def paces(closed: Sequence[float]) -> list[float]:
    """Rounds a second in each tenth of the rounds."""
    edges = [(len(closed) - 1) * tenth // 10 for tenth in range(11)]
    return [(end - start) / max(closed[end] - closed[start], 1e-9) for start, end in itertools.pairwise(edges)]


def cpu_per_round(samples: Samples, closed: Sequence[float], start: float, end: float) -> float:
    """CPU seconds of all nodes for a round, in a part of the time; samples and rounds end at one time."""
    used = rounds = 0.0
    for name, taken in samples.items():
        if name != LAUNCHER:
            part = during(taken, start, end)
            used += part[-1].cpu_s - part[0].cpu_s
            at = [closed[-1] - (taken[-1].seconds - one.seconds) for one in (part[0], part[-1])]
            rounds = bisect.bisect(closed, at[1]) - bisect.bisect(closed, at[0])
    return used / max(rounds, 1)


def plain_digest(config: Path) -> str:
    """The digest of the plain loop, which keeps no records here."""
    loaded = load_config(config)

    def let_go(t: int, learners: Sequence[Any], sigma: float | None) -> bool:
        if t % 1000 == 0:
            for learner in learners:
                learner.take_records()
        return True

    return run_loop(prepare(loaded, load_dataset(loaded.data, base=loaded.base)), let_go).digest


def during(samples: list[Sample], start: float, end: float) -> list[Sample]:
    """Those in a part of the time in which there were nodes; at least one, the nearest."""
    first, last = samples[0].seconds, samples[-1].seconds
    shares = [(sample.seconds - first) / max(last - first, 1e-9) for sample in samples]
    inside = [sample for sample, share in zip(samples, shares, strict=True) if start <= share <= end]
    middle = (start + end) / 2
    return inside or [min(zip(shares, samples, strict=True), key=lambda pair: abs(pair[0] - middle))[1]]


def _usual_descriptors(samples: list[Sample]) -> int:
    """The median: a snapshot that is being written has one more, for as long as that takes."""
    return statistics.median_low(sample.descriptors for sample in samples)


def verdict_of(samples: list[Sample], growth_bytes: float) -> dict[str, Any]:
    """What became of one process while rounds were learned."""
    early, late = during(samples, *EARLY), during(samples, *LATE)
    growth = statistics.median(sample.uss for sample in late) - statistics.median(sample.uss for sample in early)
    more = _usual_descriptors(late) - _usual_descriptors(early)
    return {
        "growth_bytes": growth,
        "more_descriptors": more,
        "flat": bool(growth <= growth_bytes and more <= 0),
        "at": {
            part: {"rss": one.rss, "uss": one.uss, "descriptors": one.descriptors}
            for part, one in zip(PARTS, (during(samples, share, share)[0] for share in SHARES), strict=True)
        },
    }


def soak(
    folder: Path,
    *,
    rounds: int,
    tasks: int,
    every_s: float,
    growth_bytes: float,
    more: Sequence[str],
    any_pace: bool = False,
) -> dict[str, Any]:
    """Run it, and return what was seen as plain values."""
    config, out = folder / "soak.yaml", folder / "run"
    config.write_text(config_text(rounds, tasks))
    command = [sys.executable, "-P", "-m", "drom_net", "run", str(config), "--out", str(out), "--json", *more]
    with (folder / "progress.jsonl").open("w") as progress:
        started = time.monotonic()
        launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=progress, text=True)
        samples, after = watch(launcher, every_s)
        assert launcher.stdout is not None
        said = launcher.stdout.read()
        launcher.stdout.close()
    if launcher.returncode != 0:
        raise click.ClickException((folder / "progress.jsonl").read_text().strip() or "drom-net run failed")
    summary = json.loads(said)
    closed = closing_times(out)
    cpu = [cpu_per_round(samples, closed, *part) for part in (EARLY, LATE)]
    nodes = {name: verdict_of(taken, growth_bytes) for name, taken in samples.items()}
    digest = plain_digest(config)
    report = {
        "rounds": summary["rounds"],
        "tasks": tasks,
        "learning_s": summary["seconds"],
        "whole_s": time.monotonic() - started if not after else after[-1].seconds - started,
        "rounds_per_s": paces(closed),
        "cpu_s_per_round": cpu,
        "steady": cpu[1] <= _STEADY * cpu[0],
        "nodes": nodes,
        "tables": {
            "files": {path.name: path.stat().st_size for path in sorted(out.glob("*.csv"))},
            "launcher_rss": max((sample.rss for sample in after), default=None),
            "launcher_anonymous": max((sample.anonymous for sample in after), default=None),
        },
        "digest": summary["digest"],
        "digest_of_the_plain_loop": digest,
    }
    report["good"] = bool(
        (report["steady"] or any_pace) and all(node["flat"] for node in nodes.values()) and summary["digest"] == digest
    )
    return report


def tell(report: dict[str, Any], growth_mb: float) -> None:
    """The report for people."""
    rows = []
    for name, node in report["nodes"].items():
        at = [node["at"][part] for part in PARTS]
        row = [name, *(f"{one['rss'] / 1e6:.1f}" for one in at), *(f"{one['uss'] / 1e6:.1f}" for one in at)]
        row += [str(one["descriptors"]) for one in at]
        rows.append([*row, f"{node['growth_bytes'] / 1e6:+.2f}", "flat" if node["flat"] else "GROWS"])
    heads = [f"{what} {part}" for what in ("RSS", "USS", "fds") for part in PARTS]
    print_table(["process", *heads, "USS grew", ""], rows)
    pace, tables = report["rounds_per_s"], report["tables"]
    early, late = (1e6 * seconds for seconds in report["cpu_s_per_round"])
    click.echo(
        f"\nmemory in MB; flat: USS grew by at most {growth_mb:g} MB from the second tenth to the last, no more fds\n"
        f"{report['rounds']} rounds of {report['tasks']} tasks in {report['learning_s']:.1f} s; rounds/s in each "
        f"tenth: {', '.join(f'{one:.0f}' for one in pace)}\n"
        f"CPU of all nodes for a round: {early:.0f} us in the second tenth of the time, {late:.0f} us in the last: "
        f"{'steady' if report['steady'] else 'IT SLOWS DOWN'}"
    )
    if tables["launcher_rss"] is not None:
        click.echo(
            f"writing {sum(tables['files'].values()) / 1e6:.0f} MB of tables the launcher had at most "
            f"{tables['launcher_rss'] / 1e6:.0f} MB RSS, {tables['launcher_anonymous'] / 1e6:.0f} MB without the "
            "mapped records"
        )
    same = report["digest"] == report["digest_of_the_plain_loop"]
    click.echo(f"digest {report['digest']}: {'that of the plain loop' if same else 'NOT THAT OF THE PLAIN LOOP'}")


@click.command()
@click.option("--rounds", default=1_000_000, show_default=True, type=click.IntRange(min=20))
@click.option("--tasks", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--every", "every_s", default=1.0, show_default=True, help="Seconds between two looks at the processes.")
@click.option("--growth-mb", default=1.0, show_default=True, help="What still counts as flat, in megabytes.")
@click.option("--any-pace", is_flag=True, help="Print the CPU of a round, however it changes: no error.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the run and the report in this new folder.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
@click.argument("more", nargs=-1, metavar="[-- OPTIONS OF drom-net run]")
def main(
    rounds: int,
    tasks: int,
    every_s: float,
    growth_mb: float,
    any_pace: bool,
    out: Path | None,
    as_json: bool,
    more: tuple[str, ...],
) -> None:
    folder = out or Path(tempfile.mkdtemp(prefix="drom-net-soak-"))
    folder.mkdir(parents=True, exist_ok=out is None)
    try:
        report = soak(
            folder,
            rounds=rounds,
            tasks=tasks,
            every_s=every_s,
            growth_bytes=1e6 * growth_mb,
            more=more,
            any_pace=any_pace,
        )
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    finally:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        click.echo(json.dumps(report, indent=1))
    else:
        tell(report, growth_mb)
    raise SystemExit(0 if report["good"] else 1)


if __name__ == "__main__":
    main()
