"""`import lakewarden` as the interface promises it, and the one door of deletion, seen from the jobs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import lakewarden
from lakewarden.warden import Warden

SOURCE = Path(lakewarden.__file__).parent
MAY_DELETE = {"jobs/snapshot_expiry/table_steps.py", "steps/apply/removal.py", "storage/quarantine.py"}
DOOR = "storage/delete.py"


def calls(source: str) -> set[str]:
    """The door's functions that a file calls, under whatever name it imported them."""
    tree = ast.parse(source)
    names = {"storage.delete.grant", "storage.delete.delete"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("storage.delete"):
            names |= {alias.asname or alias.name for alias in node.names if alias.name in ("grant", "delete")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").endswith("lakewarden.storage"):
            names |= {f"{alias.asname or alias.name}.{call}" for alias in node.names for call in ("grant", "delete")
                      if alias.name == "delete"}  # fmt: skip
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}
    return {name for name in used if name in names or name.endswith(tuple(f".{n}" for n in names if "." in n))}


def test_only_apply_and_the_trash_open_the_door() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).as_posix() != DOOR and calls(path.read_text())
    }
    assert found == MAY_DELETE


def test_the_search_sees_every_spelling() -> None:
    assert calls("from lakewarden.storage.delete import grant as g\ng()")
    assert calls("from lakewarden.storage import delete\ndelete.delete(p)")
    assert calls("import lakewarden.storage.delete\nlakewarden.storage.delete.grant()")
    assert not calls("from sqlalchemy import delete\ndelete(t)")


def test_the_package_opens_a_warden() -> None:
    assert set(lakewarden.__all__) == {"__version__", "heartbeat", "lineage", "open", "validate_lineage"}
    given = inspect.signature(lakewarden.open).parameters
    assert next(iter(given)) == "config"
    assert given["config"].default is None


def test_a_warden_offers_what_the_interface_names() -> None:
    plan = inspect.signature(Warden.plan).parameters
    assert {"job", "select", "exclude", "out", "actor"} <= plan.keys()
    assert "plan" in inspect.signature(Warden.apply).parameters
    for name in ("run", "restore", "audit_who", "audit_verify", "heartbeat", "tables", "policy", "doctor", "explain"):
        assert callable(getattr(Warden, name)), name
