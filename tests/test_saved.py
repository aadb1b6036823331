"""State files, and trackers that continue from them to the same bits.

Also runs with NUMBA_DISABLE_JIT=1, as plain Python with fewer rounds.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from copy import deepcopy

import numpy as np
import pytest
from engine_cases import COMPILED, as_batch, assert_same_bits, difficult_events, make
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors import safe_open
from safetensors.numpy import load as bytes_to_arrays
from safetensors.numpy import save as arrays_to_bytes
from test_blocked import sparse_events

from ocelad import LearnerBank, LearnerError, Metric, Ocelad, track_metric
from ocelad.engines import choose
from ocelad.engines.rice import resume_metric
from ocelad.io import state_files
from ocelad.pairs import Event, Events

N = 4
# Pairs without loss: the engines postpone shrinkage.
POSTPONED = {"loss": "hinge", "initial_scale": 1.0}
# Every engine, with every form that its state can have.
CASES = {
    "auto": {"engine": "auto"},
    "auto, shrinkage": {"engine": "auto", "shrinkage": 0.01},
    "dense": {"engine": "dense", "max_norm": 0.9},
    "dense, l1": {"engine": "dense", "regularizer": "l1", "shrinkage": 0.01, "l1_tolerance": 1e-3},
    "dense, burg": {"engine": "dense", "divergence": "burg"},
    "dense, von Neumann": {"engine": "dense", "divergence": "von_neumann"},
    "dense, diagonal": {"engine": "dense", "diagonal": True, "shrinkage": 0.01},
    "diagonal": {"diagonal": True, "shrinkage": 0.01, **POSTPONED},
    "fullrank": {"engine": "fullrank", "max_norm": 0.9},
    "lowrank": {"engine": "lowrank", "shrinkage": 0.01},
    "lowrank, hinge": {"engine": "lowrank", "shrinkage": 0.01, **POSTPONED},
    "lowrank, max_rank": {"engine": "lowrank", "max_rank": 2},
    "blocked": {"engine": "blocked", "shrinkage": 0.01},
    "blocked, 4": {"engine": "blocked, 4", "shrinkage": 0.01},
    "sparse": {"engine": "sparse"},
    "sparse, 4": {"engine": "sparse, 4", "shrinkage": 0.01, **POSTPONED},
}
# The engines whose kernels read the state, where a wrong number could do harm.
KERNELS = ["fullrank", "diagonal", "lowrank", "blocked, 4", "sparse, 4"]
FINEST = ["carry", "ensemble", "reset"]
EVENTS = as_batch(difficult_events(3, N, 300))


def examples(count):
    """Return settings for ``count`` examples, which all write to the same folder."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def make_tracker(case, n=N, **changes):
    return make(**{"engine": "auto", "n": n, "step_size": 0.05, **CASES[case], **changes})


def save_and_load(tracker, fresh, path):
    state_files.write(path, state_files.TRACKER, *tracker.state())
    fresh.restore(*state_files.read(path, state_files.TRACKER))
    return fresh


def assert_same_state(one, other):
    (arrays, metadata), (others, other_metadata) = one.state(), other.state()
    assert metadata == other_metadata
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert (array.dtype, array.shape) == (others[name].dtype, others[name].shape)
        assert array.tobytes() == others[name].tobytes(), name
    assert_same_bits(one, other)


def trained(case, rounds=22, **changes):
    tracker = make_tracker(case, **changes)
    tracker.replay(EVENTS[:rounds])
    return tracker


@pytest.mark.parametrize("all_lengths", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("finest", FINEST)
@pytest.mark.parametrize("case", CASES)
def test_a_loaded_tracker_continues_to_the_same_bits(case, finest, all_lengths, tmp_path):
    lengths = [0, 1, 5, 8, 9, 22] if COMPILED else [0, 5, 9, 22]
    lengths += [100] if COMPILED and "l1" not in case else []
    # By default each case runs with every length, spread over the values of finest.
    for rounds in lengths if all_lengths else lengths[FINEST.index(finest) :: len(FINEST)]:
        unbroken = make_tracker(case, finest=finest)
        for first in range(0, rounds, 7):
            unbroken.replay(EVENTS[first : min(first + 7, rounds)])
        resumed = save_and_load(unbroken, make_tracker(case, finest=finest), tmp_path / "file")
        assert resumed.n_rounds == rounds
        assert_same_state(resumed, unbroken)
        for first in range(rounds, rounds + 30, 3):  # past the end of the warm-up and of blocks
            for each in (unbroken, resumed):
                each.step(EVENTS[first])
                each.replay(EVENTS[first + 1 : first + 3])
        assert_same_state(resumed, unbroken)


@examples(60 if COMPILED else 15)
@given(st.data())
def test_any_number_of_interruptions_at_any_rounds(tmp_path, data):
    case = data.draw(st.sampled_from([case for case in CASES if "l1" not in case]))
    changes = {"finest": data.draw(st.sampled_from(FINEST)), "shortest_interval": data.draw(st.sampled_from([1, 3]))}
    unbroken, resumed = make_tracker(case, **changes), make_tracker(case, **changes)
    for length in data.draw(st.lists(st.integers(1, 40), max_size=6 if COMPILED else 3)):
        now = unbroken.n_rounds
        for each in (unbroken, resumed):
            each.replay(EVENTS[now : now + length])
        resumed = save_and_load(resumed, make_tracker(case, **changes), tmp_path / "file")
        assert_same_state(resumed, unbroken)


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
@pytest.mark.parametrize("case", ["auto", "fullrank", "lowrank", "lowrank, max_rank", "blocked, 4", "diagonal"])
def test_across_the_rounds_that_correct_rounding_errors(case, tmp_path):
    rng = np.random.default_rng(0)
    events = Events(rng.normal(size=(4200, N)), rng.choice([-1.0, 1.0], size=4200))
    cuts = [1020, 1030, 4090, 4097, 4200]
    unbroken, resumed, now = make_tracker(case), make_tracker(case), 0
    for cut in cuts:
        for each in (unbroken, resumed):
            each.replay(events[now:cut])
        resumed, now = save_and_load(resumed, make_tracker(case), tmp_path / "file"), cut
        assert_same_state(resumed, unbroken)


@pytest.mark.parametrize("finest", FINEST)
@pytest.mark.parametrize("case", ["lowrank", "blocked", "blocked, 4", "sparse", "sparse, 4", "diagonal"])
def test_many_features_and_directions(case, finest, tmp_path):
    n, rounds = (80, 100) if COMPILED else (40, 30)
    events = sparse_events(0, n, rounds)
    changes = {"n": n, "finest": finest, "shrinkage": 1e-4, "initial_scale": 0.0 if case != "lowrank" else 0.01}
    unbroken, resumed = make_tracker(case, **changes), make_tracker(case, **changes)
    for first in range(0, rounds, rounds // 5):
        for each in (unbroken, resumed):
            each.replay(events[first : first + rounds // 5])
        resumed = save_and_load(resumed, make_tracker(case, **changes), tmp_path / "file")
        assert_same_state(resumed, unbroken)
    if COMPILED and case != "diagonal":
        assert resumed.state()[1]["bank"]["capacity"] > 8


@pytest.mark.parametrize("case", CASES)
def test_after_a_refused_pair(case, tmp_path):
    unbroken = make_tracker(case, loss="squared_hinge")
    for rounds in (0, 14):
        events = as_batch([*EVENTS[:rounds], Event(np.full(N, 1e149), 1.0), EVENTS[0]])
        with pytest.raises(LearnerError):
            unbroken.replay(events)
        resumed = save_and_load(unbroken, make_tracker(case, loss="squared_hinge"), tmp_path / "file")
        assert_same_state(resumed, unbroken)
    for each in (unbroken, resumed):
        each.replay(EVENTS[14:60])
    assert_same_state(resumed, unbroken)


@pytest.mark.parametrize("case", [case for case in CASES if ", 4" not in case])
def test_resume_metric_needs_only_the_state(case, tmp_path):
    unbroken = trained(case, n_scales=4, max_norm=None)
    for _ in range(2):
        state_files.write(tmp_path / "file", state_files.TRACKER, *unbroken.state())
        resumed = resume_metric(*state_files.read(tmp_path / "file", state_files.TRACKER))
        assert resumed.settings == unbroken.settings
        assert resumed.bank.engine == unbroken.bank.engine
        assert_same_state(resumed, unbroken)
        for each in (unbroken, resumed):
            each.replay(EVENTS[22:40])
        assert_same_state(resumed, unbroken)


def test_resuming_keeps_the_engine_even_if_auto_would_choose_another(monkeypatch):
    tracker = track_metric(70)
    tracker.replay(Events(np.eye(20, 70), np.ones(20)))
    assert tracker.bank.engine == "fullrank"
    monkeypatch.setattr(choose, "MAX_FULLRANK_FEATURES", 10)
    assert track_metric(70).bank.engine == "lowrank"
    resumed = resume_metric(*tracker.state())
    assert resumed.bank.engine == "fullrank"
    assert_same_bits(resumed, tracker)


@pytest.mark.parametrize("case", ["auto", "dense", "diagonal", *KERNELS])
def test_the_state_is_independent_of_the_tracker(case):
    tracker, resumed = trained(case), make_tracker(case)
    saved = tracker.state()
    before = deepcopy(saved)
    resumed.restore(*saved)
    for each in (tracker, resumed):
        each.replay(EVENTS[22:40])
    for array, was in zip(saved[0].values(), before[0].values(), strict=True):
        assert array.tobytes() == was.tobytes()
        assert array.flags.writeable
    assert saved[1] == before[1]
    for array in saved[0].values():
        array[...] = 7
    assert_same_state(tracker, resumed)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n": 5}, "n_features=4; expected 5"),
        ({"step_size": 0.1}, "step_size=0.05; expected 0.1"),
        ({"loss": "hinge", "initial_scale": 1.0}, "loss='logistic'; expected 'hinge'"),
        ({"finest": "reset"}, "finest='carry'; expected 'reset'"),
        ({"shrinkage": 0.5}, "shrinkage=0.0; expected 0.5"),
        ({"shortest_interval": 2}, "shortest_interval=1; expected 2"),
        ({"n_scales": 3}, "n_scales=None; expected 3"),
        ({"initial_threshold": 2.0}, "initial_threshold=1.0; expected 2.0"),
        ({"max_norm": 3.0}, "max_norm=None; expected 3.0"),
        ({"engine": "blocked"}, "'engine' is 'lowrank'; expected 'blocked'"),
        ({"engine": "dense"}, "'engine' is 'lowrank'; expected 'dense'"),
        ({"engine": "auto"}, "'engine' is 'lowrank'; expected 'fullrank'"),
    ],
)
def test_the_state_of_a_tracker_with_other_settings_is_refused(changes, sentence):
    arrays, metadata = trained("lowrank", shrinkage=0.0).state()
    other = make_tracker("lowrank", **{"shrinkage": 0.0, **changes})
    before = other.play()
    with pytest.raises(ValueError, match=sentence):
        other.restore(arrays, metadata)
    assert (other.n_rounds, other.play()) == (0, before)


def test_banks_and_trackers_that_cannot_be_saved_or_restored():
    class Mean:
        def __init__(self, scale, start):
            pass

        def play(self):
            return 0.0

    with pytest.raises(TypeError, match="a LearnerBank cannot be saved; accepted: a bank with state"):
        Ocelad(LearnerBank(Mean)).state()
    with pytest.raises(ValueError, match="this tracker has a LearnerBank; accepted: a new one from track_metric"):
        Ocelad(LearnerBank(Mean)).restore(*make_tracker("auto").state())
    tracker = trained("auto")
    with pytest.raises(ValueError, match="this tracker has played 22 rounds; accepted: a new one"):
        tracker.restore(*tracker.state())
    for metadata in ({}, {"settings": None}, {"settings": {"n_features": 2}, "bank": {}}):
        with pytest.raises(ValueError, match="its settings are not those of track_metric"):
            resume_metric({}, metadata)


def damaged(arrays, metadata):
    """Yield (description, arrays, metadata) with each array and each value damaged in several ways."""
    for name, array in arrays.items():
        others = {other: each for other, each in arrays.items() if other != name}
        yield f"no {name}", others, metadata
        wrong = {
            "another type": array.astype(np.float32),
            "one more": np.concatenate([array, array[-1:]]) if len(array) else np.zeros((7, *array.shape[1:])),
            "another dimension": array[None],
            "text": np.array(["a"]),
        }
        for number in (np.nan, np.inf) if array.dtype == float else (-5, 2**62 + 1):
            if array.size:
                wrong[f"{number} in it"] = array.copy()
                wrong[f"{number} in it"].flat[array.size // 2] = number
        for what, each in wrong.items():
            yield f"{name}: {what}", {**others, name: each}, metadata
    yield "one more array", {**arrays, "bank.more": np.zeros(1)}, metadata
    yield "no arrays", None, metadata
    yield "no metadata", arrays, None
    yield "one more value", arrays, {**metadata, "more": 1}
    for name in metadata:
        yield f"no {name}", arrays, {other: each for other, each in metadata.items() if other != name}
        yield f"{name}: None", arrays, {**metadata, name: None}
    yield "more rounds", arrays, {**metadata, "n_rounds": 2**40}
    yield "fewer rounds", arrays, {**metadata, "n_rounds": 1}
    for name in metadata["bank"]:
        yield f"no {name}", arrays, {**metadata, "bank": {k: v for k, v in metadata["bank"].items() if k != name}}
        for value in (None, -1, 2**50, "x", []):
            yield f"{name}: {value}", arrays, {**metadata, "bank": {**metadata["bank"], name: value}}


# Anchors that no slot uses are harmless, and dense vectors have no metadata.
HARMLESS = [("blocked, 4", "bank.vectors.anchors: one more"), ("blocked, 4", "no vectors")]


def is_refused(tracker, arrays, metadata):
    try:
        tracker.restore(arrays, metadata)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("case", ["auto", "dense", "dense, diagonal", *KERNELS])
def test_a_damaged_state_is_refused_and_changes_nothing(case):
    for rounds in (6, 22):
        arrays, metadata = trained(case, rounds).state()
        fresh = make_tracker(case)
        untouched = make_tracker(case)
        for what, wrong_arrays, wrong_metadata in damaged(arrays, metadata):
            if (case, what) not in HARMLESS:
                assert is_refused(fresh, wrong_arrays, wrong_metadata), what
        assert_same_state(fresh, untouched)
        fresh.restore(arrays, metadata)
        assert_same_state(fresh, trained(case, rounds))


@pytest.mark.parametrize(
    ("case", "name", "numbers", "sentence"),
    [
        ("fullrank", "slots", [0, 1, 2, 3, 4, 5, 6, 6], "'slots' holds duplicates"),
        ("lowrank", "rank", 9, "more scales, directions or coefficients than it has room for"),
        ("lowrank", "filled", 9, "more scales, directions or coefficients than it has room for"),
        ("lowrank", "mu", 0.5, "'mu' holds 0.5; expected numbers of at least 1"),
        ("lowrank", "lam", -1.0, "'lam' holds -1.0; expected numbers of at least 0"),
        ("fullrank", "guess", 2.0, "'guess' holds 2.0; expected numbers of at least 0 and at most 1"),
        ("blocked, 4", "offset", 10**6, "'offset' holds 1000000"),
        ("blocked, 4", "n_anchors", 8, "points beyond the last of"),
        ("blocked, 4", "n_anchors", 0, "'V' has coefficients of anchors or pairs that slot 0 does not have"),
        ("blocked, 4", "V", 1.0, "'V' has coefficients of anchors or pairs that slot 0 does not have"),
        ("sparse, 4", "vectors.features", 0, "'features' holds duplicates"),
        ("sparse, 4", "vectors.features", N, f"'features' holds {N}"),
        ("sparse, 4", "vectors.places", N, f"'places' holds {N}"),
        ("sparse, 4", "vectors.indptr", 3, "beginnings and ends of rows"),
        ("sparse, 4", "vectors.indptr", lambda ends: np.maximum(ends, 1), "beginnings and ends of rows"),
        ("sparse, 4", "vectors.indptr", lambda ends: np.append(ends[:-1], ends[-1] + 1), "beginnings and ends of rows"),
        ("sparse, 4", "vectors.indptr", lambda ends: [0, *(ends[1:-1] + 9), ends[-1]], "beginnings and ends"),
        ("diagonal", "touched", N, "holds an index beyond the end"),
        ("diagonal", "like", 10**9, "holds an index beyond the end"),
        ("dense", "0.matrix", np.diag([1.0, 1.0, 1.0, -1.0]), "negative eigenvalue"),
        ("dense, diagonal", "0.diagonal", -1.0, "the diagonal not negative"),
    ],
)
def test_numbers_that_would_mislead_a_kernel_are_refused(case, name, numbers, sentence):
    arrays, metadata = trained(case).state()
    array = arrays[f"bank.{name}"]
    array[...] = numbers(array) if callable(numbers) else numbers
    with pytest.raises(ValueError, match=sentence):
        make_tracker(case).restore(arrays, metadata)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflows, which the learners report
@pytest.mark.parametrize("case", KERNELS)
def test_accepted_numbers_cause_at_most_a_learner_error(case):
    rng, accepted = np.random.default_rng(0), 0
    arrays, metadata = trained(case).state()
    for _ in range(100 if COMPILED else 10):
        wrong = deepcopy(arrays)
        array = wrong[rng.choice(list(wrong))]
        where = rng.random(array.shape) < rng.choice([0.1, 1.0])
        if array.dtype == float:
            array[where] = (rng.normal(size=array.shape) * 10.0 ** rng.integers(-300, 300))[where]
        else:
            array[where] = rng.integers(-1, 12, size=array.shape)[where]
        tracker = make_tracker(case)
        with suppress(LearnerError):
            if not is_refused(tracker, wrong, metadata):
                accepted += 1
                tracker.replay(EVENTS[22:50])
    assert accepted > 0


numbers = arrays_of.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.uint8, np.bool_]),
    arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5).filter(lambda name: name != "__metadata__")


@examples(100)
@given(st.dictionaries(names, numbers, max_size=4), st.dictionaries(st.text(), values, max_size=4))
@example({"none": np.zeros((0, 3)), "one": np.array(0.1), "swapped": np.arange(3.0).astype(">f8")}, {})
@example({}, {"format": "ocelad.thing/4"})
@example({"across": np.arange(12.0).reshape(3, 4).T, "every other": np.arange(9)[::2], "back": np.eye(3)[::-1]}, {})
def test_a_file_returns_what_was_written(tmp_path, arrays, metadata):
    path = tmp_path / "file"
    if metadata.keys() & {"format", "checksum"}:
        with pytest.raises(ValueError, match="metadata holds the reserved keys"):
            state_files.write(path, "ocelad.thing/3", arrays, metadata)
        return
    state_files.write(path, "ocelad.thing/3", arrays, metadata)
    content = path.read_bytes()
    read, read_metadata = state_files.read(path, "ocelad.thing/3")
    assert read_metadata == metadata
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype.newbyteorder("=")
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()
    state_files.write(path, "ocelad.thing/3", dict(reversed(arrays.items())), dict(reversed(metadata.items())))
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_same_tracker_makes_the_same_file(tmp_path):
    for name in ("one", "other"):
        state_files.write(tmp_path / name, state_files.TRACKER, *trained("blocked, 4").state())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


SMALL = {"matrix": np.eye(2), "rounds": np.arange(3)}, {"threshold": 1.5, "settings": {"finest": "carry"}}


def small_file(path):
    state_files.write(path, state_files.TRACKER, *SMALL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "file"
    small_file(path)
    return path.read_bytes()


def assert_small(arrays, metadata):
    assert metadata == SMALL[1]
    assert {name: (array.dtype.str, array.tolist()) for name, array in arrays.items()} == {
        name: (array.dtype.str, array.tolist()) for name, array in SMALL[0].items()
    }


def test_truncated_files_are_refused(whole, tmp_path):
    path = tmp_path / "file"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"is not a valid tracker file .it is truncated or damaged: "):
            state_files.read(path, state_files.TRACKER)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="is not a valid tracker file"):
        state_files.read(path, state_files.TRACKER)


@examples(1000)
@given(st.data())
def test_files_with_changed_bytes_are_refused_or_unaffected(whole, tmp_path, data):
    path, content = tmp_path / "file", bytearray(whole)
    for _ in range(data.draw(st.integers(1, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        read = state_files.read(path, state_files.TRACKER)
    except ValueError:
        return
    assert_small(*read)


def test_every_bit_of_a_metric_file_counts(tmp_path):
    metric, path = Metric(np.diag([1.0, 2.0]), 1.5, 7), tmp_path / "file"
    metric.save(path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (1, 32):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            try:
                loaded = Metric.load(path)
            except ValueError:
                continue
            assert loaded == metric


@pytest.mark.parametrize(
    ("written", "wanted", "sentence"),
    [
        (
            "ocelad.tracker/2",
            state_files.TRACKER,
            "has the format ocelad.tracker/2 of a newer version of ocelad; this version reads ocelad.tracker/1",
        ),
        (
            "ocelad.tracker/0",
            state_files.TRACKER,
            "is not a valid tracker file .its format is 'ocelad.tracker/0'.; accepted",
        ),
        (state_files.METRIC, state_files.TRACKER, "holds a metric, not a tracker; accepted: ocelad.tracker/1"),
        (state_files.TRACKER, state_files.METRIC, "holds a tracker, not a metric; accepted: ocelad.metric/1"),
        ("ocelad.metric/7", state_files.TRACKER, "holds a metric, not a tracker"),
        ("other/1", state_files.TRACKER, "is not a valid tracker file .its format is 'other/1'."),
    ],
)
def test_other_kinds_and_versions_are_named(written, wanted, sentence, tmp_path):
    state_files.write(tmp_path / "file", written, *SMALL)
    with pytest.raises(ValueError, match=sentence):
        state_files.read(tmp_path / "file", wanted)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "header"),
        (b"PK\3\4 and so on, many bytes of something else", "header"),
        (arrays_to_bytes({"weight": np.ones(2)}), "no 'ocelad'"),
        (arrays_to_bytes({"weight": np.ones(2)}, {"format": "pt"}), "no 'ocelad'"),
        (arrays_to_bytes({}, {"ocelad": "{}"}), "no 'format'"),
        (arrays_to_bytes({}, {"ocelad": "[]"}), "its metadata 'ocelad' is"),
        (arrays_to_bytes({}, {"ocelad": "[" * 100_000}), "recursion"),
        (arrays_to_bytes({}, {"ocelad": '{"format": "ocelad.tracker/1", "x": NaN}'}), "JSON"),
        (arrays_to_bytes({}, {"ocelad": '{"format": "ocelad.tracker/1"}'}), "checksum"),
        (arrays_to_bytes({}, {"ocelad": '{"format": ["ocelad.tracker/1"]}'}), "its format is"),
    ],
)
def test_foreign_files_are_refused(content, sentence, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=f"is not a valid tracker file .*{sentence}"):
        state_files.read(tmp_path / "file", state_files.TRACKER)


def test_invalid_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file at '.*nowhere'; accepted: a file of the format ocelad.tr"):
        state_files.read(tmp_path / "nowhere", state_files.TRACKER)
    with pytest.raises(IsADirectoryError, match=r"is a folder; accepted: a file of the format ocelad.tracker/1"):
        state_files.read(tmp_path, state_files.TRACKER)
    with pytest.raises(IsADirectoryError, match="is a folder; accepted: the path of a file"):
        state_files.write(tmp_path, state_files.TRACKER, {}, {})
    with pytest.raises(FileNotFoundError, match=r"the folder '.*nowhere' does not exist"):
        state_files.write(tmp_path / "nowhere" / "file", state_files.TRACKER, {}, {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is not a plain file"):
        state_files.write(tmp_path / "pipe", state_files.TRACKER, {}, {})


def test_a_metric_without_a_checksum_is_read_and_one_with_a_wrong_one_is_not(tmp_path):
    path, metric = tmp_path / "file", Metric(np.diag([1.0, 2.0]), 1.5, 7)
    metric.save(path)
    arrays = bytes_to_arrays(path.read_bytes())
    metadata = {"format": state_files.METRIC, "threshold": 1.5, "round": 7}
    path.write_bytes(arrays_to_bytes(arrays, {"ocelad": json.dumps(metadata)}))
    assert Metric.load(path) == metric
    path.write_bytes(arrays_to_bytes(arrays, {"ocelad": json.dumps({**metadata, "checksum": "0" * 64})}))
    with pytest.raises(ValueError, match="its content does not match its checksum"):
        Metric.load(path)


def test_subnormal_numbers_are_preserved(tmp_path):
    tiny = np.full((2, 2), 5e-324)
    Metric.from_trusted_matrix(tiny, 1.0).save(tmp_path / "file")
    assert Metric.load(tmp_path / "file") == Metric.from_trusted_matrix(tiny, 1.0)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.reshape(3, 2),
        lambda x: x.reshape(6),
        lambda x: x.reshape(2, 3, 1),
        lambda x: x.view(np.int64),
        lambda x: np.where(x == 5, np.nextafter(5, 6), x),
    ],
)
def test_the_checksum_covers_the_shape_the_type_and_the_bytes_of_an_array(change, tmp_path):
    path, x = tmp_path / "file", np.arange(6.0).reshape(2, 3)
    state_files.write(path, state_files.TRACKER, {"x": x}, {"k": 1})
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    path.write_bytes(arrays_to_bytes({"x": change(x)}, metadata))
    with pytest.raises(ValueError, match="its content does not match its checksum"):
        state_files.read(path, state_files.TRACKER)
    path.write_bytes(arrays_to_bytes({"x": x}, metadata))
    np.testing.assert_array_equal(state_files.read(path, state_files.TRACKER)[0]["x"], x)


@pytest.mark.parametrize("function", ["os.fsync", "os.replace", "os.chmod"])
@pytest.mark.parametrize("failure", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(function, failure, tmp_path, monkeypatch):
    path = tmp_path / "file"
    small_file(path)

    def fail(*_):
        raise failure

    with monkeypatch.context() as during:
        during.setattr(function, fail)
        with pytest.raises(type(failure)):
            state_files.write(path, state_files.TRACKER, {}, {"other": 1})
    assert_small(*state_files.read(path, state_files.TRACKER))
    assert list(tmp_path.iterdir()) == [path]
    state_files.write(path, state_files.TRACKER, {}, {"other": 1})
    assert state_files.read(path, state_files.TRACKER) == ({}, {"other": 1})


@pytest.mark.parametrize(("number", "raises"), [(22, False), (95, False), (5, True)])
def test_a_folder_that_cannot_be_flushed(number, raises, tmp_path, monkeypatch):
    path, flush, calls = tmp_path / "file", os.fsync, []

    def fail_at_the_folder(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(number, "cannot")
        flush(descriptor)

    monkeypatch.setattr("os.fsync", fail_at_the_folder)
    if raises:
        with pytest.raises(OSError, match="cannot"):
            small_file(path)
    else:
        small_file(path)
    assert_small(*state_files.read(path, state_files.TRACKER))  # the file is complete in any case
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link_and_a_file_keeps_its_permissions(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(path)
    small_file(link)
    path.chmod(0o604)
    small_file(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o604
    assert_small(*state_files.read(link, state_files.TRACKER))


def test_concurrent_readers_see_the_old_or_the_new_file(tmp_path):
    path, done, seen = tmp_path / "file", threading.Event(), set()
    contents = [np.full(20_000, float(k)) for k in range(40)]
    state_files.write(path, state_files.TRACKER, {"x": contents[0]}, {"k": 0})
    wrong = []

    def read():
        try:
            while not done.is_set():
                arrays, metadata = state_files.read(path, state_files.TRACKER)
                assert (arrays["x"] == metadata["k"]).all()
                seen.add(metadata["k"])
        except Exception as error:
            wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for k, content in enumerate(contents):
        state_files.write(path, state_files.TRACKER, {"x": content}, {"k": k})
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert seen
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
