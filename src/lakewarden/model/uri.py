"""How a file is named: one canonical spelling per stored object, compared as stored.

Iceberg writes keys literally (`%3A` stays `%3A`), so nothing is ever decoded. Only the scheme's
spelling is normalised: engines write the same bucket as s3, s3a or s3n, and the same local file as
`/x`, `file:/x` or `file:///x`. Mixing those up is the best-known way to destroy a table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SCHEME_CLASSES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3",
    "gs": "gs", "gcs": "gs",
    "abfs": "abfs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs", "az": "az", "azure": "az",
    "file": "file", "memory": "memory", "oss": "oss", "cosn": "cosn", "hdfs": "hdfs",
}  # fmt: skip

_URI = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):(//)?([^/]*)(/.*)?$", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class FileUri:
    """One object: the scheme's class, the bucket (empty for local files), the key as stored."""

    scheme: str
    bucket: str
    key: str

    @staticmethod
    def parse(text: str) -> FileUri:
        """Read any spelling. A bare path is a local file."""
        if text.startswith("/"):
            return FileUri("file", "", text.lstrip("/"))
        match = _URI.match(text)
        if match is None:
            raise ValueError(f"not a file address: {text!r}")
        scheme, slashes, authority, path = match.groups()
        scheme = SCHEME_CLASSES.get(scheme.lower(), scheme.lower())
        if scheme == "file":
            if slashes is None or authority in ("", "localhost"):
                return FileUri("file", "", (path or "").lstrip("/"))
            raise ValueError(f"a file address with a host: {text!r}")
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


def canonical(text: str) -> str:
    """The one spelling under which a file is compared."""
    return str(FileUri.parse(text))


def within(uri: str, prefix: str) -> bool:
    """Whether a canonical address lies under a canonical prefix (which ends in a slash)."""
    return uri.startswith(prefix)
