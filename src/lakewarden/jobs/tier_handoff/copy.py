"""One file of a table to its new place: data as it is, metadata and deletes written anew, every copy verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewarden.model.errors import IncompleteManifestError, PlanOutdatedError
from lakewarden.model.tiers import Move, Relocator, Sizes
from lakewarden.model.verdict import Kind
from lakewarden.steps.apply.bandwidth import Bandwidth
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.copying import Copied, copy_verified, write_verified

# In this order: a manifest says how large its delete files are, a list how long its manifests are.
PHASES = ((Kind.DATA, Kind.DELETE, Kind.STATISTICS), (Kind.MANIFEST,), (Kind.MANIFEST_LIST,))


@dataclass(frozen=True)
class Mover:
    """Moves files of one table. `sizes` knows the copies that were made before."""

    deployment: Deployment
    relocator: Relocator
    move: Move
    sizes: Sizes
    bandwidth: Bandwidth

    def file(self, uri: str, kind: str, size: int | None = None) -> Copied:
        """Copy one file, verified. Raises LakewardenError; a file that is gone or changed is told by name."""
        target = self.move(uri)
        try:
            if kind in (Kind.DATA, Kind.STATISTICS):
                return copy_verified(self.deployment.stores, uri, target, size, self.bandwidth.spend)
            data = self.deployment.stores.get(uri)
            if size is not None and len(data) != size:
                raise PlanOutdatedError(f"{uri} has {len(data)} bytes where {size} were planned; it was not copied")
            moved = self._moved(data, uri, kind)
            if moved is None:
                return copy_verified(self.deployment.stores, uri, target, size, self.bandwidth.spend)
            self.bandwidth.spend(len(moved))
            return write_verified(self.deployment.stores, target, moved)
        except FileNotFoundError as error:
            raise PlanOutdatedError(f"{uri} is gone; it was not copied, nor the snapshots that need it") from error

    def _moved(self, data: bytes, uri: str, kind: str) -> bytes | None:
        if kind == Kind.MANIFEST:
            return self.relocator.manifest(data, uri, self.move, self.sizes)
        if kind == Kind.MANIFEST_LIST:
            return self.relocator.manifest_list(data, uri, self.move, self.sizes)
        if kind == Kind.DELETE:
            return self.relocator.deletes(data, uri, self.move)
        raise IncompleteManifestError(f"{uri} is of the kind {kind}, which is not moved")


def known_sizes(sizes: Mapping[str, int]) -> Sizes:
    """Sizes that are held in memory."""

    def known(uris: Sequence[str]) -> Mapping[str, int]:
        return {uri: sizes[uri] for uri in uris if uri in sizes}

    return known
