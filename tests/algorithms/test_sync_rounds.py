"""The rounds in which vectors travel, at growing intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drom_net.algorithms.adadrom.learner import AdaDROMParameters, sync_of
from drom_net.algorithms.base import SyncRounds
from drom_net.algorithms.learner import AsARule


def schedule(tau: float, n: int, rounds: int) -> list[int]:
    """t_(k+1) = t_k + min(tau, 1 before 8, else max(3, t_k / n))."""
    found, t = [], 0
    while t <= rounds:
        t = int(t + min(tau, 1 if t < 8 else max(3, t // n)))
        found.append(t)
    return found


def test_the_first_ones_of_the_default_learner() -> None:
    found = sync_of(AdaDROMParameters()).up_to(60).tolist()
    assert found == [*range(1, 9), *range(11, 60, 3)]
    assert sync_of(AdaDROMParameters(tau=0)).up_to(60).tolist() == [*range(1, 9), 11, 14, 17, 21, 26, 32, 40, 50]
    assert sync_of(AdaDROMParameters(tau=1)).up_to(5).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("n", [4, 16])
@pytest.mark.parametrize("tau", [1, 2, 5, 20, 2**62])
def test_the_sync_rounds_grow_apart(tau: int, n: int) -> None:
    sync, wanted = SyncRounds(tau, n), schedule(tau, n, 1000)
    assert [t for t in range(1001) if sync.at(t)] == [t for t in wanted if t <= 1000]
    for t in range(1, 900):
        assert sync.next(t) == min(s for s in wanted if s >= t)
        assert sync.last(t) == max((s for s in wanted if s <= t), default=0)
        assert sync.count(t) == sum(s <= t for s in wanted)


def test_without_a_bound_there_are_about_4_and_a_half_ln_t_of_them() -> None:
    sync = SyncRounds(2**62, growing=4)
    for rounds in (100, 1000, 10_000, 10**6):
        assert sync.count(rounds) <= 5 * math.log(rounds)


@pytest.mark.parametrize("growing", [4, 16, 0])
@pytest.mark.parametrize("tau", [0, 1, 2, 5, 20, 2**62])
def test_all_up_to_a_round_are_those_that_are_some(tau: int, growing: int) -> None:
    sync = SyncRounds(tau, growing if tau else 0)
    for last in (0, 1, 2, 7, 8, 9, 99, 100, 101, 1000):
        found = sync.up_to(last)
        assert found.tolist() == [t for t in range(1, last + 1) if sync.at(t)]
        assert (found.dtype, len(found)) == (np.int64, sync.count(last))


@pytest.mark.parametrize("sync", [SyncRounds(1), SyncRounds(7), SyncRounds(20, 16), SyncRounds(2**62, 4)])
@pytest.mark.parametrize("again", [1.0, 1.25, 2.0])
def test_how_often_all_is_sent_is_counted_as_if_each_round_was_looked_at(sync: SyncRounds, again: float) -> None:
    rule = AsARule((0.1, 0.1), (1.0, 1.0), again)
    for last in (0, 1, 19, 20, 997):
        sent = count = 0
        for t in sync.up_to(last).tolist():
            if rule.is_due(t, sent):
                sent, count = t, count + 1
        assert rule.count_in_full(sync, last) == count
