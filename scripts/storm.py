"""Many small runs with faults drawn from seeds: each must give the bits of the plain loop, whatever happens to it.

Some seeds draw a policy by which rounds are closed without those who are lost or late. Such a run must come to an end,
and the plain loop must give its bits when it leaves out whom the records name.

    scripts/storm --seeds 200
    scripts/storm --seed 1234        the one run of a seed, told in words
    scripts/storm --processes --kills 100
                                     one run of real processes, SIGKILLed at drawn instants and started again

A seed draws everything: learner, graph, tau, exchange, streams, the network's latency, loss, doubling, reordering and
partitions, the nodes' speeds, and who crashes, comes back or is paused when. Invariants are checked after every event.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import click

from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.cluster.simulate import Conditions, build_simulator, checks_of, outcomes
from drom_net.config.load import load_config
from drom_net.core.errors import ClusterError
from drom_net.data.datasets import load_dataset
from drom_net.learning.records import absences_of
from drom_net.learning.reference import Journal
from drom_net.results.outcomes import CentralOutcome
from drom_net.results.run_directory import summary_of
from drom_net.simulation.checks import Lives
from drom_net.simulation.faults import Crash, Fault, Pause
from drom_net.simulation.network import Distribution, NetworkSettings, Partition, Stragglers, generator
from drom_net.simulation.simulator import StuckError

_MOST_EVENTS = 400_000
_GIVEN_UP = re.compile("no task is left|did not join|lost the reducer|no reducer answered")
_GRAPHS = ("full", "ring", "grid", "path", "hub", "one-peer-exponential", "erdos-renyi")


def draw_policy(draw: Random) -> str:
    """What becomes of tasks that do not come; mostly they are waited for."""
    if draw.random() < 0.75:
        return "timeouts: {join_s: 1.0e+6, lost_s: 1000.0, linger_s: 500.0, stall_s: 1.0e+6}\n"
    absent, deadline = draw.choice((("proceed", ".inf"), ("proceed", 0.5), ("wait", 0.1), ("wait", 2.0)))
    patience = "join_s: 1.0e+6, lost_s: 1000.0, linger_s: 500.0"
    if absent == "proceed":
        patience = "join_s: 30.0, lost_s: 4.0, linger_s: 30.0"
    return f"policy: {{absent: {absent}, deadline_s: {deadline}}}\ntimeouts: {{{patience}, stall_s: 1.0e+6}}\n"


def draw_config(draw: Random, policy: str) -> str:
    """A YAML file.

    Args:
        policy: Its sections policy and timeouts.
    """
    tasks = draw.choice((2, 3, 4, 6, 9))
    examples = draw.randint(3, 30)
    data = (
        f"data: {{dataset: synthetic, tasks: {tasks}, examples: {examples}, dim: 5, flip: {draw.choice((0, 0.2))}, "
        f"data_seed: {draw.randrange(1000)}, pace_s: {draw.choice((0, 0.01))}}}\n"
    )
    rounds = draw.choice(("", f"rounds: {draw.randint(1, 40)}\n"))
    rounds_kept = draw.choice((4, 8, 200))
    checkpoint = f"every_rounds: {draw.choice((1, 2, 7, 1000))}, every_s: {draw.choice((0.05, 1.0, 10.0))}"
    timeouts = f"{policy}checkpoint: {{{checkpoint}, history_rounds: {rounds_kept}}}\n"
    steps = "eta0: 3.0, lambda: 0.2, rho: 0.3, xi: 1.0"
    sums = f"tau: {draw.choice((1, 20, 0))}, robust: {draw.choice(('true', 'false'))}"
    learner = draw.random()
    if learner < 0.05:
        return f"algorithm: {{name: local}}\n{data}{rounds}{timeouts}"
    if learner < 0.3:
        ended = draw.choice(("keep", "drop"))
        if learner < 0.12:
            return f"algorithm: {{name: adadrom, {sums}}}\n{data}{rounds}{timeouts}"
        solver = draw.choice(("power", "sums"))
        return f"algorithm: {{name: drom, {steps}, ended: {ended}, solver: {solver}}}\n{data}{rounds}{timeouts}"
    graph = draw.choice(_GRAPHS)
    more = ", probability: 0.6" if graph == "erdos-renyi" else ""
    topology = f"topology: {{graph: {graph}{more}}}\n"
    if learner < 0.4 and graph != "one-peer-exponential":
        return f"algorithm: {{name: adadrom, {sums}}}\n{topology}{data}{rounds}{timeouts}"
    tau: object = draw.choice((1, 2, 5, 20))
    if graph != "one-peer-exponential" and draw.random() < 0.3:
        tau = [draw.randint(1, 8) for _ in range(tasks)]
    return (
        f"algorithm: {{name: drom-d, {steps}, tau: {tau}, exchange: {draw.choice(('blocking', 'overlap', 'delayed'))}, "
        f"postpone_below: {draw.choice((0, 0, 0, 3))}}}\n"
        f"{topology}{data}{rounds}{timeouts}"
    )


def draw_conditions(draw: Random, num_nodes: int, seed: int) -> Conditions:
    """What it runs on."""
    latency = draw.choice(("1ms", "0..100ms", "exponential(50ms)", "lognormal(20ms,1.0)", "1ms..3s"))
    horizon_s = 20.0
    partitions = []
    for _ in range(draw.choice((0, 0, 1, 2))):
        side = frozenset(node for node in range(num_nodes) if draw.random() < 0.5)
        start = draw.uniform(0.0, horizon_s)
        partitions.append(Partition((side,), start, start + draw.uniform(0.1, horizon_s)))
    network = NetworkSettings(
        latency=Distribution.parse(latency),
        bandwidth_bytes_per_s=draw.choice((float("inf"), 20_000.0)),
        loss=draw.choice((0.0, 0.05, 0.2, 0.4)),
        duplicate=draw.choice((0.0, 0.2)),
        reorder=draw.choice((0.0, 0.2)),
        partitions=tuple(partitions),
    )
    faults: list[Fault] = []
    for _ in range(draw.choice((0, 1, 3, 8))):
        node, at_s = draw.randrange(num_nodes), draw.uniform(0.0, horizon_s)
        if draw.random() < 0.7:
            faults.append(Crash(node, at_s, draw.choice((0.0, 0.05, 3.0))))
        else:
            faults.append(Pause(node, at_s, draw.uniform(0.0, 5.0)))
    return Conditions(
        network=network,
        round_s=Distribution.parse(draw.choice(("0", "5ms", "exponential(100ms)"))),
        central_s=Distribution.parse(draw.choice(("0", "2ms"))),
        stragglers=draw.choice(((), (Stragglers(0.3, 5.0),))),
        faults=tuple(faults),
        detect_s=draw.choice((0.1, 6.0)),
        persist_s=Distribution.parse(draw.choice(("0", "10ms", "exponential(300ms)"))),
        seed=seed,
    )


def scenario(seed: int) -> tuple[str, Prepared, Conditions]:
    """(YAML file, the same with its data, what it runs on)."""
    draw = generator(seed, "storm")
    text = draw_config(draw, draw_policy(generator(seed, "policy")))
    with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
        path = Path(folder) / "storm.yaml"
        path.write_text(text)
        config = load_config(path)
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    num_nodes = len(prepared.streams) + (prepared.graph is None)
    return text, prepared, draw_conditions(draw, num_nodes, seed)


def expected_digest(prepared: Prepared, centrals: Sequence[CentralOutcome]) -> str:
    """The plain loop's, without whom each centre went on without."""
    absences = [absences_of(one.rows, one.members or range(len(prepared.streams))) for one in centrals]
    return run_loop(prepared, journal=Journal(absences)).digest


def simulated(prepared: Prepared, conditions: Conditions) -> tuple[str, list[CentralOutcome] | None, int]:
    """(the simulation's digest, what its centres left, how many events it took), with all invariants checked.

    Where the policy lets it go on without some, it may be given up as nobody is left, or come to what no records
    tell: then there is no digest, and nothing is left.
    """
    simulator = build_simulator(prepared, conditions)
    lives = Lives(simulator)
    try:
        simulator.run(most_events=_MOST_EVENTS, check=checks_of(prepared))
    except ClusterError as error:
        if isinstance(error, StuckError) or not (prepared.config.policy.proceeds and _GIVEN_UP.search(str(error))):
            raise
        return "", None, simulator.events
    tasks, centrals = outcomes(prepared, simulator, finished=True)
    digest = str(summary_of(tasks, centrals, about={}, driver="simulation")["digest"])
    if prepared.config.policy.may_miss and not lives.agree():
        return "", None, simulator.events
    return digest, centrals, simulator.events


class Outcome(NamedTuple):
    """Of a seed that has not failed."""

    events: int
    compared: bool
    """It has the digest of the plain loop; else there was nothing to compare."""


def run_seed(seed: int) -> Outcome:
    """One run.

    Raises:
        AssertionError: An invariant broke, it came to no end, or the digest is another than the plain loop's. The
            text has the command that runs it again.
    """
    try:
        _, prepared, conditions = scenario(seed)
        digest, centrals, events = simulated(prepared, conditions)
        if centrals is not None:
            expected = expected_digest(prepared, centrals)
            assert digest == expected, f"digest {digest}, the plain loop has {expected}"
    except Exception as error:
        again = f"scripts/storm --seed {seed}"
        raise AssertionError(f"{type(error).__name__}: {error}\nrun it again: {again}") from error
    return Outcome(events, centrals is not None)


KILLED = """
name: storm-{layout}
algorithm: {algorithm}
data: {{dataset: synthetic, tasks: 12, examples: {examples}, dim: 64, flip: 0.1, pace_s: {pace_s}}}
restart: 1000000
checkpoint: {{every_s: 0.2}}
timeouts: {{join_s: 60.0, resend_after_s: 0.2, resend_cap_s: 1.0, lost_s: 60.0, linger_s: 20.0, heartbeat_s: 0.5}}
"""
LAYOUTS = {"star": "{name: drom}", "grid": "{name: drom-d, tau: 5}\ntopology: {graph: grid}"}
_PACE_S = 0.002


@dataclass(frozen=True, slots=True)
class Killed:
    """A run of real processes that were killed again and again."""

    kills: int
    by_node: dict[str, int]
    rounds: int
    seconds: float
    digest: str
    expected: str


def run_killed(layout: str, kills: int, seed: int, folder: Path) -> Killed:
    """A cluster of 12 tasks, whose processes are SIGKILLed at drawn instants: which, and when, is drawn from the seed.

    Args:
        layout: "star" (with a reducer, which is killed as often as a worker) or "grid" (of peers).
        folder: An empty one, for the run directory.
    """
    draw = generator(seed, "kills", layout)
    waits = [draw.uniform(0.0, 0.8) for _ in range(kills)]
    examples = max(400, round(1.2 * sum(waits) / _PACE_S))
    path = folder / f"storm-{layout}.yaml"
    path.write_text(
        KILLED.format(layout=layout, algorithm=LAYOUTS[layout], examples=examples, pace_s=_PACE_S), encoding="utf-8"
    )
    config = load_config(path)
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    expected = run_loop(prepared).digest
    command = [sys.executable, "-P", "-m", "drom_net", "run", str(path), "--out", str(folder / layout), "--json"]
    began = time.monotonic()
    by_node: Counter[str] = Counter()
    with (folder / f"{layout}.log").open("wb") as log:
        launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        while _sleep(0.1, launcher) and not _nodes_of(launcher.pid):
            pass
        for wait_s in waits:
            if not _sleep(wait_s, launcher):
                break
            if not (victims := _nodes_of(launcher.pid)):
                continue
            name, pid = draw.choice(sorted(victims.items()))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                by_node[name] += 1
        output, _ = launcher.communicate()
    if launcher.returncode:
        tail = (folder / f"{layout}.log").read_text(errors="replace").splitlines()[-20:]
        raise AssertionError("\n".join([f"the run ended with exit code {launcher.returncode}", *tail]))
    summary = json.loads(output)
    seconds = time.monotonic() - began
    return Killed(sum(by_node.values()), dict(by_node), summary["rounds"], seconds, summary["digest"], expected)


def _sleep(seconds: float, process: subprocess.Popen[bytes]) -> bool:
    """Wait so long; whether the process is still there then."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll() is None


def _nodes_of(pid: int) -> dict[str, int]:
    """The node processes of a launcher, by name."""
    found = {}
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in map(int, children):
        with contextlib.suppress(OSError):
            arguments = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"drom_net.node" in arguments:  # else it is not that yet
                found[Path(os.fsdecode(arguments[-2])).parent.name] = child
    return found


def _kill_processes(kills: int, seed: int) -> None:
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
            done = run_killed(layout, kills, seed, Path(folder))
        same = "the digest of the plain loop" if done.digest == done.expected else f"NOT the digest {done.expected}"
        which = ", ".join(f"{name} {count}" for name, count in sorted(done.by_node.items()))
        click.echo(
            f"{layout}: {done.kills} kills in {done.seconds:.0f} s, {done.rounds} rounds, digest {done.digest}, {same}"
        )
        click.echo(f"  {which}")
        if done.digest != done.expected:
            raise SystemExit(1)


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=10_000, show_default=True, help="How many.")
@click.option("--start", type=click.IntRange(0), default=0, show_default=True, help="The first one.")
@click.option("--seed", type=click.IntRange(0), help="Only this one; its scenario is printed.")
@click.option(
    "--processes", is_flag=True, help="Real processes instead: a star and a grid of 12, killed and restarted."
)
@click.option("--kills", type=click.IntRange(1), default=100, show_default=True, help="How often, with --processes.")
def main(seeds: int, start: int, seed: int | None, processes: bool, kills: int) -> None:
    """Run many small clusters through faults on a virtual clock, and compare each with the plain loop.

    \b
    Examples:
      scripts/storm --seeds 200
      scripts/storm --processes --kills 100
    """
    if processes:
        _kill_processes(kills, seed or 0)
        return
    if seed is not None:
        text, _, conditions = scenario(seed)
        click.echo(f"{text}{conditions}")
        outcome = run_seed(seed)
        result = "the digest of the plain loop" if outcome.compared else "nothing to compare: it went on without some"
        click.echo(f"seed {seed}: {outcome.events} events, {result}")
        return
    began, events, failed, compared = time.monotonic(), 0, 0, 0
    for count, number in enumerate(range(start, start + seeds), start=1):
        try:
            outcome = run_seed(number)
            events, compared = events + outcome.events, compared + outcome.compared
        except AssertionError as error:
            failed += 1
            click.echo(f"seed {number} FAILED: {error}", err=True)
        if count % 500 == 0:
            click.echo(f"{count} seeds, {time.monotonic() - began:.0f} s", err=True)
    took_s = time.monotonic() - began
    click.echo(
        f"{seeds} seeds, {failed} failed, {compared} with the plain loop's digest, {events} events in {took_s:.1f} s"
    )
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
