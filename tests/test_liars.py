"""A member that sends whatever is finite ends nobody else: each learner's numbers stay finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, random_streams, run_loop

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.base import Algorithm, Contribution
from drom_net.algorithms.features import MOST_OF_SUM, Block, SparseVectors, bounded, numbers
from drom_net.algorithms.losses import LOSSES
from drom_net.learning.task import NO_REPLY, Centre, TaskLearner

LIES = [1e153, -1e30, 1e3]
ROWS = [None, 0, 1, 2]
ROUNDS = 150
MEMBERS, LIAR = 4, 3
BY_SUMS = "drom by sums"


def _learners() -> Iterator[tuple[str, str]]:
    for name in BUILTIN:
        losses = list(LOSSES) if "loss" in BUILTIN[name].parameters.__dataclass_fields__ else [""]
        if BUILTIN[name].shares_examples:
            losses.remove("squared_hinge")  # who steps by the square of a row can be led away by any that is long
        yield from ((name, loss) for loss in losses)
    yield BY_SUMS, ""


def _made(name: str, loss: str) -> Algorithm:
    if name == BY_SUMS:
        return BUILTIN["drom"].make(solver="sums")
    return BUILTIN[name].make(**({"loss": loss} if loss else {}))


def _lie(block: Block, value: float, row: int | None, rng: np.random.Generator) -> Block:
    """The block with one row, or all of it, replaced."""
    held = np.array(numbers(block))
    if held.dtype == np.int64:
        value = max(-MOST_OF_SUM, min(MOST_OF_SUM, int(value)))  # as far as integers go
        if row is None or row < len(held):
            held[slice(None) if row is None else row] = value * rng.choice([-1, 1])
        return block._replace(values=held) if isinstance(block, SparseVectors) else held
    if row is None or held.ndim == 1:
        held[...] = value * rng.choice([-1.0, 1.0], size=held.shape)
    elif row < len(held):
        held[row] = value
    return block._replace(values=held) if isinstance(block, SparseVectors) else held


def _lies(contribution: Contribution, value: float, row: int | None, rng: np.random.Generator) -> Contribution:
    return contribution._replace(vectors=tuple(_lie(block, value, row, rng) for block in contribution.vectors))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("value", LIES)
@pytest.mark.parametrize(("name", "loss"), [one for one in _learners() if not one[0].endswith("-d")])
def test_a_task_of_a_star_ends_nobody(name: str, loss: str, value: float, row: int | None) -> None:
    algorithm = _made(name, loss)
    streams = random_streams([ROUNDS] * MEMBERS)
    learners = [TaskLearner(algorithm, stream) for stream in streams]
    centre = Centre(algorithm, tasks=range(MEMBERS), dim=streams[0].dim, seed=0)
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(1, ROUNDS + 1):
            said = {}
            for task, learner in enumerate(learners):
                if task != LIAR:
                    said[task] = learner.begin(t)
                else:
                    said[task] = _lies(said[0], value, row, rng)
            replies = centre.reduce(t, said) if algorithm.is_sync(t) else {}
            for task, learner in enumerate(learners):
                if task != LIAR:
                    learner.end(t, replies.get(task, NO_REPLY))
        for learner in learners[:LIAR]:
            assert learner.result().totals.examples == ROUNDS  # raises DivergedError where it is not finite
        assert np.isfinite(centre.last_sigma)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("value", LIES)
@pytest.mark.parametrize("kind", ["ring", "full"])
@pytest.mark.parametrize("name", [name for name in BUILTIN if name.endswith("-d")])
def test_a_peer_ends_nobody(name: str, kind: str, value: float, row: int | None) -> None:
    honest = _made(name, "")
    rng = np.random.default_rng(0)

    def lying(step: Callable[..., Any]) -> Callable[..., Any]:
        def lie(*arguments: Any) -> Any:
            state, contribution = step(*arguments)
            return state, _lies(contribution, value, row, rng)

        return lie

    def liar_of(algorithm: Algorithm) -> Algorithm:
        send = algorithm.send and lying(algorithm.send)
        return algorithm._replace(update=lying(algorithm.update), send=send)

    specialize = honest.specialize
    liar = honest._replace(specialize=lambda position: liar_of(specialize(position) if specialize else honest))
    streams = random_streams([ROUNDS] * LIAR + [ROUNDS])
    result = run_loop([honest] * LIAR + [liar], streams, graph_of(kind, MEMBERS), seed=0)
    assert [task.totals.examples for task in result.tasks] == [ROUNDS] * MEMBERS


def test_what_is_within_bounds_is_not_touched() -> None:
    vector = np.array([1.0, -2.0])
    assert bounded(vector, 3.0) is vector
    assert bounded(10.0 * vector, 12.0).tolist() == [10.0, -12.0]
    sparse = SparseVectors(np.array([4]), np.array([[1e200], [1.0]]), 9)
    assert numbers(bounded(sparse, 1e30)).tolist() == [[1e30], [1.0]]
