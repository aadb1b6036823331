"""track_adaptive: the tracker behind ``MetricTracker``'s default method. It has no settings to tune.

It is OCELAD with other parts than the paper's: fixed experts that all run from the first round on, exponential weights
with discounted losses (``DiscountedHedge``), and experts of different kinds that are judged by the logarithmic loss of
calibrated probabilities (``AdaptiveBank``). The paper's regret bound does not apply to it.
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

#: Largest number of features for which all kinds of experts are used.
MAX_FEATURES = 128


def track_adaptive(n_features: int, *, sparse: bool = False) -> Ocelad[Event | Pair, Metric]:
    """Return a tracker that adapts to the scale of the data, the speed of change and the difficulty of the problem.

    Parameters
    ----------
    n_features : int
        Number of features of the points.
    sparse : bool
        Whether differences are sparse.

    Returns
    -------
    Ocelad
        ``step`` and ``replay`` learn from pairs, and ``play`` returns the current metric. Its bank also has
        ``log_odds``, ``drift`` and ``changes``.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad import Events
    >>> rng = np.random.default_rng(0)
    >>> U = 1e6 * rng.normal(size=(500, 3))  # any unit will do
    >>> y = np.where(abs(U[:, 0]) < 5e5, 1.0, -1.0)  # only the first feature is informative
    >>> tracker = track_adaptive(n_features=3)
    >>> margins = tracker.replay(Events(U, y))
    >>> bool(np.mean(margins[100:] > 0) > 0.9)
    True

    Notes
    -----
    With more than 128 features or sparse differences, second moments would need too much time and memory. The tracker
    is then RICE with one Platt scaling, on differences in a unit set by the first few pairs. ``bank.engine`` shows
    which of the two is used.
    """
    n = check_integer(n_features, "n_features", at_least=1)
    check_choice(sparse, "sparse", (False, True))
    settings: dict[str, Any] = {"method": "adaptive", "n_features": n, "sparse": sparse}
    if sparse or n > MAX_FEATURES:
        from ocelad.adaptive.many_features import track_many_features

        return track_many_features(n, sparse, settings)
    from ocelad.adaptive.adaptive_bank import AdaptiveBank

    bank: Any = AdaptiveBank(n)
    schedule = FixedExperts([1.0] * len(bank.expert_names))
    return Ocelad(bank, schedule=schedule, weighting=DiscountedHedge(), settings=settings)


def resume(arrays: Arrays, metadata: Metadata) -> Ocelad[Any, Metric]:
    """Return the tracker, of either method, whose ``Ocelad.state`` was saved; it continues with the same bits.

    >>> tracker = track_adaptive(n_features=3)
    >>> resume(*tracker.state()).play() == tracker.play()
    True
    """
    settings = metadata.get("settings")
    if not isinstance(settings, Mapping) or "method" not in settings:  # RICE saves no method
        return resume_metric(arrays, metadata)
    if settings["method"] != "adaptive":
        raise ValueError(f"the saved method is {settings['method']!r}; accepted: 'adaptive'")
    try:
        tracker = track_adaptive(settings.get("n_features"), sparse=settings.get("sparse"))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError(f"the saved settings are not those of track_adaptive: {error}") from None
    tracker.restore(arrays, metadata)
    return tracker
