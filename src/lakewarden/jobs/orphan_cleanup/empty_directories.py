"""Directories that nothing is left in: on a local disk a format's partitions stay behind as empty shells.

One is removed only if it has held no file for the whole grace period and no writer is at work in it; removing a
directory that is not empty is impossible, whatever the plan says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakewarden.jobs.orphan_cleanup.sweep import Sweep
from lakewarden.model.plan import Tally, add_tallies
from lakewarden.model.ports import Heartbeat, Stat
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.plan_files import write_part
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.directories import empty_directories

EMPTY = "an empty directory"


def with_empty_directories(deployment: Deployment, sweep: Sweep, findings: Findings) -> Findings:
    """The findings, with the empty directories of the swept roots judged and counted too."""
    rows = list(_rows(deployment, sweep))
    if not rows:
        return findings
    numbers = sweep.fleet.numbers
    verdicts, kinds = dict(findings.verdicts), dict(findings.kinds)
    for row in rows:
        number = numbers[row["table"]]
        verdicts[number] = add_tallies(verdicts.get(number, {}), {row["verdict"]: Tally(1, 0)})
        if row["verdict"] == Verdict.ORPHAN:
            kinds[number] = add_tallies(kinds.get(number, {}), {Kind.OTHER: Tally(1, 0)})
    part = write_part(deployment.stores, sweep.request.directory, pa.Table.from_pylist(rows, schema=c.PLAN_ROWS))
    return replace(findings, verdicts=verdicts, kinds=kinds, parts=(*findings.parts, part))


def _rows(deployment: Deployment, sweep: Sweep) -> Iterator[dict[str, Any]]:
    """PLAN_ROWS of empty directories, by the table whose directory they lie in."""
    patterns = {s.identifier: deployment.readers[s.format].names.directories for s in sweep.fleet.states}
    beats = tuple(deployment.ledger.heartbeats.protecting(sweep.now))
    roots = sorted(sweep.roots, key=lambda root: root.prefix)
    prefixes = [root.prefix for root in roots]
    for claim in sweep.fleet.claims:
        pattern = patterns[claim.identifier]
        at = bisect_right(prefixes, claim.prefix) - 1
        if pattern is None or claim.identifier not in sweep.chosen or at < 0:
            continue
        if claim.prefix.startswith(prefixes[at]):
            cutoff = sweep.now - sweep.policies[claim.identifier].grace
            for found in empty_directories(claim.prefix, pattern):
                verdict, reason = _judged(found, cutoff, beats)
                yield {
                    "uri": found.key, "table": claim.identifier, "verdict": str(verdict), "reason": reason,
                    c.KIND: str(Kind.OTHER), c.SIZE: 0, c.MODIFIED: found.modified, c.ETAG: found.etag,
                    c.ROOT: roots[at].id,
                }  # fmt: skip


def _judged(directory: Stat, cutoff: datetime, beats: tuple[Heartbeat, ...]) -> tuple[Verdict, str]:
    if directory.modified is None or directory.modified >= cutoff:
        return Verdict.TOO_NEW, "younger than the grace period"
    if beat := _writer_in(directory, beats):
        return Verdict.IN_FLIGHT, beat.told
    return Verdict.ORPHAN, EMPTY


def _writer_in(directory: Stat, beats: tuple[Heartbeat, ...]) -> Heartbeat | None:
    """A writer that may be about to write into this directory, however old it is."""
    inside = (b for b in beats if directory.key.startswith(b.prefix) or b.prefix.startswith(directory.key))
    return next(inside, None)
