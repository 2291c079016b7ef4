"""Creation of memories: templates, titles, tags and headers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock
from memvault.arguments.parameters import split_tags
from memvault.errors import NotFound, StorageError, UsageError
from memvault.files import plain_files
from memvault.index.text.sentences import sentence_ends
from memvault.lazy_pattern import lazy_pattern
from memvault.model import FALLBACK_TYPE, FileState, Memory
from memvault.secrets.detector import BUILTIN, SecretDetector
from memvault.store.memory_store import MemoryStore
from memvault.vault import document, paths
from memvault.vault.document import plain_text

FOLDER = "templates"
_PLACEHOLDER = lazy_pattern(r"\{\{\s{0,9}(title|date|time)\s{0,9}(?::([^{}\n]{1,60}))?\}\}")
_DEFAULT_FORMATS = {"date": "YYYY-MM-DD", "time": "HH:mm"}
_DATE_TOKEN = lazy_pattern(
    r"YYYY|YY|MMMM|MMM|MM|M|dddd|ddd|DD|Do|D|HH|H|hh|h|mm|m|ss|s|WW|W|A|a|\[[^\]]{0,60}\]"
)
"""Date format tokens of Moment.js, which Obsidian uses: momentjs.com/docs, section Format."""
_DATE_FORMATS = {
    "YY": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "WW": "%V",
    "DD": "%d",
    "dddd": "%A",
    "ddd": "%a",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "A": "%p",
}
_ORDINAL_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


class RenderedTemplate(NamedTuple):
    """A template with its placeholders filled in: text, type, tags and the rest of its header."""

    body: str
    memory_type: str
    tags: list[str]
    header: dict[str, Any]


def names(root: Path) -> list[str]:
    """Return the names of a vault's templates, sorted."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.md") if path.is_file())


def filled(
    root: Path, name: str, title: str, is_named: bool, moment: datetime | None = None
) -> RenderedTemplate:
    """Return a template with the title, the date and the time filled in.

    ``name`` may also be the path of a file elsewhere in the vault, as Obsidian names templates.
    ``moment`` is in local time, now by default. If there is no such template, the result is empty
    unless ``is_named`` is set.

    Raises:
        NotFound: ``is_named`` is set, and there is no such template.
        StorageError: the template cannot be read.
    """
    known = names(root)
    path = f"{FOLDER}/{name}.md"
    if "/" in name:
        path = f"{paths.resolve_inside(root, name.removesuffix('.md'))}.md"
    if name not in known and not ("/" in name and (root / path).is_file()):
        if not is_named:
            return RenderedTemplate("", "", [], {})
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the templates are {', '.join(known)}"
        raise NotFound(
            f"There is no template {name!r}",
            hint if known else f"a template is a file in the folder {FOLDER}",
        )
    try:
        data = plain_files.read(root / path)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    memory = document.read_memory(data, FileState(path, len(data), 0, 0, 0), frozenset())
    now = moment or clock.now().astimezone()
    kind = memory.metadata.get("memory_type", memory.metadata.get("type"))
    return RenderedTemplate(
        fill(memory.body, title, now).strip("\r\n"),
        kind if isinstance(kind, str) and "{{" not in kind else "",
        [fill(tag, title, now) for tag in memory.tags],
        {
            key: fill(value, title, now) if isinstance(value, str) else value
            for key, value in memory.metadata.items()
            if is_key(key) and not is_reserved(key) and key.casefold() != "tags"
        },
    )


def fill(text: str, title: str, moment: datetime) -> str:
    """Return a text with its placeholders for the title and parts of a local time filled in."""
    return _PLACEHOLDER.sub(lambda match: _placeholder_value(match, title, moment), text)


def _placeholder_value(match: re.Match[str], title: str, now: datetime) -> str:
    if match[1] == "title":
        return title
    return _DATE_TOKEN.sub(
        lambda part: _format_token(part[0], now), match[2] or _DEFAULT_FORMATS[match[1]]
    )


def _format_token(code: str, now: datetime) -> str:
    if code.startswith("["):
        return code[1:-1]
    if code == "Do":
        suffix = "th" if 10 < now.day < 14 else _ORDINAL_SUFFIXES.get(now.day % 10, "th")
        return f"{now.day}{suffix}"
    if code == "YYYY":
        return f"{now.year:04}"  # %Y has no leading zeros on Linux
    if code == "a":
        return now.strftime("%p").lower()
    if code in _DATE_FORMATS:
        return now.strftime(_DATE_FORMATS[code])
    return str(int(now.strftime(_DATE_FORMATS[code * 2])))  # without leading zero


_MAX_TITLE = 60
_LIST_MARKER = lazy_pattern(r"^[\s>#*+-]+|^\s*\d+[.)]\s+")
_KEY = lazy_pattern(r"[^\W\d][\w-]{0,59}")
_RESERVED_KEYS = frozenset(
    "id memid title type memorytype created modified path filepath etag supersedes".split()
)


def is_key(key: str) -> bool:
    """Return whether a text can be a key of a header."""
    return _KEY.fullmatch(key) is not None


def is_reserved(key: str) -> bool:
    """Return whether the vault sets a key of the header itself, ignoring case, _ and -."""
    return key.casefold().replace("_", "").replace("-", "") in _RESERVED_KEYS


def add(
    store: MemoryStore, title: str, content: str, memory_type: str, header: Mapping[str, Any]
) -> Memory:
    """Write a new memory with a new memId; ``header`` goes between the type and the times.

    Raises:
        UsageError: the title is empty, or the name of the type is invalid.
    """
    name = clean_title(title)
    kind = paths.normal_type(memory_type) if memory_type.strip() else FALLBACK_TYPE
    identity = {
        "id": paths.new_id(store.settings.detector.masked(name)),
        "memory_type": kind,
        "tags": [],
    }
    times = dict.fromkeys(("created", "modified"), clock.iso())
    return store.add(kind, name, {**identity, **header, **times}, content)


def clean_title(title: str) -> str:
    """Return a title on one line, without unprintable characters.

    Raises:
        UsageError: nothing remains of the title.
    """
    plain = plain_text(title)
    name = " ".join("".join(char for char in plain if char.isprintable() or char.isspace()).split())
    if not name:
        raise UsageError("The title is empty", "say in a few words what the memory is about")
    return name


def clean_tags(tags: list[str]) -> list[str]:
    """Return tags without leading hash signs and duplicates; blanks become hyphens.

    An entry that holds several tags is split.

    Raises:
        UsageError: a part of a nested tag is empty.
    """
    parts = [part for tag in tags for part in split_tags(tag)]
    cleaned = ("-".join(tag.lstrip("#").split()) for tag in parts)
    return list(dict.fromkeys(nested(tag) for tag in cleaned if tag))


def nested(tag: str) -> str:
    """Return a tag without slashes around it.

    Raises:
        UsageError: a part of the tag is empty.
    """
    stripped = tag.strip("/")
    if not all(stripped.split("/")):
        raise UsageError(
            f"{tag!r} cannot be a tag", "a tag is one word; / nests it, as in project/active"
        )
    return stripped


def title_of(text: str, max_length: int = _MAX_TITLE, detector: SecretDetector = BUILTIN) -> str:
    """Return a title made of the first words of a text.

    Secrets are masked first, because a secret that is cut would not be detected any more.

    Raises:
        UsageError: the text is empty.
    """
    masked = detector.masked(plain_text(text))
    lines = [line for line in masked.splitlines() if any(map(str.isalnum, line))]
    if not lines:
        raise UsageError("The text is empty", "say what is to be kept, in words")
    first = _LIST_MARKER.sub("", lines[0]).strip()
    title = clean_title(first[: next(sentence_ends(first), None)] or lines[0])
    if len(title) > max_length:
        short = title[: max_length + 1].rpartition(" ")[0]
        title = short if len(short) > max_length // 3 else title[:max_length]
    return title.rstrip(" .,;:") or title


def metadata_header(metadata: Mapping[str, Any], area: str | None) -> dict[str, Any]:
    """Return the header entries for the metadata and the area that a caller gives.

    Raises:
        UsageError: a key is invalid or is one that the vault sets itself, a value is not a string,
            a number, a boolean or a list of these, or two different areas are given.
    """
    header: dict[str, Any] = {}
    for key, value in metadata.items():
        if not is_key(key):
            raise UsageError(
                f"{key!r} cannot be a key of the metadata", "use letters, digits, - and _"
            )
        if is_reserved(key):
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
