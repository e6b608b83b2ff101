"""docs/python.md: fit, run, load, check and Run; a frame gives the digest of the same rows in a file."""

from __future__ import annotations

import csv
import datetime
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drom_net
from drom_net.api.threads import one_thread
from drom_net.cluster.progress import Silent
from drom_net.core.blas import blas_threads, set_blas_threads
from drom_net.core.errors import ConfigError, DataError, UsageError
from drom_net.learning.metrics import Totals

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

COLUMNS = ("id", "site", "seen", "age", "dose", "color", "note", "smoker", "sick")


def table(rows: int = 150, seed: int = 0) -> dict[str, list[Any]]:
    """A site's columns of all kinds, some of them with missing values; the rows are of three sites."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    words = ["late", "early", "broken", "fine", "cold", "warm", "again", "never", "door", "pump"]
    for row in range(rows):
        age, red = int(rng.integers(20, 80)), bool(rng.random() < 0.4)
        sick = bool(age / 30.0 - 2.0 + red + 0.4 * rng.standard_normal() > 0.0)
        found["id"].append(f"P{row:04d}")
        found["site"].append(("north", "south 2", "south 10")[row % 3])
        found["seen"].append(datetime.datetime(2026, 1, 1, 8) + datetime.timedelta(hours=7 * row))
        found["age"].append(age)
        found["dose"].append(None if rng.random() < 0.1 else round(float(rng.normal(10.0, 3.0)), 3))
        found["color"].append("red" if red else ("green", "blue")[row % 2])
        found["note"].append(" ".join(rng.choice(words, size=5).tolist()))
        found["smoker"].append(bool(rng.random() < 0.5))
        found["sick"].append("yes" if sick else "no")
    return found


def as_pandas(columns: dict[str, list[Any]]) -> Any:
    return pandas.DataFrame(columns)


def as_polars(columns: dict[str, list[Any]]) -> Any:
    return polars.DataFrame(columns)


def as_arrow(columns: dict[str, list[Any]]) -> Any:
    return pyarrow.table(columns)


def as_csv(columns: dict[str, list[Any]], path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def run_of_file(path: Path, out: Path, **data: object) -> drom_net.Run:
    section = {"files": path.name, "directory": str(path.parent), "task_column": "site", "label": "sick", **data}
    return drom_net.run({"data": section}, driver="reference", out=out)


MAKERS = (as_pandas, as_polars, as_arrow)


@pytest.mark.parametrize("make", MAKERS)
def test_a_frame_gives_the_digest_of_its_file(make: Callable[[dict[str, list[Any]]], Any], tmp_path: Path) -> None:
    columns = table()
    written = run_of_file(as_csv(columns, tmp_path / "t.csv"), tmp_path / "run")
    frame = make(columns)
    run = drom_net.fit(frame, site="site", label="sick")
    assert run.sites == ("north", "south 2", "south 10")
    assert run.digest == written.digest
    assert run.summary["error_rate"] == written.summary["error_rate"] < run.summary["majority_error_rate"]
    for site in run.sites:
        assert np.array_equal(run.predict_proba(site, frame), written.predict_proba(site, frame))
    assert run.predict("north", frame).tolist() == written.predict("north", frame).tolist()
    assert set(run.predict("north", frame)) == {"yes", "no"}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "options", [{"scaling": "site"}, {"order": "age", "shuffle": True, "flip": 0.1}, {"passes": 2, "ignore": ["note"]}]
)
def test_options_mean_what_they_mean_in_a_file(
    make: Callable[[dict[str, list[Any]]], Any], options: dict[str, object], tmp_path: Path
) -> None:
    columns = table()
    written = run_of_file(as_csv(columns, tmp_path / "t.csv"), tmp_path / "run", positive="no", **options)
    run = drom_net.fit(make(columns), site="site", label="sick", positive="no", **options)
    assert run.digest == written.digest
    assert run.site(0).classes.tolist() == ["yes", "no"]


def test_learner_parameters_seed_and_graph_are_taken() -> None:
    frame = as_pandas(table())
    one = drom_net.fit(frame, site="site", label="sick", learner="drom-d", topology={"graph": "ring"}, shuffle=True)
    other = drom_net.fit(
        *(frame,), site="site", label="sick", learner="drom-d", topology={"graph": "ring"}, shuffle=True, seed=1
    )
    third = drom_net.fit(
        frame, site="site", label="sick", learner="drom-d", parameters={"tau": 3}, topology={"graph": "ring"}
    )
    assert len({one.digest, other.digest, third.digest}) == 3
    assert one.summary["algorithm"] == "drom-d"
    assert drom_net.fit(frame, site="site", label="sick", rounds=7).summary["rounds"] == 7


def arrays(sites: Sequence[str] = ("a", "b", "c"), rows: int = 60) -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(3)
    found = {}
    for site in sites:
        X = rng.standard_normal((rows, 5)) * (rng.random((rows, 5)) < 0.7)
        found[site] = (X, (X @ np.array([1.0, -1.0, 0.5, 0.0, 0.2]) >= 0.0).astype(int))
    return found


@pytest.mark.parametrize("sparse", [False, True])
def test_arrays_give_the_digest_of_npz_files(sparse: bool, tmp_path: Path) -> None:
    from scipy.sparse import csr_matrix

    data = {site: (csr_matrix(X), y) if sparse else (X, y) for site, (X, y) in arrays().items()}
    for site, (X, y) in data.items():
        if sparse:
            parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
            np.savez(tmp_path / f"{site}.npz", y=y, **parts)
        else:
            np.savez(tmp_path / f"{site}.npz", X=X, y=y)
    files = {"files": "{task}.npz", "directory": str(tmp_path)}
    written = drom_net.run({"data": files}, driver="reference", out=tmp_path / "run")
    run = drom_net.fit(data)
    assert run.digest == written.digest
    X, _ = data["b"]
    assert np.array_equal(run.predict_proba("b", X), written.predict_proba("b", X))
    assert run.predict("b", X).tolist() == written.predict("b", X).tolist()
    assert set(run.predict("b", X)) == {0, 1}


def test_frames_by_site_and_one_site_alone() -> None:
    frame = as_pandas(table())
    by_site = {site: its.drop(columns="site") for site, its in frame.groupby("site")}
    assert drom_net.fit(by_site, label="sick").summary["examples"] == len(frame)
    with pytest.warns(UserWarning, match='"color" says whose row it is'):
        alone = drom_net.fit(frame.drop(columns="site"), label="sick")
    assert len(alone.sites) == 1
    assert np.array_equal(alone.predict_proba(0, frame), alone.predict_proba(alone.sites[0], frame))


def test_rows_may_come_in_other_shapes() -> None:
    columns = table()
    frame = as_pandas(columns)
    site = drom_net.fit(frame, site="site", label="sick", ignore=["seen"]).site("north")
    whole = site.predict_proba(frame)
    turned = site.predict_proba(frame[frame.columns[::-1]].drop(columns=["sick", "id"]))
    assert np.array_equal(whole, turned)
    row = {name: cells[0] for name, cells in columns.items()}
    assert np.array_equal(site.predict_proba(row), whole[:1])
    assert np.array_equal(site.predict_proba([row, row]), whole[[0, 0]])


@pytest.mark.parametrize("ignore", [[], ["note"]], ids=["sparse", "dense"])
def test_a_linear_model_is_one_of_scikit_learn(ignore: list[str], tmp_path: Path) -> None:
    frame = as_pandas(table())
    run = drom_net.fit(frame, site="site", label="sick", learner="drom", ignore=ignore)
    site = run.site("south 2")
    found, prepared = site.to_sklearn(), site.prepare(frame)
    assert type(found).__name__ == "LogisticRegression"
    np.testing.assert_allclose(found.decision_function(prepared), site.decision_function(frame), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.predict_proba(prepared), site.predict_proba(frame), rtol=1e-12, atol=1e-12)
    assert found.predict(prepared).tolist() == site.predict(frame).tolist()
    site.to_csv(tmp_path / "w.csv")
    with (tmp_path / "w.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["feature", "coefficient"]
    assert [float(value) for _, value in rows[1:]] == site.coefficients.tolist()
    assert {"age", "color=red", "bias"} <= {name for name, _ in rows}


@pytest.mark.parametrize("call", [lambda site: site.to_sklearn(), lambda site: site.to_csv("w.csv")])
def test_a_mixture_is_no_linear_model(call: Callable[[drom_net.Site], object]) -> None:
    site = drom_net.fit(arrays()).site("a")
    with pytest.raises(UsageError, match="expected a learner that is one linear model, got adadrom"):
        call(site)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", None])
def test_records_are_frames(kind: str | None, tmp_path: Path) -> None:
    run = drom_net.fit(arrays())
    run.save(tmp_path / "run")
    for one in (run, drom_net.load(tmp_path / "run")):
        records = one.records(kind)
        assert type(records).__module__.startswith(kind or "pandas")
        found = records if kind in ("pandas", None) else records.to_pandas()
        assert len(found) == 180
        assert list(found["site"][:1]) == ["a"]
        assert set(found["active"]) == {"learned"}
        wrong = (found["score"] >= 0.0) != (found["clean_label"] > 0.0)
        assert wrong.mean() == run.summary["error_rate"]


def test_a_saved_run_is_one_that_the_commands_read(tmp_path: Path) -> None:
    from drom_net.results.verification import recompute_digest, wrong_figures

    frame = as_pandas(table())
    run = drom_net.fit(frame, site="site", label="sick")
    run.save(tmp_path / "one")
    assert recompute_digest(tmp_path / "one", run.sites) == run.digest
    assert "Its rows were in memory" in (tmp_path / "one" / "config.yaml").read_text().splitlines()[0]
    assert wrong_figures(tmp_path / "one", run.summary) == []
    again = drom_net.load(tmp_path / "one")
    again.save(tmp_path / "two")
    third = drom_net.load(tmp_path / "two")
    assert third.summary == again.summary == run.summary
    assert np.array_equal(third.predict_proba("north", frame), run.predict_proba("north", frame))
    with pytest.raises(UsageError, match="exists already"):
        run.save(tmp_path / "two")


def test_names_are_no_formulas_and_a_report_names_no_folder_that_is_gone(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    columns = table(60)
    names = {"north": r"ward $\beta9x{$", "south 2": "b", "south 10": "c"}
    columns["site"] = [names[site] for site in columns["site"]]
    run = drom_net.fit(as_pandas(columns), site="site", label="sick")
    assert "<svg" in run.plot_errors().svg
    page = run.report(tmp_path / "run.html").read_text()
    assert "The rows were in memory; Run.save keeps the run" in page
    assert "drom-net verify" not in page and tempfile.gettempdir() + "/drom-net-" not in page


def test_figures_and_pictures(tmp_path: Path) -> None:
    run = drom_net.fit(as_pandas(table()), site="site", label="sick")
    tasks = run.tasks
    assert list(tasks["site"]) == list(run.sites)
    assert list(tasks["gain_points"]) == [task["sharing"]["gain_points"] for task in run.summary["tasks"]]
    assert repr(run).startswith("<Run finished: adadrom, 3 sites, 150 examples, error ")
    page = run._repr_html_()
    assert all(text in page for text in ("south 10", run.summary["verdict"][0][:20], "how the rows were read"))
    assert not {"#", "color:black", "color:white", "background:white"} & {*page.split(";"), *page}
    page = run.report(tmp_path / "run.html").read_text()
    assert all(site in page for site in run.sites) and (tmp_path / "run.png").stat().st_size > 1000
    for picture in (run.plot_errors(tmp_path / "errors.png"), run.plot_sharing(tmp_path / "sharing.svg")):
        assert picture._repr_svg_().lstrip().startswith("<?xml")
        assert repr(picture) == "Plot()"
    assert (tmp_path / "errors.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "sharing.svg").exists()
    with pytest.raises(UsageError, match="no clock"):
        run.plot_timeline()
    with pytest.raises(UsageError, match="mixes experts"):
        drom_net.fit(arrays(), learner="drom").plot_sharing()


def test_names_of_sites_are_no_markup() -> None:
    data = arrays(("<script>", "b"))
    assert "<script>" not in drom_net.fit(data)._repr_html_()


class Interrupting(Silent):
    """Ctrl-C in round 5."""

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        if t == 5:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_ends_a_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drom_net.api.progress.Silent", Interrupting)
    former = signal.getsignal(signal.SIGINT)
    run = drom_net.fit(arrays())
    assert (run.summary["status"], run.summary["rounds"]) == ("interrupted", 5)
    assert "interrupted" in run._repr_html_()
    assert len(run.predict("a", arrays()["a"][0])) == 60
    assert signal.getsignal(signal.SIGINT) == former


def test_fit_runs_in_another_thread() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(drom_net.fit(arrays()).digest))
    thread.start()
    thread.join()
    assert found == [drom_net.fit(arrays()).digest]


@pytest.mark.process
def test_processes_and_simulation_give_the_same_run(tmp_path: Path) -> None:
    config = {"data": {"dataset": "synthetic", "tasks": 2, "examples": 30, "dim": 4}}
    runs = {
        driver: drom_net.run(config, driver=driver, out=tmp_path / driver, overrides={"algorithm.tau": 5})
        for driver in ("processes", "simulation", "reference")
    }
    assert len({run.digest for run in runs.values()}) == 1
    assert runs["processes"].path == tmp_path / "processes"
    for driver in ("processes", "simulation"):
        assert "<svg" in runs[driver].plot_timeline().svg
    text = drom_net.run(config, driver="reference", out=tmp_path / "text", overrides=["algorithm.tau=5"])
    assert text.digest == runs["reference"].digest


def test_check_says_what_a_run_would_be() -> None:
    plan = drom_net.check({"data": {"dataset": "synthetic", "tasks": 2, "examples": 30, "dim": 4}})
    assert (plan["algorithm"], plan["rounds"], plan["dim"]) == ("adadrom", 30, 4)
    assert [task["name"] for task in plan["tasks"]] == ["task-01", "task-02"]
    assert plan["processes"] == 3
    with pytest.raises(ConfigError, match=r'config: data\.task: .*did you mean "tasks"\?'):
        drom_net.check({"data": {"dataset": "synthetic", "task": 3}})
    with pytest.raises(ConfigError, match="config: name: expected a text, a number, a list or a mapping, got a set"):
        drom_net.check({"name": {1}, "data": {"dataset": "synthetic"}})


def test_processes_that_others_could_reach_need_keys() -> None:
    config = {"data": {"dataset": "synthetic"}, "reducer": {"endpoint": "tcp://0.0.0.0:5571"}}
    with pytest.raises((UsageError, ConfigError)):
        drom_net.run(config)
    with pytest.raises(UsageError, match="without keys nothing is encrypted") as raised:
        drom_net.run(config | {"reducer": {"endpoint": "tcp://example.org:5571"}})
    assert "--insecure" not in str(raised.value), "of the command line"


def test_overrides_may_be_of_numpy() -> None:
    config = {"data": {"dataset": "synthetic", "tasks": 3, "examples": 40}}
    assert drom_net.check(config, overrides={"data.examples": np.int64(20)})["rounds"] == 20


def odd_labels(rows: int) -> Any:
    return as_pandas(table(rows) | {"sick": [("a", "b", "c")[row % 3] for row in range(rows)]})


FRAME = as_pandas(table())
WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "site": (lambda: drom_net.fit(FRAME, site="Site", label="sick"), DataError, 'task column "Site".*mean "site"'),
    "label": (lambda: drom_net.fit(FRAME, site="site", label="sik"), DataError, 'label column "sik".*mean "sick"'),
    "three labels": (lambda: drom_net.fit(odd_labels(60), site="site", label="sick"), DataError, 'rest="negative"'),
    "no labels": (
        lambda: drom_net.fit(FRAME.assign(sick=np.nan), site="site", label="sick"),
        DataError,
        "expected labels, got none",
    ),
    "no rows": (lambda: drom_net.fit(FRAME.head(0), site="site", label="sick"), DataError, "expected rows, got none"),
    "no frame": (lambda: drom_net.fit([1, 2]), DataError, "expected a frame of pandas, polars or pyarrow, got a list"),
    "lazy": (lambda: drom_net.fit(polars.LazyFrame({"a": [1]})), DataError, r"needs \.collect\(\)"),
    "nothing": (lambda: drom_net.fit({}), DataError, "at least one site"),
    "objects": (
        lambda: drom_net.fit(pandas.DataFrame({"x": [1, [2]], "label": [0, 1]})),
        DataError,
        'column "x": expected numbers, texts, dates or yes/no, got values of the types int, list',
    ),
    "numbered columns": (lambda: drom_net.fit(pandas.DataFrame(np.eye(3))), DataError, "texts as column names"),
    "learner": (lambda: drom_net.fit(FRAME, learner="adadorm"), ConfigError, 'fit: learner=: .*mean "adadrom"'),
    "parameter": (lambda: drom_net.fit(FRAME, parameters={"eta": 1}), ConfigError, r'fit: parameters\["eta"\]'),
    "option": (lambda: drom_net.fit(FRAME, scalling="site"), ConfigError, 'fit: scalling=: .*mean "scaling"'),
    "value": (lambda: drom_net.fit(FRAME, scaling="all"), ConfigError, "fit: scaling=: expected one of running"),
    "same columns": (
        lambda: drom_net.fit(pandas.DataFrame([[1, 2, 0]], columns=["x", "x", "label"])),
        DataError,
        "the frame: expected columns with different names",
    ),
    "a file": (lambda: drom_net.fit(FRAME, files="t.csv"), ConfigError, "files=: expected none, for the rows are in"),
    "site of a file": (lambda: drom_net.fit(FRAME, task_column="site"), ConfigError, "none, .*; site= names"),
    "sites twice": (lambda: drom_net.fit(arrays(), site="s"), ConfigError, "site=: expected none"),
    "NaN": (lambda: drom_net.fit({"a": ([[np.nan]], [1])}), DataError, r"a: X\[0, 0\]: expected a finite number"),
    "lengths": (lambda: drom_net.fit({"a": (np.eye(3), [1])}), DataError, r"a: y: expected shape \(3,\)"),
    "widths": (
        lambda: drom_net.fit({"a": (np.eye(2), [1, 0]), "b": (np.eye(3)[:2], [1, 0])}),
        DataError,
        "b: expected 2 columns, as in a, got 3",
    ),
    "mixed": (lambda: drom_net.fit({"a": (np.eye(2), [1, 0]), "b": FRAME}), DataError, "a: expected a frame"),
    "driver": (lambda: drom_net.run({}, driver="plain"), UsageError, "driver=: expected one of processes"),
    "progress of fit": (
        lambda: drom_net.fit(None, progress=1),  # type: ignore[arg-type]
        ConfigError,
        r"^progress=: expected True, False, None or a function of \(round, rounds, error rate so far\), got 1$",
    ),
    "progress of run": (
        lambda: drom_net.run("nowhere.yaml", progress="yes"),  # type: ignore[arg-type]
        ConfigError,
        "^progress=: expected True, .*, got 'yes'$",
    ),
    "parameters": (
        lambda: drom_net.fit(FRAME, parameters=3),  # type: ignore[arg-type]
        ConfigError,
        "^parameters=: expected a mapping, got 3$",
    ),
    "topology": (
        lambda: drom_net.fit(FRAME, topology="ring"),  # type: ignore[arg-type]
        ConfigError,
        "^topology=: expected a mapping, got 'ring'$",
    ),
    "a label twice": (
        lambda: drom_net.fit(FRAME, site="site", label="sick", positive="yes", unlabelled=["yes"]),
        ConfigError,
        'fit: unlabelled=.*: expected no label of positive=, got "yes"$',
    ),
    "a site twice": (lambda: drom_net.fit({1: FRAME, "1": FRAME}), DataError, 'data: expected keys .*"1" more than'),
    "overrides as a text": (
        lambda: drom_net.check({"data": {"dataset": "synthetic"}}, overrides="algorithm.tau=5"),
        ConfigError,
        "overrides=: expected a mapping, or a list of texts: .*got 'algorithm.tau=5'",
    ),
    "an odd override": (
        lambda: drom_net.check({"data": {"dataset": "synthetic"}}, overrides={"seed": {5}}),
        ConfigError,
        "overrides=seed: expected a text, a number, a list or a mapping, got a set",
    ),
    "no run": (lambda: drom_net.load("nowhere"), UsageError, "not the directory of a finished run"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_have_one_clear_error(what: str) -> None:
    call, kind, match = WRONG[what]
    with pytest.raises(kind, match=match):
        call()


def test_wrong_rows_have_one_clear_error(tmp_path: Path) -> None:
    run = drom_net.fit(FRAME, site="site", label="sick")
    plain = drom_net.fit(arrays())
    with pytest.raises(DataError, match='got "nrth"; did you mean "north"'):
        run.predict("nrth", FRAME)
    with pytest.raises(DataError, match='expected a feature column "age"'):
        run.predict("north", FRAME.drop(columns="age"))
    with pytest.raises(DataError, match='row 2, column "age": expected a number, got "old"'):
        run.predict("north", FRAME.head(3).assign(age=["41", "old", "50"]))
    with pytest.raises(DataError, match="the rows: expected 5 feature columns, as the model has learned, got 4"):
        plain.predict("a", np.eye(4))
    with pytest.raises(DataError, match=r"shape \(rows, columns\)"):
        plain.predict("a", np.zeros(5))
    with pytest.raises(DataError, match="the rows, row 2, row: expected 5 numbers, got 4"):
        plain.predict("a", [[0.0] * 5, [0.0] * 4])
    with pytest.raises(UsageError, match=r"ends in \.png or \.svg"):
        plain.plot_errors(tmp_path / "p.pdf")
    with pytest.raises(UsageError, match='got "spark"'):
        plain.records("spark")


def test_what_may_spoil_a_run_is_a_warning() -> None:
    data = arrays(("a", "b"))
    with pytest.warns(UserWarning, match='"b" has one label only'):
        drom_net.fit(data | {"b": (data["b"][0], np.ones(60, dtype=int))})
    with pytest.warns(UserWarning, match='scaling="running" takes out what they have in common'):
        drom_net.fit(FRAME, site="site", label="sick", scaling="none")


@pytest.mark.parametrize("nine", [9, 9.0, np.float64(9.0), "9.0"])
def test_labels_in_options_are_of_any_type(nine: object) -> None:
    x, y = np.eye(2)[[0, 1, 1] * 10], [1, 0, 9] * 10
    run = drom_net.fit({"a": (x, y)}, positive=1, negative=[0, 2.0], unlabelled=nine)
    assert (run.summary["examples"], run.summary["unlabelled"]) == (20, 10)
    assert run.digest == drom_net.fit({"a": (x, y)}, positive="1", negative=["0", "2"], unlabelled=["9"]).digest


def test_labels_are_those_of_the_data() -> None:
    frame = as_pandas(table())
    truth = frame.assign(sick=frame["sick"] == "yes")
    run = drom_net.fit(truth, site="site", label="sick")
    assert run.predict(0, truth).dtype == np.bool_
    assert drom_net.fit(truth, site="site", label="sick", positive=False).site(0).classes.tolist() == ["true", "false"]


def test_blas_has_one_thread_meanwhile_and_then_as_many_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook has imported NumPy with all its threads; the last bits of long products depend on them."""
    former = blas_threads()
    if former is None:
        pytest.skip("NumPy has another BLAS than that of its wheels")
    set_blas_threads(2)
    seen = []

    class Looking(Silent):
        def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
            seen.append(blas_threads())

    try:
        monkeypatch.setattr("drom_net.api.progress.Silent", Looking)
        drom_net.fit(arrays())
        assert set(seen) == {1}
        assert blas_threads() == 2
    finally:
        set_blas_threads(former)


def test_a_frame_without_a_site_is_one_site_which_is_said() -> None:
    frame = as_pandas(table())
    alone = drom_net.fit(frame, label="sick", ignore=["site", "color"])
    assert len(alone.sites) == 1 and "nobody to share with; site= names" in alone.notes[0]
    assert "nobody to share with" in alone._repr_html_()
    with pytest.raises(ConfigError, match="another column than that of site="):
        drom_net.fit(frame, site="sick", label="sick")


def test_a_forgotten_site_is_a_warning() -> None:
    frame = as_pandas(table())
    said = "all rows are of one site, which has nobody to share with; if "
    alone = 'if all are of one: fit\\({"NAME": frame}\\)$'
    with pytest.warns(UserWarning, match=f'^{said}"site" says whose row it is: site="site"; {alone}'):
        drom_net.fit(frame, label="sick")
    with pytest.warns(UserWarning, match=f'^{said}"Klinik" or "color" says whose row it is: site="Klinik"; {alone}'):
        drom_net.fit(frame.rename(columns={"site": "Klinik"}), label="sick")
    drom_net.fit({"here": frame}, label="sick")  # warnings are errors


def test_numbers_among_texts_are_read_as_in_a_file(tmp_path: Path) -> None:
    """As the frames of several files come together, one of which writes "-" where nothing was measured."""
    columns = table()
    columns["age"][::15] = ["-"] * 10
    columns["dose"][1:4] = ["k. A.", 7, 7.5]
    written = run_of_file(as_csv(columns, tmp_path / "t.csv"), tmp_path / "run")
    frame = pandas.DataFrame(columns)
    assert frame["age"].dtype == frame["dose"].dtype == object
    run = drom_net.fit(frame, site="site", label="sick")
    assert any('"age" has numbers, but for "-" 10: taken for missing' in note for note in run.notes)
    assert run.digest == written.digest
    assert np.array_equal(run.predict_proba("north", frame), written.predict_proba("north", frame))


def test_two_threads_leave_blas_as_it_was() -> None:
    former = blas_threads()
    if former is None:
        pytest.skip("NumPy has another BLAS than that of its wheels")
    set_blas_threads(2)
    try:
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == 1  # the second still computes
        second.__exit__(None, None, None)
        assert blas_threads() == 2
    finally:
        set_blas_threads(former)


def test_all_wrong_rows_are_counted_in_one_error() -> None:
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0] * 9, "z": [0.5, 1.0] * 13 + [2.0], "label": [0, 1, 1] * 9})
    run = drom_net.fit({"a": frame})
    rows = [{"x": "bad", "z": "bad"}] * 5 + [{"x": 1.0, "z": 2.0}]
    with pytest.raises(DataError) as caught:
        run.predict("a", rows)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the rows: expected rows that can be used, got 10 faults in 5 of 6 rows"
    assert lines[1] == 'the rows, row 1, feature "x": expected a number, got "bad"' and lines[-1] == "and 4 more"


def test_no_rows_have_no_labels() -> None:
    """As `drom-net predict` of a header alone: tests/cli/test_predict.py."""
    table = pandas.DataFrame({"x": [1.0, 2.0, 3.0] * 9, "ward": ["A", "B", "A"] * 9, "label": [0, 1, 1] * 9})
    text = table.assign(note=[f"some words about case {n} of many" for n in range(27)])
    for frame in (table, text, text[["note", "label"]]):
        run = drom_net.fit({"a": frame})
        for none in (frame.iloc[:0], pyarrow.table({name: [] for name in frame}), []):
            assert run.predict("a", none).tolist() == []
            assert run.predict_proba("a", none).shape == (0, 2)
    arrays = drom_net.fit({"a": (np.eye(2)[[0, 1] * 10], [0, 1] * 10)})
    assert arrays.predict("a", np.zeros((0, 2))).tolist() == arrays.predict("a", []).tolist() == []


def test_progress_is_a_function_a_line_or_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (np.eye(2)[[0, 1] * 20], [0, 1] * 20)
    called: list[tuple[int, int, float | None]] = []

    def watch(t: int, rounds: int, error_rate: float | None) -> None:
        called.append((t, rounds, error_rate))

    run = drom_net.fit({"a": rows, "b": rows}, progress=watch)
    assert called[-1] == (40, 40, run.summary["error_rate"])
    config = {"data": {"dataset": "synthetic", "tasks": 2, "examples": 30, "dim": 4}}
    done = drom_net.run(config, driver="reference", out=tmp_path / "run", progress=watch)
    assert called[-1] == (30, 30, done.summary["error_rate"])
    drom_net.fit({"a": rows, "b": rows})
    drom_net.fit({"a": rows, "b": rows}, progress=False)
    assert capsys.readouterr().err == "", "no terminal"
    drom_net.fit({"a": rows, "b": rows}, progress=True)
    line = f"round 40 of 40, error rate {100 * run.summary['error_rate']:.2f} %"
    shown = capsys.readouterr().err
    assert shown.endswith(f"\r{line}\r{' ' * len(line)}\r"), "it is gone in the end"
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    drom_net.fit({"a": rows, "b": rows})
    assert capsys.readouterr().err == shown, "a notebook"


@pytest.mark.parametrize("topology", [None, {"graph": "full"}])
def test_what_travels_as_a_rule_is_near_what_does(topology: dict[str, str] | None, tmp_path: Path) -> None:
    """At the most it is three times as much, and of sparse rows more."""
    config = {"data": {"dataset": "synthetic", "tasks": 4, "examples": 150, "dim": 20}}
    config |= {"topology": topology} if topology else {}
    plan = drom_net.check(config)
    run = drom_net.run(config, driver="simulation", out=tmp_path / "run")
    sent = sum(task["bytes_sent"] + (0 if topology else task["bytes_received"]) for task in run.summary["tasks"])
    assert 3.0 * sent < plan["bytes_in_all"]
    assert plan["bytes_as_a_rule"] == pytest.approx(sent, rel=0.3)
    if not topology:
        assert drom_net.check(config | {"algorithm": {"name": "drom"}})["bytes_as_a_rule"] is None
