"""What the runtime costs: a star of drom_net beside bare pyzmq stars that move the same bytes.

For each number of tasks m, passes are interleaved over the contestants:

* drom_net    the product's own node processes (`python -m drom_net.node`), TCP on loopback
* curve       the same with keys: every message encrypted, who says it checked
* bare        the same pure functions on the same data, over a bare ROUTER and DEALERs that move the same bytes: a
              ready-made header frame, not packed and not read, and the raw vector
* one frame   the same without the header frame
* idle        as one frame, and nothing computed
* mpi         Gather and Scatter by mpi4py with the same functions, where mpi4py and mpirun are there

Each contestant runs twice in a pass, for few and for many rounds; the difference of the two is free of start
and end. CPU is that of the whole process tree. Ratios are what counts: they are taken pass by pass.

    python benchmarks/star.py                   m = 4, 12, 30 at d = 1458, then d = 100000
    python benchmarks/star.py --start           start of 30 workers and memory of one
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
    parser = arguments(__doc__, tasks=[4, 12, 30], dims=[1458, 100_000], passes=5)
    parser.add_argument("--start", action="store_true", help="only the start of 30 workers and the memory of one")
    options = parser.parse_args()
    if options.role:
        ROLES[options.role](*options.rest)
        return
    show([start_and_memory()] if options.start else rounds(options), options)


# The contest -------------------------------------------------------------------------------------


def rounds(options: argparse.Namespace) -> list[dict[str, object]]:
    results = []
    print_head()
    for dim in options.dims:
        for num_tasks in options.tasks:
            many = many_rounds(num_tasks, dim, options.seconds)
            with tempfile.TemporaryDirectory(prefix="drom-star-") as name:
                of_star = (make_examples(Path(name), num_tasks, dim, many), num_tasks, dim)
                contestants = {
                    "drom_net": functools.partial(run_product, *of_star),
                    "curve": functools.partial(run_product, *of_star, keys=True),
                    "bare": functools.partial(run_star, "bare", *of_star),
                    "one frame": functools.partial(run_star, "one", *of_star),
                    "idle": functools.partial(run_star, "idle", *of_star),
                }
                if shutil.which("mpirun") and _has_mpi4py():
                    contestants["mpi"] = functools.partial(run_mpi, *of_star)
                results += contest(contestants, options, num_tasks=num_tasks, dim=dim, many=many)
    return results


def run_product(
    folder: Path, num_tasks: int, dim: int, count: int, at_once: bool = False, keys: bool = False, **settings: Any
) -> float:
    """drom_net's node processes. Returns wall seconds by the reducer's clock.

    Args:
        settings: Of the specs: timeouts, checkpoints.
    """
    from drom_net.node.spec import NodeSpec, StreamSpec
    from drom_net.transport.keys import create_keys

    names = tuple(f"task-{task:02}" for task in range(num_tasks))
    common = common_fields(names, "drom", {}, rounds=count, dim=dim) | {"endpoint": free_endpoint()}
    common |= settings
    if keys:
        common["keys"] = str(folder / "keys")
        create_keys(folder / "keys", ["reducer", *names])
    with tempfile.TemporaryDirectory(prefix="drom-star-") as out:
        reducer = NodeSpec(role="reducer", name="reducer", task=-1, out=f"{out}/reducer", **common)
        workers = [
            NodeSpec(
                role="worker",
                name=name,
                task=task,
                out=f"{out}/{name}",
                stream=StreamSpec(f"{folder}/examples/{task}"),
                **common,
            )
            for task, name in enumerate(names)
        ]
        wait(
            start_nodes(
                [reducer, *workers],
                connects_to=lambda spec: () if at_once or spec is reducer else (spec.endpoint,),
            )
        )
        return result_seconds(reducer)


def run_star(kind: str, folder: Path, num_tasks: int, dim: int, count: int) -> float:
    of_star = [free_endpoint(), str(folder), str(num_tasks), str(dim), str(count)]
    here = [sys.executable, __file__, "--role"]
    root = subprocess.Popen([*here, f"{kind}-root", *of_star], stdout=subprocess.PIPE, env=ENVIRONMENT)
    leaves = [
        subprocess.Popen([*here, f"{kind}-leaf", *of_star, str(task)], env=ENVIRONMENT) for task in range(num_tasks)
    ]
    assert root.stdout is not None
    seconds = float(root.stdout.read())
    root.stdout.close()
    wait([root, *leaves])
    return seconds


def run_mpi(folder: Path, num_tasks: int, dim: int, count: int) -> float:
    of_star = ["-", str(folder), str(num_tasks), str(dim), str(count)]
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    command += ["-n", str(num_tasks + 1), sys.executable, __file__, "--role", "mpi", *of_star]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=ENVIRONMENT, check=True)
    return float(done.stdout)


def free_endpoint() -> str:
    return f"tcp://127.0.0.1:{free_ports(1)[0]}"


def _has_mpi4py() -> bool:
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


# The contestants' own processes ------------------------------------------------------------------


def bare_root(endpoint: str, folder: str, num_tasks: str, dim: str, count: str, header: bytes = HEADER) -> None:
    import zmq

    from drom_net.algorithms.base import Contribution, ContributionKind
    from drom_net.algorithms.drom import drom
    from drom_net.core.seeding import stream

    m, d, n = int(num_tasks), int(dim), int(count)
    algorithm = drom()
    state = algorithm.init_central(tuple(range(m)), d, stream(SEED, "power"))
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.bind(endpoint)
    identities: dict[int, bytes] = {}
    while len(identities) < m:
        identity, task = socket.recv_multipart()
        identities[int(task)] = identity
    for identity in identities.values():
        socket.send_multipart([identity, b""])
    task_of = {identity: task for task, identity in identities.items()}
    started = time.perf_counter()
    for _ in range(n):
        contributions = {}
        for _ in range(m):
            identity, *_, frame = socket.recv_multipart()
            vector = np.frombuffer(frame)
            contributions[task_of[identity]] = Contribution(ContributionKind.VECTORS, (vector,))
        state, replies, _ = algorithm.central_step(state, contributions)
        for task, reply in replies.items():
            payload = reply.vectors[0].data if reply.vectors else b""
            socket.send_multipart([identities[task], header, payload] if header else [identities[task], payload])
    print(time.perf_counter() - started)
    socket.close(linger=1000)


def bare_leaf(
    endpoint: str, folder: str, num_tasks: str, dim: str, count: str, task: str, header: bytes = HEADER
) -> None:
    import zmq

    from drom_net.algorithms.base import ZERO, Example, Reply, ReplyKind
    from drom_net.algorithms.drom import drom
    from drom_net.data.stream import TaskStream

    examples = TaskStream.load(Path(folder) / "examples" / task)
    algorithm = drom()
    state = algorithm.init_local(int(dim))
    socket = zmq.Context().socket(zmq.DEALER)
    socket.connect(endpoint)
    socket.send(task.encode())
    socket.recv()
    for t in range(1, int(count) + 1):
        example = Example(examples.features(t - 1), float(examples.labels[t - 1]))
        state, _ = algorithm.learn(state, example, t)
        state, contribution = algorithm.update(state, t)
        if header:
            socket.send_multipart([header, contribution.vectors[0].data])
            _, frame = socket.recv_multipart()
        else:
            socket.send(contribution.vectors[0].data)
            frame = socket.recv()
        reply = Reply(ReplyKind.VECTORS, (np.frombuffer(frame),)) if frame else ZERO
        state = algorithm.receive(state, reply, t)
    socket.close(linger=1000)


def idle_root(endpoint: str, folder: str, num_tasks: str, dim: str, count: str) -> None:
    import zmq

    m, n = int(num_tasks), int(count)
    payload = bytes(8 * int(dim))
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.bind(endpoint)
    identities = {socket.recv_multipart()[0] for _ in range(m)}
    for identity in identities:
        socket.send_multipart([identity, b""])
    started = time.perf_counter()
    for _ in range(n):
        for _ in range(m):
            socket.recv_multipart()
        for identity in identities:
            socket.send_multipart([identity, payload])
    print(time.perf_counter() - started)
    socket.close(linger=1000)


def idle_leaf(endpoint: str, folder: str, num_tasks: str, dim: str, count: str, task: str) -> None:
    import zmq

    payload = bytes(8 * int(dim))
    socket = zmq.Context().socket(zmq.DEALER)
    socket.connect(endpoint)
    socket.send(task.encode())
    socket.recv()
    for _ in range(int(count)):
        socket.send(payload)
        socket.recv()
    socket.close(linger=1000)


def mpi(_: str, folder: str, num_tasks: str, dim: str, count: str) -> None:
    from mpi4py import MPI

    from drom_net.algorithms.base import IDLE, Contribution, ContributionKind, Example, Reply, ReplyKind
    from drom_net.algorithms.drom import drom
    from drom_net.core.seeding import stream
    from drom_net.data.stream import TaskStream

    world = MPI.COMM_WORLD
    m, d, n = int(num_tasks), int(dim), int(count)
    algorithm = drom()
    rank = world.Get_rank()
    mine = np.zeros(d)
    everybody = np.zeros((m + 1, d)) if rank == 0 else None
    central = algorithm.init_central(tuple(range(m)), d, stream(SEED, "power"))
    state = algorithm.init_local(d)
    examples = TaskStream.load(Path(folder) / "examples" / str(rank - 1)) if rank else None
    contribution = IDLE
    world.Barrier()
    started = time.perf_counter()
    for t in range(1, n + 1):
        if examples is not None:
            example = Example(examples.features(t - 1), float(examples.labels[t - 1]))
            state, _ = algorithm.learn(state, example, t)
            state, contribution = algorithm.update(state, t)
            mine[:] = contribution.vectors[0]
        world.Gather(mine, everybody, root=0)
        if everybody is not None:
            parts = {task: Contribution(ContributionKind.VECTORS, (everybody[task + 1],)) for task in range(m)}
            central, replies, _ = algorithm.central_step(central, parts)
            for task, answer in replies.items():
                everybody[task + 1] = answer.vectors[0] if answer.vectors else 0.0
        world.Scatter(everybody, mine, root=0)
        state = algorithm.receive(state, Reply(ReplyKind.VECTORS, (mine.copy(),)), t)
    if rank == 0:
        print(time.perf_counter() - started)


# Start and memory --------------------------------------------------------------------------------


def start_and_memory() -> dict[str, object]:
    """Start of a 30-worker cluster beside 31 bare processes; private memory of a worker."""
    with tempfile.TemporaryDirectory(prefix="drom-star-") as name:
        folder = make_examples(Path(name), 30, 1458, 1)
        bare, product = [], []
        for _ in range(3):
            started = time.perf_counter()
            wait([subprocess.Popen([sys.executable, "-c", "import numpy, zmq"], env=ENVIRONMENT) for _ in range(31)])
            bare.append(time.perf_counter() - started)
            started = time.perf_counter()
            run_product(folder, 30, 1458, 1, at_once=True)
            product.append(time.perf_counter() - started)
    extra = statistics.median(product) - statistics.median(bare)
    megabytes = worker_memory()
    print(
        f"31 bare processes: {statistics.median(bare):.2f} s; 30 workers and a reducer, one round, end: "
        f"{statistics.median(product):.2f} s ({extra:+.2f} s; goal at most +3)\n"
        f"private pages of a worker (d = 1458): {megabytes:.1f} MB (goal at most 60)"
    )
    return {"bare_s": bare, "drom_net_s": product, "extra_s": extra, "worker_private_mb": megabytes}


def worker_memory() -> float:
    """Private_Clean + Private_Dirty of a worker in the middle of a run, in MB."""
    from drom_net.node.spec import NodeSpec, StreamSpec

    with tempfile.TemporaryDirectory(prefix="drom-star-") as name:
        folder = make_examples(Path(name), 1, 1458, 200_000)
        common = common_fields(("one",), "drom", {}, rounds=None, dim=1458) | {"endpoint": f"ipc://{name}/meet"}
        reducer = NodeSpec(role="reducer", name="reducer", task=-1, out=f"{name}/reducer", **common)
        worker = NodeSpec(
            role="worker", name="one", task=0, out=f"{name}/one", stream=StreamSpec(f"{folder}/examples/0"), **common
        )
        processes = start_nodes([reducer, worker], stdout=subprocess.PIPE)
        lines = processes[1].stdout
        assert lines is not None
        while json.loads(lines.readline()).get("round", 0) < 1000:
            pass
        private = sum(
            int(line.split()[1])
            for line in Path(f"/proc/{processes[1].pid}/smaps_rollup").read_text().splitlines()
            if line.startswith(("Private_Clean", "Private_Dirty"))
        )
        for process in processes:
            process.terminate()
        for process in processes:
            process.communicate()
    return private / 1024


ROLES = {
    "bare-root": bare_root,
    "bare-leaf": bare_leaf,
    "one-root": functools.partial(bare_root, header=b""),
    "one-leaf": functools.partial(bare_leaf, header=b""),
    "idle-root": idle_root,
    "idle-leaf": idle_leaf,
    "mpi": mpi,
}


if __name__ == "__main__":
    main()
