"""The second look: what can only be known once the listing is there.

Tables that committed while the lake was listed are read again, so that the live side is as fresh as a
read that began after the listing. Metadata files that nobody names are opened: another table's, or
another catalog's, make a root unknown. Files that streaming writers have not committed protect theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewarden.model.errors import Refusal, UnreadableMetadataError
from lakewarden.model.roots import claims_of, group_roots
from lakewarden.model.table import TableState
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.names import KIND_CODES, SOFT
from lakewarden.pipeline.read.to_read import ToRead, table_of
from lakewarden.steps.compare.findings import Findings, gather
from lakewarden.steps.compare.sweep import (
    Sweep,
    empty_parts,
    memories_of,
    part_task,
    read_task,
    spark_failure,
    usable_cache,
)
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, load_states, own_home, pointers_of

if TYPE_CHECKING:
    from lakewarden.pipeline.spark.session import SparkSession

MOST_LOOKS = 3
FOREIGN, FORK, RIVAL, NAMELESS, UNREADABLE = "foreign", "fork", "rival", "nameless", "unreadable"


def second_look(deployment: Deployment, sweep: Sweep, findings: Findings) -> tuple[Findings, Fleet]:
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
    # Names cannot be spelled in two ways: what such a table missed went with its earlier state before it was listed.
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

    wanted = ToRead.of(moved.items(), fleet.homes).plus(*_soft(sweep, found))
    if not findings.parts or not (wanted or findings.writer_files):
        return findings, fleet, moved.keys()
    return _judge_again(deployment, sweep, findings, wanted), fleet, moved.keys()


def _moved(deployment: Deployment, sweep: Sweep, before: Fleet) -> tuple[dict[int, TableState], Fleet]:
    """Tables whose metadata is another one now, or that are new, under their numbers; new ones come last."""
    known = before.pointers
    states = {state.identifier: state for state in moved_since(deployment, before, sweep.now - _longest_grace(sweep))}
    fresh = [states.get(state.identifier, state) for state in before.states]
    new = [state for name, state in states.items() if name not in known]
    homes = {state.identifier: home for state in new if (home := own_home(deployment, state))}
    fresh += new
    numbers = {state.identifier: number for number, state in enumerate(fresh)}
    fleet = replace(before, states=tuple(fresh), homes={**homes, **before.homes})
    return {numbers[name]: state for name, state in states.items()}, fleet


def moved_since(deployment: Deployment, before: Fleet, since: datetime) -> list[TableState]:
    """Tables whose metadata is another one now than in the fleet, or that are new, read with what was current `since`."""
    known = before.pointers
    now = pointers_of(deployment.formats.values())
    return load_states([found for name, found in now.items() if known.get(name) != found[1].metadata_location], since)


def _longest_grace(sweep: Sweep) -> timedelta:
    return max(policy.grace for policy in sweep.policies.values())


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
    return strangers_in(deployment, sweep.session, parts, states, sweep.now - _longest_grace(sweep))


def refused_roots(found: Sequence[Mapping[str, Any]]) -> dict[int, Refusal]:
    """The roots, by number, in which another table or another history of one was found."""
    return {int(row["root_id"]): _refusal(row) for row in found if row["standing"] in (FOREIGN, FORK, UNREADABLE)}


def strangers_in(
    deployment: Deployment,
    session: Future[SparkSession],
    parts: Sequence[str],
    states: Sequence[TableState],
    since: datetime,
) -> list[dict[str, Any]]:
    """What is worth knowing of the metadata files among a plan's rows that no table names."""
    from lakewarden.pipeline.compare import by_join as spark_sweep
    from lakewarden.pipeline.read import strangers

    spark = session.result()
    abandoned = deployment.ledger.switches.abandoned()
    recognisers = {fmt: reader.recogniser(states, since, abandoned) for fmt, reader in deployment.readers.items()}
    formats = {state.identifier: state.format for state in states}
    try:
        rows = strangers.unknown_metadata(spark_sweep.stored(spark, parts, c.PLAN_ROWS, read_task(deployment)))
        recognise = partial(strangers.recognise, recognisers, formats, deployment.stores)
        found = strangers.findings(rows, recognise)
        # The state that was current at the cut-off, where the log has dropped it already.
        return [
            row | (recognise(row["uri"], row["table"], whole=True) or {}) if "rank" in row else row for row in found
        ]
    except Exception as error:
        raise spark_failure(error) from error


def _refusal(row: Mapping[str, Any]) -> Refusal:
    if row["standing"] == UNREADABLE:
        reason = f"{row['uri']} cannot be read ({row['why']}), so it may be another table's; nothing under this root is touched"
        return UnreadableMetadataError(reason).refusal()
    if row["standing"] == FOREIGN:
        return Refusal(
            "LW-ROOT-002",
            f"{row['uri']} belongs to table {row['uuid']}, which no configured catalog knows; nothing under this root is touched",
            f"Add the catalog that knows it, or, if that table is gone for good: lakewarden abandon {row['uuid']}",
        )
    return Refusal(
        "LW-ROOT-003",
        f"{row['uri']} continues another history of table {row['uuid']}; nothing under this root is touched",
        "Another catalog commits to the same table. Add that catalog, or drop one of the two registrations.",
    )


def _soft(sweep: Sweep, found: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    """LISTS that strangers still reach, and MARKS of the strangers that may be somebody's current metadata."""
    numbers = sweep.fleet.numbers
    lists = [
        (numbers[row["table"]], row["format"], uri, True, None, None, None, None)
        for row in found
        for uri in row.get("lists", ())
    ]
    named = [
        (numbers[row["table"]], canonical(uri), KIND_CODES[Kind.MANIFEST_LIST] + SOFT, c.MARK_LIVE)
        for row in found
        for uri in row.get("lists", ())
    ]
    named += [
        (numbers[row["table"]], row["uri"], KIND_CODES[Kind.METADATA], c.MARK_LIVE)
        for row in found
        if row["standing"] in (RIVAL, NAMELESS)
    ]
    return table_of(lists, c.LISTS), table_of(named, c.MARKS)


def _judge_again(deployment: Deployment, sweep: Sweep, findings: Findings, wanted: ToRead) -> Findings:
    """Judge the rows that were not live once more, with what is known now; the first files are emptied."""
    from lakewarden.pipeline.compare import by_join as spark_sweep

    spark = sweep.session.result()
    read = read_task(deployment)
    parts = [sweep.request.directory + part.name for part in findings.parts]
    try:
        listed = spark_sweep.listed_in(spark, parts, read)
        marks = spark_sweep.reached(spark, wanted, read, usable_cache(deployment))
        if findings.writer_files:
            marks = marks.unionByName(spark_sweep.writer_files(spark, parts, read, sweep.fleet.numbers))
        memories = memories_of(deployment, sweep, spark)
        again = gather(spark_sweep.facts(listed, marks, part_task(deployment, sweep), memories))
    except Exception as error:
        raise spark_failure(error) from error
    empty_parts(deployment, parts)
    return findings.after(again)
