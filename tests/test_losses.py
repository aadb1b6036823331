"""The losses: slopes against finite differences, convexity, and no overflow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad.learners.losses import LOSSES

margins = st.floats(-50, 50)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@every_loss
@given(m=margins)
def test_slope_is_the_negative_derivative(loss, m):
    h = 1e-6
    if abs(m - 1) > 2 * h:  # the hinge has a corner at 1
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
