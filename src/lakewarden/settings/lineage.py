"""`[lineage]`, `[gateway]`, `[openlineage]`: what commits must say, who sees to it, and who is told of runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from lakewarden.model.errors import ConfigError
from lakewarden.model.lineage import Requirements
from lakewarden.steps.section import Section


def _plain(key: str) -> str:
    """A key of a summary, as a property that joins several by commas can hold it."""
    if not key.strip() or key != key.strip() or "," in key:
        raise ValueError(f"has {key!r}, which is no key: no commas, no spaces around it")
    return key


def _web(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an address such as https://catalog.example.com")
    return address.rstrip("/")


def _file(path: str) -> str:
    if not Path(path).is_file():
        raise ValueError(f"names {path}, where no file is")
    return path


Key = Annotated[str, AfterValidator(_plain)]
WebAddress = Annotated[str, AfterValidator(_web)]
ExistingFile = Annotated[str, AfterValidator(_file)]


class Lineage(Section):
    """What the commits of every table must say. Tables say otherwise by their properties `lineage.…`."""

    required_keys: list[Key] = Field(default_factory=list)
    required_keys_for: dict[Key, list[Key]] = Field(default_factory=dict)
    allowed_operations: list[Key] = Field(default_factory=list)


class Gateway(Section):
    """`lakewarden gateway`: in front of which catalog it stands, and where it listens."""

    catalog: str = ""
    upstream: WebAddress | None = None
    public_uri: WebAddress | None = None
    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8788, ge=0, le=65535)
    tls_certificate: ExistingFile | None = None
    tls_key: ExistingFile | None = None
    upstream_ca: ExistingFile | None = None
    max_commit_bytes: int = Field(default=128 << 20, ge=1 << 20, le=1 << 30)
    max_buffered_bytes: int = Field(default=512 << 20, ge=1 << 20)
    upstream_timeout_seconds: float = Field(default=120.0, gt=0)
    rules_seconds: float = Field(default=5.0, ge=0, le=300)

    @model_validator(mode="after")
    def _whole(self) -> Gateway:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("needs tls_certificate and tls_key, or neither")
        if self.max_buffered_bytes < self.max_commit_bytes:
            raise ValueError(
                "max_buffered_bytes must not be below max_commit_bytes: the largest commit would never pass"
            )
        return self

    def upstream_of(self, catalogs: Mapping[str, Mapping[str, object]]) -> tuple[str, str]:
        """The name of the catalog behind the gateway, and its address; `catalogs` has properties by name.

        Raises ConfigError.
        """
        if not self.catalog:
            raise ConfigError(
                "gateway.catalog is missing; no gateway was started",
                hint='Say which catalog of [catalogs] stands behind the gateway: [gateway] catalog = "prod".',
            )
        if self.upstream is not None:
            return self.catalog, self.upstream
        address = str(catalogs.get(self.catalog, {}).get("uri", ""))
        try:
            return self.catalog, _web(address)
        except ValueError:
            raise ConfigError(
                f"no REST catalog {self.catalog!r} with a uri is configured, and gateway.upstream is missing; "
                "no gateway was started",
                hint=f"Give [catalogs.{self.catalog}] its uri, or say gateway.upstream.",
            ) from None


class OpenLineage(Section):
    """Where runs are told of, in OpenLineage's words. No url: nowhere."""

    url: WebAddress | None = None
    namespace: str = Field(default="lakewarden", min_length=1)
    api_key: str | None = None
    timeout_seconds: float = Field(default=5.0, gt=0, le=60)


def narrowed(rules: Requirements, given: Lineage) -> Requirements:
    """The rules, with what a narrower section says instead of them, key by key."""
    said = given.model_fields_set
    return Requirements(
        tuple(given.required_keys) if "required_keys" in said else rules.required,
        {name: tuple(keys) for name, keys in given.required_keys_for.items() if keys}
        if "required_keys_for" in said
        else rules.by_operation,
        tuple(given.allowed_operations) if "allowed_operations" in said else rules.allowed,
    )
