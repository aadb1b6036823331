"""The losses: slopes, convexity, values by hand, and no overflow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_expit

from ocelad.learners.losses import LOSSES

margins = st.floats(-50, 50)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@every_loss
@given(m=margins)
def test_slope_is_the_negative_derivative(loss, m):
    h = 1e-6
    if abs(m - 1) > 2 * h:  # the hinge is not differentiable at 1
        derivative = (loss.value(m + h) - loss.value(m - h)) / (2 * h)
        assert loss.slope(m) == pytest.approx(-derivative, rel=1e-5, abs=1e-7)


@every_loss
@given(a=margins, b=margins)
def test_convex_and_never_increasing(loss, a, b):
    assert loss.value((a + b) / 2) <= (loss.value(a) + loss.value(b)) / 2 + 1e-9
    assert loss.slope(a) >= 0


@every_loss
@pytest.mark.parametrize("m", [-1e100, -800.0, 800.0, 1e100])
def test_no_margin_overflows(loss, m):
    assert math.isfinite(loss.value(m))
    assert math.isfinite(loss.slope(m))


@every_loss
def test_nan_stays_visible(loss):
    assert math.isnan(loss.value(math.nan))
    assert math.isnan(loss.slope(math.nan)) or loss is LOSSES["hinge"]  # whose slope is a constant below 1


@pytest.mark.parametrize(
    ("name", "m", "value", "slope"),
    [
        ("hinge", 1.0, 0.0, 0.0),
        ("hinge", 0.5, 0.5, 1.0),
        ("hinge", -2.0, 3.0, 1.0),
        ("hinge", 1.5, 0.0, 0.0),
        ("squared_hinge", 1.0, 0.0, 0.0),
        ("squared_hinge", 0.0, 0.5, 1.0),
        ("squared_hinge", -1.0, 2.0, 2.0),
        ("squared_hinge", 1.5, 0.0, 0.0),
        ("logistic", 0.0, math.log(2.0), 0.5),
        ("logistic", math.log(3.0), math.log(4.0 / 3.0), 0.25),
        ("logistic", -math.log(3.0), math.log(4.0), 0.75),
    ],
)
def test_values_by_hand(name, m, value, slope):
    assert LOSSES[name].value(m) == pytest.approx(value, rel=1e-15, abs=0.0)
    assert LOSSES[name].slope(m) == pytest.approx(slope, rel=1e-15, abs=0.0)


@pytest.mark.parametrize("m", [-30.0, -2.0, -5e-4, 0.0, 5e-4, 2.0, 30.0])
def test_the_logistic_loss_agrees_with_scipy(m):
    assert LOSSES["logistic"].value(m) == pytest.approx(-log_expit(m), rel=1e-14)
    assert LOSSES["logistic"].slope(m) == pytest.approx(expit(-m), rel=1e-14)
