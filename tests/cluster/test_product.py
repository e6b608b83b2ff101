"""Equality of all drivers: the plain loop, the simulation on a bad network, and real processes give one digest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import product
import pytest
from click.testing import CliRunner
from helpers import pairwise
from product import EXCHANGES, GRAPHS, TAUS, Combination, combinations, digests, write_sites

from drom_net.algorithms import BUILTIN
from drom_net.core.errors import NodeFailedError

SELECTION = [
    # 1 + 1, 1 + m - 1, 2 + 1 vectors, blocks
    *(Combination("star", learner=name) for name in ("drom", "osmtl", "d-admm", "adadrom", "fed-avg")),
    *(Combination("ring", 2, learner=name) for name in ("adadrom", "fed-avg-d")),
    *(Combination(*chosen) for chosen in pairwise(GRAPHS, TAUS, EXCHANGES)),
]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sites")
    write_sites(folder)
    return folder


@pytest.mark.parametrize("combination", combinations(), ids=str)
def test_loop_and_simulation_give_one_digest(combination: Combination, sites: Path) -> None:
    """Section 8: "loop = simulated network = processes: bits"; the whole product."""
    loop, *simulated = (
        digest
        for seed in range(3)
        for digest in digests(combination, sites, ("reference", "simulation")[seed > 0 :], seed=seed).values()
    )
    assert len(loop) == 64
    assert simulated == [loop] * 3


@pytest.mark.process
@pytest.mark.parametrize("combination", SELECTION, ids=str)
def test_all_drivers_give_one_digest(combination: Combination, sites: Path) -> None:
    """The same with real processes; any two values of different choices occur together."""
    found = digests(combination, sites, product.DRIVERS)
    assert list(found) == ["reference", "simulation", "processes"]
    assert len(found["reference"]) == 64
    assert len(set(found.values())) == 1


def test_the_selection_has_every_pair() -> None:
    assert 15 <= len(SELECTION) <= 19
    assert set(SELECTION) <= set(combinations())
    for one in (each for each in combinations() if each.learner == "drom-d"):
        for left, right in (("graph", "tau"), ("graph", "exchange"), ("tau", "exchange")):
            wanted = getattr(one, left), getattr(one, right)
            assert any((getattr(chosen, left), getattr(chosen, right)) == wanted for chosen in SELECTION), wanted


def test_blocking_and_overlap_are_one_sequence_and_all_else_differs(sites: Path) -> None:
    """Were all digests the same, equal ones would show nothing."""
    found = {one: digests(one, sites, ["reference"])["reference"] for one in combinations()}
    sequences = {dataclasses.replace(one, exchange=one.exchange.replace("overlap", "blocking")) for one in found}
    # On a full graph peers of a learner that has a star, too, differ from it by their own chains alone.
    stars = sum("star" in learner.on for learner in BUILTIN.values())
    assert len(set(found.values())) == len(sequences) == stars + 3 * 3 * 2 + 3 * 3 * 3


# The command


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        product, "combinations", lambda: [Combination("star", learner="drom"), Combination("ring", 5, "delayed")]
    )


@pytest.mark.usefixtures("few")
def test_the_command_prints_a_line_for_each_combination() -> None:
    done = CliRunner().invoke(product.main, ["--no-processes"])
    assert done.exit_code == 0
    star, ring, last = done.stdout.splitlines()
    assert star.startswith("star ") and star.endswith(" equal")
    assert ring.startswith("ring tau=5 delayed ") and ring.endswith(" equal")
    assert last.startswith("2 combinations by reference, simulation: 0 not equal, ")
    assert "2/2 ring tau=5 delayed" in done.stderr


@pytest.mark.usefixtures("few")
def test_as_json_it_is_one_document() -> None:
    done = CliRunner().invoke(product.main, ["--no-processes", "--json", "--seed", "4"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["drivers"], found["unequal"]) == (["reference", "simulation"], 0)
    star, ring = found["combinations"]
    assert (star["graph"], ring["graph"], ring["tau"], ring["exchange"]) == ("star", "ring", 5, "delayed")
    assert star["equal"] and ring["equal"]
    assert ring["digests"]["reference"] == ring["digests"]["simulation"] != star["digests"]["reference"]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_it_fails_where_digests_differ(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = digests
    wrong = Combination("ring", 5, "delayed")

    def broken(combination: Combination, *rest: object, **more: object) -> dict[str, str]:
        found = real(combination, *rest, **more)  # type: ignore[arg-type]
        return found | {"simulation": "another"} if combination == wrong else found

    monkeypatch.setattr(product, "digests", broken)
    done = CliRunner().invoke(product.main, ["--no-processes", *arguments])
    assert done.exit_code == 1
    assert "another" in done.stdout
    if not arguments:
        assert "NOT EQUAL" in done.stdout.splitlines()[1]
        assert "1 not equal" in done.stdout


@pytest.mark.usefixtures("few")
def test_a_driver_that_fails_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    real = product.run

    def failing(prepared: object, *, driver: str, **more: object) -> object:
        if driver == "simulation":
            raise NodeFailedError("a node is down")
        return real(prepared, driver=driver, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(product, "run", failing)
    done = CliRunner().invoke(product.main, ["--no-processes"])
    assert done.exit_code == 1
    assert done.stdout.count("failed: a node is down") == 2
    # All failing alike is not equal either.
    monkeypatch.setattr(product, "run", lambda *_, **__: failing(None, driver="simulation"))
    done = CliRunner().invoke(product.main, ["--no-processes"])
    assert (done.exit_code, done.stdout.count("NOT EQUAL")) == (1, 2)


@pytest.mark.usefixtures("few")
def test_an_interrupted_run_ends_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "run", lambda *_, **__: ({"digest": "half"}, 130))
    done = CliRunner().invoke(product.main, ["--no-processes"])
    assert (done.exit_code, done.stdout) == (130, "")
