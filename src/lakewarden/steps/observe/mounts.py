"""One local directory at two places of the file system without a link: a bind mount, or a file system mounted twice."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

LOCAL = "file://"
TABLE = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A part of a file system (`device`, and the directory in it) and where it is to be seen."""

    device: str
    root: str
    point: str


class Mounts:
    """The mounts of this machine. A machine that does not tell has none, and every path is where it says."""

    def __init__(self, table: str | None = None) -> None:
        try:
            text = TABLE.read_text(encoding="utf-8", errors="surrogateescape") if table is None else table
        except OSError:
            text = ""
        found = [_mount(line) for line in text.splitlines()]
        self._by_point = {mount.point: mount for mount in found}
        # Of two places of one directory, the one counts that shows more of its file system.
        self._by_device: dict[str, list[Mount]] = {}
        for mount in sorted(found, key=lambda mount: (len(mount.root), mount.point)):
            self._by_device.setdefault(mount.device, []).append(mount)

    def one_name(self, path: str) -> str:
        """The one path by which a directory is compared, wherever else it is mounted. The path has no links in it."""
        point = path
        while point not in self._by_point and point != "/":
            point = os.path.dirname(point)
        mine = self._by_point.get(point)
        if mine is None:
            return path
        within = _joined(mine.root, path[len(point) :])
        for mount in self._by_device[mine.device]:
            if mount.root == "/" or within == mount.root or within.startswith(f"{mount.root}/"):
                return _joined(mount.point, within[len(mount.root.rstrip("/")) :])
        return path


def real(prefix: str, mounts: Mounts) -> str:
    """A local directory, or the beginning of names in one, without links and second mounts; any other address as it is."""
    if not prefix.startswith(LOCAL):
        return prefix
    directory, _, rest = prefix.removeprefix(LOCAL).rpartition("/")
    return f"{LOCAL}{mounts.one_name(os.path.realpath(directory or '/')).rstrip('/')}/{rest}"


def _mount(line: str) -> Mount:
    _, _, device, root, point, *_ = line.split(" ")
    return Mount(device, _plain(root), _plain(point))


def _plain(text: str) -> str:
    """A path of the kernel's table, which writes blanks in it as numbers."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _joined(above: str, below: str) -> str:
    return f"{above.rstrip('/')}/{below.lstrip('/')}".rstrip("/") or "/"
