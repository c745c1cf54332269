"""`leases`, `freeze`, `unfreeze`: who may work now."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakewarden.cli import worker
from lakewarden.cli.options import Record, Shared
from lakewarden.cli.screen import Screen, number
from lakewarden.cli.signals import finishing_first
from lakewarden.model.errors import Exit, UsageError
from lakewarden.model.lease import LeaseState


def leases(
    shared: Shared,
    record: Record,
    release: Annotated[str | None, typer.Option("--release", metavar="KEY", help="Take this lease away.")] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept in the lease record.")
    ] = None,
) -> int:
    """List the leases, or release one that its holder left behind."""
    if release is not None and not (reason or "").strip():
        raise UsageError("--release needs --reason; no lease was released")
    if reason is not None and release is None:
        raise UsageError("--reason belongs to --release KEY; no lease was released")
    warden = worker.open_worker(shared)
    screen = Screen()
    if release is not None and reason:
        with finishing_first():
            warden.release_lease(release, reason, record.actor(warden))
        _say(screen, shared, {"released": release, "reason": reason}, f"Lease {release} is released.")
        return Exit.DONE
    found = [dict(lease) for lease in warden.leases()]
    screen.document({"leases": found}) if shared.as_json else _show_leases(screen, found)
    return Exit.DONE


def _show_groups(screen: Screen, leases: list[dict[str, Any]]) -> None:
    """Groups of files that are being rewritten: of which table and partition, from which level, by whom, and how far."""
    if not leases:
        return
    screen.line("Files that are being rewritten:")
    rows = [
        (
            lease["work"]["table"],
            lease["work"]["partition"],
            lease["work"]["level"] or "-",
            number(lease["work"]["files"]),
            lease["holder"],
            str(lease["epoch"]),
            f"{lease['age_seconds']:.0f}",
            lease["work"]["progress"],
            lease["key"],
        )
        for lease in leases
    ]
    heads = ("table", "partition", "level", "files", "holder", "epoch", "age s", "progress", "lease")
    screen.grid(heads, rows, frozenset({3, 5, 6}))


def _show_leases(screen: Screen, leases: list[dict[str, Any]]) -> None:
    """Those that are held. Of the others, which are kept so that their epochs go on, only how many there are."""
    held = [lease for lease in leases if lease["state"] == LeaseState.HELD]
    if plain := [lease for lease in held if "work" not in lease]:
        rows = [
            (
                lease["key"],
                lease["holder"],
                f"{lease['renewed_at'][:19].replace('T', ' ')} UTC",
                f"{lease['ttl_seconds']:g}",
            )
            for lease in plain
        ]
        screen.grid(("lease", "holder", "renewed", "lasts s"), rows, frozenset({3}), drop=(3,))
    if not held:
        screen.line("No lease is held.")
    _show_groups(screen, [lease for lease in held if "work" in lease])
    corrupt = [lease["key"] for lease in leases if lease["state"] == "corrupt"]
    for address in corrupt:
        screen.line(f"The record {address} cannot be read; nobody takes its lease (LW-LEASE-003).")
    if others := len(leases) - len(held) - len(corrupt):
        released = "1 lease was released" if others == 1 else f"{number(others)} leases were released"
        screen.line(f"{released} (--output json names all).")


def freeze(
    shared: Shared,
    record: Record,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown to whoever is stopped.")] = "",
) -> int:
    """Stop every worker of this deployment before its next batch."""
    warden = worker.open_worker(shared)
    with finishing_first():
        warden.freeze(record.actor(warden), reason)
    _say(
        Screen(),
        shared,
        {"frozen": True, "reason": reason},
        "Frozen: no worker starts another batch until `lakewarden unfreeze`.",
    )
    return Exit.DONE


def unfreeze(shared: Shared, record: Record) -> int:
    """Let the workers go on."""
    warden = worker.open_worker(shared)
    with finishing_first():
        changed = warden.unfreeze(record.actor(warden))
    words = "Unfrozen: workers may go on." if changed else "Nothing was frozen: workers may go on as before."
    _say(Screen(), shared, {"frozen": False, "changed": changed}, words)
    return Exit.DONE


def _say(screen: Screen, shared: Shared, document: dict[str, object], words: str) -> None:
    screen.document(document) if shared.as_json else screen.line(words)
