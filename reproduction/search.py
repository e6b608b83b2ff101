"""The search where the paper leaves things open: other iterates, optimistic steps, schedules, losses, true low rank."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.drom import DromParameters
from drom_net.algorithms.learner import Even
from drom_net.cluster.prepare import Prepared
from drom_net.comparison.compare import tune_and_evaluate
from drom_net.comparison.comparison_data import ComparisonData, comparison_data, named_config
from drom_net.comparison.figures import Outcome, run_one
from drom_net.comparison.jobs import Job
from drom_net.comparison.pages import percents
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import draw
from drom_net.comparison.stats import paired_difference, spread_of
from drom_net.comparison.tuning import Effort, Values, job_of
from drom_net.config.model import AlgorithmChoice
from drom_net.core.fields import settings_of
from drom_net.core.seeding import stream
from drom_net.data.settings import Synthetic
from drom_net.learning.reference import AfterRound, ReferenceResult, run_reference
from drom_net.results.report import Cell, Panel, Picture, Reference, Report, Series, Table
from reproduction.variants import VariantParameters, variant

VARIANTS: Mapping[str, Mapping[str, object]] = {
    "drom": {},
    "hinge": {"loss": "hinge"},
    "squared hinge": {"loss": "squared_hinge"},
    "no cap, p = 1": {"p": 1.0, "xi": float("inf")},
    "averaged": {"iterate": "averaged"},
    "optimistic": {"optimistic": True},
    "optimistic, averaged": {"optimistic": True, "iterate": "averaged"},
    "schedule": {},
    "no coupling": {"lam": 0.0, "rho": 0.0},
}
"""What is fixed in each; all else of DROM is drawn. The schedule draws the two powers of t besides."""
YARDSTICKS = ("local", "d-ofw", "prox-gd")
_POWERS: Mapping[str, Even] = {"lam_power": Even(-0.5, 0.5), "rho_power": Even(-0.5, 0.5)}


@dataclass(frozen=True, slots=True)
class VariantJob(Job):
    """A run of a variant: `config` has DROM with the parameters that it shares."""

    parameters: VariantParameters = dataclasses.field(default_factory=VariantParameters)

    @property
    def key(self) -> str:
        return f"{super(VariantJob, self).key} {json.dumps(_changed(self.parameters), sort_keys=True)}"

    def run(self, stopped: Callable[[], bool]) -> Outcome:
        def loop(prepared: Prepared, after_round: AfterRound) -> ReferenceResult:
            config = prepared.config
            return run_reference(
                variant(self.parameters),
                prepared.streams,
                seed=config.seed,
                rounds=config.rounds,
                after_round=after_round,
            )

        return run_one(self.prepare(), stopped, loop=loop)


def _changed(parameters: VariantParameters) -> dict[str, object]:
    names = VariantParameters.__dataclass_fields__.keys() - DromParameters.__dataclass_fields__.keys()
    return {name: getattr(parameters, name) for name in names}


def low_rank_datasets(*, quick: bool) -> list[ComparisonData]:
    """Streams with one vocabulary whose tasks share a subspace, of rank 1 and 2, some with a part of their own."""
    kinds = [(1, 0.0), (2, 0.0), (2, 0.1)] if not quick else [(2, 0.0)]
    datasets = []
    for rank, noise in kinds:
        config = dataclasses.replace(named_config("synthetic"), data=Synthetic(rank=rank, noise=noise, data_seed=1))
        dataset = comparison_data(config)
        datasets.append(dataclasses.replace(dataset, name=f"synthetic, rank {rank}, own part {100 * noise:g} %"))
    return datasets


def settings_of_variant(name: str, number: int, seed: int) -> dict[str, object]:
    """The parameters of a setting with this number; all variants draw the same ones, but for what they fix."""
    drawn = draw("drom", number, seed) | {"loss": "logistic"} | dict(VARIANTS[name])
    if name == "schedule" and number:
        draws = stream(seed, "powers", number)
        drawn |= {field: power.draw(draws) for field, power in _POWERS.items()}
    if drawn["loss"] == "squared_hinge" and number:
        drawn["eta0"] = float(f"{float(drawn['eta0']) / 4.0:.4g}")  # type: ignore[arg-type]  # its slope grows with w
    return drawn


def search(datasets: Sequence[tuple[ComparisonData, Effort]], runner: Runner) -> Report:
    """Tune every variant on every stream with the same effort; evaluate it against plain DROM and the yardsticks."""
    names = (*VARIANTS, *YARDSTICKS)
    results = [
        result
        for dataset, effort in datasets
        for result in tune_and_evaluate(
            [(dataset, name) for name in names], effort, runner, settings=_settings, job=_job
        )
    ]
    tried: list[list[Cell]] = []
    rows: list[list[Cell]] = []
    for result in results:
        dataset, name = result.dataset, result.name
        for trial in result.trials:
            tried.append([dataset.name, name, trial.number, trial.value, _written(name, trial.drawn)])
        others = {one.name: one for one in results if one.dataset is dataset}
        errors = result.figure("error_rate")
        found = spread_of(errors)
        row: list[Cell] = [dataset.name, name, len(result.trials)]
        row += percents((found.mean, found.deviation) if found else None, 2)
        for other in ("local", "drom"):
            difference = paired_difference(errors, others[other].figure("error_rate")) if other != name else None
            row += percents((difference.mean, difference.low, difference.high) if difference else None, 3)
        rows.append([*row, _written(name, result.chosen.drawn)])
    efforts = "; ".join(f"{dataset.name}: {effort.in_words}" for dataset, effort in datasets)
    return Report(
        "search",
        "Where the paper leaves things open",
        f"""Every variant of DROM draws the same settings, but for what it fixes (squared hinge: eta0 / 4, for its slope
grows with w). `averaged` predicts with the mean of all w so far, `optimistic` steps by twice this round's coupling less
the last one's, `schedule` multiplies lambda and rho by powers of t between -0.5 and 0.5, `no coupling` has lambda =
rho = 0. The synthetic streams have one vocabulary and a shared part of low rank: the best case for a nuclear norm.
Differences are paired, in percentage points, with their 95 % interval. What was tried: {efforts}.""",
        {
            "search": Table(
                (
                    *("data", "variant", "settings", "error_percent", "error_sd", "minus_local_points", "low_95"),
                    *("high_95", "minus_drom_points", "low_95_drom", "high_95_drom", "parameters"),
                ),
                rows,
            ),
            "tried": Table(("data", "variant", "setting", "error_rate_tuning", "parameters"), tried, on_page=False),
        },
        {"search": picture([dataset for dataset, _ in datasets], rows)},
    )


def _settings(name: str, effort: Effort) -> list[Values]:
    of = draw if name in YARDSTICKS else settings_of_variant
    return [of(name, number, effort.seed) for number in range(effort.settings)]


def _job(dataset: ComparisonData, name: str, values: Values, seed: int) -> Job:
    if name in YARDSTICKS:
        return job_of(dataset, name, values, seed)
    parameters: Any = values
    shared: Any = {field: value for field, value in values.items() if field in DromParameters.__dataclass_fields__}
    config = dataclasses.replace(
        dataset.config, algorithm=AlgorithmChoice("drom", DromParameters(**shared)), topology=None, seed=seed
    )
    return VariantJob(dataset, config, f"{name} on {dataset.name}", VariantParameters(**parameters))


def _written(name: str, values: Values) -> str:
    """By the keys of a YAML file, as JSON; iterate, optimistic and the powers are of the variants alone."""
    parameters = BUILTIN[name].parameters if name in YARDSTICKS else VariantParameters
    keys = {setting.field: key for key, setting in settings_of(parameters).items()}
    return json.dumps({keys[field]: ".inf" if value == math.inf else value for field, value in values.items()})


def _number(cell: Cell) -> float:
    assert isinstance(cell, float)
    return cell


def picture(datasets: Sequence[ComparisonData], rows: Sequence[Sequence[Cell]]) -> Picture:
    panels = []
    for dataset in datasets:
        of = [row for row in rows if row[0] == dataset.name and row[5] is not None]
        panels.append(
            Panel(
                dataset.name,
                "",
                "error rate minus Local's (points)",
                [
                    Series(
                        "difference and 95 % interval",
                        list(range(len(of))),
                        [_number(row[5]) for row in of],
                        [_number(row[6] if row[6] is not None else row[5]) for row in of],
                        [_number(row[7] if row[7] is not None else row[5]) for row in of],
                    )
                ],
                [Reference("Local", 0.0)],
                points=True,
                ticks=[str(row[1]) for row in of],
            )
        )
    return Picture(panels, min(2, len(panels)))
