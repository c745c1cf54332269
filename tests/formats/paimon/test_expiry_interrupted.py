"""Deeds of others in the very middle of an expiry: after the last look, before the snapshot files go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lakewarden.jobs.snapshot_expiry import table_steps
from lakewarden.storage.stores import Stores
from tests.formats.paimon import scenes
from tests.formats.paimon.histories import Library, age, backdate
from tests.formats.paimon.scenes import Deed, Scene
from tests.formats.paimon.site import DELETION, EXPIRY, Site
from tests.support.deployments import Seen


def rolls_back_only(scene: Scene) -> None:
    """Rolled back to 2, and nobody has written since: snapshot 2 is all that readers have."""
    scene.story.roll_back(2)


DEEDS: dict[str, Deed] = {
    "rolls_back_only": rolls_back_only,
    "rolls_back": scenes.rolls_back,
    "makes_it_again": scenes.makes_it_again,
    "tags": scenes.tags,
    "branches": scenes.branches,
    "expires_by_java": scenes.expires_by_java,
    "commits": scenes.commits,
}
MOMENTS = ("hint", "delete")
CASES = [f"{deed}_at_{moment}" for deed in DEEDS for moment in MOMENTS]


@dataclass(frozen=True)
class Stage:
    site: Site
    scenes: dict[str, Scene]
    plans: dict[str, Seen]


@pytest.fixture(scope="module")
def stage(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One plan a scene, all of one moment."""
    with Site(tmp_path_factory.mktemp("interrupted"), names=tuple(CASES)) as site:
        found = {}
        for name in CASES:
            history = library.copy_of("partition_overwrites", site.warehouse(name))
            backdate(history, 12)
            age(history)
            found[name] = Scene.of(history)
        yield Stage(site, found, {})


@pytest.fixture(scope="module")
def after(stage: Stage) -> dict[str, Any]:
    """Every deed done in the middle of the expiry of its own table, then deletion of whatever was released."""
    put, delete = Stores.put, table_steps.delete
    waiting = dict.fromkeys(CASES)

    def strike(uri: str, moment: str) -> None:
        for name in list(waiting):
            if f"/{name}/" in uri and name.endswith(moment):
                del waiting[name]
                DEEDS[name.removesuffix(f"_at_{moment}")](stage.scenes[name])

    def putting(stores: Stores, uri: str, data: bytes) -> Any:
        answer = put(stores, uri, data)
        if uri.endswith("snapshot/EARLIEST"):
            strike(uri, "hint")
        return answer

    def deleting(permit: Any, stores: Any, files: Any, *more: Any, **rest: Any) -> Any:
        strike(files[0].uri, "delete")
        return delete(permit, stores, files, *more, **rest)

    plan = stage.site.plan(EXPIRY)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stores, "put", putting)  # each catalog has stores of its own
        patched.setattr(table_steps, "delete", deleting)
        result = stage.site.apply(plan)
    assert not waiting, "every deed was done"
    stage.site.later(2)
    stage.site.run(DELETION)
    stage.site.later(-2)
    return {entry.uri.split(".")[0]: entry for entry in result.failed}


@pytest.mark.parametrize("name", CASES)
def test_whatever_is_left_reads_back(stage: Stage, after: dict[str, Any], name: str) -> None:
    scene = stage.scenes[name]
    scene.check()
    assert scene.snapshots(), "a table keeps its latest snapshot"
    assert name not in after or after[name].code == "LW-PLAN-005"


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_table_that_moved_back_keeps_what_it_moved_back_to(stage: Stage, after: dict[str, Any], moment: str) -> None:
    assert 2 in stage.scenes[f"rolls_back_only_at_{moment}"].snapshots()
    assert f"rolls_back_only_at_{moment}" in after
