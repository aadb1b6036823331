"""ThresholdCalibration: the best threshold on the distance for labelled pairs."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_number

STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")
# Below every distance: no pair is predicted similar.
NONE_SIMILAR = -1.0


class ThresholdCalibration:
    """A criterion for the choice of a threshold; see ``MetricTracker.calibrate_threshold`` for its parameters.

    Examples
    --------
    >>> ThresholdCalibration("accuracy").threshold(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, -1.0]))
    2.0
    """

    def __init__(self, strategy: str = "accuracy", min_rate: float | None = None, beta: float = 1.0) -> None:
        self.strategy = check_choice(strategy, "strategy", STRATEGIES)
        self.beta = check_number(beta, "beta", at_least=0)
        self.min_rate = 0.0
        if strategy in ("max_tpr", "max_tnr"):
            if min_rate is None:
                raise ValueError(f"strategy {strategy!r} needs min_rate, a number from 0 to 1")
            self.min_rate = check_number(min_rate, "min_rate", at_least=0, at_most=1)

    def threshold(self, distances: Floats, labels: Floats) -> float:
        """Return the best threshold among the distances and ``NONE_SIMILAR``; the smallest one, if several are best."""
        if abs(labels.sum()) == len(labels):
            raise ValueError(f"y holds only {labels[0]:+g}; calibration needs similar and dissimilar pairs")
        order = np.argsort(distances, kind="stable")
        ascending, similar = distances[order], labels[order] > 0
        last = np.append(np.flatnonzero(np.diff(ascending)), len(ascending) - 1)  # of each distinct distance
        candidates = np.concatenate([[NONE_SIMILAR], ascending[last]])
        true_positives = np.concatenate([[0], np.cumsum(similar)[last]])
        false_positives = np.concatenate([[0], np.cumsum(~similar)[last]])
        return float(candidates[int(np.argmax(self._scores(true_positives, false_positives, similar)))])

    def _scores(self, tp: np.ndarray, fp: np.ndarray, similar: np.ndarray) -> Floats:
        positives, negatives = int(similar.sum()), int((~similar).sum())
        if self.strategy == "accuracy":
            return np.asarray(tp + negatives - fp, dtype=np.float64)
        if self.strategy == "f_beta":
            b2 = self.beta**2
            predicted = tp + fp + b2 * positives  # 0 if beta is 0 and no pair is predicted similar: its score is 0
            return np.asarray((1 + b2) * tp / np.where(predicted > 0, predicted, 1.0))
        recall, specificity = tp / positives, (negatives - fp) / negatives
        score, constrained = (recall, specificity) if self.strategy == "max_tpr" else (specificity, recall)
        return np.where(constrained >= self.min_rate, score, -np.inf)
