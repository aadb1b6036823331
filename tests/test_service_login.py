"""Logins by a reverse proxy's header and by OpenID Connect, against a provider that these tests start."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import sys
import time
import warnings
from contextlib import contextmanager
from ipaddress import ip_network
from typing import get_args
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from click.testing import CliRunner
from command import run
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from openid_provider import CLIENT_ID, CLIENT_SECRET, serving_provider
from serving import Server, served, some_items
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from ocelad.cli.session import session as session_command
from ocelad.service.api_error import ApiError
from ocelad.service.routes import login as login_routes
from ocelad.service.security import Authenticator, Logins, openid_login, openid_provider
from ocelad.service.security.login_rules import GroupRule, LoginRules, login_name
from ocelad.service.security.openid_login import OpenIdLogin, safe_next
from ocelad.service.security.openid_provider import OpenIdProvider
from ocelad.service.security.proxy_login import ProxyLogin
from ocelad.service.settings import Settings
from ocelad.service.store import Store, open_tokens
from ocelad.service.wire import Permission

PAIR = {"left": "item 0", "right": "item 1", "answer": "same"}
SECRET = "a secret of the proxy"
ORDER = [None, *get_args(Permission)]


# By the header of a proxy


class NoTokens:
    def find_token(self, hash):
        return None


def proxy_authenticator(**options):
    options = {"trusted": [ip_network("127.0.0.1")]} | options
    proxy = ProxyLogin("X-Forwarded-User", LoginRules("answer", {"anna"}), **options)
    return Authenticator(NoTokens(), False, unavailable=OSError, proxy=proxy)


def identify(authenticate, *headers, client="127.0.0.1", method="GET"):
    raw = [(name.lower().encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]
    scope = {"type": "http", "method": method, "headers": raw, "client": client and (client, 5000)}
    return asyncio.run(authenticate(HTTPConnection(scope)))


def refusal(authenticate, *headers, **request):
    with pytest.raises(ApiError) as raised:
        identify(authenticate, *headers, **request)
    assert raised.value.message
    assert "\n" not in raised.value.message
    return raised.value.status


def test_the_header_of_a_trusted_proxy_names_the_caller():
    authenticate = proxy_authenticator()
    ben, anna = (identify(authenticate, ("X-Forwarded-User", name)) for name in ("ben@example.org", "anna"))
    assert (ben.name, ben.permission_on("any"), anna.permission_on("any")) == ("ben@example.org", "answer", "admin")
    assert ben.stored_name("misty hare") == "ben@example.org"
    assert identify(authenticate, ("X-Forwarded-User", "अनिता")).name == "अनिता"
    assert identify(authenticate, ("X-Forwarded-User", "anna"), ("X-Forwarded-For", "192.0.2.1")).name == "anna"


@pytest.mark.parametrize(
    ("headers", "client", "status"),
    [
        ([], "127.0.0.1", 401),
        ([("X-Forwarded-User", "anna")], "192.0.2.1", 403),
        ([("X-Forwarded-User", "anna")], "::1", 403),
        ([("X-Forwarded-User", "anna")], None, 403),
        ([("X-Forwarded-User", "anna"), ("X-Forwarded-User", "anna")], "127.0.0.1", 400),
        ([("X-Forwarded-User", "anna"), ("X-Forwarded-User", "ben")], "127.0.0.1", 400),
        ([("X_Forwarded_User", "anna")], "127.0.0.1", 403),
        ([("X-Forwarded_User", "anna")], "127.0.0.1", 403),
        ([("X-Forwarded-User", "ben"), ("X_Forwarded_User", "anna")], "127.0.0.1", 403),
        ([("X-Forwarded-User", "")], "127.0.0.1", 401),
        ([("X-Forwarded-User", "anna/ben")], "127.0.0.1", 401),
        ([("X-Forwarded-User", "anna,ben")], "127.0.0.1", 401),
        ([("X-Forwarded-User", "a" * 65)], "127.0.0.1", 401),
        ([("X-Forwarded-User", b"\xff\xfe")], "127.0.0.1", 401),
        ([("X-Forwarded-User", "an\u200bna")], "127.0.0.1", 401),
        ([("X-Forwarded-User", "\u202eanna")], "127.0.0.1", 401),
        ([("X-Forwarded-User", "anna\u3164")], "127.0.0.1", 401),
        ([("X-Forwarded-For", "127.0.0.1")], "127.0.0.1", 401),
        ([("X-Forwarded-User", "anna"), ("Authorization", "Bearer ocelad_" + "A" * 43)], "127.0.0.1", 401),
    ],
    ids=range(19),
)
def test_the_header_is_refused_when_anybody_else_may_have_set_it(headers, client, status):
    assert refusal(proxy_authenticator(), *headers, client=client) == status


def test_changes_of_a_browser_behind_a_proxy_need_the_service_s_own_page():
    user, cookie = ("X-Forwarded-User", "anna"), ("Cookie", "_oauth2_proxy=x")
    authenticate = proxy_authenticator()
    assert refusal(authenticate, user, cookie, method="POST") == 403
    for page in (("Origin", "https://labels.example"), ("Sec-Fetch-Site", "same-origin")):  # Guard compares the origin
        assert identify(authenticate, user, cookie, page, method="POST").name == "anna"
    assert identify(authenticate, user, method="POST").name == "anna"  # a program
    assert identify(authenticate, user, cookie).name == "anna"


def test_networks_and_mapped_addresses_are_trusted():
    authenticate = proxy_authenticator(trusted=[ip_network("10.1.0.0/16"), ip_network("fd00::/8")])
    header = ("X-Forwarded-User", "anna")
    for client in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::7"):
        assert identify(authenticate, header, client=client).name == "anna"
    assert refusal(authenticate, header, client="10.2.0.1") == 403
    assert refusal(authenticate, header, client="127.0.0.1") == 403


def test_a_secret_of_the_proxy_is_required_in_addition_to_its_address():
    header, right = ("X-Forwarded-User", "anna"), ("Ocelad-Proxy-Secret", SECRET)
    for trusted in ([], [ip_network("127.0.0.1")]):
        authenticate = proxy_authenticator(trusted=trusted, secret=SECRET)
        assert identify(authenticate, header, right).name == "anna"
        assert refusal(authenticate, header) == 403
        assert refusal(authenticate, header, right, right) == 403
        for wrong in ("", SECRET[:-1], SECRET + "x", "ä" * 20):
            assert refusal(authenticate, header, ("Ocelad-Proxy-Secret", wrong)) == 403
    assert refusal(authenticate, header, right, client="192.0.2.1") == 403
    with pytest.raises(ValueError, match="--trust-proxy"):
        proxy_authenticator(trusted=[])


def test_the_groups_of_the_proxy_give_permissions():
    rules = LoginRules(None, (), [GroupRule("reviewers", "admin"), GroupRule("tasters", "answer", "wines")])
    proxy = ProxyLogin("X-User", rules, trusted=[ip_network("127.0.0.1")], groups_header="X-Groups")
    authenticate = Authenticator(NoTokens(), False, unavailable=OSError, proxy=proxy)
    user = ("X-User", "anna")
    assert identify(authenticate, user, ("X-Groups", "a, reviewers")).permissions == {"*": "admin"}
    assert identify(authenticate, user, ("X-Groups", "tasters")).permissions == {"wines": "answer"}
    assert refusal(authenticate, user) == 403
    assert refusal(authenticate, user, ("X-Groups", "reviewer")) == 403
    assert refusal(authenticate, user, ("X-Groups", "tasters"), ("X-Groups", "reviewers")) == 400
    assert refusal(authenticate, user, ("X-Groups", "tasters"), ("X_Groups", "reviewers")) == 403
    assert refusal(authenticate, ("X-Groups", "reviewers"), client="192.0.2.1") == 403


@given(
    st.sampled_from(ORDER),
    st.booleans(),
    st.lists(
        st.builds(
            GroupRule,
            st.sampled_from("ab"),
            st.sampled_from(ORDER[1:]),
            st.sampled_from(["*", "wines"]),
        ),
        max_size=4,
    ),
    st.sets(st.sampled_from("abc")),
)
def test_each_rule_grants_at_least_what_it_says_and_all_together_no_more(everybody, admin, rules, groups):
    granted = {"*": [everybody] + ["admin"] * admin, "wines": [None]}
    for rule in rules:
        if rule.group in groups:
            granted[rule.project].append(rule.permission)
    best = {project: max(held, key=ORDER.index) for project, held in granted.items()}
    login_rules = LoginRules(everybody, {"anna"} if admin else (), rules)
    if best == {"*": None, "wines": None}:
        with pytest.raises(ApiError, match="no permission"):
            login_rules.caller("anna", groups)
        return
    caller = login_rules.caller("anna", groups)
    assert caller.permission_on("other") == best["*"]
    assert caller.permission_on("wines") == max(best.values(), key=ORDER.index)


@given(st.text(max_size=80))
def test_names_are_safe_and_normal(text):
    name = login_name(text)
    if name is not None:
        assert 0 < len(name) <= 64
        assert login_name(name) == name
        assert not set(name) & set('/\0\n\r\t\u200b\u202e,;<>"&=')


def test_a_service_with_a_login_header_lets_nobody_in_without_it(tmp_path):
    """Also on loopback, where a service without logins asks nobody; and tokens still work."""
    options = {"login_header": "X-Forwarded-User", "trust_proxy": "127.0.0.1", "admins": "anna"}
    with served(tmp_path / "data", some_items(), **options) as (http, service):
        assert http.get("/v1/projects").status_code == 401
        assert http.get("/v1/health").status_code == 200
        assert http.get("/v1/ready").json()["backlog"] == {}
        ben = {"X-Forwarded-User": "ben", "Ocelad-Person": "misty hare", "X-Forwarded-For": "192.0.2.1"}
        last = http.post("/v1/projects/some/comparisons", json=PAIR, headers=ben).json()["last"]
        page = http.get("/v1/projects/some/history", params={"after": last - 1}, headers=ben).json()
        assert page["entries"][0]["person"] == "ben"
        assert http.get("/v1/audit", headers=ben).status_code == 403
        assert http.get("/v1/audit", headers={"X-Forwarded-User": "anna"}).status_code == 200
        assert http.get("/v1/me", headers=ben).json() == {
            "name": "ben",
            "permissions": {"*": "answer"},
            "personal": True,
            "session": False,
        }
        with open_tokens(service.settings.folder) as tokens:
            bearer = {"Authorization": f"Bearer {tokens.create('robot', {'*': 'read'})}"}
        assert http.get("/v1/me", headers=bearer).json()["name"] == "robot"
        assert http.get("/v1/me", headers=bearer | ben).json()["name"] == "robot"
        for name, value, status in (("X-Forwarded-User", "anna", 400), ("X_Forwarded_User", "anna", 403)):
            assert http.get("/v1/me", headers=[("X-Forwarded-User", "ben"), (name, value)]).status_code == status
        assert http.get("/login").status_code == 404
        assert http.post("/v1/logout", headers=ben).json() == {"ended": False}


def test_without_the_setting_forwarded_requests_are_refused_as_before(tmp_path):
    with served(tmp_path / "data", some_items()) as (http, _):
        assert http.get("/v1/projects", headers={"X-Forwarded-User": "anna"}).status_code == 200
        answer = http.get("/v1/projects", headers={"X-Forwarded-User": "anna", "X-Forwarded-For": "192.0.2.1"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "behind_proxy")


@pytest.mark.parametrize("permission", get_args(Permission))
def test_every_permission_can_be_given_to_a_group_and_to_everybody(permission):
    given = Settings(login_groups=f"reviewers={permission}:wines, all={permission}", login_permission=permission)
    rules = Logins.of(given, None)
    assert (rules.proxy, rules.openid) == (None, None)
    assert [GroupRule.parse(rule).permission for rule in given.login_groups] == [permission] * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"login_header": "X-User"}, "--trust-proxy"),
        ({"login_header": "X User", "trust_proxy": "127.0.0.1"}, "X-Forwarded-User"),
        ({"login_header": "X_User", "trust_proxy": "127.0.0.1"}, "X-Forwarded-User"),
        ({"login_header": "Authorization", "trust_proxy": "127.0.0.1"}, "X-Forwarded-User"),
        ({"login_header": "X-User", "trust_proxy": "proxy.example"}, "IP address"),
        ({"login_header": "X-User", "proxy_secret": "short"}, "16"),
        ({"trust_proxy": "127.0.0.1"}, "--login-header"),
        ({"login_groups": "reviewers"}, "GROUP=PERMISSION"),
        ({"login_groups": "reviewers=owner"}, "GROUP=PERMISSION"),
        ({"oidc_issuer": "https://id.example"}, "--oidc-client-id"),
        ({"oidc_client_secret": "x"}, "oidc_issuer"),
        ({"oidc_issuer": "http://id.example", "oidc_client_id": "x"}, "https"),
        ({"oidc_issuer": "https://me:secret@id.example", "oidc_client_id": "x"}, "https"),
        ({"public_url": "https://labels.example/under"}, "path"),
        ({"public_url": "http://labels.example"}, "https"),
        ({"session_hours": 0}, "greater"),
    ],
)
def test_settings_that_would_let_others_in_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Settings(**given)


# By OpenID Connect


@pytest.fixture(scope="module")
def provider():
    with serving_provider() as provider:
        yield provider


@pytest.fixture(autouse=True)
def honest(request):
    """Make the provider behave again."""
    if "provider" in request.fixturenames:
        provider = request.getfixturevalue("provider")
        provider.claims, provider.header, provider.metadata = {}, {}, {}
        provider.id_token, provider.down = None, False


@pytest.fixture(scope="module")
def site(provider, tmp_path_factory):
    """A service with a login by the provider; Anna is an admin."""
    with served(tmp_path_factory.mktemp("login") / "data", some_items(), **openid_settings(provider)) as (_, service):
        yield service


def openid_settings(provider):
    return {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "admins": "anna@example.org",
        "login_groups": "tasters=admin:some",
    }


@contextmanager
def browser(service):
    """Yield a client that keeps cookies, as a browser does."""
    with httpx.Client(base_url=service.settings.address, timeout=20) as http:
        yield http


def go_to_provider(http, next="/"):
    """Follow the link to the login, and log in at the provider; return the URL that leads back to the service."""
    begun = http.get("/login", params={"next": next})
    assert begun.status_code == 303, begun.text
    return httpx.get(begun.headers["location"]).headers["location"]


def log_in(http, next="/"):
    return http.get(go_to_provider(http, next))


def reason(response):
    error = response.json()["error"]
    assert response.status_code == 401, response.text
    assert "\n" not in error["message"]
    return error["message"]


SAME = {"Sec-Fetch-Site": "same-origin"}


def test_a_login_starts_a_session_and_logout_ends_it(site):
    with browser(site) as http:
        before = http.get("/v1/me")
        assert (before.status_code, before.headers["ocelad-login"]) == (401, "/login")
        back = log_in(http, "/?project=some")
        assert (back.status_code, back.headers["location"]) == (303, "/?project=some")
        me = http.get("/v1/me").json()
        assert (me["name"], me["permissions"], me["session"]) == ("anna@example.org", {"*": "admin"}, True)
        headers = SAME | {"Ocelad-Person": "misty hare"}
        last = http.post("/v1/projects/some/comparisons", json=PAIR, headers=headers).json()["last"]
        page = http.get("/v1/projects/some/history", params={"after": last - 1}).json()
        assert page["entries"][0]["person"] == "anna@example.org"
        (cookie,) = (each for each in http.cookies.jar if each.name == "ocelad-session")
        assert http.post("/v1/logout", headers=SAME).json() == {"ended": True}
        assert http.get("/v1/me").status_code == 401
        stolen = {"Cookie": f"ocelad-session={cookie.value}"}
        assert http.get("/v1/me", headers=stolen).status_code == 401
    actions = [(entry.who, entry.action) for entry in site.store.audit(who="anna@example.org")]
    assert actions[-2:] == [("anna@example.org", "login"), ("anna@example.org", "logout")]


def test_only_hashes_are_stored_of_a_session_and_of_a_login(site):
    with browser(site) as http:
        url = go_to_provider(http)
        state = parse_qs(urlsplit(url).query)["state"][0]
        bindings = [each.value for each in http.cookies.jar]
        assert http.get(url).status_code == 303
        secrets = [state, *bindings, *(each.value for each in http.cookies.jar)]
    database = b"".join(path.read_bytes() for path in site.settings.folder.glob("ocelad.sqlite3*"))
    assert b"anna@example.org" in database
    assert len(secrets) == 3
    assert not any(secret.encode() in database for secret in secrets)


@pytest.mark.parametrize("url", ["https://labels.example", None])
def test_cookies_are_for_this_host_only_and_unreadable_by_scripts(provider, tmp_path, url):
    with served(tmp_path / "data", **openid_settings(provider), public_url=url) as (http, _):
        host = {} if url is None else {"Host": "labels.example"}
        begun = http.get("/login", headers=host)
        expected = f"{url or http.base_url}".rstrip("/") + "/login/callback"
        assert parse_qs(urlsplit(begun.headers["location"]).query)["redirect_uri"] == [expected]
        back = urlsplit(httpx.get(begun.headers["location"]).headers["location"])
        login = begun.headers["set-cookie"].partition(";")[0]
        done = http.get(f"/login/callback?{back.query}", headers=host | {"Cookie": login})
        assert done.status_code == 303
        prefix = "" if url is None else "__Host-"
        cookies = [begun.headers["set-cookie"], *done.headers.get_list("set-cookie")]
        assert [each.partition("=")[0] for each in cookies] == [
            f"{prefix}ocelad-login",
            f"{prefix}ocelad-login",
            f"{prefix}ocelad-session",
        ]
        for cookie in cookies:
            flags = {part.strip().lower() for part in cookie.split(";")[1:]}
            assert {"httponly", "samesite=lax", "path=/"} <= flags
            assert ("secure" in flags) == (url is not None)
            assert not any(flag.startswith("domain") for flag in flags)


def test_a_state_and_a_code_are_accepted_once(site, provider):
    with browser(site) as http:
        url = go_to_provider(http)
        login_cookie = {each.name: each.value for each in http.cookies.jar}
        assert http.get(url).status_code == 303
    with browser(site) as http:  # the same request again, with the same cookie
        http.cookies.update(login_cookie)
        assert "used" in reason(http.get(url))
    with browser(site) as http:
        code = parse_qs(urlsplit(url).query)["code"][0]
        fresh = parse_qs(urlsplit(go_to_provider(http)).query)["state"][0]
        assert "refused the code" in reason(http.get("/login/callback", params={"code": code, "state": fresh}))


def test_a_login_can_be_finished_only_by_the_browser_that_began_it(site):
    """Otherwise a link could log a person in under the name of its author."""
    with browser(site) as author, browser(site) as victim:
        url = go_to_provider(author)
        assert "another browser" in reason(victim.get(url))
        go_to_provider(victim)
        assert "another browser" in reason(victim.get(url))
        assert victim.get("/v1/me").status_code == 401


def test_a_session_known_before_the_login_is_not_used(site):
    """Session fixation: what a browser sends before the login never becomes a session; an old session ends."""
    planted = "A" * 43
    with browser(site) as http:
        http.cookies.set("ocelad-session", planted, domain="127.0.0.1")
        assert http.get("/v1/me").status_code == 401
        response = log_in(http)
        first = next(each.value for each in response.cookies.jar if each.name == "ocelad-session")
        second = next(each.value for each in log_in(http).cookies.jar if each.name == "ocelad-session")
    assert len({planted, first, second}) == 3
    with browser(site) as http:
        for secret, status in ((planted, 401), (first, 401), (second, 200)):
            assert http.get("/v1/me", headers={"Cookie": f"ocelad-session={secret}"}).status_code == status
        both = {"Cookie": f"ocelad-session={second}; ocelad-session={planted}"}
        assert http.get("/v1/me", headers=both).status_code == 401  # one of them may be planted


@pytest.mark.parametrize(
    "next",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/%2f/evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "/v1/logout",
        "/login",
        "/login?next=/",
        "/?x\r\nSet-Cookie: a=b",
        "/?\\evil",
        " /",
        "",
        "/?" + "x" * 2000,
    ],
)
def test_a_login_leads_to_the_page_only(site, next):
    with browser(site) as http:
        assert log_in(http, next).headers["location"] == "/"


@given(st.one_of(st.text(), st.text(alphabet="/\\?#@:.%aelvio ").map("/".__add__)))
def test_no_text_leads_elsewhere(text):
    target = safe_next(text)
    joined = urlsplit(str(httpx.URL("https://labels.example/").join(target)))
    assert (joined.scheme, joined.netloc, joined.path.count("/")) == ("https", "labels.example", 1)
    assert not joined.path.startswith("/login")


def test_changes_need_the_service_s_own_page(site):
    """A browser adds the cookie to requests of other sites, too."""
    with browser(site) as http:
        log_in(http)
        address, path = site.settings.address, "/v1/projects/some/comparisons"
        for headers, status in (
            ({}, 403),
            ({"Sec-Fetch-Site": "none"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, 403),
            ({"Origin": address}, 201),
            (SAME, 201),
        ):
            assert http.post(path, json=PAIR, headers=headers).status_code == status, headers
        assert http.post("/v1/logout", headers={}).status_code == 403
        assert http.post("/v1/logout", headers={"Origin": "https://evil.example"}).status_code == 403
        assert http.get("/v1/me").status_code == 200


def test_the_provider_may_send_the_browser_back_and_other_sites_may_begin_no_login(site):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    with browser(site) as http:
        url = go_to_provider(http)
        assert http.get(url, headers=link | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
        assert http.get(url, headers=link).status_code == 303
        assert http.get("/login", headers=link).status_code == 403


def wrong_tokens(provider):
    """Yield ID tokens that must be refused, each with a word of the reason; ``nonce`` is filled in later."""
    now = int(time.time())
    yield "expired", {"exp": now - 3600, "iat": now - 7200}
    yield "another service", {"aud": "somebody else"}
    yield "another service", {"aud": ["somebody else", "others"]}
    yield "another service", {"aud": "somebody else", "azp": CLIENT_ID}
    yield "another service", {"aud": [CLIENT_ID, "others"], "azp": "others"}
    yield "another provider", {"iss": "https://evil.example"}
    yield "another provider", {"iss": provider.issuer + "/"}
    yield "another login", {"nonce": "x"}
    yield "another login", {"nonce": None}
    yield "future", {"iat": now + 3600}
    yield "not valid yet", {"nbf": now + 3600}
    for missing in ("exp", "iss", "aud", "sub", "iat"):
        yield "", {missing: None}
    yield "", {"exp": "tomorrow"}
    yield "", {"exp": True}
    yield "no claim 'email'", {"email": None}
    yield "no claim 'email'", {"email": ["anna@example.org"]}
    yield "no claim 'email'", {"email": "anna/ben@example.org"}
    yield "not verified", {"email_verified": False}
    yield "not verified", {"email_verified": None}


def test_wrong_claims_are_refused_with_one_sentence(site, provider):
    for word, claims in wrong_tokens(provider):
        provider.claims = claims
        with browser(site) as http:
            assert word in reason(log_in(http)), claims
            assert http.get("/v1/me").status_code == 401


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def forged_tokens(provider, token):
    """Yield forgeries of a token, each with a word of the reason."""
    header, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    public = provider.key.as_pem(private=False)
    other = RSAKey.generate_key(2048, {"kid": provider.key.kid})
    unknown = RSAKey.generate_key(2048, {"kid": "unknown"})
    none = encoded(json.dumps({"alg": "none"}).encode())
    boss = encoded(json.dumps(claims | {"email": "boss@example.org"}).encode())
    yield "signature", f"{header}.{boss}.{signature}"
    yield "signature", f"{header}.{payload}.{signature[:-8]}AAAAAAAA"
    yield "signature", f"{header}.{payload}."
    yield "algorithm", f"{none}.{boss}."
    yield "algorithm", f"{none}.{boss}.{signature}"
    yield "signature", provider.sign(claims, other)
    yield "does not list", provider.sign(claims, unknown)
    # A key in the header must not be believed.
    yield "malformed", provider.sign(claims, other, jwk=other.as_dict(private=False))
    yield "malformed", "x"
    yield "malformed", "a.b.c"
    yield "malformed", f"{header}.{payload}.{signature}.x"
    # The public key as the secret of an HMAC, which anybody could compute.
    symmetric = encoded(json.dumps({"alg": "HS256", "kid": provider.key.kid}).encode())
    digest = hmac.new(public, f"{symmetric}.{boss}".encode(), hashlib.sha256).digest()
    yield "algorithm", f"{symmetric}.{boss}.{encoded(digest)}"
    nested = encoded(b"[" * 9000)
    yield "malformed", f"{nested}.{payload}.{signature}"
    yield "malformed", f"{header}.{payload}." + "A" * 20_000


def test_forged_tokens_are_refused_with_one_sentence(site, provider):
    with browser(site) as http:
        for word, forgery in forged_tokens(provider, provider.token()):
            provider.id_token = forgery
            answer = reason(log_in(http))
            assert word in answer or "too long" in answer, forgery[:100]
            assert http.get("/v1/me").status_code == 401


def test_a_token_of_another_purpose_is_refused(site, provider):
    with browser(site) as http:
        provider.header = {"typ": "logout+jwt"}
        assert "not for a login" in reason(log_in(http))
        provider.header, provider.claims = {}, {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}
        assert "not for a login" in reason(log_in(http))


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_programs_may_send_tokens_of_the_provider(site, provider):
    with browser(site) as http:
        me = http.get("/v1/me", headers=bearer(provider.token())).json()
        assert (me["name"], me["session"]) == ("anna@example.org", False)
        access = provider.token(header={"typ": "at+jwt"})
        assert http.post("/v1/projects/some/comparisons", json=PAIR, headers=bearer(access)).status_code == 201
        for word, claims in wrong_tokens(provider):
            if "nonce" not in claims:
                answer = http.get("/v1/me", headers=bearer(provider.token(**claims)))
                assert word in reason(answer), claims
                assert answer.headers["www-authenticate"].startswith("Bearer")
        for _, forgery in forged_tokens(provider, provider.token()):
            assert http.get("/v1/me", headers=bearer(forgery)).status_code == 401


def test_a_token_is_refused_as_soon_as_it_has_expired(provider, tmp_path, monkeypatch):
    monkeypatch.setattr(openid_provider, "_LEEWAY", 0)
    with Store.open(tmp_path) as store:
        provider_here = OpenIdProvider(provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/")
        login = OpenIdLogin(provider_here, store.sessions, LoginRules())
        token = provider.token(exp=int(time.time()) + 2)
        assert login.identify(token).caller.name == "anna@example.org"
        time.sleep(2.1)
        with pytest.raises(ApiError, match="expired"):
            login.identify(token)


@settings(deadline=None, max_examples=200)
@given(st.one_of(st.text(max_size=200), st.lists(st.binary(max_size=60), min_size=3, max_size=3)))
def test_no_text_is_a_token(provider, text):
    if isinstance(text, list):
        text = ".".join(map(encoded, text))
    here = OpenIdProvider(provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/")
    here._keys, here._metadata, here._fetched_at = KeySet([provider.key]), {}, time.monotonic()
    with pytest.raises(ApiError) as raised:
        here.verify(text)
    assert raised.value.status == 401


def test_changed_keys_are_fetched_once_and_unknown_keys_do_not_flood_the_provider(provider):
    here = OpenIdProvider(
        provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/", min_refresh_seconds=0.0
    )
    assert here.verify(provider.token())["sub"]
    for kind in ("RSA", "EC"):
        provider.rotate(kind)
        fetched = provider.requests.count("/realm/keys")
        for _ in range(3):
            assert here.verify(provider.token())["sub"]
        assert provider.requests.count("/realm/keys") == fetched + 1
    limited = OpenIdProvider(provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/")
    unknown = provider.sign({"iss": provider.issuer}, ECKey.generate_key("P-256", {"kid": "unknown"}))
    fetched = provider.requests.count("/realm/keys")
    for _ in range(20):
        with pytest.raises(ApiError, match="does not list"):
            limited.verify(unknown)
    assert provider.requests.count("/realm/keys") == fetched + 1
    provider.rotate()


def test_keys_that_anybody_could_sign_with_are_ignored(provider):
    """A secret key or a short RSA key among the keys of the provider."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weak = RSAKey.generate_key(1024, {"kid": "weak"})
    secret = OctKey.generate_key(256, {"kid": "secret"})

    class Public:
        def __init__(self, key):
            self.key = key

        def as_dict(self, private):
            return self.key.as_dict(private=True)

    kept = provider.keys
    provider.keys = [*kept, Public(weak), Public(secret)]
    try:
        here = OpenIdProvider(provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/")
        assert here.verify(provider.token())["sub"]
        assert [key.kid for key in here._keys] == [provider.key.kid]
    finally:
        provider.keys = kept


def test_a_provider_that_fails_is_reported_without_details(site, provider, caplog):
    with browser(site) as http:
        url = go_to_provider(http)
        provider.down = True
        answer = http.get(url)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "provider_unavailable")
        provider.down = False
        assert "used" in reason(http.get(url))  # a login is not tried twice
        assert http.get("/v1/projects").status_code == 401


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://evil.example/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
def test_a_provider_that_names_other_places_is_not_believed(provider, metadata):
    provider.metadata = metadata
    here = OpenIdProvider(provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/")

    def log_in():
        here.authorization_url("s", "n", "v")
        here.exchange("code", "verifier")

    with pytest.raises(ApiError) as raised:
        log_in()
    assert raised.value.status == 503
    assert "evil" not in raised.value.message


def test_a_provider_elsewhere_cannot_name_places_on_this_machine(monkeypatch):
    issuer = "https://id.example"
    here = OpenIdProvider(issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/")
    documents = {
        f"{issuer}/.well-known/openid-configuration": {
            "issuer": issuer,
            "jwks_uri": "http://127.0.0.1:8765/v1/projects",
        }
    }
    monkeypatch.setattr(here, "_get_json", documents.__getitem__)
    with pytest.raises(ApiError) as raised:
        here.verify("a.b.c")
    assert raised.value.status == 503


def test_known_keys_are_used_while_the_provider_does_not_respond(provider):
    here = OpenIdProvider(
        provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/", refresh_seconds=0.0
    )
    assert here.verify(provider.token())["sub"]
    provider.down = True
    assert here.verify(provider.token())["sub"]
    provider.down = False
    old = provider.token()
    provider.rotate()
    here._fetched_at = 0.0
    with pytest.raises(ApiError, match="does not list"):
        here.verify(old)  # a key that the provider has withdrawn is no longer accepted


def test_the_code_is_exchanged_with_pkce_and_the_secret_is_never_shown(site, provider, caplog):
    with browser(site) as http:
        begun = http.get("/login").headers["location"]
        assert CLIENT_SECRET not in begun
        asked = parse_qs(urlsplit(begun).query)
        assert asked["code_challenge_method"] == ["S256"]
        log_in(http)
    form = provider.exchanged[-1]
    assert form["grant_type"] == "authorization_code"
    assert form["code_verifier"] not in begun
    assert CLIENT_SECRET not in caplog.text


def test_what_the_provider_reports_is_shown_as_a_page_without_its_text(site):
    with browser(site) as http:
        html = {"Accept": "text/html,application/xhtml+xml"}
        answer = http.get(
            "/login/callback",
            params={"error": "access_denied", "error_description": "<script>alert(1)</script> call 555-1234"},
            headers=html,
        )
        assert answer.status_code == 401
        assert answer.headers["content-type"].startswith("text/html")
        assert "access_denied" in answer.text
        assert "555" not in answer.text
        assert 'href="/login"' in answer.text
        odd = http.get("/login/callback", params={"error": "<b>x</b>"}, headers=html)
        assert "<b>" not in odd.text
        twice = http.get("/login/callback?state=a&state=b&code=c", headers=html)
        assert twice.status_code == 400
        assert "default-src 'none'" in twice.headers["content-security-policy"]
        assert twice.headers["cache-control"] == "no-store"
        assert "another provider" in reason(
            http.get(go_to_provider(http).replace("iss=", "iss=https%3A%2F%2Fevil.example&x="))
        )


def test_groups_give_permissions_and_the_present_rules_apply(provider, tmp_path):
    provider.claims = {"email": "ben@example.org", "groups": ["tasters", 7, None]}
    options = openid_settings(provider) | {"login_permission": "none"}
    with served(tmp_path / "data", some_items(), some_items(), **options) as (http, service):
        log_in(http)
        assert http.get("/v1/me").json()["permissions"] == {"some": "admin"}
        assert [each["id"] for each in http.get("/v1/projects").json()["projects"]] == ["some"]
        provider.claims = {"email": "eve@example.org"}
        with browser(service) as other:
            refused = log_in(other)
            assert (refused.status_code, "no permission" in refused.text) == (403, True)
        secret = next(each.value for each in http.cookies.jar if each.name == "ocelad-session")
    cookie = {"Cookie": f"ocelad-session={secret}"}
    with served(tmp_path / "data", **options | {"login_groups": "tasters=read:some"}) as (http, _):
        assert http.get("/v1/me", headers=cookie).json()["permissions"] == {"some": "read"}  # sessions outlive restarts
    with served(tmp_path / "data", **options | {"login_groups": ""}) as (http, _):
        assert http.get("/v1/me", headers=cookie).status_code == 403


def test_sessions_expire_at_once_also_cached_ones(provider, tmp_path):
    with served(tmp_path / "data", some_items(), **openid_settings(provider), session_hours=1.5 / 3600) as (http, _):
        cookies = log_in(http).headers.get_list("set-cookie")
        secret = next(each for each in cookies if "session" in each).partition(";")[0]
        began = time.time()
        statuses = []
        while time.time() < began + 2.2:
            statuses.append((time.time() - began, http.get("/v1/me", headers={"Cookie": secret}).status_code))
            time.sleep(0.05)
    assert statuses[0][1] == 200
    assert all(status == 401 for elapsed, status in statuses if elapsed > 1.6)


def test_an_event_stream_ends_with_the_session(provider, tmp_path):
    with served(tmp_path / "data", some_items(), **openid_settings(provider)) as (http, _):
        log_in(http)
        with http.stream("GET", "/v1/projects/some/events", timeout=20) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("event: hello")
            with httpx.Client(base_url=http.base_url, cookies=http.cookies) as other:
                assert other.post("/v1/logout", headers=SAME).json() == {"ended": True}
            began = time.monotonic()
            for _ in lines:
                pass
        assert time.monotonic() - began < 15


def test_logins_and_their_refusals_are_limited(provider, tmp_path, monkeypatch):
    monkeypatch.setattr(login_routes, "_OF_ALL", (1e-6, 5.0))
    monkeypatch.setattr(login_routes, "_REFUSALS", (1e-6, 2.0))
    with served(tmp_path / "data", some_items(), **openid_settings(provider)) as (http, service):
        statuses = [http.get("/login/callback", params={"code": "x", "state": "y"}).status_code for _ in range(6)]
        assert statuses == [401] * 5 + [429]
        assert http.get("/login").status_code == 429
        assert len(service.store.audit(action="login.refused")) == 2


def test_logins_that_were_not_finished_are_deleted_and_too_old(provider, tmp_path, monkeypatch):
    with Store.open(tmp_path) as store:
        here = OpenIdProvider(provider.issuer, CLIENT_ID, CLIENT_SECRET, redirect_uri="http://127.0.0.1/")
        login = OpenIdLogin(here, store.sessions, LoginRules())
        begun = login.begin("/")
        state = parse_qs(urlsplit(begun.url).query)["state"][0]
        later = time.time() + openid_login.LOGIN_SECONDS + 1
        monkeypatch.setattr(openid_login, "time", lambda: later)
        with pytest.raises(ApiError, match="too old"):
            login.finish(state, begun.binding, "code")
        assert store.sessions.take_login("anything") is None


def test_the_log_names_no_secret_of_a_login(site, provider, caplog):
    with browser(site) as http, caplog.at_level(logging.DEBUG):
        url = go_to_provider(http)
        http.get(url)
        secrets = [each.value for each in http.cookies.jar] + parse_qs(urlsplit(url).query)["code"]
    lines = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert lines
    assert not any(secret in line for secret in secrets for line in lines)


def test_cookies_are_ignored_without_openid_connect():
    authenticate = proxy_authenticator()
    headers = Headers({"cookie": "ocelad-session=" + "A" * 43}).raw
    scope = {"type": "http", "method": "GET", "headers": headers, "client": ("127.0.0.1", 1)}
    with pytest.raises(ApiError, match="token is required"):
        asyncio.run(authenticate(HTTPConnection(scope)))


# The command


def test_the_command_ends_the_sessions_of_a_person(provider, tmp_path):
    with served(tmp_path / "data", some_items(), **openid_settings(provider)) as (http, service):
        log_in(http)
        provider.claims = {"email": "ben@example.org"}
        with browser(service) as other:
            log_in(other)
            folder = ["--data-folder", str(service.settings.folder)]
            listed = CliRunner().invoke(session_command, ["list", *folder])
            assert "anna@example.org" in listed.output
            assert "ben@example.org" in listed.output
            assert CliRunner().invoke(session_command, ["end", *folder]).exit_code == 2
            ended = CliRunner().invoke(session_command, ["end", "anna@example.org", *folder])
            assert ended.output == "Sessions ended: 1.\n"
            deadline = time.monotonic() + 10
            while http.get("/v1/me").status_code == 200:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert other.get("/v1/me").status_code == 200
        (entry,) = service.store.audit(action="session.end")
        assert (entry.who, entry.target, entry.detail) == ("command line", "anna@example.org", {"sessions": 1})


def test_the_command_serves_with_a_proxy_s_header(tmp_path):
    secret = {"OCELAD_SERVE_PROXY_SECRET": SECRET}
    server = Server(tmp_path / "data", "--empty", "--login-header", "X-User", "--admin", "anna", env=secret)
    try:
        with httpx.Client(base_url=server.url) as http:
            proxied = {"X-User": "anna", "Ocelad-Proxy-Secret": SECRET}
            assert http.get("/v1/me", headers=proxied).json()["permissions"] == {"*": "admin"}
            assert http.get("/v1/me", headers={"X-User": "anna"}).status_code == 403
            assert http.get("/v1/me").status_code == 401
    finally:
        server.stop()
    assert SECRET not in server.log.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--login-header", "X-User"], "--trust-proxy"),
        (["--login-header", "X-User", "--trust-proxy", "here"], "--trust-proxy: 'here' is not an address"),
        (["--login-group", "x"], "--login-group: 'x' is not GROUP=PERMISSION"),
        (["--oidc-issuer", "http://id.example", "--oidc-client-id", "x"], "--oidc-issuer: 'http://id.example'"),
        (["--oidc-issuer", "https://id.example"], "--oidc-client-id"),
        (["--public-url", "labels.example"], "--public-url"),
    ],
)
def test_the_command_refuses_settings_with_one_sentence(tmp_path, arguments, message):
    answer = run("serve", "--empty", "--port", "0", "--data-folder", tmp_path / "data", *arguments, code=2)
    assert message in " ".join(answer.stderr.split())
    assert not (tmp_path / "data").exists()


def test_the_command_names_the_extra_that_openid_connect_needs(tmp_path, monkeypatch):
    """As if Authlib were not installed."""
    monkeypatch.setitem(sys.modules, "authlib.integrations.base_client", None)
    monkeypatch.delitem(sys.modules, "ocelad.service.security.openid_provider")
    arguments = ["--oidc-issuer", "https://id.example", "--oidc-client-id", "x"]
    answer = run("serve", "--empty", "--port", "0", "--data-folder", tmp_path / "data", *arguments, code=1)
    assert "pip install 'ocelad[oidc]'" in answer.stderr
    assert not (tmp_path / "data").exists()
