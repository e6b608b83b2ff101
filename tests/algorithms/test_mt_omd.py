"""MT-OGD (Cesa-Bianchi et al. 2022) written down once more, with the interaction matrix and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from helpers import random_streams, sparse_stream, spread

from drom_net.algorithms.base import Example
from drom_net.algorithms.local import LocalParameters, local
from drom_net.algorithms.mt_omd import MTOMDParameters, mt_omd
from drom_net.data.stream import TaskStream
from drom_net.learning.reference import ReferenceResult, run_reference
from drom_net.testing import check_learner


def models(result: ReferenceResult) -> np.ndarray:
    return np.stack([task.model["w"] for task in result.tasks])


def transcribed(streams: Sequence[TaskStream], *, eta0: float, b: float, tau: int) -> np.ndarray:
    """W of shape (N, d) with the logistic loss. `late` is what the others do not know yet."""
    N = len(streams)
    inverse = np.linalg.inv((1.0 + b) * np.eye(N) - b / N * np.ones((N, N)))
    W, late = np.zeros((N, streams[0].dim)), np.zeros((N, streams[0].dim))
    for t in range(1, max(stream.last_round() for stream in streams) + 1):
        for i, stream in enumerate(streams):
            k = stream.index_at(t)
            if k is not None:
                x, y = np.asarray(stream.rows)[k], stream.labels[k]
                step = eta0 / math.sqrt(t) * -y * x / (1.0 + math.exp(y * (W[i] @ x)))
                W[i] -= step / (1.0 + b)
                late[i] += step
        if t % tau == 0:
            W -= (inverse - np.eye(N) / (1.0 + b)) @ late
            late[:] = 0.0
    return W


@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("b", [0.5, 4.0])
@pytest.mark.parametrize("alignment", [list, spread])
def test_it_is_its_equation(tau: int, b: float, alignment: Callable) -> None:
    streams = alignment(random_streams([16, 16, 16] if alignment is list else [16, 7, 12], flip=0.1))
    result = run_reference(mt_omd(MTOMDParameters(eta0=2.0, b=b, tau=tau)), streams, seed=0)
    np.testing.assert_allclose(models(result), transcribed(streams, eta0=2.0, b=b, tau=tau), rtol=1e-9, atol=1e-12)


def test_one_active_task_of_two_by_hand() -> None:
    """As in the paper: (1 + b/N) / (1 + b) of the step for the active task, (b/N) / (1 + b) for the other."""
    algorithm = mt_omd(MTOMDParameters(eta0=1.0, b=1.0))
    states = [algorithm.init_local(1), algorithm.init_local(1)]
    centre = algorithm.init_central((0, 1), 1, np.random.default_rng(0))
    states[0], _ = algorithm.learn(states[0], Example(np.array([1.0]), 1.0), 1)  # the gradient is -1/2
    assert algorithm.send is not None
    said = {task: algorithm.send(state, 1)[1] for task, state in enumerate(states)}
    _, replies, _ = algorithm.central_step(centre, said)
    states = [algorithm.receive(state, replies[task], 1) for task, state in enumerate(states)]
    assert [state.w[0] for state in states] == [0.375, 0.125]


def test_with_b_0_it_is_local_and_with_a_large_b_all_tasks_have_one_model() -> None:
    streams = [sparse_stream(stream) for stream in random_streams([15] * 3, density=0.6)]
    for steps in ("falling", "constant"):
        alone = run_reference(local(LocalParameters(eta0=0.5, steps=steps)), streams, seed=0)
        apart = run_reference(mt_omd(MTOMDParameters(eta0=0.5, steps=steps, b=0.0)), streams, seed=0)
        np.testing.assert_allclose(models(apart), models(alone), rtol=1e-12)
    W = models(run_reference(mt_omd(MTOMDParameters(b=1e9)), streams, seed=0))
    np.testing.assert_allclose(W, np.tile(W.mean(axis=0), (3, 1)), atol=1e-6)


def test_the_steps_of_a_task_that_has_ended_still_count() -> None:
    streams = random_streams([20, 5])
    alone = models(run_reference(local(LocalParameters()), streams, seed=0))[0]
    W = models(run_reference(mt_omd(MTOMDParameters(b=0.5)), streams, seed=0))
    assert np.linalg.norm(W[0] - alone) > 0.1


def test_every_driver_gives_the_same_bits() -> None:
    check_learner("mt-omd", tau=3)
