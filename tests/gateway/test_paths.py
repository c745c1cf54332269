"""Which requests may be commits, whatever their path looks like."""

from __future__ import annotations

import pytest

from lakewarden.gateway.paths import Kind, Place, is_odd, may_commit, names_in, place_of, table_path


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/v1/namespaces/db/tables/t", Place(Kind.TABLE, "/v1", "db", "t")),
        ("/v1/main%7Cwh/namespaces/a%1Fb/tables/t", Place(Kind.TABLE, "/v1/main%7Cwh", "a\x1fb", "t")),
        (
            "/iceberg/v1/catalogs/unity/namespaces/a/tables/t+1",
            Place(Kind.TABLE, "/iceberg/v1/catalogs/unity", "a", "t 1"),
        ),
        ("/v1/namespaces/db/tables/a%2Fb", Place(Kind.TABLE, "/v1", "db", "a/b")),
        ("/v1/p/transactions/commit", Place(Kind.TABLES, "/v1/p")),
        ("/v1/namespaces/db/tables", Place(Kind.OTHER)),
        ("/v1/namespaces/db/tables/t/metrics", Place(Kind.OTHER)),
        ("/v1/tables/rename", Place(Kind.OTHER)),
        ("/v1/%6Eamespaces/db/%74ables/t", Place(Kind.TABLE, "/v1", "db", "t")),
    ],
)
def test_the_tail_of_a_path_names_the_table(path: str, place: Place) -> None:
    assert place_of(path) == place
    assert may_commit(path)
    assert not is_odd(path)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/namespaces/db/tables/t/",
        "/v1//namespaces/db/tables/t",
        "/v1/x/../namespaces/db/tables/t",
        "/v1/x/%2e%2E/namespaces/db/tables/t",
        "/v1/namespaces/db/tables/x%2F..%2Ft",
        "/v1/namespaces/db/tables/t;v=1",
        "/v1/namespaces/db/tables;v=1/t",
        "/v1/namespaces/db/tables/t%3Bv=1",
        "/v1\\namespaces\\db\\tables\\t",
        "/v1/namespaces/db%252Ftables/x/tables/t",
        "/v1/namespaces%2Fdb%2Ftables%2Ft",
        "/v1/namespaces/a/tables/b%2Fnamespaces%2Fdb%2Ftables%2Ft",
        "/v1/x/tables/transactions%2Fcommit",
        "/v1/namespaces/db/tables/%FF",
        "/v1/namespaces/db/tables/t%00",
        "http://other/v1/namespaces/db/tables/t",
    ],
)
def test_what_two_servers_may_read_in_two_ways_is_odd(path: str) -> None:
    assert may_commit(path)
    assert is_odd(path)


@pytest.mark.parametrize("path", ["/v1/config", "/v1/oauth/tokens", "/v1/p/namespaces/db", "/v1/p/views/rename"])
def test_the_rest_is_nobodys_commit(path: str) -> None:
    assert not may_commit(path)


def test_a_table_is_asked_for_as_its_catalog_separates_names() -> None:
    assert table_path("/v1/p", ["a b", "c"], "t/1", "\x1f") == "/v1/p/namespaces/a%20b%1Fc/tables/t%2F1"
    assert names_in("a\x1fb", ".") == ["a", "b"]
    assert names_in("a.b", ".") == ["a", "b"]
    assert Place(Kind.TABLE, "", "a.b", "t").may_be(("a", "b", "t"), "\x1f")
    assert not Place(Kind.TABLE, "", "a.b", "t").may_be(("a", "c", "t"), "\x1f")
