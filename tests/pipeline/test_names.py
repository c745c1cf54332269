"""A column of addresses is spelled as single addresses are: otherwise a live file would look like an orphan."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.model.uri import SCHEME_CLASSES, canonical
from lakewarden.pipeline.names import canonical_column, file_names

KEYS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)
SCHEMES = st.sampled_from([*SCHEME_CLASSES, "S3A", "GS", "Abfss"])
LOCAL = st.sampled_from(
    ["file:/", "file:///", "file:////", "/", "//", "FILE:/", "file://localhost/", "file:///localhost/"]
)
BUCKETS = st.sampled_from(["bucket", "Bucket-2", "c@account.dfs.core.windows.net"])


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
    assert found == [canonical(value) for value in values]


@settings(deadline=None, max_examples=300)
@given(addresses())
def test_a_canonical_address_stays_as_it_is(value: str) -> None:
    assert canonical(canonical(value)) == canonical(value)


def test_nothing_in_a_key_is_decoded() -> None:
    keys = ["s3://b/a%20b", "s3://b/a b", "s3://b/a+b", "s3://b/a%2Fb", "s3://b/x#1", "s3://b//x", "s3a://b/a%20b"]
    found = canonical_column(pa.array(keys)).to_pylist()
    assert found == [*keys[:-1], "s3://b/a%20b"]


@pytest.mark.parametrize("value", ["data/x.parquet", "x", "file://host/x", "", "s3:/b/x", "s2://b/x", "s3:///x"])
def test_what_is_no_address_becomes_null_so_that_its_table_is_refused(value: str) -> None:
    """Left as it is, it would match no listed file, and the file it means would look like an orphan."""
    assert canonical_column(pa.array(["s3://b/x", value])).to_pylist() == ["s3://b/x", None]
    assert canonical_column(pa.array([value])).to_pylist() == [None]


def test_a_file_name_is_what_follows_the_last_slash() -> None:
    assert file_names(pa.array(["s3://b/a/b.parquet", "x", "a/b/"])).to_pylist() == ["b.parquet", "x", ""]
