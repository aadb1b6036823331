"""BlockedBank and SparseBank: the learners of ``LowRankBank`` in many dimensions, updated by blocks of pairs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.engines.basis import BasisVectors, Combination, DenseVectors, SparseVectors
from ocelad.engines.kernels import rounds
from ocelad.engines.kernels.eigenform import next_orthogonality_loss
from ocelad.engines.kernels.lowrank import DEGENERATE_LOSS, Basis
from ocelad.engines.kernels.rounds import KernelArgs
from ocelad.engines.kernels.secular import padded
from ocelad.engines.lowrank_bank import LowRankBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.pairs import EventsName

# A component of u outside some directions up to this size, relative to |u|, is a rounding error.
MAX_ROUNDING = 1e-12
# Anchors with a larger loss of orthogonality are orthonormalised again.
MAX_ORTHOGONALITY_LOSS = 1e-13
# The loss of orthogonality after that, and the loss that each renewal of the anchors adds.
ROUNDING_LOSS = 5e-15


class BlockedBank(LowRankBank):
    """A ``LowRankBank`` that represents directions by coefficients in a basis (``ocelad.engines.basis``).

    Little of a round's work depends on the number of features: the inner products are computed for a block of pairs at
    once, and the directions are computed only when the block is full. If a pair's component outside a learner's
    directions is too small to be computed from inner products, it is computed from the vectors and becomes an anchor.
    """

    engine = "blocked"
    supported_events: ClassVar[tuple[EventsName, ...]] = ("pairs",)
    #: The number of pairs in a block.
    block: ClassVar[int] = 32

    def __init__(self, n_features: int, *arguments: Any, **settings: Any) -> None:
        self._used = 0
        self._y, self._margins = np.zeros(self.block), np.zeros(self.block)
        self._no_rows = np.zeros((0, 0))
        self._vectors = self._new_vectors(n_features)
        super().__init__(n_features, *arguments, **settings)

    def _new_vectors(self, n_features: int) -> BasisVectors:
        return DenseVectors(n_features, self.block)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on, including the basis and the pairs of the current block."""
        arrays, metadata = super().state()
        basis, used = self._basis, self._used
        arrays |= {"offset": basis.offset.copy(), "n_anchors": basis.n_anchors.copy()}
        arrays["oblique"] = basis.orthogonality_loss.copy()
        arrays["squares"] = np.diag(basis.gram)[:used].copy()  # later pairs need no other products
        vectors, metadata["vectors"] = self._vectors.state(used)
        return {**arrays, **add_prefix("vectors", vectors)}, {**metadata, "used": used}

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        super()._restore(saved, round_state)
        state, used = self._state, saved.integer("used", 0, self.block - 1)
        n_slots, capacity = state.lam.shape
        n_anchors = self._vectors.restore(saved.section("vectors"), used)
        self._reserve_anchors(n_anchors)
        basis = self._basis
        basis.offset[:] = saved.integers("offset", (n_slots,), 0, n_anchors)
        basis.n_anchors[:] = saved.integers("n_anchors", (n_slots,), 0, capacity)
        basis.orthogonality_loss[:] = saved.floats("oblique", (n_slots,), at_least=0.0)
        np.fill_diagonal(basis.gram[:used, :used], saved.floats("squares", (used,), at_least=0.0))
        if (basis.offset + basis.n_anchors).max() > n_anchors:
            raise ValueError(f"saved array 'offset' points beyond the last of {n_anchors} anchors")
        self._used = used
        column = np.arange(state.V.shape[2])
        for slot in range(n_slots):
            exists = (column < basis.n_anchors[slot]) | ((column >= capacity) & (column < capacity + used))
            if state.V[state.buffer[slot], : state.rank[slot], ~exists].any():
                raise ValueError(f"saved array 'V' has coefficients of anchors or pairs that slot {slot} does not have")

    def _rows(self, events: Any) -> Any:
        return self._vectors.rows(events)

    def _row(self, u: Any) -> Any:
        return self._vectors.row(u)

    def _row_width(self, capacity: int) -> int:
        return capacity + padded(self.block)

    def _play(self, rows: Any, args: KernelArgs) -> tuple[int, int]:
        done, t, outcome, basis = args.first, args.t, rounds.PLAYED, self._basis
        while done < args.last and outcome == rounds.PLAYED:
            resolved = basis.anchor.max() >= 0  # _resolve has computed the residual of the next pair only
            begin = self._used
            end = begin + 1 if resolved else min(begin + args.last - done, self.block)
            self._vectors.add(rows, done, done + end - begin, basis.products, basis.gram, begin)
            self._y[begin:end] = args.y[done : done + end - begin]
            part = args._replace(
                y=self._y,
                margins=self._margins,
                first=begin,
                last=end,
                t=t,
                step_factors=args.step_factors[done - args.first :],
                squares=args.squares[done - args.first :],
                uniforms=args.uniforms[done - args.first :],
            )
            self._used, outcome = super()._play(self._no_rows, part)
            if not args.observe_only:
                args.margins[done : done + self._used - begin] = self._margins[begin : self._used]
            done, t = done + self._used - begin, t + self._used - begin
            if resolved:
                basis.anchor[:] = -1
            if self._used == self.block:
                self._renew()
                basis = self._basis
            if outcome == rounds.DEGENERATE:
                self._resolve(self._schedule.n_active(t))
                basis, outcome = self._basis, rounds.PLAYED
        return done, outcome

    def _resolve(self, n_active: int) -> None:
        """Compute the residual of the current pair outside the learners' directions, where it is small.

        A residual that is a rounding error is recorded in the basis as zero. Otherwise the anchors are renewed, and the
        pair is played again. If that has already been done, the residual becomes an anchor of the learner.
        """
        state, basis, row = self._state, self._basis, self._used
        norm2, residuals = basis.gram[row, row], {}
        for slot in state.slots[:n_active]:
            r, offset, count = state.rank[slot], basis.offset[slot], basis.n_anchors[slot]
            shift, base = state.shift[slot], state.base[slot]
            C = state.V[state.buffer[slot], :r]
            z = C[:, :count] @ basis.products[row, offset : offset + count]
            z += C[:, basis.width : basis.width + row] @ basis.gram[row, :row]
            in_use = (state.lam[slot, :r] > shift) | (base > shift)
            z[~in_use] = 0.0
            parts = z @ C
            parts[basis.width :][:row] *= np.sqrt(np.diag(basis.gram)[:row])
            loss = next_orthogonality_loss(
                basis.orthogonality_loss[slot], norm2, float(norm2 - z @ z), float(parts @ parts)
            )
            if in_use.sum() == self._n or loss < 0.5 * DEGENERATE_LOSS:
                continue
            pairs = np.append(-(z @ C[:, basis.width : basis.width + row]), 1.0)
            part = Combination(offset, -(z @ C[:, :count])[None], pairs[None])
            length = float(np.linalg.norm(self._vectors.combine(part, row + 1)))
            if length <= MAX_ROUNDING * np.sqrt(norm2):
                basis.anchor[slot], basis.length[slot] = 0, 0.0
            else:
                residuals[int(slot)] = part
        if residuals and row > 0:
            basis.anchor[:] = -1
            self._renew()
        elif residuals:
            u = self._vectors.combine(Combination(0, np.zeros((1, 0)), np.eye(row + 1)[row:]), row + 1)[0]
            self._used += 1  # the combinations contain the pair itself
            self._renew(residuals)
            for slot in residuals:
                self._refine(slot, u)

    def _refine(self, slot: int, u: Floats) -> None:
        """Make the last anchor of a slot orthogonal to its directions, to full accuracy, and normalise it."""
        state, basis = self._state, self._basis
        at = int(basis.offset[slot] + basis.n_anchors[slot]) - 1
        shift = state.shift[slot]
        in_use = (state.lam[slot, : state.rank[slot]] > shift) | (state.base[slot] > shift)
        directions, q = self._directions(slot)[in_use], self._vectors.get(at)
        for _ in range(2):
            q -= directions.T @ (directions @ q)
        q /= np.linalg.norm(q)
        length = float(q @ u)
        self._vectors.put(at, q if length > 0.0 else -q)
        basis.anchor[slot], basis.length[slot] = basis.n_anchors[slot] - 1, abs(length)

    def _renew(self, residuals: dict[int, Combination] | None = None) -> None:
        """Make each slot's directions its anchors, append the residuals to them, and empty the block."""
        state, basis, used, width = self._state, self._basis, self._used, self._basis.width
        parts, at = [], 0
        for slot in range(len(state.slots)):
            r, offset, count = state.rank[slot], basis.offset[slot], basis.n_anchors[slot]
            C = state.V[state.buffer[slot], :r]
            anchors, pairs = C[:, :count], C[:, width : width + used]
            if residuals and slot in residuals:
                anchors = np.concatenate([anchors, residuals[slot].anchors])
                pairs = np.concatenate([pairs, residuals[slot].pairs])
            parts.append(Combination(int(offset), anchors, pairs))
            basis.offset[slot], basis.n_anchors[slot] = at, len(anchors)
            at += len(anchors)
        self._vectors.renew(parts, used)
        basis.orthogonality_loss[:] += ROUNDING_LOSS
        for slot in np.flatnonzero(basis.orthogonality_loss > MAX_ORTHOGONALITY_LOSS).tolist():
            self._vectors.orthonormalize(int(basis.offset[slot]), int(state.rank[slot]))
            basis.orthogonality_loss[slot] = ROUNDING_LOSS
        state.V[:] = 0.0
        for slot in range(len(state.slots)):
            np.fill_diagonal(state.V[state.buffer[slot], : state.rank[slot]], 1.0)
        state.filled[:] = width
        self._used = 0
        self._reserve_anchors(at)

    def _reserve_anchors(self, n_anchors: int) -> None:
        if n_anchors > self._basis.products.shape[1]:
            self._basis = self._basis._replace(products=np.zeros((self.block, 2 * n_anchors)))

    def _directions(self, slot: int) -> Floats:
        state, basis, used = self._state, self._basis, self._used
        C = state.V[state.buffer[slot], : state.rank[slot]]
        anchors, pairs = C[:, : basis.n_anchors[slot]], C[:, basis.width : basis.width + used]
        return self._vectors.combine(Combination(int(basis.offset[slot]), anchors, pairs), used)

    def _set_directions(self, slot: int, directions: Floats, eigenvalues: Floats) -> None:
        self._renew()
        state, basis, r = self._state, self._basis, len(directions)
        basis.offset[slot], basis.n_anchors[slot] = self._vectors.append(directions), r
        self._reserve_anchors(int(basis.offset[slot]) + r)
        state.V[state.buffer[slot]] = 0.0
        np.fill_diagonal(state.V[state.buffer[slot], :r], 1.0)
        state.lam[slot, :r], state.rank[slot] = eigenvalues, r

    def _resize(self, n_scales: int, capacity: int) -> None:
        if capacity > self._state.lam.shape[1]:
            self._renew()  # the columns of the pairs follow those of the anchors, whose number grows
        super()._resize(n_scales, capacity)

    def _new_basis(self, n_slots: int, capacity: int) -> Basis:
        return Basis(
            width=capacity,
            offset=np.zeros(n_slots, dtype=np.int64),
            n_anchors=np.zeros(n_slots, dtype=np.int64),
            products=np.zeros((self.block, 8)),
            gram=np.zeros((padded(self.block), padded(self.block))),
            inner=np.zeros((n_slots, self._row_width(capacity))),
            anchor=np.full(n_slots, -1),
            length=np.zeros(n_slots),
            orthogonality_loss=np.full(n_slots, ROUNDING_LOSS),
            next_orthogonality_loss=np.zeros(n_slots),
        )

    def _copy_basis(self, old: Basis) -> None:
        new = self._basis = self._basis._replace(products=old.products, gram=old.gram)
        n_old = len(old.offset)
        new.offset[:n_old], new.n_anchors[:n_old] = old.offset, old.n_anchors
        new.anchor[:n_old], new.length[:n_old] = old.anchor, old.length
        new.orthogonality_loss[:n_old] = old.orthogonality_loss


class SparseBank(BlockedBank):
    """A ``LowRankBank`` for sparse pairs with up to hundreds of thousands of features.

    Only features that have occurred need memory, one number per learner and direction. No matrix of size n_features x
    n_features is ever allocated.
    """

    engine = "sparse"
    block: ClassVar[int] = 256

    def _new_vectors(self, n_features: int) -> BasisVectors:
        return SparseVectors(n_features, self.block)
