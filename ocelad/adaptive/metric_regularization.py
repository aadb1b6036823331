"""Regularization of the ensemble's mean matrix to the metric that is played.

A matrix that fits log odds well can be a poor distance. Uninformative directions have small eigenvalues of either sign,
and the fit says nothing about pairs far from those that were asked. Therefore the eigenvalues are shrunk, capped and
raised to a floor, and a prior distance is added.
"""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats

# Eigenvalues are reduced by this share of their median, which is mostly noise.
MEDIAN_SHRINKAGE = 0.75
# The eigenvalue floor, as a share of the mean eigenvalue.
EIGENVALUE_FLOOR = 0.22
# If the second eigenvalue exceeds this share of the largest, the largest is capped at the second.
CAP_RATIO = 0.3
# Weight of a fully trusted prior, in log odds at a mean distance.
PRIOR_WEIGHT = 8.0
# The trust rises from 0 to 1 over these ranges of the prior's lift, relative to the ensemble's lift and relative to the
# largest possible one.
RELATIVE_LIFT_RAMP = (0.75, 1.0)
LIFT_RAMP = (0.4, 0.55)
MIN_LIFT = 0.05


def prior_trust(prior_similar: float, ensemble_similar: float, similar_rate: float) -> float:
    """Return the trust in the prior distance, 0 to 1.

    The lift of a distance is how much more often its near pairs are similar than all pairs. The prior is trusted if its
    lift is almost as large as the ensemble's and large enough by itself.

    Parameters
    ----------
    prior_similar, ensemble_similar : float
        Share of similar pairs among the near pairs by the prior, and by the ensemble.
    similar_rate : float
        Share of similar pairs among all pairs.

    Examples
    --------
    >>> prior_trust(prior_similar=0.95, ensemble_similar=0.85, similar_rate=0.5)
    1.0
    >>> prior_trust(prior_similar=0.55, ensemble_similar=0.95, similar_rate=0.4)
    0.0
    """
    lift = max(prior_similar - similar_rate, 0.0)
    relative_lift = lift / (max(ensemble_similar - similar_rate, 0.0) + MIN_LIFT)
    share_of_largest = lift / max(1.0 - similar_rate, 1e-9)
    return _ramp(relative_lift, *RELATIVE_LIFT_RAMP) * _ramp(share_of_largest, *LIFT_RAMP)


def regularize_matrix(mean_matrix: Floats, mean_squares: Floats, prior: Floats, trust: float) -> Floats:
    """Return the positive semidefinite matrix of the metric that is played.

    Parameters
    ----------
    mean_matrix : array of shape (n, n)
        Weighted mean of the experts' matrices; symmetric.
    mean_squares : array of shape (n,)
        Mean square of each feature, 0 for features that have never differed.
    prior : array of shape (n, n)
        Matrix of the prior distance, with a mean squared distance of 1.
    trust : float
        Trust in the prior.
    """
    root = np.sqrt(mean_squares)
    values, vectors = np.linalg.eigh(mean_matrix * np.outer(root, root))
    if not values[-1] > 0.0:  # no eigenvalue is positive: fall back to the prior
        return prior
    floor = EIGENVALUE_FLOOR * float(np.maximum(values, 0.0).mean())
    shrinkage = max(0.0, MEDIAN_SHRINKAGE * (1.0 - trust) * float(np.median(values)))
    values = np.maximum(values - shrinkage, 0.0)
    if len(values) > 1 and values[-2] > CAP_RATIO * values[-1]:
        values[-1] = values[-2]
    inverse_root = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
    learned = ((vectors * (values + floor)) @ vectors.T) * np.outer(inverse_root, inverse_root)
    matrix = learned + PRIOR_WEIGHT * trust * prior
    return np.asarray(matrix / 2.0 + matrix.T / 2.0)


def _ramp(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low)))
