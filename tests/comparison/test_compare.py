"""Comparisons and reproductions from end to end, on data of seconds."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import math
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from drom_net.algorithms.local import LocalParameters
from drom_net.cli import main
from drom_net.cluster.plan import algorithm_of
from drom_net.cluster.prepare import prepare
from drom_net.cluster.run import run_loop
from drom_net.comparison.compare import compare, tune_and_evaluate
from drom_net.comparison.comparison_data import ComparisonData, comparison_data, load_data, named_config
from drom_net.comparison.figures import Outcome, run_one
from drom_net.comparison.findings import conclusion, headline, reading
from drom_net.comparison.jobs import Job, configure, head_of
from drom_net.comparison.pages import write_report
from drom_net.comparison.runner import Runner
from drom_net.comparison.spaces import draw, line_names
from drom_net.comparison.stats import paired_difference, spread_of
from drom_net.comparison.store import Store
from drom_net.comparison.tuning import Effort, Result, Trial, check_learners
from drom_net.config.load import load_config
from drom_net.config.model import AlgorithmChoice
from drom_net.core.errors import StoppedError, UsageError
from drom_net.data.stats import prepared_dataset
from drom_net.data.stream import TaskStream
from drom_net.learning.metrics import macro, total
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference

EFFORT = Effort(settings=2, tuning_orders=2, orders=3)
SAME_FILES = ("compare.csv", "differences.csv", "search.csv", "differences.png", "differences.svg")


class Watched:
    """Progress that counts, and may do something after some runs."""

    def __init__(self, after: int = -1, do: Callable[[], None] = lambda: None) -> None:
        self.finished = 0
        self._after, self._do = after, do

    def start(self, total: int, reused: int) -> None:
        pass

    def update(self, finished: int, label: str) -> None:
        self.finished += 1
        if self.finished == self._after:
            self._do()

    def say(self, text: str) -> None:
        pass


@pytest.fixture
def dataset(tmp_path: Path) -> ComparisonData:
    config = named_config("synthetic")
    data = dataclasses.replace(config.data, tasks=3, examples=30, dim=6, flip=0.1)  # type: ignore[call-arg]
    return comparison_data(dataclasses.replace(config, data=data))


@contextlib.contextmanager
def runner_of(folder: Path, progress: Watched | None = None) -> Iterator[Runner]:
    with (
        Store(folder / "runs.jsonl") as store,
        Runner(store, num_processes=1, progress=progress or Watched()) as runner,
    ):
        yield runner


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_figures_of_a_run_are_those_of_its_counts(dataset: ComparisonData) -> None:
    prepared = Job(dataset, configure(dataset, "drom", draw("drom", 0, 0), seed=4), "").prepare()
    outcome = run_one(prepared)
    result = run_loop(prepared)
    counts = [task.totals for task in result.tasks]
    assert outcome.digest == result.digest
    assert outcome.figures["error_rate"] == total(counts).error_rate
    assert outcome.figures["error_rate_seen"] == total(counts).seen_error_rate != outcome.figures["error_rate"]
    assert outcome.figures["f1"] == total(counts).f1
    assert outcome.figures["majority"] == total(counts).majority_error_rate
    assert outcome.figures["log_loss"] == pytest.approx(total(counts).log_loss, rel=1e-12)
    assert outcome.figures["error_rate_macro"] == macro(task.error_rate for task in counts)[0]
    assert outcome.tasks["f1"] == [task.f1 for task in counts]
    assert outcome.curve["round"] == list(range(1, 31))
    assert outcome.curve["error_rate"][-1] == pytest.approx(total(counts).error_rate, abs=1e-6)
    W = np.stack([task.model["w"] for task in result.tasks])
    assert outcome.nuclear_norm == pytest.approx(np.linalg.norm(W, "nuc"))
    assert outcome.effective_rank == pytest.approx((np.linalg.norm(W, "nuc") / np.linalg.norm(W)) ** 2)


def test_a_key_tells_runs_apart_and_endpoints_do_not(dataset: ComparisonData) -> None:
    config = configure(dataset, "local", {"eta0": 3.0}, seed=1)
    others = [
        configure(dataset, "local", {"eta0": 4.0}, seed=1),
        configure(dataset, "local", {"eta0": 3.0}, seed=2),
        configure(dataset.with_flip(0.2), "local", {"eta0": 3.0}, seed=1),
        configure(dataset.with_rounds(20), "local", {"eta0": 3.0}, seed=1),
    ]
    keys = {Job(dataset, each, "").key for each in [config, *others]}
    keys.add(Job(dataclasses.replace(dataset, content="other rows"), config, "").key)
    assert len(keys) == 6
    assert Job(dataset, dataclasses.replace(config, name="other"), "other").key in keys


def test_divergence_is_an_outcome(dataset: ComparisonData, tmp_path: Path) -> None:
    config = configure(dataset, "local", {"eta0": 1e308, "loss": "squared_hinge"}, seed=0)
    with runner_of(tmp_path) as runner:
        (outcome,) = runner.run([Job(dataset, config, "")])
    assert (outcome.status, outcome.figures) == ("diverged", {})


def test_a_learner_with_nothing_to_tune_is_tried_once(dataset: ComparisonData, tmp_path: Path) -> None:
    with runner_of(tmp_path) as runner:
        comparison = compare([dataset], ["adadrom", "local"], EFFORT, runner)
        assert runner.num_run == (1 + EFFORT.settings) * 2 + 2 * 3
    assert [len(result.trials) for result in comparison.results] == [1, EFFORT.settings]
    assert "(adadrom: nothing to tune, so one setting.)" in comparison.report.text


def test_the_best_setting_is_that_of_the_tuning_orders_alone(dataset: ComparisonData, tmp_path: Path) -> None:
    with runner_of(tmp_path) as runner:
        (result,) = tune_and_evaluate([(dataset, "local")], Effort(settings=5, orders=2), runner)
        assert runner.num_run == 5 * 2 + 2
    means = []
    for number in range(5):
        errors = []
        for seed in (0, 1):
            job = Job(dataset, configure(dataset, "local", draw("local", number, 0), seed=seed), "")
            errors.append(run_one(job.prepare()).figures["error_rate_seen"])
        means.append(math.fsum(errors) / 2.0)  # type: ignore[arg-type]
    assert [trial.value for trial in result.trials] == pytest.approx(means)
    assert result.chosen.number == means.index(min(means))
    assert list(result.seeds) == [10, 11]
    assert set(Effort(tuning_orders=14).tuning_seeds) & set(Effort(tuning_orders=14).evaluation_seeds) == set()


def test_auc_is_maximised_where_it_is_the_measure(dataset: ComparisonData, tmp_path: Path) -> None:
    ranked = dataclasses.replace(dataset, measure="auc")
    with runner_of(tmp_path) as runner:
        (result,) = tune_and_evaluate([(ranked, "local")], Effort(settings=5, orders=1), runner)
    assert result.chosen.value == max(trial.value for trial in result.trials if trial.value is not None)


@pytest.fixture
def table(tmp_path: Path) -> ComparisonData:
    """Two sites, of 50 and 90 rows in the order of time, whose concept turns round half-way."""
    rng = np.random.default_rng(0)
    for site, count in (("a", 50), ("b", 90)):
        rows = rng.standard_normal((count, 2))
        labels = (rows[:, 0] > 0.0) == (np.arange(count) < count // 2)
        lines = [f"{x!r},{y!r},{int(label)}" for (x, y), label in zip(rows.tolist(), labels, strict=True)]
        (tmp_path / f"site-{site}.csv").write_text("x,y,label\n" + "\n".join(lines) + "\n")
    file = tmp_path / "sites.yaml"
    file.write_text("data: {dataset: files, files: 'site-{task}.csv', shuffle: false}\n")
    return comparison_data(load_config(file))


def test_rows_in_the_order_of_time_are_tuned_on_the_first_and_judged_on_the_rest(
    table: ComparisonData, tmp_path: Path
) -> None:
    with runner_of(tmp_path) as runner:
        (result,) = tune_and_evaluate([(table, "local")], Effort(settings=4), runner)
        assert runner.num_run == 4 + 1
    # By hand: the same rows cut off after 15 and 27, and the whole run, counted behind them.
    tasks = prepared_dataset(load_data(table.config)).tasks
    whole = [task.rows for task in tasks], [task.labels for task in tasks]
    heads = (15, 27)
    means = []
    for number in range(4):
        config = configure(table, "local", draw("local", number, 0), seed=0)
        streams = [
            TaskStream(rows[:head], labels[:head], labels[:head])  # type: ignore[arg-type]
            for rows, labels, head in zip(*whole, heads, strict=True)
        ]
        means.append(total(task.totals for task in run_reference(algorithm_of(config, 0), streams, seed=0).tasks))
    assert [trial.value for trial in result.trials] == pytest.approx([counts.error_rate for counts in means])
    assert result.chosen.number == int(np.argmin([counts.error_rate for counts in means]))
    ran = run_loop(prepare(result.config(0), load_data(table.config)))
    wrong, lost = [], []
    for records, head in zip(ran.task_records, heads, strict=True):
        rows = np.frombuffer(records, TASK_DTYPE)
        seen = np.sign(np.concatenate([[0.0], np.cumsum(rows["label"])[:-1]]) + 0.5)
        wrong.append(np.array_split(((rows["score"] >= 0.0) != (rows["label"] > 0.0))[head:], 10))
        lost.append(np.array_split((seen != rows["label"])[head:], 10))
    assert result.figure("error_rate") == [np.mean(np.concatenate(block)) for block in zip(*wrong, strict=True)]
    assert result.figure("majority") == [np.mean(np.concatenate(block)) for block in zip(*lost, strict=True)]
    assert len(result.outcomes) == 10 and result.outcomes[0].digest == ran.digest


def test_what_a_table_has_after_its_change_is_judged_as_it_comes(table: ComparisonData, tmp_path: Path) -> None:
    """In a random order the two concepts would be one mixture that nobody can tell."""
    shuffled = dataclasses.replace(table.config, data=dataclasses.replace(table.config.data, shuffle=True))
    with runner_of(tmp_path) as runner:
        comparison = compare([table], ["local"], EFFORT, runner)
        mixed = compare([comparison_data(shuffled)], ["local"], EFFORT, runner)
    errors = comparison.results[0].figure("error_rate")
    assert np.mean(errors[0:2]) < 0.2 < 0.5 < np.mean(errors[3:5])  # type: ignore[arg-type]
    assert np.mean(errors) < np.mean(mixed.results[0].figure("error_rate")) - 0.03  # type: ignore[arg-type]
    text = comparison.report.text
    assert "Rows in the order of the file: 2 settings of each learner" in text and "over blocks" in text
    assert "Rows in the order of the file" not in mixed.report.text
    (row,) = [
        dict(zip(table.columns, row, strict=True))
        for table in [comparison.report.tables["compare"]]
        for row in table.rows
    ]
    assert (row["over"], row["orders"]) == ("blocks", 10)


def test_the_head_of_a_stream_is_a_share_of_what_a_run_learns() -> None:
    rows, labels = np.arange(20.0).reshape(10, 2), np.ones(10)

    def head(rounds: int | None = None, spread_over: int | None = None, passes: int = 1) -> tuple[int, int, int | None]:
        found = head_of(TaskStream(rows, labels, labels, spread_over, passes), rounds)
        return len(found.labels), found.passes, found.spread_over

    assert head() == (3, 1, None)
    assert head(rounds=7) == (2, 1, None)
    assert head(passes=2) == (6, 1, None)
    assert head(passes=7) == (10, 2, None)
    assert head(spread_over=40) == (3, 1, 12)
    assert head(spread_over=40, rounds=20) == (1, 1, 6)
    assert head(rounds=2) == (0, 1, None)


def test_a_block_without_a_figure_is_left_out_and_a_diverged_run_is_not(table: ComparisonData) -> None:
    def result(*values: float | None) -> Result:
        outcomes = tuple(Outcome("finished", {"auc": value}, {}, 0.0, "") for value in values)
        return Result(table, "local", (), Trial(0, {}, None), range(1), outcomes)

    ours, theirs = result(0.5, None, 0.7), result(0.4, 0.9, 0.5)
    assert ours.spread("auc") == spread_of([0.5, 0.7])
    assert ours.minus(theirs, "auc") == paired_difference([0.5, 0.7], [0.4, 0.5])
    assert result(None, None).spread("auc") is None


def test_the_measure_chooses_settings_and_changes_no_run(dataset: ComparisonData, tmp_path: Path) -> None:
    config = dataset.config
    by_loss = comparison_data(dataclasses.replace(config, data=dataclasses.replace(config.data, measure="log_loss")))
    job, other = (Job(one, configure(one, "local", {}, seed=0), "") for one in (dataset, by_loss))
    assert job.key == other.key
    with runner_of(tmp_path) as runner:
        results = tune_and_evaluate([(dataset, "local"), (by_loss, "local")], Effort(settings=6, orders=2), runner)
        assert runner.num_run == 6 * 2 + 2 * len({result.chosen.number for result in results})
        comparison = compare([by_loss], ["local", "adadrom"], EFFORT, runner)
    by_error, chosen = results
    values = [trial.value for trial in chosen.trials]
    assert chosen.chosen.value == min(value for value in values if value is not None)
    assert values != [trial.value for trial in by_error.trials]
    columns, _ = headline(comparison.results)
    assert columns == [
        "learner",
        "error rate",
        "majority",
        "AUC",
        "log loss",
        "F1",
        "minus local (log loss)",
        "remarks",
    ]
    interval = "[in brackets its 95 % interval]"
    said = f"minus local: the mean difference of the log loss in nats, {interval}; below 0 is better than local"
    assert reading(comparison.results) == said
    by_auc = dataclasses.replace(by_loss, measure="auc")
    over = [dataclasses.replace(result, dataset=by_auc) for result in comparison.results]
    assert reading(over).endswith(f"in percentage points, {interval}; above 0 is better than local")
    assert reading([result for result in comparison.results if result.name != "local"]) == ""


def test_no_learner_is_the_best_that_is_no_better_than_the_majority(dataset: ComparisonData) -> None:
    def result(name: str, error: float | None, majority: float = 0.4, log_loss: float = 0.5) -> Result:
        figures = {"error_rate": error, "majority": majority, "log_loss": log_loss}
        return Result(dataset, name, (), Trial(0, {}, None), range(1), (Outcome("finished", figures, {}, 0.0, ""),))

    said = conclusion([result("drom", 0.42), result("local", 0.4)])
    assert said.startswith(
        "no learner is better than always giving each site's commoner label: at least 40.00 % errors "
    )
    said = conclusion([result("drom", 0.3), result("local", 0.4), result("drom, uncoupled", 0.1)])
    assert said == "lowest error rate: drom, 30.00 % against 40.00 % of always giving each site's commoner label"
    assert conclusion([result("drom", None)]) == "no learner has a figure in every order"
    by_loss = dataclasses.replace(dataset, measure="log_loss")
    results = [result("drom", 0.3, log_loss=0.4), result("local", 0.45, log_loss=0.2)]
    said = conclusion([dataclasses.replace(each, dataset=by_loss) for each in results])
    assert said == "lowest log loss: drom, 0.400"


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ((0.32, 0.33, 0.32), "lowest error rate: drom, 30.00 %"),
        (
            (0.31, 0.29, 0.32),
            "level, with no difference beyond its error: drom, local; lowest error rate: drom, 30.00 %",
        ),
        (
            (0.30, 0.30, 0.30),
            "level, with no difference beyond its error: drom, local; lowest error rate: drom, 30.00 %",
        ),
    ],
)
def test_learners_whose_difference_is_within_its_error_are_level(
    others: tuple[float, ...], said: str, dataset: ComparisonData
) -> None:
    def result(name: str, errors: tuple[float, ...]) -> Result:
        outcomes = [Outcome("finished", {"error_rate": error, "majority": 0.4}, {}, 0.0, "") for error in errors]
        return Result(dataset, name, (), Trial(0, {}, None), range(len(errors)), tuple(outcomes))

    found = conclusion([result("drom", (0.30, 0.30, 0.30)), result("local", others)])
    assert found.startswith(said)


def test_the_graph_and_tau_of_a_file_are_kept_and_its_parameters_are_not(dataset: ComparisonData) -> None:
    config = dataclasses.replace(dataset.config, algorithm=AlgorithmChoice("local", LocalParameters(eta0=77.0)))
    given = dataclasses.replace(dataset, config=config)
    assert configure(given, "local", draw("local", 0, 0), seed=0).algorithm.parameters.eta0 == 10.0
    peers = configure(given, "drom-d", draw("drom-d", 0, 0), seed=0)
    assert peers.topology is not None
    assert (peers.topology.graph, peers.algorithm.parameters.tau) == ("full", 20)


def test_peers_are_compared_where_a_file_has_them(dataset: ComparisonData) -> None:
    assert "drom-d" not in check_learners([], [dataset])
    with_peers = dataclasses.replace(dataset, config=configure(dataset, "drom-d", {}, seed=0))
    assert check_learners([], [with_peers]) == line_names()
    with pytest.raises(UsageError, match="every learner once, got drom 2 times"):
        check_learners(["drom", "local", "drom"], [dataset])


def test_interrupted_and_resumed_gives_the_same_files(dataset: ComparisonData, tmp_path: Path) -> None:
    names = ("drom", "local", "pooled")
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    with runner_of(whole) as runner:
        write_report(compare([dataset], names, EFFORT, runner).report, whole)
    progress = Watched(5, lambda: signal.raise_signal(signal.SIGINT))
    with (
        pytest.raises(StoppedError, match="5 of 12 runs are finished") as stopped,
        runner_of(halves, progress) as runner,
    ):
        compare([dataset], names, EFFORT, runner)
    assert stopped.value.exit_code == 130
    with runner_of(halves) as runner:
        write_report(compare([dataset], names, EFFORT, runner).report, halves)
        assert (runner.num_reused, runner.num_run) == (5, 12 - 5 + 9 + 3)
    for name in SAME_FILES:
        assert (whole / name).read_bytes() == (halves / name).read_bytes(), name
    rows = rows_of(whole / "compare.csv")
    assert [(row["learner"], row["moves_raw_examples"]) for row in rows] == [
        ("drom", "no"),
        ("local", "no"),
        ("pooled", "yes"),
        ("drom, uncoupled", "no"),
    ]
    pairs = {(row["learner"], row["minus"]) for row in rows_of(whole / "differences.csv")}
    assert pairs == {
        *(("drom", other) for other in ("local", "pooled", "drom, uncoupled")),
        *((other, "local") for other in ("pooled", "drom, uncoupled")),
    }
    assert len(rows_of(whole / "search.csv")) == 3 * EFFORT.settings


@pytest.mark.process
@pytest.mark.slow
def test_processes_of_the_pool_and_of_the_cluster_give_the_same_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text("algorithm: {name: local}\ndata: {dataset: synthetic, tasks: 3, examples: 20, dim: 5}\n")
    common = ("compare", str(file), "--algorithms", "drom,pooled", "--settings", "2", "--orders", "2", "--json")
    for jobs, *more in (("1",), ("2", "--processes", "1")):
        out = tmp_path / jobs
        assert main([*common, "--jobs", jobs, "--out", str(out), *more]) == 0
        document = json.loads(capsys.readouterr().out)
        assert {row["learner"] for row in document["tables"]["compare"]} == {"drom", "pooled", "drom, uncoupled"}
    assert "as real processes: 1 of 1 runs gave the digest of the loop" in document["text"]
    for name in SAME_FILES:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name
    # Were the digests not the same, the command would fail and name the run.
    store = tmp_path / "2" / "runs.jsonl"
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    for line in lines:
        if line["key"].endswith(" processes"):
            line["digest"] = "0" * 64
    store.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main([*common, "--jobs", "1", "--out", str(tmp_path / "2"), "--processes", "1"]) == 1
    assert "error: drom on small, seed 10: the processes did not give the digest" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        {"figures": 3},
        {"figures": {"error_rate": 0.5, "error_rate_seen": "x"}},
        {"curve": {"round": 1}},
        {"digest": 7},
        {"status": "well"},
    ],
)
def test_an_outcome_of_another_kind_is_one_clear_error(
    dataset: ComparisonData, tmp_path: Path, damage: dict[str, object]
) -> None:
    with runner_of(tmp_path) as runner:
        compare([dataset], ("local",), EFFORT, runner)
    store = tmp_path / "runs.jsonl"
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    lines[0]["outcome"] |= damage
    store.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with (
        pytest.raises(UsageError, match="is damaged, or was written by another version"),
        runner_of(tmp_path) as runner,
    ):
        compare([dataset], ("local",), EFFORT, runner)


def test_runs_of_another_numpy_are_not_mixed_in(dataset: ComparisonData, tmp_path: Path) -> None:
    with runner_of(tmp_path) as runner:
        compare([dataset], ("local",), EFFORT, runner)
    store = tmp_path / "runs.jsonl"
    store.write_text(store.read_text().replace(f'"numpy": "{np.__version__}"', '"numpy": "1.0"'))
    with pytest.raises(UsageError, match=r"made with numpy 1\.0"), runner_of(tmp_path) as runner:
        compare([dataset], ("local",), EFFORT, runner)


def test_compare_refuses_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    for arguments, expected in (
        (["digit-sites"], 'got "digit-sites"; did you mean "digits-sites"?'),
        (["synthetic", "--algorithms", "lokal"], 'did you mean "local"?'),
        (["synthetic", "--set", "data.flip=0.1"], "--set replaces values of a YAML file"),
        (["synthetic", "--set", "algorithm.eta0=5"], "--set algorithm.eta0: the comparison searches it"),
        (["synthetic", "--orders", "2", "--processes", "3"], "at most as many as --orders, 2; got 3"),
        (["synthetic", "synthetic"], "every data set once, got synthetic 2 times"),
    ):
        assert main(["compare", *arguments, "--out", out]) == 2
        assert expected in capsys.readouterr().err
