"""Made-up sites: their models are what their kind says, whose errors count, and all of it quickly."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from drom_net.data.stream import TaskStream
from reproduction.__main__ import main
from reproduction.made_up import (
    CASES,
    LEARNERS,
    QUICK_SITES,
    Case,
    Models,
    alike,
    error_of,
    opposite,
    rank_3,
    streams_of,
)

ALIKE = Case("alike", alike, sites=6, examples=400, flip=0.1)


def rows_of(stream: TaskStream) -> np.ndarray:
    assert isinstance(stream.rows, np.ndarray)
    return stream.rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_draw_is_the_same_each_time_and_another_one_is_not(case: Case) -> None:
    first, again, other = (streams_of(case, draw) for draw in (0, 0, 1))
    assert [stream.digest() for stream in first] == [stream.digest() for stream in again]
    assert not {stream.digest() for stream in first} & {stream.digest() for stream in other}
    assert len({stream.digest() for stream in first}) == case.sites
    assert {rows_of(stream).shape for stream in first} == {(case.examples, case.dim)}
    np.testing.assert_allclose(np.linalg.norm(rows_of(first[0]), axis=1), 1.0)


@pytest.mark.parametrize(("models", "rank"), [(alike, 1), (opposite, 1), (rank_3, 3)])
def test_models_have_the_rank_of_their_kind(models: Models, rank: int) -> None:
    assert np.linalg.matrix_rank(models(np.random.default_rng(0), 8, 5)) == rank


def test_opposite_clusters_are_halves() -> None:
    models = opposite(np.random.default_rng(0), 6, 5)
    assert (models[:3] == models[0]).all()
    assert (models[3:] == -models[0]).all()


def test_the_share_of_flipped_labels_is_what_was_asked_for() -> None:
    streams = streams_of(ALIKE, 0)
    flipped = np.mean([stream.labels != stream.clean for stream in streams])
    assert flipped == pytest.approx(ALIKE.flip, abs=0.02)
    model, *_ = np.linalg.lstsq(
        np.concatenate([rows_of(stream) for stream in streams]),
        np.concatenate([stream.clean for stream in streams]),
    )
    agree = [np.mean(np.sign(rows_of(stream) @ model) == stream.clean) for stream in streams]
    assert min(agree) > 0.95  # one model for all sites


def test_the_last_site_is_random_where_one_is_bad_and_does_not_count() -> None:
    case = dataclasses.replace(ALIKE, flip=0.0, bad=True)
    good, bad = streams_of(dataclasses.replace(case, bad=False), 0), streams_of(case, 0)
    assert [a.digest() == b.digest() for a, b in zip(good, bad, strict=True)] == [True] * 5 + [False]
    assert np.mean(bad[-1].clean) == pytest.approx(0.0, abs=0.15)
    run = ("local", {"eta0": 10.0})  # it hears nobody: with or without the last site the others' errors are the same
    of_others = error_of(dataclasses.replace(case, bad=False), good[:-1], *run)
    assert error_of(case, bad, *run) == of_others != error_of(dataclasses.replace(case, bad=False), bad, *run)


def test_all_of_it_is_made_quickly(tmp_path: Path) -> None:
    assert main(["made-up", "--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert "Made with --quick" in (tmp_path / "made-up" / "README.md").read_text()
    with (tmp_path / "made-up" / "made-up.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["sites_are"], row["learner"]) for row in rows] == [
        (case.name, learner) for case in CASES for learner in LEARNERS
    ]
    assert {int(row["sites"]) for row in rows} == {QUICK_SITES}
    assert all(0.0 < float(row["error_percent"]) < 100.0 for row in rows)
    assert [row["adadrom_minus_it_points"] == "" for row in rows] == [row["learner"] == "adadrom" for row in rows]
    pooled = {row["sites_are"]: float(row["error_percent"]) for row in rows if row["learner"] == "pooled *"}
    assert pooled["two opposite clusters"] > 40.0 > pooled["one bad site"]
