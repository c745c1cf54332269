"""Exactly one file removes bytes: every other call that could is found here, and must be explained."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "lakewarden"
DOOR = "storage/delete.py"
REMOVERS = {
    "unlink", "remove", "removedirs", "rmdir", "rmtree", "rmtree_async", "delete", "delete_async", "delete_object",
    "delete_objects", "delete_bucket", "delete_file", "delete_dir", "delete_dir_contents", "delete_table",
    "purge_table", "drop_table", "truncate", "ftruncate", "rename_async", "delete_object_tagging", "rm", "rm_file",
}  # fmt: skip

# File -> call -> why it cannot remove a file that a table could own.
ALLOWED = {
    "storage/scratch.py": {
        "os.unlink": "only names that match the worker's own temporary, record and decoder patterns",
        "os.rmdir": "only a decoder's directory, and only when it is empty",
    },
    "formats/iceberg/data/footer.py": {"data.truncate": "a task's own scratch file, before any store has it"},
    "storage/quarantine.py": {"delete": "calls the door itself"},
    "ledger/migrations/versions/r0003_journal.py": {
        "op.drop_table": "SQL on the state database, and only while its journal is empty"
    },
    "steps/apply/removal.py": {"delete": "calls the door itself, with the permit it was granted"},
    "formats/iceberg/branches/catalog_keeper.py": {"self._api.delete": "a reference of a Nessie catalog, and no bytes"},
    "formats/iceberg/branches/keeper.py": {"….remove": "a ref of a table's next metadata, and no bytes"},
    "jobs/stale_branches/run.py": {"keeper.remove": "a ref, by a commit of its table or catalog, and no bytes"},
    "jobs/stale_branches/settings.py": {"self.remove": "the setting `remove`: which states of a branch may go"},
    "model/branches.py": {
        "one.remove": "the setting `remove`: which states of a branch may go",
        "policy.remove": "the setting `remove`: which states of a branch may go",
        "self.remove": "the setting `remove`: which states of a branch may go",
    },
    "pipeline/rewrite/by_iceberg.py": {"tables.remove": "a name in a cache of Spark's, and no bytes"},
    "service/api/heartbeats.py": {"router.delete": "says that a route answers DELETE"},
    "jobs/snapshot_expiry/table_steps.py": {"delete": "calls the door itself, with the permit it was granted"},
}
# Calls on these are SQL statements or in-memory collections, not stores.
SQL_ROOMS = ("ledger/",)
SQL_CALLS = {"delete", "sa.delete", "sqlalchemy.delete"}


def spelled(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{spelled(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"


def removals(source: str) -> list[str]:
    """Every call or bare reference that could remove bytes, as it is spelled."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in REMOVERS:
            found.append(spelled(node))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"os", "shutil", "obstore"}:
            found.extend(f"{node.module}.{alias.name}" for alias in node.names if alias.name in REMOVERS)
        elif isinstance(node, ast.Name) and node.id in REMOVERS and isinstance(node.ctx, ast.Load):
            found.append(node.id)
        elif isinstance(node, ast.Call) and spelled(node.func) == "getattr" and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and name.value in REMOVERS:
                found.append(f"getattr {name.value}")
    return found


def explained(file: str, call: str) -> bool:
    if file == DOOR or call in ALLOWED.get(file, {}):
        return True
    return file.startswith(SQL_ROOMS) and call in SQL_CALLS


def test_only_the_door_removes() -> None:
    strangers = [
        f"{file}: {call}"
        for path in sorted(SOURCE.rglob("*.py"))
        for file in [path.relative_to(SOURCE).as_posix()]
        for call in removals(path.read_text())
        if not explained(file, call)
    ]
    assert strangers == []


def test_every_exception_is_still_used() -> None:
    for file, calls in ALLOWED.items():
        found = set(removals((SOURCE / file).read_text()))
        assert set(calls) <= found, f"{file} does not need its exception any more"


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.remove('x')",
        "from os import unlink\nunlink('x')",
        "import shutil\nshutil.rmtree('x')",
        "from pathlib import Path\nPath('x').unlink()",
        "import obstore\nobstore.delete(s, ['x'])",
        "client.delete_objects(Bucket='b')",
        "getattr(os, 'unlink')('x')",
        "gone = os.unlink\ngone('x')",
        "io.delete('x')",
    ],
)
def test_the_scan_sees_every_spelling(code: str) -> None:
    assert removals(code)
