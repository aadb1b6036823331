"""The paper's synthetic scenario (section VI-A): clusters in a subspace that turns, and a question that changes.

The paper leaves some numbers open; they are chosen here and said in ``DriftingClusters``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, check_number
from ocelad.metric import Metric
from ocelad.pairs import Event, Events, Pair

CLUSTER_SHARES = (0.5, 0.2, 0.3)
CLUSTER_SPREAD = 1 / 3
TRIANGLE_SIDE = 2.0
# Where each clustering can be seen before any rotation.
SUBSPACES = {"A": slice(0, 3), "B": slice(3, 6)}
N_TELLING = 6  # features of the two together; the others are noise
#: What the dimensions beside the subspaces hold, all of variance 1: Gaussian noise, or Student's t with 3 degrees of
#: freedom, which now and then is far out.
NOISES = ("normal", "t3")
# Units of features differ by up to so many orders of magnitude.
UNIT_MAGNITUDES = 3.0
# Rounds are drawn in chunks of rotations with about so many entries (64 rounds of 25 features): enough for stacked
# linear algebra, few enough for a cheap first round and for little memory.
CHUNK_ENTRIES = 40_000


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of rounds in which one clustering is asked for and the data drift at one rate.

    Attributes
    ----------
    name : str
    clustering : {"A", "B"}
        Which of the two clusterings says what is similar.
    drift : float
        By how much, in Frobenius norm and root mean square, the projector on the clustering's subspace moves
        in a round. (For small drifts, as here; a drift of 1 moves it by 0.94.)
    length : int
        How many rounds it lasts.
    """

    name: str
    clustering: str
    drift: float
    length: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name must be text; got {self.name!r}")
        check_choice(self.clustering, "clustering", SUBSPACES)
        check_number(self.drift, "drift", at_least=0, at_most=1)
        check_integer(self.length, "length", at_least=1)


PAPER_PHASES = (
    Phase("A, static", "A", 0.0, 1000),
    Phase("B, moderate drift", "B", 0.03, 1000),
    Phase("B, fast drift", "B", 0.06, 1000),
    Phase("B, moderate again", "B", 0.03, 1000),
    Phase("A, slow drift", "A", 0.01, 2000),
)


class DriftingClusters:
    """Pairs of points in clusters that rotate, judged by a clustering that changes: the paper's scenario.

    Points in n_features dimensions carry two independent clusterings, A and B, each of three Gaussian blobs
    with 50, 20 and 30 % of the points in a 3-dimensional subspace of its own; the other dimensions are noise.
    In each round the data are rotated a little at random, then two points are drawn and compared.

    Parameters
    ----------
    phases : sequence of Phase
        What happens, one after the other.
    n_points, n_features : int
        How many points, and in how many dimensions (6 or more).
    flipped : float
        Probability that an answer is the wrong one.
    turned : bool
        Whether the data are turned at random before the first round. Otherwise the subspaces of A and B begin as
        the first six features, and a metric of one weight per feature can see them.
    noise : {"normal", "t3"}
        What the other dimensions hold, of variance 1: Gaussian noise, or Student's t with 3 degrees of freedom.
    units : bool
        Whether every feature is measured in a unit of its own, drawn over three orders of magnitude.
    seed : int
        The same seed gives the same stream. Points, rotations, pairs, wrong answers, the turn before the first
        round, noise that is not Gaussian, and units are drawn apart, so that changing one leaves the others as
        they were.

    Examples
    --------
    >>> stream = DriftingClusters(seed=1)
    >>> len(stream)
    6000
    >>> moment = next(iter(stream))
    >>> moment.round, moment.phase.name, moment.pair().x.shape
    (1, 'A, static', (25,))

    Notes
    -----
    Chosen where the paper says nothing: blobs of standard deviation 1/3 on the corners of an equilateral
    triangle of side 2, turned at random; noise N(0, 1); the rotation is the Cayley transform of a skew matrix
    with N(0, s^2) entries, ``s = drift / sqrt(6 (n_features - 3))``, which moves the projector on a
    3-dimensional subspace by ``drift`` in root mean square; the lengths and rates in ``PAPER_PHASES``.

    Units are ``10 ** uniform(-1.5, 1.5)``, all divided by their root mean square, so that differences are on average
    as long as without them. They multiply the features as they are observed, after the rotation.
    """

    def __init__(
        self,
        phases: Sequence[Phase] = PAPER_PHASES,
        *,
        n_points: int = 2000,
        n_features: int = 25,
        flipped: float = 0.0,
        turned: bool = False,
        noise: str = "normal",
        units: bool = False,
        seed: int = 0,
    ) -> None:
        self.phases = tuple(phases) if isinstance(phases, Iterable) else ()
        if not self.phases or not all(isinstance(phase, Phase) for phase in self.phases):
            raise TypeError("phases must be a sequence of at least one Phase(name, clustering, drift, length)")
        self.n_points = check_integer(n_points, "n_points", at_least=10)
        self.n_features = check_integer(n_features, "n_features", at_least=N_TELLING)
        self.flipped = check_number(flipped, "flipped", at_least=0, at_most=1)
        self.turned = check_choice(turned, "turned", (False, True))
        self.noise = check_choice(noise, "noise", NOISES)
        self.units = check_choice(units, "units", (False, True))
        self.seed = check_integer(seed, "seed", at_least=0)
        points, *self._draws, turn, heavy, unit = np.random.SeedSequence(self.seed).spawn(7)
        self._points, self._labels = self._make_points(np.random.default_rng(points))
        if self.noise == "t3":
            of_noise = self._points[:, N_TELLING:]
            of_noise[:] = np.random.default_rng(heavy).standard_t(3, size=of_noise.shape) / np.sqrt(3)
        self._start, self._units = np.eye(self.n_features), np.ones(self.n_features)
        if self.turned:
            self._start = _any_rotation(self.n_features, np.random.default_rng(turn))
        if self.units:
            self._units = _any_units(self.n_features, np.random.default_rng(unit))

    def __len__(self) -> int:
        return sum(phase.length for phase in self.phases)

    def __iter__(self) -> Iterator[Moment]:
        t = 0
        for chunk in self._chunks():
            labels = self._labels[chunk.phase.clustering]
            pairs = zip(chunk.similar.tolist(), chunk.first.tolist(), chunk.second.tolist(), strict=True)
            for (similar, first, second), rotation in zip(pairs, chunk.rotations, strict=True):
                t += 1
                yield Moment(t, chunk.phase, similar, first, second, labels, rotation, self._units, self._points)

    def events(self) -> Events:
        """All events at once, those of the moments: ``[moment.event() for moment in stream]`` to the bit.

        >>> events = DriftingClusters([Phase("p", "A", 0.1, 300)], seed=1).events()
        >>> events.U.shape
        (300, 25)
        """
        U, y = [], []
        for chunk in self._chunks():
            differences = self._points[chunk.first] - self._points[chunk.second]
            U.append((chunk.rotations @ differences[:, :, None])[:, :, 0] * self._units)
            y.append(np.where(chunk.similar, 1.0, -1.0))
        return Events(np.concatenate(U), np.concatenate(y))

    def _chunks(self) -> Iterator[_Chunk]:
        rotations, pairs, answers = (np.random.default_rng(draw) for draw in self._draws)
        now, most = self._start, max(1, CHUNK_ENTRIES // self.n_features**2)
        for phase in self.phases:
            labels = self._labels[phase.clustering]
            for begin in range(0, phase.length, most):
                count = min(most, phase.length - begin)
                turns = _turns(now, phase.drift, count, rotations)
                now = turns[-1]
                ends = np.tile([self.n_points, self.n_points - 1], count)
                first, second = pairs.integers(ends).reshape(count, 2).T
                second = second + (second >= first)  # any other point, all equally likely
                similar = (labels[first] == labels[second]) != (answers.random(count) < self.flipped)
                yield _Chunk(phase, similar, first, second, turns)

    def _make_points(self, draw: np.random.Generator) -> tuple[Floats, dict[str, np.ndarray]]:
        points = draw.normal(size=(self.n_points, self.n_features))
        labels = {}
        ends = np.round(np.cumsum(CLUSTER_SHARES) * self.n_points).astype(int)
        for name, subspace in SUBSPACES.items():
            cluster = draw.permutation(np.searchsorted(ends, np.arange(self.n_points), side="right"))
            points[:, subspace] = CLUSTER_SPREAD * points[:, subspace] + _triangle(draw)[cluster]
            labels[name] = cluster
        return points, labels


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One round of the stream: the pair, and the world as it is now.

    Attributes
    ----------
    round : int
        Its number t = 1, 2, 3, ...
    phase : Phase
    similar : bool
        The answer, which may be a wrong one.
    first, second : int
        Which two points are compared.
    labels : array of shape (n_points,)
        The cluster of each point, by the clustering asked for.
    rotation : array of shape (n_features, n_features)
        How far the data have turned.
    units : array of shape (n_features,)
        What the features, once turned, are multiplied by.
    """

    round: int
    phase: Phase
    similar: bool
    first: int
    second: int
    labels: np.ndarray
    rotation: Floats
    units: Floats
    _points: Floats

    def event(self) -> Event:
        """What the core sees of the pair."""
        u = self.rotation @ (self._points[self.first] - self._points[self.second])
        return Event(u * self.units, 1.0 if self.similar else -1.0)

    def pair(self) -> Pair:
        """The pair."""
        x, z = self.points([self.first, self.second])
        return Pair(x, z, self.similar)

    def points(self, rows: slice | Sequence[int] = slice(None)) -> Floats:
        """The points where they are now."""
        return np.asarray(self._points[rows] @ self.rotation.T * self.units)

    def true_metric(self) -> Metric:
        """Euclidean distance in the subspace in which the clustering can be seen.

        The threshold, half the squared side of the triangle, gets about 95 % of the pairs right; the blobs overlap.
        """
        basis = self.rotation[:, SUBSPACES[self.phase.clustering]] / self.units[:, None]
        projector = basis @ basis.T
        return Metric.trusted(projector / 2 + projector.T / 2, threshold=TRIANGLE_SIDE**2 / 2, round=self.round - 1)


def points_of_pairs(moments: Sequence[Moment]) -> Floats:
    """Where the two points of each moment are, of shape (n_moments, 2, n_features).

    It is ``moment.points([moment.first, moment.second])`` of each, to the bit, for moments of one stream.
    """
    rows = [(moment.first, moment.second) for moment in moments]
    rotations = np.array([moment.rotation for moment in moments])
    return np.asarray(moments[0]._points[rows] @ rotations.transpose(0, 2, 1) * moments[0].units)


def _triangle(draw: np.random.Generator) -> Floats:
    """The corners of an equilateral triangle around the origin, in a random plane of three dimensions."""
    angles = 2 * np.pi * np.arange(3) / 3
    plane, _ = np.linalg.qr(draw.normal(size=(3, 2)))
    corners = np.stack([np.cos(angles), np.sin(angles)], axis=1) * TRIANGLE_SIDE / np.sqrt(3)
    return np.asarray(corners @ plane.T)


class _Chunk(NamedTuple):
    """Some rounds of one phase, drawn together; see ``Moment``."""

    phase: Phase
    similar: np.ndarray
    first: np.ndarray
    second: np.ndarray
    rotations: Floats


def _any_rotation(n: int, draw: np.random.Generator) -> Floats:
    """A rotation, all of them equally likely."""
    Q, R = np.linalg.qr(draw.normal(size=(n, n)))
    Q *= np.sign(np.diag(R))  # LAPACK's own signs favour some rotations
    Q[:, 0] *= np.linalg.det(Q).round()
    return np.asarray(Q)


def _any_units(n: int, draw: np.random.Generator) -> Floats:
    """A unit for each feature, all magnitudes equally likely; of root mean square 1."""
    units = 10.0 ** draw.uniform(-UNIT_MAGNITUDES / 2, UNIT_MAGNITUDES / 2, size=n)
    return np.asarray(units / np.sqrt(np.mean(units**2)))


def _turns(now: Floats, drift: float, count: int, draw: np.random.Generator) -> Floats:
    """How far the data have turned in each of the next rounds."""
    if not drift:
        return np.broadcast_to(now, (count, *now.shape))
    turns = np.empty((count, *now.shape))
    for small, turn in zip(_small_rotations(drift, len(now), count, draw), turns, strict=True):
        now = np.dot(small, now, out=turn)
    return turns


def _small_rotations(drift: float, n: int, count: int, draw: np.random.Generator) -> Floats:
    """The Cayley transforms ``(I - S/2)^-1 (I + S/2)`` of random skew matrices S."""
    halves = draw.normal(scale=drift / np.sqrt(6 * (n - 3)), size=(count, n * (n - 1) // 2)) / 2
    plus = np.zeros((count, n, n))
    plus[:, np.arange(n), np.arange(n)] = 1.0
    ends = np.cumsum(np.arange(n)[::-1])
    for row, upper in enumerate(np.split(halves, ends[:-1], axis=1)):
        plus[:, row, row + 1 :] = upper
        plus[:, row + 1 :, row] = -upper
    # I - S/2 is the transpose of I + S/2.
    return np.asarray(np.linalg.solve(plus.transpose(0, 2, 1), plus))
