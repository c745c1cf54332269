"""Rows that several threads enter at once, in one transaction: a commit costs a wait for the disk, whatever it holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from lakewarden.ledger.connection import Connections

Rows = list[Mapping[str, Any]]


class _Entry:
    """One thread's row, and what became of it."""

    __slots__ = ("error", "row", "settled")

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row
        self.settled = False
        self.error: Exception | None = None


class SharedCommit:
    """Whoever has the turn writes what waits, its own row and the others'."""

    def __init__(self, connections: Connections, write: Callable[[Connection, Rows], None]) -> None:
        self._connections = connections
        self._write = write
        self._waiting: list[_Entry] = []
        self._door = threading.Lock()
        self._turn = threading.Lock()

    def enter(self, row: Mapping[str, Any]) -> None:
        """When this returns, the row is durable. Raises what its own writing raised, never a neighbour's."""
        mine = _Entry(row)
        with self._door:
            self._waiting.append(mine)
        with self._turn:
            if not mine.settled:
                with self._door:
                    taken, self._waiting = self._waiting, []
                self._settle(taken)
        if mine.error is not None:
            raise mine.error

    def _settle(self, taken: list[_Entry]) -> None:
        try:
            with self._connections.write() as connection:
                self._write(connection, [entry.row for entry in taken])
        except Exception as error:
            if len(taken) > 1:
                # None of them was written: each goes alone, so that only the one that cannot go fails.
                for entry in taken:
                    self._settle([entry])
                return
            taken[0].error = error
        except BaseException:
            # The thread was stopped, not the database: the others' rows are theirs to write.
            with self._door:
                self._waiting = [entry for entry in taken if not entry.settled] + self._waiting
            raise
        for entry in taken:
            entry.settled = True
