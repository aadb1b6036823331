"""Routes for queries of the learned metric, and for the next pair to ask about. None of them waits for learning."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ocelad._typing import Floats
from ocelad.choice import NoPairsLeft
from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.learning import View
from ocelad.service.routes.access import ERROR_RESPONSES, Answerer, Reader, json_response_in_thread
from ocelad.service.served_project import ServedProject
from ocelad.service.team.repeats import REPEAT_REASON
from ocelad.service.wire import (
    Decision,
    DistanceQuery,
    Distances,
    Embedding,
    EmbedQuery,
    ItemMap,
    MetricInfo,
    Neighbor,
    Neighbors,
    NextPair,
    Point,
    Timeline,
)

router = APIRouter(tags=["queries"], responses=ERROR_RESPONSES)
_MAX_MATRIX_FEATURES = 512
# The largest number of values in the points of a request, and in the coordinates of a response.
MAX_POINT_VALUES, MAX_COORDINATES = 4_000_000, 200_000
_METRIC_FILE = "application/octet-stream"


@router.get(
    "/projects/{project}/metric",
    response_model=MetricInfo,
    responses={200: {"content": {_METRIC_FILE: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def metric(
    access: Reader,
    matrix: Annotated[bool, Query(description="Include the matrix")] = False,
    spectrum: Annotated[bool, Query(description="Include the largest eigenvalues")] = False,
    format: Annotated[Literal["json", "safetensors"], Query()] = "json",
) -> Response:
    """Return the current metric on features in their own units.

    ``Metric.load`` reads the format safetensors; of a curved distance, ``CurvedMetric.load``.
    """
    view = access.project.view
    if format == "safetensors":
        return Response(await run_in_threadpool(_metric_file, view), media_type=_METRIC_FILE)
    n = view.metric.n_features
    if matrix and n > _MAX_MATRIX_FEATURES:
        raise ApiError(
            422,
            f"a matrix of {n} x {n} is too large for JSON; accepted: up to {_MAX_MATRIX_FEATURES} features, or "
            "format=safetensors",
            where="query.matrix",
        )
    return await json_response_in_thread(serialize.metric_info, view, matrix=matrix, spectrum=spectrum)


def _metric_file(view: View) -> bytes:
    with TemporaryDirectory() as folder:
        view.metric_of_features.save(f"{folder}/metric")
        with open(f"{folder}/metric", "rb") as file:
            return file.read()


@router.post("/projects/{project}/distance", response_model=Distances)
async def distance(access: Reader, query: DistanceQuery) -> Response:
    """Return the distances of pairs of points, items or features in their own units, and the probability of "same".

    With ``error``, each pair is also decided, or left to a person: at most this share of the decided ones is wrong, if
    the pairs are like those that people were asked about.
    """
    return await json_response_in_thread(_distances, access.project, query)


def _distances(project: ServedProject, query: DistanceQuery) -> Distances:
    view = project.view
    left = _points(project, [pair.left for pair in query.pairs], "body.pairs", ".left")
    right = _points(project, [pair.right for pair in query.pairs], "body.pairs", ".right")
    distances, threshold = view.distances(left, right), view.metric.distance_threshold
    _check_finite(distances)
    return Distances(
        seq=view.seq,
        threshold=threshold,
        distances=distances.tolist(),
        similar=(distances <= threshold).tolist(),
        probabilities=view.probabilities(distances).tolist(),
        decisions=None if query.error is None else _decisions(project, view, distances, query.error),
    )


def _decisions(project: ServedProject, view: View, distances: Floats, error: float) -> list[Decision]:
    decided = view.decide(distances, error)
    if decided is None:
        message = (
            f"{project.id!r} learns by the method 'rice', which does not decide; accepted: no error, or 'adaptive'"
        )
        raise ApiError(422, message, where="body.error")
    names: dict[int, Decision] = {1: "same", -1: "different", 0: "ask"}
    return [names[each] for each in decided.tolist()]


@router.post("/projects/{project}/embed", response_model=Embedding)
async def embed(access: Reader, query: EmbedQuery) -> Response:
    """Return coordinates along the principal directions, in which Euclidean distance approximates the learned one."""
    _check_size(len(query.points) * query.n_components, MAX_COORDINATES, "coordinates")
    return await json_response_in_thread(_embedding, access.project, query)


def _embedding(project: ServedProject, query: EmbedQuery) -> Embedding:
    view = project.view
    coordinates = view.metric.embed(_points(project, query.points, "body.points"), query.n_components)
    _check_finite(coordinates)
    return Embedding(seq=view.seq, coordinates=coordinates.tolist())


def _points(project: ServedProject, points: Sequence[Point], where: str, part: str = "") -> Floats:
    """Return the scaled points of items' ids or of features, one per row."""
    items = project.items
    n = len(items.feature_names)
    _check_size(len(points) * n, MAX_POINT_VALUES, "points")
    rows = np.empty((len(points), n))
    for i, point in enumerate(points):
        if isinstance(point, str):
            rows[i] = items.features[project.position(point, f"{where}.{i}{part}")]
        elif len(point) == n:
            rows[i] = point
        else:
            raise ApiError(
                422,
                f"{where}.{i}{part} has {len(point)} numbers; accepted: {n}, one per feature, or an item's id",
                where=f"{where}.{i}{part}",
            )
    with np.errstate(over="ignore"):
        scaled = rows * items.scaling.factors
    _check_finite(scaled)
    return scaled


def _check_size(n_values: int, max_values: int, name: str) -> None:
    """Reject a request that would delay all others."""
    if n_values > max_values:
        raise ApiError(
            422, f"the {name} have {n_values:,} numbers in total; accepted: up to {max_values:,}", where="body"
        )


def _check_finite(values: Any) -> None:
    if not np.isfinite(values).all():
        raise ApiError(422, "the points are too large: a distance would overflow", where="body")


@router.get("/projects/{project}/neighbors", response_model=Neighbors)
async def neighbors(
    access: Reader,
    item: Annotated[str, Query(min_length=1, max_length=200)],
    k: Annotated[int, Query(ge=1, le=200)] = 10,
) -> Response:
    """Return the nearest neighbours of an item."""
    return await json_response_in_thread(_neighbors, access.project, item, k)


def _neighbors(project: ServedProject, id: str, k: int) -> Neighbors:
    view, position = project.view, project.position(id, "query.item")
    if position >= len(view.items):
        raise ApiError(503, f"{id!r} has just been added; try again", headers={"Retry-After": "1"})
    positions, distances = view.neighbors(position, k)
    threshold = view.metric.distance_threshold
    found = [
        Neighbor(
            item=serialize.item(project, int(position)),
            distance=distance,
            similar=distance <= threshold,
            probability=probability,
        )
        for position, distance, probability in zip(
            positions, distances.tolist(), view.probabilities(distances).tolist(), strict=True
        )
    ]
    return Neighbors(seq=view.seq, item=serialize.item(project, position), threshold=threshold, neighbors=found)


@router.get("/projects/{project}/next-pair", response_model=NextPair)
async def next_pair(access: Answerer) -> Response:
    """Return the pair whose comparison is most informative or, at times, a random pair; and the reason."""
    return await json_response_in_thread(_next_pair, access.project, access.who)


def _next_pair(project: ServedProject, person: str) -> NextPair:
    view, options = project.view, project.options
    repeated = None
    if project.repeats.is_due(options.repeat_share):
        repeated = _repeated_pair(project, person)
    if repeated is not None:
        return repeated
    try:
        choice = project.chooser.next(view)
    except NoPairsLeft as error:
        repeated = _repeated_pair(project, person) if options.repeat_share else None
        if repeated is not None:
            return repeated
        raise ApiError(409, str(error), code="nothing_to_ask") from None
    return NextPair(
        seq=view.seq,
        left=serialize.item(project, choice.left),
        right=serialize.item(project, choice.right),
        source=choice.source,
        ticket=project.tickets.issue(choice.left, choice.right, choice.source),
        reason=choice.reason,
        distance=choice.distance,
        threshold=view.metric.distance_threshold,
        probability=float(view.probabilities(choice.distance)),
        differences=serialize.differences(project.items, choice.left, choice.right),
    )


def _repeated_pair(project: ServedProject, person: str) -> NextPair | None:
    """Return a pair that others have answered, for a further person; None if no such pair is left."""
    view, pair = project.view, project.repeats.next(person, project.options.repeat_people)
    if pair is None or max(pair) >= len(view.items):
        return None
    left, right = pair
    distance = float(view.distances(view.points[[left]], view.points[[right]])[0])
    return NextPair(
        seq=view.seq,
        left=serialize.item(project, left),
        right=serialize.item(project, right),
        source="repeat",
        ticket=project.tickets.issue(left, right, "repeat"),
        reason=REPEAT_REASON,
        distance=distance,
        threshold=view.metric.distance_threshold,
        probability=float(view.probabilities(distance)),
        differences=serialize.differences(project.items, left, right),
    )


@router.get("/projects/{project}/timeline", response_model=Timeline)
async def timeline(access: Reader) -> Response:
    """Return loss, accuracy, drift, the shares of the experts and detected changes over the answers not undone."""
    return await json_response_in_thread(serialize.timeline, access.project.view)


@router.get("/projects/{project}/map", response_model=ItemMap)
async def item_map(
    access: Reader, clusters: Annotated[int | None, Query(ge=2, le=50, description="The number of clusters")] = None
) -> Response:
    """Return all items in the plane, on request with their clusters."""
    return await json_response_in_thread(serialize.item_map, access.project.view, clusters)
