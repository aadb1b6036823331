"""The online baselines: each step agrees with its paper, by closed forms, optimality conditions and literal loops."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

from ocelad import Comid, LearnerBank, Metric, Ocelad, Pair, Relative
from ocelad.lab.baselines import logdet
from ocelad.lab.baselines.adagrad import AdaGrad
from ocelad.lab.baselines.comid_variants import ResettingLearner, ScheduledComid, inverse_root
from ocelad.lab.baselines.ftrl import Ftrl
from ocelad.lab.baselines.itml_online import OnlineItml
from ocelad.lab.baselines.kissme import ForgettingKissme
from ocelad.lab.baselines.lego import Lego
from ocelad.lab.baselines.metric_learner import clip_negative_eigenvalue, project_psd
from ocelad.lab.baselines.oasis import Oasis, Similarity
from ocelad.lab.baselines.pola import Pola
from ocelad.learners.losses import LOSSES
from ocelad.pairs import Event, Events, as_sparse
from ocelad.testing import check_learner
from ocelad.testing import strategies as made

N = 4
EXACT = 1e-9  # same mathematics, other arithmetic

LEARNERS = {
    "rated": lambda start: ScheduledComid(start, rate=inverse_root(0.1)),
    "rated_burg": lambda start: ScheduledComid(start, rate=0.01, divergence="burg", shrinkage=0.1),
    "reinitialised": lambda start: ResettingLearner(lambda: Comid(start, step_size=0.1)),
    "itml": OnlineItml,
    "itml_large": lambda start: OnlineItml(start, eta=100.0, similar_target=0.01, dissimilar_target=30.0),
    "lego": Lego,
    "lego_large": lambda start: Lego(start, eta=100.0, similar_target=0.01, dissimilar_target=30.0),
    "pola": Pola,
    "pola_capped": lambda start: Pola(start, aggressiveness=0.01),
    "adagrad_entry": lambda start: AdaGrad(start, step_size=0.3),
    "adagrad_matrix": lambda start: AdaGrad(start, step_size=1.0, per="matrix", loss="logistic"),
    "adagrad_shrunk": lambda start: AdaGrad(start, step_size=0.3, shrinkage=0.1, delta=1.0, loss="squared_hinge"),
    "ftrl": lambda start: Ftrl(start, step_size=0.3),
    "kissme": ForgettingKissme,
    "kissme_short": lambda start: ForgettingKissme(start, window=2, regularization=1e-3),
    "ftrl_shrunk": lambda start: Ftrl(start, step_size=0.3, loss="logistic", shrinkage=0.05),
}
each_learner = pytest.mark.parametrize("name", LEARNERS)
# The oracle does not validate events: its learner does, and Comid leaves that to banks.
each_checking = pytest.mark.parametrize("name", [name for name in LEARNERS if name != "reinitialised"])


def random_metric(rng, n=N):
    A = rng.normal(size=(n, n))
    return Metric(A @ A.T / n + 0.05 * np.eye(n), threshold=rng.uniform(1, 3))


def random_events(rng, count, n=N):
    return [Event(rng.normal(size=n), float(rng.choice([-1.0, 1.0]))) for _ in range(count)]


def random_pairs(rng, count, n=N):
    """Draw pairs of a few recurring points and of new ones."""
    known = rng.normal(size=(6, n))
    for _ in range(count):
        x, z = (known[rng.integers(6)] if rng.random() < 0.5 else rng.normal(size=n) for _ in range(2))
        yield Pair(x, z, bool(rng.random() < 0.5))


def is_rejected(learner, event):
    """Return whether the learner rejects the event because of its size."""
    try:
        learner.update(event)
    except FloatingPointError as error:
        return "smaller scale" in str(error)
    return False


def nearest_psd(S):
    values, V = np.linalg.eigh(S)
    return (V * np.maximum(values, 0)) @ V.T


# --- all learners


@each_learner
def test_keeps_the_contract_of_learners(name):
    rng = np.random.default_rng(1)
    start = random_metric(rng)
    check_learner(lambda: LEARNERS[name](start), random_events(rng, 30))


@each_learner
@settings(max_examples=12)
@given(stream=made.streams(3, max_size=15), seed=st.integers(0, 100))
def test_plays_metrics_and_counts_rounds(name, stream, seed):
    start = random_metric(np.random.default_rng(seed), 3)
    learner = LEARNERS[name](start)
    for t, event in enumerate(stream, start=1):
        learner.update(event)
        metric = learner.play()
        M = metric.matrix
        assert (M == M.T).all()
        assert np.linalg.eigvalsh(M)[0] >= -1e-12 * np.abs(M).max()
        assert metric.threshold >= 1.0
        assert metric.round == t


@each_learner
@pytest.mark.parametrize("y", [1.0, -1.0])
def test_one_sided_streams_and_equal_points_are_accepted(name, y):
    rng = np.random.default_rng(2)
    learner = LEARNERS[name](random_metric(rng))
    for t in range(40):
        learner.update(Event(np.zeros(N) if t % 4 == 0 else rng.normal(size=N), y))
    Metric(learner.play().matrix)  # validates the matrix


@each_checking
def test_the_order_and_the_representation_of_the_points_do_not_matter(name):
    rng = np.random.default_rng(3)
    start = random_metric(rng)
    dense, swapped, sparse, pairs = (LEARNERS[name](start) for _ in range(4))
    for u, y in random_events(rng, 20):
        dense.update(Event(u, y))
        swapped.update(Event(-u, y))
        sparse.update(Event(as_sparse(u), y))
        pairs.update(Pair(u, np.zeros(N), y))
    assert dense.play() == swapped.play() == sparse.play() == pairs.play()


@each_learner
def test_rotating_the_data_rotates_the_metric(name):
    rng = np.random.default_rng(4)
    Q, _ = np.linalg.qr(rng.normal(size=(N, N)))
    start = random_metric(rng)
    rotated_start = Q @ start.matrix @ Q.T
    one = LEARNERS[name](start)
    other = LEARNERS[name](Metric((rotated_start + rotated_start.T) / 2, start.threshold))
    for u, y in random_events(rng, 25):
        one.update(Event(u, y))
        other.update(Event(Q @ u, y))
    rotated = Q @ one.play().matrix @ Q.T
    distance = np.linalg.norm(other.play().matrix - rotated) / np.linalg.norm(rotated)
    if name in ("adagrad_entry", "adagrad_shrunk"):
        assert distance > 0.01  # as documented
    else:
        assert distance < EXACT
        np.testing.assert_allclose(other.play().threshold, one.play().threshold, rtol=EXACT)


@each_learner
@pytest.mark.parametrize("scale", [1e-160, 1e-100, 1e-20, 1e20, 1e60, 1e100, 1e149])
def test_data_of_any_scale_are_handled_or_rejected(name, scale):
    rng = np.random.default_rng(5)
    learner = LEARNERS[name](random_metric(rng))
    for u, y in random_events(rng, 12):
        before = learner.play()
        if is_rejected(learner, Event(scale * u, y)):
            assert learner.play() is before
            assert scale >= 1e60  # smaller data must be handled
        M = learner.play().matrix
        assert (M == M.T).all()
        assert np.linalg.eigvalsh(M)[0] >= -1e-12 * np.abs(M).max()


BAD_EVENTS = {
    "nan": Event(np.array([1.0, np.nan, 0.0, 0.0]), 1.0),
    "infinite": Event(np.array([np.inf, 0.0, 0.0, 0.0]), -1.0),
    "short": Event(np.ones(N - 1), 1.0),
    "matrix": Event(np.ones((1, N)), 1.0),
    "empty": Event(np.empty(0), 1.0),
    "too far": Event(np.full(N, 1e160), 1.0),
    "text": Event("abcd", 1.0),
    "nothing": Event(None, 1.0),
    "label": Event(np.ones(N), 0.5),
    "label text": Event(np.ones(N), "similar"),
    "array": np.ones(N),
    "none": None,
}


@each_checking
@pytest.mark.parametrize("bad", BAD_EVENTS)
def test_invalid_events_are_rejected_and_change_nothing(name, bad):
    rng = np.random.default_rng(6)
    learner = LEARNERS[name](random_metric(rng))
    twin = deepcopy(learner)
    good, later = random_events(rng, 2)
    learner.update(good)
    twin.update(good)
    for call in (learner.update, learner.loss):
        with pytest.raises((TypeError, ValueError)) as raised:
            call(BAD_EVENTS[bad])
        assert "\n" not in str(raised.value)
    learner.update(later)
    twin.update(later)
    assert learner.play() == twin.play()


@each_learner
def test_it_works_as_a_learner_of_an_ensemble(name):
    rng = np.random.default_rng(7)
    first = random_metric(rng)
    bank = LearnerBank(lambda scale, start: LEARNERS[name](first if start is None else start), Metric.average)
    tracker = Ocelad(bank)
    for event in random_events(rng, 20):
        losses = tracker.step(event).losses
    assert len(losses) == 5
    Metric(tracker.play().matrix)


@pytest.mark.parametrize(
    "make", [OnlineItml, Lego, Pola, AdaGrad, Ftrl, ForgettingKissme, lambda start: ScheduledComid(start, rate=0.1)]
)
def test_start_must_be_a_metric(make):
    with pytest.raises(TypeError, match="start must be a Metric; got ndarray"):
        make(np.eye(2))


@pytest.mark.parametrize(
    ("make", "wrong", "words"),
    [
        (OnlineItml, {"eta": 0}, "eta must be a finite number above 0"),
        (Lego, {"eta": np.nan}, "eta must be a finite number above 0"),
        (Lego, {"similar_target": 0}, "similar_target must be a finite number above 0"),
        (
            OnlineItml,
            {"similar_target": 2.0, "dissimilar_target": 1.0},
            "accepted: similar_target at most dissimilar_target",
        ),
        (Pola, {"aggressiveness": -1}, "aggressiveness must be a finite number above 0"),
        (AdaGrad, {"per": "row"}, "per must be one of 'entry', 'matrix'"),
        (AdaGrad, {"delta": 0}, "delta must be a finite number above 0"),
        (AdaGrad, {"step_size": -1}, "step_size must be a finite number above 0"),
        (AdaGrad, {"loss": "hing"}, "loss must be one of"),
        (Ftrl, {"step_size": 0}, "step_size must be a finite number above 0"),
        (ForgettingKissme, {"window": 1}, "window must be a whole number of at least 2"),
        (ForgettingKissme, {"regularization": 0}, "regularization must be a finite number above 0"),
        (Ftrl, {"shrinkage": -1}, "shrinkage must be a finite number of at least 0"),
        (ScheduledComid, {"rate": 0}, "rate must be a finite number above 0"),
        (ScheduledComid, {"rate": []}, "rate is empty"),
        (ScheduledComid, {"rate": [0.1, -0.1]}, "rate holds -0.1 at position 1"),
        (ScheduledComid, {"rate": "0.1"}, "rate must be a finite number above 0"),
        (ScheduledComid, {"rate": lambda t: -t}, "the rate of round 1 must be a finite number above 0"),
    ],
)
def test_invalid_settings_are_rejected(make, wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make(Metric(np.eye(2)), **wrong)


@pytest.mark.parametrize("make", [OnlineItml, Lego])
def test_logdet_needs_a_positive_definite_start(make):
    with pytest.raises(ValueError, match="got a metric of rank 1 in 2 dimensions"):
        make(Metric(np.diag([1.0, 0.0])))


@pytest.mark.parametrize("make", [OnlineItml, Lego])
def test_the_targets_may_be_equal(make):
    assert make(Metric(np.eye(2)), similar_target=2.0, dissimilar_target=2.0).targets == (2.0, 2.0)


@pytest.mark.parametrize("make", [Pola, AdaGrad, Ftrl])
def test_the_initial_threshold_must_be_1_or_more(make):
    with pytest.raises(ValueError, match=r"threshold of start must be at least 1 .*; got 0.5"):
        make(Metric(np.eye(2), threshold=0.5))


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_projections_are_the_nearest_psd_matrices(seed, n):
    rng = np.random.default_rng(seed)
    L, u, S = rng.normal(size=(n, rng.integers(1, n + 1))), rng.normal(size=n), rng.normal(size=(n, n))
    downdated = L @ L.T - np.outer(u, u)  # of full rank or not
    np.testing.assert_allclose(
        clip_negative_eigenvalue(downdated), nearest_psd(downdated), atol=1e-12 * np.abs(downdated).max()
    )
    np.testing.assert_allclose(project_psd(S + S.T), nearest_psd(S + S.T), atol=1e-12 * np.abs(S).max())


# --- COMID with a schedule, and the oracle


@pytest.mark.parametrize("settings", [{}, {"loss": "logistic", "shrinkage": 0.2}, {"divergence": "von_neumann"}])
def test_a_constant_rate_is_comid_bit_for_bit(settings):
    rng = np.random.default_rng(8)
    start = random_metric(rng)
    one, other = ScheduledComid(start, rate=0.05, **settings), Comid(start, step_size=0.05, **settings)
    for event in random_events(rng, 30):
        assert one.loss(event) == other.loss(event)
        one.update(event)
        other.update(event)
        assert one.play() == other.play()


@pytest.mark.parametrize("given_as", [lambda etas: etas, np.array, lambda etas: lambda t: etas[min(t, len(etas)) - 1]])
def test_a_sequence_of_rates_is_a_sequence_of_comid_steps(given_as):
    rng = np.random.default_rng(9)
    etas = [0.3, 0.1, 0.5, 0.02]
    metric = random_metric(rng)
    learner = ScheduledComid(metric, rate=given_as(etas))
    for t, event in enumerate(random_events(rng, 7)):
        assert learner.step_size == etas[min(t, 3)]  # the last rate applies to all further rounds
        step = Comid(metric, step_size=etas[min(t, 3)])
        step.update(event)
        metric = step.play()
        learner.update(event)
        assert learner.play() == metric


def test_an_invalid_rate_in_a_later_round_changes_nothing():
    learner = ScheduledComid(Metric(np.eye(2)), rate=lambda t: 0.1 if t < 2 else np.nan)
    event = Event(np.array([1.0, 0.0]), 1.0)
    learner.update(event)
    before = learner.play()
    with pytest.raises(ValueError, match="the rate of round 2 must be a finite number above 0; got nan"):
        learner.update(event)
    assert learner.play() is before


def test_scheduled_comid_learns_from_relative_comparisons():
    event = Relative(near=np.array([1.0, 0.0]), far=np.array([0.0, 1.0]))
    one, other = ScheduledComid(Metric(np.eye(2)), rate=0.1), Comid(Metric(np.eye(2)), step_size=0.1)
    one.update(event)
    other.update(event)
    assert one.play() == other.play()


def test_inverse_root_can_be_pickled_and_printed():
    rate = inverse_root(0.3)
    assert pickle.loads(pickle.dumps(rate)) == rate
    assert eval(repr(rate)) == rate
    assert [rate(t) for t in (1, 9)] == [0.3, 0.3 / 3]
    learner = ScheduledComid(Metric(np.eye(2)), rate=rate)
    learner.update(Event(np.ones(2), 1.0))
    assert pickle.loads(pickle.dumps(learner)).step_size == learner.step_size == rate(2)
    with pytest.raises(ValueError, match="eta0 must be a finite number above 0; got -1"):
        inverse_root(-1)


def test_the_oracle_forgets_everything_at_a_reset():
    rng = np.random.default_rng(10)
    start = random_metric(rng)
    oracle = ResettingLearner(lambda: Pola(start))
    before, after = random_events(rng, 10), random_events(rng, 10)
    fresh = Pola(start)
    for event in before:
        oracle.update(event)
    copied = deepcopy(oracle)
    learned = oracle.play()
    oracle.reset()
    assert oracle.play() == start
    assert copied.play() == learned
    for event in after:
        oracle.update(event)
        fresh.update(event)
        assert oracle.loss(event) == fresh.loss(event)
    assert oracle.play() == fresh.play()
    with pytest.raises(TypeError, match="create must be a function that returns a learner; got Pola"):
        ResettingLearner(fresh)


# --- LogDet: ITML and LEGO


def pull(make, y, seed, **settings):
    """Update a random start on one violated pair; return M before and after, u, both distances and the target."""
    rng = np.random.default_rng(seed)
    start = random_metric(rng, 3)
    u = rng.normal(size=3)
    d2 = u @ start.matrix @ u
    near, far = (d2 / rng.uniform(1.2, 5), 10 * d2) if y > 0 else (d2 / 10, d2 * rng.uniform(1.2, 5))
    learner = make(start, similar_target=near, dissimilar_target=far, **settings)
    learner.update(Event(u, y))
    M = learner.play().matrix
    return start.matrix, M, u, d2, u @ M @ u, near if y > 0 else far


@pytest.mark.parametrize("y", [1.0, -1.0])
@given(seed=st.integers(0, 10_000), eta=st.floats(1e-3, 1e3))
def test_lego_solves_its_own_equation_exactly(y, seed, eta):
    before, M, u, d2, q, p = pull(Lego, y, seed, eta=eta)
    # The optimality condition: inv(M') = inv(M) + eta (q - p) uu' with q the distance after the step.
    np.testing.assert_allclose(
        np.linalg.inv(M), np.linalg.inv(before) + eta * (q - p) * np.outer(u, u), rtol=1e-6, atol=1e-6 / np.abs(M).max()
    )
    np.testing.assert_allclose(eta * d2 * q * q + (1 - eta * p * d2) * q, d2, rtol=EXACT * (1 + eta * d2 * p))
    assert min(d2, p) < q < max(d2, p)  # towards the target, without overshooting


@pytest.mark.parametrize("y", [1.0, -1.0])
@given(seed=st.integers(0, 10_000), eta=st.floats(1e-3, 10))
def test_itml_takes_a_gradient_step_without_overshooting(y, seed, eta):
    before, M, u, d2, q, p = pull(OnlineItml, y, seed, eta=eta)
    step = eta if y > 0 else min(eta, 1 / (2 * d2 * p))
    np.testing.assert_allclose(
        np.linalg.inv(M),
        np.linalg.inv(before) + 2 * step * (d2 - p) * np.outer(u, u),
        rtol=1e-6,
        atol=1e-6 / np.abs(M).max(),
    )
    if y < 0:
        assert d2 < q <= p * (1 + EXACT)


@pytest.mark.parametrize("y", [1.0, -1.0])
@pytest.mark.parametrize("make", [Lego, OnlineItml])
def test_logdet_steps_minimise_their_objective(make, y):
    lower, eta = np.tril_indices(3), 0.004
    for seed in range(3):
        before, M, u, d2, _, p = pull(make, y, seed, eta=eta)
        assert 2 * eta * d2 * p < 1 or y > 0  # otherwise ITML reduces its step

        def objective(entries, before=before, u=u, d2=d2, p=p):
            L = np.zeros((3, 3))
            L[lower] = entries
            A = L @ L.T + 1e-300 * np.eye(3)
            fit = eta / 2 * (u @ A @ u - p) ** 2 if make is Lego else eta * 2 * (d2 - p) * (u @ A @ u)
            return logdet.logdet_divergence(A, before) + fit

        found = minimize(objective, np.linalg.cholesky(before)[lower], method="BFGS", options={"gtol": 1e-9})
        own = objective(np.linalg.cholesky(M)[lower])
        assert own <= found.fun + 1e-12
        assert own >= found.fun - 1e-8
        assert own < objective(np.linalg.cholesky(before)[lower])


@given(seed=st.integers(0, 10_000), eta=st.floats(1e-3, 1e3), y=st.sampled_from([1.0, -1.0]))
def test_lego_approaches_every_metric_that_satisfies_the_constraint(seed, eta, y):
    before, M, u, _, _, p = pull(Lego, y, seed, eta=eta)
    rng = np.random.default_rng(seed + 1)
    feasible = random_metric(rng, 3).matrix
    feasible = feasible * p / (u @ feasible @ u) * (rng.uniform(0.2, 1) if y > 0 else rng.uniform(1, 5))
    assert logdet.logdet_divergence(feasible, M) <= logdet.logdet_divergence(feasible, before) * (1 + EXACT)


@pytest.mark.parametrize("make", [Lego, OnlineItml])
def test_a_pair_that_satisfies_its_constraint_changes_nothing(make):
    learner = make(Metric(np.eye(2), threshold=2.0))
    assert learner.targets == (1.5, 2.5)
    for event in (Event(np.array([1.0, 0.0]), 1.0), Event(np.array([0.0, 2.0]), -1.0)):
        assert learner.loss(event) == 0.0
        learner.update(event)
    assert learner.play() == Metric(np.eye(2), threshold=2.0, round=2)
    assert learner.loss(Event(np.array([2.0, 0.0]), 1.0)) == 6.25
    assert learner.loss(Event(np.array([0.0, 1.0]), -1.0)) == 2.25


@pytest.mark.parametrize("make", [Lego, OnlineItml])
def test_long_streams_agree_with_rank_one_updates(make):
    rng = np.random.default_rng(11)
    learner = make(random_metric(rng))
    M = learner.play().matrix
    for event in random_events(rng, 300):
        learner.update(event)
        q, d2 = (event.u @ matrix @ event.u for matrix in (learner.play().matrix, M))
        M = logdet.rank_one_update(M, event.u, (q / d2 - 1) / d2)
        np.testing.assert_allclose(learner.play().matrix, M, atol=EXACT * np.abs(M).max())


@pytest.mark.parametrize("make", [Lego, OnlineItml])
@pytest.mark.parametrize("factor", [1e-100, 1e-3, 1e60])
def test_only_squared_distances_matter(make, factor):
    rng = np.random.default_rng(21)
    start = random_metric(rng)
    one, other = make(start), make(Metric.from_trusted_matrix(start.matrix / factor / factor, start.threshold))
    for u, y in random_events(rng, 30):
        assert one.loss(Event(u, y)) == pytest.approx(other.loss(Event(factor * u, y)), rel=1e-6)
        one.update(Event(u, y))
        other.update(Event(factor * u, y))
        M = one.play().matrix
        np.testing.assert_allclose(other.play().matrix * factor * factor, M, atol=EXACT * np.abs(M).max())


@pytest.mark.parametrize("make", [Lego, OnlineItml])
@pytest.mark.parametrize("length", [1e-30, 1e-6, 0.9])
def test_a_large_step_reaches_the_target(make, length):
    learner = make(Metric(np.eye(2)), eta=1e100, similar_target=1.0, dissimilar_target=10.0)
    u = length * np.array([0.6, 0.8])
    learner.update(Event(u, -1.0))
    assert u @ learner.play().matrix @ u == pytest.approx(10.0, rel=EXACT)


@pytest.mark.parametrize("make", [OnlineItml, Lego])
def test_replay_agrees_with_single_updates(make):
    rng = np.random.default_rng(31)
    start, U = random_metric(rng), rng.normal(size=(60, N))
    U[7] = 0.0
    events = Events(U, rng.choice([-1.0, 1.0], size=60))
    whole, parts, sparse, single = (make(start) for _ in range(4))
    whole.replay(events)
    for first in range(0, 60, 13):
        parts.replay(events[first : first + 13])
        assert parts.play().round == min(first + 13, 60)
    sparse.replay(Events(csr_array(U), events.y))
    for event in events:
        single.update(event)
    assert whole.play() == parts.play() == sparse.play() == single.play()
    assert whole.play() is whole.play()
    with pytest.raises(ValueError, match="features"):
        whole.replay(Events(np.ones((2, N + 1)), [1, 1]))
    assert whole.play() == single.play()


def test_a_rejected_replay_has_learned_from_the_events_before():
    rng = np.random.default_rng(32)
    start = Metric(1e100 * np.eye(N))
    U = np.concatenate([1e-51 * rng.normal(size=(5, N)), np.full((1, N), 1e140), 1e-51 * rng.normal(size=(1, N))])
    replayed, single = OnlineItml(start), OnlineItml(start)
    with pytest.raises(FloatingPointError, match="the metric overflows"):
        replayed.replay(Events(U, np.ones(7)))
    for event in Events(U, np.ones(7))[:5]:
        single.update(event)
    assert replayed.play() == single.play()
    assert replayed.play().round == 5


def test_a_metric_that_would_overflow_is_rejected():
    learner = OnlineItml(Metric(np.eye(2)), eta=1e300, dissimilar_target=1e100)
    before = learner.play()
    assert is_rejected(learner, Event(np.array([1e-140, 0.0]), -1.0))
    assert learner.play() is before


# --- POLA


@pytest.mark.parametrize("y", [1.0, -1.0])
def test_pola_projects_onto_the_constraint_then_onto_the_metrics(y):
    clipped = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        start = random_metric(rng, 2)
        u = rng.normal(size=2)
        u *= np.sqrt(start.threshold * (2 if y > 0 else 0.5) / (u @ start.matrix @ u))
        learner = Pola(start)
        assert learner.loss(Event(u, y)) > 0
        learner.update(Event(u, y))
        before = np.append(start.matrix.ravel(), start.threshold)
        normal = y * np.append(-np.outer(u, u).ravel(), 1.0)
        found = minimize(
            lambda at, before=before: np.square(at - before).sum(),
            before,
            jac=lambda at, before=before: 2 * (at - before),
            constraints={"type": "ineq", "fun": lambda at, normal=normal: normal @ at - 1},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        A = found.x[:4].reshape(2, 2)
        np.testing.assert_allclose(learner.play().matrix, nearest_psd(A), atol=1e-6)
        np.testing.assert_allclose(learner.play().threshold, max(1.0, found.x[4]), atol=1e-6)
        clipped += np.linalg.eigvalsh(A)[0] < -1e-6
    assert clipped > 0 or y < 0


def test_pola_never_moves_away_from_a_metric_without_error():
    rng = np.random.default_rng(12)
    truth = random_metric(rng).scaled(4.0)
    b = 3.0
    learner = Pola(Metric(np.zeros((N, N))))
    distance, errors = np.inf, 0
    for _ in range(400):
        u = rng.normal(size=N)
        d2 = u @ truth.matrix @ u
        if abs(b - d2) < 1:
            continue
        event = Event(u, 1.0 if d2 < b else -1.0)
        loss = learner.loss(event)
        before = distance
        learner.update(event)
        distance = np.square(learner.play().matrix - truth.matrix).sum() + (learner.play().threshold - b) ** 2
        # Each step decreases the distance by at least l^2 / (|u|^4 + 1), as in the proof of the paper's bound.
        assert distance <= before - loss**2 / ((u @ u) ** 2 + 1) + 1e-12 or before == np.inf
        errors += loss > 0
    assert 10 < errors < 400


@pytest.mark.parametrize("scale", [0.0, 1e-160, 1e-30, 0.5, 2.0, 1e60, 1e149])
def test_pola_has_a_closed_form_at_any_scale(scale):
    learner = Pola(Metric(np.zeros((2, 2))))
    u = scale * np.array([0.6, 0.8])
    learner.update(Event(u, -1.0))
    # From A = 0 and b = 1 the loss is 2 and d2 = 2 s^2 / (s^2 + 1) afterwards, with s = |u|^2.
    s = scale * scale
    assert u @ learner.play().matrix @ u == pytest.approx(2 / (1 + 1 / s / s) if s > 1 else 2 * s * s / (s * s + 1))
    assert learner.play().threshold == 1.0


def test_aggressiveness_bounds_the_step_of_pola():
    u = np.array([1.0, 0.0])
    for bound, alpha in ((0.25, 0.25), (1.0, 0.5), (None, 0.5)):
        learner = Pola(Metric(np.eye(2)), aggressiveness=bound)
        learner.update(Event(u, 1.0))  # loss 1, |u|^4 + 1 = 2
        np.testing.assert_allclose(learner.play().matrix, np.diag([1 - alpha, 1.0]))
        np.testing.assert_allclose(learner.play().threshold, 1 + alpha)


# --- AdaGrad and FTRL


@pytest.mark.parametrize("per", ["entry", "matrix"])
def test_adagrad_rejects_gradients_whose_squares_overflow(per):
    # They would make the rate 0 in all further rounds.
    learner = AdaGrad(Metric(np.eye(2)), per=per)
    assert is_rejected(learner, Event(np.array([1e100, 0.0]), 1.0))
    learner.update(Event(np.array([1.0, 0.0]), 1.0))
    assert learner.play().matrix[0, 0] < 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("per", ["entry", "matrix"])
@pytest.mark.parametrize("rho", [0.0, 0.2])
def test_adagrad_is_the_literal_loop(loss, per, rho):
    rng = np.random.default_rng(13)
    start = random_metric(rng)
    eta, delta = 0.4, 0.5
    learner = AdaGrad(start, step_size=eta, per=per, loss=loss, shrinkage=rho, delta=delta)
    M, mu = start.matrix.copy(), start.threshold
    history = []
    for u, y in random_events(rng, 40):
        g = LOSSES[loss].slope(y * (mu - u @ M @ u))
        assert learner.loss(Event(u, y)) == pytest.approx(LOSSES[loss].value(y * (mu - u @ M @ u)))
        history.append(np.append((g * y * np.outer(u, u)).ravel(), -g * y))
        sums = np.square(history).sum(axis=0)
        roots = np.sqrt(sums if per == "entry" else np.full_like(sums, sums.sum())) + delta
        step = (history[-1] + np.append(rho * np.eye(N).ravel(), 0.0)) * eta / roots
        M = nearest_psd(M - step[:-1].reshape(N, N))
        mu = max(1.0, mu - step[-1])
        learner.update(Event(u, y))
        np.testing.assert_allclose(learner.play().matrix, M, atol=EXACT)
        np.testing.assert_allclose(learner.play().threshold, mu, rtol=EXACT)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rho", [0.0, 0.1])
def test_ftrl_minimises_its_objective(loss, rho):
    rng = np.random.default_rng(14)
    start = random_metric(rng)
    eta = 0.3
    learner = Ftrl(start, step_size=eta, loss=loss, shrinkage=rho)
    gradient, slope = np.zeros((N, N)), 0.0
    singular = above = 0
    for t, (u, y) in enumerate(random_events(rng, 40), start=1):
        played = learner.play()
        g = LOSSES[loss].slope(y * (played.threshold - u @ played.matrix @ u))
        gradient += g * y * np.outer(u, u) + rho * np.eye(N)
        slope -= g * y
        learner.update(Event(u, y))
        M, mu = learner.play().matrix, learner.play().threshold
        # Optimality over the cone: the gradient Z is in the cone, and orthogonal to M.
        Z = gradient + (M - start.matrix) * np.sqrt(t) / eta
        size = np.linalg.norm(gradient) + 1
        assert np.linalg.eigvalsh(Z)[0] >= -EXACT * size
        assert abs(np.sum(Z * M)) <= EXACT * size
        z = slope + (mu - start.threshold) * np.sqrt(t) / eta
        assert z == pytest.approx(0.0, abs=EXACT * size) if mu > 1 else z >= -EXACT * size
        singular += np.linalg.eigvalsh(M)[0] < 1e-12
        above += mu > 1
    assert singular
    assert above


# --- OASIS


def literal_oasis(pairs, n, C, memory):
    """Return W by the documented algorithm, with lists."""
    W, known = np.eye(n), {True: [], False: []}
    for pair in pairs:
        other = known[not pair.similar][-memory:]
        if other:
            ends = [(a, b) for x, z in other for a, b in ((x, z), (z, x))][::-1]
            triplets = []
            for p, partner in ((pair.x, pair.z), (pair.z, pair.x)):
                _, third = min(ends, key=lambda end: ((end[0] - p) ** 2).sum())
                triplets.append((p, partner, third) if pair.similar else (p, third, partner))
            for p, like, unlike in triplets:
                loss = max(0.0, 1 - p @ W @ like + p @ W @ unlike)
                V = np.outer(p, like - unlike)
                if loss > 0 and np.any(V):
                    W = W + min(C, loss / np.square(V).sum()) * V
        known[pair.similar].append((pair.x, pair.z))
    return W


@pytest.mark.parametrize(("C", "memory"), [(0.01, 5), (10.0, 3), (0.1, 1), (0.1, 100)])
def test_oasis_is_the_literal_loop(C, memory):
    pairs = list(random_pairs(np.random.default_rng(15), 60))
    learner = Oasis(N, aggressiveness=C, memory=memory)
    for pair in pairs:
        learner.update(pair)
    np.testing.assert_allclose(learner.play().matrix, literal_oasis(pairs, N, C, memory), rtol=EXACT, atol=1e-12)
    assert learner.play().round == 60


@pytest.mark.parametrize("C", [0.05, 1e6])
def test_oasis_solves_its_passive_aggressive_problem(C):
    rng = np.random.default_rng(16)
    for _ in range(5):
        p, q = rng.normal(size=(2, 3))
        q *= np.sign(p @ q)  # otherwise the triplet has no loss
        learner = Oasis(3, aggressiveness=C)
        learner.update(Pair(p, q, similar=False))
        learner.update(Pair(p, np.zeros(3), similar=True))  # the triplet of the zero point has V = 0
        W = learner.play().matrix
        loss = max(0.0, 1 + p @ W @ q)
        if C > 1:
            assert loss < 1e-12

        # With a slack variable: minimise |W - I|^2 / 2 + C xi  with  1 - S(p, 0) + S(p, q) <= xi.
        def objective(at):
            return np.square(at[:-1] - np.eye(3).ravel()).sum() / 2 + (C * at[-1] if C < 1 else 0.0)

        found = minimize(
            objective,
            np.append(np.eye(3).ravel(), 1 + p @ q if C < 1 else 0.0),
            bounds=[(None, None)] * 9 + [(0, None if C < 1 else 0)],
            constraints={"type": "ineq", "fun": lambda at: at[-1] - 1 - p @ at[:-1].reshape(3, 3) @ q},  # noqa: B023
            method="SLSQP",
            options={"ftol": 1e-13},
        )
        np.testing.assert_allclose(W, found.x[:-1].reshape(3, 3), atol=1e-5)


def test_oasis_keeps_the_contract_of_learners():
    check_learner(lambda: Oasis(N, aggressiveness=0.1, memory=4), list(random_pairs(np.random.default_rng(17), 30)))


def test_oasis_is_rotation_equivariant():
    rng = np.random.default_rng(18)
    Q, _ = np.linalg.qr(rng.normal(size=(N, N)))
    one, other = Oasis(N, aggressiveness=0.1), Oasis(N, aggressiveness=0.1)
    for pair in random_pairs(rng, 40):
        one.update(pair)
        other.update(Pair(Q @ pair.x, Q @ pair.z, pair.similar))
    np.testing.assert_allclose(other.play().matrix, Q @ one.play().matrix @ Q.T, atol=EXACT)


def test_the_loss_of_oasis_is_the_mean_over_its_triplets():
    learner = Oasis(2)
    similar = Pair([1.0, 0.0], [0.0, 1.0], similar=True)
    assert learner.loss(similar) == 0.0  # no triplet
    learner.update(Pair([1.0, 0.0], [3.0, 0.0], similar=False))
    # ([1,0], [0,1], [3,0]): 1 - 0 + 3; ([0,1], [1,0], [3,0]), as [1,0] is nearest to [0,1]: 1 - 0 + 0.
    assert learner.loss(similar) == 2.5


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Event(np.ones(2), 1.0), r"OASIS learns from a Pair\(x, z, similar\); got Event, which holds differences only"),
        (None, "got NoneType"),
        (Pair(np.ones(3), np.ones(3), True), "x has 3 features; 2 are expected"),
        (Pair([1e200, 0.0], [1e200, 1e140], True), "the points of the pair are too large"),
    ],
)
def test_oasis_rejects_invalid_pairs(wrong, words):
    learner = Oasis(2)
    learner.update(Pair([-1.0, 1.0], [1.0, 0.0], False))
    before = learner.play()
    for call in (learner.update, learner.loss):
        with pytest.raises((TypeError, ValueError, FloatingPointError), match=words):
            call(wrong)
    assert learner.play() is before


@pytest.mark.parametrize("scale", [1e-160, 1e-100, 1e60, 1e100, 1e144])
def test_oasis_handles_or_rejects_data_of_any_scale(scale):
    learner = Oasis(N, aggressiveness=1e6)
    for pair in random_pairs(np.random.default_rng(19), 20):
        before = learner.play()
        if is_rejected(learner, Pair(scale * pair.x, scale * pair.z, pair.similar)):
            assert learner.play() is before
            assert scale > 1e60
    assert np.isfinite(learner.play().matrix).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_features": 0}, "n_features must be a whole number of at least 1"),
        ({"n_features": 2, "aggressiveness": 0}, "aggressiveness must be a finite number above 0"),
        ({"n_features": 2, "memory": 0}, "memory must be a whole number of at least 1"),
        ({"n_features": 2, "start": np.eye(2)}, "start must be a Similarity or None; got ndarray"),
        ({"n_features": 2, "start": Similarity(np.eye(3))}, "start has 3 features; 2 are expected"),
    ],
)
def test_oasis_rejects_invalid_settings(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Oasis(**settings)


def test_oasis_works_as_a_learner_of_an_ensemble():
    def make(scale, start):
        return Oasis(N, aggressiveness=0.1 * scale.rate, start=start)

    tracker = Ocelad(LearnerBank(make, Similarity.average))
    for pair in random_pairs(np.random.default_rng(20), 20):
        tracker.step(pair)
    assert tracker.play().matrix.shape == (N, N)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_similarities_are_bilinear_and_embed_their_psd_part(seed):
    rng = np.random.default_rng(seed)
    W, X, Z = rng.normal(size=(3, 5, 5))
    similarity = Similarity(W, round=3)
    np.testing.assert_allclose(similarity.similarity(X, Z), np.diag(X @ W @ Z.T), atol=1e-12)
    np.testing.assert_allclose(similarity.similarity(X, Z[0]), X @ W @ Z[0], atol=1e-12)
    assert similarity.similarity(X[0], Z[0]) == pytest.approx(X[0] @ W @ Z[0])
    points = similarity.embed(X)
    assert (np.diff(np.square(similarity.components).sum(axis=1)) <= 0).all()
    assert points.shape == (5, similarity.rank)
    np.testing.assert_allclose(points @ points.T, X @ nearest_psd((W + W.T) / 2) @ X.T, atol=1e-10)
    assert pickle.loads(pickle.dumps(similarity)) == similarity != Similarity(W)
    assert similarity.n_features == 5
    with pytest.raises(ValueError, match="read-only"):
        similarity.matrix[0, 0] = 1.0
    with pytest.raises(AttributeError):
        similarity.round = 4


@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_the_rank_of_a_similarity_does_not_depend_on_its_scale(scale):
    A = np.random.default_rng(0).normal(size=(2, 5))
    similarity = Similarity(scale * (A.T @ A))
    assert similarity.rank == 2
    np.testing.assert_allclose(similarity.components.T @ similarity.components, similarity.matrix, atol=1e-12 * scale)


def test_similarity_rejects_invalid_input():
    similarity = Similarity(np.eye(2))
    with pytest.raises(ValueError, match="X has 2 rows and Z has 3"):
        similarity.similarity(np.ones((2, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="X has 3 features; 2 are expected"):
        similarity.embed(np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"matrix has shape \(2, 3\)"):
        Similarity(np.ones((2, 3)))
    assert similarity != "similarity"
    assert Similarity(-np.eye(2)).embed(np.ones((3, 2))).shape == (3, 0)


# --- KISSME


def kissme_by_the_formula(events, start, window, r):
    """Return the matrix of KISSME from a list of pairs, with each pair's weight written out."""
    means = []
    for label in (1.0, -1.0):
        ages = [(len(events) - 1 - t, u) for t, (u, y) in enumerate(events) if y == label]
        weights = [(1 - 1 / window) ** age for age, _ in ages]
        means.append(sum(w * np.outer(u, u) for w, (_, u) in zip(weights, ages, strict=True)) / sum(weights))
    S, D = means
    ridge = r * (np.trace(S) + np.trace(D)) / (2 * len(S)) * np.eye(len(S))
    M = nearest_psd(np.linalg.inv(S + ridge) - np.linalg.inv(D + ridge))
    return M * 2 * start.threshold / np.trace(M @ (S + D))


@given(st.integers(0, 1000), st.integers(2, 40), st.sampled_from([0.01, 0.1, 1.0]))
def test_kissme_is_the_formula_in_single_pairs_and_in_blocks(seed, window, r):
    rng = np.random.default_rng(seed)
    start, events = random_metric(rng), [Event(rng.normal(size=N), y) for y in (1.0, -1.0)]
    events += random_events(rng, 20)
    single, blocks = (ForgettingKissme(start, window=window, regularization=r) for _ in range(2))
    for event in events:
        single.update(event)
    for part in (events[:3], events[3:14], events[14:]):
        blocks.replay(Events(np.array([u for u, _ in part]), np.array([y for _, y in part])))
    expected = kissme_by_the_formula(events, start, window, r)
    for learner in (single, blocks):
        np.testing.assert_allclose(learner.play().matrix, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
        assert learner.play().threshold == start.threshold
        assert learner.play().round == len(events)


def test_kissme_plays_its_start_until_both_labels_were_seen():
    start = Metric(np.eye(N), threshold=2.0)
    learner = ForgettingKissme(start)
    for _ in range(3):
        learner.update(Event(np.arange(1.0, N + 1), 1.0))
    assert learner.play() == start.with_round(3)


@pytest.mark.parametrize(("factor", "learns"), [(1 + 1e-6, True), (1 - 1e-6, False)])
def test_kissme_learns_from_the_smallest_difference_between_the_labels(factor, learns):
    start = Metric(np.eye(2), threshold=2.0)
    learner = ForgettingKissme(start, window=1000, regularization=0.1)
    for _ in range(20):
        for axis in np.eye(2):
            learner.update(Event(axis, 1.0))
            learner.update(Event(axis * [factor, 1.0], -1.0))
    metric = learner.play()
    if learns:  # only the first feature tells the pairs apart
        assert metric.matrix[0, 0] > 1.0
        assert metric.matrix[1, 1] == pytest.approx(0.0, abs=1e-3 * metric.matrix[0, 0])
    else:
        assert (metric.matrix == start.matrix).all()


def test_kissme_forgets_an_earlier_question():
    rng = np.random.default_rng(0)
    learner = ForgettingKissme(Metric(np.eye(3)), window=100)
    for feature in (0, 2):
        U = rng.normal(size=(1000, 3))
        learner.replay(Events(U, np.where(np.abs(U[:, feature]) < 0.7, 1.0, -1.0)))
        assert learner.play().diagonal.argmax() == feature
