"""MetricTracker: learns a metric from pairs, with the interface of scikit-learn and metric-learn."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import (
    MAX_SAMPLE_WEIGHT,
    check_choice,
    check_label,
    check_labels,
    check_number,
    check_weights,
    is_sparse,
)
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker, check_pairs
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.comparison_graph import Contradiction
from ocelad.curved_metric import linear_part
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators.item_lookup import LookedUpItems
from ocelad.estimators.known_items import sample_rows, usable_items
from ocelad.estimators.leading_axes import check_n_components
from ocelad.estimators.learning_method import Curved, Method, check_method, is_curved, own_map
from ocelad.estimators.mahalanobis import MahalanobisTracker, check_feature_count, squared_distances
from ocelad.estimators.saveable import strip_prefix
from ocelad.estimators.threshold_calibration import ThresholdCalibration
from ocelad.estimators.tracker_state import SeenLabels, TrackerState
from ocelad.estimators.tuples import Points, read_points, to_type
from ocelad.implied_answers import Answer, ImpliedAnswers
from ocelad.io import dataframes
from ocelad.metric import Metric
from ocelad.pairs import Events, Pair, PointPairs, subtract

if TYPE_CHECKING:
    from ocelad.adaptive.changes import Change

#: What the parameter ``transitive`` of ``MetricTracker`` accepts.
Transitive: TypeAlias = bool | Literal["auto"]


class MetricTracker(ClassifierMixin, MahalanobisTracker):  # type: ignore[misc]
    """Learns a metric from similar (+1) and dissimilar (-1) pairs, and keeps tracking it when it changes.

    Pairs are learned from in the order given. Splitting them into several calls does not change the result (to the bit;
    with more than 128 or with sparse features, and with the engine "blocked", up to rounding). A call that raises an
    error has no effect.

    It has the methods and attributes of metric-learn's pair learners and is a scikit-learn classifier of pairs, with
    its ``get_params``, ``set_params`` and ``set_output``. It has no ``fit_transform``, because ``fit`` takes pairs and
    ``transform`` takes points.

    Parameters
    ----------
    method : "adaptive", "rice" or Rice
        "adaptive", the default, has no settings. It does not depend on the scale of the data, and it provides
        calibrated probabilities, weights of pairs, the drift of the metric and detected changes. A ``Rice`` holds the
        settings of RICE-OCELAD, the paper's algorithm; the paper's regret bound is a theorem about this method only.
        "rice" means ``Rice()``.
    preprocessor : array-like, sparse matrix or table of shape (n_points, n_features), mapping, callable or None
        The items, when pairs are given by id or by index. By id: a mapping from ids to points, a table with a column
        ``id`` of strings, or a pandas table whose index holds strings. By index: any other table; the index of a pandas
        table is then 0, 1, 2, ..., so that a filtered one needs ``reset_index(drop=True)``. A column ``id`` of integers
        is refused. A callable receives an array of ids or indices and returns one point per row. A saved file does not
        hold it: call ``set_params(preprocessor=...)`` after ``load``.
    curved : bool, "auto", fitted transformer or callable
        Whether the distance has a curved part beside the linear one, for classes that no linear distance separates. How
        curved it is follows from the answers. It then has no ``components_`` and no matrix. "auto": with the method
        "adaptive". The landmarks of the curved part are drawn from the items, if they are known (``items`` of ``fit``,
        or a table as ``preprocessor``), otherwise from the points of the pairs. Points of more than 128 features are
        divided by their lengths first: the distance begins as that of cosine similarity. A fitted transformer of
        scikit-learn, or a function of an array of points, is used as the map to curved features instead.
    transitive : bool or "auto"
        Whether answers imply others: if A is the same as B, and B as C, then A and C are the same. The tracker learns
        from implied answers, too, as far as further answers confirm them. "auto": if the first pairs are given by id or
        by index, with the method "adaptive" and dense points; each pair then takes milliseconds instead of
        microseconds. Switch it off if "same" only means "near", so that chains of the same end at different things.
    n_components : int or None
        The number of columns that ``transform`` returns: principal axes of the items in the learned space, if the
        ``preprocessor`` has them, otherwise axes by eigenvalue. None: the rank of the metric. It changes no distance.

    Attributes
    ----------
    metric_ : Metric or CurvedMetric
        The current metric.
    linear_part_ : Metric
        The linear part of the current metric; all of it, if it is not curved.
    components_ : array of shape (rank, n_features)
        Rows C with M = C'C, in descending order of weight. They can be set; the next pair learned from restores the
        learned ones.
    threshold_ : float
        The threshold on the distance: pairs at most this far apart are predicted similar. It is tracked with the metric
        until ``set_threshold`` or ``calibrate_threshold`` fixes it. With the method "adaptive" it can be negative: then
        even equal points are more likely dissimilar, and no pair is predicted similar.
    weights_ : array of shape (n_experts,)
        The weight of each expert in the metric; they sum to 1. The experts of "rice" are its active scales, the finest
        first.
    experts_ : tuple of str
        The experts: the interval length of a scale, or a name.
    n_rounds_ : int
        The number of pairs learned from.
    n_features_in_ : int
        The number of features of a point.
    feature_names_in_ : array of shape (n_features,)
        The names of the features, if the points came in tables.
    method_ : str
        "adaptive" or "rice".
    engine_ : str
        The implementation in use: "adaptive", or the engine of "rice" that computes all learners.
    drift_ : float
        Method "adaptive" only: the relative change of the metric per pair, every 64 pairs; 0: it does not move.
    changes_ : list of Change
        Method "adaptive" only: the latest 100 detected changes of the meaning of "similar", each with the pair at
        which it probably happened, the pair at which it was detected, and the evidence, a log likelihood ratio.
    groups_ : list of list of ids
        If ``transitive``: the groups of two or more items that the answers imply, the largest first.
    contradictions_ : list of Contradiction
        If ``transitive``: the pairs whose answers contradict the groups.
    n_implied_ : int
        If ``transitive``: the number of pairs whose answer is implied, those that were asked included.
    transitivity_ : float
        If ``transitive``: how far answers about implied pairs agree with them, from 0 to 1, which is the weight of
        implied answers.
    n_cuts_ : int
        The number of directions that ``max_rank`` has cut; 0 without it.
    classes_ : array
        The labels of dissimilar and of similar pairs, as ``y`` had them: -1 and 1; 0 and 1; or False and True.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2, 3))
    >>> y = np.where(abs(X[:, 0, 0] - X[:, 1, 0]) < 1, 1, -1)  # only the first feature matters
    >>> tracker = MetricTracker().fit(X, y)
    >>> bool(np.mean(tracker.predict(X) == y) > 0.8)
    True
    >>> tracker.feature_weights(1)[0].feature
    'x0'
    >>> tracker.predict_proba([[[0, 0, 0], [0, 1, 1]], [[0, 0, 0], [3, 0, 0]]]).argmax(axis=1)  # of -1, of 1
    array([1, 0])
    >>> from ocelad import Rice
    >>> MetricTracker(method=Rice(loss="hinge", step_size=3e-3)).fit(X, y).method_
    'rice'
    """

    def __init__(
        self,
        *,
        method: Method = "adaptive",
        preprocessor: Any = None,
        curved: Curved = False,
        transitive: Transitive = "auto",
        n_components: int | None = None,
    ) -> None:
        self.method = method
        self.preprocessor = preprocessor
        self.curved = curved
        self.transitive = transitive
        self.n_components = n_components

    @property
    def classes_(self) -> Any:
        return self._fitted.labels.classes

    def fit(
        self,
        pairs: Any,
        y: Any,
        calibration_params: dict[str, Any] | None = None,
        *,
        sample_weight: Any = None,
        items: Any = None,
    ) -> Self:
        """Discard all that was learned, then learn from the pairs in the order given.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features), or (X, Z), or indices of shape (n_pairs, 2)
            X and Z are SciPy sparse matrices or tables (pandas, polars, Arrow) of shape (n_pairs, n_features); row i of
            both is pair i. Indices require a ``preprocessor``.
        y : array-like of shape (n_pairs,)
            +1 (or True) for similar, -1 (or 0 or False) for dissimilar. One stream has either -1 or 0.
        calibration_params : dict or None
            Fix the threshold afterwards by ``calibrate_threshold(pairs, y, **calibration_params)``; None: track it.
        sample_weight : array-like of shape (n_pairs,), or None
            Weights of the pairs from 0 to 10, for answers that count less or more than others: clicks less than
            judgements, for instance. None: 1. Method "adaptive" only.
        items : array-like, SciPy sparse matrix or table of shape (n_items, n_features), or None
            Points without labels, if they are known: the spreads of the features, the moments of all pairs, and the
            landmarks of a curved distance come from them before the first answer. None: the ``preprocessor``, if it is
            a table. Method "adaptive" only.
        """
        calibration = None if calibration_params is None else _calibration(calibration_params)
        points = read_points(pairs, 2, self._items())
        labels = check_labels(y, "y", points.n_tuples)
        weights = check_weights(sample_weight, points.n_tuples)
        sparse = is_sparse(points.parts[0])
        state = self._start_state(points.n_features, points.names, sparse=sparse, items=items)
        state, _ = self._learn(state, points, labels, weights)
        state.labels = state.labels.with_more(y)
        threshold = None
        if calibration is not None:
            threshold = calibration.threshold(np.sqrt(squared_distances(state.metric(), points)), labels)
        self._set_state(state)
        return self.set_threshold(threshold)

    def start(self, n_features: int, feature_names: Sequence[str] | None = None, *, items: Any = None) -> Self:
        """Discard all that was learned and start without any pair; ``items`` are as in ``fit``.

        Distances are then available before the first pair, and the names of the features are known without a table.
        """
        n, names = check_feature_count(n_features, feature_names)
        return self._set_started(self._start_state(n, names, sparse=False, items=items))

    def _start_state(
        self, n_features: int, names: tuple[str, ...] | None, *, sparse: bool, items: Any = None
    ) -> TrackerState:
        adaptive = check_method(self.method) == "adaptive"
        if items is not None and not adaptive:
            raise ValueError("items are used by method='adaptive' only: set it, or omit them")
        if items is not None:
            items, item_names = dataframes.to_rows(sample_rows(items), "items")
            dataframes.check_feature_names(item_names, names, "items")
        elif adaptive:
            items = usable_items(self._items())
        curved = is_curved(self.curved, self.method)
        check_n_components(self.n_components, None if curved else n_features)
        is_transitive = self._may_be_transitive(sparse=sparse) and self.transitive is True
        state = TrackerState.start(
            self.method,
            n_features,
            sparse=sparse,
            names=names,
            curved=curved,
            items=items,
            own_map=own_map(self.curved),
        )
        return state.with_implied_answers() if is_transitive else state

    def _may_be_transitive(self, *, sparse: bool) -> bool:
        """Return whether answers may imply others; "auto": if the first pairs are given by id or by index."""
        check_choice(self.transitive, "transitive", ("auto", False, True))
        needs = {
            "method='adaptive'": check_method(self.method) == "adaptive",
            "a preprocessor, which has the items": self.preprocessor is not None,
            "dense points": not sparse,
        }
        missing = [need for need, is_met in needs.items() if not is_met]
        if self.transitive is True and missing:
            raise ValueError(f"transitive=True needs {missing[0]}; set it, or transitive=False")
        return bool(self.transitive) and not missing

    def _ready_for_ids(self, state: TrackerState, *, sparse: bool) -> TrackerState:
        """Return the state with which pairs that are given by id are learned: the first ones may make it transitive."""
        may_be = self._may_be_transitive(sparse=sparse)
        return (
            state.with_implied_answers() if may_be and state.implied is None and state.tracker.n_rounds == 0 else state
        )

    def _state_to_continue(self) -> TrackerState | None:
        state = super()._state_to_continue()
        if state is None:
            return None
        if self.transitive is (state.implied is None):
            raise ValueError("transitive was changed after the first pairs; call fit to start again with it")
        if state.curved != is_curved(self.curved, self.method) or state.own_map is not own_map(self.curved):
            raise ValueError(
                "curved was changed after the first pairs; call fit to start again with it, or set it back"
            )
        return state

    def partial_fit(self, pairs: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Learn from more pairs in the order given; see ``fit``. A fixed threshold stays."""
        self.test_then_train(pairs, y, sample_weight=sample_weight)
        return self

    def test_then_train(self, pairs: Any, y: Any, *, sample_weight: Any = None) -> Floats:
        """Learn from more pairs, and return the margin of each pair before it was learned from.

        The margin is ``y`` times the ``log_odds`` after all pairs before it; it is positive for a correct prediction.
        One pass over a stream thus evaluates every pair out of sample. (With the method "adaptive" the first eight
        pairs are predicted with scales that include the pair itself, but not its label.) Accepts the same input as
        ``partial_fit``.

        >>> from ocelad import Rice
        >>> tracker = MetricTracker(method=Rice(initial_scale=1.0))
        >>> tracker.test_then_train([[[0.0], [0.5]], [[0.0], [3.0]]], [1, -1]).round(2)
        array([0.75, 7.99])
        """
        state = self._state_to_continue()
        points = read_points(pairs, 2, self._items(), None if state is None else state.n_features)
        labels, weights = check_labels(y, "y", points.n_tuples), check_weights(sample_weight, points.n_tuples)
        if state is None:
            state = self._start_state(points.n_features, points.names, sparse=is_sparse(points.parts[0]))
        seen = state.labels.with_more(y)
        state, margins = self._learn(state, points, labels, weights)
        state.labels = seen
        self._set_state(state)
        return np.asarray(margins)

    def _learn(
        self, state: TrackerState, points: Points, labels: Floats, weights: Floats | None
    ) -> tuple[TrackerState, Floats]:
        """Return the state after more pairs, and the margin of each pair before it was learned from."""
        sparse = is_sparse(points.parts[0])
        if points.keys is not None:
            state = self._ready_for_ids(state, sparse=sparse)
        if state.implied is None or points.keys is None or sparse:
            return state.learn(_events(state, points, labels), points.names, weights)
        dataframes.check_feature_names(points.names, state.names, "the table")
        state = copy(state)
        return state, self._learn_by_id(state, points, labels, np.ones(len(labels)) if weights is None else weights)

    def _learn_by_id(self, state: TrackerState, points: Points, labels: Floats, weights: Floats) -> Floats:
        """Let a state learn from pairs that are given by id. All is checked first: a refused pair changes nothing."""
        assert state.implied is not None
        assert points.keys is not None
        check_pairs(*points.parts)
        keys: list[list[Any]] = points.keys.tolist()
        for left, right in keys:
            _check_id(left)
            _check_id(right)
        items = self._item_points()
        items.read(state.implied.recent)
        for k, part in enumerate(points.parts):
            items.add([pair[k] for pair in keys], part)
        answers = zip(keys, labels.tolist(), weights.tolist(), strict=True)
        margins = state.learn_by_id([Answer(left, right, y, weight) for (left, right), y, weight in answers], items)
        items.keep(state.implied.recent)
        return margins

    def learn_one(self, x: Any, z: Any, y: Any, weight: float = 1.0) -> Self:
        """Learn from one pair of points x and z, or of ids or indices, with label y; ``weight`` is as in ``fit``.

        >>> tracker = MetricTracker(preprocessor={"cat": [0.0, 1.0], "tiger": [0.5, 1.0], "pear": [7.0, 0.0]})
        >>> tracker.learn_one("cat", "tiger", True).learn_one("cat", "pear", False).n_rounds_
        2
        """
        weight = check_number(weight, "weight", at_least=0, at_most=MAX_SAMPLE_WEIGHT)
        points = None
        if self.preprocessor is not None and np.ndim(x) == 0 and np.ndim(z) == 0 and not is_sparse(x):
            points = self._points_by_key(x, z)
            x, z = (part[:1] if is_sparse(part) else part[0] for part in points.parts)
        elif all(isinstance(key, str | Integral) for key in (x, z)):
            raise ValueError(
                "x and z are ids or indices, and there is no preprocessor that has their points; set it by "
                "set_params(preprocessor=...), or pass points of shape (n_features,)"
            )
        pair = Pair(x, z, check_label(y, "y") > 0)
        n_features, state = int(pair.x.shape[-1]), self._state_to_continue()
        if state is None:
            state = self._start_state(n_features, None, sparse=is_sparse(pair.x))
        if points is not None:
            state = self._ready_for_ids(state, sparse=is_sparse(pair.x))
        if n_features != state.n_features:
            raise ValueError(f"x has {n_features} features; {state.n_features} are expected")
        seen = state.labels.with_more(y)
        with state.lock:  # other threads may ask for the metric
            if state.implied is not None and points is not None and not is_sparse(pair.x):
                self._learn_by_id(state, points, np.array([1.0 if pair.similar else -1.0]), np.array([weight]))
            else:
                events = PointPairs.from_pair(pair) if state.curved else Events.from_event(pair.event())
                state.replay(events, None if weight == 1.0 else np.array([weight]))
            state.labels = seen
        self._set_state(state)
        return self

    def _item_points(self) -> LookedUpItems:
        """Return the points of the items of the preprocessor; those of all items are read again when there are more."""
        items = self._items()
        assert items is not None
        read: tuple[Any, int | None, LookedUpItems] | None = self.__dict__.get("_read_points_of")
        if read is None or read[0] is not items or read[1] != items.n_items:
            read = self._read_points_of = items, items.n_items, LookedUpItems(items, usable_items(self._items()))
        return read[2]

    def _points_by_key(self, x: Any, z: Any) -> Points:
        """Return the points of two items, each as one row."""
        keys = np.empty((1, 2), dtype=object)
        keys[0] = x, z
        kinds = {np.asarray(key).dtype.kind for key in (x, z)}
        is_index = kinds <= set("iu") and max(x, z) < 2**63
        return read_points(keys.astype(np.int64) if is_index else keys, 2, self._items())

    def decision_function(self, pairs: Any) -> Floats:
        """Return the score by which ``predict`` decides; larger means more similar.

        With the method "adaptive" it is ``log_odds``, and pairs with at least 0 are similar. With "rice", a fixed
        threshold or components set by the user it is ``pair_score``, and pairs with at least ``-threshold_`` are
        similar. It is float32 if the pairs are float32, otherwise float64.
        """
        points = self._read_points(pairs, 2)
        return to_type(self._decision(points), points.dtype)

    def _decision(self, points: Points) -> Floats:
        return self._log_odds(points) if self._decides_by_odds else -self._pair_distance(points)

    def log_odds(self, pairs: Any) -> Floats:
        """Return the log odds of "similar" for each pair; positive if similar is more likely.

        The method "adaptive" calibrates them along the stream. With "rice" they are the margin ``mu - d^2``. The
        logistic loss treats the margin as log odds; with other losses it is only a margin.
        """
        points = self._read_points(pairs, 2)
        return to_type(self._log_odds(points), points.dtype)

    def _log_odds(self, points: Points) -> Floats:
        """Return the log odds in float64, by which pairs are decided."""
        return np.asarray(self.metric_.threshold - squared_distances(self.metric_, points))

    def predict_proba(self, pairs: Any) -> Floats:
        """Return the probabilities of both ``classes_`` that follow from ``log_odds``, of shape (n_pairs, 2).

        A fixed threshold changes ``predict``, not these probabilities.
        """
        points = self._read_points(pairs, 2)
        log_odds = self._log_odds(points)
        return to_type(np.column_stack([expit(-log_odds), expit(log_odds)]), points.dtype)

    def predict(self, pairs: Any) -> np.ndarray:
        """Return the predicted label of each pair: +1 for similar and -1 for dissimilar, if ``y`` had these labels.

        Labels are those of ``classes_``: after 1 and 0, or booleans, they are 1 and 0, or booleans.

        With the method "adaptive" a pair is similar if its probability is at least 1/2. With "rice", a fixed threshold
        or components set by the user it is similar if its distance is at most ``threshold_``.
        """
        points = self._read_points(pairs, 2)
        if self._decides_by_odds:
            similar = self._log_odds(points) >= 0
        else:
            similar = self._pair_distance(points) <= self.threshold_
        return np.asarray(self.classes_[similar.astype(np.intp)])

    def decide(self, pairs: Any, error: float = 0.02) -> np.ndarray:
        """Return +1 (same), -1 (different) or 0 (ask a person) for each pair, with a promised share of errors.

        The answers of the stream set the confidence that a decision needs. Had every pair of the stream been decided
        in this way before its answer, at most the share ``error`` of the decided ones would have been wrong, also after
        a change of the question, up to a few: at most ``error * decided + 1 + 2 log(1 + error * n_rounds)`` wrong ones.
        New pairs must be like those of the stream. Method "adaptive" only.

        Parameters
        ----------
        pairs
            As in ``fit``.
        error : float
            The promised error, above 0 and below 0.5.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(3000, 2, 3))
        >>> tracker = MetricTracker().fit(X, np.where(abs(X[:, 0, 0] - X[:, 1, 0]) < 1, 1, -1))
        >>> tracker.decide([[[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [1.1, 0, 0]], [[0, 0, 0], [4, 0, 0]]], error=0.02)
        array([ 1,  0, -1])
        """
        return self.decide_log_odds(self._log_odds(self._read_points(pairs, 2)), error)

    def decide_log_odds(self, log_odds: Any, error: float = 0.02) -> np.ndarray:
        """Return what ``decide`` returns for pairs with these ``log_odds``."""
        return self._adaptive_tracker("decide").decide(log_odds, error)

    @property
    def _decides_by_odds(self) -> bool:
        return self.method_ == "adaptive" and "_threshold" not in self.__dict__ and self._fitted.has_learned_metric

    def score(self, pairs: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the area under the ROC curve of ``decision_function``: 1 is perfect, 0.5 is chance."""
        from sklearn.metrics import roc_auc_score

        scores = self._decision(self._read_points(pairs, 2))
        labels = check_labels(y, "y", len(scores))
        if abs(labels.sum()) == len(labels):
            raise ValueError(f"y holds only {labels[0]:+g}; a ROC curve needs similar and dissimilar pairs")
        return float(roc_auc_score(labels, scores, sample_weight=sample_weight))

    @property
    def method_(self) -> str:
        return str(self._fitted.settings["method"])

    @property
    def drift_(self) -> float:
        return self._adaptive_tracker("drift_").drift

    @property
    def changes_(self) -> list[Change]:
        return self._adaptive_tracker("changes_").changes

    @property
    def groups_(self) -> list[list[Any]]:
        return [group for group in self._implied("groups_").graph.groups() if len(group) > 1]

    @property
    def contradictions_(self) -> list[Contradiction]:
        return list(self._implied("contradictions_").graph.contradictions())

    @property
    def n_implied_(self) -> int:
        return self._implied("n_implied_").graph.n_implied

    @property
    def transitivity_(self) -> float:
        return self._implied("transitivity_").trust

    def _implied(self, attribute: str) -> ImpliedAnswers:
        implied = self._fitted.implied
        if implied is None:
            raise AttributeError(f"{attribute} needs pairs by id, a preprocessor, and transitive='auto' or True")
        return implied

    @property
    def linear_part_(self) -> Metric:
        return linear_part(self.metric_)

    def _adaptive_tracker(self, attribute: str) -> AdaptiveTracker | CurvedTracker:
        tracker = self._fitted.tracker
        if not isinstance(tracker, AdaptiveTracker | CurvedTracker):
            raise AttributeError(f"{attribute} needs method='adaptive'; this tracker uses {self.method_!r}")
        return tracker

    @property
    def threshold_(self) -> float:
        fixed: float | None = self.__dict__.get("_threshold")
        return self.metric_.distance_threshold if fixed is None else fixed

    @threshold_.setter
    def threshold_(self, threshold: float) -> None:
        self.set_threshold(threshold)

    def set_threshold(self, threshold: float | None) -> Self:
        """Fix the threshold on the distance until the next ``fit``; None: track it with the metric again."""
        self._fitted  # noqa: B018  (raises NotFittedError)
        if threshold is None:
            self.__dict__.pop("_threshold", None)
        else:
            self._threshold = check_number(threshold, "threshold")
        return self

    def calibrate_threshold(
        self, pairs: Any, y: Any, strategy: str = "accuracy", min_rate: float | None = None, beta: float = 1.0
    ) -> Self:
        """Fix the threshold at the best value for some pairs under the current metric.

        Parameters
        ----------
        pairs, y
            As in ``fit``, both similar and dissimilar pairs; preferably held-out ones.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}
            What to maximize: the accuracy; the F-score of "similar"; the true positive rate, subject to a true negative
            rate of at least ``min_rate``; or the true negative rate, subject to a true positive rate of at least
            ``min_rate``.
        min_rate : float or None
            From 0 to 1; required by "max_tpr" and "max_tnr".
        beta : float
            The weight of recall relative to precision in "f_beta".

        Examples
        --------
        >>> tracker = MetricTracker(method="rice").fit([[[0.0], [1.0]], [[0.0], [3.0]]], [1, -1])
        >>> tracker.calibrate_threshold([[[0.0], [4.0]], [[0.0], [9.0]]], [1, -1]).predict([[[0.0], [5.0]]])
        array([-1])
        """
        calibration = ThresholdCalibration(strategy, min_rate, beta)
        distances = self._pair_distance(self._read_points(pairs, 2))
        return self.set_threshold(calibration.threshold(distances, check_labels(y, "y", len(distances))))

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything learned, as arrays and as values that JSON can store."""
        arrays, metadata = super().state()
        more = {
            "fixed_threshold": self.__dict__.get("_threshold"),
            "dissimilar_label": self._fitted.labels.dissimilar,
            "boolean_labels": self._fitted.labels.are_boolean,
            "transitive": self.transitive,
        }
        if self._fitted.implied is not None:
            implied_arrays, more["implied"] = self._fitted.implied.state()
            arrays |= add_prefix("implied", implied_arrays)
        return arrays, {**metadata, **more}

    @classmethod
    def from_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """Return the tracker whose ``state`` is given, after checking it."""
        tracker = super().from_state(arrays, metadata).set_threshold(metadata["fixed_threshold"])
        tracker.curved = tracker._fitted.curved
        labels = SeenLabels(metadata.get("dissimilar_label"), metadata.get("boolean_labels", False))
        tracker._fitted.labels = labels
        tracker.transitive = check_choice(metadata.get("transitive", "auto"), "transitive", ("auto", False, True))
        if ("implied" in metadata) != tracker._fitted.tracker.settings.get("grouped", False):
            raise ValueError("it has groups of items without the answers about them, or the reverse")
        if "implied" in metadata:
            implied = ImpliedAnswers.from_state(strip_prefix("implied", arrays), metadata["implied"])
            tracker._fitted.implied = implied
        learned_by = tracker._fitted.tracker.settings.get("method", "rice")
        if learned_by != tracker.method_:
            raise ValueError(f"it has learned by the method {learned_by!r}, but its settings say {tracker.method_!r}")
        return tracker

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = self.preprocessor is not None
        return tags


def _events(state: TrackerState, points: Points, labels: Floats) -> Events | PointPairs:
    """Return the pairs in the form that the state's tracker learns from."""
    if state.curved:
        X, Z = points.parts
        return PointPairs.from_trusted(X, Z, labels)
    return Events(subtract(*points.parts), labels)


def _check_id(entry: Any) -> None:
    """Refuse an id that answers cannot be stored by."""
    try:
        hash(entry)
    except TypeError:
        raise TypeError(
            f"pairs holds the id {entry!r}, which is not hashable; accepted: ids such as texts and numbers, or "
            "transitive=False"
        ) from None


def _calibration(params: Any) -> ThresholdCalibration:
    accepted = ("strategy", "min_rate", "beta")
    if not isinstance(params, dict) or not set(params) <= set(accepted):
        raise ValueError(f"calibration_params must be a dict of {', '.join(accepted)}; got {params!r}")
    return ThresholdCalibration(**params)
