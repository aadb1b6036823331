"""Data sets as streams: points with known classes, of which some are paired and others judge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_choice, check_integer
from ocelad.lab.compare.comparison_streams import (
    SCENE_POINTS,
    Block,
    EvalSet,
    SideInformation,
    block_rows,
    middle_of,
    typical_factor,
)

#: In order of time, a point is compared with one of so many before it, and a metric is judged on so many points that
#: are the nearest in time.
NEARBY, SCENE_AROUND = 50, 300


class _Drawn(NamedTuple):
    """What a seed draws: the points as methods get them, which of them are paired in each round, and which judge."""

    points: Floats
    pairs: np.ndarray
    scene: np.ndarray


class TableStream:
    """A data set as a stream for each seed: some points are compared with each other, the others judge.

    The seed draws which points judge: half of them, 600 at most. None of them is ever in a pair, and nothing that is
    done to the points (mean, standard deviation, principal components) is taken from them. All points are then
    multiplied by one number, so that pairs have a median squared distance of 40, as those of a file.

    Parameters
    ----------
    name, about : str
    X : array-like of shape (n_points, n_features)
    questions : mapping from str to array-like of shape (n_points,)
        The classes of the points, by each question; the questions are asked one after the other, for equally long.
    standardised : bool
        Whether features are brought to mean 0 and standard deviation 1; for those that come in units.
    n_components : int or None
        How many principal components are taken in place of the features; None: the features.
    n_noise : int
        How many features of Gaussian noise are added.
    in_order : bool
        Whether the points come in an order of time. A point is then compared with one of the 50 before it, and a metric
        is judged on the 300 points that are the nearest in time. Otherwise any two points are compared, and all judge.
    rounds : int

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> stream = TableStream("mine", "two halves", X, {"half": X[:, 0] > 0}, rounds=300)
    >>> block = next(stream.blocks(seed=0, every=100))
    >>> block.X.shape, block.scene.points.shape
    ((99, 4), (30, 4))
    """

    sparse = False
    seeded = True
    has_scenes = True
    gives: frozenset[SideInformation] = frozenset({"labels", "changes", "length"})

    def __init__(
        self,
        name: str,
        metadata: str,
        X: Any,
        questions: Mapping[str, Any],
        *,
        standardised: bool = False,
        n_components: int | None = None,
        n_noise: int = 0,
        in_order: bool = False,
        rounds: int = 3000,
    ) -> None:
        self.name, self.metadata = name, metadata
        self._X = check_array(X, "X", 2)
        self.phases = tuple(questions)
        self._labels = np.array([_numbered(classes, what, len(self._X)) for what, classes in questions.items()])
        if not questions:
            raise ValueError("questions is empty; accepted: at least one question with the classes of the points")
        self.rounds = check_integer(rounds, "rounds", at_least=len(questions))
        self._standardised = check_choice(standardised, "standardised", (False, True))
        self._n_components, self._in_order = n_components, check_choice(in_order, "in_order", (False, True))
        self._n_noise = check_integer(n_noise, "n_noise", at_least=0)
        n = self._X.shape[1]
        if n_components is not None:
            n = check_integer(n_components, "n_components", at_least=1, at_most=min(n, len(self._X) // 2))
        self.n_features = n + n_noise
        settings = (self.phases, standardised, n_components, n_noise, in_order, rounds)
        digest = hashlib.sha256(repr(settings).encode() + self._X.tobytes() + self._labels.astype("<i8").tobytes())
        self._fingerprint = f"{name} {digest.hexdigest()[:16]}"

    def opening(self, seed: int) -> EvalSet:
        """The points that are paired, with their classes by the first question."""
        drawn = self._drawn(seed)
        paired = np.setdiff1d(np.arange(len(self._X)), drawn.scene)
        return EvalSet(drawn.points[paired], self._labels[0, paired])

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """The rounds in blocks."""
        drawn = self._drawn(seed)
        asked = np.arange(self.rounds) * len(self.phases) // self.rounds
        changes = np.flatnonzero(np.diff(asked)) + 1
        for rows in block_rows(self.rounds, every):
            left, right = drawn.pairs[rows].T
            labels = np.stack([self._labels[asked[rows], left], self._labels[asked[rows], right]], axis=1)
            scene = self._around(drawn.scene, rows.start)
            yield Block(
                round=rows.start + 1,
                phase=self.phases[asked[rows.start]],
                pair_phase=self.phases[asked[middle_of(rows)]],
                X=drawn.points[left],
                Z=drawn.points[right],
                y=np.where(labels[:, 0] == labels[:, 1], 1.0, -1.0),
                scene=EvalSet(drawn.points[scene], self._labels[asked[rows.start], scene]),
                labels=labels,
                changes=tuple(int(at) - rows.start for at in changes if rows.start <= at < rows.stop),
            )

    def fingerprint(self) -> str:
        """A digest of all numbers, and of what is done with them."""
        return self._fingerprint

    def _drawn(self, seed: int) -> _Drawn:
        split, pairing, noise = (np.random.default_rng(draw) for draw in np.random.SeedSequence(seed).spawn(3))
        order = split.permutation(len(self._X))
        n_scene = min(SCENE_POINTS, len(order) // 2)
        scene, paired = np.sort(order[:n_scene]), np.sort(order[n_scene:])
        couples = (_nearby if self._in_order else _any)(len(paired), self.rounds, pairing)
        pairs = paired[couples]
        points = self._prepared(paired, noise)
        factor = typical_factor(points[pairs[:, 0]] - points[pairs[:, 1]])
        return _Drawn(points * factor, pairs, scene)

    def _prepared(self, paired: np.ndarray, draw: np.random.Generator) -> Floats:
        points = self._X - self._X[paired].mean(axis=0)
        if self._standardised:
            spread = points[paired].std(axis=0)
            points = points / np.where(spread > 0, spread, 1.0)
        if self._n_components is not None:
            _, _, directions = np.linalg.svd(points[paired], full_matrices=False)
            points = points @ directions[: self._n_components].T
        return np.hstack([points, draw.normal(size=(len(points), self._n_noise))])

    def _around(self, scene: np.ndarray, row: int) -> np.ndarray:
        """The points that judge in a round."""
        if not self._in_order:
            return scene
        now = row * len(self._X) / self.rounds
        first = int(np.clip(np.searchsorted(scene, now) - SCENE_AROUND // 2, 0, max(0, len(scene) - SCENE_AROUND)))
        return scene[first : first + SCENE_AROUND]


def _numbered(classes: Any, question: str, n_points: int) -> np.ndarray:
    """The classes as 0, 1, 2, ..."""
    if np.shape(classes) != (n_points,):
        raise ValueError(
            f"the question {question!r} has classes of shape {np.shape(classes)} for {n_points} points; "
            "accepted: one each"
        )
    names, numbers = np.unique(classes, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"by the question {question!r} all points are of one class; accepted: two classes or more")
    return numbers


def _any(n: int, rounds: int, draw: np.random.Generator) -> np.ndarray:
    """Two of n points in each round, all couples equally likely."""
    first, second = draw.integers(n, size=rounds), draw.integers(n - 1, size=rounds)
    return np.stack([first, second + (second >= first)], axis=1)


def _nearby(n: int, rounds: int, draw: np.random.Generator) -> np.ndarray:
    """In each round the point that has come last, of n that come one after the other, and one of those before it.

    >>> pairs = _nearby(100, 1000, np.random.default_rng(0))
    >>> bool((pairs[:, 0] < pairs[:, 1]).all()), bool((np.diff(pairs[:, 1]) >= 0).all()), pairs[-1, 1]
    (True, True, np.int64(99))
    """
    last = 1 + np.arange(rounds) * (n - 1) // rounds
    return np.stack([last - 1 - draw.integers(np.minimum(last, NEARBY)), last], axis=1)
