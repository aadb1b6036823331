"""Online ITML: information-theoretic metric learning, one pair after the other.

Davis, Kulis, Jain, Sra and Dhillon, "Information-theoretic metric learning", ICML 2007, section 5, Algorithm 2.
"""

from __future__ import annotations

from ocelad.lab.baselines.targets import TargetLearner
from ocelad.metric import Metric


class OnlineItml(TargetLearner):
    """LogDet-regularised gradient steps on the squared error of a squared distance (Algorithm 2).

    With ``d2 = u'Mu`` and the target p of a pair of its kind, the step minimises
    ``D(M', M) + eta <grad (d2 - p)^2, M'>`` with the gradient at M::

        M <- M - 2 eta (d2 - p) (Mu)(Mu)' / (1 + 2 eta (d2 - p) d2)

    Parameters
    ----------
    start, eta, similar_target, dissimilar_target
        As of ``TargetLearner``.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad.pairs import Event
    >>> learner = OnlineItml(Metric(np.eye(2)), eta=0.5)
    >>> learner.update(Event(u=np.array([1.0, 0.0]), y=1.0))  # from 1 towards the target 0.75
    >>> learner.play().matrix.round(6)
    array([[0.8, 0. ],
           [0. , 1. ]])

    Notes
    -----
    Where a dissimilar pair is to be moved away (d2 < p), the step loses positive definiteness if eta is too large, and
    the paper makes eta smaller there. Here it is made so small that the step arrives at the target, ``2 eta d2 p = 1``:
    that keeps M positive definite at any scale, and beyond it nothing is gained.

    The paper takes the targets from percentiles of the distances in a sample, which an online learner has not.
    """

    def __init__(
        self,
        start: Metric,
        *,
        eta: float = 0.3,
        similar_target: float | None = None,
        dissimilar_target: float | None = None,
    ) -> None:
        super().__init__(start, eta=eta, similar_target=similar_target, dissimilar_target=dissimilar_target)

    def _ratio(self, d2: float, target: float) -> float:
        if d2 < target and 2.0 * self._eta * target * d2 >= 1.0:
            return target / d2
        return 1.0 / (1.0 + 2.0 * self._eta * (d2 - target) * d2)
