"""What expiry would take from each of several tables, by each table's policy, tables side by side. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from lakewarden.model.errors import LakewardenError, UnsupportedTableError
from lakewarden.model.expiry import Expiration
from lakewarden.model.policy import ExpiryPolicy
from lakewarden.model.table import TableState
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.history.floor import ArchiveFloor
from lakewarden.steps.observe.fleet import LOAD_THREADS, Fleet
from lakewarden.steps.observe.writers import writers


def surveys(
    deployment: Deployment, fleet: Fleet, policies: Mapping[str, ExpiryPolicy], chosen: frozenset[str], now: datetime
) -> Iterator[tuple[int, Expiration]]:
    """What may go of each chosen table that can be read, tables side by side."""
    at_work = writers(deployment)
    floor = ArchiveFloor(deployment)
    asked = [(n, state) for n, state in enumerate(fleet.states) if state.identifier in chosen and not state.refusal]

    def survey(state: TableState) -> Expiration:
        expirer = deployment.format_of(state.identifier).expirer
        if expirer is None:
            why = f"snapshots of {state.format} tables cannot be expired by this version; nothing of it is touched"
            return Expiration(refusal=UnsupportedTableError(why).refusal())
        in_use = at_work.on(state.identifier, state.uuid)
        policy = replace(policies[state.identifier], in_use_since=in_use.since, in_use_snapshots=in_use.snapshots)
        try:
            if floor.holds(state.identifier, state.properties, state.uuid):
                policy = replace(policy, archived=floor.of_table(state))
        except LakewardenError as error:
            return Expiration(refusal=error.refusal())
        return replace(expirer.survey(state, policy, now), only_archived=policy.archived is not None)

    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        answers = pool.map(lambda found: survey(found[1]), asked)
        yield from zip((number for number, _ in asked), answers, strict=True)
