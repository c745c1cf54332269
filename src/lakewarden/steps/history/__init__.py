"""The archive of snapshots: how its files are written and read, and what expiry asks of it."""
