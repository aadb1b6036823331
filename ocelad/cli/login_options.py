"""The options of ``ocelad serve`` for logins; secrets are set by the environment only, where ps does not show them."""

from __future__ import annotations

from typing import Any

import click

from ocelad.cli.options import Command, add_options

# Settings by option: the name of the parameter and of the setting are the same, except for repeatable options.
_REPEATABLE = {"trust_proxy": "trust_proxy", "admin": "admins", "login_group": "login_groups"}
_SINGLE = (
    *("login_header", "login_groups_header", "login_permission", "public_url"),
    *("oidc_issuer", "oidc_client_id", "oidc_scope", "oidc_claim", "oidc_groups_claim", "session_hours"),
)


def login_options(command: Command) -> Command:
    """Add the options for logins."""
    return add_options(
        command,
        click.option(
            "--login-header",
            metavar="NAME",
            help="Log people in by a header that a reverse proxy sets, such as X-Forwarded-User; needs --trust-proxy "
            "or OCELAD_SERVE_PROXY_SECRET, which the proxy sends as Ocelad-Proxy-Secret.",
        ),
        click.option("--login-groups-header", metavar="NAME", help="The header with the person's groups."),
        click.option(
            "--trust-proxy",
            multiple=True,
            metavar="ADDRESS",
            help="The proxy's address or network; only it may send the header. Repeatable.",
        ),
        click.option(
            "--login-permission",
            type=click.Choice(["none", "read", "answer", "review", "admin"]),
            help="What everybody who logs in may do on all projects.  [default: answer]",
        ),
        click.option("--admin", multiple=True, metavar="NAME", help="A person who may do everything. Repeatable."),
        click.option(
            "--login-group",
            multiple=True,
            metavar="GROUP=PERMISSION[:PROJECT]",
            help="What the members of a group may do, on all projects or on one. Repeatable.",
        ),
        click.option("--public-url", metavar="URL", help="The address of the service for people, https://..."),
        click.option(
            "--oidc-issuer",
            metavar="URL",
            help="Log people in by OpenID Connect: the provider; needs --oidc-client-id, and 'ocelad[oidc]'. The "
            "secret is OCELAD_SERVE_OIDC_CLIENT_SECRET.",
        ),
        click.option("--oidc-client-id", metavar="ID", help="The id of this service at the provider."),
        click.option("--oidc-scope", metavar="SCOPES", help="What to ask for.  [default: openid email profile]"),
        click.option(
            "--oidc-claim", metavar="NAME", help="The claim with the person's name.  [default: email, if verified]"
        ),
        click.option("--oidc-groups-claim", metavar="NAME", help="The claim with the groups.  [default: groups]"),
        click.option("--session-hours", type=float, help="Hours until a login must be repeated.  [default: 12]"),
    )


def login_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the given options; None or empty: not given."""
    single = {name: options[name] for name in _SINGLE}
    return single | {setting: options[name] or None for name, setting in _REPEATABLE.items()}


def option_of_setting(setting: str) -> str:
    """Return the option that sets a setting.

    >>> option_of_setting("admins"), option_of_setting("login_header")
    ('--admin', '--login-header')
    """
    names = {each: name for name, each in _REPEATABLE.items()}
    return "--" + names.get(setting, setting).replace("_", "-")
