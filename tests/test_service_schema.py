"""The HTTP API conforms to its OpenAPI description, whatever is sent to it."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi import checks
from serving import served, some_items
from test_service_security import ROUTES

load_all_checks()
CHECKS = (
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
)
# Ids that hypothesis generates early, so that many requests name existing items.
ITEMS = replace(some_items(m=6), ids=("0", "1", "00", "a", " ", "\N{WHITE SMILING FACE}"))
# Valid requests, and invalid ones for operations that have parameters or a body.
# Routes without anything that could be wrong.
NO_INPUT = ("/v1/logout",)
CASES = [
    (method, path, mode)
    for method, path in ROUTES
    for mode in GenerationMode
    if mode == GenerationMode.POSITIVE or "{" in path or (method == "post" and path not in NO_INPUT)
]


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    # Many uploads at a time: a request that the test has given up still runs on a busy machine.
    many = {"max_uploads": 64, "max_exports": 64}
    with served(tmp_path_factory.mktemp("api") / "data", ITEMS, max_upload=10_000, **many) as (http, _):
        yield schemathesis.openapi.from_url(f"{http.base_url}/v1/openapi.json")


def check(api, method, path, mode, examples):
    operation = api[path][method]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def holds(case, known):
        if known and "project" in (case.path_parameters or {}):
            case.path_parameters["project"] = "some"
        if path.endswith("/events"):
            _check_stream(case)
        else:
            case.validate_response(case.call(), checks=CHECKS)

    holds()


def _check_stream(case):
    """Check the start of an event stream, which has no end."""
    with requests.request(**case.as_transport_kwargs(), stream=True, timeout=20) as response:
        kind = response.headers["content-type"].partition(";")[0]
        assert (response.status_code, kind) == (200, "text/event-stream") or (
            response.status_code in (400, 404, 422) and "error" in response.json()
        )


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_responses_conform_to_the_description(api, method, path, mode):
    check(api, method, path, mode, examples=2 if path == "/v1/projects" else 5)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_responses_conform_to_the_description_with_many_examples(api, method, path, mode):
    check(api, method, path, mode, examples=10 if path == "/v1/projects" else 50)
