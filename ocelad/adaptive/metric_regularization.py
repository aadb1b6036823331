"""From what the experts say on average to the metric that is played: its noise taken away, and a prior added.

Log odds can be fitted by a matrix that is a poor distance: directions that mean nothing have small eigenvalues of
either sign, and what is far from all that was asked is not known at all.
"""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats

# Eigenvalues are lessened by this part of their median: what most directions have is noise.
BULK = 0.75
# All directions get at least this part of the mean eigenvalue: none is known to mean nothing.
FLOOR = 0.22
# A direction tells alone if the next one has at most this part of its eigenvalue.
ALONE = 0.3
# How much the prior counts, in log odds at a typical distance, where it is trusted altogether.
PRIOR_ODDS = 8.0
# Near pairs by the prior must be the same nearly as surely as near pairs by what was learned, and surely enough.
TRUST_FROM, TRUST_TO = 0.75, 1.0
SURE_FROM, SURE_TO = 0.4, 0.55
LEAST_LIFT = 0.05


def trust_in_prior(prior_same: float, learned_same: float, share_same: float) -> float:
    """How far the prior is trusted, 0 to 1: how often are pairs the same that are near by it, or by what was learned?

    >>> trust_in_prior(prior_same=0.95, learned_same=0.85, share_same=0.5)
    1.0
    >>> trust_in_prior(prior_same=0.55, learned_same=0.95, share_same=0.4)
    0.0
    """
    lift = max(prior_same - share_same, 0.0)
    ratio = lift / (max(learned_same - share_same, 0.0) + LEAST_LIFT)
    sure = lift / max(1.0 - share_same, 1e-9)
    return _ramp(ratio, TRUST_FROM, TRUST_TO) * _ramp(sure, SURE_FROM, SURE_TO)


def played_matrix(mixed: Floats, spread: Floats, prior: Floats, trust: float) -> Floats:
    """The matrix of the metric that is played; positive semidefinite.

    Parameters
    ----------
    mixed : array of shape (n, n)
        What experts say on average; symmetric.
    spread : array of shape (n,)
        The mean square of each feature, 0 where it has never differed.
    prior : array of shape (n, n)
        The prior distance, 1 on average.
    trust : float
        How far the prior is trusted.
    """
    root = np.sqrt(spread)
    values, vectors = np.linalg.eigh(mixed * np.outer(root, root))
    if not values[-1] > 0.0:  # nearer is nowhere the same: there is no such distance, and any will do
        return prior
    floor = FLOOR * float(np.maximum(values, 0.0).mean())
    values = np.maximum(values - max(0.0, BULK * (1.0 - trust) * float(np.median(values))), 0.0)
    if len(values) > 1 and values[-2] > ALONE * values[-1]:  # of several that tell, the best is no better than the next
        values[-1] = values[-2]
    unit = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
    matrix = ((vectors * (values + floor)) @ vectors.T) * np.outer(unit, unit) + PRIOR_ODDS * trust * prior
    return np.asarray(matrix / 2.0 + matrix.T / 2.0)


def _ramp(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low)))
