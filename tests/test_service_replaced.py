"""Logs that are replaced under a running service: a restored database, a second service, erased answers."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest
from postgres import Server as Postgres
from postgres import postgres  # noqa: F401  (a fixture)
from serving import served, some_items

from ocelad import MetricTracker
from ocelad.service.api_error import ApiError
from ocelad.service.entries import NewEntry
from ocelad.service.service import Service
from ocelad.service.store import Store, StoreUnavailable

ITEMS = some_items(30, 4)
PLAIN = {"curved": False, "transitive": False}
TIMEOUT = 60.0


def eventually(check: Callable[[], Any]) -> Any:
    """Return the first result of ``check`` that is true."""
    deadline = time.monotonic() + TIMEOUT
    while not (result := check()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)
    return result


def answers(n: int, seed: int) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    pairs = [rng.choice(ITEMS.ids, 2, replace=False).tolist() for _ in range(n)]
    return [{"left": a, "right": b, "answer": str(rng.choice(["same", "different"]))} for a, b in pairs]


def send(http: httpx.Client, new: list[dict[str, str]], person: str = "anna") -> dict[str, Any]:
    """Send answers, and repeat the request while the service asks for it."""

    def sent() -> Any:
        headers = {"Ocelad-Person": person}
        reply = http.post("/v1/projects/it/comparisons", json={"comparisons": new}, headers=headers)
        return reply.json() if reply.status_code == 201 else None

    return eventually(sent)


def history(http: httpx.Client) -> list[dict[str, Any]]:
    return http.get("/v1/projects/it/history?limit=1000").json()["entries"]


def learned_metric(http: httpx.Client, seq: int) -> dict[str, Any]:
    def metric() -> Any:
        reply = http.get("/v1/projects/it/metric?matrix=true").json()
        return reply if reply.get("seq") == seq else None

    return eventually(metric)


def check_metric(http: httpx.Client, log: list[dict[str, Any]]) -> None:
    """Check that the metric is that of a tracker that learns from this log, bit for bit."""
    point = dict(zip(ITEMS.ids, ITEMS.points, strict=True))
    undone = {entry["undoes"] for entry in log}
    tracker = MetricTracker(method="adaptive", curved=False)
    for entry in log:
        if entry["kind"] in ("same", "different") and entry["seq"] not in undone:
            tracker.learn_one(point[entry["left"]], point[entry["right"]], entry["kind"] == "same")
    reply = learned_metric(http, len(log))
    factors = ITEMS.scaling.factors
    expected = np.outer(factors, factors) * tracker.linear_part_.matrix
    assert np.array(reply["matrix"]).tobytes() == expected.tobytes()


@contextmanager
def service_with_answers(folder: Path, n: int, **settings: Any) -> Iterator[tuple[httpx.Client, Service]]:
    with served(folder, **settings) as (http, service):
        service.create("it", "It", ITEMS, PLAIN)
        send(http, answers(n, seed=1))
        learned_metric(http, n)
        yield http, service


class EventReader(threading.Thread):
    """Reads the events of a project until the stream ends."""

    def __init__(self, http: httpx.Client, last_id: str | None = None) -> None:
        super().__init__(daemon=True)
        self._url = f"{http.base_url}/v1/projects/it/events"
        self._headers = {} if last_id is None else {"Last-Event-ID": last_id}
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.start()

    def run(self) -> None:
        event = ""
        with httpx.stream("GET", self._url, headers=self._headers, timeout=TIMEOUT) as response:
            for line in response.iter_lines():
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.events.append((event, json.loads(line.removeprefix("data: "))))

    def wait_for(self, kind: str) -> dict[str, Any]:
        return eventually(lambda: next((data for event, data in self.events if event == kind), None))


def restore(server: Postgres, url: str, dump: bytes) -> None:
    """Put a database that is restored from a dump in the place of another one."""
    name = url.rpartition("/")[2]
    restored = server.new_url()
    command = [server.bindir / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", restored]
    subprocess.run(command, input=dump, check=True, capture_output=True)

    def exchanged() -> bool:
        server.end_connections(url, "%")
        try:
            server.run(f"ALTER DATABASE {name} RENAME TO before_{name}")
        except psycopg.Error:  # the service has connected again
            return False
        server.run(f"ALTER DATABASE {restored.rpartition('/')[2]} RENAME TO {name}")
        return True

    eventually(exchanged)


def dump(server: Postgres, url: str) -> bytes:
    return subprocess.run([server.bindir / "pg_dump", "-d", url], check=True, capture_output=True).stdout


def test_a_database_that_is_restored_to_an_earlier_point(tmp_path: Path, postgres: Postgres) -> None:  # noqa: F811
    url = postgres.new_url()
    with service_with_answers(tmp_path / "data", 40, database=url) as (http, service):
        earlier, before = dump(postgres, url), history(http)
        send(http, answers(40, seed=2), "berta")
        learned_metric(http, 80)
        reader = EventReader(http)
        reader.wait_for("hello")
        old = service.project("it")

        restore(postgres, url, earlier)
        reply = send(http, answers(10, seed=3), "carla")

        assert (reply["first"], reply["last"]) == (41, 50)  # these numbers were given before
        log = history(http)
        assert log[:40] == before
        assert {entry["person"] for entry in log} == {"anna", "carla"}
        check_metric(http, log)
        assert service.project("it") is not old
        assert "restored to an earlier point" in http.get("/v1/projects/it").json()["notice"]["text"]
        assert "restored to an earlier point" in reader.wait_for("replaced")["reason"]
        reader.join(TIMEOUT)
        assert not reader.is_alive()
        actions = [(entry.action, entry.target) for entry in service.store.audit()]
        assert ("log.replaced", "it") in actions
    with served(tmp_path / "data", database=url) as (http, _):  # the snapshot is that of the log
        check_metric(http, log)


def test_a_lock_that_is_lost_while_another_store_writes(tmp_path: Path, postgres: Postgres) -> None:  # noqa: F811
    url = postgres.new_url()
    with service_with_answers(tmp_path / "data", 40, database=url) as (http, _):

        def second() -> Store | None:
            postgres.end_connections(url)
            try:
                return Store.open(tmp_path / "second", url)
            except StoreUnavailable:
                return None

        with eventually(second) as store:
            store.append("it", [NewEntry(0, 1, "same"), NewEntry(1, 2, "different")], "dora").result()
        reply = send(http, answers(10, seed=3), "carla")

        assert (reply["first"], reply["last"]) == (43, 52)
        log = history(http)
        assert [entry["person"] for entry in log[40:]] == 2 * ["dora"] + 10 * ["carla"]
        check_metric(http, log)
        assert "another service" in http.get("/v1/projects/it").json()["notice"]["text"]


def test_erased_answers_are_nowhere(tmp_path: Path) -> None:
    secret = "Zacharias of the seven seas"
    with served(tmp_path / "data") as (http, service):
        service.create("it", "It", ITEMS, {"curved": False})
        send(http, answers(40, seed=1))
        send(http, answers(40, seed=2), "berta")
        named = {"item": "item 0", "name": secret}
        assert http.post("/v1/projects/it/groups/name", json=named, headers={"Ocelad-Person": "berta"}).is_success
        send(http, answers(10, seed=3))
        learned_metric(http, 91)
    with served(tmp_path / "data") as (http, service):  # with a snapshot
        learned_metric(http, 91)
        reader = EventReader(http)
        reader.wait_for("hello")
        (person,) = {entry["person"] for entry in history(http) if "berta" in entry["person"]}
        old = service.project("it")
        service.store.erase_person("it", person, "admin")
        eventually(lambda: http.get("/v1/projects/it/ready").status_code == 200)
        log = history(http)
        assert len(log) == 92
        assert secret not in json.dumps(log)
        assert person not in {entry["person"] for entry in log}
        assert sum(entry["kind"] in ("same", "different") for entry in log) == 50
        metric = learned_metric(http, 92)
        reader.wait_for("replaced")
        assert service.project("it") is not old
        assert not old.recent_entries(0, 1000)
        assert not old.learner._log.after(0, 1000)
        for content in ("comparisons", "log", "groups"):
            assert secret not in http.get(f"/v1/projects/it/export?content={content}&format=csv").text
        late = EventReader(http, "85")  # it was not connected when they were erased
        late.wait_for("replaced")
    found = [path for path in (tmp_path / "data").rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert found == []
    with served(tmp_path / "fresh") as (http, service):
        service.create("it", "It", ITEMS, {"curved": False})
        send(http, answers(40, seed=1))
        send(http, answers(10, seed=3))
        fresh = learned_metric(http, 50)
    assert {**metric, "seq": 0} == {**fresh, "seq": 0}  # bit for bit: JSON writes all digits


def test_a_replaced_project_is_refused_until_it_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service_with_answers(tmp_path / "data", 5) as (http, service):
        service.create("other", "Other", ITEMS, PLAIN)
        may_load, make = threading.Event(), service._loaded._make
        monkeypatch.setattr(service._loaded, "_make", lambda id: (may_load.wait(TIMEOUT), make(id))[1])
        service._on_replaced(["it"], "it was restored to an earlier point")
        for reply in (
            http.get("/v1/projects/it"),
            http.post("/v1/projects/it/comparisons", json=answers(1, seed=4)[0]),
            http.get("/v1/projects/it/events"),
        ):
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "log_replaced")
            assert "it was restored to an earlier point" in reply.json()["error"]["message"]
            assert reply.headers["retry-after"] == "1"
        state = http.get("/v1/projects/it/ready")
        assert (state.status_code, state.json()["status"]) == (503, "rebuilding")
        assert http.get("/v1/ready").status_code == 200
        assert http.get("/v1/projects/other").status_code == 200
        may_load.set()
        eventually(lambda: http.get("/v1/projects/it/ready").status_code == 200)
        assert len(history(http)) == 5
        check_metric(http, history(http))


def test_a_project_that_is_replaced_while_it_is_loaded_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service_with_answers(tmp_path / "data", 5):
        pass
    with served(tmp_path / "data") as (_, service):
        made, make = [], service._loaded._make

        def replaced_meanwhile(id: str) -> Any:
            made.append(make(id))
            if len(made) == 1:
                service._loaded.drop(["it"], ApiError(503, "wait"), "restored")
                service._loaded.allow("it")
            return made[-1]

        monkeypatch.setattr(service._loaded, "_make", replaced_meanwhile)
        assert service.project("it") is made[1]
        assert (made[0].end is not None, made[1].end) == (True, None)


def test_a_reader_of_another_log_is_told_so(tmp_path: Path) -> None:
    with service_with_answers(tmp_path / "data", 10) as (http, _):
        first = EventReader(http)
        log = first.wait_for("hello")["log"]
        assert len(log) == 16
        for last_id, other in ((f"10-{log}", False), ("10", False), ("7", False), (f"7-{log}", True), ("11", True)):
            reader = EventReader(http, last_id)
            hello = reader.wait_for("hello")
            assert (reader.events[0][0] == "replaced") == other, last_id
            assert hello["seq"] == 10
