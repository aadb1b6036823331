"""History: merging rows preserves all sums, and a saved history continues to the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad.ensemble.schedule import MAX_SCALES
from ocelad.estimators.history import MAX_ROWS, History

WIDTH = 6 + MAX_SCALES


def random_history(n_chunks, seed=0):
    rng, history, chunks = np.random.default_rng(seed), History(), []
    for _ in range(n_chunks):
        weights = rng.dirichlet(np.ones(rng.integers(1, 9)))
        chunk = (
            int(rng.integers(1, 99)),
            float(rng.random()),
            int(rng.integers(0, 9)),
            float(rng.random()),
            7.0,
            weights,
        )
        history.add(*chunk)
        chunks.append(chunk)
    return history, chunks


@pytest.mark.parametrize("n_chunks", [1, 2, 7, MAX_ROWS - 1, MAX_ROWS, MAX_ROWS + 1, 5 * MAX_ROWS + 3])
def test_merging_rows_preserves_all_sums(n_chunks):
    history, chunks = random_history(n_chunks)
    n_pairs, loss, n_correct, change, squared_length = (sum(chunk[k] for chunk in chunks) for k in range(5))
    total = history.total()
    assert (total.round, total.n_pairs) == (n_pairs, n_pairs)
    assert total.loss == pytest.approx(loss / n_pairs)
    assert total.accuracy == pytest.approx(n_correct / n_pairs)
    assert total.drift == pytest.approx(1000 * change / n_pairs)
    assert total.squared_length == pytest.approx(squared_length / n_pairs)
    assert len(history) <= MAX_ROWS
    rows = history.rows()
    assert [row.round for row in rows] == np.cumsum([row.n_pairs for row in rows]).tolist()
    assert rows[-1].round == n_pairs
    np.testing.assert_allclose(history.weights().sum(axis=1), 1)
    for max_rows in (1, 3, 12):
        parts = history.rows(max_rows)
        assert len(parts) == min(max_rows, len(history))
        assert sum(part.n_pairs for part in parts) == n_pairs
    assert history.last() == rows[-1]


def test_rows_are_merged_only_when_the_history_is_full():
    assert len(random_history(MAX_ROWS)[0]) == MAX_ROWS
    history, chunks = random_history(MAX_ROWS + 1)
    assert len(history) == MAX_ROWS // 2 + 1
    first = history.rows()[0]
    assert first.n_pairs == chunks[0][0] + chunks[1][0]
    assert history.last().n_pairs == chunks[-1][0]
    history, chunks = random_history(MAX_ROWS + 3)  # the last rows hold two chunks, then one
    assert [row.n_pairs for row in history.rows()[-2:]] == [chunks[-3][0] + chunks[-2][0], chunks[-1][0]]


@given(st.integers(0, 1200), st.integers(1, 40))
def test_a_saved_history_continues_to_the_same_bits(before, after):
    whole, chunks = random_history(before + after)
    stopped, _ = random_history(before)
    resumed = History.from_arrays(stopped.arrays())
    for chunk in chunks[before:]:
        resumed.add(*chunk)
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, resumed.arrays()[name])


def test_a_full_history_can_be_saved_and_continued():
    full, _ = random_history(MAX_ROWS)
    loaded = History.from_arrays(full.arrays())
    assert len(loaded) == MAX_ROWS
    assert loaded.rows() == full.rows()
    whole, chunks = random_history(MAX_ROWS + 5)
    for chunk in chunks[MAX_ROWS:]:
        loaded.add(*chunk)
    assert loaded.rows() == whole.rows()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sums": np.ones(WIDTH)}, "has the shape"),
        ({"sums": np.ones((2, WIDTH - 1))}, "has the shape"),
        ({"sums": np.full((1, WIDTH), np.nan)}, "not finite"),
        ({"sums": np.ones((MAX_ROWS + 1, WIDTH))}, "has the shape"),
        ({"sums": np.where(np.arange(WIDTH) == 0, 0.0, np.ones((2, WIDTH)))}, "rows without pairs"),
        ({"sums": np.where(np.arange(WIDTH) == 5, 0.0, np.ones((2, WIDTH)))}, "rows without pairs"),
        ({"chunks_per_row": np.array(0)}, "chunks per row"),
        ({"chunks_per_row": np.array(1.5)}, "chunks per row"),
        ({"chunks_per_row": np.array([1])}, "chunks per row"),
    ],
)
def test_refuses_invalid_arrays(change, sentence):
    history, _ = random_history(3)
    with pytest.raises(ValueError, match=f"its history .*{sentence}"):
        History.from_arrays({**history.arrays(), **change})
    assert len(History.from_arrays({**history.arrays(), "sums": np.ones((2, WIDTH))})) == 2


def test_the_leading_expert_has_the_largest_weight():
    history = History()
    history.add(1, 0.0, 1, 0.0, 1.0, np.array([0.2, 0.8]))
    history.add(1, 0.0, 1, 0.0, 1.0, np.array([0.1, 0.2, 0.7]))
    assert [row.leading_expert for row in history.rows()] == [1, 2]
    assert history.total().leading_expert == 1


def test_one_pair_and_none_have_a_summary():
    history = History()
    assert tuple(history.total()) == (0, 0, 0.0, 0.0, 0.0, 0.0, 0)
    assert (len(history), history.rows()) == (0, [])
    history.add(1, 0.75, 1, 0.5, 3.0, np.array([1.0]))
    assert tuple(history.total()) == (1, 1, 0.75, 1.0, 500.0, 3.0, 0)


def test_weights_are_means_over_the_chunks_of_a_row():
    history, chunks = random_history(2 * MAX_ROWS)  # two chunks per row
    width = max(len(chunk[-1]) for chunk in chunks)
    padded = np.array([np.pad(chunk[-1], (0, width - len(chunk[-1]))) for chunk in chunks])
    np.testing.assert_allclose(history.weights(), padded.reshape(MAX_ROWS, 2, width).mean(axis=1))


@pytest.mark.parametrize(("last", "expected"), [(5, [25, 55]), (12, [25, 62]), (25, [25, 50, 25]), (30, [25, 50, 30])])
def test_a_short_last_part_is_merged_into_the_one_before(last, expected):
    history = History()
    for n_pairs in (25, 25, 25, last):
        history.add(n_pairs, 1.0, n_pairs, 0.1, 1.0, np.array([0.25, 0.75]))
    rows = history.rows(3, merge_short=True)
    assert [row.n_pairs for row in rows] == expected
    assert rows[-1].round == history.total().round == 75 + last
    assert len(history.weights(3, merge_short=True)) == len(expected)
    assert [row.n_pairs for row in history.rows(3)] == [25, 50, last]
