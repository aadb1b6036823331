"""The adaptive method: compiled code agrees with the definition, and neither depends on the unit of the data.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds and features.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import COMPILED
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ocelad.adaptive.bases import Kinds, PlainBases
from ocelad.adaptive.calibration import WARMUP
from ocelad.adaptive.changes import MIN_ROUND
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.kernels import aggregation
from ocelad.adaptive.mixture import SNAPSHOT_PERIOD, Mixture
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives

RTOL = 1e-9  # same mathematics, different arithmetic
KINDS = ("pairs", "relatives", "sparse")
# With this configuration few features suffice for every kind of learner: COMID learners have a full rank with 2
# features and rank 2 with 4, and with 5 there are no moments. A second change replaces the only memory.
SMALL = AdaptiveConfig(max_moment_features=4, max_rank=2, windows=(4, 64), n_memories=1)
SMALL_SIZES = [(n, SMALL) for n in (2, 4, 5)]
SIZES = SMALL_SIZES + [(n, None) for n in ((1, 2, 3, 25, 33, 60, 128, 129, 200) if COMPILED else (1, 3))]
ROUNDS = 120 if COMPILED else 70


def draw(seed, n, rounds, kind="pairs", change=None, difficult=True):
    """Draw pairs that are similar if they differ little in the first feature, and in the second one after ``change``.

    With one or very many features, answers are inverted after ``change``. Difficult streams begin with zeros, have
    zeros in between, an outlier, and, if there are enough features, one that is constant, one that rarely differs from
    zero, and a copy of the first.
    """
    rng = np.random.default_rng(seed)
    rows, part = np.arange(rounds), (np.arange(rounds) // (change or rounds)) % 2
    inverts = n == 1 or n > 128
    question = np.zeros(rounds, dtype=int) if inverts else part

    def differences():
        U = rng.normal(size=(rounds, n)) * 3.0 ** rng.uniform(-1.0, 1.0, size=n)
        U[:, : 1 if inverts else 2] *= 1.0 + n / 10.0  # a question about one of many features takes long to learn
        if difficult and n >= 5:
            U[:, -1], U[:, -2], U[:, -3] = np.where(rng.random(rounds) < 0.05, 1.0, 0.0), 0.0, U[:, 0]
        return U

    U, V = differences(), differences()
    size, other = (np.abs(X[rows, question]) for X in (U, V))
    near = size < (other if kind == "relatives" else np.median(np.abs(U), axis=0)[question])
    near ^= (rng.random(rounds) < 0.02) ^ (inverts & (part == 1))
    if difficult:
        U[[0, 1, 20, 40]] = 0.0
        V[[0, 20, 41]] = 0.0
        U[30] *= 30.0
    if kind == "relatives":
        V[[50, 51]] = U[50], -U[51]
        return Relatives(np.where(near[:, None], U, V), np.where(near[:, None], V, U))
    if kind == "sparse":
        U = csr_array(np.where(rng.random(U.shape) < 0.6, U, 0.0))
    return Events(U, np.where(near, 1.0, -1.0))


def scaled(events, factor):
    """Return the events with all differences multiplied by a factor."""
    if isinstance(events, Relatives):
        return Relatives(factor * events.near, factor * events.far)
    return Events(factor * events.U, events.y)


def make(n, kind="pairs", config=None, compiled=True):
    events = "relatives" if kind == "relatives" else "pairs"
    return Mixture(n, config, sparse=kind == "sparse", events=events, compiled=compiled)


def play_in_chunks(mixture, events, sizes, weights=None):
    """Play chunks of these sizes, again and again; return all predictions."""
    predictions, done, i = [], 0, 0
    while done < len(events):
        part = slice(done, done + sizes[i % len(sizes)])
        predictions.append(mixture.play(events[part], None if weights is None else weights[part]))
        done, i = part.stop, i + 1
    return np.concatenate(predictions)


def assert_agree(compiled, definition):
    """Check that everything that can be read has the same value."""
    one, other = compiled.aggregator, definition.aggregator
    np.testing.assert_allclose(one.log_odds, other.log_odds, rtol=RTOL, atol=RTOL)
    np.testing.assert_allclose(one.shares, other.shares, rtol=RTOL, atol=1e-12)
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=RTOL)
    assert one.evidence == pytest.approx(other.evidence, rel=RTOL, abs=RTOL)
    np.testing.assert_allclose(one._state.usage, other._usage, rtol=RTOL)
    assert one.least_used_memory() == other.least_used_memory()
    assert [change[:2] for change in one.changes] == [change[:2] for change in other.changes]
    metrics = [(compiled.metric(), definition.metric())]
    for name in ("snapshot", "anchor"):
        metrics.append((getattr(compiled, name), getattr(definition, name)))
    metrics.extend(zip(compiled.memories, definition.memories, strict=True))
    for mine, theirs in metrics:
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.round == theirs.round
            assert mine.threshold == pytest.approx(theirs.threshold, rel=RTOL, abs=RTOL)
            difference = np.linalg.norm(mine.matrix - theirs.matrix)
            assert difference <= RTOL * np.linalg.norm(theirs.matrix)
    assert compiled.drift == pytest.approx(definition.drift, rel=1e-6, abs=1e-9)  # a difference of similar numbers


def assert_same_bits(one, other):
    assert (one.metric().matrix == other.metric().matrix).all()
    assert one.metric().threshold == other.metric().threshold
    assert (one.aggregator.shares == other.aggregator.shares).all()
    assert one.aggregator.changes == other.aggregator.changes
    assert one.aggregator.evidence == other.aggregator.evidence
    assert one.drift == other.drift


# -- Agreement with the definition --


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "config"), SIZES)
def test_compiled_code_agrees_with_the_definition(n, config, kind):
    events = draw(n, n, ROUNDS if n <= 60 else ROUNDS // 2, kind)
    weights = np.random.default_rng(n).choice([0.0, 0.5, 1.0, 3.0], size=len(events))
    compiled, definition = make(n, kind, config), make(n, kind, config, compiled=False)
    expected = play_in_chunks(definition, events, [50], weights)
    np.testing.assert_allclose(play_in_chunks(compiled, events, [50], weights), expected, rtol=RTOL, atol=RTOL)
    assert_agree(compiled, definition)


@settings(max_examples=20 if COMPILED else 10)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 7),
    config=st.sampled_from([None, SMALL]),
    kind=st.sampled_from(KINDS),
    chunk=st.integers(1, 60),
    spread=st.floats(0.0, 3.0),
)
def test_agrees_on_differences_of_many_sizes(seed, n, config, kind, chunk, spread):
    """The sizes of differences are log-normal, from equal ones to a range of many orders of magnitude."""
    rng = np.random.default_rng(seed)
    events = draw(seed, n, 60, kind, change=30)
    sizes = np.exp(spread * rng.normal(size=(60, 1)))
    if kind == "relatives":
        events = Relatives(sizes * events.near, sizes * events.far)
    else:
        U = events.U.toarray() if events.sparse else events.U
        events = Events(csr_array(sizes * U) if kind == "sparse" else sizes * U, events.y)
    compiled, definition = make(n, kind, config), make(n, kind, config, compiled=False)
    weights = rng.uniform(0.0, 2.0, size=60)
    expected = play_in_chunks(definition, events, [chunk], weights)
    np.testing.assert_allclose(play_in_chunks(compiled, events, [chunk], weights), expected, rtol=RTOL, atol=RTOL)
    assert_agree(compiled, definition)


def test_sums_of_sparse_differences_are_rescaled_before_they_overflow():
    """Instead of letting sums decay, compiled code weighs new differences more: here twice as much each time."""
    config, events = AdaptiveConfig(scale_horizon=2.0), draw(3, 5, 250, "sparse")
    compiled, definition = make(5, "sparse", config), make(5, "sparse", config, compiled=False)
    np.testing.assert_allclose(compiled.play(events), definition.play(events), rtol=RTOL, atol=RTOL)
    assert_agree(compiled, definition)
    assert compiled.bases._growth[0] < 2.0**101


CHANGING = [
    (2, SMALL, "pairs"),
    (4, SMALL, "relatives"),
    (5, SMALL, "sparse"),
    *([(5, SMALL, "pairs"), (1, None, "pairs"), (3, None, "pairs")] if COMPILED else []),
    *([(25, None, "relatives"), (33, None, "pairs"), (129, None, "pairs")] if COMPILED else []),
]


@pytest.mark.parametrize(("n", "config", "kind"), CHANGING)
def test_agrees_when_the_question_changes(n, config, kind):
    """Memories are stored, the anchor is replaced, and changes are detected."""
    change = 448 if n > 5 else 320
    events = draw(10 + n, n, change + 192, kind, change=change, difficult=False)
    compiled, definition = make(n, kind, config), make(n, kind, config, compiled=False)
    anchors = set()
    for first in range(0, len(events), SNAPSHOT_PERIOD):
        part = events[first : first + SNAPSHOT_PERIOD]
        np.testing.assert_allclose(compiled.play(part), definition.play(part), rtol=RTOL, atol=RTOL)
        anchors.add(None if compiled.anchor is None else compiled.anchor.round)
    assert_agree(compiled, definition)
    assert {None, MIN_ROUND} < anchors  # there was none, then one, and others later
    assert compiled.memories != [None] * len(compiled.memories)
    if kind != "sparse":  # there, predictions are too weak to be contradicted
        assert any(change - 20 <= found.round <= found.detected for found in compiled.aggregator.changes)


@pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
def test_a_change_replaces_the_least_used_memory():
    events = draw(1, 2, 800, change=250, difficult=False)
    compiled, definition = make(2, config=SMALL), make(2, config=SMALL, compiled=False)
    memories = set()
    for first in range(0, len(events), 100):
        part = events[first : first + 100]
        np.testing.assert_allclose(compiled.play(part), definition.play(part), rtol=RTOL, atol=RTOL)
        memories |= {memory.round for memory in compiled.memories if memory is not None}
    assert_agree(compiled, definition)
    assert len(memories) >= 2


def test_the_trust_in_the_prior_agrees():
    for n in (2, 3):
        events = draw(100 + n, n, 60)
        compiled, definition = make(n), make(n, compiled=False)
        compiled.play(events)
        definition.play(events)
        one, other = compiled.aggregator._state.trust, definition.aggregator._trust
        assert one[aggregation.BOUND] == pytest.approx(other._bound, rel=RTOL)
        assert aggregation.trust_value(one, compiled.aggregator._settings) == pytest.approx(other.value, rel=RTOL)


# -- Division into calls, sides and units --

CUT = [(2, SMALL), (5, SMALL), *([(4, SMALL), (25, None), (33, None), (129, None)] if COMPILED else [])]


@pytest.mark.parametrize("kind", ["pairs", "relatives"])
@pytest.mark.parametrize(("n", "config"), CUT)
def test_compiled_code_has_the_same_bits_however_a_stream_is_divided(n, config, kind):
    events = draw(20 + n, n, 500 if COMPILED else 200, kind, change=330 if COMPILED else 150)
    whole = make(n, kind, config)
    expected = whole.play(events)
    for sizes in ([1], [7], [SNAPSHOT_PERIOD], [1, 30, 100]) if COMPILED else ([1, 30, 100],):
        parts = make(n, kind, config)
        assert (play_in_chunks(parts, events, sizes) == expected).all()
        assert_same_bits(parts, whole)


@pytest.mark.parametrize("n", [3, 25, 60, 129])
def test_earlier_metrics_measure_a_row_with_the_same_bits_among_any_others(n):
    """Products of matrices round a row differently depending on the number of rows."""
    rng = np.random.default_rng(n)
    mixture, U, rows = make(n, compiled=False), rng.normal(size=(63, n)), rng.normal(size=(8, n))
    low_rank = Metric.low_rank(np.ones(n), rows, rng.uniform(size=8), 3.0)
    mixture.anchor = low_rank if n > 128 else Metric.from_trusted_matrix(low_rank.matrix, 3.0)
    events = Events(U, np.ones(len(U)))
    whole = mixture._anchor_log_odds(events, 1)
    for size in (1, 7, 30):
        parts = [mixture._anchor_log_odds(events[i : i + size], i + 1) for i in range(0, len(U), size)]
        assert (np.concatenate(parts) == whole).all()


@pytest.mark.parametrize(("n", "config"), [(5, SMALL), *([(25, None), (200, None)] if COMPILED else [])])
def test_sparse_pairs_agree_however_a_stream_is_divided(n, config):
    """The sparse engine multiplies blocks of rows with BLAS, whose rounding depends on the number of rows."""
    events = draw(n, n, 300 if COMPILED else 120, "sparse", change=200)
    whole = make(n, "sparse", config)
    expected = whole.play(events)
    for sizes in ([1], [7], [1, 30, 100]):
        parts = make(n, "sparse", config)
        np.testing.assert_allclose(play_in_chunks(parts, events, sizes), expected, rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "config"), CUT)
def test_swapped_points_give_the_same_bits(n, config, kind):
    events = draw(30 + n, n, 300 if COMPILED else 100, kind, change=200)
    one, other = make(n, kind, config), make(n, kind, config)
    assert (one.play(events) == other.play(scaled(events, -1.0))).all()
    assert_same_bits(one, other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "config"), CUT)
def test_a_power_of_two_gives_the_same_bits(n, config, kind):
    events = draw(40 + n, n, 300 if COMPILED else 100, kind, change=200)
    expected = make(n, kind, config)
    predictions = expected.play(events)
    for factor in (2.0**-40, 2.0**37) if COMPILED else (2.0**-40,):
        mixture = make(n, kind, config)
        assert (mixture.play(scaled(events, factor)) == predictions).all()
        assert (mixture.aggregator.shares == expected.aggregator.shares).all()
        assert (factor**2 * mixture.metric().matrix == expected.metric().matrix).all()


@pytest.mark.parametrize("factor", [1e-100, 1.0 / 3e7, 1e9] if COMPILED else [1e-12])
@pytest.mark.parametrize("kind", KINDS)
def test_a_common_factor_does_not_matter(kind, factor):
    cases = [(5, SMALL, True), (3, None, False), *([(25, None, True), (129, None, True)] if COMPILED else [])]
    for n, config, compiled in cases:
        events = draw(50 + n, n, 100, kind)
        expected = make(n, kind, config, compiled).play(events)
        predictions = make(n, kind, config, compiled).play(scaled(events, factor))
        np.testing.assert_allclose(predictions, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["pairs", "sparse", "relatives"])
@pytest.mark.parametrize("compiled", [False, True])
def test_pairs_of_equal_points_come_first(kind, compiled):
    """However many there are, they say nothing about the scale of the data."""
    events = draw(60, 3, 60, kind, difficult=False)
    for n_equal in (WARMUP - 1, WARMUP + 4):
        if kind == "relatives":
            start = Relatives(np.zeros((n_equal, 3)), np.zeros((n_equal, 3)))
        else:
            zeros = np.zeros((n_equal, 3))
            start = Events(csr_array(zeros) if kind == "sparse" else zeros, np.ones(n_equal))
        predictions = []
        for factor in (1.0, 1e6):
            mixture = make(3, kind, compiled=compiled)
            assert np.isfinite(mixture.play(start)).all()
            predictions.append(mixture.play(scaled(events, factor)))
        np.testing.assert_allclose(*predictions, rtol=1e-6, atol=1e-6)
        assert np.abs(predictions[0]).max() < 50.0


def test_units_of_features_matter_only_through_the_euclidean_kinds():
    """Standardized distances depend on units only as far as scales are shrunk toward their mean, by three pairs."""
    n, rounds, config = 6, 400, AdaptiveConfig()
    kinds, units = Kinds(n, False, config), np.array([1.0, 1e3, 1e-2, 5.0, 1.0, 0.1])
    events, squares = draw(70, n, rounds, difficult=False), []
    for U in (events.U, events.U * units):
        squares.append(np.empty((rounds, len(kinds.names))))
        bases = PlainBases(kinds, n, config)
        bases.measure_and_learn(Events(U, events.y), np.ones(rounds), 1, squares[-1], squares[-1])
    ratios = dict(zip(kinds.names, np.abs(np.log(squares[1][-100:] / squares[0][-100:])).max(axis=0), strict=True))
    # The logarithm of a scale is shrunk by config.ridge pairs of more than 250 discounted ones.
    shrinkage = config.ridge / 250 * 2.0 * np.log(units.max() / units.min())
    for k in kinds.scaled:
        assert ratios[kinds.names[k]] < 2.0 * shrinkage
    assert ratios["Euclidean"] > 2.0
    assert ratios["COMID 2.4"] > 2.0


# -- The exported metric --

EXPORTED = [*SMALL_SIZES, *([(1, None), (25, None), (130, None)] if COMPILED else [])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "config"), EXPORTED)
def test_the_exported_metric_predicts_the_next_event(n, config, kind):
    """During the warm-up the scales include the pair that is predicted, so that they are not yet known."""
    events = draw(80 + n, n, 260 if COMPILED else 60, kind, change=180)
    for mixture in (make(n, kind, config), make(n, kind, config, compiled=False)):
        assert len(mixture.play(events[: WARMUP + 4])) == WARMUP + 4  # up to four events of zeros
        for t in range(WARMUP + 4, len(events) - 10, 11):
            metric, event = mixture.metric(), events[t : t + 1]
            if kind == "relatives":
                expected = metric.squared_length(event.far) - metric.squared_length(event.near)
            else:
                expected = metric.threshold - metric.squared_length(event.U)
            assert metric.round == t
            assert mixture.play(events[t : t + 11])[0] == pytest.approx(expected[0], rel=RTOL, abs=RTOL)
        eigenvalues = np.linalg.eigvalsh(mixture.metric().matrix)
        assert eigenvalues[0] >= -RTOL * eigenvalues[-1]
        assert eigenvalues[-1] > 0.0


@pytest.mark.skipif(not COMPILED, reason="many features are slow in plain Python")
@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_of_many_features_is_a_diagonal_and_few_directions(kind):
    mixture = make(200, kind)
    for first in range(0, 600, 100):
        mixture.play(draw(first, 200, 100, kind))
        form = mixture.metric().arrays()
        assert form["diagonal"].shape == (200,)
        assert len(form["rows"]) <= 64


def test_the_kinds_of_distances_by_number_of_features():
    few, more, many = (Kinds(n, False, AdaptiveConfig()) for n in (32, 60, 129))
    sparse = Kinds(3, True, AdaptiveConfig())
    assert few.priors == more.priors == ("Euclidean", "standardized", "whitened")
    assert many.priors == sparse.priors == ("Euclidean", "standardized")
    assert {few.max_rank, more.max_rank, many.max_rank, sparse.max_rank} == {8}
    assert few.learned[:4] == ("window 16", "window 64", "window 256", "window 1024")
    assert more.learned[:3] == ("window 64", "window 256", "window 1024")  # a shorter one could not fill its moments
    assert many.learned == sparse.learned == ("COMID 30", "COMID 10", "COMID 3", "COMID 1")
    assert [few.names[k] for k in few.scaled] == [
        "standardized",
        "whitened",
        "standardized window 32",
        "standardized window 128",
        "standardized window 512",
    ]
    mixture = Mixture(3)
    assert len(mixture.expert_names) == len(mixture.aggregator.shares)
    assert mixture.expert_names[-5:] == ("memory 1", "memory 2", "memory 3", "all learned", "all learned 1:3 prior")
