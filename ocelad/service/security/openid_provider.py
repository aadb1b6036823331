"""An OpenID provider: its endpoints, its keys, and the check of the tokens that it signs. Needs the extra "oidc"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import (
    BadSignatureError,
    ClaimError,
    ExpiredTokenError,
    InvalidKeyIdError,
    JoseError,
    UnsupportedAlgorithmError,
)
from joserfc.jwk import JWKRegistry, Key, KeySet
from requests import RequestException

from ocelad.service.api_error import ApiError
from ocelad.service.log_setup import get_logger
from ocelad.service.security.addresses import is_loopback
from ocelad.service.security.login_rules import refused_login

log = get_logger("ocelad.login")
# Signatures by a private key only: with "none" or an HMAC by a public key, anybody could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_KEY_TYPES = ("RSA", "EC")
# Types of tokens that identify a person; others, such as logout+jwt, have the same issuer and audience.
_TOKEN_TYPES = frozenset({None, "jwt", "at+jwt", "application/at+jwt", "id_token+jwt"})
_LEEWAY = 30  # seconds that the clocks of the provider and of this machine may differ
_MAX_DOCUMENT, _MAX_TOKEN = 2**20, 16 * 1024  # bytes
_MIN_RSA_BITS = 2048
# What a refused claim means to a person.
_CLAIMS = {
    "iss": "it was issued by another provider",
    "aud": "it was issued for another service",
    "azp": "it was issued for another service",
    "nonce": "it belongs to another login",
    "iat": "it was issued in the future",
    "nbf": "it is not valid yet",
}


class OpenIdProvider:
    """An OpenID provider, found by its issuer. All methods block, and may be called from any thread.

    Parameters
    ----------
    issuer : str
        The URL of the provider, exactly as it names itself.
    client_id, client_secret : str
        What the provider knows this service by; the secret is None for a public client.
    redirect_uri : str
        Where the provider sends the browser after the login.
    scope : str
        What the service asks for, separated by spaces.
    timeout : float
        Seconds to wait for the provider.
    refresh_seconds, min_refresh_seconds : float
        After how many seconds endpoints and keys are fetched again; and the shortest time between two fetches for
        tokens with an unknown key, so that such tokens cannot make the service flood the provider.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str | None,
        *,
        redirect_uri: str,
        scope: str = "openid email profile",
        timeout: float = 10.0,
        refresh_seconds: float = 3600.0,
        min_refresh_seconds: float = 10.0,
    ) -> None:
        self.issuer, self._client_id, self._client_secret = issuer, client_id, client_secret
        self._redirect_uri, self._scope, self._timeout = redirect_uri, scope, timeout
        self._refresh_seconds, self._min_refresh_seconds = refresh_seconds, min_refresh_seconds
        self._fetching = Lock()
        self._metadata: dict[str, Any] | None = None
        self._keys: KeySet | None = None
        self._fetched_at = 0.0

    def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Return the page of the provider where the person logs in."""
        endpoint = self._endpoint("authorization_endpoint")
        with self._session() as session:
            url, _ = session.create_authorization_url(endpoint, state=state, nonce=nonce, code_verifier=verifier)
        return str(url)

    def exchange(self, code: str, verifier: str) -> str:
        """Return the ID token for the code of a login; a provider accepts a code once."""
        endpoint = self._endpoint("token_endpoint")
        methods = self._metadata_now().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        # client_secret_basic is the default of the standard.
        method = None if self._client_secret is None or "client_secret_basic" in methods else "client_secret_post"
        try:
            with self._session(token_endpoint_auth_method=method) as session:
                answer = session.fetch_token(
                    endpoint, code=code, code_verifier=verifier, timeout=self._timeout, allow_redirects=False
                )
        except OAuthError as error:
            log.warning("the provider refused a code", error=str(error.error)[:100])
            raise refused_login("the login provider refused the code of this login; log in again") from None
        except (RequestException, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._unavailable("token_endpoint", error) from None
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise refused_login("the login provider sent no ID token; its client must allow the scope 'openid'")
        return token

    def verify(self, token: str, nonce: str | None = None) -> dict[str, Any]:
        """Return the claims of a token that this provider has signed for this service and that has not expired.

        Parameters
        ----------
        token : str
            A signed JWT: an ID token, or an access token of this form.
        nonce : str or None
            The nonce of the login; None: the token was not obtained by a login here, but was sent by a program.
        """
        if len(token) > _MAX_TOKEN:
            raise refused_login("the login token is too long")
        try:
            keys = self._keys_now()
            try:
                decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
            except InvalidKeyIdError:  # the provider may have changed its keys
                decoded = jwt.decode(token, self._newer_keys(keys), algorithms=ALGORITHMS)
            self._check_claims(decoded.header, decoded.claims, nonce)
        except ApiError:
            raise
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise refused_login(_sentence(error)) from None
        return decoded.claims

    def _check_claims(self, header: Mapping[str, Any], claims: dict[str, Any], nonce: str | None) -> None:
        type = header.get("typ")
        if (type.lower() if isinstance(type, str) else type) not in _TOKEN_TYPES or "events" in claims:
            raise refused_login("this token is not for a login; accepted: an ID token or an access token")
        required: dict[str, Any] = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": self._client_id},
            "exp": {"essential": True},
            "sub": {"essential": True},
        }
        checked = CodeIDToken(claims, header, required, {"client_id": self._client_id, "nonce": nonce})
        checked.validate(leeway=_LEEWAY)

    def _session(self, **options: Any) -> OAuth2Session:
        return OAuth2Session(
            self._client_id,
            self._client_secret,
            scope=self._scope,
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            **options,
        )

    def _endpoint(self, name: str) -> str:
        return self._checked_url(name, self._metadata_now())

    def _checked_url(self, name: str, metadata: Mapping[str, Any]) -> str:
        """Return a URL of the provider; one on this machine only if the provider itself is on this machine."""
        url = metadata.get(name)
        local = self.issuer.startswith("http:")
        if not isinstance(url, str) or not is_safe_url(url) or not (local or url.startswith("https:")):
            raise self._unavailable(name, ValueError(f"{name} is not an https URL"))
        return url

    def _metadata_now(self) -> dict[str, Any]:
        self._fetch_if_old()
        assert self._metadata is not None
        return self._metadata

    def _keys_now(self) -> KeySet:
        self._fetch_if_old()
        assert self._keys is not None
        return self._keys

    def _fetch_if_old(self) -> None:
        """Fetch endpoints and keys for the first time, or again after a while."""
        if self._keys is None:
            with self._fetching:
                if self._keys is None:
                    self._fetch()
        elif monotonic() - self._fetched_at > self._refresh_seconds and self._fetching.acquire(blocking=False):
            # Others continue with what is known, also while the provider does not respond.
            try:
                self._fetch()
            except ApiError:
                self._fetched_at = monotonic() - self._refresh_seconds + self._min_refresh_seconds
            finally:
                self._fetching.release()

    def _newer_keys(self, known: KeySet) -> KeySet:
        """Fetch the keys again, unless somebody did so just now."""
        with self._fetching:
            if self._keys is known and monotonic() - self._fetched_at >= self._min_refresh_seconds:
                self._fetch()
            assert self._keys is not None
            return self._keys

    def _fetch(self) -> None:
        """Fetch endpoints and keys."""
        metadata = self._get_json(self.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if metadata.get("issuer") != self.issuer:
            raise self._unavailable("discovery", ValueError("the provider names another issuer than the setting"))
        document = self._get_json(self._checked_url("jwks_uri", metadata))
        keys = [key for key in map(_import_key, self._list_of_keys(document)) if key is not None]
        self._metadata, self._keys, self._fetched_at = metadata, KeySet(keys), monotonic()

    def _list_of_keys(self, document: dict[str, Any]) -> list[Any]:
        keys = document.get("keys")
        if not isinstance(keys, list):
            raise self._unavailable("jwks_uri", ValueError("there are no keys"))
        return keys[:100]

    def _get_json(self, url: str) -> dict[str, Any]:
        try:
            with (
                self._session() as session,
                session.get(
                    url, withhold_token=True, timeout=self._timeout, allow_redirects=False, stream=True
                ) as response,
            ):
                if response.status_code != 200:
                    raise ValueError(f"the status is {response.status_code}")
                body = response.raw.read(_MAX_DOCUMENT + 1, decode_content=True)
            if len(body) > _MAX_DOCUMENT:
                raise ValueError("the document is too large")
            document = json.loads(body)
            if not isinstance(document, dict):
                raise ValueError("the document is not a JSON object")
        except (RequestException, ValueError, OSError, RecursionError) as error:
            raise self._unavailable(urlsplit(url).path, error) from None
        return document

    def _unavailable(self, what: str, error: Exception) -> ApiError:
        """Return the error of a provider that does not respond; the reason is for the log."""
        log.error("the login provider is unavailable", what=what, reason=f"{type(error).__name__}: {error}"[:300])
        message = "the login provider does not respond as expected; try again later, or use a token"
        return ApiError(503, message, code="provider_unavailable", headers={"Retry-After": "10"})


def is_safe_url(url: str) -> bool:
    """Return whether nobody on the network can read or change what is sent to a URL: https, or this machine.

    >>> [is_safe_url(url) for url in ("https://a.org/x", "http://127.0.0.1:80", "http://a.org", "file:///etc/passwd")]
    [True, True, False, False]
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def _import_key(data: Any) -> Key | None:
    """Return a public key for signatures; None for any other, such as a secret key or one that is not understood."""
    if not isinstance(data, dict) or data.get("kty") not in _KEY_TYPES or data.get("use", "sig") != "sig":
        return None
    if data["kty"] == "RSA" and _rsa_bits(data) < _MIN_RSA_BITS:
        return None
    try:
        return JWKRegistry.import_key(data)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _rsa_bits(data: Mapping[str, Any]) -> int:
    """Return the size of an RSA key; a short one can be factored.

    >>> _rsa_bits({"n": "A" * 342})
    2052
    """
    modulus = data.get("n")
    return 6 * len(modulus) if isinstance(modulus, str) else 0


def _sentence(error: Exception) -> str:
    """Return why a token is refused, as one sentence."""
    if isinstance(error, ExpiredTokenError):
        return "the login token has expired; log in again"
    if isinstance(error, ClaimError):
        reason = _CLAIMS.get(str(error.claim), "a claim is missing or invalid")
        return f"the login token is not accepted: {reason}"
    if isinstance(error, BadSignatureError):
        return "the signature of the login token is wrong"
    if isinstance(error, UnsupportedAlgorithmError):
        return f"the login token is signed by an algorithm that is not accepted; accepted: {', '.join(ALGORITHMS)}"
    if isinstance(error, InvalidKeyIdError):
        return "the login token is signed by a key that the login provider does not list"
    return "the login token is malformed; accepted: a signed JWT of the login provider"
