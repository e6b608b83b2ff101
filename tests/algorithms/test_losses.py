"""The losses of the margin and the capped weight, each against a table and against mathematics done otherwise."""

from __future__ import annotations

import math
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drom_net.algorithms.losses import LOSSES, capped_weight, logistic, logistic_slope, loss_limit

INF = math.inf
LOSSES_OF_THE_PAPER = ("hinge", "squared_hinge", "logistic")

exponents = st.floats(min_value=0.0, max_value=1.0, exclude_min=True)
caps = st.one_of(st.just(INF), st.floats(min_value=0.0, exclude_min=True, allow_infinity=False))
losses = st.floats(min_value=0.0, allow_infinity=False)


def weight(f: float, *, p: float, xi: float, kappa: float = INF) -> float:
    return capped_weight(f, p=p, limit=loss_limit(p, xi), kappa=kappa)


def test_the_three_losses_of_the_specification_are_there() -> None:
    assert tuple(LOSSES) == LOSSES_OF_THE_PAPER


@pytest.mark.parametrize(
    ("name", "z", "value", "slope"),
    [
        ("hinge", 2.0, 0.0, 0.0),
        ("hinge", 1.0, 0.0, 0.0),
        ("hinge", math.nextafter(1.0, 0.0), 2.0**-53, -1.0),
        ("hinge", 0.5, 0.5, -1.0),
        ("hinge", 0.0, 1.0, -1.0),
        ("hinge", -3.0, 4.0, -1.0),
        ("squared_hinge", 2.0, 0.0, 0.0),
        ("squared_hinge", 1.0, 0.0, 0.0),
        ("squared_hinge", 0.5, 0.25, -1.0),
        ("squared_hinge", 0.0, 1.0, -2.0),
        ("squared_hinge", -3.0, 16.0, -8.0),
        ("logistic", 0.0, math.log(2.0), -0.5),
        ("logistic", 1000.0, 0.0, 0.0),
        ("logistic", -1000.0, 1000.0, -1.0),
    ],
)
def test_a_loss_and_its_slope_are_those_of_the_table(name: str, z: float, value: float, slope: float) -> None:
    """Section 1 of the specification; "-1 if z < 1, else 0 (at z = 1: 0)"."""
    assert LOSSES[name].value(z) == value
    assert LOSSES[name].slope(z) == slope


@pytest.mark.parametrize("name", LOSSES_OF_THE_PAPER)
@given(z=st.floats(min_value=-50.0, max_value=50.0))
def test_a_slope_is_the_derivative(name: str, z: float) -> None:
    if name != "logistic" and abs(z - 1.0) < 1e-3:
        return  # the corner, which the table has
    h = 1e-6
    difference = (LOSSES[name].value(z + h) - LOSSES[name].value(z - h)) / (2.0 * h)
    assert LOSSES[name].slope(z) == pytest.approx(difference, abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("name", LOSSES_OF_THE_PAPER)
@given(z=st.floats(min_value=-1e6, max_value=1e6), other=st.floats(min_value=-1e6, max_value=1e6))
def test_a_loss_is_convex_and_lies_above_its_tangents(name: str, z: float, other: float) -> None:
    """The paper's first assumption: f(w) >= f(w') + <grad f(w'), w - w'>."""
    loss = LOSSES[name]
    tangent = loss.value(other) + loss.slope(other) * (z - other)
    assert loss.value(z) >= tangent - 1e-9 * max(1.0, abs(tangent))


@given(z=st.floats(min_value=-1e300, max_value=1e300))
@example(z=709.0)
@example(z=-745.2)
def test_logistic_is_logaddexp(z: float) -> None:
    """Section 1: "log(1 + e^-z), as logaddexp(0, -z)"."""
    assert logistic(z) == pytest.approx(float(np.logaddexp(0.0, -z)), rel=4e-16, abs=5e-324)


@given(z=st.floats(min_value=-1e300, max_value=1e300))
@example(z=1e300)
@example(z=-1e300)
def test_the_slope_of_logistic_overflows_nowhere(z: float) -> None:
    """Section 1: "-1/(1 + e^z), computed from e^-abs(z)"."""
    expected = -1.0 / (1.0 + math.exp(z)) if z < 700.0 else -math.exp(-z)
    assert logistic_slope(z) == pytest.approx(expected, rel=1e-15, abs=1e-320)
    assert -1.0 <= logistic_slope(z) <= 0.0


# The capped weight


@pytest.mark.parametrize(
    ("f", "p", "xi", "kappa", "gamma"),
    [
        (0.25, 0.5, 1.0, INF, 1.0),  # 0.5 * 0.25^-0.5
        (4.0, 0.5, INF, INF, 0.25),
        (4.0, 0.5, 1.0, INF, 0.0),
        (1.0, 0.5, 1.0, INF, 0.5),  # f^p = xi is kept
        (4.0, 0.5, 2.0, INF, 0.25),
        (math.nextafter(4.0, 5.0), 0.5, 2.0, INF, 0.0),
        (3.0, 1.0, INF, 1.0, 1.0),
        (3.0, 1.0, INF, INF, 1.0),
        (3.0, 1.0, INF, 0.5, 0.5),
        (0.0, 0.5, 1.0, 2.0, 2.0),  # f = 0: cut at kappa, positive
        (1e-300, 0.5, 1.0, 2.0, 2.0),
        (0.0, 1.0, 1.0, INF, 1.0),
        (0.0, 1.0, 1.0, 0.25, 0.25),
    ],
)
def test_the_weight_is_that_of_the_edge_cases(f: float, p: float, xi: float, kappa: float, gamma: float) -> None:
    """Lemma 1 with the table "Capped weight" of section 1."""
    assert weight(f, p=p, xi=xi, kappa=kappa) == gamma


def test_a_loss_above_the_cap_is_an_outlier() -> None:
    """Remark 1: a point with f^p > xi "will be considered as an outlier, and ignored, i.e., gamma = 0"."""
    assert weight(4.0, p=0.5, xi=1.0) == 0.0
    assert weight(1e300, p=0.01, xi=5.0) == 0.0


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_with_no_loss_the_weight_is_finite_and_positive(p: float) -> None:
    """Section 1: "f = 0: p f^(p-1) is infinite [..]; the regularisation step is still done, since gamma > 0"."""
    assert 0.0 < weight(0.0, p=p, xi=1.0) <= sys.float_info.max
    assert weight(0.0, p=p, xi=1.0, kappa=2.0) == 2.0


@pytest.mark.parametrize(
    ("f", "p", "xi"),
    [
        (4.0, 0.5, 2.0),
        (9.0, 0.5, 3.0),
        (16.0, 0.75, 8.0),  # pow(8, 1/0.75) is 15.999999999999998
        (81.0, 0.75, 27.0),
        (256.0, 0.75, 64.0),
        (16.0, 0.25, 2.0),
        (2.0**40, 0.125, 32.0),
        (6.25, 0.5, 2.5),
        (0.0625, 0.75, 0.125),
        (7.0, 1.0, 7.0),
        (0.1, 1.0, 0.1),
        (1.0, 0.3, 1.0),
    ],
)
def test_a_loss_exactly_at_the_cap_is_kept_and_the_next_one_is_not(f: float, p: float, xi: float) -> None:
    """Section 1: "f^p = xi: kept (<=). Compare f with xi^(1/p), computed once"; these are exact in binary."""
    with localcontext(prec=60):
        assert abs(Decimal(f) ** Decimal(p) - Decimal(xi)) < Decimal("1e-50")
    assert weight(f, p=p, xi=xi) == pytest.approx(p * f ** (p - 1.0), rel=1e-15)
    assert weight(math.nextafter(f, INF), p=p, xi=xi) == 0.0


@given(p=st.floats(min_value=0.05, max_value=1.0), xi=st.floats(min_value=1e-3, max_value=1e3))
def test_the_limit_is_the_root_to_the_last_digit(p: float, xi: float) -> None:
    limit = loss_limit(p, xi)
    with localcontext(prec=80):
        below, above = Decimal(math.nextafter(limit, 0.0)), Decimal(math.nextafter(limit, INF))
        assert below ** Decimal(p) < Decimal(xi) < above ** Decimal(p)
    assert weight(limit, p=p, xi=xi) > 0.0
    assert weight(math.nextafter(limit, INF), p=p, xi=xi) == 0.0


@pytest.mark.parametrize(
    ("p", "xi", "limit"),
    [
        (0.5, INF, INF),
        (1e-3, 1e10, INF),
        (5e-324, 2.0, INF),
        (5e-324, 0.5, 0.0),
        (1e-3, 1e-10, 0.0),
        (1e-300, 1.0, 1.0),
    ],
)
def test_a_limit_outside_the_floats_is_infinite_or_zero(p: float, xi: float, limit: float) -> None:
    assert loss_limit(p, xi) == limit


@given(f=losses, p=exponents, xi=caps, kappa=caps)
@example(f=0.0, p=1e-300, xi=INF, kappa=INF)
@example(f=5e-324, p=5e-324, xi=INF, kappa=INF)
@example(f=5e-324, p=1.0, xi=5e-324, kappa=INF)
@example(f=sys.float_info.max, p=5e-324, xi=INF, kappa=INF)
@example(f=1e-300, p=1e-5, xi=1e300, kappa=5e-324)
def test_a_weight_is_never_negative_infinite_or_nan(f: float, p: float, xi: float, kappa: float) -> None:
    """Section 8: "gamma finite at f = 0 and tiny f"."""
    gamma = weight(f, p=p, xi=xi, kappa=kappa)
    assert math.isfinite(gamma)
    assert 0.0 <= gamma <= kappa


@given(f=st.floats(min_value=1e-6, max_value=1e6), p=st.floats(min_value=0.05, max_value=1.0))
def test_the_weight_is_the_derivative_of_the_capped_loss(f: float, p: float) -> None:
    """Lemma 1: gamma is the supergradient of h(u) = min(u^p, xi) at u = f."""
    h = 1e-5 * f
    difference = ((f + h) ** p - (f - h) ** p) / (2.0 * h)
    assert weight(f, p=p, xi=INF) == pytest.approx(difference, rel=1e-5)


@given(
    f=st.floats(min_value=1e-3, max_value=1e3),
    other=st.floats(min_value=0.0, max_value=1e3),
    p=st.floats(min_value=0.05, max_value=1.0),
    xi=st.floats(min_value=1e-2, max_value=1e2),
)
def test_the_weighted_loss_lies_above_the_capped_one(f: float, other: float, p: float, xi: float) -> None:
    """Remark 2: h(f(w)) <= h(f(w_t)) + gamma_t (f(w) - f(w_t))."""

    def capped(u: float) -> float:
        return min(u**p, xi)

    bound = capped(f) + weight(f, p=p, xi=xi) * (other - f)
    assert capped(other) <= bound + 1e-9 * max(1.0, abs(bound))


def test_with_xi_1_and_hinge_every_misclassified_example_is_an_outlier() -> None:
    """Section 1: "xi = 1 with hinge flags every misclassified sample: f <= 1 exactly when z >= 0"."""
    hinge = LOSSES["hinge"].value
    for p in (0.1, 0.5, 0.9):
        for z in (-1e-12, -0.1, -1.0, -50.0):
            assert weight(hinge(z), p=p, xi=1.0) == 0.0
        for z in (0.0, 1e-12, 0.5, 1.0, 3.0):
            assert weight(hinge(z), p=p, xi=1.0) > 0.0


def test_with_xi_1_and_logistic_the_limit_lies_at_minus_054() -> None:
    """Section 1: "For logistic the limit is z >= -0.54"."""
    assert weight(logistic(-0.541), p=0.5, xi=1.0) > 0.0
    assert weight(logistic(-0.542), p=0.5, xi=1.0) == 0.0
    assert -math.log(math.e - 1.0) == pytest.approx(-0.5413, abs=1e-4)
