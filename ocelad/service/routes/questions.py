"""Questions to what was learned, and what to ask a person next. None of them waits for learning."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ocelad._typing import Floats
from ocelad.service import items as reading
from ocelad.service.choice import NothingToAsk
from ocelad.service.learning import View
from ocelad.service.refusal import Refusal
from ocelad.service.routes.access import REFUSALS, Answerer, Reader, told_by
from ocelad.service.served_project import ServedProject
from ocelad.service.wire import (
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

router = APIRouter(tags=["questions"], responses=REFUSALS)
_LARGEST_MATRIX = 512
# Of the points of one request, and of the places that are told of them.
MOST_NUMBERS, MOST_PLACES = 4_000_000, 200_000
_METRIC_FILE = "application/octet-stream"


@router.get(
    "/projects/{project}/metric",
    response_model=MetricInfo,
    responses={200: {"content": {_METRIC_FILE: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def metric(
    access: Reader,
    matrix: Annotated[bool, Query(description="With the matrix")] = False,
    spectrum: Annotated[bool, Query(description="With the largest eigenvalues")] = False,
    format: Annotated[Literal["json", "safetensors"], Query()] = "json",
) -> Response:
    """The metric now, on features in their own units; as safetensors it is a file that ``Metric.load`` reads."""
    view = access.live.view
    if format == "safetensors":
        return Response(await run_in_threadpool(_file, view), media_type=_METRIC_FILE)
    n = view.metric.n_features
    if matrix and n > _LARGEST_MATRIX:
        raise Refusal(
            422,
            f"a matrix of {n} x {n} is too large for JSON; accepted: up to {_LARGEST_MATRIX} features, or "
            "format=safetensors",
            where="query.matrix",
        )
    return await told_by(_info, view, matrix, spectrum)


def _file(view: View) -> bytes:
    with TemporaryDirectory() as folder:
        view.metric_of_features.save(f"{folder}/metric")
        with open(f"{folder}/metric", "rb") as file:
            return file.read()


def _info(view: View, matrix: bool, spectrum: bool) -> MetricInfo:
    metric = view.metric
    return MetricInfo(
        seq=view.seq,
        n_answers=view.n_answers,
        n_features=metric.n_features,
        threshold=metric.distance_threshold,
        **view.summary._asdict(),
        matrix=view.metric_of_features.matrix.tolist() if matrix else None,
        spectrum=view.spectrum.tolist() if spectrum else None,
    )


@router.post("/projects/{project}/distance", response_model=Distances)
async def distance(access: Reader, query: DistanceQuery) -> Response:
    """How far apart points are: items, or features in their own units."""
    return await told_by(_distances, access.live, query)


def _distances(live: ServedProject, query: DistanceQuery) -> Distances:
    view = live.view
    left = _points(live, [pair.left for pair in query.pairs], "body.pairs", ".left")
    right = _points(live, [pair.right for pair in query.pairs], "body.pairs", ".right")
    distances, threshold = view.distances(left, right), view.metric.distance_threshold
    _refuse_infinite(distances)
    similar = (distances <= threshold).tolist()
    return Distances(seq=view.seq, threshold=threshold, distances=distances.tolist(), similar=similar)


@router.post("/projects/{project}/embed", response_model=Embedding)
async def embed(access: Reader, query: EmbedQuery) -> Response:
    """Places where Euclidean distance is the learned one, along the heaviest directions."""
    _refuse_many(len(query.points) * query.n_components, MOST_PLACES, "places have")
    return await told_by(_embedding, access.live, query)


def _embedding(live: ServedProject, query: EmbedQuery) -> Embedding:
    view = live.view
    places = view.metric.embed(_points(live, query.points, "body.points"), query.n_components)
    _refuse_infinite(places)
    return Embedding(seq=view.seq, places=places.tolist())


def _points(live: ServedProject, points: Sequence[Point], where: str, part: str = "") -> Floats:
    """Scaled points of items' ids or of features, one per row."""
    items = live.items
    n = len(items.feature_names)
    _refuse_many(len(points) * n, MOST_NUMBERS, "points have")
    rows = np.empty((len(points), n))
    for i, point in enumerate(points):
        if isinstance(point, str):
            rows[i] = items.features[live.position(point, f"{where}.{i}{part}")]
        elif len(point) == n:
            rows[i] = point
        else:
            raise Refusal(
                422,
                f"{where}.{i}{part} has {len(point)} numbers; accepted: {n}, one per feature, or an item's id",
                where=f"{where}.{i}{part}",
            )
    with np.errstate(over="ignore"):
        scaled = rows * items.scaling.factors
    _refuse_infinite(scaled)
    return scaled


def _refuse_many(count: int, most: int, what: str) -> None:
    """One request must not hold up all others."""
    if count > most:
        raise Refusal(422, f"the {what} {count:,} numbers in all; accepted: up to {most:,} at once", where="body")


def _refuse_infinite(values: Any) -> None:
    if not np.isfinite(values).all():
        raise Refusal(422, "the points are too large: a distance would overflow", where="body")


@router.get("/projects/{project}/neighbors", response_model=Neighbors)
async def neighbors(
    access: Reader,
    item: Annotated[str, Query(min_length=1, max_length=200)],
    k: Annotated[int, Query(ge=1, le=200)] = 10,
) -> Response:
    """The items nearest to an item now."""
    return await told_by(_neighbors, access.live, item, k)


def _neighbors(live: ServedProject, id: str, k: int) -> Neighbors:
    view, place = live.view, live.position(id, "query.item")
    if place >= len(view.items):
        raise Refusal(503, f"{id!r} has just been added; try again", headers={"Retry-After": "1"})
    positions, distances = view.neighbors(place, k)
    threshold = view.metric.distance_threshold
    found = [
        Neighbor(item=live.item(int(position)), distance=distance, similar=distance <= threshold)
        for position, distance in zip(positions, distances.tolist(), strict=True)
    ]
    return Neighbors(seq=view.seq, item=live.item(place), threshold=threshold, neighbors=found)


@router.get("/projects/{project}/next-pair", response_model=NextPair)
async def next_pair(access: Answerer) -> Response:
    """Two items whose comparison would teach most, or, now and then, two drawn at random; and why these."""
    return await told_by(_next_pair, access.live)


def _next_pair(live: ServedProject) -> NextPair:
    view = live.view
    try:
        choice = live.chooser.next(view)
    except NothingToAsk as error:
        raise Refusal(409, str(error), code="nothing_to_ask") from None
    return NextPair(
        seq=view.seq,
        left=live.item(choice.left),
        right=live.item(choice.right),
        asked=choice.asked,
        why=choice.why,
        distance=choice.distance,
        threshold=view.metric.distance_threshold,
        differences=reading.differences(live.items, choice.left, choice.right),
    )


@router.get("/projects/{project}/timeline", response_model=Timeline)
async def timeline(access: Reader) -> Response:
    """Loss, how fast the metric moves, and the share of each scale, along the answers that stand."""
    view = access.live.view
    return await told_by(view.timeline.to_wire, view.seq)


@router.get("/projects/{project}/map", response_model=ItemMap)
async def item_map(
    access: Reader, clusters: Annotated[int | None, Query(ge=2, le=50, description="So many clusters")] = None
) -> Response:
    """All items in the plane, and their clusters where asked for."""
    return await told_by(_map, access.live.view, clusters)


def _map(view: View, n_clusters: int | None) -> ItemMap:
    return ItemMap(
        seq=view.seq,
        n_items=len(view.items),
        xy=_base64(view.plane.astype("<f4")),
        clusters=None if n_clusters is None else _base64(view.clusters(n_clusters)),
    )


def _base64(array: Any) -> str:
    return b64encode(array.tobytes()).decode()
