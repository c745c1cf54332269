"""A cold snapshot's files on their way to another place, each proven by the digest that the ledger has of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lakewarden.jobs.tier_handoff.copy import PHASES, Mover, known_sizes
from lakewarden.ledger.cold import ColdFile, ColdSnapshot
from lakewarden.model.errors import RestoreError, UnreadableMetadataError
from lakewarden.model.ports import Progress
from lakewarden.model.tiers import Move, MovedTable, Relocator
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind
from lakewarden.steps.apply.bandwidth import Bandwidth
from lakewarden.steps.apply.guard import check_frozen
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.copying import Copied, holds

CONCURRENCY = 10
BATCH = 500
MANIFESTS_AT_ONCE = 64
OPEN_COLD = "Bring the file back from a backup or an older object version, or restore another snapshot."


@dataclass
class CopyBack:
    """One snapshot that is copied from the cold place. `sizes` are the files that were, by their cold address."""

    deployment: Deployment
    relocator: Relocator
    found: ColdSnapshot
    move: Move
    progress: Progress
    sizes: dict[str, int] = field(default_factory=dict)

    def copy(self, new_uuid: str) -> str:
        """Copy everything and write the metadata; returns its address."""
        number, source = self.found.snapshot_id, self.found.metadata_uri
        document = self.get(source)
        files = self.needed(document, source)
        mover = self._mover()
        total = sum(len(uris) for uris in files.values())
        recorded = self.recorded(uri for uris in files.values() for uri in uris)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            for phase in PHASES:
                work = [(uri, kind) for kind in phase for uri in files.get(kind, ())]
                for start in range(0, len(work), BATCH):
                    check_frozen(self.deployment, "the table was not registered")
                    some = work[start : start + BATCH]
                    copies = pool.map(lambda item: self._copied(mover, item[0], item[1], recorded), some)
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

    def copy_one(self, file: ColdFile, kind: str) -> None:
        """Copy one file alone, proven. Raises RestoreError if the cold place holds other bytes than were brought there."""
        uri = file.cold_uri
        self.sizes[uri] = self._copied(self._mover(), uri, kind, {uri: file}).size

    def needed(self, document: bytes, uri: str) -> dict[str, list[str]]:
        """Everything that the snapshot needs by a metadata document, by kind, each file once. Raises LakewardenError."""
        _, (aged,) = self.relocator.aged(document, uri, [self.found.snapshot_id])
        files = self._files(aged.manifest_list.uri)
        files[Kind.STATISTICS] = [uri for uri in aged.statistics if self.deployment.stores.head(uri) is not None]
        return files

    def _mover(self) -> Mover:
        bandwidth = Bandwidth(None, self.deployment.clock)
        return Mover(self.deployment, self.relocator, self.move, known_sizes(self.sizes), bandwidth)

    def recorded(self, uris: Iterable[str]) -> dict[str, ColdFile]:
        """What the ledger has of these cold files, by address. Raises RestoreError for one that it does not know."""
        wanted = {canonical(uri) for uri in uris}
        pages = self.deployment.ledger.cold.of(self.found.uuid)
        found = {file.cold_uri: file for page in pages for file in page if file.cold_uri in wanted}
        if unknown := sorted(wanted - found.keys()):
            raise RestoreError(f"{unknown[0]} is not a recorded cold copy; nothing was registered", hint=OPEN_COLD)
        return found

    def _copied(self, mover: Mover, uri: str, kind: str, recorded: Mapping[str, ColdFile]) -> Copied:
        """One file, copied back. Raises RestoreError if the cold place holds other bytes than were brought there."""
        copied, digest = mover.file(uri, kind), recorded[canonical(uri)].sha256
        # What was written anew has a digest of its own, and stores may vouch for a copy in another way than they did.
        as_it_is = kind in (Kind.DATA, Kind.STATISTICS) and copied.sha256 == digest
        if not as_it_is and not holds(self.deployment.stores, uri, digest):
            raise RestoreError(f"{uri} has other bytes than were handed over; nothing was registered", hint=OPEN_COLD)
        return copied

    def _files(self, manifest_list: str) -> dict[str, list[str]]:
        """Everything that one snapshot needs, by kind, each file once."""
        manifests = [uri for uri, _ in self.relocator.files_of(self.get(manifest_list), manifest_list)]
        found: dict[str, dict[str, None]] = {Kind.MANIFEST_LIST: {manifest_list: None}, Kind.MANIFEST: {}}
        for start in range(0, len(manifests), MANIFESTS_AT_ONCE):
            some = manifests[start : start + MANIFESTS_AT_ONCE]
            for manifest, data in zip(some, self.deployment.stores.get_many(some), strict=True):
                found[Kind.MANIFEST][manifest] = None
                for uri, kind in self.relocator.files_of(there(data, manifest), manifest):
                    found.setdefault(kind, {})[uri] = None
        return {kind: list(uris) for kind, uris in found.items()}

    def get(self, uri: str) -> bytes:
        return there(self.deployment.stores.get_many([uri])[0], uri)


def there(found: bytes | Exception, uri: str) -> bytes:
    """The bytes of a cold file. Raises LakewardenError."""
    if isinstance(found, bytes):
        return found
    if isinstance(found, FileNotFoundError):
        raise UnreadableMetadataError(f"{uri} is gone from the cold place; nothing was restored") from found
    raise found
