"""Mixture: the ensemble of calibrated squared distances. It plays rounds in blocks, and stores memories of its metric.

The bases measure the pairs by all squared distances and learn from them; the aggregator turns the distances into log
odds and weighs the experts. Both exist in plain NumPy (the definition) and compiled, and the mixture works with either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.aggregator import ExpertCounts, PlainAggregator
from ocelad.adaptive.bases import Kinds, PlainBases
from ocelad.adaptive.changes import CHANGE, MAX_EVIDENCE_TO_REPLACE, MIN_ROUND, WARNING, Change
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.extended_bases import CURVED_RANK, CurvedKinds, ExtendedBases
from ocelad.adaptive.own_experts import OwnExpert, metric_of, play_own_expert
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.adaptive.similar_pairs import SimilarPairs
from ocelad.adaptive.split_metric import PointMetric, SplitMetric, weighted_sum
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, Relatives

if TYPE_CHECKING:
    from ocelad.adaptive.compiled_aggregator import CompiledAggregator  # imports numba
    from ocelad.adaptive.compiled_bases import CompiledBases

#: Rounds between snapshots of the metric, for the drift, the change test and restarts. No block spans a snapshot.
SNAPSHOT_PERIOD = 64
# Handicaps fade over as many similar pairs as there are features, within these limits.
MIN_HANDICAP_PAIRS, MAX_HANDICAP_PAIRS = 20, 256
# The Euclidean distance of curved features has this share of the handicap: it has little to learn.
CURVED_PRIOR_HANDICAP = 0.4
# With many features, curved ones have this many times the handicap: they seldom help there.
CURVED_HANDICAP = 3.0


class Bases(Protocol):
    """Squared distances that learn; see ``PlainBases``."""

    def measure_and_learn(
        self, events: Events | Relatives, weights: Floats, t: int, squares: Floats, sizes: Floats
    ) -> None: ...

    def restart_windows(self, U: Floats, weights: Floats) -> Floats: ...

    def combine(self, coefficients: Floats) -> PointMetric: ...

    def squared_lengths(self, metric: PointMetric, U: Any, t: int) -> Floats: ...

    def relative_change(self, metric: PointMetric, before: PointMetric) -> float: ...

    @property
    def mean_squares(self) -> Floats: ...

    @property
    def sums_of_squares(self) -> Floats: ...


class Aggregator(Protocol):
    """Experts and their weights; see ``PlainAggregator``."""

    def play(
        self,
        squares: Floats,
        sizes: Floats,
        anchor: Floats,
        y: Floats,
        weights: Floats,
        t: int,
        predictions: Floats,
    ) -> tuple[int, int]: ...

    @property
    def evidence(self) -> float: ...

    @property
    def shares(self) -> Floats: ...

    @property
    def coefficients(self) -> Floats: ...

    @property
    def threshold(self) -> float: ...

    @property
    def changes(self) -> list[Change]: ...

    def restart_windows(self, means: Floats) -> None: ...

    def least_used_memory(self) -> int: ...

    def start_memory(self, j: int, offset: float, log_weight: float | None = None) -> None: ...


class MixtureClock(NamedTuple):
    """Where a mixture is in the stream."""

    round: int
    drift: float
    restart_from: int


class Mixture:
    """Tracks the answers to "are these two the same?" with calibrated squared distances.

    Parameters
    ----------
    n_features : int
    config : AdaptiveConfig or None
    sparse : bool
        Whether events are sparse.
    events : {"pairs", "relatives"}
    compiled : bool
        Whether compiled code computes the rounds.
    experts : sequence of OwnExpert
        Distances of the user's own, which join the learned ones.
    n_curved : int
        The number of curved features, the last of the ``n_features``; see ``ExtendedBases``.
    discriminants : sequence of str
        Names of distances that are set from outside, in the attribute of the same name; they join the learned ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> U = rng.normal(size=(300, 3))
    >>> mixture = Mixture(n_features=3)
    >>> log_odds = mixture.play(Events(U, np.where(abs(U[:, 0]) < 0.5, 1.0, -1.0)))  # only the first feature matters
    >>> matrix = mixture.metric().matrix
    >>> bool(matrix[0, 0] > 5 * matrix[1, 1])
    True
    """

    def __init__(
        self,
        n_features: int,
        config: AdaptiveConfig | None = None,
        *,
        sparse: bool = False,
        events: EventsName = "pairs",
        compiled: bool = False,
        experts: Sequence[OwnExpert] = (),
        n_curved: int = 0,
        discriminants: Sequence[str] = (),
    ) -> None:
        self.config, self.round, self._n_features = config or AdaptiveConfig(), 0, n_features
        self._relative, self._sparse = events == "relatives", sparse
        self._n_linear = n_linear = n_features - n_curved
        self.kinds = Kinds(n_linear, sparse, self.config)
        curved_kinds = CurvedKinds(n_curved, self.config) if n_curved else None
        curved_names = curved_kinds.expert_names if curved_kinds else ()
        self._n_bases = len(self.kinds.names) + len(curved_names)
        self.own_experts, n_memories = list(experts), self.config.n_memories if self.kinds.dense else 1
        own_names = tuple(expert.name for expert in self.own_experts)
        self._first_discriminant = self._n_bases + len(own_names)
        self._first_memory = self._first_discriminant + len(discriminants)
        counts = ExpertCounts(
            priors=len(self.kinds.priors),
            learned=self._first_memory - len(self.kinds.priors),
            memories=n_memories,
            scaled=self.kinds.scaled,
            windows=(len(self.kinds.windows), len(self.kinds.scaled_windows)),
            handicap_pairs=min(max(n_linear, MIN_HANDICAP_PAIRS), MAX_HANDICAP_PAIRS),
            curved=range(len(self.kinds.names), self._n_bases),
            curved_handicaps=(CURVED_PRIOR_HANDICAP, 1.0) if self.kinds.dense else (CURVED_HANDICAP, CURVED_HANDICAP),
            discriminants=range(self._first_discriminant, self._first_memory),
        )
        self.bases: Bases
        self.aggregator: Aggregator
        if compiled:
            from ocelad.adaptive.compiled_aggregator import CompiledAggregator
            from ocelad.adaptive.compiled_bases import CompiledBases

            self.bases = CompiledBases(self.kinds, n_linear, self.config, sparse=sparse, events=events)
            self.aggregator = CompiledAggregator(counts, self.config, self._relative)
        else:
            self.bases = PlainBases(self.kinds, n_linear, self.config)
            self.aggregator = PlainAggregator(counts, self.config, self._relative)
        if curved_kinds:
            curved: Bases
            if compiled:
                curved = CompiledBases(curved_kinds, n_curved, self.config, sparse=False, events=events)
            else:
                curved = PlainBases(curved_kinds, n_curved, self.config)
            self.bases = ExtendedBases(self.bases, curved, self.kinds, curved_kinds, n_linear)
        self.expert_names = (
            *self.kinds.names,
            *curved_names,
            *own_names,
            *discriminants,
            *(f"memory {j + 1}" for j in range(n_memories)),
            "all learned",
            f"all learned 1:{self.config.prior_parts:g} prior",
        )
        self.discriminants: list[PointMetric | None] = [None] * len(discriminants)
        self.memories: list[PointMetric | None] = [None] * n_memories
        self.snapshot: PointMetric | None = None  # the metric at the last multiple of SNAPSHOT_PERIOD
        self.anchor: PointMetric | None = None  # the snapshot that the change test is about
        self.drift = 0.0
        self._restart_from = 0  # the first round of a detected change, until the windows begin again
        self.detected_change = 0  # the first round of a change that the last block has detected
        self._similar = SimilarPairs(n_linear) if self.kinds.has_windows else None

    def play(self, events: Events | Relatives, weights: Floats | None = None, *, test_changes: bool = True) -> Floats:
        """Predict each event and then learn from it; return the predicted log odds.

        Parameters
        ----------
        events : Events or Relatives
        weights : array of shape (n_events,), or None
            The weight of each event's loss; None: 1.
        test_changes : bool
            Whether the change test sees the events.
        """
        weights = np.ones(len(events)) if weights is None else weights
        predictions, done = np.empty(len(events)), 0
        while done < len(events):
            last = min(len(events), done + SNAPSHOT_PERIOD - self.round % SNAPSHOT_PERIOD)
            block = events if last - done == len(events) else events[done:last]
            if not self._sparse and isinstance(block, Events) and block.sparse:
                block = Events(block.U.toarray(), block.y)
            self._play_block(block, weights[done:last], predictions[done:last], test_changes)
            done = last
        return predictions

    def rehearse(self, events: Events) -> None:
        """Let scales, moments and mean distances learn from differences without answers, before the first round."""
        self.play(events, np.zeros(len(events)))
        self.round, self.drift, self.snapshot, self.anchor = 0, 0.0, None, None

    def begin_with(self, prior: SharedPrior) -> None:
        """Store a metric that others have learned as the first memory, before the first round."""
        self.memories[0] = prior.metric
        self.aggregator.start_memory(0, prior.metric.threshold, prior.log_weight)

    def learn_implied(self, events: Events, weights: Floats) -> None:
        """Let the distances learn from pairs whose answers are implied; weights and calibrations do not change."""
        squares = np.empty((len(events), self._first_memory + len(self.memories)))
        self.bases.measure_and_learn(events, weights, self.round + 1, squares, squares)

    def weigh_implied(self, events: Events, weights: Floats) -> None:
        """Let weights and calibrations learn from pairs whose answers are implied; the change test does not see them.

        The distances measure these pairs and learn only what does not depend on answers. There are no experts of the
        user's own.
        """
        t = self.round + 1
        squares = np.empty((len(events), self._first_memory + len(self.memories)))
        self.bases.measure_and_learn(events, np.zeros(len(events)), t, squares, squares)
        self._measure_stored(self.discriminants, self._first_discriminant, events, squares, squares, t)
        self._measure_memories(events, squares, squares, t)
        no_anchor, predictions = np.full(len(events), np.nan), np.empty(len(events))
        self.aggregator.play(squares, squares, no_anchor, events.y, weights, t, predictions)

    def _play_block(self, events: Events | Relatives, weights: Floats, predictions: Floats, test_changes: bool) -> None:
        n_bases, t, self.detected_change = self._n_bases, self.round + 1, 0
        squares = np.empty((len(events), self._first_memory + len(self.memories)))
        sizes = np.empty_like(squares) if self._relative else squares
        self.bases.measure_and_learn(events, weights, t, squares, sizes)
        for column, expert in enumerate(self.own_experts, start=n_bases):
            squares[:, column] = play_own_expert(expert, events, weights, t)
        self._measure_stored(self.discriminants, self._first_discriminant, events, squares, sizes, t)
        self._measure_memories(events, squares, sizes, t)
        anchor = self._anchor_log_odds(events, t) if test_changes else np.full(len(events), np.nan)
        y, done = np.ones(len(events)) if isinstance(events, Relatives) else events.y, 0
        while done < len(events):
            n_played, outcome = self.aggregator.play(
                squares[done:], sizes[done:], anchor[done:], y[done:], weights[done:], t + done, predictions[done:]
            )
            done += n_played
            rest = slice(done, None)
            if outcome == WARNING:
                self._store_memory()
                if done < len(events):
                    self._measure_memories(events[rest], squares[rest], sizes[rest], t + done)
            elif outcome == CHANGE:
                self.anchor, anchor[rest] = None, np.nan
                change = self.aggregator.changes[-1]
                if change.detected == t + done - 1:  # otherwise the detection is part of an earlier change
                    self._restart_from = self.detected_change = change.round
        self.round += len(events)
        if self._similar is not None:
            self._similar.add(events, weights, t)
        if self.round % SNAPSHOT_PERIOD == 0:
            self._take_snapshot()

    def _anchor_log_odds(self, events: Events | Relatives, t: int) -> Floats:
        """Return the log odds of the anchor for the events of rounds t, t + 1, ...; NaN without an anchor."""
        if self.anchor is None:
            return np.full(len(events), np.nan)
        if isinstance(events, Relatives):
            near, far = (self.bases.squared_lengths(self.anchor, U, t) for U in (events.near, events.far))
            return np.asarray(far - near)
        return np.asarray(self.anchor.threshold - self.bases.squared_lengths(self.anchor, events.U, t))

    def _measure_memories(self, events: Events | Relatives, squares: Floats, sizes: Floats, t: int) -> None:
        """Measure the events by the memories, the last columns."""
        self._measure_stored(self.memories, self._first_memory, events, squares, sizes, t)

    def _measure_stored(
        self,
        metrics: Sequence[PointMetric | None],
        first: int,
        events: Events | Relatives,
        squares: Floats,
        sizes: Floats,
        t: int,
    ) -> None:
        """Measure the events by metrics, from a column on; None is the Euclidean distance, the first column."""
        for j, metric in enumerate(metrics, start=first):
            if metric is None:
                squares[:, j], sizes[:, j] = squares[:, 0], sizes[:, 0]
            elif isinstance(events, Relatives):
                near, far = (self.bases.squared_lengths(metric, U, t) for U in (events.near, events.far))
                squares[:, j], sizes[:, j] = near - far, (near + far) / 2.0
            else:
                squares[:, j] = self.bases.squared_lengths(metric, events.U, t)

    # The metric.

    def metric(self) -> PointMetric:
        """Return the metric: ``threshold - d^2`` are the predicted log odds."""
        coefficients, n_bases = self.aggregator.coefficients.copy(), self._n_bases
        first_stored = self._first_discriminant
        metrics: list[PointMetric] = [metric_of(expert) for expert in self.own_experts]
        weights = coefficients[n_bases:first_stored].tolist()
        stored = (*self.discriminants, *self.memories)
        for metric, coefficient in zip(stored, coefficients[first_stored:].tolist(), strict=True):
            if metric is None:
                coefficients[0] += coefficient  # the Euclidean distance
            else:
                metrics.append(metric)
                weights.append(coefficient)
        of_bases = self.bases.combine(coefficients[:n_bases])
        return weighted_sum([of_bases, *metrics], np.array([1.0, *weights]), self.aggregator.threshold, self.round)

    # Memories and the drift.

    def _store_memory(self) -> None:
        """Store the anchor, the metric from before a possible change, in place of the least used memory."""
        assert self.anchor is not None  # only a test of an anchor has an outcome
        if not self.memories:
            return
        j = self.aggregator.least_used_memory()
        self.memories[j] = self.anchor if self.kinds.dense else self.anchor.truncated(self.config.max_rank)
        self.aggregator.start_memory(j, self.anchor.threshold)

    def _take_snapshot(self) -> None:
        """Let windows begin again after a change; store the metric, also as the anchor unless evidence contradicts it.

        The drift is the relative distance of the metric from the snapshot before, per round.
        """
        if self._restart_from and self._similar is not None:
            U, weights = self._similar.since(self._restart_from)
            self.aggregator.restart_windows(self.bases.restart_windows(U, weights))
        self._restart_from = 0
        metric = self.metric()
        if isinstance(metric, SplitMetric):
            metric = metric.with_curved_rank(CURVED_RANK)
        if self.snapshot is not None:
            self.drift = self.bases.relative_change(metric, self.snapshot) / SNAPSHOT_PERIOD
        self.snapshot = metric
        if self.round >= MIN_ROUND and (self.anchor is None or self.aggregator.evidence <= MAX_EVIDENCE_TO_REPLACE):
            self.anchor = metric

    def renew_curved(self, events: Events, weights: Floats, transport: Floats) -> None:
        """Replace the curved features by others.

        Their distances begin again and learn from the events. The experts keep their weights and calibrations, which
        depend on relative distances only. Stored metrics are carried over.

        Parameters
        ----------
        events : Events
            The latest events, with the new features.
        weights : array of shape (n_events,)
        transport : array of shape (n_curved_before, n_curved)
            The linear map from new features to those before.
        """
        assert isinstance(self.bases, ExtendedBases)
        n_curved = transport.shape[1]
        kinds = CurvedKinds(n_curved, self.config)
        curved: Bases
        if isinstance(self.bases.linear, PlainBases):
            curved = PlainBases(kinds, n_curved, self.config)
        else:
            from ocelad.adaptive.compiled_bases import CompiledBases

            curved = CompiledBases(kinds, n_curved, self.config, sparse=False, events="pairs")
        self.bases = ExtendedBases(self.bases.linear, curved, self.kinds, kinds, self._n_linear)
        self._n_features = self._n_linear + n_curved
        for first in range(0, len(events), SNAPSHOT_PERIOD):
            part = slice(first, first + SNAPSHOT_PERIOD)
            self.bases.learn_curved(events[part], weights[part], first + 1)
        self.discriminants = [metric and _carried_over(metric, transport) for metric in self.discriminants]
        carried = [
            metric and _carried_over(metric, transport) for metric in (*self.memories, self.snapshot, self.anchor)
        ]
        *self.memories, self.snapshot, self.anchor = carried

    # State, of compiled mixtures only.

    @property
    def clock(self) -> MixtureClock:
        """The rounds played, the drift, and the first round of a change until the windows begin again."""
        return MixtureClock(self.round, self.drift, self._restart_from)

    def set_clock(self, clock: MixtureClock, similar: SimilarPairs) -> None:
        """Continue after other rounds, with the latest similar pairs of those."""
        self.round, self.drift, self._restart_from = clock
        if self._similar is not None:
            self._similar = similar

    @property
    def similar_pairs(self) -> SimilarPairs | None:
        """The latest similar pairs; None without windows."""
        return self._similar

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on: copies of arrays, and JSON values."""
        bases, aggregator = self.compiled_parts()
        arrays, metadata = bases.state()
        arrays = {**add_prefix("bases", arrays), **add_prefix("aggregator", aggregator.arrays())}
        stored = {f"memory{j}": memory for j, memory in enumerate(self.memories)}
        stored |= {f"discriminant{j}": metric for j, metric in enumerate(self.discriminants)}
        stored |= {"snapshot": self.snapshot, "anchor": self.anchor}
        if self._similar is not None:
            arrays |= add_prefix("similar", self._similar.arrays())
        thresholds = {}
        for name, metric in stored.items():
            if metric is not None:
                thresholds[name] = [metric.threshold, metric.round]
                arrays |= add_prefix(name, {key: np.array(value) for key, value in metric.arrays().items()})
        return arrays, {
            "bases": metadata,
            "metrics": thresholds,
            "drift": self.drift,
            "restart_from": self._restart_from,
        }

    def compiled_parts(self) -> tuple[CompiledBases, CompiledAggregator]:
        """Return the compiled bases and the compiled aggregator."""
        return cast("CompiledBases", self.bases), cast("CompiledAggregator", self.aggregator)

    def restore(self, saved: StateReader, n_rounds: int) -> None:
        """Continue from what ``state`` returned, after ``n_rounds`` rounds."""
        metadata = saved.section("mixture")
        metrics, drift = metadata.value("metrics"), metadata.value("drift")
        restart_from = metadata.integer("restart_from", 0, n_rounds)
        bases, aggregator = self.compiled_parts()
        bases.restore(saved.section("bases").with_metadata(metadata.value("bases")))
        aggregator.restore(saved.section("aggregator"))
        names = [f"memory{j}" for j in range(len(self.memories))]
        discriminants = [f"discriminant{j}" for j in range(len(self.discriminants))]
        loaded: dict[str, PointMetric] = {}
        for name, values in metrics.items():
            if name not in (*names, *discriminants, "snapshot", "anchor"):
                raise ValueError(f"saved metric {name!r} is unknown")
            loaded[name] = self.read_metric(saved.section(name), name, values, n_rounds)
        self.memories = [loaded.get(name) for name in names]
        self.discriminants = [loaded.get(name) for name in discriminants]
        self.snapshot, self.anchor = loaded.get("snapshot"), loaded.get("anchor")
        if self._similar is not None:
            self._similar = SimilarPairs.restore(saved.section("similar"), self._n_linear, n_rounds)
        self.drift, self.round, self._restart_from = float(drift), n_rounds, restart_from

    def read_metric(self, saved: StateReader, name: str, values: Any, n_rounds: int = 2**53) -> PointMetric:
        """Return a saved metric, after checking it.

        Parameters
        ----------
        saved : StateReader
            Its arrays.
        name : str
            What an error message calls it.
        values : [float, int]
            Its threshold and its round.
        n_rounds : int
            The last round that it can have.
        """
        of_metric = StateReader({}, dict(zip(("threshold", "round"), values, strict=True)))
        threshold, round = of_metric.number("threshold"), of_metric.integer("round", 0, n_rounds)
        metric: PointMetric
        if self._n_linear < self._n_features:
            metric = SplitMetric.restore(saved, threshold, round)
        else:
            metric = Metric.from_arrays(saved.remaining_arrays(), threshold, round)
        if metric.n_features != self._n_features:
            raise ValueError(f"saved metric {name!r} has {metric.n_features} features")
        return metric


def _carried_over(metric: PointMetric, transport: Floats) -> PointMetric:
    """Return the metric with its curved part in other features."""
    assert isinstance(metric, SplitMetric)
    matrix = transport.T @ metric.curved.matmul(transport)
    curved = Metric.from_trusted_matrix((matrix + matrix.T) / 2.0, 0.0, metric.round).truncated(CURVED_RANK)
    return SplitMetric(metric.linear, curved, metric.threshold, metric.round)
