"""The histories of Paimon tables, built once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.formats.paimon.histories import Library
from tests.support.processes import shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def library(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Every history, by name; Java's part of them runs in the Spark session."""
    home = shared(tmp_path_factory) / "histories"
    home.mkdir(exist_ok=True)
    return Library(home)
