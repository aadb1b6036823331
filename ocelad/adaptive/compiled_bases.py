"""CompiledBases: the squared distances, computed by compiled code and by the engines of RICE."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import is_sparse
from ocelad.adaptive.bases import COMID_FLOOR, Kinds, diagonal_metric
from ocelad.adaptive.calibration import WARMUP
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.kernels import combination, moments, scales
from ocelad.adaptive.kernels.moments import MomentState
from ocelad.adaptive.split_metric import PointMetric, relative_change, squared_lengths
from ocelad.engines.blocked_bank import SparseBank
from ocelad.engines.compiled_bank import CompiledBank
from ocelad.engines.lowrank_bank import LowRankBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.schedule import FixedExperts
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, Relatives


class BasesParts(NamedTuple):
    """What the kernels of ``CompiledBases`` work on."""

    sums: Floats
    counts: Floats
    numbers: Floats
    roots: Floats
    scaling: scales.Scaling
    moments: MomentState
    decays: Floats
    comid: LowRankBank


class CompiledBases:
    """Squared distances that learn from events; see ``PlainBases``, the definition.

    Parameters
    ----------
    kinds : Kinds
    n_features : int
    config : AdaptiveConfig
    sparse : bool
    events : {"pairs", "relatives"}
    """

    def __init__(
        self, kinds: Kinds, n_features: int, config: AdaptiveConfig, *, sparse: bool, events: EventsName
    ) -> None:
        n, windows = n_features, (*kinds.windows, *kinds.scaled_windows)
        n_windows = len(windows)
        self._n, self._kinds, self._config, self._sparse = n, kinds, config, sparse
        self._sums, self._counts, self._roots = np.zeros(n), np.zeros(n), np.ones(n)
        self._numbers = np.zeros(scales.N_NUMBERS)
        self._growth = np.array([1.0, 0.0])  # of sparse events: the weight of new differences, the total of the sums
        self._decay = 1.0 - 1.0 / config.scale_horizon
        self._scaling = scales.Scaling(self._decay, config.outlier_limit, config.ridge, WARMUP)
        self._decays = 1.0 - 1.0 / np.array(windows, dtype=float)
        self._moments: MomentState | None = None
        if kinds.dense:
            self._moments = MomentState(
                P=np.tile(np.eye(n) / config.ridge, (n_windows + 1, 1, 1)),
                T=config.ridge * np.eye(n),
                counts=np.zeros(n_windows + 1),
                n_updates=np.zeros(2),
                n_half=len(kinds.windows),
                x=np.zeros((1, n)),
                Px=np.zeros((n_windows + 1, n)),
                v=np.zeros((1, n)),
                forms=np.zeros(n_windows + 1),
                column=np.zeros(n),
            )
        self._comid_columns = slice(len(kinds.names) - len(kinds.comid_steps), len(kinds.names))
        self._comid = _comid_bank(n, kinds.comid_steps, kinds.max_rank, sparse, events)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = copy(self)
        for name in ("_sums", "_counts", "_numbers", "_roots", "_growth"):
            setattr(copied, name, getattr(self, name).copy())
        copied._comid = deepcopy(self._comid)
        if self._moments is not None:
            arrays = {name: value.copy() for name, value in self._moments._asdict().items() if name != "n_half"}
            copied._moments = self._moments._replace(**arrays)
        return copied

    @property
    def kernel_parts(self) -> BasesParts:
        """The arrays and constants of the kernels; of dense pairs."""
        assert self._moments is not None
        assert isinstance(self._comid, LowRankBank)
        scaling = (self._sums, self._counts, self._numbers, self._roots, self._scaling)
        return BasesParts(*scaling, self._moments, self._decays, self._comid)

    def measure_and_learn(
        self, events: Events | Relatives, weights: Floats, t: int, squares: Floats, sizes: Floats
    ) -> None:
        """Store the squared distances of each event before the round's update, then let the learned ones learn."""
        if isinstance(events, Relatives):
            self._relatives(events, weights, t, squares, sizes)
        elif self._sparse:
            self._sparse_pairs(events, weights, t, squares)
        else:
            self._pairs(events, weights, t, squares)

    def _pairs(self, events: Events, weights: Floats, t: int, squares: Floats) -> None:
        config, n = self._config, self._n
        U = events.U.toarray() if events.sparse else np.ascontiguousarray(events.U)
        X, S = np.zeros((len(U), self._comid.row_width)), np.zeros((len(U), self._comid.row_width))
        shrinks, lengths, ratios = np.empty(len(U)), np.empty(len(U)), np.empty((len(U) if self._moments else 0, n))
        scales.scale_pairs(
            U,
            n,
            self._sums,
            self._counts,
            self._numbers,
            self._roots,
            self._scaling,
            X,
            S,
            ratios,
            shrinks,
            lengths,
            squares,
        )
        if self._moments is not None:
            moments.play_pairs(
                self._moments,
                S,
                ratios,
                events.y,
                weights,
                self._decays,
                self._decay,
                config.ridge,
                config.outlier_limit,
                squares,
                n,
            )
        scales.shorten_rows(X, shrinks, n)
        self._learn_comid(X, shrinks, lengths, events.y, weights, t, squares)

    def _relatives(self, events: Relatives, weights: Floats, t: int, squares: Floats, sizes: Floats) -> None:
        config, n, rows = self._config, self._n, len(events)
        X, S, X_far, S_far = (np.zeros((rows, self._comid.row_width)) for _ in range(4))
        shrinks, lengths, far_squares = np.empty(rows), np.empty(rows), np.empty_like(squares)
        ratios = np.empty((rows if self._moments else 0, n))
        scales.scale_relatives(
            np.ascontiguousarray(events.near),
            np.ascontiguousarray(events.far),
            n,
            self._sums,
            self._counts,
            self._numbers,
            self._roots,
            self._scaling,
            X,
            S,
            X_far,
            S_far,
            ratios,
            shrinks,
            lengths,
            squares,
            sizes,
        )
        if self._moments is not None:
            moments.play_relatives(
                self._moments,
                S,
                S_far,
                ratios,
                weights,
                self._decays,
                self._decay,
                config.ridge,
                config.outlier_limit,
                squares,
                sizes,
                far_squares,
                n,
            )
        scales.shorten_rows(X, shrinks, n)
        scales.shorten_rows(X_far, shrinks, n)
        self._learn_comid((X, X_far), shrinks, lengths, np.ones(rows), weights, t, squares)
        sizes[:, self._comid_columns] = 1.0 + np.abs(squares[:, self._comid_columns])

    def _sparse_pairs(self, events: Events, weights: Floats, t: int, squares: Floats) -> None:
        U = events.U
        scaled, shrinks, lengths = np.empty(len(U.data)), np.ones(len(events)), np.empty(len(events))
        scales.scale_sparse_pairs(
            U.indptr.astype(np.int64),
            U.indices.astype(np.int64),
            U.data,
            self._n,
            self._sums,
            self._counts,
            self._numbers,
            self._growth,
            self._scaling,
            scaled,
            shrinks,
            lengths,
            squares,
        )
        rows = type(U)((scaled, U.indices, U.indptr), shape=U.shape)
        self._learn_comid(rows, shrinks, lengths, events.y, weights, t, squares)

    def _learn_comid(
        self, rows: Any, shrinks: Floats, lengths: Floats, y: Floats, weights: Floats, t: int, squares: Floats
    ) -> None:
        of_learners = np.empty((len(y), len(self._kinds.comid_steps)))
        self._comid.measure_and_learn(rows, y, t, weights, of_learners)
        squares[:, self._comid_columns] = of_learners / np.square(shrinks)[:, None] + COMID_FLOOR * lengths[:, None]

    def restart_windows(self, U: Floats, weights: Floats) -> Floats:
        """Let all windows but the shortest begin again; see ``PlainBases.restart_windows``."""
        assert self._moments is not None  # there are windows
        self._update_roots()
        S, ratios = np.ascontiguousarray(U * self._roots), np.tile(self._ratios(), (max(len(U), 1), 1))
        means = np.empty(len(self._decays))
        config = self._config
        moments.restart_windows(
            self._moments, S, ratios, weights, self._decays, config.ridge, config.outlier_limit, self._n
        )
        A, B = np.empty((2, self._n, self._n))
        for k in range(len(means)):
            means[k] = combination.window_mean(self._moments, k, ratios[0], config.ridge, self._n, A, B)
        return means

    def _ratios(self) -> Floats:
        """Return the factors of half-standardized features relative to standardized ones."""
        ratios = np.empty(self._n)
        combination.half_ratios(self._roots, self._n, ratios)
        return ratios

    def combine(self, coefficients: Floats) -> Metric:
        """Return the weighted sum of the metrics of the squared distances."""
        n, factor, kinds = self._n, self._update_roots(), self._kinds
        roots, n_comid = self._roots, len(kinds.comid_steps)
        if self._moments is None:
            of_comid = factor**2 * coefficients[len(coefficients) - n_comid :]
            diagonal = coefficients[0] + coefficients[1] * roots**2 + COMID_FLOOR / n * of_comid.sum()
            learners = [self._comid.learner(j) for j in range(n_comid)]
            return Metric.weighted_sum([diagonal_metric(diagonal), *learners], np.append(1.0, of_comid), 0.0, 0)
        A, B, matrix = np.empty((3, n, n))
        combination.combine(
            self._moments,
            self._comid.kernel_state,
            roots,
            self._ratios(),
            coefficients,
            n_comid,
            factor * factor,
            COMID_FLOOR,
            self._config.ridge,
            n,
            A,
            B,
            matrix,
        )
        return Metric.from_trusted_matrix(matrix, 0.0)

    def squared_lengths(self, metric: PointMetric, U: Any, t: int) -> Floats:
        """Return the squared length of each row, a difference of round t, t + 1, ..., by a stored metric."""
        if self._moments is None or not isinstance(metric, Metric) or is_sparse(U):
            return squared_lengths(metric, U, t)
        squares = np.empty(len(U))
        combination.squared_lengths(metric.matrix, np.ascontiguousarray(U), self._n, squares)
        return squares

    def relative_change(self, metric: PointMetric, before: PointMetric) -> float:
        """Return how far a metric has moved; see ``Metric.relative_change``."""
        if self._moments is None or not isinstance(metric, Metric) or not isinstance(before, Metric):
            return relative_change(metric, before, self.mean_squares)
        self._update_roots()
        return float(combination.relative_change(metric.matrix, before.matrix, self._roots, self._n))

    def _update_roots(self) -> float:
        """Bring the factors of the features up to date; return their common factor."""
        if not self._sparse:
            return scales.update_roots(self._sums, self._counts, self._numbers, self._scaling, self._n, self._roots)
        return scales.update_sparse_roots(
            self._sums, self._counts, self._numbers, self._growth, self._scaling, self._n, self._roots
        )

    @property
    def sums_of_squares(self) -> Floats:
        """The discounted sum of the squared differences of each feature; 0 for one that never differed."""
        return self._sums.copy()

    @property
    def mean_squares(self) -> Floats:
        """The mean square of each feature."""
        self._update_roots()
        return np.asarray(self._roots**-2.0)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return copies of all arrays that later rounds depend on, and metadata."""
        arrays = {
            "sums": self._sums.copy(),
            "differing": self._counts.copy(),
            "scale_numbers": self._numbers.copy(),
            "growth": self._growth.copy(),
        }
        if self._moments is not None:
            saved = ("P", "T", "counts", "n_updates")
            arrays |= {name: getattr(self._moments, name).copy() for name in saved}
        of_comid, metadata = self._comid.state()
        return {**arrays, **add_prefix("comid", of_comid)}, {"comid": metadata}

    def restore(self, saved: StateReader) -> None:
        """Continue from what ``state`` returned, after checking it."""
        self._sums = saved.floats("sums", (self._n,), at_least=0.0)
        self._counts = saved.floats("differing", (self._n,), at_least=0.0)
        self._numbers = saved.floats("scale_numbers", self._numbers.shape, at_least=0.0)
        self._growth = saved.floats("growth", (2,), at_least=0.0)
        if self._moments is not None:
            for name in ("P", "T", "counts", "n_updates"):
                array = getattr(self._moments, name)
                array[...] = saved.floats(name, array.shape, *((0.0, 2.0**53) if array.ndim == 1 else ()))
        self._comid = _restored(self._comid, saved.section("comid"), len(self._kinds.comid_steps))
        if not self._sparse:
            self._update_roots()


def _comid_bank(
    n_features: int, steps: tuple[float, ...], max_rank: int, sparse: bool, events: EventsName
) -> CompiledBank:
    """Return COMID learners that start at the Euclidean distance of differences with a mean squared length of n."""
    schedule = FixedExperts(steps)
    settings: dict[str, Any] = {
        "initial_scale": 1.0 / n_features,
        "initial_threshold": 1.0,
        "step_size": 1.0 / n_features**2,
        "loss": "logistic",
        "max_norm": None,
        "finest": "reset",
        "starts": "scratch",
        "events": events,
    }
    kind = SparseBank if sparse else LowRankBank
    bank: CompiledBank = kind(n_features, schedule, shrinkage=0.0, max_rank=max_rank, **settings)
    return bank.start(_first_round(len(steps)))


def _first_round(n_learners: int) -> RoundState:
    scales_ = tuple(FixedExperts([1.0] * n_learners).scale(j) for j in range(n_learners))
    return RoundState(1, scales_, np.ones(n_learners), np.empty(0))


def _restored(bank: CompiledBank, saved: StateReader, n_learners: int) -> CompiledBank:
    weights = np.ones(n_learners)
    return bank.with_state(saved, RoundState(2, (), weights, weights.copy()))
