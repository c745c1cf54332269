"""`restore --from-cold … --as …` as a user types it: exit codes, JSON, and what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.main import main
from tests.jobs.snapshot_expiry.expiry_site import rows_at
from tests.jobs.tier_handoff.aged import age_out, cold_site, hand_over, ids_of, made, shown


def test_restore_from_cold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with cold_site(tmp_path) as site:
        table = made(site.catalog(), appends=2)
        ids = ids_of(table)
        rows = shown(table, ids)
        age_out(site, table, ids[:1])
        seen, _ = hand_over(site)
        config = site.config()

        def command(*words: str) -> tuple[int, dict[str, Any], str]:
            code = main([*words, "--config", config, "--output", "json"])
            said = capsys.readouterr()
            return code, json.loads(said.out or "{}"), said.err

        assert main(["show", seen.path, "--config", config]) == 0
        capsys.readouterr()
        there = ("restore", "--from-cold", str(ids[0]), "--as")
        code, result, _ = command(*there, "lake.sales.back")
        assert (code, result["status"], result["changed"]) == (0, "done", {"restored": 4})
        assert rows_at(site.catalog().load_table("sales.back")) == rows[ids[0]]
        code, told, said = command(*there, "lake.sales.back")
        assert (code, "LW-RESTORE-001" in said + json.dumps(told)) == (1, True)
        assert command("restore", "--from-cold", "7", "--as", "lake.sales.other")[0] == 10
        assert command(*there, "sea.sales.other")[0] == 10
        for words in ((), ("run-1", "--from-cold", "7", "--as", "a.b.c"), ("--from-cold", "7"), ("--as", "a.b.c")):
            assert command("restore", *words)[0] == 64
        qualified = ("restore", "--from-cold", f"lake.sales.orders@{ids[0]}", "--as", "lake.sales.again")
        assert command(*qualified)[0] == 0
        assert command("restore", "--from-cold", f"lake.sales.items@{ids[0]}", "--as", "lake.sales.more")[0] == 10
        assert command("freeze", "--reason", "storm")[0] == 0
        assert command(*there, "lake.sales.frozen")[0] == 4
        assert not site.catalog().table_exists("sales.frozen")
