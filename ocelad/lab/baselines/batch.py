"""What the batch methods share: what they can learn from, how their input is checked, and `Refitted`, their tracker.

A batch method is a frozen dataclass of its settings. It learns from labelled points (`FitsPoints`), from pairs
(`FitsPairs`), or from either; ``isinstance`` tells which.
"""

from __future__ import annotations

from collections import deque
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import check_array, check_choice, check_integer, check_labels
from ocelad.estimators.reservoir import FARTHEST
from ocelad.estimators.threshold_calibration import Calibration
from ocelad.metric import Metric
from ocelad.pairs import alike, subtract

Whole: TypeAlias = npt.NDArray[np.intp]
Source: TypeAlias = Literal["points", "pairs"]

# From so many pairs of points, half of them similar, the threshold of a metric of labelled points is found.
_N_THRESHOLD_PAIRS = 2000
# So many refusals are remembered, the latest.
_N_REFUSALS = 100


class FitError(ValueError):
    """What was given is right but not enough to fit to: one class only, too few points, a singular matrix."""


@runtime_checkable
class FitsPoints(Protocol):
    """A batch method that learns from labelled points."""

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from the rows of X and one label each."""
        ...


@runtime_checkable
class FitsPairs(Protocol):
    """A batch method that learns from pairs."""

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric learned from the rows of X against the rows of Z, and y = +1 (similar) or -1 each."""
        ...


def points(X: Any, name: str = "X") -> Floats:
    """The rows of X, checked; they may be used, not changed.

    >>> points([[1e31]])
    Traceback (most recent call last):
        ...
    ValueError: X holds 1e+31 at index (0, 0); accepted: numbers up to 1e+30 in size
    """
    rows = check_array(X, name, 2)
    if np.abs(rows).max() > FARTHEST:
        where = tuple(int(i) for i in np.argwhere(np.abs(rows) > FARTHEST)[0])
        raise ValueError(f"{name} holds {rows[where]:g} at index {where}; accepted: numbers up to {FARTHEST:g} in size")
    return rows


def labelled(X: Any, labels: Any) -> tuple[Floats, Whole]:
    """The rows of X and the class of each, counted from 0; checked.

    >>> labelled([[1.0], [2.0], [3.0]], ["pear", "apple", "pear"])[1]
    array([1, 0, 1])
    """
    rows = points(X)
    return rows, np.unique(_labels(labels, len(rows)), return_inverse=True)[1]


def paired(X: Any, Z: Any, y: Any) -> tuple[Floats, Floats, Floats]:
    """The rows of X, those of Z, and +1.0 or -1.0 each; checked.

    >>> paired([[1.0]], [[2.0]], [True])[2]
    array([1.])
    """
    rows, others = alike(points(X), points(Z, "Z"), "X", "Z", 2)
    if len(rows) != len(others):
        raise ValueError(f"X has {len(rows)} rows and Z has {len(others)}; accepted: as many, one pair per row")
    return rows, others, check_labels(y, "y", len(rows))


def _labels(labels: Any, count: int) -> npt.NDArray[Any]:
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


def both_kinds(y: Floats, what: str) -> None:
    """Refuse pairs that are all similar or all dissimilar."""
    if abs(y.sum()) == len(y):
        kind = "similar" if y[0] > 0 else "dissimilar"
        raise FitError(f"all {len(y)} pairs are {kind}; {what} needs similar and dissimilar ones")


def both_alike_and_not(classes: Whole, what: str) -> None:
    """Refuse points that are all of one class, or each of its own."""
    if classes.max() == 0:
        raise FitError(f"all {len(classes)} points are of one class; {what} needs two or more")
    if classes.max() + 1 == len(classes):
        raise FitError(f"each of the {len(classes)} points is alone in its class; {what} needs some that are not")


def drawn_pairs(classes: Whole, count: int, seed: int) -> tuple[Whole, Whole, Floats]:
    """Pairs of points drawn at random, as many similar as dissimilar ones: two arrays of indices, and y.

    The first point of a pair is any that has a partner of the kind, the second any such partner. Pairs may come twice.

    >>> first, second, y = drawn_pairs(np.array([0, 0, 1, 1]), 4, seed=0)
    >>> bool(((np.array([0, 0, 1, 1])[first] == np.array([0, 0, 1, 1])[second]) == (y > 0)).all())
    True
    """
    both_alike_and_not(classes, "drawing pairs")
    sizes = np.bincount(classes)
    crowded = np.flatnonzero(sizes[classes] > 1)
    draw = np.random.default_rng(seed)
    by_class, starts = np.argsort(classes, kind="stable"), np.cumsum(sizes) - sizes
    place = np.empty(len(classes), dtype=np.intp)  # of each point in by_class
    place[by_class] = np.arange(len(classes))
    n_similar = (count + 1) // 2
    first = np.concatenate([draw.choice(crowded, n_similar), draw.integers(len(classes), size=count - n_similar)])
    own, size = starts[classes[first]], sizes[classes[first]]
    # A similar partner stands 1 .. size-1 places further on in its class, around; a dissimilar one outside of it.
    around = own + (place[first] - own + 1 + draw.integers(size - 1 + (size == 1))) % size
    outside = draw.integers(len(classes) - size)
    outside += size * (outside >= own)
    y = np.where(np.arange(count) < n_similar, 1.0, -1.0)
    return first, by_class[np.where(y > 0, around, outside)], y


def of_factors(L: Floats, method: str) -> Metric:
    """The metric ``M = L'L`` with the threshold 1; refused where it is 0 or not to be held by float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not L.any() or not np.isfinite(np.square(L).sum()):
            raise FitError(f"{method} found no metric that float64 can hold; the points must differ, and more")
    return Metric.from_factors(L)


def of_pairs(metric: Metric, U: Floats, y: Floats) -> Metric:
    """The metric with the squared-distance threshold that gets most of these pairs right.

    >>> of_pairs(Metric([[1.0]]), np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 1.0, -1.0])).threshold
    4.0
    """
    both_kinds(y, "a threshold")
    threshold = Calibration("accuracy").threshold(metric.squared_length(U), y)
    return Metric.holding(metric.held(), max(threshold, 0.0))  # below 0, no pair is similar: at 0 only equal points are


def of_points(metric: Metric, X: Floats, classes: Whole) -> Metric:
    """The metric with the threshold that gets most of 2000 pairs of these points right, half of them similar ones."""
    first, second, y = drawn_pairs(classes, _N_THRESHOLD_PAIRS, seed=0)
    return of_pairs(metric, subtract(X[first], X[second]), y)


class Solution(NamedTuple):
    """The metric that an iteration found, and the objective along the way."""

    metric: Metric
    history: tuple[float, ...]


class Refusal(NamedTuple):
    """A fit that was not possible: after how many rows, and why."""

    round: int
    reason: str


class Refitted:
    """A batch method as a tracker: it keeps what was seen last, and is fitted anew every so many rows.

    Where a fit is not possible yet (`FitError`, or a singular matrix) the last metric stays, and ``refused`` says why.

    Parameters
    ----------
    method : FitsPoints or FitsPairs
    every : int
        It is fitted at the end of the first block by which so many rows have come since the last fit, or try.
    window : int or None
        It is fitted to so many rows, the latest; None: to all.
    from_ : {"points", "pairs"}
        What it learns from, and which of ``see_points`` and ``see_pairs`` is fed.
    start : Metric
        What is played before the first fit.

    Examples
    --------
    >>> from ocelad.lab.baselines.plain import Whitened, euclidean
    >>> tracker = Refitted(Whitened(regularization=0), every=2, from_="points", start=euclidean(1))
    >>> tracker.see_points([[1.0]], [0])
    >>> tracker.play().matrix
    array([[1.]])
    >>> tracker.see_points([[3.0], [5.0], [7.0]], [0, 1, 1])
    >>> tracker.play().matrix.round(6), tracker.play().round
    (array([[0.2]]), 4)
    """

    def __init__(
        self,
        method: FitsPoints | FitsPairs,
        *,
        every: int,
        window: int | None = None,
        from_: Source = "points",
        start: Metric,
    ) -> None:
        self._source = check_choice(from_, "from_", get_args(Source))
        if not isinstance(method, FitsPoints if from_ == "points" else FitsPairs):
            raise TypeError(f"{type(method).__name__} does not learn from {from_}; it has no fit_{from_}")
        if not isinstance(start, Metric):
            raise TypeError(f"start must be a Metric; got {type(start).__name__}")
        self._method: Any = method
        self._every = check_integer(every, "every", at_least=1)
        self._window = None if window is None else check_integer(window, "window", at_least=1)
        self._metric = start
        self._seen: tuple[npt.NDArray[Any], ...] = ()  # the arguments of the next fit
        self._round = self._since = 0
        self._refused: deque[Refusal] = deque(maxlen=_N_REFUSALS)

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """The fits that were not possible, the latest hundred, the latest last."""
        return tuple(self._refused)

    def play(self) -> Metric:
        """The metric of the last fit; its round says after how many rows."""
        return self._metric

    def see_points(self, X: Any, labels: Any) -> None:
        """Some more labelled points: rows, and a label each."""
        self._check_source("points")
        rows = points(X)
        self._see(rows, _labels(labels, len(rows)))

    def see_pairs(self, X: Any, Z: Any, y: Any) -> None:
        """Some more pairs: rows against rows, and +1 (similar) or -1 (dissimilar) each."""
        self._check_source("pairs")
        self._see(*paired(X, Z, y))

    def _check_source(self, source: Source) -> None:
        if source != self._source:
            raise TypeError(f"this tracker learns from {self._source}; feed it by see_{self._source}")

    def _see(self, *block: npt.NDArray[Any]) -> None:
        rows = block[0]
        if rows.shape[1] != self._metric.n_features:
            raise ValueError(f"X has {rows.shape[1]} features; {self._metric.n_features} are expected")
        before = self._seen or block
        if (before[-1].dtype.kind in "US") != (block[-1].dtype.kind in "US"):
            raise TypeError("labels are text in one block and numbers in another; accepted: all numbers or all text")
        seen = tuple(np.concatenate(parts) for parts in zip(self._seen, block, strict=True)) if self._seen else block
        last = slice(None if self._window is None else -self._window, None)
        # Copies: what was given may be changed by whoever gave it, and rows before the window are to be forgotten.
        self._seen = tuple(array[last].copy() for array in seen)
        self._round += len(rows)
        self._since += len(rows)
        if self._since >= self._every:
            self._since = 0
            self._fit()

    def _fit(self) -> None:
        fit = self._method.fit_points if self._source == "points" else self._method.fit_pairs
        try:
            self._metric = fit(*self._seen).at(self._round)
        except (FitError, np.linalg.LinAlgError) as error:
            self._refused.append(Refusal(self._round, str(error)))
