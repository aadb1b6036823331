"""The synthetic scenario of section VI-A: clusters in a rotating subspace, and a clustering that changes.

The paper leaves some parameters open. The notes of ``DriftingClusters`` list the values chosen here.
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
# The subspace of each clustering before any rotation.
SUBSPACES = {"A": slice(0, 3), "B": slice(3, 6)}
N_INFORMATIVE = 6  # features of both subspaces; the others are noise
#: The distributions of the noise dimensions, with variance 1: Gaussian, or Student's t with 3 degrees of freedom, which
#: has heavy tails.
FEATURE_NOISES = ("normal", "t3")
# The range of the units of features, in orders of magnitude.
UNIT_MAGNITUDES = 3.0
# The approximate number of entries of the rotations that are drawn together (64 rounds of 25 features): enough for
# stacked linear algebra, few enough for a cheap first round and for little memory.
CHUNK_ENTRIES = 40_000


@dataclass(frozen=True, slots=True)
class Phase:
    """Consecutive rounds with one clustering and one rate of drift.

    Attributes
    ----------
    name : str
    clustering : {"A", "B"}
        The clustering that determines which points are similar.
    drift : float
        The root mean square of the movement per round of the projector on the subspace of the clustering, in Frobenius
        norm. This holds for small drifts; a drift of 1 moves the projector by 0.94.
    length : int
        The number of rounds.
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
    """The paper's scenario: pairs of points in rotating clusters, labelled by a clustering that changes.

    Points in n_features dimensions have two independent clusterings, A and B. Each consists of three Gaussian blobs
    with 50, 20 and 30 % of the points in a separate 3-dimensional subspace; the other dimensions are noise. In each
    round the data rotate by a small random rotation, and two random points are compared.

    Parameters
    ----------
    phases : sequence of Phase
        The phases of the stream, in order.
    n_points, n_features : int
        The number of points and of their dimensions, at least 6.
    label_noise : float
        The probability that a label is wrong.
    random_rotation : bool
        Whether the data are rotated at random before the first round. Otherwise the subspaces of A and B are the first
        six features at the start, and a diagonal metric can represent them.
    feature_noise : {"normal", "t3"}
        The distribution of the noise dimensions, with variance 1: Gaussian, or Student's t with 3 degrees of freedom.
    random_units : bool
        Whether the features are multiplied by random units that span three orders of magnitude.
    seed : int
        The same seed gives the same stream. Points, rotations, pairs, wrong labels, the initial rotation, noise that is
        not Gaussian, and units have separate random generators, so that changing one leaves the others unchanged.

    Examples
    --------
    >>> stream = DriftingClusters(seed=1)
    >>> len(stream)
    6000
    >>> step = next(iter(stream))
    >>> step.round, step.phase.name, step.pair().x.shape
    (1, 'A, static', (25,))

    Notes
    -----
    Choices where the paper gives no values: the blobs have standard deviation 1/3 and lie on the corners of an
    equilateral triangle of side 2 in a random plane; the noise is N(0, 1); the rotation is the Cayley transform of a
    skew-symmetric matrix with N(0, s^2) entries, ``s = drift / sqrt(6 (n_features - 3))``, which moves the projector on
    a 3-dimensional subspace by ``drift`` in root mean square; the lengths and rates are those of ``PAPER_PHASES``.

    Units are ``10 ** uniform(-1.5, 1.5)``, divided by their root mean square, so that differences have the same mean
    squared length as without them. They multiply the features after the rotation.
    """

    def __init__(
        self,
        phases: Sequence[Phase] = PAPER_PHASES,
        *,
        n_points: int = 2000,
        n_features: int = 25,
        label_noise: float = 0.0,
        random_rotation: bool = False,
        feature_noise: str = "normal",
        random_units: bool = False,
        seed: int = 0,
    ) -> None:
        self.phases = tuple(phases) if isinstance(phases, Iterable) else ()
        if not self.phases or not all(isinstance(phase, Phase) for phase in self.phases):
            raise TypeError("phases must be a sequence of at least one Phase(name, clustering, drift, length)")
        self.n_points = check_integer(n_points, "n_points", at_least=10)
        self.n_features = check_integer(n_features, "n_features", at_least=N_INFORMATIVE)
        self.label_noise = check_number(label_noise, "label_noise", at_least=0, at_most=1)
        self.random_rotation = check_choice(random_rotation, "random_rotation", (False, True))
        self.feature_noise = check_choice(feature_noise, "feature_noise", FEATURE_NOISES)
        self.random_units = check_choice(random_units, "random_units", (False, True))
        self.seed = check_integer(seed, "seed", at_least=0)
        # The order of the spawned seeds determines the stream of a seed.
        point_seed, *self._seeds, rotation_seed, t_seed, unit_seed = np.random.SeedSequence(self.seed).spawn(7)
        self._points, self._labels = self._draw_points(np.random.default_rng(point_seed))
        if self.feature_noise == "t3":
            noise = self._points[:, N_INFORMATIVE:]
            noise[:] = np.random.default_rng(t_seed).standard_t(3, size=noise.shape) / np.sqrt(3)
        self._start, self._units = np.eye(self.n_features), np.ones(self.n_features)
        if self.random_rotation:
            self._start = _random_rotation(self.n_features, np.random.default_rng(rotation_seed))
        if self.random_units:
            self._units = _random_units(self.n_features, np.random.default_rng(unit_seed))

    def __len__(self) -> int:
        return sum(phase.length for phase in self.phases)

    def __iter__(self) -> Iterator[StreamStep]:
        t = 0
        for chunk in self._chunks():
            labels = self._labels[chunk.phase.clustering]
            pairs = zip(chunk.similar.tolist(), chunk.first.tolist(), chunk.second.tolist(), strict=True)
            for (similar, first, second), rotation in zip(pairs, chunk.rotations, strict=True):
                t += 1
                yield StreamStep(t, chunk.phase, similar, first, second, labels, rotation, self._units, self._points)

    def events(self) -> Events:
        """Return the events of all rounds at once, bit by bit those of the single steps.

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
        rotation_rng, pair_rng, label_rng = (np.random.default_rng(seed) for seed in self._seeds)
        rotation, max_rounds = self._start, max(1, CHUNK_ENTRIES // self.n_features**2)
        for phase in self.phases:
            labels = self._labels[phase.clustering]
            for begin in range(0, phase.length, max_rounds):
                count = min(max_rounds, phase.length - begin)
                rotations = _rotations(rotation, phase.drift, count, rotation_rng)
                rotation = rotations[-1]
                ends = np.tile([self.n_points, self.n_points - 1], count)
                first, second = pair_rng.integers(ends).reshape(count, 2).T
                second = second + (second >= first)  # uniform among the other points
                similar = (labels[first] == labels[second]) != (label_rng.random(count) < self.label_noise)
                yield _Chunk(phase, similar, first, second, rotations)

    def _draw_points(self, rng: np.random.Generator) -> tuple[Floats, dict[str, np.ndarray]]:
        points = rng.normal(size=(self.n_points, self.n_features))
        labels = {}
        ends = np.round(np.cumsum(CLUSTER_SHARES) * self.n_points).astype(int)
        for name, subspace in SUBSPACES.items():
            cluster = rng.permutation(np.searchsorted(ends, np.arange(self.n_points), side="right"))
            points[:, subspace] = CLUSTER_SPREAD * points[:, subspace] + _triangle(rng)[cluster]
            labels[name] = cluster
        return points, labels


@dataclass(frozen=True, slots=True, eq=False)
class StreamStep:
    """One round of the stream: the pair and the state of the data.

    Attributes
    ----------
    round : int
        The number of the round, t = 1, 2, 3, ...
    phase : Phase
    similar : bool
        The label, which may be wrong.
    first, second : int
        The indices of the two points.
    labels : array of shape (n_points,)
        The cluster of each point in the clustering of the phase.
    rotation : array of shape (n_features, n_features)
        The rotation of the data since the start.
    units : array of shape (n_features,)
        The factors of the features after the rotation.
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
        """Return the pair as an event."""
        u = self.rotation @ (self._points[self.first] - self._points[self.second])
        return Event(u * self.units, 1.0 if self.similar else -1.0)

    def pair(self) -> Pair:
        """Return the pair."""
        x, z = self.points([self.first, self.second])
        return Pair(x, z, self.similar)

    def points(self, rows: slice | Sequence[int] = slice(None)) -> Floats:
        """Return the current coordinates of the points."""
        return np.asarray(self._points[rows] @ self.rotation.T * self.units)

    def true_metric(self) -> Metric:
        """Return the Euclidean metric on the subspace of the clustering.

        The threshold is half the squared side of the triangle. It classifies about 95 % of the pairs correctly, because
        the blobs overlap.
        """
        basis = self.rotation[:, SUBSPACES[self.phase.clustering]] / self.units[:, None]
        projector = basis @ basis.T
        return Metric.from_trusted_matrix(
            projector / 2 + projector.T / 2, threshold=TRIANGLE_SIDE**2 / 2, round=self.round - 1
        )


def pair_points(steps: Sequence[StreamStep]) -> Floats:
    """Return the points of the pairs of steps of one stream, of shape (n_steps, 2, n_features).

    They equal ``step.points([step.first, step.second])`` bit by bit.
    """
    rows = [(step.first, step.second) for step in steps]
    rotations = np.array([step.rotation for step in steps])
    return np.asarray(steps[0]._points[rows] @ rotations.transpose(0, 2, 1) * steps[0].units)


def _triangle(rng: np.random.Generator) -> Floats:
    """Return the corners of an equilateral triangle around the origin, in a random plane of three dimensions."""
    angles = 2 * np.pi * np.arange(3) / 3
    plane, _ = np.linalg.qr(rng.normal(size=(3, 2)))
    corners = np.stack([np.cos(angles), np.sin(angles)], axis=1) * TRIANGLE_SIDE / np.sqrt(3)
    return np.asarray(corners @ plane.T)


class _Chunk(NamedTuple):
    """Rounds of one phase that are drawn together; see ``StreamStep``."""

    phase: Phase
    similar: np.ndarray
    first: np.ndarray
    second: np.ndarray
    rotations: Floats


def _random_rotation(n: int, rng: np.random.Generator) -> Floats:
    """Draw a rotation from the uniform (Haar) distribution."""
    Q, R = np.linalg.qr(rng.normal(size=(n, n)))
    Q *= np.sign(np.diag(R))  # without the sign convention of LAPACK, which is not uniform
    Q[:, 0] *= np.linalg.det(Q).round()
    return np.asarray(Q)


def _random_units(n: int, rng: np.random.Generator) -> Floats:
    """Draw a unit for each feature, log-uniform, with root mean square 1."""
    units = 10.0 ** rng.uniform(-UNIT_MAGNITUDES / 2, UNIT_MAGNITUDES / 2, size=n)
    return np.asarray(units / np.sqrt(np.mean(units**2)))


def _rotations(start: Floats, drift: float, count: int, rng: np.random.Generator) -> Floats:
    """Return the rotation of the data in each of the next rounds."""
    if not drift:
        return np.broadcast_to(start, (count, *start.shape))
    current, rotations = start, np.empty((count, *start.shape))
    for small, rotation in zip(_small_rotations(drift, len(start), count, rng), rotations, strict=True):
        current = np.dot(small, current, out=rotation)
    return rotations


def _small_rotations(drift: float, n: int, count: int, rng: np.random.Generator) -> Floats:
    """Return the Cayley transforms ``(I - S/2)^-1 (I + S/2)`` of random skew-symmetric matrices S."""
    halves = rng.normal(scale=drift / np.sqrt(6 * (n - 3)), size=(count, n * (n - 1) // 2)) / 2
    plus = np.zeros((count, n, n))
    plus[:, np.arange(n), np.arange(n)] = 1.0
    ends = np.cumsum(np.arange(n)[::-1])
    for row, upper in enumerate(np.split(halves, ends[:-1], axis=1)):
        plus[:, row, row + 1 :] = upper
        plus[:, row + 1 :, row] = -upper
    # I - S/2 is the transpose of I + S/2.
    return np.asarray(np.linalg.solve(plus.transpose(0, 2, 1), plus))
