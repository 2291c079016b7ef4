"""New memories: a title that can be one, a header, a file of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from memvault import clock
from memvault.errors import UsageError
from memvault.model import FALLBACK_TYPE, Memory
from memvault.secrets_found.detect import masked
from memvault.vault import layout
from memvault.vault.codec import plain_text
from memvault.vault.store import MemoryStore

_LONGEST_TITLE = 60
_MARKS = re.compile(r"^[\s>#*+-]+|^\s*\d+[.)]\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_KEY = re.compile(r"[^\W\d][\w-]{0,59}")
_RESERVED = frozenset(
    "id memid title type memorytype created modified path filepath etag supersedes".split()
)


def add(
    store: MemoryStore, title: str, content: str, memory_type: str, header: Mapping[str, Any]
) -> Memory:
    """Write a new memory with a fresh memId; ``header`` goes between type and times.

    Raises:
        UsageError: the title is empty, or the type's name cannot be one.
    """
    name = clean_title(title)
    kind = layout.normal_type(memory_type) if memory_type.strip() else FALLBACK_TYPE
    own = {"id": layout.new_id(masked(name)), "memory_type": kind, "tags": []}
    times = dict.fromkeys(("created", "modified"), clock.iso())
    return store.add(kind, name, {**own, **header, **times}, content)


def clean_title(title: str) -> str:
    """Return a title on one line, without what cannot be printed.

    Raises:
        UsageError: nothing is left.
    """
    plain = plain_text(title)
    name = " ".join("".join(char for char in plain if char.isprintable() or char.isspace()).split())
    if not name:
        raise UsageError("The title is empty", "say in a few words what the memory is about")
    return name


def clean_tags(tags: list[str]) -> list[str]:
    """Return tags without hashes, blanks and repetitions."""
    cleaned = ("-".join(tag.strip().lstrip("#").split()) for tag in tags)
    return list(dict.fromkeys(tag for tag in cleaned if tag))


def title_of(text: str, longest: int = _LONGEST_TITLE) -> str:
    """Return a title made of a text's own first words, with masks over secrets: it may be cut.

    Raises:
        UsageError: the text is empty.
    """
    lines = [line for line in masked(plain_text(text)).splitlines() if any(map(str.isalnum, line))]
    if not lines:
        raise UsageError("The text is empty", "say what is to be kept, in words")
    sentence = _SENTENCE.split(_MARKS.sub("", lines[0]).strip(), maxsplit=1)[0]
    words = clean_title(sentence or lines[0])
    if len(words) > longest:
        short = words[: longest + 1].rpartition(" ")[0]
        words = short if len(short) > longest // 3 else words[:longest]
    return words.rstrip(" .,;:") or words


def metadata_header(metadata: Mapping[str, Any], area: str | None) -> dict[str, Any]:
    """Return the header keys of what a caller says of a text.

    Raises:
        UsageError: a key is invalid, or one that the vault sets itself, or a value
            is neither a text, a number, a truth value nor a list of these.
    """
    header: dict[str, Any] = {}
    for key, value in metadata.items():
        if not _KEY.fullmatch(key):
            raise UsageError(
                f"{key!r} cannot be a key of the metadata", "use letters, digits, - and _"
            )
        if key.casefold().replace("_", "").replace("-", "") in _RESERVED:
            raise UsageError(f"{key!r} is a key that the vault sets itself", "choose another key")
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            if isinstance(entry, str | int) or (isinstance(entry, float) and math.isfinite(entry)):
                continue
            raise UsageError(
                f"The value of {key!r} must be a text, a number, true, false or a list of these",
                "write nested values as a text, or as several keys",
            )
        header[key] = clean_tags([str(tag) for tag in entries]) if key == "tags" else value
    if area and area.strip():
        if header.get("area", area) != area:
            raise UsageError("The area is given twice with different values", "give it once")
        header["area"] = area.strip()
    return header
