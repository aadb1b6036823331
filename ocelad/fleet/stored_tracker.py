"""StoredTracker: a tracker and the ids of answers that it has learned, as bytes for Spark's state store."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet.packed_trackers import NO_PRIOR, PackedTrackers, read_header

Ids = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]

# Magic bytes, version, whether ids have times, length of the form's name, position of the prior, number of features,
# number of ids, digest of the prior.
_HEADER = struct.Struct("<4sB?BxhxxII8s")
_MAGIC, _VERSION = b"oces", 1
NO_DIGEST = bytes(8)


class StoredTracker(NamedTuple):
    """The tracker of a key, and what is needed to learn each answer once and only with the prior that it began with.

    The state store sees one binary column, so that its schema never changes. A tracker's own bytes, without the rest,
    are accepted, too: those of a fleet.

    Attributes
    ----------
    tracker : bytes
        What ``PackedTrackers.learn`` returned.
    n_features : int or None
        None: not known.
    form : str or None
    prior : int or None
        The position of the prior that the tracker began with.
    prior_digest : bytes
        Identifies this prior; all zero if there is none or it is not known.
    ids : array of uint64
        Digests of the ids of answers that were learned, in ascending order.
    times : array of int64 of the same length, or None
        The event times of these answers in microseconds; with a watermark, old ids are forgotten.

    Examples
    --------
    >>> stored = StoredTracker(b"state", 25, "exact", -1, ids=digests(["a", "b"]))
    >>> StoredTracker.from_bytes(stored.to_bytes()).ids.tolist() == sorted(digests(["a", "b"]).tolist())
    True
    """

    tracker: bytes
    n_features: int | None = None
    form: str | None = None
    prior: int | None = None
    prior_digest: bytes = NO_DIGEST
    ids: Ids = np.empty(0, np.uint64)
    times: Times | None = None

    def to_bytes(self) -> bytes:
        """Return the bytes for the state store; they do not depend on the order of the ids."""
        order = np.argsort(self.ids, kind="stable")
        form = (self.form or "").encode()
        prior, n_features = -1 if self.prior is None else self.prior, self.n_features or 0
        has_times = self.times is not None
        header = _HEADER.pack(
            _MAGIC, _VERSION, has_times, len(form), prior, n_features, len(self.ids), self.prior_digest
        )
        parts = [header, form, self.ids[order].astype("<u8").tobytes()]
        if self.times is not None:
            parts.append(self.times[order].astype("<i8").tobytes())
        return b"".join([*parts, self.tracker])

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """Read what ``to_bytes`` returned, or the bytes of a tracker."""
        if stored[:4] != _MAGIC:
            return cls(stored)
        if len(stored) < _HEADER.size:
            raise ValueError(f"a state of {len(stored)} bytes is truncated; accepted: states that ocelad.spark wrote")
        _, version, has_times, form_length, prior, n_features, n_ids, digest = _HEADER.unpack_from(stored)
        if version > _VERSION:
            raise ValueError(
                f"the state has version {version} of the format of ocelad.spark, and this ocelad reads versions up to "
                f"{_VERSION}; install the newer ocelad that wrote it"
            )
        begin = _HEADER.size + form_length
        form = stored[_HEADER.size : begin].decode()
        end = begin + 8 * n_ids * (2 if has_times else 1)
        if len(stored) < end:
            raise ValueError(f"a state of {len(stored)} bytes is truncated; accepted: states that ocelad.spark wrote")
        ids = np.frombuffer(stored, "<u8", n_ids, begin).astype(np.uint64)
        times = np.frombuffer(stored, "<i8", n_ids, begin + 8 * n_ids).astype(np.int64) if has_times else None
        return cls(stored[end:], n_features, form, prior, digest, ids, times)

    def checked(self, packed: PackedTrackers, prior_digests: Sequence[bytes]) -> Self:
        """Return the same with all that is known of it; refuse a tracker of other settings or of other priors.

        Parameters
        ----------
        packed : PackedTrackers
            What reads the tracker.
        prior_digests : sequence of bytes
            ``prior_digest`` of its priors.
        """
        stored = self
        if stored.prior is None:  # the bytes of a tracker
            header = read_header(stored.tracker)
            stored = stored._replace(n_features=header.n_features, form=packed.form, prior=header.prior)
        assert stored.prior is not None
        if stored.n_features != packed.n_features:
            raise ValueError(f"the state has {stored.n_features} features; {packed.n_features} are expected")
        if stored.form != packed.form:
            raise ValueError(f"the state has the {stored.form} form; form={packed.form!r} was asked for")
        if stored.prior >= len(prior_digests):
            raise ValueError(
                f"the state began with prior {stored.prior + 1}, and {len(prior_digests)} were given; accepted: all "
                "priors that it was learned with, in the same order, then new ones"
            )
        if stored.prior == NO_PRIOR:
            return stored
        digest = prior_digests[stored.prior]
        if stored.prior_digest not in (digest, NO_DIGEST):
            raise ValueError(
                f"the state began with another prior than prior {stored.prior + 1} of those given; accepted: all "
                "priors that it was learned with, in the same order, then new ones"
            )
        return stored._replace(prior_digest=digest)


def digests(ids: Iterable[int | str | bytes | bytearray]) -> Ids:
    """Return 8 bytes for each id of an answer; the integer 1 and the string "1" differ.

    >>> digests([1, "1"]).dtype, len(set(digests([1, "1", 1]).tolist()))
    (dtype('uint64'), 2)
    """
    words = map(_id_bytes, ids)
    return np.array([int.from_bytes(blake2b(word, digest_size=8).digest(), "little") for word in words], np.uint64)


def _id_bytes(name: int | str | bytes | bytearray) -> bytes:
    """Return an id as bytes that do not depend on how a version of Python or of Spark shows it."""
    if isinstance(name, str):
        return b"s" + name.encode("utf-8", "surrogatepass")
    if isinstance(name, bytes | bytearray):
        return b"b" + name
    return b"i%d" % name


def prior_digest(prior: SharedPrior) -> bytes:
    """Return 8 bytes that identify a prior by its values."""
    metric = prior.metric
    result = blake2b(struct.pack("<dqd", metric.threshold, metric.round, prior.log_weight), digest_size=8)
    for name, array in sorted(metric.arrays().items()):
        result.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return result.digest()
