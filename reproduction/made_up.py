"""Made-up sites whose models are known: alike, of low rank, in opposite clusters, or one of them without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.features import Matrix
from drom_net.comparison.pages import percents
from drom_net.comparison.stats import paired_difference, spread_of
from drom_net.core.seeding import stream
from drom_net.data.preprocessing import unit_rows
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference
from drom_net.results.report import Cell, Report, Table
from reproduction.figures import Options

DRAWS, QUICK_DRAWS, QUICK_SITES = 5, 2, 4
Models = Callable[[np.random.Generator, int, int], Matrix]
"""(random numbers, number of sites m, number of features d) -> the sites' models, shape (m, d)."""


def alike(draws: np.random.Generator, sites: int, dim: int) -> Matrix:
    """The same one everywhere."""
    return np.outer(np.ones(sites), draws.standard_normal(dim))


def opposite(draws: np.random.Generator, sites: int, dim: int) -> Matrix:
    """One in the first half of the sites, its negative in the other half."""
    return np.outer(np.where(np.arange(sites) < sites // 2, 1.0, -1.0), draws.standard_normal(dim))


def rank_3(draws: np.random.Generator, sites: int, dim: int) -> Matrix:
    """Anywhere in a space of three dimensions."""
    models: Matrix = draws.standard_normal((sites, 3)) @ draws.standard_normal((3, dim))
    return models


@dataclass(frozen=True, slots=True)
class Case:
    """Sites of one kind."""

    name: str
    models: Models
    sites: int
    examples: int
    """Of each site."""
    dim: int = 20
    flip: float = 0.0
    """The share of flipped labels."""
    bad: bool = False
    """Whether the last site has random labels; its errors are not counted."""


CASES = (
    Case("alike", alike, sites=100, examples=20, flip=0.05),
    Case("rank 3", rank_3, sites=20, examples=150, dim=30, flip=0.05),
    Case("two opposite clusters", opposite, sites=12, examples=150),
    Case("one bad site", alike, sites=8, examples=150, bad=True),
)
ADADROM, ROBUST = "adadrom", "adadrom, robust"
LEARNERS: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    ADADROM: (("adadrom", {}),),
    ROBUST: (("adadrom", {"robust": True}),),
    "local": tuple(("local", {"eta0": eta0}) for eta0 in (10.0, 20.0)),
    "pooled *": tuple(("pooled", {"eta0": eta0}) for eta0 in (10.0, 20.0, 40.0)),
}
"""As it is called -> what is run: the one of least error counts, in hindsight."""


def streams_of(case: Case, draw: int) -> list[TaskStream]:
    """The sites' examples: Gaussian directions x, rows of norm 1, and the sign of <w_i, x>."""
    models = case.models(stream(draw, "made-up", case.name), case.sites, case.dim)
    return [_site(case, draw, site, model) for site, model in enumerate(models)]


def _site(case: Case, draw: int, site: int, model: Matrix) -> TaskStream:
    draws = stream(draw, "made-up", case.name, site)
    rows = unit_rows(draws.standard_normal((case.examples, case.dim)))
    clean = np.where(rows @ model >= 0.0, 1.0, -1.0)
    if case.bad and site == case.sites - 1:
        clean = np.where(draws.random(case.examples) < 0.5, 1.0, -1.0)
    return TaskStream(rows, np.where(draws.random(case.examples) < case.flip, -clean, clean), clean)


def error_of(case: Case, streams: Sequence[TaskStream], learner: str, parameters: Mapping[str, Any]) -> float:
    """The error rate on clean labels, over all examples of the sites that count."""
    result = run_reference(BUILTIN[learner].make(**parameters), streams, seed=0)
    records = result.task_records[:-1] if case.bad else result.task_records
    rows = np.frombuffer(b"".join(records), dtype=TASK_DTYPE)
    return float(np.mean((rows["score"] >= 0.0) != (rows["clean_label"] > 0.0)))


def made_up(options: Options) -> Report:
    """Every learner on every kind of sites."""
    draws = QUICK_DRAWS if options.quick else DRAWS
    cases = [replace(case, sites=min(case.sites, QUICK_SITES)) for case in CASES] if options.quick else CASES
    rows: list[list[Cell]] = []
    for case in cases:
        options.runner.progress.say(f"made-up: {case.name}")
        drawn = [streams_of(case, draw) for draw in range(draws)]
        errors = {
            label: min(([error_of(case, streams, *run) for streams in drawn] for run in runs), key=sum)
            for label, runs in LEARNERS.items()
        }
        for label, found in errors.items():
            spread, minus = spread_of(found), paired_difference(errors[ADADROM], found)
            rows.append(
                [
                    *(case.name, case.sites, case.examples, case.dim, 100.0 * case.flip, label),
                    *percents((spread.mean, spread.deviation) if spread else None, 2),
                    *percents((minus.mean, minus.low, minus.high) if minus and label != ADADROM else None, 3),
                ]
            )
    columns = ["sites_are", "sites", "examples", "dim", "flipped_percent", "learner", "error_percent", "error_sd"]
    columns += ["adadrom_minus_it_points", "low_95", "high_95"]
    text = _TEXT.format(draws=draws)
    return Report("made-up", "Made-up sites", text, {"made-up": Table(columns, rows)})


_TEXT = """Rows are Gaussian directions of norm 1, labels the sign of <w_i, x> with a w_i for each site, and a share of
them is flipped. *Alike*: all sites have one w. *Rank 3*: the w_i lie anywhere in a space of three dimensions. *Two
opposite clusters*: w at half of the sites, -w at the others. *One bad site*: one w, but the labels of the last site are
random, and its errors are not counted. Errors count clean labels, in percent: mean and standard deviation over {draws}
draws; differences are paired by draw, with 95 % intervals (Student's t). AdaDROM has its defaults; Local is the better
of eta0 10 and 20, Pooled (*: it moves raw examples) the best of 10, 20 and 40, in hindsight."""
