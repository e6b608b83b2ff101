"""Learners of other packages in a comparison: the same examples in the same order, predicted before they are learned.

Those of river and Vowpal Wabbit are skipped where these are not installed (pip install river vowpalwabbit).
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import random_streams, sparse_stream

from drom_net.algorithms.local import LocalParameters, local
from drom_net.cli import main
from drom_net.comparison import outside
from drom_net.comparison.comparison_data import comparison_data, named_config
from drom_net.comparison.jobs import Job, configure
from drom_net.comparison.spaces import draw, line_names, line_of, outside_lines
from drom_net.core.errors import UsageError
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import ReferenceResult, run_reference


class Remembers:
    """A model that scores an example by how many it has learned, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    def score(self, x: Any) -> float:
        self.asked.append(("score", float(np.sum(x[1] if isinstance(x, tuple) else x))))
        return float(sum(what == "learn" for what, _ in self.asked))

    def learn(self, x: Any, y: float) -> None:
        self.asked.append(("learn", y * float(np.sum(x))))


def scores(result: ReferenceResult) -> list[list[float]]:
    return [np.frombuffer(records, dtype=TASK_DTYPE)["score"].tolist() for records in result.task_records]


def rows(stream: TaskStream) -> list[tuple[dict[int, float], float]]:
    return [
        (dict(enumerate(x)), y) for x, y in zip(np.asarray(stream.rows).tolist(), stream.labels.tolist(), strict=True)
    ]


def test_each_example_is_predicted_and_then_learned_in_the_order_of_the_rounds() -> None:
    streams = random_streams([3, 2])
    own, shared = [Remembers(), Remembers()], Remembers()
    made = iter(own)
    apart = run_reference(outside._algorithm("own", lambda: next(made)), streams, seed=0)
    together = run_reference(outside._algorithm("all", lambda: shared), streams, seed=0)
    assert scores(apart) == [[0.0, 1.0, 2.0], [0.0, 1.0]]
    assert scores(together) == [[0.0, 2.0, 4.0], [1.0, 3.0]]
    for model, stream in zip(own, streams, strict=True):
        expected: list[tuple[str, float]] = []
        for x, y in zip(np.asarray(stream.rows), stream.labels, strict=True):
            expected += [("score", float(np.sum(x))), ("learn", y * float(np.sum(x)))]
        assert model.asked[: len(expected)] == expected  # behind them it is asked for its weights


def test_a_run_counts_the_examples_that_ours_counts() -> None:
    streams = random_streams([9, 6])
    ours = run_reference(local(LocalParameters()), streams, seed=0)
    theirs = run_reference(outside._algorithm("all", Remembers), streams, seed=0)
    for one, other in zip(ours.task_records, theirs.task_records, strict=True):
        mine, its = (np.frombuffer(records, dtype=TASK_DTYPE) for records in (one, other))
        for field in ("label", "clean_label", "active"):
            assert mine[field].tolist() == its[field].tolist()


@pytest.mark.parametrize("tool", outside.PACKAGES)
def test_what_is_not_installed_is_one_clear_error(
    tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = outside.PACKAGES[tool]
    monkeypatch.setitem(sys.modules, package, None)
    out = tmp_path / "out"
    assert main(["compare", "synthetic", "--with", tool, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --with {tool}: expected the package {package}, which cannot be imported")
    assert error.rstrip().endswith(f"; pip install {package}")
    assert error.count("\n") == 1
    assert not out.exists()


def test_an_unknown_tool_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "synthetic", "--with", "rivr", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == 'error: --with: expected some of river, vw, got "rivr"\n'


def test_they_are_lines_that_only_with_names() -> None:
    assert not {"river", "river-pooled", "vw"} & set(line_names())
    assert draw("river-pooled", 0, 0) == {"lr": 0.01}
    assert draw("vw", 0, 0) == {"learning_rate": 0.5}
    assert line_of("river-pooled").search.fixed == {"pooled": True}
    with pytest.raises(UsageError, match="some of river, vw"):
        outside_lines(["local"])


@pytest.mark.parametrize("pooled", [False, True])
def test_river_is_driven_as_its_own_loop_would(pooled: bool) -> None:
    pytest.importorskip("river", reason="river is not installed (pip install river)")
    from river import linear_model, optim

    streams = random_streams([12, 12], density=0.6)
    models = [linear_model.LogisticRegression(optimizer=optim.SGD(0.3)) for _ in streams]
    expected: list[list[float]] = [[], []]
    for pair in zip(*map(rows, streams), strict=True):
        for task, (x, y) in enumerate(pair):
            model = models[0 if pooled else task]
            features = {k: value for k, value in x.items() if value}
            p = model.predict_proba_one(features)[True]
            expected[task].append(math.log(p / (1.0 - p)))
            model.learn_one(features, y > 0.0)
    for some in (streams, [*map(sparse_stream, streams)]):
        result = run_reference(outside.river(outside.RiverParameters(lr=0.3, pooled=pooled)), some, seed=0)
        for task, scored in enumerate(scores(result)):
            np.testing.assert_allclose(scored, expected[task], atol=1e-12)
            weights = models[0 if pooled else task].weights
            np.testing.assert_allclose(
                result.tasks[task].model["w"], [weights.get(k, 0.0) for k in range(7)], atol=1e-9
            )


def test_vowpal_wabbit_has_features_of_all_sites_and_of_each() -> None:
    pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed (pip install vowpalwabbit)")
    (stream,) = random_streams([40])
    opposite = TaskStream(stream.rows, -stream.labels, -stream.clean)
    for other, alike in ((stream, True), (opposite, False)):
        result = run_reference(outside.vw(), [stream, other], seed=0)
        W = np.stack([task.model["w"] for task in result.tasks])
        cosine = W[0] @ W[1] / np.linalg.norm(W[0]) / np.linalg.norm(W[1])
        assert cosine > 0.9 if alike else cosine < 0.0
    first = scores(run_reference(outside.vw(), [stream, stream], seed=0))
    assert (
        first[0][0] == 0.0 != first[1][0]
    )  # the second site predicts the first example after the first has learned it
    assert first == scores(run_reference(outside.vw(), [stream, stream], seed=0))


def test_compare_has_them_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("river", reason="river is not installed (pip install river)")
    pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed (pip install vowpalwabbit)")
    words = ["--algorithms", "local", "--with", "river,vw", "--settings", "2", "--tuning-orders", "1", "--orders", "2"]
    words += ["--processes", "1", "--jobs", "1", "--out", str(tmp_path / "out"), "--json"]
    file = tmp_path / "small.yaml"
    data = {"dataset": "synthetic", "tasks": 3, "examples": 20, "dim": 4}
    file.write_text(json.dumps({"algorithm": {"name": "local"}, "data": data}), encoding="utf-8")
    assert main(["compare", str(file), *words]) == 0
    report = json.loads(capsys.readouterr().out)
    told = {row["learner"]: row for row in report["tables"]["compare"]}
    assert list(told) == ["local", "river", "river-pooled", "vw"]
    assert [row["moves_raw_examples"] for row in told.values()] == ["no", "no", "yes", "yes"]
    assert len({row["majority_mean"] for row in told.values()}) == 1  # the same examples in the same order
    assert "as real processes: 1 of 1 runs" in report["text"]
    assert all(version in report["text"] for version in outside.versions())


def test_a_run_of_one_is_a_job_like_any_other() -> None:
    pytest.importorskip("river", reason="river is not installed (pip install river)")
    config = named_config("synthetic")
    data = dataclasses.replace(config.data, tasks=3, examples=30, dim=6)  # type: ignore[call-arg]
    dataset = comparison_data(dataclasses.replace(config, data=data))
    outcomes = [Job(dataset, configure(dataset, "river", {"lr": 0.3}, seed=4), "").run(lambda: False) for _ in range(2)]
    assert outcomes[0].digest == outcomes[1].digest
    assert outcomes[0].figures == outcomes[1].figures
