"""One site sends garbage within the protocol's limits: what the others lose."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drom_net.algorithms.base import Algorithm
from drom_net.cluster.prepare import Prepared
from drom_net.comparison.comparison_data import ComparisonData
from drom_net.comparison.figures import Outcome
from drom_net.comparison.pages import markdown_table, percent_of, percents
from drom_net.comparison.stats import Difference, paired_difference, spread_of
from drom_net.data.stream import TaskStream
from drom_net.results.report import Cell, Panel, Picture, Reference, Report, Series, Table
from reproduction.figures import Options
from reproduction.scenes import (
    ONE_HOT,
    Scene,
    SceneJob,
    Tally,
    dataset_of,
    finished,
    points_of,
    poisoned,
    scene_job,
    seeds_of,
)

ROUNDS: Mapping[str, int | None] = {
    "digits-sites": None,
    ONE_HOT: None,
    "spam-ecml2006": None,
    "wisdm": None,
    "spam-enron": 1500,
}
"""Data set -> of how many rounds it is; None: all."""
QUICK_SETS = 2
"""So many of them are enough to be quick; reading the last takes longer than its runs."""
ROBUST, PLAIN = "adadrom, robust", "adadrom"
SHOWN = (ROBUST, PLAIN, "drom", "local, eta0 10", "local, eta0 20")
NOBODY, ABSENT, FLIPPED = "nobody", "not there", "labels flipped"
SQUARES = ", squares too"
ATTACKS: Mapping[str, float] = {
    ABSENT: 1.0,
    FLIPPED: 1.0,
    "x 1,000": 1000.0,
    "x -1,000": -1000.0,
    f"x -1,000{SQUARES}": -1000.0,
}
"""What the bad site does -> what it multiplies its vectors by. Not to be there is the least that it can do."""
GOAL = 0.002
"""What the others may lose."""


@dataclass(frozen=True, slots=True)
class Bad(Scene):
    """One task is bad in one way; the others are measured."""

    task: int = 0
    attack: str = NOBODY

    def measured(self, num_tasks: int) -> tuple[int, ...]:
        if self.attack == ABSENT:
            return tuple(task - 1 if task > self.task else task for task in self.tasks)
        return self.tasks

    def streams(self, prepared: Prepared) -> Sequence[TaskStream]:
        streams = list(prepared.streams)
        bad = streams[self.task]
        if self.attack == FLIPPED:
            streams[self.task] = dataclasses.replace(bad, labels=-bad.labels)
        elif self.attack == ABSENT:
            del streams[self.task]
        return streams

    def algorithm(self, prepared: Prepared) -> Algorithm:
        algorithm, factor = Scene.algorithm(self, prepared), ATTACKS.get(self.attack, 1.0)
        if factor == 1.0:
            return algorithm
        return poisoned(algorithm, self.task, factor, squares=self.attack.endswith(SQUARES))


@dataclass(frozen=True, slots=True)
class _Case:
    data: str
    learner: str
    error: list[float | None]
    """Of the others, by order, where nobody is bad."""
    attacked: dict[str, list[float | None]]
    """The same by attack; None where numbers were no longer finite and the run ended."""


def poisoning(options: Options) -> Report:
    """Every learner under every attack; another task is the bad one in each order."""
    seeds = seeds_of(quick=options.quick)
    names = list(ROUNDS)[:QUICK_SETS] if options.quick else list(ROUNDS)
    datasets = [dataset_of(name, quick=options.quick).with_rounds(ROUNDS[name]) for name in names]
    plan = [
        (dataset, learner, attack, [_job(dataset, learner, attack, seed, seeds) for seed in seeds])
        for dataset in datasets
        for learner in SHOWN
        for attack in (NOBODY, *(() if learner.startswith("local") else ATTACKS))
    ]
    outcomes = iter(options.runner.run([job for *_, jobs in plan for job in jobs]))
    cases: dict[tuple[str, str], _Case] = {}
    for dataset, learner, attack, jobs in plan:
        errors = [_error(next(outcomes)) for _ in jobs]
        if attack == NOBODY:
            cases[dataset.name, learner] = _Case(dataset.name, learner, errors, {})
        else:
            cases[dataset.name, learner].attacked[attack] = errors
    return _report(list(cases.values()), len(seeds))


def _job(dataset: ComparisonData, learner: str, attack: str, seed: int, seeds: range) -> SceneJob:
    num_tasks = len(dataset.tasks)
    bad = (seed - seeds[0]) % num_tasks
    others = tuple(task for task in range(num_tasks) if task != bad)
    return scene_job(dataset, learner, seed, Bad(others, bad, attack))


def _error(outcome: Outcome) -> float | None:
    return Tally([outcome]).rate() if finished([outcome]) else None


def _report(cases: Sequence[_Case], num_orders: int) -> Report:
    rows: list[list[Cell]] = []
    shown: list[list[str]] = []
    panels = []
    by_place = {(case.data, case.learner): case for case in cases}
    for case in cases:
        plain = by_place.get((case.data, PLAIN))
        cost = paired_difference(case.error, plain.error) if plain is not None and case.learner == ROBUST else None
        spread = spread_of(case.error)
        line = [case.data, case.learner, percent_of(spread.mean) if spread else "-", points_of(cost) if cost else ""]
        for attack, errors in case.attacked.items():
            ended = sum(error is None for error in errors)
            lost = paired_difference(errors, case.error)
            rows.append(
                [
                    *(case.data, case.learner, attack, ended),
                    *percents((spread.mean, spread.deviation) if spread else None, 2),
                    *percents((lost.mean, lost.low, lost.high) if lost else None, 3),
                    *percents((cost.mean, cost.low, cost.high) if cost else None, 3),
                ]
            )
            line.append(f"ends ({ended} of {num_orders})" if ended else points_of(lost))
        if not case.attacked:
            error = percents((spread.mean, spread.deviation) if spread else None, 2)
            rows.append([case.data, case.learner, NOBODY, 0, *error, *[None] * 6])
        shown.append([*line, *[""] * (len(ATTACKS) - len(case.attacked))])
    for data in dict.fromkeys(case.data for case in cases):
        ours = [case for case in cases if case.data == data and case.attacked]
        series = [_series(attack, [case.attacked[attack] for case in ours], [case.error for case in ours])
                  for attack in ATTACKS]  # fmt: skip
        goal = Reference("what they may lose", 100.0 * GOAL)
        names = [case.learner.removeprefix(f"{PLAIN}, ") for case in ours]
        panels.append(Panel(data, "", "lost by the others (points)", series, [goal], points=True, ticks=names))
    columns = ["data", "learner", "error, nobody bad", "robust minus plain", *ATTACKS]
    return Report(
        "poisoning",
        "One site sends garbage",
        "\n".join([_TEXT.format(orders=num_orders, goal=100.0 * GOAL), "", *markdown_table(columns, shown, left=2)]),
        {
            "poisoning": Table(
                (
                    *("data", "learner", "attack", "orders_that_ended", "nobody_bad_percent", "nobody_bad_sd"),
                    *("lost_points", "low_95", "high_95"),
                    *("robust_minus_plain_points", "low_95_robust", "high_95_robust"),
                ),
                rows,
                on_page=False,
            )
        },
        {"poisoning": Picture(panels, 2)},
    )


def _series(attack: str, attacked: Sequence[list[float | None]], clean: Sequence[list[float | None]]) -> Series:
    """The points of one attack, beside those of the others; none where runs ended."""
    place = list(ATTACKS).index(attack) - (len(ATTACKS) - 1) / 2.0
    found: list[tuple[float, Difference]] = []
    for number, (errors, without) in enumerate(zip(attacked, clean, strict=True)):
        lost = paired_difference(errors, without)
        if lost is not None:
            found.append((number + 0.2 * place, lost))
    means = [100.0 * lost.mean for _, lost in found]
    low = [100.0 * (lost.mean if lost.low is None else lost.low) for _, lost in found]
    high = [100.0 * (lost.mean if lost.high is None else lost.high) for _, lost in found]
    return Series(attack, [x for x, _ in found], means, low, high)


_TEXT = """One site is bad, another one in each of {orders} orders: it flips all its labels, or learns as it should
and multiplies all vectors that it sends by 1,000 or -1,000. By -1,000 there are two ways: sums of squares stay positive
(`x -1,000`), or they are made negative as well (`squares too`), which no learner sends. (Numbers that are not finite
are refused by every driver.) The table has the error of all other sites where nobody is bad, in percent, and by how
many points it is higher where one is: a mean over orders, paired, with its 95 % interval. `not there` is the same where
that site is not in the run at all: so much even the best defence loses. *Ends*: numbers of other sites were no longer
finite, and the run stopped. The goal is to lose at most {goal:g} points with `robust: true`. `robust minus plain` is
what that costs where nobody is bad. Local hears nobody and loses nothing."""
