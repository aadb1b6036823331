"""Tracked metrics for River: learned from pairs (PairMetric) or class labels (LabelMetric), and a k-NN classifier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import inf, isfinite
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

try:
    from river import base
except ImportError:
    raise ImportError("ocelad.river needs River: pip install 'ocelad[river]'") from None

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, check_label
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.grow import add_features
from ocelad.engines.rice import track_metric
from ocelad.engines.rice_settings import SQUARED_LENGTH, Rice
from ocelad.ensemble.ocelad import Ocelad
from ocelad.estimators.learning_method import Method, check_method
from ocelad.estimators.reservoir import MAX_COORDINATE, Partner, Reservoir
from ocelad.estimators.scaling import DistanceScaler, ScaleSetting
from ocelad.metric import Metric
from ocelad.pairs import Events, subtract

__all__ = ["LabelMetric", "MetricKNNClassifier", "PairMetric"]

Features: TypeAlias = Mapping[Any, Any]
Point: TypeAlias = dict[Hashable, float]

# The adaptive method learns from this many of the latest pairs again when a new feature appears. Up to a number of
# features there are no unused columns; above, their number doubles, which keeps the average cost per feature small.
MAX_REPLAYED_PAIRS, MAX_EXACT_CAPACITY = 2000, 32
# Rounds over which votes for the right class are discounted, and their factor in the log weights of searches. Chosen on
# other streams and seeds than benchmarks/river_knn.py shows.
VOTE_HORIZON, VOTE_RATE = 500.0, 0.5


class PairMetric(base.Base):
    """Learns a metric on dicts from similar and dissimilar pairs, and keeps tracking it when it changes.

    Features may appear at any time, and an absent feature counts as 0. With the method "adaptive" the last 2000 pairs
    are stored. When a new feature appears, a tracker with the new number of features learns from them again; what was
    learned only from earlier pairs is lost. With "rice" a new feature starts with the initial weight without changing
    the others, and no pairs are stored. A call that raises an error has no effect.

    Parameters
    ----------
    method : "adaptive", "rice" or Rice
        As in ``ocelad.MetricTracker``; "rice" means ``Rice()``. Of the settings of RICE-OCELAD, ``initial_scale`` is
        the initial weight of a feature, after scaling; None means 0.1, which puts a pair of typical distance at the
        threshold. ``max_norm`` and ``max_rank`` must be None, because the number of features grows. With
        ``shrinkage``, the weights of features that have not appeared yet shrink as well. ``diagonal=True`` suits very
        many features.
    scale : "auto" or float
        The length by which points are divided; "rice" only, because "adaptive" does not depend on the unit. "auto":
        estimated from the first 100 pairs (see ``ocelad.estimators.scaling.DistanceScaler``).

    Examples
    --------
    >>> from ocelad.river import PairMetric
    >>> metric = PairMetric()
    >>> for i in range(200):
    ...     metric.learn_pair({"size": i % 7, "noise": i % 5}, {"size": i % 7, "noise": i % 3}, similar=True)
    ...     metric.learn_pair({"size": i % 7, "noise": i % 5}, {"size": i % 7 + 3, "noise": i % 5}, similar=False)
    >>> metric.similar({"size": 1, "noise": 0}, {"size": 1, "noise": 4})
    True
    >>> metric.similar({"size": 1, "noise": 0}, {"size": 4, "noise": 0})
    False
    """

    def __init__(self, *, method: Method = "adaptive", scale: ScaleSetting = "auto") -> None:
        self.method = method
        self.scale = scale
        self._tracker = _growing_tracker(method, scale)

    @property
    def n_rounds(self) -> int:
        """The number of pairs learned from."""
        return self._tracker.n_rounds

    @property
    def threshold(self) -> float:
        """The threshold on the distance: points at most this far apart are similar; negative if none are."""
        return self._tracker.metric().distance_threshold

    def learn_pair(self, x: Features, z: Features, similar: Any) -> None:
        """Learn that two points are similar (True or +1) or not (False or -1)."""
        y = check_label(similar, "similar")
        point, other = check_point(x, "x"), check_point(z, "z")
        self._tracker.learn(point, [Partner(other, y > 0)])

    def distance(self, x: Features, z: Features) -> float:
        """Return the tracked distance between two points."""
        return self._tracker.distance(check_point(x, "x"), check_point(z, "z"))

    def similar(self, x: Features, z: Features) -> bool:
        """Return whether two points are at most ``threshold`` apart."""
        return self.distance(x, z) <= self.threshold


class LabelMetric(base.SupervisedTransformer):
    """Maps points to a space where Euclidean distance is a metric learned from class labels: small within a class.

    Every point is compared with past points, alternately with one of its class (a similar pair) and with one of another
    class (a dissimilar pair). Points are mapped by the symmetric square root of the metric, ``x -> M^(1/2) x``. It
    changes little when M does, and each output feature belongs to the input feature of the same name. Principal axes,
    in contrast, could change signs and order from one point to the next, which would mislead the next model of a
    pipeline.

    Parameters
    ----------
    reservoir_size : int
        The number of past points that are kept as partners; see ``ocelad.estimators.reservoir.Reservoir``. After a
        change, partners from before it mislead for about this many points.
    pairs_per_point : int
        The number of partners of a point; 0: nothing is learned, and distances are Euclidean up to a factor.
    method, scale
        As in ``PairMetric``.
    seed : int or None
        The seed of the draws of partners.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from ocelad.river import LabelMetric
    >>> model = preprocessing.StandardScaler() | LabelMetric(seed=1) | linear_model.LogisticRegression()
    >>> score = evaluate.progressive_val_score(datasets.Phishing().take(300), model, metrics.Accuracy())
    >>> score.get() > 0.8
    True

    Notes
    -----
    A feature that is absent from a point counts as 0 but can have a nonzero output. The output has all features seen so
    far, those of the point first.
    """

    def __init__(
        self,
        *,
        reservoir_size: int = 100,
        pairs_per_point: int = 2,
        method: Method = "adaptive",
        scale: ScaleSetting = "auto",
        seed: int | None = None,
    ) -> None:
        self.reservoir_size = reservoir_size
        self.pairs_per_point = pairs_per_point
        self.method = method
        self.scale = scale
        self.seed = seed
        self._learner = _LabelLearner(reservoir_size, pairs_per_point, method, scale, seed)

    @property
    def n_rounds(self) -> int:
        """The number of pairs learned from."""
        return self._learner.tracker.n_rounds

    def distance(self, x: Features, z: Features) -> float:
        """Return the tracked distance between two points."""
        return self._learner.tracker.distance(check_point(x, "x"), check_point(z, "z"))

    def learn_one(self, x: Features, y: Any) -> None:
        """Learn that point x has class y."""
        self._learner.learn(check_point(x, "x"), y)

    def transform_one(self, x: Features) -> dict[Any, float]:
        """Map a point to the space where Euclidean distance equals the tracked distance, with the same names."""
        point, tracker = check_point(x, "x"), self._learner.tracker
        root = tracker.initial_weight() ** 0.5
        mapped: dict[Any, float] = {name: root * value for name, value in point.items()}
        if tracker.columns:
            values = tracker.apply_root(tracker.vector(point)).tolist()
            mapped |= {name: values[column] for name, column in tracker.columns.items()}
        return mapped


class MetricKNNClassifier(base.Classifier):
    """A k-nearest-neighbours classifier over recent points, under a metric learned from their classes.

    The last ``window_size`` points are stored unmapped, so that their distances always follow the current metric M. The
    votes of three searches are averaged: under the plain Euclidean distance, under M, and under its square, which
    favours the informative directions more. The weight of a search depends on the votes that it recently gave to the
    right class (Hedge, Freund and Schapire 1997), so that the classifier is not much worse than k-NN without a metric
    where learning does not help.

    Parameters
    ----------
    n_neighbors : int
        The number of neighbours that vote in each search.
    window_size : int
        The number of recent points among which neighbours are searched.
    weighted : bool
        Whether votes are weighted by the inverse distance. Neighbours at distance 0, if any, then share all votes.
    reservoir_size, pairs_per_point, method, scale, seed
        As in ``LabelMetric``; with ``pairs_per_point=0`` it is Euclidean k-NN.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from ocelad.river import MetricKNNClassifier
    >>> model = preprocessing.StandardScaler() | MetricKNNClassifier(seed=1)
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments().take(400), model, metrics.Accuracy())
    >>> score.get() > 0.75
    True
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        window_size: int = 1000,
        weighted: bool = True,
        *,
        reservoir_size: int = 100,
        pairs_per_point: int = 2,
        method: Method = "adaptive",
        scale: ScaleSetting = "auto",
        seed: int | None = None,
    ) -> None:
        self.n_neighbors = check_integer(n_neighbors, "n_neighbors", at_least=1)
        self.window_size = check_integer(window_size, "window_size", at_least=1)
        self.weighted = check_choice(weighted, "weighted", (False, True))
        self.reservoir_size = reservoir_size
        self.pairs_per_point = pairs_per_point
        self.method = method
        self.scale = scale
        self.seed = seed
        self._learner = _LabelLearner(reservoir_size, pairs_per_point, method, scale, seed)
        self._window = np.zeros((0, 0))
        self._labels: list[Hashable] = []
        self._n_points = 0
        self._classes: dict[Hashable, None] = {}
        # Without learning all three searches would be the same.
        self._log_weights = np.zeros(3 if pairs_per_point else 1)

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def n_rounds(self) -> int:
        """The number of pairs learned from."""
        return self._learner.tracker.n_rounds

    def learn_one(self, x: Features, y: Any) -> None:
        """Learn that point x has class y."""
        point = check_point(x, "x")
        searches = self._search(point)
        self._learner.learn(point, y)
        if searches:
            gains = [votes[[self._labels[at] == y for at in nearest.tolist()]].sum() for nearest, votes in searches]
            log_weights = (1.0 - 1.0 / VOTE_HORIZON) * self._log_weights + VOTE_RATE * np.array(gains)
            self._log_weights = log_weights - log_weights.max()
        at = self._n_points % self.window_size
        self._reserve_window(at, self._learner.tracker.capacity)
        self._window[at] = self._learner.tracker.vector(point)
        self._labels[at : at + 1] = [y]
        self._n_points += 1
        self._classes[y] = None

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Any, float]:
        """Return the fraction of the nearest neighbours' votes for each class learned so far."""
        totals: dict[Any, float] = dict.fromkeys(self._classes, 0.0)
        weights = np.exp(self._log_weights)
        for (nearest, votes), weight in zip(self._search(check_point(x, "x")), weights / weights.sum(), strict=False):
            for at, vote in zip(nearest.tolist(), (weight * votes).tolist(), strict=True):
                totals[self._labels[at]] += vote
        return {label: min(total, 1.0) for label, total in totals.items()}  # rounding can exceed 1

    def _search(self, point: Point) -> list[tuple[Any, Floats]]:
        """Return the nearest neighbours and their votes in each search; no searches before the first point."""
        if not self._labels:
            return []
        # Features that were never learned add the same to all distances and are left out.
        U = self._window[: len(self._labels)] - self._learner.tracker.vector(point)
        squares = [_square_rows(U)]
        if len(self._log_weights) > 1:
            metric = self._learner.tracker.metric()
            with np.errstate(over="ignore", invalid="ignore"):  # a distance too large for float64 is infinite
                squares += [metric.squared_length(U), _square_rows(metric.matmul(U.T).T)]
        return [self._vote(np.where(np.isnan(each), inf, each)) for each in squares]

    def _vote(self, squares: Floats) -> tuple[Any, Floats]:
        """Return the nearest neighbours and their votes, which sum to 1."""
        k = min(self.n_neighbors, len(squares))
        nearest = np.argpartition(squares, k - 1)[:k]
        return nearest, _vote_weights(np.sqrt(squares[nearest]), self.weighted)

    def _reserve_window(self, at: int, width: int) -> None:
        """Enlarge the window such that it has row ``at`` and at least ``width`` columns."""
        rows, columns = self._window.shape
        if at >= rows or width > columns:
            # Doubling keeps the average cost per point constant.
            rows = rows if at < rows else min(max(2 * rows, 16), self.window_size)
            window = np.zeros((rows, max(width, columns)))
            window[: self._window.shape[0], :columns] = self._window
            self._window = window


def check_point(x: Features, name: str) -> Point:
    """Return the features as floats; refuse values that are not finite numbers.

    >>> check_point({"height": "tall"}, "x")
    Traceback (most recent call last):
        ...
    TypeError: feature 'height' of x is 'tall'; accepted: finite numbers
    """
    if not isinstance(x, Mapping):
        raise TypeError(f"{name} is a {type(x).__name__}; accepted: a dict of features and their values")
    point = {}
    for feature, value in x.items():
        if type(value) is not float:
            if not isinstance(value, (Real, np.bool_)):
                raise TypeError(f"feature {feature!r} of {name} is {value!r}; accepted: finite numbers")
            try:
                value = float(value)
            except OverflowError:
                value = inf
        if not isfinite(value):
            raise ValueError(f"feature {feature!r} of {name} is {value!r}; accepted: finite numbers")
        if abs(value) > MAX_COORDINATE:
            raise ValueError(f"feature {feature!r} of {name} is {value!r}; accepted: numbers up to {MAX_COORDINATE:g}")
        point[feature] = value
    return point


class _GrowingTracker(ABC):
    """A tracker of points with named features: each feature has a column, and columns are added for new features."""

    def __init__(self) -> None:
        self.columns: dict[Hashable, int] = {}
        self.capacity = 0
        self.n_rounds = 0
        self._metric: Metric | None = None
        self._root: Floats | None = None

    def learn(self, point: Point, partners: Sequence[Partner]) -> None:
        """Learn from the pairs of a point and each of its partners; an error in one has no effect at all."""
        columns = self._with_columns(point, *(partner.point for partner in partners))
        capacity = self.capacity
        if not capacity or len(columns) > capacity:
            capacity = max(1, self._larger_capacity(len(columns)))
        x = _vector(point, columns, capacity)
        U = np.array([subtract(x, _vector(partner.point, columns, capacity)) for partner in partners])
        self._learn_rows(U.reshape(-1, capacity), [partner.similar for partner in partners], capacity)
        self.columns, self.capacity = columns, capacity
        self.n_rounds += len(partners)
        self._metric = self._root = None

    @abstractmethod
    def _larger_capacity(self, n_features: int) -> int:
        """Return the number of columns with which to continue when there are more features than columns."""

    @abstractmethod
    def _learn_rows(self, U: Floats, similar: list[bool], capacity: int) -> None:
        """Continue with this many columns, and learn from the differences in the rows of U, if any."""

    @abstractmethod
    def _play(self) -> Metric:
        """Return the current metric of points with ``capacity`` columns."""

    @abstractmethod
    def initial_weight(self) -> float:
        """Return the weight of a feature that has not appeared yet."""

    def _with_columns(self, *points: Point) -> dict[Hashable, int]:
        """Return the columns of all features; the order of new ones does not depend on the order of the dicts."""
        new = {name for point in points for name in point if name not in self.columns}
        if not new:
            return self.columns
        names = sorted(new, key=lambda name: (type(name).__name__, str(name)))
        return self.columns | {name: len(self.columns) + i for i, name in enumerate(names)}

    def vector(self, point: Point) -> Floats:
        """Return the values of a point in their columns, without features that have no column."""
        return _vector(point, self.columns, self.capacity)

    def metric(self) -> Metric:
        """Return the current metric; it is computed once per point."""
        if self._metric is None:
            self._metric = self._play() if self.capacity else Metric.from_diagonal([self.initial_weight()])
        return self._metric

    def apply_root(self, vector: Floats) -> Floats:
        """Return ``M^(1/2) v``, with the symmetric root of the metric."""
        metric = self.metric()
        if metric.is_diagonal:
            return np.asarray(np.sqrt(metric.diagonal) * vector)
        if self._root is None:
            eigenvalues, vectors = np.linalg.eigh(metric.matrix)
            self._root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
        return np.asarray(self._root @ vector)

    def distance(self, x: Point, z: Point) -> float:
        unknown = (x.keys() | z.keys()) - self.columns.keys()
        rest = self.initial_weight() * sum((x.get(name, 0.0) - z.get(name, 0.0)) ** 2 for name in unknown)
        inside = self.metric().squared_length(self.vector(x) - self.vector(z)) if self.capacity else 0.0
        return float(np.sqrt(inside + rest))


class _GrowingRice(_GrowingTracker):
    """RICE-OCELAD: its learners accept new features, which start with the initial weight."""

    def __init__(self, rice: Rice, scale: ScaleSetting) -> None:
        super().__init__()
        for name in ("max_norm", "max_rank"):
            if getattr(rice, name) is not None:
                raise ValueError(f"{name} must be None in models for River, because their number of features grows")
        self._initial_scale = 1.0 / SQUARED_LENGTH if rice.initial_scale is None else rice.initial_scale
        self._rice = replace(rice, initial_scale=self._initial_scale).validate(n_features=1)
        self._scaler = DistanceScaler(scale)
        self._ocelad: Ocelad[Any, Metric] | None = None

    def _larger_capacity(self, n_features: int) -> int:
        # Doubling keeps the average cost per new feature small; unused columns hold zeros.
        return max(n_features, 2 * self.capacity)

    def _learn_rows(self, U: Floats, similar: list[bool], capacity: int) -> None:
        ocelad, scaler = self._ocelad, self._scaler.copy()
        if ocelad is None:
            ocelad = track_metric(capacity, self._rice)
        elif capacity > self.capacity:
            ocelad = add_features(ocelad, capacity)
        if similar:
            ocelad = copy(ocelad)  # a replay replaces the attributes of the copy only
            ocelad.replay(Events(scaler.rescale(U), similar))
        self._ocelad, self._scaler = ocelad, scaler

    def _play(self) -> Metric:
        assert self._ocelad is not None
        return self._ocelad.play().scaled(self._scaler.length**-2)

    def initial_weight(self) -> float:
        return float(self._initial_scale * self._scaler.length**-2)


class _GrowingAdaptive(_GrowingTracker):
    """The adaptive method: at a new feature, a tracker of more features learns from the latest pairs again."""

    def __init__(self) -> None:
        super().__init__()
        self._tracker: AdaptiveTracker | None = None
        # Columns and values of the nonzero differences, and whether the pair is similar.
        self._pairs: deque[tuple[Any, Floats, bool]] = deque(maxlen=MAX_REPLAYED_PAIRS)

    def _larger_capacity(self, n_features: int) -> int:
        return n_features if n_features <= MAX_EXACT_CAPACITY else max(n_features, 2 * self.capacity)

    def _learn_rows(self, U: Floats, similar: list[bool], capacity: int) -> None:
        tracker = self._tracker
        if tracker is None or capacity > tracker.n_features:
            tracker = track_adaptive(capacity)
            if self._pairs:
                tracker.replay(self._stored_pairs(capacity))
        if similar:
            tracker = copy(tracker)
            tracker.replay(Events(U, similar))
        self._tracker = tracker
        for u, is_similar in zip(U, similar, strict=True):
            at = np.flatnonzero(u)
            self._pairs.append((at, u[at], is_similar))

    def _stored_pairs(self, capacity: int) -> Events:
        U = np.zeros((len(self._pairs), capacity))
        for row, (at, values, _) in zip(U, self._pairs, strict=True):
            row[at] = values
        return Events(U, [similar for *_, similar in self._pairs])

    def _play(self) -> Metric:
        assert self._tracker is not None
        return self._tracker.play()

    def initial_weight(self) -> float:
        if not self.columns:
            return float(track_adaptive(1).play().diagonal[0])
        return float(self.metric().diagonal[: len(self.columns)].mean())


def _growing_tracker(method: Method, scale: ScaleSetting) -> _GrowingTracker:
    DistanceScaler(scale)  # refuses invalid scales with either method
    checked = check_method(method)
    return _GrowingRice(checked, scale) if isinstance(checked, Rice) else _GrowingAdaptive()


def _vector(point: Point, columns: Mapping[Hashable, int], capacity: int) -> Floats:
    vector = np.zeros(capacity)
    for name, value in point.items():
        column = columns.get(name)
        if column is not None:
            vector[column] = value
    return vector


class _LabelLearner:
    """A growing tracker, and the reservoir of past points that it compares new ones with."""

    def __init__(
        self, reservoir_size: int, pairs_per_point: int, method: Method, scale: ScaleSetting, seed: int | None
    ) -> None:
        self.tracker = _growing_tracker(method, scale)
        self._pairs_per_point = check_integer(pairs_per_point, "pairs_per_point", at_least=0)
        self._reservoir = Reservoir(reservoir_size, seed)

    def learn(self, point: Point, label: Any) -> None:
        """Learn that a point has a class."""
        is_nan = isinstance(label, Hashable) and label != label
        if label is None or not isinstance(label, Hashable) or is_nan:
            raise TypeError(f"y is {label!r}; accepted: a class, such as a string, a number or a boolean")
        before = self._reservoir.random_state()
        try:
            self.tracker.learn(point, self._reservoir.draw_partners(label, self._pairs_per_point))
        except BaseException:
            self._reservoir.set_random_state(before)
            raise
        if self._pairs_per_point:
            self._reservoir.add(point, label)


def _square_rows(rows: Floats) -> Floats:
    """Return the squared length of each row, divided by that of the largest entry, so that none overflows."""
    largest = float(np.abs(rows).max())
    scaled = rows / largest if largest > 0.0 else rows
    return np.asarray(np.einsum("ij,ij->i", scaled, scaled))


def _vote_weights(distances: Floats, weighted: bool) -> Floats:
    """Return the weight of each neighbour's vote; they sum to 1."""
    nearest = distances.min()
    if not weighted or nearest == inf:
        return np.full(len(distances), 1.0 / len(distances))
    # Relative to the nearest one, so that tiny distances do not overflow.
    votes = (distances == 0.0).astype(np.float64) if nearest == 0.0 else nearest / distances
    return np.asarray(votes / votes.sum())
