"""The description of the API is committed, is the real one, and says of every route what a caller has to know."""

from __future__ import annotations

import json

from tests.docs.pages import DOCS, code_in, rows
from tests.docs.pages import text_of as page_of
from tools.openapi import PAGE, described, text_of


def test_the_committed_description_is_the_real_one() -> None:
    real = text_of(described())
    assert PAGE.read_text(encoding="utf-8") == real, "routes changed: python -m tools.openapi, and read the difference"


def test_every_route_says_what_it_does_and_how_it_fails() -> None:
    document = json.loads(PAGE.read_text(encoding="utf-8"))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            named = f"{method} {path}"
            assert operation.get("description"), named
            if path.startswith("/api/v1"):
                assert {"401", "403", "404", "409", "422", "503"} <= operation["responses"].keys(), named
                assert operation.get("tags"), named


def test_a_route_is_described_alike_for_people_and_for_programs() -> None:
    said = {code_in(cells[0]): cells[2] for cells in rows(page_of(DOCS / "how-to" / "api.md"), "route")}
    described = {
        f"{method.upper()} {path}": " ".join(one["description"].split())
        for path, methods in json.loads(PAGE.read_text(encoding="utf-8"))["paths"].items()
        for method, one in methods.items()
    }
    assert said == described
