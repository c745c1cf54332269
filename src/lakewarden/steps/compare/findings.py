"""What a sweep brought home, in the plan's words: counts by table, refusals, brakes, parts of the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakewarden.ledger.reach import Reach
from lakewarden.model.brakes import Sight, brakes, refusal
from lakewarden.model.errors import (
    ROOT_REFUSALS,
    IncompleteManifestError,
    Refusal,
    UnlistableError,
    UnreadableMetadataError,
)
from lakewarden.model.plan import PartFile, TablePlan, Tallies, Tally, add_tallies
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.plan_files import (
    COUNT,
    EVERYWHERE,
    MISSING,
    NOTE,
    PART,
    ROOT_FACT,
    TOUCH,
    UNKNOWN_METADATA,
    WRITER_FILE,
)
from lakewarden.pipeline.read.cache import CACHE_NOTE
from lakewarden.pipeline.read.manifests import note_refusal
from lakewarden.steps.compare.sweep import Sweep
from lakewarden.steps.observe.fleet import Fleet

DAMAGE = (UnreadableMetadataError.code, IncompleteManifestError.code)


@dataclass(frozen=True)
class Findings:
    """Facts by table number and by root number."""

    verdicts: Mapping[int, Tallies] = field(default_factory=dict)
    kinds: Mapping[int, Tallies] = field(default_factory=dict)
    missing: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    table_refusals: Mapping[int, Refusal] = field(default_factory=dict)
    root_refusals: Mapping[int, Refusal] = field(default_factory=dict)
    unknown_metadata: frozenset[int] = frozenset()
    writer_files: frozenset[int] = frozenset()
    touches: frozenset[tuple[int, int]] = frozenset()
    wholly_known: frozenset[int] = frozenset()
    parts: tuple[PartFile, ...] = ()
    cached: tuple[dict[str, Any], ...] = ()

    def after(self, again: Findings) -> Findings:
        """These facts with the rows that were not live judged again: only the live counts of the first look stay."""
        live = {
            number: {str(Verdict.LIVE): t[Verdict.LIVE]} for number, t in self.verdicts.items() if Verdict.LIVE in t
        }
        numbers = {*live, *again.verdicts}
        return replace(
            again,
            verdicts={n: add_tallies(live.get(n, {}), again.verdicts.get(n, {})) for n in numbers},
            missing=self.missing,
            table_refusals={**self.table_refusals, **again.table_refusals},
            root_refusals={**self.root_refusals, **again.root_refusals},
            touches=self.touches | again.touches,
            wholly_known=self.wholly_known,
            cached=(*self.cached, *again.cached),
        )

    def outside(self, fleet: Fleet) -> dict[str, tuple[str, ...]]:
        """The roots of others in which each table has live files."""
        roots = {root.id: root for root in fleet.roots}
        found: dict[str, list[str]] = {}
        for number, root_id in sorted(self.touches):
            name = fleet.states[number].identifier
            if name not in roots[root_id].tables:
                found.setdefault(name, []).append(roots[root_id].prefix)
        return {name: tuple(prefixes) for name, prefixes in found.items()}


def gather(facts: pa.Table | None, changing: Verdict = Verdict.ORPHAN, tables: Sequence[int] | None = None) -> Findings:
    """The facts of all tasks, added up. Their number is that of tables and verdicts, never of files.

    `kinds` counts the files with the changing verdict. `tables` says whose notes are whose, where tasks numbered
    something else than tables.
    """
    if facts is None:
        return Findings()
    verdicts: dict[int, dict[str, Tally]] = {}
    kinds: dict[int, dict[str, Tally]] = {}
    missing: dict[int, tuple[int, str]] = {}
    rows = facts.to_pylist()
    for row in rows:
        number = row[c.TABLE]
        tally = Tally(row["files"] or 0, row["bytes"] or 0)
        if row["fact"] == COUNT:
            verdicts[number] = add_tallies(verdicts.get(number, {}), {row["verdict"]: tally})
            if row["verdict"] == changing:
                kinds[number] = add_tallies(kinds.get(number, {}), {row[c.KIND]: tally})
        elif row["fact"] == MISSING:
            count, example = missing.get(number, (0, row["text"]))
            missing[number] = (count + tally.files, example)
    touches = [(row[c.TABLE], int(row["verdict"])) for row in rows if row["fact"] == TOUCH]
    texts = [row["text"] for row in rows if row["fact"] == NOTE]
    notes = [json.loads(text[1:]) for text in texts]
    return Findings(
        verdicts=verdicts,
        kinds=kinds,
        missing=missing,
        table_refusals={
            tables[note["table"]] if tables else note["table"]: note_refusal(text)
            for note, text in zip(notes, texts, strict=True)
            if "error" in note
        },
        root_refusals=_root_refusals([row for row in rows if row["fact"] == ROOT_FACT]),
        unknown_metadata=frozenset(row[c.TABLE] for row in rows if row["fact"] == UNKNOWN_METADATA),
        writer_files=frozenset(row[c.TABLE] for row in rows if row["fact"] == WRITER_FILE),
        touches=frozenset(pair for pair in touches if pair[1] != EVERYWHERE),
        wholly_known=frozenset(number for number, root in touches if root == EVERYWHERE),
        parts=tuple(
            sorted((PartFile(**json.loads(row["text"])) for row in rows if row["fact"] == PART), key=lambda p: p.name)
        ),
        cached=tuple(note[CACHE_NOTE] for note in notes if CACHE_NOTE in note),
    )


def _root_refusals(rows: list[dict[str, Any]]) -> dict[int, Refusal]:
    found: dict[int, Refusal] = {}
    for row in rows:
        sign, example = row["verdict"], row["text"]
        if sign == "unlistable":
            why = UnlistableError(
                f"the listing is not complete ({example}); nothing under this root is touched"
            ).refusal()
        elif sign == "symlink":
            hint = "Remove the link, or move its target into the table with an engine."
            why = Refusal(
                "LW-ROOT-005", f"{ROOT_REFUSALS['LW-ROOT-005']}: {example}; nothing under it is touched", hint
            )
        else:
            hint = f"Move the {sign.capitalize()} table out of this directory, or this table out of it."
            why = Refusal(
                "LW-ROOT-004",
                f"{ROOT_REFUSALS['LW-ROOT-004']} ({sign.capitalize()}: {example}); nothing is touched",
                hint,
            )
        found.setdefault(row[c.TABLE], why)
    return found


def judge_tables(
    sweep: Sweep, fleet: Fleet, findings: Findings, last: Mapping[str, Reach], inventory: Mapping[str, str]
) -> tuple[tuple[TablePlan, ...], dict[str, tuple[str, ...]]]:
    """Every selected table, planned or refused (by what was known before, damage, roots, brakes), and who each brake stops.

    A table that two brakes stop is under both, so that lifting one does not lift the other unseen.
    """
    refusals = refusals_of(fleet, findings, last)
    twins = live_by_uuid(fleet, findings)
    tables = []
    stopped: dict[str, list[str]] = {}
    for number, state in enumerate(fleet.states):
        if state.identifier not in sweep.chosen:
            continue
        policy = sweep.policies[state.identifier]
        verdicts = findings.verdicts.get(number, {})
        count, example = findings.missing.get(number, (0, ""))
        seen = last.get(state.identifier)
        sight = Sight(
            has_snapshot=state.current_snapshot_id is not None,
            listed=_sum(verdicts),
            live=twins.get(state.uuid, Tally()),
            orphans=verdicts.get(Verdict.ORPHAN, Tally()),
            missing=count,
            missing_example=example,
            from_inventory=any(_covers(prefix, state.location) for prefix in inventory),
            last_live_files=seen.live_files if seen and seen.uuid == state.uuid else None,
            max_share=policy.max_orphan_share,
            max_orphans=policy.max_orphans,
        )
        found = list(brakes(sight))
        pulled = [refusal(brake, message) for brake, message in found]
        reasons = [*refusals.get(state.identifier, []), *pulled]
        reason = reasons[0] if reasons else None
        shown = reason is None or reason in pulled
        if reason in pulled:
            for brake, _ in found:
                stopped.setdefault(str(brake), []).append(state.identifier)
        orphans = verdicts.get(Verdict.ORPHAN, Tally())
        tables.append(
            TablePlan(
                identifier=state.identifier,
                uuid=state.uuid,
                format=state.format,
                metadata_location=state.metadata_location,
                refs=state.refs,
                refusal=reason,
                verdicts={v: verdicts.get(v, Tally()) for v in Verdict} if shown else {},
                kinds={k: findings.kinds.get(number, {})[k] for k in Kind if k in findings.kinds.get(number, {})}
                if shown
                else {},
                changes={"files": orphans.files} if reason is None else {},
                policy=policy.as_values(),
            )
        )
    return tuple(tables), {brake: tuple(names) for brake, names in stopped.items()}


def refusals_of(fleet: Fleet, findings: Findings, last: Mapping[str, Reach]) -> dict[str, list[Refusal]]:
    """Why each table is left alone, if it is: what was known before, damage, what is wrong with its roots."""
    refused_roots = {root.id: root.refusal for root in fleet.roots if root.refusal}
    refused_roots |= {k: v for k, v in findings.root_refusals.items() if k not in refused_roots}
    refused_roots |= _roots_of_damaged(fleet, findings, refused_roots, last)
    found: dict[str, list[Refusal]] = {}
    for number, state in enumerate(fleet.states):
        damage = findings.table_refusals.get(number)
        found[state.identifier] = [why for why in (state.refusal, damage) if why is not None]
    for root in fleet.roots:
        if root.id in refused_roots:
            for name in root.tables:
                found[name].append(refused_roots[root.id])
    return found


def damaged_since(fleet: Fleet, findings: Findings, last: Mapping[str, Reach]) -> str | None:
    """A table that was read whole once, has changed since, and is damaged now: it may have taken in any released file.

    None if there is none. Of one that stands where it stood, all roots are known, and those are refused. One that nobody
    ever read whole, or that is of a kind we do not read, is no news: beside it the others go on.
    """
    for number, state in enumerate(fleet.states):
        why = findings.table_refusals.get(number) or (state.refusal if not state.files else None)
        seen = last.get(state.identifier)
        if why is None or seen is None or why.code not in DAMAGE or seen.metadata_location == state.metadata_location:
            continue
        return (
            f"{state.identifier} changed since it was last read whole and cannot be read now ({why.code}: {why.message}); "
            "it may need any of these: repair it, or drop it from its catalog"
        )
    return None


def live_by_uuid(fleet: Fleet, findings: Findings) -> dict[str, Tally]:
    """Live files by table. One that two catalogs know under two names is counted under only one of them."""
    found: dict[str, Tally] = {}
    for number, state in enumerate(fleet.states):
        live = findings.verdicts.get(number, {}).get(Verdict.LIVE, Tally())
        found[state.uuid] = found.get(state.uuid, Tally()) + live
    return found


def _roots_of_damaged(
    fleet: Fleet, findings: Findings, known: Mapping[int, Refusal], last: Mapping[str, Reach]
) -> dict[int, Refusal]:
    """A table whose manifests are damaged makes every root it touches unknown, for the other tables there too."""
    outside = findings.outside(fleet)
    found: dict[int, Refusal] = {}
    for number, why in findings.table_refusals.items():
        name = fleet.states[number].identifier
        elsewhere = {*outside.get(name, ()), *(last[name].outside_roots if name in last else ())}
        for root in fleet.roots:
            if root.id not in known and (name in root.tables or root.prefix in elsewhere):
                message = f"{name} touches {root.prefix} and was refused ({why.code}: {why.message})"
                found[root.id] = Refusal("LW-ROOT-001", message, why.hint)
    return found


def _sum(tallies: Tallies) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total += tally
    return total


def _covers(prefix: str, location: str) -> bool:
    return FileUri.parse(location).as_prefix().startswith(FileUri.parse(prefix).as_prefix())
