"""Numbers that are given again, loads that fail at a bad moment, and pairs with very many answers."""

from __future__ import annotations

import shutil
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor, as_completed
from ipaddress import ip_address, ip_network
from signal import SIGTERM
from threading import Event, Thread

import pytest
from serving import served, some_items
from test_service_team import PATH, compare, index_of
from test_service_team import entry as team_entry

from ocelad.service.entries import NewEntry
from ocelad.service.loaded_projects import LoadedProjects
from ocelad.service.routes import imports
from ocelad.service.server import Server
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import LogReplaced, ProjectArchived, Store, StoreUnavailable, open_tokens
from ocelad.service.store import store as store_module
from ocelad.service.store.log_check import verify_logs
from ocelad.service.store.writer import WriteTask
from ocelad.service.team import TeamFigures
from ocelad.service.webhooks.addresses import WebhookRefused, check_url, resolve


def test_a_project_with_the_number_of_a_deleted_one_has_salts_of_its_own(tmp_path):
    with Store.open(tmp_path) as store:
        first = store.create_project("first", "", some_items(), {}, "")
        store.append("first", [NewEntry(0, 1, "same")], "anna").result()
        store.delete_project("first")
        second = store.create_project("second", "", some_items(), {}, "")
        assert second.number == first.number, "the database gives numbers again"
        store.append("second", [NewEntry(0, 1, "same")], "anna").result()
        assert store.erase_person("second", "anna", "ben") == 1
        store.append("second", [NewEntry(0, 1, "same")], "anna").result()
    assert [check.broken_at for _, check in verify_logs(tmp_path)] == [None]


class _Unread:
    """A project whose log cannot be read at first."""

    id, n_bytes, used_at, n_holders, can_be_evicted = "some", 0, 0.0, 0, False

    def __init__(self):
        self.n_attempts = 0

    def catch_up(self):
        self.n_attempts += 1
        if self.n_attempts == 1:
            raise StoreUnavailable("the database is away")

    def discard(self, reason):
        pass

    def close(self):
        pass


def test_a_load_that_fails_at_its_end_answers_all_who_wait_and_is_tried_again():
    project = _Unread()
    loaded = LoadedProjects(lambda id: project, 10, 10**9)
    with pytest.raises(StoreUnavailable):
        loaded.load("some").result(5)
    assert loaded.get("some") is None, "a project that lacks entries is not served"
    assert loaded.load("some").result(5) is project
    loaded.close()


def n_lines_run(function):
    """Return how many lines of Python a call executes, which unlike its time is the same on every machine."""
    n_lines, before = 0, sys.gettrace()

    def count(frame, event, arg):
        nonlocal n_lines
        n_lines += event == "line"
        return count

    sys.settrace(count)
    try:
        function()
    finally:
        sys.settrace(before)
    return n_lines


def test_work_on_the_answers_about_one_pair_grows_linearly():
    def work(n):
        log = [team_entry(seq, "same", person=f"person {seq % 7}") for seq in range(1, n + 1)]
        log += [team_entry(n + seq, "undo", undoes=seq) for seq in range(1, n + 1)]
        return n_lines_run(index_of(log).__enter__)

    assert work(800) < 5 * work(200)  # 4 times as many; 16 times as much if it were quadratic


def test_a_reviewer_changes_an_own_answer(tmp_path):
    folder = tmp_path / "data"
    with served(folder, some_items(), require_token=True) as (client, _), open_tokens(folder) as tokens:
        client.headers["Authorization"] = f"Bearer {tokens.create('rex', {'some': 'review'})}"
        seq = compare(client, 0, 1, "same", "rex")
        listed = client.get(f"{PATH}/answers").json()["answers"]
        assert [each["may_change"] for each in listed] == [True]
        response = client.post(f"{PATH}/answers/{seq}/change", json={"answer": "different"})
        assert response.status_code == 201, response.text


@pytest.mark.parametrize("address", ["::7f00:1", "::ffff:0:7f00:1", "64:ff9b:1::7f00:1", "fec0::1", "5f00::1"])
def test_webhooks_are_not_sent_to_addresses_that_hide_private_ones(address):
    target = check_url(f"http://[{address}]/")
    with pytest.raises(WebhookRefused, match="not public"):
        resolve(target, ())
    assert ip_address(resolve(target, [ip_network(f"{address}/128")])) == ip_address(address)


def test_figures_of_people_never_occupy_all_threads(tmp_path):
    with served(tmp_path, some_items()) as (client, service):
        compare(client, 0, 1, "same", "anna")
        index = service.project("some").answers
        routes = ["people", "agreement", "disagreements"] * 20
        with ThreadPoolExecutor(len(routes)) as pool:
            with index:  # the figures of a large project take seconds
                waiting = [pool.submit(client.get, f"{PATH}/{route}") for route in routes]
                busy = next(as_completed(waiting, 10)).result()
                assert client.get(f"{PATH}/history", timeout=5).status_code == 200
            responses = [each.result() for each in waiting]
    assert busy.status_code == 503
    assert busy.json()["error"]["code"] == "busy"
    assert {each.status_code for each in responses} <= {200, 503}


def test_a_copy_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "COPY_BATCH", 2)
    folder, killed = tmp_path / "data", tmp_path / "killed"
    with Store.open(folder) as store:
        store.create_project("some", "", some_items(), {}, "")
        store.append("some", [NewEntry(0, i, "same") for i in range(1, 8)], "anna").result()
        entries = store.entries

        def entries_then_kill(project_id, after=0, limit=1000):
            if after == 4:
                shutil.copytree(folder, killed)
            return entries(project_id, after, limit)

        monkeypatch.setattr(store, "entries", entries_then_kill)
        assert store.copy_project("some", "copy", "", answers=True).seq == 7
    with Store.open(killed) as store:
        assert [project.id for project in store.projects()] == ["some"]
        assert store.copy_project("some", "copy", "", answers=True).seq == 7
    assert [check.broken_at for _, check in verify_logs(killed)] == [None, None]


def test_answers_that_are_erased_while_they_are_copied_are_not_in_the_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "COPY_BATCH", 2)
    with Store.open(tmp_path) as store:
        store.create_project("some", "", some_items(), {}, "")
        store.append("some", [NewEntry(0, i, "same") for i in range(1, 8)], "anna").result()
        entries = store.entries

        def entries_then_erase(project_id, after=0, limit=1000):
            if after == 4 and store.project("some").seq == 7:
                store.erase_person("some", "anna", "ben")
            return entries(project_id, after, limit)

        monkeypatch.setattr(store, "entries", entries_then_erase)
        with pytest.raises(LogReplaced):
            store.copy_project("some", "copy", "", answers=True)
        assert not store.has_project("copy")
        assert store.copy_project("some", "copy", "", answers=True).seq == 8


def test_an_answer_that_is_queued_behind_an_archiving_is_refused(tmp_path):
    with Store.open(tmp_path) as store, ThreadPoolExecutor(1) as pool:
        store.create_project("some", "", some_items(), {}, "")
        is_blocked, may_go_on = Event(), Event()
        store._writer.submit(WriteTask(lambda connection: (is_blocked.set(), may_go_on.wait(10))))
        assert is_blocked.wait(10)
        archiving = pool.submit(store.update_project, "some", archived=True)
        while not store._writer._queue:
            time.sleep(0.001)
        answer = store.append("some", [NewEntry(0, 1, "same")], "anna")
        may_go_on.set()
        with pytest.raises(ProjectArchived):
            answer.result(10)
        assert archiving.result(10).seq == 0


def test_an_import_into_a_project_that_was_made_again_meanwhile_is_refused(tmp_path, monkeypatch):
    with served(tmp_path, some_items()) as (client, service):
        plan_import = imports.plan_import

        def plan_slowly(*arguments, **options):
            plan = plan_import(*arguments, **options)
            service.delete("some")
            service.create("some", "Others", some_items(seed=1))
            return plan

        monkeypatch.setattr(imports, "plan_import", plan_slowly)
        body = b"id_a,id_b,same\nitem 0,item 1,1\n"
        refused = client.post(f"{PATH}/import", content=body, headers={"Content-Type": "text/csv"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "log_replaced")
        assert service.store.project("some").seq == 0
        monkeypatch.undo()
        again = client.post(f"{PATH}/import", content=body, headers={"Content-Type": "text/csv"})
        assert again.json()["n_imported"] == 1


def test_thousands_of_people_who_answer_about_one_pair_do_not_exhaust_memory():
    def figures_of(n):
        log = [team_entry(k, "same" if k % 3 else "different", person=f"person {k}") for k in range(1, n + 1)]
        log.append(team_entry(n + 1, "same", 1, 2, person="person 1"))
        log.append(team_entry(n + 2, "same", 1, 2, person="person 2"))
        index = index_of(log)
        index._read = lambda after, limit: log[after : after + limit]
        tracemalloc.start()
        with index:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            figures = TeamFigures(index)
            result = figures.people(None), figures.couples(), figures.agreement()
            _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return *result, peak - before

    people, couples, agreement, _ = figures_of(9)
    by_name = {each.person: each.with_others for each in people}
    assert by_name["person 1"] == (9, 6)  # 5 others say the same about the first pair, 1 about the second
    assert by_name["person 3"] == (8, 2)
    assert len(couples) == 36
    assert agreement.n_answers == 11
    people, couples, agreement, peak = figures_of(4_000)
    assert len(people) == agreement.n_people == 4_000
    assert len(couples) == 200
    assert couples[0].people == ("person 1", "person 2")
    assert peak < 50e6


def test_a_signal_that_comes_while_a_project_is_looked_up_stops_the_server(tmp_path):
    """Python runs signal handlers in the main thread, at any moment: this one may hold the lock of the projects."""
    service = Service.open(Settings(folder=tmp_path))
    try:
        server = Server(service, lambda: None)
        handler = Thread(target=server.handle_exit, args=(SIGTERM, None), daemon=True)
        with service._loaded._lock:
            handler.start()
            handler.join(10)
            assert not handler.is_alive(), "the handler waits for a lock that its own thread may hold"
        assert server.should_exit
    finally:
        service.close()
