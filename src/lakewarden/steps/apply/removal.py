"""One batch of files removed, or put into the trash and then removed; and what a crashed process left of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.model.files import BatchFiles
from lakewarden.model.ports import FileOutcome
from lakewarden.model.verdict import Outcome
from lakewarden.steps.apply.trash import trash_of
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.delete import delete, grant
from lakewarden.storage.quarantine import copy_to_trash, digest_in_trash
from lakewarden.storage.store import Store

_DIGEST = "digest of its copy "


@dataclass(frozen=True)
class Removal:
    """How the files of one run go. Where they are `quarantined`, no file goes before its copy is in the trash."""

    deployment: Deployment
    plan_id: str
    run_id: str
    concurrency: int
    quarantined: bool
    hiding: dict[Store, bool] = field(default_factory=dict)
    digests: dict[str, str | None] = field(default_factory=dict)

    @property
    def step(self) -> str:
        """What is told while it goes on."""
        return "quarantine" if self.quarantined else "delete"

    def copies(self, files: BatchFiles, left_out: Mapping[str, FileOutcome]) -> dict[str, FileOutcome]:
        """Copies in the trash, each with how it went; of directories and of what is left out there are none."""
        if not self.quarantined:
            return {}
        copied = [file for file in files if not file.uri.endswith("/") and file.uri not in left_out]
        trash = trash_of(self.deployment)
        made = copy_to_trash(self.deployment.stores, trash, self.run_id, copied, concurrency=self.concurrency)
        self.digests.update((copy.uri, copy.message) for copy in made if copy.outcome == Outcome.KEPT)
        return {copy.uri: copy for copy in made}

    def take(
        self, files: BatchFiles, roots: Sequence[str], validated_at: float, check_lease: Callable[[], None]
    ) -> Sequence[FileOutcome]:
        """Through the one door, now. Of a quarantined file the answer says so."""
        if not files:
            return ()
        permit = grant(
            plan_id=self.plan_id,
            run_id=self.run_id,
            roots=roots,
            uris=files.uris,
            validated_at=validated_at,
            check_lease=check_lease,
        )
        gone = delete(permit, self.deployment.stores, files, self.deployment.clock, concurrency=self.concurrency)
        return [self._quarantined(outcome) for outcome in gone] if self.quarantined else gone

    def look(self, uri: str) -> FileOutcome:
        """Whether a file is there: kept, or absent."""
        there = self.deployment.stores.head(uri) is not None
        return FileOutcome(uri, Outcome.KEPT if there else Outcome.ABSENT)

    def after_crash(self, outcome: FileOutcome) -> FileOutcome:
        """A file that the crashed process announced and that is gone went by its hand, not by a stranger's."""
        if outcome.outcome != Outcome.ABSENT:
            return outcome
        message = "gone when the run was resumed"
        if not self.quarantined:
            gone = Outcome.HIDDEN if self._hides(outcome.uri) else Outcome.DELETED
            return FileOutcome(outcome.uri, gone, None, message)
        # The crashed process did not get to write down what it copied: from now on it is known.
        digest = digest_in_trash(self.deployment.stores, trash_of(self.deployment), self.run_id, outcome.uri)
        if digest is None:
            return outcome
        self.digests[outcome.uri] = digest
        return FileOutcome(outcome.uri, Outcome.QUARANTINED, None, _DIGEST + digest)

    def _hides(self, uri: str) -> bool:
        """Whether deletes only hide there: asked once a bucket, for a crashed batch may hold thousands of its files."""
        store = self.deployment.stores.at(uri)
        if store not in self.hiding:
            self.hiding[store] = store.versioned()
        return self.hiding[store]

    def _quarantined(self, outcome: FileOutcome) -> FileOutcome:
        """Where the file is, and what its copy's bytes are: a copy that somebody changes must not be restored."""
        if outcome.outcome not in (Outcome.DELETED, Outcome.HIDDEN):
            return outcome
        digest = self.digests.get(outcome.uri)
        return FileOutcome(outcome.uri, Outcome.QUARANTINED, None, _DIGEST + digest if digest else None)


def digest_of(outcome: FileOutcome) -> str | None:
    """The digest of a quarantined file's copy, as the journal has it; None if nobody took it."""
    message = outcome.message or ""
    return message.removeprefix(_DIGEST) if message.startswith(_DIGEST) else None
