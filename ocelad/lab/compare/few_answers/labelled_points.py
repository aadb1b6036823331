"""Points with classes: data sets of scikit-learn and River, product reviews, and drawn points."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad.lab.compare.datasets import load_river
from ocelad.lab.compare.few_answers.review_lsa import load_review_lsa
from ocelad.lab.compare.preparation import center, project, standardize

#: A function of all points and of the rows whose statistics it may use; it returns all points, prepared.
Preparation: TypeAlias = Callable[[Floats, np.ndarray], Floats]

#: The number of drawn points, of their classes, and of principal components of the digits.
N_DRAWN, N_CLASSES, N_COMPONENTS = 2000, 4, 25
#: The distance of class means from the origin in units of the standard deviation within a class, for each feature of
#: the rare rows, and over the five features of the isotropic rows that matter.
RARE_SEPARATION, ISOTROPIC_SEPARATION = 1.0, 4.0


def keep(X: Floats, rows: np.ndarray) -> Floats:
    """Leave the points as they are."""
    return X


def principal_components(X: Floats, rows: np.ndarray) -> Floats:
    """Return the first principal components."""
    return project(center(X, rows), rows, N_COMPONENTS)


@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """Points with classes.

    Attributes
    ----------
    X : array of shape (n_points, n_features)
    classes : array of shape (n_points,)
    prepare : callable (X, rows) -> array
        The preparation, whose statistics come from the given rows only.
    """

    X: Floats
    classes: np.ndarray
    prepare: Preparation = keep

    def __len__(self) -> int:
        return len(self.X)

    def digest(self) -> str:
        """Return a digest of the points and classes."""
        content = hashlib.sha256(np.ascontiguousarray(self.X).tobytes())
        content.update("\n".join(map(str, self.classes)).encode())
        return content.hexdigest()[:16]


@cache
def scikit_learn(name: str) -> LabelledPoints:
    """Return a data set of scikit-learn with standardized features."""
    from sklearn import datasets

    X, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    return LabelledPoints(X, classes, standardize)


@cache
def river(name: str) -> LabelledPoints:
    """Return a data set of River with standardized features."""
    return LabelledPoints(*load_river(name), standardize)


@cache
def digits(*, question: str = "digit", as_components: bool = False, n_dimensions: int | None = None) -> LabelledPoints:
    """Return the 1797 digits of scikit-learn as 64 pixels.

    Parameters
    ----------
    question : {"digit", "parity", "loop"}
        The classes: the ten digits, even and odd ones, or those with a closed loop (0, 6, 8, 9) and the others.
    as_components : bool
        Whether to replace the pixels by principal components.
    n_dimensions : int or None
        Rotate the pixels into this number of dimensions by a fixed orthogonal map.
    """
    from sklearn.datasets import load_digits

    X, classes = load_digits(return_X_y=True)
    if n_dimensions is not None:
        columns = np.linalg.qr(np.random.default_rng(0).normal(size=(n_dimensions, X.shape[1])))[0]
        X = X @ columns.T
    answers = {"digit": classes, "parity": classes % 2, "loop": np.isin(classes, (0, 6, 8, 9)).astype(int)}
    return LabelledPoints(X, answers[question], principal_components if as_components else keep)


@cache
def reviews(n_components: int, question: str, *, unit_length: bool = True) -> LabelledPoints:
    """Return the product reviews by latent semantic analysis, scaled to unit length or not."""
    return LabelledPoints(*load_review_lsa(n_components, question, unit_length=unit_length))


def rare(density: float, seed: int) -> LabelledPoints:
    """Draw 10 Gaussian features with four class means, and 30 binary features of this density without information.

    >>> rare(0.05, seed=0).X[:, 10:].mean().round(2)
    np.float64(0.05)
    """
    rng = np.random.default_rng([seed, 1])
    classes = rng.integers(N_CLASSES, size=N_DRAWN)
    means = RARE_SEPARATION * rng.normal(size=(N_CLASSES, 10))
    informative = means[classes] + rng.normal(size=(N_DRAWN, 10))
    return LabelledPoints(np.hstack([informative, rng.random((N_DRAWN, 30)) < density]), classes)


def isotropic(seed: int) -> LabelledPoints:
    """Draw 384 Gaussian features; the four class means differ in five random directions only."""
    rng = np.random.default_rng([seed, 2])
    classes = rng.integers(N_CLASSES, size=N_DRAWN)
    directions = np.linalg.qr(rng.normal(size=(384, 5)))[0]
    means = rng.normal(size=(N_CLASSES, 5))
    means *= ISOTROPIC_SEPARATION / np.linalg.norm(means, axis=1, keepdims=True)
    return LabelledPoints(means[classes] @ directions.T + rng.normal(size=(N_DRAWN, 384)), classes)


def _load_without_seed(load: Callable[[], LabelledPoints], seed: int) -> LabelledPoints:
    return load()


def same_for_each_seed(
    load: Callable[..., LabelledPoints], *arguments: Any, **more: Any
) -> Callable[[int], LabelledPoints]:
    """Return a function of a seed that returns the same points for each."""
    return partial(_load_without_seed, partial(load, *arguments, **more))
