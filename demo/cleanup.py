"""The first act: the orphans of every table of both catalogs, planned, looked at, deleted, and checked."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo import check, check_stream
from demo.check import Fingerprint
from demo.lake import CATALOG, DAMAGED, DemoLake
from demo.stream import DemoStream
from demo.terminal import Terminal, expect, expect_same

LONGEST_NAME = 21
WORDS = {"protected": "that are no table's own", "refused": "of refused tables", "too new": "too new"}


@dataclass(frozen=True, slots=True)
class Before:
    """The lake before anything was done to it, read without Lakewarden."""

    files: set[Path]
    live: set[Path]
    orphans: set[Path]
    kept: dict[Path, str]
    rows: list[Fingerprint]
    stream_rows: dict[str, Fingerprint]

    @property
    def refs(self) -> int:
        return len(self.rows) + len(self.stream_rows)


def look(base: Path, lake: DemoLake, stream: DemoStream | None) -> Before:
    readable = tuple(name for name in lake.tables if name != DAMAGED)
    live = check.live_files(lake.catalog, readable)
    orphans, kept = set(lake.planted.orphans), dict(lake.planted.kept)
    if stream is not None:
        live |= check_stream.needed_files(stream)
        orphans |= set(stream.planted.orphans)
        kept |= stream.planted.kept
    return Before(
        files_of(base),
        live,
        orphans,
        kept,
        check.fingerprints(lake.catalog, lake.tables),
        check_stream.fingerprints(stream) if stream is not None else {},
    )


def tell(base: Path, lake: DemoLake, stream: DemoStream | None, terminal: Terminal) -> None:
    before = look(base, lake, stream)
    tables = len(lake.tables) + (stream is not None)
    paimon = "1 of Paimon" if stream is not None else "none of Paimon: pypaimon is not installed"
    terminal.say(
        f"{tables} tables, {len(lake.tables)} of Iceberg and {paimon}; {len(before.files)} files.",
        f"{len(before.orphans)} are orphans of crashes and lost races. Two tables must not be touched.",
    )
    terminal.title("What would go? Nothing is changed by looking")
    terminal.run("plan", "orphans", "--out", "plan")
    planned = json.loads((base / "plan" / "plan.json").read_text(encoding="utf-8"))["tables"]
    _show(planned, lake, terminal)
    expect(files_of(base) == before.files, "planning changed the lake")
    terminal.run("show", "plan", "--verdict", "orphan")

    terminal.title("Do it, and check it without Lakewarden: by PyIceberg and pypaimon")
    terminal.run("apply", "plan", "--yes")
    _check(base, lake, stream, before, terminal)
    terminal.run("runs")
    terminal.run("doctor", allowed=(0, 3, 4))


def _show(planned: list[dict[str, Any]], lake: DemoLake, terminal: Terminal) -> None:
    """Of the plan, a line a table: refused ones first, then those that have something to delete."""
    refused = {table["identifier"]: table["refusal"]["code"] for table in planned if table["refusal"]}
    expect(refused.keys() == {f"{CATALOG}.{name}" for name in lake.refused}, f"refused {sorted(refused)}")
    for name, code in refused.items():
        terminal.say(f"{name:{LONGEST_NAME}}  refused, {code}: {lake.refused[name.removeprefix(CATALOG + '.')]}")
    for table in planned:
        counts = {verdict: tally["files"] for verdict, tally in table["verdicts"].items()}
        if going := counts.get("orphan"):
            kept = sum(counts.values()) - counts["live"] - going
            terminal.say(
                f"{table['identifier']:{LONGEST_NAME}}  {counts['live']:3} files live, {kept:2} kept for other reasons, "
                f"{going:2} to delete"
            )


def _check(base: Path, lake: DemoLake, stream: DemoStream | None, before: Before, terminal: Terminal) -> None:
    gone = before.files - files_of(base)
    expect(not gone & before.live, f"a live file was deleted: {sorted(gone & before.live)[:3]}")
    expect_same(gone, before.orphans)
    expect(check.fingerprints(lake.catalog, lake.tables) == before.rows, "a table reads differently than before")
    if stream is not None:
        expect(check_stream.fingerprints(stream) == before.stream_rows, "the Paimon table reads differently")
    rows = sum(printed.rows for printed in [*before.rows, *before.stream_rows.values()])
    kept = Counter(WORDS[reason.split(":")[0]] for reason in before.kept.values())
    terminal.held(
        f"{len(gone)} files are gone: the orphans, and nothing else; {len(before.live)} live files are there",
        f"{rows:,} rows of {before.refs} branches, tags and snapshots read as before (by hash)",
        "kept on purpose: " + ", ".join(f"{count} {reason}" for reason, count in sorted(kept.items())),
    )


def files_of(base: Path) -> set[Path]:
    """Files of tables: Lakewarden notes beside a table, not in it, whose it is."""
    found = (path for root in (base / "warehouse", base / "stream") for path in check.all_files(root))
    return {path for path in found if ".lakewarden" not in path.parts}
