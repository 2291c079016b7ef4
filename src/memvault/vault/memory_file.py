"""Parse a memory from the bytes of its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time, timedelta
from pathlib import PurePosixPath
from typing import Any

from memvault import clock
from memvault.model import (
    DOCUMENT,
    FALLBACK_TYPE,
    CommitTimes,
    DateSource,
    FileState,
    Memory,
)
from memvault.sanitize import replace_surrogates
from memvault.vault import header_dates, naming
from memvault.vault.date_ranges import dates_in_path
from memvault.vault.decoding import AUTO
from memvault.vault.document import Document, etag
from memvault.vault.markdown import first_heading, tags
from memvault.vault.names import normalize, tag_key

CommitTimesOf = Callable[[str, bytes], CommitTimes]
"""A function that returns git's times for a path in the vault with these bytes."""
UNREAD = "part of the front matter could not be read: "
"""The problem's prefix for a memory whose header has lines that are not YAML."""
_MAX_NAMED = 5


def read_memory(
    data: bytes,
    state: FileState,
    known_types: frozenset[str],
    encoding: str = AUTO,
    commit_times: CommitTimesOf | None = None,
) -> Memory:
    """Parse a memory from the bytes of any file.

    If the header has a git conflict, our side of it is used, so the memory keeps its id.
    ``commit_times`` is called only if the header lacks a time.
    """
    file = Document.parse(data, ours=True, encoding=encoding)
    problem = file.problem or file.decoded.problem
    if file.unread and not problem:
        lines = ", ".join(f"line {part.line}: {part.reason}" for part in file.unread[:_MAX_NAMED])
        problem = f"{UNREAD}{lines}"
    if file.in_conflict and not file.problem:
        problem = "it contains git conflict markers"
    metadata = file.header or {}
    path = PurePosixPath(state.path)
    title = title_of(metadata, file.parts.body, state.path)
    created, created_from, modified, modified_from = _times(metadata, data, state, commit_times)
    given_id = metadata.get("id")
    return Memory(
        path=state.path,
        mem_id=given_id
        if isinstance(given_id, str) and naming.is_mem_id(given_id)
        else naming.derived_id(state.path),
        title=title,
        memory_type=_memory_type(metadata, path, known_types),
        tags=_tags(metadata, file.parts.body),
        created=created,
        modified=modified,
        metadata=metadata,
        body=file.parts.body,
        etag=etag(data),
        problem=problem,
        newline=file.parts.newline,
        body_line=file.parts.body_line,
        created_from=created_from,
        modified_from=modified_from,
        type_folders=frozenset(
            name for name in path.parts[:-1] if normalize("NFC", name) in known_types
        ),
    )


def read_document(data: bytes, state: FileState) -> Memory:
    """Parse a document from its text as a markdown file.

    Its text has no tags. Its times count as if they were in a header, because the dates of commits
    do not say when a document was written.
    """
    memory = read_memory(data, state, frozenset())
    name = replace_surrogates(PurePosixPath(state.path).name)
    return memory._replace(
        title=" ".join(str(memory.metadata.get("title") or name).split()),
        memory_type=DOCUMENT,
        tags=(),
        created_from="header",
        modified_from="header",
    )


def _times(
    metadata: Mapping[str, Any],
    data: bytes,
    state: FileState,
    commit_times: CommitTimesOf | None,
) -> tuple[str, DateSource, str, DateSource]:
    """Return when a memory was created and modified, each followed by its source.

    The sources are, in order of preference, the header, for ``created`` also the date in the file
    name, git's commits, and the file's times. A time that is not from the header never puts
    ``modified`` before ``created``.
    """
    created, modified = (header_dates.time_in(metadata, role) for role in ("created", "modified"))
    created_from: DateSource = "header"
    modified_from: DateSource = "header"
    if created and modified:
        return created, created_from, modified, modified_from
    committed = CommitTimes() if commit_times is None else commit_times(state.path, data)
    if not modified:
        modified_from = "git" if committed.modified else "file"
        modified = max(committed.modified or clock.iso_from_ns(state.mtime), created)
    if not created:
        created = _day_in_name(state.path, modified)
        created_from = "name" if created else "git" if committed.created else "file"
        earliest = committed.created or clock.iso_from_ns(min(state.mtime, state.ctime))
        created = created or min(earliest, modified)
    return created, created_from, modified, modified_from


_FIRST_YEAR = 1970
_ONE_DAY = timedelta(days=1)
"""Upper bound on how long before midnight UTC a day can start in any time zone."""


def _day_in_name(path: str, latest: str) -> str:
    """Return the first day in a file name as a time; empty if it is not the day of creation.

    A note about a day before 1970, or after ``latest``, was created on another day.
    """
    days = dates_in_path(path)
    limit = clock.parse(latest) if days is not None and days.first.year >= _FIRST_YEAR else None
    if days is None or limit is None:
        return ""
    day = datetime.combine(days.first, time.min, UTC)
    return clock.iso(day) if day - _ONE_DAY <= limit else ""


def title_of(metadata: Mapping[str, Any], body: str, path: str) -> str:
    """Return a memory's title: from its header, its first heading, or its file name."""
    named = metadata.get("title")
    if isinstance(named, str | int | float) and not isinstance(named, bool) and str(named).strip():
        return " ".join(str(named).split())
    heading = first_heading(body)
    stem = PurePosixPath(path).stem
    return heading or " ".join(replace_surrogates(stem).split()) or "memory"


def _memory_type(
    metadata: Mapping[str, Any], path: PurePosixPath, known_types: frozenset[str]
) -> str:
    named = metadata.get("memory_type")
    if isinstance(named, str) and named.strip():
        return normalize("NFC", named.strip())
    folder = normalize("NFC", path.parts[0]) if len(path.parts) > 1 else ""
    return folder if folder in known_types else FALLBACK_TYPE


def _tags(metadata: Mapping[str, Any], body: str) -> tuple[str, ...]:
    """Return the header's tags, then of the text, deduplicated by key."""
    result = list(header_tags(metadata))
    seen = set(map(tag_key, result))
    for match in tags(body):
        tag = normalize("NFC", match[1].strip("/"))
        if tag_key(tag) not in seen:
            seen.add(tag_key(tag))
            result.append(tag)
    return tuple(result)


def header_tags(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags in a header."""
    named = map(tag_of_item, tag_items(metadata))
    return tuple(dict.fromkeys(tag for tag in named if tag))


def tag_items(metadata: Mapping[str, Any]) -> list[Any]:
    """Return the items of a header's list of tags, which may be of any type."""
    value = metadata.get("tags", metadata.get("tag"))
    if isinstance(value, str):
        return re.findall(r"[^,\s]+", value)
    if not isinstance(value, list):
        return [] if value is None else [value]
    return value


def tag_of_item(item: Any) -> str:
    """Return the tag in an item of a list of tags, or an empty string if the item is not a tag."""
    is_tag = item is not None and not isinstance(item, dict | list)
    return normalize("NFC", str(item).strip().lstrip("#")) if is_tag else ""
