"""The ledger's fixtures, for this folder."""

from tests.fixtures_ledger import clock, ledger, ledger_url, postgres_server, postgres_url

__all__ = ["clock", "ledger", "ledger_url", "postgres_server", "postgres_url"]
