"""What a store's answer to a delete proves: who was named, who has to be looked at again, and what each look shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakewarden.model.errors import MissingStoreError, StoreUnavailableError, UnconfirmedDeleteError
from lakewarden.model.files import BatchFiles
from lakewarden.model.ports import FileOutcome
from lakewarden.model.verdict import Outcome
from lakewarden.storage.compare import differs
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.present import look
from lakewarden.storage.store import unavailable

_OTHER_TAG = ("PreconditionFailed", "ConditionalRequestConflict")
_GONE_BY_US = "gone after this delete, whose answer did not say so"


class Present(NamedTuple):
    """An object that is still the listed one, with the tag that the delete must find."""

    uri: str
    key: str
    etag: str | None


@dataclass(frozen=True)
class Answer:
    """What one call said: keys that went, keys that were only hidden, keys that it refused, or why there is no answer."""

    deleted: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    failure: Exception | None = None

    @staticmethod
    def of(found: Mapping[str, Any]) -> Answer:
        """The answer to DeleteObjects. Entries without a name say nothing."""
        gone = [item for item in found.get("Deleted", ()) if "Key" in item]
        return Answer(
            frozenset(item["Key"] for item in gone),
            frozenset(item["Key"] for item in gone if item.get("DeleteMarker")),
            {
                item["Key"]: (str(item.get("Code", "Unknown")), str(item.get("Message", "")))
                for item in found.get("Errors", ())
                if "Key" in item
            },
        )


def looked_at(store: ObjectStore, files: BatchFiles) -> tuple[dict[str, FileOutcome], list[Present]]:
    """What is settled by looking (absent, changed, cannot be looked at), and what is there as it was listed."""
    outcomes: dict[str, FileOutcome] = {}
    ready: list[Present] = []
    unseen: list[Present] = []
    start = len(f"{store.scheme}://{store.bucket}/")
    keys = [uri[start:] for uri in files.uris]
    for place, (uri, found) in enumerate(zip(files.uris, look(store, keys), strict=True)):
        if isinstance(found, Exception):
            outcomes[uri] = _cannot_look(uri, found)
        elif found is None:
            unseen.append(Present(uri, keys[place], None))
        elif differs(files[place], found):
            outcomes[uri] = FileOutcome(uri, Outcome.CHANGED)
        else:
            ready.append(Present(uri, keys[place], found.etag))
    for (uri, _, _), gone in zip(unseen, _proven_gone(store, unseen), strict=True):
        outcomes[uri] = _cannot_look(uri, gone) if isinstance(gone, Exception) else FileOutcome(uri, Outcome.ABSENT)
    return outcomes, ready


def settled(store: ObjectStore, ready: Sequence[Present], answer: Answer, gone: Outcome) -> list[FileOutcome]:
    """One outcome for each object of a call, in order. All of them were there just before it.

    What the store did not name is looked at: a body that is empty, cut or another server's proves nothing. Gone after
    our own call counts as gone by our hand, also if the store says that nobody was there: something on the way may have
    sent the call twice, and the second answer is about what the first one did.
    """
    if not answer.refused and len(answer.deleted) == len(ready) and all(key in answer.deleted for _, key, _ in ready):
        if not answer.hidden:
            return [FileOutcome(uri, gone) for uri, _, _ in ready]
        return [FileOutcome(uri, Outcome.HIDDEN if key in answer.hidden else gone) for uri, key, _ in ready]
    unnamed = [present for present in ready if present.key in answer.refused or present.key not in answer.deleted]
    left = dict(zip((present.key for present in unnamed), _after(store, unnamed), strict=True))
    return [_outcome(present, answer, left, gone) for present in ready]


def _outcome(present: Present, answer: Answer, left: Mapping[str, bool | Exception], gone: Outcome) -> FileOutcome:
    uri, key, _ = present
    if key not in left:
        return FileOutcome(uri, Outcome.HIDDEN if key in answer.hidden else gone)
    there = left[key]
    if there is False:
        return FileOutcome(uri, gone, None, None if answer.failure is None else _GONE_BY_US)
    if key in answer.refused:
        code, message = answer.refused[key]
        # Its store found another object than the one that was looked at, and it is there: it has changed.
        return FileOutcome(uri, Outcome.CHANGED, code, message) if code in _OTHER_TAG else failed(uri, code, message)
    if isinstance(there, Exception):
        return _cannot_look(uri, there)
    if answer.failure is not None:
        return failed(
            uri, StoreUnavailableError.code, unavailable(answer.failure, "the delete").message + "; the file is there"
        )
    return failed(
        uri,
        UnconfirmedDeleteError.code,
        "the store answered the delete without naming this file, and the file is there",
    )


def _after(store: ObjectStore, unnamed: Sequence[Present]) -> list[bool | Exception]:
    """Whether each object is there after the call: True, False, or why nobody can tell."""
    found = store.head_many([present.key for present in unnamed])
    missing = [present for present, stat in zip(unnamed, found, strict=True) if stat is None]
    proven = dict(zip((present.key for present in missing), _proven_gone(store, missing), strict=True))
    answers: list[bool | Exception] = []
    for present, stat in zip(unnamed, found, strict=True):
        if isinstance(stat, Exception):
            answers.append(stat)
        elif stat is not None:
            answers.append(True)
        else:
            gone = proven[present.key]
            answers.append(gone if isinstance(gone, Exception) else False)
    return answers


def _proven_gone(store: ObjectStore, missing: Sequence[Present]) -> list[bool | Exception]:
    """True for each object that its store denies by name, or why that is not proven.

    A bucket that is away for a moment, or a gateway in its place, answers "not found" as well.
    """
    if not missing:
        return []
    if store.s3 is not None:
        return store.s3.denied_by_name([present.key for present in missing])
    try:
        there = store.exists_root()
    except Exception as error:
        return [error] * len(missing)
    lost = MissingStoreError(f"{store!r} is not there; whether the file is, nobody can tell")
    return [True if there else lost] * len(missing)


def failed(uri: str, code: str, message: str) -> FileOutcome:
    return FileOutcome(uri, Outcome.FAILED, code, message)


def _cannot_look(uri: str, error: Exception) -> FileOutcome:
    return failed(uri, getattr(error, "code", StoreUnavailableError.code), getattr(error, "message", str(error)))
