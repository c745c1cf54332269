"""What a sweep brought home, in the plan's words: counts by table, refusals, brakes, parts of the plan."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from lakewarden.model.doubt import UNREAD, Doubt, doubted_roots
from lakewarden.model.errors import ROOT_REFUSALS, Refusal, UnknownAddressError, UnlistableError
from lakewarden.model.plan import PartFile, Tallies, Tally, add_tallies
from lakewarden.model.table import catalog_of
from lakewarden.model.verdict import Verdict
from lakewarden.pipeline.compare.answer import Answer
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.steps.observe.memory import Reached


@dataclass(frozen=True)
class Findings:
    """What a comparison found, in the plan's words: facts by table number and by root number.

    `kinds` counts the files with the verdict that changes something. `needed` says how many files each table needs.
    """

    verdicts: Mapping[int, Tallies] = field(default_factory=dict)
    kinds: Mapping[int, Tallies] = field(default_factory=dict)
    missing: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    table_refusals: Mapping[int, Refusal] = field(default_factory=dict)
    root_refusals: Mapping[int, Refusal] = field(default_factory=dict)
    unknown_metadata: frozenset[int] = frozenset()
    writer_files: frozenset[int] = frozenset()
    touches: frozenset[tuple[int, int]] = frozenset()
    wholly_known: frozenset[int] = frozenset()
    needed: Mapping[int, int] = field(default_factory=dict)
    parts: tuple[PartFile, ...] = ()

    @staticmethod
    def of(answer: Answer, changing: Verdict) -> Findings:
        verdicts: dict[int, dict[str, Tally]] = {}
        kinds: dict[int, dict[str, Tally]] = {}
        for (number, verdict, kind), tally in answer.counts.items():
            mine = verdicts.setdefault(number, {})
            mine[verdict] = mine.get(verdict, Tally()) + tally
            if verdict == changing:
                kinds.setdefault(number, {})[kind] = tally
        return Findings(
            verdicts=verdicts,
            kinds=kinds,
            missing=answer.missing,
            table_refusals=answer.refusals,
            root_refusals={root: _root_refusal(*sign) for root, sign in answer.signs.items()},
            unknown_metadata=answer.unknown_metadata,
            writer_files=answer.writer_files,
            touches=answer.touches,
            wholly_known=answer.whole - answer.refusals.keys(),
            needed=answer.needed,
            parts=answer.parts,
        )

    def after(self, again: Findings) -> Findings:
        """These findings with the rows that were not live judged again: only the live counts of the first look stay."""
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
            needed=self.needed,
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


def _root_refusal(sign: str, example: str) -> Refusal:
    if sign == "unlistable":
        return UnlistableError(f"the listing is not complete ({example}); nothing under this root is touched").refusal()
    if sign == "symlink":
        hint = "Remove the link, or move its target into the table with an engine."
        return Refusal("LW-ROOT-005", f"{ROOT_REFUSALS['LW-ROOT-005']}: {example}; nothing under it is touched", hint)
    name = sign.capitalize()
    return Refusal(
        "LW-ROOT-004",
        f"{ROOT_REFUSALS['LW-ROOT-004']} ({name}: {example}); nothing is touched",
        f"Move the {name} table out of this directory, or this table out of it.",
    )


def refusals_of(fleet: Fleet, findings: Findings) -> dict[str, list[Refusal]]:
    """Why each table is left alone, if it is: what was known before, damage, what is wrong with its roots."""
    refused_roots = {root.id: root.refusal for root in fleet.roots if root.refusal}
    refused_roots |= {k: v for k, v in findings.root_refusals.items() if k not in refused_roots}
    refused_roots |= {k: v for k, v in _roots_of_damaged(fleet, findings).items() if k not in refused_roots}
    found: dict[str, list[Refusal]] = {}
    for number, state in enumerate(fleet.states):
        damage = findings.table_refusals.get(number)
        found[state.identifier] = [why for why in (state.refusal, damage) if why is not None]
    for root in fleet.roots:
        if root.id in refused_roots:
            for name in root.tables:
                found[name].append(refused_roots[root.id])
    return found


def damaged_since(fleet: Fleet, findings: Findings) -> str | None:
    """A table that could be read once, has changed since, and cannot be read now: it may have taken in any file.

    None if there is no such table. A damaged table whose metadata file is still the one at which it was last read whole
    touches the roots that were recorded then, and those roots are refused elsewhere; so are the roots of a table whose
    files are known by name, which lie there. A table that could not be read in the deployment's first plan, or whose past
    an operator forgot, says nothing new while it stays as it is: beside it the others go on.
    """
    fresh = not fleet.memory.rows
    for doubt in fleet.doubts:
        if catalog_of(doubt.table) not in fleet.catalogs:
            return (
                f"{doubt.table} is in no configured catalog any more, so what it needs by now is not known: configure its "
                f"catalog again, or accept it with lakewarden forget {shlex.quote(doubt.table)}"
            )
    for number, state in enumerate(fleet.states):
        why = findings.table_refusals.get(number) or (None if state.is_visible else state.refusal)
        seen = fleet.memory.of(state)
        if why is not None and why.code == UnknownAddressError.code:
            return f"{state.identifier} may need any of these: {why.message}"
        if why is None or fresh or state.identifier in fleet.homes:
            continue
        if seen is None and state.identifier in fleet.forgotten:
            continue
        if seen is not None and seen.metadata_location == state.metadata_location:
            continue
        since = (
            "changed since it was last read whole" if seen and seen.seen_location else "is new or was never read whole"
        )
        return (
            f"{state.identifier} {since} and cannot be read now ({why.code}: {why.message}); it may need any of these: "
            f"repair it, drop it from its catalog, or accept it with lakewarden forget {shlex.quote(state.identifier)}"
        )
    return None


def reached_of(
    fleet: Fleet,
    findings: Findings,
    *,
    before: Mapping[str, str],
    everything: bool = False,
    live: Mapping[str, Tally] | None = None,
    read: Collection[str] | None = None,
) -> dict[str, Reached]:
    """What to remember of each table: how much it reaches, and in which roots of others.

    `before` are the pointers at which the comparison began; `everything` says that every root was listed; `live` is how
    many files tables need, where that was counted; `read` are the tables that were asked what they need, if not all were.
    """
    outside = findings.outside(fleet)
    found: dict[str, Reached] = {}
    for number, state in enumerate(fleet.states):
        name = state.identifier
        if read is not None and name not in read:
            continue
        if number in findings.table_refusals or not state.files:
            found[name] = Reached(damaged=True)
            continue
        known = everything or number in findings.wholly_known or not (state.manifest_lists or state.manifests)
        # Of a table that moved meanwhile, only the files were looked at that nothing needed before.
        whole = state.metadata_location if known and before.get(name) == state.metadata_location else None
        found[name] = Reached(outside.get(name, ()), (live or {}).get(name), whole)
    return found


def live_by_uuid(fleet: Fleet, findings: Findings) -> dict[str, Tally]:
    """Live files by table. One that two catalogs know under two names is counted under only one of them."""
    found: dict[str, Tally] = {}
    for number, state in enumerate(fleet.states):
        live = findings.verdicts.get(number, {}).get(Verdict.LIVE, Tally())
        key = state.uuid or state.identifier  # the oldest tables have no uuid
        found[key] = found.get(key, Tally()) + live
    return found


def _roots_of_damaged(fleet: Fleet, findings: Findings) -> dict[int, Refusal]:
    """A table whose manifests are damaged makes every root it ever touched unknown, for the other tables there too."""
    told = {n: f"was refused ({why.code}: {why.message})" for n, why in findings.table_refusals.items()}
    return roots_touched_by(
        fleet, findings, {n: (UNREAD, told[n], why.hint) for n, why in findings.table_refusals.items()}
    )


def roots_touched_by(
    fleet: Fleet, findings: Findings, tables: Mapping[int, tuple[str, str, str]]
) -> dict[int, Refusal]:
    """The roots, by number, that these tables touch or ever touched. Of each table: a code, what it did, and a hint."""
    if not tables:
        return {}
    outside = findings.outside(fleet)
    doubts = []
    for number, told in tables.items():
        state = fleet.states[number]
        places = (*state.roots, *outside.get(state.identifier, ()), *fleet.memory.places_of(state))
        doubts.append(Doubt(state.identifier, places, *told))
    by_prefix = {root.prefix: root.id for root in fleet.roots}
    return {by_prefix[prefix]: why for prefix, why in doubted_roots(doubts, by_prefix).items()}
