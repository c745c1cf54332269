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
HINTED = (BoundsError, UnknownAddressError, UnprovenListError, UnreadableMetadataError)
HINTS = {error.code: error.hint for error in HINTED}
# Rolling the table back does not help against a file that is gone: the snapshot that names it stays in the metadata.
GONE_HINT = (
    "The file is gone: put it back from a backup. If no branch or tag leads to its snapshot, the snapshot can be given "
    "up instead: docs/errors/LW-TABLE-001.md says how. Until then nothing of this table is touched."
)


def error_note(table_id: int, error: Exception, uri: str) -> str:
    """A task's word to the driver that a table must be refused."""
    code = error.code if isinstance(error, LakewardenError) else UnreadableMetadataError.code
    told = {"error": code, "table": table_id, "message": f"{uri} {_words(error)}"}
    return NOTE + json.dumps(told | {"gone": isinstance(error, FileNotFoundError)})


def _words(error: Exception) -> str:
    """What is said of a file behind its address."""
    if isinstance(error, LakewardenError):
        return error.message
    return "is gone" if isinstance(error, FileNotFoundError) else f"cannot be read ({type(error).__name__}: {error})"


def note_refusal(note: str) -> Refusal:
    """The refusal that a task's note asks for."""
    told = json.loads(note.removeprefix(NOTE))
    hint = GONE_HINT if told["gone"] else HINTS.get(told["error"], IncompleteManifestError.hint)
    return Refusal(told["error"], f"{told['message']}; nothing of this table is touched", hint)
