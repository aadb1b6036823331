"""RICE: the retro-initialised ensemble of COMID learners, and OCELAD over it (Algorithm 2)."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from ocelad import checks
from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.online.bank import Finest, LearnerBank, Turn
from ocelad.online.comid import Comid, DivergenceName, LossName, RegularizerName
from ocelad.online.diagonal import DiagonalComid
from ocelad.online.dyadic import Scale, Schedule
from ocelad.online.elementwise import RELATIVE_GAP
from ocelad.online.ocelad import Ocelad
from ocelad.pairs import Event, Pair, as_dense, as_event

EngineName: TypeAlias = Literal["dense", "lowrank"]


class Rice(LearnerBank[Event, Metric]):
    """One COMID learner per scale, with step size ``eta0 / sqrt(length)``, each started from the scale below it.

    Parameters
    ----------
    start : Metric
        What the finest scale's first learner starts from (and every one, with ``finest="reset"``).
    step_size : float
        eta0.
    finest : {"carry", "ensemble", "reset"}
        See ``LearnerBank``.
    **objective
        ``loss``, ``divergence``, ``regularizer``, ``shrinkage``, ``max_norm`` and ``l1_tolerance`` of ``Comid``.
    """

    learner: type[Comid] = Comid

    def __init__(self, start: Metric, *, step_size: float, finest: Finest = "carry", **objective: Any) -> None:
        super().__init__(self._comid, Metric.average, finest=finest)
        self._first = self.learner(start, step_size=step_size, **objective)

    @property
    def step_size(self) -> float:
        """eta0."""
        return self._first.step_size

    def _comid(self, scale: Scale, start: Metric | None) -> Comid:
        return self._first.started(start or self._first.play(), self._first.step_size * scale.rate)

    def observe(self, event: Event | Pair, turn: Turn) -> tuple[Floats, Self]:
        """What each learner lost on the pair, and a bank in which each has learned from it."""
        u, y = as_event(event, self._first.play().n_features)
        return super().observe(Event(as_dense(u), y), turn)

    def mix(self, turn: Turn) -> Metric:
        """The weighted average of the learners' metrics, with the number of rounds that have passed."""
        return super().mix(turn).at(turn.round - 1)


class DiagonalRice(Rice):
    """``Rice`` of ``DiagonalComid`` learners: what ``DiagonalBank`` computes, one dense step after the other."""

    learner = DiagonalComid


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
    engine: EngineName = "dense",
    max_rank: int | None = None,
    diagonal: bool = False,
    l1_tolerance: float = RELATIVE_GAP,
) -> Ocelad[Event | Pair, Metric]:
    """RICE-OCELAD: track a changing metric from pairs (Algorithm 2).

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
    engine : {"dense", "lowrank"}
        "dense" is the readable definition. "lowrank" is the same mathematics in compiled eigenform, many times
        faster, for the squared Frobenius divergence with the nuclear norm or no regulariser (``MetricBank``).
    max_rank : int or None
        With "lowrank": at most so many directions per learner; see ``MetricBank``. None: as many as it takes.
    diagonal : bool
        Whether M is kept diagonal: one weight per feature, no correlations. Then a pair costs each learner what it has
        entries that are not zero, up to hundreds of thousands of features (``DiagonalBank``), with the divergence
        "frobenius", without ``max_norm``; the regularizers "nuclear" and "l1" are the same.
    l1_tolerance : float
        With the regularizer "l1" and a full matrix: up to which certified duality gap, relative to the regulariser, a
        step is computed. The default takes the longest; 1e-6 is many times faster. 1e-12 to 0.1.

    Returns
    -------
    Ocelad
        Feed it pairs, or their events, with ``step``; ``play`` gives the ``Metric`` now.

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
    """
    n = checks.whole(n_features, "n_features", at_least=1)
    if max_norm is not None:
        max_norm = checks.number(max_norm, "max_norm", above=0)
    if initial_scale is None:
        initial_scale = 1.0 / n if max_norm is None else min(1.0 / n, max_norm / np.sqrt(n))
    initial_scale = checks.number(initial_scale, "initial_scale", at_least=0, at_most=1e100)
    initial_threshold = checks.number(initial_threshold, "initial_threshold", at_least=1)
    checks.choice(engine, "engine", get_args(EngineName))
    if max_rank is not None and engine != "lowrank":
        raise ValueError(f"max_rank is of engine 'lowrank'; engine {engine!r} keeps every direction")
    if checks.choice(diagonal, "diagonal", (False, True)):
        if divergence != "frobenius" or max_norm is not None or engine != "dense":
            raise ValueError(
                "diagonal=True needs the divergence 'frobenius', no max_norm, and no engine but the default one; "
                f"got divergence={divergence!r}, max_norm={max_norm!r}, engine={engine!r}"
            )
        weights = Metric.from_diagonal(np.full(n, initial_scale), initial_threshold)
        # Refuses what has no meaning.
        first = DiagonalComid(weights, step_size=step_size, loss=loss, regularizer=regularizer, shrinkage=shrinkage)
        from ocelad.online.diagonal_bank import DiagonalBank  # imports numba

        diagonals = DiagonalBank(
            n,
            Schedule(shortest_interval, n_scales),
            initial_scale=initial_scale,
            initial_threshold=initial_threshold,
            step_size=first.step_size,
            loss=loss,
            shrinkage=shrinkage,
            finest=finest,
        )
        return Ocelad(diagonals, shortest_interval=shortest_interval, n_scales=n_scales)
    start = Metric(initial_scale * np.eye(n), initial_threshold)
    definition = Rice(
        start,
        step_size=step_size,
        finest=finest,
        loss=loss,
        divergence=divergence,
        regularizer=regularizer,
        shrinkage=shrinkage,
        max_norm=max_norm,
        l1_tolerance=l1_tolerance,
    )
    if engine == "dense":
        return Ocelad(definition, shortest_interval=shortest_interval, n_scales=n_scales)
    if divergence != "frobenius" or (regularizer == "l1" and shrinkage > 0):
        raise ValueError(
            "engine 'lowrank' needs the divergence 'frobenius' and the regularizer 'nuclear' or None; "
            "engine 'dense' takes all"
        )
    from ocelad.online.metric_bank import MetricBank  # imports numba

    bank = MetricBank(
        n,
        Schedule(shortest_interval, n_scales),
        initial_scale=initial_scale,
        initial_threshold=initial_threshold,
        step_size=definition.step_size,
        loss=loss,
        shrinkage=shrinkage,
        max_norm=max_norm,
        finest=finest,
        max_rank=max_rank,
    )
    return Ocelad(bank, shortest_interval=shortest_interval, n_scales=n_scales)
