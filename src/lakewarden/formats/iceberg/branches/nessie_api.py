"""Nessie's own API (v2), as far as branches need it: over the connection of its Iceberg catalog, with that one's rights.

Answers are bounded in size, pages and time. A question may be asked again; a change is sent once, and what nobody
answered for is in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from lakewarden.model.errors import CatalogUnavailableError, DoubtfulCommitError, TableMovedError

BASE, SERVED, PREFIX = "nessie.core-base-uri", "nessie.iceberg-base-uri", "prefix"
DEFAULT_BRANCH = "nessie.default-branch.name"
MOST_PAGES = 10_000
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


class NessieApi:
    """One server."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._base = f"{str(catalog.properties[BASE]).rstrip('/')}/v2/"

    def default_branch(self) -> str:
        return str(self._get("config")["defaultBranch"])

    def served_branch(self) -> str:
        """The branch as which the configured catalog shows itself."""
        return str(self._catalog.properties.get(PREFIX) or "").partition("|")[0].partition("@")[0]

    def references(self) -> list[Reference]:
        """Every branch and tag, with the time of its newest commit."""
        return [_reference(found) for found in self._pages("trees", "references", {"fetch": "ALL"})]

    def reference(self, name: str) -> Reference | None:
        """One branch or tag as it is now; None if there is none of that name."""
        answer = self._ask(f"trees/{quote(name, safe='')}", {"fetch": "ALL"})
        if answer.status_code == NOT_FOUND and _document(answer).get("errorCode") == "REFERENCE_NOT_FOUND":
            return None
        return _reference(self._document(answer)["reference"])

    def entries(self, at: Reference) -> list[Json]:
        """Everything that a branch holds at exactly this commit, with its content."""
        return list(self._pages(f"{at.path}/entries", "entries", {"content": "true"}))

    def load(self, branch: str, key: Sequence[str]) -> Json | None:
        """A table as the Iceberg side serves it from a branch; None if that cannot. Raises CatalogUnavailableError."""
        space = quote("\x1f".join(key[:-1]), safe="")
        place = f"v1/{quote(branch, safe='')}/namespaces/{space}/tables/{quote(key[-1], safe='')}"
        url = f"{str(self._catalog.properties[SERVED]).rstrip('/')}/{place}"
        answer = self._ask(url, {}, whole=True)
        if answer.status_code in (BAD_REQUEST, NOT_FOUND):
            return None
        return self._document(answer)

    def delete(self, at: Reference) -> None:
        """Delete a branch, if it is still at this commit. Raises TableMovedError."""
        self._change("DELETE", at.path, {"type": "BRANCH"}, None)

    def commit(self, at: Reference, operations: Sequence[Json], message: str, properties: Mapping[str, str]) -> None:
        """Commit to a branch, if what the operations name has not changed since this commit. Raises TableMovedError."""
        meta = {"message": message, "authors": ["lakewarden"], "properties": dict(properties)}
        self._change("POST", f"{at.path}/history/commit", {}, {"commitMeta": meta, "operations": list(operations)})

    def create(self, name: str, commit: str) -> None:
        """Make a branch at a commit. Raises TableMovedError if there is one."""
        self._change("POST", "trees", {"name": name, "type": "BRANCH"}, {"type": "DETACHED", "hash": commit})

    def _pages(self, path: str, field: str, params: Mapping[str, str]) -> Iterator[Json]:
        token: str | None = None
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            page = self._get(path, {**params, **({"page-token": token} if token else {})})
            yield from page[field]
            if not page.get("hasMore"):
                return
            token = str(page["token"])
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
        if answer.status_code != 200:
            told = _document(answer).get("message") or answer.reason
            raise self._unavailable(f"{answer.status_code}: {told}")
        found = _document(answer)
        if not found:
            raise self._unavailable("an answer that is no object")
        return found

    def _change(self, method: str, path: str, params: Mapping[str, str], body: Json | None) -> None:
        name = self._catalog.name
        try:
            answer = self._catalog._session.request(
                method, self._base + path, params=dict(params), json=body, allow_redirects=False
            )
        except Exception as error:
            raise DoubtfulCommitError(
                f"catalog {name} did not answer for a change of a branch ({type(error).__name__}: {error}); it may or may "
                "not have been made, and no file was touched"
            ) from error
        told = _document(answer).get("message") or answer.reason
        if answer.status_code in (CONFLICT, NOT_FOUND):
            raise TableMovedError(f"a branch of {name} was changed meanwhile ({told}); nothing of it was removed")
        if 400 <= answer.status_code < 500:
            raise CatalogUnavailableError(
                f"catalog {name} did not take a change of a branch ({told}); nothing was changed"
            )
        if answer.status_code != 200:
            raise DoubtfulCommitError(
                f"catalog {name} failed at a change of a branch ({answer.status_code}: {told}); it may or may not have "
                "been made, and no file was touched"
            )

    def _unavailable(self, why: str) -> CatalogUnavailableError:
        return CatalogUnavailableError(
            f"Nessie behind catalog {self._catalog.name} could not be read ({why}); nothing was changed"
        )


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
