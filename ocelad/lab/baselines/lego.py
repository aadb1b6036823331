"""LEGO: LogDet exact gradient online.

Jain, Kulis, Dhillon and Grauman, "Online metric learning and fast similarity search", NIPS 2008, section 2.
"""

from __future__ import annotations

from math import hypot, sqrt

from ocelad.lab.baselines.logdet_learner import LogDetLearner
from ocelad.metric import Metric


class Lego(LogDetLearner):
    """The exact minimiser of LogDet divergence plus squared error, positive definite for every step size.

    With ``d2 = u'Mu`` and the target p of the pair, the step is the argmin over M' of
    ``D(M', M) + eta / 2 (u'M'u - p)^2``. The squared distance q after the step solves a quadratic equation::

        eta d2 q^2 + (1 - eta p d2) q - d2 = 0
        M <- M - eta (q - p) (Mu)(Mu)' / (1 + eta (q - p) d2)

    Parameters
    ----------
    start, eta, similar_target, dissimilar_target
        See ``LogDetLearner``.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad.pairs import Event
    >>> learner = Lego(Metric(np.eye(2)), eta=1.0)
    >>> learner.update(Event(u=np.array([1.0, 0.0]), y=1.0))  # from 1 towards the target 0.75
    >>> learner.play().matrix.round(6)
    array([[0.882782, 0.      ],
           [0.      , 1.      ]])

    Notes
    -----
    The paper pulls a distance to its target from both sides. Here a similar pair below its target, or a dissimilar pair
    above it, changes nothing, because the constraints of pairs are inequalities.
    """

    def __init__(
        self,
        start: Metric,
        *,
        eta: float = 3.0,
        similar_target: float | None = None,
        dissimilar_target: float | None = None,
    ) -> None:
        super().__init__(start, eta=eta, similar_target=similar_target, dissimilar_target=dissimilar_target)

    def _ratio(self, d2: float, target: float) -> float:
        # The positive root of (root r)^2 + b r - 1 = 0, by the form that neither cancels nor overflows.
        root, b = sqrt(self._eta) * d2, 1.0 - self._eta * target * d2
        height = hypot(b, 2.0 * root)
        return 2.0 / (b + height) if b > 0.0 else (height - b) / (2.0 * root) / root
