"""Bring a snapshot back from the cold tier: as a new table of its own, which can be read and written like any other."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial

from lakewarden.jobs.tier_handoff.copy_back import CopyBack
from lakewarden.ledger.cold import ColdSnapshot
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.run_status import run_lease
from lakewarden.model.actor import Actor
from lakewarden.model.errors import LakewardenError, NotFoundError, RestoreError, UsageError
from lakewarden.model.margins import MARGINS
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import RESTORED, RunResult, RunStatus
from lakewarden.model.table import catalog_of, parts_of
from lakewarden.model.tiers import Move, Relocator
from lakewarden.model.uri import FileUri
from lakewarden.steps.apply.ending import run_to_its_end
from lakewarden.steps.apply.guard import check_frozen
from lakewarden.steps.deployment import Deployment


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
        move = Move(cold_prefix(found.destination), target, whole=True)
        back = CopyBack(deployment, relocator, found, move, progress)
        work = partial(ColdRestore, deployment, relocator, back, run_id, identifier, new_uuid, lease)
        # Nobody can go on with a run without a plan; the same command begins anew, at another place.
        return run_to_its_end(deployment, run_id, own, work, resumable=False)


@dataclass
class ColdRestore:
    """One snapshot on its way back from the cold place."""

    deployment: Deployment
    relocator: Relocator
    back: CopyBack
    run_id: str
    identifier: str
    new_uuid: str
    lease: Lease

    def do(self) -> None:
        """Copy everything, write the metadata, register the table."""
        found, target = self.back.found, self.back.move.target
        detail = {"snapshot": found.snapshot_id, "from": found.destination, "to": target, "table": self.identifier}
        self.deployment.ledger.runs.step(self.run_id, "restoring", detail)
        there = self.deployment.stores.entries(target)
        if there.files or there.directories:
            raise RestoreError(f"{target} is not empty; nothing was restored", hint="Run the command again.")
        metadata = self.back.copy(self.new_uuid)
        self.lease.check()
        self.relocator.register(self.identifier, metadata)
        counted = {**detail, "metadata": metadata, "files": len(self.back.sizes)}
        self.deployment.ledger.runs.step(self.run_id, "restored", counted)

    def result(self, error: LakewardenError | None = None) -> RunResult:
        """A table is registered or it is not: there is no part of one."""
        if error is not None:
            return RunResult(self.run_id, "", Job.TIER_HANDOFF, RunStatus.FAILED, changed={RESTORED: 0})
        changed = {RESTORED: len(self.back.sizes)}
        return RunResult(self.run_id, "", Job.TIER_HANDOFF, RunStatus.DONE, changed=changed)


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
    relocators = relocators_of(deployment)
    if catalog not in relocators:
        known = ", ".join(sorted(relocators)) or "none"
        raise NotFoundError(
            f"{catalog} is not a configured Iceberg catalog; nothing was restored", hint=f"Iceberg catalogs: {known}."
        )
    return relocators[catalog]


def relocators_of(deployment: Deployment) -> dict[str, Relocator]:
    """Who moves the files of each catalog's tables, where its format can."""
    return {name: found.relocator for name, found in deployment.formats.items() if found.relocator is not None}


def cold_prefix(directory: str) -> str:
    return FileUri.parse(directory).as_prefix()
