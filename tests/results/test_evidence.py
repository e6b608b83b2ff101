"""What can be said at any time of a mean difference: boundary, interval, forecast; scripts/evidence.py in small."""

from __future__ import annotations

import math

import evidence as script
import numpy as np
import pytest
from click.testing import CliRunner

from drom_net.results.evidence import LEVEL, SO_FAR, boundary, effect, interval, levels, missing, told_by


@pytest.mark.parametrize("level", [0.05, 0.05 / 24])
@pytest.mark.parametrize("variance", [0.0, 0.3, 10.0, 1e6])
def test_the_boundary_is_where_the_mixture_of_supermartingales_reaches_one_over_the_level(
    variance: float, level: float
) -> None:
    """The mean of exp(l S - l^2 V / 2) over a standard normal l, by quadrature."""
    at = float(boundary(variance, level))
    width = 1.0 / math.sqrt(variance + 1.0)
    rates = at * width * width + width * np.linspace(-12.0, 12.0, 20_001)
    density = np.exp(rates * at - rates**2 * (variance + 1.0) / 2) / math.sqrt(2 * math.pi)
    assert float(density.sum() * (rates[1] - rates[0])) == pytest.approx(1.0 / level, rel=1e-6)


def test_the_boundary_takes_many_at_once() -> None:
    variances = np.array([0.0, 1.0, 50.0])
    assert boundary(variances, 0.01).tolist() == [float(boundary(float(one), 0.01)) for one in variances]


def test_an_interval_is_around_the_mean_and_within_what_a_difference_can_be() -> None:
    low, high = interval(1000, 50.0, 20.0, 0.05, 1.0)
    assert (low + high) / 2 == pytest.approx(0.05)
    assert (high - low) / 2 == pytest.approx(float(boundary(20.0, 0.05)) / 1000)
    assert interval(1, 0.5, 1.0, 0.05, 1.0) == (-1.0, 1.0)


@pytest.mark.parametrize(("total", "variance"), [(8.0, 10.0), (-8.0, 10.0), (1.0, 2.0), (0.5, 0.01)])
def test_after_as_many_more_examples_as_are_missing_0_is_just_left_out(total: float, variance: float) -> None:
    more = missing(100, total, variance, 0.01)
    assert more is not None and more > 0

    def decided(examples: int) -> bool:
        times = examples / 100
        low, high = interval(examples, total * times, variance * times, 0.01, math.inf)
        return low > 0.0 or high < 0.0

    assert decided(100 + more + 1)
    assert not decided(100 + more - 2)


def test_nothing_is_missing_where_all_is_said_and_nothing_is_forecast_where_it_would_take_for_ever() -> None:
    assert missing(100, 50.0, 10.0, 0.01) == 0
    assert missing(100, 0.0, 10.0, 0.01) is None
    assert missing(100, 0.01, 10.0, 0.01) is None


def test_the_effect_is_what_leaves_0_out_and_the_first_counts() -> None:
    sure, unsure, bad = (0.1, 0.2), (-0.1, 0.2), (-0.2, -0.1)
    assert effect(unsure, unsure) == "cannot tell yet"
    assert effect(unsure, sure) == effect(sure, unsure) == effect(sure, bad) == "helps"
    assert effect(bad, sure) == effect(unsure, bad) == "hurts"


def test_a_verdict_is_withdrawn_where_later_examples_gain_nothing() -> None:
    """It is of the mean over all examples so far, and that falls."""
    early, late = interval(200, 40.0, 30.0, LEVEL, 1.0), interval(2000, 40.0, 300.0, LEVEL, 1.0)
    assert effect(early) == "helps" and effect(late) == "cannot tell yet"
    assert "withdrawn" in SO_FAR and "so far" in SO_FAR
    worse = interval(4000, -400.0, 600.0, LEVEL, 1.0)
    assert effect(worse) == "hurts"


def test_errors_tell_the_effect_where_they_can_else_log_loss() -> None:
    sure, unsure, bad = (0.1, 0.2), (-0.1, 0.2), (-0.2, -0.1)
    assert told_by("helps", sure) == told_by("hurts", bad) == "errors"
    assert told_by("helps", unsure) == told_by("helps", bad) == told_by("hurts", sure) == "log loss"
    assert told_by("cannot tell yet", unsure) is None


def test_all_tasks_share_the_level_and_one_has_nobody_to_share_with() -> None:
    assert levels(12) == (LEVEL / 12, LEVEL)
    assert levels(1) == levels(0) == (None, None)


def test_sharing_that_can_do_nothing_is_hardly_ever_said_to_help() -> None:
    """The promise: at most 5 % of runs of twelve sites ever say it of any. Of 10,000: `python scripts/evidence.py`."""
    result = CliRunner().invoke(script.main, ["--runs", "300", "--examples", "100", "--real", "1"])
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0] for line in result.output.splitlines()] == ["coins", "skewed", "replayed", "real"]


def test_sharing_that_gains_is_said_to_help() -> None:
    """Else the promise would be kept by never saying anything."""

    def steps() -> script.Steps:
        rng = np.random.default_rng(0)
        for differences, ranges in script.coins(24, 300, rng):
            yield np.where(rng.random((2, 24)) < 0.6, np.abs(differences), differences), ranges

    assert script.ever_helps(steps(), (2, 12)) == (1.0, 1.0)
