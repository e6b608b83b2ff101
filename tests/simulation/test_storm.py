"""Drawn runs through drawn faults: each gives the bits of the plain loop, or the command that shows where not."""

from __future__ import annotations

from pathlib import Path

import pytest
import storm
from click.testing import CliRunner

from drom_net.config.load import load_config
from drom_net.simulation.faults import Crash, Pause

BLOCK = 10


@pytest.mark.parametrize("start", range(0, 200, BLOCK))
def test_a_seed_of_faults_changes_no_bit(start: int) -> None:
    """Issue: "200 seeds of faults a CI run ... each with invariants checked after every event"."""
    outcomes = [storm.run_seed(seed) for seed in range(start, start + BLOCK)]
    assert all(outcome.events > 0 for outcome in outcomes)
    assert sum(outcome.compared for outcome in outcomes) >= 0.8 * BLOCK


def test_a_seed_is_a_scenario() -> None:
    first, again, other = storm.scenario(3), storm.scenario(3), storm.scenario(4)
    assert (first[0], first[2]) == (again[0], again[2])
    assert (first[0], first[2]) != (other[0], other[2])
    assert storm.run_seed(3) == storm.run_seed(3)


def test_the_seeds_of_a_ci_run_meet_everything() -> None:
    """Else they would show nothing."""
    scenarios = [storm.scenario(seed) for seed in range(200)]
    texts = "".join(text for text, _, _ in scenarios)
    assert all(f"graph: {graph}" in texts for graph in storm._GRAPHS)
    assert all(f"exchange: {exchange}" in texts for exchange in ("blocking", "overlap", "delayed"))
    assert all(f"tau: {tau}," in texts for tau in (1, 2, 5, 20))
    assert all(
        word in texts
        for word in (
            "tau: [",
            "postpone_below: 3",
            "name: local",
            "name: drom,",
            "ended: drop, solver: power",
            "ended: drop, solver: sums",
        )
    )
    adadrom = [text for text, _, _ in scenarios if "name: adadrom," in text]
    assert {"topology" in text for text in adadrom} == {"robust: true" in text for text in adadrom} == {True, False}
    assert texts.count("policy: {absent: proceed") > 10 < texts.count("policy: {absent: wait, deadline_s: ")
    conditions = [drawn for _, _, drawn in scenarios]
    faults = [fault for drawn in conditions for fault in drawn.faults]
    assert sum(isinstance(fault, Crash) for fault in faults) > 200
    assert sum(isinstance(fault, Pause) for fault in faults) > 50
    assert sum(bool(drawn.network.partitions) for drawn in conditions) > 50
    assert {drawn.network.loss for drawn in conditions} == {0.0, 0.05, 0.2, 0.4}
    reducers = [
        fault
        for _, prepared, drawn in scenarios
        for fault in drawn.faults
        if prepared.graph is None and fault.node == len(prepared.streams)
    ]
    assert len(reducers) > 5


def test_a_broken_run_says_how_to_run_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue: "a failure prints the one command that replays it"."""
    monkeypatch.setattr(storm, "expected_digest", lambda prepared, centrals: "another")
    with pytest.raises(AssertionError, match="the plain loop has another") as caught:
        storm.run_seed(7)
    assert str(caught.value).endswith("\nrun it again: scripts/storm --seed 7")


def test_so_does_one_that_comes_to_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storm, "_MOST_EVENTS", 5)
    with pytest.raises(AssertionError, match=r"^StuckError: no end after 5 events(.|\n)*scripts/storm --seed 7$"):
        storm.run_seed(7)


def test_the_command_counts_its_seeds() -> None:
    done = CliRunner().invoke(storm.main, ["--seeds", "3", "--start", "5"])
    assert done.exit_code == 0
    outcomes = [storm.run_seed(seed) for seed in (5, 6, 7)]
    events, compared = (sum(numbers) for numbers in zip(*outcomes, strict=True))
    assert done.output.startswith(f"3 seeds, 0 failed, {compared} with the plain loop's digest, {events} events in ")


def test_one_seed_is_told_in_words(tmp_path: Path) -> None:
    done = CliRunner().invoke(storm.main, ["--seed", "7"])
    assert done.exit_code == 0
    text, _, conditions = storm.scenario(7)
    assert done.output.startswith(f"{text}{conditions}\n")
    assert done.output.endswith(f"seed 7: {storm.run_seed(7).events} events, the digest of the plain loop\n")
    (tmp_path / "again.yaml").write_text(text)
    assert load_config(tmp_path / "again.yaml").data.examples > 0  # what is told is a YAML file


def test_the_command_fails_where_a_seed_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storm, "expected_digest", lambda prepared, centrals: "another")
    done = CliRunner().invoke(storm.main, ["--seeds", "2"])
    assert done.exit_code == 1
    assert "2 seeds, 2 failed" in done.output
    assert "run it again: scripts/storm --seed 0" in done.output
    assert "run it again: scripts/storm --seed 1" in done.output
    assert CliRunner().invoke(storm.main, ["--seed", "1"]).exit_code == 1


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--seed", "-1"], ["--seeds", "many"]])
def test_wrong_use_is_told(arguments: list[str]) -> None:
    assert CliRunner().invoke(storm.main, arguments).exit_code == 2
