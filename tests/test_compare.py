"""One protocol for all methods: streams in blocks, trials, tuning, the journal, and the summary."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocelad import Comid, Metric, track_metric
from ocelad.evaluation.prequential import FixedMetric, SingleLearner, prequential_scores
from ocelad.evaluation.scores import pair_auc
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.lab.baselines.batch import PeriodicRefit
from ocelad.lab.baselines.comid_variants import ResettingLearner
from ocelad.lab.compare import METHODS, STREAMS, Block, LogUniform, Method, PairStream, compare, trial
from ocelad.lab.compare.adapters import BatchAdapter, EnsembleAdapter, FixedAdapter, LearnerAdapter, ResettingAdapter
from ocelad.lab.compare.block_streams import DriftingStream
from ocelad.lab.compare.comparison import Comparison, _percent
from ocelad.lab.compare.journalled_trials import journal_entry, run_trials
from ocelad.lab.compare.methods import StreamInfo, check_stream, parse_method
from ocelad.lab.compare.registry import FIGURE
from ocelad.lab.compare.run_comparison import candidates
from ocelad.lab.compare.trial import Record, Scores, run_trial
from ocelad.lab.journal import Journal
from ocelad.lab.runner import Runner

SHORT = (Phase("A, static", "A", 0.0, 130), Phase("B, drifting", "B", 0.05, 120))


def short_draw(seed: int) -> DriftingClusters:
    return DriftingClusters(SHORT, n_points=60, n_features=8, seed=seed)


def short() -> DriftingStream:
    return DriftingStream("short", "", short_draw)


def given(n_pairs: int = 400, n: int = 4, seed: int = 0, **more) -> PairStream:
    X, Z = np.random.default_rng(seed).normal(size=(2, n_pairs, n))
    return PairStream(X, Z, abs(X[:, 0] - Z[:, 0]) < 1, **more)


def stream_info(n: int = 8, **more) -> StreamInfo:
    return StreamInfo(**{"n_features": n, "rounds": 250, "seed": 0, "initial_points": None, **more})


class TestStreams:
    @pytest.mark.parametrize("every", [1, 7, 100, 250])
    def test_blocks_contain_every_round_once_and_start_at_evaluations(self, every):
        steps = list(short_draw(3))
        blocks = list(short().blocks(3, every))
        assert [block.round for block in blocks] == sorted({1, *range(every, 251, every)})
        X, Z, y = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "Z", "y"))
        pairs = [step.pair() for step in steps]
        assert ([pair.x for pair in pairs] == X).all()
        assert ([pair.z for pair in pairs] == Z).all()
        assert (y == [1.0 if pair.similar else -1.0 for pair in pairs]).all()
        for block in blocks:
            step = steps[block.round - 1]
            assert block.phase == step.phase.name
            assert block.truth == step.true_metric()
            assert (block.eval_set.points == step.points(slice(600))).all()
            assert (block.labels[0] == step.labels[[step.first, step.second]]).all()

    @pytest.mark.parametrize("every", [1, 13, 65, 130, 131, 200])
    def test_changes_are_the_concept_changes(self, every):
        rounds = [block.round + at for block in short().blocks(0, every) for at in block.changes]
        assert rounds == [131]

    def test_words_change_their_labeling_in_the_middle(self):
        stream = STREAMS["words"]
        blocks = list(stream.blocks(0, 100))
        assert [block.round + at for block in blocks for at in block.changes] == [1501]
        assert sum(map(len, blocks)) == stream.rounds
        assert all(block.X.format == "csr" for block in blocks)

    @pytest.mark.parametrize(("every", "at"), [(500, 1), (1500, 1), (1501, 0), (1502, 1500), (3000, 1500)])
    def test_a_change_at_the_start_or_the_end_of_a_block_of_words_is_reported(self, every, at):
        changes = [(block.round, block.changes) for block in STREAMS["words"].blocks(0, every) if block.changes]
        assert changes == [(1501 - at, (at,))]

    def test_phases_of_given_pairs_are_fifths(self):
        blocks = list(given(100).blocks(0, 1))
        assert [block.phase for block in blocks] == [f"{i + 1}/5" for i in range(5) for _ in range(20)]
        assert [block.pair_phase for block in given(100).blocks(0, 30)] == ["1/5", "3/5", "4/5", "5/5"]

    def test_given_pairs_are_rescaled_like_the_built_in_streams(self):
        X, Z = np.random.default_rng(0).normal(size=(2, 300, 4))
        plain, huge = (PairStream(f * X, f * Z, X[:, 0] > 0) for f in (1.0, 1e6))
        one, other = (next(stream.blocks(0, 301)) for stream in (plain, huge))
        assert np.median(np.square(one.X - one.Z).sum(axis=1)) == pytest.approx(40.0)
        np.testing.assert_allclose(one.X, other.X, rtol=1e-12)

    def test_sparse_pairs_give_the_same_stream_as_dense_ones(self):
        X, Z = np.random.default_rng(0).normal(size=(2, 50, 4)) * (np.random.default_rng(1).random((2, 50, 4)) < 0.5)
        dense, sparse = PairStream(X, Z, X[:, 0] > 0), PairStream(csr_array(X), csr_array(Z), X[:, 0] > 0)
        for one, other in zip(dense.blocks(0, 20), sparse.blocks(0, 20), strict=True):
            np.testing.assert_allclose(one.X, other.X.toarray(), rtol=1e-14)
            assert len(one.events) == len(other.events)

    def test_invalid_pairs_are_rejected(self):
        with pytest.raises(ValueError, match=r"X has shape .* and Z has"):
            PairStream(np.ones((3, 2)), np.ones((4, 2)), [1, 1, 1])
        with pytest.raises(ValueError, match="X holds nan"):
            PairStream([[np.nan]], [[1.0]], [1])
        with pytest.raises(ValueError, match="y "):
            PairStream([[1.0]], [[2.0]], [3])
        with pytest.raises(ValueError, match="all pairs have the label"):
            PairStream([[1.0], [2.0]], [[2.0], [4.0]], [1, 1])
        with pytest.raises(ValueError, match="the points of every pair are equal"):
            PairStream([[1.0], [2.0]], [[1.0], [2.0]], [1, -1])
        with pytest.raises(ValueError, match="the points must be rescaled by"):
            PairStream([[1e-120], [2e-120]], [[2e-120], [4e-120]], [1, -1])
        with pytest.raises(ValueError, match="5 points and labels of shape"):
            given(eval_set=(np.ones((5, 4)), [1, 2]))

    def test_fingerprints_identify_streams(self):
        first, again = given(), given()
        assert first.fingerprint() == again.fingerprint() != given(seed=1).fingerprint()
        assert len({stream.fingerprint() for stream in STREAMS.values()}) == len(STREAMS)
        X = csr_array(np.random.default_rng(0).normal(size=(20, 4)))
        wide = csr_array((X.data, X.indices, X.indptr), shape=(20, 400))
        y = np.arange(20) % 2 == 0
        assert PairStream(X, 0 * X, y).fingerprint() != PairStream(wide, 0 * wide, y).fingerprint()
        eval_set = np.ones((5, 4)), np.arange(5)
        assert given(eval_set=eval_set).fingerprint() != given().fingerprint() != given().part(0, 399).fingerprint()

    def test_the_phase_of_pairs_is_that_of_most_of_them(self):
        blocks = list(STREAMS["words"].blocks(0, 500))
        assert [block.phase for block in blocks] == ["topic"] * 4 + ["style"] * 3
        assert [block.pair_phase for block in blocks] == ["topic"] * 3 + ["style"] * 4
        assert [block.pair_phase for block in short().blocks(0, 100)] == ["A, static", "B, drifting", "B, drifting"]


class TestTrials:
    def test_a_trial_is_the_test_then_train_loop(self):
        stream = short()
        methods = [METHODS[name] for name in ("rice", "comid", "euclidean", "truth")]
        records = run_trial(stream, methods, seed=5, every=50)
        n, clusters = 8, short_draw(5)
        truths = [step.true_metric() for step in clusters]

        class TrueMetricAdapter:
            def __init__(self):
                self.rest = iter([*truths, truths[-1]])
                self.now = next(self.rest)

            def play(self):
                return self.now

            def step(self, event):
                self.now = next(self.rest)

        trackers = {
            "rice": track_metric(n),
            "comid": SingleLearner(Comid(Metric(np.eye(n) / n), step_size=2e-3)),
            "euclidean": FixedMetric(Metric(np.eye(n) / n)),
            "truth": TrueMetricAdapter(),
        }
        rows = [row for _, rows in prequential_scores(clusters, trackers, every=50, n_points=600) for row in rows]
        for record in records:
            expected = [row for row in rows if row.method == record.method]
            assert record.rounds == [row.round for row in expected] == [50, 100, 150, 200, 250]
            assert record.phases == [row.phase for row in expected]
            # The engines differ in the last digits, which rarely changes a vote among 60 points.
            np.testing.assert_allclose(record.values("knn_error"), [row.knn_error for row in expected], atol=0.02)
            np.testing.assert_allclose(record.values("nmi"), [row.nmi for row in expected], atol=0.1)
            assert record.failure is None

    def test_the_time_per_pair_leaves_out_the_first_block(self, monkeypatch):
        times = iter([0.0, 200.0, 202.0, 300.0, 304.0])  # the second block takes 2 seconds, the third 4
        monkeypatch.setattr(trial, "perf_counter", lambda: next(times))
        (record,) = run_trial(short(), [METHODS["euclidean"]], seed=0, every=100)
        assert record.microseconds == pytest.approx(1e6 * (2.0 + 4.0) / (250 - 99))

    def test_one_scale_of_the_ensemble_is_comid(self):
        comid = METHODS["comid"].create(stream_info())
        alone = LearnerAdapter(Comid(Metric(np.eye(8) / 8), step_size=2e-3))
        for block in short().blocks(1, 40):
            one, other = comid.play(), alone.play()
            np.testing.assert_allclose(one.matrix, other.matrix, rtol=1e-9, atol=1e-14)
            assert one.threshold == pytest.approx(other.threshold, rel=1e-9)
            comid.update(block)
            alone.update(block)

    @pytest.mark.parametrize("every", [40, 130, 131])
    def test_the_oracle_is_reset_at_each_concept_change(self, every):
        oracle = ResettingAdapter(ResettingLearner(lambda: LearnerAdapter(Comid(Metric(np.eye(8)), step_size=1e-2))))
        for block in short().blocks(1, every):
            oracle.update(block)
        after = Comid(Metric(np.eye(8)), step_size=1e-2)
        for step in list(short_draw(1))[130:]:
            after.update(step.event())
        np.testing.assert_allclose(oracle.play().matrix, after.play().matrix, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("name", list(METHODS))
    def test_every_method_runs_on_a_compatible_stream(self, name):
        (record,) = run_trial(short(), [METHODS[name]], seed=1, every=120)
        assert record.failure is None, record.failure
        assert record.rounds == [120, 240]
        scores = np.array([list(scores) for scores in record.scores])
        assert ((scores >= 0) & (scores <= 1)).all()
        assert record.microseconds > 0
        if name in ("rice", "rice-hinge", "comid", "comid-oracle", "itml-online", "lego", "pola", "ader", "hedge"):
            (euclidean,) = run_trial(short(), [METHODS["euclidean"]], seed=1, every=120)
            assert np.mean(record.values("knn_error")) < np.mean(euclidean.values("knn_error"))

    @pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.sparse])
    def test_methods_that_accept_sparse_points_learn_from_them(self, name):
        words = STREAMS["words"]
        learner = METHODS[name].create(stream_info(words.n_features, sparse=True))
        first, *blocks = (block for block in words.blocks(0, 200) if block.round <= 600)
        before = learner.play().squared_distance(first.X, first.Z)
        for block in (first, *blocks):
            learner.update(block)
        after = learner.play().squared_distance(first.X, first.Z)
        assert np.isfinite(after).all()
        assert (after >= 0).all()
        if name == "euclidean":
            np.testing.assert_array_equal(after, before)
        else:
            assert pair_auc(after, first.y) > pair_auc(before, first.y) + 0.01

    def test_a_method_that_fails_is_reported_and_the_others_continue(self):
        class Fails(FixedAdapter):
            def update(self, block):
                if block.round > 100:
                    raise FloatingPointError("too much")

        fails = Method("fails", "", lambda info: Fails(Metric(np.eye(8))))
        never = Method("never", "", lambda info: 1 / 0)
        bad, none, good = run_trial(short(), [fails, never, METHODS["euclidean"]], seed=0, every=60)
        assert bad.failure == "in the rounds from 120 on: too much"
        assert bad.rounds == [60, 120]
        assert none.failure == "before the first round: division by zero"
        assert good.failure is None
        assert good.rounds == [60, 120, 180, 240]

    def test_methods_get_only_the_side_information_that_they_require(self):
        seen = []

        class Spy(FixedAdapter):
            def update(self, block):
                seen.append((block.labels is not None, block.changes, block.eval_set, block.truth))

        def make(info):
            seen.append(info.initial_points)
            return Spy(Metric(np.eye(8)))

        run_trial(short(), [Method("blind", "", make), METHODS["lda"]], seed=0, every=130)
        assert seen == [None, (False, (), None, None), (False, (), None, None)]
        seen.clear()
        run_trial(short(), [Method("informed", "", make, requires=frozenset({"labels", "changes"}))], seed=0, every=130)
        assert seen[0].points.shape == (60, 8)
        assert seen[1:] == [(True, (), None, None), (True, (1,), None, None)]

    @pytest.mark.parametrize("points", [True, False])
    def test_batch_methods_get_the_pairs_in_order(self, points):
        class Last:
            """Fit a metric that reveals the last point of its training data."""

            def fit_points(self, X, labels):
                return Metric.from_diagonal(np.full(8, 1.0 + abs(X[-1, 0]) + 10 * labels[-1] + 100 * labels[-2]))

            def fit_pairs(self, X, Z, y):
                return Metric.from_diagonal(np.full(8, 1.0 + abs(Z[-1, 0]) + 10 * len(X)))

        rows = 2 if points else 1
        batch = BatchAdapter(
            PeriodicRefit(
                Last(), every=1, window=50 * rows, source="points" if points else "pairs", start=Metric(np.eye(8))
            ),
            points,
        )
        steps = list(short_draw(0))
        for block in short().blocks(0, 70):
            batch.update(block)
            last = steps[block.round + len(block) - 2]
            first, second = last.labels[[last.first, last.second]]
            extra = 10 * second + 100 * first if points else 10 * 50
            assert batch.play().diagonal[0] == pytest.approx(1.0 + abs(last.pair().z[0]) + extra)

    def test_windows_are_counted_in_rounds(self):
        method = METHODS["lda"].with_settings(window=20, every=10)
        assert method.create(stream_info())._method._window == 40
        assert METHODS["itml"].with_settings(window=20).create(stream_info())._method._window == 20

    def test_seed_and_length_reach_the_methods(self):
        one, other = (METHODS["saol"].create(stream_info(seed=seed)) for seed in (0, 1))
        plays = []
        for block in short().blocks(0, 10):
            one.update(block)
            other.update(block)
            plays.append(one.play() == other.play())
        assert not all(plays)  # another seed draws other learners
        ader = METHODS["ader"].create(stream_info(rounds=14))
        assert ader._ensemble.round_state.n_active == 3  # N of its Theorem 3
        assert METHODS["ader"].create(stream_info(rounds=6000))._ensemble.round_state.n_active > 5

    @pytest.mark.parametrize("error", [RuntimeError("too late"), KeyError("x"), ValueError("no")])
    def test_any_error_of_an_own_method_is_its_failure(self, error):
        class Fails(FixedAdapter):
            def update(self, block):
                if block.round > 100:
                    raise error

        fails = Method("fails", "", lambda info: Fails(Metric(np.eye(8))))
        comparison = compare([fails, "euclidean"], short(), seeds=2, every=60, n_jobs=1)
        message = f"in the rounds from 120 on: {type(error).__name__}: {error}"
        assert [record.failure for record in comparison.failures("fails")] == [message] * 2
        assert comparison.failures("euclidean") == []
        assert str(comparison).split("\n")[-1] == (
            f"fails failed on 2 of 2 streams, which are excluded from its means; the first failure: {message}"
        )

    def test_an_interrupt_of_an_own_method_is_no_failure(self):
        class Interrupted(FixedAdapter):
            def update(self, block):
                raise KeyboardInterrupt

        method = Method("interrupted", "", lambda info: Interrupted(Metric(np.eye(8))))
        with pytest.raises(KeyboardInterrupt):
            run_trial(short(), [method], seed=0, every=100)

    def test_a_bug_of_a_built_in_method_is_raised_and_not_recorded_as_a_failure(self):
        broken = Method("broken", "", lambda info: info.no_such_thing, built_in=True)
        with pytest.raises(AttributeError):
            run_trial(short(), [broken], seed=0, every=100)


class TestMethods:
    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(ValueError, match=r"there is no method 'saoll'.*did you mean 'saol'") as refused:
            parse_method("saoll", METHODS)
        assert all(name in str(refused.value) for name in METHODS)

    def test_all_unknown_names_are_listed(self):
        sentence = (
            r"no method 'riec' \(did you mean 'rice'\?\), and no method 'comd' \(did you mean 'comid'\?\); accepted"
        )
        with pytest.raises(ValueError, match=sentence):
            compare(["riec", "comid", "comd:step_size=1"], short())

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("comid:speed=1", "comid has no setting 'speed'; accepted: step_size"),
            ("comid:step_size", "'step_size' is not a setting"),
            ("comid:step_size=1,step_size=2", "sets step_size twice"),
        ],
    )
    def test_invalid_settings_are_rejected(self, text, message):
        with pytest.raises(ValueError, match=message):
            parse_method(text, METHODS)

    def test_settings_are_parsed_and_formatted(self):
        method = parse_method("comid:step_size=1e-3,loss=logistic", METHODS)
        assert method.settings == {**METHODS["comid"].settings, "step_size": 1e-3, "loss": "logistic"}
        assert method.label == "comid:step_size=0.001,loss=logistic"
        near = [METHODS["comid"].with_settings(step_size=step).label for step in (1e-3, 1.0000001e-3)]
        assert near[0] != near[1]
        assert parse_method(method.label, METHODS) == method

    def test_incompatible_methods_are_named_before_any_trial(self, monkeypatch):
        monkeypatch.setattr("ocelad.lab.compare.journalled_trials.run_trial", lambda *_: pytest.fail("it ran"))
        with pytest.raises(
            ValueError, match=r"'words' \(itml-online: it does not accept sparse points .*these can: rice"
        ):
            compare(["rice", "itml-online"], "words")
        with pytest.raises(
            ValueError, match="lmnn: it requires the classes of the points; truth: it requires the true metric"
        ):
            compare(["lmnn", "truth"], given())
        check_stream(METHODS.values(), STREAMS["paper"])  # raises nothing

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("comid:step_size=abc", "comid:step_size=abc: step_size must be a finite number"),
            ("comid:step_size=-1", "step_size must be a finite number above 0"),
            ("comid:loss=foo", "loss must be one of"),
            ("lmnn:k=0", "k must be a whole number"),
            ("lmnn:every=abc", "every must be a whole number"),
            ("lmnn-start:weight=2", "weight"),
            ("pola:aggressiveness=0", "aggressiveness"),
            ("hedge:step_sizes=0", "step_sizes"),
        ],
    )
    def test_settings_that_a_method_rejects_are_reported_before_any_trial(self, monkeypatch, text, message):
        monkeypatch.setattr("ocelad.lab.compare.journalled_trials.run_trial", lambda *_: pytest.fail("it ran"))
        with pytest.raises(ValueError, match=message):
            compare(["euclidean", text], "paper")

    def test_a_factory_must_return_a_learner(self):
        with pytest.raises(ValueError, match="none: factory returned a NoneType, which has no play and update"):
            compare([Method("none", "", lambda info: None)], short())

    def test_a_learner_of_single_events_needs_an_adapter(self):
        bare = Method("bare", "", lambda info: Comid(Metric(np.eye(info.n_features)), step_size=0.1))
        with pytest.raises(ValueError, match=r"bare: factory returned a Comid, .* wrap it in LearnerAdapter"):
            compare([bare], short())

    def test_every_default_is_within_its_search_space(self):
        for method in METHODS.values():
            for key, search in method.search_space.items():
                value = method.settings[key]
                if isinstance(search, LogUniform) and value is not None:
                    assert search.low <= value <= search.high, (method.name, key)

    @pytest.mark.parametrize("name", ["figure", "batch"])
    def test_the_published_comparisons_have_the_default_settings(self, name):
        # benchmarks/compare holds the results that the documentation reports; `make bench` computes them.
        published = json.loads(
            (Path(__file__).parent.parent / f"benchmarks/compare/{name}/comparison.json").read_text()
        )
        known = [entry for entry in published["methods"] if entry["method"] in METHODS]
        assert len(known) > 10
        for entry in known:
            current = json.loads(json.dumps(METHODS[entry["method"]].settings))
            assert current | entry["settings"] == current, entry["method"]

    def test_the_figure_names_known_methods(self):
        assert set(FIGURE) <= set(METHODS)


class TestJournalledTrials:
    def test_a_second_run_reads_the_records_from_the_file(self, tmp_path, monkeypatch):
        stream, methods = given(), (METHODS["euclidean"], METHODS["comid"])

        def run(seeds):
            with Journal(tmp_path / "trials.jsonl") as journal:
                return run_trials(Runner(journal, n_jobs=1), "", stream, [(seed, methods) for seed in seeds], 100)

        ((first, second),) = run([3])
        assert (first.method, second.method, first.seed) == ("euclidean", "comid", 3)
        direct = run_trial(stream, methods, 3, 100)
        for a, b in zip((first, second), direct, strict=True):
            assert replace(a, microseconds=0.0).to_json() == replace(b, microseconds=0.0).to_json()
        monkeypatch.setattr("ocelad.lab.compare.journalled_trials.run_trial", lambda *_: pytest.fail("it ran"))
        assert [record.to_json() for record in run([3])[0]] == [first.to_json(), second.to_json()]
        with pytest.raises(pytest.fail.Exception, match="it ran"):
            run([3, 4])

    def test_a_record_survives_json_with_its_missing_values(self):
        record = Record("m", 2, [100], ["p"], ["q"], [Scores(0.1, np.nan, 0.3)], 1.5, "why")
        back = Record.from_json(json.loads(json.dumps(record.to_json(), allow_nan=False)))
        assert back.to_json() == record.to_json()
        assert np.isnan(back.values("nmi")[0])
        assert (back.phases, back.pair_phases, back.failure) == (["p"], ["q"], "why")

    @pytest.mark.parametrize("other", ["stream", "seed", "every", "settings", "sources", "method"])
    def test_the_key_covers_everything_that_a_record_depends_on(self, monkeypatch, other):
        stream, method = given(), METHODS["comid"]
        key = journal_entry(stream, method, 0, 100).key
        assert journal_entry(given(), METHODS["comid"], 0, 100).key == key
        seed, every = int(other == "seed"), 50 if other == "every" else 100
        stream = given(seed=1) if other == "stream" else stream
        method = method.with_settings(step_size=0.5) if other == "settings" else method
        method = METHODS["comid-slow"].with_settings(**method.settings) if other == "method" else method
        if other == "sources":
            monkeypatch.setattr("ocelad.lab.journal.source_digest", lambda: "another")
        assert journal_entry(stream, method, seed, every).key != key

    def test_records_of_user_defined_methods_and_streams_stay_in_memory(self, tmp_path):
        path = tmp_path / "trials.jsonl"
        own = Method("euclidean", "", lambda info: FixedAdapter(Metric(np.eye(info.n_features))))
        assert journal_entry(given(), METHODS["euclidean"], 0, 100).persist
        assert journal_entry(given(), own, 0, 100).key != journal_entry(given(), METHODS["euclidean"], 0, 100).key
        own_stream = short()
        with Journal(path) as journal:
            runner = Runner(journal, n_jobs=1)
            run_trials(runner, "", given(), [(0, (own,))], 100)
            run_trials(runner, "", own_stream, [(0, (METHODS["euclidean"],))], 100)
            assert not runner.missing(journal_entry(own_stream, METHODS["euclidean"], 0, 100))
            assert path.read_bytes() == b""
            run_trials(runner, "", given(), [(0, (own, METHODS["euclidean"]))], 100)
        assert path.read_bytes().count(b"\n") == 1

    @pytest.mark.parametrize(("n_trials", "n_groups"), [(4, 1), (3, 2)])
    def test_methods_share_a_call_where_there_are_enough_trials_for_all_jobs(self, monkeypatch, n_trials, n_groups):
        groups = []

        def spy(stream, methods, seed, every):
            groups.append((seed, len(methods)))
            return run_trial(stream, methods, seed, every)

        monkeypatch.setattr("ocelad.lab.compare.journalled_trials.run_trial", spy)
        methods = (METHODS["euclidean"], METHODS["comid"])
        run_trials(Runner(backend="threads", n_jobs=2), "", short(), [(seed, methods) for seed in range(n_trials)], 100)
        assert len(groups) == n_trials * n_groups


class TestCompare:
    def test_finished_trials_are_not_run_again(self, tmp_path, monkeypatch):
        monkeypatch.setitem(STREAMS, "short", short())

        def run(methods, **more):
            return compare(methods, "short", seeds=3, every=100, n_jobs=1, journal=tmp_path / "t.jsonl", **more)

        first = run(["comid", "euclidean"])
        ran = []
        monkeypatch.setattr(
            "ocelad.lab.compare.journalled_trials.run_trial",
            lambda stream, methods, seed, every: (
                ran.append((seed, [m.name for m in methods])) or run_trial(stream, methods, seed, every)
            ),
        )
        assert run(["comid", "euclidean"]).to_json() == first.to_json()
        assert ran == []
        run(["comid", "pola"])
        assert ran == [(1000, ["pola"]), (1001, ["pola"]), (1002, ["pola"])]

    def test_processes_give_the_same_scores(self):
        one, two = (compare(["rice", "saol"], short(), seeds=2, every=100, n_jobs=n) for n in (1, 2))
        for method in ("rice", "saol"):
            for a, b in zip(one.records[method], two.records[method], strict=True):
                assert replace(a, microseconds=0.0).to_json() == replace(b, microseconds=0.0).to_json()

    def test_progress_counts_records(self):
        seen = []
        compare(["euclidean"], short(), seeds=2, every=100, n_jobs=1, progress=lambda *now: seen.append(now))
        assert seen == [("comparing", 0, 2), ("comparing", 1, 2), ("comparing", 2, 2)]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"methods": []}, "methods is empty"),
            ({"methods": ["rice", "rice"]}, "rice is given 2 times"),
            ({"stream": "papers"}, "stream must be"),
            ({"stream": "pairs.csv"}, "as a PairStream .*, ocelad compare --stream pairs.csv on"),
            ({"stream": Path("pairs")}, "stream is 'pairs', which looks like a file; accepted: .* as a PairStream"),
            ({"stream": "data/pairs"}, "which looks like a file; accepted: .* as a PairStream"),
            ({"seeds": 0}, "seeds"),
            ({"every": 10**9}, "every"),
            ({"reference": "comid"}, "the reference 'comid' is not compared"),
            ({"methods": "rice"}, "methods must be a list"),
            ({"methods": [3]}, "a method must be a name or a Method; got int"),
            ({"stream": 3}, "stream must be a name"),
            ({"tune": 2, "first_seed": 2}, "tuning uses the seeds 0 to 2"),
        ],
    )
    def test_invalid_arguments_are_rejected(self, arguments, message):
        arguments = {"methods": ["rice"], "stream": "paper", **arguments}
        with pytest.raises((ValueError, TypeError), match=message):
            compare(**arguments)


class TestTuning:
    def aimed(self) -> Method:
        """Return a method whose error increases with its angle."""

        def make(info, angle):
            direction = np.zeros(info.n_features)
            direction[:2] = np.cos(angle), np.sin(angle)
            return FixedAdapter(Metric.from_factors(direction[None]))

        return Method("aimed", "", make, {"angle": 1.2}, {"angle": LogUniform(1e-3, 1.5)})

    def test_the_reference_may_be_spelled_differently(self):
        methods = ["euclidean", "comid:step_size=1e-3"]
        comparison = compare(methods, short(), seeds=1, every=250, n_jobs=1, reference="comid:step_size=1.0e-3")
        assert comparison.reference == "comid:step_size=0.001"

    def test_the_best_settings_are_used(self):
        comparison = compare([self.aimed(), "euclidean"], given(1600), tune=8, every=100, n_jobs=1)
        tuned = comparison.tuned["aimed"]
        angles, scores = [v["angle"] for v, _ in tuned.trials], [s for _, s in tuned.trials]
        assert len(angles) == len(set(angles)) == 8
        assert angles[0] == 1.2
        assert tuned.best.settings["angle"] == angles[int(np.argmin(scores))] < 0.5
        assert "euclidean" not in comparison.tuned
        assert comparison.summaries()[0].mean == pytest.approx(
            compare([tuned.best], comparison.stream, every=100, n_jobs=1).summaries()[0].mean
        )

    def test_given_pairs_are_tuned_on_their_first_quarter_and_compared_on_the_rest(self):
        seen = {"tuning": [], "comparing": []}

        class Spy(FixedAdapter):
            def __init__(self, info):
                super().__init__(Metric(np.eye(4)))
                self.seen = seen["tuning" if info.rounds == 400 else "comparing"]

            def update(self, block):
                self.seen.append(block.X)

        spy = replace(self.aimed(), factory=lambda info, angle: Spy(info))
        eval_set = np.random.default_rng(1).normal(size=(20, 4)), np.arange(20) % 2
        stream = given(1600, eval_set=eval_set)
        comparison = compare([spy], stream, tune=2, every=100, n_jobs=1)
        X = np.concatenate([block.X for block in stream.blocks(0, 100)])
        assert (np.concatenate(seen["tuning"]) == np.concatenate([X[:400], X[:400]])).all()  # twice: two settings
        assert (np.concatenate(seen["comparing"]) == X[400:]).all()
        assert comparison.main_measure == "knn_error"
        # By pairs only: otherwise the evaluation points of the comparison would choose the settings.
        (record,) = run_trial(stream.part(0, 400), [spy], seed=0, every=100)
        assert comparison.tuned["aimed"].trials[0][1] == pytest.approx(np.nanmean(record.values("ranking_error")))
        assert comparison.tuned["aimed"].trials[0][1] != pytest.approx(np.mean(record.values("knn_error")))
        with pytest.raises(ValueError, match="less than two times every=100; accepted: every=50 or less"):
            compare([self.aimed()], given(400), tune=2, every=100)

    def test_tuning_uses_other_seeds_than_the_comparison(self):
        seen = {"tuning": set(), "comparing": set()}

        def make(info, angle):
            seen["tuning" if info.seed < 1000 else "comparing"].add(info.seed)
            return FixedAdapter(Metric(np.eye(8)))

        method = replace(self.aimed(), factory=make)
        compare([method], short(), seeds=2, tune=2, tune_seeds=3, every=100, n_jobs=1)
        assert seen == {"tuning": {0, 1, 2}, "comparing": {1000, 1001}}

    def test_settings_that_are_given_are_not_tuned(self):
        tried = candidates(parse_method("comid:loss=hinge", METHODS), 6)
        assert {method.settings["loss"] for method in tried} == {"hinge"}
        assert len({method.settings["step_size"] for method in tried}) == 6

    def test_nothing_is_tried_twice(self):
        for name in ("lda", "mmc", "nca"):
            tried = [repr(method.settings) for method in candidates(METHODS[name], 12)]
            assert len(tried) == len(set(tried))

    def test_settings_that_cannot_be_evaluated_are_rejected(self):
        from ocelad.lab.compare.run_comparison import _tuning_score

        assert (
            _tuning_score([Record("m", 0, [1], ["p"], ["p"], [Scores(np.nan, np.nan, np.nan)])], "knn_error") == np.inf
        )

    def test_settings_that_fail_on_one_of_the_tuning_seeds_are_rejected(self):
        def make(info, angle):
            if angle != 1.2 and info.seed == 1:
                raise FloatingPointError("no")
            weights = np.ones(info.n_features)  # better than one feature only, where it runs
            if angle == 1.2:
                weights[:-1] = 0.0
            return FixedAdapter(Metric.from_diagonal(weights))

        method = replace(self.aimed(), factory=make)
        comparison = compare([method], short(), seeds=1, tune=4, tune_seeds=3, every=50, n_jobs=1)
        tuned = comparison.tuned["aimed"]
        assert tuned.best.settings["angle"] == 1.2
        assert np.isfinite([score for _, score in tuned.trials]).tolist() == [True, False, False, False]
        one_seed = compare([method], short(), seeds=1, tune=4, tune_seeds=1, every=50, n_jobs=1)
        assert one_seed.tuned["aimed"].best.settings["angle"] != 1.2

    def test_settings_that_fail_on_all_streams_are_rejected(self):
        def make(info, angle):
            if angle != 1.2:
                raise FloatingPointError("no")
            return FixedAdapter(Metric(np.eye(4)))

        comparison = compare([replace(self.aimed(), factory=make)], given(1600), tune=4, every=100, n_jobs=1)
        assert comparison.tuned["aimed"].best.settings["angle"] == 1.2


class TestSummary:
    def comparison(self, by_method: dict[str, list[list[float]]], stream=None, reference="a", failed=()) -> Comparison:
        """Return a comparison with the given k-NN errors of each method and seed at the rounds 100 and 200."""
        stream = stream or short()
        methods = tuple(Method(name, "", FixedAdapter) for name in by_method)
        records = {
            name: [
                Record(
                    name,
                    seed,
                    [100, 200],
                    ["A, static", "B, drifting"],
                    ["B, drifting", "B, drifting"],
                    [Scores(e, 0.81 if e < 0.1 else 0.79, e) for e in errors],
                    seed + 1.0,
                    "why" if (name, seed) in failed else None,
                )
                for seed, errors in enumerate(seeds)
            ]
            for name, seeds in by_method.items()
        }
        return Comparison(stream, methods, records, reference, 100, tuple(range(len(by_method["a"]))))

    def test_means_standard_errors_and_paired_differences(self):
        comparison = self.comparison(
            {"a": [[0.1, 0.3], [0.2, 0.4], [0.3, 0.5]], "b": [[0.2, 0.3], [0.3, 0.4], [0.4, 0.5]]}
        )
        a, b = comparison.summaries("knn_error")
        assert a.mean == pytest.approx(30.0)  # the mean of 20, 30, 40
        assert a.overall.standard_error == pytest.approx(10.0 / np.sqrt(3))
        assert b.difference.mean == pytest.approx(5.0)  # the same for every seed, though the seeds differ
        assert b.difference.standard_error == pytest.approx(0.0, abs=1e-9)
        assert b.by_phase["A, static"].mean == pytest.approx(30.0)
        assert a.by_phase["B, drifting"].mean == pytest.approx(40.0)
        assert comparison.microseconds("a") == 2.0
        by_phase = comparison.summaries("ranking_error")[0].by_phase  # by the phase of the pairs
        assert np.isnan(by_phase["A, static"].mean)
        assert by_phase["B, drifting"].mean == pytest.approx(30.0)

    def test_clusters_found_is_the_share_of_evaluations_with_a_high_nmi(self):
        comparison = self.comparison({"a": [[0.05, 0.3], [0.05, 0.05]]})
        assert comparison.summaries("clusters_found")[0].mean == pytest.approx(75.0)

    @pytest.mark.parametrize(("nmi", "found"), [(0.8, 0.0), (np.nextafter(0.8, 1.0), 100.0), (np.nan, np.nan)])
    def test_clusters_are_found_above_the_threshold(self, nmi, found):
        record = Record("a", 0, [100], ["A"], ["A"], [Scores(0.1, nmi, 0.1)], 1.0, None)
        np.testing.assert_array_equal(_percent(record, "clusters_found"), [found])

    def test_unbeaten_methods_are_ties_or_better(self):
        noise = np.array([[0.0, 0.0], [0.01, 0.01], [-0.01, -0.01]])
        a = 0.3 + 0 * noise
        comparison = self.comparison(
            {
                "a": a.tolist(),
                "worse": (a + 0.1).tolist(),
                "alike": (a + noise).tolist(),
                "better later": (a + np.array([0.1, -0.1])).tolist(),
            }
        )
        found = {(n.phase, n.method, n.verdict) for n in comparison.unbeaten() if n.measure == "knn_error"}
        assert found == {
            ("A, static", "alike", "tie"),
            ("B, drifting", "alike", "tie"),
            ("B, drifting", "better later", "better"),
            (None, "alike", "tie"),
            (None, "better later", "tie"),
        }

    def test_a_higher_share_of_found_clusters_is_better(self):
        comparison = self.comparison({"a": [[0.3, 0.05], [0.3, 0.05]], "b": [[0.05, 0.05]] * 2, "c": [[0.3, 0.3]] * 2})
        assert [(n.method, n.verdict) for n in comparison.unbeaten() if n.measure == "clusters_found"] == [
            ("b", "better")
        ]

    def test_the_verdict_is_unknown_with_one_stream_or_one_complete_run(self):
        one = self.comparison({"a": [[0.5, 0.5]], "b": [[0.1, 0.1]]})
        assert {n.verdict for n in one.unbeaten()} == {"unknown"}
        failed = self.comparison({"a": [[0.5, 0.5]] * 3, "b": [[0.9, 0.9]] * 3}, failed={("b", 0), ("b", 1)})
        assert {(n.method, n.verdict) for n in failed.unbeaten()} == {("b", "unknown")}

    def test_failed_runs_are_excluded_from_means_and_differences(self):
        comparison = self.comparison({"a": [[0.1, 0.1], [0.5, 0.5]], "b": [[0.2, 0.2], [0.9, 0.9]]}, failed={("b", 1)})
        b = comparison.summaries("knn_error")[1]
        assert b.mean == pytest.approx(20.0)
        assert b.difference.mean == pytest.approx(10.0)
        assert [record.seed for record in comparison.failures("b")] == [1]
        assert comparison.curve("b", "knn_error")[1] == pytest.approx([20.0, 20.0])
        assert comparison.microseconds("b") == 1.0
        assert comparison.ranking == ["a", "b"]

    def test_it_prints_as_a_table_the_best_first(self):
        errors = {"a": [[0.1, 0.3], [0.2, 0.4], [0.3, 0.5]], "b": [[0.05, 0.05]] * 3, "c": [[0.5, 0.5]] * 3}
        comparison = self.comparison(errors, failed={("c", 1)})
        oracle = replace(comparison.methods[1], requires=frozenset({"truth"}))
        assert str(replace(comparison, methods=(comparison.methods[0], oracle, comparison.methods[2]))).split("\n") == [
            "5-NN error in %: short, 3 streams",
            "method                  mean          minus a        P(NMI > 0.8) in %",
            "b *                     5.00 ± 0.00   -25.00 ± 5.77  100.00 ± 0.00",
            "a                       30.00 ± 5.77                 0.00 ± 0.00",
            "c (1 of 3 runs failed)  50.00 ± 0.00  20.00 ± 10.00  0.00 ± 0.00",
            "* uses more than the pairs",
            "c failed on 1 of 3 streams, which are excluded from its means; the first failure: why",
        ]
        pairs_only = self.comparison({"a": [[0.5, 0.5]]}, stream=given())
        assert str(pairs_only).split("\n") == [
            "wrongly ranked pairs in %: pairs, one stream in 2 segments",
            "method  mean          minus a",
            "a       50.00 ± 0.00",
        ]

    def test_methods_with_failed_runs_rank_last(self):
        comparison = self.comparison({"a": [[0.5, 0.5]] * 2, "b": [[0.1, 0.1]] * 2}, failed={("b", 1)})
        assert comparison.ranking == ["a", "b"]

    def test_a_failure_on_a_single_stream_does_not_affect_the_other_methods(self):
        class Fails(FixedAdapter):
            def update(self, block):
                if block.round > 300:
                    raise FloatingPointError("too much")

        fails = Method("fails", "", lambda info: Fails(Metric(np.eye(4))))
        comparison = compare(["euclidean", fails], given(1100), every=50, n_jobs=1)
        line = comparison.summaries()[1]
        assert np.isnan(line.mean)
        assert {(n.method, n.verdict) for n in comparison.unbeaten()} == {("fails", "unknown")}
        json.dumps(comparison.to_json())

    def test_standard_errors_of_a_single_stream_are_over_segments(self):
        comparison = compare(["euclidean", "rice"], given(1100), every=50, n_jobs=1)
        line = comparison.summaries()[0]
        values = 100 * comparison.records["euclidean"][0].values("ranking_error")
        segments = [np.nanmean(part) for part in np.array_split(values, 10)]
        assert line.mean == pytest.approx(np.mean(segments))
        assert line.overall.standard_error == pytest.approx(np.std(segments, ddof=1) / np.sqrt(10))
        assert comparison.n_segments == 10
        assert {n.phase for n in comparison.unbeaten()} <= {None}

    def test_json_contains_the_summaries(self):
        comparison = compare(["comid", "euclidean"], short(), seeds=2, every=100, n_jobs=1)
        content = json.loads(json.dumps(comparison.to_json()))
        assert [method["method"] for method in content["methods"]] == ["comid", "euclidean"]
        assert content["methods"][0]["knn_error"]["mean"] == comparison.summaries()[0].mean
        assert content["methods"][0]["settings"] == METHODS["comid"].settings
        assert content["methods"][1]["clusters_found"]["over_time"]["rounds"] == [100, 200]


def test_a_user_defined_learner_can_be_compared():
    from ocelad import LearnerBank, Ocelad

    def make(info):
        start = Metric(np.eye(info.n_features) / info.n_features)

        def learner(scale, play):
            return Comid(start if play is None else play, step_size=3e-3 * scale.rate)

        return EnsembleAdapter(Ocelad(LearnerBank(learner, Metric.average)))

    own = Method("own", "RICE from its parts", make)
    comparison = compare([own, "rice-hinge"], short(), seeds=1, every=125, n_jobs=1)
    a, b = (comparison.records[name][0] for name in ("own", "rice-hinge"))
    np.testing.assert_allclose(a.values("knn_error"), b.values("knn_error"), atol=0.02)


def test_a_play_that_is_no_metric_is_a_failure():
    from ocelad.lab.compare.adapters import FixedAdapter

    own = Method("own", "plays an array", lambda info: FixedAdapter(np.eye(info.n_features)))
    comparison = compare([own], short(), seeds=1, every=125, n_jobs=1)
    assert "returned an object of the type ndarray; accepted: a Metric" in str(comparison)


def test_a_similarity_is_scored_by_its_own_order():
    from ocelad.lab.baselines.oasis import Similarity
    from ocelad.lab.compare.scoring import score_play

    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    points = rng.normal(size=(60, 3))
    points[:, 0] = np.where(labels, 5.0, -5.0) + 0.1 * points[:, 0]
    X, Z = points[rng.permutation(60)], points
    y = np.where(X[:, 0] * Z[:, 0] > 0, 1.0, -1.0)
    from ocelad.lab.compare.block_streams import EvalSet

    block = Block(1, "", "", X, Z, y, EvalSet(points, labels))
    right, wrong = (Similarity(sign * np.diag([1.0, 0.0, 0.0])) for sign in (1, -1))
    assert score_play(right, block)[::2] == (0.0, 0.0)
    assert score_play(wrong, block)[::2] == (1.0, 1.0)
