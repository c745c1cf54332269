"""The metrics of a deployment as Prometheus reads them, from what the ledger counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from lakewarden.ledger.counting import BUCKET, COUNT, INFINITE, SUM
from lakewarden.ledger.database import Ledger
from lakewarden.ledger.leases import GROUPS, Leases
from lakewarden.ledger.metrics import Counted, Labels, Standing
from lakewarden.ledger.run_status import over
from lakewarden.model import metrics
from lakewarden.model.errors import LakewardenError
from lakewarden.model.lease import LONGEST_LEASE_SECONDS
from lakewarden.model.margins import MARGINS
from lakewarden.model.metrics import METRICS, PREFIX, Metric, MetricKind
from lakewarden.model.policy import Job
from lakewarden.reports.whole_file import check_writable, write_whole

# How many tenants have a value of their own. What the others have is told as one, so that no lake makes series without end.
TENANTS = 100
OTHERS = "(others)"


class Deployment(Collector):
    """One deployment's metrics at one moment. `leases` is None where the store of the leases did not answer."""

    def __init__(self, counted: Counted, leases: int | None, release: str) -> None:
        self._release = release
        self._counted = counted
        self._leases = leases

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            if metric.kind is MetricKind.HISTOGRAM:
                yield self._histogram(metric)
            else:
                yield _family(metric, self._values(metric))

    def _values(self, metric: Metric) -> Iterable[tuple[Labels, float]]:
        if metric is metrics.BUILD:
            return [((self._release,), 1.0)]
        if metric is metrics.LEASES:
            return [] if self._leases is None else [((), float(self._leases))]
        if metric is metrics.RECLAIMABLE:
            return [
                ((one.job, one.format, one.tenant), float(one.reclaimable)) for one in bounded(self._counted.standings)
            ]
        if metric is metrics.ORPHAN_SHARE:
            swept = [one for one in self._counted.standings if one.job == Job.ORPHAN_CLEANUP]
            return [((one.format, one.tenant), one.reclaimable / max(1, one.listed)) for one in bounded(swept)]
        found = [(labels, value) for (name, labels), value in self._counted.sums.items() if name == metric.name]
        # What was never counted is told as 0 where that is one series: an alert on its growth needs a first value.
        return sorted(found) or ([] if metric.labels else [((), 0.0)])

    def _histogram(self, metric: Metric) -> Family:
        family = HistogramMetricFamily(PREFIX + metric.name, metric.says, labels=metric.labels)
        sums = self._counted.sums
        for labels in sorted(labels for name, labels in sums if name == metric.name + COUNT):
            buckets, so_far = [], 0.0
            for bound in (*(repr(float(bound)) for bound in metric.bounds), INFINITE):
                so_far += sums.get((metric.name + BUCKET, (*labels, bound)), 0.0)
                buckets.append((bound, so_far))
            family.add_metric(labels, buckets, sums.get((metric.name + SUM, labels), 0.0))
        return family


def exposition(ledger: Ledger, leases: Leases, now: datetime) -> bytes:
    """The metrics in Prometheus' text format."""
    return generate_latest(Deployment(ledger.metrics.read(), _held(leases, now), version("lakewarden")))


def write_textfile(out: str, text: bytes) -> None:
    """Put the metrics where node_exporter's textfile collector finds them. Raises UsageError if that is not possible."""
    path, what = Path(out), "metrics were"
    check_writable(path, what, "lakewarden.prom")
    write_whole(path, text, what)


def _held(leases: Leases, now: datetime) -> int | None:
    """How many leases are held and have not run out; None where their store does not answer.

    Leases are kept after their release, one for each root and run that there ever was. One that was not written to for
    longer than any lease lives is not held, so it is not read: a scrape costs what is at work, not what ever was.
    """
    since = now - timedelta(seconds=LONGEST_LEASE_SECONDS) - 2 * MARGINS.clock_skew
    try:
        records = leases.records("", GROUPS, since=since)
    except LakewardenError:
        return None
    return sum(record is not None and not over(record, now) for _, record in records)


def bounded(standings: Sequence[Standing]) -> list[Standing]:
    """The standings of the tenants with most bytes listed, and of all the others as one."""
    sizes: dict[str, int] = {}
    for one in standings:
        sizes[one.tenant] = max(sizes.get(one.tenant, 0), one.listed)
    shown = set(sorted(sizes, key=lambda tenant: (-sizes[tenant], tenant))[:TENANTS])
    found: dict[tuple[str, str, str], Standing] = {}
    for one in standings:
        named = one if one.tenant in shown else one._replace(tenant=OTHERS)
        before = found.get(named[:3])
        if before is not None:
            reclaimable, listed = before.reclaimable + one.reclaimable, before.listed + one.listed
            named = named._replace(reclaimable=reclaimable, listed=listed)
        found[named[:3]] = named
    return list(found.values())


def _family(metric: Metric, values: Iterable[tuple[Labels, float]]) -> Family:
    made = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = made(PREFIX + metric.name, metric.says, labels=metric.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family
