"""A CUSUM test for a change of the question: do the answers contradict the predicted log odds?"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ocelad.adaptive.mixture.calibration import log_loss
from ocelad.adaptive.mixture.config import MixtureConfig

# The alternative hypothesis scales the log odds, clipped first, by this factor.
ALTERNATIVE_SCALE, MAX_LOG_ODDS = 0.3, 3.0
# Detections within MIN_GAP rounds are one change; the test starts at MIN_ROUND, when predictions are calibrated.
MIN_GAP, MIN_ROUND = 100, 100


class DetectedChange(NamedTuple):
    """A change of the question: its first round by estimate, the round of its detection, and the evidence for it.

    ``evidence`` is a log likelihood ratio: answers contradict the predictions that much more than they support them.
    """

    start: int
    detected: int
    evidence: float


class ChangeDetector:
    """Page's CUSUM of the log likelihood ratio of weakened predictions against the predictions."""

    def __init__(self, config: MixtureConfig) -> None:
        self._config = config
        self._statistic, self._since, self._warned = 0.0, 1, False
        self.changes: list[DetectedChange] = []

    def update(self, log_odds: float, y: float, t: int) -> Literal["change", "warning"] | None:
        """Add the answer of round t; return "change" on detection, and "warning" once when one becomes likely."""
        clipped = np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        self._statistic += float(log_loss(clipped, y) - log_loss(ALTERNATIVE_SCALE * clipped, y))
        if self._statistic <= 0.0 or t < MIN_ROUND:
            self._restart(t)
        elif self._statistic > self._config.detection_level:
            if not self.changes or t - self.changes[-1].detected > MIN_GAP:
                self.changes.append(DetectedChange(self._since, t, self._statistic))
            self._restart(t)
            return "change"
        elif self._statistic > self._config.warning_level and not self._warned:
            self._warned = True
            return "warning"
        return None

    def _restart(self, t: int) -> None:
        self._statistic, self._since, self._warned = 0.0, t + 1, False
