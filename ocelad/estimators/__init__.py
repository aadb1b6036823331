"""The scikit-learn faces of RICE-OCELAD: from pairs, from triplets and quadruplets, from labelled points."""

from ocelad.estimators.pairs import MetricTracker

__all__ = ["MetricTracker"]
