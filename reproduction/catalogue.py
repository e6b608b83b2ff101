"""The figures and tables of the paper that can be made again, and what is measured beside them, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from drom_net.comparison.compare import compare
from drom_net.comparison.comparison_data import comparison_data, named_config
from drom_net.comparison.pages import write_report
from drom_net.comparison.tuning import Effort, check_learners
from drom_net.core.errors import UsageError, did_you_mean
from drom_net.data.public import check_public
from drom_net.results.report import Report
from reproduction import cold_start, drift, figures, poisoning
from reproduction.complexity import empty_shares, table_1
from reproduction.figures import (
    EFFORT,
    QUICK_EFFORT,
    QUICK_ROUNDS,
    Options,
    figure_3,
    figure_4,
    paper_datasets,
)
from reproduction.made_up import made_up
from reproduction.regret import regret
from reproduction.run_time import REPEATS, table_4
from reproduction.scenes import data_of
from reproduction.search import low_rank_datasets, search
from reproduction.sensitivity import table_3
from reproduction.sharing import DATA as SHARING_DATA
from reproduction.sharing import sharing

QUICK_WARNING = (
    f"**Made with --quick**: few settings and orders, at most {QUICK_ROUNDS} rounds of each data set. It shows that "
    "the command works; no figure here can be compared with the paper's or with another."
)
COMPARED = ("spam-pu", "mhci", "jester", "spam-ecml2006", "wisdm")
SENSITIVITY_EFFORT = Effort(settings=24)
SEARCH_EFFORT, LOW_RANK_EFFORT = Effort(settings=40), Effort(settings=200)
"""Streams of low rank are small, and the settings that use it are rare."""


def _table_1(options: Options) -> Report:
    say = options.runner.progress.say
    return table_1(quick=options.quick, say=say, shares=empty_shares(paper_datasets(options)))


def _table_3(options: Options) -> Report:
    effort = QUICK_EFFORT if options.quick else SENSITIVITY_EFFORT
    return table_3(paper_datasets(options), effort, options.runner)


def _table_4(options: Options) -> Report:
    say, repeats = options.runner.progress.say, 1 if options.quick else REPEATS
    return table_4(paper_datasets(options), say=say, repeats=repeats, as_processes=not options.quick)


def _regret(options: Options) -> Report:
    return regret(quick=options.quick, say=options.runner.progress.say)


def _search(options: Options) -> Report:
    real, low_rank = paper_datasets(options), low_rank_datasets(quick=options.quick)
    efforts = (QUICK_EFFORT, QUICK_EFFORT) if options.quick else (SEARCH_EFFORT, LOW_RANK_EFFORT)
    cells = [(dataset, effort) for part, effort in zip((real, low_rank), efforts, strict=True) for dataset in part]
    return search(cells, options.runner)


def _comparison(options: Options) -> Report:
    datasets = [comparison_data(named_config(name)) for name in COMPARED]
    if options.quick:
        datasets = [dataset.with_rounds(QUICK_ROUNDS) for dataset in datasets]
    effort = QUICK_EFFORT if options.quick else EFFORT
    return compare(datasets, check_learners((), datasets), effort, options.runner).report


REPRODUCTIONS: dict[str, tuple[str, Callable[[Options], Report]]] = {
    "figure-3": ("error and F1 against rounds, for every learner", figure_3),
    "figure-4": ("accuracy against 0 to 25 % flipped labels", figure_4),
    "table-1": ("vectors, bytes and time of a round as tasks and features grow", _table_1),
    "table-3": ("DROM-D over tau and zeta", _table_3),
    "table-4": ("run time of each learner", _table_4),
    "regret": ("regret against the certified best W, slopes, Theorems 1 and 2 as numbers", _regret),
    "comparison": (f"every learner on {', '.join(COMPARED)}, with the same tuning for each", _comparison),
    "search": ("other iterates, steps, schedules and losses than the paper's, also where tasks truly share", _search),
    "drift": ("streams whose concept changes half-way", drift.drift),
    "cold-start": ("a task that joins half-way", cold_start.cold_start),
    "poisoning": ("what others lose where one site sends garbage", poisoning.poisoning),
    "sharing": (
        "the learner with nothing to tune beside all others, tuned, on eight data sets and under noise",
        sharing,
    ),
    "made-up": ("the same on made-up sites: alike, of low rank, in opposite clusters, one of them bad", made_up),
}
"""Name -> (what it is, in one line; what makes it)."""
ALL = "all"


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Those that are meant, each once, in the order of `REPRODUCTIONS` for ``all``.

    Raises:
        UsageError: There is no such reproduction.
    """
    for name in names:
        if name != ALL and name not in REPRODUCTIONS:
            hint = did_you_mean(name, [ALL, *REPRODUCTIONS])
            known = ", ".join([ALL, *REPRODUCTIONS])
            raise UsageError(f'expected one of {known}; got "{name}"' + (f"; {hint}" if hint else ""))
    return tuple(REPRODUCTIONS) if ALL in names else tuple(dict.fromkeys(names))


def reproduce(name: str, options: Options, out: Path) -> Report:
    """Make one again, and write it into its folder of `out`."""
    report = REPRODUCTIONS[name][1](options)
    if options.quick:
        report = dataclasses.replace(report, title=f"{report.title} (quick)", text=f"{QUICK_WARNING}\n\n{report.text}")
    write_report(report, out / name)
    write_index(out)
    return report


def check_data(names: Sequence[str]) -> None:
    """Look for the data of all that is to be made, before hours of work on the first.

    Raises:
        DataError: A data set is not here, or is not its publisher's.
    """
    paper = [data.name for data in figures.DATA]
    of: dict[str, Iterable[str]] = {
        "comparison": COMPARED,
        "regret": (),
        "made-up": (),
        "drift": [change.name for change in drift.CHANGES],
        "cold-start": cold_start.LATE,
        "poisoning": poisoning.ROUNDS,
        "sharing": [dataset for dataset, _ in SHARING_DATA.values()],
    }
    for data in dict.fromkeys(data for name in names for data in of.get(name, paper)):
        settings = data_of(data)
        check_public(settings, named_config(settings.dataset).base)


def write_index(out: Path) -> None:
    """A page that lists what is there."""
    lines = ["# Made again", ""]
    for name, (what, _) in REPRODUCTIONS.items():
        if (out / name / "README.md").exists():
            lines.append(f"- [{name}]({name}/README.md): {what}")
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
