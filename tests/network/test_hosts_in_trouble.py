"""Real processes on hosts of their own, while the network between them is bad; named after the accidents.

Each host has an address and an /etc/hosts of its own, where the others are known by name. What was noticed after how
many seconds is printed as a table at the end. Times are of a machine that may be busy: they are held to be in order,
and below twice their bound.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from by_hand import ByHand, write_config
from processes import Family, family, wait_until

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow, pytest.mark.usefixtures("may_make_networks")]

BOTH = pytest.mark.parametrize("layout", ["star", "ring"])
HEARTBEAT_S = 1.0
BOUND_S = 3 * HEARTBEAT_S
"""Within which who is not there any more is noticed."""


class Hosts:
    """Five hosts, each with a node of a star or ring, and one that nobody is on yet."""

    def __init__(
        self, netlab: ModuleType, folder: Path, stack: ExitStack, layout: str, *, examples: int, timeouts: Any = None
    ) -> None:
        tasks = 4 if layout == "star" else 5
        names = [f"task-{task:02d}" for task in range(1, tasks + 1)]
        self.names = ["reducer", *names] if layout == "star" else names
        self.lab = stack.enter_context(netlab.Lab([*self.names, "spare"]))
        self.address = {name: self.lab.ip(name) for name in self.names}
        self.known = folder / "hosts"
        """The /etc/hosts of all of them."""
        self.tell_addresses()
        self.processes: Family = stack.enter_context(family(folder))
        known = self.names[:1] if layout == "star" else self.names
        config = write_config(
            folder,
            layout,
            tasks=tasks,
            examples=examples,
            pace_s=0.015,
            endpoints=[f"tcp://{name}:5571" for name in known],
            timeouts={"heartbeat_s": HEARTBEAT_S} | (timeouts or {}),
        )
        before = {name: self.on(name) for name in self.names}
        self.cluster = ByHand(self.processes, config, before=before, bind="tcp://0.0.0.0:5571")

    def on(self, host: str) -> Sequence[str]:
        """The command that runs another one on this host."""
        script = f'mount --bind "{self.known}" /etc/hosts && exec "$@"'  # seen in this command's own mounts only
        return ("ip", "netns", "exec", self.lab.ns(host), "sh", "-c", script, "sh")

    def tell_addresses(self) -> None:
        """Where everybody is; in place, for a file that takes another one's name would not be seen."""
        self.known.write_text("127.0.0.1 localhost\n" + "".join(f"{at} {name}\n" for name, at in self.address.items()))

    def cut_off(self, *names: str) -> float:
        """From now on no packet goes between these and the others; when that was."""
        at = time.monotonic()
        self.lab.partition([list(names), [host for host in self.lab.hosts if host not in names]])
        return at

    def neighbors(self, name: str) -> list[str]:
        """Those with a connection to this one."""
        if self.names[0] == "reducer":
            return self.names[1:] if name == "reducer" else ["reducer"]
        where = self.names.index(name)
        return [self.names[where - 1], self.names[(where + 1) % len(self.names)]]


@pytest.fixture(scope="module")
def table() -> Iterator[list[tuple[str, str, float, str]]]:
    """What was noticed: (the accident, by whom, after how many seconds, what bounds it)."""
    rows: list[tuple[str, str, float, str]] = []
    yield rows
    print(f"\n{'accident':<44} {'noticed by':<22} {'after':>7}  bound")
    for accident, who, seconds, bound in rows:
        print(f"{accident:<44} {who:<22} {seconds:>5.1f} s  {bound}")


def called(name: str) -> str:
    return "the reducer" if name == "reducer" else name


@BOTH
def test_accident_24_and_26_a_loss_of_5_percent_of_all_packets(layout: str, netlab: ModuleType, tmp_path: Path) -> None:
    """Issue, "must show" 2."""
    with ExitStack() as stack:
        hosts = Hosts(netlab, tmp_path, stack, layout, examples=150)
        hosts.lab.all_links(delay_ms=2, loss=0.05)
        hosts.cluster.start()
        hosts.cluster.finish()
        lost = hosts.lab.stats()
        print(f"{layout}: {lost['lost']} of {lost['lost'] + lost['fwd']} packets lost")
        assert lost["lost"] > 50


@BOTH
def test_accident_27_a_partition_of_10_s(layout: str, netlab: ModuleType, tmp_path: Path, table: list) -> None:
    with ExitStack() as stack:
        hosts = Hosts(netlab, tmp_path, stack, layout, examples=600)
        hosts.cluster.start_to_the_middle()
        at = hosts.cut_off(*hosts.names[:3])
        pairs = [
            (one, other)
            for one in hosts.names
            for other in hosts.neighbors(one)
            if (one in hosts.names[:3]) != (other in hosts.names[:3])
        ]
        lost = {pair: told_of_lost(hosts, *pair, since=at) for pair in pairs}
        wait_until(lambda: time.monotonic() >= at + 10.0, "the end of the partition")
        healed = time.monotonic()
        hosts.lab.heal()
        again = {pair: told_of_return(hosts, *pair, since=lost[pair]) for pair in pairs}
        first, last = min(lost.values()) - at, max(lost.values()) - at
        table.append((f"{layout}: partition, first notice", f"one of {len(pairs)} ends", first, f"{BOUND_S:g} s"))
        table.append((f"{layout}: partition, last notice", f"the last of {len(pairs)}", last, f"{BOUND_S:g} s"))
        table.append((f"{layout}: healed, connected again", "the last", max(again.values()) - healed, f"{BOUND_S:g} s"))
        assert last <= 2 * BOUND_S
        assert min(again.values()) >= healed
        assert max(again.values()) - healed <= 2 * BOUND_S
        hosts.cluster.finish()


@BOTH
def test_accident_27_a_link_that_is_dead_in_one_direction(
    layout: str, netlab: ModuleType, tmp_path: Path, table: list
) -> None:
    """What task-02 says arrives nowhere, all that is said to it does arrive."""
    with ExitStack() as stack:
        hosts = Hosts(netlab, tmp_path, stack, layout, examples=600)
        hosts.cluster.start_to_the_middle()
        at = time.monotonic()
        for other in hosts.neighbors("task-02"):
            hosts.lab.link("task-02", other, both=False, blocked=True)
        for other in hosts.neighbors("task-02"):
            noticed = told_of_lost(hosts, other, "task-02", since=at) - at
            table.append((f"{layout}: task-02 is heard no more", other, noticed, f"{BOUND_S:g} s"))
            assert noticed <= 2 * BOUND_S
        hosts.lab.heal()
        hosts.cluster.finish()


@BOTH
def test_accident_26_a_network_that_comes_and_goes(layout: str, netlab: ModuleType, tmp_path: Path) -> None:
    """Cut off for as long as it takes to be noticed, and again as soon as it is back."""
    with ExitStack() as stack:
        hosts = Hosts(netlab, tmp_path, stack, layout, examples=600, timeouts={"heartbeat_s": 0.3})
        hosts.cluster.start_to_the_middle()
        other = hosts.neighbors("task-02")[0]
        for _ in range(4):
            at = hosts.cut_off("task-02")
            at = told_of_lost(hosts, other, "task-02", since=at)
            hosts.lab.heal()
            told_of_return(hosts, other, "task-02", since=at)
        hosts.cluster.finish()


def test_accident_18_and_21_a_name_that_nobody_knows_yet(netlab: ModuleType, tmp_path: Path) -> None:
    """It has upper case and underscores, too; the reducer is there before its name is."""
    with ExitStack() as stack:
        hosts = Hosts(netlab, tmp_path, stack, "star", examples=150)
        config = hosts.cluster.config
        config.write_text(config.read_text().replace("tcp://reducer:", "tcp://The_Reducer.of-Site_01.internal:"))
        hosts.cluster.start()
        for name in hosts.names[1:]:
            hosts.cluster[name].told.when("waiting for the reducer at tcp://The_Reducer.of-Site_01.internal:5571")
        hosts.address["The_Reducer.of-Site_01.internal"] = hosts.lab.ip("reducer")
        hosts.tell_addresses()
        hosts.cluster.finish()


@pytest.mark.parametrize(("layout", "name"), [("star", "task-02"), ("star", "reducer"), ("ring", "task-03")])
def test_accident_20_and_27_a_host_vanishes_and_comes_back_with_another_address(
    layout: str, name: str, netlab: ModuleType, tmp_path: Path, table: list
) -> None:
    """No reset arrives. Its folder is brought along; its name is told anew to the others, who look it up again."""
    with ExitStack() as stack:
        hosts = Hosts(netlab, tmp_path, stack, layout, examples=600)
        hosts.cluster.start_to_the_middle()
        victim = hosts.cluster[name]
        at = hosts.cut_off(name)
        victim.kill()
        lost = {other: told_of_lost(hosts, other, name, since=at) for other in hosts.neighbors(name)}
        for other, when in lost.items():
            table.append((f"{layout}: {called(name)} vanished", other, when - at, f"{BOUND_S:g} s"))
            assert when - at <= 2 * BOUND_S
        shutil.copytree(victim.out, tmp_path / "brought-along")
        victim.out, victim.before = tmp_path / "brought-along", hosts.on("spare")
        hosts.address[name] = hosts.lab.ip("spare")
        hosts.tell_addresses()
        began = time.monotonic()
        hosts.cluster.start(name)
        back = [told_of_restart(hosts, other, name, since=began) for other in hosts.neighbors(name)]
        table.append((f"{layout}: {called(name)} elsewhere", "the last", max(back) - began, "its start, and 3 s"))
        hosts.cluster.finish()


def told_of_lost(hosts: Hosts, by: str, of: str, *, since: float) -> float:
    return hosts.cluster[by].told.when(f"lost the connection to {called(of)}", since=since)


def told_of_return(hosts: Hosts, by: str, of: str, *, since: float) -> float:
    return hosts.cluster[by].told.when(f"{called(of)}", "connected again", since=since)


def told_of_restart(hosts: Hosts, by: str, of: str, *, since: float) -> float:
    """Who connects to it sees its connection again; who listens, a newcomer that takes its place."""
    connects = of == "reducer" or (by != "reducer" and by > of)
    return hosts.cluster[by].told.when(called(of), "connected again" if connects else "started again", since=since)
