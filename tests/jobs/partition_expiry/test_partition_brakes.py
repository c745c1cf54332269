"""How much of a table a plan may drop, in both formats: what pulls a brake, what lifts it, and what others do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField

from lakewarden.model.errors import NothingAppliedError
from lakewarden.model.run import RunResult
from lakewarden.model.verdict import Brake
from tests.formats.paimon.tables import Lake
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.deployments import Seen
from tests.support.lakes import local_path

JOB = "partition-expiry"
SHARE, EMPTIED = "LW-BRAKE-008", "LW-BRAKE-009"
OLD = [date(2024, 1, day) for day in (1, 2, 3, 4)]
NEW = [datetime.now(UTC).date() + timedelta(days=day) for day in range(4)]
# What each table holds: days, one for every row.
SHAPES = {
    "emptied": OLD[:3],
    "most": [*OLD[:3], NEW[0]],
    "heavy": [*[OLD[0]] * 9, *NEW[:3]],
    "half": [*OLD[:2], *NEW[:2]],
    "none": NEW[:2],
}


@dataclass
class Aging:
    """Tables of the same shape in an Iceberg catalog, `lake`, and in a Paimon one, `stream`."""

    site: Site
    catalog: Catalog
    stream: Lake

    def fill(self, namespace: str, *names: str) -> None:
        self.catalog.create_namespace(namespace)
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()))
        spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
        for name in names:
            days = SHAPES[name]
            table = self.catalog.create_table(f"{namespace}.{name}", schema, partition_spec=spec)
            table.append(pa.table({"id": pa.array(range(len(days)), pa.int64()), "day": days}))
            self.stream.create(name, database=namespace).write(*(day.isoformat() for day in days))

    def plan(self, namespace: str) -> Seen:
        return self.site.plan(JOB, f"lake.{namespace}.*", f"stream.{namespace}.*")

    def days(self, name: str) -> list[date]:
        """The day of every row, as each format's own library reads them."""
        catalog, table = name.split(".", 1)
        if catalog == "lake":
            return sorted(self.catalog.load_table(table).scan().to_arrow()["day"].to_pylist())
        builder = self.stream.catalog.get_table(table).new_read_builder()
        found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        return sorted(date.fromisoformat(day) for day in found["dt"].to_pylist()) if found else []

    def take(self, name: str, *days: date) -> None:
        """What another writer deletes."""
        catalog, table = name.split(".", 1)
        for day in days:
            if catalog == "lake":
                self.catalog.load_table(table).delete(EqualTo("day", day.isoformat()))
            else:
                commit = self.stream.catalog.get_table(table).new_batch_write_builder().new_commit()
                commit.truncate_partitions([{"dt": day.isoformat()}])
                commit.close()

    def add(self, name: str, *days: date) -> None:
        catalog, table = name.split(".", 1)
        if catalog == "lake":
            rows = pa.table({"id": pa.array(range(len(days)), pa.int64()), "day": list(days)})
            self.catalog.load_table(table).append(rows)
        else:
            place = self.stream.path / f"{table.partition('.')[0]}.db"
            from tests.formats.paimon.tables import LakeTable

            LakeTable(self.stream, table, place / table.partition(".")[2]).write(*(day.isoformat() for day in days))


@pytest.fixture(scope="module")
def aging(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aging]:
    base = tmp_path_factory.mktemp("brakes")
    with Site.on_sqlite(base, formats={"stream": "paimon"}) as site:
        site.catalogs["stream"] = {"warehouse": f"file://{base}/stream"}
        site.sections["partition_expiry"] = {"expiration_hours": 24 * 30, "batch_size": 1}
        yield Aging(site, site.catalog(), Lake(base / "stream"))


BOTH = pytest.mark.parametrize("catalog", ["lake", "stream"])


@pytest.fixture(scope="module")
def seen(aging: Aging) -> Seen:
    aging.fill("seen", *SHAPES)
    return aging.plan("seen")


@BOTH
def test_each_brake_refuses_its_table_and_the_others_go_on(seen: Seen, catalog: str) -> None:
    codes = {name: seen.refusal(f"{catalog}.seen.{name}") for name in SHAPES}
    assert codes == {"emptied": EMPTIED, "most": SHARE, "heavy": SHARE, "half": None, "none": None}
    assert {brake: {n.rpartition(".")[2] for n in names} for brake, names in seen.plan.brakes.items()} == {
        Brake.TABLE_EMPTIED: {"emptied"},
        Brake.DROP_SHARE: {"most", "heavy"},
    }
    refusal = seen.table(f"{catalog}.seen.emptied").refusal
    assert refusal is not None
    assert "--override-brake table-emptied" in refusal.hint
    assert "3 of 3 partitions would go and no row would be left" in refusal.message
    assert "25% of the partitions, 75% of the rows" in seen.message(f"{catalog}.seen.heavy")
    assert seen.plan.totals()["changes"] == {"partitions": 4}, "what a brake holds is not counted as planned"


@BOTH
@pytest.mark.parametrize("name", SHAPES)
def test_the_plan_knows_the_scale(aging: Aging, seen: Seen, catalog: str, name: str) -> None:
    detail = seen.table(f"{catalog}.seen.{name}").detail
    days = SHAPES[name]
    old = [day for day in days if day in OLD]
    base = aging.site.base
    place = base / "stream/seen.db" / name if catalog == "stream" else _data(aging, f"seen.{name}")
    sizes = {path: path.stat().st_size for path in place.rglob("*.parquet")}
    assert detail["table"] == {
        "partitions": len(set(days)),
        "files": len(sizes),
        "rows": len(days),
        "bytes": sum(sizes.values()),
    }
    assert (detail["going"]["partitions"], detail["going"]["rows"]) == (len(set(old)), len(old))
    assert detail["due"] == detail["going"]
    assert detail["empties"] is (name == "emptied")
    found = {line["label"].partition("=")[2]: (line["rows"], line["bytes"]) for line in detail["expire"]}
    assert found == {
        day.isoformat(): (
            old.count(day),
            sum(size for path, size in sizes.items() if day.isoformat() in str(path.parent)),
        )
        for day in old
    }


def _data(aging: Aging, table: str) -> Path:
    return local_path(aging.catalog.load_table(table).location()) / "data"


def test_what_waits_for_later_plans_counts(aging: Aging) -> None:
    """One partition at a time would empty the table in three nights, and never be more than half of it at once."""
    aging.fill("slow", "emptied")
    aging.site.policies = {"*.slow.*": {"partition_expiry": {"max_partitions": 1}}}
    aging.site.close()
    found = aging.plan("slow")
    for catalog in ("lake", "stream"):
        assert found.refusal(f"{catalog}.slow.emptied") == SHARE
        assert "1 partitions now and 2 by later plans" in found.message(f"{catalog}.slow.emptied")
        detail = found.table(f"{catalog}.slow.emptied").detail
        assert (detail["going"]["partitions"], detail["due"]["partitions"]) == (1, 3)
        assert detail["empties"] is False


def test_a_wider_share_never_empties(aging: Aging) -> None:
    aging.fill("wide", "emptied", "most")
    aging.site.policies = {"*.wide.*": {"partition_expiry": {"max_drop_share": 1.0}}}
    aging.site.close()
    found = aging.plan("wide")
    for catalog in ("lake", "stream"):
        assert found.refusal(f"{catalog}.wide.emptied") == EMPTIED
        assert found.refusal(f"{catalog}.wide.most") is None


LIFTED: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "nothing": ((), {"half"}),
    "share": ((Brake.DROP_SHARE,), {"half", "most", "heavy"}),
    "emptied": ((Brake.TABLE_EMPTIED,), {"half", "emptied"}),
    "both": ((Brake.DROP_SHARE, Brake.TABLE_EMPTIED), {"half", "most", "heavy", "emptied"}),
    "another": ((Brake.ORPHAN_SHARE,), {"half"}),
}


@pytest.mark.parametrize("case", LIFTED)
def test_only_the_named_brake_lets_a_table_go(aging: Aging, case: str) -> None:
    brakes, gone = LIFTED[case]
    aging.fill(case, *SHAPES)
    result = aging.site.apply(aging.plan(case), override_brakes=brakes)
    assert (result.status, result.failed) == ("done", ())
    for catalog in ("lake", "stream"):
        for name, days in SHAPES.items():
            left = [day for day in days if name not in gone or day in NEW]
            assert aging.days(f"{catalog}.{case}.{name}") == sorted(left), name


def test_a_plan_whose_tables_are_all_held_does_nothing(aging: Aging) -> None:
    aging.fill("held", "emptied")
    plan = aging.plan("held")
    with pytest.raises(NothingAppliedError):
        aging.site.apply(plan, override_brakes=[Brake.DROP_SHARE])
    assert aging.days("lake.held.emptied") == aging.days("stream.held.emptied") == OLD[:3]


@pytest.mark.parametrize("brakes", [(), (Brake.DROP_SHARE,), (Brake.TABLE_EMPTIED,), tuple(Brake)], ids=str)
def test_a_table_whose_other_rows_went_since_the_plan_is_kept(aging: Aging, brakes: tuple[str, ...]) -> None:
    """No brake was pulled in the plan, so there is none that somebody could have answered for."""
    namespace = f"since{len(brakes)}{''.join(brakes)[:1]}"
    aging.fill(namespace, "half")
    plan = aging.plan(namespace)
    for catalog in ("lake", "stream"):
        aging.take(f"{catalog}.{namespace}.half", *NEW[:2])
    result = aging.site.apply(plan, override_brakes=brakes)
    assert (result.status, result.changed) == ("failed", {"partitions": 0})
    assert codes_of(result) == {f"{catalog}.{namespace}.half": EMPTIED for catalog in ("lake", "stream")}
    assert aging.days(f"lake.{namespace}.half") == aging.days(f"stream.{namespace}.half") == OLD[:2]


def codes_of(result: RunResult) -> dict[str, str]:
    return {failed.uri: failed.code for failed in result.failed}


def test_a_table_that_shrank_since_the_plan_is_kept_above_the_share(aging: Aging) -> None:
    aging.fill("shrank", "half")
    plan = aging.plan("shrank")
    for catalog in ("lake", "stream"):
        aging.take(f"{catalog}.shrank.half", NEW[0])
    result = aging.site.apply(plan)
    assert codes_of(result) == {f"{catalog}.shrank.half": SHARE for catalog in ("lake", "stream")}
    assert aging.days("lake.shrank.half") == aging.days("stream.shrank.half") == [*OLD[:2], NEW[1]]


def test_a_table_that_may_be_emptied_and_has_grown_since_loses_what_was_planned(aging: Aging) -> None:
    aging.fill("grown", "emptied")
    plan = aging.plan("grown")
    for catalog in ("lake", "stream"):
        aging.add(f"{catalog}.grown.emptied", NEW[0])
    result = aging.site.apply(plan, override_brakes=[Brake.TABLE_EMPTIED])
    assert (result.status, result.changed) == ("done", {"partitions": 6})
    assert aging.days("lake.grown.emptied") == aging.days("stream.grown.emptied") == NEW[:1]


@BOTH
def test_rows_that_go_between_two_batches_stop_the_last_one(
    aging: Aging, catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brake holds at each commit, not only when the run begins with the table."""
    namespace = f"between_{catalog}"
    aging.fill(namespace, "half")
    plan = aging.plan(namespace)
    name = f"{catalog}.{namespace}.half"
    runs = aging.site.warden._deployment.ledger.runs
    step = runs.step

    def meddle(run_id: str, kind: str, detail: Any) -> None:
        step(run_id, kind, detail)
        if kind == "dropped" and detail["table"] == name and detail["batch"] == 0:
            aging.take(name, *NEW[:2])

    monkeypatch.setattr(runs, "step", meddle)
    result = aging.site.apply(plan)
    assert (result.status, codes_of(result)) == ("partial", {name: EMPTIED})
    assert aging.days(name) == OLD[1:2]


def test_a_run_goes_on_with_the_brake_that_was_lifted_for_it(aging: Aging, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where every table of the plan is held by it, and nobody names it again."""
    aging.fill("resumed", "emptied")
    plan = aging.plan("resumed")
    runs = aging.site.warden._deployment.ledger.runs
    step, seen = runs.step, []

    def crash(run_id: str, kind: str, detail: Any) -> None:
        step(run_id, kind, detail)
        seen.extend([kind] if kind == "dropped" else [])
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs, "step", crash)
    with pytest.raises(KeyboardInterrupt):
        aging.site.apply(plan, override_brakes=[Brake.TABLE_EMPTIED])
    monkeypatch.undo()
    result = aging.site.apply(plan)
    assert (result.status, result.changed) == ("done", {"partitions": 6})
    assert aging.days("lake.resumed.emptied") == aging.days("stream.resumed.emptied") == []
