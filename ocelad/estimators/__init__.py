"""Estimators with the interface of scikit-learn, which learn from pairs, triplets, quadruplets or labelled points."""

from ocelad.estimators.label_tracker import LabelMetricTracker
from ocelad.estimators.metric_tracker import MetricTracker
from ocelad.estimators.pair_transformer import PairTransformer
from ocelad.estimators.relative_trackers import QuadrupletTracker, TripletTracker

__all__ = ["LabelMetricTracker", "MetricTracker", "PairTransformer", "QuadrupletTracker", "TripletTracker"]
