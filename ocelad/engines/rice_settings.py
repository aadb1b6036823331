"""Rice: the settings of RICE-OCELAD as one object."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from ocelad._validation import check_choice, check_integer, check_number
from ocelad.ensemble.bank import Finest
from ocelad.ensemble.schedule import Schedule
from ocelad.learners.comid import Comid, DivergenceName, LossName, RegularizerName
from ocelad.learners.diagonal_comid import DiagonalComid
from ocelad.learners.l1_prox import RELATIVE_GAP
from ocelad.metric import Metric
from ocelad.pairs import EventsName

EngineName: TypeAlias = Literal["auto", "dense", "fullrank", "lowrank", "blocked", "sparse"]

# A step moves the squared distance of a pair by up to step_size * |u|**4. With the default step size, 1e-2, and this
# squared length that is 1, the smallest threshold: enough to correct a pair, and not much more.
SQUARED_LENGTH = 10.0


@dataclass(kw_only=True, repr=False)
class Rice:
    """Settings of RICE-OCELAD, the paper's algorithm (Algorithm 2).

    The constructor only stores its arguments; they are checked when a tracker is created. ``get_params`` and
    ``set_params`` follow scikit-learn, so that a search over ``MetricTracker(method=Rice())`` can set
    ``method__step_size``.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared_hinge"}
        The loss of the margin. The paper uses the hinge, for which ``step_size=3e-3`` suits the paper's data.
    step_size : float
        eta0; scale j takes steps of ``step_size / sqrt(interval length)``. The best value depends on the scale of the
        data: a step moves a pair's squared distance by up to ``step_size * |u|**4``, so data twice as large need a
        step about 16 times smaller. The default suits ``|u|**2`` around 40.
    shrinkage : float
        rho, the strength of the regularizer.
    regularizer : {"nuclear", "l1", None}
        Penalize the eigenvalues of the metric, its entries, or nothing.
    divergence : {"frobenius", "von_neumann", "burg"}
        The Bregman divergence that keeps a step close to the last estimate.
    shortest_interval : int
        I0, the length of the finest scale's intervals.
    n_scales : int or None
        The maximal number of scales; None: as many as the stream needs.
    finest : {"carry", "ensemble", "reset"}
        How the finest scale starts a new interval: from its own metric, the ensemble's, or the initial one.
    initial_scale : float or None
        M0 = initial_scale * I; None: 1 / n_features, or less if ``max_norm`` requires it.
    initial_threshold : float
        mu0, the threshold on the squared distance at the start; at least 1.
    max_norm : float or None
        Bound on the Frobenius norm of the metric; None: no bound.
    engine : {"auto", "dense", "fullrank", "lowrank", "blocked", "sparse"}
        The implementation. All engines agree to about 13 digits. "auto" selects the fastest (see ``track_metric``).
    max_rank : int or None
        The maximal rank of each learner's metric (see ``LowRankBank``); None: no limit.
    diagonal : bool
        Whether M is diagonal: one weight per feature, no correlations. A pair then costs each learner O(nnz) time, up
        to hundreds of thousands of features (``DiagonalBank``). Requires the divergence "frobenius" and no
        ``max_norm``. The regularizers "nuclear" and "l1" are then the same.
    l1_tolerance : float
        For the regularizer "l1" with a full matrix: the certified duality gap, relative to the regularizer, to which a
        step is computed, from 1e-12 to 0.1. The default is the slowest; 1e-6 is many times faster.

    Examples
    --------
    >>> Rice(step_size=0.1, loss="hinge")
    Rice(loss='hinge', step_size=0.1)
    >>> Rice().set_params(step_size=0.1) == Rice(step_size=0.1)
    True
    """

    loss: LossName = "logistic"
    step_size: float = 1e-2
    shrinkage: float = 0.0
    regularizer: RegularizerName | None = "nuclear"
    divergence: DivergenceName = "frobenius"
    shortest_interval: int = 1
    n_scales: int | None = None
    finest: Finest = "carry"
    initial_scale: float | None = None
    initial_threshold: float = 1.0
    max_norm: float | None = None
    engine: EngineName = "auto"
    max_rank: int | None = None
    diagonal: bool = False
    l1_tolerance: float = RELATIVE_GAP

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; ``deep`` has no effect; it is part of scikit-learn's protocol."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change some settings in place and return the object."""
        known = self.get_params()
        for name in params:
            if name not in known:
                raise ValueError(f"Rice has no setting {name!r}; accepted: {', '.join(sorted(known))}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the settings that differ from the defaults."""
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if repr(getattr(self, field.name)) != repr(field.default)
        ]
        return f"Rice({', '.join(changed)})"

    def validate(self, n_features: int, events: EventsName = "pairs") -> Rice:
        """Return a checked copy for trackers of ``n_features`` features.

        Numbers are converted to Python's, and ``initial_scale`` is filled in. Which engine supports which settings is
        checked by ``choose_engine``.

        >>> Rice(max_norm=0.5).validate(n_features=1).initial_scale
        0.5
        >>> Rice(step_size=-1).validate(n_features=3)
        Traceback (most recent call last):
            ...
        ValueError: step_size must be a finite number above 0; got -1
        """
        n = check_integer(n_features, "n_features", at_least=1)
        Schedule(self.shortest_interval, self.n_scales)
        max_norm = None if self.max_norm is None else check_number(self.max_norm, "max_norm", above=0)
        initial_scale = self.initial_scale
        if initial_scale is None:
            initial_scale = 1.0 / n if max_norm is None else min(1.0 / n, max_norm / np.sqrt(n))
        checked = replace(
            self,
            initial_scale=check_number(initial_scale, "initial_scale", at_least=0, at_most=1e100),
            initial_threshold=check_number(self.initial_threshold, "initial_threshold", at_least=1),
            max_norm=max_norm,
            engine=check_choice(self.engine, "engine", get_args(EngineName)),
            finest=check_choice(self.finest, "finest", get_args(Finest)),
            max_rank=None if self.max_rank is None else check_integer(self.max_rank, "max_rank", at_least=1),
            diagonal=check_choice(self.diagonal, "diagonal", (False, True)),
        )
        check_choice(events, "events", get_args(EventsName))
        checked._check_objective(n)
        checked.step_size, checked.shrinkage = float(self.step_size), float(self.shrinkage)
        checked.l1_tolerance = check_number(self.l1_tolerance, "l1_tolerance")
        return checked

    def _check_objective(self, n_features: int) -> None:
        """Check loss, regularizer, divergence and their numbers by creating a learner of one feature."""
        assert self.initial_scale is not None
        objective: dict[str, Any] = {
            "loss": self.loss,
            "regularizer": self.regularizer,
            "shrinkage": self.shrinkage,
            "step_size": self.step_size,
        }
        if self.diagonal:
            divergence, max_norm, max_rank, engine = self.divergence, self.max_norm, self.max_rank, self.engine
            bounded = max_norm is not None or max_rank is not None
            if divergence != "frobenius" or bounded or engine not in ("auto", "dense"):
                raise ValueError(
                    "diagonal=True needs the divergence 'frobenius', no max_norm, no max_rank and engine 'auto' or "
                    f"'dense'; got {divergence=}, {max_norm=}, {max_rank=}, {engine=}"
                )
            DiagonalComid(Metric.from_diagonal([self.initial_scale], self.initial_threshold), **objective)
            return
        # The single feature has the norm of the full initial metric, which must not exceed max_norm.
        start = Metric([[self.initial_scale * np.sqrt(n_features)]], self.initial_threshold)
        more: dict[str, Any] = {
            "divergence": self.divergence,
            "max_norm": self.max_norm,
            "l1_tolerance": self.l1_tolerance,
        }
        Comid(start, **objective, **more)


#: The names of all settings of RICE-OCELAD.
RICE_SETTINGS = tuple(field.name for field in fields(Rice))
