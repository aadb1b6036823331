"""The default method in plain NumPy: its definition, slow and readable. Tests compare ``AdaptiveBank`` with it.

The method tracks the answers to "are these two the same?" with a fixed set of experts. In every round t

1. each expert measures the pair's difference x by its own squared distance ``x'Ax``,
2. Platt scaling turns the distance into log odds of "same": ``offset - slope * x'Ax / mean``,
3. the ensemble predicts the weighted mean of the log odds,
4. each expert suffers the logarithmic loss, and exponential weights with discounted losses follow from it,
5. every expert learns from the pair, and a CUSUM test looks for a change of the question.

The experts, in order:

- Windows: KISSME over exponential windows of seven lengths. A is the inverse covariance of similar pairs minus a
  multiple of that of all pairs (Koestinger et al. 2012).
- COMID learners with six step sizes, on features divided by their root mean squares.
- Priors: the Euclidean distance, the standardized one, and the whitened one.
- Memories: the ensemble's metrics from before the last changes.

The first pairs are a warm-up: they set the unit of the data, and all experts predict log odds of 0.

``AdaptiveBank`` computes the same with rank-one updates of inverse matrices. Here all covariances are inverted afresh.
Run-time code does not import this module. Its constants repeat those of the kernels, so that a changed one fails a
test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt

import numpy as np

from ocelad._typing import Floats
from ocelad.learners.comid import Comid
from ocelad.metric import Metric
from ocelad.pairs import Event

#: Experts.
WINDOWS = (32, 64, 128, 256, 512, 1024, 2048)
COMID_STEPS = (19.0, 9.5, 4.75, 2.4, 1.2, 0.6)
N_PRIORS, N_MEMORIES = 3, 3
FIRST_PRIOR = len(WINDOWS) + len(COMID_STEPS)
FIRST_MEMORY = FIRST_PRIOR + N_PRIORS
N_EXPERTS = FIRST_MEMORY + N_MEMORIES

#: Warm-up, and the number of recent pairs that are kept.
WARMUP_ROUNDS, N_RECENT = 8, 64

#: Second moments.
RIDGE, RIDGE_ALL = 1.0, 10.0
ALL_WINDOW = 1024.0
KISSME_WEIGHT = 0.65
OUTLIER_LIMIT = 2.5
MAX_PENDING = 16
SCALE_DECAY = 0.998
MAX_COMID_LENGTH = 10.0

#: Platt scaling.
PLATT_HORIZON, PSEUDO_COUNT = 100.0, 2.0
MAX_LOG_ODDS, MIN_PROBABILITY, MAX_RELATIVE_DISTANCE = 30.0, 1e-6, 100.0
MIN_MEAN_DISTANCE, MIN_CURVATURE = 1e-100, 1e-4

#: Exponential weights.
WEIGHT_HORIZON, MIN_LOG_WEIGHT = 64.0, -12.0

#: CUSUM test.
ALTERNATIVE_SCALE, CUSUM_MAX_LOG_ODDS = 0.3, 3.0
WARNING_LEVEL, DETECTION_LEVEL = 3.5, 4.5
MIN_GAP, MIN_ROUND = 100, 100
FIRST_RESTARTED = 1

#: Trust in the prior distance.
PRIOR_HORIZON = 500.0
NEAR_SHARE, NEAR_HORIZON, NEAR_PSEUDO_COUNT = 0.05, 100.0, 8.0
RELATIVE_LIFT_RAMP, LIFT_RAMP, MIN_LIFT = (0.75, 1.0), (0.4, 0.55), 0.05

#: Regularization of the metric.
MEDIAN_SHRINKAGE, EIGENVALUE_FLOOR, CAP_RATIO, PRIOR_WEIGHT = 0.75, 0.22, 0.3, 8.0
MIN_THRESHOLD = 1e-9


def clip(value: float, limit: float) -> float:
    """Return the value clipped to [-limit, limit]."""
    return min(max(value, -limit), limit)


def squared_length(x: Floats, A: Floats) -> float:
    """Return ``x'Ax``."""
    return float(x @ A @ x)


def sigmoid(log_odds: float) -> float:
    """Return the probability that has these log odds."""
    return 1.0 / (1.0 + exp(-log_odds))


def log_loss(log_odds: float, y: float) -> float:
    """Return the logarithmic loss of log odds of "same"; y is +1 or -1."""
    return -log(max(sigmoid(y * log_odds), MIN_PROBABILITY))


def outlier_weight(relative_distance: float) -> float:
    """Return the weight of a pair in second moments; its squared distance by them is 1 on average."""
    return min(1.0, OUTLIER_LIMIT / relative_distance) if relative_distance > 0.0 else 1.0


def ramp(value: float, low: float, high: float) -> float:
    """Return a number that rises from 0 at ``low`` to 1 at ``high``."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


@dataclass
class PlattScaling:
    """Online logistic regression of the label on (1, -distance).

    Every pair makes one Newton step. The Hessian is discounted and regularized, so that the fit forgets over about
    PLATT_HORIZON rounds. Distances are relative to their running mean.
    """

    offset: float = 1.0
    slope: float = 1.0
    mean_distance: float = 1.0
    hessian: Floats = field(default_factory=lambda: PSEUDO_COUNT * np.eye(2))

    def copy(self) -> PlattScaling:
        """Return an independent copy."""
        return PlattScaling(self.offset, self.slope, self.mean_distance, self.hessian.copy())

    def relative_distance(self, square: float) -> float:
        """Return a squared distance relative to the mean."""
        return clip(square / self.mean_distance, MAX_RELATIVE_DISTANCE)

    def log_odds(self, square: float) -> float:
        """Return the log odds of "same" at a squared distance."""
        return clip(self.offset - self.slope * self.relative_distance(square), MAX_LOG_ODDS)

    def learn(self, square: float, y: float, t: int, update_mean: bool) -> None:
        """Make one Newton step on the loss of this pair, and update the mean distance."""
        p = sigmoid(self.log_odds(square))
        inputs = np.array([1.0, -self.relative_distance(square)])
        gradient = (p - (y > 0.0)) * inputs
        curvature = max(p * (1.0 - p), MIN_CURVATURE)
        self.hessian = (1.0 - 1.0 / PLATT_HORIZON) * self.hessian
        self.hessian += curvature * np.outer(inputs, inputs) + PSEUDO_COUNT / PLATT_HORIZON * np.eye(2)
        step = np.linalg.solve(self.hessian, gradient)
        self.offset = clip(self.offset - step[0], MAX_LOG_ODDS)
        self.slope = min(max(self.slope - step[1], 0.0), MAX_LOG_ODDS)
        if update_mean:
            share = max(1.0 / PLATT_HORIZON, 1.0 / t)
            self.mean_distance = max((1.0 - share) * self.mean_distance + share * abs(square), MIN_MEAN_DISTANCE)


class SecondMoments:
    """The discounted sum S of ``weight xx'`` with a ridge, for an exponential window of this length.

    The ridge decays like everything else. ``restore_ridge`` gives the lost part back, to one feature at a time.
    """

    def __init__(self, ridge: float, window: float, mean_squares: Floats) -> None:
        self.ridge, self.decay = ridge, 1.0 - 2.0 / (window + 1.0)
        self.S, self.count = np.diag(ridge * mean_squares), 0.0
        self.ridge_left = 1.0

    def inverse_mean(self) -> Floats:
        """Return the inverse of the mean of ``xx'``; 0 for features that have never differed."""
        inverse, known = np.zeros_like(self.S), np.flatnonzero(np.diag(self.S) > 0.0)
        inverse[np.ix_(known, known)] = np.linalg.inv(self.S[np.ix_(known, known)]) * (self.count + self.ridge)
        return inverse

    def init_feature(self, i: int, mean_square: float) -> None:
        """Set the ridge of a feature that differs for the first time."""
        self.S[i, i] = self.ridge_left * self.ridge * mean_square

    def discount(self) -> None:
        """Multiply everything by the decay of one round."""
        self.S, self.count = self.decay * self.S, self.decay * self.count
        self.ridge_left *= self.decay

    def add(self, x: Floats, weight: float) -> None:
        """Add a pair."""
        self.S, self.count = self.S + weight * np.outer(x, x), self.count + weight

    def restore_ridge(self, i: int, mean_squares: Floats) -> None:
        """Restore to feature i the ridge that all n features have lost since the last time."""
        self.S[i, i] += (1.0 - self.ridge_left) * self.ridge * len(mean_squares) * mean_squares[i]
        self.ridge_left = 1.0


@dataclass
class Memory:
    """An earlier matrix of the ensemble, in units of log odds, and its discounted weight."""

    matrix: Floats
    usage: float = 1.0


@dataclass
class NearPairs:
    """How often the nearest pairs, a share of NEAR_SHARE by some nearness, are similar."""

    bound: float = 0.0
    similar: float = 0.0
    count: float = 0.0

    def update(self, nearness: float, step: float, similar: float, t: int) -> None:
        """Count the pair if it is near, and move the bound towards the quantile NEAR_SHARE."""
        if t <= WARMUP_ROUNDS + 20:
            self.bound = nearness if t <= WARMUP_ROUNDS + 1 else max(self.bound, nearness)
            return
        near = nearness > self.bound
        if near:
            decay = 1.0 - 1.0 / NEAR_HORIZON
            self.similar, self.count = decay * self.similar + similar, decay * self.count + 1.0
        self.bound += step * max(0.02, 1.0 / t) * (near - NEAR_SHARE)

    def similar_rate(self, prior_rate: float) -> float:
        """Return the share of similar pairs among the near ones, with pseudo-counts at the rate of all pairs."""
        return (self.similar + NEAR_PSEUDO_COUNT * prior_rate) / (self.count + NEAR_PSEUDO_COUNT)


class Cusum:
    """Page's CUSUM test: are the answers better explained by log odds that are only a part of the predicted ones?

    Attributes
    ----------
    statistic : float
        Log likelihood ratio since round ``since``; it restarts when it falls to 0.
    changes : list of (start, detected, strength)
    """

    def __init__(self) -> None:
        self.statistic, self.since, self.warned = 0.0, 1, False
        self.changes: list[tuple[int, int, float]] = []

    def update(self, log_odds: float, y: float, t: int) -> str | None:
        """Add one answer; return "change" when a change is detected, and "warning" once when it becomes possible."""
        log_odds = clip(log_odds, CUSUM_MAX_LOG_ODDS)
        self.statistic += log_loss(log_odds, y) - log_loss(ALTERNATIVE_SCALE * log_odds, y)
        if self.statistic <= 0.0 or t < MIN_ROUND:
            self.restart(t)
        elif self.statistic > DETECTION_LEVEL:
            self._record(t)
            return "change"
        elif self.statistic > WARNING_LEVEL and not self.warned:
            self.warned = True
            return "warning"
        return None

    def _record(self, t: int) -> None:
        if self.changes and t - self.changes[-1][1] <= MIN_GAP:  # the same change as before
            start, detected, strength = self.changes.pop()
            self.changes.append((start, detected, max(strength, self.statistic)))
        else:
            self.changes.append((self.since, t, self.statistic))

    def restart(self, t: int) -> None:
        """Start a new likelihood ratio in the round after t."""
        self.statistic, self.since, self.warned = 0.0, t + 1, False


class AdaptiveDefinition:
    """The ensemble. ``step`` plays a round, and ``play`` returns the metric.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        self.n, self.t = n_features, 0
        self.unit = 0.0  # factor of all differences, a power of two; 0 during the warm-up
        self.warmup_pairs: list[tuple[Floats, float]] = []
        self.mean_squares, self.scale_count = np.zeros(n_features), 0.0
        self.windows: list[SecondMoments] = []
        initial = Metric(np.eye(n_features) / n_features, threshold=1.0)
        self.comids = [
            Comid(initial, step_size=step / n_features**2, loss="logistic", regularizer=None) for step in COMID_STEPS
        ]
        self.memories: list[Memory | None] = [None] * N_MEMORIES
        self.fits: list[PlattScaling] = []
        self.log_weights = np.zeros(N_EXPERTS)
        self.cusum = Cusum()
        self.recent: dict[int, tuple[Floats, float, float]] = {}  # pair, label and predicted log odds by round
        self.snapshots: list[tuple[Floats, float]] = []
        self.drift = 0.0
        self.n_memories_stored = self.n_restarts = 0
        self.near_by_prior, self.near_by_ensemble = NearPairs(), NearPairs()
        self.similar_rate, self.prior_scores = 0.0, np.zeros(N_PRIORS)

    # One round.

    def step(self, event: Event) -> tuple[Floats, float]:
        """Play a round; return each expert's loss and the ensemble's margin, its log odds times the label."""
        self.t += 1
        if self.unit == 0.0:
            self.warm_up(event)
            losses = np.full(N_EXPERTS, log(2.0))
            self.update_weights(losses)
            return losses, 0.0
        x, y, t = event.u * self.unit, event.y, self.t
        self.init_new_features(x)
        s = self.comid_input(x)
        squares = np.array([squared_length(x, A) for A in self.matrices()])
        for k, comid in enumerate(self.comids, start=len(WINDOWS)):
            squares[k] = squared_length(s, comid.play().matrix)
        if not self.fits:
            self.fits = [PlattScaling(mean_distance=max(abs(square), MIN_MEAN_DISTANCE)) for square in squares]
        log_odds = np.array([fit.log_odds(square) for fit, square in zip(self.fits, squares, strict=True)])
        losses = np.array([log_loss(each, y) for each in log_odds])
        shares = self.shares()
        mean_log_odds = float(shares @ log_odds)
        mean_probability = float(shares @ [sigmoid(each) for each in log_odds])
        self.update_prior_trust(mean_log_odds, squares, y, losses)
        self.learn(x, s, y, squares, shares)
        self.recent[t] = (x, y, mean_log_odds)
        self.test_for_change(mean_probability, y)
        if t % N_RECENT == 0:
            self.take_snapshot(shares)
        self.update_weights(losses)
        return losses, y * mean_log_odds

    def warm_up(self, event: Event) -> None:
        """Store the pair; once enough pairs are there and some differ, set the unit and learn from them."""
        self.warmup_pairs = [*self.warmup_pairs, (event.u, event.y)][-N_RECENT:]
        U = np.array([u for u, _ in self.warmup_pairs])
        size = sqrt(np.mean(U**2))
        if self.t < WARMUP_ROUNDS or size == 0.0:
            return
        self.unit = 2.0 ** -int(np.frexp(size)[1])
        self.mean_squares, self.scale_count = np.mean((U * self.unit) ** 2, axis=0), float(len(U))
        self.windows = [SecondMoments(RIDGE, length, self.mean_squares) for length in WINDOWS]
        self.all_pairs = SecondMoments(RIDGE_ALL, ALL_WINDOW, self.mean_squares)
        for t, (u, y) in enumerate(self.warmup_pairs, start=1):
            self.learn_moments(u * self.unit, y, t)
            self.recent[self.t - len(U) + t] = (u * self.unit, y, 0.0)
        self.scale_count = float(len(U))

    def learn(self, x: Floats, s: Floats, y: float, squares: Floats, shares: Floats) -> None:
        """Update every expert on the pair."""
        memories = [None] * FIRST_MEMORY + self.memories
        for fit, square, memory, share in zip(self.fits, squares, memories, shares, strict=True):
            fit.learn(square, y, self.t, update_mean=memory is None)
            if memory is not None:
                memory.usage = 1e-3 + 0.99 * memory.usage + share
        for comid in self.comids:
            comid.update(Event(s, y))
        self.learn_moments(x, y, self.t)

    # The experts' distances.

    def init_new_features(self, x: Floats) -> None:
        """Initialize the features that differ for the first time."""
        for i in np.flatnonzero((self.mean_squares == 0.0) & (x != 0.0)).tolist():
            self.mean_squares[i] = x[i] ** 2 / (self.scale_count + 1.0)
            for moments in (*self.windows, self.all_pairs):
                moments.init_feature(i, self.mean_squares[i])

    def inverse_roots(self) -> Floats:
        """Return one over each feature's root mean square; 0 for features that have never differed."""
        return np.array([1.0 / sqrt(square) if square > 0.0 else 0.0 for square in self.mean_squares])

    def comid_input(self, x: Floats) -> Floats:
        """Return the pair as the COMID learners see it: standardized, and of bounded length."""
        s = x * self.inverse_roots()
        return s * min(1.0, MAX_COMID_LENGTH * sqrt(self.n / max(float(s @ s), 1e-300)))

    def matrices(self) -> list[Floats]:
        """Return the matrix of every expert's squared distance, in the unit of the first pairs."""
        inverse_roots = self.inverse_roots()
        whitened, standardized = self.all_pairs.inverse_mean(), np.outer(inverse_roots, inverse_roots)
        windows = [moments.inverse_mean() - KISSME_WEIGHT * whitened for moments in self.windows]
        return [
            *windows,
            *(comid.play().matrix * standardized for comid in self.comids),
            *(np.eye(self.n), np.diag(np.diag(standardized)), whitened),
            *(windows[-1] if memory is None else memory.matrix for memory in self.memories),
        ]

    def learn_moments(self, x: Floats, y: float, t: int) -> None:
        """Update the second moments of similar pairs and of all pairs, and the features' mean squares."""
        for moments in self.windows:
            self.learn_window(moments, x, y, t)
        weight = outlier_weight(squared_length(x, self.all_pairs.inverse_mean()) / self.n)
        self.all_pairs.discount()
        self.all_pairs.add(x, weight)
        self.all_pairs.restore_ridge(t % self.n, self.mean_squares)
        self.scale_count = SCALE_DECAY * self.scale_count + 1.0
        change = (x**2 - self.mean_squares) / self.scale_count
        self.mean_squares = np.where(self.mean_squares > 0.0, self.mean_squares + change, 0.0)

    def learn_window(self, moments: SecondMoments, x: Floats, y: float, t: int) -> None:
        """Update one window: it forgets in every round, and adds similar pairs."""
        moments.discount()
        if y > 0.0:
            moments.add(x, outlier_weight(squared_length(x, moments.inverse_mean()) / self.n))
        if y > 0.0 or t % MAX_PENDING == 0:
            moments.restore_ridge(t % self.n, self.mean_squares)

    # The weights.

    def shares(self) -> Floats:
        """Return the weights, normalized to sum to 1."""
        return np.asarray(np.exp(self.log_weights) / np.exp(self.log_weights).sum())

    def update_weights(self, losses: Floats) -> None:
        """Update the exponential weights: losses are discounted, and no expert falls too far behind the best."""
        self.log_weights = (1.0 - 1.0 / WEIGHT_HORIZON) * self.log_weights - losses
        self.log_weights = np.maximum(self.log_weights - self.log_weights.max(), MIN_LOG_WEIGHT)

    def average_experts(self, shares: Floats) -> tuple[Floats, float]:
        """Return A and the offset such that the ensemble's log odds are ``offset - x'Ax``."""
        parts = zip(shares, self.fits, self.matrices(), strict=True)
        A = sum(share * fit.slope / fit.mean_distance * matrix for share, fit, matrix in parts)
        return np.asarray(A), float(shares @ [fit.offset for fit in self.fits])

    # Changes of the question.

    def test_for_change(self, probability: float, y: float) -> None:
        """Run the CUSUM test: a warning stores a memory, and a change restarts the longer windows."""
        log_odds = log(max(probability, 1e-12) / max(1.0 - probability, 1e-12))
        outcome = self.cusum.update(log_odds, y, self.t)
        if outcome == "warning":
            self.store_memory()
        elif outcome == "change":
            self.restart_windows(self.cusum.since)
            self.cusum.restart(self.t)

    def take_snapshot(self, shares: Floats) -> None:
        """Store the ensemble's matrix, and compute its relative change per round since the last snapshot."""
        A, offset = self.average_experts(shares)
        if self.snapshots:
            scale = np.outer(self.mean_squares, self.mean_squares)
            change, size = np.sum(scale * (A - self.snapshots[-1][0]) ** 2), np.sum(scale * A**2)
            self.drift = sqrt(min(change / size, 1e6)) / N_RECENT
        self.snapshots.append((A, offset))

    def store_memory(self) -> None:
        """Store the last snapshot but one, from before the change, in place of the least used memory."""
        if len(self.snapshots) < 2:
            return
        usages = [0.0 if memory is None else memory.usage for memory in self.memories]
        place = usages.index(min(usages))
        matrix, offset = self.snapshots[-2]
        self.memories[place] = Memory(matrix)
        self.fits[FIRST_MEMORY + place] = PlattScaling(offset=offset)
        self.n_memories_stored += 1

    def restart_windows(self, start: int) -> None:
        """Restart all windows but the shortest with the pairs since the start of the change, at most N_RECENT."""
        for k in range(FIRST_RESTARTED, len(self.windows)):
            self.windows[k] = SecondMoments(RIDGE, WINDOWS[k], self.mean_squares)
            self.fits[k] = self.fits[0].copy()
            for t in range(max(start, self.t - N_RECENT + 1), self.t + 1):
                x, y, _ = self.recent[t]
                self.learn_window(self.windows[k], x, y, t)
        self.n_restarts += 1

    # The metric.

    def update_prior_trust(self, mean_log_odds: float, squares: Floats, y: float, losses: Floats) -> None:
        """Update how often near pairs are similar, and the priors' discounted log likelihoods."""
        priors = slice(FIRST_PRIOR, FIRST_PRIOR + N_PRIORS)
        fits, similar = self.fits[priors], float(y > 0.0)
        distances = [fit.relative_distance(square) for fit, square in zip(fits, squares[priors], strict=True)]
        self.similar_rate += max(1.0 / (self.t + 1.0), 1.0 / PRIOR_HORIZON) * (similar - self.similar_rate)
        self.near_by_prior.update(-float(self.prior_shares() @ distances), 0.5, similar, self.t)
        self.near_by_ensemble.update(mean_log_odds, 2.0, similar, self.t)
        self.prior_scores = (1.0 - 1.0 / PRIOR_HORIZON) * self.prior_scores - losses[priors]

    def prior_shares(self) -> Floats:
        """Return the weights of the priors by their likelihoods, normalized to sum to 1."""
        likelihoods = np.exp(self.prior_scores - self.prior_scores.max())
        return np.asarray(likelihoods / likelihoods.sum())

    def prior_trust(self) -> float:
        """Return the trust in the priors, from 0 to 1.

        It is 1 if their near pairs are similar nearly as often as the ensemble's, and clearly more than all pairs.
        """
        lift = max(self.near_by_prior.similar_rate(self.similar_rate) - self.similar_rate, 0.0)
        ensemble_lift = max(self.near_by_ensemble.similar_rate(self.similar_rate) - self.similar_rate, 0.0)
        share_of_largest = lift / max(1.0 - self.similar_rate, 1e-9)
        return ramp(lift / (ensemble_lift + MIN_LIFT), *RELATIVE_LIFT_RAMP) * ramp(share_of_largest, *LIFT_RAMP)

    def prior_matrix(self) -> Floats:
        """Return the mean of the priors' matrices, each with a mean squared distance of 1."""
        matrices = self.matrices()[FIRST_PRIOR:FIRST_MEMORY]
        means = [fit.mean_distance for fit in self.fits[FIRST_PRIOR:FIRST_MEMORY]]
        parts = zip(self.prior_shares(), means, matrices, strict=True)
        return np.asarray(sum(share / mean * matrix for share, mean, matrix in parts))

    def regularized_matrix(self) -> Floats:
        """Return the ensemble's matrix with shrunk, capped and raised eigenvalues, plus the prior's matrix."""
        prior, trust = self.prior_matrix(), self.prior_trust()
        A, _ = self.average_experts(self.shares())
        roots, inverse_roots = np.diag(np.sqrt(self.mean_squares)), np.diag(self.inverse_roots())
        eigenvalues, vectors = np.linalg.eigh(roots @ A @ roots)
        if eigenvalues[-1] <= 0.0:
            return prior
        floor = EIGENVALUE_FLOOR * np.mean(np.maximum(eigenvalues, 0.0))
        shrinkage = max(0.0, MEDIAN_SHRINKAGE * (1.0 - trust) * float(np.median(eigenvalues)))
        shrunk = np.maximum(eigenvalues - shrinkage, 0.0)
        if self.n > 1 and shrunk[-2] > CAP_RATIO * shrunk[-1]:
            shrunk[-1] = shrunk[-2]
        learned = inverse_roots @ vectors @ np.diag(shrunk + floor) @ vectors.T @ inverse_roots
        return np.asarray(learned + PRIOR_WEIGHT * trust * prior)

    def play(self) -> Metric:
        """Return the metric: its threshold minus its squared distance approximates the ensemble's log odds."""
        if not self.fits:
            return self.warmup_metric()
        matrix = self.regularized_matrix()
        last = [self.recent[t] for t in range(max(1, self.t - N_RECENT + 1), self.t + 1) if t in self.recent]
        squares = [squared_length(x, matrix) for x, _, _ in last]
        slope, threshold = fit_line(squares, [log_odds for _, _, log_odds in last])
        return Metric(slope * self.unit**2 * matrix, threshold, self.t)

    def warmup_metric(self) -> Metric:
        """Return the metric of the warm-up: each feature weighted by its inverse mean square, if that is known."""
        mean_squares = np.mean([u**2 for u, _ in self.warmup_pairs], axis=0) if self.warmup_pairs else np.zeros(self.n)
        weights = np.array([1.0 / square if square > 1e-200 else 1.0 for square in mean_squares]) / self.n
        return Metric(np.diag(weights), 1.0, self.t)


def fit_line(squares: Sequence[float], log_odds: Sequence[float]) -> tuple[float, float]:
    """Return the slope and threshold for which ``threshold - slope * d^2`` is nearest to the log odds.

    A weighted least-squares fit: log odds near 0 have the largest weights.
    """
    d2, target = np.array(squares), np.array(log_odds)
    weights = 1.0 / (1.0 + target**2)
    mean_target = float(np.average(target, weights=weights))
    if d2.max() <= 1e-300:
        return 1.0, max(mean_target, MIN_THRESHOLD)
    mean = float(np.average(d2, weights=weights))
    variance = float(np.average((d2 - mean) ** 2, weights=weights))
    slope = (
        -float(np.average((d2 - mean) * (target - mean_target), weights=weights)) / variance if variance > 0 else 0.0
    )
    if slope * mean <= 1e-6:
        slope = 1.0 / mean
    return slope, max(mean_target + slope * mean, MIN_THRESHOLD)
