"""`lakewarden.open`, `lakewarden.lineage` and `lakewarden.heartbeat`: the package's front doors. They import nothing before they are used: a command says that it is there
before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from lakewarden.model.lineage import Requirements
    from lakewarden.warden import Warden
    from lakewarden.writers import Lineage


def open(config: str | PathLike[str] | None = None, *, verbose: bool = False, spark: Any = None) -> Warden:
    """The worker that a configuration describes: what the CLI does, for notebooks, schedulers and writers.

    A context manager: leaving it lets go of the state database.
    `spark` is a session to work with instead of one of its own. Its settings stay as they are.
    """
    from lakewarden.model.arguments import checked

    return checked(_open)(config, verbose, spark)


def _open(config: str | PathLike[str] | None, verbose: bool, spark: Any) -> Warden:
    from lakewarden import logs
    from lakewarden.wiring import open_warden

    logs.configure(verbose=verbose)
    return open_warden(None if config is None else str(config), verbose=verbose, spark=spark)


def lineage(writer: str, *, config: str | PathLike[str] | None = None, **said: Any) -> Lineage:
    """What a writer of yours says with each of its commits: who, where, which version, why, from what.

    With `config`, what `[lineage]` and its overrides require counts too, and tables may be named. Takes what
    `lakewarden.writers.lineage` takes besides. Raises ArgumentError for anything else.
    """
    if config is not None:
        return open(config).lineage(writer, **said)
    from lakewarden.writers import lineage as made

    return made(writer, **said)


def validate_lineage(summary: Mapping[str, str], requirements: Requirements | Mapping[str, str]) -> None:
    """Raise LineageError, which names everything that is missing, unless a commit's summary is as its table wants it.

    `requirements` are `lakewarden.model.lineage.Requirements`, or the properties of the table.
    """
    from lakewarden.model.arguments import checked

    checked(_validate_lineage)(summary, requirements)


def _validate_lineage(summary: Mapping[str, str], requirements: Requirements | Mapping[str, str]) -> None:
    from lakewarden.model.lineage import Requirements, validate_lineage

    rules = requirements if isinstance(requirements, Requirements) else Requirements().under(requirements)
    validate_lineage(summary, rules)


def heartbeat(
    table: str,
    *,
    url: str | None = None,
    token: str | None = None,
    config: str | PathLike[str] | None = None,
    writer: str | None = None,
    prefix: str | None = None,
    ttl_seconds: int = 300,
) -> AbstractContextManager[None]:
    """While open, what this writer writes under a table (or `prefix`) is in flight, and no plan calls it an orphan.

    With `url` and `token` it goes through the service, else straight to the state that `config` names.
    """
    import socket

    from lakewarden.model.arguments import checked

    if url is None:
        return _beating_here(config, table, writer, prefix, ttl_seconds)
    from lakewarden import remote_heartbeat

    allowed = remote_heartbeat.checked(url, token)
    begun: AbstractContextManager[None] = checked(remote_heartbeat.beating)(
        url, allowed, writer or socket.gethostname(), table, prefix, ttl_seconds
    )
    return begun


@contextmanager
def _beating_here(
    config: str | PathLike[str] | None, table: str, writer: str | None, prefix: str | None, ttl_seconds: int
) -> Iterator[None]:
    with (
        open(config) as warden,
        warden.heartbeat(table, writer=writer, prefix=prefix, ttl_seconds=ttl_seconds),
    ):
        yield
