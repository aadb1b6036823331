"""Bases: the squared distances that experts are combinations of, by kind."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.mixture.comid_experts import ComidExperts
from ocelad.adaptive.mixture.config import MixtureConfig
from ocelad.adaptive.mixture.moments import Discriminants
from ocelad.adaptive.mixture.scales import FeatureScales, limit_length


class Bases:
    """Squared distances of all kinds: priors, learned ones, and memories.

    A kind that is too expensive for this number of features is left out; ``names`` shows what is there.

    - Priors: Euclidean, standardized (each feature divided by its root mean square) and whitened.
    - Learned: discriminants over windows, and COMID learners on the features as they are and on standardized ones. With
      more than ``max_moment_features`` features: low-rank COMID learners on the features as they are.
    - Memories: metrics of the mixture from before a possible change. An empty one repeats the last learned distance.

    Parameters
    ----------
    first : array of shape (n_features,)
        The first difference that is not zero; it sets the scale.
    config : MixtureConfig
    """

    def __init__(self, first: Floats, config: MixtureConfig) -> None:
        n = len(first)
        self._scales = FeatureScales(first, config.scale_pseudo_count)
        self._moments: Discriminants | None = None
        self._scaled_comid: ComidExperts | None = None
        if n <= config.max_moment_features:
            self.priors: tuple[str, ...] = ("Euclidean", "standardized", "whitened")
            self._moments = Discriminants(n, config.windows, config.moment_ridge)
            self._comid = ComidExperts(n, config.comid_steps, None)
            self._scaled_comid = ComidExperts(n, config.scaled_comid_steps, None)
            self.learned: tuple[str, ...] = (
                *(f"window {length}" for length in config.windows),
                *(f"COMID {step:g}" for step in config.comid_steps),
                *(f"standardized COMID {step:g}" for step in config.scaled_comid_steps),
            )
            self.memories: list[Floats | None] = [None] * config.n_memories
        else:
            self.priors = ("Euclidean", "standardized")
            self._comid = ComidExperts(n, config.low_rank_steps, config.max_rank)
            self.learned = tuple(f"low-rank COMID {step:g}" for step in config.low_rank_steps)
            self.memories = []

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each distance."""
        return (*self.priors, *self.learned, *(f"memory {j + 1}" for j in range(len(self.memories))))

    def measure_and_learn(self, x: Floats, y: float) -> Floats:
        """Return the squared length of x by each distance, then let the learned ones learn from the pair."""
        standardized = x * self._scales.inverse_roots
        squares = [float(x @ x), float(standardized @ standardized)]
        if self._moments is not None:
            squares.append(float(standardized @ self._moments.whitening @ standardized))
            squares += np.einsum("i,kij,j->k", standardized, self._moments.matrices, standardized).tolist()
        squares += self._comid_squares(self._comid, x * self._scales.factor, y)
        if self._scaled_comid is not None:
            squares += self._comid_squares(self._scaled_comid, standardized, y)
        squares += [squares[-1] if memory is None else float(x @ memory @ x) for memory in self.memories]
        if self._moments is not None:
            self._moments.learn(standardized, y)
        self._scales.update(x)
        return np.array(squares)

    def _comid_squares(self, experts: ComidExperts, x: Floats, y: float) -> list[float]:
        limited, square = limit_length(x), float(x @ x)
        factor = square / float(limited @ limited) if square > 0.0 else 1.0
        return (factor * experts.measure_and_learn(limited, y)).tolist()  # type: ignore[no-any-return]

    @property
    def matrices(self) -> list[Floats]:
        """The matrix of each squared distance."""
        roots = self._scales.inverse_roots
        products, n = np.outer(roots, roots), len(roots)
        matrices: list[Floats] = [np.eye(n), np.diag(roots**2)]
        if self._moments is not None:
            matrices += [products * self._moments.whitening, *(products * self._moments.matrices)]
        matrices += [self._scales.factor**2 * matrix for matrix in self._comid.matrices]
        if self._scaled_comid is not None:
            matrices += [products * matrix for matrix in self._scaled_comid.matrices]
        matrices += [matrices[-1] if memory is None else memory for memory in self.memories]
        return matrices
