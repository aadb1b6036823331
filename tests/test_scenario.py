"""The claims about the paper's scenario, over seeds never used for tuning."""

from __future__ import annotations

import pytest

from ocelad.lab.compare import compare

METHODS = ("rice", "rice-hinge", "itml-online", "comid-decaying", "lmnn-start", "saol", "euclidean", "truth")


@pytest.fixture(scope="module")
def comparison():
    return compare(METHODS, "paper", seeds=20)


@pytest.mark.slow
def test_rice_ocelad_tracks_the_scenario(comparison):
    error = {summary.method: summary.mean for summary in comparison.summaries("knn_error")}
    found = {summary.method: summary.mean for summary in comparison.summaries("clusters_found")}
    assert error["rice-hinge"] <= 2.5
    assert found["rice-hinge"] >= 82
    assert error["rice"] <= 2.0
    assert found["rice"] >= 87


@pytest.mark.slow
def test_the_methods_rank_as_in_the_paper(comparison):
    summaries = {summary.method: summary for summary in comparison.summaries("knn_error")}
    order = ("truth", "rice", "itml-online", "comid-decaying", "lmnn-start")
    errors = [summaries[method].mean for method in order]
    assert errors == sorted(errors)
    assert summaries["saol"].mean > 5 * summaries["rice-hinge"].mean
    assert summaries["saol"].difference.mean > 10 * summaries["saol"].difference.standard_error
    assert summaries["saol"].mean < summaries["euclidean"].mean


@pytest.mark.slow
def test_lmnn_fitted_at_the_start_is_good_in_the_first_phase_only(comparison):
    phases = comparison.phases
    summaries = {summary.method: summary for summary in comparison.summaries("knn_error")}
    lmnn, rice, euclidean = (summaries[name].by_phase for name in ("lmnn-start", "rice", "euclidean"))
    assert lmnn[phases[0]].mean < rice[phases[0]].mean
    for phase in phases[1:4]:
        assert lmnn[phase].mean > euclidean[phase].mean
    assert ("lmnn-start", phases[0], "better") in [(n.method, n.phase, n.verdict) for n in comparison.unbeaten()]
