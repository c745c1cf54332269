"""The recipes in docs/how-to/examples: parsed, held to what their page says, and every command line in them ours."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import strictyaml

from lakewarden.model.errors import Exit
from tests.docs.pages import DOCS, PAGES, ROOT, code_in, rows, sections, text_of
from tests.docs.test_commands import parse

EXAMPLES = DOCS / "how-to" / "examples"
PAGE = DOCS / "how-to" / "schedulers.md"
CONTAINERFILE = EXAMPLES / "Containerfile"
PROGRAM = "/opt/lakewarden/bin/lakewarden"


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, continued lines joined."""
    text = re.sub(r"^#.*\n", "", text_of(CONTAINERFILE), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def cron_job() -> Any:
    return strictyaml.load(text_of(EXAMPLES / "cronjob.yaml")).data


def container() -> Any:
    (found,) = cron_job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return found


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text_of(EXAMPLES / name))
    return parser


def lists_of_words(path: Path) -> Iterator[list[str]]:
    """Every list of texts in a Python file that starts our program."""
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.List) and node.elts and all(isinstance(item, ast.Constant) for item in node.elts):
            words = [str(item.value) for item in node.elts if isinstance(item, ast.Constant)]
            if words[0] == PROGRAM:
                yield words


def bash_commands(path: Path) -> Iterator[list[str]]:
    """Every `bash_command` of a DAG, as the words that a shell would make of it."""
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.keyword) and node.arg == "bash_command":
            yield shlex.split(ast.literal_eval(node.value))


def command_lines() -> Iterator[tuple[str, list[str]]]:
    yield "cronjob.yaml", [PROGRAM, *container()["args"]]
    yield "lakewarden.service", shlex.split(unit("lakewarden.service")["Service"]["ExecStart"])
    yield from (("airflow_dag.py", words) for words in bash_commands(EXAMPLES / "airflow_dag.py"))
    yield from (("dagster_job.py", words) for words in lists_of_words(EXAMPLES / "dagster_job.py"))


LINES = list(command_lines())


@pytest.mark.parametrize(("name", "words"), LINES, ids=[f"{name}: {' '.join(words[1:3])}" for name, words in LINES])
def test_every_command_line_is_ours_and_parses(name: str, words: list[str]) -> None:
    assert words[0] == PROGRAM
    parse(words[1:])
    assert "all" not in words or words[words.index("--trigger") + 1] == "schedule"


def test_every_recipe_starts_a_night_and_no_example_is_forgotten() -> None:
    assert {name for name, words in LINES if "all" in words} == {
        "cronjob.yaml", "lakewarden.service", "airflow_dag.py", "dagster_job.py",
    }  # fmt: skip
    linked = set(re.findall(r"\]\(examples/([\w.-]+)\)", text_of(PAGE)))
    assert linked == {path.name for path in EXAMPLES.iterdir() if path.is_file()}


def test_the_image_does_not_run_as_root_and_has_an_init() -> None:
    found = instructions()
    assert [name for name, _ in found].count("FROM") == 2
    last_stage = found[[name for name, _ in found].index("FROM", 1) :]
    said = dict(last_stage)
    assert int(said["USER"]) > 0
    assert said["ENTRYPOINT"] == '["tini", "--", "lakewarden"]'
    assert "tini" in said["RUN"]
    assert f"--uid {said['USER']} " in said["RUN"]
    names = [name for name, _ in last_stage]
    assert "RUN" not in names[names.index("USER") :], "what is installed after USER is installed by nobody"


def test_modules_that_the_image_runs_are_ours() -> None:
    from importlib.util import find_spec

    modules = re.findall(r"-m (lakewarden[\w.]*)", text_of(CONTAINERFILE))
    assert modules
    assert all(find_spec(module) for module in modules)


def test_the_cron_job_is_harmless_for_its_cluster() -> None:
    job = cron_job()
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert int(pod["terminationGracePeriodSeconds"]) >= 120
    assert pod["securityContext"]["runAsNonRoot"] == "true"
    assert pod["securityContext"]["runAsUser"] == dict(instructions())["USER"]
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": "false",
        "readOnlyRootFilesystem": "true",
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}
    assert "/tmp" in mounted.values()
    (rule,) = job["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert {int(code) for code in rule["onExitCodes"]["values"]} == {Exit.REFUSED, Exit.STALE, Exit.USAGE}
    assert rule["onExitCodes"]["containerName"] == container()["name"]


def test_settings_in_the_cron_job_are_settings() -> None:
    from lakewarden.settings.load import read_environment

    ours = [entry["name"] for entry in container()["env"] if entry["name"].startswith("LAKEWARDEN_")]
    assert ours
    _, variables = read_environment(dict.fromkeys(ours, "postgresql://host/x"))
    assert set(variables.values()) == set(ours)


def test_the_units_have_a_user_of_their_own_and_time_to_stop() -> None:
    service, timer = unit("lakewarden.service")["Service"], unit("lakewarden.timer")
    assert service["Type"] == "oneshot"
    assert service["User"] not in ("root", "0", "")
    assert int(service["TimeoutStopSec"]) >= 120
    assert timer["Timer"]["OnCalendar"].endswith("UTC")
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_the_python_examples_import_only_their_platform_and_the_standard_library() -> None:
    import sys

    for name, platform in (("airflow_dag.py", "airflow"), ("dagster_job.py", "dagster")):
        tree = ast.parse(text_of(EXAMPLES / name))
        modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        tops = {module.split(".")[0] for module in modules}
        assert tops - set(sys.stdlib_module_names) == {platform}


def test_the_page_tells_what_each_exit_code_asks_for() -> None:
    said = [cells[0] for cells in rows(sections(PAGE)["What a scheduler has to know"], "exit code")]
    codes = {int(code) for cell in said for code in re.findall(r"\d+", cell)}
    assert codes <= set(Exit)
    assert codes >= {Exit.DONE, Exit.PARTIAL, Exit.LEASE_HELD, Exit.REFUSED, Exit.STALE, Exit.USAGE}


def test_every_extra_that_is_named_exists_and_has_its_entry() -> None:
    extras = set(tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["optional-dependencies"])
    named = {
        extra
        for page in [*PAGES, CONTAINERFILE]
        for found in re.findall(r"(?:lakewarden[\w.-]*(?:\.whl)?|'\.|\.whl\)\")\[([a-z,]+)\]", text_of(page))
        for extra in found.split(",")
    }
    assert named <= extras
    table = rows(sections(DOCS / "how-to" / "install.md")["Extras"], "extra")
    assert {code_in(cells[0]) for cells in table} == extras
