"""Online ITML: information-theoretic metric learning from one pair after the other.

Davis, Kulis, Jain, Sra and Dhillon, "Information-theoretic metric learning", ICML 2007, section 5, Algorithm 2.
"""

from __future__ import annotations

from ocelad.lab.baselines.logdet_learner import LogDetLearner
from ocelad.metric import Metric


class OnlineItml(LogDetLearner):
    """LogDet-regularised gradient steps on the squared error of a squared distance (Algorithm 2).

    With ``d2 = u'Mu`` and the target p of the pair, the step minimises ``D(M', M) + eta <grad (d2 - p)^2, M'>`` with
    the gradient at M::

        M <- M - 2 eta (d2 - p) (Mu)(Mu)' / (1 + 2 eta (d2 - p) d2)

    Parameters
    ----------
    start, eta, similar_target, dissimilar_target
        See ``LogDetLearner``.

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
    If the distance of a dissimilar pair must grow (d2 < p), the step is not positive definite for a large eta, and the
    paper reduces eta. Here eta is reduced until the step ends at the target, ``2 eta d2 p = 1``. This keeps M positive
    definite at any scale; a larger step has no benefit.

    The paper takes the targets from percentiles of the distances in a sample. An online learner has no such sample.
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
