"""SIGKILL at random moments under load: what was acknowledged is there, once, in order, and was learned from."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import signal
import threading
import time
from contextlib import closing
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
ITEMS = ItemSet(
    tuple(f"item {i}" for i in range(N_ITEMS)),
    np.random.default_rng(5).normal(size=(N_ITEMS, N_FEATURES)) * 2,
    tuple(f"f{i}" for i in range(N_FEATURES)),
    Scaling("none", np.ones(N_FEATURES)),
)


class Address:
    """Where the server is now; clients wait while there is none."""

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
class StateReader:
    """A request that was acknowledged; ``who`` is its alone, so that its entries are known among all others."""

    who: str
    entries: tuple  # of (kind, left, right, undoes)
    first: int
    last: int


class Client(threading.Thread):
    """Answers one after another, each with a key of its own, and each again until it is acknowledged."""

    def __init__(self, name, address, seed):
        super().__init__(daemon=True)
        self.name, self._address, self._random = name, address, random.Random(seed)
        self.kept: list[StateReader] = []  # grows only
        self.n_repeated = 0
        self.error = None

    def run(self):
        try:
            for n in itertools.count():
                if self._address.over:
                    return
                self._answer(f"{self.name}.{n}")
        except BaseException as error:
            self.error = error
            raise

    def _answer(self, who):
        """One request: an answer, several, or an undo of one of its own."""
        mine = [kept for kept in self.kept[-20:] if kept.entries[0][0] != "undo"]
        if mine and self._random.random() < 0.15:
            seq = self._random.randint((chosen := self._random.choice(mine)).first, chosen.last)
            status, told = self._until_answered("undo", {"seq": seq}, who)
            if status == 409:
                assert told["error"]["code"] == "already_undone", told
                return
            _, left, right, _ = chosen.entries[seq - chosen.first]
            self._keep(who, (("undo", left, right, seq),), told["seq"], told["seq"], told["repeated"])
            return
        several = self._random.random() < 0.4
        pairs = [self._random.sample(ITEMS.ids, 2) for _ in range(self._random.randint(2, 9) if several else 1)]
        new = [
            {"left": left, "right": right, "answer": self._random.choice(["same", "different", "different", "skip"])}
            for left, right in pairs
        ]
        status, told = self._until_answered("comparisons", {"comparisons": new} if several else new[0], who)
        entries = tuple((each["answer"], each["left"], each["right"], None) for each in new)
        assert status in (200, 201), told
        self._keep(who, entries, told["first"], told["last"], told["repeated"])

    def _keep(self, who, entries, first, last, repeated):
        self.n_repeated += repeated
        self.kept.append(StateReader(who, entries, first, last))

    def _until_answered(self, what, body, who):
        headers = {"Content-Type": "application/json", "Idempotency-Key": who, "Ocelad-Person": who}
        while True:
            try:
                connection = http.client.HTTPConnection(self._address.get(), timeout=20)
                with closing(connection):
                    connection.request("POST", f"/v1/projects/it/{what}", json.dumps(body), headers)
                    response = connection.getresponse()
                    told = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.005)  # the server is gone: again, with the same key
                continue
            if response.status != 503:  # which is said while there is no database
                return response.status, told
            time.sleep(0.02)


class Witness:
    """What was read of the log so far, and what must be true of it."""

    def __init__(self):
        self.url = None
        self.log = []
        self.by_who = {}  # numbers and contents of entries, by who gave them
        self.n_checked = {}  # how many requests of each client were found in the log

    def ask(self, path):
        with closing(http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)) as connection:
            connection.request("GET", f"/v1/projects/it/{path}")
            response = connection.getresponse()
            told = json.loads(response.read())
            assert response.status == 200, told
            return told

    def read(self, after):
        entries = []
        while after is not None:
            page = self.ask(f"history?after={after}&limit=1000")
            entries += page["entries"]
            after = page["next"]
        for entry in entries:
            del entry["undone"]  # which alone may change
        return entries

    def check(self, kept, *, all_of_it):
        """Whether all that was acknowledged is there, and what was there still is; or what is new of both."""
        new = self.read(len(self.log))
        self.log += new
        if all_of_it:
            assert self.read(0)[: len(self.log)] == self.log
        assert [entry["seq"] for entry in self.log] == list(range(1, len(self.log) + 1))
        for entry in new:
            told = entry["kind"], entry["left"], entry["right"], entry["undoes"]
            self.by_who.setdefault(entry["who"], []).append((entry["seq"], told))
        for client, requests in enumerate(kept):
            for before, after in itertools.pairwise(requests):
                assert before.last < after.first, "not in the order of acknowledgement"
            for request in requests if all_of_it else requests[self.n_checked.get(client, 0) :]:
                expected = list(zip(range(request.first, request.last + 1), request.entries, strict=True))
                assert self.by_who.get(request.who) == expected, "lost, changed or kept twice"
            self.n_checked[client] = len(requests)

    def check_metric(self):
        """Whether what was learned equals a replay of the log, bit for bit; up to which entry."""
        deadline = time.monotonic() + 300  # kernels may have to be compiled
        while (told := self.ask("metric?matrix=true"))["seq"] < len(self.log):
            assert time.monotonic() < deadline, "it does not learn"
            time.sleep(0.02)
        log = self.read(0)[: told["seq"]]
        undone = {entry["undoes"] for entry in log}
        standing = [e for e in log if e["kind"] in ("same", "different") and e["seq"] not in undone]
        assert told["n_answers"] == len(standing)
        if standing:
            point = dict(zip(ITEMS.ids, ITEMS.points, strict=True))
            pairs = np.array([[point[e["left"]], point[e["right"]]] for e in standing])
            tracker = MetricTracker(method="rice").partial_fit(
                pairs, [1 if e["kind"] == "same" else -1 for e in standing]
            )
            assert np.array(told["matrix"]).tobytes() == tracker.metric_.matrix.tobytes()
            assert told["threshold"] == tracker.metric_.distance_threshold
        return told["seq"]


def run_under_load(folder, url, start, kill, stop, n_kills, cut=None, seed=0):
    """Kill a server again and again while clients answer; check at each start, and at the end."""
    chance = random.Random(seed)
    address = Address()
    clients = [Client(f"client{i}", address, f"{seed} {i}") for i in range(N_CLIENTS)]
    witness = Witness()
    with Store.open(folder, url) as store:
        store.create_project("it", "It", ITEMS, {}, "")
        store.append("it", [NewEntry(0, 1, "skip")], "before").result()
    address.set(start())
    for client in clients:
        client.start()
    n_learned = []
    for n in range(1, n_kills + 1):
        _wait_for_more(clients)
        time.sleep(chance.uniform(0, 0.2))
        if cut is not None and n % 8 == 0:
            cut()
            time.sleep(chance.uniform(0, 0.1))
        address.set(None)
        kill() if n % 20 else stop()
        kept = [list(client.kept) for client in clients]
        if n % 10 == 5:
            start(wait=False)  # and kill it while it starts
            time.sleep(chance.uniform(0, 0.2))
            kill()
        witness.url = start()
        witness.check(kept, all_of_it=n % 25 == 0)
        if n % 10 == 0:
            n_learned.append(witness.check_metric())
        assert not [client.error for client in clients if client.error]
        address.set(witness.url)
    address.over = True
    for client in clients:
        client.join(60)
        assert client.error is None
        assert not client.is_alive()
    witness.check([client.kept for client in clients], all_of_it=True)
    assert witness.by_who.keys() == {kept.who for client in clients for kept in client.kept} | {
        "before"
    }  # and nothing else
    assert witness.check_metric() == len(witness.log)
    n_repeated = sum(client.n_repeated for client in clients)
    print(f"{n_kills} kills, {len(witness.log)} entries, {n_repeated} requests repeated, metric checked at {n_learned}")
    # Else the kills came when nothing was being done.
    assert n_repeated > 0


def _wait_for_more(clients):
    """Until something was acknowledged by the server that there is now."""
    before, deadline = sum(len(client.kept) for client in clients), time.monotonic() + 60
    while sum(len(client.kept) for client in clients) == before:
        assert time.monotonic() < deadline, "nothing is acknowledged"
        time.sleep(0.001)


class Quick:
    """A server that starts at once."""

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


def test_200_kills_on_sqlite(tmp_path):
    with closing(Quick(tmp_path / "data", None)) as server:
        run_under_load(tmp_path / "data", None, server.start, server.kill, server.stop, 200)
        server.stop()


def test_200_kills_on_postgresql(tmp_path):
    """And PostgreSQL cuts its connections off now and then."""
    with running() as postgres:
        url = postgres.new_url()
        with closing(Quick(tmp_path / "data", url)) as server:

            def cut():
                assert postgres.end_connections(url)

            run_under_load(tmp_path / "data", url, server.start, server.kill, server.stop, 200, cut)
            server.stop()


def test_kills_of_the_whole_command(tmp_path):
    """The same on processes that nothing is spared of."""
    started = []

    def start(wait=True):
        started.append(Server(tmp_path / "data"))
        return started[-1].url

    run_under_load(tmp_path / "data", None, start, lambda: started[-1].kill(), lambda: started[-1].stop(), 5)
    started[-1].stop()
