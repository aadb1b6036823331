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
    error = {line.method: line.mean for line in comparison.rows("knn_error")}
    found = {line.method: line.mean for line in comparison.rows("found")}
    assert error["rice-hinge"] <= 2.5
    assert found["rice-hinge"] >= 82
    assert error["rice"] <= 2.0
    assert found["rice"] >= 87


@pytest.mark.slow
def test_the_methods_rank_as_in_the_paper(comparison):
    lines = {line.method: line for line in comparison.rows("knn_error")}
    order = ("truth", "rice", "itml-online", "comid-decaying", "lmnn-start")
    errors = [lines[method].mean for method in order]
    assert errors == sorted(errors)
    assert lines["saol"].mean > 5 * lines["rice-hinge"].mean
    assert lines["saol"].difference.mean > 10 * lines["saol"].difference.error
    assert lines["saol"].mean < lines["euclidean"].mean


@pytest.mark.slow
def test_lmnn_fitted_at_the_start_is_good_in_the_first_phase_only(comparison):
    phases = comparison.phases
    lines = {line.method: line for line in comparison.rows("knn_error")}
    lmnn, rice, euclidean = (lines[name].by_phase for name in ("lmnn-start", "rice", "euclidean"))
    assert lmnn[phases[0]].mean < rice[phases[0]].mean
    for phase in phases[1:4]:
        assert lmnn[phase].mean > euclidean[phase].mean
    assert ("lmnn-start", phases[0], "better") in [(n.method, n.phase, n.verdict) for n in comparison.unbeaten()]
