"""The methods and the streams that can be compared by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ocelad._validation import check_integer
from ocelad.adaptive.track import track_adaptive
from ocelad.engines.track import FULLRANK_TO, EngineName, track_metric
from ocelad.evaluation.streams import SCENARIOS, SwitchingWords
from ocelad.lab.baselines.adagrad import AdaGrad
from ocelad.lab.baselines.ader import ader
from ocelad.lab.baselines.batch import FitsPoints, Refitted
from ocelad.lab.baselines.cbce import cbce
from ocelad.lab.baselines.comid_variants import Reinitialised, inverse_root, rated_comid
from ocelad.lab.baselines.ftrl import Ftrl
from ocelad.lab.baselines.hedge import STEP_SIZES, hedge
from ocelad.lab.baselines.itml import Itml
from ocelad.lab.baselines.itml_online import OnlineItml
from ocelad.lab.baselines.lda import Lda
from ocelad.lab.baselines.lego import Lego
from ocelad.lab.baselines.lmnn import Lmnn
from ocelad.lab.baselines.mds import Mds
from ocelad.lab.baselines.mmc import Mmc
from ocelad.lab.baselines.nca import Nca
from ocelad.lab.baselines.oasis import Oasis
from ocelad.lab.baselines.pca import Pca
from ocelad.lab.baselines.plain import Whitened, euclidean
from ocelad.lab.baselines.pola import Pola
from ocelad.lab.baselines.saol import saol
from ocelad.lab.compare.comparison_streams import DriftingStream, Stream, WordStream
from ocelad.lab.compare.contestants import Batch, Ensemble, Fixed, OfPoints, Single, ToldOfChanges, Truth
from ocelad.lab.compare.methods import Between, Method, OneOf, Setting
from ocelad.lab.compare.scoring import Contender
from ocelad.metric import Metric

#: What methods are, in the order of ``--list``; each name stands for all of the kind.
GROUPS = ("ensembles", "online", "batch", "plain")

# Above FULLRANK_TO features a metric of full rank takes long with every engine.
_MOST_DIRECTIONS = 30


def _engine(setting: Setting) -> dict[str, Any]:
    engine: EngineName = "sparse" if setting.sparse else "auto"
    return {"engine": engine, "max_rank": _MOST_DIRECTIONS if setting.n_features > FULLRANK_TO else None}


def _rice(setting: Setting, *, n_scales: int | None = None, **settings: Any) -> Contender:
    return Ensemble(track_metric(setting.n_features, n_scales=n_scales, **_engine(setting), **settings))


def _adaptive(setting: Setting) -> Contender:
    return Ensemble(track_adaptive(setting.n_features, sparse=setting.sparse))


def _comid(setting: Setting, **settings: Any) -> Contender:
    """One scale alone: it carries on, and its step size stays the same."""
    return _rice(setting, n_scales=1, **settings)


def _decaying(setting: Setting, *, step_size: float, **settings: Any) -> Contender:
    return Ensemble(rated_comid(setting.n_features, rate=inverse_root(step_size), **_engine(setting), **settings))


def _oracle(setting: Setting, **settings: Any) -> Contender:
    return ToldOfChanges(Reinitialised(partial(_comid, setting, **settings)))


def _learner(learner: Callable[..., Any], setting: Setting, **settings: Any) -> Contender:
    return Single(learner(_start(setting), **settings))


def _oasis(setting: Setting, **settings: Any) -> Contender:
    return OfPoints(Oasis(setting.n_features, **settings))


def _cbce(setting: Setting, **settings: Any) -> Contender:
    return Ensemble(cbce(setting.n_features, **settings))


def _hedge(setting: Setting, *, step_sizes: Any, **settings: Any) -> Contender:
    several = step_sizes if isinstance(step_sizes, tuple) else (step_sizes,)
    return Ensemble(hedge(setting.n_features, step_sizes=several, **settings))


def _saol(setting: Setting, **settings: Any) -> Contender:
    return Ensemble(saol(setting.n_features, seed=setting.seed, **settings))


def _ader(setting: Setting, **settings: Any) -> Contender:
    return Ensemble(ader(setting.n_features, horizon=setting.rounds, **settings))


def _refitted(
    method: Callable[..., Any], from_points: bool, setting: Setting, *, every: int, window: int | None, **settings: Any
) -> Contender:
    check_integer(every, "every", at_least=1)
    if window is not None:
        check_integer(window, "window", at_least=1)
    rows = 2 if from_points else 1  # of a round
    refitted = Refitted(
        method(**settings),
        every=rows * every,
        window=None if window is None else rows * window,
        from_="points" if from_points else "pairs",
        start=_start(setting),
    )
    return Batch(refitted, from_points)


def _at_start(method: Callable[..., FitsPoints], setting: Setting, **settings: Any) -> Contender:
    assert setting.opening is not None
    return Fixed(method(**settings).fit_points(*setting.opening))


def _euclidean(setting: Setting) -> Contender:
    return Fixed(euclidean(setting.n_features))


def _truth(setting: Setting) -> Contender:
    return Truth(_start(setting))


def _start(setting: Setting) -> Metric:
    """M0 = I / n, mu0 = 1: where all begin."""
    return euclidean(setting.n_features)


# A step size is tried over two orders of magnitude around what suits the paper's stream.
_STEP = Between(3e-4, 3e-2)
_LOSS = OneOf(("hinge", "logistic"))
_REFIT = {"every": 200, "window": 500}
_WINDOWS = {"window": OneOf((200, 500, 1000))}
_LABELS: Any = frozenset({"labels"})


def _online(name: str, metadata: str, learner: Callable[..., Any], settings: Any, search: Any) -> Method:
    """A learner of a metric that starts from M0."""
    return Method(name, metadata, partial(_learner, learner), settings, search, group="online")


def _batch(
    name: str, metadata: str, method: Callable[..., Any], *, points: bool, search: Any = None, **settings: Any
) -> Method:
    """A batch method that is fitted anew every 200 rounds to the last 500 of them."""
    return Method(
        name,
        metadata,
        partial(_refitted, method, points),
        {**_REFIT, **settings},
        {**_WINDOWS, **(search or {})},
        needs=_LABELS if points else frozenset(),
        group="batch",
    )


_METHODS = [
    Method(
        "adaptive",
        "experts of different kinds, calibrated and mixed; nothing to set",
        _adaptive,
        sparse=True,
        group="ensembles",
    ),
    Method(
        "rice",
        "RICE-OCELAD, logistic loss",
        _rice,
        {"step_size": 1e-2, "loss": "logistic", "shrinkage": 0.0, "finest": "carry"},
        {"step_size": Between(1e-3, 1e-1)},
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
        "SAOL: fresh learners, one drawn at random",
        _saol,
        {"step_size": 3e-2, "largest_loss": 1.0, "loss": "hinge"},
        {"step_size": Between(3e-4, 3e-1), "largest_loss": OneOf((1.0, 3.0, 10.0)), "loss": _LOSS},
        group="ensembles",
    ),
    Method(
        "cbce",
        "coin betting over the same intervals",
        _cbce,
        {"step_size": 1e-2, "largest_loss": 3.0, "loss": "hinge"},
        {"step_size": Between(1e-3, 1e-1), "largest_loss": OneOf((1.0, 3.0, 10.0)), "loss": _LOSS},
        group="ensembles",
    ),
    Method(
        "ader",
        "Ader: a grid of step sizes by the length of the stream, weighed by Hedge",
        _ader,
        {"diameter": 1.0, "loss_range": 4.0, "loss": "hinge"},
        {"diameter": Between(1e-1, 1e1), "loss_range": Between(0.3, 1e2), "loss": _LOSS},
        needs=frozenset({"length"}),
        group="ensembles",
    ),
    Method(
        "hedge",
        "Hedge over given step sizes",
        _hedge,
        {"step_sizes": STEP_SIZES, "rate": 1e-3, "loss": "hinge"},
        {"rate": Between(1e-5, 1.0), "loss": _LOSS},
        group="ensembles",
    ),
    Method(
        "comid",
        "COMID with one step size, as suits drift",
        _comid,
        {"step_size": 2e-3, "loss": "hinge", "shrinkage": 0.0},
        {"step_size": _STEP, "loss": _LOSS},
        sparse=True,
        group="online",
    ),
    Method(
        "comid-slow",
        "the same, as suits a world at rest",
        _comid,
        {"step_size": 1e-3, "loss": "hinge", "shrinkage": 0.0},
        sparse=True,
        group="online",
    ),
    Method(
        "comid-decaying",
        "COMID with step_size / sqrt(t)",
        _decaying,
        {"step_size": 1e-2, "loss": "hinge", "shrinkage": 0.0},
        {"step_size": Between(3e-3, 3e-1), "loss": _LOSS},
        sparse=True,
        group="online",
    ),
    Method(
        "comid-oracle",
        "COMID, made anew when the question changes",
        _oracle,
        {"step_size": 2e-3, "loss": "hinge", "shrinkage": 0.0},
        {"step_size": _STEP, "loss": _LOSS},
        needs=frozenset({"changes"}),
        sparse=True,
        group="online",
    ),
    _online("itml-online", "online ITML: LogDet steps", OnlineItml, {"eta": 0.3}, {"eta": Between(3e-2, 1.0)}),
    _online("lego", "LEGO: exact LogDet steps", Lego, {"eta": 3.0}, {"eta": Between(1e-1, 3e1)}),
    _online("pola", "POLA: two projections", Pola, {"aggressiveness": None}, {"aggressiveness": Between(1e-4, 1e-1)}),
    _online(
        "adagrad",
        "AdaGrad of the pair loss",
        AdaGrad,
        {"step_size": 0.03, "per": "entry", "loss": "hinge"},
        {"step_size": Between(3e-3, 1e1), "per": OneOf(("entry", "matrix")), "loss": _LOSS},
    ),
    _online(
        "ftrl",
        "follow the regularised leader",
        Ftrl,
        {"step_size": 0.01, "loss": "hinge"},
        {"step_size": Between(1e-3, 1e-1), "loss": _LOSS},
    ),
    Method(
        "oasis",
        "OASIS: a similarity, from triplets made of pairs",
        _oasis,
        {"aggressiveness": 0.01, "memory": 30},
        {"aggressiveness": Between(1e-4, 1e-1)},
        group="online",
    ),
    Method(
        "lmnn-start",
        "LMNN of all points with their classes before the first round, never again",
        partial(_at_start, Lmnn),
        {"k": 3, "weight": 0.5, "max_iter": 25},  # with more the error is the same within chance
        needs=_LABELS,
        group="batch",
    ),
    _batch("lmnn", "LMNN of labelled points", Lmnn, points=True, k=3, weight=0.5, search={"k": OneOf((1, 3, 5))}),
    _batch("lmnn-pairs", "LMNN of pairs", Lmnn, points=False, weight=0.5, search={"weight": OneOf((0.5, 0.9))}),
    _batch("mmc", "MMC of pairs", Mmc, points=False, diagonal=False, search={"diagonal": OneOf((False, True))}),
    _batch("itml", "batch ITML of pairs", Itml, points=False, gamma=1.0, search={"gamma": Between(1e-1, 1e2)}),
    _batch(
        "nca",
        "neighbourhood components analysis of labelled points",
        Nca,
        points=True,
        n_components=None,
        search={"n_components": OneOf((None, 3))},
    ),
    _batch("lda", "linear discriminant analysis of labelled points", Lda, points=True),
    _batch(
        "pca",
        "principal components of points",
        Pca,
        points=False,
        n_components=10,
        search={"n_components": OneOf((3, 10, 20))},
    ),
    _batch("mds", "multidimensional scaling of pairs", Mds, points=False),
    _batch("whitened", "inverse covariance of points", Whitened, points=False),
    Method("euclidean", "Euclidean distance, which learns nothing", _euclidean, sparse=True, group="plain"),
    Method("truth", "the metric that the pairs were answered by", _truth, needs=frozenset({"truth"}), group="plain"),
]

#: All methods by their names.
METHODS: dict[str, Method] = {method.name: method for method in _METHODS}


def _words(seed: int) -> SwitchingWords:
    return SwitchingWords(seed=seed)


#: The built-in streams by their names.
STREAMS: dict[str, Stream] = {
    **{name: DriftingStream(name, scenario.description, scenario.stream) for name, scenario in SCENARIOS.items()},
    "words": WordStream("words", "sparse documents, by their topic and then by their style", _words),
}

#: What the paper's figure of the synthetic stream compares, and what else is needed to read it.
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
