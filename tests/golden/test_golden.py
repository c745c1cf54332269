"""Whole outputs of every command in every outcome, as text and as JSON: a wrong word is seen in review."""

from __future__ import annotations

import pytest

from lakewarden.jobs.registry import JOBS
from lakewarden.warden import Warden
from tests.docs.test_commands import COMMANDS
from tests.golden import expected
from tests.golden.command import Form, printed
from tests.golden.lake import GoldenLake
from tests.golden.once import once
from tests.golden.scene import SCENES, Scene, Stage
from tests.golden.scenes import ALL
from tests.golden.shapes import check_shape

assert ALL
PLANNING = ("plan", "run", "night", "plan_night", "standing", "apply", "forecast", "report")


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_scene(scene: Scene, lake: GoldenLake, spark: object, update_golden: bool) -> None:
    found: dict[Form, str] = {}
    calls = (
        {name: once(getattr(Warden, name)) for name in PLANNING if hasattr(Warden, name)} if scene.planned_once else {}
    )
    for form in forms_of(scene):
        with pytest.MonkeyPatch.context() as patch:
            stage = Stage(lake, patch)
            try:
                words = scene.setting(stage)
                for name, call in calls.items():
                    patch.setattr(Warden, name, call)
                said = printed(lake, words, form, scene.answer)
            finally:
                stage.close()
        assert said.code == scene.exit_code, said.text
        if form is Form.JSON:
            check_shape(scene.name, said.document)
        found[form] = said.text
    expected.check(scene.name, found, update_golden)


def forms_of(scene: Scene) -> list[Form]:
    if scene.answer:
        return [Form.NARROW, Form.WIDE]
    return [form for form in Form if form is not Form.JSON or scene.has_json]


def test_every_command_and_every_job_has_a_scene() -> None:
    seen = {name.partition("/")[0] for name in SCENES}
    assert {words.replace(" ", "-") for words in COMMANDS} - seen == set()
    assert {f"plan/{job}" for job in JOBS} - SCENES.keys() == set()


def test_every_expected_file_has_its_scene() -> None:
    assert expected.unowned(set(SCENES)) == [], "no scene owns these files: remove them"
