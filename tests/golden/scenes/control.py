"""Commands that say who may work, and what no longer counts: `leases`, `freeze`, `unfreeze`, `abandon`, `forget`; and usage."""

from __future__ import annotations

import json

from lakewarden.ledger.group_leases import group_key
from lakewarden.model.lease import Work
from tests.golden.faults import lease_of_another
from tests.golden.moments import ANA
from tests.golden.scene import Stage, Words, scene

STRANGER = "0f8fad5b-d9cb-469f-a165-70867728950e"
LEASE = "root/file://{}/warehouse/sales/orders/"


@scene("leases/none")
def _(stage: Stage) -> Words:
    stage.at("new")
    return ("leases",)


@scene("leases/released")
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    return ("leases",)


@scene("leases/held")
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    stage.hold(lease_of_another(stage.lake, LEASE.format(stage.lake.base)))
    return ("leases",)


@scene("leases/groups")
def _(stage: Stage) -> Words:
    stage.at("cleaned")
    uuid = "33333333-3333-3333-3333-333333333333"
    work = Work("lake.sales.orders", uuid, "day=2026-01-14", "0", 2, 48, 9 << 20, "d" * 16, 7, "rewriting")
    stage.hold(lease_of_another(stage.lake, group_key(uuid, "0" * 16), work))
    return ("leases",)


@scene("leases/release")
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.hold(lease_of_another(stage.lake, LEASE.format(stage.lake.base)))
    return "leases", "--release", LEASE.format(stage.lake.base), "--reason", "night-2 is gone"


@scene("leases/release-without-reason", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "leases", "--release", "root/x"


@scene("leases/release-not-found", 10)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "leases", "--release", "root/x", "--reason", "gone"


@scene("freeze/done")
def _(stage: Stage) -> Words:
    stage.at("new")
    return "freeze", "--reason", "incident 12"


@scene("freeze/again")
def _(stage: Stage) -> Words:
    stage.at("new")
    with stage.lake.warden() as warden:
        warden.freeze(ANA, "incident 12")
    return "freeze", "--reason", "incident 13"


@scene("unfreeze/done")
def _(stage: Stage) -> Words:
    stage.at("new")
    with stage.lake.warden() as warden:
        warden.freeze(ANA, "incident 12")
    return ("unfreeze",)


@scene("unfreeze/not-frozen")
def _(stage: Stage) -> Words:
    stage.at("new")
    return ("unfreeze",)


@scene("forget/done")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "forget", "lake.sales.items", "--reason", "dropped on purpose", "--yes"


@scene("forget/asked", answer="y\n")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "forget", "lake.sales.items", "--reason", "dropped on purpose"


@scene("forget/not-found", 10)
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "forget", "lake.sales.nothing", "--reason", "dropped on purpose", "--yes"


@scene("abandon/done")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "abandon", _stranger(stage), "--reason", "its catalog is gone", "--yes"


@scene("abandon/asked-and-refused", 64, answer="n\n")
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "abandon", _stranger(stage)


@scene("abandon/nobody-to-ask", 64)
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "abandon", _stranger(stage)


@scene("abandon/listed", 4)
def _(stage: Stage) -> Words:
    stage.at("planned")
    with stage.lake.warden() as warden:
        [uuid] = [table["uuid"] for table in warden.tables() if table["identifier"] == "lake.sales.items"]
    return "abandon", uuid, "--yes"


@scene("abandon/not-found", 10)
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "abandon", STRANGER, "--yes"


@scene("abandon/undone")
def _(stage: Stage) -> Words:
    stage.at("planned")
    _stranger(stage)
    with stage.lake.warden() as warden:
        warden.abandon(STRANGER, "its catalog is gone", ANA)
    return "abandon", STRANGER, "--undo"


@scene("abandon/nothing-to-undo", 10)
def _(stage: Stage) -> Words:
    stage.at("planned")
    return "abandon", STRANGER, "--undo"


def _stranger(stage: Stage) -> str:
    """Metadata of a table that no catalog knows, in the directory of one that is known."""
    metadata = stage.lake.base / "warehouse/web/clicks/metadata"
    document = json.loads(next(metadata.glob("00001-*.metadata.json")).read_text())
    (metadata / "00001-of-a-stranger.metadata.json").write_text(json.dumps(document | {"table-uuid": STRANGER}))
    return STRANGER


@scene("usage/unknown-command", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return ("plam",)


@scene("usage/unknown-option", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "runs", "--lmit", "3"


@scene("usage/no-configuration", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    return "runs", "--config", "elsewhere.toml"


@scene("usage/wrong-setting", 64)
def _(stage: Stage) -> Words:
    stage.at("new")
    stage.setting("orphan_cleanup.batch_size", "many")
    return ("runs",)
