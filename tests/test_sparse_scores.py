"""The k-NN error of sparse points equals that of the same points as a dense array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

from ocelad.evaluation.scores import knn_error
from ocelad.evaluation.scores.sparse_knn import sparse_knn_error


@given(seed=st.integers(0, 2**40), k=st.integers(1, 11), n_classes=st.integers(1, 4))
def test_counts_give_the_same_error_as_dense_points(seed, k, n_classes):
    """The points have many ties and empty rows. Inner products of small counts are exact."""
    rng = np.random.default_rng(seed)
    X, T = (rng.poisson(0.5, size=(n, 5)) for n in (12, 7))
    labels, test_labels = rng.integers(n_classes, size=12), rng.integers(n_classes, size=7)
    kind = [csr_array, csc_array, coo_array, csr_matrix][seed % 4]
    assert sparse_knn_error(kind(X), labels, k) == knn_error(X, labels, k)
    tested = sparse_knn_error(kind(X), labels, k, test_points=kind(T), test_labels=test_labels)
    assert tested == knn_error(X, labels, k, test_points=T, test_labels=test_labels)


def test_real_numbers_and_text_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30)) * (rng.random((200, 30)) < 0.2)
    labels = np.where(X[:, 0] > 0, "up", "down")
    assert sparse_knn_error(csr_array(X), labels, 7) == knn_error(X, labels, 7)


POINTS = csr_array(np.eye(3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sparse_knn_error(np.eye(3), [0, 0, 1], 1), "points is a ndarray; accepted: a SciPy sparse matrix"),
        (lambda: sparse_knn_error(POINTS, [0, 1], 1), r"labels has shape \(2,\)"),
        (lambda: sparse_knn_error(POINTS * np.nan, [0, 0, 1], 1), "points holds nan"),
        (lambda: sparse_knn_error(POINTS, [0, 0, 1], 3), "n_neighbors is 3; accepted: at most 2, the number of other"),
        (lambda: sparse_knn_error(POINTS, [0, 0, 1], 0), "n_neighbors must be a whole number of at least 1"),
        (lambda: sparse_knn_error(POINTS, [0, 0, 1], 1, test_points=POINTS), "accepted: both or neither"),
        (lambda: sparse_knn_error(POINTS, [0, 0, 1], 1, test_labels=[1]), "accepted: both or neither"),
        (
            lambda: sparse_knn_error(POINTS, [0, 0, 1], 1, test_points=POINTS[:, :2], test_labels=[0, 0, 1]),
            "test_points has 2 features; 3 are expected",
        ),
    ],
)
def test_invalid_arguments_raise_an_error(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
