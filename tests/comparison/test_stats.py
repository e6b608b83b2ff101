"""Figures that decide what a comparison says, against values worked out by hand or printed in tables."""

from __future__ import annotations

import math

import pytest

from drom_net.comparison.stats import paired_difference, spread_of, t_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (10, 2.2281), (29, 2.0452), (120, 1.9799)],
)
def test_the_quantiles_are_those_of_the_printed_table(freedom: int, quantile: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(quantile, abs=5e-5)


def test_other_probabilities() -> None:
    assert t_quantile(0.95, 9) == pytest.approx(1.8331, abs=5e-5)
    assert t_quantile(0.995, 1) == pytest.approx(63.6567, abs=5e-4)


def test_a_paired_difference_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, deviation 1, and 4.3027 / sqrt(3) to both sides.
    found = paired_difference([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert found is not None and found.low is not None and found.high is not None
    half = 4.302653 / math.sqrt(3.0)
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, 2.0 - half, 2.0 + half), abs=1e-5)


def test_what_is_missing_makes_no_figure() -> None:
    """A mean over the orders that did not diverge would flatter."""
    assert spread_of([0.1, None]) is None
    assert paired_difference([0.1, None], [0.1, 0.2]) is None
    single = paired_difference([0.3], [0.1])
    assert single is not None and single.low is None
