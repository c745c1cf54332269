"""Before each batch: has any table moved, and does it now reach a file that is about to go?

The catalog's pointers are compared, all of them, because any table may add a file from anywhere. Where one
moved, every manifest *path* that the plan had not seen is read. Never by snapshot id or time: a cherry-pick,
a rollback or a re-added snapshot brings back old ones.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, takewhile

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.doubt import UNREAD, Doubt, doubted_roots
from lakewarden.model.errors import MissingStoreError
from lakewarden.model.files import BatchFiles
from lakewarden.model.plan import Plan
from lakewarden.model.ports import Catalog
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.roots import claims_of, match_key
from lakewarden.model.table import Pointer, TableState
from lakewarden.model.uri import FileUri, canonical, is_address
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.one_table import needs_of
from lakewarden.pipeline.read.manifests import ReadTask, read_lists, read_manifests
from lakewarden.pipeline.read.names import local_directories
from lakewarden.pipeline.read.notes import NOTE
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.apply.doubt import Found, doubted_now
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import load_states, own_home, pointers_of
from lakewarden.steps.observe.links import reached_by_links


@dataclass
class Revalidation:
    """What has been looked at since the plan, and every key that became needed meanwhile."""

    deployment: Deployment
    plan: Plan
    covered: dict[str, str] = field(default_factory=dict)
    seen: dict[str, set[str]] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    stopped: dict[str, str] = field(default_factory=dict)
    witnesses: dict[str, str] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)
    settled: Found | None = None

    def __post_init__(self) -> None:
        self.covered = dict(self.plan.pointers)
        self.digests = dict(self.plan.digests)
        self.roots = {root.prefix: root for root in self.plan.roots}
        self.prefixes = Prefixes(self.roots)
        self.memory = self.deployment.ledger.known_tables.memory()

    def check(self) -> float:
        """Bring `needed` and `stopped` up to now. Answers with the boot second at which the check began."""
        began = self.deployment.clock.boot()
        now = pointers_of(self.deployment.formats.values())
        if now == self.settled:
            return began
        self.witnesses = {name: pointer.witness or pointer.metadata_location for name, (_, pointer) in now.items()}
        self.places = sorted(canonical(place) for place in self.witnesses.values() if is_address(place))
        moved = [found for name, found in now.items() if self.covered.get(name) != found[1].metadata_location]
        # A name that may be used again says nothing by itself: such metadata is read at every look.
        moved += [
            now[name]
            for name in self.digests
            if name in now and self.covered.get(name) == now[name][1].metadata_location
        ]
        found = zip(moved, load_states(moved, self.plan.cutoff), strict=True)
        changed = [(one, state) for one, state in found if not self._is_as_before(state)]
        states = [state for _, state in changed]
        doubted = doubted_now(self.deployment, self.plan, self.memory, now, states)
        for prefix, why in doubted.roots.items():
            self.stopped.setdefault(prefix, why.message)
        for state in doubted.unlisted:
            self._take_in_unlisted(state)
        for (_, pointer), state in changed:
            self._take_in(now, pointer, state)
        # Where nothing moved and nothing is in doubt, the next look ends here as long as the catalogs answer the same: time
        # alone makes no table need more. What has to be read again at every look is among the moved.
        self.settled = now if not (moved or doubted.roots or doubted.unlisted) else None
        return began

    def _is_as_before(self, state: TableState) -> bool:
        """Whether a table has the very metadata that was looked at before, byte by byte."""
        same = self.covered.get(state.identifier) == state.metadata_location
        return same and state.is_visible and self.digests.get(state.identifier) == state.digest

    def keep(self, files: BatchFiles) -> BatchFiles:
        """The files that may still go: not needed since, and not under a root that was stopped."""
        if not self.needed and not self.stopped:
            return files
        uris = enumerate(files.uris)
        return files.take([n for n, uri in uris if self._prefix(uri) not in self.stopped and not self.is_needed(uri)])

    def usable(self, prefix: str) -> bool:
        """Whether a root may be worked on. One that went with its tables is stopped, and the others go on.

        Raises MissingStoreError for a root that is not there while a catalog still lists a table of it, or while the
        directory above is missing too: that is a lost bucket or mount, and every file in it would look deleted.
        """
        if self._is_there(prefix):
            return prefix not in self.stopped
        if self._listed(prefix):
            self.check()  # dropped since the last look?
        above = prefix.rstrip("/").rpartition("/")[0]
        if self._listed(prefix) or not _exists(self.deployment, f"{above}/"):
            raise MissingStoreError(f"the root {prefix} is not there; no further batch was started")
        self.stopped.setdefault(prefix, f"the root {prefix} is gone, and no catalog lists its tables any more")
        return False

    def is_needed(self, uri: str) -> bool:
        """Whether a table has come to need this file since the plan."""
        if not self.needed:
            return False
        prefix = self._prefix(uri)
        # By address too: a table of another format may need a file that its own table knows by name.
        return (
            uri in self.needed or match_key(uri, (self.roots[prefix].home or None) if prefix else None) in self.needed
        )

    def _prefix(self, uri: str) -> str | None:
        """The root of the plan in which a file lies."""
        return self.prefixes.of(uri)

    def _listed(self, prefix: str) -> bool:
        """Whether a catalog lists a table of this root."""
        return prefix in self.roots and any(name in self.witnesses for name in self.roots[prefix].tables)

    def _is_there(self, prefix: str) -> bool:
        """Whether a root holds what it should: a lost mount leaves an empty directory behind."""
        if not _exists(self.deployment, prefix):
            return False
        first = bisect_left(self.places, prefix)
        if inside := list(takewhile(lambda place: place.startswith(prefix), islice(self.places, first, None))):
            return any(self.deployment.stores.head(place) is not None for place in inside)
        return self._listed(prefix) or _holds_anything(self.deployment, prefix)

    def _take_in(self, now: dict[str, tuple[Catalog, Pointer]], pointer: Pointer, state: TableState) -> None:
        name = pointer.identifier
        reason = self._trouble(state)
        unknown = not state.is_visible
        # A table that is left alone needs what it names all the same, wherever that lies.
        if state.refusal is None or state.manifest_lists:
            damage = self._reach(now[name][0], state)
            reason = reason or (f"{name} cannot be read any more ({damage})" if damage else None)
            unknown = unknown or damage is not None
        if reason is not None:
            self._stop_touched(state, reason, unknown=unknown)
        if not unknown:
            # A table that could not be read is looked at again before the next batch, and at the end.
            self.covered[name] = pointer.metadata_location
            if state.may_be_replaced:
                self.digests[name] = state.digest

    def _take_in_unlisted(self, state: TableState) -> None:
        """What a table needs that no catalog lists any more: since the plan it may have taken in a file of any root."""
        if state.is_visible and self.plan.pointers.get(state.identifier) == state.metadata_location:
            return
        damage = self._reach(self.deployment.format_of(state.identifier), state) if state.is_visible else "unreadable"
        if damage is not None:
            reason = f"{state.identifier} is not listed any more, and what it needs is not known ({damage})"
            self._stop_touched(state, reason, unknown=True)

    def _stop_touched(self, state: TableState, reason: str, *, unknown: bool) -> None:
        """Stop the roots that a table touches or ever touched; every root, if it may have taken in a file of any."""
        known = self.memory.of(state)
        # It changed after the plan: where it has files now nobody has seen, and it may have taken in one of any root.
        # One that the plan has read and whose files are known by name has them under the roots of its home.
        homes = self._homes(state).values()
        bounded = homes and state.identifier in self.plan.pointers
        if unknown and not bounded and (known is None or known.metadata_location != state.metadata_location):
            self.stopped |= {prefix: reason for prefix in self.roots if prefix not in self.stopped}
            return
        places = (*(claim.prefix for claim in claims_of([state])), *self.memory.places_of(state))
        touched = doubted_roots([Doubt(state.identifier, places, UNREAD, reason, "")], self.roots)
        for prefix, root in self.roots.items():
            if prefix in touched or state.identifier in root.tables or root.home in homes:
                self.stopped.setdefault(prefix, reason)

    def _trouble(self, state: TableState) -> str | None:
        """Why the roots of this table must be left alone from now on."""
        if state.refusal is not None:
            return f"{state.identifier} cannot be read any more ({state.refusal.code}: {state.refusal.message})"
        planned = {table.identifier: table.uuid for table in self.plan.tables}
        if planned.get(state.identifier, state.uuid) != state.uuid:
            return f"{state.identifier} was dropped and made again since the plan"
        for root in self.plan.roots:
            new = state.identifier not in root.tables
            if new and any(_overlap(root.prefix, claim.prefix) for claim in claims_of([state])):
                return f"{state.identifier} has begun to use {root.prefix} since the plan"
        return None

    def _reach(self, catalog: Catalog, state: TableState) -> str | None:
        """Add what the moved table reaches by manifests not yet seen; the reason if some cannot be read."""
        if self.deployment.readers[state.format].by_name:
            return self._reach_by_name(state)
        seen = self.seen.get(state.identifier)
        if seen is None:
            seen = self.seen[state.identifier] = self._manifests_at_plan(catalog, state)
        wanted = ToRead.of([(0, state)], self._homes(state))
        self.needed.update(wanted.named[c.KEY].to_pylist())
        read = ReadTask(self.deployment.stores, self.deployment.readers)
        manifests, notes = _split(read_lists(read)(iter(wanted.lists.to_batches())), "path")
        manifests = pa.concat_tables([manifests, wanted.manifests])
        unseen = manifests.filter(pc.invert(pc.is_in(manifests["path"], pa.array(sorted(seen), pa.string()))))
        marks, more = _split(read_manifests(read)(iter(unseen.to_batches())), c.KEY)
        self.needed.update(marks[c.KEY].to_pylist())
        self._stop_linked(wanted.named[c.KEY], unseen["path"], marks[c.KEY])
        if notes or more:
            return str(json.loads([*notes, *more][0][1:])["message"])
        seen.update(unseen["path"].to_pylist())
        return None

    def _reach_by_name(self, state: TableState) -> str | None:
        """The same for a table whose files are known by name: whatever it needs now.

        All of it is read at every move: a state that comes back may need what manifests seen before add and delete.
        """
        found = needs_of(state, self._homes(state), ReadTask(self.deployment.stores, self.deployment.readers))
        if found.notes:
            return str(json.loads(found.notes[0][1:])["message"])
        self.needed.update(found.keys.to_pylist())
        self._stop_linked(pa.chunked_array([found.keys]))
        return None

    def _stop_linked(self, *columns: pa.ChunkedArray) -> None:
        """Stop the roots into which needed files lead by another name, through a link: the plan's names are not theirs."""
        places = {place for keys in columns for place in local_directories(keys.combine_chunks())}
        for prefix, why in reached_by_links(self.roots, places).items():
            self.stopped.setdefault(prefix, why.message)

    def _homes(self, state: TableState) -> dict[str, str]:
        """The home that the plan compared this table's names by, or one of its own; none where files have addresses."""
        if not self.deployment.readers[state.format].by_name:
            return {}
        planned = next((root.home for root in self.plan.roots if state.identifier in root.tables), None)
        home = planned or own_home(self.deployment, state)
        return {state.identifier: home} if home else {}

    def _manifests_at_plan(self, catalog: Catalog, state: TableState) -> set[str]:
        """Manifests that the plan read for this table. What is gone since counts as unseen, and is read again."""
        location = self.plan.pointers.get(state.identifier)
        # Where other metadata has come under the planned name, what the plan read is not to be had any more.
        if location is None or location == state.metadata_location:
            return set()
        planned = catalog.load(
            Pointer(state.identifier, location), datetime.max.replace(tzinfo=self.plan.cutoff.tzinfo)
        )
        if planned.refusal is not None or planned.metadata_location != location:
            return set()
        read = ReadTask(self.deployment.stores, self.deployment.readers)
        lists = ToRead.of([(0, planned)], self._homes(planned)).lists
        manifests, _ = _split(read_lists(read)(iter(lists.to_batches())), "path")
        return set(manifests["path"].to_pylist())


def _split(batches: object, column: str) -> tuple[pa.Table, list[str]]:
    """Rows, and the notes among them."""
    schema = c.MANIFESTS if column == "path" else c.MARKS
    table = pa.Table.from_batches(list(batches), schema=schema)  # type: ignore[call-overload]
    noted = pc.starts_with(table[column], NOTE)
    return table.filter(pc.invert(noted)), table.filter(noted)[column].to_pylist()


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _exists(deployment: Deployment, prefix: str) -> bool:
    """Whether a directory on local disk, or elsewhere the bucket, is there at all."""
    if prefix.startswith("file://"):
        return os.path.isdir(prefix.removeprefix("file://"))
    return deployment.stores.at(prefix).exists_root()


def _holds_anything(deployment: Deployment, prefix: str) -> bool:
    if prefix.startswith("file://"):
        with os.scandir(prefix.removeprefix("file://")) as entries:
            return next(entries, None) is not None
    return any(batch.num_rows for batch in deployment.stores.at(prefix).list(FileUri.parse(prefix).key))
