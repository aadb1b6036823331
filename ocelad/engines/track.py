"""track_metric: RICE-OCELAD (Algorithm 2), computed by the engine that suits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import numpy as np

from ocelad._typing import Arrays, Metadata
from ocelad._validation import check_choice, check_integer, check_number
from ocelad.engines.rice_bank import DiagonalRiceBank, RiceBank
from ocelad.ensemble.bank import Finest, RoundState, Starts
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader, prefixed
from ocelad.learners.comid import Comid, DivergenceName, LossName, RegularizerName
from ocelad.learners.diagonal_comid import DiagonalComid
from ocelad.learners.l1_prox import RELATIVE_GAP
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import Event, EventsName, Pair, Relative

if TYPE_CHECKING:
    from ocelad.engines.compiled_bank import CompiledBank

EngineName: TypeAlias = Literal["auto", "dense", "fullrank", "lowrank", "blocked", "sparse"]

# Where which engine is the fastest; measured by benchmarks/engines.py.
FULLRANK_TO = 300
BLOCKED_FROM = 1000
SPARSE_FROM = 2000
# The first rounds of few features are played by the definition, while a compiled engine would still be loaded.
PRELUDE_ROUNDS = 8
PRELUDE_FEATURES = 64


def choose_engine(
    n_features: int,
    divergence: DivergenceName,
    regularizer: RegularizerName | None,
    shrinkage: float,
    max_rank: int | None = None,
    sparse: bool = False,
    events: EventsName = "pairs",
) -> EngineName:
    """What "auto" comes to.

    >>> choose_engine(25, "frobenius", "nuclear", shrinkage=0.0)
    'fullrank'
    >>> choose_engine(100_000, "frobenius", "nuclear", shrinkage=0.1, sparse=True)
    'sparse'
    """
    if divergence != "frobenius" or (regularizer == "l1" and shrinkage > 0):
        return "dense"
    if sparse and n_features >= SPARSE_FROM and events == "pairs":
        return "sparse"
    if shrinkage == 0 and max_rank is None and n_features <= FULLRANK_TO:
        return "fullrank"
    return "lowrank" if n_features < BLOCKED_FROM or events == "relatives" else "blocked"


def track_metric(
    n_features: int,
    *,
    loss: LossName = "logistic",
    step_size: float = 1e-2,
    shrinkage: float = 0.0,
    regularizer: RegularizerName | None = "nuclear",
    divergence: DivergenceName = "frobenius",
    shortest_interval: int = 1,
    n_scales: int | None = None,
    finest: Finest = "carry",
    initial_scale: float | None = None,
    initial_threshold: float = 1.0,
    max_norm: float | None = None,
    engine: EngineName = "auto",
    max_rank: int | None = None,
    diagonal: bool = False,
    l1_tolerance: float = RELATIVE_GAP,
    events: EventsName = "pairs",
) -> Ocelad[Event | Pair | Relative, Metric]:
    """RICE-OCELAD: track a changing metric from pairs, or from relative comparisons (Algorithm 2).

    Parameters
    ----------
    n_features : int
        How many features the points have.
    loss : {"logistic", "hinge", "squared_hinge"}
        Of the margin; the paper's is the hinge, for which ``step_size=3e-3`` suits the paper's data.
    step_size : float
        eta0; scale j takes steps of ``step_size / sqrt(interval length)``. What suits depends on the scale of
        the data: a step moves a pair's squared distance by up to ``step_size * |u|**4``, so that data twice as
        large want a step about 16 times smaller. The default suits ``|u|**2`` around 40.
    shrinkage : float
        rho, how strongly the regulariser pulls.
    regularizer : {"nuclear", "l1", None}
        What is kept small: the eigenvalues, the entries, or nothing.
    divergence : {"frobenius", "von_neumann", "burg"}
        What keeps a step near the last estimate.
    shortest_interval : int
        I0, the length of the finest scale's intervals.
    n_scales : int or None
        At most this many scales; None: as many as the stream needs.
    finest : {"carry", "ensemble", "reset"}
        What the finest scale starts from when its interval ends.
    initial_scale : float or None
        M0 = initial_scale * I; None: 1 / n_features, or less where ``max_norm`` asks for less.
    initial_threshold : float
        mu0, 1 or more.
    max_norm : float or None
        Bound on the Frobenius norm of the metric; None: no bound.
    engine : {"auto", "dense", "fullrank", "lowrank", "blocked", "sparse"}
        How it is computed; the result is the same to about 13 digits. "auto" chooses (see Notes), and ``bank.engine``
        of what is returned says which it is.
    max_rank : int or None
        At most so many directions per learner; see ``LowRankBank``. None: as many as it takes.
    diagonal : bool
        Whether M is kept diagonal: one weight per feature, no correlations. Then a pair costs each learner what it has
        entries that are not zero, up to hundreds of thousands of features (``DiagonalBank``), with the divergence
        "frobenius", without ``max_norm``; the regularizers "nuclear" and "l1" are the same.
    l1_tolerance : float
        With the regularizer "l1" and a full matrix: up to which certified duality gap, relative to the regulariser, a
        step is computed. The default takes the longest; 1e-6 is many times faster. 1e-12 to 0.1.
    events : {"pairs", "relatives"}
        What it learns from: pairs that are similar or not, or relative comparisons, "x is nearer to a than to b"
        (``Relative``). The latter say nothing of the threshold, which stays at ``initial_threshold``, and the engines
        "blocked" and "sparse" do not take them.

    Returns
    -------
    Ocelad
        Feed it pairs, or their events, or each ``Relative``, with ``step``; ``play`` gives the ``Metric`` now.

    Examples
    --------
    >>> from ocelad import Pair
    >>> tracker = track_metric(n_features=2, step_size=0.1)
    >>> for _ in range(50):
    ...     _ = tracker.step(Pair([0.0, 2.0], [0.0, 0.0], similar=True))
    ...     _ = tracker.step(Pair([2.0, 0.0], [0.0, 0.0], similar=False))
    >>> metric = tracker.play()
    >>> metric.similar([0.0, 2.0], [0.0, 0.0]), metric.similar([2.0, 0.0], [0.0, 0.0])
    (True, False)
    >>> track_metric(n_features=2000, shrinkage=0.1).bank.engine
    'blocked'

    Notes
    -----
    "dense" is the readable definition, an eigendecomposition per learner and pair, and takes every setting. The others
    are compiled, for the divergence "frobenius" without the L1 norm:

    - "fullrank": full matrices, eight learners at once; for ``shrinkage=0`` and few features;
    - "lowrank": an eigenform of each metric, which shrinkage keeps at low rank;
    - "blocked": the same, whose work on long vectors is done for many pairs at once, as products of matrices;
    - "sparse": the same for sparse pairs (SciPy rows, or ``SparseVector``), up to hundreds of thousands of features.

    "auto" takes "sparse" only in ``MetricTracker``, which sees its pairs first. Without shrinkage and ``max_rank``
    metrics come to have full rank, and many features are slow with every engine: a little shrinkage is the remedy. Up
    to 64 features "auto" plays the first 8 rounds by the definition, so that a few pairs wait for no compiler.
    """
    bank, settings = comid_bank(
        n_features,
        Schedule(shortest_interval, n_scales),
        loss=loss,
        shrinkage=shrinkage,
        regularizer=regularizer,
        divergence=divergence,
        step_size=step_size,
        finest=finest,
        initial_scale=initial_scale,
        initial_threshold=initial_threshold,
        max_norm=max_norm,
        engine=engine,
        max_rank=max_rank,
        diagonal=diagonal,
        l1_tolerance=l1_tolerance,
        events=events,
    )
    return Ocelad(bank, shortest_interval=shortest_interval, n_scales=n_scales, settings=settings)


def comid_bank(
    n_features: int,
    schedule: Schedule,
    *,
    starts: Starts = "below",
    step_schedule: StepSchedule | None = None,
    loss: LossName = "logistic",
    step_size: float = 1e-2,
    shrinkage: float = 0.0,
    regularizer: RegularizerName | None = "nuclear",
    divergence: DivergenceName = "frobenius",
    finest: Finest = "carry",
    initial_scale: float | None = None,
    initial_threshold: float = 1.0,
    max_norm: float | None = None,
    engine: EngineName = "auto",
    max_rank: int | None = None,
    diagonal: bool = False,
    l1_tolerance: float = RELATIVE_GAP,
    events: EventsName = "pairs",
) -> tuple[Any, dict[str, Any]]:
    """The bank of COMID metric learners that an ensemble stands on, and the settings that it was made with.

    Parameters
    ----------
    schedule : Schedule
        Of the ensemble.
    starts : {"below", "ensemble", "scratch"}
        What scales above the finest start from; see ``LearnerBank``.
    pace : callable t -> float, or None
        What all step sizes are multiplied by in round t; None: by 1. It is not among the settings that are returned.
    n_features, loss, step_size, ...
        As in ``track_metric``.

    Examples
    --------
    >>> bank, settings = comid_bank(2, Schedule(), starts="scratch", finest="reset")
    >>> Ocelad(bank, schedule=Schedule(), settings=settings).play()
    Metric(n_features=2, threshold=1, round=0)
    """
    n = check_integer(n_features, "n_features", at_least=1)
    if max_norm is not None:
        max_norm = check_number(max_norm, "max_norm", above=0)
    if initial_scale is None:
        initial_scale = 1.0 / n if max_norm is None else min(1.0 / n, max_norm / np.sqrt(n))
    initial_scale = check_number(initial_scale, "initial_scale", at_least=0, at_most=1e100)
    initial_threshold = check_number(initial_threshold, "initial_threshold", at_least=1)
    check_choice(engine, "engine", get_args(EngineName))
    check_choice(finest, "finest", get_args(Finest))
    check_choice(starts, "starts", get_args(Starts))
    if check_choice(events, "events", get_args(EventsName)) == "relatives" and engine in ("blocked", "sparse"):
        raise ValueError(f"engine {engine!r} learns from pairs only; of relative comparisons 'lowrank' is the one")
    if max_rank is not None:
        check_integer(max_rank, "max_rank", at_least=1)
    objective: dict[str, Any] = {"loss": loss, "regularizer": regularizer, "shrinkage": shrinkage}
    ensemble: dict[str, Any] = {"finest": finest, "events": events, "starts": starts, "step_schedule": step_schedule}

    def with_settings(bank: Any) -> tuple[Any, dict[str, Any]]:
        settings = {
            "n_features": n,
            "loss": loss,
            "step_size": float(step_size),
            "shrinkage": float(shrinkage),
            "regularizer": regularizer,
            "divergence": divergence,
            "finest": finest,
            "initial_scale": initial_scale,
            "initial_threshold": initial_threshold,
            "max_norm": max_norm,
            "engine": engine,
            "max_rank": None if max_rank is None else int(max_rank),
            "diagonal": diagonal,
            "events": events,
            "l1_tolerance": check_number(l1_tolerance, "l1_tolerance"),
        }
        return bank, settings if starts == "below" else {**settings, "starts": starts}

    if check_choice(diagonal, "diagonal", (False, True)):
        if divergence != "frobenius" or max_norm is not None or max_rank is not None or engine not in ("auto", "dense"):
            raise ValueError(
                "diagonal=True needs the divergence 'frobenius', no max_norm, no max_rank, engine 'auto' or 'dense'; "
                f"got {divergence=}, {max_norm=}, {max_rank=}, {engine=}"
            )
        weights = Metric.from_diagonal(np.full(n, initial_scale), initial_threshold)
        if engine == "dense":
            return with_settings(DiagonalRiceBank(weights, step_size=step_size, **ensemble, **objective))
        DiagonalComid(weights, step_size=step_size, **objective)  # refuses what has no meaning
        from ocelad.engines.diagonal_bank import DiagonalBank  # imports numba

        return with_settings(
            DiagonalBank(
                n,
                schedule,
                initial_scale=initial_scale,
                initial_threshold=initial_threshold,
                step_size=step_size,
                loss=loss,
                shrinkage=shrinkage,
                **ensemble,
            )
        )

    objective |= {"divergence": divergence, "max_norm": max_norm, "l1_tolerance": l1_tolerance}
    # Refuses what has no meaning; one feature with the norm that all have together stands for them.
    Comid(Metric([[initial_scale * np.sqrt(n)]], initial_threshold), step_size=step_size, **objective)
    chosen = engine
    if engine == "auto":
        chosen = choose_engine(n, divergence, regularizer, shrinkage, max_rank, events=events)
    if max_rank is not None and chosen in ("dense", "fullrank"):
        raise ValueError(
            f"max_rank is of the engines 'lowrank', 'blocked' and 'sparse'; {chosen!r} keeps every direction"
        )

    def definition() -> RiceBank:
        start = Metric(initial_scale * np.eye(n), initial_threshold)
        return RiceBank(start, step_size=step_size, **ensemble, **objective)

    if chosen == "dense":
        return with_settings(definition())
    if choose_engine(n, divergence, regularizer, shrinkage) == "dense":
        raise ValueError(
            f"engine {chosen!r} needs the divergence 'frobenius' and the regularizer 'nuclear' or None; "
            "engine 'dense' takes all"
        )
    if chosen == "fullrank" and shrinkage > 0:
        raise ValueError("engine 'fullrank' needs shrinkage 0; 'lowrank' is the one for shrinkage")

    compiled = partial(
        compiled_bank,
        chosen,
        n,
        schedule,
        shrinkage=shrinkage,
        max_rank=max_rank,
        initial_scale=initial_scale,
        initial_threshold=initial_threshold,
        step_size=step_size,
        loss=loss,
        max_norm=max_norm,
        **ensemble,
    )
    if engine == "auto" and n <= PRELUDE_FEATURES and max_rank is None and starts == "below":
        return with_settings(WarmupBank(definition(), chosen, compiled))
    return with_settings(compiled())


def resume_metric(arrays: Arrays, metadata: Metadata) -> Ocelad[Event | Pair | Relative, Metric]:
    """The tracker of ``track_metric`` that ``Ocelad.state`` was called on: it goes on to the same bits.

    >>> tracker = track_metric(n_features=3, step_size=0.1)
    >>> resume_metric(*tracker.state()).play() == tracker.play()
    True
    """
    settings, bank = metadata.get("settings"), metadata.get("bank")
    if not isinstance(settings, Mapping) or settings.keys() != signature(track_metric).parameters.keys():
        raise ValueError(f"its settings are not those of track_metric: {settings}")
    tracker = track_metric(**settings)
    engine = bank.get("engine") if isinstance(bank, Mapping) else None
    if engine != tracker.bank.engine:  # type: ignore[attr-defined]  # what "auto" comes to may change
        tracker = track_metric(**{**settings, "engine": engine})
    tracker.restore(arrays, metadata)
    return tracker


def compiled_bank(
    engine: EngineName, n: int, schedule: Schedule, *, shrinkage: float, max_rank: int | None, **settings: Any
) -> CompiledBank:
    """The bank of a compiled engine. numba is imported here and not before."""
    if engine == "fullrank":
        from ocelad.engines.fullrank_bank import FullRankBank

        return FullRankBank(n, schedule, **settings)
    from ocelad.engines.blocked_bank import BlockedBank, SparseBank
    from ocelad.engines.lowrank_bank import LowRankBank

    banks: dict[str, type[LowRankBank]] = {"lowrank": LowRankBank, "blocked": BlockedBank, "sparse": SparseBank}
    return banks[engine](n, schedule, shrinkage=shrinkage, max_rank=max_rank, **settings)


class WarmupBank:
    """A bank that plays the first rounds by the definition and then hands over to a compiled one.

    Parameters
    ----------
    definition : Rice
    engine : str
        The name of what follows.
    compiled : callable () -> CompiledBank
        Makes it.
    """

    def __init__(self, definition: RiceBank, engine: str, compiled: Callable[[], CompiledBank]) -> None:
        self._definition = definition
        self.engine = engine
        self._compiled = compiled

    def start(self, round_state: RoundState) -> Any:
        """A bank in which the scales that start have new learners: this one, or the one that follows."""
        definition = self._definition.start(round_state)
        if round_state.round <= PRELUDE_ROUNDS:
            return self._with(definition)
        return self._compiled().taking_over(definition.held(round_state))

    def taking_over(self, metrics: Sequence[Metric], round_state: RoundState, schedule: Schedule) -> Any:
        """A bank with learners that hold these metrics in this round: this one, or the one that follows."""
        if round_state.round <= PRELUDE_ROUNDS:
            return self._with(self._definition.taking_over(metrics, schedule))
        return self._compiled().taking_over(metrics)

    def held(self, round_state: RoundState) -> list[Metric]:
        """The metrics that the active learners hold, the finest scale's first."""
        return self._definition.held(round_state)

    def observe(self, event: Event | Pair | Relative, round_state: RoundState) -> tuple[Any, Self]:
        """What each learner lost on the event, and a bank in which each has learned from it."""
        losses, definition = self._definition.observe(event, round_state)
        return losses, self._with(definition)

    def mix(self, round_state: RoundState) -> Metric:
        """The weighted average of the learners' metrics."""
        return self._definition.mix(round_state)

    def state(self) -> tuple[Arrays, Metadata]:
        """That of the definition."""
        arrays, metadata = self._definition.state()
        return prefixed("prelude", arrays), {"engine": self.engine, "prelude": metadata}

    def restored(self, saved: StateReader, round_state: RoundState) -> Any:
        """A bank as it was when ``state`` was called: this one, or the one that follows."""
        if not saved.has("prelude"):
            return self._compiled().restored(saved, round_state)
        saved.same("engine", self.engine)
        return self._with(self._definition.restored(saved.part("prelude"), round_state))

    def _with(self, definition: RiceBank) -> Self:
        return type(self)(definition, self.engine, self._compiled)
