"""Batch logistic regression on the differences of pairs, refitted to all pairs seen so far."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_choice, check_integer
from ocelad.pairs import Events

# The inverse strengths of the penalty that cross-validation chooses from.
STRENGTHS = tuple(float(10.0**power) for power in range(-4, 2))
_MAX_ITERATIONS = 200


class PairLogistic:
    """Logistic regression of "similar" on ``|u|`` and ``u^2`` of each feature, its penalty by cross-validation.

    It gives log odds and no distance. It is refitted to all pairs when log odds are requested after new pairs. Until
    two similar and two dissimilar pairs were seen it predicts their base rate, ``(s + 1/2) / (n + 1)`` for s similar
    pairs of n.

    Parameters
    ----------
    n_features : int
    n_folds : int
        The largest number of folds; there are at most as many as pairs of the rarer label.
    products : bool
        Whether all products ``|u_i| |u_j|`` of two features are used, too.

    Examples
    --------
    >>> U = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = PairLogistic(2)
    >>> model.add_pairs(Events(U, np.where(abs(U[:, 0]) < 0.7, 1.0, -1.0)))
    >>> (model.log_odds([[0.1, 2.0], [2.0, 0.1]]) > 0).tolist()
    [True, False]
    """

    def __init__(self, n_features: int, *, n_folds: int = 5, products: bool = False) -> None:
        self._n_features = check_integer(n_features, "n_features", at_least=1)
        self._n_folds = check_integer(n_folds, "n_folds", at_least=2)
        self._products = check_choice(products, "products", (False, True))
        self._pairs: list[Events] = []
        self._model: Any = None  # the last fit; None after new pairs

    def add_pairs(self, events: Events) -> None:
        """Add pairs to those of the next fit."""
        self._pairs.append(events)
        self._model = None

    def log_odds(self, U: Any) -> Floats:
        """Return the log odds of "similar" for each difference."""
        U = check_array(U, "U", 2, n_features=self._n_features)
        y = np.concatenate([np.empty(0), *(events.y for events in self._pairs)])
        n_similar = int((y > 0).sum())
        n_folds = min(self._n_folds, n_similar, len(y) - n_similar)
        if n_folds < 2:
            return np.full(len(U), np.log((n_similar + 0.5) / (len(y) - n_similar + 0.5)))
        if self._model is None:
            seen = np.concatenate([events.U for events in self._pairs])
            self._model = _fit(self._features(seen), y, n_folds)
        return np.asarray(self._model.decision_function(self._features(U)))

    def _features(self, U: Floats) -> Floats:
        sizes = np.abs(U)
        if not self._products:
            return np.hstack([sizes, np.square(U)])
        rows, columns = np.triu_indices(U.shape[1])
        return np.hstack([sizes, sizes[:, rows] * sizes[:, columns]])


def _fit(features: Floats, y: Floats, n_folds: int) -> Any:
    """Return the pipeline with the penalty of the lowest cross-validated log loss."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=_MAX_ITERATIONS)),
        {"logisticregression__C": STRENGTHS},
        scoring="neg_log_loss",
        cv=StratifiedKFold(n_folds),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # weak penalties of separable pairs have no optimum
        return search.fit(features, y > 0).best_estimator_
