"""The rounds in which vectors travel, at growing intervals."""

from __future__ import annotations

import math

import pytest

from drom_net.algorithms.base import SyncRounds


def schedule(tau: float, rounds: int) -> list[int]:
    """t_(k+1) = t_k + max(1, min(tau, floor(t_k / 4)))."""
    found, t = [], 0
    while t <= rounds:
        t = int(t + max(1, min(tau, t // 4)))
        found.append(t)
    return found


@pytest.mark.parametrize("tau", [1, 2, 5, 20, 2**62])
def test_the_sync_rounds_grow_apart(tau: int) -> None:
    sync, wanted = SyncRounds(tau, growing=True), schedule(tau, 1000)
    assert [t for t in range(1001) if sync.at(t)] == [t for t in wanted if t <= 1000]
    for t in range(1, 900):
        assert sync.next(t) == min(s for s in wanted if s >= t)
        assert sync.last(t) == max((s for s in wanted if s <= t), default=0)
        assert sync.count(t) == sum(s <= t for s in wanted)


def test_without_a_bound_there_are_about_4_and_a_half_ln_t_of_them() -> None:
    sync = SyncRounds(2**62, growing=True)
    for rounds in (100, 1000, 10_000, 10**6):
        assert sync.count(rounds) <= 5 * math.log(rounds)
