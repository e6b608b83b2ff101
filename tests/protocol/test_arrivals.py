"""When a task's next round may begin."""

from __future__ import annotations

import math

import pytest

from drom_net.protocol.arrivals import Arrivals


class _Learner:
    """Of a live stream without an example."""

    is_live = True
    last_round = 9

    def is_ready(self, t: int) -> bool:
        return False


@pytest.mark.parametrize("order", [(2, 4), (4, 2)])
def test_rounds_that_others_have_begun_stay_open_in_whatever_order_that_is_heard(order: tuple[int, int]) -> None:
    arrivals = Arrivals(_Learner(), lambda t: 0.0)  # type: ignore[arg-type]
    assert arrivals.begins_at(1) == math.inf
    for t in order:
        arrivals.open(t)
    assert [arrivals.begins_at(t) for t in (1, 4, 5)] == [-math.inf, -math.inf, math.inf]
