"""What can only be known once the listing is there.

Tables that committed while the lake was listed are read again, so that the live side is as fresh as a
read that began after the listing. Metadata files that nobody names are opened: another table's, or
another catalog's, make a root unknown. Files that streaming writers have not committed protect theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.jobs.orphan_cleanup.sweep import Sweep, judge_files
from lakewarden.model.errors import Refusal
from lakewarden.model.roots import claims_of, group_roots
from lakewarden.model.table import Hold, Holder, ManifestList, NamedManifest, ReachedFile, TableState
from lakewarden.model.verdict import Kind
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.compare.holders import Holders, TableHolders, everything
from lakewarden.pipeline.compare.verdicts import STREAMING
from lakewarden.steps.compare.compare import empty_parts
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, moved_since, own_home
from lakewarden.steps.observe.strangers import NAMELESS, RIVAL, refused_roots, strangers_in

MOST_LOOKS = 3


def after_listing(deployment: Deployment, sweep: Sweep, findings: Findings) -> tuple[Findings, Fleet]:
    """The findings with everything added that was only visible after the listing; the fleet as it is now."""
    fleet = sweep.fleet
    for _ in range(MOST_LOOKS):
        findings, fleet, moved = _look(deployment, sweep, findings, fleet)
        # A table that moves while it is read may lose files that were to be read: another look decides.
        if not moved & findings.table_refusals.keys():
            break
    return findings, fleet


def _look(deployment: Deployment, sweep: Sweep, findings: Findings, before: Fleet) -> tuple[Findings, Fleet, Set[int]]:
    """One look: the findings, the fleet as it is now, and the numbers of the tables that moved since `before`."""
    moved, fleet = _moved(deployment, sweep, before)
    # A table that moved is read again whole, so what could not be read of its earlier state decides nothing.
    settled = {n: why for n, why in findings.table_refusals.items() if n not in moved}
    # Files of a Paimon table are matched by bare name, and a bare name has one spelling. So a file that its earlier state
    # missed is no sign of a path spelled in two ways; an expiry took the file together with that state. (An Iceberg path
    # may be spelled s3:// in one place and s3a:// in another, so there a missing file stays a reason to stop.)
    missing = {
        n: lost for n, lost in findings.missing.items() if n not in moved or moved[n].identifier not in fleet.homes
    }
    findings = replace(findings, table_refusals=settled, missing=missing)
    found = _strangers(deployment, sweep, fleet, findings) if findings.unknown_metadata else []
    refused = refused_roots(found)
    findings = replace(findings, root_refusals={**refused, **findings.root_refusals})
    late = {number: state.refusal for number, state in moved.items() if state.refusal}
    findings = replace(findings, table_refusals={**findings.table_refusals, **late})
    findings = _with_new_touchers(sweep, fleet, findings)

    holders = [
        *(everything(number, state) for number, state in moved.items()),
        *_soft(sweep, found),
        *_writer_manifests(deployment, sweep, findings),
    ]
    if not findings.parts or not holders:
        return findings, fleet, moved.keys()
    return _judge_again(deployment, sweep, findings, fleet, holders), fleet, moved.keys()


def _moved(deployment: Deployment, sweep: Sweep, before: Fleet) -> tuple[dict[int, TableState], Fleet]:
    """Tables whose metadata is another one now, or that are new, under their numbers; new ones come last."""
    known = before.pointers
    states = {state.identifier: state for state in moved_since(deployment, before, sweep.now - sweep.longest_grace)}
    fresh = [states.get(state.identifier, state) for state in before.states]
    new = [state for name, state in states.items() if name not in known]
    homes = {state.identifier: home for state in new if (home := own_home(deployment, state))}
    fresh += new
    numbers = {state.identifier: number for number, state in enumerate(fresh)}
    fleet = replace(before, states=tuple(fresh), homes={**homes, **before.homes})
    return {numbers[name]: state for name, state in states.items()}, fleet


def _with_new_touchers(sweep: Sweep, fleet: Fleet, findings: Findings) -> Findings:
    """A root in which another table has begun to write meanwhile is left for the next plan."""
    known = sweep.fleet.numbers
    refused = dict(findings.root_refusals)
    for root in group_roots(claims_of(state for state in fleet.states if state.identifier not in known)):
        for swept in sweep.roots:
            if swept.prefix.startswith(root.prefix) or root.prefix.startswith(swept.prefix):
                message = (
                    f"{root.tables[0]} began to use {swept.prefix} while it was listed; nothing under it is touched"
                )
                refused[swept.id] = Refusal("LW-ROOT-001", message, "Plan again.")
    return replace(findings, root_refusals=refused)


def _strangers(deployment: Deployment, sweep: Sweep, fleet: Fleet, findings: Findings) -> list[dict[str, Any]]:
    parts = [sweep.request.directory + part.name for part in findings.parts]
    # By what the tables are now: a writer's commits since they were loaded are not another catalog's.
    states = [*sweep.fleet.states, *fleet.states]
    return strangers_in(deployment, sweep.session, parts, states, sweep.now - sweep.longest_grace)


def _soft(sweep: Sweep, found: list[dict[str, Any]]) -> Iterator[TableHolders]:
    """What strangers still reach, and the strangers that may be somebody's current metadata."""
    numbers = sweep.fleet.numbers
    for row in found:
        number = numbers[row["table"]]
        lists = tuple(
            ManifestList(uri, soft=True, data_files=data, delete_files=deletes)
            for uri, (data, deletes) in zip(row.get("lists", ()), row.get("totals", ()), strict=True)
        )
        files = [ReachedFile(item.uri, Kind.MANIFEST_LIST, soft=True) for item in lists]
        if row["standing"] in (RIVAL, NAMELESS):
            files.append(ReachedFile(row["uri"], Kind.METADATA))
        yield number, sweep.fleet.states[number], (Holder(Hold.ALL, manifest_lists=lists, files=tuple(files)),)


def _judge_again(
    deployment: Deployment, sweep: Sweep, findings: Findings, fleet: Fleet, holders: Sequence[TableHolders]
) -> Findings:
    """Judge the rows that were not live once more, with what is known now; the first files are emptied."""
    parts = [sweep.request.directory + part.name for part in findings.parts]
    again = judge_files(deployment, sweep, Holders.of(holders, fleet.homes), Candidates(judged=parts))
    empty_parts(deployment, parts)
    return findings.after(again)


def _writer_manifests(deployment: Deployment, sweep: Sweep, findings: Findings) -> Iterator[TableHolders]:
    """Manifests that streaming writers have written and not committed: they hold the files they name.

    No list records their length, so only their frames prove them whole; a damaged one refuses its table.
    """
    numbers = sweep.fleet.numbers
    found: dict[str, list[NamedManifest]] = {}
    for part in findings.parts if findings.writer_files else ():
        rows = pq.read_table(pa.BufferReader(deployment.stores.get(sweep.request.directory + part.name)))
        mine = pc.and_(pc.equal(rows["reason"], STREAMING), pc.ends_with(rows["uri"], ".avro"))
        for row in rows.filter(mine).select(["uri", "table"]).to_pylist():
            found.setdefault(row["table"], []).append(NamedManifest(row["uri"], Kind.DATA, soft=True))
    for name, manifests in found.items():
        number = numbers[name]
        yield number, sweep.fleet.states[number], (Holder(Hold.ALL, manifests=tuple(manifests)),)
