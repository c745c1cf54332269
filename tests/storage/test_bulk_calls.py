"""The delete of many keys, written and read by hand: the same request and the same answer as the client's own."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from lakewarden.storage.answers import Answer
from lakewarden.storage.bulk_calls import body_of, by_hand, sending
from lakewarden.storage.delete import delete
from lakewarden.storage.stores import Stores
from tests.storage.test_delete import Turned, listed, permit
from tests.support.fault_proxy import fault_proxy
from tests.support.seaweed import s3_client
from tests.support.storage import SHARED, Seaweed

NAMES = ["a b", "c%20d", "é", "<&>\"'", "100%+#1", "日本", "x]]>y", "-–-"]


def described(body: bytes) -> list[tuple[str, str | None]]:
    root = ET.fromstring(body)
    space = root.tag.removesuffix("Delete")
    return [(str(item.findtext(f"{space}Key")), item.findtext(f"{space}ETag")) for item in root.iter(f"{space}Object")]


@pytest.mark.parametrize("tag", ['"0123456789abcdef0123456789abcdef"', "bare", None])
def test_the_request_says_what_the_clients_own_says(seaweed: Seaweed, tag: str | None) -> None:
    objects = [(name, tag) for name in NAMES]
    with fault_proxy(seaweed.endpoint) as proxy:
        client = s3_client(proxy.endpoint, seaweed.access_key, seaweed.secret_key)
        theirs: list[dict[str, Any]] = [{"Key": key, **({"ETag": tag} if tag else {})} for key, tag in objects]
        client.delete_objects(Bucket=SHARED, Delete={"Objects": theirs, "Quiet": False})
        (request,) = proxy.seen(lambda _: True)
    assert described(body_of(objects)) == described(request.body) == objects


def test_odd_names_go_and_are_named(seaweed: Seaweed) -> None:
    stores, root = seaweed.fresh()
    for name in NAMES:
        stores.put(root + name, b"x")
    files = listed(stores, root)
    with fault_proxy(seaweed.endpoint) as proxy:
        behind = Stores({f"s3://{SHARED}": {**seaweed.options(), "endpoint": proxy.endpoint}})
        found = delete(permit(root, files), behind, files, Turned(), concurrency=1)
        assert {(outcome.outcome, outcome.message) for outcome in found} == {("deleted", None)}
        # All of them by their names: nobody had to be looked at afterwards.
        asked = [request.method for request in proxy.seen(lambda _: True)]
        assert asked[asked.index("POST") :] == ["POST"]
    assert listed(stores, root) == []


def test_the_answer_is_read_like_the_clients_own(seaweed: Seaweed) -> None:
    bucket, plain = seaweed.bucket(), seaweed.client()
    plain.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    mine = by_hand(seaweed.client())
    answers = []
    for client in (plain, mine):
        for name in "ab":
            plain.put_object(Bucket=bucket, Key=name, Body=b"x")
        objects = [("a", None), ("b", '"other"')]
        named = [{"Key": key, **({"ETag": tag} if tag else {})} for key, tag in objects]
        with sending(body_of(objects)):
            answers.append(Answer.of(client.delete_objects(Bucket=bucket, Delete={"Objects": named, "Quiet": False})))
    theirs, ours = answers
    assert (ours.deleted, ours.hidden) == (theirs.deleted, theirs.hidden)
    assert {key: code for key, (code, _) in ours.refused.items()} == {k: c for k, (c, _) in theirs.refused.items()}
    assert "a" in ours.hidden


def test_a_client_that_does_not_let_its_body_be_written_deletes_one_and_says_so(
    seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakewarden.storage import s3

    monkeypatch.setattr(s3, "by_hand", lambda client: client)
    bucket = seaweed.bucket()
    stores, root = Stores({f"s3://{bucket}": {**seaweed.options(), "region": "us-west-1"}}), f"s3://{bucket}/t/"
    for name in "abc":
        stores.put(root + name, b"x")
    files = listed(stores, root)
    found = delete(permit(root, files), stores, files, Turned(), concurrency=1)
    assert [(o.outcome, o.code) for o in found] == [("deleted", None)] + [("failed", "LW-STORE-005")] * 2
    assert len(listed(stores, root)) == 2
