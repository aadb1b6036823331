"""Tokens that expire and are rotated: in the store, over HTTP, and on the command line."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from postgres import postgres  # noqa: F401  a fixture
from serving import served, some_items
from starlette.requests import HTTPConnection

from ocelad.cli.backup import restore as restore_command
from ocelad.cli.durations import Duration, Moment
from ocelad.cli.token import token as token_command
from ocelad.service.api_error import ApiError
from ocelad.service.security import Authenticator, authenticator, cached_callers
from ocelad.service.settings import Settings
from ocelad.service.store import InvalidRequest, Store, UnknownToken, backup, open_tokens, restore
from ocelad.service.token_secret import hash_secret

HOUR = 3_600_000


def now_ms():
    return int(time.time() * 1000)


@pytest.fixture
def tokens(tmp_path):
    with open_tokens(tmp_path / "data") as tokens:
        yield tokens


def found(tokens, secret):
    """Return the token of a secret if it would be accepted now."""
    token = tokens.find(hash_secret(secret))
    valid = token is not None and token.revoked_at is None and (token.expires_at is None or token.expires_at > now_ms())
    return token if valid else None


def test_a_rotated_token_has_the_same_name_and_permissions_and_a_new_secret(tokens):
    old = tokens.create("anna", {"digits": "admin", "*": "read"}, now_ms() + HOUR)
    before = found(tokens, old)
    new = tokens.rotate("anna")
    assert new != old
    assert found(tokens, new) == before
    assert found(tokens, old) is None
    assert tokens.all() == [before]


def test_the_old_secret_works_until_the_end_of_its_grace_period(tokens):
    first = tokens.create("anna", {"*": "read"})
    second = tokens.rotate("anna", HOUR)
    assert found(tokens, first).name == found(tokens, second).name == "anna"
    assert now_ms() < found(tokens, first).expires_at <= now_ms() + HOUR
    assert found(tokens, second).expires_at is None
    third = tokens.rotate("anna", HOUR)
    assert [found(tokens, each) is None for each in (first, second, third)] == [True, False, False]
    tokens.revoke("anna")
    assert [found(tokens, each) for each in (first, second, third)] == [None] * 3


def test_a_grace_period_does_not_outlast_the_token(tokens):
    old = tokens.create("anna", {"*": "read"}, now_ms() + HOUR)
    tokens.rotate("anna", 10 * HOUR)
    assert found(tokens, old).expires_at <= now_ms() + HOUR


def test_only_valid_tokens_are_rotated_and_only_to_the_future(tokens):
    secret = tokens.create("anna", {"*": "read"}, now_ms() + 60)
    with pytest.raises(InvalidRequest, match="future"):
        tokens.create("ben", {"*": "read"}, now_ms() - 1)
    with pytest.raises(UnknownToken):
        tokens.rotate("ben")
    with pytest.raises(InvalidRequest, match="grace"):
        tokens.rotate("anna", -1)
    with pytest.raises(InvalidRequest, match="future"):
        tokens.rotate("anna", 0, now_ms() - 1)
    time.sleep(0.1)
    assert found(tokens, secret) is None
    with pytest.raises(InvalidRequest, match="--expires"):
        tokens.rotate("anna")
    assert found(tokens, tokens.rotate("anna", 0, now_ms() + HOUR)).name == "anna"
    tokens.revoke("anna")
    with pytest.raises(InvalidRequest, match="revoked"):
        tokens.rotate("anna")


def test_a_secret_of_before_never_comes_back(tokens):
    """Of any sequence of rotations, the last secret is valid, and of the others at most the one before it."""
    secrets = [tokens.create("anna", {"*": "read"})]
    for grace in (HOUR, 0, HOUR, HOUR):
        secrets.append(tokens.rotate("anna", grace))
        valid = [secret for secret in secrets if found(tokens, secret)]
        assert valid == secrets[-2:] if grace else valid == secrets[-1:]


def caller(authenticate, secret):
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    return asyncio.run(authenticate(HTTPConnection({"type": "http", "headers": headers})))


@pytest.mark.parametrize("down", [False, True])
def test_a_cached_caller_is_refused_as_soon_as_its_token_expires(monkeypatch, down):
    """Also while the database is down, when others are accepted for a minute."""
    clock = [1_000_000.0]
    for module in (authenticator, cached_callers):
        monkeypatch.setattr(module, "time", lambda: clock[0])

    class Tokens:
        down = False

        def find_token(self, hash):
            if self.down:
                raise ConnectionError
            expires_at = (1_000_000 + 10) * 1000
            return SimpleNamespace(name="anna", permissions={"*": "read"}, revoked_at=None, expires_at=expires_at)

    tokens, secret = Tokens(), "ocelad_" + "A" * 43
    authenticate = Authenticator(tokens, True, unavailable=ConnectionError, cache_seconds=1000.0)
    assert caller(authenticate, secret).name == "anna"
    tokens.down = down
    clock[0] += 9.9
    assert caller(authenticate, secret).name == "anna"
    clock[0] += 0.1
    for _ in range(2):
        with pytest.raises(ConnectionError if down else ApiError) as raised:
            caller(authenticate, secret)
    if not down:
        assert raised.value.status == 401
        assert raised.value.message == (
            "this token expired at 1970-01-12 13:46 UTC; `ocelad token rotate` makes a new secret"
        )


def test_an_expired_token_is_refused_over_http_and_a_rotated_one_is_replaced(tmp_path):
    with served(tmp_path / "data", some_items(), require_token=True) as (http, service):

        def status(secret):
            return http.get("/v1/projects", headers={"Authorization": f"Bearer {secret}"}).status_code

        with open_tokens(service.settings.folder) as tokens:
            short = tokens.create("short", {"*": "read"}, now_ms() + 1500)
            old = tokens.create("anna", {"*": "read"})
            assert (status(short), status(old)) == (200, 200)
            new = tokens.rotate("anna")
        assert status(new) == 200
        time.sleep(1.6)
        answer = http.get("/v1/projects", headers={"Authorization": f"Bearer {short}"})
        assert (answer.status_code, "expired at" in answer.json()["error"]["message"]) == (401, True)
        deadline = time.monotonic() + 5
        while status(old) == 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert status(old) == 401
        assert status(new) == 200


def test_an_event_stream_ends_when_its_token_expires(tmp_path):
    with served(tmp_path / "data", some_items(), require_token=True) as (http, service):
        with open_tokens(service.settings.folder) as tokens:
            secret = tokens.create("short", {"*": "read"}, now_ms() + 1500)
        began = time.monotonic()
        with http.stream("GET", "/v1/projects/some/events", headers={"Authorization": f"Bearer {secret}"}) as stream:
            assert stream.status_code == 200
            for _ in stream.iter_lines():
                pass
        assert time.monotonic() - began < 15


def test_tokens_in_postgresql(postgres, tmp_path):  # noqa: F811
    url = postgres.new_url()
    with Store.open(tmp_path, url) as store, open_tokens(tmp_path, url, "tests") as tokens:
        old = tokens.create("anna", {"*": "read"}, now_ms() + HOUR)
        new = tokens.rotate("anna", HOUR)
        assert store.find_token(hash_secret(old)).name == store.find_token(hash_secret(new)).name == "anna"
        sessions = store.sessions
        sessions.add_login("state", "nonce", "verifier", "/", 600)
        assert sessions.take_login("state").nonce == "nonce"
        assert sessions.take_login("state") is None
        sessions.start("hash", "anna", ["a"], 60)
        assert sessions.find("hash").groups == ("a",)
        sessions.end("hash")
        assert sessions.find("hash") is None
        assert [entry.action for entry in store.audit()] == ["token.create", "token.rotate"]


def test_a_login_is_taken_once_by_many_at_once(tmp_path):
    with Store.open(tmp_path) as store, ThreadPoolExecutor(8) as threads:
        for i in range(5):
            store.sessions.add_login(f"state {i}", "nonce", "verifier", "/", 600)
            taken = list(threads.map(store.sessions.take_login, [f"state {i}"] * 8))
            assert sum(each is not None for each in taken) == 1


def test_old_logins_and_sessions_are_deleted(tmp_path):
    with Store.open(tmp_path) as store:
        store.sessions.add_login("old", "nonce", "verifier", "/", 600)
        store.sessions.start("old", "anna", [], 0.01)
        time.sleep(0.05)
        store.sessions.add_login("new", "nonce", "verifier", "/", 0.02)
        store.sessions.start("new", "anna", [], 60)
        assert store.sessions.take_login("old") is None
        assert store.sessions.take_login("new") is not None
        assert store.sessions.find("old") is None
        assert store.sessions.end_all("ben") == 0
        assert store.sessions.end_all("anna") == 1


# The command line


def invoke(tmp_path, *arguments):
    return CliRunner().invoke(token_command, [*arguments, "--data-folder", str(tmp_path / "data")])


def test_the_command_creates_lists_and_rotates(tmp_path):
    created = invoke(tmp_path, "create", "anna", "--expires", "30d")
    assert created.exit_code == 0, created.output
    assert "It expires at" in created.stderr
    invoke(tmp_path, "create", "ben", "--expires", "2127-01-31")
    rotated = invoke(tmp_path, "rotate", "anna", "--grace", "1h")
    assert rotated.exit_code == 0, rotated.output
    assert rotated.stdout.startswith("ocelad_")
    assert rotated.stdout != created.stdout
    assert "valid until" in rotated.stderr
    listed = invoke(tmp_path, "list")
    assert "expires" in listed.output
    assert "2127-01-31 00:00 UTC" in listed.output
    rows = json.loads(invoke(tmp_path, "list", "--json").stdout)["tokens"]
    assert 29 < (rows[0]["expires_at"] - now_ms()) / (24 * HOUR) <= 30
    with open_tokens(tmp_path / "data") as tokens:
        assert found(tokens, created.stdout.strip()).name == found(tokens, rotated.stdout.strip()).name == "anna"
        assert not any("ocelad_" in str(row) for row in rows)
    assert "no longer valid" in invoke(tmp_path, "rotate", "anna").stderr


@pytest.mark.parametrize("expires", ["yesterday", "2020-01-31", "-1d", "0", "30", "1y", "2027-13-01", ""])
def test_a_time_that_is_none_is_refused_with_one_sentence(tmp_path, expires):
    answer = invoke(tmp_path, "create", "anna", "--expires", expires)
    assert answer.exit_code == 2
    assert "--expires" in answer.stderr
    assert not (tmp_path / "data").exists()


def test_a_token_that_is_unknown_or_revoked_is_not_rotated(tmp_path):
    invoke(tmp_path, "create", "anna")
    invoke(tmp_path, "revoke", "anna")
    for name, word in (("anna", "revoked"), ("ben", "no token")):
        answer = invoke(tmp_path, "rotate", name)
        assert isinstance(answer.exception, InvalidRequest)
        assert word in str(answer.exception)


@given(st.integers(0, 99_999), st.sampled_from("smhdw"))
def test_durations_are_their_number_of_units(number, unit):
    milliseconds = {"s": 1000, "m": 60_000, "h": HOUR, "d": 24 * HOUR, "w": 7 * 24 * HOUR}[unit]
    assert Duration().convert(f"{number}{unit}", None, None) == number * milliseconds


@given(st.datetimes(datetime(2100, 1, 1), datetime(2900, 1, 1)))
def test_dates_are_in_utc(moment):
    moment = moment.replace(microsecond=0)
    assert Moment().convert(moment.isoformat(), None, None) == int(moment.replace(tzinfo=UTC).timestamp() * 1000)


def test_a_restored_backup_has_the_tokens_of_its_time_and_no_sessions(tmp_path):
    """A token that was revoked after the backup is valid again: the command says so. Sessions are not restored."""
    folder, restored = tmp_path / "data", tmp_path / "restored"
    with Store.open(folder) as store, open_tokens(folder) as tokens:
        secret = tokens.create("anna", {"*": "read"})
        store.sessions.start("hash", "anna", [], 60)
        store.sessions.add_login("state", "nonce", "verifier", "/", 600)
        backup(folder, tmp_path / "copy")
        tokens.revoke("anna")
        assert found(tokens, secret) is None
    restore(tmp_path / "copy", restored)
    with Store.open(restored) as store, open_tokens(restored) as tokens:
        assert found(tokens, secret).name == "anna"
        assert store.sessions.find("hash") is None
        assert store.sessions.take_login("state") is None
    said = CliRunner().invoke(restore_command, [str(tmp_path / "copy"), "--data-folder", str(tmp_path / "again")])
    assert said.exit_code == 0
    assert "revoked" in said.stderr


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_body", "8 MiB", 8 * 2**20),
        ("max_upload", "1GiB", 2**30),
        ("max_items_body", "2048", 2048),
        ("rate", "none", None),
        ("rate", "20", 20.0),
        ("database", "", None),
        ("random_share", "none", None),
        ("trust_proxy", "", ()),
        ("require_token", "true", True),
        ("allow_hosts", "a.example, b.example", ("a.example", "b.example")),
    ],
)
def test_documented_values_are_accepted_from_the_environment(monkeypatch, name, text, value):
    monkeypatch.setenv(f"OCELAD_SERVE_{name.upper()}", text)
    assert getattr(Settings(), name) == value


@pytest.mark.parametrize(("command", "default"), [("create", "never"), ("rotate", "as before")])
def test_the_help_names_the_default_of_the_expiry(command, default):
    help = CliRunner().invoke(token_command, [command, "--help"]).output
    assert f"[default: {default}]" in " ".join(help.partition("--expires")[2].split())
