"""Nessie's own API (v2), as far as branches need it: over the connection of its Iceberg catalog, with that one's rights.

Answers are bounded in size, pages and time. A question may be asked again; a change is sent once, and is in doubt unless
an answer names what was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote

from lakewarden.formats.iceberg.metadata.document import GARBLED
from lakewarden.model.errors import CatalogUnavailableError, DoubtfulCommitError, TableMovedError

BASE, SERVED, PREFIX = "nessie.core-base-uri", "nessie.iceberg-base-uri", "prefix"
DEFAULT_BRANCH = "nessie.default-branch.name"
MOST_PAGES = 10_000
DOUBT_HINT = "Look whether the branch is there, and whether it has its tables; then run the command again."
# The commit before the first one, of every Nessie: the SHA-256 of the word "empty".
NO_COMMIT = sha256(b"empty").hexdigest()
EXPIRED, NOT_FOUND, CONFLICT, BAD_REQUEST = (401, 419), 404, 409, 400

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reference:
    """A branch or tag of the catalog, and the time of its newest commit (epoch ms; 0 where Nessie does not say).

    `ancestor` is the commit at which it left the default branch; None if the two have nothing in common.
    """

    name: str
    kind: str
    hash: str
    committed_ms: int = 0
    ancestor: str | None = None

    @property
    def path(self) -> str:
        """How a request names it at exactly this commit."""
        return f"trees/{quote(self.name, safe='')}@{self.hash}"


class NoReferenceError(CatalogUnavailableError):
    """There is no branch or tag of that name (any more)."""


class NessieApi:
    """One server."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._base = f"{str(catalog.properties[BASE]).rstrip('/')}/v2/"

    def default_branch(self) -> str:
        found = self._get("config").get("defaultBranch")
        if not found:
            raise self._unavailable("it does not name its default branch")
        return str(found)

    def served_branch(self) -> str:
        """The branch as which the configured catalog shows itself."""
        return self._prefix.partition("|")[0].partition("@")[0]

    @property
    def _prefix(self) -> str:
        """`branch|warehouse` or `branch@commit|warehouse`, which a user may have written as an address needs it."""
        return unquote(str(self._catalog.properties.get(PREFIX) or ""))

    def references(self) -> list[Reference]:
        """Every branch and tag, with the time of its newest commit."""
        try:
            return [_reference(found) for found in self._pages("trees", "references", {"fetch": "ALL"})]
        except GARBLED as error:
            raise self._unavailable("its list of references is garbled") from error

    def reference(self, name: str) -> Reference | None:
        """One branch or tag as it is now; None if there is none of that name."""
        path = f"trees/{quote(name, safe='')}"
        try:
            found = _reference(self._get(path, {"fetch": "ALL"})["reference"])
        except NoReferenceError:
            return None
        except GARBLED as error:
            raise self._unavailable(f"{path} is no reference") from error
        if found.name != name:
            raise self._unavailable(f"asked for {name}, it answered with {found.name}")
        return found

    def entries(self, at: Reference) -> list[Json]:
        """Everything that a branch holds at exactly this commit, with its content. Raises NoReferenceError."""
        return list(self._pages(f"{at.path}/entries", "entries", {"content": "true"}))

    def commits(self, at: Reference, back_to: str) -> Iterator[Json]:
        """What the commits of a branch say of themselves, newest first, to this one or else to the first of all."""
        for entry in self._pages(f"{at.path}/history", "logEntries", {"limit-hash": back_to}):
            yield entry.get("commitMeta") or {}

    def load(self, branch: str, key: Sequence[str]) -> Json | None:
        """A table as the Iceberg side serves it from a branch; None if that cannot. Raises CatalogUnavailableError."""
        space = quote("\x1f".join(key[:-1]), safe="")
        # In the warehouse of the configured catalog: a server may have no default one.
        _, bar, warehouse = self._prefix.partition("|")
        place = f"v1/{quote(branch + bar + warehouse, safe='')}/namespaces/{space}/tables/{quote(key[-1], safe='')}"
        url = f"{str(self._catalog.properties[SERVED]).rstrip('/')}/{place}"
        answer = self._ask(url, {}, whole=True)
        if answer.status_code in (BAD_REQUEST, NOT_FOUND):
            return None
        return self._document(answer)

    def delete(self, at: Reference) -> None:
        """Delete a branch, if it is still at this commit. Raises TableMovedError."""
        self._change(at.name, "DELETE", at.path, {"type": "BRANCH"}, None)

    def commit(self, at: Reference, operations: Sequence[Json], message: str, properties: Mapping[str, str]) -> None:
        """Commit to a branch, if what the operations name has not changed since this commit. Raises TableMovedError."""
        meta = {"message": message, "authors": ["lakewarden"], "properties": dict(properties)}
        body = {"commitMeta": meta, "operations": list(operations)}
        self._change(at.name, "POST", f"{at.path}/history/commit", {}, body)

    def create(self, name: str, commit: str) -> None:
        """Make a branch at a commit. Raises TableMovedError if there is one."""
        self._change(name, "POST", "trees", {"name": name, "type": "BRANCH"}, {"type": "DETACHED", "hash": commit})

    def _pages(self, path: str, field: str, params: Mapping[str, str]) -> Iterator[Json]:
        token: str | None = None
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            page = self._get(path, {**params, **({"page-token": token} if token else {})})
            found = page.get(field)
            if not isinstance(found, list):
                raise self._unavailable(f"an answer for {path} without {field}")
            yield from found
            if not page.get("hasMore"):
                return
            token = str(page.get("token"))
            if token in seen:
                break
            seen.add(token)
        raise self._unavailable(f"{path} has pages without end")

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        return self._document(self._ask(path, params or {}))

    def _ask(self, path: str, params: Mapping[str, str], *, whole: bool = False) -> Any:
        url = path if whole else self._base + path
        try:
            answer = self._catalog._session.get(url, params=dict(params))
            if answer.status_code in EXPIRED:
                self._catalog._refresh_token()
                answer = self._catalog._session.get(url, params=dict(params))
        except Exception as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error
        return answer

    def _document(self, answer: Any) -> Json:
        found = _document(answer)
        if answer.status_code != 200:
            told = f"{answer.status_code}: {found.get('message') or answer.reason}"
            gone = answer.status_code == NOT_FOUND and found.get("errorCode") == "REFERENCE_NOT_FOUND"
            raise self._unavailable(told, NoReferenceError if gone else CatalogUnavailableError)
        if not found:
            raise self._unavailable("an answer that is no object")
        return found

    def _change(self, branch: str, method: str, path: str, params: Mapping[str, str], body: Json | None) -> None:
        name = self._catalog.name
        try:
            answer = self._catalog._session.request(
                method, self._base + path, params=dict(params), json=body, allow_redirects=False
            )
        except Exception as error:
            raise self._doubt(
                f"did not answer for a change of branch {branch} ({type(error).__name__}: {error})"
            ) from error
        found = _document(answer)
        told = found.get("message") or answer.reason
        # Whatever stands before a server says 404 too.
        if answer.status_code in (CONFLICT, NOT_FOUND) and "errorCode" in found:
            raise TableMovedError(
                f"branch {branch} of {name} was changed meanwhile ({told}); nothing of it was removed"
            )
        if 400 <= answer.status_code < 500:
            raise CatalogUnavailableError(
                f"catalog {name} did not take a change of branch {branch} ({answer.status_code}: {told}); nothing was changed"
            )
        if answer.status_code != 200:
            raise self._doubt(f"failed at a change of branch {branch} ({answer.status_code}: {told})")
        changed = found.get("reference") or found.get("targetBranch")
        if not isinstance(changed, Mapping) or changed.get("name") != branch:
            raise self._doubt(f"answered a change of branch {branch} without naming it")

    def _doubt(self, what: str) -> DoubtfulCommitError:
        return DoubtfulCommitError(
            f"catalog {self._catalog.name} {what}; it may or may not have been made, and no file was touched",
            hint=DOUBT_HINT,
        )

    def _unavailable(
        self, why: str, kind: type[CatalogUnavailableError] = CatalogUnavailableError
    ) -> CatalogUnavailableError:
        return kind(f"Nessie behind catalog {self._catalog.name} could not be read ({why}); nothing was changed")


def _document(answer: Any) -> Json:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _reference(found: Json) -> Reference:
    told = found.get("metadata") or {}
    commit = (told.get("commitMetaOfHEAD") or {}).get("commitTime")
    committed = int(datetime.fromisoformat(_micros(commit)).timestamp() * 1000) if commit else 0
    ancestor = told.get("commonAncestorHash")
    ancestor = None if ancestor in (None, NO_COMMIT) else str(ancestor)
    return Reference(str(found["name"]), str(found["type"]), str(found["hash"]), committed, ancestor)


def _micros(text: str) -> str:
    """An instant of Java's, which may have nanoseconds, as Python reads it."""
    seconds, dot, rest = text.rstrip("Z").partition(".")
    return f"{seconds}{dot}{rest[:6]}+00:00"
