"""Figures 3 and 4 of the paper: learners against rounds, and against label noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from drom_net.comparison.compare import tune_and_evaluate
from drom_net.comparison.comparison_data import ComparisonData, comparison_data, named_config
from drom_net.comparison.findings import headline
from drom_net.comparison.pages import markdown_table
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import line_names
from drom_net.comparison.stats import spread_of
from drom_net.comparison.tuning import Effort, Result
from drom_net.results.report import Cell, Panel, Picture, Reference, Report, Series, Table
from reproduction.sensitivity import PAPER


@dataclass(frozen=True, slots=True)
class Options:
    """What every reproduction is given."""

    runner: Runner
    """Its `progress`, `store` and `num_processes` are for those too that run no jobs."""
    quick: bool = False
    """All small, so that it takes a minute or less: to see that it works, not what comes out."""


@dataclass(frozen=True, slots=True)
class PaperData:
    """A data set of the paper's figures, and what its Table 3 has for DROM (tau 1, zeta 0), in percent."""

    name: str
    title: str
    error: float
    f1: float


_TITLES = {"spam-pu": "Spam Email", "mhci": "MHC-I", "jester": "Jester"}
DATA = tuple(PaperData(name, title, *PAPER[name][1, 0.0]) for name, title in _TITLES.items())
"""Jester stands in for EachMovie."""
EFFORT = Effort(settings=40)
NOISE_EFFORT = Effort(settings=12)
QUICK_EFFORT = Effort(settings=3, tuning_orders=1, orders=2)
QUICK_ROUNDS = 150
NOISE = (0.0, 0.05, 0.10, 0.15, 0.20, 0.25)
QUICK_NOISE = (0.0, 0.10, 0.25)
_SETTLED = 0.1
"""The part of the rounds whose errors may lie above a panel of Figure 3: the first few are all near one half."""
_EACHMOVIE = "EachMovie is no longer published; Jester (ratings of jokes) stands in its place"
_MARKED = "Learners with a * move raw examples to other sites."
_NO_NUMBERS = "The paper prints no numbers with this figure"


def figure_3(options: Options) -> Report:
    """Error and F1 against rounds."""
    effort = QUICK_EFFORT if options.quick else EFFORT
    datasets = paper_datasets(options)
    results = tune_and_evaluate(
        [(dataset, name) for dataset in datasets for name in line_names()], effort, options.runner
    )
    text = [
        "Error rate and F1 (micro, over all examples so far) against rounds. "
        f"{effort.in_words}. Bands are one standard deviation over orders.",
        "",
        f"{_NO_NUMBERS}; the dashed line is its Table 3, DROM with tau 1 and zeta 0, after the last round. "
        f"{_EACHMOVIE}, and the value in its panels is that of EachMovie. {_MARKED}",
        *_tables(datasets, results, [data.title for data in DATA]),
    ]
    rows: list[list[Cell]] = []
    panels: dict[str, list[Panel]] = {"error_rate": [], "f1": []}
    for data, dataset in zip(DATA, datasets, strict=True):
        ours = [result for result in results if result.dataset is dataset]
        for figure, paper in (("error_rate", data.error), ("f1", data.f1)):
            curves = [_curve(result, figure) for result in ours]
            panels[figure].append(_rounds_panel(data, figure, paper, curves))
            for result, curve in zip(ours, curves, strict=True):
                low, high = curve.low or [], curve.high or []
                rows += [[data.name, result.name, figure, int(x), y / 100.0, (b - a) / 200.0]
                         for x, y, a, b in zip(curve.x, curve.y, low, high, strict=True)]  # fmt: skip
    columns = ["data", "learner", "figure", "round", "mean", "sd"]
    return Report(
        name="figure-3",
        title="Figure 3: error and F1 against rounds",
        text="\n".join(text),
        tables={"curves": Table(columns, rows, on_page=False)},
        pictures={"figure-3": Picture([*panels["error_rate"], *panels["f1"]], columns=len(DATA))},
    )


def figure_4(options: Options) -> Report:
    """Accuracy against the share of flipped labels."""
    effort = QUICK_EFFORT if options.quick else NOISE_EFFORT
    levels = QUICK_NOISE if options.quick else NOISE
    datasets = paper_datasets(options)
    noisy = [[dataset.with_flip(flip) for flip in levels] for dataset in datasets]
    cells = [(dataset, name) for group in noisy for dataset in group for name in line_names()]
    results = iter(tune_and_evaluate(cells, effort, options.runner))
    rows: list[list[Cell]] = []
    panels = []
    at_most: list[list[Result]] = []
    for data, group in zip(DATA, noisy, strict=True):
        found = {dataset.config.data.flip: [next(results) for _ in line_names()] for dataset in group}
        at_most.append(found[levels[-1]])
        for flip, of_level in found.items():
            rows += [_noise_row(data.name, flip, result) for result in of_level]
        series = []
        for place in range(len(line_names())):
            points = [(100.0 * flip, spread_of(_accuracy(found[flip][place], "error_rate"))) for flip in levels]
            known = [(x, spread) for x, spread in points if spread is not None]
            means = [100.0 * spread.mean for _, spread in known]
            deviations = [100.0 * (spread.deviation or 0.0) for _, spread in known]
            series.append(banded(_label(found[levels[0]][place]), [x for x, _ in known], means, deviations))
        panels.append(Panel(data.title, "flipped labels (%)", "accuracy on clean labels (%)", series))
    text = [
        "Accuracy (micro) against the probability that a label is flipped before it is learned. At each level "
        f"{effort.in_words[0].lower()}{effort.in_words[1:]}. Settings are chosen by the labels as seen, because a site "
        "cannot see the clean ones; the picture counts the clean labels, the CSV has both. Bands are one standard "
        "deviation over orders.",
        "",
        f"{_NO_NUMBERS}, so no value of its own is drawn in. {_EACHMOVIE}. {_MARKED}",
        *_tables(
            [of_level[0].dataset for of_level in at_most],
            [result for of_level in at_most for result in of_level],
            [f"{data.title}, {100 * levels[-1]:g} % flipped" for data in DATA],
        ),
    ]
    columns = ["data", "flip", "learner", "orders"]
    columns += [f"accuracy_{labels}_{part}" for labels in ("clean", "seen") for part in ("mean", "sd")]
    columns.append("parameters")
    return Report(
        name="figure-4",
        title="Figure 4: accuracy against flipped labels",
        text="\n".join(text),
        tables={"noise": Table(columns, rows, on_page=False)},
        pictures={"figure-4": Picture(panels, columns=len(panels))},
    )


def paper_datasets(options: Options) -> list[ComparisonData]:
    """The data of the figures and tables; the first rounds of it where all is to be quick."""
    limit = QUICK_ROUNDS if options.quick else None
    return [comparison_data(named_config(data.name)).with_rounds(limit) for data in DATA]


def _tables(datasets: Sequence[ComparisonData], results: Sequence[Result], titles: Sequence[str]) -> list[str]:
    lines = []
    for dataset, title in zip(datasets, titles, strict=True):
        columns, rows = headline([result for result in results if result.dataset is dataset])
        lines += [
            "",
            f"## {title}",
            "",
            "At the end, in percent, log loss in nats: mean (standard deviation) over orders.",
            "",
        ]
        lines += markdown_table(columns, rows)
    return lines


def _curve(result: Result, figure: str) -> Series:
    """Mean and band over orders, in percent, at the rounds where every order has the figure."""
    curves = [outcome.curve for outcome in result.outcomes if outcome.status == "finished"]
    x, means, deviations = [], [], []
    for place, t in enumerate(curves[0]["round"] if curves else []):
        spread = spread_of([curve[figure][place] for curve in curves])
        if spread is not None and t is not None:
            x.append(t)
            means.append(100.0 * spread.mean)
            deviations.append(100.0 * (spread.deviation or 0.0))
    return banded(_label(result), x, means, deviations)


def _label(result: Result) -> str:
    return f"{result.name} *" if result.shares_examples else result.name


def banded(label: str, x: list[float], means: list[float], deviations: list[float]) -> Series:
    low = [mean - deviation for mean, deviation in zip(means, deviations, strict=True)]
    high = [mean + deviation for mean, deviation in zip(means, deviations, strict=True)]
    return Series(label, x, means, low, high)


def _rounds_panel(data: PaperData, figure: str, paper: float, curves: list[Series]) -> Panel:
    settled = [y for curve in curves for x, y in zip(curve.x, curve.y, strict=True) if x >= _SETTLED * curve.x[-1]]
    low, high = min([*settled, paper]), max([*settled, paper])
    margin = 0.06 * (high - low) or 1.0
    name = "error rate (%)" if figure == "error_rate" else "F1 (%)"
    limits = (max(0.0, low - margin), min(100.0, high + margin))
    reference = Reference("DROM in the paper (its own data)", paper)
    return Panel(data.title, "rounds", name, curves, references=[reference], y_limits=limits)


def _noise_row(data: str, flip: float, result: Result) -> list[Cell]:
    row: list[Cell] = [data, flip, result.name, len(result.outcomes)]
    for figure in ("error_rate", "error_rate_seen"):
        spread = spread_of(_accuracy(result, figure))
        row += [spread.mean, spread.deviation] if spread else [None, None]
    return [*row, json.dumps(result.parameters())]


def _accuracy(result: Result, figure: str) -> list[float | None]:
    return [None if value is None else 1.0 - value for value in result.figure(figure)]
