"""What a commit's body would bring into a table, however it is written."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from lakewarden.gateway.commits import Change, changes_in
from lakewarden.model.errors import GatewayRequestError

MOST = 1 << 20
SNAPSHOT = {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "summary": {"operation": "append"}}}


def read(document: Any, encoding: str = "") -> list[Change]:
    return changes_in(document if isinstance(document, bytes) else json.dumps(document).encode(), encoding, MOST)


def test_every_new_snapshot_is_seen_and_what_becomes_of_the_properties() -> None:
    (found,) = read(
        {
            "updates": [
                SNAPSHOT,
                {"action": "ADD-Snapshot", "snapshot": {"snapshot-id": 2}},
                {"action": " add_snapshot", "snapshot": {"snapshot-id": 3}},
                {"action": "set-properties", "updates": {"a": "1", "b": "2"}},
                {"action": "remove-properties", "removals": ["c"]},
                {"action": "set-snapshot-ref", "ref-name": "main"},
            ]
        }
    )
    assert found.summaries == ({"operation": "append"}, {}, {})
    assert found.properties_after({"a": "0", "c": "3", "d": "4"}) == {"a": "1", "b": "2", "d": "4"}


def test_the_tables_of_a_transaction_are_named_by_it() -> None:
    one = {"identifier": {"namespace": ["a", "b"], "name": "t"}, "requirements": [], "updates": [SNAPSHOT]}
    (found,) = read({"table-changes": [one]})
    assert found.names == ("a", "b", "t")
    assert len(found.summaries) == 1
    assert [len(change.summaries) for change in read({"updates": [SNAPSHOT], "table-changes": [one, one]})] == [1, 1, 1]


def test_what_is_no_commit_has_no_changes() -> None:
    assert read({"removals": [], "updates": {"owner": "ana"}}) == []
    assert read({"name": "t", "schema": {}, "stage-create": True}) == []


def test_what_a_writer_says_of_itself_may_have_any_name() -> None:
    said = {"operation": "append", "Name": "n", "Updates": "u", "snap-shot": "s"}
    update = {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "summary": said}}
    (found,) = read(
        {"updates": [update, {"action": "set-properties", "updates": {"Summary": "x", "table_changes": "y"}}]}
    )
    assert found.summaries == (said,)
    assert found.set_properties == {"Summary": "x", "table_changes": "y"}


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("Deflate", zlib.compress)])
def test_a_packed_body_is_unpacked(encoding: str, pack: Any) -> None:
    (found,) = read(pack(json.dumps({"updates": [SNAPSHOT]}).encode()), encoding)
    assert found.summaries


BAD = {
    "no JSON": b"{",
    "no object": b"[]",
    "two documents": b'{"updates": []}{"updates": []}',
    "a key twice": b'{"updates": [], "updates": []}',
    "a key twice, escaped": b'{"updates": [], "upd\\u0061tes": []}',
    "an inner key twice": b'{"updates": [{"action": "x", "action": "add-snapshot"}]}',
    "not UTF-8": b'{"updates": [], "x": "\xff"}',
    "UTF-16": '{"updates": []}'.encode("utf-16"),
    "an order mark": b'\xef\xbb\xbf{"updates": []}',
    "nested deeply": b'{"updates": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    "nested beyond the bounds": b'{"x": ' + b"[" * 300 + b"]" * 300 + b"}",
    "not a number": b'{"updates": [], "x": NaN}',
    "an update that is none": b'{"updates": [1]}',
    "a snapshot that is none": b'{"updates": [{"action": "add-snapshot", "snapshot": 1}]}',
    "a summary that is none": b'{"updates": [{"action": "add-snapshot", "snapshot": {"summary": [1]}}]}',
    "a value that is no text": b'{"updates": [{"action": "add-snapshot", "snapshot": {"summary": {"writer.id": 1}}}]}',
    "updates under another name": b'{"Updates": [{"action": "add-snapshot"}]}',
    "tables under another name": b'{"table_changes": []}',
    "an action under another name": b'{"updates": [{"ACTION": "add-snapshot"}]}',
    "a snapshot under another name": b'{"updates": [{"action": "add-snapshot", "snap-shot": {}, "snapshot": {}}]}',
    "a summary under another name": b'{"updates": [{"action": "add-snapshot", "snapshot": {"Summary": {}}}]}',
    "a table under another name": b'{"table-changes": [{"identifier": {"Name": "t", "namespace": ["a"]}}]}',
    "an action in a list": b'{"updates": [{"action": ["add-snapshot"]}]}',
    "too many values": b'{"x": [' + b"[]," * 9_000_000 + b"[]]}",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_what_cannot_be_judged_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(GatewayRequestError, match=r"it was not passed on"):
        changes_in(body, "", 64 << 20)


PACKED = {
    "a bomb": ("gzip", gzip.compress(b" " * (MOST + 1))),
    "cut off": ("gzip", gzip.compress(b'{"updates": []}')[:-4]),
    "two members": ("gzip", gzip.compress(b'{"updates": []}') * 2),
    "something else": ("gzip", b'{"updates": []}'),
    "an unknown encoding": ("br", b"x"),
    "two encodings": ("gzip, gzip", gzip.compress(gzip.compress(b"{}"))),
    "packed twice": ("gzip", gzip.compress(gzip.compress(b'{"updates": []}'))),
}


@pytest.mark.parametrize(("encoding", "body"), PACKED.values(), ids=PACKED)
def test_a_packed_body_that_is_not_what_it_says_is_refused(encoding: str, body: bytes) -> None:
    with pytest.raises(GatewayRequestError):
        changes_in(body, encoding, MOST)
