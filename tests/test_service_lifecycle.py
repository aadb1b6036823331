"""Projects as things: archive, delete, copy; lists in pages; loading and eviction."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serving import served, some_items

from ocelad.service.entries import NewEntry
from ocelad.service.learning import LearnerPool
from ocelad.service.service import Service
from ocelad.service.store import StoreUnavailable

TIMEOUT = 60.0
ITEMS = some_items(30, 4)


def answers(n: int, seed: int = 0) -> list[NewEntry]:
    rng = np.random.default_rng(seed)
    pairs = [map(int, rng.choice(len(ITEMS), 2, replace=False)) for _ in range(n)]
    return [NewEntry(a, b, "same" if rng.random() < 0.4 else "different") for a, b in pairs]


def learned(service: Service, id: str) -> Any:
    project = service.project(id)
    assert project.learner.wait(service.store.project(id).seq, TIMEOUT), project.learner.failure
    return project


def eventually(check: Any) -> Any:
    deadline = time.monotonic() + TIMEOUT
    while not (result := check()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return result


def compare(http: httpx.Client, id: str) -> httpx.Response:
    body = {"left": "item 0", "right": "item 1", "answer": "same"}
    return http.post(f"/v1/projects/{id}/comparisons", json=body)


class TestArchive:
    def test_an_archived_project_can_be_read_but_not_answered(self, tmp_path: Path) -> None:
        with served(tmp_path / "data", ITEMS, some_items()) as (http, service):
            assert compare(http, "some").status_code == 201
            assert http.post("/v1/projects/some/archive").json()["archived_at"] > 0
            for reply in (
                compare(http, "some"),
                http.post("/v1/projects/some/undo", json={}),
                http.get("/v1/projects/some/next-pair"),
                http.post("/v1/projects/some/groups/name", json={"item": "item 0", "name": "A"}),
                http.post("/v1/projects/some/items", json={"items": [{"id": "new", "features": [0.0] * 4}]}),
            ):
                assert (reply.status_code, reply.json()["error"]["code"]) == (409, "archived"), reply.text
            assert http.get("/v1/projects/some").json()["archived_at"] is not None
            assert http.get("/v1/projects/some/history").json()["entries"][0]["seq"] == 1
            listed = [each["id"] for each in http.get("/v1/projects").json()["projects"]]
            everything = [each["id"] for each in http.get("/v1/projects?archived=true").json()["projects"]]
            assert (listed, everything) == (["some1"], ["some", "some1"])
            assert http.post("/v1/projects/some/unarchive").json()["archived_at"] is None
            assert compare(http, "some").status_code == 201
            actions = [entry.action for entry in service.store.audit()]
            assert actions[-2:] == ["project.archive", "project.unarchive"]


class TestDelete:
    def test_everything_of_a_deleted_project_is_gone_and_its_id_is_free(self, tmp_path: Path) -> None:
        folder = tmp_path / "data"
        single = some_items(30, 4)
        single = type(single)(
            single.ids, single.features.astype(np.float32), single.feature_names, single.scaling, fields=single.fields
        )
        with served(folder, single, ITEMS) as (http, service):
            for id in ("some", "some1"):
                service.store.append(id, answers(60), "anna").result()
                learned(service, id)
            service.project("some").learner._save()
            assert list((folder / "vectors").iterdir())
            for wrong in ("", "?confirm=some1"):
                reply = http.delete(f"/v1/projects/some{wrong}")
                assert (reply.status_code, reply.json()["error"]["code"]) == (422, "not_confirmed")
            assert http.delete("/v1/projects/some?confirm=some").status_code == 204
            for reply in (http.get("/v1/projects/some"), compare(http, "some"), http.get("/v1/projects/some/ready")):
                assert (reply.status_code, reply.json()["error"]["code"]) == (404, "unknown_project")
            assert http.delete("/v1/projects/some?confirm=some").status_code == 404
            assert not list((folder / "vectors").iterdir())
            assert [path.name for path in (folder / "snapshots").iterdir()] in ([], ["some1.tracker"])
            with closing(sqlite3.connect(folder / "ocelad.sqlite3")) as connection:
                assert connection.execute("SELECT id FROM projects").fetchall() == [("some1",)]
                for table in ("items", "entries", "people", "keys"):
                    assert len(connection.execute(f"SELECT DISTINCT project FROM {table}").fetchall()) <= 1
            again = service.create("some", "Again", some_items(5))
            assert (again.seq, len(again.items)) == (0, 5)
            assert http.get("/v1/projects/some1").status_code == 200

    def test_a_request_that_holds_a_deleted_project_gets_404(self, tmp_path: Path) -> None:
        with served(tmp_path / "data", ITEMS) as (_, service):
            service.delete("some")
            with pytest.raises(Exception, match="there is no project 'some'"):
                service.store.append("some", answers(1))
            with pytest.raises(Exception, match="there is no project 'some'"):
                service.project("some")


class TestCopy:
    @pytest.mark.parametrize("settings", [{}, {"curved": False, "transitive": False}])
    def test_a_copy_with_answers_has_learned_the_same_bits(self, tmp_path: Path, settings: dict[str, Any]) -> None:
        with served(tmp_path / "data") as (http, service):
            service.create("it", "It", ITEMS, settings)
            service.store.append("it", answers(80), "anna").result()
            service.store.undo("it", 7, "anna").result()
            made = http.post("/v1/projects/it/copy", json={"id": "twin", "title": "Twin", "answers": True})
            assert (made.status_code, made.json()["title"], made.json()["seq"]) == (201, "Twin", 81)
            views = [learned(service, id).view for id in ("it", "twin")]
            assert views[0].metric == views[1].metric
            metrics = [http.get(f"/v1/projects/{id}/metric?matrix=true").json() for id in ("it", "twin")]
            histories = [http.get(f"/v1/projects/{id}/history?limit=1000").json() for id in ("it", "twin")]
            assert metrics[0] == metrics[1]
            assert histories[0] == histories[1]
            compare(http, "twin")
            assert http.get("/v1/projects/it").json()["seq"] == 81
            empty = http.post("/v1/projects/it/copy", json={"id": "empty"}).json()
            assert (empty["title"], empty["seq"], empty["n_items"]) == ("It", 0, 30)
            exists = http.post("/v1/projects/it/copy", json={"id": "twin"})
            assert (exists.status_code, exists.json()["error"]["code"]) == (409, "project_exists")
            assert http.get("/v1/projects/twin").json()["seq"] == 82

    def test_a_copy_whose_log_cannot_be_copied_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with served(tmp_path / "data", ITEMS) as (_, service):

            def fails(*_: Any) -> None:
                raise OSError("no")

            monkeypatch.setattr(service.store, "copy_entries", fails)
            with pytest.raises(OSError, match="no"):
                service.copy("some", "twin", answers=True)
            assert "twin" not in service


class TestLists:
    def test_pages_are_complete_and_load_nothing(self, tmp_path: Path) -> None:
        folder = tmp_path / "data"
        with served(folder, *[some_items(3, 2, seed) for seed in range(7)]) as (http, _):
            before = {each["id"]: each for each in http.get("/v1/projects").json()["projects"]}
        with served(folder) as (http, service):
            found, after = [], 0
            while after is not None:
                page = http.get("/v1/projects", params={"after": after, "limit": 3}).json()
                found, after = found + page["projects"], page["next"]
                assert len(page["projects"]) <= 3
            assert [each["id"] for each in found] == list(before)
            assert not list(service)
            for each in found:
                assert each["learned_seq"] is each["n_answers"] is None
                known = before[each["id"]]
                same = ("title", "n_items", "feature_names", "display", "question", "method", "curved", "transitive")
                assert {name: each[name] for name in same} == {name: known[name] for name in same}


class TestLoading:
    def test_a_start_loads_no_project_and_requests_load_it_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "data"
        with served(folder, ITEMS) as (_, service):
            service.store.append("some", answers(60)).result()
            learned(service, "some")
        with served(folder) as (http, service):
            assert not list(service)
            assert http.get("/v1/projects/some/ready").json() == {"status": "ready", "reason": None, "backlog": None}
            made, make = [], service._loaded._make
            monkeypatch.setattr(service._loaded, "_make", lambda id: (time.sleep(0.3), made.append(id), make(id))[2])
            replies: list[int] = []
            url = str(http.base_url)
            threads = [
                threading.Thread(target=lambda: replies.append(httpx.get(f"{url}/v1/projects/some").status_code))
                for _ in range(6)
            ]
            for thread in threads:
                thread.start()
            began = time.monotonic()
            assert http.get("/v1/health").status_code == 200  # the event loop does not wait for the load
            assert time.monotonic() - began < 0.25
            for thread in threads:
                thread.join(TIMEOUT)
            assert (replies, made) == ([200] * 6, ["some"])

    def test_an_answer_in_a_cold_project_does_not_wait_for_learning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "data"
        with served(folder, ITEMS) as (_, service):
            service.store.append("some", answers(60)).result()
        with served(folder) as (http, service):
            monkeypatch.setattr("ocelad.service.learning.learning_state.LearningState.learn", lambda *_: 1 / 0)
            reply = compare(http, "some")
            assert (reply.status_code, reply.json()["first"]) == (201, 61)
            assert service.store.project("some").seq == 61

    def test_projects_leave_memory_and_come_back_with_the_same_bits(self, tmp_path: Path) -> None:
        folder, n = tmp_path / "data", 6
        with served(folder, *[ITEMS] * n, max_loaded_projects=2) as (http, service):
            ids = [record.id for record in service.records()]
            for seed, id in enumerate(ids):
                service.store.append(id, answers(60 + seed, seed)).result()
                learned(service, id)
                http.get(f"/v1/projects/{id}/next-pair")
            eventually(lambda: len(list(service)) <= 3)
            metrics = {}
            for _ in range(2):
                for id in ids:
                    view = learned(service, id).view
                    metrics.setdefault(id, view.metric)
                    assert view.metric == metrics[id]
                    assert compare(http, id).status_code == 201
                    metrics[id] = learned(service, id).view.metric
            assert len({id for id in ids if service.peek(id) is None}) >= 2
        with served(folder) as (_, service):
            for id in ids:
                assert learned(service, id).view.metric == metrics[id]

    def test_a_project_with_a_stream_or_a_request_or_unlearned_answers_stays(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with served(tmp_path / "data", ITEMS, max_loaded_projects=1) as (_, service):
            busy = learned(service, "some")
            eventually(lambda: busy.can_be_evicted)
            busy.n_streams = 1
            service.create("a", "A", ITEMS)
            assert service.peek("some") is busy
            busy.n_streams = 0
            assert service.hold(busy)
            service.create("b", "B", ITEMS)
            assert service.peek("some") is busy
            monkeypatch.setattr("ocelad.service.learning.learning_state.LearningState.learn", lambda *_: 1 / 0)
            service.store.append("some", answers(3)).result()
            service.release(busy)
            service.create("c", "C", ITEMS)
            assert service.peek("some") is busy
            monkeypatch.undo()
            learned(service, "some")
            eventually(lambda: busy.can_be_evicted)
            service.create("d", "D", ITEMS)
            assert eventually(lambda: service.peek("some") is None)
            assert not service.hold(busy)

    def test_the_bound_of_bytes_counts(self, tmp_path: Path) -> None:
        with served(tmp_path / "data", *[ITEMS] * 3, max_loaded_bytes=2**20) as (_, service):
            for id in ("some", "some1", "some2"):
                learned(service, id)
            assert len(list(service)) < 3

    def test_an_answer_that_is_stored_during_a_load_is_not_missed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "data"
        with served(folder, ITEMS):
            pass
        with served(folder) as (http, service):
            make = service._loaded._make

            def answered_meanwhile(id: str) -> Any:
                project = make(id)
                service.store.append(id, answers(5)).result()
                return project

            monkeypatch.setattr(service._loaded, "_make", answered_meanwhile)
            project = service.project("some")
            assert (project.seq, len(project.entries(0, 100))) == (5, 5)
            assert learned(service, "some").view.seq == 5
            compare(http, "some")
            assert project.seq == 6

    def test_a_load_that_fails_at_its_end_is_an_error_and_the_next_one_works(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "data"
        with served(folder, ITEMS):
            pass
        with served(folder) as (http, _):

            def fails(_: Any) -> None:
                raise StoreUnavailable("the database is down")

            with monkeypatch.context() as broken:
                broken.setattr("ocelad.service.served_project.ServedProject.catch_up", fails)
                reply = http.get("/v1/projects/some")
                assert (reply.status_code, reply.json()["error"]["code"]) == (503, "store_unavailable")
            assert compare(http, "some").status_code == 201
            assert http.get("/v1/projects/some").json()["seq"] == 1


class TestIds:
    @pytest.mark.parametrize("id", ["../../outside", "..", "A b", "a/b", ""])
    def test_an_invalid_id_in_the_database_is_refused_and_the_others_are_served(
        self, tmp_path: Path, id: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = tmp_path / "a" / "b" / "data"
        with served(folder, ITEMS, some_items()) as (_, service):
            service.store.append("some", answers(60)).result()
            learned(service, "some")
        with closing(sqlite3.connect(folder / "ocelad.sqlite3")) as connection, connection:
            connection.execute("UPDATE projects SET id = ? WHERE id = 'some'", (id,))
        files = {path for path in tmp_path.rglob("*") if "data" not in path.parts}
        with served(folder) as (http, service):
            assert [each["id"] for each in http.get("/v1/projects").json()["projects"]] == ["some1"]
            assert http.get("/v1/ready").status_code == 200
            assert compare(http, "some1").status_code == 201
            with pytest.raises(Exception, match="which is not served; accepted: 1 to 64"):
                service.project(id)
        assert {path for path in tmp_path.rglob("*") if "data" not in path.parts} == files


class TestReadiness:
    def test_one_failing_learner_fails_only_its_project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with served(tmp_path / "data", ITEMS, some_items()) as (http, service):
            bad, good = service.project("some"), service.project("some1")
            monkeypatch.setattr(bad.learner, "_learn", lambda: 1 / 0)
            for id in ("some", "some1"):
                assert compare(http, id).status_code == 201
            eventually(lambda: bad.learner.failure)
            assert good.learner.wait(1, TIMEOUT)
            ready = http.get("/v1/ready")
            assert (ready.status_code, ready.json()["status"]) == (200, "ready")
            states = {id: state["status"] for id, state in ready.json()["projects"].items()}
            assert states == {"some": "failing", "some1": "ready"}
            one = http.get("/v1/projects/some/ready")
            assert (one.status_code, one.json()["backlog"]) == (503, 1)
            assert "division by zero" in one.json()["reason"]
            assert http.get("/v1/projects/some1/ready").status_code == 200
            assert http.get("/v1/projects/none/ready").status_code == 404


class Steps:
    """Counts its steps; each takes some time."""

    def __init__(self, delay: float | None, seconds: float = 0.0) -> None:
        self.n, self._delay, self._seconds, self.at = 0, delay, seconds, []

    def step(self) -> float | None:
        self.n += 1
        self.at.append(time.monotonic())
        time.sleep(self._seconds)
        return self._delay


class TestPool:
    def test_a_long_backlog_does_not_starve_others(self) -> None:
        pool = LearnerPool(1)
        busy = [Steps(0.0, 0.01) for _ in range(3)]
        for each in busy:
            pool.add(each)
        late = Steps(None)
        time.sleep(0.1)
        began = time.monotonic()
        pool.add(late)
        eventually(lambda: late.n)
        assert late.at[0] - began < 1.0
        time.sleep(0.2)
        pool.close()
        counts = [each.n for each in busy]
        assert max(counts) - min(counts) <= 2

    def test_steps_of_one_do_not_overlap_and_a_removed_one_ends(self) -> None:
        running, overlaps = [0], []

        class Exclusive(Steps):
            def step(self) -> float | None:
                running[0] += 1
                overlaps.append(running[0])
                time.sleep(0.005)
                running[0] -= 1
                return super().step()

        pool, work = LearnerPool(4), Exclusive(0.0)
        pool.add(work)
        for _ in range(50):
            pool.wake(work, 0.0)
            time.sleep(0.001)
        pool.remove(work)
        n = work.n
        time.sleep(0.05)
        pool.close()
        assert set(overlaps) == {1}
        assert n == work.n > 3

    def test_a_call_during_a_step_is_not_lost(self) -> None:
        pool, work = LearnerPool(2), Steps(None, 0.05)
        pool.add(work)
        eventually(lambda: work.n == 1)
        pool.wake(work, 0.0)
        eventually(lambda: work.n == 2)
        time.sleep(0.15)
        pool.close()
        assert work.n == 2


def test_json_of_a_project_says_what_it_is(tmp_path: Path) -> None:
    with served(tmp_path / "data", ITEMS) as (http, _):
        info = http.get("/v1/projects/some").json()
        assert (info["archived_at"], info["notice"]) == (None, None)
        assert json.dumps(info)
