"""What methods are compared on: streams of pairs in blocks, drawn for each seed or read from a file."""

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
from ocelad.evaluation.streams import DriftingClusters, Moment, SwitchingWords
from ocelad.evaluation.streams.drifting_clusters import points_of_pairs
from ocelad.evaluation.streams.reviews import SwitchingReviews
from ocelad.metric import Metric
from ocelad.pairs import Events, alike, subtract

#: What a stream may tell beside its pairs: the classes of their points, when the question changes, the true metric, and
#: how long it is.
SideInformation: TypeAlias = Literal["labels", "changes", "truth", "length"]

#: How many points are embedded to judge a metric.
SCENE_POINTS = 600
#: The squared length that differences of the built-in streams have; pairs of files are brought to it.
TYPICAL_SQUARED_LENGTH = 40.0


class EvalSet(NamedTuple):
    """Points as they are at one moment, and their classes."""

    points: Floats
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Block:
    """Rounds one after the other, and the world as it is when the first of them is about to be played.

    Attributes
    ----------
    round : int
        The first round's number.
    phase, pair_phase : str
        The phase that it is in, and that of most of the pairs.
    X, Z : arrays or sparse arrays of shape (n_rounds, n_features)
        The points of the pairs.
    y : array of shape (n_rounds,)
        +1 similar, -1 dissimilar.
    scene : Scene or None
        What a metric is judged on.
    labels : array of shape (n_rounds, 2) or None
        The classes of the pairs' points.
    changes : tuple of int
        The places in the block at which the question changes.
    truth : Metric or None
        The metric by which the pairs were answered.
    """

    round: int
    phase: str
    pair_phase: str
    X: Any
    Z: Any
    y: Floats
    scene: EvalSet | None = None
    labels: np.ndarray | None = None
    changes: tuple[int, ...] = ()
    truth: Metric | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice) -> Block:
        """Some of its rounds, without the changes."""
        labels = None if self.labels is None else self.labels[part]
        start = part.indices(len(self))[0]
        return replace(
            self, round=self.round + start, X=self.X[part], Z=self.Z[part], y=self.y[part], labels=labels, changes=()
        )

    def told(self, needs: frozenset[SideInformation]) -> Block:
        """The same with nothing beside its pairs but what is needed."""
        told = replace(
            self,
            scene=None,
            labels=self.labels if "labels" in needs else None,
            changes=self.changes if "changes" in needs else (),
            truth=None,
        )
        vars(told)["events"] = self.events  # made once for all methods
        return told

    @cached_property
    def events(self) -> Events:
        """The pairs as the core sees them."""
        return Events(subtract(self.X, self.Z), self.y)


class Stream(Protocol):
    """What methods are compared on.

    Attributes
    ----------
    name, about : str
        What it is called, and one line about it.
    n_features, rounds : int
    sparse : bool
        Whether the points are SciPy sparse rows.
    gives : frozenset of Gift
        What it tells beside its pairs.
    phases : tuple of str
        The names of its phases, in their order.
    seeded : bool
        Whether another seed draws another stream; a file is one stream.
    has_scenes : bool
        Whether metrics can be judged by the classes of points, and not only by pairs.
    """

    @property
    def name(self) -> str: ...
    @property
    def metadata(self) -> str: ...
    @property
    def n_features(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def gives(self) -> frozenset[SideInformation]: ...
    @property
    def phases(self) -> tuple[str, ...]: ...
    @property
    def seeded(self) -> bool: ...
    @property
    def has_scenes(self) -> bool: ...

    def opening(self, seed: int) -> EvalSet | None:
        """All points as they are before the first round, with their classes, where it has some."""
        ...

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """The rounds in blocks; the second begins at round ``every``, and each further one so many rounds later."""
        ...

    def fingerprint(self) -> str:
        """What no other stream has."""
        ...


class DriftingStream:
    """A scenario of clusters that drift, one stream for each seed.

    Parameters
    ----------
    name, about : str
        What it is called, and one line about it.
    draw : callable (seed) -> DriftingClusters

    Examples
    --------
    >>> stream = DriftingStream("mine", "as in the paper", lambda seed: DriftingClusters(seed=seed))
    >>> [len(block) for block in stream.blocks(seed=0, every=2000)]
    [1999, 2000, 2000, 1]
    """

    sparse = False
    seeded = True
    has_scenes = True
    gives: frozenset[SideInformation] = frozenset({"labels", "changes", "truth", "length"})

    def __init__(self, name: str, metadata: str, draw: Callable[[int], DriftingClusters]) -> None:
        self.name, self.metadata = name, metadata
        self._draw = draw
        example = draw(0)
        self.n_features, self.rounds = example.n_features, len(example)
        self.phases = tuple(dict.fromkeys(phase.name for phase in example.phases))
        names = ("phases", "n_points", "n_features", "flipped", "turned", "noise", "units")
        drawn = [getattr(example, name) for name in names]
        self._fingerprint = f"{name} {hashlib.sha256(repr(drawn).encode()).hexdigest()[:16]}"

    def opening(self, seed: int) -> EvalSet:
        """All points as they are in the first round."""
        first = next(iter(self._draw(seed)))
        return EvalSet(first.points(), first.labels)

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """The rounds in blocks."""
        gathered: list[Moment] = []
        asked = None  # the clustering that was asked for in the round before
        for moment in self._draw(seed):
            if moment.round % every == 0 and gathered:
                yield _gathered(gathered, asked)
                asked, gathered = gathered[-1].phase.clustering, []
            gathered.append(moment)
        yield _gathered(gathered, asked)

    def fingerprint(self) -> str:
        """Its name and what it is drawn by."""
        return self._fingerprint


def _gathered(moments: Sequence[Moment], asked: str | None) -> Block:
    first = moments[0]
    pairs = points_of_pairs(moments)
    changes = []
    for at, moment in enumerate(moments):
        if asked is not None and moment.phase.clustering != asked:
            changes.append(at)
        asked = moment.phase.clustering
    return Block(
        round=first.round,
        phase=first.phase.name,
        pair_phase=moments[len(moments) // 2].phase.name,
        X=pairs[:, 0],
        Z=pairs[:, 1],
        y=np.array([1.0 if moment.similar else -1.0 for moment in moments]),
        scene=EvalSet(first.points(slice(SCENE_POINTS)), first.labels[:SCENE_POINTS]),
        labels=np.array([(moment.labels[moment.first], moment.labels[moment.second]) for moment in moments]),
        changes=tuple(changes),
        truth=first.true_metric(),
    )


class PairStream:
    """Given pairs as one stream, such as those of a file.

    Points are first multiplied by one number, so that pairs have a median squared distance of 40, as those of the
    built-in streams have: step sizes that suit those then suit these.

    Parameters
    ----------
    X, Z : array-like or SciPy sparse, of shape (n_pairs, n_features)
        The points of the pairs, in the order in which they came.
    y : array-like of shape (n_pairs,)
        +1 (or True) similar, -1 (or False) dissimilar.
    scene : (points, labels) or None
        Points with known classes, on which a metric can be judged by k-NN error and by clustering.
    name : str

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Z = rng.normal(size=(2, 300, 4))
    >>> stream = PairStream(X, Z, abs(X[:, 0] - Z[:, 0]) < 1)
    >>> [len(block) for block in stream.blocks(seed=0, every=100)]
    [99, 100, 100, 1]
    """

    metadata = "given pairs"
    seeded = False
    gives: frozenset[SideInformation] = frozenset({"length"})
    n_phases = 5

    def __init__(self, X: Any, Z: Any, y: Any, *, scene: tuple[Any, Any] | None = None, name: str = "pairs") -> None:
        X, Z = alike(X, Z, "X", "Z", 2)
        if X.shape != Z.shape:
            raise ValueError(f"X has shape {X.shape} and Z has {Z.shape}; accepted: as many rows, one pair each")
        self.name = name
        self.sparse = is_sparse(X)
        self.rounds, self.n_features = int(X.shape[0]), int(X.shape[1])
        events = Events(subtract(X, Z), y)  # which checks all of it
        if abs(events.y.sum()) == len(events.y):
            raise ValueError(f"all pairs have the label {events.y[0]:+g}; similar and dissimilar ones are needed")
        self.factor = typical_factor(events.U)
        self._X, self._Z, self._y = X * self.factor, Z * self.factor, events.y
        self._scene = None
        if scene is not None:
            points = check_array(scene[0], "the points of the scene", 2, n_features=self.n_features)
            if np.shape(scene[1]) != (len(points),):
                raise ValueError(
                    f"the scene has {len(points)} points and labels of shape {np.shape(scene[1])}; "
                    "accepted: one label for each point"
                )
            self._scene = EvalSet(points * self.factor, np.asarray(scene[1]))
        self.phases = tuple(f"{i + 1}/{self.n_phases}" for i in range(self.n_phases))
        self._fingerprint = self._digest()

    @property
    def has_scenes(self) -> bool:
        """Whether metrics can be judged by k-NN error."""
        return self._scene is not None

    def part(self, first: int, last: int, *, judged: bool = True) -> PairStream:
        """The pairs from one on and before another, as a stream of its own; with the scene if ``judged`` by it."""
        part = copy(self)
        part._X, part._Z, part._y = self._X[first:last], self._Z[first:last], self._y[first:last]
        part.rounds, part._scene = len(part._y), self._scene if judged else None
        part._fingerprint = part._digest()
        return part

    def opening(self, seed: int) -> EvalSet | None:
        """None: nothing is told before the first pair."""
        return None

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """The rounds in blocks; a fifth of them is called a phase."""
        for rows in block_rows(self.rounds, every):
            phase, of_pairs = (self.phases[at * self.n_phases // self.rounds] for at in (rows.start, middle_of(rows)))
            yield Block(rows.start + 1, phase, of_pairs, self._X[rows], self._Z[rows], self._y[rows], self._scene)

    def fingerprint(self) -> str:
        """A digest of all numbers."""
        return self._fingerprint

    def _digest(self) -> str:
        digest = hashlib.sha256(repr((self.sparse, self._X.shape)).encode() + self._y.tobytes())
        for points in (self._X, self._Z):
            for array in (points.data, points.indices, points.indptr) if self.sparse else (points,):
                digest.update(np.ascontiguousarray(array).tobytes())
        if self._scene is not None:
            digest.update(self._scene.points.tobytes() + repr(self._scene.labels.tolist()).encode())
        return f"{self.name} {digest.hexdigest()[:16]}"


def typical_factor(U: Any) -> float:
    """What differences are multiplied by to have the typical length; those of no length are not asked."""
    lengths = U.multiply(U).sum(axis=1) if is_sparse(U) else np.square(U).sum(axis=1)
    if not (lengths > 0).any():
        raise ValueError(
            "the points of every pair are the same, or too near to be told apart; there is nothing to learn"
        )
    factor = float(np.sqrt(TYPICAL_SQUARED_LENGTH / np.median(lengths[lengths > 0])))
    if not 1e-100 < factor < 1e100:
        raise ValueError(f"the points are of a scale that cannot be worked with (times {factor:g} they would be usual)")
    return factor


class WordStream:
    """Sparse documents, compared by one question and then by another; one stream for each seed.

    It is judged by its pairs alone.

    Parameters
    ----------
    name, about : str
    draw : callable (seed) -> SwitchingWords or SwitchingReviews
    origin : str
        What the documents are known by, where they are not drawn.
    """

    sparse = True
    seeded = True
    has_scenes = False
    gives: frozenset[SideInformation] = frozenset({"changes", "length"})

    def __init__(
        self, name: str, metadata: str, draw: Callable[[int], SwitchingWords | SwitchingReviews], *, origin: str = ""
    ) -> None:
        self.name, self.metadata, self.origin = name, metadata, origin
        self._draw = draw
        example = draw(0)
        self.n_features, self.rounds = example.n_words, len(example)
        self.phases: tuple[str, ...] = example.questions
        self._drawn = (example.documents.shape, example.length)

    def opening(self, seed: int) -> None:
        """None: nothing is told before the first pair."""
        return

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """The rounds in blocks."""
        words = self._draw(seed)
        for rows in block_rows(len(words), every):
            left, right = words.pairs[rows].T
            change = words.length - rows.start
            yield Block(
                round=rows.start + 1,
                phase=words.question(rows.start + 1),
                pair_phase=words.question(middle_of(rows) + 1),
                X=words.documents[left],
                Z=words.documents[right],
                y=words.y[rows],
                changes=(change,) if 0 <= change < len(left) else (),
            )

    def fingerprint(self) -> str:
        """Its name and what it is drawn by."""
        return f"{self.name} {self._drawn} {self.origin}"


def middle_of(rows: slice) -> int:
    """A row in the phase that most of the rows are in, where there are two."""
    return int((rows.start + rows.stop) // 2)


def block_rows(rounds: int, every: int) -> Iterator[slice]:
    """The rows of each block: the second begins at round ``every``, which is row ``every - 1``.

    >>> [(rows.start + 1, rows.stop) for rows in block_rows(10, 4)]
    [(1, 3), (4, 7), (8, 10)]
    """
    starts = sorted({0, *range(every - 1, rounds, every)})
    for start, stop in zip(starts, [*starts[1:], rounds], strict=True):
        yield slice(start, stop)
