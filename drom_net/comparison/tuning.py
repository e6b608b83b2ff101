"""Settings drawn, tried and chosen for each learner, with the same effort for all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from drom_net.comparison.comparison_data import ComparisonData
from drom_net.comparison.figures import NUM_BLOCKS, Outcome
from drom_net.comparison.jobs import HEAD, Job, configure, written_parameters
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import draw, line_names, line_of, lines_of, num_settings
from drom_net.comparison.stats import Difference, Spread, paired_difference, spread_of
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import UsageError

HIGHER_IS_BETTER = ("f1", "f1_macro", "auc", "auc_macro")
IN_WORDS = {
    "error_rate": "error rate",
    "majority": "majority",
    "error_rate_macro": "error, macro",
    "f1": "F1",
    "f1_macro": "F1, macro",
    "auc": "AUC",
    "auc_macro": "AUC, macro",
    "log_loss": "log loss",
}

YARDSTICK = "local"
OURS = "drom"
CONTROL = "drom, uncoupled"
"""The setting chosen for ours with lambda = rho = 0: what the exchange itself is worth."""


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
    """A learner on a dataset with the setting that is evaluated."""

    dataset: ComparisonData
    name: str
    """Of the learner."""
    trials: tuple[Trial, ...]
    """What was tried; nothing where there is nothing to choose."""
    chosen: Trial


def check_learners(names: Sequence[str], datasets: Sequence[ComparisonData]) -> tuple[str, ...]:
    """The learners that are meant: without names all, peers only where a dataset is made for them.

    Raises:
        UsageError: There is no such learner, one is named twice, or two datasets have one name.
    """
    for name in names:
        line_of(name)
    for given, what in ((list(names), "learner"), ([dataset.name for dataset in datasets], "data set")):
        twice = [name for name in given if given.count(name) > 1]
        if twice:
            raise UsageError(f"expected every {what} once, got {twice[0]} {given.count(twice[0])} times")
    if names:
        return tuple(names)
    choices = [dataset.config.algorithm for dataset in datasets]
    with_peers = any(dataset.config.topology is not None for dataset in datasets)
    own = [name for choice in choices for name in lines_of(choice.name, choice.learner)]
    known = dict.fromkeys((*line_names(), *own))
    return tuple(name for name in known if with_peers or "star" in line_of(name).learner.on)


Values = dict[str, object]
"""Parameters by field name."""


def settings_of(name: str, effort: Effort) -> list[Values]:
    """The settings of a learner that are tried."""
    return [draw(name, number, effort.seed) for number in range(num_settings(name, effort.settings))]


def job_of(dataset: ComparisonData, name: str, values: Values, seed: int) -> Job:
    """A learner's run with such parameters in this order."""
    return Job(dataset, configure(dataset, name, values, seed=seed), f"{name} on {dataset.name}")


def tune(
    cells: Sequence[tuple[ComparisonData, str]],
    effort: Effort,
    runner: Runner,
    *,
    settings: Callable[[str, Effort], list[Values]] = settings_of,
    job: Callable[[ComparisonData, str, Values, int], Job] = job_of,
) -> list[Chosen]:
    """Find the setting of each learner on each dataset that is best in the tuning orders; arguments as above."""
    drawn = {name: settings(name, effort) for _, name in cells}
    jobs = [
        part_of(job(dataset, name, values, seed), "head")
        for dataset, name in cells
        for values in drawn[name]
        for seed in seeds_of(dataset, effort, effort.tuning_seeds)
    ]
    outcomes = iter(runner.run(jobs))
    result = []
    for dataset, name in cells:
        measure = f"{dataset.figure}_seen"
        trials = []
        for number, values in enumerate(drawn[name]):
            ran = [next(outcomes) for _ in seeds_of(dataset, effort, effort.tuning_seeds)]
            found = spread_of([outcome.figures.get(measure) for outcome in ran])
            seconds = sum(outcome.seconds for outcome in ran)
            trials.append(Trial(number, values, found.mean if found else None, seconds))
        result.append(Chosen(dataset, name, tuple(trials), _best(trials, dataset, name)))
    return result


def controls(results: Sequence[Result], runner: Runner) -> list[Result]:
    """Ours on each dataset once more, with its chosen setting but without coupling."""
    ours = [result for result in results if result.name == OURS]
    chosen = [Trial(result.chosen.number, {**result.chosen.drawn, "lam": 0.0, "rho": 0.0}, None) for result in ours]
    jobs = [
        job_of(result.dataset, OURS, trial.drawn, seed)
        for result, trial in zip(ours, chosen, strict=True)
        for seed in result.seeds
    ]
    outcomes = evaluation_runs(jobs, runner)
    return [
        Result(result.dataset, CONTROL, (), trial, result.seeds, take(outcomes, result.dataset, result.seeds))
        for result, trial in zip(ours, chosen, strict=True)
    ]


def seeds_of(dataset: ComparisonData, effort: Effort, seeds: range) -> range:
    """The seeds of a dataset's runs: where rows keep their order there is one order."""
    return range(effort.seed, effort.seed + 1) if dataset.keeps_order else seeds


def part_of(job: Job, part: str) -> Job:
    return dataclasses.replace(job, part=part) if job.dataset.keeps_order else job


def take(outcomes: Iterator[Outcome], dataset: ComparisonData, seeds: range) -> tuple[Outcome, ...]:
    """The outcomes of the next runs; where rows keep their order those of the blocks of the next one."""
    taken = tuple(next(outcomes) for _ in seeds)
    if not dataset.keeps_order:
        return taken
    (whole,) = taken
    if whole.status == "diverged":
        return taken * NUM_BLOCKS
    return tuple(dataclasses.replace(whole, figures=figures) for figures in whole.blocks)


def _best(trials: Sequence[Trial], dataset: ComparisonData, name: str) -> Trial:
    """Of equal ones the first."""
    known = [(trial.value, trial) for trial in trials if trial.value is not None]
    if not known:
        raise UsageError(
            f"{name} on {dataset.name}: no setting gave a figure ({IN_WORDS[dataset.figure]}) in every tuning order; "
            "either all left the finite numbers, or all tasks have one class only"
        )
    sign = -1.0 if dataset.figure in HIGHER_IS_BETTER else 1.0
    return min(known, key=lambda pair: sign * pair[0])[1]


@dataclass(frozen=True, slots=True)
class Result:
    """One learner on one dataset."""

    dataset: ComparisonData
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
        return self.config(0).algorithm.learner.shares_examples

    @property
    def learner(self) -> str:
        return OURS if self.name == CONTROL else self.name

    @property
    def num_diverged(self) -> int:
        return sum(outcome.status == "diverged" for outcome in self.outcomes)

    def config(self, seed: int) -> ClusterConfig:
        """The run with the chosen setting in this order."""
        return configure(self.dataset, self.learner, self.chosen.drawn, seed=seed)

    def figure(self, name: str) -> list[float | None]:
        """A figure by order, or by block; None where it diverged, or there is none."""
        return [outcome.figures.get(name) for outcome in self.outcomes]

    def spread(self, name: str) -> Spread | None:
        """Mean and deviation of a figure; a block may have none (one class only), but no order may."""
        values = self.figure(name)
        return spread_of([value for value in values if value is not None] if self.dataset.keeps_order else values)

    def minus(self, other: Result, name: str) -> Difference | None:
        """The paired difference of a figure, over orders or blocks."""
        pairs = list(zip(self.figure(name), other.figure(name), strict=True))
        if self.dataset.keeps_order:
            pairs = [pair for pair in pairs if None not in pair]
        return paired_difference([ours for ours, _ in pairs], [theirs for _, theirs in pairs])

    def parameters(self, trial: Trial | None = None) -> dict[str, object]:
        """What was fixed, then what was searched, by the keys of a YAML file; by default of the chosen setting."""
        trial = trial or self.chosen
        config = configure(self.dataset, self.learner, trial.drawn, seed=0)
        fields = [*line_of(self.learner).search.fixed, *trial.drawn]
        if config.topology is not None:
            fields.append("tau")
        return written_parameters(config, fields)


def evaluation_runs(jobs: Sequence[Job], runner: Runner) -> Iterator[Outcome]:
    return iter(runner.run([part_of(job, "rest") for job in jobs]))
