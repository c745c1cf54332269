"""JSON that others wrote: what is within the bounds is as `json` reads it, what is beyond them is refused by that name."""

from __future__ import annotations

import gzip
import json

import pytest

from lakewarden.foreign.json_text import DEEPEST, instant_ms, integer, integer_text, read_json, read_object
from lakewarden.model.errors import BoundsError, UnreadableMetadataError
from tests.foreign.bounds import within

BEYOND = {
    "thirty digits": b'{"a": 123456789012345678901234567890}',
    "five thousand digits": b'{"a": ' + b"9" * 5000 + b"}",
    "one more than 64 bits": b'{"a": 9223372036854775808}',
    "one less than 64 bits": b'{"a": -9223372036854775809}',
    "infinity": b'{"a": Infinity}',
    "less than nothing": b'{"a": [-Infinity]}',
    "not a number": b'{"a": NaN}',
    "too large a fraction": b'{"a": 1e999}',
    "half a character": b'{"a": "x\\ud800y"}',
    "the other half": b'{"a": ["\\uDFFF"]}',
    "half a character in a name": b'{"\\ud800": 1}',
    "a NUL": b'{"a": "x\\u0000"}',
    "a name twice": b'{"a": 1, "b": {"c": 1, "c": 1}}',
    "deep lists": b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "deep objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "just too deep": b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
    "too many values": b"{" + b'"a": [' + b"[]," * 9_000_000 + b"[]]}",
}
GARBAGE = {
    "nothing": b"",
    "cut": b'{"a": 1',
    "not UTF-8": b'{"a": "\xff"}',
    "half a character as bytes": b'{"a": "\xed\xa0\x80"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a raw control character": b'{"a": "x\x01"}',
    "a raw NUL": b'{"a": "x\x00"}',
    "more behind it": b'{"a": 1} {"a": 1}',
    "a list": b"[1]",
    "a number": b"7",
}


@pytest.mark.parametrize("case", BEYOND)
def test_what_is_beyond_the_bounds_is_refused_by_that_name(case: str) -> None:
    with pytest.raises(BoundsError) as refused:
        read_object(BEYOND[case], "s3://b/t/metadata/x.metadata.json")
    assert refused.value.code == "LW-TABLE-010"
    assert "s3://b/t/metadata/x.metadata.json" in refused.value.message
    assert len(refused.value.message) < 300
    refused.value.message.encode()


@pytest.mark.parametrize("case", GARBAGE)
def test_what_is_no_object_is_unreadable(case: str) -> None:
    with pytest.raises(UnreadableMetadataError) as refused:
        read_object(GARBAGE[case], "x")
    assert refused.value.code == "LW-TABLE-001"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, -1, 9223372036854775807, -9223372036854775808, 1.5, true, null, "x"]}',
        '{"a": "\\ud83d\\ude00 \\u00e9 \\\\u0000 \\n", "b": "é😀"}',
        "[" * DEEPEST + "]" * DEEPEST,
        '{"a": {}, "b": {"a": {}}}',
    ],
)
def test_within_the_bounds_nothing_is_changed(text: str) -> None:
    assert read_json(text.encode(), "x") == json.loads(text)
    assert read_json(gzip.compress(text.encode()), "x") == json.loads(text)
    two = gzip.compress(text[:5].encode()) + gzip.compress(text[5:].encode()) + b"\0" * 8
    assert read_json(two, "x") == json.loads(text)


def test_a_few_kilobytes_that_would_be_gigabytes_are_not_unpacked() -> None:
    bomb = gzip.compress(b'{"a": "' + b" " * (200 << 20) + b'"}')
    assert len(bomb) < 300_000
    with within(10, 80):
        with pytest.raises(BoundsError, match="unpacked"):
            read_object(bomb, "x", most_bytes=1 << 20)
        with pytest.raises(BoundsError, match="unpacked"):
            read_object(gzip.compress(b" " * 1_000_000) * 90, "x", most_bytes=20 << 20)
        with pytest.raises(UnreadableMetadataError, match="members"):
            read_object(gzip.compress(b"") * 100_000, "x")


def test_a_large_document_is_beyond_the_bounds_before_it_is_parsed() -> None:
    with pytest.raises(BoundsError, match="bytes, more than"):
        read_object(b'{"a": "' + b"x" * 1000 + b'"}', "x", most_bytes=1000)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1], 2**63, -(2**63) - 1])
def test_only_a_whole_number_is_one(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        integer(value)


@pytest.mark.parametrize("value", ["", " 1", "1_0", "1.0", "١", "9" * 19, "9" * 5000, "0x1", True, 1.0, None])
def test_a_number_as_text_is_digits(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        integer_text(value)


def test_numbers_and_instants_that_can_be() -> None:
    assert integer(-(2**63)) == -(2**63)
    assert integer_text("12") == integer_text(12) == 12
    assert instant_ms(1_700_000_000_000) == 1_700_000_000_000
    for never in (10**15, -(10**15), 2**62):
        with pytest.raises(ValueError, match="no instant"):
            instant_ms(never)
