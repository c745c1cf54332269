"""A format of somebody else's is planned, cleaned, expired and deleted from without an edit in src/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import lakewarden
from lakewarden.formats.registry import format_names
from lakewarden.model.errors import ConfigError, IncompleteManifestError, UnsupportedTableError
from lakewarden.pipeline.compare import compare
from tests.jobs.orphan_cleanup.site import Seen
from tests.support.deployments import Deployed
from tests.support.lakes import age_everything

ORPHANS, EXPIRY, DELETION = "orphan-cleanup", "snapshot-expiry", "physical-deletion"

pytestmark = pytest.mark.usefixtures("spark")


@dataclass
class Shelf:
    """One table, as its own writer writes it."""

    path: Path

    def commit(self, *names: str, when: datetime) -> None:
        """A snapshot with these new files, and all that the one before it had."""
        states = sorted(self.path.glob("state-*.json"))
        fresh: dict[str, Any] = {"uuid": str(uuid4()), "snapshots": []}
        document = json.loads(states[-1].read_bytes()) if states else fresh
        before = json.loads(self._at(document["snapshots"][-1]["list"]))["manifests"] if states else []
        files = [self._write(f"data/{name}.bin", b"rows") for name in names]
        manifest = self._write(f"manifests/{uuid4()}.json", json.dumps({"files": files}).encode())
        named = {"path": manifest, "length": len(self._at(manifest)), "files": len(files)}
        chosen = json.dumps({"manifests": [*before, named]}).encode()
        entry: dict[str, Any] = {"id": len(states) + 1, "time_ms": int(when.timestamp() * 1000), "length": len(chosen)}
        entry["list"] = self._write(f"lists/{uuid4()}.json", chosen)
        document["snapshots"].append(entry)
        (self.path / f"state-{len(states) + 1}.json").write_text(json.dumps(document))

    def replace(self, name: str, when: datetime) -> None:
        """A snapshot with this one file only: what the snapshots before it had is theirs alone."""
        self.commit(name, when=when)
        state = max(self.path.glob("state-*.json"))
        document = json.loads(state.read_bytes())
        newest = document["snapshots"][-1]
        manifests = json.loads(self._at(newest["list"]))["manifests"][-1:]
        data = json.dumps({"manifests": manifests}).encode()
        Path(newest["list"].removeprefix("file://")).write_bytes(data)
        newest["length"] = len(data)
        state.write_text(json.dumps(document))

    def plant(self, *names: str) -> set[Path]:
        paths = {self.path / name for name in names}
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"{}")
        return paths

    def everything(self) -> set[Path]:
        return {path for path in self.path.rglob("*") if path.is_file()}

    def needed(self) -> set[Path]:
        """What the current state needs, read by hand."""
        state = max(self.path.glob("state-*.json"))
        found = [f"file://{state}"]
        for snapshot in json.loads(state.read_bytes())["snapshots"]:
            found.append(snapshot["list"])
            for manifest in json.loads(self._at(snapshot["list"]))["manifests"]:
                found += [manifest["path"], *json.loads(self._at(manifest["path"]))["files"]]
        return {Path(uri.removeprefix("file://")) for uri in found}

    def _write(self, name: str, data: bytes) -> str:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"file://{path}"

    def _at(self, uri: str) -> bytes:
        return Path(uri.removeprefix("file://")).read_bytes()


@dataclass(kw_only=True)
class Library(Deployed):
    """A deployment over shelves."""

    def shelf(self, name: str) -> Shelf:
        return Shelf(self.base / "shelves" / name)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    sections: dict[str, dict[str, Any]] = {
        "orphan_cleanup": {"max_orphan_share": 1.0},
        "snapshot_expiry": {"retain_hours": 24},
        "physical_deletion": {"visibility_delay_hours": 24},
    }
    catalogs = {"lib": {"directory": f"file://{tmp_path}/shelves/"}}
    with Library(tmp_path, catalogs, format="tests.formats.third", sections=sections) as made:
        now = datetime.now(UTC)
        for name in ("a", "b"):
            shelf = made.shelf(name)
            shelf.commit("one", "two", when=now - timedelta(days=9))
            shelf.commit("three", when=now - timedelta(days=8))
        yield made


def by_hash(_: pytest.MonkeyPatch) -> None:
    """The quick way, which small fleets take."""


def by_join(patched: pytest.MonkeyPatch) -> None:
    """The way of large fleets."""
    patched.setattr(compare, "MOST_LIVE", -1)


@pytest.mark.parametrize("way", [by_hash, by_join])
def test_orphans_are_found_and_deleted(library: Library, way: object, monkeypatch: pytest.MonkeyPatch) -> None:
    way(monkeypatch)  # type: ignore[operator]
    shelf = library.shelf("a")
    orphans = shelf.plant("data/lost.bin", "lists/lost.json", "manifests/lost.json")
    others = shelf.plant("notes.txt", "data/README", "state-0.json")
    age_everything(library.base / "shelves")
    young = shelf.plant("data/young.bin")
    warden = lakewarden.open(library.config())
    try:
        plan = warden.plan(ORPHANS)
        seen = Seen(plan.plan, plan.path, list(warden.plan_rows(plan.path)))
        assert seen.orphans() == orphans
        assert {seen.verdict(path) for path in young} == {"too_new"}
        assert {seen.verdict(path) for path in others} == {"protected"}
        assert [table.format for table in plan.plan.tables] == ["shelf", "shelf"]
        result = warden.apply(plan)
    finally:
        warden.close()
    assert (result.status, result.deleted.files) == ("done", 3), result
    assert shelf.everything() == shelf.needed() | others | young | {shelf.path / "state-1.json"}


@pytest.mark.parametrize("way", [by_hash, by_join])
def test_snapshots_expire_and_their_files_go(library: Library, way: object, monkeypatch: pytest.MonkeyPatch) -> None:
    way(monkeypatch)  # type: ignore[operator]
    shelf, other = library.shelf("a"), library.shelf("b")
    first = {path for path in shelf.needed() if path.parent.name != "a"}
    shelf.replace("four", when=datetime.now(UTC) - timedelta(hours=30))
    kept = other.everything()
    result = library.run(EXPIRY, "lib.shelf.a")
    assert result.changed == {"snapshots": 2}
    assert len(json.loads((shelf.path / "state-4.json").read_bytes())["snapshots"]) == 1
    assert library.pending() == first, "one, two, three, two manifests, two lists"
    assert first <= shelf.everything()
    library.later(hours=25)
    deleted = library.run(DELETION, "lib.shelf.a")
    assert (deleted.status, deleted.deleted.files) == ("done", len(first))
    assert shelf.everything() == shelf.needed() | {shelf.path / f"state-{n}.json" for n in (1, 2, 3)}
    assert other.everything() == kept


def test_a_snapshot_that_came_back_keeps_its_files(library: Library) -> None:
    """A rollback by hand after the expiry: deletion reads the table again."""
    shelf = library.shelf("a")
    before = json.loads((shelf.path / "state-2.json").read_bytes())
    shelf.replace("four", when=datetime.now(UTC) - timedelta(hours=30))
    library.run(EXPIRY, "lib.shelf.a")
    (shelf.path / "state-5.json").write_text(json.dumps(before))
    library.later(hours=25)
    seen = library.plan(DELETION, "lib.shelf.a")
    assert seen.refusal("lib.shelf.a") == "LW-DOUBT-002", "it is older than it was, and nothing says that it goes on"
    assert not seen.plan.totals()["changes"]
    assert shelf.needed() <= shelf.everything()


def test_a_cut_manifest_refuses_its_table_only(library: Library) -> None:
    shelf = library.shelf("a")
    shelf.plant("data/lost.bin")
    orphans = library.shelf("b").plant("data/lost.bin")
    manifest = next(path for path in sorted(shelf.needed()) if path.parent.name == "manifests")
    whole = manifest.read_bytes()
    age_everything(library.base / "shelves")
    # As long as the list says, and no JSON: only the format itself can tell.
    manifest.write_bytes(whole[:-1] + b" ")
    seen = library.plan(ORPHANS)
    assert seen.refusal("lib.shelf.a") == IncompleteManifestError.code
    assert "no whole file of Shelf" in seen.message("lib.shelf.a")
    assert (seen.refusal("lib.shelf.b"), seen.orphans("lib.shelf.b")) == (None, orphans)
    manifest.write_bytes(whole[:-1])
    assert "bytes where its list says" in library.plan(ORPHANS).message("lib.shelf.a")


@pytest.mark.parametrize(
    ("job", "section"), [("partition-expiry", "partition_expiry"), ("tier-handoff", "tier_handoff")]
)
def test_what_it_cannot_do_is_refused_by_name(library: Library, job: str, section: str) -> None:
    values = {"destination": f"file://{library.base}/cold"} if section == "tier_handoff" else {"expiration_hours": 1}
    library.sections[section] = values
    seen = library.plan(job)
    assert seen.refusal("lib.shelf.a") == UnsupportedTableError.code
    assert "shelf tables" in seen.message("lib.shelf.a")


def test_manifests_are_left_to_the_format(library: Library) -> None:
    assert library.plan("manifest-rewrite").table("lib.shelf.a").changes == {"manifests": 0}


@pytest.mark.parametrize(
    ("name", "said"),
    [("tests.formats.no_such", "No module named"), ("tests.formats.third.reader", "without open_format")],
)
def test_a_module_that_is_no_format_is_a_mistake_in_the_configuration(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "lakewarden.toml").write_text(
        f'[state]\nlocation = "file://{tmp_path}/state"\n[catalogs.lib]\nformat = "{name}"\n'
    )
    warden = lakewarden.open(str(tmp_path / "lakewarden.toml"))
    with pytest.raises(ConfigError, match=said):
        warden.tables()
    warden.close()


def test_formats_that_come_with_this_version() -> None:
    assert format_names() == ("iceberg", "paimon")
