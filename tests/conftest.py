"""Fixtures that every test may ask for."""

pytest_plugins = ["tests.fixtures_spark", "tests.fixtures_storage"]
