"""MetricTracker: from pairs, with the contract of scikit-learn and metric-learn."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_choice, check_label, check_labels, check_number
from ocelad.adaptive.track import track_adaptive
from ocelad.engines.track import EngineName
from ocelad.ensemble.bank import Finest
from ocelad.ensemble.ocelad import Ocelad
from ocelad.estimators.mahalanobis import MahalanobisTracker, Tracked
from ocelad.estimators.threshold_calibration import Calibration
from ocelad.estimators.tuples import points_of
from ocelad.learners.comid import DivergenceName, LossName, RegularizerName
from ocelad.metric import Metric
from ocelad.pairs import Events, Pair, SparseVector, subtract

if TYPE_CHECKING:
    from ocelad.adaptive.change_detection import Change  # imports numba

MethodName: TypeAlias = Literal["adaptive", "rice"]


class MetricTracker(ClassifierMixin, MahalanobisTracker):  # type: ignore[misc]
    """Learns a distance from pairs that are similar (+1) or dissimilar (-1), and follows it when it changes.

    Pairs are learned from in the order in which they come. How they are cut into calls makes no difference (to the
    bit; with the engines "blocked" and "sparse", to rounding), and a call that is refused changes nothing.

    It has the methods and attributes of metric-learn's pair learners, and is a classifier of pairs for scikit-learn.

    There are two methods. "adaptive", the default, has nothing to set: it does not depend on the data's scale, it tells
    calibrated probabilities, how fast the metric moves and when the question changed. "rice" is RICE-OCELAD, the
    paper's algorithm, with all its settings; the paper's bound on the regret is a theorem about this one alone.

    Parameters
    ----------
    method : {"adaptive", "rice"}
        All other parameters but ``preprocessor`` are settings of "rice", and are refused where "adaptive" is to learn.
    loss : {"logistic", "hinge", "squared_hinge"}
        Of the margin. The paper's is the hinge, for which ``step_size=3e-3`` suits the paper's data.
    step_size : float
        eta0; it depends on the scale of the data (see ``track_metric``).
    shrinkage : float
        rho, how strongly the regulariser pulls.
    regularizer : {"nuclear", "l1", None}
        What is kept small: the eigenvalues, the entries, or nothing.
    divergence : {"frobenius", "von_neumann", "burg"}
        What keeps a step near the last estimate.
    shortest_interval : int
        I0, the length of the finest scale's intervals.
    n_scales : int or None
        At most this many scales; None: as many as the stream needs.
    finest : {"carry", "ensemble", "reset"}
        What the finest scale starts from when its interval ends.
    initial_scale : float or None
        M0 = initial_scale * I; None: 1 / n_features, or less where ``max_norm`` asks for less.
    initial_threshold : float
        The threshold on the squared distance at the start, 1 or more.
    max_norm : float or None
        Bound on the Frobenius norm of the metric; None: no bound.
    engine : {"auto", "dense", "fullrank", "lowrank", "blocked", "sparse"}
        How it is computed; the result is the same to about 13 digits. "auto" chooses by the settings, the number of
        features and whether the first pairs are sparse; ``engine_`` says which it is. See ``track_metric``.
    max_rank : int or None
        At most so many directions per learner; None: as many as it takes.
    diagonal : bool
        Whether the metric is kept diagonal, one weight per feature: for many features, sparse ones above all.
    l1_tolerance : float
        With the regularizer "l1": up to which certified duality gap a step is computed; 1e-12 to 0.1.
    preprocessor : array-like, sparse matrix or table of shape (n_points, n_features), or callable, or None
        Where the points are when pairs are given as indices. A callable is given an array of indices and returns one
        point per row.

    Attributes
    ----------
    metric_ : Metric
        The metric now.
    components_ : array of shape (rank, n_features)
        Rows C with M = C'C, the heaviest first. Others may be set: they hold until the next pair is learned from.
    threshold_ : float
        On the distance: pairs at most this far apart are taken to be similar (with the method "adaptive", only about:
        there the log odds decide). It is tracked with the metric, unless ``set_threshold`` or ``calibrate_threshold``
        has fixed it; then it decides.
    weights_ : array of shape (n_experts,)
        The share of each expert in what is played; they sum to 1. The experts of "rice" are its active scales, the
        finest first.
    experts_ : tuple of str
        What they are: the interval length of a scale, or a name.
    n_rounds_ : int
        How many pairs it has learned from.
    n_features_in_ : int
        How many features the points have.
    feature_names_in_ : array of shape (n_features,)
        Their names, where the points came in tables.
    method_ : str
        The method that it has learned by.
    engine_ : str
        The engine that computes it. With the method "adaptive" this is "adaptive", or, where there are many features or
        sparse ones, the one of "rice" that all of its learners then are of.
    drift_ : float
        Of the method "adaptive" only: how fast the metric moves now, as its relative change per pair; 0: at rest. Not
        known (NaN) where ``engine_`` is not "adaptive".
    changes_ : list of Change
        Of the method "adaptive" only: from about which pair on the question was another, with which confidence, and
        after which pair that was noticed; the latest 100.
    n_cuts_ : int
        How many directions ``max_rank`` has cut; 0 without it.
    classes_ : array
        -1 and 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2, 3))
    >>> y = np.where(abs(X[:, 0, 0] - X[:, 1, 0]) < 1, 1, -1)  # only the first feature tells
    >>> tracker = MetricTracker().fit(X, y)
    >>> bool(np.mean(tracker.predict(X) == y) > 0.85)
    True
    >>> tracker.feature_weights(1)[0].feature
    'x0'
    >>> tracker.predict_proba([[[0, 0, 0], [0, 1, 1]], [[0, 0, 0], [3, 0, 0]]]).argmax(axis=1)  # of -1, of 1
    array([1, 0])
    """

    def __init__(
        self,
        *,
        method: MethodName = "adaptive",
        loss: LossName = "logistic",
        step_size: float = 1e-2,
        shrinkage: float = 0.0,
        regularizer: RegularizerName | None = "nuclear",
        divergence: DivergenceName = "frobenius",
        shortest_interval: int = 1,
        n_scales: int | None = None,
        finest: Finest = "carry",
        initial_scale: float | None = None,
        initial_threshold: float = 1.0,
        max_norm: float | None = None,
        engine: EngineName = "auto",
        max_rank: int | None = None,
        diagonal: bool = False,
        l1_tolerance: float = 1e-12,
        preprocessor: Any = None,
    ) -> None:
        super().__init__(  # all by name: scikit-learn finds parameters in the signature of the class itself
            loss=loss,
            step_size=step_size,
            shrinkage=shrinkage,
            regularizer=regularizer,
            divergence=divergence,
            shortest_interval=shortest_interval,
            n_scales=n_scales,
            finest=finest,
            initial_scale=initial_scale,
            initial_threshold=initial_threshold,
            max_norm=max_norm,
            engine=engine,
            max_rank=max_rank,
            diagonal=diagonal,
            l1_tolerance=l1_tolerance,
            preprocessor=preprocessor,
        )
        self.method = method

    def fresh(self, n_features: int, *, sparse: bool = False) -> Ocelad[Any, Metric]:
        """A tracker of the core with these settings that has seen nothing; for pairs that are sparse, or not."""
        if self._settings()["method"] == "rice":
            return super().fresh(n_features, sparse=sparse)
        return track_adaptive(n_features, sparse=sparse)

    @property
    def classes_(self) -> Any:
        self._tracked  # noqa: B018  (none before the first pair, as scikit-learn has it)
        return np.array([-1, 1])

    def fit(self, pairs: Any, y: Any, calibration_params: dict[str, Any] | None = None) -> Self:
        """Forget everything, then learn from the pairs, in their order.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features), or (X, Z), or indices of shape (n_pairs, 2)
            X and Z are SciPy sparse matrices or tables (pandas, polars, Arrow) of shape (n_pairs, n_features); row i of
            both is pair i. Indices need a ``preprocessor``.
        y : array-like of shape (n_pairs,)
            +1 (or True) for similar, -1 (or False) for dissimilar.
        calibration_params : dict or None
            Then fix the threshold by ``calibrate_threshold(pairs, y, **calibration_params)``; None: it is tracked.
        """
        calibration = None if calibration_params is None else Calibration(**_named(calibration_params))
        tracked, _ = self._learned(None, pairs, y)
        threshold = None
        if calibration is not None:
            x, z = points_of(pairs, 2, self.preprocessor).parts
            threshold = calibration.threshold(tracked.metric().length(subtract(x, z)), _labels(y, x.shape[0]))
        return self._keep(tracked).set_threshold(threshold)

    def partial_fit(self, pairs: Any, y: Any) -> Self:
        """Learn from some more pairs, in their order. Takes what ``fit`` takes. A fixed threshold stays."""
        tracked, _ = self._learned(self._going_on(), pairs, y)
        return self._keep(tracked)

    def test_then_train(self, pairs: Any, y: Any) -> Floats:
        """Learn from some more pairs, and tell with which margin each was judged before it was learned from.

        The margin is ``y`` times the ``log_odds`` that all pairs before it have made: above 0 where they were right.
        So one pass over a stream gives an honest account of it. Takes what ``partial_fit`` takes.

        >>> tracker = MetricTracker(method="rice", initial_scale=1.0)
        >>> tracker.test_then_train([[[0.0], [0.5]], [[0.0], [3.0]]], [1, -1]).round(2)
        array([0.75, 7.99])
        """
        tracked, margins = self._learned(self._going_on(), pairs, y)
        self._keep(tracked)
        return np.asarray(margins)

    def learn_one(self, x: Any, z: Any, y: Any) -> Self:
        """Learn from one pair of points x and z with label y."""
        event = Pair(x, z, check_label(y, "y") > 0).event()
        n_features = event.u.n_features if isinstance(event.u, SparseVector) else len(event.u)
        tracked = self._going_on() or self._begun(n_features, isinstance(event.u, SparseVector), None)
        if n_features != tracked.n_features:
            raise ValueError(f"x has {n_features} features; {tracked.n_features} are expected")
        tracked.ocelad.step(event)
        return self._keep(tracked)

    def _learned(self, tracked: Tracked | None, pairs: Any, y: Any) -> tuple[Tracked, Any]:
        def events_of(x: Any, z: Any) -> Events:
            return Events(subtract(x, z), _labels(y, x.shape[0]))

        return self._after(tracked, pairs, events_of)

    def decision_function(self, pairs: Any) -> Floats:
        """How alike the two points of each pair are, by what ``predict`` decides.

        With the method "adaptive" these are the ``log_odds``, and similar is what is at least 0. With "rice", or where
        a threshold was fixed or components were set, they are the ``pair_score``, and similar is what is at least
        ``-threshold_``.
        """
        return self.log_odds(pairs) if self._decides_by_odds else self.pair_score(pairs)

    def log_odds(self, pairs: Any) -> Floats:
        """The log odds of "same" for each pair: above 0 where that is more likely than not.

        Those of the method "adaptive" are calibrated along the stream. Those of "rice" are ``mu - d^2``, the margin,
        which is what its logistic loss takes it for; with another loss they are a margin and no more.
        """
        tracked = self._tracked
        U = subtract(*self._points(pairs, 2).parts)
        if self.method_ == "adaptive" and tracked.plays_its_own:
            bank: Any = tracked.ocelad.bank
            return np.asarray(bank.log_odds(U, tracked.ocelad.round_state))
        metric = self.metric_
        return np.asarray(metric.threshold - metric.squared_length(U))

    def predict_proba(self, pairs: Any) -> Floats:
        """The probabilities of -1 and of +1 for each pair, of shape (n_pairs, 2): what the ``log_odds`` come to.

        A threshold that was fixed changes what ``predict`` says, not these.
        """
        log_odds = self.log_odds(pairs)
        return np.column_stack([expit(-log_odds), expit(log_odds)])

    def predict(self, pairs: Any) -> np.ndarray:
        """+1 for each pair that is taken to be similar, otherwise -1.

        With the method "adaptive" those are similar that are at least as likely so as not, by ``predict_proba``; with
        "rice", or where a threshold was fixed or components were set, those at most ``threshold_`` apart.
        """
        if self._decides_by_odds:
            return np.where(self.log_odds(pairs) >= 0, 1, -1)
        return np.where(self.pair_distance(pairs) <= self.threshold_, 1, -1)

    @property
    def _decides_by_odds(self) -> bool:
        return self.method_ == "adaptive" and "_threshold" not in self.__dict__ and self._tracked.plays_its_own

    def score(self, pairs: Any, y: Any, sample_weight: Any = None) -> float:
        """The area under the ROC curve of ``decision_function``: 1 is perfect, 0.5 is chance."""
        from sklearn.metrics import roc_auc_score

        scores = self.decision_function(pairs)
        labels = _labels(y, len(scores))
        if abs(labels.sum()) == len(labels):
            raise ValueError(f"y holds only {labels[0]:+g}; a ROC curve needs similar and dissimilar pairs")
        return float(roc_auc_score(labels, scores, sample_weight=sample_weight))

    @property
    def method_(self) -> str:
        return str(self._tracked.settings["method"])

    @property
    def drift_(self) -> float:
        return float(self._adaptive_bank("drift_").drift(self._tracked.ocelad.round_state))

    @property
    def changes_(self) -> list[Change]:
        return list(self._adaptive_bank("changes_").changes)

    def _adaptive_bank(self, asked: str) -> Any:
        if self.method_ != "adaptive":
            raise AttributeError(f"{asked} is of method='adaptive'; this tracker has learned by {self.method_!r}")
        return self._tracked.ocelad.bank

    @property
    def threshold_(self) -> float:
        fixed: float | None = self.__dict__.get("_threshold")
        return self.metric_.distance_threshold if fixed is None else fixed

    @threshold_.setter
    def threshold_(self, threshold: float) -> None:
        self.set_threshold(threshold)

    def set_threshold(self, threshold: float | None) -> Self:
        """Fix the threshold on the distance until ``fit``; None: let it be tracked with the metric again."""
        self._tracked  # noqa: B018  (only what has seen pairs has a threshold)
        if threshold is None:
            self.__dict__.pop("_threshold", None)
        else:
            self._threshold = check_number(threshold, "threshold")
        return self

    def calibrate_threshold(
        self, pairs: Any, y: Any, strategy: str = "accuracy", min_rate: float | None = None, beta: float = 1.0
    ) -> Self:
        """Fix the threshold at what is best for some pairs under the metric now.

        Parameters
        ----------
        pairs, y
            As in ``fit``; best other pairs than it has learned from, both similar and dissimilar ones.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}
            What is made largest: the share of right answers; the F-score of "similar"; the share of similar pairs that
            are recognised while at least ``min_rate`` of the dissimilar ones are; the other way round.
        min_rate : float or None
            From 0 to 1; of "max_tpr" and "max_tnr".
        beta : float
            Of "f_beta": how much more recall counts than precision.

        Examples
        --------
        >>> tracker = MetricTracker(method="rice").fit([[[0.0], [1.0]], [[0.0], [3.0]]], [1, -1])
        >>> tracker.calibrate_threshold([[[0.0], [4.0]], [[0.0], [9.0]]], [1, -1]).predict([[[0.0], [5.0]]])
        array([-1])
        """
        calibration, distances = Calibration(strategy, min_rate, beta), self.pair_distance(pairs)
        return self.set_threshold(calibration.threshold(distances, _labels(y, len(distances))))

    def state(self) -> tuple[Arrays, Metadata]:
        """All of it as arrays and values that JSON can hold."""
        arrays, metadata = super().state()
        return arrays, {**metadata, "fixed_threshold": self.__dict__.get("_threshold")}

    @classmethod
    def of_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """The tracker that ``state`` was called on; checked. What names no method is of before there was a choice."""
        settings = {"method": "rice", **metadata["settings"]}
        tracker = (
            super().of_state(arrays, {**metadata, "settings": settings}).set_threshold(metadata["fixed_threshold"])
        )
        learned_by = tracker._tracked.ocelad.settings.get("method", "rice")
        if learned_by != tracker.method:
            raise ValueError(f"it has learned by the method {learned_by!r}, and says it is {tracker.method!r}")
        return tracker

    def _settings(self) -> dict[str, Any]:
        check_choice(self.method, "method", get_args(MethodName))
        if self.method == "rice":
            return {"method": "rice", **self._rice_settings()}
        usual = signature(MahalanobisTracker).parameters
        for name, value in self._rice_settings().items():
            if value != usual[name].default:
                raise ValueError(
                    f"{name} is a setting of method='rice', and method is 'adaptive', which has nothing to set; "
                    "give method='rice' as well, or leave it out"
                )
        return {"method": "adaptive"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = self.preprocessor is not None
        return tags


def _labels(y: Any, count: int) -> Floats:
    return check_labels(y, "y", count)


def _named(calibration_params: Any) -> dict[str, Any]:
    accepted = ("strategy", "min_rate", "beta")
    if not isinstance(calibration_params, dict) or not set(calibration_params) <= set(accepted):
        raise ValueError(f"calibration_params must be a dict of {', '.join(accepted)}; got {calibration_params!r}")
    return calibration_params
