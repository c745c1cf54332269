"""What a store did not say by name is looked at before it is recorded, and what our own call took is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lakewarden.model.ports import JournalFile
from lakewarden.storage.delete import delete
from lakewarden.storage.stores import Stores
from tests.storage.test_delete import Turned, listed, permit, run
from tests.support.fault_proxy import FAULTS, Answer, FaultProxy, Request, Send, edited, fault_proxy, method
from tests.support.storage import SHARED, Seaweed

NAMES = ("a b", "d/c%20d", "é")
DELETES = method("POST", query="delete")
NO_BUCKET = Answer(
    404, (("Content-Type", "application/xml"),), b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code></Error>"
)


@dataclass
class Behind:
    """Three objects in a store behind the proxy."""

    proxy: FaultProxy
    stores: Stores
    root: str
    files: list[JournalFile]

    def there(self) -> set[str]:
        return {file.uri.removeprefix(self.root) for file in listed(self.stores, self.root)}

    def run(self) -> dict[str, tuple[str, str | None]]:
        found = delete(permit(self.root, self.files), self.stores, self.files, Turned(), concurrency=1)
        return {outcome.uri.removeprefix(self.root): (outcome.outcome, outcome.code) for outcome in found}


@pytest.fixture
def behind(seaweed: Seaweed) -> Iterator[Behind]:
    with fault_proxy(seaweed.endpoint) as proxy:
        stores = Stores({f"s3://{SHARED}": {**seaweed.options(), "endpoint": proxy.endpoint}})
        _, root = seaweed.fresh()
        for name in NAMES:
            stores.put(root + name, b"x")
        yield Behind(proxy, stores, root, listed(stores, root))


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("lost", ("deleted", None)),
        ("reset_after", ("deleted", None)),
        ("busy_after", ("deleted", None)),
        ("truncated", ("deleted", None)),
        ("empty_after", ("deleted", None)),
        ("repeated", ("deleted", None)),
        ("reset_before", ("failed", "LW-STORE-001")),
        ("busy_before", ("failed", "LW-STORE-001")),
        ("denied", ("failed", "LW-STORE-001")),
        ("empty_before", ("failed", "LW-STORE-005")),
        ("foreign_before", ("failed", None)),
    ],
)
def test_the_record_says_what_happened(behind: Behind, fault: str, outcome: tuple[str, str | None]) -> None:
    behind.proxy.on(DELETES, FAULTS[fault])
    found = behind.run()
    if fault == "foreign_before":
        found = {name: (kind, None) for name, (kind, _) in found.items()}
    assert found == dict.fromkeys(NAMES, outcome)
    assert behind.there() == (set(NAMES) if outcome[0] == "failed" else set())


def test_sixty_deletes_sent_twice_are_ours(behind: Behind) -> None:
    """The second answer says of each key that it is not there: as if somebody else were deleting."""
    for number in range(60):
        behind.stores.put(f"{behind.root}{number}", b"x")
    behind.files = listed(behind.stores, behind.root)
    behind.proxy.on(DELETES, FAULTS["repeated"], times=None)
    assert {outcome for outcome, _ in behind.run().values()} == {"deleted"}


def keyed(change: Callable[[bytes], bytes]) -> Callable[[Request, Send], Answer]:
    return edited(lambda answer: Answer(answer.status, answer.headers, change(answer.body)))  # type: ignore[return-value]


def test_an_error_for_a_key_in_another_spelling_is_nobodys(behind: Behind) -> None:
    error = b"<Error><Key>d/c d</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    behind.proxy.on(DELETES, keyed(lambda body: body.replace(b"</DeleteResult>", error)))
    assert behind.run() == dict.fromkeys(NAMES, ("deleted", None))


def test_names_in_another_spelling_are_looked_at(behind: Behind) -> None:
    behind.proxy.on(DELETES, keyed(lambda body: body.replace(b"<Key>", b"<Key>/")))
    assert behind.run() == dict.fromkeys(NAMES, ("deleted", None))


def away(_request: Request, _send: Send) -> Answer:
    return NO_BUCKET


def test_a_bucket_that_is_away_for_the_delete_loses_no_file(behind: Behind) -> None:
    """Its HEAD says 404 of every key as well, and the look at the bucket itself comes too late or too early."""
    behind.proxy.on(DELETES, away)
    behind.proxy.on(method("HEAD", path=behind.root.split("/", 3)[3]), away, times=None)
    behind.proxy.on(method("GET", path=behind.root.split("/", 3)[3]), away, times=None)
    assert {outcome for outcome, _ in behind.run().values()} == {"failed"}
    behind.proxy.clear()
    assert behind.there() == set(NAMES)


def test_a_bucket_that_is_away_for_the_look_makes_no_file_absent(behind: Behind) -> None:
    behind.proxy.on(method("GET", query="list-type"), away, times=None)
    behind.proxy.on(method("HEAD", path=behind.root.split("/", 3)[3]), away, times=None)
    behind.proxy.on(method("GET", path=behind.root.split("/", 3)[3]), away, times=None)
    assert {outcome for outcome, _ in behind.run().values()} == {"failed"}
    behind.proxy.clear()
    assert behind.there() == set(NAMES)


def test_an_object_written_again_with_the_same_bytes_is_changed(seaweed: Seaweed) -> None:
    """The same tag, and seconds old: somebody needs it now."""
    import time

    stores, root = seaweed.fresh()
    stores.put(root + "f", b"x")
    files = listed(stores, root)
    time.sleep(1.1)
    stores.put(root + "f", b"x")
    assert run(stores, root, files) == {"f": "changed"}
    assert stores.get(root + "f") == b"x"


def test_a_listing_that_has_more_and_does_not_say_where_is_an_error(behind: Behind) -> None:
    from lakewarden.model.errors import StoreUnavailableError

    def cut(body: bytes) -> bytes:
        return body.replace(b"<IsTruncated>false", b"<IsTruncated>true")

    behind.proxy.on(method("GET", query="list-type"), keyed(cut), times=None)
    store = behind.stores.at(behind.root)
    with pytest.raises(StoreUnavailableError, match="not where"):
        store.children(behind.root.split("/", 3)[3])
