"""A CUSUM test for a change of the question: do the answers contradict the predictions of an earlier metric?

The ensemble adapts to a change within a few dozen answers, and then its own predictions are no longer contradicted. So
the test uses an anchor: the metric of the last snapshot, which stays as it is while evidence against it grows. Anchors
are more confident than they should be, because their calibrations come from an ensemble that learns on. The test learns
by how much, slowly enough that a change is still evidence.
"""

from __future__ import annotations

from math import inf, isnan
from typing import NamedTuple

import numpy as np

from ocelad.adaptive.calibration import PlattScaling, log_loss
from ocelad.adaptive.config import AdaptiveConfig

# The alternative hypothesis scales the log odds, clipped first, by this factor.
ALTERNATIVE_SCALE, MAX_LOG_ODDS = 0.3, 3.0
# The anchor is replaced by a newer metric while the evidence against it is at most this.
MAX_EVIDENCE_TO_REPLACE = 1.0
# Detections within MIN_GAP rounds are one change. Evidence that grows for more than MAX_GROWTH rounds is no change but
# a poor anchor. The first anchor is the metric after MIN_ROUND rounds, when predictions are calibrated.
MIN_GAP, MAX_GROWTH, MIN_ROUND = 100, 256, 128
# Pseudo-pairs with which the confidence of anchors begins at 1.
CONFIDENCE_PSEUDO_COUNT = 100.0
#: Outcomes of the test.
NO_CHANGE, WARNING, CHANGE = 0, 1, 2
#: Number of changes that are kept.
MAX_CHANGES = 100


class Change(NamedTuple):
    """A change of the question, that is, of what the answers call similar.

    Attributes
    ----------
    round : int
        Estimated first round of the change: the answers contradict the earlier metric from here on.
    detected : int
        Round of the detection.
    evidence : float
        Log likelihood ratio: how much more the answers support weaker predictions than those of the earlier metric.

    Examples
    --------
    >>> change = Change(round=1001, detected=1013, evidence=5.2)
    >>> change.detected - change.round
    12
    """

    round: int
    detected: int
    evidence: float


class ChangeDetector:
    """Page's CUSUM (1954) of the log likelihood ratio of weakened predictions against those of the anchor.

    The log odds of anchors are clipped and multiplied by their confidence, at most 1: the slope of a logistic fit of
    the answers, which forgets over ``scale_horizon`` pairs. The answers since a change count half in it: they may
    contradict the anchor because of the change, or because it was too confident.
    """

    def __init__(self, config: AdaptiveConfig) -> None:
        self._config = config
        self._confidence = PlattScaling(
            1,
            (0.0, 1.0),
            pseudo_count=CONFIDENCE_PSEUDO_COUNT,
            horizon=config.scale_horizon,
            limit=inf,
            relative=True,
        )
        self._slope_before = 1.0  # the confidence before the evidence
        self._statistic, self._since, self._warned = 0.0, 1, False
        self.changes: list[Change] = []

    @property
    def evidence(self) -> float:
        """The log likelihood ratio against the anchor."""
        return self._statistic

    def update(self, log_odds: float, y: float, weight: float, t: int) -> int:
        """Add the answer of round t; return CHANGE on detection, and WARNING once when one becomes likely.

        ``log_odds`` are those of the anchor; NaN if there is none.
        """
        if isnan(log_odds):
            self._since = t + 1
            return NO_CHANGE
        clipped = np.clip(np.array([log_odds]), -MAX_LOG_ODDS, MAX_LOG_ODDS)
        fitted = self._confidence.log_odds(-clipped)
        played = np.minimum(self._confidence.parameters[0, 1], 1.0) * clipped
        self._statistic += weight * float((log_loss(played, y) - log_loss(ALTERNATIVE_SCALE * played, y))[0])
        self._confidence.learn(-clipped, fitted, y, weight)
        if self._statistic <= 0.0 or t - self._since >= MAX_GROWTH:
            self._slope_before = float(self._confidence.parameters[0, 1])
            self._restart(t)
        elif self._statistic > self._config.detection_level:
            if not self.changes or t - self.changes[-1].detected > MIN_GAP:
                self.changes = [*self.changes[-MAX_CHANGES + 1 :], Change(self._since, t, self._statistic)]
            self._slope_before = float(0.5 * (self._confidence.parameters[0, 1] + self._slope_before))
            self._confidence.parameters[0, 1] = self._slope_before
            self._restart(t)
            return CHANGE
        elif self._statistic > self._config.warning_level and not self._warned:
            self._warned = True
            return WARNING
        return NO_CHANGE

    def _restart(self, t: int) -> None:
        self._statistic, self._since, self._warned = 0.0, t + 1, False
