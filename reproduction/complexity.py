"""Table 1 measured: what a round costs a worker, the centre and the network, as tasks and features grow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.base import Contribution, Example, ReplyKind
from drom_net.algorithms.drom import PAPER
from drom_net.cluster.run import run_loop
from drom_net.comparison.comparison_data import ComparisonData
from drom_net.comparison.jobs import Job, configure
from drom_net.core.seeding import stream
from drom_net.learning.metrics import total
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import Pull, Push
from drom_net.results.report import Cell, Panel, Picture, Report, Series, Table

LEARNERS: dict[str, tuple[str, dict[str, object]]] = {
    "Local": ("local", {}),
    "ProxGD": ("prox-gd", {}),
    "D-ADMM": ("d-admm", {}),
    "D-OFW": ("d-ofw", {}),
    "DROM": ("drom", {"rho": 1.0}),
    "DROM, exact pair": ("drom", {"rho": 1.0, "solver": "gram"}),
    "OSMTL": ("osmtl", {}),
    "Pooled": ("pooled", {}),
}
"""What is measured: the paper's four, DROM with the other solver, and the rest beside them."""
CLAIMED = {
    "ProxGD": ("2d", "m^2 d"),
    "D-ADMM": ("3d", "m^2 d"),
    "D-OFW": ("2d", "m d"),
    "DROM": ("2d", "m d"),
}
"""Table 1 of the paper: d-vectors a worker sends and gets, time of the server."""


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What one round costs. Times are the lower quartile over rounds: what other programs add is never less than 0."""

    worker_s: float
    """Of one task: both steps, and taking the reply."""
    central_s: float
    push_bytes: int
    """Header and vectors of one task's push."""
    pull_bytes: int
    push_vectors: int
    pull_vectors: int


def measure(name: str, parameters: dict[str, object], *, num_tasks: int, dim: int, rounds: int) -> RoundCost:
    """Time the functions of a learner on Gaussian examples of unit norm, in this process, without a network.

    A first third of the rounds warms up and is not counted.
    """
    algorithm = BUILTIN[name].make(**parameters)
    rng = stream(0, "complexity", num_tasks, dim)
    states = [algorithm.init_local(dim) for _ in range(num_tasks)]
    central = algorithm.init_central(tuple(range(num_tasks)), dim, rng)
    worker_s, central_s = [], []
    push = pull = (0, 0)
    for t in range(1, rounds + 1):
        rows = rng.standard_normal((num_tasks, dim))
        rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        labels = np.where(rows[:, 0] >= 0.0, 1.0, -1.0)
        examples = [Example(rows[task], float(labels[task])) for task in range(num_tasks)]
        contributions: dict[int, Contribution] = {}
        began = time.perf_counter()
        for task, example in enumerate(examples):
            states[task], _ = algorithm.learn(states[task], example, t)
            states[task], contributions[task] = algorithm.update(states[task], t)
        at_work = time.perf_counter() - began
        if algorithm.is_sync(t):
            began = time.perf_counter()
            central, replies, _ = algorithm.central_step(central, contributions)
            central_s.append(time.perf_counter() - began)
            push = max(push, _size(Push(t, contributions[0])))
            pull = max(pull, _size(Pull(t, replies[0])))
            began = time.perf_counter()
            for task in range(num_tasks):
                if replies[task].kind in (ReplyKind.VECTORS, ReplyKind.ZERO):
                    states[task] = algorithm.receive(states[task], replies[task], t)
            at_work += time.perf_counter() - began
        worker_s.append(at_work / num_tasks)
    warm = rounds // 3
    return RoundCost(
        float(np.quantile(worker_s[warm:], 0.25)),
        float(np.quantile(central_s[warm:], 0.25)) if central_s else 0.0,
        push[0],
        pull[0],
        push[1],
        pull[1],
    )


def _size(message: Push | Pull) -> tuple[int, int]:
    """Bytes and vectors."""
    frames = encode(message)
    return sum(memoryview(frame).nbytes for frame in frames), len(frames) - 1


def fitted_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y over log x by least squares; NaN where a y is 0."""
    if min(y) <= 0.0:
        return math.nan
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


EMPTY: dict[str, tuple[str, dict[str, object]]] = {
    "DROM, defaults": ("drom", {}),
    "DROM, quickstart's": ("drom", {"eta0": 20.0, "lam": 0.005, "rho": 20.0}),
    "DROM, loss capped at 2": ("drom", {"xi": 2.0**0.9}),
    "DROM, paper's": ("drom", PAPER),
}
"""Whose empty messages are counted."""


def empty_shares(datasets: Sequence[ComparisonData]) -> Table:
    """How many pushes were without a vector (outliers), and how many pulls (sigma_1 <= 1), over the whole stream."""
    rows: list[list[Cell]] = []
    for dataset in datasets:
        for label, (name, changes) in EMPTY.items():
            job = Job(dataset, configure(dataset, name, changes, seed=0), label)
            sums = total(task.totals for task in run_loop(job.prepare()).tasks)
            empty = [1.0 - count / sums.examples for count in (sums.pushes, sums.corrections)]
            rows.append([dataset.name, label, sums.examples, *empty, sums.error_rate])
    return Table(("data", "learner", "messages", "empty_pushes", "empty_pulls", "error_rate"), rows)


def table_1(*, quick: bool, say: Callable[[str], None], shares: Table) -> Report:
    """What a round costs, beside the paper's claims.

    Args:
        shares: How many pushes and pulls were empty, by data and learner; it is put beside the rest.
    """
    measured, exponents, pictures = cost_tables(quick=quick, say=say)
    return Report(
        "table-1",
        "Table 1: cost of a round",
        """\
The learners' own functions on Gaussian examples of unit norm, in one process with one BLAS thread; a time is the
lower quartile over rounds. Exponents are slopes in log-log over the upper half of each range: below it the fixed
cost of a call hides them. The paper claims that the server of ProxGD and D-ADMM takes O(m^2 d) and that of D-OFW
and DROM O(m d); that a worker sends and gets 2d numbers, and 3d in D-ADMM. Bytes are headers and vectors as the
product encodes them.

The SVT of ProxGD and D-ADMM is made from the Gram matrix of the m rows: m^2 d for the matrix and its use, m^3 for
its eigenvectors. DROM and D-OFW make 10 power iterations of O(m d) a round.

`empty` has the share of pushes without a vector (outliers) and of pulls without one (sigma_1 <= 1), which the paper
says save communication.""",
        {"exponents": exponents, "empty": shares, "costs": measured},
        pictures,
    )


def cost_tables(*, quick: bool, say: Callable[[str], None]) -> tuple[Table, Table, dict[str, Picture]]:
    """(every point measured, exponents beside the claimed ones, pictures).

    Exponents are fitted over the upper half of each range: below it the fixed cost of a NumPy call hides them.
    """
    tasks = (4, 8, 16, 32, 64) if quick else (4, 8, 16, 32, 64, 128, 256)
    dims = (256, 1024, 4096, 16384) if quick else (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
    fixed_dim, fixed_tasks, rounds = 2048, 16, 15 if quick else 45
    points: list[tuple[str, str, int, int, RoundCost]] = []
    for label, (name, parameters) in LEARNERS.items():
        say(f"table-1: {label}")
        for num_tasks in tasks:
            found = measure(name, parameters, num_tasks=num_tasks, dim=fixed_dim, rounds=rounds)
            points.append((label, "m", num_tasks, fixed_dim, found))
        for dim in dims:
            found = measure(name, parameters, num_tasks=fixed_tasks, dim=dim, rounds=rounds)
            points.append((label, "d", fixed_tasks, dim, found))
    measured = Table(
        ("algorithm", "grows", "m", "d", "worker_s", "server_s", "push_bytes", "pull_bytes"),
        [(label, grows, m, d, c.worker_s, c.central_s, c.push_bytes, c.pull_bytes) for label, grows, m, d, c in points],
        on_page=False,
    )
    rows = []
    for label in LEARNERS:
        by_m = [(m, c) for one, grows, m, _, c in points if one == label and grows == "m"]
        by_d = [(d, c) for one, grows, _, d, c in points if one == label and grows == "d"]
        upper_m, upper_d = by_m[len(by_m) // 2 :], by_d[len(by_d) // 2 :]
        last = by_d[-1][1]
        sent, server = CLAIMED.get(label, ("", ""))
        rows.append(
            (
                label,
                last.push_vectors,
                last.pull_vectors,
                sent,
                fitted_exponent([m for m, _ in upper_m], [c.central_s for _, c in upper_m]),
                fitted_exponent([d for d, _ in upper_d], [c.central_s for _, c in upper_d]),
                server,
                fitted_exponent([m for m, _ in upper_m], [c.worker_s for _, c in upper_m]),
                fitted_exponent([d for d, _ in upper_d], [c.worker_s for _, c in upper_d]),
            )
        )
    exponents = Table(
        (
            "algorithm",
            "vectors_up",
            "vectors_down",
            "claimed_vectors",
            "server_exponent_m",
            "server_exponent_d",
            "claimed_server",
            "worker_exponent_m",
            "worker_exponent_d",
        ),
        [tuple(None if isinstance(cell, float) and math.isnan(cell) else cell for cell in row) for row in rows],
    )
    panels = [
        _panel(points, "m", f"server, d = {fixed_dim}", "tasks m", lambda c: c.central_s),
        _panel(points, "d", f"server, m = {fixed_tasks}", "features d", lambda c: c.central_s),
        _panel(points, "m", f"worker, d = {fixed_dim}", "tasks m", lambda c: c.worker_s),
        _panel(points, "d", f"worker, m = {fixed_tasks}", "features d", lambda c: c.worker_s),
    ]
    return measured, exponents, {"table-1": Picture(panels, 2)}


def _panel(
    points: Sequence[tuple[str, str, int, int, RoundCost]],
    grows: str,
    title: str,
    x_label: str,
    value: Callable[[RoundCost], float],
) -> Panel:
    series = []
    for label in LEARNERS:
        of = [(m if grows == "m" else d, 1e6 * value(c)) for one, g, m, d, c in points if (one, g) == (label, grows)]
        if all(y > 0.0 for _, y in of):
            series.append(Series(label, [x for x, _ in of], [y for _, y in of]))
    return Panel(title, x_label, "time of a round (µs)", series, log_x=True, log_y=True)
