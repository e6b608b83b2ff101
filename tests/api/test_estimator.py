"""MultiTaskClassifier: scikit-learn's own checks, tasks as an argument, by routing or as a column; the loop's bits."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import drom_net
from drom_net import MultiTaskClassifier
from drom_net.algorithms import BUILTIN
from drom_net.api.online import Online
from drom_net.core.errors import ConfigError, DataError, DivergedError, UsageError
from drom_net.data.live import Decided, LiveStream
from drom_net.data.preprocessing import Preprocessing
from drom_net.learning.reference import Star, run_reference

STARS = [name for name, learner in BUILTIN.items() if "star" in learner.on]
SITES = ("north", "south", "west")


def expected_failures(estimator: Any) -> dict[str, str]:
    """Of a learner whose probabilities are calibrated."""
    if BUILTIN[estimator.learner].make().log_odds is None:
        return {}
    why = "the label is the sign of the score, as in every run; the probability is calibrated beside it (near 0.5)"
    return {"check_classifiers_train": why}


@pytest.mark.slow
@parametrize_with_checks(
    [MultiTaskClassifier(), MultiTaskClassifier("drom", scaling="none"), MultiTaskClassifier("local", shuffle=True)],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("default")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def rows_of(rows: int = 120, seed: int = 0) -> tuple[Any, Any, Any]:
    """(X, y, tasks), as many rows of each of three related sites, in a random order."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 4))
    y = np.where(X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.3 * rng.standard_normal(rows) >= 0.0, "good", "bad")
    return X, y, rng.permutation(np.repeat(SITES, rows // 3))


@pytest.mark.parametrize("learner", STARS)
def test_fit_and_partial_fit_have_the_digest_of_the_loop(learner: str) -> None:
    X, y, tasks = rows_of()
    by_site = {site: (X[tasks == site], y[tasks == site]) for site in SITES}
    run = drom_net.fit(by_site, learner=learner, positive="good")
    whole = MultiTaskClassifier(learner).fit(X, y, tasks=tasks)
    assert whole.digest_ == run.digest
    parts = MultiTaskClassifier(learner)
    for start in range(0, 40, 8):  # of each site as many rows a batch
        chosen = np.sort(np.concatenate([np.flatnonzero(tasks == site)[start : start + 8] for site in SITES]))
        parts.partial_fit(X[chosen], y[chosen], tasks=tasks[chosen], classes=["bad", "good"])
    assert parts.digest_ == run.digest
    for site in SITES:
        score = run.site(site).decision_function(X)
        for model in (whole, parts):
            assert np.array_equal(model.decision_function(X, tasks=[site] * len(X)), score)
            assert np.array_equal(model.predict(X, tasks=[site] * len(X)), run.predict(site, X))
            assert np.array_equal(model.predict_proba(X, tasks=[site] * len(X)), run.predict_proba(site, X))


@pytest.mark.parametrize("learner", STARS)
def test_rows_one_by_one_have_the_digest_of_the_loop_with_idle_rounds(learner: str) -> None:
    """Each call is a round in which the other tasks are idle."""
    X, y, tasks = rows_of(60)
    model = MultiTaskClassifier(learner, scaling="none")
    for x, label, task in zip(X, y, tasks, strict=True):
        model.partial_fit([x], [label], tasks=[task], classes=["bad", "good"], task_names=SITES)
    streams = []
    for site in SITES:
        idle = tuple((np.flatnonzero(tasks != site) + 1).tolist())
        stream = LiveStream(5, Decided(idle, len(X)), preprocessing=Preprocessing(4, 4, normalize=True, bias=1.0))
        for x, label in zip(X[tasks == site], y[tasks == site], strict=True):
            stream.add(x, 1.0 if label == "good" else -1.0)
        streams.append(stream)
    result = run_reference(BUILTIN[learner].make(), streams, seed=0)
    assert model.digest_ == result.digest
    for task, name in zip(result.tasks, SITES, strict=True):
        found = model._online.model(SITES.index(name)).vectors
        assert {key: vector.tobytes() for key, vector in found.items()} == {
            key: vector.tobytes() for key, vector in task.model.items()
        }


@pytest.mark.parametrize("learner", STARS)
def test_a_pickle_goes_on_as_the_model_does(learner: str) -> None:
    X, y, tasks = rows_of()
    model = MultiTaskClassifier(learner).fit(X[:60], y[:60], tasks=tasks[:60])
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X[60:], y[60:], tasks=tasks[60:])
    assert again.digest_ == model.digest_
    assert np.array_equal(again.predict_proba(X, tasks), model.predict_proba(X, tasks))


def test_fit_then_partial_fit_goes_on() -> None:
    """The rows of a file in two halves are those of the file, where all sites have as many."""
    X, y, tasks = rows_of()
    order = np.argsort(tasks, kind="stable").reshape(3, 40)
    first, second = order[:, :25].ravel(), order[:, 25:].ravel()
    model = MultiTaskClassifier().fit(X[first], y[first], tasks=tasks[first])
    model.partial_fit(X[second], y[second], tasks=tasks[second])
    assert model.digest_ == MultiTaskClassifier().fit(X, y, tasks=tasks).digest_


def test_memory_does_not_grow_with_the_rows() -> None:
    X, y, tasks = rows_of(1200)
    model = MultiTaskClassifier("drom")  # (adadrom remembers up to 600 rows of a site)
    sizes = []
    for start in range(0, 1200, 300):
        part = slice(start, start + 300)
        model.partial_fit(X[part], y[part], tasks=tasks[part])
        model._online._forget()
        sizes.append(len(pickle.dumps(model)))
        assert all(not stream._examples and not stream._idle for stream in model._online._streams)
    assert max(sizes[1:]) < 1.2 * sizes[0]


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_tasks_are_routed_through_a_pipeline_and_a_search() -> None:
    X, y, tasks = rows_of()
    model = MultiTaskClassifier(scaling="none").set_fit_request(tasks=True).set_predict_request(tasks=True)
    model = model.set_score_request(tasks=True)
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline.fit(X, y, tasks=tasks)
    scaled = StandardScaler().fit_transform(X)
    assert np.array_equal(
        pipeline.predict(X, tasks=tasks), clone(model).fit(scaled, y, tasks=tasks).predict(scaled, tasks=tasks)
    )
    scores = cross_val_score(model, X, y, params={"tasks": tasks}, cv=3)
    assert scores.min() > 0.6
    search = GridSearchCV(model, {"learner": ["adadrom", "local"]}, cv=2).fit(X, y, tasks=tasks)
    assert search.best_params_["learner"] in ("adadrom", "local")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "array", "object", "sparse"])
def test_a_column_may_have_the_task(kind: str) -> None:
    X, y, tasks = rows_of()
    numbers = np.array([SITES.index(task) for task in tasks])
    columns = {f"x{place}": X[:, place] for place in range(4)} | {"site": tasks}
    if kind in ("array", "object", "sparse"):
        import scipy.sparse

        own: Any = numbers if kind != "object" else tasks.astype(object)
        table: Any = np.column_stack([X[:, :1].astype(own.dtype if kind == "object" else float), own, X[:, 1:]])
        table = scipy.sparse.csr_matrix(table) if kind == "sparse" else table
        model = MultiTaskClassifier(task_column=1).fit(table, y)
        X_same = scipy.sparse.csr_matrix(X) if kind == "sparse" else X
        other = MultiTaskClassifier().fit(X_same, y, tasks=numbers if kind != "object" else tasks)
    else:
        module = pytest.importorskip(kind)
        table = module.table(columns) if kind == "pyarrow" else module.DataFrame(columns)
        model = MultiTaskClassifier(task_column="site").fit(table, y)
        other = MultiTaskClassifier().fit(X, y, tasks=tasks)
    assert model.n_features_in_ == 4
    assert model.digest_ == other.digest_
    assert np.array_equal(model.predict(table), other.predict(X, tasks if kind not in ("array", "sparse") else numbers))
    assert model.score(table, y) > 0.7


def test_sparse_and_dense_rows_may_be_asked_for_in_turn() -> None:
    from scipy.sparse import csr_matrix

    X, y, _ = rows_of()
    X = X * (np.abs(X) > 0.5)
    dense, sparse = MultiTaskClassifier().fit(X, y), MultiTaskClassifier().fit(csr_matrix(X), y)
    for model in (dense, sparse):
        assert np.array_equal(model.predict_proba(csr_matrix(X)), model.predict_proba(X))


def test_parameters_reach_the_learner() -> None:
    X, y, tasks = rows_of()
    digests = {
        MultiTaskClassifier("drom", **options).fit(X, y, tasks=tasks).digest_
        for options in (
            {},
            {"parameters": {"eta0": 3.0}},
            {"scaling": "site"},
            {"normalize": False, "scaling": "running"},
            {"bias": 0.0},
            {"passes": 2},
            {"shuffle": True},
            {"shuffle": True, "random_state": 1},
        )
    }
    assert len(digests) == 8
    drawn = [
        MultiTaskClassifier(shuffle=True, random_state=np.random.RandomState(5)).fit(X, y, tasks=tasks).digest_
        for _ in range(2)
    ]
    assert drawn[0] == drawn[1]


def test_wrong_arguments_have_one_clear_error() -> None:
    X, y, tasks = rows_of()
    model = MultiTaskClassifier().fit(X, y, tasks=tasks)
    with pytest.raises(
        DataError, match='tasks=, row 1: expected one of the tasks "north", "south", "west", got "norht"; did'
    ):
        model.predict(X[:2], tasks=["north", "norht"])
    with pytest.raises(DataError, match="tasks=: expected the task of each row"):
        model.predict(X)
    with pytest.raises(DataError, match='got "overseas"; partial_fit takes all tasks in its first call'):
        model.partial_fit(X[:1], y[:1], tasks=["overseas"])
    with pytest.raises(DataError, match="as the name of a task"):
        model.fit(X, y, tasks=[None] * len(X))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y, tasks=tasks[:3])
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        MultiTaskClassifier().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="classes= says both"):
        MultiTaskClassifier().partial_fit(X[:2], ["a", "a"])
    with pytest.raises(ValueError, match=r"expected the classes \['bad', 'good'\], got \['odd'\]"):
        model.partial_fit(X[:2], ["good", "odd"], tasks=tasks[:2])
    with pytest.raises(ConfigError, match="scaling=: expected running or none for partial_fit"):
        MultiTaskClassifier(scaling="site").partial_fit(X, y)
    with pytest.raises(ConfigError, match="learner=: expected one of adadrom"):
        MultiTaskClassifier("adadorm").fit(X, y)
    with pytest.raises(ConfigError, match="learner=: expected a section topology beside drom-d"):
        MultiTaskClassifier("drom-d").fit(X, y)
    with pytest.raises(ConfigError, match=r'parameters\["eta"\]'):
        MultiTaskClassifier(parameters={"eta": 1}).fit(X, y)
    with pytest.raises(ConfigError, match="tasks=: expected none beside task_column="):
        MultiTaskClassifier(task_column=0).fit(X, y, tasks=tasks)
    with pytest.raises(DataError, match="task_column=: expected the number of a column of X, got 9"):
        MultiTaskClassifier(task_column=9).fit(X, y)
    with pytest.raises(DataError, match=r'X: expected a frame with the column "site" \(task_column=\), got a ndarray'):
        MultiTaskClassifier(task_column="site").fit(X, y)
    with pytest.raises(NotFittedError):
        MultiTaskClassifier().digest_  # noqa: B018


@pytest.mark.parametrize("missing", [None, np.nan, np.float32("nan"), np.datetime64("NaT"), "NaT", "NA"])
def test_a_missing_task_is_no_site(missing: Any) -> None:
    if isinstance(missing, str):
        missing = getattr(pytest.importorskip("pandas"), missing)
    X, y, _ = rows_of()
    tasks: list[Any] = [missing if row == 3 else "north" for row in range(len(X))]
    with pytest.raises(DataError, match="tasks=, row 3: expected as the name of a task"):
        MultiTaskClassifier().fit(X, y, tasks=tasks)


def test_the_extra_asks_for_the_scikit_learn_that_the_hint_names() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert "scikit-learn>=1.6" in project["optional-dependencies"]["data"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, DivergedError])
def test_what_ends_learning_early_shifts_no_later_rows(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were left are dropped: the model goes on as one that was never given them."""
    X, y, tasks = rows_of()
    model, other = (MultiTaskClassifier().fit(X[:60], y[:60], tasks=tasks[:60]) for _ in range(2))

    def stop(star: Star, t: int) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Star, "round", stop)
        with pytest.raises(error):
            model.partial_fit(X[60:90], y[60:90], tasks=tasks[60:90])
    other._online._t += 1  # a round that was begun counts
    for one in (model, other):
        one.partial_fit(X[90:], y[90:], tasks=tasks[90:])
    assert np.array_equal(model.decision_function(X, tasks), other.decision_function(X, tasks))


@pytest.mark.parametrize(("change", "got"), [({"format": 2, "version": "0.0.9"}, "2, of 0.0.9"), (None, "none, of an")])
def test_a_pickle_of_another_format_is_refused(change: dict[str, object] | None, got: str) -> None:
    X, y, tasks = rows_of()
    online = MultiTaskClassifier().fit(X, y, tasks=tasks)._online
    state = online.__getstate__()
    assert state["version"] == drom_net.__version__
    if change is None:
        del state["format"], state["version"]
    else:
        state |= change
    with pytest.raises(UsageError, match=f"the pickle: expected format .*, got {got}"):
        Online.__new__(Online).__setstate__(state)
