"""MixtureConfig: the constants of the mixture that shape it, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MixtureConfig:
    """The constants of the mixture. Nobody has to tune them; ablations replace one at a time.

    Attributes
    ----------
    windows : tuple of int
        Lengths in rounds of the exponential windows of second moments: octaves from the fastest useful drift to the
        longest streams of the suites.
    moment_ridge : float
        Pseudo-count, in pairs, of a window's moments at the features' mean squares. Shrinks them as Ledoit and Wolf do.
    max_moment_features : int
        With more features there are no windows: a moment matrix costs O(n^2) a round, and few answers cannot fill it.
    comid_steps, scaled_comid_steps, low_rank_steps : tuple of float
        Step sizes of the COMID learners on the features as they are, on standardized features, and of the low-rank
        learners that replace both above ``max_moment_features``; two or three octaves apart, for differences with a
        mean squared length of n.
    max_rank : int
        Directions of a low-rank learner. Three learners and a memory make at most 64 learned directions.
    prior_share : float
        Share of the prior distance in every learned distance while the prior is fully trusted.
    trust_exponent : float
        The trust in the prior is its lift to this power: real data have lifts of 0.65 and more, noise has 0.4.
    near_share, near_pseudo_count : float
        Near pairs are this share of all pairs; as many pseudo-pairs say that near pairs are similar.
    blends : tuple of float
        Further experts mix the learned distances with this many parts of the prior: a learned share from 1/2 to 1/11.
    learned_handicap, blend_handicap : float
        Log weights at which learned experts, and blends and priors other than the Euclidean one, begin behind it.
    horizons : tuple of float
        Rounds over which expert losses are discounted: a fast and a slow mixture, weighted by their own losses.
    calibration_horizon, calibration_pseudo_count : float
        Platt scaling forgets over this many rounds and is regularized by this many pairs toward the initial fit.
    scale_pseudo_count : float
        Pairs with the mean of all features that every feature's mean square includes, for features seen rarely.
    warning_level, detection_level : float
        Log likelihood ratios of the CUSUM test at which a memory is stored, and at which a change is reported.
    n_memories : int
        Metrics from before a possible change that stay as experts.
    """

    windows: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    moment_ridge: float = 3.0
    max_moment_features: int = 128
    comid_steps: tuple[float, ...] = (9.5, 2.4)
    scaled_comid_steps: tuple[float, ...] = (4.75, 1.2)
    low_rank_steps: tuple[float, ...] = (30.0, 10.0, 3.0)
    max_rank: int = 16
    prior_share: float = 1.0
    trust_exponent: float = 4.0
    near_share: float = 0.05
    near_pseudo_count: float = 4.0
    blends: tuple[float, ...] = (1.0, 3.0, 10.0)
    learned_handicap: float = 4.0
    blend_handicap: float = 3.0
    horizons: tuple[float, ...] = (64.0, 512.0)
    calibration_horizon: float = 200.0
    calibration_pseudo_count: float = 2.0
    scale_pseudo_count: float = 8.0
    warning_level: float = 3.5
    detection_level: float = 4.5
    n_memories: int = 3
