"""AdaDROM, with nothing to tune, beside tuned baselines: eight data sets, flipped labels, star, full graph, ring."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drom_net.algorithms import BUILTIN
from drom_net.comparison.compare import evaluate
from drom_net.comparison.comparison_data import ComparisonData, comparison_data, named_config
from drom_net.comparison.findings import difference_in_words
from drom_net.comparison.jobs import PAPER_TAU, written_parameters
from drom_net.comparison.pages import markdown_table, percent_of, percents
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import line_of
from drom_net.comparison.stats import paired_difference, spread_of
from drom_net.comparison.tuning import Chosen, Effort, Result, Trial, tune
from drom_net.config.model import AlgorithmChoice
from drom_net.graph.settings import TopologySettings
from drom_net.results.report import Cell, Panel, Picture, Reference, Report, Series, Table
from reproduction.figures import QUICK_EFFORT, QUICK_ROUNDS, Options

DATA: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "spam-pu": ("spam-pu", {}),
    "spam-ecml2006": ("spam-ecml2006", {}),
    "spam-enron": ("spam-enron", {}),
    "amazon": ("amazon", {}),
    "mhci-dipeptides": ("mhci", {}),
    "mhci-one-hot": ("mhci", {"features": "one-hot"}),
    "wisdm": ("wisdm", {}),
    "jester": ("jester", {}),
}
"""Name -> (data set, what of its settings is not the default), as in configs/NAME.yaml."""
SHARED = ("spam-ecml2006", "spam-enron", "amazon", "mhci-dipeptides", "mhci-one-hot", "wisdm")
"""Where the tasks have something in common; elsewhere sharing can at best do no harm."""
NOISY = 0.15
FLIPS = (0.0, NOISY)
"""The shares of flipped labels; baselines are tuned at each."""
SHARING_EFFORT = Effort(settings=16)
QUICK_DATA = ("spam-pu", "amazon")


@dataclass(frozen=True, slots=True)
class Entry:
    """One learner of the tables."""

    label: str
    learner: str
    """By its name in a comparison."""
    graph: str | None = None
    """Of peers; None is a star."""
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Parameters by field name."""
    tuned: bool = False
    """Else it runs with its defaults and what is fixed."""
    as_of: str | None = None
    """The label of the entry that has its scores bit for bit: those are shown, and it is not run."""

    def on(self, dataset: ComparisonData) -> ComparisonData:
        """The dataset with this learner and graph in its configuration."""
        name = line_of(self.learner).algorithm
        algorithm = AlgorithmChoice(name, BUILTIN[name].parameters(**self.fixed))
        topology = TopologySettings(graph=self.graph) if self.graph else None
        return dataclasses.replace(
            dataset, config=dataclasses.replace(dataset.config, algorithm=algorithm, topology=topology)
        )


OURS, EVERY, GROWING, ROBUST = "adadrom", "adadrom, tau 1", "adadrom, tau 0", "adadrom, robust"
FULL, RING = f"adadrom, full, tau {PAPER_TAU}", f"adadrom, ring, tau {PAPER_TAU}"
LOCALS = ("local, eta0 10", "local, eta0 20")
"""The two steps of Local that nobody tuned. Goals are set against the better one, by data set and flipped share."""
ENTRIES = (
    Entry(OURS, "adadrom"),
    Entry(EVERY, "adadrom", fixed={"tau": 1}),
    Entry(GROWING, "adadrom", fixed={"tau": 0}),
    Entry(ROBUST, "adadrom", fixed={"robust": True}),
    # On a full graph peers compute what a star computes (tests/algorithms/test_adadrom.py).
    Entry(FULL, "adadrom", "full", {"tau": PAPER_TAU}, as_of=OURS),
    Entry(RING, "adadrom", "ring", {"tau": PAPER_TAU}),
)
"""Ours, without tuning."""
BASELINES = (
    *(Entry(label, "local", fixed={"eta0": eta0}) for label, eta0 in zip(LOCALS, (10.0, 20.0), strict=True)),
    *(
        Entry(name, name, tuned=True)
        for name in (
            *("local", "local-constant", "arow", "pooled", "fed-avg", "drom", "osmtl-f", "osmtl-e", "osmtl-t"),
            *("mt-omd", "mt-co2ol", "prox-gd", "d-ofw", "d-admm"),
        )
    ),
    *(
        Entry(f"drom-d, {graph}, tau {PAPER_TAU}", "drom-d", graph, {"tau": PAPER_TAU}, tuned=True)
        for graph in ("full", "ring")
    ),
)
KEPT_FORMS = (OURS, GROWING, ROBUST, RING)
"""What they keep is told of the gain over Local that an exchange in every round has."""


Errors = Mapping[tuple[str, float], Sequence[float | None]]
"""Error rates by order, of each (label, flipped share)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All learners on one data set."""

    dataset: ComparisonData
    entries: tuple[Entry, ...]
    results: Mapping[tuple[str, float], Result]
    """By (label of the entry, flipped share)."""

    @property
    def errors(self) -> Errors:
        """On clean labels."""
        return {key: result.figure("error_rate") for key, result in self.results.items()}

    @property
    def rounds(self) -> int:
        """T, until the longest stream ends."""
        outcomes = [outcome for result in self.results.values() for outcome in result.outcomes]
        return max(int(outcome.curve["round"][-1] or 0) for outcome in outcomes if outcome.curve)

    @property
    def baselines(self) -> list[str]:
        """The labels of all that are not ours."""
        return [entry.label for entry in self.entries if entry in BASELINES]

    @property
    def keeping(self) -> list[str]:
        """Those of the baselines that keep examples at their site."""
        return [label for label in self.baselines if not self.results[label, 0.0].shares_examples]


def sharing_dataset(name: str) -> ComparisonData:
    """One of `DATA`, read."""
    dataset, changes = DATA[name]
    config = named_config(dataset)
    data = dataclasses.replace(config.data, **changes)
    return comparison_data(dataclasses.replace(config, name=name, data=data))


def measure(dataset: ComparisonData, entries: Sequence[Entry], effort: Effort, runner: Runner) -> Measured:
    """Tune what is tuned, and run every entry at every flipped share."""
    tuned = [(entry, flip) for entry in entries if entry.tuned for flip in FLIPS]
    found = tune([(entry.on(dataset.with_flip(flip)), entry.learner) for entry, flip in tuned], effort, runner)
    chosen = {(entry.label, flip): one for (entry, flip), one in zip(tuned, found, strict=True)}
    wanted = [(entry, flip) for entry in entries if entry.as_of is None for flip in FLIPS]
    cells = []
    for entry, flip in wanted:
        untuned = Chosen(entry.on(dataset.with_flip(flip)), entry.learner, (), Trial(0, {}, None))
        cells.append(chosen.get((entry.label, flip), untuned))
    results = evaluate(cells, effort, runner)
    by_cell = {(entry.label, flip): result for (entry, flip), result in zip(wanted, results, strict=True)}
    shown = {
        (entry.label, flip): by_cell[entry.as_of, flip]
        for entry in entries
        if entry.as_of is not None
        for flip in FLIPS
    }
    return Measured(dataset, tuple(entries), by_cell | shown)


# The goals ----------------------------------------------------------------------------------------

LOCAL, HINDSIGHT = "Local", "the best baseline"
AGAINST = (LOCAL, "the best that moves no examples", HINDSIGHT)


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure on one data set, and what was wanted of it."""

    data: str
    what: str
    against: str
    """The baseline that it is taken against, or what it was counted in; may be empty."""
    value: float | None
    low: float | None = None
    high: float | None = None
    wanted: tuple[str, float] | None = None
    """("at most" or "at least", the limit); None where nothing was set as a goal."""

    @property
    def reached(self) -> bool | None:
        if self.wanted is None or self.value is None:
            return None
        word, limit = self.wanted
        return self.value <= limit if word == "at most" else self.value >= limit


def best_of(errors: Errors, labels: Collection[str], flip: float) -> str | None:
    """The label with the least mean error; None where none was run, or every one diverged in some order."""
    means = {label: spread.mean for label in labels if (spread := spread_of(errors.get((label, flip), ()))) is not None}
    return min(means, key=lambda label: means[label]) if means else None


def goals_of(
    data: str, errors: Errors, *, baselines: Collection[str], keeping: Collection[str], rounds: int
) -> list[Goal]:
    """What is measured against the goals on one data set.

    Args:
        errors: Of ours, of every baseline and of `LOCALS`; at 0 and at `NOISY`.
        baselines: The labels of all baselines.
        keeping: Of those that keep examples at their site.
        rounds: T.
    """
    against = dict(zip(AGAINST, (LOCALS, keeping, baselines), strict=True))
    wanted = {(LOCAL, 0.0): ("at most", 0.0)} | {(HINDSIGHT, flip): ("at most", 0.2) for flip in FLIPS}
    result = [
        _minus(data, _difference_name(kind, flip), errors, labels, flip, wanted.get((kind, flip)))
        for flip in FLIPS
        for kind, labels in against.items()
    ]
    alone = {flip: best_of(errors, LOCALS, flip) for flip in FLIPS}
    if data in SHARED:
        for label in KEPT_FORMS:
            if (label, 0.0) in errors:
                least = {GROWING: 85.0, RING: 85.0}.get(label)
                result.append(
                    Goal(
                        data,
                        f"{label}: share of tau 1's gain over Local (%)",
                        alone[0.0] or "",
                        _kept(errors, label, alone[0.0]),
                        wanted=None if least is None else ("at least", least),
                    )
                )
        result.append(
            Goal(
                data,
                f"rise of the error at {100 * NOISY:g} % flipped, of Local's rise (%)",
                alone[NOISY] or "",
                _rise(errors, alone),
            )
        )
    syncs = BUILTIN["adadrom"].make(tau=0).sync.count(rounds)
    what = f"sync rounds of {GROWING} over ln T"
    result.append(Goal(data, what, f"{syncs} in {rounds} rounds", syncs / math.log(rounds), wanted=("at most", 5.0)))
    return result


def _difference_name(kind: str, flip: float) -> str:
    labels = f"at {100 * flip:g} % flipped" if flip else "on clean labels"
    return f"minus {kind}, {labels} (points)"


def _minus(
    data: str, what: str, errors: Errors, labels: Collection[str], flip: float, wanted: tuple[str, float] | None
) -> Goal:
    """Ours less the best of these, in points."""
    best = best_of(errors, labels, flip)
    found = paired_difference(errors[OURS, flip], errors[best, flip]) if best is not None else None
    if found is None:
        return Goal(data, what, best or "", None, wanted=wanted)
    value, low, high = (None if one is None else 100.0 * one for one in (found.mean, found.low, found.high))
    return Goal(data, what, best or "", value, low, high, wanted)


def _kept(errors: Errors, label: str, alone: str | None) -> float | None:
    """In percent; None without a gain."""
    if alone is None:
        return None
    local, every, other = (spread_of(errors[one, 0.0]) for one in (alone, EVERY, label))
    if local is None or every is None or other is None or local.mean <= every.mean:
        return None
    return 100.0 * (local.mean - other.mean) / (local.mean - every.mean)


def _rise(errors: Errors, alone: Mapping[float, str | None]) -> float | None:
    """In percent; None where Local's does not rise."""
    rises = []
    for labels in (dict.fromkeys(FLIPS, OURS), alone):
        clean, noisy = (spread_of(errors[label, flip]) if label else None for flip, label in labels.items())
        if clean is None or noisy is None:
            return None
        rises.append(noisy.mean - clean.mean)
    ours, local = rises
    return 100.0 * ours / local if local > 0.0 else None


# The report ---------------------------------------------------------------------------------------


def sharing(options: Options) -> Report:
    """Everything on every data set."""
    effort = QUICK_EFFORT if options.quick else SHARING_EFFORT
    measured = {}
    for name in QUICK_DATA if options.quick else DATA:
        dataset = sharing_dataset(name).with_rounds(QUICK_ROUNDS if options.quick else None)
        measured[name] = measure(dataset, (*ENTRIES, *BASELINES), effort, options.runner)
    return report_of(measured, effort)


def report_of(measured: Mapping[str, Measured], effort: Effort) -> Report:
    """The page, its tables and pictures."""
    goals = [
        goal
        for name, found in measured.items()
        for goal in goals_of(name, found.errors, baselines=found.baselines, keeping=found.keeping, rounds=found.rounds)
    ]
    costs = _costs(measured, effort)
    hours = sum(float(seconds or 0.0) for row in costs for seconds in (row[3], row[5])) / 3600.0
    text = [
        "AdaDROM runs with its defaults, and so does Local where its step is named. All others: "
        f"{effort.in_words}. They are tuned on clean labels, and once more at {100 * NOISY:g} % flipped ones, "
        "by the labels that a learner sees. Errors count the clean labels, in percent: mean (standard "
        "deviation) over orders. Differences are paired by order, in percentage points, with their 95 % interval "
        "(Student's t): it tells of other orders of these examples, not of other data. Learners with a * move raw "
        "examples to other sites. Local has no graph: it is the same on each. "
        f"`{FULL}` was not run: it has the scores of `{OURS}` bit for bit.",
        "",
        f"All runs together took {hours:.2f} hours of a core.",
    ]
    for flip in FLIPS:
        title = f"{100 * flip:g} % of the labels flipped" if flip else "Clean labels"
        text += ["", f"## {title}", "", *_error_lines(measured, flip)]
        text += ["", f"`{OURS}` minus each:", "", *_difference_lines(measured, flip)]
    text += ["", "## Goals", "", *_goal_lines(goals)]
    text += ["", "## What it took", "", *_cost_lines(costs)]
    seconds = ("data", "learner", "tuning_runs", "tuning_seconds", "evaluation_runs", "evaluation_seconds")
    return Report(
        "sharing",
        "Sharing with nothing to tune, beside tuned baselines",
        "\n".join(text),
        {
            "errors": _errors_table(measured),
            "goals": _goals_table(goals),
            "tried": _tried_table(measured),
            "seconds": Table(seconds, costs, on_page=False),
        },
        {"differences": _differences_picture(goals)},
    )


def _error_lines(measured: Mapping[str, Measured], flip: float) -> list[str]:
    """Learners by data sets; the least of a column is bold."""

    def cell(found: Measured, label: str) -> str:
        errors = found.errors
        spread = spread_of(errors[label, flip])
        if spread is None:
            return f"diverged in {found.results[label, flip].num_diverged} orders"
        best = best_of(errors, [entry.label for entry in found.entries], flip)
        mean = f"**{percent_of(spread.mean)}**" if label == best else percent_of(spread.mean)
        return mean if spread.deviation is None else f"{mean} ({percent_of(spread.deviation)})"

    return _by_learner(measured, cell)


def _difference_lines(measured: Mapping[str, Measured], flip: float) -> list[str]:
    def cell(found: Measured, label: str) -> str:
        if found.results[label, flip] is found.results[OURS, flip]:
            return "0"
        return difference_in_words(paired_difference(found.errors[OURS, flip], found.errors[label, flip]))

    return _by_learner(measured, cell)


def _by_learner(measured: Mapping[str, Measured], cell: Callable[[Measured, str], str]) -> list[str]:
    """A table of learners by data sets."""
    some = next(iter(measured.values()))
    rows = []
    for entry in some.entries:
        head = f"{entry.label} *" if some.results[entry.label, 0.0].shares_examples else entry.label
        rows.append([head, *(cell(found, entry.label) for found in measured.values())])
    return markdown_table(["learner", *measured], rows)


def _goal_lines(goals: Sequence[Goal]) -> list[str]:
    """What was measured by data sets; bold where it is not what was wanted."""
    names = list(dict.fromkeys(goal.data for goal in goals))
    rows = []
    for what in dict.fromkeys(goal.what for goal in goals):
        of = {goal.data: goal for goal in goals if goal.what == what}
        wanted = dict.fromkeys(f"{goal.wanted[0]} {goal.wanted[1]:g}" for goal in of.values() if goal.wanted)
        cells = []
        for name in names:
            goal = of.get(name)
            value = "" if goal is None else "-" if goal.value is None else f"{goal.value:.{_digits(goal.value)}f}"
            cells.append(f"{value} **no**" if goal is not None and goal.reached is False else value)
        rows.append([what, ", or ".join(wanted), *cells])
    return markdown_table(["what", "goal", *names], rows, left=2)


def _digits(value: float) -> int:
    """How many stand behind the point."""
    return 2 if abs(value) < 10.0 else 1


def _cost_lines(costs: Sequence[Sequence[Cell]]) -> list[str]:
    """By learner, over all data sets."""
    total: dict[str, list[float]] = {}
    for _, label, *numbers in costs:
        sums = total.setdefault(str(label), [0.0] * len(numbers))
        total[str(label)] = [a + float(b or 0.0) for a, b in zip(sums, numbers, strict=True)]
    rows = [[label, *(f"{one:.0f}" for one in sums)] for label, sums in total.items()]
    return [
        "Seconds of a processor in the plain loop, without reading data. Each learner has its own count, also where "
        "one run served two of them.",
        "",
        *markdown_table(["learner", "runs to tune", "seconds", "runs to evaluate", "seconds"], rows),
    ]


def _parameters(entry: Entry, result: Result, trial: Trial) -> str:
    """By the keys of a YAML file, as JSON."""
    config = dataclasses.replace(result, chosen=trial).config(0)
    fields = [*line_of(entry.learner).search.fixed, *entry.fixed, *trial.drawn]
    return json.dumps(written_parameters(config, fields))


def _errors_table(measured: Mapping[str, Measured]) -> Table:
    columns = ["data", "learner", "graph", "flipped_percent", "moves_raw_examples", "orders", "diverged"]
    columns += ["error_percent", "error_sd", "error_macro_percent", "error_macro_sd", "error_seen_percent"]
    columns += ["error_seen_sd", "f1_percent", "f1_sd", "ours_minus_it_points", "low_95", "high_95", "parameters"]
    rows: list[list[Cell]] = []
    for name, found in measured.items():
        errors = found.errors
        for entry in found.entries:
            for flip in FLIPS:
                result = found.results[entry.label, flip]
                row: list[Cell] = [name, entry.label, entry.graph or "star", 100.0 * flip]
                row += ["yes" if result.shares_examples else "no", len(result.outcomes), result.num_diverged]
                for figure in ("error_rate", "error_rate_macro", "error_rate_seen", "f1"):
                    spread = spread_of(result.figure(figure))
                    row += percents((spread.mean, spread.deviation) if spread else None, 2)
                difference = None
                if (OURS, flip) in errors and result is not found.results[OURS, flip]:
                    difference = paired_difference(errors[OURS, flip], errors[entry.label, flip])
                row += percents((difference.mean, difference.low, difference.high) if difference else None, 3)
                rows.append([*row, _parameters(entry, result, result.chosen)])
    return Table(columns, rows, on_page=False)


def _goals_table(goals: Sequence[Goal]) -> Table:
    rows: list[list[Cell]] = []
    for goal in goals:
        wanted: list[Cell] = list(goal.wanted) if goal.wanted else [None, None]
        reached = None if goal.reached is None else "yes" if goal.reached else "no"
        rows.append([goal.data, goal.what, goal.against, goal.value, goal.low, goal.high, *wanted, reached])
    columns = ["data", "what", "against", "value", "low_95", "high_95", "wanted", "limit", "reached"]
    return Table(columns, rows, on_page=False)


def _tried_table(measured: Mapping[str, Measured]) -> Table:
    rows: list[list[Cell]] = []
    for name, found in measured.items():
        for entry in found.entries:
            for flip in FLIPS:
                result = found.results[entry.label, flip]
                for trial in result.trials:
                    row: list[Cell] = [name, entry.label, 100.0 * flip, trial.number, *percents([trial.value], 1)]
                    rows.append([*row, "yes" if trial is result.chosen else "", _parameters(entry, result, trial)])
    columns = ["data", "learner", "flipped_percent", "setting", "error_seen_tuning_percent", "chosen", "parameters"]
    return Table(columns, rows, on_page=False)


def _costs(measured: Mapping[str, Measured], effort: Effort) -> list[list[Cell]]:
    """(data, learner, runs to tune, their seconds, runs to evaluate, their seconds)."""
    rows: list[list[Cell]] = []
    for name, found in measured.items():
        for entry in found.entries:
            if entry.as_of is not None:
                continue
            results = {flip: result for (label, flip), result in found.results.items() if label == entry.label}
            trials = [trial for flip in FLIPS for trial in results[flip].trials]
            outcomes = [outcome for result in results.values() for outcome in result.outcomes]
            row: list[Cell] = [name, entry.label, effort.tuning_orders * len(trials)]
            row += [round(sum(trial.seconds for trial in trials), 1), len(outcomes)]
            rows.append([*row, round(sum(outcome.seconds for outcome in outcomes), 1)])
    return rows


def _differences_picture(goals: Sequence[Goal]) -> Picture:
    """Ours minus others, a panel for clean and one for flipped labels."""
    names = list(dict.fromkeys(goal.data for goal in goals))
    panels = []
    for flip in FLIPS:
        series = []
        for place, kind in enumerate(AGAINST):
            of = [goal for goal in goals if goal.what == _difference_name(kind, flip)]
            known = [(goal, goal.value) for goal in of if goal.value is not None]
            series.append(
                Series(
                    f"{OURS} minus {kind}",
                    [names.index(goal.data) + 0.2 * (place - 1) for goal, _ in known],
                    [value for _, value in known],
                    [value if goal.low is None else goal.low for goal, value in known],
                    [value if goal.high is None else goal.high for goal, value in known],
                )
            )
        title = f"{100 * flip:g} % of the labels flipped" if flip else "clean labels"
        panels.append(
            Panel(title, "", "difference (points)", series, [Reference("equal", 0.0)], points=True, ticks=names)
        )
    return Picture(panels, columns=2)
