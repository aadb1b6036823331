"""Nobody waits for the compiler: until compiled code is ready, the definitions play."""

import json
import os
import pickle
import subprocess
import sys
from copy import copy
from threading import Thread

import numba
import numpy as np
import pytest
from adaptive_streams import one_informative_feature
from numpy.testing import assert_allclose

from ocelad import MetricTracker, track_metric
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, PLAIN_SECONDS, AdaptiveTracker, plain_seconds
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.adaptive.kernels.decisions import update_decisions
from ocelad.engines import kernel_loading, warmup_bank
from ocelad.engines.rice import resume_metric
from ocelad.engines.warmup_bank import WARMUP_ROUNDS, WarmupBank, definition_rounds
from ocelad.estimators.learning_method import resume_tracker
from ocelad.lab.trials import map_trials
from ocelad.pairs import Events, PointPairs

COMPILED = not kernel_loading._compile.numba_config.DISABLE_JIT
only_compiled = pytest.mark.skipif(not COMPILED, reason="needs the compiler")
LAST_PLAIN_ROUND = 40


@pytest.fixture
def compiler(monkeypatch):
    """A machine on which no kernel is compiled, and the families whose compilation was begun."""
    ready, begun = {"ready": False}, []

    def kernels_ready(family="adaptive", *, start=True):
        if start:
            begun.append(family)
        return ready["ready"]

    monkeypatch.setattr(kernel_loading, "kernels_ready", kernels_ready)
    # The definition hands over in round 40, and the kernels are compiled from round 20 on.
    monkeypatch.setattr(warmup_bank, "definition_rounds", lambda seconds, n: {5.0: 20, 15.0: LAST_PLAIN_ROUND}[seconds])
    monkeypatch.setattr(warmup_bank, "_CHECK_PERIOD", 4)
    return ready, begun


def same_bits(one, other):
    (arrays, metadata), (others, other_metadata) = one.state(), other.state()
    return metadata == other_metadata and all(np.array_equal(array, others[name]) for name, array in arrays.items())


@only_compiled
@pytest.mark.parametrize("backend", ["threads", "processes"])
def test_trials_wait_for_compiled_code(backend, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # of the workers: nothing is compiled there
    monkeypatch.setattr(kernel_loading, "kernels_compiled", lambda *_: False)
    assert not kernel_loading.kernels_ready(start=False)
    assert map_trials(kernels_ready_in_trial, [0, 1], n_jobs=2, backend=backend) == [True, True]
    assert not kernel_loading.kernels_ready(start=False)


def kernels_ready_in_trial(seed):
    return kernel_loading.kernels_ready(start=False)


FLEET_JOB = """
import hashlib
import numba
import numpy as np
from ocelad.fleet import Fleet

rng = np.random.default_rng(0)
pairs, keys = rng.normal(size=(400, 2, 3)), np.arange(400) % 3
with Fleet().learn(keys, pairs, abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1) as fleet:
    print(*(hashlib.sha256(fleet.state(key)).hexdigest() for key in fleet))
"""


@pytest.mark.heavy
@only_compiled
def test_a_fleet_learns_the_same_bits_before_and_after_kernels_are_compiled(tmp_path):
    def run():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        job = [sys.executable, "-c", FLEET_JOB]
        return subprocess.run(job, env=environment, capture_output=True, text=True, check=True)

    cold, warm = run(), run()
    assert "compiling kernels" in cold.stderr
    assert warm.stderr == ""
    assert cold.stdout == warm.stdout


# -- The adaptive method --


def test_a_short_stream_compiles_nothing_and_a_long_one_does(compiler):
    _, begun = compiler
    n_features = 128
    rounds = int(PLAIN_SECONDS / plain_seconds(1, n_features))
    assert rounds > PLAIN_ROUNDS
    events = one_informative_feature(0, n_features, 2 * PLAIN_ROUNDS)
    tracker = AdaptiveTracker(n_features)
    tracker.replay(events)
    assert begun == []
    tracker._hand_over(planned=rounds - 1)
    assert begun == []
    tracker._hand_over(planned=rounds + 1)  # a call with so many pairs begins before the first of them
    assert begun == ["adaptive"]
    assert not tracker._is_compiled


@pytest.mark.parametrize("settings", [{}, {"curved": True}], ids=["linear", "curved"])
def test_answers_by_id_are_saved_and_loaded_without_compiled_code(compiler, settings):
    rng = np.random.default_rng(0)
    items = rng.normal(size=(40, 4))
    left, right = rng.integers(40, size=(2, 90))
    ids, y = np.stack([left, (right + (left == right)) % 40], axis=1), np.where(rng.random(90) < 0.4, 1, -1)
    tracker = MetricTracker(preprocessor=items, **settings).fit(ids[:80], y[:80])
    inner = tracker._fitted.tracker
    arrays, metadata = inner.state()
    assert metadata.get("tracker", metadata)["pending"]
    resumed = resume_tracker(arrays, json.loads(json.dumps(metadata)))
    parts = [getattr(each, "_tracker", each) for each in (inner, resumed)]
    assert not any(part._is_compiled for part in parts)
    assert {part.role for part in parts[1]._pending} == {part.role for part in parts[0]._pending}
    assert "learn implied" in {part.role for part in parts[1]._pending}
    assert any(metric is not None for metric in parts[1]._mixture.discriminants)
    for one, other in zip(*(part._pending for part in parts), strict=True):
        assert np.array_equal(one.events.U, other.events.U)
        assert np.array_equal(one.weights, other.weights)
    assert (inner.expert_weights == resumed.expert_weights).all()
    pairs = items[ids[80:]]
    for each in parts:
        U = pairs[:, 0] - pairs[:, 1]
        each.replay(Events(np.hstack([U, np.zeros((len(U), each.n_features - 4))]), y[80:]))
    assert (inner.expert_weights == resumed.expert_weights).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts[:-1], "does not divide"),
        (lambda parts: parts + np.array([1, 0, 0]), "does not divide"),
        (lambda parts: parts + np.array([0, 9, 0]), "unknown role"),
        (lambda parts: parts + np.array([0, 0, 999]), "unknown role or discriminant"),
    ],
)
def test_saved_parts_that_do_not_fit_are_refused(compiler, change, message):
    items = np.random.default_rng(0).normal(size=(9, 3))
    ids = [[i, (i + 1 + i // 9) % 9] for i in range(9)]
    tracker = MetricTracker(preprocessor=items).fit(ids, [1, 1, -1, 1, 1, -1, 1, 1, -1])._fitted.tracker
    arrays, metadata = tracker.state()
    arrays["parts"] = change(arrays["parts"])
    with pytest.raises(ValueError, match=message):
        resume_tracker(arrays, metadata)


# -- The method "rice" --


@only_compiled
@pytest.mark.parametrize("events", ["pairs", "relatives"])
def test_the_definition_continues_until_a_fixed_round(compiler, events):
    ready, begun = compiler
    stream = one_informative_feature(0, 4, 60)
    stream = Events(stream.U, stream.y)
    if events == "relatives":
        from ocelad.pairs import Relatives

        stream = Relatives(stream.U, stream.U[::-1].copy())
    tracker, definition = (track_metric(4, engine=engine, events=events) for engine in ("auto", "dense"))
    for t, event in enumerate(stream, start=1):
        assert isinstance(tracker.bank, WarmupBank) == (t <= LAST_PLAIN_ROUND)
        assert bool(begun) == (t >= 24)
        ready["ready"] = t > 30  # it does not matter when compiled code becomes ready
        assert_allclose(tracker.step(event).losses, definition.step(event).losses, rtol=1e-9, atol=1e-9)
    assert set(begun) == {"fullrank"}
    assert tracker.bank.engine == "fullrank"


@only_compiled
def test_rounds_one_by_one_at_once_and_resumed_give_the_same_bits(compiler):
    ready, _ = compiler
    stream = one_informative_feature(1, 4, 60)
    whole, stepped = track_metric(4), track_metric(4)
    whole.replay(stream)
    for t, event in enumerate(stream, start=1):
        stepped.step(event)
        if t == 20:
            resumed = resume_metric(*stepped.state())
            ready["ready"] = True
    assert same_bits(whole, stepped)
    resumed.replay(stream[20:])
    assert same_bits(whole, resumed)


@only_compiled
def test_compiled_code_takes_over_at_once_if_it_is_ready(compiler):
    ready, begun = compiler
    ready["ready"] = True
    tracker = track_metric(4)
    tracker.replay(one_informative_feature(0, 4, WARMUP_ROUNDS))
    assert not isinstance(tracker.bank, WarmupBank)
    assert begun == []


def test_the_demonstration_is_short_enough_for_the_definitions():
    assert definition_rounds(warmup_bank.SECONDS_TO_COMPILING, 25) > 6000
    assert plain_seconds(6000, 25) < PLAIN_SECONDS


# -- Families --


@only_compiled
def test_each_family_is_marked_and_compiled_by_itself(monkeypatch, tmp_path):
    begun = []
    monkeypatch.setattr(kernel_loading, "_stamp", lambda family: tmp_path / "folder" / f"x.{family}.compiled")
    monkeypatch.setattr(kernel_loading, "_start_compiler", begun.append)
    assert not kernel_loading.kernels_ready("fullrank", start=False)
    assert begun == []
    assert not kernel_loading.kernels_ready("fullrank")
    assert begun == ["fullrank"]
    kernel_loading.mark_kernels_ready("adaptive")
    assert kernel_loading.kernels_ready()
    assert not kernel_loading.kernels_ready("fullrank", start=False)
    kernel_loading.mark_kernels_ready("fullrank")
    assert kernel_loading.kernels_ready("fullrank")
    assert begun == ["fullrank"]


@pytest.fixture
def compiling(monkeypatch, tmp_path):
    """Let a shell command with the stamp as {stamp} be the compiler, and record its starts in the file {starts}."""
    stamp, starts, program = tmp_path / "x.adaptive.compiled", tmp_path / "starts", tmp_path / "compiler"
    starts.touch()
    monkeypatch.setattr(kernel_loading, "_stamp", lambda family: stamp)
    monkeypatch.setattr(kernel_loading, "_compilers", {})
    monkeypatch.setattr(kernel_loading, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(sys, "executable", str(program))

    def prepare(command):
        program.write_text(f"#!/bin/sh\necho $$ >> {starts}\n{command.format(stamp=stamp)}\n")
        program.chmod(0o755)
        return lambda: len(starts.read_text().split())

    return prepare


def ends(call, *arguments):
    """Return whether a call ends soon."""
    thread = Thread(target=call, args=arguments, daemon=True)
    thread.start()
    thread.join(10.0)
    return not thread.is_alive()


only_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")


@only_compiled
@only_posix
def test_a_compiler_that_has_failed_is_not_waited_for(compiling):
    """As long as this process does not ask for it, the ended process has its number."""
    n_starts = compiling("exit 1")
    kernel_loading.kernels_ready(start=True)
    assert ends(kernel_loading.compile_elsewhere, "adaptive")
    assert 1 <= n_starts() <= 2


@only_compiled
@only_posix
def test_the_number_of_another_process_is_no_compiler(compiling, tmp_path):
    """Of a killed compiler, or on another machine with the same folder, another process may have its number."""
    n_starts = compiling("touch {stamp}")
    (tmp_path / "x.adaptive.compiling").write_text(str(os.getpid()))
    assert ends(kernel_loading.compile_elsewhere, "adaptive")
    assert n_starts() == 1
    assert kernel_loading.kernels_compiled("adaptive")


@only_compiled
@only_posix
def test_one_process_compiles_and_others_wait_for_it(compiling):
    n_starts = compiling("sleep 0.5; touch {stamp}")
    kernel_loading.kernels_ready(start=True)
    compiler = kernel_loading._compilers.pop("adaptive")  # as if another process had started it
    kernel_loading.kernels_ready(start=True)
    assert ends(kernel_loading.compile_elsewhere, "adaptive")
    compiler.wait()
    assert kernel_loading.kernels_compiled("adaptive")
    assert n_starts() == 1


@only_compiled
@pytest.mark.parametrize("handed_over_at", [300, 600])
def test_curved_features_are_renewed_without_compiled_code(compiler, handed_over_at):
    """The definition renews them, and compiled code plays this again, with the same bits whenever it takes over."""
    ready, _ = compiler
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 700, 3)) + np.where(np.arange(700) < 256, 0.0, 40.0)[None, :, None]
    pairs = PointPairs(*points, np.where(rng.random(700) < 0.5, 1.0, -1.0))
    whole, handed_over = CurvedTracker(3), CurvedTracker(3)
    handed_over.replay(pairs[:handed_over_at])
    plain = copy(handed_over)
    assert not plain._tracker._is_compiled
    plain.replay(pairs[handed_over_at:])
    assert "renew curved" in {part.role for part in plain._tracker._pending}
    ready["ready"] = True
    whole.replay(pairs)
    handed_over.replay(pairs[handed_over_at:])
    assert handed_over._tracker._is_compiled
    assert same_bits(whole, handed_over)
    assert_allclose(plain.expert_weights, whole.expert_weights, rtol=1e-6, atol=1e-9)
    assert same_bits(plain, whole)  # a state with renewed features is that of compiled code


@only_compiled
def test_an_index_of_compiled_code_with_types_that_are_gone_is_not_read(tmp_path):
    file = copy(update_decisions._cache._cache_file)
    file._index_path = str(tmp_path / "old.nbi")
    with open(file._index_path, "wb") as index:
        index.write(pickle.dumps(numba.__version__) + b"cocelad.gone\nGone\n.")
    assert file._load_index() == {}
    file._save_index({"signature": "file"})
    assert file._load_index() == {"signature": "file"}
