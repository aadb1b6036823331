"""The history of a stream: sums are kept whatever is merged, and it comes back from a file as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad.estimators.history import MOST_ROWS, History


def filled(n_chunks, seed=0):
    rng, history, chunks = np.random.default_rng(seed), History(), []
    for _ in range(n_chunks):
        shares = rng.dirichlet(np.ones(rng.integers(1, 9)))
        chunk = int(rng.integers(1, 99)), float(rng.random()), int(rng.integers(0, 9)), float(rng.random()), 7.0, shares
        history.add(*chunk)
        chunks.append(chunk)
    return history, chunks


@pytest.mark.parametrize("n_chunks", [1, 2, 7, MOST_ROWS - 1, MOST_ROWS, MOST_ROWS + 1, 5 * MOST_ROWS + 3])
def test_nothing_is_lost_when_rows_are_merged(n_chunks):
    history, chunks = filled(n_chunks)
    pairs, loss, right, moved, squares = (sum(chunk[k] for chunk in chunks) for k in range(5))
    total = history.total()
    assert (total.round, total.pairs) == (pairs, pairs)
    assert total.loss == pytest.approx(loss / pairs)
    assert total.accuracy == pytest.approx(right / pairs)
    assert total.drift == pytest.approx(1000 * moved / pairs)
    assert total.squared_length == pytest.approx(squares / pairs)
    assert len(history) <= MOST_ROWS
    rows = history.rows()
    assert [row.round for row in rows] == np.cumsum([row.pairs for row in rows]).tolist()
    assert rows[-1].round == pairs
    np.testing.assert_allclose(history.shares().sum(axis=1), 1)
    for most in (1, 3, 12):
        parts = history.rows(most)
        assert len(parts) == min(most, len(history))
        assert sum(part.pairs for part in parts) == pairs
    assert history.lately() == rows[-1]


@given(st.integers(0, 1200), st.integers(1, 40))
def test_a_history_goes_on_from_its_arrays(before, after):
    whole, _ = filled(before + after)
    stopped, _ = filled(before)
    resumed = History.of_arrays(stopped.arrays())
    _, chunks = filled(before + after)
    for chunk in chunks[before:]:
        resumed.add(*chunk)
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, resumed.arrays()[name])


@pytest.mark.parametrize(
    "change",
    [
        {"sums": np.zeros((2, 3))},
        {"sums": np.full((1, 70), np.nan)},
        {"sums": np.zeros((MOST_ROWS + 1, 70))},
        {"chunks_per_row": np.array(0)},
        {"chunks_per_row": np.array(1.5)},
    ],
)
def test_refuses_arrays_of_something_else(change):
    history, _ = filled(3)
    with pytest.raises(ValueError, match="its history"):
        History.of_arrays({**history.arrays(), **change})


def test_the_leading_scale_is_that_of_the_largest_share():
    history = History()
    history.add(1, 0.0, 1, 0.0, 1.0, np.array([0.2, 0.8]))
    history.add(1, 0.0, 1, 0.0, 1.0, np.array([0.1, 0.2, 0.7]))
    assert [row.scale for row in history.rows()] == [1, 2]
    assert history.total().scale == 1
