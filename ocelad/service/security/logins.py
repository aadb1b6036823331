"""The logins of a service, as its settings say."""

from __future__ import annotations

from dataclasses import dataclass

from ocelad.service.security.login_cookies import LoginCookies
from ocelad.service.security.login_rules import GroupRule, LoginRules
from ocelad.service.security.openid_login import OpenIdLogin, SessionStore
from ocelad.service.security.proxy_login import ProxyLogin
from ocelad.service.settings import Settings

#: Where the provider sends the browser after the login.
CALLBACK_PATH = "/login/callback"


@dataclass(frozen=True)
class Logins:
    """The logins that are on; both are off by default.

    Attributes
    ----------
    proxy : ProxyLogin or None
    openid : OpenIdLogin or None
    cookies : LoginCookies
    """

    proxy: ProxyLogin | None
    openid: OpenIdLogin | None
    cookies: LoginCookies

    @classmethod
    def of(cls, settings: Settings, store: SessionStore) -> Logins:
        """Return the logins that the settings ask for."""
        everybody = None if settings.login_permission == "none" else settings.login_permission
        rules = LoginRules(
            everybody, frozenset(settings.admins), [GroupRule.parse(rule) for rule in settings.login_groups]
        )
        cookies = LoginCookies(secure=settings.page_url.startswith("https:"))
        return cls(_proxy_login(settings, rules), _openid_login(settings, rules, store), cookies)


def _proxy_login(settings: Settings, rules: LoginRules) -> ProxyLogin | None:
    if settings.login_header is None:
        return None
    return ProxyLogin(
        settings.login_header,
        rules,
        trusted=settings.trust_proxy,
        secret=None if settings.proxy_secret is None else settings.proxy_secret.get_secret_value(),
        groups_header=settings.login_groups_header,
    )


def _openid_login(settings: Settings, rules: LoginRules, store: SessionStore) -> OpenIdLogin | None:
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    from ocelad.service.security.openid_provider import OpenIdProvider  # needs the extra "oidc"

    secret = settings.oidc_client_secret
    provider = OpenIdProvider(
        settings.oidc_issuer,
        settings.oidc_client_id,
        None if secret is None else secret.get_secret_value(),
        redirect_uri=settings.page_url + CALLBACK_PATH,
        scope=settings.oidc_scope,
    )
    return OpenIdLogin(
        provider,
        store,
        rules,
        claim=settings.oidc_claim,
        groups_claim=settings.oidc_groups_claim,
        session_seconds=settings.session_hours * 3600,
    )
