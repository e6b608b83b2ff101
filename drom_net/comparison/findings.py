"""What a comparison found: tables, pictures and sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence

from drom_net.comparison.comparison_data import ComparisonData
from drom_net.comparison.pages import markdown_table, percent_of
from drom_net.comparison.stats import Difference, Spread, spread_of
from drom_net.comparison.tuning import (
    CONTROL,
    HIGHER_IS_BETTER,
    IN_WORDS,
    OURS,
    YARDSTICK,
    Effort,
    Result,
)
from drom_net.results.report import Cell, Panel, Picture, Reference, Series, Table
from drom_net.results.verdict import why_not

MARK = "moves raw examples"
FIGURES = ("error_rate", "majority", "error_rate_macro", "f1", "f1_macro", "auc", "auc_macro", "log_loss")
"""What is reported of each learner, on clean labels."""
_HEADLINE = ("error_rate", "majority", "auc", "log_loss", "f1")


def results_on(results: Sequence[Result], dataset: ComparisonData) -> list[Result]:
    return [result for result in results if result.dataset is dataset]


def title_of(results: Sequence[Result]) -> str:
    """What `headline` shows, of one dataset."""
    dataset, over = results[0].dataset, len(results[0].outcomes)
    of_what = "blocks of rows in the order of the file" if dataset.keeps_order else "orders"
    return f"{dataset.name}, in percent (log loss in nats): mean (standard deviation) over {over} {of_what}"


def headline(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for people: a row a learner, of one dataset."""
    dataset = results[0].dataset
    names = ["auc_macro" if name == "auc" and dataset.measure == "auc" else name for name in _HEADLINE]
    yardstick = next((result for result in results if result.name == YARDSTICK), None)
    of_what = "" if dataset.measure == "error" else f" ({IN_WORDS[dataset.figure]})"
    columns = ["learner", *(IN_WORDS[name] for name in names)]
    columns += [*([f"minus {YARDSTICK}{of_what}"] if yardstick else []), "remarks"]
    rows = []
    for result in results:
        against = "-"
        if yardstick is not None and result is not yardstick:
            against = difference_in_words(result.minus(yardstick, dataset.figure), dataset.figure)
        remarks = [MARK] if result.shares_examples else []
        if result.num_diverged:
            where = "" if dataset.keeps_order else f" in {result.num_diverged} of {len(result.outcomes)} orders"
            remarks.append(f"diverged{where}")
        figures = [_spread_in_words(result.spread(name), name) for name in names]
        rows.append([result.name, *figures, *([against] if yardstick else []), ", ".join(remarks)])
    return columns, rows


def reading(results: Sequence[Result]) -> str:
    """How the column of differences is read; empty where there is none."""
    name = results[0].dataset.figure
    if YARDSTICK not in [result.name for result in results] or len(results) < 2:
        return ""
    unit = "nats" if name == "log_loss" else "percentage points"
    better = "above" if name in HIGHER_IS_BETTER else "below"
    return (
        f"minus {YARDSTICK}: the mean difference of the {IN_WORDS[name]} in {unit}, [in brackets its 95 % interval]; "
        f"{better} 0 is better than {YARDSTICK}"
    )


def conclusion(results: Sequence[Result]) -> str:
    """What came out on one dataset, as a sentence.

    No learner is the best that is no better than the majority, or level: whose difference to another is within its
    interval.
    """
    dataset = results[0].dataset
    learners = [result for result in results if result.name != CONTROL]
    errors = {result.name: spread.mean for result in learners if (spread := result.spread("error_rate"))}
    majority = {result.name: spread.mean for result in learners if (spread := result.spread("majority"))}
    if not errors:
        return "no learner has a figure in every order"
    useful = [result for result in learners if errors.get(result.name, 1.0) < majority.get(result.name, 0.0)]
    if not useful:
        least = min(errors, key=errors.__getitem__)
        reason = why_not(
            dataset.num_examples,
            dataset.positives,
            dim=dataset.dim,
            flipped=dataset.config.data.flip > 0.0,
            look_at="AUC and log loss",
        )
        return (
            "no learner is better than always giving each site's commoner label: at least "
            f"{percent_of(errors[least])} % errors against {percent_of(majority[least])} %; {reason}"
        )
    highest = dataset.figure in HIGHER_IS_BETTER
    values = {result.name: spread.mean for result in useful if (spread := result.spread(dataset.figure))}
    best = (max if highest else min)(values, key=values.__getitem__, default=useful[0].name)
    shown = _value_in_words(values[best], dataset.figure) if values else "-"
    if dataset.measure == "error":
        shown += f" % against {percent_of(majority[best])} % of always giving each site's commoner label"
    first = next(result for result in useful if result.name == best)
    level = [result.name for result in useful if result is not first and _are_level(result, first)]
    what = f"{'highest' if highest else 'lowest'} {IN_WORDS[dataset.figure]}"
    tie = f"level, with no difference beyond its error: {', '.join([best, *level])}; " if level else ""
    return f"{tie}{what}: {best}, {shown}"


def _are_level(result: Result, other: Result) -> bool:
    """Whether one cannot tell which is better: 0 lies in the interval of their difference, or there is none."""
    found = result.minus(other, result.dataset.figure)
    if found is None or found.low is None or found.high is None:
        return found is not None and found.mean == 0.0
    return found.low <= 0.0 <= found.high


def about(results: Sequence[Result], effort: Effort) -> list[str]:
    dataset = results[0].dataset
    columns, rows = headline(results)
    flipped = f", {100 * dataset.config.data.flip:g} % of the labels flipped" if dataset.config.data.flip else ""
    limit = f", the first {dataset.config.rounds} rounds" if dataset.config.rounds else ""
    parameters = [[result.name, "`" + json.dumps(result.parameters()) + "`"] for result in results]
    graphs = [
        f"{result.name}: graph {topology.graph}."
        for result in results
        if (topology := result.config(0).topology) is not None
    ]
    unit = "nats" if dataset.measure == "log_loss" else "percentage points"
    how, over = (effort.in_words_in_order, "blocks") if dataset.keeps_order else (effort.in_words, "orders")
    return [
        f"## {dataset.name}",
        "",
        f"{len(dataset.tasks)} tasks, {dataset.num_examples} examples, d = {dataset.dim}{limit}{flipped}. "
        f"{how}. In percent, log loss in nats: mean (standard deviation) over {over}; majority is always giving each "
        f"site's commoner label so far; differences of the {IN_WORDS[dataset.figure]} in {unit}, with their interval.",
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


def find_differences(results: Sequence[Result]) -> list[DifferenceRow]:
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


def figures_table(results: Sequence[Result]) -> Table:
    names = [*FIGURES, *(f"{name}_seen" for name in FIGURES)]
    columns = ["data", "learner", "moves_raw_examples", "over", "orders", "diverged"]
    columns += [f"{name}_{part}" for name in names for part in ("mean", "sd")] + ["parameters"]
    rows: list[list[Cell]] = []
    for result in results:
        row: list[Cell] = [result.dataset.name, result.name, "yes" if result.shares_examples else "no"]
        over = "blocks" if result.dataset.keeps_order else "orders"
        row += [over, len(result.outcomes), result.num_diverged]
        for name in names:
            found = result.spread(name)
            row += [found.mean, found.deviation] if found else [None, None]
        rows.append([*row, json.dumps(result.parameters())])
    return Table(columns, rows, on_page=False)


def differences_table(differences: Sequence[DifferenceRow]) -> Table:
    rows: list[list[Cell]] = []
    for ours, theirs, name, found in differences:
        values: list[Cell] = [found.mean, found.low, found.high] if found else [None, None, None]
        rows.append([ours.dataset.name, ours.name, theirs.name, name, len(ours.outcomes), *values])
    columns = ["data", "learner", "minus", "figure", "orders", "difference", "low_95", "high_95"]
    return Table(columns, rows, on_page=False)


def search_table(results: Sequence[Result]) -> Table:
    rows: list[list[Cell]] = []
    for result in results:
        for trial in result.trials:
            parameters = json.dumps(result.parameters(trial))
            chosen = "yes" if trial is result.chosen else ""
            measure = f"{result.dataset.figure}_seen"
            rows.append([result.dataset.name, result.name, trial.number, measure, trial.value, chosen, parameters])
    columns = ["data", "learner", "setting", "measure", "mean_over_tuning_orders", "chosen", "parameters"]
    return Table(columns, rows, on_page=False)


def seconds_table(results: Sequence[Result]) -> Table:
    """Measured, so it is a file of its own: the others are the same whenever they are made."""
    rows: list[list[Cell]] = []
    for result in results:
        found = spread_of([outcome.seconds for outcome in result.outcomes])
        rows.append([result.dataset.name, result.name, *([found.mean, found.deviation] if found else [None, None])])
    return Table(["data", "learner", "seconds_per_run_mean", "seconds_per_run_sd"], rows, on_page=False)


def picture(datasets: Sequence[ComparisonData], differences: Sequence[DifferenceRow]) -> Picture:
    """A panel a dataset: each learner minus the yardstick, or where that was not run ours minus each other."""
    panels = []
    for dataset in datasets:
        rows = [row for row in differences if row[0].dataset is dataset and row[2] == dataset.figure]
        against = [row for row in rows if row[1].name == YARDSTICK]
        shown = [
            (ours.name if against else theirs.name, found)
            for ours, theirs, _, found in against or rows
            if found is not None
        ]
        scale = _scale(dataset.figure)
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
                title=dataset.name,
                x_label="learner",
                y_label=f"{IN_WORDS[dataset.figure]}, {pair} ({'nats' if scale == 1.0 else 'points'})",
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
