"""The mixture: one ensemble of calibrated squared distances for any number of features, in plain NumPy.

Candidate for the next default method; ``ocelad compare mixture`` runs it. In every round

1. each expert measures the pair's difference x by its own squared distance (``experts``),
2. Platt scaling turns the distance into log odds of "same" (``calibration``),
3. the mixture predicts the weighted mean of the log odds (``weights``),
4. the answer arrives: weights, calibrations and experts learn, and a CUSUM test looks for a change (``changes``).

The weighted mean of calibrated squared distances is a squared distance itself. Therefore the exported metric and the
predicted probabilities are the same thing: ``threshold - d^2`` are the log odds.
"""

from __future__ import annotations

from ocelad.adaptive.mixture.config import MixtureConfig as MixtureConfig
from ocelad.adaptive.mixture.mixture import Mixture as Mixture
