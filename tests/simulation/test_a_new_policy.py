"""A policy is one class: when a round is closed is asked of it, by the reducer and by every peer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drom_net.cluster.prepare import prepare
from drom_net.cluster.simulate import Conditions, build_simulator, checks_of, outcomes
from drom_net.config.load import load_config
from drom_net.data.datasets import load_dataset
from drom_net.node.spec import NodeSpec
from drom_net.protocol.settings import Policy
from drom_net.simulation.faults import Crash
from drom_net.simulation.network import Distribution, Stragglers

STAR = "algorithm: {name: drom}\n"
FULL = "algorithm: {name: drom-d, tau: 1}\ntopology: {graph: full}\n"
DATA = "data: {dataset: synthetic, tasks: 4, examples: 40, dim: 5}\npolicy: {deadline_s: 1000}\n"


class Half(Policy):
    """A round is closed with half of its tasks."""

    @property
    def may_miss(self) -> bool:
        return True

    def closes(self, num_here: int, num_awaited: int) -> bool:
        return num_here >= num_awaited


@pytest.mark.parametrize("faults", [(), (Crash(0, at_s=0.5, back_after_s=0.2),)], ids=["", "a crash"])
@pytest.mark.parametrize("layout", [STAR, FULL])
def test_a_round_is_closed_with_half_of_them(
    layout: str, faults: tuple[Crash, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of four tasks takes ten times as long for an example: the others do not wait for it."""

    def first_end_and_absent() -> tuple[float, list[int]]:
        simulator = build_simulator(prepared, conditions)
        simulator.run(check=checks_of(prepared))
        tasks, centrals = outcomes(prepared, simulator, finished=True)
        assert all(task.finished and task.totals.examples == 40 for task in tasks)
        absent = [np.count_nonzero(row["absent"]) for central in centrals for row in central.rows]
        return min(float(task.times[-1]["closed_s"]) for task in tasks if task.times is not None), absent

    (tmp_path / "c.yaml").write_text(layout + DATA)
    config = load_config(tmp_path / "c.yaml")
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    slow = (Stragglers(0.25, 10.0),)
    conditions = Conditions(round_s=Distribution("constant", 0.01), stragglers=slow, faults=faults)
    waits_s, nobody = first_end_and_absent()
    assert sum(nobody) == 0
    monkeypatch.setattr(NodeSpec, "build_policy", lambda spec: Half(**spec.policy))
    goes_on_s, absent = first_end_and_absent()
    assert max(absent) == 2
    assert sum(absent) > 0
    assert goes_on_s < waits_s / 2
