"""A task's word to the driver that a table must be refused: it travels among the rows, in the place of a name."""

from __future__ import annotations

import json

from lakewarden.model.errors import (
    BoundsError,
    IncompleteManifestError,
    LakewardenError,
    Refusal,
    UnknownAddressError,
    UnprovenListError,
    UnreadableMetadataError,
)

NOTE = "!"
HINTS = {error.code: error.hint for error in (BoundsError, UnknownAddressError, UnprovenListError)}


def error_note(table_id: int, error: Exception, uri: str) -> str:
    """A task's word to the driver that a table must be refused."""
    code = error.code if isinstance(error, LakewardenError) else UnreadableMetadataError.code
    message = error.message if isinstance(error, LakewardenError) else f"{type(error).__name__}: {error}"
    return NOTE + json.dumps({"error": code, "table": table_id, "message": f"{uri} {message}"})


def note_refusal(note: str) -> Refusal:
    """The refusal that a task's note asks for."""
    told = json.loads(note.removeprefix(NOTE))
    hint = HINTS.get(told["error"], IncompleteManifestError.hint)
    return Refusal(told["error"], f"{told['message']}; nothing of this table is touched", hint)
