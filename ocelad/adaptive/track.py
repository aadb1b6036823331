"""track_adaptive: what ``MetricTracker`` tracks with by default. There is nothing to set.

It is OCELAD with other parts than the paper's: a grid of experts that all run from the first round on, weights that
forget (``DiscountedHedge``), and experts of different kinds, judged by the logarithmic loss of calibrated probabilities
(``AdaptiveBank``). The paper's regret bound is not about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocelad._typing import Arrays, Metadata
from ocelad._validation import check_choice, check_integer
from ocelad.engines.rice import resume_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import FixedExperts
from ocelad.ensemble.weighting import DiscountedHedge
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair

#: Up to so many features there are experts of all kinds.
MOST_FEATURES = 128


def track_adaptive(n_features: int, *, sparse: bool = False) -> Ocelad[Event | Pair, Metric]:
    """A tracker that adapts itself: to the data's scale, to how fast the metric changes, to how much there is to learn.

    Parameters
    ----------
    n_features : int
        How many features points have.
    sparse : bool
        Whether differences are sparse.

    Returns
    -------
    Ocelad
        Feed it pairs with ``step`` or ``replay``; ``play`` gives the metric now. Its bank tells more: ``log_odds``,
        ``drift``, ``changes``.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad import Events
    >>> rng = np.random.default_rng(0)
    >>> U = 1e6 * rng.normal(size=(500, 3))  # in whatever unit
    >>> y = np.where(abs(U[:, 0]) < 5e5, 1.0, -1.0)  # only the first feature tells
    >>> tracker = track_adaptive(n_features=3)
    >>> margins = tracker.replay(Events(U, y))
    >>> bool(np.mean(margins[100:] > 0) > 0.9)
    True

    Notes
    -----
    Above 128 features, or where differences are sparse, moments would take too much time and memory: then it is RICE
    alone, on differences of which the first few have set the unit, with one calibration (``bank.engine`` says so).
    """
    n = check_integer(n_features, "n_features", at_least=1)
    check_choice(sparse, "sparse", (False, True))
    settings: dict[str, Any] = {"method": "adaptive", "n_features": n, "sparse": sparse}
    if sparse or n > MOST_FEATURES:
        from ocelad.adaptive.many_features import wide_tracker

        return wide_tracker(n, sparse, settings)
    from ocelad.adaptive.adaptive_bank import AdaptiveBank

    bank: Any = AdaptiveBank(n)
    return Ocelad(
        bank, schedule=FixedExperts([1.0] * len(bank.expert_names)), weighting=DiscountedHedge(), settings=settings
    )


def resume(arrays: Arrays, metadata: Metadata) -> Ocelad[Any, Metric]:
    """The tracker that ``Ocelad.state`` was called on, of whichever method: it goes on to the same bits.

    >>> tracker = track_adaptive(n_features=3)
    >>> resume(*tracker.state()).play() == tracker.play()
    True
    """
    settings = metadata.get("settings")
    if not isinstance(settings, Mapping) or "method" not in settings:
        return resume_metric(arrays, metadata)
    if settings["method"] != "adaptive":
        raise ValueError(f"it was kept of the method {settings['method']!r}; accepted: 'adaptive'")
    try:
        tracker = track_adaptive(settings.get("n_features"), sparse=settings.get("sparse"))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError(f"its settings are not those of track_adaptive: {error}") from None
    tracker.restore(arrays, metadata)
    return tracker
