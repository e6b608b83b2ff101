"""A policy is one class, of this package or of another: when a round is closed is asked of it, by the reducer and by
every peer."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest

import drom_net
from drom_net.cli import main
from drom_net.cluster.prepare import prepare
from drom_net.cluster.simulate import Conditions, build_simulator, checks_of, outcomes
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig, config_digest, to_yaml
from drom_net.config.schema import json_schema
from drom_net.core.errors import ConfigError
from drom_net.data.datasets import load_dataset
from drom_net.protocol.settings import Policy
from drom_net.simulation.faults import Crash
from drom_net.simulation.network import Distribution, Stragglers

STAR = "algorithm: {name: drom}\n"
FULL = "algorithm: {name: drom-d, tau: 1}\ntopology: {graph: full}\n"
DATA = "data: {dataset: synthetic, tasks: 4, examples: 40, dim: 5}\n"
MODULE = '''
from dataclasses import dataclass

from drom_net.core.fields import Number, option
from drom_net.protocol.settings import Policy


@dataclass(frozen=True, slots=True)
class Share(Policy):
    """A round is closed with a share of its tasks."""

    share: float = option(Number(above=0.0, at_most=1.0), 0.5, doc="Of those that are awaited.")

    @property
    def may_miss(self):
        return True

    def closes(self, num_here, num_awaited):
        return num_here >= self.share * (num_here + num_awaited)


class Hasty(Policy):
    def closes(self, num_here, num_awaited):
        return True


@dataclass(frozen=True)
class Picky(Policy):
    def __post_init__(self):
        raise ValueError("absent: expected proceed,\\n got wait")


class Unsure(Policy):
    may_miss = property(lambda self: 1 / 0)

    def closes(self, num_here, num_awaited):
        return True


NO_POLICY = Share()
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python, of any process, finds a module with policies."""
    (tmp_path / "other_policies.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(drom_net.__file__).parents[1]}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(layout: str, policy: str = "") -> ClusterConfig:
    path = Path("c.yaml")
    path.write_text(layout + DATA + (f"policy: {{{policy}}}\n" if policy else ""))
    return load_config(path)


@pytest.mark.parametrize("faults", [(), (Crash(0, at_s=0.5, back_after_s=0.2),)], ids=["", "a crash"])
@pytest.mark.parametrize("layout", [STAR, FULL])
def test_a_round_is_closed_with_half_of_them(layout: str, faults: tuple[Crash, ...], folder: Path) -> None:
    """One of four tasks takes ten times as long for an example: the others do not wait for it."""

    def first_end_and_absent(config: ClusterConfig) -> tuple[float, list[int]]:
        prepared = prepare(config, load_dataset(config.data, base=config.base))
        simulator = build_simulator(prepared, conditions)
        simulator.run(check=checks_of(prepared))
        tasks, centrals = outcomes(prepared, simulator, finished=True)
        assert all(task.finished and task.totals.examples == 40 for task in tasks)
        absent = [np.count_nonzero(row["absent"]) for central in centrals for row in central.rows]
        return min(float(task.times[-1]["closed_s"]) for task in tasks if task.times is not None), absent

    slow = (Stragglers(0.25, 10.0),)
    conditions = Conditions(round_s=Distribution("constant", 0.01), stragglers=slow, faults=faults)
    waits_s, nobody = first_end_and_absent(loaded(layout))
    assert sum(nobody) == 0
    goes_on_s, absent = first_end_and_absent(loaded(layout, "name: other_policies:Share"))
    assert max(absent) == 2
    assert sum(absent) > 0
    assert goes_on_s < waits_s / 2


@pytest.mark.process
@pytest.mark.parametrize("layout", [STAR, FULL])
def test_it_runs_by_every_driver(layout: str, folder: Path) -> None:
    """With all of its tasks here it is the plain run."""
    loaded(layout, "name: other_policies:Share, share: 1.0, deadline_s: 1000")
    digests = []
    for driver in ("reference", "simulation", "processes"):
        assert main(["run", "c.yaml", "--driver", driver, "--out", driver, "-q"]) == 0
        digests.append(json.loads((folder / driver / "summary.json").read_text())["digest"])
        assert main(["verify", driver]) == 0
    assert len(set(digests)) == 1
    assert main(["run", f"{folder}/processes/config.yaml", "--driver", "reference", "--out", "again", "-q"]) == 0


def test_its_keys_are_checked_written_and_part_of_the_run(folder: Path) -> None:
    config = loaded(STAR, "name: other_policies:Share, share: 0.75, absent: proceed")
    assert (type(config.policy).__name__, config.policy.name) == ("Share", "other_policies:Share")
    Path("again.yaml").write_text(to_yaml(config))
    assert load_config(Path("again.yaml")).policy == config.policy
    names = ["0", "1", "2", "3"]
    assert config_digest(config, names) != config_digest(loaded(STAR, "name: other_policies:Share"), names)
    assert "name" not in to_yaml(loaded(STAR)).partition("policy:")[2].partition("\n\n")[0].partition("checkpoint")[0]
    jsonschema = pytest.importorskip("jsonschema")
    data = {"dataset": "synthetic"}
    for policy, is_right in (
        ({"name": "a:B", "share": 0.5}, True),
        ({"absent": "proceed"}, True),
        (None, True),
        ({"share": 0.5}, False),
        ({"name": None, "share": 0.5}, False),
    ):
        errors = list(jsonschema.Draft202012Validator(json_schema()).iter_errors({"data": data, "policy": policy}))
        assert (not errors) is is_right


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("name: half", r'policy.name: expected a policy, as MODULE:ATTRIBUTE, got "half"'),
        ("name: 'no_such:Half', share: 1", r"policy.name: expected a policy, .*No module named 'no_such'.*PYTHONPATH"),
        ("name: 'other_policies:NO_POLICY'", r'got "other_policies:NO_POLICY", a Share; a class that is derived from'),
        ("name: 'other_policies:Hasty'", "policy.name: expected a policy whose may_miss is true"),
        (
            "name: 'other_policies:Picky'",
            "c.yaml:3: policy.name: expected a policy that takes these settings, got "
            r'"other_policies:Picky" \(ValueError: absent: expected proceed, got wait\)',
        ),
        ("name: 'other_policies:Unsure'", r'got "other_policies:Unsure" \(ZeroDivisionError: division by zero\)'),
        ("name: 'other_policies:Share', share: 2", "policy.share: expected a number above 0 and at most 1, got 2"),
        ("name: 5", "policy.name: expected the name of a policy, got 5"),
        ("share: 0.5", 'policy.share: expected one of the keys name, absent, deadline_s, got "share"'),
    ],
)
def test_what_is_no_policy_is_one_clear_error(policy: str, expected: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        loaded(STAR, policy)
    assert len(caught.value.problems) == 1


def test_the_policy_of_this_package_looks_at_no_installed_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node process stays light."""

    def scan(**_: object) -> None:
        raise AssertionError("scanned")

    monkeypatch.setattr(importlib.metadata, "entry_points", scan)
    assert loaded(STAR, "absent: proceed").policy == Policy(absent="proceed")
