"""A comparison done fairly: the same effort of tuning for every learner, other orders for its evaluation.

Where the order of rows is to be kept (`data.shuffle: false`) it may be time: settings are then chosen on the first rows
of each site, and evaluated on the others, in blocks that come one behind the other.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drom_net import __version__
from drom_net.algorithms import ALGORITHMS
from drom_net.cluster.progress import Silent
from drom_net.cluster.run import run as run_cluster
from drom_net.comparison.pages import markdown_table, percent_of
from drom_net.comparison.runs import HEAD, NUM_BLOCKS, Job, Outcome, Runner, Subject, configure, written_parameters
from drom_net.comparison.spaces import draw, learner_names, learner_of, num_settings
from drom_net.comparison.stats import Difference, Spread, paired_difference, spread_of
from drom_net.config.model import PEERS, ClusterConfig
from drom_net.core.blas import blas_kernel
from drom_net.core.errors import StoppedError, UsageError
from drom_net.results.report import Cell, Panel, Picture, Reference, Report, Series, Table
from drom_net.results.verdict import why_not

YARDSTICK = "local"
OURS = "drom"
CONTROL = "drom, uncoupled"
"""The setting chosen for ours with lambda = rho = 0: what the exchange itself is worth."""
MARK = "moves raw examples"
FIGURES = ("error_rate", "majority", "error_rate_macro", "f1", "f1_macro", "auc", "auc_macro", "log_loss")
"""What is reported of each learner, on clean labels."""
_HEADLINE = ("error_rate", "majority", "auc", "log_loss", "f1")
_HIGHER_IS_BETTER = ("f1", "f1_macro", "auc", "auc_macro")
_IN_WORDS = {
    "error_rate": "error rate",
    "majority": "majority",
    "error_rate_macro": "error, macro",
    "f1": "F1",
    "f1_macro": "F1, macro",
    "auc": "AUC",
    "auc_macro": "AUC, macro",
    "log_loss": "log loss",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried. No order is used both to tune and to evaluate."""

    settings: int = 24
    """Of each learner, its defaults among them."""
    tuning_orders: int = 2
    orders: int = 10
    seed: int = 0
    """What the settings are drawn from, and the first of the orders' seeds."""

    @property
    def tuning_seeds(self) -> range:
        return range(self.seed, self.seed + self.tuning_orders)

    @property
    def evaluation_seeds(self) -> range:
        first = self.seed + max(10, self.tuning_orders)
        return range(first, first + self.orders)

    @property
    def in_words(self) -> str:
        tuning, evaluation = self.tuning_seeds, self.evaluation_seeds
        plural = "s" if self.settings > 1 else ""
        return (
            f"{self.settings} setting{plural} of each learner, the first of them its defaults, on "
            f"{_count(tuning, 'order')}; the best then on {_count(evaluation, 'other order')}"
        )

    @property
    def in_words_in_order(self) -> str:
        """The same where rows keep their order."""
        plural = "s" if self.settings > 1 else ""
        return (
            f"Rows in the order of the file: {self.settings} setting{plural} of each learner, the first of them its "
            f"defaults, on the first {100 * HEAD:.0f} % of each site's rows; the best then from the first row to the "
            f"last, counted on the rows after those, in {NUM_BLOCKS} blocks one behind the other"
        )


def _count(seeds: range, noun: str) -> str:
    return f"{len(seeds)} {noun}{'s' if len(seeds) > 1 else ''} (seed{_seeds(seeds)})"


def _seeds(seeds: range) -> str:
    return f" {seeds[0]}" if len(seeds) == 1 else f"s {seeds[0]} to {seeds[-1]}"


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting that was tried."""

    number: int
    drawn: dict[str, object]
    """The searched parameters, by field name."""
    value: float | None
    """The mean over the tuning orders of the measure on the labels that the learner saw; None where it diverged."""
    seconds: float = 0.0
    """Of its runs on the tuning orders, together."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A learner on a subject with the setting that is evaluated."""

    subject: Subject
    name: str
    """Of the learner."""
    trials: tuple[Trial, ...]
    """What was tried; nothing where there is nothing to choose."""
    chosen: Trial


@dataclass(frozen=True, slots=True)
class Result:
    """One learner on one subject."""

    subject: Subject
    name: str
    """Of the learner; `CONTROL` is ours without its coupling."""
    trials: tuple[Trial, ...]
    chosen: Trial
    seeds: range
    """Of the evaluation orders; where rows keep their order, of the one run."""
    outcomes: tuple[Outcome, ...]
    """One for each of them; where rows keep their order, one for each block of that run."""

    @property
    def shares_examples(self) -> bool:
        """Whether its nodes send the examples themselves to other sites."""
        return ALGORITHMS[learner_of(self.learner).algorithm](self.config(0).algorithm.parameters).shares_examples

    @property
    def learner(self) -> str:
        return OURS if self.name == CONTROL else self.name

    @property
    def num_diverged(self) -> int:
        return sum(outcome.status == "diverged" for outcome in self.outcomes)

    def config(self, seed: int) -> ClusterConfig:
        """The run with the chosen setting in this order."""
        return configure(self.subject, self.learner, self.chosen.drawn, seed=seed)

    def figure(self, name: str) -> list[float | None]:
        """A figure by order, or by block; None where it diverged, or there is none."""
        return [outcome.figures.get(name) for outcome in self.outcomes]

    def spread(self, name: str) -> Spread | None:
        """Mean and deviation of a figure; a block may have none (one class only), but no order may."""
        values = self.figure(name)
        return spread_of([value for value in values if value is not None] if self.subject.keeps_order else values)

    def minus(self, other: Result, name: str) -> Difference | None:
        """The paired difference of a figure, over orders or blocks."""
        pairs = list(zip(self.figure(name), other.figure(name), strict=True))
        if self.subject.keeps_order:
            pairs = [pair for pair in pairs if None not in pair]
        return paired_difference([ours for ours, _ in pairs], [theirs for _, theirs in pairs])

    def parameters(self, trial: Trial | None = None) -> dict[str, object]:
        """What was fixed, then what was searched, by the keys of a topology file; by default of the chosen setting."""
        trial = trial or self.chosen
        config = configure(self.subject, self.learner, trial.drawn, seed=0)
        fields = [*learner_of(self.learner).fixed, *trial.drawn]
        if config.algorithm.name in PEERS:
            fields.append("tau")
        return written_parameters(config, fields)


def check_learners(names: Sequence[str], subjects: Sequence[Subject]) -> tuple[str, ...]:
    """The learners that are meant: without names all, peers only where a subject is made for them.

    Raises:
        UsageError: There is no such learner, one is named twice, or two subjects have one name.
    """
    for name in names:
        learner_of(name)
    for given, what in ((list(names), "learner"), ([subject.name for subject in subjects], "data set")):
        twice = [name for name in given if given.count(name) > 1]
        if twice:
            raise UsageError(f"expected every {what} once, got {twice[0]} {given.count(twice[0])} times")
    if names:
        return tuple(names)
    with_peers = any(subject.config.algorithm.name in PEERS for subject in subjects)
    return tuple(name for name in learner_names() if with_peers or learner_of(name).algorithm not in PEERS)


Values = dict[str, object]
"""Parameters by field name."""


def settings_of(name: str, effort: Effort) -> list[Values]:
    """The settings of a learner that are tried."""
    return [draw(name, number, effort.seed) for number in range(num_settings(name, effort.settings))]


def job_of(subject: Subject, name: str, values: Values, seed: int) -> Job:
    """A learner's run with such parameters in this order."""
    return Job(subject, configure(subject, name, values, seed=seed), f"{name} on {subject.name}")


def tune_and_evaluate(
    cells: Sequence[tuple[Subject, str]],
    effort: Effort,
    runner: Runner,
    *,
    settings: Callable[[str, Effort], list[Values]] = settings_of,
    job: Callable[[Subject, str, Values, int], Job] = job_of,
) -> list[Result]:
    """Tune each learner on each subject, and run the best setting in the evaluation orders.

    Args:
        cells: (subject, name of the learner) of each.
        settings: What is tried, by the learner's name.
        job: Makes the run of a subject, learner, setting and order.
    """
    return evaluate(tune(cells, effort, runner, settings=settings, job=job), effort, runner, job=job)


def tune(
    cells: Sequence[tuple[Subject, str]],
    effort: Effort,
    runner: Runner,
    *,
    settings: Callable[[str, Effort], list[Values]] = settings_of,
    job: Callable[[Subject, str, Values, int], Job] = job_of,
) -> list[Chosen]:
    """Find the setting of each learner on each subject that is best in the tuning orders; arguments as above."""
    drawn = {name: settings(name, effort) for _, name in cells}
    jobs = [
        _part(job(subject, name, values, seed), "head")
        for subject, name in cells
        for values in drawn[name]
        for seed in _seeds_of(subject, effort, effort.tuning_seeds)
    ]
    outcomes = iter(runner.run(jobs))
    result = []
    for subject, name in cells:
        measure = f"{subject.figure}_seen"
        trials = []
        for number, values in enumerate(drawn[name]):
            ran = [next(outcomes) for _ in _seeds_of(subject, effort, effort.tuning_seeds)]
            found = spread_of([outcome.figures.get(measure) for outcome in ran])
            seconds = sum(outcome.seconds for outcome in ran)
            trials.append(Trial(number, values, found.mean if found else None, seconds))
        result.append(Chosen(subject, name, tuple(trials), _best(trials, subject, name)))
    return result


def evaluate(
    cells: Sequence[Chosen],
    effort: Effort,
    runner: Runner,
    *,
    job: Callable[[Subject, str, Values, int], Job] = job_of,
) -> list[Result]:
    """Run each learner with its setting in the evaluation orders."""
    seeds = [_seeds_of(cell.subject, effort, effort.evaluation_seeds) for cell in cells]
    jobs = [
        job(cell.subject, cell.name, cell.chosen.drawn, seed)
        for cell, its_seeds in zip(cells, seeds, strict=True)
        for seed in its_seeds
    ]
    outcomes = _evaluated(jobs, runner)
    return [
        Result(cell.subject, cell.name, cell.trials, cell.chosen, its_seeds, _take(outcomes, cell.subject, its_seeds))
        for cell, its_seeds in zip(cells, seeds, strict=True)
    ]


def _controls(results: Sequence[Result], runner: Runner) -> list[Result]:
    """Ours on each subject once more, with its chosen setting but without coupling."""
    ours = [result for result in results if result.name == OURS]
    chosen = [Trial(result.chosen.number, {**result.chosen.drawn, "lam": 0.0, "rho": 0.0}, None) for result in ours]
    jobs = [
        job_of(result.subject, OURS, trial.drawn, seed)
        for result, trial in zip(ours, chosen, strict=True)
        for seed in result.seeds
    ]
    outcomes = _evaluated(jobs, runner)
    return [
        Result(result.subject, CONTROL, (), trial, result.seeds, _take(outcomes, result.subject, result.seeds))
        for result, trial in zip(ours, chosen, strict=True)
    ]


def _seeds_of(subject: Subject, effort: Effort, seeds: range) -> range:
    """The seeds of a subject's runs: where rows keep their order there is one order."""
    return range(effort.seed, effort.seed + 1) if subject.keeps_order else seeds


def _part(job: Job, part: str) -> Job:
    return dataclasses.replace(job, part=part) if job.subject.keeps_order else job


def _evaluated(jobs: Sequence[Job], runner: Runner) -> Iterator[Outcome]:
    return iter(runner.run([_part(job, "rest") for job in jobs]))


def _take(outcomes: Iterator[Outcome], subject: Subject, seeds: range) -> tuple[Outcome, ...]:
    """The outcomes of the next runs; where rows keep their order those of the blocks of the next one."""
    taken = tuple(next(outcomes) for _ in seeds)
    if not subject.keeps_order:
        return taken
    (whole,) = taken
    if whole.status == "diverged":
        return taken * NUM_BLOCKS
    return tuple(dataclasses.replace(whole, figures=figures) for figures in whole.blocks)


def _best(trials: Sequence[Trial], subject: Subject, name: str) -> Trial:
    """Of equal ones the first."""
    known = [(trial.value, trial) for trial in trials if trial.value is not None]
    if not known:
        raise UsageError(
            f"{name} on {subject.name}: no setting gave a figure ({_IN_WORDS[subject.figure]}) in every tuning order; "
            "either all left the finite numbers, or all tasks have one class only"
        )
    sign = -1.0 if subject.figure in _HIGHER_IS_BETTER else 1.0
    return min(known, key=lambda pair: sign * pair[0])[1]


# The report ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a comparison gives."""

    results: tuple[Result, ...]
    report: Report
    closing: tuple[str, ...]
    """The last lines of the report: what processes gave, and how long it took."""
    unequal: tuple[str, ...]
    """The runs whose processes did not give the digest of the loop; there should be none."""


def compare(
    subjects: Sequence[Subject], names: Sequence[str], effort: Effort, runner: Runner, *, num_processes: int = 0
) -> Comparison:
    """Compare learners on each subject.

    Args:
        names: The learners.
        num_processes: So many of the evaluation orders are run again as real processes, of every learner that does
            not send examples to other sites, or may; the digest must be that of the loop.
    """
    started = time.monotonic()
    results = tune_and_evaluate([(subject, name) for subject in subjects for name in names], effort, runner)
    equal = {
        f"{result.name} on {result.subject.name}, seed {result.seeds[place]}": _as_processes(result, place, runner)
        for result in results
        if not result.shares_examples or result.subject.config.allow_sharing_examples
        for place in range(min(num_processes, len(result.seeds)))
        if result.outcomes[place].status == "finished"
    }
    results += _controls(results, runner)
    differences = [row for subject in subjects for row in _differences(results_on(results, subject))]
    unequal = tuple(run for run, same in equal.items() if not same)
    closing = []
    if equal:
        gave = len(equal) - len(unequal)
        closing.append(f"as real processes: {gave} of {len(equal)} runs gave the digest of the loop")
        left_out = dict.fromkeys(
            r.name for r in results if r.shares_examples and not r.subject.config.allow_sharing_examples
        )
        if left_out:
            closing.append(f"without {', '.join(left_out)}, as allow_sharing_examples is false")
    closing.append(
        f"{runner.num_run} runs were made and {runner.num_reused} taken from earlier ones; it took "
        f"{time.monotonic() - started:.0f} s, {runner.num_processes} at a time"
    )
    plain = [name for name in names if num_settings(name, effort.settings) < effort.settings]
    untuned = f" ({', '.join(plain)}: nothing to tune, so one setting.)" if plain else ""
    text = [
        f"Settings are chosen by the labels that a learner sees; all other figures count the clean labels.{untuned}",
        *(line for subject in subjects for line in ["", *_about(results_on(results, subject), effort)]),
        "",
        "Intervals are of 95 % (Student's t over paired orders, or blocks). They tell of other orders of these "
        "examples, or of other stretches of these files, not of other data, and are not corrected for the number of "
        "comparisons.",
        "",
        *(f"- {line}" for line in closing),
        f"- drom-net {__version__}, NumPy {np.__version__}, BLAS kernel {blas_kernel()}",
    ]
    report = Report(
        name="compare",
        title="Learners compared",
        text="\n".join(text),
        tables={
            "compare": _figures_table(results),
            "differences": _differences_table(differences),
            "search": _search_table(results),
            "seconds": _seconds_table(results),
        },
        pictures={"differences": _picture(subjects, differences)} if differences else {},
    )
    return Comparison(tuple(results), report, tuple(closing), unequal)


def results_on(results: Sequence[Result], subject: Subject) -> list[Result]:
    return [result for result in results if result.subject is subject]


def title_of(results: Sequence[Result]) -> str:
    """What `headline` shows, of one subject."""
    subject, over = results[0].subject, len(results[0].outcomes)
    of_what = "blocks of rows in the order of the file" if subject.keeps_order else "orders"
    return f"{subject.name}, in percent (log loss in nats): mean (standard deviation) over {over} {of_what}"


def headline(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for people: a row a learner, of one subject."""
    subject = results[0].subject
    names = ["auc_macro" if name == "auc" and subject.measure == "auc" else name for name in _HEADLINE]
    yardstick = next((result for result in results if result.name == YARDSTICK), None)
    of_what = "" if subject.measure == "error" else f" ({_IN_WORDS[subject.figure]})"
    columns = ["learner", *(_IN_WORDS[name] for name in names)]
    columns += [*([f"minus {YARDSTICK}{of_what}"] if yardstick else []), "remarks"]
    rows = []
    for result in results:
        against = "-"
        if yardstick is not None and result is not yardstick:
            against = difference_in_words(result.minus(yardstick, subject.figure), subject.figure)
        remarks = [MARK] if result.shares_examples else []
        if result.num_diverged:
            where = "" if subject.keeps_order else f" in {result.num_diverged} of {len(result.outcomes)} orders"
            remarks.append(f"diverged{where}")
        figures = [_spread_in_words(result.spread(name), name) for name in names]
        rows.append([result.name, *figures, *([against] if yardstick else []), ", ".join(remarks)])
    return columns, rows


def conclusion(results: Sequence[Result]) -> str:
    """What came out on one subject, as a sentence; no learner is the best that is no better than the majority."""
    subject = results[0].subject
    learners = [result for result in results if result.name != CONTROL]
    errors = {result.name: spread.mean for result in learners if (spread := result.spread("error_rate"))}
    majority = {result.name: spread.mean for result in learners if (spread := result.spread("majority"))}
    if not errors:
        return "no learner has a figure in every order"
    useful = [result for result in learners if errors.get(result.name, 1.0) < majority.get(result.name, 0.0)]
    if not useful:
        least = min(errors, key=errors.__getitem__)
        reason = why_not(
            subject.num_examples,
            subject.positives,
            dim=subject.dim,
            flipped=subject.config.data.flip > 0.0,
            look_at="AUC and log loss",
        )
        return (
            "no learner is better than always giving each site's commoner label: at least "
            f"{percent_of(errors[least])} % errors against {percent_of(majority[least])} %; {reason}"
        )
    highest = subject.figure in _HIGHER_IS_BETTER
    values = {result.name: spread.mean for result in useful if (spread := result.spread(subject.figure))}
    best = (max if highest else min)(values, key=values.__getitem__, default=useful[0].name)
    shown = _value_in_words(values[best], subject.figure) if values else "-"
    if subject.measure == "error":
        shown += f" % against {percent_of(majority[best])} % of always giving each site's commoner label"
    return f"{'highest' if highest else 'lowest'} {_IN_WORDS[subject.figure]}: {best}, {shown}"


def _about(results: Sequence[Result], effort: Effort) -> list[str]:
    subject = results[0].subject
    columns, rows = headline(results)
    flipped = f", {100 * subject.config.data.flip:g} % of the labels flipped" if subject.config.data.flip else ""
    limit = f", the first {subject.config.rounds} rounds" if subject.config.rounds else ""
    parameters = [[result.name, "`" + json.dumps(result.parameters()) + "`"] for result in results]
    graphs = [
        f"{result.name}: graph {topology.graph}."
        for result in results
        if (topology := result.config(0).topology) is not None
    ]
    unit = "nats" if subject.measure == "log_loss" else "percentage points"
    how, over = (effort.in_words_in_order, "blocks") if subject.keeps_order else (effort.in_words, "orders")
    return [
        f"## {subject.name}",
        "",
        f"{len(subject.tasks)} tasks, {subject.num_examples} examples, d = {subject.dim}{limit}{flipped}. "
        f"{how}. In percent, log loss in nats: mean (standard deviation) over {over}; majority is always giving each "
        f"site's commoner label so far; differences of the {_IN_WORDS[subject.figure]} in {unit}, with their interval.",
        "",
        *markdown_table(columns, rows),
        "",
        f"{conclusion(results)}.",
        "",
        *markdown_table(["learner", "chosen parameters"], parameters, left=2),
        *([""] if graphs else []),
        *graphs,
    ]


DifferenceRow = tuple[Result, Result, str, Difference | None]


def _differences(results: Sequence[Result]) -> list[DifferenceRow]:
    """Each learner against the yardstick, then ours against each other one, in every figure."""
    by_name = {result.name: result for result in results}
    pairs = []
    if YARDSTICK in by_name:
        pairs += [(result, by_name[YARDSTICK]) for result in results if result.name != YARDSTICK]
    if OURS in by_name:
        pairs += [(by_name[OURS], result) for result in results if result.name not in (OURS, YARDSTICK)]
    return [
        (ours, theirs, name, ours.minus(theirs, name))
        for ours, theirs in pairs
        for name in FIGURES
        if name != "majority"
    ]


def _figures_table(results: Sequence[Result]) -> Table:
    names = [*FIGURES, *(f"{name}_seen" for name in FIGURES)]
    columns = ["data", "learner", "moves_raw_examples", "over", "orders", "diverged"]
    columns += [f"{name}_{part}" for name in names for part in ("mean", "sd")] + ["parameters"]
    rows: list[list[Cell]] = []
    for result in results:
        row: list[Cell] = [result.subject.name, result.name, "yes" if result.shares_examples else "no"]
        over = "blocks" if result.subject.keeps_order else "orders"
        row += [over, len(result.outcomes), result.num_diverged]
        for name in names:
            found = result.spread(name)
            row += [found.mean, found.deviation] if found else [None, None]
        rows.append([*row, json.dumps(result.parameters())])
    return Table(columns, rows, on_page=False)


def _differences_table(differences: Sequence[DifferenceRow]) -> Table:
    rows: list[list[Cell]] = []
    for ours, theirs, name, found in differences:
        values: list[Cell] = [found.mean, found.low, found.high] if found else [None, None, None]
        rows.append([ours.subject.name, ours.name, theirs.name, name, len(ours.outcomes), *values])
    columns = ["data", "learner", "minus", "figure", "orders", "difference", "low_95", "high_95"]
    return Table(columns, rows, on_page=False)


def _search_table(results: Sequence[Result]) -> Table:
    rows: list[list[Cell]] = []
    for result in results:
        for trial in result.trials:
            parameters = json.dumps(result.parameters(trial))
            chosen = "yes" if trial is result.chosen else ""
            measure = f"{result.subject.figure}_seen"
            rows.append([result.subject.name, result.name, trial.number, measure, trial.value, chosen, parameters])
    columns = ["data", "learner", "setting", "measure", "mean_over_tuning_orders", "chosen", "parameters"]
    return Table(columns, rows, on_page=False)


def _seconds_table(results: Sequence[Result]) -> Table:
    """Measured, so it is a file of its own: the others are the same whenever they are made."""
    rows: list[list[Cell]] = []
    for result in results:
        found = spread_of([outcome.seconds for outcome in result.outcomes])
        rows.append([result.subject.name, result.name, *([found.mean, found.deviation] if found else [None, None])])
    return Table(["data", "learner", "seconds_per_run_mean", "seconds_per_run_sd"], rows, on_page=False)


def _picture(subjects: Sequence[Subject], differences: Sequence[DifferenceRow]) -> Picture:
    """A panel a subject: each learner minus the yardstick, or where that was not run ours minus each other."""
    panels = []
    for subject in subjects:
        rows = [row for row in differences if row[0].subject is subject and row[2] == subject.figure]
        against = [row for row in rows if row[1].name == YARDSTICK]
        shown = [
            (ours.name if against else theirs.name, found)
            for ours, theirs, _, found in against or rows
            if found is not None
        ]
        scale = _scale(subject.figure)
        series = Series(
            "difference, 95 % interval",
            x=list(range(len(shown))),
            y=[scale * found.mean for _, found in shown],
            low=[scale * (found.mean if found.low is None else found.low) for _, found in shown],
            high=[scale * (found.mean if found.high is None else found.high) for _, found in shown],
        )
        pair = f"learner - {YARDSTICK}" if against else f"{OURS} - learner"
        panels.append(
            Panel(
                title=subject.name,
                x_label="learner",
                y_label=f"{_IN_WORDS[subject.figure]}, {pair} ({'nats' if scale == 1.0 else 'points'})",
                series=[series],
                references=[Reference("no difference", 0.0)],
                points=True,
                ticks=[name for name, _ in shown],
            )
        )
    return Picture(panels, columns=min(2, len(panels)))


def _scale(name: str) -> float:
    """What a figure is multiplied by for people: to percent, but the log loss is in nats."""
    return 1.0 if name == "log_loss" else 100.0


def _value_in_words(value: float, name: str) -> str:
    return f"{value:.3f}" if name == "log_loss" else percent_of(value)


def _spread_in_words(found: Spread | None, name: str) -> str:
    if found is None:
        return "-"
    deviation = "" if found.deviation is None else f" ({_value_in_words(found.deviation, name)})"
    return _value_in_words(found.mean, name) + deviation


def difference_in_words(found: Difference | None, name: str = "error_rate") -> str:
    """A mean in points (of the log loss in nats) with its interval; "-" for none."""
    if found is None:
        return "-"
    scale, digits = _scale(name), 3 if name == "log_loss" else 2
    if found.low is None or found.high is None:
        return f"{scale * found.mean:+.{digits}f}"
    interval = f"[{scale * found.low:+.{digits}f}, {scale * found.high:+.{digits}f}]"
    return f"{scale * found.mean:+.{digits}f} {interval}"


# The same as real processes -----------------------------------------------------------------------


def _as_processes(result: Result, place: int, runner: Runner) -> bool:
    """Whether real processes give the digest of the loop in the evaluation order of this place."""
    job = Job(
        result.subject, result.config(result.seeds[place]), f"{result.name} on {result.subject.name} as processes"
    )
    key = f"{job.key} processes"
    record = runner.store.get(key)
    if record is None:
        with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
            out = Path(folder) / "run"
            summary, exit_code = run_cluster(job.prepare(), driver="processes", out=out, progress=Silent())
        if exit_code:
            raise StoppedError("interrupted while runs were repeated as processes; the rest is kept", exit_code)
        record = {"key": key, "label": job.label, "digest": summary["digest"], "seconds": summary["seconds"]}
        runner.store.add(record)
        runner.progress.say(f"{job.label}: {summary['seconds']:.1f} s")
    return bool(record["digest"] == result.outcomes[place].digest)
