"""Streams whose concept changes half-way: how many examples until the error is down again, and its cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from drom_net.cluster.prepare import Prepared, prepare
from drom_net.comparison.comparison_data import ComparisonData, load_data
from drom_net.comparison.figures import Outcome
from drom_net.comparison.pages import percents
from drom_net.comparison.stats import spread_of
from drom_net.data.settings import StreamSettings, Wisdm
from drom_net.data.stream import TaskStream
from drom_net.results.report import Cell, Panel, Picture, Report, Series, Table
from reproduction.figures import Options
from reproduction.scenes import (
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


@dataclass(frozen=True, slots=True)
class Change:
    """A data set, and what becomes of it at the half of the run."""

    name: str
    title: str
    new: StreamSettings | None
    """What the same rows are asked from then on; None where each task's rows go over to the task before it."""
    alone: int
    """How many tasks in turn change alone in each order."""
    step: int
    """Windows are made of so many examples; a multiple of `BIN`."""


CHANGES = (
    Change("wisdm", "wisdm: walking, then stairs", Wisdm(activity="stairs"), 4, 10),
    Change("spam-ecml2006", "spam-ecml2006: another's mailbox", None, 3, 20),
    Change(ONE_HOT, "mhci-one-hot: another molecule", None, 1, 50),
)
EVERYBODY, ALONE = "all tasks", "one task"
SHOWN = ("adadrom", "local, eta0 10", "local, eta0 20", "local, constant 3", "local, constant 10", "drom")
WINDOWS = ((-4, 0), (0, 1), (1, 2), (2, 4), (4, 7))
"""In steps from the change; the first is what was before."""


@dataclass(frozen=True, slots=True)
class Drift(Scene):
    """Some tasks change; or had the new concept from the start, to compare with."""

    new: StreamSettings | None = None
    from_start: bool = False
    alone: bool = False
    """One task changes. Where it takes over another's rows, that one is not in the run, so no row is learned twice."""

    def measured(self, num_tasks: int) -> tuple[int, ...]:
        """Without the task whose rows are taken over."""
        if self.alone and self.new is None:
            return tuple(task - 1 if (task + 1) % num_tasks < task else task for task in self.tasks)
        return self.tasks

    def streams(self, prepared: Prepared) -> Sequence[TaskStream]:
        old, num_tasks = prepared.streams, len(prepared.streams)
        if self.new is None:
            later = [old[(task + 1) % num_tasks] for task in range(num_tasks)]
        else:
            data = dataclasses.replace(self.new, alignment=prepared.config.data.alignment)
            config = dataclasses.replace(prepared.config, data=data)
            later = list(prepare(config, load_data(config)).streams)
        until = 0 if self.from_start else half_of(prepared)
        streams = list(old)
        for task in self.tasks:
            streams[task] = splice(old[task], later[task], until)
        gone = {(task + 1) % num_tasks for task in self.tasks} if self.alone and self.new is None else set()
        return [stream for task, stream in enumerate(streams) if task not in gone]


@dataclass(frozen=True, slots=True)
class _Case:
    """A learner under a change: runs with it, and the same with the new concept from the start; a list an order."""

    change: Change
    who: str
    learner: str
    num_changed: int
    """How many tasks change in each run."""
    drifted: list[list[Outcome]]
    new_from_start: list[list[Outcome]]


_TEXT = """Every stream is spread over all rounds, and at the half of them the concept changes: wisdm asks the same
rows whether one climbs stairs in place of whether one walks; in spam-ecml2006 and mhci-one-hot each task goes on
with the rows of the next one. Either all tasks change, or one of them alone (in each of {orders} orders so many in
turn: {alone}); where one alone gets another's rows, that other one is not in the run.

Errors are those of the tasks that change, on clean labels. `before` is the error over the last 4 steps before the
change, `first` that over the first step after it, `last` that over steps 5 to 7; a step is {steps} examples. `new`
is the error on the same examples where the new concept was there from the start. The error is *as before*, or *as
new*, from where it is, over two steps, at most one point or a tenth above the one or the other; empty: never while
half of the streams last. `more_errors_a_task` is what the change cost, against `new`. Local counts its own
examples, so that its steps do not shrink in idle rounds; where they are constant, they never shrink."""


def drift(options: Options) -> Report:
    """Every learner through every change."""
    seeds = seeds_of(quick=options.quick)
    datasets = [(change, dataset_of(change.name, quick=options.quick, alignment="spread")) for change in CHANGES]
    plan = [
        (change, dataset, who, learner, [_jobs(change, dataset, who, learner, seed, seeds, options) for seed in seeds])
        for change, dataset in datasets
        for who in (EVERYBODY, ALONE)
        for learner in SHOWN
    ]
    jobs = [job for *_, orders in plan for pair in orders for of in pair for job in of]
    outcomes = iter(options.runner.run(jobs))
    cases = []
    for change, dataset, who, learner, orders in plan:
        made = [[[next(outcomes) for _ in of] for of in pair] for pair in orders]
        num_changed = len(dataset.tasks) if who == EVERYBODY else 1
        cases.append(_Case(change, who, learner, num_changed, [pair[0] for pair in made], [pair[1] for pair in made]))
    return _report(cases, len(seeds))


def _jobs(
    change: Change, dataset: ComparisonData, who: str, learner: str, seed: int, seeds: range, options: Options
) -> tuple[list[SceneJob], list[SceneJob]]:
    """The runs of one order with the change, and with the new concept from the start."""
    num_tasks = len(dataset.tasks)
    groups = [tuple(range(num_tasks))]
    if who == ALONE:
        number = 1 if options.quick else change.alone
        groups = [(task,) for task in in_turn(seed - seeds[0], number, num_tasks)]
    with_change, from_start = (
        [
            scene_job(dataset, learner, seed, Drift(group, new=change.new, from_start=from_start, alone=who == ALONE))
            for group in groups
        ]
        for from_start in (False, True)
    )
    return with_change, from_start


def _report(cases: Sequence[_Case], num_orders: int) -> Report:
    recovered: list[list[Cell]] = []
    windows: list[list[Cell]] = []
    panels: dict[tuple[str, str], Panel] = {}
    for case in cases:
        change, step = case.change, case.change.step
        runs = [outcome for pair in (case.drifted, case.new_from_start) for order in pair for outcome in order]
        place: list[Cell] = [change.name, case.who, case.learner]
        if not finished(runs):
            recovered.append([*place, *[None] * 9])
            continue
        ours, new = (Tally(outcome for order in of for outcome in order) for of in (case.drifted, case.new_from_start))
        orders = [[Tally(order) for order in of] for of in (case.drifted, case.new_from_start)]
        for low, high in WINDOWS:
            row: list[Cell] = [*place, step * low + 1, step * high]
            for whole, each in zip((ours, new), orders, strict=True):
                spread = spread_of([tally.rate(step * low, step * high) for tally in each])
                row += percents((whole.rate(step * low, step * high), spread.deviation if spread else None), 2)
            windows.append(row)
        more_errors = ours.counts(0)[1] - new.counts(0)[1]
        streams = case.num_changed * sum(len(order) for order in case.drifted)
        rates = [ours.rate(step * low, step * high) for low, high in (WINDOWS[0], WINDOWS[1], WINDOWS[-1])]
        recovered.append(
            [
                *place,
                *percents([*rates, new.rate(step * WINDOWS[-1][0], step * WINDOWS[-1][1])], 4),
                *percents([ours.rate(0), new.rate(0)], 2),
                recovery(ours, rates[0], 2 * step) if rates[0] is not None else None,
                recovery(ours, new, 2 * step),
                more_errors / streams,
            ]
        )
        title = f"{change.title} ({case.who})"
        x, y = steps_after(ours, step, -4 * step, 7 * step)
        panel = panels.setdefault((change.name, case.who), Panel(title, "examples since the change", "error (%)", []))
        series = [*panel.series, Series(case.learner, x, y)]
        if case.learner == SHOWN[0]:
            x, y = steps_after(new, step, -4 * step, 7 * step)
            series.append(Series(f"{case.learner}, new from the start", x, y, guide=True))
        panels[change.name, case.who] = dataclasses.replace(panel, series=series)
    return Report(
        "drift",
        "Drift: a concept that changes half-way",
        _TEXT.format(orders=num_orders, alone=_listed("alone"), steps=_listed("step")),
        {
            "drift": Table(
                (
                    *("data", "who_changes", "learner", "before_percent", "first_window_percent"),
                    *("last_window_percent", "last_window_new_percent", "after_percent", "after_new_percent"),
                    *("examples_until_as_before", "examples_until_as_new", "more_errors_a_task"),
                ),
                recovered,
            ),
            "drift-windows": Table(
                (
                    *("data", "who_changes", "learner", "from_example", "to_example"),
                    *("error_percent", "error_sd", "new_from_start_percent", "new_from_start_sd"),
                ),
                windows,
                on_page=False,
            ),
        },
        {"drift": Picture(list(panels.values()), 2)},
    )


def _listed(field: str) -> str:
    return ", ".join(f"{change.name} {getattr(change, field)}" for change in CHANGES)
