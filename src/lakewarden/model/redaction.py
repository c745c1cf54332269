"""What may be printed of a value that can hold a secret: one rule for logs, errors, policies and pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_SECRET_WORDS = frozenset({
    "password", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "tokens", "credential", "credentials",
    "sas", "signature", "apikey", "authorization",
})  # fmt: skip
# Names with the word "key" that identify things instead of opening them. A bare `key` is a lease's or an object's name.
_PUBLIC_KEYS = frozenset({"lease", "object", "partition", "primary", "sort", "foreign", "group", "config"})

# In abfss://container@account the part before the @ is the container, part of the file's name.
# Every repetition that another one may follow is bounded: whoever asks the service writes the text, and a pattern that
# looks at the rest of a long text from each of its letters holds up everybody for minutes.
_USER_INFO = re.compile(r"(?i)\b(?!abfss?:|wasbs?:)([a-z][a-z0-9+.-]{0,40}://)[^\s/?#'\"]*@")
_NAMED_VALUE = re.compile(
    r"(?i)((?:password|passwd|passphrase|secret|token|credential|access[_-]key|account[_-]key|signature)[\w.-]{0,80}"
    r"['\"]?\s?[=:]\s?['\"]?)(?:bearer )?[^\s'\",;&})]+"
)
# What opens the service itself, wherever somebody has put it: an address, a reason, the key of a request.
_OWN_TOKEN = re.compile(r"\b(lw_[0-9a-f]{16}_)[A-Za-z0-9_-]{43}")
_BEARER = re.compile(r"(?i)\b(bearer|basic) [a-z0-9._~+/=-]{8,}")
_SIGNED_QUERY = re.compile(r"(?i)([?&](?:sig|x-amz-[a-z-]+|x-goog-[a-z-]+)=)[^&\s'\"]+")


def is_secret(name: str) -> bool:
    """Whether a setting of this name opens something. Unknown kinds of keys count as secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if _SECRET_WORDS.intersection(words):
        return True
    return "key" in words and len(words) > 1 and not _PUBLIC_KEYS.intersection(words)


def redact(value: Any, name: str = "") -> Any:
    """The value as it may be shown: secrets masked by name, at any depth, and inside text and URLs."""
    if name and is_secret(name) and value is not None and not isinstance(value, bool):
        return MASK
    if isinstance(value, Mapping):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, str):
        return _redact_text(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(item) for item in value]
    return value


def _redact_text(text: str) -> str:
    if "lw_" in text:
        text = _OWN_TOKEN.sub(rf"\1{MASK}", text)
    # Most texts are names and numbers. Each pattern is tried only where there is what it cannot do without.
    if "@" in text and "://" in text:
        text = _USER_INFO.sub(rf"\1{MASK}@", text)
    if "=" in text:
        text = _SIGNED_QUERY.sub(rf"\1{MASK}", text)
    if " " in text:
        text = _BEARER.sub(rf"\1 {MASK}", text)
    if "=" in text or ":" in text:
        text = _NAMED_VALUE.sub(rf"\1{MASK}", text)
    return text
