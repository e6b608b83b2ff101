"""A task that joins half-way: how many examples until it predicts as if it had been there from the start."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from drom_net.cluster.prepare import Prepared
from drom_net.comparison.comparison_data import ComparisonData
from drom_net.comparison.figures import Outcome
from drom_net.comparison.pages import percents
from drom_net.comparison.stats import spread_of
from drom_net.data.stream import TaskStream
from drom_net.results.report import Cell, Panel, Picture, Report, Series, Table
from reproduction.figures import Options
from reproduction.scenes import (
    BIN,
    LEARNERS,
    ONE_HOT,
    Scene,
    SceneJob,
    Tally,
    dataset_of,
    finished,
    half_of,
    in_turn,
    recovery,
    scene_job,
    seeds_of,
    splice,
    steps_after,
)

LATE = {"spam-ecml2006": 3, "wisdm": 4, ONE_HOT: 2}
"""Data set -> how many tasks in turn are late in each order."""
SHOWN = ("adadrom", "local, eta0 10", "local, eta0 20", "drom")
ALONE = tuple(name for name in SHOWN if LEARNERS[name][0] == "local")
WINDOWS = ((0, 10), (10, 25), (25, 50), (50, 75), (75, 100), (100, 200))
"""Examples of its own; those that at least half of the late tasks have are shown."""
WIDTH = 25
"""An error has reached another one where it does so over so many examples."""
STEP = 20


@dataclass(frozen=True, slots=True)
class Late(Scene):
    """One task, the one that is measured, has no example in the first half."""

    def streams(self, prepared: Prepared) -> Sequence[TaskStream]:
        streams = list(prepared.streams)
        for task in self.tasks:
            streams[task] = splice(None, streams[task], half_of(prepared))
        return streams


@dataclass(frozen=True, slots=True)
class _Case:
    data: str
    learner: str
    late: list[list[Outcome]]
    """An order each: a run for each task that is late."""
    there: list[list[Outcome]]
    """One run an order, of the same tasks where nobody is late."""


def cold_start(options: Options) -> Report:
    """Every learner with each of some tasks late, and with nobody late."""
    seeds = seeds_of(quick=options.quick)
    datasets = [dataset_of(name, quick=options.quick, alignment="spread") for name in LATE]
    plan = [
        (dataset, learner, [_jobs(dataset, learner, seed, seeds, options) for seed in seeds])
        for dataset in datasets
        for learner in SHOWN
    ]
    outcomes = iter(options.runner.run([job for *_, orders in plan for order in orders for job in order]))
    cases = []
    for dataset, learner, orders in plan:
        made = [[next(outcomes) for _ in order] for order in orders]
        cases.append(_Case(dataset.name, learner, [order[1:] for order in made], [order[:1] for order in made]))
    return _report(cases, len(seeds))


def _jobs(dataset: ComparisonData, learner: str, seed: int, seeds: range, options: Options) -> list[SceneJob]:
    """The runs of one order: nobody late, then each task that is."""
    number = 1 if options.quick else LATE[dataset.name]
    late = in_turn(seed - seeds[0], number, len(dataset.tasks))
    scenes = [Scene(tuple(late)), *(Late((task,)) for task in late)]
    return [scene_job(dataset, learner, seed, scene) for scene in scenes]


def _report(cases: Sequence[_Case], num_orders: int) -> Report:
    summary: list[list[Cell]] = []
    windows: list[list[Cell]] = []
    panels: dict[str, Panel] = {}
    for case in cases:
        place: list[Cell] = [case.data, case.learner]
        if not finished([outcome for of in (case.late, case.there) for order in of for outcome in order]):
            summary.append([*place, *[None] * 7])
            continue
        late, there = (Tally(outcome for order in of for outcome in order) for of in (case.late, case.there))
        orders = [[Tally(order) for order in of] for of in (case.late, case.there)]
        for low, high in (window for window in WINDOWS if window[1] <= late.common):
            row: list[Cell] = [*place, low + 1, high]
            for whole, each in zip((late, there), orders, strict=True):
                spread = spread_of([tally.rate(low, high) for tally in each])
                row += percents((whole.rate(low, high), spread.deviation if spread else None), 2)
            windows.append(row)
        # Local that was there from the start, with the better of its two steps.
        local = min(
            (Tally(outcome for order in other.there for outcome in order)
             for other in cases if other.data == case.data and other.learner in ALONE),
            key=lambda tally: tally.counts()[1],
        )  # fmt: skip
        num_late = sum(len(order) for order in case.late)
        summary.append(
            [
                *place,
                *percents([late.rate(0, WIDTH), there.rate(0, WIDTH), late.rate(0), there.rate(0)], 4),
                recovery(late, there, WIDTH),
                recovery(late, local, WIDTH),
                (late.counts(0)[1] - there.counts(0)[1]) / num_late,
            ]
        )
        panel = panels.setdefault(case.data, Panel(case.data, "examples since it joined", "error (%)", []))
        end = min(late.common, WINDOWS[-1][1])
        series = [*panel.series, Series(case.learner, *steps_after(late, STEP, 0, end))]
        if case.learner == SHOWN[0]:
            line = steps_after(there, STEP, 0, end)
            series.append(Series(f"{case.learner}, there from the start", *line, guide=True))
        panels[case.data] = dataclasses.replace(panel, series=series)
    return Report(
        "cold-start",
        "Cold start: a task that joins half-way",
        _TEXT.format(
            orders=num_orders, late=", ".join(f"{name} {late}" for name, late in LATE.items()), width=WIDTH, bin=BIN
        ),
        {
            "cold-start": Table(
                (
                    *("data", "learner", f"first_{WIDTH}_percent", f"first_{WIDTH}_there_percent", "all_percent"),
                    *("all_there_percent", "examples_until_as_if_there", "examples_until_local_there"),
                    "more_errors_a_task",
                ),
                summary,
            ),
            "cold-start-windows": Table(
                (
                    *("data", "learner", "from_example", "to_example", "late_percent", "late_sd"),
                    *("there_percent", "there_sd"),
                ),
                windows,
                on_page=False,
            ),
        },
        {"cold-start": Picture(list(panels.values()), len(panels))},
    )


_TEXT = """Every stream is spread over all rounds; one task has no example in the first half of them, and in the
second half those that it would have had. In each of {orders} orders so many tasks in turn are the late one: {late}.
Its errors are set beside those of the same tasks on the same examples where nobody was late (`there`): as good as
the others at that time means as good as that. A late task has been in the run from the start, without an example;
so it has the others' vectors at once. Local counts its own examples, so that a late one begins with large steps.

The first number of examples is that after which the error over the next {width} is at most one point or a tenth
above `there`, the second likewise against Local that was there from the start, with the better of its two steps;
counted in steps of {bin}; empty: never while half of the late tasks last. `more_errors_a_task` is what being late
cost on the examples that it still saw."""
