"""FedAvg (McMahan et al. 2017) written down once more: Local's steps, and an average every tau rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from helpers import graph_of, random_streams, run_loop, sparse_stream

from drom_net.algorithms.fed_avg import FedAvgDParameters, FedAvgParameters, fed_avg, fed_avg_d
from drom_net.algorithms.learner import of_task
from drom_net.algorithms.local import LocalParameters, local
from drom_net.data.stream import TaskStream
from drom_net.graph.weights import mixing_weights
from drom_net.learning.reference import PeersResult, ReferenceResult, run_reference


def models(result: ReferenceResult | PeersResult) -> np.ndarray:
    return np.stack([task.model["w"] for task in result.tasks])


def averaged(streams: Sequence[TaskStream], S: np.ndarray, *, eta0: float, tau: int) -> np.ndarray:
    """W of shape (m, d) with the logistic loss; S of shape (m, m) says who counts how much for whom."""
    m = len(streams)
    W = np.zeros((m, streams[0].dim))
    for t in range(1, max(stream.num_examples for stream in streams) + 1):
        live = [i for i in range(m) if t <= streams[i].num_examples]
        for i in live:
            x, y = np.asarray(streams[i].rows)[t - 1], streams[i].labels[t - 1]
            W[i] += eta0 / math.sqrt(t) * y * x / (1.0 + math.exp(y * (W[i] @ x)))
        if t % tau == 0:
            part = S[np.ix_(live, live)]
            W[live] = part @ W[live] / part.sum(axis=1)[:, np.newaxis]
    return W


@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("lengths", [(12, 12, 12), (12, 5, 9)])
def test_a_star_is_its_equation(tau: int, lengths: tuple[int, ...]) -> None:
    """A task that has ended no longer counts, whether or not it has said so in a sync round."""
    streams = random_streams(lengths, flip=0.1)
    result = run_reference(fed_avg(FedAvgParameters(eta0=2.0, tau=tau)), streams, seed=0)
    np.testing.assert_allclose(models(result), averaged(streams, np.ones((3, 3)), eta0=2.0, tau=tau), rtol=1e-9)


@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("weights", ["mask", "metropolis", "lazy"])
def test_a_graph_is_its_equation(tau: int, weights: str) -> None:
    """Weights count as they are, and not relative to the own one."""
    streams = random_streams([13] * 4, flip=0.1)
    graph = graph_of("path", 4, weights=weights)
    result = run_loop(fed_avg_d(FedAvgDParameters(eta0=2.0, tau=tau)), streams, graph, seed=0)
    S = np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-1) if weights == "mask" else mixing_weights(graph, weights)
    np.testing.assert_allclose(models(result), averaged(streams, S, eta0=2.0, tau=tau), rtol=1e-9)


def test_on_a_full_graph_it_is_the_star_to_the_bit() -> None:
    streams = [sparse_stream(stream) for stream in random_streams([15] * 4, density=0.6)]
    star = run_reference(fed_avg(FedAvgParameters(tau=3)), streams, seed=0)
    peers = run_loop(fed_avg_d(FedAvgDParameters(tau=3)), streams, graph_of("full", 4), seed=0)
    assert models(star).tobytes() == models(peers).tobytes()


def test_one_task_and_no_sync_round_are_local_to_the_bit() -> None:
    (stream, other) = random_streams([15, 15])
    alone = models(run_reference(local(LocalParameters()), [stream, other], seed=0))
    assert models(run_reference(fed_avg(FedAvgParameters(tau=2)), [stream], seed=0))[0].tobytes() == alone[0].tobytes()
    apart = run_reference(fed_avg(FedAvgParameters(tau=16)), [stream, other], seed=0)
    assert models(apart).tobytes() == alone.tobytes()


def test_a_task_that_has_learned_nothing_does_not_count_and_gets_the_average() -> None:
    streams = random_streams([8, 8, 8])
    late = TaskStream(streams[2].rows[:1], streams[2].labels[:1], streams[2].clean[:1], spread_over=8)  # type: ignore[index]
    assert late.index_at(4) is None
    result = run_reference(fed_avg(FedAvgParameters(tau=4)), [*streams[:2], late], seed=0, rounds=4)
    two = run_reference(fed_avg(FedAvgParameters(tau=4)), streams[:2], seed=0, rounds=4)
    assert models(result)[:2].tobytes() == models(two).tobytes()
    assert models(result)[2].tobytes() == models(two)[0].tobytes()


def test_each_task_may_have_a_tau_of_its_own() -> None:
    parameters = FedAvgDParameters(tau=(2, 4, 3))
    algorithms = [fed_avg_d(of_task(parameters, task)) for task in range(3)]
    result = run_loop(algorithms, random_streams([12] * 3), graph_of("full", 3), seed=0)
    assert np.isfinite(models(result)).all()
    with pytest.raises(ValueError, match="of one tau"):
        fed_avg_d(parameters)
