"""Policies for tests: what the settings say by default, but for what a test changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakewarden.jobs.manifest_rewrite.settings import ManifestRewrite
from lakewarden.jobs.orphan_cleanup.settings import OrphanCleanup
from lakewarden.jobs.partition_expiry.settings import PartitionExpiry
from lakewarden.jobs.physical_deletion.settings import PhysicalDeletion
from lakewarden.jobs.snapshot_expiry.settings import SnapshotExpiry
from lakewarden.jobs.tier_handoff.settings import TierHandoff
from lakewarden.model.manifests import ManifestPolicy
from lakewarden.model.policy import DeletionPolicy, ExpiryPolicy, OrphanPolicy, PartitionPolicy
from lakewarden.model.tiers import HandoffPolicy


def orphan_policy(**changes: Any) -> OrphanPolicy:
    return replace(OrphanPolicy.of(OrphanCleanup().model_dump()), **changes)


def expiry_policy(**changes: Any) -> ExpiryPolicy:
    return replace(ExpiryPolicy.of(SnapshotExpiry().model_dump()), **changes)


def deletion_policy(**changes: Any) -> DeletionPolicy:
    return replace(DeletionPolicy.of(PhysicalDeletion().model_dump()), **changes)


def partition_policy(**changes: Any) -> PartitionPolicy:
    return replace(PartitionPolicy.of(PartitionExpiry().model_dump()), **changes)


def handoff_policy(**changes: Any) -> HandoffPolicy:
    return replace(HandoffPolicy.of(TierHandoff().model_dump()), **changes)


def manifest_policy(**changes: Any) -> ManifestPolicy:
    return replace(ManifestPolicy.of(ManifestRewrite().model_dump()), **changes)
