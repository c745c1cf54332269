"""Tables of one format that need files of another's: each is asked for every file, by name or by address."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.pipeline.compare import compare as comparing
from tests.formats.paimon.tables import Lake
from tests.jobs.orphan_cleanup.site import Site, register
from tests.support.lakes import age_everything

PAIMON = "\n[catalogs.stream]\nformat = 'paimon'\n[catalogs.stream.properties]\nwarehouse = 'file://{}'\n"


class Mixed(Site):
    """Iceberg tables in the catalog `lake`, Paimon tables in the catalog `stream`."""

    def config(self, name: str = "lakewarden.toml") -> str:
        path = super().config(name)
        with Path(path).open("a") as file:
            file.write(PAIMON.format(self.base / "stream"))
        return path


@pytest.fixture
def mixed(spark: object, tmp_path: Path) -> Iterator[Mixed]:
    with Mixed(tmp_path) as made:
        yield made


@pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])
def test_files_of_a_paimon_table_that_an_iceberg_table_needs(
    mixed: Mixed, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    stream = Lake(mixed.base / "stream").create("t")
    stream.write("one", "two")
    live = next(stream.path.rglob("data-*"))
    added, late, orphan = (live.with_name(f"data-{uuid4()}-0{live.suffix}") for _ in range(3))
    for path in (added, late, orphan):
        shutil.copy(live, path)
    table = mixed.add("m.t", partitioned=False)
    register(table, f"file://{added}", f"file://{live}")
    mixed.old()
    age_everything(mixed.base / "stream")
    seen = mixed.plan(warden=mixed.warden)
    assert seen.orphans() == {late, orphan}
    assert {plan.refusal for plan in seen.plan.tables} == {None}
    register(table, f"file://{late}")
    result = mixed.apply(seen)
    assert result.deleted.files == 1
    assert (late.exists(), added.exists(), orphan.exists()) == (True, True, False)
