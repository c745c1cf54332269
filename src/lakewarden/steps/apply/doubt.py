"""Which roots of a plan a table in doubt ever touched, asked again while the plan is applied."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewarden.model.doubt import Look, doubted_roots, doubts_of, now_of
from lakewarden.model.errors import DoubtError, Refusal
from lakewarden.model.known_table import Memory
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import Plan
from lakewarden.model.ports import Catalog
from lakewarden.model.table import Pointer, TableState
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import load_states, pointers_of
from lakewarden.steps.observe.unlisted import unlisted_tables

Found = Mapping[str, tuple[Catalog, Pointer]]


@dataclass(frozen=True, slots=True)
class Doubted:
    """The roots of a plan that are left alone, each with the reason, and the tables in doubt that no catalog lists."""

    roots: Mapping[str, Refusal]
    unlisted: Sequence[TableState]


def doubted_now(
    deployment: Deployment, plan: Plan, memory: Memory, found: Found, states: Sequence[TableState]
) -> Doubted:
    """The roots of a plan that a table ever touched which is not listed, cannot be read, or is older now.

    `found` is what all catalogs list; `states` are the tables among it whose metadata is another one than was planned.
    """
    listed = {name: pointer.metadata_location for name, (_, pointer) in found.items()}
    by_name = {state.identifier: state for state in states}
    look = Look(listed, by_name, deployment.clock.now(), deployment.ledger.switches.abandoned())
    doubts = doubts_of(memory, look)
    stopped = doubted_roots(doubts, [root.prefix for root in plan.roots])
    # A table of the plan that was forgotten since is missed all the same: the plan knew it.
    elsewhere = look.elsewhere
    renamed = {row.identifier for row in memory.rows if now_of(row, look, elsewhere, memory)[1]}
    missing = plan.pointers.keys() - listed.keys() - renamed
    for root in plan.roots if missing else ():
        if gone := missing.intersection(root.tables):
            stopped.setdefault(root.prefix, _not_listed(min(gone)))
    if len(stopped) == len(plan.roots):
        return Doubted(stopped, ())
    return Doubted(stopped, unlisted_tables(deployment.formats, memory, doubts, listed, plan.cutoff))


def _not_listed(table: str) -> Refusal:
    return DoubtError(
        f"{table} is not listed by its catalog any more; nothing under its directories is touched"
    ).refusal()


class DoubtWatch:
    """The doubted roots of a plan whose run changes tables, table by table: looked at again when the last look is old."""

    def __init__(self, deployment: Deployment, plan: Plan) -> None:
        self._deployment = deployment
        self._plan = plan
        self._memory = deployment.ledger.known_tables.memory()
        self._covered = dict(plan.pointers)
        self._stopped: dict[str, Refusal] = {}
        self._looked: float | None = None
        self._turn = threading.Lock()

    def check(self, table: str, roots: Sequence[str]) -> None:
        """Raise DoubtError if a table in doubt ever touched one of these roots of a table."""
        with self._turn:
            if self._looked is None or self._deployment.clock.boot() - self._looked > MARGINS.validation_seconds:
                self._look()
            found = next((self._stopped[prefix] for prefix in roots if prefix in self._stopped), None)
        if found is not None:
            raise DoubtError(f"{found.message}; nothing of {table} was changed", hint=found.hint, code=found.code)

    def _look(self) -> None:
        began = self._deployment.clock.boot()
        found = pointers_of(self._deployment.formats.values())
        moved = [one for name, one in found.items() if self._covered.get(name) != one[1].metadata_location]
        states = load_states(moved, self._plan.cutoff)
        for prefix, why in doubted_now(self._deployment, self._plan, self._memory, found, states).roots.items():
            self._stopped.setdefault(prefix, why)
        # What a run itself commits moves its tables: those are not read at every look.
        self._covered |= {state.identifier: state.metadata_location for state in states if state.is_visible}
        self._looked = began
