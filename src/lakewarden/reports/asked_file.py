"""The file that a question is about: one address, in the one spelling that tables, plans and the journal are searched for."""

from __future__ import annotations

from lakewarden.model.errors import UsageError
from lakewarden.model.uri import OPENED, STORES, FileUri


def address_of(text: str) -> str:
    """Raises UsageError for what names no file: an answer to `data/a.parquet` would be about no file at all."""
    try:
        uri = FileUri.parse(text)
    except ValueError:
        uri = None
    if uri is None or not uri.key or uri.key.endswith("/"):
        raise UsageError(
            f"{text!r} is not a file's address; nothing was looked up",
            hint="Name the file by an absolute path, or by an address such as s3://bucket/key.",
        )
    if uri.scheme not in OPENED:
        raise UsageError(
            f"{uri} is in no store that can be opened; nothing was looked up",
            hint=f"Stores of these schemes can be opened: {STORES}.",
        )
    return str(uri)
