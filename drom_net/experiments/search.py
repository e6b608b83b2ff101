"""The search where the paper leaves things open: other iterates, optimistic steps, schedules, losses, true low rank."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drom_net.algorithms.drom import DromParameters
from drom_net.cluster.prepare import Prepared
from drom_net.config import AlgorithmChoice
from drom_net.data.settings import Synthetic
from drom_net.experiments.compare import Effort
from drom_net.experiments.report import Cell, Panel, Picture, Reference, Report, Series, Table
from drom_net.experiments.runs import Job, Outcome, Runner, Subject, configure, make_subject, named_config, run_one
from drom_net.experiments.spaces import Even, draw
from drom_net.experiments.stats import paired_difference, spread_of
from drom_net.experiments.variants import VariantParameters, variant
from drom_net.reference import AfterRound, ReferenceResult, run_reference
from drom_net.seeding import stream

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
        return f"{Job.key.fget(self)} {json.dumps(_changed(self.parameters), sort_keys=True)}"  # type: ignore[attr-defined]

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


def low_rank_subjects(*, quick: bool) -> list[Subject]:
    """Streams with one vocabulary whose tasks share a subspace, of rank 1 and 2, some with a part of their own."""
    kinds = [(1, 0.0), (2, 0.0), (2, 0.1)] if not quick else [(2, 0.0)]
    subjects = []
    for rank, noise in kinds:
        config = dataclasses.replace(named_config("synthetic"), data=Synthetic(rank=rank, noise=noise, data_seed=1))
        subject = make_subject(config)
        subjects.append(dataclasses.replace(subject, name=f"synthetic, rank {rank}, own part {100 * noise:g} %"))
    return subjects


def settings_of_variant(name: str, number: int, seed: int) -> dict[str, object]:
    """The parameters of a setting with this number; all variants draw the same ones, but for what they fix."""
    drawn = draw("drom", number, seed) | {"loss": "logistic"} | dict(VARIANTS[name])
    if name == "schedule" and number:
        draws = stream(seed, "powers", number)
        drawn |= {field: power.draw(draws) for field, power in _POWERS.items()}
    if drawn["loss"] == "squared_hinge" and number:
        drawn["eta0"] = float(f"{float(drawn['eta0']) / 4.0:.4g}")  # type: ignore[arg-type]  # its slope grows with w
    return drawn


def search(subjects: Sequence[Subject], effort: Effort, runner: Runner) -> Report:
    """Tune every variant on every stream with the same effort; evaluate it against plain DROM and the yardsticks."""
    cells = [(subject, name) for subject in subjects for name in (*VARIANTS, *YARDSTICKS)]

    def job(subject: Subject, name: str, values: Mapping[str, Any], seed: int) -> Job:
        label = f"{name} on {subject.name}"
        if name in YARDSTICKS:
            return Job(subject, configure(subject, name, values, seed=seed), label)
        shared = {field: value for field, value in values.items() if field in DromParameters.__dataclass_fields__}
        config = dataclasses.replace(
            subject.config,
            algorithm=AlgorithmChoice("drom", DromParameters(**shared)),
            topology=None,
            seed=seed,
        )
        return VariantJob(subject, config, label, VariantParameters(**values))

    def setting(name: str, number: int) -> dict[str, Any]:
        of = draw if name in YARDSTICKS else settings_of_variant
        return of(name, number, effort.seed)

    jobs = [
        job(subject, name, setting(name, number), seed)
        for subject, name in cells
        for number in range(effort.settings)
        for seed in effort.tuning_seeds
    ]
    outcomes = iter(runner.run(jobs))
    tried: list[list[Cell]] = []
    chosen: list[dict[str, object]] = []
    for subject, name in cells:
        best: tuple[float, dict[str, object]] | None = None
        for number in range(effort.settings):
            found = spread_of([next(outcomes).figures.get("error_rate_seen") for _ in effort.tuning_seeds])
            values = setting(name, number)
            value = None if found is None else found.mean
            tried.append([subject.name, name, number, value, json.dumps(values)])
            if value is not None and (best is None or value < best[0]):
                best = (value, values)
        assert best is not None, "the defaults do not diverge"
        chosen.append(best[1])
    evaluated = iter(
        runner.run(
            [
                job(subject, name, values, seed)
                for (subject, name), values in zip(cells, chosen, strict=True)
                for seed in effort.evaluation_seeds
            ]
        )
    )
    errors = {cell: [next(evaluated).figures.get("error_rate") for _ in effort.evaluation_seeds] for cell in cells}
    rows: list[list[Cell]] = []
    for (subject, name), values in zip(cells, chosen, strict=True):
        found = spread_of(errors[subject, name])
        row: list[Cell] = [subject.name, name]
        row += [None, None] if found is None else [100.0 * found.mean, _percent(found.deviation)]
        for other in ("local", "drom"):
            difference = paired_difference(errors[subject, name], errors[subject, other])
            if difference is None or other == name:
                row += [None, None, None]
            else:
                row += [100.0 * difference.mean, _percent(difference.low), _percent(difference.high)]
        rows.append([*row, json.dumps(values)])
    return Report(
        "search",
        "Where the paper leaves things open",
        f"{effort.in_words}. Every variant of DROM draws the same settings, but for what it fixes; the losses "
        f"stand for "
        "themselves. `averaged` predicts with the mean of all w so far, `optimistic` steps by twice this round's "
        "coupling "
        "less the last one's, `schedule` multiplies lambda and rho by powers of t between -0.5 and 0.5. The synthetic "
        "streams have one vocabulary and a shared part of low rank: the best case for a nuclear norm. Differences are "
        "paired, in percentage points, with their 95 % interval.",
        {
            "search": Table(
                (
                    *("data", "variant", "error_percent", "error_sd", "minus_local_points", "low_95", "high_95"),
                    *("minus_drom_points", "low_95_drom", "high_95_drom", "parameters"),
                ),
                rows,
            ),
            "tried": Table(("data", "variant", "setting", "error_rate_tuning", "parameters"), tried, on_page=False),
        },
        {"search": _picture(subjects, rows)},
    )


def _number(cell: Cell) -> float:
    assert isinstance(cell, float)
    return cell


def _percent(value: float | None) -> float | None:
    return None if value is None else 100.0 * value


def _picture(subjects: Sequence[Subject], rows: Sequence[Sequence[Cell]]) -> Picture:
    panels = []
    for subject in subjects:
        of = [row for row in rows if row[0] == subject.name and row[4] is not None]
        panels.append(
            Panel(
                subject.name,
                "",
                "error rate minus Local's (points)",
                [
                    Series(
                        "difference and 95 % interval",
                        list(range(len(of))),
                        [_number(row[4]) for row in of],
                        [_number(row[5] if row[5] is not None else row[4]) for row in of],
                        [_number(row[6] if row[6] is not None else row[4]) for row in of],
                    )
                ],
                [Reference("Local", 0.0)],
                points=True,
                ticks=[str(row[1]) for row in of],
            )
        )
    return Picture(panels, min(2, len(panels)))
