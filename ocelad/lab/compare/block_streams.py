"""Streams of pairs in blocks of rounds, drawn from a seed or given as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, is_sparse
from ocelad.evaluation.streams import DriftingClusters, StreamStep, SwitchingWords
from ocelad.evaluation.streams.drifting_clusters import pair_points
from ocelad.evaluation.streams.reviews import SwitchingReviews
from ocelad.metric import Metric
from ocelad.pairs import Events, check_same_kind, subtract

#: What a stream can provide besides its pairs: the classes of their points, the rounds of concept changes, the true
#: metric, its length, and points without labels before the first pair.
SideInformation: TypeAlias = Literal["labels", "changes", "truth", "length", "items"]

#: The largest number of points on which a metric is evaluated.
N_EVAL_POINTS = 600
#: The typical squared distance of the pairs of the built-in streams; other pairs are rescaled to this median.
TARGET_SQUARED_LENGTH = 40.0


class EvalSet(NamedTuple):
    """Labelled points at one moment, on which a metric is evaluated."""

    points: Floats
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rounds, and the state of the stream when the first of them is about to be played.

    Attributes
    ----------
    round : int
        The number of the first round.
    phase, pair_phase : str
        The phase of the first round, and the phase of most of the pairs.
    X, Z : arrays or sparse arrays of shape (n_rounds, n_features)
        The points of the pairs.
    y : array of shape (n_rounds,)
        +1 similar, -1 dissimilar.
    eval_set : EvalSet or None
        The points on which a metric is evaluated.
    labels : array of shape (n_rounds, 2) or None
        The classes of the points of each pair.
    changes : tuple of int
        The indices within the block at which the concept changes.
    truth : Metric or None
        The metric that generated the labels of the pairs.
    """

    round: int
    phase: str
    pair_phase: str
    X: Any
    Z: Any
    y: Floats
    eval_set: EvalSet | None = None
    labels: np.ndarray | None = None
    changes: tuple[int, ...] = ()
    truth: Metric | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice) -> Block:
        """Return a block of some of its rounds, without the changes."""
        labels = None if self.labels is None else self.labels[part]
        start = part.indices(len(self))[0]
        return replace(
            self, round=self.round + start, X=self.X[part], Z=self.Z[part], y=self.y[part], labels=labels, changes=()
        )

    def restricted_to(self, requires: frozenset[SideInformation]) -> Block:
        """Return the block with its pairs and the required side information only."""
        restricted = replace(
            self,
            eval_set=None,
            labels=self.labels if "labels" in requires else None,
            changes=self.changes if "changes" in requires else (),
            truth=None,
        )
        vars(restricted)["events"] = self.events  # computed once for all methods
        return restricted

    @cached_property
    def events(self) -> Events:
        """The pairs as differences and labels."""
        return Events(subtract(self.X, self.Z), self.y)


class Stream(Protocol):
    """A stream of pairs on which methods are compared.

    Attributes
    ----------
    name, description : str
        Its name, and one line about it.
    n_features, rounds : int
    sparse : bool
        Whether the points are SciPy sparse rows.
    provides : frozenset of SideInformation
        The side information that it provides besides its pairs.
    phases : tuple of str
        The names of its phases, in order.
    seeded : bool
        Whether each seed draws another stream; given pairs are one stream.
    has_eval_sets : bool
        Whether metrics can be evaluated on labelled points, and not only on pairs.
    has_both_answers : bool
        Whether there are similar and dissimilar pairs, so that metrics can be evaluated on pairs.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def n_features(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def provides(self) -> frozenset[SideInformation]: ...
    @property
    def phases(self) -> tuple[str, ...]: ...
    @property
    def seeded(self) -> bool: ...
    @property
    def has_eval_sets(self) -> bool: ...
    @property
    def has_both_answers(self) -> bool: ...

    def initial_points(self, seed: int) -> EvalSet | None:
        """Return all points before the first round with their classes, or None if it has no classes."""
        ...

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """Yield the rounds in blocks of ``every`` rounds; the first block is one round shorter."""
        ...

    def fingerprint(self) -> str:
        """Return a string that identifies the stream."""
        ...


class DriftingStream:
    """A scenario of drifting clusters, one stream for each seed.

    Parameters
    ----------
    name, description : str
        Its name, and one line about it.
    draw : callable (seed) -> DriftingClusters

    Examples
    --------
    >>> stream = DriftingStream("mine", "as in the paper", lambda seed: DriftingClusters(seed=seed))
    >>> [len(block) for block in stream.blocks(seed=0, every=2000)]
    [1999, 2000, 2000, 1]
    """

    sparse = False
    seeded = True
    has_eval_sets = has_both_answers = True
    provides: frozenset[SideInformation] = frozenset({"labels", "changes", "truth", "length"})

    def __init__(self, name: str, description: str, draw: Callable[[int], DriftingClusters]) -> None:
        self.name, self.description = name, description
        self._draw = draw
        example = draw(0)
        self.n_features, self.rounds = example.n_features, len(example)
        self.phases = tuple(dict.fromkeys(phase.name for phase in example.phases))
        names = ("phases", "n_points", "n_features", "label_noise", "random_rotation", "feature_noise", "random_units")
        drawn = [getattr(example, name) for name in names]
        self._fingerprint = f"{name} {hashlib.sha256(repr(drawn).encode()).hexdigest()[:16]}"

    def initial_points(self, seed: int) -> EvalSet:
        """Return all points of the first round with their classes."""
        first = next(iter(self._draw(seed)))
        return EvalSet(first.points(), first.labels)

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """Yield the rounds in blocks."""
        steps: list[StreamStep] = []
        clustering = None  # that of the previous round
        for step in self._draw(seed):
            if step.round % every == 0 and steps:
                yield _make_block(steps, clustering)
                clustering, steps = steps[-1].phase.clustering, []
            steps.append(step)
        yield _make_block(steps, clustering)

    def fingerprint(self) -> str:
        """Return its name and a digest of its parameters."""
        return self._fingerprint


def _make_block(steps: Sequence[StreamStep], clustering: str | None) -> Block:
    """Make a block of consecutive rounds; ``clustering`` is that of the round before them, or None."""
    first = steps[0]
    pairs = pair_points(steps)
    changes = []
    for at, step in enumerate(steps):
        if clustering is not None and step.phase.clustering != clustering:
            changes.append(at)
        clustering = step.phase.clustering
    return Block(
        round=first.round,
        phase=first.phase.name,
        pair_phase=steps[len(steps) // 2].phase.name,
        X=pairs[:, 0],
        Z=pairs[:, 1],
        y=np.array([1.0 if step.similar else -1.0 for step in steps]),
        eval_set=EvalSet(first.points(slice(N_EVAL_POINTS)), first.labels[:N_EVAL_POINTS]),
        labels=np.array([(step.labels[step.first], step.labels[step.second]) for step in steps]),
        changes=tuple(changes),
        truth=first.true_metric(),
    )


class PairStream:
    """Given pairs as one stream, such as the pairs of a file.

    All points are multiplied by one factor, so that the median squared distance of the pairs is 40, as in the built-in
    streams. Step sizes that suit those streams then suit the given pairs.

    Parameters
    ----------
    X, Z : array-like or SciPy sparse, of shape (n_pairs, n_features)
        The points of the pairs, in the order of time.
    y : array-like of shape (n_pairs,)
        +1 (or True) similar, -1 (or False) dissimilar.
    eval_set : (points, labels) or None
        Labelled points, on which metrics are evaluated by k-NN error and clustering.
    name : str

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Z = rng.normal(size=(2, 300, 4))
    >>> stream = PairStream(X, Z, abs(X[:, 0] - Z[:, 0]) < 1)
    >>> [len(block) for block in stream.blocks(seed=0, every=100)]
    [99, 100, 100, 1]
    """

    description = "given pairs"
    seeded = False
    provides: frozenset[SideInformation] = frozenset({"length"})
    n_phases = 5

    def __init__(self, X: Any, Z: Any, y: Any, *, eval_set: tuple[Any, Any] | None = None, name: str = "pairs") -> None:
        X, Z = check_same_kind(X, Z, "X", "Z", 2)
        if X.shape != Z.shape:
            raise ValueError(f"X has shape {X.shape} and Z has {Z.shape}; accepted: equal shapes, one pair per row")
        self.name = name
        self.sparse = is_sparse(X)
        self.rounds, self.n_features = int(X.shape[0]), int(X.shape[1])
        events = Events(subtract(X, Z), y)  # validates X, Z and y
        self.has_both_answers = bool(abs(events.y.sum()) < len(events.y))
        if not self.has_both_answers and eval_set is None:
            raise ValueError(
                f"all pairs have the label {events.y[0]:+g}; accepted: similar and dissimilar pairs, or an eval_set"
            )
        self.factor = scale_factor(events.U)
        self._X, self._Z, self._y = X * self.factor, Z * self.factor, events.y
        self._eval_set = None
        if eval_set is not None:
            points = check_array(eval_set[0], "the points of eval_set", 2, n_features=self.n_features)
            if np.shape(eval_set[1]) != (len(points),):
                raise ValueError(
                    f"eval_set has {len(points)} points and labels of shape {np.shape(eval_set[1])}; "
                    "accepted: one label for each point"
                )
            self._eval_set = EvalSet(points * self.factor, np.asarray(eval_set[1]))
        self.phases = tuple(f"{i + 1}/{self.n_phases}" for i in range(self.n_phases))
        self._fingerprint = self._digest()

    @property
    def has_eval_sets(self) -> bool:
        """Whether metrics can be evaluated by k-NN error."""
        return self._eval_set is not None

    def part(self, first: int, last: int, *, with_eval_set: bool = True) -> PairStream:
        """Return the pairs ``first`` to ``last - 1`` as a stream, with or without the evaluation points."""
        part = copy(self)
        part._X, part._Z, part._y = self._X[first:last], self._Z[first:last], self._y[first:last]
        part.rounds, part._eval_set = len(part._y), self._eval_set if with_eval_set else None
        part._fingerprint = part._digest()
        return part

    def initial_points(self, seed: int) -> EvalSet | None:
        """Return None: given pairs have no initial points."""
        return None

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """Yield the rounds in blocks; a phase is a fifth of the pairs."""
        for rows in block_rows(self.rounds, every):
            phase, pair_phase = (
                self.phases[at * self.n_phases // self.rounds] for at in (rows.start, middle_row(rows))
            )
            yield Block(rows.start + 1, phase, pair_phase, self._X[rows], self._Z[rows], self._y[rows], self._eval_set)

    def fingerprint(self) -> str:
        """Return its name and a digest of its data."""
        return self._fingerprint

    def _digest(self) -> str:
        digest = hashlib.sha256(repr((self.sparse, self._X.shape)).encode() + self._y.tobytes())
        for points in (self._X, self._Z):
            for array in (points.data, points.indices, points.indptr) if self.sparse else (points,):
                digest.update(np.ascontiguousarray(array).tobytes())
        if self._eval_set is not None:
            digest.update(self._eval_set.points.tobytes() + repr(self._eval_set.labels.tolist()).encode())
        return f"{self.name} {digest.hexdigest()[:16]}"


def scale_factor(U: Any) -> float:
    """Return the factor that brings the median squared length of nonzero differences to ``TARGET_SQUARED_LENGTH``."""
    lengths = U.multiply(U).sum(axis=1) if is_sparse(U) else np.square(U).sum(axis=1)
    if not (lengths > 0).any():
        raise ValueError(
            "the points of every pair are equal, or too close to distinguish; accepted: at least one pair that differs"
        )
    factor = float(np.sqrt(TARGET_SQUARED_LENGTH / np.median(lengths[lengths > 0])))
    if not 1e-100 < factor < 1e100:
        raise ValueError(f"the points must be rescaled by {factor:g}; accepted: a factor between 1e-100 and 1e100")
    return factor


class WordStream:
    """Sparse documents that are compared by one labeling and then by another; one stream for each seed.

    It has no evaluation points: metrics are evaluated on the pairs only.

    Parameters
    ----------
    name, description : str
    draw : callable (seed) -> SwitchingWords or SwitchingReviews
    origin : str
        A digest of the documents, if they come from a data set.
    """

    sparse = True
    seeded = True
    has_eval_sets, has_both_answers = False, True
    provides: frozenset[SideInformation] = frozenset({"changes", "length"})

    def __init__(
        self, name: str, description: str, draw: Callable[[int], SwitchingWords | SwitchingReviews], *, origin: str = ""
    ) -> None:
        self.name, self.description, self.origin = name, description, origin
        self._draw = draw
        example = draw(0)
        self.n_features, self.rounds = example.n_words, len(example)
        self.phases: tuple[str, ...] = example.questions
        self._drawn = (example.documents.shape, example.length)

    def initial_points(self, seed: int) -> None:
        """Return None: the stream has no initial points."""
        return

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """Yield the rounds in blocks."""
        words = self._draw(seed)
        for rows in block_rows(len(words), every):
            left, right = words.pairs[rows].T
            change = words.length - rows.start
            yield Block(
                round=rows.start + 1,
                phase=words.question(rows.start + 1),
                pair_phase=words.question(middle_row(rows) + 1),
                X=words.documents[left],
                Z=words.documents[right],
                y=words.y[rows],
                changes=(change,) if 0 <= change < len(left) else (),
            )

    def fingerprint(self) -> str:
        """Return its name, its size and the digest of its documents."""
        return f"{self.name} {self._drawn} {self.origin}"


def middle_row(rows: slice) -> int:
    """Return the middle row, which lies in the phase of most rows if the rows cover two phases."""
    return int((rows.start + rows.stop) // 2)


def block_rows(rounds: int, every: int) -> Iterator[slice]:
    """Yield the rows of each block; the second block begins at round ``every``, which is row ``every - 1``.

    >>> [(rows.start + 1, rows.stop) for rows in block_rows(10, 4)]
    [(1, 3), (4, 7), (8, 10)]
    """
    starts = sorted({0, *range(every - 1, rounds, every)})
    for start, stop in zip(starts, [*starts[1:], rounds], strict=True):
        yield slice(start, stop)
