"""choose_engine: the implementation that computes a tracker with given settings."""

from __future__ import annotations

from ocelad.engines.rice_settings import EngineName, Rice
from ocelad.pairs import EventsName

# The numbers of features at which the fastest engine changes; measured by benchmarks/engines.py.
MAX_FULLRANK_FEATURES = 300
MIN_BLOCKED_FEATURES = 1000
MIN_SPARSE_FEATURES = 2000


def choose_engine(n_features: int, rice: Rice, *, sparse: bool = False, events: EventsName = "pairs") -> EngineName:
    """Return the engine of a tracker: ``rice.engine``, or the fastest one if that is "auto".

    Settings that the engine does not support are refused.

    Parameters
    ----------
    n_features : int
    rice : Rice
        Valid settings (see ``Rice.validate``) of a full matrix, not a diagonal one.
    sparse : bool
        Whether the differences of pairs are sparse.
    events : {"pairs", "relatives"}

    Examples
    --------
    >>> choose_engine(25, Rice())
    'fullrank'
    >>> choose_engine(100_000, Rice(shrinkage=0.1), sparse=True)
    'sparse'
    """
    engine = _fastest_engine(n_features, rice, sparse, events) if rice.engine == "auto" else rice.engine
    if events == "relatives" and engine in ("blocked", "sparse"):
        raise ValueError(f"engine {engine!r} learns from pairs only; use 'lowrank' for relative comparisons")
    if rice.max_rank is not None and engine in ("dense", "fullrank"):
        raise ValueError(
            f"max_rank needs the engine 'lowrank', 'blocked' or 'sparse'; engine {engine!r} keeps the full rank"
        )
    if engine != "dense" and _needs_dense(rice):
        raise ValueError(
            f"engine {engine!r} needs the divergence 'frobenius' and the regularizer 'nuclear' or None; "
            "engine 'dense' supports all"
        )
    if engine == "fullrank" and rice.shrinkage > 0:
        raise ValueError("engine 'fullrank' needs shrinkage 0; use 'lowrank' with shrinkage")
    return engine


def _fastest_engine(n_features: int, rice: Rice, sparse: bool, events: EventsName) -> EngineName:
    if _needs_dense(rice):
        return "dense"
    if sparse and n_features >= MIN_SPARSE_FEATURES and events == "pairs":
        return "sparse"
    if rice.shrinkage == 0 and rice.max_rank is None and n_features <= MAX_FULLRANK_FEATURES:
        return "fullrank"
    return "lowrank" if n_features < MIN_BLOCKED_FEATURES or events == "relatives" else "blocked"


def _needs_dense(rice: Rice) -> bool:
    """Whether only the definition computes these settings."""
    return rice.divergence != "frobenius" or (rice.regularizer == "l1" and rice.shrinkage > 0)
