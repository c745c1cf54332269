"""The owner record: one small object that says which deployment cleans here."""

from __future__ import annotations

import json

from lakewarden.jobs.rooms import Rooms
from lakewarden.model.errors import LakewardenError, Refusal
from lakewarden.model.uri import FileUri

OWNER_FILE = ".lakewarden/owner.json"


def owner_place(root_prefix: str) -> str:
    """Where the owner record of a root lies: once a bucket; on local disk, which has none, in the root itself."""
    uri = FileUri.parse(root_prefix)
    return root_prefix if uri.scheme == "file" else f"{uri.store}/"


def foreign_owner(rooms: Rooms, place: str) -> Refusal | None:
    """Why this place is left alone: another deployment owns it, or its record cannot be read."""
    uri = place + OWNER_FILE
    try:
        owner = json.loads(rooms.stores.get(uri))
        if owner["deployment"] == rooms.ledger.switches.deployment_id():
            return None
        message = f"{uri} says that deployment {owner['deployment']} (worker {owner.get('worker')}) cleans here"
    except FileNotFoundError:
        return None
    except (LakewardenError, ValueError, KeyError, TypeError) as error:
        message = f"{uri} cannot be read ({error})"
    hint = "Use one deployment (one state) per bucket. If the other one is gone for good, remove its owner record."
    return Refusal("LW-ROOT-006", f"{message}; nothing under it is touched", hint)


def claim_place(rooms: Rooms, place: str) -> Refusal | None:
    """Enter this deployment as the owner, create-only; the refusal if another one was first."""
    record = {"deployment": rooms.ledger.switches.deployment_id(), "worker": rooms.worker}
    if rooms.stores.create(place + OWNER_FILE, json.dumps(record).encode()):
        return None
    return foreign_owner(rooms, place)
