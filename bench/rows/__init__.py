"""One module a kind of work. Each row is a function from a Bench to the lines it adds to the table."""

from __future__ import annotations

from collections.abc import Callable

from bench.bench import Bench
from bench.measure import Row
from bench.rows import (
    applies,
    audit,
    buckets,
    cluster,
    cold,
    compaction,
    deletes,
    doubt,
    expiry,
    gateway,
    leases,
    local,
    memory,
    night,
    nightly,
    paimon,
    service,
    startup,
)

# In the order in which they are measured; `BY_NAME_ONLY` takes too long for every run.
ROWS: dict[str, Callable[[Bench], list[Row]]] = {
    "startup": startup.startup,
    "one": local.one,
    "fleet100": local.fleet100,
    "fleet1000": local.fleet1000,
    "scheduled": nightly.scheduled,
    "unchanged": nightly.unchanged,
    "night": night.night,
    "doubt": doubt.doubt,
    "gateway": gateway.gateway_rows,
    "s3-one": buckets.one,
    "s3-fleet100": buckets.fleet100,
    "expiry-fleet100": expiry.fleet100,
    "expiry-one": expiry.one,
    "paimon-orphans-one": paimon.orphans_one,
    "paimon-orphans-fleet100": paimon.orphans_fleet100,
    "paimon-expiry-one": paimon.expiry_one,
    "paimon-expiry-fleet100": paimon.expiry_fleet100,
    "compaction": compaction.compaction,
    "deletes": deletes.deletes,
    "applies": applies.applies,
    "audit": audit.audit,
    "cluster": cluster.cluster,
    "cold": cold.cold,
    "leases": leases.leases,
    "memory": memory.memory,
    "service": service.service,
    "million": local.million,
    "tables": nightly.tables,
    "roots": nightly.roots,
}
BY_NAME_ONLY = ("million", "tables", "roots")
