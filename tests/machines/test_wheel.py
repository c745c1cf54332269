"""The wheel is whole, and works where there is no checkout."""

from __future__ import annotations

import json
import zipfile
from email import message_from_bytes
from pathlib import Path

import lakewarden
from tests.docs.pages import ROOT
from tests.machines.conftest import Installed
from tests.support.configuration import write_toml
from tests.support.lakes import age_everything, plant_orphans, small_lake


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    source = ROOT / "src"
    ours = {
        str(path.relative_to(source))
        for path in (source / "lakewarden").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    ours |= {f"lakewarden/service/error_docs/{path.name}" for path in (ROOT / "docs" / "errors").iterdir()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == ours
    assert {"lakewarden/service/static/htmx.min.js", "lakewarden/service/templates/base.html"} <= packed
    assert {"lakewarden/py.typed", "lakewarden/pipeline/spark/log4j2.properties"} <= packed
    assert any(name.startswith("lakewarden/ledger/migrations/versions/") for name in packed)


def test_the_wheel_names_its_licence_its_command_and_its_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
    assert metadata["Version"] == lakewarden.__version__
    assert set(metadata.get_all("Provides-Extra", [])) == {"java", "paimon"}
    assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert "lakewarden = lakewarden.__main__:run" in archive.read(f"{info}/entry_points.txt").decode()
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert not any(line.startswith("pypaimon") for line in needed)


def test_it_is_not_the_checkout_that_runs(installed: Installed, away: Path) -> None:
    where = installed.run("-c", "import lakewarden; print(lakewarden.__file__)", cwd=away, program="python")
    assert where.stdout.startswith(str(installed.environment)), where.stdout + where.stderr


def test_version_help_and_errors(installed: Installed, away: Path) -> None:
    version = installed.run("--version", cwd=away)
    assert (version.returncode, version.stdout) == (0, f"{lakewarden.__version__}\n")
    helped = installed.run("--help", cwd=away)
    assert helped.returncode == 0
    assert "plan" in helped.stdout
    nothing = installed.run("tables", cwd=away)
    assert nothing.returncode == 64
    assert "LW-CONF-001 there is no configuration file" in nothing.stderr


def test_a_metastore_without_pypaimon_says_what_to_install(installed: Installed, away: Path) -> None:
    write_toml(
        away / "lakewarden.toml",
        {
            "state": {"location": f"file://{away}/state"},
            "catalogs": {
                "stream": {"format": "paimon", "properties": {"metastore": "jdbc", "warehouse": f"file://{away}"}}
            },
        },
    )
    # As if the extra were not installed: a module of this name that cannot be found stands in front of the real one.
    (away / "pypaimon.py").write_text("raise ModuleNotFoundError(\"No module named 'pypaimon'\")\n", encoding="utf-8")
    done = installed.run("-m", "lakewarden", "tables", cwd=away, program="python")
    assert done.returncode == 64
    assert "pip install 'lakewarden[paimon]'" in done.stderr


def test_check_plan_and_apply(installed: Installed, away: Path, java: None) -> None:
    lake = small_lake(away / "lake", ("sales.orders",))
    age_everything(away / "lake")
    orphans = plant_orphans(f"file://{away}/lake/warehouse/sales/orders", ["data/{}.parquet"])
    write_toml(
        away / "lakewarden.toml",
        {
            "state": {"location": f"file://{away}/state"},
            "spark": {"master": "local[1]"},
            "catalogs": {"lake": {"format": "iceberg", "properties": lake.properties}},
        },
    )
    before = {path for path in (away / "lake").rglob("*") if path.is_file()}
    checked = installed.run("config", "check", cwd=away)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    planned = installed.run("plan", "orphans", "--out", "plan", "--output", "json", cwd=away)
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["totals"]["changes"] == {"files": 1}
    applied = installed.run("apply", "plan", "--yes", "--output", "json", cwd=away)
    assert applied.returncode == 0, applied.stderr
    gone = before - {path for path in (away / "lake").rglob("*") if path.is_file()}
    assert gone == set(orphans)
