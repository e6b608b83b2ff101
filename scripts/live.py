"""Live sources under load: applications that ask for predictions and send the labels, at a rate that does not wait.

    scripts/live                       4 workers, tau = 1, 250 examples a second each; then 4 peers of a full graph,
                                       tau = 20, 1,000 a second each; ten minutes each
    scripts/live --seconds 20 --kill   twenty seconds each; half-way a node is killed (SIGKILL), and started again

Each task has an application of its own (a process with `drom_net.client.Site`), which asks for a prediction of each
example and then sends its label. Requests have a time at which they are to be sent, whatever became of those before;
the latency of a prediction is measured from that time until its answer is there. With more than 250 examples a second
an application sends several at a time (--batch), as one that is fed in bursts would.

At the end each application tells how many labels were accepted, and the run is checked: the journal of each task must
have exactly the examples that were accepted, each once, in their order; as many must have been learned; and
`drom-net replay` must compute the same records and models again from the journals. Without --kill and --any-rate each
application must have reached 99 % of the rate.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np
from soak import look_at, nodes_of

from drom_net.cli.output import print_table
from drom_net.client import Site
from drom_net.results.run_directory import node_folder
from drom_net.storage.journal import FOLDER, ExampleJournal

DIM = 60
_POOL = 4096
_SERIAL = 2.0**-20
"""The first feature of an example is its number times this: no two are the same."""
_REACHED = 0.99
"""The share of the rate that must be reached where no node is killed, without --any-rate."""


@dataclass(frozen=True, slots=True)
class Load:
    """One cluster and what is asked of it."""

    name: str
    algorithm: str
    rate: float
    """Examples a second and task."""
    batch: int

    def config(self, folder: Path, tasks: list[str]) -> str:
        return (
            f"name: live\nalgorithm: {self.algorithm}\n"
            f"data: {{dataset: live, tasks: [{', '.join(tasks)}], dim: {DIM}, normalize: false}}\n"
            f"source: {{bind: 'ipc://{folder}/{{task}}.sock', keep: all}}\n"
            "restart: 1\ncheckpoint: {every_s: 1}\n"
        )


LOADS = {
    "star": Load("star", "{name: drom, eta0: 0.5}", 250.0, 1),
    "full": Load("full", "{name: drom-d, tau: 20, eta0: 0.5}\ntopology: {graph: full}", 1000.0, 10),
    "ring": Load("ring", "{name: drom-d, tau: 20, eta0: 0.5}\ntopology: {graph: ring}", 1000.0, 10),
}


def examples_of(task: int) -> tuple[np.ndarray, list[int]]:
    """The features (but for the first) and labels that a task's examples have in turn, unit rows of related tasks."""
    shared, own = np.random.default_rng(0).standard_normal(DIM), np.random.default_rng(task + 1)
    rows = own.standard_normal((_POOL, DIM))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = shared + 0.5 * own.standard_normal(DIM)
    target[0] = 0.0
    return rows, np.where(rows @ target >= 0.0, 1, -1).tolist()


def apply_load(endpoint: str, task: int, load: Load, seconds: float, tell: Connection) -> None:
    """One application: waits until its node is there and it is told to begin; tells what it saw."""
    pool, labels = examples_of(task)
    latencies = []
    count = round(seconds * load.rate) // load.batch * load.batch
    with Site(endpoint, timeout_s=60.0) as site:
        site.status()
        tell.send("ready")
        begin = tell.recv()
        cpu = time.process_time()
        for first in range(0, count, load.batch):
            numbers = range(first, first + load.batch)
            rows = pool[[number % _POOL for number in numbers]]
            rows[:, 0] = [number * _SERIAL for number in numbers]
            due = begin + (first + load.batch - 1) / load.rate
            if (left := due - time.monotonic()) > 0.0:
                time.sleep(left)
            predictions = site.predict(rows)
            latencies.append(time.monotonic() - due)
            site.label(predictions, [labels[number % _POOL] for number in numbers])
        took = time.monotonic() - begin
        cpu = time.process_time() - cpu
        status = site.status()
        tell.send({"sent": count, "took": took, "cpu": cpu, "latencies": latencies, "backlog": status["backlog"]})
        tell.recv()
        site.finish()


@dataclass
class Cpu:
    """CPU seconds of the nodes since some time, also of those that were killed."""

    launcher: int
    of: dict[int, float] = field(default_factory=dict)
    before: dict[int, float] = field(default_factory=dict)
    num_bytes: dict[int, int] = field(default_factory=dict)

    def look(self) -> None:
        for process in nodes_of(self.launcher).values():
            if (sample := look_at(process, 0.0)) is not None:
                self.before.setdefault(process, sample.cpu_s)
                self.of[process] = sample.cpu_s - self.before[process]
                self.num_bytes[process] = max(sample.rss, self.num_bytes.get(process, 0))

    @property
    def seconds(self) -> float:
        return sum(self.of.values())


def run(load: Load, tasks: list[str], seconds: float, *, kill: bool, any_rate: bool, folder: Path) -> list[str]:
    """One cluster under load; what was found wrong with it."""
    config, out = folder / f"{load.name}.yaml", folder / load.name
    config.write_text(load.config(folder, tasks))
    command = [sys.executable, "-P", "-m", "drom_net", "run", str(config), "--out", str(out), "--json"]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    context = multiprocessing.get_context("spawn")
    pipes, applications = [], []
    try:
        for task, name in enumerate(tasks):
            ours, its = context.Pipe()
            arguments = (f"ipc://{folder}/{name}.sock", task, load, seconds, its)
            applications.append(context.Process(target=apply_load, args=arguments, daemon=True))
            applications[-1].start()
            its.close()  # so that its end is seen here
            pipes.append(ours)
        for pipe in pipes:
            assert pipe.recv() == "ready"
        cpu = Cpu(launcher.pid)
        cpu.look()
        begin = time.monotonic() + 0.5
        for pipe in pipes:
            pipe.send(begin)
        killed = False
        while not all(pipe.poll(0.1) for pipe in pipes):
            cpu.look()
            if kill and not killed and time.monotonic() > begin + seconds / 2:
                os.kill(nodes_of(launcher.pid)[tasks[0]], signal.SIGKILL)
                killed = True
        cpu.look()
        found: list[dict[str, Any]] = [pipe.recv() for pipe in pipes]
        for pipe in pipes:
            pipe.send("finish")
        result, said = launcher.communicate(timeout=600)
    finally:
        for application in applications:
            application.kill()
        if launcher.poll() is None:
            launcher.terminate()
            launcher.communicate()
    if launcher.returncode:
        return [f"the run ended with exit code {launcher.returncode}: {said}"]
    summary = json.loads(result)
    wrong = check(out, tasks, [its["sent"] for its in found], summary)
    rows = []
    for name, its in zip(tasks, found, strict=True):
        median, late, most = np.quantile(its["latencies"], [0.5, 0.99, 1.0]) * 1000
        reached = its["sent"] / its["took"]
        if reached < _REACHED * load.rate and not (kill or any_rate):
            wrong.append(f"{name}: {reached:.1f} examples a second, where {load.rate:g} were wanted")
        figures = (str(its["sent"]), f"{reached:.1f}", f"{median:.2f} ms", f"{late:.2f} ms", f"{most:.0f} ms")
        rows.append((name, *figures, str(its["backlog"])))
    everything = np.concatenate([its["latencies"] for its in found])
    median, late, most = np.quantile(everything, [0.5, 0.99, 1.0]) * 1000
    click.echo(
        f"\n{load.name}: {len(tasks)} tasks, {load.rate:g} examples a second each, {seconds:g} s, "
        f"{load.batch} at a time{'; a node was killed half-way' if kill else ''}"
    )
    print_table(["task", "sent", "a second", "median", "99 %", "longest", "backlog"], rows)
    shortest = min(its["took"] for its in found)
    click.echo(
        f"latency of a prediction: median {median:.2f} ms, 99 % below {late:.2f} ms, longest {most:.0f} ms\n"
        f"CPU: nodes {100 * cpu.seconds / shortest:.0f} % of a core, load generator "
        f"{100 * sum(its['cpu'] for its in found) / shortest:.0f} %; "
        f"largest node {max(cpu.num_bytes.values()) / 1e6:.0f} MB\n"
        f"{summary['rounds']} rounds, error rate {100 * summary['error_rate']:.2f} %, digest {summary['digest']}"
    )
    return [f"{load.name}: {sentence}" for sentence in wrong]


def check(out: Path, tasks: list[str], sent: list[int], summary: dict[str, Any]) -> list[str]:
    """What is wrong: an example lost, doubled, out of order or not learned; a replay that is not the same."""
    wrong = []
    for name, count, figures in zip(tasks, sent, summary["tasks"], strict=True):
        examples = ExampleJournal(node_folder(out, name) / FOLDER).load().examples
        numbers = [round(features[0] / _SERIAL) for features, _ in examples]  # type: ignore[operator]
        if numbers != list(range(count)):
            lost, doubled = len(set(range(count)) - set(numbers)), len(numbers) - len(set(numbers))
            wrong.append(f"{name}: of {count} accepted examples {lost} are lost and {doubled} doubled")
        if figures["examples"] != count:
            wrong.append(f"{name}: {figures['examples']} of {count} accepted examples were learned")
    replay = subprocess.run(
        [sys.executable, "-P", "-m", "drom_net", "replay", str(out)], capture_output=True, text=True, check=False
    )
    if replay.returncode:
        wrong.append(f"the replay is not the same: {replay.stderr.strip()[-500:]}")
    return wrong


@click.command(help=__doc__)
@click.option("--seconds", type=click.FloatRange(1.0), default=600.0, show_default=True, help="How long, each cluster.")
@click.option("--layout", "layouts", multiple=True, type=click.Choice(list(LOADS)), help="By default star and full.")
@click.option("--tasks", "num_tasks", type=click.IntRange(1), default=4, show_default=True)
@click.option("--rate", type=float, help="Examples a second and task; by default 250 of a star, 1,000 of peers.")
@click.option("--batch", type=click.IntRange(1), help="So many at a time; by default 1 of a star, 10 of peers.")
@click.option("--kill", is_flag=True, help="Half-way kill the node of the first task; it is started again.")
@click.option("--any-rate", is_flag=True, help="Print the rate that was reached, whatever it is: no error.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the runs in this folder.")
def main(
    seconds: float,
    layouts: tuple[str, ...],
    num_tasks: int,
    rate: float | None,
    batch: int | None,
    kill: bool,
    any_rate: bool,
    out: Path | None,
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="drom-live-")) if out is None else out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [f"site-{task}" for task in range(1, num_tasks + 1)]
    wrong = []
    try:
        for layout in layouts or ("star", "full"):
            load = LOADS[layout]
            load = Load(load.name, load.algorithm, rate or load.rate, batch or load.batch)
            wrong += run(load, tasks, seconds, kill=kill, any_rate=any_rate, folder=folder)
    finally:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
    for sentence in wrong:
        click.echo(f"error: {sentence}", err=True)
    if wrong:
        sys.exit(1)
    click.echo("\nno accepted example was lost or doubled; each run is the same when it is computed again")


if __name__ == "__main__":
    main()
