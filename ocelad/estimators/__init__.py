"""The scikit-learn faces of RICE-OCELAD: from pairs, from triplets and quadruplets, from labelled points."""

from ocelad.estimators.labels import LabelMetricTracker
from ocelad.estimators.pairs import MetricTracker
from ocelad.estimators.relatives import QuadrupletTracker, TripletTracker

__all__ = ["LabelMetricTracker", "MetricTracker", "QuadrupletTracker", "TripletTracker"]
