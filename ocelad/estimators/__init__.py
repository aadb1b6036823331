"""The scikit-learn faces of RICE-OCELAD: from pairs, from triplets and quadruplets, from labelled points."""

from ocelad.estimators.pairs import MetricTracker
from ocelad.estimators.relatives import QuadrupletTracker, TripletTracker

__all__ = ["MetricTracker", "QuadrupletTracker", "TripletTracker"]
