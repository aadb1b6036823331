"""Mixture: the ensemble. One round measures, predicts, is judged, and learns."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.mixture.bases import Bases
from ocelad.adaptive.mixture.calibration import OFFSET, PlattScaling, RunningMeans, log_loss
from ocelad.adaptive.mixture.changes import ChangeDetector, DetectedChange
from ocelad.adaptive.mixture.config import MixtureConfig
from ocelad.adaptive.mixture.prior_trust import PriorTrust
from ocelad.adaptive.mixture.weights import DiscountedWeights, IntervalProd

# Rounds between the snapshots that memories are taken from.
SNAPSHOT_PERIOD = 64


class Mixture:
    """Tracks the answers to "are these two the same?" with calibrated squared distances.

    Parameters
    ----------
    n_features : int
    config : MixtureConfig

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mixture = Mixture(n_features=3)
    >>> for x in rng.normal(size=(300, 3)):
    ...     log_odds = mixture.step(x, 1.0 if abs(x[0]) < 0.5 else -1.0)  # only the first feature matters
    >>> matrix, threshold = mixture.metric()
    >>> bool(matrix[0, 0] > 5 * matrix[1, 1])
    True
    """

    def __init__(self, n_features: int, config: MixtureConfig | None = None) -> None:
        self._n, self.config = n_features, config or MixtureConfig()
        self.round = 0
        self._experts: Experts | None = None  # until the first difference that is not zero

    def step(self, x: Floats, y: float) -> float:
        """Play a round: predict the log odds of the difference x, then learn its answer y, +1 or -1."""
        self.round += 1
        if self._experts is None:
            if not x.any():
                return OFFSET
            self._experts = Experts(x, self.config)
        return self._experts.step(x, y, self.round)

    def metric(self) -> tuple[Floats, float]:
        """Return the matrix and the threshold of the metric: the log odds of x are ``threshold - x'Ax``."""
        return (np.eye(self._n), OFFSET) if self._experts is None else self._experts.metric()

    @property
    def experts(self) -> dict[str, float]:
        """The weight of each expert by name; empty until the first difference that is not zero."""
        if self._experts is None:
            return {}
        return dict(zip(self._experts.names, self._experts.shares().tolist(), strict=True))

    @property
    def changes(self) -> list[DetectedChange]:
        """The changes of the question that were detected, oldest first."""
        return [] if self._experts is None else list(self._experts.detector.changes)


class Experts:
    """The experts of a mixture with their calibrations and weights.

    An expert is a convex combination of relative distances, that is, of distances divided by their means: a prior, a
    learned distance with a share of the prior, a memory, or a blend of all learned distances with the prior.

    Parameters
    ----------
    first : array of shape (n_features,)
        The first difference that is not zero.
    config : MixtureConfig

    Attributes
    ----------
    names : tuple of str
    log_odds : array of shape (n_experts,)
        The log odds of each expert in the last round.
    """

    def __init__(self, first: Floats, config: MixtureConfig) -> None:
        self._config, self._bases = config, Bases(first, config)
        self.names = (*self._bases.names, *(f"blend 1:{blend:g}" for blend in config.blends))
        self._n_priors, self._n_bases = len(self._bases.priors), len(self._bases.names)
        self._first_memory = self._n_bases - len(self._bases.memories)
        handicaps = np.full(len(self.names), config.blend_handicap)
        handicaps[0] = 0.0
        handicaps[self._n_priors : self._n_bases] = config.learned_handicap
        self._weights = DiscountedWeights(handicaps, config.horizons)
        self.insurance = IntervalProd(1 + len(self.names))
        self._insurance_shares = self.insurance.shares()
        self._means = RunningMeans(self._n_bases, config.calibration_horizon)
        self._fits = PlattScaling(len(self.names), config)
        self._trust = PriorTrust(config)
        self.detector = ChangeDetector(config)
        self._frozen = np.zeros(self._n_bases, dtype=bool)
        self._usage = np.zeros(len(self._bases.memories))
        self._snapshots: list[tuple[Floats, float]] = []
        self.log_odds = np.zeros(len(self.names))

    def step(self, x: Floats, y: float, t: int) -> float:
        """Play round t; return the predicted log odds."""
        shares, combination = self.shares(), self._combination()
        squares = self._bases.measure_and_learn(x, y)
        relative = combination @ self._means.relative(squares)
        self.log_odds = self._fits.log_odds(relative)
        mixed = float(shares @ self.log_odds)
        candidates = np.array([self._weights.shares @ self.log_odds, *self.log_odds])
        self.insurance.update(float(log_loss(np.array(mixed), y)), log_loss(candidates, y))
        self._insurance_shares = self.insurance.shares()
        self._trust.update(float(self._prior_shares() @ relative[: self._n_priors]), y)
        self._weights.update(self.log_odds, y)
        self._fits.learn(relative, self.log_odds, y)
        self._means.update(squares, self._frozen)
        self._watch(mixed, y, t, shares)
        return mixed

    # The experts as combinations of the relative distances.

    def shares(self) -> Floats:
        """Return the experts' weights in the next round; they sum to 1."""
        return np.asarray(self._insurance_shares[0] * self._weights.shares + self._insurance_shares[1:])

    def _prior_shares(self) -> Floats:
        """Return the share of each prior in the prior distance, by weight and slope; they sum to 1."""
        return _normalize(self._weights.shares[: self._n_priors] * self._fits.parameters[: self._n_priors, 1])

    def _combination(self) -> Floats:
        """Return each expert's coefficients of the relative distances; rows sum to 1."""
        rows = np.eye(self._n_bases)
        prior = self._prior_shares() @ rows[: self._n_priors]
        share = self._config.prior_share * self._trust.value
        learned = slice(self._n_priors, self._first_memory)
        rows[learned] = (rows[learned] + share * prior) / (1.0 + share)
        learned = slice(self._n_priors, self._n_bases)
        mean = _normalize(self._weights.shares[learned] * self._fits.parameters[learned, 1]) @ rows[learned]
        return np.vstack([rows, *((mean + blend * prior) / (1.0 + blend) for blend in self._config.blends)])

    def metric(self) -> tuple[Floats, float]:
        """Return the matrix and the threshold: the weighted sum of the experts' calibrated squared distances."""
        shares = self.shares()
        offsets, slopes = self._fits.parameters.T
        coefficients = (shares * slopes) @ self._combination() / self._means.values
        matrix = sum(c * A for c, A in zip(coefficients, self._bases.matrices, strict=True))
        return np.asarray(matrix), float(shares @ offsets)

    # Changes of the question.

    def _watch(self, log_odds: float, y: float, t: int, shares: Floats) -> None:
        """Test for a change; a warning stores the metric from before it in place of the least used memory."""
        memories = self._bases.memories
        used = shares[self._first_memory : self._n_bases]
        self._usage = np.where(self._frozen[self._first_memory :], 1e-3 + 0.99 * self._usage + used, 0.0)
        outcome = self.detector.update(log_odds, y, t)
        if outcome == "warning" and memories and len(self._snapshots) == 2:
            j = int(np.argmin(self._usage))
            k = self._first_memory + j
            memories[j], offset = self._snapshots[0]
            self._fits.reset(k, offset)
            self._means.values[k], self._frozen[k], self._usage[j] = 1.0, True, 1.0
        if memories and t % SNAPSHOT_PERIOD == 0:
            self._snapshots = [*self._snapshots[-1:], self.metric()]


def _normalize(weights: Floats) -> Floats:
    """Return weights that sum to 1; equal ones if all are 0."""
    weights = weights + 1e-12
    return np.asarray(weights / weights.sum())
