"""The methods of the few-answers suite: those of ``ocelad compare``, with log odds where a method has them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ocelad._typing import Floats
from ocelad.engines.rice_settings import Rice
from ocelad.estimators.metric_tracker import MetricTracker
from ocelad.lab.baselines.pair_logistic import PairLogistic
from ocelad.lab.compare import registry
from ocelad.lab.compare.adapters import TrackerAdapter
from ocelad.lab.compare.block_streams import Block
from ocelad.lab.compare.few_answers.asking_learner import start_asking
from ocelad.lab.compare.methods import Method, StreamInfo
from ocelad.lab.compare.suites import OURS
from ocelad.pairs import subtract

#: The methods that learn nothing from the answers, and that ours must not be worse than.
EUCLIDEAN, STANDARDIZED, COSINE = "euclidean", "standardized-start", "cosine"
#: Our method with a curved part, without and with known items.
CURVED, CURVED_ITEMS = "curved", "curved-items"
#: The same with pairs that it chooses, and with random pairs, given by id.
CHOSEN, RANDOM = "chosen", "random-ids"
#: The batch method whose log loss is compared with ours.
LOGISTIC = "logistic"


class LogisticAdapter:
    """Run ``PairLogistic``, which has log odds only."""

    def __init__(self, model: PairLogistic) -> None:
        self._model = model

    def update(self, block: Block) -> None:
        self._model.add_pairs(block.events)

    def log_odds(self, X: Any, Z: Any) -> Floats:
        """Return the log odds of "similar" for each pair of rows."""
        return self._model.log_odds(subtract(X, Z))


def _adaptive(info: StreamInfo) -> TrackerAdapter:
    return TrackerAdapter(MetricTracker(method="adaptive").start(info.n_features))


def _curved(info: StreamInfo) -> TrackerAdapter:
    return TrackerAdapter(MetricTracker(curved=True, preprocessor=info.items).start(info.n_features))


def _rice(info: StreamInfo, **settings: Any) -> TrackerAdapter:
    rice = Rice(**settings, **registry.engine_settings(info))
    return TrackerAdapter(MetricTracker(method=rice).start(info.n_features))


def _logistic(info: StreamInfo, **settings: Any) -> LogisticAdapter:
    return LogisticAdapter(PairLogistic(info.n_features, **settings))


_METHODS = {
    **registry.METHODS,
    OURS: replace(registry.METHODS[OURS], factory=_adaptive, sparse=False),
    CURVED: replace(registry.METHODS[CURVED], factory=_curved, sparse=False),
    CURVED_ITEMS: Method(
        CURVED_ITEMS,
        "curved, with landmarks drawn from all training items before the first answer",
        _curved,
        requires=frozenset({"items"}),
        group="ensembles",
    ),
    CHOSEN: Method(
        CHOSEN,
        "curved, about pairs that it chooses, with implied answers",
        partial(start_asking, choose=True),
        {"transitive": True, "wrong": 0.0, "curved": True},
        requires=frozenset({"labels", "items"}),
        group="ensembles",
    ),
    RANDOM: Method(
        RANDOM,
        "curved, about random pairs by id, with implied answers",
        partial(start_asking, choose=False),
        {"transitive": True, "wrong": 0.0, "curved": True},
        requires=frozenset({"labels", "items"}),
        group="ensembles",
    ),
    "rice": replace(registry.METHODS["rice"], factory=_rice, sparse=False),
    LOGISTIC: Method(
        LOGISTIC,
        "logistic regression on |u| and u^2, refitted to all answers; log odds only",
        _logistic,
        {"n_folds": 5, "products": False},
        group="batch",
    ),
}

#: All methods of the suite by name. "adaptive", "curved" and "rice" run as estimators, which have log odds.
METHODS: dict[str, Method] = {name: replace(method, built_in=True) for name, method in _METHODS.items()}

#: The methods that targets compare ours with.
REFERENCES: tuple[Method, ...] = (METHODS[EUCLIDEAN], METHODS[STANDARDIZED], METHODS[COSINE])
#: All methods that ours is compared with.
RIVALS: tuple[Method, ...] = (
    *REFERENCES,
    *(METHODS["kissme"].with_settings(window=window) for window in (128, 256, 512)),
    METHODS["rice"],
    METHODS[LOGISTIC],
)
