"""Any number of nodes on a virtual clock: the same nodes as in processes, on a network that is drawn from a seed.

How long a local round takes is the node's own pace. A centre is busy for the time that its step takes: what it has
to say leaves when it is done, and what comes meanwhile waits in its inbox. Messages travel as encoded frames, so no
two nodes share memory.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from drom_net.core.errors import ClusterError, DivergedError, RejectedError
from drom_net.core.names import some_of
from drom_net.protocol.codec import Frames, decode, encode
from drom_net.protocol.node import Event
from drom_net.simulation.faults import Crash, Fault
from drom_net.simulation.network import Distribution, Network, NetworkSettings, Partition, generator
from drom_net.simulation.slot import MakeNode, NodeTotals, Slot
from drom_net.simulation.wiring import Wiring, incoming

_LOOK_EVERY_EVENTS = 1000


class StuckError(ClusterError):
    """Nodes have not finished, and nothing will happen any more; or more happened than was allowed."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """How a run is watched, as `Simulator.run` has it."""

    most_events: float | None = None
    check: Callable[[Simulator, int], None] | None = None
    check_every: int = 1
    look: Callable[[Simulator], bool] | None = None


class Simulator:
    """Drives all nodes of a cluster in one thread."""

    def __init__(
        self,
        make: MakeNode,
        wiring: Wiring,
        *,
        dim: int,
        seed: int,
        network: NetworkSettings | None = None,
        central_s: Distribution | None = None,
        factors: Sequence[float] | None = None,
        faults: Sequence[Fault] = (),
        detect_s: float = 6.0,
        persist_s: Distribution | None = None,
        on_event: Callable[[int, float, Event], None] | None = None,
    ) -> None:
        """
        Args:
            make: Makes a node, and after a crash makes it again.
            wiring: Who connects to whom: `star_wiring` or `peers_wiring`.
            dim: How many float64 a vector has.
            seed: Of the network and of how long central steps take; the nodes have their own.
            central_s: How long a central step takes, in seconds.
            factors: For each node how many times as long it takes there.
            detect_s: After how long a dead connection is noticed.
            persist_s: How long it takes until a snapshot is on disk; one that a crash comes before is lost.
            on_event: Gets (node, time, event) of what nodes tell.
        """
        self.now = 0.0
        self.events = 0
        """How many calls were made on nodes."""
        num_nodes = len(wiring)
        self.lost_times: list[tuple[int, bytes]] = []
        """(node, its times since the row before its last snapshot) of each crash: what it did, and does again."""
        self.on_crash: Callable[[int], None] | None = None
        """Called with the number of a node that crashes, before it is gone."""
        self._make, self._wiring = make, wiring
        self._dim = dim
        self._settings = network or NetworkSettings()
        self._network = Network(self._settings, num_nodes, seed)
        self._detect_s = detect_s
        self._on_event = on_event
        self._queue: list[tuple[float, int, int, int, str, Any]] = []
        """(time, order, node, stamp, address, payload): frames that arrive, or a bool for a connection that is up
        or down, both for that incarnation; None for an alarm of that version. Node -1: a function to call."""
        self._order = 0
        self._touched = 0
        self._watch = _Watch()
        self._persist_s = persist_s
        self._persist_rng = generator(seed, "disk")
        self._crashes = any(isinstance(fault, Crash) for fault in faults)
        self._slots = [
            Slot(index, factor=factor)
            for index, factor in zip(range(num_nodes), factors or [1.0] * num_nodes, strict=True)
        ]
        self._unfinished = num_nodes
        for slot in self._slots:
            self._place(slot)
        self._central_s = None if central_s is None or central_s.is_zero else central_s
        self._speed_rng = generator(seed, "central steps")
        self._schedule(faults)

    def _schedule(self, faults: Sequence[Fault]) -> None:
        """Faults, and when connections across a partition are found dead, and whole again."""
        for fault in faults:
            self._at(fault.at_s, partial(self._strike, fault))
        for cut in self._settings.partitions:
            if cut.from_s + self._detect_s < cut.to_s:
                self._at(cut.from_s + self._detect_s, partial(self._notice_partition, cut, False))
                self._at(cut.to_s, partial(self._notice_partition, cut, True))

    @property
    def num_nodes(self) -> int:
        return len(self._slots)

    def node(self, index: int) -> Any:
        """The node as it is; None while it is down."""
        return self._slots[index].node

    @property
    def records(self) -> list[bytearray]:
        """What each node recorded, complete when it has finished: as `take_records` gives it."""
        return [slot.records for slot in self._slots]

    @property
    def central_records(self) -> list[bytearray]:
        """A peer's own central steps."""
        return [slot.central_records for slot in self._slots]

    @property
    def times(self) -> list[bytearray]:
        """When each said its words and waited, as `take_times` gives it."""
        return [slot.times for slot in self._slots]

    def totals_of(self, index: int) -> NodeTotals:
        return self._slots[index].totals

    def run(
        self,
        most_events: float | None = None,
        check: Callable[[Simulator, int], None] | None = None,
        check_every: int = 1,
        look: Callable[[Simulator], bool] | None = None,
    ) -> bool:
        """To the end of all nodes.

        Args:
            most_events: Where to stop with an error; None for no bound.
            check: Called with the simulator and the node after every `check_every`-th call on a node.
            look: Called now and then; False stops all nodes where they are.

        Returns:
            Whether all have finished by themselves.

        Raises:
            ClusterError, RejectedError, DivergedError: A node cannot go on; the text names it and the time.
            StuckError: Not all have finished, but nothing is left to happen, or `most_events` were not enough.
        """
        self._watch = _Watch(most_events, check, check_every, look)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence
                for slot in self._slots:
                    self._start(slot)
                self._loop()
                if stopped := self._unfinished > 0:
                    self._stop()
        except StuckError:
            raise
        except (ClusterError, RejectedError, DivergedError) as error:
            raise type(error)(f"node {self._touched} at {self.now:.6g} s: {error}") from error
        return not stopped

    def call_at(self, at: float, action: Callable[[], None]) -> None:
        """Something outside the network happens at a time."""
        self._at(at, action)

    def wake(self, index: int) -> None:
        """Let a node look at what has happened outside the network, such as an example that has come."""
        slot = self._slots[index]
        if not slot.finished and not slot.occupied and slot.node is not None:
            self._go_on(slot)

    def _stop(self) -> None:
        """End all nodes as they are; one that is down comes back for that from its snapshot."""
        for slot in self._slots:
            if not slot.finished:
                if slot.node is None:
                    self._place_again(slot)
                slot.node.stop()
                slot.take_records()

    def _loop(self) -> None:
        queue, slots, pop, look = self._queue, self._slots, heapq.heappop, self._watch.look
        next_look = 0
        while self._unfinished:
            if look is not None and self.events >= next_look:
                next_look = self.events + _LOOK_EVERY_EVENTS
                if not look(self):
                    return
            if not queue:
                raise StuckError(f"nothing is left to happen at {self.now:.6g} s, but {self._stuck()}")
            self.now, _, index, stamp, address, payload = pop(queue)
            if index < 0:
                payload()
                continue
            slot = slots[index]
            if slot.finished:
                continue
            if payload is None:
                if stamp == slot.version:
                    slot.alarm_at = math.inf
                    if slot.occupied:
                        self._set_free(slot)
                    self._go_on(slot)
                continue
            is_message = type(payload) is list
            if stamp != slot.incarnation:
                slot.totals.lost += is_message
                continue
            if is_message:
                slot.totals.messages_received += 1
                slot.totals.bytes_received += sum(map(len, payload))
            if slot.occupied:
                slot.inbox.append((self.now, address, payload))
            else:
                self._touched = index
                self._hand(slot, address, payload)
                self._called(slot)

    # Calls on a node, and what follows them

    def _place(self, slot: Slot) -> None:
        """Make the node, and connect it."""
        index, incarnation = slot.index, slot.incarnation
        node: Any = self._make(index, incarnation, slot.snapshot)
        slot.node = node
        slot.counts_steps = hasattr(node, "central_steps")
        slot.steps = node.central_steps if slot.counts_steps else 0
        mine = incoming(index, incarnation)
        for address, other in self._wiring[index].items():
            slot.routes[address] = (other, mine, -1)
            self._slots[other].routes[mine] = (index, address, incarnation)

    def _start(self, slot: Slot) -> None:
        self._touched = slot.index
        slot.node.start(self.now)
        self._called(slot)

    def _hand(self, slot: Slot, address: str, payload: Frames | bool) -> None:
        if isinstance(payload, bool):
            slot.node.on_connection(address, payload, self.now)
        else:
            message = decode(payload, dim=self._dim, max_vectors=slot.node.max_vectors)
            slot.node.receive(address, message, self.now)

    def _called(self, slot: Slot) -> None:
        """After a call: the node computes for as long as that takes, or goes on at once."""
        if not self._computes(slot):
            self._go_on(slot)

    def _go_on(self, slot: Slot) -> None:
        """Do with a free node all that is to be done now, and set its alarm."""
        node, now = slot.node, self.now
        self._touched = slot.index
        while True:
            self._flush(slot)
            if node.finished:
                self._finish(slot)
                return
            due = node.next_timer()
            if slot.inbox and slot.inbox[0][0] < due:  # also after a pause things happen in their order
                self._hand(slot, *slot.inbox.popleft()[1:])
            elif due <= now:
                node.on_timer(now)
            else:
                if due < slot.alarm_at:  # else the earlier alarm will ask again
                    self._set_alarm(slot, due)
                return
            if self._computes(slot):
                return

    def _computes(self, slot: Slot) -> bool:
        """Count a call that was just made, and see whether the node is busy now with a central step."""
        self.events += 1
        watch = self._watch
        if watch.most_events is not None and self.events > watch.most_events:
            raise StuckError(f"no end after {watch.most_events} events at {self.now:.6g} s: {self._stuck()}")
        if watch.check is not None and self.events % watch.check_every == 0:
            watch.check(self, slot.index)
        busy_s = 0.0
        if self._central_s is not None and slot.counts_steps:
            closed = slot.node.central_steps - slot.steps
            slot.steps += closed
            for _ in range(closed):
                busy_s += self._central_s.draw(self._speed_rng)
        if busy_s == 0.0:
            return False
        slot.occupied = True
        slot.busy_from = self.now
        slot.free_at = self.now + busy_s * slot.factor
        self._set_alarm(slot, slot.free_at)
        return True

    def _flush(self, slot: Slot) -> None:
        """Take from a node what it has to say, to tell and to keep."""
        node = slot.node
        if self._crashes:
            self._keep(slot)
        for to, message in node.take_outbox():
            route = slot.routes.get(to)
            if route is not None:
                self._send(slot, route, [bytes(frame) for frame in encode(message)])
        events = node.take_events()
        if self._on_event is not None:
            for event in events:
                self._on_event(slot.index, self.now, event)

    def _keep(self, slot: Slot) -> None:
        """Snapshots go to the disk, at once or after a while."""
        while (snapshot := slot.node.take_snapshot()) is not None:
            slot.take_records()
            slot.keeping = snapshot
            delay = self._persist_s.draw(self._persist_rng) if self._persist_s is not None else 0.0
            if delay > 0.0:
                self._at(self.now + delay, partial(self._persisted, slot, slot.incarnation))
                return
            slot.snapshot = snapshot
            slot.node.snapshot_persisted(self.now)

    def _persisted(self, slot: Slot, incarnation: int) -> None:
        if slot.finished or slot.node is None or slot.incarnation != incarnation:
            return
        slot.snapshot = slot.keeping
        slot.node.snapshot_persisted(self.now)
        if not slot.occupied:
            self._go_on(slot)

    def _send(self, slot: Slot, route: tuple[int, str, int], frames: list[bytes]) -> None:
        index, seen_as, incarnation = route
        receiver = self._slots[index]
        size = sum(map(len, frames))
        slot.totals.messages_sent += 1
        slot.totals.bytes_sent += size
        arrivals = self._network.deliver(slot.index, index, size, self.now)
        if receiver.finished:
            return
        if not arrivals or receiver.node is None or incarnation not in (-1, receiver.incarnation):
            receiver.totals.lost += 1
            return
        if len(arrivals) > 1:
            receiver.totals.doubled += 1
        for at in arrivals:
            self._push(at, index, receiver.incarnation, seen_as, frames)

    def _finish(self, slot: Slot) -> None:
        slot.take_records()
        slot.finished = True
        slot.inbox.clear()
        slot.totals.finished_at_s = self.now
        self._unfinished -= 1
        for other, seen_as, _ in self._partners(slot):
            self._notice(other, seen_as, False, self.now + self._detect_s)

    # Time

    def _push(self, at: float, index: int, stamp: int, address: str, payload: object) -> None:
        self._order += 1
        heapq.heappush(self._queue, (at, self._order, index, stamp, address, payload))

    def _at(self, at: float, action: Callable[[], None]) -> None:
        self._push(at, -1, 0, "", action)

    def _set_alarm(self, slot: Slot, at: float) -> None:
        slot.version += 1
        slot.alarm_at = at
        if at < math.inf:
            self._push(at, slot.index, slot.version, "", None)

    def _set_free(self, slot: Slot) -> None:
        """The end of what it computed, or of a pause."""
        slot.occupied = False
        self._was_busy(slot, slot.free_at)

    def _was_busy(self, slot: Slot, until: float) -> None:
        """Note what it has computed until then."""
        if slot.busy_from < until:
            slot.totals.central_s += until - slot.busy_from
            slot.busy_from = until

    # Faults

    def _strike(self, fault: Fault) -> None:
        slot = self._slots[fault.node]
        if slot.finished or slot.node is None:
            return
        if isinstance(fault, Crash):
            self._crash(slot, fault.back_after_s)
        else:
            self._pause(slot, fault.for_s)

    def _pause(self, slot: Slot, for_s: float) -> None:
        if slot.occupied:
            self._was_busy(slot, self.now)
        else:
            slot.occupied = True
            slot.busy_from = slot.free_at = self.now
        left_s = slot.free_at - slot.busy_from
        slot.busy_from = max(slot.busy_from, self.now + for_s)
        slot.free_at = slot.busy_from + left_s
        self._set_alarm(slot, slot.free_at)

    def _crash(self, slot: Slot, back_after_s: float) -> None:
        if slot.occupied:
            self._was_busy(slot, self.now)
            slot.occupied = False
        slot.take_records()  # they are written as they are made; who comes back cuts off what it makes again
        if self.on_crash is not None:
            self.on_crash(slot.index)
        slot.totals.crashes += 1
        slot.totals.lost += sum(not isinstance(payload, bool) for _, _, payload in slot.inbox)
        slot.inbox.clear()
        self._set_alarm(slot, math.inf)
        for other, seen_as, dialed in self._partners(slot):
            # A connection that the partner opened is found dead, at the latest, by the one that takes its place.
            after_s = self._detect_s if dialed else min(self._detect_s, back_after_s)
            self._notice(other, seen_as, False, self.now + after_s)
        slot.node = None
        slot.incarnation += 1
        if back_after_s < math.inf:
            self._at(self.now + back_after_s, partial(self._restart, slot))

    def _place_again(self, slot: Slot) -> None:
        """From the last snapshot; what was recorded after it is made again."""
        self._place(slot)
        if taken_back := slot.take_back():
            self.lost_times.append((slot.index, taken_back))

    def _restart(self, slot: Slot) -> None:
        self._place_again(slot)
        for other, seen_as, dialed in self._partners(slot):
            if not dialed:
                self._connect_again(slot, slot.incarnation, other, seen_as)
        self._start(slot)

    def _connect_again(self, slot: Slot, incarnation: int, other: int, seen_as: str) -> None:
        """Tell who connects to a node that it is back, once no partition is between them."""
        if slot.incarnation != incarnation:
            return  # it has crashed again
        if cuts := self._cuts(slot.index, other):
            heals_at = min(cut.to_s for cut in cuts)
            self._at(heals_at, partial(self._connect_again, slot, incarnation, other, seen_as))
        else:
            self._notice(other, seen_as, True, self.now)

    def _notice_partition(self, cut: Partition, connected: bool) -> None:
        """Tell the two sides of each connection that is cut (or was) that it is down (or up)."""
        for slot in self._slots:
            if slot.node is not None and not slot.finished:
                for other, seen_as, _ in self._partners(slot):
                    if cut.cuts(slot.index, other) and not (connected and self._cuts(slot.index, other)):
                        self._notice(other, seen_as, connected, self.now)

    def _cuts(self, a: int, b: int) -> list[Partition]:
        """The partitions that are between two nodes now."""
        return [cut for cut in self._settings.partitions if cut.from_s <= self.now < cut.to_s and cut.cuts(a, b)]

    def _notice(self, index: int, address: str, connected: bool, at: float) -> None:
        """Tell a node that is there now of a connection."""
        slot = self._slots[index]
        if slot.node is not None and not slot.finished:
            self._push(at, index, slot.incarnation, address, connected)

    def _partners(self, slot: Slot) -> list[tuple[int, str, bool]]:
        """Who is connected with a node: their numbers, its address there, and whether the node connected to them."""
        return [
            (other, seen_as, incarnation < 0)
            for other, seen_as, incarnation in slot.routes.values()
            if incarnation in (-1, self._slots[other].incarnation)
        ]

    def _stuck(self) -> str:
        """Who has not finished, and whom they wait for: the first five."""
        stuck = [slot for slot in self._slots if not slot.finished]
        return some_of(stuck, 5, lambda slot: f"node {slot.index} {slot.in_words()}", between="; ")
