"""Commands around the service: `token`, `serve`, `gateway`, `metrics`."""

from __future__ import annotations

import secrets
from types import SimpleNamespace

from lakewarden.ledger import tokens
from lakewarden.model.service import Role
from lakewarden.service import service
from tests.golden.scene import Stage, Words, scene


def _with_tokens(stage: Stage, *names: str) -> None:
    """The service's clock is the lake's, and a token that is made is always the same."""
    stage.at("new")
    stage.patch.setattr(service, "SystemClock", lambda: stage.lake.clock)
    for name in names:
        service.open_service(str(stage.lake.base / "lakewarden.toml")).ledger.tokens.create(
            name, Role.APPROVER, created_by="ana"
        )
    made = SimpleNamespace(
        token_hex=lambda length: "1" * 2 * length,
        token_urlsafe=lambda length: "s" * 43,
        token_bytes=secrets.token_bytes,
    )
    stage.patch.setattr(tokens, "secrets", made)


@scene("token-create/done")
def _(stage: Stage) -> Words:
    _with_tokens(stage)
    return "token", "create", "ci", "--role", "viewer"


@scene("token-create/again", 64)
def _(stage: Stage) -> Words:
    _with_tokens(stage, "ci")
    return "token", "create", "ci", "--role", "viewer"


@scene("token-list/none")
def _(stage: Stage) -> Words:
    _with_tokens(stage)
    return "token", "list"


@scene("token-list/some")
def _(stage: Stage) -> Words:
    _with_tokens(stage, "ada", "ci")
    service.open_service(str(stage.lake.base / "lakewarden.toml")).ledger.tokens.revoke("ci")
    return "token", "list"


@scene("token-revoke/done")
def _(stage: Stage) -> Words:
    _with_tokens(stage, "ci")
    return "token", "revoke", "ci"


@scene("token-revoke/not-found", 10)
def _(stage: Stage) -> Words:
    _with_tokens(stage)
    return "token", "revoke", "ci"


@scene("serve/open-to-others", 64)
def _(stage: Stage) -> Words:
    """A service that others reach needs a token and a decision about TLS."""
    stage.at("new")
    return "serve", "--host", "192.0.2.1", "--port", "0"


@scene("gateway/no-upstream", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return ("gateway",)


@scene("metrics/nowhere", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "metrics", "--out", "nowhere/lakewarden.prom"


@scene("metrics/written", has_json=False)
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    return "metrics", "--out", "lakewarden.prom"
