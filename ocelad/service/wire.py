"""The JSON models of the HTTP API, which the routes, the client and the OpenAPI description share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from unicodedata import category

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from ocelad.service.entries import Answer, Kind, PairSource

MAX_BATCH_SIZE = 10_000
Id = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="Lowercase letters, digits, - and _")]
Seq = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Permission = Literal["read", "answer", "admin"]
UploadFormat = Literal["csv", "jsonl", "parquet", "arrow", "npy", "npz"]
MethodName = Literal["adaptive", "rice"]
#: Tags of the union types. Pydantic puts them into the locations of errors, from where they are removed again.
ONE, MANY, BY_ID, BY_FEATURES = TAGS = ("<one>", "<many>", "<id>", "<features>")


class RequestModel(BaseModel):
    """Base class of request bodies: unknown fields are rejected and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ResponseModel(BaseModel):
    """Base class of response bodies."""

    model_config = ConfigDict(frozen=True)


class ErrorDetail(ResponseModel):
    code: str  # a constant for programs, such as "not_found"
    message: str  # one sentence for people: what was wrong, where, and what is accepted
    where: str | None = None  # the location in the request, such as "body.comparisons.3.left"


class ErrorResponse(ResponseModel):
    """The body of every response with a status of 400 or above."""

    error: ErrorDetail


class Column(ResponseModel):
    """A column of the data that is not learned from and that the map can be coloured by."""

    name: str
    kind: Literal["number", "category"]


class ProjectInfo(ResponseModel):
    id: str
    title: str
    created_at: int  # milliseconds since 1970, UTC
    n_items: int
    feature_names: list[str]
    display: Literal["picture", "text", "features"]  # how an item is displayed
    columns: list[Column]
    method: MethodName  # of learning
    curved: bool  # whether the distance has a curved part beside the linear one
    transitive: bool  # whether answers imply others; if not, there are no groups
    seq: int  # the last entry in the log
    learned_seq: int  # the last entry that the metric has learned from
    n_answers: int  # answers "same" or "different" that are not undone
    n_implied: int | None  # pairs whose answer the answers imply, those that were asked included
    n_groups: int | None  # of items with answers
    n_contradictions: int | None  # pairs whose answers contradict the groups; these three are None in lists of projects
    permission: Permission  # of the caller


class ProjectList(ResponseModel):
    projects: list[ProjectInfo]


class Item(ResponseModel):
    id: str
    position: int
    text: str | None
    picture: str | None  # the path of a PNG on this server
    features: dict[str, float]  # empty in lists, and for items with more than 100 features
    fields: dict[str, str | float | bool | None]


class ItemPage(ResponseModel):
    items: list[Item]
    next: int | None  # the value of after= for the next page; None: this is the last page


class NewItem(RequestModel):
    id: Id
    features: list[Number]
    text: str | None = None
    fields: dict[str, str | float | bool | None] = {}


class NewItems(RequestModel):
    items: Annotated[list[NewItem], Field(min_length=1, max_length=MAX_BATCH_SIZE)]


class ItemsAdded(ResponseModel):
    n_added: int
    n_items: int


class NewComparison(RequestModel):
    left: Id
    right: Id
    answer: Answer
    source: PairSource = "given"


class NewComparisons(RequestModel):
    """A batch of comparisons, stored in order, all or none."""

    comparisons: Annotated[list[NewComparison], Field(min_length=1, max_length=MAX_BATCH_SIZE)]


def _one_or_many(body: Any) -> str:
    many = "comparisons" in body if isinstance(body, dict) else isinstance(body, NewComparisons)
    return MANY if many else ONE


#: The discriminator limits validation errors to the type that the client meant.
OneOrMany: TypeAlias = Annotated[
    Annotated[NewComparison, Tag(ONE)] | Annotated[NewComparisons, Tag(MANY)], Discriminator(_one_or_many)
]


class Acknowledgement(ResponseModel):
    """The entries are durable: they survive a kill of the server and a power cut."""

    first: int  # the number of the first entry
    last: int
    repeated: bool  # the idempotency key was known, so that the entries were not stored a second time


class Undo(RequestModel):
    seq: Annotated[int, Field(ge=1, le=2**53)] | None = None  # None: the person's last answer that is not undone


class LogEntry(ResponseModel):
    seq: int
    at: int  # milliseconds since 1970, UTC
    kind: Kind
    left: str
    right: str
    source: PairSource
    person: str
    undoes: int | None
    undone: bool  # by a later entry
    name: str | None  # of the group of the item; only of the kind "name", whose left and right are the same item
    bundle: int | None  # the first of the entries that are undone together; None: the entry is undone by itself


class UndoResult(ResponseModel):
    seq: int  # the number of the undo; of a bundle, the number of its last undo
    entry: LogEntry  # the entry that was undone; of a bundle, the last one
    n_undone: int  # the number of entries that were undone: all entries of a bundle
    repeated: bool


class HistoryPage(ResponseModel):
    entries: list[LogEntry]
    next: int | None  # the value of after= for the next page; None: this is the last page


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


class DistanceQuery(RequestModel):
    pairs: Annotated[list[PointPair], Field(min_length=1, max_length=MAX_BATCH_SIZE)]


class Distances(ResponseModel):
    seq: int
    threshold: float
    distances: list[float]
    similar: list[bool]


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
    reason: str  # why this pair was chosen; one sentence for people
    distance: float
    threshold: float
    differences: list[Difference]  # the largest first, at most 12


class Group(ResponseModel):
    """Items that the answers imply to be the same."""

    id: str  # the id of the item that answers named first
    name: str | None  # the last name that was given to one of the items
    size: int
    items: list[Item]  # the first ones


class GroupPage(ResponseModel):
    seq: int
    n_answers: int
    n_implied: int  # pairs whose answer the answers imply, those that were asked included
    n_groups: int
    n_contradictions: int
    groups: list[Group]  # the largest first
    next: int | None  # the value of after= for the next page; None: this is the last page


class GroupItems(ResponseModel):
    seq: int
    group: Group
    items: list[Item]  # in the order in which answers named them
    next: int | None  # the value of after= for the next page; None: this is the last page


class Contradiction(ResponseModel):
    """A pair whose answers contradict the groups."""

    left: Item
    right: Item
    votes: float  # answers "same" minus answers "different"; negative: the two are in one group nevertheless


class ContradictionPage(ResponseModel):
    seq: int
    contradictions: list[Contradiction]  # in the order in which they were first asked
    next: int | None  # the value of after= for the next page; None: this is the last page


def _check_name(name: str) -> str:
    """Return a name without spaces around it; raise an error if nothing is left, or if it has control characters."""
    if not name.strip() or any(category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        message = "the name is empty or contains control characters; accepted: 1 to 100 characters in one line"
        raise PydanticCustomError("name", message)
    return name.strip()


class Merge(RequestModel):
    left: Id  # an item of one group
    right: Id  # an item of another one


class Split(RequestModel):
    items: Annotated[list[Id], Field(min_length=1, max_length=MAX_BATCH_SIZE)]  # they leave their group together


class GroupName(RequestModel):
    item: Id  # any item of the group
    name: Annotated[str, Field(max_length=100), AfterValidator(_check_name)]


class ItemMap(ResponseModel):
    """All items in the plane, in the order of their positions; arrays are base64 of little-endian bytes."""

    seq: int
    n_items: int
    xy: str  # float32: x0, y0, x1, y1, ...
    clusters: str | None  # uint8, one per item; on request. Numbers are matched to those of the previous clustering.


class ColumnValues(ResponseModel):
    name: str
    kind: Literal["number", "category"]
    categories: list[str] | None  # the most frequent first; None for numbers
    values: list[float | None]  # numbers, or indices into categories


class RandomPairAccuracy(ResponseModel):
    """How many pairs that were drawn at random the metric predicted correctly before it learned from them."""

    n: int
    n_correct: int


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


class Health(ResponseModel):
    status: Literal["ok"]
    version: str


class Readiness(ResponseModel):
    status: Literal["ready", "starting", "failing", "stopping"]
    reason: str | None
    backlog: dict[str, int]  # by project: the number of durable entries that have not been learned from yet
