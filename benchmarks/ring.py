"""What the runtime costs without a centre: a ring of drom_net's peers beside bare pyzmq rings that move the same bytes.

For each number of tasks m, passes are interleaved over the contestants:

* blocking    the product's own peers (`python -m drom_net.node`), `exchange: blocking`, TCP on loopback
* overlap     the same with `exchange: overlap`
* curve       as overlap, with keys: every message encrypted, who says it checked
* bare        the same pure functions on the same data, over a bare DEALER for each edge that moves the same bytes: a
              ready-made header frame, not packed and not read, and the raw vector
* learner     as bare, but calls them through TaskLearner and Centre, which also record and chain what they do
* idle        as bare, and nothing computed

Each contestant runs twice in a pass, for few and for many rounds; the difference of the two is free of start
and end. CPU is that of the whole process tree. Ratios are what counts: they are taken pass by pass.

    python benchmarks/ring.py                   m = 30, d = 1458, tau = 1
    python benchmarks/ring.py --tasks 4 12 --dims 1458 100000 --tau 5
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from side_by_side import (
    ENVIRONMENT,
    HEADER,
    SEED,
    arguments,
    common_fields,
    contest,
    free_ports,
    make_examples,
    many_rounds,
    print_head,
    result_seconds,
    show,
    start_nodes,
    wait,
)


def main() -> None:
    parser = arguments(__doc__, tasks=[30], dims=[1458], passes=5)
    parser.add_argument("--tau", type=int, default=1)
    options = parser.parse_args()
    if options.role:
        ROLES[options.role](*options.rest)
        return
    if min(options.tasks) < 3:
        parser.error("a ring has at least 3 tasks")
    show(rounds(options), options)


# The contest -------------------------------------------------------------------------------------


def rounds(options: argparse.Namespace) -> list[dict[str, object]]:
    results = []
    print_head()
    for dim in options.dims:
        for num_tasks in options.tasks:
            many = many_rounds(num_tasks, dim, options.seconds)
            with tempfile.TemporaryDirectory(prefix="drom-ring-") as name:
                of_ring = (make_examples(Path(name), num_tasks, dim, many), num_tasks, dim, options.tau)
                contestants = {
                    "blocking": functools.partial(run_product, *of_ring, "blocking"),
                    "overlap": functools.partial(run_product, *of_ring, "overlap"),
                    "curve": functools.partial(run_product, *of_ring, "overlap", keys=True),
                    "bare": functools.partial(run_bare, *of_ring, "bare"),
                    "learner": functools.partial(run_bare, *of_ring, "learner"),
                    "idle": functools.partial(run_bare, *of_ring, "idle"),
                }
                rows = contest(contestants, options, num_tasks=num_tasks, dim=dim, many=many)
                results += [row | {"tau": options.tau} for row in rows]
    return results


def members_of(task: int, num_tasks: int) -> tuple[int, ...]:
    """With its neighbors on the ring 0, h, 1, h + 1, ..: peers connect to those of a lower number, so that half of
    them can start at once."""
    order = [(place // 2) + (place % 2) * ((num_tasks + 1) // 2) for place in range(num_tasks)]
    place = order.index(task)
    return tuple(sorted((task, order[place - 1], order[(place + 1) % num_tasks])))


def run_product(
    folder: Path, num_tasks: int, dim: int, tau: int, exchange: str, count: int, keys: bool = False
) -> float:
    """drom_net's peers. Returns wall seconds from when the last one has met a neighbor, by its own clock."""
    from drom_net.node.spec import NeighborsSpec, NodeSpec, StreamSpec
    from drom_net.transport.keys import create_keys

    names = tuple(f"task-{task:02}" for task in range(num_tasks))
    common = common_fields(names, "drom-d", {"tau": tau, "exchange": exchange}, rounds=count, dim=dim)
    if keys:
        common["keys"] = str(folder / "keys")
        create_keys(folder / "keys", names)
    endpoints = [f"tcp://127.0.0.1:{port}" for port in free_ports(num_tasks)]
    with tempfile.TemporaryDirectory(prefix="drom-ring-") as out:
        specs = [
            NodeSpec(
                role="peer", name=name, task=task, endpoint=endpoints[task], out=f"{out}/{name}",
                stream=StreamSpec(f"{folder}/examples/{task}"),
                neighbors=NeighborsSpec(
                    {str(one): endpoints[one] for one in members_of(task, num_tasks)},
                    taus={str(one): tau for one in members_of(task, num_tasks)},
                    cycle=(members_of(task, num_tasks),),
                ),
                **common,
            )
            for task, name in enumerate(names)
        ]  # fmt: skip
        before = {task: [one for one in members_of(task, num_tasks) if one < task] for task in range(num_tasks)}
        wait(start_nodes(specs, connects_to=lambda spec: [endpoints[one] for one in before[spec.task]]))
        return min(map(result_seconds, specs))


def run_bare(folder: Path, num_tasks: int, dim: int, tau: int, role: str, count: int) -> float:
    """A bare ring. Returns wall seconds from when the last process has met its neighbors, by its own clock."""
    ports = free_ports(num_tasks)  # of the edge from each task to the next
    processes = []
    for task in range(num_tasks):
        here = [str(folder), str(task), str(num_tasks), str(dim), str(tau), str(count)]
        command = [sys.executable, __file__, "--role", role, *here, str(ports[task - 1]), str(ports[task])]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT))
    told = [process.communicate()[0] for process in processes]
    wait(processes)
    return min(map(float, told))


# The contestants' own processes ------------------------------------------------------------------


class Edges:
    """A DEALER for each of the two edges of a task."""

    def __init__(self, task: str, num_tasks: str, port_before: str, port_behind: str) -> None:
        import zmq

        context = zmq.Context()
        before, behind = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
        behind.bind(f"tcp://127.0.0.1:{port_behind}")
        before.setsockopt(zmq.RECONNECT_IVL, 10)  # ms: the other side may not listen yet
        before.connect(f"tcp://127.0.0.1:{port_before}")
        m = int(num_tasks)
        for socket in (before, behind):
            socket.setsockopt(zmq.RCVTIMEO, 60_000)  # ms: where one process fails the others do not wait for ever
        self.sockets = {(int(task) - 1) % m: before, (int(task) + 1) % m: behind}
        for socket in self.sockets.values():
            socket.send(b"")
        for socket in self.sockets.values():
            socket.recv()
        self._started = time.perf_counter()

    def exchange(self, vector: np.ndarray | bytes) -> dict[int, bytes]:
        """Say this to both neighbors, and hear what they say."""
        for socket in self.sockets.values():
            socket.send_multipart([HEADER, vector])
        return {task: socket.recv_multipart()[1] for task, socket in self.sockets.items()}

    def close(self) -> None:
        print(time.perf_counter() - self._started)
        for socket in self.sockets.values():
            socket.close(linger=1000)


def bare(folder: str, task: str, num_tasks: str, dim: str, tau: str, count: str, *ports: str) -> None:
    from drom_net.algorithms.base import Contribution, ContributionKind, Example
    from drom_net.algorithms.drom_d import DromDParameters, drom_d
    from drom_net.core.seeding import stream
    from drom_net.data.stream import TaskStream

    examples = TaskStream.load(Path(folder) / "examples" / task)
    algorithm = drom_d(DromDParameters(tau=int(tau)))
    state = algorithm.init_local(int(dim))
    me = int(task)
    members = sorted({(me + step) % int(num_tasks) for step in (-1, 0, 1)})
    centre = algorithm.init_central(tuple(members), int(dim), stream(SEED, "power"))
    edges = Edges(task, num_tasks, *ports)
    for t in range(1, int(count) + 1):
        example = Example(examples.features(t - 1), float(examples.labels[t - 1]))
        state, _ = algorithm.learn(state, example, t)
        state, contribution = algorithm.update(state, t)
        if not algorithm.is_sync(t):
            continue
        said = {me: contribution}
        for other, frame in edges.exchange(contribution.vectors[0].data).items():
            said[other] = Contribution(ContributionKind.VECTORS, (np.frombuffer(frame),))
        centre, replies, _ = algorithm.central_step(centre, {member: said[member] for member in members})
        state = algorithm.receive(state, replies[me], t)
    edges.close()


def learner(folder: str, task: str, num_tasks: str, dim: str, tau: str, count: str, *ports: str) -> None:
    from drom_net.algorithms.base import NO_REPLY, Contribution, ContributionKind
    from drom_net.algorithms.drom_d import DromDParameters, drom_d
    from drom_net.data.stream import TaskStream
    from drom_net.learning.task import Centre, TaskLearner

    algorithm = drom_d(DromDParameters(tau=int(tau)))
    learner = TaskLearner(algorithm, TaskStream.load(Path(folder) / "examples" / task), rounds=int(count))
    me = int(task)
    members = sorted({(me + step) % int(num_tasks) for step in (-1, 0, 1)})
    centre = Centre(algorithm, tasks=members, dim=int(dim), seed=SEED)
    edges = Edges(task, num_tasks, *ports)
    for t in range(1, int(count) + 1):
        contribution = learner.begin(t)
        reply = NO_REPLY
        if algorithm.is_sync(t):
            said = {me: learner.outgoing(contribution, t).to(me, 0)}
            for other, frame in edges.exchange(contribution.vectors[0].data).items():
                said[other] = Contribution(ContributionKind.VECTORS, (np.frombuffer(frame),))
            reply = centre.reduce(t, {member: said[member] for member in members})[me]
        learner.end(t, reply)
    edges.close()


def idle(folder: str, task: str, num_tasks: str, dim: str, tau: str, count: str, *ports: str) -> None:
    payload = bytes(8 * int(dim))
    edges = Edges(task, num_tasks, *ports)
    for _ in range(int(count) // int(tau)):
        edges.exchange(payload)
    edges.close()


ROLES = {"bare": bare, "learner": learner, "idle": idle}


if __name__ == "__main__":
    main()
