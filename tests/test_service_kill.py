"""SIGKILL at random moments under load: acknowledged answers are stored once, in order, and are learned from."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import signal
import threading
import time
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
import pytest
from forked import Forked
from postgres import running
from serving import Server

from ocelad import MetricTracker
from ocelad.service.entries import NewEntry
from ocelad.service.itemset import ItemSet, Scaling
from ocelad.service.store import Store

pytestmark = pytest.mark.slow

N_ITEMS, N_FEATURES, N_CLIENTS = 40, 8, 4
# 75 kills include three checks of the whole log, eight kills during a start and, on PostgreSQL, nine cut connections.
N_KILLS = 75
# Requests of a client between two rests.
BURST = 12
ITEMS = ItemSet(
    tuple(f"item {i}" for i in range(N_ITEMS)),
    np.random.default_rng(5).normal(size=(N_ITEMS, N_FEATURES)) * 2,
    tuple(f"f{i}" for i in range(N_FEATURES)),
    Scaling("none", np.ones(N_FEATURES)),
)
LINEAR = {"method": "adaptive"}
CURVED = {"method": "adaptive", "curved": True, "known_items": N_ITEMS}
DEFAULT = {**CURVED, "transitive": True}


class Address:
    """The URL of the running server; clients wait until one runs."""

    def __init__(self):
        self._changed = threading.Condition()
        self._url = None
        self.over = False

    def set(self, url):
        with self._changed:
            self._url = url
            self._changed.notify_all()

    def get(self):
        with self._changed:
            assert self._changed.wait_for(lambda: self._url, 120)
            return urlsplit(self._url).netloc


@dataclass(frozen=True)
class Acknowledged:
    """An acknowledged request; its ``person`` is unique, so that its entries can be found in the log."""

    person: str
    entries: tuple  # of (kind, left, right, undoes)
    first: int
    last: int


class Client(threading.Thread):
    """A client that sends answers, each with its own key, and repeats each until it is acknowledged."""

    def __init__(self, name, address, seed, project="it", rest=0.0):
        super().__init__(daemon=True)
        self.name, self._address, self._random = name, address, random.Random(seed)
        self.project, self._rest = project, rest
        self.acknowledged: list[Acknowledged] = []  # only appended to
        self.n_repeated = 0
        self.error = None

    def run(self):
        try:
            for n in itertools.count():
                if self._address.over:
                    return
                self._answer(f"{self.name}.{n}")
                if n % BURST == BURST - 1:
                    time.sleep(self._random.uniform(0, self._rest))  # meanwhile its project may leave memory
        except BaseException as error:
            self.error = error
            raise

    def _answer(self, person):
        """Send one request: an answer, several, or an undo of an own answer."""
        mine = [request for request in self.acknowledged[-20:] if request.entries[0][0] != "undo"]
        if mine and self._random.random() < 0.15:
            seq = self._random.randint((chosen := self._random.choice(mine)).first, chosen.last)
            status, reply = self._repeat_until_answered("undo", {"seq": seq}, person)
            if status == 409:
                assert reply["error"]["code"] == "already_undone", reply
                return
            _, left, right, _ = chosen.entries[seq - chosen.first]
            self._record(person, (("undo", left, right, seq),), reply["seq"], reply["seq"], reply["repeated"])
            return
        several = self._random.random() < 0.4
        pairs = [self._random.sample(ITEMS.ids, 2) for _ in range(self._random.randint(2, 9) if several else 1)]
        new = [
            {"left": left, "right": right, "answer": self._random.choice(["same", "different", "different", "skip"])}
            for left, right in pairs
        ]
        status, reply = self._repeat_until_answered("comparisons", {"comparisons": new} if several else new[0], person)
        entries = tuple((each["answer"], each["left"], each["right"], None) for each in new)
        assert status in (200, 201), reply
        self._record(person, entries, reply["first"], reply["last"], reply["repeated"])

    def _record(self, person, entries, first, last, repeated):
        self.n_repeated += repeated
        self.acknowledged.append(Acknowledged(person, entries, first, last))

    def _repeat_until_answered(self, route, body, person):
        headers = {"Content-Type": "application/json", "Idempotency-Key": person, "Ocelad-Person": person}
        while True:
            try:
                connection = http.client.HTTPConnection(self._address.get(), timeout=20)
                with closing(connection):
                    connection.request("POST", f"/v1/projects/{self.project}/{route}", json.dumps(body), headers)
                    response = connection.getresponse()
                    reply = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.005)  # the server was killed: repeat with the same key
                continue
            if response.status != 503:  # the database is unavailable
                return response.status, reply
            time.sleep(0.02)


class LogChecker:
    """Reads the log and checks it against the acknowledged requests."""

    def __init__(self, settings, project="it"):
        self.settings, self.project = settings, project
        self.url = None
        self.log = []
        self.by_person = {}  # numbers and contents of entries
        self.n_checked = {}  # by client: the number of requests that were found in the log

    def get(self, path):
        with closing(http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)) as connection:
            connection.request("GET", f"/v1/projects/{self.project}/{path}")
            response = connection.getresponse()
            reply = json.loads(response.read())
            assert response.status == 200, reply
            return reply

    def read(self, after):
        entries = []
        while after is not None:
            page = self.get(f"history?after={after}&limit=1000")
            entries += page["entries"]
            after = page["next"]
        for entry in entries:
            del entry["undone"]  # the only field that may change
        return entries

    def check(self, acknowledged, *, everything):
        """Check that the log contains all acknowledged requests; unless ``everything``, only the new part of both."""
        new = self.read(len(self.log))
        self.log += new
        if everything:
            assert self.read(0)[: len(self.log)] == self.log
        assert [entry["seq"] for entry in self.log] == list(range(1, len(self.log) + 1))
        for entry in new:
            content = entry["kind"], entry["left"], entry["right"], entry["undoes"]
            self.by_person.setdefault(entry["person"], []).append((entry["seq"], content))
        for client, requests in enumerate(acknowledged):
            for before, after in itertools.pairwise(requests):
                assert before.last < after.first, "not in the order of acknowledgement"
            for request in requests if everything else requests[self.n_checked.get(client, 0) :]:
                expected = list(zip(range(request.first, request.last + 1), request.entries, strict=True))
                assert self.by_person.get(request.person) == expected, "lost, changed or stored twice"
            self.n_checked[client] = len(requests)

    def check_metric(self):
        """Check that the metric equals a replay of the log, bit for bit, and return its last entry."""
        deadline = time.monotonic() + 300  # kernels may have to be compiled
        while (reply := self.get("metric?matrix=true"))["seq"] < len(self.log):
            assert time.monotonic() < deadline, "the service does not learn"
            time.sleep(0.02)
        log = self.read(0)[: reply["seq"]]
        undone = {entry["undoes"] for entry in log}
        standing = [e for e in log if e["kind"] in ("same", "different") and e["seq"] not in undone]
        assert reply["n_answers"] == len(standing)
        if standing:
            # Answers imply others if they are about items, not about points.
            transitive = self.settings.get("transitive", False)
            point = dict(zip(ITEMS.ids, range(N_ITEMS) if transitive else ITEMS.points, strict=True))
            method, curved = self.settings["method"], self.settings.get("curved", False)
            known = ITEMS.points if curved else None
            tracker = MetricTracker(method=method, curved=curved, preprocessor=known)
            for entry in standing:
                tracker.learn_one(point[entry["left"]], point[entry["right"]], entry["kind"] == "same")
            assert np.array(reply["matrix"]).tobytes() == tracker.linear_part_.matrix.tobytes()
            assert reply["threshold"] == tracker.metric_.distance_threshold
        return reply["seq"]


def run_under_load(
    folder, url, start, kill, stop, n_kills, cut=None, seed=0, settings=LINEAR, projects=("it",), rest=0.0, watch=None
):
    """Kill a server repeatedly while clients answer; check the logs at each start and at the end."""
    chance = random.Random(seed)
    address = Address()
    clients = [
        Client(f"client{i}", address, f"{seed} {i}", projects[i % len(projects)], rest)
        for i in range(max(N_CLIENTS, len(projects)))
    ]
    checkers = [LogChecker(settings, project) for project in projects]
    with Store.open(folder, url) as store:
        for project in projects:
            store.create_project(project, "It", ITEMS, settings, "")
            store.append(project, [NewEntry(0, 1, "skip")], "before").result()

    def acknowledged(checker):
        return [list(client.acknowledged) for client in clients if client.project == checker.project]

    address.set(start())
    for client in clients:
        client.start()
    n_learned = []
    for n in range(1, n_kills + 1):
        _wait_for_more(clients)
        time.sleep(chance.uniform(0, 0.2 + rest))
        if watch is not None:
            watch(address.get())
        if cut is not None and n % 8 == 0:
            cut()
            time.sleep(chance.uniform(0, 0.1))
        address.set(None)
        kill() if n % 20 else stop()
        before = [acknowledged(checker) for checker in checkers]
        if n % 10 == 5:
            start(wait=False)  # and kill it during the start
            time.sleep(chance.uniform(0, 0.2))
            kill()
        running_url = start()
        for checker, requests in zip(checkers, before, strict=True):
            checker.url = running_url
            checker.check(requests, everything=n % 25 == 0)
            if n % 10 == 0:
                n_learned.append(checker.check_metric())
        assert not [client.error for client in clients if client.error]
        address.set(running_url)
    address.over = True
    for client in clients:
        client.join(60)
        assert client.error is None
        assert not client.is_alive()
    for checker in checkers:
        checker.check(acknowledged(checker), everything=True)
        people = {request.person for requests in acknowledged(checker) for request in requests}
        assert checker.by_person.keys() == people | {"before"}
        assert checker.check_metric() == len(checker.log)
    n_repeated, n_entries = sum(client.n_repeated for client in clients), sum(len(each.log) for each in checkers)
    print(f"{n_kills} kills, {n_entries} entries, {n_repeated} requests repeated, metric checked at {n_learned}")
    # Otherwise no kill interrupted a request.
    assert n_repeated > 0


def _wait_for_more(clients):
    """Wait until the present server has acknowledged a request."""
    before, deadline = sum(len(client.acknowledged) for client in clients), time.monotonic() + 60
    while sum(len(client.acknowledged) for client in clients) == before:
        assert time.monotonic() < deadline, "no request is acknowledged"
        time.sleep(0.001)


class ForkedServer:
    """A server that starts fast."""

    def __init__(self, folder, url):
        self._forked = Forked(folder.with_name("forked.log"))
        self._arguments = ["serve", "--data-folder", str(folder), "--port", "0", "--log-level", "warning"]
        self._arguments += [] if url is None else ["--database", url]

    def start(self, wait=True):
        self._forked.start(self._arguments)
        return self._forked.address() if wait else None

    def kill(self):
        self._forked.end(signal.SIGKILL)

    def stop(self):
        self._forked.end(signal.SIGTERM)

    def close(self):
        self._forked.close()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(LINEAR, id="linear"),
        pytest.param(CURVED, id="curved", marks=pytest.mark.heavy),
        pytest.param({"method": "rice"}, id="rice", marks=pytest.mark.heavy),
    ],
)
def test_kills_on_sqlite(tmp_path, settings):
    with closing(ForkedServer(tmp_path / "data", None)) as server:
        run_under_load(tmp_path / "data", None, server.start, server.kill, server.stop, N_KILLS, settings=settings)
        server.stop()


def test_kills_on_postgresql(tmp_path):
    """PostgreSQL also terminates the connections of the service from time to time."""
    with running() as postgres:
        url = postgres.new_url()
        with closing(ForkedServer(tmp_path / "data", url)) as server:

            def cut():
                assert postgres.end_connections(url)

            run_under_load(tmp_path / "data", url, server.start, server.kill, server.stop, N_KILLS, cut)
            server.stop()


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.heavy)])
def test_kills_with_the_default_settings(tmp_path, database):
    """New projects learn from implied answers, too. An answer takes milliseconds then, so that the clients pause."""
    with ExitStack() as stack:
        url = None if database == "sqlite" else stack.enter_context(running()).new_url()
        server = stack.enter_context(closing(ForkedServer(tmp_path / "data", url)))
        calls = server.start, server.kill, server.stop
        run_under_load(tmp_path / "data", url, *calls, 25, settings=DEFAULT, rest=0.5)
        server.stop()


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.heavy)])
def test_kills_while_projects_leave_memory(tmp_path, database, monkeypatch):
    """Several projects under load, most of which do not fit into memory at once."""
    monkeypatch.setenv("OCELAD_SERVE_MAX_LOADED_PROJECTS", "2")
    projects = [f"it{i}" for i in range(6)]
    n_loaded = []

    def watch(netloc):
        with closing(http.client.HTTPConnection(netloc, timeout=60)) as connection:
            connection.request("GET", "/v1/ready")
            n_loaded.append(len(json.loads(connection.getresponse().read())["projects"]))

    with running() if database == "postgresql" else nullcontext() as postgres:
        url = None if postgres is None else postgres.new_url()
        with closing(ForkedServer(tmp_path / "data", url)) as server:
            run_under_load(
                tmp_path / "data",
                url,
                server.start,
                server.kill,
                server.stop,
                n_kills=25,
                settings=CURVED,
                projects=projects,
                rest=1.0,
                watch=watch,
            )
            server.stop()
    print(f"projects in memory before the kills: {n_loaded}")
    assert min(n_loaded[5:]) < len(projects)  # all were asked for since the start


def test_kills_of_the_whole_command(tmp_path):
    """The same with servers that are not forked."""
    started = []

    def start(wait=True):
        started.append(Server(tmp_path / "data"))
        return started[-1].url

    run_under_load(tmp_path / "data", None, start, lambda: started[-1].kill(), lambda: started[-1].stop(), 5)
    started[-1].stop()
