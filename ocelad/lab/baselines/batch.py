"""What the batch methods share: their protocols, the validation of their input, and ``PeriodicRefit``.

A batch method is a frozen dataclass of its settings. It learns from labelled points (``FitsPoints``), from pairs
(``FitsPairs``), or from both; ``isinstance`` checks which.
"""

from __future__ import annotations

from collections import deque
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import check_array, check_choice, check_integer, check_labels
from ocelad.estimators.reservoir import MAX_COORDINATE
from ocelad.estimators.threshold_calibration import ThresholdCalibration
from ocelad.evaluation.streams.pair_sampling import draw_pairs
from ocelad.metric import Metric
from ocelad.pairs import check_same_kind, subtract

Indices: TypeAlias = npt.NDArray[np.intp]
Source: TypeAlias = Literal["points", "pairs"]

# The number of random pairs on which the threshold of a metric of labelled points is calibrated.
_N_THRESHOLD_PAIRS = 2000
# The number of failed fits that are remembered.
_MAX_FAILED_FITS = 100


class FitError(ValueError):
    """The input is valid, but no metric can be fitted to it: one class only, too few points, a singular matrix."""


@runtime_checkable
class FitsPoints(Protocol):
    """A batch method that learns from labelled points."""

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """Return the metric learned from the rows of X and their labels."""
        ...


@runtime_checkable
class FitsPairs(Protocol):
    """A batch method that learns from pairs."""

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """Return the metric learned from the pairs (X[i], Z[i]) with y[i] = +1 (similar) or -1 (dissimilar)."""
        ...


def check_points(X: Any, name: str = "X") -> Floats:
    """Validate the rows of X, and return them as an array that must not be changed.

    >>> check_points([[1e31]])
    Traceback (most recent call last):
        ...
    ValueError: X holds 1e+31 at index (0, 0); accepted: numbers up to 1e+30 in size
    """
    rows = check_array(X, name, 2)
    if np.abs(rows).max() > MAX_COORDINATE:
        where = tuple(int(i) for i in np.argwhere(np.abs(rows) > MAX_COORDINATE)[0])
        raise ValueError(
            f"{name} holds {rows[where]:g} at index {where}; accepted: numbers up to {MAX_COORDINATE:g} in size"
        )
    return rows


def check_labelled_points(X: Any, labels: Any) -> tuple[Floats, Indices]:
    """Validate labelled points, and return the rows of X and the index of the class of each.

    >>> check_labelled_points([[1.0], [2.0], [3.0]], ["pear", "apple", "pear"])[1]
    array([1, 0, 1])
    """
    rows = check_points(X)
    return rows, np.unique(_check_classes(labels, len(rows)), return_inverse=True)[1]


def check_pairs(X: Any, Z: Any, y: Any) -> tuple[Floats, Floats, Floats]:
    """Validate pairs, and return the rows of X, those of Z, and the labels +1.0 or -1.0.

    >>> check_pairs([[1.0]], [[2.0]], [True])[2]
    array([1.])
    """
    rows, others = check_same_kind(check_points(X), check_points(Z, "Z"), "X", "Z", 2)
    if len(rows) != len(others):
        raise ValueError(f"X has {len(rows)} rows and Z has {len(others)}; accepted: equally many, one pair per row")
    return rows, others, check_labels(y, "y", len(rows))


def _check_classes(labels: Any, count: int) -> npt.NDArray[Any]:
    try:
        classes = np.asarray(labels)
    except ValueError:
        raise ValueError(f"labels are ragged; accepted: one label for each of the {count} points") from None
    if classes.shape != (count,):
        raise ValueError(f"labels has shape {classes.shape}; accepted: one label for each of the {count} points")
    if classes.dtype.kind == "O":
        kinds = {str if isinstance(label, str) else Real if isinstance(label, Real) else None for label in classes}
        if kinds not in ({str}, {Real}):
            raise TypeError("labels hold values that cannot be compared; accepted: all numbers or all text")
        classes = classes.astype(str if kinds == {str} else np.float64)
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        where = int(np.flatnonzero(~np.isfinite(classes))[0])
        raise ValueError(f"labels holds {classes[where]} at position {where}; accepted: finite numbers or text")
    return classes


def require_both_labels(y: Floats, method: str) -> None:
    """Raise FitError if all pairs are similar or all are dissimilar."""
    if abs(y.sum()) == len(y):
        kind = "similar" if y[0] > 0 else "dissimilar"
        raise FitError(f"all {len(y)} pairs are {kind}; {method} needs similar and dissimilar pairs")


def require_pairable_classes(classes: Indices, method: str) -> None:
    """Raise FitError if all points have the same class, or if every point has a class of its own."""
    if classes.max() == 0:
        raise FitError(f"all {len(classes)} points have the same class; {method} needs two classes or more")
    if classes.max() + 1 == len(classes):
        raise FitError(f"each of the {len(classes)} classes has one point; {method} needs a class with two or more")


def draw_balanced_pairs(classes: Indices, count: int, seed: int) -> tuple[Indices, Indices, Floats]:
    """Draw random pairs, half of them similar in expectation: the indices of their points, and y; see ``draw_pairs``.

    >>> classes = np.array([0, 0, 1, 1])
    >>> first, second, y = draw_balanced_pairs(classes, 4, seed=0)
    >>> bool(((classes[first] == classes[second]) == (y > 0)).all())
    True
    """
    require_pairable_classes(classes, "drawing pairs")
    return draw_pairs(classes, count, seed, balanced=True)


def metric_from_factors(L: Floats, method: str) -> Metric:
    """Return the metric ``M = L'L`` with the threshold 1; raise FitError if M is 0 or overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not L.any() or not np.isfinite(np.square(L).sum()):
            raise FitError(f"{method} found no finite metric other than 0; it needs more points that differ")
    return Metric.from_factors(L)


def calibrate_on_pairs(metric: Metric, U: Floats, y: Floats) -> Metric:
    """Return the metric with the squared-distance threshold that classifies most of the pairs correctly.

    >>> calibrate_on_pairs(Metric([[1.0]]), np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 1.0, -1.0])).threshold
    4.0
    """
    require_both_labels(y, "a threshold")
    d2 = metric.squared_length(U)
    threshold = ThresholdCalibration("accuracy").threshold(d2, y)
    if threshold < 0.0:  # no pair is predicted to be similar, which the threshold of a metric cannot express
        candidates = np.unique(np.append(d2, 0.0))
        n_correct = [np.count_nonzero((d2 <= candidate) == (y > 0)) for candidate in candidates]
        threshold = float(candidates[int(np.argmax(n_correct))])
    return Metric.from_arrays(metric.arrays(), threshold)


def calibrate_on_points(metric: Metric, X: Floats, classes: Indices) -> Metric:
    """Return the metric with the threshold that classifies most of 2000 random pairs of the points correctly."""
    first, second, y = draw_balanced_pairs(classes, _N_THRESHOLD_PAIRS, seed=0)
    return calibrate_on_pairs(metric, subtract(X[first], X[second]), y)


class Solution(NamedTuple):
    """The metric that an iterative solver found, and the objective after each iteration."""

    metric: Metric
    history: tuple[float, ...]


class FailedFit(NamedTuple):
    """A fit that was not possible: the number of rows so far, and the reason."""

    round: int
    reason: str


class PeriodicRefit:
    """A batch method as a tracker: it is periodically refitted to the latest rows.

    If a fit is not possible (``FitError``, or a singular matrix), the previous metric stays, and ``failed_fits`` gives
    the reason.

    Parameters
    ----------
    method : FitsPoints or FitsPairs
    every : int
        It is refitted at the end of the first block with at least this number of rows since the last attempt.
    window : int or None
        The number of latest rows that it is fitted to; None: all rows.
    source : {"points", "pairs"}
        Whether it learns from points (``add_points``) or from pairs (``add_pairs``).
    start : Metric
        The metric before the first fit.

    Examples
    --------
    >>> from ocelad.lab.baselines.euclidean import euclidean
    >>> from ocelad.lab.baselines.whitening import Whitening
    >>> tracker = PeriodicRefit(Whitening(regularization=0), every=2, source="points", start=euclidean(1))
    >>> tracker.add_points([[1.0]], [0])
    >>> tracker.play().matrix
    array([[1.]])
    >>> tracker.add_points([[3.0], [5.0], [7.0]], [0, 1, 1])
    >>> tracker.play().matrix.round(6), tracker.play().round
    (array([[0.2]]), 4)
    """

    def __init__(
        self,
        method: FitsPoints | FitsPairs,
        *,
        every: int,
        window: int | None = None,
        source: Source = "points",
        start: Metric,
    ) -> None:
        self._source = check_choice(source, "source", get_args(Source))
        if not isinstance(method, FitsPoints if source == "points" else FitsPairs):
            raise TypeError(f"{type(method).__name__} does not learn from {source}; it has no fit_{source}")
        if not isinstance(start, Metric):
            raise TypeError(f"start must be a Metric; got {type(start).__name__}")
        self._method: Any = method
        self._every = check_integer(every, "every", at_least=1)
        self._window = None if window is None else check_integer(window, "window", at_least=1)
        self._metric = start
        self._data: tuple[npt.NDArray[Any], ...] = ()  # the arguments of the next fit
        self._round = self._n_new = 0
        self._failed_fits: deque[FailedFit] = deque(maxlen=_MAX_FAILED_FITS)

    @property
    def failed_fits(self) -> tuple[FailedFit, ...]:
        """The latest 100 fits that were not possible, oldest first."""
        return tuple(self._failed_fits)

    def play(self) -> Metric:
        """Return the metric of the last fit; its round is the number of rows before that fit."""
        return self._metric

    def add_points(self, X: Any, labels: Any) -> None:
        """Add labelled points: rows and their labels."""
        self._check_source("points")
        rows = check_points(X)
        self._add(rows, _check_classes(labels, len(rows)))

    def add_pairs(self, X: Any, Z: Any, y: Any) -> None:
        """Add pairs (X[i], Z[i]) with y[i] = +1 (similar) or -1 (dissimilar)."""
        self._check_source("pairs")
        self._add(*check_pairs(X, Z, y))

    def _check_source(self, source: Source) -> None:
        if source != self._source:
            raise TypeError(f"this tracker learns from {self._source}; use add_{self._source}")

    def _add(self, *block: npt.NDArray[Any]) -> None:
        rows = block[0]
        if rows.shape[1] != self._metric.n_features:
            raise ValueError(f"X has {rows.shape[1]} features; {self._metric.n_features} are expected")
        before = self._data or block
        if (before[-1].dtype.kind in "US") != (block[-1].dtype.kind in "US"):
            raise TypeError("labels are text in one block and numbers in another; accepted: all numbers or all text")
        data = tuple(np.concatenate(parts) for parts in zip(self._data, block, strict=True)) if self._data else block
        latest = slice(None if self._window is None else -self._window, None)
        # Copies, because the caller may change its arrays, and a slice would keep the older rows in memory.
        self._data = tuple(array[latest].copy() for array in data)
        self._round += len(rows)
        self._n_new += len(rows)
        if self._n_new >= self._every:
            self._n_new = 0
            self._fit()

    def _fit(self) -> None:
        fit = self._method.fit_points if self._source == "points" else self._method.fit_pairs
        try:
            self._metric = fit(*self._data).with_round(self._round)
        except (FitError, np.linalg.LinAlgError) as error:
            self._failed_fits.append(FailedFit(self._round, str(error)))
