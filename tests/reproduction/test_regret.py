"""Measured regret: what is summed, what is subtracted, and the theorems as numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import random_streams, spread
from scipy.stats import linregress

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.local import LocalParameters
from drom_net.data.datasets import load_dataset
from drom_net.data.settings import Synthetic
from drom_net.learning.reference import run_reference
from drom_net.learning.task import TaskLearner
from drom_net.results.report import Report
from reproduction import regret as module
from reproduction.hindsight import nuclear_norm
from reproduction.regret import (
    CONVEX,
    Benchmark,
    Candidate,
    Minima,
    diameter,
    examples_until,
    fit_slope,
    make_report,
    mean_regret,
    measure,
    objective_regret,
    plain_regret,
    powers_of_two,
    smallest_cases,
    theorem_bound,
    theory_candidates,
    trajectory,
    tuned_candidates,
)


def test_the_printed_bounds() -> None:
    """Theorem 1: m sqrt(T) (D^2 + (kappa beta + lambda D)^2 + (rho + lambda D)^2); Theorem 2 as printed."""
    constants = {"D": 2.0, "kappa": 3.0, "beta": 0.5, "lam": 0.25, "rho": 1.5}
    assert theorem_bound(m=3, T=100, **constants) == pytest.approx(30.0 * (4.0 + 2.0**2 + 2.0**2))
    assert theorem_bound(m=3, T=100, **constants, tau=4) == pytest.approx(30.0 * 8.0 * (0.25 + 4.0 + 4.0))
    assert theorem_bound(m=3, T=100, **constants, eta0=2.0) == pytest.approx(30.0 * (2.0 + 8.0 + 8.0))


def test_a_slope_is_that_of_the_straight_line_in_log_log() -> None:
    rounds = powers_of_two(1000)
    assert rounds == [16, 32, 64, 128, 256, 512]
    slope = fit_slope(rounds, [3.0 * T**0.75 for T in rounds])
    assert slope is not None
    assert slope.value == pytest.approx(0.75)
    assert slope.standard_error == pytest.approx(0.0, abs=1e-9)
    rough = [2.0, 3.5, 4.0, 7.0, 8.5, 14.0]
    slope, other = fit_slope(rounds, rough), linregress(np.log(rounds), np.log(rough))
    assert slope == pytest.approx((other.slope, other.stderr))
    assert fit_slope(rounds, [*rough[:-1], -1.0]) is None


def test_prefixes_have_the_examples_of_their_rounds() -> None:
    streams = random_streams((10, 3, 0))
    for stream in (*streams, *spread(streams)):
        for T in (0, 1, 2, 3, 5, 10, 12):
            seen = [t for t in range(1, T + 1) if stream.index_at(t) is not None]
            assert examples_until(stream, T) == len(seen)


@pytest.mark.parametrize("spread_out", [False, True])
def test_a_course_is_the_learner_by_hand(spread_out: bool) -> None:
    """F_t(W_t) before learning from round t, of the active tasks; |W_t|_* with W_1 = 0."""
    streams = random_streams((12, 7, 10), dim=4, flip=0.3)
    streams = spread(streams) if spread_out else streams
    run = trajectory(
        Candidate("local", "local", LocalParameters(eta0=2.0, loss="hinge")), streams, loss="hinge", checkpoints=[8]
    )
    W, losses, norms, total = np.zeros((3, 4)), [], [], np.zeros((3, 4))
    for t in range(1, 13):
        norms.append(nuclear_norm(W))
        if t <= 8:
            total += W
        losses.append(0.0)
        for task, stream in enumerate(streams):
            index = stream.index_at(t)
            if index is not None:
                z = stream.labels[index] * (stream.rows[index] @ W[task])  # type: ignore[index]
                losses[-1] += max(0.0, 1.0 - z)
                if z < 1.0:
                    W[task] += 2.0 / math.sqrt(t) * stream.labels[index] * stream.rows[index]  # type: ignore[index]
    np.testing.assert_allclose(run.losses, losses, atol=1e-12)
    np.testing.assert_allclose(run.norms, norms, atol=1e-12)
    assert run.sums[8] == pytest.approx(nuclear_norm(total))


def test_the_three_regrets_by_hand() -> None:
    """One task, x = 1/2: the least of 1 - w/2 + lambda |w| over |w| <= 1 is at w = 1 for lambda < 1/2, else at 0."""
    streams = [module.TaskStream(np.full((50, 1), 0.5), np.ones(50), np.ones(50))]
    q = DromParameters(**{**CONVEX, "loss": "hinge", "lam": 1.0, "rho": 1.0})  # type: ignore[arg-type]
    run, minima = (
        trajectory(Candidate("drom", "drom", q), streams, loss="hinge", checkpoints=[40]),
        Minima(streams, "hinge"),
    )
    w, a, ws = 0.0, 0.0, []
    for t in range(1, 51):  # Algorithm 1 for numbers: u v^T is the sign of a where |a| > 1
        ws.append(w)
        a_next = a + (w - (math.copysign(1.0, a) if abs(a) > 1.0 else 0.0)) / math.sqrt(t)
        w, a = w - (a_next - (0.5 if w < 2.0 else 0.0)) / math.sqrt(t), a_next
    np.testing.assert_allclose(run.norms, np.abs(ws), atol=1e-12)
    losses = [1.0 - 0.5 * each for each in ws[:40]]
    tolerance = 1e-4 * 40 + 1e-9
    assert plain_regret(run, minima, 40, 1.0).middle == pytest.approx(sum(losses) - 20.0, abs=tolerance)
    paid = sum(losses) + sum(map(abs, ws[:40]))
    assert objective_regret(run, minima, 40, 1.0, 1.0).middle == pytest.approx(paid - 40.0, abs=tolerance)
    paid = sum(losses) + abs(sum(ws[:40]))
    assert mean_regret(run, minima, 40, 1.0, 1.0).middle == pytest.approx(paid - 40.0, abs=tolerance)
    assert objective_regret(run, minima, 40, 1.0, 0.25).middle == pytest.approx(
        sum(losses) + 0.25 * sum(map(abs, ws[:40])) - 30.0, abs=tolerance
    )


@pytest.mark.slow
def test_the_smallest_case_leaves_the_bound_with_every_assumption_held() -> None:
    """Theorems 1 and 2 (tau = 1) as printed: |W_t|_* <= rho/lambda always, yet plain regret is above the bound."""
    for case in smallest_cases(4096):
        assert case.within == 1.0, case.candidate.label
        assert case.largest <= 1.0
        assert case.plain[-1].low > case.bounds[-1]
        doubled = case.plain[-1].low / case.plain[-2].low
        assert doubled == pytest.approx(2.0, rel=0.02)  # linear, where the bound grows by sqrt(2)
        assert case.bounds[-1] / case.bounds[-2] == pytest.approx(math.sqrt(2.0))
    convex = smallest_cases(4096)[0]
    assert convex.mean[-1].high < 0.05 * convex.bounds[-1]  # what the standard argument bounds is small


def test_d_holds_all_iterates_and_comparators() -> None:
    """No two of the w_t and w* of a task, nor of its a_t and any a* of length 1, are further apart."""
    streams = random_streams((30, 30), dim=4, flip=0.2)
    candidate = theory_candidates("hinge", 5.0)[2]
    best = Minima(streams, "hinge").at(30, 5.0).W
    w, a = [np.zeros((2, 4)), best], [np.zeros((2, 4)), np.eye(2, 4), -np.eye(2, 4)]

    def follow(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
        models = [learner.result().model for learner in learners]
        w.append(np.stack([model["w"] for model in models]))
        a.append(np.stack([model["a"] for model in models]))
        return True

    run_reference(drom(candidate.parameters), streams, seed=0, after_round=follow)
    furthest = max(
        float(np.linalg.norm(one - other, axis=1).max())
        for points in (w, a)
        for one, other in itertools.combinations(points, 2)
    )
    D = diameter(trajectory(candidate, streams, loss="hinge"), best)
    assert furthest <= D <= 2.0 * furthest


def test_every_algorithm_with_a_step_is_measured() -> None:
    mixtures = {"adadrom"}  # of several models: they have no W
    without = {"arow", "mt-co2ol", "mt-co2ol-d"}  # AROW's steps come from its variances, MT-CO2OL's from its radius
    assert {candidate.algorithm for candidate in tuned_candidates("logistic", 9.0)} == set(BUILTIN) - mixtures - without
    for candidate in tuned_candidates("hinge", 9.0):
        assert getattr(candidate.parameters, "loss", "hinge") == "hinge"
        assert hasattr(candidate.parameters, candidate.step_name)


def test_the_bounds_are_of_convex_runs_with_the_printed_steps() -> None:
    for candidate in theory_candidates("hinge", 80.0)[1:]:
        q = candidate.parameters
        assert (q.eta0, q.p, q.xi, q.kappa) == (1.0, 1.0, math.inf, 1.0)
        assert candidate.ball == pytest.approx(80.0 if q.lam < 1.0 else 1.0)


@pytest.fixture(scope="module")
def report() -> Report:
    settings = Synthetic(tasks=3, examples=64, dim=5, rank=2, flip=0.1)

    def candidates(loss: str, radius: float) -> list[Candidate]:
        return tuned_candidates(loss, radius) + theory_candidates(loss, radius)

    benchmark = Benchmark(load_dataset(settings, base=Path()), settings, "hinge", 20.0, 2, candidates)
    said: list[str] = []
    found = make_report([benchmark], [measure(benchmark, say=said.append)], smallest_cases(64))
    assert len(said) == len(candidates("hinge", 20.0))
    return found


@pytest.mark.slow
def test_tables_are_whole_and_brackets_are_in_order(report: Report) -> None:
    for name, table in report.tables.items():
        assert table.rows, name
        for row in table.rows:
            assert len(row) == len(table.columns), name
            cells = dict(zip(table.columns, row, strict=True))
            assert all(math.isfinite(cell) for cell in row if isinstance(cell, float)), name
            for column in table.columns:
                if column.endswith("_low") and cells[column] is not None:
                    assert cells[column] <= cells[column.replace("_low", "_high")]  # type: ignore[operator]
    regret = report.tables["regret"]
    last = {row[4]: dict(zip(regret.columns, row, strict=True)) for row in regret.rows if row[6] == 64}
    for cells in last.values():
        loss, low, high = (cells[name] for name in ("learner_loss", "minimum_low", "plain_high"))
        assert isinstance(loss, float) and isinstance(low, float)
        assert loss - low == pytest.approx(high)
    drom = last["drom λ=ρ=1"]
    assert drom["mean_high"] <= drom["objective_high"]  # type: ignore[operator]  # |sum W_t| <= sum |W_t|
    assert last["local"]["objective_low"] is None


@pytest.mark.slow
def test_pictures_have_what_logarithmic_axes_can_show(report: Report) -> None:
    for picture in report.pictures.values():
        for panel in picture.panels:
            assert panel.log_x and panel.log_y and panel.x_label and panel.y_label
            for series in panel.series:
                assert len(series.x) == len(series.y)
                assert all(value > 0.0 for value in (*series.x, *series.y))
    panels = report.pictures["norms"].panels
    assert [panel.references[0].y for panel in panels] == pytest.approx([1.0, 20.0, 0.1 / 0.003])


@pytest.mark.slow
def test_the_text_has_the_numbers_of_the_tables(report: Report) -> None:
    smallest = report.tables["smallest"]
    cells = dict(zip(smallest.columns, smallest.rows[-1], strict=True))
    assert f"At T = {cells['T']}: plain {cells['plain_low']:.0f}" in report.text
    for candidate in tuned_candidates("hinge", 20.0):
        assert f"- {candidate.label} (" in report.text


def test_a_missing_file_falls_back_to_digits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from drom_net.core.errors import DataError, Problem

    def refuse(settings: object, *, base: Path) -> object:
        if settings == "spam":
            raise DataError([Problem("data.dataset: spam-pu", "the files", "none")])
        return load_dataset(settings, base=base)  # type: ignore[arg-type]

    said: list[str] = []
    monkeypatch.setitem(module.DATA_SECTIONS, "spam-pu", lambda: "spam")  # type: ignore[arg-type]
    monkeypatch.setattr(module, "load_dataset", refuse)
    benchmark = module._real(quick=False, say=said.append)
    assert benchmark.name == "digits-sites"
    assert len(said) == 1
    assert "spam-pu" in said[0]


def test_steps_are_tuned_on_the_loss_that_is_measured() -> None:
    streams = random_streams((40, 40), dim=4)
    candidate = Candidate("local", "local", LocalParameters(loss="hinge"))
    tuned = module.with_tuned_step(candidate, streams, "hinge", 20)

    def loss_of(eta0: float) -> float:
        one = replace(candidate, parameters=replace(candidate.parameters, eta0=eta0))
        return float(trajectory(one, streams, loss="hinge", rounds=20).losses.sum())

    losses = {eta0: loss_of(eta0) for eta0 in module.TUNED[1]}
    assert losses[tuned.parameters.eta0] == min(losses.values())
    assert len(set(losses.values())) > 1
