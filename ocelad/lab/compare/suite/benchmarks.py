"""The adaptivity suite: which streams, which methods, and what is to be shown on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ocelad.lab.compare import datasets
from ocelad.lab.compare.comparison_streams import Stream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.registry import METHODS, STREAMS

#: Seeds from this one on are for judging, and nothing is ever chosen by them; choices are made on seeds below 1000.
FIRST_FRESH_SEED = 3000
#: The method that the suite is about, and those that it is held against, each by its one setting.
OURS = "adaptive"
OPPONENTS = ("rice", "rice-hinge", "itml-online", "cbce", "euclidean")
#: One COMID learner by each of ten settings; the best of them is known only when all is over.
HINDSIGHT: tuple[Method, ...] = tuple(
    METHODS["comid"].with_settings(step_size=step_size, loss=loss)
    for loss in ("hinge", "logistic")
    for step_size in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
)


@dataclass(frozen=True)
class Row:
    """A stream of the suite, and what is to be shown on it.

    Attributes
    ----------
    name : str
    load : callable () -> Stream
        It raises ``ImportError`` or ``FileNotFoundError`` where the data are not there.
    is_real : bool
        Whether the points come from a data set.
    error, found : float or None
        The highest error, and the lowest P(NMI > 0.8), both in percent, that are aimed at.
    beats_hindsight : bool
        Whether both measures shall be better than those of the best COMID learner in hindsight.
    switches : tuple of int
        After how many rounds the question changes, where it is measured how soon a method recovers.
    """

    name: str
    load: Callable[[], Stream]
    is_real: bool = False
    error: float | None = None
    found: float | None = None
    beats_hindsight: bool = False
    switches: tuple[int, ...] = ()

    @property
    def stream(self) -> Stream:
        """What the methods go through."""
        return self.load()


def _drawn(name: str, stream: str, error: float, found: float | None = None, *, switches: tuple[int, ...] = ()) -> Row:
    return Row(
        name,
        partial(STREAMS.__getitem__, stream),
        error=error,
        found=found,
        beats_hindsight=found is not None,
        switches=switches,
    )


_ROWS = (
    _drawn("S1", "turned", 1.10, 96.5, switches=(1000, 4000)),
    _drawn("S2", "static", 0.62, 98.2),
    _drawn("S3", "slow", 0.66, 98.0),
    _drawn("S4", "fast", 3.10, 43.0),
    _drawn("S5", "switching", 2.00, 82.0),
    _drawn("S6", "turned-noisy", 2.45, 82.0),
    _drawn("S7", "heavy-tailed", 1.40),
    _drawn("S8", "units", 4.0),
    Row("wine", datasets.wine, is_real=True),
    Row("digits", datasets.digits, is_real=True),
    Row("breast-cancer", datasets.breast_cancer, is_real=True),
    Row("switching-digits", datasets.switching_digits, is_real=True),
    Row("phishing", datasets.phishing, is_real=True),
    Row("image-segments", datasets.image_segments, is_real=True),
    Row("bananas", datasets.bananas, is_real=True),
    Row("reviews", datasets.reviews, is_real=True),
)

#: The rows of the suite by their names.
ROWS: dict[str, Row] = {row.name: row for row in _ROWS}
