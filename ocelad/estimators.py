"""MetricTracker: the scikit-learn face of RICE-OCELAD."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ocelad import checks
from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.online.bank import Finest
from ocelad.online.comid import DivergenceName, LossName, RegularizerName
from ocelad.online.ocelad import Ocelad
from ocelad.online.track import EngineName, choose_engine, track_metric
from ocelad.pairs import Events, Pair, SparseVector, differences


class MetricTracker(BaseEstimator):  # type: ignore[misc]
    """Learns a distance from pairs that are similar (+1) or dissimilar (-1), and follows it when it changes.

    Pairs are learned from in the order in which they come. How they are cut into calls makes no difference (to the
    bit; with the engines "blocked" and "sparse", to rounding), and a call that is refused changes nothing.

    Parameters
    ----------
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

    Attributes
    ----------
    metric_ : Metric
        The metric now.
    components_ : array of shape (rank, n_features)
        Rows C with M = C'C, the heaviest first.
    threshold_ : float
        On the distance: pairs at most this far apart are predicted to be similar.
    weights_ : array of shape (n_active_scales,)
        The share of each scale in the metric, the finest first; they sum to 1.
    n_rounds_ : int
        How many pairs it has learned from.
    n_features_in_ : int
        How many features the points have.
    engine_ : str
        The engine that computes it.
    n_cuts_ : int
        How many directions ``max_rank`` has cut; 0 without it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2, 3))
    >>> y = np.where(abs(X[:, 0, 0] - X[:, 1, 0]) < 1, 1, -1)  # only the first feature tells
    >>> tracker = MetricTracker(step_size=0.1).fit(X, y)
    >>> bool(np.mean(tracker.predict(X) == y) > 0.85)
    True
    >>> int(abs(tracker.components_[0]).argmax())
    0
    """

    def __init__(
        self,
        *,
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
    ) -> None:
        self.loss = loss
        self.step_size = step_size
        self.shrinkage = shrinkage
        self.regularizer = regularizer
        self.divergence = divergence
        self.shortest_interval = shortest_interval
        self.n_scales = n_scales
        self.finest = finest
        self.initial_scale = initial_scale
        self.initial_threshold = initial_threshold
        self.max_norm = max_norm
        self.engine = engine
        self.max_rank = max_rank
        self.diagonal = diagonal
        self.l1_tolerance = l1_tolerance

    def fit(self, pairs: Any, y: Any) -> MetricTracker:
        """Forget everything, then learn from the pairs, in their order.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features), or (X, Z)
            X and Z are SciPy sparse matrices of shape (n_pairs, n_features); row i of both is pair i.
        y : array-like of shape (n_pairs,)
            +1 (or True) for similar, -1 (or False) for dissimilar.
        """
        return self._learn(None, pairs, y)

    def partial_fit(self, pairs: Any, y: Any) -> MetricTracker:
        """Learn from some more pairs, in their order. Takes what ``fit`` takes."""
        return self._learn(self._going_on(), pairs, y)

    def learn_one(self, x: Any, z: Any, y: Any) -> MetricTracker:
        """Learn from one pair of points x and z with label y."""
        event = Pair(x, z, checks.label(y, "y") > 0).event()
        n_features = event.u.n_features if isinstance(event.u, SparseVector) else len(event.u)
        tracked = self._going_on() or self._begun(n_features, isinstance(event.u, SparseVector))
        if n_features != tracked.n_features:
            raise ValueError(f"x has {n_features} features; {tracked.n_features} are expected")
        tracked.ocelad.step(event)
        return self._keep(tracked)

    def _learn(self, tracked: _Tracked | None, pairs: Any, y: Any) -> MetricTracker:
        U = differences(pairs, None if tracked is None else tracked.n_features)
        labels = checks.labels(y, "y", U.shape[0])
        # On a copy, so that a pair that cannot be learned from leaves everything as it was. A shallow one will do: a
        # replay puts other values into the place of those it finds.
        tracked = self._begun(U.shape[1], checks.is_sparse(U)) if tracked is None else tracked.copy()
        tracked.ocelad.replay(Events(U, labels))
        return self._keep(tracked)

    def transform(self, X: Any) -> Floats:
        """The points where Euclidean distance is the tracked distance, of shape (n_rows, rank).

        The rank of the metric, and so the number of columns, can change from one pair to the next.
        """
        metric = self.metric_
        return metric.embed(X if checks.is_sparse(X) else checks.array(X, "X", 2, n_features=metric.n_features))

    def pair_distance(self, pairs: Any) -> Floats:
        """The tracked distance between the two points of each pair."""
        return np.sqrt(self._squared_distances(pairs))

    def predict(self, pairs: Any) -> np.ndarray:
        """+1 for each pair that is at most ``threshold_`` apart, otherwise -1."""
        return np.where(self._squared_distances(pairs) <= self.metric_.threshold, 1, -1)

    def get_mahalanobis_matrix(self) -> Floats:
        """M, of shape (n_features, n_features)."""
        return self.metric_.matrix.copy()

    @property
    def metric_(self) -> Metric:
        return self._tracked.metric()

    @property
    def components_(self) -> Floats:
        return self.metric_.components

    @property
    def threshold_(self) -> float:
        return self.metric_.distance_threshold

    @property
    def weights_(self) -> Floats:
        return self._tracked.ocelad.turn.probabilities

    @property
    def n_rounds_(self) -> int:
        return self._tracked.ocelad.n_rounds

    @property
    def engine_(self) -> str:
        return str(self._tracked.ocelad.bank.engine)  # type: ignore[attr-defined]

    @property
    def n_cuts_(self) -> int:
        return int(getattr(self._tracked.ocelad.bank, "n_cuts", 0))

    def _squared_distances(self, pairs: Any) -> Floats:
        metric = self.metric_
        squares: Floats = metric.squared_length(differences(pairs, metric.n_features))
        return squares

    def _settings(self) -> dict[str, Any]:
        """What it was made with; not what a subclass adds."""
        return {name: getattr(self, name) for name in MetricTracker._get_param_names()}

    def _begun(self, n_features: int, sparse: bool) -> _Tracked:
        settings = self._settings()
        engine = self.engine
        if sparse and engine == "auto" and not self.diagonal:
            engine = choose_engine(
                n_features, self.divergence, self.regularizer, self.shrinkage, self.max_rank, sparse=True
            )
            engine = engine if engine == "sparse" else "auto"
        return _Tracked(track_metric(n_features, **{**settings, "engine": engine}), n_features, settings)

    def _going_on(self) -> _Tracked | None:
        """What there is to go on from, if anything; settings that were changed meanwhile cannot be followed."""
        tracked = self._tracked_or_none()
        if tracked is not None:
            for name, value in self._settings().items():
                if value != tracked.settings[name]:
                    raise ValueError(
                        f"{name} was changed from {tracked.settings[name]!r} to {value!r} after the first pairs; "
                        "call fit to start anew with it, or set it back"
                    )
        return tracked

    @property
    def _tracked(self) -> _Tracked:
        tracked = self._tracked_or_none()
        if tracked is None:
            raise NotFittedError("this MetricTracker has seen no pairs yet; call fit, partial_fit or learn_one first")
        return tracked

    def _tracked_or_none(self) -> _Tracked | None:
        return self.__dict__.get("_state")

    def _keep(self, tracked: _Tracked) -> MetricTracker:
        self._state = tracked
        self.n_features_in_ = tracked.n_features
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self._tracked_or_none() is not None


class _Tracked:
    """A tracker with the settings it was made with, and its metric once somebody has asked for it."""

    def __init__(self, ocelad: Ocelad[Any, Metric], n_features: int, settings: dict[str, Any]) -> None:
        self.ocelad = ocelad
        self.n_features = n_features
        self.settings = settings
        self._metric: Metric | None = None

    def copy(self) -> _Tracked:
        return _Tracked(copy(self.ocelad), self.n_features, self.settings)

    def metric(self) -> Metric:
        # Mixing all scales for every pair would be waste: only when asked, and once.
        if self._metric is None or self._metric.round != self.ocelad.n_rounds:
            self._metric = self.ocelad.play()
        return self._metric
