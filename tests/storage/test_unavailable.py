"""A store's failure in the user's words."""

from __future__ import annotations

import pytest

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.storage.store import DISK, unavailable


def test_a_disk_speaks_without_pythons_number_and_quotes() -> None:
    found = unavailable(NotADirectoryError(20, "Not a directory", "/lake/file/below"), "listing /lake/file/below")
    assert (found.message, found.hint) == ("listing /lake/file/below failed: Not a directory", DISK)


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), ValueError("no such bucket")])
def test_what_no_disk_says_keeps_the_step_of_a_store(error: Exception) -> None:
    found = unavailable(error, "reading s3://b/x")
    assert (found.message, found.hint) == (f"reading s3://b/x failed: {error}", StoreUnavailableError.hint)
