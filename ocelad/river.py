"""Tracked distances for River: from pairs (PairMetric), from class labels (LabelMetric), and k-NN under one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from math import inf, isfinite
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

try:
    from river import base
except ImportError:
    raise ImportError("ocelad.river needs River: pip install 'ocelad[river]'") from None

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, check_label, check_number
from ocelad.engines.grow import grown
from ocelad.engines.track import track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.estimators.reservoir import FARTHEST, Partner, Reservoir
from ocelad.estimators.scaling import SQUARED_LENGTH, DistanceScaler, ScaleSetting
from ocelad.learners.comid import LossName
from ocelad.metric import Metric
from ocelad.pairs import Events, subtract

__all__ = ["LabelMetric", "MetricKNNClassifier", "PairMetric"]

Features: TypeAlias = Mapping[Any, Any]
Point: TypeAlias = dict[Hashable, float]


class PairMetric(base.Base):
    """Learns a distance between dicts from pairs that are similar or not, and follows it when it changes.

    Features may come and go: an absent one counts as 0, and a new one starts with the initial weight, while what is
    known of the others is kept. What is refused changes nothing.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared_hinge"}
        Of the margin.
    step_size : float
        eta0; see ``ocelad.track_metric``.
    shrinkage : float
        rho, how strongly weights are pulled to zero. Room for features is made ahead of them, and what waits there is
        shrunk as well.
    diagonal : bool
        Whether there is one weight per feature and no correlations: for very many features.
    initial_scale : float
        The weight of a feature at first, of points divided by the scale; with "auto", a pair of average distance is
        then at the threshold.
    scale : "auto" or float
        The length that points are divided by. "auto": found from the first 100 pairs (``ocelad.estimators.scaling.DistanceScaler``).

    Examples
    --------
    >>> from ocelad.river import PairMetric
    >>> metric = PairMetric(step_size=0.05)
    >>> for i in range(200):
    ...     metric.learn_pair({"size": i % 7, "noise": i % 5}, {"size": i % 7, "noise": i % 3}, similar=True)
    ...     metric.learn_pair({"size": i % 7, "noise": i % 5}, {"size": i % 7 + 3, "noise": i % 5}, similar=False)
    >>> metric.similar({"size": 1, "noise": 0}, {"size": 1, "noise": 4})
    True
    >>> metric.similar({"size": 1, "noise": 0}, {"size": 4, "noise": 0})
    False
    """

    def __init__(
        self,
        *,
        loss: LossName = "logistic",
        step_size: float = 1e-2,
        shrinkage: float = 0.0,
        diagonal: bool = False,
        initial_scale: float = 1.0 / SQUARED_LENGTH,
        scale: ScaleSetting = "auto",
    ) -> None:
        self.loss = loss
        self.step_size = step_size
        self.shrinkage = shrinkage
        self.diagonal = diagonal
        self.initial_scale = initial_scale
        self.scale = scale
        self._tracked = _Tracked(self)

    @property
    def n_rounds(self) -> int:
        """How many pairs it has learned from."""
        return self._tracked.n_rounds

    @property
    def threshold(self) -> float:
        """On the distance: points at most this far apart are similar."""
        return self._tracked.metric().distance_threshold

    def learn_pair(self, x: Features, z: Features, similar: Any) -> None:
        """Learn that two points are similar (True or +1) or not (False or -1)."""
        y = check_label(similar, "similar")
        one, other = checked_point(x, "x"), checked_point(z, "z")
        self._tracked.learn(one, [Partner(other, y > 0)])

    def distance(self, x: Features, z: Features) -> float:
        """The tracked distance between two points."""
        return self._tracked.distance(checked_point(x, "x"), checked_point(z, "z"))

    def similar(self, x: Features, z: Features) -> bool:
        """Whether two points are at most ``threshold`` apart."""
        return self.distance(x, z) <= self.threshold


class LabelMetric(base.SupervisedTransformer):
    """Maps points to where Euclidean distance is a distance tracked from class labels: near within a class.

    Every point is compared with past ones: by turns with one of its class, a similar pair, and with one of another
    class, a dissimilar pair. Points are mapped by the symmetric root of the metric, ``x -> M^(1/2) x``, the one root
    that turns nothing. It moves little when M does, and each feature out goes with the feature in of the same name.
    Principal axes could change signs and places from one point to the next, while what comes after in a pipeline learns
    by the names.

    Parameters
    ----------
    reservoir_size : int
        How many past points are kept as partners; see ``ocelad.estimators.reservoir.Reservoir``. After a change, partners from
        before it mislead, for about as many points as this.
    pairs_per_point : int
        How many partners a point gets; 0: it learns nothing, and distances are Euclidean but for a factor.
    loss, step_size, shrinkage, diagonal, initial_scale, scale
        As of ``PairMetric``.
    seed : int or None
        Of the drawing of partners.

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
    What is absent from a point counts as 0 and may still have a value where it is mapped to: there are as many names
    out as are known, those of the point first.
    """

    def __init__(
        self,
        *,
        reservoir_size: int = 100,
        pairs_per_point: int = 2,
        loss: LossName = "logistic",
        step_size: float = 1e-2,
        shrinkage: float = 0.0,
        diagonal: bool = False,
        initial_scale: float = 1.0 / SQUARED_LENGTH,
        scale: ScaleSetting = "auto",
        seed: int | None = None,
    ) -> None:
        self.reservoir_size = reservoir_size
        self.pairs_per_point = pairs_per_point
        self.loss = loss
        self.step_size = step_size
        self.shrinkage = shrinkage
        self.diagonal = diagonal
        self.initial_scale = initial_scale
        self.scale = scale
        self.seed = seed
        self._drawn = _Drawn(self)

    @property
    def n_rounds(self) -> int:
        """How many pairs it has learned from."""
        return self._drawn.tracked.n_rounds

    def distance(self, x: Features, z: Features) -> float:
        """The tracked distance between two points."""
        return self._drawn.tracked.distance(checked_point(x, "x"), checked_point(z, "z"))

    def learn_one(self, x: Features, y: Any) -> None:
        """Learn that point x is of class y."""
        self._drawn.learn(checked_point(x, "x"), y)

    def transform_one(self, x: Features) -> dict[Any, float]:
        """The point where Euclidean distance is the tracked distance, with the same names."""
        point, tracked = checked_point(x, "x"), self._drawn.tracked
        root = tracked.weight_of_the_unknown() ** 0.5
        mapped: dict[Any, float] = {name: root * value for name, value in point.items()}
        if tracked.columns:
            values = tracked.mapped(tracked.vector(point)).tolist()
            mapped |= {name: values[column] for name, column in tracked.columns.items()}
        return mapped


class MetricKNNClassifier(base.Classifier):
    """k nearest neighbours among recent points, under a distance tracked from their classes.

    The last ``window_size`` points are kept as they came. Their distances are those of the metric as it is now, so that
    old points are seen with today's eyes.

    Parameters
    ----------
    n_neighbors : int
        How many neighbours vote.
    window_size : int
        Among how many recent points they are looked for.
    weighted : bool
        Whether a neighbour's vote counts by one over its distance; those at distance 0, if any, then decide alone.
    reservoir_size, pairs_per_point, loss, step_size, shrinkage, diagonal, initial_scale, scale, seed
        As of ``LabelMetric``; with ``pairs_per_point=0`` it is plain k-NN.

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
        loss: LossName = "logistic",
        step_size: float = 1e-2,
        shrinkage: float = 0.0,
        diagonal: bool = False,
        initial_scale: float = 1.0 / SQUARED_LENGTH,
        scale: ScaleSetting = "auto",
        seed: int | None = None,
    ) -> None:
        self.n_neighbors = check_integer(n_neighbors, "n_neighbors", at_least=1)
        self.window_size = check_integer(window_size, "window_size", at_least=1)
        self.weighted = check_choice(weighted, "weighted", (False, True))
        self.reservoir_size = reservoir_size
        self.pairs_per_point = pairs_per_point
        self.loss = loss
        self.step_size = step_size
        self.shrinkage = shrinkage
        self.diagonal = diagonal
        self.initial_scale = initial_scale
        self.scale = scale
        self.seed = seed
        self._drawn = _Drawn(self)
        self._window = np.zeros((0, 0))
        self._labels: list[Hashable] = []
        self._n_points = 0
        self._classes: dict[Hashable, None] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def n_rounds(self) -> int:
        """How many pairs it has learned from."""
        return self._drawn.tracked.n_rounds

    def learn_one(self, x: Features, y: Any) -> None:
        """Learn that point x is of class y."""
        point = checked_point(x, "x")
        self._drawn.learn(point, y)
        at = self._n_points % self.window_size
        self._have_room(at + 1, self._drawn.tracked.room)
        self._window[at] = self._drawn.tracked.vector(point)
        self._labels[at : at + 1] = [y]
        self._n_points += 1
        self._classes[y] = None

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Any, float]:
        """The share of each class that was ever learned in the votes of the nearest neighbours."""
        point, tracked = checked_point(x, "x"), self._drawn.tracked
        votes: dict[Any, float] = dict.fromkeys(self._classes, 0.0)
        if not self._labels:
            return votes
        # A feature that was never learned is as far from all, and says nothing.
        differences = self._window[: len(self._labels)] - tracked.vector(point)
        squares = tracked.metric().squared_length(differences)
        k = min(self.n_neighbors, len(squares))
        nearest = np.argpartition(squares, k - 1)[:k]
        distances = np.sqrt(squares[nearest])
        for at, share in zip(nearest.tolist(), _shares(distances, self.weighted).tolist(), strict=True):
            votes[self._labels[at]] += share
        return votes

    def _have_room(self, count: int, width: int) -> None:
        rows, columns = self._window.shape
        if count > rows or width > columns:
            # Doubled, so that a point costs the same on average, and no more than is needed.
            rows = rows if count <= rows else min(max(2 * rows, 16), self.window_size)
            window = np.zeros((rows, max(width, columns)))
            window[: self._window.shape[0], :columns] = self._window
            self._window = window


def checked_point(x: Features, name: str) -> Point:
    """The features as finite floats; refused otherwise.

    >>> checked_point({"height": "tall"}, "x")
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
        if abs(value) > FARTHEST:
            raise ValueError(f"feature {feature!r} of {name} is {value!r}; accepted: numbers up to {FARTHEST:g}")
        point[feature] = value
    return point


class _Tracked:
    """A tracker of points with names: each feature has a column, and it grows with the features."""

    def __init__(self, wanted: Any) -> None:
        self._settings = {
            "loss": wanted.loss,
            "step_size": wanted.step_size,
            "shrinkage": wanted.shrinkage,
            "diagonal": wanted.diagonal,
            "initial_scale": check_number(wanted.initial_scale, "initial_scale", at_least=0),
        }
        track_metric(1, **self._settings)  # refuses what has no meaning
        self._yardstick = DistanceScaler(wanted.scale)
        self._ocelad: Ocelad[Any, Metric] | None = None
        self._metric: Metric | None = None
        self._root: Floats | None = None
        self.columns: dict[Hashable, int] = {}
        self.room = 0

    @property
    def n_rounds(self) -> int:
        return 0 if self._ocelad is None else self._ocelad.n_rounds

    def learn(self, point: Point, partners: Sequence[Partner]) -> None:
        """Rounds pass on the point and each of its partners: all of them, or none where one is refused."""
        columns = self._with_columns(point, *(partner.point for partner in partners))
        ocelad, room = self._with_room(len(columns))
        yardstick = self._yardstick.copy()
        if partners:
            x = _vector(point, columns, room)
            U = np.array([subtract(x, _vector(partner.point, columns, room)) for partner in partners])
            ocelad = copy(ocelad)  # a replay puts other values into the place of those it finds
            ocelad.replay(Events(yardstick.measured(U), [partner.similar for partner in partners]))
        self._ocelad, self.columns, self.room, self._yardstick = ocelad, columns, room, yardstick
        self._metric = self._root = None

    def _with_columns(self, *points: Point) -> dict[Hashable, int]:
        """The columns of the features, new ones behind the others in an order that does not depend on the dicts'."""
        new = {name for point in points for name in point if name not in self.columns}
        if not new:
            return self.columns
        names = sorted(new, key=lambda name: (type(name).__name__, str(name)))
        return self.columns | {name: len(self.columns) + i for i, name in enumerate(names)}

    def _with_room(self, count: int) -> tuple[Ocelad[Any, Metric], int]:
        """A tracker with room for so many features: this one, or one that has grown."""
        if self._ocelad is None:
            room = max(count, 1)
            return track_metric(room, **self._settings), room
        if count <= self.room:
            return self._ocelad, self.room
        # Twice the room, so that many features that come one by one cost little each; what waits holds zeros.
        room = max(count, 2 * self.room)
        return grown(self._ocelad, room), room

    def vector(self, point: Point) -> Floats:
        """The point's values in their columns; those of features without a column are left out."""
        return _vector(point, self.columns, self.room)

    def metric(self) -> Metric:
        """The metric of points as they are given; mixed once in a round."""
        if self._ocelad is None:
            return Metric.from_diagonal([self.weight_of_the_unknown()])
        if self._metric is None:
            self._metric = self._ocelad.play().scaled(self._yardstick.length**-2)
        return self._metric

    def mapped(self, vector: Floats) -> Floats:
        """``M^(1/2) v``, by the symmetric root of the metric."""
        metric = self.metric()
        if metric.is_diagonal:
            return np.asarray(np.sqrt(metric.diagonal) * vector)
        if self._root is None:
            eigenvalues, vectors = np.linalg.eigh(metric.matrix)
            self._root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
        return np.asarray(self._root @ vector)

    def weight_of_the_unknown(self) -> float:
        """What a feature that was never met would start with."""
        return float(self._settings["initial_scale"] * self._yardstick.length**-2)

    def distance(self, x: Point, z: Point) -> float:
        unknown = (x.keys() | z.keys()) - self.columns.keys()
        rest = self.weight_of_the_unknown() * sum((x.get(name, 0.0) - z.get(name, 0.0)) ** 2 for name in unknown)
        inside = self.metric().squared_length(self.vector(x) - self.vector(z)) if self.room else 0.0
        return float(np.sqrt(inside + rest))


def _vector(point: Point, columns: Mapping[Hashable, int], room: int) -> Floats:
    vector = np.zeros(room)
    for name, value in point.items():
        column = columns.get(name)
        if column is not None:
            vector[column] = value
    return vector


class _Drawn:
    """A tracker of points with names, and the past points that it compares new ones with."""

    def __init__(self, wanted: Any) -> None:
        self.tracked = _Tracked(wanted)
        self._per_point = check_integer(wanted.pairs_per_point, "pairs_per_point", at_least=0)
        self._reservoir = Reservoir(wanted.reservoir_size, wanted.seed)

    def learn(self, point: Point, label: Any) -> None:
        if label is None or not isinstance(label, Hashable) or label != label:  # which NaN is not
            raise TypeError(f"y is {label!r}; accepted: a class, such as text, a number or a boolean")
        before = self._reservoir.mark()
        try:
            self.tracked.learn(point, self._reservoir.partners(label, self._per_point))
        except BaseException:
            self._reservoir.rewind(before)
            raise
        if self._per_point:
            self._reservoir.put(point, label)


def _shares(distances: Floats, weighted: bool) -> Floats:
    """The share of each neighbour in the vote."""
    if not weighted:
        return np.full(len(distances), 1.0 / len(distances))
    nearest = distances.min()
    # Relative to the nearest, which keeps tiny distances from overflowing; where it is zero, those at zero decide.
    votes = (distances == 0.0).astype(np.float64) if nearest == 0.0 else nearest / distances
    return np.asarray(votes / votes.sum())
