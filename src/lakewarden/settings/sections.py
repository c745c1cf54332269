"""The sections of the configuration file that are no job's, key by key."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from lakewarden.formats.registry import format_names, is_format_name
from lakewarden.model.cost import Cost as Prices
from lakewarden.model.policy import Job
from lakewarden.model.uri import FileUri
from lakewarden.model.windows import windows_of
from lakewarden.steps.section import CronLine, Section, address


def flat(value: Any) -> Any:
    """Dotted names as users mean them: TOML reads an unquoted `a.b = 1` as a table in a table."""
    if not isinstance(value, dict):
        return value
    names: dict[str, Any] = {}
    for key, item in value.items():
        inner = flat(item)
        names.update({f"{key}.{k}": v for k, v in inner.items()} if isinstance(inner, dict) else {key: inner})
    return names


Scalar = str | bool | int | float
Properties = Annotated[dict[str, Scalar], BeforeValidator(flat)]


class Worker(Section):
    id: str = Field(default_factory=socket.gethostname, min_length=1)


class State(Section):
    location: str = Field(default_factory=lambda: Path.cwd().joinpath(".lakewarden").as_uri())
    database: str = "sqlite"

    @field_validator("location")
    @classmethod
    def _absolute(cls, text: str) -> str:
        # A relative place would move with the directory a command is started in, and two commands of one
        # deployment would not see each other's leases.
        return address(text)

    @field_validator("database")
    @classmethod
    def _known_database(cls, text: str) -> str:
        known = text == "sqlite" or text.startswith(("sqlite:///", "postgresql://", "postgresql+psycopg://"))
        if not known:
            raise ValueError('is not allowed; allowed: "sqlite", "sqlite:///path/to/file.db", "postgresql://…"')
        return text

    @property
    def local_path(self) -> Path | None:
        """The directory of a state location on this machine's disk."""
        uri = FileUri.parse(self.location)
        return Path("/" + uri.key) if uri.scheme == "file" else None

    @property
    def database_url(self) -> str:
        """The address for the database driver, with "sqlite" spelled out."""
        if self.database != "sqlite":
            return self.database
        return f"sqlite:///{self.local_path}/lakewarden.db"


class Spark(Section):
    master: str = "local[*]"
    executor_wait_seconds: float = Field(default=60.0, gt=0)
    conf: Properties = Field(default_factory=dict)

    @property
    def conf_strings(self) -> dict[str, str]:
        """Spark's own spelling: everything is text, and truth is lower case."""
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in self.conf.items()}


class CatalogSection(Section):
    """`format` is one of those that come with this version, or a module of somebody else's by its dotted path."""

    format: str = Field(examples=list(format_names()))
    properties: Properties = Field(default_factory=dict)

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        if not is_format_name(name):
            raise ValueError(
                f"is not allowed; allowed: {' or '.join(repr(n) for n in format_names())}".replace("'", '"')
            )
        return name


class Cost(Section):
    """What storage costs, for the estimates of `forecast` and `report`."""

    per_gib_month: float = Field(default=0.023, ge=0, allow_inf_nan=False)
    per_1000_requests: float = Field(default=0.005, ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", min_length=1, max_length=8)

    @property
    def prices(self) -> Prices:
        return Prices(self.per_gib_month, self.per_1000_requests, self.currency)


class Metrics(Section):
    """Where the metrics go beside `/metrics`."""

    textfile: str | None = Field(default=None, min_length=1)

    @field_validator("textfile")
    @classmethod
    def _for_the_collector(cls, path: str | None) -> str | None:
        # node_exporter reads no other files, and a relative one would move with the directory of each command.
        if path is not None and not (path.startswith("/") and path.endswith(".prom")):
            raise ValueError('must be an absolute path that ends in ".prom"')
        return path


ALL_JOBS = "all"


class Service(Section):
    """`lakewarden serve`: where it listens, who may ask, what it runs by itself."""

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8787, ge=0, le=65535)
    tls_certificate: str | None = None
    tls_key: str | None = None
    plain_http: bool = False
    allowed_hosts: list[str] = Field(default_factory=list)
    anonymous_read: bool = True
    max_request_bytes: int = Field(default=1 << 20, ge=1024)
    web_processes: int = Field(default=2, ge=1, le=64)
    runner: bool = True
    schedule: bool = True
    jitter_seconds: int = Field(default=0, ge=0, le=3600)
    catch_up_hours: int = Field(default=24, ge=0, le=168)
    adaptive: bool = False
    observe_minutes: int = Field(default=15, ge=1, le=1440)
    keep_requests_days: int = Field(default=90, ge=2, le=36500)
    keep_requests: int = Field(default=100_000, ge=1000, le=10_000_000)
    windows: dict[str, str] = Field(default_factory=dict)
    tenants: dict[str, str] = Field(default_factory=dict)

    @field_validator("windows")
    @classmethod
    def _parts_of_a_day(cls, windows: dict[str, str]) -> dict[str, str]:
        allowed = [ALL_JOBS, *(job.section for job in Job)]
        for name, text in windows.items():
            if name not in allowed:
                raise ValueError(f"{name!r} is no job; allowed: {', '.join(allowed)}")
            windows_of(text)
        return windows

    @model_validator(mode="after")
    def _both_or_none(self) -> Service:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are given together or not at all")
        return self

    @property
    def tls(self) -> bool:
        return self.tls_certificate is not None


class RestoreDrill(Section):
    """The proof that what was put away comes back: when the service makes it, and how much it copies at most."""

    enabled: bool = True
    cron: CronLine = "30 9 * * *"
    max_megabytes: int = Field(default=64, ge=1, le=1 << 20)


class Webhook(Section):
    """Who is told of refusals, brakes and failures, by a signed POST."""

    url: str = Field(pattern=r"^https?://\S+$")
    secret: str = Field(min_length=16, repr=False)
    events: list[Literal["refusal", "brake", "failure"]] = Field(default=["refusal", "brake", "failure"], min_length=1)
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,64}$")
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)

    @property
    def known_as(self) -> str:
        """Its name in the ledger: addresses of webhooks are secrets themselves."""
        return self.name or hashlib.sha256(self.url.encode()).hexdigest()[:12]
