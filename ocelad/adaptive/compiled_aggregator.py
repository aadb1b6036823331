"""CompiledAggregator: the experts and their weights, computed by compiled code."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad.adaptive import aggregator, calibration, changes, prior_trust, weights
from ocelad.adaptive.aggregator import ExpertCounts
from ocelad.adaptive.changes import MAX_CHANGES, Change
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.kernels import aggregation
from ocelad.adaptive.kernels.aggregation import AggregatorState, Settings
from ocelad.ensemble.state_reader import StateReader

# Rows of interval weights: one that never ends, and one for each power of two up to 2^62 rounds.
N_ENTRIES = 64
_SCRATCH = ("distances", "deviations", "losses")


class CompiledAggregator:
    """A ``PlainAggregator`` whose rounds are computed by compiled code; see there.

    Parameters
    ----------
    counts : ExpertCounts
    config : AdaptiveConfig
    relative : bool
    """

    def __init__(self, counts: ExpertCounts, config: AdaptiveConfig, relative: bool) -> None:
        n_distances, n_experts = counts.distances, counts.experts
        offset, slope = config.initial_fit
        self._counts = counts
        self._settings = Settings(
            n_priors=counts.priors,
            n_learned=counts.learned,
            prior_parts=config.prior_parts,
            handicaps=counts.handicaps(config),
            handicap_decay=1.0 - 1.0 / counts.handicap_pairs,
            memory_start=-config.handicap,
            no_prior_penalty=config.no_prior_penalty,
            relative=relative,
            warmup=calibration.WARMUP,
            winsor_limit=config.winsor_limit,
            horizon=config.horizon,
            pseudo_count=config.ridge,
            recalibration_horizon=config.scale_horizon,
            recalibration_pseudo_count=config.recalibration_pseudo_count,
            limit=config.outlier_limit,
            initial_offset=0.0 if relative else offset,
            initial_slope=slope,
            near_pseudo_count=config.ridge,
            trust_exponent=config.trust_exponent,
            near_share=config.near_share,
            rate_horizon=config.scale_horizon,
            warning_level=config.warning_level,
            detection_level=config.detection_level,
            min_slope=calibration.MIN_SLOPE,
            min_curvature=calibration.MIN_CURVATURE,
            min_mean=calibration.MIN_MEAN_DISTANCE,
            min_spread=calibration.MIN_SPREAD,
            max_loss=weights.MAX_LOSS,
            max_log_ratio=weights.MAX_LOG_RATIO,
            n_first=prior_trust.N_FIRST,
            near_horizon=prior_trust.NEAR_HORIZON,
            min_bound_step=prior_trust.MIN_BOUND_STEP,
            alternative_scale=changes.ALTERNATIVE_SCALE,
            max_log_odds=changes.MAX_LOG_ODDS,
            min_gap=changes.MIN_GAP,
            max_growth=changes.MAX_GROWTH,
            confidence_pseudo_count=changes.CONFIDENCE_PSEUDO_COUNT,
            usage_decay=aggregator.USAGE_DECAY,
            min_usage=aggregator.MIN_USAGE,
            min_weight=aggregator.MIN_WEIGHT,
        )
        self._state = AggregatorState(
            means=np.ones(n_distances),
            frozen=np.zeros(n_experts),
            locations=np.full(n_experts, 0.0 if relative else 1.0),
            spreads=np.full(n_experts, calibration.INITIAL_SPREAD**2),
            slopes=np.zeros(n_experts),
            fits=np.zeros((n_experts + 1, aggregation.N_FIT_COLUMNS)),
            log_weights=np.zeros(n_experts),
            wealth=np.ones((N_ENTRIES, n_experts + 1)),
            entry_priors=np.zeros(N_ENTRIES),
            entry_steps=np.zeros(N_ENTRIES),
            trust=np.zeros(aggregation.N_TRUST_FIELDS),
            usage=np.zeros(counts.memories),
            cusum=np.zeros(aggregation.N_CUSUM_FIELDS),
            changes=np.zeros((MAX_CHANGES, aggregation.N_CHANGE_COLUMNS)),
            numbers=np.zeros(aggregation.N_NUMBERS),
            discounted=np.zeros(n_experts),
            shares=np.zeros(n_experts),
            played=np.zeros(n_experts),
            coefficients=np.zeros(n_distances),
            log_odds=np.zeros(n_experts),
            distances=np.zeros(n_experts),
            deviations=np.zeros(n_experts),
            losses=np.zeros(n_experts + 1),
            within=np.zeros(n_distances),
        )
        state = self._state
        state.numbers[aggregation.REGRET_SCALE], state.numbers[aggregation.SPREAD_COUNT] = weights.MIN_SCALE, 1.0
        state.numbers[aggregation.FADING] = 1.0
        state.entry_priors[0] = state.entry_steps[0] = 0.5
        state.trust[aggregation.BOUND], state.trust[aggregation.SIMILAR_RATE] = 1.0, 0.5
        state.cusum[aggregation.SINCE] = 1.0
        state.cusum[aggregation.CONFIDENCE] = state.cusum[aggregation.CONFIDENCE_BEFORE] = 1.0
        state.cusum[aggregation.CONFIDENCE_HESSIAN] = changes.CONFIDENCE_PSEUDO_COUNT
        for k in range(n_experts):
            aggregation.start_fit(state, k, self._settings.initial_offset, slope, config.ridge)
        aggregation.start_fit(state, n_experts, 0.0, 1.0, config.recalibration_pseudo_count)
        aggregation.start_entries(state)
        aggregation.prepare(state, self._settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = type(self).__new__(type(self))
        copied._counts, copied._settings = self._counts, self._settings
        copied._state = AggregatorState(*(array.copy() for array in self._state))
        return copied

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
        """Play rounds t, t + 1, ... until the change test warns or detects a change; see ``PlainAggregator.play``."""
        return aggregation.play(self._state, self._settings, squares, sizes, anchor, y, weights, t, predictions)

    @property
    def kernel_parts(self) -> tuple[AggregatorState, Settings]:
        """The arguments of ``aggregation.play``."""
        return self._state, self._settings

    @property
    def shares(self) -> Floats:
        """The experts' weights in the next round; they sum to 1."""
        return self._state.shares.copy()

    @property
    def log_odds(self) -> Floats:
        """The log odds of each expert in the last round."""
        return self._state.log_odds.copy()

    @property
    def coefficients(self) -> Floats:
        """The coefficient of each squared distance in the next round's prediction."""
        return self._state.coefficients.copy()

    @property
    def threshold(self) -> float:
        """The prediction at squared distances of 0."""
        return float(self._state.numbers[aggregation.THRESHOLD])

    @property
    def regret_scale(self) -> float:
        """The largest regret of a round so far, rounded up to a power of two."""
        return float(self._state.numbers[aggregation.REGRET_SCALE])

    @property
    def changes(self) -> list[Change]:
        """The detected changes, oldest first."""
        return stored_changes(self._state)

    @property
    def evidence(self) -> float:
        """The evidence of the change test."""
        return float(self._state.cusum[aggregation.STATISTIC])

    def least_used_memory(self) -> int:
        """Return the memory with the least discounted weight, an empty one first."""
        return aggregation.least_used_memory(self._state)

    def start_memory(self, j: int, offset: float, log_weight: float | None = None) -> None:
        """Start the expert of a stored metric; see ``PlainAggregator.start_memory``."""
        curvature = calibration.MEMORY_RIDGE * self._settings.pseudo_count
        start = self._settings.memory_start if log_weight is None else log_weight
        aggregation.start_memory(self._state, self._settings, j, offset, curvature, start)

    def restart_windows(self, means: Floats) -> None:
        """Let windows that began again continue from the fit of the shortest one and the weight of the best one."""
        aggregation.restart_windows(self._state, self._settings, means, self._counts.windows[0])

    def arrays(self) -> Arrays:
        """Return copies of all arrays that later rounds depend on."""
        return {name: array.copy() for name, array in self._state._asdict().items() if name not in _SCRATCH}

    def restore(self, saved: StateReader) -> None:
        """Continue from saved ``arrays``, after checking their types and shapes."""
        for name, array in self._state._asdict().items():
            if name not in _SCRATCH:
                array[...] = saved.floats(name, array.shape)
        self._check()

    def _check(self) -> None:
        """Refuse values that kernels would use as indices or divisors."""
        state = self._state
        if (
            state.means.min() <= 0.0
            or state.spreads.min() <= 0.0
            or np.delete(state.numbers, aggregation.THRESHOLD).min() < 0.0
            or state.numbers[aggregation.REGRET_SCALE] < weights.MIN_SCALE
            or state.trust.min() < 0.0
            or state.fits[:, [aggregation.HESSIAN_OFFSET, aggregation.HESSIAN_SLOPE]].min() <= 0.0
            or not 1.0 <= state.numbers[aggregation.PROD_ROUND] < 2.0**62
            or not 0.0 <= state.cusum[aggregation.N_CHANGES] < 2.0**53
            or state.cusum[aggregation.CONFIDENCE_HESSIAN] <= 0.0
            or abs(state.shares.sum() - 1.0) > 1e-6
        ):
            raise ValueError("the saved weights, means or changes are out of range")


def stored_changes(state: aggregation.AggregatorState) -> list[Change]:
    """Return the changes in a kernel's state, oldest first."""
    count, rows = int(state.cusum[aggregation.N_CHANGES]), state.changes
    kept = (rows[i % MAX_CHANGES] for i in range(max(0, count - MAX_CHANGES), count))
    return [Change(int(start), int(detected), float(evidence)) for start, detected, evidence in kept]
