"""What operators decided for the whole deployment: frozen or not, which tables are abandoned. Only ever added to."""

from __future__ import annotations

import uuid as uuids
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import insert, select

from lakewarden.ledger.actors import actor_values
from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.schema import deployment, switches
from lakewarden.model.actor import Actor

FREEZE, UNFREEZE, ABANDON, TAKE_BACK, FORGET = "freeze", "unfreeze", "abandon", "take-back", "forget"


# Asked before everything that is changed, so it is put together once.
_NEWEST_FREEZE = (
    select(switches).where(switches.c.act.in_([FREEZE, UNFREEZE])).order_by(switches.c.switch_id.desc()).limit(1)
)


class Freeze(NamedTuple):
    """Who stopped all deletion, when and why."""

    who: str
    when: datetime
    reason: str

    @property
    def because(self) -> str:
        """`: month end`, behind words that say who froze the deployment; nothing where no reason was given."""
        return f": {self.reason}" if self.reason else ""


class Switches:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._deployment_id: str | None = None

    def freeze(self, actor: Actor, reason: str) -> None:
        """Stop every worker of this deployment before its next batch."""
        self._record(FREEZE, actor, reason)

    def unfreeze(self, actor: Actor) -> bool:
        """Let them go on. Whether a freeze was in force."""
        frozen = self.frozen() is not None
        if frozen:
            self._record(UNFREEZE, actor, None)
        return frozen

    def frozen(self) -> Freeze | None:
        """The freeze in force, if any."""
        with self._connections.read() as connection:
            row = connection.execute(_NEWEST_FREEZE).first()
        if row is None or row.act != FREEZE:
            return None
        return Freeze(row.operator, row.at, row.reason)

    def abandon(self, uuid: str, actor: Actor, reason: str) -> None:
        """Declare that a table uuid that no catalog knows has no owner any more."""
        self._record(ABANDON, actor, reason, uuid)

    def take_back(self, uuid: str, actor: Actor, reason: str) -> None:
        """Declare that an abandoned table has an owner after all."""
        self._record(TAKE_BACK, actor, reason, uuid)

    def abandoned(self) -> dict[str, datetime]:
        """The table uuids that were declared ownerless and not taken back since, each with the last time that it was."""
        query = select(switches.c.act, switches.c.subject, switches.c.at).order_by(switches.c.switch_id)
        found: dict[str, datetime] = {}
        with self._connections.read() as connection:
            for row in connection.execute(query.where(switches.c.act.in_([ABANDON, TAKE_BACK]))):
                if row.act == ABANDON:
                    found[str(row.subject)] = row.at
                else:
                    found.pop(str(row.subject), None)
        return found

    def forget(self, identifier: str, actor: Actor, reason: str) -> None:
        """Put on record that a table's past no longer counts: it was dropped, emptied or set back on purpose."""
        self._record(FORGET, actor, reason, identifier)

    def forgotten(self) -> frozenset[str]:
        """The names of the tables whose past was declared not to count."""
        query = select(switches.c.subject).where(switches.c.act == FORGET)
        with self._connections.read() as connection:
            return frozenset(str(subject) for subject in connection.execute(query).scalars())

    def deployment_id(self) -> str:
        """The name under which this deployment owns buckets: made once, the same for every worker of this database."""
        if self._deployment_id is not None:
            return self._deployment_id  # it never changes once it is made
        query = select(deployment.c.deployment_id)
        with self._connections.read() as connection:
            found = connection.execute(query).scalar()
        if found is None:
            row = {"one": 1, "deployment_id": str(uuids.uuid4()), "created_at": self._connections.clock.now()}
            with self._connections.write() as connection:
                put(connection, deployment, [row], only=())
                found = connection.execute(query).scalar_one()
        self._deployment_id = str(found)
        return self._deployment_id

    def _record(self, act: str, actor: Actor, reason: str | None, subject: str | None = None) -> None:
        row = {"act": act, "subject": subject, "reason": reason, "at": self._connections.clock.now()}
        with self._connections.write() as connection:
            connection.execute(insert(switches), row | actor_values(actor))
