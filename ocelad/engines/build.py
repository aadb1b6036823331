"""build_bank: the bank of COMID metric learners of an ensemble, with the engine that suits the settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from ocelad._validation import check_choice, check_integer
from ocelad.engines.choose import choose_engine
from ocelad.engines.rice_bank import DiagonalRiceBank, RiceBank
from ocelad.engines.rice_settings import EngineName, Rice
from ocelad.engines.warmup_bank import MAX_WARMUP_FEATURES, WarmupBank
from ocelad.ensemble.bank import Starts
from ocelad.ensemble.schedule import Schedule
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import EventsName

if TYPE_CHECKING:
    from ocelad.engines.compiled_bank import CompiledBank
    from ocelad.engines.kernel_loading import Family


def build_bank(
    n_features: int,
    rice: Rice,
    schedule: Schedule,
    *,
    starts: Starts = "below",
    step_schedule: StepSchedule | None = None,
    events: EventsName = "pairs",
) -> tuple[Any, dict[str, Any]]:
    """Build a bank of COMID metric learners; also return the settings that ``Ocelad`` saves with it.

    Parameters
    ----------
    n_features : int
    rice : Rice
        The settings of the learners. The schedule replaces its ``shortest_interval`` and ``n_scales``.
    schedule : Schedule
        The schedule of the ensemble.
    starts : {"below", "ensemble", "scratch"}
        How learners above the finest scale start; see ``LearnerBank``.
    step_schedule : callable t -> float, or None
        The factor of all step sizes in round t; None: 1. It is not among the returned settings.
    events : {"pairs", "relatives"}

    Examples
    --------
    >>> from ocelad import Ocelad
    >>> bank, settings = build_bank(2, Rice(finest="reset"), Schedule(), starts="scratch")
    >>> Ocelad(bank, schedule=Schedule(), settings=settings).play()
    Metric(n_features=2, threshold=1, round=0)
    """
    n = check_integer(n_features, "n_features", at_least=1)
    rice = rice.validate(n, events)
    check_choice(starts, "starts", get_args(Starts))
    ensemble: dict[str, Any] = {
        "finest": rice.finest,
        "events": events,
        "starts": starts,
        "step_schedule": step_schedule,
    }
    settings = _saved_settings(n, rice, events, starts)
    if rice.diagonal:
        return _build_diagonal(n, rice, schedule, ensemble), settings
    engine = choose_engine(n, rice, events=events)
    if engine == "dense":
        return _build_dense(n, rice, ensemble), settings
    build = partial(build_compiled, engine, n, schedule, **_compiled_settings(rice), **ensemble)
    if rice.engine == "auto" and n <= MAX_WARMUP_FEATURES and rice.max_rank is None and starts == "below":
        return WarmupBank(_build_dense(n, rice, ensemble), cast("Family", engine), n, build), settings
    return build(), settings


def build_compiled(
    engine: EngineName, n: int, schedule: Schedule, *, shrinkage: float, max_rank: int | None, **settings: Any
) -> CompiledBank:
    """Build the bank of a compiled engine. This imports numba, so it is delayed until the bank is needed."""
    if engine == "fullrank":
        from ocelad.engines.fullrank_bank import FullRankBank

        return FullRankBank(n, schedule, **settings)
    from ocelad.engines.blocked_bank import BlockedBank, SparseBank
    from ocelad.engines.lowrank_bank import LowRankBank

    banks: dict[str, type[LowRankBank]] = {"lowrank": LowRankBank, "blocked": BlockedBank, "sparse": SparseBank}
    return banks[engine](n, schedule, shrinkage=shrinkage, max_rank=max_rank, **settings)


def _build_dense(n: int, rice: Rice, ensemble: dict[str, Any]) -> RiceBank:
    assert rice.initial_scale is not None
    return RiceBank(
        Metric(rice.initial_scale * np.eye(n), rice.initial_threshold),
        step_size=rice.step_size,
        loss=rice.loss,
        regularizer=rice.regularizer,
        shrinkage=rice.shrinkage,
        divergence=rice.divergence,
        max_norm=rice.max_norm,
        l1_tolerance=rice.l1_tolerance,
        **ensemble,
    )


def _build_diagonal(n: int, rice: Rice, schedule: Schedule, ensemble: dict[str, Any]) -> Any:
    assert rice.initial_scale is not None
    if rice.engine == "dense":
        return DiagonalRiceBank(
            Metric.from_diagonal(np.full(n, rice.initial_scale), rice.initial_threshold),
            step_size=rice.step_size,
            loss=rice.loss,
            regularizer=rice.regularizer,
            shrinkage=rice.shrinkage,
            **ensemble,
        )
    from ocelad.engines.diagonal_bank import DiagonalBank  # imports numba

    return DiagonalBank(
        n,
        schedule,
        initial_scale=rice.initial_scale,
        initial_threshold=rice.initial_threshold,
        step_size=rice.step_size,
        loss=rice.loss,
        shrinkage=rice.shrinkage,
        **ensemble,
    )


def _compiled_settings(rice: Rice) -> dict[str, Any]:
    """Return the settings that compiled engines know."""
    return {
        "shrinkage": rice.shrinkage,
        "max_rank": rice.max_rank,
        "initial_scale": rice.initial_scale,
        "initial_threshold": rice.initial_threshold,
        "step_size": rice.step_size,
        "loss": rice.loss,
        "max_norm": rice.max_norm,
    }


def _saved_settings(n_features: int, rice: Rice, events: EventsName, starts: Starts) -> dict[str, Any]:
    """Return the settings that ``Ocelad`` saves; those of the schedule are added by ``Ocelad``."""
    of_rice = {
        name: value for name, value in rice.get_params().items() if name not in ("shortest_interval", "n_scales")
    }
    settings = {"n_features": n_features, **of_rice, "events": events}
    return settings if starts == "below" else {**settings, "starts": starts}
