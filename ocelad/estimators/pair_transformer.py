"""PairTransformer: applies a transformer of points, such as a scaler, to the points of pairs."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from ocelad._validation import is_sparse
from ocelad.estimators.item_lookup import find_items
from ocelad.estimators.printed_estimator import PrintedEstimator
from ocelad.estimators.tuples import TUPLE_NAMES, is_keys
from ocelad.io import dataframes


def _can_learn_more(estimator: PairTransformer) -> bool:
    return hasattr(estimator.transformer, "partial_fit")


class PairTransformer(MetaEstimatorMixin, TransformerMixin, PrintedEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]
    """Applies a transformer of points to the points of pairs, so that it can precede a tracker in a pipeline.

    The transformer is fitted on all points of the pairs: it sees a point as often as pairs hold it. Triplets and
    quadruplets are accepted, too. So are points, which are simply transformed: the ``transform`` of a pipeline with a
    tracker at its end takes points.

    Parameters
    ----------
    transformer : transformer of scikit-learn
        ``fit`` clones it and does not change it; ``set_output`` also sets its output. It receives no labels, because
        those are labels of pairs.
    preprocessor : array-like, sparse matrix or table of shape (n_points, n_features), mapping, callable or None
        The points, when pairs are given by id or by index; see ``MetricTracker``. Without it, pairs of indices would
        count as points. The tracker after it then receives points, so that answers do not imply others. To keep ids,
        transform the items once, and give them to the tracker's own ``preprocessor``.

    Attributes
    ----------
    transformer_ : transformer
        The fitted transformer.
    n_features_in_ : int
        The number of features of a point.
    feature_names_in_ : array of shape (n_features,)
        The names of the features, if the points came in tables.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from ocelad import MetricTracker
    >>> rng = np.random.default_rng(0)
    >>> pairs = rng.normal(size=(600, 2, 3)) * [1000.0, 1.0, 1.0]
    >>> same = abs(pairs[:, 0, 1] - pairs[:, 1, 1]) < 1
    >>> pipeline = make_pipeline(PairTransformer(StandardScaler()), MetricTracker(method="rice"))
    >>> unscaled = MetricTracker(method="rice")
    >>> bool(cross_val_score(pipeline, pairs, same).mean() > cross_val_score(unscaled, pairs, same).mean() + 0.2)
    True
    >>> pipeline.fit(pairs, same).transform(pairs[:, 0]).shape  # maps points
    (600, 3)
    """

    def __init__(self, transformer: Any, *, preprocessor: Any = None) -> None:
        self.transformer = transformer
        self.preprocessor = preprocessor

    def fit(self, tuples: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer on all points of the tuples, or on points; y is ignored."""
        read = self._read(tuples)
        try:
            fitted = clone(self.transformer).fit(_stack(read.tables))
        except ValueError as error:
            if not read.holds_points or _shape(tuples)[1:] not in ((2,), (3,), (4,)) or not is_keys(np.asarray(tuples)):
                raise
            raise ValueError(f"{error}; pairs by id need PairTransformer(..., preprocessor=...)") from error
        return self._set_fitted(fitted, read)

    @available_if(_can_learn_more)  # type: ignore[untyped-decorator]
    def partial_fit(self, tuples: Any, y: Any = None) -> Self:
        """Fit the transformer on more points; y is ignored. Available if the transformer has ``partial_fit``."""
        read = self._read(tuples)
        transformer = self.transformer_ if self.__sklearn_is_fitted__() else clone(self.transformer)
        return self._set_fitted(transformer.partial_fit(_stack(read.tables)), read)

    def transform(self, tuples: Any) -> Any:
        """Return the tuples with all points transformed.

        Parameters
        ----------
        tuples : array-like of shape (n_tuples, size, n_features), or (X, Z, ...), or indices of shape (n_tuples, size)
            As in the ``fit`` of the trackers. Or points: an array, a sparse matrix or a table of shape
            (n_points, n_features). With a ``preprocessor``, an array or a table of two dimensions holds ids or indices,
            but a table whose columns are ``feature_names_in_`` holds points; ``transformer_`` transforms other points.

        Returns
        -------
        array of shape (n_tuples, size, n_outputs), or (X, Z, ...) of sparse matrices or tables, or transformed points
            Tables if ``set_output`` asks for them.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this PairTransformer is not fitted yet; call fit first")
        read = self._read(tuples, self.__dict__.get("feature_names_in_"))
        parts = tuple(self.transformer_.transform(table) for table in read.tables)
        if read.holds_points:
            return parts[0]
        return parts if any(map(_has_rows, parts)) else np.stack(parts, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the features of transformed points."""
        return self.transformer_.get_feature_names_out(input_features)

    def set_output(self, *, transform: Any = None) -> Self:
        """Let the transformer return tables: pairs are then ``(X, Z)``, two tables with the names of the features.

        As in scikit-learn's own meta-estimators, the output of ``transformer`` itself is set, from which ``fit`` makes
        its clones.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            None: no change.
        """
        for transformer in (self.transformer, self.__dict__.get("transformer_")):
            if transformer is not None:
                transformer.set_output(transform=transform)
        return self

    def _read(self, tuples: Any, names: Any = None) -> _Read:
        """Return the points of tuples as the transformer receives them, which checks their content.

        A table whose columns have these names holds points, not ids.
        """
        parted = isinstance(tuples, tuple | list) and len(tuples) in TUPLE_NAMES and all(map(_has_rows, tuples))
        if parted:
            return _Read(_check_lengths(list(tuples)), False)
        shape = _shape(tuples)
        is_table = dataframes.is_dataframe(tuples)
        if (
            is_sparse(tuples)
            or (self.preprocessor is None and len(shape) <= 2)
            or (is_table and names is not None and dataframes.column_names(tuples) == tuple(names))
        ):
            return _Read([tuples], True)
        if len(shape) not in (2, 3) or shape[1] not in TUPLE_NAMES:
            points = (
                "or points, of shape (n_points, n_features)"
                if self.preprocessor is None
                else "or ids, of shape (n_tuples, 2 to 4); with a preprocessor, transform points by transformer_"
            )
            raise ValueError(
                f"the argument has shape {shape}; accepted: pairs, triplets or quadruplets, as an array of shape "
                f"(n_tuples, 2 to 4, n_features) or as 2 to 4 tables or sparse matrices; {points}"
            )
        array = np.column_stack(dataframes.column_arrays(tuples)) if is_table else np.asarray(tuples)
        if array.ndim == 3:
            return _Read([array[:, k] for k in range(shape[1])], False)
        items = find_items(self.preprocessor)
        try:
            return _Read([items.rows(array[:, k], TUPLE_NAMES[shape[1]], k) for k in range(shape[1])], False)
        except (TypeError, ValueError) as error:
            if array.dtype.kind != "f":
                raise
            raise type(error)(f"{error}; with a preprocessor, transform points by transformer_") from None

    def _set_fitted(self, transformer: Any, read: _Read) -> Self:
        self.transformer_ = transformer
        points = read.tables[0]
        names = None if is_sparse(points) else dataframes.column_names(points)
        self.n_features_in_ = _shape(points)[1]
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "transformer_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.transformer)
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = True
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.no_validation = inner.no_validation
        if inner.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = list(inner.transformer_tags.preserves_dtype)
        return tags


class _Read(NamedTuple):
    """The points of tuples by their place in the tuple, or all points, if tuples were points."""

    tables: list[Any]
    holds_points: bool


def _has_rows(part: Any) -> bool:
    return is_sparse(part) or dataframes.is_dataframe(part)


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of an array-like, a sparse matrix or a table; that of a ragged list is empty."""
    try:
        return tuple(value.shape) if hasattr(value, "shape") else np.asarray(value).shape
    except ValueError:
        return ()


def _check_lengths(tables: list[Any]) -> list[Any]:
    """Return the tables after checking that they have equally many rows."""
    lengths = [table.shape[0] for table in tables]
    if len(set(lengths)) > 1:
        raise ValueError(f"the tables have {' and '.join(map(str, lengths))} rows; accepted: equally many")
    return tables


def _stack(tables: list[Any]) -> Any:
    """Return all points of tuples as one array, sparse matrix or table."""
    if len(tables) == 1:
        return tables[0]
    if all(is_sparse(table) for table in tables):
        from scipy.sparse import vstack

        return vstack(tables, format="csr")
    return dataframes.concatenate(tables) if dataframes.is_dataframe(tables[0]) else np.concatenate(tables)
