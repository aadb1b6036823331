"""BlockedBank: the learners of ``LowRankBank`` in many dimensions, by blocks of pairs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.engines.basis import Combination, DenseVectors, SparseVectors
from ocelad.engines.compiled_bank import KernelArgs
from ocelad.engines.kernels import rounds
from ocelad.engines.kernels.eigenform import oblique_next
from ocelad.engines.kernels.lowrank import MOST_OBLIQUE, Basis
from ocelad.engines.kernels.secular import padded
from ocelad.engines.lowrank_bank import LowRankBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.state_reader import StateReader, prefixed
from ocelad.pairs import EventsName

# Beside |u|, what u has outside some directions that is only rounding.
NOTHING = 1e-12
# How far from orthonormal anchors may be before they are straightened, and how far they are then; new ones are as much
# farther than what they were made of.
OBLIQUE, STRAIGHT = 1e-13, 5e-15


class BlockedBank(LowRankBank):
    """The learners of ``LowRankBank``, whose directions are known by coefficients in a frame (``frames.py``).

    A round then costs little that depends on the number of features: inner products come for many pairs at once,
    and directions are put together anew only when the block is full. Where what a pair has outside a learner's
    directions is too small to be known from inner products, it is computed, and made an anchor.
    """

    engine: ClassVar[str] = "blocked"
    takes: ClassVar[tuple[EventsName, ...]] = ("pairs",)
    #: How many pairs a block has.
    block: ClassVar[int] = 32

    def __init__(self, n_features: int, *arguments: Any, **settings: Any) -> None:
        self._used = 0
        self._y, self._margins = np.zeros(self.block), np.zeros(self.block)
        self._no_rows = np.zeros((0, 0))
        self._vectors: DenseVectors | SparseVectors = self._no_vectors(n_features)
        super().__init__(n_features, *arguments, **settings)

    def _no_vectors(self, n_features: int) -> DenseVectors | SparseVectors:
        return DenseVectors(n_features, self.block)

    def state(self) -> tuple[Arrays, Metadata]:
        """All that later rounds depend on: the frame too, and the pairs of the block at hand."""
        arrays, metadata = super().state()
        frame, used = self._frame, self._used
        for name in ("offset", "n_anchors", "oblique"):
            arrays[name] = getattr(frame, name).copy()
        arrays["squares"] = np.diag(frame.gram)[:used].copy()  # other products are of use to the pair at hand alone
        vectors, metadata["vectors"] = self._vectors.state(used)
        return {**arrays, **prefixed("vectors", vectors)}, {**metadata, "used": used}

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        super()._restore(saved, round_state)
        state, used = self._state, saved.whole("used", 0, self.block - 1)
        n_slots, capacity = state.lam.shape
        n_anchors = self._vectors.restore(saved.part("vectors"), used)
        self._have_room_for(n_anchors)
        frame = self._frame
        frame.offset[:] = saved.integers("offset", (n_slots,), 0, n_anchors)
        frame.n_anchors[:] = saved.integers("n_anchors", (n_slots,), 0, capacity)
        frame.oblique[:] = saved.floats("oblique", (n_slots,), at_least=0.0)
        np.fill_diagonal(frame.gram[:used, :used], saved.floats("squares", (used,), at_least=0.0))
        if (frame.offset + frame.n_anchors).max() > n_anchors:
            raise ValueError(f"what was kept as 'offset' points behind the last of {n_anchors} anchors")
        self._used = used
        places = np.arange(state.V.shape[2])
        for slot in range(n_slots):
            is_there = (places < frame.n_anchors[slot]) | ((places >= capacity) & (places < capacity + used))
            if state.V[state.buffer[slot], : state.rank[slot], ~is_there].any():
                raise ValueError(f"what was kept as 'V' has coefficients of anchors or pairs that slot {slot} has not")

    def _rows(self, events: Any) -> Any:
        return self._vectors.rows(events)

    def _row(self, u: Any) -> Any:
        return self._vectors.row(u)

    def _row_width(self, capacity: int) -> int:
        return capacity + padded(self.block)

    def _play(self, rows: Any, stretch: KernelArgs) -> tuple[int, int]:
        done, t, outcome, frame = stretch.first, stretch.t, rounds.PLAYED, self._frame
        while done < stretch.last and outcome == rounds.PLAYED:
            resolved = frame.anchor.max() >= 0  # what is known of one pair's part outside is of no use for the next
            now = self._used
            end = now + 1 if resolved else min(now + stretch.last - done, self.block)
            self._vectors.add(rows, done, done + end - now, frame.products, frame.gram, now)
            self._y[now:end] = stretch.y[done : done + end - now]
            part = stretch._replace(
                y=self._y,
                margins=self._margins,
                first=now,
                last=end,
                t=t,
                step_factors=stretch.step_factors[done - stretch.first :],
                uniforms=stretch.uniforms[done - stretch.first :],
            )
            self._used, outcome = super()._play(self._no_rows, part)
            if not stretch.alone:
                stretch.margins[done : done + self._used - now] = self._margins[now : self._used]
            done, t = done + self._used - now, t + self._used - now
            if resolved:
                frame.anchor[:] = -1
            if self._used == self.block:
                self._renew()
                frame = self._frame
            if outcome == rounds.DEGENERATE:
                self._resolve(self._schedule.active(t))
                frame, outcome = self._frame, rounds.PLAYED
        return done, outcome

    def _resolve(self, n_active: int) -> None:
        """Compute what the pair at hand has outside the learners' directions, where that is little.

        Where it is nothing but rounding, the frame says so. Where it is more, anchors are renewed, and the pair comes
        again; if that was no help, it becomes an anchor of that learner, too.
        """
        state, frame, row = self._state, self._frame, self._used
        norm2, extra = frame.gram[row, row], {}
        for slot in state.slots[:n_active]:
            r, offset, count = state.rank[slot], frame.offset[slot], frame.n_anchors[slot]
            shift, base = state.shift[slot], state.base[slot]
            C = state.V[state.buffer[slot], :r]
            z = C[:, :count] @ frame.products[row, offset : offset + count]
            z += C[:, frame.width : frame.width + row] @ frame.gram[row, :row]
            counts = (state.lam[slot, :r] > shift) | (base > shift)
            z[~counts] = 0.0
            parts = z @ C
            parts[frame.width :][:row] *= np.sqrt(np.diag(frame.gram)[:row])
            oblique = oblique_next(frame.oblique[slot], norm2, float(norm2 - z @ z), float(parts @ parts))
            if counts.sum() == self._n or oblique < 0.5 * MOST_OBLIQUE:
                continue
            pairs = np.append(-(z @ C[:, frame.width : frame.width + row]), 1.0)
            part = Combination(offset, -(z @ C[:, :count])[None], pairs[None])
            length = float(np.linalg.norm(self._vectors.combine(part, row + 1)))
            if length <= NOTHING * np.sqrt(norm2):
                frame.anchor[slot], frame.length[slot] = 0, 0.0
            else:
                extra[int(slot)] = part
        if extra and row > 0:
            frame.anchor[:] = -1
            self._renew()
        elif extra:
            u = self._vectors.combine(Combination(0, np.zeros((1, 0)), np.eye(row + 1)[row:]), row + 1)[0]
            self._used += 1  # the pair itself is in the combinations
            self._renew(extra)
            for slot in extra:
                self._refine(slot, u)

    def _refine(self, slot: int, u: Floats) -> None:
        """Make the last anchor of a slot orthogonal to its directions, to all digits, and of length 1."""
        state, frame = self._state, self._frame
        at = int(frame.offset[slot] + frame.n_anchors[slot]) - 1
        shift = state.shift[slot]
        counts = (state.lam[slot, : state.rank[slot]] > shift) | (state.base[slot] > shift)
        directions, q = self._directions(slot)[counts], self._vectors.get(at)
        for _ in range(2):
            q -= directions.T @ (directions @ q)
        q /= np.linalg.norm(q)
        length = float(q @ u)
        self._vectors.put(at, q if length > 0.0 else -q)
        frame.anchor[slot], frame.length[slot] = frame.n_anchors[slot] - 1, abs(length)

    def _renew(self, extra: dict[int, Combination] | None = None) -> None:
        """Let each slot's directions be its anchors, with one more where it is given; the block is empty."""
        state, frame, used, width = self._state, self._frame, self._used, self._frame.width
        parts, at = [], 0
        for slot in range(len(state.slots)):
            r, offset, count = state.rank[slot], frame.offset[slot], frame.n_anchors[slot]
            C = state.V[state.buffer[slot], :r]
            anchors, pairs = C[:, :count], C[:, width : width + used]
            if extra and slot in extra:
                anchors = np.concatenate([anchors, extra[slot].anchors])
                pairs = np.concatenate([pairs, extra[slot].pairs])
            parts.append(Combination(int(offset), anchors, pairs))
            frame.offset[slot], frame.n_anchors[slot] = at, len(anchors)
            at += len(anchors)
        self._vectors.renew(parts, used)
        frame.oblique[:] += STRAIGHT
        for oblique in np.flatnonzero(frame.oblique > OBLIQUE):
            self._vectors.straighten(int(frame.offset[oblique]), int(state.rank[oblique]))
            frame.oblique[oblique] = STRAIGHT
        state.V[:] = 0.0
        for slot in range(len(state.slots)):
            np.fill_diagonal(state.V[state.buffer[slot], : state.rank[slot]], 1.0)
        state.filled[:] = width
        self._used = 0
        self._have_room_for(at)

    def _have_room_for(self, n_anchors: int) -> None:
        if n_anchors > self._frame.products.shape[1]:
            self._frame = self._frame._replace(products=np.zeros((self.block, 2 * n_anchors)))

    def _directions(self, slot: int) -> Floats:
        state, frame, used = self._state, self._frame, self._used
        C = state.V[state.buffer[slot], : state.rank[slot]]
        anchors, pairs = C[:, : frame.n_anchors[slot]], C[:, frame.width : frame.width + used]
        return self._vectors.combine(Combination(int(frame.offset[slot]), anchors, pairs), used)

    def _put(self, slot: int, directions: Floats, eigenvalues: Floats) -> None:
        self._renew()
        state, frame, r = self._state, self._frame, len(directions)
        frame.offset[slot], frame.n_anchors[slot] = self._vectors.append(directions), r
        self._have_room_for(int(frame.offset[slot]) + r)
        state.V[state.buffer[slot]] = 0.0
        np.fill_diagonal(state.V[state.buffer[slot], :r], 1.0)
        state.lam[slot, :r], state.rank[slot] = eigenvalues, r

    def _resize(self, n_scales: int, capacity: int) -> None:
        if hasattr(self, "_state") and capacity > self._state.lam.shape[1]:
            self._renew()  # pairs come behind the anchors, which shall have more room
        super()._resize(n_scales, capacity)

    def _new_frame(self, n_slots: int, capacity: int) -> Basis:
        old: Basis | None = getattr(self, "_frame", None)
        frame = Basis(
            width=capacity,
            offset=np.zeros(n_slots, dtype=np.int64),
            n_anchors=np.zeros(n_slots, dtype=np.int64),
            products=np.zeros((self.block, 8)) if old is None else old.products,
            gram=np.zeros((padded(self.block), padded(self.block))) if old is None else old.gram,
            inner=np.zeros((n_slots, self._row_width(capacity))),
            anchor=np.full(n_slots, -1),
            length=np.zeros(n_slots),
            oblique=np.full(n_slots, STRAIGHT),
            next_oblique=np.zeros(n_slots),
        )
        if old is not None:
            for name in ("offset", "n_anchors", "anchor", "length", "oblique"):
                getattr(frame, name)[: len(old.offset)] = getattr(old, name)
        return frame


class SparseBank(BlockedBank):
    """The learners of ``LowRankBank`` for pairs that are mostly zeros, up to hundreds of thousands of features.

    Memory is taken for features that have been seen, one number per learner and direction; no matrix of features by
    features is ever made.
    """

    engine: ClassVar[str] = "sparse"
    block: ClassVar[int] = 256

    def _no_vectors(self, n_features: int) -> SparseVectors:
        return SparseVectors(n_features, self.block)
