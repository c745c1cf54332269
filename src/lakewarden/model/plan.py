"""A plan: a document that says what would be changed, kept, shown, approved and applied once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import PlanEditedError, Refusal
from lakewarden.model.policy import Job
from lakewarden.model.table import Ref
from lakewarden.model.verdict import Verdict

PLAN_FILE = "plan.json"
FILES_DIR = "files"
LEFT_OUT = Refusal("", "the run leaves this table as it is", "")
CHANGING: Mapping[str, Verdict] = {Job.ORPHAN_CLEANUP: Verdict.ORPHAN}


@dataclass(frozen=True, slots=True)
class Tally:
    """How many files, how many bytes."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.files + other.files, self.bytes + other.bytes)


Tallies = Mapping[str, Tally]


def add_tallies(*parts: Tallies) -> dict[str, Tally]:
    """Sum by name, names in first-seen order."""
    total: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.items():
            total[name] = total.get(name, Tally()) + tally
    return total


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table's part of a plan. `detail` is the job's own: what it decided of things that are no files.

    A table that only a brake refused may say in `changes` and `detail` what would be changed if the brake were lifted.
    """

    identifier: str
    uuid: str
    format: str
    metadata_location: str
    refs: tuple[Ref, ...] = ()
    refusal: Refusal | None = None
    verdicts: Tallies = field(default_factory=dict)
    kinds: Tallies = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return "refused" if self.refusal else "planned"


@dataclass(frozen=True, slots=True)
class PlannedRoot:
    """A swept root as it was when planned: its lease key, and every table that touched it.

    `home` prefixes the names of files that are compared by name, where the tables' format knows them so.
    """

    prefix: str
    tables: tuple[str, ...]
    refusal: Refusal | None = None
    home: str | None = None


@dataclass(frozen=True, slots=True)
class PartFile:
    """One Parquet file beside the header, with its digest."""

    name: str
    sha256: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The header, `plan.json`. Its id is the hash of everything else in it.

    `pointers` are the metadata of every table; `digests` those of the bytes, where other metadata may come under the same
    name. `notes` say what the plan could not know. `detail` is the job's own, of all tables together.
    """

    job: str
    created_at: datetime
    expires_at: datetime
    cutoff: datetime
    actor: Actor
    tables: tuple[TablePlan, ...]
    roots: tuple[PlannedRoot, ...]
    parts: tuple[PartFile, ...]
    pointers: Mapping[str, str] = field(default_factory=dict)
    brakes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    plan_id: str = ""

    @property
    def changing(self) -> Verdict:
        """The verdict of the files that this plan would remove or release."""
        return CHANGING.get(self.job, Verdict.PENDING)

    @property
    def braked(self) -> frozenset[str]:
        """The tables that nothing but brakes stops: a person can lift them, by name."""
        return frozenset(name for names in self.brakes.values() for name in names)

    def allowed(self, lifted: Collection[str] = ()) -> frozenset[str]:
        """Tables that may be changed: planned ones, and those that only brakes refused, each of them lifted by name."""
        held = {name for brake, names in self.brakes.items() if brake not in lifted for name in names}
        return frozenset(t.identifier for t in self.tables if t.refusal is None or t.identifier in self.braked - held)

    def leaving(self, names: Collection[str]) -> Plan:
        """The plan as a run sees it that leaves these tables as they are. They stay in it: what it knew of them counts."""
        if not names:
            return self
        return replace(
            self,
            tables=tuple(
                replace(table, refusal=table.refusal or LEFT_OUT, changes={}) if table.identifier in names else table
                for table in self.tables
            ),
            brakes={
                brake: tuple(name for name in stopped if name not in names) for brake, stopped in self.brakes.items()
            },
        )

    def totals(self) -> dict[str, Any]:
        """The sums over planned tables, in the shape of one table's."""
        planned = [t for t in self.tables if t.refusal is None]
        changes: dict[str, int] = {}
        for table in planned:
            for kind, count in table.changes.items():
                changes[kind] = changes.get(kind, 0) + count
        return {
            "verdicts": _tallies_json(add_tallies(*(t.verdicts for t in planned))),
            "kinds": _tallies_json(add_tallies(*(t.kinds for t in planned))),
            "changes": changes,
        }

    def sealed(self) -> Plan:
        """This plan with its id."""
        body = self.as_json()
        del body["plan_id"]
        return replace(self, plan_id=hashlib.sha256(_dumps(body).encode()).hexdigest()[:32])

    def as_json(self) -> dict[str, Any]:
        """The document, as `plan.json` holds it and as `--output json` prints it (plus `path`)."""
        return {
            "plan_id": self.plan_id,
            "job": self.job,
            "created_at": self.created_at.isoformat(),
            "expires_at": self.expires_at.isoformat(),
            "cutoff": self.cutoff.isoformat(),
            "actor": asdict(self.actor),
            "tables": [_table_json(table) for table in self.tables],
            "totals": self.totals(),
            "roots": [
                {"prefix": r.prefix, "tables": list(r.tables), "refusal": _refusal_json(r.refusal), "home": r.home}
                for r in self.roots
            ],
            "parts": [asdict(part) for part in self.parts],
            "pointers": dict(self.pointers),
            "brakes": {name: list(tables) for name, tables in self.brakes.items()},
            "notes": list(self.notes),
            "digests": dict(self.digests),
            # Most jobs have none, and what is not there changes no plan's id.
            **({"detail": dict(self.detail)} if self.detail else {}),
        }

    def dumps(self) -> bytes:
        """`plan.json`: a line for each of its tables, roots and files."""
        members = (f"{json.dumps(name)}: {_on_lines(value)}" for name, value in sorted(self.as_json().items()))
        return "{{\n{}\n}}\n".format(",\n".join(members)).encode()

    @staticmethod
    def loads(data: bytes) -> Plan:
        """Read a header and check its id, so that an edited plan is never obeyed."""
        try:
            document = json.loads(data)
            plan = _plan_of(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PlanEditedError(f"{PLAN_FILE} is not a plan header; nothing was done") from error
        if plan.sealed().plan_id != document.get("plan_id"):
            raise PlanEditedError(f"plan {document.get('plan_id')} was edited after it was made; nothing was done")
        return plan


def sealed_parts(data: bytes) -> tuple[PartFile, ...]:
    """The files of a header, its id checked as by `Plan.loads`, which also makes a value of every table in it."""
    try:
        document = json.loads(data)
        told = document.pop("plan_id")
        parts = tuple(PartFile(**part) for part in document["parts"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanEditedError(f"{PLAN_FILE} is not a plan header; nothing was done") from error
    if hashlib.sha256(_dumps(document).encode()).hexdigest()[:32] != told:
        raise PlanEditedError(f"plan {told} was edited after it was made; nothing was done")
    return parts


def _dumps(document: Any) -> str:
    return json.dumps(document, sort_keys=True, ensure_ascii=False)


def _on_lines(value: Any) -> str:
    # Not json's own indentation, which is written in Python: seconds where a fleet has many snapshots.
    return "[\n{}\n]".format(",\n".join(map(_dumps, value))) if isinstance(value, list) and value else _dumps(value)


def _tallies_json(tallies: Tallies) -> dict[str, dict[str, int]]:
    return {name: {"files": tally.files, "bytes": tally.bytes} for name, tally in tallies.items()}


def _refusal_json(refusal: Refusal | None) -> dict[str, str] | None:
    return asdict(refusal) if refusal else None


def _table_json(table: TablePlan) -> dict[str, Any]:
    return {
        "identifier": table.identifier,
        "uuid": table.uuid,
        "format": table.format,
        "metadata_location": table.metadata_location,
        "refs": [{"name": ref.name, "snapshot_id": ref.snapshot_id, "kind": ref.kind} for ref in table.refs],
        "status": table.status,
        "refusal": _refusal_json(table.refusal),
        "verdicts": _tallies_json(table.verdicts),
        "kinds": _tallies_json(table.kinds),
        "changes": dict(table.changes),
        "policy": dict(table.policy),
        "detail": dict(table.detail),
    }


def _refusal_of(document: Mapping[str, str] | None) -> Refusal | None:
    return Refusal(**document) if document else None


def _tallies_of(document: Mapping[str, Mapping[str, int]]) -> dict[str, Tally]:
    return {name: Tally(**tally) for name, tally in document.items()}


def _table_of(document: Mapping[str, Any]) -> TablePlan:
    return TablePlan(
        identifier=document["identifier"],
        uuid=document["uuid"],
        format=document["format"],
        metadata_location=document["metadata_location"],
        refs=tuple(Ref(**ref) for ref in document["refs"]),
        refusal=_refusal_of(document["refusal"]),
        verdicts=_tallies_of(document["verdicts"]),
        kinds=_tallies_of(document["kinds"]),
        changes=dict(document["changes"]),
        policy=dict(document["policy"]),
        detail=dict(document["detail"]),
    )


def _plan_of(document: Mapping[str, Any]) -> Plan:
    actor = document["actor"]
    return Plan(
        job=document["job"],
        created_at=datetime.fromisoformat(document["created_at"]),
        expires_at=datetime.fromisoformat(document["expires_at"]),
        cutoff=datetime.fromisoformat(document["cutoff"]),
        actor=Actor(actor["operator"], actor["worker"], Trigger(actor["trigger"]), actor["ticket"]),
        tables=tuple(_table_of(table) for table in document["tables"]),
        roots=tuple(
            PlannedRoot(r["prefix"], tuple(r["tables"]), _refusal_of(r["refusal"]), r["home"])
            for r in document["roots"]
        ),
        parts=tuple(PartFile(**part) for part in document["parts"]),
        pointers=dict(document["pointers"]),
        brakes={name: tuple(tables) for name, tables in document["brakes"].items()},
        notes=tuple(document["notes"]),
        digests=dict(document["digests"]),
        detail=dict(document.get("detail") or {}),
        plan_id=document["plan_id"],
    )
