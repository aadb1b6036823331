"""A small OpenID provider for tests: real HTTP on loopback, real keys, and faults on demand."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "ocelad-tests", "the secret of the client"


class OpenIdServer:
    """A provider that logs everybody in at once, as the person in ``claims``.

    Attributes
    ----------
    issuer : str
    claims : dict
        What the next ID token says beside the standard claims; a value of None removes a claim.
    header : dict
        What the next ID token has in its header.
    id_token : str or None
        What the token endpoint returns in the place of a correct ID token.
    down : bool
        Whether all requests fail.
    requests : list of str
        The paths that were asked for.
    exchanged : list of dict
        The forms that were sent to the token endpoint.
    """

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}/realm"
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.id_token: str | None = None
        self.down = False
        self.requests: list[str] = []
        self.exchanged: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.keys: list[Any] = []
        self.rotate()

    def rotate(self, kind: str = "RSA") -> None:
        """Sign with a new key from now on; the old keys are gone."""
        kid = secrets.token_hex(8)
        parameters: Any = {"kid": kid, "use": "sig"}
        if kind == "RSA":
            self.key: Any = RSAKey.generate_key(2048, parameters)
        else:
            self.key = ECKey.generate_key("P-256", parameters)
        self.algorithm = "RS256" if kind == "RSA" else "ES256"
        self.keys = [self.key]

    def sign(self, claims: dict[str, Any], key: Any = None, **header: Any) -> str:
        """Return a signed JWT."""
        key = key or self.key
        return jwt.encode({"alg": self.algorithm, "kid": key.kid, **header}, claims, key)

    def token(self, nonce: str | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return an ID token of Anna for the tests' client; ``claims`` replace or, if None, remove claims."""
        now = int(time.time())
        all_claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "248289761001",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "email": "anna@example.org",
            "email_verified": True,
            "preferred_username": "anna",
            **claims,
        }
        kept = {name: value for name, value in all_claims.items() if value is not None}
        return self.sign(kept, **(header or {}))

    def respond(self, method: str, path: str, body: str, authorization: str) -> tuple[int, dict[str, str], Any]:
        """Return the status, the headers and the JSON of a response."""
        url = urlsplit(path)
        self.requests.append(url.path)
        if self.down:
            return 500, {}, {"error": "down"}
        routes = {
            "/realm/.well-known/openid-configuration": self._configuration,
            "/realm/keys": lambda: (200, {}, {"keys": [key.as_dict(private=False) for key in self.keys]}),
            "/realm/authorize": lambda: self._authorize(_single(url.query)),
            "/realm/token": lambda: self._token(method, _single(body), authorization),
        }
        return routes[url.path]() if url.path in routes else (404, {}, {"error": "not found"})

    def _configuration(self) -> tuple[int, dict[str, str], Any]:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            **self.metadata,
        }
        return 200, {}, document

    def _authorize(self, query: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        answer = urlencode({"code": code, "state": query["state"], "iss": self.issuer})
        return 302, {"Location": f"{query['redirect_uri']}?{answer}"}, {}

    def _token(self, method: str, form: dict[str, str], authorization: str) -> tuple[int, dict[str, str], Any]:
        self.exchanged.append(form)
        secret = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if method != "POST" or authorization != f"Basic {secret}":
            return 401, {}, {"error": "invalid_client"}
        begun = self._codes.pop(form.get("code", ""), None)  # a code is accepted once
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if begun is None or begun["code_challenge"] != challenge or begun["redirect_uri"] != form["redirect_uri"]:
            return 400, {}, {"error": "invalid_grant", "error_description": "a long story"}
        nonce = self.claims.get("nonce", begun["nonce"])
        claims = {name: value for name, value in self.claims.items() if name != "nonce"}
        token = self.id_token or self.token(nonce, self.header, **claims)
        return 200, {}, {"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": token}


def _single(query: str) -> dict[str, str]:
    values = parse_qs(query, keep_blank_values=True)
    assert all(len(value) == 1 for value in values.values())
    return {name: value[0] for name, value in values.items()}


@contextmanager
def serving_provider() -> Iterator[OpenIdServer]:
    """Yield a provider that listens on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            status, headers, document = provider.respond(
                self.command, self.path, body, self.headers.get("authorization", "")
            )
            content = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = OpenIdServer(server.server_address[1])
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
