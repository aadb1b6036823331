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
    ridge : float
        Pseudo-pairs with the features' mean squares in every mean of squares, which shrinks moments as Ledoit and
        Wolf (2004) do and keeps a feature that was seen twice from dominating.
    max_moment_features : int
        With more features there are no windows: a moment matrix costs O(n^2) a round, and few answers cannot fill it.
    max_full_rank : int
        With more features, COMID learners have a low rank: a full-rank step costs O(n^3).
    max_rank : int
        Directions of a low-rank COMID learner: three learners and a memory make at most 64. Few answers support few.
    comid_steps, low_rank_steps : tuple of float
        Step sizes of the COMID learners up to ``max_moment_features`` features and above, two octaves apart; for
        differences with a mean squared length of n.
    scale_horizon : float
        Rounds over which the features' mean squares and the moments of all pairs forget.
    outlier_limit : float
        A pair whose relative squared distance is larger counts less in moments, COMID steps and calibrations.
    blends : tuple of float
        Further experts mix the learned distances with this many parts of the prior.
    handicap : float
        Log weight by which learned experts begin behind the Euclidean distance. Blends begin 3/4 of it behind, and
        distances of standardized features 3/2 of it, because the first pairs say little about the features' scales.
        The handicap fades over the longer horizon.
    horizons : tuple of float
        Rounds over which expert losses are discounted: a fast and a slow mixture, weighted by their own losses.
    calibration_horizon, calibration_pseudo_count : float
        Platt scaling forgets over this many rounds and is regularized by this many pairs toward the initial fit.
    recalibration_pseudo_count : float
        The same for the calibration of the mixture, which forgets over the longer of the horizons.
    initial_fit : tuple of float
        Log odds at the mean distance, and their decrease per spread of the distances, before the first answer.
    near_share : float
        Share of all pairs that count as near in the trust in the prior.
    trust_exponent : float
        The trust in the prior is its lift among near pairs to this power: real data have lifts of 0.65 and more, noise
        has 0.4.
    warning_level, detection_level : float
        Log likelihood ratios of the CUSUM test at which a memory is stored, and at which a change is reported: by
        chance, answers contradict a calibrated prediction by 10 nats once in 22,000 tests.
    n_memories : int
        Metrics from before a possible change that stay as experts.
    """

    windows: tuple[int, ...] = (16, 64, 256, 1024)
    scaled_windows: tuple[int, ...] = (32, 128, 512)
    ridge: float = 3.0
    max_moment_features: int = 128
    max_full_rank: int = 32
    max_rank: int = 8
    comid_steps: tuple[float, ...] = (9.5, 2.4, 0.6)
    low_rank_steps: tuple[float, ...] = (10.0, 3.0, 1.0)
    scale_horizon: float = 1000.0
    outlier_limit: float = 10.0
    blends: tuple[float, ...] = (1.0, 3.0, 10.0)
    handicap: float = 4.0
    horizons: tuple[float, ...] = (64.0, 512.0)
    calibration_horizon: float = 200.0
    calibration_pseudo_count: float = 2.0
    recalibration_pseudo_count: float = 20.0
    initial_fit: tuple[float, float] = (-0.5, 1.0)
    near_share: float = 0.05
    trust_exponent: float = 4.0
    warning_level: float = 3.5
    detection_level: float = 10.0
    n_memories: int = 3
