"""What tests write into a configuration file is what a reader of TOML finds there."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.support.configuration import write_toml


def test_every_kind_of_value_is_read_back_as_it_was_given(tmp_path: Path) -> None:
    document = {
        "worker": {"id": 'größe "of" \\ all\t1'},
        "catalogs": {
            "lake": {"format": "iceberg", "properties": {"s3.endpoint": "http://x", "type": "sql"}},
            "a b": {},
        },
        "orphan_cleanup": {"share": 1.0, "dry_run": False, "inventory": {"s3://b/p": "file:///x"}, "names": ["a", "b"]},
        "spark": {"master": "local[2]", "conf": {"spark.driver.host": "h"}},
        "overrides": [{"match": "a.*", "orphan_cleanup": {"grace_period_hours": 3}}, {"match": "b.*"}],
    }
    written = write_toml(tmp_path / "new" / "lakewarden.toml", document)
    assert tomllib.loads(written.read_text(encoding="utf-8")) == document


def test_a_catalog_has_a_block_of_its_own(tmp_path: Path) -> None:
    """Tests rename catalogs in the file."""
    written = write_toml(tmp_path / "x.toml", {"catalogs": {"lake": {"format": "paimon"}}})
    assert written.read_text() == '[catalogs.lake]\nformat = "paimon"\n'
