"""Addresses and file names, a column at a time: one spelling per object, one kind per name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.uri import BLOB_HOST, DETOURS, DFS_HOST, SCHEME_CLASSES, one_names
from lakewarden.model.verdict import Kind

METADATA_JSON = r"\.metadata\.json(\.gz)?$"
KINDS = tuple(Kind)
KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
# Added to the code of a file that only states need which are no longer current: it is kept, and may be gone. The smaller
# code wins where two say what a file is, so one that any current state needs is certain.
SOFT = 64
CODES_BY_NAME = {str(kind): code for kind, code in KIND_CODES.items()}
CODES_BY_NAME |= {f"soft {kind}": code + SOFT for kind, code in KIND_CODES.items()}
assert len(KINDS) <= SOFT, "a kind and its softness are one byte"


def _spellings() -> list[tuple[str, str]]:
    names: dict[str, list[str]] = defaultdict(list)
    for spelling, canonical in SCHEME_CLASSES.items():
        names[canonical].append(spelling)
    del names["file"]
    rules = [(rf"^(?i:{'|'.join(spelled)})://", f"{canonical}://") for canonical, spelled in names.items()]
    rules.append((f"^abfs://{BLOB_HOST}", f"abfs://{DFS_HOST}"))
    return [*rules, (r"^(?i:file):(//localhost)?/+", "file:///"), (r"^/+", "file:///")]


_RULES = _spellings()
LOCAL = "file:///"
_PLAIN = ("s3://", "file:///", "gs://")
_KNOWN = rf"^(file:///|({'|'.join(sorted(set(SCHEME_CLASSES.values()) - {'file'}))})://[^/])"
_HOSTED = r"^(?i:file)://[^/]"
_LOCALHOST = r"^(?i:file)://localhost/"


def canonical_column(values: pa.Array) -> pa.Array:
    """Every address in its one spelling, as `model.uri.canonical` would give it; null where there is no knowing it.

    An address in a spelling that nobody knows would match no listed file, and the file it means would look like
    an orphan: whoever reads one must refuse it.
    """
    if names := one_names():
        for other, one in names.items():
            values = pc.replace_substring_regex(values, f"^{_any_spelling(other)}/", f"{one}/")
    for prefix in _PLAIN:
        if pc.all(pc.starts_with(values, prefix)).as_py() and not pc.any(pc.starts_with(values, prefix + "/")).as_py():
            return _direct(values) if prefix == "file:///" else values
    # Lists name the same manifests again and again: each spelling is looked at once.
    encoded = pc.dictionary_encode(values)
    return _spelled_once(encoded.dictionary).take(encoded.indices)


def _any_spelling(store: str) -> str:
    """A pattern for a store in every spelling of its scheme."""
    scheme, _, bucket = store.partition("://")
    spelled = "|".join(name for name, known in SCHEME_CLASSES.items() if known == scheme)
    return f"(?i:{spelled})://{re.escape(bucket)}"


def _spelled_once(values: pa.Array) -> pa.Array:
    hosted = pc.and_not(pc.match_substring_regex(values, _HOSTED), pc.match_substring_regex(values, _LOCALHOST))
    for pattern, replacement in _RULES:
        values = pc.replace_substring_regex(values, pattern, replacement)
    known = pc.and_not(pc.match_substring_regex(values, _KNOWN), hosted)
    return _direct(pc.if_else(known, values, pa.scalar(None, pa.string())))


def _direct(values: pa.Array) -> pa.Array:
    """Local addresses with `a//b` and `a/./b` folded to `a/b`; null for an address with `..` in it.

    `/data/../b` may be `/b`, or lie elsewhere where `data` is a link: an address that only a disk can resolve is unknown.
    """
    detours = pc.match_substring_regex(values, DETOURS)
    if not pc.any(detours).as_py():
        return values
    path = pc.replace_substring_regex(pc.utf8_slice_codeunits(values, len("file://")), r"/\.$", "/")
    path = pc.replace_substring_regex(path, r"/(\.?/)+", "/")
    known = pc.invert(pc.match_substring_regex(path, r"/\.\.(/|$)"))
    folded = pc.binary_join_element_wise("file://", pc.if_else(known, path, pa.scalar(None, pa.string())), "")
    return pc.if_else(detours, folded, values)


def match_keys(keys: pa.Array, roots: pa.Array, homes: Mapping[int, str]) -> pa.Array:
    """What each listed key is compared by: itself, or its bare name below its root's home."""
    if not homes:
        return keys
    numbers = roots.to_numpy()
    known = sorted(homes)
    at = np.searchsorted(known, numbers)
    at[at == len(known)] = 0
    mine = np.array(known)[at] == numbers
    if not mine.any():
        return keys
    home = pa.array([homes[number] for number in known], pa.string()).take(pa.array(at))
    return pc.if_else(pa.array(mine), pc.binary_join_element_wise(home, file_names(keys), ""), keys)


def file_names(keys: pa.Array) -> pa.Array:
    """The part after the last slash, whatever lines the directories' names have."""
    return pc.replace_substring_regex(keys, r"(?s)^.*/", "")


def directories(addresses: pa.Array) -> pa.Array:
    """The part before the last slash; an address without one is its own."""
    return pc.list_element(pc.split_pattern(addresses, "/", max_splits=1, reverse=True), 0)


def local_directories(addresses: pa.Array) -> list[str]:
    """The directories of local files among these addresses, each once, with a slash at the end: a disk may know one of
    them under another name. Much fewer than files, as a rule."""
    mine = addresses.filter(pc.starts_with(addresses, LOCAL))
    return [f"{directory}/" for directory in pc.unique(directories(mine)).to_pylist()]
