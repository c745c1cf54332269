"""Bring a snapshot back from the cold tier: as a new table of its own, which can be read and written like any other."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from lakewarden.jobs.tier_handoff.copy import PHASES, Mover, known_sizes
from lakewarden.ledger.cold import ColdSnapshot
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.run_status import run_lease
from lakewarden.model.actor import Actor
from lakewarden.model.errors import LakewardenError, NotFoundError, RestoreError, UnreadableMetadataError, UsageError
from lakewarden.model.margins import MARGINS
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import RESTORED, RunResult, RunStatus
from lakewarden.model.table import catalog_of, parts_of
from lakewarden.model.tiers import Move, MovedTable, Relocator
from lakewarden.model.uri import FileUri, canonical
from lakewarden.model.verdict import Kind
from lakewarden.steps.apply.bandwidth import Bandwidth
from lakewarden.steps.apply.ending import run_to_its_end
from lakewarden.steps.apply.guard import check_frozen
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.copying import Copied, holds

CONCURRENCY = 10
BATCH = 500
MANIFESTS_AT_ONCE = 64
_OPEN_COLD = "Bring the file back from a backup or an older object version, or restore another snapshot."


def restore_cold(deployment: Deployment, snapshot: str, identifier: str, actor: Actor, progress: Progress) -> RunResult:
    """Copy a cold snapshot's files to a new table's place and register the table. Nothing that exists is changed."""
    found = _find(deployment, snapshot)
    relocator = _relocator(deployment, identifier)
    check_frozen(deployment, "nothing was restored")
    run_id = deployment.new_id()
    with (
        deployment.leases.acquire(f"restore/{identifier}", MARGINS.lease_seconds) as lease,
        deployment.leases.acquire(run_lease(run_id), MARGINS.lease_seconds) as own,
    ):
        # A place that no other table ever had: what a dropped table of this name left behind is not ours.
        new_uuid = str(uuid.UUID(hex=deployment.new_id() + deployment.new_id(), version=4))
        target = f"{relocator.new_location(identifier).rstrip('/')}-{new_uuid[:8]}/"
        deployment.ledger.runs.start(run_id, Job.TIER_HANDOFF, None, actor)
        move = Move(_prefix(found.destination), target, whole=True)
        work = partial(ColdRestore, deployment, relocator, found, move, run_id, identifier, new_uuid, lease, progress)
        # Nobody can go on with a run without a plan; the same command begins anew, at another place.
        return run_to_its_end(deployment, run_id, own, work, resumable=False)


@dataclass
class ColdRestore:
    """One snapshot on its way back from the cold place."""

    deployment: Deployment
    relocator: Relocator
    found: ColdSnapshot
    move: Move
    run_id: str
    identifier: str
    new_uuid: str
    lease: Lease
    progress: Progress
    sizes: dict[str, int] = field(default_factory=dict)

    def do(self) -> None:
        """Copy everything, write the metadata, register the table."""
        source, target = self.found.destination, self.move.target
        detail = {"snapshot": self.found.snapshot_id, "from": source, "to": target, "table": self.identifier}
        self.deployment.ledger.runs.step(self.run_id, "restoring", detail)
        there = self.deployment.stores.entries(target)
        if there.files or there.directories:
            raise RestoreError(f"{target} is not empty; nothing was restored", hint="Run the command again.")
        metadata = self._copy(self.new_uuid)
        self.lease.check()
        self.relocator.register(self.identifier, metadata)
        counted = {**detail, "metadata": metadata, "files": len(self.sizes)}
        self.deployment.ledger.runs.step(self.run_id, "restored", counted)

    def result(self, error: LakewardenError | None = None) -> RunResult:
        """A table is registered or it is not: there is no part of one."""
        if error is not None:
            return RunResult(self.run_id, "", Job.TIER_HANDOFF, RunStatus.FAILED, changed={RESTORED: 0})
        changed = {RESTORED: len(self.sizes)}
        return RunResult(self.run_id, "", Job.TIER_HANDOFF, RunStatus.DONE, changed=changed)

    def _copy(self, new_uuid: str) -> str:
        """Copy everything and write the metadata; returns its address."""
        number, source = self.found.snapshot_id, self.found.metadata_uri
        document = self._get(source)
        _, (aged,) = self.relocator.aged(document, source, [number])
        files = self._files(aged.manifest_list.uri)
        files[Kind.STATISTICS] = [uri for uri in aged.statistics if self.deployment.stores.head(uri) is not None]
        mover = Mover(
            self.deployment, self.relocator, self.move, known_sizes(self.sizes), Bandwidth(None, self.deployment.clock)
        )
        total = sum(len(uris) for uris in files.values())
        digests = self._digests(uri for uris in files.values() for uri in uris)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            for phase in PHASES:
                work = [(uri, kind) for kind in phase for uri in files.get(kind, ())]
                for start in range(0, len(work), BATCH):
                    check_frozen(self.deployment, "the table was not registered")
                    some = work[start : start + BATCH]
                    copies = pool.map(lambda item: self._copied(mover, item[0], item[1], digests), some)
                    self.sizes |= {canonical(uri): copy.size for (uri, _), copy in zip(some, copies, strict=True)}
                    self.progress("copy back", len(self.sizes), total)
        table = MovedTable(
            uuid=new_uuid,
            snapshots=(number,),
            move=self.move,
            statistics=frozenset(canonical(uri) for uri in files[Kind.STATISTICS]),
            read_only=False,
        )
        written = f"{self.move.target}metadata/00000-{new_uuid}.metadata.json"
        if not self.deployment.stores.create(written, self.relocator.document([document], None, table)):
            raise RestoreError(f"{written} is there already; nothing was registered", hint="Run the command again.")
        return written

    def _digests(self, uris: Iterable[str]) -> dict[str, str]:
        """What the ledger says of these cold files' bytes, by address. Raises RestoreError for one that it does not know."""
        wanted = {canonical(uri) for uri in uris}
        pages = self.deployment.ledger.cold.of(self.found.uuid)
        found = {file.cold_uri: file.sha256 for page in pages for file in page if file.cold_uri in wanted}
        if unknown := sorted(wanted - found.keys()):
            raise RestoreError(f"{unknown[0]} is not a recorded cold copy; nothing was registered", hint=_OPEN_COLD)
        return found

    def _copied(self, mover: Mover, uri: str, kind: str, digests: Mapping[str, str]) -> Copied:
        """One file, copied back. Raises RestoreError if the cold place holds other bytes than were brought there."""
        copied, digest = mover.file(uri, kind), digests[canonical(uri)]
        # What was written anew has a digest of its own, and stores may vouch for a copy in another way than they did.
        as_it_is = kind in (Kind.DATA, Kind.STATISTICS) and copied.sha256 == digest
        if not as_it_is and not holds(self.deployment.stores, uri, digest):
            raise RestoreError(f"{uri} has other bytes than were handed over; nothing was registered", hint=_OPEN_COLD)
        return copied

    def _files(self, manifest_list: str) -> dict[str, list[str]]:
        """Everything that one snapshot needs, by kind, each file once."""
        manifests = [uri for uri, _ in self.relocator.files_of(self._get(manifest_list), manifest_list)]
        found: dict[str, dict[str, None]] = {Kind.MANIFEST_LIST: {manifest_list: None}, Kind.MANIFEST: {}}
        for start in range(0, len(manifests), MANIFESTS_AT_ONCE):
            some = manifests[start : start + MANIFESTS_AT_ONCE]
            for manifest, data in zip(some, self.deployment.stores.get_many(some), strict=True):
                found[Kind.MANIFEST][manifest] = None
                for uri, kind in self.relocator.files_of(_there(data, manifest), manifest):
                    found.setdefault(kind, {})[uri] = None
        return {kind: list(uris) for kind, uris in found.items()}

    def _get(self, uri: str) -> bytes:
        return _there(self.deployment.stores.get_many([uri])[0], uri)


def _there(found: bytes | Exception, uri: str) -> bytes:
    """The bytes of a cold file. Raises LakewardenError."""
    if isinstance(found, bytes):
        return found
    if isinstance(found, FileNotFoundError):
        raise UnreadableMetadataError(f"{uri} is gone from the cold place; nothing was restored") from found
    raise found


def _find(deployment: Deployment, text: str) -> ColdSnapshot:
    """The cold snapshot that a user means: an id, or TABLE@ID where several tables have it."""
    name, _, number = text.rpartition("@")
    if not number.lstrip("-").isdigit():
        raise UsageError(f"{text!r} is not a snapshot id; nothing was restored")
    found = [s for s in deployment.ledger.cold.find(int(number)) if name in ("", s.table_name, s.uuid)]
    if not found:
        raise NotFoundError(
            f"the cold tier holds no snapshot {text}; nothing was restored",
            hint="`lakewarden runs RUN` of a tier-handoff run shows what it handed over.",
        )
    if len({s.uuid for s in found}) > 1:
        names = ", ".join(f"{s.uuid}@{number}" for s in found)
        raise UsageError(f"several tables have a snapshot {number}; nothing was restored. Write one of: {names}")
    return found[-1]


def _relocator(deployment: Deployment, identifier: str) -> Relocator:
    parts = parts_of(identifier)
    if len(parts) < 3 or "" in parts:
        raise UsageError(f"--as {identifier} is not catalog.namespace.name; nothing was restored")
    catalog = catalog_of(identifier)
    relocators = {name: found.relocator for name, found in deployment.formats.items() if found.relocator is not None}
    if catalog not in relocators:
        known = ", ".join(sorted(relocators)) or "none"
        raise NotFoundError(
            f"{catalog} is not a configured Iceberg catalog; nothing was restored", hint=f"Iceberg catalogs: {known}."
        )
    return relocators[catalog]


def _prefix(directory: str) -> str:
    return FileUri.parse(directory).as_prefix()
