"""Times, faults and networks as people write them on a command line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from drom_net.cli.requirements import task_index
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.simulate import THE_REDUCER, Conditions, node_names
from drom_net.core.errors import UsageError
from drom_net.protocol.node import REDUCER
from drom_net.simulation.faults import Crash, Fault, Pause
from drom_net.simulation.network import Distribution, NetworkSettings, Partition, Stragglers

_RATES = {"bit": 0.125, "kbit": 125.0, "Mbit": 125e3, "Gbit": 125e6, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def seconds(text: str) -> float:
    """``20ms`` as 0.02. Raises ValueError for what is no fixed time."""
    try:
        time = Distribution.parse(text)
    except ValueError:
        time = None
    if time is None or time.kind != "constant":
        raise ValueError(f'expected a time such as 20ms or 1.5s, got "{text}"')
    return time.first


def probability(text: str) -> float:
    """``0.01`` or ``1%``. Raises ValueError for what is no number from 0 to 1."""
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        value = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise ValueError(f'expected a probability such as 0.01 or 1%, got "{text}"')
    return value


def bytes_per_s(text: str) -> float:
    """``100Mbit`` or ``12.5MB``, a second. Raises ValueError for what is none."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([a-zA-Z]+)(?:/s)?", text.strip())
    rate = float(found[1]) * _RATES.get(found[2], 0.0) if found else 0.0
    if not rate > 0.0:
        raise ValueError(f'expected a bandwidth such as 100Mbit or 12.5MB (a second), got "{text}"')
    return rate


@dataclass(frozen=True, slots=True)
class GivenConditions:
    """What the options of `conditions` say, each under the name that click gives it."""

    latency: Distribution
    bandwidth: float | None
    loss: float
    duplicate: float
    reorder: float
    round_s: Distribution | None
    central_s: Distribution
    stragglers: tuple[Stragglers, ...]
    partitions: tuple[str, ...]
    crashes: tuple[str, ...]
    pauses: tuple[str, ...]
    sim_seed: int

    def of(self, prepared: Prepared) -> Conditions:
        """The conditions of this cluster, whose nodes they may name.

        Raises:
            UsageError: A partition or fault is none, or names no node, or strikes one that is down.
        """
        nodes = node_names(prepared)
        network = NetworkSettings(
            latency=self.latency,
            bandwidth_bytes_per_s=self.bandwidth or math.inf,
            loss=self.loss,
            duplicate=self.duplicate,
            reorder=self.reorder,
            partitions=tuple(read_partition(text, nodes) for text in self.partitions),
        )
        faults: tuple[Fault, ...] = (
            *(read_crash(text, nodes) for text in self.crashes),
            *(read_pause(text, nodes) for text in self.pauses),
        )
        refuse_faults_while_down(faults, nodes)
        return Conditions(
            network=network,
            round_s=self.round_s,
            central_s=self.central_s,
            stragglers=self.stragglers,
            faults=faults,
            detect_s=3.0 * prepared.config.timeouts.heartbeat_s,
            seed=self.sim_seed,
        )


def gathered(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's options; those of the conditions together, as `given`."""
    names = {field.name for field in fields(GivenConditions)}
    given = GivenConditions(**{name: values[name] for name in names})
    return {name: value for name, value in values.items() if name not in names} | {"given": given}


def read_partition(text: str, names: Sequence[str]) -> Partition:
    """``a,b|c@10s..20s``: from 10 s to 20 s the groups a, b and c are apart; others are one more group.

    Raises:
        UsageError: It is none, names no node, or one twice.
    """
    groups, at, times = text.partition("@")
    start, dots, end = times.partition("..")
    try:
        if not at or not dots:
            raise ValueError
        from_s, to_s = seconds(start), seconds(end)
        if from_s >= to_s:
            raise ValueError
    except ValueError:
        raise UsageError(f'--partition: expected GROUP|GROUP@FROM..TO such as 0,1|2@10s..20s, got "{text}"') from None
    parts = [[_node(one, names, "--partition") for one in group.split(",")] for group in groups.split("|")]
    nodes = [node for part in parts for node in part]
    for node in nodes:
        if nodes.count(node) > 1:
            raise UsageError(f'--partition: expected each node in one group, got {names[node]} twice in "{text}"')
    if len(parts) == 1 and len(nodes) == len(names):
        raise UsageError(f'--partition: expected nodes that are apart, got all of them in one group in "{text}"')
    return Partition(tuple(frozenset(part) for part in parts), from_s, to_s)


def read_crash(text: str, names: Sequence[str]) -> Crash:
    """``site-3@5s+2s``: it dies at 5 s and is back 2 s later. Raises UsageError for what is none."""
    return Crash(*_fault(text, names, "--crash"))


def read_pause(text: str, names: Sequence[str]) -> Pause:
    """``site-3@5s+2s``: at 5 s it stands still for 2 s. Raises UsageError for what is none."""
    pause = Pause(*_fault(text, names, "--pause"))
    if pause.for_s == 0.0:
        raise UsageError(f'--pause: expected a time above 0 for which it stands still, got "{text}"')
    return pause


def refuse_faults_while_down(faults: Sequence[Fault], names: Sequence[str]) -> None:
    """What strikes a node that a crash has taken down would not happen.

    Raises:
        UsageError: There is such a fault.
    """
    for crash in faults:
        for other in faults:
            if not isinstance(crash, Crash) or other is crash or other.node != crash.node:
                continue
            if crash.at_s <= other.at_s < crash.at_s + crash.back_after_s:
                option = "--crash" if isinstance(other, Crash) else "--pause"
                raise UsageError(
                    f"{option}: expected a time at which {names[other.node]} is there, got {other.at_s:g} s: "
                    f"it is down from {crash.at_s:g} s to {crash.at_s + crash.back_after_s:g} s"
                )


def _fault(text: str, names: Sequence[str], option: str) -> tuple[int, float, float]:
    node, at, times = text.rpartition("@")
    start, plus, length = times.partition("+")
    try:
        if not at or not plus:
            raise ValueError
        return _node(node, names, option), seconds(start), seconds(length)
    except ValueError:
        raise UsageError(f'{option}: expected NODE@TIME+DURATION such as 3@5s+2s, got "{text}"') from None


def _node(text: str, names: Sequence[str], option: str) -> int:
    """The node's number: a task's, or that of the reducer behind them."""
    if text.strip() == REDUCER and names[-1] == THE_REDUCER:  # and a task is called so, too
        return len(names) - 1
    return task_index(list(names), text.strip(), option=option)
