"""Track a distance that keeps changing, from a stream of answers to "are these two the same?".

>>> from ocelad import MetricTracker
>>> tracker = MetricTracker().partial_fit([[[0.0, 1.0], [0.0, 9.0]]], [1])
>>> tracker.pair_distance([[[0.0, 0.0], [1.0, 0.0]]]).shape
(1,)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocelad import evaluation as evaluation
    from ocelad import io as io
    from ocelad import lab as lab
    from ocelad import neighbors as neighbors
    from ocelad import testing as testing
    from ocelad.adaptive.track_adaptive import track_adaptive as track_adaptive
    from ocelad.choice import PairChooser as PairChooser
    from ocelad.comparison_graph import ComparisonGraph as ComparisonGraph
    from ocelad.curved_metric import CurvedMetric as CurvedMetric
    from ocelad.engines.rice import track_metric as track_metric
    from ocelad.engines.rice_settings import Rice as Rice
    from ocelad.ensemble.bank import Bank as Bank
    from ocelad.ensemble.bank import LearnerBank as LearnerBank
    from ocelad.ensemble.bank import LearnerError as LearnerError
    from ocelad.ensemble.learner import Learner as Learner
    from ocelad.ensemble.ocelad import Ocelad as Ocelad
    from ocelad.ensemble.ocelad import RoundInfo as RoundInfo
    from ocelad.estimators import LabelMetricTracker as LabelMetricTracker
    from ocelad.estimators import MetricTracker as MetricTracker
    from ocelad.estimators import PairTransformer as PairTransformer
    from ocelad.estimators import QuadrupletTracker as QuadrupletTracker
    from ocelad.estimators import TripletTracker as TripletTracker
    from ocelad.implied_answers import ImpliedAnswers as ImpliedAnswers
    from ocelad.learners.comid import Comid as Comid
    from ocelad.metric import Metric as Metric
    from ocelad.neighbors import MovingIndex as MovingIndex
    from ocelad.pairs import Events as Events
    from ocelad.pairs import Pair as Pair
    from ocelad.pairs import Relative as Relative
    from ocelad.pairs import Relatives as Relatives

__version__ = "0.1.0"

# Imported on first use, so that `import ocelad` and `ocelad --help` do not load scikit-learn and numba.
_MODULE_OF = {
    "Bank": "ocelad.ensemble.bank",
    "Comid": "ocelad.learners.comid",
    "ComparisonGraph": "ocelad.comparison_graph",
    "CurvedMetric": "ocelad.curved_metric",
    "ImpliedAnswers": "ocelad.implied_answers",
    "LabelMetricTracker": "ocelad.estimators",
    "Learner": "ocelad.ensemble.learner",
    "LearnerBank": "ocelad.ensemble.bank",
    "LearnerError": "ocelad.ensemble.bank",
    "Events": "ocelad.pairs",
    "Metric": "ocelad.metric",
    "MetricTracker": "ocelad.estimators",
    "MovingIndex": "ocelad.neighbors",
    "Ocelad": "ocelad.ensemble.ocelad",
    "Pair": "ocelad.pairs",
    "PairChooser": "ocelad.choice",
    "PairTransformer": "ocelad.estimators",
    "QuadrupletTracker": "ocelad.estimators",
    "Relative": "ocelad.pairs",
    "Relatives": "ocelad.pairs",
    "Rice": "ocelad.engines.rice_settings",
    "RoundInfo": "ocelad.ensemble.weighting",
    "TripletTracker": "ocelad.estimators",
    "track_adaptive": "ocelad.adaptive.track_adaptive",
    "track_metric": "ocelad.engines.rice",
}

_MODULES = ("evaluation", "io", "lab", "neighbors", "testing")

__all__ = ["__version__", *_MODULES, *sorted(_MODULE_OF)]


if not TYPE_CHECKING:  # type checkers must see only the names above

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"ocelad.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'ocelad' has no attribute {name!r}")
        return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
