"""How a file is named: one canonical spelling per stored object, compared as stored.

Iceberg writes keys literally (`%3A` stays `%3A`), so nothing is ever decoded. Only the scheme's
spelling is normalised: engines write the same bucket as s3, s3a or s3n, and the same local file as
`/x`, `file:/x` or `file:///x`, the same Azure container under `.blob.` and `.dfs.`. Mixing those up is the
best-known way to destroy a table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

SCHEME_CLASSES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3",
    "gs": "gs", "gcs": "gs",
    "abfs": "abfs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs", "az": "az", "azure": "az",
    "file": "file", "memory": "memory", "oss": "oss", "cosn": "cosn", "hdfs": "hdfs",
}  # fmt: skip
# Those of which a store can be opened. Of the others only the names are understood; a `memory` store is for tests.
OPENED = ("abfs", "az", "file", "gs", "memory", "s3")
STORES = ", ".join(scheme for scheme in OPENED if scheme != "memory")

# Steps that a disk takes on the spot (`a//b`, `a/./b`), or out of its way (`a/c/../b`).
DETOURS = r"(?s)^file:///(.*/)?(\.{0,2}/|\.{1,2}$)"
# One container has two hosts on Azure, and every file in it is to be had under both.
BLOB_HOST, DFS_HOST = r"([^/@]*@[^/.]*)\.blob\.", r"\1.dfs."

_DETOURS = re.compile(DETOURS)
_BLOB_HOST = re.compile(f"^{BLOB_HOST}")
_URI = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):(//)?([^/]*)(/.*)?$", re.DOTALL)


# Stores with a second name, such as a bucket's access-point alias: by that name (`s3://alias`), the one that counts.
_one_name: dict[str, str] = {}


@dataclass(frozen=True, slots=True, order=True)
class FileUri:
    """One object: the scheme's class, the bucket (empty for local files), the key as stored."""

    scheme: str
    bucket: str
    key: str

    @staticmethod
    def parse(text: str) -> FileUri:
        """Read any spelling, and any name that a store has. A bare path is a local file. Raises ValueError for what is no
        address, or not the only one."""
        found = FileUri.written(text)
        if _one_name and (store := _one_name.get(found.store)) is not None:
            return FileUri(found.scheme, store.partition("://")[2], found.key)
        return found

    @staticmethod
    def written(text: str) -> FileUri:
        """The same under the store's own name as it is written, whatever other name it has."""
        if text.startswith("/"):
            return _local(text)
        match = _URI.match(text)
        if match is None:
            raise ValueError(f"not a file address: {text!r}")
        scheme, slashes, authority, path = match.groups()
        scheme = SCHEME_CLASSES.get(scheme.lower(), scheme.lower())
        if scheme == "file":
            if slashes is None or authority in ("", "localhost"):
                return _local(path or "")
            raise ValueError(f"a file address with a host: {text!r}")
        if scheme == "abfs":
            authority = _BLOB_HOST.sub(DFS_HOST, authority)
        return FileUri(scheme, authority, (path or "").removeprefix("/"))

    @property
    def store(self) -> str:
        """The bucket or file system that holds it: `s3://bucket`, `file://`."""
        return f"{self.scheme}://{self.bucket}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    def as_prefix(self) -> str:
        """The canonical spelling with one trailing slash, so that `t` never matches `t_v2`."""
        key = self.key.rstrip("/")
        return f"{self.scheme}://{self.bucket}/{key}/" if key else f"{self.scheme}://{self.bucket}/"


def use_one_name(names: Mapping[str, str]) -> None:
    """From now on the stores named first are spelled by the names beside them, in this whole process.

    A name is never taken back: an address that was compared under one name must not be compared under another later.
    Raises ValueError if a name was given away already.
    """
    for other, one in names.items():
        if _one_name.get(other, one) != one:
            raise ValueError(f"{other} is known as {_one_name[other]} already, and cannot be {one} as well")
        _one_name[other] = one


def one_names() -> dict[str, str]:
    """The names that are spelled by another one, with that."""
    return dict(_one_name)


def names_digest() -> str:
    """Empty, or what tells this set of names from others: what was kept under other names is of no use."""
    return hashlib.sha256(repr(sorted(_one_name.items())).encode()).hexdigest()[:12] if _one_name else ""


def _local(path: str) -> FileUri:
    """A local file. Empty and `.` steps lead nowhere; behind a link `..` leads to a place that the address does not tell."""
    key = path.lstrip("/")
    if _DETOURS.match(f"file:///{key}"):
        steps = [step for step in key.split("/") if step not in ("", ".")]
        if ".." in steps:
            raise ValueError(f"a file address with a `..` step in it: {path!r}")
        key = "/".join(steps) + ("/" if steps and key.endswith(("/", "/.")) else "")
    return FileUri("file", "", key)


def is_address(text: str) -> bool:
    """Whether a text names one file, or directory, in a way that can be compared."""
    try:
        FileUri.parse(text)
    except ValueError:
        return False
    return True


def canonical(text: str) -> str:
    """The one spelling under which a file is compared."""
    return str(FileUri.parse(text))


def within(uri: str, prefix: str) -> bool:
    """Whether a canonical address lies under a canonical prefix (which ends in a slash)."""
    return uri.startswith(prefix)
