"""Settings of the service: every value that the documentation and the deployment files name is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from ocelad.service.settings import Settings, check_environment

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", *sorted((ROOT / "deploy").iterdir())]
PREFIX = "OCELAD_SERVE_"
# Settings that are accepted only together with others.
TOGETHER = {
    "LOGIN_HEADER": {"TRUST_PROXY": "127.0.0.1"},
    "LOGIN_GROUPS_HEADER": {"LOGIN_HEADER": "X-Forwarded-User", "TRUST_PROXY": "127.0.0.1"},
    "TRUST_PROXY": {"LOGIN_HEADER": "X-Forwarded-User"},
    "PROXY_SECRET": {"LOGIN_HEADER": "X-Forwarded-User"},
    "OIDC_ISSUER": {"OIDC_CLIENT_ID": "ocelad"},
    "OIDC_CLIENT_ID": {"OIDC_ISSUER": "https://login.example.org"},
    "OIDC_CLIENT_SECRET": {"OIDC_ISSUER": "https://login.example.org", "OIDC_CLIENT_ID": "ocelad"},
}


def documented():
    """Yield each NAME=VALUE in the documents, with the names of the limits and their defaults in tables."""
    for path in DOCUMENTS:
        text = path.read_text()
        for name, value in re.findall(rf"(?<!\$){PREFIX}([A-Z_]+)=('[^']*'|\"[^\"]*\"|[^\s`'\"]*)", text):
            yield pytest.param(name, value.strip("'\"").removesuffix(","), id=f"{path.name}-{name}-{value}")
        for name, default in re.findall(r"^\| `([a-z_]+)`:[^|]*\| *([^|;,]*?) *[|;,]", text, re.MULTILINE):
            if name in Settings.model_fields:
                yield pytest.param(name.upper(), default, id=f"{path.name}-{name}-default")


@pytest.mark.parametrize(("name", "value"), list(documented()))
def test_documented_values_are_accepted(monkeypatch, name, value):
    for other, fitting in TOGETHER.get(name, {}).items():
        monkeypatch.setenv(PREFIX + other, fitting)
    monkeypatch.setenv(PREFIX + name, value)
    check_environment([PREFIX + name])
    Settings()


def test_the_documents_name_settings():
    assert len(list(documented())) > 10


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rate", "none", None),
        ("rate", "None", None),
        ("rate", "", 200.0),
        ("random_share", "none", None),
        ("random_share", "", None),
        ("random_share", "0.5", 0.5),
        ("require_token", "yes", True),
        ("require_token", "0", False),
        ("allow_hosts", "", ()),
        ("allow_hosts", "a.example, b.example", ("a.example", "b.example")),
        ("max_body", "8 MiB", 8 << 20),
        ("max_body", "20000", 20_000),
        ("max_uploads", "", 4),
        ("database", "", None),
        ("folder", "~/labels", Path.home() / "labels"),
    ],
)
def test_values_of_the_environment(monkeypatch, name, text, value):
    monkeypatch.setenv(PREFIX + name.upper(), text)
    assert getattr(Settings(), name) == value


@pytest.mark.parametrize(
    ("name", "text"), [("max_body", "8 otters"), ("max_body", "5"), ("rate", "0"), ("port", "none")]
)
def test_other_values_are_refused(monkeypatch, name, text):
    monkeypatch.setenv(PREFIX + name.upper(), text)
    with pytest.raises(ValidationError):
        Settings()
