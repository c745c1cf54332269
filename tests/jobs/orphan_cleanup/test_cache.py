"""The cache of proven manifests never changes an answer, whatever happens to its files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.model.errors import IncompleteManifestError
from lakewarden.pipeline.compare import compare as comparing
from lakewarden.pipeline.compare import needs
from lakewarden.steps.compare import manifest_cache
from tests.formats.third.test_third_format import Library
from tests.support.lakes import age_everything

ORPHANS = "orphan-cleanup"
WAYS = pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    """Three tables of two snapshots each, all files old, one orphan in each."""
    sections: dict[str, dict[str, Any]] = {"orphan_cleanup": {"max_orphan_share": 1.0}}
    catalogs = {"lib": {"directory": f"file://{tmp_path}/shelves/"}}
    with Library(tmp_path, catalogs, format="tests.formats.third", sections=sections) as made:
        now = datetime.now(UTC)
        for name in ("a", "b", "c"):
            made.shelf(name).commit("one", "two", when=now - timedelta(days=9))
            made.shelf(name).commit("three", when=now - timedelta(days=8))
            made.shelf(name).plant("data/lost.bin")
        age_everything(tmp_path / "shelves")
        yield made


def lost(library: Library, *names: str) -> set[Path]:
    return {library.shelf(name).path / "data/lost.bin" for name in names or ("a", "b", "c")}


def cache(library: Library, kind: str = "") -> list[Path]:
    return sorted((library.base / "state/cache").glob(f"{kind}*.parquet"))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip(path: Path) -> None:
    """One byte of a value, where no frame and no footer shows it."""
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1
    path.write_bytes(bytes(data))


def put_a_directory_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: list[Callable[[Path], None]] = [empty, zero, cut, flip, Path.unlink, put_a_directory_there]


@WAYS
@pytest.mark.parametrize("kind", ["entries", "keys", "lists"])
def test_damaged_files_of_the_cache_are_read_anew(
    library: Library, most: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    assert library.plan(ORPHANS).orphans() == lost(library)
    for harm in DAMAGE:
        for path in (path for path in cache(library, kind) if path.is_file() and path.stat().st_size):
            harm(path)
        assert library.plan(ORPHANS).orphans() == lost(library), harm


@WAYS
def test_files_that_change_places_are_not_taken_for_each_other(
    library: Library, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    for name in ("a", "b"):
        library.plan(ORPHANS, f"lib.shelf.{name}")
        library.shelf(name).commit("four", when=datetime.now(UTC) - timedelta(days=7))
    library.plan(ORPHANS)
    age_everything(library.base / "shelves")
    for kind in ("entries", "keys", "lists"):
        files = cache(library, kind)
        assert len(files) > 1
        contents = [path.read_bytes() for path in files]
        for path, data in zip(files, [*contents[1:], contents[0]], strict=True):
            path.write_bytes(data)
    assert library.plan(ORPHANS).orphans() == lost(library)


@WAYS
@pytest.mark.parametrize("harm", [empty, zero, Path.unlink], ids=lambda harm: harm.__name__)
def test_files_that_are_harmed_in_the_middle_of_a_plan(
    library: Library, most: int, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another plan lets the oldest files go while this one has just found that they are there."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    library.plan(ORPHANS)
    old = cache(library)
    looked = needs.known_files, needs.known_entries

    def harmed(found: Callable[..., Any]) -> Callable[..., Any]:
        def look(*how: Any, **more: Any) -> Any:
            answer = found(*how, **more)
            for path in old:
                if path.is_file() and path.stat().st_size:
                    harm(path)
            return answer

        return look

    monkeypatch.setattr(needs, "known_files", harmed(looked[0]))
    monkeypatch.setattr(needs, "known_entries", harmed(looked[1]))
    assert library.plan(ORPHANS).orphans() == lost(library)


@WAYS
def test_a_cache_that_keeps_one_file_only(library: Library, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    monkeypatch.setattr(manifest_cache, "MOST_FILES", 1)
    for _ in range(3):
        assert library.plan(ORPHANS).orphans() == lost(library)


@WAYS
@pytest.mark.parametrize(("told", "other"), [("a", "b"), ("b", "a")])
def test_a_shared_manifest_that_is_another_one_by_now(
    library: Library, most: int, told: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables share a manifest. It is written anew under its name, and only one of them was told how long it is now."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    first, clone = library.shelf("a"), library.shelf("b")
    shutil.rmtree(clone.path)
    shutil.copytree(first.path, clone.path)
    state = json.loads((first.path / "state-2.json").read_bytes())
    (clone.path / "state-2.json").write_text(json.dumps(state | {"uuid": "clone"}))
    assert lost(library, "c") < library.plan(ORPHANS).orphans()

    taken = Path(state["snapshots"][-1]["list"].removeprefix("file://"))
    named = json.loads(taken.read_bytes())
    manifest = Path(named["manifests"][-1]["path"].removeprefix("file://"))
    dropped = Path(json.loads(manifest.read_bytes())["files"].pop().removeprefix("file://"))
    extra = first.plant("data/extra-of-another-length.bin").pop()
    manifest.write_text(json.dumps({"files": [f"file://{extra}"]}))
    named["manifests"][-1] |= {"length": manifest.stat().st_size, "files": 1}
    table = library.shelf(told)
    mine = table.path / "lists/mine.json"
    mine.write_text(json.dumps(named))
    state = json.loads((table.path / "state-2.json").read_bytes())
    state["snapshots"][-1] |= {"list": f"file://{mine}", "length": mine.stat().st_size}
    (table.path / "state-3.json").write_text(json.dumps(state))
    age_everything(library.base / "shelves")
    assert extra in table.needed()
    seen = library.plan(ORPHANS)
    assert extra not in seen.orphans(), "the one that was told needs it"
    assert dropped not in seen.orphans(), "what the other knew of the manifest was proven, and holds for it"
    for path in cache(library):
        path.unlink()
    assert library.plan(ORPHANS).refusal(f"lib.shelf.{other}") == IncompleteManifestError.code


@WAYS
def test_a_manifest_whose_files_lie_in_several_roots(
    library: Library, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table needs files of the two others. What names begin with does not tell their roots, in the cache neither."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    taken = [library.shelf(name).plant("data/borrowed.bin").pop() for name in ("a", "b")]
    borrower = library.shelf("c")
    borrower.commit("four", when=datetime.now(UTC) - timedelta(days=7))
    state = borrower.path / "state-3.json"
    document = json.loads(state.read_bytes())
    chosen = Path(document["snapshots"][-1]["list"].removeprefix("file://"))
    named = json.loads(chosen.read_bytes())
    manifest = Path(named["manifests"][-1]["path"].removeprefix("file://"))
    files = [*json.loads(manifest.read_bytes())["files"], *(f"file://{path}" for path in taken)]
    manifest.write_text(json.dumps({"files": files}))
    named["manifests"][-1] |= {"length": manifest.stat().st_size, "files": len(files)}
    chosen.write_text(json.dumps(named))
    document["snapshots"][-1]["length"] = chosen.stat().st_size
    state.write_text(json.dumps(document))
    age_everything(library.base / "shelves")
    for select in ((), (), ("lib.shelf.a",), ("lib.shelf.b",)):
        chosen_names = [name.rpartition(".")[2] for name in select]
        assert library.plan(ORPHANS, *select).orphans() == lost(library, *chosen_names)


@WAYS
def test_a_file_that_every_plan_uses_stays(library: Library, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan reads whole tables, the later ones what was added: by age, the first file would be the first to go."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    monkeypatch.setattr(manifest_cache, "MOST_FILES", 12)
    library.plan(ORPHANS)
    first = cache(library, "entries" if most > 0 else "keys")
    assert first
    for number in range(4):
        library.shelf("a").commit(f"late-{number}", when=datetime.now(UTC) - timedelta(days=7))
        age_everything(library.base / "shelves")
        assert library.plan(ORPHANS).orphans() == lost(library)
    assert all(path.stat().st_size for path in first)
    assert sum(path.stat().st_size > 0 for path in cache(library)) == 12
