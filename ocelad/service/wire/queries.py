"""The JSON models of what was learned: distances, neighbours, the next pair, the map, the timeline."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from ocelad.service.entries import PairSource
from ocelad.service.wire.items import Item
from ocelad.service.wire.models import BY_FEATURES, BY_ID, MAX_BATCH_SIZE, Id, Number, RequestModel, ResponseModel
from ocelad.service.wire.projects import MethodName


class FeatureShare(ResponseModel):
    name: str
    weight: float  # per unit of the feature, squared
    share: float  # of the squared distances between items; the shares of all features sum to 1, some can be negative
    initial_share: float  # the share before any answer was learned from


class ExpertShare(ResponseModel):
    name: str  # with the method "rice": the interval length of the scale, in answers
    share: float  # in the metric; the shares of all experts sum to 1


class MetricInfo(ResponseModel):
    """The current metric on the features in their own units. Of a curved one: the shares are those of the whole
    distance; weights, spectrum and matrix those of its linear part."""

    seq: int  # the last entry that the metric has learned from
    n_answers: int
    n_features: int
    threshold: float  # items up to this distance are predicted to be the same; negative: no items are
    spectrum: list[float] | None  # the largest eigenvalues, at most 20; on request
    features: list[FeatureShare]  # the largest shares first, at most 100
    method: MethodName
    curved: bool  # whether the distance has a curved part
    experts: list[ExpertShare]  # with the method "rice": the scales, the shortest first
    matrix: list[list[float]] | None  # on request


def _id_or_features(point: Any) -> str:
    return BY_FEATURES if isinstance(point, list) else BY_ID


Point = Annotated[
    Annotated[Id, Tag(BY_ID)] | Annotated[list[Number], Field(min_length=1, max_length=100_000), Tag(BY_FEATURES)],
    Discriminator(_id_or_features),
]


class PointPair(RequestModel):
    left: Point  # the id of an item, or features in their own units
    right: Point


#: A confident answer, or "ask" a person.
Decision: TypeAlias = Literal["same", "different", "ask"]


class DistanceQuery(RequestModel):
    pairs: Annotated[list[PointPair], Field(min_length=1, max_length=MAX_BATCH_SIZE)]
    error: Annotated[float, Field(gt=0, lt=0.5)] | None = None  # the accepted share of wrong decisions


class Distances(ResponseModel):
    seq: int
    threshold: float
    distances: list[float]
    similar: list[bool]
    probabilities: list[float]  # of "same"; calibrated with the method "adaptive"
    decisions: list[Decision] | None  # if an error was given


class EmbedQuery(RequestModel):
    points: Annotated[list[Point], Field(min_length=1, max_length=MAX_BATCH_SIZE)]
    n_components: Annotated[int, Field(ge=1, le=1000)] = 2


class Embedding(ResponseModel):
    seq: int
    coordinates: list[list[float]]


class Neighbor(ResponseModel):
    item: Item
    distance: float
    similar: bool
    probability: float  # of "same"


class Neighbors(ResponseModel):
    seq: int
    item: Item
    threshold: float
    neighbors: list[Neighbor]  # the nearest first


class Difference(ResponseModel):
    feature: str
    left: float
    right: float
    share: float  # of the squared distance between the scaled items; the shares of all features sum to 1


class NextPair(ResponseModel):
    seq: int
    left: Item
    right: Item
    source: PairSource
    ticket: str | None  # sent back with the answer, it shows how the pair was chosen; None for a pair that was given
    reason: str  # why this pair was chosen; one sentence for people
    distance: float
    threshold: float
    probability: float  # of "same"
    differences: list[Difference]  # the largest first, at most 12


class ItemMap(ResponseModel):
    """All items in the plane, in the order of their positions; arrays are base64 of little-endian bytes."""

    seq: int
    n_items: int
    xy: str  # float32: x0, y0, x1, y1, ...
    clusters: str | None  # uint8, one per item; on request. Numbers are matched to those of the previous clustering.


class RandomPairCourse(ResponseModel):
    """The counts of random pairs up to the end of each row of the timeline; lists of equal length."""

    n: list[int]
    n_correct: list[int]
    n_commoner: list[int]
    n_euclidean: list[int]


class RandomPairAccuracy(ResponseModel):
    """How many pairs that were drawn at random were predicted correctly, each counted once."""

    n: int
    n_correct: int  # by the metric, before it learned from the answer
    n_commoner: int  # by always giving the answer that was commoner on these pairs
    n_euclidean: int  # by Euclidean distance of the scaled items, with the best threshold of the pairs before
    course: RandomPairCourse


class DetectedChange(ResponseModel):
    """A detected change of the question: from an answer on, answers contradict the predictions."""

    first: int  # the probable first answer after the change; answers that are undone are not counted
    detected: int  # the answer at which it was detected
    evidence: float  # the log likelihood ratio of a change


class Timeline(ResponseModel):
    """The course of learning over the answers that are not undone; lists of equal length, one value per row."""

    seq: int
    n_answers: list[int]  # the number of answers up to the end of the row
    loss: list[float]  # the mean of the row; each answer was predicted before it was learned from
    accuracy: list[float]  # the share of correct predictions
    drift: list[float]  # the change of the metric per answer, relative to its size
    method: MethodName
    experts: list[str]  # names; with the method "rice": the interval lengths of the scales
    shares: list[list[float]]  # one list per expert
    changes: list[DetectedChange]  # the oldest first, at most 100; none with the method "rice"
    random_pairs: RandomPairAccuracy
