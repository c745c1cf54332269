"""A column of addresses is spelled as single addresses are: otherwise a live file would look like an orphan."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.model import uri
from lakewarden.model.uri import SCHEME_CLASSES, canonical, is_address
from lakewarden.pipeline.read.names import canonical_column, file_names

KEYS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)
SCHEMES = st.sampled_from([*SCHEME_CLASSES, "S3A", "GS", "Abfss"])
LOCAL = st.sampled_from(
    ["file:/", "file:///", "file:////", "/", "//", "FILE:/", "file://localhost/", "file:///localhost/"]
)
BUCKETS = st.sampled_from(
    ["bucket", "Bucket-2", "c@account.dfs.core.windows.net", "c@account.blob.core.windows.net", "c@a.blob.b.blob.c"]
)


@st.composite
def addresses(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        # `file:/` and a key that begins with a slash would name a host.
        return draw(LOCAL) + draw(KEYS.filter(lambda key: not key.startswith("/")))
    scheme = draw(SCHEMES.filter(lambda s: s.lower() != "file"))
    return f"{scheme}://{draw(BUCKETS)}/{draw(KEYS)}"


@settings(deadline=None, max_examples=300)
@given(st.lists(addresses(), max_size=6))
def test_a_column_is_spelled_as_its_values_are_one_by_one(values: list[str]) -> None:
    found = canonical_column(pa.array(values, pa.string())).to_pylist()
    assert found == [one_by_one(value) for value in values]


@settings(deadline=None, max_examples=300)
@given(st.text("a./:", max_size=8))
def test_steps_out_of_the_way_are_found_in_a_column_as_in_one_address(path: str) -> None:
    value = f"file:///{path}"
    assert canonical_column(pa.array([value])).to_pylist() == [one_by_one(value)]
    assert canonical_column(pa.array([value, "s3a://b/x"])).to_pylist() == [one_by_one(value), "s3://b/x"]


@settings(deadline=None, max_examples=300)
@given(addresses().filter(is_address))
def test_a_canonical_address_stays_as_it_is(value: str) -> None:
    assert canonical(canonical(value)) == canonical(value)


def one_by_one(value: str) -> str | None:
    return canonical(value) if is_address(value) else None


def test_nothing_in_a_key_is_decoded() -> None:
    keys = ["s3://b/a%20b", "s3://b/a b", "s3://b/a+b", "s3://b/a%2Fb", "s3://b/x#1", "s3://b//x", "s3a://b/a%20b"]
    found = canonical_column(pa.array(keys)).to_pylist()
    assert found == [*keys[:-1], "s3://b/a%20b"]


@pytest.mark.parametrize("value", ["data/x.parquet", "x", "file://host/x", "", "s3:/b/x", "s2://b/x", "s3:///x"])
def test_what_is_no_address_becomes_null_so_that_its_table_is_refused(value: str) -> None:
    """Left as it is, it would match no listed file, and the file it means would look like an orphan."""
    assert canonical_column(pa.array(["s3://b/x", value])).to_pylist() == ["s3://b/x", None]
    assert canonical_column(pa.array([value])).to_pylist() == [None]


@pytest.mark.parametrize("path", ["/a//b", "/a/./b", "/./a/b", "/a///b", "/a/.//./b"])
def test_steps_on_the_spot_lead_nowhere(path: str) -> None:
    assert canonical_column(pa.array([path, "/a/b"])).to_pylist() == ["file:///a/b", "file:///a/b"]
    assert canonical_column(pa.array([f"file://{path}"])).to_pylist() == ["file:///a/b"] == [canonical(path)]


@pytest.mark.parametrize("path", ["/a/../b", "/a/..", "/../a", "/a//../b"])
def test_a_disk_address_with_a_step_out_of_the_way_is_nobodys(path: str) -> None:
    """The disk would show the file; its plain address, under which it is listed, may be any other one behind a link."""
    assert canonical_column(pa.array([path, "/a/b"])).to_pylist() == [None, "file:///a/b"]
    assert canonical_column(pa.array([f"file://{path}"])).to_pylist() == [None]
    assert not is_address(path)


@pytest.mark.parametrize("path", ["/a/.b", "/a/..b/c", "/a/...", "/a/b.", "/a/b../c"])
def test_dots_in_a_name_are_no_steps(path: str) -> None:
    assert canonical_column(pa.array([f"file://{path}"])).to_pylist() == [f"file://{path}"] == [canonical(path)]


def test_a_container_on_azure_has_one_name_under_both_of_its_hosts() -> None:
    both = ["wasbs://c@x.blob.core.windows.net/k.blob.", "abfss://c@x.dfs.core.windows.net/k.blob."]
    assert {canonical(one) for one in both} == {"abfs://c@x.dfs.core.windows.net/k.blob."}
    assert set(canonical_column(pa.array(both)).to_pylist()) == {"abfs://c@x.dfs.core.windows.net/k.blob."}


def test_a_file_name_is_what_follows_the_last_slash() -> None:
    assert file_names(pa.array(["s3://b/a/b.parquet", "x", "a/b/"])).to_pylist() == ["b.parquet", "x", ""]


def test_two_names_of_one_store_are_one_in_a_column_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uri, "_one_name", {"s3://alias.x": "s3://bucket"})
    texts = [
        "s3://alias.x/a",
        "s3a://alias.x/b",
        "s3://alias-x/c",
        "s3://alias.xy/d",
        "s3://bucket/e",
        "file:///alias.x/f",
    ]
    for values in (texts, texts[:1], texts[3:5]):
        found = canonical_column(pa.array(values)).to_pylist()
        assert found == [uri.canonical(text) for text in values]
    assert canonical_column(pa.array(texts)).to_pylist()[:4] == [
        "s3://bucket/a", "s3://bucket/b", "s3://alias-x/c", "s3://alias.xy/d",
    ]  # fmt: skip


def test_names_are_never_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uri, "_one_name", {})
    assert uri.names_digest() == ""
    uri.use_one_name({"s3://a": "s3://b"})
    uri.use_one_name({})
    assert uri.one_names() == {"s3://a": "s3://b"}
    assert uri.names_digest()
    with pytest.raises(ValueError, match="already"):
        uri.use_one_name({"s3://a": "s3://c"})
