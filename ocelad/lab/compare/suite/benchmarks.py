"""The benchmarks of the adaptivity suite, its methods, and its targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ocelad.lab.compare import datasets
from ocelad.lab.compare.block_streams import Stream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.registry import METHODS, STREAMS

#: The methods that ours is compared with, each with its default settings.
OPPONENTS = ("rice", "rice-hinge", "itml-online", "cbce", "euclidean")
#: One COMID learner with each of ten settings; the suite reports the best of them in hindsight.
COMID_GRID: tuple[Method, ...] = tuple(
    METHODS["comid"].with_settings(step_size=step_size, loss=loss)
    for loss in ("hinge", "logistic")
    for step_size in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
)


@dataclass(frozen=True)
class Benchmark:
    """A stream of the suite with its targets.

    Attributes
    ----------
    name : str
    load : callable () -> Stream
        Raises ``ImportError`` or ``FileNotFoundError`` if the data are missing.
    is_real : bool
        Whether the points come from a data set.
    max_error, min_clusters_found : float or None
        The targets of the error and of P(NMI > 0.8), both in percent.
    beats_best_comid : bool
        Whether both measures must be better than those of the best COMID learner in hindsight.
    switches : tuple of int
        The last rounds before concept changes after which the recovery time is measured.
    """

    name: str
    load: Callable[[], Stream]
    is_real: bool = False
    max_error: float | None = None
    min_clusters_found: float | None = None
    beats_best_comid: bool = False
    switches: tuple[int, ...] = ()

    @property
    def stream(self) -> Stream:
        """The stream that the methods run on."""
        return self.load()


def _synthetic(
    name: str,
    stream: str,
    max_error: float,
    min_clusters_found: float | None = None,
    *,
    switches: tuple[int, ...] = (),
) -> Benchmark:
    return Benchmark(
        name,
        partial(STREAMS.__getitem__, stream),
        max_error=max_error,
        min_clusters_found=min_clusters_found,
        beats_best_comid=min_clusters_found is not None,
        switches=switches,
    )


_BENCHMARKS = (
    _synthetic("S1", "rotated", 1.10, 96.5, switches=(1000, 4000)),
    _synthetic("S2", "static", 0.62, 98.2),
    _synthetic("S3", "slow", 0.66, 98.0),
    _synthetic("S4", "fast", 3.10, 43.0),
    _synthetic("S5", "switching", 2.00, 82.0),
    _synthetic("S6", "rotated-noisy", 2.45, 82.0),
    _synthetic("S7", "heavy-tailed", 1.40),
    _synthetic("S8", "units", 4.0),
    Benchmark("wine", datasets.wine, is_real=True),
    Benchmark("digits", datasets.digits, is_real=True),
    Benchmark("breast-cancer", datasets.breast_cancer, is_real=True),
    Benchmark("switching-digits", datasets.switching_digits, is_real=True),
    Benchmark("phishing", datasets.phishing, is_real=True),
    Benchmark("image-segments", datasets.image_segments, is_real=True),
    Benchmark("bananas", datasets.bananas, is_real=True),
    Benchmark("reviews", datasets.reviews, is_real=True),
)

#: The benchmarks of the suite by name.
BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _BENCHMARKS}
