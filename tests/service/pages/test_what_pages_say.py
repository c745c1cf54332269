"""Names in a lake are written by others: none of them steers a page, and every one of them has a page."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from lakewarden.ledger.requests import Ended
from lakewarden.model.actor import Actor
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.service.html.error_docs import as_html, error_doc
from tests.docs.pages import ROOT
from tests.service.pages.fleet import fleet_rows
from tests.support.service import client_of, service_in

NAMES = (
    "prod.a.<script>alert(1)</script>",
    'prod.a."onmouseover="alert(1)',
    "prod.a.'; drop table lw_fleet; --",
    "prod.a.日本の表 ünï 🦆",
    f"prod.a.{'長' * 300}",
    "prod.a.`with.dot`",
    "prod.a/b/../c?d=e#f",
    "prod.a.\u202egnitrever",
    "prod.a.{{ 7 * 7 }}",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_any_name_is_listed_found_and_shown(tmp_path: Path, name: str) -> None:
    service = service_in(tmp_path)
    now = service.clock.now()
    row = replace(next(fleet_rows(1, now)), identifier=name, tenant=name, health="refused", code=name, codes=[name])
    reasons = [{"code": name, "message": name, "hint": name}]
    refs = [{"name": name, "snapshot_id": 1003, "kind": "tag"}, {"name": "main", "snapshot_id": 1011, "kind": "branch"}]
    row = replace(row, refs=2, detail={**row.detail, "reasons": reasons, "refs": refs, "location": name})
    service.ledger.fleet.replace([row], now)
    service.ledger.requests.create("req", RequestKind.FORECAST, Actor(name, name), arguments={"select": [name]})
    client = client_of(service)
    paths = ["/", "/tables", f"/tables?search={quote(name)}", f"/tables/{quote(name, safe='')}", "/branches", "/runs"]
    for path in [*paths, "/requests/req", f"/audit?uri={quote(name)}", f"/tables?tenant={quote(name)}&code=%3Cb%3E"]:
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.text, path
        assert '"onmouseover="' not in answer.text, path
        assert "\u202e" not in answer.text, path
        assert answer.text.partition("prod.a.")[2][:2] != "49", path
    assert f'href="/tables/{quote(name, safe="")}"' in client.get("/tables").text
    service.ledger.close()


def test_what_anybody_asks_for_is_not_remembered(tmp_path: Path) -> None:
    """Long words in addresses, each another one, would fill a web process in an afternoon."""
    client = client_of(service_in(tmp_path))
    long = 40_000
    for path in ("/errors/{}", "/tables?search={}", "/audit?uri={}", "/tables/{}", "/plans/{}", "/branches?search={}"):
        client.get(path.format("x" * long))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(60):
        for path in ("/errors/{}", "/tables?search={}", "/audit?uri={}", "/tables/{}", "/plans/{}"):
            assert client.get(path.format(f"{number:05}" + "x" * long)).status_code in (200, 404)
    urlsplit.cache_clear()  # Python's own keeps 128
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < 20 * long, f"{kept:,} bytes of {5 * 60 * long:,} that were sent"


def test_what_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    client = client_of(service_in(tmp_path))
    for path in (
        "/tables/x.y",
        "/plans/x",
        "/runs/x",
        "/requests/x",
        "/errors/LW-NONE-999",
        "/errors/..%2Fx",
        "/plans/x/diff",
    ):
        answer = client.get(path)
        assert (answer.status_code, "Traceback" in answer.text) == (404, False), path
        assert "Not found" in answer.text


def test_empty_pages_say_what_to_do_next(tmp_path: Path) -> None:
    client = client_of(service_in(tmp_path))
    told = {
        "/": "lakewarden config check",
        "/tables": "lakewarden config check",
        "/plans": "An operator can ask for one here",
        "/runs": "A run begins when somebody applies a plan",
        "/schedule": "enabled = false",
        "/compaction": "It changes nothing.",
        "/branches": "As soon as a writer makes one",
        "/leases": "lakewarden serve",
    }
    for path, words in told.items():
        assert words in client.get(path).text, path


@pytest.mark.parametrize("path", sorted(path.stem for path in (ROOT / "docs" / "errors").glob("LW-*.md")))
def test_every_error_code_has_its_page(path: str) -> None:
    found = error_doc(path)
    assert found is not None
    title, text = found
    assert title.startswith(path)
    assert "<h2>What to do</h2>" in text


def test_the_runbook_knows_the_markdown_that_it_is_written_in() -> None:
    text = as_html("A `<b>`.\n\n- one\n- **two** [LW-A-001](LW-A-001.md)\n\n```sh\na\n\nb\n```\n\n## Next\n")
    assert str(text) == (
        "<p>A <code>&lt;b&gt;</code>.</p>\n<ul><li>one</li>\n<li><strong>two</strong> "
        '<a href="/errors/LW-A-001">LW-A-001</a></li></ul>\n'
        '<pre tabindex="0"><code>a\n \nb</code></pre>\n<h2>Next</h2>'
    )


def test_what_failed_before_a_run_began_is_on_the_first_page(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    requests = service.ledger.requests
    requests.create("q1", RequestKind.RUN, Actor("schedule", "host-1"), job="orphan-cleanup")
    requests.claim("host-1")
    error = {"code": "LW-CATALOG-001", "message": "the catalog prod did not answer", "hint": "Check its address."}
    requests.finish("q1", "host-1", Ended(RequestStatus.FAILED, error=error))
    text = client_of(service).get("/").text
    assert "the catalog prod did not answer" in text
    assert 'href="/errors/LW-CATALOG-001"' in text
    assert "Nothing failed" not in text
