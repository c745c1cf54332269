"""The owner record: one small object that says which deployment cleans here."""

from __future__ import annotations

import json

from lakewarden.model.errors import ContestedStoreError, LakewardenError, Refusal, TwoNamesError
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.conditions import prove_conditions

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
            return _another_name(owner.get("store"), FileUri.parse(record).store)
        message = f"{record} says that deployment {owner['deployment']} (worker {owner.get('worker')}) cleans here"
    except FileNotFoundError:
        return None
    except ContestedStoreError as error:
        return error.refusal()
    except (LakewardenError, ValueError, KeyError, TypeError) as error:
        message = f"{record} cannot be read ({error})"
    hint = "Use one deployment (one state) per bucket. If the other one is gone for good, remove its owner record."
    return Refusal("LW-ROOT-006", f"{message}; nothing under it is touched", hint)


def claim_place(deployment: Deployment, record: str) -> Refusal | None:
    """Enter this deployment as the owner, create-only; the refusal if another one was first.

    Raises NoConditionsError where the store would let two of them enter.
    """
    prove_conditions(deployment.stores, record)
    owner = {
        "deployment": deployment.ledger.switches.deployment_id(),
        "worker": deployment.worker,
        "store": FileUri.parse(record).store,
    }
    if deployment.stores.create(record, json.dumps(owner).encode()):
        return None
    return foreign_owner(deployment, record)


def _another_name(written: str | None, read: str) -> Refusal | None:
    """Our own record, which we wrote under another name: one bucket has both, and a file of it two addresses."""
    if written in (None, read):
        return None
    return two_names(str(written), read)


def two_names(one: str, other: str) -> Refusal:
    """Why the roots of two names are left alone that are found to be one bucket's."""
    return TwoNamesError(
        f"{one} and {other} are two names of one bucket: what is written under one is found under the other; nothing "
        "under either is touched"
    ).refusal()
