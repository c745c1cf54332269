"""`[cost]`: what storage costs, and how an amount is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.model.cost import GIB, Cost, requests_for
from lakewarden.model.errors import ConfigError
from lakewarden.settings import load_settings


def prices(tmp_path: Path, text: str, **env: str) -> Cost:
    file = tmp_path / "lakewarden.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(str(file), env=env).cost.prices


def test_defaults_and_what_a_user_says(tmp_path: Path) -> None:
    assert prices(tmp_path, "") == Cost(0.023, 0.005, "USD")
    said = prices(tmp_path, '[cost]\nper_gib_month = 1\ncurrency = "EUR"\n', LAKEWARDEN_COST__PER_1000_REQUESTS="0.5")
    assert said == Cost(1.0, 0.5, "EUR")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("per_gib_month = -1", "per_gib_month"),
        ("per_gib_month = inf", "per_gib_month"),
        ('per_1000_requests = "0.1"', "per_1000_requests"),
        ('currency = ""', "currency"),
        ('currency = "a currency that nobody knows"', "currency"),
        ("per_month = 1", "per_month"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        prices(tmp_path, f"[cost]\n{line}\n")


def test_amounts() -> None:
    cost = Cost(0.02, 0.005, "USD")
    assert cost.money(cost.of_month(50 * GIB)) == "1.00 USD"
    assert cost.money(cost.of_month(1)) == "under 0.01 USD"
    assert cost.money(0) == "0.00 USD"
    assert cost.money(1234567.891) == "1,234,567.89 USD"
    assert cost.of_requests(requests_for(2_000_001)) == pytest.approx(2001 / 1000 * 0.005)
