"""The same commit on every kind of store: a table copied there, dropped from by rivals, and copied back to be read."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.partitions.drop import drop_partitions
from tests.formats.paimon.dropping import partition, snapshots
from tests.formats.paimon.reading import Ref, rows_by_pypaimon
from tests.formats.paimon.story import Story, files_of
from tests.support.storage import Place

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


def test_rivals_on_one_store_each_commit_once(place: Place, tmp_path: Path) -> None:
    story = Story.begin(tmp_path / "lake", "t", partition_keys=["dt"], options={"bucket": "-1"})
    for day in DAYS:
        story.append([(day, 1, "x")])
    location = place.uri("t/")
    for name in files_of(story.location):
        place.stores.put(location + name, (story.location / name).read_bytes())
    wanted = [partition(story.location, day) for day in DAYS[:2]]
    barrier = threading.Barrier(2)

    def work(number: int) -> int:
        barrier.wait()
        found = drop_partitions(location, place.stores, [wanted[number]], f"worker-{number}", 1, 5, lambda _: None)
        assert found.commit is not None
        return found.commit.snapshot_id

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(work, range(2))) == [4, 5]

    table = read_table(location, place.stores)
    names = [f"snapshot/snapshot-{s.id}" for s in table.main.snapshots]
    names += [f"manifest/{stat.key}" for stat in place.stores.entries(f"{location}manifest/").files]
    for name in names:
        (story.location / name).write_bytes(place.stores.get(location + name))
    assert [s["commitKind"] for s in snapshots(story.location)] == ["APPEND"] * 3 + ["OVERWRITE"] * 2
    assert rows_by_pypaimon(story.location, Ref(snapshot=5)) == ((DAYS[2], 1, "x"),)
    assert len(rows_by_pypaimon(story.location, Ref(snapshot=3))) == 3
