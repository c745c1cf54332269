"""Whether a table needs a file of the trash, and it stays: a table may have taken it in where it lies, also by a link that
leads there, or may need it where it came from, as a slow writer does that commits after its file was taken for an orphan."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.doubt import Look, doubts_of
from lakewarden.model.errors import DoubtError, LakewardenError, UnreadableMetadataError
from lakewarden.model.margins import MARGINS
from lakewarden.model.roots import BY_NAME
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.one_table import needs_of
from lakewarden.pipeline.read.entries import known_entries
from lakewarden.pipeline.read.manifests import ReadTask, once, read_lists, read_manifests
from lakewarden.pipeline.read.notes import NOTE
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.compare.manifest_cache import cache_files
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import load_states, own_home, pointers_of
from lakewarden.steps.observe.mounts import Mounts, real
from lakewarden.storage.quarantine import trash_address


@dataclass
class TrashUsers:
    """What every table was found to need of a run's trash, as it was read last. In doubt an error, and nothing is purged.

    `origins` has the places that the files came from, in order, and `names` their bare names, each with the address in the
    trash.
    """

    deployment: Deployment
    trash: str
    origins: Mapping[str, str]
    names: Mapping[str, str]
    states: dict[str, TableState] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    mounts: Mounts = field(default_factory=Mounts)

    @staticmethod
    def of(deployment: Deployment, trash: str, run_id: str, quarantined: Iterable[str]) -> TrashUsers:
        origins = {uri: trash_address(trash, run_id, uri) for uri in sorted(quarantined)}
        return TrashUsers(deployment, trash, origins, {uri.rpartition("/")[2]: at for uri, at in origins.items()})

    def check(self) -> float:
        """Look at every table that moved since the last look. Returns the boot clock as it was before.

        Raises LakewardenError if a table, or a catalog, cannot be read: it may need what lies here.
        """
        began = self.deployment.clock.boot()
        self.mounts = Mounts()
        now = pointers_of(self.deployment.formats.values())
        moved = [found for name, found in now.items() if self._seen(name) != found[1].metadata_location]
        read = load_states(moved, self.deployment.clock.now() - MARGINS.grace_floor) if moved else []
        self.states |= {state.identifier: state for state in read}
        self._check_doubts({name: pointer.metadata_location for name, (_, pointer) in now.items()})
        for state in read:
            self.needed.update(self._in_trash(state))
        return began

    def _seen(self, name: str) -> str | None:
        return self.states[name].metadata_location if name in self.states else None

    def _check_doubts(self, listed: Mapping[str, str]) -> None:
        """Raise DoubtError while any table is in doubt: one that cannot be seen may need what lies in the trash."""
        there = {name: state for name, state in self.states.items() if name in listed}
        look = Look(listed, there, self.deployment.clock.now(), self.deployment.ledger.switches.abandoned())
        for doubt in doubts_of(self.deployment.ledger.known_tables.memory(), look):
            raise DoubtError(f"{doubt.table} {doubt.why}; nothing was purged", hint=doubt.hint, code=doubt.code)

    def _in_trash(self, state: TableState) -> Iterable[str]:
        if not state.is_visible:
            raise _doubt(state, state.refusal.message if state.refusal else "its metadata is not known")
        try:
            by_name = self.deployment.readers[state.format].by_name
            keys, notes = self._by_name(state) if by_name else self._by_address(state)
        except (OSError, ValueError) as error:
            raise _doubt(state, str(error)) from error
        if notes:
            raise _doubt(state, str(json.loads(notes[0][1:])["message"]))
        return list(self._kept(keys))

    def _kept(self, keys: pa.ChunkedArray) -> Iterator[str]:
        """The files of the trash that these needed addresses and names mean."""
        for key in keys.filter(pc.is_in(keys, pa.array(self.origins, pa.string()))).to_pylist():
            yield self.origins[key]
        for key in keys.filter(pc.starts_with(keys, BY_NAME)).to_pylist():
            if (name := key.rpartition("/")[2]) in self.names:
                yield self.names[name]
        directories = pc.unique(pc.replace_substring_regex(keys, r"[^/]*$", ""))
        there = {place: at for place in directories.to_pylist() if (at := self._in_trash_by(place)) is not None}
        if there:
            for key in keys.to_pylist():
                directory, _, name = key.rpartition("/")
                if (at := there.get(f"{directory}/")) is not None:
                    yield at + name

    def _in_trash_by(self, directory: str) -> str | None:
        """What a directory is called in the trash, if it lies there, by whatever links or mounts it leads there."""
        place = FileUri.parse(self.trash).as_prefix()
        if directory.startswith(place):
            return directory
        found, there = real(directory, self.mounts), real(place, self.mounts)
        return place + found.removeprefix(there) if found.startswith(there) else None

    def _by_name(self, state: TableState) -> tuple[pa.ChunkedArray, list[str]]:
        home = own_home(self.deployment, state)
        homes = {state.identifier: home} if home else {}
        found = needs_of(state, homes, ReadTask(self.deployment.stores, self.deployment.readers))
        return pa.chunked_array([found.keys]), list(found.notes)

    def _by_address(self, state: TableState) -> tuple[pa.ChunkedArray, list[str]]:
        """Everything that any snapshot names. Manifests whose names, as the cache knows, begin elsewhere are not opened."""
        read = ReadTask(self.deployment.stores, self.deployment.readers)
        wanted = ToRead.of([(0, state)], {})
        lists, notes = _rows(read_lists(read)(iter(wanted.lists.to_batches())), c.MANIFESTS, "path")
        manifests = once(pa.concat_tables([lists, wanted.manifests]))
        opened = manifests.filter(pa.array([not self._elsewhere(key) for key in self._known(manifests)], pa.bool_()))
        marks, more = _rows(read_manifests(read)(iter(opened.to_batches())), c.MARKS, c.KEY)
        keys = [wanted.named[c.KEY], manifests["path"], marks[c.KEY]]
        return pa.chunked_array([chunk for column in keys for chunk in column.chunks], pa.string()), [*notes, *more]

    def _known(self, manifests: pa.Table) -> list[str | None]:
        """What the names of each manifest begin with; None where the cache does not know it."""
        known = known_entries(cache_files(self.deployment), manifests)
        prefixes = dict(zip(known["number"].to_pylist(), known["prefix"].to_pylist(), strict=True))
        return [prefixes.get(place) for place in range(manifests.num_rows)]

    def _elsewhere(self, beginning: str | None) -> bool:
        """Whether all names with this beginning lie neither in the trash nor where its files came from."""
        if beginning is None:
            return False
        place, found = (real(name, self.mounts) for name in (FileUri.parse(self.trash).as_prefix(), beginning))
        if found.startswith(place) or place.startswith(found):
            return False
        addresses = list(self.origins)
        at = bisect_left(addresses, beginning)
        return at == len(addresses) or not addresses[at].startswith(beginning)


def _rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, column: str) -> tuple[pa.Table, list[str]]:
    """Rows, and the notes among them of what could not be read."""
    table = pa.Table.from_batches(list(batches), schema=schema)
    noted = pc.starts_with(table[column], NOTE)
    return table.filter(pc.invert(noted)), table.filter(noted)[column].to_pylist()


def _doubt(state: TableState, why: str) -> LakewardenError:
    return UnreadableMetadataError(
        f"{state.identifier} cannot be read ({why}); it may have taken in files where they lie in the trash, so nothing "
        "was purged"
    )
