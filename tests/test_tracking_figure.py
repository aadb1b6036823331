"""Figure 3: its data and its claims."""

from __future__ import annotations

import numpy as np
import pytest

from ocelad.lab.compare import METHODS, STREAMS
from ocelad.lab.compare.trial import run_trial
from ocelad.lab.experiments import tracking
from ocelad.lab.figures import FIGURES, FigureData
from ocelad.lab.runner import Runner

FIGURE = FIGURES["3"]
PHASES = ["A, static", "B, moderate drift", "B, fast drift", "B, moderate again", "A, slow drift"]


def answers_of(wrong, found, phases=("p", "q")):
    """Return the answers of trials with two evaluations, one in each phase."""
    methods = list(wrong)
    return [
        {
            "rounds": [100, 200],
            "phases": list(phases),
            "wrong": {method: wrong[method][i] for method in methods},
            "found": {method: found[method][i] for method in methods},
            "failed": {},
        }
        for i in range(len(wrong[methods[0]]))
    ]


class TestData:
    def test_a_trial_agrees_with_the_comparison(self):
        answer = tracking.trial({"seed": 3, "methods": ["comid", "saol"], "every": 2000}, None)
        records = run_trial(STREAMS["paper"], [METHODS["comid"], METHODS["saol"]], 3, 2000)
        for record in records:
            np.testing.assert_array_equal(np.array(answer["wrong"][record.method]) / 600, record.values("knn_error"))
            expected = "".join("1" if nmi > 0.8 else "0" for nmi in record.values("nmi"))
            assert answer["found"][record.method] == expected

    def test_means_over_trials_and_phases(self):
        wrong = {"rice-hinge": [[6, 12], [12, 18], [0, 6]], "saol": [[60, 60], [60, 120], [120, 60]]}
        found = {"rice-hinge": ["11", "10", "11"], "saol": ["00", "00", "01"]}
        curves, overall = tracking._summarize(answers_of(wrong, found), list(wrong))
        data = FigureData({}, {"curves": curves, "overall": overall})
        saol = data.where("curves", method="saol")
        np.testing.assert_allclose(saol["knn_error"], [40 / 3, 40 / 3])
        np.testing.assert_allclose(saol["knn_error_se"], np.std([10, 10, 20], ddof=1) / np.sqrt(3))
        np.testing.assert_allclose(saol["found"], [0, 100 / 3])
        everything = data.where("overall", method="saol", phase="all")
        more = np.array([10 - 1.5, 15 - 2.5, 15 - 0.5])
        np.testing.assert_allclose(everything["knn_error_more"], more.mean())
        np.testing.assert_allclose(everything["knn_error_more_se"], more.std(ddof=1) / np.sqrt(3))
        assert data.where("overall", method="rice-hinge", phase="q")["knn_error"] == pytest.approx(2.0)

    def test_failed_trials_count_until_the_failure(self):
        answers = answers_of({"comid": [[6, 12], [12], []]}, {"comid": ["11", "0", ""]})
        curves, overall = tracking._summarize(answers, ["comid"])
        np.testing.assert_allclose(curves["knn_error"], [1.5, 2.0])
        assert overall["trials"] == [2, 1, 1]

    def test_the_drift_is_that_of_the_true_metric(self):
        from ocelad.evaluation.streams import DriftingClusters

        moved = tracking.drift_trial({"seed": 5}, None)["moved"]
        truths = [step.true_metric().matrix for step in DriftingClusters(seed=5)]
        for t in (1, 500, 1000, 1001, 2500, 4000, 5999):
            assert moved[t] == pytest.approx(np.linalg.norm(truths[t] - truths[t - 1]), abs=1e-6)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"trials": 0}, "trials must be .* at least 1"),
            ({"first_seed": -1}, "first_seed must be"),
            ({"every": 0}, "every must be"),
            ({"every": 6001}, "every must be"),
            ({"methods": " "}, "methods must name at least one"),
            ({"methods": "rice nothing"}, "there is no method 'nothing'"),
        ],
    )
    def test_wrong_settings_are_rejected_before_the_first_trial(self, settings, sentence):
        calls = []
        runner = Runner(backend="threads", progress=lambda *words: calls.append(words))
        with pytest.raises(ValueError, match=sentence):
            FIGURE.compute(
                runner, **FIGURE.resolve_settings(trials=1, **settings) if "trials" not in settings else settings
            )
        assert calls == []


def make_data(**changed):
    """Return typical data, with the error and the share of found clusters of some methods changed."""
    scores = {
        "rice-hinge": (2.4, 84.0),
        "rice": (1.9, 90.0),
        "comid": (2.5, 83.0),
        "comid-slow": (2.6, 78.0),
        "comid-decaying": (4.1, 27.0),
        "itml-online": (2.6, 74.0),
        "saol": (17.8, 3.0),
        "lmnn-start": (17.0, 17.0),
        "cbce": (3.2, 65.0),
        "comid-oracle": (2.0, 89.0),
    } | changed
    methods = list(scores)
    ours = scores["rice-hinge"][0]
    overall = [
        (method, phase, error, 0.01, error - ours, 0.01, found, 0.5, 0.0, 0.5, 50)
        for method, (error, found) in scores.items()
        for phase in (*PHASES, "all")
    ]
    names = ["method", "phase", "knn_error", "knn_error_se", "knn_error_more", "knn_error_more_se"]
    names += ["found", "found_se", "found_more", "found_more_se", "trials"]
    rounds = [1000, 2000, 3000, 4000, 6000]
    return FigureData(
        {"figure": "3", "settings": {"trials": 50}},
        {
            "overall": dict(zip(names, map(list, zip(*overall, strict=True)), strict=True)),
            "curves": {
                "method": [method for method in methods for _ in rounds],
                "round": rounds * len(methods),
                "phase": PHASES * len(methods),
                "knn_error": [scores[method][0] for method in methods for _ in rounds],
                "knn_error_se": [0.1] * 50,
                "found": [min(100.0, 1.15 * scores[method][1]) for method in methods for _ in rounds],
                "found_se": [1.0] * 50,
            },
            "methods": {"method": methods, "told": ["", *[""] * 6, "labels", "", "changes"]},
            "drift": {"round": [1, 1001, 6000], "moved": [0.0, 2.45, 0.03]},
        },
    )


class TestClaims:
    @pytest.mark.parametrize(
        ("what", "changed"),
        [
            ("RICE-OCELAD", {"rice-hinge": (5.0, 60.0)}),
            ("SAOL", {"saol": (3.0, 70.0)}),
            ("LMNN (batch)", {"lmnn-start": (3.0, 70.0)}),
            ("COMID, high rate", {"comid": (2.3, 85.0)}),
        ],
    )
    def test_claims_that_agree_can_be_false(self, what, changed):
        verdicts = [
            next(claim.agrees for claim in FIGURE.claims(data) if claim.what == what)
            for data in (make_data(), make_data(**changed))
        ]
        assert verdicts == [True, False]

    @pytest.mark.parametrize("method", ["itml-online", "comid-slow"])
    def test_claims_that_do_not_agree_can_be_true(self, method):
        what = {"itml-online": "online ITML", "comid-slow": "COMID, low rate"}[method]
        verdicts = [
            next(claim.agrees for claim in FIGURE.claims(data) if claim.what == what)
            for data in (make_data(), make_data(**{method: (20.0, 2.0)}))
        ]
        assert verdicts == [False, True]

    def test_other_methods_that_adapt_are_named(self):
        claim = next(claim for claim in FIGURE.claims(make_data()) if claim.what == "Methods that adapt")
        assert "COMID, high rate, COMID, low rate, online ITML, CBCE" in claim.ours
        assert not claim.agrees
        failing = dict.fromkeys(("comid", "comid-slow", "itml-online", "cbce"), (20.0, 2.0))
        claim = next(claim for claim in FIGURE.claims(make_data(**failing)) if claim.what == "Methods that adapt")
        assert claim.agrees

    def test_an_insignificant_difference_decides_nothing(self):
        claims = FIGURE.claims(make_data(comid=(2.41, 84.0)))
        assert next(claim.agrees for claim in claims if claim.what == "COMID, high rate") is None

    def test_one_trial_decides_nothing(self):
        data = FIGURE.compute(Runner(backend="threads"), trials=1, methods="rice-hinge comid", every=3000)
        claim = next(claim for claim in FIGURE.claims(data) if claim.what == "COMID, high rate")
        assert claim.agrees is None
        assert "nan" not in claim.ours + str(FIGURE.summarize(data).rows)

    def test_a_single_method_is_not_called_the_only_one_that_adapts(self):
        data = FIGURE.compute(Runner(backend="threads"), trials=1, methods="rice-hinge", every=3000)
        assert next(claim for claim in FIGURE.claims(data) if claim.what == "Methods that adapt").agrees is None

    def test_claims_about_methods_that_were_not_run_are_omitted(self):
        data = FIGURE.compute(Runner(backend="threads"), trials=2, methods="saol comid", every=3000)
        assert FIGURE.claims(data) == []
        assert [row[0] for row in FIGURE.summarize(data).rows] == ["COMID, high rate", "SAOL"]


def test_the_legend_is_outside_the_axes():
    figure = FIGURE.draw(make_data())
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} >= {"RICE-OCELAD, hinge", "SAOL", "LMNN (batch)"}
    figure.canvas.draw()
    box = legend.get_window_extent()
    assert not any(ax.get_window_extent().overlaps(box) for ax in figure.axes)
