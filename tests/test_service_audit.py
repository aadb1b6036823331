"""The audit log: what is recorded, who may read it, and what must never be in it."""

from __future__ import annotations

import json
import logging

import pytest
from click.testing import CliRunner
from serving import served, some_items

from ocelad.cli.audit import audit as audit_command
from ocelad.cli.token import token as token_command
from ocelad.service.audit_log import AuditLog
from ocelad.service.store import Store, StoreUnavailable, open_tokens

PAIR = {"left": "item 0", "right": "item 1", "answer": "same"}


@pytest.fixture
def closed(tmp_path):
    """A service that requires tokens, with an admin of all projects and an admin of one."""
    with served(tmp_path / "data", some_items(), require_token=True) as (http, service):
        with open_tokens(service.settings.folder) as tokens:
            secrets = {
                "anna": tokens.create("anna", {"*": "admin"}),
                "ben": tokens.create("ben", {"some": "admin"}),
            }
        yield http, service, {name: {"Authorization": f"Bearer {secret}"} for name, secret in secrets.items()}


def actions(http, headers, **parameters):
    response = http.get("/v1/audit", params=parameters, headers=headers)
    assert response.status_code == 200, response.text
    return [(each["who"], each["action"], each["target"]) for each in response.json()["entries"]]


def test_changes_and_exports_are_recorded_with_who_did_them(closed):
    http, _, people = closed
    new = http.post(
        "/v1/projects", params={"id": "new", "format": "csv"}, headers=people["anna"], content=b"id,x\na,1\nb,2\n"
    )
    assert new.status_code == 201
    item = {"items": [{"id": "more", "features": [1.0, 2.0, 3.0]}]}
    ben = people["ben"] | {"Ocelad-Person": "violet otter"}
    assert http.post("/v1/projects/some/items", json=item, headers=ben).status_code == 201
    export = {"content": "items", "format": "csv"}
    assert http.get("/v1/projects/some/export", params=export, headers=ben).status_code == 200
    assert actions(http, people["anna"]) == [
        ("", "token.create", "anna"),
        ("", "token.create", "ben"),
        ("anna", "project.create", "new"),
        ("ben/violet otter", "items.add", "some"),
        ("ben/violet otter", "export", "some"),
    ]
    assert actions(http, people["anna"], who="anna") == [("anna", "project.create", "new")]
    assert actions(http, people["anna"], target="some", action="export") == [("ben/violet otter", "export", "some")]


def test_a_settlement_is_recorded_once_and_without_its_answer(closed):
    http, _, people = closed
    assert http.post("/v1/projects/some/comparisons", json=PAIR, headers=people["ben"]).status_code == 201
    decision = PAIR | {"answer": "different"}
    headers = people["anna"] | {"Idempotency-Key": "once"}
    statuses = [
        http.post("/v1/projects/some/disagreements/settle", json=decision, headers=headers).status_code
        for _ in range(2)
    ]
    assert statuses == [201, 200]
    entries = http.get("/v1/audit", params={"target": "some"}, headers=people["anna"]).json()["entries"]
    (entry,) = (each for each in entries if each["action"] == "disagreement.settle")
    assert entry["who"] == "anna"
    assert set(entry["detail"]) == {"first", "last"}


def test_answers_and_refused_requests_are_not_recorded(closed):
    http, _, people = closed
    before = actions(http, people["anna"])
    for _ in range(3):
        assert http.post("/v1/projects/some/comparisons", json=PAIR, headers=people["ben"]).status_code == 201
    refused = http.post(
        "/v1/projects", params={"id": "x", "format": "csv"}, headers=people["ben"], content=b"id,x\na,1\n"
    )
    assert refused.status_code == 403
    assert http.post("/v1/projects/some/items", json={"items": []}, headers=people["ben"]).status_code == 422
    assert actions(http, people["anna"]) == before


def test_only_admins_of_all_projects_read_it(closed):
    http, _, people = closed
    assert http.get("/v1/audit", headers=people["ben"]).status_code == 403
    assert http.get("/v1/audit").status_code == 401


def test_pages_follow_each_other_without_gaps(closed):
    http, service, people = closed
    for i in range(7):
        service.audit.record("anna", "test", f"target {i}")
    found, after = [], 0
    while after is not None:
        page = http.get("/v1/audit", params={"after": after, "limit": 2}, headers=people["anna"]).json()
        assert 0 < len(page["entries"]) <= 2
        found += [each["number"] for each in page["entries"]]
        after = page["next"]
    assert found == sorted(set(found))
    assert len(found) == 2 + 7


def test_what_a_client_sends_as_its_name_can_always_be_stored(tmp_path):
    with Store.open(tmp_path) as store:
        AuditLog(store).record("a\0b\ud800" + "x" * 500, "test", "\0" * 300)
        (entry,) = store.audit()
    assert entry.who.startswith("a?b?x")
    assert len(entry.who) == len(entry.target) == 200


def test_an_action_that_cannot_be_recorded_is_logged(caplog):
    class Full:
        def add_audit(self, who, action, target="", detail=None):
            raise StoreUnavailable("the disk is full")

    with caplog.at_level(logging.ERROR):
        AuditLog(Full()).record("anna", "project.delete", "wines")
    assert "project.delete" in caplog.text
    assert "the disk is full" in caplog.text


def test_the_command_lists_and_filters_and_shows_no_secret(tmp_path):
    folder = ["--data-folder", str(tmp_path / "data")]
    secrets = [CliRunner().invoke(token_command, ["create", name, *folder]).stdout.strip() for name in ("anna", "ben")]
    secrets.append(CliRunner().invoke(token_command, ["rotate", "ben", *folder]).stdout.strip())
    assert CliRunner().invoke(token_command, ["revoke", "anna", *folder]).exit_code == 0
    shown = CliRunner().invoke(audit_command, folder)
    assert shown.exit_code == 0, shown.output
    assert all(word in shown.output for word in ("token.create", "token.rotate", "token.revoke", "command line"))
    lines = CliRunner().invoke(audit_command, [*folder, "--json"]).stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(each["action"], each["target"]) for each in entries] == [
        ("token.create", "anna"),
        ("token.create", "ben"),
        ("token.rotate", "ben"),
        ("token.revoke", "anna"),
    ]
    assert not any(secret in shown.output + "".join(lines) for secret in secrets)
    some = CliRunner().invoke(audit_command, [*folder, "--json", "--target", "ben", "--action", "token.rotate"]).stdout
    assert [json.loads(line)["action"] for line in some.splitlines()] == ["token.rotate"]
    nothing = CliRunner().invoke(audit_command, [*folder, "--who", "nobody"])
    assert nothing.exit_code == 0
    assert "no entries" in nothing.output
