"""Who may use the service: tokens by name, of which only a salted hash is kept, and the sessions of browsers."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, delete, insert, select, update

from lakewarden.ledger.connection import Connections
from lakewarden.ledger.service_schema import sessions, tokens
from lakewarden.model.errors import NotFoundError, StateError, UsageError
from lakewarden.model.service import Role

SESSION_LASTS = timedelta(hours=12)
# Written down at most so often: a look at a page is no write.
USE_NOTED_EVERY = timedelta(minutes=1)
_NEVER = datetime.min.replace(tzinfo=UTC)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
# Every request asks this: it is put together once.
_BY_ID = select(tokens).where(tokens.c.token_id == bindparam("asked"))
_TOKEN = re.compile(r"lw_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret: whose it is, what it may do, until when."""

    name: str
    token_id: str
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def counts(self, now: datetime) -> bool:
        """Whether it opens anything now."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that has shown a token. `csrf` comes back with every form."""

    token: Token
    csrf: str


class Tokens:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._noted: dict[str, datetime] = {}

    def create(self, name: str, role: Role, *, created_by: str, days: float | None = None) -> str:
        """Make a token, and say it this once. A name whose token was revoked or has run out can be given again.

        Raises UsageError for a name that cannot be one, or that has a token.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a token; allowed: letters, digits, dots, dashes, underscores, + and @, "
                "at most 64; nothing was done"
            )
        now = self._connections.clock.now()
        token_id, secret, salt = secrets.token_hex(8), secrets.token_urlsafe(32), secrets.token_bytes(16)
        row = {
            "name": name,
            "token_id": token_id,
            "role": Role(role).value,
            "salt": salt,
            "hash": _hashed(salt, secret),
            "created_at": now,
            "created_by": created_by,
            "expires_at": now + timedelta(days=days) if days is not None else None,
        }
        with self._connections.write() as connection:
            there = connection.execute(select(tokens).where(tokens.c.name == name).with_for_update()).first()
            if there is not None and _token(there).counts(now):
                raise UsageError(
                    f"{name} has a token already; nothing was done",
                    hint=f"Revoke it first: lakewarden token revoke {name}.",
                )
            connection.execute(delete(tokens).where(tokens.c.name == name))
            connection.execute(insert(tokens), row)
        return f"lw_{token_id}_{secret}"

    def check(self, plaintext: str) -> Token | None:
        """The token that these words are, if it counts. As long for a wrong one as for a right one."""
        match = _TOKEN.fullmatch(plaintext)
        token_id, secret = match.groups() if match else ("", "")
        now = self._connections.clock.now()
        with self._connections.read() as connection:
            row = connection.execute(_BY_ID, {"asked": token_id}).first()
        salt, wanted = (row.salt, row.hash) if row is not None else (bytes(16), bytes(32))
        same = hmac.compare_digest(_hashed(salt, secret), wanted)
        if row is None or not same or not (found := _token(row)).counts(now):
            return None
        self._note_use(found, now)
        return found

    def revoke(self, name: str) -> Token:
        """Let a token open nothing any more, and end its sessions. Raises NotFoundError for an unknown name."""
        now = self._connections.clock.now()
        with self._connections.write() as connection:
            alive = (tokens.c.name == name) & tokens.c.revoked_at.is_(None)
            connection.execute(update(tokens).where(alive).values(revoked_at=now))
            row = connection.execute(select(tokens).where(tokens.c.name == name)).first()
            if row is not None:
                connection.execute(delete(sessions).where(sessions.c.token_id == row.token_id))
        if row is None:
            raise NotFoundError(f"there is no token {name}", hint="`lakewarden token list` names them.")
        return _token(row)

    def list(self) -> list[Token]:
        """Every token that was made, by name."""
        with self._connections.read() as connection:
            return [_token(row) for row in connection.execute(select(tokens).order_by(tokens.c.name))]

    def any_counts(self) -> bool:
        """Whether anybody can use the service by a token."""
        now = self._connections.clock.now()
        return any(token.counts(now) for token in self.list())

    def open_session(self, token: Token) -> tuple[str, Session]:
        """What the browser of this token's holder keeps, said this once, and the session that it stands for."""
        now, value, csrf = self._connections.clock.now(), secrets.token_urlsafe(32), secrets.token_urlsafe(24)
        row = {
            "hash": hashlib.sha256(value.encode()).digest(),
            "token_id": token.token_id,
            "csrf": csrf,
            "created_at": now,
            "expires_at": now + SESSION_LASTS,
        }
        with self._connections.write() as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at < now))
            connection.execute(insert(sessions), row)
        return value, Session(token, csrf)

    def session(self, value: str) -> Session | None:
        """The session that a browser's cookie stands for, while it and its token count."""
        now, hashed = self._connections.clock.now(), hashlib.sha256(value.encode()).digest()
        query = select(tokens, sessions.c.csrf).join(sessions, sessions.c.token_id == tokens.c.token_id)
        query = query.where(sessions.c.hash == hashed, sessions.c.expires_at > now)
        with self._connections.read() as connection:
            row = connection.execute(query).first()
        if row is None or not (found := _token(row)).counts(now):
            return None
        self._note_use(found, now)
        return Session(found, row.csrf)

    def close_session(self, value: str) -> None:
        hashed = hashlib.sha256(value.encode()).digest()
        with self._connections.write() as connection:
            connection.execute(delete(sessions).where(sessions.c.hash == hashed))

    def _note_use(self, token: Token, now: datetime) -> None:
        """Write down that a token was used. Whoever only looks must not wait for a database that others write to."""
        known = max(token.last_used_at or _NEVER, self._noted.get(token.token_id, _NEVER))
        if now - known < USE_NOTED_EVERY:
            return
        self._noted[token.token_id] = now  # first: of many that ask at once, one tries
        try:
            with self._connections.write() as connection:
                connection.execute(update(tokens).where(tokens.c.token_id == token.token_id).values(last_used_at=now))
        except StateError:
            return  # locked, full or read-only: the list of tokens shows an older use, and nothing hangs on it


def _hashed(salt: bytes, secret: str) -> bytes:
    """A secret of 256 random bits cannot be guessed, so one round is enough; the salt keeps two rows apart."""
    return hashlib.sha256(salt + secret.encode()).digest()


def _token(row: Row[Any]) -> Token:
    values = {name: row._mapping[name] for name in Token.__dataclass_fields__}
    return Token(**values | {"role": Role(row.role)})
