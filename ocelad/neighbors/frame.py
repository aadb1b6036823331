"""Frame: directions and diagonals for which items have stored coordinates; a metric that moves needs few more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.neighbors.geometry import Geometry, QuadraticForm

#: Parts of a metric that change squared distances by less than this share may stay outside the frame.
TOLERANCE = 1e-3
#: Directions that are kept, as a share of the features: it bounds the memory.
MAX_DIRECTION_SHARE = 0.22
#: Diagonals whose squared lengths are stored, at most; further ones replace the oldest.
MAX_DIAGONALS = 4


class CoveredForm(NamedTuple):
    """A quadratic form in a frame: ``sum(weights * squares) + y' matrix y``, up to ``slack`` times ``|u|^2``.

    ``squares`` are the squared lengths of u by the frame's diagonals, and y are its coordinates.
    """

    weights: Floats  # (n_diagonals,)
    matrix: Floats  # (n_directions, n_directions)
    slack: float


class Frame(NamedTuple):
    """Orthonormal directions (rows of ``basis``) and ``diagonals``, about a center. Immutable.

    An answer adds one direction to a metric's rows and changes its diagonal a little. So almost all that a new metric
    needs is stored already, and ``cover`` adds what is not.
    """

    geometry: Geometry
    center: Floats  # (n_features,), a prepared point
    basis: Floats  # (n_directions, n_features)
    diagonals: Floats  # (n_diagonals, n_features)

    @classmethod
    def at(cls, geometry: Geometry, center: Floats) -> Frame:
        """Return a frame without directions, whose diagonal is that of Euclidean distance."""
        n = len(center)
        return cls(geometry, center, np.zeros((0, n)), np.ones((1, n)))

    @property
    def max_directions(self) -> int:
        """The number of directions that are kept; a form with more rows has as many as it needs."""
        return int(MAX_DIRECTION_SHARE * len(self.center))

    def cover(self, form: QuadraticForm) -> Frame:
        """Return the frame extended such that it covers a form; this frame, if it does already.

        If there would be too many directions, they are replaced by those that span the form's rows.
        """
        return self._cover_rows(form)._cover_diagonal(form.diagonal)

    def _cover_rows(self, form: QuadraticForm) -> Frame:
        weighted = np.sqrt(np.abs(form.scales))[:, None] * form.rows
        size = float(np.linalg.norm(weighted, 2)) if len(weighted) else 0.0
        new = main_directions(weighted - (weighted @ self.basis.T) @ self.basis, self._negligible(form, size))
        if not len(new):
            return self
        if len(self.basis) + len(new) <= self.max_directions:
            # Twice is enough: rounding leaves a trace of the basis in what remains outside it.
            new = main_directions(new - (new @ self.basis.T) @ self.basis, 0.5)
            return self._replace(basis=np.concatenate([self.basis, new]))
        return self._replace(basis=main_directions(weighted, self._negligible(form, size)))

    @staticmethod
    def _negligible(form: QuadraticForm, size: float) -> float:
        """Return the length of rows outside the frame that changes squared distances by at most the tolerance."""
        return TOLERANCE * max(float(form.diagonal.mean()), TOLERANCE * size**2) / max(4.0 * size, 1e-300)

    def _cover_diagonal(self, diagonal: Floats) -> Frame:
        _, remaining = self._fit_diagonal(diagonal)
        if remaining <= TOLERANCE * float(diagonal.mean()):
            return self
        kept = self.diagonals if len(self.diagonals) < MAX_DIAGONALS else np.delete(self.diagonals, 1, axis=0)
        return self._replace(diagonals=np.concatenate([kept, diagonal[None] / diagonal.max()]))

    def _fit_diagonal(self, diagonal: Floats) -> tuple[Floats, float]:
        """Return the weights of the diagonals whose sum is nearest to a diagonal, and the largest difference."""
        weights: Floats = np.linalg.lstsq(self.diagonals.T, diagonal, rcond=1e-6)[0].astype(np.float64)
        return weights, float(np.abs(diagonal - weights @ self.diagonals).max())

    def express(self, form: QuadraticForm) -> CoveredForm:
        """Return a form in this frame."""
        weights, slack = self._fit_diagonal(form.diagonal)
        inside = form.rows @ self.basis.T
        outside = np.sqrt(np.abs(form.scales))[:, None] * (form.rows - inside @ self.basis)
        length = float(np.linalg.norm(outside)) if len(outside) else 0.0
        size = float(np.linalg.norm(np.sqrt(np.abs(form.scales))[:, None] * inside, 2)) if len(inside) else 0.0
        return CoveredForm(weights, (inside.T * form.scales) @ inside, slack + length * (2.0 * size + length))


def main_directions(rows: Floats, negligible: float) -> Floats:
    """Return orthonormal directions that span the rows, except for parts of a negligible length."""
    if not len(rows):
        return rows
    _, lengths, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[lengths > negligible])
