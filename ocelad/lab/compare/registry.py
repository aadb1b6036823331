"""The methods and the streams that can be compared by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ocelad._validation import check_integer
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.choose import MAX_FULLRANK_FEATURES
from ocelad.engines.rice import track_metric
from ocelad.engines.rice_settings import EngineName
from ocelad.evaluation.streams import SCENARIOS, SwitchingWords
from ocelad.lab.baselines.adagrad import AdaGrad
from ocelad.lab.baselines.ader import ader
from ocelad.lab.baselines.batch import FitsPoints, PeriodicRefit
from ocelad.lab.baselines.cbce import cbce
from ocelad.lab.baselines.comid_variants import ResettingLearner, inverse_root, scheduled_comid
from ocelad.lab.baselines.cosine import CosineDistance
from ocelad.lab.baselines.euclidean import euclidean
from ocelad.lab.baselines.ftrl import Ftrl
from ocelad.lab.baselines.hedge import STEP_SIZES, hedge
from ocelad.lab.baselines.itml import Itml
from ocelad.lab.baselines.itml_online import OnlineItml
from ocelad.lab.baselines.kissme import ForgettingKissme
from ocelad.lab.baselines.lda import Lda
from ocelad.lab.baselines.lego import Lego
from ocelad.lab.baselines.lmnn import Lmnn
from ocelad.lab.baselines.mds import Mds
from ocelad.lab.baselines.mmc import Mmc
from ocelad.lab.baselines.nca import Nca
from ocelad.lab.baselines.oasis import Oasis
from ocelad.lab.baselines.pca import Pca
from ocelad.lab.baselines.pola import Pola
from ocelad.lab.baselines.saol import saol
from ocelad.lab.baselines.standardized import Standardized
from ocelad.lab.baselines.whitening import Whitening
from ocelad.lab.compare.adapters import (
    BatchAdapter,
    CurvedAdapter,
    EnsembleAdapter,
    FixedAdapter,
    LearnerAdapter,
    PairLearnerAdapter,
    ResettingAdapter,
    TrueMetricAdapter,
)
from ocelad.lab.compare.block_streams import DriftingStream, Stream, WordStream
from ocelad.lab.compare.methods import Categorical, LogUniform, Method, StreamInfo
from ocelad.lab.compare.scoring import BlockLearner
from ocelad.metric import Metric

#: The groups of methods in the order of ``--list``; on the command line, a group stands for all its methods.
GROUPS = ("ensembles", "online", "batch", "fixed")

# With more than MAX_FULLRANK_FEATURES features, a full-rank metric is slow with every engine.
_MAX_RANK = 30


def engine_settings(info: StreamInfo) -> dict[str, Any]:
    """Return the engine and the largest rank that suit the number of features."""
    engine: EngineName = "sparse" if info.sparse else "auto"
    return {"engine": engine, "max_rank": _MAX_RANK if info.n_features > MAX_FULLRANK_FEATURES else None}


def _rice(info: StreamInfo, *, n_scales: int | None = None, **settings: Any) -> BlockLearner:
    return EnsembleAdapter(track_metric(info.n_features, n_scales=n_scales, **engine_settings(info), **settings))


def _adaptive(info: StreamInfo) -> BlockLearner:
    return EnsembleAdapter(track_adaptive(info.n_features, sparse=info.sparse))


def _curved(info: StreamInfo) -> BlockLearner:
    return CurvedAdapter(CurvedTracker(info.n_features, sparse=info.sparse))


def _comid(info: StreamInfo, **settings: Any) -> BlockLearner:
    """Create one COMID learner: an ensemble of one scale, which never restarts and keeps its step size."""
    return _rice(info, n_scales=1, **settings)


def _decaying(info: StreamInfo, *, step_size: float, **settings: Any) -> BlockLearner:
    return EnsembleAdapter(
        scheduled_comid(info.n_features, rate=inverse_root(step_size), **engine_settings(info), **settings)
    )


def _oracle(info: StreamInfo, **settings: Any) -> BlockLearner:
    return ResettingAdapter(ResettingLearner(partial(_comid, info, **settings)))


def _learner(learner: Callable[..., Any], info: StreamInfo, **settings: Any) -> BlockLearner:
    return LearnerAdapter(learner(_start(info), **settings))


def _oasis(info: StreamInfo, **settings: Any) -> BlockLearner:
    return PairLearnerAdapter(Oasis(info.n_features, **settings))


def _cbce(info: StreamInfo, **settings: Any) -> BlockLearner:
    return EnsembleAdapter(cbce(info.n_features, **settings))


def _hedge(info: StreamInfo, *, step_sizes: Any, **settings: Any) -> BlockLearner:
    grid = step_sizes if isinstance(step_sizes, tuple) else (step_sizes,)
    return EnsembleAdapter(hedge(info.n_features, step_sizes=grid, **settings))


def _saol(info: StreamInfo, **settings: Any) -> BlockLearner:
    return EnsembleAdapter(saol(info.n_features, seed=info.seed, **settings))


def _ader(info: StreamInfo, **settings: Any) -> BlockLearner:
    return EnsembleAdapter(ader(info.n_features, horizon=info.rounds, **settings))


def _refitted(
    method: Callable[..., Any], from_points: bool, info: StreamInfo, *, every: int, window: int | None, **settings: Any
) -> BlockLearner:
    check_integer(every, "every", at_least=1)
    if window is not None:
        check_integer(window, "window", at_least=1)
    rows = 2 if from_points else 1  # per round
    tracker = PeriodicRefit(
        method(**settings),
        every=rows * every,
        window=None if window is None else rows * window,
        source="points" if from_points else "pairs",
        start=_start(info),
    )
    return BatchAdapter(tracker, from_points)


def _at_start(method: Callable[..., FitsPoints], info: StreamInfo, **settings: Any) -> BlockLearner:
    assert info.initial_points is not None
    return FixedAdapter(method(**settings).fit_points(*info.initial_points))


def _euclidean(info: StreamInfo) -> BlockLearner:
    return FixedAdapter(euclidean(info.n_features))


def _cosine(info: StreamInfo) -> BlockLearner:
    return FixedAdapter(CosineDistance(info.n_features))


def _truth(info: StreamInfo) -> BlockLearner:
    return TrueMetricAdapter(_start(info))


def _start(info: StreamInfo) -> Metric:
    """The start of all learners: M0 = I / n with the threshold mu0 = 1."""
    return euclidean(info.n_features)


# Two orders of magnitude around the step size that suits the paper's stream.
_STEP = LogUniform(3e-4, 3e-2)
_LOSS = Categorical(("hinge", "logistic"))
_REFIT = {"every": 200, "window": 500}
_WINDOWS = {"window": Categorical((200, 500, 1000))}
_LABELS: Any = frozenset({"labels"})


def _online(name: str, description: str, learner: Callable[..., Any], settings: Any, search: Any) -> Method:
    """Return the method of an online metric learner that starts from M0."""
    return Method(name, description, partial(_learner, learner), settings, search, group="online")


def _batch(
    name: str, description: str, method: Callable[..., Any], *, points: bool, search: Any = None, **settings: Any
) -> Method:
    """Return a batch method that is refitted every 200 rounds to the latest 500 rounds."""
    return Method(
        name,
        description,
        partial(_refitted, method, points),
        {**_REFIT, **settings},
        {**_WINDOWS, **(search or {})},
        requires=_LABELS if points else frozenset(),
        group="batch",
    )


_METHODS = [
    Method(
        "adaptive",
        "adaptive: calibrated distances with a bound on every interval; no settings",
        _adaptive,
        sparse=True,
        group="ensembles",
    ),
    Method(
        "curved",
        "adaptive with a curved part beside the linear one; no settings",
        _curved,
        sparse=True,
        group="ensembles",
    ),
    Method(
        "rice",
        "RICE-OCELAD, logistic loss",
        _rice,
        {"step_size": 1e-2, "loss": "logistic", "shrinkage": 0.0, "finest": "carry"},
        {"step_size": LogUniform(1e-3, 1e-1)},
        sparse=True,
        group="ensembles",
    ),
    Method(
        "rice-hinge",
        "RICE-OCELAD, the paper's hinge loss",
        _rice,
        {"step_size": 3e-3, "loss": "hinge", "shrinkage": 0.0, "finest": "carry"},
        {"step_size": _STEP},
        sparse=True,
        group="ensembles",
    ),
    Method(
        "saol",
        "SAOL: learners started from scratch, one drawn at random",
        _saol,
        {"step_size": 3e-2, "largest_loss": 1.0, "loss": "hinge"},
        {"step_size": LogUniform(3e-4, 3e-1), "largest_loss": Categorical((1.0, 3.0, 10.0)), "loss": _LOSS},
        group="ensembles",
    ),
    Method(
        "cbce",
        "CBCE: coin betting on the same intervals",
        _cbce,
        {"step_size": 1e-2, "largest_loss": 3.0, "loss": "hinge"},
        {"step_size": LogUniform(1e-3, 1e-1), "largest_loss": Categorical((1.0, 3.0, 10.0)), "loss": _LOSS},
        group="ensembles",
    ),
    Method(
        "ader",
        "Ader: Hedge over step sizes that depend on the length of the stream",
        _ader,
        {"diameter": 1.0, "loss_range": 4.0, "loss": "hinge"},
        {"diameter": LogUniform(1e-1, 1e1), "loss_range": LogUniform(0.3, 1e2), "loss": _LOSS},
        requires=frozenset({"length"}),
        group="ensembles",
    ),
    Method(
        "hedge",
        "Hedge over a grid of step sizes",
        _hedge,
        {"step_sizes": STEP_SIZES, "rate": 1e-3, "loss": "hinge"},
        {"rate": LogUniform(1e-5, 1.0), "loss": _LOSS},
        group="ensembles",
    ),
    Method(
        "comid",
        "COMID with a step size that suits drifting streams",
        _comid,
        {"step_size": 2e-3, "loss": "hinge", "shrinkage": 0.0},
        {"step_size": _STEP, "loss": _LOSS},
        sparse=True,
        group="online",
    ),
    Method(
        "comid-slow",
        "COMID with a step size that suits static streams",
        _comid,
        {"step_size": 1e-3, "loss": "hinge", "shrinkage": 0.0},
        sparse=True,
        group="online",
    ),
    Method(
        "comid-decaying",
        "COMID with the step size step_size / sqrt(t)",
        _decaying,
        {"step_size": 1e-2, "loss": "hinge", "shrinkage": 0.0},
        {"step_size": LogUniform(3e-3, 3e-1), "loss": _LOSS},
        sparse=True,
        group="online",
    ),
    Method(
        "comid-oracle",
        "COMID, reset at each concept change",
        _oracle,
        {"step_size": 2e-3, "loss": "hinge", "shrinkage": 0.0},
        {"step_size": _STEP, "loss": _LOSS},
        requires=frozenset({"changes"}),
        sparse=True,
        group="online",
    ),
    _online("itml-online", "online ITML: LogDet steps", OnlineItml, {"eta": 0.3}, {"eta": LogUniform(3e-2, 1.0)}),
    _online("lego", "LEGO: exact LogDet steps", Lego, {"eta": 3.0}, {"eta": LogUniform(1e-1, 3e1)}),
    _online(
        "pola",
        "POLA: two projections per pair",
        Pola,
        {"aggressiveness": None},
        {"aggressiveness": LogUniform(1e-4, 1e-1)},
    ),
    _online(
        "adagrad",
        "AdaGrad on the pair loss",
        AdaGrad,
        {"step_size": 0.03, "per": "entry", "loss": "hinge"},
        {"step_size": LogUniform(3e-3, 1e1), "per": Categorical(("entry", "matrix")), "loss": _LOSS},
    ),
    _online(
        "ftrl",
        "FTRL: follow the regularized leader",
        Ftrl,
        {"step_size": 0.01, "loss": "hinge"},
        {"step_size": LogUniform(1e-3, 1e-1), "loss": _LOSS},
    ),
    _online(
        "kissme",
        "KISSME: second moments that forget exponentially",
        ForgettingKissme,
        {"window": 256, "regularization": 0.1},
        {"window": Categorical((128, 256, 512)), "regularization": LogUniform(1e-2, 1.0)},
    ),
    Method(
        "oasis",
        "OASIS: a bilinear similarity from triplets of pairs",
        _oasis,
        {"aggressiveness": 0.01, "memory": 30},
        {"aggressiveness": LogUniform(1e-4, 1e-1)},
        group="online",
    ),
    Method(
        "lmnn-start",
        "LMNN fitted once to all labelled points before the first round",
        partial(_at_start, Lmnn),
        {"k": 3, "weight": 0.5, "max_iter": 25},  # more iterations do not change the error significantly
        requires=_LABELS,
        group="batch",
    ),
    _batch("lmnn", "LMNN on labelled points", Lmnn, points=True, k=3, weight=0.5, search={"k": Categorical((1, 3, 5))}),
    _batch("lmnn-pairs", "LMNN on pairs", Lmnn, points=False, weight=0.5, search={"weight": Categorical((0.5, 0.9))}),
    _batch("mmc", "MMC on pairs", Mmc, points=False, diagonal=False, search={"diagonal": Categorical((False, True))}),
    _batch("itml", "batch ITML on pairs", Itml, points=False, gamma=1.0, search={"gamma": LogUniform(1e-1, 1e2)}),
    _batch(
        "nca",
        "NCA on labelled points",
        Nca,
        points=True,
        n_components=None,
        search={"n_components": Categorical((None, 3))},
    ),
    _batch("lda", "LDA on labelled points", Lda, points=True),
    _batch(
        "pca",
        "PCA on points",
        Pca,
        points=False,
        n_components=10,
        search={"n_components": Categorical((3, 10, 20))},
    ),
    _batch("mds", "multidimensional scaling of the points of pairs", Mds, points=False),
    _batch("whitening", "the inverse covariance of points", Whitening, points=False),
    _batch("standardized", "Euclidean distance of standardized features", Standardized, points=False),
    Method(
        "standardized-start",
        "the same, by the variances of all points before the first round",
        partial(_at_start, Standardized),
        requires=_LABELS,
        group="batch",
    ),
    Method("euclidean", "Euclidean distance", _euclidean, sparse=True, group="fixed"),
    Method("cosine", "Euclidean distance of points scaled to unit length", _cosine, group="fixed"),
    Method(
        "truth", "the true metric, which generated the labels", _truth, requires=frozenset({"truth"}), group="fixed"
    ),
]

#: All methods by name.
METHODS: dict[str, Method] = {method.name: replace(method, built_in=True) for method in _METHODS}


def _words(seed: int) -> SwitchingWords:
    return SwitchingWords(seed=seed)


#: The built-in streams by name.
STREAMS: dict[str, Stream] = {
    **{name: DriftingStream(name, scenario.description, scenario.stream) for name, scenario in SCENARIOS.items()},
    "words": WordStream("words", "sparse documents, compared by topic and then by style", _words),
}

#: The methods of the paper's figure of the synthetic stream, and further ones for context.
FIGURE = (
    "rice",
    "rice-hinge",
    "saol",
    "comid",
    "comid-slow",
    "comid-decaying",
    "comid-oracle",
    "itml-online",
    "lmnn-start",
    "euclidean",
    "truth",
)
