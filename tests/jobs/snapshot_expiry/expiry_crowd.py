"""People at work on a table while its snapshots expire: a writer, a tagger, a brancher, each with an account of its deeds."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tests.jobs.snapshot_expiry.expiry_pen import arrow
from tests.jobs.snapshot_expiry.expiry_site import Rows, refs_of, rows_at

MOST_REFS = 30
# PyIceberg asserts the branch that it commits to; who was quicker on another one shows in the sequence number.
CONFLICT = (CommitFailedException, ValueError)


@dataclass
class Crowd:
    """Everybody at one table. `refs` has what each tag and branch must show; nobody else touches main."""

    open_catalog: Callable[[], Catalog]
    name: str
    seed: int
    stop: threading.Event = field(default_factory=threading.Event)
    refs: dict[str, Rows] = field(default_factory=dict)
    main: Rows = ()
    deeds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("write", "tag", "branch", "drop"), 0))
    faults: list[BaseException] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for number, work in enumerate((self._write, self._tag, self._branch)):
            thread = threading.Thread(target=self._at_work, args=(work, random.Random(self.seed * 10 + number)))
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(60)
        if self.faults:
            raise self.faults[0]

    def check(self) -> None:
        """Nothing that they made is lost, and nothing else is there."""
        table = self.open_catalog().load_table(self.name)
        found = refs_of(table)
        assert set(found) == {"main", *self.refs}
        for ref, rows in self.refs.items():
            assert rows_at(table, found[ref]) == rows, ref
        assert rows_at(table) == self.main

    def _at_work(self, work: Callable[[Catalog, random.Random], None], draw: random.Random) -> None:
        catalog = self.open_catalog()
        try:
            while not self.stop.is_set():
                work(catalog, draw)
                time.sleep(draw.uniform(0, 0.08))
        except BaseException as error:
            self.faults.append(error)
            self.stop.set()

    def _write(self, catalog: Catalog, draw: random.Random) -> None:
        first, table = draw.randrange(1_000_000), catalog.load_table(self.name)
        rows = arrow(first)
        added = tuple((number, "ab"[number % 2]) for number in range(first, first + 4))
        anew = draw.random() < 0.5
        try:
            table.overwrite(rows) if anew else table.append(rows)
        except CONFLICT:
            return
        self.main = tuple(sorted(added if anew else (*self.main, *added), key=repr))
        self.deeds["write"] += 1

    def _tag(self, catalog: Catalog, draw: random.Random) -> None:
        """On any snapshot that is there, the oldest with pleasure."""
        table = catalog.load_table(self.name)
        tags = [name for name in list(self.refs) if name.startswith("t")]
        if tags and len(self.refs) > MOST_REFS and draw.random() < 0.5:
            return self._drop(table, draw.choice(tags))
        chosen = draw.choice(table.snapshots()).snapshot_id
        name = f"t{self.deeds['tag']}"
        try:
            rows = rows_at(table, chosen)
            table.manage_snapshots().create_tag(chosen, name).commit()
        except (*CONFLICT, FileNotFoundError):
            return  # it has expired meanwhile, or somebody was quicker
        self.refs[name] = rows
        self.deeds["tag"] += 1

    def _drop(self, table: Table, name: str) -> None:
        try:
            table.manage_snapshots().remove_tag(name).commit()
        except CONFLICT:
            return
        del self.refs[name]
        self.deeds["drop"] += 1

    def _branch(self, catalog: Catalog, draw: random.Random) -> None:
        """From any snapshot, with a commit of its own soon after; or one more commit to a branch that is there."""
        table = catalog.load_table(self.name)
        mine = [name for name in list(self.refs) if name.startswith("b")]
        if mine and (len(mine) > MOST_REFS or draw.random() < 0.6):
            name, first = draw.choice(mine), draw.randrange(1_000_000)
            try:
                table.append(arrow(first), branch=name)
            except CONFLICT:
                return
            added = tuple((number, "ab"[number % 2]) for number in range(first, first + 4))
            self.refs[name] = tuple(sorted((*self.refs[name], *added), key=repr))
        else:
            chosen = draw.choice(table.snapshots()).snapshot_id
            name = f"b{self.deeds['branch']}"
            try:
                rows = rows_at(table, chosen)
                table.manage_snapshots().create_branch(chosen, name).commit()
            except (*CONFLICT, FileNotFoundError):
                return
            self.refs[name] = rows
        self.deeds["branch"] += 1
