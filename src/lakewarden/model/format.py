"""A format as the worker sees it: one object for each configured catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from lakewarden.model.branches import BranchKeeper
from lakewarden.model.compaction import Compactor
from lakewarden.model.expiry import Expirer
from lakewarden.model.history import Historian
from lakewarden.model.manifests import ManifestRewriter
from lakewarden.model.partitions import PartitionExpirer
from lakewarden.model.ports import Catalog, Files, Reader
from lakewarden.model.tiers import Relocator

# Told of a table's location and the store properties that a server handed out for it.
Vend = Callable[[str, Mapping[str, str]], None]


class Format(Catalog, Protocol):
    """One configured catalog with everything that its format can do with the tables in it, over one connection.

    What a format cannot do is None, and the job that asks for it refuses the format's tables by name.
    """

    @property
    def reader(self) -> Reader: ...

    @property
    def expirer(self) -> Expirer | None: ...

    @property
    def historian(self) -> Historian | None: ...

    @property
    def partition_expirer(self) -> PartitionExpirer | None: ...

    @property
    def manifest_rewriter(self) -> ManifestRewriter | None: ...

    @property
    def compactor(self) -> Compactor | None: ...

    @property
    def branch_keeper(self) -> BranchKeeper | None: ...

    @property
    def relocator(self) -> Relocator | None: ...


class OpenFormat(Protocol):
    """`open_format` of a format's package: a catalog by its name and properties. Opens no connection yet."""

    def __call__(self, name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> Format: ...
