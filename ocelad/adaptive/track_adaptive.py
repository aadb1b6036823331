"""track_adaptive: the tracker behind ``MetricTracker``'s default method. It has no settings to tune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ocelad.adaptive.adaptive_tracker import AdaptiveTracker, checked_points
from ocelad.adaptive.rehearsal import draw_item_pairs
from ocelad.pairs import EventsName

if TYPE_CHECKING:
    from ocelad.adaptive.config import AdaptiveConfig
    from ocelad.adaptive.own_experts import OwnExpert
    from ocelad.adaptive.shared_prior import SharedPrior


def track_adaptive(
    n_features: int,
    *,
    sparse: bool = False,
    events: EventsName = "pairs",
    items: Any = None,
    config: AdaptiveConfig | None = None,
    experts: Sequence[OwnExpert] = (),
    grouped: bool = False,
    prior: SharedPrior | None = None,
) -> AdaptiveTracker:
    """Return a tracker that adapts to the scale of the data, the speed of change and the difficulty of the problem.

    Parameters
    ----------
    n_features : int
        Number of features of the points.
    sparse : bool
        Whether differences are sparse.
    events : {"pairs", "relatives"}
        Whether it learns from labelled pairs or from relative comparisons.
    items : array-like or SciPy sparse matrix of shape (n_items, n_features), or None
        Points without labels, if they are known: the scales of the features, and the moments of all pairs, learn from
        random pairs of them before the first round. For pairs.
    config : AdaptiveConfig or None
        The constants of the method, for ablations; None: the defaults.
    experts : sequence of OwnExpert
        Distances of your own that join the ensemble: objects with a ``name`` and the methods ``square(u)``, ``learn(u,
        y, weight)`` and ``metric()``; see ``ocelad.adaptive.own_experts``. For dense pairs.
    grouped : bool
        Whether discriminants of groups of items join the ensemble; see ``ocelad.ImpliedAnswers``.
    prior : SharedPrior or None
        A metric that others have learned, which joins the ensemble as its first memory; for pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad import Events
    >>> rng = np.random.default_rng(0)
    >>> U = rng.normal(size=(500, 3))
    >>> tracker = track_adaptive(n_features=3)
    >>> margins = tracker.replay(Events(U, np.where(abs(U[:, 0]) < 0.5, 1.0, -1.0)))
    >>> tracker.play().matrix.argmax()  # only the first feature is informative
    np.int64(0)
    """
    rehearsal = None
    if items is not None:
        if events == "relatives":
            raise ValueError("items are used for pairs only; omit them, or events='relatives'")
        pairs = draw_item_pairs(checked_points(items, "items", n_features, sparse=sparse))
        rehearsal = None if pairs is None else pairs.events()
    return AdaptiveTracker(
        n_features,
        sparse=sparse,
        events=events,
        config=config,
        experts=experts,
        rehearsal=rehearsal,
        grouped=grouped,
        prior=prior,
    )
