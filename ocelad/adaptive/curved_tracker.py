"""CurvedTracker: the adaptive method on points and their curved features, whose map follows the points."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_choice, check_integer, check_weights, is_sparse
from ocelad.adaptive.adaptive_tracker import (
    STATE_VERSION,
    AdaptiveTracker,
    checked_differences,
    checked_points,
)
from ocelad.adaptive.aligned_rows import apply_to_rows
from ocelad.adaptive.changes import Change
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.group_discriminant import Grouping, linear_discriminant, split_discriminants
from ocelad.adaptive.recent_pairs import RecentPairs
from ocelad.adaptive.rehearsal import draw_item_pairs
from ocelad.adaptive.split_metric import PointMetric
from ocelad.curved_metric import CurvedMetric
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.feature_maps import FeatureMap, LandmarkMap, OwnMap, to_unit_length
from ocelad.pairs import Events, PointPairs

#: Landmarks and outputs of a map, at most.
N_LANDMARKS, N_CURVED = 100, 64
#: Rounds after which a map is drawn from the points seen so far, if no items are known. At each of them, all rounds are
#: played again.
MAP_ROUNDS = (32, 128, 256)
#: Rounds between tests whether the points have moved away from the landmarks.
TEST_PERIOD = 256
# The map is renewed if the points' mean residual, of at most 1, has grown by this.
MAX_RESIDUAL_GROWTH = 0.1
# Pairs that are stored, at most.
MAX_PAIRS = 256


class CurvedTracker:
    """Tracks a distance that is the sum of a linear and a curved part. It has no settings to tune.

    The curved part is a linear metric of curved features (``LandmarkMap``). Landmarks are drawn from the items, or from
    the points of the pairs. When the points move away from them, the map is drawn again from the latest points, and
    what was learned is carried over. The ensemble (``AdaptiveTracker``) decides how curved the distance is.

    Points of many features are embeddings more often than not. They are divided by their lengths first, so that the
    distance begins as that of cosine similarity.

    Parameters
    ----------
    n_features : int
    sparse : bool
        Whether points are sparse.
    items : array or sparse matrix of shape (n_items, n_features), or None
        The points of all items, if they are known before the first pair.
    own_map : fitted transformer, callable or None
        A map to use instead of landmarks (``OwnMap``). It never changes, and points keep their lengths.
    config : AdaptiveConfig or None
        The constants of the method, for ablations.
    grouped : bool
        Whether discriminants of groups of items join the ensemble; ``set_discriminants`` sets them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Z = rng.normal(size=(2, 600, 2))
    >>> inside = [np.square(points).sum(axis=1) < 1 for points in (X, Z)]  # a disk, and what surrounds it
    >>> tracker = CurvedTracker(n_features=2)
    >>> margins = tracker.replay(PointPairs(X, Z, inside[0] == inside[1]))
    >>> bool(np.mean(margins[300:] > 0) > 0.75)
    True
    """

    engine = "adaptive"
    n_cuts = 0

    def __init__(
        self,
        n_features: int,
        *,
        sparse: bool = False,
        items: Any = None,
        own_map: Any = None,
        config: AdaptiveConfig | None = None,
        grouped: bool = False,
    ) -> None:
        self.n_features = check_integer(n_features, "n_features", at_least=1)
        self._sparse = check_choice(sparse, "sparse", (False, True))
        self._grouped = check_choice(grouped, "grouped", (False, True))
        self._config, self._n_maps, self._mean_residual, self._has_moved = config, 0, 0.0, False
        self.own_map, max_features = own_map, (config or AdaptiveConfig()).max_moment_features
        self._unit_length = own_map is None and self.n_features > max_features
        self._recent = RecentPairs(self.n_features, MAX_PAIRS)
        self._map: FeatureMap | None = None
        rehearsal: Events | None = None
        if items is not None:
            points = self._checked_points(items, "items")
            if own_map is None:
                self._draw_map(points, points)
            else:
                self._map = OwnMap(own_map, points)
            pairs = draw_item_pairs(points)
            rehearsal = None if pairs is None else self._extended(pairs, 1)
        self._has_items = self._map is not None
        self._tracker = self._new_tracker(rehearsal)

    def _new_tracker(self, rehearsal: Events | None = None) -> AdaptiveTracker:
        n_curved = self._map.n_outputs if self._map else 0
        return AdaptiveTracker(
            self.n_features + n_curved,
            sparse=self._sparse,
            config=self._config,
            n_curved=n_curved,
            rehearsal=rehearsal,
            grouped=self._grouped,
        )

    def _checked_points(self, points: Any, name: str) -> Any:
        """Return checked points, as this tracker learns from them: dense or sparse, of unit length or as they are."""
        rows = checked_points(points, name, self.n_features, sparse=self._sparse)
        return to_unit_length(rows) if self._unit_length else rows

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._tracker, other._recent = copy(self._tracker), copy(self._recent)
        return other

    def with_groups(self) -> Self:
        """Return a tracker with discriminants of groups among its experts; this one must not have played a round."""
        other = copy(self)
        other._grouped, other._tracker = True, self._tracker.with_groups()
        return other

    # Learning.

    def replay(self, pairs: PointPairs, weights: Floats | None = None, *, test_changes: bool = True) -> Floats:
        """Play one round per pair; return the margin of each pair before it was learned from.

        Parameters
        ----------
        pairs : PointPairs
        weights : array of shape (n_pairs,), or None
            The weight of each pair's loss; None: 1.
        test_changes : bool
            Whether the change test sees the pairs; see ``AdaptiveTracker.replay``.
        """
        if not isinstance(pairs, PointPairs):
            raise TypeError(f"pairs must be PointPairs; got {type(pairs).__name__}")
        X, Z = (self._checked_points(points, name) for points, name in ((pairs.X, "X"), (pairs.Z, "Z")))
        # Pending rounds are played again, and the caller may change its arrays before.
        pairs = PointPairs.from_trusted(X, Z, pairs.y.copy())
        checked = check_weights(weights, len(pairs))
        weights = np.ones(len(pairs)) if checked is None else checked
        checked_differences(pairs.events().U, "pair")  # all of them, so that a refused pair changes nothing
        if self.own_map is not None:
            return self._play_with_own_map(pairs, weights, test_changes)
        margins, done = np.empty(len(pairs)), 0
        while done < len(pairs):
            last = min(len(pairs), done + self._next_stop() - self.n_rounds)
            part, part_weights = pairs[done:last], weights[done:last]
            extended = self._extended(part, self.n_rounds + 1)
            margins[done:last] = self._tracker.replay(extended, part_weights, test_changes=test_changes)
            self._recent.add(part, part_weights)
            done = last
            self._follow_points()
        return margins

    def find_discriminants(
        self, points: Floats, grouping: Grouping, reference: Floats
    ) -> tuple[PointMetric | None, ...]:
        """Return the discriminants of groups of points, for ``set_discriminants``."""
        if not self._grouped:
            return ()
        points, reference = self._checked_points(points, "items"), self._checked_points(reference, "items")
        if self._map is None:
            return (linear_discriminant(points, grouping, reference),)
        return split_discriminants(points, self._map(points), grouping, reference, self._map(reference))

    def set_discriminants(self, metrics: Sequence[PointMetric | None]) -> None:
        """Replace the discriminants; see ``AdaptiveTracker.set_discriminants``."""
        self._tracker.set_discriminants(metrics)

    def learn_implied(self, pairs: PointPairs, weights: Floats) -> None:
        """Let the distances learn from pairs whose answers are implied by others; see ``Mixture.learn_implied``."""
        self._tracker.learn_implied(self._implied_events(pairs), weights)

    def weigh_implied(self, pairs: PointPairs, weights: Floats) -> None:
        """Let the weights of the experts learn from such pairs; see ``Mixture.weigh_implied``."""
        self._tracker.weigh_implied(self._implied_events(pairs), weights)

    def _implied_events(self, pairs: PointPairs) -> Events:
        X, Z = (self._checked_points(points, name) for points, name in ((pairs.X, "X"), (pairs.Z, "Z")))
        pairs = PointPairs.from_trusted(X, Z, pairs.y)
        if isinstance(self._map, OwnMap):
            return _side_by_side(pairs.events(), self._map(X) - self._map(Z))
        return self._extended(pairs, self.n_rounds + 1)

    def _play_with_own_map(self, pairs: PointPairs, weights: Floats, test_changes: bool) -> Floats:
        """Play the rounds of pairs with the map that the user gave, which never changes."""
        feature_map = self._map or OwnMap(self.own_map, pairs.X)
        events = _side_by_side(pairs.events(), feature_map(pairs.X) - feature_map(pairs.Z))
        checked_differences(events.U, "pair")  # before the first change, so that refused outputs change nothing
        if self._map is None:
            self._map = feature_map
            self._tracker = self._new_tracker()
        return self._tracker.replay(events, weights, test_changes=test_changes)

    def _next_stop(self) -> int:
        """Return the next round after which the map may change."""
        if not self._has_items:
            for t in MAP_ROUNDS:
                if t > self.n_rounds:
                    return t
        return self.n_rounds - self.n_rounds % TEST_PERIOD + TEST_PERIOD

    def _extended(self, pairs: PointPairs, t: int) -> Events:
        """Return the differences of the points, of rounds t, t + 1, ..., followed by those of their curved features."""
        events = pairs.events()
        if self._map is None:
            return events
        return _side_by_side(events, self._curved_features(pairs.X, t) - self._curved_features(pairs.Z, t))

    def _curved_features(self, points: Any, t: int) -> Floats:
        """Return the curved features of the points of rounds t, t + 1, ..."""
        assert self._map is not None
        return self._map(points) if self._sparse else apply_to_rows(self._map, points, t)

    def _follow_points(self) -> None:
        """Draw the map again if it is time, or if the points have moved away from the landmarks."""
        t = self.n_rounds
        if not self._has_items and t in MAP_ROUNDS:
            self._renew_map()
        elif self._map is not None and t % TEST_PERIOD == 0:
            assert isinstance(self._map, LandmarkMap)
            points = _points(self._recent.pairs()[0])
            moved = residual(self._map, points) > self._mean_residual + MAX_RESIDUAL_GROWTH
            if moved or self._has_moved:
                self._renew_map()
            self._has_moved = moved  # then the points came from both places, and the next map comes from one

    def _renew_map(self) -> None:
        """Draw the map from the latest pairs, and learn from them again."""
        (pairs, weights), before = self._recent.pairs(), self._map
        all_rounds_known = self.n_rounds <= self._recent.capacity
        if before is None and not all_rounds_known:  # too late to begin again with a first map: it stays linear
            return
        rng = np.random.default_rng([self.n_features, self._n_maps])
        # Both points of each drawn pair: which of them comes first does not matter.
        drawn = np.sort(rng.permutation(len(pairs))[: N_LANDMARKS // 2])
        landmarks = _points(PointPairs.from_trusted(pairs.X[drawn], pairs.Z[drawn], pairs.y[drawn]))
        self._draw_map(landmarks, _points(pairs))
        if self._map is before:  # all points are equal
            return
        if all_rounds_known:
            self._tracker = self._new_tracker()
            self._tracker.replay(self._extended(pairs, 1), weights)
        elif before is not None:
            self._carry_over(pairs, weights, before)

    def _carry_over(self, pairs: PointPairs, weights: Floats, before: FeatureMap) -> None:
        """Let the ensemble continue with the present map instead of the one before."""
        assert self._map is not None
        points = _points(pairs)
        transport, *_ = np.linalg.lstsq(self._map(points), before(points), rcond=1e-6)
        self._tracker.renew_curved(self._extended(pairs, 1), weights, np.ascontiguousarray(transport.T))

    def _draw_map(self, candidates: Any, points: Any) -> None:
        """Draw landmarks from the candidates, and measure on the points what the map does not see of them.

        A map sees its landmarks better than other points like them. If all candidates are equal, the map stays.
        """
        rng = np.random.default_rng([self.n_features, self._n_maps, 1])
        try:
            self._map = LandmarkMap.from_points(candidates, N_LANDMARKS, rng, max_outputs=N_CURVED)
        except ValueError:
            return
        self._n_maps += 1
        self._mean_residual = residual(self._map, points)

    # Results.

    @property
    def n_rounds(self) -> int:
        """The number of rounds played."""
        return self._tracker.n_rounds

    @property
    def feature_map(self) -> FeatureMap | None:
        """The map to curved features; None before the first one."""
        return self._map

    @property
    def expert_names(self) -> tuple[str, ...]:
        """The names of the experts."""
        return self._tracker.expert_names

    @property
    def expert_weights(self) -> Floats:
        """The weight of each expert in the next round; they sum to 1."""
        return self._tracker.expert_weights

    @property
    def drift(self) -> float:
        """The relative change of the metric per round, measured every 64 rounds; 0: it does not move."""
        return self._tracker.drift

    @property
    def n_discriminants(self) -> int:
        """The number of discriminants of groups among the experts."""
        return self._tracker.n_discriminants

    @property
    def detected_change(self) -> int:
        """The first round of a change that the last round has detected; 0 if it has detected none."""
        return self._tracker.detected_change

    @property
    def sums_of_squares(self) -> Floats:
        """The discounted sum of the squared differences of each feature; 0 for one that never differed."""
        return self._tracker.sums_of_squares

    @property
    def changes(self) -> list[Change]:
        """The last changes of the question that were detected, oldest first."""
        return self._tracker.changes

    def play(self) -> CurvedMetric:
        """Return the current distance; ``threshold - d^2`` are the log odds of "same"."""
        if self._map is None:
            metric = self._tracker.play()
            return CurvedMetric(metric, None, None, metric.threshold, metric.round, unit_length=self._unit_length)
        split = self._tracker.split_metric()
        parts = split.linear, self._map, split.curved
        return CurvedMetric(*parts, split.threshold, split.round, unit_length=self._unit_length)

    def decide(self, log_odds: Floats, error: float) -> np.ndarray:
        """Return +1 ("same") or -1 ("different") for confident log odds, and 0 ("ask a person") for the others."""
        return self._tracker.decide(log_odds, error)

    # State.

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, as saved state holds them."""
        return {
            "method": "adaptive",
            "curved": True,
            "version": STATE_VERSION,
            "n_features": self.n_features,
            "sparse": self._sparse,
            **({"grouped": True} if self._grouped else {}),
        }

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on: copies of arrays, and JSON values."""
        if self.own_map is not None:
            raise ValueError("a tracker with a feature map of your own cannot be saved in a file; pickle it instead")
        arrays, of_tracker = self._tracker.state()
        arrays = {**add_prefix("tracker", arrays), **add_prefix("recent", self._recent.arrays())}
        if isinstance(self._map, LandmarkMap):
            arrays |= add_prefix("map", self._map.arrays())
        metadata = {
            "settings": self.settings,
            "has_items": self._has_items,
            "n_maps": self._n_maps,
            "mean_residual": self._mean_residual,
            "has_moved": self._has_moved,
            "tracker": of_tracker,
        }
        return arrays, metadata

    def restore(self, arrays: Arrays, metadata: Metadata) -> None:
        """Continue from what ``state`` returned, with the same bits as the original.

        This tracker must have the same settings and must not have played a round yet. A state that does not match
        raises a ``ValueError`` and changes nothing.
        """
        if self.n_rounds > 0:
            raise ValueError(f"this tracker has played {self.n_rounds} rounds; accepted: a new one")
        saved, other = StateReader(arrays, metadata), copy(self)
        saved.expect("settings", self.settings)
        other._has_items, other._has_moved = saved.boolean("has_items"), saved.boolean("has_moved")
        other._n_maps, other._mean_residual = saved.integer("n_maps", 0, 2**31), saved.number("mean_residual")
        of_map = saved.section("map").remaining_arrays()
        other._map = None
        if of_map:
            other._map = feature_map = LandmarkMap.from_arrays(of_map)
            if feature_map.n_features != self.n_features:
                raise ValueError(f"the saved map has {feature_map.n_features} features; expected {self.n_features}")
            if is_sparse(feature_map.landmarks) != self._sparse:
                raise ValueError("the saved map does not fit: one of map and tracker is sparse")
        other._recent = RecentPairs.restore(saved.section("recent"), self.n_features, MAX_PAIRS, self._sparse)
        tracker = saved.section("tracker")
        other._tracker = other._new_tracker()
        other._tracker.restore(tracker.remaining_arrays(), tracker.remaining_values())
        saved.expect_end()
        if len(other._recent) != min(other.n_rounds, other._recent.capacity):
            raise ValueError(f"the saved state has {len(other._recent)} recent pairs after {other.n_rounds} rounds")
        self.__dict__.update(other.__dict__)


def residual(feature_map: LandmarkMap, points: Any) -> float:
    """Return the mean share of the points' squared lengths in the kernel's space that the map does not see."""
    return float(1.0 - np.square(feature_map(points)).sum(axis=1).mean())


def _side_by_side(events: Events, V: Floats) -> Events:
    """Return the differences of points, dense or sparse, followed by those of their curved features."""
    if not events.sparse:
        return Events.from_trusted(np.hstack([events.U, V]), events.y)
    from scipy.sparse import csr_array, hstack

    return Events.from_trusted(hstack([events.U, csr_array(V)], format="csr"), events.y)


def _points(pairs: PointPairs) -> Any:
    """Return the points of all pairs, as rows."""
    if not is_sparse(pairs.X):
        return np.concatenate([pairs.X, pairs.Z])
    from scipy.sparse import vstack

    return vstack([pairs.X, pairs.Z], format="csr")
