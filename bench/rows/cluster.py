"""Plans on a real standalone cluster of one-core executors: with two of them beside one."""

from __future__ import annotations

import json
import sys

from bench.bench import Bench, command
from bench.lakes import Lake, local_lake
from bench.measure import Figures, Row, Sample, load
from bench.ours import Deployment
from tests.support.cluster import HOST, standalone, this_environment

LAKES = ("million", "fleet1000")
# The driver needs a core as well, and this machine has two.
TARGET = 1.0
SPARK = f"""\
master = "{{master}}"
conf = {{{{ "spark.cores.max" = "{{executors}}", "spark.executor.memory" = "900m", "spark.driver.host" = "{HOST}" }}}}"""


def cluster(bench: Bench) -> list[Row]:
    """The same first plans by one executor and by two, each in a process of its own that is warm."""
    rows = []
    with standalone(bench.scratch / "cluster", this_environment()) as running:
        for kind in LAKES:
            lake = local_lake(bench.scratch, kind, bench.shrink)
            began = load()
            one, two = (_planned(bench, lake, SPARK.format(master=running.master, executors=n)) for n in (1, 2))
            work = f"plan of {lake.shape.tables:,} tables of {lake.shape.data_files:,} files by 2 executors, against 1"
            note = "executors of one core, which they share with the driver: this machine has two"
            rows.append(
                Row(f"cluster-{kind}", work, two, one, one.value / two.value, TARGET, (began, load()), note=note)
            )
    return rows


def _planned(bench: Bench, lake: Lake, spark: str) -> Figures:
    deployments = [Deployment.fresh(lake, bench.scratch, spark=spark) for _ in range(1 + bench.repeat)]
    text = command(sys.executable, "-m", "bench.plans", *(deployment.config for deployment in deployments))
    for deployment in deployments:
        deployment.discard()
    told = json.loads(text.splitlines()[-1])
    return Figures.of([Sample(each["seconds"], each["stages"]) for each in told[1:]])
