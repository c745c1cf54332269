"""The owner record: one small object that says which deployment cleans here."""

from __future__ import annotations

import json

from lakewarden.model.errors import LakewardenError, Refusal
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment

FOLDER = ".lakewarden/"


def owner_record(root_prefix: str) -> str:
    """Where the owner record of a root lies: once a bucket; on local disk, which has none, beside the root.

    Never under a root: what lies there is listed, and is the table's.
    """
    uri = FileUri.parse(root_prefix)
    if uri.scheme != "file" or not uri.key.strip("/"):
        return f"{uri.store}/{FOLDER}owner.json"
    parent, name = root_prefix.rstrip("/").rsplit("/", 1)
    return f"{parent}/{FOLDER}owner-{name}.json"


def foreign_owner(deployment: Deployment, record: str) -> Refusal | None:
    """Why the roots of this record are left alone: another deployment owns them, or it cannot be read."""
    try:
        owner = json.loads(deployment.stores.get(record))
        if owner["deployment"] == deployment.ledger.switches.deployment_id():
            return None
        message = f"{record} says that deployment {owner['deployment']} (worker {owner.get('worker')}) cleans here"
    except FileNotFoundError:
        return None
    except (LakewardenError, ValueError, KeyError, TypeError) as error:
        message = f"{record} cannot be read ({error})"
    hint = "Use one deployment (one state) per bucket. If the other one is gone for good, remove its owner record."
    return Refusal("LW-ROOT-006", f"{message}; nothing under it is touched", hint)


def claim_place(deployment: Deployment, record: str) -> Refusal | None:
    """Enter this deployment as the owner, create-only; the refusal if another one was first."""
    owner = {"deployment": deployment.ledger.switches.deployment_id(), "worker": deployment.worker}
    if deployment.stores.create(record, json.dumps(owner).encode()):
        return None
    return foreign_owner(deployment, record)
