"""``DatasetStream``: a labelled data set as a stream of pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_choice, check_integer
from ocelad.evaluation.streams.pair_sampling import draw_uniform_pairs
from ocelad.lab.compare.block_streams import (
    N_EVAL_POINTS,
    Block,
    EvalSet,
    SideInformation,
    block_rows,
    middle_row,
    scale_factor,
)
from ocelad.lab.compare.preparation import center, project, standardize

#: With ``in_order``: a point is paired with one of this number of predecessors, and a metric is evaluated on this
#: number of points that are closest in time.
MAX_LAG, N_NEARBY_EVAL_POINTS = 50, 300


class _Draw(NamedTuple):
    """The random draws of a seed: the prepared points, the rows paired in each round, and the rows for evaluation."""

    points: Floats
    pairs: np.ndarray
    eval_rows: np.ndarray


class DatasetStream:
    """A labelled data set as a stream for each seed: some points are paired, the others are for evaluation.

    The seed selects the evaluation points: half of the points, at most 600. No pair contains them, and the preparation
    of the points (mean, standard deviation, principal components) does not use them. All points are then multiplied by
    one factor, so that the median squared distance of the pairs is 40, as in ``PairStream``.

    Parameters
    ----------
    name, description : str
    X : array-like of shape (n_points, n_features)
    labelings : mapping from str to array-like of shape (n_points,)
        One or more labelings of the points. The stream switches from one to the next after equally many rounds.
    standardize : bool
        Whether to scale all features to mean 0 and standard deviation 1, for features with different units.
    n_components : int or None
        The number of principal components that replace the features; None: keep the features.
    n_noise : int
        The number of Gaussian noise features to append.
    in_order : bool
        Whether the rows are in the order of time. Each point is then paired with one of its 50 predecessors, and a
        metric is evaluated on the 300 evaluation points that are closest in time. Otherwise all pairs are equally
        likely, and a metric is evaluated on all evaluation points.
    rounds : int
        The length of the stream.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> stream = DatasetStream("mine", "two halves", X, {"half": X[:, 0] > 0}, rounds=300)
    >>> block = next(stream.blocks(seed=0, every=100))
    >>> block.X.shape, block.eval_set.points.shape
    ((99, 4), (30, 4))
    """

    sparse = False
    seeded = True
    has_eval_sets = has_both_answers = True
    provides: frozenset[SideInformation] = frozenset({"labels", "changes", "length"})

    def __init__(
        self,
        name: str,
        description: str,
        X: Any,
        labelings: Mapping[str, Any],
        *,
        standardize: bool = False,
        n_components: int | None = None,
        n_noise: int = 0,
        in_order: bool = False,
        rounds: int = 3000,
    ) -> None:
        self.name, self.description = name, description
        self._X = check_array(X, "X", 2)
        self.phases = tuple(labelings)
        self._labels = np.array([_encode(classes, name, len(self._X)) for name, classes in labelings.items()])
        if not labelings:
            raise ValueError("labelings is empty; accepted: at least one labeling of the points")
        self.rounds = check_integer(rounds, "rounds", at_least=len(labelings))
        self._standardize = check_choice(standardize, "standardize", (False, True))
        self._n_components, self._in_order = n_components, check_choice(in_order, "in_order", (False, True))
        self._n_noise = check_integer(n_noise, "n_noise", at_least=0)
        n = self._X.shape[1]
        if n_components is not None:
            n = check_integer(n_components, "n_components", at_least=1, at_most=min(n, len(self._X) // 2))
        self.n_features = n + n_noise
        settings = (self.phases, standardize, n_components, n_noise, in_order, rounds)
        digest = hashlib.sha256(repr(settings).encode() + self._X.tobytes() + self._labels.astype("<i8").tobytes())
        self._fingerprint = f"{name} {digest.hexdigest()[:16]}"

    def initial_points(self, seed: int) -> EvalSet:
        """Return the points that are paired, with their classes by the first labeling."""
        draw = self._draw(seed)
        paired = np.setdiff1d(np.arange(len(self._X)), draw.eval_rows)
        return EvalSet(draw.points[paired], self._labels[0, paired])

    def blocks(self, seed: int, every: int) -> Iterator[Block]:
        """Yield the rounds in blocks."""
        draw = self._draw(seed)
        labeling = np.arange(self.rounds) * len(self.phases) // self.rounds  # its index in each round
        changes = np.flatnonzero(np.diff(labeling)) + 1
        for rows in block_rows(self.rounds, every):
            left, right = draw.pairs[rows].T
            labels = np.stack([self._labels[labeling[rows], left], self._labels[labeling[rows], right]], axis=1)
            evaluated = self._nearest_in_time(draw.eval_rows, rows.start)
            yield Block(
                round=rows.start + 1,
                phase=self.phases[labeling[rows.start]],
                pair_phase=self.phases[labeling[middle_row(rows)]],
                X=draw.points[left],
                Z=draw.points[right],
                y=np.where(labels[:, 0] == labels[:, 1], 1.0, -1.0),
                eval_set=EvalSet(draw.points[evaluated], self._labels[labeling[rows.start], evaluated]),
                labels=labels,
                changes=tuple(int(at) - rows.start for at in changes if rows.start <= at < rows.stop),
            )

    def fingerprint(self) -> str:
        """Return its name and a digest of its data and parameters."""
        return self._fingerprint

    def _draw(self, seed: int) -> _Draw:
        split, pairing, noise = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3))
        order = split.permutation(len(self._X))
        n_eval = min(N_EVAL_POINTS, len(order) // 2)
        eval_rows, paired = np.sort(order[:n_eval]), np.sort(order[n_eval:])
        draw_indices = _draw_recent_pairs if self._in_order else draw_uniform_pairs
        pairs = paired[np.stack(draw_indices(len(paired), self.rounds, pairing), axis=1)]
        points = self._prepare(paired, noise)
        factor = scale_factor(points[pairs[:, 0]] - points[pairs[:, 1]])
        return _Draw(points * factor, pairs, eval_rows)

    def _prepare(self, paired: np.ndarray, rng: np.random.Generator) -> Floats:
        """Center, scale and project all points by the statistics of the paired ones, and append the noise features."""
        points = (standardize if self._standardize else center)(self._X, paired)
        if self._n_components is not None:
            points = project(points, paired, self._n_components)
        return np.hstack([points, rng.normal(size=(len(points), self._n_noise))])

    def _nearest_in_time(self, eval_rows: np.ndarray, row: int) -> np.ndarray:
        """Return the evaluation rows of a round: those closest in time with ``in_order``, otherwise all."""
        if not self._in_order:
            return eval_rows
        now = row * len(self._X) / self.rounds
        last_first = max(0, len(eval_rows) - N_NEARBY_EVAL_POINTS)
        first = int(np.clip(np.searchsorted(eval_rows, now) - N_NEARBY_EVAL_POINTS // 2, 0, last_first))
        return eval_rows[first : first + N_NEARBY_EVAL_POINTS]


def _encode(classes: Any, labeling: str, n_points: int) -> np.ndarray:
    """Return the classes as integers from 0."""
    if np.shape(classes) != (n_points,):
        raise ValueError(
            f"the labeling {labeling!r} has shape {np.shape(classes)} for {n_points} points; "
            "accepted: one class per point"
        )
    names, numbers = np.unique(classes, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"the labeling {labeling!r} has one class; accepted: two classes or more")
    return numbers


def _draw_recent_pairs(n_points: int, n_pairs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pair the point that arrived last in each round with one of its predecessors, chosen uniformly.

    >>> earlier, latest = _draw_recent_pairs(100, 1000, np.random.default_rng(0))
    >>> bool((earlier < latest).all()), bool((np.diff(latest) >= 0).all()), latest[-1]
    (True, True, np.int64(99))
    """
    latest = 1 + np.arange(n_pairs) * (n_points - 1) // n_pairs
    return latest - 1 - rng.integers(np.minimum(latest, MAX_LAG)), latest
