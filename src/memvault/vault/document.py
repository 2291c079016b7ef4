"""Convert a file's bytes to a memory and back without loss."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import MemvaultError, Refused
from memvault.lazy_pattern import lazy_pattern
from memvault.model import FALLBACK_TYPE, CommitTimes, DateSource, FileState, Memory
from memvault.sanitize import replace_surrogates
from memvault.vault import header_dates, paths
from memvault.vault.file_names import dates_in_path, normalize, tag_key
from memvault.vault.front_matter import (
    FrontMatter,
    close_front_matter,
    dump_header,
    patch_header,
    patch_mapping,
    read_header,
    split_front_matter,
)
from memvault.vault.header_yaml import TEXT_KEYS, UnreadLines
from memvault.vault.markdown import first_heading, has_conflict_markers, keep_ours, tags, unwrapped

AUTO = "auto"
"""The setting that detects the encoding of a file that is not UTF-8."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_REPLACEMENT = "\ufffd"
_DAMAGED = lazy_pattern("[\udc80-\udcff]+|\ufffd")
"""Matches bytes that are not UTF-8, decoded with surrogates, and replacement characters."""
CommitTimesOf = Callable[[str, bytes], CommitTimes]
"""Returns the times that git has for a path in the vault whose file has these bytes."""
_BLANKS = " \t\r\n"
_MAX_CONTROLS = 8
"""Number of control characters that any text may hold, such as a NUL left by a crash."""


class DecodedText(NamedTuple):
    """A file's text, with its encoding and byte order mark so that it can be written back."""

    text: str
    encoding: str
    bom: bytes
    problem: str = ""
    damaged: tuple[bytes, ...] = ()
    """The bytes behind each replacement character of a text that is UTF-8 only in most parts."""

    def encode(self, text: str) -> bytes:
        """Encode another text in this file's encoding.

        Raises:
            Refused: the encoding has no such character.
        """
        parts = text.split(_REPLACEMENT) if self.damaged else []
        if len(parts) == len(self.damaged) + 1:  # else it cannot be known which is which
            others = (part.encode("utf-8", "replace") for part in parts[1:])
            pairs = zip(self.damaged, others, strict=True)
            return b"".join([parts[0].encode("utf-8", "replace"), *chain.from_iterable(pairs)])
        if self.encoding.startswith("utf"):  # a lone surrogate can only be replaced
            return self.bom + text.encode(self.encoding, "replace")
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Refused(
                f"The file is {self.encoding}, which has no {text[error.start]!r}",
                f"convert the file to UTF-8 first: iconv -f {self.encoding} -t UTF-8",
            ) from error


def etag(data: bytes) -> str:
    """Return the etag of these bytes, a hash."""
    import hashlib  # takes 2 ms to load

    return hashlib.blake2b(data, digest_size=10).hexdigest()


def decode(data: bytes, encoding: str = AUTO) -> DecodedText:
    """Decode bytes by their byte order mark, else as UTF-8, else in an encoding.

    ``auto``, or an encoding in which they are not a text, means the one that they probably have.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            try:
                return DecodedText(data[len(bom) :].decode(name), name, bom)
            except UnicodeDecodeError:
                break
    if _is_binary(data):
        return DecodedText("", "binary", b"", "the file is binary, not text")
    try:
        text = data.decode("utf-8")
        if b"\x1b$" not in data:
            return DecodedText(text, "utf-8", b"")
    except UnicodeDecodeError:
        text = ""
    from memvault.vault import encodings

    if text and not encodings.is_shifted(data):
        return DecodedText(text, "utf-8", b"")
    if encoding != AUTO:
        name = encodings.full_name(encoding)
        with contextlib.suppress(UnicodeDecodeError):
            return DecodedText(data.decode(name), name, b"")
    name = "iso2022_jp_2" if text else encodings.detect(data)
    if name == "utf-8":
        return _damaged_utf8(data)
    return DecodedText(data.decode(name), name, b"", f"not UTF-8, read as {name}")


def _damaged_utf8(data: bytes) -> DecodedText:
    """Decode bytes of which most are UTF-8, with a replacement character for each damaged part."""
    damaged: list[bytes] = []

    def replaced(match: re.Match[str]) -> str:
        damaged.append(match[0].encode("utf-8", "surrogateescape"))
        return _REPLACEMENT

    text = _DAMAGED.sub(replaced, data.decode("utf-8", "surrogateescape"))
    count = len(damaged)
    problem = f"not UTF-8 in {count:,} {'place' if count == 1 else 'places'}, read as utf-8"
    return DecodedText(text, "utf-8", b"", problem, tuple(damaged))


def _is_binary(data: bytes) -> bool:
    """Return whether bytes are binary; a text may hold a few control characters."""
    head = data[:65536]
    if b"\0" not in head:
        return False
    controls = sum(byte < 9 or 13 < byte < 27 for byte in head)
    mostly = controls * 2 > len(head)
    return mostly or (controls > _MAX_CONTROLS and controls * 100 > len(head))


_BROKEN = "broken front matter"
UNREAD = "front matter not read in part: "
"""The beginning of the problem of a memory whose header has lines that are not YAML."""
_MAX_NAMED = 5
_UNCLOSED = lazy_pattern(r"---[ \t]*\r?\n\w[\w-]*:")


class Document(NamedTuple):
    """A file's text, split into its header and body.

    ``header`` is None if there is none, or if it cannot be used for the reason in ``problem``; the
    body is the whole text then. ``unread`` are the lines of the header that are not YAML.
    """

    decoded: DecodedText
    parts: FrontMatter
    header: dict[str, Any] | None
    problem: str = ""
    unread: tuple[UnreadLines, ...] = ()

    @classmethod
    def parse(cls, data: bytes, ours: bool = False, encoding: str = AUTO) -> Document:
        """Parse a file's bytes, whatever they are; ``encoding`` is that of ``decode``.

        With ``ours``, our side of a git conflict in the header is used; otherwise such a header is
        broken.
        """
        decoded = decode(data, encoding)
        parts = split_front_matter(unwrapped(decoded.text) if ours else decoded.text)
        header, problem = None, decoded.problem if decoded.encoding == "binary" else ""
        unread: tuple[UnreadLines, ...] = ()
        if parts.before:
            try:
                found = read_header(keep_ours(parts.header) if ours else parts.header)
                header, unread = {**found.values}, found.unread
            except ValueError as error:
                problem = f"{_BROKEN}: {error}"
                parts = FrontMatter("", "", "", decoded.text)
        elif _UNCLOSED.match(decoded.text):
            problem = f"{_BROKEN}: no closing line, or it is longer than 256 KB"
        return cls(decoded, parts, header, problem, unread)

    @property
    def strict_problem(self) -> str:
        """The header's problem; if it has none, that of its first line that is not YAML."""
        if self.problem or not self.unread:
            return self.problem
        return f"{_BROKEN}: line {self.unread[0].line}: {self.unread[0].reason}"

    @property
    def text(self) -> str:
        """The body with LF line ends, without control characters and surrounding blank lines."""
        return plain_text(self.parts.body).strip("\n")

    @property
    def in_conflict(self) -> bool:
        """Whether the file has git conflict markers."""
        ours = keep_ours(self.parts.header)
        return ours != self.parts.header or has_conflict_markers(self.decoded.text)


_ID_LINE = lazy_pattern(
    r"^[\"']?id[\"']?[ \t]*:(?:[ \t]+([a-z][a-z0-9]*+-[a-z0-9-]*+)[ \t]*$)?", re.MULTILINE
)
"""Matches the line of an id in a header, with the id if it is in the plain form."""


def given_id(text: str) -> str:
    """Return the id that a text has in its header; empty if it has none that is valid."""
    end = text.find("\n---", 3) if text.startswith("---") else -1
    if end < 0 or (line := _ID_LINE.search(text, 3, end)) is None:  # as most have none
        return ""
    if (mem_id := line[1]) is None:  # not in the plain form
        try:
            mem_id = read_header(split_front_matter(text).header).values.get("id")
        except ValueError:
            return ""
    return mem_id if isinstance(mem_id, str) and paths.is_mem_id(mem_id) else ""


def body_of(data: bytes, encoding: str = AUTO) -> str:
    """Return the body in a file's bytes, without parsing its header."""
    return split_front_matter(decode(data, encoding).text).body


def read_memory(
    data: bytes,
    state: FileState,
    known_types: frozenset[str],
    encoding: str = AUTO,
    commit_times: CommitTimesOf | None = None,
) -> Memory:
    """Parse a memory from a file's bytes, whatever they are.

    If the header has a git conflict, our side of it is used, so that it remains the same memory.
    ``commit_times`` is called only if the header lacks a time.
    """
    file = Document.parse(data, ours=True, encoding=encoding)
    problem = file.problem or file.decoded.problem
    if file.unread and not problem:
        lines = ", ".join(f"line {part.line}: {part.reason}" for part in file.unread[:_MAX_NAMED])
        problem = f"{UNREAD}{lines}"
    if file.in_conflict and not file.problem:
        problem = "it holds the marks of a conflict in git"
    metadata = file.header or {}
    path = PurePosixPath(state.path)
    title = title_of(metadata, file.parts.body, state.path)
    times = _times(metadata, data, state, commit_times)
    given_id = metadata.get("id")
    return Memory(
        path=state.path,
        mem_id=given_id
        if isinstance(given_id, str) and paths.is_mem_id(given_id)
        else paths.derived_id(state.path),
        title=title,
        memory_type=_memory_type(metadata, path, known_types),
        tags=_tags(metadata, file.parts.body),
        created=times.created,
        modified=times.modified,
        metadata=metadata,
        body=file.parts.body,
        etag=etag(data),
        problem=problem,
        newline=file.parts.newline,
        body_line=file.parts.body_line,
        created_from=times.created_from,
        modified_from=times.modified_from,
    )


class _Times(NamedTuple):
    """A memory's times and their sources."""

    created: str
    created_from: DateSource
    modified: str
    modified_from: DateSource


def _times(
    metadata: Mapping[str, Any],
    data: bytes,
    state: FileState,
    commit_times: CommitTimesOf | None,
) -> _Times:
    """Return a memory's times, each from the best source that has it.

    These are the header, for ``created`` the date in the file name, git's commits, and the file's
    times. A time that is not from the header keeps ``created`` before ``modified``.
    """
    created, modified = (header_dates.time_in(metadata, role) for role in ("created", "modified"))
    created_from: DateSource = "header"
    modified_from: DateSource = "header"
    if created and modified:
        return _Times(created, created_from, modified, modified_from)
    committed = CommitTimes() if commit_times is None else commit_times(state.path, data)
    if not modified:
        modified_from = "git" if committed.modified else "file"
        modified = max(committed.modified or clock.iso_from_ns(state.mtime), created)
    if not created:
        created = _day_in_name(state.path, modified)
        created_from = "name" if created else "git" if committed.created else "file"
        earliest = committed.created or clock.iso_from_ns(min(state.mtime, state.ctime))
        created = created or min(earliest, modified)
    return _Times(created, created_from, modified, modified_from)


_FIRST_YEAR = 1970
_ONE_DAY = timedelta(days=1)
"""How long before midnight UTC a day may begin in the user's time zone, and more."""


def _day_in_name(path: str, latest: str) -> str:
    """Return the first day in a file name as a time; empty if the note was not created then.

    A note about a day before 1970, or after ``latest``, was created on another day.
    """
    days = dates_in_path(path)
    limit = clock.parse(latest) if days is not None and days.first.year >= _FIRST_YEAR else None
    if days is None or limit is None:
        return ""
    day = datetime.combine(days.first, time.min, UTC)
    return clock.iso(day) if day - _ONE_DAY <= limit else ""


def title_of(metadata: Mapping[str, Any], body: str, path: str) -> str:
    """Return a memory's title: that in its header, else its first heading, else its file name."""
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
    """Return the tags of the header, then of the text, deduplicated by key."""
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
    """Return the items of a header's list of tags, which may be anything."""
    value = metadata.get("tags", metadata.get("tag"))
    if isinstance(value, str):
        return re.findall(r"[^,\s]+", value)
    if not isinstance(value, list):
        return [] if value is None else [value]
    return value


def tag_of_item(item: Any) -> str:
    """Return the tag that an item of a list of tags stands for; empty if it is none."""
    is_tag = item is not None and not isinstance(item, dict | list)
    return normalize("NFC", str(item).strip().lstrip("#")) if is_tag else ""


def encode_new(header: Mapping[str, Any], body: str) -> bytes:
    """Encode a new memory: header, blank line, body, one line end.

    Raises as ``dump_header`` does.
    """
    return f"---\n{dump_header(header)}---\n\n{plain_text(body).strip(chr(10))}\n".encode()


def _decode_argument(text: str) -> str:
    """Return a text with bytes from the command line that are not UTF-8 read as Windows-1252."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        with contextlib.suppress(UnicodeError):
            return os.fsencode(text).decode("cp1252", "replace")
    return text


def plain_text(text: str) -> str:
    """Return a text with LF line ends and without control characters and lone surrogates."""
    unified = _decode_argument(text).replace("\r\n", "\n").replace("\r", "\n")
    if unified.isascii() and unified.isprintable():
        return unified
    return "".join(
        char for char in unified if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
    )


def edit(data: bytes, changes: Mapping[str, Any], body: str | None, encoding: str = AUTO) -> bytes:
    """Return a file's bytes with header keys set and, unless it is None, the body replaced.

    A file without a header gets one only if ``changes`` has values to set. It keeps its encoding,
    which ``decode`` finds with ``encoding``.

    Raises:
        Refused: the file is binary, its header is broken or cannot be patched, conflict markers of
            git would remain in it, or its encoding cannot represent the new text.
    """

    def patched(old: FrontMatter) -> str:
        return patch_header(old.header, changes, old.newline)

    return _edit(data, changes, body, patched, encoding)


def with_closing_line(data: bytes) -> bytes:
    """Return a file's bytes with a closing line below the last key of a header that lacks one."""
    text = decode(data)
    parts = close_front_matter(text.text) if _UNCLOSED.match(text.text) else None
    if parts is None or split_front_matter(text.text).before:
        return data
    closed = text.encode("".join(parts))
    header = Document.parse(closed).header or {}
    is_header = any(key in TEXT_KEYS or header_dates.is_time_key(key) for key in header)
    return closed if is_header else data


def with_lines(data: bytes, header: Mapping[str, Any]) -> bytes | None:
    """Add keys to a header that ``edit`` refuses to change; return the file's bytes.

    The keys become the header's first lines, or the whole header is rewritten from its values.
    Returns None if the file has no header.
    """
    text = decode(data)
    parts = split_front_matter(text.text)
    if not parts.before:
        return None
    with contextlib.suppress(MemvaultError, ValueError):
        lines = dump_header(header, parts.newline)
        added = text.encode("".join(parts._replace(header=lines + parts.header)))
        read = Document.parse(added, ours=True).header or {}
        if all(key in read for key in header):
            return added
        own = read_header(parts.header).values
        rewritten = dump_header({**own, **header}, parts.newline)
        return text.encode("".join(parts._replace(header=rewritten)))
    return None


def edit_entry(data: bytes, key: str, name: str, value: Any) -> bytes:
    """Return a file's bytes with one entry set in the mapping at a header key.

    Raises as ``edit`` does.
    """
    return _edit(
        data,
        {key: {name: value}},
        None,
        lambda old: patch_mapping(old.header, key, name, value, old.newline),
    )


def _edit(
    data: bytes,
    changes: Mapping[str, Any],
    body: str | None,
    patched: Callable[[FrontMatter], str],
    encoding: str = AUTO,
) -> bytes:
    text = decode(data, encoding)
    if text.encoding == "binary":
        raise Refused("The file is binary, not text", "edit it with the program that made it")
    parts = split_front_matter(text.text)
    if keep_ours(parts.header) != parts.header or (
        has_conflict_markers(text.text)
        and (
            unwrapped(text.text) != text.text
            or has_conflict_markers(parts.body if body is None else body)
        )
    ):
        raise Refused(
            "The file holds the marks of a conflict in git",
            "choose what is to stay in an editor, and take the marks away",
        )
    if parts.before:
        try:
            parts = parts._replace(header=patched(parts))
        except ValueError as error:
            raise Refused(
                f"The front matter is broken ({error})", "fix it in an editor first"
            ) from error
    elif values := {key: value for key, value in changes.items() if value is not None}:
        line = parts.newline
        header = dump_header(values, line)
        parts = FrontMatter(f"---{line}", header, f"---{line}{line}", parts.body)
    if body is not None:
        parts = parts._replace(body=body)
    edited = "".join(parts)
    fresh = text.encode(edited)
    is_kept = text.encoding.startswith("utf") or text.encode(text.text) == data
    if not is_kept or decode(fresh, encoding).text != replace_surrogates(edited):
        raise Refused(
            "The file would be read as something else after this edit",
            "convert the file to UTF-8 without control characters first",
        )
    return fresh
