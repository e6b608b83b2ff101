"""Learners of other packages: named in a file, they run wherever the package's own do."""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import family

import drom_net
from drom_net.algorithms import BUILTIN, LEARNERS, find_learner, learner_named
from drom_net.algorithms.local import LOCAL
from drom_net.cli import main
from drom_net.comparison.spaces import draw, line_of, searched_keys
from drom_net.config.load import load_config
from drom_net.config.model import foreign_sections, to_yaml
from drom_net.core.errors import CheckpointError, ConfigError
from drom_net.core.plugins import entry_points_of
from drom_net.data.formats import FILE_FORMATS, LINE_FORMATS
from drom_net.protocol.settings import POLICIES
from drom_net.storage.snapshot_codec import decode_snapshot, encode_snapshot, snapshot_classes
from drom_net.testing import check_learner

MODULE = '''
"""Each task steps towards the mean of all models. As local.py, the template, and with an exchange."""

from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import (
    KEEP, Algorithm, CentralInfo, Contribution, ContributionKind, Exchange, Prediction, Reply, ReplyKind, SyncRounds
)
from drom_net.algorithms.features import dot, scaled
from drom_net.algorithms.learner import AsARule, Disagreement, Learner, Log, Search
from drom_net.core.fields import Integer, Number, option


@dataclass(frozen=True, slots=True)
class Parameters:
    """Of the mean."""

    step: float = option(Number(above=0.0), 0.1, key="lambda", doc="The step.")
    pull: float = option(Number(at_least=0.0), 0.5, doc="How far towards the mean.")
    tau: int = option(Integer(1), 2, doc="Models travel in every tau-th round.")


@dataclass(slots=True)
class DromState:  # a name that one of drom_net has, too
    w: np.ndarray
    mean: np.ndarray | None = None


def mean(parameters: Parameters, name: str = "mean", info: CentralInfo = CentralInfo()) -> Algorithm:
    def learn(state, example, t):
        score = dot(state.w, example.x)
        state.w = state.w + scaled(parameters.step * example.y * (example.y * score < 1.0), example.x, len(state.w))
        return state, Prediction(score, max(0.0, 1.0 - example.y * score), 1.0)

    def update(state, t):
        if state.mean is not None:
            state.w = state.w + parameters.pull * (state.mean - state.w)
        return state, Contribution(ContributionKind.VECTORS, (state.w,))

    def receive(state, reply, t):
        (state.mean,) = reply.vectors
        return state

    def central_step(state, contributions, members=None):
        came = [c.vectors[0] for _, c in sorted(contributions.items()) if c.vectors]
        reply = Reply(ReplyKind.VECTORS, (sum(came) / len(came),)) if came else KEEP
        return state, dict.fromkeys(sorted(contributions), reply), info

    return Algorithm(
        name=name,
        init_local=lambda dim: DromState(np.zeros(dim)),
        learn=learn,
        update=update,
        receive=receive,
        central_step=central_step,
        exchange=Exchange(SyncRounds(parameters.tau), contribution=(1,), reply=(1,)),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
    )


def agree(values):
    if values.get("step", 0.0) * values.get("pull", 0.0) > 1.0:
        return Disagreement(("step", "pull"), "lambda * pull of at most 1", "more")


MEAN = Learner(
    name="mean",
    parameters=Parameters,
    build=mean,
    reveals="Models.",
    presets={"fast": {"step": 2.0, "pull": 0.1}},
    check=agree,
    searches=(Search(space={"step": Log(0.01, 1.0)}), Search("far", {"pull": 1.0}, {"step": Log(0.01, 1.0)})),
)
MEAN_D = Learner(
    name="mean-d",
    parameters=Parameters,
    build=mean,
    reveals="Models.",
    on=("graph",),
    as_a_rule=AsARule(part=(0.25, 0.25), in_full=(1.0, 1.0), again=2.0),
)


@dataclass(frozen=True)
class Picky(Parameters):
    def __post_init__(self):
        if self.pull > 0.5:
            raise ValueError("pull above 0.5")


PICKY = Learner(name="picky", parameters=Picky, build=mean, reveals=".")
WRONG_V = Learner(
    name="wrong-v", parameters=Parameters, build=lambda q: mean(q, "wrong-v", CentralInfo(v=np.zeros(0))), reveals="."
)
'''
POINTS = (
    "[drom_net.learners]\nmean = other_learners.means:MEAN\nmean-d = other_learners.means:MEAN_D\nbroken = no_such:X\n"
)
DATA = "data: {dataset: synthetic, tasks: 3, examples: 12, dim: 4}\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with learners and entry points, where Python looks for packages; the folder of a YAML file."""
    site = tmp_path / "site"
    (site / "other_learners").mkdir(parents=True)
    (site / "other_learners" / "__init__.py").touch()
    (site / "other_learners" / "means.py").write_text(MODULE)
    about = site / "other_learners-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-learners\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", f"{site}:{Path(drom_net.__file__).parents[1]}")
    forget()
    yield tmp_path
    for module in [name for name in sys.modules if name.startswith("other_learners")]:
        del sys.modules[module]
    forget()


def forget() -> None:
    for plugins in (LEARNERS, POLICIES, FILE_FORMATS, LINE_FORMATS):
        plugins._found.clear()
    entry_points_of.cache_clear()


def written(folder: Path, algorithm: str, more: str = "") -> Path:
    path = folder / "cluster.yaml"
    path.write_text(f"algorithm: {algorithm}\n{DATA}{more}")
    return path


def complaint(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value)


@pytest.mark.parametrize("name", ["mean", "mean-d", "other_learners.means:MEAN", "other_learners.means:MEAN_D"])
def test_a_learner_of_another_package_gives_one_digest_by_loop_and_simulation(installed: Path, name: str) -> None:
    check_learner(name, tau=3)


@pytest.mark.process
@pytest.mark.parametrize("name", ["mean", "other_learners.means:MEAN_D"])
def test_a_learner_of_another_package_gives_one_digest_by_processes(installed: Path, name: str) -> None:
    check_learner(name, processes=True, pull=0.25)


@pytest.mark.process
def test_a_learner_of_another_package_in_every_command(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(installed, "{name: mean}")
    with family(installed) as processes:
        for command in (
            "check cluster.yaml",
            "run cluster.yaml --driver processes --out run",
            "verify run",
            "replay run",
            "compare cluster.yaml --algorithms mean,mean-far --settings 2 --tuning-orders 1 --orders 2 --out found",
        ):
            code, _, stderr = processes.run(*command.split())
            assert code == 0, stderr
        assert "mean-far" in (installed / "found" / "compare.csv").read_text()
    assert json.loads((installed / "run" / "summary.json").read_text())["algorithm"] == "mean"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x1,x2,x3,x4\n1,2,3,4\n")))
    assert main(["predict", str(installed / "run"), "--task", "0"]) == 0
    assert capsys.readouterr().out.startswith("label,p,score\n")


def test_its_keys_are_checked_and_written_as_those_of_the_package(installed: Path) -> None:
    path = written(installed, "{name: mean, preset: fast}")
    config = load_config(path)
    assert (config.algorithm.parameters.step, config.algorithm.parameters.pull) == (2.0, 0.1)
    path.write_text(to_yaml(config))
    assert load_config(path).algorithm == config.algorithm
    assert "algorithm.lambda: expected a number above 0" in complaint(written(installed, "{name: mean, lambda: 0}"))
    assert 'got "lamda"; did you mean "lambda"?' in complaint(written(installed, "{name: mean, lamda: 1}"))
    wrong = complaint(written(installed, "{name: mean, pull: 2, lambda: 3}"))
    assert "algorithm.lambda: expected lambda * pull of at most 1, got more" in wrong
    assert "topology" in complaint(written(installed, "{name: mean-d}"))
    assert foreign_sections("mean-d", topology=True) == ("reducer",)


def test_how_much_travels_as_a_rule_is_what_its_record_says(installed: Path) -> None:
    """In the rounds 2, 4, .. 12 a model: in full in those of 2, 4 and 8, and by a quarter in 3 others."""
    config = {"data": {"dataset": "synthetic", "tasks": 3, "examples": 12, "dim": 4}}
    plan = drom_net.check(config | {"algorithm": {"name": "mean-d"}, "topology": {"graph": "full"}})
    assert plan["sync_rounds"] == 6
    assert plan["bytes_as_a_rule"] == round(plan["bytes_in_all"] * (3 + 3 * 0.25) / 6)
    assert drom_net.check(config | {"algorithm": {"name": "mean"}})["bytes_as_a_rule"] is None


def test_its_lines_of_a_comparison_are_found(installed: Path) -> None:
    for name in ("mean", "other_learners.means:MEAN"):
        assert line_of(f"{name}-far").search.fixed == {"pull": 1.0}
        assert draw(name, 0, 0) == {"step": 0.1}
        assert draw(name, 1, 0) != draw(name, 2, 0)
    assert "pull" not in searched_keys()


def test_snapshots_hold_its_states_and_those_of_no_other(installed: Path) -> None:
    learner = learner_named("mean")
    states = [cls for cls in snapshot_classes(learner) if cls.__qualname__ == "DromState"]
    (state,) = [cls for cls in states if cls.__module__ == "other_learners.means"]
    assert len(states) == 2
    data = b"".join(encode_snapshot(state(1.0)))
    assert decode_snapshot(data, snapshot_classes(learner)) == state(1.0)
    with pytest.raises(CheckpointError, match="DromState"):
        decode_snapshot(data, snapshot_classes(LOCAL))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meen", r'expected one of adadrom, .*, broken, mean, mean-d, got "meen"; did you mean "mean"\?'),
        ("no_such.module:X", r"expected a learner, as MODULE:ATTRIBUTE, got .*No module named 'no_such'.*PYTHONPATH"),
        ("broken", r"expected a learner at the entry point broken, no_such:X, got .*No module named 'no_such'"),
        ("other_learners.means:mean", r'got "other_learners.means:mean", a function; .*Learner is the record of one'),
        ("other_learners.means:MEEN", r"got .*AttributeError: module 'other_learners.means' has no attribute 'MEEN'"),
        ("other_learners.means:", r'got "other_learners.means:", a module;'),
    ],
)
def test_what_is_no_learner_is_one_clear_error(installed: Path, name: str, expected: str) -> None:
    path = written(installed, f"{{name: '{name}', width: 3}}" if ":" in name else f"{{name: {name}}}")
    with pytest.raises(ConfigError, match=expected) as caught:
        load_config(path)
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].place == f"{path}:1: algorithm.name"
    assert find_learner(name) is None


def test_parameters_that_a_learner_does_not_take_are_one_clear_error(installed: Path) -> None:
    assert load_config(written(installed, "{name: 'other_learners.means:PICKY'}")).algorithm.parameters.pull == 0.5
    path = written(installed, "{name: 'other_learners.means:PICKY', pull: 0.75}")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == (
        f"{path}:1: algorithm.name: expected a learner that takes these settings, got "
        '"other_learners.means:PICKY" (ValueError: pull above 0.5)'
    )


def test_a_builtin_name_looks_at_no_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node process stays light."""

    def scan(**_: object) -> None:
        raise AssertionError("scanned")

    monkeypatch.setattr(importlib.metadata, "entry_points", scan)
    forget()
    for name in BUILTIN:
        more = "topology: {graph: ring}\n" if "star" not in BUILTIN[name].on else ""
        assert load_config(written(tmp_path, f"{{name: {name}}}", more)).algorithm.name == name
    path = tmp_path / "bare.yaml"
    path.write_text(DATA)
    assert load_config(path, ["algorithm.name=drom"]).algorithm.name == "drom"


def test_what_a_learner_does_not_keep_is_said_in_a_sentence(installed: Path) -> None:
    with pytest.raises(AssertionError, match=r"means:WRONG_V, driver reference: .*CentralInfo\.v of its central_step"):
        check_learner("other_learners.means:WRONG_V")


@pytest.mark.parametrize(("name", "parameters"), [*((name, {}) for name in BUILTIN), ("drom", {"solver": "sums"})])
def test_the_battery_passes_all_learners_of_this_package(name: str, parameters: dict[str, object]) -> None:
    check_learner(BUILTIN[name], **parameters)
