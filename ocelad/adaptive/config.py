"""AdaptiveConfig: all constants of the adaptive method, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdaptiveConfig:
    """The constants of the adaptive method. Nobody has to tune them; ``benchmarks/ablation.py`` replaces one at a time.

    Attributes
    ----------
    windows, scaled_windows : tuple of int
        Lengths in similar pairs of the exponential windows of second moments, shrunk toward the Euclidean and toward
        the standardized distance: octaves from the fastest useful drift to the longest streams of the suites. Windows
        shorter than half the number of features are left out.
    max_moment_features : int
        With more features there are no windows: a moment matrix costs O(n^2) a round, and few answers cannot fill it.
    comid_steps, low_rank_steps : tuple of float
        Step sizes of the COMID learners up to ``max_moment_features`` features and above, two octaves apart; for
        differences with a mean squared length of n.
    max_rank : int
        Directions of a COMID learner: four learners and a memory have at most 40. Few answers support few.
    ridge : float
        Pseudo-pairs in every estimate from few answers: in the moments and mean squares, as Ledoit and Wolf (2004)
        shrink them, in the calibrations, and in the trust in the prior.
    outlier_limit : float
        A pair whose relative squared distance is larger counts less in scales, moments, COMID steps and calibrations.
    winsor_limit : float
        Squared distances, and their squared deviations, count as at most this many times their running means.
    scale_horizon : float
        Rounds over which slow estimates forget: mean squares of features, moments of all pairs, the recalibration.
    horizon : float
        Rounds over which losses of experts and their calibrations forget. Longer ones calibrate better, shorter ones
        follow changes faster.
    initial_fit : tuple of float
        Log odds at the mean distance, and their decrease per spread of the distances, before the first answer.
    recalibration_pseudo_count : float
        Pairs by which the calibration of the mixture is regularized toward the mixture as it is.
    handicap : float
        Log weight by which learned experts begin behind the Euclidean distance; see ``ExpertCounts.handicaps``.
    prior_parts : float
        Parts of the prior that a further expert mixes with the mean of the learned distances.
    near_share : float
        Share of all pairs that count as near in the trust in the prior.
    trust_exponent : float
        The trust in the prior is its lift among near pairs to this power: real data have lifts of 0.65 and more, noise
        has 0.4.
    no_prior_penalty : float
        Loss per round, times the trust in the prior, of the expert without a share of the prior: exact answers gain
        more by it, and answers for which near pairs matter less do not.
    detection_level : float
        Log likelihood ratio of the CUSUM test at which a change is reported: by chance, answers contradict a
        calibrated prediction by 10 nats once in 22,000 tests. A third of it stores a memory.
    n_memories : int
        Metrics from before a possible change that stay as experts.
    """

    windows: tuple[int, ...] = (16, 64, 256, 1024)
    scaled_windows: tuple[int, ...] = (32, 128, 512)
    max_moment_features: int = 128
    comid_steps: tuple[float, ...] = (9.5, 2.4, 0.6)
    low_rank_steps: tuple[float, ...] = (30.0, 10.0, 3.0, 1.0)
    max_rank: int = 8
    ridge: float = 3.0
    outlier_limit: float = 10.0
    winsor_limit: float = 4.0
    scale_horizon: float = 1000.0
    horizon: float = 160.0
    initial_fit: tuple[float, float] = (-0.5, 1.0)
    recalibration_pseudo_count: float = 20.0
    handicap: float = 5.0
    prior_parts: float = 3.0
    near_share: float = 0.05
    trust_exponent: float = 4.0
    no_prior_penalty: float = 0.05
    detection_level: float = 10.0
    n_memories: int = 3

    @property
    def warning_level(self) -> float:
        """The log likelihood ratio at which a memory is stored, before a change is certain."""
        return self.detection_level / 3.0
