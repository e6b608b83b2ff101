"""For who writes a learner: one call that takes it through every driver.

from drom_net.testing import check_learner

def test_my_learner() -> None:
    check_learner("my_package.my_learner:MINE", processes=True)
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from drom_net.algorithms import BUILTIN, Learner, learner_named
from drom_net.cluster.plan import algorithm_of
from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.progress import Silent
from drom_net.cluster.run import run, run_loop
from drom_net.cluster.simulate import Conditions
from drom_net.config.load import load_config
from drom_net.core.errors import CheckpointError, DromNetError
from drom_net.core.seeding import stream
from drom_net.data.datasets import load_dataset
from drom_net.learning.task import TaskLearner
from drom_net.results.verification import recompute_digest, wrong_figures
from drom_net.simulation.faults import Crash
from drom_net.simulation.network import Distribution, NetworkSettings
from drom_net.storage.snapshot_codec import decode_snapshot, encode_snapshot, snapshot_classes

_BAD = NetworkSettings(Distribution("uniform", 0.0, 0.1), loss=0.1, duplicate=0.1, reorder=0.1)
_CRASHES = (Crash(0, 0.7, 0.5), Crash(1, 1.9, 0.5))


def check_learner(learner: Learner | str, *, processes: bool = False, **parameters: object) -> None:
    """Run a learner on small data, in lockstep and with idle rounds, and compare what comes out.

    By the plain loop, as a simulation on a network that loses, doubles and reorders messages and whose nodes crash,
    and as real processes where it is asked for: all must give one digest, and `verify` must accept each run.

    Args:
        learner: Its record, or its name as a YAML file has it: MODULE:ATTRIBUTE, or an entry point.
        processes: Whether also real processes; they must be able to import it (installed, or on PYTHONPATH).
        parameters: Other values than the defaults, by the keys of the section `algorithm`.

    Raises:
        AssertionError: With a sentence that says what the learner does not keep.
        ConfigError: There is no such learner, or no such parameter.
    """
    name = learner if isinstance(learner, str) else _name_of(learner)
    record = learner_named(name)
    with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
        for place, alignment in itertools.product(record.on, ("lockstep", "spread")):
            file = Path(folder) / f"{place}-{alignment}.yaml"
            content = _configuration(name, place, parameters, alignment)
            file.write_text(json.dumps(content), encoding="utf-8")
            config = load_config(file)
            prepared = prepare(config, load_dataset(config.data, base=config.base))
            digests = {}
            for driver in ("reference", "simulation", *["processes"] * processes):
                digests[driver] = _run(prepared, driver, Path(folder) / f"{place}-{alignment}-{driver}")
                if driver == "reference":
                    _check_snapshots(prepared, record)
            shown = ", ".join(f"{driver} {digest[:12]}" for driver, digest in digests.items())
            assert len(set(digests.values())) == 1, (
                f"{name} ({place}, {alignment}): not the same bits by every driver: {shown}; a step must depend on its "
                "arguments alone, and write to no example, contribution or reply"
            )


def _configuration(
    name: str, place: str, parameters: dict[str, object], alignment: str
) -> dict[str, dict[str, object] | object]:
    data = {"dataset": "synthetic", "tasks": 4, "examples": 26, "dim": 5, "flip": 0.1, "alignment": alignment}
    graph = {"topology": {"graph": "ring"}} if place == "graph" else {}
    return {
        "algorithm": {"name": name, **parameters},
        "data": data,
        "rounds": 40 if alignment == "spread" else 26,
        "allow_sharing_examples": True,
        "checkpoint": {"every_rounds": 5},
        **graph,
    }


def _name_of(learner: Learner) -> str:
    if BUILTIN.get(learner.name) is learner:
        return learner.name
    module = learner.parameters.__module__
    for attribute, value in vars(sys.modules[module]).items():
        if value is learner:
            return f"{module}:{attribute}"
    raise AssertionError(f"the record of {learner.name} is no attribute of {module}: give its name, MODULE:ATTRIBUTE")


def _run(prepared: Prepared, driver: str, out: Path) -> str:
    """The digest of a run that `verify` accepts."""
    name = prepared.config.algorithm.name
    try:
        conditions = Conditions(_BAD, faults=_CRASHES) if driver == "simulation" else None
        summary, _ = run(prepared, driver=driver, out=out, progress=Silent(), conditions=conditions)
    except DromNetError as error:
        raise AssertionError(f"{name}, driver {driver}: {error}") from error
    digest = str(summary["digest"])
    found = recompute_digest(out, prepared.roster.tasks)
    assert found == digest, (
        f"{name}, driver {driver}: records and model give the digest {found[:12]}, the run had {digest[:12]}; the "
        "vectors of `model` must be float64, and w of shape (d,)"
    )
    wrong = wrong_figures(out, summary)
    assert not wrong, f"{name}, driver {driver}: the records do not say what the summary says: {', '.join(wrong)}"
    return digest


def _check_snapshots(prepared: Prepared, record: Learner) -> None:
    """A node goes on from what is on its disk: what a state holds must be what a snapshot can."""
    name, classes = prepared.config.algorithm.name, snapshot_classes(record)
    algorithm = algorithm_of(prepared.config, 0)
    if prepared.graph is not None:
        algorithm = prepared.graph.neighborhoods[0].learner(algorithm)
    states: list[object] = [
        algorithm.init_central(tuple(range(len(prepared.streams))), prepared.roster.dim, stream(0, "power"))
    ]

    def after_round(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
        states.extend(learner.snapshot() for learner in learners)
        return t < 8

    run_loop(prepared, after_round)
    for state in states:
        try:
            written = b"".join(encode_snapshot(state))
            again = b"".join(encode_snapshot(decode_snapshot(written, classes)))
        except (TypeError, OverflowError, CheckpointError) as error:
            raise AssertionError(
                f"{name}: its state cannot be kept on disk: {error}; a state is made of numbers, texts, arrays, "
                "tuples, lists, dicts, and dataclasses of the module of its parameters or among Learner.states"
            ) from None
        assert again == written, f"{name}: its state comes back from disk as another one"
