"""Metric: what the tracker plays. Distances, an embedding, and "similar or not"."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ocelad import checks
from ocelad.checks import Floats
from ocelad.pairs import subtract

_EPS = float(np.finfo(np.float64).eps)
# A matrix whose smallest eigenvalue is this far below zero, relative to the largest, is taken for a positive
# semidefinite one that was rounded (three digits more than float64 arithmetic usually loses).
_ROUNDING = 1e-10
_FORMAT = "ocelad.metric/1"


class Metric:
    """A Mahalanobis distance ``d(x, z) = sqrt((x - z)' M (x - z))`` with a threshold (equation 1). Immutable.

    Parameters
    ----------
    matrix : array-like of shape (n_features, n_features)
        M, symmetric and positive semidefinite. ``Metric.from_factors`` takes L with M = L'L instead, and
        never makes the matrix unless it is asked for.
    threshold : float
        The paper's mu, on the *squared* distance: two points are similar when ``d^2 <= threshold``.
    round : int
        After how many rounds (pairs) the metric was played.

    Examples
    --------
    >>> metric = Metric([[4.0, 0.0], [0.0, 0.0]], threshold=2.0)
    >>> metric.distance([1, 0], [0, 5])
    2.0
    >>> metric.similar([1, 0], [0, 5])
    False
    >>> metric.embed([[1, 7], [2, 7]])
    array([[2.],
           [4.]])
    """

    __slots__ = ("_components", "_factored", "_held", "round", "threshold")

    _held: Floats  # the matrix, or the factors
    _factored: bool
    _components: Floats | None
    threshold: float
    round: int

    def __init__(self, matrix: Any, threshold: float = 1.0, round: int = 0) -> None:
        square = "a square matrix of shape (n_features, n_features)"
        M = checks.array(matrix, "matrix", 2, shapes={2: square})
        if M.shape[0] != M.shape[1]:
            raise ValueError(f"matrix has shape {M.shape}; accepted: {square}")
        size = np.abs(M).max()
        if np.abs(M - M.T).max() > _ROUNDING * size:
            raise ValueError("matrix is not symmetric; accepted: a symmetric positive semidefinite matrix")
        M = M / 2.0 + M.T / 2.0
        lowest = np.linalg.eigvalsh(M)[0]
        if lowest < -_ROUNDING * size * len(M):
            raise ValueError(
                f"matrix has the negative eigenvalue {lowest:.3g}; accepted: a positive semidefinite matrix"
            )
        self._hold(M, False, *_checked(threshold, round))

    @classmethod
    def from_factors(cls, factors: Any, threshold: float = 1.0, round: int = 0) -> Metric:
        """The metric ``M = L'L`` of the rows L, of shape (n_factors, n_features).

        >>> Metric.from_factors([[2.0, 0.0]]).matrix
        array([[4., 0.],
               [0., 0.]])
        """
        L = checks.array(factors, "factors", 2).copy()
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(L).sum()):
                raise ValueError("factors are too large: the squares of their entries overflow")
        return cls.__new__(cls)._hold(L, True, *_checked(threshold, round))

    @classmethod
    def trusted(cls, matrix: Floats, threshold: float, round: int = 0) -> Metric:
        """A metric of a matrix that is known to be symmetric, positive semidefinite and finite: nothing is checked.

        The matrix is kept, not copied, and made read-only.
        """
        return cls.__new__(cls)._hold(matrix, False, threshold, round)

    @classmethod
    def average(cls, metrics: Sequence[Metric], probabilities: Floats) -> Metric:
        """The weighted average of the matrices and of the thresholds (equation 6), of the latest round."""
        # A sum of symmetric matrices entry by entry is symmetric to the last bit; a BLAS product need not be.
        matrix = sum(p * metric.matrix for p, metric in zip(probabilities, metrics, strict=True))
        thresholds = np.array([metric.threshold for metric in metrics])
        # Rounding must not put the average outside what was averaged, least of all below the smallest allowed.
        threshold = float(np.clip(probabilities @ thresholds, thresholds.min(), thresholds.max()))
        return cls.trusted(np.asarray(matrix), threshold, max(metric.round for metric in metrics))

    def _hold(self, held: Floats, factored: bool, threshold: float, round: int) -> Metric:
        put = object.__setattr__
        put(self, "_held", _read_only(held))
        put(self, "_factored", factored)
        put(self, "_components", None)
        put(self, "threshold", threshold)
        put(self, "round", round)
        return self

    def at(self, round: int) -> Metric:
        """The same metric, said to be played after another number of rounds."""
        round = checks.whole(round, "round", at_least=0)
        return Metric.__new__(Metric)._hold(self._held, self._factored, self.threshold, round)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Metric is immutable: {name!r} cannot be set; make a new Metric instead")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Metric is immutable: {name!r} cannot be deleted")

    @property
    def n_features(self) -> int:
        """How many features the points have."""
        return int(self._held.shape[1])

    @property
    def matrix(self) -> Floats:
        """M, of shape (n_features, n_features); read-only. Made on every call when it is held by factors."""
        if not self._factored:
            return self._held
        product = self._held.T @ self._held
        return _read_only((product + product.T) / 2.0)

    @property
    def components(self) -> Floats:
        """Rows C with ``M = C'C``, the largest eigenvalue first, of shape (rank, n_features); read-only.

        The sign of each row is chosen so that its entry of largest size is positive.
        """
        if self._components is None:
            # Kept for the next reader. Two threads may both compute it; they arrive at the same bits.
            object.__setattr__(self, "_components", _read_only(self._canonical_components()))
        assert self._components is not None
        return self._components

    def _canonical_components(self) -> Floats:
        if self._factored:
            _, values, rows = np.linalg.svd(self._held, full_matrices=False)
            keep = values > max(self._held.shape) * _EPS * values[0]
        else:
            eigenvalues, vectors = np.linalg.eigh(self._held)
            eigenvalues, rows = eigenvalues[::-1], vectors.T[::-1]
            values = np.sqrt(np.maximum(eigenvalues, 0.0))
            keep = eigenvalues > self.n_features * _EPS * max(eigenvalues[0], 0.0)
        rows = rows[keep]
        if not len(rows):
            return np.zeros((0, self.n_features))
        largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
        return np.ascontiguousarray(rows * (np.sign(largest) * values[keep])[:, None])

    @property
    def rank(self) -> int:
        """How many eigenvalues are above rounding, and so how many dimensions the embedding has."""
        return len(self.components)

    @property
    def distance_threshold(self) -> float:
        """The root of the threshold; similar points are at most this far apart."""
        return float(np.sqrt(self.threshold))

    def squared_distance(self, x: Any, z: Any) -> Any:
        """``(x - z)' M (x - z)``, of two points (a float) or of rows against rows or one point (an array)."""
        X = checks.array(x, "x", 1, 2, n_features=self.n_features)
        Z = checks.array(z, "z", 1, 2, n_features=self.n_features)
        if X.ndim == Z.ndim == 2 and len(X) != len(Z):
            raise ValueError(f"x has {len(X)} rows and z has {len(Z)}; accepted: as many, or one single point")
        return self.squared_length(subtract(X, Z))

    def squared_length(self, u: Floats) -> Any:
        """``u' M u`` of a difference u (a float) or of each row of differences (an array)."""
        with np.errstate(over="ignore"):  # farther apart than float64 can say is infinitely far
            if self._factored:
                squares = np.square(u @ self._held.T).sum(axis=-1)
            else:
                squares = np.einsum("...i,...i->...", u @ self._held, u)
        squares = np.maximum(squares, 0.0)  # rounding can put a zero distance below zero
        return squares if np.ndim(squares) else float(squares)

    def distance(self, x: Any, z: Any) -> Any:
        """``sqrt((x - z)' M (x - z))``, of two points (a float) or of rows against rows or one point (an array)."""
        distances = np.sqrt(self.squared_distance(x, z))
        return distances if np.ndim(distances) else float(distances)

    def similar(self, x: Any, z: Any) -> Any:
        """Whether ``d^2 <= threshold``: a bool, or an array of them."""
        return self.squared_distance(x, z) <= self.threshold

    def embed(self, X: Any, n_components: int | None = None) -> Floats:
        """The points where Euclidean distance is this distance: ``X C'``, the heaviest direction first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or (n_features,)
        n_components : int or None
            Only the first so many directions; None: all.
        """
        rows = checks.array(X, "X", 1, 2, n_features=self.n_features)
        if n_components is not None:
            checks.whole(n_components, "n_components", at_least=1)
        return rows @ self.components[:n_components].T

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to one safetensors file, replacing it whole or not at all."""
        from safetensors.numpy import save

        path = Path(os.path.realpath(path))  # a link stays a link
        if path.is_dir():
            raise IsADirectoryError(f"{str(path)!r} is a folder; accepted: the path of a file")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"the folder {str(path.parent)!r} does not exist")
        name = "factors" if self._factored else "matrix"
        about = {"format": _FORMAT, "threshold": self.threshold, "round": self.round}
        content = save({name: self._held}, metadata={"ocelad": json.dumps(about)})
        temporary = path.with_name(f".{uuid4().hex}.part")
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """Read a metric that ``save`` wrote; equal to what was saved, bit for bit."""
        from safetensors import SafetensorError, safe_open

        if not Path(path).is_file():
            raise FileNotFoundError(f"no file at {str(path)!r}; accepted: a file that Metric.save wrote")
        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {})["ocelad"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']!r}")
            if "factors" in arrays:
                return cls.from_factors(arrays["factors"], about["threshold"], about["round"])
            return cls(arrays["matrix"], about["threshold"], about["round"])
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{str(path)!r} is not a whole metric file ({reason}); accepted: {_FORMAT}") from error

    def __eq__(self, other: object) -> bool:
        """Same bits: threshold, round, and the matrix, or the factors where the metric is held by factors."""
        if not isinstance(other, Metric):
            return NotImplemented
        same = (self.threshold, self.round, self._factored) == (other.threshold, other.round, other._factored)
        return same and np.array_equal(self._held, other._held)

    def __hash__(self) -> int:
        return hash((self.threshold, self.round, self.n_features))

    def __deepcopy__(self, memo: dict[int, Any]) -> Metric:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._held, self._factored, self.threshold, self.round)

    def __repr__(self) -> str:
        return f"Metric(n_features={self.n_features}, threshold={self.threshold:.6g}, round={self.round})"


def _restore(held: Floats, factored: bool, threshold: float, round: int) -> Metric:
    return Metric.__new__(Metric)._hold(held, factored, threshold, round)


def _checked(threshold: Any, round: Any) -> tuple[float, int]:
    return checks.number(threshold, "threshold", at_least=0), checks.whole(round, "round", at_least=0)


def _read_only(array: Floats) -> Floats:
    array.flags.writeable = False
    return array
