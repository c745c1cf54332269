"""What a sweep brought home, in the plan's words: counts by table, refusals, brakes, parts of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakewarden.ledger.reach import Reach
from lakewarden.model.errors import (
    ROOT_REFUSALS,
    IncompleteManifestError,
    Refusal,
    UnlistableError,
    UnreadableMetadataError,
)
from lakewarden.model.plan import PartFile, Tallies, Tally, add_tallies
from lakewarden.model.roots import Root
from lakewarden.model.verdict import Verdict
from lakewarden.pipeline.compare.answer import Answer
from lakewarden.steps.observe.fleet import Fleet

DAMAGE = (UnreadableMetadataError.code, IncompleteManifestError.code)


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

    None if there is no such table. A damaged table whose metadata file is still the one at which it was last read whole
    touches the roots that were recorded then, and those roots are refused elsewhere. A table that nobody ever read whole,
    or of a kind that is not read, says nothing new: beside it the others go on.
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
    by_prefix = {root.prefix: root for root in fleet.roots}
    own: dict[str, list[Root]] = {}
    for root in fleet.roots:
        for name in root.tables:
            own.setdefault(name, []).append(root)
    found: dict[int, Refusal] = {}
    for number, why in findings.table_refusals.items():
        name = fleet.states[number].identifier
        elsewhere = {*outside.get(name, ()), *(last[name].outside_roots if name in last else ())}
        touched = [*own.get(name, ()), *(by_prefix[prefix] for prefix in sorted(elsewhere) if prefix in by_prefix)]
        for root in touched:
            if root.id not in known:
                message = f"{name} touches {root.prefix} and was refused ({why.code}: {why.message})"
                found[root.id] = Refusal("LW-ROOT-001", message, why.hint)
    return found
