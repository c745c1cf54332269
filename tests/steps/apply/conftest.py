"""A PostgreSQL for the tests of applying."""

from tests.fixtures_ledger import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
