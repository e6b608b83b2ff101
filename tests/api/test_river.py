"""RiverClassifier: river's own checks, the site in x or as an argument, and the loop's bits."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("river", reason="river is not installed: its own checks are not run")

from river import evaluate, metrics, preprocessing
from river.checks import yield_checks

from drom_net import RiverClassifier
from drom_net.algorithms import BUILTIN
from drom_net.core.errors import ConfigError, DataError
from drom_net.data.live import Decided, LiveStream
from drom_net.data.preprocessing import Preprocessing
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference

STARS = [name for name, learner in BUILTIN.items() if "star" in learner.on]
SITES = ("north", "south", "west")
CHECKS = list(yield_checks(RiverClassifier()))


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.filterwarnings("default")
def test_rivers_own_checks(check: Any) -> None:
    model = RiverClassifier()
    assert check.__name__ not in model._unit_test_skips()
    check(model)


def rows_of(rows: int) -> list[tuple[dict[str, Any], bool]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(rows):
        x = dict(zip("abcd", rng.standard_normal(4).tolist(), strict=True))
        color = str(rng.choice(["red", "blue"]))
        y = bool(x["a"] - x["b"] + (color == "red") - 0.5 >= 0.0)
        found.append(({"site": str(rng.choice(SITES)), "color": color, **x}, y))
    return found


@pytest.mark.parametrize("learner", STARS)
def test_rows_have_the_digest_and_the_scores_of_the_loop(learner: str) -> None:
    """Each row is a round in which the other sites are idle."""
    rows = rows_of(90)
    model = RiverClassifier(learner, sites=SITES, site_feature="site", places=16)
    scores = []
    for x, y in rows:
        place, row = model._read(x, None)
        scores.append(model._online.score(place, row))
        assert model.predict_one(x) == (scores[-1] >= 0.0)
        model.learn_one(x, y)
    streams = []
    for site in SITES:
        idle = tuple(t for t, (x, _) in enumerate(rows, start=1) if x["site"] != site)
        stream = LiveStream(17, Decided(idle, len(rows)), preprocessing=Preprocessing(16, normalize=True, bias=1.0))
        for x, y in rows:
            if x["site"] == site:
                stream.add(model._row(x), 1.0 if y else -1.0)
        streams.append(stream)
    result = run_reference(BUILTIN[learner].make(), streams, seed=0)
    records = [np.frombuffer(its, TASK_DTYPE) for its in result.task_records]
    assert scores == [float(records[SITES.index(x["site"])]["score"][t]) for t, (x, _) in enumerate(rows)]
    assert model._online.digest == result.digest


def test_the_site_may_be_an_argument() -> None:
    rows = rows_of(60)
    one, other = RiverClassifier(sites=SITES, site_feature="site"), RiverClassifier(sites=SITES)
    for x, y in rows:
        bare = {name: value for name, value in x.items() if name != "site"}
        assert one.predict_proba_one(x) == other.predict_proba_one(bare, site=x["site"])
        one.learn_one(x, y)
        other.learn_one(bare, y, site=x["site"])
    assert one._online.digest == other._online.digest


def test_it_learns_within_river() -> None:
    model = preprocessing.StandardScaler() | RiverClassifier()
    data = [({name: x[name] for name in "abcd"}, y) for x, y in rows_of(600)]
    assert evaluate.progressive_val_score(data, model, metrics.Accuracy()).get() > 0.75


def test_labels_may_be_others() -> None:
    model = RiverClassifier(labels=("ham", "spam"))
    for _ in range(20):
        model.learn_one({"offer": 1.0}, "spam")
        model.learn_one({"meeting": 1.0}, "ham")
    assert model.predict_one({"offer": 1.0}) == "spam"
    assert list(model.predict_proba_one({"meeting": 1.0})) == ["ham", "spam"]
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba_one({"offer": 1.0}) == model.predict_proba_one({"offer": 1.0})


def test_wrong_arguments_have_one_clear_error() -> None:
    model = RiverClassifier(sites=SITES)
    with pytest.raises(DataError, match='site=: expected the site of the row: "north", "south", "west", got none'):
        model.learn_one({"a": 1.0}, True)
    with pytest.raises(DataError, match='got "norht"; did you mean "north"'):
        model.predict_one({"a": 1.0}, site="norht")
    with pytest.raises(DataError, match="y: expected False or True, got 'yes'"):
        model.learn_one({"a": 1.0}, "yes", site="north")
    with pytest.raises(DataError, match='feature "a": expected a number, got nothing'):
        model.learn_one({"a": None}, True, site="north")
    with pytest.raises(DataError, match='feature "a": expected a finite number, got inf'):
        model.learn_one({"a": float("inf")}, True, site="north")
    with pytest.raises(ConfigError, match="learner=: expected one of adadrom"):
        RiverClassifier("adadorm")
    with pytest.raises(ConfigError, match="learner=: expected a section topology beside drom-d"):
        RiverClassifier("drom-d")
