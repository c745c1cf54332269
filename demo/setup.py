"""What every demo begins with: a lake of both formats in an empty directory, and a configuration that describes it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from demo import branches, lake, stream
from demo.lake import DemoLake
from demo.stream import DemoStream

NAME = "lakewarden.toml"
CONFIG = """\
[worker]
id = "demo"

[state]
location = "file://{base}/state"

[spark]
master = "local[2]"

[catalogs.demo]
format = "iceberg"
properties = {{ type = "sql", uri = "sqlite:///{base}/catalog.db", warehouse = "file://{base}/warehouse" }}

"""


def set_up(base: Path, policy: str) -> tuple[DemoLake, DemoStream | None]:
    """Build the lake, and write down where it is and how it is looked after."""
    # pypaimon has no release for the newest Pythons; the Iceberg half needs nothing of it.
    with_paimon = find_spec("pypaimon") is not None
    config = CONFIG + policy + branches.CONFIG + (stream.CONFIG if with_paimon else "")
    (base / NAME).write_text(config.format(base=base), encoding="utf-8")
    return lake.build(base), stream.build(base) if with_paimon else None
