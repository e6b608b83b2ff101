"""Tables 1, 3 and 4, and the search, on data of seconds."""

from __future__ import annotations

import dataclasses
import math

import pytest
from quiet import Silent

from drom_net.comparison.comparison_data import ComparisonData, comparison_data, named_config
from drom_net.comparison.jobs import Job
from drom_net.comparison.runner import Runner
from drom_net.comparison.store import Store
from drom_net.comparison.tuning import Effort
from drom_net.config.model import AlgorithmChoice
from drom_net.graph.families import make_schedule
from drom_net.graph.weights import mixing_weights, zeta
from drom_net.results.report import Report
from reproduction import search as search_module
from reproduction.complexity import EMPTY, empty_shares, fitted_exponent, measure, table_1
from reproduction.complexity import LEARNERS as MEASURED
from reproduction.run_time import LEARNERS, table_4
from reproduction.search import VARIANTS, YARDSTICKS, VariantJob, search, settings_of_variant
from reproduction.sensitivity import PAPER, TAUS, ZETAS, graph_for, table_3
from reproduction.variants import VariantParameters

EFFORT = Effort(settings=2, tuning_orders=1, orders=2)


@pytest.fixture
def dataset() -> ComparisonData:
    config = named_config("synthetic")
    data = dataclasses.replace(config.data, tasks=4, examples=40, dim=6, flip=0.1)  # type: ignore[call-arg]
    return dataclasses.replace(comparison_data(dataclasses.replace(config, data=data)), name="spam-pu")


def runner() -> Runner:
    return Runner(Store(), num_processes=1, progress=Silent())


def column(report: Report, table: str, name: str) -> list[object]:
    found = report.tables[table]
    place = list(found.columns).index(name)
    return [row[place] for row in found.rows]


# Table 1 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("local", 0, 0),
        ("prox-gd", 1, 1),
        ("d-ofw", 1, 1),
        ("drom", 1, 1),
        ("d-admm", 2, 1),
        ("osmtl", 1, 4),
        ("pooled", 1, 1),
    ],
)
def test_vectors_and_bytes_of_a_round(name: str, up: int, down: int) -> None:
    """Table 1: "2d" sent and received, "3d" of ADMM; headers are a few bytes."""
    parameters = {"rho": 10.0, "lam": 0.2} if name == "drom" else {}
    cost = measure(name, parameters, num_tasks=5, dim=50, rounds=9)
    assert (cost.push_vectors, cost.pull_vectors) == (up, down)
    assert 0 <= cost.push_bytes - 8 * 50 * up < 16
    assert 0 <= cost.pull_bytes - 8 * 50 * down < 16
    assert cost.worker_s > 0.0
    assert (cost.central_s > 0.0) == (up > 0)


def test_the_exponent_of_a_power_law_is_its_power() -> None:
    x = [4.0, 8.0, 16.0, 64.0]
    assert fitted_exponent(x, [3e-6 * value**1.7 for value in x]) == pytest.approx(1.7, abs=1e-9)
    assert math.isnan(fitted_exponent(x, [0.0, 1.0, 2.0, 3.0]))


def test_empty_messages_are_counted(dataset: ComparisonData, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {
        "all outliers": ("drom", {"xi": 1e-9}),
        "no outlier, no correction": ("drom", {"lam": 0.0, "rho": 0.0}),
    }
    monkeypatch.setitem(EMPTY, "all outliers", everything["all outliers"])
    monkeypatch.setitem(EMPTY, "no outlier, no correction", everything["no outlier, no correction"])
    table = empty_shares([dataset])
    found = {row[1]: (row[3], row[4]) for row in table.rows}
    assert found["all outliers"] == (1.0, 1.0)
    assert found["no outlier, no correction"] == (0.0, 1.0)
    pushes, pulls = found["DROM, paper's"]
    assert 0.0 < pushes < 1.0  # type: ignore[operator]
    assert pulls >= pushes  # type: ignore[operator]  # who pushes nothing gets nothing


def test_table_1_has_every_learner_and_a_claim_for_the_papers_four(dataset: ComparisonData) -> None:
    report = table_1(quick=True, say=lambda text: None, shares=empty_shares([dataset]))
    learners, claimed = (column(report, "exponents", name) for name in ("algorithm", "claimed_server"))
    assert learners == list(MEASURED)
    assert sum(bool(claim) for claim in claimed) == 4
    labels = {series.label for panel in report.pictures["table-1"].panels for series in panel.series}
    assert labels == set(MEASURED)


# Table 3 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_tasks", [4, 12, 30])
def test_the_graphs_come_near_the_zeta_that_is_wanted(num_tasks: int) -> None:
    """algorithms.md, section 3: no plain rule gives 0.5 and 0.9 for 4, 12 and 30 tasks."""
    names = [str(task) for task in range(num_tasks)]
    for wanted in ZETAS:
        graph = make_schedule(graph_for(num_tasks, wanted), num_tasks, names, named_config("synthetic").base).union
        weights = graph.weights if graph.weights is not None else mixing_weights(graph, "metropolis")
        assert zeta(weights) == pytest.approx(wanted, abs=0.06)


def test_table_3_has_every_entry_and_the_papers_beside_it(dataset: ComparisonData) -> None:
    with runner() as running:
        report = table_3([dataset], EFFORT, running)
    rows = [dict(zip(report.tables["table-3"].columns, row, strict=True)) for row in report.tables["table-3"].rows]
    ours = {(row["tau"], row["zeta"]): row for row in rows if row["tuned_for"] == "this tau"}
    assert set(ours) == {(tau, wanted) for tau in TAUS for wanted in ZETAS}
    assert ours[1, 0.0]["minus_first_points"] == 0.0
    assert {key: row["paper_error_percent"] for key, row in ours.items()} == {
        key: paper[0] for key, paper in PAPER["spam-pu"].items()
    }
    assert {row["tau"] for row in rows if row["tuned_for"] == "tau 1"} == {20}
    for way in ("no exchange", "delayed"):
        assert [row["zeta"] for row in rows if row["tuned_for"] == way] == [0.0, 0.0]
    assert all(0.0 < row["error_percent"] < 100.0 for row in rows)
    for tau in TAUS:
        assert [round(ours[tau, wanted]["zeta_reached"], 6) for wanted in ZETAS] == [0.0, 0.5, 0.9]


# Table 4 --------------------------------------------------------------------------------------------


def test_table_4_gives_ratios_to_local(dataset: ComparisonData) -> None:
    report = table_4([dataset], say=lambda text: None, repeats=1, as_processes=False)
    names = column(report, "table-4", "learner")
    ratios = dict(zip(names, column(report, "table-4", "times_local"), strict=True))
    assert set(names) == set(LEARNERS)
    assert ratios["local"] == 1.0
    paper = dict(zip(names, column(report, "table-4", "paper_times_local"), strict=True))
    assert paper["d-admm"] == pytest.approx(1.92 / 0.53)
    assert paper["prox-gd"] is None


# The search -----------------------------------------------------------------------------------------


def test_the_search_tunes_and_compares_every_variant(dataset: ComparisonData, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ("drom", "averaged", "schedule")
    monkeypatch.setattr(search_module, "VARIANTS", {name: VARIANTS[name] for name in wanted})
    with runner() as running:
        report = search([(dataset, EFFORT)], running)
        rows = dict(
            zip(column(report, "search", "variant"), column(report, "search", "minus_local_points"), strict=True)
        )
        assert set(rows) == {*wanted, *YARDSTICKS}
        assert rows["local"] is None
        assert len(report.tables["tried"].rows) == EFFORT.settings * len(rows)
        made = running.num_run
        assert search([(dataset, EFFORT)], running) == report
    assert running.num_run == made  # nothing is run twice


def test_a_neutral_variant_is_drom_and_has_a_key_of_its_own(dataset: ComparisonData) -> None:
    values = settings_of_variant("drom", 3, 0)
    config = dataclasses.replace(
        dataset.config,
        algorithm=AlgorithmChoice("drom", search_module.DromParameters(**values)),  # type: ignore[arg-type]
    )
    plain = Job(dataset, config, "drom")
    neutral = VariantJob(dataset, config, "drom", VariantParameters(**values))  # type: ignore[arg-type]
    averaged = VariantJob(dataset, config, "averaged", VariantParameters(**values, iterate="averaged"))  # type: ignore[arg-type]
    assert len({plain.key, neutral.key, averaged.key}) == 3
    same, other = (job.run(lambda: False) for job in (neutral, averaged))
    assert same.digest == plain.run(lambda: False).digest
    assert same.digest != other.digest


def test_variants_draw_the_same_settings_but_for_what_they_fix() -> None:
    for number in range(1, 6):
        drom, averaged = (settings_of_variant(name, number, 0) for name in ("drom", "averaged"))
        assert averaged == {**drom, "iterate": "averaged"}
        schedule = settings_of_variant("schedule", number, 0)
        assert {key: schedule[key] for key in drom} == drom
        assert all(-0.5 <= float(schedule[key]) <= 0.5 for key in ("lam_power", "rho_power"))  # type: ignore[arg-type]
