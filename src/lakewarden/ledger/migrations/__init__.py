"""Schema changes, oldest first, run by `ledger.migrate`."""
