"""The JSON models of the HTTP API, which the routes, the client and the OpenAPI description share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias
from unicodedata import category

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from ocelad.service.entries import Answer, Kind, PairSource
from ocelad.service.project_options import (
    MAX_GUIDELINES,
    MAX_QUESTION,
    MAX_SHOWN,
    MAX_WEIGHTS,
    ColumnName,
    RepeatPeople,
    RepeatShare,
    StoredName,
    Weight,
)

MAX_BATCH_SIZE = 10_000
Id = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="Lowercase letters, digits, - and _")]
Seq = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[float, Field(allow_inf_nan=False)]
ClientSource = Literal["active", "random", "link", "check", "settle", "given", "repeat"]
Permission = Literal["read", "answer", "review", "admin"]
UploadFormat = Literal["csv", "jsonl", "parquet", "arrow", "npy", "npz"]
MethodName = Literal["adaptive", "rice"]
#: "unknown": the project stores no version, because it was created before versions were stored.
Replay = Literal["same", "changed", "unknown"]
# What a project learns from is fixed when it is created.
_FIXED = ("features", "exclude", "item_id", "method", "settings", "curved", "transitive", "missing")
#: Tags of the union types. Pydantic puts them into the locations of errors, from where they are removed again.
ONE, MANY, BY_ID, BY_FEATURES = TAGS = ("<one>", "<many>", "<id>", "<features>")


class RequestModel(BaseModel):
    """Base class of request bodies: unknown fields are rejected and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ResponseModel(BaseModel):
    """Base class of response bodies."""

    model_config = ConfigDict(frozen=True)


def _check_question(question: str) -> str:
    """Return a question without spaces around it; raise an error if it is empty or has control characters."""
    if not question.strip() or not _is_displayable(question, lines=False):
        message = f"the question is empty or contains control characters; accepted: 1 to {MAX_QUESTION} characters"
        raise PydanticCustomError("question", message)
    return question.strip()


def _check_lines(text: str) -> str:
    if not _is_displayable(text, lines=True):
        raise PydanticCustomError("lines", "the text contains control characters; accepted: plain text in lines")
    return text


def _is_displayable(text: str, *, lines: bool) -> bool:
    """Return whether a text has no control characters or surrogates; on request it may have line ends and tabs."""
    plain = text.translate(_LINE_CHARACTERS) if lines else text
    return not any(category(character) in ("Cc", "Cs", "Zl", "Zp") for character in plain)


_LINE_CHARACTERS = dict.fromkeys(map(ord, "\n\r\t"), " ")


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


class Notice(ResponseModel):
    """What happened to a project while the service was running, such as that its log was replaced."""

    at: int  # milliseconds since 1970, UTC
    text: str


class CardColumn(ResponseModel):
    """A column that the cards of items can show."""

    name: str
    kind: Literal["text", "link", "number", "boolean", "picture"]
    is_feature: bool  # whether the distance is learned from it


class Cards(ResponseModel):
    """The columns of an item's card; None: the card has none."""

    title: str | None  # names the item
    text: str | None
    link: str | None
    picture: str | None
    fields: list[str]  # in the order of display


class ProjectInfo(ResponseModel):
    id: str
    title: str
    created_at: int  # milliseconds since 1970, UTC
    n_items: int
    feature_names: list[str]
    display: Literal["picture", "text", "features"]  # what an item has to show
    columns: list[Column]
    question: str  # that people answer
    guidelines: str | None  # plain text; None in lists of projects
    cards: Cards | None  # None in lists of projects
    card_columns: list[CardColumn] | None  # all columns that cards can show; None in lists of projects
    method: MethodName  # of learning
    curved: bool  # whether the distance has a curved part beside the linear one
    transitive: bool  # whether answers imply others; if not, there are no groups
    seq: int  # the last entry in the log
    learned_seq: int | None  # the last entry that the metric has learned from; None in lists: it is not in memory
    n_answers: int | None  # answers "same" or "different" that are not undone; None in lists: it is not in memory
    n_implied: int | None  # pairs whose answer the answers imply, those that were asked included
    n_groups: int | None  # of items with answers
    n_contradictions: int | None  # pairs whose answers contradict the groups; these three are None in lists of projects
    permission: Permission  # of the caller
    repeat_share: float  # of pairs that others have answered before
    repeat_people: int  # who are asked about each of them
    weights: Literal["equal", "set", "learned"]  # of people's answers
    notice: Notice | None = None
    archived_at: int | None = None  # milliseconds since 1970, UTC; None: people can answer
    replay: Replay  # whether this version learns the same from the log as the version that the project was created with
    replay_note: str | None  # one sentence for people, unless it is the same
    notes: list[str] = []  # about the file of items, when a project has just been created from it


class CardsChange(RequestModel):
    """The columns of an item's card; what is left out stays as it is, and null removes it."""

    title: ColumnName | None = None
    text: ColumnName | None = None
    link: ColumnName | None = None
    picture: ColumnName | None = None
    fields: Annotated[list[ColumnName], Field(max_length=MAX_SHOWN)] = []


class WeightsChange(RequestModel):
    """Equal weights, or the weight of each person's answers, from 0 to 1; people who are not named have 1."""

    mode: Literal["equal", "set"]
    people: Annotated[dict[StoredName, Weight], Field(max_length=MAX_WEIGHTS)] = {}

    @model_validator(mode="after")
    def _refuse_unused(self) -> Self:
        if self.mode == "equal" and self.people:
            raise PydanticCustomError("weights", 'mode is "equal", but people have weights; accepted: mode "set"')
        return self


class ProjectChange(RequestModel):
    """What may be changed of a project; what is left out stays as it is."""

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    question: Annotated[str, Field(max_length=MAX_QUESTION), AfterValidator(_check_question)] | None = None
    guidelines: Annotated[str, Field(max_length=MAX_GUIDELINES), AfterValidator(_check_lines)] | None = None
    cards: CardsChange | None = None
    repeat_share: RepeatShare | None = None  # of pairs that others have answered before
    repeat_people: RepeatPeople | None = None  # who are asked about each of them
    weights: WeightsChange | None = None  # of people's answers

    @model_validator(mode="before")
    @classmethod
    def _refuse_learning(cls, body: Any) -> Any:
        fixed = [name for name in body if name in _FIXED] if isinstance(body, dict) else []
        if fixed:
            message = f"{fixed[0]} cannot be changed: the answers were learned with it; create another project"
            raise PydanticCustomError("fixed", message)
        return body


class ProjectList(ResponseModel):
    projects: list[ProjectInfo]
    next: int | None = None  # the value of after= for the next page; None: this is the last page


class ProjectCopy(RequestModel):
    id: Name  # of the copy
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None  # None: that of the project
    answers: bool = False  # whether the log is copied, with people and times


class Item(ResponseModel):
    """An item with its card; the project's ``cards`` say which columns it shows."""

    id: str
    position: int
    title: str | None  # names the item
    text: str | None
    link: str | None  # begins with http:// or https://; other links are among the fields
    picture: str | None  # the path of a picture of at most 256 x 256 pixels on this server
    picture_full: str | None  # the path of the same picture in its own size, at most 2048 x 2048 pixels
    features: dict[str, float]  # empty in lists, and for items with more than 100 features
    fields: dict[str, str | float | bool | None]  # in the order of display


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
    ticket: Annotated[str, Field(max_length=100)] | None = None  # of the pair, from the service: how it was chosen
    source: ClientSource = "given"  # accepted from earlier clients and ignored: only a ticket tells the source


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
    at: int  # milliseconds since 1970, UTC; 0 if it is erased
    kind: Kind
    left: str | None  # None if it is erased
    right: str | None
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


class CallerInfo(ResponseModel):
    name: str  # of the token or of the person who has logged in; empty on a service without tokens
    permissions: dict[str, Permission]  # by project id; "*" stands for all
    personal: bool  # whether the name is that of one person; a token may be shared
    session: bool  # whether POST /v1/logout ends a session


class LoggedOut(ResponseModel):
    ended: bool  # false: the caller has no session


class AuditItem(ResponseModel):
    number: int
    at: int  # milliseconds since 1970, UTC
    who: str
    action: str
    target: str  # what was changed: the id of a project, the name of a token
    detail: dict[str, Any]


class AuditPage(ResponseModel):
    entries: list[AuditItem]
    next: int | None  # ``after`` of the next page; None: there is none


class Health(ResponseModel):
    status: Literal["ok"]
    version: str
    page: str | None = None  # the digest of the page's files: a page with another one is of another version


WebhookEvent = Literal["metric", "change", "answers"]


class NewWebhook(RequestModel):
    url: Annotated[str, Field(min_length=1, max_length=2000)]  # http or https, of a public host
    # "metric": distances have moved; "change": a change of the question was detected; "answers": there are new entries
    events: Annotated[list[WebhookEvent], Field(min_length=1, max_length=10)] = ["metric", "change"]
    # How far distances have to move since the last call: on average, relative to their mean.
    threshold: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 0.05
    interval: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 60.0  # least seconds between two calls


class WebhookInfo(ResponseModel):
    number: int
    url: str
    events: list[WebhookEvent]
    threshold: float | None
    interval: float
    created_at: int  # milliseconds since 1970, UTC
    failure: str | None  # why the last request failed; it is repeated


class WebhookCreated(WebhookInfo):
    secret: str  # signs the requests; it is not shown again


class WebhookList(ResponseModel):
    webhooks: list[WebhookInfo]


ServiceStatus = Literal["ready", "failing", "stopping"]
ProjectStatus = Literal["ready", "starting", "failing", "rebuilding"]


class ProjectReadiness(ResponseModel):
    status: ProjectStatus  # "starting": it learns from earlier answers; "rebuilding": its log was replaced
    reason: str | None
    backlog: int | None  # the number of durable entries that have not been learned from yet; None: it is not in memory


class Readiness(ResponseModel):
    status: ServiceStatus  # "ready": the service stores answers and serves projects
    reason: str | None
    backlog: dict[str, int]  # by project in memory: the durable entries that have not been learned from yet
    projects: dict[str, ProjectReadiness]  # those in memory; empty unless all callers may read them
