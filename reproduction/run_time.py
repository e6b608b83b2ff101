"""Table 4: how long a run takes by each algorithm, in one process and as a cluster. Only ratios can be compared."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from drom_net.cluster.progress import Silent
from drom_net.cluster.run import run as run_cluster
from drom_net.comparison.comparison_data import ComparisonData
from drom_net.comparison.figures import run_one
from drom_net.comparison.jobs import Job, configure
from drom_net.results.report import Cell, Panel, Picture, Report, Series, Table

LEARNERS = ("local", "d-ofw", "d-admm", "drom", "prox-gd", "osmtl-e", "pooled")
PAPER: dict[str, dict[str, float]] = {
    "spam-pu": {"local": 0.53, "d-ofw": 1.16, "d-admm": 1.92, "drom": 1.26},
    "mhci": {"local": 0.76, "d-ofw": 1.50, "d-admm": 3.35, "drom": 1.59},
    "jester": {"local": 1.14, "d-ofw": 2.33, "d-admm": 4.01, "drom": 2.25},
}
"""Seconds as the paper has them, on a machine and for a unit that it does not state; EachMovie stands beside jester."""
REPEATS = 3
_PROCESSES = (
    "Beside it one run as real processes, from the first that joined to the last goodbye: with many tasks and few "
    "rounds that is mostly their start, and every learner but Local waits for messages in every round. "
)


def table_4(
    datasets: Sequence[ComparisonData], *, say: Callable[[str], None], repeats: int = REPEATS, as_processes: bool = True
) -> Report:
    """Time each algorithm with its default parameters, in turns; the least of all repeats counts."""
    rows: list[list[Cell]] = []
    panels = []
    for dataset in datasets:
        jobs = {
            name: Job(dataset, configure(dataset, name, {}, seed=0), f"{name} on {dataset.name}") for name in LEARNERS
        }
        ready = {name: job.prepare() for name, job in jobs.items()}
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        for repeat in range(repeats):
            for name in jobs:
                say(f"table-4: {name} on {dataset.name}, {repeat + 1} of {repeats}")
                outcome = run_one(ready[name])
                if outcome.status == "finished":
                    seconds[name].append(outcome.seconds)
        cluster: dict[str, float] = {}
        for name in jobs:
            if as_processes and not name.startswith(("osmtl", "pooled")):
                say(f"table-4: {name} on {dataset.name} as processes")
                with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
                    summary, _ = run_cluster(
                        ready[name], driver="processes", out=Path(folder) / "run", progress=Silent()
                    )
                cluster[name] = float(summary["seconds"])
        base, paper = min(seconds["local"]), PAPER.get(dataset.name, {})
        for name in jobs:
            if not seconds[name]:
                continue
            least = min(seconds[name])
            rounds = ready[name].rounds
            its = cluster.get(name)
            rows.append(
                [
                    *(dataset.name, name, rounds, least, 1e6 * least / rounds, least / base),
                    *(its, its / cluster["local"] if its is not None else None),
                    *(paper.get(name), paper[name] / paper["local"] if name in paper else None),
                ]
            )
        shown = [row for row in rows if row[0] == dataset.name]
        series = [Series("loop, one process", list(range(len(shown))), [float(row[5] or 0.0) for row in shown])]
        if paper:
            known = [place for place, row in enumerate(shown) if row[9] is not None]
            series.append(
                Series(
                    "paper" if dataset.name != "jester" else "paper, EachMovie",
                    known,
                    [float(shown[place][9] or 0.0) for place in known],
                )
            )
        panels.append(
            Panel(
                dataset.name,
                "learner",
                "time of a run (times Local's)",
                series,
                points=True,
                ticks=[str(row[1]) for row in shown],
            )
        )
    return Report(
        "table-4",
        "Table 4: run time",
        f"""Default parameters, the plain loop in one process with one BLAS thread; the least time of {repeats} in turns
counts. {_PROCESSES if as_processes else ""}Seconds depend on the machine, and the paper states neither its own nor what
an iteration is: compare the ratios to Local. The paper's figures beside jester are those of EachMovie.""",
        {
            "table-4": Table(
                (
                    *("data", "learner", "rounds", "seconds", "microseconds_per_round", "times_local"),
                    *("seconds_as_processes", "times_local_as_processes", "paper_seconds", "paper_times_local"),
                ),
                rows,
            )
        },
        {"table-4": Picture(panels, min(3, len(panels)))},
    )
