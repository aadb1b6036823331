"""Uploads and exports have their own limits: no other request waits for them, and they need no temporary files."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event, Semaphore
from time import monotonic, sleep

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from serving import served, some_items

from ocelad.io import open_items
from ocelad.service import exports
from ocelad.service.api_error import ApiError
from ocelad.service.entries import NewEntry
from ocelad.service.items.load_items import parse_upload
from ocelad.service.slow_work import SlowWork

TABLE = b"id,x,y\na,1,2\nb,3,5\nc,4,1\n"
# More than the threads that all other requests share.
N_REQUESTS = 48


@pytest.fixture
def http(tmp_path):
    with served(tmp_path / "data", some_items(), max_uploads=3, max_exports=2, rate=None) as (client, service):
        yield client, service


def check_quick(client):
    """Check that reading and answering do not wait."""
    begin = monotonic()
    pair = client.get("/v1/projects/some/next-pair")
    assert pair.status_code == 200
    body = {"left": pair.json()["left"]["id"], "right": pair.json()["right"]["id"], "answer": "same"}
    assert client.post("/v1/projects/some/comparisons", json=body).status_code == 201
    assert client.get("/v1/projects/some/items").status_code == 200
    assert monotonic() - begin < 5


def test_reading_and_answering_do_not_wait_for_uploads(http, monkeypatch):
    client, service = http
    started, release = Semaphore(0), Event()

    def slow(*arguments, **options):
        started.release()
        assert release.wait(60)
        return parse_upload(*arguments, **options)

    monkeypatch.setattr("ocelad.service.items.read_upload", slow)
    limits = httpx.Limits(max_connections=2 * N_REQUESTS)
    with (
        httpx.Client(base_url=client.base_url, timeout=90, limits=limits) as uploader,
        ThreadPoolExecutor(N_REQUESTS) as pool,
    ):
        uploads = [
            pool.submit(uploader.post, "/v1/projects", params={"id": f"p{i}", "format": "csv"}, content=TABLE)
            for i in range(N_REQUESTS)
        ]
        try:
            for _ in range(3):
                assert started.acquire(timeout=30)
            check_quick(client)
            answer = client.post("/v1/projects", params={"id": "more", "format": "csv"}, content=TABLE)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
            assert "busy with 3 uploads" in answer.json()["error"]["message"]
            assert int(answer.headers["retry-after"]) > 0
        finally:
            release.set()
        statuses = [upload.result().status_code for upload in uploads]
    assert sorted(set(statuses)) == [201, 503]
    assert statuses.count(201) == 3
    assert client.post("/v1/projects", params={"id": "more", "format": "csv"}, content=TABLE).status_code == 201
    assert len(service.store.projects()) == 5


def test_exports_have_a_limit_and_end_when_the_client_leaves(http, monkeypatch):
    client, _ = http
    release = Event()

    def endless(*arguments):
        yield b"x" * 1000
        while not release.wait(0.02):
            yield b"x" * 100_000

    monkeypatch.setattr("ocelad.service.routes.answers.export_chunks", endless)
    path = "/v1/projects/some/export"
    try:
        with (
            httpx.Client(base_url=client.base_url, timeout=30) as reader,
            reader.stream("GET", path) as first,
            reader.stream("GET", path) as second,
        ):
            assert (next(first.iter_bytes())[:1], next(second.iter_bytes())[:1]) == (b"x", b"x")
            refused = client.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
            assert refused.headers["retry-after"]
            check_quick(client)
        deadline = monotonic() + 20
        while True:  # both clients have left
            with client.stream("GET", path) as again:
                if again.status_code == 200:
                    break
            assert monotonic() < deadline
            sleep(0.05)
    finally:
        release.set()


def test_an_export_that_fails_leaves_its_place(http, monkeypatch):
    client, _ = http

    def failing(*arguments):
        raise ApiError(503, "the database is away")
        yield b""

    with monkeypatch.context() as patch:
        patch.setattr("ocelad.service.routes.answers.export_chunks", failing)
        for _ in range(5):
            answer = client.get("/v1/projects/some/export")
            assert (answer.status_code, answer.json()["error"]["message"]) == (503, "the database is away")
    assert client.get("/v1/projects/some/export").status_code == 200


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_exports_need_no_temporary_files(tmp_path, monkeypatch, format):
    """Names that need quotes, float32 and several pages; the same content as the items and the log."""
    features = some_items(50, 3).features.astype(np.float32)
    items = replace(some_items(50, 3), features=features, feature_names=("a, b", 'q"', "c"))
    monkeypatch.setattr(exports, "_PAGE", 7)
    monkeypatch.setattr(exports, "_PAGE_VALUES", 30)
    with served(tmp_path / "data", items) as (client, service):
        service.store.append("some", [NewEntry(i, i + 1, "same") for i in range(40)]).result(30)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
        found = {
            content: client.get("/v1/projects/some/export", params={"content": content, "format": format}).content
            for content in ("items", "comparisons", "log", "groups")
        }
    path = tmp_path / f"items.{format}"
    path.write_bytes(found["items"])
    with open_items(path) as stream:
        chunks = list(stream)
        assert stream.feature_names == items.feature_names
    assert [id for chunk in chunks for id in chunk.ids] == list(items.ids)
    assert (np.concatenate([chunk.X for chunk in chunks]) == features).all()
    for content, n_rows in (("comparisons", 40), ("log", 40), ("groups", 50)):
        assert _n_rows(found[content], format) == n_rows


def _n_rows(data: bytes, format: str) -> int:
    if format == "parquet":
        return pq.read_table(io.BytesIO(data)).num_rows
    lines = data.decode().splitlines()
    if format == "jsonl":
        return len([json.loads(line) for line in lines])
    return len(lines) - 1


def test_a_cancelled_request_counts_until_its_thread_has_ended():
    release, work = Event(), SlowWork("things", 1)

    async def scenario():
        async def request():
            with work.admit() as admission:
                await admission.run(lambda: release.wait(30))

        task = asyncio.create_task(request())
        while not work.n_running:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.05)
        assert work.n_running == 1
        with pytest.raises(ApiError, match="busy with 1 things"):
            work.admit()
        release.set()
        await asyncio.gather(task, return_exceptions=True)
        deadline = monotonic() + 10
        while work.n_running and monotonic() < deadline:
            await asyncio.sleep(0.01)

    asyncio.run(scenario())
    assert work.n_running == 0
    work.admit().leave()
    assert work.n_running == 0
