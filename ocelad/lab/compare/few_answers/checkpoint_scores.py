"""The scores of a method after some answers: nearest neighbours, ranking and probabilities on held-out points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from ocelad._typing import Floats
from ocelad.evaluation.prequential import embed_points
from ocelad.evaluation.reliability import reliability
from ocelad.evaluation.scores import knn_error, knn_error_from_similarity, pair_auc
from ocelad.lab.baselines.oasis import Similarity
from ocelad.lab.compare.few_answers.held_out_split import Split
from ocelad.lab.compare.scoring import Play, pair_distances

N_NEIGHBORS = 5
# A fixed small ridge keeps the recalibration slope of perfectly ranked pairs finite.
_RIDGE = 1e-6


class CheckpointScores(NamedTuple):
    """The scores after some answers; NaN where a method has no such score.

    Attributes
    ----------
    knn_error : float
        The 5-NN error of the held-out points, with the training points as neighbours.
    ranking_error : float
        One minus the area under the ROC curve of the held-out pairs, by the log odds, or by the distance of a method
        without log odds.
    distance_ranking_error : float
        The same by the distance.
    log_loss : float
        The mean log loss of the probabilities of the held-out pairs.
    calibration_error : float
        The expected calibration error of these probabilities.
    recalibration_slope : float
        The slope of a logistic regression of the held-out answers on the log odds: 1 if they are calibrated, below 1
        if they are too extreme.
    """

    knn_error: float = np.nan
    ranking_error: float = np.nan
    distance_ranking_error: float = np.nan
    log_loss: float = np.nan
    calibration_error: float = np.nan
    recalibration_slope: float = np.nan


def score_checkpoint(play: Play | None, log_odds: Floats | None, split: Split) -> CheckpointScores:
    """Return the scores of a distance and of the log odds of the test pairs, as far as a method has them."""
    scores, y = CheckpointScores(), split.test_pairs.y
    if play is not None:
        ranking_error = 1.0 - pair_auc(_check_finite(pair_distances(play, split.test_pairs)), y)
        scores = scores._replace(
            knn_error=_neighbor_error(play, split),
            ranking_error=ranking_error,
            distance_ranking_error=ranking_error,
        )
    if log_odds is not None:
        of_odds = reliability(_check_finite(log_odds), y)
        scores = scores._replace(
            ranking_error=1.0 - of_odds.roc_auc,
            log_loss=of_odds.log_loss,
            calibration_error=of_odds.calibration_error,
            recalibration_slope=recalibration_slope(log_odds, y),
        )
    return scores


def _neighbor_error(play: Play, split: Split) -> float:
    (points, labels), (queries, truth) = split.training, split.held_out
    if isinstance(play, Similarity):
        return knn_error_from_similarity(queries @ play.matrix @ points.T, labels, N_NEIGHBORS, test_labels=truth)
    coordinates = _check_finite(embed_points(play, np.concatenate([points, queries])))
    n = len(points)
    return knn_error(coordinates[:n], labels, N_NEIGHBORS, test_points=coordinates[n:], test_labels=truth)


def _check_finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise FloatingPointError("its distances or log odds overflow; use smaller steps")
    return values


def recalibration_slope(log_odds: Floats, y: Floats) -> float:
    """Return the slope of a logistic regression of the labels on the log odds; NaN if the log odds are constant.

    >>> rng = np.random.default_rng(0)
    >>> log_odds = rng.normal(size=20_000)
    >>> y = np.where(rng.random(20_000) < expit(log_odds), 1.0, -1.0)
    >>> round(recalibration_slope(log_odds, y), 1), round(recalibration_slope(4 * log_odds, y), 2)
    (1.0, 0.25)
    """
    spread = float(log_odds.std())
    if spread <= 1e-12 * float(np.abs(log_odds).max()):
        return np.nan
    standard = (log_odds - log_odds.mean()) / spread

    def loss(parameters: Floats) -> tuple[float, Floats]:
        slope, intercept = parameters
        margins = y * (slope * standard + intercept)
        gradient = -y * expit(-margins)
        value = float(np.logaddexp(0.0, -margins).mean()) + _RIDGE * slope * slope
        return value, np.array([(gradient * standard).mean() + 2.0 * _RIDGE * slope, gradient.mean()])

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS", options={"gtol": 1e-8})
    return float(found.x[0]) / spread
