"""The last moment: a gateway in front of a REST catalog, which lets no commit through that does not say who made it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError

import lakewarden
from demo.lake import CATALOG, DemoLake
from demo.rest import rest_catalog
from demo.terminal import Terminal, expect

TABLE = "shop.returns"
NAME = "gateway.toml"
CONFIG = """\
[gateway]
catalog = "{catalog}"
upstream = "{upstream}"
port = 0

[lineage]
required_keys = ["writer.id", "trigger.type"]
"""


def tell(base: Path, lake: DemoLake, terminal: Terminal) -> None:
    """A writer that goes through the gateway: without keys it is refused, with keys it commits."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = lake.catalog.create_table(TABLE, rows.schema)
    with rest_catalog(lake.catalog) as upstream:
        (base / NAME).write_text(CONFIG.format(catalog=CATALOG, upstream=upstream), encoding="utf-8")
        with terminal.listening("gateway", "--config", NAME) as address:
            client = load_catalog("through", type="rest", uri=address)
            refused = _refused(client.load_table(TABLE), rows)
            said = lakewarden.lineage("returns").properties()
            client.load_table(TABLE).append(rows, snapshot_properties=said)
    expect("writer.id is missing; trigger.type is missing" in refused, f"a commit without keys was told {refused!r}")
    made = table.refresh().snapshots()
    writers = [snapshot.summary["writer.id"] for snapshot in made if snapshot.summary is not None]
    expect(writers == ["returns"], f"the snapshots of {TABLE} are by {writers}")
    terminal.held("a commit without keys was refused, and told them; with keys it went through")


def _refused(table: object, rows: pa.Table) -> str:
    """What a writer without keys is told."""
    try:
        table.append(rows)  # type: ignore[attr-defined]
    except BadRequestError as error:
        return str(error)
    return ""
