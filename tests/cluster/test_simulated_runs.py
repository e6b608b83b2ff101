"""`drom-net run --driver simulation`: the run directory of the other drivers, on a virtual clock."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import pytest
from processes import DEADLINE_S, family, read_until

from drom_net.cli import main
from drom_net.cluster import run as run_module
from drom_net.cluster.local import Interruption
from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.simulate import Conditions
from drom_net.config.load import load_config
from drom_net.data.datasets import load_dataset
from drom_net.results.run_directory import load_disturbances
from drom_net.results.tables import read_timeline
from drom_net.simulation import simulator
from drom_net.simulation.faults import Crash, Pause
from drom_net.simulation.network import Distribution, NetworkSettings

DATA = """\
data: {dataset: synthetic, tasks: 6, examples: 40, dim: 6, flip: 0.1}
timeouts: {join_s: 600, linger_s: 600, lost_s: 1.0e+6}
"""


def peers(tau: object, exchange: str, graph: str) -> str:
    return f"algorithm: {{name: drom-d, tau: {tau}, exchange: {exchange}}}\ntopology: {{graph: {graph}}}\n{DATA}"


FILES = {
    "star": "algorithm: {name: drom}\n" + DATA,
    "alone": "algorithm: {name: local}\n" + DATA,
    "ring": peers(5, "blocking", "ring"),
    "grid": peers(1, "overlap", "grid"),
    "full": peers(7, "delayed", "full"),
    "in turn": peers(2, "overlap", "one-peer-exponential"),
    "unequal": peers("[1, 2, 3, 4, 5, 6]", "blocking", "ring"),
}
DRIVERS = ("reference", "simulation")
BAD = NetworkSettings(Distribution("uniform", 0.0, 0.2), loss=0.2, duplicate=0.2, reorder=0.2)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str) -> Path:
    path = Path("cluster.yaml")
    path.write_text(FILES[name])
    return path


def prepared(name: str) -> Prepared:
    config = load_config(write(name))
    return prepare(config, load_dataset(config.data, base=config.base))


class Silent:
    """A progress that keeps the rounds that it is told."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def start(self, names: object, rounds: int) -> None:
        pass

    def update(self, t: int, totals: object, sigma: float | None) -> None:
        self.rounds.append(t)
        assert len(totals()) == 6  # type: ignore[operator]

    def say(self, text: str) -> None:
        raise AssertionError(text)


@pytest.mark.parametrize("name", FILES)
def test_a_simulation_leaves_what_the_plain_loop_leaves(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Section 8: "loop = simulated network = processes: bits"."""
    file, summaries = str(write(name)), []
    for driver in DRIVERS:
        assert main(["run", file, "--driver", driver, "--out", driver, "--json"]) == 0
        summaries.append(json.loads(capsys.readouterr().out))
    assert main(["verify", "reference"]) == main(["verify", "simulation"]) == 0
    loop, simulated = summaries
    assert (simulated["driver"], simulated["status"]) == ("simulation", "finished")
    for key in ("digest", "rounds", "examples", "error_rate", "f1"):
        assert simulated[key] == loop[key], key
    for one, other in zip(loop["tasks"], simulated["tasks"], strict=True):
        assert (one["name"], one["error_rate"], one["f1"]) == (other["name"], other["error_rate"], other["f1"])
    rows = [[Path(driver, records).read_bytes() for records in ("records.csv", "rounds.csv")] for driver in DRIVERS]
    assert rows[0] == rows[1]
    assert simulated["bytes_sent"] > 0
    assert not Path("simulation/nodes").exists()


def test_a_simulation_takes_the_time_of_its_clock(capsys: pytest.CaptureFixture[str]) -> None:
    """Examples that come once in an hour."""
    arguments = ["--set", "data.pace_s=3600", "--set", "rounds=24", "--set", "timeouts.lost_s=1e6"]
    assert main(["run", str(write("star")), "--driver", "simulation", "--out", "run", "--json", *arguments]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert 24 * 3600 <= summary["seconds"] < 24 * 3600 + 60


@pytest.mark.parametrize("name", FILES)
def test_crashes_and_a_bad_network_leave_the_same_directory(name: str) -> None:
    ready = prepared(name)
    reducer = [Crash(6, 1.5, 1.0)] if ready.graph is None else []
    faults = (Crash(0, 0.5, 0.5), Crash(3, 0.6, 0.0), Crash(0, 2.0, 3.0), Pause(2, 1.0, 2.0), *reducer)
    conditions = Conditions(BAD, round_s=Distribution("constant", 0.1), faults=faults, detect_s=1.0, seed=3)
    loop, _ = run_module.run(ready, driver="reference", out=Path("loop"), progress=Silent())
    summary, code = run_module.run(
        ready, driver="simulation", out=Path("run"), progress=Silent(), conditions=conditions
    )
    assert code == 0
    assert summary["digest"] == loop["digest"]
    assert main(["verify", "run"]) == 0
    assert Path("run/records.csv").read_bytes() == Path("loop/records.csv").read_bytes()
    rows = read_timeline(Path("run"), summary)  # it is taken for whole
    assert {fault.what for fault in load_disturbances(Path("run"))} == {"crash", "pause"}
    # By the clock of the faults: nobody goes on while it is down.
    closed = rows[0]["closed_s"]
    assert not ((closed > 2.0) & (closed < 5.0)).any()


class Interrupted(Interruption):
    """The user is told to have had enough at the third look."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        if name == "exit_code":
            type(self).looks += 1
            return 130 if type(self).looks > 2 else 0
        return super().__getattribute__(name)


@pytest.mark.parametrize("crashed", [False, True], ids=["all there", "one down"])
@pytest.mark.parametrize("every", [20, 61, 113])
@pytest.mark.parametrize("name", FILES)
def test_a_simulation_that_is_stopped_keeps_what_was_learned(
    name: str, every: int, crashed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of a node which is down then: it ends as its snapshot has it."""
    monkeypatch.setattr(simulator, "_LOOK_EVERY_EVENTS", every)
    monkeypatch.setattr(run_module, "Interruption", Interrupted)
    monkeypatch.setattr(Interrupted, "looks", 0)
    faults = (Crash(1, 0.01 * every, 1e6),) if crashed else ()
    conditions = Conditions(BAD, round_s=Distribution("constant", 0.1), faults=faults)
    progress = Silent()
    summary, code = run_module.run(
        prepared(name), driver="simulation", out=Path("run"), progress=progress, conditions=conditions
    )
    assert code == 130
    assert summary["status"] == "interrupted"
    assert summary["examples"] < 6 * 40
    assert len(progress.rounds) == 3
    with Path("run/records.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == summary["examples"]
    assert main(["verify", "run"]) == 0


@pytest.mark.process
@pytest.mark.parametrize("graph", ["star", "ring"])
def test_ctrl_c_ends_a_simulation_in_order(graph: str, tmp_path: Path) -> None:
    name = "drom" if graph == "star" else "drom-d"
    text = f"algorithm: {{name: {name}}}\ndata: {{dataset: synthetic, tasks: 3, examples: 300000, dim: 5}}\n"
    (tmp_path / "long.yaml").write_text(text if graph == "star" else f"{text}topology: {{graph: {graph}}}\n")
    with family(tmp_path) as processes:
        launcher = processes.start("run", "long.yaml", "--driver", "simulation", "--out", "run", "--json")
        read_until(launcher, "rounds_per_s")
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=DEADLINE_S)
        assert launcher.returncode == 130
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert summary["status"] == "interrupted"
        assert 0 < summary["examples"] < 900_000
        assert processes.run("verify", "run")[0] == 0
