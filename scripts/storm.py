"""Many small runs with faults drawn from seeds: each must give the bits of the plain loop, whatever happens to it.

Some seeds draw a policy by which rounds are closed without those who are lost or late. Such a run must come to an end,
and the plain loop must give its bits when it leaves out whom the records name.

    scripts/storm --seeds 200
    scripts/storm --seed 1234        the one run of a seed, told in words

A seed draws everything: learner, graph, tau, exchange, streams, the network's latency, loss, doubling, reordering and
partitions, the nodes' speeds, and who crashes, comes back or is paused when. Invariants are checked after every event.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import click

from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.cluster.simulate import Conditions, build_simulator, checks_of, outcomes
from drom_net.config import load_config
from drom_net.data.datasets import load_dataset
from drom_net.errors import ClusterError
from drom_net.records import absences_of
from drom_net.rundir import CentralOutcome, summary_of
from drom_net.simulation.checks import Lives
from drom_net.simulation.network import Distribution, NetworkSettings, Partition, Stragglers, generator
from drom_net.simulation.simulator import Crash, Fault, Pause, StuckError

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
    """A topology file.

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
    return run_loop(prepared, absences=absences).digest


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
