"""track_metric: RICE-OCELAD (Algorithm 2). OCELAD over COMID metric learners, one per scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ocelad._typing import Arrays, Metadata
from ocelad.engines.build import build_bank
from ocelad.engines.choose import choose_engine
from ocelad.engines.metric_bank import MetricBank
from ocelad.engines.rice_settings import RICE_SETTINGS, Rice
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Schedule
from ocelad.metric import Metric
from ocelad.pairs import Event, EventsName, Pair, Relative


def track_metric(
    n_features: int, rice: Rice | None = None, *, events: EventsName = "pairs", sparse: bool = False, **settings: Any
) -> Ocelad[Event | Pair | Relative, Metric]:
    """Create a tracker that learns a changing metric by RICE-OCELAD (Algorithm 2).

    Parameters
    ----------
    n_features : int
        The number of features of a point.
    rice : Rice or None
        The settings; None: those given as keywords.
    events : {"pairs", "relatives"}
        What the tracker learns from: pairs that are similar or not, or relative comparisons, "x is nearer to a than to
        b" (``Relative``). Relative comparisons do not determine the threshold, which stays at ``initial_threshold``.
        The engines "blocked" and "sparse" learn from pairs only.
    sparse : bool
        Whether the differences of pairs will be sparse; engine "auto" then considers "sparse".
    **settings
        Settings of ``Rice``, such as ``step_size=0.1``, instead of ``rice``.

    Returns
    -------
    Ocelad
        Pass it pairs, their events, or ``Relative`` comparisons with ``step``; ``play`` returns the current ``Metric``.
        ``bank.engine`` names the engine.

    Examples
    --------
    >>> from ocelad import Pair, Rice
    >>> tracker = track_metric(n_features=2, step_size=0.1)
    >>> for _ in range(50):
    ...     _ = tracker.step(Pair([0.0, 2.0], [0.0, 0.0], similar=True))
    ...     _ = tracker.step(Pair([2.0, 0.0], [0.0, 0.0], similar=False))
    >>> metric = tracker.play()
    >>> metric.similar([0.0, 2.0], [0.0, 0.0]), metric.similar([2.0, 0.0], [0.0, 0.0])
    (True, False)
    >>> track_metric(2000, Rice(shrinkage=0.1)).bank.engine
    'blocked'

    Notes
    -----
    "dense" is the readable definition, with one eigendecomposition per learner and pair. It supports every setting. The
    other engines are compiled. They require the divergence "frobenius" and do not support the L1 norm:

    - "fullrank": full matrices, eight learners at once; for ``shrinkage=0`` and few features;
    - "lowrank": an eigendecomposition of each metric, which shrinkage keeps at low rank;
    - "blocked": like "lowrank", but handles long vectors of many pairs at once, as products of matrices;
    - "sparse": like "blocked", for sparse pairs (SciPy rows, or ``SparseVector``) of up to hundreds of thousands of
      features.

    Without shrinkage and ``max_rank``, metrics reach full rank, and many features are slow with every engine. A little
    shrinkage avoids this. Up to 64 features, "auto" computes the first 8 rounds by the definition, so that a few pairs
    need not wait for compiled code.
    """
    rice = _merge_settings(rice, settings)
    if sparse and not rice.diagonal:
        checked = rice.validate(n_features, events)
        if choose_engine(n_features, checked, sparse=True, events=events) == "sparse":
            rice = replace(rice, engine="sparse")
    schedule = Schedule(rice.shortest_interval, rice.n_scales)
    bank, saved_settings = build_bank(n_features, rice, schedule, events=events)
    return Ocelad(bank, schedule=schedule, settings=saved_settings)


def resume_metric(arrays: Arrays, metadata: Metadata) -> Ocelad[Event | Pair | Relative, Metric]:
    """Return the tracker of ``track_metric`` whose ``Ocelad.state`` is given; it continues to the same bits.

    >>> tracker = track_metric(n_features=3, step_size=0.1)
    >>> resume_metric(*tracker.state()).play() == tracker.play()
    True
    """
    settings: Any = metadata.get("settings")
    bank = metadata.get("bank")
    if not has_rice_settings(settings):
        raise ValueError(f"its settings are not those of track_metric: {settings}")
    tracker = track_metric(**settings)
    engine = bank.get("engine") if isinstance(bank, Mapping) else None
    # Another version may have chosen another engine for "auto".
    if engine != cast(MetricBank, tracker.bank).engine:
        tracker = track_metric(**{**settings, "engine": engine})
    tracker.restore(arrays, metadata)
    return tracker


def has_rice_settings(settings: Any) -> bool:
    """Whether these are the settings of a tracker that ``track_metric`` created."""
    return isinstance(settings, Mapping) and settings.keys() == {"n_features", "events", *RICE_SETTINGS}


def _merge_settings(rice: Rice | None, settings: dict[str, Any]) -> Rice:
    if rice is None:
        for name in settings:
            if name not in RICE_SETTINGS:
                raise TypeError(f"track_metric has no setting {name!r}; accepted: {', '.join(sorted(RICE_SETTINGS))}")
        return Rice(**settings)
    if not isinstance(rice, Rice):
        raise TypeError(f"rice must be a Rice; got {rice!r}")
    if settings:
        raise TypeError(
            f"settings are given either by rice or as keywords, not both; got rice and {', '.join(settings)}"
        )
    return rice
