"""What goes over the wire: the JSON of the HTTP API, as the routes, the client and the API's description know it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from ocelad.service.entries import Answer, Asked, Kind

MOST_AT_ONCE = 10_000
Id = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="Small letters, digits, - and _")]
Seq = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Right = Literal["read", "answer", "admin"]
UploadFormat = Literal["csv", "jsonl", "parquet"]
#: What tells the kinds of a body apart that may be of several; pydantic puts them into places, where nobody wants them.
ONE, MANY, BY_ID, BY_FEATURES = TAGS = ("<one>", "<many>", "<id>", "<features>")


class Sent(BaseModel):
    """What a client sends: nothing that is not known, and nothing read as something else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Told(BaseModel):
    """What the service tells."""

    model_config = ConfigDict(frozen=True)


class ErrorDetail(Told):
    code: str  # a word for programs, such as "not_found"
    message: str  # one sentence for people: what was wrong, where, and what is accepted
    where: str | None = None  # such as "body.comparisons.3.left"


class Problem(Told):
    """Every answer with a status of 400 or above."""

    error: ErrorDetail


class Column(Told):
    """A column of the data that is not learned from, to colour by."""

    name: str
    kind: Literal["number", "category"]


class ProjectInfo(Told):
    id: str
    title: str
    created_at: int  # milliseconds since 1970, UTC
    n_items: int
    feature_names: list[str]
    shown: Literal["picture", "text", "features"]
    columns: list[Column]
    seq: int  # of the last entry in the log
    learned: int  # up to which entry the metric has learned
    n_answers: int  # same or different, and not undone
    right: Right  # what the caller may do


class ProjectList(Told):
    projects: list[ProjectInfo]


class Item(Told):
    id: str
    position: int
    text: str | None
    picture: str | None  # the address of a PNG, on this server
    features: dict[str, float]  # empty in lists; all of them of a single item, unless there are more than 100
    fields: dict[str, str | float | bool | None]


class ItemPage(Told):
    items: list[Item]
    next: int | None  # what to ask for with after=; None: that was all


class NewItem(Sent):
    id: Id
    features: list[Number]
    text: str | None = None
    fields: dict[str, str | float | bool | None] = {}


class NewItems(Sent):
    items: Annotated[list[NewItem], Field(min_length=1, max_length=MOST_AT_ONCE)]


class ItemsAdded(Told):
    n_added: int
    n_items: int


class NewComparison(Sent):
    left: Id
    right: Id
    answer: Answer
    asked: Asked = "given"


class NewComparisons(Sent):
    """One, or many at once: all of them are kept, in their order, or none."""

    comparisons: Annotated[list[NewComparison], Field(min_length=1, max_length=MOST_AT_ONCE)]


def _one_or_many(sent: Any) -> str:
    many = "comparisons" in sent if isinstance(sent, dict) else isinstance(sent, NewComparisons)
    return MANY if many else ONE


#: What is wrong is told of the kind that was meant, and not of both.
OneOrMany: TypeAlias = Annotated[
    Annotated[NewComparison, Tag(ONE)] | Annotated[NewComparisons, Tag(MANY)], Discriminator(_one_or_many)
]


class Acknowledged(Told):
    """These are durable now: they outlive a kill of the server and a power cut."""

    first: int  # seq of the first of them
    last: int
    repeated: bool  # the idempotency key was known: they were kept before, not twice


class Undo(Sent):
    seq: Annotated[int, Field(ge=1, le=2**53)] | None = None  # None: the caller's last answer that stands


class LogEntry(Told):
    seq: int
    at: int
    kind: Kind
    left: str
    right: str
    asked: Asked
    who: str
    undoes: int | None
    undone: bool  # by a later entry


class Undone(Told):
    seq: int  # of the undo
    entry: LogEntry  # what was undone
    repeated: bool


class HistoryPage(Told):
    entries: list[LogEntry]
    next: int | None  # what to ask for with after=; None: that was all


class FeatureShare(Told):
    name: str
    weight: float  # per unit of the feature, squared
    share: float  # of the spread of the items under the metric; all of them sum to 1
    before: float  # the share that it would have if nothing had been learned


class ScaleShare(Told):
    length: int  # of its intervals, in answers
    share: float  # in the metric; all of them sum to 1


class MetricInfo(Told):
    """The metric now, on the features in their own units."""

    seq: int  # up to which entry it has learned
    n_answers: int
    n_features: int
    threshold: float  # two items at most this far apart are the same
    spectrum: list[float] | None  # the largest eigenvalues, at most 20, where asked for
    features: list[FeatureShare]  # the heaviest first, at most 100
    scales: list[ScaleShare]  # the shortest first
    matrix: list[list[float]] | None  # where asked for


def _id_or_features(sent: Any) -> str:
    return BY_FEATURES if isinstance(sent, list) else BY_ID


Point = Annotated[
    Annotated[Id, Tag(BY_ID)] | Annotated[list[Number], Field(min_length=1, max_length=100_000), Tag(BY_FEATURES)],
    Discriminator(_id_or_features),
]


class PointPair(Sent):
    left: Point  # an item's id, or features in their own units
    right: Point


class DistanceQuery(Sent):
    pairs: Annotated[list[PointPair], Field(min_length=1, max_length=MOST_AT_ONCE)]


class Distances(Told):
    seq: int
    threshold: float
    distances: list[float]
    similar: list[bool]


class EmbedQuery(Sent):
    points: Annotated[list[Point], Field(min_length=1, max_length=MOST_AT_ONCE)]
    n_components: Annotated[int, Field(ge=1, le=1000)] = 2


class Embedding(Told):
    seq: int
    places: list[list[float]]


class Neighbor(Told):
    item: Item
    distance: float
    similar: bool


class Neighbors(Told):
    seq: int
    item: Item
    threshold: float
    neighbors: list[Neighbor]  # the nearest first


class Difference(Told):
    feature: str
    left: float
    right: float
    share: float  # of the squared difference between the two scaled items; those of all features sum to 1


class NextPair(Told):
    seq: int
    left: Item
    right: Item
    asked: Asked
    why: str  # one sentence for people
    distance: float
    threshold: float
    differences: list[Difference]  # the largest first, at most 12


class ItemMap(Told):
    """All items in the plane; arrays as base64 of little-endian bytes, in the order of positions."""

    seq: int
    n_items: int
    xy: str  # float32: x0, y0, x1, y1, ...
    clusters: str | None  # uint8, one per item, where asked for; the numbers stay as alike as can be over time


class ColumnValues(Told):
    name: str
    kind: Literal["number", "category"]
    categories: list[str] | None  # of a category: its values, the most frequent first
    values: list[float | None]  # numbers, or places in categories


class Honest(Told):
    """How often the metric was right on pairs that were drawn at random, each before it was learned from."""

    n: int
    right: int


class Timeline(Told):
    """What happened along the answers that stand; lists of one length, a row each."""

    seq: int
    answers: list[int]  # how many answers, up to the end of the row
    loss: list[float]  # mean over the row; each answer was judged before it was learned from
    right: list[float]  # the share that was judged right
    moved: list[float]  # how far the metric moved per answer, relative to its size
    scales: list[int]  # interval lengths
    shares: list[list[float]]  # one list per scale
    honest: Honest


class Health(Told):
    status: Literal["ok"]
    version: str


class Readiness(Told):
    status: Literal["ready", "starting", "failing", "stopping"]
    reason: str | None
    behind: dict[str, int]  # by project: how many durable entries have not been learned from yet
