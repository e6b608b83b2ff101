"""Many small runs with faults drawn from seeds: each must give the bits of the plain loop, whatever happens to it.

    scripts/storm --seeds 200
    scripts/storm --seed 1234        the one run of a seed, told in words

A seed draws everything: learner, graph, tau, exchange, streams, the network's latency, loss, doubling, reordering and
partitions, the nodes' speeds, and who crashes, comes back or is paused when. Invariants are checked after every event.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

import click

from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.cluster.simulate import Conditions, build_simulator, checks_of, outcomes
from drom_net.config import load_config
from drom_net.data.datasets import load_dataset
from drom_net.rundir import summary_of
from drom_net.simulation.network import Distribution, NetworkSettings, Partition, Stragglers, generator
from drom_net.simulation.simulator import Crash, Fault, Pause

_MOST_EVENTS = 400_000
_GRAPHS = ("full", "ring", "grid", "path", "hub", "one-peer-exponential", "erdos-renyi")


def draw_config(draw: Random) -> str:
    """A topology file."""
    tasks = draw.choice((2, 3, 4, 6, 9))
    examples = draw.randint(3, 30)
    data = (
        f"data: {{dataset: synthetic, tasks: {tasks}, examples: {examples}, dim: 5, flip: {draw.choice((0, 0.2))}, "
        f"data_seed: {draw.randrange(1000)}, pace_s: {draw.choice((0, 0.01))}}}\n"
    )
    rounds = draw.choice(("", f"rounds: {draw.randint(1, 40)}\n"))
    timeouts = "timeouts: {join_s: 1.0e+6, lost_s: 1000.0, linger_s: 500.0, stall_s: 1.0e+6}\n"
    rounds_kept = draw.choice((4, 8, 200))
    timeouts += (
        f"checkpoint: {{every_rounds: {draw.choice((1, 2, 7, 1000))}, every_s: {draw.choice((0.05, 1.0, 10.0))}, "
    )
    timeouts += f"history_rounds: {rounds_kept}}}\n"
    steps = "eta0: 3.0, lambda: 0.2, rho: 0.3, xi: 1.0"
    learner = draw.random()
    if learner < 0.05:
        return f"algorithm: {{name: local}}\n{data}{rounds}{timeouts}"
    if learner < 0.3:
        ended = draw.choice(("keep", "drop"))
        return f"algorithm: {{name: drom, {steps}, ended: {ended}}}\n{data}{rounds}{timeouts}"
    graph = draw.choice(_GRAPHS)
    tau: object = draw.choice((1, 2, 5, 20))
    if graph != "one-peer-exponential" and draw.random() < 0.3:
        tau = [draw.randint(1, 8) for _ in range(tasks)]
    more = ", probability: 0.6" if graph == "erdos-renyi" else ""
    return (
        f"algorithm: {{name: drom-d, {steps}, tau: {tau}, exchange: {draw.choice(('blocking', 'overlap', 'delayed'))}, "
        f"postpone_below: {draw.choice((0, 0, 0, 3))}}}\n"
        f"topology: {{graph: {graph}{more}}}\n{data}{rounds}{timeouts}"
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
    """(topology file, the same with its data, what it runs on)."""
    draw = generator(seed, "storm")
    text = draw_config(draw)
    with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
        path = Path(folder) / "storm.yaml"
        path.write_text(text)
        config = load_config(path)
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    num_nodes = len(prepared.streams) + (prepared.graph is None)
    return text, prepared, draw_conditions(draw, num_nodes, seed)


def expected_digest(prepared: Prepared) -> str:
    """The plain loop's."""
    return run_loop(prepared).digest


def simulated_digest(prepared: Prepared, conditions: Conditions) -> tuple[str, int]:
    """(the simulation's digest, how many events it took), with all invariants checked after each."""
    simulator = build_simulator(prepared, conditions)
    simulator.run(most_events=_MOST_EVENTS, check=checks_of(prepared))
    tasks, centrals = outcomes(prepared, simulator, finished=True)
    return str(summary_of(tasks, centrals, about={}, driver="simulation")["digest"]), simulator.events


def run_seed(seed: int) -> int:
    """One run; how many events it had.

    Raises:
        AssertionError: An invariant broke, it came to no end, or the digest is another than the plain loop's. The
            text has the command that runs it again.
    """
    try:
        _, prepared, conditions = scenario(seed)
        digest, events = simulated_digest(prepared, conditions)
        expected = expected_digest(prepared)
        assert digest == expected, f"digest {digest}, the plain loop has {expected}"
    except Exception as error:
        again = f"scripts/storm --seed {seed}"
        raise AssertionError(f"{type(error).__name__}: {error}\nrun it again: {again}") from error
    return events


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=10_000, show_default=True, help="How many.")
@click.option("--start", type=click.IntRange(0), default=0, show_default=True, help="The first one.")
@click.option("--seed", type=click.IntRange(0), help="Only this one; its scenario is printed.")
def main(seeds: int, start: int, seed: int | None) -> None:
    """Run many small clusters through faults on a virtual clock, and compare each with the plain loop.

    \b
    Example:
      scripts/storm --seeds 200
    """
    if seed is not None:
        text, _, conditions = scenario(seed)
        click.echo(f"{text}{conditions}")
        click.echo(f"seed {seed}: {run_seed(seed)} events, the digest of the plain loop")
        return
    began, events, failed = time.monotonic(), 0, 0
    for count, number in enumerate(range(start, start + seeds), start=1):
        try:
            events += run_seed(number)
        except AssertionError as error:
            failed += 1
            click.echo(f"seed {number} FAILED: {error}", err=True)
        if count % 500 == 0:
            click.echo(f"{count} seeds, {time.monotonic() - began:.0f} s", err=True)
    click.echo(f"{seeds} seeds, {failed} failed, {events} events in {time.monotonic() - began:.1f} s")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
