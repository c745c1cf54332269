"""What a task says of a file that it could not read."""

from __future__ import annotations

from lakewarden.model.errors import IncompleteManifestError, UnreadableMetadataError
from lakewarden.pipeline.read.notes import GONE_HINT, error_note, note_refusal

URI = "s3://lake/t/metadata/snap-1.avro"


def test_a_file_that_is_gone_is_told_once_and_not_called_damaged() -> None:
    told = note_refusal(error_note(1, FileNotFoundError(f"no such file: {URI}"), URI))
    assert told.code == UnreadableMetadataError.code
    assert told.message == f"{URI} is gone; nothing of this table is touched"
    assert told.hint == GONE_HINT


def test_what_nobody_foresaw_is_told_with_its_words() -> None:
    told = note_refusal(error_note(1, ValueError("half a block"), URI))
    assert told.message == f"{URI} cannot be read (ValueError: half a block); nothing of this table is touched"


def test_a_damaged_manifest_keeps_its_own_hint() -> None:
    told = note_refusal(error_note(1, IncompleteManifestError("is cut"), URI))
    assert (told.message, told.hint) == (
        f"{URI} is cut; nothing of this table is touched",
        IncompleteManifestError.hint,
    )
