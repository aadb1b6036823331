"""One protocol for all methods: streams in blocks, trials, tuning, what is kept, and what is said of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocelad import Comid, Metric, track_metric
from ocelad.evaluation.prequential import Alone, Frozen, prequential
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.lab.baselines.batch import Refitted
from ocelad.lab.baselines.comid_variants import Reinitialised
from ocelad.lab.compare import METHODS, STREAMS, Between, Block, Method, PairStream, compare
from ocelad.lab.compare.comparison_streams import DriftingStream
from ocelad.lab.compare.contestants import Batch, Ensemble, Fixed, Single, ToldOfChanges
from ocelad.lab.compare.methods import Setting, check_stream, parsed
from ocelad.lab.compare.records import Records
from ocelad.lab.compare.registry import FIGURE
from ocelad.lab.compare.run_comparison import candidates
from ocelad.lab.compare.summary import Comparison, Estimate
from ocelad.lab.compare.trial import Record, Scores, run_trial

SHORT = (Phase("A, static", "A", 0.0, 130), Phase("B, drifting", "B", 0.05, 120))


def short_draw(seed: int) -> DriftingClusters:
    return DriftingClusters(SHORT, n_points=60, n_features=8, seed=seed)


def short() -> DriftingStream:
    return DriftingStream("short", "", short_draw)


def given(n_pairs: int = 400, n: int = 4, seed: int = 0, **more) -> PairStream:
    X, Z = np.random.default_rng(seed).normal(size=(2, n_pairs, n))
    return PairStream(X, Z, abs(X[:, 0] - Z[:, 0]) < 1, **more)


def setting(n: int = 8, **more) -> Setting:
    return Setting(**{"n_features": n, "rounds": 250, "seed": 0, "opening": None, **more})


class TestStreams:
    @pytest.mark.parametrize("every", [1, 7, 100, 250])
    def test_blocks_hold_every_round_once_and_begin_where_evaluations_are(self, every):
        moments = list(short_draw(3))
        blocks = list(short().blocks(3, every))
        assert [block.round for block in blocks] == sorted({1, *range(every, 251, every)})
        X, Z, y = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "Z", "y"))
        pairs = [moment.pair() for moment in moments]
        assert ([pair.x for pair in pairs] == X).all()
        assert ([pair.z for pair in pairs] == Z).all()
        assert (y == [1.0 if pair.similar else -1.0 for pair in pairs]).all()
        for block in blocks:
            moment = moments[block.round - 1]
            assert block.phase == moment.phase.name
            assert block.truth == moment.true_metric()
            assert (block.scene.points == moment.points(slice(600))).all()
            assert (block.labels[0] == moment.labels[[moment.first, moment.second]]).all()

    @pytest.mark.parametrize("every", [1, 13, 65, 130, 131, 200])
    def test_changes_are_where_the_question_changes_and_nowhere_else(self, every):
        rounds = [block.round + at for block in short().blocks(0, every) for at in block.changes]
        assert rounds == [131]

    def test_words_change_their_question_in_the_middle(self):
        stream = STREAMS["words"]
        blocks = list(stream.blocks(0, 100))
        assert [block.round + at for block in blocks for at in block.changes] == [1501]
        assert sum(map(len, blocks)) == stream.rounds
        assert all(block.X.format == "csr" for block in blocks)

    def test_given_pairs_are_brought_to_the_scale_of_the_built_in_streams(self):
        X, Z = np.random.default_rng(0).normal(size=(2, 300, 4))
        plain, huge = (PairStream(f * X, f * Z, X[:, 0] > 0) for f in (1.0, 1e6))
        one, other = (next(stream.blocks(0, 301)) for stream in (plain, huge))
        assert np.median(np.square(one.X - one.Z).sum(axis=1)) == pytest.approx(40.0)
        np.testing.assert_allclose(one.X, other.X, rtol=1e-12)

    def test_given_pairs_may_be_sparse_and_are_the_same_then(self):
        X, Z = np.random.default_rng(0).normal(size=(2, 50, 4)) * (np.random.default_rng(1).random((2, 50, 4)) < 0.5)
        dense, sparse = PairStream(X, Z, X[:, 0] > 0), PairStream(csr_array(X), csr_array(Z), X[:, 0] > 0)
        for one, other in zip(dense.blocks(0, 20), sparse.blocks(0, 20), strict=True):
            np.testing.assert_allclose(one.X, other.X.toarray(), rtol=1e-14)
            assert len(one.events) == len(other.events)

    def test_given_pairs_that_are_no_pairs_are_refused(self):
        with pytest.raises(ValueError, match=r"X has shape .* and Z has"):
            PairStream(np.ones((3, 2)), np.ones((4, 2)), [1, 1, 1])
        with pytest.raises(ValueError, match="X holds nan"):
            PairStream([[np.nan]], [[1.0]], [1])
        with pytest.raises(ValueError, match="y "):
            PairStream([[1.0]], [[2.0]], [3])
        with pytest.raises(ValueError, match="all pairs have the label"):
            PairStream([[1.0], [2.0]], [[2.0], [4.0]], [1, 1])
        with pytest.raises(ValueError, match="the points of every pair are the same"):
            PairStream([[1.0], [2.0]], [[1.0], [2.0]], [1, -1])
        with pytest.raises(ValueError, match="a scale that cannot be worked with"):
            PairStream([[1e-120], [2e-120]], [[2e-120], [4e-120]], [1, -1])
        with pytest.raises(ValueError, match="5 points and labels of shape"):
            given(scene=(np.ones((5, 4)), [1, 2]))

    def test_streams_of_one_seed_are_the_same_and_fingerprints_tell_streams_apart(self):
        first, again = given(), given()
        assert first.fingerprint() == again.fingerprint() != given(seed=1).fingerprint()
        assert len({stream.fingerprint() for stream in STREAMS.values()}) == len(STREAMS)
        X = csr_array(np.random.default_rng(0).normal(size=(20, 4)))
        wide = csr_array((X.data, X.indices, X.indptr), shape=(20, 400))
        y = np.arange(20) % 2 == 0
        assert PairStream(X, 0 * X, y).fingerprint() != PairStream(wide, 0 * wide, y).fingerprint()
        scene = np.ones((5, 4)), np.arange(5)
        assert given(scene=scene).fingerprint() != given().fingerprint() != given().part(0, 399).fingerprint()

    def test_pairs_are_of_the_phase_that_most_of_them_are_in(self):
        blocks = list(STREAMS["words"].blocks(0, 500))
        assert [block.phase for block in blocks] == ["topic"] * 4 + ["style"] * 3
        assert [block.pair_phase for block in blocks] == ["topic"] * 3 + ["style"] * 4
        assert [block.pair_phase for block in short().blocks(0, 100)] == ["A, static", "B, drifting", "B, drifting"]


class TestContenders:
    def test_a_trial_is_the_test_then_train_loop(self):
        stream = short()
        methods = [METHODS[name] for name in ("rice", "comid", "euclidean", "truth")]
        records = run_trial(stream, methods, seed=5, every=50)
        n, clusters = 8, short_draw(5)
        truths = [moment.true_metric() for moment in clusters]

        class Truth:
            def __init__(self):
                self.rest = iter([*truths, truths[-1]])
                self.now = next(self.rest)

            def play(self):
                return self.now

            def step(self, event):
                self.now = next(self.rest)

        trackers = {
            "rice": track_metric(n),
            "comid": Alone(Comid(Metric(np.eye(n) / n), step_size=2e-3)),
            "euclidean": Frozen(Metric(np.eye(n) / n)),
            "truth": Truth(),
        }
        rows = [row for _, rows in prequential(clusters, trackers, every=50, n_points=600) for row in rows]
        for record in records:
            expected = [row for row in rows if row.method == record.method]
            assert record.rounds == [row.round for row in expected] == [50, 100, 150, 200, 250]
            assert record.phases == [row.phase for row in expected]
            # The engines differ in the last digits, which a vote among 60 points hardly ever sees.
            np.testing.assert_allclose(record.measured("knn_error"), [row.knn_error for row in expected], atol=0.02)
            np.testing.assert_allclose(record.measured("nmi"), [row.nmi for row in expected], atol=0.1)
            assert record.failed is None

    def test_one_scale_of_the_ensemble_is_comid(self):
        comid = METHODS["comid"].contender(setting())
        alone = Single(Comid(Metric(np.eye(8) / 8), step_size=2e-3))
        for block in short().blocks(1, 40):
            one, other = comid.play(), alone.play()
            np.testing.assert_allclose(one.matrix, other.matrix, rtol=1e-9, atol=1e-14)
            assert one.threshold == pytest.approx(other.threshold, rel=1e-9)
            comid.update(block)
            alone.update(block)

    @pytest.mark.parametrize("every", [40, 130, 131])
    def test_the_oracle_begins_anew_when_the_question_changes(self, every):
        oracle = ToldOfChanges(Reinitialised(lambda: Single(Comid(Metric(np.eye(8)), step_size=1e-2))))
        for block in short().blocks(1, every):
            oracle.update(block)
        after = Comid(Metric(np.eye(8)), step_size=1e-2)
        for moment in list(short_draw(1))[130:]:
            after.update(moment.event())
        np.testing.assert_allclose(oracle.play().matrix, after.play().matrix, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("name", list(METHODS))
    def test_every_method_goes_through_a_stream_that_it_can_take(self, name):
        (record,) = run_trial(short(), [METHODS[name]], seed=1, every=120)
        assert record.failed is None, record.failed
        assert record.rounds == [120, 240]
        scores = np.array([list(scores) for scores in record.scores])
        assert ((scores >= 0) & (scores <= 1)).all()
        assert record.microseconds > 0
        if name in ("rice", "rice-hinge", "comid", "comid-oracle", "itml-online", "lego", "pola", "ader", "hedge"):
            (nothing,) = run_trial(short(), [METHODS["euclidean"]], seed=1, every=120)
            assert np.mean(record.measured("knn_error")) < np.mean(nothing.measured("knn_error"))

    @pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.sparse])
    def test_methods_that_take_sparse_points_learn_from_them(self, name):
        words = STREAMS["words"]
        contender = METHODS[name].contender(setting(words.n_features, sparse=True))
        for block in words.blocks(0, 200):
            contender.play().squared_distance(block.X, block.Z)
            if block.round > 400:
                break
            contender.update(block)

    def test_a_method_that_fails_is_told_of_and_the_others_go_on(self):
        class Fails(Fixed):
            def update(self, block):
                if block.round > 100:
                    raise FloatingPointError("too much")

        fails = Method("fails", "", lambda setting: Fails(Metric(np.eye(8))))
        never = Method("never", "", lambda setting: 1 / 0)
        bad, none, good = run_trial(short(), [fails, never, METHODS["euclidean"]], seed=0, every=60)
        assert bad.failed == "in the rounds from 120 on: too much"
        assert bad.rounds == [60, 120]
        assert none.failed == "before the first round: division by zero"
        assert good.failed is None
        assert good.rounds == [60, 120, 180, 240]

    def test_methods_are_told_what_they_need_and_nothing_else(self):
        seen = []

        class Spy(Fixed):
            def update(self, block):
                seen.append((block.labels is not None, block.changes, block.scene, block.truth))

        def make(setting):
            seen.append(setting.opening)
            return Spy(Metric(np.eye(8)))

        run_trial(short(), [Method("blind", "", make), METHODS["lda"]], seed=0, every=130)
        assert seen == [None, (False, (), None, None), (False, (), None, None)]
        seen.clear()
        run_trial(short(), [Method("told", "", make, needs=frozenset({"labels", "changes"}))], seed=0, every=130)
        assert seen[0].points.shape == (60, 8)
        assert seen[1:] == [(True, (), None, None), (True, (1,), None, None)]

    @pytest.mark.parametrize("points", [True, False])
    def test_batch_methods_see_the_pairs_in_their_order(self, points):
        class Last:
            """A metric of the first feature of the last point that it was fitted to."""

            def fit_points(self, X, labels):
                return Metric.from_diagonal(np.full(8, 1.0 + abs(X[-1, 0]) + 10 * labels[-1] + 100 * labels[-2]))

            def fit_pairs(self, X, Z, y):
                return Metric.from_diagonal(np.full(8, 1.0 + abs(Z[-1, 0]) + 10 * len(X)))

        rows = 2 if points else 1
        batch = Batch(
            Refitted(Last(), every=1, window=50 * rows, from_="points" if points else "pairs", start=Metric(np.eye(8))),
            points,
        )
        moments = list(short_draw(0))
        for block in short().blocks(0, 70):
            batch.update(block)
            last = moments[block.round + len(block) - 2]
            first, second = last.labels[[last.first, last.second]]
            extra = 10 * second + 100 * first if points else 10 * 50
            assert batch.play().diagonal[0] == pytest.approx(1.0 + abs(last.pair().z[0]) + extra)

    def test_windows_are_counted_in_rounds(self):
        method = METHODS["lda"].with_settings(window=20, every=10)
        assert method.contender(setting())._refitted._window == 40
        assert METHODS["itml"].with_settings(window=20).contender(setting())._refitted._window == 20

    def test_settings_reach_the_methods(self):
        one, other = (METHODS["saol"].contender(setting(seed=seed)) for seed in (0, 1))
        plays = []
        for block in short().blocks(0, 10):
            one.update(block)
            other.update(block)
            plays.append(one.play() == other.play())
        assert not all(plays)  # other learners are drawn
        ader = METHODS["ader"].contender(setting(rounds=14))
        assert ader._ensemble.round_state.active == 3  # N of its Theorem 3
        assert METHODS["ader"].contender(setting(rounds=6000))._ensemble.round_state.active > 5

    def test_a_fault_of_the_program_is_no_failure_of_the_method(self):
        broken = Method("broken", "", lambda setting: setting.no_such_thing)
        with pytest.raises(AttributeError):
            run_trial(short(), [broken], seed=0, every=100)


class TestMethods:
    def test_a_wrong_name_lists_the_right_ones(self):
        with pytest.raises(ValueError, match=r"there is no method 'saoll'.*did you mean 'saol'") as refused:
            parsed("saoll", METHODS)
        assert all(name in str(refused.value) for name in METHODS)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("comid:speed=1", "comid has no setting 'speed'; accepted: step_size"),
            ("comid:step_size", "'step_size' is no setting"),
            ("comid:step_size=1,step_size=2", "says step_size twice"),
        ],
    )
    def test_wrong_settings_are_refused(self, text, message):
        with pytest.raises(ValueError, match=message):
            parsed(text, METHODS)

    def test_settings_are_read_and_shown(self):
        method = parsed("comid:step_size=1e-3,loss=logistic", METHODS)
        assert method.values == {**METHODS["comid"].settings, "step_size": 1e-3, "loss": "logistic"}
        assert method.label == "comid:step_size=0.001,loss=logistic"
        near = [METHODS["comid"].with_settings(step_size=step).label for step in (1e-3, 1.0000001e-3)]
        assert near[0] != near[1]
        assert parsed(method.label, METHODS) == method

    def test_methods_that_cannot_take_a_stream_are_named_before_anything_runs(self, monkeypatch):
        monkeypatch.setattr("ocelad.lab.compare.run_comparison.run_trial", lambda *_: pytest.fail("it ran"))
        with pytest.raises(
            ValueError, match=r"'words' \(itml-online: it does not take sparse points .*these can: rice"
        ):
            compare(["rice", "itml-online"], "words")
        with pytest.raises(
            ValueError, match="lmnn: it needs the classes of the points; truth: it needs the true metric"
        ):
            compare(["lmnn", "truth"], given())
        check_stream(METHODS.values(), STREAMS["paper"])  # all can

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
    def test_settings_that_a_method_does_not_take_are_refused_before_anything_runs(self, monkeypatch, text, message):
        monkeypatch.setattr("ocelad.lab.compare.run_comparison.run_trial", lambda *_: pytest.fail("it ran"))
        with pytest.raises(ValueError, match=message):
            compare(["euclidean", text], "paper")

    def test_what_is_no_contender_is_refused(self):
        with pytest.raises(ValueError, match="none: make returned a NoneType, which has no play and update"):
            compare([Method("none", "", lambda setting: None)], short())

    def test_every_default_is_within_what_is_tried(self):
        for method in METHODS.values():
            for key, search in method.search.items():
                value = method.settings[key]
                if isinstance(search, Between) and value is not None:
                    assert search.low <= value <= search.high, (method.name, key)

    def test_the_figure_names_methods_that_there_are(self):
        assert set(FIGURE) <= set(METHODS)


class TestJournal:
    def record(self, seed=0, method="euclidean"):
        return Record(method, seed, [100], ["p"], ["p"], [Scores(0.1, np.nan, 0.3)], 1.5, None)

    def keep(self, journal, stream, seed):
        journal.keep(stream, [METHODS["euclidean"]], [self.record(seed)], 100)

    def test_what_was_kept_comes_back(self, tmp_path):
        stream = given()
        with Records(tmp_path / "folder" / "trials.jsonl") as journal:
            self.keep(journal, stream, 3)
        with Records(tmp_path / "folder" / "trials.jsonl") as journal:
            back = journal.record(stream, METHODS["euclidean"], 3, 100)
            assert back.to_json() == self.record(3).to_json()
            assert journal.missing(stream, [METHODS["euclidean"]], 4, 100) == (METHODS["euclidean"],)

    @pytest.mark.parametrize("other", ["stream", "every", "settings", "program", "method"])
    def test_records_of_anything_else_do_not_count(self, tmp_path, monkeypatch, other):
        path, stream, method = tmp_path / "trials.jsonl", given(), METHODS["comid"]
        with Records(path) as journal:
            journal.keep(stream, [method], [self.record(0, "comid")], 100)
        with Records(path) as journal:
            assert not journal.missing(stream, [method], 0, 100)
        every = 50 if other == "every" else 100
        stream = given(seed=1) if other == "stream" else stream
        method = method.with_settings(step_size=0.5) if other == "settings" else method
        method = METHODS["comid-slow"].with_settings(**method.values) if other == "method" else method
        if other == "program":
            monkeypatch.setattr("ocelad.lab.journal.program", lambda: "another")
        with Records(path) as journal:
            assert journal.missing(stream, [method], 0, every) == (method,)

    def test_a_line_that_was_being_written_is_dropped(self, tmp_path):
        path, stream = tmp_path / "trials.jsonl", given()
        with Records(path) as journal:
            self.keep(journal, stream, 0)
            whole = path.read_bytes()
            self.keep(journal, stream, 1)
        lines = path.read_bytes()
        for cut in (*range(len(whole) + 1, len(whole) + 40), len(lines) - 2, len(lines) - 1):
            path.write_bytes(lines[:cut])
            with Records(path) as reread:
                assert not reread.missing(stream, [METHODS["euclidean"]], 0, 100)
                assert reread.missing(stream, [METHODS["euclidean"]], 1, 100)
                self.keep(reread, stream, 1)
            with Records(path) as again:
                assert not again.missing(stream, [METHODS["euclidean"]], 1, 100)
        for cut in (1, 5, 20):  # of the very first line
            path.write_bytes(lines[:cut])
            with Records(path):
                assert path.read_bytes() == b""

    def test_no_two_comparisons_write_to_one_file(self, tmp_path):
        with Records(tmp_path / "trials.jsonl"), pytest.raises(ValueError, match="another run is writing"):
            Records(tmp_path / "trials.jsonl")

    def test_methods_and_streams_of_ones_own_are_not_kept_in_a_file(self, tmp_path):
        path, own = tmp_path / "trials.jsonl", Method("euclidean", "", lambda setting: None)
        with Records(path) as journal:
            journal.keep(given(), [own], [self.record()], 100)
            journal.keep(short(), [METHODS["euclidean"]], [self.record()], 100)
            assert journal.missing(given(), [METHODS["euclidean"]], 0, 100)
        assert path.read_bytes() == b""

    def test_every_source_that_a_trial_depends_on_is_in_the_digest(self, tmp_path, monkeypatch):
        from ocelad.lab import journal

        for name in ("__init__.py", "baselines/pola.py", "online/comid.py", "compare/judge.py", "cli/track.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("# one")
        monkeypatch.setattr(journal, "ROOT", tmp_path)

        def digest():
            return journal.program.__wrapped__()

        before = digest()
        for name in ("baselines/pola.py", "online/comid.py", "compare/judge.py"):
            (tmp_path / name).write_text("# two")
            assert digest() != before
            (tmp_path / name).write_text("# one")
        (tmp_path / "cli/track.py").write_text("# two")
        assert digest() == before
        monkeypatch.setattr(journal, "version", lambda package: f"another {package}")
        assert digest() != before

    def test_a_file_that_is_no_journal_is_refused_and_stays(self, tmp_path):
        path = tmp_path / "trials.jsonl"
        for content in ("my notes\nand more\n", "my notes", '{"mine": 1}', '{"mine": 1}\n'):
            path.write_text(content)
            for restart in (False, True):
                with pytest.raises(ValueError, match="no journal of trials"):
                    Records(path, restart=restart)
            assert path.read_text() == content

    def test_what_another_version_kept_does_not_count_and_is_no_hindrance(self, tmp_path):
        path, stream = tmp_path / "trials.jsonl", given()
        old = json.dumps({"key": "0" * 32, "method": "euclidean", "seed": 0, "scores": {}}) + "\n"
        path.write_text(old)
        with Records(path) as journal:
            assert journal.missing(stream, [METHODS["euclidean"]], 0, 100)
            self.keep(journal, stream, 0)
        with Records(path) as journal:
            assert not journal.missing(stream, [METHODS["euclidean"]], 0, 100)
        assert path.read_text().startswith(old)

    def test_a_restart_forgets(self, tmp_path):
        path, stream = tmp_path / "trials.jsonl", given()
        with Records(path) as journal:
            self.keep(journal, stream, 0)
        before = path.read_bytes()
        with Records(path, restart=True) as journal:
            assert journal.missing(stream, [METHODS["euclidean"]], 0, 100)
            assert path.read_bytes() == before  # what fails before its first trial loses nothing
            self.keep(journal, stream, 1)
            self.keep(journal, stream, 2)
        with Records(path) as journal:
            assert journal.missing(stream, [METHODS["euclidean"]], 0, 100)
            assert not journal.missing(stream, [METHODS["euclidean"]], 1, 100)
            assert not journal.missing(stream, [METHODS["euclidean"]], 2, 100)

    @pytest.mark.parametrize("damage", [b"\x00" * 50 + b"\n", b"nonsense\n", b'{"key": 3}\n', b"\x00" * 50])
    @pytest.mark.parametrize("restart", [False, True])
    def test_damaged_lines_cost_only_themselves(self, tmp_path, damage, restart):
        path, stream = tmp_path / "trials.jsonl", given()
        with Records(path) as journal:
            self.keep(journal, stream, 0)
            whole = path.read_bytes()
            self.keep(journal, stream, 1)
        path.write_bytes(whole + damage + (path.read_bytes()[len(whole) :] if damage.endswith(b"\n") else b""))
        with Records(path, restart=restart) as journal:
            assert bool(journal.missing(stream, [METHODS["euclidean"]], 0, 100)) is restart
            self.keep(journal, stream, 2)
        with Records(path) as journal:
            assert not journal.missing(stream, [METHODS["euclidean"]], 2, 100)


class TestCompare:
    def test_finished_trials_are_not_computed_again(self, tmp_path, monkeypatch):
        monkeypatch.setitem(STREAMS, "short", short())

        def run(methods, **more):
            return compare(methods, "short", seeds=3, every=100, n_jobs=1, journal=tmp_path / "t.jsonl", **more)

        first = run(["comid", "euclidean"])
        ran = []
        monkeypatch.setattr(
            "ocelad.lab.compare.run_comparison.run_trial",
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

    def test_progress_counts_trials(self):
        seen = []
        compare(["euclidean"], short(), seeds=2, every=100, n_jobs=1, progress=lambda *now: seen.append(now))
        assert seen == [("comparing", 0, 2), ("comparing", 1, 2), ("comparing", 2, 2)]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"methods": []}, "no method to compare"),
            ({"methods": ["rice", "rice"]}, "rice is there 2 times"),
            ({"stream": "papers"}, "stream must be"),
            ({"seeds": 0}, "seeds"),
            ({"every": 10**9}, "every"),
            ({"reference": "comid"}, "the reference 'comid' is not compared"),
            ({"methods": "rice"}, "methods must be a list"),
            ({"methods": [3]}, "a method is a name or a Method; got int"),
            ({"stream": 3}, "stream must be a name"),
            ({"tune": 2, "first_seed": 2}, "tuning takes the seeds 0 to 2"),
        ],
    )
    def test_bad_input_is_refused_in_a_sentence(self, arguments, message):
        arguments = {"methods": ["rice"], "stream": "paper", **arguments}
        with pytest.raises((ValueError, TypeError), match=message):
            compare(**arguments)


class TestTuning:
    def aimed(self) -> Method:
        """It is the better the nearer its angle is to 0."""

        def make(setting, angle):
            direction = np.zeros(setting.n_features)
            direction[:2] = np.cos(angle), np.sin(angle)
            return Fixed(Metric.from_factors(direction[None]))

        return Method("aimed", "", make, {"angle": 1.2}, {"angle": Between(1e-3, 1.5)})

    def test_the_reference_may_be_written_in_any_way(self):
        methods = ["euclidean", "comid:step_size=1e-3"]
        comparison = compare(methods, short(), seeds=1, every=250, n_jobs=1, reference="comid:step_size=1.0e-3")
        assert comparison.reference == "comid:step_size=0.001"

    def test_the_best_of_what_was_tried_is_taken(self):
        comparison = compare([self.aimed(), "euclidean"], given(1600), tune=8, every=100, n_jobs=1)
        tuned = comparison.tuned["aimed"]
        angles, scores = [v["angle"] for v, _ in tuned.tried], [s for _, s in tuned.tried]
        assert tuned.n_tried == len(set(angles)) == 8
        assert angles[0] == 1.2
        assert tuned.best.values["angle"] == angles[int(np.argmin(scores))] < 0.5
        assert "euclidean" not in comparison.tuned
        assert comparison.rows()[0].mean == pytest.approx(
            compare([tuned.best], comparison.stream, every=100, n_jobs=1).rows()[0].mean
        )

    def test_of_given_pairs_the_first_quarter_is_tuned_on_and_the_rest_compared(self):
        seen = {"tuning": [], "comparing": []}

        class Spy(Fixed):
            def __init__(self, setting):
                super().__init__(Metric(np.eye(4)))
                self.seen = seen["tuning" if setting.rounds == 400 else "comparing"]

            def update(self, block):
                self.seen.append(block.X)

        spy = replace(self.aimed(), make=lambda setting, angle: Spy(setting))
        scene = np.random.default_rng(1).normal(size=(20, 4)), np.arange(20) % 2
        stream = given(1600, scene=scene)
        comparison = compare([spy], stream, tune=2, every=100, n_jobs=1)
        X = np.concatenate([block.X for block in stream.blocks(0, 100)])
        assert (np.concatenate(seen["tuning"]) == np.concatenate([X[:400], X[:400]])).all()  # twice: two settings
        assert (np.concatenate(seen["comparing"]) == X[400:]).all()
        assert comparison.main == "knn_error"
        # By its pairs alone: the items would be tuned by, and then judged by.
        (record,) = run_trial(stream.part(0, 400), [spy], seed=0, every=100)
        assert comparison.tuned["aimed"].tried[0][1] == pytest.approx(np.nanmean(record.measured("ranked_wrong")))
        assert comparison.tuned["aimed"].tried[0][1] != pytest.approx(np.mean(record.measured("knn_error")))
        with pytest.raises(ValueError, match="fewer than two times every=100"):
            compare([self.aimed()], given(400), tune=2, every=100)

    def test_other_seeds_are_tuned_on_than_compared(self):
        seen = {"tuning": set(), "comparing": set()}

        def make(setting, angle):
            seen["tuning" if setting.seed < 1000 else "comparing"].add(setting.seed)
            return Fixed(Metric(np.eye(8)))

        method = replace(self.aimed(), make=make)
        compare([method], short(), seeds=2, tune=2, tune_seeds=3, every=100, n_jobs=1)
        assert seen == {"tuning": {0, 1, 2}, "comparing": {1000, 1001}}

    def test_what_was_given_is_not_tuned(self):
        tried = candidates(parsed("comid:loss=hinge", METHODS), 6)
        assert {method.values["loss"] for method in tried} == {"hinge"}
        assert len({method.values["step_size"] for method in tried}) == 6

    def test_nothing_is_tried_twice(self):
        for name in ("lda", "mmc", "nca"):
            tried = [repr(method.values) for method in candidates(METHODS[name], 12)]
            assert len(tried) == len(set(tried))

    def test_settings_that_cannot_be_judged_are_not_taken(self):
        from ocelad.lab.compare.run_comparison import _mean

        assert _mean([Record("m", 0, [1], ["p"], ["p"], [Scores(np.nan, np.nan, np.nan)])], "knn_error") == np.inf

    def test_settings_that_fail_are_not_taken(self):
        def make(setting, angle):
            if angle != 1.2:
                raise FloatingPointError("no")
            return Fixed(Metric(np.eye(4)))

        comparison = compare([replace(self.aimed(), make=make)], given(1600), tune=4, every=100, n_jobs=1)
        assert comparison.tuned["aimed"].best.values["angle"] == 1.2


class TestSummary:
    def comparison(self, by_method: dict[str, list[list[float]]], stream=None, reference="a", failed=()) -> Comparison:
        """Of k-NN errors: for each method and seed one at rounds 100 and 200, in two phases."""
        stream = stream or short()
        methods = tuple(Method(name, "", Fixed) for name in by_method)
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
        a, b = comparison.rows("knn_error")
        assert a.mean == pytest.approx(30.0)  # of 20, 30, 40
        assert a.overall.error == pytest.approx(10.0 / np.sqrt(3))
        assert b.difference.mean == pytest.approx(5.0)  # every seed the same, though the seeds differ
        assert b.difference.error == pytest.approx(0.0, abs=1e-9)
        assert b.by_phase["A, static"].mean == pytest.approx(30.0)
        assert a.by_phase["B, drifting"].mean == pytest.approx(40.0)
        assert comparison.microseconds("a") == 2.0
        by_phase = comparison.rows("ranked_wrong")[0].by_phase  # by the phase of the pairs
        assert np.isnan(by_phase["A, static"].mean)
        assert by_phase["B, drifting"].mean == pytest.approx(30.0)

    def test_found_is_the_share_of_evaluations_with_a_high_nmi(self):
        comparison = self.comparison({"a": [[0.05, 0.3], [0.05, 0.05]]})
        assert comparison.rows("found")[0].mean == pytest.approx(75.0)

    def test_where_the_reference_does_not_win(self):
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
        found = {(n.phase, n.method, n.verdict) for n in comparison.not_won() if n.measure == "knn_error"}
        assert found == {
            ("A, static", "alike", "alike"),
            ("B, drifting", "alike", "alike"),
            ("B, drifting", "better later", "better"),
            (None, "alike", "alike"),
            (None, "better later", "alike"),
        }

    def test_more_clusters_found_is_better(self):
        comparison = self.comparison({"a": [[0.3, 0.05], [0.3, 0.05]], "b": [[0.05, 0.05]] * 2, "c": [[0.3, 0.3]] * 2})
        assert [(n.method, n.verdict) for n in comparison.not_won() if n.measure == "found"] == [("b", "better")]

    def test_of_one_stream_or_of_failures_nothing_is_said(self):
        one = self.comparison({"a": [[0.5, 0.5]], "b": [[0.1, 0.1]]})
        assert {n.verdict for n in one.not_won()} == {"unknown"}
        failed = self.comparison({"a": [[0.5, 0.5]] * 3, "b": [[0.9, 0.9]] * 3}, failed={("b", 0), ("b", 1)})
        assert {(n.method, n.verdict) for n in failed.not_won()} == {("b", "unknown")}

    def test_few_streams_have_to_be_clearer_than_many(self):
        many = Estimate.of(np.array([1.0, 3.0] * 30))
        assert many.mean > 2 * many.error
        assert many.sign == 1
        two = Estimate.of(np.array([1.8, 2.2]))  # ten standard errors, of which 12.7 are needed
        assert two.mean == pytest.approx(10 * two.error)
        assert two.sign == 0
        assert Estimate.of(np.array([-1.0, -1.01, -1.02])).sign == -1
        assert Estimate.of(np.array([5.0])).sign is None
        barely = Estimate(1.5, 1.0, 50)
        assert barely.sign == 0

    def test_failed_trials_are_in_no_mean_and_pairs_without_them(self):
        comparison = self.comparison({"a": [[0.1, 0.1], [0.5, 0.5]], "b": [[0.2, 0.2], [0.9, 0.9]]}, failed={("b", 1)})
        b = comparison.rows("knn_error")[1]
        assert b.mean == pytest.approx(20.0)
        assert b.difference.mean == pytest.approx(10.0)
        assert [record.seed for record in comparison.failures("b")] == [1]
        assert comparison.over_time("b", "knn_error")[1] == pytest.approx([20.0, 20.0])
        assert comparison.microseconds("b") == 1.0
        assert comparison.ranking == ["a", "b"]

    def test_methods_that_failed_come_last(self):
        comparison = self.comparison({"a": [[0.5, 0.5]] * 2, "b": [[0.1, 0.1]] * 2}, failed={("b", 1)})
        assert comparison.ranking == ["a", "b"]

    def test_a_method_that_fails_on_the_way_through_a_file_leaves_the_others_alone(self):
        class Fails(Fixed):
            def update(self, block):
                if block.round > 300:
                    raise FloatingPointError("too much")

        fails = Method("fails", "", lambda setting: Fails(Metric(np.eye(4))))
        comparison = compare(["euclidean", fails], given(1100), every=50, n_jobs=1)
        line = comparison.rows()[1]
        assert np.isnan(line.mean)
        assert {(n.method, n.verdict) for n in comparison.not_won()} == {("fails", "unknown")}
        json.dumps(comparison.to_json())

    def test_of_one_stream_errors_are_over_stretches(self):
        comparison = compare(["euclidean", "rice"], given(1100), every=50, n_jobs=1)
        line = comparison.rows()[0]
        values = 100 * comparison.records["euclidean"][0].measured("ranked_wrong")
        stretches = [np.nanmean(part) for part in np.array_split(values, 10)]
        assert line.mean == pytest.approx(np.mean(stretches))
        assert line.overall.error == pytest.approx(np.std(stretches, ddof=1) / np.sqrt(10))
        assert comparison.n_stretches == 10
        assert {n.phase for n in comparison.not_won()} <= {None}

    def test_json_holds_what_the_table_does(self):
        comparison = compare(["comid", "euclidean"], short(), seeds=2, every=100, n_jobs=1)
        content = json.loads(json.dumps(comparison.to_json()))
        assert [method["method"] for method in content["methods"]] == ["comid", "euclidean"]
        assert content["methods"][0]["knn_error"]["mean"] == comparison.rows()[0].mean
        assert content["methods"][0]["settings"] == METHODS["comid"].values
        assert content["methods"][1]["found"]["over_time"]["rounds"] == [100, 200]

    def test_an_estimate_of_one_value_has_no_error(self):
        assert np.isnan(Estimate.of(np.array([1.0])).error)
        assert np.isnan(Estimate.of(np.array([])).mean)


def test_a_learner_of_ones_own_can_be_compared():
    from ocelad import LearnerBank, Ocelad

    def make(setting):
        start = Metric(np.eye(setting.n_features) / setting.n_features)

        def learner(scale, play):
            return Comid(start if play is None else play, step_size=3e-3 * scale.rate)

        return Ensemble(Ocelad(LearnerBank(learner, Metric.average)))

    own = Method("own", "RICE by hand", make)
    comparison = compare([own, "rice-hinge"], short(), seeds=1, every=125, n_jobs=1)
    a, b = (comparison.records[name][0] for name in ("own", "rice-hinge"))
    np.testing.assert_allclose(a.measured("knn_error"), b.measured("knn_error"), atol=0.02)


def test_a_similarity_is_judged_by_its_own_order():
    from ocelad.lab.baselines.oasis import Similarity
    from ocelad.lab.compare.scoring import judged

    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    points = rng.normal(size=(60, 3))
    points[:, 0] = np.where(labels, 5.0, -5.0) + 0.1 * points[:, 0]
    X, Z = points[rng.permutation(60)], points
    y = np.where(X[:, 0] * Z[:, 0] > 0, 1.0, -1.0)
    from ocelad.lab.compare.comparison_streams import EvalSet

    block = Block(1, "", "", X, Z, y, EvalSet(points, labels))
    right, wrong = (Similarity(sign * np.diag([1.0, 0.0, 0.0])) for sign in (1, -1))
    assert judged(right, block)[::2] == (0.0, 0.0)
    assert judged(wrong, block)[::2] == (1.0, 1.0)
