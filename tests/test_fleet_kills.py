"""SIGKILL of a durable fleet at random moments: nothing acknowledged is lost, and it learns to the same bits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import fleet_kill_job
import pytest
from fleet_kill_job import MAX_CALL, MEMORY, STREAM
from fleet_streams import learned, learned_at_once

from ocelad.fleet import Fleet
from ocelad.fleet.packed_trackers import PLAIN_ROUNDS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

# The line after which each kill comes: a process creates or opens the file after "pid". The first kills come before
# anything is learned.
N_FIRST = 3
MOMENTS = ["pid"] * N_FIRST + ["learned"] * 32 + ["save"] * 8 + ["close"] * 5 + ["pid"] * 2
# The longest time between the line and the kill: about as long as the work takes.
SECONDS = 0.015
# Answers of one process: enough for each of its moments.
N_ANSWERS, MAX_LEARNED = 240, 4


class Job:
    """The program that forks processes, and the one that runs."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, fleet_kill_job.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._pid = None

    def start(self, path, n_answers, seed):
        self._process.stdin.write(json.dumps([str(path), n_answers, seed]) + "\n")
        self._process.stdin.flush()

    def lines(self):
        """Return the lines of the process that has started, each as a word and a number, until it has ended."""
        word = ""
        while word != "ended":
            word, _, number = self._process.stdout.readline().strip().partition(" ")
            assert word, "the program has ended; see its standard error"
            self._pid = {"pid": int(number or 0), "ended": None}.get(word, self._pid)
            yield word, int(number or 0)

    def kill(self):
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self):
        self.kill()
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture
def job():
    job = Job()
    yield job
    job.close()


def run_until_killed(job, moment, acknowledged, rng):
    """Kill the process after its line ``moment``; return the number of acknowledged answers and the last line."""
    n_lines = rng.randint(1, MAX_LEARNED) if moment == "learned" else 1
    last = ""
    note = None
    for word, number in job.lines():
        if word == "ended":
            assert number == -signal.SIGKILL or last == "done", "the process has failed; see its standard error"
            return acknowledged, last
        if word == "note":
            note = number
            continue
        if word == "opened":
            assert number == note, "the note is not that of the last answers"
            assert acknowledged <= number <= acknowledged + MAX_CALL, "acknowledged answers are lost"
        if word in ("opened", "learned"):
            acknowledged = number
        last = word
        n_lines -= word == moment
        if n_lines == 0 and word == moment:
            time.sleep(rng.uniform(0.0, SECONDS))
            job.kill()
    raise AssertionError


def test_nothing_acknowledged_is_lost_by_fifty_kills(job, tmp_path):
    seed = int(os.environ.get("FLEET_KILLS_SEED", random.randrange(10**6)))
    print(f"the moments repeat with FLEET_KILLS_SEED={seed}")  # pytest shows it after a failure
    rng = random.Random(seed)
    path, acknowledged, killed_after = tmp_path / "fleet", 0, Counter()
    moments = MOMENTS[:N_FIRST] + rng.sample(MOMENTS[N_FIRST:], len(MOMENTS) - N_FIRST)
    while moments:
        assert acknowledged < len(STREAM), "the stream is too short for all kills"
        job.start(path, MAX_CALL if moments[0] == "close" else N_ANSWERS, rng.randrange(10**6))
        acknowledged, last = run_until_killed(job, moments[0], acknowledged, rng)
        if last != "done":  # otherwise the kill came too late
            killed_after[last] += 1
            del moments[0]
    assert killed_after.total() == len(MOMENTS) == 50
    assert min(killed_after[word] for word in ("pid", "learned", "save", "close")) > 0
    with Fleet(path=path, memory=MEMORY, durable=True) as fleet:
        assert acknowledged <= fleet.n_answers <= acknowledged + MAX_CALL
        assert fleet.note == str(fleet.n_answers)
        fleet.learn(*STREAM.part(fleet.n_answers))
        found = learned(fleet)
        n_answers = [fleet.summary(key).n_answers for key in fleet]
    assert found == learned_at_once(STREAM)
    assert sum(number > PLAIN_ROUNDS for number in n_answers) > 10
    assert sum(map(len, found["states"])) > 2 * MEMORY, "no state had to leave the memory"
    assert len(found["priors"]) == 8
