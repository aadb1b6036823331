"""rank_features: the input features by their share of the distances between items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer, is_sparse
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.curved_metric import AnyMetric, CurvedMetric, linear_part
from ocelad.estimators.distance_shares import check_items, distance_shares, normalize_parts
from ocelad.estimators.item_lookup import ItemLookup
from ocelad.feature_maps import LandmarkMap
from ocelad.io import dataframes

#: What shares were computed from; see ``FeatureWeights``.
Source: TypeAlias = Literal["items", "stream", "units"]

_DESCRIPTIONS: dict[Source, str] = {
    "items": "share of the squared distances between items",
    "stream": "share of the squared distances between points of the stream",
    "units": "share of the weights per unit of each feature: the items are not known",
}


class FeatureWeight(NamedTuple):
    """What one feature contributes to a distance.

    Attributes
    ----------
    feature : str
        The name of the feature, or ``x0``, ``x1``, ... if features have no names.
    weight : float
        Its weight per unit: the diagonal entry of M, which is the squared distance of two points that differ by 1 in
        this feature only. Of a curved distance, that of the linear part.
    share : float
        Its share of the squared distances between items; see ``distance_shares``. The shares of all features sum to 1.
        A feature that is correlated with others can have a negative share: it makes items nearer, on average.
    """

    feature: str
    weight: float
    share: float


class FeatureWeights(list[FeatureWeight]):
    """A list of ``FeatureWeight``, the largest share first. ``pandas.DataFrame`` accepts it as a table.

    Attributes
    ----------
    source : "items", "stream" or "units"
        What the shares were computed from. "items": all pairs of the items. "stream": what the tracker has seen along
        the stream; for a linear metric the mean square of each feature's difference, as if features were uncorrelated,
        and for a curved distance its landmarks. "units": nothing is known about the items, and the shares are the
        weights divided by their sum, so they depend on the units of the features.
    """

    source: Source

    def __init__(self, rows: Iterable[FeatureWeight] = (), source: Source = "items") -> None:
        super().__init__(rows)
        self.source = source

    @property
    def description(self) -> str:
        """What a share is a share of, in words."""
        return _DESCRIPTIONS[self.source]


def rank_features(
    metric: AnyMetric,
    names: Sequence[str] | None,
    n_features: int | None = None,
    *,
    items: Any = None,
    mean_squares: Floats | None = None,
) -> FeatureWeights:
    """Return the ``n_features`` features with the largest shares (None: all), the largest first.

    Parameters
    ----------
    metric : Metric or CurvedMetric
    names : sequence of str, or None
    n_features : int or None
    items : array or sparse matrix of shape (n_items, n_features), or None
        The items whose distances are shared out; None: they are not known.
    mean_squares : array of shape (n_features,), or None
        If items are not known: the mean squares of the features' differences, up to a common factor. A curved distance
        uses its landmarks instead, which are some of the points.

    Examples
    --------
    >>> from ocelad import Metric
    >>> metric = Metric([[1.0, 0.0], [0.0, 3.0]])
    >>> rank_features(metric, ["width", "height"], 1, items=[[0.0, 0.0], [6.0, 2.0]])
    [FeatureWeight(feature='width', weight=1.0, share=0.75)]
    >>> weights = rank_features(metric, ["width", "height"], 1)
    >>> weights, weights.source
    ([FeatureWeight(feature='height', weight=3.0, share=0.75)], 'units')
    """
    if n_features is not None:
        check_integer(n_features, "n_features", at_least=1)
    weights = linear_part(metric).diagonal
    if isinstance(metric, CurvedMetric) and metric.factors is not None:
        weights = weights * np.square(metric.factors)
    source: Source = "items"
    if items is None and isinstance(metric, CurvedMetric) and isinstance(metric.feature_map, LandmarkMap):
        landmarks = metric.feature_map.landmarks  # as the parts measure them, after the factors
        if landmarks.shape[0] > 1:
            items = landmarks if metric.factors is None else _divide_columns(landmarks, metric.factors)
            source = "stream"
    if items is not None:
        shares = distance_shares(metric, items)
    else:
        source = "units" if mean_squares is None else "stream"
        with np.errstate(over="ignore"):
            shares = normalize_parts(weights if mean_squares is None else weights * mean_squares)
    order = np.argsort(-shares, kind="stable")[:n_features]
    rows = (FeatureWeight(names[i] if names else f"x{i}", float(weights[i]), float(shares[i])) for i in order.tolist())
    return FeatureWeights(rows, source)


def _divide_columns(rows: Any, factors: Floats) -> Any:
    if not is_sparse(rows):
        return rows / factors
    return type(rows)((rows.data / factors[rows.indices], rows.indices, rows.indptr), shape=rows.shape)


def read_items(items: Any, name: str, n_features: int, names: tuple[str, ...] | None) -> Any:
    """Return items from an array-like, a sparse matrix or a table, after checking them; ``names`` are the expected."""
    values, item_names = dataframes.to_rows(items, name)
    dataframes.check_feature_names(item_names, names, name)
    return check_items(values, name, n_features)


def read_known_items(items: ItemLookup | None, n_features: int, names: tuple[str, ...] | None) -> Any:
    """Return the points of a preprocessor's items; None if they are not known, or fewer than two."""
    table = None if items is None else items.table()
    return None if table is None or table.shape[0] < 2 else read_items(table, "the preprocessor", n_features, names)


def stream_mean_squares(tracker: Any) -> Floats | None:
    """Return the mean squares of the features' differences along the stream, up to a factor; None if not known.

    A feature that never differed has 0.
    """
    if not isinstance(tracker, AdaptiveTracker | CurvedTracker):
        return None
    sums = tracker.sums_of_squares
    return sums if sums.any() else None
