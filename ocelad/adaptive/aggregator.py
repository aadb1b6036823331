"""PlainAggregator: turns squared distances into the experts' log odds, and weighs the experts by their losses."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.calibration import MIN_MEAN_DISTANCE, PlattScaling, RunningMeans, RunningSpreads, log_loss
from ocelad.adaptive.changes import NO_CHANGE, Change, ChangeDetector
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.prior_trust import PriorTrust
from ocelad.adaptive.weights import DiscountedWeights, IntervalProd

# Handicaps of the combinations, and of distances of standardized features, relative to those of learned distances.
COMBINATION_HANDICAP, SCALED_HANDICAP = 0.75, 1.5
# Discriminants of groups have a smaller one: they have learned from all pairs that the answers imply.
DISCRIMINANT_HANDICAP = 0.2
# The discounted weight of a memory, by which the least used one is replaced, grows by at least this a round.
USAGE_DECAY, MIN_USAGE = 0.99, 1e-3
# Weights that are normalized are at least this.
MIN_WEIGHT = 1e-12


class ExpertCounts(NamedTuple):
    """Numbers of distances by kind, in their order; two experts follow them."""

    priors: int
    learned: int
    memories: int
    scaled: tuple[int, ...]  # the distances of standardized features
    windows: tuple[int, ...]  # numbers of the first learned distances that are windows, of each kind
    handicap_pairs: float  # similar pairs over which handicaps fade
    curved: range = range(0)  # the distances of curved features, the Euclidean one first
    curved_handicaps: tuple[float, float] = (1.0, 1.0)  # of the first and of the others, relative to other learned ones
    discriminants: range = range(0)  # the distances of groups of items

    @property
    def distances(self) -> int:
        """The number of squared distances."""
        return self.priors + self.learned + self.memories

    @property
    def experts(self) -> int:
        """The number of experts: the distances, the mean of the learned ones, and its combination with the prior."""
        return self.distances + 2

    @property
    def memory_range(self) -> slice:
        """The positions of the memories."""
        return slice(self.priors + self.learned, self.distances)

    @property
    def window_ranges(self) -> list[slice]:
        """The positions of the windows, one slice for each kind, shortest window first."""
        ends = self.priors + np.cumsum(self.windows)
        return [slice(int(end) - count, int(end)) for end, count in zip(ends, self.windows, strict=True)]

    def handicaps(self, config: AdaptiveConfig) -> Floats:
        """Return the log weight by which each expert begins behind the Euclidean distance.

        Learned distances have the handicap of the configuration, their means 3/4 of it, and distances of standardized
        features 3/2 of it, because the first pairs say little about the features' scales.
        """
        handicaps = np.full(self.experts, COMBINATION_HANDICAP * config.handicap)
        handicaps[: self.distances] = config.handicap
        handicaps[list(self.scaled)] = SCALED_HANDICAP * config.handicap
        first, others = self.curved_handicaps
        handicaps[list(self.curved[:1])] = first * config.handicap
        handicaps[list(self.curved[1:])] = others * config.handicap
        handicaps[list(self.discriminants)] = DISCRIMINANT_HANDICAP * config.handicap
        handicaps[self.memory_range] = handicaps[0] = 0.0
        return handicaps


class PlainAggregator:
    """The experts of the ensemble as combinations of squared distances, in plain NumPy.

    An expert is a convex combination of relative distances, that is, of squared distances divided by their means: a
    prior; a learned distance with a share of the prior; a memory; the weighted mean of the learned distances without
    the prior; or a combination of their mean with the prior. Platt scaling turns it into log odds. The weighted mean of
    calibrated log odds is too cautious, because experts err differently; so it is calibrated once more. The ensemble
    predicts the mean of that and of the experts' log odds that ``IntervalProd`` finds.

    Parameters
    ----------
    counts : ExpertCounts
    config : AdaptiveConfig
    relative : bool
        Whether distances are differences, of near minus far, of relative comparisons.

    Attributes
    ----------
    log_odds : array of shape (n_experts,)
        The log odds of each expert in the last round.
    """

    def __init__(self, counts: ExpertCounts, config: AdaptiveConfig, relative: bool) -> None:
        self._counts, self._config, self._relative = counts, config, relative
        absent = np.zeros(counts.experts, dtype=bool)
        absent[counts.memory_range] = True
        self._weights = DiscountedWeights(
            counts.handicaps(config), counts.handicap_pairs, counts.distances, absent, config
        )
        self.insurance = IntervalProd(1 + counts.experts)
        self._insurance_shares = self.insurance.shares()
        self._means = RunningMeans(counts.distances, config)
        self._spreads = RunningSpreads(counts.experts, config, relative)
        self._fits = PlattScaling(
            counts.experts,
            config.initial_fit,
            pseudo_count=config.ridge,
            horizon=config.horizon,
            limit=config.outlier_limit,
            relative=relative,
        )
        self._recalibration = PlattScaling(
            1,
            (0.0, 1.0),
            pseudo_count=config.recalibration_pseudo_count,
            horizon=config.scale_horizon,
            limit=inf,
            relative=relative,
        )
        self._trust = PriorTrust(config)
        self._detector = ChangeDetector(config)
        self.log_odds = np.zeros(counts.experts)
        self._usage = np.zeros(counts.memories)

    def play(
        self,
        squares: Floats,
        sizes: Floats,
        anchor: Floats,
        y: Floats,
        weights: Floats,
        t: int,
        predictions: Floats,
    ) -> tuple[int, int]:
        """Play rounds t, t + 1, ... until the change test warns or detects a change.

        Parameters
        ----------
        squares, sizes : array of shape (n_rounds, n_distances)
            The squared distances; of relative comparisons, the differences of near minus far, and their sizes.
        anchor : array of shape (n_rounds,)
            The log odds of the metric that the change test is about; NaN if there is none.
        y, weights : array of shape (n_rounds,)
            Answers, +1 or -1, and the weights of their losses.
        t : int
        predictions : array of shape (n_rounds,)
            Receives the predicted log odds.

        Returns
        -------
        n_played, outcome : int
            The number of rounds played, and the outcome of the change test in the last one.
        """
        for row in range(len(squares)):
            answer, weight = float(y[row]), float(weights[row])
            predictions[row] = self._step(squares[row], sizes[row], answer, weight)
            outcome = self._detector.update(float(anchor[row]), answer, weight, t + row)
            if outcome != NO_CHANGE:
                return row + 1, outcome
        return len(squares), NO_CHANGE

    def _step(self, squares: Floats, sizes: Floats, y: float, weight: float) -> float:
        counts, shares = self._counts, self.shares
        combination, prior_shares = self._combination(), self._prior_shares()
        trust, warming_up = self._trust_value(), self._means.warming_up
        self._means.start(sizes)
        if warming_up:
            self._means.update(sizes)
        distances = combination @ (squares / self._means.values)
        if warming_up:
            self._spreads.update(distances)
        deviations = self._spreads.deviations(distances)
        self.log_odds = self._fits.log_odds(deviations)
        discounted = np.array([self._weights.shares @ self.log_odds])
        recalibrated = self._recalibration.log_odds(-discounted)
        candidates = np.concatenate([recalibrated, self.log_odds])
        mixed = float(self._insurance_shares @ candidates)
        losses = weight * log_loss(candidates, y)
        if weight > 0.0:
            self.insurance.update(weight * float(log_loss(np.array(mixed), y)), losses)
            self._insurance_shares = self.insurance.shares()
        if not self._relative:
            self._trust.update(float(prior_shares @ distances[: counts.priors]), y, weight)
        used = shares[counts.memory_range]
        self._usage = np.where(self._usage > 0.0, MIN_USAGE + USAGE_DECAY * self._usage + used, 0.0)
        penalized = losses[1:].copy()
        penalized[counts.distances] += weight * self._config.no_prior_penalty * trust
        self._weights.update(penalized, y, weight)
        self._fits.learn(deviations, self.log_odds, y, weight)
        self._recalibration.learn(-discounted, recalibrated, y, weight)
        if not warming_up and weight > 0.0:
            self._means.update(sizes)
            self._spreads.update(distances)
        return mixed

    # The experts as combinations of the relative distances.

    @property
    def shares(self) -> Floats:
        """The experts' weights in the next round; they sum to 1."""
        return np.asarray(self._insurance_shares[0] * self._weights.shares + self._insurance_shares[1:])

    @property
    def coefficients(self) -> Floats:
        """The coefficient of each squared distance in the next round's prediction."""
        weights = (self._played_weights * self._slopes) @ self._combination()
        return np.where(self._means.known, weights / self._means.values, 0.0)

    @property
    def threshold(self) -> float:
        """The prediction at squared distances of 0: log odds are ``threshold - coefficients @ squares``."""
        offsets = self._fits.parameters[:, 0] + self._slopes * self._spreads.locations
        return float(self._insurance_shares[0] * self._recalibration.parameters[0, 0] + self._played_weights @ offsets)

    @property
    def _played_weights(self) -> Floats:
        """The coefficient of each expert's log odds in the prediction; the recalibration may let them exceed 1."""
        slope = self._recalibration.parameters[0, 1]
        return np.asarray(self._insurance_shares[0] * slope * self._weights.shares + self._insurance_shares[1:])

    @property
    def _slopes(self) -> Floats:
        """The decrease of each expert's log odds with its relative distance."""
        return np.asarray(self._fits.parameters[:, 1] / np.sqrt(self._spreads.squares))

    @property
    def changes(self) -> list[Change]:
        """The detected changes, oldest first."""
        return list(self._detector.changes)

    @property
    def evidence(self) -> float:
        """The evidence of the change test."""
        return self._detector.evidence

    def _trust_value(self) -> float:
        """Return the trust in the prior; 0 for comparisons, which say nothing about near pairs."""
        return 0.0 if self._relative else self._trust.value

    def _prior_shares(self) -> Floats:
        """Return the share of each prior in the prior distance, by weight and slope; they sum to 1."""
        n = self._counts.priors
        return _normalize(self._weights.shares[:n] * self._slopes[:n])

    def _combination(self) -> Floats:
        """Return each expert's coefficients of the relative distances; rows sum to 1."""
        n_priors, first_memory, n = (
            self._counts.priors,
            self._counts.priors + self._counts.learned,
            self._counts.distances,
        )
        rows, learned = np.eye(n), slice(n_priors, n)
        prior, shares = self._prior_shares() @ rows[:n_priors], np.zeros(n)
        shares[learned] = _normalize(self._weights.shares[learned] * self._slopes[learned])
        trust, parts = self._trust_value(), self._config.prior_parts
        rows[n_priors:first_memory] = (rows[n_priors:first_memory] + trust * prior) / (1.0 + trust)
        return np.vstack([rows, shares, (shares @ rows + parts * prior) / (1.0 + parts)])

    # Memories and restarts.

    def least_used_memory(self) -> int:
        """Return the memory with the least discounted weight, an empty one first."""
        return int(np.argmin(self._usage))

    def start_memory(self, j: int, offset: float, log_weight: float | None = None) -> None:
        """Start the expert of a stored metric, whose log odds were ``offset - squared distance``.

        ``log_weight`` is relative to the best distance; None: behind it by a handicap.
        """
        k = self._counts.memory_range.start + j
        self._weights.start(k, log_weight)
        self._fits.reset(k, offset)
        self._means.freeze(k)
        self._spreads.freeze(k)
        self._usage[j] = 1.0

    def restart_windows(self, means: Floats) -> None:
        """Let windows that began again continue from the fit of the shortest one and the weight of the best one."""
        counts = self._counts
        first, last = counts.priors, counts.priors + sum(counts.windows)
        for windows in counts.window_ranges:
            for k in range(windows.start + 1, windows.stop):
                self._means.values[k] = max(means[k - first], MIN_MEAN_DISTANCE)
                self._spreads.squares[k] = self._spreads.squares[windows.start]
                self._fits.copy_fit(windows.start, k)
                self._weights.restart(slice(first, last), k)


def _normalize(weights: Floats) -> Floats:
    """Return weights that sum to 1; equal ones if all are 0."""
    weights = weights + MIN_WEIGHT
    return np.asarray(weights / weights.sum())
