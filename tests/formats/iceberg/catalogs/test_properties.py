"""Properties that describe no catalog are a mistake of the configuration, told in its words and not in a library's."""

from __future__ import annotations

import pytest
from requests.exceptions import ConnectionError

from lakewarden.formats.iceberg.catalog import connection
from lakewarden.formats.iceberg.catalog.connection import Connection
from lakewarden.model.errors import ConfigError


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"type": "banana", "uri": "x"}, "catalog prod has type = 'banana' (allowed: "),
        ({}, "catalog prod lacks `uri` (PyIceberg needs it)"),
        ({"warehouse": "s3://b/w"}, "catalog prod lacks `uri` (PyIceberg needs it)"),
        ({"type": "sql"}, "catalog prod lacks `uri` (type = 'sql' needs it)"),
        ({"type": "REST"}, "catalog prod lacks `uri` (type = 'rest' needs it)"),
        ({"uri": "nonsense"}, "catalog prod does not say its type, nor does its uri (allowed: "),
    ],
)
def test_what_is_wrong_is_named(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Connection("prod", properties).catalog()
    assert caught.value.message.startswith(said)
    assert caught.value.message.endswith("; nothing was planned or changed")
    assert caught.value.hint == "Correct properties of [catalogs.prod]."


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg import catalog
    from pyiceberg.exceptions import NotInstalledError

    def missing(*_: object, **__: object) -> None:
        raise NotInstalledError("Apache Hive support not installed: pip install 'pyiceberg[hive]'")

    monkeypatch.setattr(catalog, "load_catalog", missing)
    with pytest.raises(ConfigError, match="pip install 'pyiceberg\\[hive\\]'"):
        connection.connect("prod", {"type": "hive", "uri": "thrift://127.0.0.1:1"})


def test_properties_may_stand_in_pyicebergs_own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__ELSEWHERE__URI", "http://127.0.0.1:1")
    with pytest.raises(ConnectionError):
        Connection("elsewhere", {"type": "rest"}).catalog()
