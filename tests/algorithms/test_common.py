"""What every entry of BUILTIN must satisfy; a new one is tested the moment it is listed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from helpers import frozen, random_streams, sparse_stream, spread

from drom_net.algorithms import BUILTIN, Algorithm
from drom_net.algorithms.base import Contribution, ContributionKind, Example, Reply, ReplyKind, SyncRounds
from drom_net.algorithms.features import SparseVector, other_than
from drom_net.algorithms.losses import LOSSES
from drom_net.core.seeding import stream as random_stream
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import ReferenceResult, run_reference
from drom_net.learning.task import Centre

NAMES = pytest.mark.parametrize("name", BUILTIN)
KINDS = pytest.mark.parametrize("kind", ["dense", "sparse"])


def build(name: str, **wanted: object) -> Algorithm:
    """The algorithm with its defaults, and those of the wanted values that it has."""
    cls = BUILTIN[name].parameters
    known = {field.name for field in dataclasses.fields(cls)}
    return BUILTIN[name].build(cls(**{key: value for key, value in wanted.items() if key in known}))


def streams_of(kind: str, lengths: Iterable[int] = (12, 9, 12), **options: object) -> list[TaskStream]:
    streams = random_streams(list(lengths), density=0.6, flip=0.1, **options)  # type: ignore[arg-type]
    return [sparse_stream(stream) for stream in streams] if kind == "sparse" else streams


def frozen_example(stream: TaskStream, index: int) -> Example:
    x = stream.features(index)
    for part in x if isinstance(x, SparseVector) else (x,):
        part.flags.writeable = False
    return Example(x, float(stream.labels[index]))


def frozen_vectors(value: Contribution | Reply) -> Contribution | Reply:
    for vector in value.vectors:
        vector.flags.writeable = False
    return value


def said(algorithm: Algorithm, state: Any, t: int) -> tuple[Any, Contribution]:
    """The state and the contribution after round t."""
    state, contribution = algorithm.update(state, t)
    return algorithm.send(state, t) if algorithm.send and algorithm.is_sync(t) else (state, contribution)


def received(algorithm: Algorithm, state: Any, reply: Reply, t: int) -> Any:
    """The state after the reply of round t has come, as `learning.TaskLearner` does it."""
    if reply.kind in (ReplyKind.NONE, ReplyKind.KEEP):
        return state
    return algorithm.receive(state, reply, t)


def bits(result: ReferenceResult) -> list[bytes]:
    models = [vector.tobytes() for task in result.tasks for vector in task.model.values()]
    return [result.digest.encode(), *models, *result.task_records, result.central_records]


@NAMES
def test_an_algorithm_has_parameters_and_presets_of_its_name(name: str) -> None:
    assert BUILTIN[name].name == BUILTIN[name].make().name == name
    fields = {field.name for field in dataclasses.fields(BUILTIN[name].parameters)}
    assert BUILTIN[name].reveals.endswith(".")
    for preset in ({}, *BUILTIN[name].presets.values()):
        assert set(preset) <= fields
        assert BUILTIN[name].make(**preset).name == name


@NAMES
@KINDS
def test_examples_contributions_and_replies_are_never_written_to(name: str, kind: str) -> None:
    """base.py: "Examples, contributions and replies are never written to"; here they cannot be."""
    algorithm = build(name, eta0=3.0, lam=0.2)
    streams = streams_of(kind)
    states = [algorithm.init_local(7) for _ in streams]
    central = algorithm.init_central((0, 1, 2), 7, random_stream(0, "power"))
    kept: list[tuple[np.ndarray, bytes]] = []
    for t in range(1, 10):
        contributions = {}
        for task, stream in enumerate(streams):
            states[task], _ = algorithm.learn(states[task], frozen_example(stream, t - 1), t)
            states[task], contribution = algorithm.update(states[task], t)
            contributions[task] = frozen_vectors(contribution)
        central, replies, _ = algorithm.central_step(central, contributions)
        for value in (*contributions.values(), *replies.values()):
            frozen_vectors(value)
            kept += [(vector, vector.tobytes()) for vector in value.vectors]
        states = [received(algorithm, state, replies[task], t) for task, state in enumerate(states)]
    assert all(vector.tobytes() == before for vector, before in kept)


@pytest.mark.parametrize("name", [name for name, learner in BUILTIN.items() if "star" in learner.on])
def test_replies_that_are_said_to_be_the_same_are_kept_once(name: str) -> None:
    algorithm, streams, kept = build(name, tau=2), streams_of("dense"), []
    states = [algorithm.init_local(7) for _ in streams]
    centre = Centre(algorithm, tasks=range(3), dim=7, seed=0)
    for t in range(1, 10):
        for task, stream in enumerate(streams):
            states[task], _ = algorithm.learn(states[task], frozen_example(stream, t - 1), t)
        told = [said(algorithm, state, t) for state in states]
        states, contributions = [state for state, _ in told], {task: its for task, (_, its) in enumerate(told)}
        if algorithm.is_sync(t):
            replies = centre.reduce(t, contributions)
            kept.append(len(centre.last_replies().vectors))
            states = [received(algorithm, state, replies[task], t) for task, state in enumerate(states)]
    if algorithm.exchange.contribution:
        assert max(kept) == (0 if algorithm.exchange.same_reply else 2)  # one stands for all who have none of their own


@NAMES
@KINDS
@pytest.mark.parametrize("solver", ["power", "gram"])
def test_equal_inputs_give_equal_bits(name: str, kind: str, solver: str) -> None:
    first, second = (
        run_reference(build(name, solver=solver, eta0=3.0, lam=0.2), streams_of(kind), seed=4) for _ in range(2)
    )
    assert bits(first) == bits(second)


@NAMES
@KINDS
@pytest.mark.parametrize("alignment", [list, spread])
def test_relabelling_the_tasks_permutes_the_results(name: str, kind: str, alignment: Callable) -> None:
    algorithm = build(name, solver="gram", eta0=2.0, lam=0.2, rho=0.3)
    order = [2, 0, 3, 1]
    streams = alignment(streams_of(kind, [11, 14, 9, 14]))
    straight = run_reference(algorithm, streams, seed=0)
    permuted = run_reference(algorithm, [streams[task] for task in order], seed=0)
    for place, task in enumerate(order):
        one, other = permuted.tasks[place], straight.tasks[task]
        *counts, log_loss = one.totals.to_list()
        assert counts == other.totals.to_list()[:-1]
        assert log_loss == pytest.approx(other.totals.log_loss_sum, rel=1e-9)
        for key in other.model:
            np.testing.assert_allclose(one.model[key], other.model[key], rtol=1e-9, atol=1e-9)


@NAMES
@KINDS
def test_predict_is_valid_at_any_time_and_changes_nothing(name: str, kind: str) -> None:
    """decisions.md: "`predict(state, x)` is valid at any time"."""
    algorithm = build(name)
    stream, plain = streams_of(kind)[0], streams_of(kind)[0]
    state, undisturbed = algorithm.init_local(7), algorithm.init_local(7)
    x = stream.features(0)
    assert algorithm.predict(state, x) == 0.0
    for t in range(1, 8):
        score = algorithm.predict(state, stream.features(t - 1))
        state, prediction = algorithm.learn(state, frozen_example(stream, t - 1), t)
        assert prediction.score == score  # prequential: predicted with w_t, before learning
        assert np.isfinite(algorithm.predict(state, x))
        state, _ = algorithm.update(state, t)
        assert np.isfinite(algorithm.predict(state, x))
        undisturbed, _ = algorithm.learn(undisturbed, frozen_example(plain, t - 1), t)
        undisturbed, _ = algorithm.update(undisturbed, t)
    for key, vector in algorithm.model(state).items():
        assert vector.tobytes() == algorithm.model(undisturbed)[key].tobytes()


@NAMES
def test_a_model_starts_with_w_and_gives_the_score(name: str) -> None:
    """decisions.md: "at its end come w and a"."""
    result = run_reference(build(name), streams_of("dense"), seed=0)
    x = frozen(np.linspace(-1.0, 1.0, 7))
    state = build(name).init_local(7)
    assert next(iter(build(name).model(state))) == "w"
    for task in result.tasks:
        assert next(iter(task.model)) == "w"
        assert task.model["w"].shape == (7,)
        assert all(vector.dtype == np.float64 for vector in task.model.values())
        assert all(vector.flags.c_contiguous for vector in task.model.values())
    stream = streams_of("dense")[0]
    state, _ = build(name).learn(state, frozen_example(stream, 0), 1)
    state, _ = build(name).update(state, 1)
    assert build(name).predict(state, x) == BUILTIN[name].score(build(name).model(state), x)


@NAMES
@KINDS
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_unit_rows_keep_the_defaults_finite(name: str, kind: str, loss: str) -> None:
    eta0 = 0.9 if loss == "squared_hinge" else 10.0  # its slope grows with w: eta0 must stay below 1 for unit rows
    result = run_reference(build(name, loss=loss, eta0=eta0), streams_of(kind, [60] * 3), seed=0)
    for task in result.tasks:
        for vector in task.model.values():
            assert np.isfinite(vector).all()
            assert np.linalg.norm(vector) < 1e3


@NAMES
def test_an_example_counts_once_and_less_by_a_capped_loss_alone(name: str) -> None:
    weights = {
        row["gamma"]
        for rows in run_reference(build(name), streams_of("dense"), seed=0).task_records
        for row in np.frombuffer(rows, TASK_DTYPE)
    }
    assert weights == {1.0} or (name in ("drom", "drom-d") and max(weights) <= 2.0)


@pytest.mark.parametrize("name", [name for name in BUILTIN if hasattr(BUILTIN[name].parameters(), "loss")])
def test_the_loss_that_is_told_is_that_of_the_margin(name: str) -> None:
    loss = LOSSES[BUILTIN[name].parameters().loss]  # type: ignore[attr-defined]
    for records in run_reference(build(name), streams_of("dense"), seed=0).task_records:
        for row in np.frombuffer(records, TASK_DTYPE):
            assert row["loss"] == pytest.approx(loss.value(float(row["label"] * row["score"])))


@NAMES
def test_without_a_parameter_for_it_vectors_travel_in_every_round(name: str) -> None:
    exchange = build(name).exchange
    if exchange.contribution and not hasattr(BUILTIN[name].parameters(), "tau"):
        assert exchange.sync == SyncRounds(1)


@NAMES
def test_every_preset_runs(name: str) -> None:
    for preset in ({}, *BUILTIN[name].presets.values()):
        algorithm = BUILTIN[name].make(**preset)
        result = run_reference(algorithm, streams_of("dense", [25] * 4), seed=0)
        assert all(np.isfinite(vector).all() for task in result.tasks for vector in task.model.values())


@NAMES
@pytest.mark.parametrize("num_tasks", [1, 3])
def test_messages_carry_as_many_vectors_as_are_declared(name: str, num_tasks: int) -> None:
    algorithm = build(name, rho=1.0, lam=0.2)
    streams = streams_of("dense", [20] * num_tasks)
    states = [algorithm.init_local(7) for _ in streams]
    central = algorithm.init_central(tuple(range(num_tasks)), 7, random_stream(0, "power"))
    layout, seen = algorithm.exchange.reply_layout(num_tasks), set()
    for t in range(1, 21):
        contributions = {}
        for task, stream in enumerate(streams):
            states[task], _ = algorithm.learn(states[task], frozen_example(stream, t - 1), t)
            states[task], contributions[task] = said(algorithm, states[task], t)
            with_vectors = contributions[task].kind is ContributionKind.VECTORS
            declared = algorithm.exchange.contribution if with_vectors else ()
            assert other_than(declared, contributions[task].vectors, 7) == ""
        central, replies, info = algorithm.central_step(central, contributions)
        assert sorted(replies) == list(range(num_tasks))
        assert info.sigma >= 0.0
        states = [received(algorithm, state, replies[task], t) for task, state in enumerate(states)]
        for reply in replies.values():
            seen.add(reply.kind)
            assert reply.kind is not ReplyKind.NONE
            assert other_than(layout if reply.kind is ReplyKind.VECTORS else (), reply.vectors, 7) == ""
    assert (ReplyKind.VECTORS in seen) == (layout != ())


@NAMES
def test_an_idle_task_is_answered_and_does_not_move(name: str) -> None:
    streams = spread(streams_of("dense", [10, 4]))
    result = run_reference(build(name), streams, seed=0)
    assert [task.totals.examples for task in result.tasks] == [10, 4]
