"""Drift, a late task, a bad site: what their runs are made of, what is counted, and all of it quickly."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drom_net.algorithms.base import CentralInfo, Contribution, ContributionKind, Exchange, SyncRounds
from drom_net.algorithms.features import SparseVectors, numbers
from drom_net.algorithms.local import local
from drom_net.cluster.prepare import Prepared
from drom_net.comparison.comparison_data import ComparisonData, comparison_data, named_config
from drom_net.comparison.figures import Outcome
from drom_net.data.settings import Synthetic
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference
from reproduction import cold_start, drift, poisoning, scenes
from reproduction.__main__ import main
from reproduction.cold_start import Late
from reproduction.drift import Change, Drift
from reproduction.poisoning import ABSENT, FLIPPED, Bad
from reproduction.scenes import (
    BIN,
    Scene,
    SceneJob,
    Tally,
    by_own_examples,
    errors_by_example,
    half_of,
    in_turn,
    poisoned,
    recovery,
    scene_job,
    splice,
)

NUM_TASKS, EXAMPLES = 3, 40


@pytest.fixture
def dataset() -> ComparisonData:
    config = named_config("synthetic")
    data = Synthetic(tasks=NUM_TASKS, examples=EXAMPLES, dim=6, alignment="spread")
    return comparison_data(dataclasses.replace(config, data=data))


def prepared(dataset: ComparisonData) -> Prepared:
    return scene_job(dataset, "local, eta0 10", 3, Scene()).prepare()


def a_stream(first: float, *, rounds: int | None = None, num: int = 4) -> TaskStream:
    """A stream whose rows count from `first`, with labels +1."""
    rows = first + np.arange(float(num)).reshape(num, 1)
    return TaskStream(rows, np.ones(num), np.ones(num), rounds)


def seen(stream: TaskStream) -> list[float | None]:
    """The one feature of each round's example."""
    found: list[float | None] = []
    for t in range(1, stream.last_round() + 1):
        example: Any = stream.example_at(t)
        found.append(None if example is None else float(example[0][0]))
    return found


# Streams --------------------------------------------------------------------------------------------


def test_a_spliced_stream_has_one_before_and_another_after() -> None:
    later = dataclasses.replace(a_stream(20.0), labels=-np.ones(4), clean=-np.ones(4))
    stream = splice(a_stream(10.0), later, 2)
    assert seen(stream) == [10.0, 11.0, 22.0, 23.0]
    examples = [stream.example_at(t) for t in range(1, 5)]
    assert [example[1:] for example in examples if example is not None] == [(1.0, 1.0)] * 2 + [(-1.0, -1.0)] * 2


def test_a_late_stream_has_the_same_examples_in_the_same_rounds_but_for_the_first_ones() -> None:
    usual = a_stream(10.0, rounds=8)
    assert seen(usual) == [None, 10.0, None, 11.0, None, 12.0, None, 13.0]
    assert seen(splice(None, usual, 4)) == [None, None, None, None, None, 12.0, None, 13.0]


def test_each_task_is_taken_about_as_often() -> None:
    taken = [task for order in range(10) for task in in_turn(order, 3, 15)]
    assert sorted(taken) == sorted([*range(15)] * 2)
    assert in_turn(0, 5, 3) == [0, 1, 2]


def test_all_tasks_change_at_the_half(dataset: ComparisonData) -> None:
    usual = prepared(dataset)
    half = half_of(usual)
    changed = Drift(tuple(range(NUM_TASKS))).streams(usual)
    for task, stream in enumerate(changed):
        follower = usual.streams[(task + 1) % NUM_TASKS]
        assert seen(stream) == [*seen(usual.streams[task])[:half], *seen(follower)[half:]]


@pytest.mark.parametrize(("task", "left"), [(0, [0, 2]), (1, [0, 1]), (2, [1, 2])])
def test_a_task_that_takes_over_another_ones_rows_is_without_that_one(
    dataset: ComparisonData, task: int, left: list[int]
) -> None:
    usual = prepared(dataset)
    half, follower = half_of(usual), (task + 1) % NUM_TASKS
    scene = Drift((task,), alone=True)
    [place] = scene.measured(NUM_TASKS)
    streams = scene.streams(usual)
    assert left[place] == task
    assert len(streams) == NUM_TASKS - 1
    for stream, number in zip(streams, left, strict=True):
        own = seen(usual.streams[number])
        assert seen(stream) == ([*own[:half], *seen(usual.streams[follower])[half:]] if number == task else own)
    from_start = dataclasses.replace(scene, from_start=True).streams(usual)
    assert seen(from_start[place]) == seen(usual.streams[follower])


def test_a_new_question_is_asked_in_the_same_order(dataset: ComparisonData) -> None:
    """Rows of the data set that was given are followed by those of the other one with the same numbers."""
    new = dataclasses.replace(Synthetic(tasks=NUM_TASKS, examples=EXAMPLES, dim=6), data_seed=1)
    usual = prepared(dataset)
    other = prepared(dataclasses.replace(dataset, config=dataclasses.replace(
        dataset.config, data=dataclasses.replace(new, alignment="spread"))))  # fmt: skip
    half = half_of(usual)
    streams = Drift((1,), new=new, alone=True).streams(usual)
    assert len(streams) == NUM_TASKS
    assert seen(streams[1]) == [*seen(usual.streams[1])[:half], *seen(other.streams[1])[half:]]
    assert seen(streams[1]) != seen(usual.streams[1])
    assert streams[0] is usual.streams[0]


def test_only_the_late_task_is_late(dataset: ComparisonData) -> None:
    usual = prepared(dataset)
    streams = Late((1,)).streams(usual)
    half = half_of(usual)
    assert seen(streams[1]) == [*[None] * half, *seen(usual.streams[1])[half:]]
    assert streams[0] is usual.streams[0] and streams[2] is usual.streams[2]


# Learners -------------------------------------------------------------------------------------------


def test_local_does_not_count_the_rounds_without_an_example() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3))
    labels = np.where(rows[:, 0] > 0.0, 1.0, -1.0)
    own = run_reference(local(), [TaskStream(rows, labels, labels)], seed=0)
    for algorithm, same in ((by_own_examples(local()), True), (local(), False)):
        spread = run_reference(algorithm, [TaskStream(rows, labels, labels, 61)], seed=0)
        assert np.array_equal(spread.tasks[0].model["w"], own.tasks[0].model["w"]) is same


@pytest.mark.parametrize("squares", [False, True])
def test_the_vectors_of_the_bad_task_alone_are_multiplied(squares: bool) -> None:
    arrived: dict[int, Contribution] = {}

    def central_step(state: None, contributions: Any, members: Any = None) -> Any:
        arrived.update(contributions)
        return state, {}, CentralInfo(0.0, np.zeros(2), 0.0)

    algorithm = local()._replace(name="adadrom", exchange=Exchange(SyncRounds(1)), central_step=central_step)
    values = np.array([[3.0], [1.0], [2.0]])
    dense = np.array([[1.0, -2.0], [5.0, 0.0], [0.0, 4.0]])
    for block in (dense, SparseVectors(np.array([4]), values, 9)):
        sent = Contribution(ContributionKind.VECTORS, (block,))
        poisoned(algorithm, 1, -1000.0, squares=squares).central_step(None, {0: sent, 1: sent})
        assert list(arrived) == [0, 1]
        assert arrived[0] is sent
        (bad,) = arrived[1].vectors
        sign = -1000.0 if squares else 1000.0
        assert np.array_equal(numbers(bad), numbers(block) * [[-1000.0], [-1000.0], [sign]])
    assert values[0, 0] == 3.0 and dense[0, 0] == 1.0


def test_a_learner_without_squares_sends_single_vectors() -> None:
    def central_step(state: None, contributions: Any, members: Any = None) -> Any:
        return contributions, {}, CentralInfo(0.0, np.zeros(2), 0.0)

    algorithm = poisoned(local()._replace(central_step=central_step), 0, 1000.0, squares=False)
    arrived, *_ = algorithm.central_step(None, {0: Contribution(ContributionKind.VECTORS, (np.array([1.0, -2.0]),))})
    assert arrived[0].vectors[0].tolist() == [1000.0, -2000.0]


def test_a_vector_that_is_no_sum_of_squares_is_noticed() -> None:
    """Should the order of a contribution's vectors change, the attack must not silently become another one."""
    algorithm = poisoned(local()._replace(name="adadrom"), 0, -1.0, squares=False)
    sent = Contribution(ContributionKind.VECTORS, (np.array([[1.0], [1.0], [-1.0]]),))
    with pytest.raises(AssertionError, match="the last row of adadrom"):
        algorithm.central_step(None, {0: sent})


def test_flipped_labels_are_seen_by_the_bad_task_alone(dataset: ComparisonData) -> None:
    usual = prepared(dataset)
    streams = Bad((0, 2), 1, FLIPPED).streams(usual)
    assert np.array_equal(streams[1].labels, -usual.streams[1].labels)
    assert np.array_equal(streams[1].clean, usual.streams[1].clean)
    assert streams[0] is usual.streams[0]


def test_a_site_that_is_not_there_is_not_counted(dataset: ComparisonData) -> None:
    usual = prepared(dataset)
    scene = Bad((0, 2), 1, ABSENT)
    streams = scene.streams(usual)
    measured = [streams[place] for place in scene.measured(NUM_TASKS)]
    assert len(streams) == NUM_TASKS - 1
    assert [seen(stream) for stream in measured] == [seen(usual.streams[0]), seen(usual.streams[2])]


# What is counted ------------------------------------------------------------------------------------


def records(rounds: list[int], wrong: list[bool]) -> bytes:
    rows = np.zeros(len(rounds) + 1, dtype=TASK_DTYPE)
    rows["round"] = [*rounds, 99]
    rows["active"] = [1] * len(rounds) + [0]
    rows["score"] = [-0.5 if one else 0.5 for one in wrong] + [-1.0]
    rows["clean_label"] = 1.0
    rows["label"] = -1.0  # what the learner saw does not count
    return rows.tobytes()


def outcome(curve: dict[str, list[float | None]]) -> Outcome:
    return Outcome("finished", {}, {}, 0.0, "", curve=curve)


def test_errors_are_counted_by_a_tasks_own_examples_since_the_half() -> None:
    rounds = [2, 4, 6, 8, 9, 10, 11, 12, 13]  # three before the half; five in the first bin after it, then one
    curve = errors_by_example([records(rounds, [True, False, False, True, True, False, False, False, True])], 6)
    assert curve == {"bin": [-1, 0, 1], "examples": [3, 5, 1], "errors": [1, 2, 1]}
    tally = Tally([outcome(curve), outcome(curve)])
    assert tally.counts(0) == (12, 6)
    assert tally.rate(0, BIN) == 2 / 5
    assert tally.rate(-BIN, 0) == 1 / 3
    assert tally.rate(2 * BIN) is None
    assert tally.common == BIN  # fewer than half of the first bin's examples are in the second


def flat(*errors: int) -> Tally:
    """A tally of bins of 1,000 examples with these errors."""
    places: list[float | None] = list(range(len(errors)))
    return Tally([outcome({"bin": places, "examples": [1000] * len(errors), "errors": list(errors)})])


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ((400, 120, 109, 200), 2 * BIN),  # within a point
        ((400, 300, 111, 200), None),
        ((109, 400, 400, 400), 0),
    ],
)
def test_an_error_is_back_within_a_point(ours: tuple[int, ...], expected: int | None) -> None:
    assert recovery(flat(*ours), flat(100, 100, 100, 100), BIN) == expected


def test_an_error_is_back_within_a_tenth_over_the_whole_width() -> None:
    yardstick = flat(300, 300, 300)
    assert recovery(flat(340, 331, 320), yardstick, BIN) == 2 * BIN
    assert recovery(flat(340, 331, 320), yardstick, 2 * BIN) == BIN
    assert recovery(flat(340, 331, 320), yardstick, 4 * BIN) is None  # there are not so many
    assert recovery(flat(340, 331, 320), 0.3, BIN) == 2 * BIN


def test_a_scene_is_part_of_the_key(dataset: ComparisonData) -> None:
    of = [Scene((0,)), Scene((1,)), Late((0,)), Bad((0,), 1, FLIPPED), Bad((0,), 2, FLIPPED), Drift((0,))]
    keys = {scene_job(dataset, "drom", 3, scene).key for scene in of}
    assert len(keys) == len(of)


def test_where_nobody_is_bad_the_run_is_the_usual_one(dataset: ComparisonData) -> None:
    jobs: list[SceneJob] = [
        scene_job(dataset, "adadrom", 3, scene) for scene in (Scene((0,)), Bad((0,), 1), Bad((0,), 1, FLIPPED))
    ]
    usual, nobody, flipped = (job.run(lambda: False) for job in jobs)
    assert usual.digest == nobody.digest != flipped.digest
    assert Tally([usual]).counts()[0] == EXAMPLES


# All of it ------------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_all_three_are_made_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new = Synthetic(data_seed=1)
    changes = (Change("synthetic", "another concept", new, 1, 5), Change("digits-sites", "another site", None, 1, 5))
    monkeypatch.setattr(drift, "CHANGES", changes)
    monkeypatch.setattr(cold_start, "LATE", {"synthetic": 2})
    monkeypatch.setattr(poisoning, "ROUNDS", {"digits-sites": 20})
    names = ["drift", "cold-start", "poisoning"]
    assert main([*names, "--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    for name in names:
        assert (tmp_path / name / f"{name}.png").stat().st_size > 10_000
        assert "Made with --quick" in (tmp_path / name / "README.md").read_text()

    recovered = rows_of(tmp_path / "drift" / "drift.csv")
    parts = [(row["data"], row["who_changes"]) for row in recovered[:: len(drift.SHOWN)]]
    assert parts == [(data, who) for data in ("synthetic", "digits-sites") for who in ("all tasks", "one task")]
    changed = [row for row in recovered if row["data"] == "synthetic"]
    assert all(float(row["after_percent"]) > float(row["after_new_percent"]) for row in changed)
    windows = rows_of(tmp_path / "drift" / "drift-windows.csv")
    assert [(row["from_example"], row["to_example"]) for row in windows[:3]] == [("-19", "0"), ("1", "5"), ("6", "10")]

    late = rows_of(tmp_path / "cold-start" / "cold-start.csv")
    assert [row["learner"] for row in late] == list(cold_start.SHOWN)
    assert all(0.0 < float(row["all_percent"]) < 100.0 for row in late)

    poison = rows_of(tmp_path / "poisoning" / "poisoning.csv")
    assert {row["attack"] for row in poison if row["learner"] == "adadrom"} == set(poisoning.ATTACKS)
    assert {row["attack"] for row in poison if row["learner"].startswith("local")} == {"nobody"}
    assert all(row["nobody_bad_percent"] for row in poison)


def test_their_names_say_which_data_they_need(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr("reproduction.catalogue.check_public", lambda data, base: asked.append(data.dataset))
    from reproduction.catalogue import check_data

    check_data(["poisoning"])
    assert asked == ["digits-sites", "mhci", "spam-ecml2006", "wisdm", "spam-enron"]
    assert scenes.data_of("mhci-one-hot").features == "one-hot"  # type: ignore[attr-defined]
