"""The ledger's fixtures, for this folder."""

from tests.support.ledger import clock, ledger, ledger_url

__all__ = ["clock", "ledger", "ledger_url"]
